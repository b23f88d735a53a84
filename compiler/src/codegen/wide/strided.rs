//! Rows whose elements do not lie side by side: reversed, every second one, a few apart, and with any other stride.
//!
//! Nothing is read that the row does not have, and nothing is written.

use super::Reg;
use super::select::{Access, Block, Definition, Inst, Pointer, Selector, load_code};
use crate::codegen::rows::{NEAR, Width};
use crate::kernel::body::{Lane, Mem};
use iced_x86::Code;

/// Elements of a register of 128 bits, for 32-bit lanes.
const QUARTER: i64 = 4;

impl Selector<'_> {
    /// Memory at element `e` of the turn's block, from a pointer that walks.
    fn walking(&mut self, p: Pointer, mem: Mem, stride: i64, e: i64) -> Option<Access> {
        let step = i32::try_from(stride.checked_mul(mem.bytes())?).ok()?;
        let pointer = self.pointer(p);
        *self.steps.get_mut(pointer as usize)? = step;
        let displacement = i32::try_from(i64::from(step).checked_mul(e)?).ok()?;
        Some(Access { pointer, scale: 0, displacement })
    }

    fn insert(&mut self, code: Code, into: Reg, from: Access, imm: Option<u8>) -> Reg {
        let to = self.register(Definition::Computed);
        self.turn.insts.push(Inst::Insert { code, to, into, from, imm });
        to
    }

    /// A block of a row with a stride other than 1.
    pub(super) fn load_strided(&mut self, p: Pointer, mem: Mem, block: i64, stride: i64) -> Option<Block> {
        use Code::*;
        let first = block * self.block;
        let whole = mem == Mem::of(mem.lane());
        let each = self.block * 32 / i64::from(mem.lane().bits());
        match stride {
            -1 if self.is_whole() => (0..self.block / each)
                .map(|k| {
                    let from = self.walking(p, mem, stride, first + (k + 1) * each - 1)?;
                    let code = if mem.lane().bits() == 32 { load_code(mem) } else { VEX_Vmovups_ymm_ymmm256 };
                    let v = self.load_at(code, from, false);
                    Some(self.reversed(mem, v))
                })
                .collect(),
            2 if whole && self.is_whole() => {
                let last = self.row.wide_turn(self.width) - each;
                let registers = self.block / each;
                let mut one = |k| self.every_second((p, mem), first + k * each, each, first + k * each == last);
                (0..registers).map(&mut one).collect()
            }
            2 if whole && self.width == Width::W512 => (0..self.block / each)
                .map(|k| self.some_of_every_second((p, mem), first + k * each, each, self.live_in(mem.lane(), k)))
                .collect(),
            3.. if whole && self.is_whole() && stride <= nearest(mem, self.width) => {
                Some(vec![self.load_near((p, mem), first, stride)?])
            }
            _ if self.width == Width::W256 || mem.bytes() < 4 => self.load_elements(p, mem, first, stride),
            _ => (0..self.block / each).map(|k| self.load_apart(p, mem, (first, k), stride)).collect(),
        }
    }

    /// A register of every second element: those of two registers. What is behind the last element of a turn is not read: there
    /// the second register ends with that element.
    fn every_second(&mut self, (p, mem): (Pointer, Mem), first: i64, each: i64, last: bool) -> Option<Reg> {
        use Code::*;
        let low = self.walking(p, mem, 2, first)?;
        let high = low.behind(each - i64::from(last), mem)?;
        let (low, high) =
            (self.load_at(VEX_Vmovups_ymm_ymmm256, low, false), self.load_at(VEX_Vmovups_ymm_ymmm256, high, false));
        Some(self.evens(mem, low, high, last))
    }

    /// As [`Selector::every_second`], of which as many elements as are `live` are read, and nothing behind them.
    fn some_of_every_second(&mut self, (p, mem): (Pointer, Mem), first: i64, each: i64, live: i64) -> Option<Reg> {
        let start = self.walking(p, mem, 2, first)?;
        let halves = [0, each].map(|begin| {
            let needed = (2 * live - 1 - begin).clamp(0, each);
            if needed == 0 {
                return Some(self.constant(mem.lane(), 0));
            }
            let from = start.behind(begin, mem)?;
            let mask = (needed < each).then(|| self.first_elements(mem.lane(), needed));
            let to = self.register(Definition::Computed);
            self.turn.insts.push(Inst::Load { code: load_code(mem), to, from, half: false, mask });
            Some(to)
        });
        let [Some(low), Some(high)] = halves else { return None };
        Some(self.evens(mem, low, high, false))
    }

    /// The even elements of two registers; where the second one is the `last`, which begins an element early, its odd ones.
    fn evens(&mut self, mem: Mem, low: Reg, high: Reg, last: bool) -> Reg {
        use Code::*;
        let (code, imm) = match (mem.lane().bits() == 32, last) {
            (true, false) => (VEX_Vshufps_ymm_ymm_ymmm256_imm8, 0b10_00_10_00),
            (true, true) => (VEX_Vshufps_ymm_ymm_ymmm256_imm8, 0b11_01_10_00),
            (false, false) => (VEX_Vshufpd_ymm_ymm_ymmm256_imm8, 0),
            (false, true) => (VEX_Vshufpd_ymm_ymm_ymmm256_imm8, 0b1010_1010),
        };
        // In each part of 128 bits: what is of the first register, then what is of the second.
        let both = self.with_imm(code, &[low, high], imm);
        match self.width {
            Width::W256 => self.with_imm(VEX_Vpermq_ymm_ymmm256_imm8, &[both], 0b11_01_10_00),
            Width::W512 => {
                let order = self.elements(|k| 2 * k % 8 + 2 * k / 8);
                self.plain(EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64, &[order, both])
            }
        }
    }

    /// A register of 32-bit elements that lie a few apart: those of as many registers as they are apart, of which the last ends with the
    /// last element.
    fn load_near(&mut self, (p, mem): (Pointer, Mem), first: i64, stride: i64) -> Option<Reg> {
        let (each, start) = (self.block, self.walking(p, mem, stride, first)?);
        let begins: Vec<i64> = (0..stride).map(|k| (k * each).min((each - 1) * (stride - 1))).collect();
        let mut all = None;
        for (k, &begin) in (0..).zip(&begins) {
            let from = start.behind(begin, mem)?;
            let r = self.load_at(load_code(mem), from, false);
            // Where in this register an element is, if it is of it.
            let place = |e: u64| Some(e as i64 * stride).filter(|at| at / each == k).map(|at| (at - begin) as u64);
            let order = self.elements(|w| place(2 * w).unwrap_or(0) | place(2 * w + 1).unwrap_or(0) << 32);
            let placed = self.plain(Code::VEX_Vpermd_ymm_ymm_ymmm256, &[order, r]);
            all = Some(match all {
                None => placed,
                Some(before) => {
                    let ones = |e: u64| place(e).map_or(0, |_| 0xffff_ffff);
                    let here = self.elements(|w| ones(2 * w) | ones(2 * w + 1) << 32);
                    let here = self.as_operand(mem.lane().mask(), here);
                    self.blend(false, here, placed, before)
                }
            });
        }
        all
    }

    /// The elements of a register, the last one first.
    fn reversed(&mut self, mem: Mem, v: Reg) -> Reg {
        let last = u64::from(self.width.bytes()) / u64::from(mem.lane().bits() / 8) - 1;
        match (mem.lane().bits(), self.width) {
            (32, _) => {
                let order = self.elements(|k| (last - 2 * k) | (last - 2 * k - 1) << 32);
                self.plain(Code::VEX_Vpermd_ymm_ymm_ymmm256, &[order, v])
            }
            (_, Width::W256) => self.with_imm(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[v], 0b00_01_10_11),
            (_, Width::W512) => {
                let order = self.elements(|k| last - k);
                self.plain(Code::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64, &[order, v])
            }
        }
    }

    /// A block, element by element.
    fn load_elements(&mut self, p: Pointer, mem: Mem, first: i64, stride: i64) -> Option<Block> {
        use Code::*;
        match mem {
            Mem::S8 | Mem::U8 | Mem::S16 | Mem::U16 => self.load_narrow(p, mem, first, stride),
            Mem::I32 | Mem::F32 => {
                let mut halves = [0, QUARTER].into_iter().map(|half| {
                    let from = self.walking(p, mem, stride, first + half)?;
                    let mut v = self.load_at(VEX_Vmovss_xmm_m32, from, true);
                    for e in 1..QUARTER {
                        let from = self.walking(p, mem, stride, first + half + e)?;
                        v = self.insert(VEX_Vinsertps_xmm_xmm_xmmm32_imm8, v, from, Some((e << 4) as u8));
                    }
                    Some(v)
                });
                let (low, high) = (halves.next()??, halves.next()??);
                Some(vec![self.joined(low, high)])
            }
            Mem::I64 | Mem::F64 => (0..2)
                .map(|k| {
                    let mut halves = [0, 2].into_iter().map(|half| {
                        let at = first + k * QUARTER + half;
                        let from = self.walking(p, mem, stride, at)?;
                        let v = self.load_at(VEX_Vmovsd_xmm_m64, from, true);
                        let from = self.walking(p, mem, stride, at + 1)?;
                        Some(self.insert(VEX_Vmovhpd_xmm_xmm_m64, v, from, None))
                    });
                    let (low, high) = (halves.next()??, halves.next()??);
                    Some(self.joined(low, high))
                })
                .collect(),
        }
    }

    /// A block of integers of 8 or 16 bits, put side by side one by one and then widened.
    fn load_narrow(&mut self, p: Pointer, mem: Mem, first: i64, stride: i64) -> Option<Block> {
        use Code::*;
        let code = match (mem.bytes(), self.width) {
            (1, Width::W256) => VEX_Vpinsrb_xmm_xmm_r32m8_imm8,
            (1, Width::W512) => EVEX_Vpinsrb_xmm_xmm_r32m8_imm8,
            (_, Width::W256) => VEX_Vpinsrw_xmm_xmm_r32m16_imm8,
            (_, Width::W512) => EVEX_Vpinsrw_xmm_xmm_r32m16_imm8,
        };
        let each = (16 / mem.bytes()).min(self.block);
        let mut both = None;
        for (part, e) in (0..).zip((0..self.live).step_by(each as usize)) {
            let mut v = self.constant(Lane::I32, 0);
            for k in e..self.live.min(e + each) {
                let from = self.walking(p, mem, stride, first + k)?;
                v = self.insert(code, v, from, Some((k - e) as u8));
            }
            both = Some(match both {
                None => v,
                Some(low) => self.halves(EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8, &[low, v], 0b100, Some(part)),
            });
        }
        Some(vec![self.halves(load_code(mem), &[both?], 0b10, None)])
    }

    /// Register `k` of a block of elements that lie apart.
    fn load_apart(&mut self, p: Pointer, mem: Mem, (first, k): (i64, i64), stride: i64) -> Option<Reg> {
        let each = self.block * 32 / i64::from(mem.lane().bits());
        let from = self.walking(p, mem, stride, first + k * each)?;
        let at = |e: u64| stride.wrapping_mul(e as i64) as u64;
        let index = match mem.lane().bits() {
            64 => self.elements(at),
            _ => {
                i32::try_from(stride.checked_mul(self.block)?).ok()?;
                self.elements(|k| (at(2 * k) & 0xffff_ffff) | at(2 * k + 1) << 32)
            }
        };
        Some(self.gathered(mem, from, k, index))
    }

    /// Two halves as one register.
    fn joined(&mut self, low: Reg, high: Reg) -> Reg {
        self.halves(Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, &[low, high], 0b100, Some(1))
    }

    fn store_at(&mut self, code: Code, to: Access, from: Reg, half: bool, imm: Option<u8>) {
        self.turn.insts.push(Inst::Store { code, to, from, half, imm, mask: None });
    }

    /// Stores a block to a row with a stride other than 1.
    pub(super) fn store_strided(&mut self, p: Pointer, mem: Mem, block: i64, stride: i64, v: &[Reg]) -> Option<()> {
        use Code::*;
        let first = block * self.block;
        let whole = mem == Mem::of(mem.lane());
        for (k, &r) in (0..).zip(v) {
            let each = self.block / v.len() as i64;
            let begin = first + k * each;
            match stride {
                -1 if whole && self.is_whole() => {
                    let reversed = self.reversed(mem, r);
                    let to = self.walking(p, mem, stride, begin + each - 1)?;
                    self.store_at(VEX_Vmovups_ymmm256_ymm, to, reversed, false, None);
                }
                _ => self.store_apart((p, mem), (begin, self.live_in(mem.lane(), k)), stride, r)?,
            }
        }
        Some(())
    }

    /// Stores as many elements of a register as are `live`, the first of them at element `begin` of the turn: out of its quarters
    /// or halves of 128 bits, one by one.
    fn store_apart(&mut self, (p, mem): (Pointer, Mem), (begin, live): (i64, i64), stride: i64, r: Reg) -> Option<()> {
        let each = QUARTER * 32 / i64::from(mem.lane().bits());
        for part in 0..(live + each - 1) / each {
            let from = match (part, self.width) {
                (0, _) => r,
                (_, Width::W256) => self.upper(r),
                (_, Width::W512) => {
                    self.halves(Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, &[r], 1, Some(part as u8))
                }
            };
            for e in part * each..live.min((part + 1) * each) {
                let to = self.walking(p, mem, stride, begin + e)?;
                let (code, imm) = element_store(mem, (e - part * each) as u8, self.width);
                self.store_at(code, to, from, true, imm);
            }
        }
        Some(())
    }

    /// Stores two blocks, the elements of the first at the even places of a row, those of the second behind each.
    pub(super) fn store_interleaved(&mut self, p: Pointer, mem: Mem, block: i64, v: [&[Reg]; 2]) -> Option<()> {
        use Code::*;
        let first = self.walking(p, mem, 2, block * self.block)?;
        let (low_code, high_code) = match mem.lane().bits() {
            32 => (VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256),
            _ => (VEX_Vunpcklpd_ymm_ymm_ymmm256, VEX_Vunpckhpd_ymm_ymm_ymmm256),
        };
        for (k, (&a, &b)) in (0..).zip(v[0].iter().zip(v[1])) {
            // Each part of 128 bits of the one is followed by that of the other.
            let (low, high) = (self.plain(low_code, &[a, b]), self.plain(high_code, &[a, b]));
            for half in [0, 1] {
                let both = match self.width {
                    Width::W256 => {
                        let order = [0x20, 0x31][half];
                        self.with_imm(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, &[low, high], order)
                    }
                    Width::W512 => {
                        let code = EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8;
                        let order = [0b01_00_01_00, 0b11_10_11_10][half];
                        let parts = self.with_imm(code, &[low, high], order);
                        self.with_imm(code, &[parts, parts], 0b11_01_10_00)
                    }
                };
                let each = i64::from(self.width.bytes()) / mem.bytes();
                let to = first.behind((2 * k + half as i64) * each, mem)?;
                self.store_at(VEX_Vmovups_ymmm256_ymm, to, both, false, None);
            }
        }
        Some(())
    }
}

