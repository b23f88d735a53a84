//! What an expansion makes computes the same: in the interpreter, and as compiled code.
#![allow(clippy::unwrap_used)]

use super::run;
use crate::hlo::{Module, Opcode};
use crate::interp::{self, Options};
use crate::{CompileOptions, compile, shape, text};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Program, RunOptions, Scalar};

/// How near two answers must be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Near {
    Bits,
    /// Within this, absolutely or relatively.
    Within(f64),
}

fn parsed(source: &str) -> Module {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

fn expanded(source: &str) -> Module {
    let mut module = parsed(source);
    run(&mut module).unwrap();
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

/// Small numbers with many ties, a fixed sequence; NaN among the floats where `nan`.
fn arguments(module: &Module, nan: bool) -> Vec<Literal> {
    let mut state = 12345u64;
    let entry = module.entry();
    let parameters = entry.parameters();
    let shapes = parameters.iter().map(|&p| entry.instructions[p].shape.as_array().unwrap());
    let array = |shape| {
        let mut a = ArrayLiteral::zeros(shape);
        for i in 0..a.elements() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let v = (state >> 40) % 9;
            let value = match a.ty() {
                ty if ty.is_float() && nan && v == 8 => Scalar::Float(f64::NAN),
                ty if ty.is_float() => Scalar::Float(v as f64 - 4.0),
                ElementType::U64 => Scalar::UInt(state),
                ty if ty.is_signed_integer() => Scalar::Int(v as i64 - 4),
                _ => Scalar::UInt(v),
            };
            a.set(i, value);
        }
        Literal::Array(a)
    };
    shapes.map(array).collect()
}

#[track_caller]
fn same(what: &str, source: &str, got: &[ArrayLiteral], want: &Literal, near: Near) {
    let want = want.arrays();
    assert_eq!(got.len(), want.len(), "{what}\n{source}");
    for (k, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got.dims(), want.dims(), "{what}\n{source}");
        for i in 0..want.elements() {
            let (a, b) = (got.get(i), want.get(i));
            let equal = match (a, b, near) {
                (Scalar::Float(a), Scalar::Float(b), Near::Within(limit)) => {
                    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= limit * b.abs().max(1.0)
                }
                (Scalar::Float(a), Scalar::Float(b), _) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                _ => a == b,
            };
            assert!(equal, "{what}: result {k}, element {i} is {a:?}, not {b:?}\n{source}");
        }
    }
}

/// The compiled module's results.
fn compiled(module: &Module, args: &[Literal], seed: u64) -> Vec<ArrayLiteral> {
    let artifact = compile(module, &CompileOptions { threads: 1, ..CompileOptions::default() }).unwrap();
    let program = Program::from_object(&artifact.object).unwrap();
    let inputs: Vec<&ArrayLiteral> = args.iter().filter_map(Literal::as_array).collect();
    program.run_with(&inputs, &RunOptions { seed, ..RunOptions::default() }).unwrap()
}

fn owned(literal: &Literal) -> Vec<ArrayLiteral> {
    literal.arrays().into_iter().cloned().collect()
}

/// Runs a module before and after expansion, and compiled.
#[track_caller]
fn agree_on(source: &str, args: &[Literal], near: Near) {
    let seed = 0x1234_5678_9abc_def0;
    let options = Options { seed, ..Options::default() };
    let module = parsed(source);
    let want = interp::run(&module, args, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let after = interp::run(&expanded(source), args, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
    same("expanded", source, &owned(&after), &want, near);
    same("compiled", source, &compiled(&module, args, seed), &want, near);
}

#[track_caller]
pub(super) fn agree(others: &str, body: &str, near: Near) {
    let source = format!("HloModule m\n{others}\nENTRY e {{\n{body}\n}}\n");
    let module = parsed(&source);
    agree_on(&source, &arguments(&module, false), near);
    let floats = module
        .entry()
        .instructions
        .values()
        .any(|i| i.shape.leaves().iter().any(|l| l.as_array().is_some_and(|a| a.ty.is_float())));
    if floats {
        agree_on(&source, &arguments(&module, true), near);
    }
}

#[test]
fn random_bits_of_every_type_and_form() {
    for (algorithm, words) in [("rng_three_fry", 2), ("rng_philox", 3)] {
        for shape in [
            "u32[7]",
            "u64[3,3]",
            "s32[4,5]",
            "u8[2,3,5]",
            "f32[9]",
            "u32[]",
            "s64[0,4]",
            "bf16[3]",
            "f64[5]",
            "u4[7,1,3]",
            "s16[6,2]",
            "u64[]",
        ] {
            let body = format!(
                "s = u64[{words}] parameter(0)
                 ROOT r = (u64[{words}], {shape}) rng-bit-generator(s), algorithm={algorithm}"
            );
            agree("", &body, Near::Bits);
        }
    }
}

#[test]
fn random_states_of_every_length() {
    for (algorithm, words) in [("rng_philox", 2), ("rng_default", 3), ("rng_three_fry", 4)] {
        let body = format!(
            "s = u64[{words}] parameter(0)
             ROOT r = (u64[{words}], u32[7]) rng-bit-generator(s), algorithm={algorithm}"
        );
        agree("", &body, Near::Bits);
    }
}

#[test]
fn random_counters_carry() {
    let edge = [u64::MAX - 1, 0xffff_fffe, 0xffff_ffff_ffff_fffe, 7];
    for (algorithm, words) in [("rng_three_fry", 2usize), ("rng_philox", 3), ("rng_philox", 2)] {
        for (low, high) in [(0xffff_fffe, 0xffff_ffff), (u64::MAX - 1, 0xffff_ffff), (u64::MAX - 1, u64::MAX)] {
            let state = [edge[0], low, high];
            let source = format!(
                "HloModule m\nENTRY e {{ s = u64[{words}] parameter(0)
                 ROOT r = (u64[{words}], u32[5,6]) rng-bit-generator(s), algorithm={algorithm} }}"
            );
            let state = ArrayLiteral::from_elements(&[words as i64], &state[..words]);
            agree_on(&source, &[Literal::Array(state)], Near::Bits);
        }
    }
}

