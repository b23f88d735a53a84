//! The elements of a row loop: a vector of them, or one.

use super::fold::Running;
use super::{Address, At, Live, NestEmitter, near};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Lanes, Shape, Val};
use crate::codegen::rows::{Access, RowLoop, VECTOR, Walk};
use crate::codegen::vector::{Isa, Leaves, Partial, Row, Step, Storing, Values};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::Ix;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use hashbrown::HashMap;

/// Some elements of a row, and the nest that they are of.
pub(super) struct Elements<'t, 'f, 'b, 'k, 'o> {
    pub nest: &'t mut NestEmitter<'f, 'b, 'k, 'o>,
    pub row: &'t RowLoop<'t>,
    pub live: &'t Live,
    pub running: &'t [Running],
    pub at: At,
    /// Bases at the first element of the iteration: by what they are for the row, and the bytes from one element to the next.
    pub iteration: &'t mut HashMap<(Value, i64), Value>,
    /// Columns of rows that are transposed, by the first load that lies near and the first of them.
    pub columns: HashMap<(NodeId, i64), Vec<Val>>,
}

impl<'f, 'b> Leaves for Elements<'_, 'f, 'b, '_, '_> {
    type Isa = Lanes<'f, 'b>;

    fn isa(&mut self) -> &mut Lanes<'f, 'b> {
        &mut self.nest.lanes
    }

    fn shape(&self) -> Shape {
        self.at.shape()
    }

    fn leaf(&mut self, body: &Body, id: NodeId, values: &Values<Val>) -> Option<Val> {
        let node = body.node(id);
        let at = self.at;
        match (&node.op, self.row.loads.get(&id)) {
            (Op::Load(..), Some(access)) => {
                let (mem, pointer) = (access.mem, self.live.loads.get(&id).copied());
                if let (Some(pointer), Walk::Contiguous) = (pointer, access.walk) {
                    let place = self.walked(pointer, mem.bytes(), 0);
                    return Some(if at.vector {
                        self.nest.lanes.load_vector(mem, place.base, place.offset)
                    } else {
                        Val::One(self.nest.lanes.load_one(mem, place.base, place.offset))
                    });
                }
                if at.vector
                    && let Some(v) = self.load_transposed(id, access)
                {
                    return Some(v);
                }
                let mut v = Vec::new();
                for e in 0..at.count() as u8 {
                    let place = self.element_address(access, pointer, values, e);
                    v.push(self.nest.lanes.load_one(mem, place.base, place.offset));
                }
                self.collect(mem.scalar(), &v)
            }
            (Op::Index(ix), _) => {
                let mut v = Vec::new();
                for e in 0..at.count() as u8 {
                    let x = self.index_at(ix, values, e);
                    v.push(if node.scalar == ScalarType::I32 { self.nest.b().ins().ireduce(types::I32, x) } else { x });
                }
                self.collect(node.scalar, &v)
            }
            (Op::Row(number), _) => self.row(*number),
            (op, _) => {
                self.isa().fault(format!("{op:?} is no leaf of a row"));
                None
            }
        }
    }
}

