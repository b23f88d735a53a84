//! What lies between inputs and outputs, and which leaves of it depend on the inputs by way of differentiable operations.

use crate::builder::{Builder, Op};
use crate::hlo::{Instruction, Opcode};
use brolga_runtime::Shape;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// How far the walk goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// To everything that varies: an input may depend on another.
    Inputs,
    /// Not past the inputs, which are independent of each other, whatever they were made from.
    Nothing,
}

/// An instruction that outputs depend on.
pub(super) struct Node {
    pub op: Op,
    pub instruction: Instruction,
    pub operands: Vec<Op>,
    /// For each leaf of its shape: whether it is of a floating-point or complex type and depends on an input.
    pub active: Vec<bool>,
}

/// The instructions that outputs depend on, by number, so that operands come first.
pub(super) struct Reach(pub BTreeMap<usize, Node>);

impl Reach {
    /// What `outputs` depend on. Of each input the leaves that the mask names vary.
    pub fn of(b: &Builder, outputs: &[Op], inputs: &[(Op, Vec<bool>)], past: Past) -> Reach {
        let inputs: HashMap<Op, &Vec<bool>> = inputs.iter().map(|(op, mask)| (*op, mask)).collect();
        let mut nodes = BTreeMap::new();
        let mut stack = outputs.to_vec();
        while let Some(op) = stack.pop() {
            if nodes.contains_key(&op.number()) {
                continue;
            }
            let Some(instruction) = b.instruction(op) else { continue };
            let operands: Vec<Op> = instruction.operands.iter().map(|&o| b.value(o)).collect();
            if !(inputs.contains_key(&op) && past == Past::Nothing) {
                stack.extend(&operands);
            }
            nodes.insert(op.number(), Node { op, instruction, operands, active: Vec::new() });
        }
        let mut reach = Reach(nodes);
        let numbers: Vec<usize> = reach.0.keys().copied().collect();
        for number in numbers {
            let Some(node) = reach.0.get(&number) else { continue };
            let active = match inputs.get(&node.op) {
                Some(&mask) if past == Past::Nothing => mask.clone(),
                Some(mask) => mask.iter().zip(reach.of_operands(node)).map(|(&a, b)| a || b).collect(),
                None => reach.of_operands(node),
            };
            if let Some(node) = reach.0.get_mut(&number) {
                node.active = active;
            }
        }
        reach
    }

    /// Which leaves of a value vary.
    pub fn active(&self, op: Op) -> &[bool] {
        self.0.get(&op.number()).map_or(&[], |n| &n.active)
    }

    fn of_operands(&self, node: &Node) -> Vec<bool> {
        let instruction = &node.instruction;
        let smooth = smooth_leaves(&instruction.shape);
        let operand = |i: usize| node.operands.get(i).map_or(&[][..], |&o| self.active(o));
        let some = match instruction.opcode {
            _ if cuts(instruction) => return vec![false; smooth.len()],
            Opcode::Tuple => node.operands.iter().flat_map(|&o| self.active(o).iter().copied()).collect(),
            Opcode::GetTupleElement => {
                let index = instruction.element_number().unwrap_or(0);
                let tuple = node.operands.first().and_then(|&o| self.0.get(&o.number()));
                let skipped = tuple.map_or(0, |t| t.instruction.shape.leaves_before(index));
                operand(0).iter().skip(skipped).take(smooth.len()).copied().collect()
            }
            // The token does not vary.
            Opcode::OptimizationBarrier if node.operands.len() == 1 => operand(0).to_vec(),
            Opcode::AddDependency | Opcode::Domain => operand(0).to_vec(),
            // What chooses does not vary.
            Opcode::Select => operand(1).iter().zip(operand(2)).map(|(&a, &b)| a || b).collect(),
            _ => vec![node.operands.iter().any(|&o| self.active(o).contains(&true)); smooth.len()],
        };
        let mut active = smooth;
        active.iter_mut().zip(some).for_each(|(smooth, some)| *smooth &= some);
        active
    }
}

/// For each leaf, whether it is of a floating-point or complex type.
pub(super) fn smooth_leaves(shape: &Shape) -> Vec<bool> {
    shape.leaves().iter().map(|l| l.as_array().is_some_and(|a| a.ty.is_float() || a.ty.is_complex())).collect()
}

/// Whether the derivative is zero wherever there is one: steps, and what looks at bits.
fn cuts(instruction: &Instruction) -> bool {
    match instruction.opcode {
        Opcode::Ceil | Opcode::Floor | Opcode::RoundNearestAfz | Opcode::RoundNearestEven => true,
        Opcode::BitcastConvert => true,
        Opcode::Sign => instruction.shape.as_array().is_none_or(|a| !a.ty.is_complex()),
        _ => false,
    }
}
