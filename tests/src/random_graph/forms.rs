//! Operations with dimension numbers, in every form that the numbers allow: dimensions in any order and place, several of each kind
//! and none, slices of part of a dimension that nobody indexes, indices outside.

use super::fold::products;
use super::note::Note;
use super::wide::fold_computation;
use super::{Generator, MAX_ELEMENTS, Value};
use brolga_compiler::builder::{GatherDimensions, Op, Padding, ScatterDimensions};
use brolga_compiler::hlo::{ConvolutionDims, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType as E, Scalar};

/// Index vectors into some dimensions of an array, and along which they run.
struct Indices {
    op: Op,
    /// Extents of the dimensions around the vectors.
    around: Vec<i64>,
    vector_dim: i64,
    /// The dimension of the array that each element of a vector is for.
    indexed: Vec<i64>,
    /// For each dimension that runs along, in the array and here.
    along: Vec<(i64, i64)>,
}

/// Parts of an array, one at each index vector.
struct Slices {
    /// Their extents: 1 in the dimensions that they lack.
    sizes: Vec<i64>,
    /// The dimensions that they lack, beside those that run along with the indices.
    dropped: Vec<i64>,
    indices: Indices,
}

impl Slices {
    /// Their extents in the dimensions that they have.
    fn window(&self) -> Vec<i64> {
        let lacks = |d: i64| self.dropped.contains(&d) || self.indices.along.iter().any(|a| a.0 == d);
        self.sizes.iter().zip(0..).filter(|(_, d)| !lacks(*d)).map(|(&size, _)| size).collect()
    }
}

impl Generator {
    pub(super) fn forms(&mut self) -> Option<usize> {
        match self.rng.below(6) {
            0 => self.turned_broadcast(),
            1 | 2 => self.any_gather(),
            3 | 4 => self.any_scatter(),
            _ => self.any_convolution(),
        }
    }

