//! Layouts: after this pass every array is row-major, and no instruction's shape carries a layout.
//!
//! Problem: HLO lets each array name the order of its dimensions in memory, and what they are padded to. Only four things in a
//! program see that: its callers, feeds, custom calls that constrain it, and `bitcast`; of padding its callers alone, for
//! the verifier refuses it elsewhere. Invariant: the rest of the compiler knows one order and no padding. Algorithm: an entry
//! parameter with another layout becomes a parameter of its *physical* shape (dimensions in the order of memory, slowest first, as
//! wide as they are padded), a transpose back and a slice that leaves the padding out; a result is transposed and padded to its
//! physical shape; all of them index maps, so that kernels read and write callers' memory in place. `ModuleConfig::abi` records
//! the logical shapes and layouts that callers see. `bitcast` becomes transpose, reshape,
//! transpose, with a `bitcast-convert` where the element type changes. A custom call gets its operands in the layouts of
//! its `operand_layout_constraints`, or else in those that they declare: in physical shapes, and the attribute, which
//! stays, says how they are meant; the logical shape of its result goes into `result_layout`; calls of LAPACK routines
//! need none of that, for their service reads matrices in either order. The layout in which an infeed's value arrives goes
//! into `infeed_shape`, as that of an outfeed's value stands in `outfeed_shape`. All other layouts have no meaning and
//! are dropped. Tiles, memory spaces and
//! element widths are notes to other machines and dropped too.

use super::Stats;
use super::rewrite::{Rewriter, append, rewrite, sort_computations};
use crate::error::{Error, Result};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, InstructionId, Module, Opcode, PaddingDimension, SliceRange, inverse, lapack,
};
use brolga_runtime::{ArrayShape, Shape};
use hashbrown::HashMap;

/// Makes every array row-major; layouts of entry parameters and results are kept for callers.
pub fn run(module: &mut Module) -> Result<Stats> {
    run_with(module, true)
}

/// As [`run`]; where `keep_entry_layouts` is false, callers pass row-major arrays whatever the module says.
pub fn run_with(module: &mut Module, keep_entry_layouts: bool) -> Result<Stats> {
    sort_computations(module)?;
    let mut stats = Stats::default();
    note_custom_calls(module);
    bitcasts(module, &mut stats)?;
    custom_calls(module, &mut stats)?;
    if module.config.abi.is_none() {
        let (parameters, result) = module.interface();
        let strip = |s: &Shape| s.without_layout();
        let seen = match keep_entry_layouts {
            true => (parameters, result),
            false => (parameters.iter().map(strip).collect(), strip(&result)),
        };
        entry_parameters(module, &seen.0, &mut stats)?;
        if is_laid_out(&seen.1) {
            let entry = module.entry;
            append(module, entry, |rw| {
                let root = rw.computation().root;
                store(rw, root, &seen.1)
            })?;
            stats.add("result in physical order", 1);
        }
        module.config.abi = Some(seen);
        module.config.entry_layout = None;
    }
    let mut stripped = 0;
    for id in module.order.clone() {
        let computation = &mut module.computations[id];
        for &i in &computation.order {
            let instruction = &mut computation.instructions[i];
            if instruction.opcode == Opcode::Infeed
                && instruction.attrs.shape(AttrKey::InfeedShape).is_none()
                && let Some(data) = instruction.infeed_shape().filter(|data| is_laid_out(data)).cloned()
            {
                instruction.attrs.set(AttrKey::InfeedShape, AttrValue::Shape(data));
                stats.add("layout of an infeed noted", 1);
            }
            if instruction.shape.leaves().iter().any(|leaf| layout_of(leaf).is_some()) {
                instruction.shape = instruction.shape.without_layout();
                stripped += 1;
            }
        }
    }
    stats.add("layouts dropped", stripped);
    Ok(stats)
}

fn layout_of(leaf: &Shape) -> Option<&brolga_runtime::Layout> {
    match leaf {
        Shape::Array(a) | Shape::Buffer(a) => a.layout.as_ref(),
        _ => None,
    }
}

/// The dimensions in the order of memory, slowest first.
fn order_in_memory(array: &ArrayShape) -> Vec<usize> {
    array.minor_to_major().into_iter().rev().collect()
}

/// Whether any part of the shape lies otherwise than dense and row-major.
fn is_laid_out(shape: &Shape) -> bool {
    shape.leaves().iter().any(|leaf| leaf.as_array().is_some_and(|a| !a.is_dense_row_major()))
}

/// The row-major shape that has the same bytes as `shape` in its layout: dimensions in the order of memory, as wide as they are
/// padded.
pub fn physical(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(array) => Shape::Array(physical_array(array)),
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(physical).collect()),
        other => other.without_layout(),
    }
}

fn physical_array(array: &ArrayShape) -> ArrayShape {
    let order = order_in_memory(array);
    let in_order = |values: &[i64]| order.iter().filter_map(|&d| values.get(d).copied()).collect();
    let dynamic = order.iter().filter_map(|&d| array.dynamic.get(d).copied()).collect();
    ArrayShape { ty: array.ty, dims: in_order(array.widths()), dynamic, layout: None }
}

