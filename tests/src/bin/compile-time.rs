//! How compile time grows: programs of a family in several sizes, the processor time that each takes, and the exponent between
//! one size and the next.
//!
//! Time is that of one thread, from the text to the object's bytes; where the system does not tell a thread's own, it is by the
//! clock on the wall. The parts are always by that clock. What the checkers of kernels and of memory take of it is measured by
//! running them once more.

use brolga_compiler::kernel::verify;
use brolga_compiler::{CompileOptions, compile, front, memory, shape};
use brolga_tests::growth::Family;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Measures how compile time grows with a program.
#[derive(Debug, Parser)]
struct Options {
    /// Families of programs; all where none is named
    #[arg(value_name = "FAMILY")]
    families: Vec<String>,
    /// Files to measure instead, each by itself and then all together
    #[arg(long = "file", num_args = 1..)]
    files: Vec<PathBuf>,
    /// How many instructions
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    sizes: Vec<usize>,
    /// The least of so many runs counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Also say how long each part took
    #[arg(long)]
    parts: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compile-time: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let unknown = options.families.iter().find(|n| Family::ALL.iter().all(|f| f.name() != n.as_str()));
    if let Some(name) = unknown {
        let names: Vec<&str> = Family::ALL.iter().map(|f| f.name()).collect();
        return Err(format!("there is no family '{name}': expected {}", names.join(", ")));
    }
    if !options.files.is_empty() {
        return files(options);
    }
    println!("| family | instructions | CPU s | exponent | checks |\n|---|---|---|---|---|");
    let wanted = |f: &&Family| options.families.is_empty() || options.families.iter().any(|n| n == f.name());
    for &family in Family::ALL.iter().filter(wanted) {
        let mut last: Option<(usize, f64)> = None;
        for &size in &options.sizes {
            let program = family.program(size);
            let one = best(program.as_bytes(), options).map_err(|e| format!("{} {size}: {e}", family.name()))?;
            // Below a few milliseconds the exponent says nothing.
            let exponent = last
                .filter(|&(_, s)| s > 0.005)
                .map_or(String::new(), |(n, s)| format!("{:.2}", (one.total / s).ln() / (size as f64 / n as f64).ln()));
            println!("| {} | {size} | {:.4} | {exponent} | {} |", family.name(), one.total, one.share());
            if options.parts {
                println!("{}", one.parts);
            }
            last = Some((size, one.total));
        }
    }
    Ok(())
}

fn files(options: &Options) -> Result<(), String> {
    println!("| file | CPU ms | checks |\n|---|---|---|");
    let (mut all, mut refused) = (Measured::default(), 0);
    for path in &options.files {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let Ok(one) = best(&bytes, options) else {
            refused += 1;
            continue;
        };
        println!("| {} | {:.2} | {} |", path.display(), 1e3 * one.total, one.share());
        if options.parts {
            println!("{}", one.parts);
        }
        all.total += one.total;
        all.kernels += one.kernels;
        all.memory += one.memory;
    }
    let (kernels, memory) = (100.0 * all.kernels / all.total, 100.0 * all.memory / all.total);
    println!("| all | {:.2} | {} |", 1e3 * all.total, all.share());
    println!("\nKernels {kernels:.1}%, memory {memory:.1}%; {refused} files were not compiled.");
    Ok(())
}

/// Seconds that a program takes.
#[derive(Default)]
struct Measured {
    /// From its text to its object.
    total: f64,
    /// Of that: the verifier of kernels.
    kernels: f64,
    /// Of that: the checker of memory.
    memory: f64,
    /// How long each part took.
    parts: String,
}

impl Measured {
    fn share(&self) -> String {
        format!("{:.1}%", 100.0 * (self.kernels + self.memory) / self.total)
    }
}

/// The least of several runs.
fn best(program: &[u8], options: &Options) -> Result<Measured, String> {
    let mut best = measure(program)?;
    for _ in 1..options.runs {
        let next = measure(program)?;
        let (kernels, memory) = (best.kernels.min(next.kernels), best.memory.min(next.memory));
        let (total, parts) = if next.total < best.total { (next.total, next.parts) } else { (best.total, best.parts) };
        best = Measured { total, kernels, memory, parts };
    }
    Ok(best)
}

fn measure(program: &[u8]) -> Result<Measured, String> {
    let text = |e: brolga_compiler::Error| e.to_string();
    let options = CompileOptions { threads: 1, ..CompileOptions::native() };
    let mut read = Duration::ZERO;
    let (total, artifact) = seconds(&mut || {
        let clock = Instant::now();
        let module = front::read(program, None, &front::ReadOptions::default())?.module;
        shape::verify(&module)?;
        read = clock.elapsed();
        compile(&module, &options)
    })
    .map_err(text)?;
    let schedule = &artifact.schedule;
    let (kernels, ()) = seconds(&mut || schedule.kernels.values().try_for_each(verify::verify)).map_err(text)?;
    let assignment = memory::assign(schedule).map_err(text)?;
    let (memory, ()) = seconds(&mut || memory::check(schedule, &assignment)).map_err(text)?;
    let laps = artifact.timings.iter().map(|(name, time)| format!(" {name} {:.1}", 1e3 * time.as_secs_f64()));
    let parts = format!("  ms: text {:.1}{}", 1e3 * read.as_secs_f64(), laps.collect::<String>());
    Ok(Measured { total, kernels, memory, parts })
}

/// Systems tell a thread's time in steps of some milliseconds: what takes less is done again until it takes so long.
const LEAST: Duration = Duration::from_millis(40);

/// Seconds that something takes, and what it yields.
fn seconds<T, E>(what: &mut dyn FnMut() -> Result<T, E>) -> Result<(f64, T), E> {
    let (own, wall) = (cpu(), Instant::now());
    let mut times = 0;
    loop {
        let out = what()?;
        times += 1;
        let passed = match (own, cpu()) {
            (Some(start), Some(end)) => end.saturating_sub(start),
            _ => wall.elapsed(),
        };
        if passed >= LEAST || wall.elapsed() >= 25 * LEAST {
            return Ok((passed.as_secs_f64() / f64::from(times), out));
        }
    }
}

/// How long this thread has run, where the system says.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
