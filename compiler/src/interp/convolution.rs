//! `convolution`.
//!
//! Problem: any number of spatial dimensions, any order of dimensions, strides, padding of either sign, holes in the
//! input and in the kernel, reversal, and two ways of grouping. Invariant: along each spatial dimension a table says,
//! for each output position, which (input, kernel) element offsets meet; padding and the input's holes are zeros that the
//! kernel is multiplied with, so that an infinity there gives NaN.
//! Algorithm: for each output element, the sum of products over the Cartesian product of those tables and over the
//! input features of its group, in `f64`, `Complex<f64>` or wrapping `i64`, rounded once.

use super::contraction::converted;
use super::dense::{Domain, Number, accumulators, offsets};
use super::{Context, array, invalid, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, ConvolutionDims, Instruction, WindowDimension};
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, row_major_strides};

/// Evaluates `convolution`.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    converted(inst, operands, |inst| evaluate(inst, operands))
}

fn evaluate(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
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

/// An element of the input, or a zero beside or between them, and an element of the kernel that meet, as offsets.
type Tap = (Option<usize>, usize);

/// For each output position along one dimension, the taps that meet there.
fn taps(window: &WindowDimension, output: i64, input: (i64, i64), kernel: (i64, i64)) -> Vec<Vec<Tap>> {
    let (input_size, input_stride) = input;
    let (kernel_size, kernel_stride) = kernel;
    let hole = i128::from(window.base_dilation.max(1));
    (0..output)
        .map(|o| {
            let start = i128::from(o) * i128::from(window.stride) - i128::from(window.padding_low);
            (0..kernel_size)
                .map(|k| {
                    let at = start + i128::from(k) * i128::from(window.window_dilation);
                    let inside = at >= 0 && at % hole == 0 && at / hole < i128::from(input_size);
                    let k = if window.reversal { kernel_size - 1 - k } else { k };
                    (inside.then(|| (at / hole) as usize * input_stride as usize), (k * kernel_stride) as usize)
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
    let mut out = accumulators::<T>(inst, shape)?;
    if out.is_empty() || lhs.elements() == 0 || rhs.elements() == 0 {
        return T::write(inst, shape, &out);
    }
    let dims = inst.attrs.dim_labels(AttrKey::DimLabels).ok_or_else(|| invalid(inst, "dim_labels is missing"))?;
    let window = inst.attrs.window(AttrKey::Window).unwrap_or(&[]);
    let spatial = spatial_rank(inst, dims, window, [lhs.dims().len(), rhs.dims().len(), shape.rank()])?;
    let (ls, rs, os) = (lhs.strides(), rhs.strides(), row_major_strides(&shape.dims));
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

    for (flat, &output_base) in offsets(&sizes, &strides).iter().enumerate() {
        let mut meeting: Vec<Tap> = vec![(Some(0), 0)];
        let mut rest = flat;
        for (table, &size) in tables.iter().zip(&sizes).rev() {
            let here = &table[rest % size as usize];
            rest /= size as usize;
            let both = |(i, k): Tap, (i2, k2): Tap| (i.zip(i2).map(|(i, i2)| i + i2), k + k2);
            meeting = here.iter().flat_map(|&a| meeting.iter().map(move |&b| both(a, b))).collect();
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
                        let x = i.map_or(T::ZERO, |i| input[input_base + i + fi]);
                        sum = sum.plus_product(x, kernel[kernel_base + k + fk]);
                    }
                }
                let at = batch * os[dims.output_batch] + feature * os[dims.output_feature];
                out[output_base + at as usize] = sum;
            }
        }
    }
    T::write(inst, shape, &out)
}

#[cfg(test)]
mod tests {
    use crate::interp::dense::testing::check;

    const INPUT: &str = "i = s32[1,4,4,1] iota(), iota_dimension=1\n j = s32[1,4,4,1] iota(), iota_dimension=2
        ten = s32[] constant(10)\n tens = s32[1,4,4,1] broadcast(ten), dimensions={}
        t = s32[1,4,4,1] multiply(i, tens)\n a = s32[1,4,4,1] add(t, j)
        k = s32[2,2,1,1] constant({{{{1}},{{2}}},{{{3}},{{4}}}})\n";

    /// Element (y, x) of the input is 10 y + x, the kernel is 1 2 / 3 4.
    fn expect(window: &str, size: &str, expected: &str) {
        let body = format!(
            "{INPUT} c = s32[1,{size},1] convolution(a, k), window={{size=2x2 {window}}}, dim_labels=b01f_01io->b01f
             ROOT r = s32[{size}] reshape(c)"
        );
        check("", &body, expected);
    }

    #[test]
    fn conv_with_general_padding_pseudo_code() {
        expect("", "3,3", "{{76,86,96},{176,186,196},{276,286,296}}");
        expect("stride=2x2", "2,2", "{{76,96},{276,296}}");
        expect("stride=3x3 pad=1_1x1_1", "2,2", "{{0,18},{160,296}}");
    }

    #[test]
    fn negative_padding_holes_and_reversal() {
        expect("pad=-1_-1x-1_-1", "1,1", "{{186}}");
        expect("rhs_dilate=3x3", "1,1", "{{228}}");
        expect("lhs_dilate=2x2 stride=2x2", "3,3", "{{0,1,2},{10,11,12},{20,21,22}}");
        expect("rhs_reversal=1x1", "3,3", "{{34,44,54},{134,144,154},{234,244,254}}");
    }

    #[test]
    fn feature_groups_and_batch_groups() {
        check(
            "",
            "a = f32[1,2,2] constant({{{1,2},{3,4}}})\n k = f32[2,1,4] constant({{{1,2,3,4}},{{5,6,7,8}}})
             ROOT r = f32[1,1,4] convolution(a, k), window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2",
            "{{{16,20,34,40}}}",
        );
        check(
            "",
            "a = f32[2,1,2] constant({{{1,2}},{{3,4}}})\n k = f32[1,2,2] constant({{{1,10},{2,20}}})
             ROOT r = f32[1,1,2] convolution(a, k), window={size=1}, dim_labels=b0f_0io->b0f, batch_group_count=2",
            "{{{5,110}}}",
        );
    }
}
