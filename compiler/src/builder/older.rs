//! Forms of older documents.
//!
//! Where versions of the specification differ, the newest has the plain name; what an older one says is a method of its
//! own here, made of today's operations. `docs/semantics/differences.md` has the list.

use super::reduction::scalar_computation_at;
use super::{At, Builder, DotDimensions, Failed, GatherDimensions, Op, Padding, Step};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode};
use crate::shape::RuleError;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Scalar, Shape};
use std::panic::Location;

impl Builder {
    /// `clamp_operand_first(operand, min, max)`: [`Builder::clamp`] with the arguments in the order of 2017. Section «Clamp».
    #[track_caller]
    pub fn clamp_operand_first(&self, operand: Op, min: Op, max: Op) -> Op {
        self.clamp(min, operand, max)
    }

    /// `logical_and(lhs, rhs)`: the and of truth values; [`Builder::and`] also takes integers, bit by bit. Section
    /// «Element-wise binary arithmetic operations». Errors: operands that are not `pred`.
    #[track_caller]
    pub fn logical_and(&self, lhs: Op, rhs: Op) -> Op {
        self.logical_at(Location::caller(), Opcode::And, &[lhs, rhs], &[])
    }

    /// `logical_or(lhs, rhs)`: the or of truth values. Section «Element-wise binary arithmetic operations». Errors: as of
    /// [`Builder::logical_and`].
    #[track_caller]
    pub fn logical_or(&self, lhs: Op, rhs: Op) -> Op {
        self.logical_at(Location::caller(), Opcode::Or, &[lhs, rhs], &[])
    }

    /// As [`Builder::logical_and`], for operands of different rank.
    #[track_caller]
    pub fn logical_and_in_dims(&self, lhs: Op, rhs: Op, broadcast_dimensions: &[i64]) -> Op {
        self.logical_at(Location::caller(), Opcode::And, &[lhs, rhs], broadcast_dimensions)
    }

    /// As [`Builder::logical_or`], for operands of different rank.
    #[track_caller]
    pub fn logical_or_in_dims(&self, lhs: Op, rhs: Op, broadcast_dimensions: &[i64]) -> Op {
        self.logical_at(Location::caller(), Opcode::Or, &[lhs, rhs], broadcast_dimensions)
    }

    /// `logical_not(operand)`: the opposite of truth values. Section «Element-wise unary functions». Errors: as of
    /// [`Builder::logical_and`].
    #[track_caller]
    pub fn logical_not(&self, operand: Op) -> Op {
        self.logical_at(Location::caller(), Opcode::Not, &[operand], &[])
    }

    /// An operation of truth values, one or two; of two of different rank, the dimensions that the narrower one has.
    fn logical_at(&self, at: At, opcode: Opcode, operands: &[Op], broadcast_dimensions: &[i64]) -> Op {
        let step = operands.iter().try_for_each(|&o| {
            let ty = self.array_at(at, opcode, o)?.ty;
            if ty == ElementType::Pred {
                return Ok(());
            }
            let message = format!("expected pred in the logical form of {opcode}, found {ty}");
            Err(self.reject_plain(at, RuleError::new("elementwise.type", message)))
        });
        self.finish(step.and_then(|()| match *operands {
            [lhs, rhs] => self.binary_at(at, opcode, lhs, rhs, broadcast_dimensions, Attrs::new()),
            _ => self.add_at(at, opcode, operands, Attrs::new(), None),
        }))
    }

    /// `sign_without_negative_zero(operand)`: the sign of 2017, which is 0 of both zeros; [`Builder::sign`] keeps a zero's
    /// own. Section «Element-wise unary functions».
    #[track_caller]
    pub fn sign_without_negative_zero(&self, operand: Op) -> Op {
        let sign = self.sign(operand);
        let ty = self.array_at(Location::caller(), Opcode::Sign, operand).map(|a| a.ty);
        match ty {
            // -0 + 0 is 0, and nothing else changes.
            Ok(ty) => self.add(sign, self.zero(ty)),
            Err(failed) => self.finish(Err(failed)),
        }
    }

    /// `dot_last_dimensions(lhs, rhs)`: the sum over the last dimension of `lhs` and the one before the last of `rhs` (the
    /// only one of a vector), of operands of any rank: the wording of 2017. Section «Dot». Errors: a scalar, sizes that
    /// differ.
    #[track_caller]
    pub fn dot_last_dimensions(&self, lhs: Op, rhs: Op) -> Op {
        let at = Location::caller();
        let numbers = self.array_at(at, Opcode::Dot, lhs).and_then(|a| {
            let b = self.array_at(at, Opcode::Dot, rhs)?;
            Ok(DotDimensions {
                lhs_contracting: vec![a.rank() as i64 - 1],
                rhs_contracting: vec![(b.rank() as i64 - 2).max(0)],
                ..DotDimensions::default()
            })
        });
        match numbers {
            Ok(numbers) => self.dot_general(lhs, rhs, &numbers),
            Err(failed) => self.finish(Err(failed)),
        }
    }

