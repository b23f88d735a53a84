//! Phases that read the same elements, or write between each other's, become one.
//!
//! **Problem.** What a `concatenate` puts together is a phase for each part. Where the parts are components of one thing (a cross product,
//! a rotation, colours of another space), each phase reads all that it is made of again, and writes a few elements of every line.
//!
//! **Invariant.** The phases write different elements, and none reads what another writes, so that the order of their elements does not
//! count.
//!
//! **Algorithm.** Two phases one after the other, of one stage without folds each, whose loops have the same extents, become one where at
//! least half of what the second loads lies among what the first does, or all that it stores goes between what the first stores: the
//! loops of the second are renamed, and its body is added to the first, in which equal nodes are one.

use super::cost::reads_what_it_writes;
use crate::kernel::body::{Body, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Kernel, Loop, Nest, Phase, Stage, Store};
use crate::kernel::rewrite::{Copied, copied_store, copy};

/// The most nodes of a body: what is live of a larger one fills the registers.
const MOST_NODES: usize = 256;

/// Merges the phases of a kernel.
pub fn run(kernel: &mut Kernel) {
    // Where an output may be an input, an element is read before the iteration that overwrites it: all would have to be looked at.
    if !kernel.in_place.is_empty() {
        return;
    }
    let mut phases: Vec<Phase> = Vec::new();
    for phase in std::mem::take(&mut kernel.phases) {
        if let (Some(Phase::Nest(last)), Phase::Nest(next)) = (phases.last_mut(), &phase)
            && let Some(both) = together(last, next)
        {
            *last = both;
        } else {
            phases.push(phase);
        }
    }
    kernel.phases = phases;
}

/// Two nests as one, where they may be and share what they read or write.
pub fn together(first: &Nest, second: &Nest) -> Option<Nest> {
    let (a, b) = (simple(first)?, simple(second)?);
    let loops =
        |nest: &Nest, stage: &Stage| -> Vec<Loop> { nest.parallel.iter().copied().chain([stage.vector]).collect() };
    let (to, from) = (loops(first, a), loops(second, b));
    if to.len() != from.len() || to.iter().zip(&from).any(|(x, y)| x.extent != y.extent) || a.streams != b.streams {
        return None;
    }
    let apart = |x: &Stage, y: &Stage| x.stores.iter().all(|s| loads(&y.body).all(|(buffer, _)| buffer != s.buffer));
    if !apart(a, b) || !apart(b, a) {
        return None;
    }
    let named = |axis: Axis| from.iter().position(|l| l.axis == axis).and_then(|k| to.get(k)).map(Loop::ix);
    let renamed = |ix: &Ix| ix.substitute(&named);
    let among = |(buffer, ix): (u32, &Ix)| {
        let ix = renamed(ix);
        loads(&a.body).any(|(other, old)| other == buffer && near(old, &ix, a.vector.axis))
    };
    let shared = loads(&b.body).filter(|&l| among(l)).count();
    let reads = shared > 0 && 2 * shared >= loads(&b.body).count();
    let between = |s: &Store| {
        let ix = renamed(&s.index);
        let beside = |old: &Store| (old.buffer, old.mem) == (s.buffer, s.mem) && near(&old.index, &ix, a.vector.axis);
        a.stores.iter().any(beside)
    };
    if !reads && !b.stores.iter().all(between) {
        return None;
    }
    let mut body = a.body.clone();
    let wanted = b.body.needed(b.roots());
    let places = copy(&mut body, &b.body, &wanted, &|op| Copied::Op(op.map_index(renamed)))?;
    let mut stores = a.stores.clone();
    for s in &b.stores {
        let new = copied_store(s, &body, &places, renamed)?;
        if a.stores.iter().any(|old| old.buffer == new.buffer && !old.index.never_meets(&new.index)) {
            return None;
        }
        stores.push(new);
    }
    if body.nodes().len() > MOST_NODES {
        return None;
    }
    let stage = Stage { stores, body, ..a.clone() };
    Some(Nest { parallel: first.parallel.clone(), rows: Vec::new(), stages: vec![stage] })
}

/// The stage of a nest of one, which computes each element by itself.
fn simple(nest: &Nest) -> Option<&Stage> {
    let [stage] = nest.stages.as_slice() else { return None };
    let alone = stage.accumulators.is_empty() && stage.sequential.is_empty() && stage.row_stores.is_empty();
    (alone && nest.rows.is_empty() && !reads_what_it_writes(nest)).then_some(stage)
}

fn loads(body: &Body) -> impl Iterator<Item = (u32, &Ix)> {
    body.nodes().iter().filter_map(|n| match &n.op {
        Op::Load(buffer, _, ix) => Some((*buffer, ix)),
        _ => None,
    })
}

/// Whether two indices walk along an axis so that one goes between elements of the other.
fn near(a: &Ix, b: &Ix, axis: Axis) -> bool {
    let stride = a.stride(axis).map_or(1, |s| s.unsigned_abs().max(1));
    a.behind(b).is_some_and(|apart| apart.unsigned_abs() < stride)
}
