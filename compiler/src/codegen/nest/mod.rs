//! Nests as CLIF: the parallel loop, the stages, and the row loop that is handed nodes in blocks of four.
//!
//! **Problem.** A stage computes along one axis, in vectors, from values of which some are the same along the whole axis,
//! some lie in memory with a stride, and some are found through loaded offsets; and it may fold what it computes.
//!
//! **Invariant.** Which lane of a reduction an element is folded into depends on its number alone, so that the bits are
//! the same however the loop is unrolled or cut.
//!
//! **Algorithm.** [`analysis`] finds what varies along the axis. What does not is computed before the row loop, with the
//! pointers of all accesses that are linear in the axis. The row loop then takes several blocks a turn, single blocks, and
//! single elements ([`elements`]); accumulators are variables for each lane, and folded by halves at the end ([`fold`]).

mod analysis;
mod elements;
mod fold;
mod wide_rows;

pub(super) use analysis::{StageInfo, linear_stride, store_varies};
pub use wide_rows::WideRows;

use super::flow::{Flow, Point};
use super::lanes::{BLOCK, Lanes, Val};
use crate::kernel::body::{Lane, Mem, NodeId, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Loop, Nest, Place, Stage};
use analysis::analyse;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use fold::Mode;
use std::collections::HashMap;

/// Bytes of row buffers that a worker needs for a nest: each starts on a 64-byte line.
pub fn scratch_bytes(nest: &Nest) -> u64 {
    nest.rows.iter().map(|r| row_bytes(r.elements, r.lane)).sum()
}

fn row_bytes(elements: i64, lane: Lane) -> u64 {
    (elements as u64 * u64::from(lane.bits() / 8)).next_multiple_of(64)
}

/// Emits one nest.
pub struct NestEmitter<'f, 'b, 'k> {
    /// Where code goes.
    pub lanes: Lanes<'f, 'b>,
    /// Pointer of each buffer of the kernel.
    pub bases: &'k [Value],
    /// The worker's row buffers.
    pub scratch: Value,
    /// The loop variables that are running.
    pub axes: HashMap<Axis, Value>,
    /// Finished reductions of the current point.
    pub results: HashMap<u32, Value>,
    /// What is emitted.
    pub nest: &'k Nest,
    /// Where rows may go that are worth 256-bit registers.
    pub wide: Option<&'k mut WideRows>,
}

impl<'b> Flow<'b> for NestEmitter<'_, 'b, '_> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        self.lanes.b
    }
}

