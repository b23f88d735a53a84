//! Operations on whole values: structure, calls, loops, branches, asynchronous forms and the outside world.
//!
//! Invariant: values pass through unchanged and uncopied. A loop iterates here, so that it never grows the Rust
//! stack. Asynchronous forms run when they start; their done yields what start kept.

use super::value::Value;
use super::{Context, collective, execution, invalid, movement, new_array, sort, unsupported};
use crate::Result;
use crate::collective::keeps_operands;
use crate::custom_call::{is_fresh_buffer, is_marker};
use crate::hlo::{AttrKey, AttrValue, Category, ComputationId, Instruction, Module, Opcode, lapack};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Scalar, Shape};

/// Whether [`step`] performs this operation.
pub(super) fn handles(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Copy | Opcode::RngGetAndUpdateState)
        || matches!(
            opcode.category(),
            Category::Structure | Category::Control | Category::Collective | Category::SideEffect | Category::Async
        )
}

/// Performs an operation on whole values.
pub(super) fn step(cx: &Context<'_>, inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    if !inst.opcode.arity().allows(operands.len()) {
        return Err(invalid(inst, format!("expected {}, found {}", inst.opcode.arity(), operands.len())));
    }
    match inst.opcode {
        Opcode::Constant => {
            let missing = || unsupported(inst, crate::hlo::elided_constant());
            inst.literal().map(Value::from_shared).ok_or_else(missing)
        }
        Opcode::Parameter => Err(invalid(inst, "a parameter has no value of its own")),
        Opcode::Tuple => Ok(Value::Tuple(operands)),
        Opcode::GetTupleElement => element(inst, operands, inst.element_number().unwrap_or(usize::MAX)),
        Opcode::OptimizationBarrier if operands.len() > 1 => Ok(Value::Tuple(operands)),
        Opcode::OptimizationBarrier | Opcode::AddDependency | Opcode::Domain | Opcode::Copy => first(inst, operands),
        Opcode::AfterAll => Ok(Value::token()),
        Opcode::Call => cx.run(called(inst, AttrKey::ToApply)?, operands),
        Opcode::Fusion => cx.run(called(inst, AttrKey::Calls)?, operands),
        Opcode::While => repeat(cx, inst, operands),
        Opcode::Conditional => branch(cx, inst, operands),
        Opcode::AsyncStart => {
            let result = cx.run(called(inst, AttrKey::Calls)?, operands.clone())?;
            started(inst, Value::Tuple(operands), result)
        }
        Opcode::AsyncUpdate => first(inst, operands),
        Opcode::AllReduceDone => {
            let state = first(inst, operands)?;
            if super::accepts(&inst.shape, &state.to_shared()) { Ok(state) } else { element(inst, vec![state], 1) }
        }
        Opcode::AsyncDone | Opcode::AllGatherDone | Opcode::CollectivePermuteDone => element(inst, operands, 1),
        Opcode::CopyStart => {
            let value = first(inst, operands)?;
            started(inst, value.clone(), value)
        }
        Opcode::CopyDone => element(inst, operands, 0),
        _ if keeps_operands(inst) => {
            let kept = if operands.len() == 1 { operands[0].clone() } else { Value::Tuple(operands.clone()) };
            let result = collective::op(cx, inst, operands)?;
            started(inst, kept, result)
        }
        Opcode::AllReduceStart => collective::op(cx, inst, operands),
        Opcode::RngGetAndUpdateState => {
            let delta = inst.attrs.int(AttrKey::Delta).unwrap_or(1);
            let state = cx.random_state(delta as u64);
            let out = ArrayLiteral::from_elements(&[2], &state);
            Ok(Value::from(Literal::Array(out)))
        }
        Opcode::CustomCall => custom_call(cx, inst, operands),
        Opcode::Infeed => {
            let nothing = inst.infeed_shape().and_then(Shape::as_tuple).is_some_and(<[Shape]>::is_empty);
            let value =
                if nothing { Literal::Tuple(Vec::new()) } else { cx.with_host(inst, |host| host.infeed(inst))? };
            Ok(Value::Tuple(vec![Value::from(value), Value::token()]))
        }
        Opcode::Outfeed => {
            let value = first(inst, operands)?.into_literal();
            if !matches!(&value, Literal::Tuple(elements) if elements.is_empty()) {
                cx.with_host(inst, |host| host.outfeed(inst, &value))?;
            }
            Ok(Value::token())
        }
        Opcode::Send => {
            let value = first(inst, operands)?;
            let literal = value.to_shared();
            cx.with_host(inst, |host| host.send(inst, &literal))?;
            begun(inst, value, 0)
        }
        Opcode::SendDone => Ok(Value::token()),
        Opcode::Recv => {
            let request = cx.with_host(inst, |host| host.begin_recv(inst))?;
            let data = inst.shape.as_tuple().and_then(<[Shape]>::first);
            let nothing = zeros(inst, data.ok_or_else(|| invalid(inst, "a transfer of nothing"))?)?;
            begun(inst, nothing, request)
        }
        Opcode::RecvDone => {
            let (_, request) = scalar(inst, &element(inst, operands, 1)?)?;
            let value = cx.with_host(inst, |host| host.recv(inst, request.as_i64() as u32))?;
            Ok(Value::Tuple(vec![Value::from(value), Value::token()]))
        }
        _ => collective::op(cx, inst, operands),
    }
}

