#![allow(clippy::unwrap_used)]

//! Each rule, by a kernel that keeps it but for one change.

use super::check;
use crate::kernel::body::NodeId;
use crate::kernel::index::Axis;
use crate::kernel::ir::{Accumulator, Contraction, Kernel, Nest, Phase, Place, Role};
use crate::kernel::parse::parse;
use crate::kernel::registers::RegisterLoop;

/// Rows of a line each.
const LINES: &str = "kernel lines (in0: f32[64]) -> (out0: f32[64])
  phase parallel i0 in 4
    stage vector i1 in 16 past the caches
      %0 = load in0[16*i0 + i1] : f32
      store out0[16*i0 + i1] = %0 : f32
";

/// A kernel that keeps every rule.
const ROWS: &str = "kernel rows (in0: f32[24], in1: s32[4], in2: f32[24]) -> (out0: f32[24], out1: f32[24] over in2)
  may be one memory: out0, in0
  phase parallel i0 in 4
    row buffer row0: f32[6]
    stage vector i1 in 6
      %0 = load in0[6*i0 + i1] : f32
      fold r0 of %0 over i1, init 0.0, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
      store row0[i1] = %0
    stage vector i1 in 6
      %0 = load row0[i1] : f32
      %1 = fdiv %0, r0 : f32
      %2 = load in1[i0] : i32
      %3 = sext %2 : i64
      %4 = smax %3, 0 : i64
      %5 = smin %4, 3 : i64
      %6 = load in0[6*(%5 in 0..=3) + i1] : f32
      %7 = fadd %1, %6 : f32
      store out0[6*i0 + i1] = %7 : f32
  phase
    stage vector i0 in 24
      %0 = load out0[i0] : f32
      %1 = load out1[i0] : f32
      %2 = fadd %0, %1 : f32
      store out1[i0] = %2 : f32
";

const PRODUCT: &str = "kernel product (in0: f32[12], in1: f32[20]) -> (out0: f32[15])
  phase contraction f32 m i0 in 3 n i1 in 5 k i2 in 4
    lhs in0[4*i0 + i2]
    rhs in1[5*i2 + i1]
    epilogue (sum)
      store out0[5*i0 + i1] = sum : f32
";

const SORTED: &str = "kernel sorted (in0: s32[12]) -> (out0: s32[8])
  phase sort parallel i0 in 4 row i1 in 3
    %0 = load in0[3*i0 + i1] : i32
    operand 0 is %0 : i32, stored in out0[2*i0 + i1] for i1 below 2
    by the key
      %1 = xor x0, -2147483648 : i32
      yield %1 of 32 bits
    x before y where
      %2 = icmp.slt x0, y0 : m32
      yield %2
";

const LOOP: &str = "kernel turns (in0: s32[1], in1: f32[2]) -> (out0: s32[1], out1: f32[2])
  phase in registers
    s0: s32[1] = load in0 : i32
    s1: f32[2] = load in1 : f32
    while
      %3 = icmp.slt s0, 10 : m32
      yield %3
    do
      %3 = iadd s0, 1 : i32
      %4 = fadd s1[0], s1[1] : f32
      next s0 = %3, s1[1] = %4
    store out0 = s0 : i32
    store out1 = s1 : f32
";

fn rule_of(text: &str) -> Option<&'static str> {
    let kernels = parse(text).unwrap_or_else(|e| panic!("{e:?} in {text}"));
    check(&kernels[0]).err().map(|b| b.rule)
}

#[test]
fn kernels_that_keep_the_rules_pass() {
    for text in [ROWS, LINES, PRODUCT, SORTED, LOOP] {
        let kernels = parse(text).unwrap();
        assert_eq!(check(&kernels[0]), Ok(()), "{text}");
    }
}

fn breaks(text: &str, from: &str, to: &str, rule: &str) {
    assert_eq!(text.matches(from).count(), 1, "{from}");
    assert_eq!(rule_of(&text.replace(from, to)), Some(rule), "{from} -> {to}");
}

