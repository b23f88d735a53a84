//! `scatter` with the place of each update element written out.
//!
//! Problem: a window lies inside the operand or is left out as a whole, and where it lies is given by five attributes.
//! Invariant: element `k` of the updates goes to element `places[k]` of the operand, row by row; what goes nowhere has -1.
//! Updates are brought into the order «windows, one after another», in which they are applied. Algorithm: one sum of
//! coordinates over the array of updates, in 64 bits. Where dimensions are dynamic, true sizes decide what lies inside.

use super::formula::{Formula, compare, iota, slice};
use super::sizes::{at_bounds, size, sized};
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape, row_major_strides};

const INDEX: ElementType = ElementType::S64;

/// A scatter of single elements.
pub struct Flat {
    /// What is scattered into, as vectors at their bounds.
    pub results: Vec<InstructionId>,
    /// The place of each update.
    pub places: InstructionId,
    /// Arrays of the dimensions of `places`.
    pub updates: Vec<InstructionId>,
}

/// Indices in 64 bits; those past the range as its greatest.
fn wide(rw: &mut Rewriter<'_>, indices: InstructionId) -> InstructionId {
    let Some(array) = rw.array(indices).cloned() else { return indices };
    let mut indices = indices;
    if array.ty == ElementType::U64 {
        let most = super::formula::scalar(rw, array.ty, Scalar::Int(i64::MAX));
        let most = rw.broadcast_scalar(most, &array);
        indices = rw.elementwise(Opcode::Minimum, vec![indices, most]);
    }
    rw.convert(indices, INDEX)
}

