//! Contractions as CLIF: cache blocks around a register tile, packing and the epilogue.
//!
//! **Problem.** A matrix product is fast only where a tile of the result stays in registers, the columns of the right
//! operand that it walks stay in the first cache, and the rows of the left one in the second.
//!
//! **Invariant.** The sum of a block of `k` is one chain, and blocks are added in ascending order; how long they are, the kernel
//! says ([`Contraction::block`]). An unfinished sum waits in memory in its own type, which rounds nothing. The epilogue sees finished sums
//! only.
//!
//! **Algorithm.** [`Plan`] cuts rows into groups, columns into strips; a pair of both (and a batch index) is a point of
//! the phase's parallel space. Groups of a strip that a worker has one after another are joined and pack the right operand once: points
//! are as many as several workers want, and cost one alone nothing. For each block of `k`, an operand is packed where its index map is
//! not one that the tile can walk or where packing pays (a right one that lies along `k` is turned in registers, square by square); then
//! blocks of rows go through the tile. A right operand that the tile can walk it packs itself while it multiplies the first rows, where
//! it can: that costs less than to read it for nothing else. In the same way it packs rows of the left operand that lie pages
//! apart while it multiplies their first columns, where a step takes more of them than a set of the cache has ways. Unfinished
//! sums lie in the result itself where a store has the sum's type and unit stride, otherwise in the worker's scratch; there
//! they also wait between several blocks where the rows of the result lie pages apart, and the last block stores to the result.
//! After the last block of `k` the epilogue runs as a row loop over the block of rows just finished, which the cache still
//! holds. Packing and epilogue are nests, emitted by [`NestEmitter`]. The tile is a function of the program's own:
//! [`super::x86::tile`] where the machine has registers wider than CLIF's, else [`super::tile`].

use super::address::{Bases, Point};
use super::attribution::Attribution;
use super::clif::import_function;
use super::effort::Executed;
use super::fault::Faults;
use super::flow::{Flow, enter};
use super::lanes::{Lanes, flags};
use super::nest::{NestEmitter, WideRows};
use super::target::Target;
use super::tile;
use super::x86::tile::{Apart, Block, Blocks, Form, Left, PANEL_BYTES};
use crate::error::Result;
use crate::kernel::body::{Body, Mem, NodeId, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Contraction, Kernel, Loop, Nest, PAGE, ROW_BLOCK, Stage, Store};
use crate::object::Numbered;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{FuncRef, Function, InstBuilder, Signature, UserFuncName, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::FuncId;
use hashbrown::HashMap;

/// Rows that share one packing of the right operand, about.
const ROW_GROUP: i64 = 1024;
/// Columns of a strip, where there are strips.
const STRIP: i64 = 256;
/// Points that are enough for the strips of a packed operand to be twice as wide: the left one is then read half as often. Where the tile
/// packs that on its way, and the right one too or it is turned, groups of fewer rows may make up for the points: several workers then
/// pack the right one more often, which costs less.
const ENOUGH_POINTS: i64 = 8;
/// Sums of a group and a strip, where points are few and they wait for another block of `k`: so many stay in the second cache, also where
/// their rows lie a page apart and share a part of its sets.
const WAITING: i64 = 1 << 17;
/// Rows of the left operand that lie pages apart, all in one set of the first cache and in few of the second, are packed where a part
/// has more of them than this, of which a set has room.
const WAYS: i64 = 8;
/// A right operand is packed where it is at least this large, in bytes, ...
const PACK_BYTES: i64 = 1 << 19;
/// ... and serves at least this many rows; of a tile that does not pack on its way, twice as many.
const PACK_ROWS: i64 = 96;

/// Instructions around a call of the tile, about.
const TILE_CALL: i64 = 64;
/// Products of one instruction of a tile.
const PRODUCTS: i64 = 16;

/// Elements along either side of a square that is turned in registers while it is packed.
const SQUARE: i64 = 16;

/// Axes of the nests made here are numbered from these on.
const PANEL_AXIS: Axis = Axis(1 << 24);
const COLUMN_AXIS: Axis = Axis((1 << 24) + 1);
const STRIP_AXIS: Axis = Axis((1 << 24) + 2);
const BLOCK_AXIS: Axis = Axis((1 << 24) + 3);
const SQUARES_DOWN_AXIS: Axis = Axis((1 << 24) + 4);
const SQUARES_ALONG_AXIS: Axis = Axis((1 << 24) + 5);
const IN_SQUARE_AXIS: Axis = Axis((1 << 24) + 6);
const PIECE_AXIS: Axis = Axis((1 << 24) + 7);

/// Where sums lie between blocks of `k` and before the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sums {
    /// In the buffer of the store of that number.
    Store(usize),
    /// In scratch.
    Scratch,
}

