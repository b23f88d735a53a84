//! Algebraic simplification.
//!
//! Problem: programs arrive full of steps that do nothing, cancel or have a cheaper equal. Invariant: every rule is
//! exact: integers and moved data bit for bit, floats as IEEE has it (`x - 0.0` is `x`, `x + 0.0` is not, `x * 0.0` is
//! not `0.0`), NaN payloads excepted; instructions with effects or control predecessors, tokens and barriers stay.
//! Algorithm: one forward sweep asks the rules of the opcode's family for a replacement; the pipeline repeats the
//! sweep until nothing changes. Each rule reduces the number of elements, of instructions on the way to the
//! parameters, or the cost of one, so that repetition ends.

mod arithmetic;
mod bits;
mod control;
mod convert;
mod indexing;
mod movement;
mod product;
mod reduction;
mod structure;

use super::Stats;
use super::rewrite::{Effects, Rewriter, rewrite};
use super::value;
use crate::error::Result;
use crate::hlo::{AttrKey, Category, InstructionId, Module, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Shape};

/// What a rule found: its name for the statistics, and the replacement.
type Found = Result<Option<(&'static str, InstructionId)>>;

/// Simplifies every computation, one sweep.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let effects = Effects::of(module);
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            Ok(simplify(rw, i, &effects)?.map(|(kind, new)| {
                stats.add(kind, 1);
                new
            }))
        })?;
    }
    super::rewrite::sort_computations(module)?;
    Ok(stats)
}

fn simplify(rw: &mut Rewriter<'_>, id: InstructionId, effects: &Effects) -> Found {
    let instruction = rw.instruction(id);
    let controlled = instruction.attrs.instructions(AttrKey::ControlPredecessors).is_some_and(|l| !l.is_empty());
    if controlled || matches!(instruction.opcode, Opcode::Parameter | Opcode::OptimizationBarrier) {
        return Ok(None);
    }
    match instruction.opcode {
        Opcode::While => return control::while_loop(rw, id, effects),
        Opcode::Conditional => return control::conditional(rw, id),
        Opcode::Constant => return structure::constant(rw, id),
        Opcode::Tuple | Opcode::GetTupleElement | Opcode::Copy | Opcode::Domain => return structure::structure(rw, id),
        _ => {}
    }
    // What follows reasons with sizes; a bounded-dynamic array has none before run time.
    let is_static = |i: InstructionId| rw.array(i).is_none_or(|a| !a.is_dynamic());
    if !is_static(id) || !instruction.operands.iter().all(|&o| is_static(o)) || effects.of_instruction(instruction) {
        return Ok(None);
    }
    if let Some(found) = empty_result(rw, id) {
        return Ok(Some(found));
    }
    match rw.opcode(id) {
        Opcode::Convert | Opcode::BitcastConvert => convert::convert(rw, id),
        Opcode::Broadcast | Opcode::Reshape | Opcode::Transpose | Opcode::Bitcast | Opcode::Reverse => {
            movement::movement(rw, id)
        }
        Opcode::Slice
        | Opcode::Pad
        | Opcode::Concatenate
        | Opcode::DynamicSlice
        | Opcode::DynamicUpdateSlice
        | Opcode::Iota
        | Opcode::GetDimensionSize => indexing::indexing(rw, id),
        Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Not | Opcode::Compare => bits::bits(rw, id),
        Opcode::Reduce => reduction::reduce(rw, id),
        Opcode::ReduceWindow => reduction::reduce_window(rw, id),
        Opcode::Dot => match reduction::dot(rw, id)? {
            None => product::product(rw, id),
            found => Ok(found),
        },
        Opcode::Convolution => product::product(rw, id),
        Opcode::Sort => structure::sort(rw, id),
        Opcode::Scatter => structure::scatter(rw, id),
        op if op.category() == Category::Elementwise => arithmetic::arithmetic(rw, id),
        _ => Ok(None),
    }
}

/// A pure operation without elements is an empty constant.
fn empty_result(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<(&'static str, InstructionId)> {
    let instruction = rw.instruction(id);
    let array = instruction.shape.as_array()?;
    let movable = matches!(
        instruction.opcode.category(),
        Category::Elementwise
            | Category::Movement
            | Category::Reduction
            | Category::Contraction
            | Category::LinearAlgebra
            | Category::Ordering
    );
    if !movable || array.elements() != 0 {
        return None;
    }
    let literal = Literal::Array(ArrayLiteral::zeros(array));
    Some(("empty array", rw.constant(literal)))
}

/// The known element of operand `index`.
fn splat_operand(rw: &Rewriter<'_>, id: InstructionId, index: usize) -> Option<value::Element> {
    value::splat(rw.computation(), *rw.instruction(id).operands.get(index)?)
}

/// Emits an array filled with `scalar`, of the shape of `id`.
fn filled_like(rw: &mut Rewriter<'_>, id: InstructionId, scalar: Option<value::Element>) -> Option<InstructionId> {
    let shape = rw.array(id)?.clone();
    let literal = scalar.filter(|s| s.ty() == shape.ty)?.literal()?;
    Some(rw.splat(literal, &shape))
}

/// The two shapes agree but for layouts.
fn same_shape(rw: &Rewriter<'_>, a: InstructionId, b: InstructionId) -> bool {
    rw.shape(a).same_ignoring_layout(rw.shape(b))
}

/// The shape with other dimensions and the same element type, without layout.
fn with_dims(array: &ArrayShape, dims: Vec<i64>) -> Shape {
    Shape::array(array.ty, dims)
}
