//! Filled by its own change.

use super::{Context, unsupported};
use crate::Result;
use crate::hlo::Instruction;
use brolga_runtime::Literal;

pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, _operands: &[&Literal]) -> Result<Literal> {
    Err(unsupported(inst, format!("'{}' in the interpreter", inst.opcode)))
}

use crate::hlo::Opcode;
use brolga_runtime::{ElementType, Scalar};
pub(super) struct Kernel {
    pub(super) opcode: Opcode,
    pub(super) result: ElementType,
}

impl Kernel {
    pub(super) fn new(_inst: &Instruction, _types: &[ElementType]) -> Option<Kernel> {
        None
    }
    pub(super) fn apply(&self, _args: &[Scalar]) -> Scalar {
        Scalar::zero(self.result)
    }
}
