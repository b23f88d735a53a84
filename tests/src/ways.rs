//! A program in every way that it can be compiled and run.
#![allow(clippy::unwrap_used)]

use crate::compare::{Kind, Tolerance, compare, first_other_bits};
use crate::memory::check_memory;
use crate::widths;
use brolga_compiler::hlo::Module;
use brolga_compiler::{Artifact, CompileOptions, compile, interp, shape, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program, RunOptions};

/// Numbers of both signs, no two arrays alike.
fn input(shape: &ArrayShape, n: usize) -> ArrayLiteral {
    let mut a = ArrayLiteral::zeros(shape);
    let (ty, elements) = (a.ty().real_part(), a.bytes().len() / a.ty().real_part().byte_size());
    let size = ty.byte_size();
    for (i, bytes) in a.bytes_mut().chunks_exact_mut(size).take(elements).enumerate() {
        let number = ((i * 37 + i / 11 + 5 * n) % 101) as f32 / 16.0 - 3.0;
        match ty {
            ElementType::F32 => bytes.copy_from_slice(&number.to_le_bytes()),
            ElementType::F64 => bytes.copy_from_slice(&f64::from(number).to_le_bytes()),
            ElementType::BF16 => bytes.copy_from_slice(&number.to_le_bytes()[2..]),
            ElementType::Pred => bytes[0] = u8::from(number > 2.9),
            _ => bytes.copy_from_slice(&(number as i64).to_le_bytes()[..size]),
        }
    }
    a
}

/// A program that is right.
///
/// # Panics
/// Where it is not.
#[track_caller]
pub fn parsed(source: &str) -> Module {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

/// What a program whose parameters are arrays may be run with: numbers of both signs, no two arrays alike.
///
/// # Panics
/// Where a parameter is none.
pub fn inputs(module: &Module) -> Vec<ArrayLiteral> {
    let entry = module.entry();
    let shapes = entry.parameters().into_iter().map(|p| entry.instructions[p].shape.as_array().unwrap());
    shapes.enumerate().map(|(n, shape)| input(shape, n)).collect()
}

/// Compiles a program for every width, compares what it gives with what the interpreter gives, up to `rtol`, and each width and number
/// of threads with the first, bit by bit, on buffers that end where memory does too; the artifact of the default target.
///
/// # Panics
/// Where anything differs, or the program is none.
#[track_caller]
pub fn check(source: &str, rtol: f64) -> Artifact {
    let module = parsed(source);
    let inputs = inputs(&module);
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let want = interp::run(&module, &literals, &interp::Options::default()).unwrap();
    let run = |options: &CompileOptions, threads: usize| {
        let artifact = compile(&module, options).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let program = Program::from_object(&artifact.object).unwrap();
        let options = RunOptions { threads, ..RunOptions::default() };
        let inputs: Vec<&ArrayLiteral> = inputs.iter().collect();
        let got = program.run_with(&inputs, &options).unwrap();
        check_memory(&program, &inputs, &got, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
        (artifact, got)
    };
    let (artifact, first) = run(&CompileOptions::default(), 1);
    let tolerance = Tolerance { kind: Kind::Close, atol: rtol, rtol, max_ulp: 0.0, int_atol: 0.0 };
    for (got, want) in first.iter().zip(want.arrays()) {
        compare(got, want, &tolerance).unwrap_or_else(|e| panic!("{e}\n{source}\n{}", artifact.kernel_text()));
    }
    let targets = widths::targets().into_iter().flat_map(|t| [(t.clone(), 0), (t, u64::MAX)]);
    let wide = targets.map(|(target, work)| CompileOptions { target, wide_work: Some(work), ..Default::default() });
    for options in wide.chain([CompileOptions::default()]) {
        for (got, want) in run(&options, 3).1.iter().zip(&first) {
            assert_eq!(first_other_bits(got, want), None, "{source}\n{}", artifact.kernel_text());
        }
    }
    artifact
}
