//! The operations that the basic steps leave out: dynamic slices, gather and scatter, windows and scans, convolution, sorts,
//! complex numbers, transforms and factorizations, random bits, sizes known when the program runs.
//!
//! What needs several instructions to be looked at (a complex number, a dynamic size) is made and taken apart in one step.

use super::fold::products;
use super::note::{Note, roundoff};
use super::windows::chooser;
use super::{Generator, MAX_ELEMENTS, Rng, Value};
use brolga_compiler::builder::{
    Builder, FftKind, GatherDimensions, Op, Padding, RandomAlgorithm, ScatterDimensions, TransposeKind,
    default_convolution_dims, scalar_computation,
};
use brolga_compiler::hlo::{Module, Opcode, inverse};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType as E, Literal, Scalar, Shape};

fn computation(opcode: Opcode, ty: E) -> Module {
    scalar_computation(opcode, ty).unwrap_or_else(|e| panic!("{e}"))
}

fn built(b: Builder, root: Op) -> Module {
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"))
}

/// `x op y`, sometimes by way of a branch where it makes no difference to a result how often it is rounded.
pub(super) fn fold_computation(rng: &mut Rng, opcode: Opcode, ty: E) -> Module {
    let plain = computation(opcode, ty);
    let exact = ty.is_integer() || matches!(opcode, Opcode::Maximum | Opcode::Minimum);
    if !exact || !rng.chance(1, 6) {
        return plain;
    }
    let side = |swapped: bool| {
        let b = Builder::new("side");
        let pair = b.parameter(0, Shape::tuple(vec![Shape::scalar(ty), Shape::scalar(ty)]), "pair");
        let (x, y) = (b.get_tuple_element(pair, 0), b.get_tuple_element(pair, 1));
        let arguments = if swapped { [y, x] } else { [x, y] };
        let root = b.call(&plain, &arguments);
        built(b, root)
    };
    let b = Builder::new("branching");
    let (x, y) = (b.parameter(0, Shape::scalar(ty), "x"), b.parameter(1, Shape::scalar(ty), "y"));
    let pair = b.tuple(&[x, y]);
    let root = b.conditional(b.lt(x, y), pair, &side(false), pair, &side(true));
    built(b, root)
}

/// `x op y` of the first two parameters, of as many of the given types, each twice, as a comparator has; by way of a
/// branch where `branches`.
fn comparator(types: &[E], opcode: fn(&Builder, Op, Op) -> Op, branches: bool) -> Module {
    let b = Builder::new("comparator");
    let parameters: Vec<Op> =
        (0..2 * types.len()).map(|n| b.parameter(n as i64, Shape::scalar(types[n / 2]), &format!("c{n}"))).collect();
    let (x, y) = (parameters[0], parameters[1]);
    let before = opcode(&b, x, y);
    let root = if branches {
        let side = |swapped: bool| {
            let b = Builder::new("side");
            let p = b.parameter(0, Shape::scalar(E::Pred), "p");
            let root = if swapped { b.not(b.not(p)) } else { p };
            built(b, root)
        };
        b.conditional(b.eq(x, y), before, &side(false), before, &side(true))
    } else {
        before
    };
    built(b, root)
}

impl Generator {
    pub(super) fn wide(&mut self) -> Option<usize> {
        match self.rng.below(28) {
            0 | 1 => self.dynamic_slice(),
            2 => self.dynamic_update_slice(),
            3 | 4 => self.gather(),
            5 | 6 => self.scatter(),
            7..=9 => self.cumulative(),
            10 => self.convolution(),
            11 | 12 => self.sort(),
            13 => self.top_k(),
            14 | 15 => self.complex(),
            16 => self.fft(),
            17 => self.factorization(),
            18 => self.random_bits(),
            19 => self.dynamic_size(),
            20 => self.bit_patterns(),
            21..=23 => self.forms(),
            24 | 25 => self.functions(),
            26 => self.batch_norm(),
            _ => self.regions(),
        }
    }

    /// A parameter of given data that no other step chooses.
    pub(super) fn data(&mut self, value: ArrayLiteral) -> Op {
        let number = self.inputs.len() as i64;
        let shape = Shape::Array(value.shape().clone());
        self.inputs.push(Literal::Array(value));
        self.builder.parameter(number, shape, &format!("p{number}"))
    }

