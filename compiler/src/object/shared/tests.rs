//! The form of libraries, for both machines.

#![allow(clippy::unwrap_used)]

use super::super::tests::{Sample, importing, isa, with_data, with_import};
use super::*;
use crate::codegen::queries::workspace_size;
use crate::codegen::target::{Target, TargetOptions};
use crate::object::{Unwind, bytes, read_descriptor, zeros};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::Signature;
use cranelift_codegen::isa::CallConv;
use cranelift_module::ModuleReloc;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, elf};

const MACHINES: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// A library of an input for a machine, called `libtest.so`.
fn library(input: &ObjectInput, triple: &str) -> Vec<u8> {
    let target = TargetOptions { triple: Some(triple.into()), ..TargetOptions::default() };
    let target = Target::levels(&target).unwrap().remove(0);
    let queries: Vec<CompiledFunction> = input
        .descriptors()
        .iter()
        .map(|(_, d)| workspace_size(&workspace_size_symbol(d), d, &target).unwrap())
        .collect();
    write_shared(input, &queries, &*isa(triple, &[]), "libtest.so").unwrap()
}

/// An import, a constant with pointers to data and to the import, and data of the program's own.
fn everything(triple: &str) -> ObjectInput {
    let isa = isa(triple, &[]);
    let mut sample = Sample::new("sum");
    let import = sample.object.import("negate").unwrap();
    let constant = sample.object.datum("constant", false, bytes(64, vec![7; 100])).unwrap();
    let mut table = bytes(8, vec![0; 16]);
    let (data, function) = (table.import_global_value(constant.into()), table.import_function(import.into()));
    table.write_data_addr(0, data, 4);
    table.write_function_addr(8, function);
    sample.object.datum("table", false, table).unwrap();
    sample.object.datum("written", true, bytes(16, vec![1; 20])).unwrap();
    sample.object.datum("zeros", true, zeros(64, 1000)).unwrap();
    importing(sample, &isa, "negate").input()
}

#[test]
fn no_memory_is_written_and_executed_and_nothing_read_only_is_writable_in_the_end() {
    for triple in MACHINES {
        let bytes = library(&everything(triple), triple);
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        let endian = LittleEndian;
        let mut loads = Vec::new();
        let (mut relro, mut stack) = (None, None);
        for header in file.elf_header().program_headers(endian, &*bytes).unwrap() {
            let range = header.p_vaddr(endian)..header.p_vaddr(endian) + header.p_memsz(endian);
            match header.p_type(endian) {
                elf::PT_LOAD => {
                    let page = header.p_align(endian);
                    assert_eq!(header.p_offset(endian) % page, header.p_vaddr(endian) % page, "{triple}");
                    loads.push((header.p_flags(endian), range));
                }
                elf::PT_GNU_RELRO => relro = Some(range),
                elf::PT_GNU_STACK => stack = Some(header.p_flags(endian)),
                _ => {}
            }
        }
        assert_eq!(stack, Some(elf::PF_R | elf::PF_W), "{triple}");
        let flags: Vec<u32> = loads.iter().map(|(flags, _)| *flags).collect();
        let (read, write) = (elf::PF_R, elf::PF_R | elf::PF_W);
        assert_eq!(flags, [read, read | elf::PF_X, write, write], "{triple}");
        // Segments lie apart by whole pages of any size, and what is read-only after relocation ends with a page.
        let page = if triple.starts_with("x86") { 1 << 12 } else { 1 << 16 };
        for pair in loads.windows(2) {
            assert!(pair[0].1.end.div_ceil(page) <= pair[1].1.start / page, "{triple}");
        }
        let relro = relro.unwrap();
        assert_eq!((relro.end % page, &relro), (0, &loads[2].1), "{triple}");
        for section in file.sections() {
            let name = section.name().unwrap().to_owned();
            let wanted = match name.as_str() {
                ".text" => 1,
                ".data.rel.ro" | ".got" | ".dynamic" => 2,
                ".data" | ".bss" => 3,
                _ if section.address() > 0 => 0,
                _ => continue,
            };
            let end = section.address() + section.size();
            let (_, range) = &loads[wanted];
            assert!(range.start <= section.address() && end <= range.end, "{triple} {name}");
            assert_eq!(section.address() % section.align(), 0, "{triple} {name}");
        }
    }
}