    /// `conv_with_general_padding(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count,
    /// batch_group_count)`: the convolution of `lhs` (batch, feature, spatial...) with the kernel `rhs` (output feature,
    /// input feature, spatial...), padded by (low, high) amounts. Empty dilations stand for ones. Section
    /// «ConvWithGeneralPadding (convolution)».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn conv_with_general_padding(
        &self,
        lhs: Op,
        rhs: Op,
        window_strides: &[i64],
        padding: &[(i64, i64)],
        lhs_dilation: &[i64],
        rhs_dilation: &[i64],
        feature_group_count: i64,
        batch_group_count: i64,
    ) -> Op {
        self.conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            &Padding::Explicit(padding.to_vec()),
            lhs_dilation,
            rhs_dilation,
            &super::default_convolution_dims(padding.len()),
            feature_group_count,
            batch_group_count,
        )
    }

    /// `conv_without_groups(lhs, rhs, window_strides, padding)`: [`Builder::conv`] in the form of 2017, which has no group
    /// counts. Section «Conv (convolution)».
    #[track_caller]
    pub fn conv_without_groups(&self, lhs: Op, rhs: Op, window_strides: &[i64], padding: &Padding) -> Op {
        self.conv(lhs, rhs, window_strides, padding, 1, 1)
    }

    /// `conv_with_general_padding_without_groups(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)`:
    /// [`Builder::conv_with_general_padding`] in the form of 2017, which has no group counts. Section
    /// «ConvWithGeneralPadding (convolution)».
    #[track_caller]
    pub fn conv_with_general_padding_without_groups(
        &self,
        lhs: Op,
        rhs: Op,
        window_strides: &[i64],
        padding: &[(i64, i64)],
        lhs_dilation: &[i64],
        rhs_dilation: &[i64],
    ) -> Op {
        self.conv_with_general_padding(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, 1, 1)
    }

    /// `gather_with_unique_indices(operand, start_indices, dimension_numbers, slice_sizes, indices_are_sorted,
    /// unique_indices)`: [`Builder::gather`] with a promise that only the version in between lets its caller make. A gather
    /// writes nothing, so that the promise changes nothing, and HLO text has no place for it. Section «Gather».
    #[track_caller]
    pub fn gather_with_unique_indices(
        &self,
        operand: Op,
        start_indices: Op,
        dimension_numbers: &GatherDimensions,
        slice_sizes: &[i64],
        indices_are_sorted: bool,
        _unique_indices: bool,
    ) -> Op {
        self.gather(operand, start_indices, dimension_numbers, slice_sizes, indices_are_sorted)
    }

    /// `cross_replica_sum(operand)`: the sum over all replicas, [`Builder::all_reduce`] with an addition. Section
    /// «CrossReplicaSum».
    #[track_caller]
    pub fn cross_replica_sum(&self, operand: Op) -> Op {
        let at = Location::caller();
        let ty = self.shape(operand).ok().and_then(|s| Some(s.leaves().first()?.as_array()?.ty));
        match ty.map(|ty| scalar_computation_at(at, Opcode::Add, ty)) {
            Some(Ok(add)) => self.all_reduce(operand, &add, &[], None),
            // The rule says what is wrong with what is no array, or cannot be added.
            _ => self.finish(self.array_at(at, Opcode::AllReduce, operand).and_then(|_| {
                let e = RuleError::new("elementwise.type", "expected an array of numbers to add");
                Err(self.reject(at, Opcode::AllReduce, e))
            })),
        }
    }

    /// `batch_norm_grad_offset_first(operand, scale, mean, variance, grad_output, epsilon, feature_index)`: the gradients
    /// with respect to operand, offset and scale, in the order of the table of 2017. Section «BatchNormGrad».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn batch_norm_grad_offset_first(
        &self,
        operand: Op,
        scale: Op,
        mean: Op,
        variance: Op,
        grad_output: Op,
        epsilon: f64,
        feature_index: i64,
    ) -> Op {
        self.made_at(Location::caller(), || {
            let all = self.batch_norm_grad(operand, scale, mean, variance, grad_output, epsilon, feature_index);
            let parts = [0, 2, 1].map(|k| self.get_tuple_element(all, k));
            self.tuple(&parts)
        })
    }

    /// `slice_without_strides(operand, start_indices, limit_indices)`: the elements from `start_indices` up to
    /// `limit_indices`, of which there must be some: the slice of 2017. Section «Slice». Errors: as of
    /// [`Builder::slice`], and an empty result.
    #[track_caller]
    pub fn slice_without_strides(&self, operand: Op, start_indices: &[i64], limit_indices: &[i64]) -> Op {
        let at = Location::caller();
        if let Some(d) = start_indices.iter().zip(limit_indices).position(|(start, limit)| start >= limit) {
            let message = format!("expected a limit above the start in dimension {d} of a slice, found none");
            return self.finish(Err(self.reject(at, Opcode::Slice, RuleError::new("slice.bounds", message))));
        }
        self.slice(operand, start_indices, limit_indices, &vec![1; start_indices.len()])
    }

    /// `sort_ascending(operand)`: the operand sorted along its last dimension, smallest first, floats in their total
    /// order: the sort of 2017, which takes no comparator. Section «Sort».
    #[track_caller]
    pub fn sort_ascending(&self, operand: Op) -> Op {
        let at = Location::caller();
        let made = self.array_at(at, Opcode::Sort, operand).and_then(|a| {
            let b = Builder::new_at(at, "ascending");
            let (x, y) = (b.parameter(0, Shape::scalar(a.ty), "x"), b.parameter(1, Shape::scalar(a.ty), "y"));
            b.lt_total_order(x, y);
            match b.build() {
                Ok(comparator) => Ok((comparator, a.rank() as i64 - 1)),
                Err(_) => {
                    let message = format!("expected ordered elements to sort, found {}", a.ty);
                    Err(self.reject(at, Opcode::Sort, RuleError::new("compare.complex", message)))
                }
            }
        });
        match made {
            Ok((comparator, dimension)) => self.sort(&[operand], &comparator, dimension, false),
            Err(failed) => self.finish(Err(failed)),
        }
    }

    /// `rng_bernoulli(mean, shape)`: 1 with probability `mean`, a scalar of type `f32`, 0 otherwise; `shape` has element
    /// type `u32`. Section «RngBernoulli». Errors: other types.
    #[track_caller]
    pub fn rng_bernoulli(&self, mean: Op, shape: Shape) -> Op {
        let at = Location::caller();
        let checked = self.array_at(at, Opcode::Rng, mean).and_then(|m| match &shape {
            Shape::Array(a) if a.ty == ElementType::U32 && m.ty == ElementType::F32 && m.rank() == 0 => Ok(a.clone()),
            _ => {
                let message = format!("expected a mean f32[] and a shape of type u32, found {m:#} and {shape:#}");
                Err(self.reject(at, Opcode::Rng, RuleError::new("rng.type", message)))
            }
        });
        match checked {
            Ok(a) => self.made_at(at, || {
                let uniform = Shape::Array(a.with_type(ElementType::F32));
                let drawn = self.rng_uniform(self.constant_r0(0f32), self.constant_r0(1f32), uniform);
                self.convert_element_type(self.lt(drawn, mean), ElementType::U32)
            }),
            Err(failed) => self.finish(Err(failed)),
        }
    }

    /// `map_with_static_operands(operands, computation, static_operands)`: as [`Builder::map`], with further arguments of
    /// the computation that are the same at every place, of any shape. Where one is no scalar, the places are visited one
    /// after another: HLO text's `map` takes elements only. Section «Map». Errors: as of [`Builder::map`].
    #[track_caller]
    pub fn map_with_static_operands(&self, operands: &[Op], computation: &Module, static_operands: &[Op]) -> Op {
        let at = Location::caller();
        let scalar = |o: &Op| self.shape(*o).is_ok_and(|s| s.as_array().is_some_and(|a| a.rank() == 0));
        if !static_operands.iter().all(scalar) {
            let made = self.made_at(at, || self.map_in_turn_at(at, operands, computation, static_operands));
            return self.finish(made);
        }
        let all = static_operands.iter().try_fold(operands.to_vec(), |mut all, &o| {
            let first = match operands.first() {
                Some(&first) => self.array_at(at, Opcode::Map, first)?,
                None => ArrayShape::new(ElementType::Pred, []),
            };
            all.push(self.broadcast_in_dim_at(at, o, &first.dims, &[])?);
            Ok(all)
        });
        match all {
            Ok(all) => self.map(&all, computation),
            Err(failed) => self.finish(Err(failed)),
        }
    }

    /// A map as a loop over the elements in row-major order, whose state is their number, the result, the operands as
    /// vectors, and the static operands.
    fn map_in_turn_at(&self, at: At, operands: &[Op], computation: &Module, static_operands: &[Op]) -> Step {
        let reject = |constraint, message: String| self.reject(at, Opcode::Map, RuleError::new(constraint, message));
        let arrays = operands.iter().map(|&o| self.array_at(at, Opcode::Map, o)).collect::<Step<Vec<ArrayShape>>>()?;
        let Some(first) = arrays.first() else {
            return Err(reject("arity", "expected at least 1 operands of map, found 0".to_owned()));
        };
        if let Some(other) = arrays.iter().find(|a| a.dims != first.dims || a.is_dynamic()) {
            let message = format!("expected operands of the same static dimensions, found {first:#} and {other:#}");
            return Err(reject("map.same-dimensions", message));
        }
        let Some(result) = computation.entry().result_shape().as_array().filter(|a| a.rank() == 0) else {
            let found = computation.entry().result_shape();
            return Err(reject("map.result", format!("expected a computation that yields a scalar, found {found:#}")));
        };
        let n = first.elements() as i64;
        let zero = self.zero(result.ty);
        if n == 0 {
            return self.broadcast_in_dim_at(at, zero, &first.dims, &[]);
        }
        let mut state = vec![self.constant_r0(0i64), self.broadcast_in_dim_at(at, zero, &[n], &[])?];
        for (&o, a) in operands.iter().zip(&arrays) {
            state.push(self.add_at(at, Opcode::Reshape, &[o], Attrs::new(), Some(Shape::array(a.ty, [n])))?);
        }
        state.extend(static_operands);
        let state = self.add_at(at, Opcode::Tuple, &state, Attrs::new(), None)?;
        let shape = self.shape(state).map_err(|_| Failed)?;
        let stepped =
            map_step(at, computation, &shape, operands.len()).and_then(|body| Ok((map_goes_on(at, &shape, n)?, body)));
        let (condition, body) = match stepped {
            Ok(pair) => pair,
            // What does not fit is the call of the computation.
            Err(Error::Invalid { constraint, message, .. }) => return Err(reject(constraint, message)),
            Err(other) => return Err(reject("map.parameters", other.message())),
        };
        let attrs = Attrs::new()
            .with(AttrKey::Condition, AttrValue::Computation(self.embed(&condition)))
            .with(AttrKey::Body, AttrValue::Computation(self.embed(&body)));
        let done = self.add_at(at, Opcode::While, &[state], attrs, None)?;
        let index = Attrs::new().with(AttrKey::Index, AttrValue::Int(1));
        let flat = self.add_at(at, Opcode::GetTupleElement, &[done], index, None)?;
        let shape = Shape::array(result.ty, first.dims.clone());
        self.add_at(at, Opcode::Reshape, &[flat], Attrs::new(), Some(shape))
    }

    /// `dynamic_slice_from_vector(operand, start_indices, size_indices)`: as [`Builder::dynamic_slice`], the start indices
    /// as one vector. Section «DynamicSlice».
    #[track_caller]
    pub fn dynamic_slice_from_vector(&self, operand: Op, start_indices: Op, size_indices: &[i64]) -> Op {
        let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(size_indices.to_vec()));
        self.op(Opcode::DynamicSlice, &[operand, start_indices], attrs, None)
    }

    /// `dynamic_update_slice_from_vector(operand, update, start_indices)`: as [`Builder::dynamic_update_slice`], the start
    /// indices as one vector. Section «DynamicUpdateSlice».
    #[track_caller]
    pub fn dynamic_update_slice_from_vector(&self, operand: Op, update: Op, start_indices: Op) -> Op {
        self.op(Opcode::DynamicUpdateSlice, &[operand, update, start_indices], Attrs::new(), None)
    }

    /// `dynamic_slice_modulo(operand, start_indices, size_indices)`: the slice of 2017: start indices as one vector, and
    /// every index modulo the operand's size, so that a slice that reaches past the end goes on at the beginning. Section
    /// «DynamicSlice». Errors: as of [`Builder::dynamic_slice`].
    #[track_caller]
    pub fn dynamic_slice_modulo(&self, operand: Op, start_indices: Op, size_indices: &[i64]) -> Op {
        let at = Location::caller();
        self.finish(self.made_at(at, || self.dynamic_slice_modulo_at(at, operand, start_indices, size_indices)))
    }

    /// `dynamic_update_slice_modulo(operand, update, start_indices)`: as [`Builder::dynamic_slice_modulo`]: what of the
    /// update reaches past the end is written from the beginning on. The text of 2017 says «modulo update dimension
    /// sizes», which its own example contradicts. Section «DynamicUpdateSlice».
    #[track_caller]
    pub fn dynamic_update_slice_modulo(&self, operand: Op, update: Op, start_indices: Op) -> Op {
        let at = Location::caller();
        self.finish(self.made_at(at, || {
            let a = self.array_at(at, Opcode::DynamicUpdateSlice, operand)?;
            // Turned so that the start lies at the origin, written to there, and turned back.
            let turned = self.dynamic_slice_modulo_at(at, operand, start_indices, &a.dims)?;
            let vector = self.array_at(at, Opcode::DynamicUpdateSlice, start_indices)?;
            let zero = self.zero(vector.ty);
            let written = self.dynamic_update_slice(turned, update, &vec![zero; a.rank()]);
            let (start, sizes) = self.modulo_at(at, start_indices, &a)?;
            self.dynamic_slice_modulo_at(at, written, self.sub(sizes, start), &a.dims)
        }))
    }

    fn dynamic_slice_modulo_at(&self, at: At, operand: Op, starts: Op, sizes: &[i64]) -> Step {
        let a = self.array_at(at, Opcode::DynamicSlice, operand)?;
        let (starts, _) = self.modulo_at(at, starts, &a)?;
        let mut extended = operand;
        for (d, &size) in sizes.iter().enumerate().take(a.rank()) {
            // A size that does not fit is the rule's to refuse.
            if (1..=a.dims[d]).contains(&size) {
                let head = self.slice_in_dim(extended, 0, size - 1, 1, d as i64);
                extended = self.concat_in_dim(&[extended, head], d as i64);
            }
        }
        let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(sizes.to_vec()));
        self.add_at(at, Opcode::DynamicSlice, &[extended, starts], attrs, None)
    }

    /// Each element of a vector of indices modulo the size of its dimension, never negative, and the sizes, as vectors of
    /// 64-bit integers: the type of the indices need hold neither a size nor the sum of an index and a size.
    fn modulo_at(&self, at: At, starts: Op, a: &ArrayShape) -> Step<(Op, Op)> {
        let vector = self.array_at(at, Opcode::DynamicSlice, starts)?;
        if !vector.ty.is_integer() || vector.dims != [a.rank() as i64] {
            let message = format!("expected a vector of {} integers as start indices, found {vector:#}", a.rank());
            return Err(self.reject(at, Opcode::DynamicSlice, RuleError::new("dynamic-slice.indices", message)));
        }
        let unsigned = vector.ty.is_unsigned_integer();
        let wide = vector.with_type(if unsigned { ElementType::U64 } else { ElementType::S64 });
        let mut sizes = ArrayLiteral::zeros(&wide);
        a.dims.iter().enumerate().for_each(|(i, &n)| sizes.set(i, Scalar::Int(n.max(1))));
        let sizes = self.constant_literal(sizes);
        let starts = self.add_at(at, Opcode::Convert, &[starts], Attrs::new(), Some(wide.into()))?;
        let rest = self.rem(starts, sizes);
        let modulo = if unsigned { rest } else { self.rem(self.add(rest, sizes), sizes) };
        Ok((modulo, sizes))
    }
}

