//! Functions that have one right answer or a bound of their own, whatever their operand, and norms with statistics.

use super::elementwise::function_rel;
use super::note::{Note, roundoff, safe_bound, step};
use super::{Generator, Value};
use brolga_compiler::builder::{Builder, Op};
use brolga_runtime::{ArrayShape, ElementType as E};

type Unary = fn(&Builder, Op) -> Op;
type Binary = fn(&Builder, Op, Op) -> Op;

/// Functions whose results differ by a part of themselves, of operands on which engines agree.
const SHARP: [Unary; 14] = [
    Builder::acos,
    Builder::acosh,
    Builder::asin,
    Builder::asinh,
    Builder::atanh,
    Builder::cbrt,
    Builder::cos,
    Builder::cosh,
    Builder::expm1,
    Builder::log1p,
    Builder::sin,
    Builder::sinh,
    Builder::tan,
    Builder::tanh,
];

/// Comparisons that tell zeros apart.
const TOTAL_ORDER: [Binary; 6] = [
    Builder::eq_total_order,
    Builder::ne_total_order,
    Builder::ge_total_order,
    Builder::gt_total_order,
    Builder::le_total_order,
    Builder::lt_total_order,
];

impl Generator {
    pub(super) fn functions(&mut self) -> Option<usize> {
        match self.rng.below(8) {
            0..=2 => self.sharp(),
            3 => self.power(),
            4 => self.high_half(),
            5 => self.cut_precision(),
            6 => self.stochastic(),
            _ => self.finite_or_ordered(),
        }
    }

    /// What is known of a function's result where its operands are exact.
    fn bounded_function(&self, ty: E) -> Option<Note> {
        Note::inexact(f64::INFINITY, 0.0, function_rel(ty)).rounded(ty, self.strict)
    }