    /// A broadcast whose dimensions stand in another order than the operand's.
    fn turned_broadcast(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.elements() * 4 <= MAX_ELEMENTS && (1..=3).contains(&v.shape.rank()))?;
        let Value { shape, op, note } = self.values[x].clone();
        let rank = shape.rank() + self.rng.below(3) as usize;
        let order = self.rng.permutation(rank);
        let mut dims = vec![0; rank];
        let mut room = MAX_ELEMENTS / (shape.elements() as i64).max(1);
        for (n, &d) in order.iter().enumerate() {
            dims[d] = match shape.dims.get(n) {
                Some(&size) => size,
                None => self.rng.between(1, room.clamp(1, 9)),
            };
            room /= if n < shape.rank() { 1 } else { dims[d] };
        }
        let numbers: Vec<i64> = order[..shape.rank()].iter().map(|&d| d as i64).collect();
        let made = self.builder.broadcast_in_dim(op, &dims, &numbers);
        self.add(made, &[x], note)
    }

    /// Indices into the dimensions `indexed` of an array of `dims`, which runs along with them in `batching`.
    fn any_indices(&mut self, dims: &[i64], indexed: &[usize], batching: &[usize]) -> Indices {
        let mut around: Vec<(Option<usize>, i64)> = batching.iter().map(|&d| (Some(d), dims[d])).collect();
        for _ in 0..self.rng.below(3) {
            around.push((None, self.rng.pick(&[1, 2, 3, 7])));
        }
        let order = self.rng.permutation(around.len());
        let around: Vec<(Option<usize>, i64)> = order.iter().map(|&n| around[n]).collect();
        let mut shape: Vec<i64> = around.iter().map(|a| a.1).collect();
        let scalar = indexed.len() == 1 && self.rng.chance(1, 3);
        let at = if scalar { shape.len() } else { self.rng.below(shape.len() as u64 + 1) as usize };
        if !scalar {
            shape.insert(at, indexed.len() as i64);
        }
        let ty = self.rng.pick(&[E::S32, E::S32, E::S64, E::U32, E::S8]);
        let mut array = ArrayLiteral::zeros(&ArrayShape::new(ty, shape.clone()));
        let step: i64 = if scalar { 1 } else { shape[at + 1..].iter().product() };
        for k in 0..array.elements() {
            let which = if scalar { 0 } else { k as i64 / step % shape[at] };
            let size = dims[indexed[which as usize]];
            let v = self.rng.between(-2, size + 1);
            array.set(k, Scalar::Int(if ty == E::U32 { v.max(0) } else { v.clamp(-128, 127) }));
        }
        let place =
            |d: usize| around.iter().position(|a| a.0 == Some(d)).map_or(0, |p| p + usize::from(!scalar && p >= at));
        Indices {
            op: self.data(array),
            around: around.iter().map(|a| a.1).collect(),
            vector_dim: at as i64,
            indexed: indexed.iter().map(|&d| d as i64).collect(),
            along: batching.iter().map(|&d| (d as i64, place(d) as i64)).collect(),
        }
    }

    /// Slices of an array of `dims`, none of which is empty: some dimensions run along with the indices, and some of the others are
    /// indexed, in any order. `None` where all slices together have too many elements.
    fn slices(&mut self, dims: &[i64]) -> Option<Slices> {
        let order = self.rng.permutation(dims.len());
        let along = if self.rng.chance(1, 3) { self.rng.below(dims.len() as u64) as usize } else { 0 };
        let (batching, rest) = order.split_at(along);
        let mut batching = batching.to_vec();
        batching.sort_unstable();
        let indexed = &rest[..1 + self.rng.below(rest.len() as u64) as usize];
        let mut sizes = dims.to_vec();
        batching.iter().for_each(|&d| sizes[d] = 1);
        let mut dropped = Vec::new();
        for &d in rest {
            if self.rng.chance(1, 2) {
                sizes[d] = 1;
                dropped.push(d as i64);
            } else if self.rng.chance(2, 3) {
                sizes[d] = self.rng.between(1, dims[d]);
            }
        }
        dropped.sort_unstable();
        let indices = self.any_indices(dims, indexed, &batching);
        let count: i64 = indices.around.iter().product();
        (sizes.iter().product::<i64>() * count <= MAX_ELEMENTS).then_some(Slices { sizes, dropped, indices })
    }

    /// Places of `inner` dimensions among `all`, ascending.
    fn places(&mut self, inner: usize, all: usize) -> Vec<i64> {
        let mut places: Vec<i64> = self.rng.permutation(all)[..inner].iter().map(|&d| d as i64).collect();
        places.sort_unstable();
        places
    }

    fn any_gather(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty() && v.elements() > 0)?;
        let Value { shape, op, note } = self.values[x].clone();
        let slices = self.slices(&shape.dims)?;
        let window = slices.window();
        let Slices { sizes, dropped, indices } = slices;
        let numbers = GatherDimensions {
            offset_dims: self.places(window.len(), window.len() + indices.around.len()),
            collapsed_slice_dims: dropped,
            start_index_map: indices.indexed,
            index_vector_dim: indices.vector_dim,
            operand_batching_dims: indices.along.iter().map(|a| a.0).collect(),
            start_indices_batching_dims: indices.along.iter().map(|a| a.1).collect(),
        };
        let made = self.builder.gather(op, indices.op, &numbers, &sizes, false);
        self.add(made, &[x], note)
    }

    fn any_scatter(&mut self) -> Option<usize> {
        let fits = |v: &Value| v.note.is_exact() && v.ty() != E::Pred && !v.shape.dims.is_empty() && v.elements() > 0;
        let x = self.choose(fits)?;
        let Value { shape, op, note } = self.values[x].clone();
        let slices = self.slices(&shape.dims)?;
        let window = slices.window();
        let Slices { dropped, indices, .. } = slices;
        let places = self.places(window.len(), window.len() + indices.around.len());
        let (mut inner, mut outer) = (window.iter(), indices.around.iter());
        let all = 0..(window.len() + indices.around.len()) as i64;
        let dims: Vec<i64> =
            all.filter_map(|d| if places.contains(&d) { inner.next() } else { outer.next() }).copied().collect();
        let y = self.like(&ArrayShape::new(shape.ty, dims), |v| v.note.is_exact());
        let numbers = ScatterDimensions {
            update_window_dims: places,
            inserted_window_dims: dropped,
            scatter_dims_to_operand_dims: indices.indexed,
            index_vector_dim: indices.vector_dim,
            input_batching_dims: indices.along.iter().map(|a| a.0).collect(),
            scatter_indices_batching_dims: indices.along.iter().map(|a| a.1).collect(),
        };
        // Several updates of one element have one result in any order.
        let opcode = match shape.ty.is_integer() {
            true => self.rng.pick(&[Opcode::Add, Opcode::Maximum, Opcode::Multiply, Opcode::Minimum]),
            false => self.rng.pick(&[Opcode::Maximum, Opcode::Minimum]),
        };
        let b = self.values[y].note;
        let note =
            Note { bound: note.bound.max(b.bound), loose_zero: true, ..note.either(b) }.rounded(shape.ty, true)?;
        let combine = fold_computation(&mut self.rng, opcode, shape.ty);
        let made = self.builder.scatter(&[op], indices.op, &[self.values[y].op], &combine, &numbers, false, false);
        self.add(made, &[x, y], note)
    }

    /// A convolution with its dimensions in any order, in groups of features or of batches.
    fn any_convolution(&mut self) -> Option<usize> {
        let ty = self.rng.pick(&[E::F32, E::F32, E::F64, E::F16, E::BF16, E::S32, E::S8]);
        let spatial = self.rng.below(3) as usize;
        let (groups, batches) = self.rng.pick(&[(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)]);
        let each = self.rng.pick(&[1, 2, 3, 8]);
        let (batch, features) = (batches * self.rng.between(1, 3), groups * each);
        let outputs = groups * batches * self.rng.pick(&[1, 2, 5]);
        let image: Vec<i64> = (0..spatial).map(|_| self.rng.pick(&[1, 2, 4, 7, 9])).collect();
        let kernel: Vec<i64> = image.iter().map(|&n| self.rng.between(1, n.min(3))).collect();
        let stride: Vec<i64> = image.iter().map(|_| self.rng.pick(&[1, 1, 2, 3])).collect();
        let base: Vec<i64> = image.iter().map(|_| self.rng.pick(&[1, 1, 1, 2])).collect();
        let window: Vec<i64> = image.iter().map(|_| self.rng.pick(&[1, 1, 1, 2])).collect();
        let padding = image.iter().map(|_| (self.rng.between(-1, 2), self.rng.between(0, 3))).collect();
        // Batch or output, feature, then what is spatial, each in some dimension.
        let orders = [(); 3].map(|()| self.rng.permutation(2 + spatial));
        let [x, y] = [(0, batch, features, &image), (1, outputs, each, &kernel)].map(|(n, first, second, spatial)| {
            let mut dims = vec![0; 2 + spatial.len()];
            let order: &[usize] = &orders[n];
            order.iter().zip([first, second].iter().chain(spatial)).for_each(|(&d, &size)| dims[d] = size);
            let shape = ArrayShape::new(ty, dims);
            self.like(&shape, |v| v.note.is_usable() && (ty.is_integer() || v.note.bound.is_finite()))
        });
        let [i, k, o] = &orders;
        let numbers = ConvolutionDims {
            input_batch: i[0],
            input_feature: i[1],
            input_spatial: i[2..].to_vec(),
            kernel_output_feature: k[0],
            kernel_input_feature: k[1],
            kernel_spatial: k[2..].to_vec(),
            output_batch: o[0],
            output_feature: o[1],
            output_spatial: o[2..].to_vec(),
        };
        let padding = Padding::Explicit(padding);
        let (lhs, rhs) = (self.values[x].op, self.values[y].op);
        let made =
            self.builder.conv_general_dilated(lhs, rhs, &stride, &padding, &base, &window, &numbers, groups, batches);
        if let Some(error) = self.builder.first_error() {
            panic!("a convolution is invalid: {error}");
        }
        let terms = (each * kernel.iter().product::<i64>()) as f64;
        let (a, b) = (self.values[x].note, self.values[y].note);
        let note = products(ty, terms, a, b, self.strict)?;
        self.add(made, &[x, y], note)
    }
}
