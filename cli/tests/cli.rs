//! The program as a user meets it: exit statuses, streams and messages.
#![allow(clippy::unwrap_used)]

use brolga_runtime::{ArrayLiteral, ElementType};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const DOUBLE: &str = "HloModule double

ENTRY main {
  x = f32[3]{0} parameter(0)
  ROOT y = f32[3]{0} add(x, x)
}
";

fn brolga(args: &[&str], input: &str) -> Output {
    super::start::output(Command::new(env!("CARGO_BIN_EXE_brolga")).args(args), input)
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn a_module_from_standard_input_runs_and_prints_its_result() {
    let output = brolga(&["run", "-", "--input", "f32[3]={1,2.5,-3}"], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "f32[3] {2, 5, -6}\n");
}

#[test]
#[cfg(target_os = "linux")]
fn functions_are_in_the_map_of_perf_where_it_is_asked_for() {
    let run = |asked: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brolga"));
        command.args(["run", "-", "--input", "f32[3]={1,2.5,-3}"]).env("BROLGA_PERF_MAP", asked);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
        child.stdin.take().unwrap().write_all(DOUBLE.as_bytes()).unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
        map
    };
    assert!(!run("").exists());
    let map = run("1");
    let text = std::fs::read_to_string(&map).unwrap();
    std::fs::remove_file(&map).unwrap();
    let functions: Vec<(u64, u64, &str)> = text
        .lines()
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
            (number(), number(), words.next().unwrap())
        })
        .collect();
    assert!(functions.iter().any(|(_, _, name)| *name == "double"), "{text}");
    assert!(functions.iter().all(|(start, size, _)| *start > 0 && *size > 0), "{text}");
}

#[test]
fn inputs_and_outputs_are_npy_files() {
    let dir = folder("npy");
    let first = brolga(&["run", "-", "--random-seed", "7", "--output-dir", dir.to_str().unwrap()], DOUBLE);
    assert_eq!(status(&first), 0, "{}", stderr(&first));
    let out = dir.join("out0.npy");
    let doubled = std::fs::read(&out).unwrap();
    let again = brolga(&["run", "-", "--input", out.to_str().unwrap(), "--output-dir", dir.to_str().unwrap()], DOUBLE);
    assert_eq!(status(&again), 0, "{}", stderr(&again));
    let quadrupled = std::fs::read(&out).unwrap();
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes[bytes.len() - 12..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let expected: Vec<f32> = numbers(&doubled).iter().map(|x| x + x).collect();
    assert_eq!(numbers(&quadrupled), expected);
    let shaped = format!("3xf32=@{}", out.to_str().unwrap());
    assert_eq!(status(&brolga(&["run", "-", "--input", &shaped], DOUBLE)), 0);
}

#[test]
fn an_invalid_module_is_shown_with_its_line_underlined() {
    let output = brolga(&["parse", "-"], &DOUBLE.replace("add(x, x)", "add(x, z)"));
    assert_eq!(status(&output), 2);
    let message = stderr(&output);
    assert!(message.contains("<stdin>:5:"), "{message}");
    assert!(message.contains("ROOT y = f32[3]{0} add(x, z)"), "{message}");
    assert!(message.contains("here"), "{message}");
    assert!(!message.contains('\u{1b}'), "no colours without a terminal: {message}");
    let output = brolga(&["parse", "-"], &DOUBLE.replace("ROOT y = f32[3]", "ROOT y = f32[4]"));
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("'y'"), "{}", stderr(&output));
}

#[test]
fn a_long_line_is_shown_as_an_excerpt() {
    let long = format!("{}{}", " ".repeat(100_000), "ROOT y = f32[3]{0} add(x, z)");
    let output = brolga(&["parse", "-"], &DOUBLE.replace("ROOT y = f32[3]{0} add(x, x)", &long));
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).len() < 3000, "{} bytes", stderr(&output).len());
    assert!(stderr(&output).contains("column 100"), "{}", stderr(&output));
}

