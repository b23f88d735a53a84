//! Which message the bytes are.
//!
//! The messages have no signature, and each begins with a field of number 1 that has a length: a name in an `HloModuleProto`,
//! the module in an `HloProto` and in an `HloUnoptimizedSnapshot`, an `HloProto` in an `HloSnapshot`. What tells is the
//! module itself: field 3 holds computations whose field 2 holds instructions with an opcode.

use super::malformed;
use super::message::Inputs;
use crate::Result;
use crate::hlo::Opcode;
use prost::Message;
use prost::bytes::{Buf, Bytes};

/// The bytes of the module, and those of the literals that came with it.
pub(super) struct Envelope {
    pub module: Bytes,
    pub inputs: Vec<Bytes>,
}

/// Looks for the module.
pub(super) fn open(bytes: Bytes) -> Result<Envelope> {
    if is_module(&bytes) {
        return Ok(Envelope { module: bytes, inputs: Vec::new() });
    }
    let none = || {
        malformed(
            "",
            "expected a serialized HloModuleProto, HloProto or HloSnapshot with a computation, found other bytes",
        )
    };
    let inner = last_field(&bytes, 1).ok_or_else(none)?;
    if is_module(&inner) {
        // An `HloProto` holds only buffers besides; field 2 is the inputs of an `HloUnoptimizedSnapshot`, device by device.
        let mut inputs = Vec::new();
        for device in fields(&bytes).filter(|f| f.number == 2).filter_map(|f| f.bytes) {
            let given = Inputs::decode(device).map_err(|e| malformed("", format!("the snapshot's inputs: {e}")))?;
            if given.arguments.is_empty() && !given.descriptors.is_empty() {
                return Err(super::unsupported("", "a snapshot whose inputs stand outside of its message"));
            }
            inputs.extend(given.arguments);
        }
        return Ok(Envelope { module: inner, inputs });
    }
    let module = last_field(&inner, 1).filter(is_module).ok_or_else(none)?;
    let inputs = fields(&bytes).filter(|f| f.number == 2).filter_map(|f| f.bytes).collect();
    Ok(Envelope { module, inputs })
}

/// Whether the first computation of what would be a module is one.
fn is_module(bytes: &Bytes) -> bool {
    let Some(computation) = fields(bytes).find(|f| f.number == 3).and_then(|f| f.bytes) else { return false };
    let Some(instruction) = fields(&computation).find(|f| f.number == 2).and_then(|f| f.bytes) else { return false };
    let opcode = fields(&instruction).find(|f| f.number == 2).and_then(|f| f.bytes);
    // An opcode that is not known here must still be told from a name: words of small letters with hyphens.
    let is_opcode = |text: &str| {
        Opcode::from_name(text).is_some()
            || text.contains('-') && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
    };
    opcode.is_some_and(|o| std::str::from_utf8(&o).is_ok_and(is_opcode))
}

/// One field of a message.
struct Field {
    number: u64,
    /// What it holds, where it has a length.
    bytes: Option<Bytes>,
}

/// The fields of what may be a message, up to the first that is none.
fn fields(bytes: &Bytes) -> impl Iterator<Item = Field> {
    let mut rest = bytes.clone();
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let skip = |rest: &mut Bytes, n: usize| {
            let enough = rest.remaining() >= n;
            enough.then(|| rest.advance(n))
        };
        let bytes = match key & 7 {
            0 => varint(&mut rest).map(|_| None)?,
            1 => skip(&mut rest, 8).map(|()| None)?,
            5 => skip(&mut rest, 4).map(|()| None)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok().filter(|&n| n <= rest.remaining())?;
                Some(rest.split_to(length))
            }
            _ => return None,
        };
        Some(Field { number: key >> 3, bytes })
    })
}

/// The last field of that number, which is the one that counts where a message repeats it.
fn last_field(bytes: &Bytes, number: u64) -> Option<Bytes> {
    fields(bytes).filter(|f| f.number == number).filter_map(|f| f.bytes).last()
}

fn varint(rest: &mut Bytes) -> Option<u64> {
    let mut value = 0u64;
    for place in 0..10 {
        if !rest.has_remaining() {
            return None;
        }
        let byte = rest.get_u8();
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
