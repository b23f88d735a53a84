//! Operations that take indices.
//!
//! Their indices are kept within the true sizes before the operation, at the bounds, keeps them within the bounds. All
//! index arithmetic is on `s64`, so that neither unsigned nor narrow indices wrap.

use super::draft::Draft;
use super::site::Site;
use super::value::{Size, Value};
use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId};
use brolga_runtime::ElementType;

const INDEX: ElementType = ElementType::S64;

/// Indices of any type as `s64`; unsigned ones past its range as its greatest.
fn wide(draft: &mut Draft, indices: InstructionId) -> Result<InstructionId> {
    let shape = draft.array(indices)?;
    let mut indices = indices;
    if shape.ty == ElementType::U64 {
        let most = draft.int(ElementType::U64, i64::MAX);
        let most = draft.broadcast(most, &shape.dims, None)?;
        indices = draft.minimum(indices, most);
    }
    draft.convert(indices, INDEX)
}

/// The starts from operand `first` on, one scalar a dimension: the older form is one vector.
fn starts(draft: &mut Draft, at: &Site<'_>, first: usize, rank: usize) -> Result<Vec<InstructionId>> {
    let given: Vec<InstructionId> = (first..at.operands.len()).map(|k| at.whole(draft, k)).collect::<Result<_>>()?;
    let mut out = Vec::with_capacity(rank);
    for d in 0..rank {
        let start = match given[..] {
            [vector] if draft.array(vector)?.rank() == 1 => draft.pick(vector, d)?,
            _ => given.get(d).copied().ok_or_else(|| draft.internal("a start is missing"))?,
        };
        out.push(wide(draft, start)?);
    }
    Ok(out)
}

/// `start` kept within `0 ..= room`, `room` at least 0.
fn within(draft: &mut Draft, start: InstructionId, room: InstructionId) -> InstructionId {
    let zero = draft.int(INDEX, 0);
    let room = draft.maximum(room, zero);
    let start = draft.maximum(start, zero);
    draft.minimum(start, room)
}

/// A size as an `s64` scalar.
fn size_or(draft: &mut Draft, size: Size, bound: i64) -> Result<InstructionId> {
    match size {
        Some(size) => draft.convert(size, INDEX),
        None => Ok(draft.int(INDEX, bound)),
    }
}

/// A slice as long as the bound is the whole dimension, of its true size.
pub(super) fn dynamic_slice(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (value, data) = (at.operand(draft, 0)?, at.data(draft, 0)?);
    let dims = draft.array(data)?.dims;
    let lengths = at.inst.attrs.ints_or_empty(AttrKey::DynamicSliceSizes).to_vec();
    let mut starts = starts(draft, at, 1, dims.len())?;
    let mut sizes = Vec::new();
    for ((d, start), &length) in starts.iter_mut().enumerate().zip(&lengths) {
        let size = value.size(d);
        if size.is_some() && length != dims[d] {
            let size = size_or(draft, size, dims[d])?;
            let room = draft.add_int(size, -length)?;
            *start = within(draft, *start, room);
        }
        sizes.push(if length == dims[d] { size } else { None });
    }
    let out = draft.dynamic_slice(data, &starts, &lengths)?;
    Ok(Value::new(out, sizes))
}

