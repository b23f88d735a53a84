//! Leaves: the arrays inside results, whatever tuples are around them.

use super::{Computation, InstructionId, Opcode};
use brolga_runtime::Shape;

/// A leaf of an instruction's result.
pub type Leaf = (InstructionId, usize);

/// Follows a leaf through instructions that only pass values on.
pub fn resolve(computation: &Computation, mut leaf: Leaf) -> Leaf {
    loop {
        let inst = &computation.instructions[leaf.0];
        match inst.opcode {
            Opcode::GetTupleElement => {
                let index = inst.element_number().unwrap_or(0);
                let operand = inst.operands[0];
                leaf = (operand, computation.instructions[operand].shape.leaves_before(index) + leaf.1);
            }
            Opcode::Tuple => {
                let Shape::Tuple(elements) = &inst.shape else { return leaf };
                let Some((index, inside)) = elements.element_of_leaf(leaf.1) else { return leaf };
                let Some(&operand) = inst.operands.get(index) else { return leaf };
                leaf = (operand, inside);
            }
            Opcode::OptimizationBarrier if inst.operands.len() == 1 => leaf = (inst.operands[0], leaf.1),
            // A send hands its value on beside its context.
            Opcode::Send if leaf.1 < computation.instructions[inst.operands[0]].shape.leaf_count() => {
                leaf = (inst.operands[0], leaf.1);
            }
            Opcode::AddDependency | Opcode::Domain => leaf = (inst.operands[0], leaf.1),
            _ => return leaf,
        }
    }
}
