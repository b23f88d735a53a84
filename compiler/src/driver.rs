//! From a module to an artifact: the rooms, one after another.

use crate::codegen::levels;
use crate::codegen::queries::workspace_size;
use crate::codegen::rows;
use crate::codegen::selector::selector;
use crate::codegen::target::{Target, TargetOptions};
use crate::codegen::{CodegenOptions, DEFAULT_GRAIN, Effort, WIDE_WORK};
use crate::collective::Grid;
use crate::error::{Error, Result, Site};
use crate::hlo::{Module, tensor_flags};
use crate::kernel::body::Variant;
use crate::kernel::ir::Kernel;
use crate::kernel::lower::Numerics;
use crate::kernel::lower::words::Filling;
use crate::kernel::verify;
use crate::memory;
use crate::memory::schedule::{Assignment, Definition, LeafPlace, Schedule, ValueId};
use crate::object::{self, ObjectInput};
use crate::passes::{self, PassOptions, PipelineStats};
use crate::shape;
use crate::sources::{DebugLines, Sources};
use brolga_runtime::abi::{
    Alias, DescriptorInfo, IsaFeatures, Leaf, NumericVariant, OpenDimension, TensorFlags, leaf_byte_size, size_text,
};
use brolga_runtime::{ArrayShape, Layout, Shape};
use cranelift_module::FuncId;
use hashbrown::HashSet;
use std::time::{Duration, Instant};

/// How to compile a module.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// What to compile for.
    pub target: TargetOptions,
    /// Symbol of the entry function; `None` for one made from the module's name.
    pub name: Option<String>,
    /// How the passes run.
    pub passes: PassOptions,
    /// Threads that compile functions; 0 for as many as the machine has. The object does not depend on it.
    pub threads: usize,
    /// Phases that compute fewer elements are not split among workers; `None` for
    /// [`DEFAULT_GRAIN`](crate::codegen::DEFAULT_GRAIN). Results do not depend on it.
    pub parallel_grain: Option<u64>,
    /// Rows of loops with less work, in elements times operations, are not given code of 256 or 512 bits; `None` for
    /// [`WIDE_WORK`](crate::codegen::WIDE_WORK). Results do not depend on it.
    pub wide_work: Option<u64>,
    /// How much of the code generator's time each function gets; `None` for what it is worth, by what it executes. Results do not depend
    /// on it.
    pub effort: Option<Effort>,
    /// Round 16-bit and 8-bit floats after every operation.
    pub strict_rounding: bool,
    /// How many replicas the program runs on, and partitions of each; `None` for what the module says, or where its groups
    /// and pairs name more, as many as they name.
    pub devices: Option<Grid>,
    /// Keep CLIF and assembly as text.
    pub keep_texts: bool,
    /// Write a shared library too, which calls itself so: the name of its file (`DT_SONAME`).
    pub shared: Option<String>,
    /// Tell debuggers where code comes from: the object gets sections of DWARF. Code and constants do not depend on it.
    pub debug_lines: Option<DebugLines>,
}

impl CompileOptions {
    /// For a program that runs at once: code for the machine at hand alone.
    pub fn native() -> CompileOptions {
        CompileOptions { target: TargetOptions::native(), ..CompileOptions::default() }
    }
}

/// How long each part of a compilation took.
pub type Timings = Vec<(&'static str, Duration)>;

/// A compiled module.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The object file.
    pub object: Vec<u8>,
    /// The shared library, where [`CompileOptions::shared`] asked for one.
    pub shared: Option<Vec<u8>>,
    /// What it says of itself.
    pub descriptor: DescriptorInfo,
    /// The module as the passes left it.
    pub module: Module,
    /// The kernels and steps.
    pub schedule: Schedule,
    /// Where each value lies.
    pub assignment: Assignment,
    /// CLIF of each function, where texts were asked for.
    pub clif: String,
    /// Assembly of each function, where texts were asked for.
    pub asm: String,
    /// What the passes did.
    pub passes: PipelineStats,
    /// How long each part took.
    pub timings: Timings,
}

impl Artifact {
    /// The steps and the kernels as text.
    pub fn kernel_text(&self) -> String {
        self.schedule.to_string()
    }

    /// The plan of each row loop, by kernel, phase and stage.
    pub fn rows_text(&self) -> String {
        rows::describe(self.schedule.kernels.values())
    }
}

