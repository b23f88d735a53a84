//! Operations on complex numbers, in `f64` pairs. The caller rounds once to the element type.
//!
//! Branch cuts and special values follow the C standard's; formulas are chosen so that nothing cancels or overflows
//! on the way where the result does not.

use super::convert::from_polar;
use crate::hlo::Opcode;
use brolga_runtime::{ElementType, Scalar};
use num_complex::Complex;
use std::cmp::Ordering;

type C = Complex<f64>;

pub(super) fn unary(opcode: Opcode, z: C, ty: ElementType) -> Option<Scalar> {
    let value = match opcode {
        Opcode::Abs => return Some(Scalar::Float(libm::hypot(z.re, z.im))),
        Opcode::Acos => acos(z),
        Opcode::Acosh => acosh(z),
        Opcode::Asin => asin(z),
        Opcode::Asinh => {
            let w = asin(C::new(-z.im, z.re));
            C::new(w.im, -w.re)
        }
        Opcode::Atanh => atanh(z),
        Opcode::Cbrt => from_polar(libm::cbrt(libm::hypot(z.re, z.im)), libm::atan2(z.im, z.re) / 3.0),
        Opcode::Cos => cosh(C::new(-z.im, z.re)),
        Opcode::Cosh => cosh(z),
        Opcode::Exp => exp(z),
        Opcode::Expm1 => expm1(z),
        Opcode::Log => log(z),
        Opcode::Log1p => log1p(z),
        Opcode::Logistic => {
            let e = exp(-z);
            divide(C::new(1.0, 0.0), C::new(1.0 + e.re, e.im))
        }
        Opcode::Negate => -z,
        Opcode::Rsqrt => rsqrt(z),
        Opcode::Sign => sign(z, ty == ElementType::C64),
        Opcode::Sin => {
            let w = sinh(C::new(-z.im, z.re));
            C::new(w.im, -w.re)
        }
        Opcode::Sinh => sinh(z),
        Opcode::Sqrt => sqrt(z),
        Opcode::Tan => {
            let w = tanh(C::new(-z.im, z.re));
            C::new(w.im, -w.re)
        }
        Opcode::Tanh => tanh(z),
        _ => return None,
    };
    Some(Scalar::Complex(value))
}

pub(super) fn binary(opcode: Opcode, a: C, b: C) -> Option<C> {
    Some(match opcode {
        Opcode::Add => a + b,
        Opcode::Subtract => a - b,
        Opcode::Multiply => C::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
        Opcode::Divide => divide(a, b),
        Opcode::Power => power(a, b),
        Opcode::Atan2 => {
            // -i log((b + i a) / sqrt(a^2 + b^2))
            let w = divide(C::new(b.re - a.im, b.im + a.re), sqrt(square(a) + square(b)));
            let l = log(w);
            C::new(l.im, -l.re)
        }
        Opcode::Maximum | Opcode::Minimum => match lexicographic(a, b) {
            None => {
                if a.re.is_nan() || a.im.is_nan() {
                    a
                } else {
                    b
                }
            }
            Some(order) => {
                if (order == Ordering::Less) == (opcode == Opcode::Maximum) {
                    b
                } else {
                    a
                }
            }
        },
        _ => return None,
    })
}

/// Real parts first, imaginary parts where those are equal; `None` where a NaN decides.
pub(super) fn lexicographic(a: C, b: C) -> Option<Ordering> {
    match a.re.partial_cmp(&b.re)? {
        Ordering::Equal => a.im.partial_cmp(&b.im),
        // Equality must see a NaN in the imaginary part too.
        other => (!a.im.is_nan() && !b.im.is_nan()).then_some(other),
    }
}

fn square(z: C) -> C {
    C::new((z.re - z.im) * (z.re + z.im), 2.0 * z.re * z.im)
}

/// `a * b` where a zero wins over an infinity: `sinh y cos x` at the infinities.
fn zero_wins(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0f64.copysign(a) * 1f64.copysign(b) } else { a * b }
}

