//! Convolution: the cotangent of the input is a convolution of the result's with the kernel turned round, that of the kernel
//! one of the input with the result's. Strides of the one are dilations of the other.

use super::rule::Rule;
use super::sliding::span;
use crate::builder::{ConvolutionDims, Op, Padding};
use crate::error::Result;
use crate::hlo::{AttrKey, WindowDimension};

/// A convolution, its kernel not reversed.
struct Convolution {
    window: Vec<WindowDimension>,
    dims: ConvolutionDims,
    feature_groups: i64,
    batch_groups: i64,
    /// The sizes of the spatial dimensions, in their order.
    input: Vec<i64>,
    kernel: Vec<i64>,
    output: Vec<i64>,
}

pub(super) fn convolution(r: &mut Rule<'_>) -> Result<()> {
    let ct = r.array_cotangent()?;
    let (x, k) = (r.operand(0)?, r.operand(1)?);
    let (input, kernel, output) = (r.shape(x)?, r.shape(k)?, r.shape(ct)?);
    let Some(dims) = r.attrs().dim_labels(AttrKey::DimLabels).cloned() else {
        return Err(r.broken("has no dimension numbers"));
    };
    if r.attrs().get(AttrKey::SparsityConfig).is_some() {
        return Err(r.refuse("with sparse operands"));
    }
    let of = |sizes: &[i64], numbers: &[usize]| numbers.iter().filter_map(|&d| sizes.get(d).copied()).collect();
    let default = vec![WindowDimension::default(); dims.input_spatial.len()];
    let c = Convolution {
        window: r.attrs().window(AttrKey::Window).unwrap_or(&default).to_vec(),
        feature_groups: r.attrs().int(AttrKey::FeatureGroupCount).unwrap_or(1),
        batch_groups: r.attrs().int(AttrKey::BatchGroupCount).unwrap_or(1),
        input: of(&input.dims, &dims.input_spatial),
        kernel: of(&kernel.dims, &dims.kernel_spatial),
        output: of(&output.dims, &dims.output_spatial),
        dims,
    };
    // The convolution may sum in a wider type than that of its operands.
    let widened = |op: Op, ty| if ty == output.ty { op } else { r.b.convert_element_type(op, output.ty) };
    let reversed: Vec<i64> =
        c.dims.kernel_spatial.iter().zip(&c.window).filter(|(_, w)| w.reversal).map(|(&d, _)| d as i64).collect();
    let turned = |op: Op| if reversed.is_empty() { op } else { r.b.rev(op, &reversed) };
    let to_input = match r.wants(0) {
        true => Some(of_input(r, &c, ct, turned(widened(k, kernel.ty)))?),
        false => None,
    };
    let to_kernel = match r.wants(1) {
        true => Some(turned(of_kernel(r, &c, ct, widened(x, input.ty)))),
        false => None,
    };
    if let Some(value) = to_input {
        r.give(0, value);
    }
    if let Some(value) = to_kernel {
        r.give(1, value);
    }
    Ok(())
}

fn each(window: &[WindowDimension], get: impl Fn(&WindowDimension) -> i64) -> Vec<i64> {
    window.iter().map(get).collect()
}

fn of_input(r: &Rule<'_>, c: &Convolution, ct: Op, kernel: Op) -> Result<Op> {
    let spatial: Vec<i64> = c.dims.kernel_spatial.iter().map(|&d| d as i64).collect();
    let mut kernel = if spatial.is_empty() { kernel } else { r.b.rev(kernel, &spatial) };
    let groups = c.feature_groups.max(c.batch_groups);
    let (out, inner) = (c.dims.kernel_output_feature, c.dims.kernel_input_feature);
    if groups > 1 {
        kernel = regroup(r, kernel, out, inner, groups)?;
    }
    let padding = (0..c.window.len())
        .map(|d| {
            let w = &c.window[d];
            let low = span(c.kernel[d], w.window_dilation) - w.padding_low - 1;
            let needed = span(c.input[d], w.base_dilation) + span(c.kernel[d], w.window_dilation) - 1;
            (low, needed - span(c.output[d], w.stride) - low)
        })
        .collect();
    let dims = ConvolutionDims {
        input_batch: c.dims.output_batch,
        input_feature: c.dims.output_feature,
        input_spatial: c.dims.output_spatial.clone(),
        kernel_input_feature: out,
        kernel_output_feature: inner,
        kernel_spatial: c.dims.kernel_spatial.clone(),
        output_batch: c.dims.input_batch,
        output_feature: c.dims.input_feature,
        output_spatial: c.dims.input_spatial.clone(),
    };
    let value = r.b.conv_general_dilated(
        ct,
        kernel,
        &each(&c.window, |w| w.base_dilation),
        &Padding::Explicit(padding),
        &each(&c.window, |w| w.stride),
        &each(&c.window, |w| w.window_dilation),
        &dims,
        groups,
        1,
    );
    // Groups of the batch came out as groups of features.
    match c.batch_groups > 1 {
        true => regroup(r, value, c.dims.input_feature, c.dims.input_batch, c.batch_groups),
        false => Ok(value),
    }
}

/// Takes `groups` as the major part out of dimension `from` and puts them as the major part into dimension `into`.
fn regroup(r: &Rule<'_>, op: Op, from: usize, into: usize, groups: i64) -> Result<Op> {
    let shape = r.shape(op)?;
    let mut split = shape.dims.clone();
    split[from] /= groups;
    let mut result = split.clone();
    result[into] *= groups;
    split.insert(from, groups);
    // The groups stand at `from`; the other dimensions from there on have moved by one.
    let moved = |d: usize| if d < from { d } else { d + 1 } as i64;
    let mut order: Vec<i64> = (0..shape.rank()).map(moved).collect();
    order.insert(into, from as i64);
    Ok(r.b.reshape(r.b.transpose(r.b.reshape(op, &split), &order), &result))
}

fn of_kernel(r: &Rule<'_>, c: &Convolution, ct: Op, input: Op) -> Op {
    let padding = (0..c.window.len())
        .map(|d| {
            let w = &c.window[d];
            let needed = span(c.output[d], w.stride) + span(c.kernel[d], w.window_dilation) - 1;
            (w.padding_low, needed - span(c.input[d], w.base_dilation) - w.padding_low)
        })
        .collect();
    // Features are the batch here, and the batch is what is summed over.
    let dims = ConvolutionDims {
        input_batch: c.dims.input_feature,
        input_feature: c.dims.input_batch,
        input_spatial: c.dims.input_spatial.clone(),
        kernel_input_feature: c.dims.output_batch,
        kernel_output_feature: c.dims.output_feature,
        kernel_spatial: c.dims.output_spatial.clone(),
        output_batch: c.dims.kernel_input_feature,
        output_feature: c.dims.kernel_output_feature,
        output_spatial: c.dims.kernel_spatial.clone(),
    };
    r.b.conv_general_dilated(
        input,
        ct,
        &each(&c.window, |w| w.window_dilation),
        &Padding::Explicit(padding),
        &each(&c.window, |w| w.base_dilation),
        &each(&c.window, |w| w.stride),
        &dims,
        c.batch_groups,
        c.feature_groups,
    )
}
