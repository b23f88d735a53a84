//! Gather, scatter and the dynamic slices.

use super::{Builder, GatherDimensions, Op, ScatterDimensions};
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode};

/// Sets the lists that are not empty, and those that the text must have.
fn lists<const N: usize>(lists: [(AttrKey, &[i64], bool); N]) -> Attrs {
    let mut attrs = Attrs::new();
    for (key, list, required) in lists {
        if required || !list.is_empty() {
            attrs.set(key, AttrValue::Ints(list.to_vec()));
        }
    }
    attrs
}

fn flag(attrs: &mut Attrs, key: AttrKey, value: bool) {
    if value {
        attrs.set(key, AttrValue::Bool(true));
    }
}

impl Builder {
    /// `dynamic_slice(operand, start_indices, size_indices)`: the part of sizes `size_indices` that starts at
    /// `start_indices`, a scalar each, moved inwards where it would not fit. Section «DynamicSlice».
    #[track_caller]
    pub fn dynamic_slice(&self, operand: Op, start_indices: &[Op], size_indices: &[i64]) -> Op {
        let operands: Vec<Op> = [operand].iter().chain(start_indices).copied().collect();
        let attrs = lists([(AttrKey::DynamicSliceSizes, size_indices, true)]);
        self.op(Opcode::DynamicSlice, &operands, attrs, None)
    }

    /// `dynamic_update_slice(operand, update, start_indices)`: the operand with the part that starts at `start_indices`
    /// replaced, moved inwards where it would not fit. Section «DynamicUpdateSlice».
    #[track_caller]
    pub fn dynamic_update_slice(&self, operand: Op, update: Op, start_indices: &[Op]) -> Op {
        let operands: Vec<Op> = [operand, update].iter().chain(start_indices).copied().collect();
        self.op(Opcode::DynamicUpdateSlice, &operands, Attrs::new(), None)
    }

    /// `gather(operand, start_indices, dimension_numbers, slice_sizes, indices_are_sorted)`: slices of `operand`, one for
    /// each index vector. The result has the batch dimensions of `start_indices` and, at `offset_dims`, the slices'.
    /// Section «Gather».
    #[track_caller]
    pub fn gather(
        &self,
        operand: Op,
        start_indices: Op,
        dimension_numbers: &GatherDimensions,
        slice_sizes: &[i64],
        indices_are_sorted: bool,
    ) -> Op {
        let n = dimension_numbers;
        let mut attrs = lists([
            (AttrKey::OffsetDims, &n.offset_dims, true),
            (AttrKey::CollapsedSliceDims, &n.collapsed_slice_dims, true),
            (AttrKey::StartIndexMap, &n.start_index_map, true),
            (AttrKey::OperandBatchingDims, &n.operand_batching_dims, false),
            (AttrKey::StartIndicesBatchingDims, &n.start_indices_batching_dims, false),
            (AttrKey::SliceSizes, slice_sizes, true),
        ]);
        attrs.set(AttrKey::IndexVectorDim, AttrValue::Int(n.index_vector_dim));
        flag(&mut attrs, AttrKey::IndicesAreSorted, indices_are_sorted);
        self.op(Opcode::Gather, &[operand, start_indices], attrs, None)
    }

    /// `scatter(operands, scatter_indices, updates, update_computation, dimension_numbers, indices_are_sorted,
    /// unique_indices)`: the operands with each window of the updates folded in at its index. `update_computation` takes
    /// the present values, then the updates, scalars, and yields the new values. The result is a tuple where there is
    /// more than one operand. Section «Scatter».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn scatter(
        &self,
        operands: &[Op],
        scatter_indices: Op,
        updates: &[Op],
        update_computation: &Module,
        dimension_numbers: &ScatterDimensions,
        indices_are_sorted: bool,
        unique_indices: bool,
    ) -> Op {
        let n = dimension_numbers;
        let mut attrs = lists([
            (AttrKey::UpdateWindowDims, &n.update_window_dims, true),
            (AttrKey::InsertedWindowDims, &n.inserted_window_dims, true),
            (AttrKey::ScatterDimsToOperandDims, &n.scatter_dims_to_operand_dims, true),
            (AttrKey::InputBatchingDims, &n.input_batching_dims, false),
            (AttrKey::ScatterIndicesBatchingDims, &n.scatter_indices_batching_dims, false),
        ]);
        attrs.set(AttrKey::IndexVectorDim, AttrValue::Int(n.index_vector_dim));
        flag(&mut attrs, AttrKey::IndicesAreSorted, indices_are_sorted);
        flag(&mut attrs, AttrKey::UniqueIndices, unique_indices);
        attrs.set(AttrKey::ToApply, AttrValue::Computation(self.embed(update_computation)));
        let all: Vec<Op> = operands.iter().chain([&scatter_indices]).chain(updates).copied().collect();
        self.op(Opcode::Scatter, &all, attrs, None)
    }
}
