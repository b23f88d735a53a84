//! The program as a user meets it: exit statuses, streams and messages.
#![allow(clippy::unwrap_used)]

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
    let mut child = Command::new(env!("CARGO_BIN_EXE_brolga"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
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
fn other_forms_are_unsupported() {
    for file in ["model.pb", "model.mlir"] {
        let output = brolga(&["run", file], "");
        assert_eq!(status(&output), 3);
        assert!(stderr(&output).contains("not supported yet"), "{}", stderr(&output));
    }
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

#[test]
fn the_same_module_gives_the_same_object() {
    let object = |jobs| brolga(&["compile", "-", "-o", "-", "--jobs", jobs], DOUBLE).stdout;
    let first = object("1");
    assert!(first.starts_with(b"\x7fELF"));
    assert_eq!(first, object("1"));
    assert_eq!(first, object("4"));
}

#[test]
fn every_kind_of_output_is_written() {
    let dir = folder("emit");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let emit = format!("--emit=obj,hlo,clif,asm={},header,rs", path("code.s"));
    let output = brolga(&["compile", "-", "-o", &path("m.o"), &emit], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    for name in ["m.o", "m.opt.hlo", "m.clif", "code.s", "m.h", "m.rs"] {
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
    let output = brolga(&["bench", "-", "--random-seed", "1", "--min-time", "0.01"], DOUBLE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["compile_ms", "object_bytes", "workspace_bytes", "call_ns"] {
        assert!(report[key].is_number(), "{key} in {report}");
    }
    assert!(report["run_us"]["min"].as_f64().unwrap() <= report["run_us"]["median"].as_f64().unwrap());
}

#[test]
fn unknown_targets_are_refused() {
    for args in [["--target", "pdp11-unknown-none"], ["--target-cpu", "z80"], ["--target-features", "+warp"]] {
        let output = brolga(&[&["compile", "-", "-o", "-"], &args[..]].concat(), DOUBLE);
        assert_eq!(status(&output), 1, "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn several_devices_are_interpreted() {
    let inputs = ["--replicas", "2", "--input", "f32[3]={1,2,3}", "--input", "f32[3]={4,5,6}"];
    let output = brolga(&[&["run", "-", "--engine", "interp"], &inputs[..]].concat(), DOUBLE);
    assert_eq!(stdout(&output), "device 0\nf32[3] {2, 4, 6}\ndevice 1\nf32[3] {8, 10, 12}\n", "{}", stderr(&output));
    assert_eq!(status(&brolga(&[&["run", "-", "--engine", "jit"], &inputs[..]].concat(), DOUBLE)), 3);
}
