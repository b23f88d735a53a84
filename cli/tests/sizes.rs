//! Programs for several sizes, and snapshots, on the command line.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// `y + x`, and the sum of `x`: two arguments of which three dimensions are open.
const OPEN: &str = "func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x4xf32>) -> (tensor<?x?xf32>, tensor<?x4xf32>) {
  %0 = stablehlo.add %x, %x : tensor<?x?xf32>
  %1 = stablehlo.multiply %y, %y : tensor<?x4xf32>
  return %0, %1 : tensor<?x?xf32>, tensor<?x4xf32>
}
";
const SIZES: [&str; 4] = ["--shape", "x=f32[2,3];y=f32[1,4]", "--shape", "x=f32[1,2];1=f32[2,4]"];

fn brolga(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_brolga"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn good(args: &[&str], input: &[u8]) -> String {
    let output = brolga(args, input);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn bad(args: &[&str], input: &[u8], status: i32) -> String {
    let output = brolga(args, input);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {message}");
    message
}

fn with<'a>(first: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [first, rest].concat()
}

fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn one_object_holds_several_sizes_and_inputs_choose() {
    let dir = folder("sizes");
    let [object, again] = ["a.o", "b.o"].map(|n| dir.join(n).to_str().unwrap().to_owned());
    for path in [&object, &again] {
        let args = ["compile", "-", "--name", "f", "-o", path];
        good(&with(&args, &SIZES), OPEN.as_bytes());
    }
    assert_eq!(std::fs::read(&object).unwrap(), std::fs::read(&again).unwrap());
    let inspected = good(&["inspect", &object], b"");
    for wanted in ["f__2x3_1", "f__1x2_2", "f__1x2_2_descriptor", "f_select", "freestanding     true"] {
        assert!(inspected.contains(wanted), "no {wanted} in\n{inspected}");
    }
    let small = ["--input", "f32[1,2]={{1,2}}", "--input", "f32[2,4]={{1,2,3,4},{5,6,7,8}}"];
    let large = ["--input", "f32[2,3]={{1,2,3},{4,5,6}}", "--input", "f32[1,4]={{1,2,3,4}}"];
    for (inputs, wanted) in [(small, "{{25, 36, 49, 64}}"), (large, "{{8, 10, 12}}")] {
        let printed = good(&with(&["run", &object], &inputs), b"").replace("},{", "}, {");
        let wanted = wanted.trim_matches(|c| c == '{' || c == '}');
        assert!(printed.contains(wanted), "{printed}");
        for engine in ["interp", "jit", "aot"] {
            let of_module = good(&with(&with(&["run", "-", "--engine", engine], &SIZES), &inputs), OPEN.as_bytes());
            assert!(of_module.contains(wanted), "{engine}: {of_module}");
        }
        good(&with(&["bench", &object, "--min-time", "0.01"], &inputs), b"");
        good(&with(&with(&["bench", "-", "--min-time", "0.01"], &SIZES), &inputs), OPEN.as_bytes());
    }
    // One dimension of each size, none of which belongs together.
    let mixed = ["--input", "f32[2,3]={{1,2,3},{4,5,6}}", "--input", "f32[2,4]={{1,2,3,4},{5,6,7,8}}"];
    for engine in ["interp", "jit"] {
        let args = with(&with(&["run", "-", "--engine", engine], &SIZES), &mixed);
        let message = bad(&args, OPEN.as_bytes(), 2);
        assert!(message.contains("2x3_1, 1x2_2") && message.contains("2x3_2"), "{message}");
    }
    let message = bad(&with(&["run", &object], &mixed), b"", 2);
    assert!(message.contains("2x3_1, 1x2_2") && message.contains("2x3_2"), "{message}");
    // Random inputs have no size of their own.
    assert!(bad(&["run", &object, "--random-seed", "1"], b"", 64).contains("--shape"));
    let named = ["--shape", "x=f32[1,2];y=f32[2,4]"];
    let printed = good(&with(&["run", &object, "--random-seed", "1"], &named), b"");
    assert!(printed.starts_with("f32[1,2]"), "{printed}");
}

#[test]
fn bindings_declare_every_size_and_the_selector() {
    let header = good(&with(&["compile", "-", "--name", "f", "--emit=header"], &SIZES), OPEN.as_bytes());
    for wanted in
        ["f__2x3_1(const void", "f__1x2_2_descriptor", "F__1X2_2_PARAMETER_1_BYTES 32", "brolga_entry f_select("]
    {
        assert!(header.contains(wanted), "no {wanted} in\n{header}");
    }
    let rust = good(&with(&["compile", "-", "--name", "f", "--emit=rs"], &SIZES), OPEN.as_bytes());
    let whole = "pub fn run(&mut self, sizes: [i64; 3], x: &[f32], y: &[f32], out0: &mut [f32], out1: &mut [f32])";
    let rust = rust.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in ["pub struct F_2x3_1", "pub struct F_1x2_2", "pub struct F {", whole] {
        assert!(rust.contains(wanted), "no {wanted} in\n{rust}");
    }
}

