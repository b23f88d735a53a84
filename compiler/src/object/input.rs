//! What codegen hands over: machine code, data and what they refer to.

use crate::{Error, Result};
use brolga_runtime::abi::DescriptorInfo;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{ExternalName, Function};
use cranelift_codegen::{CompiledCode, FinalizedMachReloc, FinalizedRelocTarget};

/// The namespaces of `UserExternalName` that codegen uses.
pub mod namespace {
    /// The index is that of a function in [`ObjectInput::functions`](super::ObjectInput::functions).
    pub const FUNCTION: u32 = 0;
    /// The index is that of a data object in [`ObjectInput::data`](super::ObjectInput::data).
    pub const DATA: u32 = 1;
    /// The index is that of a symbol in [`ObjectInput::imports`](super::ObjectInput::imports).
    pub const IMPORT: u32 = 2;
    /// The index is that of a descriptor in [`ObjectInput::descriptors`](super::ObjectInput::descriptors).
    pub const DESCRIPTOR: u32 = 3;
}

/// Everything that goes into one object file.
#[derive(Clone, Debug)]
pub struct ObjectInput {
    /// The functions. Those exported are the descriptors' entries in their order and, of a program for several sizes, the
    /// selector behind them.
    pub functions: Vec<CompiledFunction>,
    /// Constants and other data.
    pub data: Vec<DataObject>,
    /// Undefined symbols: the functions of custom calls.
    pub imports: Vec<String>,
    /// What the program says of itself, once for each computation, or size that it was compiled for. Hashes are computed
    /// here.
    pub descriptors: Vec<DescriptorInfo>,
}

impl ObjectInput {
    /// Puts the parts of one program, its sizes or its computations, into one object. Their symbols must differ. The second
    /// value has the number of each part's entry function.
    ///
    /// # Errors
    /// Where a part refers to an import that it does not have, and where symbols are too many.
    pub fn merge(parts: Vec<ObjectInput>) -> Result<(ObjectInput, Vec<u32>)> {
        let mut all =
            ObjectInput { functions: Vec::new(), data: Vec::new(), imports: Vec::new(), descriptors: Vec::new() };
        let mut entries = Vec::new();
        for part in parts {
            let base = |n: usize| u32::try_from(n).map_err(|_| Error::Internal("too many symbols".into()));
            let (functions, data, descriptors) =
                (base(all.functions.len())?, base(all.data.len())?, base(all.descriptors.len())?);
            // The same function outside the object is one symbol for all sizes.
            let mut imports = Vec::with_capacity(part.imports.len());
            for symbol in part.imports {
                let known = all.imports.iter().position(|s| *s == symbol);
                imports.push(base(known.unwrap_or(all.imports.len()))?);
                if known.is_none() {
                    all.imports.push(symbol);
                }
            }
            let moved = |target: Target| -> Result<Target> {
                Ok(match target {
                    Target::Function(i) => Target::Function(functions + i),
                    Target::Data(i) => Target::Data(data + i),
                    Target::Descriptor(i) => Target::Descriptor(descriptors + i),
                    Target::Here(offset) => Target::Here(offset),
                    Target::Import(i) => {
                        let import = imports.get(i as usize).copied();
                        Target::Import(import.ok_or_else(|| Error::Internal(format!("there is no import {i}")))?)
                    }
                })
            };
            for mut function in part.functions {
                for reloc in &mut function.relocs {
                    reloc.target = moved(reloc.target)?;
                }
                if function.exported {
                    entries.push(base(all.functions.len())?);
                }
                all.functions.push(function);
            }
            for mut object in part.data {
                for reloc in &mut object.relocs {
                    reloc.target = moved(reloc.target)?;
                }
                all.data.push(object);
            }
            all.descriptors.extend(part.descriptors);
        }
        Ok((all, entries))
    }
}

