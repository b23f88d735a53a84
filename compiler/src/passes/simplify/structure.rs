//! Tuples, copies, constants, and orders and updates of nothing.

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
            let index = instruction.element_number();
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

/// What `id` yields where it yields `operands` unchanged: the one, or a tuple of all.
fn handed_on(rw: &mut Rewriter<'_>, id: InstructionId, operands: Vec<InstructionId>) -> InstructionId {
    match operands[..] {
        [only] if rw.shape(id).as_tuple().is_none() => only,
        _ => rw.tuple(operands),
    }
}

/// Nothing to sort along a dimension of size 1.
pub fn sort(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operands = rw.instruction(id).operands.clone();
    let along = rw.instruction(id).attrs.ints_or_empty(AttrKey::Dimensions).first().copied();
    let Some(&first) = operands.first() else { return Ok(None) };
    let along = along.and_then(|d| usize::try_from(d).ok());
    if along.and_then(|d| rw.dims(first).get(d)) != Some(&1) {
        return Ok(None);
    }
    Ok(Some(("sort of one", handed_on(rw, id, operands))))
}

/// Nothing to scatter.
pub fn scatter(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operands = rw.instruction(id).operands.clone();
    // N operands, the indices, N updates.
    let count = operands.len() / 2;
    let empty = operands.last().and_then(|&u| rw.array(u)).is_some_and(|a| a.elements() == 0);
    Ok(empty.then(|| ("scatter of nothing", handed_on(rw, id, operands[..count].to_vec()))))
}
