//! The text reader and printer against a corpus of modules that XLA printed.
//!
//! Set `BROLGA_CONFORMANCE` to a folder with the suites' zip files. Without it these tests say so and pass.

use super::corpus::corpus;
use brolga_compiler::text::{self, PrintOptions, Summary};
use brolga_compiler::{Error, hlo};
use std::time::Instant;

/// What is allowed to fail: one module in a hundred.
fn at_least_99_percent(what: &str, total: usize, failures: &[String]) {
    eprintln!("{what}: {} of {total}", total - failures.len());
    for failure in failures {
        eprintln!("  {failure}");
    }
    assert!(failures.len() * 100 <= total, "{what}: {} of {total} failed", failures.len());
}

#[test]
fn modules_that_run_all_parse() {
    let Some(cases) = corpus() else { return };
    let mut failures = Vec::new();
    let cases: Vec<_> = cases.iter().filter(|c| c.meta["expect"] == "run").collect();
    for case in &cases {
        if let Err(error) = text::parse(&case.text) {
            failures.push(format!("{}/{}: {error}", case.suite, case.name));
        }
    }
    eprintln!("{}", failures.join("\n"));
    assert!(failures.is_empty(), "{} of {} do not parse", failures.len(), cases.len());
}

#[test]
fn printing_is_a_fixed_point() {
    let Some(cases) = corpus() else { return };
    let styles =
        [PrintOptions::default(), PrintOptions { percent: false, operand_shapes: true, ..PrintOptions::default() }];
    for case in cases {
        let Ok(module) = text::parse(&case.text) else { continue };
        for options in styles {
            let once = text::print(&module, &options);
            let again = text::parse(&once).unwrap_or_else(|e| panic!("{}: {e}\n{once}", case.name));
            assert_eq!(text::print(&again, &options), once, "{}", case.name);
            assert_same(&case.name, &module, &again);
        }
    }
}

/// Equal but for the places in the text.
fn assert_same(name: &str, a: &hlo::Module, b: &hlo::Module) {
    assert_eq!(text::summary(a), text::summary(b), "{name}");
    for (&x, &y) in a.order.iter().zip(&b.order) {
        let (x, y) = (&a.computations[x], &b.computations[y]);
        assert_eq!(x.order.len(), y.order.len(), "{name}");
        for (&i, &j) in x.order.iter().zip(&y.order) {
            let (i, j) = (&x.instructions[i], &y.instructions[j]);
            assert_eq!((&i.name, &i.shape, i.opcode), (&j.name, &j.shape, j.opcode), "{name}");
            assert_eq!(i.operands, j.operands, "{name}");
            assert_eq!(i.attrs, j.attrs, "{name} {}", i.name);
        }
    }
}

/// A shape as the corpus writes it, without what the comparison ignores: layouts, comments, blanks.
fn bare(shape: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    for c in shape.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    // `/*index=5*/`
    while let Some((start, rest)) = out.split_once("/*").map(|(a, b)| (a.to_owned(), b.to_owned())) {
        out = start + rest.split_once("*/").map_or("", |(_, after)| after);
    }
    out
}

fn check_summary(found: &Summary, want: &serde_json::Value) -> Result<(), String> {
    let found = serde_json::json!({
        "computations": found.computations,
        "instructions": found.instructions,
        "opcodes": found.opcodes,
        "params": found.params.iter().map(|p| bare(p)).collect::<Vec<_>>(),
        "result": bare(&found.result),
    });
    let mut want = want.clone();
    want["result"] = bare(want["result"].as_str().unwrap_or_default()).into();
    for param in want["params"].as_array_mut().into_iter().flatten() {
        *param = bare(param.as_str().unwrap_or_default()).into();
    }
    if found == want { Ok(()) } else { Err(format!("found {found}, want {want}")) }
}

#[test]
fn counts_agree_with_xla() {
    let Some(cases) = corpus() else { return };
    let mut failures = Vec::new();
    let cases: Vec<_> = cases.iter().filter(|c| c.meta["expect"] == "parse").collect();
    for case in &cases {
        let result = match text::parse(&case.text) {
            Ok(module) => check_summary(&text::summary(&module), &case.meta["summary"]),
            Err(error) => Err(error.to_string()),
        };
        if let Err(message) = result {
            failures.push(format!("{}: {message}", case.name));
        }
    }
    at_least_99_percent("summaries", cases.len(), &failures);
}

#[test]
fn syntax_errors_have_a_place() {
    let Some(cases) = corpus() else { return };
    for case in cases {
        match text::parse(&case.text) {
            Ok(_) | Err(Error::Unsupported { .. }) => {}
            Err(Error::Syntax { site, message }) => {
                assert!(site.location.line > 0 && site.location.column > 0, "{}: {message}", case.name);
                assert!(message.starts_with("expected "), "{}: {message}", case.name);
            }
            Err(other) => panic!("{}: {other}", case.name),
        }
    }
}

/// A small generator of pseudo-random numbers (SplitMix64), so that the mutants are the same on every run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn mutate(rng: &mut Rng, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=rng.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = rng.next() as u8,
            1 => {
                let start = bytes[..at].iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
                let end = bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n + 1);
                bytes.drain(start..end);
            }
            2 => {
                // A digit becomes a number at the edge of what fits.
                let numbers = ["-1", "9223372036854775807", "99999999999999999999999", "0", "128", "1e400"];
                if let Some(n) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    let number = numbers[rng.below(numbers.len())];
                    bytes.splice(at + n..at + n + 1, number.bytes());
                }
            }
            3 => bytes.truncate(at),
            4 => {
                let piece = ["{", "}", "(", ")", "[", "\"", "/*", ",", "=", "%", "ROOT ", "ENTRY ", "{...}"];
                let piece = piece[rng.below(piece.len())];
                bytes.splice(at..at, piece.bytes());
            }
            _ => {
                let other = rng.below(bytes.len());
                bytes.swap(at, other);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn mutants_neither_panic_nor_hang() {
    let Some(cases) = corpus() else { return };
    let mut rng = Rng(1);
    for _ in 0..1000 {
        let case = &cases[rng.below(cases.len())];
        let mutant = mutate(&mut rng, &case.text);
        let start = Instant::now();
        if let Ok(module) = text::parse(&mutant) {
            let printed = text::print(&module, &PrintOptions::default());
            let again = text::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{mutant}\n{printed}"));
            assert_eq!(text::print(&again, &PrintOptions::default()), printed);
        }
        assert!(start.elapsed().as_secs() < 5, "{} takes too long:\n{mutant}", case.name);
    }
}
