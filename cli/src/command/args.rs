//! What the command line accepts.

use crate::command::compile::Emit;
use crate::command::failure::Failure;
use brolga_compiler::front::{Argument, ReadOptions};
use brolga_compiler::{DebugLines, LineTable};
use brolga_runtime::Shape;
use clap::{Args, Parser, Subcommand, ValueEnum};
use regex_lite::Regex;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Compiles a module to an object file
    Compile(CompileArgs),
    /// Runs a module on inputs
    Run(RunArgs),
    /// Reads and verifies a module, and says what is in it
    Parse(ParseArgs),
    /// Runs the optimisation passes and prints the module
    Opt(OptArgs),
    /// Prints what an object says of itself
    Inspect(InspectArgs),
    /// Measures compiling and running
    Bench(BenchArgs),
    /// Shrinks a module as long as a command still does on it what it did
    Reduce(ReduceArgs),
    /// Prints what a shell needs to complete this command line
    Completions(CompletionsArgs),
    /// Writes the manual pages
    Man(ManArgs),
}

/// Where the inputs of a module come from.
#[derive(Args, Debug)]
pub struct InputArgs {
    /// An array of the entry parameters: `F.npy`, `4xf32=@F.npy`, `f32[4]=@F.npy` (the shape is checked) or
    /// `f32[4]={1,2,3,4}`, in order; with `NAME=` in front the parameter of that name, and `{1,2,3,4}` needs no shape.
    /// `F.npz` and `F.safetensors` hold parameters by their names. What has no name takes the places that are left
    #[arg(long = "input", value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Without --input: make inputs from this seed. Floats are uniform in [-1, 1), integers in [0, 8) or what of it
    /// the type can hold, pred is a coin
    #[arg(long, value_name = "N", conflicts_with = "inputs")]
    pub random_seed: Option<u64>,
}

/// Parameters of a program that become constants.
#[derive(Args, Debug)]
pub struct FreezeArgs {
    /// Make a parameter a constant, by its number or its name: `P=F.npy`, `P=F.safetensors` or `P=F.npz` (the array called P),
    /// `P={1,2}`, in the forms that --input takes with a name; `F.safetensors` or `F.npz` alone freezes every parameter whose name
    /// the file has. The parameters that are left are numbered anew. Results are the same bits. May be given again
    #[arg(long, value_name = "P=FILE")]
    pub freeze: Vec<String>,
}

/// Sizes that a program leaves open.
#[derive(Args, Debug)]
pub struct ShapeArgs {
    /// The shape of an argument of a StableHLO program that leaves its sizes open, by name or by number: `x=f32[8,128]`,
    /// `0=f32[8,128]`; several arguments are given one by one, or with `;` between them. An argument named again begins
    /// another size: `compile` makes one object for all sizes, `run` and `bench` choose by the inputs
    #[arg(long = "shape", value_name = "ARG=SHAPE[;...]", value_parser = argument_shapes)]
    shapes: Vec<Shapes>,
}

/// The shapes of one `--shape`.
#[derive(Clone, Debug)]
struct Shapes(Vec<(Argument, Shape)>);

impl ShapeArgs {
    /// What the reader is told for each size: one at least.
    pub fn sizes(&self) -> Vec<ReadOptions> {
        let mut all = vec![ReadOptions::default()];
        for Shapes(shapes) in &self.shapes {
            let named = |size: &ReadOptions| shapes.iter().any(|(a, _)| size.shapes.iter().any(|(b, _)| a == b));
            if all.last().is_some_and(named) {
                all.push(ReadOptions::default());
            }
            if let Some(size) = all.last_mut() {
                size.shapes.extend(shapes.iter().cloned());
            }
        }
        all
    }

    /// What the reader is told of a module that will run on these inputs, where there is one size.
    pub fn with_inputs(&self, inputs: &InputArgs, freeze: &FreezeArgs) -> Result<ReadOptions, Failure> {
        let mut sizes = crate::command::input::sizes(inputs);
        if !freeze.freeze.is_empty() {
            // Numbers count the parameters that are left, and the program has not been read.
            sizes.retain(|(argument, _)| matches!(argument, Argument::Name(_)));
        }
        Ok(ReadOptions { sizes, ..self.options()? })
    }

    /// What the reader is told, where there is one size.
    pub fn options(&self) -> Result<ReadOptions, Failure> {
        let mut all = self.sizes();
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            _ => Err(Failure::Usage("several sizes (an argument named again by --shape) are not for this".to_owned())),
        }
    }
}

/// Reads `x=f32[8,128];y=f32[8]`.
fn argument_shapes(text: &str) -> Result<Shapes, String> {
    text.split(';').map(argument_shape).collect::<Result<_, _>>().map(Shapes)
}

/// Reads `x=f32[8,128]`.
fn argument_shape(text: &str) -> Result<(Argument, Shape), String> {
    let (name, shape) = text.split_once('=').ok_or("expected ARG=SHAPE, such as x=f32[8,128]")?;
    let (name, shape) = (name.trim(), shape.trim());
    let argument = match name.parse() {
        Ok(number) => Argument::Number(number),
        Err(_) => Argument::Name(name.to_owned()),
    };
    let shape = brolga_compiler::text::parse_shape(shape).map_err(|e| e.to_string())?;
    Ok((argument, shape))
}