#[test]
fn indices_stay_inside_their_buffers() {
    breaks(ROWS, "load in0[6*i0 + i1]", "load in0[6*i0 + i1 + 1]", "kernel.index");
    breaks(ROWS, "load in0[6*i0 + i1]", "load in0[6*i0 - i1]", "kernel.index");
    breaks(ROWS, "store out0[6*i0 + i1]", "store out0[7*i0 + i1]", "kernel.index");
    breaks(LINES, "store out0[16*i0 + i1]", "store out0[15*i0 + i1]", "kernel.stream");
    breaks(LINES, "vector i1 in 16", "vector i1 in 15", "kernel.stream");
    breaks(ROWS, "smin %4, 3", "smin %4, 4", "kernel.bounds");
    breaks(ROWS, "smax %3, 0", "smin %3, 0", "kernel.bounds");
    breaks(ROWS, "6*(%5 in 0..=3)", "6*(%5 in 0..=4)", "kernel.index");
    breaks(PRODUCT, "in1[5*i2 + i1]", "in1[4*i1 + 2*i2]", "kernel.index");
    breaks(SORTED, "out0[2*i0 + i1]", "out0[3*i0 + i1]", "kernel.index");
    breaks(SORTED, "below 2", "below 3", "kernel.index");
    // Terms that hang together: intervals alone would refuse what every point keeps.
    let within = ROWS.replace("load in0[6*i0 + i1]", "load in0[6*i0 + i1 - ((i1) / 5) + ((i1) / 5)]");
    assert_eq!(rule_of(&within), None);
    let related = ROWS.replace("load in0[6*i0 + i1]", "load in0[5*((i1) / 4) - i1 + 6*i0 + 3]");
    assert_eq!(rule_of(&related), None, "the offset is 6*i0 + 3, 2, 1, 0, 4, 3");
}

/// As [`breaks`], for what no text says: the kernel is changed after it is read.
fn changed(text: &str, change: impl FnOnce(&mut Kernel), rule: &str) {
    let mut kernel = parse(text).unwrap().remove(0);
    change(&mut kernel);
    assert_eq!(check(&kernel).err().map(|b| b.rule), Some(rule));
}

fn product(kernel: &mut Kernel) -> &mut Contraction {
    let Some(Phase::Contraction(c)) = kernel.phases.first_mut() else { panic!("no contraction") };
    c
}

fn nest(kernel: &mut Kernel) -> &mut Nest {
    let Some(Phase::Nest(nest)) = kernel.phases.first_mut() else { panic!("no nest") };
    nest
}

#[test]
fn axes_run_where_they_are_mentioned() {
    changed(ROWS, |k| nest(k).parallel[0].axis = Axis(9), "kernel.axis");
    changed(ROWS, |k| nest(k).parallel[0].axis = Axis(1), "kernel.axis");
    // A loop that runs further than its maps believe.
    changed(ROWS, |k| nest(k).parallel[0].extent = 5, "kernel.axis");
    changed(ROWS, |k| nest(k).stages[0].vector.extent = 0, "kernel.extent");
    breaks(PRODUCT, "lhs in0[4*i0 + i2]", "lhs in0[2*i1 + i2]", "kernel.axis");
    breaks(PRODUCT, "store out0[5*i0 + i1]", "store out0[3*i0 + i2]", "kernel.axis");
}

