//! The walk backwards: cotangents of outputs in, cotangents of inputs out. And how a rule has it go over what it built
//! instead of its instruction.

use super::reach::{Past, Reach, smooth_leaves};
use super::rule::{Cotangent, Given, Rule, Rules};
use crate::builder::{At, Builder, Op};
use crate::error::Result;
use brolga_runtime::{ArrayShape, Shape};
use hashbrown::{HashMap, HashSet};

/// The cotangents of `inputs`, given those of some values. Inputs are named once each.
pub(super) fn pull(
    b: &Builder,
    at: At,
    rules: Rules,
    seeds: Vec<(Op, Cotangent)>,
    inputs: &[Op],
    past: Past,
) -> Result<Vec<Cotangent>> {
    let masked = |&op: &Op| Ok((op, smooth_leaves(&b.shape(op)?)));
    let inputs: Vec<(Op, Vec<bool>)> = inputs.iter().map(masked).collect::<Result<_>>()?;
    pull_masked(b, at, rules, seeds, &inputs, past)
}

/// As [`pull`], of the leaves of each input that its mask names.
pub(super) fn pull_masked(
    b: &Builder,
    at: At,
    rules: Rules,
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
        let given = apply(Rule::new(b, at, rules, node, wanted, cotangent))?;
        for (operand, leaf, value) in given {
            if let Some(&op) = operands.get(operand) {
                sums.add(b, op, leaf, value);
            }
        }
    }
    Ok(inputs.iter().map(|(op, mask)| found.get(op).cloned().unwrap_or_else(|| vec![None; mask.len()])).collect())
}

/// What the rule of an instruction gives its operands.
fn apply(mut r: Rule<'_>) -> Result<Vec<Given>> {
    let shapes = r.operands.iter().map(|&o| r.b.shape(o)).collect::<Result<Vec<Shape>>>()?;
    let is_dynamic = |s: &Shape| s.leaves().iter().any(|l| l.as_array().is_some_and(ArrayShape::is_dynamic));
    if shapes.iter().chain([&r.instruction.shape]).any(is_dynamic) {
        return Err(r.refuse("of bounded-dynamic shapes"));
    }
    (r.rules)(&mut r)?;
    r.b.first_error().map_or(Ok(r.given()), Err)
}

impl<'b> Rule<'b> {
    /// Differentiates what `make` builds of the operands instead: the values that the leaves of this one equal. Operands that
    /// are named twice are inputs once.
    pub fn instead(&mut self, make: impl FnOnce(&Rule<'b>) -> Result<Vec<Op>>) -> Result<()> {
        let leaves = make(self)?;
        self.b.first_error().map_or(Ok(()), Err)?;
        let seeds = leaves.into_iter().zip(self.cotangent.clone()).map(|(op, c)| (op, vec![c])).collect();
        let mut places: Vec<usize> = Vec::new();
        for (i, op) in self.operands.iter().enumerate() {
            if self.wants(i) && !places.iter().any(|&p| self.operands[p] == *op) {
                places.push(i);
            }
        }
        let inputs: Vec<(Op, Vec<bool>)> =
            places.iter().map(|&p| (self.operands[p], self.wanted(p).to_vec())).collect();
        let found = pull_masked(self.b, self.at, self.rules, seeds, &inputs, Past::Nothing)?;
        for (place, cotangent) in places.into_iter().zip(found) {
            for (leaf, value) in cotangent.into_iter().enumerate() {
                if let Some(value) = value {
                    self.give_leaf(place, leaf, value);
                }
            }
        }
        Ok(())
    }
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
