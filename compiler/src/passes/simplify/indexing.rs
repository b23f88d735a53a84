//! Slices, pads, concatenations and what asks for sizes.

use super::{Found, filled_like, same_shape, splat_operand, with_dims};
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode, PaddingDimension, SliceRange};
use crate::passes::rewrite::Rewriter;
use crate::passes::value::{self, Element};
use brolga_runtime::Literal;

/// The most parts that a concatenation made of others may have.
const FLATTENED_PARTS: usize = 64;

/// The rules for operations that take parts of arrays or join them.
pub fn indexing(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    match rw.opcode(id) {
        Opcode::Slice => slice(rw, id),
        Opcode::Pad => pad(rw, id),
        Opcode::Concatenate => concatenate(rw, id),
        Opcode::DynamicSlice => dynamic_slice(rw, id),
        Opcode::DynamicUpdateSlice => dynamic_update_slice(rw, id),
        Opcode::Iota => iota(rw, id),
        Opcode::GetDimensionSize => dimension_size(rw, id),
        _ => Ok(None),
    }
}

fn ranges(rw: &Rewriter<'_>, id: InstructionId) -> Vec<SliceRange> {
    rw.instruction(id).attrs.slice_ranges(AttrKey::Slice).unwrap_or(&[]).to_vec()
}

fn emit_slice(rw: &mut Rewriter<'_>, operand: InstructionId, dims: Vec<i64>, ranges: Vec<SliceRange>) -> InstructionId {
    let Some(array) = rw.array(operand) else { return operand };
    let shape = with_dims(array, dims);
    let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
    rw.emit(Opcode::Slice, shape, vec![operand], attrs)
}

fn slice(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    if same_shape(rw, id, operand) {
        return Ok(Some(("slice of everything", operand)));
    }
    if let Some(scalar) = splat_operand(rw, id, 0) {
        return Ok(filled_like(rw, id, Some(scalar)).map(|f| ("slice of equal elements", f)));
    }
    let outer = ranges(rw, id);
    let dims = rw.dims(id).to_vec();
    match rw.opcode(operand) {
        Opcode::Slice => {
            let (source, inner) = (rw.operand(operand, 0)?, ranges(rw, operand));
            let composed = inner.iter().zip(&outer).zip(&dims).map(|((a, b), &n)| {
                let start = a.start + b.start * a.stride;
                let stride = a.stride * b.stride;
                SliceRange { start, stride, limit: start + (n - 1).max(0) * stride + 1 }
            });
            let composed = composed.collect();
            Ok(Some(("slice of a slice", emit_slice(rw, source, dims, composed))))
        }
        Opcode::Concatenate => {
            let Some(&along) = rw.instruction(operand).attrs.ints_or_empty(AttrKey::Dimensions).first() else {
                return Ok(None);
            };
            let along = along as usize;
            let Some(range) = outer.get(along).copied() else { return Ok(None) };
            let mut begin = 0;
            for part in rw.instruction(operand).operands.clone() {
                let size = rw.dims(part).get(along).copied().unwrap_or(0);
                if range.start >= begin && range.limit <= begin + size {
                    let mut moved = outer.clone();
                    moved[along] = SliceRange { start: range.start - begin, limit: range.limit - begin, ..range };
                    return Ok(Some(("slice of one part", emit_slice(rw, part, dims, moved))));
                }
                begin += size;
            }
            Ok(None)
        }
        Opcode::Broadcast => {
            // Dimensions that the broadcast made can be cut after the fact by making them shorter.
            let source = rw.operand(operand, 0)?;
            let places = rw.instruction(operand).attrs.ints_or_empty(AttrKey::Dimensions).to_vec();
            let untouched = places.iter().all(|&p| {
                let p = p as usize;
                dims.get(p) == rw.dims(operand).get(p)
            });
            let Some(shape) = rw.array(id).cloned() else { return Ok(None) };
            Ok(untouched.then(|| ("slice of a broadcast", rw.broadcast(source, &shape, places))))
        }
        _ => Ok(None),
    }
}

fn pad(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let (operand, filler) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let amounts: Vec<PaddingDimension> = rw.instruction(id).attrs.padding(AttrKey::Padding).unwrap_or(&[]).to_vec();
    let dims = rw.dims(id).to_vec();
    let sizes = rw.dims(operand).to_vec();
    let Some(shape) = rw.array(id).cloned() else { return Ok(None) };
    let adds_inside = |p: &PaddingDimension, size: i64| p.interior > 0 && size > 1;
    if amounts.iter().zip(&sizes).all(|(p, &size)| p.low == 0 && p.high == 0 && !adds_inside(p, size)) {
        return Ok(Some(("pad with nothing", operand)));
    }
    if sizes.contains(&0) {
        return Ok(Some(("pad of an empty array", rw.broadcast_scalar(filler, &shape))));
    }
    let cuts = |(p, &size): (&PaddingDimension, &i64)| p.low <= 0 && p.high <= 0 && !adds_inside(p, size);
    if amounts.iter().zip(&sizes).all(cuts) {
        let ranges = amounts
            .iter()
            .zip(&sizes)
            .map(|(p, &size)| SliceRange { start: -p.low, limit: size + p.high, stride: 1 })
            .collect();
        return Ok(Some(("pad that only cuts", emit_slice(rw, operand, dims, ranges))));
    }
    let computation = rw.computation();
    if let (Some(a), Some(b)) = (value::splat(computation, operand), value::splat(computation, filler))
        && a == b
    {
        return Ok(Some(("pad with the same value", rw.broadcast_scalar(filler, &shape))));
    }
    Ok(None)
}

