//! `brolga bench`: how long compiling and running take.
//!
//! Problem: runs last from nanoseconds to seconds, and the clock costs some twenty nanoseconds. Invariant: buffers are
//! allocated once; short runs are timed in batches long enough to make the clock negligible, and a batch's time is divided
//! by its runs. The least time is the program's; the median and the ninth decile show how quiet the machine was. Rates are shown
//! beside what a product of matrices and a sum of long arrays reach here, in the same process and just then.

use crate::command::args::{BenchArgs, TargetArgs};
use crate::command::failure::Failure;
use crate::command::input::Parameters;
use crate::command::inspect::columns;
use crate::command::page::bytes;
use crate::command::random::Random;
use crate::command::source::{Input, SizedModules, load, load_sizes};
use crate::command::{compile, freeze, input, output, program, progress, trace};
use brolga_compiler::arithmetic::float_operations;
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::freeze::freeze_sizes;
use brolga_compiler::survey::{KernelSurvey, survey};
use brolga_compiler::{Artifact, CompileOptions, compile_kernel, compile_sizes, front, shape, text};
use brolga_runtime::abi::Leaf;
use brolga_runtime::{Literal, Program, RunOptions, Session};
use std::fmt::{Display, Write};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A batch lasts at least this long.
const BATCH: Duration = Duration::from_micros(20);

/// Compilations repeat until this has passed, five times at most.
const COMPILE_TIME: Duration = Duration::from_secs(1);

/// The smallest module: what a call costs when there is nothing to do.
const EMPTY: &str = "HloModule empty\n\nENTRY main {\n  ROOT nothing = () tuple()\n}\n";

/// What shows how fast arithmetic is on this machine, and its operations.
const PRODUCT: &str = "HloModule product\n\nENTRY main {\n  x = f32[512,512] parameter(0)\n  y = f32[512,512] parameter(1)\n  \
                       ROOT d = f32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
/// What shows how fast the memory is: arrays of 32 MiB.
const SUM: &str = "HloModule sum\n\nENTRY main {\n  x = f32[8388608] parameter(0)\n  y = f32[8388608] parameter(1)\n  \
                   ROOT s = f32[8388608] add(x, y)\n}\n";

/// How long each of the two is measured.
const REFERENCE_TIME: Duration = Duration::from_millis(60);

fn failed(error: impl Display) -> Failure {
    Failure::Run(error.to_string())
}

/// A program that is ready to be measured.
struct Ready {
    program: Program,
    parameters: Parameters,
    object_bytes: usize,
    compile_time: Duration,
    /// What was compiled, where the program was a module for one size.
    artifact: Option<Box<Artifact>>,
}

/// `brolga bench`.
pub fn bench(args: &BenchArgs) -> Result<(), Failure> {
    let mut options = compile::options(&args.target);
    if args.target == TargetArgs::default() {
        options.target = TargetOptions::native();
    }
    let ready = progress::during("compiling", || ready(args, &options))?;
    if args.profile {
        let artifact = ready.artifact.as_ref().ok_or_else(|| {
            Failure::Usage(
                "--profile is for modules, in one size: an object does not say what its kernels are".to_owned(),
            )
        })?;
        let measured = progress::during("measuring", || profile(args, &options, artifact))?;
        if let Some(path) = &args.trace {
            output::write(path, trace::trace(&artifact.module.name, args.threads, &measured).as_bytes())?;
        }
        let printed = args.trace.as_ref().is_none_or(|path| path.as_os_str() != "-");
        return if printed { output::print(&profile_table(&measured)) } else { Ok(()) };
    }
    program::report_undefined(ready.program.undefined_symbols(), false)?;
    let inputs = input::gather(&args.input, &ready.parameters)?;
    let mut session = session(&ready.program, args.threads)?;
    for (i, leaf) in inputs.iter().flat_map(Literal::arrays).enumerate() {
        session.set_parameter(i, leaf).map_err(failed)?;
    }
    drop(inputs);
    let least = Duration::from_secs_f64(args.min_time);
    let times = progress::during("measuring", || measure(least, || session.call())).map_err(failed)?;
    let call = call_time(&options)?;
    match &args.json {
        Some(path) => output::write(path, json(args, &ready, &times, call).as_bytes()),
        None => output::print(&table(args, &options, &ready, &times, call)?),
    }
}

