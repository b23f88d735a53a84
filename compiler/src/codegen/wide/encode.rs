//! The bytes of the function.

use super::allocate::{Allocated, Operand, Step};
use super::select::{Access, Turn};
use super::{Frame, REGISTER};
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};

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

/// An instruction, and the place of the pool that it reads.
type Line = (Instruction, Option<u32>);

/// `fn(frame, begin, end)`: turns of `turn` elements from `begin` to `end`, at least one. `None` where the encoder refuses
/// an instruction, or where there are more pointers than registers for them.
pub(super) fn function(a: &Allocated, turn: &Turn, frame: &Frame, elements: i64) -> Option<Vec<u8>> {
    let pointers = POINTERS.get(..frame.pointers.len())?;
    let saved = pointers.get(FIRST_SAVED..).unwrap_or_default();
    let mut lines: Vec<Line> = Vec::new();
    for &r in saved {
        lines.push((Instruction::with1(Code::Push_r64, r).ok()?, None));
    }
    for (k, &r) in pointers.iter().enumerate() {
        let mut i = Instruction::default();
        i.set_code(Code::Mov_r64_rm64);
        i.set_op0_register(r);
        memory(&mut i, 1, FRAME, None, frame.pointer(k as u32) as i64);
        lines.push((i, None));
    }
    for step in &a.before {
        push(&mut lines, step, pointers)?;
    }
    let head = lines.len();
    for step in &a.body {
        push(&mut lines, step, pointers)?;
    }
    lines.push((Instruction::with2(Code::Add_rm64_imm32, INDEX, i32::try_from(elements).ok()?).ok()?, None));
    lines.push((Instruction::with2(Code::Cmp_rm64_r64, INDEX, END).ok()?, None));
    let branch = lines.len();
    lines.push((Instruction::with_branch(Code::Jl_rel32_64, 0).ok()?, None));
    for step in &a.after {
        push(&mut lines, step, pointers)?;
    }
    lines.push((Instruction::with(Code::VEX_Vzeroupper), None));
    for &r in saved.iter().rev() {
        lines.push((Instruction::with1(Code::Pop_r64, r).ok()?, None));
    }
    lines.push((Instruction::with(Code::Retnq), None));

    // Lengths do not depend on where the pool and the loop's head lie: the first round finds them, the second uses them.
    let (_, places) = encode(&mut lines, branch, 0, 1 << 20)?;
    let end = places.last().copied()?;
    let pool = if turn.pool.is_empty() { end } else { end.next_multiple_of(u64::from(REGISTER)) };
    let (mut code, again) = encode(&mut lines, branch, *places.get(head)?, pool)?;
    if places != again {
        return None;
    }
    // Behind the return lies what nobody runs.
    code.resize(pool as usize, 0xcc);
    for constant in &turn.pool {
        code.extend_from_slice(constant);
    }
    Some(code)
}

/// Encodes all lines; the bytes, and where each line starts, with the end.
fn encode(lines: &mut [Line], branch: usize, head: u64, pool: u64) -> Option<(Vec<u8>, Vec<u64>)> {
    let mut encoder = Encoder::new(64);
    let mut places = Vec::with_capacity(lines.len() + 1);
    let mut at = 0;
    for (k, (instruction, constant)) in lines.iter_mut().enumerate() {
        places.push(at);
        if k == branch {
            instruction.set_near_branch64(head);
        }
        if let Some(constant) = constant {
            instruction.set_memory_displacement64(pool + u64::from(*constant * REGISTER));
        }
        at += encoder.encode(instruction, at).ok()? as u64;
    }
    places.push(at);
    Some((encoder.take_buffer(), places))
}

fn vector(number: u8, half: bool) -> Register {
    let first = if half { Register::XMM0 } else { Register::YMM0 };
    first + u32::from(number)
}

/// Makes operand `n` memory.
fn memory(i: &mut Instruction, n: u32, base: Register, index: Option<u32>, displacement: i64) {
    i.set_op_kind(n, OpKind::Memory);
    i.set_memory_base(base);
    if let Some(scale) = index {
        i.set_memory_index(INDEX);
        i.set_memory_index_scale(scale);
    }
    i.set_memory_displ_size(if base == Register::RIP { 8 } else { u32::from(displacement != 0) });
    i.set_memory_displacement64(displacement as u64);
}

fn push(lines: &mut Vec<Line>, step: &Step, pointers: &[Register]) -> Option<()> {
    match step {
        Step::Plain(code, operands) => {
            let mut i = Instruction::default();
            let mut pool = None;
            i.set_code(*code);
            for (n, operand) in (0u32..).zip(operands) {
                match *operand {
                    Operand::Register { number, half } => i.set_op_register(n, vector(number, half)),
                    Operand::Pool(k) => {
                        memory(&mut i, n, Register::RIP, None, 0);
                        pool = Some(k);
                    }
                    Operand::Frame(offset) => memory(&mut i, n, FRAME, None, i64::from(offset)),
                    Operand::Row(Access { pointer, scale, displacement }) => {
                        memory(&mut i, n, *pointers.get(pointer as usize)?, Some(scale), i64::from(displacement));
                    }
                    Operand::Imm(value) => {
                        i.set_op_kind(n, OpKind::Immediate8);
                        i.set_immediate8(value);
                    }
                }
            }
            lines.push((i, pool));
        }
        Step::Spread { register, stride, wide } => {
            let (low, full) = (vector(*register, true), vector(*register, false));
            let spread = if *wide { Code::VEX_Vpbroadcastq_ymm_xmmm64 } else { Code::VEX_Vpbroadcastd_ymm_xmmm32 };
            for i in [
                Instruction::with3(Code::Imul_r64_rm64_imm32, SCRATCH, INDEX, *stride),
                Instruction::with2(Code::VEX_Vmovq_xmm_rm64, low, SCRATCH),
                Instruction::with2(spread, full, low),
            ] {
                lines.push((i.ok()?, None));
            }
        }
    }
    Some(())
}
