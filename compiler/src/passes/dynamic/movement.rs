//! Operations that move elements, and those that are about sizes themselves.

use super::draft::Draft;
use super::site::Site;
use super::value::{Size, Value};
use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId, Opcode};
use crate::shape::{Sizes, reshape_groups};
use brolga_runtime::{ArrayShape, ElementType, row_major_strides};

fn array<'a>(draft: &Draft, at: &'a Site<'_>) -> Result<&'a ArrayShape> {
    at.inst.shape.as_array().ok_or_else(|| draft.internal("an array was expected"))
}

/// The dimension that `dimensions` gives.
fn dimension(draft: &Draft, at: &Site<'_>) -> Result<usize> {
    let d = at.inst.attrs.dimension_numbers(AttrKey::Dimensions).first().copied();
    d.ok_or_else(|| draft.internal("no dimension"))
}

/// Growing uncovers elements that nothing defines: zeros, as in the interpreter.
pub(super) fn set_dimension_size(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (d, shape) = (dimension(draft, at)?, array(draft, at)?.clone());
    let (value, size) = (at.operand(draft, 0)?, at.whole(draft, 1)?);
    let mut data = at.data(draft, 0)?;
    if let Some(old) = value.size(d) {
        let mut only: Vec<Size> = vec![None; shape.rank()];
        if let Some(slot) = only.get_mut(d) {
            *slot = Some(old);
        }
        let zero = draft.zero(shape.ty);
        data = draft.masked(data, &only, zero)?;
    }
    let bound = shape.dims.get(d).copied().unwrap_or(0);
    let mut sizes = value.sizes(shape.rank());
    if let Some(slot) = sizes.get_mut(d) {
        let known = draft.instructions[size].literal().and_then(|l| l.as_array().map(|a| a.get(0).as_i64()));
        *slot =
            if bound == 0 || known.is_some_and(|n| n >= bound) { None } else { Some(draft.clamp_int(size, 0, bound)?) };
    }
    Ok(Value::new(data, sizes))
}

pub(super) fn get_dimension_size(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let d = dimension(draft, at)?;
    let bound = draft.array(at.data(draft, 0)?)?.dims.get(d).copied().unwrap_or(0);
    let size = at.operand(draft, 0)?.size(d);
    Ok(Value::Whole(match size {
        Some(size) => size,
        None => draft.s32(bound),
    }))
}

pub(super) fn broadcast(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let mut sizes = vec![None; array(draft, at)?.rank()];
    for (from, to) in at.inst.attrs.dimension_numbers(AttrKey::Dimensions).into_iter().enumerate() {
        if let Some(slot) = sizes.get_mut(to) {
            *slot = at.operand(draft, 0)?.size(from);
        }
    }
    let data = at.data(draft, 0)?;
    Ok(Value::new(at.again(draft, vec![data]), sizes))
}

pub(super) fn transpose(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let value = at.operand(draft, 0)?;
    let sizes = at.inst.attrs.dimension_numbers(AttrKey::Dimensions).into_iter().map(|d| value.size(d)).collect();
    let data = at.data(draft, 0)?;
    Ok(Value::new(at.again(draft, vec![data]), sizes))
}

/// Static dimensions are mirrored as they are; along a dynamic one slice `i` is slice `size - 1 - i`.
pub(super) fn reverse(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let value = at.operand(draft, 0)?;
    let mut data = at.data(draft, 0)?;
    let shape = draft.array(data)?;
    let mut plain = Vec::new();
    for d in at.inst.attrs.dimension_numbers(AttrKey::Dimensions) {
        match value.size(d) {
            Some(size) => {
                let last = draft.add_int(size, -1)?;
                let count = [shape.dims.get(d).copied().unwrap_or(0)];
                let last = draft.broadcast(last, &count, None)?;
                let index = draft.iota(ElementType::S32, &count, 0);
                let from = draft.subtract(last, index);
                data = draft.take(data, d, from)?;
            }
            None => plain.push(d as i64),
        }
    }
    if !plain.is_empty() {
        let attrs = crate::hlo::Attrs::new().with(AttrKey::Dimensions, crate::hlo::AttrValue::Ints(plain));
        data = draft.emit(Opcode::Reverse, shape.clone(), vec![data], attrs);
    }
    Ok(Value::new(data, value.sizes(shape.rank())))
}