#[test]
fn counters_past_a_word_are_the_same_numbers() {
    use super::counter_based::testing;
    // The form for huge arrays, asked about a small one.
    for first in [[3u64, 9], [0xffff_fffd, 1], [u64::MAX - 2, 0xffff_ffff], [u64::MAX - 1, u64::MAX]] {
        let [narrow, wide] = testing::both(first, 6);
        assert_eq!(narrow, wide, "{first:x?}");
    }
}

#[test]
fn draws_of_a_program_agree() {
    for ty in ["f32", "f64", "bf16", "f16"] {
        let near = match ty {
            "bf16" => Near::Within(0.01),
            "f16" => Near::Within(2e-3),
            "f32" => Near::Within(4e-6),
            _ => Near::Within(1e-13),
        };
        let body = format!(
            "a = {ty}[] constant(-2)\n b = {ty}[] constant(3)
             x = {ty}[5,7] rng(a, b), distribution=rng_uniform
             y = {ty}[3] rng(a, b), distribution=rng_uniform
             ROOT t = ({ty}[5,7], {ty}[3]) tuple(x, y)"
        );
        agree("", &body, Near::Bits);
        let body = format!(
            "a = {ty}[] constant(-2)\n b = {ty}[] constant(3)\n ROOT n = {ty}[33] rng(a, b), distribution=rng_normal"
        );
        agree("", &body, near);
        let body = format!("a = {ty}[] constant(0.25)\n ROOT n = {ty}[33] rng(a, a), distribution=rng_bernoulli");
        agree("", &body, Near::Bits);
    }
    for ty in ["pred", "s4", "u8", "s16", "s32", "u32", "s64", "u64"] {
        let (low, high) = match ty {
            "pred" => ("false", "true"),
            "u32" | "u64" => ("3", "4000000000"),
            "u8" => ("3", "200"),
            "s4" => ("-7", "6"),
            _ => ("-100", "100"),
        };
        let body = format!(
            "a = {ty}[] constant({low})\n b = {ty}[] constant({high})
             x = {ty}[5,7] rng(a, b), distribution=rng_uniform\n y = {ty}[3] rng(b, a), distribution=rng_uniform
             z = {ty}[2] rng(b, a), distribution=rng_bernoulli
             ROOT t = ({ty}[5,7], {ty}[3], {ty}[2]) tuple(x, y, z)"
        );
        agree("", &body, Near::Bits);
    }
}

#[test]
fn draws_happen_in_program_order() {
    let others = "
        more { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
          ROOT c = pred[] compare(i, n), direction=LT }
        turn { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
          x = f32[4] get-tuple-element(s), index=1
          a = f32[] constant(0)  b = f32[] constant(1)
          unused = f32[9] rng(a, b), distribution=rng_uniform
          r = f32[4] rng(a, b), distribution=rng_uniform
          y = f32[4] add(x, r)  one = s32[] constant(1)  j = s32[] add(i, one)
          ROOT t = (s32[], f32[4]) tuple(j, y) }
        yes { x = f32[4] parameter(0)  a = f32[] constant(0)  b = f32[] constant(1)
          r = f32[4] rng(a, b), distribution=rng_uniform  ROOT y = f32[4] add(x, r) }
        no { ROOT x = f32[4] parameter(0) }";
    let body = "p = f32[4] parameter(0)  i = s32[] constant(0)  a = f32[] constant(0)  b = f32[] constant(1)
        first = f32[4] rng(a, b), distribution=rng_uniform
        start = (s32[], f32[4]) tuple(i, p)
        loop = (s32[], f32[4]) while(start), condition=more, body=turn
        looped = f32[4] get-tuple-element(loop), index=1
        zero = f32[] constant(0)
        sum = f32[] reduce(looped, zero), dimensions={0}, to_apply=sums
        c = pred[] compare(sum, zero), direction=GT
        chosen = f32[4] conditional(c, looped, looped), true_computation=yes, false_computation=no
        last = f32[4] rng(a, b), distribution=rng_uniform
        ROOT r = (f32[4], f32[4], f32[4], f32[4]) tuple(first, looped, chosen, last)";
    let sums = "sums { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";
    agree(&format!("{sums}\n{others}"), body, Near::Bits);
}

