//! The ELF file: where each part lies, the dynamic linker's tables, the headers.
//!
//! Four segments are loaded, each of one protection: headers, tables, constants and the unwind table | code | what is read-only after
//! relocation | data and zeros. Each begins on a page of its own in memory. In the file they begin at multiples of
//! [`FILE_ALIGN`]; where pages are larger than that, the addresses go ahead of the offsets, congruent modulo the page.

use super::Machine;
use super::image::{Image, Part, Referent, SLOT, Symbol};
use super::patch::Addresses;
use crate::{Error, Result};
use object::Endianness;
use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, ProgramHeader, Rel, SectionHeader, SectionIndex, Sym, Writer};

/// Where segments begin in the file.
const FILE_ALIGN: u64 = 4096;
/// Alignment of the symbol table's and the relocations' words.
const WORD: u64 = 8;
/// Which bits of a hash the filter of the symbol hash takes second.
const BLOOM_SHIFT: u32 = 6;

/// What differs between the machines.
struct Numbers {
    machine: u16,
    /// The largest page that a system of this machine has.
    page: u64,
    relative: u32,
    absolute: u32,
    global_data: u32,
}

impl Machine {
    fn numbers(self) -> Numbers {
        match self {
            Machine::X86_64 => Numbers {
                machine: elf::EM_X86_64,
                page: 1 << 12,
                relative: elf::R_X86_64_RELATIVE,
                absolute: elf::R_X86_64_64,
                global_data: elf::R_X86_64_GLOB_DAT,
            },
            Machine::Aarch64 => Numbers {
                machine: elf::EM_AARCH64,
                page: 1 << 16,
                relative: elf::R_AARCH64_RELATIVE,
                absolute: elf::R_AARCH64_ABS64,
                global_data: elf::R_AARCH64_GLOB_DAT,
            },
        }
    }
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::Internal(format!("the library cannot be written: {e}"))
}

/// A range of the file that is loaded.
#[derive(Clone, Copy, Default)]
struct Segment {
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
}

impl Segment {
    fn address_of(&self, offset: u64) -> u64 {
        self.address + (offset - self.offset)
    }

    fn header(&self, p_type: u32, p_flags: u32, p_align: u64) -> ProgramHeader {
        ProgramHeader {
            p_type,
            p_flags,
            p_offset: self.offset,
            p_vaddr: self.address,
            p_paddr: self.address,
            p_filesz: self.file_size,
            p_memsz: self.memory_size,
            p_align,
        }
    }

    /// The segment behind this one, which begins at `offset`.
    fn next(&self, offset: u64, page: u64) -> Segment {
        let address = (self.address + self.memory_size).next_multiple_of(page) + offset % page;
        Segment { offset, address, ..Segment::default() }
    }

    fn end_at(&mut self, offset: u64) {
        self.file_size = offset - self.offset;
        self.memory_size = self.file_size;
    }
}

/// Where the parts and tables lie in the file.
#[derive(Default)]
struct Offsets {
    parts: [u64; Part::COUNT],
    relocations: u64,
    dynamic: u64,
}

/// The sections of the parts.
struct Sections {
    names: [Option<StringId>; Part::COUNT],
    indices: [SectionIndex; Part::COUNT],
    relocations: Option<StringId>,
}

const PARTS: [(Part, &[u8]); Part::COUNT] = [
    (Part::Rodata, b".rodata"),
    (Part::UnwindIndex, b".eh_frame_hdr"),
    (Part::Unwind, b".eh_frame"),
    (Part::Text, b".text"),
    (Part::Relro, b".data.rel.ro"),
    (Part::Got, b".got"),
    (Part::Data, b".data"),
    (Part::Bss, b".bss"),
];

/// The exported symbols in the order of the symbol hash.
struct Exports<'a> {
    symbols: Vec<(u32, &'a Symbol)>,
    buckets: u32,
    blooms: u32,
}

impl<'a> Exports<'a> {
    fn new(image: &'a Image<'_>) -> Exports<'a> {
        let named = image.symbols.iter().filter(|s| s.exported);
        let mut symbols: Vec<(u32, &Symbol)> = named.map(|s| (elf::gnu_hash(s.name.as_bytes()), s)).collect();
        let buckets = (symbols.len() as u32).div_ceil(2).max(1);
        let blooms = (symbols.len() as u32).div_ceil(8).next_power_of_two();
        symbols.sort_by_key(|(hash, _)| hash % buckets);
        Exports { symbols, buckets, blooms }
    }
}

/// One relocation of the data.
struct Dynamic {
    address: u64,
    kind: u32,
    /// Number of the import, where it is one.
    import: Option<usize>,
    addend: i64,
}

