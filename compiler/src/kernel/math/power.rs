//! Roots and powers.

use super::super::body::{Body, FloatCond, NodeId, Op, ScalarType, Variant};
use super::Fx;
use super::exp::{least, parts};
use super::log::{split, to_float};

/// log2((1 + s) / (1 - s)) / s in powers of s^2, to 37 bits.
const LOG2: &[f64] =
    &[2.8853900817901534, 0.9617966732596837, 0.577083601052743, 0.4116717205711451, 0.3407492325101987];
/// 2 to the power r on [-1/2, 1/2], to 29 bits.
const EXP2: &[f64] = &[
    1.0000000005640228,
    0.6931472060344068,
    0.24022646841387701,
    0.05550328124332558,
    0.009618492042224506,
    0.00134001952091199,
    0.00015345547646411105,
];
/// What follows 1 + z / 3 in atanh(s) / s, divided by z^2, in powers of z = s^2.
const ATANH_TAIL: &[f64] = &[
    0.19999999999999998,
    0.14285714285716553,
    0.11111111110155876,
    0.09090909275491756,
    0.0769228856778585,
    0.0666779780673443,
    0.05844174694275501,
    0.05942535157966534,
];

/// The cube root, at most 2 ULP.
pub fn cbrt(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    // Away from both ends of the range, by a cube.
    let (up, back) = if fx.double() { (2f64.powi(54), 2f64.powi(-18)) } else { (2f64.powi(24), 2f64.powi(-8)) };
    let below = fx.is(size, FloatCond::Lt, 1.0);
    let (grow, shrink) = (fx.c(up), fx.c(1.0 / up));
    let scale = fx.b.select(below, grow, shrink);
    let a = fx.mul(size, scale);
    // The exponent field times -1/3, with the fraction taken for a linear function, starts x^(-1/3) within 4%.
    let bits = fx.bits(a);
    let start = if fx.double() {
        let high = fx.b.lshr_imm(bits, 32);
        let high = to_float(&mut fx, high);
        let third = fx.c(-1.0 / 3.0);
        let offset = fx.anchor() + (4.0 / 3.0 * (1023.0 - 0.0433) * 1048576.0f64).round();
        let offset = fx.c(offset);
        let sum = fx.fma(high, third, offset);
        let sum = fx.bits(sum);
        fx.b.shl_imm(sum, 32)
    } else {
        let value = fx.b.convert(Op::SToF, bits, ScalarType::F32);
        let third = fx.c(-1.0 / 3.0);
        let offset = fx.c(4.0 / 3.0 * (127.0 - 0.0433) * 8388608.0);
        let sum = fx.fma(value, third, offset);
        fx.b.convert(Op::FToSFast, sum, ScalarType::I32)
    };
    let mut y = fx.float(start);
    // Newton's steps toward a^(-1/3): y (4 - a y^3) / 3.
    let third = fx.scale(a, -1.0 / 3.0);
    let four_thirds = fx.c(4.0 / 3.0);
    for _ in 0..if fx.double() { 4 } else { 3 } {
        let square = fx.mul(y, y);
        let part = fx.mul(third, y);
        let factor = fx.fma(part, square, four_thirds);
        y = fx.mul(y, factor);
    }
    // c = a y^2, and one correction by the exact remainder: c + (a - c^3) y^2 / 3.
    let square = fx.mul(y, y);
    let c = fx.mul(a, square);
    let (h, e) = fx.two_product(c, c);
    let (g, f) = fx.two_product(h, c);
    let r = fx.sub(a, g);
    let r = fx.sub(r, f);
    let ec = fx.mul(e, c);
    let r = fx.sub(r, ec);
    let slope = fx.scale(square, 1.0 / 3.0);
    let c = fx.fma(r, slope, c);
    let (back, forth) = (fx.c(back), fx.c(1.0 / back));
    let back = fx.b.select(below, back, forth);
    let c = fx.mul(c, back);
    let sign = fx.sign_bits(x);
    let c = fx.flip(c, sign);
    let finite = fx.is(size, FloatCond::Lt, f64::INFINITY);
    let nonzero = fx.is(size, FloatCond::Gt, 0.0);
    let usual = fx.b.and(finite, nonzero);
    fx.b.select(usual, c, x)
}

