//! `scaled-dot` and `ragged-dot` as plain contractions.
//!
//! Problem: one scales blocks of its operands, the other cuts a dimension of its left operand into groups known at run
//! time. Invariant: as `interp/contraction.rs` has it, element `m` of the ragged dimension belongs to the first group
//! that ends behind it; what lies behind all groups counts as zero, and nothing of another group has a part in a result,
//! infinities neither. Algorithm: scales are broadcast over their blocks and multiplied in. Where the ragged dimension is a
//! free one, every group's product is made and each row takes its own; where it is contracted, both operands are
//! repeated for each group with zeros outside, and groups are a batch dimension; where it is a batch dimension,
//! both are zero behind the last group.

use super::batch_norm::Sums;
use super::complex;
use super::formula::{compare, iota, scalar, slice};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode, WindowDimension};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar};

const INDEX: ElementType = ElementType::S64;

/// A contraction of these operands, batch and contracted dimensions paired.
fn dot(
    rw: &mut Rewriter<'_>,
    shape: ArrayShape,
    [lhs, rhs]: [InstructionId; 2],
    [lhs_batch, rhs_batch, lhs_sum, rhs_sum]: [Vec<usize>; 4],
) -> Result<InstructionId> {
    let ints = |list: Vec<usize>| AttrValue::Ints(list.into_iter().map(|d| d as i64).collect());
    let attrs = Attrs::new()
        .with(AttrKey::LhsBatchDims, ints(lhs_batch))
        .with(AttrKey::RhsBatchDims, ints(rhs_batch))
        .with(AttrKey::LhsContractingDims, ints(lhs_sum))
        .with(AttrKey::RhsContractingDims, ints(rhs_sum));
    let product = rw.emit(Opcode::Dot, shape.into(), vec![lhs, rhs], attrs);
    Ok(complex::contraction(rw, product)?.unwrap_or(product))
}

/// Batch dimensions of both sides, then contracted ones.
fn numbers(rw: &Rewriter<'_>, id: InstructionId) -> [Vec<usize>; 4] {
    [AttrKey::LhsBatchDims, AttrKey::RhsBatchDims, AttrKey::LhsContractingDims, AttrKey::RhsContractingDims]
        .map(|key| rw.instruction(id).attrs.dimension_numbers(key))
}

/// Expands `scaled-dot`; `None` where shapes are dynamic or not of floats.
pub fn scaled(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let operands = rw.instruction(id).operands.clone();
    let &[lhs, rhs, lhs_scale, rhs_scale] = &operands[..] else { return Ok(None) };
    let plain = |&o: &InstructionId| rw.array(o).is_some_and(|a| a.ty.is_float() && !a.is_dynamic());
    let Some(out) = rw.array(id).map(|a| a.with_type(a.ty)).filter(|_| operands.iter().all(plain)) else {
        return Ok(None);
    };
    let wide = |&o: &InstructionId| rw.array(o).is_some_and(|a| a.ty == ElementType::F64);
    let ty = if operands.iter().any(wide) { ElementType::F64 } else { ElementType::F32 };
    let (Some(lhs), Some(rhs)) = (times(rw, lhs, lhs_scale, ty), times(rw, rhs, rhs_scale, ty)) else {
        return Ok(None);
    };
    let numbers = numbers(rw, id);
    dot(rw, out, [lhs, rhs], numbers).map(Some)
}

/// An array, each element times the scale of its block; `None` where blocks do not divide it.
fn times(rw: &mut Rewriter<'_>, x: InstructionId, scale: InstructionId, ty: ElementType) -> Option<InstructionId> {
    let (x, scale) = (rw.convert(x, ty), rw.convert(scale, ty));
    let (shape, blocks) = (rw.array(x)?.clone(), rw.dims(scale).to_vec());
    if shape.elements() == 0 {
        return Some(x);
    }
    let scale = if blocks.is_empty() {
        rw.broadcast_scalar(scale, &shape)
    } else {
        let mut cut = Vec::new();
        for (&size, &count) in shape.dims.iter().zip(&blocks) {
            (count > 0 && size % count == 0).then(|| cut.extend([count, size / count]))?;
        }
        let places = (0..blocks.len() as i64).map(|d| 2 * d).collect();
        let broadcast = rw.broadcast(scale, &ArrayShape::new(ty, cut), places);
        rw.reshape(broadcast, &shape.dims)
    };
    Some(rw.elementwise(Opcode::Multiply, vec![x, scale]))
}

/// Where groups begin and end, and where the last one does.
struct Groups {
    starts: InstructionId,
    ends: InstructionId,
    last: InstructionId,
    count: i64,
}

