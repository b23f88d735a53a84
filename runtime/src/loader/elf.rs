//! Reading, laying out and relocating an ELF object.

use super::image::page_size;
use super::perf_map::Function;
use super::relocation::{Machine, Reference};
use crate::LoadError;
use crate::abi::{DescriptorInfo, HASH_OFFSET, host_architecture};
use object::elf as consts;
use object::read::elf::ElfFile64;
use object::{
    Endian as _, Endianness, Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _, RelocationFlags,
    RelocationTarget, SectionFlags, SectionIndex, SymbolIndex, SymbolKind, SymbolSection,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Everything must be in reach of a displacement of 32 bits, or of an `adrp` on aarch64.
const MAX_IMAGE: usize = 1 << 30;
/// More sizes of one program than an object holds.
const MAX_DESCRIPTORS: usize = 1 << 12;
const SLOT_SIZE: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Text,
    Rodata,
    Data,
}

struct Section<'a> {
    index: SectionIndex,
    part: Part,
    /// Empty for zeroed sections.
    data: &'a [u8],
    size: usize,
    align: usize,
    relocs: Vec<Reloc>,
}

struct Reloc {
    offset: u64,
    r_type: u32,
    /// Bytes of the field.
    width: usize,
    symbol: SymbolIndex,
    addend: i64,
}

/// An object that was read and whose relocations are of known types.
pub(super) struct Object<'a> {
    file: ElfFile64<'a>,
    machine: Machine,
    sections: Vec<Section<'a>>,
    /// The section of the unwind table, with room for the zeros at its end.
    unwind_table: Option<SectionIndex>,
}

/// Where everything goes.
pub(super) struct Plan {
    pub(super) text_size: usize,
    pub(super) rodata_size: usize,
    pub(super) data_size: usize,
    /// Offset and size of each section in the image.
    placed: HashMap<SectionIndex, (usize, usize)>,
    /// Offset of each GOT slot.
    slots: HashMap<SymbolIndex, usize>,
    /// Offset of each stub.
    stubs: HashMap<SymbolIndex, usize>,
    /// Addresses of undefined symbols.
    externals: BTreeMap<usize, u64>,
}

fn malformed(what: impl std::fmt::Display) -> LoadError {
    LoadError::Malformed(what.to_string())
}

fn truncated() -> LoadError {
    malformed("an offset points outside")
}

fn align_up(value: usize, align: usize) -> Result<usize, LoadError> {
    value.checked_next_multiple_of(align).filter(|&v| v <= MAX_IMAGE).ok_or_else(|| malformed("it is too large"))
}

