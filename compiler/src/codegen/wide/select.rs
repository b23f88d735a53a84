//! From the nodes of a stage to instructions over virtual registers.

use super::table::{ORDERED, binary, commutes, float_predicate, unary};
use super::{BLOCK, Frame, REGISTER, Reg};
use crate::codegen::rows::RowLoop;
use crate::kernel::body::{Body, FloatCond, IntCond, Lane, Mem, NodeId, Op};
use crate::kernel::ir::{Accumulator, Nest, Place, Store};
use iced_x86::Code;
use std::collections::HashMap;

/// What a pointer of the frame points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// The row that a load node reads.
    Load(NodeId),
    /// The row that a store, by number, writes.
    Store(usize),
    /// A row buffer.
    Row(u32),
}

/// Memory of the row: element `index + offset` from a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Access {
    /// Number of the pointer in the frame.
    pub pointer: u32,
    /// Bytes of an element; 0 where the pointer walks, see [`Turn::steps`].
    pub scale: u32,
    /// Bytes from the first element of the turn.
    pub displacement: i32,
}

/// An instruction over virtual registers.
#[derive(Clone, Debug)]
pub(super) enum Inst {
    /// A result, one to three operands, an immediate. `half` numbers the operands, 0 being the result, of which only the
    /// low half counts (a 128-bit register). The last register operand may lie in memory where it is whole.
    Plain { code: Code, to: Reg, from: Vec<Reg>, half: u8, imm: Option<u8> },
    /// `mask ? then : otherwise`.
    Blend { code: Code, to: Reg, mask: Reg, then: Reg, otherwise: Reg },
    /// `a * b + c`.
    Fma { wide: bool, to: Reg, a: Reg, b: Reg, c: Reg },
    /// A load from the row, to a whole register or to the low half.
    Load { code: Code, to: Reg, from: Access, half: bool },
    /// An element of the row, put among those of the low half of a register.
    Insert { code: Code, to: Reg, into: Reg, from: Access, imm: Option<u8> },
    /// A store to the row, of a whole register or of the low half; the immediate chooses an element.
    Store { code: Code, to: Access, from: Reg, half: bool, imm: Option<u8> },
    /// The index of the turn's first element times `stride` in every element.
    Spread { to: Reg, stride: i32, wide: bool },
}

/// Where a virtual register's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Definition {
    /// An instruction.
    Computed,
    /// A constant of the pool, by number.
    Constant(u32),
    /// A spread value of the frame, by number.
    Uniform(u32),
    /// An accumulator of the frame, by number: its value at the start of a turn.
    Accumulator(u32),
}

/// A turn of the loop.
#[derive(Default)]
pub(super) struct Turn {
    pub insts: Vec<Inst>,
    pub definitions: Vec<Definition>,
    pub pool: Vec<[u8; REGISTER as usize]>,
    /// Each accumulator's register at the start of a turn and at its end.
    pub accumulators: Vec<(Reg, Reg)>,
    /// Bytes from an element to the next of what each pointer that walks points to; 0 for the others, which stay at the row's
    /// first element.
    pub steps: Vec<i32>,
}

/// The most registers of accumulators that a turn keeps.
const MOST_ACCUMULATORS: usize = 8;
/// The most instructions of a turn: a longer one gains little and spills.
const MOST_INSTRUCTIONS: usize = 2000;

/// A turn of a stage's row loop, and what its frame holds so far; `None` where some part has no form here.
pub(super) fn select(nest: &Nest, row: &RowLoop<'_>, fma: bool) -> Option<(Turn, Frame)> {
    let blocks = row.wide_turn() / BLOCK;
    let mut s = Selector::new(nest, row, fma);
    let mut accumulators = s.accumulators()?;
    for block in 0..blocks {
        s.block(block, &mut accumulators)?;
    }
    let ends = accumulators.into_iter().flatten().flatten().flatten();
    for ((_, end), now) in s.turn.accumulators.iter_mut().zip(ends) {
        *end = now;
    }
    s.finish()
}

/// The registers of a node's block: one of 32-bit lanes, two of 64-bit lanes.
pub(super) type Block = Vec<Reg>;

pub(super) struct Selector<'k> {
    nest: &'k Nest,
    pub(super) row: &'k RowLoop<'k>,
    fma: bool,
    pub(super) turn: Turn,
    frame: Frame,
    constants: HashMap<[u8; REGISTER as usize], Reg>,
    uniforms: HashMap<NodeId, Reg>,
    pointers: HashMap<Pointer, u32>,
    /// What index nodes are at the turn's first element, in every element.
    starts: HashMap<NodeId, Reg>,
    /// Masks that say of a register that it is NaN.
    nan_tests: HashMap<Reg, Reg>,
}

