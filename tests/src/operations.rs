//! The table of operations: what each is called in text and in the builder, for which element types it is defined,
//! interpreted and compiled, and which tests run it.
//!
//! **Problem.** A table written by hand is wrong the day after. **Invariant.** Every cell is found out: rows come from the
//! opcode table; types are those for which a tiny program verifies, runs in the interpreter, compiles; tests are found in
//! the sources of the tests; the names of builder methods are checked by the compiler. **Algorithm.** A template of
//! HLO text for each opcode, with the type left open.

mod templates;

use brolga_compiler::hlo::{Category, Opcode};
use brolga_compiler::interp::{Host, Options, run_with};
use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::ElementType as E;
use brolga_runtime::Literal;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use templates::{PRELUDE, TEMPLATES, builder_methods};

/// What becomes of an operation on elements of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// The verifier accepts it.
    pub valid: bool,
    /// The interpreter runs it.
    pub interpreted: bool,
    /// The compiler has a form for it.
    pub compiled: bool,
}

/// A host with zeros to feed and to receive.
struct Zeros;

impl Host for Zeros {
    fn infeed(&mut self, inst: &brolga_compiler::hlo::Instruction) -> brolga_compiler::Result<Literal> {
        first_zero(inst)
    }

    fn recv(&mut self, inst: &brolga_compiler::hlo::Instruction, _: u32) -> brolga_compiler::Result<Literal> {
        first_zero(inst)
    }

    fn outfeed(&mut self, _: &brolga_compiler::hlo::Instruction, _: &Literal) -> brolga_compiler::Result<()> {
        Ok(())
    }

    fn send(&mut self, _: &brolga_compiler::hlo::Instruction, _: &Literal) -> brolga_compiler::Result<()> {
        Ok(())
    }

    fn custom_call(
        &mut self,
        inst: &brolga_compiler::hlo::Instruction,
        _: &[&Literal],
    ) -> brolga_compiler::Result<Literal> {
        Literal::zeros(&inst.shape).ok_or_else(|| brolga_compiler::Error::Internal("no zero".to_owned()))
    }
}

fn first_zero(inst: &brolga_compiler::hlo::Instruction) -> brolga_compiler::Result<Literal> {
    let shape = inst.shape.as_tuple().and_then(|t| t.first());
    shape.and_then(Literal::zeros).ok_or_else(|| brolga_compiler::Error::Internal("no zero".to_owned()))
}

/// The program that tries an operation on elements of a type; `None` where there is no template.
pub fn program(opcode: Opcode, ty: E) -> Option<String> {
    let (_, body) = TEMPLATES.iter().find(|(op, _)| *op == opcode)?;
    let mut out = "HloModule probe\n\n".to_owned();
    for (name, computation) in PRELUDE {
        if body.contains(&format!("={name}")) {
            let _ = writeln!(out, "{name} {{\n{computation}\n}}\n");
        }
    }
    let _ = writeln!(out, "ENTRY main {{\n{body}\n}}");
    let part = match ty {
        E::C64 => E::F32,
        E::C128 => E::F64,
        other => other,
    };
    let pair = if ty == E::F64 { E::C128 } else { E::C64 };
    Some(out.replace("{T}", ty.name()).replace("{PART}", part.name()).replace("{PAIR}", pair.name()))
}

/// Tries an operation on elements of a type.
pub fn probe(opcode: Opcode, ty: E) -> Support {
    let mut support = Support::default();
    let Some(module) = program(opcode, ty).and_then(|source| text::parse(&source).ok()) else { return support };
    support.valid = shape::verify(&module).is_ok();
    if !support.valid {
        return support;
    }
    let entry = module.entry();
    let shapes = entry.parameters().into_iter().map(|p| &entry.instructions[p].shape);
    if let Some(inputs) = shapes.map(Literal::zeros).collect::<Option<Vec<Literal>>>() {
        support.interpreted = run_with(&module, &inputs, &Options::default(), &mut Zeros).is_ok();
    }
    let compiled = catch_unwind(AssertUnwindSafe(|| compile(&module, &CompileOptions::default()).is_ok()));
    support.compiled = compiled.unwrap_or(false);
    support
}