/// x to the power y, at most 2 ULP, with the special cases of IEEE 754 `pow`.
pub fn pow(b: &mut Body, v: Variant, x: NodeId, y: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let value = if fx.double() { pow_double(&mut fx, size, y) } else { pow_single(&mut fx, size, y) };
    // |x| to the power y is known but where the logarithm is zero; then the sign, and NaN for roots of negatives.
    let one = fx.c(1.0);
    let is_one = fx.is(size, FloatCond::Eq, 1.0);
    let ordered = fx.b.fcmp(FloatCond::Eq, y, y);
    let unit = fx.b.and(is_one, ordered);
    let value = fx.b.select(unit, one, value);
    let whole = fx.b.nearest(y);
    let is_whole = fx.b.fcmp(FloatCond::Eq, whole, y);
    let half = fx.scale(y, 0.5);
    let whole_half = fx.b.nearest(half);
    let is_not_even = fx.b.fcmp(FloatCond::Ne, whole_half, half);
    let odd = fx.b.and(is_whole, is_not_even);
    let sign = fx.sign_bits(x);
    let zero = fx.int(0);
    let sign = fx.b.select(odd, sign, zero);
    let value = fx.flip(value, sign);
    let negative = fx.is(x, FloatCond::Lt, 0.0);
    let finite = fx.is(size, FloatCond::Lt, f64::INFINITY);
    let fraction = fx.b.not(is_whole);
    let bad = fx.b.and(negative, finite);
    let bad = fx.b.and(bad, fraction);
    let nan = fx.c(f64::NAN);
    let value = fx.b.select(bad, nan, value);
    // 1 to any power and anything to the power 0 are 1, NaN included.
    let base_one = fx.is(x, FloatCond::Eq, 1.0);
    let power_zero = fx.is(y, FloatCond::Eq, 0.0);
    let certain = fx.b.or(base_one, power_zero);
    fx.b.select(certain, one, value)
}

/// |x| to the power y through the base-2 logarithm in `F64`.
fn pow_single(fx: &mut Fx<'_>, size: NodeId, y: NodeId) -> NodeId {
    let wide = fx.b.convert(Op::Promote, size, ScalarType::F64);
    let y = fx.b.convert(Op::Promote, y, ScalarType::F64);
    let mut w = Fx { b: &mut *fx.b, v: fx.v, scalar: ScalarType::F64 };
    let (e, m) = split(&mut w, wide);
    let e = to_float(&mut w, e);
    let one = w.c(1.0);
    let (f, d) = (w.sub(m, one), w.add(m, one));
    let s = w.div(f, d);
    let z = w.mul(s, s);
    let p = w.poly(z, LOG2);
    let log = w.fma(s, p, e);
    let log = log_specials(&mut w, wide, log);
    let t = w.mul(y, log);
    let t = w.at_most(t, 300.0);
    let t = w.at_least(t, -300.0);
    let anchor = w.anchor();
    let anchor = w.c(anchor);
    let shifted = w.add(t, anchor);
    let n = w.sub(shifted, anchor);
    let r = w.sub(t, n);
    let p = w.poly(r, EXP2);
    let bits = w.bits(shifted);
    let field = w.b.shl_imm(bits, 52);
    let bits = w.bits(p);
    let bits = w.b.iadd(bits, field);
    let value = w.float(bits);
    // NaN does not survive the integer sum.
    let is_nan = w.b.fcmp(FloatCond::Uno, t, t);
    let value = w.b.select(is_nan, t, value);
    fx.b.convert(Op::Demote, value, ScalarType::F32)
}

