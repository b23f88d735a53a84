//! Registers for an iteration: straight-line code, so that the distance to the next use is known.

use super::select::{Access, Definition, Division, Element, Index, Inst, Iteration};
use super::{FIRST_MASK, Frame, MASKS_END, Reg};
use crate::codegen::rows::Width;
use hashbrown::HashMap;
use iced_x86::Code;
use smallvec::{SmallVec, smallvec};

/// An operand with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operand {
    /// A register, or its low half; from [`FIRST_MASK`] on those of masks.
    Register { number: u8, half: bool },
    /// The mask register that chooses the elements of an instruction.
    Chooser(u8),
    /// The mask register that says which elements of a result are not zero.
    Zeroing(u8),
    /// A constant of the pool.
    Pool(u32),
    /// A register's worth of the frame.
    Frame(u32),
    /// Memory of the row.
    Row(Access),
    /// An immediate.
    Imm(u8),
}

/// The places of an instruction: mostly a result, two operands and a mask or an immediate.
pub(super) type Operands = SmallVec<[Operand; 4]>;

/// An instruction with its places.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// One machine instruction.
    Plain(Code, Operands),
    /// The iteration's first index times a stride, in every element of a register.
    Broadcast { register: u8, stride: i32, wide: bool },
    /// Elements by their indices, put among those of a register.
    Pick { to: u8, into: Option<u8>, from: Access, index: Index<u8>, each: Vec<Element> },
    /// Elements of a register stored by their indices.
    Put { from: u8, to: Access, index: Index<u8>, each: Vec<Element> },
    /// Quotients, one by one.
    Divide { how: Division, to: u8, from: [u8; 2], live: u8 },
}

/// An iteration with places.
pub(super) struct Allocated {
    /// What is loaded before the loop.
    pub before: Vec<Step>,
    /// The iteration.
    pub body: Vec<Step>,
    /// The instruction that each step of the iteration is; `None` for moves of the allocator's own.
    pub origins: Vec<Option<u32>>,
    /// What is stored after the loop.
    pub after: Vec<Step>,
}

/// Machine registers of both kinds.
const REGISTERS: usize = MASKS_END as usize;

/// A set of machine registers, and one after another, the first one first.
#[derive(Clone, Copy)]
struct Registers(u64);

impl Registers {
    /// Those from one number to another.
    fn between(start: usize, end: usize) -> Registers {
        Registers((1 << end) - (1 << start))
    }

    fn insert(&mut self, number: u8) {
        self.0 |= 1 << number;
    }

    fn remove(&mut self, number: u8) {
        self.0 &= !(1 << number);
    }

    fn contains(self, number: u8) -> bool {
        self.0 >> number & 1 == 1
    }

    fn union(self, other: Registers) -> Registers {
        Registers(self.0 | other.0)
    }

    fn intersection(self, other: Registers) -> Registers {
        Registers(self.0 & other.0)
    }

    fn without(self, other: Registers) -> Registers {
        Registers(self.0 & !other.0)
    }

    fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    fn first(self) -> Option<u8> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as u8)
    }

    /// The one with the highest number, 0 where there is none.
    fn last(self) -> u8 {
        self.0.checked_ilog2().unwrap_or(0) as u8
    }
}

impl Iterator for Registers {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }
}

const _: () = assert!(REGISTERS < 64, "a set is a word");

/// Gives an iteration its registers; spilled ones are added to the frame.
pub(super) fn allocate(iteration: &Iteration, frame: &mut Frame) -> Allocated {
    let uses = Uses::of(iteration);
    let plain = Allocator::run(iteration, frame, &uses, &[]);
    let spare = iteration.width.registers().saturating_sub(plain.peak + iteration.accumulators.len());
    let mut memory: Vec<(usize, Reg)> = (0..iteration.definitions.len() as u32)
        .map(Reg)
        .filter(|r| matches!(iteration.definitions[r.0 as usize], Definition::Constant(_) | Definition::Uniform(_)))
        .map(|r| (uses.counts[r.0 as usize], r))
        .filter(|(count, _)| *count > 0)
        .collect();
    memory.sort_by_key(|(count, r)| (std::cmp::Reverse(*count), r.0));
    let kept: Vec<Reg> = memory.into_iter().take(spare).map(|(_, r)| r).collect();
    let done = if kept.is_empty() { plain } else { Allocator::run(iteration, frame, &uses, &kept) };
    let (load, store) = (done.move_code(false, true), done.move_code(false, false));
    let Allocator { before: kept, steps, spills, divides, .. } = done;
    let (body, origins) = steps.into_iter().unzip();
    (frame.spills, frame.divides) = (frame.spills.max(spills), frame.divides | divides);
    let mut before = Vec::new();
    let mut after = Vec::new();
    for (k, start) in iteration.starts.iter().enumerate() {
        let (register, location) = (whole(k as u8), Operand::Frame(frame.accumulator(k as u32)));
        before.push(Step::Plain(load, smallvec![register, start.map_or(location, Operand::Pool)]));
        if frame.keeps_accumulator(k as u32) {
            after.push(Step::Plain(store, smallvec![location, register]));
        }
    }
    before.extend(kept);
    let allocated = Allocated { before, body, origins, after };
    note_whole(&allocated, frame);
    allocated
}