/// Reads and compiles, or loads.
fn ready(args: &BenchArgs, options: &CompileOptions) -> Result<Ready, Failure> {
    let sizes = args.shapes.sizes();
    if sizes.len() > 1 {
        let SizedModules { modules, source, .. } = load_sizes(&args.module, &sizes)?;
        let first = modules.first().map(|first| freeze::values(&args.freeze, first, &source)).transpose()?;
        let values = first.map_or_else(Vec::new, |(values, _)| values);
        let (compiled, object_bytes, compile_time) = compile_often(|| {
            let wrong = |e| Failure::program(e, &source);
            let front::ReadSizes { mut modules, mut open } = source.read_sizes(&sizes).map_err(wrong)?;
            modules.iter().try_for_each(shape::verify).map_err(wrong)?;
            freeze_sizes(&mut modules, &mut open, &values).map_err(wrong)?;
            let artifact = compile_sizes(&modules, &open, options).map_err(wrong)?;
            Ok((program::load_sizes(&artifact.object, false)?, artifact.object.len()))
        })?;
        let program = program::choose_by_inputs(&compiled, &args.input)?;
        let parameters = Parameters::of_program(&program);
        return Ok(Ready { program, parameters, object_bytes, compile_time, artifact: None });
    }
    let options_of_module = args.shapes.with_inputs(&args.input, &args.freeze)?;
    match load(&args.module, &options_of_module)? {
        Input::Module(mut module, source) => {
            let (values, _) = freeze::values(&args.freeze, &module, &source)?;
            let ((program, artifact), object_bytes, compile_time) = compile_often(|| {
                let wrong = |e| Failure::program(e, &source);
                *module = source.read(&options_of_module).map_err(wrong)?;
                shape::verify(&module).map_err(wrong)?;
                brolga_compiler::freeze(&mut module, &values).map_err(wrong)?;
                let artifact = brolga_compiler::compile(&module, options).map_err(wrong)?;
                let size = artifact.object.len();
                Ok(((program::load(&artifact.object, false)?, artifact), size))
            })?;
            let parameters = Parameters::of_module(&module);
            Ok(Ready { program, parameters, object_bytes, compile_time, artifact: Some(Box::new(artifact)) })
        }
        Input::Object(bytes) => {
            freeze::refuse_object(&args.freeze)?;
            let start = Instant::now();
            let sizes = program::load_sizes(&bytes, false)?;
            let compile_time = start.elapsed();
            let program = program::choose(&sizes, &args.shapes, &args.input)?;
            let parameters = Parameters::of_program(&program);
            Ok(Ready { program, parameters, object_bytes: bytes.len(), compile_time, artifact: None })
        }
    }
}

fn session(program: &Program, threads: u32) -> Result<Session, Failure> {
    let options = RunOptions { threads: threads as usize, ..RunOptions::default() };
    program.session(&options).map_err(failed)
}

/// The numbers for other programs. Names and units stay as they are: scripts read them.
fn json(args: &BenchArgs, ready: &Ready, times: &Times, call: f64) -> String {
    let micros = |d: f64| (d * 1e9).round() / 1e3;
    let report = serde_json::json!({
        "compile_ms": ready.compile_time.as_secs_f64() * 1e3,
        "object_bytes": ready.object_bytes,
        "workspace_bytes": ready.program.descriptor().workspace_size(args.threads),
        "run_us": { "min": micros(times.min), "median": micros(times.median), "p90": micros(times.p90) },
        "runs": times.runs,
        "threads": args.threads,
        "call_ns": (call * 1e10).round() / 10.0,
    });
    format!("{report:#}\n")
}

