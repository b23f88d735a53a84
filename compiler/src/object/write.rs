//! Writing the object file.

use super::reloc::{relax_got_access, relocation_flags};
use super::{CodeReloc, CompiledFunction, DataInit, DataObject, ObjectInput, Target};
use crate::{Error, Result, Site};
use brolga_runtime::abi::{Architecture, DescriptorInfo, HASH_OFFSET, HASH_SIZE, IsaFeatures, object_hash};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::TargetIsa;
use object::write::{Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf};
use std::collections::{HashMap, HashSet};

/// Bytes of code and data that one object may hold; x86-64 code reaches two gigabytes.
const MAX_SIZE: u64 = 1 << 30;

fn internal<T>(message: String) -> Result<T> {
    Err(Error::Internal(message))
}

/// The architecture that `isa` compiles for.
///
/// # Errors
/// Where Brolga does not know it.
pub fn architecture(isa: &dyn TargetIsa) -> Result<Architecture> {
    match isa.triple().architecture {
        target_lexicon::Architecture::X86_64 => Ok(Architecture::X86_64),
        target_lexicon::Architecture::Aarch64(_) => Ok(Architecture::Aarch64),
        target_lexicon::Architecture::Riscv64(_) => Ok(Architecture::Riscv64),
        other => Err(Error::Target(format!("the architecture {other} is not supported"))),
    }
}

/// The instruction-set features that code compiled by `isa` may need.
pub fn isa_features(isa: &dyn TargetIsa) -> IsaFeatures {
    let mut features = IsaFeatures::NONE;
    for flag in isa.isa_flags() {
        let Some(name) = flag.name.strip_prefix("has_") else {
            continue;
        };
        if flag.as_bool() != Some(true) {
            continue;
        }
        let name = match name {
            "sse41" => "sse4.1",
            "sse42" => "sse4.2",
            "pauth" => "paca",
            other => other,
        };
        // What is not in the table (RISC-V's base extensions, vector lengths) is part of the target's baseline.
        features = IsaFeatures::from_name(name).map_or(features, |f| features.union(f));
    }
    features
}

/// Writes the object. The descriptor's architecture, features and hash are filled in here.
///
/// # Errors
/// Where the target has no object format here, or the input contradicts itself (a bug of the code generator).
pub fn write(input: &ObjectInput, isa: &dyn TargetIsa) -> Result<Vec<u8>> {
    check(input)?;
    let mut writer = Writer::new(isa)?;
    let mut blobs = Vec::with_capacity(input.descriptors.len());
    for (descriptor, blob) in encode_descriptors(input, isa)? {
        writer.descriptor(&descriptor, &blob);
        blobs.push(blob);
    }
    writer.declare(input);
    for (i, function) in input.functions.iter().enumerate() {
        writer.function(i, function)?;
    }
    for (i, data) in input.data.iter().enumerate() {
        writer.data(i, data)?;
    }
    let mut bytes = writer.finish()?;
    seal(&mut bytes, &blobs)?;
    Ok(bytes)
}

/// The descriptors as they are written, still without a hash.
pub(super) fn encode_descriptors(input: &ObjectInput, isa: &dyn TargetIsa) -> Result<Vec<(DescriptorInfo, Vec<u8>)>> {
    let mut all = Vec::with_capacity(input.descriptors.len());
    for descriptor in &input.descriptors {
        let mut descriptor = descriptor.clone();
        descriptor.architecture = architecture(isa)?;
        descriptor.features = isa_features(isa);
        descriptor.hash = [0; HASH_SIZE];
        let Some(blob) = descriptor.encode() else {
            let feature =
                "parameters and results beyond what a descriptor holds: 2^60 bytes of one, or too many".to_owned();
            return Err(Error::Unsupported { site: Site::default(), feature });
        };
        all.push((descriptor, blob));
    }
    Ok(all)
}