/// The logarithms of zero and infinity; NaN stays NaN.
fn log_specials(fx: &mut Fx<'_>, x: NodeId, log: NodeId) -> NodeId {
    let (pole, infinity) = (fx.c(f64::NEG_INFINITY), fx.c(f64::INFINITY));
    let is_zero = fx.is(x, FloatCond::Eq, 0.0);
    let log = fx.b.select(is_zero, pole, log);
    let finite = fx.b.fcmp(FloatCond::Lt, x, infinity);
    fx.b.select(finite, log, x)
}

/// |x| to the power y through a logarithm of twice the precision.
fn pow_double(fx: &mut Fx<'_>, size: NodeId, y: NodeId) -> NodeId {
    let subnormal = fx.is(size, FloatCond::Lt, f64::MIN_POSITIVE);
    let scaled = fx.scale(size, 2f64.powi(54));
    let normal = fx.b.select(subnormal, scaled, size);
    let (e, m) = split(fx, normal);
    let e = to_float(fx, e);
    let (shift, zero, one) = (fx.c(54.0), fx.c(0.0), fx.c(1.0));
    let shift = fx.b.select(subnormal, shift, zero);
    let e = fx.sub(e, shift);
    // s + s_low = (m - 1) / (m + 1)
    let f = fx.sub(m, one);
    let (d, d_low) = fx.two_sum(m, one);
    let inverse = fx.div(one, d);
    let s = fx.mul(f, inverse);
    let (sd, sd_low) = fx.two_product(s, d);
    let r = fx.sub(f, sd);
    let r = fx.sub(r, sd_low);
    let part = fx.mul(s, d_low);
    let r = fx.sub(r, part);
    let s_low = fx.mul(r, inverse);
    // w + w_low = z / 3 + z^2 (1/5 + ..), z = s^2
    let (z, z_low) = fx.two_product(s, s);
    let twice = fx.add(s, s);
    let z_low = fx.fma(twice, s_low, z_low);
    let (third, third_low) = (fx.c(1.0 / 3.0), fx.c(1.850371707708594e-17));
    let (a, a_low) = fx.two_product(z, third);
    let a_low = fx.fma(z, third_low, a_low);
    let a_low = fx.fma(z_low, third, a_low);
    let tail = fx.poly(z, ATANH_TAIL);
    let square = fx.mul(z, z);
    let tail = fx.mul(square, tail);
    let (w, w_low) = fx.fast_two_sum(a, tail);
    let w_low = fx.add(w_low, a_low);
    // u + u_low = s (1 + w)
    let (p, p_low) = fx.two_product(s, w);
    let low = fx.fma(s, w_low, p_low);
    let low = fx.fma(s_low, w, low);
    let low = fx.add(low, s_low);
    let (u, u_low) = fx.fast_two_sum(s, p);
    let u_low = fx.add(u_low, low);
    // log x = e ln 2 + 2 u
    let (ln2, ln2_low) = (fx.c(0.6931471805598903), fx.c(5.497923018708371e-14));
    let big = fx.mul(e, ln2);
    let (u2, u2_low) = (fx.add(u, u), fx.add(u_low, u_low));
    let (l, l_low) = fx.fast_two_sum(big, u2);
    let part = fx.fma(e, ln2_low, u2_low);
    let l_low = fx.add(l_low, part);
    let (l, l_low) = fx.fast_two_sum(l, l_low);
    let plain = l;
    let l = log_specials(fx, size, l);
    let usual = fx.b.fcmp(FloatCond::Eq, l, plain);
    // t + t_low = y log x; beyond the range only the sign of t counts.
    let (t, t_low) = fx.two_product(y, l);
    let t_low = fx.fma(y, l_low, t_low);
    let t_size = fx.b.fabs(t);
    let small = fx.is(t_size, FloatCond::Lt, 760.0);
    let small = fx.b.and(small, usual);
    let t_low = fx.b.select(small, t_low, zero);
    let t = fx.at_most(t, 711.0);
    let t = fx.at_least(t, least(fx));
    let (p, s) = parts(fx, t);
    let p = fx.fma(p, t_low, p);
    let value = fx.mul(p, s);
    fx.mul(value, s)
}
