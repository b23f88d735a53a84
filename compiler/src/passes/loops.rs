//! Counted loops: an analysis, nothing is rewritten.
//!
//! Problem: HLO has one loop, `while` over a state and a condition, and most programs mean «for i in a..b» by it.
//! Invariant: an answer is exact, wrap-around included; where anything is out of the ordinary there is none.
//! Algorithm: match a condition that compares one integer element of the state with a constant, and a body that adds
//! a constant to that element; compute in 128 bits.

use super::value::{self, Element, int_range};
use crate::hlo::{AttrKey, Computation, ComputationId, InstructionId, Module, Opcode};

/// A loop whose course is known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedLoop {
    /// Which element of the state counts; `None` where the state is the counter.
    pub index: Option<usize>,
    /// The counter's first value.
    pub start: i128,
    /// What the body adds to it.
    pub step: i128,
    /// How often the body runs.
    pub trips: u64,
}

/// How often the body of a `while` runs, where that is known.
pub fn trip_count(module: &Module, computation: ComputationId, id: InstructionId) -> Option<u64> {
    let instruction = module.instruction(computation, id);
    let condition = &module.computations[instruction.attrs.computation(AttrKey::Condition)?];
    // A condition that is a constant says it all, whatever the state.
    if let Some(constant) = value::splat(condition, condition.root) {
        return constant.is_int(0).then_some(0);
    }
    counted(module, computation, id).map(|c| c.trips)
}

/// What is known of a `while`, where it counts.
pub fn counted(module: &Module, computation: ComputationId, id: InstructionId) -> Option<CountedLoop> {
    let instruction = module.instruction(computation, id);
    if instruction.opcode != Opcode::While {
        return None;
    }
    let caller = &module.computations[computation];
    let condition = &module.computations[instruction.attrs.computation(AttrKey::Condition)?];
    let body = &module.computations[instruction.attrs.computation(AttrKey::Body)?];
    let init = *instruction.operands.first()?;
    let compare = &condition.instructions[condition.root];
    if compare.opcode != Opcode::Compare {
        return None;
    }
    let [a, b] = compare.operands[..] else { return None };
    let direction = compare.attrs.word(AttrKey::Direction)?;
    // The bound is a constant of the condition, or an element that the body hands on and that starts as a constant.
    let bound = |id| -> Option<Element> {
        value::splat(condition, id).or_else(|| {
            let place = state(condition, id)?;
            (state(body, element(body, body.root, place)?)? == place).then_some(())?;
            value::splat(caller, element(caller, init, place)?)
        })
    };
    let sides = [(a, b, direction), (b, a, mirrored(direction)?)];
    for (counter, limit, direction) in sides {
        let (Some(place), Some(limit)) = (state(condition, counter), bound(limit)) else { continue };
        let Some(step) = step(body, place) else { continue };
        let start = value::splat(caller, element(caller, init, place)?)?;
        let (low, high) = int_range(start.ty())?;
        let (start, limit) = (start.int()?, limit.int()?);
        let trips = trips(start, step, limit, direction, low, high)?;
        return Some(CountedLoop { index: place.index(), start, step, trips });
    }
    None
}

/// A part of the loop state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Whole,
    Element(usize),
}

impl Place {
    fn index(self) -> Option<usize> {
        match self {
            Place::Whole => None,
            Place::Element(i) => Some(i),
        }
    }
}

/// Looks through instructions that only hand a value on.
fn handed_on(computation: &Computation, mut id: InstructionId) -> InstructionId {
    for _ in 0..8 {
        let instruction = &computation.instructions[id];
        match (instruction.opcode, instruction.operands.first()) {
            (Opcode::Copy | Opcode::Reshape, Some(&operand))
                if computation.instructions[operand].shape.same_ignoring_layout(&instruction.shape) =>
            {
                id = operand;
            }
            _ => break,
        }
    }
    id
}

