//! What a tile is written in: registers, elements, the instructions for them, and how a block is cut for the register file.

use crate::kernel::ir::Product;
use iced_x86::Code;

/// Registers and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Registers of 512 bits rather than 256.
    pub(super) widest: bool,
    /// What is multiplied.
    pub(super) product: Product,
}

/// A step of a sum.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// One instruction, with the sum in its first operand.
    Fused(Code),
    /// A product in a register of its own, which is then added.
    Product(Code),
}

/// The instructions of a form.
pub(super) struct Codes {
    pub load: Code,
    pub store: Code,
    pub masked_load: Code,
    pub masked_store: Code,
    pub broadcast: Code,
    /// Of a register's first element.
    pub store_one: Code,
    pub step: Step,
    pub add: Code,
    pub zero: Code,
}

/// The instructions for words of `bf16` whose sums may be subnormal: each half becomes an `f32` of its own.
pub(super) struct Halves {
    pub shift_left: Code,
    pub shift_right: Code,
    pub multiply_add: Code,
}

/// Of registers of 512 bits.
pub(super) const HALVES: Halves = Halves {
    shift_left: Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
    shift_right: Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
    multiply_add: Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
};

impl Form {
    /// Registers of 512 bits, `widest`, or of 256, for what is multiplied; `None` where no instruction does that.
    pub fn of(widest: bool, product: Product) -> Option<Form> {
        (widest || product != Product::Bf16).then_some(Form { widest, product })
    }

    pub(super) fn bytes(self) -> i64 {
        self.product.mem().bytes()
    }

    pub(super) fn register_bytes(self) -> i64 {
        if self.widest { 64 } else { 32 }
    }

    /// Elements of a register.
    pub(super) fn lanes(self) -> i64 {
        self.register_bytes() / self.bytes()
    }

    /// Rows of the left operand that a part goes through side by side, of strips that are no wider than they need be.
    pub fn rows(self) -> i64 {
        self.most_rows(2)
    }

    /// Rows whose sums the register file holds, of so many registers each.
    fn most_rows(self, registers: i64) -> i64 {
        match (registers, self.widest) {
            (..=2, true) => 12,
            (3..=4, true) => 6,
            (_, true) => 2,
            (..=2, false) if self.has_products() => 5,
            (3..=4, false) if self.has_products() => 2,
            (..=2, false) => 6,
            (3..=4, false) => 3,
            (_, false) => 1,
        }
    }

    /// Whether a step needs a register of its own.
    pub(super) fn has_products(self) -> bool {
        self.product == Product::S16
    }

