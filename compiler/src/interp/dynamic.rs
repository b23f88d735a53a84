//! Bounded dynamic dimensions.
//!
//! Problem: a dimension written `<=8` has a size known only when the program runs. Invariant: inside the interpreter
//! an array always has its true size, so that no operation ever meets padding. Algorithm: before an operation whose
//! result is declared dynamic, or of which an operand is smaller than declared, its declared dimensions are replaced by
//! those that its operands' true sizes imply; most operations work them out by themselves.

use super::context::Context;
use super::{array, execution, invalid, unsupported};
use crate::Result;
use crate::hlo::{AttrKey, AttrValue, Instruction, Opcode};
use crate::shape::{Sizes, reshape_groups, window_output_size};
use brolga_runtime::{ArrayShape, Literal, Shape};

/// Who knows the true size of a result.
pub(super) enum Size {
    /// The instruction's own shape has it.
    Declared,
    /// The shape of this instruction, to be run instead, has it.
    Known(Instruction),
    /// The operation works it out from its operands; this instruction is to be run instead.
    OfOperands(Instruction),
}

/// The instruction with a result of true size, where it is declared dynamic, or an operand is smaller than declared, and
/// the operation reads that size.
pub(super) fn specialize(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Size> {
    let Shape::Array(shape) = &inst.shape else {
        return Ok(several(inst, operands)?.map_or(Size::Declared, Size::Known));
    };
    // Sizes follow values, whatever shapes say between `set-dimension-size` and here.
    let smaller = || {
        (0..operands.len())
            .any(|k| bounds(cx, inst, k).is_some_and(|b| array(inst, operands, k).is_ok_and(|a| a.dims() != b)))
    };
    if inst.opcode == Opcode::SetDimensionSize || !(shape.is_dynamic() || smaller()) {
        return Ok(Size::Declared);
    }
    let mut dims = shape.dims.clone();
    let mut size: fn(Instruction) -> Size = Size::Known;
    match inst.opcode {
        Opcode::Broadcast => {
            let map = inst.attrs.ints_or_empty(AttrKey::Dimensions);
            for (&d, &size) in map.iter().zip(array(inst, operands, 0)?.dims()) {
                let slot = usize::try_from(d).ok().and_then(|d| dims.get_mut(d));
                *slot.ok_or_else(|| invalid(inst, format!("no dimension {d}")))? = size;
            }
        }
        Opcode::DynamicReshape => {
            for (i, size) in dims.iter_mut().enumerate() {
                let value = array(inst, operands, i + 1)?.get(0).as_i64();
                *size = value.clamp(0, *size);
            }
        }
        Opcode::Reshape => dims = reshaped(cx, inst, operands, shape)?,
        Opcode::Slice => {
            let ranges = inst.attrs.slice_ranges(AttrKey::Slice).unwrap_or(&[]).iter();
            let actual = array(inst, operands, 0)?.dims();
            for (((size, &dynamic), range), &n) in dims.iter_mut().zip(&shape.dynamic).zip(ranges).zip(actual) {
                // A single element that is declared static is one, whether or not it exists.
                if *size != 1 || dynamic {
                    let length = (range.limit.min(n) - range.start).max(0) as u64;
                    *size = length.div_ceil(range.stride.max(1) as u64) as i64;
                }
            }
        }
        Opcode::Dot => {
            let (lhs, rhs) = (array(inst, operands, 0)?.dims(), array(inst, operands, 1)?.dims());
            let list = |key| inst.attrs.ints_or_empty(key);
            let free = |dims: &[i64], batch: &[i64], contracting: &[i64]| -> Vec<i64> {
                let taken = |d: usize| batch.iter().chain(contracting).any(|&t| usize::try_from(t) == Ok(d));
                dims.iter().enumerate().filter(|&(d, _)| !taken(d)).map(|(_, &n)| n).collect()
            };
            let batch = list(AttrKey::LhsBatchDims);
            let sizes = batch.iter().map(|&d| usize::try_from(d).ok().and_then(|d| lhs.get(d).copied()));
            let mut actual = sizes.collect::<Option<Vec<i64>>>().ok_or_else(|| invalid(inst, "batch dimensions"))?;
            actual.extend(free(lhs, batch, list(AttrKey::LhsContractingDims)));
            actual.extend(free(rhs, list(AttrKey::RhsBatchDims), list(AttrKey::RhsContractingDims)));
            dims = actual;
        }
        Opcode::Cholesky => dims = array(inst, operands, 0)?.dims().to_vec(),
        Opcode::TriangularSolve => dims = array(inst, operands, 1)?.dims().to_vec(),
        Opcode::Convolution => dims = convolved(inst, operands, dims)?,
        Opcode::Scatter => dims = array(inst, operands, 0)?.dims().to_vec(),
        // A slice of a dynamic dimension that is longer than the true size is the whole dimension.
        Opcode::DynamicSlice => {
            let sizes = clipped(cx, inst, AttrKey::DynamicSliceSizes, operands)?;
            let mut inst = inst.clone();
            inst.attrs.set(AttrKey::DynamicSliceSizes, AttrValue::Ints(sizes.clone()));
            inst.shape = Shape::array(shape.ty, sizes);
            return Ok(Size::Known(inst));
        }
        Opcode::Gather => {
            let sizes = clipped(cx, inst, AttrKey::SliceSizes, operands)?;
            dims = gathered(inst, operands, &sizes, dims.len())?;
            let mut inst = inst.clone();
            inst.attrs.set(AttrKey::SliceSizes, AttrValue::Ints(sizes));
            inst.shape = Shape::array(shape.ty, dims);
            return Ok(Size::Known(inst));
        }
        Opcode::Fft => {
            let batches = dims.len().saturating_sub(inst.attrs.ints_or_empty(AttrKey::FftLength).len());
            for (size, &actual) in dims.iter_mut().zip(array(inst, operands, 0)?.dims()).take(batches) {
                *size = actual;
            }
        }
        Opcode::RaggedDot | Opcode::ScaledDot => {
            return Err(unsupported(inst, format!("'{}' of dynamic dimensions", inst.opcode)));
        }
        _ => size = Size::OfOperands,
    }
    let mut inst = inst.clone();
    inst.shape = Shape::Array(ArrayShape { layout: shape.layout.clone(), ..ArrayShape::new(shape.ty, dims) });
    Ok(size(inst))
}

/// The dimensions that an operand declares.
fn bounds<'a>(cx: &Context<'a>, inst: &Instruction, k: usize) -> Option<&'a [i64]> {
    cx.operand_shape(inst, k).and_then(Shape::as_array).map(|a| &*a.dims)
}

