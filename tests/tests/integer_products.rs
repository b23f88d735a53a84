//! Products of small integers, summed by fours and by twos: the sums are those of the interpreter for all pairs of signs, orders of
//! dimensions and lengths, modulo 2^32, on every target that this machine can run which has an instruction for them.
#![allow(clippy::unwrap_used)]
#![cfg(target_arch = "x86_64")]

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::hlo::Module;
use brolga_compiler::kernel::body::Variant;
use brolga_compiler::kernel::interp::Machine;
use brolga_compiler::{CompileOptions, compile, interp, memory, shape, text};
use brolga_runtime::abi::IsaFeatures;
use brolga_runtime::{ArrayLiteral, Literal, Program};
use brolga_tests::products::product;
use brolga_tests::widths::{WIDEST, level};

const SIGNS: [(&str, &str); 4] = [("u8", "s8"), ("s8", "s8"), ("u8", "u8"), ("s8", "u8")];
/// What sums by fours, and by twos.
const FOURS: &str = "vpdpbusd";
const TWOS: &str = "vpmaddwd";

/// Targets with an instruction for products of bytes, of those that this machine can run, and which: the widths that it has, and the
/// machine itself.
fn targets() -> Vec<(TargetOptions, &'static str)> {
    let there = IsaFeatures::detect();
    let mut targets = Vec::new();
    if there.contains(IsaFeatures::AVXVNNI.union(IsaFeatures::AVX2)) {
        targets.push((level("x86-64-v3", &["+avxvnni"]), FOURS));
    }
    if there.contains(IsaFeatures::AVX512VNNI.union(IsaFeatures::AVX512VL).union(WIDEST)) {
        targets.push((level("x86-64-v4", &["+avx512vnni"]), FOURS));
    }
    if targets.is_empty() {
        eprintln!("SKIPPED: this machine has neither avxvnni nor avx512vnni");
    } else {
        targets.push((TargetOptions::native(), FOURS));
    }
    for (cpu, features) in [("x86-64-v3", IsaFeatures::AVX2), ("x86-64-v4", WIDEST)] {
        if there.contains(features) {
            targets.push((level(cpu, &[]), TWOS));
        } else {
            eprintln!("SKIPPED: this machine cannot run {cpu}");
        }
    }
    targets
}

fn parsed(source: &str) -> Module {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

/// What the bytes of a test are: the same everywhere, or any.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    Same(u8),
    Any,
}

/// Runs a program of integer parameters on every target; with `kernels` its kernels are interpreted too.
fn check(source: &str, bytes: [Bytes; 2], kernels: bool) {
    check_on(&targets(), source, bytes, kernels);
}

/// As [`check`], on these targets.
fn check_on(targets: &[(TargetOptions, &str)], source: &str, bytes: [Bytes; 2], kernels: bool) {
    let module = parsed(source);
    let entry = module.entry();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut inputs = Vec::new();
    for (&p, bytes) in entry.parameters().iter().zip(bytes.into_iter().chain([Bytes::Any; 2])) {
        let mut array = ArrayLiteral::zeros(entry.instructions[p].shape.as_array().unwrap());
        for byte in array.bytes_mut() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = match bytes {
                Bytes::Same(byte) => byte,
                Bytes::Any => (state >> 40) as u8,
            };
        }
        inputs.push(array);
    }
    let arguments: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let want = interp::run(&module, &arguments, &interp::Options::default()).unwrap();
    let want = want.arrays();
    for (target, instruction) in targets {
        let options = CompileOptions { target: target.clone(), keep_texts: true, ..CompileOptions::default() };
        let artifact = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert!(artifact.asm.contains(instruction), "{target:?}\n{source}");
        let program = Program::from_object(&artifact.object).unwrap();
        let got = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        for (got, want) in got.iter().zip(&want) {
            let same = got.bytes() == want.bytes();
            assert!(same, "{target:?} {bytes:?}\n{source}\n{}", artifact.schedule);
        }
        if kernels {
            let machine = Machine { variant: Variant::Fma, random: [0, 0], budget: 1 << 24 };
            let raw: Vec<&[u8]> = inputs.iter().map(ArrayLiteral::bytes).collect();
            let got = memory::run::run(&artifact.schedule, machine, &raw).unwrap_or_else(|e| panic!("{e}\n{source}"));
            assert!(got.iter().zip(&want).all(|(got, want)| *got == want.bytes()), "{}", artifact.schedule);
        }
    }
}

