//! Sliding windows, running values, and what is selected and scattered back.

use super::fold::{any_fold, folded};
use super::note::{Note, is_narrow, roundoff};
use super::wide::fold_computation;
use super::{Generator, MAX_ELEMENTS};
use brolga_compiler::builder::{Builder, Op, Padding};
use brolga_compiler::hlo::{Module, Opcode};
use brolga_runtime::{ArrayShape, ElementType as E, Shape};

/// Windows visit no more elements than this.
const MAX_VISITS: i64 = 60_000;

/// A window over each dimension.
#[derive(Default)]
pub(super) struct Window {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    base: Vec<i64>,
    dilations: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
    /// How many windows there are.
    counts: Vec<i64>,
}

impl Window {
    fn push(&mut self, [size, stride, base, dilation]: [i64; 4], padding: (i64, i64), dim: i64) {
        let spread = if dim == 0 { 0 } else { (dim - 1) * base + 1 };
        let (padded, reach) = (spread + padding.0 + padding.1, (size - 1) * dilation + 1);
        self.counts.push(if padded < reach { 0 } else { (padded - reach) / stride + 1 });
        self.sizes.push(size);
        self.strides.push(stride);
        self.base.push(base);
        self.dilations.push(dilation);
        self.padding.push(padding);
    }

    fn visits(&self) -> i64 {
        self.sizes.iter().chain(&self.counts).product()
    }
}

impl Generator {
    pub(super) fn windows(&mut self) -> Option<usize> {
        match self.rng.below(4) {
            0 | 1 => self.reduce_window(),
            2 => self.scan(),
            _ => self.select_and_scatter(),
        }
    }

    /// A window that makes some results; `plain` has no dilations.
    pub(super) fn window(&mut self, dims: &[i64], plain: bool) -> Option<Window> {
        let mut w = Window::default();
        for &d in dims {
            match self.rng.below(4) {
                // From each element to one end.
                0 if d > 1 && !plain => {
                    let reach = d - 1 + self.rng.between(0, 1);
                    let padding = if self.rng.chance(1, 2) { (reach, 0) } else { (0, reach) };
                    w.push([reach + 1, 1, 1, 1], padding, d);
                }
                1 | 2 => {
                    let mut some = |most: u64, usually: i64| {
                        if plain || self.rng.chance(2, 3) { usually } else { 1 + self.rng.below(most) as i64 }
                    };
                    let (base, dilation) = (some(3, 1), some(3, 1));
                    let [size, stride, low, high] = [3, 3, 3, 3].map(|n| self.rng.below(n) as i64);
                    w.push([size + 1, stride + 1, base, dilation], (low, high), d);
                }
                _ => w.push([1, 1, 1, 1], (0, 0), d),
            }
        }
        let results: i64 = w.counts.iter().product();
        (results > 0 && results <= MAX_ELEMENTS && w.visits() <= MAX_VISITS).then_some(w)
    }