/// The most elements from one to the next for which it pays to take apart registers of all between them.
fn nearest(mem: Mem, width: Width) -> i64 {
    match (mem.lane().bits(), width) {
        (32, Width::W512) => NEAR as i64,
        (32, Width::W256) => 4,
        _ => 0,
    }
}

/// The instruction that stores element `e` of the lowest 128 bits of a register.
fn element_store(mem: Mem, e: u8, width: Width) -> (Code, Option<u8>) {
    use Code::*;
    let (code, code_of_512, imm) = match (mem, e) {
        (Mem::I32 | Mem::F32, 0) => (VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm, None),
        (Mem::I32 | Mem::F32, e) => (VEX_Vextractps_rm32_xmm_imm8, EVEX_Vextractps_rm32_xmm_imm8, Some(e)),
        (Mem::I64 | Mem::F64, 0) => (VEX_Vmovlpd_m64_xmm, EVEX_Vmovlpd_m64_xmm, None),
        (Mem::I64 | Mem::F64, _) => (VEX_Vmovhpd_m64_xmm, EVEX_Vmovhpd_m64_xmm, None),
        // Narrow integers are carried in 32 bits.
        (Mem::S8 | Mem::U8, e) => (VEX_Vpextrb_r32m8_xmm_imm8, EVEX_Vpextrb_r32m8_xmm_imm8, Some(4 * e)),
        (Mem::S16 | Mem::U16, e) => (VEX_Vpextrw_r32m16_xmm_imm8, EVEX_Vpextrw_r32m16_xmm_imm8, Some(2 * e)),
    };
    match width {
        Width::W256 => (code, imm),
        Width::W512 => (code_of_512, imm),
    }
}
