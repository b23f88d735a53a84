//! Contractions, reductions, windows, normalisation, linear algebra, orders.

use super::{once, program, twice};

#[test]
fn dots() {
    for (x, y, result, attrs) in [
        ("3", "3", "", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ("2,3", "3,4", "2,4", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("3,2", "4,3", "2,4", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
        ("2,3", "4,5", "2,3,4,5", "lhs_contracting_dims={}, rhs_contracting_dims={}"),
        (
            "2,3,4,5",
            "5,3,6,2",
            "2,4,6",
            "lhs_batch_dims={0}, lhs_contracting_dims={3,1}, rhs_batch_dims={3}, rhs_contracting_dims={0,1}",
        ),
        (
            "3,2,4",
            "2,5,3",
            "2,3,4,5",
            "lhs_batch_dims={1,0}, lhs_contracting_dims={}, rhs_batch_dims={0,2}, rhs_contracting_dims={}",
        ),
    ] {
        let body = format!(
            "x = f64[{x}] parameter(0)\n y = f64[{y}] parameter(1)\n ROOT z = f64[{result}] dot(x, y), {attrs}"
        );
        twice(-1.0, 1.0, &program(&body));
    }
}

/// Scales of blocks, of one side alone, and of none.
#[test]
fn scaled_dots() {
    for (left, right) in [("2,3", "6,1"), ("4,6", ""), ("1,2", "2,5")] {
        let body = format!(
            "x = f64[4,6] parameter(0)\n y = f64[6,5] parameter(1)\n s = f64[{left}] parameter(2)\n t = f64[{right}] parameter(3)
  ROOT z = f64[4,5] scaled-dot(x, y, s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        );
        twice(-1.0, 1.0, &program(&body));
    }
}

/// The ragged dimension is free, contracted or of the batch; groups are empty, reach past the end or leave rows over.
#[test]
fn ragged_dots() {
    for (sizes, x, y, result, attrs) in [
        (
            "s32[3] constant({2,0,2})",
            "5,4",
            "3,4,2",
            "5,2",
            "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        ),
        (
            "s32[2,3] constant({{1,2,9},{3,-1,1}})",
            "2,5,4",
            "2,4,3,2",
            "2,5,2",
            "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={2}",
        ),
        (
            "s32[3] constant({2,0,2})",
            "5,4",
            "5,2",
            "3,4,2",
            "lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}",
        ),
        (
            "s32[2,3] constant({{1,2,9},{3,0,1}})",
            "4,2,5",
            "5,2,2",
            "3,2,4,2",
            "lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}, lhs_ragged_dims={2}",
        ),
        (
            "s32[3] constant({2,0,1})",
            "5,4",
            "5,4",
            "5",
            "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}",
        ),
    ] {
        let body = format!(
            "x = f64[{x}] parameter(0)\n y = f64[{y}] parameter(1)\n g = {sizes}
  ROOT z = f64[{result}] ragged-dot(x, y, g), {attrs}"
        );
        twice(-1.0, 1.0, &program(&body));
    }
}

#[test]
fn convolutions() {
    for (x, k, result, window, labels, groups) in [
        ("2,3,6", "4,3,3", "2,4,4", "size=3", "bf0_oi0->bf0", ""),
        ("2,3,7", "4,3,2", "2,4,5", "size=2 stride=2 pad=2_1", "bf0_oi0->bf0", ""),
        ("2,3,8", "4,3,3", "2,4,3", "size=3 stride=2 pad=-1_0", "bf0_oi0->bf0", ""),
        ("2,3,4", "4,3,2", "2,4,8", "size=2 pad=1_1 lhs_dilate=2", "bf0_oi0->bf0", ""),
        ("2,3,9", "4,3,3", "2,4,3", "size=3 stride=2 rhs_dilate=2", "bf0_oi0->bf0", ""),
        ("2,3,6", "4,3,3", "2,4,4", "size=3 rhs_reversal=1", "bf0_oi0->bf0", ""),
        ("2,4,6", "6,2,3", "2,6,4", "size=3", "bf0_oi0->bf0", ", feature_group_count=2"),
        ("4,3,6", "6,3,3", "2,6,4", "size=3", "bf0_oi0->bf0", ", batch_group_count=2"),
        ("1,6,5,2", "3,2,2,4", "1,3,4,4", "size=3x2 stride=2x1 pad=1_1x0_0", "b01f_01io->b01f", ""),
        (
            "5,2,6,4",
            "3,2,2,6",
            "4,2,6,6",
            "size=3x2 pad=1_1x1_0 stride=1x1 lhs_dilate=1x1",
            "0b1f_01io->0b1f",
            ", feature_group_count=2",
        ),
    ] {
        let result = if labels.starts_with("0b1f") { "5,2,6,6" } else { result };
        let body = format!(
            "x = f64[{x}] parameter(0)\n k = f64[{k}] parameter(1)
  ROOT y = f64[{result}] convolution(x, k), window={{{window}}}, dim_labels={labels}{groups}"
        );
        twice(-1.0, 1.0, &program(&body));
    }
}

#[test]
fn reductions() {
    for reducer in ["add", "mul", "max", "min"] {
        for (result, dims) in [("3", "0,2"), ("2,4", "1"), ("", "0,1,2"), ("2,3,4", "")] {
            let body = format!(
                "x = f64[2,3,4] parameter(0)\n i = f64[] parameter(1)
  ROOT y = f64[{result}] reduce(x, i), dimensions={{{dims}}}, to_apply={reducer}"
            );
            twice(-1.0, 1.0, &program(&body));
        }
    }
    // A product with one zero, and with two.
    let zeros = "x = f64[2,3] parameter(0)
  m = f64[2,3] constant({{1,0,1},{0,1,0}})
  y = f64[2,3] multiply(x, m)
  one = f64[] constant(1)
  p = f64[2] reduce(y, one), dimensions={1}, to_apply=mul
  q = f64[2,3] add(y, x)
  ROOT r = (f64[2], f64[2,3]) tuple(p, q)";
    once(0.5, 1.5, &program(zeros));
    let shifted = "x = f64[4] parameter(0)
  c = f64[4] constant({0.5,0,0.25,0})
  y = f64[4] multiply(x, c)
  one = f64[] constant(1)
  ROOT p = f64[] reduce(y, one), dimensions={0}, to_apply=mul";
    once(0.5, 1.5, &program(shifted));
}

#[test]
fn windows() {
    for (n, m, window) in [
        (7, 3, "size=3 stride=2"),
        (6, 6, "size=3 pad=1_1"),
        (6, 4, "size=2 stride=2 pad=1_1"),
        (5, 7, "size=3 lhs_dilate=2"),
        (8, 4, "size=3 rhs_dilate=2"),
        (8, 3, "size=3 stride=2 pad=-1_0"),
    ] {
        let body = format!(
            "x = f64[2,{n}] parameter(0)\n i = f64[] constant(0)
  ROOT y = f64[2,{m}] reduce-window(x, i), window={{{}}}, to_apply=add",
            two_dimensional(window)
        );
        twice(-1.0, 1.0, &program(&body));
        // Of the initial value too, which enters once for each window.
        let body = format!(
            "x = f64[2,{n}] parameter(0)\n i = f64[] parameter(1)
  ROOT y = f64[2,{m}] reduce-window(x, i), window={{{}}}, to_apply=mul",
            two_dimensional(window)
        );
        twice(0.5, 1.0, &program(&body));
        for (reducer, initial) in [("max", "-inf"), ("min", "inf")] {
            let body = format!(
                "x = f64[2,{n}] parameter(0)\n i = f64[] constant({initial})
  ROOT y = f64[2,{m}] reduce-window(x, i), window={{{}}}, to_apply={reducer}",
                two_dimensional(window)
            );
            once(-1.0, 1.0, &program(&body));
        }
    }
    let scattered = "x = f64[6,6] parameter(0)
  s = f64[3,2] parameter(1)
  i = f64[] parameter(2)
  ROOT y = f64[6,6] select-and-scatter(x, s, i), window={size=2x3 stride=2x3}, select=ge, scatter=add";
    once(-1.0, 1.0, &program(scattered));
}

/// Products of complex numbers as pairs, and sums that a scaled exponential function joins.
const FOLDS: &str = "
times { a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  ac = f64[] multiply(a, c)
  bd = f64[] multiply(b, d)
  ad = f64[] multiply(a, d)
  bc = f64[] multiply(b, c)
  real = f64[] subtract(ac, bd)
  imaginary = f64[] add(ad, bc)
  ROOT t = (f64[], f64[]) tuple(real, imaginary) }
join { a = f64[] parameter(0)
  b = f64[] parameter(1)
  two = f64[] constant(2)
  c = f64[] multiply(a, two)
  d = f64[] multiply(b, two)
  x = f64[] exponential(c)
  y = f64[] exponential(d)
  s = f64[] add(x, y)
  l = f64[] log(s)
  ROOT h = f64[] divide(l, two) }
";

#[test]
fn folds_by_any_computation() {
    let arrays = |sizes: &str| {
        format!(
            "x = f64[{sizes}] parameter(0)
  y = f64[{sizes}] parameter(1)
  i = f64[] parameter(2)
  j = f64[] parameter(3)"
        )
    };
    for (sizes, dims, result) in [("3,5", "1", "3"), ("2,3,4", "0,2", "3"), ("4", "0", ""), ("1,2", "0", "2")] {
        let reduce = format!("dimensions={{{dims}}}, to_apply");
        let body = format!(
            "x = f64[{sizes}] parameter(0)\n i = f64[] parameter(1)\n ROOT r = f64[{result}] reduce(x, i), {reduce}=join"
        );
        twice(-1.0, 1.0, &format!("{FOLDS}{}", program(&body)));
        let body =
            format!("{}\n ROOT r = (f64[{result}], f64[{result}]) reduce(x, y, i, j), {reduce}=times", arrays(sizes));
        twice(-1.0, 1.0, &format!("{FOLDS}{}", program(&body)));
    }
    for (m, window) in
        [("7", "size=7 pad=6_0"), ("3", "size=5"), ("4", "size=3 stride=2 pad=1_1"), ("3", "size=3 rhs_dilate=2")]
    {
        let window = format!("window={{{}}}, to_apply", two_dimensional(window));
        let body = format!(
            "x = f64[2,7] parameter(0)\n i = f64[] parameter(1)\n ROOT r = f64[2,{m}] reduce-window(x, i), {window}=join"
        );
        twice(-1.0, 1.0, &format!("{FOLDS}{}", program(&body)));
        let body =
            format!("{}\n ROOT r = (f64[2,{m}], f64[2,{m}]) reduce-window(x, y, i, j), {window}=times", arrays("2,7"));
        once(0.2, 1.0, &format!("{FOLDS}{}", program(&body)));
    }
}

/// The window of the second of two dimensions.
fn two_dimensional(window: &str) -> String {
    let neutral = |key: &str| match key {
        "pad" => "0_0",
        _ => "1",
    };
    let both = |part: &str| {
        let (key, value) = part.split_once('=').expect("a key and a value");
        format!("{key}={}x{value}", neutral(key))
    };
    window.split(' ').map(both).collect::<Vec<_>>().join(" ")
}

#[test]
fn maps() {
    let text = "
f { a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] constant(3)
  p = pred[] compare(a, b), direction=LT
  m = f64[] multiply(a, c)
  s = f64[] sine(b)
  ROOT r = f64[] select(p, m, s) }
ENTRY e {
  x = f64[2,3] parameter(0)
  y = f64[2,3] parameter(1)
  ROOT z = f64[2,3] map(x, y), dimensions={0,1}, to_apply=f }";
    twice(-1.0, 1.0, text);
}

#[test]
fn batch_normalisation() {
    let training = "x = f64[4,3,2] parameter(0)
  s = f64[3] parameter(1)
  o = f64[3] parameter(2)
  ROOT n = (f64[4,3,2], f64[3], f64[3]) batch-norm-training(x, s, o), epsilon=0.01, feature_index=1";
    twice(0.2, 2.0, &program(training));
    let normalised = format!("{}\n ROOT y = f64[4,3,2] get-tuple-element(n), index=0", training.replace("ROOT ", ""));
    twice(0.2, 2.0, &program(&normalised));
    let inference = "x = f64[4,3] parameter(0)
  s = f64[3] parameter(1)
  o = f64[3] parameter(2)
  m = f64[3] parameter(3)
  v = f64[3] parameter(4)
  ROOT n = f64[4,3] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=1";
    twice(0.2, 2.0, &program(inference));
    let gradient = "x = f64[4,3] parameter(0)
  s = f64[3] parameter(1)
  m = f64[3] parameter(2)
  v = f64[3] parameter(3)
  d = f64[4,3] parameter(4)
  ROOT n = (f64[4,3], f64[3], f64[3]) batch-norm-grad(x, s, m, v, d), epsilon=0.01, feature_index=1";
    once(0.2, 2.0, &program(gradient));
}

/// A positive definite matrix of each, from `x`.
const DEFINITE: &str = "x = f64[2,3,3] parameter(0)
  e = f64[3,3] constant({{4,0,0},{0,5,0},{0,0,6}})
  d = f64[2,3,3] broadcast(e), dimensions={1,2}
  a = f64[2,3,3] add(x, d)";

#[test]
fn factors_and_solutions() {
    for lower in [true, false] {
        twice(-1.0, 1.0, &program(&format!("{DEFINITE}\n ROOT l = f64[2,3,3] cholesky(a), lower={lower}")));
        for unit in [true, false] {
            for kind in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
                for (left, shape) in [(true, "2,3,2"), (false, "2,2,3")] {
                    let body = format!(
                        "{DEFINITE}\n b = f64[{shape}] parameter(1)
  ROOT y = f64[{shape}] triangular-solve(a, b), left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={kind}"
                    );
                    once(-1.0, 1.0, &program(&body));
                }
            }
        }
    }
}

/// A positive definite Hermitian matrix of each, from `x`.
const HERMITIAN: &str = "x = c128[2,3,3] parameter(0)
  t = c128[2,3,3] transpose(x), dimensions={0,2,1}
  re = f64[2,3,3] real(t)
  im = f64[2,3,3] imag(t)
  ni = f64[2,3,3] negate(im)
  h = c128[2,3,3] complex(re, ni)
  e = c128[3,3] constant({{(6,0),(0,0),(0,0)},{(0,0),(7,0),(0,0)},{(0,0),(0,0),(8,0)}})
  d = c128[2,3,3] broadcast(e), dimensions={1,2}
  s = c128[2,3,3] add(x, h)
  a = c128[2,3,3] add(s, d)";

#[test]
fn factors_and_solutions_of_complex_matrices() {
    for lower in [true, false] {
        twice(-1.0, 1.0, &program(&format!("{HERMITIAN}\n ROOT l = c128[2,3,3] cholesky(a), lower={lower}")));
        for kind in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
            for (left, shape) in [(true, "2,3,2"), (false, "2,2,3")] {
                let body = format!(
                    "{HERMITIAN}\n b = c128[{shape}] parameter(1)
  ROOT y = c128[{shape}] triangular-solve(a, b), left_side={left}, lower={lower}, unit_diagonal=false, transpose_a={kind}"
                );
                once(-1.0, 1.0, &program(&body));
            }
        }
    }
}

/// As JAX exports them for CPUs: the call leaves the other triangle as it was.
#[test]
fn factors_and_solutions_by_lapack() {
    for (letter, ty, matrices) in [("d", "f64", DEFINITE), ("z", "c128", HERMITIAN)] {
        let options = |target: &str, config: &str| {
            format!(
                "custom_call_target=\"lapack_{letter}{target}_ffi\", api_version=API_VERSION_TYPED_FFI, backend_config={{{config}}}"
            )
        };
        for uplo in [76, 85] {
            let body = format!(
                "{matrices}\n ROOT l = ({ty}[2,3,3]{{1,2,0}}, s32[2]{{0}}) custom-call(a), operand_layout_constraints={{{ty}[2,3,3]{{1,2,0}}}}, {}",
                options("potrf", &format!("uplo = {uplo} : ui8"))
            );
            twice(-1.0, 1.0, &program(&body));
            for (diag, trans, side, shape) in
                [(78, 78, 76, "2,3,2"), (85, 84, 76, "2,3,2"), (78, 67, 82, "2,2,3"), (85, 78, 82, "2,2,3")]
            {
                let config =
                    format!("diag = {diag} : ui8, side = {side} : ui8, trans_x = {trans} : ui8, uplo = {uplo} : ui8");
                let body = format!(
                    "{matrices}\n b = {ty}[{shape}] parameter(1)
  ROOT y = {ty}[{shape}]{{1,2,0}} custom-call(a, b), operand_layout_constraints={{{ty}[2,3,3]{{1,2,0}}, {ty}[{shape}]{{1,2,0}}}}, {}",
                    options("trsm", &config)
                );
                once(-1.0, 1.0, &program(&body));
            }
        }
    }
}

#[test]
fn transforms() {
    for kind in ["FFT", "IFFT"] {
        let body = format!(
            "x = c128[2,6] parameter(0)\n y = c128[2,6] multiply(x, x)
  ROOT f = c128[2,6] fft(y), fft_type={kind}, fft_length={{6}}"
        );
        once(-1.0, 1.0, &program(&body));
    }
    for (n, half) in [(6, 4), (5, 3)] {
        let body =
            format!("x = f64[2,{n}] parameter(0)\n ROOT f = c128[2,{half}] fft(x), fft_type=RFFT, fft_length={{{n}}}");
        once(-1.0, 1.0, &program(&body));
        let body =
            format!("x = c128[2,{half}] parameter(0)\n ROOT f = f64[2,{n}] fft(x), fft_type=IRFFT, fft_length={{{n}}}");
        once(-1.0, 1.0, &program(&body));
    }
    let body = "x = c128[3,3] parameter(0)\n ROOT f = f64[3,4] fft(x), fft_type=IRFFT, fft_length={3,4}";
    once(-1.0, 1.0, &program(body));
    let body = "x = f64[3,4] parameter(0)\n ROOT f = c128[3,3] fft(x), fft_type=RFFT, fft_length={3,4}";
    once(-1.0, 1.0, &program(body));
}

#[test]
fn orders() {
    let one = "
less { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT }
ENTRY e { x = f64[3,4] parameter(0)
  s = f64[3,4] sort(x), dimensions={0}, to_apply=less
  ROOT y = f64[3,4] multiply(s, s) }";
    twice(-1.0, 1.0, one);
    let two = "
less { a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f64[2,5] parameter(0)
  y = f64[2,5] parameter(1)
  z = f64[2,5] sine(x)
  ROOT s = (f64[2,5], f64[2,5]) sort(z, y), dimensions={1}, to_apply=less }";
    twice(-1.0, 1.0, two);
    let top = "x = f64[2,5] parameter(0)\n ROOT t = (f64[2,3], s32[2,3]) topk(x), k=3, largest=true";
    once(-1.0, 1.0, &program(top));
}
