//! Tuples, copies and constants.

use super::Found;
use crate::hlo::{AttrKey, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use crate::passes::value::Element;
use brolga_runtime::Literal;

/// A constant of equal elements is a broadcast; tuple constants come apart.
pub fn constant(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(literal) = rw.instruction(id).literal().cloned() else { return Ok(None) };
    match &*literal {
        Literal::Array(array) if array.elements() > 1 => {
            let size = array.ty().byte_size();
            let (first, rest) = array.bytes().split_at(size);
            if !rest.chunks_exact(size).all(|element| element == first) {
                return Ok(None);
            }
            let Some(scalar) = Element::at(array, 0).and_then(|s| s.literal()) else { return Ok(None) };
            Ok(Some(("constant of equal elements", rw.splat(scalar, array.shape()))))
        }
        Literal::Tuple(elements) if elements.iter().all(|e| !matches!(e, Literal::Token)) => {
            let parts = elements.iter().map(|e| rw.constant(e.clone())).collect();
            Ok(Some(("tuple constant", rw.tuple(parts))))
        }
        _ => Ok(None),
    }
}

/// `get-tuple-element`, `tuple`, `copy` and `domain`.
pub fn structure(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let instruction = rw.instruction(id);
    match instruction.opcode {
        Opcode::GetTupleElement => {
            let tuple = rw.operand(id, 0)?;
            let index = instruction.attrs.int(AttrKey::Index).and_then(|i| usize::try_from(i).ok());
            let source = rw.instruction(tuple);
            let element = match (source.opcode, index) {
                (Opcode::Tuple, Some(index)) => source.operands.get(index).copied(),
                _ => None,
            };
            Ok(element.map(|e| ("element of a tuple", e)))
        }
        Opcode::Tuple => {
            let mut whole = None;
            for (position, &element) in instruction.operands.iter().enumerate() {
                let source = rw.instruction(element);
                let in_place = source.opcode == Opcode::GetTupleElement
                    && source.attrs.int(AttrKey::Index) == Some(position as i64)
                    && (position == 0 || whole == source.operands.first().copied());
                if !in_place {
                    return Ok(None);
                }
                whole = source.operands.first().copied();
            }
            let same = |t: InstructionId| rw.shape(t).same_ignoring_layout(rw.shape(id));
            Ok(whole.filter(|&t| same(t)).map(|t| ("tuple taken apart and put together", t)))
        }
        Opcode::Copy | Opcode::Domain => {
            let operand = rw.operand(id, 0)?;
            let same = rw.shape(operand) == rw.shape(id);
            Ok(same.then_some(("copy", operand)))
        }
        _ => Ok(None),
    }
}
