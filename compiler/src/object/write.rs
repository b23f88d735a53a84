//! Writing the object file.

use super::input::refused;
use super::reloc::{check_kind, coff_kind, relax_got_access};
use super::{CompiledFunction, ObjectInput, Referent, dwarf, unwind};
use crate::{Error, Result, Site};
use brolga_runtime::abi::{Architecture, DescriptorInfo, HASH_OFFSET, HASH_SIZE, object_hash};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_module::{DataDescription, DataId, FuncId, Init, Linkage, Module, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule, ObjectProduct};
use hashbrown::HashSet;
use object::write::{Relocation, StandardSection, Symbol, SymbolId};
use object::{
    BinaryFormat, RelocationEncoding, RelocationFlags, RelocationKind, SectionKind, SymbolFlags, SymbolScope,
};
use std::borrow::Cow;

/// Bytes of code and data that one object may hold; x86-64 code reaches two gigabytes.
const MAX_SIZE: u64 = 1 << 30;

/// Constants of so many bytes and more have a section of their own in ELF, `.rodata.SYMBOL`: tools find them by it.
const LARGE: usize = 1 << 16;

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
        target_lexicon::Architecture::S390x => Ok(Architecture::S390x),
        other => Err(Error::Target(format!("the architecture {other} is not supported"))),
    }
}

/// Writes the object. The descriptor's architecture and hash are filled in here.
///
/// # Errors
/// Where the target has no object format here, or the input contradicts itself (a bug of the code generator).
pub fn write(input: &ObjectInput, isa: &OwnedTargetIsa) -> Result<Vec<u8>> {
    let format = format(&**isa)?;
    if input.lines().is_some() && format != BinaryFormat::Elf {
        let feature = format!("debug lines for {}: they are written into objects in ELF", isa.triple());
        return Err(Error::Unsupported { site: Site::default(), feature });
    }
    check(input, format)?;
    let encoded = encode_descriptors(input, &**isa)?;
    let mut writer = Writer::new(input, isa, format)?;
    writer.declare()?;
    // Descriptors come first of all data, so that their bytes are the first of their kind in the file.
    for ((id, _), (_, blob)) in input.descriptors().iter().zip(&encoded) {
        writer.module.define_data(*id, &super::bytes(8, blob.clone())).map_err(refused)?;
    }
    writer.functions()?;
    writer.data()?;
    let mut bytes = writer.finish(&**isa)?;
    let blobs: Vec<Vec<u8>> = encoded.into_iter().map(|(_, blob)| blob).collect();
    seal(&mut bytes, &blobs)?;
    Ok(bytes)
}

/// The object format of a target.
///
/// # Errors
/// Where there is none for it here.
pub(super) fn format(isa: &dyn TargetIsa) -> Result<BinaryFormat> {
    let (triple, architecture) = (isa.triple(), architecture(isa)?);
    match triple.binary_format {
        target_lexicon::BinaryFormat::Elf => Ok(BinaryFormat::Elf),
        target_lexicon::BinaryFormat::Macho if matches!(architecture, Architecture::X86_64 | Architecture::Aarch64) => {
            Ok(BinaryFormat::MachO)
        }
        target_lexicon::BinaryFormat::Coff if matches!(architecture, Architecture::X86_64 | Architecture::Aarch64) => {
            Ok(BinaryFormat::Coff)
        }
        other => Err(Error::Target(format!("the object format {other:?} is not supported for {triple}"))),
    }
}

