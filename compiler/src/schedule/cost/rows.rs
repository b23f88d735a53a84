//! What short rows cost: in a row loop over them, and written out along another axis.
//!
//! **Problem.** A row loop of few elements fills no register, and computes for each element what is the same for all; written out along an
//! axis that fills registers, its elements do not lie side by side any more.
//!
//! **Invariant.** Both are counted in one unit, sixths of what it costs to load an element that has no neighbour, from extents, strides and
//! operations alone. What is computed again for each element is counted for each.
//!
//! **Algorithm.** [`of_row`] counts iterations, operations and folds of row loops; [`in_memory`] what each access costs that is left beside
//! the operations of a body; [`written_out`] the instructions of such a body.

use super::UNIT;
use crate::kernel::body::{Mem, Op};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Loop, Nest, Stage, Store};
use hashbrown::HashSet;

/// A vector axis of fewer elements is written out where another axis can take its place.
pub const SHORT: i64 = UNIT / 4;
/// Instructions of an element that is transposed with others, and of one alone.
const TRANSPOSED: usize = 6;
const SINGLE: usize = 24;
/// Words of 32 bits, side by side, that stores are woven of in the widest registers, and for little in any.
const MOST_WOVEN: i64 = 8;
const FEW_WOVEN: i64 = 4;
/// What memory costs for an element of the new vector axis, in the unit of [`of_row`]: one that lies beside its neighbours or is the same
/// for all, ...
const BESIDE: usize = 1;
/// ... one that is transposed or woven with others of its row, ...
const TOGETHER: usize = 3;
/// ... one that is loaded alone, which is the unit, ...
const LOADED: usize = 6;
/// ... and one that is stored alone, or found by an index.
const ALONE: usize = 14;
/// What is the same along so many elements is made ready once for them, which costs as much as one of them for each that is loaded alone.
const SAME: i64 = 16;

/// A load or a store of a row.
pub struct Access<'n> {
    /// Memory form.
    pub mem: Mem,
    /// Where it lies.
    pub index: &'n Ix,
    /// The row.
    pub row: Loop,
    store: Option<&'n Store>,
}

impl Access<'_> {
    /// Whether elements of rows lie side by side, in the form that they have in registers, and are enough for a register of 128 bits.
    pub fn lies_in_parts(&self) -> bool {
        let Access { mem, index, row, .. } = self;
        mem.fills_part(row.extent) && index.stride(row.axis) == Some(1)
    }

    /// How many of them there are in a row.
    fn count(&self) -> usize {
        if self.index.mentions(self.row.axis) { self.row.extent as usize } else { 1 }
    }
}

/// What a stage loads and stores.
fn accesses(stage: &Stage) -> impl Iterator<Item = (u32, Access<'_>)> {
    let row = stage.vector;
    let loads = stage.body.nodes().iter().filter_map(move |n| match &n.op {
        Op::Load(buffer, mem, index) => Some((*buffer, Access { mem: *mem, index, row, store: None })),
        _ => None,
    });
    let stores =
        stage.stores.iter().map(move |s| (s.buffer, Access { mem: s.mem, index: &s.index, row, store: Some(s) }));
    loads.chain(stores)
}

/// What the stages of a nest load and store, each element once.
pub fn distinct(nest: &Nest) -> Vec<Access<'_>> {
    let mut known = HashSet::new();
    let all = nest.stages.iter().flat_map(accesses);
    all.filter(|(buffer, a)| known.insert((*buffer, a.index, a.store.is_some()))).map(|(_, a)| a).collect()
}

/// Whether what is stored of a row lies side by side, and one row behind the other along another axis, in elements of at most so many
/// words together.
fn is_woven(s: &Store, row: Loop, vector: Loop, most: i64) -> bool {
    let bytes = row.extent.saturating_mul(s.mem.bytes());
    let close = bytes % 4 == 0 && bytes / 4 <= most && s.mem.bytes() <= 4;
    close && s.index.stride(row.axis) == Some(1) && s.index.stride(vector.axis) == Some(row.extent)
}

