//! `sort` and `topk`.
//!
//! Problem: the comparator is any computation, perhaps not a strict weak order (`<=`, or NaN compared with `<`).
//! Invariant: whatever it answers, the result is a permutation and the work is `n log n` comparisons; for an order
//! the result is stable. Algorithm: a bottom-up merge sort of positions, which takes from the right run only where
//! the right element is less than the left one.

use super::dense::{offsets, pick, remaining, result_shapes};
use super::{Context, array, execution, invalid, new_array};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use brolga_runtime::{ArrayLiteral, Literal, Scalar};
use std::cmp::Ordering;

/// Evaluates `sort` or `topk`.
pub(super) fn op(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    match inst.opcode {
        Opcode::TopK => topk(inst, operands),
        _ => sort(cx, inst, operands),
    }
}

/// The positions `0..count` in sorted order.
fn merge_sort(count: usize, less: &mut dyn FnMut(usize, usize) -> Result<bool>) -> Result<Vec<usize>> {
    let mut from: Vec<usize> = (0..count).collect();
    let mut into = Vec::with_capacity(count);
    let mut run = 1;
    while run < count {
        for pair in from.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let ([l, more_left @ ..], [r, more_right @ ..]) = (left, right) {
                if less(*r, *l)? {
                    into.push(*r);
                    right = more_right;
                } else {
                    into.push(*l);
                    left = more_left;
                }
            }
            into.extend_from_slice(left);
            into.extend_from_slice(right);
        }
        std::mem::swap(&mut from, &mut into);
        into.clear();
        run *= 2;
    }
    Ok(from)
}

/// Where the rows along dimension `d` start.
fn row_starts(a: &ArrayLiteral, d: usize) -> Vec<usize> {
    let others = remaining(a.dims().len(), &[&[d]]);
    offsets(&pick(a.dims(), &others), &pick(&a.strides(), &others))
}

fn sort(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let arrays = (0..operands.len()).map(|k| array(inst, operands, k)).collect::<Result<Vec<_>>>()?;
    let &[first, ..] = arrays.as_slice() else {
        return Err(invalid(inst, "sort takes an operand"));
    };
    if arrays.iter().any(|a| a.dims() != first.dims()) {
        return Err(invalid(inst, "operands must have the same dimensions"));
    }
    let rank = first.dims().len();
    let dimension = inst.attrs.ints_or_empty(AttrKey::Dimensions).first().copied();
    let dimension = dimension.map_or(rank.checked_sub(1), |d| usize::try_from(d).ok().filter(|&d| d < rank));
    let mut out: Vec<ArrayLiteral> = arrays.iter().map(|&a| a.clone()).collect();
    if first.elements() == 0 {
        // Nothing to sort, and perhaps a great many empty rows.
    } else if let Some(d) = dimension {
        let computation =
            inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| invalid(inst, "to_apply is missing"))?;
        let region = cx.region(computation);
        let (length, stride) = (first.dims()[d] as usize, first.strides()[d] as usize);
        let mut arguments = Vec::with_capacity(2 * arrays.len());
        for start in row_starts(first, d) {
            let rows: Vec<Vec<Scalar>> =
                arrays.iter().map(|a| (0..length).map(|i| a.get(start + i * stride)).collect()).collect();
            let order = merge_sort(length, &mut |i, j| {
                arguments.clear();
                arguments.extend(rows.iter().flat_map(|row| [row[i], row[j]]));
                Ok(region.eval_one(&arguments)?.as_bool())
            })?;
            for (a, source) in out.iter_mut().zip(&arrays) {
                let width = a.ty().byte_size();
                for (to, &from) in order.iter().enumerate() {
                    let (to, from) = ((start + to * stride) * width, (start + from * stride) * width);
                    a.bytes_mut()[to..to + width].copy_from_slice(&source.bytes()[from..from + width]);
                }
            }
        }
    } else if rank > 0 {
        return Err(invalid(inst, "the sorted dimension must be below the rank"));
    }
    if out.len() == 1 && inst.shape.as_array().is_some() {
        return Ok(out.swap_remove(0).into());
    }
    Ok(Literal::Tuple(out.into_iter().map(Literal::Array).collect()))
}

/// A total order of the values of one type: IEEE's for floats, so that NaN has its place and -0 is less than +0.
fn compare(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Pred(a), Scalar::Pred(b)) => a.cmp(&b),
        (Scalar::Int(a), Scalar::Int(b)) => a.cmp(&b),
        (Scalar::UInt(a), Scalar::UInt(b)) => a.cmp(&b),
        (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(&b),
        _ => Ordering::Equal,
    }
}