#[test]
fn mistakes_about_sizes_are_named() {
    // As always: one flag for each argument is one size, under the name of always.
    let dir = folder("one-size");
    let object = dir.join("one.o").to_str().unwrap().to_owned();
    let one = ["--shape", "x=f32[2,3]", "--shape", "y=f32[1,4]"];
    good(&with(&["compile", "-", "--name", "f", "-o", &object], &one), OPEN.as_bytes());
    assert!(good(&["inspect", &object], b"").contains("f_descriptor"));
    let twice = ["--shape", "x=f32[2,3];y=f32[1,4]", "--shape", "x=f32[2,3];y=f32[1,4]"];
    let compile = ["compile", "-", "-o", "/dev/null"];
    assert!(bad(&with(&compile, &twice), OPEN.as_bytes(), 2).contains("found 2x3_1 twice"));
    let both = ["--shape", "x=f32[2,3]", "--shape", "0=f32[2,3]", "--shape", "y=f32[1,4]"];
    assert!(bad(&with(&compile, &both), OPEN.as_bytes(), 2).contains("found two for argument 0"));
    let missing = ["--shape", "x=f32[2,3];y=f32[1,4]", "--shape", "x=f32[2,3]"];
    assert!(bad(&with(&compile, &missing), OPEN.as_bytes(), 2).contains("argument 'y'"));
    let fixed = OPEN.replace('?', "2");
    let none = ["--shape", "x=f32[2,2];y=f32[2,4]", "--shape", "x=f32[2,2];y=f32[2,4]"];
    assert!(bad(&with(&compile, &none), fixed.as_bytes(), 2).contains("[sizes.open]"));
    assert_eq!(brolga(&with(&["parse", "-"], &SIZES), OPEN.as_bytes()).status.code(), Some(64));
    // HLO has its shapes already.
    let hlo = b"HloModule m\nENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] add(x, x) }";
    assert!(bad(&["parse", "-", "--shape", "x=f32[4]"], hlo, 2).contains("f32[3]"));
    good(&["parse", "-", "--shape", "x=f32[3]"], hlo);
    let several = ["--shape", "x=f32[3]", "--shape", "x=f32[4]"];
    assert!(bad(&with(&compile, &several), hlo, 2).contains("found HLO text"));
}

/// A field of a message with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
    out
}

/// `f32[...]` as XLA's `LiteralProto`.
fn literal(values: &[f32]) -> Vec<u8> {
    const F32: u8 = 11;
    let shape = [vec![2 << 3, F32], field(3, &[values.len() as u8])].concat();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [field(1, &shape), field(8, &bytes)].concat()
}

#[test]
fn a_snapshot_runs_on_its_own_inputs() {
    let dir = folder("snapshot");
    let [module, snapshot] = ["m.pb", "s.pb"].map(|n| dir.join(n).to_str().unwrap().to_owned());
    let source =
        b"HloModule m\nENTRY e { x = f32[3] parameter(0)  y = f32[3] parameter(1)  ROOT z = f32[3] subtract(x, y) }";
    good(&["opt", "-", "--no-passes", "-o", &module], source);
    // An HloSnapshot: the HloProto, then each argument.
    let hlo = field(1, &std::fs::read(&module).unwrap());
    let whole = |arguments: &[Vec<u8>]| {
        let mut out = field(1, &hlo);
        arguments.iter().for_each(|a| out.extend(field(2, a)));
        out
    };
    let (x, y) = (literal(&[5.0, 7.0, 9.0]), literal(&[1.0, 2.0, 4.0]));
    std::fs::write(&snapshot, whole(&[x.clone(), y.clone()])).unwrap();
    for engine in ["interp", "jit", "aot"] {
        assert_eq!(good(&["run", &snapshot, "--engine", engine], b""), "f32[3] {4, 5, 5}\n", "{engine}");
    }
    assert_eq!(good(&["run", "-"], &std::fs::read(&snapshot).unwrap()), "f32[3] {4, 5, 5}\n");
    // What the command line gives comes first.
    let given = ["--input", "f32[3]={1,1,1}", "--input", "f32[3]={1,2,3}"];
    assert_eq!(good(&with(&["run", &snapshot], &given), b""), "f32[3] {0, -1, -2}\n");
    std::fs::write(&snapshot, whole(std::slice::from_ref(&x))).unwrap();
    let message = bad(&["run", &snapshot], b"", 1);
    assert!(message.contains("takes 2 parameters, but the snapshot holds 1 inputs"), "{message}");
    std::fs::write(&snapshot, whole(&[x, literal(&[1.0, 2.0])])).unwrap();
    let message = bad(&["run", &snapshot], b"", 1);
    assert!(message.contains("parameter 1 has shape f32[3], but the snapshot's input has f32[2]"), "{message}");
}
