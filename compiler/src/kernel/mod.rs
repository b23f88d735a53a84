//! See docs/architecture.md.

pub mod body;
pub mod elementwise;
pub mod eval;
pub mod index;
pub mod ir;
pub mod math;
pub mod storage;
