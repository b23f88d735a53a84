//! Softmaxes and norms over dimensions that are not the last: one kernel, which gives what the interpreter gives, the same bits at
//! every width and on any number of threads.

use brolga_tests::ways::check;

/// As [`check`], of a program that is one kernel.
#[track_caller]
fn one_kernel(source: &str, rtol: f64) -> String {
    let artifact = check(source, rtol);
    assert_eq!(artifact.schedule.kernels.len(), 1, "{source}\n{}", artifact.kernel_text());
    artifact.kernel_text()
}

const REDUCERS: &str = "HloModule m
add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }
max { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] maximum(x, y) }
";

/// The softmax of `f32[shape]` over its dimensions `over`; `kept` are the others and `sizes` their extents.
fn softmax(shape: &str, over: &str, kept: &str, sizes: &str) -> String {
    format!(
        "{REDUCERS}ENTRY e {{
  x = f32[{shape}] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  most = f32[{sizes}] reduce(x, low), dimensions={{{over}}}, to_apply=max
  mosts = f32[{shape}] broadcast(most), dimensions={{{kept}}}
  less = f32[{shape}] subtract(x, mosts)
  exp = f32[{shape}] exponential(less)
  sum = f32[{sizes}] reduce(exp, zero), dimensions={{{over}}}, to_apply=add
  sums = f32[{shape}] broadcast(sum), dimensions={{{kept}}}
  ROOT out = f32[{shape}] divide(exp, sums)
}}
"
    )
}

#[test]
fn softmaxes_of_columns_are_one_kernel() {
    // Few columns and many, an iteration that is not full, several dimensions folded and kept, and rows that are written out.
    for (shape, over, kept, sizes) in [
        ("40,72", "0", "1", "72"),
        ("3,33,5,8", "1", "0,2,3", "3,5,8"),
        ("2,6,7,17", "1,2", "0,3", "2,17"),
        ("5,9", "0", "1", "9"),
        ("1,12,1,9", "1", "0,2,3", "1,1,9"),
        ("300,1,701", "0", "1,2", "1,701"),
    ] {
        one_kernel(&softmax(shape, over, kept, sizes), 1e-5);
    }
}

#[test]
fn many_columns_are_cut_into_strips() {
    let text = one_kernel(&softmax("400,1000", "0", "1", "1000"), 1e-5);
    assert!(text.contains("phase parallel") && !text.contains("row buffer row0: f32[1000]"), "{text}");
    // Columns that fit are read from end to end.
    let text = one_kernel(&softmax("60,600", "0", "1", "600"), 1e-5);
    assert!(text.contains("row buffer row0: f32[600]"), "{text}");
}

/// What costs and is needed again lies in an output that is written last, in scratch where its numbers are narrower, or nowhere
/// where it is an output itself.
#[test]
fn elements_that_cost_are_computed_once() {
    let exponentials = |text: &str| text.matches("12583039.0 : f32").count() / 2;
    let of = |source: &str, rtol: f64| {
        let text = one_kernel(source, rtol);
        assert!(exponentials(&text) > 0, "{text}");
        // Iterations that are written out together are two at most.
        assert!(exponentials(&text) <= 2, "{text}");
        text
    };
    let plain = softmax("34,40", "0", "1", "40");
    let text = of(&plain, 1e-5);
    assert!(text.contains("load out0") && text.contains("may be one memory: out0, in0"), "{text}");
    let text = of(&plain.replace("f32[", "bf16["), 0.02);
    assert!(text.contains("scratch0: f32[1360]"), "{text}");
    let both = plain.replace(
        "ROOT out = f32[34,40] divide(exp, sums)",
        "out = f32[34,40] divide(exp, sums)\n \
        ROOT t = (f32[34,40], f32[34,40]) tuple(exp, out)",
    );
    of(&both, 1e-5);
    // Read by two stages, one of which also computes cheap numbers from it that the other needs.
    let thrice = plain.replace(
        "ROOT out = f32[34,40] divide(exp, sums)",
        "some = f32[34,40] subtract(exp, sums)
  square = f32[34,40] multiply(some, some)
  total = f32[40] reduce(square, zero), dimensions={0}, to_apply=add
  totals = f32[34,40] broadcast(total), dimensions={1}
  part = f32[34,40] divide(some, totals)
  out = f32[34,40] add(part, exp)
  ROOT t = (f32[34,40], f32[34,40]) tuple(some, out)",
    );
    of(&thrice, 1e-4);
}

