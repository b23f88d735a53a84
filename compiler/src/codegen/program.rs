//! A program's functions, in order: tiles, phases with their rows, what launches tasks, the driver's parts, the driver.

use super::attribution::Attribution;
use super::clif::signature;
use super::contraction::{self, Plan, Surroundings};
use super::driver::{Around, Driver, Parts, PhaseCode, Shared, copies_much, phase_symbol};
use super::effort::{Effort, Executed, efforts};
use super::machine::{Declared, Source, compile_all};
use super::nest::{WideFunctions, WideRows, scratch_bytes};
use super::phase::phase_function;
use super::rows::Width;
use super::target::Target;
use super::tasks::{LAUNCH_PARAMETERS, Tasks, launch_function, task_function, task_signature};
use super::x86::{
    self,
    tile::{Blocks, Form},
};
use super::{sort, tile};
use crate::error::{Error, Result};
use crate::kernel::body::Variant;
use crate::kernel::ir::{Contraction, Kernel, Nest, Phase, Product};
use crate::memory::schedule::{Assignment, KernelId, Schedule, Step};
use crate::object::{Numbered, ObjectInput};
use crate::schedule::cost::elements_of_nest;
use crate::sources::Sources;
use brolga_runtime::abi::Services;
use cranelift_codegen::ir::{Function, Signature, UserFuncName};
use cranelift_codegen::isa::CallConv;
use cranelift_module::FuncId;
use hashbrown::HashMap;

/// What a compilation gives besides the functions and data in the object.
pub struct Code {
    /// The driver.
    pub entry: FuncId,
    /// Bytes of workspace besides the schedule's own, for each worker.
    pub per_worker: u64,
    /// CLIF of each function, where it was asked for.
    pub clif: Vec<String>,
    /// Services that the code uses where they are offered.
    pub services: Services,
}

/// Rows of less work, in elements times nodes of the body, stay in 128-bit registers: a call and the frame it is handed
/// cost some tens of cycles.
pub const WIDE_WORK: u64 = 192;

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct CodegenOptions<'s> {
    /// Threads that compile functions; 0 for as many as the machine has.
    pub threads: usize,
    /// Keep the text of each function.
    pub keep_clif: bool,
    /// Phases that compute fewer elements are not split among workers.
    pub grain: u64,
    /// Rows of less work are not given wide code; see [`WIDE_WORK`].
    pub wide_work: u64,
    /// How much of the code generator's time each function gets; what it is worth where nothing is said.
    pub effort: Option<Effort>,
    /// Numbers of what code comes from, where debuggers are to know.
    pub sources: Option<&'s Sources>,
}

/// Phases whose whole work is at most this many elements become part of the driver, and the only one where no workers share it.
const INLINE_ELEMENTS: i64 = 16;
/// A single row of so many elements does too: wide code computes it, or a few iterations.
const INLINE_ROW: i64 = 256;
/// So many at most.
const MAX_INLINED: usize = 64;

