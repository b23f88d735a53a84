//! The row loop of a stage, as a plan: what is computed once, where the elements of each access lie, how reductions run, and in
//! which iterations the row goes by. Nothing here knows of registers or instructions; both emitters ([`nest`](super::nest) in 128
//! bits, [`wide`](super::wide) in 256 and 512) follow the same plan.
//!
//! **Problem.** An emitter that finds out while it emits what varies, what is contiguous and which lane an element belongs to
//! cannot be checked but by its results, and a second emitter finds it out differently.
//!
//! **Invariant.** The segments of a plan are the row, each element once and in order. A reduction puts element `k` into lane
//! `k mod W`, whatever the segment, and the first element of a lane without an identity starts it. An access that walks gives, by
//! the forms of its indices, what its index gives. [`verify`](RowLoop::verify) proves this for every plan, in release builds too.
//!
//! **Algorithm.** What varies along the axis is found from loads and indices downwards. An access walks where its loaded
//! offsets do not vary and its index is linear in the axis. Reductions without a split are chains; short rows keep a scalar an
//! element. Where reductions have lanes, an iteration is all of them; else as many vectors as hide the loop's own work.

mod near;
#[cfg(test)]
mod tests;
mod text;
mod verify;

pub use near::{Near, Part, lies_in_part, parts};
pub use text::describe;

use crate::kernel::body::{Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Accumulator, Place, Stage, Store};
use crate::schedule::cost::{BEYOND_CACHES, depth};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Elements of a vector: a 128-bit register of 32-bit lanes, two of 64-bit lanes.
pub const VECTOR: i64 = 4;

/// So few elements from one to the next, 32-bit elements are taken out of whole registers of 512 bits.
pub const NEAR: u64 = 6;
/// Iterations of a row below which a wider register is worth its start.
const SHORT_ROW: i64 = 8;
/// So many operations for each element that is put together or taken apart are worth a wider register.
const COMPUTED: i64 = 20;
/// So many operations are worth registers of many elements, which are folded one after another.
const WORTH_VECTORS: i64 = 12;
/// One load in so many operations keeps an iteration waiting for loads, not for what it computes.
const LOADED: i64 = 5;
/// So few operations for each element wait for memory where that is beyond the caches, and the widest registers are no faster.
const LIGHT: i64 = 8;

/// Registers that rows may go by in, besides those of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Those of AVX2.
    W256,
    /// Those of AVX-512.
    W512,
}

impl Width {
    /// All of them.
    pub const ALL: [Width; 2] = [Width::W256, Width::W512];

    /// Bits of a register.
    pub const fn bits(self) -> u32 {
        match self {
            Width::W256 => 256,
            Width::W512 => 512,
        }
    }

    /// Elements of a vector: a register of 32-bit lanes, two of 64-bit lanes.
    pub const fn vector(self) -> i64 {
        (self.bits() / 32) as i64
    }

    /// What a last iteration has a multiple of: whole registers, or any elements where those of a register can be left out.
    pub const fn least(self) -> i64 {
        match self {
            Width::W256 => self.vector(),
            Width::W512 => 1,
        }
    }

    /// The most registers of accumulators that an iteration keeps: half of those that there are.
    pub const fn accumulators(self) -> i64 {
        match self {
            Width::W256 => 8,
            Width::W512 => 16,
        }
    }
}

/// The most registers of accumulators that an iteration of 128-bit rows keeps, on the machine that has the fewest.
const NARROW_ACCUMULATORS: i64 = 8;