/// The true dimensions of a reshape's result: [`reshape_groups`] says where the operand's go.
fn reshaped(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal], shape: &ArrayShape) -> Result<Vec<i64>> {
    let actual = array(inst, operands, 0)?.dims();
    let from = bounds(cx, inst, 0).unwrap_or(actual);
    let mut dims = shape.dims.clone();
    if from == actual || from.len() != actual.len() {
        return Ok(dims);
    }
    if from.contains(&0) {
        // No count of elements says where a size went; equal dimensions do.
        let same = (from == dims).then(|| actual.to_vec());
        return same.ok_or_else(|| unsupported(inst, "reshape of an empty array of dynamic dimensions"));
    }
    for group in reshape_groups(from, &shape.dims) {
        if group.from.iter().all(|&d| actual[d] == from[d]) {
            continue;
        }
        match group.sizes(from, |d| actual[d] != from[d], shape, &inst.attrs) {
            Some(Sizes::Follow(pairs)) => pairs.into_iter().for_each(|(s, t)| dims[t] = actual[s]),
            Some(Sizes::Open(d)) => {
                let elements = group.from.iter().map(|&d| actual[d]).fold(1, i64::saturating_mul);
                let others = group.to.iter().filter(|&&t| t != d).map(|&t| dims[t]).fold(1, i64::saturating_mul);
                if elements % others != 0 || elements / others > dims[d] {
                    return Err(execution(inst, format!("{elements} elements do not fill {shape}")));
                }
                dims[d] = elements / others;
            }
            Some(Sizes::Nowhere) => {}
            // One unknown follows from the number of elements; of several, no rule says which.
            None => return Err(unsupported(inst, "reshape to several dynamic dimensions")),
        }
    }
    Ok(dims)
}

