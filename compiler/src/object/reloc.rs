//! From Cranelift's relocations to those of the object formats.

use super::{CodeReloc, Target};
use crate::{Error, Result};
use cranelift_codegen::binemit::Reloc;
use object::{BinaryFormat, RelocationEncoding, RelocationFlags, RelocationKind, elf, macho};

/// The format's relocation type for one of Cranelift's.
pub(super) fn relocation_flags(kind: Reloc, format: BinaryFormat) -> Result<RelocationFlags> {
    let generic = |kind, encoding, size| Ok(RelocationFlags::Generic { kind, encoding, size });
    let elf = |r_type| RelocationFlags::Elf { r_type };
    let macho = |r_type, r_pcrel| RelocationFlags::MachO { r_type, r_pcrel, r_length: 2 };
    match (kind, format) {
        (Reloc::Abs4, _) => return generic(RelocationKind::Absolute, RelocationEncoding::Generic, 32),
        (Reloc::Abs8, _) => return generic(RelocationKind::Absolute, RelocationEncoding::Generic, 64),
        (Reloc::X86PCRel4, _) => return generic(RelocationKind::Relative, RelocationEncoding::Generic, 32),
        (Reloc::X86CallPCRel4, _) => return generic(RelocationKind::Relative, RelocationEncoding::X86Branch, 32),
        (Reloc::X86CallPLTRel4, _) => return generic(RelocationKind::PltRelative, RelocationEncoding::X86Branch, 32),
        (Reloc::X86GOTPCRel4, _) => return generic(RelocationKind::GotRelative, RelocationEncoding::Generic, 32),
        (Reloc::Arm64Call, _) => return generic(RelocationKind::Relative, RelocationEncoding::AArch64Call, 26),
        (Reloc::Aarch64AdrGotPage21, BinaryFormat::Elf) => Some(elf(elf::R_AARCH64_ADR_GOT_PAGE)),
        (Reloc::Aarch64Ld64GotLo12Nc, BinaryFormat::Elf) => Some(elf(elf::R_AARCH64_LD64_GOT_LO12_NC)),
        (Reloc::Aarch64AdrPrelPgHi21, BinaryFormat::Elf) => Some(elf(elf::R_AARCH64_ADR_PREL_PG_HI21)),
        (Reloc::Aarch64AddAbsLo12Nc, BinaryFormat::Elf) => Some(elf(elf::R_AARCH64_ADD_ABS_LO12_NC)),
        (Reloc::Aarch64AdrGotPage21, BinaryFormat::MachO) => Some(macho(macho::ARM64_RELOC_GOT_LOAD_PAGE21, true)),
        (Reloc::Aarch64Ld64GotLo12Nc, BinaryFormat::MachO) => Some(macho(macho::ARM64_RELOC_GOT_LOAD_PAGEOFF12, false)),
        (Reloc::Aarch64AdrPrelPgHi21, BinaryFormat::MachO) => Some(macho(macho::ARM64_RELOC_PAGE21, true)),
        (Reloc::Aarch64AddAbsLo12Nc, BinaryFormat::MachO) => Some(macho(macho::ARM64_RELOC_PAGEOFF12, false)),
        (Reloc::RiscvCallPlt, BinaryFormat::Elf) => Some(elf(elf::R_RISCV_CALL_PLT)),
        (Reloc::RiscvGotHi20, BinaryFormat::Elf) => Some(elf(elf::R_RISCV_GOT_HI20)),
        (Reloc::RiscvPCRelHi20, BinaryFormat::Elf) => Some(elf(elf::R_RISCV_PCREL_HI20)),
        (Reloc::RiscvPCRelLo12I, BinaryFormat::Elf) => Some(elf(elf::R_RISCV_PCREL_LO12_I)),
        _ => None,
    }
    .ok_or_else(|| Error::Target(format!("the object format {format:?} has no relocation for {kind:?}")))
}

/// Turns `mov reg, [rip + GOT slot]` into `lea reg, [rip + symbol]` where the symbol is one of this object.
///
/// Cranelift reaches all data through the table when it compiles position-independent code. What is defined in the same
/// object needs no table: one load and one slot fewer.
pub(super) fn relax_got_access(code: &mut [u8], reloc: &mut CodeReloc) {
    let local = matches!(reloc.target, Target::Function(_) | Target::Data(_));
    if reloc.kind != Reloc::X86GOTPCRel4 || !local || reloc.addend != -4 {
        return;
    }
    let at = reloc.offset as usize;
    let Some([rex, opcode, modrm]) = at.checked_sub(3).and_then(|start| code.get_mut(start..at)) else {
        return;
    };
    // REX.W (with or without .R), the load opcode, and a ModRM byte that says `reg, [rip + disp32]`.
    if matches!(*rex, 0x48 | 0x4c) && *opcode == 0x8b && *modrm & 0xc7 == 0x05 {
        *opcode = 0x8d;
        reloc.kind = Reloc::X86PCRel4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loads_from_the_table_are_relaxed() {
        let reloc = |target| CodeReloc { offset: 3, kind: Reloc::X86GOTPCRel4, target, addend: -4 };
        let mut load = [0x4c, 0x8b, 0x15, 0, 0, 0, 0];
        let mut local = reloc(Target::Data(0));
        relax_got_access(&mut load, &mut local);
        assert_eq!((load[1], local.kind), (0x8d, Reloc::X86PCRel4));

        let mut load = [0x48, 0x8b, 0x05, 0, 0, 0, 0];
        let mut import = reloc(Target::Import(0));
        relax_got_access(&mut load, &mut import);
        assert_eq!((load[1], import.kind), (0x8b, Reloc::X86GOTPCRel4));

        let mut add = [0x48, 0x03, 0x05, 0, 0, 0, 0];
        let mut local = reloc(Target::Data(0));
        relax_got_access(&mut add, &mut local);
        assert_eq!(local.kind, Reloc::X86GOTPCRel4);
    }
}
