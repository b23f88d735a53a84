//! The order in which a reduction combines its elements is its own: neither what shares its loop, nor the width of registers,
//! nor threads change it, and a combiner that does not commute gets its elements in order.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, interp, shape, text};
use brolga_runtime::{ArrayLiteral, Literal, Program, RunOptions};
use brolga_tests::compare::first_other_bits;

/// The leaves of a program's result in compiled code, which must not depend on registers, tasks and threads.
#[track_caller]
fn compiled(source: &str, inputs: &[ArrayLiteral]) -> Vec<ArrayLiteral> {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let inputs: Vec<&ArrayLiteral> = inputs.iter().collect();
    let mut first: Option<Vec<ArrayLiteral>> = None;
    for (wide_work, grain) in [(u64::MAX, u64::MAX), (0, u64::MAX), (0, 1)] {
        let options =
            CompileOptions { wide_work: Some(wide_work), parallel_grain: Some(grain), ..CompileOptions::default() };
        let artifact = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
        for threads in [1, 3] {
            let options = RunOptions { threads, ..RunOptions::default() };
            let got = program.run_with(&inputs, &options).unwrap_or_else(|e| panic!("{e}"));
            let want = first.get_or_insert_with(|| got.clone());
            for (k, (got, want)) in got.iter().zip(want.iter()).enumerate() {
                assert_eq!(first_other_bits(got, want), None, "result {k}, {threads} threads\n{source}");
            }
        }
    }
    first.unwrap()
}

fn interpreted(source: &str, inputs: &[ArrayLiteral]) -> Vec<ArrayLiteral> {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let inputs: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let result = interp::run(&module, &inputs, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    result.arrays().into_iter().cloned().collect()
}

/// The same bits in the interpreter and in compiled code.
#[track_caller]
fn agrees(source: &str, inputs: &[ArrayLiteral]) {
    assert_eq!(compiled(source, inputs), interpreted(source, inputs), "{source}");
}

const SUMS: &str = "s32_sum { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b)\n}
f32_sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}
f64_sum { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] add(a, b)\n}
s64_sum { a = s64[] parameter(0)\n b = s64[] parameter(1)\n ROOT r = s64[] add(a, b)\n}
f32_last { a = f32[] parameter(0)\n b = f32[] parameter(1)\n m = f32[] abs(a)\n ROOT r = f32[] multiply(m, b)\n}
arg_max {
  a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT\n nan = pred[] compare(a, a), direction=NE\n or = pred[] or(gt, nan)
  eq = pred[] compare(a, b), direction=EQ\n lt = pred[] compare(i, j), direction=LT\n tie = pred[] and(eq, lt)
  first = pred[] or(or, tie)\n v = f32[] select(or, a, b)\n k = s32[] select(first, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k)
}
";

/// What siblings fold over: shape, name of the result, its lines.
const SIBLINGS: [(&str, &str); 5] = [
    ("f32[]", "%s = f32[] reduce(t, f0), dimensions={0}, to_apply=f32_sum"),
    ("f64[]", "w = f64[N] convert(t)\n %s = f64[] reduce(w, d0), dimensions={0}, to_apply=f64_sum"),
    (
        "s64[]",
        "fb = f32[N] broadcast(f0), dimensions={}\n p = pred[N] compare(t, fb), direction=GT
         c = s64[N] convert(p)\n %s = s64[] reduce(c, l0), dimensions={0}, to_apply=s64_sum",
    ),
    (
        "s32[]",
        "n = s32[N] iota(), iota_dimension=0
         pair = (f32[], s32[]) reduce(t, n, low, i0), dimensions={0}, to_apply=arg_max
         %s = s32[] get-tuple-element(pair), index=1",
    ),
    ("f32[]", "%s = f32[] reduce(t, f1), dimensions={0}, to_apply=f32_last"),
];

/// A program that gives some of the siblings.
fn siblings(n: i64, which: &[usize]) -> String {
    let lines: String = which
        .iter()
        .map(|&k| format!(" {}\n", SIBLINGS[k].1.replace("%s", &format!("r{k}")).replace("[N]", &format!("[{n}]"))))
        .collect();
    let shapes: Vec<&str> = which.iter().map(|&k| SIBLINGS[k].0).collect();
    let names: Vec<String> = which.iter().map(|k| format!("r{k}")).collect();
    format!(
        "HloModule siblings\n{SUMS}ENTRY e {{\n x = f32[{n}] parameter(0)\n t = f32[{n}] tanh(x)
         f0 = f32[] constant(0)\n f1 = f32[] constant(1)\n d0 = f64[] constant(0)\n l0 = s64[] constant(0)
         i0 = s32[] constant(0)\n low = f32[] constant(-inf)\n{lines} ROOT r = ({}) tuple({})\n}}",
        shapes.join(", "),
        names.join(", ")
    )
}

