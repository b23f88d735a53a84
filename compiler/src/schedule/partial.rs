//! Reductions in parts: a reduction with few points becomes one with many.
//!
//! **Problem.** A sum of everything has one point, a sum over the rows of a matrix one for each chunk of columns: neither can be
//! shared among workers, and the second reads a little of each row where memory wants to be read in order.
//!
//! **Invariant.** Every element is combined once, into a part that its number and the extents decide; parts are combined in the
//! order of a row, and the initial value enters there. Only reductions over lanes are cut, or such as could be: their combiner
//! commutes and has an identity.
//!
//! **Algorithm.** One loop of the reduction is cut into P pieces, the loop over them is parallel, and what each gives goes to a
//! scratch array behind the point's number. A second phase folds these arrays and goes on as the nest did.

use super::cost::{POINTS, TASK, UNIT, elements, reads_what_it_writes};
use super::split::{Fresh, pieces};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Accumulator, Buffer, Kernel, Loop, Nest, Phase, Place, Role, Stage, Store};
use crate::kernel::rewrite::{self, Copied, copy};
use crate::kernel::storage;

/// Rows that are folded together in an iteration of the loop over them: see [`super::fold`].
const ROWS: i64 = 8;
/// Bytes of a row of accumulators that stay in the first cache.
const MOST_ROW: i64 = 1 << 15;

/// Cuts the reductions of a kernel that have too few points.
pub fn run(kernel: &mut Kernel) {
    for phase in std::mem::take(&mut kernel.phases) {
        let cut = phase.as_nest().and_then(|nest| Cut::of(nest)?.apply(nest, kernel));
        if cut.is_none() {
            kernel.phases.push(phase);
        }
    }
}

/// How a reduction is cut.
struct Cut {
    /// The loop that is cut.
    axis: Axis,
    extent: i64,
    /// Elements of a piece.
    size: i64,
    /// ScalarType of each component, over all accumulators.
    scalars: Vec<ScalarType>,
    /// Whether the vector axis is kept.
    kept: bool,
}

impl Cut {
    /// How to cut the reduction that a nest begins with, where that is worth it.
    fn of(nest: &Nest) -> Option<Cut> {
        let (first, rest) = nest.stages.split_first()?;
        let only_folds = first.stores.is_empty() && first.row_stores.is_empty() && !first.accumulators.is_empty();
        let splits = first.accumulators.iter().all(|a| a.in_lanes());
        let scalars: Vec<ScalarType> = first.accumulators.iter().flat_map(Accumulator::types).collect();
        if !only_folds || !splits || scalars.iter().any(|l| l.is_mask()) || reads_what_it_writes(nest) {
            return None;
        }
        let kept = first.accumulators.iter().all(|a| matches!(a.place, Place::Row { .. }));
        let n = first.vector.extent;
        if kept {
            let rows: usize = first.accumulators.iter().map(|a| a.roots.len()).sum();
            let bytes = scalars.iter().map(|l| n.saturating_mul(i64::from(l.bits() / 8))).fold(0, i64::saturating_add);
            if rows != nest.rows.len() || bytes > MOST_ROW {
                return None;
            }
        } else {
            let over = first.accumulators.iter().all(|a| matches!(a.place, Place::Lanes { .. }));
            // A later stage that runs over the same row belongs to the same point.
            let row = |s: &Stage| s.vector.extent > 1 && s.vector.axis == first.vector.axis;
            let shared = rest.iter().any(|s| row(s) || !s.accumulators.is_empty());
            if !over || shared || !nest.rows.is_empty() {
                return None;
            }
        }
        let work = elements(first);
        let parts = (POINTS / nest.points()).min(work / TASK);
        if parts < 2 {
            return None;
        }
        let vector = (!kept && n >= parts * UNIT).then_some((first.vector, UNIT));
        let sequential = first.sequential.iter().max_by_key(|l| (l.extent >= parts, l.extent.min(parts)));
        let (cut, unit) = match (sequential.filter(|l| l.extent >= 2), vector) {
            (Some(l), Some(_)) if l.extent >= parts => (*l, ROWS),
            (_, Some(vector)) => vector,
            (Some(l), None) => (*l, ROWS),
            (None, None) => return None,
        };
        let size = (cut.extent - 1) / parts + 1;
        let size = if size >= unit { (size - 1) / unit * unit + unit } else { size };
        (size < cut.extent).then_some(Cut { axis: cut.axis, extent: cut.extent, size, scalars, kept })
    }

