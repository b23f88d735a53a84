//! Products of transposes: a contraction that takes an operand as it lies.
//!
//! Problem: `x @ w.T` is a transpose and a product, and a product chooses its loops by the dimensions of its operands: those of the
//! transpose say that columns lie side by side, where rows do. Invariant: dimensions are paired and the result has them in the same
//! order as before; no bit changes but where a sum's order follows from the operand's dimensions. Algorithm: the numbers of the
//! contracted and the batch dimensions become those of the transpose's operand, where its other dimensions keep their order. What is
//! computed of transposes and scalars, for the product alone, is computed of the transposes' operands.

use super::Stats;
use super::rewrite::{Rewriter, rewrite};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Category, InstructionId, Module, Opcode};
use brolga_runtime::ArrayShape;

/// Removes transposes in front of products.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    for id in module.order.clone() {
        if !module.computations[id].holds(&[Opcode::Transpose, Opcode::Dot]) {
            continue;
        }
        let users = module.computations[id].users();
        rewrite(module, id, |rw, i| {
            if rw.opcode(i) != Opcode::Dot || rw.instruction(i).operands.len() != 2 {
                return Ok(None);
            }
            let mut product = rw.instruction(i).clone();
            let mut changed = false;
            for (side, keys) in [
                [AttrKey::LhsBatchDims, AttrKey::LhsContractingDims],
                [AttrKey::RhsBatchDims, AttrKey::RhsContractingDims],
            ]
            .into_iter()
            .enumerate()
            {
                let operand = rw.operand(i, side)?;
                let alone = users[operand].len() == 1;
                let Some(permutation) = turned(rw, operand, alone) else { continue };
                let paired = keys.map(|key| product.attrs.dimension_numbers(key));
                let free = (0..permutation.len()).filter(|d| paired.iter().all(|dims| !dims.contains(d)));
                if !free.map(|d| permutation[d]).is_sorted() {
                    continue;
                }
                for (key, dims) in keys.into_iter().zip(paired).filter(|(_, dims)| !dims.is_empty()) {
                    let there = dims.iter().map(|&d| permutation[d] as i64).collect();
                    product.attrs.set(key, AttrValue::Ints(there));
                }
                product.operands[side] = as_it_lies(rw, operand);
                changed = true;
            }
            if !changed {
                return Ok(None);
            }
            stats.add("turned operand", 1);
            Ok(Some(rw.push(product)))
        })?;
    }
    Ok(stats)
}

/// The permutation of a transpose of static dimensions, or of all transposes of which an elementwise operation is computed, and of
/// scalars, where only one has need of it.
fn turned(rw: &Rewriter<'_>, id: InstructionId, alone: bool) -> Option<Vec<usize>> {
    let inst = rw.instruction(id);
    let fixed = |&v: &InstructionId| rw.array(v).is_some_and(|a| !a.is_dynamic());
    if !inst.operands.iter().chain([&id]).all(fixed) {
        return None;
    }
    if inst.opcode == Opcode::Transpose {
        let permutation = inst.attrs.dimension_numbers(AttrKey::Dimensions);
        return (permutation.len() == rw.dims(inst.operands.first().copied()?).len()).then_some(permutation);
    }
    let ordered = inst.attrs.instructions(AttrKey::ControlPredecessors).is_some_and(|all| !all.is_empty());
    if !alone || ordered || inst.opcode.category() != Category::Elementwise {
        return None;
    }
    let mut of = inst.operands.iter().filter(|&&o| scalar(rw, o).is_none()).map(|&o| match rw.opcode(o) {
        Opcode::Transpose => turned(rw, o, true),
        _ => None,
    });
    let first = of.next()??;
    of.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The scalar that a value is everywhere.
fn scalar(rw: &Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let broadcast = rw.operand_of(id, Opcode::Broadcast).unwrap_or(id);
    rw.dims(broadcast).is_empty().then_some(broadcast)
}

/// What a value that is [`turned`] is without its transposes.
fn as_it_lies(rw: &mut Rewriter<'_>, id: InstructionId) -> InstructionId {
    if let Some(operand) = rw.operand_of(id, Opcode::Transpose) {
        return operand;
    }
    let mut inst = rw.instruction(id).clone();
    let lies = inst.operands.iter().find_map(|&o| rw.operand_of(o, Opcode::Transpose));
    let dims = lies.map(|o| rw.dims(o).to_vec()).unwrap_or_default();
    let of = |ty| ArrayShape::new(ty, dims.as_slice());
    for operand in &mut inst.operands {
        *operand = match (scalar(rw, *operand), rw.array(*operand).map(|a| a.ty)) {
            (Some(scalar), Some(ty)) if scalar != *operand => rw.broadcast_scalar(scalar, &of(ty)),
            (None, _) => as_it_lies(rw, *operand),
            _ => *operand,
        };
    }
    if let Some(ty) = rw.array(id).map(|a| a.ty) {
        inst.shape = of(ty).into();
    }
    rw.push(inst)
}
