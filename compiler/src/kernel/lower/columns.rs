//! Groups that fold columns and go on over all their elements: a softmax or a norm over a dimension that is not the last.
//!
//! The vector axis runs over the columns, so that memory is read in order, and what is folded is a loop around it. What follows from
//! `L` reductions of a column, one after another, is computed in two stages: the values of columns, once each, and then the
//! elements, with the accumulators of the next reductions. Both kinds of column values lie in row buffers. An element that a later
//! stage needs is computed again where that is cheap. Where it is not, it is stored: in an output that is written later, or in
//! scratch.

use super::rows::{Kept, Levels, row_buffer};
use super::{Known, Lowerer, Part, Stage, type_in_row};
use crate::error::Result;
use crate::fusion::{Group, own_cost};
use crate::hlo::{InstructionId, Opcode};
use crate::kernel::body::Mem;
use crate::kernel::index::{Ix, delinearize, linearize};
use crate::kernel::ir::{self, Loop, Nest, Phase, Place, RowBuffer, Store};
use crate::kernel::storage;
use hashbrown::HashSet;

/// The loops of such a group, and where things are in them.
struct Columns {
    sequential: Vec<Loop>,
    vector: Loop,
    /// The column's number among all.
    column: Ix,
    /// The element's number among all.
    element: Ix,
    levels: Levels,
    /// The last level that is stored.
    last: usize,
}

/// What the stages so far have made.
#[derive(Default)]
struct Made {
    known: Known,
    rows: Vec<RowBuffer>,
    /// Outputs that hold something else until their own elements are stored.
    lent: Vec<usize>,
}

