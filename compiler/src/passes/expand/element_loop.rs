//! `reduce` and `map` whose computation is more than arithmetic on scalars, as loops over elements.
//!
//! Problem: the computation may hold anything, contractions, loops and branches too, of which no kernel can be the inside.
//! Invariant: as `interp/reduction.rs` has it, elements enter a result in row-major order, the initial value once.
//! Algorithm: inputs are brought into the order «results, then what is folded into each» and flattened; a `while` takes
//! one element of each a turn, hands it to the computation with the results' values so far, and stores what that
//! yields in place.

use super::draft::Draft;
use super::formula::scalar;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Module, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape};

/// Whether a computation is straight-line arithmetic on scalars, which kernels hold in their loops.
fn is_arithmetic(module: &Module, computation: ComputationId) -> bool {
    let computation = &module.computations[computation];
    computation.order.iter().all(|&i| {
        let instruction = &computation.instructions[i];
        let known = match instruction.opcode {
            Opcode::Parameter | Opcode::Constant | Opcode::Copy | Opcode::Reshape => true,
            Opcode::Broadcast | Opcode::Transpose | Opcode::Tuple | Opcode::GetTupleElement => true,
            op => op.is_elementwise(),
        };
        known && instruction.shape.as_array().is_none_or(|a| a.elements() == 1)
    })
}

/// What a loop over elements works on.
struct Elements {
    callee: ComputationId,
    /// One vector an input.
    inputs: Vec<InstructionId>,
    /// One vector a result, as it starts.
    results: Vec<InstructionId>,
    /// How many elements in a row belong to one result.
    run: i64,
    /// Whether the computation takes the results so far, in front of the elements.
    folds: bool,
}

/// Expands `reduce`; `None` where kernels have its computation.
pub fn reduce(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id);
    let Some(callee) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    if is_arithmetic(rw.module, callee) {
        return Ok(None);
    }
    let reduced = instruction.attrs.dimension_numbers(AttrKey::Dimensions);
    let (inputs, inits) = instruction.operands.split_at(instruction.operands.len() / 2);
    let (inputs, inits) = (inputs.to_vec(), inits.to_vec());
    let Some(dims) = inputs.first().map(|&i| rw.dims(i).to_vec()) else { return Ok(None) };
    let (kept, folded): (Vec<usize>, Vec<usize>) = (0..dims.len()).partition(|d| !reduced.contains(d));
    let sizes = |list: &[usize]| list.iter().try_fold(1i64, |product, &d| product.checked_mul(*dims.get(d)?));
    let (Some(outputs), Some(run)) = (sizes(&kept), sizes(&folded)) else { return Ok(None) };
    let Some(total) = outputs.checked_mul(run) else { return Ok(None) };
    let arrays = inputs.iter().chain(&inits).map(|&i| rw.array(i));
    if !arrays.into_iter().all(|a| a.is_some_and(|a| !a.is_dynamic())) {
        return Ok(None);
    }
    let order = [&kept[..], &folded[..]].concat();
    let mut flat = Vec::new();
    for input in inputs {
        let moved = if order.is_sorted() { input } else { rw.transpose(input, &order) };
        flat.push(rw.reshape(moved, &[total]));
    }
    let mut results = Vec::new();
    for init in inits {
        let ty = rw.array(init).map_or(ElementType::F32, |a| a.ty);
        let init = rw.reshape(init, &[]);
        results.push(rw.broadcast_scalar(init, &ArrayShape::new(ty, [outputs])));
    }
    let out: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
    let elements = Elements { callee, inputs: flat, results, run, folds: true };
    let Some(results) = each(rw, id, elements, total)? else { return Ok(None) };
    let results: Vec<InstructionId> = results.into_iter().map(|r| rw.reshape(r, &out)).collect();
    Ok(Some(match (rw.shape(id), &results[..]) {
        (Shape::Array(_), &[only]) => only,
        _ => rw.tuple(results),
    }))
}

/// Expands `map`; `None` where its computation yields no array of scalars.
pub fn map(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id);
    let Some(callee) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let Some(shape) = instruction.shape.as_array().map(|a| a.with_type(a.ty)) else { return Ok(None) };
    let total = shape.checked_elements().and_then(|n| i64::try_from(n).ok());
    let Some(total) = total.filter(|_| !shape.is_dynamic()) else { return Ok(None) };
    let inputs = instruction.operands.clone();
    let inputs = inputs.into_iter().map(|i| rw.reshape(i, &[total])).collect();
    let zero = scalar(rw, shape.ty, Scalar::Int(0));
    let results = vec![rw.broadcast_scalar(zero, &ArrayShape::new(shape.ty, [total]))];
    let elements = Elements { callee, inputs, results, run: 1, folds: false };
    let results = each(rw, id, elements, total)?;
    Ok(results.and_then(|r| r.first().copied()).map(|r| rw.reshape(r, &shape.dims)))
}

