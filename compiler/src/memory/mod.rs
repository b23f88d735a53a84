//! See docs/architecture.md.

pub mod schedule;