/// The reductions of a stage in groups that fit the registers of a width, 128 bits where there is none: each group goes by the
/// row on its own. A stage that does more than fold, or in which two groups need a result of the same operation, is not taken apart.
pub fn passes(stage: &Stage, width: Option<Width>) -> Vec<Range<usize>> {
    let all = 0..stage.accumulators.len();
    let lanes = |a: &Accumulator| matches!(Mode::of(stage, a), Mode::Vectors(_));
    let only_folds = stage.stores.is_empty() && stage.row_stores.is_empty() && stage.accumulators.iter().all(lanes);
    if !only_folds {
        return vec![all];
    }
    let (vector, most) = width.map_or((VECTOR, NARROW_ACCUMULATORS), |w| (w.vector(), w.accumulators()));
    let registers = |a: &Accumulator| {
        let of_type = |scalar: ScalarType| a.lane_count() / vector * i64::from(scalar.bits() / 32).max(1);
        a.types().map(of_type).sum::<i64>()
    };
    let mut out = Vec::new();
    let (mut begin, mut taken) = (0, 0);
    for (k, a) in stage.accumulators.iter().enumerate() {
        let more = registers(a);
        if k > begin && taken + more > most {
            out.push(begin..k);
            (begin, taken) = (k, 0);
        }
        taken += more;
    }
    out.push(begin..all.end);
    if out.len() == 1 {
        return out;
    }
    let needed = |group: &Range<usize>| {
        stage.body.needed(stage.accumulators[group.clone()].iter().flat_map(|a| a.values.iter().copied()))
    };
    let groups: Vec<Vec<bool>> = out.iter().map(needed).collect();
    let computed = |k: usize| !stage.body.nodes()[k].args.is_empty() && groups.iter().filter(|g| g[k]).count() > 1;
    if (0..stage.body.nodes().len()).any(computed) { vec![all] } else { out }
}

/// How the elements of an access follow each other along the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Side by side.
    Contiguous,
    /// Side by side, backwards.
    Reversed,
    /// So many elements from one to the next; 0 is always the same.
    Strided(i64),
    /// Each at an index of its own.
    Gathered,
}

impl Walk {
    fn of(stride: Option<i64>) -> Walk {
        match stride {
            Some(1) => Walk::Contiguous,
            Some(-1) => Walk::Reversed,
            Some(stride) => Walk::Strided(stride),
            None => Walk::Gathered,
        }
    }

    /// Elements from one to the next, where that is the same everywhere.
    pub fn stride(self) -> Option<i64> {
        match self {
            Walk::Contiguous => Some(1),
            Walk::Reversed => Some(-1),
            Walk::Strided(stride) => Some(stride),
            Walk::Gathered => None,
        }
    }
}

/// A load or a store that happens for each element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The buffer.
    pub buffer: u32,
    /// Memory form.
    pub mem: Mem,
    /// How elements follow each other.
    pub walk: Walk,
    /// Where the row's first element lies; of a gathered access, where each does.
    pub start: Ix,
}

impl Access {
    /// Whether so many elements, or of narrow ones words, lie between those of a walk.
    fn is_apart(&self, most: u64) -> bool {
        self.walk.stride().is_some_and(|stride| match words(self.mem, stride) {
            Some(apart) => apart.unsigned_abs() > NEAR,
            None => stride.unsigned_abs() > most,
        })
    }
}

/// From one element to the next, at most: the registers of all between them are loaded, or stored, together.
fn few(mem: Mem) -> u64 {
    if mem.bytes() == 4 { NEAR } else { 2 }
}

/// Words of 32 bits from an element to the next, where elements are narrower and lie whole words apart.
pub fn words(mem: Mem, stride: i64) -> Option<i64> {
    let bytes = stride.checked_mul(mem.bytes())?;
    (mem.is_extended() && bytes > 0 && bytes % 4 == 0).then_some(bytes / 4)
}

/// How a reduction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One for each element, in row buffers.
    Row,
    /// So many vectors of lanes.
    Vectors(i64),
    /// Fewer than two vectors of elements: a scalar each, folded by the same tree.
    Few,
    /// One after another, from the initial value.
    Chain,
}

impl Mode {
    fn of(stage: &Stage, a: &Accumulator) -> Mode {
        let n = stage.vector.extent;
        if matches!(a.place, Place::Row { .. }) {
            return Mode::Row;
        }
        // Lanes start from the identity, or from the first elements where those fill every lane just once.
        let whole = a.identity.is_some() || (stage.sequential.is_empty() && n >= a.lane_count());
        match () {
            () if !a.splits || !whole => Mode::Chain,
            () if n < 2 * VECTOR => Mode::Few,
            () => Mode::Vectors((n.min(a.lane_count()) as usize).div_ceil(VECTOR as usize) as i64),
        }
    }
}

