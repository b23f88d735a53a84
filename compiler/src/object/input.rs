//! What codegen hands over: functions and data by the numbers of a module, and what they refer to.

use super::lines::Lines;
use super::unwind::Unwind;
use crate::error::{Error, Result, Site};
use brolga_runtime::abi::DescriptorInfo;
use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{Function, Signature, UserExternalName};
use cranelift_codegen::isa::unwind::{UnwindInfo, UnwindInfoKind};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_entity::SecondaryMap;
use cranelift_module::{
    DataDeclaration, DataDescription, DataId, FuncId, FuncOrDataId, FunctionDeclaration, Linkage, ModuleDeclarations,
    ModuleError, ModuleReloc, ModuleRelocTarget,
};

/// Everything that goes into one object file, while it is collected and afterwards. Functions and data are declared, which
/// numbers them, and defined; references name the numbers. Programs that share an object (its sizes, its computations, its
/// levels) declare into the same input, so nothing is ever numbered anew.
#[derive(Default)]
pub struct ObjectInput {
    declarations: ModuleDeclarations,
    functions: SecondaryMap<FuncId, Option<CompiledFunction>>,
    data: SecondaryMap<DataId, Option<DataDescription>>,
    descriptors: Vec<(DataId, DescriptorInfo)>,
    lines: Option<Lines>,
}

impl ObjectInput {
    /// An object without anything in it.
    pub fn new() -> ObjectInput {
        ObjectInput::default()
    }

    /// Declares a function that is to be defined here. Those exported are the descriptors' entries in their order and, of a
    /// program for several sizes, the selector behind them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where a custom call has the name, [`Error::Internal`] where the name is taken or impossible.
    pub fn function(&mut self, symbol: &str, exported: bool, signature: &Signature) -> Result<FuncId> {
        self.free(symbol)?;
        let linkage = if exported { Linkage::Export } else { Linkage::Local };
        let (id, _) = self.declarations.declare_function(symbol, linkage, signature).map_err(refused)?;
        Ok(id)
    }

    /// Declares a function outside the object, a custom call's: the same symbol is the same function.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where something of the object's own has the name.
    pub fn import(&mut self, symbol: &str) -> Result<FuncId> {
        match self.declarations.get_name(symbol) {
            Some(FuncOrDataId::Func(id)) if self.is_import(id) => return Ok(id),
            Some(_) => return Err(taken_by_a_call(symbol)),
            None => possible(symbol)?,
        }
        // What it is called with is said where it is called.
        let any = Signature::new(CallConv::SystemV);
        let (id, _) = self.declarations.declare_function(symbol, Linkage::Import, &any).map_err(refused)?;
        Ok(id)
    }

    /// Declares and defines data of this object alone. Data of the same name and contents are the same.
    ///
    /// # Errors
    /// As [`ObjectInput::function`], and [`Error::Internal`] where data of the same name differ.
    pub fn datum(&mut self, symbol: &str, writable: bool, contents: DataDescription) -> Result<DataId> {
        if let Some(FuncOrDataId::Data(id)) = self.declarations.get_name(symbol) {
            let same = self.data[id]
                .as_ref()
                .is_some_and(|known| known.init == contents.init && known.align == contents.align);
            return if same { Ok(id) } else { internal(format!("there are two different data '{symbol}'")) };
        }
        self.free(symbol)?;
        let (id, _) = self.declarations.declare_data(symbol, Linkage::Local, writable, false).map_err(refused)?;
        self.data[id] = Some(contents);
        Ok(id)
    }

    /// Adds what the program, or one of its sizes or computations, says of itself. The hash is computed when the object is
    /// written.
    ///
    /// # Errors
    /// As [`ObjectInput::function`].
    pub fn describe(&mut self, descriptor: DescriptorInfo) -> Result<DataId> {
        let symbol = descriptor.descriptor_symbol();
        self.free(&symbol)?;
        let (id, _) = self.declarations.declare_data(&symbol, Linkage::Export, false, false).map_err(refused)?;
        self.descriptors.push((id, descriptor));
        Ok(id)
    }

