//! StableHLO: the readers, the conversion to HLO, and the way back.
//!
//! Problem: JAX, PyTorch/XLA and TensorFlow hand out StableHLO, as text that a person may write and as portable
//! artifacts, with functions, regions that see the values around them, and sizes left open. Invariant: a reader makes an
//! [`ir::Program`] in the current generic form, whatever was read; one conversion makes an [`hlo::Module`](crate::hlo::Module)
//! of it, and that module's shapes follow from the rules of [`crate::shape`]. Algorithm: `text` (and the bytecode's reader)
//! produce the program; `lower` converts function by function. `emit` makes a program of a module, and `print` its text.

mod algorithms;
pub mod bytecode;
mod emit;
pub mod export;
pub mod ir;
mod lower;
mod print;
mod text;

#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::hlo::Module;
use brolga_runtime::Shape;
use brolga_runtime::abi::OpenDimension;
use std::fmt;

/// What a reader is told besides the program.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Shapes of arguments whose sizes the program leaves open.
    pub shapes: Vec<(Argument, Shape)>,
    /// Sizes of arguments, such as those of a run's inputs, for open sizes that `shapes` says nothing of.
    pub sizes: Vec<(Argument, Vec<i64>)>,
}

/// Which argument of the entry function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// By its number, from 0.
    Number(usize),
    /// By the name that the program gives it.
    Name(String),
}

impl From<usize> for Argument {
    fn from(number: usize) -> Argument {
        Argument::Number(number)
    }
}

impl From<&str> for Argument {
    fn from(name: &str) -> Argument {
        Argument::Name(name.to_owned())
    }
}

/// `argument 0`, `argument 'x'`.
impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Number(number) => write!(f, "argument {number}"),
            Argument::Name(name) => write!(f, "argument '{name}'"),
        }
    }
}

/// Reads StableHLO text, pretty or generic, and converts it.
///
/// # Errors
/// `Syntax` for what is not MLIR, `Invalid` for what breaks a rule, `Unsupported` for what has no counterpart in HLO.
pub fn read_text(source: &str, options: &ReadOptions) -> Result<Module> {
    lower(&parse(source)?, options)
}

/// Reads StableHLO text, pretty or generic.
///
/// # Errors
/// `Syntax` for what is not MLIR, `Unsupported` for forms of MLIR that StableHLO programs do not have.
pub fn parse(source: &str) -> Result<ir::Program> {
    text::parse(source)
}

/// The dimensions of the entry's arguments whose sizes a program leaves open, by the leaves of the arguments.
///
/// # Errors
/// `Invalid` where the program has no entry, `Unsupported` where the number of dimensions is open too.
pub fn open_dimensions(program: &ir::Program) -> Result<Vec<OpenDimension>> {
    lower::open_dimensions(program)
}

/// Converts a program that a reader made. Shapes are not verified beyond the rules of single instructions.
///
/// # Errors
/// `Invalid` for what breaks a rule, `Unsupported` for what has no counterpart in HLO.
pub fn lower(program: &ir::Program, options: &ReadOptions) -> Result<Module> {
    lower::lower(program, options)
}

/// Converts a module to StableHLO, with CHLO where StableHLO lacks an operation.
///
/// # Errors
/// `Unsupported` for what has no form there: it names the instruction, its line and its opcode.
pub fn emit(module: &Module) -> Result<ir::Program> {
    emit::emit(module)
}

/// The text of a program: the generic form of its operations, which every reader of StableHLO takes.
pub fn print(program: &ir::Program) -> String {
    print::print(program)
}

/// The StableHLO text of a module.
///
/// # Errors
/// As for [`emit()`].
pub fn write_text(module: &Module) -> Result<String> {
    Ok(print(&emit(module)?))
}