    pub(super) fn codes(self) -> Codes {
        use Code::*;
        match (self.widest, self.product) {
            (false, Product::F32) => Codes {
                load: VEX_Vmovups_ymm_ymmm256,
                store: VEX_Vmovups_ymmm256_ymm,
                masked_load: VEX_Vmaskmovps_ymm_ymm_m256,
                masked_store: VEX_Vmaskmovps_m256_ymm_ymm,
                broadcast: VEX_Vbroadcastss_ymm_m32,
                store_one: VEX_Vmovss_m32_xmm,
                step: Step::Fused(VEX_Vfmadd231ps_ymm_ymm_ymmm256),
                add: VEX_Vaddps_ymm_ymm_ymmm256,
                zero: VEX_Vxorps_ymm_ymm_ymmm256,
            },
            (false, Product::F64) => Codes {
                load: VEX_Vmovupd_ymm_ymmm256,
                store: VEX_Vmovupd_ymmm256_ymm,
                masked_load: VEX_Vmaskmovpd_ymm_ymm_m256,
                masked_store: VEX_Vmaskmovpd_m256_ymm_ymm,
                broadcast: VEX_Vbroadcastsd_ymm_m64,
                store_one: VEX_Vmovsd_m64_xmm,
                step: Step::Fused(VEX_Vfmadd231pd_ymm_ymm_ymmm256),
                add: VEX_Vaddpd_ymm_ymm_ymmm256,
                zero: VEX_Vxorps_ymm_ymm_ymmm256,
            },
            (true, Product::F32) => Codes {
                load: EVEX_Vmovups_zmm_k1z_zmmm512,
                store: EVEX_Vmovups_zmmm512_k1z_zmm,
                masked_load: EVEX_Vmovups_zmm_k1z_zmmm512,
                masked_store: EVEX_Vmovups_zmmm512_k1z_zmm,
                broadcast: EVEX_Vbroadcastss_zmm_k1z_xmmm32,
                store_one: EVEX_Vmovss_m32_k1_xmm,
                step: Step::Fused(EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er),
                add: EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
                zero: EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            },
            (true, Product::F64) => Codes {
                load: EVEX_Vmovupd_zmm_k1z_zmmm512,
                store: EVEX_Vmovupd_zmmm512_k1z_zmm,
                masked_load: EVEX_Vmovupd_zmm_k1z_zmmm512,
                masked_store: EVEX_Vmovupd_zmmm512_k1z_zmm,
                broadcast: EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
                store_one: EVEX_Vmovsd_m64_k1_xmm,
                step: Step::Fused(EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er),
                add: EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
                zero: EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            },
            // Of 256 bits there is no such form.
            (_, Product::Bf16) => {
                let step = Step::Fused(EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32);
                Codes { step, ..Form { widest: true, product: Product::F32 }.codes() }
            }
            // Words are moved as floats are.
            (_, Product::U8S8 | Product::S8U8 | Product::S16) => {
                let moves = Form { product: Product::F32, ..self }.codes();
                let step = match (self.has_products(), self.widest) {
                    (false, false) => Step::Fused(VEX_Vpdpbusd_ymm_ymm_ymmm256),
                    (false, true) => Step::Fused(EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32),
                    (true, false) => Step::Product(VEX_Vpmaddwd_ymm_ymm_ymmm256),
                    (true, true) => Step::Product(EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512),
                };
                let add = if self.widest { EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32 } else { VEX_Vpaddd_ymm_ymm_ymmm256 };
                Codes { step, add, ..moves }
            }
        }
    }

    /// Whether a step takes its left operand first, and the right one from a register or memory: of bytes the unsigned ones come
    /// first.
    pub(super) fn left_first(self) -> bool {
        match self.product {
            Product::F32 | Product::F64 | Product::U8S8 | Product::S16 | Product::Bf16 => true,
            Product::S8U8 => false,
        }
    }

    /// The strips of `n` columns for blocks of `m` rows: columns, and how many such strips follow each other.
    pub(super) fn strips(self, m: i64, n: i64) -> Vec<(i64, i64)> {
        let most = [8, 4, 2].into_iter().find(|&v| m <= self.most_rows(v)).unwrap_or(2);
        let mut strips = Vec::new();
        let mut left = n;
        while left > 0 {
            let registers = (left + self.lanes() - 1) / self.lanes();
            // Eight registers come whole only: their masked form would not earn its code.
            let registers = if most == 8 && left >= 8 * self.lanes() { 8 } else { registers.min(most.min(4)) };
            let columns = (registers * self.lanes()).min(left);
            count(&mut strips, columns);
            left -= columns;
        }
        strips
    }

    /// Parts of `m` rows for a strip of so many registers: rows, and how many such parts follow each other.
    pub(super) fn parts(self, m: i64, registers: i64) -> Vec<(i64, i64)> {
        let most = self.most_rows(registers);
        let (mut parts, mut left) = (Vec::new(), m);
        for part in (1..=(m + most - 1) / most).rev() {
            let rows = (left + part - 1) / part;
            count(&mut parts, rows);
            left -= rows;
        }
        parts
    }
}

/// Adds one to a list of values and how often each comes in a row.
fn count(list: &mut Vec<(i64, i64)>, value: i64) {
    match list.last_mut() {
        Some((last, n)) if *last == value => *n += 1,
        _ => list.push((value, 1)),
    }
}
