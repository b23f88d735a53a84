//! The interpreter: a module and literals in, a literal out.
//!
//! Problem: the compiler needs an answer that is obviously right, to compare generated code with and to fold
//! constants. Invariant: every operation of HLO has one plain implementation here, which computes floats in `f64` and
//! rounds once, treats integers as two's complement of their width, and never panics on a verified module: what
//! cannot be done is an error naming the instruction.
//!
//! Algorithm: [`context`] walks a computation in post-order and keeps the value of each instruction, shared by
//! reference count, until its last use. Operations on whole values (tuples, calls, loops) are in [`control`]; all
//! others take `fn op(cx, inst, operands) -> Result<Literal>` and live in a file per family. Reducers and comparators
//! run through [`region`], which flattens a scalar computation once into a list of scalar operations.
//!
//! A bounded-dynamic value is a literal of its true size; see [`dynamic`]. The Rust stack grows only with the static
//! nesting of calls, which [`MAX_CALL_DEPTH`] limits; loops do not grow it.

mod batch_norm;
mod code;
mod collective;
mod context;
mod contraction;
mod control;
mod convolution;
mod dense;
mod devices;
mod dynamic;
mod elementwise;
mod feeds;
mod fft;
mod gather_scatter;
mod host;
mod index;
mod linalg;
mod movement;
mod plan;
pub(crate) mod random;
mod reduction;
mod region;
mod sort;
#[cfg(test)]
mod tests;
mod value;

pub use context::{Host, MAX_CALL_DEPTH, MAX_VALUE_BYTES, NoHost, Options};
pub use devices::{run_devices, run_devices_fed};
pub use feeds::Fed;
pub use host::{RegistryHost, undefined_symbols};

use crate::hlo::{Category, Instruction, Module, Opcode};
use crate::{Error, Result, Site};
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Shape};
use context::Context;
use dynamic::Size;
use value::Value;

/// Runs a module on the literals of its parameters, as one device alone.
///
/// Bounded-dynamic parameters may be passed at any size up to the bound, and such results come back at their true
/// size.
pub fn run(module: &Module, args: &[Literal], options: &Options) -> Result<Literal> {
    run_with(module, args, options, &mut NoHost)
}

/// As [`run`], with a host that answers custom calls, feeds and what concerns several devices.
pub fn run_with(module: &Module, args: &[Literal], options: &Options, host: &mut dyn Host) -> Result<Literal> {
    crate::shape::verify_runnable(module)?;
    let entry = module.entry();
    let parameters = entry.parameters();
    let fail = |message: String| Error::Execution { site: Site::default(), message };
    let bytes = args.iter().flat_map(Literal::arrays).map(|a| a.bytes().len() as u64).sum();
    brolga_runtime::room_for(bytes).map_err(|e| fail(e.to_string()))?;
    if parameters.len() != args.len() {
        return Err(fail(format!("the program takes {} arguments, found {}", parameters.len(), args.len())));
    }
    for (number, (&id, arg)) in parameters.iter().zip(args).enumerate() {
        let want = &entry.instructions[id].shape;
        if !accepts(want, arg) {
            return Err(fail(format!("argument {number} must be {want:#}, found {}", arg.shape())));
        }
    }
    let cx = Context::new(module, options, host);
    let result = cx.run(module.entry, args.iter().cloned().map(Value::from).collect())?;
    Ok(result.into_literal())
}

/// Evaluates one instruction, whose operands' values are given: what constant folding asks.
///
/// Operations that reach outside (custom calls, feeds, collectives) fail; parameters have no value.
pub fn evaluate(module: &Module, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let mut host = NoHost;
    let options = Options { fuel: Some(FOLDING_FUEL), ..Options::default() };
    let cx = Context::new(module, &options, &mut host);
    if control::handles(inst.opcode) {
        let operands = operands.iter().map(|&o| Value::from(o.clone())).collect();
        return Ok(control::step(&cx, inst, operands)?.into_literal());
    }
    op(&cx, inst, operands)
}

/// Bytes that an operation may work with for each element that it reads or writes.
const WORKING_BYTES: u64 = 16;

/// How many instructions folding one instruction may run: a loop in it may never end.
const FOLDING_FUEL: u64 = 1 << 18;

/// Whether `value` may be passed where `shape` is declared: dynamic dimensions take any size up to the bound.
fn accepts(shape: &Shape, value: &Literal) -> bool {
    match (shape, value) {
        (Shape::Array(s) | Shape::Buffer(s), Literal::Array(a)) => {
            s.ty == a.ty()
                && s.rank() == a.dims().len()
                && s.dims.iter().zip(&s.dynamic).zip(a.dims()).all(|((&d, &dynamic), &n)| n == d || dynamic && n < d)
        }
        (Shape::Tuple(shapes), Literal::Tuple(values)) => {
            shapes.len() == values.len() && shapes.iter().zip(values).all(|(s, v)| accepts(s, v))
        }
        (Shape::Token, Literal::Token) => true,
        _ => false,
    }
}

