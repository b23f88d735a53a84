//! Transcendental functions as straight-line nodes.
//!
//! Problem: a kernel has no library to call, and a call would cost more than the function. Invariant: an expansion has
//! no branch, uses only nodes that exist for vectors on every target, keeps subnormal inputs and results, and stays
//! within the bound that its comment names (units in the last place of its scalar type, checked by the tests beside it), in
//! both numeric variants. Algorithm: the argument is reduced to a short interval by exact or compensated steps, a
//! minimax polynomial or quotient of polynomials (from `tools/minimax.py`) is evaluated there, and the reduction is
//! undone by operations on the exponent field. Rounding to an integer is done by adding a number so large that the sum
//! has no fraction bits, which leaves the integer in its low bits.

pub mod division;
mod erf;
mod exp;
mod hyperbolic;
mod inverse_trig;
mod log;
mod power;
mod quotient;
mod remainder;
mod rounding;
mod trig;

pub use erf::erf;
pub use exp::{exp, expm1, logistic, tanh};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use inverse_trig::{acos, asin, atan, atan2};
pub use log::{log, log1p};
pub use power::{cbrt, pow};
pub use quotient::divide_by_constant;
pub use remainder::remainder;
pub use rounding::{copysign, is_finite, maximum, minimum, round_nearest_afz, sign};
pub use trig::{cos, sin, tan};

use super::body::{Body, FloatCond, NodeId, ScalarType, Variant};

/// A body, a variant and a float type: what every expansion needs at hand.
pub(in crate::kernel) struct Fx<'a> {
    pub(in crate::kernel) b: &'a mut Body,
    pub(in crate::kernel) v: Variant,
    pub(in crate::kernel) scalar: ScalarType,
}

impl<'a> Fx<'a> {
    pub(in crate::kernel) fn new(b: &'a mut Body, v: Variant, x: NodeId) -> Fx<'a> {
        let scalar = b.scalar(x);
        Fx { b, v, scalar }
    }

    pub(in crate::kernel) fn double(&self) -> bool {
        self.scalar == ScalarType::F64
    }

    /// A constant, rounded to the scalar type.
    pub(in crate::kernel) fn c(&mut self, v: f64) -> NodeId {
        self.b.float(self.scalar, v)
    }

    pub(in crate::kernel) fn add(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.b.fadd(a, b)
    }
    pub(in crate::kernel) fn sub(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.b.fsub(a, b)
    }
    pub(in crate::kernel) fn mul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.b.fmul(a, b)
    }
    pub(in crate::kernel) fn div(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.b.fdiv(a, b)
    }
    /// `a * b + c`, once or twice rounded.
    pub(in crate::kernel) fn fma(&mut self, a: NodeId, b: NodeId, c: NodeId) -> NodeId {
        self.b.mul_add(self.v, a, b, c)
    }
    /// `a * k`.
    pub(in crate::kernel) fn scale(&mut self, a: NodeId, k: f64) -> NodeId {
        let k = self.c(k);
        self.b.fmul(a, k)
    }
    /// `c - n * k`: exact in both variants where `n * k` is.
    pub(in crate::kernel) fn minus_multiple(&mut self, c: NodeId, n: NodeId, k: f64) -> NodeId {
        let k = self.c(-k);
        self.fma(n, k, c)
    }
    /// The polynomial with the coefficients given lowest first.
    pub(in crate::kernel) fn poly(&mut self, x: NodeId, coefficients: &[f64]) -> NodeId {
        let mut rest = coefficients.iter().rev();
        let Some(&top) = rest.next() else { return self.c(0.0) };
        let mut sum = self.c(top);
        for &k in rest {
            let k = self.c(k);
            sum = self.fma(sum, x, k);
        }
        sum
    }
    /// [`Fx::poly`] with one of two lists, by the scalar type.
    pub(in crate::kernel) fn poly2(&mut self, x: NodeId, single: &[f64], double: &[f64]) -> NodeId {
        self.poly(x, if self.double() { double } else { single })
    }

