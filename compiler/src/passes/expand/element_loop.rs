//! `reduce`, `map`, `reduce-window` and `scatter` whose computation is more than arithmetic on scalars, as loops over
//! elements.
//!
//! Problem: the computation may hold anything, contractions, loops and branches too, of which no kernel can be the inside.
//! Invariant: as the interpreter has it, elements enter a result in row-major order (of the input, of the window, of the
//! updates, whole windows one after another), the initial value once; the computation is never asked about what does
//! not exist. Algorithm: arrays are flattened; a `while` takes a turn for each element that is folded in, finds where it
//! stands and where it goes, hands it to the computation with the result's value so far, and stores what that yields in
//! place.

use super::draft::{Draft, is_arithmetic, signature};
use super::flat_scatter;
use super::formula::scalar;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Opcode, WindowDimension};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape, row_major_strides};

/// What a loop over elements works on.
struct Elements {
    callee: ComputationId,
    /// One vector an input.
    inputs: Vec<InstructionId>,
    /// One vector a result, as it starts.
    results: Vec<InstructionId>,
    /// A vector that the loop finds places in, where they are no arithmetic.
    table: Option<InstructionId>,
    turns: i64,
    /// The type to count in.
    index: ElementType,
    /// Whether the computation takes the results so far, in front of the elements.
    folds: bool,
}

/// One turn of the loop.
struct Turn {
    /// The element's place in the inputs.
    source: InstructionId,
    /// The place in the results.
    place: InstructionId,
    /// Whether there is such an element; where nothing is said, there is.
    exists: Option<InstructionId>,
}

/// The type to count up to `most` in.
pub(super) fn index_type(most: i64) -> ElementType {
    if most <= i64::from(i32::MAX) { ElementType::S32 } else { ElementType::S64 }
}

fn product(dims: impl IntoIterator<Item = i64>) -> Option<i64> {
    dims.into_iter().try_fold(1i64, i64::checked_mul)
}

/// A reduction of static arrays.
struct Fold {
    callee: ComputationId,
    inputs: Vec<InstructionId>,
    inits: Vec<InstructionId>,
    /// The sizes of each array.
    dims: Vec<i64>,
}

/// What a reduction folds, and how; `None` where an array is dynamic.
fn fold(rw: &Rewriter<'_>, id: InstructionId) -> Option<Fold> {
    let instruction = rw.instruction(id);
    let callee = instruction.attrs.computation(AttrKey::ToApply)?;
    let (inputs, inits) = instruction.operands.split_at(instruction.operands.len() / 2);
    let mut arrays = instruction.operands.iter().map(|&i| rw.array(i));
    let is_static = arrays.all(|a| a.is_some_and(|a| !a.is_dynamic()));
    let dims = rw.dims(*inputs.first()?).to_vec();
    is_static.then(|| Fold { callee, inputs: inputs.to_vec(), inits: inits.to_vec(), dims })
}

/// One vector of `count` initial values a result.
fn started(rw: &mut Rewriter<'_>, inits: Vec<InstructionId>, count: i64) -> Vec<InstructionId> {
    let mut results = Vec::new();
    for init in inits {
        let ty = rw.array(init).map_or(ElementType::F32, |a| a.ty);
        let init = rw.reshape(init, &[]);
        results.push(rw.broadcast_scalar(init, &ArrayShape::new(ty, [count])));
    }
    results
}

/// Vectors as what the instruction yields: arrays of these dimensions, or one.
fn finished(rw: &mut Rewriter<'_>, id: InstructionId, results: Vec<InstructionId>, dims: &[i64]) -> InstructionId {
    let results: Vec<InstructionId> = results.into_iter().map(|r| rw.reshape(r, dims)).collect();
    match (rw.shape(id), &results[..]) {
        (Shape::Array(_), &[only]) => only,
        _ => rw.tuple(results),
    }
}

/// Expands `reduce`; `None` where kernels have its computation.
pub fn reduce(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let Some(Fold { callee, inputs, inits, dims }) = fold(rw, id) else { return Ok(None) };
    if is_arithmetic(rw.module, callee) {
        return Ok(None);
    }
    let reduced = rw.instruction(id).attrs.dimension_numbers(AttrKey::Dimensions);
    let (kept, folded): (Vec<usize>, Vec<usize>) = (0..dims.len()).partition(|d| !reduced.contains(d));
    let sizes = |list: &[usize]| list.iter().map(|&d| dims[d]).collect::<Vec<i64>>();
    let (out, folded_sizes) = (sizes(&kept), sizes(&folded));
    let (Some(outputs), Some(run)) = (product(out.iter().copied()), product(folded_sizes)) else { return Ok(None) };
    let Some(turns) = outputs.checked_mul(run) else { return Ok(None) };
    let order = [&kept[..], &folded[..]].concat();
    let mut flat = Vec::new();
    for input in inputs {
        let moved = if order.is_sorted() { input } else { rw.transpose(input, &order) };
        flat.push(rw.reshape(moved, &[turns]));
    }
    let results = started(rw, inits, outputs);
    let index = index_type(turns);
    let elements = Elements { callee, inputs: flat, results, table: None, turns, index, folds: true };
    let results =
        each(rw, id, elements, |d, counter, _| Turn { source: counter, place: d.divided(counter, run), exists: None })?;
    Ok(results.map(|r| finished(rw, id, r, &out)))
}

