//! Dot, its ragged and scaled forms, and convolution.

use super::rule::{Call, Rule, Show, array, ensure, fail};
use super::window::window_dims;
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

/// What `algorithm` may say besides `unset`.
const ALGORITHMS: [&str; 15] = [
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_any_f8_any_f8_any",
    "dot_any_f8_any_f8_any_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_bf16_bf16_f32_x9",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
];

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    let algorithm = call.attrs.raw(AttrKey::Algorithm).unwrap_or("unset");
    ensure!(
        algorithm == "unset" || ALGORITHMS.contains(&algorithm),
        "dot.algorithm",
        "expected unset or an algorithm such as dot_bf16_bf16_f32, found {algorithm}"
    );
    let shape = match call.opcode {
        Opcode::Dot => dot(call)?,
        Opcode::RaggedDot => ragged_dot(call)?,
        Opcode::ScaledDot => scaled_dot(call)?,
        _ => convolution(call)?,
    };
    Ok(Shape::Array(shape))
}

/// The element type of a sum of products where the program states none: a float where an operand has one, else the wider.
fn natural_product_type(a: ElementType, b: ElementType) -> ElementType {
    match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        _ if b.bits() > a.bits() => b,
        _ => a,
    }
}

/// The type of the sum where a contraction of operands of these types is summed in another type than its result's, to which it
/// is converted at the end, of complex numbers the real part: a result of no floats where an operand has them, one of real
/// numbers or of narrower complex ones where the operands are complex.
pub(crate) fn sum_to_convert(a: ElementType, b: ElementType, result: ElementType) -> Option<ElementType> {
    let natural = natural_product_type(a, b);
    let converts = (natural.is_float() && !result.is_float())
        || (natural.is_complex() && !(result.is_complex() && result.bits() >= natural.bits()));
    converts.then_some(natural)
}

/// The element type of a sum of products. The program may prefer another than the operands': a float for floats,
/// any integer for integers, in which the sum wraps; an integer or `pred` for floats and any type for complex numbers, to
/// which their sum is converted.
fn product_type(call: &Call<'_>, a: ElementType, b: ElementType) -> Rule<ElementType> {
    let real = |ty: ElementType| !ty.is_complex();
    ensure!(
        a == b || (real(a) && real(b)),
        "dot.operand-types",
        "expected operands of {} of one type, or both real, found {a} and {b}",
        call.opcode
    );
    let natural = natural_product_type(a, b);
    let Some(preferred) = call.declared_type() else {
        return Ok(natural);
    };
    let narrower = a.bits().min(b.bits());
    let fits = preferred == natural
        || (natural.is_float() && real(preferred))
        || natural.is_complex()
        || (!natural.is_float()
            && real(natural)
            && (preferred.is_integer() || preferred.is_float())
            && (preferred.bits() >= narrower || (preferred.is_integer() && a.is_integer() && b.is_integer())));
    ensure!(
        fits,
        "dot.result-type",
        "expected a result type of {} that can hold {natural}, found {preferred}",
        call.opcode
    );
    Ok(preferred)
}

struct Side {
    batch: Vec<usize>,
    contracting: Vec<usize>,
    free: Vec<usize>,
}

fn side(call: &Call<'_>, a: &ArrayShape, batch: AttrKey, contracting: AttrKey) -> Rule<Side> {
    let batch = call.dims(batch, a.rank(), "dot.batch-dimensions")?;
    let contracting = call.dims(contracting, a.rank(), "dot.contracting-dimensions")?;
    if let Some(d) = contracting.iter().find(|d| batch.contains(d)) {
        fail!("dot.distinct-dimensions", "dimension {d} is both a batch and a contracting dimension");
    }
    let free = (0..a.rank()).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect();
    Ok(Side { batch, contracting, free })
}

