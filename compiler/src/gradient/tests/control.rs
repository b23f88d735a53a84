//! Calls, branches and loops.

use super::{once, twice};

#[test]
fn calls() {
    let text = "
g { a = f64[3] parameter(0)
  b = f64[3] parameter(1)
  s = f64[3] sine(a)
  m = f64[3] multiply(s, b)
  ROOT r = (f64[3], f64[3]) tuple(m, b) }
f { a = f64[3] parameter(0)
  c = (f64[3], f64[3]) call(a, a), to_apply=g
  x = f64[3] get-tuple-element(c), index=0
  y = f64[3] get-tuple-element(c), index=1
  ROOT r = f64[3] multiply(x, y) }
ENTRY e { x = f64[3] parameter(0)
  y = f64[3] call(x), to_apply=f
  z = f64[3] fusion(y), kind=kLoop, calls=f
  ROOT w = f64[3] add(z, x) }";
    twice(-1.0, 1.0, text);
    // An argument made from another.
    let text = "
g { a = f64[3] parameter(0)
  b = f64[3] parameter(1)
  ROOT m = f64[3] multiply(a, b) }
ENTRY e { x = f64[3] parameter(0)
  y = f64[3] sine(x)
  ROOT z = f64[3] call(x, y), to_apply=g }";
    twice(-1.0, 1.0, text);
}

#[test]
fn conditionals() {
    for value in ["true", "false"] {
        let text = format!(
            "
yes {{ t = (f64[3], s32[], f64[3]) parameter(0)
  a = f64[3] get-tuple-element(t), index=0
  b = f64[3] get-tuple-element(t), index=2
  m = f64[3] multiply(a, b)
  ROOT r = (f64[3], f64[3]) tuple(m, a) }}
no {{ a = f64[3] parameter(0)
  s = f64[3] sine(a)
  ROOT r = (f64[3], f64[3]) tuple(s, s) }}
ENTRY e {{ x = f64[3] parameter(0)
  y = f64[3] parameter(1)
  p = pred[] constant({value})
  i = s32[] constant(1)
  t = (f64[3], s32[], f64[3]) tuple(x, i, y)
  ROOT r = (f64[3], f64[3]) conditional(p, t, x), true_computation=yes, false_computation=no }}"
        );
        twice(-1.0, 1.0, &text);
    }
    for index in 0..3 {
        let text = format!(
            "
a {{ x = f64[3] parameter(0)
  ROOT r = f64[3] multiply(x, x) }}
b {{ x = f64[3] parameter(0)
  ROOT r = f64[3] exponential(x) }}
c {{ x = f64[3] parameter(0)
  ROOT r = f64[3] constant({{1,2,3}}) }}
ENTRY e {{ x = f64[3] parameter(0)
  y = f64[3] parameter(1)
  i = s32[] constant({index})
  ROOT r = f64[3] conditional(i, x, y, x), branch_computations={{a, b, c}} }}"
        );
        twice(-1.0, 1.0, &text);
    }
}