#[test]
fn what_is_read_is_written_before() {
    breaks(ROWS, "      store row0[i1] = %0\n", "", "kernel.row");
    breaks(ROWS, "row buffer row0: f32[6]", "row buffer row0: f32[5]", "kernel.row");
    breaks(ROWS, "load in0[6*i0 + i1]", "load out0[6*i0 + i1]", "kernel.role");
    breaks(
        ROWS,
        "      store out0[6*i0 + i1] = %7 : f32\n  phase\n",
        "      store out1[6*i0 + i1] = %7 : f32\n  phase\n",
        "kernel.role",
    );
    breaks(ROWS, "store out1[i0] = %2", "store in2[i0] = %2", "kernel.role");
    breaks(LOOP, "s1: f32[2] = load in1 : f32", "s1: f32[2] = load in1 : f64", "kernel.registers");
    changed(ROWS, |k| nest(k).stages.swap(0, 1), "kernel.row");
    changed(ROWS, |k| nest(k).stages[0].accumulators.clear(), "kernel.result");
    changed(ROWS, |k| nest(k).stages[1].stores.clear(), "kernel.role");
    changed(ROWS, |k| k.phases.truncate(0), "kernel.output");
}

#[test]
fn every_element_is_written_and_by_one_point() {
    for (from, to) in [("6*i0", "5*i0"), ("6*i0 + i1", "6*i0 + ((i1) / 2)"), ("6*i0 + i1", "6*i0 - i1 + 5")] {
        let text = ROWS.replace(&format!("store out0[{from}"), &format!("store out0[{to}"));
        assert_ne!(text, ROWS);
        // Where an index is not linear nothing is said; rows may go backwards.
        let rule = (to == "5*i0").then_some("kernel.output");
        assert_eq!(rule_of(&text), rule, "{to}");
    }
    breaks(PRODUCT, "store out0[5*i0 + i1]", "store out0[4*i0 + i1]", "kernel.output");
    breaks(SORTED, "out0[2*i0 + i1]", "out0[i0 + i1]", "kernel.output");
    changed(LINES, |k| k.buffers[1].elements += 1, "kernel.output");
    // What a loop forgets behind its whole pieces, and scratch that nobody fills.
    changed(LINES, |k| nest(k).parallel[0].extent = 3, "kernel.output");
    let scratch = "kernel twice (in0: f32[8]) -> (out0: f32[8]), scratch (scratch0: f32[8])
  phase
    stage vector i0 in 8
      %0 = load in0[i0] : f32
      store scratch0[i0] = %0 : f32
  phase
    stage vector i0 in 8
      %0 = load scratch0[i0] : f32
      store out0[i0] = %0 : f32
";
    assert_eq!(rule_of(scratch), None);
    changed(scratch, |k| nest(k).stages[0].vector.extent = 7, "kernel.output");
    breaks(ROWS, "store out0[6*i0 + i1]", "store out0[i1]", "kernel.race");
    breaks(SORTED, "out0[2*i0 + i1]", "out0[i1]", "kernel.race");
}

#[test]
fn buffers_keep_their_roles() {
    changed(ROWS, |k| k.buffers[4].role = Role::Update { of: 1 }, "kernel.update");
    changed(ROWS, |k| k.buffers[4].role = Role::Update { of: 3 }, "kernel.update");
    changed(ROWS, |k| k.in_place.push((3, 1)), "kernel.in-place");
    changed(ROWS, |k| k.in_place.push((0, 3)), "kernel.in-place");
    breaks(PRODUCT, "contraction f32", "contraction bf16xbf16", "kernel.contraction");
    changed(PRODUCT, |k| product(k).subnormal = Some(0), "kernel.contraction");
    let floats = PRODUCT
        .replace("-> (out0: f32[15])", "-> (out0: f32[15]), scratch (scratch0: s32[1])")
        .replace("contraction f32", "contraction bf16xbf16")
        .replace("    epilogue", "    subnormal where scratch0\n    epilogue");
    breaks(&floats, "where scratch0", "where scratch0", "kernel.role");
    // Words of bytes hold other sums than floats do.
    breaks(PRODUCT, "contraction f32", "contraction u8xs8", "kernel.type");
    for steps in [0, 5] {
        changed(PRODUCT, |k| product(k).block = steps, "kernel.contraction");
    }
    changed(LOOP, |k| k.buffers[3].elements = 1, "kernel.registers");
    changed(LOOP, |k| k.buffers.truncate(3), "kernel.registers");
    changed(LOOP, |k| k.phases.push(k.phases[0].clone()), "kernel.phases");
    changed(PRODUCT, |k| k.phases.push(Phase::RandomState { delta: 1 }), "kernel.phases");
    changed(PRODUCT, |k| k.phases = vec![Phase::RandomState { delta: 1 }], "kernel.random-state");
}

