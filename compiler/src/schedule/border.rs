//! Borders: what reaches past its operand does so near the edges alone.
//!
//! **Problem.** A window that slides over padding clamps the index of every element that it reads, and asks of each whether it is
//! there. What is found through a clamped index does not lie side by side for any emitter.
//!
//! **Invariant.** Points of a nest and elements of a row that is kept do not meet: each part of an axis may be a nest of its own. A
//! clamp goes where the range of its index says that it changes nothing, which the body of the new nest sees by itself
//! ([`Body::push`](crate::kernel::body::Body::push)).
//!
//! **Algorithm.** Each axis, the vector axis first, is cut into what lies before, between and behind the places where a clamp of an index
//! begins and ends to change nothing; only what is between is cut along the next axis. Of narrow borders of points, as much before as behind
//! is one nest, in which the clamps of both stay: each is the same for a whole row.

use super::cost::{TASK, UNIT, elements, reads_what_it_writes};
use super::split::{Fresh, rows, window};
use crate::kernel::body::{Body, NodeId, Op, ScalarType};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Loop, Nest, Stage};
use std::ops::Range;

/// Axes that are cut at most.
const MOST_AXES: usize = 3;
/// Where borders are this part of an axis or less, it is one nest for both that matters, not what clamps cost there.
const NARROW: i64 = 8;
/// A row that is so long is cut in whole iterations.
const LONG: i64 = 8 * UNIT;

/// The nest without its borders, and its borders.
pub fn border(nest: &Nest) -> Option<Vec<Nest>> {
    if loads(nest) < TASK || reads_what_it_writes(nest) {
        return None;
    }
    let (mut cut, mut borders) = (None, Vec::new());
    let rows = rows(nest).map(|(axes, extent)| (axes, extent, true));
    let points = nest.parallel.iter().rev().map(|l| (vec![l.axis], l.extent, false));
    let mut axes_cut = 0;
    for (axes, extent, is_row) in rows.into_iter().chain(points) {
        let nest = cut.as_ref().unwrap_or(nest);
        let Some(between) = between(nest, &axes, extent, is_row).filter(|_| axes_cut < MOST_AXES) else { continue };
        let part = |range: Range<i64>| {
            let mut part = window(nest, &axes, &Ix::constant(range.start), range.end - range.start)?;
            part.parallel.retain(|l| l.extent != 1);
            Some(part)
        };
        let edges = [0..between.start, between.end..extent];
        let few = NARROW * (extent - (between.end - between.start)) <= extent;
        if few && !is_row && between.start == extent - between.end {
            borders.push(both_edges(nest, &axes, &between)?);
        } else {
            for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
                borders.push(part(edge)?);
            }
        }
        cut = Some(part(between)?);
        axes_cut += 1;
    }
    borders.push(cut?);
    Some(borders)
}

/// The nest over the elements before and behind those between, of which there are as many: one nest to compile instead of two.
fn both_edges(nest: &Nest, axes: &[Axis], between: &Range<i64>) -> Option<Nest> {
    let edge = Fresh::of(nest).new_loop(2);
    let mut part = window(nest, axes, &edge.ix().scale(between.end), between.start)?;
    match part.parallel.iter_mut().find(|l| axes.contains(&l.axis)) {
        Some(l) if l.extent == 1 => *l = edge,
        _ => part.parallel.push(edge),
    }
    Some(part)
}

/// How often a nest loads an element.
fn loads(nest: &Nest) -> i64 {
    let of_stage = |stage: &Stage| {
        let loads = stage.body.nodes().iter().filter(|n| matches!(n.op, Op::Load(..))).count();
        elements(stage).saturating_mul(loads as i64)
    };
    nest.points().saturating_mul(nest.stages.iter().map(of_stage).fold(0, i64::saturating_add))
}

/// The elements of the axes for which clamps change nothing, where these are most of them but not all.
fn between(nest: &Nest, axes: &[Axis], extent: i64, is_row: bool) -> Option<Range<i64>> {
    let mut free = 0..extent;
    for stage in &nest.stages {
        for (id, node) in (0..).map(NodeId).zip(stage.body.nodes()) {
            let Some((clamped, bound)) = stage.body.clamp(id) else { continue };
            let Some(ix) = index(&stage.body, clamped) else { continue };
            let Some(&axis) = axes.iter().find(|a| ix.mentions(**a)) else { continue };
            if let Some(unclamped) = unclamped(ix, Loop { axis, extent }, &node.op, bound) {
                free = free.start.max(unclamped.start)..free.end.min(unclamped.end);
            }
        }
    }
    if is_row && extent >= LONG {
        let end = if free.end < extent { free.end / UNIT * UNIT } else { extent };
        free = (free.start + UNIT - 1) / UNIT * UNIT..end;
    }
    let most = free.end - free.start > extent / 2;
    (most && free != (0..extent)).then_some(free)
}

/// The index that a node is, or is a clamp of.
fn index(body: &Body, id: NodeId) -> Option<&Ix> {
    let node = body.node(id);
    match &node.op {
        Op::Index(ix) if node.scalar == ScalarType::I64 => Some(ix),
        _ => body.clamp(id).and_then(|(clamped, _)| index(body, clamped)),
    }
}

/// The elements of a loop for which an index is not less than a bound ([`Op::SMax`]), or not more ([`Op::SMin`]), whatever other loops
/// are at; `None` where the index is not linear in it.
fn unclamped(ix: &Ix, of: Loop, op: &Op, bound: i64) -> Option<Range<i64>> {
    let stride = ix.stride(of.axis).filter(|&stride| stride != 0)?;
    let (low, high) = ix.substitute(&|a| (a == of.axis).then(|| Ix::constant(0))).range();
    let least = *op == Op::SMax;
    let room = bound.checked_sub(if least { low } else { high })?.checked_mul(stride.signum())?;
    let each = stride.checked_abs()?;
    Some(if least == (stride > 0) { -(-room).div_euclid(each)..of.extent } else { 0..room.div_euclid(each) + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every element of short loops, what [`unclamped`] says is what the index says.
    #[test]
    fn elements_that_no_clamp_changes() {
        let (of, other) = (Loop { axis: Axis(0), extent: 9 }, Loop { axis: Axis(1), extent: 3 });
        for stride in [-3, -1, 1, 2, 3] {
            for offset in -7..8 {
                let ix = of.ix().scale(stride).add(&other.ix().scale(2)).offset(offset);
                for bound in -4..12 {
                    for op in [Op::SMax, Op::SMin] {
                        let free = unclamped(&ix, of, &op, bound).expect("a linear index");
                        for x in 0..9 {
                            let value = |y: i64| ix.eval(&|a| if a == of.axis { x } else { y }, &|_| 0);
                            let fits = |y| if op == Op::SMax { value(y) >= bound } else { value(y) <= bound };
                            assert_eq!(free.contains(&x), (0..3).all(fits), "{ix} at {x}, {op:?} {bound}: {free:?}");
                        }
                    }
                }
            }
        }
        let divided = of.ix().div(2);
        assert_eq!(unclamped(&divided, of, &Op::SMax, 1), None);
    }
}
