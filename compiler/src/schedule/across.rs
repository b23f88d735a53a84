//! Short rows: the vector axis becomes one that fills registers.
//!
//! **Problem.** Arrays of points in space, of quaternions, of board moves or of classes end in a dimension of three, four, six or ten.
//! A row loop over it leaves most of a register idle, and computes with one element at a time what is the same along it. A reduction
//! in order goes one element after another over rows of any length.
//!
//! **Invariant.** The result of every element is computed by the same operations: what a stage does for each element of the short
//! axis is written out, reductions along it in the order that [`Place::Lanes`] has, with the values that do not depend on the axis
//! computed once.
//!
//! **Algorithm.** The stages run symbolically, element by element, into one body; row buffers and results become nodes. A
//! parallel axis becomes the vector axis of that body. Rows that fill the registers of a row loop of 128 bits are compared: what
//! such loops cost for a row ([`of_row`]) against loads and stores of elements that do not lie side by side any more ([`in_memory`]) and
//! the operations of the body; where the former cost more already, no body is made. Elements of a row that lie side by side cost little:
//! code generation transposes them in registers.

use super::cost::rows::{Access, SHORT, combined, distinct, in_memory, of_element, of_row, repeats, written_out};
use super::cost::{UNIT, reads_what_it_writes};
use crate::fusion::WRITTEN_OUT;
use crate::kernel::body::{Body, NodeId, Op};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Accumulator, Kernel, Loop, Nest, Phase, Place, Stage, Store};
use crate::kernel::rewrite::{Copied, copied_store, copy, place};
use crate::kernel::simplify::merge_loops;
use hashbrown::HashMap;

/// A vector axis of no more elements is written out where that costs less, one of fewer than [`SHORT`] wherever another axis can take its place.
const LONG: i64 = 2 * UNIT;
/// Rows that lie side by side have no more than so many bytes, or than [`WRITTEN_OUT`] where they are folded ...
const LONG_BYTES: i64 = 128;
/// ... by so many operations, which a row loop does once more for each half of its lanes.
const MANY: usize = 2;
/// About as many instructions of 512 bits ([`written_out`]) has a body that is made at most, those of 64 bits twice, for code generation
/// takes no more of them at once.
const MOST: usize = 1900;
/// Rows of at least four elements fill a register of 128 bits: without a reduction, so many operations must gain by more.
const WORTH: usize = 8;

/// Writes short rows out in every nest.
pub fn run(kernel: &mut Kernel) {
    let mut changed = false;
    for phase in &mut kernel.phases {
        if let Phase::Nest(nest) = phase
            && let Some(new) = across(nest)
        {
            *nest = new;
            changed = true;
        }
    }
    if changed {
        merge_loops(kernel);
    }
}

/// The nest with its short rows written out, where it has such and that is worth it.
pub fn across(nest: &Nest) -> Option<Nest> {
    let row = row_of(nest)?;
    let (accesses, repeated) = (distinct(nest), repeats(nest));
    if !is_short(nest, row, &accesses, repeated) {
        return None;
    }
    let number = nest.parallel.iter().rposition(|l| l.extent >= SHORT)?;
    if reads_what_it_writes(nest) {
        return None;
    }
    let vector = nest.parallel[number];
    let budget =
        if row >= SHORT { of_row(nest).checked_sub(in_memory(&accesses, vector, repeated))? } else { usize::MAX };
    let mut run = Symbolic::default();
    for stage in &nest.stages {
        run.stage(stage, row)?;
    }
    // Along the new axis loads must not be scattered over what is divided.
    let linear = |ix: &Ix| ix.stride(vector.axis).is_some();
    let loads = run.body.nodes().iter().all(|n| n.op.index().is_none_or(linear));
    if !loads || !run.stores.iter().all(|s| linear(&s.index)) {
        return None;
    }
    if run.body.operations() >= budget {
        return None;
    }
    let mut parallel = nest.parallel.clone();
    parallel.remove(number);
    // Those of one result follow each other, to be stored together.
    run.stores.sort_by_key(|s| s.buffer);
    let stage = Stage { stores: run.stores, ..Stage::new(Vec::new(), vector, run.body) };
    Some(Nest { parallel, rows: Vec::new(), stages: vec![stage] })
}

/// The extent of the rows of a nest that is made of such, not too long, and of single elements.
fn row_of(nest: &Nest) -> Option<i64> {
    let row = nest.stages.iter().map(|s| s.vector.extent).max()?;
    let alike = nest.stages.iter().all(|s| {
        let lanes = s.accumulators.iter().all(|a| matches!(a.place, Place::Lanes { .. }));
        (s.vector.extent == row || s.vector.extent == 1) && s.sequential.is_empty() && lanes
    });
    ((2..=LONG).contains(&row) && alike).then_some(row)
}