impl<'a> Object<'a> {
    /// Reads an object for the machine, that of this process where the program is to run.
    pub(super) fn read(bytes: &'a [u8], machine: Option<Machine>) -> Result<Object<'a>, LoadError> {
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(malformed)?;
        let found = file.architecture();
        let Some(machine) = machine.filter(|machine| machine.architecture() == found) else {
            let found = format!("{found:?}").to_lowercase();
            return Err(LoadError::Machine { expected: host_architecture(), found });
        };
        if file.kind() != ObjectKind::Relocatable {
            return Err(malformed("it is not a relocatable object"));
        }
        let (mut sections, mut unwind_table) = (Vec::new(), None);
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else {
                continue;
            };
            let has = |flag: u32| sh_flags & u64::from(flag) != 0;
            if !has(consts::SHF_ALLOC) {
                continue;
            }
            let name = section.name().map_err(malformed)?;
            if has(consts::SHF_TLS) {
                return Err(LoadError::Unsupported("thread-local data".into()));
            }
            if has(consts::SHF_COMPRESSED) {
                return Err(LoadError::Unsupported("compressed sections".into()));
            }
            let part = match (has(consts::SHF_EXECINSTR), has(consts::SHF_WRITE)) {
                (true, false) => Part::Text,
                (false, false) => Part::Rodata,
                (false, true) if name.starts_with(".data.rel.ro") => Part::Rodata,
                (false, true) => Part::Data,
                (true, true) => return Err(LoadError::Unsupported("code that is writable".into())),
            };
            let align = usize::try_from(section.align().max(1)).map_err(malformed)?;
            if !align.is_power_of_two() || align > page_size() {
                return Err(malformed("a section's alignment is impossible"));
            }
            let data = section.data().map_err(malformed)?;
            let size = usize::try_from(section.size()).ok().filter(|&s| s <= MAX_IMAGE);
            let mut size = size.ok_or_else(|| malformed("it is too large"))?;
            if data.len() > size {
                return Err(malformed("a section is longer than its size"));
            }
            if name == ".eh_frame" && part == Part::Rodata {
                if unwind_table.replace(section.index()).is_some() {
                    return Err(malformed("it has two unwind tables"));
                }
                size += super::unwind::END;
            }
            let mut relocs = Vec::new();
            for (offset, reloc) in section.relocations() {
                let RelocationFlags::Elf { r_type } = reloc.flags() else {
                    return Err(malformed("a relocation has no type"));
                };
                let unknown = || LoadError::Unsupported(format!("relocation type {r_type}"));
                let width = machine.needs(r_type, false).ok_or_else(unknown)?.width;
                if width == 0 {
                    continue;
                }
                let RelocationTarget::Symbol(symbol) = reloc.target() else {
                    return Err(LoadError::Unsupported(format!("relocation type {r_type} without a symbol")));
                };
                relocs.push(Reloc { offset, r_type, width, symbol, addend: reloc.addend() });
            }
            sections.push(Section { index: section.index(), part, data, size, align, relocs });
        }
        Ok(Object { file, machine, sections, unwind_table })
    }

    /// The descriptors in the order of their symbols, and where in the file the hash of each stands.
    pub(super) fn descriptors(&self) -> Result<Vec<(DescriptorInfo, usize)>, LoadError> {
        let mut found: Vec<(DescriptorInfo, usize)> = Vec::new();
        for symbol in self.file.symbols() {
            let SymbolSection::Section(index) = symbol.section() else {
                continue;
            };
            if !symbol.is_global() || !symbol.name_bytes().is_ok_and(|n| n.ends_with(b"_descriptor")) {
                continue;
            }
            let Some(section) = self.sections.iter().find(|s| s.index == index) else {
                continue;
            };
            let start = usize::try_from(symbol.address()).map_err(malformed)?;
            let Some(blob) = section.data.get(start..) else {
                return Err(truncated());
            };
            if !DescriptorInfo::is_at(blob) {
                continue;
            }
            let descriptor = DescriptorInfo::decode(blob)?;
            let file_start = self
                .file
                .section_by_index(index)
                .map_err(malformed)?
                .file_range()
                .and_then(|(at, _)| usize::try_from(at).ok())
                .and_then(|at| at.checked_add(start)?.checked_add(HASH_OFFSET))
                .ok_or_else(truncated)?;
            if found.len() == MAX_DESCRIPTORS || found.iter().any(|(_, start)| *start == file_start) {
                return Err(malformed("it has too many descriptors, or one under two names"));
            }
            found.push((descriptor, file_start));
        }
        if found.is_empty() { Err(LoadError::NoDescriptor) } else { Ok(found) }
    }

