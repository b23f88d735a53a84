//! Hyperbolic sine and cosine, and the inverse functions.

use super::super::body::{Body, FloatCond, NodeId, Variant};
use super::Fx;
use super::exp::parts;
use super::log::log1p;

/// (sinh(t) / t - 1) / t^2 in powers of t^2, up to 1.
const SINH_F32: &[f64] = &[0.1666666716337204, 0.008333317004144192, 0.00019841142056975514, 2.7934481749980478e-06];
const SINH_F64: &[f64] = &[
    0.16666666666666669,
    0.008333333333332959,
    0.00019841269841546218,
    2.7557319124084425e-06,
    2.5052128036622273e-08,
    1.6056898419369197e-10,
    7.769218223546555e-13,
];

/// exp(|x|) / 2 and exp(-|x|) / 2.
fn halves(fx: &mut Fx<'_>, size: NodeId) -> (NodeId, NodeId) {
    let limit = if fx.double() { 711.0 } else { 90.0 };
    let limited = fx.at_most(size, limit);
    let (p, s) = parts(fx, limited);
    let left = fx.mul(p, s);
    let right = fx.scale(s, 0.5);
    let grown = fx.mul(left, right);
    let quarter = fx.c(0.25);
    let shrunk = fx.div(quarter, grown);
    (grown, shrunk)
}

/// The hyperbolic sine, at most 3 ULP.
pub fn sinh(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let (grown, shrunk) = halves(&mut fx, size);
    let far = fx.sub(grown, shrunk);
    let sign = fx.sign_bits(x);
    let far = fx.flip(far, sign);
    let z = fx.mul(x, x);
    let p = fx.poly2(z, SINH_F32, SINH_F64);
    let cube = fx.mul(x, z);
    let near = fx.fma(cube, p, x);
    let is_near = fx.is(size, FloatCond::Lt, 1.0);
    fx.b.select(is_near, near, far)
}

/// The hyperbolic cosine, at most 3 ULP.
pub fn cosh(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let (grown, shrunk) = halves(&mut fx, size);
    fx.add(grown, shrunk)
}

/// Where squares would overflow and 1 no longer counts: `near` below, log(size) + log 2 above.
fn log1p_or_far(fx: &mut Fx<'_>, size: NodeId, near: NodeId) -> NodeId {
    let limit = if fx.double() { 2f64.powi(500) } else { 2f64.powi(60) };
    let far = fx.is(size, FloatCond::Gt, limit);
    let argument = fx.b.select(far, size, near);
    let value = log1p(fx.b, fx.v, argument);
    let (zero, ln2) = (fx.c(0.0), fx.c(std::f64::consts::LN_2));
    let shift = fx.b.select(far, ln2, zero);
    fx.add(value, shift)
}

/// The inverse hyperbolic sine, at most 4 ULP.
pub fn asinh(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    // log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1)))
    let one = fx.c(1.0);
    let square = fx.mul(size, size);
    let root = fx.add(square, one);
    let root = fx.b.sqrt(root);
    let bottom = fx.add(one, root);
    let part = fx.div(square, bottom);
    let near = fx.add(size, part);
    let value = log1p_or_far(&mut fx, size, near);
    let sign = fx.sign_bits(x);
    fx.flip(value, sign)
}

/// The inverse hyperbolic cosine, at most 4 ULP; NaN below 1.
pub fn acosh(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let (one, two, nan) = (fx.c(1.0), fx.c(2.0), fx.c(f64::NAN));
    let t = fx.sub(x, one);
    let sum = fx.add(t, two);
    let product = fx.mul(t, sum);
    let root = fx.b.sqrt(product);
    let near = fx.add(t, root);
    let value = log1p_or_far(&mut fx, x, near);
    let outside = fx.b.fcmp(FloatCond::Lt, x, one);
    fx.b.select(outside, nan, value)
}

/// The inverse hyperbolic tangent, at most 4 ULP; NaN beyond 1.
pub fn atanh(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let one = fx.c(1.0);
    let bottom = fx.sub(one, size);
    let twice = fx.add(size, size);
    let ratio = fx.div(twice, bottom);
    let value = log1p(fx.b, fx.v, ratio);
    let value = fx.scale(value, 0.5);
    let sign = fx.sign_bits(x);
    let value = fx.flip(value, sign);
    // Half of the smallest subnormal number is zero.
    let tiny = fx.is(size, FloatCond::Lt, if fx.double() { 1e-9 } else { 1e-5 });
    fx.b.select(tiny, x, value)
}