#[test]
fn padded_columns_are_stored_in_place() {
    let (padded, plain) = (
        "ROOT t = (f32[36,48], f32[44]) tuple(wide, sums_wide)",
        "out = f32[34,40] divide(exp, sums)
  wide = f32[36,48] pad(out, zero), padding=1_1x3_5
  sums_wide = f32[44] pad(sum, zero), padding=4_0",
    );
    let source = softmax("34,40", "0", "1", "40");
    let source = source.replace("ROOT out = f32[34,40] divide(exp, sums)", &format!("{plain}\n  {padded}"));
    // The sum has two users: its padding is a kernel of its own.
    let artifact = check(&source, 1e-5);
    assert_eq!(artifact.schedule.kernels.len(), 2, "{}", artifact.kernel_text());
}

#[test]
fn few_columns_and_long_ones_stay_apart() {
    for (shape, sizes) in [("64,5", "5"), ("1000,140", "140")] {
        let artifact = check(&softmax(shape, "0", "1", sizes), 1e-4);
        assert!(artifact.schedule.kernels.len() > 1, "{}", artifact.kernel_text());
    }
}

#[test]
fn norms_of_columns_store_what_is_asked_for() {
    let text = one_kernel(
        &format!(
            "{REDUCERS}ENTRY e {{
  x = f32[4,30,40] parameter(0)
  scale = f32[30] parameter(1)
  zero = f32[] constant(0)
  n = f32[] constant(30)
  ns = f32[4,40] broadcast(n), dimensions={{}}
  sum = f32[4,40] reduce(x, zero), dimensions={{1}}, to_apply=add
  mean = f32[4,40] divide(sum, ns)
  means = f32[4,30,40] broadcast(mean), dimensions={{0,2}}
  less = f32[4,30,40] subtract(x, means)
  square = f32[4,30,40] multiply(less, less)
  squares = f32[4,40] reduce(square, zero), dimensions={{1}}, to_apply=add
  variance = f32[4,40] divide(squares, ns)
  little = f32[] constant(1e-3)
  littles = f32[4,40] broadcast(little), dimensions={{}}
  above = f32[4,40] add(variance, littles)
  root = f32[4,40] rsqrt(above)
  column = f32[4,1,40] reshape(root)
  flat = f32[4,40] reshape(column)
  roots = f32[4,30,40] broadcast(flat), dimensions={{0,2}}
  normal = f32[4,30,40] multiply(less, roots)
  scales = f32[4,30,40] broadcast(scale), dimensions={{1}}
  out = f32[4,30,40] multiply(normal, scales)
  ROOT t = (f32[4,30,40], f32[4,40], f32[4,40], f32[4,30,40]) tuple(out, mean, sum, less)
}}
"
        ),
        1e-4,
    );
    // A root of each column, and not of each element.
    assert_eq!(text.matches("sqrt").count(), 1, "{text}");
}

#[test]
fn truth_values_and_integers_of_columns() {
    one_kernel(
        "HloModule m
or { x = pred[] parameter(0)\n y = pred[] parameter(1)\n ROOT s = pred[] or(x, y) }
sum { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT s = s32[] add(x, y) }
ENTRY e {
  p = pred[20,33] parameter(0)
  x = s32[20,33] parameter(1)
  no = pred[] constant(false)
  zero = s32[] constant(0)
  any = pred[33] reduce(p, no), dimensions={0}, to_apply=or
  none = pred[33] not(any)
  nones = pred[20,33] broadcast(none), dimensions={1}
  zeros = s32[20,33] broadcast(zero), dimensions={}
  kept = s32[20,33] select(nones, zeros, x)
  total = s32[33] reduce(kept, zero), dimensions={0}, to_apply=sum
  totals = s32[20,33] broadcast(total), dimensions={1}
  ROOT out = s32[20,33] subtract(totals, x)
}
",
        0.0,
    );
}

