//! `brolga run`.

use crate::command::args::{Engine, RunArgs};
use crate::command::failure::Failure;
use crate::command::input::Parameters;
use crate::command::source::{Input, SizedModules, Source, load, load_sizes};
use crate::command::{devices, expect, feeds, freeze, input, output, program, progress};
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::collective::Grid;
use brolga_compiler::front::ReadOptions;
use brolga_compiler::hlo::Module;
use brolga_compiler::{CompileOptions, Error, compile_sizes, interp, size_of, text};
use brolga_runtime::abi::size_text;
use brolga_runtime::{ArrayLiteral, CustomCalls, Literal, Program, RunError, RunOptions, npy, room_for};
use std::path::Path;
use std::sync::Arc;

/// `brolga run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    for path in &args.custom_call_library {
        brolga_runtime::loader::open_library(path).map_err(|e| Failure::file(path, e))?;
    }
    let devices = args.replicas as usize * args.partitions as usize;
    if devices > 1 {
        return devices::run(args, devices);
    }
    let options = RunOptions {
        threads: args.threads as usize,
        feeds: feeds::feeds(args, 1)?.into_iter().next().unwrap_or_default(),
        ..RunOptions::default()
    };
    let sizes = args.shapes.sizes();
    let result = if sizes.len() > 1 {
        run_sizes(args, &options, &sizes)?
    } else {
        match load(&args.module, &args.shapes.with_inputs(&args.input, &args.freeze)?)? {
            Input::Module(mut module, source) => {
                let frozen = freeze::apply(&args.freeze, &mut module, &source)?;
                let own = source.inputs_without(&frozen);
                let inputs = input::gather_or(&args.input, &Parameters::of_module(&module), &own)?;
                run_module(args, &options, &module, &source, &inputs)?
            }
            Input::Object(bytes) => run_object(args, &options, &bytes)?,
        }
    };
    if let Some(dir) = &args.output_dir {
        write_outputs(dir, "out", &result)?;
    }
    match (args.expect.is_empty(), &args.output_dir) {
        (false, _) => output::print(&expect::check(args, &result)?),
        (true, Some(_)) => Ok(()),
        (true, None) => output::print(&show(&result)?),
    }
}

/// Options of the compiler for a run.
fn compile_options(args: &RunArgs) -> CompileOptions {
    let (parallel_grain, wide_work) = (args.parallel_grain, args.wide_work);
    let devices = Some(Grid { replicas: args.replicas as usize, partitions: args.partitions as usize });
    // An object is what it would be anywhere; what runs at once is for the machine at hand.
    let target = if args.engine == Engine::Aot { TargetOptions::default() } else { TargetOptions::native() };
    let debug_lines = args.debug_lines.lines(&args.module);
    CompileOptions { target, parallel_grain, wide_work, devices, debug_lines, ..CompileOptions::default() }
}

/// Runs the size of a program that the inputs have, from the object of all sizes where it is compiled.
fn run_sizes(args: &RunArgs, options: &RunOptions, sizes: &[ReadOptions]) -> Result<Literal, Failure> {
    let mut loaded = load_sizes(&args.module, sizes)?;
    freeze::apply_to_sizes(&args.freeze, &mut loaded)?;
    let SizedModules { modules, open, source } = loaded;
    let names = modules.first().map(Parameters::of_module);
    let wanted = program::wanted(&open, &names.map_or_else(Vec::new, |names| input::dims(&args.input, &names)))?;
    let mut found = Vec::new();
    for module in &modules {
        found.push(size_of(module, &open).map_err(|e| Failure::program(e, &source))?);
    }
    let Some(module) = found.iter().position(|size| *size == wanted).and_then(|k| modules.get(k)) else {
        let list: Vec<String> = found.iter().map(|size| size_text(&open, size)).collect();
        let (found, sizes) = (size_text(&open, &wanted), list.join(", "));
        return Err(Failure::Size(RunError::Size { found, sizes }.to_string()));
    };
    let inputs = input::gather(&args.input, &Parameters::of_module(module))?;
    if args.engine != Engine::Interp {
        match progress::during("compiling", || compile_sizes(&modules, &open, &compile_options(args))) {
            Ok(artifact) => {
                let sizes = program::load_sizes(&bytes_to_load(args, artifact.object)?, args.strict_symbols)?;
                let program = sizes.select(&wanted).map_err(|e| Failure::Size(e.to_string()))?;
                return run_compiled(options, module, program, &inputs, args.strict_symbols);
            }
            Err(error) => note_refusal(args, error, &source)?,
        }
    }
    interpret(args, options, module, &source, &inputs)
}

/// Whether a program that the compiler refused is interpreted instead; says so.
fn note_refusal(args: &RunArgs, error: Error, source: &Arc<Source>) -> Result<(), Failure> {
    match error {
        Error::Unsupported { .. } if args.engine == Engine::Auto => {
            eprintln!("note: interpreted, because the compiler refused: {error}");
            Ok(())
        }
        error => Err(Failure::program(error, source)),
    }
}

/// The program of a module, unless the interpreter is to run it.
pub fn compiled(args: &RunArgs, module: &Module, source: &Arc<Source>) -> Result<Option<Program>, Failure> {
    if args.engine == Engine::Interp {
        return Ok(None);
    }
    match progress::during("compiling", || brolga_compiler::compile(module, &compile_options(args))) {
        Ok(artifact) => program::load(&bytes_to_load(args, artifact.object)?, args.strict_symbols).map(Some),
        Err(error) => note_refusal(args, error, source).map(|()| None),
    }
}

