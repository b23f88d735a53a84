//! The driver: the function that a caller calls, with native branches and a call for each phase.

use super::calls::Calls;
use super::contraction::{self, Plan, Surroundings};
use super::fault::Faults;
use super::flow::enter;
use super::lanes::{Lanes, flags};
use super::nest::{NestEmitter, WideRows, scratch_bytes};
use super::parallel::{self, Tasks};
use super::parts::{Counter, PARAMETERS, Parts};
use super::registers::emit_loop;
use super::sort;
use super::target::Target;
use super::tile;
use super::x86::{
    self,
    tile::{Extents, Form},
};
use crate::error::{Error, Result, Site};
use crate::kernel::body::Variant;
use crate::kernel::ir::{Kernel, Nest, Phase};
use crate::memory::schedule::{Assignment, Copy, KernelId, LeafPlace, Location, Schedule, Step, ValueId};
use crate::object::{CompiledFunction, DataObject, namespace};
use brolga_runtime::ElementType;
use brolga_runtime::abi::{CustomCallInfo, Services, WORKSPACE_ALIGNMENT};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, GlobalValueData, InstBuilder, SigRef, Signature, StackSlot,
    StackSlotData, StackSlotKind, UserExternalName, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::collections::{HashMap, HashSet};

/// Machine code and data of a program.
pub struct Code {
    /// The functions; the last is the driver.
    pub functions: Vec<CompiledFunction>,
    /// What the functions number behind the schedule's constants: attributes of calls, tables of copies.
    pub data: Vec<DataObject>,
    /// Bytes of workspace besides the schedule's own, for each worker.
    pub per_worker: u64,
    /// CLIF of each function, where it was asked for.
    pub clif: Vec<String>,
    /// Services that the code uses where they are offered.
    pub services: Services,
    /// Services that it cannot do without.
    pub needed: Services,
    /// Functions outside the object, in the order of [`namespace::IMPORT`].
    pub custom_calls: Vec<CustomCallInfo>,
}

/// A function before it is machine code, or as such.
enum Source {
    /// For Cranelift.
    Clif(Box<Function>),
    /// Done.
    Machine(Vec<u8>),
}

impl Source {
    fn clif(function: Function) -> Source {
        Source::Clif(Box::new(function))
    }
}

/// Rows of less work, in elements times nodes of the body, stay in 128-bit registers: a call and the frame it is handed
/// cost some tens of cycles.
pub const WIDE_WORK: u64 = 512;

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct CodegenOptions {
    /// Threads that compile functions.
    pub threads: usize,
    /// Keep the text of each function.
    pub keep_clif: bool,
    /// Phases that compute fewer elements are not split among workers.
    pub grain: u64,
    /// Rows of less work are not given 256-bit code; see [`WIDE_WORK`].
    pub wide_work: u64,
}

/// Phases whose whole work is at most this many elements become part of the driver.
const INLINE_ELEMENTS: i64 = 16;
/// So many at most.
const MAX_INLINED: usize = 64;

