//! What the command line accepts.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Compiles XLA HLO to native code, and runs it.
///
/// Exit status: 0 done; 1 the run failed; 2 the module is invalid; 3 the module is valid but not supported; 64 the
/// command line is wrong; 70 a bug in Brolga.
#[derive(Debug, Parser)]
#[command(name = "brolga", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs a module on inputs
    Run(RunArgs),
    /// Reads and verifies a module, and says what is in it
    Parse(ParseArgs),
    /// Runs the optimisation passes and prints the module
    Opt(OptArgs),
    /// Prints what an object says of itself
    Inspect(InspectArgs),
}

/// Where the inputs of a module come from.
#[derive(Args, Debug)]
pub struct InputArgs {
    /// One leaf array of the entry parameters, in order: `F.npy`, `4xf32=@F.npy`, `f32[4]=@F.npy` (the shape is
    /// checked) or `f32[4]={1,2,3,4}`
    #[arg(long = "input", value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Without --input: make inputs from this seed. Floats are uniform in [-1, 1), integers in [0, 8) or what of it
    /// the type can hold, pred is a coin
    #[arg(long, value_name = "N", conflicts_with = "inputs")]
    pub random_seed: Option<u64>,
}

/// How a module is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Compiled code where the compiler supports the module, the interpreter otherwise, with a note
    #[default]
    Auto,
    /// The interpreter: slow, and the measure of what is right
    Interp,
    /// Compiled code, from memory
    Jit,
    /// Compiled code, through an object file on disk
    Aot,
}

/// `brolga run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// HLO text, or an object that `brolga compile` wrote; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub input: InputArgs,
    /// Write leaf k of the result to DIR/out{k}.npy; without it results are printed as HLO literals
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// How to execute
    #[arg(long, value_enum, default_value_t)]
    pub engine: Engine,
    /// Threads that compiled code may use; 1 starts none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Replicas of the program
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub replicas: u32,
    /// Partitions of the program
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub partitions: u32,
}

/// `brolga parse`.
#[derive(Args, Debug)]
pub struct ParseArgs {
    /// HLO text; `-` is standard input
    pub module: PathBuf,
    /// Where to write the summary; without it, it is printed
    #[arg(long, value_name = "F.json")]
    pub summary: Option<PathBuf>,
}

/// `brolga opt`.
#[derive(Args, Debug)]
pub struct OptArgs {
    /// HLO text; `-` is standard input
    pub module: PathBuf,
    /// Where to write the module; without it, it is printed
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Only read and print, run no pass
    #[arg(long)]
    pub no_passes: bool,
}

/// `brolga inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// An object that `brolga compile` wrote; `-` is standard input
    pub object: PathBuf,
}
