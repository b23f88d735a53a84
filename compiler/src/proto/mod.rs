//! XLA's protocol buffers: `HloModuleProto`, `HloProto`, `HloSnapshot` and `HloUnoptimizedSnapshot`, read and written.
//!
//! Problem: XLA dumps programs as serialized messages, alone, wrapped, or together with the inputs of a run, and its tools read
//! nothing else. Invariant: a message gives the module that XLA's text of it gives ([`crate::text`]): the same attributes
//! are present, and what the module keeps as text is spelled as XLA spells it; [`write()`] gives a message that reads back to a
//! module that prints the same, or refuses what a message has no field for.
//!
//! Algorithm: `message` declares the messages by XLA's field numbers; `envelope` finds the module by looking for
//! computations of instructions with known opcodes, one, two or three fields deep; `read` resolves ids in one pass, for
//! operands stand before their users and callees before their callers, as XLA writes them. `kept` turns what the module keeps
//! as text into messages and back.
//!
//! Input may be hostile: nesting is limited by the decoder (100 levels), what comes in great numbers is decoded one at a time,
//! and a literal's storage is made only once its bytes are known to be there.

mod attributes;
mod collective;
mod envelope;
pub(crate) mod kept;
mod literal;
mod message;
mod origins;
mod read;
mod shape;
mod sharding;
mod write;

#[cfg(test)]
mod tests;

pub use origins::Origins;

use crate::hlo::{AttrKey, Instruction, Module};
use crate::{Error, Result, Site};
use brolga_runtime::Literal;

/// A program, and what it was run on where the message tells.
#[derive(Clone, Debug)]
pub struct Read {
    /// The program. Its shapes are not verified, see [`crate::shape::verify`].
    pub module: Module,
    /// The inputs of an `HloSnapshot`, one for each parameter, of an `HloUnoptimizedSnapshot` device by device; empty in other
    /// messages.
    pub inputs: Vec<Literal>,
}

/// Reads a serialized `HloModuleProto`, `HloProto`, `HloSnapshot` or `HloUnoptimizedSnapshot`, told apart by content.
///
/// # Errors
/// `Syntax` for bytes that are no such message or that do not make a module, naming instruction and field; `Unsupported` for
/// what a module here has no place for.
pub fn read(bytes: &[u8]) -> Result<Read> {
    read::read(bytes)
}

/// Writes a module as an `HloModuleProto`.
///
/// Numbers of replicas and partitions and the rest of XLA's `HloModuleConfig` have no field there and are left out.
///
/// # Errors
/// `Unsupported` for an attribute that the message has no field for, and for a constant whose value the text left out.
pub fn write(module: &Module) -> Result<Vec<u8>> {
    write::write(module)
}

/// What an instruction was made from, as its metadata say: of a parameter of a JAX program the argument, such as
/// `params['w']`.
pub fn op_name(instruction: &Instruction) -> Option<String> {
    let metadata = kept::metadata_message(instruction.attrs.raw(AttrKey::Metadata)?).ok()?;
    Some(metadata.op_name).filter(|name| !name.is_empty())
}

/// A message that breaks the form: `what` was found in the instruction or computation called `name`.
fn malformed(name: &str, what: impl Into<String>) -> Error {
    let instruction = (!name.is_empty()).then(|| name.to_owned());
    Error::Syntax { site: Site { instruction, ..Site::default() }, message: what.into() }
}

/// Something valid without a place here.
fn unsupported(name: &str, feature: impl Into<String>) -> Error {
    let instruction = (!name.is_empty()).then(|| name.to_owned());
    Error::Unsupported { site: Site { instruction, ..Site::default() }, feature: feature.into() }
}

/// Names `instruction` in an error that names none.
fn named(error: Error, instruction: &str) -> Error {
    match error {
        Error::Syntax { mut site, message } => {
            site.instruction.get_or_insert_with(|| instruction.to_owned());
            Error::Syntax { site, message }
        }
        Error::Unsupported { mut site, feature } => {
            site.instruction.get_or_insert_with(|| instruction.to_owned());
            Error::Unsupported { site, feature }
        }
        other => other,
    }
}
