//! Gather, scatter and the dynamic slices: operations that take indices as operands.

use super::reduction::{Reducer, check_reducer};
use super::rule::{Call, Rule, Show, array, common_type, distinct_dims, ensure, fail};
use crate::hlo::{AttrKey, Computation, Instruction, Opcode};
use brolga_runtime::{ArrayShape, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::DynamicSlice => dynamic_slice(call),
        Opcode::DynamicUpdateSlice => dynamic_update_slice(call),
        Opcode::Gather => gather(call),
        _ => scatter(call),
    }
}

/// Start indices from operand `first` on: a scalar a dimension, or one vector of them all.
fn start_indices(call: &Call<'_>, first: usize, rank: usize) -> Rule<()> {
    let count = call.operands.len().saturating_sub(first);
    if count == 1 && call.array(first)?.rank() == 1 {
        let vector = call.array(first)?;
        ensure!(
            vector.ty.is_integer() && vector.dims[0] == rank as i64,
            "dynamic-slice.indices",
            "expected a vector of {rank} integer start indices, found {}",
            Show(vector)
        );
        return Ok(());
    }
    ensure!(count == rank, "dynamic-slice.indices", "expected {rank} start indices, found {count}");
    for i in first..call.operands.len() {
        let index = call.scalar(i)?;
        let ty = call.scalar(first)?.ty;
        ensure!(
            index.ty.is_integer() && index.ty == ty,
            "dynamic-slice.index-type",
            "expected start indices of one integer type, found {ty} and {}",
            index.ty
        );
    }
    Ok(())
}

fn dynamic_slice(call: &Call<'_>) -> Rule<Shape> {
    let a = call.array(0)?;
    start_indices(call, 1, a.rank())?;
    let sizes = call.attrs.ints_or_empty(AttrKey::DynamicSliceSizes);
    ensure!(
        sizes.len() == a.rank(),
        "dynamic-slice.sizes",
        "expected {} slice sizes for {}, found {}",
        a.rank(),
        Show(a),
        sizes.len()
    );
    for (d, (&size, &whole)) in sizes.iter().zip(&a.dims).enumerate() {
        ensure!(
            (0..=whole).contains(&size),
            "dynamic-slice.sizes",
            "expected a slice size from 0 to {whole} in dimension {d}, found {size}"
        );
    }
    // A whole dimension keeps its dynamic mark, a part of one is static.
    let dynamic = (0..a.rank()).map(|d| a.dynamic[d] && sizes[d] == a.dims[d]).collect();
    Ok(array(a.ty, sizes.to_vec(), dynamic).into())
}

fn dynamic_update_slice(call: &Call<'_>) -> Rule<Shape> {
    let (a, update) = (call.array(0)?, call.array(1)?);
    let ty = common_type(call, &[a, update])?;
    ensure!(
        update.rank() == a.rank() && update.dims.iter().zip(&a.dims).all(|(u, n)| u <= n),
        "dynamic-update-slice.sizes",
        "expected an update that fits {}, found {}",
        Show(a),
        Show(update)
    );
    start_indices(call, 2, a.rank())?;
    Ok(a.with_type(ty).into())
}

/// Dimension numbers that must ascend.
fn ascending(call: &Call<'_>, key: AttrKey, rank: usize, id: &'static str) -> Rule<Vec<usize>> {
    let dims = call.dims(key, rank, id)?;
    ensure!(dims.is_sorted(), id, "expected ascending dimension numbers in {}, found {dims:?}", key.name());
    Ok(dims)
}

/// What gather and scatter have in common: how an index vector names a place of the operand.
struct IndexMap {
    /// The indices' dimensions but the one of index vectors.
    batch: Vec<usize>,
}

struct IndexKeys {
    map: AttrKey,
    operand_batching: AttrKey,
    indices_batching: AttrKey,
    id: &'static str,
}

