//! Brolga in one crate: tensor programs read or built, compiled and run.
//!
//! Problem: a program that only wants a kernel to run should not have to know which crate reads, which compiles and which
//! loads. Invariant: nothing happens here that the two floors below do not do: [`compiler`] and [`runtime`] are whole, and
//! what these functions return is theirs. Algorithm: [`jit`] compiles for the machine at hand and loads the object;
//! [`read`] verifies what the front door read.
//!
//! ```
//! use brolga::builder::{ArrayLiteral, Builder, ElementType, Shape};
//!
//! let b = Builder::new("softmax");
//! let x = b.parameter(0, Shape::array(ElementType::F32, [2, 2]), "x");
//! b.softmax(x, -1);
//! let x = ArrayLiteral::from_elements(&[2, 2], &[1f32, 1.0, 0.0, 0.0]);
//! let y = brolga::jit(&b.build()?)?.run(&[&x])?;
//! assert_eq!(y[0].as_slice::<f32>(), [0.5; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A `build.rs` that precompiles needs [`aot`] and no more, and the binary then `brolga-runtime` alone. The command line is
//! the module `command`, behind the default feature `cli`: a library without it depends on
//! `brolga = { default-features = false }`.

#[cfg(feature = "cli")]
pub mod command;

pub use brolga_compiler as compiler;
pub use brolga_compiler::{CompileOptions, aot, builder, compile, freeze, gradient, tensor};
pub use brolga_runtime as runtime;
pub use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program, RunOptions, Session, Shape, Store};

use brolga_compiler::front::{self, ReadOptions};
use brolga_compiler::hlo::Module;
use brolga_compiler::shape;
use std::path::{Path, PathBuf};

/// Why a program could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// The program is invalid, or not supported.
    #[error(transparent)]
    Compile(#[from] brolga_compiler::Error),
    /// What was compiled cannot be used here.
    #[error(transparent)]
    Load(#[from] brolga_runtime::LoadError),
}

/// A program that is ready to run in this process, compiled for the machine at hand.
///
/// ```
/// # use brolga::builder::{ArrayLiteral, Builder, ElementType, Shape};
/// # let b = Builder::new("double");
/// # let x = b.parameter(0, Shape::array(ElementType::F32, [2]), "x");
/// # b.add(x, x);
/// # let module = b.build()?;
/// let program = brolga::jit(&module)?;
/// let y = program.run(&[&ArrayLiteral::from_elements(&[2], &[1f32, 2.0])])?;
/// assert_eq!(y[0].to_string(), "f32[2] {2, 4}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`compile`], and where a custom call's function cannot be had.
pub fn jit(module: &Module) -> Result<Program, Error> {
    Ok(Program::from_object(&compile(module, &CompileOptions::native())?.object)?)
}

/// Reads a program from a file, in any of the forms that [`compiler::front`] knows, and verifies it.
///
/// ```no_run
/// let program = brolga::jit(&brolga::read("model.hlo")?)?;
/// # Ok::<(), brolga::Error>(())
/// ```
///
/// # Errors
/// Where the file cannot be read, or holds no valid program.
pub fn read(path: impl AsRef<Path>) -> Result<Module, Error> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|reason| Error::File { path: path.to_owned(), reason })?;
    let ending = path.extension().and_then(|e| e.to_str());
    let module = front::read(&bytes, ending, &ReadOptions::default())?.module;
    shape::verify(&module)?;
    Ok(module)
}
