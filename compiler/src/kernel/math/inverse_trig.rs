//! Arc functions.

use super::super::body::{Body, FloatCond, IntCond, NodeId, Variant};
use super::Fx;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// (atan(t) / t - 1) / t^2 in powers of t^2, up to sqrt(2) - 1.
const ATAN_F32: &[f64] = &[-0.33332979679107666, 0.19977118074893951, -0.13860785961151123, 0.07979049533605576];
const ATAN_F64: &[f64] = &[
    -0.33333333333333265,
    0.19999999999968257,
    -0.14285714281273007,
    0.11111110820787937,
    -0.0909089844054808,
    0.07692066617515421,
    -0.06663122615906734,
    0.058476953628130414,
    -0.050371888923216826,
    0.03798427071649328,
    -0.017794765485241247,
];
/// (asin(t) / t - 1) / t^2 in powers of t^2, up to 1/2.
const ASIN_F32: &[f64] =
    &[0.16666731238365173, 0.07495658099651337, 0.04546749219298363, 0.02404645085334778, 0.042573753744363785];
const ASIN_F64: &[f64] = &[
    0.16666666666666702,
    0.07499999999984254,
    0.044642857163917464,
    0.030381943129422218,
    0.022372205402190606,
    0.017351747525981356,
    0.013979587275309022,
    0.01140615156708484,
    0.010753934539084947,
    0.0037576692178563444,
    0.02168773197148388,
    -0.021104716418163746,
    0.03276996628671951,
];

/// What the scalar type does not hold of the multiples of pi: of pi/4, pi/2 and pi.
fn rests(fx: &Fx<'_>) -> (f64, f64, f64) {
    // pi as f32 is 8.742278e-8 too large, as f64 1.2246467991473532e-16 too small.
    let pi = if fx.double() { 1.2246467991473532e-16 } else { PI - f64::from(PI as f32) };
    (pi / 4.0, pi / 2.0, pi)
}

/// The angle whose tangent is `top / bottom`, both at least zero, not both zero and not both infinite.
fn angle(fx: &mut Fx<'_>, top: NodeId, bottom: NodeId) -> NodeId {
    let (quarter_rest, half_rest, _) = rests(fx);
    // Past tan(3 pi / 8) the reciprocal, past tan(pi / 8) a turn by pi / 4: one division for all.
    let upper = fx.scale(bottom, 2.414213562373095);
    let lower = fx.scale(bottom, 0.41421356237309503);
    let steep = fx.b.fcmp(FloatCond::Gt, top, upper);
    let middle = fx.b.fcmp(FloatCond::Gt, top, lower);
    let (difference, sum) = (fx.sub(top, bottom), fx.add(top, bottom));
    let minus = fx.b.fneg(bottom);
    let n = fx.b.select(middle, difference, top);
    let n = fx.b.select(steep, minus, n);
    let d = fx.b.select(middle, sum, bottom);
    let d = fx.b.select(steep, top, d);
    let (zero, quarter, half) = (fx.c(0.0), fx.c(FRAC_PI_4), fx.c(FRAC_PI_2));
    let high = fx.b.select(middle, quarter, zero);
    let high = fx.b.select(steep, half, high);
    let (quarter_rest, half_rest) = (fx.c(quarter_rest), fx.c(half_rest));
    let low = fx.b.select(middle, quarter_rest, zero);
    let low = fx.b.select(steep, half_rest, low);
    let t = fx.div(n, d);
    let z = fx.mul(t, t);
    let p = fx.poly2(z, ATAN_F32, ATAN_F64);
    let cube = fx.mul(t, z);
    let tail = fx.fma(cube, p, low);
    let value = fx.add(t, tail);
    fx.add(high, value)
}

/// The arc tangent, at most 2.5 ULP.
pub fn atan(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let one = fx.c(1.0);
    let value = angle(&mut fx, size, one);
    let sign = fx.sign_bits(x);
    fx.flip(value, sign)
}