    fn apply(self, nest: &Nest, kernel: &mut Kernel) -> Option<()> {
        let mut fresh = Fresh::of(nest);
        let points = nest.points();
        let kept = if self.kept { nest.stages[0].vector } else { fresh.new_loop(1) };
        let pieces = pieces(nest, &[self.axis], self.extent, self.size, &mut fresh)?;
        let parts = pieces.whole.1.extent + i64::from(pieces.rest.is_some());
        let part = fresh.new_loop(parts);
        let first = kernel.buffers.len() as u32;
        let here = nest.parallel.iter().fold(Ix::constant(0), |at, l| at.scale(l.extent).add(&l.ix()));
        let place = |number: &Ix| here.scale(parts).add(number).scale(kept.extent).add(&kept.ix());
        let combined = self.combine(nest, part, kept, &place(&part.ix()), first)?;
        let room = usize::try_from(points.saturating_mul(parts).saturating_mul(kept.extent)).unwrap_or(usize::MAX);
        kernel.buffers.extend(self.scalars.iter().map(|&scalar| Buffer {
            ty: storage::scratch_type(scalar),
            elements: room,
            role: Role::Scratch,
        }));
        let (whole, outer) = pieces.whole;
        kernel.phases.push(Phase::Nest(self.part(whole, Some(outer), kept, &place(&outer.ix()), first)));
        if let Some(rest) = pieces.rest {
            kernel.phases.push(Phase::Nest(self.part(rest, None, kept, &place(&Ix::constant(parts - 1)), first)));
        }
        kernel.phases.push(Phase::Nest(combined));
        Some(())
    }

    /// The nest that folds one piece, or each of them, into scratch.
    fn part(&self, mut nest: Nest, outer: Option<Loop>, kept: Loop, place: &Ix, first: u32) -> Nest {
        nest.parallel.extend(outer);
        nest.stages.truncate(1);
        let stage = &mut nest.stages[0];
        let mut store = Body::new();
        let mut stores = Vec::new();
        for a in &mut stage.accumulators {
            let scalars: Vec<ScalarType> = a.types().collect();
            let identity = a.identity.iter().flatten();
            a.init = scalars.iter().zip(identity).map(|(&scalar, &bits)| stage.body.bits(scalar, bits)).collect();
            let leaves: Vec<Op> = match &a.place {
                Place::Lanes { results } => results.iter().map(|&r| Op::Result(r)).collect(),
                Place::Row { rows } => rows.iter().map(|&r| Op::Row(r)).collect(),
            };
            for (leaf, scalar) in leaves.into_iter().zip(scalars) {
                let value = store.push(leaf, &[], scalar);
                let buffer = first + stores.len() as u32;
                stores.push(Store { buffer, mem: Mem::of(scalar), index: place.clone(), value });
            }
        }
        nest.stages.push(Stage { stores, ..Stage::new(Vec::new(), kept, store) });
        nest
    }

    /// The nest that folds the parts, and then does what the nest did.
    fn combine(&self, nest: &Nest, part: Loop, kept: Loop, place: &Ix, first: u32) -> Option<Nest> {
        let mut nest = nest.clone();
        let stage = &mut nest.stages[0];
        let mut body = Body::new();
        let inits: Vec<NodeId> = stage.accumulators.iter().flat_map(|a| a.init.iter().copied()).collect();
        let places = copy(&mut body, &stage.body, &stage.body.needed(inits), &|op| Copied::Op(op.clone()))?;
        let mut number = first;
        for a in &mut stage.accumulators {
            for init in &mut a.init {
                *init = rewrite::place(&places, *init)?;
            }
            let scalars: Vec<ScalarType> = a.types().collect();
            a.values.clear();
            for scalar in scalars {
                a.values.push(body.push(Op::Load(number, Mem::of(scalar), place.clone()), &[], scalar));
                number += 1;
            }
        }
        stage.body = body;
        (stage.sequential, stage.vector) = if self.kept { (vec![part], kept) } else { (Vec::new(), part) };
        Some(nest)
    }
}
