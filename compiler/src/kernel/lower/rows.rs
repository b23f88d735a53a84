//! Groups over full and row values.
//!
//! Stage `L` computes what follows from `L` reductions of a row, one after another. A full value of an earlier stage is
//! computed again where that is cheap and kept in a row buffer where it is not.

use super::{Known, Lowerer, Part, Stage, internal, type_in_row};
use crate::error::Result;
use crate::fusion::{Group, own_cost};
use crate::hlo::{InstructionId, Opcode};
use crate::hlo::{Leaf, resolve};
use crate::kernel::body::{NodeId, ScalarType};
use crate::kernel::index::{Ix, delinearize, linearize};
use crate::kernel::ir::{self, Accumulator, Loop, Nest, Phase, Place, RowBuffer, Store};
use crate::kernel::storage;
use hashbrown::HashMap;

/// A full value that costs more than this to compute again is kept in a row buffer.
const RECOMPUTE: u32 = 5;
/// Row buffers longer than this, in bytes, would not stay in the cache.
const MAX_ROW_BYTES: i64 = 1 << 18;

/// What is known of a member.
#[derive(Clone, Copy)]
pub(super) struct Level {
    /// How many reductions it follows from, one after another: the stage that computes it.
    stage: usize,
    /// Whether it has one value for all that a reduction folds.
    is_row: bool,
    /// What it costs to compute it from what is known when its stage begins.
    cost: u32,
}

/// The levels of the members of a group. Other instructions have none.
pub(super) struct Levels(HashMap<InstructionId, Level>);

impl Levels {
    /// Whether it is a member that a stage computes.
    pub(super) fn is_at(&self, id: InstructionId, stage: usize) -> bool {
        self.0.get(&id).is_some_and(|level| level.stage == stage)
    }

    /// Whether it is a member that has one value for all that a reduction folds.
    pub(super) fn is_row(&self, id: InstructionId) -> bool {
        self.0.get(&id).is_some_and(|level| level.is_row)
    }
}

/// Values that a stage keeps in row buffers.
pub(super) struct Kept<'r> {
    rows: &'r mut Vec<RowBuffer>,
    pub(super) stores: Vec<(u32, NodeId)>,
    /// Where later stages find them.
    pub(super) known: Vec<(Part, (u32, Ix))>,
}

impl Kept<'_> {
    /// Nothing yet; buffers are added to `rows`.
    pub(super) fn new(rows: &mut Vec<RowBuffer>) -> Kept<'_> {
        Kept { rows, stores: Vec::new(), known: Vec::new() }
    }
}

/// The number of a new row buffer for values of a scalar type.
pub(super) fn row_buffer(rows: &mut Vec<RowBuffer>, scalar: ScalarType, elements: i64) -> u32 {
    rows.push(RowBuffer { scalar: type_in_row(scalar), elements });
    rows.len() as u32 - 1
}