const REGIONS: &str = "
    ge { x = TY[] parameter(0)  y = TY[] parameter(1)  ROOT z = pred[] compare(x, y), direction=GE }
    lt { x = TY[] parameter(0)  y = TY[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }
    gt { x = TY[] parameter(0)  y = TY[] parameter(1)  ROOT z = pred[] compare(x, y), direction=GT }
    sum { x = TY[] parameter(0)  y = TY[] parameter(1)  ROOT z = TY[] add(x, y) }
    max { x = TY[] parameter(0)  y = TY[] parameter(1)  ROOT z = TY[] maximum(x, y) }";

#[test]
fn select_and_scatter_agrees() {
    // Each window with one type, each type in its turn.
    let types = ["f32", "f64", "bf16", "s32", "u64", "s8", "f32"];
    let cases = [
        ("6,6", "3,3", "{size=2x2 stride=2x2}"),
        ("2,5,6", "1,3,5", "{size=2x3x2}"),
        ("7,9", "4,5", "{size=3x3 stride=2x2 pad=1_1x1_1}"),
        ("5", "4", "{size=3 stride=3 pad=4_3}"),
        ("2,6,6,3", "2,3,2,3", "{size=1x2x3x1 stride=1x2x3x1}"),
        ("8", "4", "{size=2 rhs_dilate=3 pad=0_0 stride=1}"),
        ("", "", "{}"),
    ];
    for (ty, (dims, windows, window)) in types.into_iter().zip(cases) {
        for (select, scatter) in [("ge", "sum"), ("gt", "max"), ("lt", "sum")] {
            let window = if window == "{}" { String::new() } else { format!(", window={window}") };
            let body = format!(
                "p = {ty}[{dims}] parameter(0)\n s = {ty}[{windows}] parameter(1)\n i = {ty}[] constant(1)
                 ROOT r = {ty}[{dims}] select-and-scatter(p, s, i){window}, select={select}, scatter={scatter}"
            );
            // The windows of the dilated row are five less than its length less what they reach over.
            let body = if window.contains("rhs_dilate") { body.replace("[4]", "[5]") } else { body };
            agree(&REGIONS.replace("TY", ty), &body, Near::Bits);
        }
    }
}

#[test]
fn scans_agree() {
    let others = "
        sums { x = f32[3] parameter(0)  c = f32[3] parameter(1)  y = f32[3] add(x, c)
          ROOT t = (f32[3], f32[3]) tuple(y, y) }
        two { x = s32[] parameter(0)  y = s32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
          p = s32[] multiply(c, x)  q = s32[] add(p, y)  m = s32[] maximum(d, q)  o = s32[] subtract(d, q)
          ROOT t = (s32[], s32[], s32[], s32[]) tuple(o, p, q, m) }
        flags { x = pred[3] parameter(0)  y = bf16[3] parameter(1)  c = bf16[3] parameter(2)  p = pred[3] parameter(3)
          one = bf16[] constant(1.25)  w = bf16[3] broadcast(one), dimensions={}
          a = bf16[3] multiply(c, w)  b = bf16[3] select(x, a, y)  q = pred[3] xor(p, x)
          m = pred[3] compare(b, y), direction=LT
          ROOT t = (pred[3], bf16[3], pred[3]) tuple(m, b, q) }
        last { x = f32[] parameter(0)  c = f32[] parameter(1)  ROOT t = (f32[], f32[]) tuple(c, x) }
        dots { x = f32[2,2] parameter(0)  c = f32[2,2] parameter(1)
          y = f32[2,2] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          ROOT t = (f32[2,2], f32[2,2]) tuple(c, y) }";
    for reverse in ["", ", is_reverse=true"] {
        agree(
            others,
            &format!(
                "x = f32[3,5] parameter(0)\n c = f32[3] parameter(1)
             ROOT r = (f32[3,5], f32[3]) scan(x, c), dimensions={{1}}, num_carries=1{reverse}, to_apply=sums"
            ),
            Near::Within(1e-6),
        );
        agree(
            others,
            &format!("x = s32[9] parameter(0)\n y = s32[9] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)
             ROOT r = (s32[9], s32[9], s32[], s32[]) scan(x, y, c, d), dimensions={{0}}, num_carries=2{reverse}, to_apply=two"),
            Near::Bits,
        );
        agree(
            others,
            &format!(
                "x = f32[4] parameter(0)\n c = f32[] parameter(1)
             ROOT r = (f32[4], f32[]) scan(x, c), dimensions={{0}}, num_carries=1{reverse}, to_apply=last"
            ),
            Near::Bits,
        );
        agree(
            others,
            &format!(
                "x = f32[2,4,2] parameter(0)\n c = f32[2,2] parameter(1)
             ROOT r = (f32[2,4,2], f32[2,2]) scan(x, c), dimensions={{1}}, num_carries=1{reverse}, to_apply=dots"
            ),
            Near::Within(1e-6),
        );
    }
    agree(
        others,
        "x = f32[3,0] parameter(0)\n c = f32[3] parameter(1)
         ROOT r = (f32[3,0], f32[3]) scan(x, c), dimensions={1}, num_carries=1, to_apply=sums",
        Near::Bits,
    );
}

#[test]
fn running_folds_agree() {
    let others = |ty: &str| {
        REGIONS.replace("TY", ty)
            + &"newest { x = TY[] parameter(0)  y = TY[] parameter(1)  ROOT z = TY[] multiply(y, y) }
            pair { a = TY[] parameter(0)  b = TY[] parameter(1)  c = TY[] parameter(2)  d = TY[] parameter(3)
              e = TY[] subtract(a, c)  f = TY[] maximum(b, d)  ROOT z = (TY[], TY[]) tuple(e, f) }"
                .replace("TY", ty)
    };
    // Each window with one type, each type in its turn.
    let types = ["f32", "f64", "bf16", "s32", "u8", "s64", "f32", "bf16"];
    let windows = [
        ("9", "size=9 pad=8_0"),
        ("9", "size=9 pad=0_8"),
        ("9", "size=12 pad=11_0"),
        ("3,7,5", "size=1x7x1 pad=0_0x6_0x0_0"),
        ("3,7,5", "size=1x1x5 pad=0_0x0_0x0_4"),
        ("3,7,5", "size=3x1x1 pad=2_0x0_0x0_0"),
        ("2,40,70", "size=1x40x1 pad=0_0x39_0x0_0"),
        ("9", "size=8 pad=7_0"),
    ];
    for (ty, (dims, window)) in types.into_iter().zip(windows) {
        for fold in ["sum", "max", "newest"] {
            let body = format!(
                "x = {ty}[{dims}] parameter(0)\n i = {ty}[] constant(1)
                 w = {ty}[{dims}] reduce-window(x, i), window={{{window}}}, to_apply={fold}
                 ROOT r = {ty}[{dims}] subtract(w, x)"
            );
            let near = if ty == "bf16" { Near::Within(0.01) } else { Near::Within(1e-6) };
            agree(&others(ty), &body, near);
        }
        let body = format!(
            "x = {ty}[{dims}] parameter(0)\n y = {ty}[{dims}] parameter(1)\n i = {ty}[] constant(1)
             ROOT w = ({ty}[{dims}], {ty}[{dims}]) reduce-window(x, y, i, i), window={{{window}}}, to_apply=pair"
        );
        agree(&others(ty), &body, Near::Bits);
    }
}

#[test]
fn running_folds_read_each_element_once() {
    let source = "HloModule m
        sum { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
        ENTRY e { x = f32[1000000] parameter(0)  i = f32[] constant(0)
          ROOT r = f32[1000000] reduce-window(x, i), window={size=1000000 pad=999999_0}, to_apply=sum }";
    // Folding each window by itself would be 5e11 additions.
    let ones = ArrayLiteral::from_elements(&[1_000_000], &vec![1f32; 1_000_000]);
    let got = compiled(&parsed(source), &[Literal::Array(ones)], 0);
    assert!(got[0].as_slice::<f32>().iter().enumerate().all(|(i, &v)| v == (i + 1) as f32));
}

#[test]
fn reinterpretation_between_widths_keeps_every_bit() {
    for (from, dims, to, becomes) in [
        ("s32", "3,5", "u8", "3,5,4"),
        ("f32", "7", "s16", "7,2"),
        ("f64", "3", "bf16", "3,4"),
        ("s16", "19", "bf16", "19"),
        ("u16", "19", "f16", "19"),
        ("s16", "", "s8", "2"),
        ("u8", "3,4", "f32", "3"),
        ("bf16", "5,4", "u64", "5"),
        ("f16", "5,2", "s32", "5"),
        ("s8", "2,3,2", "f16", "2,3"),
        ("s4", "6,2", "u8", "6"),
        ("u64", "3", "s4", "3,16"),
        ("f8e5m2", "9,4", "u32", "9"),
    ] {
        let source = format!(
            "HloModule m\nENTRY e {{ x = {from}[{dims}] parameter(0)  r = {to}[{becomes}] bitcast-convert(x)
             ROOT s = {from}[{dims}] bitcast-convert(r)  }}"
        );
        let forth = source.replace("ROOT s", "s").replace("r = ", "ROOT r = ");
        let module = parsed(&source);
        let shape = module.entry().instructions.values().next().unwrap().shape.as_array().unwrap().clone();
        // Every pattern of bits, NaNs of all kinds among them.
        let mut bytes = vec![0u8; shape.elements() * shape.ty.byte_size()];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = [0xff, 0x7f, 0x01, 0x80, 0xfc, 0x3a, 0x00, 0xc1][(i * 5 + i / 8) % 8];
            if from == "s4" {
                *byte = ((*byte << 4) as i8 >> 4) as u8;
            }
        }
        let x = ArrayLiteral::from_bytes(&shape, &bytes).unwrap();
        for source in [source, forth] {
            let module = parsed(&source);
            let want = interp::run(&module, &[Literal::Array(x.clone())], &Options::default()).unwrap();
            let got = compiled(&module, &[Literal::Array(x.clone())], 0);
            assert_eq!(got[0].bytes(), want.arrays()[0].bytes(), "{source}");
        }
    }
}

