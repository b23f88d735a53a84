//! Runs the conformance corpus against the `brolga` program, by suite and engine, and checks the committed ratchet.
//!
//! Problem: three thousand cases, most of them not yet supported at any moment; a change must not lose one in silence.
//! Invariant: `tests/conformance/ENGINE.txt` lists exactly the cases that do not pass with how they fail, and
//! `tests/conformance/ratchet.json` how many pass; a case that gets worse, or a count that falls, is an error. `--update`
//! rewrites both, and refuses to lower a count.
//!
//! Besides the engines proper there are five pseudo-engines: `parse` holds the cases that are only read (`expect` is
//! `parse` or `error`), `print` checks that every module which parses prints to a text that reads as the same module,
//! `diagnose` that invalid modules are refused with the recorded error, and `threads` that compiled code gives the same
//! bits on 1, 2, 4 and 8 threads, with every phase split that can be, and `kernels` that it gives the bits of the kernel
//! interpreter, with rows in registers of 128, 256 and 512 bits, as far as the machine has them. `ENGINE-mlir` runs the cases
//! that hold `module.mlir` from it.

mod check;
mod diagnose;
mod ratchet;

use brolga_tests::corpus::{self, Case, Expect};
use check::{Outcome, Status};
use clap::Parser;
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs the conformance corpus against the brolga program.
#[derive(Debug, Parser)]
struct Options {
    /// A folder of suite zips or case folders
    #[arg(long, required = true)]
    corpus: Vec<PathBuf>,
    /// The program
    #[arg(long, default_value = "target/release/brolga")]
    brolga: PathBuf,
    /// Engines to run: interp, jit, aot, auto, each with `-mlir` or `-pb` for the modules of that form; parse, print and
    /// diagnose for what is only read; threads; kernels
    #[arg(long, value_delimiter = ',', default_value = "parse,print,diagnose,interp,jit,aot")]
    engine: Vec<String>,
    /// Only suites whose name matches
    #[arg(long)]
    suite: Option<Regex>,
    /// Only cases whose name matches
    #[arg(long)]
    filter: Option<Regex>,
    /// Only modules that hold this opcode or text
    #[arg(long)]
    containing: Option<String>,
    /// Cases at a time
    #[arg(short, long, default_value_t = 2)]
    jobs: usize,
    /// Seconds for a case
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// How many failures to show for an engine
    #[arg(long, default_value_t = 20)]
    fails: usize,
    /// Where the ratchet lies
    #[arg(long, default_value = "tests/conformance")]
    ratchet: PathBuf,
    /// Only report
    #[arg(long)]
    no_ratchet: bool,
    /// Rewrite the ratchet
    #[arg(long)]
    update: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    // Panics of the in-process checks are caught and reported as crashes of their case.
    std::panic::set_hook(Box::new(|_| {}));
    let scratch = std::env::temp_dir().join(format!("brolga-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let mut results: BTreeMap<String, BTreeMap<String, Outcome>> = BTreeMap::new();
    for engine in &options.engine {
        results.insert(engine.clone(), BTreeMap::new());
    }
    let mut sources = Vec::new();
    for path in &options.corpus {
        sources.extend(corpus::sources(path)?);
    }
    for source in &sources {
        let mut cases = corpus::read(source)?;
        cases.retain(|case| wanted(options, case));
        run_cases(options, &scratch, &cases, &mut results)?;
    }
    std::fs::remove_dir_all(&scratch)?;
    report(options, &results);
    if options.no_ratchet {
        return Ok(true);
    }
    let partial = options.suite.is_some() || options.filter.is_some() || options.containing.is_some();
    ratchet::settle(&options.ratchet, &results, partial, options.update)
}

fn wanted(options: &Options, case: &Case) -> bool {
    let matches = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|p| p.is_match(text));
    let contains = |text: &String| {
        case.files.get("module.hlo").is_some_and(|m| m.windows(text.len().max(1)).any(|w| w == text.as_bytes()))
    };
    matches(&options.suite, &case.suite)
        && matches(&options.filter, &case.name)
        && options.containing.as_ref().is_none_or(contains)
}

/// The jobs of a case: which of the engines apply.
fn applies(engine: &str, case: &Case) -> bool {
    match engine {
        "parse" => case.expect != Expect::Run,
        "print" => case.expect != Expect::Error,
        "diagnose" => case.expect == Expect::Error,
        _ => case.expect == Expect::Run && case.files.contains_key(&format!("module.{}", check::form(engine).1)),
    }
}

fn run_cases(
    options: &Options,
    scratch: &std::path::Path,
    cases: &[Case],
    results: &mut BTreeMap<String, BTreeMap<String, Outcome>>,
) -> std::io::Result<()> {
    let next = AtomicUsize::new(0);
    let recorded = diagnose::read(&options.ratchet).filter(|_| !options.update);
    let recorded = recorded.as_ref();
    let done = Mutex::new(Vec::new());
    let limit = Duration::from_secs(options.timeout);
    std::thread::scope(|scope| -> std::io::Result<()> {
        let mut workers = Vec::new();
        for worker in 0..options.jobs.max(1) {
            let (next, done) = (&next, &done);
            let job = move || -> std::io::Result<()> {
                let dir = scratch.join(format!("worker{worker}"));
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check::unpack(case, &dir)?;
                    for engine in options.engine.iter().filter(|e| applies(e, case)) {
                        let outcome = match engine.as_str() {
                            "print" => check::print_then_parse(case),
                            "threads" => check::threads(&options.brolga, case, &dir, limit)?,
                            "kernels" => check::kernels(case),
                            "diagnose" => diagnose::check(case, recorded),
                            _ => check::case(&options.brolga, case, engine, &dir, limit)?,
                        };
                        done.lock().unwrap_or_else(|e| e.into_inner()).push((engine.clone(), case.id(), outcome));
                    }
                }
                Ok(())
            };
            // Modules may nest deeply; the in-process checks get the room that a main thread would have.
            workers.push(std::thread::Builder::new().stack_size(16 << 20).spawn_scoped(scope, job)?);
        }
        for worker in workers {
            worker.join().map_err(|_| std::io::Error::other("a worker of the runner panicked"))??;
        }
        Ok(())
    })?;
    for (engine, id, outcome) in done.into_inner().unwrap_or_else(|e| e.into_inner()) {
        results.entry(engine).or_default().insert(id, outcome);
    }
    Ok(())
}

