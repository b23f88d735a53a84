//! Nests as CLIF: the parallel loop, the stages, and the row loop that is handed nodes in vectors of four.
//!
//! **Problem.** A stage computes along one axis, in vectors, from values of which some are the same along the whole axis,
//! some lie in memory with a stride, and some are found through loaded offsets; and it may fold what it computes.
//!
//! **Invariant.** Which lane of a reduction an element is folded into depends on its number alone, so that the bits are
//! the same however the loop is unrolled or cut.
//!
//! **Algorithm.** A stage's plan ([`RowLoop`]) says what varies along the axis. What does not is computed before the row loop,
//! with the pointers of all accesses that walk. The row then goes by in the plan's segments, in vectors and in single
//! elements ([`elements`]); accumulators are variables for each lane, and folded by halves at the end ([`fold`]).

mod elements;
mod fold;
mod guarded;
mod transposed;
mod wide_rows;

use wide_rows::WideRow;
pub use wide_rows::{WideFunctions, WideRows};

use super::address::{Bases, Point};
use super::effort::Executed;
use super::flow::Flow;
use super::lanes::{Lanes, Shape, Val, clif_type};
use super::rows::{Access, Form, RowLoop, Segment, VECTOR, Width, passes};
use super::vector::{self, Isa};
use super::wide::row_function;
use crate::kernel::body::{Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Loop, Nest, Place, RowBuffer, Stage, Store};
use crate::schedule::cost::depth;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use elements::Elements;
use fold::Running;
use guarded::Guarded;
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Instructions around the elements of a row, about.
const AROUND: i64 = 32;
/// Those that fold the lanes of a reduction.
const FOLD: i64 = 32;

/// Bytes of row buffers that a worker needs for a nest: each starts on a 64-byte line.
pub fn scratch_bytes(nest: &Nest) -> u64 {
    nest.rows.iter().map(row_bytes).sum()
}

/// Bytes of a row buffer; one of a single element is a register.
fn row_bytes(row: &RowBuffer) -> u64 {
    if is_single(row) { 0 } else { (row.elements as u64 * u64::from(row.scalar.bits() / 8)).next_multiple_of(64) }
}

fn is_single(row: &RowBuffer) -> bool {
    row.elements == 1
}

/// Emits one nest.
pub struct NestEmitter<'f, 'b, 'k, 'o> {
    /// Where code goes.
    lanes: Lanes<'f, 'b>,
    /// Pointers of the buffers.
    bases: &'k Bases,
    /// The worker's row buffers.
    scratch: Value,
    /// Row buffers of a single element: what a scan carries from iteration to iteration need not wait for memory.
    singles: Vec<Option<Variable>>,
    /// The loop variables that are running.
    axes: HashMap<Axis, Value>,
    /// Finished reductions of the current point.
    results: HashMap<u32, Value>,
    /// What is emitted.
    nest: &'k Nest,
    /// Where rows may go that are worth wide registers.
    wide: Option<&'k mut WideRows<'o>>,
    /// What the code that is emitted executes.
    executed: Executed,
}

impl<'b> Flow<'b> for NestEmitter<'_, 'b, '_, '_> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        self.lanes.b
    }
}

impl<'f, 'b, 'k, 'o> NestEmitter<'f, 'b, 'k, 'o> {
    /// What emits a nest on its kernel's buffers, with a worker's row buffers, inside the loops of some axes; `wide` takes the rows that
    /// are worth wide registers.
    pub fn new(
        lanes: Lanes<'f, 'b>,
        nest: &'k Nest,
        (bases, scratch, axes): (&'k Bases, Value, HashMap<Axis, Value>),
        wide: Option<&'k mut WideRows<'o>>,
    ) -> NestEmitter<'f, 'b, 'k, 'o> {
        let (results, executed) = (HashMap::new(), Executed::default());
        let variable = |row: &RowBuffer| is_single(row).then(|| lanes.b.declare_var(clif_type(row.scalar)));
        let singles = nest.rows.iter().map(variable).collect();
        NestEmitter { lanes, bases, scratch, singles, axes, results, nest, wide, executed }
    }
}

impl NestEmitter<'_, '_, '_, '_> {
    /// Runs the stages for every point from `begin` to `end` of the parallel space. What is executed for all its points.
    pub fn run(mut self, begin: Value, end: Value) -> Executed {
        let nest = self.nest;
        let mut point = |this: &mut Self, p| {
            let axes = this.axes_of(&nest.parallel, p);
            this.axes.extend(axes);
            for stage in &nest.stages {
                this.stage(stage);
            }
        };
        // One point is never cut into tasks: it is all of the space.
        match nest.points() {
            1 => point(&mut self, begin),
            _ => self.count(begin, end, 1, &mut point),
        }
        // What went past the caches is seen by others before what tells them that it is there.
        if nest.stages.iter().any(|s| s.streams) {
            self.b().ins().fence();
        }
        self.executed
    }