#[test]
fn computations_of_any_kind_agree() {
    let others = "
        more { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
          ROOT c = pred[] compare(i, n), direction=LT }
        turn { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
          x = f32[] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
          h = f32[] constant(0.5)  y = f32[] multiply(x, h)  ROOT t = (s32[], f32[]) tuple(j, y) }
        matrices { x = f32[] parameter(0)  y = f32[] parameter(1)
          a = f32[2,2] broadcast(x), dimensions={}  b = f32[2,2] broadcast(y), dimensions={}
          c = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          s = f32[1,1] slice(c), slice={[1:2], [0:1]}  r = f32[] reshape(s)  ROOT d = f32[] add(r, y) }
        halves { x = f32[] parameter(0)  y = f32[] parameter(1)  z = s32[] constant(0)
          i = (s32[], f32[]) tuple(z, x)  w = (s32[], f32[]) while(i), condition=more, body=turn
          h = f32[] get-tuple-element(w), index=1  ROOT r = f32[] add(h, y) }
        pair { a = f32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = s32[] parameter(3)
          m = f32[2] broadcast(c), dimensions={}  v = f32[2] sine(m)  s = f32[1] slice(v), slice={[1:2]}
          r = f32[] reshape(s)  t = f32[] subtract(a, r)  u = s32[] subtract(b, d)
          ROOT p = (f32[], s32[]) tuple(t, u) }";
    for dims in ["1", "0,2", "0,1,2"] {
        let kept: Vec<&str> = ["0", "1", "2"].into_iter().filter(|d| !dims.contains(d)).collect();
        let sizes = ["3", "4", "2"];
        let out = kept.iter().map(|d| sizes[d.parse::<usize>().unwrap()]).collect::<Vec<_>>().join(",");
        for fold in ["matrices", "halves"] {
            let body = format!(
                "x = f32[3,4,2] parameter(0)\n i = f32[] constant(0.25)
                 ROOT r = f32[{out}] reduce(x, i), dimensions={{{dims}}}, to_apply={fold}"
            );
            agree(others, &body, Near::Within(1e-5));
        }
        let body = format!(
            "x = f32[3,4,2] parameter(0)\n y = s32[3,4,2] parameter(1)\n i = f32[] constant(0.25)\n j = s32[] constant(3)
             ROOT r = (f32[{out}], s32[{out}]) reduce(x, y, i, j), dimensions={{{dims}}}, to_apply=pair"
        );
        agree(others, &body, Near::Within(1e-5));
    }
    let body = "x = f32[3,4] parameter(0)\n y = f32[3,4] parameter(1)
        ROOT r = f32[3,4] map(x, y), dimensions={0,1}, to_apply=halves";
    agree(others, body, Near::Within(1e-6));
}