#[test]
fn what_is_not_text_is_a_syntax_error() {
    let dir = folder("bytes");
    let path = dir.join("bad.hlo");
    std::fs::write(&path, b"HloModule x\n\xff\xfe").unwrap();
    let output = brolga(&["parse", path.to_str().unwrap()], "");
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("2:1"), "{}", stderr(&output));
}

#[test]
fn the_summary_counts() {
    let output = brolga(&["parse", "-"], DOUBLE);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["instructions"], 2);
    assert_eq!(summary["opcodes"]["add"], 1);
    assert_eq!(summary["params"][0], "f32[3]{0}");
}

#[test]
fn stablehlo_is_read_and_its_mistakes_are_shown() {
    const GOOD: &str = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  \
        %0 = stablehlo.add %x, %x : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}\n";
    let output = brolga(&["run", "-", "--shape", "x=f32[3]", "--input", "f32[3]={1,2,3}"], GOOD);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("{2, 4, 6}"), "{output:?}");
    let output = brolga(&["parse", "-"], GOOD);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("expected a shape for argument 'x'"), "{}", stderr(&output));
    let output = brolga(&["parse", "-"], &GOOD.replace("%x, %x", "%x, %y"));
    assert_eq!(status(&output), 2);
    let shown = stderr(&output);
    assert!(shown.contains("<stdin>:2:") && shown.contains("'%y' is not defined"), "{shown}");
}

#[test]
fn mistakes_on_the_command_line_have_statuses_of_their_own() {
    assert_eq!(status(&brolga(&["run"], "")), 64);
    assert_eq!(status(&brolga(&["fly"], "")), 64);
    assert_eq!(status(&brolga(&["--help"], "")), 0);
    assert_eq!(status(&brolga(&["run", "no-such-file.hlo"], "")), 1);
    let missing = brolga(&["run", "-"], DOUBLE);
    assert_eq!(status(&missing), 1);
    assert!(stderr(&missing).contains("takes 1 input"), "{}", stderr(&missing));
    let wrong = brolga(&["run", "-", "--input", "f32[2]={1,2}"], DOUBLE);
    assert_eq!(status(&wrong), 1);
    assert!(stderr(&wrong).contains("f32[3]"), "{}", stderr(&wrong));
    let object = brolga(&["inspect", "-"], "not an object");
    assert_eq!(status(&object), 1, "{}", stderr(&object));
}

