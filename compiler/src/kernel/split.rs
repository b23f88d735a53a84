//! Long rows: a nest without parallel points gets some.
//!
//! **Problem.** Merging loops turns an elementwise kernel into one row of all its elements, and a reduction that keeps
//! the row's elements has one point however long the row. Neither can be shared among workers.
//!
//! **Invariant.** Element by element the computation is the same: only nests are cut whose elements do not meet, that is
//! without reductions along the row. The cut depends on the extents alone.
//!
//! **Algorithm.** The vector axis `v` becomes `chunk * outer + v`, `outer` parallel; what is left at the end is a phase of
//! its own. Row buffers shrink to a chunk.

use super::index::{Axis, Ix};
use super::ir::{Kernel, Loop, Nest, Phase, Place, Stage};
use super::rewrite::{indices, substitute};

/// Elements computed by a nest that is worth cutting.
const MIN_WORK: i64 = 1 << 16;
/// Elements computed for each chunk, about.
const CHUNK_WORK: i64 = 1 << 14;
/// A chunk is a multiple of this many elements, and at least four times as many.
const UNIT: i64 = 32;

/// Cuts every nest of the kernel that is one long row.
pub fn split_long_rows(kernel: &mut Kernel) {
    let phases = std::mem::take(&mut kernel.phases);
    for phase in phases {
        match phase {
            Phase::Nest(nest) => match chunk(&nest) {
                Some(chunk) => kernel.phases.extend(cut(nest, chunk).map(Phase::Nest)),
                None => kernel.phases.push(Phase::Nest(nest)),
            },
            other => kernel.phases.push(other),
        }
    }
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
fn chunk(nest: &Nest) -> Option<i64> {
    let n = extent(nest)?;
    let depth = |s: &Stage| s.sequential.iter().map(|l| l.extent).fold(1i64, i64::saturating_mul);
    let each = nest.stages.iter().map(depth).fold(0i64, i64::saturating_add);
    if each.saturating_mul(n) < MIN_WORK {
        return None;
    }
    let most = (CHUNK_WORK / each / UNIT * UNIT).max(4 * UNIT);
    if n < 2 * most {
        return None;
    }
    // A length that leaves nothing over saves a phase.
    let even = (most / 4 / UNIT..=most / UNIT).rev().map(|k| k * UNIT).find(|c| n % c == 0);
    Some(even.unwrap_or(most))
}

/// The nest over whole chunks, and the one over what is left.
fn cut(nest: Nest, chunk: i64) -> impl Iterator<Item = Nest> {
    let n = nest.stages.first().map_or(0, |s| s.vector.extent);
    let (whole, rest) = (n / chunk, n % chunk);
    let outer = Loop { axis: fresh(&nest), extent: whole };
    let part = |length: i64, start: &Ix| -> Nest {
        let mut part = nest.clone();
        let vectors: Vec<Axis> = part.stages.iter().map(|s| s.vector.axis).collect();
        substitute(&mut part, &|a| vectors.contains(&a).then(|| start.add(&Ix::axis(a, length))));
        part.stages.iter_mut().for_each(|s| s.vector.extent = length);
        part.rows.iter_mut().for_each(|r| r.elements = length);
        part
    };
    let mut main = part(chunk, &outer.ix().scale(chunk));
    main.parallel = vec![outer];
    let left = (rest > 0).then(|| part(rest, &Ix::constant(whole * chunk)));
    std::iter::once(main).chain(left)
}

/// An axis that the nest does not use.
fn fresh(nest: &Nest) -> Axis {
    let loops = nest.parallel.iter().chain(nest.stages.iter().flat_map(|s| s.sequential.iter().chain([&s.vector])));
    let most = loops.map(|l| l.axis.0).max().unwrap_or(0);
    let mut next = most + 1;
    while indices(nest).any(|ix| ix.mentions(Axis(next))) {
        next += 1;
    }
    Axis(next)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kernel::body::{Body, Lane, Mem, Op};
    use crate::kernel::ir::Store;

    fn copy(n: i64) -> Nest {
        let vector = Loop { axis: Axis(3), extent: n };
        let mut body = Body::new();
        let value = body.push(Op::Load(0, Mem::F32, vector.ix()), &[], Lane::F32);
        let stores = vec![Store { buffer: 1, mem: Mem::F32, index: vector.ix(), value }];
        let stage = Stage { sequential: vec![], vector, body, accumulators: vec![], stores, row_stores: vec![] };
        Nest { parallel: vec![], rows: vec![], stages: vec![stage] }
    }

    /// Offsets that a nest stores to, in order.
    fn offsets(nest: &Nest) -> Vec<i64> {
        let stage = &nest.stages[0];
        let (points, n) = (nest.points(), stage.vector.extent);
        let at = |p: i64, i: i64| {
            let value = |a: Axis| if a == stage.vector.axis { i } else { p };
            stage.stores[0].index.eval(&value, &|_| 0)
        };
        (0..points).flat_map(|p| (0..n).map(move |i| (p, i))).map(|(p, i)| at(p, i)).collect()
    }

    #[test]
    fn parts_cover_the_row_once() {
        for n in [1 << 16, 1_000_000, (1 << 16) + 1, 99_991] {
            let nest = copy(n);
            let parts: Vec<Nest> = cut(nest.clone(), chunk(&nest).unwrap()).collect();
            assert!(parts[0].points() >= 2);
            let all: Vec<i64> = parts.iter().flat_map(offsets).collect();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
        assert_eq!(cut(copy(1_000_000), chunk(&copy(1_000_000)).unwrap()).count(), 1, "1000000 has even parts");
        assert_eq!(chunk(&copy((1 << 16) - 1)), None, "too little work");
    }
}