fn index_map(
    call: &Call<'_>,
    operand: &ArrayShape,
    indices: &ArrayShape,
    removed: &[usize],
    keys: &IndexKeys,
) -> Rule<IndexMap> {
    let id = keys.id;
    ensure!(indices.ty.is_integer(), id, "expected integer indices, found {}", Show(indices));
    let rank = indices.rank();
    let Some(vector) =
        usize::try_from(call.attrs.int(AttrKey::IndexVectorDim).unwrap_or(-1)).ok().filter(|&d| d <= rank)
    else {
        fail!(
            id,
            "expected index_vector_dim from 0 to {rank}, found {}",
            call.attrs.int(AttrKey::IndexVectorDim).unwrap_or(-1)
        );
    };
    let width = indices.dims.get(vector).copied().unwrap_or(1);
    let map = call.dims(keys.map, operand.rank(), id)?;
    ensure!(
        map.len() as i64 == width,
        id,
        "expected {width} dimensions in {}, as many as an index vector has, found {}",
        keys.map.name(),
        map.len()
    );
    let batching = ascending(call, keys.operand_batching, operand.rank(), id)?;
    let indices_batching = call.dims(keys.indices_batching, rank, id)?;
    ensure!(
        batching.len() == indices_batching.len(),
        id,
        "expected as many dimensions in {} as in {}, found {} and {}",
        keys.operand_batching.name(),
        keys.indices_batching.name(),
        batching.len(),
        indices_batching.len()
    );
    for (&o, &i) in batching.iter().zip(&indices_batching) {
        ensure!(i != vector, id, "{} must not name the index vector dimension {vector}", keys.indices_batching.name());
        // XLA reads a gather whose batches differ, and compiles none: see `check_batches`.
        ensure!(
            call.opcode == Opcode::Gather || operand.dims[o] == indices.dims[i],
            id,
            "expected batching dimensions of equal size, found {} and {}",
            operand.dims[o],
            indices.dims[i]
        );
        ensure!(
            !map.contains(&o) && !removed.contains(&o),
            id,
            "dimension {o} of {} is named in another list too",
            keys.operand_batching.name()
        );
    }
    Ok(IndexMap { batch: (0..rank).filter(|&d| d != vector).collect() })
}

/// What a gather that is read needs besides to be compiled or run: batching dimensions of equal size on both sides.
pub(super) fn check_batches(computation: &Computation, gather: &Instruction) -> Rule<()> {
    let array = |k: usize| computation.instructions.get(*gather.operands.get(k)?)?.shape.as_array();
    let (Some(operand), Some(indices)) = (array(0), array(1)) else { return Ok(()) };
    let numbers = |key| gather.attrs.dimension_numbers(key);
    let pairs = numbers(AttrKey::OperandBatchingDims).into_iter().zip(numbers(AttrKey::StartIndicesBatchingDims));
    for (o, i) in pairs {
        let (ours, theirs) = (operand.dims.get(o), indices.dims.get(i));
        ensure!(
            ours == theirs,
            "gather.batch-sizes",
            "expected batching dimensions {o} and {i} of equal size, found {} and {}",
            Show(operand),
            Show(indices)
        );
    }
    Ok(())
}

fn gather(call: &Call<'_>) -> Rule<Shape> {
    let (operand, indices) = (call.array(0)?, call.array(1)?);
    let rank = operand.rank();
    let collapsed = ascending(call, AttrKey::CollapsedSliceDims, rank, "gather.collapsed-slice-dims")?;
    let keys = IndexKeys {
        map: AttrKey::StartIndexMap,
        operand_batching: AttrKey::OperandBatchingDims,
        indices_batching: AttrKey::StartIndicesBatchingDims,
        id: "gather.indices",
    };
    let map = index_map(call, operand, indices, &collapsed, &keys)?;
    let batching = call.dims(AttrKey::OperandBatchingDims, rank, "gather.indices")?;
    let sizes = call.attrs.ints_or_empty(AttrKey::SliceSizes);
    ensure!(
        sizes.len() == rank,
        "gather.slice-sizes",
        "expected {rank} slice sizes for {}, found {}",
        Show(operand),
        sizes.len()
    );
    for (d, (&size, &whole)) in sizes.iter().zip(&operand.dims).enumerate() {
        ensure!(
            (0..=whole).contains(&size),
            "gather.slice-sizes",
            "expected a slice size from 0 to {whole} in dimension {d}, found {size}"
        );
        ensure!(
            size <= 1 || !(collapsed.contains(&d) || batching.contains(&d)),
            "gather.slice-sizes",
            "expected a slice size of at most 1 in the collapsed or batching dimension {d}, found {size}"
        );
    }
    let window: Vec<usize> = (0..rank).filter(|d| !collapsed.contains(d) && !batching.contains(d)).collect();
    let out_rank = map.batch.len().saturating_add(call.attrs.ints_or_empty(AttrKey::OffsetDims).len());
    let offsets = ascending(call, AttrKey::OffsetDims, out_rank, "gather.offset-dims")?;
    ensure!(
        offsets.len() == window.len(),
        "gather.offset-dims",
        "expected {} offset dimensions, one for each slice dimension kept, found {}",
        window.len(),
        offsets.len()
    );
    let (mut dims, mut dynamic) = (Vec::with_capacity(out_rank), Vec::with_capacity(out_rank));
    let (mut window, mut batch) = (window.into_iter(), map.batch.into_iter());
    for d in 0..out_rank {
        if offsets.contains(&d) {
            let Some(w) = window.next() else { continue };
            dims.push(sizes[w]);
            dynamic.push(operand.dynamic[w] && sizes[w] == operand.dims[w]);
        } else {
            let Some(b) = batch.next() else { continue };
            dims.push(indices.dims[b]);
            dynamic.push(indices.dynamic[b]);
        }
    }
    Ok(array(operand.ty, dims, dynamic).into())
}

