//! How often a loop runs, where its text says.
//!
//! The condition compares an integer of the state with a constant, or with an element that the body hands on; the body adds a
//! constant to that integer; both begin as constants. Anything else is unknown.

use super::replay::{behind, element};
use crate::builder::{Builder, Literal, Op};
use crate::hlo::{ComparisonDirection as Direction, Computation, InstructionId, Module, Opcode};
use brolga_runtime::ElementType;

/// More iterations than this are not kept.
pub(super) const MOST: i64 = 1 << 24;

/// The number of iterations from the state `init`.
pub(super) fn trips(b: &Builder, condition: &Module, body: &Module, init: Op) -> Option<i64> {
    let (condition, body) = (condition.entry(), body.entry());
    let root = &condition.instructions[plain(condition, condition.root)];
    if root.opcode != Opcode::Compare {
        return None;
    }
    let [x, y] = root.operands[..] else { return None };
    let direction = Direction::of(&root.attrs)?;
    let sides = [(x, y, direction), (y, x, mirrored(direction))];
    sides.into_iter().find_map(|(counter, limit, direction)| {
        let index = of_state(condition, counter)?;
        let step = step(body, index)?;
        let start = constant_value(b, element(b, init, index))?;
        let limit = match of_state(condition, limit) {
            Some(place) => {
                (of_state(body, result(body, place)?)? == place).then_some(())?;
                constant_value(b, element(b, init, place))?.0
            }
            None => constant(condition, limit)?.0,
        };
        count(start, limit, step, direction)
    })
}

fn count((start, ty): (i64, ElementType), limit: i64, step: i64, direction: Direction) -> Option<i64> {
    let bits = ty.bits().min(32);
    let range = match ty.is_signed_integer() {
        true => -(1i64 << (bits - 1))..1i64 << (bits - 1),
        false => 0..1i64 << bits,
    };
    if !range.contains(&start) || !range.contains(&step.abs()) {
        return None;
    }
    let holds = |i: i64| match direction {
        Direction::Eq => i == limit,
        Direction::Ne => i != limit,
        Direction::Ge => i >= limit,
        Direction::Gt => i > limit,
        Direction::Le => i <= limit,
        Direction::Lt => i < limit,
    };
    let (mut i, mut trips) = (start, 0);
    while holds(i) {
        i += step;
        trips += 1;
        // A counter that wraps around is not followed.
        if trips > MOST || !range.contains(&i) {
            return None;
        }
    }
    Some(trips)
}

fn mirrored(direction: Direction) -> Direction {
    match direction {
        Direction::Ge => Direction::Le,
        Direction::Gt => Direction::Lt,
        Direction::Le => Direction::Ge,
        Direction::Lt => Direction::Gt,
        same => same,
    }
}

/// Through copies and reshapes, which change no number.
fn plain(c: &Computation, id: InstructionId) -> InstructionId {
    behind(c, id, &[Opcode::Copy, Opcode::Reshape])
}

/// Which element of the state, the one parameter, a value is.
fn of_state(c: &Computation, id: InstructionId) -> Option<usize> {
    let instruction = &c.instructions[plain(c, id)];
    let tuple = plain(c, *instruction.operands.first()?);
    instruction.element_number().filter(|_| c.instructions[tuple].opcode == Opcode::Parameter)
}

/// The value of element `index` of the result.
fn result(c: &Computation, index: usize) -> Option<InstructionId> {
    let root = &c.instructions[plain(c, c.root)];
    (root.opcode == Opcode::Tuple).then(|| root.operands.get(index).copied()).flatten()
}

/// What the body adds to element `index`.
fn step(body: &Computation, index: usize) -> Option<i64> {
    let next = &body.instructions[plain(body, result(body, index)?)];
    let [x, y] = next.operands[..] else { return None };
    let is_counter = |id| of_state(body, id) == Some(index);
    match next.opcode {
        Opcode::Add if is_counter(x) => constant(body, y).map(|c| c.0),
        Opcode::Add if is_counter(y) => constant(body, x).map(|c| c.0),
        Opcode::Subtract if is_counter(x) => constant(body, y)?.0.checked_neg(),
        _ => None,
    }
}

fn constant(c: &Computation, id: InstructionId) -> Option<(i64, ElementType)> {
    integer(c.instructions[plain(c, id)].literal()?)
}

/// The number that a value of a builder is.
fn constant_value(b: &Builder, mut op: Op) -> Option<(i64, ElementType)> {
    loop {
        let instruction = b.instruction(op)?;
        match instruction.opcode {
            Opcode::Constant => return integer(instruction.literal()?),
            Opcode::Copy | Opcode::Reshape => op = b.value(*instruction.operands.first()?),
            Opcode::GetTupleElement => {
                let tuple = b.instruction(b.value(*instruction.operands.first()?))?;
                let index = instruction.element_number()?;
                (tuple.opcode == Opcode::Tuple).then_some(())?;
                op = b.value(*tuple.operands.get(index)?);
            }
            _ => return None,
        }
    }
}

fn integer(literal: &Literal) -> Option<(i64, ElementType)> {
    let array = literal.as_array().filter(|a| a.ty().is_integer() && a.elements() == 1)?;
    Some((array.get(0).as_i64(), array.ty()))
}