#[test]
fn opt_prints_a_module_that_reads_back() {
    let output = brolga(&["opt", "-"], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(status(&brolga(&["parse", "-"], &stdout(&output))), 0);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_brolga"))
        .args(["opt", "-", "--no-passes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(DOUBLE.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 0);
    assert_eq!(stderr(&output), "");
}

#[test]
fn an_object_runs_as_its_module_does() {
    let dir = folder("object");
    let object = dir.join("double.o");
    let object = object.to_str().unwrap();
    let compiled = brolga(&["compile", "-", "-o", object, "--name", "twice"], DOUBLE);
    assert_eq!(status(&compiled), 0, "{}", stderr(&compiled));
    for engine in ["interp", "jit", "aot"] {
        let output = brolga(&["run", "-", "--engine", engine, "--input", "f32[3]={1,2.5,-3}"], DOUBLE);
        assert_eq!(stdout(&output), "f32[3] {2, 5, -6}\n", "{engine}: {}", stderr(&output));
    }
    let output = brolga(&["run", object, "--input", "f32[3]={1,2.5,-3}"], "");
    assert_eq!(stdout(&output), "f32[3] {2, 5, -6}\n", "{}", stderr(&output));
    let inspected = stdout(&brolga(&["inspect", object], ""));
    assert!(inspected.contains("twice_descriptor") && inspected.contains("f32[3]"), "{inspected}");
}

/// JAX calls every program of a function `f` the same; what links them has a file of each.
#[test]
fn programs_are_called_as_their_files_are() {
    let dir = folder("stems");
    for (file, entry) in [("one.hlo", "one"), ("two.opt.hlo", "two_opt")] {
        let path = dir.join(file);
        std::fs::write(&path, DOUBLE.replace("double", "jit_f")).unwrap();
        let output = brolga(&["compile", path.to_str().unwrap(), "--emit=header"], "");
        let header = stdout(&output);
        assert!(
            header.contains(&format!("int32_t {entry}(const void")) && !header.contains("int32_t jit_f"),
            "{header}"
        );
    }
    let output = brolga(&["compile", "-", "--emit=header"], &DOUBLE.replace("double", "doubled"));
    assert!(stdout(&output).contains("int32_t doubled("), "{}", stdout(&output));
    let path = dir.join("one.hlo");
    let output = brolga(&["compile", path.to_str().unwrap(), "--emit=header", "--name", "own"], "");
    assert!(stdout(&output).contains("int32_t own("), "{}", stdout(&output));
}

#[test]
fn the_same_module_gives_the_same_object() {
    let object = |jobs| brolga(&["compile", "-", "-o", "-", "--jobs", jobs], DOUBLE).stdout;
    let first = object("1");
    assert!(first.starts_with(b"\x7fELF"));
    assert_eq!(first, object("1"));
    assert_eq!(first, object("4"));
}

#[test]
fn a_level_without_fused_multiply_add_is_said_to_decide_for_all() {
    let said = |cpu: &str| stderr(&brolga(&["compile", "-", "-o", "-", "--target-cpu", cpu], DOUBLE));
    assert!(
        said("x86-64,x86-64-v4").contains("note: a level of 'double' has no fused multiply-add"),
        "{}",
        said("x86-64,x86-64-v4")
    );
    for cpu in ["x86-64-v3,x86-64-v4", "x86-64", "x86-64-v4"] {
        assert_eq!(said(cpu), "", "{cpu}");
    }
}

#[test]
fn every_kind_of_output_is_written() {
    let dir = folder("emit");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let emit = format!("--emit=obj,lib,hlo,clif,asm={},header,rs", path("code.s"));
    let output = brolga(&["compile", "-", "-o", &path("m.o"), &emit], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    for name in ["m.o", "libbrolga_double.a", "m.opt.hlo", "m.clif", "code.s", "m.h", "m.rs"] {
        assert!(!std::fs::read(dir.join(name)).unwrap().is_empty(), "{name}");
    }
    let hlo = std::fs::read_to_string(dir.join("m.opt.hlo")).unwrap();
    assert_eq!(status(&brolga(&["parse", "-"], &hlo)), 0, "what is written can be read again");
    let header = brolga(&["compile", "-", "--emit=header"], DOUBLE);
    assert!(stdout(&header).contains("double"), "{}", stdout(&header));
    assert_eq!(status(&brolga(&["compile", "-", "--emit=poem"], DOUBLE)), 64);
}

#[test]
fn dumps_are_modules() {
    let dir = folder("dump");
    let _ = std::fs::remove_dir_all(&dir);
    let args = ["compile", "-", "-o", "-", "--dump-to", dir.to_str().unwrap(), "--dump-pass", "input|dce"];
    let output = brolga(&args, DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let names: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|n| n.contains("dce")) && !names.iter().any(|n| n.contains("cse")), "{names:?}");
    for name in names {
        let module = std::fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(status(&brolga(&["parse", "-"], &module)), 0);
    }
}

#[test]
fn bench_reports_numbers() {
    let output = brolga(&["bench", "-", "--random-seed", "1", "--min-time", "0.01", "--json", "-"], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["compile_ms", "object_bytes", "workspace_bytes", "call_ns"] {
        assert!(report[key].is_number(), "{key} in {report}");
    }
    let [min, median, p90] = ["min", "median", "p90"].map(|key| report["run_us"][key].as_f64().unwrap());
    assert!(min <= median && median <= p90, "{report}");
}

#[test]
fn unknown_targets_are_refused() {
    for args in [["--target", "pdp11-unknown-none"], ["--target-cpu", "z80"], ["--target-features", "+warp"]] {
        let output = brolga(&[&["compile", "-", "-o", "-"], &args[..]].concat(), DOUBLE);
        assert_eq!(status(&output), 1, "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn several_devices_run_in_every_engine() {
    let inputs = ["--replicas", "2", "--input", "f32[3]={1,2,3}", "--input", "f32[3]={4,5,6}"];
    for engine in ["interp", "jit", "aot"] {
        let output = brolga(&[&["run", "-", "--engine", engine], &inputs[..]].concat(), DOUBLE);
        let want = "device 0\nf32[3] {2, 4, 6}\ndevice 1\nf32[3] {8, 10, 12}\n";
        assert_eq!(stdout(&output), want, "{engine}: {}", stderr(&output));
    }
    let object = folder("devices").join("double.o");
    let object = object.to_str().unwrap();
    let compiled = brolga(&["compile", "-", "--replicas", "2", "-o", object], DOUBLE);
    assert_eq!(status(&compiled), 0, "{}", stderr(&compiled));
    let run = brolga(&[&["run", object, "--device-timeout", "60"], &inputs[..]].concat(), "");
    assert_eq!(status(&run), 0, "{}", stderr(&run));
    let alone = brolga(&["run", object, "--input", "f32[3]={1,2,3}"], "");
    assert_eq!(status(&alone), 1);
    assert!(stderr(&alone).contains("compiled for 2 replicas of 1 partitions"), "{}", stderr(&alone));
    // What the command line leaves out, the module says.
    let parted = DOUBLE.replacen("HloModule double", "HloModule double, num_partitions=3", 1);
    assert_ne!(parted, DOUBLE);
    let compiled = brolga(&["compile", "-", "--replicas", "2", "-o", object], &parted);
    assert_eq!(status(&compiled), 0, "{}", stderr(&compiled));
    let alone = brolga(&["run", object, "--input", "f32[3]={1,2,3}"], "");
    assert!(stderr(&alone).contains("compiled for 2 replicas of 3 partitions"), "{}", stderr(&alone));
}

#[test]
fn a_module_is_reduced_to_what_a_command_fails_on() {
    let dir = folder("reduce");
    let mut text = "HloModule long\n\nENTRY main {\n  v0 = f32[8,6]{1,0} parameter(0)\n".to_owned();
    for k in 1..50 {
        let op = if k == 23 { "remainder" } else { "multiply" };
        text.push_str(&format!("  v{k} = f32[8,6]{{1,0}} {op}(v{}, v{})\n", k - 1, k / 2));
    }
    text.push_str("  ROOT r = (f32[8,6]{1,0}) tuple(v49)\n}\n");
    let out = dir.join("small.hlo");
    let args = ["reduce", "-", "--command", "grep -q remainder {}", "--status", "0", "-o", out.to_str().unwrap()];
    let output = brolga(&args, &text);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let small = std::fs::read_to_string(&out).unwrap();
    assert!(small.contains("remainder") && small.lines().count() <= 7, "{small}");
    assert_eq!(status(&brolga(&["parse", "-"], &small)), 0);
    // The path comes last where the command does not say where; text may be asked for.
    let args = ["reduce", "-", "--command", "sh -c 'cat \"$1\"; exit 3' sh", "--contains", "remainder("];
    let output = brolga(&args, &text);
    assert!(stdout(&output).lines().count() <= 7, "{}{}", stdout(&output), stderr(&output));
    // Nothing fails, a quote is open, no such program, the time limit.
    assert_eq!(status(&brolga(&["reduce", "-", "--command", "true"], DOUBLE)), 1);
    assert_eq!(status(&brolga(&["reduce", "-", "--command", "true", "--contains", "x"], DOUBLE)), 1);
    assert_eq!(status(&brolga(&["reduce", "-", "--command", "'true"], DOUBLE)), 64);
    assert_eq!(status(&brolga(&["reduce", "-", "--command", "/no/such/program"], DOUBLE)), 1);
    let args = ["reduce", "-", "--command", "sh -c 'exec sleep 100'", "--time-limit", "0.05", "--max-runs", "3"];
    assert_eq!(status(&brolga(&args, DOUBLE)), 0);
}

const FED: &str = "HloModule fed

ENTRY main {
  t = token[] after-all()
  a = ((f32[2]{0}, s32[]), token[]) infeed(t)
  v = (f32[2]{0}, s32[]) get-tuple-element(a), index=0
  k = token[] get-tuple-element(a), index=1
  b = (f32[2]{0}, token[]) infeed(k)
  w = f32[2]{0} get-tuple-element(b), index=0
  l = token[] get-tuple-element(b), index=1
  x = f32[2]{0} get-tuple-element(v), index=0
  sum = f32[2]{0} add(x, w)
  o = token[] outfeed(sum, l), outfeed_shape=f32[2]{0}
  p = token[] outfeed(v, o), outfeed_shape=(f32[2]{0}, s32[])
  ROOT r = s32[] get-tuple-element(v), index=1
}
";

/// An `.npz` file.
fn npz(path: &std::path::Path, arrays: &[(&str, ArrayLiteral)]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&brolga_runtime::npy::write(array)).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn feeds_are_files() {
    let dir = folder("feeds");
    let pair = |x: f32, y: f32| ArrayLiteral::from_elements(&[2], &[x, y]);
    let (file, short, mixed) = (dir.join("f.npz"), dir.join("short.npz"), dir.join("mixed.npz"));
    let first = [("2.0", pair(1.0, 2.0)), ("2.1", ArrayLiteral::scalar(9i32))];
    npz(&file, &[("10", pair(3.0, 4.0)), first[0].clone(), first[1].clone()]);
    npz(&short, &first);
    npz(&mixed, &[("10", pair(3.0, 4.0)), ("2", pair(1.0, 2.0))]);
    for engine in ["interp", "jit", "aot", "auto"] {
        let out = dir.join(engine);
        let run = |file: &std::path::Path| {
            let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
            brolga(&["run", "-", "--engine", engine, "--infeed", file, "--outfeed-dir", out], FED)
        };
        let output = run(&file);
        assert_eq!((status(&output), stdout(&output)), (0, "s32[] 9\n".to_owned()), "{}", stderr(&output));
        let read = |name: &str, ty| brolga_runtime::npy::read(&std::fs::read(out.join(name)).unwrap(), ty).unwrap();
        assert_eq!(read("0.npy", ElementType::F32), pair(4.0, 6.0));
        assert_eq!(read("1.0.npy", ElementType::F32), pair(1.0, 2.0));
        assert_eq!(read("1.1.npy", ElementType::S32), ArrayLiteral::scalar(9i32));
        let output = run(&short);
        assert_eq!(status(&output), 1);
        assert!(stderr(&output).contains("the infeed is at its end: the file has 1 values"), "{}", stderr(&output));
        let output = run(&mixed);
        assert_eq!(status(&output), 1);
        assert!(stderr(&output).contains("value 0 has 1 arrays"), "{}", stderr(&output));
        let output = brolga(&["run", "-", "--engine", engine], FED);
        assert_eq!(status(&output), 1);
        assert!(stderr(&output).contains("the run has no infeed"), "{}", stderr(&output));
        let unordered = FED.replace("infeed(k)", "infeed(t)");
        let output = brolga(&["run", "-", "--engine", engine], &unordered);
        assert_eq!(status(&output), 2);
        assert!(stderr(&output).contains("'b' at line 8 on 'a' at line 5"), "{}", stderr(&output));
    }
}

/// What JAX exports of `lax.cond(any(isnan(x)), pure_callback, x * x + 1)`.
const CALLBACK: &str = "HloModule jit_f

any {
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT o = pred[] or(a, b)
}

fine {
  x = f32[3] parameter(0)
  m = f32[3] multiply(x, x)
  c = f32[] constant(1)
  b = f32[3] broadcast(c), dimensions={}
  ROOT s = f32[3] add(m, b)
}

bad {
  x = f32[3] parameter(0)
  ROOT p = f32[3] custom-call(x), custom_call_target=\"xla_ffi_python_cpu_callback\", operand_layout_constraints={f32[3]{0}}, api_version=API_VERSION_TYPED_FFI, sharding={maximal device=0}, backend_config={index = 0 : ui64}
}

ENTRY main {
  x = f32[3] parameter(0)
  n = pred[3] compare(x, x), direction=NE
  f = pred[] constant(false)
  r = pred[] reduce(n, f), dimensions={0}, to_apply=any
  i = s32[] convert(r)
  ROOT c = f32[3] conditional(i, x, x), branch_computations={fine, bad}
}
";

#[test]
fn a_callback_that_is_nowhere_matters_only_to_the_run_that_comes_to_it() {
    for engine in ["interp", "jit", "aot", "auto"] {
        let run = |input: &str, more: &[&str]| {
            let args = ["run", "-", "--engine", engine, "--input", input];
            brolga(&[&args, more].concat(), CALLBACK)
        };
        let named = |output: &Output| {
            let text = stderr(output);
            text.contains("undefined symbol 'xla_ffi_python_cpu_callback'") && text.contains("line 19")
        };
        let fine = run("f32[3]={1,2,3}", &[]);
        assert_eq!((status(&fine), stdout(&fine).as_str()), (0, "f32[3] {2, 5, 10}\n"), "{engine}: {}", stderr(&fine));
        assert!(named(&fine) && stderr(&fine).starts_with("warning: "), "{engine}: {}", stderr(&fine));
        let bad = run("f32[3]={1,nan,3}", &[]);
        assert!(status(&bad) == 1 && named(&bad), "{engine}: {}", stderr(&bad));
        assert!(stdout(&bad).is_empty());
        let strict = run("f32[3]={1,2,3}", &["--strict-symbols"]);
        assert!(status(&strict) == 1 && named(&strict), "{engine}: {}", stderr(&strict));
        for output in [&fine, &strict] {
            assert!(stderr(output).contains("--custom-call-library"), "{engine}: {}", stderr(output));
        }
        assert!(stdout(&strict).is_empty() && !stderr(&strict).contains("warning"), "{engine}: {}", stderr(&strict));
    }
}

#[test]
fn a_module_is_written_as_stablehlo() {
    let dir = folder("stablehlo_out");
    let path = dir.join("m.mlir");
    let output = brolga(&["opt", "--no-passes", "-", "-o", path.to_str().unwrap()], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let emitted = brolga(&["compile", "-", "--emit=stablehlo"], DOUBLE);
    assert_eq!(status(&emitted), 0, "{}", stderr(&emitted));
    let text = stdout(&emitted);
    assert!(text.contains("\"stablehlo.add\"(%arg0, %arg0)"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let run = brolga(&["run", path.to_str().unwrap(), "--input", "f32[3]={1,2.5,-3}"], "");
    assert_eq!(stdout(&run), "f32[3] {2, 5, -6}\n", "{}", stderr(&run));
}

#[test]
fn what_stablehlo_has_no_form_for_ends_with_status_3() {
    let module = "HloModule m\nENTRY e {\n  ROOT s = u64[2] rng-get-and-update-state(), delta=1\n}\n";
    let output = brolga(&["compile", "-", "--emit=stablehlo"], module);
    assert_eq!(status(&output), 3);
    let message = stderr(&output);
    assert!(message.contains("'s'") && message.contains("rng-get-and-update-state"), "{message}");
}

/// What the first hour brings: a slip of the pen, a constant that was not printed, another kind of file, a terminal's codes.
#[test]
fn mistakes_are_answered_with_what_to_do() {
    let program = |instruction: &str| {
        format!("HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT y = {instruction}\n}}\n")
    };
    for (source, code, what) in [
        (program("f32[4] sinee(x)"), 2, "expected an opcode, found 'sinee'; did you mean 'sine'?"),
        (program("f23[4] sine(x)"), 2, "expected an element type, found 'f23'; did you mean 'f32'?"),
        (program("f32[4] reverse(x), dimension={0}"), 2, "found 'dimension'; did you mean 'dimensions'?"),
        (program("f32[4] frobnicate(x)"), 2, "expected an opcode, found 'frobnicate'"),
        (program("f32[4] sine(z)").replace("x =", "first ="), 2, "expected an instruction defined above, found 'z'"),
        (program("f32[4] sine(frist)").replace("x =", "first ="), 2, "found 'frist'; did you mean 'first'?"),
        (String::new(), 2, "expected a program, found an empty file; what was to write it may have failed"),
        ("\u{7f}ELF".to_owned(), 64, "found an object; `run`, `bench` and `inspect` take objects"),
        (program("f32[4] constant({...})"), 3, "print_large_constants=True"),
        ("import jax\n".to_owned(), 2, "expected a program, found Python; export the program with jax.export"),
        ("\u{8}\u{7}\u{12}\u{7}pytorch".to_owned(), 2, "expected a program, found an ONNX model"),
    ] {
        let output = brolga(&["compile", "-", "-o", "/dev/null"], &source);
        assert_eq!(status(&output), code, "{}", stderr(&output));
        assert!(stderr(&output).contains(what), "{what} in\n{}", stderr(&output));
        assert_eq!(stderr(&output).contains("did you mean"), what.contains("did you mean"), "{}", stderr(&output));
    }
    for (option, what) in [
        ("--target-cpu=x86-64-v5", "unknown CPU 'x86-64-v5', expected one of native, x86-64"),
        ("--target-cpu=x86_64-v3", "did you mean 'x86-64-v3'?"),
        ("--target-features=+avx3", "unknown feature 'avx3'; did you mean 'avx'?"),
        ("--target-features=+neon", "unknown feature 'neon'"),
        ("--emit=heder", "did you mean 'header'?"),
        ("--emti=so", "a similar argument exists: '--emit'"),
    ] {
        let output =
            brolga(&["compile", "-", "-o", "/dev/null", "--target", "x86_64-unknown-linux-gnu", option], DOUBLE);
        assert!(matches!(status(&output), 1 | 64), "{option}: {}", stderr(&output));
        assert!(stderr(&output).contains(what), "{what} in\n{}", stderr(&output));
    }
    let marked = format!("\u{feff}{DOUBLE}");
    assert_eq!(status(&brolga(&["compile", "-", "-o", "/dev/null"], &marked)), 0);
    // Nothing of a file steers the terminal that its errors are shown on.
    let steering = program("f32[4] neg\u{1b}[31mate(x), metadata={op_name=\"\u{7}\u{9b}\u{202e}\"}");
    let shown = stderr(&brolga(&["compile", "-", "-o", "/dev/null"], &steering));
    assert!(shown.contains("\u{241b}[31mate"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
}

/// Every array with its strides and memory; a view is of something, and has none.
#[test]
fn tensors_of_a_program_are_described() {
    let module = "HloModule t

ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
  y = f32[3,2]{1,0} transpose(x), dimensions={1,0}
  ROOT z = f32[3,2]{1,0} exponential(y)
}
";
    let output = brolga(&["inspect", "-", "--tensors"], module);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let row = |name: &str| -> Vec<&str> {
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.into_iter().find(|cells| cells.get(1) == Some(&name)).unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    assert_eq!(row("x")[2..], ["f32", "read-only", "(2,3)", "(2,3)", "(3,1)", "0", "-", "4", "parameter", "0", "-"]);
    assert_eq!(row("y")[2..], ["f32", "read-only", "(3,2)", "(3,2)", "(1,3)", "0", "-", "4", "none", "x"]);
    assert_eq!(row("z")[2..], ["f32", "assignable", "(3,2)", "(3,2)", "(2,1)", "0", "-", "4", "result", "0", "-"]);
    assert!(text.ends_with("\nworkspace: 0 bytes\n"), "{text}");
    // Parameters and results in other layouts have the dimensions that callers see.
    let laid_out = "HloModule t, entry_computation_layout={(f32[2,3]{0,1:W(3,5)V(zero)})->f32[2,3]{0,1}}

ENTRY main {
  x = f32[2,3] parameter(0)
  ROOT z = f32[2,3] exponential(x)
}
";
    let output = brolga(&["inspect", "-", "--tensors"], laid_out);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for (memory, row) in [
        ("parameter 0", "f32 read-only (2,3) (3,5) (1,3) 0 {0,1:W(3,5)V(zero)} 4 parameter 0 -"),
        ("result 0", "f32 assignable (2,3) (2,3) (1,2) 0 {0,1} 4 result 0 -"),
    ] {
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let found = rows.iter().map(|cells| cells.join(" ")).find(|line| line.contains(memory));
        assert!(found.is_some_and(|line| line.ends_with(row)), "{row}\n{text}");
    }
}

#[test]
fn objects_of_any_target_are_inspected() {
    let folder = folder("inspected");
    for (target, architecture) in [
        ("x86_64-unknown-linux-gnu", "x86_64"),
        ("aarch64-unknown-linux-gnu", "aarch64"),
        ("riscv64gc-unknown-linux-gnu", "riscv64"),
        ("s390x-unknown-linux-gnu", "s390x"),
        ("aarch64-apple-darwin", "aarch64"),
        ("x86_64-pc-windows-msvc", "x86_64"),
        ("aarch64-pc-windows-msvc", "aarch64"),
    ] {
        let object = folder.join(format!("{target}.o"));
        let object = object.to_str().unwrap();
        let compiled = brolga(&["compile", "-", "--target", target, "-o", object], DOUBLE);
        assert_eq!(status(&compiled), 0, "{}", stderr(&compiled));
        let inspected = brolga(&["inspect", object], "");
        let text = stdout(&inspected);
        assert_eq!(status(&inspected), 0, "{target}: {}", stderr(&inspected));
        let line = |key: &str| text.lines().find_map(|l| l.strip_prefix(key).map(|v| v.trim().to_owned()));
        assert_eq!(line("entry").as_deref(), Some("double"), "{text}");
        assert_eq!(line("architecture").as_deref(), Some(architecture), "{text}");
    }
    // Custom calls whose functions are elsewhere.
    let object = folder.join("callback.o");
    let object = object.to_str().unwrap();
    assert_eq!(status(&brolga(&["compile", "-", "-o", object], CALLBACK)), 0);
    let inspected = brolga(&["inspect", object], "");
    assert!(stdout(&inspected).contains("xla_ffi_python_cpu_callback"), "{}", stderr(&inspected));
}

#[test]
fn a_shared_library_is_written_for_elf_and_refused_in_words_for_other_formats() {
    let dir = folder("shared_library");
    let path = dir.join("libdouble.so");
    let library = path.to_str().unwrap();
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let args = ["compile", "-", "--emit=so", "-o", library, "--target", target];
        let output = brolga(&args, DOUBLE);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let first = std::fs::read(&path).unwrap();
        assert!(first.starts_with(b"\x7fELF") && first.windows(12).any(|w| w == b"libdouble.so"), "{target}");
        assert_eq!(status(&brolga(&args, DOUBLE)), 0);
        assert!(std::fs::read(&path).unwrap() == first, "{target}: the same input gives the same bytes");
        let inspected = stdout(&brolga(&["inspect", library], ""));
        assert!(inspected.contains("entry            double\n"), "{inspected}");
    }
    let others =
        ["x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-msvc", "riscv64gc-unknown-linux-gnu"];
    for target in others {
        let output = brolga(&["compile", "-", "--emit=so", "-o", library, "--target", target], DOUBLE);
        assert_eq!(status(&output), 3, "{target}: {}", stderr(&output));
        assert!(stderr(&output).contains(&format!("shared libraries for {target}")), "{}", stderr(&output));
    }
}