    fn dynamic_slice(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let Value { shape, op, note } = self.values[x].clone();
        let sizes: Vec<i64> = shape.dims.iter().map(|&n| self.rng.between(n.min(1), n)).collect();
        // The indices of one slice have one type.
        let starts: Vec<Op> = {
            let ty = self.rng.pick(&[E::S32, E::S64, E::U32, E::S8]);
            shape.dims.iter().map(|&n| self.index_of(ty, n)).collect()
        };
        let made = self.builder.dynamic_slice(op, &starts, &sizes);
        self.add(made, &[x], note)
    }

    /// A scalar index into `size` elements, sometimes outside.
    fn index_of(&mut self, ty: E, size: i64) -> Op {
        let v = self.rng.between(-2, size + 1);
        let v = if ty.is_unsigned_integer() { v.max(0) } else { v.clamp(-128, 127) };
        self.data(scalar_of(ty, v))
    }

    fn dynamic_update_slice(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let shape = self.values[x].shape.clone();
        let dims: Vec<i64> = shape.dims.iter().map(|&n| self.rng.between(n.min(1), n)).collect();
        let update = ArrayShape::new(shape.ty, dims);
        let y = self.like(&update, |v| v.note.is_exact());
        let note = self.values[x].note.either(self.values[y].note);
        if !note.is_exact() && !note.bound.is_finite() {
            return None;
        }
        let starts: Vec<Op> = shape.dims.iter().map(|&n| self.index_of(E::S32, n)).collect();
        let made = self.builder.dynamic_update_slice(self.values[x].op, self.values[y].op, &starts);
        self.add(made, &[x, y], note)
    }

    /// Index vectors of `width` for a base of sizes `sizes`, some of them outside.
    fn indices(&mut self, count: i64, sizes: &[i64], unique: bool) -> Op {
        let ty = self.rng.pick(&[E::S32, E::S32, E::S64, E::U32]);
        let mut array = ArrayLiteral::zeros(&ArrayShape::new(ty, [count, sizes.len() as i64]));
        for k in 0..array.elements() {
            let size = sizes[k % sizes.len()];
            let v = if unique { (k / sizes.len()) as i64 } else { self.rng.between(-1, size) };
            let v = if ty == E::U32 { v.max(0) } else { v };
            array.set(k, Scalar::Int(v));
        }
        self.data(array)
    }

    fn gather(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let Value { shape, op, note } = self.values[x].clone();
        let rank = shape.rank();
        let order = self.rng.permutation(rank);
        let indexed = &order[..1 + self.rng.below(rank as u64) as usize];
        let mut sizes = shape.dims.clone();
        let mut collapsed = Vec::new();
        for &d in indexed {
            if self.rng.chance(2, 3) && shape.dims[d] > 0 {
                sizes[d] = 1;
                collapsed.push(d as i64);
            } else {
                sizes[d] = self.rng.between(shape.dims[d].min(1), shape.dims[d]);
            }
        }
        collapsed.sort_unstable();
        let count = self.rng.pick(&[1, 2, 3, 7, 17]);
        if sizes.iter().product::<i64>() * count > MAX_ELEMENTS {
            return None;
        }
        let bases: Vec<i64> = indexed.iter().map(|&d| shape.dims[d]).collect();
        let indices = self.indices(count, &bases, false);
        let kept = (rank - collapsed.len()) as i64;
        let before = self.rng.chance(1, 4);
        let numbers = GatherDimensions {
            offset_dims: if before { (0..kept).collect() } else { (1..=kept).collect() },
            collapsed_slice_dims: collapsed,
            start_index_map: indexed.iter().map(|&d| d as i64).collect(),
            index_vector_dim: 1,
            ..GatherDimensions::default()
        };
        let made = self.builder.gather(op, indices, &numbers, &sizes, false);
        self.add(made, &[x], note)
    }

