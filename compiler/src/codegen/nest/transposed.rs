//! Rows a few elements long that lie one behind the other, each in a lane of its own, as in [`wide`](crate::codegen::wide): what fills 128
//! bits of a row goes to and from memory together, and is transposed in registers.

use super::elements::Elements;
use super::{Address, near};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Val, clif_vector, flags};
use crate::codegen::rows::{Access, Part, parts};
use crate::codegen::vector::Storing;
use crate::kernel::body::{Mem, NodeId};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Elements<'_, '_, '_, '_, '_> {
    /// A vector of an element of each row; `None` where that has too few neighbours, or the machine no vectors.
    pub(super) fn load_transposed(&mut self, id: NodeId, access: &Access) -> Option<Val> {
        let (Part { leader, begin, column }, stride) = (self.row.part(id)?, access.walk.stride()?);
        if !self.nest.lanes.has_vectors() {
            return None;
        }
        let key = (leader, begin);
        if !self.columns.contains_key(&key) {
            let start = *self.live.loads.get(&leader)?;
            let (mem, ty) = (access.mem, clif_vector(access.mem.scalar()));
            let start = self.behind(start, begin * mem.bytes())?;
            let loaded = |this: &mut Self, e| {
                let place = this.walked(start, mem.bytes() * stride, e);
                this.nest.b().ins().load(ty, flags(), place.base, place.offset)
            };
            let rows = [0, 1, 2, 3].map(|e| loaded(self, e));
            let columns = self.transposed(mem, rows);
            self.columns.insert(key, columns);
        }
        self.columns.get(&key)?.get(column).copied()
    }

    /// Stores vectors side by side: an element of each, then the next one of each. How many stores behind that is; `None` where they are not
    /// so many, or the machine has no vectors.
    pub(super) fn store_transposed(&mut self, s: &Storing<'_, Val>, start: Option<Address>) -> Option<usize> {
        let (mem, count) = (s.access.mem, self.row.woven(s.number));
        if !self.nest.lanes.has_vectors() || !mem.fills_part(count as i64) {
            return None;
        }
        let behind = s.behind.get(..count - 1)?.iter().copied();
        let all: Vec<Val> = [Some(*s.value)].into_iter().chain(behind).collect::<Option<_>>()?;
        for begin in parts(mem, count as i64) {
            let start = self.behind(start?, begin * mem.bytes())?;
            let rows = self.rows_of(all.get(begin as usize..(begin + mem.per_part()) as usize)?)?;
            for (e, r) in (0..).zip(rows) {
                let place = self.walked(start, mem.bytes() * count as i64, e);
                self.nest.b().ins().store(flags(), r, place.base, place.offset);
            }
        }
        Some(count - 1)
    }

    /// A start so many bytes behind another, where that may stand in an instruction.
    fn behind(&self, start: Address, bytes: i64) -> Option<Address> {
        Some(Address { offset: near(i64::from(start.offset) + bytes)?, ..start })
    }

    /// Parts of four rows, as a vector of each of their columns.
    fn transposed(&mut self, mem: Mem, rows: [Value; 4]) -> Vec<Val> {
        let lanes = &mut self.nest.lanes;
        if mem.bytes() == 4 {
            return lanes.transpose(rows).map(Val::Four).to_vec();
        }
        let [a, b, c, d] = rows;
        let (low, high) = (lanes.transpose_pair(a, b), lanes.transpose_pair(c, d));
        vec![Val::Pair([low[0], high[0]]), Val::Pair([low[1], high[1]])]
    }

    /// As many vectors as a part of 128 bits has elements, as the part of each row.
    fn rows_of(&mut self, columns: &[Val]) -> Option<[Value; 4]> {
        let lanes = &mut self.nest.lanes;
        match *columns {
            [Val::Four(a), Val::Four(b), Val::Four(c), Val::Four(d)] => Some(lanes.transpose([a, b, c, d])),
            [Val::Pair(a), Val::Pair(b)] => {
                let [low, high] = [0, 1].map(|k| lanes.transpose_pair(a[k], b[k]));
                Some([low[0], low[1], high[0], high[1]])
            }
            _ => None,
        }
    }
}
