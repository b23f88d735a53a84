//! Loops and conditionals whose course is known.

use super::Found;
use crate::hlo::{AttrKey, InstructionId};
use crate::passes::loops;
use crate::passes::rewrite::{Effects, Rewriter};
use crate::passes::value;
use brolga_runtime::ElementType;

/// A loop that never runs is its initial state; one that runs once is a call of its body.
pub fn while_loop(rw: &mut Rewriter<'_>, id: InstructionId, effects: &Effects) -> Found {
    let init = rw.operand(id, 0)?;
    let attrs = &rw.instruction(id).attrs;
    let (Some(condition), Some(body)) = (attrs.computation(AttrKey::Condition), attrs.computation(AttrKey::Body))
    else {
        return Ok(None);
    };
    // A condition with an effect runs once more often than the body, and must.
    if effects.of_computation(condition) {
        return Ok(None);
    }
    match loops::trip_count(rw.module, rw.computation_id(), id) {
        Some(0) => Ok(Some(("loop that never runs", init))),
        Some(1) => Ok(Some(("loop that runs once", rw.call(body, vec![init])))),
        _ => Ok(None),
    }
}

/// A conditional on a constant is a call of one branch.
pub fn conditional(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let instruction = rw.instruction(id);
    let attrs = &instruction.attrs;
    let branches = match (attrs.computation(AttrKey::TrueComputation), attrs.computation(AttrKey::FalseComputation)) {
        (Some(yes), Some(no)) => vec![yes, no],
        _ => attrs.computations(AttrKey::BranchComputations).unwrap_or(&[]).to_vec(),
    };
    let Some(last) = branches.len().checked_sub(1) else { return Ok(None) };
    let chosen = if last == 0 {
        0
    } else {
        let Some(selector) = value::splat(rw.computation(), rw.operand(id, 0)?) else { return Ok(None) };
        match (selector.ty(), selector.int()) {
            (ElementType::Pred, Some(truth)) => usize::from(truth == 0),
            // An index out of range takes the last branch.
            (_, Some(index)) => usize::try_from(index).map_or(last, |i| i.min(last)),
            _ => return Ok(None),
        }
    };
    let (Some(&branch), Some(&argument)) = (branches.get(chosen), instruction.operands.get(chosen + 1)) else {
        return Ok(None);
    };
    Ok(Some(("decided conditional", rw.call(branch, vec![argument]))))
}
