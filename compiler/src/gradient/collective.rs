//! Exchanges between devices: the cotangent goes back the way that the value came.
//!
//! Every device runs the same program and adds the same instructions, so that exchanges meet their like. A value that reaches other
//! devices has an effect on their losses too: the derivatives are those of the sum of all devices' losses, as in JAX's `pmap`.

use super::rule::Rule;
use super::scalars::{reducer, root_name};
use crate::builder::scalar_computation;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode};
use crate::shape::parse_source_target_pairs;
use brolga_runtime::ElementType;

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    for k in 0..r.operands.len() {
        let Some(Some(ct)) = r.cotangent.get(k).copied() else { continue };
        if r.wants(k) {
            let shape = r.shape(r.operand(k)?)?;
            let (opcode, attrs) = back(r, shape.ty)?;
            let value = r.b.append(r.at, opcode, &[ct], attrs, shape.with_type(shape.ty).into());
            r.give(k, value);
        }
    }
    Ok(())
}

/// The exchange that is the transpose of this one, of one array of type `ty`.
fn back(r: &Rule<'_>, ty: ElementType) -> Result<(Opcode, Attrs)> {
    let opcode = r.instruction.opcode;
    let mut attrs = r.attrs().clone();
    for key in [AttrKey::ControlPredecessors, AttrKey::ConstrainLayout, AttrKey::ToApply] {
        attrs.remove(key);
    }
    if matches!(opcode, Opcode::AllReduce | Opcode::ReduceScatter) {
        let computation = r.callee(AttrKey::ToApply)?;
        if reducer(&computation) != Some(Opcode::Add) {
            return Err(r.refuse(&format!("by a computation that ends in {}", root_name(&computation))));
        }
    }
    let back = match opcode {
        // What a member adds is in what all of them get.
        Opcode::AllReduce => Opcode::AllReduce,
        Opcode::AllGather => Opcode::ReduceScatter,
        Opcode::ReduceScatter => Opcode::AllGather,
        // Block i of member j and block j of member i change places.
        Opcode::AllToAll if r.operands.len() == 1 && attrs.get(AttrKey::Dimensions).is_some() => Opcode::AllToAll,
        Opcode::CollectivePermute if r.operands.len() == 1 => {
            let pairs = attrs.raw(AttrKey::SourceTargetPairs).map(parse_source_target_pairs);
            let Some(Ok(pairs)) = pairs else { return Err(r.broken("pairs no devices")) };
            let turned: Vec<String> = pairs.iter().map(|(source, target)| format!("{{{target},{source}}}")).collect();
            attrs.set(AttrKey::SourceTargetPairs, AttrValue::Raw(format!("{{{}}}", turned.join(","))));
            Opcode::CollectivePermute
        }
        _ => return Err(r.no_rule()),
    };
    if matches!(back, Opcode::AllReduce | Opcode::ReduceScatter) {
        let sum = scalar_computation(Opcode::Add, ty)?;
        let named = Attrs::new().with(AttrKey::ToApply, AttrValue::Computation(sum.entry));
        if let Some(sum) = r.b.adopt(&sum, &named).computation(AttrKey::ToApply) {
            attrs.set(AttrKey::ToApply, AttrValue::Computation(sum));
        }
    }
    Ok((back, attrs))
}
