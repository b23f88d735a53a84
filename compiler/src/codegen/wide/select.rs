//! From the nodes of a stage to instructions over virtual registers.

use super::table::widened;
use super::{Frame, Reg};
use crate::codegen::rows::{RowLoop, Width};
use crate::hlo::InstructionId;
use crate::kernel::body::{Body, Lane, Mem, NodeId, Op};
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
    /// An instruction, whose result is a truth value for each element.
    Mask,
    /// A constant of the pool, by number.
    Constant(u32),
    /// A spread value of the frame, by number.
    Uniform(u32),
    /// An accumulator of the frame, by number: its value at the start of a turn.
    Accumulator(u32),
}

/// A turn of the loop.
pub(super) struct Turn {
    pub width: Width,
    pub insts: Vec<Inst>,
    pub definitions: Vec<Definition>,
    /// Constants, each a register.
    pub pool: Vec<Vec<u8>>,
    /// Each accumulator's register at the start of a turn and at its end.
    pub accumulators: Vec<(Reg, Reg)>,
    /// Bytes from an element to the next of what each pointer that walks points to; 0 for the others, which stay at the row's
    /// first element.
    pub steps: Vec<i32>,
    /// The instructions from which on the turn is for another instruction of the kernel.
    sources: Vec<(usize, Option<InstructionId>)>,
}

impl Turn {
    /// A turn of nothing.
    pub(super) fn new(width: Width) -> Turn {
        let (insts, definitions, pool) = (Vec::new(), Vec::new(), Vec::new());
        let (accumulators, steps, sources) = (Vec::new(), Vec::new(), Vec::new());
        Turn { width, insts, definitions, pool, accumulators, steps, sources }
    }

    /// Says for which instruction of the kernel the turn goes on.
    pub(super) fn mark(&mut self, source: Option<InstructionId>) {
        self.sources.push((self.insts.len(), source));
    }

    /// The instruction of the kernel that an instruction of the turn is for, where it is known.
    pub(super) fn source(&self, inst: u32) -> Option<InstructionId> {
        let behind = self.sources.partition_point(|(first, _)| *first <= inst as usize);
        self.sources.get(behind.checked_sub(1)?)?.1
    }

    /// Whether a register is one of masks.
    pub(super) fn is_mask(&self, r: Reg) -> bool {
        self.definitions.get(r.0 as usize) == Some(&Definition::Mask)
    }
}

impl Inst {
    /// The instruction that it is, where that is settled.
    fn code(&mut self) -> Option<&mut Code> {
        match self {
            Inst::Plain { code, .. }
            | Inst::Blend { code, .. }
            | Inst::Load { code, .. }
            | Inst::Insert { code, .. }
            | Inst::Store { code, .. } => Some(code),
            Inst::Fma { .. } | Inst::Spread { .. } => None,
        }
    }
}

/// The most instructions of a turn: a longer one gains little and spills.
const MOST_INSTRUCTIONS: usize = 2000;

