//! One case.

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::collective::Grid;
use brolga_compiler::{CompileOptions, shape, text};
use brolga_runtime::npy;
use brolga_runtime::{ElementType, Literal, Shape};
use brolga_tests::compare::compare;
use brolga_tests::corpus::{Case, Expect, Output};
use brolga_tests::process::{self, End};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How a case ended, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// As it should.
    Pass,
    /// Exit status 3.
    Unsupported,
    /// Wrong numbers, a wrong summary, or an invalid module accepted.
    Fail,
    /// A valid module refused.
    Rejected,
    /// Killed after the time limit.
    TimeOut,
    /// A signal or any other exit status.
    Crash,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 6] =
        [Status::Pass, Status::Unsupported, Status::Fail, Status::Rejected, Status::TimeOut, Status::Crash];

    /// The word in reports and lists.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Unsupported => "unsupported",
            Status::Fail => "fail",
            Status::Rejected => "rejected",
            Status::TimeOut => "timeout",
            Status::Crash => "crash",
        }
    }

    /// The status called `word`.
    pub fn from_word(word: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|s| s.word() == word)
    }
}

/// How a case ended, and why.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How.
    pub status: Status,
    /// Why, empty for a pass.
    pub why: String,
    /// How long it took.
    pub seconds: f64,
}

/// Writes a case's files.
pub fn unpack(case: &Case, dir: &Path) -> std::io::Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir.join("out"))?;
    for (name, bytes) in &case.files {
        std::fs::write(dir.join(name), bytes)?;
    }
    Ok(())
}

/// An engine's name in two: what runs, and the ending of the module that it reads. `jit-mlir` is the jit on StableHLO text.
pub fn form(engine: &str) -> (&str, &str) {
    engine.split_once('-').unwrap_or((engine, "hlo"))
}

/// `PROGRAM run` on an unpacked case.
fn run_command(program: &Path, case: &Case, engine: &str, dir: &Path, out: &Path) -> Command {
    let mut command = Command::new(program);
    let (engine, ending) = form(engine);
    command.arg("run").arg(dir.join(format!("module.{ending}"))).args(["--engine", engine]);
    if case.replicas * case.partitions > 1 {
        command.args(["--replicas", &case.replicas.to_string(), "--partitions", &case.partitions.to_string()]);
    }
    for input in &case.inputs {
        command.arg("--input").arg(dir.join(input));
    }
    command.arg("--output-dir").arg(out);
    command
}

/// Runs the program on an unpacked case.
pub fn case(program: &Path, case: &Case, engine: &str, dir: &Path, limit: Duration) -> std::io::Result<Outcome> {
    let start = Instant::now();
    let (log, out) = (dir.join("stderr.txt"), dir.join("out"));
    let mut command = if case.expect == Expect::Run {
        // An earlier engine's results must not pass for this one's.
        std::fs::remove_dir_all(&out)?;
        std::fs::create_dir_all(&out)?;
        run_command(program, case, engine, dir, &out)
    } else {
        let mut command = Command::new(program);
        command.arg("parse").arg(dir.join("module.hlo")).arg("--summary").arg(out.join("summary.json"));
        command
    };
    let end = process::run(&mut command, &log, limit)?;
    let (status, why) = judge(case, &end, &out, &log);
    Ok(Outcome { status, why, seconds: start.elapsed().as_secs_f64() })
}

