//! A graph in the interpreter and in compiled code, and what is left of a graph that fails.
//!
//! A value keeps its name when a failing graph is reduced, so that what is known of it still holds: the search is told to
//! keep values (see [`ReduceOptions`]), and instructions that it turned into parameters get the numbers that
//! the interpreter finds for them in the whole graph.

use super::Graph;
use crate::compare::first_other_bits;
use crate::kernels;
use crate::memory::check_memory;
use crate::widths;
use brolga_compiler::codegen::Effort;
use brolga_compiler::hlo::{Attrs, Instruction, Module, Opcode};
use brolga_compiler::reduce::{ReduceOptions, leading_array, reduce as search};
use brolga_compiler::{CompileOptions, Error, compile, interp};
use brolga_runtime::{ArrayLiteral, Literal, Program, RunOptions, Shape};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a graph fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The interpreter refuses it.
    Interpreter,
    /// The compiler does.
    Compiler,
    /// The loader does.
    Loader,
    /// Compiled code returns an error.
    Run,
    /// A result is not near enough.
    Result,
    /// In callers' buffers something else lies than in literals, or in the padding something else than the padding value, in
    /// any of the ways to compile and run.
    Memory,
    /// Rows in wide registers wherever they can be give other bits than none.
    Wide,
    /// Compiled code gives other bits than its kernels.
    Kernels,
    /// More threads give other bits.
    Threads,
    /// The object depends on how many threads compiled it, or is not the same from disk.
    Object,
    /// A panic, wherever.
    Panic,
}

/// A failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Where.
    pub stage: Stage,
    /// What.
    pub message: String,
}

/// What became of a graph.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All engines agree.
    Agrees,
    /// Compiled code lacks something.
    Unsupported(String),
    /// They do not.
    Fails(Failure),
}

fn fails(stage: Stage, message: impl std::fmt::Display) -> Outcome {
    Outcome::Fails(Failure { stage, message: message.to_string() })
}

/// The names of the instructions behind the results.
fn result_names(module: &Module) -> Vec<String> {
    let entry = module.entry();
    let root = &entry.instructions[entry.root];
    match root.opcode {
        Opcode::Tuple => root.operands.iter().map(|&o| entry.instructions[o].name.clone()).collect(),
        _ => vec![root.name.clone()],
    }
}

