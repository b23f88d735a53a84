//! Contractions through the whole pipeline: against chains written out by hand (bitwise), against the interpreter, and the
//! tiles of all widths against each other.
#![allow(clippy::unwrap_used)]

use super::Plan;
use crate::codegen::target::TargetOptions;
use crate::codegen::x86::tile::{Apart, Block, Blocks, Form, Left};
use crate::driver::{CompileOptions, compile};
use crate::interp;
use crate::kernel::body::Variant;
use crate::kernel::ir::{Contraction, Phase};
use crate::kernel::lower::Numerics;
use crate::memory;
use crate::text;
use brolga_runtime::abi::IsaFeatures;
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Program, RunOptions, Shape};

fn numbers(n: usize, seed: usize) -> Vec<f64> {
    let mut state = 0x9E37_79B9u32.wrapping_mul(seed as u32 + 1);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 23) - 1.0
        })
        .collect()
}

fn literal(shape: &Shape, seed: usize) -> ArrayLiteral {
    let shape = shape.as_array().unwrap();
    let values = numbers(shape.elements(), seed);
    match shape.ty {
        ElementType::F32 => {
            ArrayLiteral::from_elements(&shape.dims, &values.iter().map(|&x| x as f32).collect::<Vec<_>>())
        }
        ElementType::F64 => ArrayLiteral::from_elements(&shape.dims, &values),
        other => panic!("{other}"),
    }
}

/// The machines whose tiles are compared: with fused multiply-add all widths, alone and in one object, else the one named.
fn machines(cpu: Option<&str>) -> Vec<TargetOptions> {
    let of = |cpu: Option<&str>, features: &[&str]| TargetOptions {
        cpu: cpu.map(str::to_owned),
        features: features.iter().map(|f| (*f).to_owned()).collect(),
        ..TargetOptions::default()
    };
    if cpu.is_some() {
        return vec![of(cpu, &[])];
    }
    let mut all = vec![of(None, &[]), of(Some("x86-64-v3"), &[]), of(Some("x86-64-v3"), &["-avx2"])];
    // A tile that packs and one that does not, which cut a product in different ways.
    all.push(of(Some("x86-64,x86-64-v3"), &["+avx", "+fma"]));
    if IsaFeatures::detect().contains(IsaFeatures::AVX512F) {
        all.push(of(Some("x86-64-v4"), &[]));
    }
    all
}

fn floats(a: &ArrayLiteral) -> Vec<f64> {
    match a.ty() {
        ElementType::F32 => a.as_slice::<f32>().iter().map(|&x| f64::from(x)).collect(),
        _ => a.as_slice::<f64>().to_vec(),
    }
}

/// Compiles and runs with the tiles of all machines, with one worker and with three, which must agree bitwise; returns inputs and results.
fn run(hlo: &str, cpu: Option<&str>) -> (Vec<ArrayLiteral>, Vec<ArrayLiteral>) {
    let module = text::parse(hlo).unwrap();
    let entry = module.entry();
    let inputs: Vec<ArrayLiteral> =
        entry.parameters().into_iter().enumerate().map(|(i, p)| literal(&entry.instructions[p].shape, i)).collect();
    let arguments: Vec<&ArrayLiteral> = inputs.iter().collect();
    let mut results: Option<Vec<ArrayLiteral>> = None;
    for target in machines(cpu) {
        let options = CompileOptions { target: target.clone(), ..CompileOptions::default() };
        let artifact = compile(&module, &options).unwrap();
        let program = Program::from_object(&artifact.object).unwrap();
        for threads in [1, 3] {
            let found = program.run_with(&arguments, &RunOptions { threads, ..RunOptions::default() }).unwrap();
            for (a, b) in results.iter().flatten().zip(&found) {
                assert!(a.bytes() == b.bytes(), "the tile of {target:?} with {threads} workers differs\n{hlo}");
            }
            results = Some(found);
        }
    }
    (inputs, results.unwrap())
}

/// As [`run`], against the interpreter.
fn check(hlo: &str, cpu: Option<&str>, tolerance: f64) {
    let (inputs, results) = run(hlo, cpu);
    let module = text::parse(hlo).unwrap();
    let arguments: Vec<Literal> = inputs.into_iter().map(Literal::Array).collect();
    let expected = interp::run(&module, &arguments, &interp::Options::default()).unwrap();
    for (e, r) in expected.arrays().into_iter().zip(&results) {
        assert_eq!(e.dims(), r.dims());
        for (i, (x, y)) in floats(e).into_iter().zip(floats(r)).enumerate() {
            assert!((x - y).abs() <= tolerance * (1.0 + x.abs()), "{i}: {x} against {y}\n{hlo}");
        }
    }
}