fn first(inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    operands.into_iter().next().ok_or_else(|| invalid(inst, "an operand is missing"))
}

fn called(inst: &Instruction, key: AttrKey) -> Result<ComputationId> {
    inst.attrs.computation(key).ok_or_else(|| invalid(inst, format!("'{}' is missing", key.name())))
}

/// Element `index` of the first operand, a tuple.
fn element(inst: &Instruction, operands: Vec<Value>, index: usize) -> Result<Value> {
    match first(inst, operands)? {
        Value::Tuple(elements) => {
            elements.into_iter().nth(index).ok_or_else(|| invalid(inst, format!("no element {index}")))
        }
        Value::Leaf(_) => Err(invalid(inst, "expected a tuple")),
    }
}

/// The context of a transfer: its data, its number, and a token where the program states one.
fn begun(inst: &Instruction, data: Value, request: u32) -> Result<Value> {
    let mut elements = vec![data, Value::from(movement::integer(inst, ElementType::U32, i64::from(request))?)];
    if inst.shape.as_tuple().is_some_and(|t| t.len() == 3) {
        elements.push(Value::token());
    }
    Ok(Value::Tuple(elements))
}

/// A value of zeros.
fn zeros(inst: &Instruction, shape: &Shape) -> Result<Value> {
    match shape {
        Shape::Array(a) => Ok(Value::from(Literal::Array(new_array(inst, a)?))),
        Shape::Tuple(elements) => {
            Ok(Value::Tuple(elements.iter().map(|e| zeros(inst, e)).collect::<Result<Vec<_>>>()?))
        }
        other => Err(unsupported(inst, format!("a context of shape {other}"))),
    }
}

/// What a start operation yields: its operands, its result, and contexts up to the declared number. `copy-start`
/// has the copy first, and a start declared as less than a tuple is its result.
fn started(inst: &Instruction, kept: Value, result: Value) -> Result<Value> {
    let Shape::Tuple(shapes) = &inst.shape else { return Ok(result) };
    let mut elements = vec![kept, result];
    for shape in shapes.iter().skip(2) {
        let zeros = match shape {
            Shape::Array(a) => Literal::Array(new_array(inst, a)?),
            other => Literal::zeros(other).ok_or_else(|| unsupported(inst, format!("a context of shape {other}")))?,
        };
        elements.push(Value::from(zeros));
    }
    Ok(Value::Tuple(elements))
}

/// A scalar of any type.
fn scalar(inst: &Instruction, value: &Value) -> Result<(ElementType, Scalar)> {
    let literal = value.to_shared();
    let array = literal.as_array().filter(|a| a.elements() == 1);
    array.map(|a| (a.ty(), a.get(0))).ok_or_else(|| execution(inst, "expected a scalar"))
}