/// The descriptors as they are written, still without a hash.
pub(super) fn encode_descriptors(input: &ObjectInput, isa: &dyn TargetIsa) -> Result<Vec<(DescriptorInfo, Vec<u8>)>> {
    let mut all = Vec::with_capacity(input.descriptors().len());
    for (_, descriptor) in input.descriptors() {
        let mut descriptor = descriptor.clone();
        descriptor.architecture = architecture(isa)?;
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

/// That an input is whole: what is declared is defined, what is referred to is there, and the format has the relocations.
pub(super) fn check(input: &ObjectInput, format: BinaryFormat) -> Result<()> {
    let exported: Vec<&str> = input
        .functions()
        .filter(|(_, f)| f.linkage == Linkage::Export)
        .filter_map(|(_, f)| f.name.as_deref())
        .collect();
    let entries: Vec<&str> = input.descriptors().iter().map(|(_, d)| d.entry.as_str()).collect();
    let selectors = usize::from(input.descriptors().iter().any(|(_, d)| !d.open.is_empty()));
    if entries.is_empty() || !exported.starts_with(&entries) || exported.len() != entries.len() + selectors {
        return internal(format!("the exported functions are {exported:?}, not {entries:?}"));
    }
    let (functions, data) = (input.functions().count(), input.data().count());
    let is_there = |referent: Option<Referent>, size: usize| match referent {
        Some(Referent::Function(id)) => (id.as_u32() as usize) < functions,
        Some(Referent::Data(id)) => (id.as_u32() as usize) < data,
        Some(Referent::Here(offset)) => offset as usize <= size,
        None => false,
    };
    let mut total = 0u64;
    let mut add = |name: &str, alignment: u64, size: usize| {
        if !alignment.is_power_of_two() || alignment > 4096 {
            return internal(format!("the alignment of '{name}' is {alignment}"));
        }
        total = total.saturating_add(size as u64);
        Ok(())
    };
    for (id, declaration) in input.functions().filter(|(_, f)| f.linkage != Linkage::Import) {
        let name = declaration.linkage_name(id);
        let Some(CompiledFunction { alignment, code, relocs, .. }) = input.code(id) else {
            return internal(format!("the function '{name}' has no code"));
        };
        add(&name, *alignment, code.len())?;
        for reloc in relocs {
            check_kind(reloc.kind, format)?;
            let end = (reloc.offset as usize).checked_add(4);
            if end.is_none_or(|end| end > code.len()) || !is_there(Referent::of(&reloc.name), code.len()) {
                return internal(format!("a relocation of '{name}' lies outside or leads nowhere"));
            }
            // Where the format has no addend beside it, the writer adds to what stands there.
            let x86 = matches!(
                reloc.kind,
                Reloc::X86PCRel4 | Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 | Reloc::X86GOTPCRel4
            );
            let field = code.get(reloc.offset as usize..).and_then(<[u8]>::first_chunk::<4>);
            if x86 && field != Some(&[0; 4]) {
                return internal(format!("a relocation of '{name}' has something in its place"));
            }
        }
    }
    let described: HashSet<DataId> = input.descriptors().iter().map(|(id, _)| *id).collect();
    for (id, declaration) in input.data().filter(|(id, _)| !described.contains(id)) {
        let name = declaration.linkage_name(id);
        let Some(contents) = input.contents(id) else {
            return internal(format!("the data '{name}' are not defined"));
        };
        let size = size(contents);
        add(&name, contents.align.unwrap_or(1), size)?;
        for reloc in contents.all_relocs(Reloc::Abs8) {
            let end = (reloc.offset as usize).checked_add(8);
            let zeros = matches!(contents.init, Init::Zeros { .. });
            if zeros || end.is_none_or(|end| end > size) || !is_there(Referent::of(&reloc.name), 0) {
                return internal(format!("a pointer in '{name}' lies outside or leads nowhere"));
            }
        }
    }
    if total > MAX_SIZE {
        return Err(Error::Target(format!(
            "the program has {total} bytes of code and constants, more than {MAX_SIZE}"
        )));
    }
    Ok(())
}

/// The bytes of data.
pub(super) fn size(data: &DataDescription) -> usize {
    match &data.init {
        Init::Uninitialized => 0,
        Init::Zeros { size } => *size,
        Init::Bytes { contents } => contents.len(),
    }
}

/// A function's code as it stands in a file, its accesses through the global offset table relaxed where they can be.
pub(super) fn relaxed<'f>(
    input: &ObjectInput,
    architecture: Architecture,
    function: &'f CompiledFunction,
) -> Cow<'f, CompiledFunction> {
    let mut function = Cow::Borrowed(function);
    if architecture == Architecture::X86_64 && function.relocs.iter().any(|reloc| reloc.kind == Reloc::X86GOTPCRel4) {
        let CompiledFunction { code, relocs, .. } = function.to_mut();
        relocs.iter_mut().for_each(|reloc| relax_got_access(input, code, reloc));
    }
    function
}

/// An object while the input's declarations and definitions go into a module, in the order of their numbers.
struct Writer<'a> {
    input: &'a ObjectInput,
    module: ObjectModule,
    format: BinaryFormat,
    architecture: Architecture,
    function_alignment: u64,
    /// In COFF, what the module has no word for: the function, the place in it, what is referred to and the kind.
    apart: Vec<(FuncId, u32, Referent, u16)>,
    /// What is exported and referred to from inside: it is local here, and what others see is an alias of it.
    aliased: HashSet<Referent>,
}

