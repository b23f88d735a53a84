//! Row loops in 256-bit registers: machine code for x86-64 with AVX2, which CLIF has no types for.
//!
//! **Problem.** CLIF ends at 128 bits, and a loop that computes is twice as slow as the machine allows. The body of a row
//! loop is straight-line, without a call and without a trap, so that encoding it takes no compiler.
//!
//! **Invariant.** A turn computes what the 128-bit loop computes for the same elements: the same operations with the same
//! roundings, each element of a reduction in the same lane. What has no 256-bit form here leaves the whole row to CLIF.
//!
//! **Algorithm.** [`select`] writes a turn of the loop (blocks of eight elements) in instructions over virtual registers,
//! [`table`] knowing the instruction of each operation, [`strided`] that of elements which do not lie side by side, [`tile`] those
//! of a square that is turned. [`allocate`] gives them the sixteen registers, the value that is
//! needed last giving way; constants and what is the same along the row lie in memory and are operands from there, and
//! those used most stay in the registers that are left over. [`check`] replays the result, in release builds too, and trusts
//! none of it. [`encode`] makes bytes of it: a function
//! `fn(frame: *mut u8, begin: i64, end: i64)`, constants behind its last instruction. The frame, which
//! `nest/wide_rows.rs` fills, holds accumulators, spread values, pointers, and room for spilled registers.

mod allocate;
mod check;
mod encode;
mod select;
mod strided;
mod table;
mod tile;

pub use select::Pointer;
pub use tile::tile_of;

use super::rows::RowLoop;
use crate::codegen::x86::asm::Assembled;
use crate::kernel::body::NodeId;
use crate::kernel::ir::Nest;

/// Elements of a block.
pub const BLOCK: i64 = 8;

/// Bytes of a register.
const REGISTER: u32 = 32;

/// A virtual register: eight elements of 32 bits, or four of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reg(u32);

/// The finished function, and what its frame holds.
#[derive(Clone)]
pub struct WideFunction {
    /// Machine code, constants at its end.
    pub code: Assembled,
    /// Where things lie.
    pub frame: Frame,
}

/// The function that runs whole turns of a row, of [`RowLoop::wide_turn`] elements each; `None` where some part has no form here.
///
/// # Errors
/// What the checker finds wrong with the allocation, in words.
pub fn row_function(nest: &Nest, row: &RowLoop<'_>, fma: bool) -> Result<Option<WideFunction>, String> {
    finished(select::select(nest, row, fma), row.wide_turn())
}

/// The function that runs a stage that is a tile ([`tile_of`]), called once with the whole vector axis; the plan is along both its
/// axes. `None` where some part has no form here.
///
/// # Errors
/// What the checker finds wrong with the allocation, in words.
pub fn tile_function(nest: &Nest, row: &RowLoop<'_>, fma: bool) -> Result<Option<WideFunction>, String> {
    finished(tile::select(nest, row, fma), row.stage.vector.extent)
}

/// Registers and bytes for what was selected, a turn of `elements`.
fn finished(selected: Option<(select::Turn, Frame)>, elements: i64) -> Result<Option<WideFunction>, String> {
    let Some((code, mut frame)) = selected else { return Ok(None) };
    let allocated = allocate::allocate(&code, &mut frame);
    check::check(&code, &allocated, &frame)?;
    let code = encode::function(&allocated, &code, &frame, elements).map_err(|e| e.message())?;
    Ok(code.map(|code| WideFunction { code, frame }))
}

/// What a frame holds, in this order: accumulators and spread values (a register each), pointers, spilled registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Registers of accumulators.
    pub accumulators: u32,
    /// Values that are the same along the row, each in every element of a register.
    pub uniforms: Vec<NodeId>,
    /// Pointers to element 0 of the row.
    pub pointers: Vec<Pointer>,
    /// Spilled registers.
    pub spills: u32,
}

impl Frame {
    /// Offset of a register of the accumulators.
    pub fn accumulator(&self, k: u32) -> u32 {
        k * REGISTER
    }

    /// Offset of a spread value.
    pub fn uniform(&self, k: u32) -> u32 {
        self.accumulator(self.accumulators) + k * REGISTER
    }

    /// Offset of a pointer.
    pub fn pointer(&self, k: u32) -> u32 {
        self.uniform(self.uniforms.len() as u32) + 8 * k
    }

    fn spill(&self, k: u32) -> u32 {
        self.pointer(self.pointers.len() as u32).next_multiple_of(REGISTER) + k * REGISTER
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u32 {
        self.spill(self.spills)
    }
}
