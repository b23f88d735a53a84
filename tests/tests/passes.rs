//! The pass pipeline against the conformance corpus: every module stays valid, and means what it meant; and against random graphs,
//! where passes say what they change.
//!
//! Set `BROLGA_CONFORMANCE` to the corpus, a folder of zip files or of cases. Without it what needs it says so and passes.

use brolga_compiler::hlo::Module;
use brolga_compiler::interp::{self, Options};
use brolga_compiler::passes::{PassOptions, optimize, optimize_with};
use brolga_compiler::text::{self, PrintOptions};
use brolga_compiler::{Error, shape};
use brolga_runtime::npy;
use brolga_runtime::{ArrayLiteral, Literal, Shape};
use brolga_tests::compare::{Kind, Tolerance, compare};
use brolga_tests::corpus::{Case, Expect, read, sources};
use brolga_tests::random_graph::{Families, Layouts, generate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Hands every case that holds a valid module to `check`, and fails with the list of complaints.
fn every_module(what: &str, check: impl Fn(&Case, Module) -> Result<bool, String>) {
    let Some(folder) = std::env::var_os("BROLGA_CONFORMANCE").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_CONFORMANCE does not name a folder with the conformance corpus");
        return;
    };
    let filter = std::env::var("BROLGA_FILTER").unwrap_or_default();
    let (mut checked, mut failures) = (0, Vec::new());
    for source in sources(&folder).expect("the corpus can be listed") {
        for case in read(&source).expect("the corpus can be read") {
            let id = case.id();
            if !id.contains(&filter) {
                continue;
            }
            let Some(source) = case.files.get("module.hlo") else { continue };
            let Ok(module) = text::parse(&String::from_utf8_lossy(source)) else { continue };
            if shape::verify(&module).is_err() {
                continue;
            }
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&case, module)));
            if start.elapsed() > Duration::from_secs(2) {
                eprintln!("slow: {id} took {:.1} s", start.elapsed().as_secs_f64());
            }
            match outcome {
                Ok(Ok(done)) => checked += usize::from(done),
                Ok(Err(e)) => failures.push(format!("{id}: {e}")),
                Err(_) => failures.push(format!("{id}: panicked")),
            }
        }
    }
    eprintln!("{what}: {checked} modules, {} failures", failures.len());
    assert!(failures.is_empty(), "{what}:\n{}", failures.join("\n"));
}

#[test]
fn every_module_stays_valid() {
    every_module("valid after each pass", |_, module| {
        for keep_entry_layouts in [true, false] {
            let mut module = module.clone();
            let options = PassOptions { verify: true, keep_entry_layouts, ..PassOptions::default() };
            match optimize(&mut module, &options) {
                Ok(_) | Err(Error::Unsupported { .. }) => {}
                Err(e) => return Err(e.to_string()),
            }
            // What a dump of it says must read back.
            let printed = text::print(&module, &PrintOptions::default());
            let again = text::parse(&printed).map_err(|e| format!("dump does not parse: {e}"))?;
            shape::verify(&again).map_err(|e| format!("dump is invalid: {e}"))?;
        }
        Ok(true)
    });
}

/// A pass that counts no change has made none, from the first on that may run again: the pipeline does not ask one again before another
/// makes some. Computations that nobody calls are none.
fn counts_its_changes(mut module: Module) -> Result<(), String> {
    let print = |module: &Module| {
        let mut module = module.clone();
        assert!(module.sort_computations(), "calls are recursive");
        text::print(&module, &PrintOptions::default())
    };
    let mut after = Vec::new();
    let done = optimize_with(&mut module, &PassOptions::default(), &mut |_, module| after.push(print(module)));
    let records = match done {
        Ok(stats) => stats.records,
        Err(Error::Unsupported { .. }) => return Ok(()),
        Err(e) => return Err(e.to_string()),
    };
    let once = records.iter().take_while(|r| r.name != "inline").count();
    for (record, texts) in records.iter().skip(1).zip(after.windows(2)).skip(once.saturating_sub(1)) {
        if record.stats.changes() == 0 && texts[0] != texts[1] {
            return Err(format!("{} changes what it does not count:\n{}\n{}", record.name, texts[0], texts[1]));
        }
    }
    Ok(())
}

#[test]
fn passes_count_what_they_change() {
    every_module("changes are counted", |_, module| counts_its_changes(module).map(|()| true));
    for seed in 1..100 {
        let module = generate(seed, Families::All, Layouts::Sometimes).module;
        counts_its_changes(module).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// The arguments that a case gives, where its files have the types of the leaves.
fn arguments(case: &Case, module: &Module) -> Option<Vec<Literal>> {
    let mut files = case.inputs.iter();
    let entry = module.entry();
    let shapes = entry.parameters().into_iter().map(|p| &entry.instructions[p].shape);
    shapes.map(|shape| argument(shape, &mut files, case)).collect()
}

fn argument<'a>(shape: &Shape, files: &mut impl Iterator<Item = &'a String>, case: &Case) -> Option<Literal> {
    match shape {
        Shape::Array(array) => npy::read(case.files.get(files.next()?)?, array.ty).ok().map(Literal::Array),
        Shape::Tuple(parts) => {
            Some(Literal::Tuple(parts.iter().map(|p| argument(p, files, case)).collect::<Option<_>>()?))
        }
        Shape::Token => Some(Literal::Token),
        _ => None,
    }
}

/// Integers and moved data must agree; floats may round differently where an expansion or a square does.
fn agree(before: &[&ArrayLiteral], after: &[&ArrayLiteral]) -> Result<(), String> {
    if before.len() != after.len() {
        return Err(format!("{} results became {}", before.len(), after.len()));
    }
    for (a, b) in before.iter().zip(after) {
        let ty = a.ty();
        let exact = ty.is_integer() || ty == brolga_runtime::ElementType::Pred;
        let kind = if exact { Kind::Exact } else { Kind::Close };
        let rtol = if ty.real_part().bits() < 32 { 0.02 } else { 1e-5 };
        compare(b, a, &Tolerance { kind, atol: 1e-6, rtol, max_ulp: 4.0, int_atol: 0.0 })?;
    }
    Ok(())
}

#[test]
fn every_module_means_what_it_meant() {
    every_module("same results after the pipeline", |case, module| {
        if case.expect != Expect::Run {
            return Ok(false);
        }
        let Some(arguments) = arguments(case, &module) else { return Ok(false) };
        // Some modules loop for ever, and the pipeline may see that nothing comes of it.
        let options = Options { fuel: Some(2_000_000), ..Options::default() };
        let Ok(before) = interp::run(&module, &arguments, &options) else { return Ok(false) };
        let mut optimized = module;
        let passes = PassOptions { verify: true, keep_entry_layouts: false, ..PassOptions::default() };
        optimize(&mut optimized, &passes).map_err(|e| e.to_string())?;
        let after = match interp::run(&optimized, &arguments, &options) {
            Err(Error::Unsupported { .. }) => return Ok(false),
            after => after.map_err(|e| format!("no longer runs: {e}"))?,
        };
        // Random numbers come from a state that the program does not see.
        if optimized.entry().order.iter().any(|&i| optimized.entry().instructions[i].opcode.name() == "rng") {
            return Ok(false);
        }
        agree(&before.arrays(), &after.arrays())?;
        Ok(true)
    });
}
