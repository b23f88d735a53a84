//! Cutting loops: what every transformation is made of.

use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Loop, Nest, Place};
use crate::kernel::rewrite::{indices, substitute};

/// Axes that a nest does not use, one after another.
pub struct Fresh(u32);

impl Fresh {
    /// Behind all axes of a nest.
    pub fn of(nest: &Nest) -> Fresh {
        let loops = nest.parallel.iter().chain(nest.stages.iter().flat_map(|s| s.sequential.iter().chain([&s.vector])));
        let mut most = loops.map(|l| l.axis.0).max().unwrap_or(0);
        indices(nest).for_each(|ix| ix.for_each_axis(&mut |a, _| most = most.max(a.0)));
        Fresh(most + 1)
    }

    /// A loop over an axis that nobody has.
    pub fn new_loop(&mut self, extent: i64) -> Loop {
        let axis = Axis(self.0);
        self.0 += 1;
        Loop { axis, extent }
    }
}

/// The vector axes and the extent of their row, where all stages run over rows of one extent whose elements they keep apart.
pub fn rows(nest: &Nest) -> Option<(Vec<Axis>, i64)> {
    let extent = nest.stages.first()?.vector.extent;
    let kept = nest.stages.iter().all(|s| {
        let apart = s.accumulators.iter().all(|a| matches!(a.place, Place::Row { .. }));
        s.vector.extent == extent && apart
    });
    let buffers = nest.rows.iter().all(|r| r.elements == extent);
    (kept && buffers).then(|| (nest.stages.iter().map(|s| s.vector.axis).collect(), extent))
}

/// The nest over `length` elements from `start` on of the loops of `axes`, wherever they run; `start` may be a new loop's. Row buffers
/// are as long as their rows. `None` where the nest's bodies are not whole.
pub fn window(nest: &Nest, axes: &[Axis], start: &Ix, length: i64) -> Option<Nest> {
    let mut part = substitute(nest, &|a| axes.contains(&a).then(|| start.add(&Ix::axis(a, length))))?;
    let of_stage = part.stages.iter_mut().flat_map(|s| s.sequential.iter_mut().chain([&mut s.vector]));
    for l in part.parallel.iter_mut().chain(of_stage).filter(|l| axes.contains(&l.axis)) {
        l.extent = length;
    }
    if part.stages.iter().all(|s| axes.contains(&s.vector.axis)) {
        part.rows.iter_mut().for_each(|r| r.elements = length);
    }
    Some(part)
}

/// A nest whose loops `axes`, all of `extent` elements, run over pieces of `size`: one with a loop over the whole pieces,
/// which is not yet anywhere in it, and one over what is left.
pub struct Pieces {
    /// The nest over whole pieces, and the loop that counts them.
    pub whole: (Nest, Loop),
    /// The nest over the elements behind them.
    pub rest: Option<Nest>,
}

/// Cuts loops into pieces; `size` is at most `extent`. `None` where the nest's bodies are not whole.
pub fn pieces(nest: &Nest, axes: &[Axis], extent: i64, size: i64, fresh: &mut Fresh) -> Option<Pieces> {
    let outer = fresh.new_loop(extent / size);
    let whole = window(nest, axes, &outer.ix().scale(size), size)?;
    let left = extent % size;
    let rest = match left {
        0 => None,
        left => Some(window(nest, axes, &Ix::constant(extent - left), left)?),
    };
    Some(Pieces { whole: (whole, outer), rest })
}
