//! Ranges of indices, proved.

use super::{Check, Scope, broken, require};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
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
        if a < low || b > high || body.nodes().get(node.0 as usize).is_none_or(|n| n.scalar != ScalarType::I64) {
            wrong = Some(format!("%{} lies in {a}..={b}, {ix} takes it to lie in {low}..={high}", node.0));
        }
    });
    wrong.map_or(Ok(()), |what| broken("kernel.bounds", what))
}

/// The smallest and largest value of an integer node, as far as its definition says within `depth` steps.
fn bounds(body: &Body, id: NodeId, depth: u32) -> (i64, i64) {
    let Some(node) = body.nodes().get(id.0 as usize) else { return (i64::MIN, i64::MAX) };
    let whole = match node.scalar {
        ScalarType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    if depth == 0 {
        return whole;
    }
    let arg = |k: usize| node.args.get(k).map_or(whole, |&a| bounds(body, a, depth - 1));
    match &node.op {
        Op::Const(bits) if node.scalar == ScalarType::I32 => {
            (i64::from(*bits as u32 as i32), i64::from(*bits as u32 as i32))
        }
        Op::Const(bits) => (*bits as i64, *bits as i64),
        // One that does not fit into its scalar type wraps.
        Op::Index(ix) => {
            let (a, b) = ix.range();
            fitting(Some(a), Some(b), whole)
        }
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
        Op::MaskToInt => (0, 1),
        Op::And => match (arg(0), arg(1)) {
            ((a, b), (c, d)) if a >= 0 && c >= 0 => (0, b.min(d)),
            ((a, b), _) | (_, (a, b)) if a >= 0 => (0, b),
            _ => whole,
        },
        Op::LShr => match arg(0) {
            (a, b) if a >= 0 => (0, b),
            _ => whole,
        },
        Op::LShrImm(n @ 0..64) => match arg(0) {
            (a @ 0.., b) => (a >> n, b >> n),
            _ => whole,
        },
        Op::AShrImm(n @ 0..64) => {
            let (a, b) = arg(0);
            (a >> n, b >> n)
        }
        Op::ShlImm(n @ 0..63) => {
            let (a, b) = arg(0);
            // What comes back was not lost.
            let back = |x: i64| x.checked_mul(1 << n).filter(|y| y >> n == x);
            fitting(back(a), back(b), whole)
        }
        Op::IAdd => {
            let ((a, b), (c, d)) = (arg(0), arg(1));
            fitting(a.checked_add(c), b.checked_add(d), whole)
        }
        Op::ISub => {
            let ((a, b), (c, d)) = (arg(0), arg(1));
            fitting(a.checked_sub(d), b.checked_sub(c), whole)
        }
        Op::IMul => {
            let ((a, b), (c, d)) = (arg(0), arg(1));
            let corners = [a.checked_mul(c), a.checked_mul(d), b.checked_mul(c), b.checked_mul(d)];
            let all: Option<Vec<i64>> = corners.into_iter().collect();
            let all = all.unwrap_or_default();
            fitting(all.iter().min().copied(), all.iter().max().copied(), whole)
        }
        _ => whole,
    }
}

/// A range of what does not wrap; else the whole one.
fn fitting(low: Option<i64>, high: Option<i64>, whole: (i64, i64)) -> (i64, i64) {
    match (low, high) {
        (Some(low), Some(high)) if whole.0 <= low && high <= whole.1 => (low, high),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::eval::eval_with;

    /// Of loaded bytes and words, what operations give lies in the ranges that the body takes and that are proved, which are the same;
    /// where nothing wraps, both ends of them are met.
    #[test]
    fn what_operations_give_lies_in_their_ranges() {
        let forms = [(Mem::U8, 0, 255), (Mem::S8, -128, 127), (Mem::U16, 0, 65_535)];
        for (left, right) in forms.into_iter().flat_map(|l| forms.map(|r| (l, r))) {
            let mut b = Body::new();
            let [x, y] = [(0, left.0), (1, right.0)]
                .map(|(k, mem)| b.push(Op::Load(k, mem, Ix::default()), &[], ScalarType::I32));
            let [c, mask, big] = [77, 4095, 1 << 20].map(|n| b.i32(n));
            let (wide, bits) =
                (b.convert(Op::UExt, x, ScalarType::I64), b.icmp(crate::kernel::body::IntCond::SLt, x, y));
            let tight = [b.iadd(x, y), b.isub(x, y), b.imul(x, y), b.imul(x, c), b.shl_imm(x, 8), b.ashr_imm(x, 3)];
            let loose = [b.imul(x, big), b.shl_imm(x, 20), b.and(x, mask), b.and(x, y), b.lshr_imm(x, 3), wide];
            let more = [b.mask_to_int(bits), b.select(bits, x, c), b.smin(x, c), b.smax(y, c)];
            let ends = [left.1, left.1 + 1, -1, 0, 1, 5, left.2 - 1, left.2];
            let other = [right.1, -3, 0, 1, 100, right.2];
            let inside = |v: i64, form: (Mem, i64, i64)| form.1 <= v && v <= form.2;
            let mut seen = vec![(i64::MAX, i64::MIN); b.nodes().len()];
            for (p, q) in ends.iter().flat_map(|&p| other.map(|q| (p, q))) {
                if !inside(p, left) || !inside(q, right) {
                    continue;
                }
                let pick = |n: &crate::kernel::body::Node| if matches!(n.op, Op::Load(0, ..)) { p } else { q };
                let values = eval_with(b.nodes(), |n| Some(u64::from(pick(n) as u32)));
                for ((value, node), seen) in values.iter().zip(b.nodes()).zip(&mut seen) {
                    let value = value.unwrap_or_else(|| panic!("{node:?} gives nothing"));
                    let v = if node.scalar == ScalarType::I32 { i64::from(value as i32) } else { value as i64 };
                    *seen = (seen.0.min(v), seen.1.max(v));
                }
            }
            for id in tight.into_iter().chain(loose).chain(more) {
                let (taken, proved) = (b.range(id, 4), bounds(&b, id, 8));
                let (low, high) = seen[id.0 as usize];
                assert_eq!(taken, proved, "{:?} of {left:?} and {right:?}", b.node(id));
                assert!(taken.0 <= low && high <= taken.1, "{:?} gives {low}..={high}, not in {taken:?}", b.node(id));
                if tight.contains(&id) && (left.0, right.0) != (Mem::U16, Mem::U16) {
                    assert_eq!(taken, (low, high), "{:?} of {left:?} and {right:?}", b.node(id));
                }
            }
        }
    }
}
