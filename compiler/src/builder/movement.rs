//! Operations that move elements without looking at them.

use super::{At, Builder, Op, Step};
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode, PaddingDimension, SliceRange};
use crate::shape::RuleError;
use brolga_runtime::{ArrayShape, ElementType, Shape};
use std::panic::Location;

fn dimension_list(list: &[i64]) -> Attrs {
    Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(list.to_vec()))
}

impl Builder {
    /// `copy(operand)`: the operand, in memory of its own.
    #[track_caller]
    pub fn copy(&self, operand: Op) -> Op {
        self.op(Opcode::Copy, &[operand], Attrs::new(), None)
    }

    /// `bitcast_convert_type(operand, new_element_type)`: the same bits as another type. To a narrower type a last
    /// dimension is added, to a wider one the last is dropped. Section «BitcastConvertType».
    #[track_caller]
    pub fn bitcast_convert_type(&self, operand: Op, new_element_type: ElementType) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::BitcastConvert, operand).and_then(|a| {
            let (old, new) = (a.ty.bits(), new_element_type.bits());
            let mut shape = a.with_type(new_element_type);
            // A wrong last dimension stays wrong; the rule says what it should be.
            if old > new {
                shape.dims.push(i64::from(old / new));
                shape.dynamic.push(false);
            } else if new > old {
                shape.dims.pop();
                shape.dynamic.pop();
            }
            self.add_at(at, Opcode::BitcastConvert, &[operand], Attrs::new(), Some(shape.into()))
        }))
    }

    /// `broadcast(operand, broadcast_sizes)`: copies of the operand along new outer dimensions. Section «Broadcast».
    #[track_caller]
    pub fn broadcast(&self, operand: Op, broadcast_sizes: &[i64]) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::Broadcast, operand).and_then(|a| {
            let rank = broadcast_sizes.len();
            let dims: Vec<i64> = broadcast_sizes.iter().chain(&a.dims).copied().collect();
            let dynamic = std::iter::repeat_n(false, rank).chain(a.dynamic.iter().copied()).collect();
            let shape = ArrayShape { ty: a.ty, dims, dynamic, layout: None };
            let numbers: Vec<i64> = (rank..rank + a.rank()).map(|d| d as i64).collect();
            self.add_at(at, Opcode::Broadcast, &[operand], dimension_list(&numbers), Some(shape.into()))
        }))
    }

    /// `broadcast_in_dim(operand, out_dim_size, broadcast_dimensions)`: the operand laid along the dimensions
    /// `broadcast_dimensions` of an array of sizes `out_dim_size`; sizes of one stretch. Section «BroadcastInDim».
    #[track_caller]
    pub fn broadcast_in_dim(&self, operand: Op, out_dim_size: &[i64], broadcast_dimensions: &[i64]) -> Op {
        self.finish(self.broadcast_in_dim_at(Location::caller(), operand, out_dim_size, broadcast_dimensions))
    }

    pub(super) fn broadcast_in_dim_at(&self, at: At, operand: Op, sizes: &[i64], numbers: &[i64]) -> Step {
        let a = self.array_at(at, Opcode::Broadcast, operand)?;
        let mut op = operand;
        let mut from = a.clone();
        let mut numbers = numbers.to_vec();
        let stretches = |i: usize| {
            let to = usize::try_from(numbers[i]).ok().and_then(|d| sizes.get(d));
            a.dims[i] == 1 && to.is_some_and(|&n| n != 1)
        };
        if numbers.len() == a.rank() {
            let kept: Vec<usize> = (0..a.rank()).filter(|&i| !stretches(i)).collect();
            if kept.len() < a.rank() {
                from.dims = kept.iter().map(|&i| a.dims[i]).collect();
                from.dynamic = kept.iter().map(|&i| a.dynamic[i]).collect();
                numbers = kept.iter().map(|&i| numbers[i]).collect();
                op = self.add_at(at, Opcode::Reshape, &[op], Attrs::new(), Some(from.clone().into()))?;
            }
        }
        let mut shape = ArrayShape::new(a.ty, sizes);
        for (&d, &dynamic) in numbers.iter().zip(&from.dynamic) {
            if let Some(flag) = usize::try_from(d).ok().and_then(|d| shape.dynamic.get_mut(d)) {
                *flag |= dynamic;
            }
        }
        self.add_at(at, Opcode::Broadcast, &[op], dimension_list(&numbers), Some(shape.into()))
    }

    /// `reshape(operand, new_sizes)`: the same elements, in row-major order, under other dimensions. Errors: another
    /// number of elements. Section «Reshape».
    #[track_caller]
    pub fn reshape(&self, operand: Op, new_sizes: &[i64]) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::Reshape, operand).and_then(|a| {
            let mut shape = ArrayShape::new(a.ty, new_sizes);
            if shape.dims == a.dims {
                shape.dynamic = a.dynamic;
            }
            self.add_at(at, Opcode::Reshape, &[operand], Attrs::new(), Some(shape.into()))
        }))
    }

    /// `reshape_in_order(operand, dimensions, new_sizes)`: as [`Builder::reshape`], after the dimensions were put in the
    /// order `dimensions`. Section «Reshape», second form.
    #[track_caller]
    pub fn reshape_in_order(&self, operand: Op, dimensions: &[i64], new_sizes: &[i64]) -> Op {
        let ordered = self.transpose(operand, dimensions);
        self.reshape(ordered, new_sizes)
    }

    /// `collapse(operand, dimensions)`: the consecutive `dimensions` as one. Section «Collapse».
    #[track_caller]
    pub fn collapse(&self, operand: Op, dimensions: &[i64]) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::Reshape, operand).and_then(|a| {
            let consecutive = dimensions.windows(2).all(|w| w[0].checked_add(1) == Some(w[1]));
            let start = dimensions.first().copied().and_then(|d| usize::try_from(d).ok());
            let (Some(start), true) = (start, consecutive) else {
                let message = format!("expected consecutive dimensions to collapse, found {dimensions:?}");
                return Err(self.reject_plain(at, RuleError::new("collapse.dimensions", message)));
            };
            let end = start.saturating_add(dimensions.len());
            if end > a.rank() {
                let message = format!("expected dimensions of {a:#} to collapse, found {dimensions:?}");
                return Err(self.reject_plain(at, RuleError::new("collapse.dimensions", message)));
            }
            let size = a.dims[start..end].iter().try_fold(1i64, |n, &d| n.checked_mul(d)).unwrap_or(-1);
            let dims: Vec<i64> = a.dims[..start].iter().copied().chain([size]).chain(a.dims[end..].to_vec()).collect();
            let shape = Shape::array(a.ty, dims);
            self.add_at(at, Opcode::Reshape, &[operand], Attrs::new(), Some(shape))
        }))
    }

    /// `transpose(operand, permutation)`: dimension `i` of the result is dimension `permutation[i]` of the operand.
    /// Section «Transpose».
    #[track_caller]
    pub fn transpose(&self, operand: Op, permutation: &[i64]) -> Op {
        self.op(Opcode::Transpose, &[operand], dimension_list(permutation), None)
    }

    /// `rev(operand, dimensions)`: back to front along `dimensions`. Section «Rev (reverse)».
    #[track_caller]
    pub fn rev(&self, operand: Op, dimensions: &[i64]) -> Op {
        self.op(Opcode::Reverse, &[operand], dimension_list(dimensions), None)
    }

    /// `slice(operand, start_indices, limit_indices, strides)`: every `strides`-th element from `start_indices` up to
    /// `limit_indices`, which is not included. Errors: lists of other lengths than the rank, bounds outside the operand.
    /// Section «Slice».
    #[track_caller]
    pub fn slice(&self, operand: Op, start_indices: &[i64], limit_indices: &[i64], strides: &[i64]) -> Op {
        let at = Location::caller();
        if start_indices.len() != limit_indices.len() || start_indices.len() != strides.len() {
            let message = format!(
                "expected as many starts, limits and strides, found {}, {} and {}",
                start_indices.len(),
                limit_indices.len(),
                strides.len()
            );
            return self.finish(Err(self.reject(at, Opcode::Slice, RuleError::new("slice.rank", message))));
        }
        let ranges = start_indices.iter().zip(limit_indices).zip(strides);
        let ranges = ranges.map(|((&start, &limit), &stride)| SliceRange { start, limit, stride }).collect();
        let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
        self.finish(self.add_at(at, Opcode::Slice, &[operand], attrs, None))
    }

    /// `slice_in_dim(operand, start_index, limit_index, stride, dimension)`: a slice of one dimension, the others whole.
    #[track_caller]
    pub fn slice_in_dim(&self, operand: Op, start_index: i64, limit_index: i64, stride: i64, dimension: i64) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::Slice, operand).and_then(|a| {
            let mut ranges: Vec<SliceRange> =
                a.dims.iter().map(|&limit| SliceRange { start: 0, limit, stride: 1 }).collect();
            let Some(range) = usize::try_from(dimension).ok().and_then(|d| ranges.get_mut(d)) else {
                let message = format!("expected a dimension of {a:#}, found {dimension}");
                return Err(self.reject(at, Opcode::Slice, RuleError::new("slice.rank", message)));
            };
            *range = SliceRange { start: start_index, limit: limit_index, stride };
            let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
            self.add_at(at, Opcode::Slice, &[operand], attrs, None)
        }))
    }

    /// `concat_in_dim(operands, dimension)`: the operands one after another along `dimension`; their other dimensions
    /// are equal. Section «Concatenate».
    #[track_caller]
    pub fn concat_in_dim(&self, operands: &[Op], dimension: i64) -> Op {
        self.op(Opcode::Concatenate, operands, dimension_list(&[dimension]), None)
    }

    /// `pad(operand, padding_value, padding_config)`: `padding_value`, a scalar, before, after and between the elements;
    /// negative edge amounts cut. Section «Pad».
    #[track_caller]
    pub fn pad(&self, operand: Op, padding_value: Op, padding_config: &[PaddingDimension]) -> Op {
        let attrs = Attrs::new().with(AttrKey::Padding, AttrValue::Padding(padding_config.to_vec()));
        self.op(Opcode::Pad, &[operand, padding_value], attrs, None)
    }

    /// `iota(shape, iota_dimension)`: each element is its index along `iota_dimension`. Section «Iota».
    #[track_caller]
    pub fn iota(&self, shape: Shape, iota_dimension: i64) -> Op {
        let attrs = Attrs::new().with(AttrKey::IotaDimension, AttrValue::Int(iota_dimension));
        self.op(Opcode::Iota, &[], attrs, Some(shape))
    }

    /// `get_dimension_size(operand, dimension)`: the true size of a dimension, `s32[]`. Section «GetDimensionSize».
    #[track_caller]
    pub fn get_dimension_size(&self, operand: Op, dimension: i64) -> Op {
        self.op(Opcode::GetDimensionSize, &[operand], dimension_list(&[dimension]), None)
    }

    /// `set_dimension_size(operand, size, dimension)`: the operand with a dimension made dynamic, of true size `size`, an
    /// `s32[]`. Section «SetDimensionSize».
    #[track_caller]
    pub fn set_dimension_size(&self, operand: Op, size: Op, dimension: i64) -> Op {
        self.op(Opcode::SetDimensionSize, &[operand, size], dimension_list(&[dimension]), None)
    }

    /// `dynamic_reshape(operand, dim_sizes, new_size_bounds, dims_are_dynamic)`: a reshape whose true sizes, `s32[]` each,
    /// arrive at run time.
    #[track_caller]
    pub fn dynamic_reshape(
        &self,
        operand: Op,
        dim_sizes: &[Op],
        new_size_bounds: &[i64],
        dims_are_dynamic: &[bool],
    ) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::DynamicReshape, operand).and_then(|a| {
            let mut shape = ArrayShape::new(a.ty, new_size_bounds);
            shape.dynamic = dims_are_dynamic.to_vec();
            let operands: Vec<Op> = [operand].into_iter().chain(dim_sizes.iter().copied()).collect();
            self.add_at(at, Opcode::DynamicReshape, &operands, Attrs::new(), Some(shape.into()))
        }))
    }
}
