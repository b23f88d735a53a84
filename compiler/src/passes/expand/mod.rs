//! Expansion into the basic set of operations.
//!
//! Problem: some operations are shorthand for others, and each lowering that code generation need not have is one
//! less to get right. Invariant: what an expansion emits computes the same; batch norms of 16-bit and narrower floats
//! compute in `f32` and round once at the end. Algorithm: batch norms become elementwise operations and reductions,
//! `map` over an elementwise computation becomes that computation on whole arrays, scalar predicates and bounds
//! become arrays, a selection between tuples becomes a tuple of selections; random numbers become arithmetic on
//! counters, `select-and-scatter` a window reduction and a scatter, a `scan` that is not elementwise a loop,
//! contractions of complex numbers contractions of their parts, those of floats to integers or of complex to real numbers
//! contractions in the operands' type and a conversion, what takes nothing from its operands zeros, the padding of a convolution a `pad`; whatever has a
//! computation that is no arithmetic on scalars a loop over elements; operands of a computation that takes wider integers
//! are converted.

mod batch_norm;
mod complex;
mod convolution;
mod counter_based;
mod draft;
mod element_loop;
mod element_sort;
mod flat_scatter;
pub(super) mod formula;
mod map;
mod nothing;
mod ragged_dot;
mod random_bits;
mod rng;
mod scan;
mod select_and_scatter;
mod sizes;
#[cfg(test)]
mod tests;
mod widen;

pub use draft::is_arithmetic;

use super::Stats;
use super::rewrite::{Effects, Rewriter, rewrite, sort_computations};
use crate::error::Result;
use crate::hlo::{AttrKey, Attrs, InstructionId, Module, Opcode};
use crate::shape::sum_to_convert;
use brolga_runtime::{ArrayShape, ElementType, Shape};

/// Replaces instructions of every computation, and counts what is replaced.
fn each(
    module: &mut Module,
    mut expand: impl FnMut(&mut Rewriter<'_>, InstructionId) -> Result<Option<InstructionId>>,
) -> Result<Stats> {
    let mut stats = Stats::default();
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            let new = expand(rw, i)?;
            if new.is_some() {
                stats.add(rw.opcode(i).name(), 1);
            }
            Ok(new)
        })?;
    }
    sort_computations(module)?;
    Ok(stats)
}

/// Expands what has no lowering of its own.
pub fn run(module: &mut Module) -> Result<Stats> {
    let effects = Effects::of(module);
    let mut sums = batch_norm::Sums::default();
    each(module, |rw, i| {
        Ok(match rw.opcode(i) {
            Opcode::BatchNormTraining => batch_norm::training(rw, i, &mut sums)?,
            Opcode::BatchNormInference => batch_norm::inference(rw, i, &mut sums)?,
            Opcode::BatchNormGrad => batch_norm::grad(rw, i, &mut sums)?,
            Opcode::Map if !effects.of_instruction(rw.instruction(i)) => match map::map(rw, i)? {
                None => element_loop::map(rw, i)?,
                whole => whole,
            },
            Opcode::Map => element_loop::map(rw, i)?,
            Opcode::Reduce => match widen::operands(rw, i)? {
                None => element_loop::reduce(rw, i)?,
                wide => wide,
            },
            Opcode::ReduceWindow => match widen::operands(rw, i)? {
                None => element_loop::reduce_window(rw, i)?,
                wide => wide,
            },
            Opcode::Scatter => match widen::operands(rw, i)? {
                None => element_loop::scatter(rw, i)?,
                wide => wide,
            },
            Opcode::Sort => element_sort::sort(rw, i)?,
            Opcode::RngBitGenerator => random_bits::bits(rw, i)?,
            Opcode::Rng => rng::rng(rw, i)?,
            Opcode::SelectAndScatter => select_and_scatter::select_and_scatter(rw, i)?,
            Opcode::Scan => scan::scan(rw, i)?,
            Opcode::Dot | Opcode::Convolution | Opcode::RaggedDot | Opcode::ScaledDot => contraction(rw, i, &mut sums)?,
            Opcode::Gather => nothing::zeros(rw, i),
            Opcode::Clamp => clamp(rw, i)?,
            Opcode::Select => select(rw, i)?,
            _ => None,
        })
    })
}

fn contraction(rw: &mut Rewriter<'_>, id: InstructionId, sums: &mut batch_norm::Sums) -> Result<Option<InstructionId>> {
    let mut expanded = |rw: &mut Rewriter<'_>, id| match rw.opcode(id) {
        Opcode::RaggedDot => ragged_dot::ragged(rw, id, sums),
        Opcode::ScaledDot => ragged_dot::scaled(rw, id),
        Opcode::Convolution => match nothing::zeros(rw, id) {
            Some(zeros) => Ok(Some(zeros)),
            None => match complex::contraction(rw, id)? {
                None => convolution::product(rw, id),
                parts => Ok(parts),
            },
        },
        _ => complex::contraction(rw, id),
    };
    let Some((sum, ty)) = sum_to_be_converted(rw, id)? else { return expanded(rw, id) };
    let mut sum = expanded(rw, sum)?.unwrap_or(sum);
    if let Some(complex) = rw.array(sum).filter(|a| a.ty.is_complex() && !ty.is_complex()).cloned() {
        let part = Shape::Array(complex.with_type(complex.ty.real_part()));
        sum = rw.emit(Opcode::Real, part, vec![sum], Attrs::new());
    }
    Ok(Some(rw.convert(sum, ty)))
}

