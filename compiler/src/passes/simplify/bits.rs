//! Logic and comparisons.

use super::{Found, filled_like, splat_operand};
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use crate::passes::value::{Element, int_range, is_all_ones, is_identity};
use brolga_runtime::ElementType;

/// The rules for `and`, `or`, `xor`, `not` and `compare`.
pub fn bits(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    match rw.opcode(id) {
        Opcode::Not => not(rw, id),
        Opcode::Compare => compare(rw, id),
        _ => logic(rw, id),
    }
}

fn logic(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let opcode = rw.opcode(id);
    let (a, b) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let Some(ty) = rw.array(id).map(|s| s.ty) else { return Ok(None) };
    if a == b {
        return Ok(match opcode {
            Opcode::Xor => filled_like(rw, id, Element::from_int(ty, 0)).map(|f| ("xor of equals", f)),
            _ => Some(("and, or of equals", a)),
        });
    }
    for (known, other) in [(splat_operand(rw, id, 0), b), (splat_operand(rw, id, 1), a)] {
        let Some(known) = known else { continue };
        if is_identity(opcode, &known) {
            return Ok(Some(("logic with its identity", other)));
        }
        let absorbing = match opcode {
            Opcode::And => known.is_int(0),
            Opcode::Or => is_all_ones(&known),
            _ => false,
        };
        if absorbing {
            return Ok(filled_like(rw, id, Some(known)).map(|f| ("logic with its absorbing element", f)));
        }
        if opcode == Opcode::Xor && is_all_ones(&known) {
            return Ok(Some(("xor with ones", rw.elementwise(Opcode::Not, vec![other]))));
        }
    }
    Ok(None)
}

fn not(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    if let Some(inner) = rw.operand_of(operand, Opcode::Not) {
        return Ok(Some(("not of not", inner)));
    }
    if rw.opcode(operand) != Opcode::Compare {
        return Ok(None);
    }
    let compared = rw.operand(operand, 0)?;
    let Some(ty) = rw.array(compared).map(|a| a.ty) else { return Ok(None) };
    let ordered = ty.is_integer() || ty == ElementType::Pred;
    let opposite = match rw.instruction(operand).attrs.word(AttrKey::Direction) {
        Some("EQ") => "NE",
        Some("NE") => "EQ",
        Some("LT") if ordered => "GE",
        Some("GE") if ordered => "LT",
        Some("GT") if ordered => "LE",
        Some("LE") if ordered => "GT",
        _ => return Ok(None),
    };
    let operands = rw.instruction(operand).operands.clone();
    let mut attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(opposite));
    if let Some(kind) = rw.instruction(operand).attrs.get(AttrKey::ComparisonType) {
        attrs.set(AttrKey::ComparisonType, kind.clone());
    }
    let shape = rw.shape(id).clone();
    Ok(Some(("not of a comparison", rw.emit(Opcode::Compare, shape, operands, attrs))))
}

fn compare(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let (a, b) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let Some(ty) = rw.array(a).map(|s| s.ty) else { return Ok(None) };
    let Some(direction) = rw.instruction(id).attrs.word(AttrKey::Direction) else { return Ok(None) };
    if !ty.is_integer() && ty != ElementType::Pred {
        return Ok(None);
    }
    let decided = |rw: &mut Rewriter<'_>, value: bool| {
        let scalar = Element::from_int(ElementType::Pred, i128::from(value));
        Ok(filled_like(rw, id, scalar).map(|f| ("decided comparison", f)))
    };
    if a == b {
        return decided(rw, matches!(direction, "EQ" | "GE" | "LE"));
    }
    let (left, right) = (splat_operand(rw, id, 0), splat_operand(rw, id, 1));
    if ty == ElementType::Pred {
        for (known, other) in [(left, b), (right, a)] {
            let Some(known) = known else { continue };
            return Ok(match (direction, known.is_int(1)) {
                ("EQ", true) | ("NE", false) => Some(("comparison with a truth value", other)),
                ("EQ", false) | ("NE", true) => {
                    Some(("comparison with a truth value", rw.elementwise(Opcode::Not, vec![other])))
                }
                _ => None,
            });
        }
        return Ok(None);
    }
    // Nothing lies below the least value of a type or above the greatest.
    let Some((low, high)) = int_range(ty) else { return Ok(None) };
    let at = |side: &Option<Element>, value: i128| side.as_ref().is_some_and(|s| s.is_int(value));
    match direction {
        "LT" if at(&right, low) || at(&left, high) => decided(rw, false),
        "GE" if at(&right, low) || at(&left, high) => decided(rw, true),
        "GT" if at(&right, high) || at(&left, low) => decided(rw, false),
        "LE" if at(&right, high) || at(&left, low) => decided(rw, true),
        _ => Ok(None),
    }
}
