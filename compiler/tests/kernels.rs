//! HLO in, kernels out: what the passes, fusion and lowering make of small programs, as text.
//!
//! A snapshot shows loops, index maps and bodies; the number of kernels is asserted beside it, because a snapshot that
//! was accepted without a look must not hide a fusion that was lost.
#![allow(clippy::unwrap_used)]

use brolga_compiler::kernel::body::Op;
use brolga_compiler::kernel::ir::{Kernel, Phase};
use brolga_compiler::kernel::lower::Numerics;
use brolga_compiler::memory::{self, schedule::Schedule};
use brolga_compiler::passes::{self, PassOptions};
use brolga_compiler::{shape, text};

fn schedule_of(source: &str) -> Schedule {
    let mut module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    passes::optimize_with(&mut module, &PassOptions::default(), &mut |_, _| {}).unwrap();
    memory::build(&module, Numerics::default()).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

/// The schedule of an entry computation of these lines.
fn entry(lines: &str) -> Schedule {
    with("", lines)
}

/// As [`entry`], with other computations before it.
fn with(others: &str, lines: &str) -> Schedule {
    schedule_of(&format!("HloModule m\n\n{others}\nENTRY e {{\n{lines}\n}}\n"))
}

const ADD: &str = "add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
";
const MAX: &str = "max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
";

#[track_caller]
fn only(schedule: &Schedule) -> &Kernel {
    assert_eq!(schedule.kernels.len(), 1, "kernels in\n{schedule}");
    schedule.kernels.values().next().unwrap()
}

/// The one nest of a kernel of one phase: its number of stages.
#[track_caller]
fn stages(kernel: &Kernel) -> usize {
    match kernel.phases.as_slice() {
        [Phase::Nest(nest)] => nest.stages.len(),
        phases => panic!("{} phases in\n{kernel}", phases.len()),
    }
}

#[test]
fn saxpy() {
    let s = entry(
        "a = f32[] parameter(0)
         x = f32[1000] parameter(1)
         y = f32[1000] parameter(2)
         b = f32[1000] broadcast(a), dimensions={}
         p = f32[1000] multiply(b, x)
         ROOT s = f32[1000] add(p, y)",
    );
    assert_eq!(stages(only(&s)), 1);
    insta::assert_snapshot!(s);
}

#[test]
fn gelu() {
    let s = entry(
        "x = f32[8,512] parameter(0)
         half = f32[] constant(0.5)
         halves = f32[8,512] broadcast(half), dimensions={}
         root = f32[] constant(0.70710678)
         roots = f32[8,512] broadcast(root), dimensions={}
         one = f32[] constant(1)
         ones = f32[8,512] broadcast(one), dimensions={}
         scaled = f32[8,512] multiply(x, roots)
         erf = f32[8,512] erf(scaled)
         shifted = f32[8,512] add(erf, ones)
         hx = f32[8,512] multiply(x, halves)
         ROOT gelu = f32[8,512] multiply(hx, shifted)",
    );
    assert_eq!(stages(only(&s)), 1);
    insta::assert_snapshot!(s);
}

/// The lines of a softmax over the rows of `of`, an f32[256,1000].
fn softmax_of(of: &str) -> String {
    format!(
        "low = f32[] constant(-inf)
         m = f32[256] reduce({of}, low), dimensions={{1}}, to_apply=max
         mb = f32[256,1000] broadcast(m), dimensions={{0}}
         d = f32[256,1000] subtract({of}, mb)
         e = f32[256,1000] exponential(d)
         zero = f32[] constant(0)
         s = f32[256] reduce(e, zero), dimensions={{1}}, to_apply=add
         sb = f32[256,1000] broadcast(s), dimensions={{0}}
         ROOT q = f32[256,1000] divide(e, sb)"
    )
}

#[test]
fn softmax() {
    let s = with(
        &format!("{ADD}{MAX}"),
        &format!(
            "x = f32[256,1000] parameter(0)
             {}",
            softmax_of("x")
        ),
    );
    assert_eq!(stages(only(&s)), 3);
    insta::assert_snapshot!(s);
}

/// What costs much and is inlined before a softmax is computed once for an element, and so is the exponential.
#[test]
fn a_softmax_of_what_costs_much() {
    let s = with(
        &format!("{ADD}{MAX}"),
        &format!(
            "x = f32[256,1000] parameter(0)
             b = f32[256,1000] parameter(1)
             t = f32[256,1000] tanh(x)
             y = f32[256,1000] add(t, b)
             {}",
            softmax_of("y")
        ),
    );
    assert_eq!(stages(only(&s)), 3);
    let Some(Phase::Nest(nest)) = only(&s).phases.first() else { panic!("{s}") };
    assert_eq!(nest.rows.len(), 2, "{s}");
    let reads = |stage: usize| nest.stages[stage].body.nodes().iter().filter(|n| matches!(n.op, Op::Load(..))).count();
    assert_eq!([0, 1, 2].map(reads), [2, 0, 0], "{s}");
}

#[test]
fn layer_norm() {
    let s = with(
        ADD,
        "x = f32[64,768] parameter(0)
         gamma = f32[768] parameter(1)
         beta = f32[768] parameter(2)
         zero = f32[] constant(0)
         n = f32[] constant(768)
         ns = f32[64] broadcast(n), dimensions={}
         sum = f32[64] reduce(x, zero), dimensions={1}, to_apply=add
         mean = f32[64] divide(sum, ns)
         means = f32[64,768] broadcast(mean), dimensions={0}
         centred = f32[64,768] subtract(x, means)
         squares = f32[64,768] multiply(centred, centred)
         sum2 = f32[64] reduce(squares, zero), dimensions={1}, to_apply=add
         var = f32[64] divide(sum2, ns)
         eps = f32[] constant(1e-5)
         epss = f32[64] broadcast(eps), dimensions={}
         safe = f32[64] add(var, epss)
         inv = f32[64] rsqrt(safe)
         invs = f32[64,768] broadcast(inv), dimensions={0}
         unit = f32[64,768] multiply(centred, invs)
         gammas = f32[64,768] broadcast(gamma), dimensions={1}
         betas = f32[64,768] broadcast(beta), dimensions={1}
         scaled = f32[64,768] multiply(unit, gammas)
         ROOT out = f32[64,768] add(scaled, betas)",
    );
    assert_eq!(stages(only(&s)), 3);
    insta::assert_snapshot!(s);
}

#[test]
fn row_reduce() {
    let s = with(
        ADD,
        "x = f32[100,300] parameter(0)
         zero = f32[] constant(0)
         ROOT s = f32[100] reduce(x, zero), dimensions={1}, to_apply=add",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

#[test]
fn column_reduce() {
    let s = with(
        ADD,
        "x = f32[100,300] parameter(0)
         zero = f32[] constant(0)
         ROOT s = f32[300] reduce(x, zero), dimensions={0}, to_apply=add",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

#[test]
fn whole_reduce() {
    let s = with(
        ADD,
        "x = f32[1000,1000] parameter(0)
         zero = f32[] constant(0)
         ROOT s = f32[] reduce(x, zero), dimensions={0,1}, to_apply=add",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

#[test]
fn transpose() {
    let s = entry(
        "x = f32[30,40] parameter(0)
         ROOT t = f32[40,30] transpose(x), dimensions={1,0}",
    );
    assert_eq!(stages(only(&s)), 1);
    insta::assert_snapshot!(s);
}

#[test]
fn pad() {
    let s = entry(
        "x = f32[6,7] parameter(0)
         v = f32[] parameter(1)
         ROOT p = f32[9,10] pad(x, v), padding=1_2x-1_4",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

#[test]
fn concatenate() {
    let s = entry(
        "x = f32[5,2] parameter(0)
         y = f32[5,3] parameter(1)
         n = f32[5,3] negate(y)
         ROOT c = f32[5,5] concatenate(x, n), dimensions={1}",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

#[test]
fn bf16_elementwise() {
    let s = entry(
        "x = bf16[64] parameter(0)
         y = bf16[64] parameter(1)
         p = bf16[64] multiply(x, y)
         ROOT s = bf16[64] add(p, y)",
    );
    assert_eq!(stages(only(&s)), 1);
    insta::assert_snapshot!(s);
}

#[test]
fn dot_bias_relu() {
    let s = entry(
        "x = f32[32,64] parameter(0)
         w = f32[64,48] parameter(1)
         b = f32[48] parameter(2)
         d = f32[32,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         bs = f32[32,48] broadcast(b), dimensions={1}
         sum = f32[32,48] add(d, bs)
         zero = f32[] constant(0)
         zeros = f32[32,48] broadcast(zero), dimensions={}
         ROOT relu = f32[32,48] maximum(sum, zeros)",
    );
    assert!(matches!(only(&s).phases.as_slice(), [Phase::Contraction(_)]), "{s}");
    insta::assert_snapshot!(s);
}

#[test]
fn argmax() {
    let s = with(
        "pick { av = f32[] parameter(0)
           ai = s32[] parameter(1)
           bv = f32[] parameter(2)
           bi = s32[] parameter(3)
           more = pred[] compare(av, bv), direction=GE
           v = f32[] select(more, av, bv)
           i = s32[] select(more, ai, bi)
           ROOT t = (f32[], s32[]) tuple(v, i)
         }",
        "x = f32[16,200] parameter(0)
         numbers = s32[16,200] iota(), iota_dimension=1
         low = f32[] constant(-inf)
         zero = s32[] constant(0)
         r = (f32[16], s32[16]) reduce(x, numbers, low, zero), dimensions={1}, to_apply=pick
         ROOT index = s32[16] get-tuple-element(r), index=1",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

/// What is read by rows and columns needs no array of both.
#[test]
fn indices_of_one_gather() {
    let s = entry(
        "image = f32[100,90] parameter(0)
         y = s32[1000] parameter(1)
         x = s32[1000] parameter(2)
         ys = s32[1000,1] reshape(y)
         xs = s32[1000,1] reshape(x)
         at = s32[1000,2] concatenate(ys, xs), dimensions={1}
         ROOT r = f32[1000] gather(image, at), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
           index_vector_dim=1, slice_sizes={1,1}",
    );
    only(&s);
    insta::assert_snapshot!(s);
}

#[test]
fn scalar_while_in_registers() {
    let s = with(
        "more { t = (s32[], f32[2]) parameter(0)
           i = s32[] get-tuple-element(t), index=0
           n = s32[] constant(100)
           ROOT c = pred[] compare(i, n), direction=LT
         }
         step { t = (s32[], f32[2]) parameter(0)
           i = s32[] get-tuple-element(t), index=0
           v = f32[2] get-tuple-element(t), index=1
           one = s32[] constant(1)
           j = s32[] add(i, one)
           w = f32[2] reverse(v), dimensions={0}
           half = f32[] constant(0.5)
           halves = f32[2] broadcast(half), dimensions={}
           h = f32[2] multiply(w, halves)
           ROOT u = (s32[], f32[2]) tuple(j, h)
         }",
        "zero = s32[] constant(0)
         v = f32[2] parameter(0)
         t = (s32[], f32[2]) tuple(zero, v)
         w = (s32[], f32[2]) while(t), condition=more, body=step
         ROOT r = f32[2] get-tuple-element(w), index=1",
    );
    assert!(matches!(only(&s).phases.as_slice(), [Phase::Registers(_)]), "{s}");
    insta::assert_snapshot!(s);
}

const BEFORE: &str = "before { a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = s32[] parameter(2)
  t = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT
}
";

#[test]
fn sort_of_keys_and_places() {
    let s = with(
        BEFORE,
        "x = f32[4,300] parameter(0)
         i = s32[4,300] iota(), iota_dimension=1
         ROOT r = (f32[4,300], s32[4,300]) sort(x, i), dimensions={1}, to_apply=before",
    );
    let [Phase::Sort(sort)] = only(&s).phases.as_slice() else { panic!("no sort in\n{s}") };
    assert!(sort.key.as_ref().is_some_and(|k| k.bits == 32 && k.unordered.is_some()));
    assert_eq!(only(&s).buffers.len(), 3, "places are no array in\n{s}");
    insta::assert_snapshot!(s);
}

#[test]
fn top_k_by_either_name() {
    let by_name = entry(
        "x = bf16[6,50] parameter(0)
         t = bf16[50,6] transpose(x), dimensions={1,0}
         ROOT r = (bf16[50,3], s32[50,3]) topk(t), k=3, largest=true",
    );
    let called = entry(
        "x = bf16[6,50] parameter(0)
         t = bf16[50,6] transpose(x), dimensions={1,0}
         ROOT r = (bf16[50,3], s32[50,3]) custom-call(t), custom_call_target=\"TopK\"",
    );
    // What replaces the call has a name of its own.
    let called = only(&called).to_string().replacen("kernel r.1 ", "kernel r ", 1);
    assert_eq!(only(&by_name).to_string(), called);
    insta::assert_snapshot!(by_name);
}

/// What is computed before and behind a running sum along a row, and how often the result is stored.
fn running(before: &str, behind: &str) -> Schedule {
    with(
        ADD,
        &format!(
            "x = f32[20,300] parameter(0)
             zero = f32[] constant(0)
             {before}
             sums = f32[20,300] reduce-window(y, zero), window={{size=1x300 pad=0_0x299_0}}, to_apply=add
             {behind}"
        ),
    )
}

#[test]
fn running_sums_take_cheap_neighbours_alone() {
    let cheap = running("y = f32[20,300] multiply(x, x)", "ROOT r = f32[20,300] subtract(sums, x)");
    only(&cheap);
    let costly = running("y = f32[20,300] exponential(x)", "ROOT r = f32[20,300] logistic(sums)");
    assert_eq!(costly.kernels.len(), 3, "functions one element after another in\n{costly}");
    // Along columns a row of sums fills registers, whatever is computed with it.
    let columns = with(
        ADD,
        "x = f32[300,20] parameter(0)
         zero = f32[] constant(0)
         y = f32[300,20] exponential(x)
         sums = f32[300,20] reduce-window(y, zero), window={size=300x1 pad=299_0x0_0}, to_apply=add
         ROOT r = f32[300,20] logistic(sums)",
    );
    only(&columns);
}

/// Both users of the quotient are behind a remainder, whose group has grown before.
#[test]
fn a_value_whose_uses_meet_in_one_loop() {
    let floor = |last: &str| {
        entry(&format!(
            "x = s32[1000] parameter(0)
             y = s32[1000] parameter(1)
             rest = s32[1000] remainder(x, y)
             zero = s32[] constant(0)
             zeros = s32[1000] broadcast(zero), dimensions={{}}
             one = s32[] constant(1)
             ones = s32[1000] broadcast(one), dimensions={{}}
             below = pred[1000] compare(rest, zeros), direction=LT
             odd = pred[1000] compare(rest, ones), direction=EQ
             round = pred[1000] or(below, odd)
             quotient = s32[1000] divide(x, y)
             less = s32[1000] subtract(quotient, ones)
             {last}"
        ))
    };
    only(&floor("ROOT r = s32[1000] select(round, less, quotient)"));
    let also = floor(
        "r = s32[1000] select(round, less, quotient)
         turned = s32[1000] reverse(quotient), dimensions={0}
         ROOT t = (s32[1000], s32[1000]) tuple(r, turned)",
    );
    assert!(also.kernels.len() > 1, "a quotient that is needed elsewhere too in\n{also}");
}
