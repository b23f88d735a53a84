//! `scan` as a counted loop, where it does more than work element by element.
//!
//! Problem: a scan whose computation is elementwise on its slices has a kernel of its own (`kernel/lower/scan.rs`); in
//! all others the computation may hold anything, contractions and loops too. Invariant: as `interp/reduction.rs` has it,
//! the computation takes a slice of each input, then the carries, and yields a slice of each output, then the next
//! carries; `is_reverse` goes from the last slice to the first. Algorithm: a `while` whose state is a counter, the inputs,
//! the outputs so far and the carries; the body takes its slices with `dynamic-slice` and stores with
//! `dynamic-update-slice`, which happens in place, so that the work is linear. Where the scanned dimension is dynamic
//! arrays are at their bounds inside the loop, and the state ends with how many slices there are.

use super::draft::Draft;
use super::formula::scalar;
use super::sizes::{at_bounds, resized, size};
use crate::error::Result;
use crate::fusion::is_splat;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape};

/// What a scan is made of.
pub struct Scan {
    /// The computation.
    pub callee: ComputationId,
    /// The scanned dimension, and how many slices it has.
    pub axis: usize,
    /// See [`Scan::axis`].
    pub length: i64,
    /// From the last slice to the first.
    pub reverse: bool,
    /// The inputs.
    pub inputs: Vec<InstructionId>,
    /// The initial carries.
    pub carries: Vec<InstructionId>,
    /// Shapes of the outputs, as declared.
    pub outputs: Vec<ArrayShape>,
}

impl Scan {
    /// Reads a scan; `None` where slices or carries are dynamic or the computation takes its arguments in another order.
    pub fn of(rw: &Rewriter<'_>, id: InstructionId) -> Option<Scan> {
        let instruction = rw.instruction(id);
        let attrs = &instruction.attrs;
        let callee = attrs.computation(AttrKey::ToApply)?;
        let operands = &instruction.operands;
        let carries = attrs.int(AttrKey::NumCarries).map_or(Some(operands.len() / 2), |n| usize::try_from(n).ok())?;
        let (inputs, carries) = operands.split_at(operands.len().checked_sub(carries)?);
        let [axis] = attrs.dimension_numbers(AttrKey::Dimensions)[..] else { return None };
        let length = *rw.array(*inputs.first()?)?.dims.get(axis)?;
        let results = instruction.shape.as_tuple()?;
        let outputs = results.get(..results.len().checked_sub(carries.len())?)?;
        let outputs: Vec<ArrayShape> =
            outputs.iter().map(|s| s.as_array().map(|a| a.with_type(a.ty))).collect::<Option<_>>()?;
        let scan = Scan {
            callee,
            axis,
            length,
            reverse: attrs.bool(AttrKey::IsReverse).unwrap_or(false),
            inputs: inputs.to_vec(),
            carries: carries.to_vec(),
            outputs,
        };
        scan.fits(rw).then_some(scan)
    }

    /// Slice of an array across the scanned dimension.
    fn slice(&self, array: &ArrayShape) -> Option<Shape> {
        let mut dims = array.dims.clone();
        let whole = array.dynamic.iter().enumerate().all(|(d, &dynamic)| d == self.axis || !dynamic);
        (self.axis < dims.len() && dims[self.axis] == self.length && whole).then_some(())?;
        dims.remove(self.axis);
        Some(Shape::array(array.ty, dims))
    }

