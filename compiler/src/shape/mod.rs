//! Shape rules: what an operation yields, and what its operands and attributes must be.
//!
//! Problem: the parser, the builder, the verifier and every pass must agree on the result shape of some hundred and
//! twenty operations and on which programs are wrong. Invariant: each rule is defined in one place, here; each check carries the
//! id of a constraint (`dot.contracting-sizes`), which its error and its negative test cite; no arithmetic on sizes
//! is unchecked. Algorithm: [`infer`] checks arity and required attributes against the opcode table, dispatches to
//! the rule of the operation's family, and, where the program states a shape, compares the two.
//!
//! Some operations' operands do not determine their result (`parameter`, `constant`, `convert`, `iota`, `broadcast`,
//! `reshape`, `rng`, `custom-call`, ...). Their rules take the declared shape and check it.
//!
//! Two liberties are XLA's: layouts and the dynamic marks of dimensions are not compared, and real floating point
//! types of different precision may meet in one operation (see `rule::mixes`).

mod collective;
mod contraction;
mod control;
mod elementwise;
mod feeds;
mod groups;
mod indexing;
mod linalg;
mod movement;
mod ordering_random;
mod padding;
mod pairs;
mod reduction;
mod reshape_groups;
mod rule;
mod structure;
mod verify;
mod window;

#[cfg(test)]
mod every_rule;
#[cfg(test)]
mod negative;
#[cfg(test)]
mod tests;

pub(crate) use contraction::sum_to_convert;
pub use feeds::verify_feeds;
pub use groups::{ReplicaGroups, parse_replica_groups, parse_source_target_pairs};
pub use reshape_groups::{ReshapeGroup, Sizes, reshape_groups};
pub use rule::{RuleError, Signature};
pub use verify::{verify, verify_computation, verify_open, verify_runnable};
pub use window::window_output_size;

use crate::hlo::{AttrKind, AttrValue, Attrs, Category, Computation, ComputationId, Module, Opcode};
use brolga_runtime::{ArrayShape, Layout, PaddingValue, Shape};
use cranelift_entity::PrimaryMap;
use rule::{Call, Rule, ensure, fail};

/// Tuples may nest so deep.
pub const MAX_TUPLE_DEPTH: usize = 128;

/// A shape may have so many leaves.
pub const MAX_LEAVES: usize = 1 << 20;

/// A shape may have so many dimensions.
pub const MAX_RANK: usize = 128;

/// What rules may look at besides the operation itself: the computations that it can call.
#[derive(Clone, Copy)]
pub struct InferContext<'a> {
    computations: Option<&'a PrimaryMap<ComputationId, Computation>>,
    /// Floats that are computed in lanes of different width may not mix.
    same_scalar: bool,
}

impl<'a> InferContext<'a> {
    /// Calls reach the computations of `module`.
    pub fn new(module: &'a Module) -> Self {
        InferContext { computations: Some(&module.computations), same_scalar: false }
    }

    /// Calls reach these computations, those of a module still under construction.
    pub fn of(computations: &'a PrimaryMap<ComputationId, Computation>) -> Self {
        InferContext { computations: Some(computations), same_scalar: false }
    }

    /// No computations: for operations that call none.
    pub fn empty() -> InferContext<'static> {
        InferContext { computations: None, same_scalar: false }
    }

    /// The same, but `f64` may not meet narrower floats.
    fn of_one_scalar(self) -> Self {
        InferContext { same_scalar: true, ..self }
    }

    /// Parameter and result shapes of a computation.
    pub fn signature(&self, id: ComputationId) -> Result<Signature<'a>, RuleError> {
        let Some(computation) = self.computations.and_then(|map| map.get(id)) else {
            fail!("call.computation", "the called {id} does not exist");
        };
        let mut parameters: Vec<Option<&'a Shape>> = Vec::new();
        for &i in &computation.order {
            let Some(instruction) = computation.instructions.get(i) else { continue };
            if instruction.opcode != Opcode::Parameter {
                continue;
            }
            // A number past the order's length cannot be dense; the slot table stays small whatever the text says.
            let Some(n) = instruction.parameter_number().filter(|&n| n < computation.order.len()) else {
                fail!(
                    "parameter.number",
                    "expected the parameters of '{}' to be numbered from 0 without gaps",
                    computation.name
                );
            };
            if parameters.len() <= n {
                parameters.resize(n + 1, None);
            }
            parameters[n] = Some(&instruction.shape);
        }
        let Some(parameters) = parameters.into_iter().collect() else {
            fail!(
                "parameter.number",
                "expected the parameters of '{}' to be numbered from 0 without gaps",
                computation.name
            );
        };
        let Some(root) = computation.instructions.get(computation.root) else {
            fail!("computation.root", "the root of '{}' does not exist", computation.name);
        };
        Ok(Signature { parameters, result: &root.shape })
    }
}