/// Along a dimension where the update is dynamic, its slices are moved to their places over the whole bound, and the
/// operand shows where there is none.
pub(super) fn dynamic_update_slice(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (value, data) = (at.operand(draft, 0)?, at.data(draft, 0)?);
    let (written, mut update) = (at.operand(draft, 1)?, at.data(draft, 1)?);
    let dims = draft.array(data)?.dims;
    let lengths = draft.array(update)?.dims;
    let mut starts = starts(draft, at, 2, dims.len())?;
    let mut broadcast: Vec<(usize, InstructionId, InstructionId)> = Vec::new();
    for (d, start) in starts.iter_mut().enumerate() {
        if value.size(d).is_none() && written.size(d).is_none() {
            continue;
        }
        let size = size_or(draft, value.size(d), dims[d])?;
        let length = size_or(draft, written.size(d), lengths[d])?;
        let room = draft.subtract(size, length);
        *start = within(draft, *start, room);
        if written.size(d).is_some() && dims[d] > 0 {
            broadcast.push((d, *start, length));
            *start = draft.int(INDEX, 0);
        }
    }
    if !broadcast.is_empty() {
        let mut whole = lengths.clone();
        for &(d, start, _) in &broadcast {
            let count = [dims[d]];
            let index = draft.iota(INDEX, &count, 0);
            let start = draft.broadcast(start, &count, None)?;
            let from = draft.subtract(index, start);
            update = draft.take(update, d, from)?;
            whole[d] = dims[d];
        }
        let below = draft.dynamic_slice(data, &starts, &whole)?;
        for &(d, start, length) in &broadcast {
            let index = draft.iota(INDEX, &whole, d);
            let end = draft.add(start, length);
            let (first, end) = (draft.broadcast(start, &whole, None)?, draft.broadcast(end, &whole, None)?);
            let (after, before) = (draft.compare("GE", index, first)?, draft.compare("LT", index, end)?);
            let inside = draft.and(after, before);
            update = draft.select(inside, update, below);
        }
    }
    let out = draft.dynamic_update_slice(data, update, &starts);
    Ok(Value::new(out, value.sizes(dims.len())))
}

/// Where component `k` of the index vectors lies in an index array of `dims`; `None` for everywhere.
fn component(draft: &mut Draft, dims: &[i64], vector: usize, k: usize) -> Result<Option<InstructionId>> {
    if vector >= dims.len() {
        return Ok(None);
    }
    let index = draft.iota(ElementType::S32, dims, vector);
    let number = draft.s32(k as i64);
    let number = draft.broadcast(number, dims, None)?;
    draft.compare("EQ", index, number).map(Some)
}

/// The sizes of the dimensions of an index array that do not hold the components.
fn batch_sizes(value: &Value, rank: usize, vector: usize) -> Vec<Size> {
    (0..rank).filter(|&d| d != vector).map(|d| value.size(d)).collect()
}

/// A slice as long as the bound is the whole dimension, of its true size; other starts are kept within the true size.
pub(super) fn gather(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (value, data) = (at.operand(draft, 0)?, at.data(draft, 0)?);
    let (places, mut indices) = (at.operand(draft, 1)?, at.data(draft, 1)?);
    let attrs = &at.inst.attrs;
    let (dims, index_dims) = (draft.array(data)?.dims, draft.array(indices)?.dims);
    let vector = attrs.int(AttrKey::IndexVectorDim).unwrap_or(0).max(0) as usize;
    let lengths = attrs.ints_or_empty(AttrKey::SliceSizes).to_vec();
    for (k, d) in attrs.dimension_numbers(AttrKey::StartIndexMap).into_iter().enumerate() {
        let (Some(size), Some(&length)) = (value.size(d), lengths.get(d)) else { continue };
        let size = draft.convert(size, INDEX)?;
        let room = draft.add_int(size, -length)?;
        let zero = draft.int(INDEX, 0);
        let room = draft.maximum(room, zero);
        let (zero, room) = (draft.broadcast(zero, &index_dims, None)?, draft.broadcast(room, &index_dims, None)?);
        indices = wide(draft, indices)?;
        let kept = draft.maximum(indices, zero);
        let kept = draft.minimum(kept, room);
        indices = match component(draft, &index_dims, vector, k)? {
            Some(mine) => draft.select(mine, kept, indices),
            None => kept,
        };
    }
    let dropped: Vec<usize> = [AttrKey::CollapsedSliceDims, AttrKey::OperandBatchingDims]
        .into_iter()
        .flat_map(|key| attrs.dimension_numbers(key))
        .collect();
    let mut windows = (0..dims.len()).filter(|d| !dropped.contains(d));
    let mut batches = batch_sizes(places, index_dims.len(), vector).into_iter();
    let offset_dims = attrs.dimension_numbers(AttrKey::OffsetDims);
    let rank = at.inst.shape.as_array().map_or(0, |s| s.rank());
    let mut sizes = Vec::new();
    for d in 0..rank {
        sizes.push(if offset_dims.contains(&d) {
            let from = windows.next().unwrap_or(usize::MAX);
            if lengths.get(from) == dims.get(from) { value.size(from) } else { None }
        } else {
            batches.next().flatten()
        });
    }
    let out = at.again(draft, vec![data, indices]);
    Ok(Value::new(out, sizes))
}

