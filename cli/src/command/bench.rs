//! `brolga bench`: how long compiling and running take.
//!
//! Problem: runs last from nanoseconds to seconds, and the clock costs some twenty nanoseconds. Invariant: buffers are
//! allocated once; short runs are timed in batches long enough to make the clock negligible, and a batch's time is divided
//! by its runs. The least time is the program's; the median shows how quiet the machine was.

use crate::args::{BenchArgs, TargetArgs};
use crate::compile;
use crate::failure::Failure;
use crate::source::{Input, SizedModules, load, load_sizes};
use crate::{input, output, program, run};
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::{compile_sizes, front, shape, text};
use brolga_runtime::{Literal, Program, RunOptions, Shape};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A batch lasts at least this long.
const BATCH: Duration = Duration::from_micros(20);

/// Compilations repeat until this has passed, five times at most.
const COMPILE_TIME: Duration = Duration::from_secs(1);

/// The smallest module: what a call costs when there is nothing to do.
const EMPTY: &str = "HloModule empty\n\nENTRY main {\n  ROOT nothing = () tuple()\n}\n";

/// `brolga bench`.
pub fn bench(args: &BenchArgs) -> Result<(), Failure> {
    let mut options = compile::options(&args.target);
    if args.target == TargetArgs::default() {
        options.target = TargetOptions::native();
    }
    let run_failure = |e: &dyn std::fmt::Display| Failure::Run(e.to_string());
    let sizes = args.shapes.sizes();
    let (program, object_bytes, compile_time, parameters) = if sizes.len() > 1 {
        let SizedModules { source, .. } = load_sizes(&args.module, &sizes)?;
        let (compiled, size, best) = compile_often(|| {
            let wrong = |e| Failure::program(e, &source);
            let front::ReadSizes { modules, open } = source.read_sizes(&sizes).map_err(wrong)?;
            modules.iter().try_for_each(shape::verify).map_err(wrong)?;
            let artifact = compile_sizes(&modules, &open, &options).map_err(wrong)?;
            Ok((program::load_sizes(&artifact.object, false)?, artifact.object.len()))
        })?;
        let wanted = program::wanted(compiled.open(), &input::sizes(&args.input))?;
        let program = compiled.select(&wanted).cloned().map_err(|e| Failure::Size(e.to_string()))?;
        let parameters = leaf_shapes(&program);
        (program, size, best, parameters)
    } else {
        let options_of_module = args.shapes.with_inputs(&args.input)?;
        match load(&args.module, &options_of_module)? {
            Input::Module(module, source) => {
                let (program, size, best) = compile_often(|| {
                    let wrong = |e| Failure::program(e, &source);
                    let module = source.read(&options_of_module).map_err(wrong)?;
                    shape::verify(&module).map_err(wrong)?;
                    let artifact = brolga_compiler::compile(&module, &options).map_err(wrong)?;
                    Ok((program::load(&artifact.object, false)?, artifact.object.len()))
                })?;
                (program, size, best, run::parameter_shapes(&module))
            }
            Input::Object(bytes) => {
                let start = Instant::now();
                let sizes = program::load_sizes(&bytes, false)?;
                let time = start.elapsed();
                let program = program::choose(&sizes, &args.shapes, &args.input)?;
                let parameters = leaf_shapes(&program);
                (program, bytes.len(), time, parameters)
            }
        }
    };
    program::report_undefined(program.undefined_symbols(), false)?;
    let inputs = input::gather(&args.input, &parameters)?;
    let run_options = RunOptions { threads: args.threads as usize, ..RunOptions::default() };
    let mut session = program.session(&run_options).map_err(|e| run_failure(&e))?;
    for (i, leaf) in inputs.iter().flat_map(Literal::arrays).enumerate() {
        session.set_parameter(i, leaf).map_err(|e| run_failure(&e))?;
    }
    drop(inputs);
    let least = Duration::from_secs_f64(args.min_time);
    let times = measure(least, || session.call()).map_err(|e| run_failure(&e))?;
    let call = call_time(&options)?;

    let micros = |d: f64| (d * 1e9).round() / 1e3;
    let report = serde_json::json!({
        "compile_ms": compile_time.as_secs_f64() * 1e3,
        "object_bytes": object_bytes,
        "workspace_bytes": program.descriptor().workspace_size(args.threads),
        "run_us": { "min": micros(times.min), "median": micros(times.median) },
        "runs": times.runs,
        "threads": args.threads,
        "call_ns": (call * 1e10).round() / 10.0,
    });
    let report = format!("{report:#}\n");
    match &args.json {
        Some(path) => output::write(path, report.as_bytes()),
        None => output::print(&report),
    }
}

/// Compiles until [`COMPILE_TIME`] has passed: what came of it last with its size, and the least time.
fn compile_often<T>(mut once: impl FnMut() -> Result<(T, usize), Failure>) -> Result<(T, usize, Duration), Failure> {
    let mut best = Duration::MAX;
    let (begin, mut rounds) = (Instant::now(), 0);
    loop {
        let start = Instant::now();
        let (program, size) = once()?;
        best = best.min(start.elapsed());
        rounds += 1;
        if rounds == 5 || begin.elapsed() > COMPILE_TIME {
            return Ok((program, size, best));
        }
    }
}

/// The shapes of a program's parameters.
fn leaf_shapes(program: &Program) -> Vec<Shape> {
    program.descriptor().parameters.iter().map(|l| Shape::Array(l.shape.clone())).collect()
}

/// Seconds of one call of a program that does nothing.
fn call_time(options: &brolga_compiler::CompileOptions) -> Result<f64, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::Run(format!("the empty module: {e}"));
    let module = text::parse(EMPTY).map_err(|e| wrong(&e))?;
    let artifact = brolga_compiler::compile(&module, options).map_err(|e| wrong(&e))?;
    let program = Program::from_object(&artifact.object).map_err(|e| wrong(&e))?;
    let mut session = program.session(&RunOptions::default()).map_err(|e| wrong(&e))?;
    let times = measure(Duration::from_millis(20), || black_box(&mut session).call()).map_err(|e| wrong(&e))?;
    Ok(times.min)
}

/// Seconds for one run.
struct Times {
    min: f64,
    median: f64,
    runs: u64,
}

fn measure<E>(least: Duration, mut once: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
    // Find a batch size: the first runs also bring code and data into the caches.
    let mut size = 1u64;
    loop {
        let start = Instant::now();
        for _ in 0..size {
            once()?;
        }
        if start.elapsed() >= BATCH || size >= 1 << 20 {
            break;
        }
        size *= 2;
    }
    let (begin, mut batches) = (Instant::now(), Vec::new());
    while batches.len() < 3 || (begin.elapsed() < least && batches.len() < 1_000_000) {
        let start = Instant::now();
        for _ in 0..size {
            once()?;
        }
        batches.push(start.elapsed().as_secs_f64() / size as f64);
    }
    batches.sort_by(f64::total_cmp);
    let runs = size * batches.len() as u64;
    Ok(Times { min: batches[0], median: batches[batches.len() / 2], runs })
}
