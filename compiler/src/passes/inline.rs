//! Inlining of calls and fusion computations.
//!
//! Problem: exporters wrap nearly everything in `call` (composites included), and optimised HLO in `fusion`; Brolga
//! forms its own kernels and wants to see one flat graph. Invariant: no computation grows without bound. Algorithm:
//! callees first, so that what is copied has nothing left to inline. A computation with a single call site moves for
//! free, with all that moves into it, in one go: in a chain of thousands that call one the next, each instruction moves once.
//! All others draw on one budget for the module, [`BUDGET_FLOOR`] instructions or [`BUDGET_FACTOR`] times what
//! the module holds: a chain of computations that call the next one twice stops growing there, and what is left stays
//! a call. A fusion that is left becomes a plain call.

use super::Stats;
use super::rewrite::{Effects, Rewriter, rewrite, sort_computations};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};
use hashbrown::HashMap;

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
    let mut sites: SecondaryMap<ComputationId, usize> = SecondaryMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        for &i in &computation.order {
            for callee in computation.instructions[i].attrs.called() {
                sites[callee] += 1;
            }
        }
    }
    let moving = moving(module, &sites);
    let mut inliner = Inliner { effects: Effects::of(module), sites, budget, stats: Stats::default() };
    for caller in module.order.clone() {
        let computation = &module.computations[caller];
        let calls = |&i: &InstructionId| callee(&computation.instructions[i]).is_some();
        if moving[caller] || !computation.order.iter().any(calls) {
            continue;
        }
        rewrite(module, caller, |rw, id| {
            let instruction = rw.instruction(id);
            match inliner.decide(rw, instruction) {
                Decision::Keep => Ok(None),
                Decision::Demote => {
                    inliner.demote(rw.instruction_mut(id));
                    Ok(None)
                }
                Decision::Inline(target, cost) => {
                    *inliner.budget -= cost;
                    let (arguments, before) = (instruction.operands.clone(), predecessors(instruction));
                    let (root, ordered) = inliner.splice(rw, id, target, arguments, before)?;
                    if !ordered.is_empty() {
                        rw.control_also_after(id, ordered);
                    }
                    Ok(Some(root))
                }
            }
        })?;
    }
    let stats = inliner.stats;
    sort_computations(module)?;
    Ok(stats)
}

/// The computations that move: one call or fusion with their very signature is all that names them.
fn moving(module: &Module, sites: &SecondaryMap<ComputationId, usize>) -> SecondaryMap<ComputationId, bool> {
    let mut out = SecondaryMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        for instruction in computation.order.iter().map(|&i| &computation.instructions[i]) {
            if let Some(target) = callee(instruction) {
                out[target] = sites[target] == 1 && signature_matches(module, id, instruction, target);
            }
        }
    }
    out
}

/// What becomes of an instruction.
enum Decision {
    /// Nothing.
    Keep,
    /// A fusion that the budget has no room for: it becomes a call.
    Demote,
    /// The body of the computation takes its place, at this cost.
    Inline(ComputationId, usize),
}

/// What a sweep shares.
struct Inliner<'b> {
    effects: Effects,
    sites: SecondaryMap<ComputationId, usize>,
    budget: &'b mut usize,
    stats: Stats,
}

/// A body that is being put in place of a call.
struct Frame {
    /// The call, under its name in the body around.
    call: InstructionId,
    /// What the call waited for.
    before: Vec<InstructionId>,
    arguments: Vec<InstructionId>,
    /// The instructions that are left.
    rest: std::vec::IntoIter<(InstructionId, Instruction)>,
    root: InstructionId,
    /// What the instructions became.
    map: SecondaryMap<InstructionId, PackedOption<InstructionId>>,
    /// What else to wait for where a call is waited for.
    also_after: HashMap<InstructionId, Vec<InstructionId>>,
    /// What has an effect.
    ordered: Vec<InstructionId>,
}

impl Frame {
    /// The body of `target`, which stays only where `moves` is false.
    fn new(
        module: &mut Module,
        (call, target, moves): (InstructionId, ComputationId, bool),
        arguments: Vec<InstructionId>,
        before: Vec<InstructionId>,
    ) -> Frame {
        let computation = &mut module.computations[target];
        let body: Vec<(InstructionId, Instruction)> = if moves {
            let all = std::mem::take(&mut computation.instructions);
            let mut all: Vec<Option<Instruction>> = all.into_iter().map(|(_, instruction)| Some(instruction)).collect();
            let order = std::mem::take(&mut computation.order).into_iter();
            order.filter_map(|id| Some((id, all.get_mut(id.index())?.take()?))).collect()
        } else {
            computation.order.iter().map(|&id| (id, computation.instructions[id].clone())).collect()
        };
        Frame {
            call,
            before,
            arguments,
            rest: body.into_iter(),
            root: computation.root,
            map: SecondaryMap::new(),
            also_after: HashMap::new(),
            ordered: Vec::new(),
        }
    }