/// An update that must not happen gets an index outside: one past the true size of indices or updates, and one whose
/// window reaches past the true size of the operand. Windows are of static size: others were expanded before.
pub(super) fn scatter(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let n = at.operands.len().saturating_sub(1) / 2;
    let (places, mut indices) = (at.operand(draft, n)?, at.data(draft, n)?);
    let attrs = &at.inst.attrs;
    let dims = draft.array(at.data(draft, 0)?)?.dims;
    let update_dims = draft.array(at.data(draft, n + 1)?)?.dims;
    let index_dims = draft.array(indices)?.dims;
    let vector = attrs.int(AttrKey::IndexVectorDim).unwrap_or(0).max(0) as usize;
    let map = attrs.dimension_numbers(AttrKey::ScatterDimsToOperandDims);
    let window_dims = attrs.dimension_numbers(AttrKey::UpdateWindowDims);
    let dropped: Vec<usize> = [AttrKey::InsertedWindowDims, AttrKey::InputBatchingDims]
        .into_iter()
        .flat_map(|key| attrs.dimension_numbers(key))
        .collect();
    // The updates' own true sizes: those of the window, and those of the index vectors.
    let update_size = |d: usize| at.size_of_first(n + 1..at.operands.len(), d);
    let mut windows = window_dims.iter();
    let mut window: Vec<(i64, Size)> = Vec::new();
    for d in 0..dims.len() {
        let update = if dropped.contains(&d) { None } else { windows.next() };
        window.push(update.map_or((1, None), |&u| (update_dims.get(u).copied().unwrap_or(1), update_size(u))));
    }
    let mut good: Option<InstructionId> = None;
    let both = |draft: &mut Draft, good: &mut Option<InstructionId>, more: InstructionId| {
        *good = Some(good.map_or(more, |g| draft.and(g, more)));
    };
    let mut batch = (0..update_dims.len()).filter(|d| !window_dims.contains(d));
    for d in (0..index_dims.len()).filter(|&d| d != vector) {
        let update = batch.next().unwrap_or(usize::MAX);
        let mut only = vec![None; index_dims.len()];
        if let Some(slot) = only.get_mut(d) {
            *slot = places.size(d).or_else(|| update_size(update));
        }
        if let Some(valid) = draft.valid(&index_dims, &only)? {
            both(draft, &mut good, valid);
        }
    }
    indices = wide(draft, indices)?;
    for (d, &(length, size)) in window.iter().enumerate() {
        let operand = at.size_of_first(0..n, d);
        let component_of = map.iter().position(|&m| m == d);
        if size.is_some() {
            return Err(draft.unsupported("a scatter of dynamic windows that are declared static"));
        }
        let Some(operand) = operand else { continue };
        let operand = draft.convert(operand, INDEX)?;
        let room = draft.add_int(operand, -length)?;
        match component_of {
            Some(k) => {
                let room = draft.broadcast(room, &index_dims, None)?;
                let mut fits = draft.compare("LE", indices, room)?;
                if let Some(mine) = component(draft, &index_dims, vector, k)? {
                    let other = draft.op(crate::hlo::Opcode::Not, &[mine]);
                    fits = draft.op(crate::hlo::Opcode::Or, &[fits, other]);
                }
                both(draft, &mut good, fits);
            }
            None => {
                let zero = draft.int(INDEX, 0);
                let fits = draft.compare("GE", room, zero)?;
                let fits = draft.broadcast(fits, &index_dims, None)?;
                both(draft, &mut good, fits);
            }
        }
    }
    if let Some(good) = good {
        if map.is_empty() {
            return Err(draft.unsupported("a scatter without indices into dynamic dimensions"));
        }
        let outside = draft.int(INDEX, -1);
        let outside = draft.broadcast(outside, &index_dims, None)?;
        indices = draft.select(good, indices, outside);
    }
    let mut operands = at.all_data(draft)?;
    if let Some(slot) = operands.get_mut(n) {
        *slot = indices;
    }
    let sizes: Vec<Size> = (0..dims.len()).map(|d| at.size_of_first(0..n, d)).collect();
    let out = at.again(draft, operands);
    super::reduction::results(draft, out, &sizes)
}