/// The instruction with results of true sizes, where it yields several arrays and reads their sizes.
fn several(inst: &Instruction, operands: &[&Literal]) -> Result<Option<Instruction>> {
    let Shape::Tuple(parts) = &inst.shape else { return Ok(None) };
    let arrays: Option<Vec<&ArrayShape>> = parts.iter().map(Shape::as_array).collect();
    let Some(arrays) = arrays.filter(|list| list.iter().any(|a| a.is_dynamic())) else { return Ok(None) };
    let dims = match inst.opcode {
        Opcode::TopK => {
            let mut dims = array(inst, operands, 0)?.dims().to_vec();
            if let (Some(last), Some(&k)) = (dims.last_mut(), arrays.first().and_then(|a| a.dims.last())) {
                *last = k;
            }
            vec![dims; arrays.len()]
        }
        Opcode::BatchNormTraining | Opcode::BatchNormGrad => {
            let first = array(inst, operands, 0)?.dims().to_vec();
            let features = array(inst, operands, 1)?.dims().to_vec();
            let rest = arrays.len().saturating_sub(1);
            [vec![first], vec![features; rest]].concat()
        }
        _ => return Ok(None),
    };
    let mut inst = inst.clone();
    let shapes = arrays.into_iter().zip(dims).map(|(a, dims)| Shape::array(a.ty, dims)).collect();
    inst.shape = Shape::Tuple(shapes);
    Ok(Some(inst))
}

/// The slice sizes that attribute `key` gives; one as long as the first operand's bound is its true size.
fn clipped(cx: &Context<'_>, inst: &Instruction, key: AttrKey, operands: &[&Literal]) -> Result<Vec<i64>> {
    let actual = array(inst, operands, 0)?.dims();
    let bounds = bounds(cx, inst, 0).unwrap_or(actual);
    let sizes = inst.attrs.ints_or_empty(key).iter().zip(actual).zip(bounds);
    Ok(sizes.map(|((&s, &n), &bound)| if s == bound { n } else { s }).collect())
}

/// The dimensions of a gather of slices of `sizes`: those of the slices and those of the indices, interleaved.
fn gathered(inst: &Instruction, operands: &[&Literal], sizes: &[i64], rank: usize) -> Result<Vec<i64>> {
    let numbers = |key| inst.attrs.dimension_numbers(key);
    let dropped = [numbers(AttrKey::CollapsedSliceDims), numbers(AttrKey::OperandBatchingDims)].concat();
    let vector = inst.attrs.int(AttrKey::IndexVectorDim).unwrap_or(0);
    let kept = |&(d, _): &(usize, &i64)| !dropped.contains(&d);
    let mut window = sizes.iter().enumerate().filter(kept).map(|(_, &n)| n);
    let batch = array(inst, operands, 1)?.dims().iter().enumerate();
    let mut batch = batch.filter(|&(d, _)| d as i64 != vector).map(|(_, &n)| n);
    let offset = numbers(AttrKey::OffsetDims);
    let dims = (0..rank).map(|d| if offset.contains(&d) { window.next() } else { batch.next() });
    dims.collect::<Option<Vec<i64>>>().ok_or_else(|| invalid(inst, "slices and indices do not fill the result"))
}

/// The dimensions of a convolution: its batch and the places of its window follow the operands. What is cut into groups is
/// of the declared size.
fn convolved(inst: &Instruction, operands: &[&Literal], mut dims: Vec<i64>) -> Result<Vec<i64>> {
    let (lhs, rhs) = (array(inst, operands, 0)?.dims(), array(inst, operands, 1)?.dims());
    let labels = inst.attrs.dim_labels(AttrKey::DimLabels).ok_or_else(|| invalid(inst, "no dim_labels"))?;
    let groups = |key| inst.attrs.int(key).unwrap_or(1);
    let mut set = |at: usize, size: Option<i64>| match (dims.get_mut(at), size) {
        (Some(slot), Some(size)) => {
            *slot = size;
            Ok(())
        }
        _ => Err(invalid(inst, "dim_labels must fit the operands")),
    };
    if groups(AttrKey::BatchGroupCount) == 1 {
        set(labels.output_batch, lhs.get(labels.input_batch).copied())?;
    }
    if groups(AttrKey::FeatureGroupCount) == 1 && groups(AttrKey::BatchGroupCount) == 1 {
        set(labels.output_feature, rhs.get(labels.kernel_output_feature).copied())?;
    }
    let window = inst.attrs.window(AttrKey::Window).unwrap_or(&[]);
    for ((&from, &to), w) in labels.input_spatial.iter().zip(&labels.output_spatial).zip(window) {
        // Padding that cuts more than there is leaves nothing.
        set(to, lhs.get(from).map(|&n| window_output_size(n, w).unwrap_or(0)))?;
    }
    Ok(dims)
}