impl NestEmitter<'_, '_, '_> {
    /// Runs the stages for every point from `begin` to `end` of the parallel space.
    pub fn run(&mut self, begin: Value, end: Value) {
        let nest = self.nest;
        self.count(begin, end, 1, &mut |this, p| {
            let axes = this.axes_of(&nest.parallel, p);
            this.axes.extend(axes);
            for stage in &nest.stages {
                this.stage(stage);
            }
        });
    }

    /// The value of an index expression; linear occurrences of `without` count as 0.
    fn at(&mut self, ix: &Ix, without: Option<Axis>, values: &HashMap<NodeId, Value>) -> Value {
        self.lanes.index(ix, without, Point { axes: &self.axes, values })
    }

    fn row_pointer(&mut self, row: u32) -> (Value, Lane) {
        let before: u64 = self.nest.rows[..row as usize].iter().map(|r| row_bytes(r.elements, r.lane)).sum();
        let scratch = self.scratch;
        (self.b().ins().iadd_imm_s(scratch, before as i64), self.nest.rows[row as usize].lane)
    }

    fn stage(&mut self, stage: &Stage) {
        let mut info = analyse(stage);
        // Initial values do not depend on the sequential axes: they are computed before those loops.
        let init: Vec<Vec<Value>> = stage
            .accumulators
            .iter()
            .map(|a| a.init.iter().map(|&n| self.uniform_node(stage, &mut info, n)).collect())
            .collect();
        let modes: Vec<Option<Mode>> =
            stage.accumulators.iter().zip(&init).map(|(a, init)| self.start(stage, a, init)).collect();
        if !self.wide_tile(stage) {
            self.sequential(stage, &stage.sequential, &modes);
        }
        for ((a, mode), init) in stage.accumulators.iter().zip(&modes).zip(&init) {
            if let (Some(mode), Place::Lanes { results }) = (mode, &a.place) {
                let folded = self.fold(a, mode, init);
                self.results.extend(results.iter().copied().zip(folded));
            }
        }
    }

    fn sequential(&mut self, stage: &Stage, loops: &[Loop], modes: &[Option<Mode>]) {
        match loops {
            [first, rest @ ..] => {
                let axis = first.axis;
                self.count_constant(0, first.extent, 1, &mut |this, i| {
                    this.axes.insert(axis, i);
                    this.sequential(stage, rest, modes);
                });
            }
            [] => self.row_loop(stage, modes),
        }
    }

    /// Everything that happens along the vector axis, once.
    fn row_loop(&mut self, stage: &Stage, modes: &[Option<Mode>]) {
        let mut info = analyse(stage);
        self.uniform_nodes(stage, &mut info);
        self.row_pointers(stage, &mut info);
        let n = stage.vector.extent;
        let varying = stage.stores.iter().any(|s| store_varies(stage, &info, s))
            || !stage.row_stores.is_empty()
            || !stage.accumulators.is_empty();
        if varying {
            let in_lanes = modes.iter().any(|m| matches!(m, Some(Mode::Blocks(_))));
            let few = modes.iter().any(|m| matches!(m, Some(Mode::Few(_))));
            let chained = few || modes.iter().any(|m| matches!(m, Some(Mode::Chain(_))));
            let mut width = if in_lanes { stage.lane_count() } else { unroll(stage, &info) * BLOCK };
            let mut done = 0;
            // Where some accumulators have lanes and others are chains, blocks are computed and the chains take their
            // elements one by one.
            if chained && !in_lanes {
                if few {
                    for i in 0..n {
                        let at = self.iconst(i);
                        self.elements(stage, &info, modes, at, 0, false, i, false);
                    }
                } else {
                    self.count_constant(0, n, 1, &mut |this, i| {
                        this.elements(stage, &info, modes, i, 0, false, 0, false);
                    });
                }
                done = n;
            }
            // The first elements give accumulators without an identity their start.
            let starts = in_lanes && stage.accumulators.iter().any(|a| a.identity.is_none());
            if starts && n >= width {
                let zero = self.iconst(0);
                for block in 0..width / BLOCK {
                    self.elements(stage, &info, modes, zero, block * BLOCK, true, block * BLOCK, true);
                }
                done = width;
            }
            let wide = self.wide_rows(stage, &mut info, modes, done);
            if wide > done && !in_lanes {
                // Few elements are left.
                width = BLOCK;
            }
            done = wide;
            let whole = done + (n - done) / width * width;
            self.count_constant(done, whole, width, &mut |this, i| {
                for block in 0..width / BLOCK {
                    this.elements(stage, &info, modes, i, block * BLOCK, true, block * BLOCK, false);
                }
            });
            // The tail: single blocks, then single elements, each in the lane that its number says.
            let blocks = (n - whole) / BLOCK;
            if in_lanes {
                let at = self.iconst(whole);
                let first = starts && whole == 0;
                for block in 0..blocks {
                    self.elements(stage, &info, modes, at, block * BLOCK, true, block * BLOCK, first);
                }
                for e in blocks * BLOCK..n - whole {
                    self.elements(stage, &info, modes, at, e, false, e, first);
                }
            } else {
                self.count_constant(whole, whole + blocks * BLOCK, BLOCK, &mut |this, i| {
                    this.elements(stage, &info, modes, i, 0, true, 0, false);
                });
                self.count_constant(whole + blocks * BLOCK, n, 1, &mut |this, i| {
                    this.elements(stage, &info, modes, i, 0, false, 0, false);
                });
            }
        }
        for s in &stage.stores {
            if !store_varies(stage, &info, s) {
                let index = self.at(&s.index, None, &info.uniform);
                let at = self.element(self.bases[s.buffer as usize], index, s.mem.bytes());
                let v = self.uniform_node(stage, &mut info, s.value);
                self.lanes.store_one(s.mem, v, at, 0);
            }
        }
    }

    /// Computes what does not differ along the row.
    fn uniform_nodes(&mut self, stage: &Stage, info: &mut StageInfo) {
        for i in 0..stage.body.nodes().len() {
            let id = NodeId(i as u32);
            if info.needed[i] && !info.varies[i] {
                self.uniform_node(stage, info, id);
            }
        }
    }

    fn row_pointers(&mut self, stage: &Stage, info: &mut StageInfo) {
        let axis = stage.vector.axis;
        for (i, node) in stage.body.nodes().iter().enumerate() {
            if let Op::Load(buffer, mem, ix) = &node.op
                && info.needed[i]
                && info.varies[i]
                && let Some(stride) = linear_stride(ix, axis, info)
            {
                let index = self.at(ix, Some(axis), &info.uniform);
                let pointer = self.element(self.bases[*buffer as usize], index, mem.bytes());
                info.loads.insert(NodeId(i as u32), (pointer, stride));
            }
        }
        for (i, s) in stage.stores.iter().enumerate() {
            if store_varies(stage, info, s)
                && let Some(stride) = linear_stride(&s.index, axis, info)
            {
                let index = self.at(&s.index, Some(axis), &info.uniform);
                let pointer = self.element(self.bases[s.buffer as usize], index, s.mem.bytes());
                info.stores.insert(i, (pointer, stride));
            }
        }
    }

    /// The scalar of a node that is the same along the vector axis.
    fn uniform_node(&mut self, stage: &Stage, info: &mut StageInfo, id: NodeId) -> Value {
        if let Some(&v) = info.uniform.get(&id) {
            return v;
        }
        let node = stage.body.node(id);
        let v = match &node.op {
            Op::Const(bits) => return self.lanes.constant(node.lane, *bits),
            Op::Load(buffer, mem, ix) => {
                ix.for_each_value(&mut |n| {
                    self.uniform_node(stage, info, n);
                });
                let index = self.at(ix, None, &info.uniform);
                let at = self.element(self.bases[*buffer as usize], index, mem.bytes());
                self.lanes.load_one(*mem, at, 0)
            }
            Op::Result(n) => match self.results.get(n) {
                Some(&v) => v,
                None => self.lanes.missing(node.lane, format!("result {n} is used before it is folded")),
            },
            Op::Index(ix) => {
                let v = self.at(ix, None, &info.uniform);
                if node.lane == Lane::I32 { self.b().ins().ireduce(types::I32, v) } else { v }
            }
            Op::Row(row) => {
                let (pointer, lane) = self.row_pointer(*row);
                self.lanes.load_one(Mem::of(lane), pointer, 0)
            }
            op => {
                let args: Vec<Val> = node.args.iter().map(|&a| Val::One(self.uniform_node(stage, info, a))).collect();
                let from: Vec<Lane> = node.args.iter().map(|&a| stage.body.lane(a)).collect();
                let v = self.lanes.node(op, &args, &from, node.lane);
                self.lanes.scalar(v)
            }
        };
        info.uniform.insert(id, v);
        v
    }
}

/// Blocks in one turn of a row loop: light bodies are unrolled to hide the loop's own work.
fn unroll(stage: &Stage, info: &StageInfo) -> i64 {
    let wide = stage.body.nodes().iter().any(|n| n.lane.bits() == 64);
    match info.nodes() {
        0..=10 if !wide => 4,
        0..=40 => 2,
        _ => 1,
    }
}
