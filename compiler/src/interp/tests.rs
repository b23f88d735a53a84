//! Whole programs through the interpreter, where no other test looks: control, dynamic sizes, layouts, refusals.

use super::{Options, evaluate, run};
use crate::hlo::{Module, Opcode};
use crate::text::{literal_to_string, parse};
use crate::{Error, Result};
use brolga_runtime::{ArrayLiteral, Literal};

fn module(text: &str) -> Module {
    parse(&format!("HloModule m\n{text}")).expect("the program parses")
}

fn result(text: &str, args: &[Literal]) -> Result<String> {
    run(&module(text), args, &Options::default()).map(|l| match &l {
        Literal::Tuple(elements) => elements.iter().map(literal_to_string).collect::<Vec<_>>().join(" "),
        other => literal_to_string(other),
    })
}

fn floats(values: &[f32]) -> Literal {
    ArrayLiteral::from_elements(&[values.len() as i64], values).into()
}

#[test]
fn loops_update_arrays_in_place_and_swap_their_parts() {
    let text = "
cond { t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  a = f32[4] get-tuple-element(t), index=1
  b = f32[4] get-tuple-element(t), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  f = f32[] convert(next)
  u = f32[1] reshape(f)
  d = f32[4] dynamic-update-slice(a, u, i)
  ROOT r = (s32[], f32[4], f32[4]) tuple(next, b, d) }
ENTRY e { p = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4], f32[4]) tuple(zero, p, p)
  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body }";
    assert_eq!(result(text, &[floats(&[0.0; 4])]).as_deref(), Ok("3 {0, 2, 0, 0} {1, 0, 3, 0}"));
}

#[test]
fn a_loop_of_scalars_counts() {
    let text = "
cond { t = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(100000)
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[] get-tuple-element(t), index=1
  one = s32[] constant(1)
  half = f32[] constant(0.5)
  ROOT r = (s32[], f32[]) tuple(s32[] add(i, one), f32[] add(x, half)) }
ENTRY e { zero = s32[] constant(0)
  x = f32[] constant(0)
  t = (s32[], f32[]) tuple(zero, x)
  ROOT w = (s32[], f32[]) while(t), condition=cond, body=body }";
    assert_eq!(result(text, &[]).as_deref(), Ok("100000 50000"));
    let limited = Options { fuel: Some(1000), ..Options::default() };
    assert!(matches!(run(&module(text), &[], &limited), Err(Error::Unsupported { .. })));
}

#[test]
fn branches_out_of_range_are_the_last() {
    let text = "
a { ROOT p = f32[] parameter(0) }
b { p = f32[] parameter(0)
  ROOT n = f32[] negate(p) }
ENTRY e { i = s32[] parameter(0)
  x = f32[] constant(2)
  ROOT c = f32[] conditional(i, x, x), branch_computations={a, b} }";
    for (index, want) in [(0, "2"), (1, "-2"), (7, "-2"), (-1, "-2")] {
        assert_eq!(result(text, &[Literal::scalar(index)]).as_deref(), Ok(want), "{index}");
    }
}

#[test]
fn dynamic_sizes_are_true_sizes() {
    let text = "
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[4] parameter(0)
  n = s32[] parameter(1)
  d = f32[<=4] set-dimension-size(p, n), dimensions={0}
  m = f32[<=4] negate(d)
  zero = f32[] constant(0)
  s = f32[] reduce(m, zero), dimensions={0}, to_apply=add
  k = s32[] get-dimension-size(m), dimensions={0}
  ROOT t = (f32[<=4], f32[], s32[]) tuple(m, s, k) }";
    let p = floats(&[1.0, 2.0, 4.0, 8.0]);
    assert_eq!(result(text, &[p, Literal::scalar(3i32)]).as_deref(), Ok("{-1, -2, -4} -7 3"));
}

/// An array without elements has a size along every dimension.
#[test]
fn empty_arrays_keep_their_dynamic_sizes() {
    for (line, d) in [
        ("r = s32[<=3,0,4] negate(x)", 0),
        ("r = f32[<=3,0,4] convert(x)", 0),
        ("r = s32[<=3,0,4] add(x, x)", 0),
        ("r = s32[4,0,<=3] transpose(x), dimensions={2,1,0}", 2),
        ("r = s32[<=3,0,4] reverse(x), dimensions={0,2}", 0),
        ("r = s32[<=6,0,4] concatenate(x, x), dimensions={0}", 0),
        ("z = s32[] constant(7)\n r = s32[<=5,0,4] pad(x, z), padding=1_1x0_0x0_0", 0),
        ("r = s32[<=3,0,4] reshape(x)", 0),
        ("z = s32[] constant(7)\n r = s32[<=3,0] reduce(x, z), dimensions={2}, to_apply=add", 0),
        ("r = s32[<=3,0,4] map(x), dimensions={0,1,2}, to_apply=neg", 0),
        ("r = s32[<=3,0,4] sort(x), dimensions={2}, to_apply=lt", 0),
        ("z = s32[] constant(7)\n r = s32[<=3,0,2] reduce-window(x, z), window={size=1x1x3}, to_apply=add", 0),
    ] {
        let text = format!(
            "add {{ a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }}
             neg {{ a = s32[] parameter(0)\n ROOT c = s32[] negate(a) }}
             lt {{ a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT }}
             ENTRY e {{ x = s32[<=3,0,4] parameter(0)\n {line}\n
               ROOT k = s32[] get-dimension-size(r), dimensions={{{d}}} }}"
        );
        for n in 0..=3 {
            let want = if line.contains("pad") {
                n + 2
            } else if line.contains("conc") {
                2 * n
            } else {
                n
            };
            let x = ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(brolga_runtime::ElementType::S32, [n, 0, 4]));
            assert_eq!(result(&text, &[x.into()]), Ok(want.to_string()), "{line}");
        }
    }
    let text = "ENTRY e { x = s32[<=3,0,4] parameter(0)\n ROOT r = s32[<=6,0,2] reshape(x) }";
    let x = ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(brolga_runtime::ElementType::S32, [2, 0, 4]));
    assert!(matches!(result(text, &[x.into()]), Err(Error::Unsupported { .. })));
}

