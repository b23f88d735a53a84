//! Random graphs, with what is known of the numbers in them.
//!
//! **Problem.** Fusion, index maps and buffers go wrong in combinations that nobody writes down. Random programs find
//! them, if a difference between two engines can be told from rounding.
//!
//! **Invariant.** Every value has a [`Note`]: how far two correct engines may be apart in it. Exact values (integers, and
//! floats that only operations with one right answer touched) may differ in nothing but NaN payloads and, where
//! `loose_zero` says so, the sign of zero. What would magnify a difference without bound (a comparison, a quotient, a
//! conversion to integer) is only applied to exact values.
//!
//! **Algorithm.** A step draws an operation and operands that fit; one that finds none is drawn again. Results are the
//! values that nobody uses, and some that somebody does. A third of the graphs have layouts for their callers, or all where
//! [`Layouts`] ask for it.

mod check;
mod control;
mod elementwise;
mod fold;
mod forms;
mod functions;
mod layouts;
mod movement;
mod note;
mod numbers;
mod order;
mod rng;
mod wide;
mod windows;

pub use check::{Failure, Outcome, Stage, check, check_guarded, reduce};
pub use layouts::{Layouts, Traits};
pub use note::Note;
pub use rng::Rng;

use brolga_compiler::builder::{Builder, Op};
use brolga_compiler::hlo::Module;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};
use std::collections::HashMap;

/// Arrays have no more elements than this.
const MAX_ELEMENTS: i64 = 3000;

/// A program, inputs, and how near its results must be.
pub struct Graph {
    /// The program; its result is a tuple of arrays.
    pub module: Module,
    /// One array for each parameter.
    pub inputs: Vec<Literal>,
    /// What is known of each value, by the name of its instruction.
    pub notes: HashMap<String, Note>,
    /// Whether narrow floats are to be rounded after each operation.
    pub strict_rounding: bool,
}

/// A value made so far.
#[derive(Clone)]
struct Value {
    op: Op,
    shape: ArrayShape,
    note: Note,
}

impl Value {
    fn ty(&self) -> ElementType {
        self.shape.ty
    }

    fn elements(&self) -> i64 {
        self.shape.elements() as i64
    }
}

struct Generator {
    rng: Rng,
    builder: Builder,
    values: Vec<Value>,
    used: Vec<bool>,
    inputs: Vec<Literal>,
    strict: bool,
    /// Inputs hold infinities, NaNs and denormals.
    special: bool,
    families: Families,
    layouts: Layouts,
}

/// Which operations a graph may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// Elementwise operations, movement, reductions, dots, loops and branches.
    Basic,
    /// All.
    #[default]
    All,
}

