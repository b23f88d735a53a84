//! `batch-norm-training`, `batch-norm-inference` and `batch-norm-grad`.
//!
//! Invariant: every element belongs to one feature; sums over a feature run in row-major order in `f64` and results
//! are rounded once. The formulas are those of the specification, with `r = 1 / sqrt(variance + epsilon)`.

use super::dense::{Number, result_shapes};
use super::{Context, array, invalid, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use brolga_runtime::Literal;

/// Evaluates one of the batch normalizations.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let operand = array(inst, operands, 0)?;
    let epsilon = inst.attrs.float(AttrKey::Epsilon).unwrap_or(0.0);
    let feature = inst.attrs.int(AttrKey::FeatureIndex).and_then(|d| usize::try_from(d).ok());
    let dims = operand.dims();
    let feature = feature
        .filter(|&d| d < dims.len())
        .ok_or_else(|| invalid(inst, "feature_index must be below the rank of the operand"))?;
    let features = dims[feature] as usize;
    let stride = operand.strides()[feature] as usize;
    let feature_of = |i: usize| i / stride % features;
    let x = f64::read(operand);
    let per_feature = |k: usize| -> Result<Vec<f64>> {
        let values = f64::read(array(inst, operands, k)?);
        if values.len() == features {
            Ok(values)
        } else {
            Err(invalid(inst, format!("operand {k} has one value a feature")))
        }
    };
    let count = x.len().checked_div(features).unwrap_or(0) as f64;
    // The sum over all elements of each feature.
    let sums = |term: &dyn Fn(usize, usize) -> f64| {
        let mut sums = vec![0.0; features];
        for i in 0..x.len() {
            sums[feature_of(i)] += term(i, feature_of(i));
        }
        sums
    };
    let each =
        |term: &dyn Fn(usize, usize) -> f64| -> Vec<f64> { (0..x.len()).map(|i| term(i, feature_of(i))).collect() };
    let scale = per_feature(1)?;
    let rsqrt = |variance: &[f64]| -> Vec<f64> { variance.iter().map(|v| 1.0 / (v + epsilon).sqrt()).collect() };

    match inst.opcode {
        Opcode::BatchNormInference => {
            let (offset, mean, variance) = (per_feature(2)?, per_feature(3)?, per_feature(4)?);
            let r = rsqrt(&variance);
            let y = each(&|i, l| (x[i] - mean[l]) * r[l] * scale[l] + offset[l]);
            Ok(f64::write(inst, result_shape(inst)?, &y)?.into())
        }
        Opcode::BatchNormTraining => {
            let offset = per_feature(2)?;
            let mean: Vec<f64> = sums(&|i, _| x[i]).iter().map(|s| s / count).collect();
            let variance: Vec<f64> = sums(&|i, l| (x[i] - mean[l]).powi(2)).iter().map(|s| s / count).collect();
            let r = rsqrt(&variance);
            let y = each(&|i, l| (x[i] - mean[l]) * r[l] * scale[l] + offset[l]);
            tuple(inst, &[&y, &mean, &variance])
        }
        _ => {
            let (mean, variance) = (per_feature(2)?, per_feature(3)?);
            let gradient = f64::read(array(inst, operands, 4)?);
            if gradient.len() != x.len() {
                return Err(invalid(inst, "the gradient must have the operand's shape"));
            }
            let r = rsqrt(&variance);
            let grad_offset = sums(&|i, _| gradient[i]);
            let correlation = sums(&|i, l| gradient[i] * (x[i] - mean[l]));
            let grad_scale: Vec<f64> = correlation.iter().zip(&r).map(|(c, r)| c * r).collect();
            let grad_operand = each(&|i, l| {
                let slope = correlation[l] / (variance[l] + epsilon) / count;
                scale[l] * r[l] * (gradient[i] - grad_offset[l] / count - slope * (x[i] - mean[l]))
            });
            tuple(inst, &[&grad_operand, &grad_scale, &grad_offset])
        }
    }
}

fn tuple(inst: &Instruction, parts: &[&[f64]]) -> Result<Literal> {
    let shapes = result_shapes(inst, parts.len())?;
    let arrays = shapes.into_iter().zip(parts).map(|(shape, part)| Ok(f64::write(inst, shape, part)?.into()));
    Ok(Literal::Tuple(arrays.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use crate::interp::dense::testing::check;

    /// Feature 0 holds 1 and 3, feature 1 holds 0 and 8.
    const X: &str = "x = f32[2,2] constant({{1,0},{3,8}})\n s = f32[2] constant({2,3})\n o = f32[2] constant({5,7})
        m = f32[2] constant({2,4})\n v = f32[2] constant({1,16})\n";

    #[test]
    fn batch_norm_inference_formula() {
        check(
            "",
            &format!("{X} ROOT y = f32[2,2] batch-norm-inference(x, s, o, m, v), epsilon=0, feature_index=1"),
            "{{3,4},{7,10}}",
        );
    }

    #[test]
    fn batch_norm_training_formulas() {
        check(
            "",
            &format!(
                "{X} ROOT y = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1"
            ),
            "({{3,4},{7,10}},{2,4},{1,16})",
        );
    }

    #[test]
    fn batch_norm_grad_formulas() {
        // With two values a feature, x - mean is proportional to the gradient's deviation: nothing is left.
        check(
            "",
            &format!(
                "{X} g = f32[2,2] constant({{{{1,2}},{{5,4}}}})
                 ROOT y = (f32[2,2], f32[2], f32[2]) batch-norm-grad(x, s, m, v, g), epsilon=0, feature_index=1"
            ),
            "({{0,0},{0,0}},{4,2},{6,6})",
        );
        check(
            "",
            &format!(
                "{X} w = f32[2] constant({{4,64}})\n g = f32[2,2] constant({{{{1,2}},{{5,4}}}})
                 ROOT y = (f32[2,2], f32[2], f32[2]) batch-norm-grad(x, s, m, w, g), epsilon=0, feature_index=1"
            ),
            "({{-1.5,-0.28125},{1.5,0.28125}},{2,1},{6,6})",
        );
    }
}
