//! Reinterpreting bits: `bitcast-convert` and `bitcast`.

use super::transpose;
use crate::Result;
use crate::hlo::{Instruction, inverse};
use crate::interp::{Context, invalid, new_array, result_shape, unsupported};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Shape};

/// The low `bits` bits of element `index`.
fn load(a: &ArrayLiteral, index: usize, bits: u32) -> u128 {
    let size = a.ty().byte_size();
    let mut raw = [0u8; 16];
    raw[..size].copy_from_slice(&a.bytes()[index * size..][..size]);
    let value = u128::from_le_bytes(raw);
    if bits < 128 { value & ((1 << bits) - 1) } else { value }
}

/// Stores the bits as element `index`, in the storage form of its type.
fn store(a: &mut ArrayLiteral, index: usize, bits: u32, value: u128) {
    let value = match a.ty() {
        ElementType::S1 | ElementType::S2 | ElementType::S4 => {
            let shift = 128 - bits;
            ((value << shift) as i128 >> shift) as u128
        }
        ElementType::Pred => u128::from(value & 0xff != 0),
        _ => value,
    };
    let size = a.ty().byte_size();
    a.bytes_mut()[index * size..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// The bits of `a` as another type. Where widths differ, several elements of the narrower type, the least significant
/// first, make one of the wider: they are the last dimension of the narrower array.
pub(super) fn convert(inst: &Instruction, a: &ArrayLiteral, shape: &ArrayShape) -> Result<ArrayLiteral> {
    let (from, to) = (a.ty().bits(), shape.ty.bits());
    let mut dims = a.dims().to_vec();
    if from > to {
        dims.push(i64::from(from / to));
    } else if from < to && dims.pop() != Some(i64::from(to / from)) {
        return Err(invalid(inst, format!("the last dimension must be {}", to / from)));
    }
    let mut out = new_array(inst, &ArrayShape::new(shape.ty, dims))?;
    reinterpret(a, &mut out);
    Ok(out)
}

/// Fills `out` with the bits of `a`, both row-major; one width must divide the other.
fn reinterpret(a: &ArrayLiteral, out: &mut ArrayLiteral) {
    let (from, to) = (a.ty().bits(), out.ty().bits());
    if from >= to {
        let ratio = (from / to) as usize;
        for i in 0..out.elements() {
            let value = load(a, i / ratio, from) >> ((i % ratio) as u32 * to);
            store(out, i, to, value & (u128::MAX >> (128 - to)));
        }
    } else {
        let ratio = (to / from) as usize;
        for i in 0..out.elements() {
            let value = (0..ratio).fold(0, |v, k| v | load(a, i * ratio + k, from) << (k as u32 * from));
            store(out, i, to, value);
        }
    }
}

/// Dimension numbers from the slowest-varying to the fastest.
fn major_to_minor(shape: &ArrayShape) -> Vec<usize> {
    shape.minor_to_major().into_iter().rev().collect()
}

/// The same bytes in memory under another shape, whose layout may differ too.
pub(super) fn bitcast(cx: &Context<'_>, inst: &Instruction, a: &ArrayLiteral) -> Result<Literal> {
    let Some(Shape::Array(source)) = cx.operand_shape(inst, 0) else {
        // Without the operand's layout nobody can tell what lies in memory.
        return Err(unsupported(inst, "'bitcast' outside its computation"));
    };
    let target = result_shape(inst)?;
    let total = |shape: &ArrayShape| Some(shape.checked_elements()? as u128 * u128::from(shape.ty.bits()));
    if source.rank() != a.dims().len() || total(a.shape()) != total(target) {
        return Err(invalid(inst, format!("{} is not of the size of {target}", a.shape())));
    }
    let physical = transpose(inst, a, &major_to_minor(source))?;
    let order = major_to_minor(target);
    let dims: Vec<i64> = order.iter().map(|&d| target.dims[d]).collect();
    let mut out = new_array(inst, &ArrayShape::new(target.ty, dims))?;
    reinterpret(&physical, &mut out);
    transpose(inst, &out, &inverse(&order)).map(Literal::from)
}
