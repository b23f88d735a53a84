//! Parallel phases: a phase's points are cut into tasks, which the context's executor runs where it has workers.
//!
//! **Problem.** A phase is worth splitting only where it takes much longer than waking a thread, and its results may not
//! depend on how many workers there are.
//!
//! **Invariant.** Every point of a phase computes the same whatever task it falls into, and the cut into tasks is fixed
//! here, by numbers alone. Each worker has its own scratch. Small phases are called directly.
//!
//! **Algorithm.** The driver calls the program's one *launch function*, which asks the context for more than one worker. Where there
//! are, it fills an argument on its stack ([`Argument`]) and hands the one *task function* to the service, which calls it for each task;
//! that function works out the points of its task and its worker's scratch, and calls the phase. On x86-64 both are
//! written by [`x86::tasks`](super::x86::tasks), in a tenth of the time that it takes to compile them.

use super::clif::{host_signature, import_function, signature};
use super::flow::{Flow, enter};
use super::lanes::flags;
use super::target::Target;
use crate::kernel::ir::{Contraction, Nest};
use crate::kernel::sort::Sort;
use crate::object::Numbered;
use crate::schedule::cost::elements_of_nest;
use brolga_runtime::abi::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Function, InstBuilder, Signature, StackSlotData, StackSlotKind, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::FuncId;

/// Elements that a nest computes where it is worth splitting: some tens of microseconds.
pub const DEFAULT_GRAIN: u64 = 1 << 15;
/// A contraction multiplies so many times in the time of one element.
const PRODUCTS_PER_ELEMENT: u64 = 32;
/// Sorting an element takes the time of so many others.
const SORTED_ELEMENT: u64 = 8;
/// A phase is cut into at most this many tasks.
const MAX_TASKS: i64 = 64;

/// How a phase is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// How many tasks.
    pub count: i64,
    /// Points of each, but perhaps fewer of the last.
    pub chunk: i64,
}

impl Tasks {
    fn of(points: i64, elements: u64, grain: u64) -> Option<Tasks> {
        if elements < grain || points < 2 {
            return None;
        }
        let chunk = (points - 1) / MAX_TASKS + 1;
        Some(Tasks { count: (points - 1) / chunk + 1, chunk })
    }

    /// The tasks of a nest, `None` where it is not worth splitting.
    pub fn of_nest(nest: &Nest, grain: u64) -> Option<Tasks> {
        Tasks::of(nest.points(), elements_of_nest(nest) as u64, grain)
    }

    /// The tasks of the rows of a sort.
    pub fn of_sort(sort: &Sort, grain: u64) -> Option<Tasks> {
        let elements = sort.points().saturating_mul(sort.row.extent) as u64;
        Tasks::of(sort.points(), elements.saturating_mul(SORTED_ELEMENT), grain)
    }

    /// The tasks of a contraction that has so many points.
    pub fn of_contraction(c: &Contraction, points: i64, grain: u64) -> Option<Tasks> {
        Tasks::of(points, c.products() as u64 / PRODUCTS_PER_ELEMENT, grain)
    }
}

/// Byte offsets of what a task is told.
pub struct Argument;

impl Argument {
    /// The kernel's table of pointers.
    pub const BUFFERS: i32 = 0;
    /// Where the workers' scratch starts.
    pub const SCRATCH: i32 = 8;
    /// The context.
    pub const CONTEXT: i32 = 16;
    /// The phase's function.
    pub const PHASE: i32 = 24;
    /// Points of a task.
    pub const CHUNK: i32 = 32;
    /// Points of all.
    pub const POINTS: i32 = 40;
    /// All of them, in this order.
    pub const FIELDS: [i32; 6] =
        [Argument::BUFFERS, Argument::SCRATCH, Argument::CONTEXT, Argument::PHASE, Argument::CHUNK, Argument::POINTS];
    /// Bytes of it all.
    pub const SIZE: u32 = 8 * Argument::FIELDS.len() as u32;
}

/// The signature of a task: [`brolga_runtime::abi::ParallelBody`].
pub fn task_signature(target: &Target) -> Signature {
    host_signature(3, true, target)
}