/// Notes in the frame which broadcast values instructions take from it, a register's worth.
fn note_whole(allocated: &Allocated, frame: &mut Frame) {
    let (start, size, broadcast) = (frame.uniform(0), frame.width.bytes(), broadcast_code(frame.width));
    frame.whole.resize(frame.uniforms.len(), false);
    for step in allocated.before.iter().chain(&allocated.body) {
        let Step::Plain(code, operands) = step else { continue };
        for operand in operands.iter().filter(|_| *code != broadcast) {
            let Operand::Frame(offset) = operand else { continue };
            let at = offset.checked_sub(start).map(|behind| behind / size);
            if let Some(whole) = at.and_then(|k| frame.whole.get_mut(k as usize)) {
                *whole = true;
            }
        }
    }
}

fn whole(number: u8) -> Operand {
    Operand::Register { number, half: false }
}

/// The instruction that brings a word of 64 bits to all places of a register.
fn broadcast_code(width: Width) -> Code {
    match width {
        Width::W256 => Code::VEX_Vbroadcastsd_ymm_m64,
        Width::W512 => Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
    }
}

/// Whether the last register operand of an instruction may be memory instead.
fn takes_memory(code: Code) -> bool {
    use Code::*;
    !matches!(
        code,
        VEX_Vextractf128_xmmm128_ymm_imm8
            | EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8
            | EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8
            | EVEX_Vpmovqd_ymmm256_k1z_zmm
            | EVEX_Vpmovd2m_kr_zmm
            | EVEX_Vpmovq2m_kr_zmm
            | VEX_Vpslld_ymm_ymm_imm8
            | VEX_Vpsllq_ymm_ymm_imm8
            | VEX_Vpsrld_ymm_ymm_imm8
            | VEX_Vpsrlq_ymm_ymm_imm8
            | VEX_Vpsrad_ymm_ymm_imm8
    )
}

/// Where the virtual registers of an iteration are used.
struct Uses {
    /// The instructions that use each register, the last one first; behind those of the register before.
    positions: Vec<u32>,
    /// Where those of each register start, and the end.
    starts: Vec<u32>,
    /// How many operands each register is.
    counts: Vec<usize>,
}

impl Uses {
    fn of(iteration: &Iteration) -> Uses {
        let n = iteration.definitions.len();
        let (mut counts, mut starts) = (vec![0; n], vec![0; n + 1]);
        // An instruction that has a register twice is one position.
        let each = |see: &mut dyn FnMut(usize, u32, bool)| {
            let mut last = vec![None; n];
            let ends = iteration.accumulators.iter().map(|&(_, end)| (iteration.insts.len(), end));
            let operands = iteration.insts.iter().enumerate().rev();
            for (at, r) in ends.chain(operands.flat_map(|(at, inst)| inst.operands().map(move |r| (at, r)))) {
                let (at, r) = (at as u32, r.0 as usize);
                see(r, at, last[r].replace(at) != Some(at));
            }
        };
        each(&mut |r, at, first| {
            counts[r] += usize::from(at as usize != iteration.insts.len());
            starts[r + 1] += u32::from(first);
        });
        (1..=n).for_each(|r| starts[r] += starts[r - 1]);
        let mut positions = vec![0; starts[n] as usize];
        let mut next = starts.clone();
        each(&mut |r, at, first| {
            if first {
                positions[next[r] as usize] = at;
                next[r] += 1;
            }
        });
        Uses { positions, starts, counts }
    }

