//! Custom calls in C and C++, compiled by the system's compilers and found among the symbols of the process. Where there
//! is no compiler, or no header of XLA's typed calls, the test says so and checks nothing.
//!
//! The header is looked for in `BROLGA_XLA_INCLUDE`, then in the `jaxlib` of `PYTHON` (or `python3`).
#![allow(clippy::unwrap_used)]

use brolga_compiler::interp::{self, RegistryHost};
use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::loader::open_library;
use brolga_runtime::{ArrayLiteral, CustomCalls, Literal, Program};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/custom_call_ffi");

fn header() -> Option<PathBuf> {
    let given = std::env::var_os("BROLGA_XLA_INCLUDE").map(PathBuf::from);
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let asked = || {
        let script = "import jaxlib, os; print(os.path.join(os.path.dirname(jaxlib.__file__), 'include'))";
        let output = Command::new(&python).args(["-c", script]).output().ok()?;
        Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
    };
    given.or_else(asked).filter(|p| p.join("xla/ffi/api/ffi.h").is_file())
}

/// Compiles a source to a shared library and loads it; `None` without a compiler.
fn load(compiler: &str, source: &str, arguments: &[&str]) -> Option<()> {
    let compiler = std::env::var(if compiler == "c++" { "CXX" } else { "CC" }).unwrap_or_else(|_| compiler.to_owned());
    Command::new(&compiler).arg("--version").output().ok()?;
    let library = std::env::temp_dir().join(format!("brolga-{}-{source}.so", std::process::id()));
    let source = Path::new(SOURCES).join(source);
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let loaded = open_library(&library);
    let _ = std::fs::remove_file(&library);
    loaded.unwrap();
    Some(())
}

/// The arrays of the result, or the message, of the interpreter and of compiled code, which must agree.
fn run(body: &str, inputs: &[Literal]) -> Result<Vec<ArrayLiteral>, String> {
    let source = format!("HloModule m\n\nENTRY e {{\n{body}\n}}\n");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut calls = CustomCalls::new();
    calls.use_process_symbols(true);
    let interpreted = interp::run_with(&module, inputs, &interp::Options::default(), &mut RegistryHost(&calls));
    let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let program = Program::from_object(&artifact.object).unwrap();
    let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
    let compiled = program.run(&leaves).map_err(|e| e.to_string());
    match (interpreted, &compiled) {
        (Ok(value), Ok(arrays)) => assert_eq!(value.arrays().into_iter().cloned().collect::<Vec<_>>(), *arrays),
        (Err(error), Err(message)) => assert!(error.to_string().contains(message.as_str()), "{error}, {message}"),
        (interpreted, compiled) => panic!("{interpreted:?}, {compiled:?}"),
    }
    compiled
}

fn array<T: brolga_runtime::NativeType>(dims: &[i64], values: &[T]) -> Literal {
    Literal::Array(ArrayLiteral::from_elements(dims, values))
}

#[test]
fn a_plain_function_in_c() {
    if load("cc", "plain.c", &[]).is_none() {
        eprintln!("SKIPPED: there is no C compiler");
        return;
    }
    let body = "x = f32[2] parameter(0)\ny = f32[2,3] parameter(1)
ROOT z = f32[3,3] custom-call(x, y), custom_call_target=\"brolga_test_myfunc\"";
    let inputs = [array(&[2], &[1.0f32, 2.0]), array(&[2, 3], &[10.0f32, 20.0, 30.0, 40.0, 50.0, 60.0])];
    assert_eq!(run(body, &inputs).unwrap()[0].as_slice::<f32>(), [42.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn typed_handlers_in_cpp_run_unchanged() {
    let Some(include) = header() else {
        eprintln!("SKIPPED: there is no xla/ffi/api/ffi.h: set BROLGA_XLA_INCLUDE or install jaxlib");
        return;
    };
    let include = include.to_str().unwrap().to_owned();
    if load("c++", "handlers.cc", &["-std=c++17", "-I", &include]).is_none() {
        eprintln!("SKIPPED: there is no C++ compiler");
        return;
    }
    let sums = |more: &str| {
        format!(
            "x = f32[2,3] parameter(0)\nROOT y = f32[2] custom-call(x), custom_call_target=\"row_sums\", \
             api_version=API_VERSION_TYPED_FFI, backend_config={{{more}}}"
        )
    };
    let x = [array(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])];
    let good = "factor = 0.5 : f32, mode = \"add\", negate = true, offsets = array<i64: 10, 20>";
    assert_eq!(run(&sums(good), &x).unwrap()[0].as_slice::<f32>(), [-13.0, -27.5]);
    let fail = |more: &str| run(&sums(more), &x).unwrap_err();
    let message = fail(&good.replace("add", "fail"));
    assert!(message.contains("custom call 'row_sums' at line 5: asked to fail by the attribute 'mode'"), "{message}");
    assert!(fail(&good.replace(", 20", "")).contains("as many offsets as rows"));
    // What the binding itself refuses: an attribute that is missing, and one of another type.
    let message = fail(&good.replace("negate = true, ", ""));
    assert!(message.contains("Wrong number of attributes"), "{message}");
    assert!(fail(&good.replace("0.5 : f32", "0.5 : f64")).contains("custom call 'row_sums' at line 5: "));

    let rotate = "a = f32[] parameter(0)\nb = s32[] parameter(1)\nc = u32[] parameter(2)\nt = (s32[], u32[]) tuple(b, c)
ROOT r = ((u32[], f32[]), s32[]) custom-call(a, t), custom_call_target=\"rotate_all\", api_version=API_VERSION_TYPED_FFI";
    let out = run(rotate, &[array(&[], &[1.5f32]), array(&[], &[-7i32]), array(&[], &[9u32])]).unwrap();
    assert_eq!(
        (out[0].as_slice::<u32>(), out[1].as_slice::<f32>(), out[2].as_slice::<i32>()),
        (&[9][..], &[1.5][..], &[-7][..])
    );

    let later = "x = f64[] parameter(0)
ROOT y = f64[] custom-call(x), custom_call_target=\"later\", api_version=API_VERSION_TYPED_FFI";
    assert_eq!(run(later, &[array(&[], &[21.0f64])]).unwrap()[0].as_slice::<f64>(), [42.0]);
    assert!(run(later, &[array(&[], &[-1.0f64])]).unwrap_err().contains("too late for negative numbers"));
}