    /// Lays the image out and resolves what is undefined.
    pub(super) fn plan(&self, resolve: &dyn Fn(&str) -> Result<u64, LoadError>) -> Result<Plan, LoadError> {
        let mut needs_slot = BTreeSet::new();
        let mut needs_stub = BTreeSet::new();
        let mut externals = BTreeMap::new();
        for reloc in self.sections.iter().flat_map(|s| &s.relocs) {
            let symbol = self.file.symbol_by_index(reloc.symbol).map_err(malformed)?;
            let undefined = symbol.section() == SymbolSection::Undefined;
            if undefined && !externals.contains_key(&reloc.symbol.0) {
                let name = symbol.name().map_err(malformed)?;
                if name.is_empty() {
                    return Err(malformed("a relocation refers to no symbol"));
                }
                externals.insert(reloc.symbol.0, resolve(name)?);
            }
            if let Some(needs) = self.machine.needs(reloc.r_type, undefined) {
                needs_slot.extend(needs.slot.then_some(reloc.symbol.0));
                needs_stub.extend(needs.stub.then_some(reloc.symbol.0));
            }
        }
        let page = page_size();
        let mut placed = HashMap::new();
        let mut at = 0usize;
        let mut place = |part: Part, at: &mut usize| -> Result<(), LoadError> {
            for section in self.sections.iter().filter(|s| s.part == part) {
                *at = align_up(*at, section.align)?;
                placed.insert(section.index, (*at, section.size));
                *at = at.checked_add(section.size).filter(|&v| v <= MAX_IMAGE).ok_or_else(truncated)?;
            }
            Ok(())
        };
        place(Part::Text, &mut at)?;
        let stub_size = self.machine.stub_size();
        let stubs_start = align_up(at, stub_size)?;
        let text_size = align_up(stubs_start.saturating_add(needs_stub.len().saturating_mul(stub_size)), page)?;
        at = text_size;
        place(Part::Rodata, &mut at)?;
        let slots_start = align_up(at, SLOT_SIZE)?;
        let rodata_end = align_up(slots_start.saturating_add(needs_slot.len().saturating_mul(SLOT_SIZE)), page)?;
        at = rodata_end;
        place(Part::Data, &mut at)?;
        let data_end = align_up(at, page)?;
        let number = |set: BTreeSet<usize>, start: usize, size: usize| -> HashMap<SymbolIndex, usize> {
            set.into_iter().enumerate().map(|(i, symbol)| (SymbolIndex(symbol), start + i * size)).collect()
        };
        Ok(Plan {
            text_size,
            rodata_size: rodata_end - text_size,
            data_size: data_end - rodata_end,
            placed,
            slots: number(needs_slot, slots_start, SLOT_SIZE),
            stubs: number(needs_stub, stubs_start, stub_size),
            externals,
        })
    }

    /// Offset of a defined symbol in the image.
    fn offset(&self, plan: &Plan, index: SymbolIndex) -> Result<Option<usize>, LoadError> {
        let symbol = self.file.symbol_by_index(index).map_err(malformed)?;
        let SymbolSection::Section(section) = symbol.section() else {
            return Ok(None);
        };
        let &(start, size) =
            plan.placed.get(&section).ok_or_else(|| malformed("a symbol lies in no loaded section"))?;
        let value = usize::try_from(symbol.address()).ok().filter(|&v| v <= size).ok_or_else(truncated)?;
        Ok(Some(start + value))
    }

    fn address(&self, plan: &Plan, base: u64, index: SymbolIndex) -> Result<u64, LoadError> {
        if let Some(&address) = plan.externals.get(&index.0) {
            return Ok(address);
        }
        if let Some(offset) = self.offset(plan, index)? {
            return Ok(base.wrapping_add(offset as u64));
        }
        let symbol = self.file.symbol_by_index(index).map_err(malformed)?;
        match symbol.section() {
            SymbolSection::Absolute => Ok(symbol.address()),
            _ => Err(LoadError::Unsupported("a symbol without a section".into())),
        }
    }

    fn out_of_range(&self, symbol: SymbolIndex) -> LoadError {
        let name = self.file.symbol_by_index(symbol).ok().and_then(|s| s.name().ok().map(str::to_owned));
        LoadError::OutOfRange(name.unwrap_or_default())
    }