/// How a contraction is cut.
#[derive(Clone, Debug)]
pub struct Plan {
    mem: Mem,
    pack_lhs: bool,
    /// Strides of the left operand along rows and steps, within a block.
    lhs: (i64, i64),
    pack_rhs: bool,
    /// Whether the right operand, which is packed, lies along `k`.
    turns_rhs: bool,
    /// Whether the tile packs the right operand on its way through the first rows of a group.
    tile_packs: bool,
    /// Whether it packs a block of rows of the left one on its way through their first columns.
    tile_packs_left: bool,
    /// Elements from one row of the right operand to the next where it lies; of a panel where nothing walks that.
    rhs_row: i64,
    sums: Sums,
    /// Whether unfinished sums wait in scratch, those of a block of rows and a panel behind each other, and only the last block of `k`
    /// stores where the finished ones lie.
    waits: bool,
    /// Columns of a panel.
    panel: i64,
    /// Columns of a strip, rows of a group, rows of a block, steps of a block.
    strip: i64,
    group: i64,
    rows: i64,
    steps: i64,
    /// Groups that are joined where one worker has them.
    joined: i64,
    batch: i64,
    m: i64,
    n: i64,
    k: i64,
}

/// `extent` cut into equal parts of at most `most`, each a multiple of `unit` (the last may be shorter): one part.
fn cut(extent: i64, most: i64, unit: i64) -> i64 {
    let parts = extent.div_euclid(most) + i64::from(extent % most != 0);
    let part = extent / parts + i64::from(extent % parts != 0);
    (part + unit - 1) / unit * unit
}

fn parts(extent: i64, part: i64) -> i64 {
    (extent + part - 1) / part
}

impl Plan {
    /// Cuts a contraction, for a tile of the form, which packs, or for CLIF's.
    pub fn new(c: &Contraction, form: Option<Form>) -> Plan {
        let mem = c.product.mem();
        let bytes = mem.bytes();
        let (m, n, k) = (c.m.extent, c.n.extent, c.k.extent);
        let panel = PANEL_BYTES / bytes;
        // Blocks of rows in which the left operand is linear, as it is in those of steps.
        let (mut rows, steps) = (cut(m, ROW_BLOCK, 12), c.block);
        let mut lhs = None;
        let runs = (c.lhs.index.run(c.m.axis, m), c.lhs.index.run(c.k.axis, k));
        if let ((Some((_, row)), Some((run, step))), Some(part)) = (runs, Contraction::rows_of_run(&c.lhs.index, c.m))
            && (run == k || run % steps == 0)
        {
            rows = if part == m { rows } else { part };
            lhs = Some((row, step));
        }
        let pack_lhs = lhs.is_none();
        let unit = |stride: Option<i64>, extent: i64| extent == 1 || stride == Some(1);
        let walk = c.rhs.index.stride(c.k.axis).filter(|_| unit(c.rhs.index.stride(c.n.axis), n));
        let tile_packs = form.is_some() && walk.is_some();
        let large = k.saturating_mul(n).saturating_mul(bytes) >= PACK_BYTES
            && m >= if tile_packs { PACK_ROWS } else { 2 * PACK_ROWS };
        let pack_rhs = walk.is_none() || large;
        let pages = |elements: i64| elements != 0 && elements * bytes % PAGE == 0;
        let many = form.is_some_and(|form| form.rows() > WAYS);
        let tile_packs_left = pack_rhs && many && n > panel && lhs.is_some_and(|(row, _)| pages(row));
        let tile_packs = tile_packs && pack_rhs;
        let strides = (c.rhs.index.stride(c.k.axis), c.rhs.index.stride(c.n.axis));
        let along_k = matches!(strides, (Some(1), Some(across)) if across != 1);
        let turns_rhs = pack_rhs && along_k && steps % SQUARE == 0 && k >= SQUARE;
        let rhs_row = walk.unwrap_or(panel);
        let holds = |s: &Store| {
            let mut values = false;
            s.index.for_each_value(&mut |_| values = true);
            !values && s.mem == mem && unit(s.index.stride(c.n.axis), n) && s.index.stride(c.m.axis).is_some()
        };
        let plain = c.stores.iter().position(|s| holds(s) && is_sum(&c.epilogue, s.value));
        let sums = match plain.or_else(|| c.stores.iter().position(holds)) {
            Some(i) => Sums::Store(i),
            None => Sums::Scratch,
        };
        let strips = pack_rhs || sums == Sums::Scratch || m < 4 * ROW_BLOCK;
        // Of one panel whose rows can be walked, packing is little work: the rows of the left operand are read to their ends before the
        // next ones.
        let most_rows = if n <= panel && walk.is_some() { rows } else { ROW_GROUP };
        let group = |most_rows: i64| if pack_rhs { cut(m, most_rows, rows) } else { rows };
        let batch: i64 = c.batch.iter().map(|l| l.extent).product();
        let wide = |most_rows: i64| {
            let points = parts(m, group(most_rows)).saturating_mul(parts(n, 2 * STRIP)).saturating_mul(batch);
            pack_rhs && points >= ENOUGH_POINTS
        };
        let whole_groups = wide(most_rows);
        let few_rows = tile_packs_left && (tile_packs || turns_rhs) && wide(most_rows.min(WAITING / (2 * STRIP)));
        let most = if whole_groups || few_rows { 2 * STRIP } else { STRIP };
        let strip = if strips && n > most { cut(n, most, panel) } else { n };
        let waiting = if whole_groups { ROW_GROUP } else { WAITING / strip };
        let group = group(most_rows.min(waiting.max(rows)));
        let groups = parts(m, group);
        let most_joined = if pack_rhs { parts(most_rows, group) } else { 1 };
        let joined = (1..=most_joined).rev().find(|joined| groups % joined == 0).unwrap_or(1);
        let lhs = lhs.unwrap_or_default();
        let waits = match sums {
            Sums::Store(i) => pack_rhs && k > 2 * steps && c.stores[i].index.stride(c.m.axis).is_some_and(pages),
            Sums::Scratch => false,
        };
        Plan {
            mem,
            pack_lhs,
            lhs,
            pack_rhs,
            turns_rhs,
            tile_packs,
            tile_packs_left,
            rhs_row,
            sums,
            waits,
            panel,
            strip,
            group,
            rows,
            steps,
            joined,
            batch,
            m,
            n,
            k,
        }
    }