/// The graph of a seed.
pub fn generate(seed: u64, families: Families, layouts: Layouts) -> Graph {
    let mut rng = Rng::new(seed);
    let steps = 3 + rng.below(22) as usize;
    let (strict, special) = (rng.chance(1, 2), rng.chance(1, 4));
    let builder = Builder::new(format!("random_{seed}"));
    let (values, used, inputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut g = Generator { rng, builder, values, used, inputs, strict, special, families, layouts };
    for _ in 0..1 + g.rng.below(3) {
        let (ty, dims) = (g.any_type(), g.any_dims());
        g.parameter(ty, &dims);
    }
    if layouts == Layouts::Always {
        // Something that can be laid out.
        let ty = g.any_type();
        let dims = [g.rng.between(2, 9), g.rng.between(2, 9)];
        g.parameter(ty, &dims);
    }
    for _ in 0..steps {
        // A step that cannot be taken with these operands is drawn again, a few times.
        for _ in 0..12 {
            if g.step().is_some() {
                break;
            }
        }
    }
    g.finish()
}

impl Generator {
    fn any_type(&mut self) -> ElementType {
        use ElementType as E;
        let common = [E::F32, E::F32, E::F32, E::F64, E::S32, E::S32, E::BF16, E::F16];
        let rare =
            [E::S8, E::U8, E::S16, E::U16, E::U32, E::S64, E::U64, E::Pred, E::S4, E::U4, E::F8E5M2, E::F8E4M3Fn];
        // The powers of two of f8e8m0fnu have neither zero nor sign, which most steps need.
        let tiny = [
            E::S1,
            E::S2,
            E::U1,
            E::U2,
            E::F4E2M1Fn,
            E::F8E3M4,
            E::F8E4M3,
            E::F8E4M3B11Fnuz,
            E::F8E4M3Fnuz,
            E::F8E5M2Fnuz,
        ];
        match self.rng.below(24) {
            0..16 => self.rng.pick(&common),
            16..22 => self.rng.pick(&rare),
            _ => self.rng.pick(&tiny),
        }
    }

    fn any_dims(&mut self) -> Vec<i64> {
        let sizes = [1, 2, 3, 4, 5, 7, 8, 16, 31, 33, 40, 70, 130];
        // Now and then nothing at all.
        let empty = self.rng.chance(1, 40);
        let rank = self.rng.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4]);
        let mut dims = Vec::new();
        let mut total = 1;
        for _ in 0..rank {
            let n = self.rng.pick(&sizes);
            let n = if total * n > MAX_ELEMENTS { 1 + n % 3 } else { n };
            let n = if empty && self.rng.chance(1, 2) { 0 } else { n };
            total *= n;
            dims.push(n);
        }
        if total > MAX_ELEMENTS { dims.iter().map(|d| 1 + d % 5).collect() } else { dims }
    }

    /// A new parameter with its data.
    fn parameter(&mut self, ty: ElementType, dims: &[i64]) -> usize {
        let shape = ArrayShape::new(ty, dims);
        let mut data = ArrayLiteral::zeros(&shape);
        let mut bound = 0f64;
        for i in 0..data.elements() {
            let v = self.element(ty);
            data.set(i, v);
            if let Scalar::Float(v) = data.get(i) {
                bound = if v.is_finite() { bound.max(v.abs()) } else { f64::INFINITY };
            }
        }
        let number = self.inputs.len() as i64;
        let op = self.builder.parameter(number, Shape::Array(shape.clone()), &format!("p{number}"));
        self.inputs.push(Literal::Array(data));
        self.push(Value { op, shape, note: Note::exact(bound) })
    }

    fn element(&mut self, ty: ElementType) -> Scalar {
        if ty == ElementType::Pred {
            return Scalar::Pred(self.rng.chance(1, 2));
        }
        if ty.is_integer() {
            // Small numbers, all bits, and the edges.
            let wide = self.rng.next() as i64;
            let edges = [0, 1, -1, i64::MIN >> (64 - ty.bits()), i64::MAX >> (64 - ty.bits())];
            let v = match self.rng.below(6) {
                0 => self.rng.pick(&edges),
                1 => wide,
                _ => wide.rem_euclid(15) - 7,
            };
            return if ty.is_signed_integer() { Scalar::Int(v) } else { Scalar::UInt(v as u64) };
        }
        let v = match self.rng.below(8) {
            0 if self.special => {
                self.rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-42, 1e-310, 3e38, 65000.0])
            }
            0 | 1 => self.rng.below(9) as f64 - 4.0,
            _ => self.rng.unit() * 4.0 - 2.0,
        };
        Scalar::Float(v).round_to(ty)
    }

    fn push(&mut self, value: Value) -> usize {
        self.values.push(value);
        self.used.push(false);
        self.values.len() - 1
    }

    /// Adds the result of a call on the builder; its shape is asked for.
    fn add(&mut self, op: Op, operands: &[usize], note: Note) -> Option<usize> {
        let shape = match self.builder.shape(op) {
            Ok(Shape::Array(a)) => a,
            Ok(other) => panic!("a step made {other}"),
            Err(e) => panic!("a step is invalid: {e}"),
        };
        operands.iter().for_each(|&o| self.used[o] = true);
        Some(self.push(Value { op, shape, note }))
    }

    /// A value that fits, recent ones more often.
    fn choose(&mut self, fits: impl Fn(&Value) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.values.len()).filter(|&i| fits(&self.values[i])).collect();
        if all.is_empty() {
            return None;
        }
        let (a, b) = (self.rng.below(all.len() as u64), self.rng.below(all.len() as u64));
        let at = if self.rng.chance(1, 2) { a.max(b) } else { a };
        Some(all[at as usize])
    }

    /// A value of a given shape: one that exists, a scalar or row of one stretched to it, or a new one.
    fn like(&mut self, shape: &ArrayShape, fits: impl Fn(&Value) -> bool) -> usize {
        if self.rng.chance(3, 4)
            && let Some(found) = self.choose(|v| v.shape == *shape && fits(v))
        {
            return found;
        }
        if !shape.dims.is_empty() && self.rng.chance(1, 2) {
            let dim = self.rng.below(shape.rank() as u64) as usize;
            let size = shape.dims[dim];
            let narrow =
                self.choose(|v| v.ty() == shape.ty && fits(v) && (v.shape.dims.is_empty() || v.shape.dims == [size]));
            let from = match narrow {
                Some(found) => found,
                None => {
                    let dims = if self.rng.chance(1, 2) { vec![] } else { vec![size] };
                    self.parameter(shape.ty, &dims)
                }
            };
            let numbers: &[i64] = if self.values[from].shape.dims.is_empty() { &[] } else { &[dim as i64] };
            let op = self.builder.broadcast_in_dim(self.values[from].op, &shape.dims, numbers);
            let note = self.values[from].note;
            if let Some(made) = self.add(op, &[from], note)
                && fits(&self.values[made])
            {
                return made;
            }
        }
        let made = self.parameter(shape.ty, &shape.dims);
        if fits(&self.values[made]) {
            return made;
        }
        // What does not fit is special data: a constant always does.
        let one = self.scalar(shape.ty, 1.0);
        let op = self.builder.broadcast_in_dim(one, &shape.dims, &[]);
        self.push(Value { op, shape: shape.clone(), note: Note::exact(1.0) })
    }

    /// A scalar constant.
    fn scalar(&mut self, ty: ElementType, v: f64) -> Op {
        let mut array = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
        array.set(0, constant(ty, v));
        self.builder.constant_literal(array)
    }

    fn step(&mut self) -> Option<usize> {
        if self.families == Families::All && self.rng.chance(2, 5) {
            return self.wide();
        }
        match self.rng.below(25) {
            0..=8 => self.elementwise(),
            9..=12 => self.movement(),
            13 => self.shuffles(),
            14 | 15 => self.reduce(),
            16 => self.sibling_reductions(),
            17 => self.dot(),
            18 => self.control(),
            19 | 20 => self.windows(),
            21 => self.numbers(),
            22 => self.ordering(),
            23 => self.norm(),
            _ => {
                let (ty, dims) = (self.any_type(), self.any_dims());
                Some(self.parameter(ty, &dims))
            }
        }
    }

    fn finish(mut self) -> Graph {
        let mut results = Vec::new();
        for i in 0..self.values.len() {
            if !self.used[i] || Rng::new(i as u64).chance(1, 8) {
                results.push(i);
            }
        }
        let ops: Vec<Op> = results.iter().map(|&i| self.values[i].op).collect();
        let name = |v: &Value| self.builder.name(v.op).unwrap_or_else(|e| panic!("a step is invalid: {e}"));
        let notes = self.values.iter().map(|v| (name(v), v.note)).collect();
        let root = self.builder.tuple(&ops);
        let mut module = self.builder.build_with_root(root).unwrap_or_else(|e| panic!("an invalid graph: {e}"));
        match self.layouts {
            Layouts::Sometimes if self.rng.chance(1, 3) => layouts::lay_out(&mut module, &mut self.rng),
            Layouts::Sometimes => {}
            Layouts::Always => layouts::lay_out_for_certain(&mut module, &mut self.rng),
        }
        Graph { module, inputs: std::mem::take(&mut self.inputs), notes, strict_rounding: self.strict }
    }
}

/// A number as a value of a type.
fn constant(ty: ElementType, v: f64) -> Scalar {
    if ty == ElementType::Pred {
        Scalar::Pred(v != 0.0)
    } else if ty.is_float() {
        Scalar::Float(v).round_to(ty)
    } else {
        Scalar::Int(v as i64).round_to(ty)
    }
}
