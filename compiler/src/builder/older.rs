//! Forms of older documents.
//!
//! Where versions of the specification differ, the newest has the plain name; what an older one says is a method of its
//! own here, made of today's operations. `docs/semantics/differences.md` has the list.

use super::reduction::scalar_computation_at;
use super::{At, Builder, DotDimensions, Op, Padding, Step};
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
        self.logical_at(Location::caller(), Opcode::And, &[lhs, rhs])
    }

    /// `logical_or(lhs, rhs)`: the or of truth values. Section «Element-wise binary arithmetic operations». Errors: as of
    /// [`Builder::logical_and`].
    #[track_caller]
    pub fn logical_or(&self, lhs: Op, rhs: Op) -> Op {
        self.logical_at(Location::caller(), Opcode::Or, &[lhs, rhs])
    }

    /// `logical_not(operand)`: the opposite of truth values. Section «Element-wise unary functions». Errors: as of
    /// [`Builder::logical_and`].
    #[track_caller]
    pub fn logical_not(&self, operand: Op) -> Op {
        self.logical_at(Location::caller(), Opcode::Not, &[operand])
    }

    /// An operation of truth values, one or two.
    fn logical_at(&self, at: At, opcode: Opcode, operands: &[Op]) -> Op {
        let step = operands.iter().try_for_each(|&o| {
            let ty = self.array_at(at, opcode, o)?.ty;
            if ty == ElementType::Pred {
                return Ok(());
            }
            let message = format!("expected pred in the logical form of {opcode}, found {ty}");
            Err(self.reject_plain(at, RuleError::new("elementwise.type", message)))
        });
        self.finish(step.and_then(|()| match *operands {
            [lhs, rhs] => self.binary_at(at, opcode, lhs, rhs, &[], Attrs::new()),
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
    /// «ConvWithGeneralPadding».
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
    /// the computation that are the same at every place. Section «Map». Errors: a static operand that is no scalar.
    #[track_caller]
    pub fn map_with_static_operands(&self, operands: &[Op], computation: &Module, static_operands: &[Op]) -> Op {
        let at = Location::caller();
        let all = static_operands.iter().try_fold(operands.to_vec(), |mut all, &o| {
            let first = match operands.first() {
                Some(&first) => self.array_at(at, Opcode::Map, first)?,
                None => ArrayShape::new(ElementType::Pred, []),
            };
            let a = self.array_at(at, Opcode::Map, o)?;
            if a.rank() != 0 {
                let message = format!("expected a scalar as static operand of map, found {a:#}");
                return Err(self.reject(at, Opcode::Map, RuleError::new("operand.scalar", message)));
            }
            all.push(self.broadcast_in_dim_at(at, o, &first.dims, &[])?);
            Ok(all)
        });
        match all {
            Ok(all) => self.map(&all, computation),
            Err(failed) => self.finish(Err(failed)),
        }
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
            let back = self.neg_modulo_at(at, start_indices, &a)?;
            self.dynamic_slice_modulo_at(at, written, back, &a.dims)
        }))
    }

    fn dynamic_slice_modulo_at(&self, at: At, operand: Op, starts: Op, sizes: &[i64]) -> Step {
        let a = self.array_at(at, Opcode::DynamicSlice, operand)?;
        let starts = self.modulo_at(at, starts, &a)?;
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

    /// Each element of a vector of indices modulo the size of its dimension, never negative.
    fn modulo_at(&self, at: At, starts: Op, a: &ArrayShape) -> Step {
        let sizes = self.sizes_at(at, starts, a)?;
        let rest = self.rem(starts, sizes);
        if self.array_at(at, Opcode::DynamicSlice, starts)?.ty.is_unsigned_integer() {
            return Ok(rest);
        }
        Ok(self.rem(self.add(rest, sizes), sizes))
    }

    fn neg_modulo_at(&self, at: At, starts: Op, a: &ArrayShape) -> Step {
        let sizes = self.sizes_at(at, starts, a)?;
        Ok(self.sub(sizes, self.modulo_at(at, starts, a)?))
    }

    /// The sizes of an array as a vector of the type of `starts`.
    fn sizes_at(&self, at: At, starts: Op, a: &ArrayShape) -> Step {
        let vector = self.array_at(at, Opcode::DynamicSlice, starts)?;
        if !vector.ty.is_integer() || vector.dims != [a.rank() as i64] {
            let message = format!("expected a vector of {} integers as start indices, found {vector:#}", a.rank());
            return Err(self.reject(at, Opcode::DynamicSlice, RuleError::new("dynamic-slice.indices", message)));
        }
        let mut sizes = ArrayLiteral::zeros(&vector);
        a.dims.iter().enumerate().for_each(|(i, &n)| sizes.set(i, Scalar::Int(n.max(1))));
        Ok(self.constant_literal(sizes))
    }
}