    /// The value of an index expression.
    fn at(&mut self, ix: &Ix, values: &HashMap<NodeId, Value>) -> Value {
        self.lanes.index(ix, Point { axes: &self.axes, values })
    }

    /// The pointer of a buffer.
    fn base(&mut self, buffer: u32) -> Value {
        self.lanes.base(self.bases, buffer)
    }

    /// What holds the only element of a row buffer that has no more.
    fn single(&self, row: u32) -> Option<Variable> {
        self.singles.get(row as usize).copied().flatten()
    }

    /// The only element of a row buffer that has no more.
    fn only(&mut self, row: u32) -> Option<Value> {
        let variable = self.single(row)?;
        Some(self.b().use_var(variable))
    }

    /// Where a row buffer of several elements starts, and the scalar type of its elements.
    fn row_start(&mut self, row: u32) -> (Address, ScalarType) {
        let before: u64 = self.nest.rows[..row as usize].iter().map(row_bytes).sum();
        let scratch = self.scratch;
        let start = match near(before as i64) {
            Some(offset) => Address { base: scratch, offset },
            None => Address { base: self.behind(scratch, before as i64), offset: 0 },
        };
        (start, self.nest.rows[row as usize].scalar)
    }

    /// Where the element of a buffer lies that an index gives. Indices that differ by a constant share a base, and what lies as far
    /// into several buffers shares the offset.
    fn address(&mut self, live: &mut Live, buffer: u32, ix: &Ix, bytes: i64) -> Address {
        let offset = ix.constant.checked_mul(bytes).and_then(near);
        let constant = if offset.is_some() { ix.constant } else { 0 };
        let offset = offset.unwrap_or(0);
        let key = (buffer, bytes, ix.offset(constant.wrapping_neg()));
        if let Some(&base) = live.bases.get(&key) {
            return Address { base, offset };
        }
        let mut base = self.base(buffer);
        if key.2 != Ix::constant(0) {
            let behind = self.offset(live, key.2.scale(bytes));
            base = self.b().ins().iadd(base, behind);
        }
        live.bases.insert(key, base);
        Address { base, offset }
    }

    /// The bytes that an index comes to, of which other indices may have some terms too.
    fn offset(&mut self, live: &mut Live, index: Ix) -> Value {
        if let Some(&behind) = live.offsets.get(&index) {
            return behind;
        }
        let behind = {
            let mut parts = index.parts();
            match parts.next().filter(|_| index.terms.len() > 1) {
                Some(first) => {
                    let first = self.offset(live, first);
                    parts.fold(first, |sum, part| {
                        let part = self.offset(live, part);
                        self.b().ins().iadd(sum, part)
                    })
                }
                None => self.at(&index, &live.uniform),
            }
        };
        live.offsets.insert(index, behind);
        behind
    }

    /// An address in a register of its own.
    fn pointer(&mut self, address: Address) -> Value {
        self.behind(address.base, i64::from(address.offset))
    }

    fn stage(&mut self, stage: &Stage) {
        let of = |group: Range<usize>| Stage { accumulators: stage.accumulators[group].to_vec(), ..stage.clone() };
        let mut groups = passes(stage, self.wide.as_ref().map(|wide| wide.widest));
        if let Some(wide) = self.wide.as_deref().filter(|wide| wide.widest == Width::W512) {
            let narrower = passes(stage, Some(Width::W256));
            let selected = |stage: &Stage| {
                // A fault is found again, and noted, where the row is emitted.
                let row = RowLoop::new(stage);
                let found = |s| row_function(self.nest, &row, &s, wide.widest, wide.fma);
                row.wide_segment(wide.widest).is_some_and(|s| found(s).is_ok_and(|found| found.is_some()))
            };
            // What has no form of 512 bits is to fit those of 256.
            if narrower.len() > groups.len() && !groups.iter().cloned().all(|group| selected(&of(group))) {
                groups = narrower;
            }
        }
        if groups.len() < 2 {
            return self.pass(stage);
        }
        for group in groups {
            let stage = of(group);
            self.pass(&stage);
            // What wide code has folded, it has left in its frame.
            if self.wide.is_none() {
                self.settle(&stage);
            }
        }
    }

    /// Has the results of a pass computed before the next begins. Cranelift computes a value where it is first used, behind the last pass:
    /// the lanes of all passes would be kept until then, in memory. A store is done where it stands.
    fn settle(&mut self, stage: &Stage) {
        for a in &stage.accumulators {
            let Place::Lanes { results } = &a.place else { continue };
            for result in results {
                let Some(&value) = self.results.get(result) else { continue };
                let bytes = self.b().func.dfg.value_type(value).bytes();
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
                let slot = self.b().create_sized_stack_slot(slot);
                self.b().ins().stack_store(types::I64, value, slot, 0);
            }
        }
    }

