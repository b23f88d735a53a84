//! How far compiled functions are from the true ones, against what `docs/numerics.md` publishes.
//!
//! **Problem.** A bound that is only written down drifts away from the code, and four milliard arguments of twenty-six
//! functions take libm an hour. **Invariant.** The bounds asserted are those that the page's table has; what runs is
//! compiled code, with the special values, signs of zeros included. **Algorithm.** Every code of the 16-bit types and
//! samples of `f32`, `f64` and of pairs are compared with libm. For every `f32`, in the long run outside the default one,
//! the reference is the compiled function of the same number as `f64`, which is compared with libm now and then;
//! an argument that would be the worst is measured by libm itself.
//!
//! The long run, of all functions or of one, with fused multiply-add or without:
//! `BROLGA_FUNCTION=tanh BROLGA_FEATURES=-fma cargo test --release -p brolga-tests --test suite -- accuracy --ignored --nocapture`
#![allow(clippy::unwrap_used)]

mod functions;
mod measure;
mod samples;

use brolga_runtime::{ElementType, Program, RunOptions};
use functions::{BINARY, UNARY, Unary};
use measure::{BF16, F16, F32, F64, Format, Worst, program};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The target features of each numeric variant.
const VARIANTS: [&str; 2] = ["+fma", "-fma"];

/// The published bounds: of the 16-bit types, of `f32`, of `f64`.
fn published() -> BTreeMap<String, [f64; 3]> {
    let page = include_str!("../../../docs/numerics.md");
    let mut out = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [names, _, _, _, _, bounds @ ..] = &cells[..] else { continue };
        let bounds: Vec<f64> = bounds.iter().filter_map(|b| b.parse().ok()).collect();
        let Ok(bounds) = <[f64; 3]>::try_from(bounds) else { continue };
        for name in names.split(',') {
            out.insert(name.trim().trim_matches('`').to_owned(), bounds);
        }
    }
    out
}

fn bound(name: &str, format: &Format) -> f64 {
    let bounds = published().get(name).copied().unwrap_or_else(|| panic!("no bound of '{name}' in docs/numerics.md"));
    match format.ty {
        ElementType::F32 => bounds[1],
        ElementType::F64 => bounds[2],
        _ => bounds[0],
    }
}

/// Prints what was measured and collects what is beyond its bound.
fn judge(failed: &mut String, name: &str, format: &Format, features: &str, worst: &Worst) {
    println!("{name} {} {features}: {worst}", format.ty);
    let bound = bound(name, format);
    if worst.error > bound {
        let _ = writeln!(failed, "{name} {} {features}: {worst}, published {bound}", format.ty);
    }
}

#[test]
fn every_code_of_16_bits_keeps_the_bound() {
    let mut failed = String::new();
    let codes: Vec<u64> = (0..1 << 16).collect();
    for (name, want) in UNARY {
        for format in [F16, BF16] {
            for features in VARIANTS {
                let worst = format.worst_unary(name, *want, features, &codes);
                judge(&mut failed, name, &format, features, &worst);
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn samples_keep_the_bound() {
    let mut failed = String::new();
    for (name, want) in UNARY {
        for format in [F32, F64] {
            let arguments = samples::arguments(&format);
            for features in VARIANTS {
                let worst = format.worst_unary(name, *want, features, &arguments);
                judge(&mut failed, name, &format, features, &worst);
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn samples_of_pairs_keep_the_bound() {
    let mut failed = String::new();
    for (name, want) in BINARY {
        for format in [F16, BF16, F32, F64] {
            let pairs = samples::pairs(&format);
            for features in VARIANTS {
                let worst = format.worst_binary(name, *want, features, &pairs);
                judge(&mut failed, name, &format, features, &worst);
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// How many arguments a call of the long run takes.
const CHUNK: u32 = 1 << 16;

/// The function of `CHUNK` successive codes of `f32`, and of the same numbers in `f64`.
fn chunk_program(name: &str, features: &str) -> Program {
    program(
        &format!(
            "HloModule chunk\n\nENTRY main {{\n  base = u32[] parameter(0)\n  \
             first = u32[{CHUNK}] broadcast(base), dimensions={{}}\n  i = u32[{CHUNK}] iota(), iota_dimension=0\n  \
             code = u32[{CHUNK}] add(first, i)\n  x = f32[{CHUNK}] bitcast-convert(code)\n  \
             y = f32[{CHUNK}] {name}(x)\n  wide = f64[{CHUNK}] convert(x)\n  want = f64[{CHUNK}] {name}(wide)\n  \
             ROOT both = (f32[{CHUNK}], f64[{CHUNK}]) tuple(y, want)\n}}\n"
        ),
        features,
    )
}

/// The worst of all `f32` arguments, on all processors.
fn worst_of_every_f32((name, want): Unary, features: &str) -> Worst {
    let program = chunk_program(name, features);
    let doubt = bound(name, &F64);
    let (next, all) = (AtomicU32::new(0), Mutex::new(Worst::default()));
    let work = || {
        let mut session = program.session(&RunOptions::default()).unwrap();
        let mut worst = Worst::default();
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk > u32::MAX / CHUNK {
                break;
            }
            let base = chunk * CHUNK;
            session.parameter_bytes_mut(0).unwrap().copy_from_slice(&base.to_ne_bytes());
            session.call().unwrap();
            let got = session.result_bytes(0).unwrap().chunks_exact(4);
            let reference = session.result_bytes(1).unwrap().chunks_exact(8);
            for ((code, got), near) in (base..=base + (CHUNK - 1)).zip(got).zip(reference) {
                let got = f64::from(f32::from_ne_bytes(got.try_into().unwrap()));
                let near = f64::from_ne_bytes(near.try_into().unwrap());
                // Half a unit is what rounding the reference may cost where nothing is lost.
                let is_news = F32.exceeds(got, near, worst.error - 1e-6);
                if !is_news && code % 4093 != 0 {
                    continue;
                }
                let x = f64::from(f32::from_bits(code));
                let exact = want(x);
                let error = F64.ulps(near, exact);
                assert!(error <= doubt, "the reference of {name} at {x:e} is {near:e}, should be {exact:e}");
                worst.note(F32.ulps(got, exact), &[x]);
            }
        }
        all.lock().unwrap().merge(worst);
    };
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (0..processors).for_each(|_| drop(scope.spawn(work)));
    });
    all.into_inner().unwrap()
}

#[test]
#[ignore = "takes some minutes, in release mode"]
fn every_f32_keeps_the_bound() {
    let only = std::env::var("BROLGA_FUNCTION").ok();
    let features = std::env::var("BROLGA_FEATURES").unwrap_or_else(|_| VARIANTS[0].to_owned());
    let mut failed = String::new();
    for unary in UNARY.iter().filter(|u| only.as_deref().is_none_or(|o| o == u.0)) {
        let start = std::time::Instant::now();
        let worst = worst_of_every_f32(*unary, &features);
        judge(&mut failed, unary.0, &F32, &features, &worst);
        println!("  {:.1} s", start.elapsed().as_secs_f64());
    }
    assert!(failed.is_empty(), "{failed}");
}
