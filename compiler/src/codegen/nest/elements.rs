//! The elements of a row loop: a block of them, or one.

use super::fold::Running;
use super::{Elements, Live, NestEmitter};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::Val;
use crate::codegen::rows::{Access, RowLoop, Walk};
use crate::kernel::body::{Body, Lane, Mem, NodeId, Op};
use crate::kernel::index::Ix;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use std::collections::HashMap;

impl NestEmitter<'_, '_, '_, '_> {
    /// Computes, stores and folds elements.
    pub(super) fn elements(&mut self, row: &RowLoop<'_>, live: &Live, running: &[Running], at: Elements) {
        let mut values: HashMap<NodeId, Val> = HashMap::new();
        let (stage, body, block) = (row.stage, &row.stage.body, at.block);
        for id in row.varying() {
            let node = body.node(id);
            self.lanes.mark(body.source(id));
            let v = match &node.op {
                Op::Load(..) | Op::Index(_) | Op::Row(_) => self.leaf((row, live, &values), id, at),
                op => {
                    let args: Vec<Val> =
                        node.args.iter().map(|&a| self.argument(body, live, &mut values, a, block)).collect();
                    let from: Vec<Lane> = node.args.iter().map(|&a| body.lane(a)).collect();
                    self.lanes.node(op, &args, &from, node.lane)
                }
            };
            values.insert(id, v);
        }
        for (number, (s, access)) in stage.stores.iter().zip(&row.stores).enumerate() {
            let Some(access) = access else { continue };
            self.lanes.mark(body.source(s.value));
            let v = self.argument(body, live, &mut values, s.value, block);
            let walks = live.stores.get(&number).map(|&pointer| (pointer, access.walk));
            if let Some((pointer, Walk::Contiguous)) = walks {
                let start = self.element(pointer, at.i, s.mem.bytes());
                let offset = (at.offset * s.mem.bytes()) as i32;
                match v {
                    Val::One(v) => self.lanes.store_one(s.mem, v, start, offset),
                    v => self.lanes.store_block(s.mem, v, start, offset),
                }
                continue;
            }
            for e in 0..at.count() as u8 {
                let place = self.element_address((access, walks.map(|w| w.0)), (row, live, &values), at, e);
                let x = self.lanes.extract(body.lane(s.value), v, e);
                self.lanes.store_one(s.mem, x, place, 0);
            }
        }
        for (number, node) in &stage.row_stores {
            self.lanes.mark(body.source(*node));
            let v = self.argument(body, live, &mut values, *node, block);
            self.row_access(*number, at.i, at.offset, Some(v), block);
        }
        for (a, running) in stage.accumulators.iter().zip(running) {
            let mut new = Vec::new();
            self.lanes.mark(a.roots.first().and_then(|&root| a.combine.source(root)));
            for &n in &a.values {
                new.push((body.lane(n), self.argument(body, live, &mut values, n, block)));
            }
            self.accumulate(a, running, &new, at);
        }
        self.lanes.mark(None);
    }

    /// A node as a block or a scalar: what is uniform is spread.
    fn argument(
        &mut self,
        body: &Body,
        live: &Live,
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
            _ => match (live.uniform.get(&id), block) {
                (Some(&v), true) => self.lanes.splat(lane, v),
                (Some(&v), false) => Val::One(v),
                // Uniform nodes were all computed before the loop.
                (None, _) => Val::One(self.lanes.missing(lane, format!("node %{} has no value yet", id.0))),
            },
        };
        values.insert(id, v);
        v
    }

    /// Address of element `e` of those of an access, which walks from a pointer where there is one.
    fn element_address(
        &mut self,
        (access, pointer): (&Access, Option<Value>),
        (row, live, values): (&RowLoop<'_>, &Live, &HashMap<NodeId, Val>),
        at: Elements,
        e: u8,
    ) -> Value {
        let (bytes, offset) = (access.mem.bytes(), at.offset + i64::from(e));
        match (pointer, access.walk.stride()) {
            (Some(pointer), Some(stride)) => {
                let start = self.element(pointer, at.i, bytes * stride);
                self.b().ins().iadd_imm_s(start, offset * stride * bytes)
            }
            _ => {
                let index = self.index_at(&access.start, (row, live, values), at, e);
                self.element(self.bases[access.buffer as usize], index, bytes)
            }
        }
    }

    /// An index expression at element `e`.
    fn index_at(
        &mut self,
        ix: &Ix,
        (row, live, values): (&RowLoop<'_>, &Live, &HashMap<NodeId, Val>),
        at: Elements,
        e: u8,
    ) -> Value {
        let v = self.b().ins().iadd_imm_s(at.i, at.offset + i64::from(e));
        self.axes.insert(row.stage.vector.axis, v);
        let offsets = self.offsets(ix, live, values, e);
        self.at(ix, &offsets)
    }

    /// The loaded offsets of an index expression at element `e` of a block.
    fn offsets(&mut self, ix: &Ix, live: &Live, values: &HashMap<NodeId, Val>, e: u8) -> HashMap<NodeId, Value> {
        let mut out = HashMap::new();
        ix.for_each_value(&mut |n| {
            let v = match (live.uniform.get(&n), values.get(&n)) {
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
    fn leaf(&mut self, around: (&RowLoop<'_>, &Live, &HashMap<NodeId, Val>), id: NodeId, at: Elements) -> Val {
        let (row, live, _) = around;
        let node = row.stage.body.node(id);
        match (&node.op, row.loads.get(&id)) {
            (Op::Load(..), Some(access)) => {
                let (mem, pointer) = (access.mem, live.loads.get(&id).copied());
                if let (Some(pointer), Walk::Contiguous) = (pointer, access.walk) {
                    let start = self.element(pointer, at.i, mem.bytes());
                    let offset = (at.offset * mem.bytes()) as i32;
                    return if at.block {
                        self.lanes.load_block(mem, start, offset)
                    } else {
                        Val::One(self.lanes.load_one(mem, start, offset))
                    };
                }
                let mut v = Vec::new();
                for e in 0..at.count() as u8 {
                    let place = self.element_address((access, pointer), around, at, e);
                    v.push(self.lanes.load_one(mem, place, 0));
                }
                self.collect(mem.lane(), &v)
            }
            (Op::Index(ix), _) => {
                let mut v = Vec::new();
                for e in 0..at.count() as u8 {
                    let x = self.index_at(ix, around, at, e);
                    v.push(if node.lane == Lane::I32 { self.b().ins().ireduce(types::I32, x) } else { x });
                }
                self.collect(node.lane, &v)
            }
            (Op::Row(number), _) => self.row_access(*number, at.i, at.offset, None, at.block),
            (op, _) => Val::One(self.lanes.missing(node.lane, format!("{op:?} is no leaf"))),
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
