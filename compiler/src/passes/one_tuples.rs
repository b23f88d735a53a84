//! Results in tuples of one stand alone.
//!
//! Problem: the result of a reduction, window, scatter or sort of one array may be stated as a tuple of one, and its
//! computation may yield one; a scan's one result may be stated alone. Rooms below know one form. Invariant: users see the
//! shape that they saw. Algorithm: one sweep; the operation gets the usual shape, and a tuple or an element of it follows. A
//! computation whose root is such a tuple is copied once, with what the tuple holds as its root, so that a plain sum is seen
//! to be one.

use super::Stats;
use super::rewrite::{Rewriter, fresh_computation_name, rewrite, sort_computations};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Computation, ComputationId, Module, Opcode};
use brolga_runtime::Shape;
use hashbrown::HashMap;

/// Rewrites every such operation.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let mut copies = HashMap::new();
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            let opcode = rw.opcode(i);
            let usual = match (rw.shape(i), opcode) {
                (Shape::Tuple(elements), Opcode::Reduce | Opcode::ReduceWindow | Opcode::Scatter | Opcode::Sort) => {
                    match &elements[..] {
                        [only] => Some(only.clone()),
                        _ => return Ok(None),
                    }
                }
                (Shape::Array(_), Opcode::Reduce | Opcode::ReduceWindow | Opcode::Scatter | Opcode::Sort) => None,
                (shape @ Shape::Array(_), Opcode::Scan) => Some(Shape::tuple(vec![shape.clone()])),
                _ => return Ok(None),
            };
            let called = rw.instruction(i).attrs.computation(AttrKey::ToApply).filter(|_| opcode != Opcode::Scan);
            let bare = called.and_then(|called| *copies.entry(called).or_insert_with(|| without_tuple(rw, called)));
            if let Some(bare) = bare {
                rw.instruction_mut(i).attrs.set(AttrKey::ToApply, AttrValue::Computation(bare));
                stats.add("computation bare", 1);
            }
            let Some(usual) = usual else { return Ok(None) };
            let (operands, attrs) = (rw.instruction(i).operands.clone(), rw.instruction(i).attrs.clone());
            let new = rw.emit(opcode, usual, operands, attrs);
            stats.add("result stands alone", 1);
            Ok(Some(if opcode == Opcode::Scan { rw.element(new, 0) } else { rw.tuple(vec![new]) }))
        })?;
    }
    sort_computations(module)?;
    Ok(stats)
}

/// A copy of a computation whose root is a tuple of one, with the tuple's element as its root.
fn without_tuple(rw: &mut Rewriter<'_>, called: ComputationId) -> Option<ComputationId> {
    let c = &rw.module.computations[called];
    let root = &c.instructions[c.root];
    let (Opcode::Tuple, &[element]) = (root.opcode, &root.operands[..]) else { return None };
    let order = c.order.iter().copied().filter(|&i| i != c.root).collect();
    let name = fresh_computation_name(rw.module, &c.name);
    let copy = Computation { name, order, root: element, ..c.clone() };
    Some(rw.module.computations.push(copy))
}
