//! What is known of a stage before it is emitted.

use crate::kernel::body::{NodeId, Op};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Stage, Store};
use cranelift_codegen::ir::Value;
use std::collections::HashMap;

/// What a stage's nodes need while it is emitted.
pub struct StageInfo {
    /// Nodes that something stored or folded needs.
    pub needed: Vec<bool>,
    /// Nodes that differ along the vector axis.
    pub varies: Vec<bool>,
    /// Scalars of the nodes that do not.
    pub uniform: HashMap<NodeId, Value>,
    /// Row pointers of the accesses that are linear in the vector axis: load nodes, then stores by number.
    pub loads: HashMap<NodeId, (Value, i64)>,
    pub stores: HashMap<usize, (Value, i64)>,
}

impl StageInfo {
    /// How many nodes are computed for each element.
    pub fn nodes(&self) -> usize {
        self.varies.iter().zip(&self.needed).filter(|(v, n)| **v && **n).count()
    }
}

/// Finds what a stage needs and what of it differs along the vector axis.
pub(super) fn analyse(stage: &Stage) -> StageInfo {
    analyse_along(stage, &[stage.vector.axis])
}

/// Finds what a stage needs and what of it differs along any of the axes.
pub(super) fn analyse_along(stage: &Stage, axes: &[Axis]) -> StageInfo {
    let body = &stage.body;
    let needed = body.needed(stage.roots());
    let mut varies = vec![false; body.nodes().len()];
    for (i, node) in body.nodes().iter().enumerate() {
        let own = match &node.op {
            Op::Load(_, _, ix) | Op::Index(ix) => {
                let mut any = axes.iter().any(|&a| ix.mentions(a));
                ix.for_each_value(&mut |n| any |= varies[n.0 as usize]);
                any
            }
            Op::Row(_) => stage.vector.extent > 1,
            _ => false,
        };
        varies[i] = own || node.args.iter().any(|a| varies[a.0 as usize]);
    }
    StageInfo { needed, varies, uniform: HashMap::new(), loads: HashMap::new(), stores: HashMap::new() }
}

/// The elements from one turn of the vector axis to the next, where that is the same everywhere.
pub fn linear_stride(ix: &Ix, axis: Axis, info: &StageInfo) -> Option<i64> {
    let mut uniform = true;
    ix.for_each_value(&mut |n| uniform &= !info.varies[n.0 as usize]);
    if uniform { ix.stride(axis) } else { None }
}

/// Whether a store happens along the vector axis.
pub fn store_varies(stage: &Stage, info: &StageInfo, s: &Store) -> bool {
    info.varies[s.value.0 as usize] || s.index.mentions(stage.vector.axis)
}
