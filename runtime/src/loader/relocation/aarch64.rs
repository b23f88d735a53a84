//! aarch64: pages of 4 KiB by `adrp` and what is left by the next instruction, calls of 26 bits of words.

use super::{Needs, Reference, put};
use object::elf as consts;

/// `adrp x16, slot; ldr x16, [x16, slot]; br x16` and a trap: the registers are those that calls may change on their way.
pub(super) const STUB_SIZE: usize = 16;

const ADRP_X16: u32 = 0x9000_0010;
const LDR_X16_X16: u32 = 0xf940_0210;
const BR_X16: u32 = 0xd61f_0200;
const BRK: u32 = 0xd420_0000;

pub(super) fn needs(r_type: u32, undefined: bool) -> Option<Needs> {
    match r_type {
        consts::R_AARCH64_NONE => Some(Needs::NOTHING),
        consts::R_AARCH64_ABS64 | consts::R_AARCH64_PREL64 => Some(Needs::field(8)),
        consts::R_AARCH64_PREL32 | consts::R_AARCH64_ADR_PREL_PG_HI21 | consts::R_AARCH64_ADD_ABS_LO12_NC => {
            Some(Needs::field(4))
        }
        consts::R_AARCH64_CALL26 | consts::R_AARCH64_JUMP26 => Some(Needs::call(undefined)),
        consts::R_AARCH64_ADR_GOT_PAGE | consts::R_AARCH64_LD64_GOT_LO12_NC => Some(Needs::slot(4)),
        _ => None,
    }
}

pub(super) fn stub(at: u64, slot: u64) -> Option<Vec<u8>> {
    let words = [ADRP_X16 | pages(at, slot)?, LDR_X16_X16 | low_bits(slot, 3)?, BR_X16, BRK];
    Some(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

pub(super) fn apply(field: &mut [u8], reference: &Reference) -> Option<()> {
    let symbol = reference.symbol;
    match reference.r_type {
        consts::R_AARCH64_ABS64 => put(field, reference.plus(symbol).to_le_bytes()),
        consts::R_AARCH64_PREL64 => put(field, reference.distance(symbol).to_le_bytes()),
        consts::R_AARCH64_PREL32 => put(field, i32::try_from(reference.distance(symbol)).ok()?.to_le_bytes()),
        consts::R_AARCH64_CALL26 | consts::R_AARCH64_JUMP26 => {
            let way = words(reference.distance(symbol)).or_else(|| words(reference.distance(reference.stub?)));
            set(field, 0x03ff_ffff, way?)
        }
        consts::R_AARCH64_ADR_PREL_PG_HI21 => set(field, PAGES, pages(reference.place, reference.plus(symbol))?),
        consts::R_AARCH64_ADD_ABS_LO12_NC => set(field, LOW_BITS, low_bits(reference.plus(symbol), 0)?),
        consts::R_AARCH64_ADR_GOT_PAGE => set(field, PAGES, pages(reference.place, reference.plus(reference.slot?))?),
        _ => set(field, LOW_BITS, low_bits(reference.plus(reference.slot?), 3)?),
    }
}

/// The immediate of an `adrp`, and that of an `add` or a load.
const PAGES: u32 = 0x60ff_ffe0;
const LOW_BITS: u32 = 0x003f_fc00;

/// Sets the bits of an instruction that a mask names.
fn set(field: &mut [u8], mask: u32, bits: u32) -> Option<()> {
    let word = u32::from_le_bytes(*field.first_chunk()?);
    put(field, (word & !mask | bits & mask).to_le_bytes())
}

/// The way to an instruction as the field of a branch: 128 MiB either way.
fn words(distance: i64) -> Option<u32> {
    let near = distance % 4 == 0 && (-(1 << 27)..1 << 27).contains(&distance);
    near.then_some((distance >> 2) as u32 & 0x03ff_ffff)
}

/// The way from the page of one address to that of another, as the field of an `adrp`: 4 GiB either way.
fn pages(from: u64, to: u64) -> Option<u32> {
    let pages = (to >> 12).wrapping_sub(from >> 12) as i64;
    let bits = pages as u32;
    (-(1 << 20)..1 << 20).contains(&pages).then_some((bits & 3) << 29 | (bits >> 2 & 0x7_ffff) << 5)
}

/// The place in its page, as the immediate of an `add` or of a load of `1 << scale` bytes, to which it must be aligned.
fn low_bits(address: u64, scale: u32) -> Option<u32> {
    let low = (address & 0xfff) as u32;
    low.is_multiple_of(1 << scale).then_some((low >> scale) << 10)
}
