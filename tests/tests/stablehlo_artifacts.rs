//! Portable artifacts, StableHLO's own of every version and those of the corpus: each must read to the program that its text
//! neighbour is.
//!
//! Set `BROLGA_ARTIFACTS` to a folder with `stablehlo_versions.zip`, which holds files `V.mlir` and `V.mlir.bc`; and
//! `BROLGA_CORPUS_ARTIFACTS` to a folder of what `tools/artifacts_of_corpus.py` makes of the conformance corpus. Without them the
//! tests say so and pass.

use brolga_compiler::stablehlo::ir::{Attribute, Dictionary, Element, Elements, Function, Region, Value};
use brolga_compiler::stablehlo::{bytecode, parse};
use brolga_runtime::ElementType;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::path::PathBuf;

/// What a function says, whatever its values are called and in whatever order and spelling its attributes stand.
#[derive(Default)]
struct Shown {
    out: String,
    values: HashMap<Value, usize>,
}

impl Shown {
    fn put(&mut self, text: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{text}");
    }

    fn function(function: &Function) -> String {
        let mut shown = Shown::default();
        let Function { is_private, arguments, results, .. } = function;
        shown.put(format_args!("private={is_private} {arguments:?} -> {results:?}\n"));
        for list in [&function.argument_attributes, &function.result_attributes] {
            for dictionary in list {
                shown.attributes("", dictionary.clone());
            }
        }
        shown.attributes("", function.attributes.clone());
        if let Some(body) = &function.body {
            shown.region(function, body);
        }
        shown.out
    }

    fn value(&mut self, value: Value) {
        let next = self.values.len();
        let number = *self.values.entry(value).or_insert(next);
        self.put(format_args!(" %{number}"));
    }

    fn region(&mut self, function: &Function, region: &Region) {
        self.put("{");
        for &argument in &region.arguments {
            self.value(argument);
            self.put(format_args!(": {:?}", function.values[argument].ty));
        }
        self.put("\n");
        for operation in &region.body {
            self.put(&operation.name);
            operation.operands.iter().for_each(|&o| self.value(o));
            let base = operation.name.rsplit('.').next().unwrap_or_default();
            self.attributes(base, operation.attributes.clone());
            operation.regions.iter().for_each(|r| self.region(function, r));
            for &result in &operation.results {
                self.put(" ->");
                self.value(result);
                self.put(format_args!(": {:?}", function.values[result].ty));
            }
            self.put("\n");
        }
        self.put("}");
    }

    fn attributes(&mut self, operation: &str, mut attributes: Dictionary) {
        bytecode::strip_defaults(operation, &mut attributes);
        let mut all: Vec<String> =
            attributes.iter().map(|(name, value)| format!("{name} = {}", attribute(value))).collect();
        all.sort();
        self.put(format_args!(" <{}>", all.join(", ")));
    }
}

fn attribute(value: &Attribute) -> String {
    match value {
        Attribute::Ints(list, _) => format!("{list:?}"),
        Attribute::Elements(elements) => self::elements(elements),
        Attribute::Array(list) => format!("[{}]", list.iter().map(attribute).collect::<Vec<_>>().join(", ")),
        Attribute::Dictionary(entries) => {
            let mut all: Vec<String> = entries.iter().map(|(n, v)| format!("{n} = {}", attribute(v))).collect();
            all.sort();
            format!("{{{}}}", all.join(", "))
        }
        // VHLO keeps the kind of a channel for sends and receives alone, which say it themselves.
        Attribute::Channel { handle, .. } => format!("channel {handle}"),
        other => format!("{other:?}"),
    }
}

/// Lists of integers have two spellings, and equal elements too.
fn elements(elements: &Elements) -> String {
    let is_list = elements.ty.dims.len() == 1
        && matches!(elements.ty.element, Element::Type(ElementType::S64 | ElementType::Pred));
    if let (true, Some(list)) = (is_list, elements.to_ints()) {
        return format!("{list:?}");
    }
    let bytes = elements.data.bytes();
    let size = elements.data.ty().byte_size();
    let all_same = bytes.chunks(size).all(|e| bytes.starts_with(e));
    let shown = if all_same { bytes.get(..size).unwrap_or_default() } else { bytes };
    format!("{:?} {shown:?}", elements.ty)
}

#[test]
fn artifacts_of_every_version_read_as_their_text() {
    let Some(folder) = std::env::var_os("BROLGA_ARTIFACTS").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_ARTIFACTS does not name a folder with versioned artifacts");
        return;
    };
    let file = std::fs::File::open(folder.join("stablehlo_versions.zip")).expect("the artifacts are there");
    let mut archive = zip::ZipArchive::new(file).expect("a zip file");
    let mut files: HashMap<String, Vec<u8>> = HashMap::new();
    for k in 0..archive.len() {
        let mut entry = archive.by_index(k).expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("a file can be read");
        files.insert(entry.name().to_owned(), bytes);
    }
    compare(&files);
}

#[test]
fn artifacts_of_the_corpus_read_as_their_text() {
    let Some(folder) = std::env::var_os("BROLGA_CORPUS_ARTIFACTS").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_CORPUS_ARTIFACTS does not name a folder that tools/artifacts_of_corpus.py wrote");
        return;
    };
    let mut files = HashMap::new();
    for suite in std::fs::read_dir(folder).expect("the folder can be read") {
        for file in std::fs::read_dir(suite.expect("a suite").path()).expect("suites are folders") {
            let path = file.expect("a file").path();
            files.insert(path.display().to_string(), std::fs::read(path).expect("a file can be read"));
        }
    }
    compare(&files);
}

/// Each `V.mlir.bc` must read to the functions of `V.mlir`.
fn compare(files: &HashMap<String, Vec<u8>>) {
    let mut names: Vec<&String> = files.keys().filter(|n| n.ends_with(".mlir.bc")).collect();
    names.sort();
    let (mut failures, mut functions, mut equal) = (Vec::new(), 0, 0);
    for name in &names {
        let read = |name: &str| files.get(name).cloned().expect("a text beside each artifact");
        let (artifact, text) = (read(name), read(name.trim_end_matches(".bc")));
        let text = String::from_utf8(text).expect("a text");
        let before = failures.len();
        match (bytecode::read(&artifact), parse(&text)) {
            (Ok(found), Ok(wanted)) => {
                if found.functions.len() != wanted.functions.len() {
                    failures.push(format!(
                        "{name}: {} functions, of {}",
                        found.functions.len(),
                        wanted.functions.len()
                    ));
                }
                for (found, wanted) in found.functions.iter().zip(&wanted.functions) {
                    functions += 1;
                    let (a, b) = (Shown::function(found), Shown::function(wanted));
                    if found.name != wanted.name || a != b {
                        let first = a.lines().zip(b.lines()).find(|(a, b)| a != b).unwrap_or_default();
                        failures.push(format!("{name}: {}\n  {}\n  {}", wanted.name, first.0, first.1));
                    }
                }
            }
            (Err(error), _) => failures.push(format!("{name}: {error}")),
            (_, Err(error)) => failures.push(format!("{name}, its text: {error}")),
        }
        equal += usize::from(failures.len() == before);
    }
    eprintln!("{equal} of {} artifacts, {functions} functions compared", names.len());
    assert!(!names.is_empty(), "the folder has artifacts");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