/// The numbers for people.
fn table(
    args: &BenchArgs,
    options: &CompileOptions,
    ready: &Ready,
    times: &Times,
    call: f64,
) -> Result<String, Failure> {
    let descriptor = ready.program.descriptor();
    let moved = leaf_bytes(&descriptor.parameters) + leaf_bytes(&descriptor.results);
    let what = if ready.artifact.is_some() { "compile" } else { "load" };
    let threads = if args.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", args.threads) };
    let mut rows = vec![
        ["run, median", &time(times.median), &format!("{} runs, {threads}", times.runs)].map(str::to_owned),
        ["run, least", &time(times.min), &format!("a call alone is {}", time(call))].map(str::to_owned),
        ["run, p90", &time(times.p90), ""].map(str::to_owned),
        [what, &time(ready.compile_time.as_secs_f64()), &format!("{} of object", bytes(ready.object_bytes as u64))]
            .map(str::to_owned),
    ];
    let workspace = descriptor.workspace_size(args.threads).map_or_else(|| "too large".to_owned(), bytes);
    rows.push(["workspace".to_owned(), workspace, String::new()]);
    let operations = ready.artifact.as_ref().and_then(|artifact| float_operations(&artifact.module));
    if let Some(operations) = operations.filter(|&n| n > 0) {
        let (limit, _) = reference(PRODUCT, options, args.threads)?;
        let rate = operations as f64 / times.median;
        let share = format!("{} of a product of f32[512,512], {}", percent(rate / limit), per_second(limit, "FLOP"));
        rows.push(["arithmetic".to_owned(), per_second(rate, "FLOP"), share]);
    }
    if moved > 0 {
        let rate = moved as f64 / times.median;
        let (_, limit) = reference(SUM, options, args.threads)?;
        // Smaller arrays may lie in a cache.
        let share = match moved >= SUM_BYTES {
            true => format!("{} of a sum of long arrays, {}", percent(rate / limit), per_second(limit, "B")),
            false => {
                format!("{} of parameters and results; from memory a sum has {}", bytes(moved), per_second(limit, "B"))
            }
        };
        rows.push(["memory".to_owned(), per_second(rate, "B"), share]);
    }
    Ok(columns(&rows.into_iter().map(Vec::from).collect::<Vec<_>>()))
}

/// Bytes that [`SUM`] reads and writes.
const SUM_BYTES: u64 = 3 * 4 * 8_388_608;

fn leaf_bytes(leaves: &[Leaf]) -> u64 {
    leaves.iter().map(Leaf::byte_size).sum()
}

/// Operations and bytes a second that a program reaches here and now.
fn reference(text: &str, options: &CompileOptions, threads: u32) -> Result<(f64, f64), Failure> {
    let wrong = |e: &dyn Display| Failure::Run(format!("the program that shows the machine's limit: {e}"));
    let module = text::parse(text).map_err(|e| wrong(&e))?;
    let artifact = brolga_compiler::compile(&module, options).map_err(|e| wrong(&e))?;
    let program = Program::from_object(&artifact.object).map_err(|e| wrong(&e))?;
    let seconds = alone(&program, threads, REFERENCE_TIME)?;
    let descriptor = program.descriptor();
    let moved = leaf_bytes(&descriptor.parameters) + leaf_bytes(&descriptor.results);
    Ok((float_operations(&module).unwrap_or(0) as f64 / seconds, moved as f64 / seconds))
}

/// The least seconds of a run on inputs made from a seed.
fn alone(program: &Program, threads: u32, least: Duration) -> Result<f64, Failure> {
    let mut session = session(program, threads)?;
    let mut random = Random(1);
    for (i, leaf) in program.descriptor().parameters.iter().enumerate() {
        session.set_parameter(i, &random.array(&leaf.shape).map_err(failed)?).map_err(failed)?;
    }
    Ok(measure(least, || session.call()).map_err(failed)?.min)
}

