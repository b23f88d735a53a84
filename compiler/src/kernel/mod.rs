//! See docs/architecture.md.

pub mod body;
pub mod index;
