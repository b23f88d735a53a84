//! Filled by its own change.

use super::{Context, unsupported};
use crate::Result;
use crate::hlo::Instruction;
use brolga_runtime::Literal;

pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, _operands: &[&Literal]) -> Result<Literal> {
    Err(unsupported(inst, format!("'{}' in the interpreter", inst.opcode)))
}
