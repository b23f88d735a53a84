//! Long rows: a nest without parallel points gets some.
//!
//! **Problem.** Merging loops turns an elementwise kernel into one row of all its elements, and a reduction that keeps
//! the row's elements has one point however long the row. Neither can be shared among workers.
//!
//! **Invariant.** Element by element the computation is the same: only nests are cut whose elements do not meet, that is
//! without reductions along the row.
//!
//! **Algorithm.** The vector axis `v` becomes `size * outer + v`, `outer` parallel; what is left at the end is a phase of
//! its own. Row buffers shrink to a chunk.

use super::cost::{TASK, UNIT, elements_of_point};
use super::split::{Fresh, pieces};
use crate::kernel::index::Axis;
use crate::kernel::ir::{Nest, Place, Stage};

/// Elements computed by a nest that is worth cutting.
const LEAST: i64 = 4 * TASK;
/// Where rows are folded into a row, a chunk of it is at least so long: shorter ones would read less than a page of each.
const FOLDED: i64 = 1024;

/// Cuts a nest that is one long row.
pub fn chunk(nest: &Nest) -> Option<Vec<Nest>> {
    let n = extent(nest)?;
    let size = size(nest, n)?;
    let vectors: Vec<Axis> = nest.stages.iter().map(|s| s.vector.axis).collect();
    let cut = pieces(nest, &vectors, n, size, &mut Fresh::of(nest));
    let (mut whole, outer) = cut.whole;
    whole.parallel = vec![outer];
    let mut out = vec![whole];
    out.extend(cut.rest);
    for part in &mut out {
        let length = part.stages.first().map_or(n, |s| s.vector.extent);
        part.rows.iter_mut().for_each(|r| r.elements = length);
    }
    Some(out)
}

/// The extent of the row where all stages run over rows of one extent.
fn extent(nest: &Nest) -> Option<i64> {
    let first = nest.stages.first()?.vector.extent;
    let alike = |s: &Stage| {
        let kept = s.accumulators.iter().all(|a| matches!(a.place, Place::Row { .. }));
        s.vector.extent == first && kept
    };
    let rows = nest.rows.iter().all(|r| r.elements == first);
    (nest.points() == 1 && rows && nest.stages.iter().all(alike)).then_some(first)
}

/// How long chunks are, where the nest is worth cutting.
fn size(nest: &Nest, n: i64) -> Option<i64> {
    let all = elements_of_point(nest);
    if all < LEAST {
        return None;
    }
    let folds = nest.stages.iter().any(|s| !s.accumulators.is_empty());
    let least = if folds { FOLDED } else { 4 * UNIT };
    let most = (TASK / (all / n) / UNIT * UNIT).max(least);
    if n < 2 * most {
        return None;
    }
    // A length that leaves nothing over saves a phase.
    let even = (most / 4 / UNIT..=most / UNIT).rev().map(|k| k * UNIT).find(|c| n % c == 0 && *c >= least.min(most));
    Some(even.unwrap_or(most))
}
