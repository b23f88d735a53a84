//! See docs/architecture.md.

pub mod body;
pub mod index;
pub mod ir;
