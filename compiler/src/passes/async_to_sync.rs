//! Asynchronous forms become what they do.
//!
//! Problem: scheduled modules split an operation into start, update and done; one native function runs them in order
//! anyway. Only exchanges with other devices gain by it: those whose done is the one user of their start stay, so that the
//! program computes while the others come. Invariant: the effect happens where the start stands, exactly once, and every value keeps its shape, so
//! that a start's state may travel through tuples, loops and calls. Algorithm: a start becomes its operation followed
//! by a tuple of the state's shape (operands, result, zeros for contexts); an update hands the state on; a done takes
//! the result out of it. Simplification then removes the tuples.

use super::Stats;
use super::rewrite::{Rewriter, rewrite, sort_computations};
use crate::collective::{Grid, ends, runtime_combines, starts};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, Attrs, ComputationId, InstructionId, Module, Opcode};
use brolga_runtime::{Literal, Shape};
use hashbrown::HashSet;

/// Rewrites every asynchronous form.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let several = Grid::of(&module.config).devices() > 1;
    for id in module.order.clone() {
        let kept = if several { overlapping(module, id) } else { HashSet::new() };
        rewrite(module, id, |rw, i| {
            if kept.contains(&i) {
                return Ok(None);
            }
            let new = match rw.opcode(i) {
                Opcode::AsyncStart => {
                    let Some(callee) = rw.instruction(i).attrs.computation(AttrKey::Calls) else {
                        return Err(malformed(rw, i, "its computation"));
                    };
                    let operands = rw.instruction(i).operands.clone();
                    let result = rw.call(callee, operands.clone());
                    hand_over_control(rw, i, result);
                    state(rw, i, operands, result)?
                }
                Opcode::AsyncUpdate => rw.operand(i, 0)?,
                Opcode::AsyncDone | Opcode::AllGatherDone | Opcode::CollectivePermuteDone => {
                    let tuple = rw.operand(i, 0)?;
                    rw.element(tuple, 1)
                }
                Opcode::CopyStart => {
                    // The state of a copy holds the copy first and its source second.
                    let source = rw.operand(i, 0)?;
                    let copy = rw.elementwise(Opcode::Copy, vec![source]);
                    filled(rw, i, vec![copy, source])?
                }
                Opcode::CopyDone => {
                    let tuple = rw.operand(i, 0)?;
                    rw.element(tuple, 0)
                }
                Opcode::AllReduceStart => {
                    // The state is the result, or in one form the operand and the result.
                    let (shape, operands) = (rw.shape(i).clone(), rw.instruction(i).operands.clone());
                    match (&shape, &operands[..]) {
                        (Shape::Tuple(pair), [operand]) if pair.len() == 2 => {
                            let result = collective(rw, i, Opcode::AllReduce, pair[1].clone());
                            filled(rw, i, vec![*operand, result])?
                        }
                        _ => collective(rw, i, Opcode::AllReduce, shape),
                    }
                }
                Opcode::AllReduceDone => {
                    let state = rw.operand(i, 0)?;
                    let whole = rw.shape(state).same_ignoring_layout(rw.shape(i));
                    if whole { state } else { rw.element(state, 1) }
                }
                Opcode::AllGatherStart | Opcode::CollectivePermuteStart => {
                    let gather = rw.opcode(i) == Opcode::AllGatherStart;
                    let opcode = if gather { Opcode::AllGather } else { Opcode::CollectivePermute };
                    let Some(shape) = rw.shape(i).as_tuple().and_then(|t| t.get(1)).cloned() else {
                        return Err(malformed(rw, i, "a tuple of operands and results"));
                    };
                    let operands = rw.instruction(i).operands.clone();
                    let in_place = rw.instruction(i).attrs.get(AttrKey::SliceSizesPerDevice).is_some();
                    let result = collective(rw, i, opcode, shape);
                    match operands[..] {
                        [input, ..] if in_place => filled(rw, i, vec![input, result])?,
                        _ => state(rw, i, operands, result)?,
                    }
                }
                _ => return Ok(None),
            };
            stats.add("made synchronous", 1);
            Ok(Some(new))
        })?;
    }
    sort_computations(module)?;
    Ok(stats)
}

