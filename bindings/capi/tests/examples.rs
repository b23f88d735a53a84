//! The examples in C and C++, compiled against the committed header and run: what they compute is what the interpreter
//! computes, and what a program loaded in Rust computes, bit for bit.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

use brolga_compiler::hlo::Module;
use brolga_compiler::{CompileOptions, compile, compile_sizes, interp, shape, text};
use brolga_runtime::abi::OpenDimension;
use brolga_runtime::{ArrayLiteral, Literal, Program};
use std::path::{Path, PathBuf};
use std::process::Command;

const MODEL: &str = include_str!("../../../examples/c_api/model.hlo");
const FILTER: &str = include_str!("../../../examples/c_api/filter.hlo");

fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn module(source: &str) -> Module {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    shape::verify(&module).unwrap();
    module
}

/// A file of the library, which Cargo puts beside this test or one folder up: the newest.
fn library(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let found = here.ancestors().skip(1).take(2).map(|dir| dir.join(name)).filter(|path| path.exists());
    let newest = found.max_by_key(|path| path.metadata().and_then(|m| m.modified()).unwrap());
    newest.unwrap_or_else(|| panic!("Cargo has not built {name}"))
}

/// Compiles an example, with the shared library or the static one; none, and loudly, without a compiler.
fn example(file: &str, dir: &Path) -> Option<PathBuf> {
    let is_c = file.ends_with(".c");
    let (variable, default, standard) = if is_c { ("CC", "cc", "-std=c99") } else { ("CXX", "c++", "-std=c++11") };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no compiler '{compiler}': {file} is not tried");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = dir.join(file.replace('.', "_"));
    let mut command = Command::new(&compiler);
    command.args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]).arg(root.join("include"));
    command.arg(root.join("../../examples/c_api").join(file)).arg("-o").arg(&out);
    if is_c {
        let shared = library("libbrolga_capi.so");
        let at = shared.parent().unwrap().display().to_string();
        command.arg(&shared).arg(format!("-Wl,-rpath,{at}"));
    } else {
        command.arg(library("libbrolga_capi.a")).args(["-lpthread", "-ldl", "-lm"]);
    }
    let built = command.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(out)
}

fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}: {said}", ran.status);
    String::from_utf8(ran.stdout).unwrap()
}

/// What the examples fill parameters with.
fn pattern(dims: &[i64]) -> ArrayLiteral {
    let values: Vec<f32> = (0..dims.iter().product::<i64>()).map(|k| (k % 17) as f32 / 8.0 - 1.0).collect();
    ArrayLiteral::from_elements(dims, &values)
}

fn numbers(line: &str) -> Vec<f32> {
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_program_is_described_refused_wrong_buffers_and_run() {
    let dir = folder("c_api_run");
    let model = module(MODEL);
    let object = compile(&model, &CompileOptions::default()).unwrap().object;
    std::fs::write(dir.join("model.o"), &object).unwrap();
    let Some(run) = example("run.c", &dir) else { return };
    let arguments = [pattern(&[64, 32]), pattern(&[32, 8])];
    let expected = Program::from_object(&object).unwrap().run(&arguments.each_ref()).unwrap();
    let interpreted = interp::run(&model, &arguments.map(Literal::Array), &interp::Options::default()).unwrap();
    for threads in ["1", "4"] {
        let printed = output(Command::new(&run).arg(dir.join("model.o")).arg(threads));
        let lines: Vec<&str> = printed.lines().collect();
        let [program, x, w, p, m, wrong_size, wrong_count, first, second] = lines[..] else { panic!("{printed}") };
        assert_eq!(program, "program 'model' of module 'model'");
        assert_eq!(x, "parameter 'x' of type 11 [64,32], 8192 bytes");
        assert_eq!(w, "parameter 'w' of type 11 [32,8], 1024 bytes");
        assert_eq!(p, "result '' of type 11 [64,8], 2048 bytes");
        assert_eq!(m, "result '' of type 11 [64], 256 bytes");
        assert_eq!(wrong_size, "error -2: parameter 0 'x' is f32[64,32] of 8192 bytes, a buffer of 8188 was given");
        assert_eq!(wrong_count, "error -2: the program has 2 parameters, 1 buffers were given");
        for ((line, expected), interpreted) in [first, second].iter().zip(&expected).zip(interpreted.arrays()) {
            let have = numbers(line);
            assert_eq!(have, expected.as_slice::<f32>(), "other bits than in Rust");
            let pairs = have.iter().zip(interpreted.as_slice::<f32>());
            pairs.for_each(|(a, b)| assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} {b}"));
        }
    }
    // What is no object is refused in words.
    std::fs::write(dir.join("not.o"), "no object").unwrap();
    let refused = Command::new(&run).arg(dir.join("not.o")).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("malformed object"), "{said}");
    let missing = Command::new(&run).arg(dir.join("missing.o")).output().unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("error -3: "));
}

