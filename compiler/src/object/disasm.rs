//! Assembly: what `--emit=asm` prints, for people, and for assemblers, which make the same section of code of it.
//!
//! Problem: a printed instruction does not say which of its encodings was chosen, and assemblers of the targets have many dialects.
//! Algorithm: bytes are written as bytes, for every target; beside them stand in comments, which all dialects have in C's form, the
//! instructions: on x86-64 each in Intel's syntax, elsewhere those of a function before its bytes, as Cranelift prints them. What
//! code refers to is a `.reloc` in ELF, and a comment for other formats, whose assemblers have no word for it. Constants that lie
//! behind a function's last instruction are printed as if they were code; data of their own are not printed.

use super::write::{architecture, format, relaxed};
use super::{CompiledFunction, ObjectInput, Referent};
use crate::Result;
use brolga_runtime::abi::Architecture;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{Linkage, ModuleReloc};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use object::BinaryFormat;
use std::fmt::Write;

/// The assembly of the functions from number `first` on, in order.
///
/// # Errors
/// Where the target has no object format here.
pub fn disassemble_object(input: &ObjectInput, first: usize, isa: &dyn TargetIsa) -> Result<String> {
    let (architecture, format) = (architecture(isa)?, format(isa)?);
    let least = u64::from(isa.function_alignment().preferred);
    let mut out = String::new();
    for (id, declaration) in input.functions().skip(first) {
        let Some(function) = input.code(id) else { continue };
        let function = relaxed(input, architecture, function);
        let own = symbol(&declaration.linkage_name(id));
        let name = |reloc: &ModuleReloc| match Referent::of(&reloc.name) {
            Some(Referent::Here(offset)) => format!("{own}+{offset:#x}"),
            Some(referent) => symbol(&input.name_of(referent)),
            None => reloc.name.to_string(),
        };
        let _ = writeln!(out, "\t.text");
        if declaration.linkage == Linkage::Export {
            let _ = writeln!(out, "\t.globl\t{own}");
        }
        let _ = writeln!(out, "\t.balign\t{}, 0\n{own}:", function.alignment.max(least));
        out.push_str(&disassemble(architecture, format, &own, &function, &name));
        out.push('\n');
    }
    Ok(out)
}

/// A name as assemblers take it, whatever it is made of.
fn symbol(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    if name.chars().all(plain) { name.to_owned() } else { format!("\"{name}\"") }
}

/// The bytes of one function, called `own`, with its instructions, and what relocations refer to.
pub fn disassemble(
    architecture: Architecture,
    format: BinaryFormat,
    own: &str,
    function: &CompiledFunction,
    name: &dyn Fn(&ModuleReloc) -> String,
) -> String {
    let CompiledFunction { code, relocs, text, .. } = function;
    let mut out = String::new();
    if !text.is_empty() {
        let _ = writeln!(out, "/*\n{}\n*/", text.trim_end().replace("*/", "* /"));
    }
    let mut line = |start: usize, bytes: &[u8], text: &str| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
        let _ = writeln!(out, "\t.byte\t{}\t/* {start:x}: {text} */", bytes.join(","));
        let end = start + bytes.len();
        for reloc in relocs.iter().filter(|r| (start..end).contains(&(r.offset as usize))) {
            let addend = if reloc.addend == 0 { String::new() } else { format!("{:+}", reloc.addend) };
            let to = name(reloc);
            match elf_name(reloc.kind).filter(|_| format == BinaryFormat::Elf) {
                Some(kind) => _ = writeln!(out, "\t.reloc\t{own}+{:#x}, {kind}, {to}{addend}", reloc.offset),
                None => _ = writeln!(out, "\t/* {:#x}: {:?} {to}{addend} */", reloc.offset, reloc.kind),
            }
        }
    };
    if architecture != Architecture::X86_64 {
        // Instructions have two, four and six bytes on s390x.
        let size = if architecture.is_big_endian() { 2 } else { 4 };
        code.chunks(size).enumerate().for_each(|(i, bytes)| line(size * i, bytes, ""));
        return out;
    }
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_rip_relative_addresses(true);
    let mut instruction = Instruction::default();
    let mut text = String::new();
    while decoder.can_decode() {
        let start = decoder.position();
        decoder.decode_out(&mut instruction);
        text.clear();
        formatter.format(&instruction, &mut text);
        line(start, code.get(start..decoder.position()).unwrap_or_default(), &text);
    }
    out
}

