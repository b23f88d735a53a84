//! The register tile of contractions, in registers of 256 and 512 bits.
//!
//! **Problem.** `c[m, n] (+)= a[m, k] * b[k, n]` at the rate of the multipliers: as many sums in registers as there is room
//! for, few loads, no decision inside.
//!
//! **Invariant.** Every element of `c` is one chain of fused multiply-adds, or of sums of four products of bytes or two of halves
//! (`vpdpbusd`, `vpmaddwd`, which wrap) or of two products of `bf16` (`vdpbf16ps`, or multiply-adds of the halves where the call says that
//! what is subnormal counts), in ascending `k` that starts from 0, to which what is there is added at the end, as in CLIF's tile
//! ([`crate::codegen::tile`], whose parameters it has): neither the registers nor the cut of rows and columns change a bit of
//! it.
//!
//! **Algorithm.** A program knows all its blocks ([`Blocks`]). For each, the columns are cut into
//! strips of whole registers, the last under a mask, the rows into equal parts whose sums fill the register file; few rows
//! take wider strips instead, for one row of one register would wait for every product. Parts of the same form are one
//! subroutine ([`Micro`]), which all blocks share.

mod form;

use super::asm::{Assembled, Assembler, Label, Refer, indexed, memory, there};
use crate::error::Result;
use crate::kernel::ir::Product;
use form::{Codes, HALVES, Halves, Step};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub use form::Form;

/// The blocks that a tile is called with.
pub type Blocks = BTreeSet<Block>;

/// A block of a product, as the tile goes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Rows of the left operand.
    pub rows: i64,
    /// Columns of the right one.
    pub columns: i64,
    /// Which rows lie apart.
    pub apart: Apart,
    /// Whether the columns are packed on the way: the call says where to. What is packed follows each other.
    pub packs: bool,
    /// Where the rows are taken from.
    pub left: Left,
}

/// Where the rows of a block are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// From where they lie.
    #[default]
    Lies,
    /// From where they lie, and they are packed on the way, for calls with other columns.
    Packs,
    /// From where another call packed them: the elements that a step takes of a part's rows follow each other, then come those of the
    /// next step, then the next part.
    Packed,
}

/// Rows of operands so far from each other that the machine's own prefetchers, which look no further than a page, make nothing of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Apart {
    /// Of the left operand: at least [`APART_LEFT`] bytes.
    pub left: bool,
    /// Of the right one: at least [`APART_RIGHT`] bytes.
    pub right: bool,
}

impl Apart {
    /// Of operands from one row of which to the next are so many bytes.
    pub fn of(left: i64, right: i64) -> Apart {
        Apart { left: left >= APART_LEFT, right: right >= APART_RIGHT }
    }
}

/// Columns of a packed panel of the right operand, in bytes: two of the widest registers.
pub const PANEL_BYTES: i64 = 128;

/// Half a page, in bytes: each row of a part is in a page of its own.
const APART_LEFT: i64 = 2048;
/// In bytes. Right operands of shorter rows are mostly small, and stay where they are fast.
const APART_RIGHT: i64 = 512;

/// A parameter on the stack.
fn parameter(n: i64) -> MemoryOperand {
    memory(Register::RSP, PARAMETERS + 8 * n)
}

/// What lies in the frame, as a subroutine finds it: its return address lies above.
fn slot_inside(at: i64) -> MemoryOperand {
    memory(Register::RSP, at + 8)
}

/// A parameter on the stack, likewise.
fn parameter_inside(n: i64) -> MemoryOperand {
    slot_inside(PARAMETERS + 8 * n)
}

/// What a subroutine computes: rows, registers of columns, the last of them under the mask, of operands whose rows lie apart
/// or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Micro {
    rows: i64,
    registers: i64,
    masked: bool,
    apart: Apart,
    packs: bool,
    left: Left,
    /// Whether words of `bf16` are multiplied half by half.
    halves: bool,
}

