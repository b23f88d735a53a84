//! Products of `bf16`, two at once where the machine has an instruction for it: the bits are those of multiply-adds of `f32`, also where
//! operands, products or sums are subnormal, which that instruction takes for zero.
#![allow(clippy::unwrap_used)]
#![cfg(target_arch = "x86_64")]

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::kernel::body::Variant;
use brolga_compiler::kernel::interp::Machine;
use brolga_compiler::kernel::parse;
use brolga_compiler::{Artifact, CompileOptions, compile, compile_kernel, memory, shape, text};
use brolga_runtime::abi::{IsaFeatures, NumericVariant};
use brolga_runtime::{ArrayLiteral, ArrayShape, Program};
use brolga_tests::products::product;
use brolga_tests::widths::{WIDEST, level};

const INSTRUCTION: &str = "vdpbf16ps";

/// What elements of a side are: the exponents that they have, from and to, with any sign and digits, and how many in 256 are zero.
#[derive(Clone, Copy, Debug)]
struct Range(i32, i32, u8);

const USUAL: Range = Range(-8, 2, 20);

/// With the instruction, where this machine can run it, and without.
fn targets() -> Vec<(TargetOptions, bool)> {
    let there = IsaFeatures::detect();
    let mut targets = vec![(level("x86-64-v3", &[]), false)];
    if there.contains(IsaFeatures::AVX512BF16.union(IsaFeatures::AVX512VL).union(WIDEST)) {
        targets.extend([(level("x86-64-v4", &["+avx512bf16"]), true), (TargetOptions::native(), true)]);
    } else {
        eprintln!("SKIPPED: this machine has no avx512bf16");
    }
    targets
}

/// An array of `bf16`.
fn elements(shape: &ArrayShape, Range(low, high, zeros): Range, state: &mut u64) -> ArrayLiteral {
    let mut array = ArrayLiteral::zeros(shape);
    for element in array.bytes_mut().chunks_exact_mut(2) {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = *state >> 24;
        let span = (high - low + 1) as u64;
        // Below -126 an element is subnormal.
        let field = (low + 127 + ((random >> 16) % span) as i32).max(0) as u16;
        let zero = (random >> 8) as u8;
        let bits = if zero < zeros { 0 } else { (random & 0x807f) as u16 | field << 7 };
        element.copy_from_slice(&bits.to_le_bytes());
    }
    array
}

/// What a program is given, and computes on every target, where all agree; with `kernels` so do its kernels as they are interpreted.
fn check(source: &str, ranges: [Range; 2], kernels: bool) -> [Vec<ArrayLiteral>; 2] {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let entry = module.entry();
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let shapes = entry.parameters().into_iter().map(|p| entry.instructions[p].shape.as_array().unwrap().clone());
    let inputs: Vec<ArrayLiteral> =
        shapes.zip(ranges.into_iter().cycle()).map(|(shape, range)| elements(&shape, range, &mut state)).collect();
    let raw: Vec<&[u8]> = inputs.iter().map(ArrayLiteral::bytes).collect();
    let machine = Machine { variant: Variant::Fma, random: [0, 0], budget: 1 << 26 };
    let mut results: Option<Vec<ArrayLiteral>> = None;
    for (target, has) in targets() {
        let artifact = compiled(source, target.clone());
        assert_eq!(artifact.asm.contains(INSTRUCTION), has, "{target:?}\n{source}");
        let program = Program::from_object(&artifact.object).unwrap();
        let got = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        if kernels && has && target.cpu.as_deref() != Some("native") {
            let want = memory::run::run(&artifact.schedule, machine, &raw).unwrap_or_else(|e| panic!("{e}\n{source}"));
            let same = got.iter().zip(&want).all(|(got, want)| got.bytes() == *want);
            assert!(same, "{target:?} {ranges:?}\n{source}\n{}", artifact.schedule);
        }
        let before = results.get_or_insert_with(|| got.clone());
        let same = got.iter().zip(before).all(|(got, before)| got.bytes() == before.bytes());
        assert!(same, "{target:?} {ranges:?}\n{source}");
    }
    [inputs, results.unwrap()]
}

fn compiled(source: &str, target: TargetOptions) -> Artifact {
    let module = text::parse(source).unwrap();
    compile(&module, &CompileOptions { target, keep_texts: true, ..CompileOptions::default() }).unwrap()
}

/// A product with results of a type, as [`product`].
fn product_to(out: &str, extents: [usize; 4], first: [bool; 2]) -> String {
    product(("bf16", "bf16", out), extents, first)
}

