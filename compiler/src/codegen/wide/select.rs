//! From the nodes of a stage to instructions over virtual registers.

use super::table::widened;
use super::{Anchor, Frame, Reg};
use crate::codegen::rows::{Mode, RowLoop, Segment, Width};
use crate::codegen::vector::elements;
use crate::hlo::InstructionId;
use crate::kernel::body::{Mem, NodeId, Op, ScalarType};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Nest, Place};
use hashbrown::HashMap;
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};

/// What a pointer of the frame points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// The row that a load node reads.
    Load(NodeId),
    /// The row that a store, by number, writes.
    Store(usize),
    /// A row buffer.
    Row(u32),
    /// What indices count from, by number: see [`Frame::anchors`].
    Anchor(u32),
}

/// What a register of the frame holds in every element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Uniform {
    /// A node that is the same along the row.
    Node(NodeId),
    /// An index, of that scalar type, that is the same along the row.
    Index(Ix, ScalarType),
}

/// Memory of the row: element `index + offset` from a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Access {
    /// Number of the pointer in the frame.
    pub pointer: u32,
    /// Bytes of an element; 0 where the pointer walks, see [`Iterations::steps`].
    pub scale: u32,
    /// Bytes from the first element of the iteration.
    pub displacement: i32,
}

impl Access {
    /// Memory so many elements behind.
    pub fn behind(self, elements: i64, mem: Mem) -> Option<Access> {
        let bytes = i32::try_from(elements.checked_mul(mem.bytes())?).ok()?;
        Some(Access { displacement: self.displacement.checked_add(bytes)?, ..self })
    }
}

/// An instruction over virtual registers.
#[derive(Clone, Debug)]
pub(super) enum Inst {
    /// A result, one to three operands, an immediate. `half` numbers the operands, 0 being the result, of which only the
    /// low half counts (a 128-bit register). The last register operand may lie in memory where it is whole.
    Plain { code: Code, to: Reg, from: SmallVec<[Reg; 3]>, half: u8, imm: Option<u8> },
    /// `mask ? then : otherwise`.
    Blend { code: Code, to: Reg, mask: Reg, then: Reg, otherwise: Reg },
    /// `a * b + c`.
    Fma { wide: bool, to: Reg, a: Reg, b: Reg, c: Reg },
    /// Words of 32 bits of two registers of 512 bits: for each word `order` says which, those of `high` numbered behind those of `low`.
    Permute { to: Reg, order: Reg, low: Reg, high: Reg },
    /// A load from the row, to a whole register or to the low half; with a mask, zeros where that does not hold.
    Load { code: Code, to: Reg, from: Access, half: bool, mask: Option<Reg> },
    /// An element of the row, put among those of the low half of a register; or a part of 128 bits, among those of all of it.
    Insert { code: Code, to: Reg, into: Reg, from: Access, half: bool, imm: Option<u8> },
    /// A store to the row, of a whole register or of the low half; the immediate chooses an element, a mask those that are stored.
    Store { code: Code, to: Access, from: Reg, half: bool, imm: Option<u8>, mask: Option<Reg> },
    /// The index of the iteration's first element times `stride` in every element.
    Broadcast { to: Reg, stride: i32, wide: bool },
    /// An element of memory or two, put among those of the low part of 128 bits of `into`, or among zeros: each as many elements, of
    /// the scale's bytes, from `from` as its index says.
    Pick { to: Reg, into: Option<Reg>, from: Access, index: Index, each: Vec<Element> },
    /// Stores an element or two of the low part of 128 bits of a register, likewise.
    Put { from: Reg, to: Access, index: Index, each: Vec<Element> },
    /// Quotients of 64-bit lanes, for the first of them that are `live`: through memory and the general registers.
    Divide { how: Division, to: Reg, from: [Reg; 2], live: u8 },
}

/// The instruction that moves an element between memory and the low part of 128 bits of a register, and which element it is.
pub(super) type Element = (Code, Option<u8>);

/// An index and the one behind it, of 32 bits: elements of the low part of 128 bits of a register, from number `first` on, which is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index<R = Reg> {
    pub of: R,
    pub first: u8,
}

/// What is wanted of a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    pub signed: bool,
    pub remainder: bool,
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
    /// A broadcast value of the frame, by number.
    Uniform(u32),
    /// An accumulator of the frame, by number: its value at the start of an iteration.
    Accumulator(u32),
}

