//! The functions that hand a phase to several workers, in the convention of System V.
//!
//! They are the same in every program but for a number and a symbol: to compile them takes a tenth of the time of a small program.

use super::asm::{Assembled, Assembler, Refer, memory, there};
use crate::codegen::tasks::Argument;
use crate::error::Result;
use brolga_runtime::abi::Context;
use cranelift_module::{FuncId, FuncOrDataId};
use iced_x86::{Code, Instruction, Register};

fn set(a: &mut Assembler, to: Register, from: Register) {
    a.put(Instruction::with2(Code::Mov_r64_rm64, to, from));
}

fn load(a: &mut Assembler, to: Register, base: Register, offset: i32) {
    a.put(Instruction::with2(Code::Mov_r64_rm64, to, memory(base, offset.into())));
}

/// Moves the stack pointer down for a call, which finds it at a multiple of 16 behind the return address, and back.
fn with_stack(a: &mut Assembler, bytes: i32, inside: impl FnOnce(&mut Assembler)) {
    a.put(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, bytes));
    inside(a);
    a.put(Instruction::with2(Code::Add_rm64_imm32, Register::RSP, bytes));
}

fn returns_zero(a: &mut Assembler) {
    a.put(Instruction::with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX));
    a.plain(Code::Retnq);
}

/// The task function, as [`task_function`](crate::codegen::tasks::task_function).
///
/// # Errors
/// [`crate::Error::Internal`] where an instruction cannot be encoded.
pub fn task(per_worker: u64) -> Result<Assembled> {
    use Register::{R8, R9, R10, RAX, RCX, RDI, RDX, RSI};
    let mut a = Assembler::new();
    load(&mut a, RAX, RDI, Argument::CHUNK);
    a.put(Instruction::with2(Code::Imul_r64_rm64, RSI, RAX));
    a.put(Instruction::with2(Code::Add_r64_rm64, RAX, RSI));
    load(&mut a, R9, RDI, Argument::POINTS);
    a.put(Instruction::with2(Code::Cmp_rm64_r64, RAX, R9));
    a.put(Instruction::with2(Code::Cmovg_r64_rm64, RAX, R9));
    load(&mut a, RCX, RDI, Argument::SCRATCH);
    if per_worker != 0 {
        a.put(Instruction::with2(Code::Mov_r64_imm64, R10, per_worker));
        a.put(Instruction::with2(Code::Imul_r64_rm64, RDX, R10));
        a.put(Instruction::with2(Code::Add_r64_rm64, RCX, RDX));
    }
    load(&mut a, R8, RDI, Argument::CONTEXT);
    load(&mut a, R10, RDI, Argument::PHASE);
    load(&mut a, RDI, RDI, Argument::BUFFERS);
    set(&mut a, RDX, RAX);
    with_stack(&mut a, 8, |a| a.put(Instruction::with1(Code::Call_rm64, R10)));
    returns_zero(&mut a);
    a.finish()
}

/// The launch function, as [`launch_function`](crate::codegen::tasks::launch_function).
///
/// # Errors
/// [`crate::Error::Internal`] where an instruction cannot be encoded.
pub fn launch(task: FuncId) -> Result<Assembled> {
    use Register::{R8, R9, R10, RAX, RCX, RDI, RDX, RSI, RSP};
    let [buffers, scratch, context, phase, points, chunk] = [RDI, RSI, RDX, RCX, R8, R9];
    let mut a = Assembler::new();
    let alone = a.label();
    let workers = memory(context, Context::OFFSET_WORKERS.into());
    a.put(Instruction::with2(Code::Test_rm64_r64, context, context));
    a.branch(Code::Je_rel32_64, Refer::Label(alone));
    a.put(Instruction::with2(Code::Cmp_rm32_imm8, workers, 1));
    a.branch(Code::Jbe_rel32_64, Refer::Label(alone));
    load(&mut a, RAX, context, Context::OFFSET_PARALLEL_FOR);
    a.put(Instruction::with2(Code::Test_rm64_r64, RAX, RAX));
    a.branch(Code::Je_rel32_64, Refer::Label(alone));
    // The seventh parameter lies behind the return address.
    load(&mut a, R10, RSP, 8);
    with_stack(&mut a, Argument::SIZE as i32 + 8, |a| {
        let values = [buffers, scratch, context, phase, chunk, points];
        for (offset, value) in Argument::FIELDS.into_iter().zip(values) {
            a.put(Instruction::with2(Code::Mov_rm64_r64, memory(RSP, offset.into()), value));
        }
        load(a, RDI, context, Context::OFFSET_HOST);
        set(a, RSI, R10);
        a.put_at(Instruction::with2(Code::Lea_r64_m, RDX, there()), Refer::Symbol(FuncOrDataId::Func(task)));
        set(a, RCX, RSP);
        a.put(Instruction::with1(Code::Call_rm64, RAX));
    });
    a.plain(Code::Retnq);
    a.bind(alone);
    set(&mut a, RAX, phase);
    set(&mut a, RCX, scratch);
    set(&mut a, R9, context);
    set(&mut a, RDX, points);
    set(&mut a, R8, R9);
    a.put(Instruction::with2(Code::Xor_r32_rm32, Register::ESI, Register::ESI));
    with_stack(&mut a, 8, |a| a.put(Instruction::with1(Code::Call_rm64, RAX)));
    returns_zero(&mut a);
    a.finish()
}
