//! Feeds of nothing go.
//!
//! Problem: the specification has it that an infeed of an empty tuple reads nothing; an outfeed of one writes nothing. A
//! program with no other feeds must not ask its caller for queues. Invariant: whatever waited for such an operation waits
//! for what it waited for. Algorithm: the token it takes is the token it yields.

use super::Stats;
use super::rewrite::{Rewriter, rewrite};
use crate::error::Result;
use crate::hlo::{AttrKey, Attrs, InstructionId, Module, Opcode};
use brolga_runtime::Shape;

/// Removes feeds of empty tuples.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            let instruction = rw.instruction(i);
            let nothing = |shape: Option<&Shape>| shape.and_then(Shape::as_tuple).is_some_and(<[Shape]>::is_empty);
            let new = match (instruction.opcode, &instruction.operands[..]) {
                (Opcode::Infeed, operands) if nothing(instruction.infeed_shape()) => {
                    let before = operands.first().copied();
                    let token = token(rw, i, before);
                    let data = rw.tuple(Vec::new());
                    rw.tuple(vec![data, token])
                }
                (Opcode::Outfeed, &[value, ref rest @ ..]) if nothing(Some(rw.shape(value))) => {
                    let before = rest.first().copied();
                    token(rw, i, before)
                }
                _ => return Ok(None),
            };
            stats.add("feed of nothing", 1);
            Ok(Some(new))
        })?;
    }
    Ok(stats)
}

/// A token that waits for whatever the instruction waits for.
fn token(rw: &mut Rewriter<'_>, id: InstructionId, before: Option<InstructionId>) -> InstructionId {
    let control = rw.instruction(id).attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
    match before {
        Some(token) if control.is_empty() => token,
        before => {
            let token = rw.emit(Opcode::AfterAll, Shape::Token, before.into_iter().collect(), Attrs::new());
            rw.add_control_predecessors(token, &control);
            rw.control_also_after(id, vec![token]);
            token
        }
    }
}
