//! `gather` and `scatter`.
//!
//! Problem: each index vector names a box in the operand; its dimensions and those of the index array lie
//! interleaved in the result (of a gather) or the updates (of a scatter). Invariant: a [`Plan`] holds, for every index
//! vector, where its components lie, which box of the batching dimensions it belongs to, and where its box starts in
//! the result; and for every position in the box, its offset in the operand and in the result. Gathers clamp a box
//! into the operand. Scatters leave out a box of which any part falls outside, as XLA does, and apply the others in
//! row-major order.

use super::dense::{dimensions, offsets, pick, read_indices, remaining, result_shapes};
use super::{Context, array, invalid, new_array, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal};

/// Evaluates `gather` or `scatter`.
pub(super) fn op(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    match inst.opcode {
        Opcode::Gather => gather(inst, operands),
        _ => scatter(cx, inst, operands),
    }
}

/// The attributes of the two operations under one name each.
struct Keys {
    /// Dimensions of the result (updates) that run over the box.
    window: AttrKey,
    /// Dimensions of the operand, of box size 1, that the result lacks.
    dropped: AttrKey,
    /// Dimensions of the operand that run along with dimensions of the indices.
    batching: AttrKey,
    /// Those dimensions of the indices.
    indices_batching: AttrKey,
    /// Which dimension of the operand each index component counts.
    map: AttrKey,
}

const GATHER: Keys = Keys {
    window: AttrKey::OffsetDims,
    dropped: AttrKey::CollapsedSliceDims,
    batching: AttrKey::OperandBatchingDims,
    indices_batching: AttrKey::StartIndicesBatchingDims,
    map: AttrKey::StartIndexMap,
};

const SCATTER: Keys = Keys {
    window: AttrKey::UpdateWindowDims,
    dropped: AttrKey::InsertedWindowDims,
    batching: AttrKey::InputBatchingDims,
    indices_batching: AttrKey::ScatterIndicesBatchingDims,
    map: AttrKey::ScatterDimsToOperandDims,
};

struct Plan {
    /// All index components.
    indices: Vec<i64>,
    /// Where the first component of each index vector lies in `indices`.
    vectors: Vec<usize>,
    /// Distance between the components of an index vector.
    component_stride: usize,
    /// Which operand dimension each component counts.
    map: Vec<usize>,
    /// For each index vector, the operand offset that its batching dimensions contribute.
    batching: Vec<usize>,
    /// For each index vector, where its box starts in the result.
    boxes: Vec<usize>,
    /// The operand's dimensions that the box runs over.
    window_dims: Vec<usize>,
    /// The sizes of the box along them.
    window_sizes: Vec<i64>,
    /// For each position in the box, its offset in the operand from the box's start.
    window_operand: Vec<usize>,
    /// For each position in the box, its offset in the result from the box's start.
    window_result: Vec<usize>,
}