#[test]
fn pairs_and_complex_and_narrow_numbers_of_columns() {
    // The largest number of each column with its row, and every element's distance from it.
    one_kernel(
        "HloModule m
pick {
  x = f32[] parameter(0)\n i = s32[] parameter(1)\n y = f32[] parameter(2)\n j = s32[] parameter(3)
  more = pred[] compare(y, x), direction=GT
  v = f32[] select(more, y, x)\n k = s32[] select(more, j, i)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[19,24] parameter(0)
  rows = s32[19,24] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  both = (f32[24], s32[24]) reduce(x, rows, low, zero), dimensions={0}, to_apply=pick
  most = f32[24] get-tuple-element(both), index=0
  where = s32[24] get-tuple-element(both), index=1
  mosts = f32[19,24] broadcast(most), dimensions={1}
  places = s32[19,24] broadcast(where), dimensions={1}
  away = s32[19,24] subtract(rows, places)
  steps = f32[19,24] convert(away)
  less = f32[19,24] subtract(mosts, x)
  out = f32[19,24] multiply(less, steps)
  ROOT t = (f32[19,24], s32[24]) tuple(out, where)
}
",
        0.0,
    );
    one_kernel(
        "HloModule m
add { x = c64[] parameter(0)\n y = c64[] parameter(1)\n ROOT s = c64[] add(x, y) }
ENTRY e {
  x = c64[12,17] parameter(0)
  zero = c64[] constant((0, 0))
  sum = c64[17] reduce(x, zero), dimensions={0}, to_apply=add
  square = c64[17] multiply(sum, sum)
  squares = c64[12,17] broadcast(square), dimensions={1}
  ROOT out = c64[12,17] subtract(squares, x)
}
",
        1e-4,
    );
    one_kernel(
        "HloModule m
add { x = bf16[] parameter(0)\n y = bf16[] parameter(1)\n ROOT s = bf16[] add(x, y) }
ENTRY e {
  x = bf16[16,40] parameter(0)
  zero = bf16[] constant(0)
  sum = bf16[40] reduce(x, zero), dimensions={0}, to_apply=add
  n = bf16[] constant(16)
  ns = bf16[40] broadcast(n), dimensions={}
  mean = bf16[40] divide(sum, ns)
  means = bf16[16,40] broadcast(mean), dimensions={1}
  ROOT out = bf16[16,40] subtract(x, means)
}
",
        0.02,
    );
}

#[test]
fn a_broadcast_that_turns_dimensions_around_is_no_member() {
    // Square, so that every extent fits: the value of column (i, j) goes to the elements of column (j, i).
    let artifact = check(
        &format!(
            "{REDUCERS}ENTRY e {{
  x = f32[9,12,9] parameter(0)
  zero = f32[] constant(0)
  sum = f32[9,9] reduce(x, zero), dimensions={{1}}, to_apply=add
  sums = f32[9,12,9] broadcast(sum), dimensions={{2,0}}
  ROOT out = f32[9,12,9] subtract(x, sums)
}}
"
        ),
        1e-4,
    );
    assert_eq!(artifact.schedule.kernels.len(), 2, "{}", artifact.kernel_text());
    let artifact = check(
        &format!(
            "{REDUCERS}ENTRY e {{
  x = f32[9,9,12] parameter(0)
  zero = f32[] constant(0)
  sum = f32[9,9] reduce(x, zero), dimensions={{2}}, to_apply=add
  turned = f32[9,9] broadcast(sum), dimensions={{1,0}}
  twice = f32[9,9] add(turned, sum)
  sums = f32[9,9,12] broadcast(sum), dimensions={{1,0}}
  out = f32[9,9,12] subtract(x, sums)
  ROOT t = (f32[9,9], f32[9,9,12]) tuple(twice, out)
}}
"
        ),
        1e-4,
    );
    assert!(artifact.schedule.kernels.len() > 1, "{}", artifact.kernel_text());
}

#[test]
fn reductions_that_nothing_follows_are_folded_in_parts() {
    let artifact = check(
        &format!(
            "{REDUCERS}ENTRY e {{
  x = f32[2048,64] parameter(0)
  zero = f32[] constant(0)
  sum = f32[64] reduce(x, zero), dimensions={{0}}, to_apply=add
  ROOT out = f32[64] negate(sum)
}}
"
        ),
        1e-3,
    );
    assert!(artifact.kernel_text().contains("scratch"), "{}", artifact.kernel_text());
}
