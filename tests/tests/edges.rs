//! Inputs at the edges in every engine: infinities, NaN, limits, and what specifications say of them.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, interp, shape, text};
use brolga_runtime::{ArrayLiteral, Literal, Program};
use brolga_tests::compare::{Kind, Tolerance, compare};

/// Runs an entry computation in the interpreter and in compiled code; the leaves of its result are `want`, NaN for NaN.
#[track_caller]
fn check(kind: Kind, body: &str, inputs: &[ArrayLiteral], want: &[ArrayLiteral]) {
    check_module(kind, &format!("ENTRY main {{\n{body}\n}}"), inputs, want);
}

/// As [`check`], with the computations that the entry calls.
#[track_caller]
fn check_module(kind: Kind, computations: &str, inputs: &[ArrayLiteral], want: &[ArrayLiteral]) {
    let source = format!("HloModule edges\n{computations}");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let interpreted = interp::run(&module, &literals, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
    let compiled = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
    let tolerance = Tolerance { kind, atol: 0.0, rtol: 1e-14, max_ulp: 0.0, int_atol: 0.0 };
    assert_eq!((interpreted.arrays().len(), compiled.len()), (want.len(), want.len()));
    for (k, want) in want.iter().enumerate() {
        compare(interpreted.arrays()[k], want, &tolerance).unwrap_or_else(|e| panic!("{k}, the interpreter: {e}"));
        compare(&compiled[k], want, &tolerance).unwrap_or_else(|e| panic!("{k}, compiled code: {e}"));
    }
}

#[test]
fn padding_and_holes_of_a_convolution_are_zeros() {
    let (x, k) = ([1f32, 2.0], [1f32, f32::INFINITY]);
    let inputs = [ArrayLiteral::from_elements(&[1, 2, 1], &x), ArrayLiteral::from_elements(&[2, 1, 1], &k)];
    let parameters = "x = f32[1,2,1] parameter(0)\n k = f32[2,1,1] parameter(1)";
    for (window, elements) in [
        ("pad=1_1", vec![f32::INFINITY, f32::INFINITY, f32::NAN]),
        ("lhs_dilate=2", vec![f32::NAN, f32::INFINITY]),
        ("lhs_dilate=2 stride=2 pad=0_1", vec![f32::NAN, f32::NAN]),
    ] {
        let n = elements.len();
        let body = format!(
            "{parameters}\n ROOT r = f32[1,{n},1] convolution(x, k), window={{size=2 {window}}}, dim_labels=b0f_0io->b0f"
        );
        check(Kind::Exact, &body, &inputs, &[ArrayLiteral::from_elements(&[1, n as i64, 1], &elements)]);
    }
}

#[test]
fn epsilon_is_a_number_of_32_bits_in_programs_of_64() {
    let inputs = [0f64, 1.0, 0.0, 0.0, 0.0].map(|v| ArrayLiteral::from_elements(&[1], &[v]));
    let body = "x = f64[1] parameter(0)\n s = f64[1] parameter(1)\n o = f64[1] parameter(2)
        m = f64[1] parameter(3)\n v = f64[1] parameter(4)\n one = f64[1] add(x, s)
        ROOT r = f64[1] batch-norm-inference(one, s, o, m, v), epsilon=0.001, feature_index=0";
    let want = 1.0 / f64::from(0.001f32).sqrt();
    check(Kind::Close, body, &inputs, &[ArrayLiteral::from_elements(&[1], &[want])]);
}

#[test]
fn an_arg_max_finds_the_first_nan_in_any_lane() {
    for (n, places) in [(70i64, vec![37, 4, 50]), (9, vec![8, 3]), (200, vec![199, 131, 68, 36]), (64, vec![])] {
        let mut keys: Vec<f32> = (0..n).map(|i| ((i * 29) % 11) as f32).collect();
        places.iter().for_each(|&p: &usize| keys[p] = f32::NAN);
        let first =
            keys.iter().position(|k| k.is_nan()).unwrap_or_else(|| keys.iter().position(|&k| k == 10.0).unwrap());
        let key = keys[first];
        for (index, by) in [("iota(), iota_dimension=0", 1), ("reverse(up), dimensions={0}", -1)] {
            let source = format!(
                "arg_max {{
                  a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)
                  gt = pred[] compare(a, b), direction=GT\n nan = pred[] compare(a, a), direction=NE
                  wins = pred[] or(gt, nan)\n eq = pred[] compare(a, b), direction=EQ
                  lt = pred[] compare(i, j), direction=LT\n tie = pred[] and(eq, lt)\n first = pred[] or(wins, tie)
                  k = f32[] select(wins, a, b)\n n = s32[] select(first, i, j)\n ROOT r = (f32[], s32[]) tuple(k, n)
                }}
                ENTRY main {{
                  x = f32[{n}] parameter(0)\n up = s32[{n}] iota(), iota_dimension=0\n index = s32[{n}] {index}
                  low = f32[] constant(-inf)\n zero = s32[] constant(0)
                  ROOT r = (f32[], s32[]) reduce(x, index, low, zero), dimensions={{0}}, to_apply=arg_max
                }}"
            );
            let found = if by < 0 && places.is_empty() { keys.iter().rposition(|&k| k == key).unwrap() } else { first };
            let found = if by < 0 { n - 1 - found as i64 } else { found as i64 };
            let want = [ArrayLiteral::from_elements(&[], &[key]), ArrayLiteral::from_elements(&[], &[found as i32])];
            check_module(Kind::Exact, &source, &[ArrayLiteral::from_elements(&[n], &keys)], &want);
        }
    }
}