fn run_module(
    args: &RunArgs,
    options: &RunOptions,
    module: &Module,
    source: &Arc<Source>,
    inputs: &[Literal],
) -> Result<Literal, Failure> {
    if let Some(program) = compiled(args, module, source)? {
        return run_compiled(options, module, &program, inputs, args.strict_symbols);
    }
    interpret(args, options, module, source, inputs)
}

fn interpret(
    args: &RunArgs,
    options: &RunOptions,
    module: &Module,
    source: &Arc<Source>,
    inputs: &[Literal],
) -> Result<Literal, Failure> {
    let mut calls = CustomCalls::new();
    calls.use_process_symbols(true);
    program::report_undefined(&interp::undefined_symbols(module, &calls), args.strict_symbols)?;
    let mut host = interp::RegistryHost(&calls);
    let mut host = interp::Fed { feeds: &options.feeds, host: &mut host };
    let result =
        progress::during("interpreting", || interp::run_with(module, inputs, &interp::Options::default(), &mut host));
    result.map_err(|e| Failure::program(e, source))
}

/// Runs the program of a module whose source is at hand, so that the result gets its tuples back.
fn run_compiled(
    options: &RunOptions,
    module: &Module,
    program: &Program,
    inputs: &[Literal],
    strict: bool,
) -> Result<Literal, Failure> {
    program::report_undefined(program.undefined_symbols(), strict)?;
    whole(module, call(program, inputs, options)?)
}

/// The bytes of an object, written to a file and read back where that is asked for.
fn bytes_to_load(args: &RunArgs, object: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if args.engine != Engine::Aot {
        return Ok(object);
    }
    let failed = |e| Failure::file(&std::env::temp_dir(), e);
    let file = tempfile::Builder::new().prefix("brolga-").suffix(".o").tempfile().map_err(failed)?;
    std::fs::write(file.path(), object).and_then(|()| std::fs::read(file.path())).map_err(failed)
}

/// The program of an object that the inputs have the sizes of, and its parameters.
pub fn object(args: &RunArgs, bytes: &[u8]) -> Result<(Program, Parameters), Failure> {
    freeze::refuse_object(&args.freeze)?;
    if args.engine == Engine::Interp {
        return Err(Failure::Usage("the interpreter runs modules, not objects".to_owned()));
    }
    let program = program::choose(&program::load_sizes(bytes, args.strict_symbols)?, &args.shapes, &args.input)?;
    program::report_undefined(program.undefined_symbols(), args.strict_symbols)?;
    let parameters = Parameters::of_program(&program);
    Ok((program, parameters))
}

fn run_object(args: &RunArgs, options: &RunOptions, bytes: &[u8]) -> Result<Literal, Failure> {
    let (program, parameters) = object(args, bytes)?;
    let inputs = input::gather(&args.input, &parameters)?;
    Ok(flat(call(&program, &inputs, options)?))
}

/// The result of a module from its leaves.
pub fn whole(module: &Module, leaves: Vec<ArrayLiteral>) -> Result<Literal, Failure> {
    Literal::from_arrays(module.entry().result_shape(), &mut leaves.into_iter())
        .ok_or_else(|| Failure::Run("the compiled program has other results than the module".to_owned()))
}

/// The result of an object: it knows the leaves only, so several come as one flat tuple.
pub fn flat(leaves: Vec<ArrayLiteral>) -> Literal {
    let mut list: Vec<Literal> = leaves.into_iter().map(Literal::Array).collect();
    if list.len() == 1 { list.remove(0) } else { Literal::Tuple(list) }
}

/// Calls a compiled program on the leaves of `inputs`.
fn call(program: &Program, inputs: &[Literal], options: &RunOptions) -> Result<Vec<ArrayLiteral>, Failure> {
    let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
    progress::during("running", || program.run_with(&leaves, options)).map_err(|e| Failure::Run(e.to_string()))
}

pub fn write_outputs(dir: &Path, stem: &str, result: &Literal) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
    for (k, leaf) in result.arrays().into_iter().enumerate() {
        // The file is put together in memory.
        let size = leaf.bytes().len() as u64;
        room_for(size.saturating_add(size / 2)).map_err(|e| Failure::Run(e.to_string()))?;
        output::write(&dir.join(format!("{stem}{k}.npy")), &npy::write(leaf))?;
    }
    Ok(())
}

/// Bytes of the text of an element, as it is put together.
const TEXT_BYTES: u64 = 32;

/// `f32[2] {1, 2}`, one line for each element of a tuple result.
pub fn show(result: &Literal) -> Result<String, Failure> {
    let elements: u64 = result.arrays().iter().map(|a| a.elements() as u64).sum();
    room_for(elements.saturating_mul(TEXT_BYTES))
        .map_err(|e| Failure::Run(format!("the result is too large to print: {e} (--output-dir writes files)")))?;
    let line = |value: &Literal| match value {
        Literal::Token => "token[]\n".to_owned(),
        value => format!("{:#} {}\n", value.shape(), text::literal_to_string(value)),
    };
    Ok(match result {
        Literal::Tuple(elements) => elements.iter().map(line).collect(),
        value => line(value),
    })
}