/// A symbol made of a module's name: letters, digits and underscores.
pub fn symbol_name(module: &str) -> String {
    let mut out: String = module.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Compiles a verified module.
///
/// # Errors
/// [`crate::Error::Unsupported`] names what has no compiled form yet, [`crate::Error::Target`] what is wrong with the target.
pub fn compile(module: &Module, options: &CompileOptions) -> Result<Artifact> {
    compile_with(module, options, &mut |_, _| {})
}

/// As [`compile`]; `observe` sees the module after each pass, with the pass's name.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(
    module: &Module,
    options: &CompileOptions,
    observe: &mut dyn FnMut(&str, &Module),
) -> Result<Artifact> {
    let mut input = ObjectInput::new();
    let Translated { target, mut artifact, .. } = translate(&mut input, module, options, observe)?;
    let clock = Instant::now();
    input.describe(artifact.descriptor.clone())?;
    artifact.object = object::write(&input, &target.isa)?;
    artifact.shared = shared_library(&input, &target, options)?;
    artifact.timings.push(("object", clock.elapsed()));
    Ok(artifact)
}

/// A program that was compiled for several sizes.
#[derive(Clone, Debug)]
pub struct SizedArtifact {
    /// The object file: for each size the entry `NAME__SIZES` and its descriptor, and the selector `NAME_select`.
    pub object: Vec<u8>,
    /// The shared library with the same symbols, where [`CompileOptions::shared`] asked for one.
    pub shared: Option<Vec<u8>>,
    /// The name of the whole.
    pub name: String,
    /// What was compiled for each size. The code of all is in the one object: their own are empty.
    pub sizes: Vec<Artifact>,
}

impl SizedArtifact {
    /// What the entries say of themselves.
    pub fn descriptors(&self) -> Vec<DescriptorInfo> {
        self.sizes.iter().map(|s| s.descriptor.clone()).collect()
    }
}

/// Compiles the sizes of one program into one object. `open` are the dimensions whose sizes tell the modules apart, as
/// [`front::read_sizes`](crate::front::read_sizes) finds them.
///
/// # Errors
/// As [`compile`]; `Invalid` where two modules are of one size.
pub fn compile_sizes(modules: &[Module], open: &[OpenDimension], options: &CompileOptions) -> Result<SizedArtifact> {
    compile_sizes_with(modules, open, options, &mut |_, _| {})
}

/// As [`compile_sizes`]; `observe` sees each module after each pass, with the size and the pass's name.
///
/// # Errors
/// As [`compile_sizes`].
pub fn compile_sizes_with(
    modules: &[Module],
    open: &[OpenDimension],
    options: &CompileOptions,
    observe: &mut dyn FnMut(&str, &Module),
) -> Result<SizedArtifact> {
    let fault = |constraint: &'static str, message: &str| {
        Err(Error::Invalid { site: Site::default(), constraint, message: message.to_owned() })
    };
    let Some(first) = modules.first() else { return fault("sizes.count", "expected one size at least") };
    if open.is_empty() {
        return fault("sizes.open", "expected a program that leaves sizes of its arguments open");
    }
    let name = options.name.clone().unwrap_or_else(|| symbol_name(&first.name));
    let (mut input, mut entries) = (ObjectInput::new(), Vec::new());
    let (mut sizes, mut machine) = (Vec::<Artifact>::new(), None);
    for module in modules {
        let size = size_of(module, open)?;
        let text = size_text(open, &size);
        if sizes.iter().any(|s| s.descriptor.sizes() == size) {
            return fault("sizes.distinct", &format!("expected different sizes, found {text} twice"));
        }
        let options = CompileOptions { name: Some(format!("{name}__{text}")), ..options.clone() };
        let mut observe = |pass: &str, module: &Module| observe(&format!("{text}-{pass}"), module);
        let Translated { target, entry, mut artifact } = translate(&mut input, module, &options, &mut observe)?;
        artifact.descriptor.open = open.to_vec();
        entries.push((entry, input.describe(artifact.descriptor.clone())?));
        sizes.push(artifact);
        machine = Some(target);
    }
    let Some(target) = machine else { return fault("sizes.count", "expected one size at least") };
    let all: Vec<Vec<i64>> = sizes.iter().map(|s| s.descriptor.sizes()).collect();
    selector(&mut input, &format!("{name}_select"), &all, &entries, &target)?;
    let object = object::write(&input, &target.isa)?;
    let shared = shared_library(&input, &target, options)?;
    Ok(SizedArtifact { object, shared, name, sizes })
}