fn plain(ty: &str, m: usize, n: usize, k: usize) -> String {
    format!(
        "HloModule plain\n\nENTRY main {{\n  a = {ty}[{m},{k}] parameter(0)\n  b = {ty}[{k},{n}] parameter(1)\n  \
         ROOT c = {ty}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    )
}

macro_rules! chain {
    ($name:ident, $t:ty) => {
        /// Every result must be the sum of the chains of its blocks.
        fn $name(ty: &str, (m, n, k): (usize, usize, usize), cpu: Option<&str>) {
            let (inputs, results) = run(&plain(ty, m, n, k), cpu);
            let (a, b) = (inputs[0].as_slice::<$t>(), inputs[1].as_slice::<$t>());
            let c = results[0].as_slice::<$t>();
            for i in 0..m {
                for j in 0..n {
                    let chain = |from: usize| {
                        (from..k.min(from + 256)).fold(0.0, |s: $t, p| {
                            let (x, y) = (a[i * k + p], b[p * n + j]);
                            if cpu.is_some() { x * y + s } else { x.mul_add(y, s) }
                        })
                    };
                    let sum = (0..k).step_by(256).map(chain).reduce(|before, block| before + block).unwrap();
                    assert_eq!(c[i * n + j].to_bits(), sum.to_bits(), "{m} {n} {k}: ({i}, {j})");
                }
            }
        }
    };
}
chain!(chain_f32, f32);
chain!(chain_f64, f64);

const SHAPES: [(usize, usize, usize); 14] = [
    (16, 16, 16),
    (2, 40, 60),
    (40, 2, 60),
    (3, 37, 41),
    (5, 33, 29),
    (7, 35, 31),
    (11, 19, 23),
    (13, 39, 17),
    (17, 8, 40),
    (31, 31, 31),
    (40, 40, 40),
    (100, 17, 9),
    (97, 33, 600),
    (2, 2, 5000),
];

#[test]
fn sums_are_chains() {
    for shape in SHAPES {
        chain_f32("f32", shape, None);
        chain_f64("f64", shape, None);
    }
}

#[test]
fn sums_are_chains_without_fma() {
    for shape in [(16, 16, 16), (13, 39, 17), (7, 35, 31), (40, 2, 60), (3, 9, 700)] {
        chain_f32("f32", shape, Some("x86-64-v2"));
        chain_f64("f64", shape, Some("x86-64-v2"));
    }
}

#[test]
fn large_ones_are_packed() {
    for (m, n, k) in [(130, 500, 300), (200, 300, 500), (1100, 300, 520)] {
        chain_f32("f32", (m, n, k), None);
    }
    chain_f64("f64", (100, 270, 290), None);
    chain_f64("f64", (200, 270, 290), None);
    // Rows a page apart: of the left operand, of the result, of both.
    for shape in [(97, 528, 512), (100, 512, 600), (100, 512, 1024), (1030, 512, 512)] {
        chain_f64("f64", shape, None);
    }
    chain_f32("f32", (98, 1024, 1024), None);
    // Rows of the right operand along k, in several strips and blocks of k.
    let turned = "HloModule t\n\nENTRY main {\n  a = f32[40,600] parameter(0)\n  b = f32[700,600] parameter(1)\n  \
                  ROOT c = f32[40,700] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n";
    check(turned, None, 5e-5);
}

#[test]
fn operands_are_read_in_any_order() {
    for (a, b, lhs, rhs) in [
        ("[37,29]", "[29,41]", 1, 0),
        ("[29,37]", "[29,41]", 0, 0),
        ("[37,29]", "[41,29]", 1, 1),
        ("[29,37]", "[41,29]", 0, 1),
    ] {
        for ty in ["f32", "f64"] {
            let hlo = format!(
                "HloModule t\n\nENTRY main {{\n  a = {ty}{a} parameter(0)\n  b = {ty}{b} parameter(1)\n  \
                 ROOT c = {ty}[37,41] dot(a, b), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}\n}}\n"
            );
            check(&hlo, None, 5e-5);
        }
    }
}

#[test]
fn batches_and_views() {
    let batched = "HloModule b\n\nENTRY main {\n  a = f32[3,2,20,18] parameter(0)\n  b = f32[2,18,3,33] parameter(1)\n  \
                   ROOT c = f32[3,2,20,33] dot(a, b), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, \
                   rhs_batch_dims={2,0}, rhs_contracting_dims={1}\n}\n";
    check(batched, None, 5e-5);
    let heads = "HloModule h\n\nENTRY main {\n  q = f32[24,60] parameter(0)\n  k = f32[24,60] parameter(1)\n  \
                 q1 = f32[24,4,15] reshape(q)\n  q2 = f32[4,24,15] transpose(q1), dimensions={1,0,2}\n  \
                 k1 = f32[24,4,15] reshape(k)\n  k2 = f32[4,15,24] transpose(k1), dimensions={1,2,0}\n  \
                 ROOT s = f32[4,24,24] dot(q2, k2), lhs_batch_dims={0}, lhs_contracting_dims={2}, \
                 rhs_batch_dims={0}, rhs_contracting_dims={1}\n}\n";
    check(heads, None, 5e-5);
    let several = "HloModule s\n\nENTRY main {\n  a = f32[5,6,4,9] parameter(0)\n  b = f32[9,7,4,5] parameter(1)\n  \
                   ROOT c = f32[5,6,7,5] dot(a, b), lhs_contracting_dims={3,2}, rhs_contracting_dims={0,2}\n}\n";
    check(several, None, 5e-5);
    let merged = "HloModule m\n\nENTRY main {\n  a = f32[6,5,300] parameter(0)\n  t = f32[5,6,300] transpose(a), \
                  dimensions={1,0,2}\n  r = f32[30,300] reshape(t)\n  b = f32[300,18] parameter(1)\n  \
                  ROOT c = f32[30,18] dot(r, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    check(merged, None, 5e-5);
}

/// Levels whose tiles cut a product in different ways share one workspace, which has room for each.
#[test]
fn workspace_is_enough_for_each_level() {
    let module = text::parse(&plain("f64", 128, 512, 1024)).unwrap();
    let per_worker = |cpu: &str| {
        let features = ["+avx", "+fma"].map(str::to_owned).to_vec();
        let target = TargetOptions { cpu: Some(cpu.to_owned()), features, ..TargetOptions::default() };
        let options = CompileOptions { target, ..CompileOptions::default() };
        compile(&module, &options).unwrap().descriptor.workspace_per_worker
    };
    let alone = ["x86-64", "x86-64-v3", "x86-64-v4"].map(per_worker);
    assert!(alone[0] != alone[1], "the levels do not differ: {alone:?}");
    assert_eq!(Some(per_worker("x86-64,x86-64-v3,x86-64-v4")), alone.into_iter().max());
}

#[test]
fn epilogues() {
    // The last ones have rows a page apart, of the result and of the left operand.
    for (m, n, k) in [(30, 50, 20), (20, 19, 300), (100, 600, 40), (110, 290, 500), (100, 1024, 600), (100, 290, 1024)]
    {
        let hlo = format!(
            "HloModule e\n\nENTRY main {{\n  a = f32[{m},{k}] parameter(0)\n  b = f32[{k},{n}] parameter(1)\n  \
             bias = f32[{n}] parameter(2)\n  residual = f32[{m},{n}] parameter(3)\n  \
             d = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  \
             wide = f32[{m},{n}] broadcast(bias), dimensions={{1}}\n  s = f32[{m},{n}] add(d, wide)\n  \
             zero = f32[] constant(0)\n  zeros = f32[{m},{n}] broadcast(zero), dimensions={{}}\n  \
             r = f32[{m},{n}] maximum(s, zeros)\n  ROOT o = f32[{m},{n}] add(r, residual)\n}}\n"
        );
        check(&hlo, None, 5e-5);
        let narrow = format!(
            "HloModule e\n\nENTRY main {{\n  a = f32[{m},{k}] parameter(0)\n  b = f32[{k},{n}] parameter(1)\n  \
             d = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  \
             ROOT o = f64[{m},{n}] convert(d)\n}}\n"
        );
        check(&narrow, None, 5e-5);
        check(&narrow, Some("x86-64-v2"), 5e-5);
    }
}

/// The contractions of a program.
fn contractions(hlo: &str) -> Vec<Contraction> {
    let numerics = Numerics { variant: Variant::Fma, ..Numerics::default() };
    let schedule = memory::build(&text::parse(hlo).unwrap(), numerics).unwrap();
    let phases = schedule.kernels.values().flat_map(|kernel| &kernel.phases);
    phases.filter_map(|phase| if let Phase::Contraction(c) = phase { Some((**c).clone()) } else { None }).collect()
}

/// Groups of which one worker has several are joined and pack once, which changes no bit: [`run`] compares one worker with three.
#[test]
fn groups_are_joined_or_not() {
    let plain = plain("f32", 830, 300, 440);
    let turned =
        plain.replace("f32[440,300]", "f32[300,440]").replace("rhs_contracting_dims={0}", "rhs_contracting_dims={1}");
    let finished = "d = f32[830,300] dot";
    let [finished_plain, finished_turned] = [&plain, &turned].map(|hlo| {
        hlo.replace("ROOT c = f32[830,300] dot", finished).replace("\n}", "\n  ROOT c = f64[830,300] convert(d)\n}")
    });
    for hlo in [&plain, &turned, &finished_plain, &finished_turned] {
        let forms = [None, Some(false), Some(true)];
        for c in contractions(hlo) {
            let joined =
                |widest: Option<bool>| Plan::new(&c, widest.and_then(|widest| Form::of(widest, c.product))).joined;
            assert_eq!(forms.map(joined), [2; 3], "{hlo}");
        }
        check(hlo, None, 5e-5);
    }
}

/// Rows of a group and columns of a strip: strips are wide where points are enough with whole groups, or with smaller ones where the
/// tile packs the left side and the right one is packed by it too or turned, and there are as many points either way.
#[test]
fn groups_make_up_for_wide_strips() {
    let turned = plain("f32", 1024, 1024, 1024).replace("rhs_contracting_dims={0}", "rhs_contracting_dims={1}");
    let cut = |hlo: &str, widest: bool| {
        let all = contractions(hlo);
        let [c] = &all[..] else { panic!("{} contractions\n{hlo}", all.len()) };
        let plan = Plan::new(c, Form::of(widest, c.product));
        (plan.group, plan.strip, plan.points(), plan.joined)
    };
    assert_eq!(cut(&plain("f32", 2048, 2048, 2048), true), (1056, 512, 8, 1));
    assert_eq!(cut(&plain("f32", 1024, 1024, 1024), true), (288, 512, 8, 4));
    assert_eq!(cut(&turned, true), (288, 512, 8, 4));
    assert_eq!(cut(&plain("f32", 1024, 1024, 1024), false), (576, 256, 8, 2), "six rows need no packing");
    assert_eq!(cut(&plain("f32", 1024, 1024, 1000), true), (576, 256, 8, 2), "rows are not pages apart");
    assert_eq!(cut(&plain("f32", 512, 512, 1024), true), (576, 256, 2, 1), "points would be few");
}

/// The blocks that the loops of a plan go through are those that its tile is made for.
#[test]
fn blocks_are_those_of_the_loops() {
    for (m, n, k) in SHAPES.into_iter().chain([
        (130, 500, 300),
        (1200, 1000, 700),
        (96, 512, 2000),
        (2000, 40, 8),
        (300, 1072, 1024),
        (1024, 1024, 1024),
    ]) {
        for c in &contractions(&plain("f32", m, n, k)) {
            for widest in [None, Some(false), Some(true)] {
                let plan = Plan::new(c, widest.and_then(|widest| Form::of(widest, c.product)));
                let steps =
                    |from: i64, to: i64, step: i64| (from..to).step_by(step as usize).map(move |x| step.min(to - x));
                let mut found = Blocks::new();
                for (i, rows) in (0..plan.m).step_by(plan.group as usize).zip(steps(0, plan.m, plan.group)) {
                    for (r0, r) in (i..).step_by(plan.rows as usize).zip(steps(i, i + rows, plan.rows)) {
                        for (j, columns) in (0..plan.n).step_by(plan.strip as usize).zip(steps(0, plan.n, plan.strip)) {
                            let width = if plan.pack_rhs { plan.panel } else { columns };
                            let packs = plan.tile_packs && r0 == i;
                            // Of groups that are joined, the first one packs: alone or not, any may be that.
                            let again = packs && plan.joined > 1;
                            for packs in [Some(packs), again.then_some(false)].into_iter().flatten() {
                                let right = if plan.pack_rhs && !packs { plan.panel } else { plan.n };
                                for (p, columns) in steps(j, j + columns, width).enumerate() {
                                    let left = match (plan.tile_packs_left, p) {
                                        (false, _) => Left::Lies,
                                        (true, 0) => Left::Packs,
                                        (true, _) => Left::Packed,
                                    };
                                    let row = if left == Left::Packed { 0 } else { plan.k };
                                    let apart = Apart::of(row * plan.mem.bytes(), right * plan.mem.bytes());
                                    found.insert(Block { rows: r, columns, apart, packs, left });
                                }
                            }
                        }
                    }
                }
                assert_eq!(plan.blocks(), found, "{m} {n} {k}: {plan:?}");
            }
        }
    }
}
