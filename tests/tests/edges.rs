//! Inputs at the edges in every engine: infinities, NaN, limits, and what specifications say of them.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, Error, compile, interp, shape, text};
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayLiteral, Literal, Program};
use brolga_tests::compare::{Kind, Tolerance, compare};

/// Runs an entry computation in the interpreter and in compiled code, as it is by default, with all rows in wide code that can be and
/// with none; the leaves of its result are `want`, NaN for NaN.
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
    let tolerance = Tolerance { kind, atol: 0.0, rtol: 1e-14, max_ulp: 0.0, int_atol: 0.0 };
    assert_eq!(interpreted.arrays().len(), want.len());
    for (k, want) in want.iter().enumerate() {
        compare(interpreted.arrays()[k], want, &tolerance).unwrap_or_else(|e| panic!("{k}, the interpreter: {e}"));
    }
    for wide_work in [None, Some(0), Some(u64::MAX)] {
        let options = CompileOptions { wide_work, ..CompileOptions::default() };
        let artifact = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
        let compiled = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(compiled.len(), want.len());
        for (k, want) in want.iter().enumerate() {
            compare(&compiled[k], want, &tolerance)
                .unwrap_or_else(|e| panic!("{k}, compiled code, wide work {wide_work:?}: {e}\n{source}"));
        }
    }
}

/// A type without a negative zero never has one, also between operations that keep more digits than it has.
#[test]
fn what_has_no_negative_zero_has_none_inside_a_kernel() {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    for (ty, zero) in [("f8e4m3fnuz", 0), ("f8e5m2fnuz", 0), ("f8e4m3b11fnuz", 0), ("f8e4m3fn", 1u32 << 31)] {
        // The last has one. What the elements are negated, times -1, and rounded up.
        let x = ArrayLiteral::from_elements(&[2], &[0f32, -0.5]);
        let zero = f32::from_bits(zero);
        let body = format!(
            "p = f32[2] parameter(0)
             x = {ty}[2] convert(p)
             n = {ty}[2] negate(x)
             one = {ty}[] constant(-1)
             ones = {ty}[2] broadcast(one), dimensions={{}}
             m = {ty}[2] multiply(x, ones)
             c = {ty}[2] ceil(x)
             wn = f32[2] convert(n)
             wm = f32[2] convert(m)
             wc = f32[2] convert(c)
             bn = u32[2] bitcast-convert(wn)
             bm = u32[2] bitcast-convert(wm)
             bc = u32[2] bitcast-convert(wc)
             e = pred[2] compare(x, n), direction=EQ, type=TOTALORDER
             equal = s32[2] convert(e)
             ROOT r = (u32[2], u32[2], u32[2], s32[2]) tuple(bn, bm, bc, equal)"
        );
        let [negated, up] = [[zero, 0.5], [0.0, zero]].map(|v| ArrayLiteral::from_elements(&[2], &bits(&v)));
        let equal = ArrayLiteral::from_elements(&[2], &[i32::from(zero.is_sign_positive()), 0]);
        check(Kind::Exact, &body, &[x], &[negated.clone(), negated, up, equal]);
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

/// Lanes start from what an arg-max never chooses. Here the rows hold nothing else, or it beside numbers, NaN and ties; the initial value
/// is as low, with an index before all others, among them or behind.
#[test]
fn an_arg_extreme_of_what_is_never_chosen() {
    for (rows, n) in [(3usize, 9usize), (1101, 24), (1101, 64), (1101, 72), (70, 200), (1, 140_000)] {
        for (greatest, start) in [(true, -3), (true, i32::MAX), (false, 2)] {
            let low = if greatest { f32::NEG_INFINITY } else { f32::INFINITY };
            let key = |row: usize, k: usize| match row % 4 {
                0 => low,
                1 if k == n - 2 => f32::NAN,
                2 if k.is_multiple_of(3) => low,
                _ => ((row * 31 + k * 17) % 5) as f32,
            };
            let keys: Vec<f32> = (0..rows * n).map(|at| key(at / n, at % n)).collect();
            let fold = |row: &[f32]| {
                row.iter().zip(0..).fold((low, start), |(a, i), (&b, j)| {
                    let first = a.is_nan() || if greatest { a > b } else { a < b };
                    (if first { a } else { b }, if first || a == b && i < j { i } else { j })
                })
            };
            let (best, at): (Vec<f32>, Vec<i32>) = keys.chunks(n).map(fold).unzip();
            let (direction, low) = if greatest { ("GT", "-inf") } else { ("LT", "inf") };
            let source = format!(
                "arg {{
                  a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)
                  beats = pred[] compare(a, b), direction={direction}\n nan = pred[] compare(a, a), direction=NE
                  wins = pred[] or(beats, nan)\n eq = pred[] compare(a, b), direction=EQ
                  lt = pred[] compare(i, j), direction=LT\n tie = pred[] and(eq, lt)\n first = pred[] or(wins, tie)
                  k = f32[] select(wins, a, b)\n n = s32[] select(first, i, j)\n ROOT r = (f32[], s32[]) tuple(k, n)
                }}
                ENTRY main {{
                  x = f32[{rows},{n}] parameter(0)\n index = s32[{rows},{n}] iota(), iota_dimension=1
                  low = f32[] constant({low})\n start = s32[] constant({start})
                  ROOT r = (f32[{rows}], s32[{rows}]) reduce(x, index, low, start), dimensions={{1}}, to_apply=arg
                }}"
            );
            let want =
                [ArrayLiteral::from_elements(&[rows as i64], &best), ArrayLiteral::from_elements(&[rows as i64], &at)];
            let x = ArrayLiteral::from_elements(&[rows as i64, n as i64], &keys);
            check_module(Kind::Exact, &source, &[x], &want);
        }
    }
}

