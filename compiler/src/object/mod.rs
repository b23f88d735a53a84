//! From compiled functions and constant data to the bytes of an object file, and the files that go with it.
//!
//! Problem: codegen compiles functions one by one, on several threads. What ships is one relocatable object that a
//! linker, the in-memory loader and a C or Rust caller all understand.
//!
//! Invariant: the same [`ObjectInput`] and target give the same bytes. Only the entry function and the descriptor, of a
//! program of several computations those of each, and of one for several sizes those of each size and the selector, are
//! visible outside; the only undefined symbols are the imports, which are custom calls. A reference that would need a
//! library function is an error here, not a surprise at link time.
//!
//! Algorithm: codegen declares and defines functions and data in an [`ObjectInput`], whose numbers are those of a
//! `cranelift_module`. Writing replays them into an `ObjectModule`, in the order of the numbers: declarations, descriptors,
//! functions (on x86-64, each access through the global offset table to something in this object made a direct one
//! first), data. The module lays out sections and turns relocations into the format's own; it has no word for a kind that
//! the format lacks, so that is checked before. What it does not do is done on the object that it hands out; then the
//! file is hashed and the hash put into the descriptor.
//!
//! Objects and libraries in ELF carry an unwind table ([`unwind`]), and objects in ELF the lines that they come from where that
//! is asked for ([`dwarf`]). Not written yet: the lines of shared libraries, and lines and unwind tables of Mach-O and COFF;
//! their functions keep frame pointers.

mod archive;
mod bindings;
mod disasm;
mod dwarf;
mod header;
mod input;
mod inspect;
mod lines;
mod names;
mod reloc;
mod shared;
mod unwind;
mod write;

#[cfg(test)]
mod tests;

pub use archive::{StaticLibrary, static_library};
pub use bindings::rust_bindings;
pub use disasm::{disassemble, disassemble_object};
pub use header::{c_abi, c_header};
pub use input::{CompiledFunction, Numbered, ObjectInput, Referent, bytes, lines, zeros};
pub use inspect::{read_descriptor, read_descriptors};
pub use lines::{LineTable, Lines, Place, Source};
pub use names::program_name;
pub use shared::{exported_symbols, signature_symbol, workspace_size_symbol, write_shared};
pub use unwind::Unwind;
pub use write::{architecture, write};
