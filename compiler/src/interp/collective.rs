//! Collectives: asked of the host first, which may know other devices; a device alone exchanges with itself.

use super::index::product;
use super::value::Value;
use super::{Context, accepts, invalid, movement, unsupported};
use crate::Result;
use crate::collective::keeps_operands;
use crate::hlo::{AttrKey, Instruction, Opcode};
use crate::shape::parse_source_target_pairs;
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Shape};

pub(super) fn op(cx: &Context<'_>, inst: &Instruction, operands: Vec<Value>) -> Result<Value> {
    match inst.opcode {
        Opcode::ReplicaId => return id(inst, cx.with_host(inst, |host| Ok(host.replica_id()))?),
        Opcode::PartitionId => return id(inst, cx.with_host(inst, |host| Ok(host.partition_id()))?),
        _ if inst.attrs.get(AttrKey::SliceSizesPerDevice).is_some() => {
            return Err(unsupported(inst, format!("'{}' in place", inst.opcode)));
        }
        _ => {}
    }
    let shared: Vec<_> = operands.iter().map(Value::to_shared).collect();
    let literals: Vec<&Literal> = shared.iter().map(|l| &**l).collect();
    if let Some(result) = cx.with_host(inst, |host| host.collective(inst, &literals).transpose())? {
        return Ok(Value::from(result));
    }
    let declared = result_shape(inst);
    let one_or_tuple = |mut values: Vec<Value>| match values.len() {
        1 if declared.is_none_or(|shape| shape.as_tuple().is_none()) => values.remove(0),
        _ => Value::Tuple(values),
    };
    let value = match inst.opcode {
        Opcode::CollectivePermute | Opcode::CollectivePermuteStart => {
            let pairs = inst.attrs.raw(AttrKey::SourceTargetPairs).map(parse_source_target_pairs);
            let to_self = matches!(pairs, Some(Ok(pairs)) if pairs.contains(&(0, 0)));
            let mut received = Vec::with_capacity(operands.len());
            for value in operands {
                if to_self {
                    received.push(value);
                    continue;
                }
                // A device to which nobody sends receives zeros.
                let zeros = Literal::zeros(&value.to_shared().shape());
                received.push(Value::from(zeros.ok_or_else(|| unsupported(inst, "this value over a channel"))?));
            }
            one_or_tuple(received)
        }
        Opcode::RaggedAllToAll => ragged_all_to_all(inst, &literals)?,
        Opcode::AllReduce
        | Opcode::AllReduceStart
        | Opcode::AllGather
        | Opcode::AllGatherStart
        | Opcode::AllToAll
        | Opcode::ReduceScatter
        | Opcode::CollectiveBroadcast => one_or_tuple(operands),
        opcode => return Err(unsupported(inst, format!("'{opcode}' in the interpreter"))),
    };
    if !declared.is_some_and(|shape| accepts(shape, &value.to_shared())) {
        return Err(unsupported(inst, format!("'{}' over several devices", inst.opcode)));
    }
    Ok(value)
}

/// What the exchange itself yields.
pub(super) fn result_shape(inst: &Instruction) -> Option<&Shape> {
    if keeps_operands(inst) { inst.shape.as_tuple().and_then(|t| t.get(1)) } else { Some(&inst.shape) }
}

fn id(inst: &Instruction, number: u32) -> Result<Value> {
    movement::integer(inst, ElementType::U32, i64::from(number)).map(Value::from)
}

/// Input, output, input offsets, sizes sent, output offsets, sizes received: one row of slices for this device.
fn ragged_all_to_all(inst: &Instruction, operands: &[&Literal]) -> Result<Value> {
    let arrays = (0..6).map(|i| super::array(inst, operands, i)).collect::<Result<Vec<&ArrayLiteral>>>()?;
    let (input, mut out) = (arrays[0], arrays[1].clone());
    let row = |a: &ArrayLiteral| product(a.dims().get(1..).unwrap_or(&[])).saturating_mul(a.ty().byte_size());
    let (from_row, to_row) = (row(input), row(&out));
    if from_row != to_row || arrays[2..].iter().any(|a| a.elements() != arrays[2].elements()) {
        return Err(invalid(inst, "rows and offsets must agree"));
    }
    for i in 0..arrays[2].elements() {
        let [from, count, to] =
            [2, 3, 4].map(|k: usize| usize::try_from(arrays[k].get(i).as_i64()).unwrap_or(usize::MAX));
        let bytes = |at: usize| at.checked_mul(from_row);
        let source = bytes(from).zip(bytes(count)).and_then(|(at, n)| input.bytes().get(at..at.checked_add(n)?));
        let source = source.ok_or_else(|| super::execution(inst, "a slice outside the input"))?;
        let start = bytes(to).unwrap_or(usize::MAX);
        let target = start.checked_add(source.len()).and_then(|end| out.bytes_mut().get_mut(start..end));
        target.ok_or_else(|| super::execution(inst, "a slice outside the output"))?.copy_from_slice(source);
    }
    Ok(Value::from(Literal::Array(out)))
}