const ORDERS: [[bool; 2]; 4] = [[false, true], [true, false], [true, true], [false, false]];

#[test]
fn lengths_of_sums_and_orders_of_dimensions() {
    for [m, n, k] in [[64, 64, 32], [61, 67, 33], [3, 300, 260], [300, 3, 261], [17, 16, 515], [100, 33, 257]] {
        for first in ORDERS {
            check(&product_to("f32", [0, m, n, k], first), [USUAL; 2], first == ORDERS[0]);
        }
    }
    for (out, first) in [("bf16", [false, true]), ("f16", [false, false])] {
        check(&product_to(out, [3, 50, 34, 131], first), [USUAL; 2], false);
    }
}

/// Rows of more than one block, pages apart and not; columns of more than one strip.
#[test]
fn parts_of_a_product() {
    for first in [[false, true], [false, false]] {
        check(&product_to("f32", [0, 104, 130, 2048], first), [USUAL; 2], false);
        check(&product_to("f32", [0, 200, 300, 98], first), [USUAL; 2], false);
    }
}

/// Each sum is a chain of multiply-adds in ascending order, in blocks of 256, none of which is flushed.
#[test]
fn what_is_subnormal_counts() {
    let chain = |a: &[u8], b: &[u8], k: usize| -> f32 {
        let element = |bytes: &[u8], i: usize| {
            f32::from_bits(u32::from(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])) << 16)
        };
        let block =
            |from: usize| (from..k.min(from + 256)).fold(0.0f32, |sum, i| element(a, i).mul_add(element(b, i), sum));
        (0..k).step_by(256).map(block).reduce(|sum, block| sum + block).unwrap()
    };
    let (m, n, k) = (40, 48, 300);
    let ranges = [
        // Products and sums; elements of either side; both; some of products that are not.
        [Range(-70, -66, 0), Range(-70, -60, 0)],
        [Range(-130, -120, 0), Range(100, 120, 0)],
        [Range(100, 120, 30), Range(-130, -120, 0)],
        [Range(-130, -130, 200), Range(-1, 1, 0)],
        [Range(-80, 10, 128), Range(-80, 10, 0)],
        // The least that are not.
        [Range(-56, -50, 10), Range(-56, -50, 10)],
    ];
    for ranges in ranges {
        let [inputs, results] = check(&product_to("f32", [0, m, n, k], [false, false]), ranges, false);
        let sums = results[0].as_slice::<f32>();
        for (place, &sum) in sums.iter().enumerate() {
            let (row, column) = (place / n * 2 * k, place % n * 2 * k);
            let want = chain(&inputs[0].bytes()[row..], &inputs[1].bytes()[column..], k);
            assert_eq!(sum.to_bits(), want.to_bits(), "{ranges:?} {place}: {sum:e} {want:e}");
        }
        assert!(sums.iter().any(|&sum| sum != 0.0), "{ranges:?}: all is zero");
    }
}

/// What the flag of a product is there for: where it says that nothing is subnormal, what is comes out as zero.
#[test]
fn the_instruction_flushes_what_is_subnormal() {
    // Sums of 32 products of 2^-70 by 2^-70: 2^-135.
    let (word, sum) = (0x1c80_1c80u32, 1u32 << (149 - 135));
    for (flag, want) in [(1, sum), (0, 0)] {
        let text = format!(
            "kernel tiny (in0: u32[32], in1: u32[256]) -> (out0: f32[32]), scratch (scratch0: s32[1])\n  phase\n    stage\n      \
             store scratch0[0] = {flag} : i32\n  phase contraction bf16xbf16 m i0 in 2 n i1 in 16 k i2 in 16\n    \
             lhs in0[16*i0 + i2]\n    rhs in1[16*i2 + i1]\n    subnormal where scratch0\n    epilogue (sum)\n      \
             store out0[16*i0 + i1] = sum : f32\n"
        );
        let kernel = parse::parse(&text).unwrap_or_else(|e| panic!("{e:?}")).remove(0);
        for (target, has) in targets() {
            let options = CompileOptions { target, ..CompileOptions::default() };
            let (_, object) = compile_kernel(&kernel, &options).unwrap();
            let [a, b] = [32, 256].map(|n| ArrayLiteral::from_elements(&[n as i64], &vec![word; n]));
            let got = Program::from_object(&object).unwrap().run(&[&a, &b]).unwrap();
            // Without the instruction nothing is flushed, whatever the flag says.
            let want = if has { want } else { sum };
            assert!(got[0].as_slice::<f32>().iter().all(|x| x.to_bits() == want), "{flag} {has}: {:?}", got[0]);
        }
    }
}