/// A program of several computations.
#[derive(Clone, Debug)]
pub struct ProgramArtifact {
    /// The object file: for each computation the entry `NAME_COMPUTATION` and its descriptor.
    pub object: Vec<u8>,
    /// The shared library with the same symbols, where [`CompileOptions::shared`] asked for one.
    pub shared: Option<Vec<u8>>,
    /// The name of the whole.
    pub name: String,
    /// What was compiled for each computation. The code of all is in the one object: their own are empty.
    pub computations: Vec<Artifact>,
}

/// Compiles modules into one object with an entry for each, called `NAME_MODULE`, where `NAME` is that of the options.
///
/// # Errors
/// As [`compile`]; `Invalid` where there is no module or no name, or where the names of two give
/// one symbol.
pub fn compile_computations(modules: &[Module], options: &CompileOptions) -> Result<ProgramArtifact> {
    let fault =
        |constraint: &'static str, message: String| Err(Error::Invalid { site: Site::default(), constraint, message });
    let Some(name) = options.name.clone() else {
        return fault("program.name", "expected a name for the program of several computations".to_owned());
    };
    let (mut input, mut computations, mut machine) = (ObjectInput::new(), Vec::<Artifact>::new(), None);
    let mut symbols = HashSet::new();
    for module in modules {
        let entry = format!("{name}_{}", symbol_name(&module.name));
        for symbol in object::exported_symbols(&entry) {
            if let Some(twice) = symbols.replace(symbol) {
                return fault("program.distinct", format!("expected different symbols, found '{twice}' twice"));
            }
        }
        let options = CompileOptions { name: Some(entry), ..options.clone() };
        let Translated { target, artifact, .. } = translate(&mut input, module, &options, &mut |_, _| {})?;
        input.describe(artifact.descriptor.clone())?;
        computations.push(artifact);
        machine = Some(target);
    }
    let Some(target) = machine else {
        return fault("program.count", "expected one computation at least".to_owned());
    };
    let object = object::write(&input, &target.isa)?;
    let shared = shared_library(&input, &target, options)?;
    Ok(ProgramArtifact { object, shared, name, computations })
}

/// The shared library of what is in an object, where one was asked for.
fn shared_library(input: &ObjectInput, target: &Target, options: &CompileOptions) -> Result<Option<Vec<u8>>> {
    let Some(name) = &options.shared else { return Ok(None) };
    let query = |d: &DescriptorInfo| workspace_size(&object::workspace_size_symbol(d), d, target);
    let queries = input.descriptors().iter().map(|(_, d)| query(d)).collect::<Result<Vec<_>>>()?;
    object::write_shared(input, &queries, &*target.isa, name).map(Some)
}

/// The sizes of the open dimensions in a module that was made for one size.
///
/// # Errors
/// `Internal` where the module has no such dimensions.
pub fn size_of(module: &Module, open: &[OpenDimension]) -> Result<Vec<i64>> {
    let entry = module.entry();
    let parameters = entry.parameters();
    let leaves: Vec<&ArrayShape> =
        parameters.iter().flat_map(|&p| entry.instructions[p].shape.leaves()).filter_map(Shape::as_array).collect();
    let of = |open: &OpenDimension| {
        let leaf = leaves.get(open.parameter as usize);
        leaf.and_then(|leaf| leaf.dims.get(open.dimension as usize)).copied()
    };
    open.iter()
        .map(of)
        .collect::<Option<_>>()
        .ok_or_else(|| Error::Internal("an open dimension is none of the module's".to_owned()))
}

/// A module as machine code in an object that is still to be described and written.
struct Translated {
    target: Target,
    /// The function that callers call.
    entry: FuncId,
    /// Its object is empty.
    artifact: Artifact,
}

