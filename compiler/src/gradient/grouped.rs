//! Scaled and ragged dots: plain contractions that mean the same are differentiated instead.
//!
//! Scales are broadcast over their blocks and multiplied in. Of a ragged dot element `m` of the ragged dimension belongs to the
//! first group that ends behind it, and what lies behind all groups counts as zero. Where the ragged dimension is a free one, the
//! products of all groups are made and each row takes its own; where it is contracted, both operands are repeated for each
//! group with zeros outside, and groups are a batch dimension; where it is a batch dimension, both are zero behind the last
//! group.

use super::rule::{Rule, full, zeros};
use crate::builder::{Op, Shape, scalar_computation};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode};
use brolga_runtime::{ArrayShape, ElementType};

const INDEX: ElementType = ElementType::S64;

/// Pairs of batch dimensions and of contracted ones, as dimensions of the left and of the right operand.
#[derive(Clone, Default)]
struct Sides {
    batch: [Vec<usize>; 2],
    contracting: [Vec<usize>; 2],
}

impl Sides {
    fn of(r: &Rule<'_>) -> Sides {
        let list = |key| r.attrs().dimension_numbers(key);
        Sides {
            batch: [list(AttrKey::LhsBatchDims), list(AttrKey::RhsBatchDims)],
            contracting: [list(AttrKey::LhsContractingDims), list(AttrKey::RhsContractingDims)],
        }
    }

    /// The dimensions of a side that are neither.
    fn free(&self, side: usize, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.batch[side].contains(d) && !self.contracting[side].contains(d)).collect()
    }

    /// The dimension of the right operand that meets dimension `d` of the left.
    fn partner(&self, r: &Rule<'_>, d: usize) -> Result<usize> {
        let pairs = [&self.batch, &self.contracting].into_iter().flat_map(|[l, r]| l.iter().zip(r));
        let found = pairs.into_iter().find(|(l, _)| **l == d).map(|(_, r)| *r);
        found.ok_or_else(|| r.broken("pairs no dimension with another"))
    }

    /// The same dimensions behind a further batch dimension.
    fn behind_groups(&self) -> Sides {
        let behind = |list: &Vec<usize>| list.iter().map(|d| d + 1).collect::<Vec<_>>();
        Sides {
            batch: self.batch.each_ref().map(|list| [vec![0], behind(list)].concat()),
            contracting: self.contracting.each_ref().map(behind),
        }
    }

    fn dot(&self, r: &Rule<'_>, [lhs, rhs]: [Op; 2], shape: ArrayShape) -> Op {
        let ints = |list: &[usize]| AttrValue::Ints(list.iter().map(|&d| d as i64).collect());
        let attrs = Attrs::new()
            .with(AttrKey::LhsBatchDims, ints(&self.batch[0]))
            .with(AttrKey::RhsBatchDims, ints(&self.batch[1]))
            .with(AttrKey::LhsContractingDims, ints(&self.contracting[0]))
            .with(AttrKey::RhsContractingDims, ints(&self.contracting[1]));
        r.b.append(r.at, Opcode::Dot, &[lhs, rhs], attrs, Shape::Array(shape))
    }
}

pub(super) fn scaled_dot(r: &mut Rule<'_>) -> Result<()> {
    r.instead(|r| {
        let shapes = r.operands.iter().map(|&o| r.shape(o)).collect::<Result<Vec<_>>>()?;
        let ty = if shapes.iter().any(|s| s.ty == ElementType::F64) { ElementType::F64 } else { ElementType::F32 };
        let both = [times(r, r.operand(0)?, r.operand(2)?, ty)?, times(r, r.operand(1)?, r.operand(3)?, ty)?];
        Ok(vec![Sides::of(r).dot(r, both, r.shape(r.op)?)])
    })
}

/// An array, each element times the scale of its block.
fn times(r: &Rule<'_>, x: Op, scale: Op, ty: ElementType) -> Result<Op> {
    let b = r.b;
    let (x, scale) = (b.convert_element_type(x, ty), b.convert_element_type(scale, ty));
    let (shape, blocks) = (r.shape(x)?, r.shape(scale)?.dims);
    if blocks.is_empty() || shape.elements() == 0 {
        let scale = if blocks.is_empty() { scale } else { b.one(ty) };
        return Ok(b.mul(x, full(b, &shape, scale)));
    }
    let mut cut = Vec::new();
    for (&size, &count) in shape.dims.iter().zip(&blocks) {
        if count < 1 || size % count != 0 {
            return Err(r.refuse("with scales of unequal blocks"));
        }
        cut.extend([count, size / count]);
    }
    let places: Vec<i64> = (0..blocks.len() as i64).map(|d| 2 * d).collect();
    Ok(b.mul(x, b.reshape(b.broadcast_in_dim(scale, &cut, &places), &shape.dims)))
}

/// Where groups begin and end, as their sizes say, the last dimension of which counts them.
struct Groups {
    starts: Op,
    ends: Op,
    count: i64,
    /// One size for each group, whatever the dimensions outside of the ragged one.
    shared: bool,
}

