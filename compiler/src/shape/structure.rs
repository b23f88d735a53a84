//! What holds a program together: parameters, constants, tuples, tokens; side effects; and asynchronous pairs.

use super::collective::{all_reduce, check_pairs};
use super::control::invoke;
use super::rule::{Call, Rule, compatible, ensure, fail};
use crate::hlo::{AttrKey, AttrValue, Opcode};
use brolga_runtime::{ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::Parameter => {
            let number = call.attrs.int(AttrKey::ParameterNumber).unwrap_or(-1);
            ensure!(number >= 0, "parameter.number", "expected a parameter number of at least 0, found {number}");
            Ok(call.declared()?.without_layout())
        }
        Opcode::Constant => match call.attrs.get(AttrKey::Literal) {
            Some(AttrValue::Literal(literal)) => Ok(literal.shape()),
            Some(_) => Ok(call.declared()?.without_layout()),
            None => fail!("constant.literal", "a constant must have a value"),
        },
        Opcode::Tuple => {
            let leaves = call.operands.iter().map(|s| s.leaf_count()).fold(0, usize::saturating_add);
            ensure!(
                leaves <= super::MAX_LEAVES,
                "shape.leaves",
                "expected at most {} leaves in a tuple, found {leaves}",
                super::MAX_LEAVES
            );
            Ok(Shape::Tuple(call.operands.iter().map(|s| s.without_layout()).collect()))
        }
        Opcode::GetTupleElement => get_tuple_element(call),
        Opcode::OptimizationBarrier => match call.operands {
            [one] => Ok(one.without_layout()),
            many => Ok(Shape::Tuple(many.iter().map(|s| s.without_layout()).collect())),
        },
        Opcode::AddDependency => {
            call.token(1)?;
            Ok(call.shape(0)?.without_layout())
        }
        // As in XLA, whatever must come first may be named, not tokens alone.
        Opcode::AfterAll => Ok(Shape::Token),
        _ => Ok(call.shape(0)?.without_layout()),
    }
}

fn get_tuple_element(call: &Call<'_>) -> Rule<Shape> {
    let shape = call.shape(0)?;
    let Some(elements) = shape.as_tuple() else {
        fail!("get-tuple-element.tuple", "expected a tuple as operand of get-tuple-element, found {shape:#}");
    };
    let index = call.attrs.int(AttrKey::Index).unwrap_or(-1);
    match usize::try_from(index).ok().and_then(|i| elements.get(i)) {
        Some(element) => Ok(element.without_layout()),
        None => {
            fail!("get-tuple-element.index", "expected the index of one of {} elements, found {index}", elements.len())
        }
    }
}

fn request() -> Shape {
    Shape::scalar(ElementType::U32)
}

pub(super) fn infer_side_effect(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::CustomCall => custom_call(call),
        Opcode::Infeed => infeed(call),
        Opcode::Outfeed => outfeed(call),
        Opcode::Send => {
            call.token(1)?;
            let data = call.shape(0)?;
            carried(call, data, "transfer.data")?;
            Ok(begun(call, data))
        }
        Opcode::Recv => {
            call.token(0)?;
            let declared = call.declared()?;
            let Some([data, ..]) = declared.as_tuple() else {
                fail!("recv.result", "expected (data, u32[], token[]) as result of recv, found {declared:#}");
            };
            carried(call, data, "transfer.data")?;
            Ok(begun(call, data))
        }
        Opcode::SendDone => {
            transfer(call)?;
            Ok(Shape::Token)
        }
        Opcode::RecvDone => Ok(Shape::tuple(vec![transfer(call)?.without_layout(), Shape::Token])),
        other => fail!("opcode", "no rule for {other}"),
    }
}

/// The context of a transfer. The specification's has two elements; a program that states a token as the third gets it.
fn begun(call: &Call<'_>, data: &Shape) -> Shape {
    let mut context = vec![data.without_layout(), request()];
    if !matches!(call.declared.and_then(Shape::as_tuple), Some([_, _])) {
        context.push(Shape::Token);
    }
    Shape::tuple(context)
}

