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
//!
//! A result that no cache holds is written past them, line by line, so that none is read before it is written. Of what it is made of,
//! rows a multiple of [`PAGE`] bytes apart push each other out of a cache, and a memory finds each of them in the same place: then a page
//! of each row is read, tile by tile, before the next rows are met.

use super::cost::{BEYOND_CACHES, TASK, elements_of_nest, reads_what_it_writes};
use super::each_nest;
use super::split::{Fresh, Pieces, pieces};
use crate::kernel::body::Op;
use crate::kernel::ir::{Kernel, LINE, Loop, Nest, PAGE, Role, Store};

/// The least elements of a tile along either axis: a line of the narrowest elements that are transposed in registers.
const LEAST: i64 = 16;

/// A load that goes across.
struct Crossing {
    /// The axis along which it is contiguous.
    axis: Loop,
    /// Elements of it that fill a line.
    line: i64,
    /// Bytes from each element of the vector axis to the next.
    apart: i64,
}

/// Every nest of a kernel that reads along another axis than it writes, in tiles.
pub fn run(kernel: &mut Kernel) {
    let scratch: Vec<u32> =
        (0..).zip(&kernel.buffers).filter(|(_, b)| b.role == Role::Scratch).map(|(n, _)| n).collect();
    each_nest(kernel, |nest| tile(nest, &scratch));
}

/// The nest in tiles, where it reads along another axis than it writes; of the kernel's buffers some are scratch.
fn tile(nest: &Nest, scratch: &[u32]) -> Option<Vec<Nest>> {
    let Crossing { axis: other, line, apart } = crossing(nest)?;
    let vector = nest.stages[0].vector;
    let past = goes_past_caches(nest, scratch);
    let side_of = |extent: i64| if extent < LEAST { line.min(extent) } else { line.max(LEAST).min(extent) };
    let side = side_of(other.extent);
    let conflicts = past && apart % PAGE == 0;
    // A page of each row.
    let run = if conflicts { (PAGE / LINE * line).min(other.extent) / side * side } else { side };
    let mut fresh = Fresh::of(nest);
    let mut out = Vec::new();
    for part in strips(nest, other, (run, side), &mut fresh)? {
        let cut = pieces(&part, &[vector.axis], vector.extent, side_of(vector.extent), &mut fresh)?;
        for mut tile in both(cut) {
            let at = tile.parallel.iter().position(|l| l.axis == other.axis)?;
            let mut inner = tile.parallel.remove(at);
            let mut sequential = Vec::new();
            if inner.extent > side && inner.extent % side == 0 {
                let (one, outer) = pieces(&tile, &[other.axis], inner.extent, side, &mut fresh)?.whole;
                (tile, inner.extent) = (one, side);
                sequential.push(outer);
            }
            sequential.push(inner);
            tile.stages[0].sequential = sequential;
            tile.stages[0].streams = past && tile.stages[0].writes_lines();
            out.push(tile);
        }
    }
    Some(out)
}

/// The nest in strips of `run` elements along an axis, and what is left, in strips of `side`, which `run` is a multiple of.
fn strips(nest: &Nest, along: Loop, (run, side): (i64, i64), fresh: &mut Fresh) -> Option<Vec<Nest>> {
    let cut = pieces(nest, &[along.axis], along.extent, run, fresh)?;
    let left = along.extent % run;
    let rest = match &cut.rest {
        Some(rest) if left > side => Some(pieces(rest, &[along.axis], left, side, fresh)?),
        _ => None,
    };
    let whole = Pieces { rest: cut.rest.filter(|_| rest.is_none()), ..cut };
    Some(both(whole).chain(rest.into_iter().flat_map(both)).collect())
}

/// The nest over whole pieces, its new loop parallel and last, and the nest over what is left.
fn both(cut: Pieces) -> impl Iterator<Item = Nest> {
    let (mut whole, outer) = cut.whole;
    whole.parallel.push(outer);
    std::iter::once(whole).chain(cut.rest)
}

/// Whether each array that a nest writes is larger than caches, written by lines, and not what the kernel itself reads next.
fn goes_past_caches(nest: &Nest, scratch: &[u32]) -> bool {
    let all = elements_of_nest(nest);
    nest.stages.iter().all(|stage| {
        let goes = |s: &Store| all.saturating_mul(s.mem.bytes()) >= BEYOND_CACHES && s.starts_lines(stage.vector);
        stage.stores.iter().all(|s| goes(s) && !scratch.contains(&s.buffer))
    })
}

/// The first load that goes across, along a parallel axis.
fn crossing(nest: &Nest) -> Option<Crossing> {
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
        let line = LINE / mem.bytes();
        let other = nest.parallel.iter().find(|l| ix.stride(l.axis) == Some(1) && l.extent >= line)?;
        (apart >= LINE).then_some(Crossing { axis: *other, line, apart })
    })
}