fn translate(
    input: &mut ObjectInput,
    module: &Module,
    options: &CompileOptions,
    observe: &mut dyn FnMut(&str, &Module),
) -> Result<Translated> {
    let mut timings = Timings::new();
    let mut clock = Instant::now();
    let mut lap = |name| {
        timings.push((name, clock.elapsed()));
        clock = Instant::now();
    };
    shape::verify_runnable(module)?;
    check_interface(module)?;
    let mut targets = Target::levels(&options.target)?;
    let variant = lowest(&targets)?.variant;
    lap("target");
    let mut module = module.clone();
    let grid = options.devices.unwrap_or_else(|| Grid::needed(&module)).check()?;
    // From here on the module says it.
    module.config.replica_count = Some(grid.replicas as i64);
    module.config.num_partitions = Some(grid.partitions as i64);
    let pass_stats = passes::optimize_with(&mut module, &options.passes, observe)?;
    lap("passes");
    // What every level has: 256 bits bring sums of two products.
    let fills = [
        (Filling::Bytes, targets.iter().all(|target| target.byte_products().is_some())),
        (Filling::Halves, targets.iter().all(Target::has_avx2)),
    ];
    let words = fills.into_iter().find_map(|(filling, there)| there.then_some(filling));
    let bf16_words = targets.iter().all(Target::has_bf16_products);
    let numerics = Numerics { variant, strict_rounding: options.strict_rounding, words, bf16_words };
    let schedule = memory::build(&module, numerics)?;
    lap("kernels");
    let assignment = memory::assign(&schedule).map_err(|e| at_largest(e, &module, &schedule))?;
    memory::check(&schedule, &assignment)?;
    lap("memory");
    let symbol = options.name.clone().unwrap_or_else(|| symbol_name(&module.name));
    let interface = Interface { symbol, module_name: module.name.clone(), leaves: leaves(&module), grid };
    let before = input.functions().count();
    let sources = options.debug_lines.as_ref().map(|lines| Sources::declare(input, &module, lines)).transpose()?;
    let planned = Planned { schedule: &schedule, assignment: &assignment, sources: sources.as_ref() };
    let emitted = emit(input, interface, planned, &targets, options, &mut lap)?;
    let target = targets.swap_remove(0);
    let Emitted { entry, descriptor, clif } = emitted;
    let asm = match options.keep_texts {
        true => object::disassemble_object(input, before, &*target.isa)?,
        false => String::new(),
    };
    let (object, shared) = (Vec::new(), None);
    let artifact =
        Artifact { object, shared, descriptor, module, schedule, assignment, clif, asm, passes: pass_stats, timings };
    Ok(Translated { target, entry, artifact })
}

/// Compiles a kernel alone: its inputs are the parameters of the entry, its outputs the results. What it writes in the place
/// of an input (see [`Role::Update`](crate::kernel::ir::Role::Update)) is a result of its own.
///
/// # Errors
/// [`Error::Internal`] where the kernel breaks a rule, and as [`compile`].
pub fn compile_kernel(kernel: &Kernel, options: &CompileOptions) -> Result<(Schedule, Vec<u8>)> {
    verify::verify(kernel)?;
    let targets = Target::levels(&options.target)?;
    let schedule = Schedule::of_kernel(kernel);
    let assignment = memory::assign(&schedule)?;
    memory::check(&schedule, &assignment)?;
    let symbol = options.name.clone().unwrap_or_else(|| symbol_name(&kernel.name));
    let leaf = |v: &ValueId| Leaf::new(schedule.values[*v].shape.clone());
    let leaves = (schedule.parameters.iter().map(leaf).collect(), schedule.results.iter().map(leaf).collect());
    let grid = Grid::ONE;
    let interface = Interface { symbol, module_name: kernel.name.clone(), leaves, grid };
    let mut input = ObjectInput::new();
    let planned = Planned { schedule: &schedule, assignment: &assignment, sources: None };
    let emitted = emit(&mut input, interface, planned, &targets, options, &mut |_| {})?;
    input.describe(emitted.descriptor)?;
    let object = object::write(&input, &lowest(&targets)?.isa)?;
    Ok((schedule, object))
}

/// What callers see of a program.
struct Interface {
    symbol: String,
    module_name: String,
    /// Parameters and results.
    leaves: (Vec<Leaf>, Vec<Leaf>),
    /// The devices that it runs on.
    grid: Grid,
}

/// What there is of a schedule besides its machine code; CLIF where texts were asked for.
struct Emitted {
    entry: FuncId,
    descriptor: DescriptorInfo,
    clif: String,
}

/// What callers are promised: the lowest of the levels.
fn lowest(targets: &[Target]) -> Result<&Target> {
    targets.first().ok_or_else(|| Error::Internal("there is no target".to_owned()))
}

/// What code is made of.
struct Planned<'a> {
    schedule: &'a Schedule,
    assignment: &'a Assignment,
    /// Numbers of what it comes from, where debuggers are to know.
    sources: Option<&'a Sources>,
}