fn topk(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let operand = array(inst, operands, 0)?;
    let shapes = result_shapes(inst, 2)?;
    let largest = inst.attrs.bool(AttrKey::Largest).unwrap_or(true);
    let (Some(&length), Some(&k)) = (operand.dims().last(), shapes[0].dims.last()) else {
        return Err(invalid(inst, "topk takes an operand of rank 1 or more"));
    };
    let rows = remaining(operand.dims().len() - 1, &[]);
    let same_rows =
        |dims: &[i64]| dims.len() == operand.dims().len() && rows.iter().all(|&d| dims[d] == operand.dims()[d]);
    if k > length {
        return Err(execution(inst, format!("the first {k} of {length} elements")));
    }
    if !same_rows(&shapes[0].dims) || shapes[0].dims != shapes[1].dims || k < 0 {
        return Err(invalid(inst, format!("topk of {} does not yield {}", operand.shape(), inst.shape)));
    }
    let (length, k) = (length as usize, k as usize);
    let (mut values, mut indices) = (new_array(inst, shapes[0])?, new_array(inst, shapes[1])?);
    let count = operand.elements().checked_div(length).unwrap_or(0);
    for row in 0..count {
        let elements: Vec<Scalar> = (0..length).map(|i| operand.get(row * length + i)).collect();
        let order = merge_sort(length, &mut |i, j| {
            let before = if largest { Ordering::Greater } else { Ordering::Less };
            Ok(compare(elements[i], elements[j]) == before)
        })?;
        for (rank, &i) in order.iter().take(k).enumerate() {
            values.set(row * k + rank, elements[i]);
            indices.set(row * k + rank, Scalar::Int(i as i64));
        }
    }
    Ok(Literal::Tuple(vec![values.into(), indices.into()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::dense::testing::check;

    #[test]
    fn merge_sort_is_stable_and_survives_any_comparator() -> Result<()> {
        let keys = [3, 1, 2, 3, 1, 0, 2, 2, 9, 1];
        let order = merge_sort(keys.len(), &mut |i, j| Ok(keys[i] < keys[j]))?;
        let mut expected: Vec<usize> = (0..keys.len()).collect();
        expected.sort_by_key(|&i| keys[i]);
        assert_eq!(order, expected);
        for answer in [true, false] {
            let mut order = merge_sort(100, &mut |_, _| Ok(answer))?;
            order.sort_unstable();
            assert!(order.into_iter().eq(0..100));
        }
        Ok(())
    }

    const LESS: &str = "less {
        a0 = s32[] parameter(0)\n b0 = s32[] parameter(1)\n a1 = s32[] parameter(2)\n b1 = s32[] parameter(3)
        a2 = f32[] parameter(4)\n b2 = f32[] parameter(5)\n ROOT r = pred[] compare(a0, b0), direction=LT\n }
        smaller { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT\n }";

    #[test]
    fn sort_of_three_operands_example() {
        check(
            LESS,
            "a = s32[2] constant({3,1})\n b = s32[2] constant({42,50})\n c = f32[2] constant({-3,1.1})
             ROOT r = (s32[2], s32[2], f32[2]) sort(a, b, c), dimensions={0}, to_apply=less",
            "({1,3},{50,42},{1.1,-3})",
        );
    }

    #[test]
    fn sort_of_higher_rank_sorts_rows_or_columns() {
        let operand = "a = s32[2,3] constant({{3,1,2},{0,5,1}})\n";
        for (attrs, expected) in [
            ("dimensions={0}, ", "{{0,1,1},{3,5,2}}"),
            ("dimensions={1}, ", "{{1,2,3},{0,1,5}}"),
            ("", "{{1,2,3},{0,1,5}}"),
        ] {
            check(LESS, &format!("{operand} ROOT r = s32[2,3] sort(a), {attrs}to_apply=smaller"), expected);
        }
    }

    #[test]
    fn topk_takes_the_first_of_equals() {
        let operand = "a = f32[1,5] constant({{1,3,nan,3,-2}})\n";
        check(
            "",
            &format!("{operand} ROOT r = (f32[1,3], s32[1,3]) topk(a), k=3, largest=true"),
            "({{nan,3,3}},{{2,1,3}})",
        );
        check(
            "",
            &format!("{operand} ROOT r = (f32[1,2], s32[1,2]) topk(a), k=2, largest=false"),
            "({{-2,1}},{{4,0}})",
        );
    }
}
