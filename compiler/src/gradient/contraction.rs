//! Dot: the cotangent of a side is the contraction of the result's with the other side.

use super::rule::Rule;
use crate::builder::{DotDimensions, Op};
use crate::error::Result;
use crate::hlo::{AttrKey, inverse};

/// One side of a dot, by the kinds of its dimensions.
struct Side {
    batch: Vec<i64>,
    contracting: Vec<i64>,
    free: Vec<i64>,
}

pub(super) fn dot(r: &mut Rule<'_>) -> Result<()> {
    if r.operands.len() != 2 || r.attrs().get(AttrKey::Sparsity).is_some() {
        return Err(r.refuse("with sparse operands"));
    }
    let keys =
        [(AttrKey::LhsBatchDims, AttrKey::LhsContractingDims), (AttrKey::RhsBatchDims, AttrKey::RhsContractingDims)];
    let mut sides = Vec::with_capacity(2);
    for (i, (batch, contracting)) in keys.into_iter().enumerate() {
        let rank = r.shape(r.operand(i)?)?.rank() as i64;
        let (batch, contracting) = (r.attrs().ints_or_empty(batch), r.attrs().ints_or_empty(contracting));
        let free = (0..rank).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect();
        sides.push(Side { batch: batch.to_vec(), contracting: contracting.to_vec(), free });
    }
    let [lhs, rhs] = &sides[..] else { return Err(r.broken("has not two sides")) };
    let mut ct = r.array_cotangent()?;
    let (x, y) = (r.operand(0)?, r.operand(1)?);
    // A dot may sum in a wider type: the other side is widened, the cotangent narrowed by whoever takes it.
    let (ty, operand) = (r.shape(ct)?.ty, r.shape(x)?.ty);
    let same = |op: Op| -> Result<Op> { Ok(if r.shape(op)?.ty == ty { op } else { r.b.convert_element_type(op, ty) }) };
    if ty.bits() < operand.bits() {
        ct = r.b.convert_element_type(ct, operand);
    }
    let n = lhs.batch.len();
    let of_lhs: Vec<i64> = (n..n + lhs.free.len()).map(|d| d as i64).collect();
    let of_rhs: Vec<i64> = (n + lhs.free.len()..n + lhs.free.len() + rhs.free.len()).map(|d| d as i64).collect();
    let to_lhs = if r.wants(0) { Some(side(r, ct, &of_rhs, same(y)?, rhs, lhs)) } else { None };
    let to_rhs = if r.wants(1) { Some(side(r, ct, &of_lhs, same(x)?, lhs, rhs)) } else { None };
    if let Some(value) = to_lhs {
        r.give(0, value);
    }
    if let Some(value) = to_rhs {
        r.give(1, value);
    }
    Ok(())
}

/// The cotangent of a side `to`, from that of the result, whose dimensions `free` are those of `other`.
fn side(r: &Rule<'_>, ct: Op, free: &[i64], other: Op, from: &Side, to: &Side) -> Op {
    let dims = DotDimensions {
        lhs_contracting: free.to_vec(),
        rhs_contracting: from.free.clone(),
        lhs_batch: (0..from.batch.len() as i64).collect(),
        rhs_batch: from.batch.clone(),
    };
    let product = r.b.dot_general(ct, other, &dims);
    // It has the batch, the free dimensions of `to`, then what the other side was contracted over, in its order there.
    let mut contracted: Vec<(i64, i64)> =
        from.contracting.iter().copied().zip(to.contracting.iter().copied()).collect();
    contracted.sort_unstable();
    let order: Vec<i64> =
        to.batch.iter().chain(&to.free).copied().chain(contracted.into_iter().map(|(_, d)| d)).collect();
    if order.is_sorted() { product } else { r.b.transpose(product, &inverse(&order)) }
}