/// An iteration of the loop.
pub(super) struct Iteration {
    pub width: Width,
    pub insts: Vec<Inst>,
    pub definitions: Vec<Definition>,
    /// Constants, each a register.
    pub pool: Vec<Vec<u8>>,
    /// Each accumulator's register at the start of an iteration and at its end.
    pub accumulators: Vec<(Reg, Reg)>,
    /// The constant that each accumulator starts from, by number in the pool; without one it starts from the frame.
    pub starts: Vec<Option<u32>>,
    /// The instructions from which on the iteration is for another instruction of the kernel.
    sources: Vec<(usize, Option<InstructionId>)>,
}

impl Iteration {
    /// An iteration of nothing.
    pub(super) fn new(width: Width) -> Iteration {
        let (insts, definitions, pool) = (Vec::new(), Vec::new(), Vec::new());
        let (accumulators, starts, sources) = (Vec::new(), Vec::new(), Vec::new());
        Iteration { width, insts, definitions, pool, accumulators, starts, sources }
    }

    /// Says for which instruction of the kernel the iteration goes on.
    pub(super) fn mark(&mut self, source: Option<InstructionId>) {
        self.sources.push((self.insts.len(), source));
    }

    /// The instruction of the kernel that an instruction of the iteration is for, where it is known.
    pub(super) fn source(&self, inst: u32) -> Option<InstructionId> {
        let behind = self.sources.partition_point(|(first, _)| *first <= inst as usize);
        self.sources.get(behind.checked_sub(1)?)?.1
    }

    /// Leaves out what computes nothing that is stored or kept.
    fn without_dead(&mut self) {
        let mut used = vec![false; self.definitions.len()];
        for &(_, end) in &self.accumulators {
            used[end.0 as usize] = true;
        }
        let mut alive = vec![false; self.insts.len()];
        for (inst, alive) in self.insts.iter().zip(&mut alive).rev() {
            *alive = inst.result().is_none_or(|to| used[to.0 as usize]);
            if *alive {
                inst.operands().for_each(|r| used[r.0 as usize] = true);
            }
        }
        let mut behind = 0;
        let place = |&alive: &bool| {
            behind += usize::from(alive);
            behind - usize::from(alive)
        };
        let places: Vec<usize> = alive.iter().map(place).collect();
        for (at, _) in &mut self.sources {
            *at = places.get(*at).copied().unwrap_or(behind);
        }
        let mut alive = alive.into_iter();
        self.insts.retain(|_| alive.next().unwrap_or(true));
    }

    /// Whether a register is one of masks.
    pub(super) fn is_mask(&self, r: Reg) -> bool {
        self.definitions.get(r.0 as usize) == Some(&Definition::Mask)
    }
}

impl Inst {
    /// The registers that it reads.
    pub(super) fn operands(&self) -> impl Iterator<Item = Reg> + use<'_> {
        let (list, few): (&[Reg], [Option<Reg>; 3]) = match self {
            Inst::Plain { from, .. } => (from, [None; 3]),
            Inst::Divide { from, .. } => (from, [None; 3]),
            Inst::Blend { mask, then, otherwise, .. } => (&[], [*mask, *then, *otherwise].map(Some)),
            Inst::Fma { a, b, c, .. } => (&[], [*a, *b, *c].map(Some)),
            Inst::Permute { order, low, high, .. } => (&[], [*order, *low, *high].map(Some)),
            Inst::Store { from, mask, .. } => (&[], [Some(*from), *mask, None]),
            Inst::Insert { into, .. } => (&[], [Some(*into), None, None]),
            Inst::Pick { into, index, .. } => (&[], [Some(index.of), *into, None]),
            Inst::Put { from, index, .. } => (&[], [Some(*from), Some(index.of), None]),
            Inst::Load { mask, .. } => (&[], [*mask, None, None]),
            Inst::Broadcast { .. } => (&[], [None; 3]),
        };
        list.iter().copied().chain(few.into_iter().flatten())
    }

    /// The register that it writes; a store writes none.
    pub(super) fn result(&self) -> Option<Reg> {
        match self {
            Inst::Plain { to, .. }
            | Inst::Blend { to, .. }
            | Inst::Fma { to, .. }
            | Inst::Permute { to, .. }
            | Inst::Load { to, .. }
            | Inst::Insert { to, .. }
            | Inst::Broadcast { to, .. }
            | Inst::Pick { to, .. }
            | Inst::Divide { to, .. } => Some(*to),
            Inst::Store { .. } | Inst::Put { .. } => None,
        }
    }

    /// Makes the instructions that it is, where they are settled, those of 512 bits; `None` where one has no such form.
    fn widen(&mut self) -> Option<()> {
        match self {
            Inst::Plain { code, .. }
            | Inst::Blend { code, .. }
            | Inst::Load { code, .. }
            | Inst::Insert { code, .. }
            | Inst::Store { code, .. } => *code = widened(*code)?,
            Inst::Pick { each, .. } | Inst::Put { each, .. } => {
                for (code, _) in each {
                    *code = widened(*code)?;
                }
            }
            Inst::Fma { .. } | Inst::Permute { .. } | Inst::Broadcast { .. } | Inst::Divide { .. } => {}
        }
        Some(())
    }
}

