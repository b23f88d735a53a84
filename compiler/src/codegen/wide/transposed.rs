//! Rows a few elements long that lie one behind the other, each in a lane of its own: transposed in registers.
//!
//! **Problem.** One by one, each element would take an instruction to get into a register, and more than one to get out of it.
//!
//! **Invariant.** Nothing is read that the rows do not have together, and nothing is written but their elements.
//!
//! **Algorithm.** As many elements of a row as fill 128 bits go to and from memory together. Registers of them, one row of several in each
//! part, are transposed part by part. Where the elements of a row are no multiple of as many, the last ones begin earlier.

use super::Reg;
use super::select::{Pointer, Selector, count};
use crate::codegen::rows::{Part, parts};
use crate::kernel::body::{Mem, NodeId, PART, ScalarType};
use iced_x86::Code;

impl Selector<'_> {
    /// Register `k` of a vector of an element of each row, from `first` of the iteration on.
    pub(super) fn load_transposed(&mut self, id: NodeId, mem: Mem, (first, k): (i64, i64), stride: i64) -> Option<Reg> {
        let Part { leader, begin, column } = self.row.part(id)?;
        let first = first + k * (self.vector / count(mem.scalar()) as i64);
        if let Some(columns) = self.columns.get(&(leader, first, begin)) {
            return columns.get(column).copied();
        }
        let live = self.live_in(mem.scalar(), k);
        let rows = (0..mem.per_part()).map(|j| {
            let mut all = None;
            for (part, row) in self.rows(mem, j, live) {
                let from = self.walking(Pointer::Load(leader), mem, stride, first + row)?.behind(begin, mem)?;
                all = Some(match all {
                    None => self.load_at(Code::VEX_Vmovups_xmm_xmmm128, from, true),
                    Some(all) => self.insert_part(all, from, part),
                });
            }
            Some(all.unwrap_or_else(|| self.constant(mem.scalar(), 0)))
        });
        let rows: Vec<Reg> = rows.collect::<Option<_>>()?;
        let columns = self.transpose(mem.scalar(), &rows)?;
        self.columns.insert((leader, first, begin), columns.clone());
        columns.get(column).copied()
    }

    /// Stores vectors side by side: an element of each, then the next one of each.
    pub(super) fn store_transposed(&mut self, p: Pointer, mem: Mem, vector: i64, v: &[&[Reg]]) -> Option<()> {
        let (stride, each) = (v.len() as i64, mem.per_part());
        for begin in parts(mem, stride) {
            for k in 0..count(mem.scalar()) {
                let first = vector * self.vector + k as i64 * (self.vector / count(mem.scalar()) as i64);
                let columns = v.get(begin as usize..(begin + each) as usize)?;
                let columns: Vec<Reg> = columns.iter().map(|v| v.get(k).copied()).collect::<Option<_>>()?;
                let rows = self.transpose(mem.scalar(), &columns)?;
                let live = self.live_in(mem.scalar(), k as i64);
                for (j, r) in (0..).zip(rows) {
                    for (part, row) in self.rows(mem, j, live) {
                        let to = self.walking(p, mem, stride, first + row)?.behind(begin, mem)?;
                        self.store_part(to, r, part);
                    }
                }
            }
        }
        Some(())
    }

    /// The parts of register `j` of those that are transposed together, and the row that each is of, of as many as are `live`.
    fn rows(&self, mem: Mem, j: i64, live: i64) -> impl Iterator<Item = (u8, i64)> + use<> {
        let each = mem.per_part();
        let parts = i64::from(self.width.bytes()) / PART;
        (0..parts as u8).map(move |part| (part, i64::from(part) * each + j)).filter(move |&(_, row)| row < live)
    }

    /// Transposes each part of registers, of which there are as many as a part has elements.
    fn transpose(&mut self, scalar: ScalarType, rows: &[Reg]) -> Option<Vec<Reg>> {
        use Code::*;
        let mut both = |low, high, a, b| [self.plain(low, &[a, b]), self.plain(high, &[a, b])];
        match (scalar.bits(), rows) {
            (64, &[a, b]) => Some(both(VEX_Vunpcklpd_ymm_ymm_ymmm256, VEX_Vunpckhpd_ymm_ymm_ymmm256, a, b).to_vec()),
            (32, &[a, b, c, d]) => {
                let [ab_low, ab_high] = both(VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256, a, b);
                let [cd_low, cd_high] = both(VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256, c, d);
                let halves = [(ab_low, cd_low), (ab_high, cd_high)]
                    .map(|(a, b)| both(VEX_Vunpcklpd_ymm_ymm_ymmm256, VEX_Vunpckhpd_ymm_ymm_ymmm256, a, b));
                Some(halves.concat())
            }
            _ => None,
        }
    }
}
