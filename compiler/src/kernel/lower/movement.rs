//! Concatenate and pad as kernels: the domain is split, a phase for each part, and no lane is tested.

use super::{Known, Lowerer, Stage, internal};
use crate::error::Result;
use crate::hlo::resolve;
use crate::hlo::{AttrKey, Instruction, InstructionId, PaddingDimension};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{Loop, Phase};

impl Lowerer<'_> {
    /// The part of a concatenation that is read at an index, constant along the dimension that parts are put together along, and where in it.
    pub(super) fn place_in_parts(&self, inst: &Instruction, index: &[Ix]) -> Result<(InstructionId, Vec<Ix>)> {
        let d = inst.attrs.ints_or_empty(AttrKey::Dimensions).first().map_or(0, |&d| d.max(0) as usize);
        let at = index.get(d).and_then(Ix::as_constant);
        let mut at = at.ok_or_else(|| internal(inst, "a concatenation is read at no known part"))?;
        for &part in &inst.operands {
            let extent = self.leaf_shape(resolve(self.c, (part, 0)))?.dims[d];
            if at < extent {
                let mut there = index.to_vec();
                there[d] = Ix::constant(at);
                return Ok((part, there));
            }
            at -= extent;
        }
        Err(internal(inst, "a concatenation is read behind its end"))
    }

    pub(super) fn concatenate(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let d = inst.attrs.ints_or_empty(AttrKey::Dimensions).first().map_or(0, |&d| d.max(0) as usize);
        let mut phases = Vec::new();
        let mut start = 0;
        for &operand in &inst.operands {
            let dims = self.leaf_shape(resolve(self.c, (operand, 0)))?.dims.clone();
            if dims.contains(&0) {
                continue;
            }
            let loops: Vec<Loop> = dims.iter().map(|&e| self.new_loop(e)).collect();
            let source: Vec<Ix> = loops.iter().map(Loop::ix).collect();
            let target: Vec<Ix> =
                source.iter().enumerate().map(|(i, ix)| if i == d { ix.offset(start) } else { ix.clone() }).collect();
            phases.push(self.store_part(id, loops, operand, &source, &target)?);
            start += dims[d];
        }
        Ok(phases)
    }

    pub(super) fn pad(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let edges = inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]);
        let from = &self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims;
        let to = &self.leaf_shape((id, 0))?.dims;
        // The elements of the operand that lie inside the result: first and one past the last, in each dimension.
        let inside: Vec<(i64, i64)> = (0..to.len()).map(|d| surviving(&edges[d], from[d], to[d])).collect();
        let empty = inside.iter().any(|(a, b)| a >= b);
        let value = *inst.operands.get(1).ok_or_else(|| internal(inst, "no padding"))?;
        let mut phases = Vec::new();
        // Where gaps lie between the operand's elements, everything is filled first. Where nothing is, the operand comes first: it
        // may lie where the result does, and is read before the boxes are written.
        let gaps = edges.iter().any(|c| c.interior > 0);
        let boxes = if gaps || empty { vec![to.iter().map(|&d| (0, d)).collect()] } else { around(edges, &inside, to) };
        for part in boxes {
            let (loops, target) = self.box_loops(&part);
            phases.push(self.store_part(id, loops, value, &[], &target)?);
        }
        if !empty {
            let loops: Vec<Loop> = inside.iter().map(|(a, b)| self.new_loop(b - a)).collect();
            let source: Vec<Ix> = loops.iter().zip(&inside).map(|(l, (a, _))| l.ix().offset(*a)).collect();
            let target: Vec<Ix> =
                source.iter().zip(edges).map(|(i, c)| i.scale(c.interior + 1).offset(c.low)).collect();
            let first = if gaps { phases.len() } else { 0 };
            phases.insert(first, self.store_part(id, loops, inst.operands[0], &source, &target)?);
        }
        Ok(phases)
    }

    /// What is around the outputs that are stored into a padded array.
    pub(super) fn padding(&mut self) -> Result<Vec<Phase>> {
        let mut phases = Vec::new();
        for output in 0..self.outputs.len() {
            let (id, _) = self.outputs[output];
            if self.padded_operand(id).is_none() {
                continue;
            }
            let inst = self.inst(id);
            let edges = inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]);
            let from = &self.leaf_shape(self.computed(output))?.dims;
            let to = &self.leaf_shape((id, 0))?.dims;
            let value = *inst.operands.get(1).ok_or_else(|| internal(inst, "no padding"))?;
            let inside: Vec<(i64, i64)> = from.iter().map(|&d| (0, d)).collect();
            for part in around(edges, &inside, to) {
                let (loops, target) = self.box_loops(&part);
                let mut stage = Stage::default();
                let parts = self.parts(&mut stage, &Known::default(), (value, 0), &[])?;
                phases.push(self.one_store(stage, loops, &parts, linearize(&target, to), output as u32)?);
            }
        }
        Ok(phases)
    }

    /// The loops over a box, given by first and one past the last of each dimension, and the index that they walk.
    fn box_loops(&mut self, part: &[(i64, i64)]) -> (Vec<Loop>, Vec<Ix>) {
        let loops: Vec<Loop> = part.iter().map(|(start, end)| self.new_loop(end - start)).collect();
        let index = loops.iter().zip(part).map(|(l, (start, _))| l.ix().offset(*start)).collect();
        (loops, index)
    }

    /// Stores `operand` at `source` as the part of the result at `target`, or what the group computes of it there.
    fn store_part(
        &mut self,
        id: InstructionId,
        loops: Vec<Loop>,
        operand: InstructionId,
        source: &[Ix],
        target: &[Ix],
    ) -> Result<Phase> {
        let mut stage = Stage::default();
        let known = Known::default();
        let parts = self.parts(&mut stage, &known, (operand, 0), source)?;
        for (&node, part) in parts.iter().zip(0..) {
            stage.memo.insert((((id, 0), part), target.to_vec()), node);
        }
        let [output] = self.outputs[..] else { return Err(internal(self.inst(id), "not one output")) };
        let dims = &self.leaf_shape(output)?.dims;
        let parts = self.parts(&mut stage, &known, output, target)?;
        self.one_store(stage, loops, &parts, linearize(target, dims), 0)
    }
}

/// Boxes around what is inside: dimension by dimension, below and above, the earlier ones already narrowed.
fn around(edges: &[PaddingDimension], inside: &[(i64, i64)], to: &[i64]) -> Vec<Vec<(i64, i64)>> {
    let kept: Vec<(i64, i64)> = edges.iter().zip(inside).map(|(c, (a, b))| (c.low + a, c.low + b)).collect();
    let mut boxes = Vec::new();
    for (d, &(low, high)) in kept.iter().enumerate() {
        for side in [(0, low), (high, to[d])] {
            if side.0 >= side.1 {
                continue;
            }
            let narrowed = kept[..d].iter().copied();
            let whole = to[d + 1..].iter().map(|&size| (0, size));
            boxes.push(narrowed.chain([side]).chain(whole).collect());
        }
    }
    boxes
}

/// First and one past the last element of the operand whose place lies inside the result.
fn surviving(c: &PaddingDimension, from: i64, to: i64) -> (i64, i64) {
    let step = c.interior + 1;
    let first = if c.low < 0 { (-c.low + step - 1) / step } else { 0 };
    // low + i * step < to
    let room = to - c.low;
    let end = if room <= 0 { 0 } else { (room + step - 1) / step };
    (first, end.min(from))
}
