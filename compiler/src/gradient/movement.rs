//! Operations that only move elements: each element's cotangent goes back to where it came from. And what holds a program
//! together: tuples, their elements, barriers.

use super::rule::{Rule, full, zeros};
use crate::builder::{Op, PaddingDimension};
use crate::error::Result;
use crate::hlo::{AttrKey, Opcode, inverse};

/// Tuples, barriers and copies: leaves go where they belong.
pub(super) fn structure(r: &mut Rule<'_>) -> Result<()> {
    let leaves: Vec<(usize, Op)> = r.cotangent.iter().enumerate().filter_map(|(i, c)| Some((i, (*c)?))).collect();
    match r.instruction.opcode {
        Opcode::Tuple => elementwise_of_tuple(r, leaves),
        Opcode::OptimizationBarrier if r.operands.len() != 1 => elementwise_of_tuple(r, leaves),
        Opcode::GetTupleElement => {
            let index = r.instruction.element_number().unwrap_or(0);
            let first = r.b.shape(r.operand(0)?)?.leaves_before(index);
            leaves.into_iter().for_each(|(leaf, ct)| r.give_leaf(0, first + leaf, ct));
            Ok(())
        }
        // A copy may be of a tuple.
        Opcode::OptimizationBarrier | Opcode::AddDependency | Opcode::Domain | Opcode::Copy => {
            leaves.into_iter().for_each(|(leaf, ct)| r.give_leaf(0, leaf, ct));
            Ok(())
        }
        _ => Err(r.no_rule()),
    }
}

fn elementwise_of_tuple(r: &mut Rule<'_>, leaves: Vec<(usize, Op)>) -> Result<()> {
    for (leaf, ct) in leaves {
        let mut rest = leaf;
        for i in 0..r.operands.len() {
            let count = r.b.shape(r.operand(i)?)?.leaf_count();
            if rest < count {
                r.give_leaf(i, rest, ct);
                break;
            }
            rest -= count;
        }
    }
    Ok(())
}

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    let opcode = r.instruction.opcode;
    if opcode == Opcode::Copy {
        return structure(r);
    }
    let (b, ct) = (r.b, r.array_cotangent()?);
    let dims = r.attrs().ints_or_empty(AttrKey::Dimensions).to_vec();
    let given = match opcode {
        Opcode::Reshape => b.reshape(ct, &r.shape(r.operand(0)?)?.dims),
        Opcode::Bitcast => {
            let (from, to) = (r.shape(r.operand(0)?)?, r.shape(r.op)?);
            let plain = |s: &brolga_runtime::ArrayShape| s.layout.is_none();
            if from.ty != to.ty || !(plain(&from) && plain(&to)) && from.dims != to.dims {
                return Err(r.refuse("that changes the type or the order of elements"));
            }
            b.reshape(ct, &from.dims)
        }
        Opcode::Broadcast => broadcast(r, ct, &dims)?,
        Opcode::Transpose => b.transpose(ct, &inverse(&dims)),
        Opcode::Reverse => b.rev(ct, &dims),
        Opcode::Slice => slice(r, ct)?,
        Opcode::Pad => return pad(r, ct),
        Opcode::Concatenate => return concatenate(r, ct, &dims),
        _ => return Err(r.no_rule()),
    };
    r.give(0, given);
    Ok(())
}

/// The sum over the new dimensions, in the order of the old ones.
fn broadcast(r: &Rule<'_>, ct: Op, dims: &[i64]) -> Result<Op> {
    let rank = r.shape(ct)?.rank() as i64;
    let new: Vec<i64> = (0..rank).filter(|d| !dims.contains(d)).collect();
    let sum = r.sum(ct, &new)?;
    if dims.is_sorted() {
        return Ok(sum);
    }
    // Dimension i of the operand is the one of the sum with the rank of dims[i] among them.
    let order: Vec<i64> = dims.iter().map(|d| dims.iter().filter(|e| *e < d).count() as i64).collect();
    Ok(r.b.transpose(sum, &order))
}

/// Zeros around and between.
fn slice(r: &Rule<'_>, ct: Op) -> Result<Op> {
    let (whole, part) = (r.shape(r.operand(0)?)?, r.shape(ct)?);
    let ranges = r.attrs().slice_ranges(AttrKey::Slice).unwrap_or(&[]);
    let sizes = whole.dims.iter().zip(&part.dims);
    let padding: Vec<PaddingDimension> = ranges
        .iter()
        .zip(sizes)
        .map(|(range, (&n, &taken))| {
            let covered = if taken == 0 { 0 } else { (taken - 1) * range.stride + 1 };
            PaddingDimension { low: range.start, high: n - range.start - covered, interior: range.stride - 1 }
        })
        .collect();
    Ok(r.b.pad(ct, r.b.zero(part.ty), &padding))
}

/// The operand gets its elements, the padding value the sum of the others.
fn pad(r: &mut Rule<'_>, ct: Op) -> Result<()> {
    let b = r.b;
    let padding = r.attrs().padding(AttrKey::Padding).unwrap_or(&[]).to_vec();
    let (from, to) = (r.shape(r.operand(0)?)?, r.shape(ct)?);
    if r.wants(0) {
        // Edges that were cut off come back as zeros, then every element between is dropped.
        let edges: Vec<PaddingDimension> =
            padding.iter().map(|p| PaddingDimension { low: -p.low, high: -p.high, interior: 0 }).collect();
        let whole = b.pad(ct, b.zero(to.ty), &edges);
        let strides: Vec<i64> = padding.iter().map(|p| p.interior + 1).collect();
        let limits = r.shape(whole)?.dims;
        r.give(0, b.slice(whole, &vec![0; limits.len()], &limits, &strides));
    }
    if r.wants(1) {
        let inside = full(b, &from.with_type(brolga_runtime::ElementType::Pred), b.constant_pred(true));
        let inside = b.pad(inside, b.constant_pred(false), &padding);
        let value = r.sum_all(b.select(inside, zeros(b, &to), ct))?;
        r.give(1, value);
    }
    Ok(())
}

fn concatenate(r: &mut Rule<'_>, ct: Op, dims: &[i64]) -> Result<()> {
    let dimension = dims.first().copied().unwrap_or(0);
    let mut start = 0;
    for i in 0..r.operands.len() {
        let shape = r.shape(r.operand(i)?)?;
        let size = usize::try_from(dimension).ok().and_then(|d| shape.dims.get(d)).copied().unwrap_or(0);
        if r.wants(i) {
            r.give(i, r.b.slice_in_dim(ct, start, start + size, 1, dimension));
        }
        start += size;
    }
    Ok(())
}
