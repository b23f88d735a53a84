//! What part of the multipliers' peak a matrix product reaches: f32 dots of several sizes, for each width of registers that this
//! machine has, beside chains of nothing but `vfmadd231ps` in the same run.
//!
//! A round measures the chains right before the dot, the least time of each counts, and the median of the rounds' quotients is
//! what is said. One thread; pin it, and let nothing else run.

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::{ArrayLiteral, Program, RunOptions, Session};
use brolga_tests::widths;
use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Measures f32 dots against the peak of the fused multipliers.
#[derive(Debug, Parser)]
struct Options {
    /// Extents of the square matrices
    #[arg(long, value_delimiter = ',', default_value = "512,1024,2048")]
    sizes: Vec<usize>,
    /// The median of so many rounds counts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// A dot is called for so many seconds in each round
    #[arg(long, default_value_t = 0.3)]
    min_time: f64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fma-peak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    println!("| level | n | us | GFLOP/s | peak | part |\n|---|---|---|---|---|---|");
    for target in widths::targets() {
        let level = target.cpu.clone().ok_or("no chains of multiplications for this machine's registers")?;
        let chains = if level == "x86-64-v4" { Chains::W512 } else { Chains::W256 };
        for &n in &options.sizes {
            let mut session = dot(n, &target)?;
            let mut rounds = Vec::new();
            for _ in 0..options.rounds.max(1) {
                let peak = chains.flops_per_second();
                let best = best_call(&mut session, Duration::from_secs_f64(options.min_time.max(0.0)))?.as_secs_f64();
                let flops = 2.0 * (n as f64).powi(3) / best;
                rounds.push((flops / peak, best, flops, peak));
            }
            rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (part, best, flops, peak) = rounds[rounds.len() / 2];
            let (us, flops, peak, part) = (1e6 * best, 1e-9 * flops, 1e-9 * peak, 100.0 * part);
            println!("| {level} | {n} | {us:.1} | {flops:.1} | {peak:.1} | {part:.0}% |");
        }
    }
    Ok(())
}

/// A dot of two square matrices, compiled and ready to be called.
fn dot(n: usize, target: &TargetOptions) -> Result<Session, String> {
    let source = format!(
        "HloModule square\nENTRY e {{\n  a = f32[{n},{n}] parameter(0)\n  b = f32[{n},{n}] parameter(1)\n  \
         ROOT c = f32[{n},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    );
    let module = text::parse(&source).map_err(|e| e.to_string())?;
    shape::verify(&module).map_err(|e| e.to_string())?;
    let options = CompileOptions { target: target.clone(), ..CompileOptions::default() };
    let object = compile(&module, &options).map_err(|e| e.to_string())?.object;
    let program = Program::from_object(&object).map_err(|e| e.to_string())?;
    let mut session = program.session(&RunOptions::default()).map_err(|e| e.to_string())?;
    for parameter in 0..2 {
        let elements: Vec<f32> = (0..n * n).map(|i| ((i * 7 + parameter) % 13) as f32 - 6.0).collect();
        let value = ArrayLiteral::from_elements(&[n as i64, n as i64], &elements);
        session.set_parameter(parameter, &value).map_err(|e| e.to_string())?;
    }
    Ok(session)
}

/// The shortest of the calls that fit in a time, one at least.
fn best_call(session: &mut Session, time: Duration) -> Result<Duration, String> {
    let (begin, mut best) = (Instant::now(), Duration::MAX);
    loop {
        let start = Instant::now();
        session.call().map_err(|e| e.to_string())?;
        best = best.min(start.elapsed());
        if begin.elapsed() >= time {
            return Ok(best);
        }
    }
}

/// Chains of fused multiplications in registers, none of which waits for memory.
#[derive(Clone, Copy)]
enum Chains {
    /// Registers of 256 bits.
    W256,
    /// Registers of 512 bits.
    W512,
}

impl Chains {
    /// Chains beside each other: more than any processor's latency times its multipliers.
    const CHAINS: u64 = 12;
    /// Steps of each chain in a measurement.
    const STEPS: u64 = 100_000;
    /// The shortest of so many measurements counts: some milliseconds.
    const MEASUREMENTS: usize = 40;

    fn flops_per_second(self) -> f64 {
        let lanes = match self {
            Chains::W256 => 8,
            Chains::W512 => 16,
        };
        let times = (0..Chains::MEASUREMENTS).map(|_| {
            let start = Instant::now();
            self.step(Chains::STEPS);
            start.elapsed()
        });
        let best = times.min().unwrap_or(Duration::MAX).as_secs_f64();
        (2 * lanes * Chains::CHAINS * Chains::STEPS) as f64 / best
    }

    #[cfg(target_arch = "x86_64")]
    fn step(self, steps: u64) {
        /// A loop over the chains in registers of such a name, whose elements are zeros.
        macro_rules! chains {
            ($register:literal, $($chain:literal)*) => {
                // SAFETY: it changes registers that it names, and a program for the same registers was loaded, which asks for them.
                unsafe {
                    std::arch::asm!(
                        $(concat!("vxorps xmm", $chain, ", xmm", $chain, ", xmm", $chain),)*
                        "vxorps xmm14, xmm14, xmm14",
                        "vxorps xmm15, xmm15, xmm15",
                        "2:",
                        $(concat!("vfmadd231ps ", $register, $chain, ", ", $register, "14, ", $register, "15"),)*
                        "dec rcx",
                        "jnz 2b",
                        "vzeroupper",
                        inout("rcx") steps => _,
                        clobber_abi("C"),
                        options(nomem, nostack),
                    );
                }
            };
        }
        match self {
            Chains::W256 => chains!("ymm", 0 1 2 3 4 5 6 7 8 9 10 11),
            Chains::W512 => chains!("zmm", 0 1 2 3 4 5 6 7 8 9 10 11),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn step(self, _: u64) {
        unreachable!("`widths::targets` names no level elsewhere");
    }
}
