//! A program's functions, in order: tiles, phases with their rows, the task function, the driver's parts, the driver.

use super::clif::signature;
use super::contraction::{self, Plan, Surroundings};
use super::driver::{Around, Calls, Driver, Parts, PhaseCode, Tasks, copies_much, task_function};
use super::machine::{Source, compile_all};
use super::nest::{WideRows, scratch_bytes};
use super::phase::phase_function;
use super::target::Target;
use super::x86::{
    self,
    tile::{Extents, Form},
};
use super::{sort, tile};
use crate::error::{Error, Result};
use crate::kernel::body::Variant;
use crate::kernel::ir::{Kernel, Phase};
use crate::memory::schedule::{Assignment, KernelId, Schedule};
use crate::object::{CompiledFunction, DataObject, namespace};
use crate::schedule::cost::elements_of_nest;
use brolga_runtime::ElementType;
use brolga_runtime::abi::{CustomCallInfo, Services};
use cranelift_codegen::ir::{Function, UserFuncName};
use std::collections::HashMap;

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
    let mut functions = Functions::new(entry, target, options);
    functions.tiles(schedule)?;
    let copier = functions.copier(assignment)?;
    for (k, kernel) in schedule.kernels.iter() {
        for (p, phase) in kernel.phases.iter().enumerate() {
            functions.phase((k, kernel), (p, phase))?;
        }
    }
    let task = functions.task();
    let calls = Calls::of(schedule);
    let first_table = (schedule.constants.len() + calls.words.len()) as u32;
    let mut parts = Parts::new(functions.next(), first_table);
    let donated = schedule.donated.iter().map(|&(parameter, result, _)| (parameter, result)).collect();
    let phases = &functions.phases;
    let around = Around { schedule, assignment, phases, target, calls: &calls, task, copier, donated: &donated };
    let driver = Driver::entry(around, &mut parts)?;
    let Parts { functions: sections, tables, .. } = parts;
    functions.driver(driver, sections);
    let mut data: Vec<DataObject> = Vec::new();
    for (i, words) in calls.words.iter().enumerate() {
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        data.push(DataObject::constant(format!("{symbol}.call.{i}"), 8, bytes));
    }
    let tables = tables.into_iter().enumerate();
    data.extend(tables.map(|(i, bytes)| DataObject::constant(format!("{symbol}.copies.{i}"), 8, bytes)));
    let services = if task.is_some() { Services::PARALLEL_FOR } else { Services::NONE };
    let clif = if options.keep_clif { functions.texts() } else { Vec::new() };
    let Functions { list, per_worker, .. } = functions;
    let last = list.len() - 1;
    let functions = compile_all(list, target, options.threads, exported.then_some(last))?;
    let (needed, custom_calls) = (calls.services, calls.functions);
    Ok(Code { functions, data, per_worker, clif, services, needed, custom_calls })
}

/// The functions of a program while they are collected.
struct Functions<'a> {
    entry: String,
    target: &'a Target,
    options: CodegenOptions,
    list: Vec<(String, Source)>,
    /// The tile of each type, by number.
    tiles: HashMap<ElementType, u32>,
    phases: HashMap<(KernelId, usize), PhaseCode>,
    per_worker: u64,
    inlined: usize,
    /// Whether some phase is cut into tasks.
    split: bool,
}