// Parameters, in bytes where they are strides; the subroutines keep them.
const K: Register = Register::RDI;
const A_ROW: Register = Register::RDX;
const A_K: Register = Register::RCX;
const B: Register = Register::R8;
const B_K: Register = Register::R9;
const C_ROW: Register = Register::RBP;
// Where the rows of a part start.
const A_PART: Register = Register::R12;
const C_PART: Register = Register::RBX;
// The subroutines' own: every third row of `a`, a row of `b`, a counter or a row of `c`.
const A_ROWS: [Register; 4] = [Register::RSI, Register::R11, Register::R13, Register::R14];
const B_NOW: Register = Register::R10;
const LEFT: Register = Register::RAX;
// What is asked for ahead, and the steps to the end of a line; the latter in a parameter's place, which is fetched again.
const AHEAD: Register = Register::R15;
const IN_LINE: Register = C_ROW;
// Where a row of `b` is packed to, likewise in a parameter's place; where elements of `a` are.
const PACK: Register = K;
const PACK_LEFT: Register = A_PART;

const SAVED: [Register; 6] = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

// The frame: parts left, strips left, `a`, `c` of the strip, the mask of 256-bit forms; of what is packed where the strip goes, and
// what its parameters were; where a part of `a` goes, and where it lies; unfinished sums of the strip, those of a part, their row stride.
const FRAME: i32 = 144;
const PARTS: i64 = 0;
const STRIPS: i64 = 8;
const A_START: i64 = 16;
const C_STRIP: i64 = 24;
const MASK: i64 = 32;
const PACKED: i64 = 64;
const KEPT_K: i64 = 72;
const KEPT_B: i64 = 80;
const KEPT_B_K: i64 = 88;
const KEPT_C: i64 = 96;
const PACKED_LEFT: i64 = 104;
const KEPT_A: i64 = 112;
const FROM_STRIP: i64 = 120;
const FROM_PART: i64 = 128;
const FROM_ROW: i64 = 136;
/// Parameters on the stack: `c`, its row stride, `m`, `n`, unfinished sums, their row stride, where to pack columns, where rows are packed.
const PARAMETERS: i64 = FRAME as i64 + 8 * SAVED.len() as i64 + 8;
const C_ROW_PARAMETER: i64 = 1;
const FROM_PARAMETER: i64 = 4;
const FROM_ROW_PARAMETER: i64 = 5;
const PACK_PARAMETER: i64 = 6;
const PACK_LEFT_PARAMETER: i64 = 7;
/// Of `bf16`: whether what is subnormal counts.
const SUBNORMAL_PARAMETER: i64 = 8;

/// Parts of fewer rows ask for nothing ahead: what they read of `a` is little.
const ROWS_AHEAD: i64 = 4;

/// The mask of 256-bit forms, where it stays in a register.
const MASK_REGISTER: Register = Register::YMM15;

/// A tile for the given blocks; a call with others traps.
///
/// # Errors
/// [`crate::Error::Internal`] where an instruction cannot be encoded.
pub fn function(form: Form, blocks: &Blocks) -> Result<Assembled> {
    let mut w = Writer { a: Assembler::new(), form, codes: form.codes(), micros: BTreeMap::new() };
    w.tile(blocks);
    w.a.finish()
}

struct Writer {
    a: Assembler,
    form: Form,
    codes: Codes,
    micros: BTreeMap<Micro, Label>,
}

impl Writer {
    fn fetch(&mut self, to: Register, from: MemoryOperand) {
        self.a.put(Instruction::with2(Code::Mov_r64_rm64, to, from));
    }

    fn keep(&mut self, to: MemoryOperand, from: Register) {
        self.a.put(Instruction::with2(Code::Mov_rm64_r64, to, from));
    }

    fn set(&mut self, to: Register, from: Register) {
        self.a.put(Instruction::with2(Code::Mov_r64_rm64, to, from));
    }

    fn add(&mut self, to: Register, what: Register) {
        self.a.put(Instruction::with2(Code::Add_r64_rm64, to, what));
    }

