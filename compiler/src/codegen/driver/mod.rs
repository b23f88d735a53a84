//! The driver: the function that a caller calls, with native branches and a call for each phase.
//!
//! **Problem.** A schedule is control flow around kernels, copies, library services and functions outside the object; values lie
//! where the assignment says.
//!
//! **Invariant.** Nothing is decided here that the schedule does not say. A pointer is loaded where it is used, unless there
//! are few of them.
//!
//! **Algorithm.** Steps become blocks of CLIF in the order of the schedule; [`parts`] cuts what is long into functions, [`calls`]
//! reaches services and functions outside.

mod calls;
mod parts;
mod shared;

use calls::Calls;
pub(super) use parts::Parts;
pub(super) use shared::Shared;

use super::address::Bases;
use super::attribution::Attribution;
use super::clif::{copy, data_address, enter_in, host_signature, import_function, signature, table_for};
use super::effort::Executed;
use super::flow::{Flow, enter};
use super::lanes::flags;
use super::nest::WideRows;
use super::phase::{emit_phase, points};
use super::target::Target;
use super::tasks::{LAUNCH_PARAMETERS, Tasks};
use crate::error::{Error, Result};
use crate::kernel::ir::{Kernel, Phase};
use crate::memory::schedule::{Assignment, BlockCopies, Copy, KernelId, LeafPlace, Location, Schedule, Step, ValueId};
use crate::sources::Sources;
use brolga_runtime::abi::WORKSPACE_ALIGNMENT;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{FuncRef, Function, InstBuilder, UserFuncName, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId};
use hashbrown::{HashMap, HashSet};
use parts::{Counter, PARAMETERS};

/// Where a phase's code is.
pub(super) enum PhaseCode {
    /// Part of the driver.
    Inline,
    /// Its function, its points, and how they are cut into tasks.
    Function(FuncId, i64, Option<Tasks>),
    /// Part of the function of a phase before.
    Joined,
}

/// What a driver is made from.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) assignment: &'a Assignment,
    pub(super) phases: &'a HashMap<(KernelId, usize), PhaseCode>,
    pub(super) target: &'a Target,
    pub(super) shared: &'a Shared,
    /// The launch function, where some phase is cut into tasks.
    pub(super) launch: Option<FuncId>,
    /// The function that copies large arrays, where the machine has a better one than a loop.
    pub(super) copier: Option<FuncId>,
    /// The parameters and results that callers may make one.
    pub(super) donated: &'a HashSet<(u32, u32)>,
    /// Numbers of what code comes from, where debuggers are to know.
    pub(super) sources: Option<&'a Sources>,
    /// As in [`CodegenOptions`](super::CodegenOptions).
    pub(super) wide_work: u64,
}

/// The caller's pointers to parameters or results.
pub(super) struct Pointers<'a> {
    /// The table.
    pub(super) base: Value,
    /// Where each lies among them; each in its own place where there is none.
    places: &'a [LeafPlace],
    /// Those that have been loaded: all, or none.
    loaded: Vec<Value>,
}

/// The symbol of a phase of a kernel.
pub(super) fn phase_symbol(entry: &str, (id, kernel): (KernelId, &Kernel), phase: usize) -> String {
    format!("{entry}.{}.{}.{phase}", id.as_u32(), kernel.name)
}

/// Copies of so many bytes and more are those of the machine's own instruction, which does not read what it overwrites.
const LARGE_COPY: u64 = 1 << 16;

/// Whether some copy of a schedule is large.
pub(super) fn copies_much(assignment: &Assignment) -> bool {
    assignment.copies.values().flat_map(BlockCopies::all).any(|c| c.bytes >= LARGE_COPY)
}

/// Instructions that execute a copy: a load and a store for eight bytes, and those of the loop.
fn instructions_of_copy(bytes: u64) -> i64 {
    i64::try_from(bytes / 3).unwrap_or(i64::MAX)
}

/// More pointers than this are not loaded at the driver's start, but each where it is used.
const MOST_LOADED: usize = 64;

impl<'a> Pointers<'a> {
    fn new(b: &mut FunctionBuilder<'_>, base: Value, places: &'a [LeafPlace], load: usize) -> Result<Self> {
        let mut pointers = Pointers { base, places, loaded: Vec::new() };
        pointers.loaded = (0..load as u32).map(|n| pointers.load(b, n)).collect::<Result<_>>()?;
        Ok(pointers)
    }

