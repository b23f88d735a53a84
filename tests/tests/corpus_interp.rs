//! The interpreter against the conformance corpus.
//!
//! Set `BROLGA_CONFORMANCE` to a folder with the suites' zip files; without it the test says so and passes. Cases that
//! may fail are those of the conformance program's list; a listed case that passes is a failure too, so that the list stays
//! true. `BROLGA_FILTER` runs only cases whose `suite/name` contains it.

use brolga_compiler::front::{self, ReadOptions};
use brolga_compiler::hlo::Module;
use brolga_compiler::interp::{self, Options};
use brolga_compiler::{Error, stablehlo};
use brolga_runtime::npy;
use brolga_runtime::{ArrayLiteral, Literal, Shape};
use brolga_tests::compare::compare;
use brolga_tests::corpus::{self, Case, Expect};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Some rank-0 arrays of types that numpy lacks are stored as one element in one dimension.
fn scalar_form(array: ArrayLiteral, rank: usize) -> ArrayLiteral {
    if rank == 0 && array.dims() == [1] { array.reshaped(&[]) } else { array }
}

/// The value of a parameter, from the files of its leaves.
fn argument<'a>(case: &Case, shape: &Shape, files: &mut impl Iterator<Item = &'a String>) -> Result<Literal, String> {
    Ok(match shape {
        Shape::Array(s) | Shape::Buffer(s) => {
            let file = files.next().ok_or("an input is missing")?;
            let bytes = case.files.get(file).ok_or_else(|| format!("{file} is missing"))?;
            Literal::Array(scalar_form(npy::read(bytes, s.ty).map_err(|e| format!("{file}: {e}"))?, s.rank()))
        }
        Shape::Tuple(elements) => {
            let elements: Result<_, String> = elements.iter().map(|e| argument(case, e, files)).collect();
            Literal::Tuple(elements?)
        }
        Shape::Token => Literal::Token,
        Shape::Opaque => return Err("an opaque parameter".to_owned()),
    })
}

/// A form in which a case's module is read.
#[derive(Clone, Copy)]
enum Form {
    /// The file of this ending.
    File(&'static str),
    /// The HLO text, written as StableHLO and read again.
    Written,
}

impl Form {
    /// The ending of the file that it needs.
    fn ending(self) -> &'static str {
        match self {
            Form::File(ending) => ending,
            Form::Written => "hlo",
        }
    }

    /// The module; `None` where StableHLO has no form for it.
    fn module(self, case: &Case) -> Result<Option<Module>, String> {
        let ending = self.ending();
        let bytes = case.files.get(&format!("module.{ending}")).ok_or("no module")?;
        let read = front::read(bytes, Some(ending), &ReadOptions::default()).map_err(|e| format!("parse: {e}"))?;
        if let Form::File(_) = self {
            return Ok(Some(read.module));
        }
        match stablehlo::write_text(&read.module) {
            Ok(text) => {
                let read = stablehlo::read_text(&text, &ReadOptions::default());
                read.map(Some).map_err(|e| format!("what was written: {e}"))
            }
            Err(Error::Unsupported { .. }) => Ok(None),
            Err(e) => Err(format!("not written: {e}")),
        }
    }
}

/// Whether the case's numbers come out; `false` where StableHLO has no form for its module.
fn run(case: &Case, form: Form) -> Result<bool, String> {
    let Some(module) = form.module(case)? else { return Ok(false) };
    let entry = module.entry();
    let mut files = case.inputs.iter();
    let shapes = entry.parameters().into_iter().map(|p| &entry.instructions[p].shape);
    let shapes: Vec<&Shape> = shapes.collect();
    let options = Options { fuel: Some(10_000_000), ..Options::default() };
    let devices = (case.replicas * case.partitions) as usize;
    let mut arguments = Vec::with_capacity(devices);
    for _ in 0..devices {
        let one = shapes.iter().map(|s| argument(case, s, &mut files));
        arguments.push(one.collect::<Result<Vec<_>, _>>()?);
    }
    let results = if devices == 1 {
        interp::run(&module, &arguments[0], &options).map(|r| vec![r])
    } else {
        interp::run_devices(&module, &arguments, case.replicas as usize, case.partitions as usize, &options)
    };
    let results = results.map_err(|e| e.to_string())?;
    let got: Vec<&ArrayLiteral> = results.iter().flat_map(Literal::arrays).collect();
    if got.len() != case.outputs.len() {
        return Err(format!("{} results, want {}", got.len(), case.outputs.len()));
    }
    for (k, (got, want)) in got.iter().zip(&case.outputs).enumerate() {
        let ty = want.dtype.parse().map_err(|e| format!("{e}"))?;
        let bytes = case.files.get(&want.file).ok_or_else(|| format!("{} is missing", want.file))?;
        let array = scalar_form(npy::read(bytes, ty)?, got.dims().len());
        compare(got, &array, &want.tolerance).map_err(|e| format!("result {k}: {e}"))?;
    }
    Ok(true)
}

#[test]
fn the_interpreter_agrees_with_the_corpus() {
    agrees(Form::File("hlo"));
}

#[test]
fn the_interpreter_agrees_with_the_corpus_in_stablehlo() {
    agrees(Form::File("mlir"));
}

#[test]
fn the_interpreter_agrees_with_the_corpus_written_as_stablehlo() {
    agrees(Form::Written);
}

/// Every case that holds a module in this form.
fn agrees(form: Form) {
    let Some(folder) = std::env::var_os("BROLGA_CONFORMANCE").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_CONFORMANCE does not name a folder with the conformance corpus");
        return;
    };
    let filter = std::env::var("BROLGA_FILTER").unwrap_or_default();
    let mut cases = Vec::new();
    for source in corpus::sources(&folder).expect("the corpus can be listed") {
        cases.extend(corpus::read(&source).expect("a suite can be read"));
    }
    cases.retain(|c| c.expect == Expect::Run && c.id().contains(&filter));
    cases.retain(|c| c.files.contains_key(&format!("module.{}", form.ending())));
    assert!(!cases.is_empty(), "the corpus has suites");
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let outcome =
                        catch_unwind(AssertUnwindSafe(|| run(case, form))).unwrap_or_else(|_| Err("PANIC".into()));
                    outcomes.lock().expect("no panics here").push((case, outcome, start.elapsed()));
                }
            });
        }
    });
    let list = include_str!("../conformance/interp.txt");
    let excused: Vec<&str> = list.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(' ').nth(1)).collect();
    let mut suites: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut not_written = 0;
    let mut wrong = Vec::new();
    for (case, outcome, elapsed) in outcomes.into_inner().expect("no panics here") {
        let id = case.id();
        let count = suites.entry(&case.suite).or_default();
        if outcome == Ok(false) {
            not_written += 1;
            continue;
        }
        count.0 += usize::from(outcome.is_ok());
        count.1 += 1;
        match (outcome, excused.contains(&id.as_str())) {
            (Err(why), false) => wrong.push(format!("{id}: {why}")),
            (Ok(_), true) => wrong.push(format!("{id}: passes but is listed as failing")),
            _ => {}
        }
        if elapsed > Duration::from_secs(2) {
            eprintln!("slow: {id} {elapsed:.1?}");
        }
    }
    for (suite, (pass, total)) in suites {
        eprintln!("{suite}: {pass} of {total}");
    }
    if not_written > 0 {
        eprintln!("{not_written} have no form in StableHLO");
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