/// What an iteration of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Registers of more than 128 bits, where a function for them is called. The last iteration may be cut [short](Width::least).
    Wide(Width),
    /// Vectors of [`VECTOR`] elements.
    Vectors,
    /// Single elements.
    Singles,
}

/// A part of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first element.
    pub begin: i64,
    /// The element behind the last.
    pub end: i64,
    /// Elements of an iteration.
    pub iteration: i64,
    /// What an iteration is.
    pub form: Form,
    /// Whether lanes without an identity have their first element here. Such a segment is one iteration.
    pub starts: bool,
}

/// The row loop of a stage.
#[derive(Clone, Debug)]
pub struct RowLoop<'k> {
    /// The stage.
    pub stage: &'k Stage,
    /// How many points of its nest have the row.
    points: i64,
    /// The axes that an iteration runs along.
    axes: Vec<Axis>,
    /// Nodes that something stored or folded needs.
    needed: Vec<bool>,
    /// Nodes that differ along the row.
    varies: Vec<bool>,
    /// Loads that happen for each element, by node.
    pub loads: BTreeMap<NodeId, Access>,
    /// Stores by number; `None` for one that happens once for the row.
    pub stores: Vec<Option<Access>>,
    /// Which of the loads that walk lie near each other.
    pub near: HashMap<NodeId, Near>,
    /// How each reduction runs.
    pub modes: Vec<Mode>,
}

