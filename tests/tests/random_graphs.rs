//! Random graphs: the interpreter against compiled code.
//!
//! `BROLGA_RANDOM_GRAPHS` is how many (200 without it), `BROLGA_RANDOM_SEED` the first seed (1 without it). A failure
//! prints the seed and the reduced graph as HLO. `random-graphs` runs many, on several threads.

use brolga_compiler::text;
use brolga_tests::random_graph::{Families, Layouts, Outcome, Traits, check_guarded, generate, reduce};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What is not supported.
fn run(families: Families, layouts: Layouts, default: u64) -> Vec<(u64, String)> {
    let (first, count) = (number("BROLGA_RANDOM_SEED", 1), number("BROLGA_RANDOM_GRAPHS", default));
    let (mut failures, mut unsupported) = (Vec::new(), Vec::new());
    for seed in first..first + count {
        match check_guarded(&generate(seed, families, layouts)) {
            Outcome::Agrees => {}
            Outcome::Unsupported(what) => unsupported.push((seed, what)),
            Outcome::Fails(failure) => failures.push((seed, failure)),
        }
    }
    for (seed, what) in &unsupported {
        println!("seed {seed}: {what}");
    }
    let mut reports = Vec::new();
    for (seed, failure) in failures.iter().take(4) {
        let graph = reduce(&generate(*seed, families, layouts), failure.stage);
        let hlo = text::print(&graph.module, &text::PrintOptions::default());
        reports.push(format!("seed {seed}, strict rounding {}: {}\n{hlo}", graph.strict_rounding, failure.message));
    }
    let seeds: Vec<u64> = failures.iter().map(|f| f.0).collect();
    assert!(failures.is_empty(), "{} of {count} graphs fail: {seeds:?}\n{}", failures.len(), reports.join("\n\n"));
    unsupported
}

#[test]
fn basic_operations_agree() {
    let unsupported = run(Families::Basic, Layouts::Sometimes, 150);
    assert!(unsupported.is_empty(), "{} graphs are not supported", unsupported.len());
}

/// Some operations have no compiled form; their graphs run in the interpreter alone.
#[test]
fn all_operations_agree() {
    run(Families::All, Layouts::Sometimes, 100);
}

/// Graphs that all have layouts for their callers.
#[test]
fn all_layouts_agree() {
    run(Families::All, Layouts::Always, 60);
    for seed in 1..=60 {
        assert!(Traits::of(&generate(seed, Families::All, Layouts::Always).module).any(), "seed {seed}");
    }
}