/// Each kernel alone, with its seconds; none for a call.
fn profile(
    args: &BenchArgs,
    options: &CompileOptions,
    artifact: &Artifact,
) -> Result<Vec<(KernelSurvey, Option<f64>)>, Failure> {
    let kernels = survey(artifact).map_err(failed)?.kernels;
    let least = Duration::from_secs_f64(args.min_time / kernels.len().max(1) as f64);
    let one = |kernel: &KernelSurvey| -> Result<Option<f64>, Failure> {
        // What is called is the host's, and so is its time.
        if kernel.kind == "call" {
            return Ok(None);
        }
        let (_, object) = compile_kernel(&artifact.schedule.kernels[kernel.id], options).map_err(failed)?;
        alone(&program::load(&object, false)?, args.threads, least).map(Some)
    };
    kernels.into_iter().map(|kernel| one(&kernel).map(|seconds| (kernel, seconds))).collect()
}

/// The time of each kernel, its share of the time of all, and what it computes.
fn profile_table(measured: &[(KernelSurvey, Option<f64>)]) -> String {
    // Rust's sum of nothing is -0.
    let total = measured.iter().filter_map(|(_, seconds)| *seconds).sum::<f64>().abs();
    let header = ["kernel", "time", "share", "traffic", "kind", "line", "instructions"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (kernel, seconds) in measured {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        rows.push(vec![
            format!("{} {}", kernel.id, kernel.name),
            or_none(seconds.map(time)),
            or_none(seconds.map(|s| percent(s / total))),
            or_none(seconds.map(|s| per_second((kernel.reads + kernel.writes) as f64 / s, "B"))),
            kernel.kind.to_owned(),
            if kernel.line > 0 { kernel.line.to_string() } else { "-".to_owned() },
            kernel.instructions.iter().map(|i| i.opcode.name()).collect::<Vec<_>>().join(" "),
        ]);
    }
    let mut out = columns(&rows);
    let _ = writeln!(
        out,
        "\nEach kernel alone, on inputs of its own, once: {} in all; kernels in loops run more often.",
        time(total)
    );
    out
}

/// A time as people read it.
fn time(seconds: f64) -> String {
    let (unit, name) = match seconds {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e-3, "ms"),
        s if s >= 1e-6 => (1e-6, "us"),
        _ => (1e-9, "ns"),
    };
    format!("{:.2} {name}", seconds / unit)
}

/// A rate as people read it.
fn per_second(rate: f64, what: &str) -> String {
    let (unit, name) = if rate >= 1e9 { (1e9, "G") } else { (1e6, "M") };
    format!("{:.1} {name}{what}/s", rate / unit)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
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

/// Seconds of one call of a program that does nothing.
fn call_time(options: &CompileOptions) -> Result<f64, Failure> {
    let wrong = |e: &dyn Display| Failure::Run(format!("the empty module: {e}"));
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
    /// Nine runs of ten take no longer.
    p90: f64,
    runs: u64,
}

fn measure<E>(least: Duration, mut once: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
    // The first run asks the processor for its level, which a virtual machine takes long to answer, and brings code and data into the
    // caches: it says nothing of how many fill a batch.
    once()?;
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
    let p90 = batches[batches.len() * 9 / 10];
    Ok(Times { min: batches[0], median: batches[batches.len() / 2], p90, runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!([time(2.5), time(0.0125), time(3e-6), time(2.4e-9)], ["2.50 s", "12.50 ms", "3.00 us", "2.40 ns"]);
        assert_eq!([per_second(2.27e11, "FLOP"), per_second(5e5, "B")], ["227.0 GFLOP/s", "0.5 MB/s"]);
        assert_eq!(percent(0.384), "38%");
    }
}