/// One operation on literals. Everything but [`control`]'s operations comes through here.
fn op(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    if !inst.opcode.arity().allows(operands.len()) {
        return Err(invalid(inst, format!("expected {}, found {}", inst.opcode.arity(), operands.len())));
    }
    room(inst, operands)?;
    let converted: Vec<Option<Literal>> = operands.iter().map(|o| to_result_precision(inst, o)).collect();
    let operands: Vec<&Literal> = operands.iter().zip(&converted).map(|(&o, c)| c.as_ref().unwrap_or(o)).collect();
    let operands = &operands[..];
    let size = dynamic::specialize(cx, inst, operands)?;
    let (inst, known) = match &size {
        Size::Declared => (inst, true),
        Size::Known(inst) => (inst, true),
        Size::OfOperands(inst) => (inst, false),
    };
    // An empty result needs no work, and strides of empty arrays need not fit an integer.
    if let Shape::Array(shape) = &inst.shape
        && shape.elements() == 0
        && !shape.is_dynamic()
    {
        if known {
            return new_array(inst, shape).map(Literal::from);
        }
        if operands.iter().filter_map(|o| o.as_array()).any(|a| !strides_fit(a.dims())) {
            return Err(unsupported(inst, "dynamic dimensions of an empty array whose strides fit no integer"));
        }
    }
    match inst.opcode {
        Opcode::Dot | Opcode::RaggedDot | Opcode::ScaledDot => contraction::op(cx, inst, operands),
        Opcode::Convolution => convolution::op(cx, inst, operands),
        Opcode::Cholesky | Opcode::TriangularSolve => linalg::op(cx, inst, operands),
        Opcode::Fft => fft::op(cx, inst, operands),
        Opcode::Gather | Opcode::Scatter => gather_scatter::op(cx, inst, operands),
        Opcode::Sort | Opcode::TopK => sort::op(cx, inst, operands),
        Opcode::Rng | Opcode::RngBitGenerator => random::op(cx, inst, operands),
        Opcode::BatchNormGrad | Opcode::BatchNormInference | Opcode::BatchNormTraining => {
            batch_norm::op(cx, inst, operands)
        }
        opcode => match opcode.category() {
            Category::Elementwise => elementwise::op(cx, inst, operands),
            Category::Movement => movement::op(cx, inst, operands),
            Category::Reduction => reduction::op(cx, inst, operands),
            _ => Err(unsupported(inst, format!("'{opcode}' in the interpreter"))),
        },
    }
}

/// Whether the offset of every element, were no dimension empty, would be an integer.
fn strides_fit(dims: &[i64]) -> bool {
    dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d.max(1))).is_some()
}

/// An operand of an operation that moves elements, where it holds floats of another precision than the result.
fn to_result_precision(inst: &Instruction, operand: &Literal) -> Option<Literal> {
    let reinterprets = matches!(inst.opcode, Opcode::Bitcast | Opcode::BitcastConvert | Opcode::Scatter);
    if inst.opcode.category() != Category::Movement || reinterprets {
        return None;
    }
    let (to, from) = (inst.shape.as_array()?.ty, operand.as_array()?);
    if from.ty() == to || !to.is_float() || !from.ty().is_float() {
        return None;
    }
    let mut out = ArrayLiteral::zeros(&ArrayShape::new(to, from.dims()));
    (0..from.elements()).for_each(|i| out.set(i, from.get(i)));
    Some(out.into())
}

fn site(inst: &Instruction) -> Site {
    Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 }
}

/// The program failed while it ran.
fn execution(inst: &Instruction, message: impl Into<String>) -> Error {
    Error::Execution { site: site(inst), message: message.into() }
}

/// The program is valid but this is beyond the interpreter.
fn unsupported(inst: &Instruction, feature: impl Into<String>) -> Error {
    Error::Unsupported { site: site(inst), feature: feature.into() }
}

/// The instruction breaks a rule that verification should have caught.
fn invalid(inst: &Instruction, message: impl Into<String>) -> Error {
    Error::Invalid { site: site(inst), constraint: "interp.instruction", message: message.into() }
}

/// The instruction's operand `index`, an array.
fn array<'a>(inst: &Instruction, operands: &[&'a Literal], index: usize) -> Result<&'a ArrayLiteral> {
    operands
        .get(index)
        .and_then(|o| o.as_array())
        .ok_or_else(|| invalid(inst, format!("operand {index} must be an array")))
}

/// The instruction's result shape, an array.
fn result_shape(inst: &Instruction) -> Result<&ArrayShape> {
    inst.shape.as_array().ok_or_else(|| invalid(inst, format!("expected an array result, found {}", inst.shape)))
}

/// Refuses an operation for which there is no memory: it may copy what it reads and writes, and work on the elements in
/// double precision. Operations of small arrays are not worth the question, and what [`new_array`] refuses is left to it.
fn room(inst: &Instruction, operands: &[&Literal]) -> Result<()> {
    let mut elements = 0u64;
    for leaf in inst.shape.leaves().into_iter().filter_map(Shape::as_array) {
        if leaf.byte_size() > MAX_VALUE_BYTES {
            return Ok(());
        }
        elements = elements.saturating_add(leaf.elements() as u64);
    }
    for array in operands.iter().filter_map(|operand| operand.as_array()) {
        elements = elements.saturating_add(array.elements() as u64);
    }
    let bytes = elements.saturating_mul(WORKING_BYTES);
    if bytes < 1 << 26 {
        return Ok(());
    }
    brolga_runtime::room_for(bytes).map_err(|e| execution(inst, e.to_string()))
}

/// A new array of zeros, refused where it is larger than [`MAX_VALUE_BYTES`].
fn new_array(inst: &Instruction, shape: &ArrayShape) -> Result<ArrayLiteral> {
    let fits = shape.checked_elements().and_then(|n| n.checked_mul(shape.ty.byte_size()));
    match fits {
        Some(bytes) if bytes <= MAX_VALUE_BYTES => {
            let shape = ArrayShape::new(shape.ty, shape.dims.clone());
            ArrayLiteral::try_zeros(&shape).map_err(|e| execution(inst, e.to_string()))
        }
        _ => Err(unsupported(inst, format!("a value of {MAX_VALUE_BYTES} bytes or more ({shape})"))),
    }
}
