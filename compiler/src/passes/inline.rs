//! Inlining of calls and fusion computations.
//!
//! Problem: exporters wrap nearly everything in `call` (composites included), and optimised HLO in `fusion`; Brolga
//! forms its own kernels and wants to see one flat graph. Invariant: no computation grows without bound. Algorithm:
//! callees first, so that what is copied has nothing left to inline. A computation with a single call site moves for
//! free. All others draw on one budget for the module, [`BUDGET_FLOOR`] instructions or [`BUDGET_FACTOR`] times what
//! the module holds: a chain of computations that call the next one twice stops growing there, and what is left stays
//! a call. A fusion that is left becomes a plain call.

use super::Stats;
use super::rewrite::{Effects, Rewriter, rewrite, sort_computations};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, ComputationId, InstructionId, Module, Opcode};
use cranelift_entity::SecondaryMap;

/// Instructions that inlining may add to any module.
pub const BUDGET_FLOOR: usize = 20_000;

/// Times the module's own instructions that inlining may add to it.
pub const BUDGET_FACTOR: usize = 4;

/// Instructions that inlining may add to a module.
pub fn budget(module: &Module) -> usize {
    let total: usize = module.order.iter().map(|&c| module.computations[c].order.len()).sum();
    BUDGET_FLOOR.max(total.saturating_mul(BUDGET_FACTOR))
}

/// Inlines calls and fusions within the module's budget.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut budget = budget(module);
    run_within(module, &mut budget)
}

/// As [`run`], drawing on a budget that earlier runs have drawn on.
pub fn run_within(module: &mut Module, budget: &mut usize) -> Result<Stats> {
    sort_computations(module)?;
    let mut stats = Stats::default();
    let effects = Effects::of(module);
    let mut sites: SecondaryMap<ComputationId, usize> = SecondaryMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        for &i in &computation.order {
            for callee in computation.instructions[i].attrs.called() {
                sites[callee] += 1;
            }
        }
    }
    for caller in module.order.clone() {
        let computation = &module.computations[caller];
        if !computation.order.iter().any(|&i| callee(module, caller, i).is_some()) {
            continue;
        }
        rewrite(module, caller, |rw, id| {
            let Some(target) = callee(rw.module, caller, id) else { return Ok(None) };
            let instruction = rw.instruction(id);
            if !signature_matches(rw, id, target) {
                return Ok(None);
            }
            let size = rw.module.computations[target].order.len().saturating_sub(instruction.operands.len() + 1);
            if sites[target] > 1 {
                if size > *budget {
                    let instruction = rw.instruction_mut(id);
                    if instruction.opcode == Opcode::Fusion {
                        instruction.opcode = Opcode::Call;
                        let keys = [AttrKey::FusionKind, AttrKey::Calls, AttrKey::OutputToOperandAliasing];
                        keys.into_iter().for_each(|key| drop(instruction.attrs.remove(key)));
                        instruction.attrs.set(AttrKey::ToApply, AttrValue::Computation(target));
                        stats.add("fusion made a call", 1);
                    }
                    return Ok(None);
                }
                *budget -= size;
            }
            let arguments = instruction.operands.clone();
            let before = instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
            let (root, copies) = rw.inline(target, &arguments)?;
            if effects.of_computation(target) {
                let ordered: Vec<InstructionId> =
                    copies.into_iter().filter(|&c| effects.of_instruction(rw.instruction(c))).collect();
                for &copy in &ordered {
                    rw.add_control_predecessors(copy, &before);
                }
                rw.control_also_after(id, ordered);
            }
            stats.add("inlined", 1);
            Ok(Some(root))
        })?;
    }
    sort_computations(module)?;
    Ok(stats)
}

/// Whether arguments and result have exactly the callee's shapes. A callee with other dynamic marks reads its sizes
/// in another way than the caller stores them, and so stays a function of its own.
fn signature_matches(rw: &Rewriter<'_>, id: InstructionId, target: ComputationId) -> bool {
    let callee = &rw.module.computations[target];
    let parameters = callee.parameters();
    let operands = &rw.instruction(id).operands;
    let same =
        |(&p, &o): (&InstructionId, &InstructionId)| callee.instructions[p].shape.same_ignoring_layout(rw.shape(o));
    parameters.len() == operands.len()
        && parameters.iter().zip(operands).all(same)
        && callee.result_shape().same_ignoring_layout(rw.shape(id))
}

/// What a call or a fusion calls.
fn callee(module: &Module, caller: ComputationId, id: InstructionId) -> Option<ComputationId> {
    let instruction = module.instruction(caller, id);
    match instruction.opcode {
        Opcode::Call => instruction.attrs.computation(AttrKey::ToApply),
        Opcode::Fusion => instruction.attrs.computation(AttrKey::Calls),
        _ => None,
    }
}
