//! The ground floor of Brolga: element types, shapes, layouts, literals, the C ABI of compiled programs, the
//! in-memory loader (feature `loader`) and the services that a program may ask of its host.
//!
//! A binary that links precompiled kernels depends on this crate alone.

pub mod abi;
pub mod custom_call;
pub mod devices;
pub mod display;
mod element_type;
pub mod feed;
pub mod files;
mod index;
mod layout;
mod literal;
#[cfg(feature = "loader")]
pub mod loader;
pub mod narrow;
pub mod npy;
mod padding;
pub mod pool;
mod program;
mod scalar;
pub mod services;
mod shape;
pub mod store;
mod tuple_buffer;

pub use custom_call::{ArrayView, ArrayViewMut, CustomCall, CustomCallResult, CustomCalls};
pub use element_type::{ElementType, Kind, UnknownElementType};
pub use layout::Layout;
pub use literal::{ArrayLiteral, Literal, NativeType, OutOfMemory, room_for};
pub use padding::PaddingValue;
pub use program::{Caller, Error, LoadError, Program, RunError, RunOptions, Session, Sizes, UndefinedSymbol};
pub use scalar::Scalar;
pub use shape::{ArrayShape, Shape, TupleShape, row_major_strides};
pub use store::{Store, StoreError};
pub use tuple_buffer::TupleBuffer;

pub use half;
pub use num_complex;
