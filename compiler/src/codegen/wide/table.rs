//! The AVX2 instruction of each operation that is one instruction.

use crate::kernel::body::{FloatCond, Op};
use iced_x86::Code;

/// `a op b` in one instruction, for lanes of 64 bits or of 32.
pub(super) fn binary(op: &Op, wide: bool) -> Option<Code> {
    use Code::*;
    Some(match (op, wide) {
        (Op::FAdd, false) => VEX_Vaddps_ymm_ymm_ymmm256,
        (Op::FAdd, true) => VEX_Vaddpd_ymm_ymm_ymmm256,
        (Op::FSub, false) => VEX_Vsubps_ymm_ymm_ymmm256,
        (Op::FSub, true) => VEX_Vsubpd_ymm_ymm_ymmm256,
        (Op::FMul, false) => VEX_Vmulps_ymm_ymm_ymmm256,
        (Op::FMul, true) => VEX_Vmulpd_ymm_ymm_ymmm256,
        (Op::FDiv, false) => VEX_Vdivps_ymm_ymm_ymmm256,
        (Op::FDiv, true) => VEX_Vdivpd_ymm_ymm_ymmm256,
        (Op::FMinPseudo, false) => VEX_Vminps_ymm_ymm_ymmm256,
        (Op::FMinPseudo, true) => VEX_Vminpd_ymm_ymm_ymmm256,
        (Op::FMaxPseudo, false) => VEX_Vmaxps_ymm_ymm_ymmm256,
        (Op::FMaxPseudo, true) => VEX_Vmaxpd_ymm_ymm_ymmm256,
        (Op::IAdd, false) => VEX_Vpaddd_ymm_ymm_ymmm256,
        (Op::IAdd, true) => VEX_Vpaddq_ymm_ymm_ymmm256,
        (Op::ISub, false) => VEX_Vpsubd_ymm_ymm_ymmm256,
        (Op::ISub, true) => VEX_Vpsubq_ymm_ymm_ymmm256,
        (Op::IMul, false) => VEX_Vpmulld_ymm_ymm_ymmm256,
        (Op::SMin, false) => VEX_Vpminsd_ymm_ymm_ymmm256,
        (Op::SMax, false) => VEX_Vpmaxsd_ymm_ymm_ymmm256,
        (Op::UMin, false) => VEX_Vpminud_ymm_ymm_ymmm256,
        (Op::UMax, false) => VEX_Vpmaxud_ymm_ymm_ymmm256,
        (Op::And, _) => VEX_Vpand_ymm_ymm_ymmm256,
        (Op::Or, _) => VEX_Vpor_ymm_ymm_ymmm256,
        (Op::Xor, _) => VEX_Vpxor_ymm_ymm_ymmm256,
        (Op::Shl, false) => VEX_Vpsllvd_ymm_ymm_ymmm256,
        (Op::Shl, true) => VEX_Vpsllvq_ymm_ymm_ymmm256,
        (Op::LShr, false) => VEX_Vpsrlvd_ymm_ymm_ymmm256,
        (Op::LShr, true) => VEX_Vpsrlvq_ymm_ymm_ymmm256,
        (Op::AShr, false) => VEX_Vpsravd_ymm_ymm_ymmm256,
        _ => return None,
    })
}

/// Whether the operands of an operation may change places without a bit changing; NaN aside, which keeps that of the
/// first.
pub(super) fn commutes(op: &Op) -> bool {
    use Op::*;
    matches!(op, FAdd | FMul | IAdd | IMul | SMin | SMax | UMin | UMax | And | Or | Xor)
}

/// Operations on one operand with an immediate.
pub(super) fn unary(op: &Op, wide: bool) -> Option<(Code, Option<u8>)> {
    use Code::*;
    let round = if wide { VEX_Vroundpd_ymm_ymmm256_imm8 } else { VEX_Vroundps_ymm_ymmm256_imm8 };
    // Bit 3 keeps the inexact flag down; the low bits are the direction.
    Some(match op {
        Op::Sqrt => (if wide { VEX_Vsqrtpd_ymm_ymmm256 } else { VEX_Vsqrtps_ymm_ymmm256 }, None),
        Op::Nearest => (round, Some(8)),
        Op::Floor => (round, Some(9)),
        Op::Ceil => (round, Some(10)),
        Op::Trunc => (round, Some(11)),
        Op::ShlImm(n) => (if wide { VEX_Vpsllq_ymm_ymm_imm8 } else { VEX_Vpslld_ymm_ymm_imm8 }, Some(*n)),
        Op::LShrImm(n) => (if wide { VEX_Vpsrlq_ymm_ymm_imm8 } else { VEX_Vpsrld_ymm_ymm_imm8 }, Some(*n)),
        Op::AShrImm(n) if !wide => (VEX_Vpsrad_ymm_ymm_imm8, Some(*n)),
        _ => return None,
    })
}

/// The predicate of `vcmpps` and `vcmppd`, none of which raises a flag on a quiet NaN.
pub(super) fn float_predicate(c: FloatCond) -> u8 {
    match c {
        FloatCond::Eq => 0,
        FloatCond::Ne => 4,
        FloatCond::Lt => 0x11,
        FloatCond::Le => 0x12,
        FloatCond::Gt => 0x1e,
        FloatCond::Ge => 0x1d,
        FloatCond::Uno => 3,
    }
}

/// The predicate «neither is NaN».
pub(super) const ORDERED: u8 = 7;