/// A slice of one element is static where it is declared so, whether or not there is such an element.
pub(super) fn slice(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let value = at.operand(draft, 0)?;
    let shape = array(draft, at)?.clone();
    let mut sizes = Vec::new();
    for (d, range) in at.inst.attrs.slice_ranges(AttrKey::Slice).unwrap_or(&[]).iter().enumerate() {
        let one = shape.dims.get(d) == Some(&1) && shape.dynamic.get(d) == Some(&false);
        sizes.push(match value.size(d).filter(|_| !one) {
            Some(size) => {
                let length = draft.clamp_int(size, range.start, range.limit)?;
                let length = draft.add_int(length, range.stride - 1 - range.start)?;
                let stride = draft.s32(range.stride);
                Some(if range.stride == 1 { length } else { draft.divide(length, stride) })
            }
            None => None,
        });
    }
    let data = at.data(draft, 0)?;
    Ok(Value::new(at.again(draft, vec![data]), sizes))
}

/// What lies past the true size becomes padding first; the bound's own padding then follows it.
pub(super) fn pad(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (value, fill) = (at.operand(draft, 0)?, at.whole(draft, 1)?);
    let shape = array(draft, at)?.clone();
    let padding = at.inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]);
    let sizes = value.sizes(shape.rank());
    let data = at.data(draft, 0)?;
    let data = draft.masked(data, &sizes, fill)?;
    let mut out = Vec::new();
    for ((size, p), &bound) in sizes.into_iter().zip(padding).zip(&shape.dims) {
        out.push(match size {
            Some(size) if bound > 0 => {
                let gaps = draft.add_int(size, -1)?;
                let zero = draft.s32(0);
                let gaps = draft.maximum(gaps, zero);
                let between = draft.times(gaps, p.interior)?;
                let total = draft.add(size, between);
                let total = draft.add_int(total, p.low.saturating_add(p.high))?;
                Some(draft.clamp_int(total, 0, bound)?)
            }
            _ => None,
        });
    }
    Ok(Value::new(at.again(draft, vec![data, fill]), out))
}

/// The operands lie at their bounds first; from the first dynamic one on, each is then written over the end of the one
/// before.
pub(super) fn concatenate(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let d = dimension(draft, at)?;
    let shape = array(draft, at)?.clone();
    let data = at.all_data(draft)?;
    let mut out = at.again(draft, data.clone());
    let mut end: Size = None;
    let mut bound = 0i64;
    for (value, &part) in at.operands.iter().zip(&data) {
        let size = draft.array(part)?.dims.get(d).copied().unwrap_or(0);
        if let Some(end) = end
            && size > 0
        {
            let zero = draft.s32(0);
            let starts: Vec<InstructionId> = (0..shape.rank()).map(|k| if k == d { end } else { zero }).collect();
            out = draft.dynamic_update_slice(out, part, &starts);
        }
        end = match (end, value.size(d)) {
            (None, None) => None,
            (None, Some(size)) => Some(draft.add_int(size, bound)?),
            (Some(end), None) => Some(draft.add_int(end, size)?),
            (Some(end), Some(size)) => Some(draft.add(end, size)),
        };
        bound = bound.saturating_add(size);
    }
    let sizes = (0..shape.rank()).map(|k| if k == d { end } else { at.size_of_first(0..data.len(), k) }).collect();
    Ok(Value::new(out, sizes))
}

/// Dimensions keep their sizes; one that appears or disappears counts the parts of an element.
pub(super) fn bitcast_convert(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let rank = array(draft, at)?.rank();
    let value = at.operand(draft, 0)?;
    let data = at.data(draft, 0)?;
    if value.size(rank).is_some() {
        return at.unsupported(draft);
    }
    Ok(Value::new(at.again(draft, vec![data]), value.sizes(rank)))
}