/// Those relative to the library come first, each kind by address.
fn relocations(addresses: &Addresses<'_>, numbers: &Numbers) -> Vec<Dynamic> {
    let image = addresses.image;
    let to = |address: u64, referent: Referent, addend: i64, kind: u32| match referent {
        Referent::Import(i) => Dynamic { address, kind, import: Some(i), addend },
        Referent::Symbol(_) => {
            let addend = (addresses.referent(referent) as i64).wrapping_add(addend);
            Dynamic { address, kind: numbers.relative, import: None, addend }
        }
    };
    let pointers = image.pointers.iter();
    let mut all: Vec<Dynamic> =
        pointers.map(|p| to(addresses.place(p.place), p.referent, p.addend, numbers.absolute)).collect();
    for (&referent, &slot) in &image.slots {
        let address = addresses.parts[Part::Got as usize] + slot;
        all.push(to(address, referent, 0, numbers.global_data));
    }
    all.sort_by_key(|d| (d.import.is_some(), d.address));
    all
}

/// The whole file.
pub(super) fn write(image: &Image<'_>, soname: &str) -> Result<Vec<u8>> {
    let numbers = image.machine.numbers();
    let exports = Exports::new(image);
    let reloc_count = image.pointers.len() + image.slots.len();
    let has_data = image.part(Part::Data).size + image.part(Part::Bss).size > 0;
    let mut out = Vec::new();
    let mut w = Writer::new(Endianness::Little, true, &mut out);

    let null = w.reserve_null_section_index();
    debug_assert_eq!(null.0, 0);
    w.reserve_gnu_hash_section_index();
    w.reserve_dynsym_section_index();
    w.reserve_dynstr_section_index();
    let mut sections =
        Sections { names: [None; Part::COUNT], indices: [SectionIndex(0); Part::COUNT], relocations: None };
    if reloc_count > 0 {
        sections.relocations = Some(w.add_section_name(b".rela.dyn"));
        w.reserve_section_index();
    }
    for (part, name) in PARTS {
        if image.part(part).size > 0 {
            sections.names[part as usize] = Some(w.add_section_name(name));
            sections.indices[part as usize] = w.reserve_section_index();
        }
    }
    w.reserve_dynamic_section_index();
    w.reserve_symtab_section_index();
    w.reserve_strtab_section_index();
    w.reserve_shstrtab_section_index();

    let soname_id = w.add_dynamic_string(soname.as_bytes());
    let import_names: Vec<StringId> = image.imports.iter().map(|name| w.add_dynamic_string(name.as_bytes())).collect();
    let export_names: Vec<StringId> =
        exports.symbols.iter().map(|(_, s)| w.add_dynamic_string(s.name.as_bytes())).collect();
    for _ in 0..image.imports.len() + exports.symbols.len() {
        w.reserve_dynamic_symbol_index();
    }
    // Symbols of this library alone come first.
    let mut symbols: Vec<(&Symbol, StringId)> = Vec::with_capacity(image.symbols.len());
    for exported in [false, true] {
        for symbol in image.symbols.iter().filter(|s| s.exported == exported) {
            symbols.push((symbol, w.add_string(symbol.name.as_bytes())));
            w.reserve_symbol_index(Some(sections.indices[symbol.place.part as usize]));
        }
    }

    // Everything gets its place.
    let mut offsets = Offsets::default();
    let segments = if has_data { 4 } else { 3 };
    w.reserve_file_header();
    w.reserve_program_headers(segments + 4);
    let export_count = exports.symbols.len() as u32;
    let gnu_hash = w.reserve_gnu_hash(exports.blooms, exports.buckets, export_count) as u64;
    let dynsym = w.reserve_dynsym() as u64;
    let dynstr = w.reserve_dynstr() as u64;
    if reloc_count > 0 {
        offsets.relocations = w.reserve_relocations(reloc_count, true) as u64;
    }
    let place = |w: &mut Writer<'_>, part: Part, align: u64| {
        let contents = image.part(part);
        w.reserve(contents.bytes.len(), contents.align.max(align).max(1) as usize) as u64
    };
    for part in [Part::Rodata, Part::UnwindIndex, Part::Unwind] {
        offsets.parts[part as usize] = place(&mut w, part, 1);
    }
    let mut head = Segment::default();
    head.end_at(w.reserved_len() as u64);

    offsets.parts[Part::Text as usize] = place(&mut w, Part::Text, FILE_ALIGN);
    let mut text = head.next(offsets.parts[Part::Text as usize], numbers.page);
    text.end_at(w.reserved_len() as u64);

    offsets.parts[Part::Relro as usize] = place(&mut w, Part::Relro, FILE_ALIGN);
    let mut relro = text.next(offsets.parts[Part::Relro as usize], numbers.page);
    let entries = if reloc_count > 0 { 12 } else { 8 };
    offsets.dynamic = w.reserve_dynamic(entries) as u64;
    offsets.parts[Part::Got as usize] = place(&mut w, Part::Got, SLOT);
    relro.end_at(w.reserved_len() as u64);
    // Protection changes on whole pages: this segment has them to itself.
    relro.memory_size = (relro.address + relro.memory_size).next_multiple_of(numbers.page) - relro.address;

    let mut data = Segment::default();
    if has_data {
        offsets.parts[Part::Data as usize] = place(&mut w, Part::Data, FILE_ALIGN);
        data = relro.next(offsets.parts[Part::Data as usize], numbers.page);
        data.end_at(w.reserved_len() as u64);
        let zeros = image.part(Part::Bss);
        let start = (data.address + data.file_size).next_multiple_of(zeros.align.max(1));
        data.memory_size = start + zeros.size - data.address;
        // Zeros have an address and no place in the file.
        offsets.parts[Part::Bss as usize] = data.offset + (start - data.address);
    }
    w.reserve_symtab();
    w.reserve_strtab();
    w.reserve_shstrtab();
    w.reserve_section_headers();

    let segment_of = |part: Part| match part {
        Part::Rodata | Part::UnwindIndex | Part::Unwind => &head,
        Part::Text => &text,
        Part::Relro | Part::Got => &relro,
        Part::Data | Part::Bss => &data,
    };
    let mut parts = [0; Part::COUNT];
    for (part, _) in PARTS {
        if image.part(part).size > 0 {
            parts[part as usize] = segment_of(part).address_of(offsets.parts[part as usize]);
        }
    }
    let addresses = Addresses { image, parts };
    let relocations = relocations(&addresses, &numbers);

    // Headers.
    w.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_DYN,
        e_machine: numbers.machine,
        e_entry: 0,
        e_flags: 0,
    })
    .map_err(failed)?;
    let (read, write) = (elf::PF_R, elf::PF_R | elf::PF_W);
    w.write_align_program_headers();
    w.write_program_header(&head.header(elf::PT_LOAD, read, numbers.page));
    w.write_program_header(&text.header(elf::PT_LOAD, read | elf::PF_X, numbers.page));
    w.write_program_header(&relro.header(elf::PT_LOAD, write, numbers.page));
    if has_data {
        w.write_program_header(&data.header(elf::PT_LOAD, write, numbers.page));
    }
    let dynamic_size = 16 * entries as u64;
    let dynamic = Segment {
        offset: offsets.dynamic,
        address: relro.address_of(offsets.dynamic),
        file_size: dynamic_size,
        memory_size: dynamic_size,
    };
    w.write_program_header(&dynamic.header(elf::PT_DYNAMIC, write, WORD));
    w.write_program_header(&relro.header(elf::PT_GNU_RELRO, read, 1));
    let index = image.part(Part::UnwindIndex);
    let index = Segment {
        offset: offsets.parts[Part::UnwindIndex as usize],
        address: parts[Part::UnwindIndex as usize],
        file_size: index.size,
        memory_size: index.size,
    };
    w.write_program_header(&index.header(elf::PT_GNU_EH_FRAME, read, 4));
    w.write_program_header(&Segment::default().header(elf::PT_GNU_STACK, write, 16));

    // Tables.
    let base = 1 + image.imports.len() as u32;
    let hash = |i: u32| exports.symbols.get(i as usize).map_or(0, |(hash, _)| *hash);
    w.write_gnu_hash(base, BLOOM_SHIFT, exports.blooms, exports.buckets, export_count, hash);
    w.write_null_dynamic_symbol();
    for &name in &import_names {
        w.write_dynamic_symbol(&Sym {
            name: Some(name),
            section: None,
            st_info: elf::STB_GLOBAL << 4 | elf::STT_NOTYPE,
            st_other: elf::STV_DEFAULT,
            st_shndx: elf::SHN_UNDEF,
            st_value: 0,
            st_size: 0,
        });
    }
    for ((_, symbol), &name) in exports.symbols.iter().zip(&export_names) {
        w.write_dynamic_symbol(&defined(symbol, name, &addresses, &sections));
    }
    w.write_dynstr();
    if reloc_count > 0 {
        w.write_align_relocation();
        for d in &relocations {
            let r_sym = d.import.map_or(0, |i| 1 + i as u32);
            w.write_relocation(true, &Rel { r_offset: d.address, r_sym, r_type: d.kind, r_addend: d.addend });
        }
    }

    // Contents.
    let contents = |w: &mut Writer<'_>, part: Part, bytes: &[u8]| {
        w.pad_until(offsets.parts[part as usize] as usize);
        w.write(bytes);
    };
    contents(&mut w, Part::Rodata, &image.part(Part::Rodata).bytes);
    let (table, index) = addresses.unwind()?;
    contents(&mut w, Part::UnwindIndex, &index);
    contents(&mut w, Part::Unwind, &table);
    contents(&mut w, Part::Text, &addresses.text()?);
    contents(&mut w, Part::Relro, &image.part(Part::Relro).bytes);
    w.write_align_dynamic();
    w.write_dynamic_string(elf::DT_SONAME, soname_id).map_err(failed)?;
    let strings = w.dynstr_len() as u64;
    let mut tags = vec![
        (elf::DT_GNU_HASH, head.address_of(gnu_hash)),
        (elf::DT_STRTAB, head.address_of(dynstr)),
        (elf::DT_SYMTAB, head.address_of(dynsym)),
        (elf::DT_STRSZ, strings),
        (elf::DT_SYMENT, 24),
    ];
    if reloc_count > 0 {
        let relative = relocations.iter().filter(|d| d.import.is_none()).count() as u64;
        tags.extend([
            (elf::DT_RELA, head.address_of(offsets.relocations)),
            (elf::DT_RELASZ, 24 * reloc_count as u64),
            (elf::DT_RELAENT, 24),
            (elf::DT_RELACOUNT, relative),
        ]);
    }
    tags.extend([(elf::DT_FLAGS, u64::from(elf::DF_BIND_NOW)), (elf::DT_NULL, 0)]);
    if tags.len() + 1 != entries {
        return Err(failed("the dynamic table has another length"));
    }
    for (tag, value) in tags {
        w.write_dynamic(tag, value).map_err(failed)?;
    }
    contents(&mut w, Part::Got, &image.part(Part::Got).bytes);
    if has_data {
        contents(&mut w, Part::Data, &image.part(Part::Data).bytes);
    }

    // Symbols and sections, for debuggers and profilers: nothing at run time reads them.
    w.write_null_symbol();
    for &(symbol, name) in &symbols {
        w.write_symbol(&defined(symbol, name, &addresses, &sections));
    }
    w.write_strtab();
    w.write_shstrtab();
    w.write_null_section_header();
    w.write_gnu_hash_section_header(head.address_of(gnu_hash));
    w.write_dynsym_section_header(head.address_of(dynsym), 1);
    w.write_dynstr_section_header(head.address_of(dynstr));
    if reloc_count > 0 {
        let sh_link = w.dynsym_index().0;
        w.write_section_header(&SectionHeader {
            name: sections.relocations,
            sh_type: elf::SHT_RELA,
            sh_flags: u64::from(elf::SHF_ALLOC),
            sh_addr: head.address_of(offsets.relocations),
            sh_offset: offsets.relocations,
            sh_size: 24 * reloc_count as u64,
            sh_link,
            sh_info: 0,
            sh_addralign: WORD,
            sh_entsize: 24,
        });
    }
    for (part, _) in PARTS {
        let contents = image.part(part);
        if contents.size == 0 {
            continue;
        }
        let access = match part {
            Part::Rodata | Part::UnwindIndex | Part::Unwind => 0,
            Part::Text => elf::SHF_EXECINSTR,
            Part::Relro | Part::Got | Part::Data | Part::Bss => elf::SHF_WRITE,
        };
        w.write_section_header(&SectionHeader {
            name: sections.names[part as usize],
            sh_type: if part == Part::Bss { elf::SHT_NOBITS } else { elf::SHT_PROGBITS },
            sh_flags: u64::from(elf::SHF_ALLOC | access),
            sh_addr: addresses.parts[part as usize],
            sh_offset: offsets.parts[part as usize],
            sh_size: contents.size,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: contents.align.max(1),
            sh_entsize: if part == Part::Got { SLOT } else { 0 },
        });
    }
    w.write_dynamic_section_header(dynamic.address);
    let local = symbols.iter().filter(|(s, _)| !s.exported).count() as u32;
    w.write_symtab_section_header(1 + local);
    w.write_strtab_section_header();
    w.write_shstrtab_section_header();
    Ok(out)
}

/// A symbol table's entry for a symbol of the library.
fn defined(symbol: &Symbol, name: StringId, addresses: &Addresses<'_>, sections: &Sections) -> Sym {
    let binding = if symbol.exported { elf::STB_GLOBAL } else { elf::STB_LOCAL };
    let kind = if symbol.function { elf::STT_FUNC } else { elf::STT_OBJECT };
    Sym {
        name: Some(name),
        section: Some(sections.indices[symbol.place.part as usize]),
        st_info: binding << 4 | kind,
        st_other: elf::STV_DEFAULT,
        st_shndx: 0,
        st_value: addresses.place(symbol.place),
        st_size: symbol.size,
    }
}
