//! Folds of few rows: what a window or a short axis combines is written out, and no accumulator waits in memory.
//!
//! **Problem.** A reduction that keeps the vector axis has its accumulators in a row buffer: a window of three by three over rows of 64
//! channels loads and stores them at every iteration, and the stage behind it loads them again.
//!
//! **Invariant.** Each result combines the same elements in the same order, the initial value first.
//!
//! **Algorithm.** All iterations of the sequential loops are written out into one body, each combined with what the iterations before have left.
//! A stage that runs over the same row behind it goes on with those values, so that row buffers that nobody else reads are gone.
//!
//! A reduction over the vector axis too, of rows in which the order does not count, gets the same ([`lanes`]): what it folds of all rows
//! is combined first, and its lanes are loaded, stored and folded once.

use super::cost::{UNIT, depth, reads_what_it_writes};
use super::each_stage;
use crate::kernel::body::{Body, NodeId, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Accumulator, Kernel, Loop, Nest, Phase, Place, Role, RowBuffer, Stage};
use crate::kernel::rewrite::{Copied, copied_store, copy, copy_nodes, place};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The most iterations that are written out, a window of three in three dimensions: each is a stream of its own through memory.
const ITERATIONS: i64 = 27;
/// The most nodes of a body that is made.
const MOST: usize = 256;

/// Writes out the short folds of a kernel.
pub fn run(kernel: &mut Kernel) {
    each_nest(kernel, |nest, is_scratch| unroll(nest, is_scratch));
}

/// Writes out the few rows of each reduction over the vector axis.
pub fn lanes(kernel: &mut Kernel) {
    each_nest(kernel, |nest, is_scratch| {
        let new = each_stage(nest, |stage| Some(vec![in_one_row(stage, is_scratch)?]));
        new.filter(|_| !reads_what_it_writes(nest))
    });
}

/// Replaces nests by what becomes of them, if anything; the second argument says which buffers are scratch.
fn each_nest(kernel: &mut Kernel, change: impl Fn(&Nest, &dyn Fn(u32) -> bool) -> Option<Nest>) {
    let is_scratch = |b: u32| kernel.buffers.get(b as usize).is_some_and(|b| b.role == Role::Scratch);
    let changed = |phase: &Phase| match phase {
        Phase::Nest(nest) => change(nest, &is_scratch).map(Phase::Nest),
        _ => None,
    };
    let new: Vec<Option<Phase>> = kernel.phases.iter().map(changed).collect();
    for (phase, new) in kernel.phases.iter_mut().zip(new) {
        if let Some(new) = new {
            *phase = new;
        }
    }
}

/// The stage without its sequential loops, where it does nothing but fold all elements of few rows, in any order.
fn in_one_row(stage: &Stage, is_scratch: &dyn Fn(u32) -> bool) -> Option<Stage> {
    let part = |&v: &NodeId| matches!(stage.body.node(v).op, Op::Load(b, _, _) if is_scratch(b));
    let in_lanes =
        |a: &Accumulator| a.in_lanes() && matches!(a.place, Place::Lanes { .. }) && !a.values.iter().any(part);
    if !folds_few_rows(stage) || !stage.accumulators.iter().all(in_lanes) || stage.vector.extent < UNIT {
        return None;
    }
    let Iterations { body, inits, states } = Iterations::of(stage, false)?;
    let with = |((a, init), values): ((&Accumulator, _), _)| Accumulator { init, values, ..a.clone() };
    let accumulators = stage.accumulators.iter().zip(inits).zip(states).map(with).collect();
    Some(Stage { accumulators, ..Stage::new(Vec::new(), stage.vector, body) })
}

/// What a stage folds in all iterations of its sequential loops, in one body.
struct Iterations {
    body: Body,
    /// The initial value of each accumulator, which no iteration changes, ...
    inits: Vec<Vec<NodeId>>,
    /// ... and what it is behind the last iteration.
    states: Vec<Vec<NodeId>>,
}