fn sides(call: &Call<'_>, a: &ArrayShape, b: &ArrayShape) -> Rule<(Side, Side)> {
    let l = side(call, a, AttrKey::LhsBatchDims, AttrKey::LhsContractingDims)?;
    let r = side(call, b, AttrKey::RhsBatchDims, AttrKey::RhsContractingDims)?;
    ensure!(
        l.batch.len() == r.batch.len(),
        "dot.batch-dimensions",
        "expected as many batch dimensions on both sides, found {} and {}",
        l.batch.len(),
        r.batch.len()
    );
    ensure!(
        l.contracting.len() == r.contracting.len(),
        "dot.contracting-dimensions",
        "expected as many contracting dimensions on both sides, found {} and {}",
        l.contracting.len(),
        r.contracting.len()
    );
    for (&i, &j) in l.batch.iter().zip(&r.batch) {
        ensure!(
            a.dims[i] == b.dims[j],
            "dot.batch-sizes",
            "expected batch dimensions {i} and {j} of equal size, found {} and {}",
            a.dims[i],
            b.dims[j]
        );
    }
    // The operand of a structured-sparsity dot is shorter than its partner; its own attribute says by how much.
    if call.attrs.get(AttrKey::Sparsity).is_none() {
        for (&i, &j) in l.contracting.iter().zip(&r.contracting) {
            ensure!(
                a.dims[i] == b.dims[j],
                "dot.contracting-sizes",
                "expected contracting dimensions {i} and {j} of equal size, found {} and {}",
                a.dims[i],
                b.dims[j]
            );
        }
    }
    Ok((l, r))
}

/// Batch, then the free dimensions of the left, then those of the right.
fn product_shape(a: &ArrayShape, b: &ArrayShape, l: &Side, r: &Side, ty: ElementType) -> ArrayShape {
    let from = |s: &ArrayShape, dims: &[usize]| -> Vec<(i64, bool)> {
        dims.iter().map(|&d| (s.dims[d], s.dynamic[d])).collect()
    };
    let all = [from(a, &l.batch), from(a, &l.free), from(b, &r.free)].concat();
    let (dims, dynamic) = all.into_iter().unzip();
    array(ty, dims, dynamic)
}

fn dot(call: &Call<'_>) -> Rule<ArrayShape> {
    ensure!(
        call.operands.len() == 2 || call.attrs.get(AttrKey::Sparsity).is_some(),
        "dot.operands",
        "expected 2 operands of dot, found {}",
        call.operands.len()
    );
    let (a, b) = (call.array(0)?, call.array(1)?);
    let (l, r) = sides(call, a, b)?;
    let ty = product_type(call, a.ty, b.ty)?;
    Ok(product_shape(a, b, &l, &r, ty))
}

fn scaled_dot(call: &Call<'_>) -> Rule<ArrayShape> {
    let (a, b) = (call.array(0)?, call.array(1)?);
    let (l, r) = sides(call, a, b)?;
    for (operand, scale) in [(a, call.array(2)?), (b, call.array(3)?)] {
        // A scale may be a scalar, for an operand that needs none.
        ensure!(
            scale.rank() == operand.rank() || scale.rank() == 0,
            "scaled-dot.scale",
            "expected a scale of rank {}, found {}",
            operand.rank(),
            Show(scale)
        );
    }
    let ty = product_type(call, a.ty, b.ty)?;
    Ok(product_shape(a, b, &l, &r, ty))
}

/// One dimension of the left is ragged: cut into groups whose sizes operand 2 gives. Which kind of dimension it is
/// decides the result (free: the right has a dimension of groups; contracting: the result has one; batch: neither).
fn ragged_dot(call: &Call<'_>) -> Rule<ArrayShape> {
    let (a, b, groups) = (call.array(0)?, call.array(1)?, call.array(2)?);
    let (l, mut r) = sides(call, a, b)?;
    let ty = product_type(call, a.ty, b.ty)?;
    let ragged = call.one_dim(AttrKey::LhsRaggedDims, a.rank(), "ragged-dot.ragged-dimension")?;
    let group_dims = call.dims(AttrKey::RhsGroupDims, b.rank(), "ragged-dot.group-dimension")?;
    let count = match groups.dims.last() {
        Some(&n) if groups.ty.is_integer() => n,
        _ => fail!("ragged-dot.group-sizes", "expected integer group sizes of rank 1 or more, found {}", Show(groups)),
    };
    if l.free.contains(&ragged) {
        let [group] = group_dims[..] else {
            fail!("ragged-dot.group-dimension", "expected one group dimension, found {}", group_dims.len());
        };
        ensure!(
            r.free.contains(&group) && b.dims[group] == count,
            "ragged-dot.group-dimension",
            "expected a free group dimension of size {count} in {}, found dimension {group}",
            Show(b)
        );
        r.free.retain(|&d| d != group);
        return Ok(product_shape(a, b, &l, &r, ty));
    }
    ensure!(
        group_dims.is_empty(),
        "ragged-dot.group-dimension",
        "expected no group dimension for a ragged batch or contracting dimension, found {group_dims:?}"
    );
    let mut out = product_shape(a, b, &l, &r, ty);
    if l.contracting.contains(&ragged) {
        out.dims.insert(0, count);
        out.dynamic.insert(0, false);
    }
    Ok(out)
}

