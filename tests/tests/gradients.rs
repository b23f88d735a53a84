//! Gradients of programs as JAX exports them, against JAX's own: in the interpreter and in compiled code.
//!
//! The cases are written by `tools/gradients/export.py`: the program of a function, inputs, and what `jax.value_and_grad`
//! computes of them, in `f64`.
#![allow(clippy::unwrap_used)]

use brolga_compiler::gradient::differentiate;
use brolga_compiler::text::parse;
use brolga_compiler::{Artifact, CompileOptions, compile, interp};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program};
use brolga_tests::training::descent;
use serde_json::Value;
use std::path::PathBuf;

/// Of each number, relative to the greatest of its array.
const TOLERANCE: f64 = 1e-9;

fn array(value: &Value) -> ArrayLiteral {
    let ty: ElementType = value["type"].as_str().unwrap().parse().unwrap();
    let dims: Vec<i64> = value["dims"].as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect();
    let numbers = value["values"].as_array().unwrap();
    let bytes: Vec<u8> = match ty {
        ElementType::S32 => numbers.iter().flat_map(|v| (v.as_i64().unwrap() as i32).to_ne_bytes()).collect(),
        ElementType::S64 => numbers.iter().flat_map(|v| v.as_i64().unwrap().to_ne_bytes()).collect(),
        _ => numbers.iter().flat_map(|v| v.as_f64().unwrap().to_ne_bytes()).collect(),
    };
    ArrayLiteral::from_bytes(&ArrayShape::new(ty, dims), &bytes).unwrap()
}

fn differs(got: &ArrayLiteral, want: &ArrayLiteral) -> Option<String> {
    if got.dims() != want.dims() || got.ty() != want.ty() {
        return Some(format!("{} where {} was expected", got.shape(), want.shape()));
    }
    let numbers = |a: &ArrayLiteral| (0..a.elements()).map(|i| a.get(i).as_complex()).collect::<Vec<_>>();
    let (got, want) = (numbers(got), numbers(want));
    let greatest = want.iter().map(|v| v.norm()).fold(1.0, f64::max);
    let near = |i: &usize| (got[*i] - want[*i]).norm() <= TOLERANCE * greatest;
    (0..want.len()).find(|i| !near(i)).map(|i| format!("element {i}: {} where JAX has {}", got[i], want[i]))
}

fn compare(got: &[ArrayLiteral], want: &[ArrayLiteral]) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{} results where {} were expected", got.len(), want.len()));
    }
    let first =
        got.iter().zip(want).enumerate().find_map(|(i, (g, w))| Some(format!("result {i}, {}", differs(g, w)?)));
    first.map_or(Ok(()), Err)
}

fn check(name: &str) -> Result<(), String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("gradients");
    let text = std::fs::read_to_string(folder.join(format!("{name}.hlo"))).unwrap();
    let case: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap()).unwrap();
    let variables: Vec<usize> =
        case["variables"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect();
    let inputs: Vec<ArrayLiteral> = case["inputs"].as_array().unwrap().iter().map(array).collect();
    let value = ArrayLiteral::scalar(case["value"].as_f64().unwrap());
    let gradients = case["gradients"].as_array().unwrap().iter().map(array);
    let want: Vec<ArrayLiteral> = std::iter::once(value).chain(gradients).collect();

    let module = parse(&text).map_err(|e| e.to_string())?;
    let module = differentiate(&module, &variables).map_err(|e| e.to_string())?;
    let args: Vec<Literal> = inputs.iter().cloned().map(Literal::from).collect();
    let interpreted = interp::run(&module, &args, &interp::Options::default()).map_err(|e| e.to_string())?;
    let interpreted: Vec<ArrayLiteral> = interpreted.arrays().into_iter().cloned().collect();
    compare(&interpreted, &want).map_err(|e| format!("interpreter: {e}"))?;

    let artifact = compile(&module, &CompileOptions::default()).map_err(|e| format!("compiler: {e}"))?;
    let program = Program::from_object(&artifact.object).map_err(|e| e.to_string())?;
    let compiled = program.run(&inputs.iter().collect::<Vec<_>>()).map_err(|e| e.to_string())?;
    compare(&compiled, &want).map_err(|e| format!("compiled code: {e}"))
}

#[test]
fn gradients_are_those_of_jax() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("gradients");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|e| Some(e.unwrap().file_name().to_str()?.strip_suffix(".hlo")?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() >= 40, "{} cases", names.len());
    let failed: Vec<String> = names.iter().filter_map(|name| Some(format!("{name}: {}", check(name).err()?))).collect();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), names.len(), failed.join("\n"));
}

/// The network and the step are those of `tools/train/mnist.py`. How long the two take is in `docs/performance.md`.
#[test]
fn a_training_step_needs_no_more_than_the_one_that_jax_derives() {
    let read = |text: &str| parse(text).unwrap();
    let ours = descent(&read(include_str!("../training/mnist_loss.hlo")), 8, 0.01).unwrap();
    let jax = read(include_str!("../training/mnist_jax.hlo"));
    let [ours, jax] = [ours, jax].map(|step| compile(&step, &CompileOptions::default()).unwrap());
    let needs = |a: &Artifact| (a.schedule.kernels.len(), a.assignment.workspace);
    let ((kernels, workspace), (of_jax, bytes)) = (needs(&ours), needs(&jax));
    assert!(kernels <= of_jax && workspace <= bytes, "{kernels} kernels for {of_jax}, {workspace} bytes for {bytes}");
}
