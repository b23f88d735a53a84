//! Each transformation on kernels that it is for: what the kernel interpreter gives before and after.

use super::*;
use crate::kernel::body::Variant;
use crate::kernel::interp::{self, Machine};
use crate::kernel::ir::Role;
use crate::kernel::{parse, verify};

/// Small whole numbers, for which any order of sums and products of a test is exact; times `scale`.
fn data(kernel: &Kernel, scale: f64) -> Vec<Vec<u8>> {
    let element = |ty: brolga_runtime::ElementType, i: usize| -> Vec<u8> {
        let number = (i * 7 + i / 5) % 11;
        match ty {
            brolga_runtime::ElementType::F32 => ((number as f32 - 5.0) * scale as f32).to_le_bytes().to_vec(),
            brolga_runtime::ElementType::F64 => ((number as f64 - 5.0) * scale).to_le_bytes().to_vec(),
            ty => (number as u64).to_le_bytes()[..ty.byte_size()].to_vec(),
        }
    };
    let fill = |b: &crate::kernel::ir::Buffer| match b.role {
        Role::Input => (0..b.elements).flat_map(|i| element(b.ty, i)).collect(),
        _ => vec![0; b.elements * b.ty.byte_size()],
    };
    kernel.buffers.iter().map(fill).collect()
}

