//! Every public method of the builder is called by a test.
//!
//! Problem: a method that no test calls can be wrong in silence. Algorithm: the sources of the builder are read for
//! `pub fn`, and for the names in the tables of its macros; the sources of the tests for calls of those names. Both are
//! texts: a method counts as called where a test says `.name(` or `Builder::name`.
#![allow(clippy::unwrap_used)]

use regex_lite::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The public methods, those that macros make included.
fn methods() -> BTreeSet<String> {
    let plain = Regex::new(r"(?m)^    pub fn ([a-z]\w*)").unwrap();
    // `    add add_in_dims Add "the sum";`: the names before the opcode or the direction.
    let row = Regex::new(r"^    ((?:[a-z]\w* )+)[A-Z]\w*(?: |$)").unwrap();
    let mut found = BTreeSet::new();
    for path in sources(&repository().join("compiler/src/builder")) {
        if matches!(name_of(&path).as_str(), "tests.rs" | "types.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        found.extend(plain.captures_iter(&text).map(|c| c[1].to_owned()));
        let mut in_table = false;
        for line in text.lines() {
            in_table = match line {
                "unary! {" | "binary! {" | "comparisons! {" => true,
                "}" => false,
                _ => in_table,
            };
            if let Some(names) = row.captures(line).filter(|_| in_table) {
                found.extend(names[1].split_whitespace().map(str::to_owned));
            }
        }
    }
    found
}

/// The names that tests call as methods.
fn called() -> BTreeSet<String> {
    let call = Regex::new(r"(?:\.|Builder::)([a-z]\w*)\b").unwrap();
    let root = repository();
    let mut files = sources(&root.join("tests/tests"));
    files.extend(sources(&root.join("tests/src/random_graph")));
    files.extend(sources(&root.join("compiler/src")).into_iter().filter(|p| name_of(p) == "tests.rs"));
    let mut found = BTreeSet::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        found.extend(call.captures_iter(&text).map(|c| c[1].to_owned()));
    }
    found
}

#[test]
fn every_public_method_of_the_builder_is_called_by_a_test() {
    let methods = methods();
    // The readers of the sources find what is there: each way in which a method is made, and every file.
    for name in ["new", "add", "add_in_dims", "abs", "eq_total_order", "conv", "sort", "all_reduce", "dot_general"] {
        assert!(methods.contains(name), "{name} is not found: {methods:?}");
    }
    assert!(methods.len() > 180, "{} methods", methods.len());
    let called = called();
    let missing: Vec<_> = methods.difference(&called).collect();
    assert!(missing.is_empty(), "methods of the builder that no test calls: {missing:?}");
}
