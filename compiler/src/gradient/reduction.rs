//! Folds over whole dimensions, and maps.

use super::fold::{self, Combine};
use super::replay::may_run_again;
use super::rule::{Rule, full, number, zeros};
use super::scalars::{lifted, reducer};
use crate::builder::{Op, PaddingDimension};
use crate::error::Result;
use crate::hlo::{AttrKey, Opcode, inverse};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    if r.instruction.opcode == Opcode::Map {
        return map(r);
    }
    let computation = r.callee(AttrKey::ToApply)?;
    match reducer(&computation).filter(|_| r.operands.len() == 2) {
        Some(Opcode::Add) => sum(r),
        Some(Opcode::Multiply) => product(r),
        Some(opcode) => extreme(r, opcode),
        None => {
            may_run_again(r, &computation)?;
            fold::reduce(r, &Combine::Computation(&computation))
        }
    }
}

/// A value of the result, at each place of the operand.
fn along(r: &Rule<'_>, value: Op) -> Result<Op> {
    let shape = r.shape(r.operand(0)?)?;
    let folded = r.attrs().ints_or_empty(AttrKey::Dimensions);
    let kept: Vec<i64> = (0..shape.rank() as i64).filter(|d| !folded.contains(d)).collect();
    Ok(r.b.broadcast_in_dim(value, &shape.dims, &kept))
}

fn sum(r: &mut Rule<'_>) -> Result<()> {
    let ct = r.array_cotangent()?;
    if r.wants(0) {
        let value = along(r, ct)?;
        r.give(0, value);
    }
    if r.wants(1) {
        let value = r.sum_all(ct)?;
        r.give(1, value);
    }
    Ok(())
}

/// The elements that are the extreme share its cotangent equally.
fn extreme(r: &mut Rule<'_>, opcode: Opcode) -> Result<()> {
    let (b, ct, x, initial) = (r.b, r.array_cotangent()?, r.operand(0)?, r.operand(1)?);
    let dims = r.attrs().ints_or_empty(AttrKey::Dimensions).to_vec();
    let shape = r.shape(x)?;
    let (one, zero) = (number(b, shape.ty, 1.0), number(b, shape.ty, 0.0));
    let is_extreme = b.eq(x, along(r, r.op)?);
    let marks = b.select(is_extreme, full(b, &shape, one), full(b, &shape, zero));
    let count = r.sum(marks, &dims)?;
    // No element is the extreme where the initial value beats them all. Ties with it are the elements'.
    let count = b.select(b.eq(count, zero), full(b, &r.shape(count)?, one), count);
    if r.wants(0) {
        let share = b.div(ct, count);
        let value = b.select(is_extreme, along(r, share)?, zeros(b, &shape));
        r.give(0, value);
    }
    if r.wants(1) {
        let elements = extreme_of_elements(r, x, opcode)?;
        let wins = if opcode == Opcode::Maximum { b.gt(initial, elements) } else { b.lt(initial, elements) };
        let value = r.sum_all(b.select(wins, ct, zeros(b, &r.shape(ct)?)))?;
        r.give(1, value);
    }
    Ok(())
}

/// The extreme without the initial value.
fn extreme_of_elements(r: &Rule<'_>, x: Op, opcode: Opcode) -> Result<Op> {
    let ty = r.shape(x)?.ty;
    let neutral = if opcode == Opcode::Maximum { r.b.min_value(ty) } else { r.b.max_value(ty) };
    let dims = r.attrs().ints_or_empty(AttrKey::Dimensions).to_vec();
    Ok(r.b.reduce(x, neutral, &crate::builder::scalar_computation(opcode, ty)?, &dims))
}

/// Each element gets the product of the others, made of the products before and after it, so that nothing is divided.
fn product(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, x, initial) = (r.b, r.array_cotangent()?, r.operand(0)?, r.operand(1)?);
    let dims = r.attrs().ints_or_empty(AttrKey::Dimensions).to_vec();
    let shape = r.shape(x)?;
    let kept: Vec<i64> = (0..shape.rank() as i64).filter(|d| !dims.contains(d)).collect();
    if r.wants(0) {
        // The dimensions of the product as one, the last.
        let order: Vec<i64> = kept.iter().chain(&dims).copied().collect();
        let size = |d: &i64| shape.dims[*d as usize];
        let count: i64 = dims.iter().map(size).product();
        let rows: Vec<i64> = kept.iter().map(size).chain([count]).collect();
        let flat = b.reshape(b.transpose(x, &order), &rows);
        let others = b.mul(before(r, flat, count, 1)?, before(r, flat, count, -1)?);
        let ordered: Vec<i64> = order.iter().map(size).collect();
        let others = b.transpose(b.reshape(others, &ordered), &inverse(&order));
        let value = b.mul(along(r, b.mul(ct, initial))?, others);
        r.give(0, value);
    }
    if r.wants(1) {
        let value = r.sum_all(b.mul(ct, r.fold(Opcode::Multiply, x, &dims)?))?;
        r.give(1, value);
    }
    Ok(())
}

/// The products, along the last dimension, of all elements before each; after each, where `step` is -1. Each round
/// doubles how many elements a place has the product of.
fn before(r: &Rule<'_>, rows: Op, count: i64, step: i64) -> Result<Op> {
    let shape = r.shape(rows)?;
    let one = number(r.b, shape.ty, 1.0);
    let shifted = |op: Op, by: i64| {
        let mut padding = vec![PaddingDimension::default(); shape.rank()];
        if let Some(last) = padding.last_mut() {
            *last = PaddingDimension { low: by * step, high: -by * step, interior: 0 };
        }
        r.b.pad(op, one, &padding)
    };
    let mut products = shifted(rows, 1);
    let mut length = 1;
    while length < count {
        products = r.b.mul(products, shifted(products, length));
        length *= 2;
    }
    Ok(products)
}

/// The computation applied to whole arrays, which is differentiated instead.
fn map(r: &mut Rule<'_>) -> Result<()> {
    let computation = r.callee(AttrKey::ToApply)?;
    may_run_again(r, &computation)?;
    let shape = r.shape(r.op)?;
    r.instead(|r| lifted(r, &computation, computation.entry, &shape, &r.operands.clone()))
}