fn repeat(cx: &Context<'_>, inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    let (condition, body) = (called(inst, AttrKey::Condition)?, called(inst, AttrKey::Body)?);
    let mut state = first(inst, operands)?;
    if let Some(result) = repeat_scalars(cx, inst, condition, body, &state)? {
        return Ok(result);
    }
    loop {
        let go_on = cx.run(condition, vec![state.clone()])?;
        if !scalar(inst, &go_on)?.1.as_bool() {
            return Ok(state);
        }
        state = cx.run(body, vec![state])?;
    }
}

/// A loop over nothing but scalars, whose condition and body are flat: no value is made until the end. `None` where
/// it is not such a loop.
fn repeat_scalars(
    cx: &Context<'_>,
    inst: &Instruction,
    condition: ComputationId,
    body: ComputationId,
    state: &Value,
) -> Result<Option<Value>> {
    let (condition, body) = (cx.region(condition), cx.region(body));
    let (Some(first), Some(second)) = (condition.flat_operations(), body.flat_operations()) else { return Ok(None) };
    let mut literal = state.clone().into_literal();
    let mut scalars: Vec<Scalar> = literal.arrays().iter().filter(|a| a.dims().is_empty()).map(|a| a.get(0)).collect();
    let mut next = Vec::with_capacity(scalars.len());
    while condition.eval_one(&scalars)?.as_bool() {
        cx.spend(inst, (first + second) as u64 + 1)?;
        body.eval_into(&scalars, &mut next)?;
        std::mem::swap(&mut scalars, &mut next);
    }
    store_leaves(&mut literal, &mut scalars.into_iter());
    Ok(Some(Value::from(literal)))
}

/// Replaces the arrays of a value, all of them scalars.
fn store_leaves(value: &mut Literal, scalars: &mut impl Iterator<Item = Scalar>) {
    match value {
        Literal::Array(a) => {
            if let Some(scalar) = scalars.next() {
                a.set(0, scalar);
            }
        }
        Literal::Tuple(elements) => elements.iter_mut().for_each(|e| store_leaves(e, scalars)),
        Literal::Token => {}
    }
}

fn branch(cx: &Context<'_>, inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    let mut operands = operands.into_iter();
    let selector = operands.next().ok_or_else(|| invalid(inst, "an operand is missing"))?;
    let (ty, value) = scalar(inst, &selector)?;
    let branches = match inst.attrs.computations(AttrKey::BranchComputations) {
        Some(branches) => branches.to_vec(),
        None => vec![called(inst, AttrKey::TrueComputation)?, called(inst, AttrKey::FalseComputation)?],
    };
    let last = branches.len().checked_sub(1).ok_or_else(|| invalid(inst, "no branches"))?;
    let index = if ty == ElementType::Pred {
        usize::from(!value.as_bool())
    } else {
        // Out of range on either side means the last branch.
        usize::try_from(value.as_i64()).unwrap_or(last)
    };
    let index = index.min(last);
    let argument = operands.nth(index).ok_or_else(|| invalid(inst, format!("branch {index} has no operand")))?;
    cx.run(branches[index], vec![argument])
}

/// Calls that need no function of a host, besides those of LAPACK, `topk` and the markers.
const OWN_CALLS: [&str; 2] = ["PadToStatic", "SliceToDynamic"];

/// Whether a custom call asks the host.
pub(super) fn is_external(module: &Module, inst: &Instruction) -> bool {
    let target = inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
    let fresh = is_fresh_buffer(target) && inst.operands.is_empty();
    !(fresh || is_marker(target) || OWN_CALLS.contains(&target))
        && matches!(lapack(inst), Ok(None))
        && crate::hlo::top_k_call(module, inst).is_none()
}

