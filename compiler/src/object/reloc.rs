//! What of Cranelift's relocations each object format has, and accesses through the global offset table that need none.

use super::{ObjectInput, Referent};
use crate::error::{Error, Result};
use cranelift_codegen::binemit::Reloc;
use cranelift_module::ModuleReloc;
use object::BinaryFormat;

/// That the module's writer has a relocation of that kind for the format: it panics where it has none.
///
/// # Errors
/// [`Error::Target`] where there is none.
pub(super) fn check_kind(kind: Reloc, format: BinaryFormat) -> Result<()> {
    let known = match kind {
        Reloc::Abs8 | Reloc::X86PCRel4 | Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 | Reloc::X86GOTPCRel4 => {
            matches!(format, BinaryFormat::Elf | BinaryFormat::MachO | BinaryFormat::Coff)
        }
        Reloc::Arm64Call | Reloc::Aarch64AdrPrelPgHi21 | Reloc::Aarch64AddAbsLo12Nc => {
            matches!(format, BinaryFormat::Elf | BinaryFormat::MachO | BinaryFormat::Coff)
        }
        Reloc::Aarch64AdrGotPage21 | Reloc::Aarch64Ld64GotLo12Nc => {
            matches!(format, BinaryFormat::Elf | BinaryFormat::MachO)
        }
        Reloc::RiscvCallPlt
        | Reloc::RiscvGotHi20
        | Reloc::RiscvPCRelHi20
        | Reloc::RiscvPCRelLo12I
        | Reloc::S390xPCRel32Dbl
        | Reloc::S390xPLTRel32Dbl => format == BinaryFormat::Elf,
        _ => false,
    };
    if known {
        Ok(())
    } else {
        Err(Error::Target(format!("the object format {format:?} has no relocation for {kind:?}")))
    }
}

/// COFF's kind for a relocation that the module's writer does not know there: the two halves of an address on aarch64.
pub(super) fn coff_kind(kind: Reloc) -> Option<u16> {
    match kind {
        Reloc::Aarch64AdrPrelPgHi21 => Some(object::pe::IMAGE_REL_ARM64_PAGEBASE_REL21),
        Reloc::Aarch64AddAbsLo12Nc => Some(object::pe::IMAGE_REL_ARM64_PAGEOFFSET_12A),
        _ => None,
    }
}

/// Turns `mov reg, [rip + GOT slot]` into `lea reg, [rip + symbol]` where the symbol is one of this object.
///
/// Cranelift reaches all data through the table when it compiles position-independent code. What is defined in the same
/// object needs no table: one load and one slot fewer.
pub(super) fn relax_got_access(input: &ObjectInput, code: &mut [u8], reloc: &mut ModuleReloc) {
    let local = match Referent::of(&reloc.name) {
        Some(Referent::Function(id)) => !input.is_import(id),
        Some(Referent::Data(_)) => true,
        Some(Referent::Here(_)) | None => false,
    };
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::object::bytes;
    use cranelift_module::ModuleRelocTarget;

    #[test]
    fn only_loads_from_the_table_are_relaxed() {
        let mut input = ObjectInput::new();
        let import = input.import("outside").unwrap();
        let data = input.datum("data", false, bytes(1, vec![0])).unwrap();
        let reloc = |name| ModuleReloc { offset: 3, kind: Reloc::X86GOTPCRel4, name, addend: -4 };
        let relaxed = |code: [u8; 7], name: ModuleRelocTarget| {
            let (mut code, mut reloc) = (code, reloc(name));
            relax_got_access(&input, &mut code, &mut reloc);
            (code[1], reloc.kind)
        };
        let load = [0x4c, 0x8b, 0x15, 0, 0, 0, 0];
        assert_eq!(relaxed(load, data.into()), (0x8d, Reloc::X86PCRel4));
        assert_eq!(relaxed(load, import.into()), (0x8b, Reloc::X86GOTPCRel4));
        let add = [0x48, 0x03, 0x05, 0, 0, 0, 0];
        assert_eq!(relaxed(add, data.into()), (0x03, Reloc::X86GOTPCRel4));
    }

    #[test]
    fn a_format_without_a_relocation_says_so() {
        let error = check_kind(Reloc::Aarch64AdrGotPage21, BinaryFormat::Coff).unwrap_err();
        assert_eq!(error.to_string(), "target: the object format Coff has no relocation for Aarch64AdrGotPage21");
        for format in [BinaryFormat::Elf, BinaryFormat::MachO, BinaryFormat::Coff] {
            assert!(check_kind(Reloc::X86GOTPCRel4, format).is_ok());
        }
        assert!(check_kind(Reloc::Arm64Call, BinaryFormat::Coff).is_ok() && coff_kind(Reloc::Arm64Call).is_none());
        assert!(check_kind(Reloc::RiscvCallPlt, BinaryFormat::MachO).is_err());
        assert!(check_kind(Reloc::S390xPLTRel32Dbl, BinaryFormat::Coff).is_err());
        assert!(check_kind(Reloc::S390xTlsGd64, BinaryFormat::Elf).is_err());
    }
}
