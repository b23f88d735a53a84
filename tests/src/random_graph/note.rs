//! What is known of a value: how large, and how far apart two correct engines may be.

use brolga_runtime::{ArrayLiteral, ElementType, Scalar};

/// Bounds on a value's elements; integers are always exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note {
    /// No element is larger in magnitude; infinite where infinities or NaNs may occur.
    pub bound: f64,
    /// Two engines differ by no more than this.
    pub err: f64,
    /// Or by this much of the element: only values without a bound have it, and nothing is computed from those.
    pub rel: f64,
    /// The sign of a zero is not certain.
    pub loose_zero: bool,
}

/// Differences larger than this in a value tell nothing about what is computed from it.
const MAX_ERR: f64 = 1e-2;

/// Unit roundoff of a float type.
pub(super) fn roundoff(ty: ElementType) -> f64 {
    match ty {
        ElementType::F64 => 2f64.powi(-53),
        ElementType::F32 => 2f64.powi(-24),
        ElementType::F16 => 2f64.powi(-11),
        ElementType::BF16 => 2f64.powi(-8),
        ElementType::F8E3M4 => 2f64.powi(-5),
        ElementType::F8E5M2 | ElementType::F8E5M2Fnuz => 2f64.powi(-3),
        ElementType::F4E2M1Fn => 2f64.powi(-2),
        _ => 2f64.powi(-4),
    }
}

/// Half the largest number of a float type.
pub(super) fn safe_bound(ty: ElementType) -> f64 {
    match ty {
        ElementType::F64 | ElementType::F32 | ElementType::BF16 => 1e30,
        ElementType::F16 | ElementType::F8E5M2 | ElementType::F8E5M2Fnuz => 2e4,
        ElementType::F8E4M3Fn => 200.0,
        ElementType::F8E4M3 | ElementType::F8E4M3Fnuz => 120.0,
        ElementType::F8E4M3B11Fnuz => 15.0,
        ElementType::F8E3M4 => 7.5,
        _ => 3.0,
    }
}

/// What a rounding below the normal numbers of a float type changes, where steps are absolute.
pub(super) fn step(ty: ElementType) -> f64 {
    match ty {
        ElementType::F16 | ElementType::BF16 => 2f64.powi(-24),
        ElementType::F8E3M4 => 2f64.powi(-7),
        ElementType::F4E2M1Fn => 0.25,
        _ if is_narrow(ty) => 2f64.powi(-9),
        _ => 1e-45,
    }
}

/// Whether a float is computed in a wider type than its own.
pub(super) fn is_narrow(ty: ElementType) -> bool {
    ty.is_float() && ty.bits() < 32
}

impl Note {
    /// One right answer.
    pub fn exact(bound: f64) -> Note {
        Note { bound, err: 0.0, rel: 0.0, loose_zero: false }
    }

    /// Whether two engines must agree.
    pub fn is_exact(&self) -> bool {
        self.err == 0.0 && self.rel == 0.0
    }

    /// Whether anything may be computed from it.
    pub fn is_usable(&self) -> bool {
        self.rel == 0.0
    }

    /// A result that differs by `err`, or by `rel` of itself.
    pub(super) fn inexact(bound: f64, err: f64, rel: f64) -> Note {
        if bound.is_finite() {
            Note { bound, err: err + rel * bound, rel: 0.0, loose_zero: true }
        } else {
            Note { bound, err, rel, loose_zero: true }
        }
    }

    /// The note of a value of type `ty` that is rounded to it; `None` where the difference would be too large to tell
    /// anything, or may turn into infinity in one engine only.
    pub(super) fn rounded(mut self, ty: ElementType, strict: bool) -> Option<Note> {
        if !ty.is_float() {
            return Some(Note::exact(f64::INFINITY));
        }
        let excess = is_narrow(ty) && !strict;
        if !self.is_exact() || excess {
            if self.bound > safe_bound(ty) && self.rel == 0.0 {
                return None;
            }
            self.err += roundoff(ty) * self.bound.min(1e30) * if self.rel > 0.0 { 0.0 } else { 1.0 };
            self.err += step(ty);
            if self.rel > 0.0 {
                self.rel += roundoff(ty);
            }
        } else if self.bound > safe_bound(ty) {
            self.bound = f64::INFINITY;
        }
        (self.err <= MAX_ERR * self.bound.max(1.0)).then_some(self)
    }

    /// As far as the larger of two.
    pub(super) fn either(self, other: Note) -> Note {
        Note {
            bound: self.bound.max(other.bound),
            err: self.err.max(other.err),
            rel: self.rel.max(other.rel),
            loose_zero: self.loose_zero || other.loose_zero,
        }
    }

    /// Whether two results are as near as this says; the first element that is not.
    pub fn check(&self, got: &ArrayLiteral, want: &ArrayLiteral) -> Result<(), String> {
        if got.ty() != want.ty() || got.dims() != want.dims() {
            return Err(format!("shape {:#}, want {:#}", got.shape(), want.shape()));
        }
        for i in 0..want.elements() {
            let (a, b) = (got.get(i), want.get(i));
            let near = match (a, b) {
                (Scalar::Float(a), Scalar::Float(b)) => {
                    let same = a == b || a.is_nan() && b.is_nan();
                    let limit = 4.0 * self.err + self.rel * b.abs();
                    same || a.is_finite() && b.is_finite() && (a - b).abs() <= limit
                }
                _ => a == b,
            };
            if !near {
                return Err(format!("element {i} of {} is {a:?}, want {b:?} ({self:?})", want.elements()));
            }
        }
        Ok(())
    }
}
