//! What AVX-512 does in another way than AVX2: truth values are bits of mask registers, 64-bit lanes have their own multiplication,
//! order and shifts, and unsigned integers their own conversions.
//!
//! A mask has a bit for each element of a register, those of 64-bit lanes eight; bits beyond are anything, and chosen by nobody.

use super::Reg;
use super::select::{Definition, Inst, Selector, Vector};
use super::table::{ORDERED, float_predicate};
use crate::codegen::rows::Width;
use crate::kernel::body::{FloatCond, IntCond, Op, ScalarType};
use iced_x86::Code;
use smallvec::smallvec;

impl Selector<'_> {
    /// An instruction whose result is a mask.
    fn mask(&mut self, code: Code, from: &[Reg], imm: Option<u8>) -> Reg {
        let to = self.register(Definition::Mask);
        self.iteration.insts.push(Inst::Plain { code, to, from: from.into(), half: 0, imm });
        to
    }

    /// A value that is the same along the row, as operations of this width take it: truth values as a mask.
    pub(super) fn as_operand(&mut self, scalar: ScalarType, r: Reg) -> Reg {
        if self.width == Width::W256 || !scalar.is_mask() {
            return r;
        }
        if let Some(&mask) = self.masks.get(&(r, scalar.bits())) {
            return mask;
        }
        let mask = self.as_mask(scalar, r);
        self.masks.insert((r, scalar.bits()), mask);
        mask
    }

    /// A register of an accumulator as operations take it.
    pub(super) fn as_mask(&mut self, scalar: ScalarType, r: Reg) -> Reg {
        if self.width == Width::W256 || !scalar.is_mask() || self.iteration.is_mask(r) {
            return r;
        }
        let code = if scalar.bits() == 64 { Code::EVEX_Vpmovq2m_kr_zmm } else { Code::EVEX_Vpmovd2m_kr_zmm };
        self.mask(code, &[r], None)
    }

    /// What operations give as a register of an accumulator: truth values as all ones or none.
    pub(super) fn as_register(&mut self, scalar: ScalarType, r: Reg) -> Reg {
        if !self.iteration.is_mask(r) {
            return r;
        }
        let (ones, zero) = (self.constant(ScalarType::I64, u64::MAX), self.constant(ScalarType::I64, 0));
        self.blend(scalar.bits() == 64, r, ones, zero)
    }

    /// Where a comparison of floats holds.
    pub(super) fn float_mask(&mut self, wide: bool, operands: [Reg; 2], predicate: u8) -> Reg {
        let code = if wide {
            Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae
        } else {
            Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae
        };
        self.mask(code, &operands, Some(predicate))
    }

    /// Where a comparison of integers holds.
    pub(super) fn integer_mask(&mut self, c: IntCond, wide: bool, operands: [Reg; 2]) -> Reg {
        use Code::*;
        use IntCond::*;
        let (predicate, unsigned) = match c {
            Eq => (0, false),
            SLt => (1, false),
            SLe => (2, false),
            Ne => (4, false),
            SGe => (5, false),
            SGt => (6, false),
            ULt => (1, true),
            ULe => (2, true),
            UGe => (5, true),
            UGt => (6, true),
        };
        let code = match (wide, unsigned) {
            (false, false) => EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
            (false, true) => EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
            (true, false) => EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
            (true, true) => EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
        };
        self.mask(code, &operands, Some(predicate))
    }

    /// A mask whose first bits are those of another from bit `first` on.
    pub(super) fn shifted_mask(&mut self, r: Reg, first: u8) -> Reg {
        self.mask(Code::VEX_Kshiftrw_kr_kr_imm8, &[r], Some(first))
    }

    /// A mask beside lanes of the other width: two of eight bits for one of sixteen, or the other way.
    pub(super) fn mask_cast(&mut self, v: &[Reg], to: ScalarType) -> Vector {
        match *v {
            [low, high] if to == ScalarType::M32 => {
                smallvec![self.mask(Code::VEX_Kunpckbw_kr_kr_kr, &[high, low], None)]
            }
            [both] if to == ScalarType::M64 => smallvec![both, self.shifted_mask(both, 8)],
            _ => v.into(),
        }
    }

    /// One operation that has a form of its own here; `None` where that of AVX2 only becomes wider.
    pub(super) fn masked(&mut self, op: &Op, a: &[Reg], from: &[ScalarType]) -> Option<Reg> {
        use Code::*;
        let scalar = *from.first()?;
        let wide = scalar.bits() == 64;
        Some(match op {
            Op::And if scalar.is_mask() => self.mask(VEX_Kandw_kr_kr_kr, a, None),
            Op::Or if scalar.is_mask() => self.mask(VEX_Korw_kr_kr_kr, a, None),
            Op::Xor if scalar.is_mask() => self.mask(VEX_Kxorw_kr_kr_kr, a, None),
            Op::Not if scalar.is_mask() => self.mask(VEX_Knotw_kr_kr, a, None),
            Op::Select if from.get(1)?.is_mask() => {
                let then = self.mask(VEX_Kandw_kr_kr_kr, &[a[0], a[1]], None);
                let otherwise = self.mask(VEX_Kandnw_kr_kr_kr, &[a[0], a[2]], None);
                self.mask(VEX_Korw_kr_kr_kr, &[then, otherwise], None)
            }
            Op::MaskToInt => {
                let (one, zero) = (self.constant(scalar.integer(), 1), self.constant(scalar.integer(), 0));
                self.blend(wide, a[0], one, zero)
            }
            Op::IMul if wide => self.plain(EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64, a),
            Op::SMin if wide => self.plain(EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64, a),
            Op::SMax if wide => self.plain(EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64, a),
            Op::UMin if wide => self.plain(EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64, a),
            Op::UMax if wide => self.plain(EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64, a),
            Op::AShr if wide => self.plain(EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64, a),
            Op::AShrImm(n) if wide => self.with_imm(EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8, a, *n),
            _ => return None,
        })
    }

    /// A conversion that has a form of its own here; `None` where that of AVX2 only becomes wider.
    pub(super) fn masked_conversion(&mut self, op: &Op, v: &[Reg], from: ScalarType, to: ScalarType) -> Option<Vector> {
        use Code::*;
        use ScalarType::{F32, F64, I32, I64};
        Some(match (op, from, to) {
            (Op::UToF, I32, F32) => smallvec![self.plain(EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, v)],
            (Op::UToF, I32, F64) => self.split_halves(EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er, v[0]),
            (Op::SToF | Op::UToF, I64, F64) => {
                let code = match op {
                    Op::SToF => EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er,
                    _ => EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er,
                };
                v.iter().map(|&r| self.plain(code, &[r])).collect()
            }
            (Op::SToF, I64, F32) => smallvec![self.joined_halves(EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er, v)],
            (Op::UToF, I64, F32) => smallvec![self.joined_halves(EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er, v)],
            // Below zero, and what is no number, is zero; what lies above becomes all ones.
            (Op::FToU, F32, I32) => {
                let zero = self.constant(F32, 0);
                let x = self.each(&Op::FMaxPseudo, false, v[0], zero)?;
                smallvec![self.plain(EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, &[x])]
            }
            (Op::FToU, F32, I64) => {
                let zero = self.constant(F32, 0);
                let x = self.each(&Op::FMaxPseudo, false, v[0], zero)?;
                self.split_halves(EVEX_Vcvttps2uqq_zmm_k1z_ymmm256b32_sae, x)
            }
            (Op::FToU, F64, I32 | I64) => {
                let zero = self.constant(F64, 0);
                let parts: Vector =
                    v.iter().map(|&x| self.each(&Op::FMaxPseudo, true, x, zero)).collect::<Option<_>>()?;
                match to {
                    I32 => smallvec![self.joined_halves(EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae, &parts)],
                    _ => parts.iter().map(|&x| self.plain(EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae, &[x])).collect(),
                }
            }
            (Op::FToS, F32, I64) => {
                let parts = self.split_halves(VEX_Vcvtps2pd_ymm_xmmm128, v[0]);
                self.signed_words(&parts)
            }
            (Op::FToS, F64, I64) => self.signed_words(v),
            // What lies above becomes the minimum, as what lies below; what is no number does too.
            (Op::FToS, F32, I32) => {
                let raw = self.plain(VEX_Vcvttps2dq_ymm_ymmm256, v);
                let limit = self.constant(F32, u64::from(2_147_483_648f32.to_bits()));
                let over = self.float_mask(false, [v[0], limit], float_predicate(FloatCond::Ge));
                let (most, zero) = (self.constant(I32, 0x7fff_ffff), self.constant(I32, 0));
                let bounded = self.blend(false, over, most, raw);
                let number = self.float_mask(false, [v[0], v[0]], ORDERED);
                smallvec![self.blend(false, number, bounded, zero)]
            }
            (Op::FToS, F64, I32) => {
                let (least, most) =
                    (self.constant(F64, (-2_147_483_648f64).to_bits()), self.constant(F64, 2_147_483_647f64.to_bits()));
                let zero = self.constant(F64, 0);
                let parts: Vector = v
                    .iter()
                    .map(|&x| {
                        let number = self.float_mask(true, [x, x], ORDERED);
                        let x = self.blend(true, number, x, zero);
                        let x = self.each(&Op::FMaxPseudo, true, x, least)?;
                        self.each(&Op::FMinPseudo, true, x, most)
                    })
                    .collect::<Option<_>>()?;
                smallvec![self.joined_halves(VEX_Vcvttpd2dq_xmm_ymmm256, &parts)]
            }
            _ => return None,
        })
    }

    /// Doubles as 64-bit integers: what lies above becomes the minimum in the conversion, as what lies below and what is no number.
    fn signed_words(&mut self, v: &[Reg]) -> Vector {
        let limit = self.constant(ScalarType::F64, 9_223_372_036_854_775_808f64.to_bits());
        let (most, zero) = (self.constant(ScalarType::I64, i64::MAX as u64), self.constant(ScalarType::I64, 0));
        v.iter()
            .map(|&x| {
                let raw = self.plain(Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae, &[x]);
                let over = self.float_mask(true, [x, limit], float_predicate(FloatCond::Ge));
                let bounded = self.blend(true, over, most, raw);
                let number = self.float_mask(true, [x, x], ORDERED);
                self.blend(true, number, bounded, zero)
            })
            .collect()
    }
}