impl Plan {
    /// `result` are the dimensions of the result of a gather, or of the updates of a scatter.
    fn new(
        inst: &Instruction,
        keys: &Keys,
        operand: &ArrayLiteral,
        indices: &ArrayLiteral,
        result: &ArrayLiteral,
    ) -> Result<Plan> {
        let list = |key: AttrKey, rank: usize| dimensions(inst, inst.attrs.ints_or_empty(key), rank);
        let (rank, index_rank, result_rank) = (operand.dims().len(), indices.dims().len(), result.dims().len());
        let result_window = list(keys.window, result_rank)?;
        let dropped = list(keys.dropped, rank)?;
        let batching_dims = list(keys.batching, rank)?;
        let indices_batching = list(keys.indices_batching, index_rank)?;
        let map = list(keys.map, rank)?;
        let vector_dim = inst.attrs.int(AttrKey::IndexVectorDim).and_then(|d| usize::try_from(d).ok());
        let vector_dim = vector_dim
            .filter(|&d| d <= index_rank)
            .ok_or_else(|| invalid(inst, "index_vector_dim must be at most the rank of the indices"))?;

        let window_dims = remaining(rank, &[&dropped, &batching_dims]);
        let index_dims = remaining(index_rank, &[&[vector_dim]]);
        let result_batch = remaining(result_rank, &[&result_window]);
        let operand_strides = operand.strides();
        let (index_strides, result_strides) = (indices.strides(), result.strides());
        let batch_sizes = pick(indices.dims(), &index_dims);
        // One entry for each dimension of the indices: what a step along it adds to the operand offset.
        let mut batching_strides = vec![0i64; index_rank];
        for (&o, &i) in batching_dims.iter().zip(&indices_batching) {
            batching_strides[i] = operand_strides[o];
            if operand.dims()[o] != indices.dims()[i] {
                return Err(invalid(inst, "batching dimensions of operand and indices must agree"));
            }
        }
        let components = indices.dims().get(vector_dim).copied().unwrap_or(1);
        let good = batch_sizes == pick(result.dims(), &result_batch)
            && result_window.len() == window_dims.len()
            && batching_dims.len() == indices_batching.len()
            && components == map.len() as i64
            && map.iter().all(|d| !batching_dims.contains(d));
        if !good {
            return Err(invalid(inst, "operand, indices and result must fit each other"));
        }
        let window_sizes = pick(result.dims(), &result_window);
        Ok(Plan {
            indices: read_indices(indices),
            vectors: offsets(&batch_sizes, &pick(&index_strides, &index_dims)),
            component_stride: index_strides.get(vector_dim).map_or(0, |&s| s as usize),
            map,
            batching: offsets(&batch_sizes, &pick(&batching_strides, &index_dims)),
            boxes: offsets(&batch_sizes, &pick(&result_strides, &result_batch)),
            window_operand: offsets(&window_sizes, &pick(&operand_strides, &window_dims)),
            window_result: offsets(&window_sizes, &pick(&result_strides, &result_window)),
            window_dims,
            window_sizes,
        })
    }

    /// For index vector `v`, the start along each dimension of an operand of the given rank, as indexed.
    fn start(&self, v: usize, rank: usize) -> Vec<i64> {
        let mut start = vec![0i64; rank];
        for (k, &d) in self.map.iter().enumerate() {
            start[d] = self.indices[self.vectors[v] + k * self.component_stride];
        }
        start
    }
}

fn gather(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let operand = array(inst, operands, 0)?;
    let indices = array(inst, operands, 1)?;
    let mut out = new_array(inst, result_shape(inst)?)?;
    if out.elements() == 0 || operand.elements() == 0 {
        return Ok(out.into());
    }
    let plan = Plan::new(inst, &GATHER, operand, indices, &out)?;
    let sizes = inst.attrs.ints_or_empty(AttrKey::SliceSizes);
    let dims = operand.dims();
    let fits = sizes.len() == dims.len()
        && sizes.iter().zip(dims).all(|(&size, &dim)| 0 <= size && size <= dim)
        && pick(sizes, &plan.window_dims) == plan.window_sizes;
    if !fits {
        return Err(invalid(inst, format!("slice_sizes {sizes:?} do not fit {}", operand.shape())));
    }
    // A slice without elements of which the result lacks the empty dimension: the result has places that nothing fills.
    if sizes.contains(&0) {
        return Ok(out.into());
    }
    let strides = operand.strides();
    let width = operand.ty().byte_size();
    let (source, target) = (operand.bytes(), out.bytes_mut());
    for (v, &box_start) in plan.boxes.iter().enumerate() {
        let start = plan.start(v, dims.len());
        let clamped = start.iter().zip(dims).zip(sizes).map(|((&s, &dim), &size)| s.clamp(0, dim - size));
        let base: i64 = clamped.zip(&strides).map(|(s, &stride)| s * stride).sum();
        let base = base as usize + plan.batching[v];
        for (&from, &to) in plan.window_operand.iter().zip(&plan.window_result) {
            let (from, to) = ((base + from) * width, (box_start + to) * width);
            target[to..to + width].copy_from_slice(&source[from..from + width]);
        }
    }
    Ok(out.into())
}

