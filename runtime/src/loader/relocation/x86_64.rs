//! x86-64: displacements of 32 bits, and jumps through a slot beside the instruction pointer.

use super::{Needs, Reference, put};
use object::elf as consts;

/// `jmp *slot(%rip)` and two bytes of filling.
pub(super) const STUB_SIZE: usize = 8;

pub(super) fn needs(r_type: u32, undefined: bool) -> Option<Needs> {
    match r_type {
        consts::R_X86_64_NONE => Some(Needs::NOTHING),
        consts::R_X86_64_64 | consts::R_X86_64_PC64 => Some(Needs::field(8)),
        consts::R_X86_64_PC32 => Some(Needs::field(4)),
        consts::R_X86_64_PLT32 => Some(Needs::call(undefined)),
        consts::R_X86_64_GOTPCREL | consts::R_X86_64_GOTPCRELX | consts::R_X86_64_REX_GOTPCRELX => Some(Needs::slot(4)),
        _ => None,
    }
}

pub(super) fn stub(at: u64, slot: u64) -> Option<Vec<u8>> {
    let displacement = i32::try_from(slot.wrapping_sub(at.wrapping_add(6)) as i64).ok()?;
    let [a, b, c, d] = displacement.to_le_bytes();
    Some(vec![0xff, 0x25, a, b, c, d, 0xcc, 0xcc])
}

pub(super) fn apply(field: &mut [u8], reference: &Reference) -> Option<()> {
    let near = |field: &mut [u8], address: u64| {
        let distance = i32::try_from(reference.distance(address)).ok()?;
        put(field, distance.to_le_bytes())
    };
    let symbol = reference.symbol;
    match reference.r_type {
        consts::R_X86_64_64 => put(field, reference.plus(symbol).to_le_bytes()),
        consts::R_X86_64_PC64 => put(field, reference.distance(symbol).to_le_bytes()),
        consts::R_X86_64_PC32 => near(field, symbol),
        consts::R_X86_64_PLT32 => near(field, symbol).or_else(|| near(field, reference.stub?)),
        _ => near(field, reference.slot?),
    }
}
