//! `sort` whose comparator is more than arithmetic on scalars, as loops over elements.
//!
//! Problem: the comparator may hold anything, of which no kernel can be the inside. Invariant: the permutation is that of
//! `interp/sort.rs`, whatever the comparator answers; it is asked only about two elements of one row, both of them there.
//! Algorithm: a bottom-up merge sort of positions. Operands are flattened, rows one after another; the outer `while`
//! doubles the length of the runs, the inner one takes a turn for each place that a merge fills: it compares the heads of
//! two runs, where both are left, and takes from the right one only what comes before the left one's. At the end
//! elements are looked up.

use super::draft::{Draft, is_arithmetic};
use super::element_loop::index_type;
use super::formula::{iota, scalar};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Opcode, inverse};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ElementType, Scalar, Shape};

/// What is sorted.
struct Rows {
    callee: ComputationId,
    /// The length of a row, and of all together.
    length: i64,
    total: i64,
    index: ElementType,
}

/// Expands `sort`; `None` where kernels have its comparator.
pub fn sort(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id);
    let Some(callee) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let operands = instruction.operands.clone();
    let along = instruction.attrs.dimension_numbers(AttrKey::Dimensions).first().copied();
    let is_static = |&i: &InstructionId| rw.array(i).is_some_and(|a| !a.is_dynamic());
    if is_arithmetic(rw.module, callee) || !operands.iter().all(is_static) {
        return Ok(None);
    }
    let Some(dims) = operands.first().map(|&o| rw.dims(o).to_vec()) else { return Ok(None) };
    let along = along.unwrap_or(dims.len().saturating_sub(1));
    let length = dims.get(along).copied().unwrap_or(1);
    let Some(total) = dims.iter().try_fold(1i64, |product, &d| product.checked_mul(d)) else { return Ok(None) };
    let order: Vec<usize> =
        (0..dims.len()).filter(|&d| d != along).chain((0..dims.len()).filter(|&d| d == along)).collect();
    let back = inverse(&order);
    let turned: Vec<i64> = order.iter().map(|&d| dims[d]).collect();
    let mut results = operands.clone();
    if total > 0 && length > 1 {
        let mut flat = Vec::new();
        for &operand in &operands {
            let moved = if order.is_sorted() { operand } else { rw.transpose(operand, &order) };
            flat.push(rw.reshape(moved, &[total]));
        }
        // Runs are of up to twice the length of a row.
        let rows = Rows { callee, length, total, index: index_type(total.saturating_mul(4)) };
        let places = sorted_places(rw, id, &rows, &flat)?;
        for (result, &flat) in results.iter_mut().zip(&flat) {
            let taken = look_up(rw, flat, places, total);
            let taken = rw.reshape(taken, &turned);
            *result = if order.is_sorted() { taken } else { rw.transpose(taken, &back) };
        }
    }
    Ok(Some(match (rw.shape(id), &results[..]) {
        (Shape::Array(_), &[only]) => only,
        _ => rw.tuple(results),
    }))
}

/// The elements of a vector at the places that another names.
fn look_up(rw: &mut Rewriter<'_>, vector: InstructionId, places: InstructionId, total: i64) -> InstructionId {
    let attrs = Attrs::new()
        .with(AttrKey::OffsetDims, AttrValue::Ints(Vec::new()))
        .with(AttrKey::CollapsedSliceDims, AttrValue::Ints(vec![0]))
        .with(AttrKey::StartIndexMap, AttrValue::Ints(vec![0]))
        .with(AttrKey::IndexVectorDim, AttrValue::Int(1))
        .with(AttrKey::SliceSizes, AttrValue::Ints(vec![1]));
    let ty = rw.array(vector).map_or(ElementType::F32, |a| a.ty);
    rw.emit(Opcode::Gather, Shape::array(ty, [total]), vec![vector, places], attrs)
}

/// `while` over a tuple, with computations just made.
fn repeated(condition: ComputationId, body: ComputationId) -> Attrs {
    Attrs::new()
        .with(AttrKey::Condition, AttrValue::Computation(condition))
        .with(AttrKey::Body, AttrValue::Computation(body))
}

/// A computation that says whether the first part of a state is below `end`.
fn below(rw: &mut Rewriter<'_>, id: InstructionId, state: &Shape, end: i64) -> ComputationId {
    let mut d = Draft::new(rw.instruction(id).location);
    let whole = d.parameter(0, state.clone());
    let counter = d.part(whole, 0);
    let end = d.beside(counter, end);
    let root = d.compare(counter, "LT", end);
    d.finish(rw.module, "sort_more", root)
}