fn custom_call(cx: &Context<'_>, inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    if let Some((_, _, attributes)) = lapack(inst)? {
        let shared: Vec<_> = operands.iter().map(Value::to_shared).collect();
        super::room(inst, &shared.iter().map(|l| &**l).collect::<Vec<_>>())?;
        return super::linalg::lapack(inst, &attributes, &operands);
    }
    let target = inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
    if let Some((k, largest)) = crate::hlo::top_k_call(cx.module, inst) {
        let shared: Vec<_> = operands.iter().map(Value::to_shared).collect();
        let operands: Vec<&Literal> = shared.iter().map(|l| &**l).collect();
        let mut topk = inst.clone();
        topk.opcode = Opcode::TopK;
        topk.attrs.set(AttrKey::K, AttrValue::Int(k));
        topk.attrs.set(AttrKey::Largest, AttrValue::Bool(largest));
        return sort::op(cx, &topk, &operands).map(Value::from);
    }
    match target {
        // On one device the value itself.
        _ if is_marker(target) => marker(inst, operands, target),
        _ if is_fresh_buffer(target) && operands.is_empty() => match &inst.shape {
            Shape::Array(a) | Shape::Buffer(a) => Ok(Value::from(Literal::Array(new_array(inst, a)?))),
            other => Err(unsupported(inst, format!("a buffer of shape {other}"))),
        },
        "PadToStatic" => pad_to_static(inst, &first(inst, operands)?),
        "SliceToDynamic" => slice_to_dynamic(inst, &operands),
        _ => {
            let shared: Vec<_> = operands.iter().map(Value::to_shared).collect();
            let operands: Vec<&Literal> = shared.iter().map(|l| &**l).collect();
            let inst = &with_declared_layouts(cx, inst);
            cx.with_host(inst, |host| host.custom_call(inst, &operands)).map(Value::from)
        }
    }
}

/// The call with the layouts of its operands as constraints, for hosts, which see values alone.
fn with_declared_layouts(cx: &Context<'_>, inst: &Instruction) -> Instruction {
    let mut inst = inst.clone();
    if inst.attrs.get(AttrKey::OperandLayoutConstraints).is_none() {
        let shapes = (0..inst.operands.len()).map(|k| cx.operand_shape(&inst, k).cloned()).collect::<Option<Vec<_>>>();
        if let Some(shapes) = shapes {
            inst.attrs.set(AttrKey::OperandLayoutConstraints, AttrValue::Shapes(shapes));
        }
    }
    inst
}

/// A call that annotates its operands, and returns them.
fn marker(inst: &Instruction, mut operands: Vec<Value>, target: &str) -> Result<Value> {
    let value = match &inst.shape {
        Shape::Tuple(elements) if elements.is_empty() => Value::Tuple(Vec::new()),
        _ if operands.len() == 1 && super::accepts(&inst.shape, &operands[0].to_shared()) => operands.remove(0),
        _ => Value::Tuple(operands),
    };
    if super::accepts(&inst.shape, &value.to_shared()) {
        return Ok(value);
    }
    Err(unsupported(inst, format!("'{target}' over several devices")))
}

fn operand_array(inst: &Instruction, value: &Value) -> Result<ArrayLiteral> {
    value.to_shared().as_array().cloned().ok_or_else(|| invalid(inst, "expected an array"))
}

/// A dynamic array filled up to its bound, and its sizes.
fn pad_to_static(inst: &Instruction, value: &Value) -> Result<Value> {
    let a = operand_array(inst, value)?;
    let shape = inst.shape.as_tuple().and_then(|t| t.first()?.as_array());
    let shape = shape.filter(|s| s.rank() == a.dims().len()).ok_or_else(|| invalid(inst, "the result's shape"))?;
    let mut elements = vec![Value::from(Literal::Array(movement::resized(inst, &a, &shape.dims)?))];
    for &d in a.dims() {
        elements.push(Value::from(movement::integer(inst, ElementType::S32, d)?));
    }
    Ok(Value::Tuple(elements))
}

/// The first elements of an array along each dimension, as many as the other operands say.
fn slice_to_dynamic(inst: &Instruction, operands: &[Value]) -> Result<Value> {
    let Some((a, sizes)) = operands.split_first() else { return Err(invalid(inst, "an operand is missing")) };
    let a = operand_array(inst, a)?;
    let mut dims = Vec::with_capacity(sizes.len());
    for (size, &bound) in sizes.iter().zip(a.dims()) {
        dims.push(scalar(inst, size)?.1.as_i64().clamp(0, bound));
    }
    if dims.len() != a.dims().len() {
        return Err(invalid(inst, "expected one size a dimension"));
    }
    Ok(Value::from(Literal::Array(movement::resized(inst, &a, &dims)?)))
}
