//! Folds by any computation.
//!
//! Problem: a reduction or a window may combine its elements, of one operand or several, by any computation of scalars.
//! Invariant: elements meet in their order, the earlier one first, so that the computation need not commute; that it is
//! associative is what the specifications ask of it. Padding is no element. Algorithm: the fold is written out as operations
//! of whole arrays, each of which combines all pairs that meet at that step, and is differentiated instead. A reduction
//! combines neighbours until one is left; a window of `k` elements is put together of windows of the powers of two whose sum
//! is `k`, with a mask of what is padding. So either takes about as many steps as the logarithm of what it folds.

use super::rule::{Rule, full};
use super::scalars::{compare, lifted};
use super::sliding::Window;
use crate::builder::{Op, PaddingDimension};
use crate::error::Result;
use crate::hlo::{AttrKey, ComparisonDirection, Module};
use brolga_runtime::{ArrayShape, ElementType, Shape};

/// What combines the elements.
pub(super) enum Combine<'m> {
    /// A computation of two scalars, or of as many left as right ones.
    Computation(&'m Module),
    /// The element that compares so with the other, the first of equals.
    Extreme(ComparisonDirection),
}

/// The elements of each operand that meet, all of the same sizes.
type Values = Vec<Op>;

impl Combine<'_> {
    fn apply(&self, r: &Rule<'_>, left: &[Op], right: &[Op]) -> Result<Values> {
        match (self, left, right) {
            (Combine::Computation(computation), [first, ..], _) => {
                lifted(r, computation, computation.entry, &r.shape(*first)?, &[left, right].concat())
            }
            (Combine::Extreme(direction), &[x], &[y]) => Ok(vec![r.b.select(compare(r.b, x, y, *direction), x, y)]),
            _ => Err(r.broken("folds no operands")),
        }
    }

    /// Of elements some of which are padding, which is not folded: the last of the values says where there are elements.
    fn apply_masked(&self, r: &Rule<'_>, left: &[Op], right: &[Op]) -> Result<Values> {
        let ([left @ .., has_left], [right @ .., has_right]) = (left, right) else {
            return Err(r.broken("folds no operands"));
        };
        let (b, both) = (r.b, self.apply(r, left, right)?);
        let chosen = |(both, (&x, &y))| b.select(*has_left, b.select(*has_right, both, x), y);
        let mut values: Values = both.into_iter().zip(left.iter().zip(right)).map(chosen).collect();
        values.push(b.or(*has_left, *has_right));
        Ok(values)
    }
}

/// The operands, in the types of the results, and the initial values.
fn operands(r: &Rule<'_>) -> Result<(Values, Values)> {
    let (arrays, initial) = r.operands.split_at(r.operands.len() / 2);
    let types = r.instruction.shape.leaves();
    let converted = |(&op, leaf): (&Op, &&Shape)| -> Result<Op> {
        let ty = leaf.as_array().ok_or_else(|| r.broken("yields no arrays"))?.ty;
        Ok(if r.shape(op)?.ty == ty { op } else { r.b.convert_element_type(op, ty) })
    };
    let of = |ops: &[Op]| ops.iter().zip(&types).map(converted).collect::<Result<Values>>();
    Ok((of(arrays)?, of(initial)?))
}

/// The initial values of a fold, once for each element of `shape`.
fn everywhere(r: &Rule<'_>, initial: &[Op], shape: &ArrayShape) -> Values {
    initial.iter().map(|&i| full(r.b, shape, i)).collect()
}

fn each(values: &[Op], f: impl FnMut(Op) -> Op) -> Values {
    values.iter().copied().map(f).collect()
}

/// A reduction over whole dimensions.
pub(super) fn reduce(r: &mut Rule<'_>, combine: &Combine<'_>) -> Result<()> {
    r.instead(|r| {
        let b = r.b;
        let (arrays, initial) = operands(r)?;
        let shape = r.shape(*arrays.first().ok_or_else(|| r.broken("folds no operands"))?)?;
        let folded = r.attrs().ints_or_empty(AttrKey::Dimensions);
        let kept: Vec<i64> = (0..shape.rank() as i64).filter(|d| !folded.contains(d)).collect();
        let sizes = |dims: &[i64]| dims.iter().map(|&d| shape.dims[d as usize]).collect::<Vec<i64>>();
        let (order, kept) = ([folded, &kept[..]].concat(), sizes(&kept));
        let result = ArrayShape::new(shape.ty, kept.clone());
        let mut count: i64 = sizes(folded).iter().product();
        let initial = everywhere(r, &initial, &result);
        if count == 0 {
            return Ok(initial);
        }
        // What is folded as one dimension, the first.
        let rows = [&[count][..], &kept].concat();
        let mut values = each(&arrays, |x| b.reshape(b.transpose(x, &order), &rows));
        while count > 1 {
            let pairs = count / 2;
            let side = |start| each(&values, |x| b.slice_in_dim(x, start, start + 2 * pairs - 1, 2, 0));
            let mut next = combine.apply(r, &side(0), &side(1))?;
            if count % 2 == 1 {
                let last = each(&values, |x| b.slice_in_dim(x, count - 1, count, 1, 0));
                next = next.iter().zip(last).map(|(&x, y)| b.concat_in_dim(&[x, y], 0)).collect();
            }
            values = next;
            count -= pairs;
        }
        combine.apply(r, &initial, &each(&values, |x| b.reshape(x, &kept)))
    })
}