/// The result shape of an operation, without layout, or the rule it breaks.
///
/// `declared` is the shape that the program states, if any: it decides where the operands do not, and is compared with
/// the inferred shape where they do. An error's message names the operation.
pub fn infer(
    cx: &InferContext<'_>,
    opcode: Opcode,
    operands: &[&Shape],
    attrs: &Attrs,
    declared: Option<&Shape>,
) -> Result<Shape, RuleError> {
    infer_unnamed(&Call { cx, opcode, operands, attrs, declared }).map_err(|e| e.of(opcode))
}

fn infer_unnamed(call: &Call<'_>) -> Rule<Shape> {
    check_table(call.opcode, call.operands.len(), call.attrs)?;
    let inferred = dispatch(call)?;
    if let Some(declared) = call.declared {
        check_declared(call.cx, call.opcode, &inferred, declared)?;
    }
    check_shape(&inferred)?;
    Ok(inferred)
}

fn dispatch(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode.category() {
        Category::Structure => structure::infer(call),
        Category::Elementwise => elementwise::infer(call),
        Category::Movement => match call.opcode {
            Opcode::Gather | Opcode::Scatter | Opcode::DynamicSlice | Opcode::DynamicUpdateSlice => {
                indexing::infer(call)
            }
            _ => movement::infer(call),
        },
        Category::Reduction => reduction::infer(call),
        Category::Contraction => contraction::infer(call),
        Category::LinearAlgebra => linalg::infer(call),
        Category::Ordering | Category::Random => ordering_random::infer(call),
        Category::Control => control::infer(call),
        Category::Collective => collective::infer(call),
        Category::SideEffect => structure::infer_side_effect(call),
        Category::Async => structure::infer_async(call),
    }
}

/// Arity and attributes, as the opcode table has them.
fn check_table(opcode: Opcode, operands: usize, attrs: &Attrs) -> Rule<()> {
    let arity = opcode.arity();
    ensure!(arity.allows(operands), "arity", "expected {arity} of {opcode}, found {operands}");
    for &key in opcode.required_attrs() {
        ensure!(attrs.get(key).is_some(), "attribute.required", "{opcode} must say {}=", key.name());
    }
    for (key, value) in attrs.iter() {
        ensure!(has_kind(key.kind(), value), "attribute.kind", "{} has a value of the wrong kind", key.name());
    }
    Ok(())
}

fn has_kind(kind: AttrKind, value: &AttrValue) -> bool {
    match kind {
        AttrKind::Int => matches!(value, AttrValue::Int(_)),
        AttrKind::Bool => matches!(value, AttrValue::Bool(_)),
        AttrKind::Float => matches!(value, AttrValue::Float(_)),
        AttrKind::Ints => matches!(value, AttrValue::Ints(_)),
        AttrKind::Str => matches!(value, AttrValue::Str(_)),
        AttrKind::Word(words) => matches!(value, AttrValue::Word(w) if words.contains(w)),
        AttrKind::Computation => matches!(value, AttrValue::Computation(_)),
        AttrKind::Computations => matches!(value, AttrValue::Computations(_)),
        AttrKind::Window => matches!(value, AttrValue::Window(_)),
        AttrKind::DimLabels => matches!(value, AttrValue::DimLabels(_)),
        AttrKind::Padding => matches!(value, AttrValue::Padding(_)),
        AttrKind::SliceRanges => matches!(value, AttrValue::SliceRanges(_)),
        AttrKind::Words(words) => matches!(value, AttrValue::Words(list) if list.iter().all(|w| words.contains(w))),
        AttrKind::Instructions => matches!(value, AttrValue::Instructions(_)),
        AttrKind::Shape => matches!(value, AttrValue::Shape(_)),
        AttrKind::Shapes => matches!(value, AttrValue::Shapes(_)),
        AttrKind::Raw => matches!(value, AttrValue::Raw(_)),
        // An elided constant, `constant({...})`, keeps its text.
        AttrKind::Literal => matches!(value, AttrValue::Literal(_) | AttrValue::Raw(_)),
    }
}