impl Iterations {
    /// Each iteration is combined with what those before it have left; the first one with the initial values, or with nothing.
    fn of(stage: &Stage, with_inits: bool) -> Option<Iterations> {
        let first = stage.body.needed(stage.accumulators.iter().flat_map(|a| a.init.iter().copied()));
        let wanted = stage.body.needed(stage.roots());
        let nodes = (stage.body.nodes().len() as i64).saturating_mul(depth(stage) + 1);
        let mut body = Body::sized(nodes.min(MOST as i64) as usize);
        let places = copy(&mut body, &stage.body, &first, &|op| Copied::Op(op.clone()))?;
        let init = |a: &Accumulator| a.init.iter().map(|&n| place(&places, n)).collect();
        let inits: Vec<Vec<NodeId>> = stage.accumulators.iter().map(init).collect::<Option<_>>()?;
        let mut states = with_inits.then(|| inits.clone());
        for iteration in iterations(&stage.sequential) {
            let places = copy(&mut body, &stage.body, &wanted, &moved(&iteration))?;
            let own = |a: &Accumulator| a.values.iter().map(|&v| place(&places, v)).collect();
            let new: Vec<Vec<NodeId>> = stage.accumulators.iter().map(own).collect::<Option<_>>()?;
            let combined = |(a, (old, new)): (&Accumulator, (&Vec<NodeId>, &Vec<NodeId>))| {
                body.inline(&a.combine, &[old.as_slice(), new].concat(), &a.roots)
            };
            states = Some(match &states {
                None => new,
                Some(old) => {
                    stage.accumulators.iter().zip(old.iter().zip(&new)).map(combined).collect::<Option<_>>()?
                }
            });
            if body.nodes().len() > MOST {
                return None;
            }
        }
        Some(Iterations { body, inits, states: states? })
    }
}

/// Whether a stage does nothing but fold, and few rows.
fn folds_few_rows(stage: &Stage) -> bool {
    let only_folds = stage.stores.is_empty() && stage.row_stores.is_empty() && !stage.accumulators.is_empty();
    only_folds && !stage.sequential.is_empty() && depth(stage) <= ITERATIONS
}

/// What becomes of an operation in an iteration.
fn moved(iteration: &[(Axis, i64)]) -> impl Fn(&Op) -> Copied + use<'_> {
    let at = |axis| iteration.iter().find(|(a, _)| *a == axis).map(|&(_, at)| Ix::constant(at));
    move |op| Copied::Op(op.map_index(|ix: &Ix| ix.substitute(&at)))
}

/// The nest with its short folds written out, where it has such.
fn unroll(nest: &Nest, is_scratch: &dyn Fn(u32) -> bool) -> Option<Nest> {
    if reads_what_it_writes(nest) {
        return None;
    }
    let mut stages: Vec<Stage> = Vec::with_capacity(nest.stages.len());
    // Whether the last of them is, or goes on with, a fold that was written out.
    let mut open = false;
    let mut changed = false;
    for stage in &nest.stages {
        // Parts of a reduction stay folds: how many there are is counted after each transformation.
        let parts = stage.body.nodes().iter().any(|n| matches!(n.op, Op::Load(b, _, _) if is_scratch(b)));
        let new = if parts { None } else { written_out(stage, &nest.rows) };
        if let Some(new) = new {
            stages.push(new);
            (open, changed) = (true, true);
            continue;
        }
        let joined = stages.last().filter(|_| open).and_then(|before| joined(before, stage));
        match (joined, stages.last_mut()) {
            (Some(new), Some(last)) => *last = new,
            _ => {
                stages.push(stage.clone());
                open = false;
            }
        }
    }
    let Nest { parallel, rows, .. } = nest;
    changed.then(|| without_unread_rows(Nest { parallel: parallel.clone(), rows: rows.clone(), stages })).flatten()
}

/// The values of each sequential loop's variable, iteration by iteration, in the order in which the iterations run.
fn iterations(loops: &[Loop]) -> Vec<Vec<(Axis, i64)>> {
    loops.iter().fold(vec![Vec::new()], |all, l| {
        let with = |iteration: &Vec<(Axis, i64)>, at: i64| iteration.iter().copied().chain([(l.axis, at)]).collect();
        all.iter().flat_map(|iteration| (0..l.extent).map(move |at| with(iteration, at))).collect()
    })
}

/// The stage without its sequential loops, where it does nothing but fold few rows; row buffers hold the results.
fn written_out(stage: &Stage, buffers: &[RowBuffer]) -> Option<Stage> {
    if !folds_few_rows(stage) {
        return None;
    }
    let Iterations { mut body, states, .. } = Iterations::of(stage, true)?;
    let mut row_stores = Vec::new();
    for (a, state) in stage.accumulators.iter().zip(states) {
        let Place::Row { rows } = &a.place else { return None };
        for (&row, value) in rows.iter().zip(state) {
            // A fold leaves truth values as the integers that memory has for them.
            let value = if body.scalar(value).is_mask() { body.mask_to_int(value) } else { value };
            if buffers.get(row as usize)?.scalar != body.scalar(value) {
                return None;
            }
            row_stores.push((row, value));
        }
    }
    Some(Stage { row_stores, ..Stage::new(Vec::new(), stage.vector, body) })
}

