//! Phases that are worth it are handed to an executor's workers, the result is the same, and a loop that fails ends the run.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile};
use brolga_runtime::abi::Status;
use brolga_runtime::pool::Executor;
use brolga_runtime::{ArrayLiteral, Program, RunError, RunOptions};
use brolga_tests::ways::{inputs, parsed};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// 65 rows: two points to a task, and one for the last.
const SOFTMAX: &str = "HloModule m
sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}
ENTRY e { x = f32[65,3001] parameter(0)
  y = f32[65,3001] exponential(x)
  z = f32[] constant(0)
  s = f32[65] reduce(y, z), dimensions={1}, to_apply=sum
  w = f32[65,3001] broadcast(s), dimensions={0}
  ROOT r = f32[65,3001] divide(y, w)\n}";

/// A strip of 300 columns does not divide by its tiles; panels are packed in scratch of each worker's own.
const DOT: &str = "HloModule m
ENTRY e { x = f32[300,300] parameter(0)
  ROOT r = f32[300,300] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}";

/// Workers one after another, the last first, perhaps without the first.
struct Backwards {
    all: bool,
    loops: AtomicUsize,
}

impl Executor for Backwards {
    fn workers(&self) -> usize {
        3
    }

    fn run(&self, work: &(dyn Fn(usize) + Sync)) {
        self.loops.fetch_add(1, Ordering::Relaxed);
        (usize::from(!self.all)..3).rev().for_each(work);
    }
}

fn program(source: &str) -> (Program, ArrayLiteral) {
    let module = parsed(source);
    let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
    (program, inputs(&module).remove(0))
}

#[test]
fn workers_share_a_phase() {
    for source in [SOFTMAX, DOT] {
        let (program, x) = program(source);
        let alone = program.run(&[&x]).unwrap();
        let executor = Arc::new(Backwards { all: true, loops: AtomicUsize::new(0) });
        let options = RunOptions { executor: Some(executor.clone()), ..RunOptions::default() };
        let shared = program.run_with(&[&x], &options).unwrap();
        assert!(executor.loops.load(Ordering::Relaxed) > 0, "nothing was shared\n{source}");
        assert_eq!(shared[0].bytes(), alone[0].bytes(), "{source}");
    }
}

#[test]
fn a_loop_that_fails_ends_the_run() {
    let (program, x) = program(SOFTMAX);
    let executor = Arc::new(Backwards { all: false, loops: AtomicUsize::new(0) });
    let options = RunOptions { executor: Some(executor), ..RunOptions::default() };
    match program.run_with(&[&x], &options) {
        Err(RunError::Status { code }) => assert_eq!(code, Status::ServiceFailed.code()),
        other => panic!("{other:?}"),
    }
}