    /// Columns that go through the tile at once.
    fn width(&self) -> i64 {
        if self.pack_rhs { self.panel } else { self.strip }
    }

    /// Elements from one row of the left operand to the next.
    fn lhs_row(&self) -> i64 {
        if self.pack_lhs { self.steps } else { self.lhs.0 }
    }

    /// The blocks that go through the tile.
    pub fn blocks(&self) -> Blocks {
        // Groups are whole blocks of rows, strips whole panels; the last of each may be shorter.
        let sizes = |extent: i64, part: i64| [part, extent % part].into_iter().filter(move |&s| 0 < s && s <= extent);
        let width = self.width();
        let bytes = |elements: i64| elements.saturating_mul(self.mem.bytes());
        let mut all = Blocks::new();
        for group in sizes(self.m, self.group.min(self.m)) {
            let blocks = (0..group).step_by(self.rows as usize).flat_map(|at| {
                let packs = at == 0 && self.tile_packs;
                // A group that is joined to others before finds what they packed.
                [(at, packs), (at, packs && self.joined == 1)]
            });
            for (at, packs) in blocks {
                let right = if packs || !self.pack_rhs { self.rhs_row } else { self.panel };
                let rows = self.rows.min(group - at);
                for strip in sizes(self.n, self.strip.min(self.n)) {
                    for from in (0..strip).step_by(width as usize) {
                        let left = match self.tile_packs_left {
                            false => Left::Lies,
                            true if from == 0 => Left::Packs,
                            true => Left::Packed,
                        };
                        let row = if left == Left::Packed { 0 } else { self.lhs_row() };
                        let apart = Apart::of(bytes(row), bytes(right));
                        all.insert(Block { rows, columns: width.min(strip - from), apart, packs, left });
                    }
                }
            }
        }
        all
    }

    /// Points of the parallel space.
    pub fn points(&self) -> i64 {
        self.batch.saturating_mul(parts(self.m, self.group)).saturating_mul(parts(self.n, self.strip))
    }

    /// Columns of a strip's panels.
    fn panels(&self) -> i64 {
        parts(self.strip, self.panel) * self.panel
    }

    /// Bytes of each part of a worker's scratch: packed left rows, packed right strip, sums.
    fn scratch_parts(&self) -> [i64; 3] {
        let line = |elements: i64| (elements * self.mem.bytes() + 63) / 64 * 64;
        [
            if self.pack_lhs || self.tile_packs_left { line(self.rows * self.steps) } else { 0 },
            if self.pack_rhs { line(self.panels() * self.steps) } else { 0 },
            match self.sums {
                Sums::Scratch => line(self.joined * self.group * self.strip),
                Sums::Store(_) if self.waits => line(self.joined * self.group * self.panels()),
                Sums::Store(_) => 0,
            },
        ]
    }

    /// Bytes of scratch that a worker needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.scratch_parts().iter().sum::<i64>() as u64
    }
}

fn is_sum(body: &Body, node: NodeId) -> bool {
    body.node(node).op == Op::Arg(0)
}

