//! Contractions, whose operands are zero past the true size, and what only runs along dynamic batches.

use super::draft::Draft;
use super::reduction::window_places;
use super::site::Site;
use super::value::{Size, Value};
use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId};
use brolga_runtime::ElementType;

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
/// kernel, but for what is cut into groups.
pub(super) fn convolution(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let Some(labels) = at.inst.attrs.dim_labels(AttrKey::DimLabels).cloned() else { return at.unsupported(draft) };
    let window = at.inst.attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
    let mut operands = at.all_data(draft)?;
    let (lhs, rhs) = (at.operand(draft, 0)?, at.operand(draft, 1)?);
    let is_grouped = |key| at.inst.attrs.int(key).unwrap_or(1) != 1;
    let batches = is_grouped(AttrKey::BatchGroupCount);
    let cut = is_grouped(AttrKey::FeatureGroupCount);
    let (batch, features) = (lhs.size(labels.input_batch), lhs.size(labels.input_feature));
    let kernel_spatial = labels.kernel_spatial.iter().any(|&d| rhs.size(d).is_some());
    let out_features = rhs.size(labels.kernel_output_feature);
    let features = features.or(rhs.size(labels.kernel_input_feature));
    let groups_dynamic =
        batches && batch.is_some() || cut && features.is_some() || (batches || cut) && out_features.is_some();
    if kernel_spatial || groups_dynamic {
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

/// Transformed dimensions are static; those before are batches.
pub(super) fn fft(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let data = at.data(draft, 0)?;
    let rank = draft.array(data)?.rank();
    let outer = rank.saturating_sub(at.inst.attrs.ints_or_empty(AttrKey::FftLength).len());
    let sizes = at.operand(draft, 0)?.sizes(rank);
    if sizes.iter().skip(outer).any(Option::is_some) {
        return Err(draft.unsupported("'fft' along a dynamic dimension"));
    }
    Ok(Value::new(at.again(draft, vec![data]), sizes))
}

/// A batch of square matrices of which only the first `size` rows and columns exist, those of an identity behind them.
fn with_identity(draft: &mut Draft, matrices: InstructionId, size: Size) -> Result<InstructionId> {
    let shape = draft.array(matrices)?;
    let [row, column] = [2, 1].map(|k| shape.rank().saturating_sub(k));
    let mut sizes = vec![None; shape.rank()];
    for d in [row, column] {
        if let Some(slot) = sizes.get_mut(d) {
            *slot = size;
        }
    }
    let Some(exists) = draft.valid(&shape.dims, &sizes)? else { return Ok(matrices) };
    let (i, j) = (draft.iota(ElementType::S32, &shape.dims, row), draft.iota(ElementType::S32, &shape.dims, column));
    let diagonal = draft.compare("EQ", i, j)?;
    let identity = draft.convert(diagonal, shape.ty)?;
    Ok(draft.select(exists, matrices, identity))
}

/// The factor of a matrix beside an identity is its factor beside an identity.
pub(super) fn cholesky(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let data = at.data(draft, 0)?;
    let rank = draft.array(data)?.rank();
    let sizes = at.operand(draft, 0)?.sizes(rank);
    let data = with_identity(draft, data, sizes.iter().rev().take(2).find_map(|&s| s))?;
    Ok(Value::new(at.again(draft, vec![data]), sizes))
}

/// The matrix is put beside an identity, right sides of zeros belong to it. Right sides are solved each by itself.
pub(super) fn triangular_solve(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let (a, mut b) = (at.data(draft, 0)?, at.data(draft, 1)?);
    let rank = draft.array(b)?.rank();
    let left = at.inst.attrs.bool(AttrKey::LeftSide).unwrap_or(false);
    let [row, column] = [2, 1].map(|k| rank.saturating_sub(k));
    let solved = if left { row } else { column };
    let size = at.size_of_first([0], row).or(at.size_of_first([0], column)).or(at.size_of_first([1], solved));
    let mut sizes: Vec<Size> = (0..row).map(|d| at.size_of_first([1, 0], d)).collect();
    sizes.extend((row..rank).map(|d| if d == solved { size } else { at.size_of_first([1], d) }));
    let mut only = vec![None; rank];
    if let Some(slot) = only.get_mut(solved) {
        *slot = size;
    }
    let ty = draft.array(b)?.ty;
    let zero = draft.zero(ty);
    b = draft.masked(b, &only, zero)?;
    let a = with_identity(draft, a, size)?;
    Ok(Value::new(at.again(draft, vec![a, b]), sizes))
}
