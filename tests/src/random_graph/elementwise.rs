//! Elementwise steps.

use super::note::{Note, is_narrow, roundoff};
use super::{Generator, Value};
use brolga_compiler::builder::{Builder, ComparisonDirection as Direction, Op};
use brolga_runtime::ElementType as E;

type Unary = fn(&Builder, Op) -> Op;
type Binary = fn(&Builder, Op, Op) -> Op;

/// How far a function of a published bound may be off, as a part of the result: some units in the last place, and for
/// narrow types the rounding of each engine.
pub(super) fn function_rel(ty: E) -> f64 {
    let compute = if ty == E::F64 { roundoff(E::F64) } else { roundoff(E::F32) };
    24.0 * compute + if is_narrow(ty) { 2.0 * roundoff(ty) } else { 0.0 }
}

impl Generator {
    pub(super) fn elementwise(&mut self) -> Option<usize> {
        match self.rng.below(12) {
            0..=2 => self.unary(),
            3..=7 => self.binary(),
            8 => self.compare(),
            9 => self.select(),
            10 => self.clamp(),
            _ => self.convert(),
        }
    }

    pub(super) fn unary(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable())?;
        self.unary_of(x)
    }

    /// A function of a value that is usable.
    pub(super) fn unary_of(&mut self, x: usize) -> Option<usize> {
        let ty = self.values[x].ty();
        if ty == E::Pred {
            let op = self.builder.not(self.values[x].op);
            return self.add(op, &[x], Note::exact(1.0));
        }
        if ty.is_integer() {
            let signed: [Unary; 6] =
                [Builder::neg, Builder::not, Builder::abs, Builder::sign, Builder::clz, Builder::population_count];
            let f = if ty.is_signed_integer() { self.rng.pick(&signed) } else { self.rng.pick(&signed[..2]) };
            let op = f(&self.builder, self.values[x].op);
            return self.add(op, &[x], Note::exact(f64::INFINITY));
        }
        self.float_unary(x)
    }

    fn float_unary(&mut self, x: usize) -> Option<usize> {
        let Value { op: operand, note, .. } = self.values[x];
        let ty = self.values[x].ty();
        let (strict, rel) = (self.strict, function_rel(ty));
        let b = &self.builder;
        // Differences grow by no more than the steepest slope.
        let smooth = |bound: f64, slope: f64| {
            // NaN stays NaN whatever the function's range.
            let bound = if note.bound.is_finite() { bound } else { f64::INFINITY };
            let made = Note::inexact(bound, note.err * slope, rel);
            Note { err: made.err, ..made }.rounded(ty, strict)
        };
        let sharp = |bound: f64| note.is_exact().then(|| Note::inexact(bound, 0.0, rel).rounded(ty, strict)).flatten();
        let one_answer = |bound: f64| {
            if note.is_exact() { Note { bound, ..note }.rounded(ty, strict) } else { None }
        };
        let (op, note) = match self.rng.below(20) {
            0..=2 => (b.neg(operand), Some(note)),
            3 => (b.abs(operand), Some(note)),
            4 => (b.floor(operand), one_answer(note.bound + 1.0)),
            5 => (b.ceil(operand), one_answer(note.bound + 1.0)),
            6 => (b.round_nearest_even(operand), one_answer(note.bound + 1.0)),
            7 => (b.round(operand), one_answer(note.bound + 1.0)),
            // The sign of NaN is NaN.
            8 => (b.sign(operand), one_answer(if note.bound.is_finite() { 1.0 } else { f64::INFINITY })),
            9 => (b.sqrt(operand), one_answer(f64::INFINITY)),
            10 => (b.tanh(operand), smooth(1.0, 1.0)),
            11 => (b.logistic(operand), smooth(1.0, 1.0)),
            12 => (b.erf(operand), smooth(1.0, 1.2)),
            13 if note.bound <= 20.0 => (b.sin(operand), smooth(1.0, 1.0)),
            14 if note.bound <= 20.0 => (b.cos(operand), smooth(1.0, 1.0)),
            15 | 16 if note.bound <= 4.0 => (b.exp(operand), smooth(55.0, 55.0)),
            17 if !note.loose_zero => (b.rsqrt(operand), sharp(f64::INFINITY)),
            18 => (b.log(operand), sharp(f64::INFINITY)),
            _ => (b.exp(operand), sharp(f64::INFINITY)),
        };
        self.add_if(op, &[x], note)
    }

    /// What was built stays in the module unused where its note forbids to look at it.
    pub(super) fn add_if(&mut self, op: Op, operands: &[usize], note: Option<Note>) -> Option<usize> {
        self.add(op, operands, note?)
    }

    pub(super) fn binary(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable())?;
        let shape = self.values[x].shape.clone();
        let whole = shape.ty.is_integer() || shape.ty == E::Pred;
        let y = self.like(&shape, |v| whole || v.note.is_usable());
        self.binary_of(x, y)
    }

    /// An operation on two values of one shape, usable both where they are floats.
    pub(super) fn binary_of(&mut self, x: usize, y: usize) -> Option<usize> {
        let ty = self.values[x].ty();
        if ty == E::Pred {
            let f = self.rng.pick::<Binary>(&[Builder::and, Builder::or, Builder::xor]);
            let op = f(&self.builder, self.values[x].op, self.values[y].op);
            return self.add(op, &[x, y], Note::exact(1.0));
        }
        if ty.is_integer() {
            let all: [Binary; 15] = [
                Builder::add,
                Builder::add,
                Builder::sub,
                Builder::mul,
                Builder::div,
                Builder::rem,
                Builder::max,
                Builder::min,
                Builder::and,
                Builder::or,
                Builder::xor,
                Builder::shift_left,
                Builder::shift_right_arithmetic,
                Builder::shift_right_logical,
                Builder::sub,
            ];
            let f = self.rng.pick(&all);
            let op = f(&self.builder, self.values[x].op, self.values[y].op);
            return self.add(op, &[x, y], Note::exact(f64::INFINITY));
        }
        self.float_binary(x, y)
    }

    fn float_binary(&mut self, x: usize, y: usize) -> Option<usize> {
        let (a, b) = (self.values[x].note, self.values[y].note);
        let (p, q) = (self.values[x].op, self.values[y].op);
        let (ty, strict) = (self.values[x].ty(), self.strict);
        let exact = a.is_exact() && b.is_exact();
        let finite = a.bound.is_finite() && b.bound.is_finite();
        let builder = &self.builder;
        let note = |bound: f64, err: f64| {
            let loose_zero = a.loose_zero || b.loose_zero;
            (exact || finite).then(|| Note { bound, err, rel: 0.0, loose_zero }.rounded(ty, strict)).flatten()
        };
        let (op, note) = match self.rng.below(14) {
            0..=3 => (builder.add(p, q), note(a.bound + b.bound, a.err + b.err)),
            4..=5 => (builder.sub(p, q), note(a.bound + b.bound, a.err + b.err)),
            6..=8 => {
                let err = if exact { 0.0 } else { a.err * b.bound + b.err * a.bound + a.err * b.err };
                (builder.mul(p, q), note(if finite { a.bound * b.bound } else { f64::INFINITY }, err))
            }
            9 => (builder.max(p, q), Some(Note { loose_zero: true, ..a.either(b) }).filter(|_| exact || finite)),
            10 => (builder.min(p, q), Some(Note { loose_zero: true, ..a.either(b) }).filter(|_| exact || finite)),
            11 if !b.loose_zero => (builder.div(p, q), exact.then(|| note(f64::INFINITY, 0.0)).flatten()),
            // By zero it is NaN.
            12 => (builder.rem(p, q), exact.then(|| note(f64::INFINITY, 0.0)).flatten()),
            13 if !a.loose_zero && !b.loose_zero => {
                // Of NaN it is NaN, which no bound tells of.
                let bound = if finite { 3.2 } else { f64::INFINITY };
                let made = Note::inexact(bound, 0.0, function_rel(ty)).rounded(ty, strict);
                (builder.atan2(p, q), made.filter(|_| exact))
            }
            _ => return None,
        };
        self.add_if(op, &[x, y], note)
    }

    fn compare(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_exact())?;
        let shape = self.values[x].shape.clone();
        let y = self.like(&shape, |v| v.note.is_exact());
        let all = [Direction::Eq, Direction::Ne, Direction::Ge, Direction::Gt, Direction::Le, Direction::Lt];
        let direction = self.rng.pick(&all);
        let op = self.builder.compare(self.values[x].op, self.values[y].op, direction);
        self.add(op, &[x, y], Note::exact(1.0))
    }

    fn select(&mut self) -> Option<usize> {
        let p = self.choose(|v| v.ty() == E::Pred)?;
        let dims = self.values[p].shape.dims.clone();
        let x = match self.choose(|v| v.shape.dims == dims && v.note.is_usable()) {
            Some(x) => x,
            None => {
                let ty = self.any_type();
                self.parameter(ty, &dims)
            }
        };
        let shape = self.values[x].shape.clone();
        let y = self.like(&shape, |v| v.note.is_usable());
        let (a, b) = (self.values[x].note, self.values[y].note);
        let op = self.builder.select(self.values[p].op, self.values[x].op, self.values[y].op);
        let fine = a.is_exact() && b.is_exact() || a.bound.is_finite() && b.bound.is_finite();
        self.add_if(op, &[p, x, y], fine.then(|| a.either(b)))
    }

    fn clamp(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable() && v.ty() != E::Pred)?;
        let ty = self.values[x].ty();
        let note = self.values[x].note;
        if !note.is_exact() && !note.bound.is_finite() {
            return None;
        }
        let (low, high) = (self.rng.between(-3, 1) as f64, self.rng.between(-1, 4) as f64);
        let low = if ty.is_unsigned_integer() { low.abs() } else { low };
        let high = if ty.is_unsigned_integer() { high.abs() } else { high };
        let (l, h) = (self.scalar(ty, low), self.scalar(ty, high));
        let op = self.builder.clamp(l, self.values[x].op, h);
        let bound = note.bound.max(4.0);
        self.add(op, &[x], Note { bound, loose_zero: true, ..note })
    }

    fn convert(&mut self) -> Option<usize> {
        let to = self.any_type();
        let x = self.choose(|v| v.note.is_usable() && v.ty() != to && (to.is_float() || v.note.is_exact()))?;
        let from = self.values[x].ty();
        let note = if !to.is_float() {
            Some(Note::exact(f64::INFINITY))
        } else if from.is_float() {
            // A conversion rounds in every engine.
            self.values[x].note.rounded(to, true)
        } else {
            Note::exact(if from == E::Pred { 1.0 } else { 2f64.powi(from.bits() as i32) }).rounded(to, true)
        };
        let op = self.builder.convert_element_type(self.values[x].op, to);
        self.add_if(op, &[x], note)
    }
}
