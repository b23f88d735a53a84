//! Conversions of element type and of bit pattern.

use super::{Found, same_shape};
use crate::hlo::{AttrKey, Instruction, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ElementType, Kind};

/// Integers of so many bits are multiplied several at a time; others gain nothing where they are no longer widened.
const MOST_BITS: u32 = 16;

/// `convert` and `bitcast-convert`.
pub fn convert(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    if same_shape(rw, operand, id) {
        return Ok(Some(("conversion to the same type", operand)));
    }
    let opcode = rw.opcode(id);
    let Some(inner) = rw.operand_of(operand, opcode) else { return Ok(None) };
    let (Some(first), Some(middle), Some(last)) = (rw.array(inner), rw.array(operand), rw.array(id)) else {
        return Ok(None);
    };
    let direct = match opcode {
        Opcode::Convert => skips(first.ty, middle.ty, last.ty),
        // Equal widths leave the dimensions alone; others reshape as well, and two of these need not cancel.
        _ => first.ty.bits() == middle.ty.bits() && middle.ty.bits() == last.ty.bits(),
    };
    if !direct {
        return Ok(None);
    }
    if first.ty == last.ty {
        return Ok(Some(("conversion there and back", inner)));
    }
    let shape = rw.shape(id).clone();
    Ok(Some(("conversion in two steps", rw.emit(opcode, shape, vec![inner], Default::default()))))
}

/// A product of integers that were widened, of so few bits that the machine multiplies several at a time, is one of what they were: each
/// is converted to the result's type either way. A vector stays converted, once for all rows of the matrix.
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
        if !rw.array(*operand).is_some_and(|a| a.ty.is_integer() && a.ty.bits() <= MOST_BITS) {
            return Ok(None);
        }
    }
    if !widened {
        return Ok(None);
    }
    let instruction = Instruction { operands, ..rw.instruction(id).clone() };
    Ok(Some(("product of widened integers", rw.push(instruction))))
}

/// Whether `first -> middle -> last` always gives what `first -> last` gives.
fn skips(first: ElementType, middle: ElementType, last: ElementType) -> bool {
    let bits_only = first.is_integer() && middle.is_integer() && last.is_integer() && last.bits() <= middle.bits();
    // Out of range, a float converts to the nearest integer and an integer to its low bits.
    let saturates = first.is_integer() && middle.is_float() && last.is_integer();
    bits_only || holds_exactly(first, middle) && (!saturates || holds_exactly(first, last))
}

/// Whether `wide` holds every value of `narrow`.
fn holds_exactly(narrow: ElementType, wide: ElementType) -> bool {
    /// Bits of the significand, the hidden one included, of the wide floats.
    fn significand(ty: ElementType) -> Option<u32> {
        Some(match ty {
            ElementType::BF16 => 8,
            ElementType::F16 => 11,
            ElementType::F32 => 24,
            ElementType::F64 => 53,
            _ => return None,
        })
    }
    match (narrow.kind(), wide.kind()) {
        (Kind::Pred, Kind::Signed) => wide.bits() > 1,
        (Kind::Pred, Kind::Unsigned) => true,
        (Kind::Pred, Kind::Float) => significand(wide).is_some(),
        (Kind::Signed, Kind::Signed) | (Kind::Unsigned, Kind::Unsigned) => wide.bits() >= narrow.bits(),
        (Kind::Unsigned, Kind::Signed) => wide.bits() > narrow.bits(),
        // No f16 holds 65535, though its significand holds 11 bits of it: the width must fit the significand.
        (Kind::Unsigned | Kind::Signed, Kind::Float) => significand(wide).is_some_and(|s| s >= narrow.bits()),
        (Kind::Float, Kind::Float) => match (narrow, wide) {
            (ElementType::BF16 | ElementType::F16, ElementType::F32 | ElementType::F64) => true,
            (ElementType::F32, ElementType::F64) => true,
            (a, ElementType::F32 | ElementType::F64) => a.bits() <= 8,
            (a, b) => a == b,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::{BF16, F16, F32, F64, Pred, S8, S32, S64, U8, U32};

    #[test]
    fn exact_chains() {
        assert!(skips(BF16, F32, BF16));
        assert!(skips(S32, F64, S32));
        assert!(!skips(S32, F32, S32));
        assert!(!skips(U8, F32, S8), "255 is 127 by way of a float");
        assert!(skips(S8, F32, S32));
        assert!(!skips(F32, BF16, F32));
        assert!(!skips(F16, BF16, F32));
        assert!(skips(S64, S32, S8), "low bits survive any detour over wider integers");
        assert!(!skips(S64, S8, S32));
        assert!(!skips(S8, U8, S32));
        assert!(skips(S8, U32, S32));
        assert!(skips(Pred, S32, F32));
        assert!(!skips(S32, Pred, S32));
    }
}
