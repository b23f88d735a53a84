//! Reductions and contractions.

use super::note::{Note, is_narrow, roundoff, step};
use super::{Generator, Rng, Value};
use brolga_compiler::builder::{Builder, DotDimensions, Op, scalar_computation};
use brolga_compiler::hlo::{Module, Opcode};
use brolga_runtime::{ElementType as E, Shape};

/// Unit roundoff of the type that sums are kept in.
fn sum_roundoff(ty: E) -> f64 {
    roundoff(if ty == E::F64 { E::F64 } else { E::F32 })
}

/// What is known of sums of `terms` products each.
pub(super) fn products(ty: E, terms: f64, a: Note, b: Note, strict: bool) -> Option<Note> {
    if !ty.is_float() {
        return Some(Note::exact(f64::INFINITY));
    }
    let sum = terms * a.bound * b.bound;
    let err = terms * (a.err * b.bound + b.err * a.bound + a.err * b.err) + (terms + 2.0) * sum_roundoff(ty) * sum;
    let err = err + if is_narrow(ty) { 2.0 * roundoff(ty) * sum } else { 0.0 };
    // Below the normal numbers each product is rounded by a step.
    let err = err + if ty.is_float() { terms * step(ty) } else { 0.0 };
    Note { bound: sum, err, rel: 0.0, loose_zero: true }.rounded(ty, strict)
}

/// The larger value and its index, the first of equals.
fn arg_max(ty: E, index: E) -> Module {
    let b = Builder::new("arg_max");
    let av = b.parameter(0, Shape::scalar(ty), "av");
    let ai = b.parameter(1, Shape::scalar(index), "ai");
    let bv = b.parameter(2, Shape::scalar(ty), "bv");
    let bi = b.parameter(3, Shape::scalar(index), "bi");
    // A NaN wins, as in JAX: without that the sides may not be exchanged.
    let wins = b.or(b.gt(av, bv), b.ne(av, av));
    let tie = b.and(b.eq(av, bv), b.lt(ai, bi));
    let first = b.or(wins, tie);
    let pair = [b.select(wins, av, bv), b.select(first, ai, bi)];
    let root = b.tuple(&pair);
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"))
}

/// Combiners that are associative and do not commute, with their parameters: accumulators, then values.
const ORDERED: [(&str, usize, Ordered); 4] =
    [("affine", 2, affine), ("quaternion", 4, quaternion), ("magnitude", 1, magnitude), ("last", 1, last)];

type Ordered = fn(&Builder, &[Op]) -> Vec<Op>;

/// `x -> a*x + b`, one after another.
fn affine(b: &Builder, p: &[Op]) -> Vec<Op> {
    vec![b.mul(p[0], p[2]), b.add(b.mul(p[0], p[3]), p[1])]
}

/// Hamilton's product.
fn quaternion(b: &Builder, p: &[Op]) -> Vec<Op> {
    let signs = [[(0, 1), (1, -1), (2, -1), (3, -1)], [(1, 1), (0, 1), (3, 1), (2, -1)]];
    let more = [[(2, 1), (3, -1), (0, 1), (1, 1)], [(3, 1), (2, 1), (1, -1), (0, 1)]];
    let component = |row: &[(usize, i32); 4]| {
        let mut sum = b.mul(p[0], p[4 + row[0].0]);
        for (k, &(other, sign)) in row.iter().enumerate().skip(1) {
            let product = b.mul(p[k], p[4 + other]);
            sum = if sign > 0 { b.add(sum, product) } else { b.sub(sum, product) };
        }
        sum
    };
    signs.iter().chain(&more).map(component).collect()
}

/// `|a| * b`: the sign of the last element.
fn magnitude(b: &Builder, p: &[Op]) -> Vec<Op> {
    vec![b.mul(b.abs(p[0]), p[1])]
}

/// The last element that is not zero.
fn last(b: &Builder, p: &[Op]) -> Vec<Op> {
    let zero = b.sub(p[1], p[1]);
    vec![b.select(b.eq(p[1], zero), p[0], p[1])]
}

