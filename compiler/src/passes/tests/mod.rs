//! Text in, text out: what each pass makes of a small module. The expected lines are the live instructions of the
//! entry, in order, as the printer writes them without `%`, layouts and metadata, the root marked.
#![allow(clippy::unwrap_used)]

mod one_device;
mod pipeline;
mod rules;

use super::Stats;
use crate::error::Result;
use crate::hlo::Module;
use crate::text::{PrintOptions, parse, print_instruction};

/// Reads a module whose entry holds `body`, after `others`.
fn module(others: &str, body: &str) -> Module {
    let text = format!("HloModule m\n{others}\nENTRY e {{\n{body}\n}}\n");
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    crate::shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    module
}

/// The entry's instructions.
fn lines(module: &Module) -> Vec<String> {
    let options = PrintOptions { percent: false, layouts: false, metadata: false, ..PrintOptions::default() };
    let entry = module.entry();
    let root = |i| if i == entry.root { "ROOT " } else { "" };
    let line = |&i| format!("{}{}", root(i), print_instruction(module, module.entry, i, &options).trim());
    entry.order.iter().map(line).collect()
}

/// Runs passes over the module, verifying after each.
fn run(module: &mut Module, passes: &[fn(&mut Module) -> Result<Stats>]) {
    for pass in passes {
        pass(module).unwrap();
        crate::shape::verify(module).unwrap_or_else(|e| panic!("{e}\n{}", lines(module).join("\n")));
    }
}

#[track_caller]
fn check(passes: &[fn(&mut Module) -> Result<Stats>], others: &str, body: &str, expected: &str) {
    let mut module = module(others, body);
    run(&mut module, passes);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let got: Vec<String> = lines(&module);
    assert_eq!(got, expected, "\n--- got\n{}\n--- expected\n{}", got.join("\n"), expected.join("\n"));
}
