//! The natural logarithm and log1p.

use super::super::body::{Body, FloatCond, NodeId, Op, ScalarType, Variant};
use super::Fx;

/// (log(1 + f) - f) / f^2 for 1 + f between sqrt(1/2) and sqrt(2).
const LOG_F32: &[f64] = &[
    -0.49999988079071045,
    0.33333325386047363,
    -0.2500160038471222,
    0.20002003014087677,
    -0.16608767211437225,
    0.14181137084960938,
    -0.13244542479515076,
    0.12909044325351715,
    -0.07623972743749619,
];

/// (atanh(s) / s - 1) / s^2 in powers of s^2, for s = f / (2 + f).
const ATANH_F64: &[f64] = &[
    0.3333333333333355,
    0.19999999999759163,
    0.14285714364897178,
    0.1111109951253393,
    0.09091787752456275,
    0.07656525997670603,
    0.07405866382640923,
];

const LN2_HI: (f64, f64) = (0.693145751953125, 0.6931471805598903);
const LN2_LO: (f64, f64) = (1.428606765330187e-06, 5.497923018708371e-14);

/// The bits of sqrt(1/2), where significands are cut.
const CUT: (i64, i64) = (0x3f35_04f3, 0x3fe6_a09e_667f_3bcd);

/// Exponent (an integer node, the value minus `bias`) and significand between sqrt(1/2) and sqrt(2) of a positive
/// normal number.
pub(super) fn split(fx: &mut Fx<'_>, x: NodeId) -> (NodeId, NodeId) {
    let bits = fx.bits(x);
    let cut = fx.int(if fx.double() { CUT.1 } else { CUT.0 });
    let above = fx.b.isub(bits, cut);
    let e = fx.b.ashr_imm(above, fx.mantissa());
    let field = fx.b.shl_imm(e, fx.mantissa());
    let significand = fx.b.isub(bits, field);
    let m = fx.float(significand);
    (e, m)
}

/// A small integer as a float of the scalar type.
pub(super) fn to_float(fx: &mut Fx<'_>, n: NodeId) -> NodeId {
    if !fx.double() {
        return fx.b.convert(Op::SToF, n, ScalarType::F32);
    }
    // The integer added to the bits of the anchor adds to its value.
    let anchor = fx.anchor();
    let bits = fx.int(anchor.to_bits() as i64);
    let sum = fx.b.iadd(n, bits);
    let sum = fx.float(sum);
    let anchor = fx.c(anchor);
    fx.sub(sum, anchor)
}

/// log(1 + f) + e ln 2 for 1 + f between sqrt(1/2) and sqrt(2).
fn combine(fx: &mut Fx<'_>, e: NodeId, f: NodeId) -> NodeId {
    let (hi, lo) = if fx.double() { (LN2_HI.1, LN2_LO.1) } else { (LN2_HI.0, LN2_LO.0) };
    let (hi, lo) = (fx.c(hi), fx.c(lo));
    let low = fx.mul(e, lo);
    if fx.double() {
        // With h = f^2 / 2: log(1 + f) = f - (h - s (h + 2 z A(z))).
        let two = fx.c(2.0);
        let bottom = fx.add(f, two);
        let s = fx.div(f, bottom);
        let z = fx.mul(s, s);
        let a = fx.poly(z, ATANH_F64);
        let z2 = fx.add(z, z);
        let half = fx.scale(f, 0.5);
        let h = fx.mul(f, half);
        let inner = fx.fma(z2, a, h);
        let inner = fx.fma(s, inner, low);
        let inner = fx.sub(h, inner);
        let value = fx.sub(f, inner);
        return fx.fma(e, hi, value);
    }
    let tail = fx.poly(f, LOG_F32);
    let square = fx.mul(f, f);
    let low = fx.fma(square, tail, low);
    let value = fx.add(f, low);
    fx.fma(e, hi, value)
}

/// The natural logarithm, at most 2 ULP.
pub fn log(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let (least, up, digits) =
        if fx.double() { (f64::MIN_POSITIVE, 2f64.powi(54), 54.0) } else { (2f64.powi(-126), 2f64.powi(25), 25.0) };
    let subnormal = fx.is(x, FloatCond::Lt, least);
    let scaled = fx.scale(x, up);
    let normal = fx.b.select(subnormal, scaled, x);
    let (e, m) = split(&mut fx, normal);
    let e = to_float(&mut fx, e);
    let (shift, zero) = (fx.c(digits), fx.c(0.0));
    let shift = fx.b.select(subnormal, shift, zero);
    let e = fx.sub(e, shift);
    let one = fx.c(1.0);
    let f = fx.sub(m, one);
    let value = combine(&mut fx, e, f);
    specials(&mut fx, x, x, value)
}

/// Sets right what is not a positive finite number: `x` is the argument of the logarithm, `same` what infinity and NaN
/// become.
fn specials(fx: &mut Fx<'_>, x: NodeId, same: NodeId, value: NodeId) -> NodeId {
    let finite = fx.is(x, FloatCond::Lt, f64::INFINITY);
    let value = fx.b.select(finite, value, same);
    let (nan, pole) = (fx.c(f64::NAN), fx.c(f64::NEG_INFINITY));
    let is_zero = fx.is(x, FloatCond::Eq, 0.0);
    let outside = fx.b.select(is_zero, pole, nan);
    let not_positive = fx.is(x, FloatCond::Le, 0.0);
    fx.b.select(not_positive, outside, value)
}

/// log(1 + x), at most 2 ULP.
pub fn log1p(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let one = fx.c(1.0);
    let (u, error) = fx.two_sum(one, x);
    let (e, m) = split(&mut fx, u);
    let f = fx.sub(m, one);
    // The error of 1 + x, divided by the power of two that u was: in two factors, as the power may be subnormal.
    let field = fx.b.shl_imm(e, fx.mantissa());
    let four = fx.int((fx.bias() + 2) << fx.mantissa());
    let inverse = fx.b.isub(four, field);
    let inverse = fx.float(inverse);
    let quarter = fx.scale(error, 0.25);
    let f = fx.fma(quarter, inverse, f);
    let e = to_float(&mut fx, e);
    let value = combine(&mut fx, e, f);
    let value = specials(&mut fx, u, x, value);
    let size = fx.b.fabs(x);
    let tiny = fx.is(size, FloatCond::Lt, if fx.double() { 1e-17 } else { 1e-8 });
    fx.b.select(tiny, x, value)
}