fn concatenate(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let instruction = rw.instruction(id);
    let along = instruction.attrs.ints_or_empty(AttrKey::Dimensions).to_vec();
    let operands = instruction.operands.clone();
    if let [only] = operands[..] {
        return Ok(Some(("concatenation of one", only)));
    }
    let mut parts = Vec::with_capacity(operands.len());
    for &part in &operands {
        let inner = rw.instruction(part);
        if rw.array(part).is_some_and(|a| a.elements() == 0) {
            continue;
        }
        // The bound keeps a chain of concatenations, each of which has other users, from growing quadratically.
        if inner.opcode == Opcode::Concatenate
            && inner.attrs.ints_or_empty(AttrKey::Dimensions) == along
            && parts.len() + inner.operands.len() <= FLATTENED_PARTS
        {
            parts.extend(inner.operands.iter().copied());
        } else {
            parts.push(part);
        }
    }
    if parts == operands || parts.is_empty() {
        return Ok(None);
    }
    if let [only] = parts[..] {
        return Ok(Some(("concatenation of one", only)));
    }
    let shape = rw.shape(id).clone();
    let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(along));
    Ok(Some(("concatenation of concatenations", rw.emit(Opcode::Concatenate, shape, parts, attrs))))
}

/// The start indices of a dynamic slice or update, each clamped so that the window of `sizes` fits, where all are known.
fn starts(rw: &Rewriter<'_>, indices: &[InstructionId], dims: &[i64], sizes: &[i64]) -> Option<Vec<i64>> {
    let computation = rw.computation();
    let known: Vec<i128> = match indices {
        [vector] if rw.dims(*vector).len() == 1 => match value::constant(computation, *vector) {
            Some(literal) => value::ints(literal)?,
            None => vec![value::splat(computation, *vector)?.int()?; dims.len()],
        },
        scalars => scalars.iter().map(|&i| value::splat(computation, i)?.int()).collect::<Option<_>>()?,
    };
    let clamped = known.iter().zip(dims).zip(sizes);
    let clamped: Vec<i64> = clamped.map(|((&i, &d), &s)| i.clamp(0, i128::from((d - s).max(0))) as i64).collect();
    (clamped.len() == dims.len()).then_some(clamped)
}

fn dynamic_slice(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    if same_shape(rw, id, operand) {
        return Ok(Some(("dynamic slice of everything", operand)));
    }
    if let Some(scalar) = splat_operand(rw, id, 0) {
        return Ok(filled_like(rw, id, Some(scalar)).map(|f| ("slice of equal elements", f)));
    }
    let dims = rw.dims(id).to_vec();
    let indices = rw.instruction(id).operands.get(1..).unwrap_or(&[]);
    let Some(starts) = starts(rw, indices, rw.dims(operand), &dims) else { return Ok(None) };
    let ranges = starts.iter().zip(&dims).map(|(&s, &n)| SliceRange { start: s, limit: s + n, stride: 1 }).collect();
    Ok(Some(("dynamic slice at a constant", emit_slice(rw, operand, dims, ranges))))
}

fn dynamic_update_slice(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let (operand, update) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    if same_shape(rw, id, update) {
        return Ok(Some(("update of everything", update)));
    }
    if rw.array(update).is_some_and(|a| a.elements() == 0) {
        return Ok(Some(("update of nothing", operand)));
    }
    Ok(None)
}

fn iota(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let instruction = rw.instruction(id);
    let Some(array) = instruction.shape.as_array() else { return Ok(None) };
    let along = instruction.attrs.int(AttrKey::IotaDimension).and_then(|d| usize::try_from(d).ok());
    let single = along.and_then(|d| array.dims.get(d)) == Some(&1);
    let zero = Element::from_int(array.ty, 0).or_else(|| Element::from_float(array.ty, 0.0));
    if !single {
        return Ok(None);
    }
    Ok(filled_like(rw, id, zero).map(|f| ("iota of one", f)))
}

fn dimension_size(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    let dimension = rw.instruction(id).attrs.ints_or_empty(AttrKey::Dimensions).first().copied();
    let size = dimension.and_then(|d| rw.dims(operand).get(usize::try_from(d).ok()?).copied());
    let Some(size) = size.and_then(|s| i32::try_from(s).ok()) else { return Ok(None) };
    Ok(Some(("size of a static dimension", rw.constant(Literal::scalar(size)))))
}
