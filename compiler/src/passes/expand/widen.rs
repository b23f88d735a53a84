//! Reducers that work in wider integers than the arrays they are applied to.

use crate::error::Result;
use crate::hlo::{AttrKey, Instruction, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::ElementType;

/// Converts the operands of a reduction or a scatter to the integers that its computation takes.
pub fn operands(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id).clone();
    let Some(callee) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let computation = &rw.module.computations[callee];
    let scalar = |p: InstructionId| computation.instructions[p].shape.as_array().map(|a| a.ty);
    let parameters: Vec<Option<ElementType>> = computation.parameters().into_iter().map(scalar).collect();
    let n = instruction.operands.len() / 2;
    // A scatter has its indices in the middle, and what accumulates stands first; in a reduction last.
    let parameter = |k: usize| match instruction.opcode {
        Opcode::Scatter if k == n => None,
        Opcode::Scatter => Some(k - usize::from(k > n)),
        _ => Some((k + n) % (2 * n)),
    };
    let mut operands = instruction.operands.clone();
    for (k, operand) in operands.iter_mut().enumerate() {
        if let Some(ty) = parameter(k).and_then(|p| *parameters.get(p)?)
            && ty.is_integer()
        {
            *operand = rw.convert(*operand, ty);
        }
    }
    if operands == instruction.operands {
        return Ok(None);
    }
    Ok(Some(rw.push(Instruction { operands, ..instruction })))
}
