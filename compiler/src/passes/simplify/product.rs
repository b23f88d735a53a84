//! Products: dots and convolutions.

use super::Found;
use super::convert::skips;
use crate::hlo::{AttrKey, Instruction, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;

/// A product of integers that were widened, small ones, of which machines multiply several at a time, is one of what they were: each is
/// converted to the result's type either way. A vector stays converted, once for all rows of the matrix.
pub fn product(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(out) = rw.array(id).filter(|a| a.ty.is_integer()).map(|a| a.ty) else { return Ok(None) };
    let mut operands = rw.instruction(id).operands.clone();
    let [lhs, rhs] = &mut operands[..] else { return Ok(None) };
    let contracted = rw.instruction(id).attrs.ints_or_empty(AttrKey::LhsContractingDims);
    let extent = |&d: &i64| rw.dims(*lhs).get(d.max(0) as usize).copied().unwrap_or(1);
    let elements = |id: InstructionId| rw.array(id).map_or(0, |a| a.elements() as i64);
    let products = contracted.iter().map(extent).fold(elements(id), i64::saturating_mul);
    let is_matrix = |operand: InstructionId| elements(operand) != products;
    if rw.opcode(id) == Opcode::Dot && !(is_matrix(*lhs) && is_matrix(*rhs)) {
        return Ok(None);
    }
    let mut widened = false;
    for operand in [lhs, rhs] {
        if let Some(inner) = rw.operand_of(*operand, Opcode::Convert)
            && let (Some(first), Some(middle)) = (rw.array(inner), rw.array(*operand))
            && first.ty.is_integer()
            && first.ty.bits() < middle.ty.bits()
            && skips(first.ty, middle.ty, out)
        {
            widened = true;
            *operand = inner;
        }
        if !rw.array(*operand).is_some_and(|a| a.ty.is_small_integer()) {
            return Ok(None);
        }
    }
    if !widened {
        return Ok(None);
    }
    let instruction = Instruction { operands, ..rw.instruction(id).clone() };
    Ok(Some(("product of widened integers", rw.push(instruction))))
}
