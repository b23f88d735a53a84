//! The copy of large arrays.
//!
//! A loop of stores reads every line that it is about to overwrite. The machine's own instruction knows that it writes whole
//! lines and reads none of them, which saves a third of the traffic with memory.

use super::asm::{Assembled, Assembler};
use crate::error::Result;
use iced_x86::{Code, Instruction, Register};

/// `fn(to: *mut u8, from: *const u8, bytes: i64)`; the two do not overlap.
///
/// # Errors
/// [`crate::Error::Internal`] where an instruction cannot be encoded.
pub fn function() -> Result<Assembled> {
    let mut a = Assembler::new();
    a.put(Instruction::with2(Code::Mov_r64_rm64, Register::RCX, Register::RDX));
    a.put(Instruction::with_rep_movsb(64));
    a.plain(Code::Retnq);
    a.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bytes_are_those_of_the_manual() {
        let code = super::function().map(|f| f.code).unwrap_or_default();
        assert_eq!(code, [0x48, 0x8b, 0xca, 0xf3, 0xa4, 0xc3], "mov rcx, rdx; rep movsb; ret");
    }
}