/// The angle of the point (x, y), at most 3 ULP; at the origin and at infinity as in C.
pub fn atan2(b: &mut Body, v: Variant, y: NodeId, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, y);
    let (ay, ax) = (fx.b.fabs(y), fx.b.fabs(x));
    // Far from the range's limits, so that neither the sum nor the thresholds are inexact.
    let larger = fx.b.fmax_pseudo(ay, ax);
    let (huge, tiny, down, up) = if fx.double() {
        (2f64.powi(1020), 2f64.powi(-900), 0.125, 2f64.powi(200))
    } else {
        (2f64.powi(124), 2f64.powi(-90), 0.125, 2f64.powi(40))
    };
    let is_huge = fx.is(larger, FloatCond::Gt, huge);
    let is_tiny = fx.is(larger, FloatCond::Lt, tiny);
    let (one, down, up, zero) = (fx.c(1.0), fx.c(down), fx.c(up), fx.c(0.0));
    let scale = fx.b.select(is_huge, down, one);
    let scale = fx.b.select(is_tiny, up, scale);
    let (top, bottom) = (fx.mul(ay, scale), fx.mul(ax, scale));
    // Equal sides: pi / 4, but 0 at the origin.
    let equal = fx.b.fcmp(FloatCond::Eq, top, bottom);
    let origin = fx.is(top, FloatCond::Eq, 0.0);
    let unit = fx.b.select(origin, zero, one);
    let top = fx.b.select(equal, unit, top);
    let bottom = fx.b.select(equal, one, bottom);
    let value = angle(&mut fx, top, bottom);
    let (_, _, pi_rest) = rests(&fx);
    let (pi, pi_rest) = (fx.c(PI), fx.c(pi_rest));
    let other = fx.sub(value, pi_rest);
    let other = fx.sub(pi, other);
    // A right angle is one from the other side, too.
    let right = fx.is(value, FloatCond::Eq, FRAC_PI_2);
    let other = fx.b.select(right, value, other);
    let bits = fx.bits(x);
    let no_bits = fx.int(0);
    let left = fx.b.icmp(IntCond::SLt, bits, no_bits);
    let value = fx.b.select(left, other, value);
    let sign = fx.sign_bits(y);
    let value = fx.flip(value, sign);
    let is_nan = fx.b.fcmp(FloatCond::Uno, y, x);
    let nan = fx.c(f64::NAN);
    fx.b.select(is_nan, nan, value)
}

/// For |x| beyond 1/2: t = asin(s) with s = sqrt((1 - |x|) / 2); else t = asin(|x|). And where it is beyond.
fn asin_part(fx: &mut Fx<'_>, size: NodeId) -> (NodeId, NodeId) {
    let far = fx.is(size, FloatCond::Gt, 0.5);
    let (one, half) = (fx.c(1.0), fx.c(0.5));
    let rest = fx.sub(one, size);
    let halved = fx.mul(rest, half);
    let near = fx.mul(size, size);
    let z = fx.b.select(far, halved, near);
    let root = fx.b.sqrt(halved);
    let t = fx.b.select(far, root, size);
    let p = fx.poly2(z, ASIN_F32, ASIN_F64);
    let cube = fx.mul(t, z);
    (fx.fma(cube, p, t), far)
}

/// The arc sine, at most 3 ULP; NaN beyond 1.
pub fn asin(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let (t, far) = asin_part(&mut fx, size);
    let (_, half_rest, _) = rests(&fx);
    let (half, half_rest) = (fx.c(FRAC_PI_2), fx.c(half_rest));
    let twice = fx.add(t, t);
    let other = fx.sub(twice, half_rest);
    let other = fx.sub(half, other);
    let value = fx.b.select(far, other, t);
    let sign = fx.sign_bits(x);
    fx.flip(value, sign)
}

/// The arc cosine, at most 3 ULP; NaN beyond 1.
pub fn acos(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let size = fx.b.fabs(x);
    let (t, far) = asin_part(&mut fx, size);
    let (_, half_rest, pi_rest) = rests(&fx);
    let (half, half_rest, pi, pi_rest) = (fx.c(FRAC_PI_2), fx.c(half_rest), fx.c(PI), fx.c(pi_rest));
    let negative = fx.is(x, FloatCond::Lt, 0.0);
    let twice = fx.add(t, t);
    let back = fx.sub(twice, pi_rest);
    let back = fx.sub(pi, back);
    let outer = fx.b.select(negative, back, twice);
    let sign = fx.sign_bits(x);
    let signed = fx.flip(t, sign);
    let inner = fx.sub(signed, half_rest);
    let inner = fx.sub(half, inner);
    fx.b.select(far, outer, inner)
}
