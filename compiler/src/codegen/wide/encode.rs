//! The bytes of the function.

use super::allocate::{Allocated, Operand, Step};
use super::select::{Access, Division, Index, Iteration};
use super::table::of_quarters;
use super::{FIRST_MASK, Frame};
use crate::codegen::rows::Width;
use crate::codegen::x86::asm::{Assembled, Assembler, Refer, indexed, memory, there};
use crate::error::{Error, Result};
use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

const FRAME: Register = Register::RDI;
const INDEX: Register = Register::RSI;
const END: Register = Register::RDX;
const SCRATCH: Register = Register::RAX;
/// Scratch where elements are found by indices, and else a pointer's.
const SECOND: Register = Register::R11;

/// Registers of pointers, the caller's own last. Pointers beyond them stay in the frame.
const POINTERS: [Register; 10] = [
    Register::RCX,
    Register::R8,
    Register::R9,
    Register::R10,
    SECOND,
    Register::RBX,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const SAVED: usize = 5;

/// The iterations of a function with their registers.
pub(super) struct Parts<'a> {
    /// Those of the loop.
    pub whole: Option<(&'a Iteration, &'a Allocated)>,
    /// What is left behind it.
    pub rest: Option<(&'a Iteration, &'a Allocated)>,
    /// What becomes of accumulators behind both.
    pub end: Option<(&'a Iteration, &'a Allocated)>,
    /// As in [`Iterations`](super::select::Iterations).
    pub steps: &'a [i32],
}