/// Runs a graph in every engine.
pub fn check(graph: &Graph) -> Outcome {
    let want = match interp::run(&graph.module, &graph.inputs, &interp::Options::default()) {
        Ok(want) => want,
        Err(e) => return fails(Stage::Interpreter, e),
    };
    let strict_rounding = graph.strict_rounding;
    let options = CompileOptions { threads: 1, strict_rounding, ..CompileOptions::default() };
    // One extreme: no row in wide registers, nothing cut into tasks, the code generator's least effort.
    let narrow = CompileOptions {
        wide_work: Some(u64::MAX),
        parallel_grain: Some(u64::MAX),
        effort: Some(Effort::Least),
        ..options.clone()
    };
    let artifact = match compile(&graph.module, &narrow) {
        Ok(artifact) => artifact,
        Err(e @ Error::Unsupported { .. }) => return Outcome::Unsupported(e.message()),
        Err(e) => return fails(Stage::Compiler, e),
    };
    let program = match Program::from_object(&artifact.object) {
        Ok(program) => program,
        Err(e) => return fails(Stage::Loader, e),
    };
    let inputs: Vec<&ArrayLiteral> = graph.inputs.iter().filter_map(Literal::as_array).collect();
    let got = match program.run(&inputs) {
        Ok(got) => got,
        Err(e) => return fails(Stage::Run, e),
    };
    let (want, names) = (want.arrays(), result_names(&graph.module));
    if got.len() != want.len() {
        return fails(Stage::Result, format_args!("{} results, want {}", got.len(), want.len()));
    }
    for ((got, want), name) in got.iter().zip(&want).zip(&names) {
        // Values of which nothing is known, steps within steps, are not compared.
        let Some(note) = graph.notes.get(name) else { continue };
        if let Err(e) = note.check(got, want) {
            return fails(Stage::Result, format_args!("{name}: {e}"));
        }
    }
    if let Err(e) = check_memory(&program, &inputs, &got, &RunOptions::default()) {
        return fails(Stage::Memory, e);
    }
    if let kernels::Outcome::Differs(e) = kernels::check(&graph.module, &graph.inputs, &narrow) {
        return fails(Stage::Kernels, e);
    }
    // The other extreme: every row that can be in registers of each width that the machine has, every phase cut into tasks, all effort;
    // and the least for the next width.
    for (target, effort) in widths::targets().into_iter().zip([Effort::Full, Effort::Least].into_iter().cycle()) {
        let at = |e: &dyn std::fmt::Display| format!("{:?}: {e}", target.cpu);
        let target = target.clone();
        let (wide_work, parallel_grain, effort) = (Some(0), Some(1), Some(effort));
        let wide = CompileOptions { target, wide_work, parallel_grain, effort, ..options.clone() };
        let wide = compile(&graph.module, &wide)
            .map_err(|e| at(&e))
            .and_then(|artifact| Program::from_object(&artifact.object).map_err(|e| at(&e)));
        let wide = match wide {
            Ok(program) => program,
            Err(e) => return fails(Stage::Wide, e),
        };
        let alone = match wide.run(&inputs) {
            Ok(again) if again.iter().zip(&got).all(|(a, b)| first_other_bits(a, b).is_none()) => again,
            Ok(_) => return fails(Stage::Wide, at(&"wide rows give other bits than 128-bit ones")),
            Err(e) => return fails(Stage::Wide, at(&e)),
        };
        let threads = RunOptions { threads: 3, ..RunOptions::default() };
        match wide.run_with(&inputs, &threads) {
            Ok(again) if again.iter().zip(&alone).all(|(a, b)| a.bytes() == b.bytes()) => {}
            Ok(_) => return fails(Stage::Threads, at(&"three threads give other bits than one")),
            Err(e) => return fails(Stage::Threads, at(&e)),
        }
        for options in [RunOptions::default(), threads] {
            if let Err(e) = check_memory(&wide, &inputs, &alone, &options) {
                return fails(Stage::Memory, at(&format_args!("{} threads: {e}", options.threads)));
            }
        }
    }
    let object = |threads| compile(&graph.module, &CompileOptions { threads, ..options.clone() }).map(|a| a.object);
    match (object(1), object(2)) {
        (Ok(one), Ok(two)) if one == two => Outcome::Agrees,
        (Ok(_), Ok(_)) => fails(Stage::Object, "two threads compile it to another object than one"),
        (Err(e), _) | (_, Err(e)) => fails(Stage::Object, e),
    }
}

/// As [`check`]; a panic is a failure of its graph, not of the run.
pub fn check_guarded(graph: &Graph) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| check(graph))).unwrap_or_else(|_| fails(Stage::Panic, "a panic"))
}

/// The smallest graph that fails in the same stage; the graph itself where nothing smaller does.
pub fn reduce(graph: &Graph, stage: Stage) -> Graph {
    let mut values = None;
    let mut last = None;
    let options = ReduceOptions { keep_values: true, max_questions: 2000 };
    let found = search(&graph.module, options, &mut |candidate, _| {
        let Some(inputs) = inputs_of(graph, candidate, &mut values) else { return false };
        let (notes, strict_rounding) = (graph.notes.clone(), graph.strict_rounding);
        let candidate = Graph { module: candidate.clone(), inputs, notes, strict_rounding };
        let same = matches!(check_guarded(&candidate), Outcome::Fails(f) if f.stage == stage);
        if same {
            last = Some(candidate);
        }
        same
    });
    let whole = || Graph {
        module: graph.module.clone(),
        inputs: graph.inputs.clone(),
        notes: graph.notes.clone(),
        strict_rounding: graph.strict_rounding,
    };
    match (found, last) {
        (Some(_), Some(small)) => small,
        _ => whole(),
    }
}

