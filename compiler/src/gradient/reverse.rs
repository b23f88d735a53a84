//! The walk backwards: cotangents of outputs in, cotangents of inputs out.

use super::reach::{Reach, smooth_leaves};
use super::rule::{self, Rule};
use crate::builder::{At, Builder, Op};
use crate::error::Result;
use std::collections::{HashMap, HashSet};

/// The cotangent of a value: an array for each leaf of its shape, nothing where it is zero.
pub(super) type Cotangent = Vec<Option<Op>>;

/// How far the walk goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// To everything that varies: an input may depend on another.
    Inputs,
    /// Not past the inputs, which are independent of each other, whatever they were made from.
    Nothing,
}

/// The cotangents of `inputs`, given those of some values. Inputs are named once each.
pub(super) fn pull(
    b: &Builder,
    at: At,
    seeds: Vec<(Op, Cotangent)>,
    inputs: &[Op],
    past: Past,
) -> Result<Vec<Cotangent>> {
    let masked = |&op: &Op| Ok((op, smooth_leaves(&b.shape(op)?)));
    let inputs: Vec<(Op, Vec<bool>)> = inputs.iter().map(masked).collect::<Result<_>>()?;
    pull_masked(b, at, seeds, &inputs, past)
}

/// As [`pull`], of the leaves of each input that its mask names.
pub(super) fn pull_masked(
    b: &Builder,
    at: At,
    seeds: Vec<(Op, Cotangent)>,
    inputs: &[(Op, Vec<bool>)],
    past: Past,
) -> Result<Vec<Cotangent>> {
    let outputs: Vec<Op> = seeds.iter().map(|s| s.0).collect();
    let mut reach = Reach::of(b, &outputs, inputs, past);
    let mut sums = Sums::default();
    for (op, cotangent) in seeds {
        for (leaf, value) in cotangent.into_iter().enumerate() {
            if let (Some(value), Some(true)) = (value, reach.active(op).get(leaf)) {
                sums.add(b, op, leaf, value);
            }
        }
    }
    let asked: HashSet<Op> = inputs.iter().map(|(op, _)| *op).collect();
    let mut found: HashMap<Op, Cotangent> = HashMap::new();
    while let Some((_, node)) = reach.0.pop_last() {
        let Some(mut cotangent) = sums.of.remove(&node.op) else { continue };
        cotangent.resize(node.active.len(), None);
        if asked.contains(&node.op) {
            found.insert(node.op, cotangent.clone());
            if past == Past::Nothing {
                continue;
            }
        }
        let wanted: Vec<Vec<bool>> = node.operands.iter().map(|&o| reach.active(o).to_vec()).collect();
        if !wanted.iter().flatten().any(|&w| w) {
            continue;
        }
        let operands = node.operands.clone();
        let given = rule::apply(Rule::new(b, at, node, wanted, cotangent))?;
        for (operand, leaf, value) in given {
            if let Some(&op) = operands.get(operand) {
                sums.add(b, op, leaf, value);
            }
        }
    }
    Ok(inputs.iter().map(|(op, mask)| found.get(op).cloned().unwrap_or_else(|| vec![None; mask.len()])).collect())
}

/// The cotangents so far.
#[derive(Default)]
struct Sums {
    of: HashMap<Op, Cotangent>,
}

impl Sums {
    fn add(&mut self, b: &Builder, op: Op, leaf: usize, value: Op) {
        let leaves = self.of.entry(op).or_default();
        if leaves.len() <= leaf {
            leaves.resize(leaf + 1, None);
        }
        leaves[leaf] = Some(leaves[leaf].map_or(value, |sum| b.add(sum, value)));
    }
}