    /// `x` limited from above; NaN stays.
    pub(in crate::kernel) fn at_most(&mut self, x: NodeId, limit: f64) -> NodeId {
        let limit = self.c(limit);
        self.b.fmin_pseudo(limit, x)
    }
    /// `x` limited from below; NaN stays.
    pub(in crate::kernel) fn at_least(&mut self, x: NodeId, limit: f64) -> NodeId {
        let limit = self.c(limit);
        self.b.fmax_pseudo(limit, x)
    }

    /// `x cond k`.
    pub(in crate::kernel) fn is(&mut self, x: NodeId, cond: FloatCond, k: f64) -> NodeId {
        let k = self.c(k);
        self.b.fcmp(cond, x, k)
    }

    /// The bits as the integer type of the same width.
    pub(in crate::kernel) fn bits(&mut self, x: NodeId) -> NodeId {
        self.b.bitcast(x, self.scalar.integer())
    }
    /// The float with the given bits.
    pub(in crate::kernel) fn float(&mut self, x: NodeId) -> NodeId {
        self.b.bitcast(x, self.scalar)
    }
    /// An integer constant of the scalar type's width.
    pub(in crate::kernel) fn int(&mut self, v: i64) -> NodeId {
        self.b.int(self.scalar.integer(), v)
    }

    /// Bits of the fraction field.
    pub(in crate::kernel) fn mantissa(&self) -> u8 {
        if self.double() { 52 } else { 23 }
    }
    /// The bias of the exponent field.
    pub(in crate::kernel) fn bias(&self) -> i64 {
        if self.double() { 1023 } else { 127 }
    }
    /// The number whose sums keep no fraction bits: 1.5 times 2 to the width of the mantissa.
    pub(in crate::kernel) fn anchor(&self) -> f64 {
        if self.double() { 6755399441055744.0 } else { 12582912.0 }
    }

    /// The sign bit alone, as an integer.
    pub(in crate::kernel) fn sign_bits(&mut self, x: NodeId) -> NodeId {
        let bits = self.bits(x);
        let mask = self.int(if self.double() { i64::MIN } else { i64::from(i32::MIN) });
        self.b.and(bits, mask)
    }
    /// `x` with its sign flipped where `sign` (from [`Fx::sign_bits`]) is set.
    pub(in crate::kernel) fn flip(&mut self, x: NodeId, sign: NodeId) -> NodeId {
        let bits = self.bits(x);
        let bits = self.b.xor(bits, sign);
        self.float(bits)
    }

    /// Sum and its rounding error, where `|a| >= |b|`.
    pub(in crate::kernel) fn fast_two_sum(&mut self, a: NodeId, b: NodeId) -> (NodeId, NodeId) {
        let sum = self.add(a, b);
        let rest = self.sub(sum, a);
        let error = self.sub(b, rest);
        (sum, error)
    }
    /// Product and its rounding error; without FMA only where 2^27 times either factor is in range.
    pub(in crate::kernel) fn two_product(&mut self, a: NodeId, b: NodeId) -> (NodeId, NodeId) {
        let p = self.mul(a, b);
        if self.v == Variant::Fma {
            let minus = self.b.fneg(p);
            return (p, self.b.fma(a, b, minus));
        }
        let ((ah, al), (bh, bl)) = (self.halves(a), self.halves(b));
        let e = self.mul(ah, bh);
        let e = self.sub(e, p);
        let cross = self.mul(ah, bl);
        let e = self.add(e, cross);
        let cross = self.mul(al, bh);
        let e = self.add(e, cross);
        let cross = self.mul(al, bl);
        (p, self.add(e, cross))
    }
    /// A number as a sum of two with half the bits each.
    fn halves(&mut self, a: NodeId) -> (NodeId, NodeId) {
        let big = self.scale(a, if self.double() { 134217729.0 } else { 4097.0 });
        let rest = self.sub(big, a);
        let high = self.sub(big, rest);
        (high, self.sub(a, high))
    }
    /// Sum and its rounding error.
    pub(in crate::kernel) fn two_sum(&mut self, a: NodeId, b: NodeId) -> (NodeId, NodeId) {
        let sum = self.add(a, b);
        let part = self.sub(sum, a);
        let other = self.sub(sum, part);
        let (d, e) = (self.sub(a, other), self.sub(b, part));
        let error = self.add(d, e);
        (sum, error)
    }
}

#[cfg(test)]
mod tests;