impl Lowerer<'_> {
    pub(super) fn rows(&mut self, group: &Group, dims: &[i64], split: usize) -> Result<Vec<Phase>> {
        let parallel: Vec<Loop> = dims[..split].iter().map(|&d| self.new_loop(d)).collect();
        let row_elements: i64 = dims[split..].iter().product();
        let vector = self.new_loop(row_elements);
        let outer: Vec<Ix> = parallel.iter().map(Loop::ix).collect();
        let row_offset = linearize(&outer, &dims[..split]);
        let full_offset = row_offset.scale(row_elements).add(&vector.ix());

        // A padding is where what it reads is stored.
        let computes = |m: &InstructionId| self.padded_operand(*m).is_none();
        let members: Vec<InstructionId> = group.members.iter().copied().filter(computes).collect();
        let levels = self.levels(&members, dims.iter().product());
        let last = self.last_stage(&levels)?;
        let mut known = Known::default();
        let mut rows: Vec<RowBuffer> = Vec::new();
        let mut stages = Vec::new();
        let mut results = 0;
        for level in 0..=last {
            let mut stage = Stage::default();
            let mut accumulators = Vec::new();
            let mut finished = Vec::new();
            let mut full = false;
            for &m in &members {
                let inst = self.inst(m);
                if inst.opcode != Opcode::Reduce || !levels.is_at(m, level + 1) || level == last {
                    continue;
                }
                full = true;
                let components = self.components(&inst.operands[..inst.operands.len() / 2])?;
                let first = results;
                results += components.len() as u32;
                for (&(k, part), number) in components.iter().zip(first..) {
                    let shape = self.leaf_shape((m, k))?;
                    let index = delinearize(&row_offset, &shape.dims);
                    finished.push((((m, k), part), (number, linearize(&index, &shape.dims))));
                }
                let place = Place::Lanes { results: (first..results).collect() };
                let element = |dims: &[i64]| delinearize(&full_offset, dims);
                accumulators.push(self.accumulator(&mut stage, &known, m, &components, &element, place)?);
            }
            // Rows first: what the stores below need of this stage is then in the memo already.
            let mut kept = Kept::new(&mut rows);
            for &m in &members {
                if !levels.is_at(m, level) || level == last || !self.is_kept(m, &members, &levels) {
                    continue;
                }
                let shape = self.leaf_shape((m, 0))?;
                let scalar = storage::compute_type(shape.ty);
                if row_elements.saturating_mul(i64::from(scalar.bits() / 8 * storage::parts(shape.ty))) > MAX_ROW_BYTES
                {
                    continue;
                }
                self.keep_in_rows(&mut stage, &known, m, (&full_offset, row_elements), &mut kept)?;
                full = true;
            }
            let stored = |id| levels.is_at(id, level) && !levels.is_row(id);
            full |= (0..self.outputs.len()).any(|number| stored(self.computed(number).0));
            let at = |id| {
                let offset = if levels.is_row(id) { &row_offset } else { &full_offset };
                levels.is_at(id, level).then_some(offset)
            };
            let stores = self.stores_of(&mut stage, &known, &at)?;
            let (row_stores, kept) = (kept.stores, kept.known);
            known.results.extend(finished);
            known.rows.extend(kept);
            // Row values alone need no loop over the row.
            let vector = if full { vector } else { self.new_loop(1) };
            let plain = ir::Stage::new(Vec::new(), vector, stage.body);
            stages.push(ir::Stage { accumulators, stores, row_stores, ..plain });
        }
        Ok(vec![Phase::Nest(Nest { parallel, rows, stages })])
    }

    /// Whether a later stage needs the full values of a member and they cost too much to be computed again.
    pub(super) fn is_kept(&self, m: InstructionId, members: &[InstructionId], levels: &Levels) -> bool {
        let Some(own) = levels.0.get(&m) else { return false };
        let later = |u: &InstructionId| {
            let inst = self.inst(*u);
            let after = levels.0.get(u).is_some_and(|level| level.stage > own.stage);
            after && inst.opcode != Opcode::Reduce && inst.operands.contains(&m)
        };
        let array = self.inst(m).shape.as_array().is_some();
        array && !own.is_row && own.cost > RECOMPUTE && members.iter().any(later)
    }

    /// Keeps the parts of a member's value at `offset` in new row buffers of `elements` elements.
    pub(super) fn keep_in_rows(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        m: InstructionId,
        (offset, elements): (&Ix, i64),
        kept: &mut Kept<'_>,
    ) -> Result<()> {
        let shape = self.leaf_shape((m, 0))?;
        let scalar = storage::compute_type(shape.ty);
        let index = delinearize(offset, &shape.dims);
        let at = linearize(&index, &shape.dims);
        let parts = self.parts(stage, known, (m, 0), &index)?;
        for (mut node, part) in parts.into_iter().zip(0..) {
            if scalar.is_mask() {
                node = stage.body.mask_to_int(node);
            }
            let row = row_buffer(kept.rows, scalar, elements);
            kept.stores.push((row, node));
            kept.known.push((((m, 0), part), (row, at.clone())));
        }
        Ok(())
    }

    /// The accumulator of a reduction of elements at the index that `element` gives for an operand's dimensions.
    pub(super) fn accumulator(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        id: InstructionId,
        components: &[(usize, u32)],
        element: &dyn Fn(&[i64]) -> Vec<Ix>,
        place: Place,
    ) -> Result<Accumulator> {
        let operands = &self.inst(id).operands;
        let (mut init, mut values) = (Vec::new(), Vec::new());
        for &(k, part) in components {
            init.push(self.part(stage, known, ((operands[operands.len() / 2 + k], 0), part), &[])?);
            let operand = self.leaf_shape(resolve(self.c, (operands[k], 0)))?;
            values.push(self.part(stage, known, ((operands[k], 0), part), &element(&operand.dims))?);
        }
        let combiner = self.combiner(id, components.len())?;
        let (identity, splits, roots) = (combiner.identity, combiner.splits, combiner.roots);
        Ok(Accumulator { init, values, identity, combine: combiner.body, roots, splits, place })
    }

    /// The stores of those outputs that have an offset in a stage.
    pub(super) fn stores_of<'x>(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        at: &dyn Fn(InstructionId) -> Option<&'x Ix>,
    ) -> Result<Vec<Store>> {
        let mut stores = Vec::new();
        for number in 0..self.outputs.len() {
            let leaf = self.computed(number);
            let Some(offset) = at(leaf.0) else { continue };
            let shape = self.leaf_shape(leaf)?;
            let index = delinearize(offset, &shape.dims);
            let value = self.parts(stage, known, leaf, &index)?;
            let place = self.placed(number, linearize(&index, &shape.dims))?;
            stores.extend(self.store(&mut stage.body, number as u32, &value, place)?);
        }
        Ok(stores)
    }

    /// Of members of a group whose full values have `full` elements.
    pub(super) fn levels(&self, members: &[InstructionId], full: i64) -> Levels {
        let mut levels: HashMap<InstructionId, Level> = HashMap::new();
        let mut inlined = HashMap::new();
        for &m in members {
            let inst = self.inst(m);
            let before = inst.operands.iter().filter_map(|o| levels.get(o)).map(|level| level.stage).max();
            let mut stage = before.unwrap_or(0);
            let mut cost = own_cost(inst);
            for &o in &inst.operands {
                let of_operand = match levels.get(&o) {
                    Some(earlier) if earlier.stage < stage || earlier.is_row => 0,
                    Some(beside) => beside.cost,
                    None => self.inlined_cost(o, &mut inlined),
                };
                cost = cost.saturating_add(of_operand);
            }
            let folds = inst.opcode == Opcode::Reduce;
            if folds {
                stage += 1;
                cost = 0;
            }
            let leaves = inst.shape.leaves();
            let elements = leaves.first().and_then(|s| s.as_array()).map_or(0, |s| s.elements() as i64);
            levels.insert(m, Level { stage, is_row: folds || elements != full, cost });
        }
        Levels(levels)
    }

    /// The last stage that computes an output.
    pub(super) fn last_stage(&self, levels: &Levels) -> Result<usize> {
        (0..self.outputs.len()).try_fold(0, |last, number| {
            let (id, _) = self.computed(number);
            let level = levels.0.get(&id).ok_or_else(|| internal(self.inst(id), "an output that is no member"))?;
            Ok(level.stage.max(last))
        })
    }

    /// What it costs to compute what no member follows from, wherever a member needs it.
    fn inlined_cost(&self, id: InstructionId, known: &mut HashMap<InstructionId, u32>) -> u32 {
        let leaf = resolve(self.c, (id, 0));
        if let Some(&cost) = known.get(&leaf.0) {
            return cost;
        }
        let mut cost = 0;
        if !self.in_memory(leaf) {
            let inst = self.inst(leaf.0);
            cost = inst.operands.iter().fold(own_cost(inst), |all, &o| all.saturating_add(self.inlined_cost(o, known)));
        }
        known.insert(leaf.0, cost);
        cost
    }

    /// The scalar type of a leaf's parts, for row buffers.
    pub(super) fn compute_type(&self, leaf: Leaf) -> Result<ScalarType> {
        Ok(storage::compute_type(self.leaf_shape(leaf)?.ty))
    }
}
