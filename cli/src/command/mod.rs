//! The command line of Brolga.
//!
//! Problem: scripts and test runners decide by exit status, people read messages, and neither may ever see a Rust
//! panic. Invariant: every way out of this program is one [`Failure`] or success, and [`Failure::status`] is the only
//! place that chooses a number: 0 done, 1 the run failed, 2 the module is invalid, 3 the module is valid but not
//! supported, 64 the command line is wrong, 70 a bug in Brolga.

mod archive;
mod args;
mod bench;
mod compile;
mod devices;
mod diagnostic;
mod expect;
mod failure;
mod feeds;
mod freeze;
mod input;
mod inspect;
mod manual;
mod output;
mod page;
mod program;
mod progress;
mod random;
mod reduce;
mod run;
mod source;
mod tools;
mod trace;

pub use failure::Failure;

use clap::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` arrive here too; clap says which stream and whether it is a mistake.
            let wrong = error.use_stderr();
            let _ = error.print();
            return ExitCode::from(if wrong { failure::USAGE } else { 0 });
        }
    };
    // The panic hook's own text names files of ours; the message below says what a user can do with it.
    let outcome = catch_unwind(AssertUnwindSafe(|| dispatch(&cli)));
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            diagnostic::report(&failure);
            ExitCode::from(failure.status())
        }
        Err(_) => {
            eprintln!("bug in Brolga: the program stopped where it should not; please report the module and this text");
            ExitCode::from(failure::BUG)
        }
    }
}

fn dispatch(cli: &args::Cli) -> Result<(), Failure> {
    match &cli.command {
        args::Command::Compile(args) => compile::compile(args),
        args::Command::Bench(args) => bench::bench(args),
        args::Command::Run(args) => run::run(args),
        args::Command::Parse(args) => tools::parse(args),
        args::Command::Opt(args) => tools::opt(args),
        args::Command::Inspect(args) => inspect::inspect(args),
        args::Command::Reduce(args) => reduce::reduce(args),
        args::Command::Completions(args) => manual::completions(args),
        args::Command::Man(args) => manual::pages(args),
    }
}