impl Groups {
    /// Of group sizes, the last dimension of which counts the groups.
    fn of(rw: &mut Rewriter<'_>, sizes: InstructionId, sums: &mut Sums) -> Option<Groups> {
        let shape = ArrayShape::new(INDEX, rw.dims(sizes));
        let (&count, outer) = shape.dims.split_last().filter(|(count, _)| **count > 0)?;
        let zero = scalar(rw, INDEX, Scalar::Int(0));
        let zeros = rw.broadcast_scalar(zero, &shape);
        let sizes = rw.convert(sizes, INDEX);
        let sizes = rw.elementwise(Opcode::Maximum, vec![sizes, zeros]);
        let mut window = vec![WindowDimension::default(); shape.rank()];
        let along = window.last_mut()?;
        (along.size, along.padding_low) = (count, count - 1);
        let attrs = Attrs::new()
            .with(AttrKey::Window, AttrValue::Window(window))
            .with(AttrKey::ToApply, AttrValue::Computation(sums.of(rw.module, INDEX)));
        let ends = rw.emit(Opcode::ReduceWindow, shape.clone().into(), vec![sizes, zero], attrs);
        let starts = rw.elementwise(Opcode::Subtract, vec![ends, sizes]);
        let last = slice(rw, ends, outer.len(), count - 1, count);
        let last = rw.reshape(last, outer);
        Some(Groups { starts, ends, last, count })
    }

    /// `x` where the position along dimension `along` lies in the group along dimension `group`, or in any without one;
    /// zero elsewhere. The other dimensions of the group sizes are dimensions `outer` of `x`.
    fn only(
        &self,
        rw: &mut Rewriter<'_>,
        x: InstructionId,
        (along, group): (usize, Option<usize>),
        outer: &[usize],
    ) -> Option<InstructionId> {
        let shape = rw.array(x)?.clone();
        let places: Vec<i64> = outer.iter().chain(&group).map(|&d| d as i64).collect();
        let index = shape.with_type(INDEX);
        let position = iota(rw, INDEX, &shape.dims, along);
        let end = rw.broadcast(if group.is_some() { self.ends } else { self.last }, &index, places.clone());
        let mut inside = compare(rw, position, "LT", end);
        if group.is_some() {
            let start = rw.broadcast(self.starts, &index, places);
            let begun = compare(rw, position, "GE", start);
            inside = rw.elementwise(Opcode::And, vec![begun, inside]);
        }
        let zero = scalar(rw, shape.ty, Scalar::Int(0));
        let zeros = rw.broadcast_scalar(zero, &shape);
        Some(rw.emit(Opcode::Select, shape.with_type(shape.ty).into(), vec![inside, x, zeros], Attrs::new()))
    }
}

/// Expands `ragged-dot`; `None` where shapes are dynamic or there are no groups.
pub fn ragged(rw: &mut Rewriter<'_>, id: InstructionId, sums: &mut Sums) -> Result<Option<InstructionId>> {
    let is_static = |&o: &InstructionId| rw.array(o).is_some_and(|a| !a.is_dynamic());
    if !rw.instruction(id).operands.iter().all(is_static) {
        return Ok(None);
    }
    grouped(rw, id, sums).transpose()
}

