//! Tiles: what is read along one axis and written along another.
//!
//! **Problem.** A transpose that runs along its result reads one element of each cache line, and comes back for the next when the
//! line is gone.
//!
//! **Invariant.** Elements of a nest without reductions do not meet: any order of them is right.
//!
//! **Algorithm.** Where a load is contiguous along a parallel axis and goes from line to line along the vector axis, both axes are
//! cut into pieces: the loops over the pieces are parallel, and inside a tile the parallel axis is sequential. What is left of
//! either axis is a nest of its own.

use super::cost::{LINE, TASK, elements_of_nest, reads_what_it_writes};
use super::split::{Fresh, Pieces, pieces};
use crate::kernel::body::Op;
use crate::kernel::ir::{Loop, Nest};

/// The nest in tiles, where it reads along another axis than it writes.
pub fn tile(nest: &Nest) -> Option<Vec<Nest>> {
    let (other, along) = crossing(nest)?;
    let vector = nest.stages[0].vector;
    let mut fresh = Fresh::of(nest);
    let mut out = Vec::new();
    for part in both(pieces(nest, &[other.axis], other.extent, along, &mut fresh)) {
        let cut = pieces(&part, &[vector.axis], vector.extent, along.min(vector.extent), &mut fresh);
        for mut tile in both(cut) {
            let at = tile.parallel.iter().position(|l| l.axis == other.axis)?;
            let inner = tile.parallel.remove(at);
            tile.stages[0].sequential.push(inner);
            out.push(tile);
        }
    }
    Some(out)
}

/// The nest over whole pieces, its new loop parallel and last, and the nest over what is left.
fn both(cut: Pieces) -> impl Iterator<Item = Nest> {
    let (mut whole, outer) = cut.whole;
    whole.parallel.push(outer);
    std::iter::once(whole).chain(cut.rest)
}

/// The parallel axis along which a load is contiguous that is not along the vector axis, and how many elements of it fill a
/// line.
fn crossing(nest: &Nest) -> Option<(Loop, i64)> {
    let [stage] = nest.stages.as_slice() else { return None };
    let plain = stage.accumulators.is_empty() && stage.sequential.is_empty() && stage.row_stores.is_empty();
    let all = elements_of_nest(nest);
    let contiguous = stage.stores.iter().any(|s| s.index.stride(stage.vector.axis) == Some(1));
    if !plain || !contiguous || stage.vector.extent < 8 || all < TASK || reads_what_it_writes(nest) {
        return None;
    }
    stage.body.nodes().iter().find_map(|node| {
        let Op::Load(_, mem, ix) = &node.op else { return None };
        let apart = ix.stride(stage.vector.axis)?.checked_abs()?.checked_mul(mem.bytes())?;
        let along = LINE / mem.bytes();
        let other = nest.parallel.iter().find(|l| ix.stride(l.axis) == Some(1) && l.extent >= along)?;
        (apart >= LINE).then_some((*other, along))
    })
}
