//! The elements of a row loop: a block of them, or one.

use super::NestEmitter;
use super::analysis::{StageInfo, store_varies};
use super::fold::Mode;
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{BLOCK, Val};
use crate::kernel::body::{Body, Lane, Mem, NodeId, Op};
use crate::kernel::index::Ix;
use crate::kernel::ir::Stage;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use std::collections::HashMap;

impl NestEmitter<'_, '_, '_> {
    /// Computes, stores and folds a block of elements, or one element, at vector index `i + offset`; `lane` is the
    /// number of the first lane that they fold into.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn elements(
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
                    let at = self.element(pointer, i, s.mem.bytes());
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
            let mut new = Vec::new();
            for &n in &a.values {
                new.push((body.lane(n), self.argument(body, info, &mut values, n, block)));
            }
            self.accumulate(a, mode.as_ref(), &new, (i, offset), block, lane, first);
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
                (None, _) => Val::One(self.lanes.missing(lane, format!("node %{} has no value yet", id.0))),
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
                let start = self.element(pointer, i, bytes * stride);
                self.b().ins().iadd_imm_s(start, offset * stride * bytes)
            }
            None => {
                let v = self.b().ins().iadd_imm_s(i, offset);
                self.axes.insert(stage.vector.axis, v);
                let offsets = self.offsets(index, info, values, e);
                let index = self.at(index, None, &offsets);
                self.element(self.bases[buffer as usize], index, bytes)
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
                (None, None) => self.lanes.missing(Lane::I64, format!("the offset %{} has no value yet", n.0)),
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
                    let at = self.element(pointer, i, mem.bytes());
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
                    let x = self.at(ix, None, &offsets);
                    v.push(if node.lane == Lane::I32 { self.b().ins().ireduce(types::I32, x) } else { x });
                }
                self.collect(node.lane, &v)
            }
            Op::Row(row) => self.row_access(*row, i, offset, None, block),
            op => Val::One(self.lanes.missing(node.lane, format!("{op:?} is no leaf"))),
        }
    }

    fn collect(&mut self, lane: Lane, v: &[Value]) -> Val {
        match *v {
            [a, b, c, d] => self.lanes.gather(lane, [a, b, c, d]),
            [one] => Val::One(one),
            _ => Val::One(self.lanes.missing(lane, format!("{} elements for a block", v.len()))),
        }
    }

    /// Reads a row buffer, or writes it where a value is given.
    pub(super) fn row_access(&mut self, row: u32, i: Value, offset: i64, value: Option<Val>, block: bool) -> Val {
        let (pointer, lane) = self.row_pointer(row);
        let bytes = i64::from(lane.bits() / 8);
        let at = self.element(pointer, i, bytes);
        let (mem, offset) = (Mem::of(lane), (offset * bytes) as i32);
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
}