fn emit(
    input: &mut ObjectInput,
    interface: Interface,
    Planned { schedule, assignment, sources }: Planned<'_>,
    targets: &[Target],
    options: &CompileOptions,
    lap: &mut dyn FnMut(&'static str),
) -> Result<Emitted> {
    let target = lowest(targets)?;
    let grain = options.parallel_grain.unwrap_or(DEFAULT_GRAIN);
    let wide_work = options.wide_work.unwrap_or(WIDE_WORK);
    let (keep_clif, effort) = (options.keep_texts, options.effort);
    let codegen = CodegenOptions { threads: options.threads, keep_clif, grain, wide_work, effort, sources };
    let code = levels::compile(input, &interface.symbol, schedule, assignment, targets, codegen)?;
    lap("codegen");
    let mut descriptor = DescriptorInfo::new(&interface.symbol, object::architecture(&*target.isa)?);
    descriptor.module_name = interface.module_name;
    // `Grid::check` bounds both.
    descriptor.devices = [interface.grid.replicas as u32, interface.grid.partitions as u32];
    let mut levels = Vec::new();
    for target in targets {
        let known = target.features.iter().filter_map(|f| IsaFeatures::from_name(f));
        levels.push(known.fold(IsaFeatures::NONE, IsaFeatures::union));
    }
    descriptor.features = levels.first().copied().unwrap_or_default();
    if levels::asks(targets) {
        descriptor.levels = levels;
    }
    descriptor.variant = match target.variant {
        Variant::Fma => NumericVariant::Fma,
        Variant::NoFma => NumericVariant::Plain,
    };
    descriptor.workspace_fixed = assignment.workspace;
    descriptor.workspace_per_worker = code.per_worker;
    (descriptor.parameters, descriptor.results) = interface.leaves;
    // Callers count leaves, the schedule counts the sizes of a dynamic leaf as one more.
    let alias = |&(parameter, result, must): &(u32, u32, bool)| {
        let parameter = LeafPlace::of(&schedule.parameter_places, parameter)?.leaf;
        let result = LeafPlace::of(&schedule.result_places, result)?.leaf;
        Ok(Alias { parameter, result, must })
    };
    descriptor.aliases = schedule.donated.iter().map(alias).collect::<Result<_>>()?;
    descriptor.optional_services = code.services;
    descriptor.needed_services = code.needed;
    descriptor.custom_calls = code.custom_calls;
    Ok(Emitted { entry: code.entry, descriptor, clif: code.clif.join("\n") })
}

/// Refuses parameters and results whose buffers are larger than a descriptor can say.
fn check_interface(module: &Module) -> Result<()> {
    let entry = module.entry();
    let (parameters, result) = module.interface();
    let ids = entry.parameters().into_iter().chain([entry.root]);
    for (id, shape) in ids.zip(parameters.iter().chain([&result])) {
        let inst = &entry.instructions[id];
        let mut arrays = shape.leaves().into_iter().filter_map(Shape::as_array);
        if let Some(array) = arrays.find(|a| leaf_byte_size(&whole(a)).is_none()) {
            let site = Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 };
            let feature = format!("a parameter or result of more than 2^60 bytes, {array:#}");
            return Err(Error::Unsupported { site, feature });
        }
    }
    Ok(())
}

/// An error about the memory of a whole program, at the instruction of its largest value.
fn at_largest(error: Error, module: &Module, schedule: &Schedule) -> Error {
    let Error::Unsupported { site, feature } = error else { return error };
    let inner = schedule.values.values().filter(|v| !matches!(v.definition, Definition::Parameter(_)));
    let Some(largest) = inner.max_by_key(|v| v.shape.byte_size()) else {
        return Error::Unsupported { site, feature };
    };
    let inst = module.instruction(largest.source.0, largest.source.1);
    let site = Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 };
    let feature = format!("{feature}; the largest value is {:#}", largest.shape);
    Error::Unsupported { site, feature }
}

/// The shape of a buffer: whole bytes for each element, whatever width a layout names for other machines.
fn whole(shape: &ArrayShape) -> ArrayShape {
    let layout = shape.layout.clone().map(|l| Layout { element_size_in_bits: 0, ..l });
    ArrayShape { layout, ..shape.clone() }
}

/// Parameter and result leaves as callers see them.
fn leaves(module: &Module) -> (Vec<Leaf>, Vec<Leaf>) {
    let entry = module.entry();
    let named: Vec<(&str, TensorFlags)> = entry
        .parameters()
        .iter()
        .map(|&p| (entry.instructions[p].name.as_str(), tensor_flags(&entry.instructions[p]).unwrap_or_default()))
        .collect();
    let (parameters, result) = module.interface();
    let arrays = |shape: &Shape| -> Vec<ArrayShape> {
        shape.leaves().into_iter().filter_map(|s| s.as_array().map(whole)).collect()
    };
    let mut inputs = Vec::new();
    for (shape, (name, tensor)) in parameters.iter().zip(named) {
        inputs.extend(arrays(shape).into_iter().map(|shape| Leaf { name: name.to_owned(), shape, tensor }));
    }
    let outputs = arrays(&result).into_iter().map(Leaf::new).collect();
    (inputs, outputs)
}