/// Expands `map`; `None` where its computation yields no array of scalars.
pub fn map(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id);
    let Some(callee) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let Some(shape) = instruction.shape.as_array().map(|a| a.with_type(a.ty)) else { return Ok(None) };
    let turns = shape.checked_elements().and_then(|n| i64::try_from(n).ok());
    let Some(turns) = turns.filter(|_| !shape.is_dynamic()) else { return Ok(None) };
    let inputs = instruction.operands.clone();
    let inputs = inputs.into_iter().map(|i| rw.reshape(i, &[turns])).collect();
    let zero = scalar(rw, shape.ty, Scalar::Int(0));
    let results = vec![rw.broadcast_scalar(zero, &ArrayShape::new(shape.ty, [turns]))];
    let index = index_type(turns);
    let elements = Elements { callee, inputs, results, table: None, turns, index, folds: false };
    let results = each(rw, id, elements, |_, counter, _| Turn { source: counter, place: counter, exists: None })?;
    Ok(results.map(|r| finished(rw, id, r, &shape.dims)))
}

/// Expands `reduce-window`; `None` where kernels have its computation. Of nothing there are initial values only.
pub fn reduce_window(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let Some(Fold { callee, inputs, inits, dims }) = fold(rw, id) else { return Ok(None) };
    let mut window = rw.instruction(id).attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
    if window.is_empty() {
        window = vec![WindowDimension::default(); dims.len()];
    }
    let leaf = rw.shape(id).leaves().first().and_then(|s| s.as_array().map(|a| a.dims.clone()));
    let Some(out) = leaf.filter(|out| out.len() == dims.len() && window.len() == dims.len()) else { return Ok(None) };
    let nothing = dims.contains(&0) || out.contains(&0);
    if !nothing && is_arithmetic(rw.module, callee) {
        return Ok(None);
    }
    let sizes: Vec<i64> = window.iter().map(|w| w.size).collect();
    let counts = (product(out.iter().copied()), product(sizes.iter().copied()), product(dims.iter().copied()));
    let (Some(outputs), Some(run), Some(elements)) = counts else { return Ok(None) };
    let results = started(rw, inits, outputs);
    if nothing {
        return Ok(Some(finished(rw, id, results, &out)));
    }
    let Some(turns) = outputs.checked_mul(run) else { return Ok(None) };
    // How far a window may reach, padding included.
    let reach = |(w, &n): (&WindowDimension, &i64)| {
        let last = n.saturating_mul(w.stride).saturating_add(w.size.saturating_mul(w.window_dilation));
        last.saturating_add(w.padding_low.saturating_abs())
    };
    let index = index_type(window.iter().zip(&out).map(reach).chain([turns]).max().unwrap_or(turns));
    let inputs = inputs.into_iter().map(|i| rw.reshape(i, &[elements])).collect();
    let elements = Elements { callee, inputs, results, table: None, turns, index, folds: true };
    let results = each(rw, id, elements, |d, counter, _| {
        let (place, within) = (d.divided(counter, run), d.remainder(counter, run));
        let (at, inside) = (d.digits(place, &out), d.digits(within, &sizes));
        let (mut source, mut exists) = (d.beside(counter, 0), None);
        for (k, (w, stride)) in window.iter().zip(row_major_strides(&dims)).enumerate() {
            let (at, inside) = (d.scaled(at[k], w.stride), d.scaled(inside[k], w.window_dilation));
            let position = d.op(Opcode::Add, &[at, inside]);
            let low = d.beside(counter, w.padding_low);
            let position = d.op(Opcode::Subtract, &[position, low]);
            let element = d.divided(position, w.base_dilation);
            let (zero, size) = (d.beside(counter, 0), d.beside(counter, dims[k]));
            let gap = d.remainder(position, w.base_dilation);
            for (a, direction, b) in [(position, "GE", zero), (element, "LT", size), (gap, "EQ", zero)] {
                let holds = d.compare(a, direction, b);
                exists = Some(exists.map_or(holds, |e| d.op(Opcode::And, &[e, holds])));
            }
            let part = d.scaled(element, stride);
            source = d.op(Opcode::Add, &[source, part]);
        }
        Turn { source, place, exists }
    })?;
    Ok(results.map(|r| finished(rw, id, r, &out)))
}