    /// The first of those of a register.
    fn start(&self, r: Reg) -> usize {
        self.starts[r.0 as usize] as usize
    }
}

struct Allocator<'t> {
    iteration: &'t Iteration,
    frame: &'t Frame,
    uses: &'t Uses,
    /// The end of the uses of each virtual register that are still to come: the next one is the last of them.
    ends: Vec<u32>,
    /// The register that holds each virtual register.
    place: Vec<Option<u8>>,
    /// Where each was spilled to.
    slot: Vec<Option<u32>>,
    held: [Option<Reg>; REGISTERS],
    /// The registers that hold something, ...
    busy: Registers,
    /// ... that belong to an accumulator, or to a value for the whole loop, ...
    reserved: Registers,
    /// ... and that the instruction at hand needs.
    locked: Registers,
    /// Where the final value of an accumulator belongs.
    wanted: HashMap<Reg, u8>,
    before: Vec<Step>,
    /// Each with the instruction that it is, if it is one.
    steps: Vec<(Step, Option<u32>)>,
    spills: u32,
    /// Whether elements are divided one by one.
    divides: bool,
    peak: usize,
}

impl<'t> Allocator<'t> {
    fn run(iteration: &'t Iteration, frame: &'t Frame, uses: &'t Uses, kept: &[Reg]) -> Allocator<'t> {
        let n = iteration.definitions.len();
        let mut a = Allocator {
            iteration,
            frame,
            uses,
            ends: uses.starts[1..].to_vec(),
            place: vec![None; n],
            slot: vec![None; n],
            held: [None; REGISTERS],
            busy: Registers(0),
            reserved: Registers(0),
            locked: Registers(0),
            wanted: HashMap::new(),
            before: Vec::new(),
            steps: Vec::with_capacity(iteration.insts.len()),
            spills: 0,
            divides: false,
            peak: 0,
        };
        for (k, &(start, end)) in iteration.accumulators.iter().enumerate() {
            a.reserved.insert(k as u8);
            a.hold(k as u8, start);
            a.wanted.insert(end, k as u8);
            a.release_unused(start);
        }
        for (k, &r) in kept.iter().enumerate() {
            let number = (iteration.width.registers() - 1 - k) as u8;
            a.reserved.insert(number);
            a.hold(number, r);
            if let Some(location) = a.location(r) {
                a.before.push(Step::Plain(a.load_code(r), smallvec![whole(number), location]));
            }
        }
        for (at, inst) in iteration.insts.iter().enumerate() {
            a.inst(at as u32, inst);
        }
        a.close();
        a
    }

    fn hold(&mut self, number: u8, r: Reg) {
        self.busy.insert(number);
        self.held[usize::from(number)] = Some(r);
        self.place[r.0 as usize] = Some(number);
    }

    /// The uses of a register that are still to come, the next one last.
    fn to_come(&self, r: Reg) -> &'t [u32] {
        &self.uses.positions[self.uses.start(r)..self.ends[r.0 as usize] as usize]
    }

    /// Where the value lies in memory, if it does.
    fn location(&self, r: Reg) -> Option<Operand> {
        match self.iteration.definitions[r.0 as usize] {
            Definition::Constant(k) => Some(Operand::Pool(k)),
            Definition::Uniform(k) => Some(Operand::Frame(self.frame.uniform(k))),
            _ => self.slot[r.0 as usize].map(|k| Operand::Frame(self.frame.spill(k))),
        }
    }

    /// What a register holds is gone.
    fn empty(&mut self, number: u8) -> Option<Reg> {
        self.busy.remove(number);
        self.held[usize::from(number)].take()
    }

    /// The machine registers for masks, or for all other values.
    fn file(&self, mask: bool) -> Registers {
        if mask {
            Registers::between(usize::from(FIRST_MASK) + 1, REGISTERS)
        } else {
            Registers::between(0, self.iteration.width.registers())
        }
    }

    /// The move of a value from memory to a register, or back.
    fn move_code(&self, mask: bool, load: bool) -> Code {
        match (mask, self.iteration.width, load) {
            (true, _, true) => Code::VEX_Kmovw_kr_km16,
            (true, _, false) => Code::VEX_Kmovw_m16_kr,
            (false, Width::W256, true) => Code::VEX_Vmovups_ymm_ymmm256,
            (false, Width::W256, false) => Code::VEX_Vmovups_ymmm256_ymm,
            (false, Width::W512, true) => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
            (false, Width::W512, false) => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
        }
    }