#[test]
fn lengths_of_sums() {
    for (l, r) in SIGNS {
        for (k, m, n) in
            [(1, 50, 90), (2, 33, 67), (3, 40, 37), (4, 32, 33), (5, 29, 31), (64, 17, 16), (67, 7, 40), (130, 100, 2)]
        {
            for first in [[false, true], [true, false], [true, true], [false, false]] {
                check(&product((l, r, "s32"), [0, m, n, k], first), [Bytes::Any; 2], true);
            }
        }
        for k in [1030, 4096 + 3] {
            check(&product((l, r, "s32"), [0, 14, 18, k], [false, true]), [Bytes::Any; 2], false);
        }
    }
}

#[test]
fn extremes() {
    for (l, r) in SIGNS {
        for a in [0x00, 0x7f, 0x80, 0xff] {
            for b in [0x00, 0x7f, 0x80, 0xff] {
                let bytes = [Bytes::Same(a), Bytes::Same(b)];
                check(&product((l, r, "s32"), [0, 13, 35, 43], [false, true]), bytes, false);
            }
        }
    }
}

/// 40000 products of 255 by 255 pass 2^31, 70000 pass 2^32.
#[test]
fn sums_wrap() {
    for k in [40_000, 70_000] {
        for out in ["s32", "u32", "s16", "u8"] {
            check(&product(("u8", "u8", out), [0, 2, 5, k], [false, true]), [Bytes::Same(0xff); 2], false);
        }
    }
    for out in ["s32", "u32", "s16", "u16", "s8", "u8"] {
        for (l, r) in SIGNS {
            check(&product((l, r, out), [0, 20, 21, 50], [false, true]), [Bytes::Any; 2], true);
        }
    }
}

/// As front ends write operands of unlike types: each is converted to the type of the sums before. The interpreter multiplies what was
/// converted.
#[test]
fn operands_that_were_widened() {
    for (l, r) in SIGNS {
        for (to, out) in [("s32", "s32"), ("u32", "s32"), ("s16", "s32"), ("s64", "u32")] {
            let source = format!(
                "HloModule w\n\nENTRY e {{\n  a = {l}[40,67] parameter(0)\n  b = {r}[67,33] parameter(1)\n  \
                 x = {to}[40,67] convert(a)\n  y = {to}[67,33] convert(b)\n  \
                 ROOT c = {out}[40,33] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
            );
            check(&source, [Bytes::Any; 2], true);
        }
        let windows = format!(
            "HloModule w\n\nENTRY e {{\n  a = {l}[1,9,9,16] parameter(0)\n  b = {r}[3,3,16,12] parameter(1)\n  \
             x = s32[1,9,9,16] convert(a)\n  y = s32[3,3,16,12] convert(b)\n  \
             ROOT c = s32[1,7,7,12] convolution(x, y), window={{size=3x3}}, dim_labels=b01f_01io->b01f\n}}\n"
        );
        check(&windows, [Bytes::Any; 2], true);
    }
}

#[test]
fn batches_few_rows_and_tiles() {
    for (l, r) in SIGNS {
        for first in [[false, true], [true, false], [false, false]] {
            check(&product((l, r, "s32"), [3, 19, 34, 21], first), [Bytes::Any; 2], true);
            // Few rows or columns; turned where the steps of both lie side by side.
            check(&product((l, r, "s32"), [0, 3, 40, 68], first), [Bytes::Any; 2], true);
            check(&product((l, r, "s32"), [2, 40, 3, 70], first), [Bytes::Any; 2], true);
        }
        check(&product((l, r, "s32"), [0, 200, 300, 516], [false, true]), [Bytes::Any; 2], false);
        check(&product((l, r, "s32"), [0, 130, 1000, 600], [false, true]), [Bytes::Any; 2], false);
    }
}

