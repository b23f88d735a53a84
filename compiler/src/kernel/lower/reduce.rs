//! One reduction over any dimensions.
//!
//! Where the last dimension is folded, it is the vector axis with accumulators in lanes; where it is kept, it is the
//! vector axis too, with one accumulator an element in row buffers, so that memory is read in order either way.

use super::rows::row_buffer;
use super::{Known, Lowerer, Stage, internal};
use crate::error::Result;
use crate::fusion::reduced_dims;
use crate::hlo::resolve;
use crate::hlo::{InstructionId, Opcode};
use crate::kernel::index::{Ix, delinearize, linearize};
use crate::kernel::ir::{self, Loop, Nest, Phase, Place};

impl Lowerer<'_> {
    pub(super) fn reduce(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        debug_assert_eq!(inst.opcode, Opcode::Reduce);
        let n = inst.operands.len() / 2;
        let dims = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims.clone();
        let reduced = reduced_dims(inst);
        let loops: Vec<Loop> = dims.iter().map(|&d| self.new_loop(d)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let last = (0..dims.len()).rev().find(|&d| dims[d] != 1);
        let vector_is_reduced = last.is_none_or(|d| reduced.contains(&d));
        let vector = match last {
            Some(d) => loops[d],
            None => self.new_loop(1),
        };
        let (mut parallel, mut sequential) = (Vec::new(), Vec::new());
        for (d, l) in loops.iter().enumerate() {
            match (Some(d) == last, reduced.contains(&d)) {
                (true, _) => {}
                (false, true) => sequential.push(*l),
                (false, false) => parallel.push(*l),
            }
        }
        let kept: Vec<usize> = (0..dims.len()).filter(|d| !reduced.contains(d)).collect();
        let kept_index: Vec<Ix> = kept.iter().map(|&d| index[d].clone()).collect();

        let mut stage = Stage::default();
        let mut known = Known::default();
        let components = self.components(&inst.operands[..n])?;
        let mut rows = Vec::new();
        let place = if vector_is_reduced {
            Place::Lanes { results: (0..components.len() as u32).collect() }
        } else {
            for &(k, _) in &components {
                row_buffer(&mut rows, self.compute_type((id, k))?, vector.extent);
            }
            Place::Row { rows: (0..components.len() as u32).collect() }
        };
        let accumulator = self.accumulator(&mut stage, &known, id, &components, &|_| index.clone(), place)?;
        let kept_dims: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
        let offset = linearize(&kept_index, &kept_dims);
        for (number, &(k, part)) in (0..).zip(&components) {
            let table = if vector_is_reduced { &mut known.results } else { &mut known.rows };
            table.insert(((id, k), part), (number, offset.clone()));
        }
        let first = ir::Stage { accumulators: vec![accumulator], ..ir::Stage::new(sequential, vector, stage.body) };
        let second = self.epilogue_stage(&known, &offset, if vector_is_reduced { None } else { Some(vector) })?;
        Ok(vec![Phase::Nest(Nest { parallel, rows, stages: vec![first, second] })])
    }

    /// The stage that stores the group's outputs, each at `offset` of its own shape.
    pub(super) fn epilogue_stage(&mut self, known: &Known, offset: &Ix, vector: Option<Loop>) -> Result<ir::Stage> {
        let mut stage = Stage::default();
        let mut stores = Vec::new();
        for number in 0..self.outputs.len() {
            let leaf = self.computed(number);
            let shape = self.leaf_shape(leaf)?;
            let index = delinearize(offset, &shape.dims);
            if linearize(&index, &shape.dims) != *offset {
                return Err(internal(self.inst(leaf.0), "the index maps of an output's use and definition differ"));
            }
            let value = self.parts(&mut stage, known, leaf, &index)?;
            let place = self.placed(number, offset.clone())?;
            stores.extend(self.store(&mut stage.body, number as u32, &value, place)?);
        }
        let vector = match vector {
            Some(v) => v,
            None => self.new_loop(1),
        };
        Ok(ir::Stage { stores, ..ir::Stage::new(Vec::new(), vector, stage.body) })
    }
}