/// The data of a candidate's parameters: the graph's own, or what the interpreter finds for the instruction of that name;
/// of smaller parameters, the first elements.
fn inputs_of(
    graph: &Graph,
    candidate: &Module,
    values: &mut Option<HashMap<String, ArrayLiteral>>,
) -> Option<Vec<Literal>> {
    let entry = candidate.entry();
    let original = graph.module.entry();
    let mut own = HashMap::new();
    for (&p, input) in original.parameters().iter().zip(&graph.inputs) {
        own.extend(input.as_array().map(|a| (original.instructions[p].name.as_str(), a)));
    }
    let mut out = Vec::new();
    for p in entry.parameters() {
        let parameter = &entry.instructions[p];
        let data = match own.get(parameter.name.as_str()) {
            Some(data) => (*data).clone(),
            None => values.get_or_insert_with(|| all_values(graph)).get(&parameter.name)?.clone(),
        };
        out.push(Literal::Array(leading_array(&data, &parameter.shape.as_array()?.dims)?));
    }
    Some(out)
}

/// Every array that the entry computes, by name.
fn all_values(graph: &Graph) -> HashMap<String, ArrayLiteral> {
    let mut module = graph.module.clone();
    let entry = &mut module.computations[module.entry];
    let is_array = |i: &Instruction| i.shape.as_array().is_some();
    let arrays: Vec<_> = entry.order.iter().copied().filter(|&i| is_array(&entry.instructions[i])).collect();
    let names: Vec<String> = arrays.iter().map(|&i| entry.instructions[i].name.clone()).collect();
    let shapes = arrays.iter().map(|&i| entry.instructions[i].shape.clone()).collect();
    let root = entry.instructions.push(Instruction {
        name: entry.fresh_name("everything"),
        shape: Shape::Tuple(shapes),
        opcode: Opcode::Tuple,
        operands: arrays,
        attrs: Attrs::new(),
        location: Default::default(),
    });
    entry.order.push(root);
    entry.root = root;
    match interp::run(&module, &graph.inputs, &interp::Options::default()) {
        Ok(Literal::Tuple(values)) => {
            names.into_iter().zip(values).filter_map(|(n, v)| Some((n, v.as_array()?.clone()))).collect()
        }
        _ => HashMap::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::random_graph::{Families, Layouts, Note, generate};
    use brolga_compiler::builder::{Builder, scalar_computation};
    use brolga_compiler::text;
    use brolga_runtime::ElementType;

    /// A graph whose interpreter's order of summation shows, with a note that allows no difference: the sum is found.
    #[test]
    fn a_wrong_value_is_found() {
        let b = Builder::new("main");
        let x = b.parameter(0, Shape::array(ElementType::F32, [4, 1000]), "p0");
        let zero = b.constant_r0(0f32);
        let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
        let y = b.mul(b.rev(x, &[0]), b.abs(x));
        let sum = b.reduce(y, zero, &add, &[1]);
        let z = b.add(b.broadcast_in_dim(sum, &[4, 1000], &[0]), b.neg(x));
        let name = b.name(sum).unwrap();
        let root = b.tuple(&[z, sum, y]);
        let module = b.build_with_root(root).unwrap();
        let data: Vec<f32> = (0..4000u32).map(|i| (i * 7919 % 10_007) as f32 / 97.3).collect();
        let inputs = vec![Literal::Array(ArrayLiteral::from_elements(&[4, 1000], &data))];
        let notes = HashMap::from([(name.clone(), Note::exact(1.0))]);
        let graph = Graph { module, inputs, notes, strict_rounding: false };
        let Outcome::Fails(failure) = check(&graph) else { panic!("sums in another order are equal") };
        assert_eq!(failure.stage, Stage::Result);
        let small = reduce(&graph, failure.stage);
        let text = text::print(&small.module, &text::PrintOptions::default());
        assert_eq!(result_names(&small.module), [name], "{text}");
        assert!(small.module.entry().order.len() <= 3, "{text}");
        assert!(matches!(check(&small), Outcome::Fails(_)), "{text}");
    }

    #[test]
    fn values_of_cut_instructions_are_the_interpreters() {
        let graph = generate(3, Families::Basic, Layouts::Sometimes);
        let values = all_values(&graph);
        let entry = graph.module.entry();
        let first = entry.parameters()[0];
        let name = &entry.instructions[first].name;
        assert_eq!(values.get(name), graph.inputs[0].as_array());
    }
}