#[test]
fn operations_have_their_arguments_and_lanes() {
    breaks(ROWS, "%7 = fadd %1, %6 : f32", "%7 = fadd %1, %5 : f32", "kernel.type");
    breaks(ROWS, "%7 = fadd %1, %6 : f32", "%7 = fadd %1, %6 : f64", "kernel.type");
    breaks(ROWS, "%7 = fadd %1, %6 : f32", "%7 = fma %1, %6 : f32", "kernel.arity");
    breaks(ROWS, "%3 = sext %2 : i64", "%3 = promote %2 : i64", "kernel.type");
    breaks(ROWS, "%1 = fdiv %0, r0 : f32", "%1 = iadd %0, r0 : f32", "kernel.type");
    breaks(SORTED, "%2 = icmp.slt x0, y0 : m32", "%2 = isub x0, y0 : i32", "kernel.type");
}

#[test]
fn accumulators_fit_their_combiners() {
    let with = |k: &mut Kernel, change: &dyn Fn(&mut Accumulator)| change(&mut nest(k).stages[0].accumulators[0]);
    changed(ROWS, |k| with(k, &|a| a.init.clear()), "kernel.accumulator");
    changed(ROWS, |k| with(k, &|a| a.roots.push(a.roots[0])), "kernel.accumulator");
    changed(ROWS, |k| with(k, &|a| a.identity = Some(Vec::new())), "kernel.accumulator");
    changed(ROWS, |k| with(k, &|a| a.values.clear()), "kernel.node");
    changed(ROWS, |k| with(k, &|a| a.place = Place::Lanes { results: vec![0, 1] }), "kernel.accumulator");
    changed(ROWS, |k| with(k, &|a| a.place = Place::Row { rows: vec![7] }), "kernel.row");
    // An initial value that differs along the row.
    changed(ROWS, |k| with(k, &|a| a.init = a.values.clone()), "kernel.axis");
    // A multiply-add chain has no partial results.
    changed(ROWS, |k| with(k, &|a| a.values.push(a.values[0])), "kernel.accumulator");
    changed(LOOP, |k| registers(k).body.1.truncate(2), "kernel.registers");
    changed(LOOP, |k| registers(k).condition.1 = NodeId(99), "kernel.node");
}

#[test]
fn only_running_values_may_be_regrouped() {
    let scan = "kernel scan (in0: f32[12]) -> (out0: f32[12])
  phase
    row buffer row0: f32[3]
    stage vector i1 in 3
      store row0[i1] = 0.0
    stage sequential i0 in 4 vector i1 in 3 in any grouping
      %0 = load row0[i1] : f32
      %1 = load in0[3*i0 + i1] : f32
      %2 = fadd %0, %1 : f32
      store row0[i1] = %2
      store out0[3*i0 + i1] = %2 : f32
";
    check(&parse(scan).unwrap()[0]).unwrap();
    breaks(scan, "fadd %0, %1", "fsub %0, %1", "kernel.running");
    breaks(scan, "fadd %0, %1", "fadd %0, %0", "kernel.running");
    breaks(scan, "fadd %0, %1", "fadd %1, %1", "kernel.running");
}

fn registers(kernel: &mut Kernel) -> &mut RegisterLoop {
    let Some(Phase::Registers(l)) = kernel.phases.first_mut() else { panic!("no loop in registers") };
    l
}