    /// Gives a copy of an instruction the operands and predecessors that its own became.
    fn adapt(&self, copy: &mut Instruction) -> Result<()> {
        for operand in &mut copy.operands {
            let new = self.map[*operand].expand();
            *operand = new.ok_or_else(|| Error::Internal(format!("an operand of '{}' comes after it", copy.name)))?;
        }
        if let Some(AttrValue::Instructions(list)) = copy.attrs.get_mut(AttrKey::ControlPredecessors) {
            let also = |old: &InstructionId| self.also_after.get(old).into_iter().flatten().copied();
            *list = list.iter().flat_map(|old| self.map[*old].expand().into_iter().chain(also(old))).collect();
            list.sort_by_key(|i| i.index());
            list.dedup();
        }
        Ok(())
    }
}

impl Inliner<'_> {
    fn decide(&self, rw: &Rewriter<'_>, instruction: &Instruction) -> Decision {
        let Some(target) = callee(instruction) else { return Decision::Keep };
        if !signature_matches(rw.module, rw.computation_id(), instruction, target) {
            return Decision::Keep;
        }
        if self.sites[target] == 1 {
            return Decision::Inline(target, 0);
        }
        let size = rw.module.computations[target].order.len().saturating_sub(instruction.operands.len() + 1);
        match instruction.opcode {
            _ if size <= *self.budget => Decision::Inline(target, size),
            Opcode::Fusion => Decision::Demote,
            _ => Decision::Keep,
        }
    }

    fn demote(&mut self, fusion: &mut Instruction) {
        let Some(target) = callee(fusion) else { return };
        fusion.opcode = Opcode::Call;
        let keys = [AttrKey::FusionKind, AttrKey::Calls, AttrKey::OutputToOperandAliasing];
        keys.into_iter().for_each(|key| drop(fusion.attrs.remove(key)));
        fusion.attrs.set(AttrKey::ToApply, AttrValue::Computation(target));
        self.stats.add("fusion made a call", 1);
    }

    /// Puts the body of `target`, and the bodies of what it calls in turn, before the instruction under work. Yields what its
    /// root became and what has an effect. Names, places and metadata are those of the bodies.
    fn splice(
        &mut self,
        rw: &mut Rewriter<'_>,
        call: InstructionId,
        target: ComputationId,
        arguments: Vec<InstructionId>,
        before: Vec<InstructionId>,
    ) -> Result<(InstructionId, Vec<InstructionId>)> {
        let moves = self.sites[target] == 1;
        // A stack of its own: calls nest as deep as a text is long.
        let mut open = vec![Frame::new(rw.module, (call, target, moves), arguments, before)];
        while let Some(mut frame) = open.pop() {
            let Some((old, mut copy)) = frame.rest.next() else {
                let root = frame.map[frame.root].expand();
                let root = root.ok_or_else(|| Error::Internal("a computation does not hold its root".to_owned()))?;
                for &copy in &frame.ordered {
                    rw.add_control_predecessors(copy, &frame.before);
                }
                self.stats.add("inlined", 1);
                let Some(around) = open.last_mut() else { return Ok((root, frame.ordered)) };
                around.map[frame.call] = root.into();
                around.ordered.extend(&frame.ordered);
                around.also_after.insert(frame.call, frame.ordered);
                continue;
            };
            if copy.opcode == Opcode::Parameter {
                let argument = copy.parameter_number().and_then(|n| frame.arguments.get(n).copied());
                let missing = || Error::Internal(format!("no argument for parameter '{}'", copy.name));
                frame.map[old] = argument.ok_or_else(missing)?.into();
                open.push(frame);
                continue;
            }
            frame.adapt(&mut copy)?;
            match self.decide(rw, &copy) {
                Decision::Inline(target, cost) => {
                    *self.budget -= cost;
                    let (moves, before) = (self.sites[target] == 1, predecessors(&copy));
                    let inner = Frame::new(rw.module, (old, target, moves), copy.operands, before);
                    open.extend([frame, inner]);
                    continue;
                }
                Decision::Demote => self.demote(&mut copy),
                Decision::Keep => {}
            }
            let effect = self.effects.of_instruction(&copy);
            let new = rw.push(copy);
            frame.map[old] = new.into();
            frame.ordered.extend(effect.then_some(new));
            open.push(frame);
        }
        Err(Error::Internal("a call was inlined into nothing".to_owned()))
    }
}

fn predecessors(instruction: &Instruction) -> Vec<InstructionId> {
    instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec()
}

/// Whether arguments and result have exactly the callee's shapes. A callee with other dynamic marks reads its sizes
/// in another way than the caller stores them, and so stays a function of its own.
fn signature_matches(module: &Module, caller: ComputationId, call: &Instruction, target: ComputationId) -> bool {
    let (caller, callee) = (&module.computations[caller], &module.computations[target]);
    let parameters = callee.parameters();
    let same = |(&p, &o): (&InstructionId, &InstructionId)| {
        callee.instructions[p].shape.same_ignoring_layout(&caller.instructions[o].shape)
    };
    parameters.len() == call.operands.len()
        && parameters.iter().zip(&call.operands).all(same)
        && callee.result_shape().same_ignoring_layout(&call.shape)
}

/// What a call or a fusion calls.
fn callee(instruction: &Instruction) -> Option<ComputationId> {
    match instruction.opcode {
        Opcode::Call => instruction.attrs.computation(AttrKey::ToApply),
        Opcode::Fusion => instruction.attrs.computation(AttrKey::Calls),
        _ => None,
    }
}
