//! The bytes of the function.

use super::allocate::{Allocated, Operand, Step};
use super::select::{Access, Each, Turn};
use super::table::of_quarters;
use super::{FIRST_MASK, Frame};
use crate::codegen::rows::Width;
use crate::codegen::x86::asm::{Assembled, Assembler, Refer, indexed, memory, there};
use crate::error::{Error, Result};
use crate::kernel::body::Mem;
use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

const FRAME: Register = Register::RDI;
const INDEX: Register = Register::RSI;
const END: Register = Register::RDX;
const SCRATCH: Register = Register::RAX;

/// Registers of pointers; those from [`FIRST_SAVED`] belong to the caller. Pointers beyond them stay in the frame.
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

/// The turns of a function with their registers.
pub(super) struct Parts<'a> {
    /// Those of the loop.
    pub whole: Option<(&'a Turn, &'a Allocated)>,
    /// What is left behind it.
    pub rest: Option<(&'a Turn, &'a Allocated)>,
    /// As in [`Turns`](super::select::Turns).
    pub steps: &'a [i32],
}

/// `fn(frame, begin, end)`: turns of so many `elements` from `begin` to `end`, at least one where there is a loop; then what is left.
/// `None` where elements lie too far apart.
///
/// # Errors
/// [`crate::Error::Internal`] where the encoder refuses an instruction.
pub(super) fn function(parts: &Parts<'_>, frame: &Frame, elements: i64) -> Result<Option<Assembled>> {
    let pointers = POINTERS.get(..frame.pointers.len()).unwrap_or(&POINTERS);
    let Ok(elements) = i32::try_from(elements) else { return Ok(None) };
    let saved = pointers.get(FIRST_SAVED..).unwrap_or_default();
    let mut out = Assembler::default();
    for &r in saved {
        out.put(Instruction::with1(Code::Push_r64, r));
    }
    for (k, &r) in (0..).zip(pointers) {
        out.put(Instruction::with2(Code::Mov_r64_rm64, r, memory(FRAME, i64::from(frame.pointer(k)))));
    }
    // Those that walk begin at the first element of the first turn.
    let mut walking = Vec::new();
    for (k, &step) in (0..).zip(parts.steps).filter(|(_, step)| **step != 0) {
        let Some(each) = step.checked_mul(elements) else { return Ok(None) };
        let place = pointers.get(k as usize).copied().ok_or(memory(FRAME, i64::from(frame.pointer(k))));
        walking.push((place, each));
        out.put(Instruction::with3(Code::Imul_r64_rm64_imm32, SCRATCH, INDEX, step));
        out.put(match place {
            Ok(r) => Instruction::with2(Code::Add_r64_rm64, r, SCRATCH),
            Err(kept) => Instruction::with2(Code::Add_rm64_r64, kept, SCRATCH),
        });
    }
    if let Some((turn, allocated)) = parts.whole {
        let pool = pool(&mut out, turn);
        for step in &allocated.before {
            push(&mut out, (turn.width, frame), step, pointers, &pool)?;
        }
        let head = out.here();
        body(&mut out, (turn, allocated), frame, pointers, &pool)?;
        for (place, each) in walking {
            out.put(match place {
                Ok(r) => Instruction::with2(Code::Add_rm64_imm32, r, each),
                Err(kept) => Instruction::with2(Code::Add_rm64_imm32, kept, each),
            });
        }
        out.put(Instruction::with2(Code::Add_rm64_imm32, INDEX, elements));
        out.put(Instruction::with2(Code::Cmp_rm64_r64, INDEX, END));
        out.branch(Code::Jl_rel32_64, Refer::Label(head));
    }
    if let Some((turn, allocated)) = parts.rest {
        let pool = pool(&mut out, turn);
        // Accumulators are in the registers in which the loop left them.
        let first = if parts.whole.is_some() { turn.accumulators.len() } else { 0 };
        for step in allocated.before.get(first..).unwrap_or_default() {
            push(&mut out, (turn.width, frame), step, pointers, &pool)?;
        }
        body(&mut out, (turn, allocated), frame, pointers, &pool)?;
    }
    if let Some((turn, allocated)) = parts.rest.or(parts.whole) {
        for step in &allocated.after {
            push(&mut out, (turn.width, frame), step, pointers, &[])?;
        }
    }
    out.plain(Code::VEX_Vzeroupper);
    for &r in saved.iter().rev() {
        out.put(Instruction::with1(Code::Pop_r64, r));
    }
    out.plain(Code::Retnq);
    out.finish().map(Some)
}

