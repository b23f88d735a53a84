//! One operation of a body on a vector, in the instructions of AVX2; those that AVX-512 has otherwise are in
//! [`masked`](super::masked).

use super::Reg;
use super::select::{Definition, Selector, Vector};
use super::table::{ORDERED, binary, commutes, float_predicate, unary};
use crate::codegen::rows::Width;
use crate::kernel::body::{FloatCond, IntCond, Op, ScalarType};
use iced_x86::Code;
use smallvec::smallvec;

impl Selector<'_> {
    pub(super) fn each(&mut self, op: &Op, wide: bool, a: Reg, b: Reg) -> Option<Reg> {
        Some(self.plain(binary(op, wide)?, &[a, b]))
    }

    /// One operation on a vector.
    pub(super) fn node(&mut self, op: &Op, args: &[Vector], from: &[ScalarType], to: ScalarType) -> Option<Vector> {
        let scalar = *from.first()?;
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
                return self.conversion(op, &args[0], scalar, to);
            }
            Op::Wrap => return Some(smallvec![self.narrow(&args[0])]),
            Op::MaskCast if scalar == to => return Some(args[0].clone()),
            Op::MaskCast if self.width == Width::W512 => return Some(self.mask_cast(&args[0], to)),
            Op::MaskCast if to == ScalarType::M32 => return Some(smallvec![self.narrow(&args[0])]),
            Op::MaskCast => return Some(self.widen(args[0][0], true)),
            _ => {}
        }
        // NaN where the first is NaN: the 128-bit loop makes all ones of it.
        let nan_test = *op == Op::Select && self.nan_tests.get(&args[0][0]) == Some(&args[1][0]);
        (0..args[0].len())
            .map(|h| {
                let a: Vec<Reg> = args.iter().map(|b| b[h]).collect();
                match (nan_test, self.width) {
                    (false, Width::W512) => self.masked(op, &a, from).or_else(|| self.one(op, &a, scalar)),
                    (false, Width::W256) => self.one(op, &a, scalar),
                    (true, Width::W512) => {
                        let ones = self.constant(ScalarType::I64, u64::MAX);
                        Some(self.blend(scalar.bits() == 64, a[0], ones, a[2]))
                    }
                    (true, Width::W256) => self.each(&Op::Or, false, a[0], a[2]),
                }
            })
            .collect()
    }

    fn one(&mut self, op: &Op, a: &[Reg], scalar: ScalarType) -> Option<Reg> {
        use Code::*;
        let wide = scalar.bits() == 64;
        let sign = if wide { 1 << 63 } else { 1 << 31 };
        let int = scalar.integer();
        if let Some(code) = binary(op, wide) {
            let constant = |r: Reg| matches!(self.iteration.definitions[r.0 as usize], Definition::Constant(_));
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
                let ones = self.constant(ScalarType::I64, u64::MAX);
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
            Op::SMulHi | Op::UMulHi if wide => self.multiply_high_wide(*op == Op::SMulHi, a[0], a[1])?,
            Op::SMulHi | Op::UMulHi => self.multiply_high(*op == Op::SMulHi, a[0], a[1])?,
            Op::Popcnt => self.ones(wide, a[0])?,
            Op::Clz => self.leading_zeros(wide, a[0])?,
            Op::SMin | Op::UMin | Op::SMax | Op::UMax => {
                let (x, y) = if matches!(op, Op::SMin | Op::UMin) { (a[1], a[0]) } else { (a[0], a[1]) };
                let larger = self.greater(wide, matches!(op, Op::UMin | Op::UMax), x, y)?;
                self.blend(wide, larger, a[0], a[1])
            }
            // The sign, moved along with the bits, is extended again by a borrow.
            Op::AShrImm(n) => {
                let moved = self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &a[..1], *n);
                let bit = self.constant(ScalarType::I64, sign >> n);
                let flipped = self.each(&Op::Xor, true, moved, bit)?;
                self.each(&Op::ISub, true, flipped, bit)?
            }
            Op::AShr => {
                let moved = self.each(&Op::LShr, true, a[0], a[1])?;
                let top = self.constant(ScalarType::I64, sign);
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
                scalar.bits() as u8 - 1,
            ),
            _ => return None,
        })
    }

    /// The quotient of 32-bit lanes, toward zero. That of two doubles is nearer to the exact one than any integer beside it: numbers
    /// below 2^32 leave at least 1/b between them.
    fn quotient(&mut self, signed: bool, a: Reg, b: Reg) -> Option<Reg> {
        use Code::*;
        let convert = if signed { Op::SToF } else { Op::UToF };
        let above = self.conversion(&convert, &[a], ScalarType::I32, ScalarType::F64)?;
        let below = self.conversion(&convert, &[b], ScalarType::I32, ScalarType::F64)?;
        let quotients: Vector =
            above.iter().zip(&below).map(|(&x, &y)| self.each(&Op::FDiv, true, x, y)).collect::<Option<_>>()?;
        if signed {
            return Some(self.joined_halves(VEX_Vcvttpd2dq_xmm_ymmm256, &quotients));
        }
        // The low bits of a number whose last bit is worth 1.
        let magic = self.constant(ScalarType::F64, 4_503_599_627_370_496f64.to_bits());
        let whole: Vector = quotients
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
        if self.width == Width::W512 {
            return self.float_mask(wide, [a, b], predicate);
        }
        let code = if wide { Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8 } else { Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8 };
        self.with_imm(code, &[a, b], predicate)
    }

    pub(super) fn greater(&mut self, wide: bool, unsigned: bool, a: Reg, b: Reg) -> Option<Reg> {
        let (mut a, mut b) = (a, b);
        if unsigned {
            let sign =
                if wide { self.constant(ScalarType::I64, 1 << 63) } else { self.constant(ScalarType::I32, 1 << 31) };
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
        if self.width == Width::W512 {
            return Some(self.integer_mask(c, wide, [a, b]));
        }
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
        let ones = self.constant(ScalarType::I64, u64::MAX);
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
    fn multiply_high(&mut self, signed: bool, a: Reg, b: Reg) -> Option<Reg> {
        use Code::*;
        let code = if signed { VEX_Vpmuldq_ymm_ymm_ymmm256 } else { VEX_Vpmuludq_ymm_ymm_ymmm256 };
        let even = self.plain(code, &[a, b]);
        let even = self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[even], 32);
        let (x, y) =
            (self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[a], 32), self.with_imm(VEX_Vpsrlq_ymm_ymm_imm8, &[b], 32));
        let odd = self.plain(code, &[x, y]);
        match self.width {
            Width::W256 => Some(self.with_imm(VEX_Vpblendd_ymm_ymm_ymmm256_imm8, &[even, odd], 0b1010_1010)),
            Width::W512 => {
                let high = self.constant(ScalarType::I64, 0xffff_ffff_0000_0000);
                let odd = self.each(&Op::And, true, odd, high)?;
                self.each(&Op::Or, true, even, odd)
            }
        }
    }

    /// The even 32-bit lanes of two registers: the low halves of a vector's 64-bit lanes.
    pub(super) fn narrow(&mut self, v: &[Reg]) -> Reg {
        if let &[low, high] = v
            && let Some(&before) = self.narrow.get(&[low, high])
        {
            return before;
        }
        if self.width == Width::W512 {
            return self.joined_halves(Code::EVEX_Vpmovqd_ymmm256_k1z_zmm, v);
        }
        let both = self.with_imm(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[v[0], v[1]], 0b1000_1000);
        self.with_imm(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[both], 0b1101_1000)
    }

    fn widen(&mut self, v: Reg, signed: bool) -> Vector {
        let code = if signed { Code::VEX_Vpmovsxdq_ymm_xmmm128 } else { Code::VEX_Vpmovzxdq_ymm_xmmm128 };
        let halves = self.split_halves(code, v);
        if let &[low, high] = halves.as_slice() {
            self.narrow.insert([low, high], v);
        }
        halves
    }

    /// An instruction that makes a register of each half of one.
    pub(super) fn split_halves(&mut self, code: Code, v: Reg) -> Vector {
        let upper = self.upper(v);
        [v, upper].map(|half| self.halves(code, &[half], 0b10, None)).into()
    }

    /// Two registers, each made half of one.
    pub(super) fn joined_halves(&mut self, code: Code, v: &[Reg]) -> Reg {
        let (low, high) = (self.halves(code, &v[..1], 1, None), self.halves(code, &v[1..], 1, None));
        self.halves(Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, &[low, high], 0b100, Some(1))
    }

    pub(super) fn conversion(&mut self, op: &Op, v: &[Reg], from: ScalarType, to: ScalarType) -> Option<Vector> {
        use Code::*;
        use ScalarType::{F32, F64, I32, I64};
        // The short form is one for 32 bits.
        let op = if *op == Op::FToSFast && (from, to) != (F32, I32) { &Op::FToS } else { op };
        if self.width == Width::W512
            && let Some(v) = self.masked_conversion(op, v, from, to)
        {
            return Some(v);
        }
        Some(match (op, from, to) {
            (Op::SToF, I32, F32) => smallvec![self.plain(VEX_Vcvtdq2ps_ymm_ymmm256, v)],
            (Op::SToF, I32, F64) => self.split_halves(VEX_Vcvtdq2pd_ymm_xmmm128, v[0]),
            // High and low 16 bits are exact; their sum is rounded once.
            (Op::UToF, I32, F32) if self.fma => {
                let high = self.with_imm(VEX_Vpsrld_ymm_ymm_imm8, v, 16);
                let low_bits = self.constant(I32, 0xffff);
                let low = self.each(&Op::And, false, v[0], low_bits)?;
                let (high, low) =
                    (self.plain(VEX_Vcvtdq2ps_ymm_ymmm256, &[high]), self.plain(VEX_Vcvtdq2ps_ymm_ymmm256, &[low]));
                let scale = self.constant(F32, u64::from(65536f32.to_bits()));
                smallvec![self.multiply_add(false, high, scale, low)]
            }
            // Exact as doubles, which are rounded once.
            (Op::UToF, I32, F32) => {
                let parts = self.conversion(&Op::UToF, v, I32, F64)?;
                smallvec![self.joined_halves(VEX_Vcvtpd2ps_xmm_ymmm256, &parts)]
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
            (Op::FToSFast, F32, I32) => smallvec![self.plain(VEX_Vcvttps2dq_ymm_ymmm256, v)],
            (Op::FToS, F32, I32) => {
                let raw = self.plain(VEX_Vcvttps2dq_ymm_ymmm256, v);
                let limit = self.constant(F32, u64::from(2_147_483_648f32.to_bits()));
                let over = self.compare(false, v[0], limit, float_predicate(FloatCond::Ge));
                let raw = self.each(&Op::Xor, false, raw, over)?;
                let number = self.compare(false, v[0], v[0], ORDERED);
                smallvec![self.each(&Op::And, false, raw, number)?]
            }
            (Op::FToS, F64, I32) => {
                let (least, most) =
                    (self.constant(F64, (-2_147_483_648f64).to_bits()), self.constant(F64, 2_147_483_647f64.to_bits()));
                let parts: Vector = v
                    .iter()
                    .map(|&x| {
                        let number = self.compare(true, x, x, ORDERED);
                        let x = self.each(&Op::And, true, x, number)?;
                        let x = self.each(&Op::FMaxPseudo, true, x, least)?;
                        self.each(&Op::FMinPseudo, true, x, most)
                    })
                    .collect::<Option<_>>()?;
                smallvec![self.joined_halves(VEX_Vcvttpd2dq_xmm_ymmm256, &parts)]
            }
            (Op::SToF | Op::UToF, I64, F64) => {
                v.iter().map(|&x| self.words_to_doubles(*op == Op::SToF, x)).collect::<Option<_>>()?
            }
            (Op::SToF | Op::UToF, I64, F32) => {
                let signed = *op == Op::SToF;
                let parts: Vector = v
                    .iter()
                    .map(|&x| {
                        let x = self.odd_words(signed, x)?;
                        self.words_to_doubles(signed, x)
                    })
                    .collect::<Option<_>>()?;
                smallvec![self.joined_halves(VEX_Vcvtpd2ps_xmm_ymmm256, &parts)]
            }
            (Op::FToS | Op::FToU, F32 | F64, I64) => {
                let parts = if from == F32 { self.split_halves(VEX_Vcvtps2pd_ymm_xmmm128, v[0]) } else { v.into() };
                parts.iter().map(|&x| self.doubles_to_words(*op == Op::FToS, x)).collect::<Option<_>>()?
            }
            (Op::FToU, F32 | F64, I32) => {
                let parts = if from == F32 { self.split_halves(VEX_Vcvtps2pd_ymm_xmmm128, v[0]) } else { v.into() };
                smallvec![self.doubles_to_unsigned(&parts)?]
            }
            (Op::Promote, F32, F64) => self.split_halves(VEX_Vcvtps2pd_ymm_xmmm128, v[0]),
            (Op::Demote, F64, F32) => smallvec![self.joined_halves(VEX_Vcvtpd2ps_xmm_ymmm256, v)],
            (Op::SExt | Op::UExt, I32, I64) => self.widen(v[0], *op == Op::SExt),
            _ => return None,
        })
    }
}
