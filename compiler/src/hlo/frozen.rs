//! Constants that were parameters, marked by a frontend attribute, so that every form of a module keeps it.

use super::{AttrKey, AttrValue, Attrs, Instruction, Opcode};

/// The frontend attributes of such a constant.
const FROZEN: &str = "{brolga.frozen=\"true\"}";

/// Marks a constant.
pub fn set_frozen(attrs: &mut Attrs) {
    attrs.set(AttrKey::FrontendAttributes, AttrValue::Raw(FROZEN.to_owned()));
}

/// Whether this is a constant that was a parameter, or was computed from one.
pub fn is_frozen(instruction: &Instruction) -> bool {
    instruction.opcode == Opcode::Constant && instruction.attrs.raw(AttrKey::FrontendAttributes) == Some(FROZEN)
}
