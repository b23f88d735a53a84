//! `topk` under its older name: a custom call.

use super::{AttrKey, Instruction, Module, Opcode};

/// The target of custom calls that are a `topk`.
const TARGET: &str = "TopK";

/// What a custom call that is a `topk` keeps: how many elements, and whether the largest. A comparator, where the call has
/// one, says that; nothing for other calls, and where the comparator is more than a comparison.
pub fn top_k_call(module: &Module, inst: &Instruction) -> Option<(i64, bool)> {
    if inst.opcode != Opcode::CustomCall || inst.attrs.str(AttrKey::CustomCallTarget) != Some(TARGET) {
        return None;
    }
    let &[values, places] = inst.shape.as_tuple()?.iter().collect::<Vec<_>>().as_slice() else { return None };
    let k = *values.as_array()?.dims.last()?;
    if inst.operands.len() != 1 || places.as_array()?.ty != brolga_runtime::ElementType::S32 {
        return None;
    }
    let called = inst.attrs.computations(AttrKey::CalledComputations).unwrap_or(&[]);
    let comparator = match (called, inst.attrs.computation(AttrKey::ToApply)) {
        ([], None) => return Some((k, true)),
        (&[one], None) => one,
        ([], Some(one)) => one,
        _ => return None,
    };
    let c = &module.computations[comparator];
    let root = &c.instructions[c.root];
    let parameters: Vec<Option<i64>> =
        root.operands.iter().map(|&o| c.instructions[o].parameter_number().map(|n| n as i64)).collect();
    match (root.attrs.word(AttrKey::Direction)?, parameters.as_slice()) {
        ("GT", [Some(0), Some(1)]) | ("LT", [Some(1), Some(0)]) => Some((k, true)),
        ("LT", [Some(0), Some(1)]) | ("GT", [Some(1), Some(0)]) => Some((k, false)),
        _ => None,
    }
}
