//! Compiled code against the interpreter over several true sizes, what lies past them filled with NaN and extremes.
#![allow(clippy::unwrap_used)]

use crate::driver::{CompileOptions, compile};
use crate::interp;

use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program, RunOptions, Scalar};

/// Reducers and comparators that the programs call.
const CALLED: &str = "
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
add_s32 { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
second { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] copy(b) }
pair { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(b, a), direction=GT
  m = f32[] select(g, b, a) k = s32[] select(g, j, i) ROOT r = (f32[], s32[]) tuple(m, k) }
";

fn text(others: &str, body: &str) -> String {
    format!("HloModule m\n{CALLED}{others}\nENTRY e {{\n{body}\n}}\n")
}

/// An array of distinct small numbers of either sign.
fn numbers(ty: ElementType, dims: &[i64]) -> ArrayLiteral {
    let mut out = ArrayLiteral::zeros(&ArrayShape::new(ty, dims));
    for k in 0..out.elements() {
        let value = (k as i64 * 7 + 3) % 23 - 9;
        out.set(k, if ty.is_float() { Scalar::Float(value as f64) } else { Scalar::Int(value) });
    }
    out
}

fn close(a: &ArrayLiteral, b: &ArrayLiteral) -> bool {
    let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 1e-4 * y.abs().max(1.0);
    let one = |k: usize| match (a.get(k), b.get(k)) {
        (Scalar::Float(x), Scalar::Float(y)) => same(x, y),
        (x, y) => x == y,
    };
    a.ty() == b.ty() && a.dims() == b.dims() && (0..a.elements()).all(one)
}

/// Runs `source` on every list of arguments, in both ways; the sessions of compiled code keep their buffers, so that
/// one run's elements are the next one's padding.
#[track_caller]
fn agree_on(source: &str, arguments: &[Vec<ArrayLiteral>]) {
    let module = crate::text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    crate::shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let program = Program::from_object(&artifact.object).unwrap();
    let mut session = program.session(&RunOptions::default()).unwrap();
    for list in arguments {
        let literals: Vec<Literal> = list.iter().cloned().map(Literal::Array).collect();
        let expected = interp::run(&module, &literals, &interp::Options::default());
        let expected = expected.unwrap_or_else(|e| panic!("{e}\n{source}"));
        for garbage in [0xffu8, 0x7f, 0x80] {
            for (k, literal) in list.iter().enumerate() {
                session.parameter_bytes_mut(k).unwrap().fill(garbage);
                session.set_parameter(k, literal).unwrap();
            }
            session.call().unwrap();
            let got = session.results().unwrap();
            for (got, want) in got.iter().zip(expected.arrays()) {
                let shapes: Vec<String> = list.iter().map(|l| l.shape().to_string()).collect();
                assert!(close(got, want), "of {shapes:?}:\n{got:?}\nfor\n{want:?}\n{source}\n{}", artifact.module.name);
            }
        }
    }
}

/// The parameters are `f32`, of the dimensions given.
#[track_caller]
fn agree(others: &str, body: &str, dims: &[&[&[i64]]]) {
    let arguments: Vec<Vec<ArrayLiteral>> =
        dims.iter().map(|list| list.iter().map(|d| numbers(ElementType::F32, d)).collect()).collect();
    agree_on(&text(others, body), &arguments);
}

/// The one dynamic parameter, `f32[<=5,3]`, at sizes 0, between and at the bound.
#[track_caller]
fn agree_on_rows(body: &str) {
    let body = format!("x = f32[<=5,3] parameter(0)\n{body}");
    agree("", &body, &[&[&[5, 3]], &[&[3, 3]], &[&[0, 3]], &[&[1, 3]]]);
}