/// The most instructions of an iteration: a longer one gains little and spills.
const MOST_INSTRUCTIONS: usize = 2000;

/// The iterations of a function.
pub(super) struct Iterations {
    /// The iteration of the loop, where it has any.
    pub whole: Option<Iteration>,
    /// What is left, under masks.
    pub rest: Option<Iteration>,
    /// What the lanes of accumulators become at the end of the row.
    pub end: Option<Iteration>,
    /// Bytes from an element to the next of what each pointer that walks points to; 0 for the others, which stay at the row's
    /// first element.
    pub steps: Vec<i32>,
}

/// What was selected, and what its frame holds so far; `None` where some part has no form here.
pub(super) type Selected = Option<(Iterations, Frame)>;

/// The iterations of a segment of a stage's row loop.
///
/// # Errors
/// What the traversal of the body misses, a fault of ours.
pub(super) fn select(
    nest: &Nest,
    row: &RowLoop<'_>,
    segment: &Segment,
    width: Width,
    fma: bool,
) -> Result<Selected, String> {
    let mut s = Selector::new(nest, row, width, fma);
    s.frame.identities = row.starts_from_identities(segment);
    let elements = segment.end - segment.begin;
    let rest = elements % segment.iteration;
    if rest % width.least() != 0 {
        return Err(format!("{rest} elements are left of a segment in {} bits", width.bits()));
    }
    let (mut whole, mut last) = (None, None);
    if elements >= segment.iteration {
        whole = s.iteration_of(segment.iteration)?;
        if whole.is_none() {
            return Ok(None);
        }
    }
    if rest != 0 {
        last = s.iteration_of(rest)?;
        if last.is_none() {
            return Ok(None);
        }
    }
    let end = if row.ends_with(segment) && s.folds_itself() { s.ends()? } else { None };
    Ok(s.finish(whole, last, end))
}

/// The registers of a node's vector: one of 32-bit lanes, two of 64-bit lanes.
pub(super) type Vector = SmallVec<[Reg; 2]>;

