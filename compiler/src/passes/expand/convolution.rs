//! Convolutions that are matrix products: what surrounds and parts the elements of their base becomes a `pad`.

use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode, PaddingDimension};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType};

/// A convolution over several positions with several features, of which code generation makes a blocked contraction, reads
/// its base without a test for each element: the base is padded before.
///
/// Depthwise convolutions (one feature a group), batch groups and types without a contraction of their own keep their
/// padding.
pub fn padding(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id).clone();
    let (base, kernel) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let attrs = &instruction.attrs;
    let labels = attrs.dim_labels(AttrKey::DimLabels).cloned();
    let (Some(labels), Some(window)) = (labels, attrs.window(AttrKey::Window)) else { return Ok(None) };
    let padded = |w: &crate::hlo::WindowDimension| w.padding_low != 0 || w.padding_high != 0 || w.base_dilation != 1;
    let (Some(shape), Some(result)) = (rw.array(base).cloned(), rw.array(id).cloned()) else { return Ok(None) };
    let same = rw.array(kernel).is_some_and(|k| k.ty == shape.ty) && result.ty == shape.ty;
    let groups = attrs.int(AttrKey::FeatureGroupCount).unwrap_or(1).max(1);
    let features = result.dims.get(labels.output_feature).copied().unwrap_or(0);
    let blocked = same
        && matches!(shape.ty, ElementType::F32 | ElementType::F64)
        && attrs.int(AttrKey::BatchGroupCount).unwrap_or(1) == 1
        && features > groups
        && result.elements() > 0
        && shape.elements() > 0;
    if !blocked || window.len() != labels.input_spatial.len() || !window.iter().any(padded) {
        return Ok(None);
    }
    let mut amounts = vec![PaddingDimension::default(); shape.rank()];
    let mut dims = shape.dims.clone();
    let mut window = window.to_vec();
    for (w, &d) in window.iter_mut().zip(&labels.input_spatial) {
        let interior = w.base_dilation - 1;
        amounts[d] = PaddingDimension { low: w.padding_low, high: w.padding_high, interior };
        let spread = (dims[d] - 1).checked_mul(w.base_dilation).and_then(|n| n.checked_add(1));
        let size = spread.and_then(|n| n.checked_add(w.padding_low)?.checked_add(w.padding_high));
        let Some(size) = size.filter(|&n| n > 0) else { return Ok(None) };
        dims[d] = size;
        (w.padding_low, w.padding_high, w.base_dilation) = (0, 0, 1);
    }
    let zero = rw.constant(ArrayLiteral::zeros(&ArrayShape::new(shape.ty, [])).into());
    let whole = ArrayShape::new(shape.ty, dims);
    let pad = Attrs::new().with(AttrKey::Padding, AttrValue::Padding(amounts));
    let base = rw.emit(Opcode::Pad, whole.into(), vec![base, zero], pad);
    let mut attrs = instruction.attrs.clone();
    attrs.remove(AttrKey::ControlPredecessors);
    attrs.set(AttrKey::Window, AttrValue::Window(window));
    Ok(Some(rw.emit(Opcode::Convolution, instruction.shape, vec![base, kernel], attrs)))
}
