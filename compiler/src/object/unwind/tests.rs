//! The table of a whole program, read back: each function once, and for what is written instruction by instruction the
//! frame at every instruction, against the stack pointer followed through the decoded code.

#![allow(clippy::unwrap_used)]

use crate::codegen::target::TargetOptions;
use crate::{CompileOptions, compile, text};
use gimli::{BaseAddresses, CfaRule, EhFrame, LittleEndian, RegisterRule, UnwindContext, UnwindSection, X86_64};
use iced_x86::{Code, Decoder, DecoderOptions, Register};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;

/// Wide rows, a contraction's tile and tasks, at two levels.
const PROGRAM: &str = "HloModule unwound
ENTRY main {
  x = f32[64,64] parameter(0)
  w = f32[64,64] parameter(1)
  y = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[64,64] exponential(x)
  s = f32[64,64] sine(e)
  ROOT t = (f32[64,64], f32[64,64]) tuple(y, s)
}";

/// Where the sections are taken to lie.
const TEXT: u64 = 0x1000;
const TABLE: u64 = 0x1000_0000;

struct Read {
    /// Functions by address: name and bytes.
    functions: BTreeMap<u64, (String, Vec<u8>)>,
    /// The table, its distances filled in.
    table: Vec<u8>,
}

fn read(bytes: &[u8]) -> Read {
    let file = object::File::parse(bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let code = text.data().unwrap();
    let mut functions = BTreeMap::new();
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.is_definition()) {
        let start = symbol.address() as usize;
        let body = code[start..start + symbol.size() as usize].to_vec();
        functions.insert(TEXT + symbol.address(), (symbol.name().unwrap().to_owned(), body));
    }
    let section = file.section_by_name(".eh_frame").unwrap();
    let mut table = section.data().unwrap().to_vec();
    for (offset, relocation) in section.relocations() {
        let object::RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("a symbol") };
        let symbol = file.symbol_by_index(symbol).unwrap();
        assert_eq!(symbol.section_index(), Some(text.index()));
        let target = (TEXT + symbol.address()).wrapping_add_signed(relocation.addend());
        let distance = i32::try_from(target as i64 - (TABLE + offset) as i64).unwrap();
        table[offset as usize..][..4].copy_from_slice(&distance.to_le_bytes());
    }
    Read { functions, table }
}

fn compiled(triple: &str, cpu: Option<&str>) -> Read {
    let target = TargetOptions { triple: Some(triple.into()), cpu: cpu.map(str::to_owned), ..TargetOptions::default() };
    let options = CompileOptions { target, wide_work: Some(0), ..CompileOptions::default() };
    read(&compile(&text::parse(PROGRAM).unwrap(), &options).unwrap().object)
}

#[test]
fn each_function_has_one_entry() {
    for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let Read { functions, table } = compiled(triple, None);
        let section = EhFrame::new(&table, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(TABLE);
        let mut entries = section.entries(&bases);
        let mut found = Vec::new();
        while let Some(entry) = entries.next().unwrap() {
            if let gimli::CieOrFde::Fde(entry) = entry {
                let entry = entry.parse(|section, bases, at| section.cie_from_offset(bases, at)).unwrap();
                found.push((entry.initial_address(), entry.len()));
            }
        }
        found.sort_unstable();
        let want: Vec<(u64, u64)> = functions.iter().map(|(at, (_, body))| (*at, body.len() as u64)).collect();
        assert!(want.len() >= 4, "{triple}: {want:?}");
        assert_eq!(found, want, "{triple}");
    }
}

/// The rules at every instruction of functions that the assembler made.
#[test]
fn the_frame_is_known_at_every_instruction() {
    ["x86-64-v3", "x86-64-v4"].into_iter().for_each(frames);
}

fn frames(level: &str) {
    let Read { functions, table } = compiled("x86_64-unknown-linux-gnu", Some(level));
    let mut section = EhFrame::new(&table, LittleEndian);
    section.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(TABLE);
    let (mut rows, mut tiles) = (0, 0);
    for (&start, (name, body)) in &functions {
        let (row, tile) = (name.contains(".row"), name.contains(".tile."));
        if !row && !tile {
            continue;
        }
        (rows, tiles) = (rows + usize::from(row), tiles + usize::from(tile));
        let fde = |at| section.fde_for_address(&bases, at, |section, bases, o| section.cie_from_offset(bases, o));
        let fde = fde(start).unwrap();
        let (mut depth, mut saved) = (0i64, Vec::<(Register, i64)>::new());
        let mut fullest = (depth, saved.clone());
        let mut returned = false;
        let mut decoder = Decoder::with_ip(64, body, start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.code() == Code::INVALID || instruction.code() == Code::Int3 {
                break;
            }
            let mut context = UnwindContext::new();
            let rules = fde.unwind_info_for_address(&section, &bases, &mut context, instruction.ip()).unwrap();
            let at = format!("{name}+{:#x}", instruction.ip() - start);
            assert_eq!(rules.cfa(), &CfaRule::RegisterAndOffset { register: X86_64::RSP, offset: 8 + depth }, "{at}");
            for (register, depth) in &saved {
                let Some(RegisterRule::Offset(found)) = rules.register(number(*register)) else {
                    panic!("{at} {register:?} was saved");
                };
                assert_eq!(found, -(8 + depth), "{at} {register:?}");
            }
            match instruction.code() {
                Code::Push_r64 => {
                    depth += 8;
                    saved.push((instruction.op0_register(), depth));
                }
                Code::Pop_r64 => {
                    depth -= 8;
                    saved.pop();
                }
                Code::Sub_rm64_imm32 if instruction.op0_register() == Register::RSP => {
                    depth += instruction.immediate(1) as i64;
                }
                Code::Add_rm64_imm32 if instruction.op0_register() == Register::RSP => {
                    depth -= instruction.immediate(1) as i64;
                }
                // Behind a row lie its constants; behind a tile the subroutines that it calls where its frame is full.
                Code::Retnq if row => break,
                Code::Retnq => (depth, saved) = (fullest.0 + 8, fullest.1.clone()),
                _ => continue,
            }
            returned |= instruction.code() == Code::Retnq;
            if depth > fullest.0 && !returned {
                fullest = (depth, saved.clone());
            }
        }
    }
    assert!(rows > 0 && tiles > 0, "{rows} rows and {tiles} tiles");
}

fn number(register: Register) -> gimli::Register {
    match register {
        Register::RBX => X86_64::RBX,
        Register::RBP => X86_64::RBP,
        Register::R12 => X86_64::R12,
        Register::R13 => X86_64::R13,
        Register::R14 => X86_64::R14,
        Register::R15 => X86_64::R15,
        other => panic!("{other:?} belongs to the callee"),
    }
}