    /// The code of a function that was declared.
    ///
    /// # Errors
    /// [`Error::Internal`] where it is defined already.
    pub fn define(&mut self, id: FuncId, function: CompiledFunction) -> Result<()> {
        match self.functions[id].replace(function) {
            None => Ok(()),
            Some(_) => internal(format!("'{}' is defined twice", self.function_name(id))),
        }
    }

    /// What the code comes from, by the numbers that functions name; `new` makes it where there is none yet.
    ///
    /// # Errors
    /// Those of `new`.
    pub fn lines_of(&mut self, new: impl FnOnce() -> Result<Lines>) -> Result<&mut Lines> {
        let lines = match self.lines.take() {
            Some(lines) => lines,
            None => new()?,
        };
        Ok(self.lines.insert(lines))
    }

    /// What the code comes from, where debuggers are to know.
    pub fn lines(&self) -> Option<&Lines> {
        self.lines.as_ref()
    }

    /// The functions, those outside the object too, in the order of their numbers.
    pub fn functions(&self) -> impl Iterator<Item = (FuncId, &FunctionDeclaration)> {
        self.declarations.get_functions()
    }

    /// The data, descriptors too, in the order of their numbers.
    pub fn data(&self) -> impl Iterator<Item = (DataId, &DataDeclaration)> {
        self.declarations.get_data_objects()
    }

    /// A function's code, where it is of this object and defined.
    pub fn code(&self, id: FuncId) -> Option<&CompiledFunction> {
        self.functions[id].as_ref()
    }

    /// The contents of data, where they are defined; a descriptor has none before the object is written.
    pub fn contents(&self, id: DataId) -> Option<&DataDescription> {
        self.data[id].as_ref()
    }

    /// The descriptors.
    pub fn descriptors(&self) -> &[(DataId, DescriptorInfo)] {
        &self.descriptors
    }

    /// A function's symbol.
    pub fn function_name(&self, id: FuncId) -> String {
        self.declarations.get_function_decl(id).linkage_name(id).into_owned()
    }

    /// Whether a function lies outside the object.
    pub fn is_import(&self, id: FuncId) -> bool {
        self.declarations.get_function_decl(id).linkage == Linkage::Import
    }

    /// The symbol of what a reference of this object's leads to.
    pub fn name_of(&self, referent: Referent) -> String {
        match referent {
            Referent::Function(id) => self.function_name(id),
            Referent::Data(id) => self.declarations.get_data_decl(id).linkage_name(id).into_owned(),
            Referent::Here(offset) => format!(".+{offset:#x}"),
        }
    }

    /// That a name can be given to something of this object.
    fn free(&self, symbol: &str) -> Result<()> {
        match self.declarations.get_name(symbol) {
            None => possible(symbol),
            Some(FuncOrDataId::Func(id)) if self.is_import(id) => Err(taken_by_a_call(symbol)),
            Some(_) => internal(format!("the symbol '{symbol}' is used twice")),
        }
    }
}

fn internal<T>(message: String) -> Result<T> {
    Err(Error::Internal(message))
}

/// A module's refusal as an error of ours.
pub(super) fn refused(e: ModuleError) -> Error {
    Error::Internal(format!("the object cannot be put together: {e}"))
}

fn possible(symbol: &str) -> Result<()> {
    if symbol.is_empty() || symbol.contains('\0') {
        return internal(format!("the symbol '{symbol}' is impossible"));
    }
    Ok(())
}

fn taken_by_a_call(symbol: &str) -> Error {
    let feature = format!("a custom call of '{symbol}', which is a symbol of the program's own");
    Error::Unsupported { site: Site::default(), feature }
}

/// What a module numbers.
pub trait Numbered {
    /// The name by which CLIF refers to it.
    fn external_name(self) -> UserExternalName;
}

impl Numbered for FuncId {
    fn external_name(self) -> UserExternalName {
        UserExternalName { namespace: FUNCTIONS, index: self.as_u32() }
    }
}

impl Numbered for DataId {
    fn external_name(self) -> UserExternalName {
        UserExternalName { namespace: DATA, index: self.as_u32() }
    }
}

/// The namespaces of [`ModuleRelocTarget`].
const FUNCTIONS: u32 = 0;
const DATA: u32 = 1;

