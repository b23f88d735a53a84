//! Constant folding: what depends on constants only is computed now, by the interpreter.
//!
//! Problem: exporters compute masks, scales and index tables in the program. Invariant: results are the
//! interpreter's, which every engine agrees with; effects, random numbers, control flow and barriers are never folded;
//! the module does not swell and no single question takes long: see [`MAX_ELEMENTS`], [`FREE_BYTES`]; what is computed of a
//! frozen parameter has the bits that compiled code would have given it ([`is_exact`]). Algorithm: a forward sweep. An
//! elementwise operation over arrays of one repeated element folds as a scalar and stays a broadcast, so that no large literal
//! appears for what one element says.

use super::Stats;
use super::rewrite::{Effects, Rewriter, rewrite};
use super::value;
use crate::error::Result;
use crate::hlo::{AttrKey, Attrs, Category, Instruction, InstructionId, Module, Opcode};
use crate::interp;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Kind, Literal, Shape};
use std::sync::Arc;

/// The most elements that the operands and the result of a folded operation may have together.
pub const MAX_ELEMENTS: usize = 1 << 20;

/// A result up to this size may be larger than the constants it comes from.
pub const FREE_BYTES: usize = 4096;

/// The most elements that one run of the pass computes with.
pub const MAX_WORK: usize = 1 << 22;

/// The same of what is computed from frozen parameters, which are asked for by hand and may be large.
pub const MAX_FROZEN_ELEMENTS: usize = 1 << 26;

/// Folds constants in every computation.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let (mut work, mut frozen_work) = (MAX_WORK, MAX_FROZEN_ELEMENTS);
    let effects = Effects::of(module);
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            let instruction = rw.instruction(i);
            let controlled =
                instruction.attrs.instructions(AttrKey::ControlPredecessors).is_some_and(|l| !l.is_empty());
            if controlled || effects.of_instruction(instruction) || !foldable(rw.module, instruction) {
                return Ok(None);
            }
            let frozen = value::reads_frozen(rw.computation(), i);
            if frozen && !is_exact(rw, instruction) {
                return Ok(None);
            }
            let new = match splat(rw, i) {
                Some(new) => Some(new),
                None if frozen => whole(rw, i, MAX_FROZEN_ELEMENTS, &mut frozen_work),
                None => whole(rw, i, MAX_ELEMENTS, &mut work),
            };
            stats.add("folded", usize::from(new.is_some()));
            Ok(new)
        })?;
    }
    Ok(stats)
}

/// Operations whose cost is in proportion to their operands and results, and that are functions of these alone.
fn foldable(module: &Module, instruction: &Instruction) -> bool {
    let known = match instruction.opcode {
        // The cheap forms of a constant stay as they are.
        Opcode::Broadcast | Opcode::Iota | Opcode::StochasticConvert => false,
        Opcode::DynamicReshape | Opcode::SetDimensionSize => false,
        Opcode::Reduce | Opcode::Scatter => true,
        op => matches!(op.category(), Category::Elementwise | Category::Movement),
    };
    if !known || instruction.operands.is_empty() {
        return false;
    }
    let arrays = instruction.shape.leaves().iter().all(|s| s.as_array().is_some_and(|a| !a.is_dynamic()));
    // A reducer that loops could take any time.
    let plain = |i: &Instruction| matches!(i.opcode.category(), Category::Structure | Category::Elementwise);
    let short = instruction.attrs.called().into_iter().all(|c| {
        let computation = &module.computations[c];
        computation.order.len() <= 64 && computation.order.iter().all(|&i| plain(&computation.instructions[i]))
    });
    short && arrays
}

/// Whether compiled code gives the bits that the interpreter gives: the operation moves data, or is one of integers or of IEEE
/// arithmetic. Functions are within bounds only, floats are summed in another order, of two zeros either is the larger, and a kernel
/// may keep a narrow float wider than its type.
fn is_exact(rw: &Rewriter<'_>, instruction: &Instruction) -> bool {
    let operands = instruction.operands.iter().map(|&o| rw.shape(o));
    let called = instruction.attrs.called().into_iter().map(|c| &rw.module.computations[c]);
    let inner = called.flat_map(|c| c.order.iter().map(|&i| &c.instructions[i].shape));
    let types: Vec<ElementType> = operands
        .chain([&instruction.shape])
        .chain(inner)
        .flat_map(|shape| shape.leaves().into_iter().filter_map(|leaf| Some(leaf.as_array()?.ty)))
        .collect();
    let all = |fits: fn(ElementType) -> bool| types.iter().all(|&ty| fits(ty));
    if all(|ty| ty.is_integer() || ty == ElementType::Pred) {
        return true;
    }
    match instruction.opcode {
        Opcode::Scatter | Opcode::Reduce => false,
        Opcode::Negate | Opcode::Convert | Opcode::Compare | Opcode::IsFinite | Opcode::Select => true,
        Opcode::Real | Opcode::Imag | Opcode::Complex => true,
        Opcode::Abs => all(|ty| ty.kind() != Kind::Complex),
        Opcode::Add
        | Opcode::Subtract
        | Opcode::Multiply
        | Opcode::Divide
        | Opcode::Sqrt
        | Opcode::Floor
        | Opcode::Ceil
        | Opcode::RoundNearestAfz
        | Opcode::RoundNearestEven => all(|ty| matches!(ty, ElementType::F32 | ElementType::F64)),
        op => op.category() == Category::Movement,
    }
}