/// Emits the logical value of `value`, which has the physical form of `shape`.
fn load(rw: &mut Rewriter<'_>, value: InstructionId, shape: &Shape) -> Result<InstructionId> {
    convert(rw, value, shape, &|rw, value, array| {
        let order = order_in_memory(array);
        let value = if order.is_sorted() { value } else { rw.transpose(value, &inverse(&order)) };
        Ok(if array.is_padded() { without_padding(rw, value, array) } else { value })
    })
}

/// Emits the physical form of `shape` of a logical value.
fn store(rw: &mut Rewriter<'_>, value: InstructionId, shape: &Shape) -> Result<InstructionId> {
    convert(rw, value, shape, &|rw, value, array| {
        let order = order_in_memory(array);
        let value = if order.is_sorted() { value } else { rw.transpose(value, &order) };
        if array.is_padded() { with_padding(rw, value, array) } else { Ok(value) }
    })
}

/// The elements of `array` among those of its padded form.
fn without_padding(rw: &mut Rewriter<'_>, value: InstructionId, array: &ArrayShape) -> InstructionId {
    let ranges = array.dims.iter().map(|&limit| SliceRange { start: 0, limit, stride: 1 }).collect();
    let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
    let shape = ArrayShape { layout: None, ..array.clone() };
    rw.emit(Opcode::Slice, Shape::Array(shape), vec![value], attrs)
}

/// A value whose dimensions are in the order of memory, padded as `array` says.
fn with_padding(rw: &mut Rewriter<'_>, value: InstructionId, array: &ArrayShape) -> Result<InstructionId> {
    let padding = array.layout.as_ref().map(|l| l.padding_value).unwrap_or_default();
    let Some(element) = padding.element(array.ty) else {
        return Err(Error::Internal(format!("{} has no padding value {}", array.ty, padding.name())));
    };
    let target = physical_array(array);
    let sizes = target.dims.iter().zip(rw.dims(value));
    let dimensions = sizes.map(|(width, size)| PaddingDimension { low: 0, high: width - size, interior: 0 }).collect();
    let element = rw.constant(element.into());
    let attrs = Attrs::new().with(AttrKey::Padding, AttrValue::Padding(dimensions));
    Ok(rw.emit(Opcode::Pad, Shape::Array(target), vec![value, element], attrs))
}

