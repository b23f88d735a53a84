//! Row loops in registers of 256 and 512 bits: machine code for x86-64 with AVX2 or AVX-512, which CLIF has no types for.
//!
//! **Problem.** CLIF ends at 128 bits, and a loop that computes is two or four times as slow as the machine allows. The body of
//! a row loop is straight-line, without a call and without a trap, so that encoding it takes no compiler.
//!
//! **Invariant.** An iteration computes what the 128-bit loop computes for the same elements: the same operations with the same
//! roundings, each element of a reduction in the same lane. What has no form of 512 bits here is tried in 256, and what has none
//! there leaves the whole row to CLIF; the division of 64-bit integers, which no register does, goes element by element.
//!
//! **Algorithm.** [`select`] writes an iteration of the loop (vectors of eight or sixteen elements) in instructions over virtual
//! registers, asked by the traversal that CLIF follows too ([`elements`]), operation by operation ([`operations`], and [`composed`] where
//! one takes several instructions); [`strided`] knows elements which do not lie side by side, [`transposed`] rows of a few of
//! them, [`words`] how narrow elements lie in wider ones, [`gathered`] elements that each have an index, [`single`] how such go one
//! by one, [`parts`] registers in parts of 128 bits, [`tile`] a square that is turned, [`ends`] what the lanes of a reduction become. It names
//! the instructions of AVX2 ([`table`]); for 512 bits each becomes the one that does
//! the same on a register twice as wide, and what AVX-512 does in another way, with truth values in mask registers above all, stands in
//! [`masked`]. [`allocate`] gives them the sixteen or thirty-two registers, evicting the value whose next use is furthest
//! (Belady); constants and what is the same along the row lie in memory and are operands from there, and
//! those used most stay in the registers that are left over. [`check`] replays the result, in release builds too, and trusts
//! none of it. [`encode`] makes bytes of it: a function
//! `fn(frame: *mut u8, begin: i64, end: i64)`, constants behind its last instruction. The frame, which
//! `nest/wide_rows.rs` fills, holds accumulators, broadcast values, pointers, and room for spilled registers.

mod allocate;
mod check;
mod composed;
mod elements;
mod encode;
mod ends;
mod gathered;
mod masked;
mod operations;
mod parts;
mod select;
mod shuffled;
mod single;
mod strided;
mod table;
mod tile;
mod transposed;
mod words;

pub use select::{Pointer, Uniform};
pub use tile::tile_of;

use super::rows::{RowLoop, Segment, Width};
use crate::codegen::x86::asm::Assembled;
use crate::kernel::index::Ix;
use crate::kernel::ir::Nest;

impl Width {
    /// Bytes of a register.
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Words of 64 bits in a register.
    const fn words(self) -> usize {
        self.bits() as usize / 64
    }

    /// Machine registers of that width.
    const fn registers(self) -> usize {
        match self {
            Width::W256 => 16,
            Width::W512 => 32,
        }
    }
}

/// A virtual register: as many elements of 32 or 64 bits as the width has, or with 512 bits a truth value for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reg(u32);

/// Numbers of machine registers from here on are those of masks; of `k0` and those after it, the first cannot choose elements.
const FIRST_MASK: u8 = 32;
/// The number behind the last mask register.
const MASKS_END: u8 = FIRST_MASK + 8;

/// The finished function, and what its frame holds.
#[derive(Clone)]
pub struct WideFunction {
    /// Machine code, constants at its end.
    pub code: Assembled,
    /// Where things lie.
    pub frame: Frame,
}

/// The function that runs a segment of a row; `None` where some part has no form of that width.
///
/// # Errors
/// What the checker finds wrong with the allocation, in words.
pub fn row_function(
    nest: &Nest,
    row: &RowLoop<'_>,
    segment: &Segment,
    width: Width,
    fma: bool,
) -> Result<Option<WideFunction>, String> {
    finished(select::select(nest, row, segment, width, fma)?, segment.iteration)
}

/// The function that runs a stage that is a tile ([`tile_of`]), called with the whole vector axis; the plan is along both its
/// axes. `past` the caches it stores only to buffers that start on a line. `None` where some part has no form of that width.
///
/// # Errors
/// What the checker finds wrong with the allocation, in words.
pub fn tile_function(
    nest: &Nest,
    row: &RowLoop<'_>,
    width: Width,
    fma: bool,
    past: bool,
) -> Result<Option<WideFunction>, String> {
    finished(tile::select(nest, row, (width, fma), past)?, row.stage.vector.extent)
}