/// One function's machine code.
#[derive(Clone, Debug)]
pub struct CompiledFunction {
    /// Its symbol.
    pub symbol: String,
    /// True for entry functions and the selector.
    pub exported: bool,
    /// Alignment of its first byte.
    pub alignment: u64,
    /// The machine code.
    pub code: Vec<u8>,
    /// What it refers to.
    pub relocs: Vec<CodeReloc>,
}

/// A place in machine code to be filled in with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeReloc {
    /// Where, from the start of the function.
    pub offset: u32,
    /// How.
    pub kind: Reloc,
    /// With whose address.
    pub target: Target,
    /// Added to the address.
    pub addend: i64,
}

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A function of this object.
    Function(u32),
    /// A data object of this object.
    Data(u32),
    /// An undefined symbol.
    Import(u32),
    /// A descriptor.
    Descriptor(u32),
    /// A place in the function itself.
    Here(u32),
}

impl CompiledFunction {
    /// Takes over what Cranelift produced for `func`.
    ///
    /// # Errors
    /// Where the code calls into a library: such CLIF must not be emitted.
    pub fn from_compiled(symbol: String, exported: bool, func: &Function, compiled: &CompiledCode) -> Result<Self> {
        let relocs = compiled
            .buffer
            .relocs()
            .iter()
            .map(|reloc| CodeReloc::from_cranelift(reloc, func))
            .collect::<Result<_>>()
            .map_err(|e| Error::Internal(format!("function '{symbol}': {}", e.message())))?;
        let alignment = u64::from(compiled.buffer.alignment);
        Ok(CompiledFunction { symbol, exported, alignment, code: compiled.code_buffer().to_vec(), relocs })
    }
}

impl CodeReloc {
    /// Translates Cranelift's relocation by the names that `func` declares.
    ///
    /// # Errors
    /// Where it refers to a library call or to a name outside the [`namespace`]s.
    pub fn from_cranelift(reloc: &FinalizedMachReloc, func: &Function) -> Result<CodeReloc> {
        let target = match &reloc.target {
            FinalizedRelocTarget::Func(offset) => Target::Here(*offset),
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
                let Some(name) = func.params.user_named_funcs().get(*name) else {
                    return Err(Error::Internal(format!("undeclared name {name} in a relocation")));
                };
                match name.namespace {
                    namespace::FUNCTION => Target::Function(name.index),
                    namespace::DATA => Target::Data(name.index),
                    namespace::IMPORT => Target::Import(name.index),
                    namespace::DESCRIPTOR => Target::Descriptor(name.index),
                    other => return Err(Error::Internal(format!("unknown namespace {other} in a relocation"))),
                }
            }
            FinalizedRelocTarget::ExternalName(other) => {
                return Err(Error::Internal(format!("the code would call the library function {other:?}")));
            }
        };
        Ok(CodeReloc { offset: reloc.offset, kind: reloc.kind, target, addend: reloc.addend })
    }
}

/// One piece of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataObject {
    /// Its symbol.
    pub symbol: String,
    /// Alignment of its first byte.
    pub alignment: u64,
    /// True where the program writes to it, which only the choice of a level may: programs are reentrant.
    pub writable: bool,
    /// Its bytes.
    pub init: DataInit,
    /// Pointers in it.
    pub relocs: Vec<DataReloc>,
}

/// The bytes of a [`DataObject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataInit {
    /// Given.
    Bytes(Vec<u8>),
    /// So many zeros.
    Zeros(u64),
}

/// A pointer in a [`DataObject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataReloc {
    /// Where.
    pub offset: u64,
    /// To what. [`Target::Here`] is relative to the data object.
    pub target: Target,
    /// Added to the address.
    pub addend: i64,
}

impl DataObject {
    /// Read-only bytes.
    pub fn constant(symbol: impl Into<String>, alignment: u64, bytes: Vec<u8>) -> DataObject {
        DataObject {
            symbol: symbol.into(),
            alignment,
            writable: false,
            init: DataInit::Bytes(bytes),
            relocs: Vec::new(),
        }
    }
}