/// In each group of dimensions the sizes go where [`reshape_groups`] says.
pub(super) fn reshape(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (value, data, shape) = (at.operand(draft, 0)?, at.data(draft, 0)?, array(draft, at)?.clone());
    let from = draft.array(data)?;
    if from.dims.contains(&0) {
        return at.unsupported(draft);
    }
    let mut sizes: Vec<Size> = vec![None; shape.rank()];
    let mut in_place = true;
    for group in reshape_groups(&from.dims, &shape.dims) {
        if group.from.iter().all(|&d| value.size(d).is_none()) {
            continue;
        }
        let open = match group.sizes(&from.dims, |d| value.size(d).is_some(), &shape, &at.inst.attrs) {
            Some(Sizes::Follow(pairs)) => {
                for (s, t) in pairs {
                    sizes[t] = value.size(s);
                }
                continue;
            }
            Some(Sizes::Nowhere) => continue,
            Some(Sizes::Open(open)) => open,
            None => return Err(draft.unsupported("a reshape to several dynamic dimensions")),
        };
        let mut elements = draft.s32(1);
        for &d in &group.from {
            elements = match value.size(d) {
                Some(size) => draft.multiply(elements, size),
                None => draft.times(elements, from.dims[d])?,
            };
        }
        let others = group.to.iter().filter(|&&d| d != open).map(|&d| shape.dims[d]).fold(1, i64::saturating_mul);
        let others = draft.s32(others);
        let size = draft.divide(elements, others);
        sizes[open] = Some(draft.clamp_int(size, 0, shape.dims[open])?);
        // Only ones may stand before a dimension whose elements are to stay where they are.
        let first = |dims: &[i64], list: &[usize]| list.iter().copied().find(|&d| dims[d] != 1);
        let source = first(&from.dims, &group.from);
        let inner_only = group.from.iter().all(|&d| Some(d) == source || value.size(d).is_none());
        in_place &= inner_only && first(&shape.dims, &group.to) == Some(open);
    }
    let out = if in_place {
        draft.reshape(data, &shape.dims)?
    } else {
        relaid(draft, data, &value.sizes(from.rank()), &shape.dims, &sizes)?
    };
    Ok(Value::new(out, sizes))
}

/// The sizes are operands. Those of dimensions that are not declared dynamic are the bounds.
pub(super) fn dynamic_reshape(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (value, data, shape) = (at.operand(draft, 0)?, at.data(draft, 0)?, array(draft, at)?.clone());
    let mut sizes: Vec<Size> = Vec::new();
    for (d, (&bound, &dynamic)) in shape.dims.iter().zip(&shape.dynamic).enumerate() {
        let size = at.whole(draft, d + 1)?;
        sizes.push(if dynamic && bound > 0 { Some(draft.clamp_int(size, 0, bound)?) } else { None });
    }
    let rank = draft.array(data)?.rank();
    let out = relaid(draft, data, &value.sizes(rank), &shape.dims, &sizes)?;
    Ok(Value::new(out, sizes))
}

/// Row-major strides of an array of true sizes.
fn strides(draft: &mut Draft, dims: &[i64], sizes: &[Size]) -> Result<Vec<InstructionId>> {
    let mut stride = draft.s32(1);
    let mut out = Vec::new();
    for (&bound, &size) in dims.iter().zip(sizes).rev() {
        out.push(stride);
        stride = match size {
            Some(size) => draft.multiply(stride, size),
            None => draft.times(stride, bound)?,
        };
    }
    out.reverse();
    Ok(out)
}

/// The elements of `data`, true sizes `from`, in row-major order, as an array of bounds `dims` and true sizes `to`.
fn relaid(draft: &mut Draft, data: InstructionId, from: &[Size], dims: &[i64], to: &[Size]) -> Result<InstructionId> {
    let shape = draft.array(data)?;
    let count = shape.elements();
    if i32::try_from(count).is_err() {
        return Err(draft.unsupported("a reshape of 2^31 dynamic elements or more"));
    }
    if count == 0 {
        return draft.reshape(data, dims);
    }
    let mut position = draft.s32(0);
    position = draft.broadcast(position, dims, None)?;
    for (d, stride) in strides(draft, dims, to)?.into_iter().enumerate() {
        let index = draft.iota(ElementType::S32, dims, d);
        let stride = draft.broadcast(stride, dims, None)?;
        let part = draft.multiply(index, stride);
        position = draft.add(position, part);
    }
    let mut place = draft.s32(0);
    place = draft.broadcast(place, dims, None)?;
    let true_strides = strides(draft, &shape.dims, from)?;
    let bound_strides = row_major_strides(&shape.dims);
    for (d, (stride, bound_stride)) in true_strides.into_iter().zip(bound_strides).enumerate() {
        let stride = draft.broadcast(stride, dims, None)?;
        let mut index = draft.divide(position, stride);
        if d > 0 {
            let size = match from.get(d).copied().flatten() {
                Some(size) => size,
                None => draft.s32(shape.dims[d]),
            };
            let size = draft.broadcast(size, dims, None)?;
            index = draft.op(Opcode::Remainder, &[index, size]);
        }
        let bound_stride = draft.s32(bound_stride);
        let bound_stride = draft.broadcast(bound_stride, dims, None)?;
        let part = draft.multiply(index, bound_stride);
        place = draft.add(place, part);
    }
    let flat = draft.reshape(data, &[count as i64])?;
    draft.look_up(flat, place)
}