impl<'k> RowLoop<'k> {
    /// The plan of a stage along its vector axis.
    pub fn new(stage: &'k Stage) -> RowLoop<'k> {
        RowLoop::along(stage, &[stage.vector.axis])
    }

    /// The plan of a stage whose other axes given run in the same iteration: what differs along any of them varies, and accesses
    /// start at the first element of all.
    pub fn along(stage: &'k Stage, axes: &[Axis]) -> RowLoop<'k> {
        let body = &stage.body;
        let needed = body.needed(stage.roots());
        let mut varies = vec![false; body.nodes().len()];
        for (i, node) in body.nodes().iter().enumerate() {
            let own = match &node.op {
                Op::Load(_, _, ix) | Op::Index(ix) => {
                    let mut any = axes.iter().any(|&a| ix.mentions(a));
                    ix.for_each_value(&mut |n| any |= varies[n.0 as usize]);
                    any
                }
                Op::Row(_) => stage.vector.extent > 1,
                _ => false,
            };
            varies[i] = own || node.args.iter().any(|a| varies[a.0 as usize]);
        }
        let modes = stage.accumulators.iter().map(|a| Mode::of(stage, a)).collect();
        let (loads, stores, near) = (BTreeMap::new(), Vec::new(), HashMap::new());
        let mut row = RowLoop { stage, points: 1, axes: axes.to_vec(), needed, varies, loads, stores, near, modes };
        let varying: Vec<NodeId> = row.varying().collect();
        for id in varying {
            if let Op::Load(buffer, mem, ix) = &body.node(id).op {
                let access = row.access(*buffer, *mem, ix);
                row.loads.insert(id, access);
            }
        }
        let along = |s: &Store| row.varies(s.value) || s.index.mentions(stage.vector.axis);
        let store = |s| along(s).then(|| row.access(s.buffer, s.mem, &s.index));
        row.stores = stage.stores.iter().map(store).collect();
        row.near = near::near(&row);
        row
    }

    /// The plan of a row that so many points of its nest have.
    pub fn in_points(self, points: i64) -> RowLoop<'k> {
        RowLoop { points, ..self }
    }

    fn access(&self, buffer: u32, mem: Mem, ix: &Ix) -> Access {
        let walk = Walk::of(self.stride(ix, self.stage.vector.axis));
        let start = if walk == Walk::Gathered { ix.clone() } else { self.start(ix) };
        Access { buffer, mem, walk, start }
    }

    /// An index at the row's first element.
    pub fn start(&self, ix: &Ix) -> Ix {
        ix.substitute(&|axis| self.axes.contains(&axis).then(|| Ix::constant(0)))
    }

    /// The elements from one iteration of an axis to the next, where that is the same everywhere.
    pub fn stride(&self, ix: &Ix, axis: Axis) -> Option<i64> {
        let mut uniform = true;
        ix.for_each_value(&mut |n| uniform &= !self.varies(n));
        if uniform { ix.stride(axis) } else { None }
    }

    /// Whether a node differs along the row.
    pub fn varies(&self, node: NodeId) -> bool {
        self.varies[node.0 as usize]
    }

    /// The nodes that are computed for each element, in order.
    pub fn varying(&self) -> impl Iterator<Item = NodeId> {
        self.chosen(true)
    }

    /// The nodes that are computed once for the row, in order.
    pub fn uniform(&self) -> impl Iterator<Item = NodeId> {
        self.chosen(false)
    }

    fn chosen(&self, varying: bool) -> impl Iterator<Item = NodeId> {
        let both = self.needed.iter().zip(&self.varies);
        (0..).map(NodeId).zip(both).filter(move |(_, (n, v))| **n && **v == varying).map(|(id, _)| id)
    }

    /// Nodes that are computed for each element, and one for the loop itself.
    pub fn work(&self) -> i64 {
        self.varying().count() as i64 + 1
    }

    /// As [`RowLoop::work`], with the operations that fold an element.
    fn work_and_folds(&self) -> i64 {
        let folds = self.stage.accumulators.iter().map(|a| a.combine.operations() as i64);
        self.work() + folds.sum::<i64>()
    }

    /// The work of all elements of a segment, and what folds them.
    pub fn work_in(&self, segment: &Segment) -> i64 {
        self.work_and_folds().saturating_mul(segment.end - segment.begin)
    }

    /// Whether anything happens for each element.
    pub fn has_elements(&self) -> bool {
        let stage = self.stage;
        self.stores.iter().any(Option::is_some) || !stage.row_stores.is_empty() || !stage.accumulators.is_empty()
    }

    fn in_lanes(&self) -> bool {
        self.modes.iter().any(|m| matches!(m, Mode::Vectors(_)))
    }

    /// Whether some reduction takes one element after another.
    fn chained(&self) -> bool {
        self.modes.contains(&Mode::Chain)
    }

    /// Whether some reduction has a scalar for each element, for which no wide code is.
    fn has_few(&self) -> bool {
        self.modes.contains(&Mode::Few)
    }

    /// Whether elements are computed together that then are folded one by one: what each costs is more than taking it out of them.
    fn worth_vectors(&self) -> bool {
        self.work() >= WORTH_VECTORS
    }

    /// Whether elements are folded one after another by a division of integers, which wide registers do for every lane.
    fn divides_in_order(&self) -> bool {
        let divides = |a: &Accumulator| {
            a.combine.nodes().iter().any(|n| matches!(n.op, Op::SDiv | Op::UDiv | Op::SRem | Op::URem))
        };
        self.stage.accumulators.iter().zip(&self.modes).any(|(a, mode)| *mode == Mode::Chain && divides(a))
    }

    /// Elements of an iteration of wide code: all lanes of a reduction once, or as many vectors as hide the loop's own work.
    pub fn wide_iteration(&self, width: Width) -> i64 {
        if self.in_lanes() { self.stage.lane_count() } else { self.unrolled() * width.vector() }
    }

    /// The widths that the row may go by in, up to that given, the one that promises most first.
    pub fn widths(&self, widest: Width) -> &'static [Width] {
        let vectors = |width: Width| {
            let n = self.stage.vector.extent;
            let wide = n / width.least() * width.least();
            wide / width.vector() + i64::from(wide % width.vector() != 0) + (n - wide) / VECTOR + (n - wide) % VECTOR
        };
        match widest {
            Width::W512
                if self.is_apart() && self.stage.vector.extent >= SHORT_ROW * self.wide_iteration(Width::W256) =>
            {
                &[Width::W256, Width::W512]
            }
            Width::W512 if self.waits_for_memory() => &[Width::W256, Width::W512],
            Width::W512 if vectors(Width::W512) < vectors(Width::W256) => &[Width::W512, Width::W256],
            Width::W512 | Width::W256 => &[Width::W256],
        }
    }

