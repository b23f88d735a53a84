//! Complex numbers as pairs of nodes.
//!
//! Sums, products and signs stay in the scalar type of the parts. Everything else is computed in `F64`: for `c64` neither squares nor
//! exponentials of the range overflow there, and cancellation costs nothing that the result would show; for `c128` sums
//! of squares are scaled by a power of two. Branch cuts and values at infinity are those of C.

use super::super::body::{Body, FloatCond, NodeId, Op, ScalarType};
use super::super::math::{self, Fx};
use super::{ElementwiseContext, Unsupported, convert, direction, unsupported};
use crate::hlo::{Attrs, ComparisonDirection, Opcode};
use brolga_runtime::{ElementType, Kind};

/// An operand or result of an operation that concerns complex numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Of a real type, in its compute type.
    Real(NodeId),
    /// Real and imaginary part.
    Complex(NodeId, NodeId),
}

type Pair = (NodeId, NodeId);

/// Lowers an elementwise operation with a complex operand or result.
pub fn lower_complex(
    b: &mut Body,
    cx: &ElementwiseContext,
    opcode: Opcode,
    attrs: &Attrs,
    operand_types: &[ElementType],
    result_type: ElementType,
    operands: &[Parts],
) -> Result<Parts, Unsupported> {
    let Some(&ty) = operand_types.first() else {
        return Err(Unsupported(format!("'{opcode}' without operands")));
    };
    if !opcode.arity().allows(operands.len()) || operand_types.len() != operands.len() {
        return Err(Unsupported(format!("'{opcode}' with {} operands", operands.len())));
    }
    match (opcode, operands) {
        (Opcode::Complex, &[Parts::Real(re), Parts::Real(im)]) => Ok(Parts::Complex(re, im)),
        (Opcode::Select, &[Parts::Real(mask), Parts::Complex(a, b_im), Parts::Complex(c, d)]) => {
            Ok(Parts::Complex(b.select(mask, a, c), b.select(mask, b_im, d)))
        }
        (Opcode::Convert, &[x]) => Ok(convert_complex(b, ty, result_type, x)),
        (_, &[Parts::Complex(re, im)]) => unary(b, cx, opcode, ty, (re, im)),
        (Opcode::Compare, &[Parts::Complex(a, ai), Parts::Complex(c, ci)]) => {
            let mask = compare(b, direction(attrs)?, (a, ai), (c, ci));
            Ok(Parts::Real(b.mask_cast(mask, ScalarType::M32)))
        }
        (_, &[Parts::Complex(a, ai), Parts::Complex(c, ci)]) => binary(b, cx, opcode, ty, (a, ai), (c, ci)),
        _ => Err(unsupported(opcode, ty)),
    }
}

fn convert_complex(b: &mut Body, from: ElementType, to: ElementType, x: Parts) -> Parts {
    let part = to.real_part();
    match (x, to.kind()) {
        (Parts::Real(x), Kind::Complex) => {
            let re = convert(b, from, part, x);
            let scalar = b.scalar(re);
            Parts::Complex(re, b.bits(scalar, 0))
        }
        (Parts::Complex(re, im), Kind::Complex) => {
            Parts::Complex(convert(b, from.real_part(), part, re), convert(b, from.real_part(), part, im))
        }
        (Parts::Complex(re, im), Kind::Pred) => {
            let (re, im) = (convert(b, from.real_part(), to, re), convert(b, from.real_part(), to, im));
            Parts::Real(b.or(re, im))
        }
        (Parts::Complex(re, _), _) => Parts::Real(convert(b, from.real_part(), to, re)),
        (Parts::Real(x), _) => Parts::Real(convert(b, from, to, x)),
    }
}

/// By real parts, then by imaginary ones; false where a NaN decides, but `NE`.
fn compare(b: &mut Body, direction: ComparisonDirection, x: Pair, y: Pair) -> NodeId {
    let same = b.fcmp(FloatCond::Eq, x.0, y.0);
    let same_im = b.fcmp(FloatCond::Eq, x.1, y.1);
    let (strict, whole) = match direction {
        ComparisonDirection::Eq => return b.and(same, same_im),
        ComparisonDirection::Ne => {
            let equal = b.and(same, same_im);
            return b.not(equal);
        }
        ComparisonDirection::Lt => (FloatCond::Lt, FloatCond::Lt),
        ComparisonDirection::Le => (FloatCond::Lt, FloatCond::Le),
        ComparisonDirection::Gt => (FloatCond::Gt, FloatCond::Gt),
        ComparisonDirection::Ge => (FloatCond::Gt, FloatCond::Ge),
    };
    let first = b.fcmp(strict, x.0, y.0);
    let unordered = b.fcmp(FloatCond::Uno, x.1, y.1);
    let ordered = b.not(unordered);
    let first = b.and(first, ordered);
    let second = b.fcmp(whole, x.1, y.1);
    let second = b.and(same, second);
    b.or(first, second)
}