    /// Where number `n` lies: in which of the caller's buffers, and how far in.
    pub(super) fn place(&self, n: u32) -> Result<LeafPlace> {
        LeafPlace::of(self.places, n)
    }

    fn load(&self, b: &mut FunctionBuilder<'_>, n: u32) -> Result<Value> {
        let place = self.place(n)?;
        let start = b.ins().load(types::I64, flags(), self.base, 8 * place.leaf as i32);
        Ok(b.behind(start, place.offset as i64))
    }

    fn get(&self, b: &mut FunctionBuilder<'_>, n: u32) -> Result<Value> {
        self.loaded.get(n as usize).map_or_else(|| self.load(b, n), |&loaded| Ok(loaded))
    }
}

/// The driver, or a part of it, while it is made.
pub(super) struct Driver<'a, 'b, 'o> {
    pub(super) b: FunctionBuilder<'b>,
    pub(super) around: Around<'a>,
    pub(super) parts: &'b mut Parts<'o>,
    pub(super) parameters: Pointers<'a>,
    pub(super) results: Pointers<'a>,
    pub(super) workspace: Value,
    pub(super) context: Value,
    functions: HashMap<FuncId, FuncRef>,
    /// The counter of the random number generator, where the program has one.
    counter: Option<Counter>,
    /// What the function executes, but for what it is made of itself.
    executed: Executed,
}

impl<'a> Driver<'a, '_, '_> {
    /// The entry; the parts that it calls are added to `parts`.
    pub(super) fn entry(around: Around<'a>, parts: &mut Parts<'_>) -> Result<(Function, Executed)> {
        let block = around.schedule.entry.ok_or_else(|| Error::Internal("a schedule without an entry".into()))?;
        Driver::make(around, parts, false, &mut |driver| {
            driver.prologue();
            driver.block(block)
        })
    }

    /// A function that does what `body` emits, and returns 0: the entry, or a part of it; and what it executes where nothing in it is
    /// repeated.
    pub(super) fn make(
        around: Around<'a>,
        parts: &mut Parts<'_>,
        is_part: bool,
        body: &mut dyn FnMut(&mut Driver<'_, '_, '_>) -> Result<()>,
    ) -> Result<(Function, Executed)> {
        let own = match is_part {
            true => signature(PARAMETERS, true),
            false => host_signature(PARAMETERS - 1, true, around.target),
        };
        let mut function = Function::with_name_signature(UserFuncName::default(), own);
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        Attribution::of_entry(around.sources).mark(&mut b, None);
        let values = enter(&mut b);
        let [parameters, results, workspace, context] = [0, 1, 2, 3].map(|i| values[i]);
        let schedule = around.schedule;
        let at_start = |n: usize| if is_part || n > MOST_LOADED { 0 } else { n };
        let (p, r) = (at_start(schedule.parameters.len()), at_start(schedule.results.len()));
        let parameters = Pointers::new(&mut b, parameters, &schedule.parameter_places, p)?;
        let results = Pointers::new(&mut b, results, &schedule.result_places, r)?;
        let counter = values.get(PARAMETERS - 1).filter(|_| around.shared.calls.random).map(|&at| Counter::Pointer(at));
        let functions = HashMap::new();
        let executed = Executed::default();
        let mut driver =
            Driver { b, around, parts, parameters, results, workspace, context, functions, counter, executed };
        body(&mut driver)?;
        driver.mark(Attribution::of_entry(around.sources));
        let ok = driver.b.ins().iconst(types::I32, 0);
        driver.b.ins().return_(&[ok]);
        let mut executed = driver.executed;
        executed.add_own(1, driver.b.func.dfg.num_insts() as i64);
        driver.b.finalize(around.target.isa.frontend_config());
        Ok((function, executed))
    }
}

impl Driver<'_, '_, '_> {
    /// Says what is emitted from now on.
    fn mark(&mut self, attribution: Attribution) {
        attribution.mark(&mut self.b, None);
    }

    /// What a step computes: the instruction of its result, or of what decides where it has none.
    fn attribution(&self, step: &Step) -> Attribution {
        let Around { schedule, sources, .. } = self.around;
        let decides = |results: &[ValueId], by: ValueId| {
            Attribution::of(sources, schedule.values[*results.first().unwrap_or(&by)].source)
        };
        match step {
            Step::Kernel { kernel, .. } => Attribution::of_kernel(sources, &schedule.kernels[*kernel]),
            Step::While { results, condition_result, .. } => decides(results, *condition_result),
            Step::Conditional { results, index, .. } => decides(results, *index),
        }
    }

