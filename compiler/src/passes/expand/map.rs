//! `map` over an elementwise computation.

use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, Shape};
use hashbrown::HashMap;

/// Applies the computation to whole arrays; `None` where it does more than compute elements.
pub fn map(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id);
    let Some(callee) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let Some(shape) = instruction.shape.as_array().cloned() else { return Ok(None) };
    let arguments = instruction.operands.clone();
    let computation = &rw.module.computations[callee];
    let elementwise = |i: &InstructionId| {
        let instruction = &computation.instructions[*i];
        let scalar = instruction.shape.as_array().is_some_and(|a| a.rank() == 0);
        scalar && (hands_on(instruction.opcode) || holds(instruction.opcode) || instruction.opcode.is_elementwise())
    };
    if !computation.order.iter().all(elementwise) {
        return Ok(None);
    }
    let (order, root) = (computation.order.clone(), computation.root);
    let mut values: HashMap<InstructionId, InstructionId> = HashMap::new();
    for i in order {
        let mut source = rw.module.computations[callee].instructions[i].clone();
        let operands: Option<Vec<_>> = source.operands.iter().map(|o| values.get(o).copied()).collect();
        let ty = source.shape.as_array().map_or(shape.ty, |a| a.ty);
        let mapped = ArrayShape { ty, layout: None, ..shape.clone() };
        let value = match source.opcode {
            Opcode::Parameter => source.parameter_number().and_then(|n| arguments.get(n).copied()),
            Opcode::Constant => {
                let scalar = rw.push(source);
                Some(rw.broadcast_scalar(scalar, &mapped))
            }
            op if hands_on(op) => operands.and_then(|o| o.first().copied()),
            _ => operands.map(|operands| {
                (source.shape, source.operands) = (Shape::Array(mapped), operands);
                rw.push(source)
            }),
        };
        let Some(value) = value else { return Ok(None) };
        values.insert(i, value);
    }
    Ok(values.get(&root).copied())
}

/// Operations that do nothing to a scalar.
fn hands_on(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Copy | Opcode::Reshape | Opcode::Broadcast | Opcode::Transpose)
}

fn holds(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Parameter | Opcode::Constant)
}