/// Whether each row of a nest is a few elements that lie side by side, row behind row, of what is loaded once for all of them.
pub fn repeats(nest: &Nest) -> bool {
    let ([stage], Some(&last)) = (nest.stages.as_slice(), nest.parallel.last()) else { return false };
    let once = |op: &Op| !matches!(op, Op::Load(_, _, ix) if ix.mentions(stage.vector.axis));
    let alone = stage.accumulators.is_empty() && stage.sequential.is_empty() && stage.row_stores.is_empty();
    let woven = stage.stores.iter().all(|s| is_woven(s, stage.vector, last, MOST_WOVEN));
    alone && last.extent >= SHORT && woven && stage.body.nodes().iter().all(|n| once(&n.op))
}

/// What the row loops of a nest cost for a row, in sixths of what it costs to load an element that has no neighbour; measured on rows
/// of 8 to 16 elements, of sums to softmaxes.
pub fn of_row(nest: &Nest) -> usize {
    let of_stage = |stage: &Stage| {
        let n = stage.vector.extent as usize;
        // Blocks of 128 bits, and elements one by one behind them.
        let iterations = n / 4 + n % 4;
        let memory = stage.stores.len() + stage.row_stores.len();
        let loads = stage.body.nodes().iter().filter(|n| matches!(n.op, Op::Load(..) | Op::Row(_))).count();
        let folds = stage.accumulators.iter().map(|a| match a.in_lanes() {
            true => 11 * a.combine.operations() * (iterations + 1),
            false => 20 * a.combine.operations() * n,
        });
        4 * iterations * (of_element(stage) + loads + memory) + folds.sum::<usize>()
    };
    // A row loop begins, and waits for what the one before it folds.
    let loops = nest.stages.iter().filter(|s| s.vector.extent > 1).count();
    nest.stages.iter().map(of_stage).sum::<usize>() + (80 * loops).saturating_sub(60)
}

/// Operations that fold an element of a stage.
pub fn combined(stage: &Stage) -> usize {
    stage.accumulators.iter().map(|a| a.combine.operations()).sum()
}

/// About how many instructions of 512 bits a body has that does what a nest does for a row: one for each operation of each element, and
/// those that move its elements.
pub fn written_out(nest: &Nest, accesses: &[Access<'_>]) -> usize {
    let computed = |s: &Stage| (of_element(s) + combined(s)).saturating_mul(s.vector.extent as usize);
    let moved = accesses.iter().map(|a| a.count() * if a.lies_in_parts() { TRANSPOSED } else { SINGLE });
    nest.stages.iter().map(computed).chain(moved).fold(0, usize::saturating_add)
}

/// What loads and stores of a row, which may be `repeated`, cost for an element of the new vector axis, in the unit of [`of_row`].
pub fn in_memory(accesses: &[Access<'_>], vector: Loop, repeated: bool) -> usize {
    // What is woven of as many registers as there are takes as many instructions for each.
    let most = if repeated { MOST_WOVEN } else { FEW_WOVEN };
    let price = |a: &Access<'_>| {
        let &Access { index, row, store, .. } = a;
        let mut found = false;
        index.for_each_value(&mut |_| found = true);
        let (part, behind) = (a.lies_in_parts(), index.stride(vector.axis) == Some(row.extent));
        let each = match (index.stride(vector.axis), store) {
            _ if found => ALONE,
            (Some(0), _) => BESIDE + LOADED * (SAME / vector.extent) as usize,
            (Some(1), _) => BESIDE,
            (_, None) if part => TOGETHER,
            (_, None) => LOADED,
            (_, Some(s)) if part && behind || is_woven(s, row, vector, most) => TOGETHER,
            (_, Some(_)) => ALONE,
        };
        each * a.count()
    };
    accesses.iter().map(price).sum()
}

/// The operations of a stage for an element, without those that nothing needs.
pub fn of_element(stage: &Stage) -> usize {
    let wanted = stage.body.needed(stage.roots().iter().copied());
    stage.body.nodes().iter().zip(wanted).filter(|(n, wanted)| *wanted && !n.args.is_empty()).count()
}
