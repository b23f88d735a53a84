//! Parallel phases: a phase's points are cut into tasks, which the context's executor runs where it has workers.
//!
//! **Problem.** A phase is worth splitting only where it takes much longer than waking a thread, and its results may not
//! depend on how many workers there are.
//!
//! **Invariant.** Every point of a phase computes the same whatever task it falls into, and the cut into tasks is fixed
//! here, by numbers alone. Each worker has its own scratch. Small phases are called directly.
//!
//! **Algorithm.** The driver asks the context for more than one worker. Where there are, it fills an argument on its stack
//! ([`Argument`]) and hands the program's one *task function* to the service, which calls it for each task; that function
//! works out the points of its task and its worker's scratch, and calls the phase.

use super::Driver;
use crate::codegen::clif::{host_signature, import_function, signature};
use crate::codegen::flow::{Flow, enter};
use crate::codegen::lanes::flags;
use crate::codegen::target::Target;
use crate::kernel::ir::{Contraction, Nest};
use crate::kernel::sort::Sort;
use crate::object::Numbered;
use crate::schedule::cost::elements_of_nest;
use brolga_runtime::abi::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Function, InstBuilder, Signature, StackSlotData, StackSlotKind, UserFuncName, Value, types,
};
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
    count: i64,
    /// Points of each, but perhaps fewer of the last.
    chunk: i64,
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
struct Argument;

impl Argument {
    const BUFFERS: i32 = 0;
    const SCRATCH: i32 = 8;
    const CONTEXT: i32 = 16;
    const PHASE: i32 = 24;
    const CHUNK: i32 = 32;
    const POINTS: i32 = 40;
    const SIZE: u32 = 48;
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
        [Argument::BUFFERS, Argument::SCRATCH, Argument::CONTEXT, Argument::PHASE, Argument::CHUNK, Argument::POINTS]
            .map(|offset| b.ins().load(types::I64, flags(), argument, offset));
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

impl Driver<'_, '_, '_> {
    /// Runs a phase of `points` points: as tasks where the context has workers, otherwise here.
    pub(super) fn run_phase(
        &mut self,
        function: FuncId,
        buffers: Value,
        scratch: Value,
        points: i64,
        tasks: Option<Tasks>,
    ) {
        let (Some(tasks), Some(task)) = (tasks, self.around.task) else {
            self.call_phase(function, buffers, scratch, points);
            return;
        };
        let (ask, offered, many, alone, after) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().brif(self.context, ask, &[], alone, &[]);
        self.b.switch_to_block(ask);
        self.b.seal_block(ask);
        let workers = self.b.ins().load(types::I32, flags(), self.context, Context::OFFSET_WORKERS);
        let several = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, workers, 1);
        self.b.ins().brif(several, offered, &[], alone, &[]);
        self.b.switch_to_block(offered);
        self.b.seal_block(offered);
        let service = self.b.ins().load(types::I64, flags(), self.context, Context::OFFSET_PARALLEL_FOR);
        self.b.ins().brif(service, many, &[], alone, &[]);
        self.b.switch_to_block(many);
        self.b.seal_block(many);
        let slot = *self.argument.get_or_insert_with(|| {
            self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, Argument::SIZE, 3))
        });
        let phase = self.function(function);
        let phase = self.b.ins().func_addr(types::I64, phase);
        let (chunk, all) = (self.b.ins().iconst(types::I64, tasks.chunk), self.b.ins().iconst(types::I64, points));
        let fields = [
            (Argument::BUFFERS, buffers),
            (Argument::SCRATCH, scratch),
            (Argument::CONTEXT, self.context),
            (Argument::PHASE, phase),
            (Argument::CHUNK, chunk),
            (Argument::POINTS, all),
        ];
        let argument = self.b.ins().stack_addr(types::I64, slot, 0);
        for (offset, value) in fields {
            self.b.ins().store(flags(), value, argument, offset);
        }
        let host = self.b.ins().load(types::I64, flags(), self.context, Context::OFFSET_HOST);
        let task_signature = self.b.func.import_signature(task_signature(self.around.target));
        let body = import_function(self.b.func, task, task_signature);
        let body = self.b.ins().func_addr(types::I64, body);
        let count = self.b.ins().iconst(types::I64, tasks.count);
        let service_signature = self.b.func.import_signature(host_signature(4, true, self.around.target));
        let call = self.b.ins().call_indirect(service_signature, service, &[host, count, body, argument]);
        let status = self.b.inst_results(call)[0];
        let fine = self.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.return_unless(fine, status);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(alone);
        self.b.seal_block(alone);
        self.call_phase(function, buffers, scratch, points);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
    }

    fn call_phase(&mut self, function: FuncId, buffers: Value, scratch: Value, points: i64) {
        let (begin, end) = (self.b.ins().iconst(types::I64, 0), self.b.ins().iconst(types::I64, points));
        let f = self.function(function);
        self.b.ins().call(f, &[buffers, begin, end, scratch, self.context]);
    }
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