    fn reduce_window(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable() && !v.shape.dims.is_empty() && v.elements() > 0)?;
        let shape = self.values[x].shape.clone();
        let w = self.window(&shape.dims, false)?;
        let opcode = any_fold(&mut self.rng, shape.ty);
        let n = w.sizes.iter().product::<i64>() as f64;
        let note = folded(opcode, shape.ty, n, self.values[x].note)?;
        let computation = fold_computation(&mut self.rng, opcode, shape.ty);
        let init = self.rng.pick(&[0.0, 0.0, 1.0]);
        let init = self.scalar(shape.ty, init);
        let op = self.builder.reduce_window_with_general_padding(
            &[self.values[x].op],
            &[init],
            &computation,
            &w.sizes,
            &w.strides,
            &w.base,
            &w.dilations,
            &w.padding,
        );
        self.add(op, &[x], note)
    }

    fn scan(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable() && !v.shape.dims.is_empty() && v.elements() > 0)?;
        let shape = self.values[x].shape.clone();
        let axis = self.rng.below(shape.rank() as u64) as usize;
        let mut dims = shape.dims.clone();
        let length = dims.remove(axis);
        let slice = ArrayShape::new(shape.ty, dims);
        let carry = self.like(&slice, |v| v.note.is_usable());
        let opcode = any_fold(&mut self.rng, shape.ty);
        let both = self.values[x].note.either(self.values[carry].note);
        let mut note = folded(opcode, shape.ty, length as f64 + 1.0, both)?;
        if opcode == Opcode::Add && is_narrow(shape.ty) {
            // The carry is rounded at every step, and a difference stays.
            note.err += (length + 2) as f64 * roundoff(shape.ty) * note.bound;
            note = note.rounded(shape.ty, true)?;
        }
        let reversed = self.rng.chance(1, 3) && slice.rank() > 0;
        let computation = step(opcode, &slice, reversed);
        let reverse = self.rng.chance(1, 2);
        let (input, init) = (self.values[x].op, self.values[carry].op);
        let both = self.builder.scan(&[input], &[init], &computation, axis as i64, reverse);
        let last = self.builder.get_tuple_element(both, 1);
        if self.rng.chance(1, 2) {
            self.add(last, &[x, carry], note)?;
        }
        let all = self.builder.get_tuple_element(both, 0);
        self.add(all, &[x, carry], note)
    }

    fn select_and_scatter(&mut self) -> Option<usize> {
        let real = |v: &super::Value| v.ty() != E::Pred && v.note.is_exact() && !v.shape.dims.is_empty();
        let x = self.choose(|v| real(v) && v.elements() > 0)?;
        let shape = self.values[x].shape.clone();
        let w = self.window(&shape.dims, true)?;
        let sources = ArrayShape::new(shape.ty, w.counts.clone());
        let source = self.like(&sources, |v| v.note.is_usable());
        let opcode = any_fold(&mut self.rng, shape.ty);
        // So many windows may choose one element.
        let n = w.sizes.iter().product::<i64>() as f64 + 1.0;
        let note = folded(opcode, shape.ty, n, self.values[source].note.either(Note::exact(1.0)))?;
        let select =
            chooser(self.rng.pick::<Comparison>(&[Builder::ge, Builder::gt, Builder::le, Builder::lt]), shape.ty);
        let scatter = fold_computation(&mut self.rng, opcode, shape.ty);
        let init = self.rng.pick(&[0.0, 1.0]);
        let init = self.scalar(shape.ty, init);
        let padding = Padding::Explicit(w.padding);
        let (operand, from) = (self.values[x].op, self.values[source].op);
        let op =
            self.builder.select_and_scatter(operand, &select, &w.sizes, &w.strides, &padding, from, init, &scatter);
        self.add(op, &[x, source], note)
    }
}

type Comparison = fn(&Builder, Op, Op) -> Op;

pub(super) fn chooser(compare: Comparison, ty: E) -> Module {
    let b = Builder::new("choose");
    let x = b.parameter(0, Shape::scalar(ty), "x");
    let y = b.parameter(1, Shape::scalar(ty), "y");
    let root = compare(&b, x, y);
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"))
}

/// The step of a scan: the carry takes the slice in, and is the output too. `reversed` mirrors the output's slice, which
/// makes the computation one that is not elementwise.
fn step(opcode: Opcode, slice: &ArrayShape, reversed: bool) -> Module {
    let b = Builder::new("step");
    let x = b.parameter(0, Shape::Array(slice.clone()), "x");
    let c = b.parameter(1, Shape::Array(slice.clone()), "c");
    let next = match opcode {
        Opcode::Add => b.add(c, x),
        Opcode::Multiply => b.mul(c, x),
        Opcode::Maximum => b.max(c, x),
        Opcode::Minimum => b.min(c, x),
        Opcode::And => b.and(c, x),
        Opcode::Or => b.or(c, x),
        _ => b.xor(c, x),
    };
    let out = if reversed { b.rev(next, &[0]) } else { next };
    let root = b.tuple(&[out, next]);
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"))
}