/// Compiles a schedule without its constants, which may be large and are the same for every target; `symbol` is the program's
/// name, and the entry's where it is `exported`. Where it is not, the names of the functions say the target's level.
///
/// # Errors
/// [`Error::Internal`] where Cranelift refuses what it is given.
pub fn compile(
    symbol: &str,
    exported: bool,
    schedule: &Schedule,
    assignment: &Assignment,
    target: &Target,
    options: CodegenOptions,
) -> Result<Code> {
    let entry = if exported { symbol.to_owned() } else { format!("{symbol}.{}", target.level) };
    let mut functions: Vec<(String, Source)> = Vec::new();
    let mut phases: HashMap<(KernelId, usize), PhaseCode> = HashMap::new();
    let mut per_worker = 0;
    let mut inlined = 0;
    let mut split = false;
    let tiles = tiles(&entry, schedule, target, &mut functions)?;
    let wide_rows = |index: u32| {
        target.has_avx2().then(|| WideRows {
            first: index + 1,
            functions: Vec::new(),
            fma: target.variant == Variant::Fma,
            least_work: i64::try_from(options.wide_work).unwrap_or(i64::MAX),
        })
    };
    for (k, kernel) in schedule.kernels.iter() {
        for (p, phase) in kernel.phases.iter().enumerate() {
            let nest = match phase {
                Phase::Nest(nest) => nest,
                Phase::Registers(l) if l.state.len() <= INLINE_ELEMENTS as usize => {
                    phases.insert((k, p), PhaseCode::Inline);
                    continue;
                }
                Phase::Call(_) | Phase::RandomState { .. } => {
                    phases.insert((k, p), PhaseCode::Inline);
                    continue;
                }
                Phase::Registers(_) => {
                    let index = functions.len() as u32;
                    let name = format!("{entry}.{}.{}", k.as_u32(), kernel.name);
                    functions.push((name, Source::clif(phase_function(index, kernel, phase, target, None)?)));
                    phases.insert((k, p), PhaseCode::Function(index, 1, None));
                    continue;
                }
                Phase::Sort(sort) => {
                    per_worker = per_worker.max(sort::scratch_bytes(sort));
                    let index = functions.len() as u32;
                    let name = format!("{entry}.{}.{}.{p}", k.as_u32(), kernel.name);
                    functions.push((name, Source::clif(phase_function(index, kernel, phase, target, None)?)));
                    let tasks = Tasks::of_sort(sort, options.grain);
                    split |= tasks.is_some();
                    phases.insert((k, p), PhaseCode::Function(index, sort.points(), tasks));
                    continue;
                }
                Phase::Contraction(c) => {
                    let plan = Plan::new(c);
                    per_worker = per_worker.max(plan.scratch_bytes());
                    let missing = || Error::Internal(format!("there is no tile for {}", c.ty));
                    let tile = tiles.get(&c.ty).copied().ok_or_else(missing)?;
                    let index = functions.len() as u32;
                    let around = Surroundings { kernel, target, tile };
                    let mut rows = wide_rows(index);
                    let function = contraction::function(index, signature(5, false), c, &around, rows.as_mut())?;
                    push(&mut functions, format!("{entry}.{}.{}.{p}", k.as_u32(), kernel.name), function, rows);
                    let tasks = Tasks::of_contraction(c, plan.points(), options.grain);
                    split |= tasks.is_some();
                    phases.insert((k, p), PhaseCode::Function(index, plan.points(), tasks));
                    continue;
                }
            };
            per_worker = per_worker.max(scratch_bytes(nest));
            if work(nest) <= INLINE_ELEMENTS && inlined < MAX_INLINED {
                inlined += 1;
                phases.insert((k, p), PhaseCode::Inline);
                continue;
            }
            let index = functions.len() as u32;
            let name = format!("{entry}.{}.{}.{p}", k.as_u32(), kernel.name);
            let mut rows = wide_rows(index);
            let function = phase_function(index, kernel, phase, target, rows.as_mut())?;
            push(&mut functions, name, function, rows);
            let tasks = Tasks::of_nest(nest, options.grain);
            split |= tasks.is_some();
            phases.insert((k, p), PhaseCode::Function(index, nest.points(), tasks));
        }
    }
    let task = split.then(|| {
        let index = functions.len() as u32;
        let task = Source::clif(parallel::task_function(index, per_worker, target));
        functions.push((format!("{entry}.task"), task));
        index
    });
    let calls = Calls::of(schedule);
    let first_table = (schedule.constants.len() + calls.words.len()) as u32;
    let mut parts = Parts::new(functions.len() as u32, first_table);
    let donated = schedule.donated.iter().map(|&(parameter, result, _)| (parameter, result)).collect();
    let around = Around { schedule, assignment, phases: &phases, target, calls: &calls, task, donated: &donated };
    let mut driver = Driver::entry(around, &mut parts)?;
    let Parts { functions: sections, tables, .. } = parts;
    functions.extend(sections.into_iter().map(|(name, f)| (format!("{entry}.{name}"), Source::clif(f))));
    driver.name = UserFuncName::user(namespace::FUNCTION, functions.len() as u32);
    functions.push((entry, Source::clif(driver)));
    let words = calls.words.iter().enumerate().map(|(i, words)| {
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        DataObject::constant(format!("{symbol}.call.{i}"), 8, bytes)
    });
    let mut data: Vec<DataObject> = words.collect();
    let tables = tables.into_iter().enumerate();
    data.extend(tables.map(|(i, bytes)| DataObject::constant(format!("{symbol}.copies.{i}"), 8, bytes)));
    let clif = if options.keep_clif {
        functions
            .iter()
            .filter_map(|(name, f)| match f {
                Source::Clif(f) => Some(format!("; {name}\n{}", f.display())),
                Source::Machine(_) => None,
            })
            .collect()
    } else {
        Vec::new()
    };
    let last = functions.len() - 1;
    let functions = compile_all(functions, target, options.threads, exported.then_some(last))?;
    let services = if split { Services::PARALLEL_FOR } else { Services::NONE };
    let (needed, custom_calls) = (calls.services, calls.functions);
    Ok(Code { functions, data, per_worker, clif, services, needed, custom_calls })
}

