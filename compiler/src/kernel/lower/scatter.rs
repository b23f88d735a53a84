//! Scatter: a copy of each operand, then the updates one after another.
//!
//! An update whose window does not lie inside the operand whole is skipped: its start is clamped, and what is written is
//! what stood there. Updates run in row-major order of the scatter dimensions; inside a window no element repeats, so
//! the last window dimension is the vector axis.

use super::indexing::of_batch;
use super::{Known, Lowerer, Stage, internal, mem_of, not_whole, part_offset};
use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId, resolve};
use crate::kernel::body::{Body, IntCond, NodeId, Op, ScalarType};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{self, Loop, Nest, Phase};
use crate::kernel::storage;

impl Lowerer<'_> {
    pub(super) fn scatter(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let n = (inst.operands.len() - 1) / 2;
        let dims = self.leaf_shape((id, 0))?.dims.clone();
        let mut phases = Vec::new();
        for k in 0..n {
            let loops: Vec<Loop> = dims.iter().map(|&d| self.new_loop(d)).collect();
            let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
            let mut stage = Stage::default();
            let value = self.parts(&mut stage, &Known::default(), (inst.operands[k], 0), &index)?;
            phases.push(self.one_store(stage, loops, &value, linearize(&index, &dims), k as u32)?);
        }
        let updates = self.leaf_shape(resolve(self.c, (inst.operands[n + 1], 0)))?.dims.clone();
        let window_dims = inst.attrs.dimension_numbers(AttrKey::UpdateWindowDims);
        let inserted = inst.attrs.dimension_numbers(AttrKey::InsertedWindowDims);
        let map = inst.attrs.dimension_numbers(AttrKey::ScatterDimsToOperandDims);
        let input_batch = inst.attrs.dimension_numbers(AttrKey::InputBatchingDims);
        let indices_batch = inst.attrs.dimension_numbers(AttrKey::ScatterIndicesBatchingDims);
        let vector_dim = inst.attrs.int(AttrKey::IndexVectorDim).unwrap_or(0).max(0) as usize;

        let loops: Vec<Loop> = updates.iter().map(|&d| self.new_loop(d)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let batch: Vec<Ix> =
            index.iter().enumerate().filter(|(d, _)| !window_dims.contains(d)).map(|(_, i)| i.clone()).collect();
        let mut target = vec![Ix::default(); dims.len()];
        let mut window = vec![1; dims.len()];
        let kept = (0..dims.len()).filter(|d| !inserted.contains(d) && !input_batch.contains(d));
        for (d, &w) in kept.zip(&window_dims) {
            target[d] = index[w].clone();
            window[d] = updates[w];
        }
        for (&d, &b) in input_batch.iter().zip(&indices_batch) {
            let missing = || internal(inst, "a batch dimension is missing");
            target[d] = of_batch(&batch, b, vector_dim).ok_or_else(missing)?.clone();
        }
        if window.iter().zip(&dims).any(|(w, d)| w > d) {
            // No window fits: every update is skipped.
            return Ok(phases);
        }
        let mut stage = Stage::default();
        let known = Known::default();
        let indices = resolve(self.c, (inst.operands[n], 0));
        let (ty, rank) = (self.leaf_shape(indices)?.ty, self.leaf_shape(indices)?.rank());
        let mut valid: Option<NodeId> = None;
        for (k, &d) in map.iter().enumerate() {
            let mut at = batch.clone();
            if vector_dim < rank {
                at.insert(vector_dim.min(at.len()), Ix::constant(k as i64));
            }
            let node = self.value(&mut stage, &known, indices, &at)?;
            let (start, inside) = super::indexing::checked(&mut stage.body, ty, node, dims[d] - window[d]);
            target[d] = target[d].add(&start);
            valid = Some(both(&mut stage.body, valid, inside));
        }
        let offset = linearize(&target, &dims);
        let components = self.components(&inst.operands[..n])?;
        let mut old = Vec::new();
        for &(k, part) in &components {
            let ty = self.leaf_shape((id, k))?.ty;
            let mem = mem_of(inst, ty)?;
            let raw = Op::Load(k as u32, mem, part_offset(ty, part, &offset));
            let raw = stage.body.push(raw, &[], mem.scalar());
            old.push(storage::decode(&mut stage.body, ty.real_part(), raw));
        }
        let mut args = old.clone();
        for &(k, part) in &components {
            args.push(self.part(&mut stage, &known, ((inst.operands[n + 1 + k], 0), part), &index)?);
        }
        let combiner = self.combiner(id, components.len())?;
        let mut new = stage.body.inline(&combiner.body, &args, &combiner.roots).ok_or_else(not_whole)?;
        if let Some(valid) = valid {
            for (new, &old) in new.iter_mut().zip(&old) {
                *new = stage.body.select(valid, *new, old);
            }
        }
        let mut stores = Vec::new();
        for k in 0..n {
            let parts: Vec<NodeId> =
                components.iter().zip(&new).filter(|(c, _)| c.0 == k).map(|(_, &node)| node).collect();
            stores.extend(self.store(&mut stage.body, k as u32, &parts, offset.clone())?);
        }
        let mut sequential: Vec<Loop> = Vec::new();
        let mut windows: Vec<Loop> = Vec::new();
        for (d, l) in loops.into_iter().enumerate() {
            if window_dims.contains(&d) { windows.push(l) } else { sequential.push(l) }
        }
        let vector = match windows.pop() {
            Some(v) => v,
            None => self.new_loop(1),
        };
        sequential.extend(windows);
        let stage = ir::Stage { stores, ..ir::Stage::new(sequential, vector, stage.body) };
        phases.push(Phase::Nest(Nest { parallel: Vec::new(), rows: Vec::new(), stages: vec![stage] }));
        Ok(phases)
    }
}

/// A truth value that follows from two.
pub(super) fn both(body: &mut Body, a: Option<NodeId>, b: NodeId) -> NodeId {
    match a {
        Some(a) => body.and(a, b),
        None => b,
    }
}

/// Whether an index expression is zero, as a mask.
pub(super) fn is_zero(body: &mut Body, ix: Ix) -> NodeId {
    let node = body.push(Op::Index(ix), &[], ScalarType::I64);
    let zero = body.i64(0);
    body.icmp(IntCond::Eq, node, zero)
}
