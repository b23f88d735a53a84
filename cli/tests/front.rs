//! What a new user asks of the command line: inputs by name and from files of several arrays, results compared with what they
//! should be, numbers and pages to read, completions and manuals.
#![allow(clippy::unwrap_used)]

use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `w` times two, less `x`: the names are those that JAX writes.
const MODULE: &str = "HloModule jit_f

ENTRY main.5 {
  Arg_0.1 = f32[2]{0} parameter(0), metadata={op_name=\"x\"}
  Arg_1.2 = f32[2]{0} parameter(1), metadata={op_name=\"params['w']\"}
  Arg_2.3 = f32[] parameter(2), metadata={op_name=\"scale\"}
  b.4 = f32[2]{0} broadcast(Arg_2.3), dimensions={}
  m.5 = f32[2]{0} multiply(Arg_1.2, b.4)
  ROOT r.6 = f32[2]{0} subtract(m.5, Arg_0.1)
}
";

fn brolga(args: &[&str], input: &str) -> Output {
    super::start::output(Command::new(env!("CARGO_BIN_EXE_brolga")).args(args), input)
}

/// The status, and both streams.
pub fn outcome(args: &[&str], input: &str) -> (i32, String, String) {
    let output = brolga(args, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("front-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn pair(x: f32, y: f32) -> ArrayLiteral {
    ArrayLiteral::from_elements(&[2], &[x, y])
}

pub fn npz(path: &Path, arrays: &[(&str, ArrayLiteral)]) {
    use std::io::Write;
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&brolga_runtime::npy::write(array)).unwrap();
    }
    archive.finish().unwrap();
}

pub fn safetensors(path: &Path, arrays: &[(&str, ArrayLiteral)]) {
    use safetensors::{Dtype, tensor::TensorView};
    let view = |a: &'_ ArrayLiteral| -> (Vec<usize>, Vec<u8>) {
        (a.dims().iter().map(|&d| d as usize).collect(), a.bytes().to_vec())
    };
    let owned: Vec<_> = arrays.iter().map(|(name, array)| (*name, view(array))).collect();
    let views =
        owned.iter().map(|(name, (dims, bytes))| (*name, TensorView::new(Dtype::F32, dims.clone(), bytes).unwrap()));
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

#[test]
fn inputs_have_the_names_of_parameters() {
    let want = (0, "f32[2] {5, 18}\n".to_owned());
    let run = |inputs: &[&str]| {
        let mut args = vec!["run", "-"];
        args.extend(inputs.iter().flat_map(|input| ["--input", input]));
        let (status, out, err) = outcome(&args, MODULE);
        ((status, out), err)
    };
    let dir = folder("names");
    let file = dir.join("x.npy");
    std::fs::write(&file, brolga_runtime::npy::write(&pair(1.0, 2.0))).unwrap();
    let file = file.to_str().unwrap();
    let named = format!("x={file}");
    let at = format!("x=f32[2]=@{file}");
    for inputs in [
        &["params['w']={3,10}", "scale=2", "x={1,2}"][..],
        // By the instruction's name, with its number and without.
        &["Arg_2.3=f32[]=2", "Arg_1=f32[2]={3,10}", &named],
        // What has no name takes the places that are left, in order.
        &["f32[2]={1,2}", "scale=2", "f32[2]={3,10}"],
        &["params['w']={3,10}", &at, "f32[]=2"],
    ] {
        let (got, err) = run(inputs);
        assert_eq!(got, want, "{inputs:?}: {err}");
    }
    for (inputs, message) in [
        (&["y={1,2}", "scale=2", "x={1,2}"][..], "the module has no parameter 'y'"),
        (&["scalee=2", "x={1,2}", "x={1,2}"], "did you mean 'scale'?"),
        (&["x={1,2}", "x={1,2}", "scale=2"], "the parameter 'x' has a value already"),
        (&["x={1,2}", "scale=2"], "have no name among the inputs: Arg_1.2; 0 inputs have no name"),
        (&["x={1,2,3}", "scale=2", "f32[2]={1,2}"], "expected '}' after 2 elements"),
        (&["x=f32[3]={1,2,3}", "scale=2", "f32[2]={1,2}"], "the module has f32[2] here, not f32[3]"),
    ] {
        let ((status, out), err) = run(inputs);
        assert_eq!((status, out.as_str()), (1, ""), "{inputs:?}: {err}");
        assert!(err.contains(message), "{message} in {err}");
    }
}

/// What JAX makes of a function's arguments surprises; the message says which they are.
#[test]
fn too_few_and_too_many_inputs_are_explained() {
    let known = "the module takes 3 input arrays (x, params['w'], scale), but";
    for (count, hint) in [
        (0, "--random-seed N makes inputs"),
        (1, "in the order of its sorted keys"),
        (4, "jax.jit leaves out arguments that are not used, unless it is told keep_unused=True"),
    ] {
        let mut args = vec!["run", "-"];
        args.extend(std::iter::repeat_n(["--input", "f32[2]={1,2}"], count).flatten());
        let (status, _, err) = outcome(&args, MODULE);
        assert_eq!(status, 1);
        assert!(err.contains(&format!("{known} {count} were given; ")) && err.contains(hint), "{err}");
    }
}

#[test]
fn a_name_of_two_parameters_stands_for_neither() {
    let module = MODULE.replace("params['w']", "x");
    let (status, out, err) = outcome(&["run", "-", "--input", "x={1,2}", "--input", "scale=1"], &module);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("'x' may be any of the parameters Arg_0.1, Arg_1.2"), "{err}");
}

#[test]
fn an_expected_value_has_the_size_of_the_result() {
    let module = "HloModule m\n\nENTRY e {\n  p = s32[<=4] parameter(0)\n  ROOT x = s32[<=4] add(p, p)\n}\n";
    let path = folder("bounded").join("two.npy");
    std::fs::write(&path, brolga_runtime::npy::write(&pair(1.0, 2.0))).unwrap();
    let args = ["run", "-", "--engine", "interp", "--random-seed", "1", "--expect", path.to_str().unwrap()];
    let (status, _, err) = outcome(&args, module);
    assert!(status == 1 || status == 2, "{status}: {err}");
}

#[test]
fn inputs_come_from_files_of_several_arrays() {
    let dir = folder("files");
    let scale = ("scale", ArrayLiteral::scalar(2f32));
    let weights = ("params['w']", pair(3.0, 10.0));
    let (zipped, tensors) = (dir.join("weights.npz"), dir.join("weights.safetensors"));
    npz(&zipped, &[scale.clone(), weights.clone()]);
    safetensors(&tensors, &[weights.clone(), scale.clone()]);
    let object = dir.join("f.o");
    let object = object.to_str().unwrap();
    assert_eq!(outcome(&["compile", "-", "-o", object], MODULE).0, 0);
    for file in [&zipped, &tensors] {
        let file = file.to_str().unwrap();
        let (status, out, err) = outcome(&["run", "-", "--input", file, "--input", "x={1,2}"], MODULE);
        assert_eq!((status, out.as_str()), (0, "f32[2] {5, 18}\n"), "{err}");
    }
    // An object knows the instructions' names.
    let other = dir.join("object.npz");
    npz(&other, &[("Arg_2.3", scale.1.clone()), ("Arg_0", pair(1.0, 2.0)), ("Arg_1.2", weights.1.clone())]);
    let (status, out, err) = outcome(&["run", object, "--input", other.to_str().unwrap()], "");
    assert_eq!((status, out.as_str()), (0, "f32[2] {5, 18}\n"), "{err}");
    // Names and shapes that the program has not, another type, what is no such file.
    let wrong = |arrays: &[(&str, ArrayLiteral)], message: &str| {
        for (name, write) in [("wrong.npz", npz as fn(&Path, &_)), ("wrong.safetensors", safetensors)] {
            let path = dir.join(name);
            write(&path, arrays);
            let (status, _, err) = outcome(&["run", "-", "--input", path.to_str().unwrap()], MODULE);
            assert_eq!(status, 1);
            assert!(err.contains(message), "{message} in {err}");
        }
    };
    wrong(&[scale.clone(), ("wieght", pair(0.0, 0.0))], "the module has no parameter 'wieght'");
    wrong(&[("scale", pair(0.0, 0.0))], "f32[]");
    std::fs::write(dir.join("no.safetensors"), "no").unwrap();
    let path = dir.join("no.safetensors");
    let (status, _, err) = outcome(&["run", "-", "--input", path.to_str().unwrap()], MODULE);
    assert!(status == 1 && err.contains("not a file of safetensors"), "{err}");
    let bytes = ArrayLiteral::zeros(&ArrayShape::new(ElementType::S32, [2]));
    npz(&zipped, &[("x", bytes)]);
    let (status, _, err) = outcome(&["run", "-", "--input", zipped.to_str().unwrap()], MODULE);
    assert!(status == 1 && err.contains("x.npy: expected NumPy type 'f4'"), "{err}");
}

#[test]
fn a_file_of_several_arrays_may_have_an_equals_sign_in_its_path() {
    let path = folder("rate=0.1").join("all.npz");
    let scale = ArrayLiteral::from_elements(&[], &[2f32]);
    npz(&path, &[("x", pair(1.0, 2.0)), ("params['w']", pair(3.0, 4.0)), ("scale", scale)]);
    let (status, out, err) = outcome(&["run", "-", "--input", path.to_str().unwrap()], MODULE);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("{5, 6}"), "{out}");
}

#[test]
fn open_sizes_follow_inputs_that_have_names() {
    let module = "func.func @main(%n: tensor<f32>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %x, %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
";
    let dir = folder("sizes");
    let (zipped, tensors) = (dir.join("x.npz"), dir.join("x.safetensors"));
    let arrays = [("x", pair(1.0, 2.0)), ("n", ArrayLiteral::scalar(0f32))];
    npz(&zipped, &arrays);
    safetensors(&tensors, &arrays);
    for inputs in [&["x=f32[2]={1,2}", "n=0"][..], &[zipped.to_str().unwrap()], &[tensors.to_str().unwrap()]] {
        let mut args = vec!["run", "-"];
        args.extend(inputs.iter().flat_map(|input| ["--input", input]));
        let (status, out, err) = outcome(&args, module);
        assert_eq!((status, out.as_str()), (0, "f32[2] {2, 4}\n"), "{inputs:?}: {err}");
    }
}

#[test]
fn results_are_compared_with_what_is_expected() {
    let dir = folder("expect");
    let pairs = "HloModule two\nENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] negate(x)\n  z = s32[2] convert(x)\n  \
                 ROOT t = (f32[2], s32[2]) tuple(y, z)\n}\n";
    let run = |more: &[&str]| {
        let args: Vec<&str> = ["run", "-", "--input", "x={1,2.5}"].into_iter().chain(more.iter().copied()).collect();
        outcome(&args, pairs)
    };
    let (y, z) = (pair(-1.0, -2.5), ArrayLiteral::from_elements(&[2], &[1i32, 2]));
    let zipped = dir.join("results.npz");
    npz(&zipped, &[("out1", z), ("out0", y)]);
    let results = dir.join("results");
    let results = results.to_str().unwrap();
    assert_eq!(run(&["--output-dir", results]).0, 0);
    for expect in [
        &["--expect", "f32[2]={-1,-2.5}", "--expect", "s32[2]={1,2}"][..],
        &["--expect", zipped.to_str().unwrap()],
        &["--expect", results],
        &["--expect", "f32[2]={-1,-2.25}", "--expect", "s32[2]={1,2}", "--rtol", "0.12"],
        &["--expect", "f32[2]={-1,-2.25}", "--expect", "s32[2]={1,2}", "--rtol", "0", "--atol", "0.25"],
    ] {
        let (status, out, err) = run(expect);
        assert_eq!(status, 0, "{expect:?}: {err}");
        assert!(
            out.starts_with("result 0 f32[2]: as expected") && out.contains("result 1 s32[2]: as expected\n"),
            "{out}"
        );
    }
    let (status, out, err) =
        run(&["--expect", "f32[2]={-1,-2.25}", "--expect", "s32[2]={1,3}", "--atol", "0.1", "--rtol", "0"]);
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    let first = "result 0 f32[2]: 1 of 2 elements differ, first [1]: f32[] -2.5, expected f32[] -2.25; the largest difference is \
                 2.5e-1, at [1]";
    assert!(
        err.contains(first) && err.contains("result 1 s32[2]: 1 of 2 elements differ, first [1]: s32[] 2"),
        "{err}"
    );
    for (expect, status, message) in [
        (&["--expect", "f32[2]={1,2}"][..], 1, "the program has 2 results, expected are 1"),
        (&["--expect", "f32[3]={1,2,3}", "--expect", "s32[2]={1,2}"], 1, "the module has f32[2] here, not f32[3]"),
        (&["--rtol", "0.1"], 64, "--expect"),
        (&["--expect", "x.npy", "--rtol=-1"], 64, "not negative"),
    ] {
        let (got, _, err) = run(expect);
        assert!(got == status && err.contains(message), "{expect:?}: {got} {err}");
    }
}

#[test]
fn bench_prints_a_table() {
    let dot = "HloModule m\nENTRY e {\n  x = f32[64,64] parameter(0)\n  e = f32[64,64] exponential(x)\n  \
               ROOT d = f32[64,64] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    let (status, out, err) = outcome(&["bench", "-", "--random-seed", "1", "--min-time", "0.01"], dot);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    let row = |key: &str| out.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}: {out}"));
    for key in ["run, median", "run, least", "run, p90", "compile"] {
        let mut words = row(key).split_whitespace();
        let (number, unit) = (words.next().and_then(|n| n.parse::<f64>().ok()), words.next().unwrap_or_default());
        assert!(number.is_some_and(|n| n > 0.0) && ["ns", "us", "ms", "s"].contains(&unit), "{key}: {out}");
    }
    assert!(
        row("arithmetic").contains("FLOP/s") && row("arithmetic").contains("% of a product of f32[512,512]"),
        "{out}"
    );
    assert!(row("memory").contains("B/s") && row("memory").contains("32.0 KiB of parameters and results"), "{out}");
    let (status, out, err) = outcome(&["bench", "-", "--random-seed", "1", "--min-time", "0.01", "--profile"], dot);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("kernel") && lines[0].ends_with("instructions"), "{out}");
    assert!(
        lines[1].starts_with("kernel0 e ") && lines[1].ends_with("exponential") && lines[1].contains(" rows "),
        "{out}"
    );
    assert!(lines[2].starts_with("kernel1 d ") && lines[2].ends_with("dot") && lines[2].contains(" 5 "), "{out}");
}