/// Which part of the state, the computation's parameter, a value is.
fn state(computation: &Computation, id: InstructionId) -> Option<Place> {
    let instruction = &computation.instructions[handed_on(computation, id)];
    match instruction.opcode {
        Opcode::Parameter => Some(Place::Whole),
        Opcode::GetTupleElement => {
            let parameter = &computation.instructions[*instruction.operands.first()?];
            (parameter.opcode == Opcode::Parameter).then_some(Place::Element(instruction.element_number()?))
        }
        _ => None,
    }
}

/// The value at a place of the state that `id` builds.
fn element(computation: &Computation, id: InstructionId, place: Place) -> Option<InstructionId> {
    let id = handed_on(computation, id);
    let instruction = &computation.instructions[id];
    match place {
        Place::Whole => Some(id),
        Place::Element(i) if instruction.opcode == Opcode::Tuple => instruction.operands.get(i).copied(),
        Place::Element(_) => None,
    }
}

/// What the body adds to the counter each time.
fn step(body: &Computation, place: Place) -> Option<i128> {
    let next = &body.instructions[handed_on(body, element(body, body.root, place)?)];
    let [a, b] = next.operands[..] else { return None };
    let counts = |id| state(body, id) == Some(place);
    let amount = |id| value::splat(body, id)?.int();
    match next.opcode {
        Opcode::Add if counts(a) => amount(b),
        Opcode::Add if counts(b) => amount(a),
        Opcode::Subtract if counts(a) => Some(-amount(b)?),
        _ => None,
    }
}

/// The comparison with its sides exchanged.
fn mirrored(direction: &'static str) -> Option<&'static str> {
    Some(match direction {
        "LT" => "GT",
        "GT" => "LT",
        "LE" => "GE",
        "GE" => "LE",
        "EQ" => "EQ",
        "NE" => "NE",
        _ => return None,
    })
}

/// How many values of `start, start + step, ...` come before the first that fails `direction limit`.
fn trips(start: i128, step: i128, limit: i128, direction: &str, low: i128, high: i128) -> Option<u64> {
    let holds = |value: i128| match direction {
        "LT" => value < limit,
        "LE" => value <= limit,
        "GT" => value > limit,
        "GE" => value >= limit,
        "EQ" => value == limit,
        _ => value != limit,
    };
    if !holds(start) {
        return Some(0);
    }
    let distance = match direction {
        "LT" if step > 0 => limit - start,
        "LE" if step > 0 => limit - start + 1,
        "GT" if step < 0 => start - limit,
        "GE" if step < 0 => start - limit + 1,
        "EQ" if step != 0 => 1,
        "NE" if step != 0 && (limit - start) % step == 0 && (limit - start) / step > 0 => (limit - start).abs(),
        _ => return None,
    };
    let width = step.abs();
    let trips = (distance + width - 1) / width;
    // The counter must arrive without wrapping around.
    let last = start + trips * step;
    if last < low || last > high {
        return None;
    }
    u64::try_from(trips).ok()
}

#[cfg(test)]
mod tests {
    use super::trips;

    #[test]
    fn counts_of_every_direction() {
        let (low, high) = (i128::from(i32::MIN), i128::from(i32::MAX));
        let count = |start, step, limit, direction| trips(start, step, limit, direction, low, high);
        assert_eq!(count(0, 1, 10, "LT"), Some(10));
        assert_eq!(count(0, 3, 10, "LT"), Some(4));
        assert_eq!(count(0, 3, 10, "LE"), Some(4));
        assert_eq!(count(0, 1, 0, "LT"), Some(0));
        assert_eq!(count(10, -1, 0, "GT"), Some(10));
        assert_eq!(count(10, -4, 0, "GE"), Some(3));
        assert_eq!(count(0, 2, 10, "NE"), Some(5));
        assert_eq!(count(0, 3, 10, "NE"), None, "wraps around before it meets the limit");
        assert_eq!(count(5, 1, 5, "EQ"), Some(1));
        assert_eq!(count(0, -1, 10, "LT"), None);
        assert_eq!(count(0, 1, high, "LE"), None, "never ends");
        assert_eq!(count(0, 0, 10, "LT"), None);
    }
}
