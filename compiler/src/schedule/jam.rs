//! Several points at once: a reduction over long rows that reads more than one of them in an iteration.
//!
//! **Problem.** A row that is folded is read once, from end to end. Memory answers faster where several streams run at once, the
//! additions of one row wait for each other, and a vector that every row is multiplied by is loaded again for each.
//!
//! **Invariant.** Each reduction folds the same elements into the same lanes in the same order.
//!
//! **Algorithm.** The last parallel axis is cut into [`STREAMS`] stretches that run side by side, one point of each: rows far apart, for those
//! next to each other share the pages that a machine fetches ahead. What is left over is a nest of its own. An axis of few points that
//! all read one row, as the columns of a narrow product do, is written out whole. How many of the reductions
//! fit the registers of a target is asked when its rows are planned (`codegen/rows`, `passes`).

use super::cost::{POINTS, TASK, UNIT, elements_of_nest, reads_what_it_writes};
use super::split::{Fresh, pieces};
use crate::kernel::body::{Body, NodeId, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Accumulator, Loop, Nest, Place, Stage};
use crate::kernel::rewrite::{Copied, copied_store, copy, place};

/// Points that run side by side.
const STREAMS: i64 = 4;
/// The most points that are written out whole.
const FEW: i64 = 8;
/// Rows of whole registers from here on are worth it, and any from [`LONG`] on.
const ROW: i64 = 2 * UNIT;
/// Of shorter rows, what is left of the narrowest register of wide code would count.
const LONG: i64 = 8 * UNIT;
/// Elements of that register.
const REGISTER: i64 = 8;
/// The most accumulators of a point: those of one point must fit the registers of every width.
const COMPONENTS: usize = 2;
/// The most operations of a body that is made: of longer ones the time goes into computing.
const MOST: usize = 96;

/// The nest with several points in one, where it folds long rows.
pub fn jam(nest: &Nest) -> Option<Vec<Nest>> {
    let last = *nest.parallel.last()?;
    let folds = nest.stages.iter().any(|s| !s.accumulators.is_empty());
    let few = (2..=FEW).contains(&last.extent)
        && nest.stages.iter().flat_map(|s| s.body.nodes()).any(|n| shares(&n.op, last.axis));
    let streams = if few { last.extent } else { STREAMS };
    let enough = (few || last.extent >= STREAMS * STREAMS)
        && nest.points() / streams >= POINTS
        && elements_of_nest(nest) >= 4 * TASK;
    let operations =
        |s: &Stage| s.body.nodes().len() + s.accumulators.iter().map(|a| a.combine.nodes().len()).sum::<usize>();
    let light = nest.stages.iter().all(|s| operations(s) * streams as usize <= MOST);
    if !folds
        || !enough
        || !light
        || !nest.rows.is_empty()
        || reads_what_it_writes(nest)
        || !nest.stages.iter().all(fits)
    {
        return None;
    }
    let cut = pieces(nest, &[last.axis], last.extent, last.extent / streams, &mut Fresh::of(nest))?;
    let (whole, stream) = cut.whole;
    let results = nest.stages.iter().flat_map(|s| &s.accumulators).filter_map(|a| match &a.place {
        Place::Lanes { results } => results.iter().copied().max(),
        Place::Row { .. } => None,
    });
    let results = results.max().map_or(0, |most| most + 1);
    let stages = whole.stages.iter().map(|s| side_by_side(s, stream, results)).collect::<Option<_>>()?;
    Some(std::iter::once(Nest { stages, ..whole }).chain(cut.rest).collect())
}

/// Whether a load is of the same elements at every point of an axis.
fn shares(op: &Op, axis: Axis) -> bool {
    matches!(op, Op::Load(_, _, ix) if !ix.mentions(axis))
}

/// Whether a stage folds a long row that is read as it lies, or computes the single elements of a point.
fn fits(stage: &Stage) -> bool {
    let lanes = |a: &Accumulator| a.in_lanes() && matches!(a.place, Place::Lanes { .. });
    let walks = stage.body.nodes().iter().all(|n| match &n.op {
        Op::Load(_, _, ix) => matches!(ix.stride(stage.vector.axis), Some(-1..=1)),
        _ => true,
    });
    let components: usize = stage.accumulators.iter().map(|a| a.roots.len()).sum();
    let n = stage.vector.extent;
    let long = n >= LONG || n >= ROW && n % REGISTER == 0;
    let row = (1..=COMPONENTS).contains(&components) && long && stage.stores.is_empty() && walks;
    let point = stage.accumulators.is_empty() && stage.vector.extent == 1;
    (row || point) && stage.row_stores.is_empty() && stage.accumulators.iter().all(lanes)
}

/// What a stage does at every iteration of `streams`, written out. Iteration `u` has results that are numbered from `u * results` on.
fn side_by_side(stage: &Stage, streams: Loop, results: u32) -> Option<Stage> {
    let roots = stage.roots().into_iter().chain(stage.accumulators.iter().flat_map(|a| a.init.iter().copied()));
    let wanted = stage.body.needed(roots);
    let mut out = Stage { body: Body::new(), accumulators: Vec::new(), stores: Vec::new(), ..stage.clone() };
    for (iteration, u) in (0..u32::try_from(streams.extent).ok()?).zip(0..) {
        let moved = |ix: &Ix| ix.at(streams.axis, &Ix::constant(u));
        let places = copy(&mut out.body, &stage.body, &wanted, &|op| {
            Copied::Op(match op {
                Op::Result(r) => Op::Result(iteration * results + r),
                op => op.map_index(moved),
            })
        })?;
        let all = |nodes: &[NodeId]| nodes.iter().map(|&n| place(&places, n)).collect::<Option<Vec<_>>>();
        for a in &stage.accumulators {
            let Place::Lanes { results: numbers } = &a.place else { return None };
            let numbers = numbers.iter().map(|r| iteration * results + r).collect();
            let (init, values) = (all(&a.init)?, all(&a.values)?);
            out.accumulators.push(Accumulator { init, values, place: Place::Lanes { results: numbers }, ..a.clone() });
        }
        for s in &stage.stores {
            out.stores.push(copied_store(s, &out.body, &places, moved)?);
        }
    }
    Some(out)
}