    /// A stage whose reductions fit the registers.
    fn pass(&mut self, stage: &Stage) {
        if self.wide_tile(stage) {
            return;
        }
        let row = RowLoop::new(stage).in_points(self.nest.points());
        self.lanes.mark(None);
        if let Err(what) = row.verify() {
            self.lanes.faults.report(what);
            return;
        }
        let wide = if row.has_elements() { self.wide_row(&row) } else { None };
        // Initial values do not depend on the sequential axes: they are computed before those loops.
        let mut live = Live::default();
        let init: Vec<Vec<Value>> = stage
            .accumulators
            .iter()
            .map(|a| a.init.iter().map(|&n| self.uniform_node(&row, &mut live, n)).collect())
            .collect();
        let accumulators = stage.accumulators.iter().zip(&row.modes).zip(&init);
        let by_itself = wide.as_ref().is_some_and(WideRow::starts_by_itself);
        let mut running: Vec<Running> =
            accumulators.map(|((a, &mode), init)| self.start(stage, a, mode, init, by_itself)).collect();
        self.nested(&stage.sequential, &mut |this| this.row_loop(&row, &mut running, wide.as_ref()));
        for ((a, running), init) in stage.accumulators.iter().zip(&running).zip(&init) {
            if running.has_lanes() {
                self.executed.add_own(self.nest.points(), FOLD);
            }
            if let Place::Lanes { results } = &a.place {
                let values = self.fold(a, running, init);
                self.results.extend(results.iter().copied().zip(values));
            }
        }
    }

    /// Loops, the first around the others.
    fn nested(&mut self, loops: &[Loop], inside: &mut dyn FnMut(&mut Self)) {
        match loops {
            [first, rest @ ..] => {
                let axis = first.axis;
                self.count_constant(0, first.extent, 1, &mut |this, i| {
                    this.axes.insert(axis, i);
                    this.nested(rest, inside);
                });
            }
            [] => inside(self),
        }
    }

    /// Everything that happens along the vector axis, once.
    fn row_loop(&mut self, row: &RowLoop<'_>, running: &mut [Running], wide: Option<&WideRow>) {
        self.lanes.mark(None);
        let times = self.nest.points().saturating_mul(depth(row.stage));
        self.executed.add_own(times, AROUND + row.uniform().count() as i64);
        if let Some(guarded) = Guarded::of(row) {
            return self.guarded(row, &guarded);
        }
        let mut live = Live::default();
        self.uniform_nodes(row, &mut live);
        self.row_pointers(row, &mut live);
        if row.has_elements() {
            for segment in row.segments(wide.map(WideRow::width)) {
                let work = row.work_in(&segment);
                match segment.form {
                    Form::Wide(width) => self.executed.add_called(times, work / width.vector()),
                    Form::Vectors => self.executed.add_own(times, work / VECTOR),
                    Form::Singles => self.executed.add_own(times, work),
                }
                match wide {
                    Some(function) if matches!(segment.form, Form::Wide(_)) => {
                        self.wide_segment(row, &mut live, running, function, &segment);
                    }
                    _ => self.segment(row, &live, running, &segment),
                }
            }
        }
        let stage = row.stage;
        for (s, _) in stage.stores.iter().zip(&row.stores).filter(|(_, access)| access.is_none()) {
            let v = self.uniform_node(row, &mut live, s.value);
            self.store_once(row, &mut live, s, v);
        }
    }

    /// Stores the element that a store has once for the row.
    fn store_once(&mut self, row: &RowLoop<'_>, live: &mut Live, s: &Store, v: Value) {
        let at = self.address(live, s.buffer, &s.index, s.mem.bytes());
        self.lanes.mark(row.stage.body.source(s.value));
        self.lanes.store_one(s.mem, v, at.base, at.offset);
    }

    /// A segment of the row, in vectors or in single elements.
    fn segment(&mut self, row: &RowLoop<'_>, live: &Live, running: &[Running], segment: &Segment) {
        let vector = segment.form != Form::Singles;
        let step = if vector { VECTOR } else { 1 };
        self.count_constant(segment.begin, segment.end, segment.iteration, &mut |this, i| {
            let mut iteration = HashMap::new();
            for offset in (0..segment.iteration).step_by(step as usize) {
                let lane = segment.begin + offset;
                let at = At { i, offset, vector, lane, starts: segment.starts };
                let columns = HashMap::new();
                let mut elements = Elements { nest: this, row, live, running, at, iteration: &mut iteration, columns };
                if vector::elements(&mut elements, row).is_none() {
                    this.lanes.faults.report("a row has no form in CLIF");
                }
            }
        });
    }

