//! `brolga run`.

use crate::args::{Engine, RunArgs};
use crate::failure::Failure;
use crate::source::{Program, Source, load};
use crate::{input, npy, output};
use brolga_compiler::hlo::Module;
use brolga_compiler::{interp, text};
use brolga_runtime::{ArrayLiteral, Literal, RunOptions, Shape};
use std::path::Path;
use std::sync::Arc;

/// `brolga run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    if u64::from(args.replicas) * u64::from(args.partitions) > 1 {
        return Err(Failure::Unsupported("running on several devices".to_owned()));
    }
    let result = match load(&args.module)? {
        Program::Module(module, source) => run_module(args, &module, &source)?,
        Program::Object(bytes) => run_object(args, &bytes)?,
    };
    match &args.output_dir {
        Some(dir) => write_outputs(dir, &result),
        None => output::print(&show(&result)),
    }
}

/// The shapes of the entry parameters.
pub fn parameter_shapes(module: &Module) -> Vec<Shape> {
    let entry = module.entry();
    entry.parameters().into_iter().map(|id| entry.instructions[id].shape.clone()).collect()
}

fn run_module(args: &RunArgs, module: &Module, source: &Arc<Source>) -> Result<Literal, Failure> {
    let inputs = input::gather(&args.input, &parameter_shapes(module))?;
    match args.engine {
        Engine::Auto | Engine::Interp => {
            interp::run(module, &inputs, &interp::Options::default()).map_err(|e| Failure::program(e, source))
        }
        Engine::Jit | Engine::Aot => Err(Failure::Unsupported("compiled code".to_owned())),
    }
}

/// Runs an object; an object knows the leaves of its results only, so several come as one flat tuple.
fn run_object(args: &RunArgs, bytes: &[u8]) -> Result<Literal, Failure> {
    if args.engine == Engine::Interp {
        return Err(Failure::Usage("the interpreter runs modules, not objects".to_owned()));
    }
    let program = brolga_runtime::Program::from_object(bytes).map_err(|e| Failure::Run(e.to_string()))?;
    let parameters: Vec<Shape> =
        program.descriptor().parameters.iter().map(|leaf| Shape::Array(leaf.shape.clone())).collect();
    let inputs = input::gather(&args.input, &parameters)?;
    let mut results: Vec<Literal> = call(&program, &inputs, args.threads)?.into_iter().map(Literal::Array).collect();
    Ok(if results.len() == 1 { results.remove(0) } else { Literal::Tuple(results) })
}

/// Calls a compiled program on the leaves of `inputs`.
fn call(program: &brolga_runtime::Program, inputs: &[Literal], threads: u32) -> Result<Vec<ArrayLiteral>, Failure> {
    let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
    let options = RunOptions { threads: threads as usize, ..RunOptions::default() };
    program.run_with(&leaves, &options).map_err(|e| Failure::Run(e.to_string()))
}

fn write_outputs(dir: &Path, result: &Literal) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
    for (k, leaf) in result.arrays().into_iter().enumerate() {
        output::write(&dir.join(format!("out{k}.npy")), &npy::write(leaf))?;
    }
    Ok(())
}

/// `f32[2] {1, 2}`, one line for each element of a tuple result.
fn show(result: &Literal) -> String {
    let line = |value: &Literal| match value {
        Literal::Token => "token[]\n".to_owned(),
        value => format!("{:#} {}\n", value.shape(), text::literal_to_string(value)),
    };
    match result {
        Literal::Tuple(elements) => elements.iter().map(line).collect(),
        value => line(value),
    }
}