/// An operation to fold with.
pub(super) fn any_fold(rng: &mut Rng, ty: E) -> Opcode {
    match ty {
        E::Pred => rng.pick(&[Opcode::And, Opcode::Or, Opcode::Xor]),
        _ if ty.is_integer() => {
            let all = [
                Opcode::Add,
                Opcode::Add,
                Opcode::Multiply,
                Opcode::Maximum,
                Opcode::Minimum,
                Opcode::And,
                Opcode::Or,
                Opcode::Xor,
            ];
            rng.pick(&all)
        }
        _ => rng.pick(&[Opcode::Add, Opcode::Add, Opcode::Maximum, Opcode::Minimum]),
    }
}

/// What is known of a fold of up to `n` elements and a start of at most 1.
pub(super) fn folded(opcode: Opcode, ty: E, n: f64, note: Note) -> Option<Note> {
    if !ty.is_float() {
        return Some(Note::exact(f64::INFINITY));
    }
    if opcode == Opcode::Add {
        let sum = n * note.bound + 1.0;
        let err = n * note.err + (n + 2.0) * sum_roundoff(ty) * sum;
        let err = err + if is_narrow(ty) { roundoff(ty) * sum } else { 0.0 };
        let finite = note.bound.is_finite();
        return finite.then(|| Note { bound: sum, err, rel: 0.0, loose_zero: true }.rounded(ty, true)).flatten();
    }
    let bound = note.bound.max(1.0);
    Some(Note { bound, loose_zero: true, ..note }).filter(|_| note.is_exact() || bound.is_finite())
}