/// The number in `F64`.
fn widen(b: &mut Body, z: Pair) -> Pair {
    if b.scalar(z.0) == ScalarType::F64 {
        return z;
    }
    (b.convert(Op::Promote, z.0, ScalarType::F64), b.convert(Op::Promote, z.1, ScalarType::F64))
}

fn narrow(b: &mut Body, ty: ElementType, x: NodeId) -> NodeId {
    if ty.real_part() == ElementType::F64 { x } else { b.convert(Op::Demote, x, ScalarType::F32) }
}

fn unary(
    b: &mut Body,
    cx: &ElementwiseContext,
    opcode: Opcode,
    ty: ElementType,
    z: Pair,
) -> Result<Parts, Unsupported> {
    match opcode {
        Opcode::Real => return Ok(Parts::Real(z.0)),
        Opcode::Imag => return Ok(Parts::Real(z.1)),
        Opcode::Negate => return Ok(Parts::Complex(b.fneg(z.0), b.fneg(z.1))),
        Opcode::IsFinite => {
            let (re, im) = (math::is_finite(b, z.0), math::is_finite(b, z.1));
            let both = b.and(re, im);
            return Ok(Parts::Real(b.mask_cast(both, ScalarType::M32)));
        }
        Opcode::Sign => {
            let w = sign(Fx::new(b, cx.variant, z.0), z);
            return Ok(Parts::Complex(w.0, w.1));
        }
        _ => {}
    }
    let wide = widen(b, z);
    let mut k = Complex { fx: Fx::new(b, cx.variant, wide.0), scaled: ty == ElementType::C128 };
    let w = match opcode {
        Opcode::Abs => {
            let size = k.modulus(wide);
            return Ok(Parts::Real(narrow(b, ty, size)));
        }
        Opcode::Exp => k.exp(wide),
        Opcode::Expm1 => k.expm1(wide),
        Opcode::Log => k.log(wide),
        Opcode::Log1p => k.log1p(wide),
        Opcode::Sqrt => k.sqrt(wide),
        Opcode::Rsqrt => k.rsqrt(wide),
        Opcode::Cbrt => k.cbrt(wide),
        Opcode::Logistic => k.logistic(wide),
        Opcode::Sinh => k.sinh(wide),
        Opcode::Cosh => k.cosh(wide),
        Opcode::Tanh => k.tanh(wide),
        Opcode::Sin => k.turned(wide, Complex::sinh),
        Opcode::Tan => k.turned(wide, Complex::tanh),
        Opcode::Cos => {
            let turned = k.times_i(wide);
            k.cosh(turned)
        }
        Opcode::Asin => k.asin(wide),
        Opcode::Asinh => k.turned(wide, Complex::asin),
        Opcode::Acos => k.acos(wide),
        Opcode::Acosh => k.acosh(wide),
        Opcode::Atanh => k.atanh(wide),
        _ => return Err(unsupported(opcode, ty)),
    };
    Ok(Parts::Complex(narrow(b, ty, w.0), narrow(b, ty, w.1)))
}

/// `z / |z|` in the arithmetic of the parts: the modulus is the larger part times `sqrt(1 + ratio^2)`, the square and
/// the sum rounded once where there is FMA.
fn sign(mut fx: Fx<'_>, z: Pair) -> Pair {
    let (exponent, up) = if fx.double() { (900, 54) } else { (100, 24) };
    let (x, y) = (fx.b.fabs(z.0), fx.b.fabs(z.1));
    let larger = math::maximum(fx.b, x, y);
    // Near the ends of the range the modulus may be infinite, or have fewer digits than the parts.
    let huge = fx.is(larger, FloatCond::Gt, 2f64.powi(exponent));
    let tiny = fx.is(larger, FloatCond::Lt, 2f64.powi(-exponent));
    let (one, quarter, many) = (fx.c(1.0), fx.c(0.25), fx.c(2f64.powi(up)));
    let scale = fx.b.select(huge, quarter, one);
    let scale = fx.b.select(tiny, many, scale);
    let smaller = math::minimum(fx.b, x, y);
    let (re, im) = (fx.mul(z.0, scale), fx.mul(z.1, scale));
    let (larger, smaller) = (fx.mul(larger, scale), fx.mul(smaller, scale));
    let ratio = fx.div(smaller, larger);
    let square = fx.fma(ratio, ratio, one);
    let root = fx.b.sqrt(square);
    let size = fx.mul(larger, root);
    let (re, im) = (fx.div(re, size), fx.div(im, size));
    let none = fx.is(larger, FloatCond::Eq, 0.0);
    (fx.b.select(none, z.0, re), fx.b.select(none, z.1, im))
}

