//! Operations that move elements and compute nothing.
//!
//! Invariant: bytes are copied as they are, so that NaN payloads survive. Algorithm: most are one strided walk over
//! the result, reading the operand at an offset that changes by constant steps.

mod bits;

use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use crate::interp::index::{product, try_walk, walk_offsets};
use crate::interp::{Context, array, elementwise, invalid, new_array, result_shape};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, row_major_strides};
use num_complex::Complex;

pub(super) fn op(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    if matches!(inst.opcode, Opcode::Copy) {
        return operands.first().map(|&o| o.clone()).ok_or_else(|| invalid(inst, "an operand is missing"));
    }
    if inst.opcode == Opcode::Iota {
        return iota(inst);
    }
    if inst.opcode == Opcode::Concatenate {
        return concatenate(inst, operands);
    }
    let a = array(inst, operands, 0)?;
    match inst.opcode {
        Opcode::Bitcast => bits::bitcast(cx, inst, a),
        Opcode::BitcastConvert => bits::convert(inst, a, result_shape(inst)?).map(Literal::from),
        Opcode::Broadcast => broadcast(inst, a),
        Opcode::Reshape | Opcode::DynamicReshape => reshape(inst, a, &result_shape(inst)?.dims),
        Opcode::Reverse => reverse(inst, a),
        Opcode::Slice => slice(inst, a),
        Opcode::Transpose => {
            let permutation = indices(inst, inst.attrs.ints_or_empty(AttrKey::Dimensions), a.dims().len())?;
            transpose(inst, a, &permutation).map(Literal::from)
        }
        Opcode::Pad => pad(inst, a, array(inst, operands, 1)?),
        Opcode::DynamicSlice => {
            let sizes = inst.attrs.ints_or_empty(AttrKey::DynamicSliceSizes);
            let starts = starts(inst, operands, 1, a.dims(), sizes)?;
            let strides = row_major_strides(a.dims());
            let base = starts.iter().zip(&strides).map(|(&s, &t)| s * t).sum();
            strided(inst, a, sizes, &strides, base).map(Literal::from)
        }
        Opcode::DynamicUpdateSlice => update_in_place(inst, a.clone(), &operands[1..]),
        Opcode::GetDimensionSize => {
            let size = a.dims()[dimension(inst, a.dims().len())?];
            let mut out = new_array(inst, &ArrayShape::new(result_shape(inst)?.ty, []))?;
            out.set(0, Scalar::Int(size));
            Ok(out.into())
        }
        Opcode::SetDimensionSize => set_dimension_size(inst, a, array(inst, operands, 1)?),
        opcode => Err(invalid(inst, format!("'{opcode}' moves nothing"))),
    }
}

/// Dimension numbers as indices below `rank`.
pub(super) fn indices(inst: &Instruction, numbers: &[i64], rank: usize) -> Result<Vec<usize>> {
    let one = |&n: &i64| usize::try_from(n).ok().filter(|&n| n < rank);
    numbers.iter().map(|n| one(n).ok_or_else(|| invalid(inst, format!("no dimension {n} in rank {rank}")))).collect()
}

/// The one dimension number that `dimensions` gives.
fn dimension(inst: &Instruction, rank: usize) -> Result<usize> {
    match indices(inst, inst.attrs.ints_or_empty(AttrKey::Dimensions), rank)?[..] {
        [d] => Ok(d),
        _ => Err(invalid(inst, "expected one dimension")),
    }
}

/// The elements of `a` at `base` plus strides, in the shape `dims`. The caller vouches for the offsets' range.
fn strided(inst: &Instruction, a: &ArrayLiteral, dims: &[i64], strides: &[i64], base: i64) -> Result<ArrayLiteral> {
    let mut out = new_array(inst, &ArrayShape::new(a.ty(), dims))?;
    fn copy<T: Copy>(dims: &[i64], strides: &[i64], base: i64, from: &[T], to: &mut [T]) {
        let mut to = to.iter_mut();
        walk_offsets(dims, [strides], [base], |[offset]| {
            if let (Some(to), Some(from)) = (to.next(), from.get(offset as usize)) {
                *to = *from;
            }
        });
    }
    match a.ty().byte_size() {
        1 => copy(dims, strides, base, a.bytes(), out.bytes_mut()),
        2 => copy(dims, strides, base, a.as_slice::<u16>(), out.as_mut_slice::<u16>()),
        4 => copy(dims, strides, base, a.as_slice::<u32>(), out.as_mut_slice::<u32>()),
        // A pair of floats of one word.
        8 => copy(dims, strides, base, a.as_slice::<u64>(), out.as_mut_slice::<u64>()),
        _ => copy(dims, strides, base, a.as_slice::<Complex<f64>>(), out.as_mut_slice::<Complex<f64>>()),
    }
    Ok(out)
}