/// What the ELF of its machine calls a relocation.
fn elf_name(kind: Reloc) -> Option<&'static str> {
    Some(match kind {
        Reloc::X86PCRel4 => "R_X86_64_PC32",
        Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 => "R_X86_64_PLT32",
        Reloc::X86GOTPCRel4 => "R_X86_64_GOTPCREL",
        Reloc::Arm64Call => "R_AARCH64_CALL26",
        Reloc::Aarch64AdrPrelPgHi21 => "R_AARCH64_ADR_PREL_PG_HI21",
        Reloc::Aarch64AddAbsLo12Nc => "R_AARCH64_ADD_ABS_LO12_NC",
        Reloc::Aarch64AdrGotPage21 => "R_AARCH64_ADR_GOT_PAGE",
        Reloc::Aarch64Ld64GotLo12Nc => "R_AARCH64_LD64_GOT_LO12_NC",
        Reloc::RiscvCallPlt => "R_RISCV_CALL_PLT",
        Reloc::RiscvGotHi20 => "R_RISCV_GOT_HI20",
        Reloc::RiscvPCRelHi20 => "R_RISCV_PCREL_HI20",
        Reloc::RiscvPCRelLo12I => "R_RISCV_PCREL_LO12_I",
        Reloc::S390xPCRel32Dbl => "R_390_PC32DBL",
        Reloc::S390xPLTRel32Dbl => "R_390_PLT32DBL",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Unwind;
    use cranelift_module::ModuleRelocTarget;

    fn function(code: &[u8], relocs: Vec<ModuleReloc>, text: &str) -> CompiledFunction {
        let (unwind, lines) = (Unwind::unchanged(), Vec::new());
        CompiledFunction { alignment: 1, code: code.to_vec(), relocs, unwind, lines, text: text.into() }
    }

    #[test]
    fn instructions_stand_beside_bytes_and_relocations() {
        let code = [0xf3, 0x0f, 0x58, 0xc1, 0xe8, 0, 0, 0, 0, 0xc3];
        let relocs = vec![ModuleReloc {
            offset: 5,
            kind: Reloc::X86CallPLTRel4,
            name: ModuleRelocTarget::user(0, 0),
            addend: -4,
        }];
        let function_of_x86 = function(&code, relocs, "");
        let of = |format| disassemble(Architecture::X86_64, format, "f", &function_of_x86, &|_| "callee".into());
        let text = of(BinaryFormat::Elf);
        assert!(text.starts_with("\t.byte\t0xf3,0x0f,0x58,0xc1\t/* 0: addss xmm0,xmm1 */\n"), "{text}");
        assert!(text.contains("\n\t.reloc\tf+0x5, R_X86_64_PLT32, callee-4\n"), "{text}");
        assert!(text.ends_with("\n\t.byte\t0xc3\t/* 9: ret */\n"), "{text}");
        let text = of(BinaryFormat::Coff);
        assert!(text.contains("\n\t/* 0x5: X86CallPLTRel4 callee-4 */\n"), "{text}");
        let nop = function(&[0x1f, 0x20, 0x03, 0xd5], Vec::new(), "block0:\n  nop */\n");
        let text = disassemble(Architecture::Aarch64, BinaryFormat::Elf, "f", &nop, &|_| String::new());
        assert_eq!(text, "/*\nblock0:\n  nop * /\n*/\n\t.byte\t0x1f,0x20,0x03,0xd5\t/* 0:  */\n");
    }

    #[test]
    fn names_are_quoted_where_assemblers_ask() {
        assert_eq!(symbol("f.v3.0.tanh.0"), "f.v3.0.tanh.0");
        assert_eq!(symbol("f.0.get-tuple-element"), "\"f.0.get-tuple-element\"");
    }
}