/// Compares the shape that a program states with the one that the rules yield.
fn check_declared(cx: &InferContext<'_>, opcode: Opcode, inferred: &Shape, declared: &Shape) -> Rule<()> {
    // Operations that hand values on must not change a type; those that compute may round to another precision, and
    // a contraction sums in any.
    let lenient = InferContext { same_scalar: false, ..*cx };
    let mixed = match opcode.category() {
        Category::Structure | Category::Control | Category::SideEffect | Category::Async => None,
        Category::Contraction => Some(&lenient),
        _ => Some(cx),
    };
    ensure!(
        rule::compatible(inferred, declared, mixed),
        "result.shape",
        "expected the result {inferred:#} of {opcode}, found {declared:#}"
    );
    Ok(())
}

/// Checks a shape by itself: sizes not negative, the byte size within the address space, the layout a permutation,
/// tuples not too deep.
pub fn check_shape(shape: &Shape) -> Result<(), RuleError> {
    let mut leaves = 0;
    check_nested(shape, 0, &mut leaves)
}

fn check_nested(shape: &Shape, depth: usize, leaves: &mut usize) -> Rule<()> {
    ensure!(
        depth <= MAX_TUPLE_DEPTH,
        "shape.depth",
        "expected tuples nested at most {MAX_TUPLE_DEPTH} deep, found more"
    );
    match shape {
        Shape::Tuple(elements) => elements.iter().try_for_each(|e| check_nested(e, depth + 1, leaves)),
        leaf => {
            *leaves += 1;
            ensure!(
                *leaves <= MAX_LEAVES,
                "shape.leaves",
                "expected at most {MAX_LEAVES} leaves in a shape, found more"
            );
            match leaf {
                Shape::Array(a) | Shape::Buffer(a) => check_array(a),
                _ => Ok(()),
            }
        }
    }
}

/// As [`check_shape`], of one array.
pub(crate) fn check_array(a: &ArrayShape) -> Rule<()> {
    let rank = a.rank();
    ensure!(rank <= MAX_RANK, "shape.rank", "expected at most {MAX_RANK} dimensions, found {rank}");
    ensure!(a.dynamic.len() == rank, "shape.dynamic", "expected {rank} dynamic marks, found {}", a.dynamic.len());
    for (i, &d) in a.dims.iter().enumerate() {
        ensure!(d >= 0, "shape.negative", "expected a size of at least 0 in dimension {i}, found {d}");
    }
    ensure!(a.is_addressable(), "shape.size", "an array of 2^63 bytes or more, {}", rule::Show(a));
    if let Some(layout) = &a.layout {
        let mut seen = vec![false; rank];
        let permutes = layout.minor_to_major.len() == rank
            && layout.minor_to_major.iter().all(|&d| seen.get_mut(d).is_some_and(|s| !std::mem::replace(s, true)));
        ensure!(
            permutes,
            "shape.layout",
            "expected a layout that permutes the {rank} dimensions, found {:?}",
            layout.minor_to_major
        );
        check_padding(a, layout)?;
    }
    Ok(())
}

/// Padding has a width for each dimension, and a value that the elements can have.
fn check_padding(a: &ArrayShape, layout: &Layout) -> Rule<()> {
    let (widths, value) = (&layout.padded_dimensions, layout.padding_value);
    ensure!(
        a.has_valid_layout(),
        "shape.padding",
        "expected padded dimensions of at least {:?}, or none, found {widths:?}",
        a.dims
    );
    ensure!(
        !widths.is_empty() || value == PaddingValue::Invalid,
        "shape.padding-value",
        "expected padded dimensions beside a padding value, found none"
    );
    ensure!(
        value.element(a.ty).is_some(),
        "shape.padding-value",
        "expected a padding value that {} has, found {}",
        a.ty,
        value.name()
    );
    Ok(())
}
