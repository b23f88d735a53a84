//! True sizes in expansions of arrays with dynamic dimensions: what `passes/dynamic` then takes apart.

use super::formula::scalar;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape};

fn along(d: usize) -> Attrs {
    Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(vec![d as i64]))
}

fn is_dynamic(rw: &Rewriter<'_>, x: InstructionId, d: usize) -> bool {
    rw.array(x).is_some_and(|a| a.dynamic.get(d) == Some(&true))
}

/// How many elements an array has along a dimension, a scalar.
pub fn size(rw: &mut Rewriter<'_>, x: InstructionId, d: usize, ty: ElementType) -> InstructionId {
    if is_dynamic(rw, x, d) {
        let size = rw.emit(Opcode::GetDimensionSize, Shape::scalar(ElementType::S32), vec![x], along(d));
        return rw.convert(size, ty);
    }
    let bound = rw.dims(x).get(d).copied().unwrap_or(0);
    scalar(rw, ty, Scalar::Int(bound))
}

/// An array with `size`, an `s32`, along a dimension, marked as `dynamic` says.
pub fn resized(rw: &mut Rewriter<'_>, x: InstructionId, d: usize, size: InstructionId, dynamic: bool) -> InstructionId {
    let mut shape = rw.shape(x).without_layout();
    if let Shape::Array(array) = &mut shape
        && let Some(mark) = array.dynamic.get_mut(d)
    {
        *mark = dynamic;
    }
    rw.emit(Opcode::SetDimensionSize, shape, vec![x, size], along(d))
}

/// An array of which no dimension is dynamic, zeros past the true sizes.
pub fn at_bounds(rw: &mut Rewriter<'_>, x: InstructionId) -> InstructionId {
    let dims = rw.dims(x).to_vec();
    let mut x = x;
    for (d, bound) in dims.into_iter().enumerate() {
        if is_dynamic(rw, x, d) {
            let bound = scalar(rw, ElementType::S32, Scalar::Int(bound));
            x = resized(rw, x, d, bound, false);
        }
    }
    x
}

/// A static array with the true sizes of `like`, marked as `declared` is.
pub fn sized(rw: &mut Rewriter<'_>, x: InstructionId, like: InstructionId, declared: &ArrayShape) -> InstructionId {
    let mut x = x;
    for (d, &dynamic) in declared.dynamic.iter().enumerate() {
        if is_dynamic(rw, like, d) {
            let size = size(rw, like, d, ElementType::S32);
            x = resized(rw, x, d, size, dynamic);
        }
    }
    x
}
