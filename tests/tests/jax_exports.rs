//! Functions of public JAX as `jax.export` serializes them, plain and with symbolic dimensions, against XLA:CPU's results, in
//! three engines: the interpreter, the loader, and an object that goes through a file.
//!
//! Set `BROLGA_JAX_EXPORTS` to a folder that `tools/jax_exports.py` filled, or `BROLGA_JAX_PYTHON` to a Python with JAX, which
//! fills one; without either the test says so and passes. Integers must agree exactly, floats within
//! atol + rtol * |expected|, which stand beside each case.

use brolga_compiler::front::{Argument, ReadOptions, read};
use brolga_compiler::{CompileOptions, compile, interp, shape};
use brolga_runtime::npy;
use brolga_runtime::{ArrayLiteral, ElementType, Kind, Literal, Program};
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("BROLGA_JAX_EXPORTS") {
        return Some(folder.into());
    }
    let Some(python) = std::env::var_os("BROLGA_JAX_PYTHON") else {
        eprintln!("SKIPPED: neither BROLGA_JAX_EXPORTS nor BROLGA_JAX_PYTHON is set");
        return None;
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("jax-exports");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/jax_exports.py");
    let status = std::process::Command::new(python).arg(script).arg(&folder).status().expect("Python runs");
    assert!(status.success(), "the script failed");
    Some(folder)
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn arrays(folder: &Path, files: &serde_json::Value) -> Vec<ArrayLiteral> {
    let names = files.as_array().expect("a list of files").iter();
    let one = |name: &serde_json::Value| {
        let data = bytes(&folder.join(name.as_str().expect("a file's name")));
        let (_, ty) = npy::describe(&data).expect("a .npy file");
        let ty = match ty.trim_start_matches(['<', '|']) {
            "b1" => ElementType::Pred,
            "i4" => ElementType::S32,
            "u4" => ElementType::U32,
            "f4" => ElementType::F32,
            other => panic!("{name}: elements of type {other}"),
        };
        npy::read(&data, ty).expect("a .npy file")
    };
    names.map(one).collect()
}

/// The first element that is too far from what is expected.
fn difference(found: &[ArrayLiteral], expected: &[ArrayLiteral], rtol: f64, atol: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results, of {}", found.len(), expected.len()));
    }
    for (k, (found, expected)) in found.iter().zip(expected).enumerate() {
        if found.ty() != expected.ty() || found.dims() != expected.dims() {
            return Some(format!("result {k} is {:?}, not {:?}", found.shape(), expected.shape()));
        }
        for i in 0..found.elements() {
            let (a, b) = (found.get(i), expected.get(i));
            let near = if found.ty().kind() == Kind::Float {
                let (a, b) = (a.as_f64(), b.as_f64());
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= atol + rtol * b.abs()
            } else {
                a == b
            };
            if !near {
                return Some(format!("result {k}, element {i}: {a:?}, expected {b:?}"));
            }
        }
    }
    None
}

/// Runs a case in every engine; what each gives, or why not.
fn results(artifact: &[u8], inputs: &[ArrayLiteral]) -> [(&'static str, Result<Vec<ArrayLiteral>, String>); 3] {
    let sizes = inputs.iter().enumerate().map(|(k, a)| (Argument::Number(k), a.dims().to_vec())).collect();
    let module = read(artifact, Some("jax"), &ReadOptions { sizes, ..ReadOptions::default() })
        .and_then(|read| shape::verify(&read.module).map(|()| read.module));
    let module = match module {
        Ok(module) => module,
        Err(error) => return ["interp", "jit", "object"].map(|engine| (engine, Err(error.to_string()))),
    };
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let interpreted = interp::run(&module, &literals, &interp::Options::default())
        .map(|value| value.arrays().into_iter().cloned().collect())
        .map_err(|e| e.to_string());
    let object = compile(&module, &CompileOptions::default()).map(|a| a.object).map_err(|e| e.to_string());
    let given: Vec<&ArrayLiteral> = inputs.iter().collect();
    let run = |object: &[u8]| {
        let program = Program::from_object(object).map_err(|e| e.to_string())?;
        program.run(&given).map_err(|e| e.to_string())
    };
    let in_memory = object.clone().and_then(|object| run(&object));
    let by_file = object.and_then(|object| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("jax-export.o");
        std::fs::write(&path, &object).map_err(|e| e.to_string())?;
        run(&bytes(&path))
    });
    [("interp", interpreted), ("jit", in_memory), ("object", by_file)]
}

#[test]
fn exported_functions_are_right_in_three_engines() {
    let Some(folder) = folder() else { return };
    let index: serde_json::Value =
        serde_json::from_slice(&bytes(&folder.join("cases.json"))).expect("cases.json is JSON");
    let cases = index["cases"].as_array().expect("a list of cases");
    let (mut good, mut bad) = (0, Vec::new());
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let artifact = bytes(&folder.join(case["artifact"].as_str().expect("a file")));
        let (inputs, expected) = (arrays(&folder, &case["inputs"]), arrays(&folder, &case["outputs"]));
        let bound = |key: &str| case[key].as_f64().expect("a bound");
        for (engine, found) in results(&artifact, &inputs) {
            let fault = match found {
                Ok(found) => difference(&found, &expected, bound("rtol"), bound("atol")),
                Err(error) => Some(error),
            };
            match fault {
                None => good += 1,
                Some(fault) => bad.push(format!("{name}, {engine}: {fault}")),
            }
        }
    }
    eprintln!("{good} of {} runs of {} artifacts are right", good + bad.len(), cases.len());
    assert!(!cases.is_empty());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