/// The instruction that loads a register of a row, or half of one of 64-bit lanes.
pub(super) fn load_code(mem: Mem) -> Code {
    match mem {
        Mem::S8 => Code::VEX_Vpmovsxbd_ymm_xmmm64,
        Mem::U8 => Code::VEX_Vpmovzxbd_ymm_xmmm64,
        Mem::S16 => Code::VEX_Vpmovsxwd_ymm_xmmm128,
        Mem::U16 => Code::VEX_Vpmovzxwd_ymm_xmmm128,
        Mem::I32 | Mem::F32 | Mem::I64 | Mem::F64 => Code::VEX_Vmovups_ymm_ymmm256,
    }
}

/// The store behind a store of every second element, where it fills the gaps.
fn partner(stores: &[Store], number: usize) -> Option<&Store> {
    let (first, next) = (stores.get(number)?, stores.get(number + 1)?);
    let fills = (next.buffer, next.mem) == (first.buffer, first.mem) && next.index == first.index.offset(1);
    fills.then_some(next)
}

pub(super) fn count(lane: Lane) -> usize {
    if lane.bits() == 64 { 2 } else { 1 }
}

impl<'k> Selector<'k> {
    pub(super) fn new(nest: &'k Nest, row: &'k RowLoop<'k>, fma: bool) -> Selector<'k> {
        Selector {
            nest,
            row,
            fma,
            turn: Turn::default(),
            frame: Frame { accumulators: 0, uniforms: Vec::new(), pointers: Vec::new(), spills: 0 },
            constants: HashMap::new(),
            uniforms: HashMap::new(),
            pointers: HashMap::new(),
            starts: HashMap::new(),
            nan_tests: HashMap::new(),
        }
    }

    /// The turn, where it is not too long.
    pub(super) fn finish(self) -> Option<(Turn, Frame)> {
        (self.turn.insts.len() <= MOST_INSTRUCTIONS).then_some((self.turn, self.frame))
    }

    pub(super) fn load_at(&mut self, code: Code, from: Access, half: bool) -> Reg {
        let to = self.register(Definition::Computed);
        self.turn.insts.push(Inst::Load { code, to, from, half });
        to
    }

    pub(super) fn register(&mut self, definition: Definition) -> Reg {
        self.turn.definitions.push(definition);
        Reg(self.turn.definitions.len() as u32 - 1)
    }

    fn constant_bytes(&mut self, bytes: [u8; REGISTER as usize]) -> Reg {
        if let Some(&r) = self.constants.get(&bytes) {
            return r;
        }
        let r = self.register(Definition::Constant(self.turn.pool.len() as u32));
        self.turn.pool.push(bytes);
        self.constants.insert(bytes, r);
        r
    }

    /// A constant in every element.
    pub(super) fn constant(&mut self, lane: Lane, bits: u64) -> Reg {
        let bits = if lane.is_mask() && bits != 0 { u64::MAX } else { bits };
        let bits = if lane.bits() == 64 { bits } else { (bits & 0xffff_ffff) * 0x1_0000_0001 };
        self.elements([bits; 4])
    }

    pub(super) fn elements(&mut self, words: [u64; 4]) -> Reg {
        let mut bytes = [0; REGISTER as usize];
        for (chunk, w) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&w.to_le_bytes());
        }
        self.constant_bytes(bytes)
    }

    pub(super) fn pointer(&mut self, p: Pointer) -> u32 {
        let next = self.frame.pointers.len() as u32;
        let k = *self.pointers.entry(p).or_insert(next);
        if k == next {
            self.frame.pointers.push(p);
            self.turn.steps.push(0);
        }
        k
    }

    pub(super) fn halves(&mut self, code: Code, from: &[Reg], half: u8, imm: Option<u8>) -> Reg {
        let to = self.register(Definition::Computed);
        self.turn.insts.push(Inst::Plain { code, to, from: from.to_vec(), half, imm });
        to
    }

    pub(super) fn plain(&mut self, code: Code, from: &[Reg]) -> Reg {
        self.halves(code, from, 0, None)
    }

    pub(super) fn with_imm(&mut self, code: Code, from: &[Reg], imm: u8) -> Reg {
        self.halves(code, from, 0, Some(imm))
    }

    fn blend(&mut self, wide: bool, mask: Reg, then: Reg, otherwise: Reg) -> Reg {
        let code = if wide { Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm } else { Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm };
        let to = self.register(Definition::Computed);
        self.turn.insts.push(Inst::Blend { code, to, mask, then, otherwise });
        to
    }

    fn multiply_add(&mut self, wide: bool, a: Reg, b: Reg, c: Reg) -> Reg {
        let to = self.register(Definition::Computed);
        self.turn.insts.push(Inst::Fma { wide, to, a, b, c });
        to
    }

    /// The upper half of a register, in the lower half of another.
    pub(super) fn upper(&mut self, r: Reg) -> Reg {
        self.halves(Code::VEX_Vextractf128_xmmm128_ymm_imm8, &[r], 1, Some(1))
    }

    /// Accumulators as they are at the start of a turn: accumulator, component, block of its own lanes, register.
    fn accumulators(&mut self) -> Option<Vec<Vec<Vec<Block>>>> {
        let mut all = Vec::new();
        for a in &self.row.stage.accumulators {
            let mut components = Vec::new();
            if let Place::Lanes { .. } = a.place {
                for lane in a.lanes() {
                    let mut column = Vec::new();
                    for _ in 0..a.lane_count() / BLOCK {
                        let registers: Block = (0..count(lane))
                            .map(|_| {
                                let k = self.frame.accumulators;
                                self.frame.accumulators += 1;
                                let r = self.register(Definition::Accumulator(k));
                                self.turn.accumulators.push((r, r));
                                r
                            })
                            .collect();
                        column.push(registers);
                    }
                    components.push(column);
                }
            }
            all.push(components);
        }
        (self.turn.accumulators.len() <= MOST_ACCUMULATORS).then_some(all)
    }

    fn block(&mut self, block: i64, accumulators: &mut [Vec<Vec<Block>>]) -> Option<()> {
        let values = self.values(block)?;
        self.stores(block, &values)?;
        for (a, now) in self.row.stage.accumulators.iter().zip(accumulators) {
            self.fold((a, now), block, &values)?;
        }
        Some(())
    }

    /// What differs along the row, for a block.
    fn values(&mut self, block: i64) -> Option<HashMap<NodeId, Block>> {
        let row = self.row;
        let body = &row.stage.body;
        let first = block * BLOCK;
        let mut values: HashMap<NodeId, Block> = HashMap::new();
        for id in row.varying() {
            let node = body.node(id);
            let v = match &node.op {
                Op::Load(_, mem, _) => match row.loads.get(&id)?.walk.stride()? {
                    1 => self.load(Pointer::Load(id), *mem, first)?,
                    stride => self.load_strided(Pointer::Load(id), *mem, block, stride)?,
                },
                Op::Row(row) => self.load(Pointer::Row(*row), Mem::of(self.nest.rows[*row as usize].lane), first)?,
                Op::Index(ix) => {
                    let stride = row.stride(ix, row.stage.vector.axis)?;
                    self.index(id, node.lane, stride, block)?
                }
                op => {
                    let args: Vec<Block> = node.args.iter().map(|&a| self.argument(body, &values, a)).collect();
                    let from: Vec<Lane> = node.args.iter().map(|&a| body.lane(a)).collect();
                    self.node(op, &args, &from, node.lane)?
                }
            };
            values.insert(id, v);
        }
        Some(values)
    }

    /// Stores a block to buffers and row buffers.
    fn stores(&mut self, block: i64, values: &HashMap<NodeId, Block>) -> Option<()> {
        let (row, stage) = (self.row, self.row.stage);
        let body = &stage.body;
        let first = block * BLOCK;
        let mut interleaved = None;
        for (number, (s, access)) in stage.stores.iter().zip(&row.stores).enumerate() {
            let Some(access) = access.as_ref().filter(|_| interleaved != Some(number)) else { continue };
            let p = Pointer::Store(number);
            let v = self.argument(body, values, s.value);
            match access.walk.stride()? {
                1 => self.store(p, s.mem, first, &v)?,
                2 if s.mem == Mem::of(body.lane(s.value))
                    && let Some(other) = partner(&stage.stores, number) =>
                {
                    let w = self.argument(body, values, other.value);
                    self.store_interleaved(p, s.mem, block, [&v, &w])?;
                    interleaved = Some(number + 1);
                }
                stride => self.store_strided(p, s.mem, block, stride, &v)?,
            }
        }
        for (row, node) in &stage.row_stores {
            let v = self.argument(body, values, *node);
            self.store(Pointer::Row(*row), Mem::of(self.nest.rows[*row as usize].lane), first, &v)?;
        }
        Some(())
    }

    /// Takes a block into a reduction.
    fn fold(
        &mut self,
        (a, now): (&Accumulator, &mut Vec<Vec<Block>>),
        block: i64,
        values: &HashMap<NodeId, Block>,
    ) -> Option<()> {
        let body = &self.row.stage.body;
        let first = block * BLOCK;
        let new = a.values.iter().map(|&n| self.argument(body, values, n));
        match &a.place {
            Place::Lanes { .. } => {
                // One of fewer lanes than the turn has elements goes round them more than once.
                let at = (block % (a.lane_count() / BLOCK)) as usize;
                let args: Vec<Block> = now.iter().map(|c| c[at].clone()).chain(new).collect();
                for (component, v) in now.iter_mut().zip(self.combine(a, &args)?) {
                    component[at] = v;
                }
            }
            Place::Row { rows } => {
                let new: Vec<Block> = new.collect();
                let lanes: Vec<Lane> = a.roots.iter().map(|&r| a.combine.lane(r)).collect();
                if lanes.iter().any(|l| l.is_mask()) {
                    return None;
                }
                let mut args: Vec<Block> = Vec::new();
                for (&row, &lane) in rows.iter().zip(&lanes) {
                    args.push(self.load(Pointer::Row(row), Mem::of(lane), first)?);
                }
                args.extend(new);
                let out = self.combine(a, &args)?;
                for ((&row, v), &lane) in rows.iter().zip(out).zip(&lanes) {
                    self.store(Pointer::Row(row), Mem::of(lane), first, &v)?;
                }
            }
        }
        Some(())
    }

    fn combine(&mut self, a: &Accumulator, args: &[Block]) -> Option<Vec<Block>> {
        let needed = a.combine.needed(a.roots.iter().copied());
        let mut values: HashMap<NodeId, Block> = HashMap::new();
        for (i, node) in a.combine.nodes().iter().enumerate().filter(|(i, _)| needed[*i]) {
            let v = match &node.op {
                Op::Arg(n) => args.get(*n as usize)?.clone(),
                Op::Const(bits) => vec![self.constant(node.lane, *bits); count(node.lane)],
                op => {
                    let inputs: Vec<Block> = node.args.iter().map(|x| values.get(x).cloned()).collect::<Option<_>>()?;
                    let from: Vec<Lane> = node.args.iter().map(|&x| a.combine.lane(x)).collect();
                    self.node(op, &inputs, &from, node.lane)?
                }
            };
            values.insert(NodeId(i as u32), v);
        }
        a.roots.iter().map(|r| values.get(r).cloned()).collect()
    }

    /// A node's registers: computed, or in memory where it is the same along the row.
    pub(super) fn argument(&mut self, body: &Body, values: &HashMap<NodeId, Block>, id: NodeId) -> Block {
        if let Some(v) = values.get(&id) {
            return v.clone();
        }
        let lane = body.lane(id);
        let r = match &body.node(id).op {
            Op::Const(bits) => self.constant(lane, *bits),
            _ => self.uniform(id),
        };
        vec![r; count(lane)]
    }

    fn uniform(&mut self, id: NodeId) -> Reg {
        if let Some(&r) = self.uniforms.get(&id) {
            return r;
        }
        let r = self.register(Definition::Uniform(self.frame.uniforms.len() as u32));
        self.frame.uniforms.push(id);
        self.uniforms.insert(id, r);
        r
    }

    /// Memory of the row, `first` elements from the turn's first one and as many registers.
    pub(super) fn access(&mut self, p: Pointer, mem: Mem, first: i64, registers: i64) -> Option<Access> {
        let pointer = self.pointer(p);
        let bytes = first.checked_mul(mem.bytes())?.checked_add(registers * i64::from(REGISTER))?;
        Some(Access { pointer, scale: mem.bytes() as u32, displacement: i32::try_from(bytes).ok()? })
    }

    /// A block whose elements lie side by side, from `first` on.
    pub(super) fn load(&mut self, p: Pointer, mem: Mem, first: i64) -> Option<Block> {
        let code = load_code(mem);
        (0..count(mem.lane()) as i64)
            .map(|half| {
                let from = self.access(p, mem, first, half)?;
                Some(self.load_at(code, from, false))
            })
            .collect()
    }

    /// Stores a block to elements side by side, from `first` on.
    pub(super) fn store(&mut self, p: Pointer, mem: Mem, first: i64, v: &[Reg]) -> Option<()> {
        use Code::*;
        // Values of narrow memory forms are in range, so that the saturation of a pack never shows.
        let (code, v, half) = match mem {
            Mem::S8 | Mem::U8 | Mem::S16 | Mem::U16 => {
                let words =
                    if matches!(mem, Mem::U16) { VEX_Vpackusdw_ymm_ymm_ymmm256 } else { VEX_Vpackssdw_ymm_ymm_ymmm256 };
                let r = self.plain(words, &[v[0], v[0]]);
                let r = self.with_imm(VEX_Vpermq_ymm_ymmm256_imm8, &[r], 0b1000);
                match mem {
                    Mem::S8 => (VEX_Vmovq_xmmm64_xmm, vec![self.plain(VEX_Vpacksswb_ymm_ymm_ymmm256, &[r, r])], true),
                    Mem::U8 => (VEX_Vmovq_xmmm64_xmm, vec![self.plain(VEX_Vpackuswb_ymm_ymm_ymmm256, &[r, r])], true),
                    _ => (VEX_Vmovups_xmmm128_xmm, vec![r], true),
                }
            }
            Mem::I32 | Mem::I64 | Mem::F32 | Mem::F64 => (VEX_Vmovups_ymmm256_ymm, v.to_vec(), false),
        };
        for (k, &from) in v.iter().enumerate() {
            let to = self.access(p, mem, first, k as i64)?;
            self.turn.insts.push(Inst::Store { code, to, from, half, imm: None });
        }
        Some(())
    }

    /// `base + stride * index` along the row; the uniform of an index node is its value at element 0.
    fn index(&mut self, id: NodeId, lane: Lane, stride: i64, block: i64) -> Option<Block> {
        let wide = lane == Lane::I64;
        let start = match self.starts.get(&id) {
            Some(&start) => start,
            None => {
                let base = self.uniform(id);
                let spread = self.register(Definition::Computed);
                let stride = i32::try_from(stride).ok()?;
                self.turn.insts.push(Inst::Spread { to: spread, stride, wide });
                let start = self.each(&Op::IAdd, wide, spread, base)?;
                self.starts.insert(id, start);
                start
            }
        };
        (0..count(lane) as i64)
            .map(|half| {
                let at = |e: i64| stride.wrapping_mul(block * BLOCK + e) as u64;
                let offsets = if wide {
                    self.elements([0, 1, 2, 3].map(|e| at(4 * half + e)))
                } else {
                    self.elements([0, 2, 4, 6].map(|e| (at(e) & 0xffff_ffff) | at(e + 1) << 32))
                };
                self.each(&Op::IAdd, wide, start, offsets)
            })
            .collect()
    }

    pub(super) fn each(&mut self, op: &Op, wide: bool, a: Reg, b: Reg) -> Option<Reg> {
        Some(self.plain(binary(op, wide)?, &[a, b]))
    }

    /// One operation on a block.
    pub(super) fn node(&mut self, op: &Op, args: &[Block], from: &[Lane], to: Lane) -> Option<Block> {
        let lane = *from.first()?;
        match op {
            Op::Bitcast => return Some(args[0].clone()),
            Op::SToF
            | Op::UToF
            | Op::FToS
            | Op::FToU
            | Op::FToSFast
            | Op::Promote
            | Op::Demote
            | Op::SExt
            | Op::UExt => {
                return self.conversion(op, &args[0], lane, to);
            }
            Op::Wrap => return Some(vec![self.narrow(&args[0])]),
            Op::MaskCast if lane == to => return Some(args[0].clone()),
            Op::MaskCast if to == Lane::M32 => return Some(vec![self.narrow(&args[0])]),
            Op::MaskCast => return Some(self.widen(args[0][0], true)),
            _ => {}
        }
        // NaN where the first is NaN: the 128-bit loop makes all ones of it.
        let nan_test = *op == Op::Select && self.nan_tests.get(&args[0][0]) == Some(&args[1][0]);
        (0..args[0].len())
            .map(|h| {
                let a: Vec<Reg> = args.iter().map(|b| b[h]).collect();
                if nan_test { self.each(&Op::Or, false, a[0], a[2]) } else { self.one(op, &a, lane) }
            })
            .collect()
    }

    fn one(&mut self, op: &Op, a: &[Reg], lane: Lane) -> Option<Reg> {
        use Code::*;
        let wide = lane.bits() == 64;
        let sign = if wide { 1 << 63 } else { 1 << 31 };
        let int = lane.integer();
        if let Some(code) = binary(op, wide) {
            let constant = |r: Reg| matches!(self.turn.definitions[r.0 as usize], Definition::Constant(_));
            let swapped = commutes(op) && constant(a[0]) && !constant(a[1]);
            return Some(self.plain(code, &if swapped { [a[1], a[0]] } else { [a[0], a[1]] }));
        }
        if let Some((code, imm)) = unary(op, wide) {
            return Some(self.halves(code, &a[..1], 0, imm));
        }
        Some(match op {
            Op::FNeg => {
                let c = self.constant(int, sign);
                self.plain(if wide { VEX_Vxorpd_ymm_ymm_ymmm256 } else { VEX_Vxorps_ymm_ymm_ymmm256 }, &[a[0], c])
            }
            Op::FAbs => {
                let c = self.constant(int, sign - 1);
                self.plain(if wide { VEX_Vandpd_ymm_ymm_ymmm256 } else { VEX_Vandps_ymm_ymm_ymmm256 }, &[a[0], c])
            }
            Op::Not => {
                let ones = self.constant(Lane::I64, u64::MAX);
                self.each(&Op::Xor, wide, a[0], ones)?
            }
            Op::Fma if self.fma => self.multiply_add(wide, a[0], a[1], a[2]),
            Op::IMul => self.multiply_wide(a[0], a[1]),
            Op::SDiv | Op::UDiv if !wide => self.quotient(*op == Op::SDiv, a[0], a[1])?,
            Op::SRem | Op::URem if !wide => {
                let quotient = self.quotient(*op == Op::SRem, a[0], a[1])?;
                let product = self.each(&Op::IMul, false, quotient, a[1])?;
                self.each(&Op::ISub, false, a[0], product)?
            }
            Op::SMulHi | Op::UMulHi if !wide => self.multiply_high(*op == Op::SMulHi, a[0], a[1]),
            Op::SMin | Op::UMin | Op::SMax | Op::UMax => {
                let (x, y) = if matches!(op, Op::SMin | Op::UMin) { (a[1], a[0]) } else { (a[0], a[1]) };
                let larger = self.greater(wide, matches!(op, Op::UMin | Op::UMax), x, y)?;
                self.blend(wide, larger, a[0], a[1])
            }
            // The sign, moved along with the bits, is spread again by a borrow.
            Op::AShrImm(n) => {
                let moved = self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &a[..1], *n);
                let bit = self.constant(Lane::I64, sign >> n);
                let flipped = self.each(&Op::Xor, true, moved, bit)?;
                self.each(&Op::ISub, true, flipped, bit)?
            }
            Op::AShr => {
                let moved = self.each(&Op::LShr, true, a[0], a[1])?;
                let top = self.constant(Lane::I64, sign);
                let bit = self.each(&Op::LShr, true, top, a[1])?;
                let flipped = self.each(&Op::Xor, true, moved, bit)?;
                self.each(&Op::ISub, true, flipped, bit)?
            }
            Op::FCmp(c) => {
                let mask = self.compare(wide, a[0], a[1], float_predicate(*c));
                if *c == FloatCond::Uno && a[0] == a[1] {
                    self.nan_tests.insert(mask, a[0]);
                }
                mask
            }
            Op::ICmp(c) => return self.integer_compare(*c, wide, a[0], a[1]),
            Op::Select => self.blend(wide, a[0], a[1], a[2]),
            Op::MaskToInt => self.with_imm(
                if wide { VEX_Vpsrlq_ymm_ymm_imm8 } else { VEX_Vpsrld_ymm_ymm_imm8 },
                &a[..1],
                lane.bits() as u8 - 1,
            ),
            _ => return None,
        })
    }

    /// The quotient of 32-bit lanes, toward zero. That of two doubles is nearer to the exact one than any integer beside it: numbers
    /// below 2^32 leave at least 1/b between them.
    fn quotient(&mut self, signed: bool, a: Reg, b: Reg) -> Option<Reg> {
        use Code::*;
        let convert = if signed { Op::SToF } else { Op::UToF };
        let above = self.conversion(&convert, &[a], Lane::I32, Lane::F64)?;
        let below = self.conversion(&convert, &[b], Lane::I32, Lane::F64)?;
        let quotients: Block =
            above.iter().zip(&below).map(|(&x, &y)| self.each(&Op::FDiv, true, x, y)).collect::<Option<_>>()?;
        if signed {
            return Some(self.joined_halves(VEX_Vcvttpd2dq_xmm_ymmm256, &quotients));
        }
        // The low bits of a number whose last bit is worth 1.
        let magic = self.constant(Lane::F64, 4_503_599_627_370_496f64.to_bits());
        let whole: Block = quotients
            .iter()
            .map(|&q| {
                let (code, imm) = unary(&Op::Trunc, true)?;
                let q = self.halves(code, &[q], 0, imm);
                self.each(&Op::FAdd, true, q, magic)
            })
            .collect::<Option<_>>()?;
        Some(self.narrow(&whole))
    }

    fn compare(&mut self, wide: bool, a: Reg, b: Reg, predicate: u8) -> Reg {
        let code = if wide { Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8 } else { Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8 };
        self.with_imm(code, &[a, b], predicate)
    }

    fn greater(&mut self, wide: bool, unsigned: bool, a: Reg, b: Reg) -> Option<Reg> {
        let (mut a, mut b) = (a, b);
        if unsigned {
            let sign = if wide { self.constant(Lane::I64, 1 << 63) } else { self.constant(Lane::I32, 1 << 31) };
            a = self.each(&Op::Xor, wide, a, sign)?;
            b = self.each(&Op::Xor, wide, b, sign)?;
        }
        Some(
            self.plain(
                if wide { Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256 } else { Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256 },
                &[a, b],
            ),
        )
    }

    fn integer_compare(&mut self, c: IntCond, wide: bool, a: Reg, b: Reg) -> Option<Reg> {
        use IntCond::*;
        let equal = if wide { Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256 } else { Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256 };
        let (yes, negated) = match c {
            Eq => (self.plain(equal, &[a, b]), false),
            Ne => (self.plain(equal, &[a, b]), true),
            SGt | ULe | SLe | UGt => (self.greater(wide, matches!(c, ULe | UGt), a, b)?, matches!(c, SLe | ULe)),
            SLt | ULt | SGe | UGe => (self.greater(wide, matches!(c, ULt | UGe), b, a)?, matches!(c, SGe | UGe)),
        };
        if !negated {
            return Some(yes);
        }
        let ones = self.constant(Lane::I64, u64::MAX);
        self.each(&Op::Xor, wide, yes, ones)
    }

    /// The low 64 bits of products of 64-bit lanes, from products of halves.
    fn multiply_wide(&mut self, a: Reg, b: Reg) -> Reg {
        use Code::*;
        let (high_a, high_b) =
            (self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[a], 32), self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[b], 32));
        let (x, y) = (
            self.plain(VEX_Vpmuludq_ymm_ymm_ymmm256, &[high_a, b]),
            self.plain(VEX_Vpmuludq_ymm_ymm_ymmm256, &[high_b, a]),
        );
        let cross = self.plain(VEX_Vpaddq_ymm_ymm_ymmm256, &[x, y]);
        let cross = self.with_imm(VEX_Vpsllq_ymm_ymm_imm8, &[cross], 32);
        let low = self.plain(VEX_Vpmuludq_ymm_ymm_ymmm256, &[a, b]);
        self.plain(VEX_Vpaddq_ymm_ymm_ymmm256, &[cross, low])
    }

    /// The high halves of products of 32-bit lanes: those with even numbers, then those with odd ones.
    fn multiply_high(&mut self, signed: bool, a: Reg, b: Reg) -> Reg {
        use Code::*;
        let code = if signed { VEX_Vpmuldq_ymm_ymm_ymmm256 } else { VEX_Vpmuludq_ymm_ymm_ymmm256 };
        let even = self.plain(code, &[a, b]);
        let even = self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[even], 32);
        let (x, y) =
            (self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[a], 32), self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[b], 32));
        let odd = self.plain(code, &[x, y]);
        self.with_imm(VEX_Vpblendd_ymm_ymm_ymmm256_imm8, &[even, odd], 0b1010_1010)
    }

    /// The even 32-bit lanes of two registers: the low halves of eight 64-bit lanes.
    pub(super) fn narrow(&mut self, v: &[Reg]) -> Reg {
        let both = self.with_imm(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[v[0], v[1]], 0b1000_1000);
        self.with_imm(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[both], 0b1101_1000)
    }

    fn widen(&mut self, v: Reg, signed: bool) -> Block {
        let code = if signed { Code::VEX_Vpmovsxdq_ymm_xmmm128 } else { Code::VEX_Vpmovzxdq_ymm_xmmm128 };
        self.split_halves(code, v)
    }

    /// An instruction that makes a register of each half of one.
    fn split_halves(&mut self, code: Code, v: Reg) -> Block {
        let upper = self.upper(v);
        [v, upper].map(|half| self.halves(code, &[half], 0b10, None)).to_vec()
    }

    /// Two registers, each made half of one.
    pub(super) fn joined_halves(&mut self, code: Code, v: &[Reg]) -> Reg {
        let (low, high) = (self.halves(code, &v[..1], 1, None), self.halves(code, &v[1..], 1, None));
        self.halves(Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, &[low, high], 0b100, Some(1))
    }

    pub(super) fn conversion(&mut self, op: &Op, v: &[Reg], from: Lane, to: Lane) -> Option<Block> {
        use Code::*;
        use Lane::{F32, F64, I32, I64};
        Some(match (op, from, to) {
            (Op::SToF, I32, F32) => vec![self.plain(VEX_Vcvtdq2ps_ymm_ymmm256, v)],
            (Op::SToF, I32, F64) => self.split_halves(VEX_Vcvtdq2pd_ymm_xmmm128, v[0]),
            // High and low 16 bits are exact; their sum is rounded once.
            (Op::UToF, I32, F32) if self.fma => {
                let high = self.with_imm(VEX_Vpsrld_ymm_ymm_imm8, v, 16);
                let low_bits = self.constant(I32, 0xffff);
                let low = self.each(&Op::And, false, v[0], low_bits)?;
                let (high, low) =
                    (self.plain(VEX_Vcvtdq2ps_ymm_ymmm256, &[high]), self.plain(VEX_Vcvtdq2ps_ymm_ymmm256, &[low]));
                let scale = self.constant(F32, u64::from(65536f32.to_bits()));
                vec![self.multiply_add(false, high, scale, low)]
            }
            // As the low bits of a number whose last bit is worth 1.
            (Op::UToF, I32, F64) => {
                let magic = self.constant(F64, 4_503_599_627_370_496f64.to_bits());
                let parts = self.widen(v[0], false);
                parts
                    .into_iter()
                    .map(|p| {
                        let p = self.each(&Op::Or, true, p, magic)?;
                        self.each(&Op::FSub, true, p, magic)
                    })
                    .collect::<Option<_>>()?
            }
            (Op::FToSFast, F32, I32) => vec![self.plain(VEX_Vcvttps2dq_ymm_ymmm256, v)],
            (Op::FToS, F32, I32) => {
                let raw = self.plain(VEX_Vcvttps2dq_ymm_ymmm256, v);
                let limit = self.constant(F32, u64::from(2_147_483_648f32.to_bits()));
                let over = self.compare(false, v[0], limit, float_predicate(FloatCond::Ge));
                let raw = self.each(&Op::Xor, false, raw, over)?;
                let number = self.compare(false, v[0], v[0], ORDERED);
                vec![self.each(&Op::And, false, raw, number)?]
            }
            (Op::FToS, F64, I32) => {
                let (least, most) =
                    (self.constant(F64, (-2_147_483_648f64).to_bits()), self.constant(F64, 2_147_483_647f64.to_bits()));
                let parts: Block = v
                    .iter()
                    .map(|&x| {
                        let number = self.compare(true, x, x, ORDERED);
                        let x = self.each(&Op::And, true, x, number)?;
                        let x = self.each(&Op::FMaxPseudo, true, x, least)?;
                        self.each(&Op::FMinPseudo, true, x, most)
                    })
                    .collect::<Option<_>>()?;
                vec![self.joined_halves(VEX_Vcvttpd2dq_xmm_ymmm256, &parts)]
            }
            (Op::Promote, F32, F64) => self.split_halves(VEX_Vcvtps2pd_ymm_xmmm128, v[0]),
            (Op::Demote, F64, F32) => vec![self.joined_halves(VEX_Vcvtpd2ps_xmm_ymmm256, v)],
            (Op::SExt | Op::UExt, I32, I64) => self.widen(v[0], *op == Op::SExt),
            _ => return None,
        })
    }
}
