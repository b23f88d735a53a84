//! The error function.

use super::super::body::{Body, FloatCond, NodeId, Variant};
use super::Fx;
use super::exp::parts;

/// erf(x) = x P(x^2) / Q(x^2) up to 3.93, for f32.
const P_F32: &[f64] = &[
    1.1283791065216064,
    0.19076763093471527,
    0.052787866443395615,
    0.0037788436748087406,
    0.0002847796422429383,
    2.041938842012314e-06,
];
const Q_F32: &[f64] = &[
    1.0,
    0.5023961067199707,
    0.11425057798624039,
    0.014995906502008438,
    0.0011650054948404431,
    3.8002235669409856e-05,
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

/// The error function, at most 4 ULP; for `F32` 7, for the reason given at [`super::tanh`].
pub fn erf(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    if !fx.double() {
        let x = fx.at_most(x, 3.93);
        let x = fx.at_least(x, -3.93);
        let z = fx.mul(x, x);
        let p = fx.poly(z, P_F32);
        let q = fx.poly(z, Q_F32);
        let top = fx.mul(x, p);
        let value = fx.div(top, q);
        // A unit more than one would make 1 + erf(-inf) negative.
        let value = fx.at_most(value, 1.0);
        return fx.at_least(value, -1.0);
    }
    let size = fx.b.fabs(x);
    let a = fx.at_most(size, 6.0);
    let z = fx.mul(a, a);
    let near = fx.poly(z, NEAR_F64);
    let near = fx.fma(a, near, a);
    let minus = fx.b.fneg(z);
    let (e, s) = parts(&mut fx, minus);
    let e = fx.mul(e, s);
    let e = fx.mul(e, s);
    let p = fx.poly(a, P_F64);
    let q = fx.poly(a, Q_F64);
    let top = fx.mul(e, p);
    let rest = fx.div(top, q);
    let one = fx.c(1.0);
    let far = fx.sub(one, rest);
    let is_near = fx.is(a, FloatCond::Lt, 0.9);
    let value = fx.b.select(is_near, near, far);
    let sign = fx.sign_bits(x);
    fx.flip(value, sign)
}