/// Runs compiled code on 1, 2, 4 and 8 threads, every row that can be in 256-bit registers, and compares the bytes of the
/// results.
pub fn threads(program: &Path, case: &Case, dir: &Path, limit: Duration) -> std::io::Result<Outcome> {
    let start = Instant::now();
    let log = dir.join("stderr.txt");
    let results = |threads: &str| -> std::io::Result<(End, Vec<Option<Vec<u8>>>)> {
        let out = dir.join(format!("out{threads}"));
        let mut command = run_command(program, case, "jit", dir, &out);
        command.args(["--parallel-grain", "1", "--wide-work", "0", "--threads", threads]);
        let end = process::run(&mut command, &log, limit)?;
        Ok((end, case.outputs.iter().map(|o| std::fs::read(out.join(&o.file)).ok()).collect()))
    };
    let (end, alone) = results("1")?;
    let (status, why) = match end {
        End::Status(0) => {
            let mut differ = Vec::new();
            for threads in ["2", "4", "8"] {
                let (end, together) = results(threads)?;
                if end != End::Status(0) || together != alone {
                    differ.push(format!("{threads} threads: another result"));
                }
            }
            verdict(differ.into_iter().map(Err))
        }
        other => judge(case, &other, &dir.join("out"), &log),
    };
    Ok(Outcome { status, why, seconds: start.elapsed().as_secs_f64() })
}

fn judge(case: &Case, end: &End, out: &Path, log: &Path) -> (Status, String) {
    let message = || {
        let text = std::fs::read(log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        let text = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("").to_owned();
        text.chars().take(200).collect::<String>()
    };
    match (end, case.expect) {
        (End::TimeOut, _) => (Status::TimeOut, String::new()),
        (End::Status(2), Expect::Error) => (Status::Pass, String::new()),
        (End::Status(0), Expect::Error) => (Status::Fail, "accepted an invalid module".to_owned()),
        (End::Status(2), _) => (Status::Rejected, message()),
        (End::Status(3), _) => (Status::Unsupported, message()),
        (End::Status(0), Expect::Run) => verdict(case.outputs.iter().map(|o| output(case, o, out))),
        (End::Status(0), Expect::Parse) => {
            let got = std::fs::read(out.join("summary.json")).ok().and_then(|b| serde_json::from_slice(&b).ok());
            verdict(std::iter::once(summary(&got.unwrap_or(Value::Null), &case.summary)))
        }
        (End::Status(_) | End::Signal, _) => (Status::Crash, message()),
    }
}

fn verdict(results: impl Iterator<Item = Result<(), String>>) -> (Status, String) {
    let errors: Vec<String> = results.filter_map(Result::err).collect();
    if errors.is_empty() { (Status::Pass, String::new()) } else { (Status::Fail, errors.join(" | ")) }
}

fn output(case: &Case, output: &Output, dir: &Path) -> Result<(), String> {
    let ty: ElementType = output.dtype.parse().map_err(|e| format!("{e}"))?;
    let named = |e: String| format!("{}: {e}", output.file);
    let want = case.files.get(&output.file).ok_or("the case lacks its own result")?;
    let want = npy::read(want, ty).map_err(named)?;
    let got = std::fs::read(dir.join(&output.file)).map_err(|_| named("missing".to_owned()))?;
    let got = npy::read(&got, ty).map_err(named)?;
    compare(&got, &want, &output.tolerance).map_err(named)
}

/// Drops what the comparison of shapes ignores: layouts, comments and blanks.
fn strip(shape: &str) -> String {
    let mut out = String::new();
    let mut rest = shape;
    while let Some(c) = rest.chars().next() {
        let skip = match c {
            '{' => rest.find('}').map(|i| i + 1),
            '/' => rest.find("*/").map(|i| i + 2),
            _ => None,
        };
        if skip.is_none() && !c.is_whitespace() {
            out.push(c);
        }
        rest = &rest[skip.unwrap_or(c.len_utf8())..];
    }
    out
}

fn summary(got: &Value, want: &Value) -> Result<(), String> {
    for key in ["computations", "instructions", "opcodes"] {
        if got.get(key) != want.get(key) {
            return Err(format!("{key}: {}, expected {}", got[key], want[key]));
        }
    }
    let params = |v: &Value| -> Option<Vec<String>> {
        v.get("params")?.as_array()?.iter().map(|s| Some(strip(s.as_str()?))).collect()
    };
    if params(got) != params(want) {
        return Err(format!("params: {}, expected {}", got["params"], want["params"]));
    }
    let result = |v: &Value| Some(strip(v.get("result")?.as_str()?));
    if result(got) != result(want) {
        return Err(format!("result: {}, expected {}", got["result"], want["result"]));
    }
    Ok(())
}

/// The kernel interpreter against compiled code, rows in registers of each width that the machine has: the same bits.
pub fn kernels(case: &Case) -> Outcome {
    let start = Instant::now();
    let (status, why) = match catch_unwind(AssertUnwindSafe(|| run_kernels(case))) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(why)) => (Status::Rejected, why),
        Err(_) => (Status::Crash, "panicked".to_owned()),
    };
    Outcome { status, why, seconds: start.elapsed().as_secs_f64() }
}

