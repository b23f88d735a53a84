//! First floor of Brolga: HLO in, object bytes out.
//!
//! The rooms stand here in the order that data flows through them; `docs/architecture.md` in the repository describes
//! each. Every arrow points down this list.

pub mod freeze;
pub mod front;
pub mod parameters;

pub mod proto;
pub mod stablehlo;
pub mod text;

pub mod tensor;

pub mod gradient;

pub mod builder;
pub mod hlo;
pub mod shape;

pub mod arithmetic;
pub mod collective;
pub mod custom_call;
pub mod interp;
pub mod passes;
pub mod reduce;

pub mod fusion;
pub mod kernel;
pub mod schedule;

pub mod memory;

pub mod sources;

pub mod codegen;
pub mod object;

pub mod survey;

pub mod aot;

mod decimal;
mod driver;
mod error;

/// The Rust of the pages compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/guide.md")]
struct Pages;

pub use driver::{
    Artifact, CompileOptions, ProgramArtifact, SizedArtifact, Timings, compile, compile_computations, compile_kernel,
    compile_sizes, compile_sizes_with, compile_with, size_of, symbol_name,
};
pub use error::{Error, Result, Site, shortened, suggestion};
pub use freeze::freeze;
pub use object::LineTable;
pub use sources::DebugLines;