impl Lowerer<'_> {
    pub(super) fn columns(&mut self, group: &Group, dims: &[i64], split: usize, end: usize) -> Result<Vec<Phase>> {
        let parallel: Vec<Loop> = dims[..split].iter().map(|&d| self.new_loop(d)).collect();
        let sequential: Vec<Loop> = dims[split..end].iter().map(|&d| self.new_loop(d)).collect();
        let width: i64 = dims[end..].iter().product();
        let vector = self.new_loop(width);
        let outer: Vec<Ix> = parallel.iter().map(Loop::ix).collect();
        let around: Vec<Ix> = parallel.iter().chain(&sequential).map(Loop::ix).collect();
        let of = |index: &[Ix], dims: &[i64]| linearize(index, dims).scale(width).add(&vector.ix());
        // A padding is where what it reads is stored.
        let computes = |m: &InstructionId| self.padded_operand(*m).is_none();
        let members: &[InstructionId] = &group.members.iter().copied().filter(computes).collect::<Vec<_>>();
        let levels = self.levels(members, dims.iter().product());
        let last = self.last_stage(&levels)?;
        let (column, element) = (of(&outer, &dims[..split]), of(&around, &dims[..end]));
        let columns = Columns { sequential, vector, column, element, levels, last };
        let levels = &columns.levels;
        let read = self.read_by_elements(members, levels);
        let mut made = Made::default();
        let mut stages = Vec::new();
        for level in 0..=last {
            let of =
                |wanted: &dyn Fn(&InstructionId) -> bool| members.iter().copied().filter(wanted).collect::<Vec<_>>();
            let values = of(&|m| levels.is_at(*m, level) && read.contains(m));
            stages.extend(self.values_of_columns(&columns, level, &values, &mut made)?);
            let folds = of(&|m| self.inst(*m).opcode == Opcode::Reduce && levels.is_at(*m, level + 1) && level < last);
            let kept = of(&|m| {
                let real = self.inst(*m).shape.as_array().is_some_and(|s| !s.ty.is_complex());
                levels.is_at(*m, level) && level < last && real && self.is_kept(*m, members, levels)
            });
            stages.extend(self.elements_of_columns(&columns, level, &folds, &kept, &mut made)?);
        }
        Ok(vec![Phase::Nest(Nest { parallel, rows: made.rows, stages })])
    }

    /// The values of columns that are computed from others of them and that elements are computed from.
    fn read_by_elements(&self, members: &[InstructionId], levels: &Levels) -> HashSet<InstructionId> {
        let mut wanted: HashSet<InstructionId> = HashSet::new();
        for &m in members.iter().rev() {
            let inst = self.inst(m);
            // What only moves values is looked through.
            let passes = levels.is_row(m) && own_cost(inst) == 0 && wanted.contains(&m);
            if !levels.is_row(m) || passes {
                wanted.extend(inst.operands.iter().copied());
            }
        }
        let computed = |m: &InstructionId| {
            let inst = self.inst(*m);
            let moves = own_cost(inst) == 0 || matches!(inst.opcode, Opcode::Reduce | Opcode::GetTupleElement);
            levels.is_row(*m) && wanted.contains(m) && !moves
        };
        members.iter().copied().filter(computed).collect()
    }

    /// The stage that computes the values of columns of a level: `values` go to row buffers, outputs to memory.
    fn values_of_columns(
        &mut self,
        columns: &Columns,
        level: usize,
        values: &[InstructionId],
        made: &mut Made,
    ) -> Result<Option<ir::Stage>> {
        let mut stage = Stage::default();
        let mut kept = Kept::new(&mut made.rows);
        for &m in values {
            self.keep_in_rows(&mut stage, &made.known, m, (&columns.column, columns.vector.extent), &mut kept)?;
        }
        let (row_stores, kept) = (kept.stores, kept.known);
        let levels = &columns.levels;
        let at = |id| (levels.is_at(id, level) && levels.is_row(id)).then_some(&columns.column);
        let stores = self.stores_of(&mut stage, &made.known, &at)?;
        made.known.rows.extend(kept);
        let plain = ir::Stage::new(Vec::new(), columns.vector, stage.body);
        let empty = stores.is_empty() && row_stores.is_empty();
        Ok((!empty).then_some(ir::Stage { stores, row_stores, ..plain }))
    }

    /// The stage over the elements of a level: it stores those that are outputs, and `folds` are the reductions of them.
    fn elements_of_columns(
        &mut self,
        columns: &Columns,
        level: usize,
        folds: &[InstructionId],
        kept: &[InstructionId],
        made: &mut Made,
    ) -> Result<Option<ir::Stage>> {
        let mut stage = Stage::default();
        let mut accumulators = Vec::new();
        let mut finished: Vec<(Part, (u32, Ix))> = Vec::new();
        for &m in folds {
            let inst = self.inst(m);
            let components = self.components(&inst.operands[..inst.operands.len() / 2])?;
            let mut places = Vec::new();
            for &(k, part) in &components {
                let shape = self.leaf_shape((m, k))?;
                let row = row_buffer(&mut made.rows, storage::compute_type(shape.ty), columns.vector.extent);
                places.push(row);
                let index = delinearize(&columns.column, &shape.dims);
                finished.push((((m, k), part), (row, linearize(&index, &shape.dims))));
            }
            let element = |dims: &[i64]| delinearize(&columns.element, dims);
            let place = Place::Row { rows: places };
            accumulators.push(self.accumulator(&mut stage, &made.known, m, &components, &element, place)?);
        }
        let levels = &columns.levels;
        let at = |id| (levels.is_at(id, level) && !levels.is_row(id)).then_some(&columns.element);
        let mut stores = self.stores_of(&mut stage, &made.known, &at)?;
        for &m in kept {
            let (buffer, stored) = self.place_of(m, columns, &mut made.lent)?;
            let shape = self.leaf_shape((m, 0))?;
            let scalar = storage::compute_type(shape.ty);
            let index = delinearize(&columns.element, &shape.dims);
            let at = linearize(&index, &shape.dims);
            let mut value = self.value(&mut stage, &made.known, (m, 0), &index)?;
            if scalar.is_mask() {
                value = stage.body.mask_to_int(value);
            }
            if !stored {
                stores.push(Store { buffer, mem: Mem::of(type_in_row(scalar)), index: at.clone(), value });
            }
            made.known.stored.insert(((m, 0), 0), (buffer, at));
        }
        made.known.rows.extend(finished);
        let plain = ir::Stage::new(columns.sequential.clone(), columns.vector, stage.body);
        let empty = stores.is_empty() && accumulators.is_empty();
        Ok((!empty).then_some(ir::Stage { accumulators, stores, ..plain }))
    }

    /// The buffer for the elements of a member that later stages read, and whether it holds them anyway: its own output, another one
    /// of the same form that the last stage writes, or scratch.
    fn place_of(&mut self, m: InstructionId, columns: &Columns, lent: &mut Vec<usize>) -> Result<(u32, bool)> {
        let shape = self.leaf_shape((m, 0))?;
        let mem = Mem::of(type_in_row(storage::compute_type(shape.ty)));
        let mut other = None;
        for number in 0..self.outputs.len() {
            let leaf = self.outputs[number];
            let to = self.leaf_shape(leaf)?;
            if to.elements() != shape.elements() || storage::mem_of(to.ty) != Some(mem) || to.ty.is_complex() {
                continue;
            }
            if leaf == (m, 0) {
                return Ok((number as u32, true));
            }
            if columns.levels.is_at(leaf.0, columns.last) && !lent.contains(&number) {
                other = other.or(Some(number));
            }
        }
        if let Some(number) = other {
            lent.push(number);
            return Ok((number as u32, false));
        }
        Ok((self.scratch_buffer(storage::scratch_type(mem.scalar()), shape.elements()), false))
    }
}
