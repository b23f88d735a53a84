//! Parts of 128 bits of registers.

use super::Reg;
use super::select::{Access, Definition, Inst, Selector};
use crate::codegen::rows::Width;
use iced_x86::Code;

impl Selector<'_> {
    /// The even parts of two registers, and the odd ones: those of the first, then those of the second.
    pub(super) fn parts_by_turns(&mut self, of: [Reg; 2]) -> [Reg; 2] {
        match self.width {
            Width::W256 => self.lower_and_upper(of),
            Width::W512 => [0b10_00_10_00, 0b11_01_11_01].map(|imm| self.parts_in_order(of, imm)),
        }
    }

    /// The lower halves of two registers, and the upper ones.
    pub(super) fn lower_and_upper(&mut self, of: [Reg; 2]) -> [Reg; 2] {
        let orders = match self.width {
            Width::W256 => [0x20, 0x31],
            Width::W512 => [0b01_00_01_00, 0b11_10_11_10],
        };
        orders.map(|imm| self.parts_in_order(of, imm))
    }

    /// As many parts of one register as of another, as an immediate says.
    fn parts_in_order(&mut self, of: [Reg; 2], imm: u8) -> Reg {
        let code = match self.width {
            Width::W256 => Code::VEX_Vperm2f128_ymm_ymm_ymmm256_imm8,
            Width::W512 => Code::EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8,
        };
        self.with_imm(code, &of, imm)
    }

    /// A register with a part that comes from memory.
    pub(super) fn insert_part(&mut self, into: Reg, from: Access, part: u8) -> Reg {
        let code = match self.width {
            Width::W256 => Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8,
            Width::W512 => Code::EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8,
        };
        let to = self.register(Definition::Computed);
        self.iteration.insts.push(Inst::Insert { code, to, into, from, half: false, imm: Some(part) });
        to
    }

    /// A register whose first 128 bits are a part of another.
    pub(super) fn part(&mut self, r: Reg, part: u8) -> Reg {
        match (part, self.width) {
            (0, _) => r,
            (_, Width::W256) => self.upper(r),
            (_, Width::W512) => self.halves(Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, &[r], 1, Some(part)),
        }
    }

    /// Stores a part.
    pub(super) fn store_part(&mut self, to: Access, from: Reg, part: u8) {
        let (code, half, imm) = match (part, self.width) {
            (0, _) => (Code::VEX_Vmovups_xmmm128_xmm, true, None),
            (_, Width::W256) => (Code::VEX_Vextractf128_xmmm128_ymm_imm8, false, Some(part)),
            (_, Width::W512) => (Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, false, Some(part)),
        };
        self.store_at(code, to, from, half, imm);
    }
}