/// Computations with loops and branches in them: `slow` orders by a function that a loop computes and under which many
/// are equal, `either` branches, `both` does it to pairs.
const CONTROL_FLOW: &str = "
    more { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
      ROOT c = pred[] compare(i, n), direction=LT }
    turn { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      x = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
      y = s32[] multiply(x, x)  m = s32[] constant(5)  z = s32[] remainder(y, m)
      ROOT t = (s32[], s32[]) tuple(j, z) }
    slow { x = s32[] parameter(0)  y = s32[] parameter(1)  o = s32[] constant(0)
      s = (s32[], s32[]) tuple(o, x)  u = (s32[], s32[]) while(s), condition=more, body=turn
      t = (s32[], s32[]) tuple(o, y)  v = (s32[], s32[]) while(t), condition=more, body=turn
      a = s32[] get-tuple-element(u), index=1  b = s32[] get-tuple-element(v), index=1
      ROOT r = pred[] compare(a, b), direction=DIRECTION }
    slow2 { x = s32[] parameter(0)  y = s32[] parameter(1)  f = f32[] parameter(2)  g = f32[] parameter(3)
      ROOT r = pred[] map(x, y), to_apply=slow }
    sum { p = (s32[], s32[]) parameter(0)  x = s32[] get-tuple-element(p), index=0
      y = s32[] get-tuple-element(p), index=1  ROOT r = s32[] add(x, y) }
    rest { p = (s32[], s32[]) parameter(0)  x = s32[] get-tuple-element(p), index=0
      y = s32[] get-tuple-element(p), index=1  two = s32[] constant(2)  d = s32[] multiply(x, two)
      ROOT r = s32[] subtract(d, y) }
    either { x = s32[] parameter(0)  y = s32[] parameter(1)  p = pred[] compare(x, y), direction=LT
      t = (s32[], s32[]) tuple(x, y)
      ROOT r = s32[] conditional(p, t, t), true_computation=sum, false_computation=rest }
    apart { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] subtract(x, y) }
    both { x = s32[] parameter(0)  f = f32[] parameter(1)  y = s32[] parameter(2)  g = f32[] parameter(3)
      a = s32[] call(x, y), to_apply=either  v = f32[3] broadcast(g), dimensions={}
      z = f32[] constant(0)  s = f32[] reduce(v, z), dimensions={0}, to_apply=apart  h = f32[] subtract(f, s)
      ROOT t = (s32[], f32[]) tuple(a, h) }
    ";