/// Puts the hash of the file, which leaves out all hashes, into the descriptors, which still stand there without one.
pub(super) fn seal(bytes: &mut [u8], blobs: &[Vec<u8>]) -> Result<()> {
    let missing = || Error::Internal("the descriptor is missing in the object".into());
    let (mut holes, mut from) = (Vec::with_capacity(blobs.len()), 0);
    for blob in blobs {
        let rest = bytes.get(from..).ok_or_else(missing)?;
        let at = rest.windows(blob.len()).position(|w| w == blob).ok_or_else(missing)?;
        holes.push(from + at + HASH_OFFSET);
        from += at + blob.len();
    }
    let hash = object_hash(bytes, &holes).ok_or_else(missing)?;
    for hole in holes {
        bytes.get_mut(hole..hole + HASH_SIZE).ok_or_else(missing)?.copy_from_slice(&hash);
    }
    Ok(())
}

pub(super) fn check(input: &ObjectInput) -> Result<()> {
    let exported: Vec<&str> = input.functions.iter().filter(|f| f.exported).map(|f| f.symbol.as_str()).collect();
    let entries: Vec<&str> = input.descriptors.iter().map(|d| d.entry.as_str()).collect();
    let selectors = usize::from(input.descriptors.iter().any(|d| !d.open.is_empty()));
    if entries.is_empty() || !exported.starts_with(&entries) || exported.len() != entries.len() + selectors {
        return internal(format!("the exported functions are {exported:?}, not {entries:?}"));
    }
    let mut symbols: HashSet<String> = input.descriptors.iter().map(DescriptorInfo::descriptor_symbol).collect();
    if symbols.len() != entries.len() {
        return internal(format!("two of the entries {entries:?} have one name"));
    }
    let names = input.functions.iter().map(|f| &f.symbol).chain(input.data.iter().map(|d| &d.symbol));
    for name in names.chain(&input.imports) {
        if name.is_empty() || name.contains('\0') || !symbols.insert(name.clone()) {
            return internal(format!("the symbol '{name}' is used twice or impossible"));
        }
    }
    let mut total = 0u64;
    let aligned = |a: u64| a.is_power_of_two() && a <= 4096;
    for function in &input.functions {
        if !aligned(function.alignment) {
            return internal(format!("the alignment of '{}' is {}", function.symbol, function.alignment));
        }
        total = total.saturating_add(function.code.len() as u64);
    }
    for data in &input.data {
        if !aligned(data.alignment) {
            return internal(format!("the alignment of '{}' is {}", data.symbol, data.alignment));
        }
        total = total.saturating_add(data.size());
    }
    if total > MAX_SIZE {
        return Err(Error::Target(format!(
            "the program has {total} bytes of code and constants, more than {MAX_SIZE}"
        )));
    }
    Ok(())
}

impl DataObject {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        match &self.init {
            DataInit::Bytes(bytes) => bytes.len() as u64,
            DataInit::Zeros(size) => *size,
        }
    }
}

struct Writer {
    object: Object<'static>,
    architecture: Architecture,
    function_alignment: u64,
    functions: Vec<SymbolId>,
    data: Vec<SymbolId>,
    imports: Vec<SymbolId>,
    descriptors: Vec<SymbolId>,
    /// Other symbols of what is exported, for references from inside: code that a shared library takes in may not refer
    /// directly to what another library could replace.
    local: HashMap<SymbolId, SymbolId>,
    /// Symbols of places within functions: (function, offset).
    labels: HashMap<(usize, u32), SymbolId>,
    /// Held back until every symbol has its place.
    relocations: Vec<(SectionId, Relocation)>,
}

