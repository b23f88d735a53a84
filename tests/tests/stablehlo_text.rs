//! Modules written as StableHLO: what is written is read back to the same results, and StableHLO's own parser takes it.
//!
//! The programs are those of the table of operations, each operation with each element type, and with `BROLGA_CONFORMANCE`, a
//! folder with the suites' zip files, every module of the corpus. `BROLGA_PYTHON` names a Python that has jaxlib, which holds
//! StableHLO's parser and verifier; without it that test says so and passes.
#![allow(clippy::unwrap_used)]

use brolga_compiler::hlo::{Module, Opcode};
use brolga_compiler::stablehlo::{self, ReadOptions};
use brolga_compiler::{Error, interp, shape, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};
use brolga_tests::operations::program;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// The valid programs of the table of operations.
fn programs() -> Vec<(Opcode, ElementType, Module)> {
    let mut out = Vec::new();
    for &opcode in Opcode::ALL {
        for &ty in ElementType::ALL {
            let module = program(opcode, ty).and_then(|source| text::parse(&source).ok());
            out.extend(module.filter(|m| shape::verify(m).is_ok()).map(|m| (opcode, ty, m)));
        }
    }
    out
}

/// Arguments of small numbers.
fn arguments(module: &Module) -> Option<Vec<Literal>> {
    fn value(shape: &Shape) -> Option<Literal> {
        Some(match shape {
            Shape::Array(a) | Shape::Buffer(a) => {
                let mut array = ArrayLiteral::zeros(&ArrayShape::new(a.ty, a.dims.clone()));
                for k in 0..array.elements() {
                    let number = [1.0, 0.5, 2.0, 0.25, 3.0][k % 5];
                    let whole = a.ty.is_integer() || a.ty == ElementType::Pred;
                    array.set(k, if whole { Scalar::Int(k as i64 % 3) } else { Scalar::Float(number) });
                }
                Literal::Array(array)
            }
            Shape::Tuple(parts) => Literal::Tuple(parts.iter().map(value).collect::<Option<_>>()?),
            Shape::Token => Literal::Token,
            Shape::Opaque => return None,
        })
    }
    let entry = module.entry();
    entry.parameters().into_iter().map(|p| value(&entry.instructions[p].shape)).collect()
}

/// The leaves of the result; an error's kind where there is none.
fn run(module: &Module) -> Result<Vec<ArrayLiteral>, String> {
    let arguments = arguments(module).ok_or("no arguments")?;
    let result = interp::run(module, &arguments, &interp::Options::default()).map_err(|e| e.message())?;
    Ok(result.arrays().into_iter().cloned().collect())
}

#[test]
fn every_operation_is_written_and_read_back_to_the_same_results() {
    let (mut refused, mut failures) = (BTreeSet::new(), Vec::new());
    let (mut written, mut same) = (0, 0);
    for (opcode, ty, module) in programs() {
        let text = match stablehlo::write_text(&module) {
            Ok(text) => text,
            Err(Error::Unsupported { site, feature }) => {
                assert!(site.instruction.is_some() && site.location.line > 0, "{opcode} of {ty}: {feature}");
                // Integers of one bit are truth values in MLIR.
                if !matches!(ty, ElementType::S1 | ElementType::U1) {
                    refused.insert(opcode.name());
                }
                continue;
            }
            Err(error) => panic!("{opcode} of {ty}: {error}"),
        };
        written += 1;
        let read = stablehlo::read_text(&text, &ReadOptions::default());
        let read = match read.and_then(|m| shape::verify(&m).map(|()| m)) {
            Ok(read) => read,
            Err(error) => {
                failures.push(format!("{opcode} of {ty}: {error}\n{text}"));
                continue;
            }
        };
        match (run(&module), run(&read)) {
            (Ok(want), Ok(got)) if want == got => same += 1,
            (Ok(want), got) => failures.push(format!("{opcode} of {ty}: {got:?} of {want:?}\n{text}")),
            (Err(_), _) => {}
        }
    }
    eprintln!("{written} written, {same} with the same results, refused: {refused:?}");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(same > 500);
    // Of the table's forms: an exchange of as many parts as devices run it, and feeds of an array alone.
    let wanted = [
        "all-to-all",
        "domain",
        "infeed",
        "outfeed",
        "ragged-all-to-all",
        "rng-get-and-update-state",
        "scaled-dot",
        "stochastic-convert",
    ];
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), wanted);
}

/// Runs the script over a folder of texts, and yields what it prints.
fn parsed_by_stablehlo(python: &str, folder: &PathBuf) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/stablehlo_reads_text.py");
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A verifier that gives up says nothing of the modules.
    assert!(text.contains("modules are read"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// An empty folder of this test's.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_parser_of_stablehlo_reads_every_operation() {
    let Ok(python) = std::env::var("BROLGA_PYTHON") else {
        eprintln!("SKIPPED: BROLGA_PYTHON does not name a Python with jaxlib");
        return;
    };
    let folder = folder("stablehlo_operations");
    for (opcode, ty, module) in programs() {
        // What HLO defines and StableHLO's verifier does not admit: such operations on such types.
        if let Ok(text) = stablehlo::write_text(&module) {
            std::fs::write(folder.join(format!("{opcode}-{ty}.mlir")), text).unwrap();
        }
    }
    let report = parsed_by_stablehlo(&python, &folder);
    eprintln!("{report}");
    let refused: Vec<&str> = report.lines().filter(|l| l.starts_with("REFUSED")).collect();
    // Types that HLO admits and StableHLO does not are refused by its verifier, never by its parser.
    let by_parser: Vec<&&str> = refused.iter().filter(|l| !l.contains(" op ")).collect();
    assert!(by_parser.is_empty(), "{by_parser:?}");
}

#[test]
fn modules_of_the_corpus_come_back() {
    let Some(cases) = super::corpus::corpus() else { return };
    let folder = folder("stablehlo_corpus");
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut total, mut written) = (0, 0);
    let (mut not_read, mut wrong) = (BTreeMap::new(), Vec::new());
    for case in &cases {
        let Ok(module) = text::parse(&case.text) else { continue };
        if shape::verify(&module).is_err() {
            continue;
        }
        total += 1;
        match stablehlo::write_text(&module) {
            Ok(text) => {
                written += 1;
                std::fs::write(folder.join(format!("{}-{}.mlir", case.suite, case.name.replace('/', "-"))), &text)
                    .unwrap();
                let read = stablehlo::read_text(&text, &ReadOptions::default());
                let name = format!("{}/{}", case.suite, case.name);
                match read.and_then(|m| shape::verify(&m)) {
                    Ok(()) => {}
                    Err(error @ Error::Unsupported { .. }) => drop(not_read.insert(name, error.to_string())),
                    Err(error) => wrong.push(format!("{name}: {error}")),
                }
            }
            Err(Error::Unsupported { feature, .. }) => *reasons.entry(feature).or_default() += 1,
            Err(error) => panic!("{}/{}: {error}", case.suite, case.name),
        }
    }
    for (reason, count) in &reasons {
        eprintln!("{count:>5} not written: {reason}");
    }
    for (name, error) in &not_read {
        eprintln!("      not read back: {name}: {error}");
    }
    eprintln!("{written} of {total} written, {} of them read back", written - not_read.len());
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(written * 100 >= total * 95 && not_read.len() * 100 <= written);
    if let Ok(python) = std::env::var("BROLGA_PYTHON") {
        let report = parsed_by_stablehlo(&python, &folder);
        eprintln!("{report}");
        assert!(!report.contains("REFUSED"), "{report}");
    }
}