#[test]
fn siblings_of_other_widths_change_nothing() {
    for n in [3i64, 9, 20, 31, 32, 33, 47, 64, 100, 4096] {
        // Negative numbers alone: a lane that starts from nothing would win an arg-max.
        let x: Vec<f32> = (0..n).map(|i| -0.01 - ((i * 37) % 101) as f32 / 50.0).collect();
        let x = [ArrayLiteral::from_elements(&[n], &x)];
        let alone: Vec<ArrayLiteral> =
            (0..SIBLINGS.len()).map(|k| compiled(&siblings(n, &[k]), &x).remove(0)).collect();
        let want = interpreted(&siblings(n, &[2, 3]), &x);
        assert_eq!(&alone[2..4], want, "{n}: the interpreter");
        for which in [&[0, 1][..], &[0, 2], &[0, 3], &[1, 3], &[3, 1], &[0, 4], &[3, 4], &[0, 1, 2, 3, 4]] {
            let got = compiled(&siblings(n, which), &x);
            for (got, &k) in got.iter().zip(which) {
                assert_eq!(got, &alone[k], "{n}: sibling {k} of {which:?}");
            }
        }
    }
}

/// Components of a combiner, its lines and roots.
fn ordered(parts: usize, ty: &str, lines: &str, roots: &[&str]) -> impl Fn(&[i64], &[i64]) -> String {
    let parameters: String = (0..2 * parts).map(|k| format!("  p{k} = {ty}[] parameter({k})\n")).collect();
    let scalars = vec![format!("{ty}[]"); parts].join(", ");
    let root = match roots {
        [_] => format!("{lines}\n"),
        _ => format!("{lines}\n  ROOT r = ({scalars}) tuple({})\n", roots.join(", ")),
    };
    let combiner = format!("combine {{\n{parameters}{root}}}\n");
    let ty = ty.to_owned();
    move |dims, reduced| {
        let kept: Vec<String> =
            (0..dims.len()).filter(|d| !reduced.contains(&(*d as i64))).map(|d| dims[d].to_string()).collect();
        let list = |d: &[i64]| d.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let inputs: String = (0..parts).map(|k| format!(" x{k} = {ty}[{}] parameter({k})\n", list(dims))).collect();
        let init: String = (0..parts).map(|k| format!(" i{k} = {ty}[] constant({})\n", i32::from(k == 0))).collect();
        let names = |c: &str| (0..parts).map(|k| format!("{c}{k}")).collect::<Vec<_>>().join(", ");
        let result = vec![format!("{ty}[{}]", kept.join(",")); parts].join(", ");
        let result = if parts == 1 { result } else { format!("({result})") };
        format!(
            "HloModule m\n{combiner}ENTRY e {{\n{inputs}{init} ROOT r = {result} reduce({}, {}), dimensions={{{}}}, to_apply=combine\n}}",
            names("x"),
            names("i"),
            list(reduced)
        )
    }
}

