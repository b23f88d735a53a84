//! Indexing by values: dynamic-slice and gather are index maps with a loaded offset, dynamic-update-slice a store with
//! one.

use super::{Known, Lowerer, Stage, internal};
use crate::error::Result;
use crate::hlo::{AttrKey, Instruction, InstructionId, resolve};
use crate::kernel::body::{Body, IntCond, NodeId, Op, ScalarType};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{self, Loop, Nest, Phase};
use brolga_runtime::ElementType;

/// An index of any integer type as an offset between 0 and `high`, and whether it was one before.
pub(super) fn checked(body: &mut Body, ty: ElementType, node: NodeId, high: i64) -> (Ix, NodeId) {
    let wide = match body.scalar(node) {
        ScalarType::I32 if ty.is_unsigned_integer() => body.convert(Op::UExt, node, ScalarType::I64),
        ScalarType::I32 => body.convert(Op::SExt, node, ScalarType::I64),
        _ => node,
    };
    if ty == ElementType::U64 {
        let limit = body.i64(high);
        let offset = body.umin(wide, limit);
        let inside = body.icmp(IntCond::Eq, offset, wide);
        return (body.offset(offset, 0, high), inside);
    }
    checked_offset(body, wide, high)
}

/// As [`checked`], for a signed 64-bit node.
pub(super) fn checked_offset(body: &mut Body, node: NodeId, high: i64) -> (Ix, NodeId) {
    let (zero, limit) = (body.i64(0), body.i64(high));
    let low = body.smax(node, zero);
    let offset = body.smin(low, limit);
    let inside = body.icmp(IntCond::Eq, offset, node);
    (body.offset(offset, 0, high), inside)
}

/// The index along dimension `b` of an array of indices, whose vectors lie along `vector_dim`, of those along all its other dimensions.
pub(super) fn of_batch(batch: &[Ix], b: usize, vector_dim: usize) -> Option<&Ix> {
    batch.get(if b < vector_dim { b } else { b.checked_sub(1)? })
}