/// The array with dimension `i` of the result being dimension `permutation[i]` of the operand.
pub(super) fn transpose(inst: &Instruction, a: &ArrayLiteral, permutation: &[usize]) -> Result<ArrayLiteral> {
    let strides = row_major_strides(a.dims());
    if permutation.len() != strides.len() || permutation.iter().any(|&p| p >= strides.len()) {
        return Err(invalid(inst, format!("{permutation:?} does not permute rank {}", strides.len())));
    }
    let dims: Vec<i64> = permutation.iter().map(|&p| a.dims()[p]).collect();
    let strides: Vec<i64> = permutation.iter().map(|&p| strides[p]).collect();
    if product(&dims) != a.elements() {
        return Err(invalid(inst, format!("{permutation:?} is no permutation")));
    }
    strided(inst, a, &dims, &strides, 0)
}

/// The same elements, in row-major order, under other dimensions.
fn reshape(inst: &Instruction, a: &ArrayLiteral, dims: &[i64]) -> Result<Literal> {
    if ArrayShape::new(a.ty(), dims).checked_elements() != Some(a.elements()) {
        return Err(super::execution(inst, format!("{} does not fill dimensions {dims:?}", a.shape())));
    }
    Ok(a.clone().reshaped(dims).into())
}

fn broadcast(inst: &Instruction, a: &ArrayLiteral) -> Result<Literal> {
    let shape = result_shape(inst)?;
    let map = indices(inst, inst.attrs.ints_or_empty(AttrKey::Dimensions), shape.rank())?;
    if map.len() != a.dims().len() {
        return Err(invalid(inst, format!("{} dimensions for an operand of rank {}", map.len(), a.dims().len())));
    }
    let mut strides = vec![0; shape.rank()];
    for ((&d, &stride), &size) in map.iter().zip(&row_major_strides(a.dims())).zip(a.dims()) {
        if size != shape.dims[d] && size != 1 {
            return Err(invalid(inst, format!("dimension {d} must be {size}, found {}", shape.dims[d])));
        }
        strides[d] = if size == 1 { 0 } else { stride };
    }
    strided(inst, a, &shape.dims, &strides, 0).map(Literal::from)
}

fn reverse(inst: &Instruction, a: &ArrayLiteral) -> Result<Literal> {
    let mut strides = row_major_strides(a.dims());
    let mut base = 0;
    for d in indices(inst, inst.attrs.ints_or_empty(AttrKey::Dimensions), strides.len())? {
        base += (a.dims()[d] - 1) * strides[d];
        strides[d] = -strides[d];
    }
    strided(inst, a, a.dims(), &strides, base).map(Literal::from)
}

fn slice(inst: &Instruction, a: &ArrayLiteral) -> Result<Literal> {
    let ranges = inst.attrs.slice_ranges(AttrKey::Slice).unwrap_or(&[]);
    let mut strides = row_major_strides(a.dims());
    if ranges.len() != strides.len() {
        return Err(invalid(inst, format!("{} ranges for rank {}", ranges.len(), strides.len())));
    }
    let mut base = 0;
    let mut dims = Vec::with_capacity(ranges.len());
    for ((range, stride), &size) in ranges.iter().zip(&mut strides).zip(a.dims()) {
        // A dynamic dimension may have fewer elements than the range, which was written for the bound.
        let limit = range.limit.min(size);
        if range.start < 0 || range.stride < 1 || range.limit < range.start {
            return Err(invalid(inst, format!("range {}:{}:{}", range.start, range.limit, range.stride)));
        }
        dims.push(((limit - range.start).max(0) as u64).div_ceil(range.stride as u64) as i64);
        base += range.start * *stride;
        *stride = stride.saturating_mul(range.stride);
    }
    let out = strided(inst, a, &dims, &strides, base)?;
    // More than there is where a dynamic dimension ends before a single element that is declared static.
    let whole = &result_shape(inst)?.dims;
    if *whole == dims { Ok(out.into()) } else { resized(inst, &out, whole).map(Literal::from) }
}

