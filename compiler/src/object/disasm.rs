//! Assembly text for people: what `--emit=asm` prints.
//!
//! x86-64 only; other machines get their instruction words in hexadecimal, those of s390x by halves of a word. Constants that Cranelift puts behind a
//! function's last instruction are printed as if they were code.

use super::{ObjectInput, Referent};
use brolga_runtime::abi::Architecture;
use cranelift_module::{Linkage, ModuleReloc};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use std::fmt::Write;

/// The assembly of the functions from number `first` on, in order.
pub fn disassemble_object(input: &ObjectInput, first: usize, architecture: Architecture) -> String {
    let name = |reloc: &ModuleReloc| match Referent::of(&reloc.name) {
        Some(referent) => input.name_of(referent),
        None => reloc.name.to_string(),
    };
    let mut out = String::new();
    for (id, declaration) in input.functions().skip(first) {
        let Some(function) = input.code(id) else { continue };
        let scope = if declaration.linkage == Linkage::Export { "" } else { "    # local" };
        let _ = writeln!(out, "{}:{scope}", declaration.linkage_name(id));
        out.push_str(&disassemble(architecture, &function.code, &function.relocs, &name));
        out.push('\n');
    }
    out
}

/// The assembly of one function: address, bytes, instruction in Intel syntax, and what relocations refer to.
pub fn disassemble(
    architecture: Architecture,
    code: &[u8],
    relocs: &[ModuleReloc],
    name: &dyn Fn(&ModuleReloc) -> String,
) -> String {
    let mut out = String::new();
    let mut line = |start: usize, bytes: &[u8], text: &str| {
        let mut hex = String::new();
        for byte in bytes {
            let _ = write!(hex, "{byte:02x}");
        }
        let _ = write!(out, "{start:6x}:  {hex:<22} {text}");
        let end = start + bytes.len();
        for reloc in relocs.iter().filter(|r| (start..end).contains(&(r.offset as usize))) {
            let _ = write!(out, "    # {:?} {}", reloc.kind, name(reloc));
            if reloc.addend != 0 {
                let _ = write!(out, "{:+}", reloc.addend);
            }
        }
        out.push('\n');
    };
    if architecture.is_big_endian() {
        for (i, half) in code.chunks(2).enumerate() {
            let value = half.iter().fold(0u16, |v, &b| (v << 8) | u16::from(b));
            line(2 * i, half, &format!(".short {value:#06x}"));
        }
        return out;
    }
    if architecture != Architecture::X86_64 {
        for (i, word) in code.chunks(4).enumerate() {
            let value = word.iter().rev().fold(0u32, |v, &b| (v << 8) | u32::from(b));
            line(4 * i, word, &format!(".word {value:#010x}"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::binemit::Reloc;
    use cranelift_module::ModuleRelocTarget;

    #[test]
    fn prints_instructions_with_their_targets() {
        let code = [0xf3, 0x0f, 0x58, 0xc1, 0xe8, 0, 0, 0, 0, 0xc3];
        let relocs =
            [ModuleReloc { offset: 5, kind: Reloc::X86CallPLTRel4, name: ModuleRelocTarget::user(0, 0), addend: -4 }];
        let text = disassemble(Architecture::X86_64, &code, &relocs, &|_| "callee".into());
        assert!(text.contains("addss xmm0,xmm1"), "{text}");
        assert!(text.contains("# X86CallPLTRel4 callee-4"), "{text}");
        assert!(text.contains("     9:  c3"), "{text}");
        let text = disassemble(Architecture::Aarch64, &[0x1f, 0x20, 0x03, 0xd5], &[], &|_| String::new());
        assert!(text.contains(".word 0xd503201f"), "{text}");
    }
}