fn grouped(rw: &mut Rewriter<'_>, id: InstructionId, sums: &mut Sums) -> Option<Result<InstructionId>> {
    let operands = rw.instruction(id).operands.clone();
    let &[lhs, rhs, sizes] = &operands[..] else { return None };
    let out = rw.array(id)?.with_type(rw.array(id)?.ty);
    let attrs = &rw.instruction(id).attrs;
    let group = attrs.dimension_numbers(AttrKey::RhsGroupDims).first().copied();
    let [ragged] = attrs.dimension_numbers(AttrKey::LhsRaggedDims)[..] else { return None };
    let [lhs_batch, rhs_batch, lhs_sum, rhs_sum] = numbers(rw, id);
    let (left, right) = (rw.dims(lhs).to_vec(), rw.dims(rhs).to_vec());
    let free: Vec<usize> = (0..left.len()).filter(|d| !lhs_batch.contains(d) && !lhs_sum.contains(d)).collect();
    let before = |list: &[usize]| list.iter().copied().take_while(|&d| d != ragged).collect::<Vec<usize>>();
    let is_shared = rw.dims(sizes).len() == 1;
    // Pairs of batch and contracted dimensions.
    let paired = |d: usize| {
        let mut pairs = lhs_batch.iter().zip(&rhs_batch).chain(lhs_sum.iter().zip(&rhs_sum));
        pairs.find(|(l, _)| **l == d).map(|(_, r)| *r)
    };
    let groups = Groups::of(rw, sizes, sums)?;
    if lhs_batch.contains(&ragged) {
        let outer = if is_shared { Vec::new() } else { before(&lhs_batch) };
        let other: Vec<usize> = outer.iter().map(|&d| paired(d)).collect::<Option<_>>()?;
        let operands =
            [groups.only(rw, lhs, (ragged, None), &outer)?, groups.only(rw, rhs, (paired(ragged)?, None), &other)?];
        return Some(dot(rw, out, operands, [lhs_batch, rhs_batch, lhs_sum, rhs_sum]));
    }
    if lhs_sum.contains(&ragged) {
        let outer = if is_shared { Vec::new() } else { [lhs_batch.clone(), before(&lhs_sum)].concat() };
        let other: Vec<usize> = outer.iter().map(|&d| paired(d)).collect::<Option<_>>()?;
        let mut repeated = |x, dims: &[i64], along: usize, outer: &[usize]| {
            let shape = ArrayShape::new(rw.array(x)?.ty, [&[groups.count][..], dims].concat());
            let all = rw.broadcast(x, &shape, (1..=dims.len() as i64).collect());
            let outer: Vec<usize> = outer.iter().map(|&d| d + 1).collect();
            groups.only(rw, all, (along + 1, Some(0)), &outer)
        };
        let operands = [repeated(lhs, &left, ragged, &outer)?, repeated(rhs, &right, paired(ragged)?, &other)?];
        let behind = |list: Vec<usize>| list.into_iter().map(|d| d + 1).collect::<Vec<usize>>();
        let batches = |list: Vec<usize>| [vec![0], behind(list)].concat();
        let numbers = [batches(lhs_batch), batches(rhs_batch), behind(lhs_sum), behind(rhs_sum)];
        return Some(dot(rw, out, operands, numbers));
    }
    // A free dimension: batch, the left's free dimensions, the right's with the groups among them.
    let group = group?;
    let free_right: Vec<usize> = (0..right.len()).filter(|d| !rhs_batch.contains(d) && !rhs_sum.contains(d)).collect();
    let place = lhs_batch.len() + free.len() + free_right.iter().position(|&d| d == group)?;
    let along = lhs_batch.len() + free.iter().position(|&d| d == ragged)?;
    let outer: Vec<usize> = if is_shared { Vec::new() } else { (0..along).collect() };
    let mut dims: Vec<i64> = lhs_batch.iter().chain(&free).map(|&d| left[d]).collect();
    dims.extend(free_right.iter().map(|&d| right[d]));
    let numbers = [lhs_batch, rhs_batch, lhs_sum, rhs_sum];
    let all = match dot(rw, ArrayShape::new(out.ty, dims), [lhs, rhs], numbers) {
        Ok(all) => all,
        error => return Some(error),
    };
    let own = groups.only(rw, all, (along, Some(place)), &outer)?;
    let zero = scalar(rw, out.ty, Scalar::Int(0));
    let attrs = Attrs::new()
        .with(AttrKey::Dimensions, AttrValue::Ints(vec![place as i64]))
        .with(AttrKey::ToApply, AttrValue::Computation(sums.of(rw.module, out.ty)));
    Some(Ok(rw.emit(Opcode::Reduce, out.into(), vec![own, zero], attrs)))
}

#[cfg(test)]
mod tests {
    use crate::passes::expand::tests::{Near, agree};

    #[test]
    fn scales_are_multiplied_in() {
        for (scales, near) in [("f32[2,3], f32[6,1]", 1e-5), ("f32[4,6], f32[]", 1e-5), ("bf16[1,2], f32[2,5]", 1e-4)] {
            let (left, right) = scales.rsplit_once(", ").unwrap_or_default();
            let body = format!(
                "a = f32[4,6] parameter(0)  b = f32[6,5] parameter(1)  s = {left} parameter(2)  t = {right} parameter(3)
                 ROOT r = f32[4,5] scaled-dot(a, b, s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            );
            agree("", &body, Near::Within(near));
        }
    }

    #[test]
    fn groups_meet_their_own() {
        // Sizes are from -4 to 4: some groups are empty, some reach past the end, and rows are left over.
        for ty in ["f32", "s32", "c64"] {
            for (sizes, a, b, out, numbers) in [
                (
                    "3",
                    "5,4",
                    "3,4,2",
                    "5,2",
                    "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
                ),
                (
                    "2,3",
                    "2,5,4",
                    "2,4,3,2",
                    "2,5,2",
                    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={2}",
                ),
                ("3", "5,4", "5,2", "3,4,2", "lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}"),
                (
                    "2,3",
                    "4,2,5",
                    "5,2,2",
                    "3,2,4,2",
                    "lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}, lhs_ragged_dims={2}",
                ),
                (
                    "3",
                    "5,4",
                    "5,4",
                    "5",
                    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}",
                ),
            ] {
                // A complex number is made of two real parameters.
                let (real, made) = if ty == "c64" { ("f32", "complex(p, p)") } else { (ty, "copy(p)") };
                let body = format!(
                    "p = {real}[{a}] parameter(0)  x = {ty}[{a}] {made}  q = {real}[{b}] parameter(1)
                     y = {ty}[{b}] {}  g = s32[{sizes}] parameter(2)
                     d = {ty}[{out}] ragged-dot(x, y, g), {numbers}  ROOT r = {real}[{out}] {}",
                    if ty == "c64" { "complex(q, q)" } else { "copy(q)" },
                    if ty == "c64" { "imag(d)" } else { "negate(d)" },
                );
                agree("", &body, Near::Within(1e-5));
            }
        }
    }
}
