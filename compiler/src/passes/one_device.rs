//! Collectives of a program that runs on one device.
//!
//! Problem: programs written for many devices are compiled for one, and compiled code has no other device to talk to.
//! Invariant: a module that says several replicas or partitions is left alone, and so is a collective whose groups or
//! pairs name another device or whose shapes need one; what is replaced means what the interpreter makes of it on a
//! device alone. Algorithm: exchanging with oneself yields the operands, a permutation without a sender zeros, a number
//! of this device 0, and a ragged exchange copies rows within the device, one selection over the output for each slice.
//! It runs when asynchronous forms are gone.

use super::Stats;
use super::expand::formula::{compare, iota, pick};
use super::rewrite::{Rewriter, rewrite};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, Category, Instruction, InstructionId, Module, Opcode};
use crate::shape::{parse_replica_groups, parse_source_target_pairs};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Shape};

/// A ragged exchange of more slices keeps its form: each slice looks at every row of the output.
const MAX_SLICES: usize = 64;

/// Replaces the collectives of a program for one device.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let several = |count: Option<i64>| count.is_some_and(|n| n > 1);
    if several(module.config.replica_count) || several(module.config.num_partitions) {
        return Ok(stats);
    }
    for id in module.order.clone() {
        let computation = &module.computations[id];
        let collective = |&i: &InstructionId| computation.instructions[i].opcode.category() == Category::Collective;
        if !computation.order.iter().any(collective) {
            continue;
        }
        rewrite(module, id, |rw, i| {
            let inst = rw.instruction(i);
            if inst.opcode.category() != Category::Collective || names_another(inst) {
                return Ok(None);
            }
            let new = alone(rw, i).filter(|&new| rw.shape(new).same_ignoring_layout(rw.shape(i)));
            if new.is_some() {
                // What waited for the exchange waits for what the exchange waited for.
                let waits = rw.instruction(i).attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
                rw.control_also_after(i, waits);
                stats.add("collectives of one device", 1);
            }
            Ok(new)
        })?;
    }
    Ok(stats)
}

/// The device of a program for one device has the number 0, however devices are numbered.
fn names_another(inst: &Instruction) -> bool {
    let groups = inst.attrs.raw(AttrKey::ReplicaGroups).map(parse_replica_groups);
    let pairs = inst.attrs.raw(AttrKey::SourceTargetPairs).map(parse_source_target_pairs);
    let groups = groups.is_some_and(|list| list.map_or(true, |groups| groups.iter().flatten().any(|&n| n != 0)));
    groups || pairs.is_some_and(|list| list.map_or(true, |pairs| pairs.iter().any(|&pair| pair != (0, 0))))
}

/// What a collective yields on a device alone; `None` where it needs others, or has no form.
fn alone(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let mut values = rw.instruction(id).operands.clone();
    match rw.opcode(id) {
        Opcode::ReplicaId | Opcode::PartitionId => {
            let zero = ArrayLiteral::zeros(&ArrayShape::new(ElementType::U32, []));
            return Some(rw.constant(zero.into()));
        }
        Opcode::RaggedAllToAll => return ragged(rw, &values),
        Opcode::CollectivePermute => {
            let attrs = &rw.instruction(id).attrs;
            // The form that writes into a buffer in place.
            if attrs.get(AttrKey::SliceSizesPerDevice).is_some() {
                return None;
            }
            let pairs = attrs.raw(AttrKey::SourceTargetPairs).map(parse_source_target_pairs);
            if !matches!(pairs, Some(Ok(pairs)) if !pairs.is_empty()) {
                for value in &mut values {
                    let array = rw.array(*value).filter(|a| !a.is_dynamic()).cloned()?;
                    *value = rw.splat(ArrayLiteral::zeros(&ArrayShape::new(array.ty, [])), &array);
                }
            }
        }
        _ => {}
    }
    match values[..] {
        [only] if !matches!(rw.shape(id), Shape::Tuple(_)) => Some(only),
        _ => Some(rw.tuple(values)),
    }
}

/// Input, output, input offsets, sizes sent, output offsets, sizes received: row `r` of the output is row
/// `r - to + from` of the input where a slice of `count` rows goes `to` the output, and is left as it is elsewhere.
fn ragged(rw: &mut Rewriter<'_>, operands: &[InstructionId]) -> Option<InstructionId> {
    let [input, output, from, count, to, _] = operands[..] else { return None };
    let arrays: Option<Vec<ArrayShape>> = operands.iter().map(|&o| rw.array(o).cloned()).collect();
    let arrays = arrays.filter(|list| !list.iter().any(ArrayShape::is_dynamic))?;
    let (source, target, slices) = (&arrays[0], &arrays[1], arrays[2].elements());
    let rows_agree = source.rank() > 0 && target.rank() > 0 && source.dims[1..] == target.dims[1..];
    if !rows_agree || source.ty != target.ty || slices > MAX_SLICES {
        return None;
    }
    if source.elements() == 0 || target.elements() == 0 {
        return Some(output);
    }
    let rows = ArrayShape::new(ElementType::S64, [target.dims[0]]);
    let row = iota(rw, ElementType::S64, &rows.dims, 0);
    let numbers = [from, count, to].map(|operand| {
        let flat = rw.reshape(operand, &[slices as i64]);
        rw.convert(flat, ElementType::S64)
    });
    let zero = rw.splat(ArrayLiteral::zeros(&ArrayShape::new(ElementType::S64, [])), &rows);
    let mut out = output;
    for k in 0..slices as i64 {
        let [from, count, to] = numbers.map(|list| {
            let one = pick(rw, list, k);
            rw.broadcast_scalar(one, &rows)
        });
        let place = rw.elementwise(Opcode::Subtract, vec![row, to]);
        let (after, before) = (compare(rw, place, "GE", zero), compare(rw, place, "LT", count));
        let inside = rw.elementwise(Opcode::And, vec![after, before]);
        let inside = rw.broadcast(inside, &target.with_type(ElementType::Pred), vec![0]);
        let place = rw.elementwise(Opcode::Add, vec![place, from]);
        let moved = take_rows(rw, input, source, place, target);
        out =
            rw.emit(Opcode::Select, Shape::Array(target.with_type(target.ty)), vec![inside, moved, out], Attrs::new());
    }
    Some(out)
}

/// The rows of `input` that the vector `rows` names, the nearest where there is none of that number.
fn take_rows(
    rw: &mut Rewriter<'_>,
    input: InstructionId,
    source: &ArrayShape,
    rows: InstructionId,
    target: &ArrayShape,
) -> InstructionId {
    let mut sizes = source.dims.clone();
    sizes[0] = 1;
    let attrs = Attrs::new()
        .with(AttrKey::OffsetDims, AttrValue::Ints((1..source.rank() as i64).collect()))
        .with(AttrKey::CollapsedSliceDims, AttrValue::Ints(vec![0]))
        .with(AttrKey::StartIndexMap, AttrValue::Ints(vec![0]))
        .with(AttrKey::IndexVectorDim, AttrValue::Int(1))
        .with(AttrKey::SliceSizes, AttrValue::Ints(sizes));
    rw.emit(Opcode::Gather, Shape::Array(target.with_type(target.ty)), vec![input, rows], attrs)
}
