//! The elements of a vector in the traversal of [`vector`](crate::codegen::vector): which instructions are selected for what it asks.

use super::Reg;
use super::select::{Definition, Division, Inst, Pointer, Selector, Uniform, Vector, count};
use crate::codegen::rows::Mode;
use crate::codegen::vector::{Isa, Leaves, Partial, Row, Step, Storing, Values};
use crate::hlo::InstructionId;
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::ir::Accumulator;
use iced_x86::Code;
use smallvec::smallvec;

impl Isa for Selector<'_> {
    type Value = Vector;
    type Shape = ();

    fn mark(&mut self, source: Option<InstructionId>) {
        self.iteration.mark(source);
    }

    fn constant(&mut self, (): (), scalar: ScalarType, bits: u64) -> Vector {
        let r = Selector::constant(self, scalar, bits);
        smallvec![self.as_operand(scalar, r); count(scalar)]
    }

    fn operation(&mut self, op: &Op, args: &[Vector], from: &[ScalarType], to: ScalarType) -> Option<Vector> {
        self.node(op, args, from, to)
    }

    fn by_elements(&mut self, op: &Op, args: &[Vector], from: &[ScalarType], _: ScalarType) -> Option<Vector> {
        let (signed, remainder) = match op {
            Op::SDiv => (true, false),
            Op::UDiv => (false, false),
            Op::SRem => (true, true),
            Op::URem => (false, true),
            _ => return None,
        };
        let ([a, b], [ScalarType::I64, ScalarType::I64]) = (args, from) else { return None };
        let how = Division { signed, remainder };
        let one = |(k, (&a, &b))| {
            let (to, live) = (self.register(Definition::Computed), self.live_in(ScalarType::I64, k) as u8);
            self.iteration.insts.push(Inst::Divide { how, to, from: [a, b], live });
            to
        };
        Some((0..).zip(a.iter().zip(b)).map(one).collect())
    }

    fn fault(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }
}

impl Leaves for Selector<'_> {
    type Isa = Self;

    fn isa(&mut self) -> &mut Self {
        self
    }

    fn shape(&self) {}

    fn leaf(&mut self, body: &Body, id: NodeId, values: &Values<Vector>) -> Option<Vector> {
        let node = body.node(id);
        match &node.op {
            Op::Load(_, mem, ix) => match self.row.loads.get(&id)?.walk.stride() {
                Some(1) => self.load(Pointer::Load(id), *mem, self.first()),
                Some(stride) => self.load_strided(id, *mem, self.now, stride),
                None => self.gather(self.row.loads.get(&id)?, ix, values),
            },
            Op::Row(number) => self.row(*number),
            Op::Index(ix) => match self.row.stride(ix, self.row.stage.vector.axis) {
                Some(stride) => self.linear(ix, node.scalar, stride),
                None => {
                    let v = self.indices(ix, values)?;
                    Some(if node.scalar == ScalarType::I64 { v } else { smallvec![self.narrow(&v)] })
                }
            },
            _ => None,
        }
    }
}

