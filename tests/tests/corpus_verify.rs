//! The verifier against a corpus of modules: what XLA accepts is accepted, what was broken on purpose is refused, with
//! the line and the instruction at fault.
//!
//! Set `BROLGA_CONFORMANCE` to a folder with the suites' zip files. Without it these tests say so and pass.

use super::corpus::{Case, corpus};
use brolga_compiler::{Error, Site, shape, text};

/// The suite of modules made invalid in one place; a case's name starts with what was done.
const BROKEN: &str = "gen_error";

fn check(source: &str) -> Result<(), Error> {
    shape::verify(&text::parse(source)?)
}

#[test]
fn modules_that_run_are_accepted() {
    let Some(cases) = corpus() else { return };
    let refused = refused(&cases, "run");
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n"));
}

/// Some modules that XLA's reader takes are its verifier's own negative tests: fewer than one in fifty may be refused.
#[test]
fn modules_that_parse_are_accepted() {
    let Some(cases) = corpus() else { return };
    let total = cases.iter().filter(|c| c.meta["expect"] == "parse").count();
    let refused = refused(&cases, "parse");
    eprintln!("{} of {total} refused:\n{}", refused.len(), refused.join("\n"));
    assert!(refused.len() * 50 < total);
}

fn refused(cases: &[Case], expect: &str) -> Vec<String> {
    let mut out = Vec::new();
    for case in cases.iter().filter(|c| c.meta["expect"] == expect) {
        let Ok(module) = text::parse(&case.text) else { continue };
        if let Err(error) = shape::verify(&module) {
            out.push(format!("{}/{}: {error}", case.suite, case.name));
        }
    }
    out
}

/// What the line at fault must contain, by what was done to the module.
fn mark(class: &str) -> &'static str {
    match class {
        "param_no" => "parameter(9)",
        "negative" => "[-",
        "huge" => "999999999",
        "no_computation" => "%nowhere",
        "undefined_operand" => "no_such_value",
        "bad_dim" => "77",
        "wrong_shape" | "wrong_type" | "drop_operand" => " = ",
        _ => "",
    }
}

fn judge(case: &Case) -> Result<(), String> {
    let Err(error) = check(&case.text) else { return Err("accepted".to_owned()) };
    let Some(Site { instruction, location, .. }) = error.site() else { return Err(format!("no place in {error}")) };
    if location.line == 0 {
        return Err(format!("no line in {error}"));
    }
    // A text that ends too early is at fault after its last line.
    let line = case.text.lines().nth(location.line as usize - 1).unwrap_or_default();
    let class = case.name.split("__").next().unwrap_or_default();
    if !line.contains(mark(class)) {
        return Err(format!("wrong line '{line}' for {error}"));
    }
    let names = |name: &String| line.trim_start().trim_start_matches("ROOT ").starts_with(&format!("{name} ="));
    match (&error, instruction) {
        (Error::Invalid { .. }, Some(name)) if !names(name) => Err(format!("wrong instruction for {error}")),
        (Error::Invalid { .. }, None) => Err(format!("no instruction in {error}")),
        _ => Ok(()),
    }
}

#[test]
fn broken_modules_are_refused_where_they_are_broken() {
    let Some(cases) = corpus() else { return };
    let failures: Vec<String> = cases
        .iter()
        .filter(|c| c.suite == BROKEN)
        .filter_map(|c| judge(c).err().map(|message| format!("{}: {message}", c.name)))
        .collect();
    assert!(failures.is_empty(), "{} misjudged:\n{}", failures.len(), failures.join("\n"));
}

/// Numbers that break arithmetic done without care.
const EXTREMES: [&str; 7] =
    ["0", "-1", "1", "77", "4611686018427387904", "9223372036854775807", "-9223372036854775808"];

/// `text` with its `n`th number replaced.
fn with_number(text: &str, n: usize, number: &str) -> Option<String> {
    let digit = |c: char| c.is_ascii_digit();
    let starts = text.char_indices().filter(|&(i, c)| {
        let before = text[..i].chars().next_back().unwrap_or(' ');
        digit(c) && !before.is_alphanumeric() && !matches!(before, '_' | '.' | '-')
    });
    let (start, _) = starts.into_iter().nth(n)?;
    let end = text[start..].find(|c| !digit(c)).map_or(text.len(), |len| start + len);
    Some(format!("{}{number}{}", &text[..start], &text[end..]))
}

#[test]
fn extreme_numbers_do_no_harm() {
    let Some(cases) = corpus() else { return };
    for (k, case) in cases.iter().enumerate().filter(|(_, c)| c.text.len() < 10_000) {
        for (j, number) in EXTREMES.iter().enumerate() {
            // A different number of each module with each extreme; the module's errors do not matter, only that it ends.
            for n in (0..4).map(|m| m * 13 + (k + j) % 13) {
                if let Some(text) = with_number(&case.text, n, number) {
                    let _ = check(&text);
                }
            }
        }
    }
}