/// Whether there is a next of `n` elements.
fn map_goes_on(at: At, state: &Shape, n: i64) -> Result<Module> {
    let b = Builder::new_at(at, "map_goes_on");
    let state = b.parameter(0, state.clone(), "state");
    b.lt(b.get_tuple_element(state, 0), b.constant_r0(n));
    b.build()
}

/// The next element of a map: `computation` of one element of each of `operands` vectors and of all that follows them.
fn map_step(at: At, computation: &Module, state: &Shape, operands: usize) -> Result<Module> {
    let b = Builder::new_at(at, "map_step");
    let count = state.as_tuple().map_or(0, <[Shape]>::len);
    let state = b.parameter(0, state.clone(), "state");
    let mut parts: Vec<Op> = (0..count as i64).map(|k| b.get_tuple_element(state, k)).collect();
    let [at, out] = [parts[0], parts[1]];
    let mut arguments = parts[2..].to_vec();
    for argument in &mut arguments[..operands] {
        *argument = b.reshape(b.dynamic_slice(*argument, &[at], &[1]), &[]);
    }
    let value = b.reshape(b.call(computation, &arguments), &[1]);
    parts[1] = b.dynamic_update_slice(out, value, &[at]);
    parts[0] = b.add(at, b.constant_r0(1i64));
    b.tuple(&parts);
    b.build()
}