impl Lowerer<'_> {
    /// The starts of a dynamic-slice or dynamic-update-slice: scalar operands from number `first` on, or the older form
    /// of one vector.
    fn starts(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        inst: &Instruction,
        first: usize,
        room: &[i64],
    ) -> Result<Vec<Ix>> {
        let vector = inst.operands.get(first).is_some_and(|&o| {
            inst.operands.len() == first + 1 && self.leaf_shape(resolve(self.c, (o, 0))).is_ok_and(|s| s.rank() == 1)
        });
        let mut out = Vec::new();
        for (d, &high) in room.iter().enumerate() {
            let (operand, at) = if vector { (first, vec![Ix::constant(d as i64)]) } else { (first + d, Vec::new()) };
            let operand = *inst.operands.get(operand).ok_or_else(|| internal(inst, "a start is missing"))?;
            let ty = self.leaf_shape(resolve(self.c, (operand, 0)))?.ty;
            let node = self.value(stage, known, (operand, 0), &at)?;
            out.push(checked(&mut stage.body, ty, node, high.max(0)).0);
        }
        Ok(out)
    }

    /// The index into the operand of a dynamic-slice.
    pub(super) fn dynamic_slice_index(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        inst: &Instruction,
        index: &[Ix],
    ) -> Result<Vec<Ix>> {
        let from = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims.clone();
        let sizes = inst.attrs.ints_or_empty(AttrKey::DynamicSliceSizes);
        let room: Vec<i64> = from.iter().zip(sizes).map(|(d, s)| d - s).collect();
        let starts = self.starts(stage, known, inst, 1, &room)?;
        Ok(index.iter().zip(&starts).map(|(i, s)| i.add(s)).collect())
    }

    /// The index into the operand of a gather. Starts are clamped so that the whole slice is inside.
    pub(super) fn gather_index(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        inst: &Instruction,
        index: &[Ix],
    ) -> Result<Vec<Ix>> {
        let operand = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims.clone();
        let indices = resolve(self.c, (inst.operands[1], 0));
        let ty = self.leaf_shape(indices)?.ty;
        let rank = self.leaf_shape(indices)?.rank();
        let vector_dim = inst.attrs.int(AttrKey::IndexVectorDim).unwrap_or(0).max(0) as usize;
        let offset_dims = inst.attrs.dimension_numbers(AttrKey::OffsetDims);
        let collapsed = inst.attrs.dimension_numbers(AttrKey::CollapsedSliceDims);
        let map = inst.attrs.dimension_numbers(AttrKey::StartIndexMap);
        let operand_batch = inst.attrs.dimension_numbers(AttrKey::OperandBatchingDims);
        let indices_batch = inst.attrs.dimension_numbers(AttrKey::StartIndicesBatchingDims);
        let sizes = inst.attrs.ints_or_empty(AttrKey::SliceSizes);
        let batch: Vec<Ix> =
            index.iter().enumerate().filter(|(d, _)| !offset_dims.contains(d)).map(|(_, i)| i.clone()).collect();
        let mut out = vec![Ix::default(); operand.len()];
        let windows = (0..operand.len()).filter(|d| !collapsed.contains(d) && !operand_batch.contains(d));
        for (d, &o) in windows.zip(&offset_dims) {
            out[d] = index[o].clone();
        }
        for (&d, &b) in operand_batch.iter().zip(&indices_batch) {
            out[d] =
                of_batch(&batch, b, vector_dim).ok_or_else(|| internal(inst, "a batch dimension is missing"))?.clone();
        }
        for (k, &d) in map.iter().enumerate() {
            let mut at = batch.clone();
            if vector_dim < rank {
                at.insert(vector_dim.min(at.len()), Ix::constant(k as i64));
            }
            let node = self.value(stage, known, indices, &at)?;
            let room = (operand[d] - sizes.get(d).copied().unwrap_or(1)).max(0);
            out[d] = out[d].add(&checked(&mut stage.body, ty, node, room).0);
        }
        Ok(out)
    }

    /// A copy of the operand, left out where the result lies in the operand's place, then the update.
    pub(super) fn dynamic_update_slice(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let operand = resolve(self.c, (inst.operands[0], 0));
        let dims = self.leaf_shape(operand)?.dims.clone();
        let update = self.leaf_shape(resolve(self.c, (inst.operands[1], 0)))?.dims.clone();
        let loops: Vec<Loop> = dims.iter().map(|&d| self.new_loop(d)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let mut stage = Stage::default();
        let value = self.parts(&mut stage, &Known::default(), operand, &index)?;
        let copy = self.one_store(stage, loops, &value, linearize(&index, &dims), 0)?;

        let loops: Vec<Loop> = update.iter().map(|&d| self.new_loop(d)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let mut stage = Stage::default();
        let room: Vec<i64> = dims.iter().zip(&update).map(|(d, u)| d - u).collect();
        let starts = self.starts(&mut stage, &Known::default(), inst, 2, &room)?;
        let value = self.parts(&mut stage, &Known::default(), (inst.operands[1], 0), &index)?;
        let target: Vec<Ix> = index.iter().zip(&starts).map(|(i, s)| i.add(s)).collect();
        let write = self.one_store(stage, loops, &value, linearize(&target, &dims), 0)?;
        Ok(vec![copy, write])
    }

    /// A phase that stores one value for each index of `loops`.
    pub(super) fn one_store(
        &mut self,
        mut stage: Stage,
        mut loops: Vec<Loop>,
        parts: &[NodeId],
        offset: Ix,
        output: u32,
    ) -> Result<Phase> {
        let stores = self.store(&mut stage.body, output, parts, offset)?;
        let vector = match loops.pop() {
            Some(v) => v,
            None => self.new_loop(1),
        };
        let stage = ir::Stage { stores, ..ir::Stage::new(Vec::new(), vector, stage.body) };
        Ok(Phase::Nest(Nest { parallel: loops, rows: Vec::new(), stages: vec![stage] }))
    }
}