/// Compiles a schedule into an object that has what its targets share. Where the entry is `exported` it has the program's
/// name; where it is not, the names of the functions say the target's level.
///
/// # Errors
/// [`Error::Internal`] where Cranelift refuses what it is given.
pub fn compile(
    object: &mut ObjectInput,
    shared: &Shared,
    exported: bool,
    schedule: &Schedule,
    assignment: &Assignment,
    target: &Target,
    options: CodegenOptions<'_>,
) -> Result<Code> {
    let symbol = &shared.symbol;
    let entry = if exported { symbol.clone() } else { format!("{symbol}.{}", target.level) };
    // With more, loops of the driver's would share their registers with what it goes on with.
    let alone = schedule.kernels.values().map(|kernel| kernel.phases.len()).sum::<usize>() == 1;
    let mut functions = Functions::new(object, entry, target, options, alone);
    functions.tiles(schedule)?;
    let copier = functions.copier(assignment)?;
    for kernel in schedule.kernels.iter() {
        functions.kernel(kernel)?;
    }
    let launch = functions.launch()?;
    let mut parts = Parts::new(functions.object, functions.entry.clone());
    let donated = schedule.donated.iter().map(|&(parameter, result, _)| (parameter, result)).collect();
    let phases = &functions.phases;
    let sources = options.sources;
    let once = runs_once(schedule);
    let (donated, wide_work) = (&donated, options.wide_work);
    let around = Around { schedule, assignment, phases, target, shared, launch, copier, donated, sources, wide_work };
    let driver = Driver::entry(around, &mut parts)?;
    let Parts { functions: sections, rows, .. } = parts;
    let entry = functions.driver(driver, sections, once, exported)?;
    rows.into_iter().for_each(|(rows, attribution)| functions.push_rows(rows, attribution));
    let wanted = if launch.is_some() { Services::PARALLEL_FOR } else { Services::NONE };
    let clif = if options.keep_clif { functions.texts() } else { Vec::new() };
    let Functions { object, list, per_worker, .. } = functions;
    let efforts = match options.effort {
        Some(effort) => vec![effort; list.len()],
        None => efforts(list.iter().map(|function| function.source.executed()), once),
    };
    for (id, function) in compile_all(list, efforts, target, options.threads, options.keep_clif)? {
        object.define(id, function)?;
    }
    Ok(Code { entry, per_worker, clif, services: wanted })
}

/// Whether no function of a program is called in a loop, or loops itself in the driver.
fn runs_once(schedule: &Schedule) -> bool {
    let mut steps = schedule.blocks.values().flat_map(|block| &block.steps);
    let mut phases = schedule.kernels.values().flat_map(|kernel| &kernel.phases);
    !steps.any(|step| matches!(step, Step::While { .. })) && !phases.any(|phase| matches!(phase, Phase::Registers(_)))
}

/// The functions of a program while they are collected.
struct Functions<'a> {
    object: &'a mut ObjectInput,
    entry: String,
    target: &'a Target,
    options: CodegenOptions<'a>,
    list: Vec<Declared>,
    /// The tile of each product.
    tiles: HashMap<Product, FuncId>,
    phases: HashMap<(KernelId, usize), PhaseCode>,
    per_worker: u64,
    inlined: usize,
    /// Whether some phase is cut into tasks.
    split: bool,
    /// Whether a program has one phase.
    alone: bool,
}