/// Registers and bytes for what was selected, iterations of so many elements.
fn finished(selected: select::Selected, elements: i64) -> Result<Option<WideFunction>, String> {
    let Some((iterations, mut frame)) = selected else { return Ok(None) };
    let mut placed = |iteration: &Option<select::Iteration>| {
        iteration.as_ref().map(|iteration| allocate::allocate(iteration, &mut frame))
    };
    let (whole, rest, end) = (placed(&iterations.whole), placed(&iterations.rest), placed(&iterations.end));
    let whole = iterations.whole.as_ref().zip(whole.as_ref());
    let rest = iterations.rest.as_ref().zip(rest.as_ref());
    let end = iterations.end.as_ref().zip(end.as_ref());
    for (iteration, allocated) in whole.into_iter().chain(rest).chain(end) {
        check::check(iteration, allocated, &frame)?;
    }
    let parts = encode::Parts { whole, rest, end, steps: &iterations.steps };
    let code = encode::function(&parts, &frame, elements).map_err(|e| e.message())?;
    Ok(code.map(|code| WideFunction { code, frame }))
}

/// What a frame holds, in this order: accumulators and broadcast values (a register each), pointers, spilled registers,
/// what is divided element by element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What a register is.
    pub width: Width,
    /// Registers of accumulators.
    pub accumulators: u32,
    /// Whether accumulators start from their identities, and the frame has them at the end alone.
    pub identities: bool,
    /// Where at the end each component of each accumulator lies, what all of its lanes are together in the first lane of 128 bits; nothing
    /// where lanes are left to the caller.
    pub ends: Vec<u32>,
    /// Values that are the same along the row, each in every element of a register.
    pub uniforms: Vec<Uniform>,
    /// Which of them instructions take from there, a register's worth; of the others one word is read.
    pub whole: Vec<bool>,
    /// Pointers to element 0 of the row.
    pub pointers: Vec<Pointer>,
    /// What indices that differ along the row count from.
    pub anchors: Vec<Anchor>,
    /// Spilled registers.
    pub spills: u32,
    /// Whether there is room for the elements of a division, which go one by one: of what is divided, by what, and what that gives.
    pub divides: bool,
}

/// An element, of so many bytes, of a buffer of the kernel, by an index that is the same along the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The buffer.
    pub buffer: u32,
    /// Bytes of an element.
    pub bytes: i64,
    /// Its index.
    pub index: Ix,
}

impl Frame {
    /// A frame of nothing.
    fn new(width: Width) -> Frame {
        let (uniforms, whole, pointers, anchors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (identities, divides) = (false, false);
        let ends = Vec::new();
        Frame { width, accumulators: 0, identities, ends, uniforms, whole, pointers, anchors, spills: 0, divides }
    }

    /// Offset of a register of the accumulators.
    pub fn accumulator(&self, k: u32) -> u32 {
        k * self.width.bytes()
    }

    /// Whether something is left in a register of the accumulators at the end.
    fn keeps_accumulator(&self, k: u32) -> bool {
        let held = self.accumulator(k)..self.accumulator(k + 1);
        self.ends.is_empty() || self.ends.iter().any(|end| held.contains(end))
    }

    /// Offset of a broadcast value.
    pub fn uniform(&self, k: u32) -> u32 {
        self.accumulator(self.accumulators) + k * self.width.bytes()
    }

    /// Whether a register's worth of a broadcast value is read; [`allocate`] says it.
    pub fn is_whole(&self, k: u32) -> bool {
        self.whole.get(k as usize).is_some_and(|&whole| whole)
    }

    /// Offset of a pointer.
    pub fn pointer(&self, k: u32) -> u32 {
        self.uniform(self.uniforms.len() as u32) + 8 * k
    }

    fn spill(&self, k: u32) -> u32 {
        self.pointer(self.pointers.len() as u32).next_multiple_of(self.width.bytes()) + k * self.width.bytes()
    }

    /// Offset of one of the three registers of a division.
    fn divided(&self, k: u32) -> u32 {
        self.spill(self.spills + k)
    }

    /// Offset of the general register that is kept meanwhile.
    fn kept(&self) -> u32 {
        self.divided(if self.divides { 3 } else { 0 })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u32 {
        self.kept() + if self.divides { 8 } else { 0 }
    }
}