impl<'a> Writer<'a> {
    fn new(input: &'a ObjectInput, isa: &OwnedTargetIsa, format: BinaryFormat) -> Result<Writer<'a>> {
        let name = super::program_name(input.descriptors().iter().map(|(_, d)| d)).to_owned();
        let builder = ObjectBuilder::new(isa.clone(), name, default_libcall_names()).map_err(refused)?;
        let (module, architecture) = (ObjectModule::new(builder), architecture(&**isa)?);
        let function_alignment = u64::from(isa.function_alignment().preferred);
        let aliased = if format == BinaryFormat::Elf { referred_exports(input) } else { HashSet::new() };
        let apart = Vec::new();
        Ok(Writer { input, module, format, architecture, function_alignment, apart, aliased })
    }

    /// Declares everything in order: the numbers are those of the input.
    fn declare(&mut self) -> Result<()> {
        let renumbered = |name: &str| Error::Internal(format!("'{name}' has another number in the object"));
        for (id, function) in self.input.functions() {
            let name = function.linkage_name(id);
            let (name, linkage) = self.seen_inside(Referent::Function(id), &name, function.linkage);
            let declared = self.module.declare_function(&name, linkage, &function.signature).map_err(refused)?;
            if declared != id {
                return Err(renumbered(&name));
            }
        }
        for (id, data) in self.input.data() {
            let name = data.linkage_name(id);
            let (name, linkage) = self.seen_inside(Referent::Data(id), &name, data.linkage);
            let declared = self.module.declare_data(&name, linkage, data.writable, data.tls).map_err(refused)?;
            if declared != id {
                return Err(renumbered(&name));
            }
        }
        Ok(())
    }

    /// The name and linkage of what the object itself refers to: code that a shared library takes in may not refer directly
    /// to what another library could replace.
    fn seen_inside(&self, referent: Referent, name: &str, linkage: Linkage) -> (String, Linkage) {
        if self.aliased.contains(&referent) {
            (format!("{name}.local"), Linkage::Local)
        } else {
            (name.to_owned(), linkage)
        }
    }

    fn functions(&mut self) -> Result<()> {
        for (id, _) in self.input.functions() {
            let Some(function) = self.input.code(id) else { continue };
            let mut function = relaxed(self.input, self.architecture, function);
            if self.format == BinaryFormat::Coff {
                for reloc in &function.relocs {
                    match (coff_kind(reloc.kind), Referent::of(&reloc.name), reloc.addend) {
                        (None, ..) => {}
                        (Some(kind), Some(to), 0) => self.apart.push((id, reloc.offset, to, kind)),
                        _ => return internal("an address in COFF has an addend".to_owned()),
                    }
                }
                function.to_mut().relocs.retain(|reloc| coff_kind(reloc.kind).is_none());
            }
            let alignment = function.alignment.max(self.function_alignment);
            self.module.define_function_bytes(id, alignment, &function.code, &function.relocs).map_err(refused)?;
        }
        Ok(())
    }

    fn data(&mut self) -> Result<()> {
        for (id, declaration) in self.input.data() {
            let Some(contents) = self.input.contents(id) else { continue };
            let written = matches!(contents.init, Init::Bytes { .. });
            let constant = written && !declaration.writable && contents.all_relocs(Reloc::Abs8).next().is_none();
            if self.format == BinaryFormat::Elf && constant && size(contents) >= LARGE {
                let mut apart = contents.clone();
                apart.set_custom_section(&format!(".rodata.{}", declaration.linkage_name(id)));
                self.module.define_data(id, &apart).map_err(refused)?;
            } else {
                self.module.define_data(id, contents).map_err(refused)?;
            }
        }
        Ok(())
    }

    fn finish(self, isa: &dyn TargetIsa) -> Result<Vec<u8>> {
        let Writer { input, module, aliased, apart, .. } = self;
        let mut product = module.finish();
        for (function, offset, to, typ) in apart {
            let place = product.function_symbol(function);
            let place = product.object.symbol(place);
            let (Some(section), start) = (place.section.id(), place.value) else {
                return internal("a function stands in no section".to_owned());
            };
            let symbol = match to {
                Referent::Function(id) => product.function_symbol(id),
                Referent::Data(id) => product.data_symbol(id),
                Referent::Here(_) => return internal("a function refers to its own bytes by an address".to_owned()),
            };
            let flags = RelocationFlags::Coff { typ };
            let relocation = Relocation { offset: start + u64::from(offset), symbol, addend: 0, flags };
            let added = product.object.add_relocation(section, relocation);
            added.or_else(|e| internal(format!("an address cannot be relocated: {e}")))?;
        }
        if product.object.format() == BinaryFormat::Elf {
            add_unwind_table(&mut product, input, isa)?;
            add_debug_sections(&mut product, input, isa)?;
        }
        for (id, function) in input.functions().filter(|(id, _)| aliased.contains(&Referent::Function(*id))) {
            let local = product.function_symbol(id);
            export(&mut product, local, &function.linkage_name(id));
        }
        for (id, data) in input.data().filter(|(id, _)| aliased.contains(&Referent::Data(*id))) {
            let local = product.data_symbol(id);
            export(&mut product, local, &data.linkage_name(id));
        }
        product.object.write().or_else(|e| internal(format!("the object cannot be written: {e}")))
    }
}

/// Adds the unwind table of all functions. It refers to them by their places in the section of code, which no other
/// library can replace.
fn add_unwind_table(product: &mut ObjectProduct, input: &ObjectInput, isa: &dyn TargetIsa) -> Result<()> {
    let functions: Vec<(FuncId, &CompiledFunction)> =
        input.functions().filter_map(|(id, _)| Some((id, input.code(id)?))).collect();
    let table = unwind::table(functions.iter().map(|(_, f)| (&f.unwind, f.code.len())), isa)?;
    let text = product.object.section_id(StandardSection::Text);
    let text = product.object.section_symbol(text);
    let section = product.object.section_id(StandardSection::EhFrame);
    let start = product.object.append_section_data(section, &table.bytes, unwind::ALIGNMENT);
    let (kind, encoding) = (RelocationKind::Relative, RelocationEncoding::Generic);
    let flags = RelocationFlags::Generic { kind, encoding, size: 32 };
    for distance in table.distances {
        let Some((id, _)) = functions.get(distance.function) else {
            return internal(format!("the unwind table speaks of function {}", distance.function));
        };
        let place = product.object.symbol(product.function_symbol(*id)).value;
        let addend = i64::try_from(place).or_else(|_| internal("a function lies too far".to_owned()))?;
        let relocation = Relocation { offset: start + distance.offset, symbol: text, addend, flags };
        let added = product.object.add_relocation(section, relocation);
        added.or_else(|e| internal(format!("the unwind table cannot be relocated: {e}")))?;
    }
    Ok(())
}

/// Adds what debuggers are told, where they are. It refers to functions as the unwind table does.
fn add_debug_sections(product: &mut ObjectProduct, input: &ObjectInput, isa: &dyn TargetIsa) -> Result<()> {
    let Some(lines) = input.lines() else { return Ok(()) };
    let mut functions = Vec::new();
    for (id, declaration) in input.functions() {
        let Some(code) = input.code(id) else { continue };
        let place = product.object.symbol(product.function_symbol(id)).value;
        functions.push(dwarf::Function { name: declaration.linkage_name(id).into_owned(), code, place });
    }
    let text = product.object.section_id(StandardSection::Text);
    let text = product.object.section_symbol(text);
    let mut sections = Vec::new();
    for section in dwarf::sections(lines, &functions, unwind::byte_order(isa))? {
        // A linker may join equal strings.
        let strings = section.id == gimli::SectionId::DebugStr;
        let kind = if strings { SectionKind::DebugString } else { SectionKind::Debug };
        let id = product.object.add_section(Vec::new(), section.id.name().into(), kind);
        product.object.append_section_data(id, &section.bytes, 1);
        sections.push((id, section));
    }
    for (id, section) in &sections {
        for reference in &section.references {
            let (symbol, place) = match reference.to {
                dwarf::Referent::Function(number) => match functions.get(number) {
                    Some(function) => (text, function.place),
                    None => return internal(format!("debug lines speak of function {number}")),
                },
                dwarf::Referent::Section(to) => match sections.iter().find(|(_, s)| s.id == to) {
                    Some((there, _)) => (product.object.section_symbol(*there), 0),
                    None => {
                        return internal(format!("debug lines refer to the section {}, which is missing", to.name()));
                    }
                },
            };
            let place = i64::try_from(place).or_else(|_| internal("a function lies too far".to_owned()))?;
            let (kind, encoding) = (RelocationKind::Absolute, RelocationEncoding::Generic);
            let flags = RelocationFlags::Generic { kind, encoding, size: 8 * reference.size };
            let relocation = Relocation { offset: reference.offset, symbol, addend: place + reference.addend, flags };
            let added = product.object.add_relocation(*id, relocation);
            added.or_else(|e| internal(format!("debug lines cannot be relocated: {e}")))?;
        }
    }
    Ok(())
}

/// What is exported and referred to from inside.
fn referred_exports(input: &ObjectInput) -> HashSet<Referent> {
    let functions =
        input.functions().filter(|(_, f)| f.linkage == Linkage::Export).map(|(id, _)| Referent::Function(id));
    let data = input.data().filter(|(_, d)| d.linkage == Linkage::Export).map(|(id, _)| Referent::Data(id));
    let exported: HashSet<Referent> = functions.chain(data).collect();
    let code = input.functions().filter_map(|(id, _)| input.code(id)).flat_map(|f| &f.relocs);
    code.filter_map(|reloc| Referent::of(&reloc.name)).filter(|referent| exported.contains(referent)).collect()
}

/// Adds a symbol that others see for something that has one of this object's own.
fn export(product: &mut ObjectProduct, local: SymbolId, name: &str) {
    let local = product.object.symbol(local);
    let seen = Symbol {
        name: name.as_bytes().to_vec(),
        value: local.value,
        size: local.size,
        kind: local.kind,
        scope: SymbolScope::Dynamic,
        weak: local.weak,
        section: local.section,
        flags: SymbolFlags::None,
    };
    product.object.add_symbol(seen);
}
