//! Copies of called computations among the instructions of a builder, of those that may run again, and values taken
//! apart and put together.

use super::rule::Rule;
use crate::builder::{At, Builder, Op};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, Category, Computation, ComputationId, Instruction, InstructionId, Module, Opcode};
use brolga_runtime::Shape;
use hashbrown::{HashMap, HashSet};

/// Deeper calls are not followed: each level of them takes some of the stack.
const DEEPEST: usize = 64;

/// Larger computations are not copied in: each calling the next twice, a few of them would fill the memory.
const LARGEST: usize = 1 << 20;

/// Adds what the result of `module` needs to `b`, with `arguments` for its parameters, and yields the result. A parameter that
/// the result does not depend on needs no argument.
pub(super) fn replay(b: &Builder, at: At, module: &Module, arguments: &[Option<Op>]) -> Result<Op> {
    let entry = module.entry();
    let needed = needed(module);
    let mut ops: HashMap<InstructionId, Op> = HashMap::new();
    let lost = |i: &Instruction| Error::Internal(format!("gradient: '{}' of '{}' is lost", i.name, entry.name));
    for &id in entry.order.iter().filter(|id| needed.contains(*id)) {
        let instruction = &entry.instructions[id];
        let op = match instruction.parameter_number() {
            Some(n) if instruction.opcode == Opcode::Parameter => {
                arguments.get(n).copied().flatten().ok_or_else(|| lost(instruction))?
            }
            _ => {
                let operand = |o: &InstructionId| ops.get(o).copied().ok_or_else(|| lost(instruction));
                let operands: Vec<Op> = instruction.operands.iter().map(operand).collect::<Result<_>>()?;
                let mut attrs = b.adopt(module, &instruction.attrs);
                attrs.remove(AttrKey::ControlPredecessors);
                b.append(at, instruction.opcode, &operands, attrs, instruction.shape.without_layout())
            }
        };
        ops.insert(id, op);
    }
    b.first_error().map_or(Ok(()), Err)?;
    ops.get(&entry.root).copied().ok_or_else(|| Error::Internal(format!("gradient: '{}' has no root", entry.name)))
}

/// What stands behind a value, past operations of one operand that only `pass` it on.
pub(super) fn behind(c: &Computation, mut id: InstructionId, pass: &[Opcode]) -> InstructionId {
    loop {
        let instruction = &c.instructions[id];
        match instruction.operands.first() {
            Some(&operand) if pass.contains(&instruction.opcode) => id = operand,
            _ => return id,
        }
    }
}

/// The instructions of the entry that its result depends on.
pub(super) fn needed(module: &Module) -> HashSet<InstructionId> {
    let entry = module.entry();
    let mut needed = HashSet::new();
    let mut stack = vec![entry.root];
    while let Some(id) = stack.pop() {
        if needed.insert(id) {
            stack.extend(&entry.instructions[id].operands);
        }
    }
    needed
}

/// A computation that is copied in runs once more: that must change nothing. And it must have an end.
pub(super) fn may_run_again(r: &Rule<'_>, module: &Module) -> Result<()> {
    let (depth, size) = extent(module);
    if depth > DEEPEST || size > LARGEST {
        return Err(r.refuse(&format!("of calls {depth} deep of {size} instructions in all")));
    }
    match effect(module) {
        Some(opcode) => Err(r.refuse(&format!("of a computation that contains {opcode}"))),
        None => Ok(()),
    }
}

/// How deep the calls of `module` are, and about how many instructions there are when all are written out. A loop or a
/// branch is copied several times on the way to its derivative.
fn extent(module: &Module) -> (usize, usize) {
    let mut extents: HashMap<ComputationId, (usize, usize)> = HashMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        let (mut depth, mut size) = (0, computation.order.len());
        for instruction in computation.order.iter().map(|&i| &computation.instructions[i]) {
            let copies = if matches!(instruction.opcode, Opcode::While | Opcode::Conditional) { 4 } else { 1 };
            for callee in instruction.attrs.called() {
                let (below, count) = extents.get(&callee).copied().unwrap_or_default();
                depth = depth.max(below + 1);
                size = size.saturating_add(count.saturating_mul(copies));
            }
        }
        extents.insert(id, (depth, size));
    }
    extents.get(&module.entry).copied().unwrap_or_default()
}

/// An instruction of `module`, or of what it calls, that may not run a second time. Exchanges between devices may: all devices run
/// them, and each time they give the same.
fn effect(module: &Module) -> Option<Opcode> {
    let computations = module.order.iter().map(|&c: &ComputationId| &module.computations[c]);
    let mut all = computations.flat_map(|c| c.order.iter().map(|&i| &c.instructions[i]));
    all.find(|i| i.has_side_effect() && i.opcode.category() != Category::Collective).map(|i| i.opcode)
}

/// Element `index` of a tuple; where an instruction made the tuple of its elements, that element.
pub(super) fn element(b: &Builder, op: Op, index: usize) -> Op {
    match b.instruction(op) {
        Some(i) if i.opcode == Opcode::Tuple && index < i.operands.len() => b.value(i.operands[index]),
        _ => b.get_tuple_element(op, index as i64),
    }
}

/// The leaves of a value, in the order of its shape.
pub(super) fn leaves(b: &Builder, op: Op) -> Result<Vec<Op>> {
    match b.shape(op)? {
        Shape::Tuple(parts) => {
            let parts = (0..parts.len()).map(|i| leaves(b, element(b, op, i)));
            Ok(parts.collect::<Result<Vec<_>>>()?.concat())
        }
        _ => Ok(vec![op]),
    }
}

/// The value of a shape that has these leaves.
pub(super) fn assemble(b: &Builder, shape: &Shape, leaves: &mut impl Iterator<Item = Op>) -> Result<Op> {
    match shape {
        Shape::Tuple(parts) => {
            let parts: Vec<Op> = parts.iter().map(|p| assemble(b, p, leaves)).collect::<Result<_>>()?;
            Ok(b.tuple(&parts))
        }
        _ => leaves.next().ok_or_else(|| Error::Internal("gradient: a tuple has too few leaves".to_owned())),
    }
}