#[test]
fn several_dimensions_views_and_epilogues() {
    for (l, r) in SIGNS {
        let several = format!(
            "HloModule s\n\nENTRY e {{\n  a = {l}[5,6,4,9] parameter(0)\n  b = {r}[9,7,4,5] parameter(1)\n  \
             ROOT c = s32[5,6,7,5] dot(a, b), lhs_contracting_dims={{3,2}}, rhs_contracting_dims={{0,2}}\n}}\n"
        );
        check(&several, [Bytes::Any; 2], true);
        // A slice that begins in the midst of a word, and a transpose.
        let views = format!(
            "HloModule v\n\nENTRY e {{\n  a = {l}[20,34] parameter(0)\n  b = {r}[18,4,8] parameter(1)\n  \
             x = {l}[20,32] slice(a), slice={{[0:20],[1:33]}}\n  t = {r}[4,8,18] transpose(b), dimensions={{1,2,0}}\n  \
             y = {r}[32,18] reshape(t)\n  \
             ROOT c = s32[20,18] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
        );
        check(&views, [Bytes::Any; 2], true);
        let scaled = format!(
            "HloModule q\n\nENTRY e {{\n  a = {l}[40,24] parameter(0)\n  b = {r}[24,33] parameter(1)\n  \
             z = s8[33] parameter(2)\n  d = s32[40,33] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  \
             w = s32[33] convert(z)\n  bias = s32[40,33] broadcast(w), dimensions={{1}}\n  s = s32[40,33] add(d, bias)\n  \
             f = f32[40,33] convert(s)\n  ROOT o = (f32[40,33], s32[40,33]) tuple(f, s)\n}}\n"
        );
        check(&scaled, [Bytes::Any; 2], true);
    }
}