/// A gather whose indices are put together for it alone reads their parts; those outside are clamped.
#[test]
fn indices_that_are_put_together_for_a_gather() {
    let image: Vec<f32> = (0..63).map(|v| v as f32).collect();
    let [y, x]: [Vec<i32>; 2] = [5, 7].map(|by| (0..70).map(|k| k * by % 16 - 3).collect());
    for (vector, width) in [(0usize, 1usize), (1, 1), (1, 3)] {
        let (part, whole, dims) = match vector {
            0 => ("s32[1,70]", "s32[2,70]", "{0}"),
            _ => ("s32[70,1]", "s32[70,2]", "{1}"),
        };
        let (shape, offset, collapsed) = if width == 1 { ("f32[70]", "", "0,1") } else { ("f32[70,3]", "1", "0") };
        let body = format!(
            "image = f32[7,9] parameter(0)\n y = s32[70] parameter(1)\n x = s32[70] parameter(2)\n three = s32[] constant(3)
             threes = s32[70] broadcast(three), dimensions={{}}\n down = s32[70] multiply(y, threes)
             up = s32[70] subtract(down, x)\n ys = {part} reshape(up)\n xs = {part} reshape(x)
             at = {whole} concatenate(ys, xs), dimensions={dims}
             ROOT r = {shape} gather(image, at), offset_dims={{{offset}}}, collapsed_slice_dims={{{collapsed}}},
               start_index_map={{0,1}}, index_vector_dim={vector}, slice_sizes={{1,{width}}}"
        );
        let read = |k: usize| {
            let row = (y[k] * 3 - x[k]).clamp(0, 6) as usize;
            let column = x[k].clamp(0, 9 - width as i32) as usize;
            image[row * 9 + column..][..width].to_vec()
        };
        let want: Vec<f32> = (0..70).flat_map(read).collect();
        let inputs = [
            ArrayLiteral::from_elements(&[7, 9], &image),
            ArrayLiteral::from_elements(&[70], &y),
            ArrayLiteral::from_elements(&[70], &x),
        ];
        let dims: &[i64] = if width == 1 { &[70] } else { &[70, 3] };
        check(Kind::Exact, &body, &inputs, &[ArrayLiteral::from_elements(dims, &want)]);
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

#[test]
fn tuples_of_one_hold_what_stands_alone_elsewhere() {
    let functions = "alone {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n s = s32[] add(a, b)
        ROOT r = (s32[]) tuple(s)\n}\nadd {\n a = s32[] parameter(0)\n b = s32[] parameter(1)
        ROOT s = s32[] add(a, b)\n}\nlt {\n a = s32[] parameter(0)\n b = s32[] parameter(1)
        ROOT s = pred[] compare(a, b), direction=LT\n}\nless {\n a = s32[] parameter(0)\n b = s32[] parameter(1)
        s = pred[] compare(a, b), direction=LT\n ROOT r = (pred[]) tuple(s)\n}\ntwice {\n a = s32[] parameter(0)
        ROOT s = s32[] add(a, a)\n}\ntwo {\n a = s32[] parameter(0)\n s = s32[] add(a, a)
        ROOT r = (s32[]) tuple(s)\n}";
    let input = ArrayLiteral::from_elements(&[2, 3], &[5i32, 1, 4, 2, 6, 3]);
    for (line, functions_of, dims, want) in [
        ("reduce(p, c), dimensions={0}", ["alone", "add"], "3", vec![17i32, 17, 17]),
        ("reduce-window(p, c), window={size=2x1}", ["alone", "add"], "1,3", vec![17, 17, 17]),
        ("reduce-window(p, c), window={size=1x2 rhs_reversal=0x1}", ["alone", "add"], "2,2", vec![16, 15, 18, 19]),
        ("sort(p), dimensions={1}", ["less", "lt"], "2,3", vec![1, 4, 5, 2, 3, 6]),
        ("scan(p), dimensions={1}, num_carries=0", ["two2", "twice2"], "2,3", vec![10, 2, 8, 4, 12, 6]),
        (
            "scatter(p, i, u), update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, \
             index_vector_dim=0",
            ["alone", "add"],
            "2,3",
            vec![5, 1, 4, 3, 8, 6],
        ),
    ] {
        let functions = format!(
            "{functions}\ntwice2 {{\n a = s32[2] parameter(0)\n ROOT s = s32[2] add(a, a)\n}}\ntwo2 {{
             a = s32[2] parameter(0)\n s = s32[2] add(a, a)\n ROOT r = (s32[2]) tuple(s)\n}}"
        );
        let sizes: Vec<i64> = dims.split(',').map(|d| d.parse().unwrap()).collect();
        let want = [ArrayLiteral::from_elements(&sizes, &want)];
        for function in functions_of {
            for result in [format!("s32[{dims}]"), format!("(s32[{dims}])")] {
                let text = format!(
                    "{functions}\nENTRY e {{\n p = s32[2,3] parameter(0)\n c = s32[] constant(10)
                     i = s32[1] constant({{1}})\n u = s32[3] constant({{1, 2, 3}})
                     ROOT r = {result} {line}, to_apply={function}\n}}"
                );
                check_module(Kind::Exact, &text, std::slice::from_ref(&input), &want);
            }
        }
    }
}

