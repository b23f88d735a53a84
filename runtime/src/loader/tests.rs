//! Images for aarch64 that are made here and not run: the few instructions that relocations change are followed by hand.

#![allow(clippy::unwrap_used)]

use super::elf::Object;
use super::relocation::Machine;
use crate::LoadError;
use object::write::{Object as Writer, Relocation, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, RelocationFlags, SymbolFlags, SymbolKind, SymbolScope, elf};
use std::collections::BTreeMap;

/// Where images lie: the page is none of the first, and higher bits are set.
const BASE: u64 = 0x55_5678_9000;

const ADRP_X0: u32 = 0x9000_0000;
const ADD_X0_X0: u32 = 0x9100_0000;
const LDR_X0_X0: u32 = 0xf940_0000;
const BL: u32 = 0x9400_0000;
const B: u32 = 0x1400_0000;
const RET: u32 = 0xd65f_03c0;
const NOP: u32 = 0xd503_201f;

/// Something that a relocation refers to.
#[derive(Clone, Copy)]
enum Target {
    /// So many bytes into the code.
    Code(u64),
    /// So many bytes into the constants.
    Constant(u64),
    /// A function elsewhere.
    Outside,
}

/// A field in the code, or where `constants` holds in the constants.
struct Field {
    constants: bool,
    offset: u64,
    r_type: u32,
    target: Target,
    addend: i64,
}

fn code(offset: u64, r_type: u32, target: Target, addend: i64) -> Field {
    Field { constants: false, offset, r_type, target, addend }
}

/// An object of code and 64 KiB of constants.
fn object(architecture: Architecture, words: &[u32], fields: &[Field]) -> Vec<u8> {
    let order = if architecture == Architecture::S390x { Endianness::Big } else { Endianness::Little };
    let mut out = Writer::new(BinaryFormat::Elf, architecture, order);
    let (text, constants) = (out.section_id(StandardSection::Text), out.section_id(StandardSection::ReadOnlyData));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    out.append_section_data(text, &bytes, 4);
    out.append_section_data(constants, &[0; 1 << 16], 16);
    let mut symbols = BTreeMap::new();
    for field in fields {
        let (name, section, value) = match field.target {
            Target::Code(at) => (format!("code{at}"), SymbolSection::Section(text), at),
            Target::Constant(at) => (format!("constant{at}"), SymbolSection::Section(constants), at),
            Target::Outside => ("outside".to_owned(), SymbolSection::Undefined, 0),
        };
        let symbol = *symbols.entry(name.clone()).or_insert_with(|| {
            let (kind, scope) = (SymbolKind::Text, SymbolScope::Linkage);
            let name = name.into_bytes();
            out.add_symbol(Symbol { name, value, size: 4, kind, scope, weak: false, section, flags: SymbolFlags::None })
        });
        let section = if field.constants { constants } else { text };
        let flags = RelocationFlags::Elf { r_type: field.r_type };
        out.add_relocation(section, Relocation { offset: field.offset, symbol, addend: field.addend, flags }).unwrap();
    }
    out.write().unwrap()
}

/// An image of an object, with the function elsewhere at an address.
struct Image {
    bytes: Vec<u8>,
    /// Bytes of its code, behind which the constants begin.
    text: u64,
}

fn image(words: &[u32], fields: &[Field], outside: u64) -> Result<Image, LoadError> {
    let bytes = object(Architecture::Aarch64, words, fields);
    let object = Object::read(&bytes, Some(Machine::Aarch64))?;
    let plan = object.plan(&|name| if name == "outside" { Ok(outside) } else { Err(LoadError::NoDescriptor) })?;
    let mut bytes = vec![0; plan.text_size + plan.rodata_size + plan.data_size];
    object.fill(&plan, BASE, &mut bytes)?;
    Ok(Image { bytes, text: plan.text_size as u64 })
}

