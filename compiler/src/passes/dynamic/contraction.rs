//! Contractions, whose operands are zero past the true size, and what only runs along dynamic batches.

use super::draft::Draft;
use super::reduction::window_places;
use super::value::{Size, Value};
use super::walk::Site;
use crate::error::Result;
use crate::hlo::AttrKey;

/// The products past the true size are zero times zero; all other dimensions hand their sizes on.
pub(super) fn dot(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let mut operands = at.all_data(draft)?;
    if operands.len() != 2 {
        return at.unsupported(draft);
    }
    let (lhs, rhs) = (at.operand(draft, 0)?, at.operand(draft, 1)?);
    let (l, r) = (draft.array(operands[0])?, draft.array(operands[1])?);
    let list = |key| at.inst.attrs.dimension_numbers(key);
    let (lhs_sum, rhs_sum) = (list(AttrKey::LhsContractingDims), list(AttrKey::RhsContractingDims));
    let (lhs_batch, rhs_batch) = (list(AttrKey::LhsBatchDims), list(AttrKey::RhsBatchDims));
    let mut lhs_sizes = vec![None; l.rank()];
    let mut rhs_sizes = vec![None; r.rank()];
    for (&a, &b) in lhs_sum.iter().zip(&rhs_sum) {
        let size = lhs.size(a).or(rhs.size(b));
        if let (Some(x), Some(y)) = (lhs_sizes.get_mut(a), rhs_sizes.get_mut(b)) {
            (*x, *y) = (size, size);
        }
    }
    for (operand, sizes) in operands.iter_mut().zip([lhs_sizes, rhs_sizes]) {
        let ty = draft.array(*operand)?.ty;
        let zero = draft.zero(ty);
        *operand = draft.masked(*operand, &sizes, zero)?;
    }
    let mut sizes: Vec<Size> = lhs_batch.iter().zip(&rhs_batch).map(|(&a, &b)| lhs.size(a).or(rhs.size(b))).collect();
    let free = |rank: usize, sum: &[usize], batch: &[usize]| -> Vec<usize> {
        (0..rank).filter(|d| !sum.contains(d) && !batch.contains(d)).collect()
    };
    sizes.extend(free(l.rank(), &lhs_sum, &lhs_batch).into_iter().map(|d| lhs.size(d)));
    sizes.extend(free(r.rank(), &rhs_sum, &rhs_batch).into_iter().map(|d| rhs.size(d)));
    Ok(Value::new(at.again(draft, operands), sizes))
}

/// The batch, the spatial dimensions and the features of the input may be dynamic, and the output features of the
/// kernel.
pub(super) fn convolution(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let Some(labels) = at.inst.attrs.dim_labels(AttrKey::DimLabels).cloned() else { return at.unsupported(draft) };
    let window = at.inst.attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
    let mut operands = at.all_data(draft)?;
    let (lhs, rhs) = (at.operand(draft, 0)?, at.operand(draft, 1)?);
    let groups = |key| at.inst.attrs.int(key).unwrap_or(1);
    let grouped = groups(AttrKey::FeatureGroupCount) != 1 || groups(AttrKey::BatchGroupCount) != 1;
    let (batch, features) = (lhs.size(labels.input_batch), lhs.size(labels.input_feature));
    let kernel_spatial = labels.kernel_spatial.iter().any(|&d| rhs.size(d).is_some());
    let out_features = rhs.size(labels.kernel_output_feature);
    let features = features.or(rhs.size(labels.kernel_input_feature));
    if kernel_spatial || grouped && (batch.is_some() || features.is_some() || out_features.is_some()) {
        return at.unsupported(draft);
    }
    let shape = at.inst.shape.as_array().cloned().ok_or_else(|| draft.internal("an array was expected"))?;
    let mut sizes = vec![None; shape.rank()];
    let (mut lhs_sizes, mut rhs_sizes) = (vec![None; shape.rank()], vec![None; shape.rank()]);
    if let (Some(b), Some(f)) =
        (lhs_sizes.get_mut(labels.input_feature), rhs_sizes.get_mut(labels.kernel_input_feature))
    {
        (*b, *f) = (features, features);
    }
    for ((&from, &to), w) in labels.input_spatial.iter().zip(&labels.output_spatial).zip(&window) {
        let Some(size) = lhs.size(from) else { continue };
        if let Some(slot) = lhs_sizes.get_mut(from) {
            *slot = Some(size);
        }
        let places = window_places(draft, size, w, shape.dims.get(to).copied().unwrap_or(0))?;
        if let Some(slot) = sizes.get_mut(to) {
            *slot = Some(places);
        }
    }
    for (d, size) in [(labels.output_batch, batch), (labels.output_feature, out_features)] {
        if let Some(slot) = sizes.get_mut(d) {
            *slot = size;
        }
    }
    for (operand, sizes) in operands.iter_mut().zip([lhs_sizes, rhs_sizes]) {
        let ty = draft.array(*operand)?.ty;
        let zero = draft.zero(ty);
        *operand = draft.masked(*operand, &sizes, zero)?;
    }
    Ok(Value::new(at.again(draft, operands), sizes))
}

/// Each element is normalized by itself.
pub(super) fn batch_norm_inference(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let operands = at.all_data(draft)?;
    let rank = draft.array(operands.first().copied().ok_or_else(|| draft.internal("no operand"))?)?.rank();
    let sizes = at.operand(draft, 0)?.sizes(rank);
    Ok(Value::new(at.again(draft, operands), sizes))
}

/// Matrices, the last two dimensions, are static; those before are batches, with the sizes of operand `from`.
pub(super) fn batched(draft: &mut Draft, at: &Site<'_>, from: usize) -> Result<Value> {
    let operands = at.all_data(draft)?;
    let rank = draft.array(at.data(draft, from)?)?.rank();
    let matrix = |k: usize| (rank.saturating_sub(2)..rank).any(|d| at.size_of_first([k], d).is_some());
    if (0..operands.len()).any(matrix) {
        return at.unsupported(draft);
    }
    let sizes = (0..rank).map(|d| at.size_of_first([from, 0], d)).collect();
    Ok(Value::new(at.again(draft, operands), sizes))
}