/// What a reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Referent {
    /// A function of this object or outside.
    Function(FuncId),
    /// Data.
    Data(DataId),
    /// So many bytes behind the start of the function itself.
    Here(u32),
}

impl Referent {
    /// What a target stands for; `None` for a function of a library.
    pub fn of(target: &ModuleRelocTarget) -> Option<Referent> {
        match *target {
            ModuleRelocTarget::User { namespace: FUNCTIONS, index } => {
                Some(Referent::Function(FuncId::from_u32(index)))
            }
            ModuleRelocTarget::User { namespace: DATA, index } => Some(Referent::Data(DataId::from_u32(index))),
            ModuleRelocTarget::FunctionOffset(_, offset) => Some(Referent::Here(offset)),
            ModuleRelocTarget::User { .. } | ModuleRelocTarget::LibCall(_) | ModuleRelocTarget::KnownSymbol(_) => None,
        }
    }
}

/// One function's machine code.
#[derive(Clone)]
pub struct CompiledFunction {
    /// Alignment of its first byte.
    pub alignment: u64,
    /// The machine code.
    pub code: Vec<u8>,
    /// What it refers to.
    pub relocs: Vec<ModuleReloc>,
    /// How the frame of its caller is found.
    pub unwind: Unwind,
    /// From which byte on the code comes from which of the object's sources ([`ObjectInput::lines`]), from the first byte on
    /// and in order; empty where that is not known.
    pub lines: Vec<(u32, u32)>,
    /// Its instructions as Cranelift prints them; empty where nobody asked.
    pub text: String,
}

impl CompiledFunction {
    /// Takes over what Cranelift produced for `func`, the function of that number. What is marked with no source belongs to
    /// what stands before it, and at the start to the source `own`; without that there are no lines.
    ///
    /// # Errors
    /// Where the code calls into a library: such CLIF must not be emitted.
    pub fn from_compiled(
        id: FuncId,
        func: &Function,
        compiled: &CompiledCode,
        isa: &dyn TargetIsa,
        own: Option<u32>,
    ) -> Result<Self> {
        let mut relocs = Vec::with_capacity(compiled.buffer.relocs().len());
        for reloc in compiled.buffer.relocs() {
            let reloc = ModuleReloc::from_mach_reloc(reloc, func, id);
            if Referent::of(&reloc.name).is_none() {
                return internal(format!("the code would call the library function {}", reloc.name));
            }
            relocs.push(reloc);
        }
        let alignment = u64::from(compiled.buffer.alignment);
        let unwind = match compiled.create_unwind_info_of_kind(isa, UnwindInfoKind::SystemV) {
            Ok(Some(UnwindInfo::SystemV(info))) => Unwind::Cranelift(info),
            Ok(other) => return internal(format!("unwind information of another kind: {other:?}")),
            Err(e) => return internal(format!("there is no unwind information: {e}")),
        };
        let marked = compiled.buffer.get_srclocs_sorted().iter().filter(|at| !at.loc.is_default());
        let lines = own.map(|own| lines(own, marked.map(|at| (at.start, at.loc.bits()))));
        let code = compiled.code_buffer().to_vec();
        let text = compiled.vcode.clone().unwrap_or_default();
        Ok(CompiledFunction { alignment, code, relocs, unwind, lines: lines.unwrap_or_default(), text })
    }
}

/// The lines of a function: `own` from its start on, and then each source from where it begins, in order.
pub fn lines(own: u32, begins: impl IntoIterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut out = vec![(0, own)];
    for (offset, source) in begins {
        match out.last_mut() {
            Some(last) if last.0 == offset => last.1 = source,
            Some(last) if last.1 == source => {}
            _ => out.push((offset, source)),
        }
    }
    out
}

/// Bytes as data, aligned so.
pub fn bytes(alignment: u64, bytes: Vec<u8>) -> DataDescription {
    let mut data = DataDescription::new();
    data.define(bytes.into_boxed_slice());
    data.set_align(alignment);
    data
}

/// So many zeros as data, aligned so.
pub fn zeros(alignment: u64, size: usize) -> DataDescription {
    let mut data = DataDescription::new();
    data.define_zeroinit(size);
    data.set_align(alignment);
    data
}
