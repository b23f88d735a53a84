//! Products of transposes: a contraction that takes an operand as it lies.
//!
//! Problem: `x @ w.T` is a transpose and a product, and a product chooses its loops by the dimensions of its operands: those of the
//! transpose say that columns lie side by side, where rows do. Invariant: dimensions are paired and the result has them in the same
//! order as before; no bit changes but where a sum's order follows from the operand's dimensions. Algorithm: the numbers of the
//! contracted and the batch dimensions become those of the transpose's operand, where its other dimensions keep their order.

use super::Stats;
use super::rewrite::{Rewriter, rewrite};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, InstructionId, Module, Opcode};

/// Removes transposes in front of products.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    for id in module.order.clone() {
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
                let Some((operand, permutation)) = transposed(rw, rw.operand(i, side)?) else { continue };
                let paired = keys.map(|key| product.attrs.dimension_numbers(key));
                let free = (0..permutation.len()).filter(|d| paired.iter().all(|dims| !dims.contains(d)));
                if !free.map(|d| permutation[d]).is_sorted() {
                    continue;
                }
                for (key, dims) in keys.into_iter().zip(paired).filter(|(_, dims)| !dims.is_empty()) {
                    let there = dims.iter().map(|&d| permutation[d] as i64).collect();
                    product.attrs.set(key, AttrValue::Ints(there));
                }
                product.operands[side] = operand;
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

/// What a transpose of static dimensions reads, and its permutation.
fn transposed(rw: &Rewriter<'_>, id: InstructionId) -> Option<(InstructionId, Vec<usize>)> {
    let inst = rw.instruction(id);
    let &[operand] = inst.operands.as_slice() else { return None };
    let fixed =
        inst.opcode == Opcode::Transpose && [id, operand].iter().all(|&v| rw.array(v).is_some_and(|a| !a.is_dynamic()));
    let permutation = inst.attrs.dimension_numbers(AttrKey::Dimensions);
    (fixed && permutation.len() == rw.dims(operand).len()).then_some((operand, permutation))
}
