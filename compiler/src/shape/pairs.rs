//! Operations that go on with what another began: the updates and dones of asynchronous calls, and of transfers.
//!
//! Shapes do not tell these rules; they look at the instruction that the operand is.

use super::rule::{Rule, compatible, ensure};
use crate::hlo::{AttrKey, Computation, Instruction, Opcode};
use brolga_runtime::Shape;

/// Checks an instruction against the one that it goes on with.
pub(super) fn check(computation: &Computation, instruction: &Instruction) -> Rule<()> {
    let operand = instruction.operands.first().and_then(|&id| computation.instructions.get(id));
    match (instruction.opcode, operand) {
        (Opcode::AsyncStart, _) => started(instruction),
        (Opcode::AsyncUpdate | Opcode::AsyncDone, Some(operand)) => follows(computation, instruction, operand),
        (Opcode::SendDone | Opcode::RecvDone, Some(operand)) => same_channel(instruction, operand),
        (Opcode::GetTupleElement, Some(operand)) => whole_context(operand),
        _ => Ok(()),
    }
}

fn started(start: &Instruction) -> Rule<()> {
    ensure!(
        matches!(start.shape.as_tuple(), Some([Shape::Tuple(_), _, ..])),
        "async.result",
        "expected ((operands...), result, ...) as result of async-start, found {:#}",
        start.shape
    );
    Ok(())
}

fn follows(computation: &Computation, instruction: &Instruction, operand: &Instruction) -> Rule<()> {
    let mut start = operand;
    while start.opcode == Opcode::AsyncUpdate {
        let Some(before) = start.operands.first().and_then(|&id| computation.instructions.get(id)) else { break };
        start = before;
    }
    ensure!(
        start.opcode == Opcode::AsyncStart,
        "async.chain",
        "expected the operand of {} to be an async-start or async-update, found {}",
        instruction.opcode,
        operand.opcode
    );
    for key in [AttrKey::Calls, AttrKey::AsyncExecutionThread] {
        let stated = instruction.attrs.get(key);
        ensure!(
            stated.is_none() || stated == start.attrs.get(key),
            "async.chain",
            "expected {} as '{}' says, found another",
            key.name(),
            start.name
        );
    }
    ensure!(
        instruction.opcode != Opcode::AsyncUpdate || compatible(&instruction.shape, &operand.shape, None),
        "async.chain",
        "expected the result {:#} of async-update, as its operand has, found {:#}",
        operand.shape,
        instruction.shape
    );
    Ok(())
}

/// What a transfer is under way with belongs to its done.
fn whole_context(operand: &Instruction) -> Rule<()> {
    ensure!(
        !matches!(operand.opcode, Opcode::Send | Opcode::Recv),
        "transfer.context",
        "expected '{}' to be used as a whole, by {}-done, found a use of an element",
        operand.name,
        operand.opcode
    );
    Ok(())
}

/// The channel of a transfer's end is that of its beginning.
fn same_channel(done: &Instruction, begun: &Instruction) -> Rule<()> {
    let (found, expected) = (done.attrs.int(AttrKey::ChannelId), begun.attrs.int(AttrKey::ChannelId));
    ensure!(
        found == expected || !matches!(begun.opcode, Opcode::Send | Opcode::Recv),
        "transfer.channel",
        "expected {} to say channel_id as '{}' does",
        done.opcode,
        begun.name
    );
    Ok(())
}
