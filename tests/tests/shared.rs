//! Shared libraries that `dlopen` and ctypes open: what they compute is what the same program computes in this process, bit
//! for bit.
#![allow(clippy::unwrap_used)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use brolga_compiler::object::{c_header, read_descriptors};
use brolga_compiler::{CompileOptions, SizedArtifact, compile, compile_sizes, interp, shape, text};
use brolga_runtime::abi::OpenDimension;
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Program};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Constants, a contraction, a reduction, a sort with a comparator, a loop, workspace, and two results.
const MODEL: &str = "HloModule model
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }
body { p = (s32[], f32[16,8]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  n = s32[] add(i, one)  y = f32[16,8] get-tuple-element(p), index=1  t = f32[16,8] tanh(y)  s = f32[16,8] sine(t)
  ROOT r = (s32[], f32[16,8]) tuple(n, s) }
cond { p = (s32[], f32[16,8]) parameter(0)  i = s32[] get-tuple-element(p), index=0  three = s32[] constant(3)
  ROOT l = pred[] compare(i, three), direction=LT }
ENTRY main {
  x = f32[16,32] parameter(0)
  w = f32[32,8] parameter(1)
  y = f32[16,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8] constant({0.5, -1, 2, 0.25, 3, -4, 1, 0})
  bb = f32[16,8] broadcast(b), dimensions={1}
  z = f32[16,8] add(y, bb)
  zero = s32[] constant(0)
  start = (s32[], f32[16,8]) tuple(zero, z)
  loop = (s32[], f32[16,8]) while(start), condition=cond, body=body
  v = f32[16,8] get-tuple-element(loop), index=1
  s = f32[16,8] sort(v), dimensions={1}, to_apply=less
  low = f32[] constant(-inf)
  m = f32[16] reduce(s, low), dimensions={1}, to_apply=max
  ROOT out = (f32[16,8], f32[16]) tuple(s, m)
}";

const CALLS: &str = "HloModule calls
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target=\"twice\"
  ROOT z = f32[4] add(x, y)
}";

fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn numbers(dims: &[i64], seed: i64) -> ArrayLiteral {
    let values: Vec<f32> = (0..dims.iter().product()).map(|i: i64| ((i * 37 + seed) % 19) as f32 / 8.0 - 1.0).collect();
    ArrayLiteral::from_elements(dims, &values)
}

/// Compiles a module, writes `NAME.so` and `NAME.h`, and returns its object.
fn written(source: &str, name: &str, dir: &Path) -> Vec<u8> {
    let module = text::parse(source).unwrap();
    shape::verify(&module).unwrap();
    let file = format!("{name}.so");
    let options = CompileOptions { name: Some(name.into()), shared: Some(file.clone()), ..CompileOptions::default() };
    let artifact = compile(&module, &options).unwrap();
    let again = compile(&module, &CompileOptions { threads: 3, ..options }).unwrap();
    assert!(artifact.shared == again.shared, "the same input gives the same bytes");
    std::fs::write(dir.join(file), artifact.shared.unwrap()).unwrap();
    std::fs::write(dir.join(format!("{name}.h")), c_header(&[artifact.descriptor])).unwrap();
    artifact.object
}

/// The host of `shared/host.c`; none, and loudly, where there is no C compiler.
fn host(dir: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no C compiler '{compiler}': libraries are not opened from C");
        return None;
    }
    std::fs::write(dir.join("host.c"), include_str!("shared/host.c")).unwrap();
    // Every generated header declares what the host uses. The copy of an earlier run is none of them.
    let copy = dir.join("program.h");
    let mut files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let header = files.find(|p| p.extension() == Some("h".as_ref()) && *p != copy);
    std::fs::copy(header.unwrap(), copy).unwrap();
    let args = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-rdynamic", "-o", "host", "host.c", "-ldl"];
    let built = Command::new(&compiler).args(args).current_dir(dir).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(dir.join("host"))
}

fn run(command: &mut Command, input: &[u8]) -> Output {
    use std::io::Write;
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn bytes(arrays: &[ArrayLiteral]) -> Vec<u8> {
    arrays.iter().flat_map(|a| a.bytes().to_vec()).collect()
}

fn good(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Opens `dir/NAME.so` from C and from Python, where there are; each gives `expected`, as Python lists the parameters `listed`.
fn opened(dir: &Path, name: &str, arguments: &[ArrayLiteral], expected: &[ArrayLiteral], listed: &str) {
    let library = dir.join(format!("{name}.so"));
    if let Some(host) = host(dir) {
        let output = run(Command::new(host).arg(&library).arg(name), &bytes(arguments));
        assert!(good(output) == bytes(expected), "other bits from C");
    }
    if Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success()) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared/host.py");
        let output = run(Command::new("python3").arg(script).arg(&library).arg(name), &bytes(arguments));
        assert_eq!(String::from_utf8_lossy(&output.stderr), listed);
        assert!(good(output) == bytes(expected), "other bits from Python");
    } else {
        eprintln!("SKIPPED: there is no python3: libraries are not opened by ctypes");
    }
}