/// The data of a transfer that send or recv began.
fn transfer<'a>(call: &Call<'a>) -> Rule<&'a Shape> {
    let shape = call.shape(0)?;
    match shape.as_tuple() {
        Some([data, _, Shape::Token]) => Ok(data),
        Some([data, id]) if id.same_ignoring_layout(&request()) => Ok(data),
        _ => fail!(
            "transfer.context",
            "expected (data, u32[]) or (data, u32[], token[]) as operand of {}, found {shape:#}",
            call.opcode
        ),
    }
}

/// What leaves or enters a device is data: arrays, and tuples of them.
fn carried(call: &Call<'_>, data: &Shape, id: &'static str) -> Rule<()> {
    ensure!(
        data.leaves().iter().all(|leaf| leaf.as_array().is_some()),
        id,
        "expected arrays as data of {}, found {data:#}",
        call.opcode
    );
    Ok(())
}

fn custom_call(call: &Call<'_>) -> Rule<Shape> {
    if let Some(AttrValue::Shapes(layouts)) = call.attrs.get(AttrKey::OperandLayoutConstraints) {
        ensure!(
            layouts.len() == call.operands.len(),
            "custom-call.operand-layouts",
            "expected {} operand layouts, found {}",
            call.operands.len(),
            layouts.len()
        );
        // With `result_layout` the operands have been put into physical order and the attribute is what they mean.
        let physical = call.attrs.get(AttrKey::ResultLayout).is_some();
        for (i, (stated, operand)) in layouts.iter().zip(call.operands).enumerate().filter(|_| !physical) {
            ensure!(
                compatible(stated, operand, None),
                "custom-call.operand-layouts",
                "expected a layout of {operand:#} for operand {i}, found {stated:#}"
            );
        }
    }
    Ok(call.declared()?.without_layout())
}

fn infeed(call: &Call<'_>) -> Rule<Shape> {
    if !call.operands.is_empty() {
        call.token(0)?;
    }
    let declared = call.declared()?;
    match declared.as_tuple() {
        Some([data, Shape::Token]) => {
            carried(call, data, "infeed.value")?;
            if let Some(stated) = call.attrs.shape(AttrKey::InfeedShape) {
                ensure!(
                    compatible(stated, data, None),
                    "infeed.shape",
                    "expected {stated:#}, the infeed_shape, first in the result of infeed, found {data:#}"
                );
            }
            Ok(Shape::tuple(vec![data.without_layout(), Shape::Token]))
        }
        _ => fail!("infeed.result", "expected (data, token[]) as result of infeed, found {declared:#}"),
    }
}

fn outfeed(call: &Call<'_>) -> Rule<Shape> {
    carried(call, call.shape(0)?, "outfeed.value")?;
    if call.operands.len() > 1 {
        call.token(1)?;
    }
    if let Some(stated) = call.attrs.shape(AttrKey::OutfeedShape) {
        let data = call.shape(0)?;
        ensure!(
            compatible(stated, data, None),
            "outfeed.shape",
            "expected {stated:#}, the outfeed_shape, as operand 0 of outfeed, found {data:#}"
        );
    }
    Ok(Shape::Token)
}

