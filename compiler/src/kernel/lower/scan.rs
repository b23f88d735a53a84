//! Scans: running values along one dimension.
//!
//! **Problem.** Each step needs the values that the one before has left, so that nothing along the scanned dimension can
//! happen at once; a window that reaches back to the first element, taken by itself, folds everything again.
//!
//! **Invariant.** An element is read once, combined once and stored once. Carries have the type's precision after every
//! step of a `scan`; sums of 16- and 32-bit floats over cumulative windows are carried in `f64` and rounded where they
//! are stored.
//!
//! **Algorithm.** Carries are row buffers. The scanned dimension is a sequential loop, the last dimension behind it, if
//! there is one, the vector axis, all others are parallel. The first stage sets the carries, the second takes a step for
//! each slice, the third stores what a scan carries out.

use super::{Known, Lowerer, Stage, from_row, internal, not_whole, region_over, type_in_row};
use crate::error::Result;
use crate::fusion::CumulativeWindow;
use crate::hlo::{AttrKey, InstructionId, resolve};
use crate::kernel::body::{Body, NodeId, Op, ScalarType};
use crate::kernel::index::{Ix, delinearize, linearize};
use crate::kernel::ir::{self, Loop, Nest, Phase, RowBuffer};
use crate::kernel::storage;
use brolga_runtime::ElementType;

/// The loops of a scan over an array.
struct Loops {
    parallel: Vec<Loop>,
    sequential: Loop,
    vector: Loop,
    /// The element's place in the array.
    index: Vec<Ix>,
    /// Its place in a slice.
    within: Vec<Ix>,
}

/// Row buffers for carries.
fn rows(scalars: &[ScalarType], vector: &Loop) -> Vec<RowBuffer> {
    scalars.iter().map(|&scalar| RowBuffer { scalar: type_in_row(scalar), elements: vector.extent }).collect()
}

fn read_carry(body: &mut Body, row: usize, scalar: ScalarType) -> NodeId {
    let raw = body.push(Op::Row(row as u32), &[], type_in_row(scalar));
    from_row(body, raw, scalar)
}

fn as_row(body: &mut Body, value: NodeId) -> NodeId {
    if body.scalar(value).is_mask() { body.mask_to_int(value) } else { value }
}

