//! The end of reductions: a turn behind all others, in which the lanes of each accumulator become one.
//!
//! Lanes are folded by halves, as the loop of 128 bits folds them: each of the lower half with the one of the same number in the upper
//! half, the lower one first. What the lanes above give meanwhile, nobody reads.

use super::Reg;
use super::select::{Block, Selector, Turn, count};
use crate::codegen::rows::Width;
use crate::codegen::vector::combine;
use crate::kernel::body::{Lane, Op};
use crate::kernel::ir::{Place, Stage};
use iced_x86::Code;

/// So many reductions are folded side by side, and none waits for another.
const SEVERAL: usize = 3;

impl Selector<'_> {
    /// Whether lanes are folded in registers. Fewer instructions do that, but in those of 512 bits one reduction alone has its result
    /// later: a row loop that is behind it in the same point would wait.
    pub(super) fn folds_itself(&self) -> bool {
        let results = || {
            self.row.stage.accumulators.iter().flat_map(|a| match &a.place {
                Place::Lanes { results } => results.as_slice(),
                Place::Row { .. } => &[],
            })
        };
        let takes = |op: &Op| matches!(op, Op::Result(r) if results().any(|own| own == r));
        let awaits = |s: &Stage| s.vector.extent > 1 && s.body.nodes().iter().any(|n| takes(&n.op));
        self.width == Width::W256 || results().count() >= SEVERAL || !self.nest.stages.iter().any(awaits)
    }

    /// The turn that leaves what each accumulator's lanes are together in the first of them; `None` where a combiner has no form.
    ///
    /// # Errors
    /// What the traversal of a combiner misses, a fault of ours.
    pub(super) fn ends(&mut self) -> Result<Option<Turn>, String> {
        if self.start_turn().is_none() {
            return Ok(None);
        }
        (self.now, self.live) = (0, self.block);
        let stage = self.row.stage;
        for (number, a) in stage.accumulators.iter().enumerate() {
            let lanes: Vec<Lane> = a.lanes().collect();
            // One row of components for each block of lanes that is left.
            let mut blocks: Vec<Vec<Block>> = Vec::new();
            for (component, &lane) in self.accumulators[number].clone().iter().zip(&lanes) {
                blocks.resize(component.len(), Vec::new());
                for (all, block) in blocks.iter_mut().zip(component) {
                    all.push(block.iter().map(|&r| self.as_mask(lane, r)).collect());
                }
            }
            while blocks.len() > 1 {
                let upper = blocks.split_off(blocks.len() / 2);
                for (lower, upper) in blocks.iter_mut().zip(upper) {
                    let Some(both) = combine(self, (), a, lower.iter().cloned().chain(upper).collect()) else {
                        return Ok(None);
                    };
                    *lower = both;
                }
            }
            let Some(mut folded) = blocks.pop() else { continue };
            let mut half = self.block / 2;
            while half >= 1 {
                let upper = folded.iter().zip(&lanes).map(|(v, &lane)| self.lanes_from(lane, v, half));
                let Some(upper) = upper.collect::<Option<Vec<Block>>>() else { return Ok(None) };
                let Some(both) = combine(self, (), a, folded.into_iter().chain(upper).collect()) else {
                    return Ok(None);
                };
                (folded, half) = (both, half / 2);
            }
            for ((component, v), &lane) in folded.iter().enumerate().zip(&lanes) {
                let Some(&first) = v.first() else { return Ok(None) };
                self.accumulators[number][component][0][0] = self.as_register(lane, first);
            }
        }
        match self.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(self.end()),
        }
    }

    /// A block whose lanes begin with lane `first` of another, the half of it, the quarter and so on.
    fn lanes_from(&mut self, lane: Lane, v: &[Reg], first: i64) -> Option<Block> {
        let each = self.block / count(lane) as i64;
        let r = if first >= each { *v.get((first / each) as usize)? } else { self.moved(lane, *v.first()?, first) };
        Some(vec![r; count(lane)])
    }

    /// A register whose first lanes are those of another from lane `first` on, a power of two.
    fn moved(&mut self, lane: Lane, r: Reg, first: i64) -> Reg {
        if self.turn.is_mask(r) {
            return self.shifted_mask(r, first as u8);
        }
        match (first * i64::from(lane.bits() / 8), self.width) {
            (32, _) | (16, Width::W256) => self.upper(r),
            (16, Width::W512) => self.halves(Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, &[r], 1, Some(1)),
            (8, _) => self.with_imm(Code::VEX_Vpermilps_ymm_ymmm256_imm8, &[r], 0b01_00_11_10),
            _ => self.with_imm(Code::VEX_Vpermilps_ymm_ymmm256_imm8, &[r], 0b10_11_00_01),
        }
    }
}
