//! Conversions of element type and of bit pattern.

use super::{Found, same_shape};
use crate::hlo::{InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ElementType, Kind};

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

/// Whether `first -> middle -> last` always gives what `first -> last` gives.
pub(super) fn skips(first: ElementType, middle: ElementType, last: ElementType) -> bool {
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
