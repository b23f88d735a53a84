//! The bytes of the function.

use super::allocate::{Allocated, Operand, Step};
use super::select::{Access, Turn};
use super::{FIRST_MASK, Frame};
use crate::codegen::rows::Width;
use crate::codegen::x86::asm::{Assembled, Assembler, Refer, indexed, memory, there};
use crate::error::{Error, Result};
use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

const FRAME: Register = Register::RDI;
const INDEX: Register = Register::RSI;
const END: Register = Register::RDX;
const SCRATCH: Register = Register::RAX;

/// Registers of pointers; those from [`FIRST_SAVED`] belong to the caller.
const POINTERS: [Register; 10] = [
    Register::RCX,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const FIRST_SAVED: usize = 5;

/// `fn(frame, begin, end)`: turns of `turn` elements from `begin` to `end`, at least one. `None` where there are more pointers
/// than registers for them.
///
/// # Errors
/// [`crate::Error::Internal`] where the encoder refuses an instruction.
pub(super) fn function(a: &Allocated, turn: &Turn, frame: &Frame, elements: i64) -> Result<Option<Assembled>> {
    let Some(pointers) = POINTERS.get(..frame.pointers.len()) else { return Ok(None) };
    let Ok(elements) = i32::try_from(elements) else { return Ok(None) };
    let saved = pointers.get(FIRST_SAVED..).unwrap_or_default();
    let mut out = Assembler::default();
    let pool: Vec<Refer> = turn.pool.iter().map(|constant| out.constant(constant)).collect();
    for &r in saved {
        out.put(Instruction::with1(Code::Push_r64, r));
    }
    for (k, &r) in (0..).zip(pointers) {
        out.put(Instruction::with2(Code::Mov_r64_rm64, r, memory(FRAME, i64::from(frame.pointer(k)))));
    }
    // Those that walk begin at the first element of the first turn.
    let mut walking = Vec::new();
    for (&r, &step) in pointers.iter().zip(&turn.steps).filter(|(_, step)| **step != 0) {
        let Some(each) = step.checked_mul(elements) else { return Ok(None) };
        walking.push((r, each));
        out.put(Instruction::with3(Code::Imul_r64_rm64_imm32, SCRATCH, INDEX, step));
        out.put(Instruction::with2(Code::Add_r64_rm64, r, SCRATCH));
    }
    for step in &a.before {
        push(&mut out, turn.width, step, pointers, &pool)?;
    }
    let head = out.here();
    for (step, inst) in a.body.iter().zip(&a.origins) {
        if let Some(inst) = inst {
            out.mark(turn.source(*inst));
        }
        push(&mut out, turn.width, step, pointers, &pool)?;
    }
    out.mark(None);
    for (r, each) in walking {
        out.put(Instruction::with2(Code::Add_rm64_imm32, r, each));
    }
    out.put(Instruction::with2(Code::Add_rm64_imm32, INDEX, elements));
    out.put(Instruction::with2(Code::Cmp_rm64_r64, INDEX, END));
    out.branch(Code::Jl_rel32_64, Refer::Label(head));
    for step in &a.after {
        push(&mut out, turn.width, step, pointers, &pool)?;
    }
    out.plain(Code::VEX_Vzeroupper);
    for &r in saved.iter().rev() {
        out.put(Instruction::with1(Code::Pop_r64, r));
    }
    out.plain(Code::Retnq);
    out.finish().map(Some)
}

fn vector(width: Width, number: u8, half: bool) -> Register {
    let first = match (width, half) {
        (Width::W256, true) => Register::XMM0,
        (Width::W256, false) | (Width::W512, true) => Register::YMM0,
        (Width::W512, false) => Register::ZMM0,
    };
    match number.checked_sub(FIRST_MASK) {
        Some(mask) => Register::K0 + u32::from(mask),
        None => first + u32::from(number),
    }
}

fn push(out: &mut Assembler, width: Width, step: &Step, pointers: &[Register], pool: &[Refer]) -> Result<()> {
    let missing = |what: &str| Error::Internal(format!("a row loop has no such {what}"));
    match step {
        Step::Plain(code, operands) => {
            let mut i = Instruction::default();
            let mut refer = None;
            i.set_code(*code);
            for (n, operand) in (0u32..).zip(operands) {
                match *operand {
                    Operand::Register { number, half } => i.set_op_register(n, vector(width, number, half)),
                    Operand::Chooser(number) => i.set_op_mask(vector(width, number, false)),
                    Operand::Pool(k) => {
                        set_memory(&mut i, n, there());
                        refer = Some(*pool.get(k as usize).ok_or_else(|| missing("constant"))?);
                    }
                    Operand::Frame(offset) => set_memory(&mut i, n, memory(FRAME, i64::from(offset))),
                    Operand::Row(Access { pointer, scale, displacement }) => {
                        let pointer = *pointers.get(pointer as usize).ok_or_else(|| missing("pointer"))?;
                        let place = match scale {
                            0 => memory(pointer, i64::from(displacement)),
                            _ => indexed(pointer, INDEX, scale, i64::from(displacement)),
                        };
                        set_memory(&mut i, n, place);
                    }
                    Operand::Imm(value) => {
                        i.set_op_kind(n, OpKind::Immediate8);
                        i.set_immediate8(value);
                    }
                }
            }
            match refer {
                Some(refer) => out.put_at(Ok(i), refer),
                None => out.put(Ok(i)),
            }
        }
        Step::Spread { register, stride, wide } => {
            out.put(Instruction::with3(Code::Imul_r64_rm64_imm32, SCRATCH, INDEX, *stride));
            let whole = vector(width, *register, false);
            match (width, *wide) {
                (Width::W256, _) => {
                    let low = vector(width, *register, true);
                    let spread =
                        if *wide { Code::VEX_Vpbroadcastq_ymm_xmmm64 } else { Code::VEX_Vpbroadcastd_ymm_xmmm32 };
                    out.put(Instruction::with2(Code::VEX_Vmovq_xmm_rm64, low, SCRATCH));
                    out.put(Instruction::with2(spread, whole, low));
                }
                (Width::W512, true) => {
                    out.put(Instruction::with2(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, whole, SCRATCH));
                }
                (Width::W512, false) => {
                    out.put(Instruction::with2(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, whole, Register::EAX));
                }
            }
        }
    }
    Ok(())
}

/// Makes operand `n` memory.
fn set_memory(i: &mut Instruction, n: u32, m: MemoryOperand) {
    i.set_op_kind(n, OpKind::Memory);
    i.set_memory_base(m.base);
    i.set_memory_index(m.index);
    i.set_memory_index_scale(m.scale);
    i.set_memory_displ_size(m.displ_size);
    i.set_memory_displacement64(m.displacement as u64);
}