fn scatter(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let count = operands.len() / 2;
    let arrays = (0..operands.len()).map(|k| array(inst, operands, k)).collect::<Result<Vec<_>>>()?;
    if arrays.len() != 2 * count + 1 || count == 0 {
        return Err(invalid(inst, "scatter takes N operands, the indices, and N updates"));
    }
    let (indices, updates) = (arrays[count], &arrays[count + 1..]);
    let same = |list: &[&ArrayLiteral]| list.iter().all(|a| a.dims() == list[0].dims());
    if !same(&arrays[..count]) || !same(updates) {
        return Err(invalid(inst, "operands, and updates, must have the same dimensions"));
    }
    if count > 1 {
        result_shapes(inst, count)?;
    }
    // A computation may accumulate in a wider type, which is then the result's.
    let results = inst.shape.leaves();
    let mut out = Vec::with_capacity(count);
    for (&a, result) in arrays[..count].iter().zip(&results) {
        match result.as_array() {
            Some(shape) if shape.ty != a.ty() => {
                let mut wide = new_array(inst, &ArrayShape::new(shape.ty, a.dims()))?;
                (0..a.elements()).for_each(|i| wide.set(i, a.get(i)));
                out.push(wide);
            }
            _ => out.push(a.clone()),
        }
    }
    if updates[0].elements() > 0 && out[0].elements() > 0 {
        apply(cx, inst, &mut out, indices, updates)?;
    }
    if count == 1 && inst.shape.as_array().is_some() {
        return Ok(out.swap_remove(0).into());
    }
    Ok(Literal::Tuple(out.into_iter().map(Literal::Array).collect()))
}

