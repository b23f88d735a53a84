//! What is compiled for other machines, run under qemu and Wine and compared with what this one computes.

use brolga_tests::emulation::{MACHINES, run, samples};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Compiles samples for other machines, links them with a host in C, runs them under qemu or Wine and compares their results with this
/// machine's.
///
/// Exit status: 0 no difference; 1 differences, or tools that are missing.
#[derive(Parser)]
struct Arguments {
    /// Only machines whose names begin so
    #[arg(long, default_value = "")]
    machine: String,
    /// Only samples whose names contain this
    #[arg(long, default_value = "")]
    sample: String,
    /// How many random graphs; some hundreds at a time, for all go into one program
    #[arg(long, default_value_t = 150)]
    random: u64,
    /// The seed of the first; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where objects, the host and its buffers go; a folder that is gone afterwards where none is named
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut samples = samples::all(arguments.random, arguments.seed);
    samples.retain(|sample| sample.name.contains(&arguments.sample));
    let mut failed = false;
    for machine in MACHINES.iter().filter(|m| m.triple.starts_with(&arguments.machine)) {
        let missing = machine.missing();
        if !missing.is_empty() {
            eprintln!("{}: there is no {}", machine.triple, missing.join(" and no "));
            failed = true;
            continue;
        }
        let temporary = std::env::temp_dir().join(format!("brolga-emulated-{}", std::process::id()));
        let folder = arguments.keep.as_ref().map_or(temporary, |folder| folder.join(machine.triple));
        let start = Instant::now();
        let outcome = std::fs::create_dir_all(&folder).map_err(|e| e.to_string());
        let outcome = outcome.and_then(|()| run(machine, &samples, &folder));
        if arguments.keep.is_none() {
            // What cannot be removed is left to the system.
            let _ = std::fs::remove_dir_all(&folder);
        }
        match outcome {
            Ok(report) => {
                for (name, what) in &report.failures {
                    println!("{}: {name}: {what}", machine.triple);
                }
                println!(
                    "{}: {} agree, {} from shared libraries too, {} only linked, {} not compiled, {} fail, in {:.0} s",
                    machine.triple,
                    report.agree,
                    report.libraries,
                    report.linked,
                    report.uncompiled,
                    report.failures.len(),
                    start.elapsed().as_secs_f64()
                );
                failed |= !report.failures.is_empty();
            }
            Err(e) => {
                println!("{}: {e}", machine.triple);
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}
