//! Custom calls that are a `topk` become one.
//!
//! Problem: programs that went through a partitioner or an older exporter call `TopK` by name, and compiled code would ask
//! for a function that nobody has. Invariant: the call's comparator, where it has one, is a plain comparison, which says
//! whether the largest or the smallest elements are meant. Algorithm: one sweep, before layouts are normalised, so that
//! constraints on the call's layouts lose their meaning with the call.

use super::Stats;
use super::rewrite::rewrite;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode, top_k_call};

/// Replaces every such call.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            let Some((k, largest)) = top_k_call(rw.module, rw.instruction(i)) else { return Ok(None) };
            let (shape, operands) = (rw.shape(i).clone(), rw.instruction(i).operands.clone());
            let attrs =
                Attrs::new().with(AttrKey::K, AttrValue::Int(k)).with(AttrKey::Largest, AttrValue::Bool(largest));
            stats.add("topk", 1);
            Ok(Some(rw.emit(Opcode::TopK, shape, operands, attrs)))
        })?;
    }
    Ok(stats)
}
