//! Calls, branches, loops and fusions.

use super::rule::{Call, Rule, Signature, compatible, ensure, fail};
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::Call => invoke(call, AttrKey::ToApply),
        Opcode::Fusion => invoke(call, AttrKey::Calls),
        Opcode::While => while_loop(call),
        _ => conditional(call),
    }
}

/// A call: the operands are the parameters.
pub(super) fn invoke(call: &Call<'_>, key: AttrKey) -> Rule<Shape> {
    let Signature { parameters, result } = call.callee(key)?;
    ensure!(
        parameters.len() == call.operands.len(),
        "call.parameters",
        "expected {} operands of {}, as the called computation has parameters, found {}",
        parameters.len(),
        call.opcode,
        call.operands.len()
    );
    for (i, (p, operand)) in parameters.iter().zip(call.operands).enumerate() {
        ensure!(
            compatible(p, operand, None),
            "call.parameter-shape",
            "expected {p:#} as operand {i} of {}, found {operand:#}",
            call.opcode
        );
    }
    Ok(result.without_layout())
}

fn while_loop(call: &Call<'_>) -> Rule<Shape> {
    let state = call.shape(0)?;
    let condition = call.callee(AttrKey::Condition)?;
    let body = call.callee(AttrKey::Body)?;
    for (what, parameters) in [("condition", &condition.parameters), ("body", &body.parameters)] {
        let [parameter] = parameters[..] else {
            fail!("while.parameters", "expected a {what} of 1 parameter, found {}", parameters.len());
        };
        ensure!(
            compatible(parameter, state, None),
            "while.parameter-shape",
            "expected {state:#}, the shape of the state, as parameter of the {what}, found {parameter:#}"
        );
    }
    ensure!(
        condition.result.same_ignoring_layout(&Shape::scalar(ElementType::Pred)),
        "while.condition-result",
        "expected a condition that yields pred[], found {:#}",
        condition.result
    );
    ensure!(
        compatible(body.result, state, None),
        "while.body-result",
        "expected a body that yields {state:#}, the shape of the state, found {:#}",
        body.result
    );
    Ok(state.without_layout())
}

fn conditional(call: &Call<'_>) -> Rule<Shape> {
    let selector = call.scalar(0)?;
    let branches = match (selector.ty, call.attrs.computations(AttrKey::BranchComputations)) {
        (ElementType::S32, Some(list)) => {
            ensure!(!list.is_empty(), "conditional.branches", "expected a branch of conditional, found none");
            list.iter().map(|&id| call.cx.signature(id)).collect::<Rule<Vec<_>>>()?
        }
        (ElementType::Pred, Some(_)) => {
            fail!(
                "conditional.selector",
                "expected an s32 index as operand 0 where branch_computations= are listed, found pred"
            )
        }
        (ElementType::Pred, None) => {
            vec![call.callee(AttrKey::TrueComputation)?, call.callee(AttrKey::FalseComputation)?]
        }
        (ElementType::S32, None) => {
            fail!("attribute.required", "conditional with an s32 index must say branch_computations=")
        }
        (ty, _) => fail!("conditional.selector", "expected a pred or s32 scalar as operand 0, found {ty}"),
    };
    ensure!(
        branches.len() + 1 == call.operands.len(),
        "conditional.operands",
        "expected an operand for each of the {} branches, found {}",
        branches.len(),
        call.operands.len() - 1
    );
    let result = branches[0].result;
    for (i, branch) in branches.iter().enumerate() {
        let [parameter] = branch.parameters[..] else {
            fail!("conditional.parameters", "expected a branch {i} of 1 parameter, found {}", branch.parameters.len());
        };
        let operand = call.shape(i + 1)?;
        ensure!(
            compatible(parameter, operand, None),
            "conditional.parameter-shape",
            "expected {operand:#} as parameter of branch {i}, found {parameter:#}"
        );
        ensure!(
            compatible(branch.result, result, None),
            "conditional.result",
            "expected all branches to yield {result:#}, found {:#} in branch {i}",
            branch.result
        );
    }
    Ok(result.without_layout())
}
