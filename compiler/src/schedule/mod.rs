//! Schedules: which loop of a kernel is parallel, which is sequential, and which fills vector registers.
//!
//! **Problem.** Lowering writes loops in the order of the arrays' dimensions. That order may leave workers without points (a
//! sum of everything is one point), registers half empty (a last dimension of three elements), or cache lines read for four
//! of their bytes (a transpose).
//!
//! **Invariant.** A schedule changes who computes an element and when, not which elements there are. What a transformation
//! does depends on extents, strides and operations alone, never on the target or the number of workers, so that bits do not
//! depend on them either. Only [`partial`] changes which elements of a reduction meet first, and only where the combiner is
//! known to commute ([`Accumulator::splits`](super::kernel::ir::Accumulator)). [`census`] counts after each what is stored and folded, in
//! release builds too; every kernel is verified after them, and tests run kernels in the kernel interpreter before and after each.
//!
//! **Algorithm.** A fixed list of transformations, each of which looks at a nest and says whether it is worth it ([`cost`] has
//! the numbers they share):
//!
//! 1. [`factor`]: a loop whose variable index maps divide becomes two.
//! 2. [`across`]: a vector axis of few elements is written out, and a parallel axis becomes the vector axis.
//! 3. [`together`]: phases that read the same elements, or store between each other's, become one.
//! 4. [`partial`]: a reduction with few points is cut into parts, whose results a second phase combines. Only one that fusion gives a
//!    kernel of its own is: one that shares its rows with others must not depend on them.
//! 5. [`unroll`]: a reduction of few rows that keeps the vector axis is written out.
//! 6. [`border`]: what a window reads beyond its operand is clamped in nests of the edges alone.
//! 7. [`tile`]: what is read along one axis and written along another goes in blocks of both.
//! 8. [`chunk`]: a nest that is one long row gets points, and columns that several stages run over become strips.
//! 9. [`fold`]: one of more rows folds several of them in an iteration, and what goes on over the rows of columns takes several too.
//! 10. [`scan`]: what is carried from iteration to iteration takes several iterations at once.
//! 11. [`jam`]: a reduction over long rows reads several of them in an iteration.
//! 12. [`unroll::lanes`]: one over few rows, in any order, is written out as a reduction of one.

pub mod across;
pub mod border;
pub mod census;
pub mod chunk;
pub mod cost;
pub mod factor;
pub mod fold;
pub mod jam;
pub mod partial;
pub mod scan;
mod split;
#[cfg(test)]
mod tests;
pub mod tile;
pub mod together;
pub mod unroll;

use self::census::Census;
use crate::error::Result;
use crate::fusion::GroupKind;
use crate::kernel::ir::{Kernel, Nest, Phase, Stage};

/// A transformation.
struct Transformation {
    name: &'static str,
    /// Whether what is folded stays folded.
    folds: bool,
    /// The groups it is for.
    applies: fn(&GroupKind) -> bool,
    run: fn(&mut Kernel),
}

/// The transformations, in order.
const ALL: [Transformation; 12] = [
    Transformation { name: "factor", folds: true, applies: |_| true, run: factor::run },
    Transformation { name: "across", folds: false, applies: |_| true, run: across::run },
    Transformation { name: "together", folds: true, applies: |_| true, run: together::run },
    Transformation {
        name: "partial",
        folds: true,
        applies: |kind| matches!(kind, GroupKind::Reduce(_)),
        run: partial::run,
    },
    Transformation { name: "unroll", folds: false, applies: |_| true, run: unroll::run },
    Transformation { name: "border", folds: true, applies: |_| true, run: |kernel| each_nest(kernel, border::border) },
    Transformation { name: "tile", folds: true, applies: |_| true, run: tile::run },
    Transformation { name: "chunk", folds: true, applies: |_| true, run: |kernel| each_nest(kernel, chunk::chunk) },
    Transformation {
        name: "fold",
        folds: true,
        applies: |_| true,
        run: |kernel| each_nest(kernel, |nest| fold::fold(nest).map(|n| vec![n])),
    },
    Transformation {
        name: "scan",
        folds: true,
        applies: |_| true,
        run: |kernel| each_nest(kernel, |nest| scan::scan(nest).map(|n| vec![n])),
    },
    Transformation { name: "jam", folds: true, applies: |_| true, run: |kernel| each_nest(kernel, jam::jam) },
    Transformation { name: "lanes", folds: false, applies: |_| true, run: unroll::lanes },
];

/// Schedules every nest of the kernel of a group.
///
/// # Errors
/// [`Error::Internal`](crate::Error::Internal) where a transformation does something more or less often than it was done before.
pub fn schedule(kernel: &mut Kernel, kind: &GroupKind) -> Result<()> {
    let mut before = Census::of(kernel);
    for t in ALL.iter().filter(|t| (t.applies)(kind)) {
        (t.run)(kernel);
        let after = Census::of(kernel);
        after.check(&before, t.name, t.folds)?;
        before = after;
    }
    Ok(())
}

/// The nest with other stages, where a transformation makes some of one.
fn each_stage(nest: &Nest, transform: impl FnMut(&Stage) -> Option<Vec<Stage>>) -> Option<Nest> {
    let new: Vec<Option<Vec<Stage>>> = nest.stages.iter().map(transform).collect();
    if new.iter().all(Option::is_none) {
        return None;
    }
    let stages = nest.stages.iter().zip(new).flat_map(|(old, new)| new.unwrap_or_else(|| vec![old.clone()])).collect();
    Some(Nest { parallel: nest.parallel.clone(), rows: nest.rows.clone(), stages })
}

/// Replaces every nest by what a transformation makes of it; where that is nothing, it stays.
fn each_nest(kernel: &mut Kernel, transform: impl Fn(&Nest) -> Option<Vec<Nest>>) {
    for phase in std::mem::take(&mut kernel.phases) {
        let new = match &phase {
            Phase::Nest(nest) => transform(nest),
            _ => None,
        };
        match new {
            Some(nests) => kernel.phases.extend(nests.into_iter().map(Phase::Nest)),
            None => kernel.phases.push(phase),
        }
    }
}