impl Image {
    fn word(&self, address: u64) -> u32 {
        let at = (address - BASE) as usize;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn double_word(&self, address: u64) -> u64 {
        u64::from(self.word(address)) | u64::from(self.word(address + 4)) << 32
    }

    /// Runs from an address until something leaves the image or returns: where to, and the registers.
    fn follow(&self, start: u64) -> (u64, [u64; 32]) {
        let (mut at, mut x) = (start, [0u64; 32]);
        let signed = |bits: u32, width: u32| i64::from((bits << (32 - width)) as i32 >> (32 - width));
        for _ in 0..16 {
            if !(BASE..BASE + self.bytes.len() as u64).contains(&at) {
                break;
            }
            let word = self.word(at);
            let (to, from) = ((word & 31) as usize, (word >> 5 & 31) as usize);
            match word {
                _ if word & 0x9f00_0000 == 0x9000_0000 => {
                    let pages = signed((word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3, 21);
                    x[to] = (at & !0xfff).wrapping_add_signed(pages << 12);
                }
                _ if word & 0xffc0_0000 == 0x9100_0000 => x[to] = x[from] + u64::from(word >> 10 & 0xfff),
                _ if word & 0xffc0_0000 == 0xf940_0000 => {
                    x[to] = self.double_word(x[from] + 8 * u64::from(word >> 10 & 0xfff));
                }
                _ if word & 0x7c00_0000 == 0x1400_0000 => {
                    at = at.wrapping_add_signed(4 * signed(word & 0x03ff_ffff, 26));
                    continue;
                }
                _ if word & 0xffff_fc1f == 0xd61f_0000 => {
                    at = x[from];
                    continue;
                }
                RET => break,
                NOP => {}
                _ => panic!("{word:#010x} at {at:#x} is no instruction of these tests"),
            }
            at += 4;
        }
        (at, x)
    }
}

#[test]
fn data_is_found_by_page_and_offset_and_through_the_table() {
    // The constants begin on a page of their own, and go beyond it.
    let direct = [(elf::R_AARCH64_ADR_PREL_PG_HI21, 0), (elf::R_AARCH64_ADD_ABS_LO12_NC, 4)];
    for (at, addend) in [(0, 0), (0x7f8, 8), (0x1ff0, 16), (0xfff0, -0x23)] {
        let fields = direct.map(|(r_type, offset)| code(offset, r_type, Target::Constant(at), addend));
        let image = image(&[ADRP_X0, ADD_X0_X0, RET], &fields, 0).unwrap();
        let (_, x) = image.follow(BASE);
        assert_eq!(x[0], (BASE + image.text + at).wrapping_add_signed(addend), "{at} {addend}");
    }
    let indirect = [(elf::R_AARCH64_ADR_GOT_PAGE, 0), (elf::R_AARCH64_LD64_GOT_LO12_NC, 4)];
    for (target, want) in [(Target::Constant(0x1238), None), (Target::Outside, Some(u64::MAX / 3))] {
        let fields = indirect.map(|(r_type, offset)| code(offset, r_type, target, 0));
        let image = image(&[ADRP_X0, LDR_X0_X0, RET], &fields, u64::MAX / 3).unwrap();
        let (_, x) = image.follow(BASE);
        assert_eq!(x[0], want.unwrap_or(BASE + image.text + 0x1238), "whatever the distance");
    }
}

#[test]
fn fields_of_data_hold_addresses_and_distances() {
    let field = |offset, r_type, addend| Field { constants: true, offset, r_type, target: Target::Code(8), addend };
    let fields = [
        field(16, elf::R_AARCH64_ABS64, 5),
        field(32, elf::R_AARCH64_PREL64, -3),
        field(48, elf::R_AARCH64_PREL32, 0),
        field(64, elf::R_AARCH64_NONE, 0),
    ];
    let image = image(&[NOP, NOP, RET], &fields, 0).unwrap();
    let constants = BASE + image.text;
    assert_eq!(image.double_word(constants + 16), BASE + 8 + 5);
    assert_eq!(image.double_word(constants + 32), (BASE + 8).wrapping_sub(constants + 32 + 3));
    assert_eq!(image.word(constants + 48), BASE.wrapping_add(8).wrapping_sub(constants + 48) as u32);
    assert_eq!(image.word(constants + 52), 0, "four bytes and no more");
    assert_eq!(image.word(constants + 64), 0);
}

#[test]
fn calls_go_straight_where_they_reach_and_by_a_veneer_where_they_do_not() {
    for (r_type, instruction) in [(elf::R_AARCH64_CALL26, BL), (elf::R_AARCH64_JUMP26, B)] {
        let inside = image(&[instruction, NOP, NOP, RET], &[code(0, r_type, Target::Code(8), 4)], 0).unwrap();
        assert_eq!(inside.word(BASE), instruction | 3);
        assert_eq!(inside.follow(BASE).0, BASE + 12);
        let back = image(&[RET, NOP, instruction], &[code(8, r_type, Target::Code(0), 0)], 0).unwrap();
        assert_eq!(back.follow(BASE + 8).0, BASE);
        // The call stands 4 bytes into the code.
        for (distance, straight) in [
            (1i64 << 20, true),
            ((1 << 27) - 4, true),
            (1 << 27, false),
            (-(1 << 27), true),
            (-(1 << 27) - 4, false),
            (1 << 40, false),
            // No instruction begins there, but that is not the loader's to say: the veneer goes to any address.
            ((1 << 20) + 2, false),
        ] {
            let outside = (BASE + 4).wrapping_add_signed(distance);
            let image = image(&[NOP, instruction], &[code(4, r_type, Target::Outside, 0)], outside).unwrap();
            assert_eq!(image.follow(BASE).0, outside, "{distance:#x}");
            let way = 4 * i64::from((image.word(BASE + 4) << 6) as i32 >> 6);
            assert_eq!(way == distance, straight, "{distance:#x} by way of {way:#x}");
        }
    }
}

#[test]
fn what_is_out_of_range_or_unknown_is_refused_in_words() {
    let refused = |fields: &[Field], outside: u64| image(&[ADRP_X0, NOP], fields, outside).map(|_| ()).unwrap_err();
    for distance in [1i64 << 32, -(1 << 32) - 0x1000] {
        let page = code(0, elf::R_AARCH64_ADR_PREL_PG_HI21, Target::Outside, 0);
        let error = refused(&[page], BASE.wrapping_add_signed(distance));
        assert_eq!(error.to_string(), "relocation of 'outside' is out of range", "{distance:#x}");
    }
    for distance in [(1i64 << 32) - 0x1000, -(1 << 32)] {
        let page = code(0, elf::R_AARCH64_ADR_PREL_PG_HI21, Target::Outside, 0);
        let outside = BASE.wrapping_add_signed(distance);
        let image = image(&[ADRP_X0, RET], &[page], outside).unwrap();
        assert_eq!(image.follow(BASE).1[0], outside & !0xfff);
    }
    let distance = Field { constants: true, ..code(0, elf::R_AARCH64_PREL32, Target::Outside, 0) };
    assert!(matches!(refused(&[distance], BASE + (1 << 32)), LoadError::OutOfRange(name) if name == "outside"));
    // A load of eight bytes has no room for the last three bits of an address.
    let odd = code(0, elf::R_AARCH64_LD64_GOT_LO12_NC, Target::Constant(0), 4);
    assert!(matches!(refused(&[odd], 0), LoadError::OutOfRange(name) if name == "constant0"));
    let unknown = code(0, elf::R_AARCH64_TLSLE_ADD_TPREL_LO12, Target::Code(0), 0);
    let number = elf::R_AARCH64_TLSLE_ADD_TPREL_LO12;
    assert_eq!(
        refused(&[unknown], 0).to_string(),
        LoadError::Unsupported(format!("relocation type {number}")).to_string()
    );
    let beyond = code(6, elf::R_AARCH64_CALL26, Target::Code(0), 0);
    assert!(matches!(refused(&[beyond], 0), LoadError::Malformed(what) if what.contains("outside its section")));
}

#[test]
fn objects_of_other_machines_are_refused() {
    for (architecture, machine) in [
        (Architecture::X86_64, Some(Machine::Aarch64)),
        (Architecture::Aarch64, Some(Machine::X86_64)),
        (Architecture::Aarch64, None),
        (Architecture::S390x, Some(Machine::Aarch64)),
    ] {
        let bytes = object(architecture, &[RET], &[]);
        let found = Object::read(&bytes, machine).map(|_| ()).unwrap_err();
        let name = format!("{architecture:?}").to_lowercase();
        assert!(matches!(&found, LoadError::Machine { found, .. } if *found == name), "{found}");
    }
}