#[test]
fn sorts_by_loops_agree() {
    // `<=` is no order: the permutation is still the interpreter's.
    for direction in ["LT", "GT", "LE"] {
        let others = CONTROL_FLOW.replace("DIRECTION", direction);
        for (dims, along) in [("17", 0), ("1", 0), ("4,9", 1), ("9,4", 0), ("2,5,3", 1), ("0,3", 1), ("3,0", 1)] {
            let body = format!(
                "x = s32[{dims}] parameter(0) ROOT r = s32[{dims}] sort(x), dimensions={{{along}}}, to_apply=slow"
            );
            agree(&others, &body, Near::Bits);
            let body = format!(
                "x = s32[{dims}] parameter(0)  y = f32[{dims}] parameter(1)
                 ROOT r = (s32[{dims}], f32[{dims}]) sort(x, y), dimensions={{{along}}}, to_apply=slow2"
            );
            agree(&others, &body, Near::Bits);
        }
    }
}

#[test]
fn windows_with_branches_agree() {
    let others = CONTROL_FLOW.replace("DIRECTION", "LT");
    for (dims, out, window) in [
        ("7", "5", "size=3"),
        ("7", "4", "size=3 stride=2 pad=1_1"),
        ("6", "6", "size=6 pad=5_0"),
        ("4,5", "4,5", "size=2x3 pad=1_0x1_1"),
        ("5", "9", "size=3 lhs_dilate=2 pad=1_1"),
        ("8", "4", "size=3 rhs_dilate=2"),
        ("2,0", "2,2", "size=1x2 pad=0_0x2_1"),
        ("3,4", "0,4", "size=4x1"),
    ] {
        let body = format!(
            "x = s32[{dims}] parameter(0)  i = s32[] parameter(1)
             ROOT r = s32[{out}] reduce-window(x, i), window={{{window}}}, to_apply=either"
        );
        agree(&others, &body, Near::Bits);
        let body = format!(
            "x = s32[{dims}] parameter(0)  y = f32[{dims}] parameter(1)  i = s32[] constant(2)  j = f32[] constant(-1)
             ROOT r = (s32[{out}], f32[{out}]) reduce-window(x, y, i, j), window={{{window}}}, to_apply=both"
        );
        agree(&others, &body, Near::Bits);
    }
    // Arithmetic too where there is nothing to read.
    let body = "x = f32[0] parameter(0)  i = f32[] constant(3)
        ROOT r = f32[2] reduce-window(x, i), window={size=2 pad=1_2}, to_apply=apart";
    agree(&others, body, Near::Bits);
}

