//! How a module keeps what is declared of its parameters: as frontend attributes, so that every form of a module has it.

use super::{AttrKey, AttrValue, Instruction};
use brolga_runtime::abi::TensorFlags;

/// The name of the attribute, in front of its value.
const KEY: &str = "brolga.tensor=\"";

/// The attributes of the tensor that a parameter is; `None` where nothing is declared of it.
pub fn tensor_flags(parameter: &Instruction) -> Option<TensorFlags> {
    let Some(AttrValue::Raw(text)) = parameter.attrs.get(AttrKey::FrontendAttributes) else { return None };
    let at = text.find(KEY).filter(|at| text.get(..*at).is_some_and(|before| before.ends_with(['{', ',', ' '])))?;
    let (value, _) = text.get(at + KEY.len()..)?.split_once('"')?;
    value.parse().ok()
}

/// Declares that a parameter is a tensor of these attributes. It has no other frontend attributes.
pub fn set_tensor_flags(parameter: &mut Instruction, flags: TensorFlags) {
    parameter.attrs.set(AttrKey::FrontendAttributes, AttrValue::Raw(format!("{{{KEY}{flags}\"}}")));
}