/// `fn(frame, begin, end)`: iterations of so many `elements` from `begin` to `end`, at least one where there is a loop; then what is left.
/// `None` where elements lie too far apart.
///
/// # Errors
/// [`crate::Error::Internal`] where the encoder refuses an instruction.
pub(super) fn function(parts: &Parts<'_>, frame: &Frame, elements: i64) -> Result<Option<Assembled>> {
    let by_index = |step: &Step| matches!(step, Step::Pick { .. } | Step::Put { .. });
    let indexed = parts
        .whole
        .iter()
        .chain(&parts.rest)
        .chain(&parts.end)
        .any(|(_, allocated)| allocated.body.iter().any(by_index));
    let free = POINTERS.into_iter().filter(|&r| !indexed || r != SECOND);
    let pointers: Vec<Register> = free.take(frame.pointers.len()).collect();
    let Ok(elements) = i32::try_from(elements) else { return Ok(None) };
    let saved: Vec<Register> = pointers.iter().copied().filter(|r| POINTERS[SAVED..].contains(r)).collect();
    let pointers = pointers.as_slice();
    let mut out = Assembler::new();
    for &r in &saved {
        out.put(Instruction::with1(Code::Push_r64, r));
    }
    for (k, &r) in (0..).zip(pointers) {
        out.put(Instruction::with2(Code::Mov_r64_rm64, r, memory(FRAME, i64::from(frame.pointer(k)))));
    }
    // Those that walk begin at the first element of the first iteration.
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
    if let Some((iteration, allocated)) = parts.whole {
        let pool = pool(&mut out, iteration);
        for step in &allocated.before {
            push(&mut out, (iteration.width, frame), step, pointers, &pool)?;
        }
        let head = out.here();
        body(&mut out, (iteration, allocated), frame, pointers, &pool)?;
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
    for (k, (iteration, allocated)) in parts.rest.into_iter().chain(parts.end).enumerate() {
        let pool = pool(&mut out, iteration);
        // Accumulators are in the registers in which the iteration before left them.
        let first = if parts.whole.is_some() || k > 0 { iteration.accumulators.len() } else { 0 };
        for step in allocated.before.get(first..).unwrap_or_default() {
            push(&mut out, (iteration.width, frame), step, pointers, &pool)?;
        }
        body(&mut out, (iteration, allocated), frame, pointers, &pool)?;
    }
    if let Some((iteration, allocated)) = parts.end.or(parts.rest).or(parts.whole) {
        for step in &allocated.after {
            push(&mut out, (iteration.width, frame), step, pointers, &[])?;
        }
    }
    out.plain(Code::VEX_Vzeroupper);
    for &r in saved.iter().rev() {
        out.put(Instruction::with1(Code::Pop_r64, r));
    }
    out.plain(Code::Retnq);
    out.finish().map(Some)
}

fn pool(out: &mut Assembler, iteration: &Iteration) -> Vec<Refer> {
    iteration.pool.iter().map(|constant| out.constant(constant)).collect()
}

/// The steps of an iteration.
fn body(
    out: &mut Assembler,
    (iteration, allocated): (&Iteration, &Allocated),
    frame: &Frame,
    pointers: &[Register],
    pool: &[Refer],
) -> Result<()> {
    for (step, inst) in allocated.body.iter().zip(&allocated.origins) {
        if let Some(inst) = inst {
            out.mark(iteration.source(*inst));
        }
        push(out, (iteration.width, frame), step, pointers, pool)?;
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
        Step::Broadcast { register, stride, wide } => {
            out.put(Instruction::with3(Code::Imul_r64_rm64_imm32, SCRATCH, INDEX, *stride));
            let whole = vector(width, *register, false);
            match (width, *wide) {
                (Width::W256, _) => {
                    let low = vector(width, *register, true);
                    let broadcast =
                        if *wide { Code::VEX_Vpbroadcastq_ymm_xmmm64 } else { Code::VEX_Vpbroadcastd_ymm_xmmm32 };
                    out.put(Instruction::with2(Code::VEX_Vmovq_xmm_rm64, low, SCRATCH));
                    out.put(Instruction::with2(broadcast, whole, low));
                }
                (Width::W512, true) => {
                    out.put(Instruction::with2(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, whole, SCRATCH));
                }
                (Width::W512, false) => {
                    out.put(Instruction::with2(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, whole, Register::EAX));
                }
            }
        }
        Step::Pick { to, into, from, index, each } => {
            let to = part(*to);
            let places = found(out, (pointers, frame), (*from, index), each.len())?;
            let mut into = into.map(part);
            for (&(code, imm), place) in each.iter().zip(places) {
                let mut i = Instruction::default();
                i.set_code(code);
                i.set_op_register(0, to);
                // What is put among other elements has the register of those before the memory.
                let memory = into.map_or(1, |into| {
                    i.set_op_register(1, into);
                    2
                });
                set_memory(&mut i, memory, place);
                set_element(&mut i, memory + 1, imm);
                out.put(Ok(i));
                into = Some(to);
            }
        }
        Step::Put { from, to, index, each } => {
            let places = found(out, (pointers, frame), (*to, index), each.len())?;
            for (&(code, imm), place) in each.iter().zip(places) {
                let mut i = Instruction::default();
                i.set_code(code);
                set_memory(&mut i, 0, place);
                i.set_op_register(1, part(*from));
                set_element(&mut i, 2, imm);
                out.put(Ok(i));
            }
        }
        Step::Divide { how, to, from, live } => divide(out, (width, frame), (*how, *live), *to, *from),
    }
    Ok(())
}

/// The low part of 128 bits of a register.
fn part(number: u8) -> Register {
    vector(Width::W256, number, true)
}

/// Makes operand `n` the number of an element, where there is one.
fn set_element(i: &mut Instruction, n: u32, element: Option<u8>) {
    if let Some(element) = element {
        i.set_op_kind(n, OpKind::Immediate8);
        i.set_immediate8(element);
    }
}

/// Gets an index or two to the general registers: the places of their elements.
fn found(
    out: &mut Assembler,
    (pointers, frame): (&[Register], &Frame),
    (access, index): (Access, &Index<u8>),
    count: usize,
) -> Result<Vec<MemoryOperand>> {
    // Both leave their register together, before the first element is written, which may be written to it.
    let (low, high) = match index.of {
        0..16 => (Code::VEX_Vmovq_rm64_xmm, Code::VEX_Vpextrq_rm64_xmm_imm8),
        _ => (Code::EVEX_Vmovq_rm64_xmm, Code::EVEX_Vpextrq_rm64_xmm_imm8),
    };
    out.put(match index.first / 2 {
        0 => Instruction::with2(low, SECOND, part(index.of)),
        n => Instruction::with3(high, SECOND, part(index.of), i32::from(n)),
    });
    out.put(Instruction::with2(Code::Movsxd_r64_rm32, SCRATCH, Register::R11D));
    if count > 1 {
        out.put(Instruction::with2(Code::Sar_rm64_imm8, SECOND, 32));
    }
    let pointer = pointers.get(access.pointer as usize);
    let mut places = Vec::new();
    for register in [SCRATCH, SECOND].into_iter().take(count) {
        places.push(match pointer {
            Some(&pointer) => indexed(pointer, register, access.scale, i64::from(access.displacement)),
            None => {
                let shift = i32::try_from(access.scale.trailing_zeros()).unwrap_or(0);
                out.put(Instruction::with2(Code::Shl_rm64_imm8, register, shift));
                let kept = location(frame, access.pointer)?;
                out.put(Instruction::with2(Code::Add_r64_rm64, register, kept));
                memory(register, i64::from(access.displacement))
            }
        });
    }
    Ok(places)
}

/// Quotients or remainders of 64 bits: operands go to the frame, the elements through general registers, the result comes back.
fn divide(out: &mut Assembler, (width, frame): (Width, &Frame), (how, live): (Division, u8), to: u8, from: [u8; 2]) {
    let (load, store) = match width {
        Width::W256 => (Code::VEX_Vmovups_ymm_ymmm256, Code::VEX_Vmovups_ymmm256_ymm),
        Width::W512 => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
    };
    let at = |register: u32, byte: u32| memory(FRAME, i64::from(frame.divided(register) + byte));
    for (k, r) in (0..).zip(from) {
        out.put(Instruction::with2(store, at(k, 0), vector(width, r, false)));
    }
    let kept = || memory(FRAME, i64::from(frame.kept()));
    out.put(Instruction::with2(Code::Mov_rm64_r64, kept(), END));
    let code = if how.signed { Code::Idiv_rm64 } else { Code::Div_rm64 };
    for byte in (0..width.bytes()).step_by(8).take(usize::from(live)) {
        out.put(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, at(0, byte)));
        if how.signed {
            out.plain(Code::Cqo);
        } else {
            out.put(Instruction::with2(Code::Xor_r32_rm32, Register::EDX, Register::EDX));
        }
        out.put(Instruction::with1(code, at(1, byte)));
        let wanted = if how.remainder { Register::RDX } else { Register::RAX };
        out.put(Instruction::with2(Code::Mov_rm64_r64, at(2, byte), wanted));
    }
    out.put(Instruction::with2(Code::Mov_r64_rm64, END, kept()));
    out.put(Instruction::with2(load, vector(width, to, false), at(2, 0)));
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
    out.put(Instruction::with2(Code::Mov_r64_rm64, into, location(frame, pointer)?));
    Ok(into)
}

/// Where a pointer lies in the frame.
fn location(frame: &Frame, pointer: u32) -> Result<MemoryOperand> {
    if pointer as usize >= frame.pointers.len() {
        return Err(Error::Internal("a row loop has no such pointer".to_owned()));
    }
    Ok(memory(FRAME, i64::from(frame.pointer(pointer))))
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