fn divide(a: C, b: C) -> C {
    if b.re == 0.0 && b.im == 0.0 {
        let inf = f64::INFINITY.copysign(b.re);
        return if a.re == 0.0 && a.im == 0.0 { C::new(f64::NAN, f64::NAN) } else { C::new(inf * a.re, inf * a.im) };
    }
    let finite = |z: C| z.re.is_finite() && z.im.is_finite();
    let infinite = |z: C| z.re.is_infinite() || z.im.is_infinite();
    let unit = |x: f64| if x.is_infinite() { 1f64.copysign(x) } else { 0f64.copysign(x) };
    if infinite(a) && finite(b) {
        let (x, y) = (unit(a.re), unit(a.im));
        return C::new(f64::INFINITY * (x * b.re + y * b.im), f64::INFINITY * (y * b.re - x * b.im));
    }
    if infinite(b) && finite(a) {
        let (x, y) = (unit(b.re), unit(b.im));
        return C::new(0.0 * (a.re * x + a.im * y), 0.0 * (a.im * x - a.re * y));
    }
    // Smith: divide by the larger part first, so that nothing overflows on the way.
    if b.re.abs() >= b.im.abs() {
        let r = b.im / b.re;
        let d = b.re + b.im * r;
        C::new((a.re + a.im * r) / d, (a.im - a.re * r) / d)
    } else {
        let r = b.re / b.im;
        let d = b.re * r + b.im;
        C::new((a.re * r + a.im) / d, (a.im * r - a.re) / d)
    }
}

/// `e^x * f`, where `e^x` alone may overflow.
fn exp_times(x: f64, f: f64) -> f64 {
    if f == 0.0 {
        return f;
    }
    if (700.0..1500.0).contains(&x) {
        let half = libm::exp(x / 2.0);
        return half * f * half;
    }
    libm::exp(x) * f
}

fn exp(z: C) -> C {
    if z.im == 0.0 {
        return C::new(libm::exp(z.re), z.im);
    }
    if z.re == f64::NEG_INFINITY && !z.im.is_finite() {
        return C::new(0.0, 0.0);
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return C::new(f64::INFINITY, f64::NAN);
    }
    C::new(exp_times(z.re, libm::cos(z.im)), exp_times(z.re, libm::sin(z.im)))
}

fn expm1(z: C) -> C {
    if z.im == 0.0 {
        return C::new(libm::expm1(z.re), z.im);
    }
    if !z.re.is_finite() || z.re > 700.0 {
        let e = exp(z);
        return C::new(e.re - 1.0, e.im);
    }
    let half = libm::sin(z.im / 2.0);
    let versed = -2.0 * half * half;
    let m = libm::expm1(z.re);
    C::new(m * libm::cos(z.im) + versed, (m + 1.0) * libm::sin(z.im))
}

/// A sum of two with its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

/// `log |1 + z|`, in nearly twice the precision of `f64` where it cancels.
fn log_abs_1p(x: f64, y: f64) -> f64 {
    let big = x.abs().max(y.abs());
    if !big.is_finite() || big > 1e10 {
        return log_abs(x + 1.0, y);
    }
    let (p, q) = (x * x, y * y);
    let (pe, qe) = (libm::fma(x, x, -p), libm::fma(y, y, -q));
    let (s1, e1) = two_sum(2.0 * x, p);
    let (s2, e2) = two_sum(s1, q);
    let s = s2 + (e1 + e2 + pe + qe);
    if s < -0.5 {
        return log_abs(1.0 + x, y);
    }
    0.5 * libm::log1p(s)
}

/// `log |z|`.
fn log_abs(x: f64, y: f64) -> f64 {
    let (small, large) = if x.abs() < y.abs() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    if (0.5..2.0).contains(&large) && small < 1.5 {
        let r = log_abs_near_one(large - 1.0, small);
        if r.abs() < 0.5 {
            return r;
        }
    }
    let h = libm::hypot(x, y);
    if h.is_infinite() && x.is_finite() && y.is_finite() || h < 1e-300 && h > 0.0 {
        // Scale by the larger part: the modulus overflows or is denormal.
        let ratio = small / large;
        return libm::log(large) + 0.5 * libm::log1p(ratio * ratio);
    }
    libm::log(h)
}

/// `log |1 + d + i y|` for moduli near one.
fn log_abs_near_one(d: f64, y: f64) -> f64 {
    let (p, q) = (d * d, y * y);
    let (pe, qe) = (libm::fma(d, d, -p), libm::fma(y, y, -q));
    let (s1, e1) = two_sum(2.0 * d, p);
    let (s2, e2) = two_sum(s1, q);
    0.5 * libm::log1p((s2 + (e1 + e2 + pe + qe)).max(-1.0))
}

