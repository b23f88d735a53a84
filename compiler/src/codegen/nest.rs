//! Nests as CLIF: the parallel loop, the stages, and the row loop that is handed nodes in blocks of four.

use super::lanes::{BLOCK, Lanes, Val, scalar_type};
use crate::kernel::body::{Body, Lane, NodeId, Op};
use crate::kernel::index::{Atom, Axis, Ix};
use crate::kernel::ir::{Accumulator, Loop, Nest, Place, Stage};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::HashMap;

/// Bytes of row buffers that a worker needs for a nest: each starts on a 64-byte line.
pub fn scratch_bytes(nest: &Nest) -> u64 {
    nest.rows.iter().map(|r| row_bytes(r.elements, r.lane)).sum()
}

fn row_bytes(elements: i64, lane: Lane) -> u64 {
    (elements as u64 * u64::from(lane.bits() / 8)).next_multiple_of(64)
}

/// What a stage's nodes need while it is emitted.
struct StageInfo {
    /// Nodes that something stored or folded needs.
    needed: Vec<bool>,
    /// Nodes that differ along the vector axis.
    varies: Vec<bool>,
    /// Scalars of the nodes that do not.
    uniform: HashMap<NodeId, Value>,
    /// Row pointers of the accesses that are linear in the vector axis: load nodes, then stores by number.
    loads: HashMap<NodeId, (Value, i64)>,
    stores: HashMap<usize, (Value, i64)>,
}

/// The lanes of an accumulator while a stage runs: component, block, register.
type LaneVariables = Vec<Vec<Vec<Variable>>>;

/// How a lane accumulator is run.
enum Mode {
    /// Blocks of lanes.
    Blocks(LaneVariables),
    /// Fewer than two blocks of elements: one scalar an element, folded by the same tree.
    Few(Vec<Vec<Variable>>),
    /// One after another, from the initial value.
    Chain(Vec<Variable>),
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
}