#[test]
fn right_angles_are_right_from_both_sides() {
    let (inf, quarter) = (f64::INFINITY, std::f64::consts::FRAC_PI_2);
    let (y, x) = ([inf, inf, inf, -inf, 2.0, -3.0], [-0.0, 0.0, -2.5, -1.0, -0.0, -0.0]);
    let want = y.map(|y| quarter.copysign(y));
    let inputs = [ArrayLiteral::from_elements(&[6], &y), ArrayLiteral::from_elements(&[6], &x)];
    let body = "y = f64[6] parameter(0)\n x = f64[6] parameter(1)\n a = f64[6] atan2(y, x)
        ys = f32[6] convert(y)\n xs = f32[6] convert(x)\n as = f32[6] atan2(ys, xs)
        ROOT r = (f64[6], f32[6]) tuple(a, as)";
    let single = want.map(|v| v as f32);
    check(
        Kind::Exact,
        body,
        &inputs,
        &[ArrayLiteral::from_elements(&[6], &want), ArrayLiteral::from_elements(&[6], &single)],
    );
}

#[test]
fn sums_over_windows_of_narrow_floats_round_at_each_step() {
    // A unit in the last place of 100 is a half in bf16: 100.3 is 100.5, another 0.3 makes 101, and -100 leaves 1.
    for (pad, want) in [("3_0", [100.0, 100.5, 101.0, 1.0]), ("0_3", [1.0, -99.5, -99.5, -100.0])] {
        let body = format!(
            "p = f32[4] parameter(0)\n x = bf16[4] convert(p)\n z = bf16[] constant(0)
            w = bf16[4] reduce-window(x, z), window={{size=4 pad={pad}}}, to_apply=add\n ROOT r = f32[4] convert(w)"
        );
        let source = format!(
            "add {{ a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n ROOT s = bf16[] add(a, b) }}
            ENTRY main {{\n{body}\n}}"
        );
        let inputs = [ArrayLiteral::from_elements(&[4], &[100f32, 0.3, 0.3, -100.0])];
        check_module(Kind::Exact, &source, &inputs, &[ArrayLiteral::from_elements(&[4], &want.map(|v: f32| v))]);
    }
}