fn scatter(call: &Call<'_>) -> Rule<Shape> {
    ensure!(
        call.operands.len() % 2 == 1,
        "scatter.operands",
        "expected operands, indices and as many updates, found {} values",
        call.operands.len()
    );
    let n = call.operands.len() / 2;
    let indices = call.array(n)?;
    let first = call.array(0)?;
    let rank = first.rank();
    let inserted = ascending(call, AttrKey::InsertedWindowDims, rank, "scatter.inserted-window-dims")?;
    let keys = IndexKeys {
        map: AttrKey::ScatterDimsToOperandDims,
        operand_batching: AttrKey::InputBatchingDims,
        indices_batching: AttrKey::ScatterIndicesBatchingDims,
        id: "scatter.indices",
    };
    let map = index_map(call, first, indices, &inserted, &keys)?;
    let batching = call.dims(AttrKey::InputBatchingDims, rank, "scatter.indices")?;
    let window: Vec<usize> = (0..rank).filter(|d| !inserted.contains(d) && !batching.contains(d)).collect();
    let window_dims = call.attrs.ints_or_empty(AttrKey::UpdateWindowDims);
    ensure!(
        window_dims.len() == window.len(),
        "scatter.update-window-dims",
        "expected {} update window dimensions, one for each operand dimension kept, found {}",
        window.len(),
        window_dims.len()
    );
    let update_rank = map.batch.len() + window_dims.len();
    let window_dims = distinct_dims(window_dims, update_rank, "update_window_dims", "scatter.update-window-dims")?;
    ensure!(
        window_dims.is_sorted(),
        "scatter.update-window-dims",
        "expected ascending update window dimensions, found {window_dims:?}"
    );
    let mut results = Vec::with_capacity(n);
    for i in 0..n {
        let (operand, update) = (call.array(i)?, call.array(n + 1 + i)?);
        ensure!(
            operand.same_dims(first),
            "scatter.operands",
            "expected operands of the same dimensions, found {} and {}",
            Show(first),
            Show(operand)
        );
        ensure!(
            call.mixes(operand.ty, update.ty),
            "scatter.update-type",
            "expected updates of type {}, found {}",
            operand.ty,
            Show(update)
        );
        check_updates(operand, indices, update, &window, &window_dims, &map.batch)?;
        results.push(Shape::Array(operand.with_type(operand.ty)));
    }
    let types: Vec<_> = (0..n).map(|i| call.array(i)).collect::<Rule<Vec<_>>>()?.iter().map(|a| a.ty).collect();
    let reducer = Reducer { key: AttrKey::ToApply, accumulators: &types, inputs: &types };
    let accumulated = check_reducer(call, &reducer)?;
    // A combiner may accumulate in a wider type, which is then the result's.
    for (result, ty) in results.iter_mut().zip(accumulated) {
        if let Shape::Array(a) = result {
            a.ty = ty;
        }
    }
    call.as_called(AttrKey::ToApply, results)
}

fn check_updates(
    operand: &ArrayShape,
    indices: &ArrayShape,
    update: &ArrayShape,
    window: &[usize],
    window_dims: &[usize],
    batch: &[usize],
) -> Rule<()> {
    let rank = window_dims.len() + batch.len();
    ensure!(update.rank() == rank, "scatter.update-rank", "expected updates of rank {rank}, found {}", Show(update));
    for (&u, &w) in window_dims.iter().zip(window) {
        ensure!(
            update.dims[u] <= operand.dims[w],
            "scatter.update-sizes",
            "expected at most {} in window dimension {u} of the updates, found {}",
            operand.dims[w],
            update.dims[u]
        );
    }
    let scatter_dims = (0..rank).filter(|d| !window_dims.contains(d));
    for (u, &b) in scatter_dims.zip(batch) {
        ensure!(
            update.dims[u] == indices.dims[b],
            "scatter.update-sizes",
            "expected {} in dimension {u} of the updates, as the indices have, found {}",
            indices.dims[b],
            update.dims[u]
        );
    }
    Ok(())
}