#[test]
fn a_window_that_is_not_commutative_goes_forward_though_reversed() {
    let text = "mix {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n t = s32[] constant(10)
        m = s32[] multiply(a, t)\n ROOT r = s32[] add(m, b)\n}
        ENTRY e {\n p = s32[4] parameter(0)\n c = s32[] constant(0)
        ROOT r = s32[2] reduce-window(p, c), window={size=3 rhs_reversal=1}, to_apply=mix\n}";
    let input = [ArrayLiteral::from_elements(&[4], &[1i32, 2, 3, 4])];
    check_module(Kind::Exact, text, &input, &[ArrayLiteral::from_elements(&[2], &[123i32, 234])]);
}

#[test]
fn sums_of_products_wrap_in_a_narrower_integer() {
    let inputs = [
        ArrayLiteral::from_elements(&[1, 3], &[1000i32, -77, 300]),
        ArrayLiteral::from_elements(&[3, 2], &[3i32, 90000, -5, 41, 7, -1]),
    ];
    let exact = [1000i64 * 3 + 77 * 5 + 300 * 7, 1000 * 90000 - 77 * 41 - 300];
    let parameters = "p = s32[1,3] parameter(0)\n q = s32[3,2] parameter(1)";
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let body = |ty: &str| format!("{parameters}\n ROOT r = {ty}[1,2] dot(p, q), {dims}");
    let want = [ArrayLiteral::from_elements(&[1, 2], &exact.map(|v| v as i8))];
    check(Kind::Exact, &body("s8"), &inputs, &want);
    let want = [ArrayLiteral::from_elements(&[1, 2], &exact.map(|v| v as i16))];
    check(Kind::Exact, &body("s16"), &inputs, &want);
    let want = [ArrayLiteral::from_elements(&[1, 2], &exact.map(|v| v as u8))];
    check(Kind::Exact, &body("u8"), &inputs, &want);
}

