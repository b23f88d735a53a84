//! What a library holds, in parts of one protection each, before it has addresses.

use super::super::write::{architecture, relaxed, size};
use super::super::{CompiledFunction, ObjectInput, Referent as Target, unwind};
use super::signature::signature;
use super::{Machine, signature_symbol, unsupported, workspace_size_symbol};
use crate::{Error, Result};
use brolga_runtime::abi::DescriptorInfo;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::SecondaryMap;
use cranelift_module::{DataId, FuncId, Init, Linkage, ModuleReloc};
use std::collections::BTreeMap;

/// Bytes of a slot of the global offset table.
pub(super) const SLOT: u64 = 8;
/// Bytes of the unwind table's index before its entries.
pub(super) const INDEX_HEADER: usize = 12;
/// `jmp *slot(%rip)`.
const X86_STUB: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
/// `adrp x16, slot`, `ldr x17, [x16, slot]`, `br x17`: the registers that a call may lose on its way.
const AARCH64_STUB: [u8; 12] = [0x10, 0x00, 0x00, 0x90, 0x11, 0x02, 0x40, 0xf9, 0x20, 0x02, 0x1f, 0xd6];

/// Memory of one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Constants without pointers.
    Rodata,
    /// The table by which the unwind table is searched.
    UnwindIndex,
    /// The unwind table.
    Unwind,
    /// Code, and behind it the stubs.
    Text,
    /// Constants with pointers: read-only once these are filled in.
    Relro,
    /// The global offset table, read-only likewise.
    Got,
    /// Data that the program writes to.
    Data,
    /// Zeros that the program writes to.
    Bss,
}

impl Part {
    pub(super) const COUNT: usize = 8;
}

/// A place in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) part: Part,
    pub(super) offset: u64,
}

/// A name and what it stands for.
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) size: u64,
    pub(super) function: bool,
    pub(super) exported: bool,
}

/// What a reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Referent {
    /// A symbol of the library.
    Symbol(usize),
    /// An undefined symbol.
    Import(usize),
}

/// A reference in the code, still to be filled in.
pub(super) struct CodeReference {
    /// In the text.
    pub(super) offset: u64,
    pub(super) kind: Reloc,
    pub(super) referent: Referent,
    pub(super) addend: i64,
}

/// A pointer in the data, which the dynamic linker fills in.
pub(super) struct Pointer {
    pub(super) place: Place,
    pub(super) referent: Referent,
    pub(super) addend: i64,
}

/// Bytes of one part.
#[derive(Default)]
pub(super) struct Contents {
    /// Empty for zeros.
    pub(super) bytes: Vec<u8>,
    pub(super) size: u64,
    pub(super) align: u64,
}

impl Contents {
    fn reserve(&mut self, size: u64, align: u64) -> u64 {
        self.align = self.align.max(align);
        let start = self.size.next_multiple_of(align.max(1));
        self.size = start + size;
        start
    }

    fn append(&mut self, bytes: &[u8], align: u64, filling: u8) -> u64 {
        let start = self.reserve(bytes.len() as u64, align);
        self.bytes.resize(start as usize, filling);
        self.bytes.extend_from_slice(bytes);
        start
    }
}

/// A library without addresses.
pub(super) struct Image<'a> {
    pub(super) machine: Machine,
    pub(super) parts: [Contents; Part::COUNT],
    pub(super) symbols: Vec<Symbol>,
    pub(super) imports: Vec<&'a str>,
    pub(super) code: Vec<CodeReference>,
    pub(super) pointers: Vec<Pointer>,
    /// Which slot of the global offset table holds the address of what.
    pub(super) slots: BTreeMap<Referent, u64>,
    /// Where in the text the stub of an import is.
    pub(super) stubs: BTreeMap<usize, u64>,
    /// Where in the unwind table the distance to which symbol stands.
    pub(super) unwound: Vec<(u64, usize)>,
}

/// What an input's functions and data are in a library.
#[derive(Default)]
struct Referents {
    functions: SecondaryMap<FuncId, Option<Referent>>,
    data: SecondaryMap<DataId, Option<Referent>>,
}

impl Referents {
    /// Descriptors come first, so that their bytes are the first of their kind in the file; then functions, then data.
    fn of(input: &ObjectInput) -> Referents {
        let mut all = Referents::default();
        let (mut symbols, mut imports) = ((0..).map(Referent::Symbol), (0..).map(Referent::Import));
        for (id, _) in input.descriptors() {
            all.data[*id] = symbols.next();
        }
        for (id, function) in input.functions() {
            all.functions[id] = if function.linkage == Linkage::Import { imports.next() } else { symbols.next() };
        }
        for (id, _) in input.data() {
            all.data[id] = all.data[id].or_else(|| symbols.next());
        }
        all
    }

