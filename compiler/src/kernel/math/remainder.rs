//! The exact remainder of a division, with the sign of the dividend.
//!
//! For `F32`, in `F64`: multiples of the divisor times 2^48, 2^96, .. are taken off, largest first; each quotient is an
//! integer below 2^50, so that the difference is exact. For `F64` the exponents may differ by two thousand: with
//! both significands as integers, 2^d modulo the divisor comes from six squarings.

use super::super::body::{Body, FloatCond, IntCond, NodeId, Op, ScalarType, Variant};
use super::Fx;
use super::log::to_float;
use super::rounding::copysign;

/// x - y trunc(x / y), exact; NaN where y is zero or x infinite.
pub fn remainder(b: &mut Body, v: Variant, x: NodeId, y: NodeId) -> NodeId {
    if b.scalar(x) == ScalarType::F64 {
        return remainder_double(b, v, x, y);
    }
    let size = b.fabs(x);
    let mut r = b.convert(Op::Promote, size, ScalarType::F64);
    let divisor = b.fabs(y);
    let divisor = b.convert(Op::Promote, divisor, ScalarType::F64);
    let mut fx = Fx::new(b, v, r);
    // An infinite divisor is just a large one.
    let divisor = fx.at_most(divisor, 2f64.powi(200));
    let one = fx.c(1.0);
    let inverse = fx.div(one, divisor);
    // Without FMA the product of quotient and divisor must fit: 28 bits with 24.
    let step = if v == Variant::Fma { 48 } else { 28 };
    for k in (0..=277 / step).rev() {
        let scale = 2f64.powi(k * step);
        let multiple = fx.scale(divisor, scale);
        let part = fx.scale(inverse, 1.0 / scale);
        let quotient = fx.mul(r, part);
        let quotient = fx.b.nearest(quotient);
        let minus = fx.b.fneg(quotient);
        r = fx.fma(minus, multiple, r);
    }
    let more = fx.add(r, divisor);
    let negative = fx.is(r, FloatCond::Lt, 0.0);
    let r = fx.b.select(negative, more, r);
    let r = b.convert(Op::Demote, r, ScalarType::F32);
    copysign(b, r, x)
}

/// c - q * m, where the result is an integer of 53 bits.
fn take_off(fx: &mut Fx<'_>, c: NodeId, m: NodeId, inverse: NodeId) -> NodeId {
    let q = fx.mul(c, inverse);
    let q = fx.b.nearest(q);
    if fx.v == Variant::Fma {
        let minus = fx.b.fneg(q);
        return fx.b.fma(minus, m, c);
    }
    let (p, e) = fx.two_product(q, m);
    let d = fx.sub(c, p);
    fx.sub(d, e)
}

/// a * b modulo m, doubled where the mask is set; between -m/2 and m/2, nearly.
fn multiply_modulo(
    fx: &mut Fx<'_>,
    a: NodeId,
    b: NodeId,
    m: NodeId,
    inverse: NodeId,
    doubled: Option<NodeId>,
) -> NodeId {
    let (p, e) = fx.two_product(a, b);
    let r = take_off(fx, p, m, inverse);
    let r = take_off(fx, r, m, inverse);
    let mut r = fx.add(r, e);
    if let Some(mask) = doubled {
        let twice = fx.add(r, r);
        r = fx.b.select(mask, twice, r);
    }
    take_off(fx, r, m, inverse)
}

/// The significand as an integer of 53 bits (a float) and the exponent field it belongs to.
fn unpack(fx: &mut Fx<'_>, x: NodeId) -> (NodeId, NodeId) {
    let subnormal = fx.is(x, FloatCond::Lt, f64::MIN_POSITIVE);
    let scaled = fx.scale(x, 2f64.powi(54));
    let normal = fx.b.select(subnormal, scaled, x);
    let bits = fx.bits(normal);
    let fraction = fx.int((1 << 52) - 1);
    let fraction = fx.b.and(bits, fraction);
    let unit = fx.int(0x433 << 52);
    let significand = fx.b.or(fraction, unit);
    let significand = fx.float(significand);
    let exponent = fx.b.lshr_imm(bits, 52);
    let exponent = to_float(fx, exponent);
    let (shift, zero) = (fx.c(54.0), fx.c(0.0));
    let shift = fx.b.select(subnormal, shift, zero);
    (significand, fx.sub(exponent, shift))
}

fn remainder_double(b: &mut Body, v: Variant, x: NodeId, y: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let (size, divisor) = (fx.b.fabs(x), fx.b.fabs(y));
    let ((xs, xe), (m, me)) = (unpack(&mut fx, size), unpack(&mut fx, divisor));
    let one = fx.c(1.0);
    let inverse = fx.div(one, m);
    let distance = fx.sub(xe, me);
    let limited = fx.at_least(distance, 0.0);
    let anchor = fx.anchor();
    let anchor = fx.c(anchor);
    let anchored = fx.add(limited, anchor);
    let d = fx.bits(anchored);
    let mask = fx.int(4095);
    let d = fx.b.and(d, mask);
    // 2^d: its leading bits make a power of two that is small enough, six squarings do the rest.
    let top = fx.b.lshr_imm(d, 6);
    let bias = fx.int(1023);
    let top = fx.b.iadd(top, bias);
    let top = fx.b.shl_imm(top, 52);
    let mut power = fx.float(top);
    for bit in (0..6).rev() {
        let unit = fx.int(1 << bit);
        let set = fx.b.and(d, unit);
        let set = fx.b.icmp(IntCond::Eq, set, unit);
        power = multiply_modulo(&mut fx, power, power, m, inverse, Some(set));
    }
    let xs = take_off(&mut fx, xs, m, inverse);
    let r = multiply_modulo(&mut fx, xs, power, m, inverse, None);
    let more = fx.add(r, m);
    let negative = fx.is(r, FloatCond::Lt, 0.0);
    let r = fx.b.select(negative, more, r);
    // Back to the divisor's exponent, in two steps: the power of two itself may be out of range.
    let k = fx.add(me, anchor);
    let k = fx.bits(k);
    let k = fx.b.shl_imm(k, 32);
    let k = fx.b.ashr_imm(k, 32);
    let offset = fx.int(1075);
    let k = fx.b.isub(k, offset);
    let high = fx.b.ashr_imm(k, 1);
    let low = fx.b.isub(k, high);
    let mut r = r;
    for part in [high, low] {
        let field = fx.b.iadd(part, bias);
        let field = fx.b.shl_imm(field, 52);
        let factor = fx.float(field);
        r = fx.mul(r, factor);
    }
    // A smaller dividend stays; infinite dividends, zero divisors and NaN give NaN.
    let smaller = fx.b.fcmp(FloatCond::Lt, size, divisor);
    let r = fx.b.select(smaller, size, r);
    let finite = fx.is(size, FloatCond::Lt, f64::INFINITY);
    let some = fx.is(divisor, FloatCond::Gt, 0.0);
    let good = fx.b.and(finite, some);
    let nan = fx.c(f64::NAN);
    let r = fx.b.select(good, r, nan);
    copysign(b, r, x)
}