impl<'a> Functions<'a> {
    fn new(entry: String, target: &'a Target, options: CodegenOptions) -> Functions<'a> {
        let (tiles, phases) = (HashMap::new(), HashMap::new());
        let list = Vec::new();
        Functions { entry, target, options, list, tiles, phases, per_worker: 0, inlined: 0, split: false }
    }

    /// The number of the next function.
    fn next(&self) -> u32 {
        self.list.len() as u32
    }

    /// Adds a function whose name follows the entry's; its number.
    fn push(&mut self, name: &str, source: Source) -> u32 {
        let index = self.next();
        self.list.push((format!("{}.{name}", self.entry), source));
        index
    }

    /// The tiles that contractions call, one for each type.
    fn tiles(&mut self, schedule: &Schedule) -> Result<()> {
        let mut extents: Vec<(ElementType, Extents)> = Vec::new();
        for phase in schedule.kernels.values().flat_map(|kernel| &kernel.phases) {
            let Phase::Contraction(c) = phase else { continue };
            let blocks = Plan::new(c).extents();
            match extents.iter_mut().find(|(ty, _)| *ty == c.ty) {
                Some((_, all)) => all.extend(blocks),
                None => extents.push((c.ty, blocks)),
            }
        }
        for (ty, extents) in extents {
            let form = Form { widest: self.target.has_avx512(), double: ty == ElementType::F64 };
            let tile = if self.target.has_avx2() && self.target.variant == Variant::Fma {
                Source::Machine(x86::tile::function(form, &extents)?.code)
            } else {
                Source::clif(tile::function(self.next(), ty, self.target))
            };
            let index = self.push(&format!("tile.{ty}"), tile);
            self.tiles.insert(ty, index);
        }
        Ok(())
    }

    /// The function that copies large arrays, where there are some and the machine has a better way than a loop.
    fn copier(&mut self, assignment: &Assignment) -> Result<Option<u32>> {
        if !self.target.is_x86() || !copies_much(assignment) {
            return Ok(None);
        }
        let source = Source::Machine(x86::copy::function()?.code);
        Ok(Some(self.push("copy", source)))
    }

    /// A phase of a kernel: part of the driver, or a function.
    fn phase(&mut self, (k, kernel): (KernelId, &Kernel), (p, phase): (usize, &Phase)) -> Result<()> {
        let inline = match phase {
            Phase::Call(_) | Phase::RandomState { .. } => true,
            Phase::Registers(l) => l.state.len() <= INLINE_ELEMENTS as usize,
            Phase::Nest(nest) => {
                let small = elements_of_nest(nest) <= INLINE_ELEMENTS && self.inlined < MAX_INLINED;
                self.inlined += usize::from(small);
                small
            }
            Phase::Sort(_) | Phase::Contraction(_) => false,
        };
        let grain = self.options.grain;
        let (points, tasks, scratch) = match phase {
            Phase::Nest(nest) => (nest.points(), Tasks::of_nest(nest, grain), scratch_bytes(nest)),
            Phase::Sort(sort) => (sort.points(), Tasks::of_sort(sort, grain), sort::scratch_bytes(sort)),
            Phase::Contraction(c) => {
                let plan = Plan::new(c);
                (plan.points(), Tasks::of_contraction(c, plan.points(), grain), plan.scratch_bytes())
            }
            Phase::Registers(_) | Phase::Call(_) | Phase::RandomState { .. } => (1, None, 0),
        };
        self.per_worker = self.per_worker.max(scratch);
        let code = if inline {
            PhaseCode::Inline
        } else {
            self.split |= tasks.is_some();
            PhaseCode::Function(
                self.outlined(&format!("{}.{}.{p}", k.as_u32(), kernel.name), kernel, phase)?,
                points,
                tasks,
            )
        };
        self.phases.insert((k, p), code);
        Ok(())
    }

    /// The function of a phase and, behind it, the 256-bit rows that it calls; the number of the first.
    fn outlined(&mut self, name: &str, kernel: &Kernel, phase: &Phase) -> Result<u32> {
        let (index, target) = (self.next(), self.target);
        let mut rows = self.wide_rows(index);
        let function = match phase {
            Phase::Contraction(c) => {
                let missing = || Error::Internal(format!("there is no tile for {}", c.ty));
                let tile = self.tiles.get(&c.ty).copied().ok_or_else(missing)?;
                let around = Surroundings { kernel, target, tile };
                contraction::function(index, signature(5, false), c, &around, rows.as_mut())?
            }
            _ => phase_function(index, kernel, phase, target, rows.as_mut())?,
        };
        self.push(name, Source::clif(function));
        for (i, row) in rows.into_iter().flat_map(|w| w.functions).enumerate() {
            self.push(&format!("{name}.row{i}"), Source::Machine(row.code));
        }
        Ok(index)
    }

    /// Where the rows of the function of that number may go.
    fn wide_rows(&self, function: u32) -> Option<WideRows> {
        self.target.widest_rows().map(|widest| WideRows {
            first: function + 1,
            functions: Vec::new(),
            widest,
            fma: self.target.variant == Variant::Fma,
            least_work: i64::try_from(self.options.wide_work).unwrap_or(i64::MAX),
        })
    }

    /// The task function, where some phase is cut into tasks.
    fn task(&mut self) -> Option<u32> {
        self.split.then(|| {
            let task = task_function(self.next(), self.per_worker, self.target);
            self.push("task", Source::clif(task))
        })
    }

    /// The parts of the driver, and the driver itself, which alone has the entry's name.
    fn driver(&mut self, mut driver: Function, parts: Vec<(String, Function)>) {
        for (name, part) in parts {
            self.push(&name, Source::clif(part));
        }
        driver.name = UserFuncName::user(namespace::FUNCTION, self.next());
        self.list.push((self.entry.clone(), Source::clif(driver)));
    }

    /// CLIF of the functions that have it.
    fn texts(&self) -> Vec<String> {
        let text = |(name, source): &(String, Source)| match source {
            Source::Clif(f) => Some(format!("; {name}\n{}", f.display())),
            Source::Machine(_) => None,
        };
        self.list.iter().filter_map(text).collect()
    }
}
