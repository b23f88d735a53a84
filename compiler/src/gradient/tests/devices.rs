//! Exchanges between devices: the derivatives of the sum of all devices' losses.

use super::{COMPUTATIONS, Numbers, moved, with_gradient};
use crate::builder::{ArrayLiteral, Literal};
use crate::interp::{Options, run_devices};
use brolga_runtime::Scalar;

const STEP: f64 = 1e-3;
const TOLERANCE: f64 = 1e-8;

/// Compares the derivatives that each of so many replicas finds of its own arrays with differences of the sum of all losses.
fn compare(devices: usize, body: &str) {
    let text = format!("{COMPUTATIONS}{body}");
    let module = with_gradient(&text, 1);
    let mut numbers = Numbers(5);
    let entry = module.entry();
    let shapes: Vec<_> = entry.parameters().iter().map(|&p| entry.instructions[p].shape.clone()).collect();
    let mut array = |s: &brolga_runtime::Shape| numbers.array(s.as_array().expect("an array"), -1.0, 1.0).into();
    let arguments: Vec<Vec<Literal>> = (0..devices).map(|_| shapes.iter().map(&mut array).collect()).collect();
    let run = |arguments: &[Vec<Literal>]| -> Vec<Vec<ArrayLiteral>> {
        let out =
            run_devices(&module, arguments, devices, 1, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        out.iter().map(|o| o.arrays().into_iter().cloned().collect()).collect()
    };
    let found = run(&arguments);
    for (device, which) in (0..devices).flat_map(|d| (0..shapes.len()).map(move |w| (d, w))) {
        for element in 0..arguments[device][which].as_array().map_or(0, ArrayLiteral::elements) {
            let at = |steps: f64| -> f64 {
                let mut all = arguments.clone();
                all[device] = moved(&all[device], which, element, Scalar::Float(steps * STEP));
                run(&all).iter().map(|results| results[0].get(0).as_f64()).sum()
            };
            let expected = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * STEP);
            let found = found[device][which + 1].get(element).as_f64();
            let near = (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
            assert!(
                near,
                "device {device}, argument {which}, element {element}: {found}, by differences {expected}\n{text}"
            );
        }
    }
}

#[test]
fn exchanges() {
    for (sizes, result, exchange) in [
        ("4", "4", "all-reduce(y), replica_groups={}, to_apply=add"),
        ("4", "4", "all-reduce(y), replica_groups={{0,2},{1,3}}, to_apply=add"),
        ("2,3", "2,6", "all-gather(y), replica_groups={{0,1},{3,2}}, dimensions={1}"),
        ("4,3", "2,3", "reduce-scatter(y), replica_groups={{0,1},{3,2}}, dimensions={0}, to_apply=add"),
        ("4,2", "4,2", "all-to-all(y), replica_groups={{2,1,0,3}}, dimensions={0}"),
        ("3", "3", "collective-permute(y), source_target_pairs={{0,2},{2,1},{3,0}}"),
    ] {
        // What is exchanged differs by device, and so does what each makes of it.
        let body = format!(
            "ENTRY e {{ x = f64[{sizes}] parameter(0)
  z = f64[{result}] parameter(1)
  y = f64[{sizes}] sine(x)
  e = f64[{result}] {exchange}
  ROOT r = f64[{result}] multiply(e, z) }}"
        );
        compare(4, &body);
    }
    let several = "ENTRY e { x = f64[2] parameter(0)
  y = f64[3] parameter(1)
  r = (f64[2], f64[3]) all-reduce(x, y), replica_groups={}, to_apply=add
  s = f64[2] get-tuple-element(r), index=0
  t = f64[3] get-tuple-element(r), index=1
  u = f64[2] sine(s)
  v = f64[3] multiply(t, y)
  ROOT w = (f64[2], f64[3]) tuple(u, v) }";
    compare(3, several);
}

/// Each device's step needs what the others have: in a loop, and in a computation that is called.
#[test]
fn exchanges_in_loops_and_calls() {
    let text = "
mean { v = f64[3] parameter(0)
  s = f64[3] all-reduce(v), replica_groups={}, to_apply=add
  ROOT t = f64[3] tanh(s) }
cond { t = (s32[], f64[3], f64[3]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f64[3], f64[3]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f64[3] get-tuple-element(t), index=1
  w = f64[3] get-tuple-element(t), index=2
  m = f64[3] call(v), to_apply=mean
  u = f64[3] multiply(m, w)
  ROOT r = (s32[], f64[3], f64[3]) tuple(j, u, w) }
ENTRY e { x = f64[3] parameter(0)
  w = f64[3] parameter(1)
  i = s32[] constant(0)
  t = (s32[], f64[3], f64[3]) tuple(i, x, w)
  l = (s32[], f64[3], f64[3]) while(t), condition=cond, body=body
  ROOT r = f64[3] get-tuple-element(l), index=1 }";
    compare(2, text);
}
