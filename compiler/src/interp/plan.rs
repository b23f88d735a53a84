//! Which instructions of a computation run, and when each value dies.
//!
//! Problem: what nobody needs may not even have a function to call, and values that live too long cannot be worked on in
//! place. Invariant: the rule is that of compiled code (`passes/dce.rs`): parameters, the root, what has an effect,
//! itself or in a computation that it calls, barriers, and whatever these need run, and nothing else does. Algorithm:
//! one sweep backwards.

use super::MAX_CALL_DEPTH;
use crate::hlo::{AttrKey, Computation, ComputationId, Instruction, InstructionId, Module, Opcode};
use cranelift_entity::SecondaryMap;
use std::collections::HashSet;

/// Which computations have an effect, as far as somebody has asked.
pub(super) type Effects = SecondaryMap<ComputationId, Option<bool>>;

/// How a computation is walked.
pub(super) struct Plan {
    /// What runs, operands before users.
    pub order: Vec<InstructionId>,
    /// By position in the order: a `get-tuple-element` that nobody follows in asking for the same element, which may
    /// therefore be taken out of the tuple.
    pub taking: Vec<bool>,
    /// By position in the order: values whose last use is there, the position's own where nobody uses it.
    pub dying: Vec<Vec<InstructionId>>,
}

impl Plan {
    pub(super) fn new(module: &Module, computation: &Computation, effects: &mut Effects) -> Plan {
        let order = needed(module, computation, effects);
        let mut dying = vec![Vec::new(); order.len()];
        let mut seen = HashSet::from([computation.root]);
        for (position, &id) in order.iter().enumerate().rev() {
            for &operand in std::iter::once(&id).chain(&computation.instructions[id].operands) {
                if seen.insert(operand) {
                    dying[position].push(operand);
                }
            }
        }
        let taking = taking(computation, &order);
        Plan { dying, taking: order.iter().map(|id| taking.contains(id)).collect(), order }
    }
}

/// What runs of a computation.
fn needed(module: &Module, computation: &Computation, effects: &mut Effects) -> Vec<InstructionId> {
    let mut needed = HashSet::from([computation.root]);
    for &id in computation.order.iter().rev() {
        let inst = &computation.instructions[id];
        let kept = matches!(inst.opcode, Opcode::Parameter | Opcode::OptimizationBarrier);
        if kept || needed.contains(&id) || has_effect(module, inst, effects, 0) {
            needed.insert(id);
            needed.extend(&inst.operands);
            needed.extend(inst.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]));
        }
    }
    computation.order.iter().copied().filter(|id| needed.contains(id)).collect()
}

/// Whether an instruction has an effect of its own or through a computation that it calls. Asynchronous forms of other
/// operations have those of what they wrap.
fn has_effect(module: &Module, inst: &Instruction, effects: &mut Effects, depth: usize) -> bool {
    use Opcode::{AsyncDone, AsyncStart, AsyncUpdate, CopyDone, CopyStart};
    let wraps = matches!(inst.opcode, AsyncStart | AsyncUpdate | AsyncDone | CopyStart | CopyDone);
    !wraps && inst.has_side_effect()
        || inst.attrs.called().iter().any(|&callee| {
            if let Some(known) = effects[callee] {
                return known;
            }
            // What is nested deeper cannot run; nor does a computation that calls itself.
            let computation = &module.computations[callee];
            let found = depth >= MAX_CALL_DEPTH
                || computation.order.iter().any(|&i| {
                    effects[callee] = Some(true);
                    has_effect(module, &computation.instructions[i], effects, depth + 1)
                });
            effects[callee] = Some(found);
            found
        })
}

/// See [`Plan::taking`].
fn taking(computation: &Computation, order: &[InstructionId]) -> HashSet<InstructionId> {
    let mut whole = HashSet::from([computation.root]);
    let mut seen = HashSet::new();
    let mut out = HashSet::new();
    for &id in order.iter().rev() {
        let inst = &computation.instructions[id];
        match (inst.opcode, &inst.operands[..]) {
            (Opcode::GetTupleElement, [tuple]) => {
                if seen.insert((*tuple, inst.attrs.int(AttrKey::Index))) {
                    out.insert(id);
                }
            }
            // Somebody after this position wants the tuple as a whole; those before may not take from it.
            _ => whole.extend(&inst.operands),
        }
    }
    out.retain(|&id| !whole.contains(&computation.instructions[id].operands[0]));
    out
}