#[test]
fn combiners_that_do_not_commute_keep_the_order() {
    let quaternion = "  a0 = s32[] multiply(p0, p4)\n a1 = s32[] multiply(p1, p5)\n a2 = s32[] multiply(p2, p6)
      a3 = s32[] multiply(p3, p7)\n a4 = s32[] subtract(a0, a1)\n a5 = s32[] subtract(a4, a2)\n a = s32[] subtract(a5, a3)
      b0 = s32[] multiply(p0, p5)\n b1 = s32[] multiply(p1, p4)\n b2 = s32[] multiply(p2, p7)\n b3 = s32[] multiply(p3, p6)
      b4 = s32[] add(b0, b1)\n b5 = s32[] add(b4, b2)\n b = s32[] subtract(b5, b3)
      c0 = s32[] multiply(p0, p6)\n c1 = s32[] multiply(p1, p7)\n c2 = s32[] multiply(p2, p4)\n c3 = s32[] multiply(p3, p5)
      c4 = s32[] subtract(c0, c1)\n c5 = s32[] add(c4, c2)\n c = s32[] add(c5, c3)
      d0 = s32[] multiply(p0, p7)\n d1 = s32[] multiply(p1, p6)\n d2 = s32[] multiply(p2, p5)\n d3 = s32[] multiply(p3, p4)
      d4 = s32[] add(d0, d1)\n d5 = s32[] subtract(d4, d2)\n d = s32[] add(d5, d3)";
    type Program<'a> = &'a dyn Fn(&[i64], &[i64]) -> String;
    let programs: [(usize, Program<'_>); 3] = [
        (4, &ordered(4, "s32", quaternion, &["a", "b", "c", "d"])),
        (1, &ordered(1, "f32", "  m = f32[] abs(p0)\n  ROOT r = f32[] multiply(m, p1)", &["r"])),
        (1, &ordered(1, "f32", "  m = f32[] floor(p0)\n  ROOT r = f32[] add(m, p1)", &["r"])),
    ];
    for (dims, reduced) in
        [(vec![100i64], vec![0i64]), (vec![3, 64], vec![1]), (vec![50, 7], vec![0]), (vec![4, 33], vec![0, 1])]
    {
        let n: i64 = dims.iter().product();
        for (parts, program) in &programs {
            let inputs: Vec<ArrayLiteral> = (0..*parts as i64)
                .map(|k| {
                    let value = |i: i64| (i * 7 + k * 3) % 5 - 2;
                    if *parts == 1 {
                        // Powers of two and halves: products and sums of them are exact.
                        let v: Vec<f32> =
                            (0..n).map(|i| if value(i) < 0 { -0.5 } else { 1.5 - (i % 2) as f32 }).collect();
                        ArrayLiteral::from_elements(&dims, &v)
                    } else {
                        ArrayLiteral::from_elements(&dims, &(0..n).map(|i| value(i) as i32).collect::<Vec<_>>())
                    }
                })
                .collect();
            agrees(&program(&dims, &reduced), &inputs);
        }
    }
}

#[test]
fn chains_of_transposes_and_reshapes_end() {
    for pairs in [1usize, 3, 18, 200] {
        let mut lines = String::from(" x0 = f32[6,10] parameter(0)\n");
        for k in 0..pairs {
            lines += &format!(" t{k} = f32[10,6] transpose(x{k}), dimensions={{1,0}}\n");
            lines += &format!(" x{} = f32[6,10] reshape(t{k})\n", k + 1);
        }
        let source = format!("HloModule chain\nENTRY e {{\n{lines} ROOT r = f32[6,10] negate(x{pairs})\n}}");
        let x: Vec<f32> = (0..60).map(|i| i as f32).collect();
        agrees(&source, &[ArrayLiteral::from_elements(&[6, 10], &x)]);
    }
}

#[test]
fn what_takes_nothing_from_its_operands_is_zeros() {
    let gather = "HloModule g\nENTRY e {\n x = f32[5,4] parameter(0)\n i = s32[3,1] parameter(1)
        ROOT r = f32[3,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={0,4}\n}";
    let x = ArrayLiteral::from_elements(&[5, 4], &[7f32; 20]);
    let i = ArrayLiteral::from_elements(&[3, 1], &[0i32, 4, 9]);
    assert_eq!(compiled(gather, &[x, i]), [ArrayLiteral::from_elements(&[3, 4], &[0f32; 12])]);
    for (x, k) in [("2,0,3", "2,3,4"), ("2,5,0", "2,0,4"), ("0,5,3", "2,3,4"), ("2,5,3", "2,3,0")] {
        let dims = |s: &str| s.split(',').map(|d| d.parse().unwrap()).collect::<Vec<i64>>();
        let (xd, kd) = (dims(x), dims(k));
        let (batch, positions, features) = (xd[0], xd[1] + 2 - 1, kd[2]);
        let source = format!(
            "HloModule c\nENTRY e {{\n x = f32[{x}] parameter(0)\n k = f32[{k}] parameter(1)
             ROOT r = f32[{batch},{positions},{features}] convolution(x, k), window={{size=2 pad=1_1}},
               dim_labels=b0f_0io->b0f\n}}"
        );
        let ones = |d: &[i64]| ArrayLiteral::from_elements(d, &vec![1f32; d.iter().product::<i64>() as usize]);
        agrees(&source, &[ones(&xd), ones(&kd)]);
    }
}

/// Whether a view of an operand is stored for somebody else or read through does not change how a product's sums are cut.
#[test]
fn sums_of_a_product_do_not_depend_on_what_is_stored_beside_it() {
    let program = |root: &str| {
        format!(
            "HloModule m\n\nENTRY e {{
  x = f32[8,64,32] parameter(0)
  w = f32[256,64] parameter(1)
  t = f32[64,8,32] transpose(x), dimensions={{1,0,2}}
  r = f32[64,256] reshape(t)
  d = f32[64,64] dot(r, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT out = {root}\n}}\n"
        )
    };
    let numbers = |dims: &[i64]| {
        let n: i64 = dims.iter().product();
        let values: Vec<f32> = (0..n).map(|k| ((k * 37 % 101) as f32 - 50.0) / 7.0).collect();
        ArrayLiteral::from_elements(dims, &values)
    };
    let inputs = [numbers(&[8, 64, 32]), numbers(&[256, 64])];
    let alone = compiled(&program("(f32[64,64]) tuple(d)"), &inputs);
    let beside = compiled(&program("(f32[64,64], f32[64,256]) tuple(d, r)"), &inputs);
    assert_eq!(first_other_bits(&alone[0], &beside[0]), None);
}