#[test]
fn a_library_computes_from_c_and_from_python_what_the_program_computes_in_process() {
    let dir = folder("shared_model");
    let object = written(MODEL, "model", &dir);
    let arguments = [numbers(&[16, 32], 1), numbers(&[32, 8], 5)];
    let expected = Program::from_object(&object).unwrap().run(&arguments.each_ref()).unwrap();
    let interpreted =
        interp::run(&text::parse(MODEL).unwrap(), &arguments.clone().map(Literal::Array), &interp::Options::default())
            .unwrap();
    for (have, want) in expected.iter().zip(interpreted.arrays()) {
        let pairs = have.as_slice::<f32>().iter().zip(want.as_slice::<f32>());
        pairs.for_each(|(a, b)| assert!((a - b).abs() <= 1e-5, "{a} {b}"));
    }
    opened(&dir, "model", &arguments, &expected, "x f32 [16, 32]\nw f32 [32, 8]\n");
}

/// Parameters and results that are padded and lie column by column.
fn strided() -> String {
    let layouts = "(f32[3,4]{0,1:W(5,4)}, f32[3,4]{0,1})->(f32[4,3]{0,1:W(4,6)V(lowest)}, f32[3]{0:W(8)})";
    format!(
        "HloModule strided, entry_computation_layout={{{layouts}}}\n\nadd {{ a = f32[] parameter(0)  b = f32[] parameter(1)  \
         ROOT c = f32[] add(a, b) }}\n\nENTRY main {{\n  x = f32[3,4] parameter(0)\n  y = f32[3,4] parameter(1)\n  \
         z = f32[3,4] multiply(x, y)\n  t = f32[4,3] transpose(z), dimensions={{1,0}}\n  zero = f32[] constant(0)\n  \
         s = f32[3] reduce(z, zero), dimensions={{1}}, to_apply=add\n  ROOT r = (f32[4,3], f32[3]) tuple(t, s)\n}}\n"
    )
}

/// Buffers in C and Python whose strides are those of a column-major and of a padded array, with noise in the padding.
#[test]
fn a_library_takes_and_gives_strided_arrays() {
    let dir = folder("shared_strided");
    let object = written(&strided(), "strided", &dir);
    let arguments = [numbers(&[3, 4], 1), numbers(&[3, 4], 5)];
    let expected = Program::from_object(&object).unwrap().run(&arguments.each_ref()).unwrap();
    let product = |k: usize| arguments[0].as_slice::<f32>()[k] * arguments[1].as_slice::<f32>()[k];
    let transposed: Vec<f32> = (0..12).map(|k| product(k % 3 * 4 + k / 3)).collect();
    assert_eq!(expected[0].as_slice::<f32>(), transposed);
    opened(&dir, "strided", &arguments, &expected, "x f32 [3, 4]\ny f32 [3, 4]\n");
}

/// The function that the guide gives for NumPy, as it stands there. `BROLGA_PYTHON` may name a Python, which must have NumPy then.
#[test]
fn the_guides_numpy_arrays_are_buffers_of_the_program() {
    let guide = include_str!("../../docs/guide.md");
    let start = guide.find("def array_of(").unwrap();
    let function = guide[start..].split("```").next().unwrap();
    let named = std::env::var_os("BROLGA_PYTHON");
    let must = named.is_some();
    let python = named.unwrap_or_else(|| "python3".into());
    if !Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|o| o.status.success()) {
        assert!(!must, "{} has no NumPy", python.display());
        eprintln!("SKIPPED: {} has no NumPy: the guide's arrays are not tried", python.display());
        return;
    }
    let dir = folder("shared_numpy");
    let object = written(&strided(), "strided", &dir);
    let arguments = [numbers(&[3, 4], 1), numbers(&[3, 4], 5)];
    let expected = Program::from_object(&object).unwrap().run(&arguments.each_ref()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared/strided.py");
    let mut command = Command::new(python);
    command.arg(script).arg(dir.join("strided.so")).args(["strided", function]);
    assert!(good(run(&mut command, &bytes(&arguments))) == bytes(&expected), "other bits in NumPy's arrays");
}