#[test]
fn scatters_with_branches_agree() {
    let others = CONTROL_FLOW.replace("DIRECTION", "GE");
    for (ty, operand, indices, updates, numbers) in [
        (
            "s32",
            "9",
            "6",
            "6",
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
        ),
        (
            "u64",
            "5,3",
            "4,1",
            "4,3",
            "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
        ),
        (
            "s8",
            "5,6",
            "2,3",
            "2,4,3",
            "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0",
        ),
        (
            "s64",
            "3,4",
            "3,2,1",
            "3,2",
            "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2",
        ),
        (
            "s32",
            "4",
            "0",
            "0",
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
        ),
    ] {
        let body = format!(
            "x = s32[{operand}] parameter(0)  i = {ty}[{indices}] parameter(1)  u = s32[{updates}] parameter(2)
             ROOT r = s32[{operand}] scatter(x, i, u), {numbers}, to_apply=either"
        );
        agree(&others, &body, Near::Bits);
        let body = format!(
            "x = s32[{operand}] parameter(0)  y = f32[{operand}] parameter(1)  i = {ty}[{indices}] parameter(2)
             u = s32[{updates}] parameter(3)  v = f32[{updates}] parameter(4)
             ROOT r = (s32[{operand}], f32[{operand}]) scatter(x, y, i, u, v), {numbers}, to_apply=both"
        );
        agree(&others, &body, Near::Bits);
    }
    for select in ["slow", "plain"] {
        for scatter in ["either", "added"] {
            let others = format!(
                "{others} plain {{ x = s32[] parameter(0)  y = s32[] parameter(1)  ROOT r = pred[] compare(x, y), direction=GE }}
                 added {{ x = s32[] parameter(0)  y = s32[] parameter(1)  ROOT r = s32[] add(x, y) }}"
            );
            let body = format!(
                "p = s32[7,9] parameter(0)  s = s32[4,5] parameter(1)  i = s32[] constant(1)
                 ROOT r = s32[7,9] select-and-scatter(p, s, i), window={{size=3x3 stride=2x2 pad=1_1x1_1}},
                   select={select}, scatter={scatter}"
            );
            agree(&others, &body, Near::Bits);
        }
    }
}

#[test]
fn what_does_not_exist_is_not_asked() {
    // The comparator and the reducer loop for ever on a zero, which is what padding and what lies past a row would be.
    let others = "
        more { s = s32[] parameter(0)  n = s32[] constant(100)  ROOT c = pred[] compare(s, n), direction=LT }
        turn { s = s32[] parameter(0)  ROOT r = s32[] add(s, s) }
        grown { x = s32[] parameter(0)  y = s32[] parameter(1)  w = s32[] while(y), condition=more, body=turn
          ROOT r = s32[] add(x, w) }
        less { x = s32[] parameter(0)  y = s32[] parameter(1)  v = s32[] while(x), condition=more, body=turn
          w = s32[] while(y), condition=more, body=turn  ROOT r = pred[] compare(v, w), direction=LT }";
    let body = "x = s32[5] parameter(0)  a = s32[5] abs(x)  one = s32[] constant(1)
        ones = s32[5] broadcast(one), dimensions={}  c = s32[5] add(a, ones)  i = s32[] constant(0)
        w = s32[7] reduce-window(c, i), window={size=3 pad=2_2}, to_apply=grown
        s = s32[5] sort(c), dimensions={0}, to_apply=less  ROOT t = (s32[7], s32[5]) tuple(w, s)";
    agree(others, body, Near::Bits);
}

#[test]
fn computations_may_take_wider_integers() {
    for (narrow, init, wide) in
        [("s32", "s64", "s64"), ("s32", "s32", "s64"), ("u8", "s32", "s32"), ("u8", "u8", "s64"), ("s8", "s64", "s64")]
    {
        let add =
            format!("c {{ x = {wide}[] parameter(0)\n y = {wide}[] parameter(1)\n ROOT z = {wide}[] add(x, y) }}");
        let body = format!(
            "a = {narrow}[5,3] parameter(0)\n i = {init}[] constant(7)\n m = {narrow}[] constant(100)
             ms = {narrow}[5,3] broadcast(m), dimensions={{}}\n b = {narrow}[5,3] add(a, ms)
             r = {wide}[3] reduce(b, i), dimensions={{0}}, to_apply=c
             w = {wide}[4,3] reduce-window(b, i), window={{size=2x1}}, to_apply=c
             ROOT t = ({wide}[3], {wide}[4,3]) tuple(r, w)"
        );
        agree(&add, &body, Near::Bits);
        let body = format!(
            "a = {narrow}[5] parameter(0)\n u = {narrow}[3] parameter(1)\n i = s32[3,1] constant({{{{1}},{{1}},{{4}}}})
             ROOT r = {wide}[5] scatter(a, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
               scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c"
        );
        agree(&add, &body, Near::Bits);
    }
}

#[test]
fn nothing_of_these_is_left() {
    let body = "s = u64[2] parameter(0)  p = f32[6] parameter(1)  q = f32[3] parameter(2)
        b = (u64[2], u32[7]) rng-bit-generator(s), algorithm=rng_three_fry
        i = f32[] constant(0)
        r = f32[6] select-and-scatter(p, q, i), window={size=2 stride=2}, select=ge, scatter=sum
        n = f32[6] rng(i, i), distribution=rng_normal
        ROOT t = (f32[6], f32[6], (u64[2], u32[7])) tuple(r, n, b)";
    let module = expanded(&format!("HloModule m\n{}\nENTRY e {{ {body} }}", REGIONS.replace("TY", "f32")));
    let left = [Opcode::Rng, Opcode::RngBitGenerator, Opcode::SelectAndScatter];
    let entry = module.entry();
    assert!(entry.order.iter().all(|&i| !left.contains(&entry.instructions[i].opcode)));
}

/// What compiled code, and the interpreter, draw for a distribution over `f64`, which of the numbers of other types have
/// the statistics.
fn draws(ty: &str, kind: &str, parameters: (&str, &str), count: usize) -> Vec<Vec<f64>> {
    let (a, b) = parameters;
    let source = format!(
        "HloModule m\nENTRY e {{ a = {ty}[] constant({a})  b = {ty}[] constant({b})
         x = {ty}[{count}] rng(a, b), distribution=rng_{kind}
         y = {ty}[{count}] rng(a, b), distribution=rng_{kind}
         ROOT t = ({ty}[{count}], {ty}[{count}]) tuple(x, y) }}"
    );
    let module = parsed(&source);
    let want = interp::run(&module, &[], &Options { seed: 42, ..Options::default() }).unwrap();
    let read = |a: &ArrayLiteral| (0..a.elements()).map(|i| a.get(i).as_f64()).collect::<Vec<f64>>();
    let mut all: Vec<Vec<f64>> = want.arrays().into_iter().map(read).collect();
    all.extend(compiled(&module, &[], 42).iter().map(read));
    all
}