/// Adds the tiles that contractions call, one for each type; their numbers.
fn tiles(
    entry: &str,
    schedule: &Schedule,
    target: &Target,
    functions: &mut Vec<(String, Source)>,
) -> Result<HashMap<ElementType, u32>> {
    let mut extents: Vec<(ElementType, Extents)> = Vec::new();
    for phase in schedule.kernels.values().flat_map(|kernel| &kernel.phases) {
        let Phase::Contraction(c) = phase else { continue };
        let blocks = Plan::new(c).extents();
        match extents.iter_mut().find(|(ty, _)| *ty == c.ty) {
            Some((_, all)) => all.extend(blocks),
            None => extents.push((c.ty, blocks)),
        }
    }
    let mut numbers = HashMap::new();
    for (ty, extents) in extents {
        let index = functions.len() as u32;
        let form = Form { widest: target.has_avx512(), double: ty == ElementType::F64 };
        let tile = if target.has_avx2() && target.variant == Variant::Fma {
            Source::Machine(x86::tile::function(form, &extents)?.code)
        } else {
            Source::clif(tile::function(index, ty, target))
        };
        functions.push((format!("{entry}.tile.{ty}"), tile));
        numbers.insert(ty, index);
    }
    Ok(numbers)
}

/// Adds a function and, behind it, the 256-bit rows that it calls.
fn push(functions: &mut Vec<(String, Source)>, name: String, function: Function, rows: Option<WideRows>) {
    let rows = rows.into_iter().flat_map(|w| w.functions).enumerate();
    let rows: Vec<_> = rows.map(|(i, f)| (format!("{name}.row{i}"), Source::Machine(f.code))).collect();
    functions.push((name, Source::clif(function)));
    functions.extend(rows);
}

/// Compiles a function in a context, which keeps its memory for the next. A panic of the code generator is an error of ours.
pub(super) fn machine_code(
    symbol: String,
    exported: bool,
    function: Function,
    target: &Target,
    context: &mut Context,
) -> Result<CompiledFunction> {
    if !target.has_vectors() && has_vectors(&function) {
        let machine = target.isa.triple().architecture;
        let feature = format!("the target {machine}, for programs that use vectors (function '{symbol}')");
        return Err(Error::Unsupported { site: Site::default(), feature });
    }
    context.clear();
    context.func = function;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.compile(&*target.isa, &mut ControlPlane::default()).map(|_| ()).map_err(|e| {
            let text = cranelift_codegen::print_errors::pretty_error(e.func, e.inner);
            Error::Internal(format!("function '{symbol}': {text}"))
        })
    }));
    match caught {
        Ok(result) => result?,
        Err(_) => return Err(Error::Internal(format!("the code generator panicked on function '{symbol}'"))),
    }
    let compiled =
        context.compiled_code().ok_or_else(|| Error::Internal(format!("function '{symbol}' has no code")))?;
    CompiledFunction::from_compiled(symbol, exported, &context.func, compiled)
}