fn iota(inst: &Instruction) -> Result<Literal> {
    let shape = result_shape(inst)?;
    let d = inst.attrs.int(AttrKey::IotaDimension).unwrap_or(0);
    let d = indices(inst, &[d], shape.rank())?[0];
    let mut out = new_array(inst, shape)?;
    let inner = row_major_strides(&shape.dims)[d].max(1) as usize;
    let size = shape.dims[d].max(1) as usize;
    for i in 0..out.elements() {
        let value = Scalar::Int((i / inner % size) as i64);
        out.set(i, elementwise::convert(value, shape.ty));
    }
    Ok(out.into())
}

fn concatenate(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let arrays = (0..operands.len()).map(|i| array(inst, operands, i)).collect::<Result<Vec<_>>>()?;
    let d = dimension(inst, array(inst, operands, 0)?.dims().len())?;
    join(inst, &arrays, d).map(Literal::from)
}

/// The arrays one after another along dimension `d`.
pub(super) fn join(inst: &Instruction, arrays: &[&ArrayLiteral], d: usize) -> Result<ArrayLiteral> {
    let first = arrays.first().filter(|a| d < a.dims().len()).ok_or_else(|| invalid(inst, "nothing to join"))?;
    let mut dims = first.dims().to_vec();
    dims[d] = 0;
    for a in arrays {
        let others = a.dims().iter().enumerate().all(|(i, &n)| i == d || dims.get(i) == Some(&n));
        if a.ty() != first.ty() || a.dims().len() != dims.len() || !others {
            return Err(invalid(inst, format!("{} does not go beside {}", a.shape(), first.shape())));
        }
        dims[d] += a.dims()[d];
    }
    let mut out = new_array(inst, &ArrayShape::new(first.ty(), &*dims))?;
    let outer = product(&dims[..d]);
    let inner = product(&dims[d + 1..]).saturating_mul(first.ty().byte_size());
    let row = dims[d] as usize * inner;
    let mut at = 0;
    for a in arrays {
        let part = a.dims()[d] as usize * inner;
        for k in 0..outer {
            out.bytes_mut()[k * row + at..][..part].copy_from_slice(&a.bytes()[k * part..][..part]);
        }
        at += part;
    }
    Ok(out)
}

fn pad(inst: &Instruction, a: &ArrayLiteral, value: &ArrayLiteral) -> Result<Literal> {
    let padding = inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]);
    if padding.len() != a.dims().len() || value.ty() != a.ty() || value.elements() != 1 {
        return Err(invalid(inst, "padding does not fit the operand"));
    }
    let mut dims = Vec::with_capacity(padding.len());
    for (p, &n) in padding.iter().zip(a.dims()) {
        let broadcast = (n - 1).max(0).checked_mul(p.interior).and_then(|s| s.checked_add(n));
        let size = broadcast.and_then(|s| s.checked_add(p.low)?.checked_add(p.high));
        dims.push(size.filter(|&s| p.interior >= 0 && s >= 0).ok_or_else(|| invalid(inst, "the padded size"))?);
    }
    let mut out = new_array(inst, &ArrayShape::new(a.ty(), &*dims))?;
    let size = a.ty().byte_size();
    for element in out.bytes_mut().chunks_exact_mut(size) {
        element.copy_from_slice(value.bytes());
    }
    let strides = row_major_strides(&dims);
    let mut from = 0;
    try_walk(a.dims(), |index| {
        let mut offset = 0;
        let mut inside = true;
        for ((&i, p), (&n, &stride)) in index.iter().zip(padding).zip(dims.iter().zip(&strides)) {
            let to = p.low + i * (p.interior + 1);
            inside &= (0..n).contains(&to);
            offset += to.wrapping_mul(stride);
        }
        if inside {
            out.bytes_mut()[offset as usize * size..][..size].copy_from_slice(&a.bytes()[from..from + size]);
        }
        from += size;
        Ok(())
    })?;
    Ok(out.into())
}

/// Start indices (scalars from operand `first` on, or one vector), clamped so that `sizes` fits into `dims`.
fn starts(inst: &Instruction, operands: &[&Literal], first: usize, dims: &[i64], sizes: &[i64]) -> Result<Vec<i64>> {
    let mut raw = Vec::with_capacity(dims.len());
    for i in first..operands.len() {
        let a = array(inst, operands, i)?;
        raw.extend((0..a.elements()).map(|k| a.get(k).as_i64()));
    }
    if raw.len() != dims.len() || sizes.len() != dims.len() {
        return Err(invalid(inst, format!("{} start indices for rank {}", raw.len(), dims.len())));
    }
    if sizes.iter().zip(dims).any(|(&s, &d)| s < 0 || s > d) {
        return Err(invalid(inst, format!("a slice of {sizes:?} from {dims:?}")));
    }
    Ok(raw.iter().zip(dims.iter().zip(sizes)).map(|(&r, (&d, &s))| r.clamp(0, d - s)).collect())
}