    /// Copies the sections into the image, which will run at `base`, and relocates them.
    pub(super) fn fill(&self, plan: &Plan, base: u64, image: &mut [u8]) -> Result<(), LoadError> {
        for section in &self.sections {
            let &(start, _) = plan.placed.get(&section.index).ok_or_else(truncated)?;
            put(image, start, section.data)?;
        }
        for (&symbol, &slot) in &plan.slots {
            put(image, slot, &self.address(plan, base, symbol)?.to_le_bytes())?;
        }
        let at = |offset: usize| base.wrapping_add(offset as u64);
        for (symbol, &stub) in &plan.stubs {
            let slot = plan.slots.get(symbol).ok_or_else(truncated)?;
            let code = self.machine.stub(at(stub), at(*slot)).ok_or_else(|| self.out_of_range(*symbol))?;
            put(image, stub, &code)?;
        }
        for section in &self.sections {
            let &(start, size) = plan.placed.get(&section.index).ok_or_else(truncated)?;
            for reloc in &section.relocs {
                let inside = usize::try_from(reloc.offset)
                    .ok()
                    .filter(|o| o.checked_add(reloc.width).is_some_and(|end| end <= size))
                    .ok_or_else(|| malformed("a relocation lies outside its section"))?;
                let field = start + inside;
                let reference = Reference {
                    r_type: reloc.r_type,
                    addend: reloc.addend,
                    place: at(field),
                    symbol: self.address(plan, base, reloc.symbol)?,
                    slot: plan.slots.get(&reloc.symbol).map(|&slot| at(slot)),
                    stub: plan.stubs.get(&reloc.symbol).map(|&stub| at(stub)),
                };
                let field = image.get_mut(field..field + reloc.width).ok_or_else(truncated)?;
                self.machine.apply(field, &reference).ok_or_else(|| self.out_of_range(reloc.symbol))?;
            }
        }
        Ok(())
    }

    /// Where the unwind table is in the image, with the zeros at its end.
    pub(super) fn unwind_table(&self, plan: &Plan) -> Option<Range<usize>> {
        let &(start, size) = plan.placed.get(&self.unwind_table?)?;
        Some(start..start + size)
    }

    /// The file, of which `bytes` are the contents, with the addresses that its sections have in an image at `base`.
    pub(super) fn with_addresses(&self, bytes: &[u8], plan: &Plan, base: u64) -> Result<Vec<u8>, LoadError> {
        type Header = consts::SectionHeader64<Endianness>;
        let endian = self.file.endian();
        let mut file = bytes.to_vec();
        let table = usize::try_from(self.file.elf_header().e_shoff.get(endian)).map_err(malformed)?;
        for (&SectionIndex(number), &(start, _)) in &plan.placed {
            let header = number.checked_mul(size_of::<Header>()).and_then(|at| at.checked_add(table));
            let at = header.and_then(|at| at.checked_add(std::mem::offset_of!(Header, sh_addr)));
            let address = endian.write_u64(base.wrapping_add(start as u64));
            put(&mut file, at.ok_or_else(truncated)?, &address)?;
        }
        Ok(file)
    }

    /// The functions, with their places in the image.
    pub(super) fn functions(&self, plan: &Plan) -> Result<Vec<Function>, LoadError> {
        let mut all = Vec::new();
        for symbol in self.file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.is_definition()) {
            if let (Ok(name), Some(offset)) = (symbol.name(), self.offset(plan, symbol.index())?) {
                all.push((name.to_owned(), offset, symbol.size()));
            }
        }
        Ok(all)
    }

    /// Offset of the entry function in the image.
    pub(super) fn entry(&self, plan: &Plan, name: &str) -> Result<usize, LoadError> {
        let symbol = self.file.symbols().find(|s| s.is_global() && s.is_definition() && s.name() == Ok(name));
        let missing = || malformed(format!("the entry function '{name}' is missing"));
        let symbol = symbol.ok_or_else(missing)?;
        self.offset(plan, symbol.index())?.filter(|&offset| offset < plan.text_size).ok_or_else(missing)
    }
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), LoadError> {
    let end = at.checked_add(bytes.len()).ok_or_else(truncated)?;
    image.get_mut(at..end).ok_or_else(truncated)?.copy_from_slice(bytes);
    Ok(())
}