/// Mean and variance, and the Pearson correlation of two samples.
fn moments(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
}

fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let ((mx, vx), (my, vy)) = (moments(x), moments(y));
    let covariance = x.iter().zip(y).map(|(a, b)| (a - mx) * (b - my)).sum::<f64>() / x.len().min(y.len()) as f64;
    covariance / (vx * vy).sqrt()
}

/// The largest distance between the sample's distribution and the true one (Kolmogorov and Smirnov).
fn distance(x: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let apart = |(i, &v): (usize, &f64)| {
        let p = cdf(v);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    sorted.iter().enumerate().map(apart).fold(0.0, f64::max)
}

/// Bounds that a true sample passes but for one in some ten thousand; the seed is fixed.
#[test]
fn draws_have_the_statistics_of_their_distributions() {
    const N: usize = 20_000;
    let n = (N as f64).sqrt();
    let independent = |all: &[Vec<f64>], what: &str| {
        for pair in all.chunks(2) {
            assert!(correlation(&pair[0], &pair[1]).abs() < 4.0 / n, "{what}: two calls");
            assert!(pair[0] != pair[1], "{what}");
            for x in pair {
                // Neighbours, and the distance between numbers of one block.
                for lag in [1, 2, N / 4, N / 2] {
                    assert!(
                        correlation(&x[lag..], &x[..N - lag]).abs() < 4.0 / ((N - lag) as f64).sqrt(),
                        "{what}: lag {lag}"
                    );
                }
            }
        }
    };
    for ty in ["f32", "f64"] {
        let uniform = draws(ty, "uniform", ("-1", "3"), N);
        for x in &uniform {
            let (mean, variance) = moments(x);
            assert!((mean - 1.0).abs() < 4.0 * (16.0f64 / 12.0).sqrt() / n, "{ty} {mean}");
            assert!((variance - 16.0 / 12.0).abs() < 0.03, "{ty} {variance}");
            assert!(distance(x, |v| (v + 1.0) / 4.0) < 2.2 / n, "{ty}");
            assert!(x.iter().all(|v| (-1.0..3.0).contains(v)));
        }
        independent(&uniform, ty);
        let normal = draws(ty, "normal", ("2", "0.5"), N);
        for x in &normal {
            let (mean, variance) = moments(x);
            assert!((mean - 2.0).abs() < 4.0 * 0.5 / n, "{ty} {mean}");
            assert!((variance - 0.25).abs() < 0.01, "{ty} {variance}");
            let cdf = |v: f64| 0.5 * (1.0 + libm::erf((v - 2.0) / 0.5 / std::f64::consts::SQRT_2));
            assert!(distance(x, cdf) < 2.2 / n, "{ty} {}", distance(x, cdf) * n);
            assert!(x.iter().any(|v| (v - 2.0).abs() > 3.0 * 0.5), "tails");
        }
        independent(&normal, ty);
        for x in draws(ty, "bernoulli", ("0.3", "0"), N) {
            let (mean, _) = moments(&x);
            assert!((mean - 0.3).abs() < 4.0 * 0.21f64.sqrt() / n, "{ty} {mean}");
        }
    }
    for ty in ["s32", "u8", "s64"] {
        let integers = draws(ty, "uniform", ("10", "17"), N);
        for x in &integers {
            let mut counts = [0f64; 7];
            x.iter().for_each(|v| counts[(*v as usize).wrapping_sub(10)] += 1.0);
            let expected = N as f64 / 7.0;
            let chi: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
            assert!(chi < 26.0, "{ty} {chi}");
        }
        independent(&integers, ty);
    }
    // An interval that is no power of two, near the whole range: none of its thirds is favoured.
    for x in draws("u32", "uniform", ("0", "3221225472"), N) {
        assert!(distance(&x, |v| v / 3221225472.0) < 2.2 / n);
    }
}
