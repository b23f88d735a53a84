//! Where padding may stand in a program that runs.
//!
//! Problem: a layout with padding says how many bytes a buffer has. Callers' buffers, parameters and results of the entry, are
//! laid out so; other layouts of a program are dropped, which is right only where nobody sees them. Invariant: a program with
//! padding that something other than its callers would see is refused before anything is dropped. Algorithm: one look at the
//! interface, whose padding goes with neither run-time sizes nor packed elements, and one at what feeds, custom calls and bitcasts say
//! of their values.

use crate::error::{Error, Result, Site};
use crate::hlo::{AttrKey, AttrValue, Computation, Instruction, Module, Opcode};
use brolga_runtime::{ArrayShape, Shape};

/// Refuses padding that has no form in a program that runs.
///
/// # Errors
/// `Unsupported`, at the instruction whose value is padded.
pub(super) fn verify_padding(module: &Module) -> Result<()> {
    let entry = module.entry();
    let (parameters, result) = module.interface();
    let own = entry.parameters().into_iter().chain([entry.root]).map(|i| &entry.instructions[i]);
    for (instruction, shape) in own.zip(parameters.iter().chain([&result])) {
        if let Some((array, with)) = padded(shape).find_map(|a| Some((a, mixture(a)?))) {
            return Err(unsupported(instruction, format!("padding of an array {with}, {array}")));
        }
    }
    for computation in module.order.iter().map(|&id| &module.computations[id]) {
        for instruction in computation.order.iter().map(|&i| &computation.instructions[i]) {
            let seen = shapes_in_memory(computation, instruction);
            if let Some(array) = seen.into_iter().flat_map(padded).next() {
                let feature = format!("{} of a padded array, {array}", instruction.opcode);
                return Err(unsupported(instruction, feature));
            }
        }
    }
    Ok(())
}

/// What padding does not go with.
fn mixture(array: &ArrayShape) -> Option<&'static str> {
    let packed = array.layout.as_ref().is_some_and(|l| l.element_size_in_bits != 0);
    match (array.is_dynamic(), packed) {
        (true, _) => Some("with bounded dynamic dimensions"),
        (_, true) => Some("of packed elements"),
        _ => None,
    }
}

fn padded(shape: &Shape) -> impl Iterator<Item = &ArrayShape> {
    let arrays = shape.leaves().into_iter().filter_map(|leaf| match leaf {
        Shape::Array(a) | Shape::Buffer(a) => Some(a),
        _ => None,
    });
    arrays.filter(|a| a.is_padded())
}

/// The shapes whose layouts an instruction minds.
fn shapes_in_memory<'a>(computation: &'a Computation, instruction: &'a Instruction) -> Vec<&'a Shape> {
    let operands = || instruction.operands.iter().map(|&o| &computation.instructions[o].shape);
    match instruction.opcode {
        Opcode::Bitcast => operands().chain([&instruction.shape]).collect(),
        Opcode::Infeed => instruction.infeed_shape().into_iter().collect(),
        Opcode::Outfeed => instruction.attrs.shape(AttrKey::OutfeedShape).into_iter().collect(),
        Opcode::CustomCall => match instruction.attrs.get(AttrKey::OperandLayoutConstraints) {
            Some(AttrValue::Shapes(wanted)) => wanted.iter().chain([&instruction.shape]).collect(),
            _ => operands().chain([&instruction.shape]).collect(),
        },
        _ => Vec::new(),
    }
}

fn unsupported(instruction: &Instruction, feature: String) -> Error {
    let site = Site { instruction: Some(instruction.name.clone()), location: instruction.location, length: 0 };
    Error::Unsupported { site, feature }
}