fn binary(
    b: &mut Body,
    cx: &ElementwiseContext,
    opcode: Opcode,
    ty: ElementType,
    x: Pair,
    y: Pair,
) -> Result<Parts, Unsupported> {
    match opcode {
        Opcode::Add => return Ok(Parts::Complex(b.fadd(x.0, y.0), b.fadd(x.1, y.1))),
        Opcode::Subtract => return Ok(Parts::Complex(b.fsub(x.0, y.0), b.fsub(x.1, y.1))),
        Opcode::Multiply => {
            let (p, q) = (b.fmul(x.0, y.0), b.fmul(x.1, y.1));
            let (r, s) = (b.fmul(x.0, y.1), b.fmul(x.1, y.0));
            return Ok(Parts::Complex(b.fsub(p, q), b.fadd(r, s)));
        }
        Opcode::Maximum | Opcode::Minimum => {
            let direction = if opcode == Opcode::Maximum { ComparisonDirection::Ge } else { ComparisonDirection::Le };
            let first = compare(b, direction, x, y);
            let nan = b.fcmp(FloatCond::Uno, x.0, x.1);
            let first = b.or(first, nan);
            return Ok(Parts::Complex(b.select(first, x.0, y.0), b.select(first, x.1, y.1)));
        }
        _ => {}
    }
    let scaled = ty == ElementType::C128;
    if opcode == Opcode::Divide {
        // In its own scalar type, of which a register holds more, is told apart what is infinite or zero.
        let Division { above, below, norm, by_zero, poles } =
            Complex { fx: Fx::new(b, cx.variant, x.0), scaled }.division(x, y);
        let (above, below, norm) = (widen(b, above), widen(b, below), widen(b, norm));
        let w = Complex { fx: Fx::new(b, cx.variant, above.0), scaled }.quotient(above, below, norm);
        let w = (narrow(b, ty, w.0), narrow(b, ty, w.1));
        return Ok(Parts::Complex(b.select(by_zero, poles.0, w.0), b.select(by_zero, poles.1, w.1)));
    }
    let (x, y) = (widen(b, x), widen(b, y));
    let mut k = Complex { fx: Fx::new(b, cx.variant, x.0), scaled };
    let w = match opcode {
        Opcode::Power => k.power(x, y),
        Opcode::Atan2 => k.atan2(x, y),
        _ => return Err(unsupported(opcode, ty)),
    };
    Ok(Parts::Complex(narrow(b, ty, w.0), narrow(b, ty, w.1)))
}

/// A division, of which what is infinite or zero has been told apart: `above` conj(`below`) / |`norm`|^2, and `poles` where it is `by_zero`.
struct Division {
    above: Pair,
    below: Pair,
    norm: Pair,
    by_zero: NodeId,
    poles: Pair,
}

/// Functions of complex numbers in `F64`; `scaled` where the parts use its whole range.
struct Complex<'a> {
    fx: Fx<'a>,
    scaled: bool,
}

