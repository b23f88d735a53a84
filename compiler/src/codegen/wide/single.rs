//! Elements that are put into registers, or taken out of them, one by one: rows with a stride of no other form, and elements that each
//! have an index.
//!
//! Nothing is read that the row does not have, and nothing is written.
//!
//! A part of 128 bits at a time, since that is what a single element can be put into. Two indices of 32 bits leave a register together:
//! to get one to the general registers costs as much as to get both. The gather instructions of AVX2 and AVX-512 do the same in
//! microcode, and take one and a half times as long.

use super::Reg;
use super::select::{Access, Definition, Element, Index, Inst, Pointer, Selector, Vector, count, load_code};
use crate::codegen::rows::Width;
use crate::kernel::body::{Mem, PART, ScalarType};
use iced_x86::Code;

/// Where the elements of a vector lie.
pub(super) enum Places {
    /// A stride from one to the next, from a pointer that walks; the vector begins with element `first` of the iteration.
    Walk { pointer: Pointer, stride: i64, first: i64 },
    /// Each as many elements behind `base` as its index says, one of 32 bits.
    Found { base: Access, indices: Reg },
}

/// A part of a register of indices, by number, and the register that it is in the low half of.
type Taken = Option<(i64, Reg)>;

impl Selector<'_> {
    /// Memory at element `e` of the iteration's vector, from a pointer that walks.
    pub(super) fn walking(&mut self, p: Pointer, mem: Mem, stride: i64, e: i64) -> Option<Access> {
        let step = i32::try_from(stride.checked_mul(mem.bytes())?).ok()?;
        let pointer = self.pointer(p);
        *self.steps.get_mut(pointer as usize)? = step;
        let displacement = i32::try_from(i64::from(step).checked_mul(e)?).ok()?;
        Some(Access { pointer, scale: 0, displacement })
    }

    /// Loads a vector.
    pub(super) fn load_single(&mut self, mem: Mem, places: &Places) -> Option<Vector> {
        (0..count(mem.scalar()) as i64).map(|k| self.load_register(mem, places, k)).collect()
    }

    /// Loads register `k` of a vector.
    fn load_register(&mut self, mem: Mem, places: &Places, k: i64) -> Option<Reg> {
        let (scalar, live) = (mem.scalar(), self.live_in(mem.scalar(), k));
        let elements = self.vector / count(scalar) as i64;
        let each = (PART / mem.bytes()).min(elements);
        let (mut all, mut taken) = (None, None);
        for (part, e) in (0..).zip((0..live).step_by(each as usize)) {
            let begin = k * elements + e;
            let v = self.load_part(mem, (places, &mut taken), begin..begin + each.min(live - e))?;
            all = Some(match all {
                None => v,
                Some(all) => self.with_part(all, v, part),
            });
        }
        let Some(all) = all else { return Some(self.constant(scalar, 0)) };
        Some(if mem.is_extended() { self.halves(load_code(mem), &[all], 0b10, None) } else { all })
    }

    /// Loads elements of a vector to the low 128 bits of a register, in their form in memory.
    fn load_part(
        &mut self,
        mem: Mem,
        (places, taken): (&Places, &mut Taken),
        elements: std::ops::Range<i64>,
    ) -> Option<Reg> {
        let begin = elements.start;
        let mut v = if mem.is_extended() { Some(self.constant(ScalarType::I32, 0)) } else { None };
        for e in elements.clone().step_by(2) {
            let two = (e..elements.end.min(e + 2)).map(|e| (e, element_load(mem, (e - begin) as u8)));
            match *places {
                Places::Walk { pointer, stride, first } => {
                    for (e, (code, imm)) in two {
                        let from = self.walking(pointer, mem, stride, first + e)?;
                        v = Some(match v {
                            None => self.load_at(code, from, true),
                            Some(into) => self.insert(code, into, from, imm),
                        });
                    }
                }
                Places::Found { base, indices } => {
                    let index = self.index(indices, e, taken);
                    let (to, each) = (self.register(Definition::Computed), two.map(|(_, element)| element).collect());
                    self.iteration.insts.push(Inst::Pick { to, into: v, from: base, index, each });
                    v = Some(to);
                }
            }
        }
        v
    }

    /// Stores a vector.
    pub(super) fn store_single(&mut self, mem: Mem, places: &Places, v: &[Reg]) -> Option<()> {
        for (k, &r) in (0..).zip(v) {
            self.store_register(mem, places, k, r)?;
        }
        Some(())
    }

    /// Stores register `k` of a vector.
    pub(super) fn store_register(&mut self, mem: Mem, places: &Places, k: i64, r: Reg) -> Option<()> {
        let (scalar, live) = (mem.scalar(), self.live_in(mem.scalar(), k));
        let begin = k * (self.vector / count(scalar) as i64);
        let each = PART * 8 / i64::from(scalar.bits());
        let (mut part, mut taken): (Taken, Taken) = (None, None);
        for e in (0..live).step_by(2) {
            let from = self.part_at_hand(r, e / each, &mut part);
            let two = (e..live.min(e + 2)).map(|e| (e, element_store(mem, (e % each) as u8)));
            match *places {
                Places::Walk { pointer, stride, first } => {
                    for (e, (code, imm)) in two {
                        let to = self.walking(pointer, mem, stride, first + begin + e)?;
                        self.store_at(code, to, from, true, imm);
                    }
                }
                Places::Found { base, indices } => {
                    let index = self.index(indices, begin + e, &mut taken);
                    let each = two.map(|(_, element)| element).collect();
                    self.iteration.insts.push(Inst::Put { from, to: base, index, each });
                }
            }
        }
        Some(())
    }

    /// The index of element `e` of a vector, and of the one behind it.
    fn index(&mut self, indices: Reg, e: i64, taken: &mut Taken) -> Index {
        let each = PART / 4;
        Index { of: self.part_at_hand(indices, e / each, taken), first: (e % each) as u8 }
    }

    /// Part `k` of a register in the low part of one; the one that was `taken` last is at hand.
    fn part_at_hand(&mut self, r: Reg, k: i64, taken: &mut Taken) -> Reg {
        if let Some((part, held)) = *taken
            && part == k
        {
            return held;
        }
        let held = self.part(r, k as u8);
        *taken = Some((k, held));
        held
    }

    /// A register whose part `k` is the low part of another.
    fn with_part(&mut self, all: Reg, part: Reg, k: u8) -> Reg {
        let code = match self.width {
            Width::W256 => Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8,
            Width::W512 => Code::EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8,
        };
        self.halves(code, &[all, part], 0b100, Some(k))
    }

    fn insert(&mut self, code: Code, into: Reg, from: Access, imm: Option<u8>) -> Reg {
        let to = self.register(Definition::Computed);
        self.iteration.insts.push(Inst::Insert { code, to, into, from, half: true, imm });
        to
    }
}