#[test]
fn a_page_shows_the_kernels() {
    let path = folder("page").join("f.html");
    let (status, out, err) = outcome(&["inspect", "-", "--html", path.to_str().unwrap()], MODULE);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("multiply(") && page.contains("<details id=\"kernel0\">"), "{page}");
}

#[test]
fn completions_and_manuals_know_every_command() {
    let commands = ["bench", "compile", "completions", "inspect", "man", "opt", "parse", "reduce", "run"];
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (status, out, _) = outcome(&["completions", shell], "");
        assert_eq!(status, 0);
        assert!(commands.iter().all(|c| out.contains(c)) && out.contains("expect"), "{shell}");
    }
    let dir = folder("man");
    assert_eq!(outcome(&["man", dir.to_str().unwrap()], "").0, 0);
    let pages: BTreeMap<String, String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    for command in commands {
        let page = pages.get(&format!("brolga-{command}.1")).unwrap_or_else(|| panic!("{command}: {:?}", pages.keys()));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(command), "{page}");
    }
    assert!(pages["brolga.1"].contains("Exit status"));
}

/// Two kernels with the lines of their Python, and a call of a library service, which has no time.
const TRACED: &str = "HloModule traced

ENTRY e {
  x = f32[64,64] parameter(0)
  e = f32[64,64] exponential(x), metadata={op_name=\"exp\" source_file=\"wave.py\" source_line=3}
  d = f32[64,64] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file=\"wave.py\" source_line=4}
  ROOT f = c64[64,33] fft(d), fft_type=RFFT, fft_length={64}
}
";

#[test]
fn a_trace_shows_the_kernels_of_the_profile() {
    let path = folder("trace").join("t.json");
    let path = path.to_str().unwrap();
    let profile = ["bench", "-", "--random-seed", "1", "--min-time", "0.01", "--profile", "--trace"];
    let (status, out, err) = outcome(&[&profile[..], &[path]].concat(), TRACED);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for event in events {
        assert!(event["name"].is_string() && event["ph"].is_string(), "{event}");
        assert_eq!((event["pid"].as_u64(), event["tid"].as_u64()), (Some(1), Some(1)), "{event}");
    }
    let number = |event: &serde_json::Value, key: &str| event[key].as_f64().unwrap();
    let of = |phase: &str| -> Vec<&serde_json::Value> { events.iter().filter(|e| e["ph"] == phase).collect() };
    let (whole, marks) = (of("X"), of("i"));
    let [run, exp, dot] = whole[..] else { panic!("{trace:#}") };
    assert_eq!((run["name"].as_str(), number(run, "ts")), (Some("run of traced"), 0.0));
    // One after the other, within the run.
    assert!(number(exp, "dur") > 0.0 && number(dot, "dur") > 0.0, "{trace:#}");
    // What is read back may differ by a rounding.
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b;
    assert_eq!(number(exp, "ts"), 0.0);
    assert!(close(number(dot, "ts"), number(exp, "dur")), "{trace:#}");
    assert!(close(number(exp, "dur") + number(dot, "dur"), number(run, "dur")), "{trace:#}");
    let [fft] = marks[..] else { panic!("{trace:#}") };
    assert!(close(number(fft, "ts"), number(run, "dur")), "{trace:#}");
    // Each kernel of the table.
    let names: Vec<&str> = [exp, dot, fft].iter().filter_map(|e| e["name"].as_str()).collect();
    let rows: Vec<&str> = out.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 3, "{out}");
    assert!(rows.iter().zip(&names).all(|(row, name)| row.starts_with(name)), "{out}{names:?}");
    for (event, opcode, line, source) in [(exp, "exponential(", 5, "wave.py:3"), (dot, "dot(", 6, "wave.py:4")] {
        let args = &event["args"];
        assert!(args["hlo"][0].as_str().is_some_and(|text| text.contains(opcode)), "{event}");
        assert_eq!((args["line"].as_i64(), args["source"][0].as_str()), (Some(line), Some(source)), "{event}");
    }
    // To standard output it goes alone.
    let (status, out, _) = outcome(&[&profile[..], &["-"]].concat(), TRACED);
    assert!(status == 0 && serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{out}");
    assert_eq!(outcome(&["bench", "-", "--trace", path], TRACED).0, 64);
}