#[test]
fn a_program_is_fed_and_calls_back() {
    let dir = folder("c_api_filter");
    let object = compile(&module(FILTER), &CompileOptions::default()).unwrap().object;
    std::fs::write(dir.join("filter.o"), object).unwrap();
    let Some(filter) = example("filter.c", &dir) else { return };
    let printed = output(Command::new(filter).arg(dir.join("filter.o")));
    let lines: Vec<&str> = printed.lines().collect();
    let [needed, steps @ .., mean, failed, timed_out] = lines.as_slice() else { panic!("{printed}") };
    let line = FILTER.lines().position(|l| l.contains("\"scale\"")).unwrap() + 1;
    assert_eq!(*needed, format!("calls 'scale' at line {line}, services: custom_call,infeed,outfeed"));
    let mut value = [1.0f32, 2.0, 3.0, 4.0];
    for (i, step) in steps.iter().enumerate() {
        let read = [i as f32, 2.0, 4.0, 8.0];
        value.iter_mut().zip(read).for_each(|(v, r)| *v = 0.5 * *v + 0.5 * r);
        assert_eq!(numbers(step), value, "step {i}");
    }
    assert_eq!(steps.len(), 3);
    let [a, b, c, d] = value;
    assert_eq!(*mean, format!("mean: {a} {b} {c} {d}, 3 calls"));
    assert!(failed.starts_with("error -5, status 5: ") && failed.contains("the infeed queue is closed"), "{failed}");
    assert!(timed_out.starts_with("error -7: the outfeed queue stayed empty"), "{timed_out}");
}

#[test]
fn several_sizes_are_chosen_from_in_cpp() {
    let dir = folder("c_api_sizes");
    let sized = |n: i64| {
        module(&format!(
            "HloModule f\nENTRY e {{ x = f32[{n}] parameter(0)  y = f32[{n}] multiply(x, x)  ROOT z = f32[{n}] add(x, y) }}"
        ))
    };
    let open = [OpenDimension { parameter: 0, dimension: 0 }];
    let options = CompileOptions { name: Some("f".into()), ..CompileOptions::default() };
    let object = compile_sizes(&[sized(3), sized(40)], &open, &options).unwrap().object;
    std::fs::write(dir.join("f.o"), object).unwrap();
    let Some(run) = example("run.cpp", &dir) else { return };
    let printed = output(Command::new(run).arg(dir.join("f.o")).args(["40", "3", "7"]));
    let lines: Vec<&str> = printed.lines().collect();
    let [count, forty, three, seven] = lines[..] else { panic!("{printed}") };
    assert_eq!(count, "2 sizes");
    for (line, n) in [(forty, 40), (three, 3)] {
        let (name, values) = line.split_once(':').unwrap();
        assert_eq!(name, format!("f__{n}"));
        let expected: Vec<f32> = pattern(&[n]).as_slice::<f32>().iter().map(|x| x + x * x).collect();
        assert_eq!(numbers(values), expected);
    }
    assert_eq!(seven, "7: the program was compiled for the sizes 3, 40, not for 7");
}

/// The header and that of a program serve one file, in both orders, in C and in C++.
#[test]
fn the_header_and_those_of_programs_serve_one_file() {
    let dir = folder("c_api_headers");
    let artifact = compile(&module(MODEL), &CompileOptions::default()).unwrap();
    std::fs::write(dir.join("model.h"), brolga_compiler::object::c_header(&[artifact.descriptor])).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (compiler, standard, file) in [("cc", "-std=c99", "both.c"), ("c++", "-std=c++11", "both.cc")] {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("SKIPPED: there is no compiler '{compiler}'");
            continue;
        }
        for order in [["brolga.h", "model.h"], ["model.h", "brolga.h"]] {
            let [a, b] = order.map(|name| format!("#include \"{name}\"\n"));
            let body = "int32_t use(brolga_program **program);\n\
                        int32_t use(brolga_program **program) { return brolga_program_from_linked(&model_descriptor, model, program); }\n";
            std::fs::write(dir.join(file), format!("{a}{b}{body}")).unwrap();
            let mut command = Command::new(compiler);
            command.args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", file, "-I"]);
            let built = command.arg(&include).current_dir(&dir).output().unwrap();
            assert!(built.status.success(), "{order:?}: {}", String::from_utf8_lossy(&built.stderr));
        }
    }
}