    /// Whether all rows of the nest together are more than the caches hold, and little is computed of an element.
    fn waits_for_memory(&self) -> bool {
        let times = self.points.saturating_mul(depth(self.stage));
        // What is the same in every row stays in a cache.
        let moves = |a: &&Access| {
            let mut any = times == 1;
            a.start.for_each_axis(&mut |_, _| any = true);
            any && a.walk == Walk::Contiguous
        };
        let all = self.loads.values().chain(self.stores.iter().flatten());
        let each = all.filter(moves).map(|a| a.mem.bytes()).sum::<i64>();
        let bytes = times.saturating_mul(self.stage.vector.extent).saturating_mul(each);
        bytes >= BEYOND_CACHES && self.work_and_folds() <= LIGHT
    }

    /// Whether elements are put together one by one, at which a wider register gains nothing, and little is computed of them.
    fn is_apart(&self) -> bool {
        let single = (self.single_stores() + self.single_loads()) as i64;
        single > 0 && self.work() < COMPUTED * single
    }

    /// Loads whose elements come one by one: more than a few lie between them, and too few of those are loaded too.
    fn single_loads(&self) -> usize {
        let together = |a: &Access| a.walk.stride().is_some_and(|stride| lies_in_part(a.mem, stride, 0));
        let single = |id, a: &Access| a.is_apart(few(a.mem)) && !together(a) && self.part(id).is_none();
        self.loads.iter().filter(|&(&id, a)| single(id, a)).count()
    }

    /// Stores whose elements go one by one: more than one other lies between them, or more than a few others that are stored with them,
    /// which fill no part of a register.
    fn single_stores(&self) -> usize {
        let (mut count, mut number) = (0, 0);
        while let Some(access) = self.stores.get(number) {
            let woven = self.woven(number);
            let single = access.as_ref().is_some_and(|a| match woven {
                1 => a.is_apart(2),
                _ => a.is_apart(few(a.mem)) && !a.mem.fills_part(woven as i64),
            });
            count += if single { woven } else { 0 };
            number += woven;
        }
        count
    }

    /// The part of its row that a load comes in, where that is loaded at once.
    pub fn part(&self, id: NodeId) -> Option<Part> {
        let (near, access) = (self.near.get(&id)?, self.loads.get(&id)?);
        near.part(access.mem, access.walk.stride()?)
    }

    /// How many stores, from one on, write side by side: an element of each, then the next one of each. 1 where others write between.
    pub fn woven(&self, number: usize) -> usize {
        let stride = self.stores.get(number).and_then(|a| a.as_ref()?.walk.stride());
        let count = stride.and_then(|s| usize::try_from(s).ok()).filter(|&n| n > 1).unwrap_or(1);
        let all = number.checked_add(count).and_then(|end| self.stage.stores.get(number..end));
        let beside = |(s, first, k): (&Store, &Store, i64)| {
            (s.buffer, s.mem) == (first.buffer, first.mem) && s.index == first.index.offset(k)
        };
        match all {
            Some(all @ [first, ..]) if all.iter().zip(0..).all(|(s, k)| beside((s, first, k))) => count,
            _ => 1,
        }
    }

    /// Registers in an iteration: light bodies are unrolled to hide the loop's own work, which chains do, and so do many loads.
    fn unrolled(&self) -> i64 {
        let work = self.work();
        match work {
            _ if self.chained() => 1,
            0..=11 => 4,
            12..=23 => 2,
            24..=41 if LOADED * (self.loads.len() as i64) < work => 2,
            _ => 1,
        }
    }

