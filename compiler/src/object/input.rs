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
}

/// Everything that goes into one object file.
#[derive(Clone, Debug)]
pub struct ObjectInput {
    /// The functions. Exactly one is exported, and its symbol is the descriptor's entry.
    pub functions: Vec<CompiledFunction>,
    /// Constants and other data.
    pub data: Vec<DataObject>,
    /// Undefined symbols: the functions of custom calls.
    pub imports: Vec<String>,
    /// What the program says of itself. Its hash is computed here.
    pub descriptor: DescriptorInfo,
}

/// One function's machine code.
#[derive(Clone, Debug)]
pub struct CompiledFunction {
    /// Its symbol.
    pub symbol: String,
    /// True for the entry function only.
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
#[derive(Clone, Debug)]
pub struct DataObject {
    /// Its symbol.
    pub symbol: String,
    /// Alignment of its first byte.
    pub alignment: u64,
    /// True where the program writes to it. Programs should not: they would not be reentrant.
    pub writable: bool,
    /// Its bytes.
    pub init: DataInit,
    /// Pointers in it.
    pub relocs: Vec<DataReloc>,
}

/// The bytes of a [`DataObject`].
#[derive(Clone, Debug)]
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