/// The bytes of a kernel's outputs.
fn outputs(kernel: &Kernel, scale: f64) -> Vec<Vec<u8>> {
    verify::verify(kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let mut machine = Machine { variant: Variant::Fma, random: [0, 0], budget: 1 << 26 };
    let all = interp::run(kernel, &mut machine, data(kernel, scale)).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let of_callers = kernel.buffers.iter().zip(all).filter(|(b, _)| b.role == Role::Output);
    of_callers.map(|(_, bytes)| bytes).collect()
}

/// Runs one transformation, which must change the kernel and nothing that it computes; the new kernel's text.
fn transformed(name: &str, text: &str) -> String {
    let kernel = parse::parse(text).unwrap_or_else(|e| panic!("{e:?}")).remove(0);
    let t = ALL.iter().find(|t| t.name == name).expect("a transformation");
    let mut new = kernel.clone();
    (t.run)(&mut new);
    assert_ne!(new.to_string(), kernel.to_string(), "{name} leaves the kernel as it is");
    Census::of(&new).check(&Census::of(&kernel), name, t.folds).unwrap_or_else(|e| panic!("{e}\n{new}"));
    // Where a transformation keeps the order of sums, tenths show it.
    let regroups = matches!(name, "partial" | "across" | "lanes") || text.contains("in any grouping");
    let scale = if regroups { 1.0 } else { 0.1 };
    let (want, got) = (outputs(&kernel, scale), outputs(&new, scale));
    assert!(want.iter().flatten().any(|&b| b != 0), "all zeros show nothing");
    assert!(want == got, "{name} changes a result\n{new}");
    new.to_string()
}

/// Runs one transformation, which must leave the kernel as it is.
fn left_alone(name: &str, mut kernel: Kernel) {
    let t = ALL.iter().find(|t| t.name == name).expect("a transformation");
    let before = kernel.to_string();
    (t.run)(&mut kernel);
    assert_eq!(kernel.to_string(), before);
}

const SUM_OF_ALL: &str = "kernel sum (in0: f32[70001], in1: f32[1]) -> (out0: f32[1])
  phase
    stage vector i0 in 70001
      %0 = load in0[i0] : f32
      %1 = load in1[0] : f32
      fold r0 of %0 over i0, init %1, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
    stage
      store out0[0] = r0 : f32
";

/// Sums over `rows` rows of two matrices of 100 columns.
fn sums_of_columns(rows: i64) -> String {
    format!(
        "kernel sums (in0: f32[{all}], in1: f32[1]) -> (out0: f32[200])
  phase parallel i3 in 2
    row buffer row0: f32[100]
    stage sequential i0 in {rows} vector i1 in 100
      %0 = load in0[{matrix}*i3 + 100*i0 + i1] : f32
      %1 = load in1[0] : f32
      fold row0[i1] of %0 over i0, init %1, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
    stage vector i1 in 100
      %0 = load row0[i1] : f32
      %1 = fadd %0, %0 : f32
      store out0[100*i3 + i1] = %1 : f32
",
        all = 200 * rows,
        matrix = 100 * rows,
    )
}

/// A Kronecker product of two matrices of 8 rows and 16 columns, as a reshape leaves it.
#[test]
fn a_loop_that_indices_divide_becomes_two() {
    let text = transformed(
        "factor",
        "kernel kron (in0: f32[128], in1: f32[128]) -> (out0: f32[16384])
  phase parallel i0 in 64
    stage vector i1 in 256
      %0 = load in0[16*((i0) / 8) + ((i1) / 16)] : f32
      %1 = load in1[16*((i0) % 8) + ((i1) % 16)] : f32
      %2 = fmul %0, %1 : f32
      store out0[256*i0 + i1] = %2 : f32
",
    );
    assert!(!text.contains(") /") && !text.contains(") %") && text.contains("in 16\n"), "{text}");
}

/// Each element of a vector, `n` times, and something else that is loaded.
fn repeated(n: i64, other: &str) -> String {
    let all = 128 * n;
    format!(
        "kernel repeated (in0: f32[128], in1: f32[{all}]) -> (out0: f32[{all}])
  phase
    stage vector i0 in {all}
      %0 = load in0[((i0) / {n})] : f32
      %1 = load in1[{other}] : f32
      %2 = fadd %0, %1 : f32
      store out0[i0] = %2 : f32
"
    )
}

/// Rows of fewer elements than are worth a row loop are not cut, ...
#[test]
fn a_row_is_not_cut_into_few_elements() {
    for text in [repeated(2, "i0"), repeated(10, "0")] {
        left_alone("factor", parse::parse(&text).unwrap_or_else(|e| panic!("{e:?}")).remove(0));
    }
}

/// ... but for what is one element several times, which is then stored as often.
#[test]
fn repeated_elements_are_stored_several_times() {
    for n in [2, 3, 4, 8] {
        let cut = transformed("factor", &repeated(n, "0"));
        assert!(cut.contains(&format!("parallel i1 in 128\n    stage vector i0 in {n}")), "{cut}");
        let written_out = transformed("across", &cut);
        assert_eq!(written_out.matches("store").count() as i64, n, "{written_out}");
        assert!(written_out.contains("vector i1 in 128"), "{written_out}");
    }
}

/// A reduction of few rows and all their elements, in any order, is one of one row.
#[test]
fn few_rows_in_lanes_are_one() {
    let text = |how: &str, depth: i64| {
        format!(
            "kernel windows (in0: f32[9600], in1: f32[96]) -> (out0: f32[20])
  phase parallel i0 in 20
    stage sequential i1 in {depth} vector i2 in 32
      %0 = load in0[32*i0 + 96*i1 + i2] : f32
      %1 = load in1[32*i1 + i2] : f32
      %3 = fmul %0, %1 : f32
      fold r0 of %3 over i1, i2{how}, init 0.5{}
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
    stage
      store out0[i0] = r0 : f32
",
            if how.is_empty() { ", identity -0.0" } else { "" }
        )
    };
    let new = transformed("lanes", &text("", 3));
    assert!(!new.contains("sequential"), "{new}");
    assert_eq!(new.matches("load in0").count(), 3, "{new}");
    left_alone("lanes", parse::parse(&text(" in order", 3)).unwrap_or_else(|e| panic!("{e:?}")).remove(0));
    left_alone("lanes", parse::parse(&text("", 28)).unwrap_or_else(|e| panic!("{e:?}")).remove(0));
}

#[test]
fn a_sum_of_everything_gets_points() {
    let text = transformed("partial", SUM_OF_ALL);
    assert!(text.contains("phase parallel"), "{text}");
    // 70001 elements in 4 parts, none of which is whole iterations of 32 but the first three.
    assert!(text.contains("scratch0: f32[4]"), "{text}");
}

#[test]
fn sums_of_columns_get_points() {
    let text = transformed("partial", &sums_of_columns(1251));
    assert!(text.contains("scratch0: f32["), "{text}");
}

#[test]
fn a_combiner_that_does_not_commute_is_left_alone() {
    let mut kernel = parse::parse(SUM_OF_ALL).expect("a kernel").remove(0);
    let Phase::Nest(nest) = &mut kernel.phases[0] else { panic!("a nest") };
    nest.stages[0].accumulators[0].splits = false;
    left_alone("partial", kernel);
}

#[test]
fn rows_are_folded_several_at_a_time() {
    let text = transformed("fold", &sums_of_columns(250));
    // 250 rows are a multiple of 5 iterations.
    assert!(text.contains("x4: f32") && !text.contains("x5: f32"), "{text}");
}

/// What is left of the numbers of a column when the sum of their squares is taken away, which waits in the output until then.
fn squares_of_columns(rows: i64, columns: i64, points: i64) -> String {
    format!(
        "kernel squares (in0: f32[{all}]) -> (out0: f32[{all}])
  phase parallel i3 in {points}
    row buffer row0: f32[{columns}]
    row buffer row1: f32[{columns}]
    stage sequential i0 in {rows} vector i1 in {columns}
      %0 = load in0[{matrix}*i3 + {columns}*i0 + i1] : f32
      %1 = fmul %0, %0 : f32
      fold row0[i1] of %1 over i0, init 0.0, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
      store out0[{matrix}*i3 + {columns}*i0 + i1] = %1 : f32
    stage vector i1 in {columns}
      %0 = load row0[i1] : f32
      %1 = fadd %0, %0 : f32
      store row1[i1] = %1
    stage sequential i0 in {rows} vector i1 in {columns}
      %0 = load out0[{matrix}*i3 + {columns}*i0 + i1] : f32
      %1 = load row1[i1] : f32
      %2 = fsub %0, %1 : f32
      store out0[{matrix}*i3 + {columns}*i0 + i1] = %2 : f32
",
        matrix = rows * columns,
        all = rows * columns * points,
    )
}

#[test]
fn rows_that_columns_change_go_several_at_a_time() {
    let text = transformed("fold", &squares_of_columns(30, 40, 3));
    // Six rows an iteration: what a column gives is loaded once for them. The stage that only folds it shares nothing between rows.
    assert_eq!(text.matches("store out0").count(), 1 + 6, "{text}");
    assert_eq!(text.matches("load row1").count(), 1, "{text}");
    // An iteration that reads what another one has written.
    let first = squares_of_columns(30, 40, 3).replace("load out0[1200*i3 + 40*i0 + i1]", "load out0[1200*i3 + i1]");
    left_alone("fold", parse::parse(&first).expect("a kernel").remove(0));
}

#[test]
fn columns_are_cut_into_strips() {
    // 864 columns of 500 numbers are three strips.
    let text = transformed("chunk", &squares_of_columns(500, 864, 2));
    assert!(text.contains("phase parallel i3 in 2, i4 in 3") && text.contains("row buffer row0: f32[288]"), "{text}");
    // 841 are two such and a shorter one, and columns that stay in a cache are read from end to end.
    let text = transformed("chunk", &squares_of_columns(500, 841, 1));
    assert!(text.matches("phase").count() == 2 && text.contains("row buffer row0: f32[265]"), "{text}");
    left_alone("chunk", parse::parse(&squares_of_columns(500, 500, 1)).expect("a kernel").remove(0));
}

#[test]
fn a_transpose_goes_in_tiles() {
    let text = transformed(
        "tile",
        "kernel transpose (in0: f32[17420]) -> (out0: f32[17420])
  phase parallel i0 in 130
    stage vector i1 in 134
      %0 = load in0[130*i1 + i0] : f32
      store out0[134*i0 + i1] = %0 : f32
",
    );
    assert_eq!(text.matches("phase").count(), 4, "{text}");
}

/// A transpose of a matrix of so many columns, with 2048 rows that lie `pitch` elements apart.
fn transpose_of(columns: i64, pitch: i64) -> Kernel {
    let text = format!(
        "kernel transpose (in0: f32[{}]) -> (out0: f32[{}])
  phase parallel i0 in {columns}
    stage vector i1 in 2048
      %0 = load in0[{pitch}*i1 + i0] : f32
      store out0[2048*i0 + i1] = %0 : f32
",
        2048 * pitch,
        2048 * columns
    );
    parse::parse(&text).unwrap_or_else(|e| panic!("{e:?}")).remove(0)
}

#[test]
fn a_transpose_that_no_cache_holds_goes_past_them() {
    let tiles = |columns, pitch| {
        let mut kernel = transpose_of(columns, pitch);
        let before = Census::of(&kernel);
        tile::run(&mut kernel);
        Census::of(&kernel).check(&before, "tile", true).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        verify::verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        kernel.to_string()
    };
    // Rows of whole pages meet in the first cache: a page of each is read before the next rows are.
    let (pages, others, small) = (tiles(1024, 1024), tiles(1024, 1040), tiles(1008, 1024));
    assert!(pages.contains("stage sequential i4 in 64, i0 in 16 vector i1 in 16 past the caches"), "{pages}");
    assert!(others.contains("stage sequential i0 in 16 vector i1 in 16 past the caches"), "{others}");
    assert!(!small.contains("past the caches") && small.contains("stage sequential i0 in 16"), "{small}");
}

/// The sum of each element and its neighbour two steps before, where there is one, in both dimensions of a square.
fn sums_of_neighbours(side: i64) -> String {
    let last = side - 1;
    format!(
        "kernel sums (in0: f32[{all}]) -> (out0: f32[{all}])
  phase parallel i0 in {side}
    stage vector i1 in {side}
      %0 = load in0[{side}*i0 + i1] : f32
      %1 = index i0 - 2 : i64
      %2 = smax %1, 0 : i64
      %3 = smin %2, {last} : i64
      %4 = icmp.eq %3, %1 : m64
      %5 = index i1 - 2 : i64
      %6 = smax %5, 0 : i64
      %7 = smin %6, {last} : i64
      %8 = icmp.eq %7, %5 : m64
      %9 = and %4, %8 : m64
      %10 = load in0[{side}*(%3 in 0..={last}) + (%7 in 0..={last})] : f32
      %11 = fadd %0, %10 : f32
      %12 = mask_cast %9 : m32
      %13 = select %12, %11, %0 : f32
      store out0[{side}*i0 + i1] = %13 : f32
",
        all = side * side,
    )
}

#[test]
fn borders_are_nests_of_their_own() {
    let text = transformed("border", &sums_of_neighbours(200));
    assert_eq!(text.matches("phase").count(), 3, "{text}");
    // What is no border asks for nothing.
    let inner = text.rsplit("phase").next().unwrap_or_default();
    assert!(
        inner.starts_with(" parallel i0 in 198\n    stage vector i1 in 198") && !inner.contains("select"),
        "{text}"
    );
    // Long rows are cut in whole iterations.
    let long = transformed("border", &sums_of_neighbours(300));
    assert!(long.contains("stage vector i1 in 32\n") && long.contains("stage vector i1 in 268\n"), "{long}");
    left_alone("border", parse::parse(&sums_of_neighbours(80)).expect("a kernel").remove(0));
}

/// The sum of each element, the one so many rows above and the one so many below, where there are such.
fn sums_around(side: i64, reach: i64) -> String {
    let last = side - 1;
    format!(
        "kernel sums (in0: f32[{all}]) -> (out0: f32[{all}])
  phase parallel i0 in {side}
    stage vector i1 in {side}
      %0 = load in0[{side}*i0 + i1] : f32
      %1 = index i0 - {reach} : i64
      %2 = smax %1, 0 : i64
      %3 = icmp.eq %2, %1 : m64
      %4 = load in0[{side}*(%2 in 0..={last}) + i1] : f32
      %5 = fadd %0, %4 : f32
      %6 = mask_cast %3 : m32
      %7 = select %6, %5, %0 : f32
      %8 = index i0 + {reach} : i64
      %9 = smin %8, {last} : i64
      %10 = icmp.eq %9, %8 : m64
      %11 = load in0[{side}*(%9 in 0..={last}) + i1] : f32
      %12 = fadd %7, %11 : f32
      %13 = mask_cast %10 : m32
      %14 = select %13, %12, %7 : f32
      store out0[{side}*i0 + i1] = %14 : f32
",
        all = side * side,
    )
}

#[test]
fn narrow_borders_are_one_nest() {
    for (reach, borders) in [(1, vec!["i2 in 2"]), (12, vec!["i0 in 12, i2 in 2"]), (13, vec!["i0 in 13", "i0 in 13"])]
    {
        let text = transformed("border", &sums_around(200, reach));
        let mut phases: Vec<&str> = text.split("phase parallel ").skip(1).collect();
        let inner = phases.pop().unwrap_or_default();
        assert!(!inner.contains("select"), "{text}");
        let loops: Vec<&str> = phases.iter().filter_map(|phase| phase.lines().next()).collect();
        assert_eq!(loops, borders, "{text}");
    }
}

#[test]
fn a_long_row_is_cut() {
    let text = transformed(
        "chunk",
        "kernel row (in0: f32[70001]) -> (out0: f32[70001])
  phase
    stage vector i0 in 70001
      %0 = load in0[-i0 + 70000] : f32
      store out0[i0] = %0 : f32
",
    );
    assert_eq!(text.matches("phase").count(), 2, "{text}");
}

#[test]
fn a_short_row_is_written_out() {
    let text = transformed(
        "across",
        "kernel forces (in0: f32[120]) -> (out0: f32[4800], out1: f32[1600])
  phase parallel i0 in 40, i1 in 40
    row buffer row0: f32[3]
    stage vector i2 in 3
      %0 = load in0[3*i0 + i2] : f32
      %1 = load in0[3*i1 + i2] : f32
      %2 = fsub %0, %1 : f32
      %3 = fmul %2, %2 : f32
      fold r0 of %3 over i2, init 1.0, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
      store row0[i2] = %2
    stage vector i2 in 3
      %0 = load row0[i2] : f32
      %1 = fdiv %0, r0 : f32
      store out0[120*i0 + 3*i1 + i2] = %1 : f32
    stage
      store out1[40*i0 + i1] = r0 : f32
",
    );
    assert!(text.contains("vector i1 in 40"), "{text}");
}

/// Maxima and sums of windows of three by two over rows of 20 channels, and what is made of them.
fn windows(rows: i64, after: &str) -> String {
    format!(
        "kernel windows (in0: f32[{all}], in1: f32[1]) -> (out0: f32[{out}], out1: f32[{out}])
  phase parallel i3 in 6
    row buffer row0: f32[20]
    row buffer row1: f32[20]
    row buffer row2: f32[20]
    stage sequential i0 in {rows}, i1 in 2 vector i2 in 20
      %0 = load in0[40*i3 + 40*i0 + 20*i1 + i2] : f32
      %1 = load in1[0] : f32
      %2 = fmul %0, %0 : f32
      fold row0[i2], row1[i2] of %0, %2 over i0, i1, init %1, %1, identity -inf, -0.0
        with (a0: f32, a1: f32, x0: f32, x1: f32)
          %2 = fmax_pseudo a0, x0 : f32
          %3 = fadd a1, x1 : f32
          yield %2, %3
    stage vector i4 in 20
      %0 = load row0[i4] : f32
      %1 = load row1[i4] : f32
      %2 = fsub %1, %0 : f32
      store row2[i4] = %2
      store out0[20*i3 + i4] = %2 : f32
{after}",
        all = 40 * (rows + 5),
        out = 6 * 20,
    )
}

/// A stage that reads the row which the one before it left.
const OVER_THE_SAME_ROW: &str = "    stage vector i2 in 20
      %0 = load row2[i2] : f32
      %1 = fmul %0, %0 : f32
      store out1[20*i3 + i2] = %1 : f32
";

#[test]
fn folds_of_few_rows_are_written_out() {
    let text = transformed("unroll", &windows(3, OVER_THE_SAME_ROW));
    assert_eq!(text.matches("fmax_pseudo").count(), 6, "{text}");
    assert_eq!(text.matches("stage").count(), 1, "{text}");
    assert!(!text.contains("row buffer") && !text.contains("sequential"), "{text}");
}

/// Row buffers hold truth values as integers.
#[test]
fn folds_of_few_rows_of_truth_values_are_written_out() {
    let text = |outputs: &str, after: &str| {
        format!(
            "kernel odd (in0: pred[60]) -> ({outputs})
  phase
    row buffer row0: i32[20]
    stage sequential i0 in 3 vector i1 in 20
      %0 = load in0[20*i0 + i1] : u8 as i32
      %2 = icmp.ne %0, 0 : m32
      fold row0[i1] of %2 over i0 in order, init false
        with (a0: m32, x0: m32)
          %2 = xor a0, x0 : m32
          yield %2
    stage vector i1 in 20
      %0 = load row0[i1] : i32
      %2 = icmp.ne %0, 0 : m32
      %3 = mask_to_int %2 : i32
      store out0[i1] = %3 : u8
{after}"
        )
    };
    let whole = transformed("unroll", &text("out0: pred[20]", ""));
    assert!(!whole.contains("row0"), "{whole}");
    // Another loop reads the row after all.
    let later = "    stage sequential i2 in 1 vector i1 in 20
      %0 = load row0[i1] : i32
      store out1[i1] = %0 : u8
";
    let kept = transformed("unroll", &text("out0: pred[20], out1: pred[20]", later));
    assert!(kept.contains("store row0[i1] = "), "{kept}");
}

#[test]
fn a_row_that_a_loop_reads_stays() {
    let iterations = "    stage sequential i0 in 2 vector i2 in 20
      %0 = load row2[i2] : f32
      %1 = load row0[i2] : f32
      %2 = fmul %0, %1 : f32
      store out1[20*i3 + i2] = %2 : f32
";
    let text = transformed("unroll", &windows(3, iterations));
    assert_eq!(text.matches("stage").count(), 2, "{text}");
    assert!(text.matches("row buffer").count() == 2, "{text}");
}

#[test]
fn folds_of_many_rows_are_left_to_loops() {
    for text in [windows(14, OVER_THE_SAME_ROW), sums_of_columns(28)] {
        left_alone("unroll", parse::parse(&text).expect("a kernel").remove(0));
    }
    // Six rows could be written out, but what is folded reads what the kernel itself writes.
    let own = windows(3, OVER_THE_SAME_ROW).replace("load in0[40*i3 + 40*i0 + 20*i1 + i2]", "load out1[20*i3 + i2]");
    left_alone("unroll", parse::parse(&own).expect("a kernel").remove(0));
}

/// Two reductions over rows of a matrix, of which a result is used once more.
fn folded_rows(rows: i64) -> String {
    format!(
        "kernel rows (in0: f32[{all}], in1: f32[300], in2: f32[{rows}]) -> (out0: f32[{rows}], out1: f32[{rows}])
  phase parallel i1 in {rows}
    stage vector i0 in 300
      %0 = load in0[i0 + 300*i1] : f32
      %1 = load in1[i0] : f32
      %3 = fmul %0, %1 : f32
      %4 = load in2[i1] : f32
      fold r0 of %3 over i0, init %4, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
    stage vector i0 in 300
      %0 = load in0[i0 + 300*i1] : f32
      %1 = fsub %0, r0 : f32
      fold r1 of %1 over i0, init 0.0, identity -0.0
        with (a0: f32, x0: f32)
          %2 = fadd a0, x0 : f32
          yield %2
    stage
      store out0[i1] = r0 : f32
      store out1[i1] = r1 : f32
",
        all = 300 * rows,
    )
}

#[test]
fn several_rows_are_folded_side_by_side() {
    // 271 rows are four stretches of 67, and three.
    let text = transformed("jam", &folded_rows(271));
    assert!(text.contains("phase parallel i1 in 67") && text.contains("phase parallel i1 in 3"), "{text}");
    assert!(text.contains("fold r7") && text.contains("+ 20100]"), "{text}");
}

#[test]
fn few_rows_and_short_ones_are_folded_one_after_another() {
    for text in [folded_rows(255), folded_rows(271).replace("in 300", "in 30")] {
        left_alone("jam", parse::parse(&text).expect("a kernel").remove(0));
    }
}

/// Running sums down the columns of a matrix, of the numbers before each: they are stored before the element is added.
fn running_sums(columns: i64, grouping: &str) -> String {
    format!(
        "kernel running (in0: f32[{all}], in1: f32[1]) -> (out0: f32[{all}], out1: f32[{columns}])
  phase
    row buffer row0: f32[{columns}]
    stage vector i1 in {columns}
      %0 = load in1[0] : f32
      store row0[i1] = %0
    stage sequential i0 in 61 vector i1 in {columns}{grouping}
      %0 = load row0[i1] : f32
      %1 = load in0[{columns}*i0 + i1] : f32
      %2 = fmul %1, %1 : f32
      %3 = fadd %0, %2 : f32
      store row0[i1] = %3
      store out0[{columns}*i0 + i1] = %0 : f32
    stage vector i1 in {columns}
      %0 = load row0[i1] : f32
      store out1[i1] = %0 : f32
",
        all = 61 * columns,
    )
}

#[test]
fn scans_take_several_iterations_at_once() {
    // 61 iterations are seven times eight, and five; the carry joins the eight elements at the end.
    let text = transformed("scan", &running_sums(3, " in any grouping"));
    assert!(text.contains("sequential i2 in 7 vector") && text.contains("sequential i3 in 5 vector"), "{text}");
    assert_eq!(text.matches("in any grouping").count(), 2, "{text}");
    assert_eq!(text.matches("fadd").count(), 12 + 8 + 1, "{text}");
}

#[test]
fn scans_of_long_rows_and_in_order_keep_it() {
    for (columns, grouping) in [(40, " in any grouping"), (40, ""), (3, ""), (2, "")] {
        let order = running_sums(columns, "");
        let text = transformed("scan", &order);
        assert_eq!(text.matches("fadd").count(), 8 + 1, "{text}");
        let any = transformed("scan", &running_sums(columns, grouping));
        assert_eq!(any.replace(" in any grouping", ""), text);
    }
}

/// Running sums of the rows of a matrix, one after another, over two loops.
fn running_over_two(columns: i64) -> String {
    format!(
        "kernel running (in0: f32[{all}]) -> (out0: f32[{all}])
  phase
    row buffer row0: f32[1]
    stage
      store row0[0] = 0.0
    stage sequential i0 in 5, i1 in {columns}
      %0 = load row0[0] : f32
      %1 = load in0[{columns}*i0 + i1] : f32
      %2 = fadd %0, %1 : f32
      store row0[0] = %2
      store out0[{columns}*i0 + i1] = %2 : f32
",
        all = 5 * columns,
    )
}

#[test]
fn what_is_left_over_stays_in_its_place() {
    let text = transformed("scan", &running_over_two(24));
    assert!(text.contains("sequential i0 in 5, i3 in 6"), "{text}");
}

#[test]
fn iterations_that_do_not_fill_a_piece_are_left_alone() {
    let few = running_sums(3, "").replace("i0 in 61", "i0 in 3");
    for text in [few, running_over_two(23), sums_of_columns(250)] {
        left_alone("scan", parse::parse(&text).expect("a kernel").remove(0));
    }
}

/// The checker sees elements that a transformation forgets, computes twice or does not combine.
#[test]
fn broken_transformations_are_refused() {
    let kernel = parse::parse(SUM_OF_ALL).expect("a kernel").remove(0);
    let before = Census::of(&kernel);
    let mut whole = kernel.clone();
    partial::run(&mut whole);
    let refused = |change: &dyn Fn(&mut Kernel), what: &str| {
        let mut broken = whole.clone();
        change(&mut broken);
        let error = Census::of(&broken).check(&before, "partial", true).expect_err(what);
        assert!(error.to_string().contains(what), "{error}");
    };
    refused(&|k| drop(k.phases.remove(1)), "folds another number of elements");
    refused(&|k| k.phases.insert(0, k.phases[1].clone()), "folds another number of elements");
    refused(&|k| drop(k.phases.pop()), "stores another number of elements");
    let shorter = |k: &mut Kernel| {
        let Some(Phase::Nest(last)) = k.phases.last_mut() else { panic!("a nest") };
        last.stages[0].vector.extent -= 1;
    };
    refused(&shorter, "folds another number of parts");
}

/// As many elements, but not the same: of an array that is updated the census sees it, of every other the verifier.
#[test]
fn transformations_that_store_elsewhere_are_refused() {
    let rows = |result: &str, pitch: i64| {
        format!(
            "kernel rows (in0: f32[4000], in1: f32[1000]) -> ({result})
  phase parallel i0 in 10
    stage vector i1 in 100
      %0 = load in1[100*i0 + i1] : f32
      store out0[{pitch}*i0 + i1] = %0 : f32
"
        )
    };
    let kernel = |text: &str| parse::parse(text).unwrap_or_else(|e| panic!("{e:?}")).remove(0);
    let updated = |pitch| kernel(&rows("out0: f32[4000] over in0", pitch));
    let before = Census::of(&updated(150));
    for pitch in [149, 100, 151] {
        let error = Census::of(&updated(pitch)).check(&before, "tile", true).expect_err("other elements");
        assert!(error.to_string().contains("stores other elements"), "{error}");
    }
    let mut cut = updated(150);
    each_nest(&mut cut, |nest| {
        let (whole, counts) = split::pieces(nest, &[nest.parallel[0].axis], 10, 3, &mut split::Fresh::of(nest))
            .map(|cut| (cut.rest, cut.whole))?;
        let (mut pieces, outer) = counts;
        pieces.parallel.push(outer);
        Some(std::iter::once(pieces).chain(whole).collect())
    });
    assert_eq!((cut.phases.len(), Census::of(&cut).check(&before, "tile", true)), (2, Ok(())));
    assert_eq!(verify::verify(&kernel(&rows("out0: f32[1000]", 100))), Ok(()));
    let error = verify::verify(&kernel(&rows("out0: f32[1000]", 99))).expect_err("an element is not written");
    assert!(error.to_string().contains("byte 3964 is never written"), "{error}");
}

/// Differences of the components of points, in phases of their own: `second` and `stores` say what the second phase reads and where both
/// store.
fn components(second: &str, [to_first, to_second]: [&str; 2]) -> String {
    let outputs = if to_second.starts_with("out1") { "out0: f32[40], out1: f32[40]" } else { "out0: f32[80]" };
    format!(
        "kernel components (in0: f32[120], in1: f32[40]) -> ({outputs})
  phase
    stage vector i0 in 40
      %0 = load in0[3*i0] : f32
      %1 = load in0[3*i0 + 1] : f32
      %2 = fsub %0, %1 : f32
      store {to_first} = %2 : f32
  phase
    stage vector i1 in 40
      %0 = load {second} : f32
      %1 = fadd %0, %0 : f32
      store {to_second} = %1 : f32
"
    )
}

#[test]
fn phases_that_read_the_same_become_one() {
    for stores in [["out0[i0]", "out0[i1 + 40]"], ["out0[2*i0 + 1]", "out0[2*i1]"], ["out0[i0]", "out1[i1]"]] {
        let text = transformed("together", &components("in0[3*i1 + 2]", stores));
        assert_eq!(text.matches("  phase").count(), 1, "{text}");
    }
    // Nothing shared, but one stores between what the other does.
    let text = transformed("together", &components("in1[i1]", ["out0[2*i0]", "out0[2*i1 + 1]"]));
    assert_eq!(text.matches("  phase").count(), 1, "{text}");
    let left = |second: &str, stores| {
        let text = components(second, stores);
        left_alone("together", parse::parse(&text).unwrap_or_else(|e| panic!("{e:?}")).remove(0));
    };
    // Nothing shared; what the first phase wrote; elements that both write, one after another.
    left("in1[i1]", ["out0[i0]", "out0[i1 + 40]"]);
    left("out0[i1]", ["out0[i0]", "out1[i1]"]);
    left("in0[3*i1 + 2]", ["out0[i0]", "out0[i1 + 30]"]);
    left("in0[3*i1 + 2]", ["out0[2*i0]", "out0[i1]"]);
    left("in1[i1]", ["out0[2*i0]", "out0[2*i1]"]);
    left("in1[i1]", ["out0[2*i0]", "out1[2*i1 + 1]"]);
}