/// What to compile for.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetArgs {
    /// Target triple, the host's where absent
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
    /// Levels of x86-64, separated by commas, of which the program runs the highest that it can: x86-64, x86-64-v2,
    /// x86-64-v3, x86-64-v4; or native. Where absent, x86-64-v3,x86-64-v4, and native where nothing is kept
    #[arg(long, value_name = "CPU")]
    pub target_cpu: Option<String>,
    /// Instruction-set features to add or take away: +avx2,-fma
    #[arg(long, value_name = "FEATURES", value_delimiter = ',', allow_hyphen_values = true)]
    pub target_features: Vec<String>,
}

/// `brolga compile`.
#[derive(Args, Debug)]
pub struct CompileArgs {
    /// A program: HLO or StableHLO text, a portable artifact, an HloModuleProto; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub shapes: ShapeArgs,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    /// Where to write the object, or the only kind of output that --emit names
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// What to write: obj, so (a shared library), lib (a static one), clif, asm, hlo, stablehlo, kernel, header, rs, each with an optional =PATH (`-` is standard output)
    #[arg(long, value_name = "KIND[=PATH]", value_delimiter = ',')]
    pub emit: Vec<Emit>,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Symbol of the compiled function; made from the file's name where absent, of standard input from the module's
    #[arg(long, value_name = "SYMBOL")]
    pub name: Option<String>,
    /// Replicas that the program runs on; what the module says, or its groups name, where absent
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub replicas: Option<u32>,
    /// Partitions of each replica; likewise
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub partitions: Option<u32>,
    /// Threads that the compiler uses, 0 for one a processor; the object does not depend on it
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub jobs: usize,
    /// Round 16-bit and 8-bit floats after every operation
    #[arg(long)]
    pub strict_rounding: bool,
    /// Tell debuggers and profilers from which line code comes (an object in ELF)
    #[arg(long, value_enum, default_value_t)]
    pub debug_lines: DebugText,
    /// Write the module after each pass to this folder
    #[arg(long, value_name = "DIR")]
    pub dump_to: Option<PathBuf>,
    /// Only after the passes that match
    #[arg(long, value_name = "REGEX", requires = "dump_to")]
    pub dump_pass: Option<Regex>,
    /// Print how long each part took, to standard error
    #[arg(long)]
    pub time_passes: bool,
}

/// Which text debuggers are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DebugText {
    /// None
    #[default]
    None,
    /// The program; what it was made from, as its metadata say, is shown as the caller
    Hlo,
    /// What the program was made from, where its metadata say so; the program is shown as the caller
    Source,
}

impl DebugText {
    /// What the compiler is told of a program in this file.
    pub fn lines(self, module: &Path) -> Option<DebugLines> {
        let table = match self {
            DebugText::None => return None,
            DebugText::Hlo => LineTable::Hlo,
            DebugText::Source => LineTable::Source,
        };
        let file = if module == Path::new("-") { "<stdin>".to_owned() } else { module.display().to_string() };
        Some(DebugLines { table, file })
    }
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
    /// A program, in any form that `compile` takes, or an object that `brolga compile` wrote; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub shapes: ShapeArgs,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    #[command(flatten)]
    pub input: InputArgs,
    /// Write leaf k of the result to DIR/out{k}.npy; without it results are printed as HLO literals
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Compare the result with this instead of printing it, and end with status 1 where they differ: an array of each leaf, in
    /// any form that --input takes without a name, or once an .npz or .safetensors file whose arrays come in the natural order
    /// of their names, or a folder that --output-dir wrote
    #[arg(long, value_name = "F")]
    pub expect: Vec<String>,
    /// How far floats may be from what is expected, relative to it
    #[arg(long, value_name = "R", default_value_t = 1e-5, value_parser = tolerance, requires = "expect")]
    pub rtol: f64,
    /// And absolutely
    #[arg(long, value_name = "A", default_value_t = 1e-8, value_parser = tolerance, requires = "expect")]
    pub atol: f64,
    /// What infeeds read: the arrays of an .npz file in the natural order of their names; `NAME.K` is part K of a tuple.
    /// Once for each device
    #[arg(long, value_name = "F.npz")]
    pub infeed: Vec<PathBuf>,
    /// Write what outfeeds send to DIR/0.npy, DIR/1.npy, ..., part K of a tuple to DIR/N.K.npy; with several devices to
    /// DIR/D/N.npy
    #[arg(long, value_name = "DIR")]
    pub outfeed_dir: Option<PathBuf>,
    /// How to execute
    #[arg(long, value_enum, default_value_t)]
    pub engine: Engine,
    /// Threads that compiled code may use; 1 starts none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Share among threads what computes at least this many elements; results do not depend on it
    #[arg(long, value_name = "N")]
    pub parallel_grain: Option<u64>,
    /// Use registers of 256 or 512 bits for rows of loops with at least this much work, in elements times operations; results do not
    /// depend on it
    #[arg(long, value_name = "N")]
    pub wide_work: Option<u64>,
    /// Tell debuggers from which line code comes; with BROLGA_GDB=1 in the environment gdb is told of code in memory
    #[arg(long, value_enum, default_value_t)]
    pub debug_lines: DebugText,
    /// Load a shared library whose functions custom calls may name; may be given again
    #[arg(long, value_name = "FILE")]
    pub custom_call_library: Vec<PathBuf>,
    /// A custom call of a function that is nowhere to be found is an error before the run, even where the run never comes
    /// to it; without this it is a warning, and an error where it is called
    #[arg(long)]
    pub strict_symbols: bool,
    /// Replicas of the program; with several devices inputs come device by device, and leaf k of device d's result goes
    /// to DIR/out{d}_{k}.npy
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub replicas: u32,
    /// Partitions of the program
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub partitions: u32,
    /// With several devices, how long one may wait for the others before the run is given up
    #[arg(long, value_name = "SECONDS")]
    pub device_timeout: Option<f64>,
}

