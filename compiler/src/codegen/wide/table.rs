//! The AVX2 instruction of each operation that is one instruction, and that of AVX-512 which does the same on a register twice
//! as wide.

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

/// The instruction that does on 512 bits what another does on 256: the same for each element, in each part of 128 bits, or for each
/// half, as the other's form is. What has no other form than that of 512 bits is itself.
pub(super) fn widened(code: Code) -> Option<Code> {
    use Code::*;
    Some(match code {
        VEX_Vaddps_ymm_ymm_ymmm256 => EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        VEX_Vaddpd_ymm_ymm_ymmm256 => EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
        VEX_Vsubps_ymm_ymm_ymmm256 => EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        VEX_Vsubpd_ymm_ymm_ymmm256 => EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er,
        VEX_Vmulps_ymm_ymm_ymmm256 => EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        VEX_Vmulpd_ymm_ymm_ymmm256 => EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
        VEX_Vdivps_ymm_ymm_ymmm256 => EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        VEX_Vdivpd_ymm_ymm_ymmm256 => EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
        VEX_Vminps_ymm_ymm_ymmm256 => EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        VEX_Vminpd_ymm_ymm_ymmm256 => EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae,
        VEX_Vmaxps_ymm_ymm_ymmm256 => EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        VEX_Vmaxpd_ymm_ymm_ymmm256 => EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
        VEX_Vpaddd_ymm_ymm_ymmm256 => EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpaddq_ymm_ymm_ymmm256 => EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpsubd_ymm_ymm_ymmm256 => EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpsubq_ymm_ymm_ymmm256 => EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpmulld_ymm_ymm_ymmm256 => EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpminsd_ymm_ymm_ymmm256 => EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpmaxsd_ymm_ymm_ymmm256 => EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpminud_ymm_ymm_ymmm256 => EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpmaxud_ymm_ymm_ymmm256 => EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpsllvd_ymm_ymm_ymmm256 => EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpsllvq_ymm_ymm_ymmm256 => EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpsrlvd_ymm_ymm_ymmm256 => EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpsrlvq_ymm_ymm_ymmm256 => EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpsravd_ymm_ymm_ymmm256 => EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vxorps_ymm_ymm_ymmm256 => EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32,
        VEX_Vxorpd_ymm_ymm_ymmm256 => EVEX_Vxorpd_zmm_k1z_zmm_zmmm512b64,
        VEX_Vandps_ymm_ymm_ymmm256 => EVEX_Vandps_zmm_k1z_zmm_zmmm512b32,
        VEX_Vandpd_ymm_ymm_ymmm256 => EVEX_Vandpd_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpmuludq_ymm_ymm_ymmm256 => EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpmuldq_ymm_ymm_ymmm256 => EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64,
        VEX_Vunpcklps_ymm_ymm_ymmm256 => EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32,
        VEX_Vunpcklpd_ymm_ymm_ymmm256 => EVEX_Vunpcklpd_zmm_k1z_zmm_zmmm512b64,
        VEX_Vunpckhps_ymm_ymm_ymmm256 => EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32,
        VEX_Vunpckhpd_ymm_ymm_ymmm256 => EVEX_Vunpckhpd_zmm_k1z_zmm_zmmm512b64,
        VEX_Vpand_ymm_ymm_ymmm256 => EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpor_ymm_ymm_ymmm256 => EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpxor_ymm_ymm_ymmm256 => EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        VEX_Vpshufb_ymm_ymm_ymmm256 => EVEX_Vpshufb_zmm_k1z_zmm_zmmm512,
        VEX_Vpermd_ymm_ymm_ymmm256 => EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32,
        VEX_Vshufps_ymm_ymm_ymmm256_imm8 => EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8,
        VEX_Vshufpd_ymm_ymm_ymmm256_imm8 => EVEX_Vshufpd_zmm_k1z_zmm_zmmm512b64_imm8,
        VEX_Vpermilps_ymm_ymmm256_imm8 => EVEX_Vpermilps_zmm_k1z_zmmm512b32_imm8,
        VEX_Vsqrtps_ymm_ymmm256 => EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
        VEX_Vsqrtpd_ymm_ymmm256 => EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er,
        VEX_Vroundps_ymm_ymmm256_imm8 => EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
        VEX_Vroundpd_ymm_ymmm256_imm8 => EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae,
        VEX_Vpslld_ymm_ymm_imm8 => EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
        VEX_Vpsllq_ymm_ymm_imm8 => EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
        VEX_Vpsrld_ymm_ymm_imm8 => EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
        VEX_Vpsrlq_ymm_ymm_imm8 => EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
        VEX_Vpsrad_ymm_ymm_imm8 => EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
        VEX_Vcvtdq2ps_ymm_ymmm256 => EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
        VEX_Vcvttps2dq_ymm_ymmm256 => EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae,
        VEX_Vcvtdq2pd_ymm_xmmm128 => EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er,
        VEX_Vcvtps2pd_ymm_xmmm128 => EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae,
        VEX_Vcvtpd2ps_xmm_ymmm256 => EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er,
        VEX_Vcvttpd2dq_xmm_ymmm256 => EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae,
        VEX_Vpmovsxdq_ymm_xmmm128 => EVEX_Vpmovsxdq_zmm_k1z_ymmm256,
        VEX_Vpmovzxdq_ymm_xmmm128 => EVEX_Vpmovzxdq_zmm_k1z_ymmm256,
        VEX_Vpmovsxbd_ymm_xmmm64 => EVEX_Vpmovsxbd_zmm_k1z_xmmm128,
        VEX_Vpmovzxbd_ymm_xmmm64 => EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
        VEX_Vpmovsxwd_ymm_xmmm128 => EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
        VEX_Vpmovzxwd_ymm_xmmm128 => EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
        VEX_Vextractf128_xmmm128_ymm_imm8 => EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8,
        VEX_Vinsertf128_ymm_ymm_xmmm128_imm8 => EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8,
        VEX_Vmovups_ymm_ymmm256 => EVEX_Vmovups_zmm_k1z_zmmm512,
        VEX_Vmovups_xmm_xmmm128 => EVEX_Vmovups_xmm_k1z_xmmm128,
        VEX_Vmovups_xmmm128_xmm => EVEX_Vmovups_xmmm128_k1z_xmm,
        VEX_Vmovupd_ymm_ymmm256 => EVEX_Vmovupd_zmm_k1z_zmmm512,
        VEX_Vmovupd_ymmm256_ymm => EVEX_Vmovupd_zmmm512_k1z_zmm,
        VEX_Vmovups_ymmm256_ymm => EVEX_Vmovups_zmmm512_k1z_zmm,
        VEX_Vmovntps_m256_ymm => EVEX_Vmovntps_m512_zmm,
        VEX_Vbroadcastss_ymm_m32 => EVEX_Vbroadcastss_zmm_k1z_xmmm32,
        VEX_Vbroadcastsd_ymm_m64 => EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
        VEX_Vblendvps_ymm_ymm_ymmm256_ymm => EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32,
        VEX_Vblendvpd_ymm_ymm_ymmm256_ymm => EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64,
        VEX_Vmovss_xmm_m32 => EVEX_Vmovss_xmm_k1z_m32,
        VEX_Vinsertps_xmm_xmm_xmmm32_imm8 => EVEX_Vinsertps_xmm_xmm_xmmm32_imm8,
        VEX_Vmovsd_xmm_m64 => EVEX_Vmovsd_xmm_k1z_m64,
        VEX_Vmovhpd_xmm_xmm_m64 => EVEX_Vmovhpd_xmm_xmm_m64,
        VEX_Vpinsrb_xmm_xmm_r32m8_imm8 => EVEX_Vpinsrb_xmm_xmm_r32m8_imm8,
        VEX_Vpinsrw_xmm_xmm_r32m16_imm8 => EVEX_Vpinsrw_xmm_xmm_r32m16_imm8,
        VEX_Vmovss_m32_xmm => EVEX_Vmovss_m32_k1_xmm,
        VEX_Vextractps_rm32_xmm_imm8 => EVEX_Vextractps_rm32_xmm_imm8,
        VEX_Vmovlpd_m64_xmm => EVEX_Vmovlpd_m64_xmm,
        VEX_Vmovhpd_m64_xmm => EVEX_Vmovhpd_m64_xmm,
        VEX_Vpextrb_r32m8_xmm_imm8 => EVEX_Vpextrb_r32m8_xmm_imm8,
        VEX_Vpextrw_r32m16_xmm_imm8 => EVEX_Vpextrw_r32m16_xmm_imm8,
        EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae
        | EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae
        | EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8
        | EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8
        | EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8
        | EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8
        | EVEX_Vpmovd2m_kr_zmm
        | EVEX_Vpmovq2m_kr_zmm
        | VEX_Kandw_kr_kr_kr
        | VEX_Kandnw_kr_kr_kr
        | VEX_Korw_kr_kr_kr
        | VEX_Kxorw_kr_kr_kr
        | VEX_Knotw_kr_kr
        | VEX_Kunpckbw_kr_kr_kr
        | VEX_Kshiftrw_kr_kr_imm8
        | EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8
        | EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae
        | EVEX_Vcvttps2uqq_zmm_k1z_ymmm256b32_sae
        | EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae
        | EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae
        | EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae
        | EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er
        | EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er
        | EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er
        | EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er
        | EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er
        | EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er
        | EVEX_Vpmovqd_ymmm256_k1z_zmm
        | EVEX_Vpmovdb_xmmm128_k1z_zmm
        | EVEX_Vpmovdw_ymmm256_k1z_zmm
        | EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64
        | EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8 => code,
        _ if of_quarters(code) => code,
        _ => return None,
    })
}