/// Applies the updates to the operands in `out`, in place.
fn apply(
    cx: &Context<'_>,
    inst: &Instruction,
    out: &mut [ArrayLiteral],
    indices: &ArrayLiteral,
    updates: &[&ArrayLiteral],
) -> Result<()> {
    let count = out.len();
    let plan = Plan::new(inst, &SCATTER, &out[0], indices, updates[0])?;
    let computation = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| invalid(inst, "to_apply is missing"))?;
    let region = cx.region(computation);
    let dims = out[0].dims().to_vec();
    let strides = out[0].strides();
    let sizes = {
        let mut sizes = vec![1i64; dims.len()];
        plan.window_dims.iter().zip(&plan.window_sizes).for_each(|(&d, &size)| sizes[d] = size);
        sizes
    };
    let mut arguments = Vec::with_capacity(2 * count);
    let mut results = Vec::with_capacity(count);
    for (v, &box_start) in plan.boxes.iter().enumerate() {
        let start = plan.start(v, dims.len());
        let inside = start.iter().zip(&dims).zip(&sizes).all(|((&s, &dim), &size)| 0 <= s && s <= dim - size);
        if !inside {
            continue;
        }
        let base = start.iter().zip(&strides).map(|(s, stride)| s * stride).sum::<i64>() as usize + plan.batching[v];
        for (&in_operand, &in_update) in plan.window_operand.iter().zip(&plan.window_result) {
            let at = base + in_operand;
            arguments.clear();
            arguments.extend(out.iter().map(|a| a.get(at)));
            arguments.extend(updates.iter().map(|u| u.get(box_start + in_update)));
            region.eval_into(&arguments, &mut results)?;
            if results.len() != count {
                return Err(invalid(inst, format!("the update computation must yield {count} values")));
            }
            out.iter_mut().zip(&results).for_each(|(a, &value)| a.set(at, value));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::interp::dense::testing::check;

    /// A [16, 11] operand whose element (x, y) is 100 x + y.
    const GRID: &str = "i = s32[16,11] iota(), iota_dimension=0\n j = s32[16,11] iota(), iota_dimension=1
        h = s32[] constant(100)\n hs = s32[16,11] broadcast(h), dimensions={}\n t = s32[16,11] multiply(i, hs)
        a = s32[16,11] add(t, j)\n";

    #[test]
    fn gather_of_five_slices_informal_example() {
        let body = format!(
            "{GRID} g = s64[5,2] constant({{{{0,0}},{{8,5}},{{3,2}},{{-1,4}},{{100,100}}}})
             s = s32[5,8,6] gather(a, g), offset_dims={{1,2}}, collapsed_slice_dims={{}}, start_index_map={{0,1}},
               index_vector_dim=1, slice_sizes={{8,6}}
             ROOT r = s32[5,1,2] slice(s), slice={{[0:5], [2:3], [1:3]}}"
        );
        check("", &body, "{{{201,202}},{{1006,1007}},{{503,504}},{{205,206}},{{1006,1007}}}");
    }

    #[test]
    fn gather_with_indices_of_any_rank() {
        let body = format!(
            "{GRID} g = u8[2,1,2] constant({{{{{{1,2}}}},{{{{3,4}}}}}})
             ROOT s = s32[2,1,2,1] gather(a, g), offset_dims={{2,3}}, collapsed_slice_dims={{}},
               start_index_map={{0,1}}, index_vector_dim=2, slice_sizes={{2,1}}"
        );
        check("", &body, "{{{{102},{202}}},{{{304},{404}}}}");
    }

    #[test]
    fn gather_of_slices_without_elements() {
        for (list, sizes) in [
            ("collapsed_slice_dims={1}, start_index_map={1}", "2,0"),
            ("collapsed_slice_dims={1}, start_index_map={0}", "2,0"),
        ] {
            let body = format!(
                "a = s32[2,3] constant({{{{1,2,3}},{{4,5,6}}}})\n g = s32[2,1] constant({{{{2}},{{0}}}})
                 ROOT s = s32[2,2] gather(a, g), offset_dims={{1}}, {list}, index_vector_dim=1, slice_sizes={{{sizes}}}"
            );
            check("", &body, "{{0,0},{0,0}}");
        }
        check(
            "",
            "a = s32[2,3] constant({{1,2,3},{4,5,6}})\n g = s32[2,2,1] constant({{{2},{0}},{{1},{1}}})
             ROOT s = s32[2,2] gather(a, g), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
               operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={0,1}",
            "{{0,0},{0,0}}",
        );
    }

    #[test]
    fn gather_nd_example() {
        let body = format!(
            "{GRID} g = s32[2,1,1] constant({{{{{{15}}}},{{{{0}}}}}})
             s = s32[2,1,11] gather(a, g), offset_dims={{2}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
               index_vector_dim=2, slice_sizes={{1,11}}
             ROOT r = s32[2,1,2] slice(s), slice={{[0:2], [0:1], [9:11]}}"
        );
        check("", &body, "{{{1509,1510}},{{9,10}}}");
    }

    #[test]
    fn gather_with_index_vector_dim_past_the_rank_and_batching() {
        check(
            "",
            "a = s32[2,3] constant({{1,2,3},{4,5,6}})\n g = s32[2] constant({2,0})
             ROOT s = s32[2,2] gather(a, g), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1},
               index_vector_dim=1, slice_sizes={2,1}",
            "{{3,1},{6,4}}",
        );
        check(
            "",
            "a = s32[2,3] constant({{1,2,3},{4,5,6}})\n g = s32[2,2,1] constant({{{2},{0}},{{1},{1}}})
             ROOT s = s32[2,2] gather(a, g), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
               operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}",
            "{{3,1},{5,5}}",
        );
    }

    const COMBINERS: &str =
        "minus { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] subtract(a, b)\n }
        both { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)
          s = s32[] add(a, c)\n ROOT r = (s32[], s32[]) tuple(s, d)\n }";

    #[test]
    fn scatter_summary_applies_every_valid_update() {
        // The current value comes first; index 7 is out of bounds; two updates meet at 1.
        check(
            COMBINERS,
            "a = s32[3,2] constant({{10,20},{30,40},{50,60}})\n g = s32[4] constant({1,7,1,-1})
             u = s32[4,2] constant({{1,2},{9,9},{3,4},{9,9}})
             ROOT r = s32[3,2] scatter(a, g, u), update_window_dims={1}, inserted_window_dims={0},
               scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=minus",
            "{{10,20},{26,34},{50,60}}",
        );
    }

    #[test]
    fn scatter_of_several_operands() {
        check(
            COMBINERS,
            "a = s32[3] constant({1,2,3})\n b = s32[3] constant({4,5,6})\n g = s32[2,1] constant({{2},{0}})
             u = s32[2] constant({10,20})\n v = s32[2] constant({70,80})
             ROOT r = (s32[3], s32[3]) scatter(a, b, g, u, v), update_window_dims={}, inserted_window_dims={0},
               scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both",
            "({21,2,13},{80,5,70})",
        );
    }

    #[test]
    fn scatter_leaves_out_a_box_that_reaches_outside() {
        check(
            COMBINERS,
            "a = s32[4] constant({10,20,30,40})\n g = s32[3,1] constant({{3},{1},{-1}})
             u = s32[3,2] constant({{1,1},{2,3},{4,4}})
             ROOT r = s32[4] scatter(a, g, u), update_window_dims={1}, inserted_window_dims={},
               scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=minus",
            "{10,18,27,40}",
        );
    }
}
