//! Markers: custom calls that say something to a partitioner or a memory planner and compute nothing.
//!
//! Problem: JAX and XLA annotate programs with calls that have no function behind them. Invariant: what they annotate is
//! what they return. Algorithm: where the shapes agree a marker is replaced by its operand, or by a copy where its
//! layout is another, so that whoever looks at layouts later sees the one that the text names. A marker that starts or
//! ends a marked region wraps its operands in a tuple. Fresh buffers, whose contents are anyone's guess, are zeros. A
//! marker over several devices changes the shape; it stays, and has no compiled form.

use super::Stats;
use super::rewrite::{Rewriter, rewrite, sort_computations};
use crate::custom_call::{is_fresh_buffer, is_marker};
use crate::error::Result;
use crate::hlo::{AttrKey, Attrs, InstructionId, Module, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, Shape};

/// Removes markers.
pub fn run(module: &mut Module) -> Result<Stats> {
    sort_computations(module)?;
    let mut stats = Stats::default();
    for computation in module.order.clone() {
        let order = &module.computations[computation].order;
        if !order.iter().any(|&i| module.computations[computation].instructions[i].opcode == Opcode::CustomCall) {
            continue;
        }
        rewrite(module, computation, |rw, id| {
            if rw.opcode(id) != Opcode::CustomCall {
                return Ok(None);
            }
            let target = rw.instruction(id).attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
            let new = if is_marker(target) {
                replacement(rw, id)
            } else if is_fresh_buffer(target) && rw.instruction(id).operands.is_empty() {
                zeros(rw, id)
            } else {
                None
            };
            if new.is_some() {
                // What waited for the marker waits for what the marker waited for.
                let waits = rw.instruction(id).attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
                rw.control_also_after(id, waits);
                stats.add("marker", 1);
            }
            Ok(new)
        })?;
    }
    Ok(stats)
}

fn replacement(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let (shape, operands) = (rw.shape(id).clone(), rw.instruction(id).operands.clone());
    if let [operand] = operands[..]
        && rw.shape(operand).same_ignoring_layout(&shape)
    {
        return Some(with_layout(rw, operand, &shape));
    }
    let elements = shape.as_tuple()?;
    // `xla.sdy.ShardingGroup` and its like return nothing.
    if elements.is_empty() {
        return Some(rw.tuple(Vec::new()));
    }
    let same = elements.len() == operands.len()
        && elements.iter().zip(&operands).all(|(e, &o)| rw.shape(o).same_ignoring_layout(e));
    if !same {
        return None;
    }
    let parts = elements.iter().zip(operands).map(|(e, o)| with_layout(rw, o, e)).collect();
    Some(rw.tuple(parts))
}

/// A value in the layout of `shape`.
fn with_layout(rw: &mut Rewriter<'_>, value: InstructionId, shape: &Shape) -> InstructionId {
    match (rw.shape(value), shape) {
        (Shape::Array(have), Shape::Array(want)) if !have.same_memory(want) => {
            rw.emit(Opcode::Copy, shape.clone(), vec![value], Attrs::new())
        }
        _ => value,
    }
}

fn zeros(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let array = rw.shape(id).as_array().filter(|a| !a.is_dynamic())?.clone();
    let zero = ArrayLiteral::zeros(&ArrayShape::new(array.ty, []));
    let zero = rw.constant(zero.into());
    Some(rw.broadcast_scalar(zero, &array))
}
