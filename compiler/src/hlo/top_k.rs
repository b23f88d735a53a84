//! `topk` under its older name: a custom call.

use super::{AttrKey, Computation, Instruction, InstructionId, Module, Opcode};
use brolga_runtime::ElementType;
use std::collections::HashMap;

/// The target of custom calls that are a `topk`.
const TARGET: &str = "TopK";

/// What a custom call that is a `topk` keeps: how many elements, and whether the largest. A comparator, where the call has
/// one, says that, perhaps wrapped in selections that always go one way; nothing for other calls, and where the comparator is
/// more than a comparison.
pub fn top_k_call(module: &Module, inst: &Instruction) -> Option<(i64, bool)> {
    if inst.opcode != Opcode::CustomCall || inst.attrs.str(AttrKey::CustomCallTarget) != Some(TARGET) {
        return None;
    }
    let &[values, places] = inst.shape.as_tuple()?.iter().collect::<Vec<_>>().as_slice() else { return None };
    let k = *values.as_array()?.dims.last()?;
    if inst.operands.len() != 1 || places.as_array()?.ty != ElementType::S32 {
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
    let means = meanings(c);
    let root = match means.get(&c.root)? {
        Meaning::Is(id) => &c.instructions[*id],
        Meaning::Always(_) => return None,
    };
    let number = |id: &InstructionId| match means.get(id)? {
        Meaning::Is(id) => c.instructions[*id].parameter_number(),
        Meaning::Always(_) => None,
    };
    let parameters: Vec<Option<usize>> = root.operands.iter().map(number).collect();
    match (root.attrs.word(AttrKey::Direction)?, parameters.as_slice()) {
        ("GT", [Some(0), Some(1)]) | ("LT", [Some(1), Some(0)]) => Some((k, true)),
        ("LT", [Some(0), Some(1)]) | ("GT", [Some(1), Some(0)]) => Some((k, false)),
        _ => None,
    }
}

/// What an instruction of a comparator comes to.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    /// A truth value, whatever is compared.
    Always(bool),
    /// What another instruction yields, or itself.
    Is(InstructionId),
}

/// What every instruction comes to, selections and logic with constants undone.
fn meanings(c: &Computation) -> HashMap<InstructionId, Meaning> {
    let mut means: HashMap<InstructionId, Meaning> = HashMap::new();
    for &id in &c.order {
        let inst = &c.instructions[id];
        let operands: Vec<Meaning> =
            inst.operands.iter().map(|o| means.get(o).copied().unwrap_or(Meaning::Is(*o))).collect();
        let meaning = match (inst.opcode, &operands[..]) {
            (Opcode::Constant, _) => truth(inst).map(Meaning::Always),
            (Opcode::Copy, &[x]) => Some(x),
            (Opcode::Select, &[Meaning::Always(p), x, y]) => Some(if p { x } else { y }),
            (Opcode::Select, &[p, Meaning::Always(true), Meaning::Always(false)]) => Some(p),
            (Opcode::Select, &[_, x, y]) if x == y => Some(x),
            (Opcode::And, &[Meaning::Always(p), x] | &[x, Meaning::Always(p)]) => {
                Some(if p { x } else { Meaning::Always(false) })
            }
            (Opcode::Or, &[Meaning::Always(p), x] | &[x, Meaning::Always(p)]) => {
                Some(if p { Meaning::Always(true) } else { x })
            }
            (Opcode::And | Opcode::Or, &[x, y]) if x == y => Some(x),
            (Opcode::Not, &[Meaning::Always(p)]) => Some(Meaning::Always(!p)),
            _ => None,
        };
        means.insert(id, meaning.unwrap_or(Meaning::Is(id)));
    }
    means
}

/// The value of a constant truth value.
fn truth(inst: &Instruction) -> Option<bool> {
    let array = inst.literal()?.as_array()?;
    (array.ty() == ElementType::Pred && array.dims().is_empty()).then(|| array.get(0).as_bool())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a `TopK` keeps whose comparator ends in `lines`.
    fn kept(lines: &str) -> Option<(i64, bool)> {
        let text = format!(
            "HloModule m\nc {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n i = s32[] parameter(2)\n \
             j = s32[] parameter(3)\n t = pred[] constant(true)\n f = pred[] constant(false)\n \
             g = pred[] compare(a, b), direction=GT, type=TOTALORDER\n{lines}\n}}\n\
             ENTRY e {{\n p = f32[9] parameter(0)\n \
             ROOT r = (f32[3], s32[3]) custom-call(p), custom_call_target=\"TopK\", called_computations={{c}}\n}}\n"
        );
        let module = crate::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let entry = module.entry();
        top_k_call(&module, &entry.instructions[entry.root])
    }

    #[test]
    fn comparators_that_come_to_a_comparison() {
        for lines in [
            "ROOT r = pred[] select(t, g, t)",
            "n = pred[] not(t)\n ROOT r = pred[] select(n, f, g)",
            "ROOT r = pred[] select(g, t, f)",
            "s = pred[] select(t, g, t)\n ROOT r = pred[] and(s, t)",
            "s = pred[] or(f, g)\n ROOT r = pred[] and(s, g)",
            "x = f32[] copy(a)\n ROOT r = pred[] compare(b, x), direction=LT",
        ] {
            assert_eq!(kept(lines), Some((3, true)), "{lines}");
        }
        assert_eq!(kept("l = pred[] compare(a, b), direction=LT\n ROOT r = pred[] select(f, g, l)"), Some((3, false)));
        for lines in [
            "ROOT r = pred[] select(f, g, t)",
            "ROOT r = pred[] select(g, f, t)",
            "ROOT r = pred[] not(g)",
            "l = pred[] compare(i, j), direction=LT\n ROOT r = pred[] or(g, l)",
            "ROOT r = pred[] compare(i, j), direction=GT",
        ] {
            assert_eq!(kept(lines), None, "{lines}");
        }
    }
}