    /// What a relocation leads to, and how far into it; `own` is the symbol in which it stands.
    fn referent(&self, reloc: &ModuleReloc, own: usize) -> Result<(Referent, i64)> {
        let found = match Target::of(&reloc.name) {
            Some(Target::Function(id)) => self.functions[id].map(|referent| (referent, 0)),
            Some(Target::Data(id)) => self.data[id].map(|referent| (referent, 0)),
            Some(Target::Here(offset)) => Some((Referent::Symbol(own), i64::from(offset))),
            None => None,
        };
        found.ok_or_else(|| Error::Internal(format!("a relocation refers to {}", reloc.name)))
    }
}

fn internal<T>(message: String) -> Result<T> {
    Err(Error::Internal(message))
}

impl<'a> Image<'a> {
    pub(super) fn new(
        input: &'a ObjectInput,
        queries: &[CompiledFunction],
        descriptors: &[(DescriptorInfo, Vec<u8>)],
        isa: &dyn TargetIsa,
        machine: Machine,
    ) -> Result<Image<'a>> {
        let imports = input.functions().filter(|(_, f)| f.linkage == Linkage::Import);
        let mut image = Image {
            machine,
            parts: Default::default(),
            symbols: Vec::new(),
            imports: imports.filter_map(|(_, f)| f.name.as_deref()).collect(),
            code: Vec::new(),
            pointers: Vec::new(),
            slots: BTreeMap::new(),
            stubs: BTreeMap::new(),
            unwound: Vec::new(),
        };
        let referents = Referents::of(input);
        for (descriptor, blob) in descriptors {
            image.constant(descriptor.descriptor_symbol(), blob, 8, true);
        }
        let align = u64::from(isa.function_alignment().preferred);
        let architecture = architecture(isa)?;
        for (id, declaration) in input.functions() {
            let Some(function) = input.code(id) else { continue };
            let function = relaxed(input, architecture, function);
            let exported = declaration.linkage == Linkage::Export;
            image.function(&declaration.linkage_name(id), &function, align, &referents, exported)?;
        }
        for (id, declaration) in input.data() {
            let Some(data) = input.contents(id) else { continue };
            let number = image.symbols.len();
            let relocs: Vec<ModuleReloc> = data.all_relocs(Reloc::Abs8).collect();
            let (part, bytes) = match (&data.init, declaration.writable, relocs.is_empty()) {
                (Init::Uninitialized | Init::Zeros { .. }, ..) => (Part::Bss, &[][..]),
                (Init::Bytes { contents }, true, _) => (Part::Data, &**contents),
                (Init::Bytes { contents }, false, true) => (Part::Rodata, &**contents),
                (Init::Bytes { contents }, false, false) => (Part::Relro, &**contents),
            };
            let (size, alignment) = (size(data) as u64, data.align.unwrap_or(1));
            let contents = image.part_mut(part);
            let offset = match part {
                Part::Bss => contents.reserve(size, alignment),
                _ => contents.append(bytes, alignment, 0),
            };
            for reloc in relocs {
                let (referent, within) = referents.referent(&reloc, number)?;
                let place = Place { part, offset: offset + u64::from(reloc.offset) };
                image.pointers.push(Pointer { place, referent, addend: reloc.addend.wrapping_add(within) });
            }
            let (name, place) = (declaration.linkage_name(id).into_owned(), Place { part, offset });
            image.symbols.push(Symbol { name, place, size, function: false, exported: false });
        }
        let mut query_symbols = Vec::new();
        for ((descriptor, _), query) in descriptors.iter().zip(queries) {
            query_symbols.push(image.symbols.len());
            image.function(&workspace_size_symbol(descriptor), query, align, &referents, true)?;
            let text = [signature(descriptor).as_bytes(), b"\0"].concat();
            image.constant(signature_symbol(descriptor), &text, 1, true);
        }
        if queries.len() != descriptors.len() {
            return internal(format!("{} queries for {} entries", queries.len(), descriptors.len()));
        }
        image.tables()?;
        let own = input.functions().filter_map(|(id, _)| Some((referents.functions[id]?, input.code(id)?)));
        let own = own.filter_map(|(referent, code)| match referent {
            Referent::Symbol(symbol) => Some((symbol, code)),
            Referent::Import(_) => None,
        });
        let functions: Vec<(usize, &CompiledFunction)> = own.chain(query_symbols.into_iter().zip(queries)).collect();
        image.unwind(&functions, isa)?;
        Ok(image)
    }

    pub(super) fn part(&self, part: Part) -> &Contents {
        &self.parts[part as usize]
    }

    fn part_mut(&mut self, part: Part) -> &mut Contents {
        &mut self.parts[part as usize]
    }

    fn constant(&mut self, name: String, bytes: &[u8], align: u64, exported: bool) {
        let offset = self.part_mut(Part::Rodata).append(bytes, align, 0);
        let place = Place { part: Part::Rodata, offset };
        self.symbols.push(Symbol { name, place, size: bytes.len() as u64, function: false, exported });
    }

    fn function(
        &mut self,
        name: &str,
        function: &CompiledFunction,
        align: u64,
        referents: &Referents,
        exported: bool,
    ) -> Result<()> {
        let number = self.symbols.len();
        let filling = if self.machine == Machine::X86_64 { 0xcc } else { 0 };
        let offset = self.part_mut(Part::Text).append(&function.code, function.alignment.max(align), filling);
        for reloc in &function.relocs {
            let (referent, within) = referents.referent(reloc, number)?;
            let (offset, addend) = (offset + u64::from(reloc.offset), reloc.addend.wrapping_add(within));
            self.code.push(CodeReference { offset, kind: reloc.kind, referent, addend });
        }
        let (name, size) = (name.to_owned(), function.code.len() as u64);
        let place = Place { part: Part::Text, offset };
        self.symbols.push(Symbol { name, place, size, function: true, exported });
        Ok(())
    }

    /// The unwind table of the functions with these symbols, and room for the index, whose entries are two words each.
    fn unwind(&mut self, functions: &[(usize, &CompiledFunction)], isa: &dyn TargetIsa) -> Result<()> {
        let table = unwind::table(functions.iter().map(|(_, f)| (&f.unwind, f.code.len())), isa)?;
        self.part_mut(Part::Unwind).append(&table.bytes, unwind::ALIGNMENT, 0);
        // A length of zero ends it.
        self.part_mut(Part::Unwind).append(&[0; 4], 1, 0);
        let index = vec![0; INDEX_HEADER + 8 * functions.len()];
        self.part_mut(Part::UnwindIndex).append(&index, 4, 0);
        for distance in table.distances {
            let symbol = functions.get(distance.function).map(|(symbol, _)| *symbol);
            let symbol = symbol.ok_or_else(|| Error::Internal("an unwind table of other functions".to_owned()))?;
            self.unwound.push((distance.offset, symbol));
        }
        Ok(())
    }

    /// Slots and stubs for the references that need them.
    fn tables(&mut self) -> Result<()> {
        let known = |referent: Referent| match referent {
            Referent::Symbol(i) => i < self.symbols.len(),
            Referent::Import(i) => i < self.imports.len(),
        };
        let pointers = self.pointers.iter().map(|p| p.referent);
        if let Some(missing) = self.code.iter().map(|c| c.referent).chain(pointers).find(|r| !known(*r)) {
            return internal(format!("a relocation refers to {missing:?}"));
        }
        let mut slots = Vec::new();
        let mut stubs = Vec::new();
        for reference in &self.code {
            let import = match reference.referent {
                Referent::Import(i) => Some(i),
                Referent::Symbol(_) => None,
            };
            match (reference.kind, import) {
                (Reloc::X86GOTPCRel4 | Reloc::Aarch64AdrGotPage21 | Reloc::Aarch64Ld64GotLo12Nc, _) => {
                    slots.push(reference.referent);
                }
                (Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 | Reloc::Arm64Call, Some(import)) => {
                    slots.push(reference.referent);
                    stubs.push(import);
                }
                (Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 | Reloc::X86PCRel4, None) => {}
                (Reloc::Arm64Call | Reloc::Aarch64AdrPrelPgHi21 | Reloc::Aarch64AddAbsLo12Nc, None) => {}
                (kind, _) => return unsupported(format!("relocations of kind {kind:?} in a shared library")),
            }
        }
        for referent in slots {
            if !self.slots.contains_key(&referent) {
                let slot = self.part_mut(Part::Got).append(&[0; SLOT as usize], SLOT, 0);
                self.slots.insert(referent, slot);
            }
        }
        let (stub, filling) = match self.machine {
            Machine::X86_64 => (&X86_STUB[..], 0xcc),
            Machine::Aarch64 => (&AARCH64_STUB[..], 0),
        };
        for import in stubs {
            if !self.stubs.contains_key(&import) {
                let at = self.part_mut(Part::Text).append(stub, 16, filling);
                self.stubs.insert(import, at);
            }
        }
        Ok(())
    }
}