impl Row for Selector<'_> {
    fn uniform(&mut self, body: &Body, id: NodeId) -> Option<Vector> {
        Some(self.same(body.scalar(id), Uniform::Node(id)))
    }

    fn store(&mut self, s: Storing<'_, Vector>, values: &Values<Vector>) -> Option<usize> {
        let (p, mem) = (Pointer::Store(s.number), s.access.mem);
        let woven = self.row.woven(s.number);
        match s.access.walk.stride() {
            Some(1) => self.store_vector(p, mem, self.first(), s.value)?,
            Some(stride) => {
                let behind = s.behind.get(..woven - 1)?.iter().flatten();
                let all: Vec<&[Reg]> = [s.value].into_iter().chain(behind).map(Vector::as_slice).collect();
                if woven > 1 && all.len() == woven && self.store_beside(p, (mem, s.scalar), self.now, &all)? {
                    return Some(woven - 1);
                }
                self.store_strided(p, mem, self.now, stride, s.value)?;
            }
            None => self.scatter(s.access, s.value, values)?,
        }
        Some(0)
    }

    fn row(&mut self, number: u32) -> Option<Vector> {
        self.load(Pointer::Row(number), Mem::of(self.nest.rows.get(number as usize)?.scalar), self.first())
    }

    fn set_row(&mut self, number: u32, value: &Vector) -> Option<()> {
        let mem = Mem::of(self.nest.rows.get(number as usize)?.scalar);
        self.store_vector(Pointer::Row(number), mem, self.first(), value)
    }

    fn steps(&self, reduction: usize) -> Vec<Step> {
        match self.row.modes.get(reduction) {
            Some(Mode::Chain) => (0..self.live as u8).map(Step::Element).collect(),
            _ => vec![Step::All],
        }
    }

    fn taken(&mut self, step: Step, scalar: ScalarType, value: &Vector) -> Option<Vector> {
        match step {
            Step::All => Some(value.clone()),
            Step::Element(e) => {
                let each = (self.vector / count(scalar) as i64) as u8;
                let r = *value.get(usize::from(e / each))?;
                // What the other lanes hold is computed with and never read.
                Some(smallvec![self.element_in_front(scalar, r, e % each); count(scalar)])
            }
        }
    }

    fn partial(&mut self, reduction: usize, step: Step) -> Option<Partial<Vector>> {
        let a = self.row.stage.accumulators.get(reduction)?;
        if let Step::Element(_) = step {
            let types: Vec<ScalarType> = a.types().collect();
            let held: Vec<Reg> = self.chain(reduction)?.map(|r| *r).collect();
            let now = held.into_iter().zip(types).map(|(r, scalar)| smallvec![self.as_mask(scalar, r); count(scalar)]);
            return Some(Partial::Running(now.collect()));
        }
        let at = self.own_vector(a);
        let now: Vec<Vector> =
            self.accumulators.get(reduction)?.iter().map(|c| c.get(at).cloned()).collect::<Option<_>>()?;
        let now =
            now.into_iter().zip(a.types()).map(|(v, scalar)| v.iter().map(|&r| self.as_mask(scalar, r)).collect());
        Some(Partial::Running(now.collect()))
    }

    fn set_partial(&mut self, reduction: usize, step: Step, new: Vec<Vector>) -> Option<()> {
        let a = self.row.stage.accumulators.get(reduction)?;
        if let Step::Element(e) = step {
            // Truth values stay masks from element to element.
            let last = i64::from(e) + 1 == self.live;
            let kept = |(v, scalar): (&Vector, ScalarType)| {
                let r = *v.first()?;
                Some(if last { self.as_register(scalar, r) } else { r })
            };
            let new: Vec<Reg> = new.iter().zip(a.types()).map(kept).collect::<Option<_>>()?;
            self.chain(reduction)?.zip(new).for_each(|(held, r)| *held = r);
            return Some(());
        }
        let at = self.own_vector(a);
        for (k, (v, scalar)) in new.into_iter().zip(a.types()).enumerate() {
            let mut v: Vector = v.iter().map(|&r| self.as_register(scalar, r)).collect();
            if !self.is_whole() {
                // What is no element changes no lane.
                let before = self.accumulators.get(reduction)?.get(k)?.get(at)?.clone();
                for (half, (r, before)) in (0..).zip(v.iter_mut().zip(before)) {
                    *r = match (self.live_in(scalar, half), self.mask_of(scalar, half)) {
                        (0, _) => before,
                        (_, Some(mask)) => self.blend(scalar.bits() == 64, mask, *r, before),
                        (_, None) => *r,
                    };
                }
            }
            *self.accumulators.get_mut(reduction)?.get_mut(k)?.get_mut(at)? = v;
        }
        Some(())
    }

    fn shape_of(&self, _: Step) {}
}

impl Selector<'_> {
    /// The registers of a chain, whose first lane counts: one for each component.
    fn chain(&mut self, reduction: usize) -> Option<impl Iterator<Item = &mut Reg>> {
        Some(self.accumulators.get_mut(reduction)?.iter_mut().flatten().flatten())
    }

    /// A register whose first lane is lane `e` of another.
    fn element_in_front(&mut self, scalar: ScalarType, r: Reg, e: u8) -> Reg {
        if e == 0 {
            return r;
        }
        if self.iteration.is_mask(r) {
            return self.shifted_mask(r, e);
        }
        let each = (128 / scalar.bits()) as u8;
        let front = self.part_of_iteration(r, e / each);
        match (e % each, scalar.bits()) {
            (0, _) => front,
            (_, 64) => self.with_imm(Code::VEX_Vpermilps_ymm_ymmm256_imm8, &[front], 0b01_00_11_10),
            (e, _) => self.with_imm(Code::VEX_Vpermilps_ymm_ymmm256_imm8, &[front], e * 0b01_01_01_01),
        }
    }

    /// A part of a register, taken once in an iteration.
    fn part_of_iteration(&mut self, r: Reg, part: u8) -> Reg {
        if let Some(&front) = self.fronts.get(&(r, part)) {
            return front;
        }
        let front = self.part(r, part);
        self.fronts.insert((r, part), front);
        front
    }

    /// Which vector of an accumulator's own lanes the vector at hand enters: one of fewer lanes than the iteration has elements goes round
    /// them more than once.
    fn own_vector(&self, a: &Accumulator) -> usize {
        (self.now % (a.lane_count() / self.vector)) as usize
    }
}
