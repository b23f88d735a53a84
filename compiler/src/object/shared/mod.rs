//! A shared library, written without a linker: what `dlopen`, ctypes and `-lNAME` take.
//!
//! Problem: an object needs a linker before anything can call it. A user of Python or of any language with a foreign
//! function interface has none at hand, and wants a file to open.
//!
//! Invariant: the same [`ObjectInput`], target and name give the same bytes. Code, constants and tables are never
//! writable, nothing is executable but the code, and no relocation applies to code: all that the dynamic linker fills in
//! are pointers in data, which are read-only afterwards. References from inside bind inside, whatever other libraries
//! define. The only undefined symbols are those of custom calls; they are bound when the library is opened, so a missing one
//! is an error of `dlopen` and not of a run.
//!
//! Algorithm: [`image`] lays functions and data out in parts of one protection each and collects the pointers that need a
//! slot of the global offset table, and the imports that are called and so need a stub; [`file`] gives every part its
//! place in file and memory, has [`patch`] fill in the references, and writes headers, tables and parts; the file is then
//! hashed and sealed as an object is. Beside what the object exports, the library has for each entry the function
//! `NAME_workspace_size` and the text `NAME_signature` ([`signature`]), for callers that read no C headers.
//!
//! Sources: the System V ABI's chapters on object files and on program loading and dynamic linking, the processor
//! supplements of x86-64 and AArch64 for the relocations, and the GNU extensions for the symbol hash and read-only
//! relocations.

mod file;
mod image;
mod patch;
mod signature;
#[cfg(test)]
mod tests;

use super::write::{architecture, check, encode_descriptors, seal};
use super::{CompiledFunction, ObjectInput};
use crate::{Error, Result, Site};
use brolga_runtime::abi::{Architecture, DescriptorInfo};
use cranelift_codegen::isa::TargetIsa;
use hashbrown::HashSet;
use object::BinaryFormat;

/// The symbol of the function that says how many bytes of workspace an entry needs.
pub fn workspace_size_symbol(descriptor: &DescriptorInfo) -> String {
    format!("{}_workspace_size", descriptor.entry)
}

/// The symbol of the text that says what an entry takes and gives.
pub fn signature_symbol(descriptor: &DescriptorInfo) -> String {
    format!("{}_signature", descriptor.entry)
}

/// All symbols that an entry exports, from an object or a shared library.
pub fn exported_symbols(entry: &str) -> [String; 4] {
    let d = DescriptorInfo::new(entry, Architecture::X86_64);
    [d.entry.clone(), d.descriptor_symbol(), workspace_size_symbol(&d), signature_symbol(&d)]
}

/// Writes the shared library of a program, an ELF file that calls itself `soname`. `queries` are the functions
/// [`workspace_size_symbol`] of the descriptors, in their order.
///
/// # Errors
/// [`Error::Unsupported`] where the target has no such libraries here, or a custom call has a name that the library gives to
/// something else; [`Error::Internal`] where the input contradicts itself.
pub fn write_shared(
    input: &ObjectInput,
    queries: &[CompiledFunction],
    isa: &dyn TargetIsa,
    soname: &str,
) -> Result<Vec<u8>> {
    let machine = machine(isa)?;
    if input.lines().is_some() {
        return unsupported("debug lines in a shared library: link the object into one".to_owned());
    }
    check(input, BinaryFormat::Elf)?;
    check_names(input, soname)?;
    let encoded = encode_descriptors(input, isa)?;
    let image = image::Image::new(input, queries, &encoded, isa, machine)?;
    let mut bytes = file::write(&image, soname)?;
    let blobs: Vec<Vec<u8>> = encoded.into_iter().map(|(_, blob)| blob).collect();
    seal(&mut bytes, &blobs)?;
    Ok(bytes)
}

/// The architectures whose libraries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    X86_64,
    Aarch64,
}

fn machine(isa: &dyn TargetIsa) -> Result<Machine> {
    let triple = isa.triple();
    let elf = triple.binary_format == target_lexicon::BinaryFormat::Elf;
    match architecture(isa)? {
        Architecture::X86_64 if elf => Ok(Machine::X86_64),
        Architecture::Aarch64 if elf => Ok(Machine::Aarch64),
        _ => unsupported(format!("shared libraries for {triple}: they are written in ELF for x86-64 and aarch64")),
    }
}

fn unsupported<T>(feature: String) -> Result<T> {
    Err(Error::Unsupported { site: Site::default(), feature })
}

/// What the library exports beside the object's own must not be what a custom call is called.
fn check_names(input: &ObjectInput, soname: &str) -> Result<()> {
    if soname.is_empty() || soname.contains('\0') {
        return Err(Error::Internal("a library without a name".to_owned()));
    }
    let mut taken: HashSet<String> = HashSet::new();
    for (_, descriptor) in input.descriptors() {
        taken.extend([workspace_size_symbol(descriptor), signature_symbol(descriptor)]);
    }
    match input.functions().filter_map(|(_, f)| f.name.as_ref()).find(|name| taken.contains(*name)) {
        Some(name) => unsupported(format!("a function '{name}' in a shared library, which has a symbol of that name")),
        None => Ok(()),
    }
}