pub(super) struct Selector<'k> {
    pub(super) nest: &'k Nest,
    pub(super) row: &'k RowLoop<'k>,
    pub(super) width: Width,
    /// Elements of a vector.
    pub(super) vector: i64,
    pub(super) fma: bool,
    pub(super) iteration: Iteration,
    /// How many elements the iteration at hand has, ...
    pub(super) length: i64,
    /// ... the number of the vector at hand, and how many of its elements there are.
    pub(super) now: i64,
    pub(super) live: i64,
    pub(super) frame: Frame,
    /// Accumulators as they are now: accumulator, component, vector of its own lanes, register.
    pub(super) accumulators: Vec<Vec<Vec<Vector>>>,
    /// What the traversal missed.
    pub(super) fault: Option<String>,
    constants: HashMap<Vec<u8>, Reg>,
    /// The masks of broadcast truth values, by their registers and the bits of their lanes: both kinds may lie in one constant.
    pub(super) masks: HashMap<(Reg, u32), Reg>,
    uniforms: HashMap<Uniform, Reg>,
    /// The number in the frame of what is the same along the row.
    locations: HashMap<Uniform, u32>,
    pointers: HashMap<Pointer, u32>,
    /// The registers that loads share, by their leader, from one of the iteration's elements on.
    pub(super) read: HashMap<(NodeId, i64), Vec<Reg>>,
    /// Parts of 128 bits with narrow elements, by the load that begins first and where.
    pub(super) shuffled: HashMap<(NodeId, i64), Reg>,
    /// Words of narrow elements, by their leader, the first element and their number in it.
    pub(super) words: HashMap<(NodeId, i64, i64), Reg>,
    /// Columns of rows that are transposed, by their leader, the first row and the first of them.
    pub(super) columns: HashMap<(NodeId, i64, i64), Vec<Reg>>,
    /// As in [`Iterations`].
    pub(super) steps: Vec<i32>,
    /// What linear indices are at the iteration's first element, in every element.
    pub(super) starts: HashMap<(Ix, ScalarType), Reg>,
    /// Masks that say of a register that it is NaN.
    pub(super) nan_tests: HashMap<Reg, Reg>,
    /// What the halves of 64-bit lanes of a vector were widened from.
    pub(super) narrow: HashMap<[Reg; 2], Reg>,
    /// Parts of 128 bits that were brought to the front of a register, by number.
    pub(super) fronts: HashMap<(Reg, u8), Reg>,
}

/// The instruction that loads a register of a row, or half of one of 64-bit lanes.
pub(super) fn load_code(mem: Mem) -> Code {
    match mem {
        Mem::S8 => Code::VEX_Vpmovsxbd_ymm_xmmm64,
        Mem::U8 => Code::VEX_Vpmovzxbd_ymm_xmmm64,
        Mem::S16 => Code::VEX_Vpmovsxwd_ymm_xmmm128,
        Mem::U16 => Code::VEX_Vpmovzxwd_ymm_xmmm128,
        Mem::I32 | Mem::F32 => Code::VEX_Vmovups_ymm_ymmm256,
        // Under a mask, which has a bit for each element, their width counts.
        Mem::I64 | Mem::F64 => Code::VEX_Vmovupd_ymm_ymmm256,
    }
}

pub(super) fn count(scalar: ScalarType) -> usize {
    if scalar.bits() == 64 { 2 } else { 1 }
}

