//! When each array of a program holds a value that is still needed, for people: what buffer assignment works from.

use super::flow::{Node, Variable, flow};
use super::live;
use super::schedule::{Assignment, BlockId, KernelId, Location, Schedule, Step, ValueId};
use crate::error::{Error, Result};

/// An array of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The first value that it holds; others always hold the same.
    pub value: ValueId,
    /// Where it lies.
    pub location: Option<Location>,
    /// Its size.
    pub bytes: u64,
    /// Half-open ranges of positions, ascending and disjoint.
    pub ranges: Vec<(u32, u32)>,
}

/// The lifetimes of a whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Arrays with a size, in the order of their values.
    pub arrays: Vec<Lifetime>,
    /// Each kernel with its position, in the order in which they stand.
    pub kernels: Vec<(KernelId, u32)>,
    /// The position behind everything.
    pub end: u32,
}

/// Finds them. Positions count events: kernels, copies, and looks at a condition.
///
/// # Errors
/// [`Error::Internal`] where the schedule is malformed.
pub fn lifetimes(schedule: &Schedule, assignment: &Assignment) -> Result<Lifetimes> {
    let flow = flow(schedule)?;
    let ranges = live::ranges(&flow);
    let mut first: cranelift_entity::SecondaryMap<Variable, Option<ValueId>> = cranelift_entity::SecondaryMap::new();
    for value in schedule.values.keys() {
        if let Some(variable) = flow.of[value] {
            first[variable] = first[variable].or(Some(value));
        }
    }
    let mut out = Lifetimes { end: flow.end, ..Lifetimes::default() };
    for (variable, data) in flow.variables.iter() {
        let Some(value) = first[variable].filter(|_| data.bytes > 0) else { continue };
        // Two points make a position.
        let ranges = ranges[variable].iter().map(|&(from, to)| (from / 2, to.div_ceil(2))).collect();
        out.arrays.push(Lifetime { value, location: assignment.locations[value], bytes: data.bytes, ranges });
    }
    out.arrays.sort_by_key(|array| array.value);
    let (mut kernels, mut positions) = (Vec::new(), Vec::new());
    if let Some(entry) = schedule.entry {
        kernels_of(schedule, entry, &mut kernels);
    }
    positions_of(&flow.nodes, &mut positions);
    if kernels.len() != positions.len() {
        return Err(Error::Internal("a kernel that stands nowhere".to_owned()));
    }
    out.kernels = kernels.into_iter().zip(positions).collect();
    Ok(out)
}

/// The kernels of a block and of those inside it, in order. As deep as control flow is nested, which is limited.
fn kernels_of(schedule: &Schedule, block: BlockId, out: &mut Vec<KernelId>) {
    for step in schedule.blocks.get(block).into_iter().flat_map(|b| &b.steps) {
        match step {
            Step::Kernel { kernel, .. } => out.push(*kernel),
            Step::While { condition, body, .. } => {
                kernels_of(schedule, *condition, out);
                kernels_of(schedule, *body, out);
            }
            Step::Conditional { branches, .. } => branches.iter().for_each(|(b, _)| kernels_of(schedule, *b, out)),
        }
    }
}

/// The positions of kernels, in the same order.
fn positions_of(nodes: &[Node], out: &mut Vec<u32>) {
    for node in nodes {
        match node {
            Node::Run(run) => out.push(run.position),
            Node::Loop { condition, body, .. } => {
                positions_of(condition, out);
                positions_of(body, out);
            }
            Node::Branch { arms, .. } => arms.iter().for_each(|arm| positions_of(&arm.nodes, out)),
            Node::Copies(_) | Node::Read(..) => {}
        }
    }
}