#[test]
fn bitcast_sees_layouts() {
    let text = "
ENTRY e { p = f32[2,3]{0,1} parameter(0)
  ROOT b = f32[6] bitcast(p) }";
    let p = ArrayLiteral::from_elements(&[2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).into();
    assert_eq!(result(text, &[p]).as_deref(), Ok("{0, 3, 1, 4, 2, 5}"));
}

#[test]
fn async_forms_run() {
    let text = "
neg { p = f32[2] parameter(0)
  ROOT n = f32[2] negate(p) }
ENTRY e { p = f32[2] parameter(0)
  s = ((f32[2]), f32[2], u32[]) async-start(p), calls=neg
  d = f32[2] async-done(s)
  c = (f32[2], f32[2], u32[]) copy-start(d)
  ROOT f = f32[2] copy-done(c) }";
    assert_eq!(result(text, &[floats(&[1.0, 2.0])]).as_deref(), Ok("{-1, -2}"));
}

#[test]
fn what_cannot_run_is_an_error_in_words() {
    let text = "ENTRY e { p = f32[2] parameter(0)
  ROOT c = f32[2] custom-call(p), custom_call_target=\"unheard_of\" }";
    assert!(matches!(result(text, &[floats(&[1.0, 2.0])]), Err(Error::Unsupported { .. })));
    assert!(matches!(result(text, &[]), Err(Error::Execution { .. })));
    assert!(matches!(result(text, &[floats(&[1.0])]), Err(Error::Execution { .. })));
    let text = "ENTRY e { p = f32[] parameter(0)
  ROOT b = f32[1000000,1000000] broadcast(p), dimensions={} }";
    assert!(matches!(result(text, &[Literal::scalar(1f32)]), Err(Error::Unsupported { .. })));
}

#[test]
fn calls_nest_up_to_a_limit() {
    let mut text = String::from("c0 { ROOT p = f32[] parameter(0) }\n");
    for i in 1..200 {
        text += &format!("c{i} {{ p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c{} }}\n", i - 1);
    }
    let entry = |callee: usize| {
        format!("{text}ENTRY e {{ p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c{callee} }}")
    };
    assert_eq!(result(&entry(100), &[Literal::scalar(1f32)]).as_deref(), Ok("1"));
    assert!(matches!(result(&entry(199), &[Literal::scalar(1f32)]), Err(Error::Unsupported { .. })));
}

#[test]
fn one_instruction_is_evaluated() {
    let m = module("ENTRY e { p = s32[2] parameter(0)\n ROOT r = s32[2] add(p, p) }");
    let root = m.instruction(m.entry, m.entry().root);
    assert_eq!(root.opcode, Opcode::Add);
    let p = ArrayLiteral::from_elements(&[2], &[1i32, 2]).into();
    assert_eq!(evaluate(&m, root, &[&p, &p]), Ok(ArrayLiteral::from_elements(&[2], &[2i32, 4]).into()));
}

#[test]
fn an_update_without_elements_changes_nothing() {
    let text = "
ENTRY e { p = f32[3,2] parameter(0)
  none = f32[3,0] slice(p), slice={[0:3], [2:2]}
  zero = s32[] constant(0)
  kept = f32[3,2] dynamic-update-slice(p, none, zero, zero)
  empty = f32[3,0] dynamic-update-slice(none, none, zero, zero)
  ROOT r = (f32[3,2], f32[3,0]) tuple(kept, empty) }";
    let p = ArrayLiteral::from_elements(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let kept = run(&module(text), &[p.clone().into()], &Options::default()).expect("it runs");
    assert_eq!(kept.arrays()[0], &p);
}

#[test]
fn movement_yields_the_precision_that_the_program_states() {
    let text = "
ENTRY e { a = f32[2] parameter(0)
  b = bf16[2] convert(a)
  r = bf16[2] reverse(a), dimensions={0}
  c = f32[4] concatenate(r, a), dimensions={0}
  z = f32[] constant(9)
  p = bf16[3] pad(b, z), padding=1_0
  i = s32[] constant(1)
  o = f32[1] slice(a), slice={[0:1]}
  d = bf16[2] dynamic-update-slice(b, o, i)
  ROOT t = (bf16[2], f32[4], bf16[3], bf16[2]) tuple(r, c, p, d) }";
    let got = result(text, &[floats(&[1.01, 2.0])]).expect("it runs");
    assert_eq!(got, "{2, 1.0078125} {2, 1.0078125, 1.01, 2} {9, 1.0078125, 2} {1.0078125, 1.0078125}");
}
