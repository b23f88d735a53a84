//! Concatenate and pad as kernels: the domain is split, a phase for each part, and no lane is tested.

use super::{Known, Lowerer, Stage, internal};
use crate::error::Result;
use crate::hlo::resolve;
use crate::hlo::{AttrKey, InstructionId, PaddingDimension};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{Loop, Phase};

impl Lowerer<'_> {
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
            let offset = start;
            phases.push(self.store_box(
                id,
                &dims,
                Some(operand),
                |i, ix| if i == d { ix.offset(offset) } else { ix },
            )?);
            start += dims[d];
        }
        Ok(phases)
    }

    pub(super) fn pad(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let config = inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]).to_vec();
        let from = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims.clone();
        let to = self.leaf_shape((id, 0))?.dims.clone();
        let mut phases = Vec::new();
        // The elements of the operand that lie inside the result: first and one past the last, in each dimension.
        let inside: Vec<(i64, i64)> = (0..to.len()).map(|d| surviving(&config[d], from[d], to[d])).collect();
        let empty = inside.iter().any(|(a, b)| a >= b);
        if config.iter().any(|c| c.interior > 0) || empty {
            // Gaps lie between the operand's elements: fill everything first.
            phases.push(self.store_box(id, &to, None, |_, ix| ix)?);
        } else {
            // Boxes around the operand: dimension by dimension, below and above, the earlier ones already narrowed.
            for d in 0..to.len() {
                let low = config[d].low + inside[d].0;
                let high = config[d].low + inside[d].1;
                for (start, end) in [(0, low), (high, to[d])] {
                    if start >= end {
                        continue;
                    }
                    let mut dims = to.clone();
                    let mut offsets = vec![0; to.len()];
                    for e in 0..d {
                        offsets[e] = config[e].low + inside[e].0;
                        dims[e] = inside[e].1 - inside[e].0;
                    }
                    offsets[d] = start;
                    dims[d] = end - start;
                    phases.push(self.store_box(id, &dims, None, |i, ix| ix.offset(offsets[i]))?);
                }
            }
        }
        if !empty {
            // Where nothing is filled before, the operand comes first: it may lie where the result does, and is read before
            // the boxes are written.
            let first = if config.iter().any(|c| c.interior > 0) { phases.len() } else { 0 };
            let dims: Vec<i64> = inside.iter().map(|(a, b)| b - a).collect();
            let operand = inst.operands[0];
            let loops: Vec<Loop> = dims.iter().map(|&e| self.new_loop(e)).collect();
            let source: Vec<Ix> = loops.iter().zip(&inside).map(|(l, (a, _))| l.ix().offset(*a)).collect();
            let target: Vec<Ix> =
                source.iter().zip(&config).map(|(i, c)| i.scale(c.interior + 1).offset(c.low)).collect();
            phases.insert(first, self.store_part(id, loops, operand, &source, &target)?);
        }
        Ok(phases)
    }

    /// Stores `operand`, or the padding value, over a box of the result.
    fn store_box(
        &mut self,
        id: InstructionId,
        dims: &[i64],
        operand: Option<InstructionId>,
        place: impl Fn(usize, Ix) -> Ix,
    ) -> Result<Phase> {
        let loops: Vec<Loop> = dims.iter().map(|&e| self.new_loop(e)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let target: Vec<Ix> = index.iter().cloned().enumerate().map(|(i, ix)| place(i, ix)).collect();
        match operand {
            Some(o) => self.store_part(id, loops, o, &index, &target),
            None => {
                let value = *self.inst(id).operands.get(1).ok_or_else(|| internal(self.inst(id), "no padding"))?;
                self.store_part(id, loops, value, &[], &target)
            }
        }
    }

    fn store_part(
        &mut self,
        id: InstructionId,
        loops: Vec<Loop>,
        operand: InstructionId,
        source: &[Ix],
        target: &[Ix],
    ) -> Result<Phase> {
        let mut stage = Stage::default();
        let value = self.parts(&mut stage, &Known::default(), (operand, 0), source)?;
        let offset = linearize(target, &self.leaf_shape((id, 0))?.dims);
        self.one_store(stage, loops, &value, offset, 0)
    }
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
