//! Bytes and halfwords in words: rows of narrow elements that lie some words of 32 bits apart, and what lies between them.
//!
//! One by one, each would take an instruction to get into a register and one to get out of it. What lies in one word comes out of a
//! register of words by a shift, and goes into one in the same way.
//!
//! Nothing is read that the rows do not have together, and nothing is written.

use super::Reg;
use super::select::{Pointer, Selector, Vector};
use super::strided::{Apart, nearest};
use crate::codegen::rows::{Near, words};
use crate::kernel::body::{Mem, NodeId, Op, ScalarType};
use iced_x86::Code;

/// Bytes of a word.
const WORD: i64 = 4;

/// The last word of an element that loads near each other have all of.
fn last_word(near: &Near, mem: Mem) -> i64 {
    (near.span + 1) * mem.bytes() / WORD - 1
}

impl Selector<'_> {
    /// Whether narrow elements lie in words that loads near each other have together, not too far apart.
    pub(super) fn lies_in_words(&self, id: NodeId, mem: Mem, stride: i64) -> bool {
        let whole = |near: &Near| near.behind * mem.bytes() / WORD <= last_word(near, mem);
        self.are_words_near(mem, stride) && self.row.near.get(&id).is_some_and(whole)
    }

    /// Whether elements of a stride lie so few words apart that it pays to take apart registers of all between them.
    pub(super) fn are_words_near(&self, mem: Mem, stride: i64) -> bool {
        words(mem, stride).is_some_and(|apart| apart <= nearest(Mem::I32, self.width))
    }

    /// A vector of such elements.
    pub(super) fn load_of_words(&mut self, id: NodeId, mem: Mem, first: i64, stride: i64) -> Option<Reg> {
        let apart = words(mem, stride)?;
        let near = self.row.near.get(&id)?;
        let (leader, last) = (near.leader, last_word(near, mem));
        let (word, byte) = (near.behind * mem.bytes() / WORD, near.behind * mem.bytes() % WORD);
        let r = match self.words.get(&(leader, first, word)) {
            Some(&r) => r,
            None => {
                let of = Apart { leader, mem: Mem::I32, stride: apart, behind: word, span: last };
                let r = self.load_apart(&of, first)?;
                self.words.insert((leader, first, word), r);
                r
            }
        };
        let (below, above) = (8 * byte as u8, (8 * (WORD - byte - mem.bytes())) as u8);
        let shifted = |s: &mut Self, code, r, by| if by == 0 { r } else { s.with_imm(code, &[r], by) };
        if mem.is_signed() {
            let up = shifted(self, Code::VEX_Vpslld_ymm_ymm_imm8, r, above);
            return Some(shifted(self, Code::VEX_Vpsrad_ymm_ymm_imm8, up, above + below));
        }
        let down = shifted(self, Code::VEX_Vpsrld_ymm_ymm_imm8, r, below);
        if above == 0 { Some(down) } else { self.narrowest(mem, down) }
    }

    /// Vectors of narrow elements stored side by side: an element of each, then the next one of each.
    pub(super) fn store_in_words(&mut self, p: Pointer, mem: Mem, vector: i64, v: &[&[Reg]]) -> Option<()> {
        let each = (WORD / mem.bytes()) as usize;
        let mut all: Vec<Vector> = Vec::new();
        for part in v.chunks(each) {
            let mut word = None;
            for (k, v) in (0..).zip(part) {
                let mut r = *v.first()?;
                if mem.is_signed() && k + 1 < each {
                    r = self.narrowest(mem, r)?;
                }
                if k > 0 {
                    r = self.with_imm(Code::VEX_Vpslld_ymm_ymm_imm8, &[r], (8 * mem.bytes()) as u8 * k as u8);
                }
                word = Some(match word {
                    None => r,
                    Some(lower) => self.each(&Op::Or, false, lower, r)?,
                });
            }
            all.push(Vector::from_slice(&[word?]));
        }
        let all: Vec<&[Reg]> = all.iter().map(Vector::as_slice).collect();
        self.store_beside(p, (Mem::I32, ScalarType::I32), vector, &all)?.then_some(())
    }

    /// The bits that a narrow element has, of each word.
    fn narrowest(&mut self, mem: Mem, r: Reg) -> Option<Reg> {
        let ones = self.constant(ScalarType::I32, u64::MAX >> (64 - 8 * mem.bytes()));
        self.each(&Op::And, false, r, ones)
    }
}
