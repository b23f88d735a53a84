//! Portable artifacts: MLIR bytecode with the VHLO dialect.
//!
//! Problem: frameworks hand out StableHLO as bytecode whose operations carry the version in which each was defined
//! (`dot_general_v1`, `dot_general_v2`), and an artifact of any version since 0.9 must read to the program that its text is.
//! Invariant: [`read`] makes an [`ir::Program`] in the current generic form; defaults that VHLO writes out are left out, and
//! attributes that it takes apart are put together.
//!
//! Algorithm: `sections` splits the file into its tables without looking into them; `attributes` decodes an attribute, a type or
//! a location when it is first asked for; `operations` walks the regions and numbers the values; `vhlo` undoes versions,
//! operation by operation. Facts: MLIR's «Bytecode Format», and StableHLO's compatibility guarantees: no code is ever reused.
//!
//! Input may be hostile. Counts are checked against the bytes that are left; entries may name each other, so cycles, depth and
//! the size of what a few bytes stand for are limited ([`MAX_NODES`]).

mod attributes;
mod operations;
mod properties;
mod reader;
mod sections;
mod vhlo;

#[cfg(test)]
mod tests;

pub use vhlo::strip_defaults;

use super::ir;
use crate::error::{Error, Result, Site};

/// Parts of attributes and types that one file may stand for altogether: an entry counts again wherever it is used.
const MAX_NODES: usize = 8 << 20;

/// Reads a portable artifact.
///
/// # Errors
/// `Syntax` for bytes that are no such artifact, `Unsupported` for dialects and forms that StableHLO does not have.
pub fn read(bytes: &[u8]) -> Result<ir::Program> {
    let container = sections::Container::read(bytes)?;
    operations::program(&container)
}

fn malformed(message: impl Into<String>) -> Error {
    Error::Syntax { site: Site::default(), message: format!("bytecode: {}", message.into()) }
}

fn unsupported(feature: impl Into<String>) -> Error {
    Error::Unsupported { site: Site::default(), feature: feature.into() }
}