#[test]
fn a_custom_call_is_the_hosts_and_two_libraries_live_in_one_process() {
    let dir = folder("shared_calls");
    let model = written(MODEL, "model", &dir);
    written(CALLS, "calls", &dir);
    let Some(host) = host(&dir) else { return };
    let arguments = [numbers(&[16, 32], 2), numbers(&[32, 8], 3)];
    let results = Program::from_object(&model).unwrap().run(&arguments.each_ref()).unwrap();
    let x = [1.0f32, -2.5, 3.0, 100.0];
    let [given, tripled] = [x, x.map(|x| 3.0 * x)].map(|x| [ArrayLiteral::from_elements(&[4], &x)]);
    let input = [bytes(&given), bytes(&arguments), bytes(&given)].concat();
    let wanted = [bytes(&tripled), bytes(&results), bytes(&tripled)].concat();
    let mut command = Command::new(&host);
    for name in ["calls", "model", "calls"] {
        command.arg(dir.join(format!("{name}.so"))).arg(name);
    }
    assert!(good(run(&mut command, &input)) == wanted);
    // Without the function a library is refused when it is opened.
    written(&CALLS.replace("twice", "thrice_nowhere"), "lost", &dir);
    let output = run(Command::new(&host).arg(dir.join("lost.so")).arg("lost"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("undefined symbol: thrice_nowhere"));
}

#[test]
fn a_library_of_several_sizes_has_the_selector() {
    let dir = folder("shared_sizes");
    let module = |n: i64| {
        let source = format!("HloModule f\nENTRY e {{ x = f32[{n}] parameter(0)  ROOT y = f32[{n}] multiply(x, x) }}");
        text::parse(&source).unwrap()
    };
    let open = [OpenDimension { parameter: 0, dimension: 0 }];
    let options = CompileOptions { name: Some("f".into()), shared: Some("f.so".into()), ..CompileOptions::default() };
    let artifact: SizedArtifact = compile_sizes(&[module(3), module(1000)], &open, &options).unwrap();
    let shared = artifact.shared.clone().unwrap();
    let entries: Vec<String> = read_descriptors(&shared).unwrap().into_iter().map(|d| d.entry).collect();
    assert_eq!(entries, ["f__3", "f__1000"]);
    std::fs::write(dir.join("f.so"), shared).unwrap();
    std::fs::write(dir.join("f.h"), c_header(&artifact.descriptors())).unwrap();
    let Some(host) = host(&dir) else { return };
    for n in [3, 1000] {
        let x = numbers(&[n], n);
        let squares: Vec<f32> = x.as_slice::<f32>().iter().map(|x| x * x).collect();
        let output = run(Command::new(&host).arg(dir.join("f.so")).arg(format!("f:{n}")), x.bytes());
        assert!(good(output) == ArrayLiteral::from_elements(&[n], &squares).bytes(), "{n}");
    }
    let output = run(Command::new(&host).arg(dir.join("f.so")).arg("f:4"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn linkers_and_readelf_take_a_library() {
    let dir = folder("shared_linked");
    let object = written(MODEL, "model", &dir);
    if host(&dir).is_none() {
        return;
    }
    let main = "#include <stdio.h>
#include \"model.h\"
static _Alignas(64) char workspace[MODEL_WORKSPACE_BYTES(1) + 1];
static float x[MODEL_PARAMETER_0_ELEMENTS], w[MODEL_PARAMETER_1_ELEMENTS], s[MODEL_RESULT_0_ELEMENTS], m[MODEL_RESULT_1_ELEMENTS];
int main(void) {
    const void *params[] = {x, w};
    void *results[] = {s, m};
    if (model_workspace_size(1) != MODEL_WORKSPACE_BYTES(1) || model_signature[0] != '{') return 1;
    if (model(params, results, workspace, NULL)) return 2;
    return fwrite(s, 1, sizeof s, stdout) == sizeof s ? 0 : 3;
}
";
    std::fs::write(dir.join("main.c"), main).unwrap();
    let args =
        ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "linked", "main.c", "./model.so", "-Wl,-rpath,$ORIGIN"];
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(compiler).args(args).current_dir(&dir).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let zeros = |dims: &[i64]| ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(ElementType::F32, dims.to_vec()));
    let expected = Program::from_object(&object).unwrap().run(&[&zeros(&[16, 32]), &zeros(&[32, 8])]).unwrap();
    assert!(good(run(&mut Command::new(dir.join("linked")), &[])) == expected[0].bytes());

    let Ok(read) = Command::new("readelf").args(["-lWdS"]).arg(dir.join("model.so")).output() else {
        eprintln!("SKIPPED: there is no readelf");
        return;
    };
    let said = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success() && read.stderr.is_empty(), "{}", String::from_utf8_lossy(&read.stderr));
    for wanted in ["Library soname: [model.so]", "BIND_NOW", "GNU_RELRO", "GNU_STACK", "DYN (Shared object file)"] {
        assert!(said.contains(wanted), "no {wanted} in\n{said}");
    }
    assert!(!said.contains("RWE") && !said.contains("TEXTREL") && !said.contains("NEEDED"), "{said}");
}