    fn sharp(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.ty().is_float() && v.note.is_exact())?;
        let Value { op, shape, .. } = self.values[x].clone();
        let made = self.rng.pick(&SHARP)(&self.builder, op);
        let note = self.bounded_function(shape.ty);
        self.add_if(made, &[x], note)
    }

    /// A power; of integers it has one answer.
    fn power(&mut self) -> Option<usize> {
        let fits = |v: &Value| v.note.is_exact() && !v.note.loose_zero && v.ty() != E::Pred;
        let x = self.choose(fits)?;
        let shape = self.values[x].shape.clone();
        let y = self.like(&shape, fits);
        let made = self.builder.pow(self.values[x].op, self.values[y].op);
        let note = if shape.ty.is_float() { self.bounded_function(shape.ty) } else { Some(Note::exact(f64::INFINITY)) };
        self.add_if(made, &[x, y], note)
    }

    fn high_half(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.ty().is_integer())?;
        let shape = self.values[x].shape.clone();
        let y = self.like(&shape, |_| true);
        let made = self.builder.mulhi(self.values[x].op, self.values[y].op);
        self.add(made, &[x, y], Note::exact(f64::INFINITY))
    }

    fn cut_precision(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.ty().is_float() && v.note.is_exact())?;
        let Value { op, shape, note } = self.values[x].clone();
        let (exponent, mantissa) = self.rng.pick(&[(8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (11, 52), (3, 0)]);
        let made = self.builder.reduce_precision(op, exponent, mantissa);
        let note = Note { bound: f64::INFINITY, ..note }.rounded(shape.ty, self.strict);
        self.add_if(made, &[x], note)
    }

    fn stochastic(&mut self) -> Option<usize> {
        let fits = |v: &Value| matches!(v.ty(), E::F16 | E::BF16 | E::F32 | E::F64) && v.note.is_exact();
        let x = self.choose(fits)?;
        let Value { op, shape, .. } = self.values[x].clone();
        let bits = match shape.ty.bits() {
            16 => E::U16,
            32 => E::U32,
            _ => E::U64,
        };
        let random = self.like(&ArrayShape::new(bits, shape.dims.clone()), |_| true);
        let to = self.rng.pick(&[E::BF16, E::F16, E::F8E5M2, E::F8E4M3Fn, E::S8, E::U8, E::S32]);
        if to.is_float() && to.bits() >= shape.ty.bits() {
            return None;
        }
        let made = self.builder.stochastic_convert(op, self.values[random].op, to);
        let note = Note { loose_zero: true, ..Note::exact(f64::INFINITY) };
        self.add(made, &[x, random], note)
    }

    /// Whether elements are finite, or how they stand in the total order.
    fn finite_or_ordered(&mut self) -> Option<usize> {
        // Of zeros and NaNs the order tells signs apart.
        let certain =
            |v: &Value| v.ty().is_float() && v.note.is_exact() && !v.note.loose_zero && v.note.bound.is_finite();
        if self.rng.chance(1, 2) {
            let x = self.choose(|v| v.ty().is_float() && v.note.is_exact())?;
            let made = self.builder.is_finite(self.values[x].op);
            return self.add(made, &[x], Note::exact(1.0));
        }
        let x = self.choose(certain)?;
        let shape = self.values[x].shape.clone();
        let y = self.like(&shape, certain);
        let made = self.rng.pick(&TOTAL_ORDER)(&self.builder, self.values[x].op, self.values[y].op);
        self.add(made, &[x, y], Note::exact(1.0))
    }

    /// A batch norm in one of its three forms.
    pub(super) fn batch_norm(&mut self) -> Option<usize> {
        let fits = |v: &Value| {
            let ty = matches!(v.ty(), E::F32 | E::F64 | E::F16 | E::BF16);
            ty && v.note.is_exact() && v.note.bound.is_finite() && !v.shape.dims.is_empty() && v.elements() > 0
        };
        let x = self.choose(fits)?;
        let Value { shape, op, note } = self.values[x].clone();
        let ty = shape.ty;
        let feature = self.rng.below(shape.rank() as u64) as usize;
        let row = ArrayShape::new(ty, [shape.dims[feature]]);
        let [scale, third] = [(); 2].map(|()| self.like(&row, fits));
        let epsilon = self.rng.pick(&[1.0, 0.5, 0.25]);
        let (s, t) = (self.values[scale].note.bound, self.values[third].note.bound);
        let (scale_op, third_op) = (self.values[scale].op, self.values[third].op);
        let n = (shape.elements() as i64 / shape.dims[feature].max(1)) as f64;
        let u = roundoff(ty);
        // An inverse deviation is at most `inverse`, and changes by `slope` where the variance changes by one.
        let (inverse, slope) = (f64::powf(epsilon, -0.5), 0.5 * f64::powf(epsilon, -1.5));
        let strict = self.strict;
        let known = |bound: f64, err: f64| Note { bound, err, rel: 0.0, loose_zero: true }.rounded(ty, strict);
        // What an element is at most that lies so far from the mean, and each product on the way to it.
        let scaled = |distance: f64| (1.0 + distance) * (1.0 + inverse) * (1.0 + s);
        // A factor or summand below the normal numbers is rounded by a step, which the other factors multiply.
        let steps = 8.0 * (n + 8.0) * step(ty);
        if self.rng.chance(1, 2) {
            let all = self.builder.batch_norm_training(op, scale_op, third_op, epsilon, feature as i64);
            let b = note.bound;
            let (sums, scaled) = (n * (1.0 + b) * (1.0 + b), scaled(2.0 * b));
            // What overflows in between is no number, also times zero.
            if sums.max(scaled) > safe_bound(ty) {
                return None;
            }
            let (mean, variance) = ((n + 4.0) * u * b + steps, 8.0 * (n + 4.0) * u * b * b + steps * (1.0 + b));
            let bound = 2.0 * b * inverse * s + t;
            let err = s * (mean * inverse + 2.0 * b * slope * variance) + 16.0 * u * bound + steps * scaled;
            let notes = [known(bound, err), known(b, mean), known(b * b, variance)];
            return self.parts(all, &[x, scale, third], notes);
        }
        let spread = self.like(&row, fits);
        let (v, spread_op) = (self.values[spread].note.bound, self.builder.abs(self.values[spread].op));
        let from_mean = note.bound + t;
        if self.rng.chance(1, 2) {
            let offset = self.like(&row, fits);
            let scaled = scaled(from_mean);
            if scaled.max(v) > safe_bound(ty) {
                return None;
            }
            let bound = from_mean * inverse * s + self.values[offset].note.bound;
            let err = 16.0 * u * bound + from_mean * slope * s * u * (v + 1.0) + steps * scaled;
            let note = known(bound, err);
            let offset_op = self.values[offset].op;
            let made = self.builder.batch_norm_inference(
                op,
                scale_op,
                offset_op,
                third_op,
                spread_op,
                epsilon,
                feature as i64,
            );
            return self.add_if(made, &[x, scale, third, spread, offset], note);
        }
        let gradient = self.like(&shape, fits);
        let g = self.values[gradient].note.bound;
        let gradient_op = self.values[gradient].op;
        let all = self.builder.batch_norm_grad(op, scale_op, third_op, spread_op, gradient_op, epsilon, feature as i64);
        let part = 8.0 * (n + 8.0) * u * (1.0 + v);
        let base = s * inverse * g * (2.0 + from_mean * from_mean / epsilon);
        let by_scale = n * g * from_mean * inverse;
        let others = (1.0 + inverse) * (1.0 + g) * (1.0 + from_mean);
        let after_scale = (1.0 + s) * others * (2.0 + from_mean * from_mean / epsilon);
        // What overflows in between is no number, also times zero, and which factors meet first is open.
        if after_scale > safe_bound(ty) {
            return None;
        }
        let notes = [
            known(base, part * base + steps * after_scale),
            known(by_scale, part * by_scale + steps * others),
            known(n * g, part * n * g + steps),
        ];
        self.parts(all, &[x, scale, third, spread, gradient], notes)
    }

    /// The parts of a tuple of which anything is known.
    fn parts(&mut self, all: Op, operands: &[usize], notes: [Option<Note>; 3]) -> Option<usize> {
        let mut made = None;
        for (k, note) in notes.into_iter().enumerate() {
            let Some(note) = note else { continue };
            let part = self.builder.get_tuple_element(all, k as i64);
            made = self.add(part, operands, note);
        }
        made
    }
}