/// A turn of a stage's row loop, and what its frame holds so far; `None` where some part has no form here.
pub(super) fn select(nest: &Nest, row: &RowLoop<'_>, width: Width, fma: bool) -> Option<(Turn, Frame)> {
    let mut s = Selector::new(nest, row, width, fma);
    if width == Width::W512 && s.masks_in_memory() {
        return None;
    }
    let blocks = row.wide_turn(width) / s.block;
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
    pub(super) width: Width,
    /// Elements of a block.
    pub(super) block: i64,
    pub(super) fma: bool,
    pub(super) turn: Turn,
    frame: Frame,
    constants: HashMap<Vec<u8>, Reg>,
    /// The masks of spread truth values, by their registers and the bits of their lanes: both kinds may lie in one constant.
    pub(super) masks: HashMap<(Reg, u32), Reg>,
    uniforms: HashMap<NodeId, Reg>,
    pointers: HashMap<Pointer, u32>,
    /// What index nodes are at the turn's first element, in every element.
    starts: HashMap<NodeId, Reg>,
    /// Masks that say of a register that it is NaN.
    pub(super) nan_tests: HashMap<Reg, Reg>,
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
    pub(super) fn new(nest: &'k Nest, row: &'k RowLoop<'k>, width: Width, fma: bool) -> Selector<'k> {
        Selector {
            nest,
            row,
            width,
            block: width.block(),
            fma,
            turn: Turn::new(width),
            frame: Frame { width, accumulators: 0, uniforms: Vec::new(), pointers: Vec::new(), spills: 0 },
            constants: HashMap::new(),
            masks: HashMap::new(),
            uniforms: HashMap::new(),
            pointers: HashMap::new(),
            starts: HashMap::new(),
            nan_tests: HashMap::new(),
        }
    }

    /// The turn in instructions of its width, where each has that form and they are not too many.
    pub(super) fn finish(mut self) -> Option<(Turn, Frame)> {
        if self.width == Width::W512 {
            for code in self.turn.insts.iter_mut().filter_map(Inst::code) {
                *code = widened(*code)?;
            }
        }
        (self.turn.insts.len() <= MOST_INSTRUCTIONS).then_some((self.turn, self.frame))
    }

    /// Whether truth values are kept from one element or row to another.
    fn masks_in_memory(&self) -> bool {
        let stage = self.row.stage;
        let body = &stage.body;
        let read = body.nodes().iter().any(|n| matches!(n.op, Op::Row(_)) && n.lane.is_mask());
        let written = stage.row_stores.iter().map(|(_, node)| *node).chain(stage.stores.iter().map(|s| s.value));
        let folded = stage.accumulators.iter().flat_map(Accumulator::lanes);
        read || written.map(|node| body.lane(node)).chain(folded).any(Lane::is_mask)
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

    /// A constant in every element.
    pub(super) fn constant(&mut self, lane: Lane, bits: u64) -> Reg {
        let bits = if lane.is_mask() && bits != 0 { u64::MAX } else { bits };
        let bits = if lane.bits() == 64 { bits } else { (bits & 0xffff_ffff) * 0x1_0000_0001 };
        self.elements(|_| bits)
    }

    /// A constant, of which the words of 64 bits are given by number.
    pub(super) fn elements(&mut self, word: impl Fn(u64) -> u64) -> Reg {
        let bytes: Vec<u8> = (0..self.width.words() as u64).flat_map(|k| word(k).to_le_bytes()).collect();
        if let Some(&r) = self.constants.get(&bytes) {
            return r;
        }
        let r = self.register(Definition::Constant(self.turn.pool.len() as u32));
        self.turn.pool.push(bytes.clone());
        self.constants.insert(bytes, r);
        r
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

    pub(super) fn blend(&mut self, wide: bool, mask: Reg, then: Reg, otherwise: Reg) -> Reg {
        let code = if wide { Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm } else { Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm };
        let to = self.register(Definition::Computed);
        self.turn.insts.push(Inst::Blend { code, to, mask, then, otherwise });
        to
    }

    pub(super) fn multiply_add(&mut self, wide: bool, a: Reg, b: Reg, c: Reg) -> Reg {
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
                    for _ in 0..a.lane_count() / self.block {
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
        (self.turn.accumulators.len() as i64 <= self.width.accumulators()).then_some(all)
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
        let first = block * self.block;
        let mut values: HashMap<NodeId, Block> = HashMap::new();
        for id in row.varying() {
            let node = body.node(id);
            self.turn.mark(body.source(id));
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
        let first = block * self.block;
        let mut interleaved = None;
        for (number, (s, access)) in stage.stores.iter().zip(&row.stores).enumerate() {
            let Some(access) = access.as_ref().filter(|_| interleaved != Some(number)) else { continue };
            let p = Pointer::Store(number);
            self.turn.mark(body.source(s.value));
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
            self.turn.mark(body.source(*node));
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
        let first = block * self.block;
        let round = a.lane_count() / self.block;
        self.turn.mark(a.roots.first().and_then(|&root| a.combine.source(root)));
        let new = a.values.iter().map(|&n| self.argument(body, values, n));
        match &a.place {
            Place::Lanes { .. } => {
                // One of fewer lanes than the turn has elements goes round them more than once.
                let at = (block % round) as usize;
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
                Op::Const(bits) => {
                    let r = self.constant(node.lane, *bits);
                    vec![self.as_operand(node.lane, r); count(node.lane)]
                }
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
        vec![self.as_operand(lane, r); count(lane)]
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
        let bytes = first.checked_mul(mem.bytes())?.checked_add(registers * i64::from(self.width.bytes()))?;
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
        // Values of narrow memory forms are in range, so that what a pack or a cut does beyond it never shows.
        let narrow = matches!(mem, Mem::S8 | Mem::U8 | Mem::S16 | Mem::U16);
        let (code, v, half) = match (mem, self.width) {
            (Mem::S8 | Mem::U8, Width::W512) => (EVEX_Vpmovdb_xmmm128_k1z_zmm, v.to_vec(), false),
            (Mem::S16 | Mem::U16, Width::W512) => (EVEX_Vpmovdw_ymmm256_k1z_zmm, v.to_vec(), false),
            _ if narrow => {
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
            _ => (VEX_Vmovups_ymmm256_ymm, v.to_vec(), false),
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
        let (first, each) = (block * self.block, self.block / count(lane) as i64);
        (0..count(lane) as i64)
            .map(|half| {
                let at = |e: u64| stride.wrapping_mul(first + half * each + e as i64) as u64;
                let offsets = if wide {
                    self.elements(at)
                } else {
                    self.elements(|k| (at(2 * k) & 0xffff_ffff) | at(2 * k + 1) << 32)
                };
                self.each(&Op::IAdd, wide, start, offsets)
            })
            .collect()
    }
}