    fn tile(&mut self, blocks: &Blocks) {
        for r in SAVED {
            self.a.put(Instruction::with1(Code::Push_r64, r));
        }
        self.a.put(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, FRAME));
        let inside = self.a.frame();
        self.fetch(C_PART, parameter(0));
        self.fetch(C_ROW, parameter(C_ROW_PARAMETER));
        let shift = self.form.bytes().ilog2();
        for stride in [A_ROW, A_K, B_K, C_ROW] {
            self.a.put(Instruction::with2(Code::Shl_rm64_imm8, stride, shift));
        }
        self.keep(memory(Register::RSP, A_START), Register::RSI);
        self.keep(memory(Register::RSP, C_STRIP), C_PART);
        self.fetch(LEFT, parameter(FROM_PARAMETER));
        self.keep(memory(Register::RSP, FROM_STRIP), LEFT);
        self.fetch(LEFT, parameter(FROM_ROW_PARAMETER));
        self.a.put(Instruction::with2(Code::Shl_rm64_imm8, LEFT, shift));
        self.keep(memory(Register::RSP, FROM_ROW), LEFT);
        let (m, n) = (Register::RAX, Register::R10);
        self.fetch(m, parameter(2));
        self.fetch(n, parameter(3));
        let done = self.a.label();
        if self.form.product == Product::Bf16 {
            let whole = self.a.label();
            self.a.put(Instruction::with2(Code::Cmp_rm64_imm8, parameter(SUBNORMAL_PARAMETER), 0));
            self.a.branch(Code::Je_rel32_64, Refer::Label(whole));
            self.blocks((m, n), (blocks, true), done);
            self.a.bind(whole);
        }
        self.blocks((m, n), (blocks, false), done);
        self.a.bind(done);
        self.a.plain(Code::VEX_Vzeroupper);
        self.a.put(Instruction::with2(Code::Add_rm64_imm32, Register::RSP, FRAME));
        for r in SAVED.into_iter().rev() {
            self.a.put(Instruction::with1(Code::Pop_r64, r));
        }
        self.a.plain(Code::Retnq);
        for (micro, label) in std::mem::take(&mut self.micros) {
            self.a.bind(label);
            self.a.resume(inside.called());
            self.micro(micro);
        }
    }

    /// Finds out which of the blocks a call is for, so many rows and columns, goes through it and on to `done`. Traps where there is none.
    fn blocks(&mut self, (m, n): (Register, Register), (blocks, halves): (&Blocks, bool), done: Label) {
        for &block in blocks {
            let next = self.a.label();
            let unless = |is: bool, yes: Code, no: Code| if is { yes } else { no };
            let mut all = vec![
                (m, block.rows, Code::Jne_rel32_64),
                (n, block.columns, Code::Jne_rel32_64),
                (B_K, APART_RIGHT, unless(block.apart.right, Code::Jl_rel32_64, Code::Jge_rel32_64)),
            ];
            if block.left != Left::Packed {
                all.push((A_ROW, APART_LEFT, unless(block.apart.left, Code::Jl_rel32_64, Code::Jge_rel32_64)));
            }
            for (register, value, other) in all {
                // Extents are those of blocks, far below 2^31.
                self.a.put(Instruction::with2(Code::Cmp_rm64_imm32, register, value as i32));
                self.a.branch(other, Refer::Label(next));
            }
            let zeros = [
                (parameter(PACK_PARAMETER), !block.packs),
                (parameter(PACK_LEFT_PARAMETER), block.left == Left::Lies),
                (memory(Register::RSP, A_START), block.left == Left::Packed),
            ];
            for (value, zero) in zeros {
                self.a.put(Instruction::with2(Code::Cmp_rm64_imm8, value, 0));
                self.a.branch(unless(zero, Code::Jne_rel32_64, Code::Je_rel32_64), Refer::Label(next));
            }
            self.block(block, halves);
            self.a.branch(Code::Jmp_rel32_64, Refer::Label(done));
            self.a.bind(next);
        }
        self.a.plain(Code::Ud2);
    }

    /// Runs `body` so often, counted in the frame.
    fn repeat(&mut self, times: i64, counter: i64, body: &mut dyn FnMut(&mut Self)) {
        let counter = memory(Register::RSP, counter);
        if times > 1 {
            self.a.put(Instruction::with2(Code::Mov_rm64_imm32, counter, times as i32));
        }
        let head = self.a.here();
        body(self);
        if times > 1 {
            self.a.put(Instruction::with1(Code::Dec_rm64, counter));
            self.a.branch(Code::Jne_rel32_64, Refer::Label(head));
        }
    }

    /// Blocks of one kind.
    fn block(&mut self, Block { rows: m, columns: n, apart, packs, left }: Block, halves: bool) {
        let form = self.form;
        if packs {
            self.fetch(A_PART, parameter(PACK_PARAMETER));
            for (slot, register) in [(PACKED, A_PART), (KEPT_K, K), (KEPT_B, B), (KEPT_B_K, B_K)] {
                self.keep(memory(Register::RSP, slot), register);
            }
        }
        for (columns, strips) in form.strips(m, n) {
            let registers = (columns + form.lanes() - 1) / form.lanes();
            let masked = columns % form.lanes() != 0;
            if masked {
                self.mask(columns % form.lanes(), registers);
            }
            self.repeat(strips, STRIPS, &mut |w| {
                if left == Left::Packs {
                    w.fetch(LEFT, parameter(PACK_LEFT_PARAMETER));
                    w.keep(memory(Register::RSP, PACKED_LEFT), LEFT);
                }
                let start =
                    if left == Left::Packed { parameter(PACK_LEFT_PARAMETER) } else { memory(Register::RSP, A_START) };
                w.fetch(A_PART, start);
                w.fetch(C_PART, memory(Register::RSP, C_STRIP));
                w.fetch(LEFT, memory(Register::RSP, FROM_STRIP));
                w.keep(memory(Register::RSP, FROM_PART), LEFT);
                let mut parts = form.parts(m, registers);
                let mut apart = apart;
                if packs && let Some((rows, times)) = parts.first_mut() {
                    w.part(Micro { rows: *rows, registers, masked, apart, packs, left, halves });
                    // The other parts take what the first one packed.
                    w.fetch(B, memory(Register::RSP, PACKED));
                    w.a.put(Instruction::with2(Code::Mov_rm64_imm32, B_K, PANEL_BYTES as i32));
                    (apart.right, *times) = (false, *times - 1);
                }
                for (rows, parts) in parts.into_iter().filter(|&(_, times)| times > 0) {
                    let micro = Micro { rows, registers, masked, apart, packs: false, left, halves };
                    w.repeat(parts, PARTS, &mut |w| w.part(micro));
                }
                let width = (columns * form.bytes()) as i32;
                if packs {
                    w.fetch(B, memory(Register::RSP, KEPT_B));
                    w.fetch(B_K, memory(Register::RSP, KEPT_B_K));
                    for slot in [PACKED, KEPT_B] {
                        w.a.put(Instruction::with2(Code::Add_rm64_imm32, memory(Register::RSP, slot), width));
                    }
                }
                w.a.put(Instruction::with2(Code::Add_rm64_imm32, B, width));
                for slot in [C_STRIP, FROM_STRIP] {
                    w.a.put(Instruction::with2(Code::Add_rm64_imm32, memory(Register::RSP, slot), width));
                }
            });
        }
    }

    /// Calls the subroutine of a part, and goes on to the next.
    fn part(&mut self, mut micro: Micro) {
        if micro.rows < ROWS_AHEAD {
            micro.apart = Apart::default();
        }
        let label = match self.micros.get(&micro) {
            Some(&label) => label,
            None => {
                let label = self.a.label();
                self.micros.insert(micro, label);
                label
            }
        };
        self.a.branch(Code::Call_rel32_64, Refer::Label(label));
        // Of what is packed, a part has all its steps behind each other.
        let left = if micro.left == Left::Packed { (K, micro.rows * self.form.bytes()) } else { (A_ROW, micro.rows) };
        for (start, (stride, times)) in [(A_PART, left), (C_PART, (C_ROW, micro.rows))] {
            self.a.put(Instruction::with3(Code::Imul_r64_rm64_imm32, LEFT, stride, times as i32));
            self.add(start, LEFT);
        }
        let (row, part) = (memory(Register::RSP, FROM_ROW), memory(Register::RSP, FROM_PART));
        self.a.put(Instruction::with3(Code::Imul_r64_rm64_imm32, LEFT, row, micro.rows as i32));
        self.a.put(Instruction::with2(Code::Add_rm64_r64, part, LEFT));
    }

    /// Whether a mask of 256 bits has a register of its own.
    fn mask_stays(registers: i64) -> bool {
        registers <= 2
    }

    /// The mask of so many columns.
    fn mask(&mut self, columns: i64, registers: i64) {
        if self.form.widest {
            self.a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, (1 << columns) - 1));
            self.a.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, Register::K1, Register::EAX));
            return;
        }
        let lanes = (0..self.form.lanes()).flat_map(|lane| {
            let lane: i64 = if lane < columns { -1 } else { 0 };
            lane.to_le_bytes().into_iter().take(self.form.bytes() as usize)
        });
        let constant = self.a.constant(&lanes.collect::<Vec<u8>>());
        self.a.put_at(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, MASK_REGISTER, there()), constant);
        if !Self::mask_stays(registers) {
            let frame = memory(Register::RSP, MASK);
            self.a.put(Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, frame, MASK_REGISTER));
        }
    }

    fn vector(&self, number: i64) -> Register {
        let first = if self.form.widest { Register::ZMM0 } else { Register::YMM0 };
        first + number as u32
    }

    /// The mask for an access of `to`: of 256-bit forms that have no register to spare, in `to` itself.
    fn mask_for(&mut self, micro: Micro, to: Register) -> Register {
        if Self::mask_stays(micro.registers) {
            return MASK_REGISTER;
        }
        self.a.put(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, to, slot_inside(MASK)));
        to
    }

    fn load(&mut self, micro: Micro, v: i64, to: Register, from: MemoryOperand) {
        if !(micro.masked && v + 1 == micro.registers) {
            self.a.put(Instruction::with2(self.codes.load, to, from));
        } else if self.form.widest {
            let load = Instruction::with2(self.codes.masked_load, to, from);
            self.a.put(load.map(|mut load| {
                load.set_op_mask(Register::K1);
                load.set_zeroing_masking(true);
                load
            }));
        } else {
            let mask = self.mask_for(micro, to);
            self.a.put(Instruction::with3(self.codes.masked_load, to, mask, from));
        }
    }

    /// Packs a register of columns, where that is to be done. Behind the last column, zeros are packed.
    fn pack(&mut self, micro: Micro, v: i64, from: Register) {
        if micro.packs {
            let to = memory(PACK, v * self.form.register_bytes());
            self.a.put(Instruction::with2(self.codes.store, to, from));
        }
    }

    fn store(&mut self, micro: Micro, v: i64, to: MemoryOperand, from: Register, free: Register) {
        if !(micro.masked && v + 1 == micro.registers) {
            self.a.put(Instruction::with2(self.codes.store, to, from));
        } else if self.form.widest {
            let store = Instruction::with2(self.codes.masked_store, to, from);
            self.a.put(store.map(|mut store| {
                store.set_op_mask(Register::K1);
                store
            }));
        } else {
            let mask = self.mask_for(micro, free);
            self.a.put(Instruction::with3(self.codes.masked_store, to, mask, from));
        }
    }

    /// An element of row `r` of `a` in every lane.
    fn broadcast(&mut self, left: Left, r: i64, to: Register) {
        // At most twelve rows, three to a pointer.
        let row = A_ROWS[(r / 3) as usize % A_ROWS.len()];
        let at = match r % 3 {
            _ if left == Left::Packed => memory(A_ROWS[0], r * self.form.bytes()),
            0 => memory(row, 0),
            n => indexed(row, A_ROW, n as u32, 0),
        };
        self.a.put(Instruction::with2(self.codes.broadcast, to, at));
        if left == Left::Packs {
            let number = to as u32 - self.vector(0) as u32;
            let store = self.codes.store_one;
            self.a.put(Instruction::with2(store, memory(PACK_LEFT, r * self.form.bytes()), Register::XMM0 + number));
        }
    }

    /// Asks for the lines of some bytes behind a pointer.
    fn prefetch(&mut self, code: Code, pointer: Register, bytes: Range<i64>) {
        for at in bytes.step_by(64) {
            self.a.put(Instruction::with1(code, memory(pointer, at)));
        }
    }

    /// Asks for the lines where the sums will lie: rows of a large matrix are pages apart, where no prefetcher of the machine looks,
    /// and the products of a part take longer than memory does.
    fn prefetch_sums(&mut self, Micro { rows, registers, .. }: Micro) {
        self.set(LEFT, C_PART);
        for r in 0..rows {
            self.prefetch(Code::Prefetcht0_m8, LEFT, 0..registers * self.form.register_bytes());
            if r + 1 < rows {
                self.add(LEFT, C_ROW);
            }
        }
    }

    /// Runs `step` for each step of the block. Where rows of `a` lie apart, it asks for those of the next part on the way, a line of
    /// each while this part goes by a line of its own, and for a row of the sums with each; where those of `b` do, for the columns of
    /// the next strip. What the machine's prefetchers know of one page says nothing of the next.
    fn steps(&mut self, Micro { rows, registers, apart, packs, left, .. }: Micro, step: &mut dyn FnMut(&mut Self)) {
        if apart.left {
            self.a.put(Instruction::with3(Code::Imul_r64_rm64_imm32, AHEAD, A_ROW, rows as i32));
            self.add(AHEAD, A_PART);
        }
        self.set(LEFT, K);
        if packs {
            self.fetch(PACK, slot_inside(PACKED));
        }
        if left == Left::Packs {
            self.keep(slot_inside(KEPT_A), A_PART);
            self.fetch(PACK_LEFT, slot_inside(PACKED_LEFT));
        }
        self.set(B_NOW, B);
        let width = registers * self.form.register_bytes();
        let next_strip = |w: &mut Self| {
            if apart.right {
                w.prefetch(Code::Prefetcht1_m8, B_NOW, width..2 * width);
            }
        };
        if !apart.left {
            let head = self.a.here();
            step(self);
            next_strip(self);
            self.a.put(Instruction::with1(Code::Dec_rm64, LEFT));
            self.a.branch(Code::Jne_rel32_64, Refer::Label(head));
            return;
        }
        let line = 64 / self.form.bytes() as i32;
        self.keep(slot_inside(KEPT_C), C_PART);
        let lines = self.a.here();
        self.fetch_c_row();
        self.prefetch(Code::Prefetcht0_m8, C_PART, 0..width);
        self.add(C_PART, C_ROW);
        self.a.put(Instruction::with2(Code::Mov_rm64_imm32, IN_LINE, line));
        self.a.put(Instruction::with2(Code::Cmp_r64_rm64, LEFT, IN_LINE));
        self.a.put(Instruction::with2(Code::Cmovb_r64_rm64, IN_LINE, LEFT));
        self.a.put(Instruction::with2(Code::Sub_r64_rm64, LEFT, IN_LINE));
        let head = self.a.here();
        step(self);
        self.a.put(Instruction::with1(Code::Prefetcht1_m8, memory(AHEAD, 0)));
        next_strip(self);
        self.add(AHEAD, A_ROW);
        self.a.put(Instruction::with1(Code::Dec_rm64, IN_LINE));
        self.a.branch(Code::Jne_rel32_64, Refer::Label(head));
        // Back to the first row, a line further.
        self.a.put(Instruction::with3(Code::Imul_r64_rm64_imm32, IN_LINE, A_ROW, -line));
        self.a.put(Instruction::with2(Code::Lea_r64_m, AHEAD, indexed(AHEAD, IN_LINE, 1, 64)));
        self.a.put(Instruction::with2(Code::Test_rm64_r64, LEFT, LEFT));
        self.a.branch(Code::Jne_rel32_64, Refer::Label(lines));
        self.fetch_c_row();
        self.fetch(C_PART, slot_inside(KEPT_C));
    }

    fn fetch_c_row(&mut self) {
        self.fetch(C_ROW, parameter_inside(C_ROW_PARAMETER));
        self.a.put(Instruction::with2(Code::Shl_rm64_imm8, C_ROW, self.form.bytes().ilog2()));
    }

    /// A step of words of `bf16` whose halves are multiplied one after another. Of up to two registers of columns, those of the halves are
    /// kept for all rows; of more, rows are read again for each.
    fn step_of_halves(&mut self, micro: Micro) {
        let Micro { rows, registers, left: lies, .. } = micro;
        let width = self.form.register_bytes();
        let behind = |w: &Self, n: i64| w.vector(rows * registers + n);
        let right = |w: &mut Self, v: i64, [high, low]: [Register; 2]| {
            w.load(micro, v, high, memory(B_NOW, v * width));
            w.pack(micro, v, high);
            w.split(high, low);
        };
        let products = |w: &mut Self, sum: i64, left: [Register; 2], right: [Register; 2]| {
            for (left, right) in left.into_iter().zip(right) {
                w.a.put(Instruction::with3(HALVES.multiply_add, w.vector(sum), left, right));
            }
        };
        let (left, kept) = ([0, 1].map(|n| behind(self, n)), if registers <= 2 { registers } else { 1 });
        let rights: Vec<[Register; 2]> = (0..kept).map(|v| [0, 1].map(|n| behind(self, 2 + 2 * v + n))).collect();
        if registers <= 2 {
            for (v, &registers) in (0..).zip(&rights) {
                right(self, v, registers);
            }
            for r in 0..rows {
                self.broadcast(lies, r, left[0]);
                self.split(left[0], left[1]);
                for (v, &right) in (0..).zip(&rights) {
                    products(self, r * registers + v, left, right);
                }
            }
            return;
        }
        for v in 0..registers {
            right(self, v, rights[0]);
            for r in 0..rows {
                // What is packed is packed once.
                let lies = if lies == Left::Packs && v > 0 { Left::Lies } else { lies };
                self.broadcast(lies, r, left[0]);
                self.split(left[0], left[1]);
                products(self, r * registers + v, left, rights[0]);
            }
        }
    }

    /// The halves of words as floats, `low` and what was in `high`.
    fn split(&mut self, high: Register, low: Register) {
        let Halves { shift_left, shift_right, .. } = HALVES;
        self.a.put(Instruction::with3(shift_left, low, high, 16));
        self.a.put(Instruction::with3(shift_right, high, high, 16));
        self.a.put(Instruction::with3(shift_left, high, high, 16));
    }

    /// The sums of a part lie in the first registers, row by row. Behind them come those of `b` and one of `a`, where there
    /// are at most two of `b`; otherwise those of `a`, for all rows, and one of `b`; then that of a product, where a step has one.
    fn micro(&mut self, micro: Micro) {
        let Micro { rows, registers, masked, packs, left: lies, halves, .. } = micro;
        let sum = |w: &Self, r: i64, v: i64| w.vector(r * registers + v);
        let free = self.vector(rows * registers);
        let width = self.form.register_bytes();
        let groups = if lies == Left::Packed { 1 } else { ((rows + 2) / 3) as usize };
        self.set(A_ROWS[0], A_PART);
        if groups > 1 {
            self.a.put(Instruction::with2(Code::Lea_r64_m, LEFT, indexed(A_ROW, A_ROW, 2, 0)));
        }
        for (&before, &pointer) in A_ROWS.iter().zip(&A_ROWS[1..]).take(groups - 1) {
            self.a.put(Instruction::with2(Code::Lea_r64_m, pointer, indexed(before, LEFT, 1, 0)));
        }
        for s in 0..rows * registers {
            let s = self.vector(s);
            self.a.put(Instruction::with3(self.codes.zero, s, s, s));
        }
        if !micro.apart.left {
            self.prefetch_sums(micro);
        }
        // One row takes the columns from memory, each of which it uses once.
        let left_first = self.form.left_first();
        let direct = |v: i64| left_first && rows == 1 && !packs && !(masked && v + 1 == registers);
        let behind = |w: &Self, n: i64| w.vector(rows * registers + n);
        let multiplied = if registers <= 2 { registers } else { rows } + 1;
        let product = |w: &mut Self, r: i64, v: i64, (left, right): (Register, Register)| {
            let s = sum(w, r, v);
            let [first, second] = if left_first { [left, right] } else { [right, left] };
            let (code, to) = match w.codes.step {
                Step::Fused(code) => (code, s),
                Step::Product(code) => (code, behind(w, multiplied)),
            };
            w.a.put(if direct(v) {
                Instruction::with3(code, to, first, memory(B_NOW, v * width))
            } else {
                Instruction::with3(code, to, first, second)
            });
            if to != s {
                w.a.put(Instruction::with3(w.codes.add, s, s, to));
            }
        };
        self.steps(micro, &mut |w| {
            if halves {
                w.step_of_halves(micro);
            } else if registers <= 2 {
                let (left, right) = (behind(w, registers), |w: &Self, v: i64| behind(w, v));
                for v in (0..registers).filter(|&v| !direct(v)) {
                    w.load(micro, v, right(w, v), memory(B_NOW, v * width));
                    w.pack(micro, v, right(w, v));
                }
                for r in 0..rows {
                    w.broadcast(lies, r, left);
                    for v in 0..registers {
                        let operands = (left, right(w, v));
                        product(w, r, v, operands);
                    }
                }
            } else {
                let right = behind(w, rows);
                for r in 0..rows {
                    let left = behind(w, r);
                    w.broadcast(lies, r, left);
                }
                for v in 0..registers {
                    if !direct(v) {
                        w.load(micro, v, right, memory(B_NOW, v * width));
                        w.pack(micro, v, right);
                    }
                    for r in 0..rows {
                        let left = behind(w, r);
                        product(w, r, v, (left, right));
                    }
                }
            }
            let step = (rows * w.form.bytes()) as i32;
            if lies == Left::Packed {
                w.a.put(Instruction::with2(Code::Add_rm64_imm32, A_ROWS[0], step));
            } else {
                for &pointer in A_ROWS.iter().take(groups) {
                    w.add(pointer, A_K);
                }
            }
            if lies == Left::Packs {
                w.a.put(Instruction::with2(Code::Add_rm64_imm32, PACK_LEFT, step));
            }
            w.add(B_NOW, B_K);
            if packs {
                w.a.put(Instruction::with2(Code::Add_rm64_imm32, PACK, PANEL_BYTES as i32));
            }
        });
        if packs {
            self.fetch(K, slot_inside(KEPT_K));
        }
        if lies == Left::Packs {
            self.keep(slot_inside(PACKED_LEFT), PACK_LEFT);
            self.fetch(A_PART, slot_inside(KEPT_A));
        }
        let fresh = self.a.label();
        self.a.put(Instruction::with2(Code::Cmp_rm64_imm8, parameter_inside(FROM_PARAMETER), 0));
        self.a.branch(Code::Je_rel32_64, Refer::Label(fresh));
        self.fetch(LEFT, slot_inside(FROM_PART));
        for r in 0..rows {
            for v in 0..registers {
                let s = sum(self, r, v);
                self.load(micro, v, free, memory(LEFT, v * width));
                self.a.put(Instruction::with3(self.codes.add, s, s, free));
            }
            if r + 1 < rows {
                self.a.put(Instruction::with2(Code::Add_r64_rm64, LEFT, slot_inside(FROM_ROW)));
            }
        }
        self.a.bind(fresh);
        self.set(LEFT, C_PART);
        for r in 0..rows {
            for v in 0..registers {
                self.store(micro, v, memory(LEFT, v * width), sum(self, r, v), free);
            }
            if r + 1 < rows {
                self.add(LEFT, C_ROW);
            }
        }
        self.a.plain(Code::Retnq);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_and_strips_cover_a_block_and_fit_the_registers() {
        let pairs = [false, true].into_iter().flat_map(|widest| Product::ALL.map(|(product, _)| (widest, product)));
        for form in pairs.filter_map(|(widest, product)| Form::of(widest, product)) {
            let widest = form.widest;
            for m in 1..=100 {
                for n in 1..=300 {
                    let strips = form.strips(m, n);
                    assert_eq!(strips.iter().map(|(columns, times)| columns * times).sum::<i64>(), n);
                    for (columns, times) in strips {
                        let registers = (columns + form.lanes() - 1) / form.lanes();
                        assert!(times == 1 || columns % form.lanes() == 0, "a mask belongs to the last strip");
                        for (rows, _) in form.parts(m, registers) {
                            let masks = if !widest && Writer::mask_stays(registers) { 1 } else { 0 };
                            let products = if form.has_products() { 1 } else { 0 };
                            let more = if registers <= 2 { registers + 1 } else { rows + 1 } + products;
                            let all = rows * registers + more + masks;
                            assert!(all <= if widest { 32 } else { 16 }, "{form:?} {rows} {registers}");
                            let halves = rows * registers + 2 + 2 * if registers <= 2 { registers } else { 1 };
                            assert!(!widest || halves <= 32, "{form:?} {rows} {registers}: words by halves");
                        }
                        let rows = form.parts(m, registers).iter().map(|(rows, times)| rows * times).sum::<i64>();
                        assert_eq!(rows, m);
                    }
                }
            }
        }
    }

    #[test]
    fn all_blocks_share_their_subroutines() {
        let form = Form { widest: true, product: Product::F32 };
        let apart = Apart { left: true, right: false };
        let block = |rows| Block { rows, columns: 32, apart, packs: false, left: Left::Lies };
        let one = function(form, &[block(96)].into()).unwrap().code.len();
        let two = function(form, &[block(96), block(48)].into()).unwrap().code.len();
        assert!(two < one + one / 4, "{one} {two}");
    }
}
