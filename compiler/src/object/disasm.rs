//! Assembly text for people: what `--emit=asm` prints.
//!
//! x86-64 only; other machines get their instruction words in hexadecimal. Constants that Cranelift puts behind a
//! function's last instruction are printed as if they were code.

use super::{CodeReloc, ObjectInput, Target};
use brolga_runtime::abi::Architecture;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use std::fmt::Write;

/// The assembly of every function, in order.
pub fn disassemble_object(input: &ObjectInput, architecture: Architecture) -> String {
    let name = |target: Target| -> String {
        let name = match target {
            Target::Function(i) => input.functions.get(i as usize).map(|f| f.symbol.clone()),
            Target::Data(i) => input.data.get(i as usize).map(|d| d.symbol.clone()),
            Target::Import(i) => input.imports.get(i as usize).cloned(),
            Target::Descriptor(i) => input.descriptors.get(i as usize).map(|d| d.descriptor_symbol()),
            Target::Here(offset) => Some(format!(".+{offset:#x}")),
        };
        name.unwrap_or_else(|| format!("{target:?}"))
    };
    let mut out = String::new();
    for function in &input.functions {
        let scope = if function.exported { "" } else { "    # local" };
        let _ = writeln!(out, "{}:{scope}", function.symbol);
        out.push_str(&disassemble(architecture, &function.code, &function.relocs, &name));
        out.push('\n');
    }
    out
}

/// The assembly of one function: address, bytes, instruction in Intel syntax, and what relocations refer to.
pub fn disassemble(
    architecture: Architecture,
    code: &[u8],
    relocs: &[CodeReloc],
    name: &dyn Fn(Target) -> String,
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
            let _ = write!(out, "    # {:?} {}", reloc.kind, name(reloc.target));
            if reloc.addend != 0 {
                let _ = write!(out, "{:+}", reloc.addend);
            }
        }
        out.push('\n');
    };
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

    #[test]
    fn prints_instructions_with_their_targets() {
        let code = [0xf3, 0x0f, 0x58, 0xc1, 0xe8, 0, 0, 0, 0, 0xc3];
        let relocs = [CodeReloc { offset: 5, kind: Reloc::X86CallPLTRel4, target: Target::Import(0), addend: -4 }];
        let text = disassemble(Architecture::X86_64, &code, &relocs, &|_| "callee".into());
        assert!(text.contains("addss xmm0,xmm1"), "{text}");
        assert!(text.contains("# X86CallPLTRel4 callee-4"), "{text}");
        assert!(text.contains("     9:  c3"), "{text}");
        let text = disassemble(Architecture::Aarch64, &[0x1f, 0x20, 0x03, 0xd5], &[], &|_| String::new());
        assert!(text.contains(".word 0xd503201f"), "{text}");
    }
}