fn pool(out: &mut Assembler, turn: &Turn) -> Vec<Refer> {
    turn.pool.iter().map(|constant| out.constant(constant)).collect()
}

/// The steps of a turn.
fn body(
    out: &mut Assembler,
    (turn, allocated): (&Turn, &Allocated),
    frame: &Frame,
    pointers: &[Register],
    pool: &[Refer],
) -> Result<()> {
    for (step, inst) in allocated.body.iter().zip(&allocated.origins) {
        if let Some(inst) = inst {
            out.mark(turn.source(*inst));
        }
        push(out, (turn.width, frame), step, pointers, pool)?;
    }
    out.mark(None);
    Ok(())
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

fn push(
    out: &mut Assembler,
    (width, frame): (Width, &Frame),
    step: &Step,
    pointers: &[Register],
    pool: &[Refer],
) -> Result<()> {
    let missing = |what: &str| Error::Internal(format!("a row loop has no such {what}"));
    match step {
        Step::Plain(code, operands) => {
            let mut i = Instruction::default();
            let mut refer = None;
            i.set_code(*code);
            for (n, operand) in (0u32..).zip(operands) {
                match *operand {
                    Operand::Register { number, half } if half && of_quarters(*code) => {
                        i.set_op_register(n, vector(Width::W256, number, true));
                    }
                    Operand::Register { number, half } => i.set_op_register(n, vector(width, number, half)),
                    Operand::Chooser(number) => i.set_op_mask(vector(width, number, false)),
                    Operand::Zeroing(number) => {
                        i.set_op_mask(vector(width, number, false));
                        i.set_zeroing_masking(true);
                    }
                    Operand::Pool(k) => {
                        set_memory(&mut i, n, there());
                        refer = Some(*pool.get(k as usize).ok_or_else(|| missing("constant"))?);
                    }
                    Operand::Frame(offset) => set_memory(&mut i, n, memory(FRAME, i64::from(offset))),
                    Operand::Row(Access { pointer, scale, displacement }) => {
                        let pointer = base(out, (pointers, frame), pointer, SCRATCH)?;
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
        Step::Gather { to, index, wanted, from, wide, live } => {
            if width == Width::W512 {
                out.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, (1i32 << live) - 1));
            }
            let (to, index, wanted) =
                (vector(width, *to, false), vector(width, *index, false), vector(width, *wanted, false));
            let scale = if *wide { 8 } else { 4 };
            if width == Width::W512 {
                out.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, wanted, Register::EAX));
            }
            let pointer = base(out, (pointers, frame), from.pointer, SCRATCH)?;
            let place = indexed(pointer, index, scale, i64::from(from.displacement));
            // Of the result, nothing is kept that was there before.
            match width {
                Width::W256 => {
                    let code =
                        if *wide { Code::VEX_Vgatherqpd_ymm_vm64y_ymm } else { Code::VEX_Vgatherdps_ymm_vm32y_ymm };
                    out.put(Instruction::with3(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, wanted, wanted, wanted));
                    out.put(Instruction::with3(Code::VEX_Vxorps_ymm_ymm_ymmm256, to, to, to));
                    out.put(Instruction::with3(code, to, place, wanted));
                }
                Width::W512 => {
                    let code =
                        if *wide { Code::EVEX_Vgatherqpd_zmm_k1_vm64z } else { Code::EVEX_Vgatherdps_zmm_k1_vm32z };
                    out.put(Instruction::with3(Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, to, to, to));
                    out.put(Instruction::with2(code, to, place).map(|mut i| {
                        i.set_op_mask(wanted);
                        i
                    }));
                }
            }
        }
        Step::Each { what, to, from, live } => each(out, (width, frame), (*what, *live), (*to, from), pointers)?,
    }
    Ok(())
}

/// Element by element: operands go to the frame, the elements through general registers, the result comes back.
fn each(
    out: &mut Assembler,
    (width, frame): (Width, &Frame),
    (what, live): (Each, u8),
    (to, from): (Option<u8>, &[u8]),
    pointers: &[Register],
) -> Result<()> {
    let (load, store) = match width {
        Width::W256 => (Code::VEX_Vmovups_ymm_ymmm256, Code::VEX_Vmovups_ymmm256_ymm),
        Width::W512 => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
    };
    let at = |register: usize, byte: u32| memory(FRAME, i64::from(frame.each(register as u32) + byte));
    for (k, &r) in from.iter().enumerate() {
        out.put(Instruction::with2(store, at(k, 0), vector(width, r, false)));
    }
    let kept = [(END, 0), (INDEX, 8)];
    for (register, byte) in kept {
        out.put(Instruction::with2(Code::Mov_rm64_r64, memory(FRAME, i64::from(frame.kept() + byte)), register));
    }
    let result = from.len();
    match what {
        Each::Divide { signed, remainder } => {
            let code = if signed { Code::Idiv_rm64 } else { Code::Div_rm64 };
            for byte in (0..width.bytes()).step_by(8).take(usize::from(live)) {
                out.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, at(0, byte)));
                if signed {
                    out.plain(Code::Cqo);
                } else {
                    out.put(Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX));
                }
                out.put(Instruction::with1(code, at(1, byte)));
                let wanted = if remainder { Register::RDX } else { Register::RAX };
                out.put(Instruction::with2(Code::Mov_rm64_r64, at(result, byte), wanted));
            }
        }
        Each::Load { mem, from: Access { pointer, scale, displacement } }
        | Each::Store { mem, to: Access { pointer, scale, displacement } } => {
            if scale != 0 {
                return Err(Error::Internal("elements one by one are not found by the index of the row".to_owned()));
            }
            let pointer = base(out, (pointers, frame), pointer, INDEX)?;
            let lane = mem.lane().bits() / 8;
            let indices = if matches!(what, Each::Load { .. }) { 0 } else { 1 };
            for byte in (0..width.bytes()).step_by(lane as usize).take(usize::from(live)) {
                let code = if lane == 8 { Code::Mov_r64_rm64 } else { Code::Movsxd_r64_rm32 };
                out.put(Instruction::with2(code, SCRATCH, at(indices, byte)));
                let place = indexed(pointer, SCRATCH, mem.bytes() as u32, i64::from(displacement));
                if let Each::Load { .. } = what {
                    let (code, register) = element_load(mem);
                    out.put(Instruction::with2(code, register, place));
                    let keep = if lane == 8 {
                        (Code::Mov_rm64_r64, Register::RDX)
                    } else {
                        (Code::Mov_rm32_r32, Register::EDX)
                    };
                    out.put(Instruction::with2(keep.0, at(result, byte), keep.1));
                } else {
                    let get = if lane == 8 {
                        (Code::Mov_r64_rm64, Register::RDX)
                    } else {
                        (Code::Mov_r32_rm32, Register::EDX)
                    };
                    out.put(Instruction::with2(get.0, get.1, at(0, byte)));
                    let (code, register) = element_store(mem);
                    out.put(Instruction::with2(code, place, register));
                }
            }
        }
    }
    for (register, byte) in kept {
        out.put(Instruction::with2(Code::Mov_r64_rm64, register, memory(FRAME, i64::from(frame.kept() + byte))));
    }
    if let Some(to) = to {
        out.put(Instruction::with2(load, vector(width, to, false), at(result, 0)));
    }
    Ok(())
}

