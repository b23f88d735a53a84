#![allow(clippy::unwrap_used)]

use super::*;
use std::fmt::Write;

fn reduced(source: &str, options: ReduceOptions, fault: impl Fn(&Module) -> bool) -> Reduction {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let once = reduce(&module, options, &mut |m, _| fault(m)).unwrap();
    let again = reduce(&module, options, &mut |m, _| fault(m)).unwrap();
    assert_eq!(once.text, again.text, "the same question has the same answer");
    shape::verify(&once.module).unwrap();
    once
}

fn has(module: &Module, fits: impl Fn(&Instruction) -> bool) -> bool {
    module.order.iter().any(|&c| {
        let computation = &module.computations[c];
        computation.order.iter().any(|&i| fits(&computation.instructions[i]))
    })
}

/// A chain of fifty instructions over rows and columns, one of them a remainder.
fn chain() -> String {
    let mut out = "HloModule chain, is_scheduled=true\n\nENTRY main {\n  p = f32[20,30] parameter(0)\n".to_owned();
    out.push_str("  q = f32[20,30] parameter(1)\n  v0 = f32[20,30] add(p, q)\n");
    for k in 1..50 {
        let op = if k == 31 { "remainder" } else { ["add", "multiply", "subtract"][k % 3] };
        let other = if k % 4 == 0 { "q".to_owned() } else { format!("v{}", k / 2) };
        writeln!(out, "  v{k} = f32[20,30] {op}(v{}, {other}), metadata={{op_name=\"n{k}\"}}", k - 1).unwrap();
    }
    out.push_str("  ROOT r = (f32[20,30], f32[20,30]) tuple(v49, v40)\n}\n");
    out
}

#[test]
fn one_instruction_of_fifty_is_found() {
    let fault = |m: &Module| has(m, |i| i.opcode == Opcode::Remainder);
    let found = reduced(&chain(), ReduceOptions::default(), fault);
    assert!(found.module.entry().order.len() <= 3, "{}", found.text);
    assert_eq!(found.module.entry().result_shape().to_string(), "f32[1,1]", "{}", found.text);
    assert!(!found.text.contains("metadata") && !found.text.contains("is_scheduled"), "{}", found.text);
    assert!(found.questions < 120, "{} questions", found.questions);
}

#[test]
fn values_keep_their_names_where_they_are_to_be_kept() {
    let fault = |m: &Module| has(m, |i| i.opcode == Opcode::Remainder && i.name == "v31");
    let found = reduced(&chain(), ReduceOptions { keep_values: true, ..ReduceOptions::default() }, fault);
    let entry = found.module.entry();
    let root = &entry.instructions[entry.root];
    assert_eq!(root.name, "v31", "{}", found.text);
    for &o in &root.operands {
        let name = &entry.instructions[o].name;
        assert!(name.starts_with("v30") || name.starts_with("v15") || name.starts_with("zero"), "{}", found.text);
    }
}

#[test]
fn what_is_not_interesting_is_not_reduced() {
    let module = text::parse(&chain()).unwrap();
    assert!(reduce(&module, ReduceOptions::default(), &mut |_, _| false).is_none());
    let limited = ReduceOptions { max_questions: 5, ..ReduceOptions::default() };
    assert!(reduce(&module, limited, &mut |_, _| true).unwrap().questions <= 5);
    assert!(reduce(&module, ReduceOptions::default(), &mut |_, _| true).unwrap().module.entry().order.len() == 1);
}

#[test]
fn sizes_shrink_together() {
    let source = "HloModule sizes

ENTRY main {
  a = f32[6,8] parameter(0)
  b = f32[4,8] parameter(1)
  c = f32[10,8] concatenate(a, b), dimensions={0}
  s = f32[] parameter(2)
  w = f32[10,8] broadcast(s), dimensions={}
  d = f32[10,8] power(c, w)
  e = f32[80] reshape(d)
  l = f32[80] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,
    36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,
    76,77,78,79,80})
  f = f32[80] maximum(e, l)
  ROOT g = f32[40] slice(f), slice={[20:80:1]}
}
"
    .replace("f32[40] slice", "f32[60] slice");
    let needed = [Opcode::Concatenate, Opcode::Reshape, Opcode::Slice, Opcode::Power, Opcode::Constant];
    let fault = |m: &Module| needed.iter().all(|&op| has(m, |i| i.opcode == op));
    let found = reduced(&source, ReduceOptions::default(), fault);
    let total: u64 = found.module.order.iter().map(|&c| found.module.computations[c].order.len() as u64).sum();
    assert!(found.module.entry().order.len() <= 8 && total <= 8, "{}", found.text);
    assert!(super::elements(found.module.entry().result_shape()) <= 2, "{}", found.text);
}

#[test]
fn calls_loops_and_effects_are_taken_apart() {
    let source = "HloModule control

double {
  x = f32[4] parameter(0)
  y = f32[4] cosine(x)
  ROOT r = f32[4] add(y, y)
}
more {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
turn {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] call(x), to_apply=double
  ROOT r = (s32[], f32[4]) tuple(j, y)
}

ENTRY main {
  p = f32[4] parameter(0)
  t = token[] after-all()
  feed = ((f32[4]), token[]) infeed(t)
  fed = (f32[4]) get-tuple-element(feed), index=0
  f = f32[4] get-tuple-element(fed), index=0
  z = s32[] constant(0)
  a = f32[4] add(p, f)
  init = (s32[], f32[4]) tuple(z, a)
  loop = (s32[], f32[4]) while(init), condition=more, body=turn
  out = f32[4] get-tuple-element(loop), index=1
  ROOT r = (f32[4], f32[4]) tuple(out, a)
}
";
    let fault = |m: &Module| has(m, |i| i.opcode == Opcode::Cos);
    let found = reduced(source, ReduceOptions::default(), fault);
    assert!(found.module.order.len() == 1 && found.module.entry().order.len() <= 2, "{}", found.text);
    let fault = |m: &Module| has(m, |i| i.opcode == Opcode::Infeed);
    let found = reduced(source, ReduceOptions::default(), fault);
    assert!(found.module.order.len() == 1 && found.module.entry().order.len() <= 3, "{}", found.text);
}

#[test]
fn blocks_at_the_origin() {
    let a = brolga_runtime::ArrayLiteral::from_elements(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
    assert_eq!(leading_array(&a, &[2, 2]).unwrap().as_slice::<i32>(), [1, 2, 4, 5]);
    assert_eq!(leading_array(&a, &[0, 2]).unwrap().elements(), 0);
    assert!(leading_array(&a, &[3, 1]).is_none() && leading_array(&a, &[6]).is_none());
}