/// A loop whose state has a counter, a matrix that every iteration hands on, a value, an accumulator and a limit.
fn looped(condition: &str, start: i32, step: i32) -> String {
    format!(
        "
cond {{ t = (s32[], f64[3,3], f64[3], f64[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  l = s32[] get-tuple-element(t), index=4
  n = s32[] constant(4)
  ROOT c = pred[] compare({condition} }}
body {{ t = (s32[], f64[3,3], f64[3], f64[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  m = f64[3,3] get-tuple-element(t), index=1
  v = f64[3] get-tuple-element(t), index=2
  a = f64[] get-tuple-element(t), index=3
  l = s32[] get-tuple-element(t), index=4
  d = s32[] constant({step})
  j = s32[] add(i, d)
  w = f64[3] dot(m, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = f64[3] sine(w)
  f = f64[] convert(i)
  q = f64[] dot(s, v), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  p = f64[] multiply(f, q)
  b = f64[] add(a, p)
  ROOT r = (s32[], f64[3,3], f64[3], f64[], s32[]) tuple(j, m, s, b, l) }}
ENTRY e {{ m = f64[3,3] parameter(0)
  v = f64[3] parameter(1)
  z = f64[] constant(0)
  i = s32[] constant({start})
  l = s32[] constant(4)
  t = (s32[], f64[3,3], f64[3], f64[], s32[]) tuple(i, m, v, z, l)
  ROOT w = (s32[], f64[3,3], f64[3], f64[], s32[]) while(t), condition=cond, body=body }}"
    )
}

#[test]
fn loops() {
    for (condition, start, step) in [
        ("i, n), direction=LT", 0, 1),
        ("i, l), direction=LT", -1, 2),
        ("n, i), direction=GE", 1, 1),
        ("i, n), direction=NE", 8, -2),
        ("i, n), direction=LT", 3, 1),
    ] {
        twice(-1.0, 1.0, &looped(condition, start, step));
    }
    // Not one iteration.
    once(-1.0, 1.0, &looped("i, n), direction=LT", 4, 1));
}

#[test]
fn loops_in_loops_and_what_they_write() {
    let text = "
icond { t = (s32[], f64[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }
ibody { t = (s32[], f64[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f64[] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  s = f64[] sine(x)
  y = f64[] multiply(s, x)
  ROOT r = (s32[], f64[]) tuple(j, y) }
cond { t = (s32[], f64[], f64[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f64[], f64[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f64[] get-tuple-element(t), index=1
  y = f64[4] get-tuple-element(t), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  u = (s32[], f64[]) tuple(zero, x)
  w = (s32[], f64[]) while(u), condition=icond, body=ibody
  v = f64[] get-tuple-element(w), index=1
  a = f64[1] reshape(v)
  k = f64[1] dynamic-slice(y, i), dynamic_slice_sizes={1}
  b = f64[1] multiply(a, k)
  z = f64[4] dynamic-update-slice(y, b, i)
  ROOT r = (s32[], f64[], f64[4]) tuple(j, v, z) }
ENTRY e { x = f64[] parameter(0)
  y = f64[4] parameter(1)
  i = s32[] constant(0)
  t = (s32[], f64[], f64[4]) tuple(i, x, y)
  ROOT w = (s32[], f64[], f64[4]) while(t), condition=cond, body=body }";
    twice(0.7, 1.4, text);
}

/// Two inputs, one of them of integers, that are walked from either end; two carries, a vector and a sum; two outputs.
#[test]
fn scans() {
    for reverse in ["", ", is_reverse=true"] {
        let text = format!(
            "
step {{ x = f64[2,3] parameter(0)
  n = s32[3] parameter(1)
  c = f64[3] parameter(2)
  t = f64[] parameter(3)
  f = f64[3] convert(n)
  v = f64[2] dot(x, c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = f64[2] sine(v)
  w = f64[3] dot(s, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  d = f64[3] add(w, f)
  e = f64[3] tanh(d)
  q = f64[] dot(s, v), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  u = f64[] add(t, q)
  ROOT r = (f64[2], s32[3], f64[3], f64[]) tuple(s, n, e, u) }}
ENTRY e {{ x = f64[2,4,3] parameter(0)
  n = s32[3,4] parameter(1)
  m = s32[4,3] transpose(n), dimensions={{1,0}}
  y = f64[4,2,3] transpose(x), dimensions={{1,0,2}}
  c = f64[3] parameter(2)
  t = f64[] parameter(3)
  ROOT s = (f64[4,2], s32[4,3], f64[3], f64[]) scan(y, m, c, t), dimensions={{0}}, num_carries=2{reverse}, to_apply=step }}"
        );
        twice(-1.0, 1.0, &text);
        // Along the last dimension, with a carry alone, and without one step.
        for length in [5, 1, 0] {
            let text = format!(
                "
sums {{ x = f64[3] parameter(0)
  c = f64[3] parameter(1)
  p = f64[3] multiply(x, c)
  s = f64[3] add(p, x)
  ROOT r = (f64[3], f64[3]) tuple(s, s) }}
ENTRY e {{ x = f64[3,{length}] parameter(0)
  c = f64[3] parameter(1)
  ROOT r = (f64[3,{length}], f64[3]) scan(x, c), dimensions={{1}}, num_carries=1{reverse}, to_apply=sums }}"
            );
            twice(-1.0, 1.0, &text);
        }
    }
}
