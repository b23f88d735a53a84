//! `convolution`.
//!
//! Problem: any number of spatial dimensions, any order of dimensions, strides, padding of either sign, holes in the
//! input and in the kernel, reversal, and two ways of grouping. Invariant: along each spatial dimension a table says,
//! for each output position, which (input, kernel) element offsets meet; padding and holes never appear in it.
//! Algorithm: for each output element, the sum of products over the Cartesian product of those tables and over the
//! input features of its group, in `f64`, `Complex<f64>` or wrapping `i64`, rounded once.

use super::dense::{Domain, Number, accumulators, offsets};
use super::{Context, array, invalid, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, ConvolutionDims, Instruction, WindowDimension};
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal};

/// Evaluates `convolution`.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let lhs = array(inst, operands, 0)?;
    let rhs = array(inst, operands, 1)?;
    let shape = result_shape(inst)?;
    let out = match Domain::of(&[lhs.ty(), rhs.ty(), shape.ty]) {
        Domain::Integer => convolve::<i64>(inst, shape, lhs, rhs)?,
        Domain::Real => convolve::<f64>(inst, shape, lhs, rhs)?,
        Domain::Complex => convolve::<Complex<f64>>(inst, shape, lhs, rhs)?,
    };
    Ok(out.into())
}

/// An element of the input and an element of the kernel that meet, as offsets.
type Tap = (usize, usize);

/// For each output position along one dimension, the taps that meet there.
fn taps(window: &WindowDimension, output: i64, input: (i64, i64), kernel: (i64, i64)) -> Vec<Vec<Tap>> {
    let (input_size, input_stride) = input;
    let (kernel_size, kernel_stride) = kernel;
    let hole = i128::from(window.base_dilation.max(1));
    (0..output)
        .map(|o| {
            let start = i128::from(o) * i128::from(window.stride) - i128::from(window.padding_low);
            (0..kernel_size)
                .filter_map(|k| {
                    let at = start + i128::from(k) * i128::from(window.window_dilation);
                    let inside = at >= 0 && at % hole == 0 && at / hole < i128::from(input_size);
                    let k = if window.reversal { kernel_size - 1 - k } else { k };
                    inside.then(|| ((at / hole) as usize * input_stride as usize, (k * kernel_stride) as usize))
                })
                .collect()
        })
        .collect()
}

/// The number of spatial dimensions, where the dimension numbers fit the ranks.
fn spatial_rank(
    inst: &Instruction,
    dims: &ConvolutionDims,
    window: &[WindowDimension],
    ranks: [usize; 3],
) -> Result<usize> {
    let spatial = dims.input_spatial.len();
    let complete = |batch: usize, feature: usize, list: &[usize]| {
        let mut all: Vec<usize> = [batch, feature].into_iter().chain(list.iter().copied()).collect();
        all.sort_unstable();
        all.into_iter().eq(0..spatial + 2)
    };
    let good = ranks == [spatial + 2; 3]
        && window.len() == spatial
        && complete(dims.input_batch, dims.input_feature, &dims.input_spatial)
        && complete(dims.kernel_input_feature, dims.kernel_output_feature, &dims.kernel_spatial)
        && complete(dims.output_batch, dims.output_feature, &dims.output_spatial);
    if good { Ok(spatial) } else { Err(invalid(inst, "window and dim_labels must fit the ranks of the operands")) }
}

fn convolve<T: Number>(
    inst: &Instruction,
    shape: &ArrayShape,
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
) -> Result<ArrayLiteral> {
    let dims = inst.attrs.dim_labels(AttrKey::DimLabels).ok_or_else(|| invalid(inst, "dim_labels is missing"))?;
    let window = inst.attrs.window(AttrKey::Window).unwrap_or(&[]);
    let spatial = spatial_rank(inst, dims, window, [lhs.dims().len(), rhs.dims().len(), shape.rank()])?;
    let (ls, rs, os) = (lhs.shape().strides(), rhs.shape().strides(), shape.strides());
    let feature_groups = inst.attrs.int(AttrKey::FeatureGroupCount).unwrap_or(1).max(1);
    let batch_groups = inst.attrs.int(AttrKey::BatchGroupCount).unwrap_or(1).max(1);
    let group_features = rhs.dims()[dims.kernel_input_feature];
    let (batches, features) = (shape.dims[dims.output_batch], shape.dims[dims.output_feature]);
    let good = features == rhs.dims()[dims.kernel_output_feature]
        && group_features.checked_mul(feature_groups) == Some(lhs.dims()[dims.input_feature])
        && batches.checked_mul(batch_groups) == Some(lhs.dims()[dims.input_batch])
        && features % feature_groups == 0
        && features % batch_groups == 0;
    if !good {
        return Err(invalid(inst, "batch and feature sizes must fit the group counts"));
    }

    let tables: Vec<Vec<Vec<Tap>>> = (0..spatial)
        .map(|d| {
            let (i, k, o) = (dims.input_spatial[d], dims.kernel_spatial[d], dims.output_spatial[d]);
            taps(&window[d], shape.dims[o], (lhs.dims()[i], ls[i]), (rhs.dims()[k], rs[k]))
        })
        .collect();
    let sizes: Vec<i64> = dims.output_spatial.iter().map(|&o| shape.dims[o]).collect();
    let strides: Vec<i64> = dims.output_spatial.iter().map(|&o| os[o]).collect();
    let (input, kernel) = (T::read(lhs), T::read(rhs));
    let input_features = offsets(&[group_features], &[ls[dims.input_feature]]);
    let kernel_features = offsets(&[group_features], &[rs[dims.kernel_input_feature]]);
    let mut out = accumulators::<T>(inst, shape)?;

    for (flat, &output_base) in offsets(&sizes, &strides).iter().enumerate() {
        let mut meeting: Vec<Tap> = vec![(0, 0)];
        let mut rest = flat;
        for (table, &size) in tables.iter().zip(&sizes).rev() {
            let here = &table[rest % size as usize];
            rest /= size as usize;
            meeting = here.iter().flat_map(|&(i, k)| meeting.iter().map(move |&(i2, k2)| (i + i2, k + k2))).collect();
        }
        for feature in 0..features {
            let feature_group = feature / (features / feature_groups);
            let batch_group = feature / (features / batch_groups);
            let kernel_base = (feature * rs[dims.kernel_output_feature]) as usize;
            for batch in 0..batches {
                let input_base = ((batch_group * batches + batch) * ls[dims.input_batch]
                    + feature_group * group_features * ls[dims.input_feature])
                    as usize;
                let mut sum = T::ZERO;
                for &(i, k) in &meeting {
                    for (&fi, &fk) in input_features.iter().zip(&kernel_features) {
                        sum = sum.plus_product(input[input_base + i + fi], kernel[kernel_base + k + fk]);
                    }
                }
                let at = batch * os[dims.output_batch] + feature * os[dims.output_feature];
                out[output_base + at as usize] = sum;
            }
        }
    }
    T::write(inst, shape, &out)
}