/// Channels in whole words and not (few and odd, they are not worth words of halves), in one group and several, in orders of dimensions
/// that have them last and not; windows that step, are spread, reach beyond the base and go backwards.
#[test]
fn convolutions() {
    let cases = [
        ("[2,9,10,8]", "[3,3,8,16]", "[2,9,10,16]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "", true),
        ("[2,12,13,3]", "[3,3,3,10]", "[2,6,7,10]", "size=3x3 pad=1_0x1_1 stride=2x2", "b01f_01io->b01f", "", false),
        ("[2,9,13,6]", "[2,3,6,5]", "[2,7,9,5]", "size=2x3 rhs_dilate=2x2", "b01f_01io->b01f", "", true),
        ("[1,12,12,24]", "[3,3,8,12]", "[1,10,10,12]", "size=3x3", "b01f_01io->b01f", ", feature_group_count=3", true),
        ("[1,12,12,10]", "[3,3,5,8]", "[1,10,10,8]", "size=3x3", "b01f_01io->b01f", ", feature_group_count=2", false),
        ("[2,8,12,12]", "[20,8,3,3]", "[2,20,10,10]", "size=3x3", "bf01_oi01->bf01", "", true),
        ("[1,3,12,12]", "[7,3,3,3]", "[1,7,12,12]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", "", false),
        ("[3,40,16]", "[9,16,33]", "[3,32,33]", "size=9 rhs_reversal=1", "b0f_0io->b0f", "", true),
        ("[1,5,5,8]", "[2,2,8,9]", "[1,10,10,9]", "size=2x2 pad=1_1x1_1 lhs_dilate=2x2", "b01f_01io->b01f", "", true),
        ("[1,14,14,64]", "[3,3,64,40]", "[1,12,12,40]", "size=3x3", "b01f_01io->b01f", "", true),
        ("[4,14,14,2]", "[5,5,2,3]", "[4,10,10,3]", "size=5x5", "b01f_01io->b01f", "", true),
    ];
    for (l, r) in SIGNS {
        for (base, kernel, result, window, labels, more, twos) in cases {
            let source = format!(
                "HloModule m\n\nENTRY e {{\n  a = {l}{base} parameter(0)\n  b = {r}{kernel} parameter(1)\n  \
                 ROOT c = s32{result} convolution(a, b), window={{{window}}}, dim_labels={labels}{more}\n}}\n"
            );
            let targets: Vec<_> = targets().into_iter().filter(|&(_, name)| twos || name == FOURS).collect();
            check_on(&targets, &source, [Bytes::Any; 2], true);
            check_on(&targets, &source, [Bytes::Same(0x80), Bytes::Same(0xff)], false);
        }
        // A base and a kernel that are views, and a result that wraps.
        let views = format!(
            "HloModule v\n\nENTRY e {{\n  a = {l}[2,8,11,13] parameter(0)\n  b = {r}[16,3,3,9] parameter(1)\n  \
             e = s8[20] parameter(2)\n  t = {l}[2,11,13,8] transpose(a), dimensions={{0,2,3,1}}\n  s = {l}[2,10,13,8] slice(t), slice={{[0:2],[1:11],[0:13],[0:8]}}\n  \
             u = {r}[3,3,9,16] transpose(b), dimensions={{1,2,3,0}}\n  k = {r}[3,3,8,16] slice(u), slice={{[0:3],[0:3],[1:9],[0:16]}}\n  \
             c = s8[2,8,11,16] convolution(s, k), window={{size=3x3}}, dim_labels=b01f_01io->b01f\n  \
             d = s8[16] slice(e), slice={{[0:16]}}\n  w = s8[2,8,11,16] broadcast(d), dimensions={{3}}\n  ROOT o = s8[2,8,11,16] add(c, w)\n}}\n"
        );
        check(&views, [Bytes::Any; 2], true);
    }
}

/// Halves that are there already, next to each other and to bytes; sums of the least of them wrap.
#[test]
fn halves() {
    let all: Vec<_> = targets().into_iter().map(|(target, _)| (target, TWOS)).collect();
    for (l, r) in [("s16", "s16"), ("s16", "u8"), ("s8", "s16")] {
        for first in [[false, true], [true, false], [true, true], [false, false]] {
            for [m, n, k] in [[33, 40, 64], [29, 31, 5], [40, 17, 131], [3, 50, 70], [50, 2, 66]] {
                check_on(&all, &product((l, r, "s32"), [0, m, n, k], first), [Bytes::Any; 2], true);
            }
            check_on(&all, &product((l, r, "s16"), [2, 19, 34, 21], first), [Bytes::Any; 2], true);
            // All elements 0x8080, or 0xffff.
            for byte in [0x80, 0xff] {
                let bytes = [Bytes::Same(byte); 2];
                check_on(&all, &product((l, r, "s32"), [0, 20, 21, 600], first), bytes, false);
            }
        }
        for (base, kernel, result) in
            [("[2,9,10,8]", "[3,3,8,16]", "[2,7,8,16]"), ("[1,12,12,17]", "[3,3,17,5]", "[1,10,10,5]")]
        {
            let source = format!(
                "HloModule m\n\nENTRY e {{\n  a = {l}{base} parameter(0)\n  b = {r}{kernel} parameter(1)\n  \
                 ROOT c = s32{result} convolution(a, b), window={{size=3x3}}, dim_labels=b01f_01io->b01f\n}}\n"
            );
            check_on(&all, &source, [Bytes::Any; 2], true);
        }
    }
}

/// Elements of fewer bits lie in bytes, and are multiplied as those.
#[test]
fn elements_of_fewer_bits() {
    for (l, r) in [("s4", "s8"), ("u8", "u4"), ("s4", "u4")] {
        let source = format!(
            "HloModule m\n\nENTRY e {{\n  p = u8[30,50] parameter(0)\n  q = u8[50,40] parameter(1)\n  \
             a = {l}[30,50] convert(p)\n  b = {r}[50,40] convert(q)\n  \
             ROOT c = s32[30,40] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
        );
        check(&source, [Bytes::Any; 2], true);
    }
}

#[test]
fn targets_without_the_instruction_do_not_have_it() {
    let module = parsed(&product(("u8", "s8", "s32"), [0, 40, 40, 40], [false, true]));
    let asm = |target: TargetOptions| {
        let options = CompileOptions { target, keep_texts: true, ..CompileOptions::default() };
        compile(&module, &options).unwrap().asm
    };
    // One level of two: all of them have the instruction, or none.
    let partly = level("x86-64-v3,x86-64-v4", &["+avx512vnni"]);
    // Nor where the wide registers for it are not there.
    let narrow = level("x86-64-v3", &["+avx512vnni"]);
    let plain = [TargetOptions::default(), level("x86-64-v3", &[]), level("x86-64-v4", &[]), partly, narrow];
    for target in plain {
        assert!(!asm(target.clone()).contains(FOURS), "{target:?}");
    }
    let with = asm(level("x86-64-v3", &["+avxvnni"]));
    assert!(with.contains(FOURS) && !with.contains("zmm"));
    let widest = asm(level("x86-64-v4", &["+avx512vnni"]));
    assert!(widest.lines().any(|line| line.contains(FOURS) && line.contains("zmm")));
    let both = asm(level("x86-64-v3,x86-64-v4", &["+avx512vnni", "+avxvnni"]));
    assert!(both.lines().any(|line| line.contains(FOURS) && line.contains("zmm")));
    assert!(both.lines().any(|line| line.contains(FOURS) && line.contains("ymm")));
}
