//! Batch normalisation: its formula is written out and differentiated. The gradient of the training form with respect to the
//! normalised values alone is an operation of the specification, and is that.

use super::rule::{Rule, number};
use crate::builder::Op;
use crate::error::Result;
use crate::hlo::{AttrKey, Opcode};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match (r.instruction.opcode, &r.cotangent[..]) {
        (Opcode::BatchNormTraining, [Some(ct), None, None]) => training(r, *ct),
        (Opcode::BatchNormTraining, _) => r.instead(|r| {
            let n = Norm::of(r)?;
            let (mean, variance) = n.statistics(r)?;
            let y = n.scaled(r, mean, variance, r.operand(1)?, r.operand(2)?);
            Ok(vec![y, mean, variance])
        }),
        (Opcode::BatchNormInference, _) => r.instead(|r| {
            let n = Norm::of(r)?;
            Ok(vec![n.scaled(r, r.operand(3)?, r.operand(4)?, r.operand(1)?, r.operand(2)?)])
        }),
        _ => r.instead(gradient),
    }
}

fn training(r: &mut Rule<'_>, ct: Op) -> Result<()> {
    let (b, n) = (r.b, Norm::of(r)?);
    let (mean, variance) = (b.get_tuple_element(r.op, 1), b.get_tuple_element(r.op, 2));
    let epsilon = r.attrs().float(AttrKey::Epsilon).unwrap_or(0.0);
    let all = b.batch_norm_grad(n.x, r.operand(1)?, mean, variance, ct, epsilon, n.feature);
    for i in 0..3 {
        if r.wants(i) {
            r.give(i, b.get_tuple_element(all, i as i64));
        }
    }
    Ok(())
}

/// What the three operations have in common.
struct Norm {
    x: Op,
    dims: Vec<i64>,
    feature: i64,
    /// All dimensions but the features.
    others: Vec<i64>,
    /// How many elements a feature has, and the number that keeps the root from zero.
    count: Op,
    epsilon: Op,
}

impl Norm {
    fn of(r: &Rule<'_>) -> Result<Norm> {
        let x = r.operand(0)?;
        let shape = r.shape(x)?;
        let feature = r.attrs().int(AttrKey::FeatureIndex).unwrap_or(0);
        let others: Vec<i64> = (0..shape.rank() as i64).filter(|&d| d != feature).collect();
        let count: i64 = others.iter().map(|&d| shape.dims[d as usize]).product();
        let epsilon = r.attrs().float(AttrKey::Epsilon).unwrap_or(0.0);
        let (count, epsilon) = (number(r.b, shape.ty, count as f64), number(r.b, shape.ty, epsilon));
        Ok(Norm { x, dims: shape.dims, feature, others, count, epsilon })
    }

    /// A number of each feature, at each place.
    fn along(&self, r: &Rule<'_>, op: Op) -> Op {
        r.b.broadcast_in_dim(op, &self.dims, &[self.feature])
    }

    fn mean(&self, r: &Rule<'_>, op: Op) -> Result<Op> {
        Ok(r.b.div(r.sum(op, &self.others)?, self.count))
    }

    fn statistics(&self, r: &Rule<'_>) -> Result<(Op, Op)> {
        let mean = self.mean(r, self.x)?;
        let centred = r.b.sub(self.x, self.along(r, mean));
        Ok((mean, self.mean(r, r.b.mul(centred, centred))?))
    }

    fn scaled(&self, r: &Rule<'_>, mean: Op, variance: Op, scale: Op, offset: Op) -> Op {
        let b = r.b;
        let slope = b.mul(scale, b.rsqrt(b.add(variance, self.epsilon)));
        let centred = b.sub(self.x, self.along(r, mean));
        b.add(b.mul(centred, self.along(r, slope)), self.along(r, offset))
    }
}

/// The formula of BatchNormGrad, whose mean and variance are operands.
fn gradient(r: &Rule<'_>) -> Result<Vec<Op>> {
    let (b, n) = (r.b, Norm::of(r)?);
    let (scale, mean, variance, dy) = (r.operand(1)?, r.operand(2)?, r.operand(3)?, r.operand(4)?);
    let inverse = b.rsqrt(b.add(variance, n.epsilon));
    let unit = b.mul(b.sub(n.x, n.along(r, mean)), n.along(r, inverse));
    let (of_scale, of_offset) = (r.sum(b.mul(dy, unit), &n.others)?, r.sum(dy, &n.others)?);
    let shared = b.add(n.along(r, b.div(of_offset, n.count)), b.mul(unit, n.along(r, b.div(of_scale, n.count))));
    let of_x = b.mul(n.along(r, b.mul(scale, inverse)), b.sub(dy, shared));
    Ok(vec![of_x, of_scale, of_offset])
}