#[test]
fn several_dimensions_views_and_epilogues() {
    let several = "HloModule s\n\nENTRY e {\n  a = bf16[8,9,6,9] parameter(0)\n  b = bf16[9,7,6,8] parameter(1)\n  \
                   ROOT c = f32[8,9,7,8] dot(a, b), lhs_contracting_dims={3,2}, rhs_contracting_dims={0,2}\n}\n";
    check(several, [USUAL; 2], true);
    // A slice that begins in the midst of a word, and a transpose.
    let views = "HloModule v\n\nENTRY e {\n  a = bf16[60,66] parameter(0)\n  b = bf16[48,8,8] parameter(1)\n  \
                 x = bf16[60,64] slice(a), slice={[0:60],[1:65]}\n  t = bf16[8,8,48] transpose(b), dimensions={1,2,0}\n  \
                 y = bf16[64,48] reshape(t)\n  d = bf16[60,48] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  \
                 z = bf16[] constant(0)\n  zeros = bf16[60,48] broadcast(z), dimensions={}\n  ROOT r = bf16[60,48] maximum(d, zeros)\n}\n";
    check(views, [USUAL; 2], true);
}

/// Even channels, in one group and several, in orders of dimensions that have them last and not; windows that step, are spread, reach
/// beyond the base and go backwards.
#[test]
fn convolutions() {
    for (base, kernel, result, window, labels, more) in [
        ("[2,9,10,8]", "[3,3,8,16]", "f32[2,9,10,16]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
        ("[2,24,25,4]", "[3,3,4,20]", "f32[2,12,13,20]", "size=3x3 pad=1_0x1_1 stride=2x2", "b01f_01io->b01f", ""),
        ("[2,18,21,6]", "[2,3,6,10]", "f32[2,16,17,10]", "size=2x3 rhs_dilate=2x2", "b01f_01io->b01f", ""),
        ("[1,14,14,48]", "[3,3,16,24]", "f32[1,12,12,24]", "size=3x3", "b01f_01io->b01f", ", feature_group_count=3"),
        ("[2,8,12,12]", "[20,8,3,3]", "f32[2,20,10,10]", "size=3x3", "bf01_oi01->bf01", ""),
        ("[3,40,16]", "[9,16,33]", "f32[3,32,33]", "size=9 rhs_reversal=1", "b0f_0io->b0f", ""),
        (
            "[1,10,10,8]",
            "[2,2,8,170]",
            "bf16[1,20,20,170]",
            "size=2x2 pad=1_1x1_1 lhs_dilate=2x2",
            "b01f_01io->b01f",
            "",
        ),
        ("[1,8,8,300]", "[1,1,300,40]", "f32[1,8,8,40]", "size=1x1", "b01f_01io->b01f", ""),
    ] {
        let source = format!(
            "HloModule m\n\nENTRY e {{\n  a = bf16{base} parameter(0)\n  b = bf16{kernel} parameter(1)\n  \
             ROOT c = {result} convolution(a, b), window={{{window}}}, dim_labels={labels}{more}\n}}\n"
        );
        check(&source, [USUAL; 2], true);
        check(&source, [Range(-72, -60, 10), Range(-72, -60, 10)], false);
    }
}

/// The numbers of an object are the same on all of its levels, so all have the instruction or none; without fused multiply-adds they
/// are others.
#[test]
fn targets_without_the_instruction_do_not_have_it() {
    let source = product_to("f32", [0, 64, 64, 64], [false, true]);
    let fuses_not = TargetOptions { variant: Some(NumericVariant::Plain), ..level("x86-64-v4", &["+avx512bf16"]) };
    for target in [
        TargetOptions::default(),
        level("x86-64-v4", &[]),
        level("x86-64-v3", &["+avx512bf16"]),
        level("x86-64-v3,x86-64-v4", &["+avx512bf16"]),
        fuses_not,
    ] {
        assert!(!compiled(&source, target.clone()).asm.contains(INSTRUCTION), "{target:?}");
    }
    let small = product_to("f32", [0, 16, 16, 16], [false, true]);
    assert!(!compiled(&small, level("x86-64-v4", &["+avx512bf16"])).asm.contains(INSTRUCTION), "little to gain");
}
