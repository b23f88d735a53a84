//! What a compilation does grows as the program does, counted and not timed; and what large programs are cut into computes
//! what they say.
#![allow(clippy::unwrap_used)]

use brolga_compiler::hlo::Module;
use brolga_compiler::passes::{self, PassOptions};
use brolga_compiler::{CompileOptions, compile, fusion, interp, shape, text};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{ArrayLiteral, CustomCalls, Literal, Program, RunOptions};
use brolga_tests::growth::Family;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn module(source: &str) -> Module {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}"));
    module
}

#[test]
fn fusion_looks_at_no_more_than_grows_with_the_program() {
    let work = |family: Family, size: usize| {
        let mut module = module(&family.program(size));
        passes::optimize(&mut module, &PassOptions::default()).unwrap();
        fusion::plan(&module, module.entry).unwrap().work
    };
    for family in Family::ALL {
        // The first 256 results of one input are one group, which no other joins.
        let size = if family == Family::Wide { 4000 } else { 1000 };
        let (small, large) = (work(family, size), work(family, 8 * size));
        let name = family.name();
        assert!(large <= 12 * small + 1000, "{name}: {small} steps for {size} instructions, {large} for {}", 8 * size);
    }
}

/// Lines of the longest function.
fn longest(family: Family, size: usize) -> usize {
    let options = CompileOptions { keep_texts: true, ..CompileOptions::default() };
    let artifact = compile(&module(&family.program(size)), &options).unwrap();
    artifact.clif.split("; growth").map(|f| f.lines().count()).max().unwrap()
}

#[test]
fn no_function_grows_with_the_program() {
    for (family, size) in [(Family::Tuple, 1000), (Family::Elements, 2400), (Family::Loops, 2400)] {
        let (small, large) = (longest(family, size), longest(family, 2 * size));
        let name = family.name();
        assert!(4 * large <= 5 * small, "{name}: {small} lines for {size} instructions, {large} for {}", 2 * size);
    }
}

#[test]
fn code_grows_as_the_program_does() {
    let lines = |family: Family, size: usize| {
        let options = CompileOptions { keep_texts: true, ..CompileOptions::default() };
        compile(&module(&family.program(size)), &options).unwrap().clif.lines().count()
    };
    for family in Family::ALL {
        let (small, large) = (lines(family, 1000), lines(family, 4000));
        let name = family.name();
        assert!(large <= 5 * small, "{name}: {small} lines for 1000 instructions, {large} for 4000");
    }
}

#[test]
fn addresses_that_differ_by_a_constant_are_computed_once() {
    // An iteration reads the sixteen elements of a row of the left operand, for each of two levels.
    let source = "HloModule m\nENTRY e {\n a = f32[3,16] parameter(0)\n b = f32[16,16] parameter(1)\n \
        ROOT d = f32[3,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    let options = CompileOptions { keep_texts: true, ..CompileOptions::default() };
    let clif = compile(&module(source), &options).unwrap().clif;
    let count = |word: &str| clif.lines().filter(|line| line.contains(word)).count();
    let (loads, products) = (count("= load.f32"), count("= imul"));
    assert_eq!(loads, 32, "the rows are not written out");
    assert!(products < loads / 2, "{products} products for {loads} loads");
}

/// Inputs of a module's entry: small numbers, no two arrays alike.
fn inputs(module: &Module) -> Vec<ArrayLiteral> {
    let entry = module.entry();
    let shapes = entry.parameters().into_iter().flat_map(|p| entry.instructions[p].shape.leaves());
    let arrays = shapes.filter_map(|s| s.as_array()).enumerate();
    arrays
        .map(|(n, s)| {
            let values: Vec<f32> = (0..s.elements()).map(|i| (n as f32 + 1.0) / (i as f32 + 3.0)).collect();
            ArrayLiteral::from_elements(&s.dims, &values)
        })
        .collect()
}