    /// The move of a value from its location to a register. All words of what is broadcast are alike. One of them is forwarded from the store that
    /// wrote it; a register's worth, written in several stores, would wait for the cache.
    fn load_code(&self, r: Reg) -> Code {
        match self.iteration.definitions[r.0 as usize] {
            Definition::Uniform(_) => broadcast_code(self.iteration.width),
            _ => self.move_code(self.iteration.is_mask(r), true),
        }
    }

    /// A register that is free, made so if need be; it stays locked until the instruction is done.
    fn take(&mut self, mask: bool) -> u8 {
        let general = self.file(mask).without(self.reserved).without(self.locked);
        let i = general.without(self.busy).first().unwrap_or_else(|| {
            let next = |r: Reg| self.to_come(r).last().copied().unwrap_or(u32::MAX);
            let held = general.filter_map(|i| self.held[usize::from(i)].map(|r| (next(r), i)));
            let last = held.max().map_or(self.file(mask).last(), |(_, i)| i);
            self.evict(last);
            last
        });
        self.locked.insert(i);
        i
    }

    /// A move of the allocator's own.
    fn transfer(&mut self, code: Code, to: Operand, from: Operand) {
        self.steps.push((Step::Plain(code, smallvec![to, from]), None));
    }

    fn evict(&mut self, i: u8) {
        let Some(r) = self.empty(i) else { return };
        self.place[r.0 as usize] = None;
        if self.location(r).is_none() {
            self.slot[r.0 as usize] = Some(self.spills);
            let code = self.move_code(self.iteration.is_mask(r), false);
            self.transfer(code, Operand::Frame(self.frame.spill(self.spills)), whole(i));
            self.spills += 1;
        }
    }

    /// The value in a register.
    fn register(&mut self, r: Reg) -> u8 {
        if let Some(number) = self.place[r.0 as usize] {
            self.locked.insert(number);
            return number;
        }
        let mask = self.iteration.is_mask(r);
        let number = self.take(mask);
        if let Some(location) = self.location(r) {
            self.transfer(self.load_code(r), whole(number), location);
        }
        self.hold(number, r);
        number
    }

    /// The value in a register, or where it lies in memory.
    fn anywhere(&mut self, r: Reg) -> Operand {
        match (self.place[r.0 as usize], self.location(r)) {
            (None, Some(location)) if !self.iteration.is_mask(r) => location,
            _ => whole(self.register(r)),
        }
    }

    /// Whether the instruction at `at` is the last that needs `r`.
    fn dies(&self, r: Reg, at: u32) -> bool {
        self.to_come(r).first().is_none_or(|&last| last <= at)
    }

    /// Whether `r` is in a register that its last use may overwrite.
    fn given(&self, r: Reg, at: u32, to: Reg) -> bool {
        self.place[r.0 as usize]
            .is_some_and(|p| self.dies(r, at) && (!self.reserved.contains(p) || self.wanted.get(&to) == Some(&p)))
    }

    fn release_unused(&mut self, r: Reg) {
        if self.to_come(r).is_empty()
            && let Some(p) = self.place[r.0 as usize]
            && self.wanted_or_general(p)
        {
            self.empty(p);
            self.place[r.0 as usize] = None;
        }
    }

    /// Whether a register may lose its value: not where a value is kept for the whole loop.
    fn wanted_or_general(&self, p: u8) -> bool {
        usize::from(p) < self.iteration.accumulators.len() || !self.reserved.contains(p)
    }

    /// Ends the uses at an instruction.
    fn done(&mut self, at: u32, regs: &[Reg]) {
        for &r in regs {
            while self.to_come(r).last().is_some_and(|&p| p <= at) {
                self.ends[r.0 as usize] -= 1;
            }
            self.release_unused(r);
        }
    }

    /// A register for a result: where it is wanted, or `near`, or one whose value has just died.
    fn result(&mut self, to: Reg, near: Option<u8>) -> u8 {
        let taken = self.busy.union(self.reserved);
        let wanted = self.wanted.get(&to).copied().filter(|&p| !self.busy.contains(p));
        let near = near.filter(|&p| !taken.contains(p));
        let mask = self.iteration.is_mask(to);
        let any = || self.file(mask).without(taken).first();
        let number = wanted.or(near).or_else(any).unwrap_or_else(|| self.take(mask));
        self.hold(number, to);
        number
    }

