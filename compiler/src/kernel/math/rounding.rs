//! Exact functions: rounding, signs, minimum and maximum.

use super::super::body::{Body, FloatCond, NodeId};
use super::{Fx, Variant};

/// The magnitude of `x` with the sign of `sign`.
pub fn copysign(b: &mut Body, x: NodeId, sign: NodeId) -> NodeId {
    let mut fx = Fx::new(b, Variant::NoFma, x);
    let size = fx.b.fabs(x);
    let sign = fx.sign_bits(sign);
    let bits = fx.bits(size);
    let bits = fx.b.or(bits, sign);
    fx.float(bits)
}

/// To the nearest integer, ties away from zero; exact.
pub fn round_nearest_afz(b: &mut Body, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, Variant::NoFma, x);
    let size = fx.b.fabs(x);
    let whole = fx.b.floor(size);
    let fraction = fx.sub(size, whole);
    let up = fx.is(fraction, FloatCond::Ge, 0.5);
    let (one, zero) = (fx.c(1.0), fx.c(0.0));
    let step = fx.b.select(up, one, zero);
    let rounded = fx.add(whole, step);
    copysign(b, rounded, x)
}

/// -1, 1, or `x` itself where it is zero or NaN.
pub fn sign(b: &mut Body, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, Variant::NoFma, x);
    let size = fx.b.fabs(x);
    let nonzero = fx.is(size, FloatCond::Gt, 0.0);
    let one = fx.c(1.0);
    let unit = copysign(fx.b, one, x);
    b.select(nonzero, unit, x)
}

/// Whether `x` is neither infinite nor NaN, as a mask of the scalar type's width.
pub fn is_finite(b: &mut Body, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, Variant::NoFma, x);
    let size = fx.b.fabs(x);
    fx.is(size, FloatCond::Lt, f64::INFINITY)
}

/// The larger of two floats; NaN where either is NaN. Of two zeros, the first, or the second where the first is a constant.
pub fn maximum(b: &mut Body, x: NodeId, y: NodeId) -> NodeId {
    let (x, y) = tested_second(b, x, y);
    let larger = b.fmax_pseudo(y, x);
    let is_nan = b.fcmp(FloatCond::Uno, y, y);
    b.select(is_nan, y, larger)
}

/// The smaller of two floats; NaN where either is NaN. Of two zeros, the first, or the second where the first is a constant.
pub fn minimum(b: &mut Body, x: NodeId, y: NodeId) -> NodeId {
    let (x, y) = tested_second(b, x, y);
    let smaller = b.fmin_pseudo(y, x);
    let is_nan = b.fcmp(FloatCond::Uno, y, y);
    b.select(is_nan, y, smaller)
}

/// Two floats, of which the second is asked whether it is NaN: a constant, of which that is known, or else the second, for the first is
/// what a reduction waits for.
fn tested_second(b: &Body, x: NodeId, y: NodeId) -> (NodeId, NodeId) {
    if b.constant_bits(x).is_some() { (y, x) } else { (x, y) }
}
