//! Makes a training step of a loss: the loss and its parameters after one step along the gradient.

use brolga_compiler::front;
use brolga_compiler::text::{PrintOptions, print};
use brolga_tests::training::descent;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads a program whose result is a loss, and writes the HLO text of a step of gradient descent.
#[derive(Debug, Parser)]
struct Options {
    /// The program
    file: PathBuf,
    /// So many of the parameters are trained, from the first
    #[arg(long)]
    parameters: usize,
    /// How far a step goes
    #[arg(long)]
    rate: f32,
}

fn main() -> ExitCode {
    match step(&Options::parse()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("training-step: {error}");
            ExitCode::FAILURE
        }
    }
}

fn step(options: &Options) -> Result<String, String> {
    let bytes = std::fs::read(&options.file).map_err(|e| format!("{}: {e}", options.file.display()))?;
    let ending = options.file.extension().and_then(|e| e.to_str());
    let read = front::read(&bytes, ending, &front::ReadOptions::default());
    let step = read.and_then(|read| descent(&read.module, options.parameters, options.rate));
    step.map(|module| print(&module, &PrintOptions::default())).map_err(|e| e.to_string())
}