/// The instruction that loads element `e` of the lowest 128 bits of a register.
fn element_load(mem: Mem, e: u8) -> Element {
    use Code::*;
    match (mem, e) {
        (Mem::I32 | Mem::F32, 0) => (VEX_Vmovss_xmm_m32, None),
        (Mem::I32 | Mem::F32, e) => (VEX_Vinsertps_xmm_xmm_xmmm32_imm8, Some(e << 4)),
        (Mem::I64 | Mem::F64, 0) => (VEX_Vmovsd_xmm_m64, None),
        (Mem::I64 | Mem::F64, _) => (VEX_Vmovhpd_xmm_xmm_m64, None),
        (Mem::S8 | Mem::U8, e) => (VEX_Vpinsrb_xmm_xmm_r32m8_imm8, Some(e)),
        (Mem::S16 | Mem::U16, e) => (VEX_Vpinsrw_xmm_xmm_r32m16_imm8, Some(e)),
    }
}

/// The instruction that stores it.
fn element_store(mem: Mem, e: u8) -> Element {
    use Code::*;
    match (mem, e) {
        (Mem::I32 | Mem::F32, 0) => (VEX_Vmovss_m32_xmm, None),
        (Mem::I32 | Mem::F32, e) => (VEX_Vextractps_rm32_xmm_imm8, Some(e)),
        (Mem::I64 | Mem::F64, 0) => (VEX_Vmovlpd_m64_xmm, None),
        (Mem::I64 | Mem::F64, _) => (VEX_Vmovhpd_m64_xmm, None),
        // Narrow integers are carried in 32 bits.
        (Mem::S8 | Mem::U8, e) => (VEX_Vpextrb_r32m8_xmm_imm8, Some(4 * e)),
        (Mem::S16 | Mem::U16, e) => (VEX_Vpextrw_r32m16_xmm_imm8, Some(2 * e)),
    }
}
