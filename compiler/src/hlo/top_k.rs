//! `topk` under its older name: a custom call.

use super::{AttrKey, Computation, Instruction, InstructionId, Module, Opcode};
use brolga_runtime::ElementType;
use hashbrown::HashMap;

/// The target of custom calls that are a `topk`.
const TARGET: &str = "TopK";

/// What a custom call that is a `topk` keeps: how many elements, and whether the largest. A comparator, where the call has
/// one, says that, perhaps wrapped in selections that always go one way, perhaps of the integers that order as the floats do in
/// their total order, as XLA's optimised text has it; nothing for other calls, and where the comparator is more than a comparison.
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
    let Meaning::Is(root) = means.get(&c.root)? else { return None };
    let root = &c.instructions[*root];
    let number = |id: &InstructionId| match means.get(id)? {
        Meaning::Is(float) => c.instructions[*float].parameter_number(),
        Meaning::Order(float) if is_signed(&c.instructions[*id]) => c.instructions[*float].parameter_number(),
        _ => None,
    };
    let ordered = |id: &InstructionId| matches!(means.get(id), Some(Meaning::Order(_)));
    let parameters: Vec<Option<usize>> = root.operands.iter().map(number).collect();
    if root.operands.iter().any(ordered) != root.operands.iter().all(ordered) {
        return None;
    }
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
    /// The bits of a float as an integer.
    Bits(InstructionId),
    /// Whether the sign bit of a float is set.
    Negative(InstructionId),
    /// The bits of a float, all but the sign bit inverted, where that is set; of other floats something else.
    Flipped(InstructionId),
    /// The integer that orders as a float does in the total order: its bits, all but the sign bit inverted where that is set.
    Order(InstructionId),
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
            _ => order(c, inst, &operands),
        };
        means.insert(id, meaning.unwrap_or(Meaning::Is(id)));
    }
    means
}

/// The steps from a float to the integer that orders as it does.
fn order(c: &Computation, inst: &Instruction, operands: &[Meaning]) -> Option<Meaning> {
    let of = |id: InstructionId| scalar_type(&c.instructions[id]);
    let integer = |m: Meaning| match m {
        Meaning::Is(id) => {
            let array = c.instructions[id].literal()?.as_array()?;
            array.dims().is_empty().then(|| array.get(0).as_i64())
        }
        _ => None,
    };
    // All ones but for the sign bit of this width.
    let magnitude =
        |m: Meaning, float| integer(m).is_some() && integer(m) == of(float).map(|ty| i64::MAX >> (64 - ty.bits()));
    let ty = scalar_type(inst)?;
    match (inst.opcode, operands) {
        (Opcode::Bitcast | Opcode::BitcastConvert, &[from]) if ty.is_integer() => match from {
            Meaning::Is(id) if of(id)?.is_float() && of(id)?.bits() == ty.bits() => Some(Meaning::Bits(id)),
            Meaning::Bits(id) | Meaning::Flipped(id) | Meaning::Order(id) if of(id)?.bits() == ty.bits() => Some(from),
            _ => None,
        },
        (Opcode::Compare, &[Meaning::Bits(id), zero]) => {
            let signed = is_signed(&c.instructions[*inst.operands.first()?]);
            let less = inst.attrs.word(AttrKey::Direction) == Some("LT");
            (signed && less && integer(zero) == Some(0)).then_some(Meaning::Negative(id))
        }
        (Opcode::Xor, &[Meaning::Bits(id), mask] | &[mask, Meaning::Bits(id)]) => {
            magnitude(mask, id).then_some(Meaning::Flipped(id))
        }
        // Where the sign bit is set, the difference is the same.
        (Opcode::Subtract, &[mask, Meaning::Bits(id)]) => magnitude(mask, id).then_some(Meaning::Flipped(id)),
        (Opcode::Select, &[Meaning::Negative(p), Meaning::Flipped(x), Meaning::Bits(y)]) => {
            (p == x && x == y).then_some(Meaning::Order(p))
        }
        _ => None,
    }
}

fn scalar_type(inst: &Instruction) -> Option<ElementType> {
    inst.shape.as_array().filter(|a| a.rank() == 0).map(|a| a.ty)
}

fn is_signed(inst: &Instruction) -> bool {
    scalar_type(inst).is_some_and(ElementType::is_signed_integer)
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

    /// The integer total order of `a` and `b`, with pieces that a test may replace.
    const TOTAL_ORDER: &str = "z = s32[] constant(0)\n m = s32[] constant(2147483647)
        p = s32[] bitcast(a)\n q = s32[] bitcast(b)
        x = s32[] xor(m, p)\n y = s32[] xor(q, m)
        n = pred[] compare(p, z), direction=LT\n o = pred[] compare(q, z), direction=LT
        k = s32[] select(n, x, p)\n l = s32[] select(o, y, q)
        ROOT r = pred[] compare(k, l), direction=GT";

    #[test]
    fn comparators_of_the_integers_that_order_as_floats_do() {
        assert_eq!(kept(TOTAL_ORDER), Some((3, true)));
        assert_eq!(kept(&TOTAL_ORDER.replace("GT", "LT")), Some((3, false)));
        assert_eq!(kept(&TOTAL_ORDER.replace("compare(k, l)", "compare(l, k)")), Some((3, false)));
        let subtracted = TOTAL_ORDER
            .replace("x = s32[] xor(m, p)", "mu = u32[] constant(2147483647)\n pu = u32[] bitcast-convert(a)\n d = u32[] subtract(mu, pu)\n x = s32[] bitcast-convert(d)");
        assert_eq!(kept(&subtracted), Some((3, true)));
        for (piece, other) in [
            ("constant(2147483647)", "constant(2147483646)"),
            ("constant(0)", "constant(1)"),
            ("compare(q, z), direction=LT", "compare(q, z), direction=LE"),
            ("select(n, x, p)", "select(o, x, p)"),
            ("select(n, x, p)", "select(n, p, x)"),
            ("select(o, y, q)", "select(o, y, p)"),
            ("bitcast(b)", "bitcast(j)"),
            ("compare(k, l)", "compare(k, q)"),
        ] {
            assert_eq!(kept(&TOTAL_ORDER.replace(piece, other)), None, "{other}");
        }
        let unsigned = TOTAL_ORDER.replace("compare(k, l)", "compare(ku, lu)");
        let unsigned =
            unsigned.replace("ROOT r", "ku = u32[] bitcast-convert(k)\n lu = u32[] bitcast-convert(l)\n ROOT r");
        assert_eq!(kept(&unsigned), None, "unsigned integers order otherwise");
    }
}
