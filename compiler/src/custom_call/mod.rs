//! Custom calls: what an instruction says to the function that it names.
//!
//! Problem: the calling convention, the text or the typed attributes for the function, tuples and layouts stand in
//! different attributes, and several rooms ask. Invariant: they are read here alone, into a [`Description`] that the
//! runtime encodes, decodes and hands to the function, whichever engine runs the program. Algorithm: [`describe`] takes
//! shapes with layouts from the attributes that name them (`operand_layout_constraints`; `result_layout` once the
//! layout pass has put data in physical order) and else from the instruction and its operands; [`attributes`] reads the
//! dictionary that JAX writes for typed calls.

pub mod attributes;

use crate::error::{Error, Result, Site};
use crate::hlo::{AttrKey, AttrValue, Instruction};
use crate::text;
use brolga_runtime::Shape;
use brolga_runtime::abi::CustomCallAbi;
use brolga_runtime::custom_call::{Alias, Description};

/// Targets that annotate a value for a partitioner or a memory planner and return it.
const MARKERS: &[&str] = &[
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "ShardBarrierFrom",
    "ShardBarrierTo",
    "LayoutConstraint",
    "InspectSharding",
    "MoveToHost",
    "MoveToDevice",
    "PinToDevice",
    "PinToDeviceSram",
    "Pin",
    "Unpin",
    "annotate_device_placement",
    "AssumeGatherIndicesInBound",
    "__xla_internal_call_marker_before",
    "__xla_internal_call_marker_after",
];

/// Whether a custom call of this target computes nothing.
pub fn is_marker(target: &str) -> bool {
    MARKERS.contains(&target) || target.starts_with("xla.sdy.")
}

/// Whether a custom call of this target returns a buffer of no particular contents.
pub fn is_fresh_buffer(target: &str) -> bool {
    matches!(target, "AllocateBuffer" | "CreateBuffer")
}

fn site(inst: &Instruction) -> Site {
    Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 }
}

fn invalid(inst: &Instruction, constraint: &'static str, message: impl Into<String>) -> Error {
    Error::Invalid { site: site(inst), constraint, message: message.into() }
}

/// How the function is called.
///
/// # Errors
/// Where the text says that it does not say.
pub fn abi(inst: &Instruction) -> Result<CustomCallAbi> {
    match inst.attrs.word(AttrKey::ApiVersion) {
        None | Some("API_VERSION_ORIGINAL") => Ok(CustomCallAbi::Original),
        Some("API_VERSION_STATUS_RETURNING") => Ok(CustomCallAbi::StatusReturning),
        Some("API_VERSION_STATUS_RETURNING_UNIFIED") => Ok(CustomCallAbi::StatusReturningUnified),
        Some("API_VERSION_TYPED_FFI") => Ok(CustomCallAbi::TypedFfi),
        Some(other) => {
            Err(invalid(inst, "custom-call.api-version", format!("expected a calling convention, found {other}")))
        }
    }
}

/// Everything that the function is told. `operands` are the shapes of the operands as declared; layouts count where
/// the instruction itself names none.
///
/// # Errors
/// Where an attribute cannot be read.
pub fn describe(inst: &Instruction, operands: &[Shape]) -> Result<Description> {
    let abi = abi(inst)?;
    let target = inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default().to_owned();
    let stated = match inst.attrs.get(AttrKey::OperandLayoutConstraints) {
        Some(AttrValue::Shapes(shapes)) if shapes.len() == operands.len() => Some(shapes.clone()),
        _ => None,
    };
    let result = match inst.attrs.raw(AttrKey::ResultLayout) {
        Some(raw) => {
            let inner = raw.strip_prefix('{').and_then(|r| r.strip_suffix('}')).unwrap_or(raw);
            text::parse_shape(inner)?
        }
        None => inst.shape.clone(),
    };
    let config = inst.attrs.raw(AttrKey::BackendConfig).unwrap_or_default();
    let config = if config.starts_with('"') { text::parse_string(config)? } else { config.to_owned() };
    let (mut opaque, mut typed) = (config.clone().into_bytes(), Vec::new());
    if abi == CustomCallAbi::TypedFfi {
        opaque.clear();
        typed = attributes::parse(&config).map_err(|message| {
            let message = format!("the backend_config of a typed call must be a dictionary of attributes: {message}");
            invalid(inst, "custom-call.attributes", message)
        })?;
    }
    let operands = stated.unwrap_or_else(|| operands.to_vec());
    let aliases = aliases(inst, &operands, &result)?;
    let line = inst.location.line;
    Ok(Description { abi, target, line, opaque, attributes: typed, operands, result, aliases })
}

/// `{{1}: (0, {}), ...}`: an element of the result and the part of an operand that shares its buffer.
fn aliases(inst: &Instruction, operands: &[Shape], result: &Shape) -> Result<Vec<Alias>> {
    let Some(raw) = inst.attrs.raw(AttrKey::OutputToOperandAliasing) else { return Ok(Vec::new()) };
    let bad =
        || invalid(inst, "custom-call.aliasing", format!("expected pairs such as {{0}}: (1, {{}}), found '{raw}'"));
    // Every pair is three groups of numbers: an index path, an operand with its own path.
    let mut numbers: Vec<Vec<usize>> = Vec::new();
    let mut current: Option<String> = None;
    let inner = raw.trim().strip_prefix('{').and_then(|r| r.strip_suffix('}')).ok_or_else(bad)?;
    for c in inner.chars() {
        match c {
            '{' | '(' => {
                if let Some(open) = current.take() {
                    numbers.push(list(&open).ok_or_else(bad)?);
                }
                current = Some(String::new());
            }
            '}' | ')' => {
                if let Some(closed) = current.take() {
                    numbers.push(list(&closed).ok_or_else(bad)?);
                }
            }
            c => {
                if let Some(text) = &mut current {
                    text.push(c);
                }
            }
        }
    }
    let mut out = Vec::new();
    for pair in numbers.chunks(3) {
        let [at, operand, path] = pair else { return Err(bad()) };
        let first = operand.first().copied().ok_or_else(bad)?;
        let source = operands.get(first).and_then(|s| array_at(s, path)).ok_or_else(bad)?;
        let before: usize = operands.iter().take(first).map(|s| brolga_runtime::abi::array_leaves(s).len()).sum();
        let target = array_at(result, at).ok_or_else(bad)?;
        if !source.1.same_ignoring_layout(target.1) {
            return Err(bad());
        }
        out.push(Alias { result: target.0, operand: before + source.0 });
    }
    Ok(out)
}

fn list(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect()
}

/// The array at an index path, with its number among the arrays of `shape`.
fn array_at<'a>(shape: &'a Shape, path: &[usize]) -> Option<(usize, &'a Shape)> {
    let (mut shape, mut before) = (shape, 0);
    for &index in path {
        let elements = shape.as_tuple()?;
        before += elements.iter().take(index).map(|s| brolga_runtime::abi::array_leaves(s).len()).sum::<usize>();
        shape = elements.get(index)?;
    }
    shape.as_array().map(|_| (before, shape))
}