/// Whether rows with these accesses, which may be `repeated`, are short enough for what is made of them.
fn is_short(nest: &Nest, row: i64, accesses: &[Access<'_>], repeated: bool) -> bool {
    let Some(bytes) = accesses.iter().map(|a| i64::from(a.mem.scalar().bits() / 8)).max() else { return false };
    let folds = nest.stages.iter().any(|s| !s.accumulators.is_empty());
    let beside = folds && accesses.iter().all(|a| a.lies_in_parts() || !a.index.mentions(a.row.axis));
    let long = match beside {
        true if nest.stages.iter().map(combined).sum::<usize>() >= MANY => WRITTEN_OUT / bytes,
        true => LONG_BYTES / bytes,
        false => LONG,
    };
    if row > long || (row >= SHORT && fills_registers(nest, row) && !beside) {
        return false;
    }
    let operations: usize = nest.stages.iter().map(of_element).sum();
    let fits = written_out(nest, accesses) <= MOST * 4 / bytes as usize;
    fits && (folds || row < 4 || operations >= WORTH || repeated)
}

/// Whether rows fill the widest registers, and no reduction takes one of their elements after another.
fn fills_registers(nest: &Nest, row: i64) -> bool {
    row % (UNIT / 2) == 0 && nest.stages.iter().flat_map(|s| &s.accumulators).all(Accumulator::in_lanes)
}

/// Stages that have run so far.
#[derive(Default)]
struct Symbolic {
    body: Body,
    stores: Vec<Store>,
    /// Elements of row buffers.
    rows: HashMap<(u32, i64), NodeId>,
    results: HashMap<u32, NodeId>,
}

impl Symbolic {
    fn stage(&mut self, stage: &Stage, row: i64) -> Option<()> {
        let n = stage.vector.extent;
        debug_assert!(n == row || n == 1);
        let inits: Vec<NodeId> = stage.accumulators.iter().flat_map(|a| a.init.iter().copied()).collect();
        let places = self.element(stage, &inits, 0)?;
        let mut inits = inits.iter().map(|&i| place(&places, i));
        let mut running: Vec<(Vec<NodeId>, Vec<Vec<NodeId>>)> = Vec::new();
        for a in &stage.accumulators {
            running.push((inits.by_ref().take(a.init.len()).collect::<Option<_>>()?, Vec::new()));
        }
        for e in 0..n {
            let places = self.element(stage, &stage.roots(), e)?;
            for s in &stage.stores {
                // One that is the same along the row happens once.
                let new = copied_store(s, &self.body, &places, |ix| at_element(ix, stage.vector, e))?;
                if self.stores.iter().all(|o| (o.buffer, &o.index) != (new.buffer, &new.index)) {
                    self.stores.push(new);
                }
            }
            for &(number, value) in &stage.row_stores {
                self.rows.insert((number, e), place(&places, value)?);
            }
            for (a, (_, values)) in stage.accumulators.iter().zip(&mut running) {
                values.push(a.values.iter().map(|&v| place(&places, v)).collect::<Option<_>>()?);
            }
        }
        for (a, (init, values)) in stage.accumulators.iter().zip(running) {
            let folded = self.fold(a, init, values)?;
            let Place::Lanes { results } = &a.place else { return None };
            self.results.extend(results.iter().copied().zip(folded));
        }
        Some(())
    }

    /// Copies of the nodes that `roots` need at element `e` of the row.
    fn element(&mut self, stage: &Stage, roots: &[NodeId], e: i64) -> Option<Vec<Option<NodeId>>> {
        let wanted = stage.body.needed(roots.iter().copied());
        let known = |node: &Op| match node {
            Op::Row(r) => self.rows.get(&(*r, e)).copied(),
            Op::Result(r) => self.results.get(r).copied(),
            _ => None,
        };
        let mut leaves = HashMap::new();
        for (node, _) in stage.body.nodes().iter().zip(&wanted).filter(|(_, w)| **w) {
            if matches!(node.op, Op::Row(_) | Op::Result(_)) {
                leaves.insert(node.op.clone(), known(&node.op)?);
            }
        }
        copy(&mut self.body, &stage.body, &wanted, &|op| match leaves.get(op) {
            Some(&n) => Copied::Node(n),
            None => Copied::Op(op.map_index(|ix| at_element(ix, stage.vector, e))),
        })
    }

    /// What a reduction over the row gives: as [`Place::Lanes`] says, each element in a lane of its own. The identity that a lane starts
    /// from leaves its element as it is.
    fn fold(&mut self, a: &Accumulator, init: Vec<NodeId>, mut values: Vec<Vec<NodeId>>) -> Option<Vec<NodeId>> {
        if !a.in_lanes() {
            return values.into_iter().try_fold(init, |state, v| self.combine(a, &state, &v));
        }
        let mut half = values.len().next_power_of_two() / 2;
        while half >= 1 {
            for i in 0..half {
                if let Some(right) = values.get(i + half).cloned() {
                    let left = values[i].clone();
                    values[i] = self.combine(a, &left, &right)?;
                }
            }
            values.truncate(half);
            half /= 2;
        }
        let total = values.pop()?;
        self.combine(a, &init, &total)
    }

    fn combine(&mut self, a: &Accumulator, old: &[NodeId], new: &[NodeId]) -> Option<Vec<NodeId>> {
        let args: Vec<NodeId> = old.iter().chain(new).copied().collect();
        self.body.inline(&a.combine, &args, &a.roots)
    }
}

/// An index map at element `e` of the row.
fn at_element(ix: &Ix, row: Loop, e: i64) -> Ix {
    ix.at(row.axis, &Ix::constant(e))
}