/// What the function of a contraction needs besides the contraction.
pub struct Surroundings<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The machine.
    pub target: &'a Target,
    /// The tile function for the product.
    pub tile: FuncId,
    /// How the contraction is cut for it.
    pub plan: Plan,
    /// What the kernel comes from.
    pub attribution: Attribution,
}

/// `fn(buffers: *const *mut u8, begin: i64, end: i64, scratch: *mut u8, cx: *const Context)`; the context is not looked at. And what it
/// executes.
pub fn function(
    id: FuncId,
    signature: Signature,
    c: &Contraction,
    around: Surroundings<'_>,
    rows: Option<&mut WideRows<'_>>,
) -> Result<(Function, Executed)> {
    let mut function = Function::with_name_signature(UserFuncName::User(id.external_name()), signature);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let attribution = around.attribution.within(c.source);
    attribution.mark(&mut b, None);
    let values = enter(&mut b);
    let [buffers, begin, end, scratch] = [0, 1, 2, 3].map(|i| values[i]);
    let bases = Bases::load(&mut b, buffers, &c.buffers());
    let faults = Faults::default();
    let signature = b.import_signature(tile::signature(c.product));
    let tile = import_function(b.func, around.tile, signature);
    let parts = around.plan.scratch_parts();
    let lhs_pack = scratch;
    let rhs_pack = b.ins().iadd_imm_s(lhs_pack, parts[0]);
    let sums = b.ins().iadd_imm_s(rhs_pack, parts[1]);
    let mut emitter = Emitter {
        b,
        c,
        plan: around.plan,
        target: around.target,
        bases,
        behind: around.kernel.buffers.len() as u32,
        scratch: [lhs_pack, rhs_pack, sums],
        axes: HashMap::new(),
        tile,
        subnormal: None,
        rows,
        faults: &faults,
        attribution,
        executed: Executed::default(),
    };
    emitter.subnormal = c.subnormal.map(|buffer| {
        let word = emitter.address(buffer, &Ix::constant(0));
        emitter.b.ins().uload32(flags(), word, 0)
    });
    emitter.run(begin, end);
    emitter.b.ins().return_(&[]);
    let executed = emitter.executed;
    emitter.b.finalize(around.target.isa.frontend_config());
    faults.check()?;
    Ok((function, executed))
}

struct Emitter<'a, 'b, 'o> {
    b: FunctionBuilder<'b>,
    c: &'a Contraction,
    plan: Plan,
    target: &'a Target,
    bases: Bases,
    /// A number that no buffer of the kernel has: what a part of a nest writes to or reads from a worker's scratch.
    behind: u32,
    /// Packed left rows, packed right strip, sums.
    scratch: [Value; 3],
    axes: HashMap<Axis, Value>,
    tile: FuncRef,
    /// What the buffer of that name says ([`Contraction::subnormal`]).
    subnormal: Option<Value>,
    /// Where the rows of packing and epilogue may go.
    rows: Option<&'a mut WideRows<'o>>,
    faults: &'a Faults,
    attribution: Attribution,
    executed: Executed,
}

/// The right operand of a tile: start, elements from one row to the next, where to pack it (null where it is not).
#[derive(Clone, Copy)]
struct Right {
    start: Value,
    along: Value,
    pack: Value,
}

/// Sums of a tile: where they go, and what is added to them (null where nothing is); start and row stride, in elements.
#[derive(Clone, Copy)]
struct Total {
    to: [Value; 2],
    from: [Value; 2],
}

/// A matrix as the tile walks it: start, row stride, column or `k` stride, in elements.
#[derive(Clone, Copy)]
struct Walk {
    start: Value,
    row: i64,
    along: i64,
}

impl<'b> Flow<'b> for Emitter<'_, 'b, '_> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        &mut self.b
    }
}