    fn inst(&mut self, at: u32, inst: &Inst) {
        let regs: SmallVec<[Reg; 4]> = inst.operands().collect();
        match inst {
            Inst::Plain { code, to, from, half, imm } => {
                let mut places = Operands::new();
                for (k, &r) in from.iter().enumerate() {
                    let half = half >> (k + 1) & 1 == 1;
                    let last = k + 1 == from.len();
                    places.push(if last && !half && takes_memory(*code) {
                        self.anywhere(r)
                    } else {
                        Operand::Register { number: self.register(r), half }
                    });
                }
                self.done(at, &regs);
                let number = self.result(*to, None);
                let mut all: Operands = smallvec![Operand::Register { number, half: half & 1 == 1 }];
                all.extend(places);
                all.extend(imm.map(Operand::Imm));
                self.steps.push((Step::Plain(*code, all), Some(at)));
            }
            Inst::Blend { code, to, mask, then, otherwise } => {
                let mask = match self.iteration.width {
                    Width::W256 => whole(self.register(*mask)),
                    Width::W512 => Operand::Chooser(self.register(*mask)),
                };
                let otherwise = whole(self.register(*otherwise));
                let then = self.anywhere(*then);
                self.done(at, &regs);
                let number = self.result(*to, None);
                self.steps.push((Step::Plain(*code, smallvec![whole(number), otherwise, then, mask]), Some(at)));
            }
            Inst::Fma { wide, to, a, b, c } => self.multiply_add(at, *wide, *to, [*a, *b, *c]),
            Inst::Permute { to, order, low, high } => {
                self.over(at, *to, Code::EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32, [*low, *order, *high]);
            }
            Inst::Load { code, to, from, half, mask } => {
                let mask = mask.map(|mask| Operand::Zeroing(self.register(mask)));
                self.done(at, &regs);
                let number = self.result(*to, None);
                let mut operands: Operands = smallvec![Operand::Register { number, half: *half }, Operand::Row(*from)];
                operands.extend(mask);
                self.steps.push((Step::Plain(*code, operands), Some(at)));
            }
            Inst::Insert { code, to, into, from, half, imm } => {
                let into = Operand::Register { number: self.register(*into), half: *half };
                self.done(at, &regs);
                let number = self.result(*to, None);
                let mut operands: Operands =
                    smallvec![Operand::Register { number, half: *half }, into, Operand::Row(*from)];
                operands.extend(imm.map(Operand::Imm));
                self.steps.push((Step::Plain(*code, operands), Some(at)));
            }
            Inst::Store { code, to, from, half, imm, mask } => {
                let number = self.register(*from);
                let mask = mask.map(|mask| Operand::Chooser(self.register(mask)));
                let mut operands: Operands = smallvec![Operand::Row(*to), Operand::Register { number, half: *half }];
                operands.extend(imm.map(Operand::Imm));
                operands.extend(mask);
                self.steps.push((Step::Plain(*code, operands), Some(at)));
                self.done(at, &regs);
            }
            Inst::Pick { to, into, from, index, each } => {
                let (of, into) = (self.register(index.of), into.map(|into| self.register(into)));
                self.done(at, &regs);
                let to = self.result(*to, into);
                let (index, each) = (Index { of, first: index.first }, each.clone());
                self.steps.push((Step::Pick { to, into, from: *from, index, each }, Some(at)));
            }
            Inst::Put { from, to, index, each } => {
                let (of, from) = (self.register(index.of), self.register(*from));
                let (index, each) = (Index { of, first: index.first }, each.clone());
                self.steps.push((Step::Put { from, to: *to, index, each }, Some(at)));
                self.done(at, &regs);
            }
            Inst::Divide { how, to, from, live } => {
                let from = from.map(|r| self.register(r));
                self.divides = true;
                self.done(at, &regs);
                let to = self.result(*to, None);
                self.steps.push((Step::Divide { how: *how, to, from, live: *live }, Some(at)));
            }
            Inst::Broadcast { to, stride, wide } => {
                let register = self.result(*to, None);
                self.steps.push((Step::Broadcast { register, stride: *stride, wide: *wide }, Some(at)));
            }
        }
        // A result that nobody needs gives its register back at once.
        if let Some(to) = inst.result() {
            self.release_unused(to);
        }
        let used = self.busy.union(self.locked).without(self.reserved);
        self.peak = self.peak.max(self.file(false).intersection(used).len());
        self.locked = Registers(0);
    }

