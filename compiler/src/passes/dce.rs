//! Removal of what nobody needs.
//!
//! Problem: other passes leave unused instructions and computations behind. Invariant: parameters, the root,
//! instructions with an effect (their own or of a computation they call), optimization barriers and whatever these
//! need, control predecessors included, all stay. Algorithm: one backward sweep over each computation's post-order.

use super::Stats;
use super::rewrite::{Effects, sort_computations};
use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId, Module, Opcode};
use cranelift_entity::EntitySet;

/// Removes dead instructions and unreachable computations.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let computations = module.order.len();
    sort_computations(module)?;
    let effects = Effects::of(module);
    for id in module.order.clone() {
        let computation = &mut module.computations[id];
        let mut live: EntitySet<InstructionId> = EntitySet::new();
        live.insert(computation.root);
        for &i in computation.order.iter().rev() {
            let instruction = &computation.instructions[i];
            let kept = matches!(instruction.opcode, Opcode::Parameter | Opcode::OptimizationBarrier);
            if kept || live.contains(i) || effects.of_instruction(instruction) {
                live.insert(i);
                live.extend(instruction.operands.iter().copied());
                live.extend(
                    instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).iter().copied(),
                );
            }
        }
        let before = computation.order.len();
        computation.order.retain(|&i| live.contains(i));
        stats.add("dead instructions", before - computation.order.len());
    }
    sort_computations(module)?;
    stats.add("unreachable computations", computations.saturating_sub(module.order.len()));
    Ok(stats)
}