    /// Computes what does not differ along the row.
    fn uniform_nodes(&mut self, row: &RowLoop<'_>, live: &mut Live) {
        // A constant is made where it is used.
        let is_constant = |id: &NodeId| matches!(row.stage.body.node(*id).op, Op::Const(_));
        for id in row.uniform().filter(|id| !is_constant(id)) {
            self.uniform_node(row, live, id);
        }
    }

    fn row_pointers(&mut self, row: &RowLoop<'_>, live: &mut Live) {
        for (&id, access) in &row.loads {
            if let Some(start) = self.access_start(access, live) {
                live.loads.insert(id, start);
            }
        }
        for (number, access) in row.stores.iter().enumerate() {
            if let Some(start) = access.as_ref().and_then(|access| self.access_start(access, live)) {
                live.stores.insert(number, start);
            }
        }
    }

    /// Where the first element of an access that walks lies.
    fn access_start(&mut self, access: &Access, live: &mut Live) -> Option<Address> {
        access.walk.stride()?;
        Some(self.address(live, access.buffer, &access.start, access.mem.bytes()))
    }

    /// The scalar of a node that is the same along the vector axis.
    fn uniform_node(&mut self, row: &RowLoop<'_>, live: &mut Live, id: NodeId) -> Value {
        if let Some(&v) = live.uniform.get(&id) {
            return v;
        }
        let body = &row.stage.body;
        let node = body.node(id);
        let source = body.source(id);
        self.lanes.mark(source);
        let v = match &node.op {
            Op::Const(bits) => return self.lanes.scalar_constant(node.scalar, *bits),
            Op::Load(buffer, mem, ix) => {
                ix.for_each_value(&mut |n| {
                    self.uniform_node(row, live, n);
                });
                self.lanes.mark(source);
                let at = self.address(live, *buffer, ix, mem.bytes());
                self.lanes.load_one(*mem, at.base, at.offset)
            }
            Op::Result(n) => match self.results.get(n) {
                Some(&v) => v,
                None => self.lanes.missing(node.scalar, format!("result {n} is used before it is folded")),
            },
            Op::Index(ix) => {
                let v = self.at(ix, &live.uniform);
                if node.scalar == ScalarType::I32 { self.b().ins().ireduce(types::I32, v) } else { v }
            }
            Op::Row(number) => match self.only(*number) {
                Some(only) => only,
                None => {
                    let (start, scalar) = self.row_start(*number);
                    self.lanes.load_one(Mem::of(scalar), start.base, start.offset)
                }
            },
            op => {
                let args: SmallVec<[Val; 3]> =
                    node.args.iter().map(|&a| Val::One(self.uniform_node(row, live, a))).collect();
                let from: SmallVec<[ScalarType; 3]> = node.args.iter().map(|&a| body.scalar(a)).collect();
                self.lanes.mark(source);
                match vector::operation(&mut self.lanes, op, &args, &from, node.scalar) {
                    Some(v) => self.lanes.scalar(v),
                    None => self.lanes.missing(node.scalar, format!("{op:?} has no scalar form")),
                }
            }
        };
        live.uniform.insert(id, v);
        v
    }
}

/// What a row loop has in registers.
#[derive(Clone, Default)]
struct Live {
    /// Scalars of the nodes that are the same along the row.
    uniform: HashMap<NodeId, Value>,
    /// Where the first element of each load lies, and of each store by number, that walks.
    loads: HashMap<NodeId, Address>,
    stores: HashMap<usize, Address>,
    /// What addresses are counted from: of a buffer, with elements of so many bytes, at an index without a constant.
    bases: HashMap<(u32, i64, Ix), Value>,
    /// Bytes that indices, times the bytes of an element, come to, and the terms of such.
    offsets: HashMap<Ix, Value>,
}

/// A place in memory: so many bytes behind a pointer, which need no instruction.
#[derive(Clone, Copy)]
struct Address {
    base: Value,
    offset: i32,
}

/// Bytes that may stand in an instruction, together with the few of the elements of an iteration.
fn near(bytes: i64) -> Option<i32> {
    i32::try_from(bytes).ok().filter(|bytes| bytes.unsigned_abs() < 1 << 30)
}

/// Which elements of a row: those at vector index `i + offset`.
#[derive(Clone, Copy)]
struct At {
    /// The first element of the iteration.
    i: Value,
    /// How far behind it these lie.
    offset: i64,
    /// A vector of them, or one.
    vector: bool,
    /// The number of the first, as far as it tells the lanes that they fold into.
    lane: i64,
    /// Whether they start lanes that have no identity.
    starts: bool,
}

impl At {
    fn count(self) -> i64 {
        if self.vector { VECTOR } else { 1 }
    }

    fn shape(self) -> Shape {
        if self.vector { Shape::Vector } else { Shape::One }
    }
}
