//! Reshapes, transposes, broadcasts and reverses: identities and compositions.

use super::{Found, same_shape, splat_operand, with_dims};
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;

/// The rules for operations that move whole arrays.
pub fn movement(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    match rw.opcode(id) {
        Opcode::Reshape => reshape(rw, id, operand),
        Opcode::Transpose => transpose(rw, id, operand),
        Opcode::Broadcast => broadcast(rw, id, operand),
        Opcode::Reverse => reverse(rw, id, operand),
        _ => Ok(same_shape(rw, id, operand).then_some(("bitcast to the same shape", operand))),
    }
}

fn dimensions(rw: &Rewriter<'_>, id: InstructionId) -> Vec<usize> {
    let list = rw.instruction(id).attrs.ints_or_empty(AttrKey::Dimensions);
    list.iter().filter_map(|&d| usize::try_from(d).ok()).collect()
}

fn reshape(rw: &mut Rewriter<'_>, id: InstructionId, operand: InstructionId) -> Found {
    if same_shape(rw, id, operand) {
        return Ok(Some(("reshape to the same shape", operand)));
    }
    let dims = rw.dims(id).to_vec();
    if let Some(inner) = rw.operand_of(operand, Opcode::Reshape) {
        return Ok(Some(("reshape of a reshape", rw.reshape(inner, &dims))));
    }
    if let Some(inner) = rw.operand_of(operand, Opcode::Broadcast) {
        let Some(shape) = rw.array(id).cloned() else { return Ok(None) };
        if rw.dims(inner).is_empty() {
            return Ok(Some(("reshape of a scalar's broadcast", rw.broadcast(inner, &shape, Vec::new()))));
        }
        // Where only dimensions of size 1 come and go, the others keep their order, and the broadcast can take them.
        let wide = |dims: &[i64]| -> Vec<usize> { (0..dims.len()).filter(|&d| dims[d] != 1).collect() };
        let (from, to) = (wide(rw.dims(operand)), wide(&dims));
        let kept = from.iter().map(|&d| rw.dims(operand)[d]).eq(to.iter().map(|&d| dims[d]));
        if kept {
            let inner_dims = rw.dims(inner).to_vec();
            let places = dimensions(rw, operand);
            let squeezed: Vec<i64> = inner_dims.iter().copied().filter(|&d| d != 1).collect();
            let moved: Option<Vec<i64>> = (inner_dims.iter().zip(&places).filter(|(size, _)| **size != 1))
                .map(|(_, place)| from.iter().position(|f| f == place).map(|p| to[p] as i64))
                .collect();
            if let Some(moved) = moved {
                let source = rw.reshape(inner, &squeezed);
                return Ok(Some(("reshape of a broadcast", rw.broadcast(source, &shape, moved))));
            }
        }
    }
    Ok(None)
}

fn transpose(rw: &mut Rewriter<'_>, id: InstructionId, operand: InstructionId) -> Found {
    let permutation = dimensions(rw, id);
    if permutation.iter().enumerate().all(|(i, &p)| i == p) {
        return Ok(Some(("transpose that keeps the order", operand)));
    }
    if let Some(inner) = rw.operand_of(operand, Opcode::Transpose) {
        let first = dimensions(rw, operand);
        let composed: Vec<usize> = permutation.iter().filter_map(|&p| first.get(p).copied()).collect();
        if composed.is_sorted() {
            return Ok(Some(("transpose there and back", inner)));
        }
        return Ok(Some(("transpose of a transpose", rw.transpose(inner, &composed))));
    }
    let sizes = rw.dims(operand);
    let wide: Vec<usize> = permutation.iter().copied().filter(|&p| sizes.get(p) != Some(&1)).collect();
    if wide.is_sorted() {
        let dims = rw.dims(id).to_vec();
        return Ok(Some(("transpose of dimensions of size 1", rw.reshape(operand, &dims))));
    }
    if let Some(inner) = rw.operand_of(operand, Opcode::Broadcast) {
        let moved: Option<Vec<i64>> = dimensions(rw, operand)
            .iter()
            .map(|place| permutation.iter().position(|p| p == place).map(|p| p as i64))
            .collect();
        if let (Some(moved), Some(shape)) = (moved, rw.array(id).cloned())
            && moved.is_sorted()
        {
            return Ok(Some(("transpose of a broadcast", rw.broadcast(inner, &shape, moved))));
        }
    }
    Ok(None)
}

fn broadcast(rw: &mut Rewriter<'_>, id: InstructionId, operand: InstructionId) -> Found {
    let places = dimensions(rw, id);
    let Some(shape) = rw.array(id).cloned() else { return Ok(None) };
    if same_shape(rw, id, operand) && places.is_sorted() {
        return Ok(Some(("broadcast to the same shape", operand)));
    }
    if let Some(inner) = rw.operand_of(operand, Opcode::Broadcast) {
        let composed: Vec<i64> =
            dimensions(rw, operand).iter().filter_map(|&p| places.get(p).map(|&q| q as i64)).collect();
        return Ok(Some(("broadcast of a broadcast", rw.broadcast(inner, &shape, composed))));
    }
    // An array of one known element: broadcast the scalar, so that rules find it in one step.
    if !rw.dims(operand).is_empty()
        && let Some(scalar) = splat_operand(rw, id, 0).and_then(|s| s.literal())
    {
        return Ok(Some(("broadcast of one known element", rw.splat(scalar, &shape))));
    }
    let adds_elements = rw.array(operand).is_some_and(|a| a.elements() != shape.elements());
    if !adds_elements && places.is_sorted() {
        return Ok(Some(("broadcast that repeats nothing", rw.reshape(operand, &shape.dims))));
    }
    Ok(None)
}

fn reverse(rw: &mut Rewriter<'_>, id: InstructionId, operand: InstructionId) -> Found {
    let reversed = dimensions(rw, id);
    let needed: Vec<usize> = reversed.iter().copied().filter(|&d| rw.dims(id).get(d) != Some(&1)).collect();
    if needed.is_empty() {
        return Ok(Some(("reverse of nothing", operand)));
    }
    if splat_operand(rw, id, 0).is_some() {
        return Ok(Some(("reverse of equal elements", operand)));
    }
    let (source, dims, kind) = match rw.operand_of(operand, Opcode::Reverse) {
        Some(inner) => {
            let first = dimensions(rw, operand);
            let once = |a: &[usize], b: &[usize]| a.iter().copied().filter(|d| !b.contains(d)).collect::<Vec<_>>();
            let mut either = [once(&needed, &first), once(&first, &needed)].concat();
            either.sort_unstable();
            (inner, either, "reverse of a reverse")
        }
        None if needed.len() < reversed.len() => (operand, needed, "reverse of dimensions of size 1"),
        None => return Ok(None),
    };
    if dims.is_empty() {
        return Ok(Some((kind, source)));
    }
    let Some(array) = rw.array(id) else { return Ok(None) };
    let shape = with_dims(array, array.dims.clone());
    let dims = dims.into_iter().map(|d| d as i64).collect();
    let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(dims));
    Ok(Some((kind, rw.emit(Opcode::Reverse, shape, vec![source], attrs))))
}
