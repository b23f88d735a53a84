//! Several iterations at once: a scan whose steps wait less for each other.
//!
//! **Problem.** A step of a scan needs what the step before has left. By itself it loads the carry from its row buffer, combines an
//! element and stores it again, and the next step waits for all three; a row of one element is a register, and the next step waits for
//! the combination alone.
//!
//! **Invariant.** Every element is combined and stored once. Elements are grouped otherwise only where the stage says that they may
//! be ([`Stage::regroups`]), and then by the number of the iteration alone; the order in which they meet stays.
//!
//! **Algorithm.** The innermost sequential loop is cut into pieces of a few iterations, which are written out, so that carries inside a
//! piece need no memory. Where rows are short and may be grouped otherwise, the elements of a piece are combined by halves first,
//! each with all before it, and the carry joins at the end: from one piece to the next there is one operation. What is left behind
//! the last whole piece is a stage of its own.

use super::cost::{UNIT, reads_what_it_writes};
use super::each_stage;
use super::split::Fresh;
use crate::kernel::body::{Body, NodeId, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Loop, Nest, Running, Stage};
use crate::kernel::rewrite::{Copied, copied_store, copy_nodes, place};
use hashbrown::HashMap;

/// Iterations of a piece, where the body allows so many.
const ITERATIONS: [i64; 3] = [8, 4, 2];
/// The most iterations of a row of one element, whose carry stays in a register: more iterations have more to combine than they save in waiting.
const MOST_SINGLE: i64 = 4;
/// The most nodes of a body that is made: the steps of a longer one have enough to compute.
const MOST: usize = 64;
/// Rows of so many elements have enough to do at each iteration.
const LONG: i64 = UNIT / 2;

/// The nest with several iterations in one, where a stage of it carries rows from iteration to iteration.
pub fn scan(nest: &Nest) -> Option<Nest> {
    if reads_what_it_writes(nest) {
        return None;
    }
    let mut fresh = Fresh::of(nest);
    each_stage(nest, |stage| pieces(stage, &mut fresh))
}

/// The stages over whole pieces and over what is left.
fn pieces(stage: &Stage, fresh: &mut Fresh) -> Option<Vec<Stage>> {
    let last = *stage.sequential.last()?;
    let wanted = stage.body.needed(stage.roots());
    let nodes = stage.body.nodes().iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(node, _)| node);
    let stored = |row: u32| stage.row_stores.iter().any(|s| s.0 == row);
    let carries = nodes.clone().any(|node| matches!(node.op, Op::Row(row) if stored(row)));
    if !carries || !stage.accumulators.is_empty() {
        return None;
    }
    let each = nodes.count();
    let most = if stage.vector.extent == 1 { MOST_SINGLE } else { i64::MAX };
    let iterations = ITERATIONS
        .into_iter()
        .filter(|&t| t <= most)
        .find(|&t| 2 * t <= last.extent && each.saturating_mul(t as usize) <= MOST)?;
    let left = last.extent % iterations;
    // What is left over comes behind all whole pieces, also those of later iterations of a loop around it.
    if left > 0 && stage.sequential.len() > 1 {
        return None;
    }
    let whole = fresh.new_loop(last.extent / iterations);
    let steps: Vec<Ix> = (0..iterations).map(|u| whole.ix().scale(iterations).offset(u)).collect();
    let mut out = vec![Iterations::new(stage, last, whole, &wanted).write(&steps)?];
    if left > 0 {
        let rest = fresh.new_loop(left);
        out.push(Iterations::new(stage, last, rest, &wanted).write(&[rest.ix().offset(last.extent - left)])?);
    }
    Some(out)
}

/// A stage that is being written.
struct Iterations<'s> {
    stage: &'s Stage,
    /// The nodes that an iteration needs.
    wanted: &'s [bool],
    /// The loop that is replaced.
    axis: Axis,
    out: Stage,
}