    /// The result takes the place of an operand: of the addend (231), of a factor (213), or of a copy.
    fn multiply_add(&mut self, at: u32, wide: bool, to: Reg, [a, b, c]: [Reg; 3]) {
        use Code::*;
        let (form_213, form_231) = match (self.iteration.width, wide) {
            (Width::W256, false) => (VEX_Vfmadd213ps_ymm_ymm_ymmm256, VEX_Vfmadd231ps_ymm_ymm_ymmm256),
            (Width::W256, true) => (VEX_Vfmadd213pd_ymm_ymm_ymmm256, VEX_Vfmadd231pd_ymm_ymm_ymmm256),
            (Width::W512, false) => {
                (EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er)
            }
            (Width::W512, true) => {
                (EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er, EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er)
            }
        };
        let distinct = |x: Reg, others: [Reg; 2]| others[0] != x && others[1] != x;
        let (code, tied, second, third) = if self.given(c, at, to) && distinct(c, [a, b]) {
            (form_231, c, a, b)
        } else if self.given(a, at, to) && distinct(a, [b, c]) {
            (form_213, a, b, c)
        } else if self.given(b, at, to) && distinct(b, [a, c]) {
            (form_213, b, a, c)
        } else {
            // Copied: an addend that lies in memory by a load, a factor otherwise.
            let in_memory = self.place[c.0 as usize].is_none();
            if in_memory { (form_231, c, a, b) } else { (form_213, a, b, c) }
        };
        // The last operand may lie in memory; of two factors, that one.
        let (second, third) =
            if code == form_231 && self.place[second.0 as usize].is_none() { (third, second) } else { (second, third) };
        self.over(at, to, code, [tied, second, third]);
    }

    /// An instruction whose result takes the place of its first operand, or of a copy; the last operand may lie in memory.
    fn over(&mut self, at: u32, to: Reg, code: Code, regs: [Reg; 3]) {
        let [tied, second, third] = regs;
        let second = whole(self.register(second));
        let third = self.anywhere(third);
        let from = self.anywhere(tied);
        let near = self.place[tied.0 as usize];
        self.done(at, &regs);
        let mut number = self.result(to, near);
        if from != whole(number) {
            // Registers of the other operands may have been given up to the result by now.
            if second == whole(number) || third == whole(number) {
                number = self.elsewhere(to);
            }
            self.transfer(self.move_code(false, true), whole(number), from);
        }
        self.steps.push((Step::Plain(code, smallvec![whole(number), second, third]), Some(at)));
    }

    /// Moves a result that was just given a register to another one.
    fn elsewhere(&mut self, to: Reg) -> u8 {
        if let Some(p) = self.place[to.0 as usize].take() {
            self.empty(p);
            self.locked.insert(p);
        }
        let number = self.take(false);
        self.hold(number, to);
        number
    }

    /// Brings the accumulators' final values to their registers.
    fn close(&mut self) {
        let own = |number: u8| usize::from(number) < self.iteration.accumulators.len();
        let mut late = Vec::new();
        let mut moves = Vec::new();
        for (k, &(_, end)) in self.iteration.accumulators.iter().enumerate() {
            let k = k as u8;
            match self.place[end.0 as usize] {
                Some(p) if p == k => {}
                // Another accumulator's register will be overwritten: by way of memory.
                Some(p) if own(p) => {
                    let slot = Operand::Frame(self.frame.spill(self.spills + late.len() as u32));
                    late.push((k, slot, p));
                }
                Some(p) => moves.push((k, whole(p))),
                None => moves.extend(self.location(end).map(|location| (k, location))),
            }
        }
        self.spills += late.len() as u32;
        for &(_, slot, p) in &late {
            self.transfer(self.move_code(false, false), slot, whole(p));
        }
        for (k, from) in moves.into_iter().chain(late.into_iter().map(|(k, slot, _)| (k, slot))) {
            self.transfer(self.move_code(false, true), whole(k), from);
        }
    }
}