impl<'b> NestEmitter<'_, 'b, '_> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        self.lanes.b
    }

    fn iconst(&mut self, v: i64) -> Value {
        self.b().ins().iconst(types::I64, v)
    }

    /// Runs the stages for every point from `begin` to `end` of the parallel space.
    pub fn run(&mut self, begin: Value, end: Value) {
        let nest = self.nest;
        self.count(begin, end, 1, &mut |this, p| {
            match nest.parallel.as_slice() {
                [one] => {
                    this.axes.insert(one.axis, p);
                }
                several => {
                    let mut rest = p;
                    for (i, l) in several.iter().enumerate().rev() {
                        let extent = this.iconst(l.extent);
                        let value = if i == 0 { rest } else { this.b().ins().urem(rest, extent) };
                        if i > 0 {
                            rest = this.b().ins().udiv(rest, extent);
                        }
                        this.axes.insert(l.axis, value);
                    }
                }
            }
            for stage in &nest.stages {
                this.stage(stage);
            }
        });
    }

    /// `for i in (from..to).step_by(step)`; `to - from` is a multiple of `step`.
    fn count(&mut self, from: Value, to: Value, step: i64, body: &mut dyn FnMut(&mut Self, Value)) {
        let (head, after) = (self.b().create_block(), self.b().create_block());
        let i = self.b().declare_var(types::I64);
        self.b().def_var(i, from);
        let any = self.b().ins().icmp(IntCC::SignedLessThan, from, to);
        self.b().ins().brif(any, head, &[], after, &[]);
        self.turns(i, head, after, to, step, body);
    }

    /// The turns of a loop, tested at the bottom: Cranelift moves nothing out of a loop whose test stands at the top.
    fn turns(
        &mut self,
        i: Variable,
        head: Block,
        after: Block,
        to: Value,
        step: i64,
        body: &mut dyn FnMut(&mut Self, Value),
    ) {
        self.b().switch_to_block(head);
        let now = self.b().use_var(i);
        body(self, now);
        let next = self.b().ins().iadd_imm_s(now, step);
        self.b().def_var(i, next);
        let more = self.b().ins().icmp(IntCC::SignedLessThan, next, to);
        self.b().ins().brif(more, head, &[], after, &[]);
        self.b().seal_block(head);
        self.b().switch_to_block(after);
        self.b().seal_block(after);
    }

    /// A loop over constants; unrolled where it runs once.
    fn count_constant(&mut self, from: i64, to: i64, step: i64, body: &mut dyn FnMut(&mut Self, Value)) {
        match (to - from) / step {
            n if n <= 0 => {}
            1 => {
                let i = self.iconst(from);
                body(self, i);
            }
            _ => {
                let (from, to) = (self.iconst(from), self.iconst(to));
                let (head, after) = (self.b().create_block(), self.b().create_block());
                let i = self.b().declare_var(types::I64);
                self.b().def_var(i, from);
                self.b().ins().jump(head, &[]);
                self.turns(i, head, after, to, step, body);
            }
        }
    }

    /// The value of an index expression; linear occurrences of `without` count as 0.
    pub(super) fn ix(&mut self, ix: &Ix, without: Option<Axis>, values: &HashMap<NodeId, Value>) -> Value {
        let mut sum: Option<Value> = None;
        for (atom, c) in &ix.terms {
            let v = match atom {
                Atom::Axis(a, _) if Some(*a) == without => continue,
                Atom::Axis(a, _) => match self.axes.get(a) {
                    Some(&v) => v,
                    None => self.iconst(0),
                },
                Atom::Div(x, n) => {
                    let (x, low) = self.non_negative(x, *n, values);
                    let n_value = self.iconst(*n);
                    let q = self.b().ins().udiv(x, n_value);
                    if low == 0 { q } else { self.b().ins().iadd_imm_s(q, low / n) }
                }
                Atom::Mod(x, n) => {
                    let (x, _) = self.non_negative(x, *n, values);
                    let n = self.iconst(*n);
                    self.b().ins().urem(x, n)
                }
                Atom::Value(node, _, _) => match values.get(node) {
                    Some(&v) => v,
                    None => self.iconst(0),
                },
            };
            let term = if *c == 1 { v } else { self.b().ins().imul_imm_s(v, *c) };
            sum = Some(match sum {
                Some(s) => self.b().ins().iadd(s, term),
                None => term,
            });
        }
        match sum {
            Some(s) if ix.constant == 0 => s,
            Some(s) => self.b().ins().iadd_imm_s(s, ix.constant),
            None => self.iconst(ix.constant),
        }
    }

    /// `x` made non-negative by adding a multiple of `n`, and what must be added to the floor quotient times `n`.
    fn non_negative(&mut self, x: &Ix, n: i64, values: &HashMap<NodeId, Value>) -> (Value, i64) {
        let (low, _) = x.range();
        let shift = if low < 0 { low.div_euclid(n) * n } else { 0 };
        let v = self.ix(x, None, values);
        (if shift == 0 { v } else { self.b().ins().iadd_imm_s(v, -shift) }, shift)
    }

    fn address(&mut self, base: Value, index: Value, bytes: i64) -> Value {
        let offset = self.b().ins().imul_imm_s(index, bytes);
        self.b().ins().iadd(base, offset)
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
        self.sequential(stage, &stage.sequential, &modes);
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

    /// Sets the accumulators to their start.
    fn start(&mut self, stage: &Stage, a: &Accumulator, init: &[Value]) -> Option<Mode> {
        let lanes: Vec<Lane> = a.init.iter().map(|&n| stage.body.lane(n)).collect();
        let n = stage.vector.extent;
        let width = lane_count(&lanes);
        if let Place::Row { rows } = &a.place {
            for ((&row, &lane), &v) in rows.iter().zip(&lanes).zip(init) {
                self.fill_row(row, lane, v, n);
            }
            return None;
        }
        let new = |this: &mut Self, v: Value| {
            let ty = this.b().func.dfg.value_type(v);
            let var = this.b().declare_var(ty);
            this.b().def_var(var, v);
            var
        };
        let whole = a.identity.is_some() || (stage.sequential.is_empty() && n >= width);
        if !a.splits || !whole {
            return Some(Mode::Chain(init.iter().map(|&v| new(self, v)).collect()));
        }
        if n < 2 * BLOCK {
            let identity = a.identity.clone().unwrap_or_default();
            let mut few = Vec::new();
            for (&lane, &bits) in lanes.iter().zip(&identity) {
                let mut column = Vec::new();
                for _ in 0..n {
                    let v = self.lanes.constant(lane, bits);
                    column.push(new(self, v));
                }
                few.push(column);
            }
            if few.len() == lanes.len() {
                return Some(Mode::Few(few));
            }
        }
        let blocks = (n.min(width) as usize).div_ceil(BLOCK as usize);
        let mut all = Vec::new();
        for (k, &lane) in lanes.iter().enumerate() {
            let bits = a.identity.as_ref().map_or(0, |i| i[k]);
            let mut component = Vec::new();
            for _ in 0..blocks {
                let v = self.lanes.constant_block(lane, bits);
                component.push(block_registers(v).into_iter().map(|r| new(self, r)).collect());
            }
            all.push(component);
        }
        Some(Mode::Blocks(all))
    }

    fn fill_row(&mut self, row: u32, lane: Lane, v: Value, n: i64) {
        let (pointer, row_lane) = self.row_pointer(row);
        let v = if lane.is_mask() { self.b().ins().uextend(scalar_type(row_lane), v) } else { v };
        let bytes = i64::from(row_lane.bits() / 8);
        let block = self.lanes.splat(row_lane, v);
        let whole = n / BLOCK * BLOCK;
        self.count_constant(0, whole, BLOCK, &mut |this, i| {
            let at = this.address(pointer, i, bytes);
            this.lanes.store_block(mem_of_row(row_lane), block, at, 0);
        });
        self.count_constant(whole, n, 1, &mut |this, i| {
            let at = this.address(pointer, i, bytes);
            this.lanes.store_one(mem_of_row(row_lane), v, at, 0);
        });
    }

    /// Everything that happens along the vector axis, once.
    fn row_loop(&mut self, stage: &Stage, modes: &[Option<Mode>]) {
        let mut info = analyse(stage);
        for i in 0..stage.body.nodes().len() {
            let id = NodeId(i as u32);
            if info.needed[i] && !info.varies[i] {
                self.uniform_node(stage, &mut info, id);
            }
        }
        self.row_pointers(stage, &mut info);
        let n = stage.vector.extent;
        let varying = stage.stores.iter().any(|s| store_varies(stage, &info, s))
            || !stage.row_stores.is_empty()
            || !stage.accumulators.is_empty();
        if varying {
            let lanes: Vec<Lane> =
                stage.accumulators.iter().flat_map(|a| a.init.iter().map(|&n| stage.body.lane(n))).collect();
            let in_lanes = modes.iter().any(|m| matches!(m, Some(Mode::Blocks(_))));
            let chained = modes.iter().any(|m| matches!(m, Some(Mode::Few(_) | Mode::Chain(_))));
            let width = if in_lanes { lane_count(&lanes) } else { unroll(stage, &info) * BLOCK };
            // A peeled first step gives accumulators without an identity their start.
            let peel = in_lanes && stage.accumulators.iter().any(|a| a.identity.is_none());
            let mut done = 0;
            if chained {
                let few = modes.iter().any(|m| matches!(m, Some(Mode::Few(_))));
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
            if peel && done == 0 {
                let zero = self.iconst(0);
                for block in 0..width / BLOCK {
                    self.elements(stage, &info, modes, zero, block * BLOCK, true, block * BLOCK, true);
                }
                done = width;
            }
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
                for block in 0..blocks {
                    self.elements(stage, &info, modes, at, block * BLOCK, true, block * BLOCK, false);
                }
                for e in blocks * BLOCK..n - whole {
                    self.elements(stage, &info, modes, at, e, false, e, false);
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
                let index = self.ix(&s.index, None, &info.uniform);
                let at = self.address(self.bases[s.buffer as usize], index, s.mem.bytes());
                let v = self.uniform_node(stage, &mut info, s.value);
                self.lanes.store_one(s.mem, v, at, 0);
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
                let index = self.ix(ix, Some(axis), &info.uniform);
                let pointer = self.address(self.bases[*buffer as usize], index, mem.bytes());
                info.loads.insert(NodeId(i as u32), (pointer, stride));
            }
        }
        for (i, s) in stage.stores.iter().enumerate() {
            if store_varies(stage, info, s)
                && let Some(stride) = linear_stride(&s.index, axis, info)
            {
                let index = self.ix(&s.index, Some(axis), &info.uniform);
                let pointer = self.address(self.bases[s.buffer as usize], index, s.mem.bytes());
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
                let index = self.ix(ix, None, &info.uniform);
                let at = self.address(self.bases[*buffer as usize], index, mem.bytes());
                self.lanes.load_one(*mem, at, 0)
            }
            Op::Result(n) => match self.results.get(n) {
                Some(&v) => v,
                None => self.lanes.constant(node.lane, 0),
            },
            Op::Index(ix) => {
                let v = self.ix(ix, None, &info.uniform);
                if node.lane == Lane::I32 { self.b().ins().ireduce(types::I32, v) } else { v }
            }
            Op::Row(row) => {
                let (pointer, lane) = self.row_pointer(*row);
                self.lanes.load_one(mem_of_row(lane), pointer, 0)
            }
            op => {
                let args: Vec<Val> = node.args.iter().map(|&a| Val::One(self.uniform_node(stage, info, a))).collect();
                let from: Vec<Lane> = node.args.iter().map(|&a| stage.body.lane(a)).collect();
                match self.lanes.node(op, &args, &from, node.lane) {
                    Val::One(v) | Val::Four(v) | Val::Pair([v, _]) => v,
                }
            }
        };
        info.uniform.insert(id, v);
        v
    }

    /// Computes, stores and folds a block of elements, or one element, at vector index `i + offset`; `lane` is the
    /// number of the first lane that they fold into.
    #[allow(clippy::too_many_arguments)]
    fn elements(
        &mut self,
        stage: &Stage,
        info: &StageInfo,
        modes: &[Option<Mode>],
        i: Value,
        offset: i64,
        block: bool,
        lane: i64,
        first: bool,
    ) {
        let mut values: HashMap<NodeId, Val> = HashMap::new();
        let body = &stage.body;
        for (k, node) in body.nodes().iter().enumerate() {
            let id = NodeId(k as u32);
            if !info.needed[k] || !info.varies[k] {
                continue;
            }
            let v = match &node.op {
                Op::Load(..) | Op::Index(_) | Op::Row(_) => self.leaf((stage, info, &values), id, i, offset, block),
                op => {
                    let args: Vec<Val> =
                        node.args.iter().map(|&a| self.argument(body, info, &mut values, a, block)).collect();
                    let from: Vec<Lane> = node.args.iter().map(|&a| body.lane(a)).collect();
                    self.lanes.node(op, &args, &from, node.lane)
                }
            };
            values.insert(id, v);
        }
        for (number, s) in stage.stores.iter().enumerate() {
            if !store_varies(stage, info, s) {
                continue;
            }
            let v = self.argument(body, info, &mut values, s.value, block);
            match info.stores.get(&number) {
                Some(&(pointer, 1)) => {
                    let at = self.address(pointer, i, s.mem.bytes());
                    let offset = (offset * s.mem.bytes()) as i32;
                    match v {
                        Val::One(v) => self.lanes.store_one(s.mem, v, at, offset),
                        v => self.lanes.store_block(s.mem, v, at, offset),
                    }
                }
                _ => {
                    for e in 0..if block { BLOCK } else { 1 } {
                        let at = self.element_address(
                            info.stores.get(&number),
                            s.buffer,
                            &s.index,
                            s.mem.bytes(),
                            (stage, info, i, offset + e),
                            (&values, e as u8),
                        );
                        let x = self.lanes.extract(body.lane(s.value), v, e as u8);
                        self.lanes.store_one(s.mem, x, at, 0);
                    }
                }
            }
        }
        for (row, node) in &stage.row_stores {
            let v = self.argument(body, info, &mut values, *node, block);
            self.row_access(*row, i, offset, Some(v), block);
        }
        for (a, mode) in stage.accumulators.iter().zip(modes) {
            let new: Vec<Val> = a.values.iter().map(|&n| self.argument(body, info, &mut values, n, block)).collect();
            self.accumulate(a, mode.as_ref(), new, (i, offset), block, lane, first);
        }
    }

    /// A node as a block or a scalar: what is uniform is spread.
    fn argument(
        &mut self,
        body: &Body,
        info: &StageInfo,
        values: &mut HashMap<NodeId, Val>,
        id: NodeId,
        block: bool,
    ) -> Val {
        if let Some(&v) = values.get(&id) {
            return v;
        }
        let lane = body.lane(id);
        let v = match (&body.node(id).op, block) {
            (Op::Const(bits), true) => self.lanes.constant_block(lane, *bits),
            (Op::Const(bits), false) => Val::One(self.lanes.constant(lane, *bits)),
            _ => match (info.uniform.get(&id), block) {
                (Some(&v), true) => self.lanes.splat(lane, v),
                (Some(&v), false) => Val::One(v),
                // Uniform nodes were all computed before the loop.
                (None, _) => Val::One(self.lanes.constant(lane, 0)),
            },
        };
        values.insert(id, v);
        v
    }

    /// Address of the element at vector index `i + offset` of an access.
    fn element_address(
        &mut self,
        linear: Option<&(Value, i64)>,
        buffer: u32,
        index: &Ix,
        bytes: i64,
        (stage, info, i, offset): (&Stage, &StageInfo, Value, i64),
        (values, e): (&HashMap<NodeId, Val>, u8),
    ) -> Value {
        match linear {
            Some(&(pointer, stride)) => {
                let start = self.address(pointer, i, bytes * stride);
                self.b().ins().iadd_imm_s(start, offset * stride * bytes)
            }
            None => {
                let v = self.b().ins().iadd_imm_s(i, offset);
                self.axes.insert(stage.vector.axis, v);
                let offsets = self.offsets(index, info, values, e);
                let index = self.ix(index, None, &offsets);
                self.address(self.bases[buffer as usize], index, bytes)
            }
        }
    }

    /// The loaded offsets of an index expression at element `e` of a block.
    fn offsets(&mut self, ix: &Ix, info: &StageInfo, values: &HashMap<NodeId, Val>, e: u8) -> HashMap<NodeId, Value> {
        let mut out = HashMap::new();
        ix.for_each_value(&mut |n| {
            let v = match (info.uniform.get(&n), values.get(&n)) {
                (Some(&v), _) => v,
                (None, Some(&v)) => self.lanes.extract(Lane::I64, v, e),
                // Every node that an index mentions is computed before it.
                (None, None) => self.lanes.constant(Lane::I64, 0),
            };
            out.insert(n, v);
        });
        out
    }

    /// A load or an index along the vector axis.
    fn leaf(
        &mut self,
        (stage, info, values): (&Stage, &StageInfo, &HashMap<NodeId, Val>),
        id: NodeId,
        i: Value,
        offset: i64,
        block: bool,
    ) -> Val {
        let node = stage.body.node(id);
        let count = if block { BLOCK } else { 1 };
        match &node.op {
            Op::Load(buffer, mem, ix) => {
                let linear = info.loads.get(&id);
                if let Some(&(pointer, 1)) = linear {
                    let at = self.address(pointer, i, mem.bytes());
                    let offset = (offset * mem.bytes()) as i32;
                    return if block {
                        self.lanes.load_block(*mem, at, offset)
                    } else {
                        Val::One(self.lanes.load_one(*mem, at, offset))
                    };
                }
                let mut v = Vec::new();
                for e in 0..count {
                    let place = (stage, info, i, offset + e);
                    let at = self.element_address(linear, *buffer, ix, mem.bytes(), place, (values, e as u8));
                    v.push(self.lanes.load_one(*mem, at, 0));
                }
                self.collect(mem.lane(), &v)
            }
            Op::Index(ix) => {
                let mut v = Vec::new();
                for e in 0..count {
                    let at = self.b().ins().iadd_imm_s(i, offset + e);
                    self.axes.insert(stage.vector.axis, at);
                    let offsets = self.offsets(ix, info, values, e as u8);
                    let x = self.ix(ix, None, &offsets);
                    v.push(if node.lane == Lane::I32 { self.b().ins().ireduce(types::I32, x) } else { x });
                }
                self.collect(node.lane, &v)
            }
            Op::Row(row) => self.row_access(*row, i, offset, None, block),
            _ => Val::One(self.lanes.constant(node.lane, 0)),
        }
    }

    fn collect(&mut self, lane: Lane, v: &[Value]) -> Val {
        match *v {
            [a, b, c, d] => self.lanes.gather(lane, [a, b, c, d]),
            _ => Val::One(v[0]),
        }
    }

    /// Reads a row buffer, or writes it where a value is given.
    fn row_access(&mut self, row: u32, i: Value, offset: i64, value: Option<Val>, block: bool) -> Val {
        let (pointer, lane) = self.row_pointer(row);
        let bytes = i64::from(lane.bits() / 8);
        let at = self.address(pointer, i, bytes);
        let (mem, offset) = (mem_of_row(lane), (offset * bytes) as i32);
        match value {
            Some(Val::One(v)) => {
                self.lanes.store_one(mem, v, at, offset);
                Val::One(v)
            }
            Some(v) => {
                self.lanes.store_block(mem, v, at, offset);
                v
            }
            None if block => self.lanes.load_block(mem, at, offset),
            None => Val::One(self.lanes.load_one(mem, at, offset)),
        }
    }

    /// Emits a combiner on blocks or scalars.
    fn combine(&mut self, a: &Accumulator, args: &[Val], block: bool) -> Vec<Val> {
        let mut values: Vec<Option<Val>> = vec![None; a.combine.nodes().len()];
        let needed = reachable(&a.combine, a.roots.iter().copied());
        for (i, node) in a.combine.nodes().iter().enumerate().filter(|(i, _)| needed[*i]) {
            let v = match &node.op {
                Op::Arg(n) => args[*n as usize],
                Op::Const(bits) if block => self.lanes.constant_block(node.lane, *bits),
                Op::Const(bits) => Val::One(self.lanes.constant(node.lane, *bits)),
                op => {
                    let inputs: Vec<Val> = node.args.iter().filter_map(|x| values[x.0 as usize]).collect();
                    let from: Vec<Lane> = node.args.iter().map(|&x| a.combine.lane(x)).collect();
                    self.lanes.node(op, &inputs, &from, node.lane)
                }
            };
            values[i] = Some(v);
        }
        a.roots.iter().filter_map(|r| values[r.0 as usize]).collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn accumulate(
        &mut self,
        a: &Accumulator,
        mode: Option<&Mode>,
        new: Vec<Val>,
        (i, offset): (Value, i64),
        block: bool,
        lane: i64,
        first: bool,
    ) {
        match (mode, &a.place) {
            (None, Place::Row { rows }) => {
                let lanes: Vec<Lane> = a.roots.iter().map(|&r| a.combine.lane(r)).collect();
                let mut args = Vec::new();
                for (&row, &lane) in rows.iter().zip(&lanes) {
                    let raw = self.row_access(row, i, offset, None, block);
                    args.push(if lane.is_mask() { self.mask_from_row(lane, raw, block) } else { raw });
                }
                args.extend(new);
                let out = self.combine(a, &args, block);
                for ((&row, v), &lane) in rows.iter().zip(out).zip(&lanes) {
                    let v =
                        if lane.is_mask() { self.lanes.node(&Op::MaskToInt, &[v], &[lane], lane.integer()) } else { v };
                    self.row_access(row, i, offset, Some(v), block);
                }
            }
            (Some(Mode::Chain(variables)), _) => {
                let mut args: Vec<Val> = variables.iter().map(|&v| Val::One(self.b().use_var(v))).collect();
                args.extend(new);
                let out = self.combine(a, &args, false);
                for (&variable, v) in variables.iter().zip(out) {
                    self.define(variable, v);
                }
            }
            (Some(Mode::Few(columns)), _) => {
                let variables: Vec<Variable> = columns.iter().map(|c| c[lane as usize]).collect();
                let mut args: Vec<Val> = variables.iter().map(|&v| Val::One(self.b().use_var(v))).collect();
                args.extend(new);
                let out = self.combine(a, &args, false);
                for (variable, v) in variables.into_iter().zip(out) {
                    self.define(variable, v);
                }
            }
            (Some(Mode::Blocks(all)), _) => {
                let at = (lane / BLOCK) as usize;
                if first {
                    for (component, v) in all.iter().zip(new) {
                        for (&variable, r) in component[at].iter().zip(block_registers(v)) {
                            self.b().def_var(variable, r);
                        }
                    }
                    return;
                }
                let old: Vec<Val> = all.iter().map(|c| self.use_block(&c[at])).collect();
                let lanes: Vec<Lane> = a.roots.iter().map(|&r| a.combine.lane(r)).collect();
                let e = (lane % BLOCK) as u8;
                let mut args = Vec::new();
                for (&v, &l) in old.iter().zip(&lanes) {
                    args.push(if block { v } else { Val::One(self.lanes.extract(l, v, e)) });
                }
                args.extend(new);
                let out = self.combine(a, &args, block);
                for (((component, v), &l), &before) in all.iter().zip(out).zip(&lanes).zip(&old) {
                    let v = match v {
                        Val::One(x) => self.lanes.insert(l, before, e, x),
                        v => v,
                    };
                    for (&variable, r) in component[at].iter().zip(block_registers(v)) {
                        self.b().def_var(variable, r);
                    }
                }
            }
            (None, Place::Lanes { .. }) => {}
        }
    }

    fn define(&mut self, variable: Variable, v: Val) {
        if let Val::One(v) = v {
            self.b().def_var(variable, v);
        }
    }

    fn mask_from_row(&mut self, lane: Lane, raw: Val, block: bool) -> Val {
        let zero = if block {
            self.lanes.constant_block(lane.integer(), 0)
        } else {
            Val::One(self.lanes.constant(lane.integer(), 0))
        };
        let ne = Op::ICmp(crate::kernel::body::IntCond::Ne);
        self.lanes.node(&ne, &[raw, zero], &[lane.integer(), lane.integer()], lane)
    }

    fn use_block(&mut self, registers: &[Variable]) -> Val {
        match *registers {
            [a, b] => Val::Pair([self.b().use_var(a), self.b().use_var(b)]),
            [a, ..] => Val::Four(self.b().use_var(a)),
            [] => Val::One(self.iconst(0)),
        }
    }

    /// Folds lanes by halves and combines the initial value.
    fn fold(&mut self, a: &Accumulator, mode: &Mode, init: &[Value]) -> Vec<Value> {
        let lanes: Vec<Lane> = a.roots.iter().map(|&r| a.combine.lane(r)).collect();
        // One row of components for each scalar lane that is left.
        let mut scalars: Vec<Vec<Value>> = match mode {
            Mode::Chain(variables) => return variables.iter().map(|&v| self.b().use_var(v)).collect(),
            Mode::Few(columns) => {
                let n = columns.first().map_or(0, Vec::len);
                (0..n).map(|i| columns.iter().map(|c| self.b().use_var(c[i])).collect()).collect()
            }
            Mode::Blocks(all) => {
                let mut blocks: Vec<Vec<Val>> = (0..all[0].len())
                    .map(|i| all.iter().map(|component| self.use_block(&component[i])).collect())
                    .collect();
                let mut half = (lane_count(&lanes) / BLOCK / 2) as usize;
                while half >= 1 {
                    for i in 0..half {
                        if i + half < blocks.len() {
                            let args: Vec<Val> = blocks[i].iter().chain(&blocks[i + half]).copied().collect();
                            blocks[i] = self.combine(a, &args, true);
                        }
                    }
                    blocks.truncate(half);
                    half /= 2;
                }
                (0..BLOCK as u8)
                    .map(|e| blocks[0].iter().zip(&lanes).map(|(&v, &l)| self.lanes.extract(l, v, e)).collect())
                    .collect()
            }
        };
        let mut half = (scalars.len() as u64).next_power_of_two() as usize / 2;
        while half >= 1 {
            for i in 0..half {
                if i + half < scalars.len() {
                    let args: Vec<Value> = scalars[i].iter().chain(&scalars[i + half]).copied().collect();
                    scalars[i] = self.combine_scalars(a, &args);
                }
            }
            scalars.truncate(half);
            half /= 2;
        }
        let args: Vec<Value> = init.iter().chain(scalars.first().map_or(&[][..], |s| s)).copied().collect();
        if args.len() == 2 * init.len() { self.combine_scalars(a, &args) } else { init.to_vec() }
    }

    fn combine_scalars(&mut self, a: &Accumulator, args: &[Value]) -> Vec<Value> {
        let args: Vec<Val> = args.iter().map(|&v| Val::One(v)).collect();
        self.combine(a, &args, false)
            .into_iter()
            .map(|v| match v {
                Val::One(v) | Val::Four(v) | Val::Pair([v, _]) => v,
            })
            .collect()
    }
}

fn mem_of_row(lane: Lane) -> crate::kernel::body::Mem {
    use crate::kernel::body::Mem;
    match lane {
        Lane::I32 | Lane::M32 => Mem::I32,
        Lane::I64 | Lane::M64 => Mem::I64,
        Lane::F32 => Mem::F32,
        Lane::F64 => Mem::F64,
    }
}

fn block_registers(v: Val) -> Vec<Value> {
    match v {
        Val::One(v) | Val::Four(v) => vec![v],
        Val::Pair(p) => p.to_vec(),
    }
}

/// Virtual lanes of a reduction: 32 where every component has 32 bits, 16 otherwise.
fn lane_count(lanes: &[Lane]) -> i64 {
    if lanes.iter().any(|l| l.bits() == 64) { 16 } else { 32 }
}

/// Blocks in one turn of a row loop: light bodies are unrolled to hide the loop's own work.
fn unroll(stage: &Stage, info: &StageInfo) -> i64 {
    let nodes = info.varies.iter().zip(&info.needed).filter(|(v, n)| **v && **n).count();
    let wide = stage.body.nodes().iter().any(|n| n.lane.bits() == 64);
    match nodes {
        0..=10 if !wide => 4,
        0..=40 => 2,
        _ => 1,
    }
}

fn linear_stride(ix: &Ix, axis: Axis, info: &StageInfo) -> Option<i64> {
    let mut uniform = true;
    ix.for_each_value(&mut |n| uniform &= !info.varies[n.0 as usize]);
    if uniform { ix.stride(axis) } else { None }
}

fn store_varies(stage: &Stage, info: &StageInfo, s: &crate::kernel::ir::Store) -> bool {
    info.varies[s.value.0 as usize] || s.index.mentions(stage.vector.axis)
}

/// The nodes that `roots` follow from, loaded offsets of index maps included.
pub(super) fn reachable(body: &Body, roots: impl Iterator<Item = NodeId>) -> Vec<bool> {
    let mut needed = vec![false; body.nodes().len()];
    roots.for_each(|r| needed[r.0 as usize] = true);
    for i in (0..needed.len()).rev() {
        if needed[i] {
            let node = &body.nodes()[i];
            node.args.iter().for_each(|a| needed[a.0 as usize] = true);
            if let Op::Load(_, _, ix) | Op::Index(ix) = &node.op {
                ix.for_each_value(&mut |n| needed[n.0 as usize] = true);
            }
        }
    }
    needed
}

fn analyse(stage: &Stage) -> StageInfo {
    let body = &stage.body;
    let stores = stage.stores.iter().flat_map(|s| {
        let mut nodes = vec![s.value];
        s.index.for_each_value(&mut |n| nodes.push(n));
        nodes
    });
    let values = stage.accumulators.iter().flat_map(|a| a.values.iter().copied());
    let rows = stage.row_stores.iter().map(|(_, n)| *n);
    let needed = reachable(body, stores.chain(values).chain(rows));
    let mut varies = vec![false; body.nodes().len()];
    for (i, node) in body.nodes().iter().enumerate() {
        let own = match &node.op {
            Op::Load(_, _, ix) | Op::Index(ix) => {
                let mut any = ix.mentions(stage.vector.axis);
                ix.for_each_value(&mut |n| any |= varies[n.0 as usize]);
                any
            }
            Op::Row(_) => stage.vector.extent > 1,
            _ => false,
        };
        varies[i] = own || node.args.iter().any(|a| varies[a.0 as usize]);
    }
    StageInfo { needed, varies, uniform: HashMap::new(), loads: HashMap::new(), stores: HashMap::new() }
}
