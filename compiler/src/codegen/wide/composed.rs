//! What takes several instructions of AVX2: counts of bits, high halves of 64-bit products, 64-bit integers from floats and back.

use super::Reg;
use super::select::{Selector, Vector};
use super::table::{ORDERED, float_predicate, unary};
use crate::kernel::body::{FloatCond, Op, ScalarType};
use iced_x86::Code;

/// 2^52, whose last bit is worth 1: the low bits of a sum with it are the integer that was added.
const UNIT: f64 = 4_503_599_627_370_496.0;
/// 2^32.
const WORD: f64 = 4_294_967_296.0;

impl Selector<'_> {
    fn shifted(&mut self, op: &Op, wide: bool, r: Reg) -> Option<Reg> {
        let (code, imm) = unary(op, wide)?;
        Some(self.halves(code, &[r], 0, imm))
    }

    /// The number of ones of each lane: of pairs of bits, of fours, of bytes, of all.
    pub(super) fn ones(&mut self, wide: bool, x: Reg) -> Option<Reg> {
        let scalar = if wide { ScalarType::I64 } else { ScalarType::I32 };
        let [pairs, fours, bytes] = [0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x0f0f_0f0f_0f0f_0f0f]
            .map(|bits| self.constant(scalar, bits));
        let odd = self.shifted(&Op::LShrImm(1), wide, x)?;
        let odd = self.each(&Op::And, wide, odd, pairs)?;
        let x = self.each(&Op::ISub, wide, x, odd)?;
        let high = self.shifted(&Op::LShrImm(2), wide, x)?;
        let (high, low) = (self.each(&Op::And, wide, high, fours)?, self.each(&Op::And, wide, x, fours)?);
        let x = self.each(&Op::IAdd, wide, high, low)?;
        let high = self.shifted(&Op::LShrImm(4), wide, x)?;
        let x = self.each(&Op::IAdd, wide, x, high)?;
        let mut x = self.each(&Op::And, wide, x, bytes)?;
        for by in [8, 16, 32].into_iter().filter(|&by| by < scalar.bits() as u8) {
            let high = self.shifted(&Op::LShrImm(by), wide, x)?;
            x = self.each(&Op::IAdd, wide, x, high)?;
        }
        let last = self.constant(scalar, 0x7f);
        self.each(&Op::And, wide, x, last)
    }

    /// The number of zeros in front of the first one: what is left when that one is copied to all places behind it.
    pub(super) fn leading_zeros(&mut self, wide: bool, x: Reg) -> Option<Reg> {
        let bits = if wide { 64 } else { 32 };
        let mut x = x;
        for by in [1, 2, 4, 8, 16, 32].into_iter().filter(|&by| by < bits) {
            let lower = self.shifted(&Op::LShrImm(by), wide, x)?;
            x = self.each(&Op::Or, wide, x, lower)?;
        }
        let all = self.constant(ScalarType::I64, u64::MAX);
        let zeros = self.each(&Op::Xor, wide, x, all)?;
        self.ones(wide, zeros)
    }

    /// The high halves of products of 64-bit lanes, from products of halves; a negative factor takes off the other one.
    pub(super) fn multiply_high_wide(&mut self, signed: bool, a: Reg, b: Reg) -> Option<Reg> {
        let low_half = self.constant(ScalarType::I64, 0xffff_ffff);
        let [high_a, high_b] = [a, b].map(|r| self.with_imm(Code::VEX_Vpsrlq_ymm_ymm_imm8, &[r], 32));
        let mut product = |x: Reg, y: Reg| self.plain(Code::VEX_Vpmuludq_ymm_ymm_ymmm256, &[x, y]);
        let (low, left, right, high) = (product(a, b), product(high_a, b), product(a, high_b), product(high_a, high_b));
        let carry = self.shifted(&Op::LShrImm(32), true, low)?;
        let left = self.each(&Op::IAdd, true, left, carry)?;
        let rest = self.each(&Op::And, true, left, low_half)?;
        let right = self.each(&Op::IAdd, true, right, rest)?;
        let (left, right) = (self.shifted(&Op::LShrImm(32), true, left)?, self.shifted(&Op::LShrImm(32), true, right)?);
        let sum = self.each(&Op::IAdd, true, high, left)?;
        let mut sum = self.each(&Op::IAdd, true, sum, right)?;
        if signed {
            let zero = self.constant(ScalarType::I64, 0);
            for (factor, other) in [(a, b), (b, a)] {
                // All ones of the sign is minus one: where the factor is negative.
                let sign = self.shifted(&Op::LShrImm(63), true, factor)?;
                let negative = self.each(&Op::ISub, true, zero, sign)?;
                let off = self.each(&Op::And, true, negative, other)?;
                sum = self.each(&Op::ISub, true, sum, off)?;
            }
        }
        Some(sum)
    }

    /// 64-bit integers as doubles: both halves are exact, so that their sum is rounded once.
    pub(super) fn words_to_doubles(&mut self, signed: bool, x: Reg) -> Option<Reg> {
        // 2^84, of whose fraction the last bit is worth 2^32; for signed integers 2^63 more, in which the sign is a bit like others.
        let (top, both) = match signed {
            true => (0x4530_0000_8000_0000, 0x4530_0000_8010_0000),
            false => (0x4530_0000_0000_0000, 0x4530_0000_0010_0000),
        };
        let (top, both) = (self.constant(ScalarType::I64, top), self.constant(ScalarType::I64, both));
        let (unit, low_half) =
            (self.constant(ScalarType::I64, UNIT.to_bits()), self.constant(ScalarType::I64, 0xffff_ffff));
        let low = self.each(&Op::And, true, x, low_half)?;
        let low = self.each(&Op::Or, true, low, unit)?;
        let high = self.shifted(&Op::LShrImm(32), true, x)?;
        let high = self.each(&Op::Xor, true, high, top)?;
        let high = self.each(&Op::FSub, true, high, both)?;
        self.each(&Op::FAdd, true, high, low)
    }

    /// 64-bit integers that a double holds exactly, and that round to the same float: what is beyond 53 bits is told by the last bit.
    pub(super) fn odd_words(&mut self, signed: bool, x: Reg) -> Option<Reg> {
        let below = self.constant(ScalarType::I64, 0x7ff);
        let above = self.constant(ScalarType::I64, !0x7ff);
        let rest = self.each(&Op::And, true, x, below)?;
        let rest = self.each(&Op::IAdd, true, rest, below)?;
        let odd = self.each(&Op::Or, true, rest, x)?;
        let odd = self.each(&Op::And, true, odd, above)?;
        let (from, most) = match signed {
            true => {
                let half = self.constant(ScalarType::I64, 1 << 53);
                (self.each(&Op::IAdd, true, x, half)?, 1 << 54)
            }
            false => (x, 1 << 53),
        };
        let most = self.constant(ScalarType::I64, most);
        let large = self.greater(true, true, from, most)?;
        Some(self.blend(true, large, odd, x))
    }

    /// Doubles as 64-bit integers toward zero, as near as there are any; zero for what is no number.
    pub(super) fn doubles_to_words(&mut self, signed: bool, x: Reg) -> Option<Reg> {
        let number = |x: f64| x.to_bits();
        let (least, limit, most) = match signed {
            true => (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0, i64::MAX as u64),
            false => (0.0, 18_446_744_073_709_551_616.0, u64::MAX),
        };
        let [least, limit, scale, word, unit] =
            [least, limit, 1.0 / WORD, WORD, UNIT].map(|x: f64| self.constant(ScalarType::F64, number(x)));
        let most = self.constant(ScalarType::I64, most);
        let bounded = self.each(&Op::FMaxPseudo, true, x, least)?;
        let whole = self.shifted(&Op::Trunc, true, bounded)?;
        // The high half, downwards, and what is left of it.
        let high = self.each(&Op::FMul, true, whole, scale)?;
        let high = self.shifted(&Op::Floor, true, high)?;
        let off = self.each(&Op::FMul, true, high, word)?;
        let low = self.each(&Op::FSub, true, whole, off)?;
        // Half as much more keeps the sum with a negative number in the same power of two; the bits above are shifted out.
        let middle = self.constant(ScalarType::F64, number(UNIT * 1.5));
        let high = self.each(&Op::FAdd, true, high, middle)?;
        let high = self.shifted(&Op::ShlImm(32), true, high)?;
        let low = self.each(&Op::FAdd, true, low, unit)?;
        let low = self.each(&Op::Xor, true, low, unit)?;
        let all = self.each(&Op::Or, true, high, low)?;
        let over =
            self.with_imm(Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8, &[bounded, limit], float_predicate(FloatCond::Ge));
        let all = self.blend(true, over, most, all);
        let ordered = self.with_imm(Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8, &[x, x], ORDERED);
        self.each(&Op::And, true, all, ordered)
    }

    /// Doubles as unsigned 32-bit integers toward zero, as near as there are any; zero for what is no number.
    pub(super) fn doubles_to_unsigned(&mut self, v: &[Reg]) -> Option<Reg> {
        let [least, most, unit] = [0.0, WORD - 1.0, UNIT].map(|x: f64| self.constant(ScalarType::F64, x.to_bits()));
        let parts: Vector = v
            .iter()
            .map(|&x| {
                let x = self.each(&Op::FMaxPseudo, true, x, least)?;
                let x = self.each(&Op::FMinPseudo, true, x, most)?;
                let x = self.shifted(&Op::Trunc, true, x)?;
                self.each(&Op::FAdd, true, x, unit)
            })
            .collect::<Option<_>>()?;
        Some(self.narrow(&parts))
    }
}
