//! Convolutions that are blocked matrix products: strides, dilations, padding, groups, reversal and any order of
//! dimensions, against the interpreter.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, interp, shape, text};
use brolga_runtime::{ArrayLiteral, Literal, Program, RunOptions};
use brolga_tests::compare::{Kind, Tolerance, compare};
use brolga_tests::ways;

/// Quarters between -2 and 2: their products and sums are exact in `f32`, in whatever order they are added.
fn quarters(dims: &[i64], seed: u32) -> ArrayLiteral {
    let mut state = seed;
    let n = dims.iter().product::<i64>() as usize;
    let elements: Vec<f32> = (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 24) % 17) as f32 / 4.0 - 2.0
        })
        .collect();
    ArrayLiteral::from_elements(dims, &elements)
}

fn dims(text: &str) -> Vec<i64> {
    text.split(',').map(|d| d.parse().unwrap()).collect()
}

/// Compares `f32[out] convolution(f32[lhs], f32[rhs]), attributes`, then a bias and a maximum with zero; how many blocked
/// contractions it became.
#[track_caller]
fn check(lhs: &str, rhs: &str, out: &str, feature: usize, attributes: &str) -> usize {
    let features = dims(out)[feature];
    let source = format!(
        "HloModule m

ENTRY main {{
  x = f32[{lhs}] parameter(0)
  k = f32[{rhs}] parameter(1)
  b = f32[{features}] parameter(2)
  c = f32[{out}] convolution(x, k), {attributes}
  bb = f32[{out}] broadcast(b), dimensions={{{feature}}}
  s = f32[{out}] add(c, bb)
  z = f32[] constant(0)
  zb = f32[{out}] broadcast(z), dimensions={{}}
  ROOT r = f32[{out}] maximum(s, zb)
}}
"
    );
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let inputs = [quarters(&dims(lhs), 1), quarters(&dims(rhs), 2), quarters(&[features], 3)];
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let want = interp::run(&module, &literals, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let options = CompileOptions { parallel_grain: Some(1), ..CompileOptions::default() };
    let artifact = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let blocked = artifact.schedule.kernels.values().filter(|k| k.to_string().contains("contraction")).count();
    assert!(blocked > 0, "no contraction\n{source}");
    let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
    let exact = Tolerance { kind: Kind::Exact, atol: 0.0, rtol: 0.0, max_ulp: 0.0, int_atol: 0.0 };
    for threads in [1, 3] {
        let options = RunOptions { threads, ..RunOptions::default() };
        let got = program.run_with(&inputs.iter().collect::<Vec<_>>(), &options).unwrap_or_else(|e| panic!("{e}"));
        compare(&got[0], want.arrays()[0], &exact).unwrap_or_else(|e| panic!("{e}\n{source}"));
    }
    blocked
}

/// Elements of the base that lie apart meet every so many elements of the kernel: a convolution for each place between them.
#[test]
fn transposed_convolutions_are_taken_apart() {
    for (lhs, rhs, out, window, parts) in [
        ("2,7,9,8", "4,4,8,16", "2,14,17,16", "size=4x4 pad=2_2x1_2 lhs_dilate=2x2", 4),
        // Of some places there is no element of the kernel.
        ("1,10,10,8", "2,2,8,16", "1,29,30,16", "size=2x2 pad=1_1x0_3 lhs_dilate=3x3", 4),
        ("2,12,12,16", "1,1,16,16", "2,24,23,16", "size=1x1 pad=0_1x0_0 lhs_dilate=2x2", 1),
        // Padding that cuts.
        ("1,9,9,8", "3,5,8,16", "1,14,20,16", "size=3x5 pad=-2_1x3_-4 lhs_dilate=2x3", 6),
        // A dimension with a stride, or whose kernel has its elements apart too, stays whole.
        ("1,9,9,8", "3,3,8,16", "1,17,9,16", "size=3x3 stride=1x2 pad=1_1x1_1 lhs_dilate=2x2", 2),
        ("1,9,9,8", "3,3,8,16", "1,17,17,16", "size=3x3 pad=2_2x1_1 lhs_dilate=2x2 rhs_dilate=2x1", 2),
        ("1,9,9,8", "3,3,8,16", "1,17,17,16", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1", 1),
        // Few products.
        ("1,4,4,4", "3,3,4,4", "1,7,7,4", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", 1),
    ] {
        let attributes = format!("window={{{window}}}, dim_labels=b01f_01io->b01f");
        assert_eq!(check(lhs, rhs, out, 3, &attributes), parts, "{window}");
    }
    let attributes = "window={size=3x4 pad=1_1x2_2 lhs_dilate=2x2}, dim_labels=bf01_oi01->bf01";
    assert_eq!(check("2,8,9,10", "16,8,3,4", "2,16,17,20", 1, attributes), 4);
    let attributes = "window={size=3x3 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f, feature_group_count=2";
    assert_eq!(check("1,9,10,16", "3,3,8,24", "1,17,19,24", 3, attributes), 4);
}

#[test]
fn channels_last() {
    for (lhs, rhs, out, window) in [
        ("2,9,11,8", "3,3,8,16", "2,7,9,16", "size=3x3"),
        ("2,9,11,8", "3,3,8,16", "2,9,11,16", "size=3x3 pad=1_1x1_1"),
        ("1,13,11,3", "7,7,3,16", "1,7,6,16", "size=7x7 stride=2x2 pad=3_3x3_3"),
        ("1,14,15,16", "3,3,16,5", "1,10,11,5", "size=3x3 rhs_dilate=2x2"),
        ("1,6,7,8", "3,3,8,16", "1,11,13,16", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2"),
        ("1,9,9,8", "3,3,8,16", "1,9,9,16", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1"),
        ("1,9,9,8", "3,3,8,16", "1,6,8,16", "size=3x3 pad=-1_0x1_0"),
        ("3,5,5,32", "1,1,32,40", "3,5,5,40", "size=1x1"),
        ("1,4,227,4", "2,3,4,8", "1,3,225,8", "size=2x3"),
        ("1,3,600,4", "2,3,4,8", "1,2,598,8", "size=2x3"),
    ] {
        check(lhs, rhs, out, 3, &format!("window={{{window}}}, dim_labels=b01f_01io->b01f"));
    }
}

#[test]
fn other_orders_of_dimensions() {
    let window = "window={size=3x3 pad=1_1x1_1}";
    check("2,8,9,11", "16,8,3,3", "2,16,9,11", 1, &format!("{window}, dim_labels=bf01_oi01->bf01"));
    check("9,11,2,8", "16,3,3,8", "9,16,11,2", 1, &format!("{window}, dim_labels=01bf_o01i->0f1b"));
    check("2,8,30", "5,8,16", "2,26,16", 2, "window={size=5}, dim_labels=bf0_0io->b0f");
    check("1,5,6,7,4", "2,3,2,4,12", "1,4,4,6,12", 4, "window={size=2x3x2}, dim_labels=b012f_012io->b012f");
    check("64,48", "48,40", "64,40", 1, "window={}, dim_labels=bf_io->bf");
}

#[test]
fn groups_of_features() {
    let labels = "dim_labels=b01f_01io->b01f";
    let window = "window={size=3x3 pad=1_1x1_1}";
    check("2,9,11,8", "3,3,4,16", "2,9,11,16", 3, &format!("{window}, {labels}, feature_group_count=2"));
    check("1,9,11,12", "3,3,3,24", "1,9,11,24", 3, &format!("{window}, {labels}, feature_group_count=4"));
    let labels = "dim_labels=bf01_oi01->bf01";
    check("1,12,9,11", "24,3,3,3", "1,24,9,11", 1, &format!("{window}, {labels}, feature_group_count=4"));
}

/// Features before the spatial dimensions, batches between them, and kernels in any order: transposed to the one with features last.
#[test]
fn features_anywhere() {
    let window = "window={size=3x3 pad=1_1x0_2 stride=1x2}";
    check("2,5,9,8", "7,5,3,3", "2,7,9,4", 1, &format!("{window}, dim_labels=bf01_oi01->bf01"));
    check("5,9,2,8", "3,7,5,3", "9,2,4,7", 3, &format!("{window}, dim_labels=f0b1_0oi1->0b1f"));
    check("2,6,9,8", "8,3,3,3", "2,8,9,4", 1, &format!("{window}, dim_labels=bf01_oi01->bf01, feature_group_count=2"));
    check("4,6,40", "8,6,5", "4,8,40", 1, "window={size=5 pad=2_2}, dim_labels=bf0_oi0->bf0");
    check("2,3,6,5,6", "8,3,2,2,2", "2,8,5,4,5", 1, "window={size=2x2x2}, dim_labels=bf012_oi012->bf012");
    // What a gradient by the kernel is: batches are contracted.
    check("4,6,12,12", "4,5,10,10", "6,5,3,3", 1, "window={size=10x10}, dim_labels=fb01_io01->bf01");
    // A kernel that does not stay in a cache is copied as it lies.
    check("1,96,5,5", "160,96,3,3", "1,160,5,5", 1, "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01");
}

/// Narrow floats and small integers are multiplied in wider floats.
#[test]
fn other_types() {
    let program = |base: &str, kernel: &str, out: &str, labels: &str, padding: &str| {
        let [b, k, o] = match labels {
            "bf01_oi01->bf01" => ["2,5,9,8", "7,5,3,3", "2,7,9,8"],
            _ => ["2,9,8,5", "3,3,5,7", "2,9,8,7"],
        };
        format!(
            "HloModule m\nENTRY e {{\n  x = {base}[{b}] parameter(0)\n  k = {kernel}[{k}] parameter(1)\n  \
             ROOT c = {out}[{o}] convolution(x, k), window={{size=3x3 pad={padding}}}, dim_labels={labels}\n}}\n"
        )
    };
    for labels in ["b01f_01io->b01f", "bf01_oi01->bf01"] {
        for types in [["bf16", "bf16", "bf16"], ["bf16", "bf16", "f32"], ["bf16", "f32", "f32"], ["f64", "f64", "f64"]]
        {
            let [base, kernel, out] = types;
            let tolerance = if out == "bf16" { 1e-2 } else { 1e-5 };
            let text =
                brolga_tests::ways::check(&program(base, kernel, out, labels, "1_1x1_1"), tolerance).kernel_text();
            assert!(text.contains("contraction"), "{types:?}\n{text}");
        }
        for types in
            [["s8", "s8", "s32"], ["u8", "s8", "s32"], ["s16", "s16", "s32"], ["s8", "s8", "s8"], ["u16", "u16", "u64"]]
        {
            let [base, kernel, out] = types;
            let text = brolga_tests::ways::check(&program(base, kernel, out, labels, "1_1x1_1"), 0.0).kernel_text();
            assert!(text.contains("contraction"), "{types:?}\n{text}");
        }
        // Products of words are not exact in any float.
        let text = brolga_tests::ways::check(&program("s32", "s32", "s32", labels, "1_1x1_1"), 0.0).kernel_text();
        assert!(!text.contains("contraction"), "{text}");
    }
}

/// `ty[out] convolution(ty[lhs], ty[rhs])` of few features, then a negation; the kernels.
#[track_caller]
fn few(ty: &str, [lhs, rhs, out]: [&str; 3], attributes: &str) -> String {
    let source = format!(
        "HloModule m

ENTRY main {{
  x = {ty}[{lhs}] parameter(0)
  k = {ty}[{rhs}] parameter(1)
  c = {ty}[{out}] convolution(x, k), {attributes}
  ROOT r = {ty}[{out}] negate(c)
}}
"
    );
    ways::check(&source, if ty == "bf16" { 2e-2 } else { 1e-4 }).kernel_text()
}

/// Convolutions of few features are sums along the channels of their windows.
#[test]
fn few_features_are_sums_along_channels() {
    let labels = "dim_labels=b01f_01io->b01f";
    let same = format!("window={{size=3x3 pad=1_1x1_1}}, {labels}");
    for (ty, shapes, attributes) in [
        ("f32", ["1,20,12,32", "3,3,32,1", "1,20,12,1"], same.as_str()),
        ("f64", ["2,9,9,8", "3,3,8,1", "2,9,9,1"], same.as_str()),
        ("bf16", ["1,9,9,16", "3,3,16,1", "1,9,9,1"], same.as_str()),
        ("f32", ["1,12,12,32", "3,3,32,3", "1,12,12,3"], same.as_str()),
        ("f32", ["2,19,18,20", "1,1,20,1", "2,19,18,1"], &format!("window={{size=1x1}}, {labels}")),
        ("f32", ["1,8,8,2048", "3,3,2048,1", "1,8,8,1"], same.as_str()),
        ("f32", ["1,30,30,2", "3,3,2,1", "1,28,28,1"], &format!("window={{size=3x3}}, {labels}")),
        (
            "f32",
            ["1,12,12,64", "2,3,16,4", "1,11,10,4"],
            &format!("window={{size=2x3}}, {labels}, feature_group_count=4"),
        ),
        ("f32", ["1,30,20,16", "3,3,16,1", "1,14,9,1"], &format!("window={{size=3x3 stride=2x2}}, {labels}")),
        ("f32", ["1,12,14,16", "3,3,16,1", "1,8,10,1"], &format!("window={{size=3x3 rhs_dilate=2x2}}, {labels}")),
        ("f32", ["1,16,30,31", "1,16,3,3", "1,1,30,31"], "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"),
    ] {
        let kernels = few(ty, shapes, attributes);
        // Few steps are written out, each position in a lane of its own.
        let written_out = kernels.contains("store out0[i") && !kernels.contains("fold ");
        assert!(!kernels.contains("contraction") && (kernels.contains("fold r0 of") || written_out), "{kernels}");
        assert!(!kernels.contains("over i1 in order"), "{kernels}");
    }
    // One channel before its positions, whether windows reach beyond the base or not: a row of positions.
    for (shapes, attributes) in [
        (["1,1,900", "1,1,600", "1,1,1499"], "window={size=600 pad=599_599}, dim_labels=bf0_oi0->bf0"),
        (["1,1,3000", "1,1,70", "1,1,2931"], "window={size=70}, dim_labels=bf0_oi0->bf0"),
    ] {
        assert!(!few("f32", shapes, attributes).contains("fold r0 of"), "{attributes}");
    }
    // And behind them, where a row of its features would be one element.
    let same = "window={size=31 pad=15_15}, dim_labels=b0f_0io->b0f";
    for (ty, shapes, attributes) in [
        ("f32", ["1,500,1", "31,1,1", "1,500,1"], same),
        ("f64", ["1,500,1", "31,1,1", "1,500,1"], same),
        ("f64", ["2,40,50,1", "3,3,1,1", "2,38,48,1"], &format!("window={{size=3x3}}, {labels}")),
    ] {
        let kernels = few(ty, shapes, attributes);
        let along = |line: &str| line.contains("stage vector") && !line.ends_with("in 1");
        assert!(kernels.lines().any(along), "{kernels}");
    }
}
