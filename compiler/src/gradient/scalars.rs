//! Computations of scalars, as reductions, windows, maps and sorts are given them: which operation one is, one made of
//! a comparison, and one applied to whole arrays.

use super::replay::behind;
use super::rule::{Rule, full};
use crate::builder::{At, Builder, Op, Shape};
use crate::error::Result;
use crate::hlo::{AttrKey, ComparisonDirection, ComputationId, InstructionId, Module, Opcode};
use brolga_runtime::{ArrayShape, ElementType};
use hashbrown::HashMap;

/// The operation of two numbers that a computation of two scalars is, whatever it converts them to on the way.
pub(super) fn reducer(module: &Module) -> Option<Opcode> {
    let entry = module.entry();
    let plain = |id| &entry.instructions[behind(entry, id, &[Opcode::Convert, Opcode::Copy])];
    let root = plain(entry.root);
    let [x, y] = root.operands[..] else { return None };
    let numbers = (plain(x).parameter_number()?, plain(y).parameter_number()?);
    let known = matches!(root.opcode, Opcode::Add | Opcode::Multiply | Opcode::Maximum | Opcode::Minimum);
    (known && matches!(numbers, (0, 1) | (1, 0)) && entry.parameters().len() == 2).then_some(root.opcode)
}

/// The opcode at the root of a computation that is none of these, for an error.
pub(super) fn root_name(module: &Module) -> &'static str {
    module.entry().instructions[module.entry().root].opcode.name()
}

/// A computation that compares two scalars.
pub(super) fn comparison(at: At, ty: ElementType, direction: ComparisonDirection) -> Result<Module> {
    let b = Builder::new_at(at, "compare");
    let x = b.parameter(0, Shape::scalar(ty), "x");
    let y = b.parameter(1, Shape::scalar(ty), "y");
    let root = compare(&b, x, y, direction);
    b.build_with_root(root)
}

pub(super) fn compare(b: &Builder, x: Op, y: Op, direction: ComparisonDirection) -> Op {
    match direction {
        ComparisonDirection::Eq => b.eq(x, y),
        ComparisonDirection::Ne => b.ne(x, y),
        ComparisonDirection::Ge => b.ge(x, y),
        ComparisonDirection::Gt => b.gt(x, y),
        ComparisonDirection::Le => b.le(x, y),
        ComparisonDirection::Lt => b.lt(x, y),
    }
}

/// A computation of scalars, on arrays: each of its values becomes an array of the dimensions of `shape`. The result is that
/// of the computation, or the elements of the tuple that is its result.
pub(super) fn lifted(
    r: &Rule<'_>,
    module: &Module,
    id: ComputationId,
    shape: &ArrayShape,
    arguments: &[Op],
) -> Result<Vec<Op>> {
    let b = r.b;
    let computation = &module.computations[id];
    let mut ops: HashMap<InstructionId, Vec<Op>> = HashMap::new();
    let refuse = |opcode: Opcode| Err(r.refuse(&format!("by a computation that contains {opcode}")));
    for &i in &computation.order {
        let instruction = &computation.instructions[i];
        let operands: Vec<Op> = instruction.operands.iter().filter_map(|o| ops.get(o)).flatten().copied().collect();
        let value = match instruction.opcode {
            Opcode::Parameter => {
                let argument = instruction.parameter_number().and_then(|n| arguments.get(n));
                vec![*argument.ok_or_else(|| r.broken("has too few operands"))?]
            }
            Opcode::Call => {
                let callee = instruction.attrs.computation(AttrKey::ToApply);
                lifted(r, module, callee.ok_or_else(|| r.broken("calls nothing"))?, shape, &operands)?
            }
            Opcode::Constant => {
                let scalar =
                    b.append(r.at, Opcode::Constant, &[], instruction.attrs.clone(), instruction.shape.clone());
                vec![full(b, shape, scalar)]
            }
            Opcode::Tuple => operands,
            Opcode::GetTupleElement => {
                let index = instruction.element_number();
                let element = index.and_then(|i| operands.get(i)).ok_or_else(|| r.broken("takes no element"))?;
                vec![*element]
            }
            Opcode::Copy | Opcode::Reshape if !operands.is_empty() => vec![operands[0]],
            opcode if opcode.is_elementwise() => {
                let Shape::Array(scalar) = &instruction.shape else { return refuse(opcode) };
                let shape = shape.with_type(scalar.ty).into();
                vec![b.append(r.at, opcode, &operands, instruction.attrs.clone(), shape)]
            }
            opcode => return refuse(opcode),
        };
        ops.insert(i, value);
    }
    ops.remove(&computation.root).ok_or_else(|| r.broken("maps a computation without a root"))
}
