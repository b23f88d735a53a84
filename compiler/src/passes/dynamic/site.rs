//! What a rule is given: an instruction, and what its operands became.

use super::draft::Draft;
use super::value::{Size, Value, at_bounds};
use crate::error::Result;
use crate::hlo::{Attrs, Instruction, InstructionId};

/// An instruction and what its operands became.
pub(super) struct Site<'a> {
    pub inst: &'a Instruction,
    pub operands: &'a [Value],
    /// The instruction's attributes, control predecessors renamed.
    pub attrs: Attrs,
}

impl Site<'_> {
    pub fn operand(&self, draft: &Draft, k: usize) -> Result<&Value> {
        self.operands.get(k).ok_or_else(|| draft.internal("an operand is missing"))
    }

    /// Operand `k`, an array, at its bounds.
    pub fn data(&self, draft: &Draft, k: usize) -> Result<InstructionId> {
        self.operand(draft, k)?.data().ok_or_else(|| draft.internal("an array was expected"))
    }

    /// Every operand at its bounds.
    pub fn all_data(&self, draft: &Draft) -> Result<Vec<InstructionId>> {
        (0..self.operands.len()).map(|k| self.data(draft, k)).collect()
    }

    /// Operand `k`, of which nothing may be dynamic.
    pub fn whole(&self, draft: &Draft, k: usize) -> Result<InstructionId> {
        let whole = self.operand(draft, k)?.whole();
        whole.ok_or_else(|| draft.unsupported(format!("a dynamic operand {k} of '{}'", self.inst.opcode)))
    }

    /// The operation on other operands, at its bounds.
    pub fn again(&self, draft: &mut Draft, operands: Vec<InstructionId>) -> InstructionId {
        draft.emit(self.inst.opcode, at_bounds(&self.inst.shape), operands, self.attrs.clone())
    }

    /// The true size of dimension `d`: of the first of `operands` that has one.
    pub fn size_of_first(&self, operands: impl IntoIterator<Item = usize>, d: usize) -> Size {
        operands.into_iter().find_map(|k| self.operands.get(k).and_then(|o| o.size(d)))
    }

    pub fn unsupported<T>(&self, draft: &Draft) -> Result<T> {
        Err(draft.unsupported(format!("compiling '{}' of bounded dynamic dimensions", self.inst.opcode)))
    }
}