/// The task function: `fn(arg: *mut Argument, task: i64, worker: i64) -> i32`.
pub fn task_function(id: FuncId, per_worker: u64, target: &Target) -> Function {
    let mut function = Function::with_name_signature(UserFuncName::User(id.external_name()), task_signature(target));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let values = enter(&mut b);
    let [argument, task, worker] = [0, 1, 2].map(|i| values[i]);
    let [buffers, scratch, cx, phase, chunk, points] =
        Argument::FIELDS.map(|offset| b.ins().load(types::I64, flags(), argument, offset));
    let begin = b.ins().imul(task, chunk);
    let end = b.ins().iadd(begin, chunk);
    let end = b.ins().smin(end, points);
    let scratch = if per_worker == 0 { scratch } else { b.element(scratch, worker, per_worker as i64) };
    let signature = b.import_signature(signature(5, false));
    b.ins().call_indirect(signature, phase, &[buffers, begin, end, scratch, cx]);
    let ok = b.ins().iconst(types::I32, 0);
    b.ins().return_(&[ok]);
    b.finalize(target.isa.frontend_config());
    function
}

/// The parameters of the launch function.
pub const LAUNCH_PARAMETERS: usize = 7;

/// The launch function: `fn(buffers, scratch, context, phase, points, chunk, tasks) -> i32`. It runs a phase as tasks where the context has
/// workers, otherwise here; the status is the service's.
pub fn launch_function(id: FuncId, task: FuncId, target: &Target) -> Function {
    let own = signature(LAUNCH_PARAMETERS, true);
    let mut function = Function::with_name_signature(UserFuncName::User(id.external_name()), own);
    let mut builder = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut builder);
    let values = enter(&mut b);
    let [buffers, scratch, context, phase, points, chunk, tasks] = [0, 1, 2, 3, 4, 5, 6].map(|i| values[i]);
    let [ask, offered, many, alone] = [(); 4].map(|()| b.create_block());
    let goes = |b: &mut FunctionBuilder<'_>, block| {
        b.switch_to_block(block);
        b.seal_block(block);
    };
    b.ins().brif(context, ask, &[], alone, &[]);
    goes(&mut b, ask);
    let workers = b.ins().load(types::I32, flags(), context, Context::OFFSET_WORKERS);
    let several = b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, workers, 1);
    b.ins().brif(several, offered, &[], alone, &[]);
    goes(&mut b, offered);
    let service = b.ins().load(types::I64, flags(), context, Context::OFFSET_PARALLEL_FOR);
    b.ins().brif(service, many, &[], alone, &[]);
    goes(&mut b, many);
    let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, Argument::SIZE, 3));
    let argument = b.ins().stack_addr(types::I64, slot, 0);
    for (offset, value) in Argument::FIELDS.into_iter().zip([buffers, scratch, context, phase, chunk, points]) {
        b.ins().store(flags(), value, argument, offset);
    }
    let host = b.ins().load(types::I64, flags(), context, Context::OFFSET_HOST);
    let body = b.func.import_signature(task_signature(target));
    let body = import_function(b.func, task, body);
    let body = b.ins().func_addr(types::I64, body);
    let service_signature = b.import_signature(host_signature(4, true, target));
    let call = b.ins().call_indirect(service_signature, service, &[host, tasks, body, argument]);
    let status = b.inst_results(call)[0];
    b.ins().return_(&[status]);
    goes(&mut b, alone);
    let phase_signature = b.import_signature(signature(5, false));
    let begin = b.ins().iconst(types::I64, 0);
    b.ins().call_indirect(phase_signature, phase, &[buffers, begin, points, scratch, context]);
    let ok = b.ins().iconst(types::I32, 0);
    b.ins().return_(&[ok]);
    b.finalize(target.isa.frontend_config());
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_all_points() {
        for points in [2, 3, 63, 64, 65, 1000, 12_345] {
            let Some(t) = Tasks::of(points, 10, 10) else { panic!("{points} points are no tasks") };
            assert!(t.count <= MAX_TASKS && t.count * t.chunk >= points && (t.count - 1) * t.chunk < points, "{t:?}");
        }
        assert_eq!(Tasks::of(1, 10, 10), None);
        assert_eq!(Tasks::of(1 << 20, 9, 10), None);
    }
}