impl Generator {
    pub(super) fn reduce(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable() && !v.shape.dims.is_empty())?;
        let shape = self.values[x].shape.clone();
        let ty = shape.ty;
        let mut dims: Vec<i64> = (0..shape.rank() as i64).filter(|_| self.rng.chance(1, 2)).collect();
        if dims.is_empty() {
            dims.push(self.rng.below(shape.rank() as u64) as i64);
        }
        if self.rng.chance(1, 4) {
            dims.reverse();
        }
        let note = self.values[x].note;
        if self.rng.chance(1, 6) && note.is_exact() && (ty.is_integer() || ty.is_float() && note.bound.is_finite()) {
            return self.arg_max(x, &dims, E::S32);
        }
        if self.rng.chance(1, 5) && matches!(ty, E::S32 | E::S64 | E::S8) {
            return self.ordered(x, &dims);
        }
        self.plain_fold(x, &dims, |g| if g.rng.chance(2, 3) { 0.0 } else { 1.0 })
    }

    /// A fold with one operation, from the number that `init` draws.
    fn plain_fold(&mut self, x: usize, dims: &[i64], init: impl FnOnce(&mut Self) -> f64) -> Option<usize> {
        let Value { op, shape, note } = self.values[x].clone();
        let opcode = any_fold(&mut self.rng, shape.ty);
        let init = init(self);
        let n = dims.iter().map(|&d| shape.dims[d as usize]).product::<i64>() as f64;
        let made = folded(opcode, shape.ty, n, note)?;
        let computation = scalar_computation(opcode, shape.ty).unwrap_or_else(|e| panic!("{e}"));
        let init = self.scalar(shape.ty, init);
        let op = self.builder.reduce(op, init, &computation, dims);
        self.add(op, &[x], made)
    }

    /// A norm: folds of neighbouring dimensions, whose results meet every element again, so that fusion makes one loop of all.
    pub(super) fn norm(&mut self) -> Option<usize> {
        let found = self.choose(|v| v.note.is_usable() && v.shape.rank() >= 2 && v.shape.elements() >= 16);
        let x = match found.filter(|_| self.rng.chance(1, 2)) {
            Some(x) => x,
            None => {
                let ty = self.any_type();
                let sizes = [1, 2, 3, 8, 9, 16, 17, 20, 33, 40];
                let mut dims: Vec<i64> = (0..2 + self.rng.below(2)).map(|_| self.rng.pick(&sizes)).collect();
                if self.rng.chance(1, 4) {
                    dims.insert(0, self.rng.between(1, 3));
                }
                self.parameter(ty, &dims)
            }
        };
        let shape = self.values[x].shape.clone();
        let (rank, ty) = (shape.rank() as i64, shape.ty);
        let first = self.rng.between(0, rank - 1);
        let last = if self.rng.chance(2, 3) { first } else { self.rng.between(first, rank - 1) };
        let dims: Vec<i64> = (first..=last).collect();
        let kept: Vec<i64> = (0..rank).filter(|d| !dims.contains(d)).collect();
        let mut made = x;
        for _ in 0..1 + self.rng.below(3) {
            if !self.values[made].note.is_usable() {
                break;
            }
            let mut row = self.plain_fold(made, &dims, |g| g.rng.pick(&[0.0, 0.0, 1.0]))?;
            if self.rng.chance(1, 2) && self.values[row].note.is_usable() {
                row = self.unary_of(row).unwrap_or(row);
            }
            let Value { op, note, .. } = self.values[row];
            let op = self.builder.broadcast_in_dim(op, &shape.dims, &kept);
            let back = self.add(op, &[row], note)?;
            let usable = |g: &Self, v: usize| g.values[v].note.is_usable() || ty.is_integer() || ty == E::Pred;
            let other = self.rng.pick(&[x, made]);
            if !usable(self, back) || !usable(self, other) {
                return Some(back);
            }
            made = self.binary_of(other, back).unwrap_or(back);
            if self.rng.chance(1, 2) && self.values[made].note.is_usable() {
                made = self.unary_of(made).unwrap_or(made);
            }
        }
        Some(made)
    }

    /// Several reductions of unlike widths over the same elements, which fusion puts into one loop.
    pub(super) fn sibling_reductions(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_exact() && v.note.bound.is_finite() && !v.shape.dims.is_empty())?;
        let shape = self.values[x].shape.clone();
        let rank = shape.rank() as i64;
        // The last dimensions, all of them, or any.
        let first = self.rng.below(rank as u64) as i64;
        let dims: Vec<i64> = if self.rng.chance(3, 4) { (first..rank).collect() } else { vec![first] };
        let mut made = None;
        for _ in 0..2 + self.rng.below(3) {
            made = match self.rng.below(4) {
                0 if shape.ty.is_float() || shape.ty.is_integer() => {
                    let index = self.rng.pick(&[E::S32, E::S64]);
                    self.arg_max(x, &dims, index)
                }
                kind => {
                    let to = match kind {
                        1 => E::F64,
                        2 => E::S64,
                        _ => self.rng.pick(&[E::F32, E::S32, E::BF16]),
                    };
                    // Small whole numbers: sums of them are exact in every type.
                    let whole = self.values[x].op;
                    let small = if shape.ty == E::Pred { whole } else { self.builder.sign(whole) };
                    let op = self.builder.convert_element_type(small, to);
                    let n = dims.iter().map(|&d| shape.dims[d as usize]).product::<i64>() as f64;
                    let note = folded(Opcode::Add, to, n, Note::exact(1.0))?;
                    let computation = scalar_computation(Opcode::Add, to).unwrap_or_else(|e| panic!("{e}"));
                    let zero = self.scalar(to, 0.0);
                    let op = self.builder.reduce(op, zero, &computation, &dims);
                    self.add(op, &[x], note)
                }
            };
        }
        made
    }

    /// A fold that keeps its elements in order.
    fn ordered(&mut self, x: usize, dims: &[i64]) -> Option<usize> {
        let shape = self.values[x].shape.clone();
        let (name, n, combine) = self.rng.pick(&ORDERED);
        let b = Builder::new(name);
        let parameters: Vec<Op> =
            (0..2 * n).map(|k| b.parameter(k as i64, Shape::scalar(shape.ty), &format!("p{k}"))).collect();
        let results = combine(&b, &parameters);
        let root = if n == 1 { results[0] } else { b.tuple(&results) };
        let combiner = b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"));
        let mut operands = vec![x];
        while operands.len() < n {
            operands.push(self.like(&shape, |v| v.note.is_usable()));
        }
        let ops: Vec<Op> = operands.iter().map(|&o| self.values[o].op).collect();
        let init: Vec<Op> = (0..n).map(|k| self.scalar(shape.ty, if k == 0 { 1.0 } else { 0.0 })).collect();
        let note = Note::exact(f64::INFINITY);
        if n == 1 {
            let op = self.builder.reduce(ops[0], init[0], &combiner, dims);
            return self.add(op, &operands, note);
        }
        let all = self.builder.reduce_many(&ops, &init, &combiner, dims);
        let mut made = None;
        for k in 0..n {
            let op = self.builder.get_tuple_element(all, k as i64);
            made = self.add(op, &operands, note);
        }
        made
    }

    fn arg_max(&mut self, x: usize, dims: &[i64], index: E) -> Option<usize> {
        let shape = self.values[x].shape.clone();
        let combiner = arg_max(shape.ty, index);
        let (low, zero) = (self.scalar(shape.ty, -100.0), self.scalar(index, 0.0));
        let index = self.builder.iota(Shape::array(index, shape.dims.clone()), dims[0]);
        let pair = self.builder.reduce_many(&[self.values[x].op, index], &[low, zero], &combiner, dims);
        let (value, place) = (self.builder.get_tuple_element(pair, 0), self.builder.get_tuple_element(pair, 1));
        let note = self.values[x].note;
        let bound = note.bound.max(100.0);
        if self.rng.chance(1, 2) {
            self.add(value, &[x], Note { bound, loose_zero: true, ..note })?;
        }
        // Of two zeros of different sign the comparison sees none, and the index decides.
        self.add(place, &[x], Note::exact(f64::INFINITY))
    }

    pub(super) fn dot(&mut self) -> Option<usize> {
        let x = self.choose(|v| {
            let fits = matches!(v.ty(), E::F32 | E::F64 | E::BF16 | E::F16 | E::S32 | E::S8 | E::U8 | E::S64);
            fits && !v.shape.dims.is_empty() && v.note.is_usable() && (v.ty().is_integer() || v.note.bound.is_finite())
        })?;
        let shape = self.values[x].shape.clone();
        let order = self.rng.permutation(shape.rank());
        let (first, rest) = order.split_at(if self.rng.chance(1, 4) { 2.min(order.len()) } else { 1 });
        let batches = if self.rng.chance(1, 3) { 1 + self.rng.below(2) as usize } else { 0 };
        let (contracted, batch) = (first.to_vec(), rest[..batches.min(rest.len())].to_vec());
        // The right operand: batch, contracted and dimensions of its own, in any order.
        let mut parts: Vec<(Option<usize>, i64)> =
            contracted.iter().chain(&batch).map(|&d| (Some(d), shape.dims[d])).collect();
        let k: i64 = contracted.iter().map(|&d| shape.dims[d]).product();
        let mut result = shape.elements() as i64 / k.max(1);
        for _ in 0..self.rng.pick(&[0, 1, 1, 1, 1, 2]) {
            let own = self.rng.pick(&[1, 2, 5, 17, 33]);
            parts.push((None, own));
            result *= own;
        }
        if result > MAX_RESULT || parts.iter().map(|p| p.1).product::<i64>() > MAX_RIGHT {
            return None;
        }
        let order = self.rng.permutation(parts.len());
        let parts: Vec<(Option<usize>, i64)> = order.iter().map(|&i| parts[i]).collect();
        let dims: Vec<i64> = parts.iter().map(|p| p.1).collect();
        let rhs = brolga_runtime::ArrayShape::new(shape.ty, dims);
        let finite = |v: &Value| v.note.is_usable() && (v.ty().is_integer() || v.note.bound.is_finite());
        let y = self.like(&rhs, finite);
        let places = |wanted: &[usize]| -> Vec<i64> {
            wanted.iter().filter_map(|&d| parts.iter().position(|p| p.0 == Some(d))).map(|d| d as i64).collect()
        };
        let numbers = DotDimensions {
            lhs_contracting: contracted.iter().map(|&d| d as i64).collect(),
            rhs_contracting: places(&contracted),
            lhs_batch: batch.iter().map(|&d| d as i64).collect(),
            rhs_batch: places(&batch),
        };
        let (a, b) = (self.values[x].note, self.values[y].note);
        let k = k as f64;
        let note = products(shape.ty, k, a, b, self.strict)?;
        let (p, q) = (self.values[x].op, self.values[y].op);
        let wide = shape.ty.is_integer() && shape.ty.bits() < 32 && self.rng.chance(1, 2);
        let op = if wide {
            self.builder.dot_general_with_type(p, q, &numbers, E::S32)
        } else {
            self.builder.dot_general(p, q, &numbers)
        };
        self.add(op, &[x, y], note)
    }
}

/// Results of contractions have no more elements than this.
const MAX_RESULT: i64 = 4000;
/// Right operands of contractions neither.
const MAX_RIGHT: i64 = 100_000;
