//! Many random graphs in every engine, on several threads. Failures are reduced and printed as HLO with their inputs.

use brolga_compiler::{CompileOptions, text};
use brolga_tests::devices;
use brolga_tests::random_graph::{Families, Graph, Layouts, Outcome, Traits, check_guarded, generate, reduce};
use clap::Parser;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs random graphs in the interpreter and in compiled code, and compares the results.
///
/// Exit status: 0 no difference; 1 differences, or too few graphs of some kind of layout.
#[derive(Parser)]
struct Arguments {
    /// How many graphs
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The seed of the first; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that run graphs
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Only elementwise operations, movement, reductions, dots, loops and branches
    #[arg(long)]
    basic: bool,
    /// Give every graph a layout for its callers: another order of dimensions, padding or a shared buffer
    #[arg(long, conflicts_with = "devices")]
    layouts: bool,
    /// Programs for several devices instead, with collectives of all kinds
    #[arg(long)]
    devices: bool,
    /// Only print the seeds of failures
    #[arg(long)]
    no_reduce: bool,
    /// Write each reduced failure to this folder too
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print each seed before it runs
    #[arg(long)]
    verbose: bool,
    /// Print each graph as HLO before it runs
    #[arg(long)]
    print: bool,
}

/// Inputs of more elements are not printed; the seed makes them again.
const PRINTED: usize = 64;

#[derive(Default)]
struct Tally {
    agree: u64,
    unsupported: BTreeMap<String, Vec<u64>>,
    failures: Vec<(u64, String)>,
    /// How many graphs have another order of dimensions, padding, and a shared buffer.
    layouts: [u64; 3],
}

/// Of the graphs with layouts, at least one in so many has each kind.
const SHARE: u64 = 5;

/// Prints how many graphs have each kind of layout; whether enough have.
fn enough_layouts(tally: &Tally, count: u64) -> bool {
    let kinds = ["another order of dimensions", "padding", "a shared buffer"];
    for (kind, number) in kinds.iter().zip(tally.layouts) {
        println!("{number} of {count} graphs have {kind}: {:.1}%", 100.0 * number as f64 / count.max(1) as f64);
    }
    tally.layouts.iter().all(|number| number * SHARE >= count)
}

fn report(seed: u64, graph: &Graph, message: &str) -> String {
    let mut out = format!("// seed {seed}, strict rounding {}: {message}\n", graph.strict_rounding);
    for (k, input) in graph.inputs.iter().enumerate() {
        let small = input.as_array().is_some_and(|a| a.elements() <= PRINTED);
        let value = if small { text::literal_to_string(input) } else { "{...}".to_owned() };
        let _ = writeln!(out, "// input {k}: {:#} {value}", input.shape());
    }
    out.push_str(&text::print(&graph.module, &text::PrintOptions::default()));
    out
}

fn run(seed: u64, arguments: &Arguments, tally: &Mutex<Tally>) {
    if arguments.verbose {
        eprintln!("seed {seed}");
    }
    if arguments.devices {
        return run_on_devices(seed, arguments, tally);
    }
    let families = if arguments.basic { Families::Basic } else { Families::All };
    let layouts = if arguments.layouts { Layouts::Always } else { Layouts::Sometimes };
    let graph = match std::panic::catch_unwind(|| generate(seed, families, layouts)) {
        Ok(graph) => graph,
        Err(why) => {
            let why = why.downcast_ref::<String>().map_or("no words", String::as_str);
            println!("seed {seed}: the generator panicked: {why}");
            let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            tally.failures.push((seed, "the generator panicked".to_owned()));
            return;
        }
    };
    if arguments.print {
        println!("{}", report(seed, &graph, "as generated"));
    }
    let outcome = check_guarded(&graph);
    let reduced = match &outcome {
        Outcome::Fails(failure) if !arguments.no_reduce => {
            let small = reduce(&graph, failure.stage);
            let message = match check_guarded(&small) {
                Outcome::Fails(f) => f.message,
                _ => failure.message.clone(),
            };
            Some(report(seed, &small, &message))
        }
        _ => None,
    };
    let traits = Traits::of(&graph.module);
    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (number, has) in tally.layouts.iter_mut().zip([traits.order, traits.padding, traits.aliasing]) {
        *number += u64::from(has);
    }
    match outcome {
        Outcome::Agrees => tally.agree += 1,
        Outcome::Unsupported(what) => tally.unsupported.entry(what).or_default().push(seed),
        Outcome::Fails(failure) => {
            println!("seed {seed}: {:?}: {}", failure.stage, failure.message);
            if let Some(text) = &reduced {
                println!("{text}");
                let written = arguments.out.as_ref().map(|dir| {
                    std::fs::create_dir_all(dir)?;
                    std::fs::write(dir.join(format!("seed-{seed}.hlo")), text)
                });
                if let Some(Err(e)) = written {
                    eprintln!("cannot write the report: {e}");
                }
            }
            tally.failures.push((seed, failure.message));
        }
    }
}

/// One program for several devices.
fn run_on_devices(seed: u64, arguments: &Arguments, tally: &Mutex<Tally>) {
    let (text, grid) = devices::program(seed);
    if arguments.print {
        println!("{text}");
    }
    let options = CompileOptions { strict_rounding: true, ..CompileOptions::default() };
    let outcome = match text::parse(&text) {
        Ok(module) => std::panic::catch_unwind(|| devices::check(&module, grid, seed, &options))
            .unwrap_or_else(|_| devices::Outcome::Differs("a panic".to_owned())),
        Err(e) => devices::Outcome::Differs(e.to_string()),
    };
    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match outcome {
        devices::Outcome::Agrees => tally.agree += 1,
        devices::Outcome::Unsupported(what) => tally.unsupported.entry(what).or_default().push(seed),
        devices::Outcome::Endless => tally.failures.push((seed, "it does not end".to_owned())),
        devices::Outcome::Differs(message) => {
            println!("seed {seed}: {message}");
            tally.failures.push((seed, message));
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Panics are counted as failures; their own words would come between the reports.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, tally) = (AtomicU64::new(arguments.seed), Mutex::new(Tally::default()));
    let end = arguments.seed.saturating_add(arguments.count);
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.clamp(1, 64) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    run(seed, &arguments, &tally);
                }
            });
        }
    });
    let mut tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    tally.failures.sort();
    for (what, seeds) in &mut tally.unsupported {
        seeds.sort_unstable();
        println!("{} not supported, the first is seed {}: {what}", seeds.len(), seeds[0]);
    }
    let unsupported: usize = tally.unsupported.values().map(Vec::len).sum();
    let seeds: Vec<u64> = tally.failures.iter().map(|f| f.0).collect();
    println!("{} agree, {unsupported} not supported, {} fail {seeds:?}", tally.agree, seeds.len());
    let enough = !arguments.layouts || enough_layouts(&tally, arguments.count);
    if !enough {
        println!("expected one graph in {SHARE} at least of each kind of layout");
    }
    ExitCode::from(u8::from(!seeds.is_empty() || !enough))
}