impl<'k> Selector<'k> {
    pub(super) fn new(nest: &'k Nest, row: &'k RowLoop<'k>, width: Width, fma: bool) -> Selector<'k> {
        Selector {
            nest,
            row,
            width,
            vector: width.vector(),
            fma,
            iteration: Iteration::new(width),
            length: 0,
            now: 0,
            live: width.vector(),
            accumulators: Vec::new(),
            fault: None,
            frame: Frame::new(width),
            constants: HashMap::new(),
            masks: HashMap::new(),
            uniforms: HashMap::new(),
            locations: HashMap::new(),
            pointers: HashMap::new(),
            read: HashMap::new(),
            shuffled: HashMap::new(),
            words: HashMap::new(),
            columns: HashMap::new(),
            steps: Vec::new(),
            starts: HashMap::new(),
            nan_tests: HashMap::new(),
            narrow: HashMap::new(),
            fronts: HashMap::new(),
        }
    }

    /// Begins an iteration; `None` where accumulators are too many.
    pub(super) fn start_iteration(&mut self) -> Option<()> {
        self.iteration = Iteration::new(self.width);
        self.constants.clear();
        self.masks.clear();
        self.uniforms.clear();
        self.starts.clear();
        self.nan_tests.clear();
        self.narrow.clear();
        self.fronts.clear();
        self.read.clear();
        self.shuffled.clear();
        self.words.clear();
        self.columns.clear();
        self.start_accumulators()
    }

    /// An iteration of so many elements; `None` where some part has no form, or is too long.
    fn iteration_of(&mut self, iteration: i64) -> Result<Option<Iteration>, String> {
        if self.start_iteration().is_none() {
            return Ok(None);
        }
        self.length = iteration;
        for vector in 0..(iteration + self.vector - 1) / self.vector {
            (self.now, self.live) = (vector, self.vector.min(iteration - vector * self.vector));
            let row = self.row;
            let done = elements(self, row);
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            if done.is_none() {
                return Ok(None);
            }
        }
        Ok(self.end())
    }

    /// The iteration in instructions of its width, where each has that form and they are not too many.
    pub(super) fn end(&mut self) -> Option<Iteration> {
        let mut iteration = std::mem::replace(&mut self.iteration, Iteration::new(self.width));
        let ends = std::mem::take(&mut self.accumulators).into_iter().flatten().flatten().flatten();
        for ((_, end), now) in iteration.accumulators.iter_mut().zip(ends) {
            *end = now;
        }
        iteration.without_dead();
        if self.width == Width::W512 {
            iteration.insts.iter_mut().try_for_each(Inst::widen)?;
        }
        (iteration.insts.len() <= MOST_INSTRUCTIONS).then_some(iteration)
    }

    /// The iterations of a function.
    pub(super) fn finish(
        mut self,
        whole: Option<Iteration>,
        rest: Option<Iteration>,
        end: Option<Iteration>,
    ) -> Selected {
        if end.is_none() {
            self.frame.ends.clear();
        }
        Some((Iterations { whole, rest, end, steps: self.steps }, self.frame))
    }

    pub(super) fn load_at(&mut self, code: Code, from: Access, half: bool) -> Reg {
        let to = self.register(Definition::Computed);
        self.iteration.insts.push(Inst::Load { code, to, from, half, mask: None });
        to
    }

    pub(super) fn register(&mut self, definition: Definition) -> Reg {
        self.iteration.definitions.push(definition);
        Reg(self.iteration.definitions.len() as u32 - 1)
    }

    /// A constant in every element.
    pub(super) fn constant(&mut self, scalar: ScalarType, bits: u64) -> Reg {
        let bits = if scalar.is_mask() && bits != 0 { u64::MAX } else { bits };
        let bits = if scalar.bits() == 64 { bits } else { (bits & 0xffff_ffff) * 0x1_0000_0001 };
        self.elements(|_| bits)
    }

    /// A constant, of which the words of 64 bits are given by number.
    pub(super) fn elements(&mut self, word: impl Fn(u64) -> u64) -> Reg {
        let bytes: Vec<u8> = (0..self.width.words() as u64).flat_map(|k| word(k).to_le_bytes()).collect();
        if let Some(&r) = self.constants.get(&bytes) {
            return r;
        }
        let r = self.register(Definition::Constant(self.iteration.pool.len() as u32));
        self.iteration.pool.push(bytes.clone());
        self.constants.insert(bytes, r);
        r
    }

    /// The number of a constant in the pool.
    fn number(&self, r: Reg) -> Option<u32> {
        match self.iteration.definitions.get(r.0 as usize) {
            Some(Definition::Constant(k)) => Some(*k),
            _ => None,
        }
    }

    pub(super) fn pointer(&mut self, p: Pointer) -> u32 {
        let next = self.frame.pointers.len() as u32;
        let k = *self.pointers.entry(p).or_insert(next);
        if k == next {
            self.frame.pointers.push(p);
            self.steps.push(0);
        }
        k
    }

    /// The pointer to what indices count from.
    pub(super) fn anchor(&mut self, anchor: Anchor) -> u32 {
        let all = &mut self.frame.anchors;
        let k = all.iter().position(|a| *a == anchor).unwrap_or_else(|| {
            all.push(anchor);
            all.len() - 1
        });
        self.pointer(Pointer::Anchor(k as u32))
    }

    pub(super) fn halves(&mut self, code: Code, from: &[Reg], half: u8, imm: Option<u8>) -> Reg {
        let to = self.register(Definition::Computed);
        self.iteration.insts.push(Inst::Plain { code, to, from: SmallVec::from_slice(from), half, imm });
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
        self.iteration.insts.push(Inst::Blend { code, to, mask, then, otherwise });
        to
    }

    pub(super) fn multiply_add(&mut self, wide: bool, a: Reg, b: Reg, c: Reg) -> Reg {
        let to = self.register(Definition::Computed);
        self.iteration.insts.push(Inst::Fma { wide, to, a, b, c });
        to
    }

    /// The upper half of a register, in the lower half of another.
    pub(super) fn upper(&mut self, r: Reg) -> Reg {
        self.halves(Code::VEX_Vextractf128_xmmm128_ymm_imm8, &[r], 1, Some(1))
    }

    /// Accumulators as they are at the start of an iteration; `None` where they are too many.
    fn start_accumulators(&mut self) -> Option<()> {
        for (a, mode) in self.row.stage.accumulators.iter().zip(&self.row.modes) {
            let mut components = Vec::new();
            // A chain has one lane.
            let (vectors, registers): (i64, fn(ScalarType) -> usize) = match mode {
                Mode::Chain => (1, |_| 1),
                Mode::Vectors(_) | Mode::Few | Mode::Row => (a.lane_count() / self.vector, count),
            };
            if let Place::Lanes { .. } = a.place {
                for (component, scalar) in a.types().enumerate() {
                    let mut column = Vec::new();
                    let identity = a.identity.as_ref().and_then(|all| all.get(component)).copied();
                    let identity = identity.filter(|_| self.frame.identities).map(|bits| self.constant(scalar, bits));
                    let start = identity.and_then(|r| self.number(r));
                    for _ in 0..vectors {
                        let registers: Vector = (0..registers(scalar))
                            .map(|_| {
                                let k = self.iteration.accumulators.len() as u32;
                                let r = self.register(Definition::Accumulator(k));
                                self.iteration.accumulators.push((r, r));
                                self.iteration.starts.push(start);
                                r
                            })
                            .collect();
                        column.push(registers);
                    }
                    components.push(column);
                }
            }
            self.accumulators.push(components);
        }
        self.frame.accumulators = self.iteration.accumulators.len() as u32;
        (self.iteration.accumulators.len() as i64 <= self.width.accumulators()).then_some(())
    }

    /// What is the same along the row, as operations take it.
    pub(super) fn same(&mut self, scalar: ScalarType, what: Uniform) -> Vector {
        let r = match self.uniforms.get(&what) {
            Some(&r) => r,
            None => {
                let next = self.frame.uniforms.len() as u32;
                let location = *self.locations.entry(what.clone()).or_insert(next);
                if location == next {
                    self.frame.uniforms.push(what.clone());
                }
                let r = self.register(Definition::Uniform(location));
                self.uniforms.insert(what, r);
                r
            }
        };
        smallvec![self.as_operand(scalar, r); count(scalar)]
    }

    /// Memory of the row, `first` elements from the iteration's first one and as many registers.
    pub(super) fn access(&mut self, p: Pointer, mem: Mem, first: i64, registers: i64) -> Option<Access> {
        let near = if let Pointer::Load(id) = p { self.row.near.get(&id) } else { None };
        let (p, behind) = near.map_or((p, 0), |near| (Pointer::Load(near.leader), near.behind * mem.bytes()));
        let pointer = self.pointer(p);
        let bytes = first.checked_mul(mem.bytes())?.checked_add(registers * i64::from(self.width.bytes()))?;
        let bytes = bytes.checked_add(behind)?;
        Some(Access { pointer, scale: mem.bytes() as u32, displacement: i32::try_from(bytes).ok()? })
    }

    /// How many elements of register `k` of the vector at hand there are.
    pub(super) fn live_in(&self, scalar: ScalarType, k: i64) -> i64 {
        let each = self.vector / count(scalar) as i64;
        (self.live - k * each).clamp(0, each)
    }

    /// Whether the vector at hand has all its elements.
    pub(super) fn is_whole(&self) -> bool {
        self.live == self.vector
    }

    /// The mask of the elements of register `k` that there are; none where it has all.
    pub(super) fn mask_of(&mut self, scalar: ScalarType, k: i64) -> Option<Reg> {
        if self.is_whole() || self.live_in(scalar, k) == self.vector / count(scalar) as i64 {
            return None;
        }
        Some(self.first_elements(scalar, self.live_in(scalar, k)))
    }

    /// The mask of the first `count` elements of a register.
    pub(super) fn first_elements(&mut self, scalar: ScalarType, count: i64) -> Reg {
        let ones = |e: u64, bits: u32| if (e as i64) < count { u64::MAX >> (64 - bits) } else { 0 };
        let r = match scalar.bits() {
            64 => self.elements(|k| ones(k, 64)),
            _ => self.elements(|k| ones(2 * k, 32) | ones(2 * k + 1, 32) << 32),
        };
        self.as_operand(scalar.mask(), r)
    }

    /// A vector whose elements lie side by side, from `first` on.
    pub(super) fn load(&mut self, p: Pointer, mem: Mem, first: i64) -> Option<Vector> {
        let (code, scalar) = (load_code(mem), mem.scalar());
        (0..count(scalar) as i64)
            .map(|k| {
                if self.live_in(scalar, k) == 0 {
                    return Some(self.constant(scalar, 0));
                }
                let (from, mask) = (self.access(p, mem, first, k)?, self.mask_of(scalar, k));
                let to = self.register(Definition::Computed);
                self.iteration.insts.push(Inst::Load { code, to, from, half: false, mask });
                Some(to)
            })
            .collect()
    }

    /// Stores a vector to elements side by side, from `first` on.
    pub(super) fn store_vector(&mut self, p: Pointer, mem: Mem, first: i64, v: &[Reg]) -> Option<()> {
        use Code::*;
        // Values of narrow memory forms are in range, so that what a pack or a cut does beyond it never shows.
        let (code, v, half): (Code, Vector, bool) = match (mem, self.width) {
            (Mem::S8 | Mem::U8, Width::W512) => (EVEX_Vpmovdb_xmmm128_k1z_zmm, v.into(), false),
            (Mem::S16 | Mem::U16, Width::W512) => (EVEX_Vpmovdw_ymmm256_k1z_zmm, v.into(), false),
            _ if mem.is_extended() => {
                let words =
                    if matches!(mem, Mem::U16) { VEX_Vpackusdw_ymm_ymm_ymmm256 } else { VEX_Vpackssdw_ymm_ymm_ymmm256 };
                let r = self.plain(words, &[v[0], v[0]]);
                let r = self.with_imm(VEX_Vpermq_ymm_ymmm256_imm8, &[r], 0b1000);
                match mem {
                    Mem::S8 => {
                        (VEX_Vmovq_xmmm64_xmm, smallvec![self.plain(VEX_Vpacksswb_ymm_ymm_ymmm256, &[r, r])], true)
                    }
                    Mem::U8 => {
                        (VEX_Vmovq_xmmm64_xmm, smallvec![self.plain(VEX_Vpackuswb_ymm_ymm_ymmm256, &[r, r])], true)
                    }
                    _ => (VEX_Vmovups_xmmm128_xmm, smallvec![r], true),
                }
            }
            (Mem::I64 | Mem::F64, _) => (VEX_Vmovupd_ymmm256_ymm, v.into(), false),
            _ => (VEX_Vmovups_ymmm256_ymm, v.into(), false),
        };
        self.store_registers((p, mem), first, &v, (code, half))
    }

    /// Stores the registers of a vector with one instruction each, of `half` a register or all of it.
    pub(super) fn store_registers(
        &mut self,
        (p, mem): (Pointer, Mem),
        first: i64,
        v: &[Reg],
        (code, half): (Code, bool),
    ) -> Option<()> {
        for (k, &from) in (0..).zip(v) {
            if self.live_in(mem.scalar(), k) > 0 {
                let (to, mask) = (self.access(p, mem, first, k)?, self.mask_of(mem.scalar(), k));
                self.iteration.insts.push(Inst::Store { code, to, from, half, imm: None, mask });
            }
        }
        Some(())
    }

    /// An index that is linear along the row: its value at element 0, and `stride` from each element to the next.
    pub(super) fn linear(&mut self, ix: &Ix, scalar: ScalarType, stride: i64) -> Option<Vector> {
        let wide = scalar == ScalarType::I64;
        let key = (ix.clone(), scalar);
        let start = match self.starts.get(&key) {
            Some(&start) => start,
            None => {
                let first = self.row.start(ix);
                let base = self.same(scalar, Uniform::Index(first, scalar))[0];
                let broadcast = self.register(Definition::Computed);
                let stride = i32::try_from(stride).ok()?;
                self.iteration.insts.push(Inst::Broadcast { to: broadcast, stride, wide });
                let start = self.each(&Op::IAdd, wide, broadcast, base)?;
                self.starts.insert(key, start);
                start
            }
        };
        let (first, each) = (self.first(), self.vector / count(scalar) as i64);
        (0..count(scalar) as i64)
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

    /// The first element of the vector at hand, from the iteration's.
    pub(super) fn first(&self) -> i64 {
        self.now * self.vector
    }
}