    /// The address of a value.
    fn pointer(&mut self, v: ValueId) -> Result<Value> {
        let at = self.around.assignment.locations[v];
        self.address(at.ok_or_else(|| Error::Internal(format!("{v} has no location")))?)
    }

    fn address(&mut self, location: Location) -> Result<Value> {
        Ok(match location {
            Location::Parameter(n) => self.parameters.get(&mut self.b, n)?,
            Location::Result(n) => self.results.get(&mut self.b, n)?,
            Location::Workspace(offset) => self.b.behind(self.workspace, offset as i64),
            Location::Constant(c) => self.data(self.around.shared.constants[c]),
        })
    }

    /// The address of a data object.
    pub(super) fn data(&mut self, id: DataId) -> Value {
        data_address(&mut self.b, id)
    }

    pub(super) fn copy(&mut self, c: &Copy) -> Result<()> {
        let (from, to) = (self.address(c.from)?, self.address(c.to)?);
        if !self.may_be_one(c) {
            self.copy_bytes(from, to, c.bytes);
            return Ok(());
        }
        let (distinct, after) = (self.b.create_block(), self.b.create_block());
        let same = self.b.ins().icmp(IntCC::Equal, from, to);
        self.b.ins().brif(same, after, &[], distinct, &[]);
        self.b.switch_to_block(distinct);
        self.b.seal_block(distinct);
        self.copy_bytes(from, to, c.bytes);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
        Ok(())
    }

    /// Copies so many bytes between buffers that are apart.
    pub(super) fn copy_bytes(&mut self, from: Value, to: Value, bytes: u64) {
        let instructions = instructions_of_copy(bytes);
        match self.around.copier {
            Some(id) if bytes >= LARGE_COPY => {
                self.executed.add_called(1, instructions);
                let signature = self.b.import_signature(signature(3, false));
                let f = import_function(self.b.func, id, signature);
                let bytes = self.b.ins().iconst(types::I64, bytes as i64);
                self.b.ins().call(f, &[to, from, bytes]);
            }
            _ => {
                self.executed.add_own(1, instructions);
                copy(&mut self.b, from, to, bytes);
            }
        }
    }

