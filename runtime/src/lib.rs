//! The ground floor of Brolga: element types, shapes, layouts, literals, the C ABI of compiled programs, the
//! in-memory loader (feature `loader`) and the services that a program may ask of its host.
//!
//! A binary that links precompiled kernels depends on this crate alone.

pub mod abi;
mod element_type;
mod layout;
mod literal;
#[cfg(feature = "loader")]
pub mod loader;
pub mod narrow;
pub mod pool;
mod program;
mod scalar;
mod shape;
pub mod tiles;

pub use element_type::{ElementType, Kind, UnknownElementType};
pub use layout::Layout;
pub use literal::{ArrayLiteral, Literal, NativeType};
pub use program::{Caller, LoadError, Program, RunError, RunOptions, Session};
pub use scalar::Scalar;
pub use shape::{ArrayShape, Shape, row_major_strides};

pub use half;
pub use num_complex;
