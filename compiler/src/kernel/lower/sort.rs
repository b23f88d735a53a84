//! `sort` and `topk`: rows along one dimension.
//!
//! Operands are read through index maps, element by element: once for the record that is sorted, and again at their place
//! in the sorted row where the record does not carry them. `topk` is a sort of the values in descending (or ascending)
//! total order beside their positions, of which the first `k` are stored.

use super::{Known, Lowerer, Stage, internal, mem_of, part_offset, region, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, Instruction, InstructionId, Leaf, Opcode, resolve};
use crate::kernel::body::{Body, NodeId, Op, ScalarType};
use crate::kernel::elementwise::{self, ElementwiseContext};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{Loop, Phase};
use crate::kernel::sort::{self, Sort, SortOperand};
use crate::kernel::storage;
use brolga_runtime::ElementType;

/// Positions in a row are kept in 32 bits.
const MAX_ROW: i64 = u32::MAX as i64;

/// The loops over an array, one of which is the sorted row.
struct Rows {
    parallel: Vec<Loop>,
    row: Loop,
    /// The loop variables, one a dimension.
    index: Vec<Ix>,
}

impl Lowerer<'_> {
    fn rows_along(&mut self, inst: &Instruction, dims: &[i64], along: usize) -> Result<Rows> {
        let mut parallel: Vec<Loop> = dims.iter().map(|&d| self.new_loop(d)).collect();
        let index = parallel.iter().map(Loop::ix).collect();
        // A scalar is a row of one element.
        let row = if along < parallel.len() { parallel.remove(along) } else { self.new_loop(1) };
        if row.extent > MAX_ROW {
            return Err(unsupported(inst, "sorting rows of more than 2^32 elements"));
        }
        parallel.retain(|l| l.extent != 1);
        Ok(Rows { parallel, row, index })
    }

    /// Where part `part` of leaf `leaf` of the group's instruction goes, if anywhere: its buffer and offset.
    fn sorted_store(&self, leaf: Leaf, part: u32, index: &[Ix]) -> Result<Option<(u32, Ix)>> {
        let Some(number) = self.outputs.iter().position(|&o| o == leaf) else { return Ok(None) };
        let shape = self.leaf_shape(leaf)?;
        Ok(Some((number as u32, part_offset(shape.ty, part, &linearize(index, &shape.dims)))))
    }

    pub(super) fn sort(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let first = *inst.operands.first().ok_or_else(|| internal(inst, "no operand"))?;
        let dims = self.leaf_shape(resolve(self.c, (first, 0)))?.dims.clone();
        let along = inst.attrs.dimension_numbers(AttrKey::Dimensions).first().copied();
        let rows = self.rows_along(inst, &dims, along.unwrap_or(dims.len().saturating_sub(1)))?;
        let mut stage = Stage::default();
        let (mut operands, mut types) = (Vec::new(), Vec::new());
        for (k, &operand) in inst.operands.iter().enumerate() {
            let ty = self.leaf_shape(resolve(self.c, (operand, 0)))?.ty;
            let mem = mem_of(inst, ty)?;
            for part in 0..storage::parts(ty) {
                let value = self.part(&mut stage, &Known::default(), ((operand, 0), part), &rows.index)?;
                let value = stored_form(&mut stage.body, ty.real_part(), value);
                operands.push(SortOperand { mem, value, store: self.sorted_store((id, k), part, &rows.index)? });
            }
            types.push(ty);
        }
        let (comparator, before) = self.comparator(inst, &types)?;
        let mems: Vec<_> = operands.iter().map(|o| o.mem).collect();
        let key = sort::key(&comparator, before, &mems);
        let Rows { parallel, row, .. } = rows;
        let keep = row.extent;
        let sort = Sort { parallel, row, load: stage.body, operands, keep, comparator, before, key };
        Ok(vec![Phase::Sort(Box::new(sort))])
    }

    /// The comparator of a sort of operands of these types, on elements in memory form.
    fn comparator(&self, inst: &Instruction, types: &[ElementType]) -> Result<(Body, NodeId)> {
        let id = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| internal(inst, "no to_apply"))?;
        let combiner = region(self.module, id, inst, self.numerics)?;
        let c = &self.module.computations[id];
        let mut body = Body::new();
        let mut args = Vec::new();
        let parameters = c.parameters();
        if parameters.len() != 2 * types.len() {
            return Err(internal(inst, "a comparator of another number of parameters"));
        }
        let mut before = 0;
        for (pair, &ty) in parameters.chunks(2).zip(types) {
            let parts = storage::parts(ty);
            for (side, &p) in pair.iter().enumerate() {
                // Parameters may be of another precision than the operands.
                let wanted = c.instructions[p].shape.as_array().map_or(ty, |s| s.ty);
                for part in 0..parts {
                    let raw = body.arg(2 * (before + part) + side as u32, mem_of(inst, ty)?.scalar());
                    let value = storage::decode(&mut body, ty.real_part(), raw);
                    args.push(self.converted(&mut body, inst, ty.real_part(), wanted.real_part(), value)?);
                }
            }
            before += parts;
        }
        match body.inline(&combiner.body, &args, &combiner.roots).as_deref() {
            Some(&[before]) => Ok((body, before)),
            _ => Err(internal(inst, "a comparator that yields no truth value")),
        }
    }

    fn converted(
        &self,
        body: &mut Body,
        inst: &Instruction,
        from: ElementType,
        to: ElementType,
        x: NodeId,
    ) -> Result<NodeId> {
        if storage::compute_type(from) == storage::compute_type(to) {
            return Ok(x);
        }
        let cx = ElementwiseContext { variant: self.numerics.variant, strict_rounding: self.numerics.strict_rounding };
        elementwise::lower(body, &cx, Opcode::Convert, &Attrs::new(), &[from], to, &[x])
            .map_err(|e| unsupported(inst, e.0))
    }

    pub(super) fn top_k(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let operand = *inst.operands.first().ok_or_else(|| internal(inst, "no operand"))?;
        let shape = self.leaf_shape(resolve(self.c, (operand, 0)))?.clone();
        let along = shape.rank().checked_sub(1).ok_or_else(|| internal(inst, "an operand of rank 0"))?;
        let kept = self.leaf_shape((id, 0))?.dims.clone();
        let keep = *kept.last().ok_or_else(|| internal(inst, "a result of rank 0"))?;
        let keep = keep.min(shape.dims[along]);
        let rows = self.rows_along(inst, &shape.dims, along)?;
        let mut stage = Stage::default();
        let mem = mem_of(inst, shape.ty)?;
        let value = self.value(&mut stage, &Known::default(), (operand, 0), &rows.index)?;
        let value = stored_form(&mut stage.body, shape.ty, value);
        let place = stage.body.push(Op::Index(rows.index[along].clone()), &[], ScalarType::I32);
        let operands = vec![
            SortOperand { mem, value, store: self.sorted_store((id, 0), 0, &rows.index)? },
            SortOperand {
                mem: mem_of(inst, ElementType::S32)?,
                value: place,
                store: self.sorted_store((id, 1), 0, &rows.index)?,
            },
        ];
        let direction = if inst.attrs.bool(AttrKey::Largest).unwrap_or(true) { "GT" } else { "LT" };
        let mut attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
        if shape.ty.is_float() {
            attrs.set(AttrKey::ComparisonType, AttrValue::Word("TOTALORDER"));
        }
        let mut comparator = Body::new();
        let sides = [0, 1].map(|n| {
            let raw = comparator.arg(n, mem.scalar());
            storage::decode(&mut comparator, shape.ty, raw)
        });
        let cx = ElementwiseContext::default();
        let types = [shape.ty, shape.ty];
        let before =
            elementwise::lower(&mut comparator, &cx, Opcode::Compare, &attrs, &types, ElementType::Pred, &sides)
                .map_err(|e| unsupported(inst, e.0))?;
        let key = sort::key(&comparator, before, &[mem, operands[1].mem]);
        let Rows { parallel, row, .. } = rows;
        let sort = Sort { parallel, row, load: stage.body, operands, keep, comparator, before, key };
        Ok(vec![Phase::Sort(Box::new(sort))])
    }
}

/// A value in the form that its type has in memory. One that was just loaded stays as it was: its bits do not change.
fn stored_form(body: &mut Body, ty: ElementType, value: NodeId) -> NodeId {
    let mem = storage::mem_of(ty);
    let loads: Vec<NodeId> = (0..body.nodes().len() as u32)
        .map(NodeId)
        .filter(|&n| matches!(body.node(n).op, Op::Load(_, m, _) if Some(m) == mem))
        .collect();
    match loads.into_iter().find(|&raw| storage::decode(body, ty, raw) == value) {
        Some(raw) => raw,
        None => storage::encode(body, ty, value),
    }
}
