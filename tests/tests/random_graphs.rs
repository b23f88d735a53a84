//! Random graphs: the interpreter against compiled code.
//!
//! `BROLGA_RANDOM_GRAPHS` is how many (200 without it), `BROLGA_RANDOM_SEED` the first seed (1 without it). A failure
//! prints the seed, the shortest beginning of its graph that fails, and that graph as HLO.

use brolga_compiler::{CompileOptions, Error, compile, interp, text};
use brolga_runtime::{ArrayLiteral, Literal, Program, RunOptions};
use brolga_tests::random_graph::{Graph, generate, generate_prefix};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What became of one graph.
enum Outcome {
    Agrees,
    Unsupported(String),
    Fails(String),
}

fn check(graph: &Graph) -> Outcome {
    let fails = |what: &str, e: &dyn std::fmt::Display| Outcome::Fails(format!("{what}: {e}"));
    let want = match interp::run(&graph.module, &graph.inputs, &interp::Options::default()) {
        Ok(want) => want,
        Err(e) => return fails("interpreter", &e),
    };
    let options = CompileOptions { threads: 1, strict_rounding: graph.strict_rounding, ..CompileOptions::default() };
    let artifact = match compile(&graph.module, &options) {
        Ok(artifact) => artifact,
        Err(e @ Error::Unsupported { .. }) => return Outcome::Unsupported(e.to_string()),
        Err(e) => return fails("compiler", &e),
    };
    let program = match Program::from_object(&artifact.object) {
        Ok(program) => program,
        Err(e) => return fails("loader", &e),
    };
    let inputs: Vec<&ArrayLiteral> = graph.inputs.iter().filter_map(Literal::as_array).collect();
    let got = match program.run(&inputs) {
        Ok(got) => got,
        Err(e) => return fails("compiled code", &e),
    };
    let want = want.arrays();
    if got.len() != want.len() {
        return Outcome::Fails(format!("{} results, want {}", got.len(), want.len()));
    }
    for (k, ((got, want), note)) in got.iter().zip(&want).zip(&graph.notes).enumerate() {
        if let Err(e) = note.check(got, want) {
            return Outcome::Fails(format!("result {k}: {e}"));
        }
    }
    match program.run_with(&inputs, &RunOptions { threads: 3, ..RunOptions::default() }) {
        Ok(again) if again.iter().zip(&got).all(|(a, b)| a.bytes() == b.bytes()) => Outcome::Agrees,
        Ok(_) => Outcome::Fails("three threads give other bits than one".to_owned()),
        Err(e) => fails("compiled code on three threads", &e),
    }
}

/// A panic is a failure of its graph, not of the run.
fn guarded(graph: &Graph) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| check(graph))).unwrap_or_else(|_| Outcome::Fails("a panic".to_owned()))
}

fn report(seed: u64) -> String {
    for steps in 0..64 {
        let graph = generate_prefix(seed, steps);
        if let Outcome::Fails(message) = guarded(&graph) {
            let hlo = text::print(&graph.module, &text::PrintOptions::default());
            let strict = graph.strict_rounding;
            return format!("seed {seed}, {steps} steps, strict rounding {strict}: {message}\n{hlo}");
        }
    }
    format!("seed {seed} fails only as a whole")
}

#[test]
fn interpreter_and_compiled_code_agree() {
    let (first, count) = (number("BROLGA_RANDOM_SEED", 1), number("BROLGA_RANDOM_GRAPHS", 200));
    let (mut failures, mut unsupported) = (Vec::new(), Vec::new());
    for seed in first..first + count {
        match guarded(&generate(seed)) {
            Outcome::Agrees => {}
            Outcome::Unsupported(what) => unsupported.push((seed, what)),
            Outcome::Fails(_) => failures.push(seed),
        }
    }
    for (seed, what) in &unsupported {
        println!("seed {seed}: {what}");
    }
    let reports: Vec<String> = failures.iter().take(4).map(|&seed| report(seed)).collect();
    assert!(failures.is_empty(), "{} of {count} graphs fail: {failures:?}\n{}", failures.len(), reports.join("\n\n"));
    assert!(unsupported.is_empty(), "{} of {count} graphs are not supported", unsupported.len());
}