impl Emitter<'_, '_, '_> {
    /// `min(part, extent - start)`; a constant where the parts are equal.
    fn length(&mut self, extent: i64, part: i64, start: Value) -> Value {
        let part_value = self.iconst(part);
        if extent % part == 0 {
            return part_value;
        }
        let extent = self.iconst(extent);
        let left = self.b.ins().isub(extent, start);
        self.b.ins().smin(part_value, left)
    }

    /// Emits one of two forms; only the first where it `always` holds.
    fn forms(&mut self, always: bool, is: Value, form: &mut dyn FnMut(&mut Self, bool)) {
        if always { form(self, true) } else { self.either(is, form) }
    }

    /// Runs a part of a nest, the whole of which is run so many times.
    fn nest(&mut self, nest: &Nest, times: i64, bases: &Bases, (begin, end): (Value, Value)) {
        let lanes = Lanes { b: &mut self.b, target: self.target, faults: self.faults, attribution: self.attribution };
        let around = (bases, self.scratch[0], self.axes.clone());
        let emitter = NestEmitter::new(lanes, nest, around, self.rows.as_deref_mut());
        self.executed.add(times, emitter.run(begin, end));
        self.attribution.mark(&mut self.b, None);
    }

    /// The stride of an operand that the plan walks where it lies.
    fn stride(&self, ix: &Ix, axis: Axis) -> i64 {
        ix.stride(axis).unwrap_or_else(|| {
            self.faults.report(format!("{ix} is walked along i{} without one stride", axis.0));
            0
        })
    }

    /// Address of the element that an index map gives for the current axes.
    fn address(&mut self, buffer: u32, ix: &Ix) -> Value {
        let mut lanes =
            Lanes { b: &mut self.b, target: self.target, faults: self.faults, attribution: self.attribution };
        let index = lanes.index(ix, Point { axes: &self.axes, values: &HashMap::new() });
        let base = lanes.base(&self.bases, buffer);
        self.element(base, index, self.plan.mem.bytes())
    }

    /// Points that are groups to be joined follow each other, a piece of a strip; from the first one and of the last one some may be missing.
    fn run(&mut self, begin: Value, end: Value) {
        let Plan { joined, .. } = self.plan;
        let [first, last] = if joined == 1 {
            [begin, end]
        } else {
            let (beyond, most) = (self.b.ins().iadd_imm_s(end, joined - 1), self.plan.points().saturating_add(joined));
            [begin, beyond].map(|point| self.divided(point, most, joined))
        };
        let pieces = Loop { axis: PIECE_AXIS, extent: parts(self.plan.m, self.plan.group) / joined };
        let strips = Loop { axis: STRIP_AXIS, extent: parts(self.plan.n, self.plan.strip) };
        let loops: Vec<Loop> = self.c.batch.iter().copied().chain([pieces, strips]).collect();
        self.count(first, last, 1, &mut |this, piece| {
            let plan = this.plan.clone();
            let axes = this.axes_of(&loops, piece);
            this.axes.extend(axes);
            let [group, strip] = [PIECE_AXIS, STRIP_AXIS].map(|axis| this.axes[&axis]);
            let column = this.b.ins().imul_imm_s(strip, plan.strip);
            let columns = this.length(plan.n, plan.strip, column);
            let [row, row_end] = this.rows_of(group, piece, (begin, end));
            let (zero, blocks) = (this.iconst(0), this.iconst(parts(plan.k, plan.steps)));
            this.count(zero, blocks, 1, &mut |this, block| {
                this.axes.insert(BLOCK_AXIS, block);
                this.block((row, row_end), (column, columns), block);
            });
        });
    }

    /// The rows of a piece, the `number`th of its strip, that are between two points.
    fn rows_of(&mut self, number: Value, piece: Value, (begin, end): (Value, Value)) -> [Value; 2] {
        let Plan { m, group, joined, .. } = self.plan;
        let row = self.b.ins().imul_imm_s(number, joined * group);
        if joined == 1 {
            let rows = self.length(m, group, row);
            return [row, self.b.ins().iadd(row, rows)];
        }
        let before = self.b.ins().imul_imm_s(piece, joined);
        let [from, to] = [begin, end].map(|point| self.b.ins().isub(point, before));
        let [none, all, last] = [0, joined, m].map(|n| self.iconst(n));
        let [from, to] = [self.b.ins().smax(from, none), self.b.ins().smin(to, all)].map(|groups| {
            let rows = self.b.ins().imul_imm_s(groups, group);
            self.b.ins().iadd(row, rows)
        });
        [from, self.b.ins().smin(to, last)]
    }

    /// One block of `k` of one group and strip.
    fn block(&mut self, (row, row_end): (Value, Value), (column, columns): (Value, Value), block: Value) {
        let plan = self.plan.clone();
        let bytes = plan.mem.bytes();
        let c = self.c;
        let blocks = parts(plan.k, plan.steps);
        let first = self.b.ins().imul_imm_s(block, plan.steps);
        let steps = self.length(plan.k, plan.steps, first);
        let end = self.b.ins().iadd(first, steps);
        self.axes.insert(c.k.axis, first);
        self.axes.insert(c.n.axis, column);
        let last = self.b.ins().icmp_imm_s(IntCC::Equal, block, blocks - 1);
        if plan.pack_rhs && !plan.tile_packs {
            self.pack_right((first, end), column);
        }
        self.count(row, row_end, plan.rows, &mut |this, r| {
            let left = this.b.ins().isub(row_end, r);
            let most = this.iconst(plan.rows);
            let rows = this.b.ins().smin(most, left);
            let rows_end = this.b.ins().iadd(r, rows);
            this.axes.insert(c.m.axis, r);
            let lhs = if plan.pack_lhs {
                this.pack_left((r, rows_end), last);
                Walk { start: this.scratch[0], row: plan.lhs_row(), along: 1 }
            } else {
                let start = this.address(c.lhs.buffer, &c.lhs.index);
                Walk { start, row: plan.lhs_row(), along: plan.lhs.1 }
            };
            let sums = match plan.sums {
                Sums::Store(i) => {
                    let s = &c.stores[i];
                    let start = this.address(s.buffer, &s.index);
                    Walk { start, row: this.stride(&s.index, c.m.axis), along: 1 }
                }
                Sums::Scratch => {
                    let down = this.b.ins().isub(r, row);
                    let start = this.element(this.scratch[2], down, plan.strip * bytes);
                    Walk { start, row: plan.strip, along: 1 }
                }
            };
            let zero = this.iconst(0);
            if plan.pack_rhs {
                let fresh = plan.tile_packs.then(|| {
                    let fresh = this.b.ins().icmp(IntCC::Equal, r, row);
                    (fresh, this.address(c.rhs.buffer, &c.rhs.index))
                });
                this.count(zero, columns, plan.panel, &mut |this, j| {
                    let left = this.b.ins().isub(columns, j);
                    let panel = this.iconst(plan.panel);
                    let n = this.b.ins().smin(panel, left);
                    let packed = this.element(this.scratch[1], j, plan.steps * bytes);
                    let at = this.element(sums.start, j, bytes);
                    let there = [at, this.iconst(sums.row)];
                    let mut total = Total { to: there, from: there };
                    if plan.waits {
                        let down = this.b.ins().isub(r, row);
                        let down = this.element(this.scratch[2], down, plan.panels() * bytes);
                        let waiting = [this.element(down, j, plan.rows * bytes), panel];
                        let to = [0, 1].map(|i| this.b.ins().select(last, there[i], waiting[i]));
                        total = Total { to, from: waiting };
                    }
                    total.from[0] = this.b.ins().select(block, total.from[0], zero);
                    let (mut start, mut along, mut pack) = (packed, panel, zero);
                    if let Some((fresh, lies)) = fresh {
                        let (lies, lies_along) = (this.element(lies, j, bytes), this.iconst(plan.rhs_row));
                        start = this.b.ins().select(fresh, lies, packed);
                        along = this.b.ins().select(fresh, lies_along, panel);
                        pack = this.b.ins().select(fresh, packed, zero);
                    }
                    let rhs = Right { start, along, pack };
                    let (mut lhs, mut pack_left) = (lhs, zero);
                    if plan.tile_packs_left {
                        let first = this.b.ins().icmp_imm_s(IntCC::Equal, j, 0);
                        lhs.start = this.b.ins().select(first, lhs.start, zero);
                        pack_left = this.scratch[0];
                    }
                    this.tile(steps, (lhs, pack_left), rhs, total, (rows, n));
                });
            } else {
                let start = this.address(c.rhs.buffer, &c.rhs.index);
                let rhs = Right { start, along: this.iconst(plan.rhs_row), pack: zero };
                let (there, row) = (sums.start, this.iconst(sums.row));
                let from = this.b.ins().select(block, there, zero);
                let total = Total { to: [there, row], from: [from, row] };
                this.tile(steps, (lhs, zero), rhs, total, (rows, columns));
            }
            if this.epilogue_stores().is_empty() {
                return;
            }
            if blocks == 1 {
                this.epilogue((r, rows_end), row, (column, columns));
                return;
            }
            let (finish, after) = (this.b.create_block(), this.b.create_block());
            this.b.ins().brif(last, finish, &[], after, &[]);
            this.b.switch_to_block(finish);
            this.b.seal_block(finish);
            this.epilogue((r, rows_end), row, (column, columns));
            this.b.ins().jump(after, &[]);
            this.b.switch_to_block(after);
            this.b.seal_block(after);
        });
    }

    /// Calls the tile; the left operand with where its rows are packed, or null.
    fn tile(&mut self, steps: Value, (lhs, pack_left): (Walk, Value), rhs: Right, sums: Total, (m, n): (Value, Value)) {
        let [lhs_row, lhs_along] = [lhs.row, lhs.along].map(|s| self.iconst(s));
        let (a, b) = ([lhs.start, lhs_row, lhs_along], [rhs.start, rhs.along]);
        let last = [rhs.pack, pack_left];
        let subnormal = self.subnormal.as_slice();
        let arguments = [&[steps], &a[..], &b, &sums.to, &[m, n], &sums.from, &last, subnormal].concat();
        self.b.ins().call(self.tile, &arguments);
        let plan = &self.plan;
        let all =
            [plan.points(), parts(plan.group, plan.rows), parts(plan.k, plan.steps), parts(plan.strip, plan.width())];
        self.executed.add_own(all.into_iter().fold(1, i64::saturating_mul), TILE_CALL);
        self.executed.add_called(1, self.c.products() / PRODUCTS);
    }

    /// A nest that copies elements: a row loop for each point of `parallel` and `inner`.
    fn copy_nest(&self, buffer: u32, [from, to]: [Ix; 2], (parallel, inner): (Loop, Vec<Loop>), row: Loop) -> Nest {
        let mut body = Body::new();
        let mem = self.plan.mem;
        let value = body.push(Op::Load(buffer, mem, from), &[], mem.scalar());
        let stores = vec![Store { buffer: self.behind, mem, index: to, value }];
        let stage = Stage { stores, ..Stage::new(inner, row, body) };
        Nest { parallel: vec![parallel], rows: Vec::new(), stages: vec![stage] }
    }

    fn copy(&mut self, nest: &Nest, times: i64, destination: Value, range: (Value, Value)) {
        let bases = self.bases.clone().with(self.behind, destination);
        self.nest(nest, times, &bases, range);
    }

    /// Packs `k` from `first` to `end` of a strip: panels one after another, the columns of a panel side by side. Where those are side
    /// by side already, rows are read to their ends, for they lie far apart; else a panel is read to its end before the next.
    fn pack_right(&mut self, (first, end): (Value, Value), column: Value) {
        let plan = self.plan.clone();
        let c = self.c;
        let strips = parts(plan.n, plan.strip);
        let by_row = c.rhs.index.stride(c.n.axis) == Some(1);
        // The nest counts `k` from the start of the operand.
        let before = self.b.ins().imul_imm_s(first, -plan.panel * plan.mem.bytes());
        let destination = self.b.ins().iadd(self.scratch[1], before);
        let last = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, column, plan.n - plan.strip - 1);
        self.forms(plan.n % plan.strip == 0, last, &mut |this, is_last| {
            let columns = if is_last { plan.n - (strips - 1) * plan.strip } else { plan.strip };
            let (panels, rest) = (columns / plan.panel, columns % plan.panel);
            for (begin, panels, width) in [(0, panels, plan.panel), (panels, rest.min(1), rest)] {
                if panels == 0 {
                    continue;
                }
                let all = Loop { axis: PANEL_AXIS, extent: panels };
                let row = Loop { axis: COLUMN_AXIS, extent: width };
                let times = (plan.points() / plan.joined).saturating_mul(if by_row { 1 } else { panels });
                let panel = all.ix().offset(begin);
                let at = Ix::axis(STRIP_AXIS, strips).scale(plan.strip).add(&panel.scale(plan.panel)).add(&row.ix());
                let from = c.rhs.index.substitute(&|a| (a == c.n.axis).then(|| at.clone()));
                let to = panel.scale(plan.panel * plan.steps).add(&c.k.ix().scale(plan.panel)).add(&row.ix());
                let rows = |this: &mut Self, range: (Value, Value), inner: Vec<Loop>| {
                    let nest = this.copy_nest(c.rhs.buffer, [from.clone(), to.clone()], (c.k, inner), row);
                    this.copy(&nest, times, destination, range);
                };
                let turned = plan.turns_rhs && width % SQUARE == 0;
                let panel = |this: &mut Self| {
                    if !turned {
                        return rows(this, (first, end), Vec::new());
                    }
                    let range = [first, end].map(|k| this.b.ins().sshr_imm_u(k, i64::from(SQUARE.ilog2())));
                    let nest = this.turned(&from, &to, row);
                    this.copy(&nest, times, destination, (range[0], range[1]));
                    if plan.k % SQUARE != 0 {
                        let whole = this.b.ins().imul_imm_s(range[1], SQUARE);
                        rows(this, (whole, end), Vec::new());
                    }
                };
                if by_row && panels > 1 {
                    rows(this, (first, end), vec![all]);
                } else if panels == 1 {
                    panel(this);
                } else {
                    let (zero, panels) = (this.iconst(0), this.iconst(panels));
                    this.count(zero, panels, 1, &mut |this, number| {
                        this.axes.insert(PANEL_AXIS, number);
                        panel(this);
                    });
                }
            }
        });
    }

    /// The nest that copies the whole squares of a panel: what lies side by side along `k` is turned.
    fn turned(&self, from: &Ix, to: &Ix, row: Loop) -> Nest {
        let c = self.c;
        let down = Loop { axis: SQUARES_DOWN_AXIS, extent: self.plan.k / SQUARE };
        let along = Loop { axis: SQUARES_ALONG_AXIS, extent: row.extent / SQUARE };
        let inner = Loop { axis: IN_SQUARE_AXIS, extent: SQUARE };
        let vector = Loop { axis: row.axis, extent: SQUARE };
        let k = down.ix().scale(SQUARE).add(&inner.ix());
        let column = along.ix().scale(SQUARE).add(&vector.ix());
        let at = |ix: &Ix| {
            ix.substitute(&|a| match a {
                a if a == c.k.axis => Some(k.clone()),
                a if a == row.axis => Some(column.clone()),
                _ => None,
            })
        };
        self.copy_nest(c.rhs.buffer, [at(from), at(to)], (down, vec![along, inner]), vector)
    }

    /// Packs a block of rows of the left operand, a row after another.
    fn pack_left(&mut self, (row, row_end): (Value, Value), last: Value) {
        let plan = self.plan.clone();
        let c = self.c;
        let blocks = parts(plan.k, plan.steps);
        let times = plan.batch.saturating_mul(parts(plan.n, plan.strip)).saturating_mul(blocks);
        // The nest counts rows from the start of the operand.
        let before = self.b.ins().imul_imm_s(row, -plan.steps * plan.mem.bytes());
        let destination = self.b.ins().iadd(self.scratch[0], before);
        let even = plan.k % plan.steps == 0;
        self.forms(even, last, &mut |this, is_last| {
            let extent = if is_last { plan.k - (blocks - 1) * plan.steps } else { plan.steps };
            let step = Ix::axis(COLUMN_AXIS, extent);
            let at = Ix::axis(BLOCK_AXIS, blocks).scale(plan.steps).add(&step);
            let from = c.lhs.index.substitute(&|a| (a == c.k.axis).then(|| at.clone()));
            let to = c.m.ix().scale(plan.steps).add(&step);
            let steps = Loop { axis: COLUMN_AXIS, extent };
            let nest = this.copy_nest(c.lhs.buffer, [from, to], (c.m, Vec::new()), steps);
            this.copy(&nest, times, destination, (row, row_end));
        });
    }

    /// The stores that are not done once the sums are finished.
    fn epilogue_stores(&self) -> Vec<&Store> {
        let c = self.c;
        c.stores
            .iter()
            .enumerate()
            .filter(|(i, s)| self.plan.sums != Sums::Store(*i) || !is_sum(&c.epilogue, s.value))
            .map(|(_, s)| s)
            .collect()
    }

    /// Computes what is stored of finished rows.
    fn epilogue(&mut self, (row, row_end): (Value, Value), group: Value, (column, _): (Value, Value)) {
        let plan = self.plan.clone();
        let c = self.c;
        let strips = parts(plan.n, plan.strip);
        let times = plan.batch.saturating_mul(strips);
        // Sums in scratch are counted from the group's first row.
        let before = self.b.ins().imul_imm_s(group, -plan.strip * plan.mem.bytes());
        let sums = self.b.ins().iadd(self.scratch[2], before);
        let last = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, column, plan.n - plan.strip - 1);
        let even = plan.n % plan.strip == 0;
        let bases = self.bases.clone().with(self.behind, sums);
        self.forms(even, last, &mut |this, is_last| {
            let extent = if is_last { plan.n - (strips - 1) * plan.strip } else { plan.strip };
            let vector = Loop { axis: COLUMN_AXIS, extent };
            let at = Ix::axis(STRIP_AXIS, strips).scale(plan.strip).add(&vector.ix());
            let change = |ix: &Ix| ix.substitute(&|a| (a == c.n.axis).then(|| at.clone()));
            let (buffer, index) = match plan.sums {
                Sums::Store(i) => (c.stores[i].buffer, change(&c.stores[i].index)),
                Sums::Scratch => (this.behind, c.m.ix().scale(plan.strip).add(&vector.ix())),
            };
            let mut body = Body::new();
            let mut places: Vec<NodeId> = Vec::new();
            for (id, node) in (0..).map(NodeId).zip(c.epilogue.nodes()) {
                let op = match &node.op {
                    Op::Arg(0) => Op::Load(buffer, plan.mem, index.clone()),
                    op => op.map_index(change),
                };
                let args: Vec<NodeId> = node.args.iter().map(|a| places[a.0 as usize]).collect();
                body.set_source(c.epilogue.source(id));
                places.push(body.push(op, &args, node.scalar));
            }
            let stores = this
                .epilogue_stores()
                .into_iter()
                .map(|s| Store { index: change(&s.index), value: places[s.value.0 as usize], ..s.clone() })
                .collect();
            let stage = Stage { stores, ..Stage::new(Vec::new(), vector, body) };
            let nest = Nest { parallel: vec![c.m], rows: Vec::new(), stages: vec![stage] };
            this.nest(&nest, times, &bases, (row, row_end));
        });
    }
}

#[cfg(test)]
mod tests;
