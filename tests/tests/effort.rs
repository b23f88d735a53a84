//! How much of the code generator's time functions get: other code, the same results; and by themselves, functions get what they are
//! worth.
#![allow(clippy::unwrap_used)]

use brolga_compiler::codegen::Effort;
use brolga_compiler::hlo::Module;
use brolga_compiler::{CompileOptions, compile};
use brolga_runtime::{ArrayLiteral, Program, RunOptions};
use brolga_tests::compare::first_other_bits;
use brolga_tests::ways::{inputs, parsed};

const SUM: &str = "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}
less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT\n}
";

/// Programs of which most is executed by functions that are called.
const LARGE: [&str; 4] = [
    "ENTRY e { x = f32[65536] parameter(0)\n y = f32[65536] exponential(x)\n ROOT r = f32[65536] multiply(y, x)\n}",
    "ENTRY e { x = f32[256,256] parameter(0)
  ROOT r = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "ENTRY e { x = f32[64,4096] parameter(0)\n z = f32[] constant(0)\n s = f32[64] reduce(x, z), dimensions={1}, to_apply=sum
  c = f32[4096] reduce(x, z), dimensions={0}, to_apply=sum\n ROOT r = (f32[64], f32[4096]) tuple(s, c)\n}",
    "ENTRY e { x = f32[1,30,30,32] parameter(0)\n w = f32[3,3,32,64] iota(), iota_dimension=1
  ROOT r = f32[1,30,30,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}",
];

/// Programs that are small, or loop in the driver, or compute in Cranelift's own code.
const SMALL: [&str; 4] = [
    "ENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[8] add(x, x)\n}",
    "ENTRY e { x = f32[1000] parameter(0)\n ROOT r = f32[1000] add(x, x)\n}",
    "ENTRY e { x = f32[500] parameter(0)\n ROOT r = f32[500] sort(x), dimensions={0}, to_apply=less\n}",
    "body { s = (s32[], f32[32]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[32] get-tuple-element(s), index=1
  o = s32[] constant(1)\n n = s32[] add(i, o)\n y = f32[32] sine(x)\n ROOT r = (s32[], f32[32]) tuple(n, y)\n}
cond { s = (s32[], f32[32]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT\n}
ENTRY e { x = f32[32] parameter(0)\n z = s32[] constant(0)\n t = (s32[], f32[32]) tuple(z, x)
  w = (s32[], f32[32]) while(t), condition=cond, body=body\n ROOT r = f32[32] get-tuple-element(w), index=1\n}",
];

/// Computes long in Cranelift's own code, around which there is other code.
const LONG: &str =
    "ENTRY e { x = f32[5000] parameter(0)\n ROOT r = f32[5000] sort(x), dimensions={0}, to_apply=less\n}";

fn module(source: &str) -> Module {
    parsed(&format!("HloModule m\n{SUM}{source}"))
}

fn object(module: &Module, effort: Option<Effort>) -> Vec<u8> {
    compile(module, &CompileOptions { effort, ..CompileOptions::default() }).unwrap_or_else(|e| panic!("{e}")).object
}

fn run(object: &[u8], inputs: &[ArrayLiteral], threads: usize) -> Vec<ArrayLiteral> {
    let program = Program::from_object(object).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<&ArrayLiteral> = inputs.iter().collect();
    program.run_with(&inputs, &RunOptions { threads, ..RunOptions::default() }).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn less_effort_gives_other_code_and_the_same_bits() {
    let mut between = 0;
    for source in LARGE.iter().chain(&SMALL).chain([&LONG]) {
        let module = module(source);
        let inputs = inputs(&module);
        let [full, unsimplified, least] =
            [Effort::Full, Effort::Unsimplified, Effort::Least].map(|effort| object(&module, Some(effort)));
        assert!(full != least, "the same code with all effort and with the least\n{source}");
        between += usize::from(full != unsimplified && unsimplified != least);
        let want = run(&full, &inputs, 1);
        for (less, threads) in [&unsimplified, &least].into_iter().flat_map(|less| [(less, 1), (less, 3)]) {
            let got = run(less, &inputs, threads);
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                assert_eq!(first_other_bits(got, want), None, "{threads} threads\n{source}");
            }
        }
    }
    assert!(between > 0, "no program has other code without simplification alone");
}

#[test]
fn functions_get_what_they_are_worth() {
    for source in LARGE {
        let module = module(source);
        assert!(object(&module, None) != object(&module, Some(Effort::Full)), "all effort around large work\n{source}");
    }
    for source in SMALL {
        let module = module(source);
        assert!(object(&module, None) == object(&module, Some(Effort::Full)), "too little effort\n{source}");
    }
    let long = module(LONG);
    for effort in [Effort::Full, Effort::Least] {
        assert!(object(&long, None) != object(&long, Some(effort)), "{effort:?} for all functions of a sort");
    }
}
