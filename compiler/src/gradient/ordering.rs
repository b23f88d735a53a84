//! Sort and top-k: cotangents go back by the permutation that the forward operation made.

use super::replay;
use super::rule::{Rule, zeros};
use super::scalars::comparison;
use crate::builder::{Builder, Op, ScatterDimensions, Shape, scalar_computation};
use crate::error::Result;
use crate::hlo::{AttrKey, ComparisonDirection, Module, Opcode};
use brolga_runtime::ElementType;

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::Sort => sort(r),
        Opcode::TopK => top_k(r),
        _ => Err(r.no_rule()),
    }
}

/// Sorting the numbers of the places along yields the permutation, sorting the cotangents by these undoes it. Both sorts are
/// stable, so that equal elements keep their order.
fn sort(r: &mut Rule<'_>) -> Result<()> {
    let b = r.b;
    let shape = r.shape(r.operand(0)?)?;
    let dimension = r.attrs().ints_or_empty(AttrKey::Dimensions).first().copied().unwrap_or(shape.rank() as i64 - 1);
    let ty = ElementType::S32;
    let places = b.iota(shape.with_type(ty).into(), dimension);
    let mut forward = r.operands.clone();
    forward.push(places);
    let compared = beside(r, &r.callee(AttrKey::ToApply)?, ty)?;
    let sorted = b.sort(&forward, &compared, dimension, true);
    let permutation = b.get_tuple_element(sorted, r.operands.len() as i64);
    let cotangents: Vec<(usize, Op)> =
        r.cotangent.iter().enumerate().filter_map(|(i, c)| Some((i, (*c)?))).filter(|&(i, _)| r.wants(i)).collect();
    let keyed: Vec<Op> = std::iter::once(permutation).chain(cotangents.iter().map(|c| c.1)).collect();
    let types: Vec<ElementType> = cotangents.iter().map(|c| Ok(r.shape(c.1)?.ty)).collect::<Result<_>>()?;
    let back = b.sort(&keyed, &ascending(r, ty, &types)?, dimension, true);
    for (k, (i, _)) in cotangents.into_iter().enumerate() {
        r.give(i, b.get_tuple_element(back, k as i64 + 1));
    }
    Ok(())
}

/// The comparator, with a further pair of arguments of type `ty` that it does not look at.
fn beside(r: &Rule<'_>, comparator: &Module, ty: ElementType) -> Result<Module> {
    let entry = comparator.entry();
    let b = Builder::new_at(r.at, "beside");
    let mut arguments = Vec::new();
    for &id in &entry.parameters() {
        arguments.push(Some(b.parameter(arguments.len() as i64, entry.instructions[id].shape.clone(), "")));
    }
    for n in 0..2 {
        b.parameter(arguments.len() as i64 + n, Shape::scalar(ty), "");
    }
    let root = replay::replay(&b, r.at, comparator, &arguments)?;
    b.build_with_root(root)
}

/// The comparator that orders keys of type `ty`, beside values of `types`.
fn ascending(r: &Rule<'_>, ty: ElementType, types: &[ElementType]) -> Result<Module> {
    if types.is_empty() {
        return comparison(r.at, ty, ComparisonDirection::Lt);
    }
    let b = Builder::new_at(r.at, "ascending");
    let all = std::iter::once(ty).chain(types.iter().copied()).flat_map(|t| [t, t]);
    let parameters: Vec<Op> = all.enumerate().map(|(n, t)| b.parameter(n as i64, Shape::scalar(t), "")).collect();
    let [x, y, ..] = parameters[..] else { return Err(r.broken("sorts nothing")) };
    let root = b.lt(x, y);
    b.build_with_root(root)
}

/// The cotangents of the values, at their indices.
fn top_k(r: &mut Rule<'_>) -> Result<()> {
    let (b, x) = (r.b, r.operand(0)?);
    let Some(Some(ct)) = r.cotangent.first().copied() else { return Ok(()) };
    let shape = r.shape(x)?;
    let Some(last) = (shape.rank() as i64).checked_sub(1).filter(|&d| d >= 0) else {
        return Err(r.broken("orders a scalar"));
    };
    let indices = b.get_tuple_element(r.op, 1);
    let batch: Vec<i64> = (0..last).collect();
    let dims = ScatterDimensions {
        update_window_dims: vec![],
        inserted_window_dims: vec![last],
        scatter_dims_to_operand_dims: vec![last],
        index_vector_dim: last + 1,
        input_batching_dims: batch.clone(),
        scatter_indices_batching_dims: batch,
    };
    let add = scalar_computation(Opcode::Add, shape.ty)?;
    let value = b.scatter(&[zeros(b, &shape)], indices, &[ct], &add, &dims, false, false);
    r.give(0, value);
    Ok(())
}
