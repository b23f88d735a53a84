//! Bytes and halfwords a few apart, not whole words: shuffled out of parts of 128 bits.
//!
//! **Problem.** One by one, each would take an instruction to get into a register; the colours of pixels, three bytes each, lie so.
//!
//! **Invariant.** Nothing is read that the elements of a vector do not have between them.
//!
//! **Algorithm.** Four elements that lie in 16 bytes are loaded with them, into the part of the register that has their lanes; what would
//! end behind the last element of the vector begins earlier. One shuffle moves the bytes of all to where they belong. Loads near each
//! other share the registers where all their elements lie in the 16 bytes.

use super::Reg;
use super::select::{Pointer, Selector};
use crate::codegen::rows::{VECTOR, lies_in_part};
use crate::kernel::body::{Mem, NodeId};
use iced_x86::Code;

/// A byte that becomes zero.
const NOTHING: u64 = 0x80;

impl Selector<'_> {
    /// A vector of narrow elements, from `first` of the iteration on; `None` where they are not worth a shuffle.
    pub(super) fn load_shuffled(&mut self, id: NodeId, mem: Mem, first: i64, stride: i64) -> Option<Reg> {
        let near = self.row.near.get(&id).filter(|near| lies_in_part(mem, stride, near.span));
        let (leader, behind, span) = near.map_or((id, 0, 0), |near| (near.leader, near.behind, near.span));
        let (bytes, part) = (mem.bytes(), mem.per_part());
        let end = (self.vector - 1) * stride + span + 1;
        if !lies_in_part(mem, stride, span) || end < part {
            return None;
        }
        let begin = move |at: i64| (at * VECTOR * stride).min(end - part);
        let r = match self.shuffled.get(&(leader, first)) {
            Some(&r) => r,
            None => {
                let start = self.walking(Pointer::Load(leader), mem, stride, first)?;
                let mut r = self.load_at(Code::VEX_Vmovups_xmm_xmmm128, start, true);
                for at in 1..self.vector / VECTOR {
                    r = self.insert_part(r, start.behind(begin(at), mem)?, at as u8);
                }
                self.shuffled.insert((leader, first), r);
                r
            }
        };
        // An element is the low end of its lane, or the high end of one that is then moved down with its sign.
        let scalar = |e: i64| {
            let from = (e * stride + behind - begin(e / VECTOR)) * bytes;
            let above = 4 - bytes;
            (0..4i64).fold(0, |scalar, byte| {
                let own = if mem.is_signed() { byte - above } else { byte };
                let from = if (0..bytes).contains(&own) { (from + own) as u64 } else { NOTHING };
                scalar | from << (8 * byte)
            })
        };
        let order = self.elements(|word| scalar(2 * word as i64) | scalar(2 * word as i64 + 1) << 32);
        let lanes = self.plain(Code::VEX_Vpshufb_ymm_ymm_ymmm256, &[r, order]);
        let above = 32 - 8 * bytes as u8;
        Some(if mem.is_signed() { self.with_imm(Code::VEX_Vpsrad_ymm_ymm_imm8, &[lanes], above) } else { lanes })
    }
}
