//! StableHLO's own versioned programs: every operation, type and attribute that each version of the dialect has.
//!
//! Set `BROLGA_ARTIFACTS` to a folder with `stablehlo_versions.zip`; without it the test says so and passes.

use brolga_compiler::front::ReadOptions;
use brolga_compiler::{Error, stablehlo};
use std::io::Read;
use std::path::PathBuf;

#[test]
fn every_version_is_read() {
    let Some(folder) = std::env::var_os("BROLGA_ARTIFACTS").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_ARTIFACTS does not name a folder with StableHLO's versioned programs");
        return;
    };
    let file = std::fs::File::open(folder.join("stablehlo_versions.zip")).expect("the programs are there");
    let mut archive = zip::ZipArchive::new(file).expect("a zip file");
    let (mut wrong, mut versions) = (Vec::new(), 0);
    for k in 0..archive.len() {
        let mut entry = archive.by_index(k).expect("an entry");
        let name = entry.name().to_owned();
        if !name.ends_with(".mlir") {
            continue;
        }
        versions += 1;
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("UTF-8");
        let program = match stablehlo::parse(&text) {
            Ok(program) => program,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let (mut converted, mut refused) = (0, Vec::new());
        for function in &program.functions {
            let mut one = program.clone();
            for other in &mut one.functions {
                other.is_private = other.name != function.name;
            }
            match stablehlo::lower(&one, &ReadOptions::default()) {
                Ok(_) => converted += 1,
                Err(error @ (Error::Internal(_) | Error::Target(_) | Error::Execution { .. })) => {
                    wrong.push(format!("{name} @{}: {error}", function.name));
                }
                Err(error) => refused.push(format!("@{}: {error}", function.name)),
            }
        }
        eprintln!("{name}: {converted} of {} functions converted", program.functions.len());
        for line in &refused {
            eprintln!("    {line}");
        }
        // Sizes left open, collectives over meshes, types that HLO lacks, and programs whose types are not those of the rules.
        if converted * 3 < program.functions.len() * 2 {
            wrong.push(format!("{name}: only {converted} of {} functions converted", program.functions.len()));
        }
    }
    assert!(versions > 0 && wrong.is_empty(), "{versions} versions\n{}", wrong.join("\n"));
}
