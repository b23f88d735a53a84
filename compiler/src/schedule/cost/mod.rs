//! What schedules count with: what a loop costs, and the numbers that transformations share.
//!
//! **Problem.** A transformation that counts by itself what its loops cost takes another choice than the one before it.
//!
//! **Invariant.** Every count is a function of extents, strides and operations, never of the target or the number of workers.
//!
//! **Algorithm.** Work is counted in elements: a task is worth its start from [`TASK`] on, registers are filled from [`UNIT`] on, memory is
//! what counts from [`BEYOND_CACHES`] on. Which axis fills registers is decided by what [`rows`] cost along either. How much a
//! transformation writes out at most is a limit of its own, and stands there.

pub mod rows;

use crate::kernel::body::Op;
use crate::kernel::ir::{Nest, Stage};

/// Elements whose computation takes as long as handing a task to a worker.
pub const TASK: i64 = 1 << 14;
/// A nest with so many points has enough for every worker.
pub const POINTS: i64 = 64;
/// Elements of a vector register in the widest code that is worth filling: the unit of cuts along a vector axis, so that no iteration
/// of a row loop is left over. It is also the most lanes of a reduction.
pub const UNIT: i64 = 32;
/// An array of so many bytes is not in the caches any more when it is finished: half of it does not stay beside what it was made of.
pub const BEYOND_CACHES: i64 = 1 << 23;

/// Iterations of the sequential loops of a stage.
pub fn depth(stage: &Stage) -> i64 {
    stage.sequential.iter().map(|l| l.extent).fold(1, i64::saturating_mul)
}

/// Elements that a stage computes for each point.
pub fn elements(stage: &Stage) -> i64 {
    depth(stage).saturating_mul(stage.vector.extent)
}

/// Elements that a nest computes for each point.
pub fn elements_of_point(nest: &Nest) -> i64 {
    nest.stages.iter().map(elements).fold(0, i64::saturating_add)
}

/// Elements that a nest computes.
pub fn elements_of_nest(nest: &Nest) -> i64 {
    nest.points().saturating_mul(elements_of_point(nest))
}

/// Whether a nest loads from a buffer that it stores to: then the order of its elements counts.
pub fn reads_what_it_writes(nest: &Nest) -> bool {
    let written: Vec<u32> = nest.stages.iter().flat_map(|s| s.stores.iter().map(|s| s.buffer)).collect();
    nest.stages.iter().flat_map(|s| s.body.nodes()).any(|n| matches!(&n.op, Op::Load(b, _, _) if written.contains(b)))
}