impl Writer {
    fn new(isa: &dyn TargetIsa) -> Result<Writer> {
        let triple = isa.triple();
        let architecture = architecture(isa)?;
        let format = match triple.binary_format {
            target_lexicon::BinaryFormat::Elf => BinaryFormat::Elf,
            target_lexicon::BinaryFormat::Macho if architecture != Architecture::Riscv64 => BinaryFormat::MachO,
            target_lexicon::BinaryFormat::Coff if architecture == Architecture::X86_64 => BinaryFormat::Coff,
            other => return Err(Error::Target(format!("the object format {other:?} is not supported for {triple}"))),
        };
        let machine = match architecture {
            Architecture::X86_64 => object::Architecture::X86_64,
            Architecture::Aarch64 => object::Architecture::Aarch64,
            Architecture::Riscv64 => object::Architecture::Riscv64,
        };
        let mut object = Object::new(format, machine, Endianness::Little);
        if architecture == Architecture::Riscv64 {
            let compressed =
                isa.isa_flags().iter().any(|f| matches!(f.name, "has_c" | "has_zca") && f.as_bool() == Some(true));
            let rvc = if compressed { elf::EF_RISCV_RVC } else { 0 };
            object.flags = object::FileFlags::Elf {
                os_abi: elf::ELFOSABI_NONE,
                abi_version: 0,
                e_flags: elf::EF_RISCV_FLOAT_ABI_DOUBLE | rvc,
            };
        }
        Ok(Writer {
            object,
            architecture,
            function_alignment: u64::from(isa.function_alignment().preferred),
            functions: Vec::new(),
            data: Vec::new(),
            imports: Vec::new(),
            descriptors: Vec::new(),
            local: HashMap::new(),
            labels: HashMap::new(),
            relocations: Vec::new(),
        })
    }