/// The loop; `None` where the computation does not take and yield these elements.
fn each(rw: &mut Rewriter<'_>, id: InstructionId, e: Elements, total: i64) -> Result<Option<Vec<InstructionId>>> {
    let element = |v: &InstructionId| rw.array(*v).map(|a| Shape::scalar(a.ty));
    let values: Option<Vec<Shape>> = e.inputs.iter().map(element).collect();
    let sums: Option<Vec<Shape>> = e.results.iter().map(element).collect();
    let (Some(values), Some(sums)) = (values, sums) else { return Ok(None) };
    let takes: Vec<Shape> = if e.folds { sums.iter().chain(&values).cloned().collect() } else { values };
    let computation = &rw.module.computations[e.callee];
    let parameters = computation.parameters();
    let yields = match computation.result_shape() {
        Shape::Tuple(parts) => parts.clone(),
        single => vec![single.clone()],
    };
    let same = |a: &[Shape], b: &[Shape]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_ignoring_layout(b));
    let given: Vec<Shape> = parameters.iter().map(|&p| computation.instructions[p].shape.clone()).collect();
    if !same(&takes, &given) || !same(&sums, &yields) {
        return Ok(None);
    }
    if total == 0 {
        return Ok(Some(e.results));
    }
    let index = if total <= i64::from(i32::MAX) { ElementType::S32 } else { ElementType::S64 };
    let zero = scalar(rw, index, Scalar::Int(0));
    let init = rw.tuple([&[zero][..], &e.inputs, &e.results].concat());
    let state = rw.shape(init).clone();
    let location = rw.instruction(id).location;
    let mut d = Draft::new(location);
    let whole = d.parameter(0, state.clone());
    let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(0));
    let counter = d.push(Opcode::GetTupleElement, Shape::scalar(index), vec![whole], attrs);
    let end = d.scalar(index, Scalar::Int(total));
    let root = d.compare(counter, "LT", end);
    let condition = d.finish(rw.module, "element_more", root);

    let mut d = Draft::new(location);
    let whole = d.parameter(0, state.clone());
    let parts = d.parts(whole);
    let (counter, arrays) = (parts[0], &parts[1..]);
    let (inputs, results) = arrays.split_at(e.inputs.len());
    let place = if e.run == 1 {
        counter
    } else {
        let run = d.scalar(index, Scalar::Int(e.run));
        d.op(Opcode::Divide, &[counter, run])
    };
    let mut arguments = Vec::new();
    let so_far: &[InstructionId] = if e.folds { results } else { &[] };
    for (vectors, at) in [(so_far, place), (inputs, counter)] {
        for &vector in vectors {
            let ty = d.shape(vector).as_array().map_or(index, |a| a.ty);
            let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(vec![1]));
            let one = d.push(Opcode::DynamicSlice, Shape::array(ty, [1]), vec![vector, at], attrs);
            arguments.push(d.push(Opcode::Reshape, Shape::scalar(ty), vec![one], Attrs::new()));
        }
    }
    let root = d.inline(rw.module, e.callee, &arguments)?;
    let next = d.parts(root);
    let one = d.scalar(index, Scalar::Int(1));
    let mut elements = vec![d.op(Opcode::Add, &[counter, one])];
    elements.extend(inputs);
    for (&result, value) in results.iter().zip(next) {
        let shape = d.shape(result).clone();
        let ty = shape.as_array().map_or(index, |a| a.ty);
        let one = d.push(Opcode::Reshape, Shape::array(ty, [1]), vec![value], Attrs::new());
        elements.push(d.push(Opcode::DynamicUpdateSlice, shape, vec![result, one, place], Attrs::new()));
    }
    let root = d.tuple(elements);
    let body = d.finish(rw.module, "element_step", root);
    let attrs = Attrs::new()
        .with(AttrKey::Condition, AttrValue::Computation(condition))
        .with(AttrKey::Body, AttrValue::Computation(body));
    let last = rw.emit(Opcode::While, state, vec![init], attrs);
    let first = 1 + e.inputs.len();
    Ok(Some((first..first + e.results.len()).map(|k| rw.element(last, k)).collect()))
}
