//! Operations on whole values.
use super::value::Value;
use super::{Context, unsupported};
use crate::Result;
use crate::hlo::{Instruction, Opcode};

pub(super) fn handles(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Tuple)
}

pub(super) fn step(_cx: &Context<'_>, inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    match inst.opcode {
        Opcode::Tuple => Ok(Value::Tuple(operands)),
        _ => Err(unsupported(inst, "this operation")),
    }
}