#[test]
fn an_elided_constant_is_not_supported_in_either_engine() {
    for shape in ["f32[8,6]", "f32[]"] {
        let text = format!(
            "HloModule m\nENTRY e {{\n p = {shape} parameter(0)\n c = {shape} constant({{...}})
             ROOT r = {shape} add(p, c)\n}}"
        );
        let module = text::parse(&text).unwrap();
        let input = Literal::zeros(
            &module.entry().parameters().first().map(|&p| module.entry().instructions[p].shape.clone()).unwrap(),
        );
        let interpreted = interp::run(&module, &[input.unwrap()], &interp::Options::default()).unwrap_err();
        let compiled = compile(&module, &CompileOptions::default()).unwrap_err();
        for e in [&interpreted, &compiled] {
            assert!(matches!(e, Error::Unsupported { .. }), "{e}");
            assert!(e.to_string().contains("a constant whose value the text leaves out"), "{e}");
        }
    }
}

#[test]
fn asynchronous_calls_may_say_what_they_alias() {
    let text = "ac {\n a = f32[4] parameter(0)\n ROOT n = f32[4] negate(a)\n}
        ENTRY e {\n p = f32[4] parameter(0)
        s = ((f32[4]), f32[4], u32[]) async-start(p), output_to_operand_aliasing={{0,0}: (0, {})}, calls=ac
        ROOT d = f32[4] async-done(s)\n}";
    let input = [ArrayLiteral::from_elements(&[4], &[1f32, -2.0, 3.0, -4.0])];
    check_module(Kind::Exact, text, &input, &[ArrayLiteral::from_elements(&[4], &[-1f32, 2.0, -3.0, 4.0])]);
}

#[test]
fn a_permutation_in_place_is_read_and_not_run() {
    let parameters = "i = f32[2,8] parameter(0)\n o = f32[2,8] parameter(1)\n c = s32[] constant(0)
        t = (s32[], s32[]) tuple(c, c)";
    let pairs = "source_target_pairs={{0,1},{1,0}}, slice_sizes={{1,8}}";
    for body in [
        format!("{parameters}\n ROOT r = f32[2,8] collective-permute(i, o, t, t), {pairs}"),
        format!(
            "{parameters}\n s = (f32[2,8], f32[2,8], u32[], u32[]) collective-permute-start(i, o, t, t), {pairs}
             ROOT r = f32[2,8] collective-permute-done(s)"
        ),
        format!(
            "{parameters}\n ii = (f32[2,8], f32[2,8]) tuple(i, i)\n oo = (f32[2,8], f32[2,8]) tuple(o, o)
             tt = ((s32[], s32[]), (s32[], s32[])) tuple(t, t)
             s = ((f32[2,8], f32[2,8]), (f32[2,8], f32[2,8]), u32[], u32[]) collective-permute-start(ii, oo, tt, tt),
               source_target_pairs={{{{0,1}},{{1,0}}}}, slice_sizes={{{{1,8}},{{1,8}}}}
             ROOT r = (f32[2,8], f32[2,8]) collective-permute-done(s)"
        ),
    ] {
        let source = format!("HloModule edges\nENTRY main {{\n{body}\n}}");
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let options = text::PrintOptions::default();
        let printed = text::print(&module, &options);
        assert_eq!(text::parse(&printed).map(|m| text::print(&m, &options)), Ok(printed));
        let zeros = Literal::from(ArrayLiteral::from_elements(&[2, 8], &[0f32; 16]));
        let interpreted = interp::run(&module, &[zeros.clone(), zeros], &interp::Options::default());
        assert!(matches!(interpreted, Err(Error::Unsupported { .. })), "{interpreted:?}");
        assert!(matches!(compile(&module, &CompileOptions::default()), Err(Error::Unsupported { .. })), "{source}");
    }
}