/// Runs a program whose parameters are arrays in the interpreter and as machine code; the object is the same on any number of
/// threads.
fn check(source: &str) -> Vec<ArrayLiteral> {
    let module = module(source);
    let inputs = inputs(&module);
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let want = interp::run(&module, &literals, &interp::Options::default()).unwrap();
    let [one, three] = [1, 3]
        .map(|threads| compile(&module, &CompileOptions { threads, ..CompileOptions::default() }).unwrap().object);
    assert!(one == three, "the object depends on the number of threads");
    let program = Program::from_object(&one).unwrap();
    let got = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    let want: Vec<ArrayLiteral> = want.arrays().into_iter().cloned().collect();
    assert!(got == want, "compiled code differs from the interpreter");
    got
}

fn tuple(ty: &str, names: &[String]) -> String {
    let types = vec![ty; names.len()].join(", ");
    format!("ROOT r = ({types}) tuple({})\n", names.join(", "))
}

#[test]
fn results_that_a_table_copies_are_right() {
    // Odd sizes, one value many times, and constants between the others.
    let mut source = "HloModule m\nENTRY e {\n".to_owned();
    let mut names = Vec::new();
    let mut types = Vec::new();
    for k in 0..200 {
        let n = [1, 3, 7, 16, 17, 70, 130][k % 7];
        writeln!(source, "p{k} = f32[{n}] parameter({k})").unwrap();
        names.push(format!("p{k}"));
        types.push(format!("f32[{n}]"));
    }
    source.push_str("c = f32[3] constant({1, 2, 3})\nx = f32[16] negate(p3)\n");
    for _ in 0..100 {
        names.extend(["x".to_owned(), "x".to_owned(), "p0".to_owned()]);
        types.extend(["f32[16]", "f32[16]", "f32[1]"].map(str::to_owned));
    }
    names.push("c".to_owned());
    types.push("f32[3]".to_owned());
    writeln!(source, "ROOT r = ({}) tuple({})\n}}", types.join(", "), names.join(", ")).unwrap();
    check(&source);
}

#[test]
fn many_operands_of_one_kernel_are_in_their_places() {
    let got = check(&Family::Concatenate.program(3000));
    assert_eq!(got[0].dims(), [3000, 16]);
}

#[test]
fn a_loop_that_moves_many_values_copies_them_at_once() {
    // The state of a loop, turned by one place in each iteration.
    let n = 100;
    let state = format!("(s32[], {})", vec!["f32[4]"; n].join(", "));
    let mut source =
        format!("HloModule m\ncond {{ p = {state} parameter(0)\n i = s32[] get-tuple-element(p), index=0\n");
    source.push_str("l = s32[] constant(7)\n ROOT more = pred[] compare(i, l), direction=LT }\n");
    writeln!(
        source,
        "body {{ p = {state} parameter(0)\n i = s32[] get-tuple-element(p), index=0\n one = s32[] constant(1)"
    )
    .unwrap();
    source.push_str("j = s32[] add(i, one)\n");
    for k in 0..n {
        writeln!(source, "x{k} = f32[4] get-tuple-element(p), index={}", k + 1).unwrap();
    }
    let turned: Vec<String> = (0..n).map(|k| format!("x{}", (k + 1) % n)).collect();
    writeln!(source, "ROOT r = {state} tuple(j, {}) }}\nENTRY e {{\nzero = s32[] constant(0)", turned.join(", "))
        .unwrap();
    let names: Vec<String> = (0..n).map(|k| format!("p{k}")).collect();
    for (k, p) in names.iter().enumerate() {
        writeln!(source, "{p} = f32[4] parameter({k})").unwrap();
    }
    writeln!(source, "i = {state} tuple(zero, {})\nw = {state} while(i), condition=cond, body=body", names.join(", "))
        .unwrap();
    let results: Vec<String> = (0..n).map(|k| format!("y{k}")).collect();
    for (k, y) in results.iter().enumerate() {
        writeln!(source, "{y} = f32[4] get-tuple-element(w), index={}", k + 1).unwrap();
    }
    writeln!(source, "{}}}", tuple("f32[4]", &results)).unwrap();
    check(&source);
}

