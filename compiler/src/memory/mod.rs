//! A buffer for every value.
//!
//! **Problem.** Kernels work on memory: the caller's parameters and results, constants, and one workspace whose size must
//! be known beforehand.
//!
//! **Invariant.** When a step reads a value, the value's location holds it: nothing else has been written there since.

pub mod assign;
pub mod build;
pub mod schedule;
mod text;

pub use assign::assign;
pub use build::build;
