//! One loaded program, run by sixteen threads at once: right results, and memory that does not grow.
//!
//! The default is a second; `BROLGA_STRESS_SECONDS=30 cargo test --release -p brolga-tests --test stress` is the long run.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::{ArrayLiteral, Program, RunOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 16;

/// A loop, a reduction, a sort, random numbers and a library service.
const SOURCE: &str = "
HloModule busy
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }
cond {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64,64] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,64] tanh(y)
  ROOT r = (s32[], f32[64,64]) tuple(next, t)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[64,64]) tuple(zero, x)
  w = (s32[], f32[64,64]) while(init), condition=cond, body=body
  y = f32[64,64] get-tuple-element(w), index=1
  sorted = f32[64,64] sort(y), dimensions={1}, to_apply=less
  none = f32[] constant(0)
  rows = f32[64] reduce(sorted, none), dimensions={1}, to_apply=sum
  low = f32[] constant(0)
  high = f32[] constant(1)
  noise = f32[64] rng(low, high), distribution=rng_uniform
  spectrum = c64[33] fft(rows), fft_type=RFFT, fft_length={64}
  ROOT out = (f32[64,64], f32[64], c64[33]) tuple(sorted, noise, spectrum)
}";

/// Bytes of this process that are in memory, where the system says.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

#[test]
fn sixteen_threads_share_a_program() {
    let seconds = std::env::var("BROLGA_STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let module = text::parse(SOURCE).unwrap();
    shape::verify(&module).unwrap();
    let artifact = compile(&module, &CompileOptions { parallel_grain: Some(1), ..CompileOptions::default() }).unwrap();
    let program = Program::from_object(&artifact.object).unwrap();
    let inputs: Vec<ArrayLiteral> = (0..THREADS)
        .map(|t| {
            let values: Vec<f32> = (0..4096).map(|i| ((i * 37 + t * 101) % 199) as f32 / 199.0 - 0.5).collect();
            ArrayLiteral::from_elements(&[64, 64], &values)
        })
        .collect();
    let options = |t: usize, threads| RunOptions { threads, seed: t as u64, ..RunOptions::default() };
    let expected: Vec<Vec<ArrayLiteral>> =
        inputs.iter().enumerate().map(|(t, x)| program.run_with(&[x], &options(t, 1)).unwrap()).collect();
    let (stop, runs) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut early, mut late) = (None, None);
    std::thread::scope(|scope| {
        for (t, (x, expected)) in inputs.iter().zip(&expected).enumerate() {
            let (program, stop, runs) = (&program, &stop, &runs);
            scope.spawn(move || {
                let mut session = program.session(&options(t, 1)).unwrap();
                session.set_parameter(0, x).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    session.call().unwrap();
                    assert_eq!(session.results().unwrap(), *expected);
                    // Now and then with workers of its own.
                    if runs.fetch_add(1, Ordering::Relaxed) % 64 == 0 {
                        assert_eq!(program.run_with(&[x], &options(t, 2)).unwrap(), *expected);
                    }
                }
            });
        }
        let start = Instant::now();
        let third = Duration::from_secs(seconds) / 3;
        std::thread::sleep(third);
        early = resident();
        std::thread::sleep(2 * third);
        late = resident();
        stop.store(true, Ordering::Relaxed);
        eprintln!("{} runs in {:.1} s", runs.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
    });
    assert!(runs.load(Ordering::Relaxed) >= THREADS as u64);
    if let (Some(early), Some(late)) = (early, late) {
        assert!(late < early + (16 << 20), "memory grew from {early} to {late} bytes");
    }
}
