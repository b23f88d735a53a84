//! The exponential and what is made of it: expm1, logistic, tanh.

use super::super::body::{Body, FloatCond, NodeId, Variant};
use super::Fx;

/// exp(r) on [-ln 2, ln 2].
const EXP_F32: &[f64] = &[
    1.0,
    1.0,
    0.500000536441803,
    0.16666650772094727,
    0.04165967181324959,
    0.008333227597177029,
    0.0014132190262898803,
    0.00020092098566237837,
];
const EXP_F64: &[f64] = &[
    1.0,
    1.0,
    0.49999999999999917,
    0.16666666666666663,
    0.041666666666709186,
    0.008333333333335673,
    0.001388888888260497,
    0.00019841269837522416,
    2.480159133460901e-05,
    2.755732173715093e-06,
    2.7556047035011755e-07,
    2.5051292351514915e-08,
    2.1071061043130212e-09,
    1.6186366438932374e-10,
];

/// (exp(r) - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2].
const EXPM1_F32: &[f64] =
    &[0.4999999701976776, 0.16666541993618011, 0.04166749492287636, 0.008366730995476246, 0.001386551302857697];
const EXPM1_F64: &[f64] = &[
    0.5,
    0.16666666666666677,
    0.04166666666666661,
    0.008333333333321388,
    0.0013888888888923825,
    0.0001984126988681686,
    2.4801587237638835e-05,
    2.755724344117925e-06,
    2.7557352557189785e-07,
    2.510932871003842e-08,
    2.088970206551838e-09,
];

/// ln 2 with few enough bits that its multiples by exponents are exact, and the rest.
const LN2_HI: (f64, f64) = (0.693145751953125, 0.6931471805598903);
const LN2_LO: (f64, f64) = (1.428606765330187e-06, 5.497923018708371e-14);

/// tanh(x) = x P(x^2) / Q(x^2) on [0, 9.02], for f32.
const TANH_P: &[f64] = &[0.13382688164710999, 0.003497457830235362, 2.0635825421777554e-05, 1.3384295449725414e-08];
const TANH_Q: &[f64] = &[1.0, 0.46716007590293884, 0.025884361937642097, 0.0003288517764303833, 7.790250720063341e-07];

/// An x so small that the `s` of [`parts`] is zero for it, and all results below it are. Of those, which masks of attention are full of,
/// no product is one that underflows: it would take some machines fifty cycles.
pub(super) fn least(fx: &Fx<'_>) -> f64 {
    if fx.double() { -1418.0 } else { -176.0 }
}

/// `p` and `s` with exp(x) = p s s: p is between 1/2 and 2, s a power of two that is normal for |x| up to the limits
/// of the result's range. Halving the exponent keeps both factors normal where the result is not.
pub(super) fn parts(fx: &mut Fx<'_>, x: NodeId) -> (NodeId, NodeId) {
    let anchor = fx.anchor() + fx.bias() as f64;
    let half_log2e = fx.c(0.5 * std::f64::consts::LOG2_E);
    let anchored = fx.c(anchor);
    let shifted = fx.fma(x, half_log2e, anchored);
    let n = fx.sub(shifted, anchored);
    let (hi, lo) = if fx.double() { (LN2_HI.1, LN2_LO.1) } else { (LN2_HI.0, LN2_LO.0) };
    let r = fx.minus_multiple(x, n, 2.0 * hi);
    let r = fx.minus_multiple(r, n, 2.0 * lo);
    let p = fx.poly2(r, EXP_F32, EXP_F64);
    // The anchor's own bits leave through the top: what is left is the biased exponent.
    let bits = fx.bits(shifted);
    let bits = fx.b.shl_imm(bits, fx.mantissa());
    let s = fx.float(bits);
    (p, s)
}

/// e to the power x, at most 2 ULP.
pub fn exp(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let x = fx.at_least(x, least(&fx));
    let x = fx.at_most(x, if fx.double() { 710.0 } else { 89.0 });
    let (p, s) = parts(&mut fx, x);
    let part = fx.mul(p, s);
    fx.mul(part, s)
}