impl RunArgs {
    /// How long a device may wait for the others.
    pub fn timeout(&self) -> Option<Duration> {
        self.device_timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

/// `brolga parse`.
#[derive(Args, Debug)]
pub struct ParseArgs {
    /// A program: HLO or StableHLO text, a portable artifact, an HloModuleProto; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub shapes: ShapeArgs,
    /// Where to write the summary; without it, it is printed
    #[arg(long, value_name = "F.json")]
    pub summary: Option<PathBuf>,
}

/// `brolga opt`.
#[derive(Args, Debug)]
pub struct OptArgs {
    /// A program: HLO or StableHLO text, a portable artifact, an HloModuleProto; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub shapes: ShapeArgs,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    /// Where to write the module, as an HloModuleProto where the ending is .pb, as StableHLO where it is .mlir; without it, it
    /// is printed
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Only read and print, run no pass
    #[arg(long)]
    pub no_passes: bool,
}

/// `brolga inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// An object that `brolga compile` wrote, or with --tensors or --html a program, in any form that `compile` takes; `-` is
    /// standard input
    pub object: PathBuf,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    /// Compile the program for this machine, and print of every array in it: type, shape, strides, alignment, memory, and what
    /// it is a view of
    #[arg(long, conflicts_with = "html")]
    pub tensors: bool,
    /// Compile the program for this machine, and write a page that shows its kernels with what is fused in each and why they
    /// end, its arrays and when they live in memory. The page needs nothing but itself
    #[arg(long, value_name = "F.html")]
    pub html: Option<PathBuf>,
}

/// `brolga bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// A program, in any form that `compile` takes, or an object that `brolga compile` wrote; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub shapes: ShapeArgs,
    #[command(flatten)]
    pub freeze: FreezeArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Threads that compiled code may use; 1 starts none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub min_time: f64,
    /// Write the numbers as JSON (`-` is standard output); without it, a table is printed
    #[arg(long, value_name = "F.json")]
    pub json: Option<PathBuf>,
    /// Measure each kernel alone, on inputs of its own, and print which instructions it computes. What custom calls and the
    /// library services take is not in it
    #[arg(long, conflicts_with = "json")]
    pub profile: bool,
    /// With --profile: also write what was measured as Chrome's trace events, which Perfetto and chrome://tracing show (`-` is
    /// standard output, and no table is printed)
    #[arg(long, value_name = "F.json", requires = "profile")]
    pub trace: Option<PathBuf>,
}

/// `brolga reduce`.
#[derive(Args, Debug)]
pub struct ReduceArgs {
    /// A program: HLO or StableHLO text, a portable artifact, an HloModuleProto; `-` is standard input
    pub module: PathBuf,
    #[command(flatten)]
    pub shapes: ShapeArgs,
    /// The command that fails: words, quoted as in a shell, of which `{}` is the path of a candidate; without `{}` the path
    /// comes last. No shell is started: say `sh -c '...'` for one
    #[arg(long, value_name = "COMMAND")]
    pub command: String,
    /// A candidate is interesting where the command ends with this status; where absent, as it does on the module itself,
    /// be that a status, a signal or the time limit
    #[arg(long, value_name = "N")]
    pub status: Option<i32>,
    /// And where its standard output or error has this text
    #[arg(long, value_name = "TEXT")]
    pub contains: Option<String>,
    /// Seconds after which a run of the command is ended
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = seconds)]
    pub time_limit: f64,
    /// Run the command no more often than this
    #[arg(long, value_name = "N")]
    pub max_runs: Option<usize>,
    /// Where to write the module; without it, it is printed
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

/// `brolga completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `brolga man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder that the pages go to, one for each command
    pub dir: PathBuf,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(t) if t >= 0.0 && f64::is_finite(t) => Ok(t),
        _ => Err("expected a number that is not negative".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.0..=3600.0).contains(&s) => Ok(s),
        _ => Err("expected seconds from 0 to 3600".to_owned()),
    }
}