/// Applies `change` to each array of a value that lies otherwise than dense and row-major.
fn convert(
    rw: &mut Rewriter<'_>,
    value: InstructionId,
    shape: &Shape,
    change: &dyn Fn(&mut Rewriter<'_>, InstructionId, &ArrayShape) -> Result<InstructionId>,
) -> Result<InstructionId> {
    if !is_laid_out(shape) {
        return Ok(value);
    }
    Ok(match shape {
        Shape::Array(array) => change(rw, value, array)?,
        Shape::Tuple(elements) => {
            let mut parts = Vec::with_capacity(elements.len());
            for (k, element) in elements.iter().enumerate() {
                let part = rw.element(value, k);
                parts.push(convert(rw, part, element, change)?);
            }
            rw.tuple(parts)
        }
        _ => value,
    })
}

fn entry_parameters(module: &mut Module, shapes: &[Shape], stats: &mut Stats) -> Result<()> {
    let entry = module.entry;
    rewrite(module, entry, |rw, id| {
        if rw.opcode(id) != Opcode::Parameter {
            return Ok(None);
        }
        let shape = rw.instruction(id).parameter_number().and_then(|n| shapes.get(n));
        let Some(shape) = shape.filter(|s| is_laid_out(s)) else { return Ok(None) };
        let mut parameter = rw.instruction(id).clone();
        parameter.shape = physical(shape);
        let new = rw.push(parameter);
        // The new parameter is the one that callers know by name.
        let old_name = std::mem::take(&mut rw.instruction_mut(id).name);
        let spare = std::mem::replace(&mut rw.instruction_mut(new).name, old_name);
        rw.instruction_mut(id).name = spare;
        stats.add("parameter in physical order", 1);
        Ok(Some(load(rw, new, shape)?))
    })
}

fn bitcasts(module: &mut Module, stats: &mut Stats) -> Result<()> {
    for id in module.order.clone() {
        // Rewriting replaces operands by values without layouts: note what each bitcast reads beforehand.
        let computation = &module.computations[id];
        let operand_shape = |i: InstructionId| {
            let operand = computation.instructions[i].operands.first()?;
            Some((i, computation.instructions[*operand].shape.clone()))
        };
        let bitcast = |i: &InstructionId| computation.instructions[*i].opcode == Opcode::Bitcast;
        let sources: HashMap<InstructionId, Shape> =
            computation.order.iter().copied().filter(bitcast).filter_map(operand_shape).collect();
        if sources.is_empty() {
            continue;
        }
        rewrite(module, id, |rw, i| {
            let Some(source) = sources.get(&i) else { return Ok(None) };
            let target = rw.shape(i).clone();
            let operand = rw.operand(i, 0)?;
            let new = match (source, &target) {
                (Shape::Array(from), Shape::Array(to)) if !from.is_dynamic() && !to.is_dynamic() => {
                    bitcast_array(rw, i, operand, from, to)?
                }
                _ if source.same_ignoring_layout(&target) => operand,
                _ => {
                    let feature = format!("bitcast of {source} to {target}");
                    return Err(Error::Unsupported { site: rw.site(i), feature });
                }
            };
            stats.add("bitcast", 1);
            Ok(Some(new))
        })?;
    }
    Ok(())
}

fn bitcast_array(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    operand: InstructionId,
    from: &ArrayShape,
    to: &ArrayShape,
) -> Result<InstructionId> {
    let bits = |a: &ArrayShape| a.checked_elements().and_then(|n| n.checked_mul(a.ty.bits() as usize));
    let (Some(n), Some(m)) = (from.checked_elements(), to.checked_elements()) else {
        return Err(Error::Unsupported { site: rw.site(id), feature: "an array of this size".to_owned() });
    };
    if bits(from) != bits(to) {
        return Err(Error::Invalid {
            site: rw.site(id),
            constraint: "bitcast.size",
            message: format!("a bitcast keeps the number of bits: {from:#} has another than {to:#}"),
        });
    }
    let source = store(rw, operand, &Shape::Array(from.clone()))?;
    let Shape::Array(target) = physical(&Shape::Array(to.clone())) else { return Ok(operand) };
    let (n, m) = (n as i64, m as i64);
    let recast = |rw: &mut Rewriter<'_>, value, dims: &[i64]| {
        let shape = Shape::array(to.ty, dims);
        rw.emit(Opcode::BitcastConvert, shape, vec![value], Attrs::new())
    };
    let bytes = if from.ty == to.ty {
        source
    } else if from.ty.bits() == to.ty.bits() {
        let dims = rw.dims(source).to_vec();
        recast(rw, source, &dims)
    } else if from.ty.bits() > to.ty.bits() {
        let flat = rw.reshape(source, &[n]);
        recast(rw, flat, &[n, i64::from(from.ty.bits() / to.ty.bits())])
    } else {
        let flat = rw.reshape(source, &[m, i64::from(to.ty.bits() / from.ty.bits())]);
        recast(rw, flat, &[m])
    };
    let shaped = rw.reshape(bytes, &target.dims);
    load(rw, shaped, &Shape::Array(to.clone()))
}

/// A custom call without `operand_layout_constraints` wants what its result and its operands declare. That is noted as
/// constraints before anything moves, where it is not row-major.
fn note_custom_calls(module: &mut Module) {
    for id in module.order.clone() {
        let computation = &mut module.computations[id];
        for i in computation.order.clone() {
            let call = &computation.instructions[i];
            let attrs = &call.attrs;
            let stated = attrs.get(AttrKey::OperandLayoutConstraints).or(attrs.get(AttrKey::ResultLayout)).is_some();
            if call.opcode != Opcode::CustomCall || stated {
                continue;
            }
            let wanted: Vec<Shape> = call.operands.iter().map(|&o| computation.instructions[o].shape.clone()).collect();
            if wanted.iter().chain([&call.shape]).any(is_laid_out) {
                let wanted = AttrValue::Shapes(wanted);
                computation.instructions[i].attrs.set(AttrKey::OperandLayoutConstraints, wanted);
            }
        }
    }
}

/// Custom calls that say which layouts they want get them.
fn custom_calls(module: &mut Module, stats: &mut Stats) -> Result<()> {
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            let instruction = rw.instruction(i);
            if instruction.opcode != Opcode::CustomCall || instruction.attrs.raw(AttrKey::ResultLayout).is_some() {
                return Ok(None);
            }
            if lapack(instruction)?.is_some() {
                return Ok(None);
            }
            let Some(AttrValue::Shapes(wanted)) = instruction.attrs.get(AttrKey::OperandLayoutConstraints) else {
                return Ok(None);
            };
            let wanted = wanted.clone();
            let result = instruction.shape.clone();
            let (mut call, mut operands) = (instruction.clone(), instruction.operands.clone());
            if wanted.len() != operands.len() || !wanted.iter().chain([&result]).any(is_laid_out) {
                return Ok(None);
            }
            for (operand, shape) in operands.iter_mut().zip(&wanted) {
                *operand = store(rw, *operand, shape)?;
            }
            call.operands = operands;
            call.shape = physical(&result);
            call.attrs.set(AttrKey::ResultLayout, AttrValue::Raw(format!("{{{result}}}")));
            let new = rw.push(call);
            rw.control_also_after(i, vec![new]);
            stats.add("custom call in physical order", 1);
            Ok(Some(load(rw, new, &result)?))
        })?;
    }
    Ok(())
}