/// Both stages as one, where they run over the same row once: what the first one leaves in row buffers, the second one takes as values.
fn joined(before: &Stage, stage: &Stage) -> Option<Stage> {
    if !stage.sequential.is_empty() || stage.vector.extent != before.vector.extent {
        return None;
    }
    let known: HashMap<u32, NodeId> = before.row_stores.iter().copied().collect();
    let inits = stage.accumulators.iter().flat_map(|a| a.init.iter().copied());
    let wanted = stage.body.needed(stage.roots().into_iter().chain(inits));
    let nodes = || stage.body.nodes().iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(node, _)| node);
    let fits = |op: &Op, scalar| match op {
        Op::Row(row) => known.get(row).is_none_or(|&n| before.body.scalar(n) == scalar),
        _ => true,
    };
    if before.body.nodes().len() + nodes().count() > MOST || !nodes().all(|node| fits(&node.op, node.scalar)) {
        return None;
    }
    let mut out = before.clone();
    let moved = |ix: &Ix| ix.at(stage.vector.axis, &before.vector.ix());
    let places = copy_nodes(&mut out.body, &stage.body, &wanted, &|_, op| match op {
        Op::Row(row) if known.contains_key(row) => Copied::Node(known[row]),
        op => Copied::Op(op.map_index(moved)),
    })?;
    let all = |nodes: &[NodeId]| nodes.iter().map(|&n| place(&places, n)).collect::<Option<Vec<_>>>();
    for s in &stage.stores {
        out.stores.push(copied_store(s, &out.body, &places, moved)?);
    }
    for &(row, value) in &stage.row_stores {
        out.row_stores.retain(|r| r.0 != row);
        out.row_stores.push((row, place(&places, value)?));
    }
    for a in &stage.accumulators {
        out.accumulators.push(Accumulator { init: all(&a.init)?, values: all(&a.values)?, ..a.clone() });
    }
    Some(out)
}

/// The nest without row buffers that no stage reads.
fn without_unread_rows(nest: Nest) -> Option<Nest> {
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for stage in &nest.stages {
        let read = stage.body.nodes().iter().filter_map(|n| if let Op::Row(row) = n.op { Some(row) } else { None });
        let folded = stage.accumulators.iter().filter_map(|a| match &a.place {
            Place::Row { rows } => Some(rows),
            Place::Lanes { .. } => None,
        });
        numbers.extend(read.chain(folded.flatten().copied()).map(|row| (row, 0)));
    }
    numbers.values_mut().zip(0..).for_each(|(new, number)| *new = number);
    let rows = numbers.keys().map(|&row| nest.rows.get(row as usize).copied()).collect::<Option<_>>()?;
    let stages = nest.stages.into_iter().map(|stage| renumbered(stage, &numbers)).collect::<Option<_>>()?;
    Some(Nest { rows, stages, ..nest })
}

/// The stage with other numbers for its row buffers; stores to those without a number are gone, with what only they need.
fn renumbered(mut stage: Stage, numbers: &BTreeMap<u32, u32>) -> Option<Stage> {
    stage.row_stores.retain(|(row, _)| numbers.contains_key(row));
    let inits = stage.accumulators.iter().flat_map(|a| a.init.iter().copied());
    let wanted = stage.body.needed(stage.roots().into_iter().chain(inits));
    if wanted.iter().all(|wanted| *wanted) && numbers.iter().all(|(old, new)| old == new) {
        return Some(stage);
    }
    let mut body = Body::sized(stage.body.nodes().len());
    let places = copy(&mut body, &stage.body, &wanted, &|op| match op {
        Op::Row(row) => numbers.get(row).map_or(Copied::Missing, |&row| Copied::Op(Op::Row(row))),
        op => Copied::Op(op.clone()),
    })?;
    let all = |nodes: &[NodeId]| nodes.iter().map(|&n| place(&places, n)).collect::<Option<Vec<_>>>();
    stage.stores = stage.stores.iter().map(|s| copied_store(s, &body, &places, Ix::clone)).collect::<Option<_>>()?;
    for (row, value) in &mut stage.row_stores {
        (*row, *value) = (*numbers.get(row)?, place(&places, *value)?);
    }
    for a in &mut stage.accumulators {
        (a.init, a.values) = (all(&a.init)?, all(&a.values)?);
        if let Place::Row { rows } = &mut a.place {
            *rows = rows.iter().map(|row| numbers.get(row).copied()).collect::<Option<_>>()?;
        }
    }
    stage.body = body;
    Some(stage)
}