/// Starts, updates and dones. What a start yields besides its operands and its result is a matter of the backend, so
/// the declared shape stands there and its parts are checked.
pub(super) fn infer_async(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::AllReduceStart => all_reduce_start(call),
        Opcode::AllReduceDone => match (call.shape(0)?, call.declared) {
            // A start that states (operand, result) is undone by taking the result.
            (Shape::Tuple(pair), Some(Shape::Array(_))) if pair.len() == 2 => Ok(pair[1].without_layout()),
            (shape, _) => Ok(shape.without_layout()),
        },
        Opcode::CopyStart => copy_start(call),
        Opcode::CopyDone => element(call, 0),
        Opcode::AsyncUpdate => Ok(call.shape(0)?.without_layout()),
        Opcode::AsyncDone | Opcode::AllGatherDone | Opcode::CollectivePermuteDone => element(call, 1),
        Opcode::AsyncStart => async_start(call),
        Opcode::CollectivePermuteStart => {
            check_pairs(call)?;
            // The in-place form takes written buffers and offsets too, and yields (inputs, outputs, ...).
            if call.attrs.get(AttrKey::SliceSizesPerDevice).is_some() {
                return in_place_context(call);
            }
            call.arrays()?;
            context(call)
        }
        _ => {
            call.arrays()?;
            context(call)
        }
    }
}

fn element(call: &Call<'_>, i: usize) -> Rule<Shape> {
    let shape = call.shape(0)?;
    match shape.as_tuple().and_then(|t| t.get(i)) {
        Some(element) => Ok(element.without_layout()),
        None => {
            fail!(
                "async.context",
                "expected a tuple with an element {i} as operand of {}, found {shape:#}",
                call.opcode
            )
        }
    }
}

/// The declared context of a start: a tuple of the operands, the result, and whatever else.
fn context(call: &Call<'_>) -> Rule<Shape> {
    let declared = call.declared()?;
    let Some([operands, _, ..]) = declared.as_tuple() else {
        fail!("async.result", "expected (operands, result, ...) as result of {}, found {declared:#}", call.opcode);
    };
    let fits = match (call.operands, operands) {
        ([one], stated) if compatible(one, stated, None) => true,
        (all, Shape::Tuple(stated)) => {
            stated.len() == all.len() && stated.iter().zip(all).all(|(s, o)| compatible(s, o, None))
        }
        _ => false,
    };
    ensure!(
        fits,
        "async.operands",
        "expected the operands' shapes first in the result of {}, found {operands:#}",
        call.opcode
    );
    Ok(declared.without_layout())
}

/// The declared context of an in-place start: its inputs, the buffers it writes, and whatever else.
fn in_place_context(call: &Call<'_>) -> Rule<Shape> {
    let declared = call.declared()?;
    let (input, output) = (call.shape(0)?, call.shape(1)?);
    let stated = declared.as_tuple().unwrap_or_default();
    let fits = |i: usize, operand: &Shape| stated.get(i).is_some_and(|s| compatible(s, operand, None));
    ensure!(
        fits(0, input) && fits(1, output),
        "async.operands",
        "expected {input:#} and {output:#}, the first operands, first in the result of {}, found {declared:#}",
        call.opcode
    );
    Ok(declared.without_layout())
}

fn all_reduce_start(call: &Call<'_>) -> Rule<Shape> {
    let result = all_reduce(call)?;
    match (call.operands, call.declared) {
        ([one], Some(Shape::Tuple(pair))) if pair.len() == 2 => {
            Ok(Shape::tuple(vec![one.without_layout(), one.without_layout()]))
        }
        _ => Ok(result),
    }
}

fn copy_start(call: &Call<'_>) -> Rule<Shape> {
    let shape = call.shape(0)?.without_layout();
    let extra = call.declared.and_then(Shape::as_tuple).and_then(|t| t.get(2)).map(Shape::without_layout);
    Ok(Shape::tuple(vec![shape.clone(), shape, extra.unwrap_or_else(request)]))
}

fn async_start(call: &Call<'_>) -> Rule<Shape> {
    let result = invoke(call, AttrKey::Calls)?;
    let stated = context(call)?;
    let second = stated.as_tuple().and_then(|t| t.get(1));
    ensure!(
        second.is_some_and(|s| compatible(s, &result, None)),
        "async.result",
        "expected {result:#}, the result of the called computation, second in the result of async-start, found {stated:#}"
    );
    Ok(stated)
}