impl<'a> Functions<'a> {
    fn new(
        object: &'a mut ObjectInput,
        entry: String,
        target: &'a Target,
        options: CodegenOptions<'a>,
        alone: bool,
    ) -> Functions<'a> {
        let (tiles, phases) = (HashMap::new(), HashMap::new());
        let list = Vec::new();
        let (per_worker, inlined, split) = (0, 0, false);
        Functions { object, entry, target, options, list, tiles, phases, per_worker, inlined, split, alone }
    }

    /// Declares a function whose name follows the entry's.
    fn declare(&mut self, name: &str, signature: &Signature) -> Result<FuncId> {
        self.object.function(&format!("{}.{name}", self.entry), false, signature)
    }

    /// What a function is made from that was declared, and belongs to the program as a whole.
    fn push(&mut self, id: FuncId, source: Source) {
        self.push_attributed(id, source, Attribution::of_entry(self.options.sources));
    }

    /// What a function is made from that was declared.
    fn push_attributed(&mut self, id: FuncId, source: Source, attribution: Attribution) {
        self.list.push(Declared { id, symbol: self.object.function_name(id), source, attribution });
    }

    /// The wide rows of a phase.
    fn push_rows(&mut self, rows: WideFunctions, attribution: Attribution) {
        for (id, row) in rows {
            self.push_attributed(id, Source::Machine(row.code), attribution);
        }
    }

    /// The tiles that contractions call, one for each product.
    fn tiles(&mut self, schedule: &Schedule) -> Result<()> {
        let mut all: Vec<(Product, Blocks)> = Vec::new();
        for phase in schedule.kernels.values().flat_map(|kernel| &kernel.phases) {
            let Phase::Contraction(c) = phase else { continue };
            let blocks = self.plan(c).blocks();
            match all.iter_mut().find(|(product, _)| *product == c.product) {
                Some((_, known)) => known.extend(blocks),
                None => all.push((c.product, blocks)),
            }
        }
        for (product, blocks) in all {
            let id = self.declare(&format!("tile.{product}"), &tile::signature(product))?;
            let source = match self.tile_form(product) {
                Some(form) => Source::Machine(x86::tile::function(form, &blocks)?),
                None => Source::clif(tile::function(id, product, self.target)?, None),
            };
            self.push(id, source);
            self.tiles.insert(product, id);
        }
        Ok(())
    }

    /// How a contraction is cut for its tile.
    fn plan(&self, c: &Contraction) -> Plan {
        Plan::new(c, self.tile_form(c.product))
    }

    /// The registers in which a product's tile is written, where the machine has wider ones than CLIF with an instruction for a
    /// step.
    fn tile_form(&self, product: Product) -> Option<Form> {
        let widest = match product {
            Product::F32 | Product::F64 => {
                let fuses = self.target.has_avx2() && self.target.variant == Variant::Fma;
                fuses.then(|| self.target.has_avx512())
            }
            Product::U8S8 | Product::S8U8 => self.target.byte_products().map(|width| width == Width::W512),
            Product::Bf16 => self.target.has_bf16_products().then_some(true),
            Product::S16 => self.target.widest_rows().map(|width| width == Width::W512),
        };
        Form::of(widest?, product)
    }

    /// The function that copies large arrays, where there are some and the machine has a better way than a loop.
    fn copier(&mut self, assignment: &Assignment) -> Result<Option<FuncId>> {
        if !self.target.is_x86() || !copies_much(assignment) {
            return Ok(None);
        }
        let id = self.declare("copy", &signature(3, false))?;
        self.push(id, Source::Machine(x86::copy::function()?));
        Ok(Some(id))
    }

    /// The phases of a kernel. Nests that follow each other and are not shared among workers, the borders of a window and what a cut
    /// leaves over, become one function.
    fn kernel(&mut self, (k, kernel): (KernelId, &Kernel)) -> Result<()> {
        let mut p = 0;
        while let Some(rest) = kernel.phases.get(p..).filter(|rest| !rest.is_empty()) {
            let nests: Vec<&Nest> = rest.iter().map_while(|phase| self.joins(phase)).collect();
            let code = match (rest, nests.len()) {
                ([phase, ..], ..=1) => self.phase((k, kernel), p, phase)?,
                (_, joined) => {
                    self.per_worker = nests.iter().map(|nest| scratch_bytes(nest)).fold(self.per_worker, u64::max);
                    let symbol = phase_symbol(&self.entry, (k, kernel), p);
                    PhaseCode::Function(self.outlined(symbol, kernel, &rest[..joined])?, 1, None)
                }
            };
            self.phases.insert((k, p), code);
            self.phases.extend((p + 1..p + nests.len()).map(|p| ((k, p), PhaseCode::Joined)));
            p += nests.len().max(1);
        }
        Ok(())
    }

    /// The nest of a phase that is one of some size, and that no workers share.
    fn joins<'p>(&self, phase: &'p Phase) -> Option<&'p Nest> {
        let alone = |nest: &&Nest| Tasks::of_nest(nest, self.options.grain).is_none();
        phase.as_nest().filter(|nest| elements_of_nest(nest) > INLINE_ELEMENTS).filter(alone)
    }

    /// A phase of a kernel, by its number: part of the driver, or a function.
    fn phase(&mut self, (k, kernel): (KernelId, &Kernel), p: usize, phase: &Phase) -> Result<PhaseCode> {
        let grain = self.options.grain;
        let (inline, points, tasks, scratch) = match phase {
            Phase::Nest(nest) => {
                let tasks = Tasks::of_nest(nest, grain);
                let alone = self.alone && tasks.is_none();
                let is_row = nest.points() == 1 && nest.stages.iter().all(|stage| stage.sequential.is_empty());
                let most = if is_row { INLINE_ROW } else { INLINE_ELEMENTS };
                let small = (alone || elements_of_nest(nest) <= most) && self.inlined < MAX_INLINED;
                self.inlined += usize::from(small);
                (small, nest.points(), tasks, scratch_bytes(nest))
            }
            Phase::Sort(sort) => (false, sort.points(), Tasks::of_sort(sort, grain), sort::scratch_bytes(sort)),
            Phase::Contraction(c) => {
                let plan = self.plan(c);
                (false, plan.points(), Tasks::of_contraction(c, plan.points(), grain), plan.scratch_bytes())
            }
            Phase::Registers(l) => (l.state.len() <= INLINE_ELEMENTS as usize, 1, None, 0),
            Phase::Call(_) | Phase::RandomState { .. } => (true, 1, None, 0),
        };
        self.per_worker = self.per_worker.max(scratch);
        if inline {
            return Ok(PhaseCode::Inline);
        }
        self.split |= tasks.is_some();
        let symbol = phase_symbol(&self.entry, (k, kernel), p);
        Ok(PhaseCode::Function(self.outlined(symbol, kernel, std::slice::from_ref(phase))?, points, tasks))
    }

    /// The function of phases and, behind it, the wide rows that it calls.
    fn outlined(&mut self, symbol: String, kernel: &Kernel, phases: &[Phase]) -> Result<FuncId> {
        let (id, target) = (self.object.function(&symbol, false, &signature(5, false))?, self.target);
        let attribution = Attribution::of_kernel(self.options.sources, kernel);
        let plan = if let [Phase::Contraction(c)] = phases { Some(self.plan(c)) } else { None };
        let mut rows = WideRows::new(self.object, symbol, target, self.options.wide_work);
        let (function, executed) = match (phases, plan) {
            ([Phase::Contraction(c)], Some(plan)) => {
                let missing = || Error::Internal(format!("there is no tile for {}", c.product));
                let tile = self.tiles.get(&c.product).copied().ok_or_else(missing)?;
                let around = Surroundings { kernel, target, tile, plan, attribution };
                let (function, executed) = contraction::function(id, signature(5, false), c, around, rows.as_mut())?;
                (function, Some(executed))
            }
            _ => phase_function((id, attribution), phases, target, rows.as_mut())?,
        };
        let rows = rows.map(|w| w.functions).unwrap_or_default();
        self.push_attributed(id, Source::clif(function, executed), attribution);
        self.push_rows(rows, attribution);
        Ok(id)
    }

    /// The launch function and the task function, where some phase is cut into tasks.
    fn launch(&mut self) -> Result<Option<FuncId>> {
        if !self.split {
            return Ok(None);
        }
        let target = self.target;
        let task = self.declare("task", &task_signature(target))?;
        let launch = self.declare("launch", &signature(LAUNCH_PARAMETERS, true))?;
        let (of_task, of_launch) = if target.is_x86() && target.host_convention() == CallConv::SystemV {
            (Source::Machine(x86::tasks::task(self.per_worker)?), Source::Machine(x86::tasks::launch(task)?))
        } else {
            // A task is some microseconds of work.
            let clif = |function| Source::clif(function, Some(Executed::default()));
            (clif(task_function(task, self.per_worker, target)), clif(launch_function(launch, task, target)))
        };
        self.push(task, of_task);
        self.push(launch, of_launch);
        Ok(Some(launch))
    }

    /// The parts of the driver, and the driver itself, which alone has the entry's name; what they execute is known where they run
    /// `once`.
    fn driver(
        &mut self,
        (mut driver, executed): (Function, Executed),
        parts: Vec<(FuncId, Function, Executed)>,
        once: bool,
        exported: bool,
    ) -> Result<FuncId> {
        for (id, part, executed) in parts {
            self.push(id, Source::clif(part, once.then_some(executed)));
        }
        let id = self.object.function(&self.entry, exported, &driver.signature)?;
        driver.name = UserFuncName::User(id.external_name());
        self.push(id, Source::clif(driver, once.then_some(executed)));
        Ok(id)
    }

    /// CLIF of the functions that have it.
    fn texts(&self) -> Vec<String> {
        let text = |Declared { symbol, source, .. }: &Declared| match source {
            Source::Clif(f, _) => Some(format!("; {symbol}\n{}", f.display())),
            Source::Machine(_) => None,
        };
        self.list.iter().filter_map(text).collect()
    }
}