    /// Whether the computation takes and yields exactly the slices and carries.
    fn fits(&self, rw: &Rewriter<'_>) -> bool {
        let carry = |&c: &InstructionId| Some(rw.shape(c).without_layout());
        let carries: Vec<Option<Shape>> = self.carries.iter().map(carry).collect();
        let inputs = self.inputs.iter().map(|&i| self.slice(rw.array(i)?));
        let outputs = self.outputs.iter().map(|o| self.slice(o));
        let computation = &rw.module.computations[self.callee];
        let takes = computation.parameters().into_iter().map(|p| computation.instructions[p].shape.clone());
        let yields = match computation.result_shape() {
            Shape::Tuple(parts) => parts.to_vec(),
            single => vec![single.clone()],
        };
        let is_array = |s: &Option<Shape>| s.as_ref().is_some_and(|s| s.as_array().is_some_and(|a| !a.is_dynamic()));
        let same = |wanted: Vec<Option<Shape>>, found: Vec<Shape>| {
            let each =
                |(w, f): (&Option<Shape>, &Shape)| is_array(w) && w.as_ref().is_some_and(|w| w.same_ignoring_layout(f));
            wanted.len() == found.len() && wanted.iter().zip(&found).all(each)
        };
        same(inputs.chain(carries.clone()).collect(), takes.collect()) && same(outputs.chain(carries).collect(), yields)
    }
}

impl Scan {
    /// Whether every element of a slice goes its own way: slices and carries have the same dimensions, and the
    /// computation is elementwise on real numbers.
    fn is_elementwise(&self, rw: &Rewriter<'_>) -> bool {
        let computation = &rw.module.computations[self.callee];
        let mut dims = rw.dims(self.inputs[0]).to_vec();
        dims.remove(self.axis);
        let shape_of = |id: InstructionId| computation.instructions[id].shape.as_array();
        let scalar = |id: InstructionId| shape_of(id).is_some_and(|a| a.rank() == 0);
        computation.order.iter().all(|&i| {
            let instruction = &computation.instructions[i];
            let Some(array) = shape_of(i) else { return instruction.opcode == Opcode::Tuple };
            let whole = array.dims == dims;
            let fits = match instruction.opcode {
                Opcode::Parameter => whole,
                Opcode::Constant => {
                    let arrays = instruction.literal().map(|l| l.arrays());
                    array.rank() == 0 || whole && arrays.is_some_and(|a| a.into_iter().all(is_splat))
                }
                Opcode::Broadcast => whole && scalar(instruction.operands[0]),
                op if op.is_elementwise() => {
                    let like = |&o: &InstructionId| shape_of(o).is_some_and(|a| a.dims == array.dims);
                    (whole || array.rank() == 0) && instruction.operands.iter().all(like)
                }
                _ => false,
            };
            fits && !array.ty.is_complex() && !array.is_dynamic()
        }) && !dims.contains(&0)
    }
}

/// Expands `scan`; `None` where there is a kernel for it.
pub fn scan(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let Some(mut scan) = Scan::of(rw, id) else { return Ok(None) };
    let dynamic = scan.inputs.iter().copied().find(|&i| rw.array(i).is_some_and(ArrayShape::is_dynamic));
    if dynamic.is_none() && scan.length > 0 && scan.is_elementwise(rw) {
        return Ok(None);
    }
    let index = if scan.length <= i64::from(i32::MAX) { ElementType::S32 } else { ElementType::S64 };
    let mut started = Vec::new();
    for output in &scan.outputs {
        let zero = scalar(rw, output.ty, Scalar::Int(0));
        started.push(rw.broadcast_scalar(zero, &ArrayShape::new(output.ty, output.dims.clone())));
    }
    if scan.length == 0 && dynamic.is_none() {
        started.extend(&scan.carries);
        return Ok(Some(rw.tuple(started)));
    }
    let zero = scalar(rw, index, Scalar::Int(0));
    let count = dynamic.map(|input| size(rw, input, scan.axis, index));
    for input in &mut scan.inputs {
        *input = at_bounds(rw, *input);
    }
    let elements = [&[zero][..], &scan.inputs, &started, &scan.carries, count.as_slice()].concat();
    let init = rw.tuple(elements);
    let state = rw.shape(init).clone();
    let condition = {
        let mut d = Draft::new(rw.instruction(id).location);
        let state = d.parameter(0, state.clone());
        let parts = d.parts(state);
        let length = match (count, parts.last()) {
            (Some(_), Some(&count)) => count,
            _ => d.scalar(index, Scalar::Int(scan.length)),
        };
        let root = d.compare(parts[0], "LT", length);
        d.finish(rw.module, "scan_more", root)
    };
    let body = body(rw, id, &scan, index, &state)?;
    let attrs = Attrs::new()
        .with(AttrKey::Condition, AttrValue::Computation(condition))
        .with(AttrKey::Body, AttrValue::Computation(body));
    let last = rw.emit(Opcode::While, state, vec![init], attrs);
    let first = 1 + scan.inputs.len();
    let mut results: Vec<InstructionId> =
        (first..first + scan.outputs.len() + scan.carries.len()).map(|k| rw.element(last, k)).collect();
    if let Some(count) = count {
        let count = rw.convert(count, ElementType::S32);
        for (result, output) in results.iter_mut().zip(&scan.outputs) {
            *result = resized(rw, *result, scan.axis, count, output.dynamic[scan.axis]);
        }
    }
    Ok(Some(rw.tuple(results)))
}