impl<'s> Iterations<'s> {
    /// A stage, which has no accumulators, over `new` instead of its innermost sequential loop `axis`.
    fn new(stage: &'s Stage, axis: Loop, new: Loop, wanted: &'s [bool]) -> Iterations<'s> {
        let mut sequential = stage.sequential.clone();
        sequential.pop();
        sequential.extend((new.extent > 1).then_some(new));
        let out = Stage::new(sequential, stage.vector, Body::sized(MOST));
        let out = Stage { regroups: stage.regroups, streams: stage.streams, ..out };
        Iterations { stage, wanted, axis: axis.axis, out }
    }

    /// The stage whose body takes these steps, the values of the old loop's variable.
    fn write(mut self, steps: &[Ix]) -> Option<Stage> {
        let stage = self.stage;
        let short = steps.len() > 1 && stage.regroups && stage.vector.extent < LONG;
        let running = stage.running().filter(|_| short).unwrap_or_default();
        let sums = running.iter().map(|r| self.sums(r, steps)).collect::<Option<Vec<_>>>()?;
        let nodes = (0..).map(NodeId).zip(stage.body.nodes());
        let leaves: Vec<(NodeId, u32)> =
            nodes.filter_map(|(id, node)| if let Op::Row(row) = node.op { Some((id, row)) } else { None }).collect();
        let mut carried: HashMap<u32, NodeId> = HashMap::new();
        for (iteration, step) in steps.iter().enumerate() {
            let leaves = leaves.iter().filter_map(|(id, row)| Some((*id, *carried.get(row)?)));
            let known = leaves.chain(running.iter().zip(&sums).map(|(r, sums)| (r.next, sums[iteration]))).collect();
            let places = self.iteration(self.wanted, step, &known)?;
            for s in &stage.stores {
                self.out.stores.push(copied_store(s, &self.out.body, &places, |ix| ix.at(self.axis, step))?);
            }
            for &(row, value) in &stage.row_stores {
                carried.insert(row, place(&places, value)?);
            }
        }
        let last = stage.row_stores.iter().map(|(row, _)| Some((*row, *carried.get(row)?)));
        self.out.row_stores = last.collect::<Option<_>>()?;
        self.out.regroups &= self.out.running().is_some();
        Some(self.out)
    }

    /// The running value after each step.
    fn sums(&mut self, r: &Running, steps: &[Ix]) -> Option<Vec<NodeId>> {
        let none = HashMap::new();
        let wanted = self.stage.body.needed([r.value]);
        let mut values = Vec::with_capacity(steps.len());
        for step in steps {
            values.push(place(&self.iteration(&wanted, step, &none)?, r.value)?);
        }
        let body = &mut self.out.body;
        let parts = before(body, &r.op, &values);
        let carry = body.push(Op::Row(r.row), &[], self.stage.body.scalar(r.next));
        Some(parts.into_iter().map(|part| combined(body, &r.op, carry, part)).collect())
    }

    /// Copies nodes as they are at a step; those of `known` are there already.
    fn iteration(
        &mut self,
        wanted: &[bool],
        step: &Ix,
        known: &HashMap<NodeId, NodeId>,
    ) -> Option<Vec<Option<NodeId>>> {
        let (stage, axis) = (self.stage, self.axis);
        copy_nodes(&mut self.out.body, &stage.body, wanted, &|id, op| match known.get(&id) {
            Some(&node) => Copied::Node(node),
            None => Copied::Op(op.map_index(|ix| ix.at(axis, step))),
        })
    }
}

fn combined(body: &mut Body, op: &Op, x: NodeId, y: NodeId) -> NodeId {
    body.push(op.clone(), &[x, y], body.scalar(x))
}

/// Each value with all before it: by halves, so that no value waits for more than the logarithm of their number.
fn before(body: &mut Body, op: &Op, values: &[NodeId]) -> Vec<NodeId> {
    let (left, right) = values.split_at(values.len() / 2);
    if left.is_empty() {
        return values.to_vec();
    }
    let (mut out, right) = (before(body, op, left), before(body, op, right));
    if let Some(&last) = out.last() {
        out.extend(right.into_iter().map(|value| combined(body, op, last, value)));
    }
    out
}