fn run_kernels(case: &Case) -> Result<(Status, String), String> {
    let bytes = case.files.get("module.hlo").ok_or("the case has no module.hlo")?;
    let source = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let module = text::parse(source).map_err(|e| e.to_string())?;
    shape::verify(&module).map_err(|e| e.to_string())?;
    let entry = module.entry();
    let shapes: Vec<&Shape> = entry.parameters().iter().map(|&p| &entry.instructions[p].shape).collect();
    let leaves = shapes.iter().flat_map(|s| s.leaves()).filter_map(Shape::as_array);
    let mut arrays = Vec::new();
    for (file, shape) in case.inputs.iter().zip(leaves) {
        let bytes = case.files.get(file).ok_or("the case lacks an input")?;
        arrays.push(npy::read(bytes, shape.ty)?);
    }
    let mut arrays = arrays.into_iter();
    let inputs: Option<Vec<Literal>> = shapes.iter().map(|s| Literal::from_arrays(s, &mut arrays)).collect();
    let inputs = inputs.ok_or("an input is missing")?;
    let wide = brolga_tests::widths::targets().into_iter().map(|target| (target, 0));
    for (target, wide_work) in wide.chain([(TargetOptions::default(), u64::MAX)]) {
        let options = CompileOptions {
            target,
            wide_work: Some(wide_work),
            threads: 1,
            devices: Some(Grid::ONE),
            ..CompileOptions::default()
        };
        match brolga_tests::kernels::check(&module, &inputs, &options) {
            brolga_tests::kernels::Outcome::Agrees => {}
            brolga_tests::kernels::Outcome::Unsupported(what) => return Ok((Status::Unsupported, what)),
            brolga_tests::kernels::Outcome::Differs(what) => return Ok((Status::Fail, what)),
        }
    }
    Ok((Status::Pass, String::new()))
}

/// Reads, prints, reads and prints again: both texts must be equal, and the second module valid.
pub fn print_then_parse(case: &Case) -> Outcome {
    let start = Instant::now();
    let check = || -> Result<(Status, String), String> {
        let bytes = case.files.get("module.hlo").ok_or("the case has no module.hlo")?;
        let source = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        let Ok(module) = text::parse(source) else {
            return Ok((Status::Rejected, "does not parse".to_owned()));
        };
        let first = text::print(&module, &text::PrintOptions::default());
        let again = text::parse(&first).map_err(|e| format!("the printed module does not parse: {e}"))?;
        if shape::verify(&module).is_ok() {
            shape::verify(&again).map_err(|e| format!("the printed module does not verify: {e}"))?;
        }
        let second = text::print(&again, &text::PrintOptions::default());
        match first.lines().zip(second.lines()).find(|(a, b)| a != b) {
            Some((a, b)) => Err(format!("printed {a:?}, then {b:?}")),
            None if first != second => Err("the second print has another length".to_owned()),
            None => Ok((Status::Pass, String::new())),
        }
    };
    let (status, why) = match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(why)) => (Status::Fail, why.chars().take(400).collect()),
        Err(_) => (Status::Crash, "panicked".to_owned()),
    };
    Outcome { status, why, seconds: start.elapsed().as_secs_f64() }
}