    /// Whether the caller may have made the two sides of a copy one.
    fn may_be_one(&self, c: &Copy) -> bool {
        let (Location::Parameter(p), Location::Result(r)) = (c.from, c.to) else { return false };
        self.around.donated.contains(&(p, r))
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        let own = self.attribution(step);
        self.mark(own);
        match step {
            Step::Kernel { kernel, buffers } => self.kernel(*kernel, buffers),
            Step::While { condition, condition_result, body, .. } => {
                let (head, inner, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
                self.b.ins().jump(head, &[]);
                self.b.switch_to_block(head);
                self.block(*condition)?;
                self.mark(own);
                let at = self.pointer(*condition_result)?;
                let more = self.b.ins().load(types::I8, flags(), at, 0);
                self.b.ins().brif(more, inner, &[], after, &[]);
                self.b.switch_to_block(inner);
                self.b.seal_block(inner);
                self.block(*body)?;
                self.mark(own);
                self.b.ins().jump(head, &[]);
                self.b.seal_block(head);
                self.b.switch_to_block(after);
                self.b.seal_block(after);
                Ok(())
            }
            Step::Conditional { index, is_pred, branches, .. } => {
                let at = self.pointer(*index)?;
                let ty = if *is_pred { types::I8 } else { types::I32 };
                let index = self.b.ins().load(ty, flags(), at, 0);
                let after = self.b.create_block();
                for (n, (branch, _)) in branches.iter().enumerate() {
                    if n + 1 == branches.len() {
                        self.block(*branch)?;
                        self.b.ins().jump(after, &[]);
                        break;
                    }
                    let (mine, next) = (self.b.create_block(), self.b.create_block());
                    let taken = if *is_pred {
                        self.b.ins().icmp_imm_s(IntCC::NotEqual, index, 0)
                    } else {
                        self.b.ins().icmp_imm_s(IntCC::Equal, index, n as i64)
                    };
                    self.b.ins().brif(taken, mine, &[], next, &[]);
                    self.b.switch_to_block(mine);
                    self.b.seal_block(mine);
                    self.block(*branch)?;
                    self.b.ins().jump(after, &[]);
                    self.b.switch_to_block(next);
                    self.b.seal_block(next);
                }
                self.b.switch_to_block(after);
                self.b.seal_block(after);
                Ok(())
            }
        }
    }

    fn kernel(&mut self, id: KernelId, buffers: &[ValueId]) -> Result<()> {
        let schedule = self.around.schedule;
        let kernel = &schedule.kernels[id];
        // Row buffers lie behind the values.
        let fixed = self.around.assignment.workspace.next_multiple_of(WORKSPACE_ALIGNMENT as u64);
        let scratch = self.b.behind(self.workspace, fixed as i64);
        let mut arguments = None;
        for (p, phase) in kernel.phases.iter().enumerate() {
            match phase {
                Phase::Call(call) => {
                    let pointers = self.pointers(buffers)?;
                    self.call(id, call, &pointers)?;
                    continue;
                }
                Phase::RandomState { delta } => {
                    let pointers = self.pointers(buffers)?;
                    self.random_state(*delta, &pointers);
                    continue;
                }
                _ => {}
            }
            match self.around.phases.get(&(id, p)) {
                Some(&PhaseCode::Function(id, points, tasks)) => {
                    let arguments = match arguments {
                        Some(table) => table,
                        None => *arguments.insert(self.table(buffers)?),
                    };
                    self.run_phase(id, arguments, scratch, points, tasks);
                    continue;
                }
                Some(PhaseCode::Joined) => continue,
                Some(PhaseCode::Inline) | None => {}
            }
            let bases = self.bases(buffers, &phase.buffers())?;
            let (begin, end) = (self.b.iconst(0), self.b.iconst(points(phase)));
            let attribution = Attribution::of_kernel(self.around.sources, kernel);
            let Around { target, wide_work, .. } = self.around;
            let symbol = phase_symbol(&self.parts.entry, (id, kernel), p);
            let mut rows = WideRows::new(self.parts.object, symbol, target, wide_work);
            let phase = (phase, attribution);
            let executed = emit_phase(&mut self.b, target, phase, &bases, (begin, end), scratch, rows.as_mut())?;
            self.executed.add(1, executed.unwrap_or_default());
            self.parts.rows.extend(rows.map(|rows| (rows.functions, attribution)));
            self.mark(attribution);
        }
        Ok(())
    }

    fn pointers(&mut self, values: &[ValueId]) -> Result<Vec<Value>> {
        values.iter().map(|&v| self.pointer(v)).collect()
    }

    /// The pointers of some buffers of a kernel, which are these values.
    fn bases(&mut self, values: &[ValueId], buffers: &[u32]) -> Result<Bases> {
        let mut bases = Bases::default();
        for &k in buffers {
            let Some(&v) = values.get(k as usize) else {
                return Err(Error::Internal(format!("a kernel of {} buffers uses buffer {k}", values.len())));
            };
            bases = bases.with(k, self.pointer(v)?);
        }
        Ok(bases)
    }

    /// A table of the pointers, each entered as soon as it is known: thousands in registers would be as many on the stack once more.
    fn table(&mut self, values: &[ValueId]) -> Result<Value> {
        let table = table_for(&mut self.b, values.len());
        for (place, &v) in values.iter().enumerate() {
            let pointer = self.pointer(v)?;
            enter_in(&mut self.b, table, place, pointer);
        }
        Ok(table)
    }

    /// Runs a phase of `points` points: as tasks where the context has workers, otherwise here.
    fn run_phase(&mut self, phase: FuncId, buffers: Value, scratch: Value, points: i64, tasks: Option<Tasks>) {
        let phase = self.function(phase);
        let points = self.b.ins().iconst(types::I64, points);
        let (Some(tasks), Some(launch)) = (tasks, self.around.launch) else {
            let begin = self.b.ins().iconst(types::I64, 0);
            self.b.ins().call(phase, &[buffers, begin, points, scratch, self.context]);
            return;
        };
        let own = self.b.import_signature(signature(LAUNCH_PARAMETERS, true));
        let launch = import_function(self.b.func, launch, own);
        let phase = self.b.ins().func_addr(types::I64, phase);
        let [chunk, count] = [tasks.chunk, tasks.count].map(|n| self.b.ins().iconst(types::I64, n));
        let call = self.b.ins().call(launch, &[buffers, scratch, self.context, phase, points, chunk, count]);
        let status = self.b.inst_results(call)[0];
        let fine = self.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.return_unless(fine, status);
    }

    /// A reference to a phase's function.
    fn function(&mut self, id: FuncId) -> FuncRef {
        if let Some(&f) = self.functions.get(&id) {
            return f;
        }
        let signature = self.b.import_signature(signature(5, false));
        let f = import_function(self.b.func, id, signature);
        self.functions.insert(id, f);
        f
    }
}
