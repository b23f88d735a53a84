//! What a combiner makes of the order of its elements.
//!
//! Lanes take elements in another order than the program says, which is harmless only where a combiner folds and commutes
//! ([`super::commute`]). How it takes NaN is found by trying it on a few values.

use super::commute::Commutes;
use super::{Combiner, Lowerer};
use crate::fusion::reduced_dims;
use crate::hlo::{AttrKey, Instruction, InstructionId, Opcode, resolve};
use crate::kernel::body::{Body, FloatCond, NodeId, Op, ScalarType};
use crate::kernel::eval::eval;
use hashbrown::HashSet;

/// Whether a root of a combiner of `n` components depends on an accumulator and on a value. One that does not is no
/// fold of its elements; its result follows from their order alone, which must then be kept.
pub(super) fn sees_both_sides(body: &Body, root: NodeId, n: u32) -> bool {
    let (mut accumulator, mut value) = (false, false);
    let mut stack = vec![root];
    let mut seen = HashSet::new();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = body.node(id);
        if let Op::Arg(k) = node.op {
            accumulator |= k < n;
            value |= k >= n;
        }
        stack.extend(&node.args);
    }
    accumulator && value
}

/// Which component is the key and which the index, where a combiner has a float and an integer.
fn key_and_index(body: &Body, roots: &[NodeId]) -> Option<(u32, u32)> {
    let is_float = |&r: &NodeId| matches!(body.scalar(r), ScalarType::F32 | ScalarType::F64);
    let is_integer = |&r: &NodeId| matches!(body.scalar(r), ScalarType::I32 | ScalarType::I64);
    match roots {
        [a, b] if is_float(a) && is_integer(b) => Some((0, 1)),
        [a, b] if is_integer(a) && is_float(b) => Some((1, 0)),
        _ => None,
    }
}

/// Whether a combiner of keys and their indices, such as that of an arg-max, prefers a NaN to any number and of two NaNs
/// the first it sees, whatever their indices. Such a combiner is associative, but lanes would show it another NaN first.
fn first_nan_wins(body: &Body, roots: &[NodeId]) -> bool {
    let Some((key, index)) = key_and_index(body, roots) else { return false };
    let (key, index) = (key as usize, index as usize);
    let bits =
        |v: f64| if body.scalar(roots[key]) == ScalarType::F32 { u64::from((v as f32).to_bits()) } else { v.to_bits() };
    let chosen = |a: (f64, u64), b: (f64, u64)| {
        let mut args = [0; 4];
        (args[key], args[index], args[2 + key], args[2 + index]) = (bits(a.0), a.1, bits(b.0), b.1);
        eval(body.nodes(), &args)[roots[index].0 as usize]
    };
    let nan = f64::NAN;
    [(1, 2), (2, 1)].into_iter().all(|(i, j)| {
        let over = |x: f64| chosen((nan, i), (x, j)) == Some(i) && chosen((x, i), (nan, j)) == Some(j);
        chosen((nan, i), (nan, j)) == Some(i) && [f64::NEG_INFINITY, 0.0, f64::INFINITY].into_iter().all(over)
    })
}

/// Makes the smaller index win between two NaNs: where indices count up this is the first NaN, in any order of lanes.
fn smaller_index_of_nans(body: &mut Body, roots: &mut [NodeId]) {
    let Some((key, index)) = key_and_index(body, roots) else { return };
    let scalars = [key, index].map(|k| body.scalar(roots[k as usize]));
    let [a, i, b, j] = [(key, 0), (index, 1), (2 + key, 0), (2 + index, 1)].map(|(k, l)| body.arg(k, scalars[l]));
    let (a, b) = (body.fcmp(FloatCond::Ne, a, a), body.fcmp(FloatCond::Ne, b, b));
    let (both, smaller) = (body.and(a, b), body.smin(i, j));
    let root = &mut roots[index as usize];
    *root = body.select(both, smaller, *root);
}

