//! Ranges of indices, proved.

use super::{Check, Scope, broken, require};
use crate::kernel::body::{Body, Lane, Mem, NodeId, Op};
use crate::kernel::index::{Axis, Ix};

/// Every loop variable of an index runs, no further than the index believes, and loaded offsets lie where it believes.
pub(super) fn check_scope(ix: &Ix, scope: &Scope, body: &Body) -> Check<()> {
    let mut wrong = None;
    ix.for_each_axis(&mut |axis, extent| {
        let running = scope.iter().find(|l| l.axis == axis);
        if running.is_none_or(|l| l.extent > extent) {
            wrong = Some((axis, extent));
        }
    });
    if let Some((axis, extent)) = wrong {
        return broken("kernel.axis", format!("{ix} mentions i{} in {extent}, which does not run there", axis.0));
    }
    require(ix.divisors_are_positive(), "kernel.index", || format!("{ix} divides by nothing"))?;
    let mut wrong = None;
    ix.for_each_bounded_value(&mut |node, low, high| {
        let (a, b) = bounds(body, node, 8);
        if a < low || b > high || body.nodes().get(node.0 as usize).is_none_or(|n| n.lane != Lane::I64) {
            wrong = Some(format!("%{} lies in {a}..={b}, {ix} takes it to lie in {low}..={high}", node.0));
        }
    });
    wrong.map_or(Ok(()), |what| broken("kernel.bounds", what))
}

/// The smallest and largest value of an integer node, as far as its definition says within `depth` steps.
fn bounds(body: &Body, id: NodeId, depth: u32) -> (i64, i64) {
    let Some(node) = body.nodes().get(id.0 as usize) else { return (i64::MIN, i64::MAX) };
    let whole = match node.lane {
        Lane::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    if depth == 0 {
        return whole;
    }
    let arg = |k: usize| node.args.get(k).map_or(whole, |&a| bounds(body, a, depth - 1));
    match &node.op {
        Op::Const(bits) if node.lane == Lane::I32 => (i64::from(*bits as u32 as i32), i64::from(*bits as u32 as i32)),
        Op::Const(bits) => (*bits as i64, *bits as i64),
        Op::Index(ix) if node.lane == Lane::I64 => ix.range(),
        Op::Load(_, Mem::U8, _) => (0, 255),
        Op::Load(_, Mem::S8, _) => (-128, 127),
        Op::Load(_, Mem::U16, _) => (0, 65_535),
        Op::Load(_, Mem::S16, _) => (-32_768, 32_767),
        Op::SMin => {
            let ((a, b), (c, d)) = (arg(0), arg(1));
            (a.min(c), b.min(d))
        }
        Op::SMax => {
            let ((a, b), (c, d)) = (arg(0), arg(1));
            (a.max(c), b.max(d))
        }
        // The smaller unsigned number is no larger than either side that is not negative.
        Op::UMin => match (arg(0), arg(1)) {
            ((a, b), (c, d)) if a >= 0 && c >= 0 => (a.min(c), b.min(d)),
            ((0.., b), _) | (_, (0.., b)) => (0, b),
            _ => whole,
        },
        Op::SExt => arg(0),
        Op::UExt => match arg(0) {
            (a, b) if a >= 0 => (a, b),
            _ => (0, i64::from(u32::MAX)),
        },
        Op::Select => {
            let ((a, b), (c, d)) = (arg(1), arg(2));
            (a.min(c), b.max(d))
        }
        _ => whole,
    }
}

/// Points up to which an index is looked at one by one, where its terms hang together and intervals say too little.
const FEW: i64 = 1 << 20;

/// Whether an index lies between `low` and `high`, whatever its variables are.
pub(super) fn in_range(ix: &Ix, low: i64, high: i64) -> bool {
    let inside = |(a, b): (i64, i64)| low <= a && b <= high;
    if inside(ix.range()) {
        return true;
    }
    let mut axes: Vec<(Axis, i64)> = Vec::new();
    ix.for_each_axis(&mut |axis, extent| {
        match axes.iter_mut().find(|(a, _)| *a == axis) {
            Some((_, most)) => *most = (*most).max(extent),
            None => axes.push((axis, extent)),
        };
    });
    let points = axes.iter().try_fold(1i64, |n, (_, e)| n.checked_mul((*e).max(1)));
    points.is_some_and(|n| n <= FEW) && every_point(ix, &axes, low, high)
}

/// The range at every value of the loop variables; loaded offsets keep theirs.
fn every_point(ix: &Ix, axes: &[(Axis, i64)], low: i64, high: i64) -> bool {
    match axes {
        [] => {
            let (a, b) = ix.range();
            low <= a && b <= high
        }
        [(axis, extent), rest @ ..] => (0..*extent).all(|i| {
            let fixed = ix.substitute(&|a| (a == *axis).then(|| Ix::constant(i)));
            let (a, b) = fixed.range();
            (low <= a && b <= high) || every_point(&fixed, rest, low, high)
        }),
    }
}