impl Lowerer<'_> {
    fn scan_loops(&mut self, dims: &[i64], axis: usize, reverse: bool) -> Loops {
        let loops: Vec<Loop> = dims.iter().map(|&d| self.new_loop(d)).collect();
        let last = (axis + 1..dims.len()).rev().find(|&d| dims[d] != 1);
        let vector = match last {
            Some(d) => loops[d],
            None => self.new_loop(1),
        };
        let parallel = (0..dims.len()).filter(|&d| d != axis && Some(d) != last).map(|d| loops[d]).collect();
        let sequential = loops[axis];
        let mut index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        if reverse {
            index[axis] = index[axis].scale(-1).offset(dims[axis] - 1);
        }
        let mut within = index.clone();
        within.remove(axis);
        Loops { parallel, sequential, vector, index, within }
    }

    /// A window that reaches from an element to the first or to the last one.
    pub(super) fn cumulative(&mut self, id: InstructionId, window: CumulativeWindow) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let n = inst.operands.len() / 2;
        let components = self.components(&inst.operands[..n])?;
        let dims = self.leaf_shape((id, 0))?.dims.clone();
        let l = self.scan_loops(&dims, window.axis, window.reverse);
        let combiner = self.window_combiner(id, components.len())?;
        let ty = self.leaf_shape((id, 0))?.ty;
        let mut scalars = Vec::with_capacity(components.len());
        for &(k, _) in &components {
            scalars.push(self.compute_type((id, k))?);
        }
        // Only a sum has -0 for its identity.
        let sum =
            ty == ElementType::F32 && scalars[..] == [ScalarType::F32] && combiner.identity == Some(vec![0x8000_0000]);
        if sum {
            scalars[0] = ScalarType::F64;
        }

        let known = Known::default();
        let mut start = Stage::default();
        let mut initial = Vec::with_capacity(components.len());
        for (row, &(k, part)) in (0..).zip(&components) {
            let init = self.part(&mut start, &known, ((inst.operands[n + k], 0), part), &[])?;
            let init = if sum { start.body.convert(Op::Promote, init, ScalarType::F64) } else { init };
            initial.push((row, as_row(&mut start.body, init)));
        }
        let first = ir::Stage { row_stores: initial, ..ir::Stage::new(Vec::new(), l.vector, start.body) };

        let mut step = Stage::default();
        let mut args = Vec::with_capacity(2 * components.len());
        for (k, &scalar) in scalars.iter().enumerate() {
            args.push(read_carry(&mut step.body, k, scalar));
        }
        for &(k, part) in &components {
            let value = self.part(&mut step, &known, ((inst.operands[k], 0), part), &l.index)?;
            args.push(if sum { step.body.convert(Op::Promote, value, ScalarType::F64) } else { value });
        }
        let next = if sum {
            vec![step.body.fadd(args[0], args[1])]
        } else {
            step.body.inline(&combiner.body, &args, &combiner.roots).ok_or_else(not_whole)?
        };
        let offset = linearize(&l.index, &dims);
        let mut known = Known::default();
        let mut row_stores = Vec::with_capacity(components.len());
        for (row, (&carry, &(k, part))) in (0..).zip(next.iter().zip(&components)) {
            let ty = self.leaf_shape((id, k))?.ty;
            let value = match (sum, ty) {
                (true, ElementType::F32) => step.body.convert(Op::Demote, carry, ScalarType::F32),
                (true, _) => storage::demote_to_odd(&mut step.body, carry),
                _ => carry,
            };
            let value = storage::round_to(&mut step.body, ty, value);
            known.nodes.insert(((id, k), part), (value, offset.clone()));
            row_stores.push((row, as_row(&mut step.body, carry)));
        }
        let mut stores = Vec::new();
        for number in 0..self.outputs.len() {
            let leaf = self.computed(number);
            let shape = self.leaf_shape(leaf)?;
            let index = delinearize(&offset, &shape.dims);
            if linearize(&index, &shape.dims) != offset {
                return Err(internal(self.inst(leaf.0), "the index maps of an output's use and definition differ"));
            }
            let value = self.parts(&mut step, &known, leaf, &index)?;
            let place = self.placed(number, offset.clone())?;
            stores.extend(self.store(&mut step.body, number as u32, &value, place)?);
        }
        let plain = ir::Stage::new(vec![l.sequential], l.vector, step.body);
        let mut second = ir::Stage { stores, row_stores, ..plain };
        second.regroups = (sum || combiner.splits) && second.running().is_some();
        Ok(vec![Phase::Nest(Nest {
            parallel: l.parallel,
            rows: rows(&scalars, &l.vector),
            stages: vec![first, second],
        })])
    }

    /// A `scan` whose computation works element by element.
    pub(super) fn scan(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let carries = inst.attrs.int(AttrKey::NumCarries).map_or(inst.operands.len() / 2, |n| n.max(0) as usize);
        let inputs = inst.operands.len().saturating_sub(carries);
        let outputs = inst.shape.leaf_count().saturating_sub(carries);
        let [axis] = inst.attrs.dimension_numbers(AttrKey::Dimensions)[..] else {
            return Err(internal(inst, "no scanned dimension"));
        };
        let dims = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims.clone();
        let reverse = inst.attrs.bool(AttrKey::IsReverse).unwrap_or(false);
        let l = self.scan_loops(&dims, axis, reverse);
        let mut slice = dims.clone();
        slice.remove(axis);
        let callee = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| internal(inst, "no to_apply"))?;
        let step_code = region_over(self.module, callee, inst, self.numerics, &slice)?;
        let carried = self.components(&inst.operands[inputs..])?;
        let mut sliced = Vec::new();
        for k in 0..outputs {
            sliced.push(self.parts_of((id, k))?.len());
        }
        let given: usize = sliced.iter().sum();
        if step_code.roots.len() != given + carried.len() {
            return Err(internal(inst, "the computation yields another number of values"));
        }
        let known = Known::default();
        let (mut types, mut scalars) = (Vec::new(), Vec::new());
        let mut start = Stage::default();
        let mut initial = Vec::new();
        for (row, &(k, part)) in (0..).zip(&carried) {
            let leaf = (inst.operands[inputs + k], 0);
            let ty = self.leaf_shape(resolve(self.c, leaf))?.ty;
            let value = self.part(&mut start, &known, (leaf, part), &l.within)?;
            let value = storage::round_to(&mut start.body, ty, value);
            types.push(ty);
            scalars.push(start.body.scalar(value));
            initial.push((row, as_row(&mut start.body, value)));
        }
        let first = ir::Stage { row_stores: initial, ..ir::Stage::new(Vec::new(), l.vector, start.body) };

        let mut step = Stage::default();
        let mut args = Vec::new();
        for k in 0..inputs {
            args.extend(self.parts(&mut step, &known, (inst.operands[k], 0), &l.index)?);
        }
        for (k, &scalar) in scalars.iter().enumerate() {
            args.push(read_carry(&mut step.body, k, scalar));
        }
        let results = step.body.inline(&step_code.body, &args, &step_code.roots).ok_or_else(not_whole)?;
        let (mut slices, next) = results.split_at(given);
        let mut stores = Vec::new();
        for (k, &parts) in sliced.iter().enumerate() {
            let (value, rest) = slices.split_at(parts);
            slices = rest;
            if let Some(number) = self.outputs.iter().position(|&o| o == (id, k)) {
                stores.extend(self.store(&mut step.body, number as u32, value, linearize(&l.index, &dims))?);
            }
        }
        let mut row_stores = Vec::new();
        for (k, &value) in next.iter().enumerate() {
            let value = storage::round_to(&mut step.body, types[k], value);
            row_stores.push((k as u32, as_row(&mut step.body, value)));
        }
        let second = ir::Stage { stores, row_stores, ..ir::Stage::new(vec![l.sequential], l.vector, step.body) };

        let mut end = Stage::default();
        let mut stores = Vec::new();
        let carries: Vec<NodeId> =
            scalars.iter().enumerate().map(|(row, &scalar)| read_carry(&mut end.body, row, scalar)).collect();
        for (number, &output) in (0..).zip(&self.outputs) {
            let parts = carried.iter().zip(&carries).filter(|((k, _), _)| output == (id, outputs + k));
            let parts: Vec<NodeId> = parts.map(|(_, &node)| node).collect();
            if !parts.is_empty() {
                stores.extend(self.store(&mut end.body, number, &parts, linearize(&l.within, &slice))?);
            }
        }
        let third = ir::Stage { stores, ..ir::Stage::new(Vec::new(), l.vector, end.body) };
        let stages = vec![first, second, third];
        Ok(vec![Phase::Nest(Nest { parallel: l.parallel, rows: rows(&scalars, &l.vector), stages })])
    }
}