impl Row for Elements<'_, '_, '_, '_, '_> {
    fn uniform(&mut self, body: &Body, id: NodeId) -> Option<Val> {
        match self.live.uniform.get(&id) {
            Some(&v) if self.at.vector => Some(self.nest.lanes.splat(body.scalar(id), v)),
            Some(&v) => Some(Val::One(v)),
            None => {
                self.isa().fault(format!("node %{} has no value yet", id.0));
                None
            }
        }
    }

    fn store(&mut self, s: Storing<'_, Val>, values: &Values<Val>) -> Option<usize> {
        let (at, mem, v) = (self.at, s.access.mem, *s.value);
        let pointer = self.live.stores.get(&s.number).copied();
        if let (Some(pointer), Walk::Contiguous) = (pointer, s.access.walk) {
            let place = self.walked(pointer, mem.bytes(), 0);
            match v {
                Val::One(v) => self.nest.lanes.store_one(mem, v, place.base, place.offset),
                v => self.nest.lanes.store_vector(mem, v, place.base, place.offset),
            }
            return Some(0);
        }
        if at.vector
            && let Some(behind) = self.store_transposed(&s, pointer)
        {
            return Some(behind);
        }
        for e in 0..at.count() as u8 {
            let place = self.element_address(s.access, pointer, values, e);
            let x = self.nest.lanes.extract(s.scalar, v, e);
            self.nest.lanes.store_one(mem, x, place.base, place.offset);
        }
        Some(0)
    }

    fn row(&mut self, number: u32) -> Option<Val> {
        if let Some(only) = self.nest.only(number) {
            return (!self.at.vector).then_some(Val::One(only));
        }
        let (mem, Address { base, offset }) = self.row_place(number);
        Some(if self.at.vector {
            self.nest.lanes.load_vector(mem, base, offset)
        } else {
            Val::One(self.nest.lanes.load_one(mem, base, offset))
        })
    }

    fn set_row(&mut self, number: u32, value: &Val) -> Option<()> {
        if let Some(variable) = self.nest.single(number) {
            let &Val::One(v) = value else { return None };
            self.nest.b().def_var(variable, v);
            return Some(());
        }
        let (mem, Address { base, offset }) = self.row_place(number);
        match *value {
            Val::One(v) => self.nest.lanes.store_one(mem, v, base, offset),
            v => self.nest.lanes.store_vector(mem, v, base, offset),
        }
        Some(())
    }

    fn steps(&self, reduction: usize) -> Vec<Step> {
        match self.running.get(reduction) {
            Some(Running::Chain(_)) if self.at.vector => (0..VECTOR as u8).map(Step::Element).collect(),
            _ => vec![Step::All],
        }
    }

    fn taken(&mut self, step: Step, scalar: ScalarType, value: &Val) -> Option<Val> {
        Some(match step {
            Step::All => *value,
            Step::Element(e) => Val::One(self.nest.lanes.extract(scalar, *value, e)),
        })
    }

    fn partial(&mut self, reduction: usize, _: Step) -> Option<Partial<Val>> {
        let a = self.row.stage.accumulators.get(reduction)?;
        self.nest.partial(a, self.running.get(reduction)?, self.at)
    }

    fn set_partial(&mut self, reduction: usize, _: Step, new: Vec<Val>) -> Option<()> {
        let a = self.row.stage.accumulators.get(reduction)?;
        self.nest.set_partial(a, self.running.get(reduction)?, self.at, new)
    }

    fn shape_of(&self, step: Step) -> Shape {
        match step {
            Step::All => self.at.shape(),
            Step::Element(_) => Shape::One,
        }
    }
}

impl Elements<'_, '_, '_, '_, '_> {
    /// Where element `e` of those lies in an access that walks from `start`, by so many bytes.
    pub(super) fn walked(&mut self, start: Address, stride: i64, e: u8) -> Address {
        let key = (start.base, stride);
        let base = match self.iteration.get(&key) {
            Some(&base) => base,
            None => {
                let base = self.nest.element(start.base, self.at.i, stride);
                self.iteration.insert(key, base);
                base
            }
        };
        // Addresses wrap, in CLIF too.
        let behind = (self.at.offset + i64::from(e)).wrapping_mul(stride);
        match near(behind.saturating_add(i64::from(start.offset))) {
            Some(offset) => Address { base, offset },
            None => {
                let start = self.nest.pointer(Address { base, ..start });
                Address { base: self.nest.behind(start, behind), offset: 0 }
            }
        }
    }

    /// Where element `e` of those of an access lies, which walks from a start where there is one.
    fn element_address(&mut self, access: &Access, start: Option<Address>, values: &Values<Val>, e: u8) -> Address {
        let bytes = access.mem.bytes();
        match (start, access.walk.stride()) {
            (Some(start), Some(stride)) => self.walked(start, bytes * stride, e),
            _ => {
                let index = self.index_at(&access.start, values, e);
                let base = self.nest.base(access.buffer);
                Address { base: self.nest.element(base, index, bytes), offset: 0 }
            }
        }
    }

    /// An index expression at element `e`.
    fn index_at(&mut self, ix: &Ix, values: &Values<Val>, e: u8) -> Value {
        let offset = self.at.offset + i64::from(e);
        let v = self.nest.b().ins().iadd_imm_s(self.at.i, offset);
        self.nest.axes.insert(self.row.stage.vector.axis, v);
        let mut offsets = HashMap::new();
        ix.for_each_value(&mut |n| {
            let v = match (self.live.uniform.get(&n), values.get(n)) {
                (Some(&v), _) => v,
                (None, Some(&v)) => self.nest.lanes.extract(ScalarType::I64, v, e),
                // Every node that an index mentions is computed before it.
                (None, None) => {
                    self.nest.lanes.missing(ScalarType::I64, format!("the offset %{} has no value yet", n.0))
                }
            };
            offsets.insert(n, v);
        });
        self.nest.at(ix, &offsets)
    }

    fn collect(&mut self, scalar: ScalarType, v: &[Value]) -> Option<Val> {
        match *v {
            [a, b, c, d] => Some(self.nest.lanes.gather(scalar, [a, b, c, d])),
            [one] => Some(Val::One(one)),
            _ => None,
        }
    }

    /// Where elements of a row buffer lie.
    fn row_place(&mut self, number: u32) -> (Mem, Address) {
        let (start, scalar) = self.nest.row_start(number);
        let mem = Mem::of(scalar);
        (mem, self.walked(start, mem.bytes(), 0))
    }
}