    /// Elements of an iteration of 128-bit code. A vector of 64-bit lanes is two registers.
    fn iteration(&self) -> i64 {
        if self.in_lanes() {
            return self.stage.lane_count();
        }
        let double = self.stage.body.nodes().iter().any(|n| n.scalar.bits() == 64);
        self.unrolled().min(if double { 2 } else { 4 }) * VECTOR
    }

    /// The segment that is given to code of a width, if there is one.
    pub fn wide_segment(&self, width: Width) -> Option<Segment> {
        self.segments(Some(width)).into_iter().find(|s| s.form == Form::Wide(width))
    }

    /// Whether all lanes hold their identities before a segment.
    pub fn starts_from_identities(&self, segment: &Segment) -> bool {
        let stage = self.stage;
        let fresh = segment.begin == 0 && stage.sequential.is_empty() && !self.chained();
        fresh && stage.accumulators.iter().all(|a| a.identity.is_some())
    }

    /// Whether nothing is folded into lanes behind a segment.
    pub fn ends_with(&self, segment: &Segment) -> bool {
        let last = segment.end == self.stage.vector.extent && self.stage.sequential.is_empty();
        last && self.in_lanes() && !self.chained()
    }

    /// The segments of the row, one behind another; `wide` where iterations of [`wide_iteration`](RowLoop::wide_iteration) elements are given
    /// to code of that width, the last of which may be cut short.
    pub fn segments(&self, wide: Option<Width>) -> Vec<Segment> {
        let n = self.stage.vector.extent;
        let mut row = Segments { end: n, list: Vec::new() };
        let in_lanes = self.in_lanes();
        // A scalar an element is a variable of its own: the row is written out.
        if self.has_few() {
            row.push(n, n, Form::Singles);
            return row.list;
        }
        // Where vectors are computed, for reductions with lanes or because that is much, chains take their elements one by one.
        if self.chained() && !in_lanes && !self.worth_vectors() {
            row.push(n, 1, Form::Singles);
            return row.list;
        }
        let iteration = self.iteration();
        let starts = in_lanes && self.stage.accumulators.iter().any(|a| a.identity.is_none());
        if starts {
            // Where the row is shorter than an iteration, its vectors start the lanes that it has.
            row.push(n, iteration.min(n / VECTOR * VECTOR), Form::Vectors);
            row.list.truncate(1);
            row.list.iter_mut().for_each(|s| (s.end, s.starts) = (s.begin + s.iteration, true));
        }
        if let Some(width) = wide.filter(|_| !self.divides_in_order()) {
            let (iteration, begin) = (self.wide_iteration(width), row.done());
            let end = begin + (n - begin) / width.least() * width.least();
            // Of a row that is shorter than its lanes, some lanes would be none of the row's.
            if end > begin && !(in_lanes && n < iteration) {
                row.list.push(Segment { begin, end, iteration, form: Form::Wide(width), starts: false });
            }
        }
        if row.list.is_empty() || in_lanes {
            row.push(n, iteration, Form::Vectors);
        }
        // What is left of lanes is written out, each element in the lane that its number says.
        let left = n - row.done();
        let vectors = if in_lanes { left / VECTOR * VECTOR } else { VECTOR };
        row.push(n, vectors, Form::Vectors);
        let singles = if in_lanes { n - row.done() } else { 1 };
        row.push(n, singles, Form::Singles);
        row.list
    }
}

/// Segments while they are collected.
struct Segments {
    end: i64,
    list: Vec<Segment>,
}

impl Segments {
    fn done(&self) -> i64 {
        self.list.last().map_or(0, |s| s.end)
    }

    /// As many whole iterations as fit, up to `end`.
    fn push(&mut self, end: i64, iteration: i64, form: Form) {
        let begin = self.done();
        let iterations = if iteration > 0 { (end.min(self.end) - begin) / iteration } else { 0 };
        if iterations > 0 {
            self.list.push(Segment { begin, end: begin + iterations * iteration, iteration, form, starts: false });
        }
    }
}