/// An elementwise operation over repeated elements.
fn splat(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let instruction = rw.instruction(id);
    let shape = instruction.shape.as_array()?;
    if !instruction.opcode.is_elementwise() || shape.rank() == 0 {
        return None;
    }
    let computation = rw.computation();
    let scalars: Vec<Literal> = instruction
        .operands
        .iter()
        .map(|&o| Some(Literal::Array(value::splat(computation, o)?.literal()?)))
        .collect::<Option<_>>()?;
    let scalar = ArrayShape::new(shape.ty, []);
    let question = Instruction { shape: Shape::Array(scalar), ..instruction.clone() };
    let result = evaluate(rw.module, &question, &scalars.iter().collect::<Vec<_>>())?;
    let shape = shape.clone();
    match result {
        Literal::Array(array) => Some(rw.splat(array, &shape)),
        _ => None,
    }
}

/// An operation over constants of no more than `limit` elements, its own included, which `work` must have left.
fn whole(rw: &mut Rewriter<'_>, id: InstructionId, limit: usize, work: &mut usize) -> Option<InstructionId> {
    let limit = limit.min(*work);
    let instruction = rw.instruction(id);
    let (mut stored, mut elements) = (0usize, 0usize);
    // What is known of each operand; no array is made before all are known.
    let mut known: Vec<Option<Arc<Literal>>> = Vec::with_capacity(instruction.operands.len());
    for &operand in &instruction.operands {
        let source = rw.instruction(operand);
        let shape = source.shape.as_array()?;
        elements = elements.saturating_add(shape.checked_elements()?);
        if elements > limit {
            return None;
        }
        let literal = (source.opcode == Opcode::Constant).then(|| source.literal()).flatten();
        match literal {
            Some(_) => stored += shape.byte_size(),
            None => drop(value::splat(rw.computation(), operand)?),
        }
        known.push(literal.cloned());
    }
    let bytes = instruction.shape.leaves().iter().try_fold(0usize, |sum, leaf| {
        let array = leaf.as_array()?;
        elements = elements.saturating_add(array.checked_elements()?);
        (elements <= limit).then(|| sum + array.byte_size())
    })?;
    if bytes > stored.max(FREE_BYTES) {
        return None;
    }
    *work -= elements;
    let made = |(literal, &id): (Option<_>, _)| literal.or_else(|| Some(Arc::new(Literal::Array(repeated(rw, id)?))));
    let operands: Vec<Arc<Literal>> = known.into_iter().zip(&instruction.operands).map(made).collect::<Option<_>>()?;
    let operands: Vec<&Literal> = operands.iter().map(|o| &**o).collect();
    let result = evaluate(rw.module, instruction, &operands)?;
    match result {
        Literal::Array(_) => Some(rw.constant(result)),
        Literal::Tuple(parts) => {
            let parts = parts.into_iter().map(|p| rw.constant(p)).collect();
            Some(rw.emit(Opcode::Tuple, rw.shape(id).clone(), parts, Attrs::new()))
        }
        Literal::Token => None,
    }
}

/// The array that repeats one known element.
fn repeated(rw: &Rewriter<'_>, id: InstructionId) -> Option<ArrayLiteral> {
    let element = value::splat(rw.computation(), id)?.literal()?;
    let shape = rw.array(id)?;
    ArrayLiteral::from_bytes(shape, &element.bytes().repeat(shape.checked_elements()?))
}

/// Asks the interpreter. Where it has no answer, or one of another shape, the instruction simply stays: if there is
/// something wrong with it, whoever runs or compiles it says so.
fn evaluate(module: &Module, instruction: &Instruction, operands: &[&Literal]) -> Option<Literal> {
    let result = interp::evaluate(module, instruction, operands).ok()?;
    result.shape().same_ignoring_layout(&instruction.shape).then_some(result)
}