impl Groups {
    fn of(r: &Rule<'_>) -> Result<Groups> {
        let (b, sizes) = (r.b, r.operand(2)?);
        let dims = r.shape(sizes)?.dims;
        let Some((&count, outer)) = dims.split_last().filter(|(count, _)| **count > 0) else {
            return Err(r.refuse("without groups"));
        };
        let shape = ArrayShape::new(INDEX, dims.clone());
        let sizes = b.max(b.convert_element_type(sizes, INDEX), zeros(b, &shape));
        let (mut window, mut padding) = (vec![1; dims.len()], vec![(0, 0); dims.len()]);
        (window[outer.len()], padding[outer.len()]) = (count, (count - 1, 0));
        let (add, ones) = (scalar_computation(Opcode::Add, INDEX)?, vec![1; dims.len()]);
        let padding = crate::builder::Padding::Explicit(padding);
        let ends = b.reduce_window(sizes, b.zero(INDEX), &add, &window, &ones, &padding);
        Ok(Groups { starts: b.sub(ends, sizes), ends, count, shared: outer.is_empty() })
    }

    /// `x` where the position along dimension `along` lies in the group along dimension `group`, or in any without one; zero
    /// elsewhere. The other dimensions of the group sizes are dimensions `outer` of `x`.
    fn only(&self, r: &Rule<'_>, x: Op, along: usize, group: Option<usize>, outer: &[usize]) -> Result<Op> {
        let (b, shape) = (r.b, r.shape(x)?);
        let outer = if self.shared { &[] } else { outer };
        let places: Vec<i64> = outer.iter().chain(&group).map(|&d| d as i64).collect();
        let position = b.iota(shape.with_type(INDEX).into(), along as i64);
        let broadcast = |of: Op| b.broadcast_in_dim(of, &shape.dims, &places);
        let inside = if group.is_some() {
            b.and(b.ge(position, broadcast(self.starts)), b.lt(position, broadcast(self.ends)))
        } else {
            let last = outer.len() as i64;
            let end = b.slice_in_dim(self.ends, self.count - 1, self.count, 1, last);
            let dims: Vec<i64> = r.shape(end)?.dims.iter().take(outer.len()).copied().collect();
            b.lt(position, broadcast(b.reshape(end, &dims)))
        };
        Ok(b.select(inside, x, zeros(b, &shape)))
    }
}

pub(super) fn ragged_dot(r: &mut Rule<'_>) -> Result<()> {
    r.instead(|r| Ok(vec![grouped(r)?]))
}

fn grouped(r: &Rule<'_>) -> Result<Op> {
    let (lhs, rhs) = (r.operand(0)?, r.operand(1)?);
    let (left, right, out) = (r.shape(lhs)?, r.shape(rhs)?, r.shape(r.op)?);
    let (sides, groups) = (Sides::of(r), Groups::of(r)?);
    let [ragged] = r.attrs().dimension_numbers(AttrKey::LhsRaggedDims)[..] else {
        return Err(r.broken("has no ragged dimension"));
    };
    let before = |list: &[usize]| list.iter().copied().take_while(|&d| d != ragged).collect::<Vec<usize>>();
    let partners = |list: &[usize]| list.iter().map(|&d| sides.partner(r, d)).collect::<Result<Vec<usize>>>();
    if sides.batch[0].contains(&ragged) {
        let outer = before(&sides.batch[0]);
        let lhs = groups.only(r, lhs, ragged, None, &outer)?;
        let rhs = groups.only(r, rhs, sides.partner(r, ragged)?, None, &partners(&outer)?)?;
        return Ok(sides.dot(r, [lhs, rhs], out));
    }
    if sides.contracting[0].contains(&ragged) {
        let outer = [sides.batch[0].clone(), before(&sides.contracting[0])].concat();
        let repeated = |x: Op, along: usize, outer: &[usize]| {
            let outer: Vec<usize> = outer.iter().map(|d| d + 1).collect();
            groups.only(r, r.b.broadcast(x, &[groups.count]), along + 1, Some(0), &outer)
        };
        let lhs = repeated(lhs, ragged, &outer)?;
        let rhs = repeated(rhs, sides.partner(r, ragged)?, &partners(&outer)?)?;
        return Ok(sides.behind_groups().dot(r, [lhs, rhs], out));
    }
    // A free dimension: batch, the left's free dimensions, the right's with the groups among them.
    let (free, others) = (sides.free(0, left.rank()), sides.free(1, right.rank()));
    let group = r.attrs().dimension_numbers(AttrKey::RhsGroupDims).first().copied();
    let (Some(group), Some(along)) =
        (others.iter().position(|&d| Some(d) == group), free.iter().position(|&d| d == ragged))
    else {
        return Err(r.broken("has no dimension of groups"));
    };
    let batch = sides.batch[0].len();
    let (group, along) = (batch + free.len() + group, batch + along);
    let mut dims: Vec<i64> = sides.batch[0].iter().chain(&free).map(|&d| left.dims[d]).collect();
    dims.extend(others.iter().map(|&d| right.dims[d]));
    let all = sides.dot(r, [lhs, rhs], ArrayShape::new(out.ty, dims));
    let own = groups.only(r, all, along, Some(group), &(0..along).collect::<Vec<_>>())?;
    r.sum(own, &[group as i64])
}
