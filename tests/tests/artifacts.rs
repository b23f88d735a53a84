//! StableHLO's own versioned artifacts: each must hold the operations that its text neighbour has.
//!
//! Set `BROLGA_ARTIFACTS` to a folder with `stablehlo_versions.zip`. Without it the test says so and passes.

use brolga_compiler::stablehlo::bytecode;
use brolga_compiler::stablehlo::ir::{Operation, Region};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

/// How often each operation occurs, by name.
type Counts = BTreeMap<String, usize>;

fn count(region: &Region, counts: &mut Counts) {
    for Operation { name, regions, .. } in &region.body {
        *counts.entry(name.to_string()).or_default() += 1;
        regions.iter().for_each(|r| count(r, counts));
    }
}

/// The operations that the text writes in quotes or at the beginning of a line, comments left out.
fn count_text(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines().map(str::trim).filter(|l| !l.starts_with("//")) {
        let line = line.split_once(" = ").map_or(line, |(_, rest)| rest).trim_start();
        let name = line.trim_start_matches('"');
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(name.len());
        let name = &name[..end];
        if (name.starts_with("stablehlo.") || name.starts_with("func.")) && name != "func.func" {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn artifacts_of_every_version_hold_what_their_text_has() {
    let Some(folder) = std::env::var_os("BROLGA_ARTIFACTS").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_ARTIFACTS does not name a folder with stablehlo_versions.zip");
        return;
    };
    let file = std::fs::File::open(folder.join("stablehlo_versions.zip")).expect("the archive can be opened");
    let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file)).expect("a zip file");
    let names: Vec<String> = archive.file_names().filter(|n| n.ends_with(".mlir.bc")).map(str::to_owned).collect();
    let mut failures = Vec::new();
    for name in &names {
        let mut read = |name: &str| {
            let mut bytes = Vec::new();
            archive.by_name(name).expect("a file").read_to_end(&mut bytes).expect("a file can be read");
            bytes
        };
        let (artifact, text) = (read(name), read(name.trim_end_matches(".bc")));
        let text = String::from_utf8(text).expect("a text");
        let program = match bytecode::read(&artifact) {
            Ok(program) => program,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        let functions = text.lines().filter(|l| l.trim_start().starts_with("func.func ")).count();
        if program.functions.len() != functions {
            failures.push(format!("{name}: {} functions, of {functions}", program.functions.len()));
        }
        let mut counts = Counts::new();
        program.functions.iter().filter_map(|f| f.body.as_ref()).for_each(|b| count(b, &mut counts));
        let wanted = count_text(&text);
        for (operation, n) in &wanted {
            let found = counts.get(operation).copied().unwrap_or_default();
            if found != *n {
                failures.push(format!("{name}: {operation} {found} times, of {n}"));
            }
        }
        for operation in counts.keys().filter(|o| !wanted.contains_key(*o)) {
            failures.push(format!("{name}: {operation}, which the text has not"));
        }
    }
    assert!(!names.is_empty(), "the archive has artifacts");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
