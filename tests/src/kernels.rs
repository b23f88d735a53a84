//! Compiled code against the kernel interpreter, bit by bit.
//!
//! The HLO interpreter is compared within bounds; what a kernel says is exact. Where the two differ the fault lies between
//! the kernel IR and the machine code, or in buffer assignment. Kernels are interpreted as they read back from their text.

use crate::compare::first_other_bits;
use brolga_compiler::hlo::Module;
use brolga_compiler::kernel::body::Variant;
use brolga_compiler::kernel::interp::Machine;
use brolga_compiler::kernel::ir::{Kernel, Phase};
use brolga_compiler::kernel::{parse, verify};
use brolga_compiler::memory::schedule::Schedule;
use brolga_compiler::{CompileOptions, Error, compile, memory};
use brolga_runtime::abi::Leaf;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Program, RunOptions};

/// How a comparison ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All bits are equal, NaN payloads aside.
    Agrees,
    /// One of the two lacks something.
    Unsupported(String),
    /// Wrong, and how.
    Differs(String),
}

/// Steps of the kernel interpreter for a program.
pub const BUDGET: u64 = 20_000_000;

/// Compiles a module, for the default target and with the given options, and runs it both ways.
pub fn check(module: &Module, inputs: &[Literal], options: &CompileOptions) -> Outcome {
    let artifact = match compile(module, options) {
        Ok(artifact) => artifact,
        Err(e @ Error::Unsupported { .. }) => return Outcome::Unsupported(e.message()),
        Err(e) => return Outcome::Differs(e.to_string()),
    };
    let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
    if leaves.iter().any(|a| a.shape().is_dynamic()) || artifact.descriptor.results.iter().any(|r| r.shape.is_dynamic())
    {
        return Outcome::Unsupported("dynamic sizes".to_owned());
    }
    let run = RunOptions::default();
    let machine = Machine { variant: Variant::Fma, random: [run.seed, 0], budget: BUDGET };
    let parameters: Vec<Vec<u8>> =
        leaves.iter().zip(&artifact.descriptor.parameters).map(|(a, leaf)| to_leaf(a, leaf)).collect();
    let parameters: Vec<&[u8]> = parameters.iter().map(Vec::as_slice).collect();
    let schedule = match read_back(&artifact.schedule) {
        Ok(schedule) => schedule,
        Err(why) => return Outcome::Differs(why),
    };
    let want = match memory::run::run(&schedule, machine, &parameters) {
        Ok(want) => want,
        Err(e @ Error::Unsupported { .. }) => return Outcome::Unsupported(e.message()),
        Err(e) => return Outcome::Differs(e.to_string()),
    };
    let got = match Program::from_object(&artifact.object).map(|p| p.run_with(&leaves, &run)) {
        Ok(Ok(got)) => got,
        Ok(Err(e)) => return Outcome::Unsupported(e.to_string()),
        Err(e) => return Outcome::Differs(e.to_string()),
    };
    for (n, ((got, want), leaf)) in got.iter().zip(&want).zip(&artifact.descriptor.results).enumerate() {
        let Some(want) = ArrayLiteral::from_memory(&leaf.shape, want) else {
            return Outcome::Differs(format!(
                "result {n} has {} bytes, kernels give {}",
                got.bytes().len(),
                want.len()
            ));
        };
        if let Some(at) = first_other_bits(got, &want) {
            return Outcome::Differs(format!("result {n} has other bits than its kernels give, first at element {at}"));
        }
    }
    if got.len() == want.len() { Outcome::Agrees } else { Outcome::Differs(format!("{} results", want.len())) }
}

/// The schedule with every kernel as it reads back from its text; calls have none.
fn read_back(schedule: &Schedule) -> Result<Schedule, String> {
    let mut out = schedule.clone();
    for kernel in out.kernels.values_mut() {
        if kernel.phases.iter().any(|p| matches!(p, Phase::Call(_))) {
            continue;
        }
        let text = kernel.to_string();
        let wrong = |what: String| format!("{what}: the text of kernel '{}'\n{text}", kernel.name);
        let read = parse::parse(&text).map_err(|e| wrong(e.to_string()))?;
        let [read] = <[Kernel; 1]>::try_from(read).map_err(|k| wrong(format!("{} kernels", k.len())))?;
        verify::verify(&read).map_err(|e| wrong(e.to_string()))?;
        let again = parse::parse(&read.to_string()).map_err(|e| wrong(e.to_string()))?;
        if again.first().map(Kernel::to_string) != Some(read.to_string()) {
            return Err(wrong("printed and read it is another".to_owned()));
        }
        *kernel = read;
    }
    Ok(out)
}

/// The buffer of a leaf. Its padding holds ones of all bits, which nobody may read as data.
fn to_leaf(array: &ArrayLiteral, leaf: &Leaf) -> Vec<u8> {
    let size = leaf.shape.ty.byte_size();
    let mut out = vec![u8::MAX; leaf.byte_size() as usize];
    for index in leaf.shape.indices_in_memory_order() {
        let place = |shape: &ArrayShape| shape.linear_index(&index).map_or(0, |i| i as usize * size);
        let (from, to) = (place(array.shape()), place(&leaf.shape));
        out[to..to + size].copy_from_slice(&array.bytes()[from..from + size]);
    }
    out
}
