//! Collectives of a program that runs on one device: both engines agree, and what needs others is refused.

use crate::collective::Grid;
use crate::driver::{CompileOptions, compile};
use crate::error::{Error, Result};
use crate::hlo::Module;
use crate::interp::{self, Options};
use brolga_runtime::{ArrayLiteral, Literal, Program};

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }";

fn module(header: &str, others: &str, body: &str) -> Module {
    let text = format!("HloModule m{header}\n{ADD}\n{others}\nENTRY e {{\n{body}\n}}\n");
    let module = crate::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    crate::shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    module
}

/// The leaves of the result of compiled code, which must be those of the interpreter.
#[track_caller]
fn both(others: &str, body: &str, inputs: &[ArrayLiteral]) -> Vec<ArrayLiteral> {
    let module = module("", others, body);
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::from).collect();
    let expected = interp::run(&module, &literals, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{body}"));
    let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{body}"));
    let program = Program::from_object(&artifact.object).unwrap();
    let got = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    let expected: Vec<ArrayLiteral> = expected.arrays().into_iter().cloned().collect();
    assert_eq!(got, expected, "{body}");
    got
}

fn floats(values: &[f32]) -> ArrayLiteral {
    ArrayLiteral::from_elements(&[values.len() as i64], values)
}

/// `x` and `y` are the parameters; the leaves of the result are `want`.
#[track_caller]
fn check(line: &str, want: &[ArrayLiteral]) {
    let body = format!("x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n {line}");
    let (x, y) = (floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[5.0, 6.0, 7.0, 8.0]));
    assert_eq!(both("", &body, &[x, y]), want, "{line}");
}

#[test]
fn a_device_alone_exchanges_with_itself() {
    let (x, y) = (floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[5.0, 6.0, 7.0, 8.0]));
    for operation in [
        "all-reduce(OPERANDS), replica_groups={}, to_apply=add",
        "all-reduce(OPERANDS), replica_groups=[1,1]<=[1], channel_id=1, use_global_device_ids=true, to_apply=add",
        "all-gather(OPERANDS), replica_groups={{0}}, dimensions={0}",
        "reduce-scatter(OPERANDS), replica_groups={}, dimensions={0}, to_apply=add",
        "collective-permute(OPERANDS), source_target_pairs={{0,0}}",
        "collective-broadcast(OPERANDS), replica_groups={{0}}",
    ] {
        check(&format!("ROOT r = f32[4] {}", operation.replace("OPERANDS", "x")), std::slice::from_ref(&x));
        let pair = operation.replace("OPERANDS", "x, y");
        check(&format!("ROOT r = (f32[4], f32[4]) {pair}"), &[x.clone(), y.clone()]);
    }
    check("ROOT r = f32[4] all-to-all(x), replica_groups={}, dimensions={0}", std::slice::from_ref(&x));
    check("ROOT r = (f32[4]) all-to-all(x), replica_groups={{0}}", std::slice::from_ref(&x));
    check("ROOT r = (f32[4]) all-reduce(x), replica_groups={}, to_apply=add", &[x]);
}

#[test]
fn nobody_sends_and_numbers_are_zero() {
    let zeros = floats(&[0.0; 4]);
    check("ROOT r = f32[4] collective-permute(x), source_target_pairs={}", std::slice::from_ref(&zeros));
    check("ROOT r = (f32[4], f32[4]) collective-permute(x, y), source_target_pairs={}", &[zeros.clone(), zeros]);
    let none = ArrayLiteral::from_elements(&[], &[0u32]);
    check("ROOT r = u32[] replica-id()", std::slice::from_ref(&none));
    check("ROOT r = u32[] partition-id()", &[none]);
}

#[test]
fn asynchronous_forms_too() {
    let (x, zeros) = (floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[0.0; 4]));
    check(
        "s = (f32[4], f32[4]) all-gather-start(x), replica_groups={}, dimensions={0}
        ROOT r = f32[4] all-gather-done(s)",
        std::slice::from_ref(&x),
    );
    for state in ["f32[4]", "(f32[4], f32[4])"] {
        check(
            &format!(
                "s = {state} all-reduce-start(x), replica_groups={{}}, to_apply=add
                ROOT r = f32[4] all-reduce-done(s)"
            ),
            std::slice::from_ref(&x),
        );
    }
    for (pairs, want) in [("{{0,0}}", &x), ("{}", &zeros)] {
        check(
            &format!(
                "s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x), source_target_pairs={pairs}
                ROOT r = f32[4] collective-permute-done(s)"
            ),
            std::slice::from_ref(want),
        );
    }
    let others = "wrapped { x = f32[4] parameter(0)
        ROOT r = f32[4] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add }";
    let body = "x = f32[4] parameter(0)
        s = ((f32[4]), f32[4], u32[]) async-start(x), calls=wrapped
        u = ((f32[4]), f32[4], u32[]) async-update(s), calls=wrapped
        ROOT r = f32[4] async-done(u), calls=wrapped";
    assert_eq!(both(others, body, std::slice::from_ref(&x)), [x]);
}