fn log(z: C) -> C {
    C::new(log_abs(z.re, z.im), libm::atan2(z.im, z.re))
}

fn log1p(z: C) -> C {
    C::new(log_abs_1p(z.re, z.im), libm::atan2(z.im, 1.0 + z.re))
}

fn sqrt(z: C) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return C::new(0.0, z.im);
    }
    if z.im.is_infinite() {
        return C::new(f64::INFINITY, z.im);
    }
    if z.re.is_nan() {
        return C::new(f64::NAN, f64::NAN);
    }
    if z.re.is_infinite() {
        let other = if z.im.is_nan() { f64::NAN } else { 0.0 };
        return if z.re > 0.0 {
            C::new(z.re, if z.im.is_nan() { f64::NAN } else { 0f64.copysign(z.im) })
        } else {
            C::new(other, f64::INFINITY.copysign(z.im))
        };
    }
    // Scaled by an even power of two: the modulus neither overflows nor loses bits.
    let big = z.re.abs().max(z.im.abs());
    let (down, up) = if big > 1e300 {
        (2f64.powi(-4), 4.0)
    } else if big < 1e-290 {
        (2f64.powi(120), 2f64.powi(-60))
    } else {
        (1.0, 1.0)
    };
    let (x, y) = (z.re * down, z.im * down);
    let t = ((libm::hypot(x, y) + x.abs()) / 2.0).sqrt();
    let (re, im) = if x >= 0.0 { (t, y / (2.0 * t)) } else { (y.abs() / (2.0 * t), t.copysign(y)) };
    C::new(re * up, im * up)
}

fn rsqrt(z: C) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return C::new(f64::INFINITY, f64::NAN);
    }
    if z.re.is_infinite() && !z.im.is_nan() || z.im.is_infinite() && !z.re.is_nan() {
        return C::new(0.0, 0f64.copysign(-z.im));
    }
    divide(C::new(1.0, 0.0), sqrt(z))
}

/// `z / |z|` in the arithmetic of the parts, each step rounded: the modulus is the larger part times
/// `sqrt(1 + ratio^2)`, the square and the sum rounded once.
fn sign(z: C, single: bool) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return z;
    }
    if z.re.is_nan() || z.im.is_nan() {
        return C::new(f64::NAN, f64::NAN);
    }
    let round = |v: f64| if single { f64::from(v as f32) } else { v };
    let exponent = if single { 100 } else { 900 };
    let larger = z.re.abs().max(z.im.abs());
    let scale = match larger {
        l if l > 2f64.powi(exponent) => 0.25,
        l if l < 2f64.powi(-exponent) => 2f64.powi(if single { 24 } else { 54 }),
        _ => 1.0,
    };
    let (re, im, larger) = (z.re * scale, z.im * scale, larger * scale);
    let ratio = round(re.abs().min(im.abs()) / larger);
    let square = if single { f64::from((ratio as f32).mul_add(ratio as f32, 1.0)) } else { ratio.mul_add(ratio, 1.0) };
    let size = round(larger * round(square.sqrt()));
    C::new(re / size, im / size)
}

/// `(e^x +- e^-x)/2 * f` without overflow on the way.
fn hyperbolic_times(function: fn(f64) -> f64, x: f64, f: f64) -> f64 {
    if (700.0..1500.0).contains(&x.abs()) {
        let sign = if function(-1.0) < 0.0 { 1f64.copysign(x) } else { 1.0 };
        return exp_times(x.abs(), f / 2.0) * sign;
    }
    zero_wins(function(x), f)
}

fn sinh(z: C) -> C {
    if z.im == 0.0 {
        return C::new(libm::sinh(z.re), z.im);
    }
    C::new(hyperbolic_times(libm::sinh, z.re, libm::cos(z.im)), hyperbolic_times(libm::cosh, z.re, libm::sin(z.im)))
}

fn cosh(z: C) -> C {
    if z.im == 0.0 {
        return C::new(libm::cosh(z.re), z.im * 1f64.copysign(z.re));
    }
    C::new(hyperbolic_times(libm::cosh, z.re, libm::cos(z.im)), hyperbolic_times(libm::sinh, z.re, libm::sin(z.im)))
}