/// The load of an element into `rdx`, spread to the width of its lane.
fn element_load(mem: Mem) -> (Code, Register) {
    match mem {
        Mem::S8 => (Code::Movsx_r32_rm8, Register::EDX),
        Mem::U8 => (Code::Movzx_r32_rm8, Register::EDX),
        Mem::S16 => (Code::Movsx_r32_rm16, Register::EDX),
        Mem::U16 => (Code::Movzx_r32_rm16, Register::EDX),
        Mem::I32 | Mem::F32 => (Code::Mov_r32_rm32, Register::EDX),
        Mem::I64 | Mem::F64 => (Code::Mov_r64_rm64, Register::RDX),
    }
}

/// The store of an element from `rdx`.
fn element_store(mem: Mem) -> (Code, Register) {
    match mem {
        Mem::S8 | Mem::U8 => (Code::Mov_rm8_r8, Register::DL),
        Mem::S16 | Mem::U16 => (Code::Mov_rm16_r16, Register::DX),
        Mem::I32 | Mem::F32 => (Code::Mov_rm32_r32, Register::EDX),
        Mem::I64 | Mem::F64 => (Code::Mov_rm64_r64, Register::RDX),
    }
}

/// The register of a pointer; one that lies in the frame is loaded.
fn base(
    out: &mut Assembler,
    (pointers, frame): (&[Register], &Frame),
    pointer: u32,
    into: Register,
) -> Result<Register> {
    if let Some(&r) = pointers.get(pointer as usize) {
        return Ok(r);
    }
    if pointer as usize >= frame.pointers.len() {
        return Err(Error::Internal("a row loop has no such pointer".to_owned()));
    }
    out.put(Instruction::with2(Code::Mov_r64_rm64, into, memory(FRAME, i64::from(frame.pointer(pointer)))));
    Ok(into)
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