/// The places; `None` where the attributes do not fit the operands.
pub fn flatten(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<Flat> {
    let instruction = rw.instruction(id);
    let numbers = |key| instruction.attrs.dimension_numbers(key);
    let (windows, inserted) = (numbers(AttrKey::UpdateWindowDims), numbers(AttrKey::InsertedWindowDims));
    let map = numbers(AttrKey::ScatterDimsToOperandDims);
    let (batch, index_batch) = (numbers(AttrKey::InputBatchingDims), numbers(AttrKey::ScatterIndicesBatchingDims));
    let vector = instruction.attrs.int(AttrKey::IndexVectorDim).and_then(|v| usize::try_from(v).ok())?;
    let operands = instruction.operands.clone();
    let (results, rest) = operands.split_at(operands.len().checked_sub(1)? / 2);
    let (&indices, updates) = rest.split_first()?;
    let (&result, &update) = (results.first()?, updates.first()?);
    let dims = rw.dims(result).to_vec();
    let rank = rw.dims(update).len();
    let order: Vec<usize> = (0..rank).filter(|d| !windows.contains(d)).chain(windows.iter().copied()).collect();
    let moved = |rw: &mut Rewriter<'_>, u| if order.is_sorted() { u } else { rw.transpose(u, &order) };
    let updates: Vec<InstructionId> = updates.iter().map(|&u| moved(rw, u)).collect();
    let update = *updates.first()?;
    let broadcast = ArrayShape::new(INDEX, rw.dims(update));
    let outer = rank.checked_sub(windows.len())?;
    let indices = wide(rw, indices);

    let mut place = Formula::new(rw, &broadcast.dims).number(INDEX, Scalar::Int(0));
    let mut inside: Option<InstructionId> = None;
    let mut window_dims = outer..rank;
    for (d, stride) in row_major_strides(&dims).into_iter().enumerate() {
        let window = if inserted.contains(&d) || batch.contains(&d) { None } else { Some(window_dims.next()?) };
        let mut coordinates = Vec::new();
        coordinates.extend(window.map(|w| iota(rw, INDEX, &broadcast.dims, w)));
        if let Some(b) = batch.iter().position(|&b| b == d) {
            let b = *index_batch.get(b)?;
            coordinates.push(iota(rw, INDEX, &broadcast.dims, if b < vector { b } else { b.checked_sub(1)? }));
        }
        let start = map.iter().position(|&m| m == d).map(|k| component(rw, indices, (vector, k), outer, &broadcast));
        coordinates.extend(start);
        let longer = window.is_some_and(|w| broadcast.dims[w] > dims[d]);
        let sized = [(result, Some(d)), (update, window)]
            .into_iter()
            .any(|(x, d)| d.is_some_and(|d| rw.array(x).is_some_and(|a| a.dynamic.get(d) == Some(&true))));
        if start.is_some() || longer || sized {
            let room = size(rw, result, d, INDEX);
            let length = match window {
                Some(w) => size(rw, update, w, INDEX),
                None => super::formula::scalar(rw, INDEX, Scalar::Int(1)),
            };
            let room = rw.elementwise(Opcode::Subtract, vec![room, length]);
            let mut f = Formula::new(rw, &broadcast.dims);
            let (room, zero) = (f.broadcast(room), f.number(INDEX, Scalar::Int(0)));
            let start = start.unwrap_or(zero);
            for holds in [compare(f.rw, start, "GE", zero), compare(f.rw, start, "LE", room)] {
                inside = Some(inside.map_or(holds, |all| f.op(Opcode::And, &[all, holds])));
            }
        }
        let mut f = Formula::new(rw, &broadcast.dims);
        for coordinate in coordinates {
            let stride = f.number(INDEX, Scalar::Int(stride));
            let part = f.mul(coordinate, stride);
            place = f.add(place, part);
        }
    }
    let mut f = Formula::new(rw, &broadcast.dims);
    if let Some(inside) = inside {
        let nowhere = f.number(INDEX, Scalar::Int(-1));
        place = f.select(inside, place, nowhere);
    }
    let count = dims.iter().try_fold(1i64, |product, &d| product.checked_mul(d))?;
    let mut flat = Vec::new();
    for &result in results {
        let whole = at_bounds(rw, result);
        flat.push(rw.reshape(whole, &[count]));
    }
    Some(Flat { results: flat, places: place, updates })
}

/// Component `k` of the index vectors, which lie along dimension `vector`, broadcast over the updates.
fn component(
    rw: &mut Rewriter<'_>,
    indices: InstructionId,
    (vector, k): (usize, usize),
    outer: usize,
    broadcast: &ArrayShape,
) -> InstructionId {
    let mut dims = rw.dims(indices).to_vec();
    let mut one = indices;
    if vector < dims.len() {
        one = slice(rw, indices, vector, k as i64, k as i64 + 1);
        dims.remove(vector);
        one = rw.reshape(one, &dims);
    }
    rw.broadcast(one, broadcast, (0..outer as i64).collect())
}

/// The scatter of single elements, for windows of dynamic sizes.
pub fn dynamic(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let instruction = rw.instruction(id);
    let first = *instruction.operands.first()?;
    let operands = instruction.operands.len().checked_sub(1)? / 2;
    let update = *instruction.operands.get(operands + 1)?;
    let windows = instruction.attrs.dimension_numbers(AttrKey::UpdateWindowDims);
    let update = rw.array(update)?;
    if !windows.iter().any(|&w| update.dynamic.get(w) == Some(&true)) {
        return None;
    }
    let callee = instruction.attrs.get(AttrKey::ToApply)?.clone();
    let declared = rw.shape(id).clone();
    let flat = flatten(rw, id)?;
    let attrs = into_vector(rw.dims(flat.places).len()).with(AttrKey::ToApply, callee);
    let shapes: Vec<Shape> = flat.results.iter().map(|&r| rw.shape(r).without_layout()).collect();
    let shape = if let [only] = &shapes[..] { only.clone() } else { Shape::tuple(shapes) };
    let operands = [&flat.results[..], &[flat.places], &flat.updates].concat();
    let count = flat.results.len();
    let scattered = rw.emit(Opcode::Scatter, shape, operands, attrs);
    let mut results = Vec::new();
    for (k, leaf) in declared.leaves().into_iter().enumerate() {
        let part = if count == 1 { scattered } else { rw.element(scattered, k) };
        let part = rw.reshape(part, &leaf.as_array()?.dims);
        results.push(sized(rw, part, first, leaf.as_array()?));
    }
    Some(if declared.as_array().is_some() { *results.first()? } else { rw.tuple(results) })
}

/// The attributes of a scatter of single elements into a vector, by places that are an array of `rank` dimensions.
pub fn into_vector(rank: usize) -> Attrs {
    Attrs::new()
        .with(AttrKey::UpdateWindowDims, AttrValue::Ints(Vec::new()))
        .with(AttrKey::InsertedWindowDims, AttrValue::Ints(vec![0]))
        .with(AttrKey::ScatterDimsToOperandDims, AttrValue::Ints(vec![0]))
        .with(AttrKey::IndexVectorDim, AttrValue::Int(rank as i64))
}
