//! Calls and conditionals.

use super::reach::Past;
use super::replay::{assemble, leaves, may_run_again, replay};
use super::reverse::pull_masked;
use super::rule::{Cotangent, Rule, zeros};
use crate::builder::{Builder, Op, Shape};
use crate::error::Result;
use crate::hlo::{AttrKey, Module, Opcode};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::Call => call(r, AttrKey::ToApply),
        Opcode::Fusion => call(r, AttrKey::Calls),
        _ => conditional(r),
    }
}

/// The computation is copied in and differentiated instead.
fn call(r: &mut Rule<'_>, key: AttrKey) -> Result<()> {
    let computation = r.callee(key)?;
    may_run_again(r, &computation)?;
    r.instead(|r| {
        let arguments: Vec<Option<Op>> = r.operands.iter().copied().map(Some).collect();
        let result = replay(r.b, r.at, &computation, &arguments)?;
        leaves(r.b, result)
    })
}

/// A conditional of the derivatives of the branches: each takes its operand and the cotangents, and yields the cotangents of
/// all operands, of which it knows its own.
fn conditional(r: &mut Rule<'_>) -> Result<()> {
    let branches: Vec<Module> = match r.attrs().computations(AttrKey::BranchComputations) {
        Some(ids) => ids.iter().map(|&id| r.b.called(id)).collect::<Result<_>>()?,
        None => vec![r.callee(AttrKey::TrueComputation)?, r.callee(AttrKey::FalseComputation)?],
    };
    for branch in &branches {
        may_run_again(r, branch)?;
    }
    // Branches often share an operand: its cotangent is one.
    let mut targets: Vec<(usize, Op, Vec<usize>)> = Vec::new();
    for i in 1..r.operands.len() {
        let op = r.operand(i)?;
        if r.wants(i) && !targets.iter().any(|t| t.1 == op) {
            let wanted = r.wanted(i).iter().enumerate().filter(|(_, w)| **w).map(|(leaf, _)| leaf).collect();
            targets.push((i, op, wanted));
        }
    }
    let mut derivatives = Vec::with_capacity(branches.len());
    let mut operands = Vec::with_capacity(branches.len());
    for (k, branch) in branches.iter().enumerate() {
        let operand = r.operand(k + 1)?;
        derivatives.push(derivative(r, branch, operand, &targets)?);
        let mut all = leaves(r.b, operand)?;
        all.extend(r.cotangent.iter().flatten());
        operands.push(r.b.tuple(&all));
    }
    let chooser = r.operand(0)?;
    let result = match (&derivatives[..], &operands[..]) {
        ([yes, no], [on_true, on_false]) if r.attrs().computations(AttrKey::BranchComputations).is_none() => {
            r.b.conditional(chooser, *on_true, yes, *on_false, no)
        }
        _ => r.b.conditional_indexed(chooser, &derivatives.iter().collect::<Vec<_>>(), &operands),
    };
    let mut index = 0;
    for (i, _, wanted) in targets {
        for leaf in wanted {
            r.give_leaf(i, leaf, r.b.get_tuple_element(result, index));
            index += 1;
        }
    }
    Ok(())
}

/// The derivative of a branch as a computation of the leaves of its operand and the cotangents.
fn derivative(r: &Rule<'_>, branch: &Module, operand: Op, targets: &[(usize, Op, Vec<usize>)]) -> Result<Module> {
    let b = Builder::new_at(r.at, &format!("{}.gradient", branch.name));
    let shape = r.b.shape(operand)?.without_layout();
    let count = shape.leaf_count();
    let mut parts: Vec<Shape> = shape.leaves().into_iter().cloned().collect();
    for ct in r.cotangent.iter().flatten() {
        parts.push(r.b.shape(*ct)?.without_layout());
    }
    let length = parts.len() as i64;
    let parameter = b.parameter(0, Shape::tuple(parts), "leaves");
    let all: Vec<Op> = (0..length).map(|i| b.get_tuple_element(parameter, i)).collect();
    let (inputs, given) = all.split_at(count);
    let argument = assemble(&b, &shape, &mut inputs.iter().copied())?;
    let result = replay(&b, r.at, branch, &[Some(argument)])?;
    let mut given = given.iter();
    let cotangents: Vec<Cotangent> = r.cotangent.iter().map(|c| vec![c.and_then(|_| given.next().copied())]).collect();
    let seeds = leaves(&b, result)?.into_iter().zip(cotangents).collect();
    let own = targets.iter().find(|t| t.1 == operand).map_or(&[][..], |t| &t.2);
    let masked: Vec<(Op, Vec<bool>)> =
        inputs.iter().enumerate().map(|(leaf, &op)| (op, vec![own.contains(&leaf)])).collect();
    let found = pull_masked(&b, r.at, r.rules, seeds, &masked, Past::Nothing)?;
    let mut results = Vec::new();
    for (_, op, wanted) in targets {
        let target = r.b.shape(*op)?;
        for &leaf in wanted {
            let value = found.get(leaf).and_then(|c| c.first().copied().flatten()).filter(|_| *op == operand);
            let array = target.leaf(leaf).and_then(Shape::as_array).ok_or_else(|| r.broken("branches on a token"))?;
            results.push(value.unwrap_or_else(|| zeros(&b, array)));
        }
    }
    let root = b.tuple(&results);
    b.build_with_root(root)
}