/// Where each element of the sorted rows stands in the flat operands.
fn sorted_places(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    rows: &Rows,
    flat: &[InstructionId],
) -> Result<InstructionId> {
    let one = scalar(rw, rows.index, Scalar::Int(1));
    let places = iota(rw, rows.index, &[rows.total], 0);
    let init = rw.tuple([&[one, places], flat].concat());
    let state = rw.shape(init).clone();
    let condition = below(rw, id, &state, rows.length);
    let mut d = Draft::new(rw.instruction(id).location);
    let whole = d.parameter(0, state.clone());
    let parts = d.parts(whole);
    let (run, from, operands) = (parts[0], parts[1], &parts[2..]);
    // The inner loop: place, heads of the two runs, what is merged into, then what stays.
    let zero = d.beside(run, 0);
    let inner = d.tuple([&[zero, zero, zero, from, run, from], operands].concat());
    let inner_state = d.shape(inner).clone();
    let attrs = repeated(below(rw, id, &inner_state, rows.total), merge(rw, id, rows, &inner_state)?);
    let merged = d.push(Opcode::While, inner_state, vec![inner], attrs);
    let into = d.part(merged, 3);
    let twice = d.op(Opcode::Add, &[run, run]);
    let root = d.tuple([&[twice, into], operands].concat());
    let body = d.finish(rw.module, "sort_pass", root);
    let last = rw.emit(Opcode::While, state, vec![init], repeated(condition, body));
    Ok(rw.element(last, 1))
}

/// A turn of the inner loop: one element of a merge.
fn merge(rw: &mut Rewriter<'_>, id: InstructionId, rows: &Rows, state: &Shape) -> Result<ComputationId> {
    let mut d = Draft::new(rw.instruction(id).location);
    let whole = d.parameter(0, state.clone());
    let parts = d.parts(whole);
    let &[place, left, right, into, run, from, ref operands @ ..] = &parts[..] else {
        return Err(crate::Error::Internal("a merge without a state".to_owned()));
    };
    let within = d.remainder(place, rows.length);
    let row = d.op(Opcode::Subtract, &[place, within]);
    let length = d.beside(place, rows.length);
    let row_end = d.op(Opcode::Add, &[row, length]);
    let twice = d.op(Opcode::Add, &[run, run]);
    let done = d.op(Opcode::Remainder, &[within, twice]);
    let start = d.op(Opcode::Subtract, &[place, done]);
    let limit = |d: &mut Draft, by| {
        let end = d.op(Opcode::Add, &[start, by]);
        d.op(Opcode::Minimum, &[end, row_end])
    };
    let (middle, end) = (limit(&mut d, run), limit(&mut d, twice));
    let zero = d.beside(place, 0);
    let fresh = d.compare(done, "EQ", zero);
    let (left, right) = (d.select(fresh, start, left), d.select(fresh, middle, right));
    let (some_left, some_right) = (d.compare(left, "LT", middle), d.compare(right, "LT", end));
    let (one, other) = (d.take(from, left), d.take(from, right));
    let mut arguments = Vec::new();
    for &operand in operands {
        arguments.extend([d.take(operand, other), d.take(operand, one)]);
    }
    let both = d.op(Opcode::And, &[some_left, some_right]);
    let only_right = d.op(Opcode::Not, &[some_left]);
    let answer = d.apply_if(rw.module, both, rows.callee, &arguments, &[only_right])?;
    let [from_right] = answer[..] else {
        return Err(crate::Error::Internal("a comparator that yields no truth value".to_owned()));
    };
    let chosen = d.select(from_right, other, one);
    let into = d.put(into, chosen, place);
    let from_left = d.op(Opcode::Not, &[from_right]);
    let step = |d: &mut Draft, head, moves| {
        let moves = d.convert(moves, rows.index);
        d.op(Opcode::Add, &[head, moves])
    };
    let (left, right) = (step(&mut d, left, from_left), step(&mut d, right, from_right));
    let one = d.beside(place, 1);
    let next = d.op(Opcode::Add, &[place, one]);
    let root = d.tuple([&[next, left, right, into, run, from], operands].concat());
    Ok(d.finish(rw.module, "sort_merge", root))
}