impl Complex<'_> {
    fn real(&mut self, f: fn(&mut Body, super::Variant, NodeId) -> NodeId, x: NodeId) -> NodeId {
        f(self.fx.b, self.fx.v, x)
    }

    fn pick(&mut self, mask: NodeId, then: Pair, other: Pair) -> Pair {
        (self.fx.b.select(mask, then.0, other.0), self.fx.b.select(mask, then.1, other.1))
    }

    fn neg(&mut self, x: NodeId) -> NodeId {
        self.fx.b.fneg(x)
    }

    /// i z
    fn times_i(&mut self, z: Pair) -> Pair {
        (self.neg(z.1), z.0)
    }

    /// -i f(i z)
    fn turned(&mut self, z: Pair, f: fn(&mut Self, Pair) -> Pair) -> Pair {
        let turned = self.times_i(z);
        let w = f(self, turned);
        (w.1, self.neg(w.0))
    }

    fn is_infinite(&mut self, x: NodeId) -> NodeId {
        let size = self.fx.b.fabs(x);
        self.fx.is(size, FloatCond::Eq, f64::INFINITY)
    }

    /// A power of two that brings the larger part far from both ends of the range, and its inverse; both are squares.
    fn scales(&mut self, z: Pair) -> (NodeId, NodeId) {
        let (x, y) = (self.fx.b.fabs(z.0), self.fx.b.fabs(z.1));
        let larger = self.fx.b.fmax_pseudo(x, y);
        let huge = self.fx.is(larger, FloatCond::Gt, 2f64.powi(500));
        let tiny = self.fx.is(larger, FloatCond::Lt, 2f64.powi(-400));
        let (one, small, big) = (self.fx.c(1.0), self.fx.c(2f64.powi(-600)), self.fx.c(2f64.powi(600)));
        let down = self.fx.b.select(huge, small, one);
        let down = self.fx.b.select(tiny, big, down);
        let up = self.fx.b.select(huge, big, one);
        (down, self.fx.b.select(tiny, small, up))
    }

    fn modulus(&mut self, z: Pair) -> NodeId {
        let size = if self.scaled {
            let (down, up) = self.scales(z);
            let (x, y) = (self.fx.mul(z.0, down), self.fx.mul(z.1, down));
            let size = self.plain_modulus((x, y));
            self.fx.mul(size, up)
        } else {
            self.plain_modulus(z)
        };
        // Infinite beside NaN too.
        let (re, im) = (self.is_infinite(z.0), self.is_infinite(z.1));
        let either = self.fx.b.or(re, im);
        let infinity = self.fx.c(f64::INFINITY);
        self.fx.b.select(either, infinity, size)
    }

    fn plain_modulus(&mut self, z: Pair) -> NodeId {
        let (p, q) = (self.fx.mul(z.0, z.0), self.fx.mul(z.1, z.1));
        let sum = self.fx.add(p, q);
        self.fx.b.sqrt(sum)
    }

    fn divide(&mut self, a: Pair, b: Pair) -> Pair {
        let Division { above, below, norm, by_zero, poles } = self.division(a, b);
        let w = self.quotient(above, below, norm);
        self.pick(by_zero, poles, w)
    }

    /// a / b, in any scalar type of floats.
    fn division(&mut self, a: Pair, b: Pair) -> Division {
        let (a_finite, b_finite) = (self.finite(a), self.finite(b));
        let (a_infinite, b_infinite) = (self.infinite(a), self.infinite(b));
        let is_far = self.fx.b.and(a_infinite, b_finite);
        let is_near = self.fx.b.and(b_infinite, a_finite);
        let (unit_a, unit_b) = (self.unit(a), self.unit(b));
        let (zero, infinity, nan) = (self.fx.c(0.0), self.fx.c(f64::INFINITY), self.fx.c(f64::NAN));
        // Infinite parts alone say in which direction a quotient is infinite, or zero.
        let (above, below) = (self.pick(is_far, unit_a, a), self.pick(is_near, unit_b, b));
        let norm = self.pick(is_near, (infinity, zero), b);
        let norm = self.pick(is_far, (zero, zero), norm);
        // By zero: infinite in the direction of a.
        let (zero_re, zero_im) = (self.fx.is(b.0, FloatCond::Eq, 0.0), self.fx.is(b.1, FloatCond::Eq, 0.0));
        let by_zero = self.fx.b.and(zero_re, zero_im);
        let pole = math::copysign(self.fx.b, infinity, b.0);
        let poles = (self.fx.mul(pole, a.0), self.fx.mul(pole, a.1));
        let (none_re, none_im) = (self.fx.is(a.0, FloatCond::Eq, 0.0), self.fx.is(a.1, FloatCond::Eq, 0.0));
        let none = self.fx.b.and(none_re, none_im);
        let poles = self.pick(none, (nan, nan), poles);
        Division { above, below, norm, by_zero, poles }
    }

    /// a conj(b) / |norm|^2, all scaled where the range demands it.
    fn quotient(&mut self, a: Pair, b: Pair, norm: Pair) -> Pair {
        if !self.scaled {
            return self.plain_quotient(a, b, norm);
        }
        let ((b_down, _), (a_down, a_up)) = (self.scales(b), self.scales(a));
        let (a, b, norm) = (self.times(a, a_down), self.times(b, b_down), self.times(norm, b_down));
        let w = self.plain_quotient(a, b, norm);
        let w = self.times(w, a_up);
        self.times(w, b_down)
    }

    fn plain_quotient(&mut self, a: Pair, b: Pair, norm: Pair) -> Pair {
        let (re, im) = (self.dot(a.0, b.0, a.1, b.1), self.cross(a.1, b.0, a.0, b.1));
        let (p, q) = (self.fx.mul(norm.0, norm.0), self.fx.mul(norm.1, norm.1));
        let norm = self.fx.add(p, q);
        (self.fx.div(re, norm), self.fx.div(im, norm))
    }

    fn times(&mut self, z: Pair, by: NodeId) -> Pair {
        (self.fx.mul(z.0, by), self.fx.mul(z.1, by))
    }

    /// a b + c d, the second product's rounding error made good where there is FMA.
    fn dot(&mut self, a: NodeId, b: NodeId, c: NodeId, d: NodeId) -> NodeId {
        let p = self.fx.mul(c, d);
        self.fx.fma(a, b, p)
    }

    /// a b - c d
    fn cross(&mut self, a: NodeId, b: NodeId, c: NodeId, d: NodeId) -> NodeId {
        let p = self.fx.mul(c, d);
        let p = self.neg(p);
        self.fx.fma(a, b, p)
    }

    fn finite(&mut self, z: Pair) -> NodeId {
        let (re, im) = (math::is_finite(self.fx.b, z.0), math::is_finite(self.fx.b, z.1));
        self.fx.b.and(re, im)
    }

    fn infinite(&mut self, z: Pair) -> NodeId {
        let (re, im) = (self.is_infinite(z.0), self.is_infinite(z.1));
        self.fx.b.or(re, im)
    }

    /// Each part 1 where infinite, else 0, with its sign.
    fn unit(&mut self, z: Pair) -> Pair {
        let mut part = |x: NodeId| {
            let infinite = self.is_infinite(x);
            let (one, zero) = (self.fx.c(1.0), self.fx.c(0.0));
            let size = self.fx.b.select(infinite, one, zero);
            math::copysign(self.fx.b, size, x)
        };
        (part(z.0), part(z.1))
    }

    /// e^x f in two factors of e^x, as one may overflow where the product does not; f where it is zero.
    fn exp_times(&mut self, x: NodeId, f: NodeId) -> NodeId {
        let value = if self.scaled {
            let half = self.fx.scale(x, 0.5);
            let e = self.real(math::exp, half);
            let part = self.fx.mul(e, f);
            self.fx.mul(part, e)
        } else {
            let e = self.real(math::exp, x);
            self.fx.mul(e, f)
        };
        let zero = self.fx.is(f, FloatCond::Eq, 0.0);
        self.fx.b.select(zero, f, value)
    }

    fn exp(&mut self, z: Pair) -> Pair {
        let (cos, sin) = (self.real(math::cos, z.1), self.real(math::sin, z.1));
        let (re, im) = (self.exp_times(z.0, cos), self.exp_times(z.0, sin));
        // On the real line; at infinity without a direction.
        let real = self.fx.is(z.1, FloatCond::Eq, 0.0);
        let plain = self.real(math::exp, z.0);
        let w = self.pick(real, (plain, z.1), (re, im));
        let finite = math::is_finite(self.fx.b, z.1);
        let lost = self.fx.b.not(finite);
        let (zero, infinity, nan) = (self.fx.c(0.0), self.fx.c(f64::INFINITY), self.fx.c(f64::NAN));
        let low = self.fx.is(z.0, FloatCond::Eq, f64::NEG_INFINITY);
        let low = self.fx.b.and(low, lost);
        let high = self.fx.is(z.0, FloatCond::Eq, f64::INFINITY);
        let high = self.fx.b.and(high, lost);
        let w = self.pick(low, (zero, zero), w);
        self.pick(high, (infinity, nan), w)
    }

    fn expm1(&mut self, z: Pair) -> Pair {
        // (m + 1)(cos y + i sin y) - 1 with m = expm1 x, and cos y - 1 = -2 sin^2 (y / 2).
        let half = self.fx.scale(z.1, 0.5);
        let half = self.real(math::sin, half);
        let versed = self.fx.mul(half, half);
        let versed = self.fx.scale(versed, -2.0);
        let m = self.real(math::expm1, z.0);
        let cos = self.real(math::cos, z.1);
        let re = self.fx.fma(m, cos, versed);
        let e = self.exp(z);
        let far = self.fx.is(z.0, FloatCond::Gt, 700.0);
        let size = self.is_infinite(z.0);
        let far = self.fx.b.or(far, size);
        let one = self.fx.c(1.0);
        let other = self.fx.sub(e.0, one);
        let re = self.fx.b.select(far, other, re);
        let real = self.fx.is(z.1, FloatCond::Eq, 0.0);
        self.pick(real, (m, z.1), (re, e.1))
    }

    /// log |1 + d + i y| by log1p of 2 d + d^2 + y^2, summed with its rounding errors.
    fn log_near_one(&mut self, d: NodeId, y: NodeId) -> NodeId {
        let (p, pe) = self.fx.two_product(d, d);
        let (q, qe) = self.fx.two_product(y, y);
        let twice = self.fx.add(d, d);
        let (s, e) = self.fx.two_sum(twice, p);
        let (s, e2) = self.fx.two_sum(s, q);
        let e = self.fx.add(e, e2);
        let e = self.fx.add(e, pe);
        let e = self.fx.add(e, qe);
        let s = self.fx.add(s, e);
        let s = self.fx.at_least(s, -1.0);
        let l = self.real(math::log1p, s);
        self.fx.scale(l, 0.5)
    }

    fn log_modulus(&mut self, z: Pair) -> NodeId {
        let (x, y) = (self.fx.b.fabs(z.0), self.fx.b.fabs(z.1));
        let swap = self.fx.b.fcmp(FloatCond::Lt, x, y);
        let (large, small) = (self.fx.b.select(swap, y, x), self.fx.b.select(swap, x, y));
        let one = self.fx.c(1.0);
        let d = self.fx.sub(large, one);
        let near = self.log_near_one(d, small);
        let far = if self.scaled {
            // Scaled, as the modulus itself may overflow or be subnormal: 600 ln 2 is taken off again.
            let (down, _) = self.scales(z);
            let scaled = (self.fx.mul(x, down), self.fx.mul(y, down));
            let size = self.plain_modulus(scaled);
            let l = self.real(math::log, size);
            let shift = self.fx.is(down, FloatCond::Lt, 1.0);
            let other = self.fx.is(down, FloatCond::Gt, 1.0);
            let by = 600.0 * std::f64::consts::LN_2;
            let (plus, minus, zero) = (self.fx.c(by), self.fx.c(-by), self.fx.c(0.0));
            let by = self.fx.b.select(shift, plus, zero);
            let by = self.fx.b.select(other, minus, by);
            let l = self.fx.add(l, by);
            let infinite = self.infinite(z);
            let infinity = self.fx.c(f64::INFINITY);
            self.fx.b.select(infinite, infinity, l)
        } else {
            let size = self.modulus(z);
            self.real(math::log, size)
        };
        let low = self.fx.is(large, FloatCond::Gt, 0.5);
        let high = self.fx.is(large, FloatCond::Lt, 2.0);
        let close = self.fx.b.and(low, high);
        self.fx.b.select(close, near, far)
    }

    fn argument(&mut self, z: Pair) -> NodeId {
        math::atan2(self.fx.b, self.fx.v, z.1, z.0)
    }

    fn log(&mut self, z: Pair) -> Pair {
        (self.log_modulus(z), self.argument(z))
    }

    fn log1p(&mut self, z: Pair) -> Pair {
        let one = self.fx.c(1.0);
        let shifted = (self.fx.add(z.0, one), z.1);
        let near = self.log_near_one(z.0, z.1);
        let far = self.log_modulus(shifted);
        // Near the origin the sum 1 + z has lost z.
        let (x, y) = (self.fx.b.fabs(z.0), self.fx.b.fabs(z.1));
        let larger = self.fx.b.fmax_pseudo(x, y);
        let close = self.fx.is(larger, FloatCond::Lt, 0.5);
        let re = self.fx.b.select(close, near, far);
        (re, self.argument(shifted))
    }

    fn sqrt(&mut self, z: Pair) -> Pair {
        let (s, back) = if self.scaled {
            let (down, up) = self.scales(z);
            ((self.fx.mul(z.0, down), self.fx.mul(z.1, down)), Some(self.fx.b.sqrt(up)))
        } else {
            (z, None)
        };
        let size = self.modulus(s);
        let x = self.fx.b.fabs(s.0);
        let sum = self.fx.add(size, x);
        let half = self.fx.scale(sum, 0.5);
        let t = self.fx.b.sqrt(half);
        let twice = self.fx.add(t, t);
        let other = self.fx.div(s.1, twice);
        let left = self.fx.is(z.0, FloatCond::Lt, 0.0);
        let size = self.fx.b.fabs(other);
        let signed = math::copysign(self.fx.b, t, z.1);
        let (mut re, mut im) = self.pick(left, (size, signed), (t, other));
        if let Some(up) = back {
            re = self.fx.mul(re, up);
            im = self.fx.mul(im, up);
        }
        let (zero_re, zero_im) = (self.fx.is(z.0, FloatCond::Eq, 0.0), self.fx.is(z.1, FloatCond::Eq, 0.0));
        let none = self.fx.b.and(zero_re, zero_im);
        let (zero, infinity) = (self.fx.c(0.0), self.fx.c(f64::INFINITY));
        let w = self.pick(none, (zero, z.1), (re, im));
        let infinite = self.is_infinite(z.1);
        self.pick(infinite, (infinity, z.1), w)
    }

    fn rsqrt(&mut self, z: Pair) -> Pair {
        let root = self.sqrt(z);
        let (one, zero) = (self.fx.c(1.0), self.fx.c(0.0));
        let w = self.divide((one, zero), root);
        let (zero_re, zero_im) = (self.fx.is(z.0, FloatCond::Eq, 0.0), self.fx.is(z.1, FloatCond::Eq, 0.0));
        let none = self.fx.b.and(zero_re, zero_im);
        let (infinity, nan) = (self.fx.c(f64::INFINITY), self.fx.c(f64::NAN));
        let w = self.pick(none, (infinity, nan), w);
        let infinite = self.infinite(z);
        let unordered = self.fx.b.fcmp(FloatCond::Uno, z.0, z.1);
        let ordered = self.fx.b.not(unordered);
        let far = self.fx.b.and(infinite, ordered);
        let minus = self.neg(z.1);
        let im = math::copysign(self.fx.b, zero, minus);
        self.pick(far, (zero, im), w)
    }

    fn cbrt(&mut self, z: Pair) -> Pair {
        let (size, angle) = (self.modulus(z), self.argument(z));
        let size = self.real(math::cbrt, size);
        let third = self.fx.c(3.0);
        let angle = self.fx.div(angle, third);
        let (cos, sin) = (self.real(math::cos, angle), self.real(math::sin, angle));
        (self.fx.mul(size, cos), self.fx.mul(size, sin))
    }

    fn logistic(&mut self, z: Pair) -> Pair {
        let minus = (self.neg(z.0), self.neg(z.1));
        let e = self.exp(minus);
        let (one, zero) = (self.fx.c(1.0), self.fx.c(0.0));
        let bottom = (self.fx.add(e.0, one), e.1);
        self.divide((one, zero), bottom)
    }

    /// f(x) g, a zero winning over an infinity; `f` is sinh or cosh.
    fn hyperbolic_times(&mut self, sinh: bool, x: NodeId, g: NodeId) -> NodeId {
        let f = if sinh { self.real(math::sinh, x) } else { self.real(math::cosh, x) };
        let mut value = self.fx.mul(f, g);
        let size = self.fx.b.fabs(x);
        if self.scaled {
            let half = self.fx.scale(g, 0.5);
            let mut far = self.exp_times(size, half);
            if sinh {
                let sign = self.fx.sign_bits(x);
                far = self.fx.flip(far, sign);
            }
            let beyond = self.fx.is(size, FloatCond::Gt, 700.0);
            value = self.fx.b.select(beyond, far, value);
        }
        let zero_f = self.fx.is(f, FloatCond::Eq, 0.0);
        let zero_g = self.fx.is(g, FloatCond::Eq, 0.0);
        let either = self.fx.b.or(zero_f, zero_g);
        let unordered = self.fx.b.fcmp(FloatCond::Uno, f, g);
        let ordered = self.fx.b.not(unordered);
        let either = self.fx.b.and(either, ordered);
        let sign = self.fx.sign_bits(f);
        let zero = self.fx.c(0.0);
        let zero = math::copysign(self.fx.b, zero, g);
        let zero = self.fx.flip(zero, sign);
        self.fx.b.select(either, zero, value)
    }

    fn sinh(&mut self, z: Pair) -> Pair {
        let (cos, sin) = (self.real(math::cos, z.1), self.real(math::sin, z.1));
        let (re, im) = (self.hyperbolic_times(true, z.0, cos), self.hyperbolic_times(false, z.0, sin));
        let real = self.fx.is(z.1, FloatCond::Eq, 0.0);
        let plain = self.real(math::sinh, z.0);
        self.pick(real, (plain, z.1), (re, im))
    }

    fn cosh(&mut self, z: Pair) -> Pair {
        let (cos, sin) = (self.real(math::cos, z.1), self.real(math::sin, z.1));
        let (re, im) = (self.hyperbolic_times(false, z.0, cos), self.hyperbolic_times(true, z.0, sin));
        let real = self.fx.is(z.1, FloatCond::Eq, 0.0);
        let plain = self.real(math::cosh, z.0);
        let sign = self.fx.sign_bits(z.0);
        let zero = self.fx.flip(z.1, sign);
        self.pick(real, (plain, zero), (re, im))
    }

    fn tanh(&mut self, z: Pair) -> Pair {
        let (x, y) = z;
        let (cos, sin) = (self.real(math::cos, y), self.real(math::sin, y));
        let limited = self.fx.at_most(x, 300.0);
        let limited = self.fx.at_least(limited, -300.0);
        let (sh, ch) = (self.real(math::sinh, limited), self.real(math::cosh, limited));
        // (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y)
        let p = self.fx.mul(cos, cos);
        let d = self.fx.fma(sh, sh, p);
        let (top, side) = (self.fx.mul(sh, ch), self.fx.mul(sin, cos));
        let w = (self.fx.div(top, d), self.fx.div(side, d));
        let real = self.fx.is(y, FloatCond::Eq, 0.0);
        let plain = self.real(math::tanh, x);
        let w = self.pick(real, (plain, y), w);
        let imaginary = self.fx.is(x, FloatCond::Eq, 0.0);
        let tan = self.real(math::tan, y);
        let w = self.pick(imaginary, (x, tan), w);
        let size = self.fx.b.fabs(x);
        let far = self.fx.is(size, FloatCond::Gt, 300.0);
        let (one, zero) = (self.fx.c(1.0), self.fx.c(0.0));
        let unit = math::copysign(self.fx.b, one, x);
        let finite = math::is_finite(self.fx.b, y);
        let tail = self.fx.b.select(finite, side, zero);
        let tail = math::copysign(self.fx.b, zero, tail);
        self.pick(far, (unit, tail), w)
    }

    /// sqrt(1 - z) and sqrt(1 + z).
    fn roots(&mut self, z: Pair) -> (Pair, Pair) {
        let one = self.fx.c(1.0);
        let minus = (self.fx.sub(one, z.0), self.neg(z.1));
        let plus = (self.fx.add(one, z.0), z.1);
        (self.sqrt(minus), self.sqrt(plus))
    }

    fn asin(&mut self, z: Pair) -> Pair {
        let (minus, plus) = self.roots(z);
        let product = self.cross(plus.0, minus.0, plus.1, minus.1);
        let re = math::atan2(self.fx.b, self.fx.v, z.0, product);
        let argument = self.cross(minus.0, plus.1, minus.1, plus.0);
        (re, self.real(math::asinh, argument))
    }

    fn acos(&mut self, z: Pair) -> Pair {
        let (minus, plus) = self.roots(z);
        let half = math::atan2(self.fx.b, self.fx.v, minus.0, plus.0);
        let argument = self.cross(plus.0, minus.1, plus.1, minus.0);
        (self.fx.add(half, half), self.real(math::asinh, argument))
    }

    fn acosh(&mut self, z: Pair) -> Pair {
        let one = self.fx.c(1.0);
        let minus = (self.fx.sub(z.0, one), z.1);
        let plus = (self.fx.add(z.0, one), z.1);
        let (minus, plus) = (self.sqrt(minus), self.sqrt(plus));
        let argument = self.dot(minus.0, plus.0, minus.1, plus.1);
        let half = math::atan2(self.fx.b, self.fx.v, minus.1, plus.0);
        (self.real(math::asinh, argument), self.fx.add(half, half))
    }

    fn atanh(&mut self, z: Pair) -> Pair {
        let one = self.fx.c(1.0);
        let (less, more) = (self.fx.sub(one, z.0), self.fx.add(one, z.0));
        let square = self.fx.mul(z.1, z.1);
        let norm = self.fx.fma(less, less, square);
        let four = self.fx.scale(z.0, 4.0);
        let ratio = self.fx.div(four, norm);
        let re = self.real(math::log1p, ratio);
        let re = self.fx.scale(re, 0.25);
        let twice = self.fx.add(z.1, z.1);
        let minus = self.neg(square);
        let bottom = self.fx.fma(less, more, minus);
        let im = math::atan2(self.fx.b, self.fx.v, twice, bottom);
        let im = self.fx.scale(im, 0.5);
        let far = self.infinite(z);
        let (zero, quarter) = (self.fx.c(0.0), self.fx.c(std::f64::consts::FRAC_PI_2));
        let zero = math::copysign(self.fx.b, zero, z.0);
        let quarter = math::copysign(self.fx.b, quarter, z.1);
        self.pick(far, (zero, quarter), (re, im))
    }

    fn power(&mut self, a: Pair, b: Pair) -> Pair {
        let l = self.log(a);
        let exponent = (self.cross(l.0, b.0, l.1, b.1), self.dot(l.0, b.1, l.1, b.0));
        let w = self.exp(exponent);
        let (zero, one, nan) = (self.fx.c(0.0), self.fx.c(1.0), self.fx.c(f64::NAN));
        let b_real = self.fx.is(b.1, FloatCond::Eq, 0.0);
        let positive = self.fx.is(b.0, FloatCond::Gt, 0.0);
        let vanishes = self.fx.b.and(b_real, positive);
        let at_zero = self.fx.b.select(vanishes, zero, nan);
        let (a_re, a_im) = (self.fx.is(a.0, FloatCond::Eq, 0.0), self.fx.is(a.1, FloatCond::Eq, 0.0));
        let base = self.fx.b.and(a_re, a_im);
        let w = self.pick(base, (at_zero, at_zero), w);
        let b_zero = self.fx.is(b.0, FloatCond::Eq, 0.0);
        let none = self.fx.b.and(b_zero, b_real);
        self.pick(none, (one, zero), w)
    }

    /// -i log((x + i y) / sqrt(x^2 + y^2)) for atan2(y, x).
    fn atan2(&mut self, y: Pair, x: Pair) -> Pair {
        let turned = self.times_i(y);
        let top = (self.fx.add(x.0, turned.0), self.fx.add(x.1, turned.1));
        let (p, q) = (self.square(x), self.square(y));
        let sum = (self.fx.add(p.0, q.0), self.fx.add(p.1, q.1));
        let root = self.sqrt(sum);
        let w = self.divide(top, root);
        let l = self.log(w);
        (l.1, self.neg(l.0))
    }

    fn square(&mut self, z: Pair) -> Pair {
        let (d, s) = (self.fx.sub(z.0, z.1), self.fx.add(z.0, z.1));
        let twice = self.fx.add(z.0, z.0);
        (self.fx.mul(d, s), self.fx.mul(twice, z.1))
    }
}