impl Lowerer<'_> {
    /// Gives lanes a reduction that only NaN on both sides keep from commuting, where it can be told which of them comes
    /// first.
    pub(super) fn propagate_nans(&self, inst: &Instruction, combiner: &mut Combiner) {
        let first_wins = combiner.commutes == Commutes::ButForNaNs
            && inst.opcode == Opcode::Reduce
            && first_nan_wins(&combiner.body, &combiner.roots);
        let index = key_and_index(&combiner.body, &combiner.roots).map(|(_, index)| inst.operands[index as usize]);
        if first_wins && index.is_some_and(|index| self.counts_up(inst, index)) {
            smaller_index_of_nans(&mut combiner.body, &mut combiner.roots);
            combiner.splits = true;
        }
    }

    /// Whether an operand of a reduction is the index along the one dimension that is reduced.
    fn counts_up(&self, inst: &Instruction, operand: InstructionId) -> bool {
        let source = |id| &self.c.instructions[resolve(self.c, (id, 0)).0];
        let mut at = source(operand);
        let Some(whole) = at.shape.as_array() else { return false };
        let mut reduced: Vec<usize> = reduced_dims(inst).into_iter().filter(|&d| whole.dims[d] != 1).collect();
        let fits = |&d: &usize| whole.dims[d] <= 1 << (whole.ty.bits() - 1).min(62);
        if !reduced.iter().all(fits) {
            return false;
        }
        while at.opcode == Opcode::Broadcast {
            let along = at.attrs.dimension_numbers(AttrKey::Dimensions);
            let place = |d: &usize| along.iter().position(|a| a == d);
            let Some(inner) = reduced.iter().map(place).collect() else { return false };
            reduced = inner;
            at = source(at.operands[0]);
        }
        let along = at.attrs.int(AttrKey::IotaDimension).unwrap_or(0);
        at.opcode == Opcode::Iota && reduced.iter().all(|&d| d as i64 == along)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::body::IntCond;

    /// The greater key, of equal ones the smaller index; `nan` says what is asked besides.
    fn arg_max(nan: fn(&mut Body, NodeId, NodeId) -> Option<NodeId>) -> (Body, Vec<NodeId>) {
        let mut body = Body::new();
        let [a, b] = [0, 2].map(|k| body.arg(k, ScalarType::F32));
        let [i, j] = [1, 3].map(|k| body.arg(k, ScalarType::I32));
        let mut wins = body.fcmp(FloatCond::Gt, a, b);
        if let Some(nan) = nan(&mut body, a, b) {
            wins = body.or(wins, nan);
        }
        let (equal, before) = (body.fcmp(FloatCond::Eq, a, b), body.icmp(IntCond::SLt, i, j));
        let tie = body.and(equal, before);
        let first = body.or(wins, tie);
        let roots = vec![body.select(wins, a, b), body.select(first, i, j)];
        (body, roots)
    }

    #[test]
    fn how_nan_is_taken_is_found_out() {
        let (body, roots) = arg_max(|body, a, _| Some(body.fcmp(FloatCond::Ne, a, a)));
        assert!(first_nan_wins(&body, &roots));
        let (body, roots) = arg_max(|_, _, _| None);
        assert!(!first_nan_wins(&body, &roots), "a NaN is passed over");
        let (body, roots) = arg_max(|body, a, b| {
            let (nan, number) = (body.fcmp(FloatCond::Ne, a, a), body.fcmp(FloatCond::Eq, b, b));
            Some(body.and(nan, number))
        });
        assert!(!first_nan_wins(&body, &roots), "of two NaNs the second");
    }

    #[test]
    fn nans_meet_in_any_order() {
        let (mut body, mut roots) = arg_max(|body, a, _| Some(body.fcmp(FloatCond::Ne, a, a)));
        smaller_index_of_nans(&mut body, &mut roots);
        let nan = u64::from(f32::NAN.to_bits());
        for (i, j) in [(3, 5), (5, 3)] {
            let values = eval(body.nodes(), &[nan, i, nan, j]);
            assert_eq!(values[roots[1].0 as usize], Some(3));
        }
    }
}
