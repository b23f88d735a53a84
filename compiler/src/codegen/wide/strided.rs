//! Rows whose elements do not lie side by side: reversed, every second one and a few apart. With any other stride they go one by one.
//!
//! Nothing is read that the row does not have, and nothing is written.

use super::Reg;
use super::select::{Access, Definition, Inst, Pointer, Selector, Vector, count, load_code};
use super::single::Places;
use crate::codegen::rows::{NEAR, Near, Width};
use crate::kernel::body::{Mem, NodeId, ScalarType};
use iced_x86::Code;
use smallvec::smallvec;

/// 32-bit elements that lie a few apart.
pub(super) struct Apart {
    /// The load among those that share registers which begins first.
    pub leader: NodeId,
    /// Memory form.
    pub mem: Mem,
    /// Elements from one to the next.
    pub stride: i64,
    /// How many elements behind the leader they begin, ...
    pub behind: i64,
    /// ... and the last of them that share.
    pub span: i64,
}

/// A register, and where in it each element is that it has.
type Scattered = (Reg, Vec<Option<u64>>);

impl Selector<'_> {
    /// A vector of a row with a stride other than 1.
    pub(super) fn load_strided(&mut self, id: NodeId, mem: Mem, vector: i64, stride: i64) -> Option<Vector> {
        use Code::*;
        let p = Pointer::Load(id);
        let first = vector * self.vector;
        let whole = !mem.is_extended();
        let each = self.vector * 32 / i64::from(mem.scalar().bits());
        match stride {
            -1 if self.is_whole() => (0..self.vector / each)
                .map(|k| {
                    let from = self.walking(p, mem, stride, first + (k + 1) * each - 1)?;
                    let code = if mem.scalar().bits() == 32 { load_code(mem) } else { VEX_Vmovups_ymm_ymmm256 };
                    let v = self.load_at(code, from, false);
                    Some(self.reversed(mem, v))
                })
                .collect(),
            2 if whole && self.is_whole() => {
                (0..self.vector / each).map(|k| self.every_second(id, mem, first + k * each, each)).collect()
            }
            2 if whole && self.width == Width::W512 => (0..self.vector / each)
                .map(|k| self.some_of_every_second((p, mem), first + k * each, each, self.live_in(mem.scalar(), k)))
                .collect(),
            _ if self.is_whole() && self.lies_in_words(id, mem, stride) => {
                Some(smallvec![self.load_of_words(id, mem, first, stride)?])
            }
            _ if self.row.part(id).is_some() => {
                (0..count(mem.scalar()) as i64).map(|k| self.load_transposed(id, mem, (first, k), stride)).collect()
            }
            _ if whole && self.is_whole() && (3..=nearest(mem, self.width)).contains(&stride.abs()) => {
                Some(smallvec![self.load_near(id, mem, first, stride)?])
            }
            _ => {
                let whole = if self.is_whole() { self.load_shuffled(id, mem, first, stride) } else { None };
                match whole {
                    Some(r) => Some(smallvec![r]),
                    None => self.load_single(mem, &Places::Walk { pointer: p, stride, first }),
                }
            }
        }
    }

    /// A register of every second element: those of two registers, which a load shares that begins an element behind. What is behind the
    /// last element of an iteration is not read: there the second register ends with that element.
    fn every_second(&mut self, id: NodeId, mem: Mem, first: i64, each: i64) -> Option<Reg> {
        let Near { leader, behind, span } = *self.row.near.get(&id)?;
        let last = span == 0 && first + each == self.length;
        let (low, high) = match self.read.get(&(leader, first)).map(Vec::as_slice) {
            Some(&[low, high]) => (low, high),
            _ => {
                let start = self.walking(Pointer::Load(leader), mem, 2, first)?;
                let end = start.behind(each - i64::from(last), mem)?;
                let [low, high] = [start, end].map(|from| self.load_at(Code::VEX_Vmovups_ymm_ymmm256, from, false));
                self.read.insert((leader, first), vec![low, high]);
                (low, high)
            }
        };
        Some(self.seconds(mem, [low, high], [behind == 1, behind == 1 || last]))
    }

    /// As [`Selector::every_second`], of which as many elements as are `live` are read, and nothing behind them.
    fn some_of_every_second(&mut self, (p, mem): (Pointer, Mem), first: i64, each: i64, live: i64) -> Option<Reg> {
        let start = self.walking(p, mem, 2, first)?;
        let halves = [0, each].map(|begin| {
            let needed = (2 * live - 1 - begin).clamp(0, each);
            if needed == 0 {
                return Some(self.constant(mem.scalar(), 0));
            }
            let from = start.behind(begin, mem)?;
            let mask = (needed < each).then(|| self.first_elements(mem.scalar(), needed));
            let to = self.register(Definition::Computed);
            self.iteration.insts.push(Inst::Load { code: load_code(mem), to, from, half: false, mask });
            Some(to)
        });
        let [Some(low), Some(high)] = halves else { return None };
        Some(self.seconds(mem, [low, high], [false; 2]))
    }

    /// Every second element of two registers: of each the even ones, or the odd ones.
    fn seconds(&mut self, mem: Mem, of: [Reg; 2], odd: [bool; 2]) -> Reg {
        use Code::*;
        if self.width == Width::W512 {
            let each = u64::from(self.width.bytes()) / mem.bytes() as u64;
            return self.permuted(mem, of, |e| 2 * e + u64::from(odd[usize::from(2 * e >= each)]));
        }
        let [low, high] = odd.map(u8::from);
        // In each part of 128 bits: what is of the first register, then what is of the second.
        let both = match mem.scalar().bits() {
            32 => {
                self.with_imm(VEX_Vshufps_ymm_ymm_ymmm256_imm8, &of, 0b10_00_10_00 + 0b0101 * low + 0b0101_0000 * high)
            }
            _ => self.with_imm(VEX_Vshufpd_ymm_ymm_ymmm256_imm8, &of, 0b0101 * low + 0b1010 * high),
        };
        self.with_imm(VEX_Vpermq_ymm_ymmm256_imm8, &[both], 0b11_01_10_00)
    }

    /// Elements of two registers of 512 bits: for each its number among those of both.
    fn permuted(&mut self, mem: Mem, [low, high]: [Reg; 2], number: impl Fn(u64) -> u64) -> Reg {
        let order = match mem.scalar().bits() {
            32 => self.elements(|w| number(2 * w) | number(2 * w + 1) << 32),
            _ => self.elements(|w| (2 * number(w)) | ((2 * number(w) + 1) << 32)),
        };
        let to = self.register(Definition::Computed);
        self.iteration.insts.push(Inst::Permute { to, order, low, high });
        to
    }

    /// A register of 32-bit elements that lie a few apart, and that is taken out of as many registers as they are apart: the last of
    /// these ends with the last element of all loads that share them.
    fn load_near(&mut self, id: NodeId, mem: Mem, first: i64, stride: i64) -> Option<Reg> {
        let Near { leader, behind, span } = *self.row.near.get(&id)?;
        self.load_apart(&Apart { leader, mem, stride, behind, span }, first)
    }

    /// A vector of 32-bit elements, from `first` of the iteration on.
    pub(super) fn load_apart(&mut self, of: &Apart, first: i64) -> Option<Reg> {
        let &Apart { leader, mem, stride, behind, span } = of;
        let (each, apart) = (self.vector, stride.abs());
        let lowest = if stride < 0 { first + each - 1 } else { first };
        let start = self.walking(Pointer::Load(leader), mem, stride, lowest)?;
        let begins: Vec<i64> = (0..apart).map(|k| (k * each).min((each - 1) * (apart - 1) + span)).collect();
        let registers = match self.read.get(&(leader, first)) {
            Some(registers) => registers.clone(),
            None => {
                let load = |begin: &i64| Some(self.load_at(load_code(mem), start.behind(*begin, mem)?, false));
                let registers: Vec<Reg> = begins.iter().map(load).collect::<Option<_>>()?;
                self.read.insert((leader, first), registers.clone());
                registers
            }
        };
        let parts = (0..).zip(&begins).zip(registers).map(|((k, &begin), r)| {
            // Where in this register an element is, if it is of it.
            let place = move |e: u64| {
                let e = if stride < 0 { each - 1 - e as i64 } else { e as i64 };
                Some(e * apart + behind).filter(|at| at / each == k).map(|at| (at - begin) as u64)
            };
            (r, place)
        });
        self.picked(mem, parts)
    }

    /// A register of 32-bit elements out of others: each of these says for every element where in it that is, if it is of it.
    fn picked(&mut self, mem: Mem, parts: impl Iterator<Item = (Reg, impl Fn(u64) -> Option<u64>)>) -> Option<Reg> {
        let mut all: Option<Scattered> = None;
        for (r, place) in parts {
            let places = (0..self.vector as u64).map(place).collect();
            all = Some(match all {
                None => (r, places),
                Some(before) => self.of_both(mem, before, (r, places)),
            });
        }
        let (r, places) = all?;
        Some(self.placed(r, &places))
    }

    /// What is in one register and what is in another, in one.
    fn of_both(&mut self, mem: Mem, (one, places): Scattered, (other, also): Scattered) -> Scattered {
        let each = places.len() as u64;
        let both = (0..each).zip(places.iter().zip(&also)).map(|(e, (a, b))| a.or(*b).map(|_| e)).collect();
        let r = match self.width {
            Width::W512 => {
                let number = |e: u64| match (places[e as usize], also[e as usize]) {
                    (_, Some(at)) => each + at,
                    (Some(at), None) => at,
                    (None, None) => e,
                };
                self.permuted(mem, [one, other], number)
            }
            Width::W256 => {
                let (before, here) = (self.placed(one, &places), self.placed(other, &also));
                let ones = |e: u64| also[e as usize].map_or(0, |_| 0xffff_ffff);
                let mask = self.elements(|w| ones(2 * w) | ones(2 * w + 1) << 32);
                let mask = self.as_operand(mem.scalar().mask(), mask);
                self.blend(false, mask, here, before)
            }
        };
        (r, both)
    }

    /// A register whose 32-bit elements are in their places.
    fn placed(&mut self, r: Reg, places: &[Option<u64>]) -> Reg {
        if (0..).zip(places).all(|(e, &place)| place.is_none_or(|at| at == e)) {
            return r;
        }
        let place = |e: u64| places[e as usize].unwrap_or(0);
        let order = self.elements(|w| place(2 * w) | place(2 * w + 1) << 32);
        self.plain(Code::VEX_Vpermd_ymm_ymm_ymmm256, &[order, r])
    }

    /// Stores vectors side by side: an element of each, then the next one of each. Whether there is a form for that.
    pub(super) fn store_beside(
        &mut self,
        p: Pointer,
        (mem, scalar): (Mem, ScalarType),
        vector: i64,
        v: &[&[Reg]],
    ) -> Option<bool> {
        let (whole, own, apart) = (self.is_whole(), mem == Mem::of(scalar), v.len() as i64);
        let repeated = v.iter().enumerate().any(|(k, r)| v.iter().take(k).any(|before| before == r));
        match v {
            _ if whole && !own && self.are_words_near(mem, apart) => self.store_in_words(p, mem, vector, v)?,
            &[a, b] if whole && own => self.store_interleaved(p, mem, vector, [a, b])?,
            // What is stored several times is put in its places at once.
            _ if mem.fills_part(apart) && !(repeated && whole) => self.store_transposed(p, mem, vector, v)?,
            _ if whole && own && (1..=nearest(mem, self.width)).contains(&apart) => {
                self.store_woven(p, mem, vector, v)?;
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// Stores vectors of 32-bit elements side by side: an element of each, then the next one of each.
    fn store_woven(&mut self, p: Pointer, mem: Mem, vector: i64, v: &[&[Reg]]) -> Option<()> {
        let (apart, each) = (v.len() as i64, self.vector);
        let first = self.walking(p, mem, apart, vector * each)?;
        let registers: Vec<Reg> = v.iter().map(|v| v.first().copied()).collect::<Option<_>>()?;
        for k in 0..apart {
            // A register that is stored several times is asked once.
            let own = (0..).zip(&registers).filter(|&(c, r)| registers.iter().position(|o| o == r) == Some(c));
            let parts: Vec<_> = own
                .map(|(_, &r)| {
                    let registers = &registers;
                    let place = move |e: u64| {
                        let at = k * each + e as i64;
                        let of = registers.get((at % apart) as usize);
                        (of == Some(&r)).then_some((at / apart) as u64)
                    };
                    (r, place)
                })
                .collect();
            let woven = self.picked(mem, parts.into_iter())?;
            let to = first.behind(k * each, mem)?;
            self.store_at(Code::VEX_Vmovups_ymmm256_ymm, to, woven, false, None);
        }
        Some(())
    }

    /// The elements of a register, the last one first.
    fn reversed(&mut self, mem: Mem, v: Reg) -> Reg {
        let last = u64::from(self.width.bytes()) / u64::from(mem.scalar().bits() / 8) - 1;
        match (mem.scalar().bits(), self.width) {
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

    pub(super) fn store_at(&mut self, code: Code, to: Access, from: Reg, half: bool, imm: Option<u8>) {
        self.iteration.insts.push(Inst::Store { code, to, from, half, imm, mask: None });
    }

    /// Stores a vector to a row with a stride other than 1.
    pub(super) fn store_strided(&mut self, p: Pointer, mem: Mem, vector: i64, stride: i64, v: &[Reg]) -> Option<()> {
        use Code::*;
        let first = vector * self.vector;
        let whole = !mem.is_extended();
        for (k, &r) in (0..).zip(v) {
            let each = self.vector / v.len() as i64;
            let begin = first + k * each;
            match stride {
                -1 if whole && self.is_whole() => {
                    let reversed = self.reversed(mem, r);
                    let to = self.walking(p, mem, stride, begin + each - 1)?;
                    self.store_at(VEX_Vmovups_ymmm256_ymm, to, reversed, false, None);
                }
                _ => self.store_register(mem, &Places::Walk { pointer: p, stride, first }, k, r)?,
            }
        }
        Some(())
    }

    /// Stores two vectors, the elements of the first at the even places of a row, those of the second behind each.
    fn store_interleaved(&mut self, p: Pointer, mem: Mem, vector: i64, v: [&[Reg]; 2]) -> Option<()> {
        use Code::*;
        let first = self.walking(p, mem, 2, vector * self.vector)?;
        let each = i64::from(self.width.bytes()) / mem.bytes();
        let (low_code, high_code) = match mem.scalar().bits() {
            32 => (VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256),
            _ => (VEX_Vunpcklpd_ymm_ymm_ymmm256, VEX_Vunpckhpd_ymm_ymm_ymmm256),
        };
        for (k, (&a, &b)) in (0..).zip(v[0].iter().zip(v[1])) {
            let halves = match self.width {
                // Each part of 128 bits of the one is followed by that of the other.
                Width::W256 => {
                    let parts = [self.plain(low_code, &[a, b]), self.plain(high_code, &[a, b])];
                    self.lower_and_upper(parts)
                }
                Width::W512 => [0, each as u64]
                    .map(|begin| self.permuted(mem, [a, b], |e| (begin + e) / 2 + (begin + e) % 2 * each as u64)),
            };
            for (half, both) in (0..).zip(halves) {
                let to = first.behind((2 * k + half) * each, mem)?;
                self.store_at(VEX_Vmovups_ymmm256_ymm, to, both, false, None);
            }
        }
        Some(())
    }
}

/// The most elements from one to the next for which it pays to take apart registers of all between them.
pub(super) fn nearest(mem: Mem, width: Width) -> i64 {
    match (mem.scalar().bits(), width) {
        (32, Width::W512) => NEAR as i64,
        (32, Width::W256) => 4,
        _ => 0,
    }
}