#[test]
fn in_loops_and_with_control_dependencies() {
    let others = "
        less { t = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(3)
          ROOT c = pred[] compare(i, n), direction=LT }
        twice { t = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(t), index=0 one = s32[] constant(1)
          j = s32[] add(i, one) x = f32[4] get-tuple-element(t), index=1
          y = f32[4] all-reduce(x), replica_groups={}, to_apply=add, control-predecessors={j}
          z = f32[4] add(y, y), control-predecessors={y} ROOT r = (s32[], f32[4]) tuple(j, z) }";
    let body = "x = f32[4] parameter(0) i = s32[] constant(0) t = (s32[], f32[4]) tuple(i, x)
        w = (s32[], f32[4]) while(t), condition=less, body=twice
        ROOT r = f32[4] get-tuple-element(w), index=1";
    assert_eq!(both(others, body, &[floats(&[1.0, 2.0, 3.0, 4.0])]), [floats(&[8.0, 16.0, 24.0, 32.0])]);
}

#[test]
fn ragged_exchanges_copy_rows() {
    let input = ArrayLiteral::from_elements(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let output = ArrayLiteral::from_elements(&[4, 2], &[-1f32; 8]);
    let list = |values: [i64; 2]| ArrayLiteral::from_elements(&[2], &values);
    let body = "x = f32[3,2] parameter(0) o = f32[4,2] parameter(1) from = s64[2] parameter(2)
        n = s64[2] parameter(3) to = s64[2] parameter(4)
        ROOT r = f32[4,2] ragged-all-to-all(x, o, from, n, to, n), replica_groups={{0}}";
    // The second slice is written over the first.
    let arguments = [input.clone(), output.clone(), list([0, 2]), list([2, 1]), list([1, 2])];
    let want = ArrayLiteral::from_elements(&[4, 2], &[-1f32, -1.0, 1.0, 2.0, 5.0, 6.0, -1.0, -1.0]);
    assert_eq!(both("", body, &arguments), [want]);
    let nothing = [input, output.clone(), list([3, 0]), list([0, 0]), list([4, 0])];
    assert_eq!(both("", body, &nothing), [output]);
}

#[test]
fn dynamic_arrays_pass() {
    let body = "x = f32[<=4] parameter(0) ROOT r = f32[<=4] all-reduce(x), replica_groups={}, to_apply=add";
    assert_eq!(both("", body, &[floats(&[1.0, 2.0])]), [floats(&[1.0, 2.0])]);
}

#[test]
fn what_needs_other_devices_is_refused_on_one() {
    let compiled = |header: &str, line: &str, devices: Option<Grid>| -> Result<[u32; 2]> {
        let body = format!("x = f32[4] parameter(0)\n ROOT r = {line}");
        let options = CompileOptions { devices, ..CompileOptions::default() };
        compile(&module(header, "", &body), &options).map(|a| a.descriptor.devices)
    };
    let sum = "f32[4] all-reduce(x), replica_groups={}, to_apply=add";
    assert_eq!(compiled(", replica_count=1, num_partitions=1", sum, None), Ok([1, 1]));
    for (header, line, needs) in [
        (", replica_count=2", sum, [2, 1]),
        (", num_partitions=2", sum, [1, 2]),
        (", replica_count=2", "u32[] replica-id()", [2, 1]),
        ("", "f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add", [2, 1]),
        ("", "f32[4] collective-permute(x), source_target_pairs={{0,2}}", [3, 1]),
        ("", "f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,2}}", [1, 3]),
        (
            ", num_partitions=2",
            "f32[16] all-gather(x), channel_id=1, replica_groups={{0,3,1,2}}, \
          use_global_device_ids=true, dimensions={0}",
            [2, 2],
        ),
        ("", "f32[8] all-gather(x), replica_groups={}, dimensions={0}", [2, 1]),
        ("", "f32[2] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add", [2, 1]),
    ] {
        assert_eq!(compiled(header, line, None), Ok(needs), "{header} {line}");
        let alone = compiled(header, line, Some(Grid::ONE));
        let named = line.contains("}}") || line.contains("all-gather") || line.contains("scatter");
        match alone {
            Ok(devices) => assert!(!named && devices == [1, 1], "{header} {line}"),
            Err(e) => assert!(matches!(e, Error::Invalid { constraint: "collective.devices", .. }), "{line}: {e}"),
        }
    }
}