fn body(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    scan: &Scan,
    index: ElementType,
    state: &Shape,
) -> Result<ComputationId> {
    let mut d = Draft::new(rw.instruction(id).location);
    let state = d.parameter(0, state.clone());
    let parts = d.parts(state);
    let Some((&counter, arrays)) = parts.split_first() else {
        return Err(crate::Error::Internal("a loop without a counter".to_owned()));
    };
    let (inputs, rest) = arrays.split_at(scan.inputs.len());
    let (outputs, rest) = rest.split_at(scan.outputs.len());
    let (carries, count) = rest.split_at(scan.carries.len());
    let zero = d.scalar(index, Scalar::Int(0));
    let at = if scan.reverse {
        let length = count.first().copied().unwrap_or_else(|| d.scalar(index, Scalar::Int(scan.length)));
        let after = d.op(Opcode::Subtract, &[length, counter]);
        let one = d.scalar(index, Scalar::Int(1));
        d.op(Opcode::Subtract, &[after, one])
    } else {
        counter
    };
    let place = |rank: usize| (0..rank).map(|k| if k == scan.axis { at } else { zero });
    let mut arguments = Vec::new();
    for &input in inputs {
        let Some(array) = d.shape(input).as_array().cloned() else { continue };
        let mut sizes = array.dims.clone();
        sizes[scan.axis] = 1;
        let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(sizes.clone()));
        let operands = [input].into_iter().chain(place(sizes.len())).collect();
        let thick = d.push(Opcode::DynamicSlice, Shape::array(array.ty, sizes.clone()), operands, attrs);
        sizes.remove(scan.axis);
        arguments.push(d.push(Opcode::Reshape, Shape::array(array.ty, sizes), vec![thick], Attrs::new()));
    }
    arguments.extend(carries);
    let root = d.inline(rw.module, scan.callee, &arguments)?;
    let results = d.parts(root);
    let (slices, next) = results.split_at(outputs.len());
    let one = d.scalar(index, Scalar::Int(1));
    let mut elements = vec![d.op(Opcode::Add, &[counter, one])];
    elements.extend(inputs);
    for (&output, &slice) in outputs.iter().zip(slices) {
        let shape = d.shape(output).clone();
        let Some(array) = shape.as_array() else { continue };
        let mut sizes = array.dims.clone();
        sizes[scan.axis] = 1;
        let rank = sizes.len();
        let thick = d.push(Opcode::Reshape, Shape::array(array.ty, sizes), vec![slice], Attrs::new());
        let operands = [output, thick].into_iter().chain(place(rank)).collect();
        elements.push(d.push(Opcode::DynamicUpdateSlice, shape, operands, Attrs::new()));
    }
    elements.extend(next);
    elements.extend(count);
    let root = d.tuple(elements);
    Ok(d.finish(rw.module, "scan_step", root))
}
