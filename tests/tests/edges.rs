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