/// `dynamic-update-slice` on an array that may be overwritten; `rest` are the other operands.
pub(super) fn update_in_place(inst: &Instruction, mut a: ArrayLiteral, rest: &[&Literal]) -> Result<Literal> {
    let update = array(inst, rest, 0)?;
    let starts = starts(inst, rest, 1, a.dims(), update.dims())?;
    if update.ty() != a.ty() {
        return Err(invalid(inst, format!("the update must be {}, found {}", a.ty(), update.ty())));
    }
    if update.elements() == 0 {
        return Ok(a.into());
    }
    let strides = row_major_strides(a.dims());
    let base: i64 = starts.iter().zip(&strides).map(|(&s, &t)| s * t).sum();
    let size = a.ty().byte_size();
    // Rows of the innermost dimension are contiguous on both sides.
    let (outer, row) = match update.dims() {
        [] => (&[][..], 1),
        [outer @ .., row] => (outer, *row),
    };
    let row = row as usize * size;
    let mut from = 0;
    walk_offsets(outer, [&strides[..outer.len()]], [base], |[offset]| {
        a.bytes_mut()[offset as usize * size..][..row].copy_from_slice(&update.bytes()[from..from + row]);
        from += row;
    });
    Ok(a.into())
}

fn set_dimension_size(inst: &Instruction, a: &ArrayLiteral, size: &ArrayLiteral) -> Result<Literal> {
    let d = dimension(inst, a.dims().len())?;
    let bound = result_shape(inst)?.dims.get(d).copied().unwrap_or(0).max(a.dims()[d]);
    let mut dims = a.dims().to_vec();
    dims[d] = size.get(0).as_i64().clamp(0, bound);
    // Growing within the bound uncovers elements that nothing defines: zeros here.
    let mut out = new_array(inst, &ArrayShape::new(a.ty(), &*dims))?;
    let outer = product(&dims[..d]);
    let inner = product(&dims[d + 1..]).saturating_mul(a.ty().byte_size());
    let (from, to) = (a.dims()[d] as usize * inner, dims[d] as usize * inner);
    let part = from.min(to);
    for k in 0..outer {
        out.bytes_mut()[k * to..][..part].copy_from_slice(&a.bytes()[k * from..][..part]);
    }
    Ok(out.into())
}

/// Elements `start` to `start + size` of dimension `d`.
pub(super) fn section(inst: &Instruction, a: &ArrayLiteral, d: usize, start: i64, size: i64) -> Result<ArrayLiteral> {
    let strides = row_major_strides(a.dims());
    let mut dims = a.dims().to_vec();
    if start < 0 || size < 0 || start.checked_add(size).is_none_or(|end| dims.get(d).is_none_or(|&n| end > n)) {
        return Err(invalid(inst, format!("no section {start} + {size} of dimension {d} of {}", a.shape())));
    }
    dims[d] = size;
    if product(&dims) == 0 {
        return new_array(inst, &ArrayShape::new(a.ty(), dims));
    }
    strided(inst, a, &dims, &strides, start * strides[d])
}

/// The first `dims` elements along each dimension, zeros where `a` has fewer.
pub(super) fn resized(inst: &Instruction, a: &ArrayLiteral, dims: &[i64]) -> Result<ArrayLiteral> {
    let mut out = new_array(inst, &ArrayShape::new(a.ty(), dims))?;
    let common: Vec<i64> = a.dims().iter().zip(dims).map(|(&a, &b)| a.min(b)).collect();
    let (from, to) = (row_major_strides(a.dims()), row_major_strides(dims));
    let size = a.ty().byte_size();
    walk_offsets(&common, [&from, &to], [0, 0], |[from, to]| {
        out.bytes_mut()[to as usize * size..][..size].copy_from_slice(&a.bytes()[from as usize * size..][..size]);
    });
    Ok(out)
}

/// A scalar of an integer type.
pub(super) fn integer(inst: &Instruction, ty: ElementType, value: i64) -> Result<Literal> {
    let mut out = new_array(inst, &ArrayShape::new(ty, []))?;
    out.set(0, Scalar::Int(value));
    Ok(out.into())
}
