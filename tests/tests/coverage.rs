//! `docs/semantics/coverage.md` names, for each statement of the operation semantics, the tests that cover it.
//!
//! The page is read as it stands: every test that it names exists in the file that it names, every rule that a statement
//! cites is in the body of one of them, and every section of its lists has a statement.
#![allow(clippy::unwrap_used)]

use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// A row: section, statement, and tests as (path, name).
struct Row {
    line: usize,
    section: String,
    statement: String,
    tests: Vec<(String, String)>,
}

/// A table of the page, with the sections that its list promises.
#[derive(Default)]
struct Table {
    sections: BTreeSet<String>,
    rows: Vec<Row>,
}

fn tables() -> Vec<Table> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/semantics/coverage.md")).unwrap();
    let test = Regex::new(r"`([^`]+\.rs)::(\w+)`").unwrap();
    let mut tables: Vec<Table> = Vec::new();
    let mut in_list = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("## ") {
            tables.push(Table::default());
        }
        let Some(table) = tables.last_mut() else { continue };
        let listed = line.strip_prefix("Sections: ");
        in_list = listed.is_some() || (in_list && !line.is_empty());
        if in_list {
            let titles = listed.unwrap_or(line).trim_end_matches('.').split(" · ");
            table.sections.extend(titles.map(|t| t.trim_matches(['·', ' ']).to_owned()).filter(|t| !t.is_empty()));
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [section, statement, tests] = cells[..]
            && line.starts_with("| ")
            && section != "section"
        {
            let tests = test.captures_iter(tests).map(|c| (c[1].to_owned(), c[2].to_owned())).collect();
            let (section, statement) = (section.to_owned(), statement.to_owned());
            table.rows.push(Row { line: number + 1, section, statement, tests });
        }
    }
    tables
}

/// The text of a test, up to the next one; nothing where the file has no such test.
fn body<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let head = format!("fn {name}()");
    let mut tests = source.split("#[test]").skip(1);
    tests.find(|text| text.split_once('{').is_some_and(|(signature, _)| signature.contains(&head)))
}

#[test]
fn every_statement_names_tests_that_exist() {
    let rule = Regex::new(r"`([a-z0-9-]+\.[a-z0-9-]+)`").unwrap();
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for row in tables().iter().flat_map(|t| &t.rows) {
        count += 1;
        if row.tests.is_empty() {
            wrong.push(format!("line {}: no test", row.line));
        }
        let mut bodies = String::new();
        for (path, name) in &row.tests {
            let source = sources.entry(path.clone()).or_insert_with(|| {
                std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap_or_default()
            });
            match body(source, name) {
                Some(text) => bodies.push_str(text),
                None => wrong.push(format!("line {}: no test {name} in {path}", row.line)),
            }
        }
        for id in rule.captures_iter(&row.statement).map(|c| c[1].to_owned()) {
            if !bodies.contains(&format!("\"{id}\"")) {
                wrong.push(format!("line {}: none of its tests breaks the rule {id}", row.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 350, "the tables are read: {count} statements");
}

/// So does each sentence of the pages on layouts and tensors that states a behaviour: every row of a table with a column of tests
/// names one, but for that on what is only a way of speaking.
#[test]
fn the_pages_on_layouts_and_tensors_name_tests_that_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let test = Regex::new(r"`([^`]+\.rs)::(\w+)`").unwrap();
    for (file, least) in [("layouts.md", 40), ("tensors.md", 70)] {
        let page = std::fs::read_to_string(format!("{root}/docs/semantics/{file}")).unwrap();
        let (mut count, mut wrong) = (0, Vec::new());
        for named in test.captures_iter(&page) {
            let (path, name) = (&named[1], &named[2]);
            let source = std::fs::read_to_string(format!("{root}/{path}")).unwrap_or_default();
            if body(&source, name).is_none() {
                wrong.push(format!("no test {name} in {path}"));
            }
            count += 1;
        }
        let mut in_table = false;
        for line in page.lines().filter(|line| !line.starts_with("|---")) {
            let is_head = line.starts_with("| ") && line.ends_with("test |");
            in_table = is_head || (in_table && line.starts_with("| "));
            if in_table && !is_head && !test.is_match(line) && !line.contains("names only") {
                wrong.push(format!("no test in {line}"));
            }
        }
        assert!(wrong.is_empty(), "{file}:\n{}", wrong.join("\n"));
        assert!(count >= least, "{file}: {count} tests");
    }
}

#[test]
fn every_section_of_the_lists_has_a_statement() {
    let tables = tables();
    assert!(tables.len() == 3 && tables[0].sections.len() > 65, "the lists are read");
    for table in tables {
        let found: BTreeSet<String> = table.rows.iter().map(|r| r.section.clone()).collect();
        let missing: Vec<_> = table.sections.difference(&found).collect();
        let unlisted: Vec<_> = found.difference(&table.sections).collect();
        assert!(missing.is_empty() && unlisted.is_empty(), "without a statement {missing:?}, in no list {unlisted:?}");
    }
}

/// The documentation of the builder cites sections by their titles, all of which are sections of the lists.
#[test]
fn sections_that_the_builder_cites_exist() {
    let cited = Regex::new(r"Section(?:s)?\s+(?:/// )?«([^»]+)»").unwrap();
    let known: BTreeSet<String> = tables().into_iter().take(2).flat_map(|t| t.sections).collect();
    let mut count = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../compiler/src/builder")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        // A citation may go on in the next line.
        let source = source.replace("\n    /// ", " ").replace("\n        /// ", " ");
        for title in cited.captures_iter(&source).map(|c| c[1].to_owned()) {
            assert!(known.contains(&title), "no document has a section «{title}»");
            count += 1;
        }
    }
    assert!(count > 60, "{count} citations");
}