#[test]
fn the_only_undefined_symbol_is_the_custom_call_and_only_data_is_relocated() {
    for triple in MACHINES {
        let bytes = library(&everything(triple), triple);
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        let names = |undefined: bool| {
            let symbols = file.dynamic_symbols().filter(|s| s.is_undefined() == undefined);
            let mut names: Vec<String> = symbols.map(|s| s.name().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(true), ["negate"], "{triple}");
        assert_eq!(names(false), ["sum", "sum_descriptor", "sum_signature", "sum_workspace_size"], "{triple}");
        let address = |name: &str| file.symbols().find(|s| s.name() == Ok(name)).unwrap().address();
        let got = file.section_by_name(".got").unwrap().address();
        let relocs: Vec<(u64, u32, i64)> = file
            .dynamic_relocations()
            .unwrap()
            .map(|(offset, r)| {
                let object::RelocationFlags::Elf { r_type } = r.flags() else { panic!("an ELF relocation") };
                (offset, r_type, r.addend())
            })
            .collect();
        let kinds = match triple {
            "x86_64-unknown-linux-gnu" => [elf::R_X86_64_RELATIVE, elf::R_X86_64_64, elf::R_X86_64_GLOB_DAT],
            _ => [elf::R_AARCH64_RELATIVE, elf::R_AARCH64_ABS64, elf::R_AARCH64_GLOB_DAT],
        };
        let table = address("table");
        let expected =
            [(table, kinds[0], address("constant") as i64 + 4), (table + 8, kinds[1], 0), (got, kinds[2], 0)];
        assert_eq!(relocs, expected, "{triple}");
        assert_eq!(read_descriptor(&bytes).unwrap().entry, "sum", "{triple}");
    }
}

/// Instructions, read as the processor's manual says, lead to the slot of the custom call: those that load the function's
/// address, and a plain call by way of a stub.
#[test]
fn references_to_a_custom_call_on_aarch64_lead_to_its_slot() {
    let triple = MACHINES[1];
    let mut input = everything(triple);
    let name = input.import("negate").unwrap().into();
    let relocs = vec![ModuleReloc { offset: 0, kind: Reloc::Arm64Call, name, addend: 0 }];
    let code = [0x9400_0000u32, 0xd65f_03c0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let id = input.function("calls", false, &Signature::new(CallConv::SystemV)).unwrap();
    input
        .define(
            id,
            CompiledFunction {
                alignment: 4,
                code,
                relocs,
                unwind: Unwind::unchanged(),
                lines: Vec::new(),
                text: String::new(),
            },
        )
        .unwrap();
    let bytes = library(&input, triple);
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let words: Vec<u32> =
        text.data().unwrap().as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let got = file.section_by_name(".got").unwrap().address();
    let mut pairs = Vec::new();
    for (i, pair) in words.windows(2).enumerate() {
        let [adrp, load] = pair else { continue };
        if adrp & 0x9f00_0000 != 0x9000_0000 || load & 0xffc0_0000 != 0xf940_0000 {
            continue;
        }
        let place = text.address() + 4 * i as u64;
        let pages = i64::from((((adrp >> 5 & 0x7_ffff) << 2 | (adrp >> 29 & 3)) as i32) << 11 >> 11);
        let page = (place & !0xfff).wrapping_add_signed(pages << 12);
        assert_eq!(page + u64::from(load >> 10 & 0xfff) * 8, got);
        pairs.push(i);
    }
    let stub = words.iter().position(|&word| word == 0xd61f_0220).unwrap() - 2;
    assert!(pairs.len() == 2 && pairs.contains(&stub), "{pairs:?} {stub}");
    let symbol = file.symbols().find(|s| s.name() == Ok("calls")).unwrap();
    let at = (symbol.address() - text.address()) as usize / 4;
    let call = words[at];
    assert_eq!(call >> 26, 0b10_0101);
    assert_eq!(at as i64 + i64::from(((call << 6) as i32) >> 6), stub as i64);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for triple in MACHINES {
        assert!(library(&everything(triple), triple) == library(&everything(triple), triple), "{triple}");
    }
}

#[test]
fn what_is_not_written_is_refused_in_words() {
    for triple in ["x86_64-apple-darwin", "x86_64-pc-windows-msvc", "riscv64gc-unknown-linux-gnu"] {
        let isa = isa(triple, &[]);
        let error = write_shared(&with_data(&isa).input(), &[], &*isa, "libtest.so").unwrap_err();
        assert!(matches!(&error, Error::Unsupported { .. }), "{triple}: {error}");
        assert!(error.to_string().contains("shared libraries"), "{triple}: {error}");
    }
    let isa = isa(MACHINES[0], &[]);
    let error = write_shared(&with_import(&isa, "sum_signature").input(), &[], &*isa, "libtest.so").unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("'sum_signature'"), "{error}");
}