/// exp(x) - 1, at most 2 ULP.
pub fn expm1(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let (low, high) = if fx.double() { (-40.0, 710.0) } else { (-20.0, 89.0) };
    let limited = fx.at_least(x, low);
    let limited = fx.at_most(limited, high);
    let value = expm1_limited(&mut fx, limited);
    // Where x is tiny the result is x, subnormal numbers and -0 included.
    let size = fx.b.fabs(x);
    let tiny = fx.is(size, FloatCond::Lt, if fx.double() { 1e-18 } else { 1e-9 });
    fx.b.select(tiny, x, value)
}

/// exp(x) - 1 for x between about -40 and the overflow threshold; not for tiny x.
pub(super) fn expm1_limited(fx: &mut Fx<'_>, x: NodeId) -> NodeId {
    // The exponent is one too small, so that the factor stays finite for the largest results.
    let anchor = fx.anchor() + fx.bias() as f64 - 1.0;
    let log2e = fx.c(std::f64::consts::LOG2_E);
    let anchored = fx.c(anchor);
    let shifted = fx.fma(x, log2e, anchored);
    let n = fx.sub(shifted, anchored);
    let (hi, lo) = if fx.double() { (LN2_HI.1, LN2_LO.1) } else { (LN2_HI.0, LN2_LO.0) };
    let r = fx.minus_multiple(x, n, hi);
    let r = fx.minus_multiple(r, n, lo);
    let tail = fx.poly2(r, EXPM1_F32, EXPM1_F64);
    let square = fx.mul(r, r);
    let q = fx.fma(square, tail, r);
    let bits = fx.bits(shifted);
    let bits = fx.b.shl_imm(bits, fx.mantissa());
    let s = fx.float(bits);
    let half = fx.c(0.5);
    let base = fx.sub(s, half);
    let sum = fx.fma(s, q, base);
    fx.add(sum, sum)
}

/// 1 / (1 + exp(-x)), at most 3 ULP.
pub fn logistic(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    // With e = exp(-|x|) nothing overflows: e / (1 + e) on the left, 1 / (1 + e) on the right.
    let size = fx.b.fabs(x);
    let minus = fx.b.fneg(size);
    let minus = fx.at_least(minus, least(&fx));
    let (p, s) = parts(&mut fx, minus);
    let e = fx.mul(p, s);
    let e = fx.mul(e, s);
    let one = fx.c(1.0);
    let negative = fx.is(x, FloatCond::Lt, 0.0);
    let top = fx.b.select(negative, e, one);
    let bottom = fx.add(one, e);
    fx.div(top, bottom)
}

/// The hyperbolic tangent, at most 4 ULP; for `F32` 6: where it nears one, numerator and denominator each
/// bring their own roundings, and that is the price of thirteen nodes.
pub fn tanh(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    if fx.double() {
        // (exp(2x) - 1) / (exp(2x) + 1), from exp(2|x|) - 1.
        let size = fx.b.fabs(x);
        let limited = fx.at_most(size, 22.0);
        let twice = fx.add(limited, limited);
        let t = expm1_limited(&mut fx, twice);
        let two = fx.c(2.0);
        let bottom = fx.add(t, two);
        let value = fx.div(t, bottom);
        let sign = fx.sign_bits(x);
        let value = fx.flip(value, sign);
        let tiny = fx.is(size, FloatCond::Lt, 1e-9);
        return fx.b.select(tiny, x, value);
    }
    let x = fx.at_most(x, 9.02);
    let x = fx.at_least(x, -9.02);
    let z = fx.mul(x, x);
    let p = fx.poly(z, TANH_P);
    let q = fx.poly(z, TANH_Q);
    let cube = fx.mul(x, z);
    let top = fx.fma(cube, p, x);
    let value = fx.div(top, q);
    // A unit more than one would make 1 + tanh(-inf) negative.
    let value = fx.at_most(value, 1.0);
    fx.at_least(value, -1.0)
}