/// The starts and dones that compiled code has: a done that is the one user of its start, static arrays, and a reduction that
/// the runtime knows.
fn overlapping(module: &Module, id: ComputationId) -> HashSet<InstructionId> {
    let computation = &module.computations[id];
    let users = computation.users();
    let mut kept = HashSet::new();
    for &done in &computation.order {
        let instruction = &computation.instructions[done];
        let Some(&start) = instruction.operands.first().filter(|_| ends(instruction.opcode)) else { continue };
        let begins = &computation.instructions[start];
        let in_place = begins.attrs.get(AttrKey::SliceSizesPerDevice).is_some();
        let plain = starts(begins.opcode) && !in_place && runtime_combines(module, computation, begins);
        if plain && users[start][..] == [done] && computation.root != start {
            kept.extend([start, done]);
        }
    }
    kept
}

fn malformed(rw: &Rewriter<'_>, id: InstructionId, expected: &str) -> Error {
    let instruction = rw.instruction(id);
    Error::Invalid {
        site: rw.site(id),
        constraint: "async.state",
        message: format!("'{}' of shape {:#} does not hold {expected}", instruction.opcode, instruction.shape),
    }
}

/// Gives the control predecessors of `old` to `new`, and lets their successors wait for it.
fn hand_over_control(rw: &mut Rewriter<'_>, old: InstructionId, new: InstructionId) {
    let before = rw.instruction(old).attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
    rw.add_control_predecessors(new, &before);
    rw.control_also_after(old, vec![new]);
}

/// Emits the synchronous operation with the operands and attributes of a start.
fn collective(rw: &mut Rewriter<'_>, id: InstructionId, opcode: Opcode, shape: Shape) -> InstructionId {
    let instruction = rw.instruction(id);
    let (operands, attrs): (_, Attrs) = (instruction.operands.clone(), instruction.attrs.clone());
    let new = rw.emit(opcode, shape, operands, attrs);
    hand_over_control(rw, id, new);
    new
}

/// Emits the state of a start: operands, result, contexts.
fn state(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    operands: Vec<InstructionId>,
    result: InstructionId,
) -> Result<InstructionId> {
    // One operand stands alone in some forms and in a tuple of one in others.
    let first = rw.shape(id).as_tuple().and_then(|t| t.first());
    let held = match (first, &operands[..]) {
        (Some(shape), [only]) if shape.same_ignoring_layout(rw.shape(*only)) => *only,
        _ => rw.tuple(operands),
    };
    filled(rw, id, vec![held, result])
}

/// Emits a tuple of the shape of `id` that starts with `parts` and is zero elsewhere.
fn filled(rw: &mut Rewriter<'_>, id: InstructionId, mut parts: Vec<InstructionId>) -> Result<InstructionId> {
    let Some(shapes) = rw.shape(id).as_tuple().map(<[Shape]>::to_vec) else {
        return Err(malformed(rw, id, "a tuple"));
    };
    let fits = shapes.len() >= parts.len()
        && parts.iter().zip(&shapes).all(|(&part, shape)| rw.shape(part).same_ignoring_layout(shape));
    if !fits {
        return Err(malformed(rw, id, "operands and result in order"));
    }
    for shape in shapes.iter().skip(parts.len()) {
        let context = match shape {
            Shape::Token => rw.emit(Opcode::AfterAll, Shape::Token, Vec::new(), Attrs::new()),
            Shape::Array(array) if array.checked_elements().is_some_and(|n| n <= 64) => {
                let Some(zero) = Literal::zeros(shape) else { return Err(malformed(rw, id, "a known context")) };
                rw.constant(zero)
            }
            _ => return Err(malformed(rw, id, "a known context")),
        };
        parts.push(context);
    }
    Ok(rw.tuple(parts))
}