#[test]
fn elementwise_and_plain_movement_hand_sizes_on() {
    agree_on_rows("n = f32[<=5,3] negate(x) ROOT r = f32[<=5,3] multiply(x, n)");
    agree_on_rows("t = f32[3,<=5] transpose(x), dimensions={1,0} ROOT r = f32[3,<=5] abs(t)");
    agree_on_rows("ROOT r = f32[2,<=5,3] broadcast(x), dimensions={1,2}");
    agree_on_rows("ROOT r = f32[<=2,2] slice(x), slice={[1:5:2],[0:2]}");
    agree_on_rows(
        "s = s32[] get-dimension-size(x), dimensions={0} o = s32[] get-dimension-size(x), dimensions={1}
        ROOT r = (s32[], s32[]) tuple(s, o)",
    );
    agree_on_rows("i = s32[<=5,3] iota(), iota_dimension=0 z = f32[] constant(0) s = s32[] get-dimension-size(x), dimensions={0}
        j = s32[<=5,3] set-dimension-size(i, s), dimensions={0} c = f32[<=5,3] convert(j) ROOT r = f32[<=5,3] add(c, x)");
    agree_on_rows("ROOT r = s32[<=5,3] bitcast-convert(x)");
    agree_on_rows("l = f32[] constant(-2) h = f32[] constant(4) ROOT r = f32[<=5,3] clamp(l, x, h)");
}

#[test]
fn empty_arrays_hand_sizes_on() {
    for line in ["n = f32[<=3,0,4] negate(x)", "n = f32[4,0,<=3] transpose(x), dimensions={2,1,0}"] {
        let d = if line.contains("negate") { 0 } else { 2 };
        let body = format!(
            "x = f32[<=3,0,4] parameter(0) {line}
            ROOT s = s32[] get-dimension-size(n), dimensions={{{d}}}"
        );
        agree("", &body, &[&[&[3, 0, 4]], &[&[1, 0, 4]], &[&[0, 0, 4]]]);
    }
}

#[test]
fn reverse_and_pad_start_from_the_true_end() {
    agree_on_rows("ROOT r = f32[<=5,3] reverse(x), dimensions={0,1}");
    agree_on_rows("v = f32[] constant(7) ROOT r = f32[<=8,4] pad(x, v), padding=1_2x0_1");
    agree_on_rows("v = f32[] constant(7) ROOT r = f32[<=11,3] pad(x, v), padding=1_1_1x0_0");
    agree(
        "",
        "x = f32[<=5,3] parameter(0) v = f32[] constant(7) ROOT r = f32[<=4,3] pad(x, v), padding=-1_0x0_0",
        &[&[&[5, 3]], &[&[2, 3]], &[&[1, 3]]],
    );
}

#[test]
fn concatenation_packs() {
    let body = "x = f32[<=3,2] parameter(0) y = f32[2,2] parameter(1) z = f32[<=4,2] parameter(2)
        ROOT r = f32[<=9,2] concatenate(x, y, z), dimensions={0}";
    let dims: [&[&[i64]]; 4] = [
        &[&[3, 2], &[2, 2], &[4, 2]],
        &[&[1, 2], &[2, 2], &[2, 2]],
        &[&[0, 2], &[2, 2], &[0, 2]],
        &[&[2, 2], &[2, 2], &[4, 2]],
    ];
    agree("", body, &dims);
    let across = "x = f32[<=3,2] parameter(0) y = f32[<=3,1] parameter(1)
        ROOT r = f32[<=3,3] concatenate(x, y), dimensions={1}";
    agree("", across, &[&[&[3, 2], &[3, 1]], &[&[2, 2], &[2, 1]], &[&[0, 2], &[0, 1]]]);
}

#[test]
fn sizes_are_set_and_undone() {
    let set =
        "x = f32[6] parameter(0) n = s32[] constant(4) ROOT r = f32[<=6] set-dimension-size(x, n), dimensions={0}";
    agree("", set, &[&[&[6]]]);
    // Growing uncovers zeros, not what was there.
    let grown = "x = f32[<=6] parameter(0) n = s32[] constant(6) y = f32[6] set-dimension-size(x, n), dimensions={0}
        ROOT r = f32[6] negate(y)";
    agree("", grown, &[&[&[6]], &[&[2]], &[&[0]]]);
    let source = text(
        "",
        "x = s32[4] parameter(0) n = s32[] parameter(1)
        d = s32[<=4] set-dimension-size(x, n), dimensions={0} z = s32[] constant(0)
        s = s32[] reduce(d, z), dimensions={0}, to_apply=add_s32 ROOT r = (s32[], s32[<=4]) tuple(s, d)",
    );
    let arguments: Vec<Vec<ArrayLiteral>> =
        [-3, 0, 1, 4, 9].iter().map(|&n| vec![numbers(ElementType::S32, &[4]), ArrayLiteral::scalar(n)]).collect();
    agree_on(&source, &arguments);
}

#[test]
fn reshapes_move_what_they_must() {
    agree_on_rows("ROOT r = f32[1,<=5,3] reshape(x)");
    agree_on_rows("ROOT r = f32[<=15] reshape(x)");
    agree("", "x = f32[3,<=5] parameter(0) ROOT r = f32[<=15] reshape(x)", &[&[&[3, 5]], &[&[3, 2]], &[&[3, 0]]]);
    agree("", "x = f32[<=6,2] parameter(0) ROOT r = f32[2,<=3,2] reshape(x)", &[&[&[6, 2]], &[&[4, 2]], &[&[0, 2]]]);
    agree("", "x = f32[<=12] parameter(0) ROOT r = f32[<=4,3] reshape(x)", &[&[&[12]], &[&[6]], &[&[0]]]);
    let source = text(
        "",
        "x = f32[3,4,4] parameter(0) two = s32[] parameter(1) three = s32[] parameter(2) six = s32[] parameter(3)
        a = f32[<=3,4,4] set-dimension-size(x, two), dimensions={0}
        b = f32[<=3,<=4,4] set-dimension-size(a, three), dimensions={1}
        c = f32[<=3,<=4,<=4] set-dimension-size(b, three), dimensions={2}
        ROOT r = f32[<=6,<=8] dynamic-reshape(c, three, six)",
    );
    let number = ArrayLiteral::scalar::<i32>;
    agree_on(&source, &[vec![numbers(ElementType::F32, &[3, 4, 4]), number(2), number(3), number(6)]]);
}

/// The sizes and the sum of `y`, which is declared static.
const SEEN: &str = "z = f32[] constant(0) s = f32[] reduce(y, z), dimensions={0,1}, to_apply=add
    a = s32[] get-dimension-size(y), dimensions={0} b = s32[] get-dimension-size(y), dimensions={1}
    ROOT r = (f32[], s32[], s32[]) tuple(s, a, b)";

#[test]
fn sizes_follow_values_through_reshapes_declared_static() {
    // A dimension cut from and joined with static ones, on either side, and ones beside it.
    for (dims, d, to) in [
        ("6,2", 0, "1,12"),
        ("6,2", 1, "12,1"),
        ("6,2", 0, "12,1"),
        ("6,1", 0, "1,6"),
        ("1,6", 1, "6,1"),
        ("2,6", 1, "12,1"),
    ] {
        let first: Vec<i64> = dims.split(',').map(|n| n.parse().unwrap()).collect();
        let bound = first[d];
        let body = format!(
            "x = f32[{dims}] parameter(0) f = f32[1] parameter(1) e = f32[] reshape(f) n = s32[] convert(e)
            c = f32[{dims}] set-dimension-size(x, n), dimensions={{{d}}} y = f32[{to}] reshape(c) {SEEN}"
        );
        let source = text("", &body);
        let runs: Vec<Vec<ArrayLiteral>> = [0, 1, bound / 2, bound]
            .iter()
            .map(|&n| vec![numbers(ElementType::F32, &first), ArrayLiteral::from_elements(&[1], &[n as f32])])
            .collect();
        agree_on(&source, &runs);
    }
}

#[test]
fn an_inferred_dimension_takes_what_the_others_leave() {
    let dims: [&[&[i64]]; 3] = [&[&[12]], &[&[8]], &[&[0]]];
    agree("", "x = f32[<=12] parameter(0) ROOT r = f32[<=3,<=4] reshape(x), inferred_dimension=0", &dims);
    let dims: [&[&[i64]]; 3] = [&[&[12]], &[&[9]], &[&[0]]];
    agree("", "x = f32[<=12] parameter(0) ROOT r = f32[<=3,<=4] reshape(x), inferred_dimension=1", &dims);
    // Each dimension has a partner of its own.
    let dims: [&[&[i64]]; 3] = [&[&[4, 3]], &[&[2, 1]], &[&[0, 3]]];
    agree("", "x = f32[<=4,<=3] parameter(0) ROOT r = f32[<=4,1,<=3] reshape(x)", &dims);
}

#[test]
fn a_slice_of_one_element_is_static() {
    let body = "x = f32[<=4] parameter(0) v = f32[<=4] reverse(x), dimensions={0}
        ROOT r = f32[1] slice(v), slice={[0:1]}";
    agree("", body, &[&[&[4]], &[&[1]], &[&[3]]]);
    let none = "x = f32[<=4] parameter(0) s = f32[1] slice(x), slice={[2:3]}
        ROOT r = s32[] get-dimension-size(s), dimensions={0}";
    agree("", none, &[&[&[4]], &[&[0]]]);
    // Declared dynamic, it may be missing.
    agree("", "x = f32[<=4] parameter(0) ROOT r = f32[<=1] slice(x), slice={[2:3]}", &[&[&[4]], &[&[2]]]);
}

#[test]
fn reductions_skip_what_does_not_exist() {
    agree_on_rows("z = f32[] constant(5) ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=add");
    agree_on_rows("z = f32[] constant(-100) ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=max");
    agree_on_rows("z = f32[] constant(1) ROOT r = f32[<=5] reduce(x, z), dimensions={1}, to_apply=add");
    agree_on_rows(
        "z = f32[] constant(-100) k = s32[] constant(-1) i = s32[<=5,3] iota(), iota_dimension=0
        s = s32[] get-dimension-size(x), dimensions={0} j = s32[<=5,3] set-dimension-size(i, s), dimensions={0}
        ROOT r = (f32[3], s32[3]) reduce(x, j, z, k), dimensions={0}, to_apply=pair",
    );
    agree_on_rows("z = f32[] constant(8) ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=second");
}

#[test]
fn windows_skip_what_does_not_exist() {
    agree_on_rows("z = f32[] constant(2) ROOT r = f32[<=4,3] reduce-window(x, z), window={size=2x1}, to_apply=add");
    agree_on_rows(
        "z = f32[] constant(0)
        ROOT r = f32[<=3,3] reduce-window(x, z), window={size=3x2 stride=2x1 pad=1_1x1_0}, to_apply=max",
    );
    agree_on_rows(
        "z = f32[] constant(0)
        ROOT r = f32[<=8,3] reduce-window(x, z), window={size=2x1 lhs_dilate=2x1}, to_apply=second",
    );
    agree_on_rows("z = f32[] constant(0) ROOT r = f32[<=5,2] reduce-window(x, z), window={size=1x2}, to_apply=add");
}

#[test]
fn contractions_add_nothing_for_what_does_not_exist() {
    let dims: [&[&[i64]]; 3] = [&[&[4, 5], &[5, 3]], &[&[4, 2], &[2, 3]], &[&[4, 0], &[0, 3]]];
    agree(
        "",
        "x = f32[4,<=5] parameter(0) y = f32[<=5,3] parameter(1)
        ROOT r = f32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        &dims,
    );
    let dims: [&[&[i64]]; 3] = [&[&[5, 4], &[4, 3]], &[&[2, 4], &[4, 1]], &[&[0, 4], &[4, 3]]];
    agree(
        "",
        "x = f32[<=5,4] parameter(0) y = f32[4,<=3] parameter(1)
        ROOT r = f32[<=5,<=3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        &dims,
    );
}

#[test]
fn convolutions_see_zeros_past_the_end() {
    agree(
        "",
        "x = f32[<=2,<=6,2] parameter(0) k = f32[3,2,4] parameter(1)
        ROOT r = f32[<=2,<=3,4] convolution(x, k), window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f",
        &[&[&[2, 6, 2], &[3, 2, 4]], &[&[1, 3, 2], &[3, 2, 4]], &[&[2, 1, 2], &[3, 2, 4]]],
    );
}

#[test]
fn indices_stay_within_true_sizes() {
    let at = |n: i32| ArrayLiteral::scalar(n);
    let x = |n: i64| numbers(ElementType::F32, &[n, 3]);
    let source = text(
        "",
        "x = f32[<=5,3] parameter(0) i = s32[] parameter(1) z = s32[] constant(0)
        ROOT r = f32[2,3] dynamic-slice(x, i, z), dynamic_slice_sizes={2,3}",
    );
    agree_on(&source, &[vec![x(5), at(9)], vec![x(3), at(2)], vec![x(2), at(1)], vec![x(4), at(-1)]]);
    let source = text(
        "",
        "x = f32[<=5,3] parameter(0) i = s32[] parameter(1) z = s32[] constant(1)
        ROOT r = f32[<=5,2] dynamic-slice(x, i, z), dynamic_slice_sizes={5,2}",
    );
    agree_on(&source, &[vec![x(5), at(9)], vec![x(3), at(2)], vec![x(0), at(1)]]);
    let u = |n: i64| numbers(ElementType::F32, &[n, 2]);
    let source = text(
        "",
        "x = f32[<=5,3] parameter(0) u = f32[<=3,2] parameter(1) i = s32[] parameter(2) z = s32[] constant(1)
        ROOT r = f32[<=5,3] dynamic-update-slice(x, u, i, z)",
    );
    let arguments = [(5, 3, 1), (5, 1, 4), (4, 2, 9), (2, 2, 1), (3, 0, 2), (5, 2, -1)];
    let arguments: Vec<_> = arguments.iter().map(|&(a, b, i)| vec![x(a), u(b), at(i)]).collect();
    agree_on(&source, &arguments);
}

#[test]
fn gathers_and_scatters_know_true_sizes() {
    let list = |v: &[i32]| ArrayLiteral::from_elements(&[v.len() as i64], v);
    let x = |n: i64| numbers(ElementType::F32, &[n, 3]);
    let source = text(
        "",
        "x = f32[<=5,3] parameter(0) i = s32[<=4] parameter(1)
        ROOT r = f32[<=4,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,3}",
    );
    let arguments = [vec![x(5), list(&[4, 0, 9, 2])], vec![x(2), list(&[4, -1])], vec![x(3), list(&[])]];
    agree_on(&source, &arguments);
    let source = text(
        "",
        "x = f32[<=5,3] parameter(0) i = s32[2] parameter(1)
        ROOT r = f32[<=5,2] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1},
          index_vector_dim=1, slice_sizes={5,1}",
    );
    agree_on(&source, &[vec![x(5), list(&[2, 0])], vec![x(2), list(&[1, 7])], vec![x(0), list(&[1, 0])]]);
    let source = text(
        "",
        "x = f32[<=5,3] parameter(0) i = s32[<=4] parameter(1) u = f32[<=4,3] parameter(2)
        ROOT r = f32[<=5,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    );
    let arguments =
        [vec![x(5), list(&[4, 0, 0, 2]), x(4)], vec![x(3), list(&[4, 1, 2]), x(3)], vec![x(4), list(&[]), x(0)]];
    agree_on(&source, &arguments);
}

/// Matrices that have a factor, every other element of which is 0.
fn matrices(dims: &[i64]) -> ArrayLiteral {
    let mut out = numbers(ElementType::F32, dims);
    let n = *dims.last().unwrap() as usize;
    for k in 0..out.elements() {
        let (i, j) = (k / n % n, k % n);
        let value = if i == j { 4.0 + i as f64 } else { ((i + j) % 2) as f64 };
        out.set(k, Scalar::Float(value));
    }
    out
}

#[test]
fn matrices_stand_beside_an_identity() {
    let source = text("", "x = f32[<=2,<=5,<=5] parameter(0) ROOT r = f32[<=2,<=5,<=5] cholesky(x), lower=true");
    let sizes = [(2, 5), (2, 3), (1, 1), (0, 4), (2, 0)];
    let lower: Vec<_> = sizes.iter().map(|&(b, n)| vec![matrices(&[b, n, n])]).collect();
    agree_on(&source, &lower);
    for (left, transpose) in [(true, "NO_TRANSPOSE"), (true, "TRANSPOSE"), (false, "NO_TRANSPOSE")] {
        let body = format!(
            "a = f32[<=2,<=5,<=5] parameter(0) b = f32[<=2,{}] parameter(1)
             ROOT r = f32[<=2,{0}] triangular-solve(a, b), left_side={left}, lower=true, transpose_a={transpose}",
            if left { "<=5,<=4" } else { "<=4,<=5" }
        );
        let mut arguments = Vec::new();
        for (b, n) in sizes {
            for m in [4, 1, 0] {
                let right = if left { [b, n, m] } else { [b, m, n] };
                arguments.push(vec![matrices(&[b, n, n]), numbers(ElementType::F32, &right)]);
            }
        }
        agree_on(&text("", &body), &arguments);
    }
}

#[test]
fn transforms_of_dynamic_batches() {
    for (operand, kind, to) in [("c", "FFT", 4), ("c", "IFFT", 4), ("x", "RFFT", 3)] {
        let body = format!(
            "x = f32[<=3,4] parameter(0) c = c64[<=3,4] complex(x, x)
             f = c64[<=3,{to}] fft({operand}), fft_type={kind}, fft_length={{4}}
             r = f32[<=3,{to}] real(f) i = f32[<=3,{to}] imag(f) ROOT t = (f32[<=3,{to}], f32[<=3,{to}]) tuple(r, i)"
        );
        agree("", &body, &[&[&[3, 4]], &[&[1, 4]], &[&[0, 4]]]);
    }
}

#[test]
fn the_largest_of_what_exists() {
    for largest in [true, false] {
        let dims: [&[&[i64]]; 4] = [&[&[3, 6]], &[&[2, 4]], &[&[3, 2]], &[&[0, 5]]];
        let body =
            format!("x = f32[<=3,<=6] parameter(0) ROOT r = (f32[<=3,2], s32[<=3,2]) topk(x), k=2, largest={largest}");
        agree("", &body, &dims);
    }
    agree(
        "",
        "x = f32[<=3,6] parameter(0) ROOT r = (f32[<=3,4], s32[<=3,4]) topk(x), k=4, largest=true",
        &[&[&[3, 6]], &[&[1, 6]]],
    );
}

#[test]
fn batch_norms_count_what_exists() {
    let dims: [&[&[i64]]; 3] = [&[&[5, 3, 2], &[3], &[3]], &[&[2, 3, 2], &[3], &[3]], &[&[1, 3, 2], &[3], &[3]]];
    agree(
        "",
        "x = f32[<=5,3,2] parameter(0) s = f32[3] parameter(1) o = f32[3] parameter(2)
        ROOT r = (f32[<=5,3,2], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.5, feature_index=1",
        &dims,
    );
    let features: [&[&[i64]]; 2] = [&[&[4, 3], &[3], &[3], &[3], &[4, 3]], &[&[3, 2], &[2], &[2], &[2], &[3, 2]]];
    agree(
        "",
        "x = f32[<=4,<=3] parameter(0) s = f32[<=3] parameter(1) m = f32[<=3] parameter(2) w = f32[<=3] parameter(3)
        g = f32[<=4,<=3] parameter(4) v = f32[<=3] abs(w)
        ROOT r = (f32[<=4,<=3], f32[<=3], f32[<=3]) batch-norm-grad(x, s, m, v, g), epsilon=0.5, feature_index=1",
        &features,
    );
}

#[test]
fn select_and_scatter_chooses_what_exists() {
    let others = "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }";
    let body = "x = f32[<=8,<=5] parameter(0) s = f32[<=4,<=4] parameter(1) i = f32[] constant(1)
        ROOT r = f32[<=8,<=5] select-and-scatter(x, s, i), window={size=2x2 stride=2x1}, select=ge, scatter=add";
    let dims: [&[&[i64]]; 4] = [&[&[8, 5], &[4, 4]], &[&[5, 3], &[2, 2]], &[&[2, 2], &[1, 1]], &[&[1, 3], &[0, 2]]];
    agree(others, body, &dims);
    let padded = "x = f32[<=8,2] parameter(0) s = f32[<=4,2] parameter(1) i = f32[] constant(1)
        ROOT r = f32[<=8,2] select-and-scatter(x, s, i), window={size=3x1 stride=2x1 pad=1_0x0_0}, select=ge,
          scatter=second";
    agree(others, padded, &[&[&[8, 2], &[4, 2]], &[&[5, 2], &[2, 2]], &[&[3, 2], &[1, 2]], &[&[1, 2], &[0, 2]]]);
}

#[test]
fn scans_end_where_the_slices_do() {
    let others = "
        sums { x = f32[2] parameter(0) c = f32[2] parameter(1) y = f32[2] add(x, c)
          ROOT t = (f32[2], f32[2]) tuple(y, y) }";
    for reverse in ["", ", is_reverse=true"] {
        let body = format!(
            "x = f32[2,<=5] parameter(0) c = f32[2] parameter(1)
             ROOT r = (f32[2,<=5], f32[2]) scan(x, c), dimensions={{1}}, num_carries=1{reverse}, to_apply=sums"
        );
        agree(others, &body, &[&[&[2, 5], &[2]], &[&[2, 3], &[2]], &[&[2, 1], &[2]], &[&[2, 0], &[2]]]);
    }
}

#[test]
fn groups_of_features_of_a_dynamic_batch() {
    agree(
        "",
        "x = f32[<=2,<=6,4] parameter(0) k = f32[3,2,4] parameter(1)
        ROOT r = f32[<=2,<=4,4] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2",
        &[&[&[2, 6, 4], &[3, 2, 4]], &[&[1, 4, 4], &[3, 2, 4]], &[&[2, 3, 4], &[3, 2, 4]], &[&[0, 6, 4], &[3, 2, 4]]],
    );
}

#[test]
fn groups_of_batches_of_dynamic_features() {
    agree(
        "",
        "x = f32[4,4,<=3] parameter(0) k = f32[2,<=3,4] parameter(1)
        ROOT r = f32[2,3,4] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f, batch_group_count=2",
        &[&[&[4, 4, 3], &[2, 3, 4]], &[&[4, 4, 1], &[2, 1, 4]], &[&[4, 4, 0], &[2, 0, 4]]],
    );
}

#[test]
fn windows_of_updates_lie_where_they_fit() {
    let list = |v: &[i32]| ArrayLiteral::from_elements(&[v.len() as i64, 1], v);
    let x = |dims: &[i64]| numbers(ElementType::F32, dims);
    let source = text(
        "",
        "x = f32[<=6,3] parameter(0) i = s32[<=2,1] parameter(1) u = f32[<=2,<=4,3] parameter(2)
        ROOT r = f32[<=6,3] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    );
    let mut arguments = Vec::new();
    for (n, at, w) in [(6, [0, 2], 4), (6, [3, 2], 3), (5, [3, -1], 2), (5, [4, 1], 1), (2, [0, 0], 4), (3, [1, 3], 0)]
    {
        arguments.push(vec![x(&[n, 3]), list(&at), x(&[2, w, 3])]);
    }
    arguments.push(vec![x(&[4, 3]), list(&[1]), x(&[1, 2, 3])]);
    agree_on(&source, &arguments);
    let source = text(
        "",
        "x = f32[6,3] parameter(0) i = s32[2,1] parameter(1) u = f32[3,2,<=4] parameter(2)
        ROOT r = f32[6,3] scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
    );
    let source = source
        .replace("f32[6,3] parameter(0)", "f32[6,4] parameter(0)")
        .replace("f32[6,3] scatter", "f32[6,4] scatter");
    agree_on(&source, &[4, 3, 1, 0].map(|w| vec![x(&[6, 4]), list(&[2, 3]), x(&[3, 2, w])]));
}

#[test]
fn computations_with_branches_skip_what_does_not_exist() {
    // Past the true size there is a NaN once, on which the loop would never end.
    let others = "
      more { s = f32[] parameter(0) n = f32[] constant(100) g = pred[] compare(s, n), direction=GE
        ROOT c = pred[] not(g) }
      turn { s = f32[] parameter(0) ROOT r = f32[] add(s, s) }
      grown { x = f32[] parameter(0) y = f32[] parameter(1) w = f32[] while(y), condition=more, body=turn
        ROOT r = f32[] add(x, w) }
      less { x = f32[] parameter(0) y = f32[] parameter(1) v = f32[] while(x), condition=more, body=turn
        w = f32[] while(y), condition=more, body=turn ROOT r = pred[] compare(v, w), direction=LT }";
    let positive = "a = f32[<=5,3] abs(x) one = f32[] constant(1) ones = f32[<=5,3] broadcast(one), dimensions={}
        s = s32[] get-dimension-size(x), dimensions={0} few = f32[<=5,3] set-dimension-size(ones, s), dimensions={0}
        p = f32[<=5,3] add(a, few) z = f32[] constant(0)";
    for op in [
        "f32[3] reduce(p, z), dimensions={0}, to_apply=grown",
        "f32[<=4,3] reduce-window(p, z), window={size=2x1}, to_apply=grown",
        "f32[<=5,3] sort(p), dimensions={0}, to_apply=less",
        "f32[<=5,3] sort(p), dimensions={1}, to_apply=less",
        "f32[<=5] reduce(p, z), dimensions={1}, to_apply=grown",
        "f32[<=5,2] reduce-window(p, z), window={size=1x2}, to_apply=grown",
        "f32[<=5,3] map(p, p), dimensions={0,1}, to_apply=grown",
    ] {
        let body = format!("x = f32[<=5,3] parameter(0) {positive} ROOT r = {op}");
        agree(others, &body, &[&[&[5, 3]], &[&[3, 3]], &[&[1, 3]], &[&[0, 3]]]);
    }
}

#[test]
fn loops_and_branches_carry_sizes() {
    let others = "
      cond { p = (s32[], f32[<=6]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
        ROOT r = pred[] compare(i, n), direction=LT }
      body { p = (s32[], f32[<=6]) parameter(0) i = s32[] get-tuple-element(p), index=0
        x = f32[<=6] get-tuple-element(p), index=1 one = s32[] constant(1) next = s32[] add(i, one)
        s = s32[] get-dimension-size(x), dimensions={0} less = s32[] subtract(s, one)
        y = f32[<=6] add(x, x) z = f32[<=6] set-dimension-size(y, less), dimensions={0}
        ROOT r = (s32[], f32[<=6]) tuple(next, z) }
      yes { x = f32[<=6] parameter(0) ROOT r = f32[<=6] negate(x) }
      no { x = f32[<=6] parameter(0) n = s32[] constant(2)
        ROOT r = f32[<=6] set-dimension-size(x, n), dimensions={0} }
      twice { x = f32[<=6] parameter(0) ROOT r = f32[<=6] add(x, x) }";
    let body = "x = f32[<=6] parameter(0) zero = s32[] constant(0) init = (s32[], f32[<=6]) tuple(zero, x)
        w = (s32[], f32[<=6]) while(init), condition=cond, body=body
        y = f32[<=6] get-tuple-element(w), index=1 a = f32[<=6] call(y), to_apply=twice
        b = f32[<=6] call(a), to_apply=twice s = s32[] get-dimension-size(x), dimensions={0}
        four = s32[] constant(4) p = pred[] compare(s, four), direction=GT
        c = f32[<=6] conditional(p, b, x), true_computation=yes, false_computation=no
        ROOT r = (f32[<=6], f32[<=6]) tuple(b, c)";
    agree(others, body, &[&[&[6]], &[&[4]], &[&[2]], &[&[0]], &[&[5]]]);
}

#[test]
fn leaves_lie_in_the_order_of_their_layout() {
    let body = "t = (f32[<=3,<=4]{0,1}, f32[2]{0}) parameter(0) x = f32[<=3,<=4]{0,1} get-tuple-element(t), index=0
        ROOT r = f32[<=3,<=4]{0,1} negate(x)";
    let module = crate::text::parse(&text("", body)).unwrap();
    let artifact = compile(&module, &CompileOptions::default()).unwrap();
    let program = Program::from_object(&artifact.object).unwrap();
    for dims in [[3, 4], [2, 4], [3, 1], [0, 2]] {
        let x = numbers(ElementType::F32, &dims);
        let out = program.run(&[&x, &numbers(ElementType::F32, &[2])]).unwrap();
        assert_eq!(out[0].dims(), dims);
        assert!((0..x.elements()).all(|k| out[0].get(k) == Scalar::Float(-x.as_slice::<f32>()[k] as f64)));
    }
}

#[test]
fn aliases_of_static_leaves_count_as_callers_do() {
    let source = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
        ENTRY e { x = f32[<=4] parameter(0) y = f32[3] parameter(1) n = f32[<=4] negate(x) m = f32[3] negate(y)
        ROOT r = (f32[<=4], f32[3]) tuple(n, m) }";
    let artifact = compile(&crate::text::parse(source).unwrap(), &CompileOptions::default()).unwrap();
    let pairs: Vec<_> = artifact.descriptor.aliases.iter().map(|a| (a.parameter, a.result)).collect();
    assert_eq!(pairs, [(1, 1)]);
}

#[test]
fn what_has_no_form_is_named() {
    let refused = |body: &str, word: &str| {
        let module = crate::text::parse(&text("", body)).unwrap();
        crate::shape::verify(&module).unwrap();
        let error = compile(&module, &CompileOptions::default()).map(|_| ()).unwrap_err();
        let shown = error.to_string();
        assert!(matches!(error, crate::Error::Unsupported { .. }) && shown.contains(word), "{shown}");
    };
    refused("x = f32[<=4,<=4] parameter(0) ROOT r = f32[<=2,<=8] reshape(x)", "several dynamic dimensions");
    refused("x = c64[<=4] parameter(0) ROOT r = c64[<=4] fft(x), fft_type=FFT, fft_length={4}", "along a dynamic");
    refused("x = f32[<=4] parameter(0) ROOT r = f32[4] negate(x)", "static one is declared");
    refused("x = f32[4] parameter(0) ROOT r = f32[<=4] custom-call(x), custom_call_target=\"f\"", "custom-call");
}