fn report(options: &Options, results: &BTreeMap<String, BTreeMap<String, Outcome>>) {
    for (engine, cases) in results {
        let failures: Vec<_> = cases.iter().filter(|(_, o)| o.status != Status::Pass).collect();
        for (id, outcome) in failures.iter().take(options.fails) {
            println!("{engine} {:12} {id}: {}", outcome.status.word(), outcome.why);
        }
        if failures.len() > options.fails {
            println!("... and {} more; see --fails", failures.len() - options.fails);
        }
    }
    print!("{:28}", "engine / suite");
    for status in Status::ALL {
        print!("{:>12}", status.word());
    }
    println!("{:>10}", "seconds");
    for (engine, cases) in results {
        let mut suites: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
        for (id, outcome) in cases {
            suites.entry(id.split('/').next().unwrap_or(id)).or_default().push(outcome);
            suites.entry("~").or_default().push(outcome);
        }
        for (suite, outcomes) in suites {
            print!("{:28}", format!("{engine} {}", if suite == "~" { "total" } else { suite }));
            for status in Status::ALL {
                print!("{:12}", outcomes.iter().filter(|o| o.status == status).count());
            }
            println!("{:10.1}", outcomes.iter().map(|o| o.seconds).sum::<f64>());
        }
    }
}