/// The numbers of one operand's dimensions, which must be all of them.
fn labels(first: usize, second: usize, spatial: &[usize], rank: usize, what: &str) -> Rule<()> {
    let mut seen = vec![false; rank];
    let all = [first, second].into_iter().chain(spatial.iter().copied());
    let complete = spatial.len() + 2 == rank
        && all.into_iter().all(|d| seen.get_mut(d).is_some_and(|s| !std::mem::replace(s, true)));
    ensure!(
        complete,
        "convolution.dim-labels",
        "expected dim_labels that name each of the {rank} dimensions of the {what} once"
    );
    Ok(())
}

fn convolution(call: &Call<'_>) -> Rule<ArrayShape> {
    if call.attrs.get(AttrKey::SparsityConfig).is_some() {
        // A structured-sparse kernel is a tuple of values and their places, in a form that the attribute describes.
        let stated = call.declared_array()?;
        return Ok(stated.with_type(stated.ty));
    }
    let (input, kernel) = (call.array(0)?, call.array(1)?);
    let ty = product_type(call, input.ty, kernel.ty)?;
    let Some(labels_) = call.attrs.dim_labels(AttrKey::DimLabels) else {
        fail!("attribute.required", "convolution must say dim_labels=");
    };
    let n = input.rank();
    ensure!(
        n >= 2 && kernel.rank() == n,
        "convolution.rank",
        "expected input and kernel of the same rank of at least 2, found {} and {}",
        Show(input),
        Show(kernel)
    );
    labels(labels_.input_batch, labels_.input_feature, &labels_.input_spatial, n, "input")?;
    labels(labels_.kernel_input_feature, labels_.kernel_output_feature, &labels_.kernel_spatial, n, "kernel")?;
    labels(labels_.output_batch, labels_.output_feature, &labels_.output_spatial, n, "output")?;

    let window = call.attrs.window(AttrKey::Window).unwrap_or(&[]);
    let base: Vec<i64> = labels_.input_spatial.iter().map(|&d| input.dims[d]).collect();
    let places = window_dims(&base, window)?;
    for (w, &d) in window.iter().zip(&labels_.kernel_spatial) {
        ensure!(
            w.size == kernel.dims[d],
            "convolution.window",
            "expected the window size {} of kernel dimension {d}, found {}",
            kernel.dims[d],
            w.size
        );
    }

    let feature_groups = call.attrs.int(AttrKey::FeatureGroupCount).unwrap_or(1);
    let batch_groups = call.attrs.int(AttrKey::BatchGroupCount).unwrap_or(1);
    ensure!(
        feature_groups >= 1 && batch_groups >= 1,
        "convolution.groups",
        "expected group counts of at least 1, found {feature_groups} and {batch_groups}"
    );
    ensure!(
        feature_groups == 1 || batch_groups == 1,
        "convolution.groups",
        "expected feature groups or batch groups, found {feature_groups} and {batch_groups}"
    );
    let (batch, features) = (input.dims[labels_.input_batch], input.dims[labels_.input_feature]);
    let (kernel_in, kernel_out) =
        (kernel.dims[labels_.kernel_input_feature], kernel.dims[labels_.kernel_output_feature]);
    ensure!(
        kernel_in.checked_mul(feature_groups) == Some(features),
        "convolution.features",
        "expected {features} input features, as {feature_groups} groups of kernel input features, found {kernel_in}"
    );
    ensure!(
        kernel_out % feature_groups == 0 && kernel_out % batch_groups == 0,
        "convolution.output-features",
        "expected a multiple of {feature_groups} and {batch_groups} output features, found {kernel_out}"
    );
    ensure!(
        batch % batch_groups == 0,
        "convolution.batch",
        "expected a batch that {batch_groups} groups divide, found {batch}"
    );

    let (mut dims, mut dynamic) = (vec![0; n], vec![false; n]);
    dims[labels_.output_batch] = batch / batch_groups;
    dynamic[labels_.output_batch] = input.dynamic[labels_.input_batch];
    dims[labels_.output_feature] = kernel_out;
    dynamic[labels_.output_feature] = kernel.dynamic[labels_.kernel_output_feature];
    for ((&out, &from), size) in labels_.output_spatial.iter().zip(&labels_.input_spatial).zip(places) {
        dims[out] = size;
        dynamic[out] = input.dynamic[from];
    }
    Ok(array(ty, dims, dynamic))
}