/// Expands `scatter`; `None` where kernels have its computation.
pub fn scatter(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let Some(callee) = rw.instruction(id).attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let is_static = |&i: &InstructionId| rw.array(i).is_some_and(|a| !a.is_dynamic());
    if is_arithmetic(rw.module, callee) || !rw.instruction(id).operands.iter().all(is_static) {
        return Ok(None);
    }
    let Some(flat) = flat_scatter::flatten(rw, id) else { return Ok(None) };
    let Some(dims) = rw.instruction(id).operands.first().map(|&o| rw.dims(o).to_vec()) else { return Ok(None) };
    let Some(turns) = product(rw.dims(flat.places).iter().copied()) else { return Ok(None) };
    let inputs = flat.updates.into_iter().map(|u| rw.reshape(u, &[turns])).collect();
    let table = Some(rw.reshape(flat.places, &[turns]));
    let index = index_type(turns);
    let elements = Elements { callee, inputs, results: flat.results, table, turns, index, folds: true };
    let results = each(rw, id, elements, |d, counter, table| {
        let place = d.take(table, counter);
        let zero = d.beside(place, 0);
        Turn { source: counter, place, exists: Some(d.compare(place, "GE", zero)) }
    })?;
    Ok(results.map(|r| finished(rw, id, r, &dims)))
}

/// The loop; `None` where the computation does not take and yield such elements. `turn` is given the counter and the
/// table, or the counter again.
fn each(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    e: Elements,
    turn: impl FnOnce(&mut Draft, InstructionId, InstructionId) -> Turn,
) -> Result<Option<Vec<InstructionId>>> {
    let (takes, yields) = signature(rw.module, e.callee);
    let so_far = if e.folds { e.results.len() } else { 0 };
    let scalars = |shapes: &[Shape]| shapes.iter().all(|s| s.as_array().is_some_and(|a| a.rank() == 0));
    let fits = takes.len() == so_far + e.inputs.len() && yields.len() == e.results.len();
    if !fits || !scalars(&takes) || !scalars(&yields) {
        return Ok(None);
    }
    if e.turns == 0 || e.results.iter().any(|&r| rw.dims(r).contains(&0)) {
        return Ok(Some(e.results));
    }
    let zero = scalar(rw, e.index, Scalar::Int(0));
    let fixed = [&e.inputs[..], e.table.as_slice()].concat();
    let init = rw.tuple([&[zero][..], &fixed, &e.results].concat());
    let state = rw.shape(init).clone();
    let location = rw.instruction(id).location;
    let mut d = Draft::new(location);
    let whole = d.parameter(0, state.clone());
    let counter = d.part(whole, 0);
    let end = d.beside(counter, e.turns);
    let root = d.compare(counter, "LT", end);
    let condition = d.finish(rw.module, "element_more", root);

    let mut d = Draft::new(location);
    let whole = d.parameter(0, state.clone());
    let parts = d.parts(whole);
    let (counter, arrays) = (parts[0], &parts[1..]);
    let (kept, results) = arrays.split_at(fixed.len());
    let inputs = &kept[..e.inputs.len()];
    let turn = turn(&mut d, counter, kept.get(e.inputs.len()).copied().unwrap_or(counter));
    let old: Vec<InstructionId> = results.iter().map(|&r| d.take(r, turn.place)).collect();
    let mut arguments = if e.folds { old.clone() } else { Vec::new() };
    arguments.extend(inputs.iter().map(|&v| d.take(v, turn.source)));
    let new = match turn.exists {
        Some(exists) => d.apply_if(rw.module, exists, e.callee, &arguments, &old)?,
        None => d.apply(rw.module, e.callee, &arguments)?,
    };
    let one = d.beside(counter, 1);
    let mut elements = vec![d.op(Opcode::Add, &[counter, one])];
    elements.extend(kept);
    for (&result, value) in results.iter().zip(new) {
        elements.push(d.put(result, value, turn.place));
    }
    let root = d.tuple(elements);
    let body = d.finish(rw.module, "element_step", root);
    let attrs = Attrs::new()
        .with(AttrKey::Condition, AttrValue::Computation(condition))
        .with(AttrKey::Body, AttrValue::Computation(body));
    let last = rw.emit(Opcode::While, state, vec![init], attrs);
    let first = 1 + fixed.len();
    Ok(Some((first..first + e.results.len()).map(|k| rw.element(last, k)).collect()))
}