fn tanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x.is_infinite() || x.abs() > 350.0 {
        let tail = if y.is_finite() { libm::sin(2.0 * y) } else { 0.0 };
        return C::new(1f64.copysign(x), 0f64.copysign(tail));
    }
    if y == 0.0 {
        return C::new(libm::tanh(x), y);
    }
    if x == 0.0 {
        return C::new(x, libm::tan(y));
    }
    let (sh, ch) = (libm::sinh(x), libm::cosh(x));
    let (s, c) = (libm::sin(y), libm::cos(y));
    let d = sh * sh + c * c;
    C::new(sh * ch / d, s * c / d)
}

/// Kahan's formulas for the inverse functions: real and imaginary parts from roots that do not cancel.
fn asin(z: C) -> C {
    let (minus, plus) = (sqrt(C::new(1.0 - z.re, -z.im)), sqrt(C::new(1.0 + z.re, z.im)));
    let product = plus.re * minus.re - plus.im * minus.im;
    C::new(libm::atan2(z.re, product), libm::asinh(minus.re * plus.im - minus.im * plus.re))
}

fn acos(z: C) -> C {
    let (minus, plus) = (sqrt(C::new(1.0 - z.re, -z.im)), sqrt(C::new(1.0 + z.re, z.im)));
    C::new(2.0 * libm::atan2(minus.re, plus.re), libm::asinh(plus.re * minus.im - plus.im * minus.re))
}

fn acosh(z: C) -> C {
    let (minus, plus) = (sqrt(C::new(z.re - 1.0, z.im)), sqrt(C::new(z.re + 1.0, z.im)));
    C::new(libm::asinh(minus.re * plus.re + minus.im * plus.im), 2.0 * libm::atan2(minus.im, plus.re))
}

fn atanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x.is_infinite() || y.is_infinite() {
        return C::new(0f64.copysign(x), std::f64::consts::FRAC_PI_2.copysign(y));
    }
    let one_minus = 1.0 - x;
    let re = 0.25 * libm::log1p(4.0 * x / (one_minus * one_minus + y * y));
    C::new(re, 0.5 * libm::atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y))
}

fn power(a: C, b: C) -> C {
    if b.re == 0.0 && b.im == 0.0 {
        return C::new(1.0, 0.0);
    }
    if a.re == 0.0 && a.im == 0.0 {
        return if b.im == 0.0 && b.re > 0.0 { C::new(0.0, 0.0) } else { C::new(f64::NAN, f64::NAN) };
    }
    let l = log(a);
    exp(C::new(l.re * b.re - l.im * b.im, l.re * b.im + l.im * b.re))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: C, b: C) {
        assert!((a - b).norm() <= 1e-14 * b.norm().max(1e-300), "{a} is not {b}");
    }

    #[test]
    fn inverses_undo_functions() {
        for (x, y) in [(0.3, 0.4), (-0.7, 0.2), (0.1, -1.2), (1e-8, 1e-9), (1.5, 1.0)] {
            let z = C::new(x, y);
            close(square(sqrt(z)), z);
            close(atanh(tanh(z)), z);
            close(log1p(expm1(z)), z);
            let w = asin(z);
            let s = sinh(C::new(-w.im, w.re));
            close(C::new(s.im, -s.re), z);
            close(divide(power(z, C::new(3.0, 0.0)), square(z)), z);
            // These pass through values near one, which forget a small argument.
            if z.norm() > 1e-3 {
                close(log(exp(z)), z);
                close(cosh(acosh(z)), z);
                let w = acos(z);
                close(cosh(C::new(-w.im, w.re)), z);
            }
        }
    }

    #[test]
    fn specials_stay_on_their_side_of_the_cut() {
        assert_eq!(sqrt(C::new(-4.0, -0.0)), C::new(0.0, -2.0));
        assert!(sqrt(C::new(f64::MAX, f64::MAX)).re.is_finite());
        assert_eq!(exp(C::new(f64::NEG_INFINITY, f64::INFINITY)), C::new(0.0, 0.0));
        assert_eq!(log(C::new(-1.0, 0.0)), C::new(0.0, std::f64::consts::PI));
        assert!(tanh(C::new(1000.0, 1.0)) == C::new(1.0, 0.0));
        assert_eq!(lexicographic(C::new(1.0, 2.0), C::new(1.0, 3.0)), Some(Ordering::Less));
    }
}