/// A sum of floats is made one of integers at the end, cut towards zero and saturating, as XLA does it.
#[test]
fn products_of_floats_are_converted_to_integers() {
    let a = ArrayLiteral::from_elements(&[2, 3], &[1.5f32, 2.75, -0.5, 100.7, 3e9, f32::NAN]);
    let b = ArrayLiteral::from_elements(&[3, 2], &[2.5f32, 3.25, 1.0, -1.9, 0.0, -0.9]);
    let ints = ArrayLiteral::from_elements(&[3, 2], &[2i32, 3, 1, -2, 0, 1]);
    let parameters = "a = f32[2,3] parameter(0)\n b = f32[3,2] parameter(1)\n c = s32[3,2] parameter(2)
        top = f32[1,3] slice(a), slice={[0:1], [0:3]}";
    let inputs = [a, b, ints];
    let dot = |ty: &str, x: &str, y: &str, rows: i64| {
        format!(
            "{parameters}\n ROOT r = {ty}[{rows},2] dot({x}, {y}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
    };
    let wants = [
        // 3.75 + 2.75 and 4.875 - 5.225 + 0.45; NaN is zero.
        (dot("s32", "a", "b", 2), ArrayLiteral::from_elements(&[2, 2], &[6i32, 0, 0, 0])),
        (dot("u8", "top", "b", 1), ArrayLiteral::from_elements(&[1, 2], &[6u8, 0])),
        (dot("s64", "top", "c", 1), ArrayLiteral::from_elements(&[1, 2], &[5i64, -1])),
        (dot("pred", "top", "b", 1), ArrayLiteral::from_bools(&[1, 2], &[true, true])),
    ];
    for (body, want) in wants {
        check(Kind::Exact, &body, &inputs, &[want]);
    }
    let body = "a = f32[4] parameter(0)\n b = f32[4] parameter(1)
        s = s8[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        n = f32[4] negate(a)
        u = u32[] dot(n, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        big = f32[] constant(1e9)
        bigs = f32[4] broadcast(big), dimensions={}
        w = s32[] dot(a, bigs), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        ROOT r = (s8[], u32[], s32[]) tuple(s, u, w)";
    let inputs = [[100.5f32, 2.75, 1.0, 1.0], [2.5f32, 3.25, 0.5, 0.5]].map(|v| ArrayLiteral::from_elements(&[4], &v));
    let want = [ArrayLiteral::scalar(127i8), ArrayLiteral::scalar(0u32), ArrayLiteral::scalar(i32::MAX)];
    check(Kind::Exact, body, &inputs, &want);
    let inputs = [
        ArrayLiteral::from_elements(&[1, 4, 1], &[1.5f32, 2.75, 3.25, 4.5]),
        ArrayLiteral::from_elements(&[2, 1, 1], &[0.5f32, 1.5]),
    ];
    let body = "x = f32[1,4,1] parameter(0)\n k = f32[2,1,1] parameter(1)
        ROOT r = s32[1,5,1] convolution(x, k), window={size=2 pad=1_1}, dim_labels=b0f_0io->b0f";
    let want = ArrayLiteral::from_elements(&[1, 5, 1], &[2i32, 4, 6, 8, 2]);
    check(Kind::Exact, body, &inputs, &[want]);
    // The sum is one of the operands' type: 257 is no bf16.
    let body = "a = f32[2] parameter(0)\n b = f32[2] parameter(1)\n x = bf16[2] convert(a)\n y = bf16[2] convert(b)
        ROOT r = s32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    let inputs = [[256f32, 1.0], [1f32, 1.0]].map(|v| ArrayLiteral::from_elements(&[2], &v));
    check(Kind::Exact, body, &inputs, &[ArrayLiteral::scalar(256i32)]);
}

/// A sum of complex numbers is made one of real numbers at the end, its real part, as XLA does it.
#[test]
fn products_of_complex_numbers_are_converted_to_real_ones() {
    let complex = |v: &[(f32, f32)]| v.iter().map(|&(re, im)| Complex::new(re, im)).collect::<Vec<_>>();
    let inputs = [
        ArrayLiteral::from_elements(&[2], &complex(&[(1.5, 1.0), (2.5, -3.0)])),
        ArrayLiteral::from_elements(&[2], &complex(&[(2.0, 1.0), (3.0, 2.0)])),
    ];
    // (2 + 3.5 i) + (13.5 - 4 i): the products of imaginary parts count.
    let wants = [
        ("s32", ArrayLiteral::scalar(15i32)),
        ("u8", ArrayLiteral::scalar(15u8)),
        ("f32", ArrayLiteral::scalar(15.5f32)),
        ("f64", ArrayLiteral::scalar(15.5f64)),
        ("pred", ArrayLiteral::from_bools(&[], &[true])),
        ("c128", ArrayLiteral::scalar(Complex::new(15.5f64, -0.5))),
    ];
    for (ty, want) in wants {
        let body = format!(
            "a = c64[2] parameter(0)\n b = c64[2] parameter(1)
             ROOT r = {ty}[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        );
        check(Kind::Exact, &body, &inputs, &[want]);
    }
    let body = "a = c64[2] parameter(0)\n b = c64[2] parameter(1)\n x = c128[2] convert(a)\n y = c128[2] convert(b)
        ROOT r = c64[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    check(Kind::Exact, body, &inputs, &[ArrayLiteral::scalar(Complex::new(15.5f32, -0.5))]);
    let body =
        "a = c64[2] parameter(0)\n b = c64[2] parameter(1)\n x = c64[1,2,1] reshape(a)\n k = c64[2,1,1] reshape(b)
        ROOT r = s32[1,3,1] convolution(x, k), window={size=2 pad=1_1}, dim_labels=b0f_0io->b0f";
    // 1.5 * 3 - 1 * 2; the dot; 2.5 * 2 + 3 * 1.
    check(Kind::Exact, body, &inputs, &[ArrayLiteral::from_elements(&[1, 3, 1], &[2i32, 15, 8])]);
}

#[test]
fn transforms_of_length_zero_are_empty() {
    for (from, to, kind, lengths) in [
        ("c64[3,0]", "c64[3,0]", "FFT", "0"),
        ("c64[3,0]", "c64[3,0]", "IFFT", "0"),
        ("f32[3,0]", "c64[3,0]", "RFFT", "0"),
        ("c64[3,0]", "f32[3,0]", "IRFFT", "0"),
        ("c64[3,1]", "f32[3,0]", "IRFFT", "0"),
        ("f32[2,0]", "c64[2,0]", "RFFT", "2,0"),
        ("c64[0,3]", "c64[0,3]", "FFT", "0,3"),
        ("f64[0,4]", "c128[0,3]", "RFFT", "0,4"),
        ("c64[0,3]", "c64[0,3]", "FFT", "3"),
    ] {
        let literal = |s: &str| {
            let module = text::parse(&format!("HloModule s\nENTRY e {{ ROOT x = {s} parameter(0) }}")).unwrap();
            ArrayLiteral::zeros(module.entry().result_shape().as_array().unwrap())
        };
        let body = format!("x = {from} parameter(0)\n ROOT r = {to} fft(x), fft_type={kind}, fft_length={{{lengths}}}");
        check(Kind::Exact, &body, &[literal(from)], &[literal(to)]);
    }
}

/// The newer text has each element of an update for itself; a window of which one element is outside is left out whole.
#[test]
fn a_window_that_is_partly_outside_is_not_scattered() {
    let computations = "last { a = s32[] parameter(0)\n ROOT b = s32[] parameter(1) }
        ENTRY main {
          a = s32[4] parameter(0)\n i = s32[1,1] parameter(1)\n u = s32[1,2] parameter(2)
          ROOT r = s32[4] scatter(a, i, u), update_window_dims={1}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=last
        }";
    let line = ArrayLiteral::from_elements(&[4], &[1i32, 2, 3, 4]);
    let update = ArrayLiteral::from_elements(&[1, 2], &[70i32, 80]);
    for (start, want) in [(2, [1i32, 2, 70, 80]), (3, [1, 2, 3, 4]), (-1, [1, 2, 3, 4]), (4, [1, 2, 3, 4])] {
        let inputs = [line.clone(), ArrayLiteral::from_elements(&[1, 1], &[start]), update.clone()];
        check_module(Kind::Exact, computations, &inputs, &[ArrayLiteral::from_elements(&[4], &want)]);
    }
}
