//! Leaves: the arrays inside results, whatever tuples are around them.

use super::{AttrKey, Computation, InstructionId, Opcode};

/// A leaf of an instruction's result.
pub type Leaf = (InstructionId, usize);

/// Follows a leaf through instructions that only pass values on.
pub fn resolve(computation: &Computation, mut leaf: Leaf) -> Leaf {
    loop {
        let inst = &computation.instructions[leaf.0];
        match inst.opcode {
            Opcode::GetTupleElement => {
                let index = inst.attrs.int(AttrKey::Index).unwrap_or(0).max(0) as usize;
                let operand = inst.operands[0];
                leaf = (operand, computation.instructions[operand].shape.leaves_before(index) + leaf.1);
            }
            Opcode::Tuple => {
                let mut rest = leaf.1;
                let mut found = None;
                for &o in &inst.operands {
                    let n = computation.instructions[o].shape.leaf_count();
                    if rest < n {
                        found = Some((o, rest));
                        break;
                    }
                    rest -= n;
                }
                match found {
                    Some(next) => leaf = next,
                    None => return leaf,
                }
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