#[test]
fn parameters_that_may_be_results_are_both_in_a_table() {
    let names: Vec<String> = (0..150).map(|k| format!("p{k}")).collect();
    let aliases: Vec<String> = (0..150).step_by(3).map(|k| format!("{{{k}}}: ({k}, {{}}, may-alias)")).collect();
    let mut source = format!("HloModule m, input_output_alias={{ {} }}\nENTRY e {{\n", aliases.join(", "));
    for (k, p) in names.iter().enumerate() {
        writeln!(source, "{p} = f32[5] parameter({k})").unwrap();
    }
    writeln!(source, "{}}}", tuple("f32[5]", &names)).unwrap();
    check(&source);
}

#[test]
fn parts_of_a_driver_do_what_it_says() {
    // So many kernels that the driver is cut, in the entry and in the body of a loop; and all read one parameter.
    let mut source = "HloModule m\nENTRY e {\nx = f32[6] parameter(0)\n".to_owned();
    let names: Vec<String> = (0..900).map(|k| format!("y{k}")).collect();
    for (k, y) in names.iter().enumerate() {
        let before = if k < 3 { "x".to_owned() } else { format!("y{}", k - 3) };
        writeln!(source, "r{k} = f32[6] reverse({before}), dimensions={{0}}\n{y} = f32[6] add(r{k}, x)").unwrap();
    }
    writeln!(source, "{}}}", tuple("f32[6]", &names)).unwrap();
    let module = module(&source);
    let options = CompileOptions { keep_texts: true, ..CompileOptions::default() };
    assert!(compile(&module, &options).unwrap().clif.contains(".part2\n"), "the driver is not cut");
    check(&source);
}

#[test]
fn random_numbers_go_on_from_part_to_part() {
    let draws = |n: usize| {
        let mut source = "HloModule m\nENTRY e {\n".to_owned();
        let names: Vec<String> = (0..n).map(|k| format!("s{k}")).collect();
        for s in &names {
            writeln!(source, "{s} = u64[2] rng-get-and-update-state(), delta=3").unwrap();
        }
        writeln!(source, "{}}}", tuple("u64[2]", &names)).unwrap();
        source
    };
    let source = draws(1500);
    let options = CompileOptions { keep_texts: true, ..CompileOptions::default() };
    let artifact = compile(&module(&source), &options).unwrap();
    assert!(artifact.clif.contains(".part2\n"), "the driver is not cut");
    let program = Program::from_object(&artifact.object).unwrap();
    let got = program.run_with(&[], &RunOptions { seed: 7, ..RunOptions::default() }).unwrap();
    let first = got[0].as_slice::<u64>().to_vec();
    for (k, state) in got.iter().enumerate() {
        assert_eq!(state.as_slice::<u64>(), [first[0], first[1] + 3 * k as u64], "draw {k}");
    }
}

#[test]
fn a_failure_in_a_part_ends_the_run() {
    // The call in the middle fails: what comes behind it, in its part and in those after, does not run.
    let mut source = "HloModule m\nENTRY e {\nx = f32[2] parameter(0)\n".to_owned();
    let mut before = "x".to_owned();
    for k in 0..1000 {
        let target = if k == 600 { "fail" } else { "count" };
        writeln!(
            source,
            "c{k} = f32[2] custom-call({before}), custom_call_target=\"{target}\", api_version=API_VERSION_STATUS_RETURNING"
        )
        .unwrap();
        before = format!("c{k}");
    }
    writeln!(source, "ROOT r = f32[2] copy({before})\n}}").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let mut registry = CustomCalls::new();
    registry.register("count", move |call| {
        counter.fetch_add(1, Ordering::Relaxed);
        call.result_mut::<f32>(0)?;
        Ok(())
    });
    registry.register("fail", |_| Err("no more".into()));
    let artifact =
        compile(&module(&source), &CompileOptions { keep_texts: true, ..CompileOptions::default() }).unwrap();
    assert!(artifact.clif.contains(".part2\n"), "the driver is not cut");
    let options = LoadOptions { custom_calls: Some(&registry), process_symbols: false, ..LoadOptions::default() };
    let program = Program::from_object_with(&artifact.object, &options).unwrap();
    let error = program.run(&[&ArrayLiteral::from_elements(&[2], &[1f32, 2.0])]).unwrap_err();
    assert!(error.to_string().contains("no more"), "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 600);
}