/// Whether what an instruction of a row of 512 bits takes of a register, where it does not take the whole, is its lowest 128 bits
/// instead of 256.
pub(super) fn of_quarters(code: Code) -> bool {
    use Code::*;
    matches!(
        code,
        EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8
            | EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8
            | EVEX_Vmovups_xmm_k1z_xmmm128
            | EVEX_Vmovups_xmmm128_k1z_xmm
            | EVEX_Vmovss_xmm_k1z_m32
            | EVEX_Vinsertps_xmm_xmm_xmmm32_imm8
            | EVEX_Vmovsd_xmm_k1z_m64
            | EVEX_Vmovhpd_xmm_xmm_m64
            | EVEX_Vpinsrb_xmm_xmm_r32m8_imm8
            | EVEX_Vpinsrw_xmm_xmm_r32m16_imm8
            | EVEX_Vpmovsxbd_zmm_k1z_xmmm128
            | EVEX_Vpmovzxbd_zmm_k1z_xmmm128
            | EVEX_Vmovss_m32_k1_xmm
            | EVEX_Vextractps_rm32_xmm_imm8
            | EVEX_Vmovlpd_m64_xmm
            | EVEX_Vmovhpd_m64_xmm
            | EVEX_Vpextrb_r32m8_xmm_imm8
            | EVEX_Vpextrw_r32m16_xmm_imm8
    )
}