/// Whether a function has values of vector type.
fn has_vectors(function: &Function) -> bool {
    function.dfg.values().any(|v| function.dfg.value_type(v).is_vector())
}

/// Compiles functions one by one, on several threads where asked; the order and the bytes do not depend on that.
fn compile_all(
    functions: Vec<(String, Source)>,
    target: &Target,
    threads: usize,
    exported: Option<usize>,
) -> Result<Vec<CompiledFunction>> {
    let one = |context: &mut Context, (i, (name, source)): (usize, (String, Source))| -> Result<CompiledFunction> {
        let function = match source {
            Source::Clif(function) => *function,
            Source::Machine(code) => {
                let alignment = WIDE_ALIGNMENT;
                return Ok(CompiledFunction { symbol: name, exported: false, alignment, code, relocs: Vec::new() });
            }
        };
        machine_code(name, exported == Some(i), function, target, context)
    };
    if threads <= 1 || functions.len() < 4 {
        let mut context = Context::new();
        return functions.into_iter().enumerate().map(|job| one(&mut context, job)).collect();
    }
    let jobs = std::sync::Mutex::new(functions.into_iter().enumerate().collect::<Vec<_>>());
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut context = Context::new();
                while let Some(job) = jobs.lock().ok().and_then(|mut j| j.pop()) {
                    let i = job.0;
                    let result = one(&mut context, job);
                    if let Ok(mut d) = done.lock() {
                        d.push((i, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, r)| r).collect()
}

/// Constants of 256-bit code are read a register at a time.
const WIDE_ALIGNMENT: u64 = 32;

pub(super) enum PhaseCode {
    /// Part of the driver.
    Inline,
    /// Its function, its points, and how they are cut into tasks.
    Function(u32, i64, Option<Tasks>),
}

pub(super) fn work(nest: &Nest) -> i64 {
    let per_point: i64 = nest
        .stages
        .iter()
        .map(|s| s.sequential.iter().map(|l| l.extent).product::<i64>().saturating_mul(s.vector.extent))
        .fold(0, i64::saturating_add);
    nest.points().saturating_mul(per_point)
}

pub(super) fn signature(parameters: usize, returns: bool) -> Signature {
    let mut s = Signature::new(CallConv::SystemV);
    s.params = vec![AbiParam::new(types::I64); parameters];
    if returns {
        s.returns = vec![AbiParam::new(types::I32)];
    }
    s
}

/// `fn(buffers: *const *mut u8, begin: i64, end: i64, scratch: *mut u8, cx: *const Context)`.
fn phase_function(
    index: u32,
    kernel: &Kernel,
    phase: &Phase,
    target: &Target,
    wide: Option<&mut WideRows>,
) -> Result<Function> {
    let mut function =
        Function::with_name_signature(UserFuncName::user(namespace::FUNCTION, index), signature(5, false));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let values = enter(&mut b);
    let [buffers, begin, end, scratch] = [0, 1, 2, 3].map(|i| values[i]);
    let bases: Vec<Value> =
        (0..kernel.buffers.len()).map(|i| b.ins().load(types::I64, flags(), buffers, 8 * i as i32)).collect();
    emit_phase(&mut b, target, phase, &bases, (begin, end), scratch, wide)?;
    b.ins().return_(&[]);
    b.finalize(target.isa.frontend_config());
    Ok(function)
}

fn emit_phase(
    b: &mut FunctionBuilder<'_>,
    target: &Target,
    phase: &Phase,
    bases: &[Value],
    (begin, end): (Value, Value),
    scratch: Value,
    wide: Option<&mut WideRows>,
) -> Result<()> {
    let faults = Faults::default();
    let mut lanes = Lanes { b, target, faults: &faults };
    match phase {
        Phase::Nest(nest) => {
            let (axes, results) = (HashMap::new(), HashMap::new());
            NestEmitter { lanes, bases, scratch, axes, results, nest, wide }.run(begin, end);
        }
        Phase::Registers(l) => emit_loop(&mut lanes, l, bases),
        Phase::Sort(s) => sort::emit(lanes, s, bases, (begin, end), scratch),
        Phase::Contraction(_) | Phase::Call(_) | Phase::RandomState { .. } => {
            return Err(Error::Internal("a phase that is no loop nest reached the emitter of nests".into()));
        }
    }
    faults.check()
}

/// What a driver is made from.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) assignment: &'a Assignment,
    pub(super) phases: &'a HashMap<(KernelId, usize), PhaseCode>,
    pub(super) target: &'a Target,
    pub(super) calls: &'a Calls,
    /// The task function, where some phase is cut into tasks.
    pub(super) task: Option<u32>,
    /// The parameters and results that callers may make one.
    donated: &'a HashSet<(u32, u32)>,
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

/// More pointers than this are not loaded at the driver's start, but each where it is used.
const MOST_LOADED: usize = 64;

impl<'a> Pointers<'a> {
    fn new(b: &mut FunctionBuilder<'_>, base: Value, places: &'a [LeafPlace], load: usize) -> Self {
        let mut pointers = Pointers { base, places, loaded: Vec::new() };
        let loaded = (0..load as u32).map(|n| pointers.load(b, n)).collect();
        pointers.loaded = loaded;
        pointers
    }

    /// Where number `n` lies: in which of the caller's buffers, and how far in.
    pub(super) fn place(&self, n: u32) -> LeafPlace {
        self.places.get(n as usize).copied().unwrap_or(LeafPlace { leaf: n, offset: 0 })
    }

    fn load(&self, b: &mut FunctionBuilder<'_>, n: u32) -> Value {
        let place = self.place(n);
        let start = b.ins().load(types::I64, flags(), self.base, 8 * place.leaf as i32);
        if place.offset == 0 { start } else { b.ins().iadd_imm_s(start, place.offset as i64) }
    }

    fn get(&self, b: &mut FunctionBuilder<'_>, n: u32) -> Value {
        self.loaded.get(n as usize).copied().unwrap_or_else(|| self.load(b, n))
    }
}

/// The driver, or a part of it, while it is made.
pub(super) struct Driver<'a, 'b> {
    pub(super) b: FunctionBuilder<'b>,
    pub(super) around: Around<'a>,
    pub(super) parts: &'b mut Parts,
    pub(super) parameters: Pointers<'a>,
    pub(super) results: Pointers<'a>,
    pub(super) workspace: Value,
    pub(super) context: Value,
    functions: HashMap<u32, FuncRef>,
    /// The counter of the random number generator, where the program has one.
    pub(super) counter: Option<Counter>,
    /// What a task is told.
    pub(super) argument: Option<StackSlot>,
}

impl<'a> Driver<'a, '_> {
    /// The entry; the parts that it calls are added to `parts`.
    fn entry(around: Around<'a>, parts: &mut Parts) -> Result<Function> {
        let block = around.schedule.entry.ok_or_else(|| Error::Internal("a schedule without an entry".into()))?;
        Driver::make(around, parts, false, &mut |driver| {
            driver.prologue();
            driver.block(block)
        })
    }

    /// A function that does what `body` emits, and returns 0: the entry, or a part of it.
    pub(super) fn make(
        around: Around<'a>,
        parts: &mut Parts,
        is_part: bool,
        body: &mut dyn FnMut(&mut Driver<'_, '_>) -> Result<()>,
    ) -> Result<Function> {
        let own = signature(if is_part { PARAMETERS } else { PARAMETERS - 1 }, true);
        let mut function = Function::with_name_signature(UserFuncName::user(namespace::FUNCTION, 0), own);
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let values = enter(&mut b);
        let [parameters, results, workspace, context] = [0, 1, 2, 3].map(|i| values[i]);
        let schedule = around.schedule;
        let at_start = |n: usize| if is_part || n > MOST_LOADED { 0 } else { n };
        let (p, r) = (at_start(schedule.parameters.len()), at_start(schedule.results.len()));
        let parameters = Pointers::new(&mut b, parameters, &schedule.parameter_places, p);
        let results = Pointers::new(&mut b, results, &schedule.result_places, r);
        let counter = values.get(PARAMETERS - 1).filter(|_| around.calls.random).map(|&at| Counter::Pointer(at));
        let functions = HashMap::new();
        let argument = None;
        let mut driver =
            Driver { b, around, parts, parameters, results, workspace, context, functions, counter, argument };
        body(&mut driver)?;
        let ok = driver.b.ins().iconst(types::I32, 0);
        driver.b.ins().return_(&[ok]);
        driver.b.finalize(around.target.isa.frontend_config());
        Ok(function)
    }
}

impl Driver<'_, '_> {
    fn location(&self, v: ValueId) -> Result<Location> {
        self.around.assignment.locations[v].ok_or_else(|| Error::Internal(format!("{v} has no location")))
    }

    fn address(&mut self, location: Location) -> Value {
        match location {
            Location::Parameter(n) => self.parameters.get(&mut self.b, n),
            Location::Result(n) => self.results.get(&mut self.b, n),
            Location::Workspace(0) => self.workspace,
            Location::Workspace(offset) => self.b.ins().iadd_imm_s(self.workspace, offset as i64),
            Location::Constant(c) => self.data(c.as_u32()),
        }
    }

    /// The address of a data object.
    pub(super) fn data(&mut self, index: u32) -> Value {
        let name = UserExternalName { namespace: namespace::DATA, index };
        let name = self.b.func.declare_imported_user_function(name);
        let global = self.b.func.create_global_value(GlobalValueData::Symbol {
            name: ExternalName::user(name),
            offset: 0.into(),
            colocated: true,
            tls: false,
        });
        self.b.ins().symbol_value(types::I64, global)
    }

    pub(super) fn copy(&mut self, c: &Copy) {
        let (from, to) = (self.address(c.from), self.address(c.to));
        if !self.may_be_one(c) {
            copy(&mut self.b, from, to, c.bytes);
            return;
        }
        let (distinct, after) = (self.b.create_block(), self.b.create_block());
        let same = self.b.ins().icmp(IntCC::Equal, from, to);
        self.b.ins().brif(same, after, &[], distinct, &[]);
        self.b.switch_to_block(distinct);
        self.b.seal_block(distinct);
        copy(&mut self.b, from, to, c.bytes);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
    }

    /// Whether the caller may have made the two sides of a copy one.
    fn may_be_one(&self, c: &Copy) -> bool {
        let (Location::Parameter(p), Location::Result(r)) = (c.from, c.to) else { return false };
        self.around.donated.contains(&(p, r))
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Kernel { kernel, buffers } => self.kernel(*kernel, buffers),
            Step::While { condition, condition_result, body, .. } => {
                let (head, inner, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
                self.b.ins().jump(head, &[]);
                self.b.switch_to_block(head);
                self.block(*condition)?;
                let at = self.location(*condition_result)?;
                let at = self.address(at);
                let more = self.b.ins().load(types::I8, flags(), at, 0);
                self.b.ins().brif(more, inner, &[], after, &[]);
                self.b.switch_to_block(inner);
                self.b.seal_block(inner);
                self.block(*body)?;
                self.b.ins().jump(head, &[]);
                self.b.seal_block(head);
                self.b.switch_to_block(after);
                self.b.seal_block(after);
                Ok(())
            }
            Step::Conditional { index, is_pred, branches, .. } => {
                let at = self.location(*index)?;
                let at = self.address(at);
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
        let mut bases = Vec::new();
        for &v in buffers {
            let at = self.location(v)?;
            bases.push(self.address(at));
        }
        // Row buffers lie behind the values.
        let fixed = self.around.assignment.workspace.next_multiple_of(WORKSPACE_ALIGNMENT as u64);
        let scratch = self.b.ins().iadd_imm_s(self.workspace, fixed as i64);
        let mut arguments = None;
        for (p, phase) in kernel.phases.iter().enumerate() {
            match phase {
                Phase::Call(call) => {
                    self.call(id, call, &bases)?;
                    continue;
                }
                Phase::RandomState { delta } => {
                    self.random_state(*delta, &bases);
                    continue;
                }
                _ => {}
            }
            if let Some(&PhaseCode::Function(index, points, tasks)) = self.around.phases.get(&(id, p)) {
                let arguments = *arguments.get_or_insert_with(|| self_table(&mut self.b, &bases));
                self.run_phase(index, arguments, scratch, points, tasks);
                continue;
            }
            let points = if let Phase::Nest(nest) = phase { nest.points() } else { 1 };
            let (begin, end) = (self.b.ins().iconst(types::I64, 0), self.b.ins().iconst(types::I64, points));
            emit_phase(&mut self.b, self.around.target, phase, &bases, (begin, end), scratch, None)?;
        }
        Ok(())
    }

    /// A reference to a phase's function.
    pub(super) fn function(&mut self, index: u32) -> FuncRef {
        if let Some(&f) = self.functions.get(&index) {
            return f;
        }
        let signature = self.b.func.import_signature(signature(5, false));
        let f = import_function(self.b.func, index, signature);
        self.functions.insert(index, f);
        f
    }
}

/// A reference to another function of the program.
pub(super) fn import_function(func: &mut Function, index: u32, signature: SigRef) -> FuncRef {
    let name = UserExternalName { namespace: namespace::FUNCTION, index };
    let name = func.declare_imported_user_function(name);
    let name = ExternalName::user(name);
    func.import_function(ExtFuncData { name, signature, colocated: true, patchable: false })
}

/// Pointers in a table on the stack.
pub(super) fn self_table(b: &mut FunctionBuilder<'_>, pointers: &[Value]) -> Value {
    let size = 8 * pointers.len().max(1) as u32;
    let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3));
    for (i, &p) in pointers.iter().enumerate() {
        b.ins().stack_store(types::I64, p, slot, 8 * i as i32);
    }
    b.ins().stack_addr(types::I64, slot, 0)
}

/// Copies bytes: short runs straight, long ones in a loop of 64 bytes.
pub(super) fn copy(b: &mut FunctionBuilder<'_>, from: Value, to: Value, bytes: u64) {
    const STEP: u64 = 64;
    let f = flags();
    let whole = if bytes > 4 * STEP { bytes / STEP * STEP } else { 0 };
    if whole > 0 {
        let (head, after) = (b.create_block(), b.create_block());
        let i = b.declare_var(types::I64);
        let zero = b.ins().iconst(types::I64, 0);
        b.def_var(i, zero);
        b.ins().jump(head, &[]);
        b.switch_to_block(head);
        let now = b.use_var(i);
        let (source, target) = (b.ins().iadd(from, now), b.ins().iadd(to, now));
        let words: Vec<Value> = (0..8).map(|k| b.ins().load(types::I64, f, source, 8 * k)).collect();
        for (k, w) in words.into_iter().enumerate() {
            b.ins().store(f, w, target, 8 * k as i32);
        }
        let next = b.ins().iadd_imm_s(now, STEP as i64);
        b.def_var(i, next);
        let more = b.ins().icmp_imm_u(IntCC::UnsignedLessThan, next, whole as i64);
        b.ins().brif(more, head, &[], after, &[]);
        b.seal_block(head);
        b.switch_to_block(after);
        b.seal_block(after);
    }
    let (from, to) = (b.ins().iadd_imm_s(from, whole as i64), b.ins().iadd_imm_s(to, whole as i64));
    let mut at = 0;
    let rest = bytes - whole;
    for (ty, size) in [(types::I64, 8), (types::I32, 4), (types::I16, 2), (types::I8, 1)] {
        while rest - at >= size {
            let v = b.ins().load(ty, f, from, at as i32);
            b.ins().store(f, v, to, at as i32);
            at += size;
        }
    }
}
