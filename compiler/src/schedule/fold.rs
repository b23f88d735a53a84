//! Several rows an iteration: a loop over rows that has something for all of them, with fewer reads of that.
//!
//! **Problem.** The accumulators of a reduction that keeps the vector axis are a row buffer. An iteration of the row loop loads one, combines
//! an element and stores it again: three accesses for one element read. A stage that goes on over the rows of columns, once they are
//! folded, loads what each column has given again for every row.
//!
//! **Invariant.** Each accumulator combines the same elements in the same order. An iteration that stores reads nothing that another
//! one writes.
//!
//! **Algorithm.** The innermost sequential loop is cut into pieces of a few iterations, which are written out: the body computes the
//! elements of all of them, and the combiner is applied to one after another.

use super::each_stage;
use crate::kernel::body::{Body, NodeId, Op};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Accumulator, Loop, Nest, Place, Stage};
use crate::kernel::rewrite::{Copied, copied_store, copy, place};

/// Iterations that are written out, the first one of which the loop is a multiple.
const ITERATIONS: [i64; 7] = [8, 4, 7, 6, 5, 3, 2];
/// The most operations of a body that is made.
const MOST: usize = 64;

/// The nest with several iterations in one, where a stage of it folds rows.
pub fn fold(nest: &Nest) -> Option<Nest> {
    each_stage(nest, |stage| Some(vec![stage_of_iterations(stage)?]))
}

fn stage_of_iterations(stage: &Stage) -> Option<Stage> {
    let last = *stage.sequential.last()?;
    let kept = stage.accumulators.iter().all(|a| matches!(a.place, Place::Row { .. }));
    let reads_row = stage.body.nodes().iter().any(|n| matches!(n.op, Op::Row(_)));
    if !kept || !stage.row_stores.is_empty() || !(stage.stores.is_empty() || reads_row && stores_apart(stage)) {
        return None;
    }
    if stage.accumulators.is_empty() && stage.stores.is_empty() {
        return None;
    }
    let each = stage.body.nodes().len() + stage.accumulators.iter().map(|a| a.combine.nodes().len()).sum::<usize>();
    let iterations =
        ITERATIONS.into_iter().find(|&t| last.extent % t == 0 && each.saturating_mul(t as usize) <= MOST)?;
    let outer = Loop { axis: last.axis, extent: last.extent / iterations };
    let roots = stage.roots().into_iter().chain(stage.accumulators.iter().flat_map(|a| a.init.iter().copied()));
    let wanted = stage.body.needed(roots);
    let mut body = Body::new();
    let mut values: Vec<Vec<NodeId>> = vec![Vec::new(); stage.accumulators.len()];
    let mut inits: Vec<Vec<NodeId>> = Vec::new();
    let mut stores = Vec::new();
    for iteration in 0..iterations {
        let at = outer.ix().scale(iterations).offset(iteration);
        let step = |ix: &Ix| ix.at(last.axis, &at);
        let places = copy(&mut body, &stage.body, &wanted, &|op| Copied::Op(op.map_index(step)))?;
        let place = |n: &NodeId| place(&places, *n);
        for (all, a) in values.iter_mut().zip(&stage.accumulators) {
            all.extend(a.values.iter().map(place).collect::<Option<Vec<_>>>()?);
        }
        for s in &stage.stores {
            stores.push(copied_store(s, &body, &places, step)?);
        }
        if iteration == 0 {
            let own = |a: &Accumulator| a.init.iter().map(place).collect::<Option<Vec<_>>>();
            inits = stage.accumulators.iter().map(own).collect::<Option<_>>()?;
        }
    }
    let accumulators = stage.accumulators.iter().zip(values).zip(inits);
    let accumulators = accumulators.map(|((a, values), init)| of_iterations(a, iterations, init, values));
    let accumulators = accumulators.collect::<Option<_>>()?;
    let mut sequential = stage.sequential.clone();
    sequential.pop();
    sequential.extend((outer.extent > 1).then_some(outer));
    Some(Stage { sequential, body, accumulators, stores, ..stage.clone() })
}

/// Whether no iteration reads what another one writes: an element is loaded from a buffer that is written where it is then stored.
fn stores_apart(stage: &Stage) -> bool {
    let of = |buffer: u32| stage.stores.iter().filter(move |s| s.buffer == buffer);
    stage.body.nodes().iter().all(|n| match &n.op {
        Op::Load(buffer, _, ix) => of(*buffer).all(|s| s.index == *ix),
        _ => true,
    })
}

/// The accumulator that combines the values of several iterations.
fn of_iterations(a: &Accumulator, iterations: i64, init: Vec<NodeId>, values: Vec<NodeId>) -> Option<Accumulator> {
    let (n, each) = (a.init.len() as u32, a.values.len() as u32);
    let mut combine = Body::new();
    let type_of_value = |k: u32| {
        let found = a.combine.nodes().iter().find(|node| node.op == Op::Arg(n + k));
        found.map_or_else(|| a.combine.scalar(a.roots[(k % n) as usize]), |node| node.scalar)
    };
    let mut state: Vec<NodeId> = a.types().zip(0..).map(|(scalar, k)| combine.arg(k, scalar)).collect();
    for iteration in 0..iterations as u32 {
        let new: Vec<NodeId> = (0..each).map(|k| combine.arg(n + iteration * each + k, type_of_value(k))).collect();
        let args: Vec<NodeId> = state.iter().chain(&new).copied().collect();
        state = combine.inline(&a.combine, &args, &a.roots)?;
    }
    // Values are no longer what accumulators are.
    Some(Accumulator { init, values, combine, roots: state, splits: false, ..a.clone() })
}
