//! Long rows: a nest without parallel points gets some, and columns that several stages run over become strips.
//!
//! **Problem.** Merging loops turns an elementwise kernel into one row of all its elements, and a reduction that keeps
//! the row's elements has one point however long the row. Neither can be shared among workers. A softmax or norm of columns reads
//! all of them several times, from memory where they are more than a cache holds.
//!
//! **Invariant.** Element by element the computation is the same: only nests are cut whose elements do not meet, that is
//! without reductions along the row.
//!
//! **Algorithm.** The vector axis `v` becomes `size * outer + v`, `outer` parallel; what is left at the end is a phase of
//! its own. Row buffers shrink to a chunk.

use super::cost::{TASK, UNIT, depth, elements_of_point};
use super::split::{Fresh, pieces, rows};
use crate::kernel::ir::Nest;

/// Elements computed by a nest that is worth cutting.
const LEAST: i64 = 4 * TASK;
/// Where rows are folded into a row, a chunk of it is at least so long: shorter ones would read less than a page of each.
const FOLDED: i64 = 1024;
/// Elements of a strip that several stages run over: they stay in a second-level cache.
const STRIP: i64 = 1 << 17;

/// Cuts a nest that is one long row, or whose stages run over the same columns.
pub fn chunk(nest: &Nest) -> Option<Vec<Nest>> {
    let (vectors, n) = rows(nest)?;
    let size = if runs_again(nest) { of_strips(nest, n)? } else { of_one_row(nest, n)? };
    let cut = pieces(nest, &vectors, n, size, &mut Fresh::of(nest))?;
    let (mut whole, outer) = cut.whole;
    whole.parallel.push(outer);
    let mut out = vec![whole];
    out.extend(cut.rest);
    Some(out)
}

/// Whether several stages have loops around their rows.
fn runs_again(nest: &Nest) -> bool {
    nest.stages.iter().filter(|s| !s.sequential.is_empty()).count() > 1
}

/// How many columns a strip has, where all of them are more than one.
fn of_strips(nest: &Nest, n: i64) -> Option<i64> {
    let column = nest.stages.iter().map(depth).max()?;
    let strips = column.saturating_mul(n) / STRIP;
    let most = ((n - 1) / strips.max(1) / UNIT + 1) * UNIT;
    (strips >= 2 && most < n).then(|| even(n, most, UNIT))
}

/// How long the chunks of the only row are, where the nest is worth cutting.
fn of_one_row(nest: &Nest, n: i64) -> Option<i64> {
    let all = elements_of_point(nest);
    if all < LEAST || nest.points() != 1 {
        return None;
    }
    let folds = nest.stages.iter().any(|s| !s.accumulators.is_empty());
    let least = if folds { FOLDED } else { 4 * UNIT };
    let most = (TASK / (all / n) / UNIT * UNIT).max(least);
    if n < 2 * most {
        return None;
    }
    Some(even(n, most, least))
}

/// At most `most` elements of `n`, and not much less: a length that leaves nothing over saves a phase.
fn even(n: i64, most: i64, least: i64) -> i64 {
    let lengths = (most / 4 / UNIT..=most / UNIT).rev().map(|k| k * UNIT);
    lengths.into_iter().find(|&c| c >= least.min(most) && n % c == 0).unwrap_or(most)
}