    fn scatter(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty() && v.note.is_exact() && v.ty() != E::Pred)?;
        let Value { shape, op, .. } = self.values[x].clone();
        let rank = shape.rank();
        let d = self.rng.below(rank as u64) as usize;
        let count = self.rng.pick(&[1, 2, 5, 12]).min(shape.dims[d].max(1));
        let mut window = shape.dims.clone();
        window.remove(d);
        let mut dims = vec![count];
        dims.extend(&window);
        let unique = shape.ty.is_float() || self.rng.chance(1, 2);
        let update = ArrayShape::new(shape.ty, dims);
        let y = self.like(&update, |v| v.note.is_exact());
        let indices = self.indices(count, &[shape.dims[d]], unique);
        let numbers = ScatterDimensions {
            update_window_dims: (1..rank as i64).collect(),
            inserted_window_dims: vec![d as i64],
            scatter_dims_to_operand_dims: vec![d as i64],
            index_vector_dim: 1,
            ..ScatterDimensions::default()
        };
        let opcode = self.rng.pick(&[Opcode::Add, Opcode::Maximum, Opcode::Multiply, Opcode::Minimum]);
        let (a, b) = (self.values[x].note, self.values[y].note);
        let bound = match opcode {
            Opcode::Add => a.bound + b.bound,
            Opcode::Multiply => a.bound.max(1.0) * b.bound.max(1.0),
            _ => a.bound.max(b.bound),
        };
        let note = Note { bound, loose_zero: true, ..a.either(b) }.rounded(shape.ty, true)?;
        let combine = fold_computation(&mut self.rng, opcode, shape.ty);
        let made = self.builder.scatter(&[op], indices, &[self.values[y].op], &combine, &numbers, false, unique);
        self.add(made, &[x, y], note)
    }

    /// An array with one answer for any order of a fold: integers, or floats that are only compared.
    fn exact_fold(&mut self) -> Option<(usize, Opcode, f64, Note)> {
        let x = self.choose(|v| !v.shape.dims.is_empty() && v.note.is_exact() && v.ty() != E::Pred)?;
        let Value { shape, note, .. } = self.values[x].clone();
        if shape.ty.is_integer() {
            let opcode = self.rng.pick(&[Opcode::Add, Opcode::Add, Opcode::Maximum, Opcode::Minimum]);
            return Some((x, opcode, 0.0, note));
        }
        let opcode = self.rng.pick(&[Opcode::Maximum, Opcode::Minimum]);
        Some((x, opcode, 0.0, Note { loose_zero: true, bound: note.bound.max(1.0), ..note }))
    }

    fn cumulative(&mut self) -> Option<usize> {
        let (x, opcode, init, note) = self.exact_fold()?;
        let shape = self.values[x].shape.clone();
        let d = self.rng.below(shape.rank() as u64) as usize;
        let n = shape.dims[d];
        if n == 0 {
            return None;
        }
        let sizes: Vec<i64> = (0..shape.rank()).map(|e| if e == d { n } else { 1 }).collect();
        let before = self.rng.chance(2, 3);
        let padding: Vec<(i64, i64)> = (0..shape.rank())
            .map(|e| {
                if e != d {
                    (0, 0)
                } else if before {
                    (n - 1, 0)
                } else {
                    (0, n - 1)
                }
            })
            .collect();
        let init = self.scalar(shape.ty, init);
        let combine = fold_computation(&mut self.rng, opcode, shape.ty);
        let op = self.values[x].op;
        let made =
            self.builder.reduce_window_with_general_padding(&[op], &[init], &combine, &sizes, &[], &[], &[], &padding);
        self.add(made, &[x], note)
    }

    fn convolution(&mut self) -> Option<usize> {
        let fits = |v: &Value| {
            let ty = matches!(v.ty(), E::F32 | E::F64 | E::F16 | E::BF16 | E::S32 | E::S8);
            ty && v.shape.rank() >= 1 && v.note.is_usable() && (v.ty().is_integer() || v.note.bound.is_finite())
        };
        let x = self.choose(|v| fits(v) && v.elements() > 0)?;
        let Value { shape, op, note } = self.values[x].clone();
        // Any array is an image: one batch or several, features, then what is left, flat.
        let n = shape.elements() as i64;
        let features = [3, 2, 1].into_iter().find(|f| n % f == 0).unwrap_or(1);
        let spatial = n / features;
        let dims = if self.rng.chance(1, 2) || spatial % 2 != 0 {
            vec![1, features, spatial]
        } else {
            vec![1, features, 2, spatial / 2]
        };
        let image = self.builder.reshape(op, &dims);
        let rank = dims.len() - 2;
        let (groups, outputs) =
            if self.rng.chance(1, 4) { (features, features) } else { (1, self.rng.pick(&[1, 2, 5])) };
        let mut kernel = vec![outputs, features / groups];
        kernel.extend(dims[2..].iter().map(|&n| self.rng.between(1, n.min(3))));
        let kernel = ArrayShape::new(shape.ty, kernel);
        let y = self.like(&kernel, fits);
        let stride: Vec<i64> = (0..rank).map(|_| self.rng.pick(&[1, 1, 2])).collect();
        let dilation = |g: &mut Generator| -> Vec<i64> { (0..rank).map(|_| g.rng.pick(&[1, 1, 1, 2])).collect() };
        let (base, window) = (dilation(self), dilation(self));
        let padding = (0..rank).map(|_| (self.rng.between(0, 2), self.rng.between(0, 2))).collect();
        let longer = dims[2..].iter().zip(&base).map(|(n, b)| n * b).product::<i64>();
        if longer * outputs > 2 * MAX_ELEMENTS {
            return None;
        }
        let made = self.builder.conv_general_dilated(
            image,
            self.values[y].op,
            &stride,
            &Padding::Explicit(padding),
            &base,
            &window,
            &default_convolution_dims(rank),
            groups,
            1,
        );
        if self.builder.first_error().is_some() {
            panic!("a convolution is invalid: {:?}", self.builder.first_error());
        }
        let terms = (kernel.elements() as f64 / outputs as f64).max(1.0);
        let (a, b) = (note, self.values[y].note);
        let made_note = products(shape.ty, terms, a, b, self.strict)?;
        self.add(made, &[x, y], made_note)
    }

    fn sort(&mut self) -> Option<usize> {
        // NaN is equal to everything, which is no order at all; in the total order its sign decides, which is not certain.
        let x = self.choose(|v| {
            let ordered = v.ty().is_integer() || v.note.bound.is_finite() && !v.note.loose_zero;
            ordered && !v.shape.dims.is_empty() && v.note.is_exact()
        })?;
        let Value { shape, op, note } = self.values[x].clone();
        let d = self.rng.below(shape.rank() as u64) as i64;
        type Order = fn(&Builder, Op, Op) -> Op;
        let all: [Order; 4] = [Builder::lt, Builder::gt, Builder::lt_total_order, Builder::gt_total_order];
        let order = self.rng.pick(&all);
        let branches = self.rng.chance(1, 6);
        if self.rng.chance(1, 2) {
            let made = self.builder.sort(&[op], &comparator(&[shape.ty], order, branches), d, true);
            return self.add(made, &[x], note);
        }
        let y = match self.choose(|v| v.shape.dims == shape.dims && v.note.is_exact()) {
            Some(y) => y,
            None => {
                let ty = self.any_type();
                self.parameter(ty, &shape.dims)
            }
        };
        let other = self.values[y].clone();
        let pair = self.builder.sort(&[op, other.op], &comparator(&[shape.ty, other.ty()], order, branches), d, true);
        let (first, second) = (self.builder.get_tuple_element(pair, 0), self.builder.get_tuple_element(pair, 1));
        self.add(first, &[x, y], note)?;
        self.add(second, &[x, y], other.note)
    }

    fn top_k(&mut self) -> Option<usize> {
        let x = self.choose(|v| {
            let certain = v.note.is_exact() && !v.note.loose_zero && (v.ty().is_integer() || v.note.bound.is_finite());
            certain && !v.shape.dims.is_empty() && v.ty() != E::Pred && v.elements() > 0
        })?;
        let Value { shape, op, note } = self.values[x].clone();
        let k = self.rng.between(1, shape.dims[shape.rank() - 1]);
        let largest = self.rng.chance(2, 3);
        // The total order sees the sign of a NaN, which no engine owes another: there must be none.
        let op = if shape.ty.is_float() {
            let zero = self.scalar(shape.ty, 0.0);
            let zeros = self.builder.broadcast_in_dim(zero, &shape.dims, &[]);
            self.builder.select(self.builder.eq(op, op), op, zeros)
        } else {
            op
        };
        let pair = self.builder.top_k(op, k, largest);
        let (values, places) = (self.builder.get_tuple_element(pair, 0), self.builder.get_tuple_element(pair, 1));
        self.add(values, &[x], note)?;
        self.add(places, &[x], Note::exact(f64::INFINITY))
    }

    /// Two floats as a complex number, some operations on it, and its parts or its magnitude.
    fn complex(&mut self) -> Option<usize> {
        let fits = |v: &Value| matches!(v.ty(), E::F32 | E::F64) && v.note.is_exact() && v.note.bound <= 1e3;
        let x = self.choose(fits)?;
        let shape = self.values[x].shape.clone();
        let y = self.like(&shape, fits);
        let b = &self.builder;
        let mut z = b.complex(self.values[x].op, self.values[y].op);
        let unit = 8.0 * roundoff(shape.ty);
        let mut bound = self.values[x].note.bound.max(self.values[y].note.bound).max(1e-3) * 1.5;
        let mut err = 0f64;
        for _ in 0..1 + self.rng.below(3) {
            match self.rng.below(7) {
                0 => z = b.neg(z),
                1 => {
                    z = b.add(z, z);
                    (bound, err) = (2.0 * bound, 2.0 * err);
                }
                2 if bound <= 1e4 => {
                    z = b.mul(z, z);
                    err = 4.0 * bound * err + 4.0 * unit * bound * bound;
                    bound = 2.0 * bound * bound;
                }
                3 if bound <= 2.0 => {
                    z = b.exp(z);
                    (bound, err) = (bound.exp(), bound.exp() * (2.0 * err + 4.0 * unit));
                }
                4 if shape.rank() >= 2 => {
                    let order: Vec<i64> = self.rng.permutation(shape.rank()).iter().map(|&d| d as i64).collect();
                    z = b.transpose(b.transpose(z, &order), &inverse(&order));
                }
                5 if shape.rank() >= 1 => z = b.rev(z, &[0]),
                _ => {
                    let minus = b.neg(z);
                    z = b.select(b.eq(z, minus), z, b.sub(z, minus));
                    (bound, err) = (2.0 * bound, 2.0 * err);
                    if err > 0.0 {
                        return None;
                    }
                }
            }
        }
        let made = match self.rng.below(3) {
            0 => b.real(z),
            1 => b.imag(z),
            _ => {
                err = 2.0 * err + 4.0 * unit * bound;
                bound *= 2.0;
                b.abs(z)
            }
        };
        let note = Note { bound, err, rel: 0.0, loose_zero: true }.rounded(shape.ty, self.strict)?;
        self.add(made, &[x, y], note)
    }

    fn fft(&mut self) -> Option<usize> {
        let x = self.choose(|v| {
            let ty = matches!(v.ty(), E::F32 | E::F64) && v.note.is_usable() && v.note.bound <= 1e4;
            ty && v.shape.rank() >= 1 && v.elements() > 0
        })?;
        let Value { shape, op, note } = self.values[x].clone();
        let axes = 1 + self.rng.below(shape.rank().min(3) as u64) as usize;
        let length = shape.dims[shape.rank() - axes..].to_vec();
        let n: f64 = length.iter().product::<i64>() as f64;
        let b = &self.builder;
        let bound = n * note.bound.max(1e-3);
        let made = match self.rng.below(3) {
            0 => b.real(b.fft(op, FftKind::Rfft, &length)),
            1 => b.imag(b.fft(b.complex(op, op), FftKind::Fft, &length)),
            _ => b.fft(b.fft(op, FftKind::Rfft, &length), FftKind::Irfft, &length),
        };
        let err = 2.0 * n * note.err + 64.0 * (2.0 + n.log2()) * roundoff(shape.ty) * 2.0 * bound;
        let note = Note { bound: 2.0 * bound, err, rel: 0.0, loose_zero: true }.rounded(shape.ty, self.strict)?;
        self.add(made, &[x], note)
    }

    /// Matrices that are far from singular: small elements beside a large diagonal.
    fn factorization(&mut self) -> Option<usize> {
        let ty = self.rng.pick(&[E::F32, E::F64]);
        let n = self.rng.between(1, 6);
        let mut dims = if self.rng.chance(1, 3) { vec![self.rng.between(1, 3)] } else { vec![] };
        dims.extend([n, n]);
        let mut array = ArrayLiteral::zeros(&ArrayShape::new(ty, dims.clone()));
        for k in 0..array.elements() {
            let (i, j) = (k as i64 / n % n, k as i64 % n);
            let v = if i == j { 4.0 * n as f64 } else { ((i + j) * 7 % 5) as f64 / 4.0 - 0.5 };
            array.set(k, Scalar::Float(v).round_to(ty));
        }
        let a = self.data(array);
        let lower = self.rng.chance(1, 2);
        let bound = 8.0 * n as f64;
        let note = |bound: f64| Note { bound, err: 256.0 * roundoff(ty) * bound, rel: 0.0, loose_zero: true };
        if self.rng.chance(1, 2) {
            // The other triangle holds what it holds.
            let factor = self.builder.cholesky(a, lower);
            let shape = ArrayShape::new(E::S32, dims.clone());
            let (rows, columns) = (dims.len() as i64 - 2, dims.len() as i64 - 1);
            let i = self.builder.iota(Shape::Array(shape.clone()), rows);
            let j = self.builder.iota(Shape::Array(shape), columns);
            let kept = if lower { self.builder.ge(i, j) } else { self.builder.le(i, j) };
            let zero = self.scalar(ty, 0.0);
            let zeros = self.builder.broadcast(zero, &dims);
            let made = self.builder.select(kept, factor, zeros);
            return self.add(made, &[], note(bound));
        }
        let left = self.rng.chance(1, 2);
        let other = self.rng.between(1, 4);
        let k = dims.len();
        dims[k - 1] = if left { other } else { n };
        dims[k - 2] = if left { n } else { other };
        let y = self.like(&ArrayShape::new(ty, dims), |v| v.note.is_usable() && v.note.bound <= 1e3);
        let unit = self.rng.chance(1, 4);
        let kind = self.rng.pick(&[TransposeKind::NoTranspose, TransposeKind::Transpose, TransposeKind::Adjoint]);
        let made = self.builder.triangular_solve(a, self.values[y].op, left, lower, unit, kind);
        // With ones on the diagonal elements of up to a half may grow by as much again at each step.
        let growth = if unit { 1.5f64.powi(n as i32) * 2.0 } else { 1.0 };
        let bound = self.values[y].note.bound.max(1.0) * growth;
        let err = self.values[y].note.err * growth;
        let made_note = Note { err: note(bound).err + err, ..note(bound) };
        self.add(made, &[y], made_note)
    }

    fn random_bits(&mut self) -> Option<usize> {
        let (a, b) = (self.rng.next(), self.rng.next());
        let state = self.data(ArrayLiteral::from_elements(&[2], &[a, b]));
        let algorithm = self.rng.pick(&[RandomAlgorithm::ThreeFry, RandomAlgorithm::Philox, RandomAlgorithm::Default]);
        let ty = self.rng.pick(&[E::U32, E::U32, E::U64, E::S32, E::U8, E::U16]);
        let dims = self.any_dims();
        let pair = self.builder.rng_bit_generator(algorithm, state, Shape::array(ty, dims));
        let (state, bits) = (self.builder.get_tuple_element(pair, 0), self.builder.get_tuple_element(pair, 1));
        self.add(state, &[], Note::exact(f64::INFINITY))?;
        self.add(bits, &[], Note::exact(f64::INFINITY))
    }

    /// A size set when the program runs, work on what is left, and its sum.
    fn dynamic_size(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.shape.rank() >= 1 && v.ty() == E::S32)?;
        let Value { shape, op, .. } = self.values[x].clone();
        let d = self.rng.below(shape.rank() as u64) as i64;
        let n = self.rng.between(0, shape.dims[d as usize]) as i32;
        let size = self.data(ArrayLiteral::scalar(n));
        let mut cut = self.builder.set_dimension_size(op, size, d);
        let window = self.window(&shape.dims, true);
        let (kind, last) = (self.rng.below(5), self.rng.below(4));
        let b = &self.builder;
        let zero = b.constant_r0(0i32);
        let add = computation(Opcode::Add, E::S32);
        cut = match (kind, window) {
            (0, _) => b.mul(cut, cut),
            (1, _) => b.sort(&[cut], &comparator(&[E::S32], Builder::gt, last == 0), d, true),
            (2, Some(w)) => {
                let ones = vec![1; shape.rank()];
                let windows = b.reduce_window_with_general_padding(
                    &[cut],
                    &[zero],
                    &add,
                    &w.sizes,
                    &w.strides,
                    &ones,
                    &ones,
                    &w.padding,
                );
                let (ge, padding) = (chooser(Builder::ge, E::S32), Padding::Explicit(w.padding));
                b.select_and_scatter(cut, &ge, &w.sizes, &w.strides, &padding, windows, zero, &add)
            }
            _ => b.add(b.neg(cut), cut),
        };
        let made = match last {
            0 => b.get_dimension_size(cut, d),
            // What is uncovered is zeros.
            1 => {
                let whole = b.set_dimension_size(cut, b.constant_r0(shape.dims[d as usize] as i32), d);
                // By way of another rank, which takes the mark off.
                b.reshape(b.reshape(whole, &[&[1i64][..], &shape.dims].concat()), &shape.dims)
            }
            _ => b.reduce_all(cut, zero, &add),
        };
        self.add(made, &[x], Note::exact(f64::INFINITY))
    }

    /// Bits and formats.
    fn bit_patterns(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_exact() && !v.note.loose_zero && v.ty() != E::Pred)?;
        let Value { shape, op, note } = self.values[x].clone();
        let ty = shape.ty;
        match self.rng.below(4) {
            0 if ty.is_float() && ty.bits() >= 16 => {
                let (e, m) = (self.rng.between(2, 11), self.rng.between(0, 30));
                let made = self.builder.reduce_precision(op, e, m);
                self.add(made, &[x], Note { bound: f64::INFINITY, ..note })
            }
            1 if ty.is_float() => {
                let made = self.builder.is_finite(op);
                self.add(made, &[x], Note::exact(1.0))
            }
            // NaN has many forms, of which engines may choose any.
            2 if ty.bits() == 32 && (ty.is_integer() || note.bound.is_finite()) => {
                let made = self.builder.bitcast_convert_type(op, if ty.is_float() { E::U32 } else { E::S32 });
                self.add(made, &[x], Note::exact(f64::INFINITY))
            }
            3 if ty.is_integer() && ty.bits() >= 16 => {
                let to = if ty.bits() == 16 { E::U8 } else { E::U16 };
                let made = self.builder.bitcast_convert_type(op, to);
                self.add(made, &[x], Note::exact(f64::INFINITY))
            }
            _ if ty.is_integer() && ty.bits() >= 8 => {
                let y = self.like(&shape, |_| true);
                let made = self.builder.mulhi(op, self.values[y].op);
                self.add(made, &[x, y], Note::exact(f64::INFINITY))
            }
            _ => None,
        }
    }

    /// Maps, calls and barriers.
    fn regions(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.ty().is_integer() && v.ty().bits() >= 8)?;
        let Value { shape, op, .. } = self.values[x].clone();
        let y = self.like(&shape, |_| true);
        let other = self.values[y].op;
        let f = |shape: &ArrayShape| {
            let b = Builder::new("f");
            let (p, q) =
                (b.parameter(0, Shape::Array(shape.clone()), "p"), b.parameter(1, Shape::Array(shape.clone()), "q"));
            let root = b.select(b.lt(p, q), b.sub(q, p), b.mul(p, q));
            built(b, root)
        };
        let made = match self.rng.below(3) {
            0 => self.builder.map(&[op, other], &f(&ArrayShape::new(shape.ty, []))),
            1 => self.builder.call(&f(&shape), &[op, other]),
            _ => {
                let pair = self.builder.tuple(&[op, other]);
                let pair = self.builder.optimization_barrier(pair);
                let (p, q) = (self.builder.get_tuple_element(pair, 0), self.builder.get_tuple_element(pair, 1));
                self.builder.xor(p, q)
            }
        };
        self.add(made, &[x, y], Note::exact(f64::INFINITY))
    }
}

/// A scalar of any integer type.
fn scalar_of(ty: E, v: i64) -> ArrayLiteral {
    let mut array = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
    array.set(0, Scalar::Int(v));
    array
}
