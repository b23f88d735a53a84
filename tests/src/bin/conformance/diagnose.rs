//! Invalid modules must be refused for the right reason: the kind of error, the line and the instruction are recorded in
//! `tests/conformance/errors.txt`, one line a case, and compared.

use crate::check::{Outcome, Status};
use brolga_compiler::{Error, shape, text};
use brolga_tests::corpus::Case;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The recorded errors by case.
pub type Recorded = BTreeMap<String, String>;

fn file(dir: &Path) -> PathBuf {
    dir.join("errors.txt")
}

/// Reads the record; `None` where there is none.
pub fn read(dir: &Path) -> Option<Recorded> {
    let text = std::fs::read_to_string(file(dir)).ok()?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Some(lines.filter_map(|l| l.split_once(' ')).map(|(id, error)| (id.to_owned(), error.to_owned())).collect())
}

/// Writes the record.
pub fn write(dir: &Path, outcomes: &BTreeMap<String, Outcome>) -> std::io::Result<()> {
    let mut out = String::from("# Case, kind of error, line, instruction; written by `conformance --update`.\n");
    for (id, outcome) in outcomes {
        out.push_str(&format!("{id} {}\n", outcome.why));
    }
    std::fs::write(file(dir), out)
}

/// Reads a module that must be refused; without a record any refusal passes. A pass carries the error as its reason.
pub fn check(case: &Case, recorded: Option<&Recorded>) -> Outcome {
    let start = Instant::now();
    let (status, why) = match catch_unwind(AssertUnwindSafe(|| refusal(case))) {
        Err(_) => (Status::Crash, "panicked".to_owned()),
        Ok(None) => (Status::Fail, "accepted an invalid module".to_owned()),
        Ok(Some(found)) => match recorded.map(|r| r.get(&case.id())) {
            Some(Some(want)) if *want != found => (Status::Fail, format!("{found}, recorded: {want}")),
            Some(None) => (Status::Fail, format!("{found}, nothing recorded")),
            _ => (Status::Pass, found),
        },
    };
    Outcome { status, why, seconds: start.elapsed().as_secs_f64() }
}

fn refusal(case: &Case) -> Option<String> {
    let source = String::from_utf8_lossy(case.files.get("module.hlo")?);
    let error = text::parse(&source).and_then(|module| shape::verify(&module)).err()?;
    let kind = match &error {
        Error::Syntax { .. } => "syntax",
        Error::Invalid { constraint, .. } => constraint,
        Error::Unsupported { .. } => "unsupported",
        Error::Execution { .. } => "execution",
        Error::Target(_) => "target",
        Error::Internal(_) => "internal",
    };
    let site = error.site().cloned().unwrap_or_default();
    Some(format!("{kind} {} {}", site.location.line, site.instruction.as_deref().unwrap_or("-")))
}