/// Windows that slide over arrays.
pub(super) fn windows(r: &mut Rule<'_>, combine: &Combine<'_>) -> Result<()> {
    let result = match r.instruction.shape.leaves().first().and_then(|l| l.as_array()) {
        Some(result) => result.clone(),
        None => return Err(r.broken("yields no arrays")),
    };
    if result.dims.contains(&0) {
        return Ok(());
    }
    r.instead(|r| {
        let b = r.b;
        let (arrays, initial) = operands(r)?;
        let w = Window::of(r, result.rank());
        let edges: Vec<PaddingDimension> = w
            .padding
            .iter()
            .zip(&w.base)
            .map(|(&(low, high), dilation)| PaddingDimension { low, high, interior: dilation - 1 })
            .collect();
        let is_padded = edges.iter().any(|e| e.low > 0 || e.high > 0 || e.interior > 0);
        let mut values: Values = arrays.iter().zip(&initial).map(|(&x, &i)| b.pad(x, i, &edges)).collect();
        let apply = |left: &[Op], right: &[Op]| match is_padded {
            true => combine.apply_masked(r, left, right),
            false => combine.apply(r, left, right),
        };
        if is_padded {
            let shape = r.shape(*arrays.first().ok_or_else(|| r.broken("folds no operands"))?)?;
            let all = full(b, &shape.with_type(ElementType::Pred), b.constant_pred(true));
            values.push(b.pad(all, b.constant_pred(false), &edges));
        }
        for d in 0..result.rank() {
            values = along(r, apply, values, d, w.sizes[d], w.dilation[d])?;
        }
        let limits: Vec<i64> = result.dims.iter().zip(&w.strides).map(|(n, stride)| (n - 1) * stride + 1).collect();
        let mut values = each(&values, |x| b.slice(x, &vec![0; limits.len()], &limits, &w.strides));
        let mut start = everywhere(r, &initial, &result);
        if !is_padded {
            return combine.apply(r, &start, &values);
        }
        start.push(full(b, &result.with_type(ElementType::Pred), b.constant_pred(true)));
        values = combine.apply_masked(r, &start, &values)?;
        values.pop();
        Ok(values)
    })
}

/// The folds of every `size` elements along dimension `d` that lie `dilation` apart, from each element that has as many
/// behind it.
fn along(
    r: &Rule<'_>,
    apply: impl Fn(&[Op], &[Op]) -> Result<Values>,
    values: Values,
    d: usize,
    size: i64,
    dilation: i64,
) -> Result<Values> {
    let length = |values: &[Op]| -> Result<i64> {
        let first = values.first().ok_or_else(|| r.broken("folds no operands"))?;
        Ok(r.shape(*first)?.dims.get(d).copied().unwrap_or(1))
    };
    let part = |values: &[Op], start: i64, count: i64| {
        each(values, |x| r.b.slice_in_dim(x, start, start + count, 1, d as i64))
    };
    let count = length(&values)? - (size - 1) * dilation;
    // Folds of `power` elements, and the fold of the first `done` of each window.
    let (mut power, mut powers) = (1, values);
    let (mut done, mut sum): (i64, Option<Values>) = (0, None);
    loop {
        if size & power != 0 {
            let next = part(&powers, done * dilation, count);
            sum = Some(match sum {
                Some(before) => apply(&before, &next)?,
                None => next,
            });
            done += power;
        }
        if done == size {
            return sum.ok_or_else(|| r.broken("has a window without elements"));
        }
        let rest = length(&powers)? - power * dilation;
        powers = apply(&part(&powers, 0, rest), &part(&powers, power * dilation, rest))?;
        power *= 2;
    }
}