/// A name, and which types it stands for.
type TypeGroup = (&'static str, fn(E) -> bool);

/// The groups of types that have a name of their own in the table.
const GROUPS: [TypeGroup; 4] =
    [("pred", |t| t == E::Pred), ("integers", E::is_integer), ("floats", E::is_float), ("complex", E::is_complex)];

/// A set of types, by group where a group is whole, or whole but for some.
fn types(set: &[E]) -> String {
    let mut parts = Vec::new();
    for (name, belongs) in GROUPS {
        let all: Vec<E> = E::ALL.iter().copied().filter(|&t| belongs(t)).collect();
        let (inside, outside): (Vec<E>, Vec<E>) = all.iter().partition(|t| set.contains(t));
        let list = |types: &[E]| types.iter().map(|t| t.name()).collect::<Vec<_>>().join(" ");
        if outside.is_empty() {
            parts.push(name.to_owned());
        } else if !inside.is_empty() && outside.len() < inside.len() {
            parts.push(format!("{name} but {}", list(&outside)));
        } else if !inside.is_empty() {
            parts.push(list(&inside));
        }
    }
    parts.join(", ")
}

/// How much of the valid types an engine has.
fn engine(supports: &[(E, Support)], has: fn(&Support) -> bool) -> String {
    let valid: Vec<E> = supports.iter().filter(|s| s.1.valid).map(|s| s.0).collect();
    let yes: Vec<E> = supports.iter().filter(|s| s.1.valid && has(&s.1)).map(|s| s.0).collect();
    if valid.is_empty() || yes.is_empty() {
        "–".to_owned()
    } else if yes == valid {
        "yes".to_owned()
    } else {
        types(&yes)
    }
}

/// The sources of the tests of one kind.
fn sources(folder: &str, of: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let Ok(entries) = std::fs::read_dir(&root) else { return out };
    for entry in entries.flatten() {
        if of(&entry.file_name().to_string_lossy()) {
            out.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
    out
}

/// Which tests run each operation.
struct Tests {
    worked: String,
    random: String,
    rules: String,
    interpreter: String,
    lowering: String,
    passes: String,
}

impl Tests {
    fn read() -> Tests {
        Tests {
            worked: sources("tests/tests/worked_examples", |_| true),
            random: sources("tests/src/random_graph", |_| true),
            rules: sources("compiler/src/shape", |n| n == "negative.rs" || n == "tests.rs"),
            interpreter: sources("compiler/src/interp", |n| n.contains("tests")),
            lowering: sources("compiler/src/kernel/elementwise", |n| n == "oracle.rs" || n == "tests.rs"),
            passes: sources("compiler/src/passes/tests", |_| true),
        }
    }

    fn of(&self, opcode: Opcode, methods: &[&str]) -> String {
        let called = |source: &str| {
            let method = methods.iter().any(|m| {
                [format!(".{m}("), format!("::{m},"), format!("::{m} "), format!("::{m}]")]
                    .iter()
                    .any(|w| source.contains(w))
            });
            method || source.contains(&format!(" {}(", opcode.name()))
        };
        // Tests of lowering go through lists of opcodes.
        let variant = format!("{opcode:?}");
        let listed = self.lowering.split(|c: char| !c.is_alphanumeric()).any(|w| w == variant);
        let kinds = [
            ("examples", called(&self.worked)),
            ("random", called(&self.random)),
            ("rules", called(&self.rules)),
            ("interpreter", called(&self.interpreter)),
            ("lowering", listed),
            ("passes", called(&self.passes)),
        ];
        kinds.into_iter().filter(|k| k.1).map(|k| k.0).collect::<Vec<_>>().join(", ")
    }
}

/// The families in the order of the page.
const FAMILIES: [(Category, &str, &str); 12] = [
    (Category::Structure, "Structure", "control.md"),
    (Category::Elementwise, "Elementwise", "elementwise.md"),
    (Category::Movement, "Movement", "movement.md"),
    (Category::Reduction, "Reductions, windows and scans", "reduction.md"),
    (Category::Contraction, "Contractions", "contraction.md"),
    (Category::LinearAlgebra, "Linear algebra and transforms", "linear-algebra.md"),
    (Category::Ordering, "Ordering", "ordering.md"),
    (Category::Random, "Random numbers", "random.md"),
    (Category::Control, "Control", "control.md"),
    (Category::Collective, "Collectives", "devices.md"),
    (Category::SideEffect, "Side effects", "devices.md"),
    (Category::Async, "Asynchronous forms", "devices.md"),
];

/// The page `docs/operations.md`.
pub fn markdown() -> String {
    let tests = Tests::read();
    let mut out = HEAD.to_owned();
    for (category, title, page) in FAMILIES {
        let _ = write!(
            out,
            "\n## {title}\n\nSemantics: [{page}](semantics/{page}).\n\n\
             | text | builder | element types | interpreter | compiled | tests |\n|---|---|---|---|---|---|\n"
        );
        for &opcode in Opcode::ALL.iter().filter(|o| o.category() == category) {
            let supports: Vec<(E, Support)> = E::ALL.iter().map(|&ty| (ty, probe(opcode, ty))).collect();
            let valid: Vec<E> = supports.iter().filter(|s| s.1.valid).map(|s| s.0).collect();
            let methods = builder_methods(opcode);
            let names: Vec<String> = methods.iter().map(|m| format!("`{m}`")).collect();
            let cells = [
                format!("`{}`", opcode.name()),
                if names.is_empty() { "–".to_owned() } else { names.join(", ") },
                if valid.len() == E::ALL.len() { "all".to_owned() } else { types(&valid) },
                engine(&supports, |s| s.interpreted),
                engine(&supports, |s| s.compiled),
                tests.of(opcode, methods),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
    out
}

const HEAD: &str = "# Operations

Every operation of HLO text that Brolga knows, one row each. The page is made by a test from the opcode table and from what the
verifier, the interpreter and the compiler do with a small program of each operation and element type: it is not edited by
hand. `BROLGA_WRITE_OPERATIONS=1 cargo test --workspace --test suite -- operations` writes it again.

- **builder**: the methods of `brolga_compiler::builder::Builder`; where there is none, the operation is written in text only.
- **element types**: those of the operand that decides; integers are `s1` to `s64` and `u1` to `u64`, floats `f4e2m1fn` to
  `f64`.
- **interpreter**, **compiled**: for all of these types, or for which. Effects need a host, collectives devices; a device
  alone exchanges with itself. One form of each operation is tried; what has no compiled form in some other form is said on
  the page of its family.
- **tests**: *examples* are the specifications' worked examples in every engine, *random* the random graphs in every
  engine, *rules* the shape rules and their negative tests, *lowering* every bit pattern or many against what the interpreter
  computes, *interpreter* and *passes* unit tests. The conformance corpus covers nearly all of them besides.
";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_operation_has_a_template_that_is_valid_for_some_type() {
        for &opcode in Opcode::ALL {
            let errors: Vec<String> = [E::F32, E::S32, E::Pred, E::C64]
                .into_iter()
                .map(|ty| {
                    let source = program(opcode, ty).unwrap_or_else(|| panic!("no template for {opcode}"));
                    match text::parse(&source).and_then(|m| shape::verify(&m)) {
                        Ok(()) => String::new(),
                        Err(e) => format!("{e}\n{source}"),
                    }
                })
                .collect();
            assert!(errors.iter().any(String::is_empty), "{opcode}: {}", errors[0]);
        }
    }

    #[test]
    fn sets_of_types_are_short() {
        assert_eq!(types(&[E::F32, E::F64]), "f32 f64");
        let floats: Vec<E> = E::ALL.iter().copied().filter(|t| t.is_float() && *t != E::F64).collect();
        assert_eq!(types(&floats), "floats but f64");
        assert_eq!(types(E::ALL), "pred, integers, floats, complex");
    }
}