/// The sum of a contraction whose result is of another type, and the type to convert it to.
fn sum_to_be_converted(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<(InstructionId, ElementType)>> {
    let (lhs, rhs) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let (Some(lhs), Some(rhs), Some(shape)) = (rw.array(lhs), rw.array(rhs), rw.array(id)) else { return Ok(None) };
    let Some(natural) = sum_to_convert(lhs.ty, rhs.ty, shape.ty) else { return Ok(None) };
    let (ty, sum) = (shape.ty, Shape::Array(shape.with_type(natural)));
    let instruction = rw.instruction(id).clone();
    let mut attrs = instruction.attrs;
    attrs.remove(AttrKey::ControlPredecessors);
    Ok(Some((rw.emit(instruction.opcode, sum, instruction.operands, attrs), ty)))
}

/// Expands, while dimensions still are dynamic, what [`super::dynamic`] has no rule for.
pub fn run_dynamic(module: &mut Module) -> Result<Stats> {
    let mut sums = batch_norm::Sums::default();
    let marked = |shape: &Shape| shape.leaves().iter().any(|s| s.as_array().is_some_and(ArrayShape::is_dynamic));
    // Asked of what has a rule alone: to look for marks in a large tuple for each of its elements would take too long.
    let is_dynamic = |rw: &Rewriter<'_>, i| {
        let instruction = rw.instruction(i);
        marked(&instruction.shape) || instruction.operands.iter().any(|&o| marked(rw.shape(o)))
    };
    each(module, |rw, i| {
        Ok(match rw.opcode(i) {
            Opcode::BatchNormTraining if is_dynamic(rw, i) => batch_norm::training(rw, i, &mut sums)?,
            Opcode::BatchNormGrad if is_dynamic(rw, i) => batch_norm::grad(rw, i, &mut sums)?,
            Opcode::SelectAndScatter if is_dynamic(rw, i) => select_and_scatter::select_and_scatter(rw, i)?,
            Opcode::Scan if is_dynamic(rw, i) => scan::scan(rw, i)?,
            Opcode::Scatter if is_dynamic(rw, i) => flat_scatter::dynamic(rw, i),
            _ => None,
        })
    })
}

/// Scalar bounds become arrays of the operand's shape.
fn clamp(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let mut operands = rw.instruction(id).operands.clone();
    let Some(shape) = rw.array(id).cloned() else { return Ok(None) };
    let scalar = |rw: &Rewriter<'_>, o| rw.dims(o).is_empty() && shape.rank() > 0;
    if !operands.iter().any(|&o| scalar(rw, o)) {
        return Ok(None);
    }
    for operand in &mut operands {
        if scalar(rw, *operand) {
            *operand = rw.broadcast_scalar(*operand, &shape);
        }
    }
    Ok(Some(rw.emit(Opcode::Clamp, shape.into(), operands, Attrs::new())))
}

/// A scalar predicate over arrays becomes an array; a selection between tuples comes apart.
fn select(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let (predicate, yes, no) = (rw.operand(id, 0)?, rw.operand(id, 1)?, rw.operand(id, 2)?);
    match rw.shape(id).clone() {
        Shape::Array(shape) if rw.dims(predicate).is_empty() && shape.rank() > 0 => {
            let predicates = shape.with_type(brolga_runtime::ElementType::Pred);
            let predicate = rw.broadcast_scalar(predicate, &predicates);
            Ok(Some(rw.emit(Opcode::Select, shape.into(), vec![predicate, yes, no], Attrs::new())))
        }
        Shape::Tuple(_) => Ok(Some(select_tuple(rw, predicate, yes, no))),
        _ => Ok(None),
    }
}

fn select_tuple(
    rw: &mut Rewriter<'_>,
    predicate: InstructionId,
    yes: InstructionId,
    no: InstructionId,
) -> InstructionId {
    match rw.shape(yes).clone() {
        Shape::Tuple(elements) => {
            let mut parts = Vec::with_capacity(elements.len());
            for k in 0..elements.len() {
                let (a, b) = (rw.element(yes, k), rw.element(no, k));
                parts.push(select_tuple(rw, predicate, a, b));
            }
            rw.tuple(parts)
        }
        Shape::Array(shape) => {
            let predicates = shape.with_type(brolga_runtime::ElementType::Pred);
            let predicate = rw.broadcast_scalar(predicate, &predicates);
            rw.emit(Opcode::Select, shape.into(), vec![predicate, yes, no], Attrs::new())
        }
        // Tokens order effects that have happened either way.
        _ => yes,
    }
}