    fn symbol(&mut self, name: &str, kind: SymbolKind, scope: SymbolScope) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value: 0,
            size: 0,
            kind,
            scope,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        })
    }

    /// Descriptors come first of all data, so that their bytes are the first of their kind in the file.
    fn descriptor(&mut self, descriptor: &DescriptorInfo, blob: &[u8]) {
        let symbol = self.symbol(&descriptor.descriptor_symbol(), SymbolKind::Data, SymbolScope::Dynamic);
        let section = self.object.section_id(StandardSection::ReadOnlyData);
        self.object.add_symbol_data(symbol, section, blob, 8);
        self.descriptors.push(symbol);
    }

    /// A symbol of this object alone for something that others see too, once that has its place.
    fn local(&mut self, symbol: SymbolId) -> SymbolId {
        let seen = self.object.symbol(symbol);
        if seen.scope == SymbolScope::Compilation || seen.section == SymbolSection::Undefined {
            return symbol;
        }
        if let Some(&local) = self.local.get(&symbol) {
            return local;
        }
        let alias = Symbol {
            name: [seen.name.as_slice(), b".local"].concat(),
            scope: SymbolScope::Compilation,
            value: seen.value,
            size: seen.size,
            kind: seen.kind,
            weak: seen.weak,
            section: seen.section,
            flags: SymbolFlags::None,
        };
        let local = self.object.add_symbol(alias);
        self.local.insert(symbol, local);
        local
    }

    fn declare(&mut self, input: &ObjectInput) {
        for function in &input.functions {
            let scope = if function.exported { SymbolScope::Dynamic } else { SymbolScope::Compilation };
            let symbol = self.symbol(&function.symbol, SymbolKind::Text, scope);
            self.functions.push(symbol);
        }
        for data in &input.data {
            let symbol = self.symbol(&data.symbol, SymbolKind::Data, SymbolScope::Compilation);
            self.data.push(symbol);
        }
        for name in &input.imports {
            let symbol = self.symbol(name, SymbolKind::Text, SymbolScope::Unknown);
            self.imports.push(symbol);
        }
    }

    fn target(&self, target: Target) -> Result<SymbolId> {
        let found = match target {
            Target::Function(i) => self.functions.get(i as usize),
            Target::Data(i) => self.data.get(i as usize),
            Target::Import(i) => self.imports.get(i as usize),
            Target::Descriptor(i) => self.descriptors.get(i as usize),
            Target::Here(_) => None,
        };
        found.copied().ok_or_else(|| Error::Internal(format!("a relocation refers to {target:?}")))
    }

    fn function(&mut self, index: usize, function: &CompiledFunction) -> Result<()> {
        let symbol = self.target(Target::Function(index as u32))?;
        let mut code = function.code.clone();
        let mut relocs = function.relocs.clone();
        for reloc in &mut relocs {
            let at = reloc.offset as usize;
            if at.checked_add(4).is_none_or(|end| end > code.len()) {
                return internal(format!("a relocation lies outside '{}'", function.symbol));
            }
            if self.architecture == Architecture::X86_64 {
                relax_got_access(&mut code, reloc);
            }
        }
        let section = self.object.section_id(StandardSection::Text);
        let align = function.alignment.max(self.function_alignment);
        let start = self.object.add_symbol_data(symbol, section, &code, align);
        for reloc in &relocs {
            let target = match reloc.target {
                Target::Here(offset) => self.label(index, section, start, offset),
                other => {
                    let target = self.target(other)?;
                    self.local(target)
                }
            };
            self.relocate(section, start + u64::from(reloc.offset), reloc, target)?;
        }
        Ok(())
    }

    /// The symbol of a place in a function: RISC-V's low parts refer to the instruction with the high part.
    fn label(&mut self, function: usize, section: SectionId, start: u64, offset: u32) -> SymbolId {
        if let Some(&symbol) = self.labels.get(&(function, offset)) {
            return symbol;
        }
        let symbol = self.object.add_symbol(Symbol {
            name: format!(".L{function}_{offset}").into_bytes(),
            value: start + u64::from(offset),
            size: 0,
            kind: SymbolKind::Label,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
        self.labels.insert((function, offset), symbol);
        symbol
    }

    fn relocate(&mut self, section: SectionId, offset: u64, reloc: &CodeReloc, symbol: SymbolId) -> Result<()> {
        let flags = relocation_flags(reloc.kind, self.object.format())?;
        self.relocations.push((section, Relocation { offset, symbol, addend: reloc.addend, flags }));
        Ok(())
    }

    fn data(&mut self, index: usize, data: &DataObject) -> Result<()> {
        let symbol = self.target(Target::Data(index as u32))?;
        let standard = match (&data.init, data.writable, data.relocs.is_empty()) {
            (DataInit::Zeros(_), ..) => StandardSection::UninitializedData,
            (_, true, _) => StandardSection::Data,
            (_, false, true) => StandardSection::ReadOnlyData,
            (_, false, false) => StandardSection::ReadOnlyDataWithRel,
        };
        let section = self.object.section_id(standard);
        let start = match &data.init {
            DataInit::Bytes(bytes) => self.object.add_symbol_data(symbol, section, bytes, data.alignment),
            DataInit::Zeros(size) => self.object.add_symbol_bss(symbol, section, *size, data.alignment),
        };
        for reloc in &data.relocs {
            let fits = reloc.offset.checked_add(8).is_some_and(|end| end <= data.size());
            if !fits || matches!(data.init, DataInit::Zeros(_)) {
                return internal(format!("a relocation lies outside '{}'", data.symbol));
            }
            let (target, addend) = match reloc.target {
                Target::Here(offset) => (symbol, reloc.addend.saturating_add(i64::from(offset))),
                other => (self.target(other)?, reloc.addend),
            };
            let pointer = CodeReloc { offset: 0, kind: Reloc::Abs8, target: reloc.target, addend };
            self.relocate(section, start + reloc.offset, &pointer, target)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        for (section, relocation) in std::mem::take(&mut self.relocations) {
            let added = self.object.add_relocation(section, relocation);
            added.or_else(|e| internal(format!("the object format refuses a relocation: {e}")))?;
        }
        if self.object.format() == BinaryFormat::Elf {
            // Without this section some linkers make the stack executable.
            self.object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Linker);
        }
        self.object.write().or_else(|e| internal(format!("the object cannot be written: {e}")))
    }
}
