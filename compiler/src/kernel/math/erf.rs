//! The error function.

use super::super::body::{Body, FloatCond, NodeId, Variant};
use super::Fx;
use super::exp::{one_minus_exp, parts};

/// -log(erfc(x)) / x - 1 up to 3.93.
const EXPONENT_F32: &[f64] = &[
    0.12837916612625122,
    0.636618971824646,
    0.10278572887182236,
    -0.019186267629265785,
    -0.00010982294043060392,
    0.001643177936784923,
    -0.0006454536342062056,
    0.0001348721416434273,
    -1.551985951664392e-05,
    7.70981614550692e-07,
];
/// erf(x) / x - 1 in powers of x^2, up to 0.9.
const NEAR_F64: &[f64] = &[
    0.1283791670955126,
    -0.37612638903183865,
    0.11283791670957974,
    -0.026866170645425135,
    0.005223977626597387,
    -0.0008548327001847097,
    0.00012055328895848325,
    -1.4925463685374792e-05,
    1.6457447574731653e-06,
    -1.6294600432627772e-07,
    1.4139447487569416e-08,
    -8.680297951413688e-10,
];
/// exp(x^2) erfc(x) = P(x) / Q(x) from 0.9 to 6.
const P_F64: &[f64] = &[
    0.9999999407071267,
    1.3761660035323833,
    0.9316847230623718,
    0.3629877098758952,
    0.080983041509017,
    0.008428147064684678,
];
const Q_F64: &[f64] = &[
    1.0,
    2.5045445094921996,
    2.757764072357186,
    1.7224877357154946,
    0.6509171317643615,
    0.14353405423922908,
    0.014938651938313598,
];

/// The error function, at most 4 ULP; for `F32` 3.
pub fn erf(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let value = if fx.double() { in_two_pieces(&mut fx, size) } else { as_exponential(&mut fx, size) };
    let sign = fx.sign_bits(x);
    fx.flip(value, sign)
}

/// erf of a positive number as 1 - exp(log(erfc(x))): log(erfc(x)) is smooth from 0 on, and small where x is.
fn as_exponential(fx: &mut Fx<'_>, size: NodeId) -> NodeId {
    let a = fx.at_most(size, 3.93);
    let p = fx.poly(a, EXPONENT_F32);
    let y = fx.fma(a, p, a);
    one_minus_exp(fx, y)
}

/// erf of a positive number: a polynomial up to 0.9, and 1 - exp(-x^2) P(x) / Q(x) from there.
fn in_two_pieces(fx: &mut Fx<'_>, size: NodeId) -> NodeId {
    let a = fx.at_most(size, 6.0);
    let z = fx.mul(a, a);
    let near = fx.poly(z, NEAR_F64);
    let near = fx.fma(a, near, a);
    let minus = fx.b.fneg(z);
    let (e, s) = parts(fx, minus);
    let e = fx.mul(e, s);
    let e = fx.mul(e, s);
    let p = fx.poly(a, P_F64);
    let q = fx.poly(a, Q_F64);
    let top = fx.mul(e, p);
    let rest = fx.div(top, q);
    let one = fx.c(1.0);
    let far = fx.sub(one, rest);
    let is_near = fx.is(a, FloatCond::Lt, 0.9);
    fx.b.select(is_near, near, far)
}
