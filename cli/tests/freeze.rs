//! `--freeze`: weights from files become part of the program.
#![allow(clippy::unwrap_used)]

use super::front::{folder, npz, outcome, safetensors};
use brolga_runtime::{ArrayLiteral, npy};
use std::path::Path;

const DENSE: &str = "HloModule dense

ENTRY main {
  w = f32[3,2]{1,0} parameter(0), metadata={op_name=\"params['w']\"}
  b = f32[2]{0} parameter(1), metadata={op_name=\"params['b']\"}
  x = f32[1,3]{1,0} parameter(2)
  d = f32[1,2]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[1,2]{1,0} broadcast(b), dimensions={1}
  s = f32[1,2]{1,0} add(d, c)
  ROOT t = f32[1,2]{1,0} tanh(s)
}
";

fn w() -> ArrayLiteral {
    ArrayLiteral::from_elements(&[3, 2], &[0.1f32, -0.7, 0.33, 0.9, -0.21, 0.05])
}

fn b() -> ArrayLiteral {
    ArrayLiteral::from_elements(&[2], &[0.015f32, -0.4])
}

const X: &str = "x={{0.3,-1.7,0.9}}";

fn good(args: &[&str]) -> String {
    let (status, out, err) = outcome(args, DENSE);
    assert_eq!(status, 0, "{args:?}: {err}");
    out
}

fn bad(args: &[&str], status: i32) -> String {
    let (got, _, err) = outcome(args, DENSE);
    assert_eq!(got, status, "{args:?}: {err}");
    err
}

/// The files of the weights, written once for each test.
fn files(dir: &Path) -> [String; 4] {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let all = [path("w.npy"), path("b.npy"), path("weights.safetensors"), path("weights.npz")];
    std::fs::write(&all[0], npy::write(&w())).unwrap();
    std::fs::write(&all[1], npy::write(&b())).unwrap();
    let named = [("params['w']", w()), ("params['b']", b()), ("step", b())];
    safetensors(Path::new(&all[2]), &named);
    npz(Path::new(&all[3]), &named);
    all
}

#[test]
fn frozen_weights_give_what_given_weights_give() {
    let dir = folder("freeze");
    let [w, b, tensors, zipped] = files(&dir);
    let (given_w, given_b) = (format!("w={w}"), format!("b={b}"));
    let want = good(&["run", "-", "--input", &given_w, "--input", &given_b, "--input", X]);
    let by_number = format!("0={w}");
    let from_tensors = [format!("w={tensors}"), format!("params['b']={tensors}")];
    for frozen in [
        &[given_w.as_str(), &given_b][..],
        &[&by_number, "b={0.015,-0.4}"],
        &[&tensors],
        &[&zipped],
        &[&from_tensors[0], &from_tensors[1]],
    ] {
        for engine in ["jit", "aot", "interp"] {
            let mut args = vec!["run", "-", "--engine", engine, "--input", X];
            args.extend(frozen.iter().flat_map(|value| ["--freeze", value]));
            let got = good(&args);
            // The interpreter is another measure.
            if engine == "interp" {
                let input =
                    good(&["run", "-", "--engine", engine, "--input", &given_w, "--input", &given_b, "--input", X]);
                assert_eq!(got, input, "{args:?}");
            } else {
                assert_eq!(got, want, "{args:?}");
            }
        }
    }
    // What is left comes in order.
    let x = X.replace("x=", "f32[1,3]=");
    assert_eq!(good(&["run", "-", "--freeze", &tensors, "--input", &x]), want);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_object_has_the_parameters_that_are_left() {
    let dir = folder("freeze-object");
    let [w, b, tensors, _] = files(&dir);
    let object = dir.join("dense.o");
    let object = object.to_str().unwrap();
    good(&["compile", "-", "--freeze", &tensors, "-o", object]);
    let text = good(&["inspect", object]);
    assert!(text.contains("parameter 0") && text.contains("  x\n") && !text.contains("parameter 1"), "{text}");
    let want = good(&["run", "-", "--input", &format!("w={w}"), "--input", &format!("b={b}"), "--input", X]);
    assert_eq!(good(&["run", object, "--input", X]), want);
    let table = good(&["bench", "-", "--freeze", &tensors, "--random-seed", "1", "--min-time", "0.01"]);
    assert!(table.contains("run, median"), "{table}");
    let hlo = good(&["opt", "-", "--freeze", &tensors]);
    assert!(hlo.contains("parameter(0)") && !hlo.contains("parameter(1)"), "{hlo}");
    let arrays = good(&["inspect", "-", "--tensors", "--freeze", &tensors]);
    assert!(!arrays.lines().any(|line| line.contains(" b ") && line.contains("parameter")), "{arrays}");
    // An object was frozen before, or not at all.
    for args in [&["run", object, "--input", X][..], &["inspect", object], &["bench", object]] {
        let message = bad(&[args, &["--freeze", &tensors]].concat(), 64);
        assert!(message.contains("compiled already"), "{message}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_cannot_be_frozen_is_named() {
    let dir = folder("freeze-wrong");
    let [w, b, tensors, _] = files(&dir);
    let run = |frozen: &str, status| bad(&["compile", "-", "-o", "-", "--freeze", frozen], status);
    let message = run(&format!("b={w}"), 2);
    assert!(message.contains("params['b']") && message.contains("f32[2]") && message.contains("[3, 2]"), "{message}");
    let whole = dir.join("s.npy");
    std::fs::write(&whole, npy::write(&ArrayLiteral::from_elements(&[2], &[1i32, 2]))).unwrap();
    let message = run(&format!("b={}", whole.display()), 2);
    assert!(message.contains("params['b']") && message.contains("f4") && message.contains("i4"), "{message}");
    let message = run(&format!("v={b}"), 2);
    assert!(message.contains("no parameter 'v'") && message.contains("params['w']"), "{message}");
    let message = run(&format!("3={b}"), 2);
    assert!(message.contains("below 3"), "{message}");
    let message = run(&format!("x={tensors}"), 2);
    assert!(message.contains("'x'"), "{message}");
    let other = dir.join("other.safetensors");
    safetensors(&other, &[("step", self::b())]);
    let message = run(other.to_str().unwrap(), 2);
    assert!(message.contains("none of its arrays has the name of a parameter"), "{message}");
    safetensors(&other, &[("w", self::b())]);
    let message = run(other.to_str().unwrap(), 2);
    assert!(message.contains("params['w']") && message.contains("expected f32[3,2]"), "{message}");
    let message = run(&b, 64);
    assert!(message.contains("expected P=FILE"), "{message}");
    let message = run(dir.join("no.safetensors").to_str().unwrap(), 1);
    assert!(message.contains("no.safetensors"), "{message}");
    let message = bad(&["compile", "-", "--freeze", &tensors, "--freeze", &format!("b={b}")], 2);
    assert!(message.contains("found two"), "{message}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn programs_of_jax_know_their_weights_by_the_names_of_the_source() {
    const JAX: &str = "module @jit_f {\n  func.func public @main(%arg0: tensor<2xf32> loc(\"params['b']\"), %arg1: tensor<2xf32> \
        loc(\"x\")) -> tensor<2xf32> {\n    %0 = stablehlo.multiply %arg0, %arg1 : tensor<2xf32>\n    return %0 : tensor<2xf32>\n  }\n}\n";
    let dir = folder("freeze-jax");
    let [_, b, tensors, _] = files(&dir);
    let named = format!("params['b']={b}");
    let x = ["--input", "x={2,4}"];
    for given in [["--freeze", &tensors], ["--freeze", &named], ["--input", &named]] {
        let (status, out, err) = outcome(&[&["run", "-"][..], &given, &x].concat(), JAX);
        assert_eq!((status, out.as_str()), (0, "f32[2] {0.03, -1.6}\n"), "{given:?}: {err}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
