//! Trains in both number types, compares every loss with JAX's, counts allocations, saves, and predicts with the other binary.
//!
//! `losses.txt` is written by `tools/train/losses.py`, the same program in JAX.
#![allow(clippy::unwrap_used)]

use example_train::{BATCH, Number, Pictures, numbers};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;

/// The system's allocator, which counts what a thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; the counter is a plain number of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Steps of the stored losses.
const STEPS: usize = 300;

/// The losses of JAX, and ours of as many steps from the same initial values and pictures.
fn losses<T: Number>(column: usize) -> [Vec<f64>; 2]
where
    f64: From<T>,
{
    let number = |line: &str| line.split(' ').nth(column).unwrap().parse::<f64>().unwrap();
    let lines = include_str!("../losses.txt").lines().filter(|line| !line.starts_with('#'));
    let expected: Vec<f64> = lines.map(number).collect();
    assert_eq!(expected.len(), STEPS);

    let mut store = T::store().unwrap();
    store.initialise().unwrap();
    let step = store.computation("train_step").unwrap();
    let (mut pictures, mut classes) = (Pictures::new(1), [0; BATCH]);
    let mut found = vec![0.0; STEPS];
    let before = ALLOCATIONS.with(Cell::get);
    for loss in &mut found {
        pictures.batch::<T>(&mut store, true, &mut classes).unwrap();
        store.run(step).unwrap();
        *loss = numbers::<T>(&store, step, 0).unwrap()[0].into();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    // Allocations are counted at all.
    drop(store.get("bias").unwrap());
    assert!(ALLOCATIONS.with(Cell::get) > before);
    [expected, found]
}

/// How far a loss is from JAX's.
fn distance(expected: f64, found: f64) -> f64 {
    (found - expected).abs() / expected
}

/// Batches differ, so the loss of a single one says little.
fn falls_by_ten_times(losses: &[f64]) -> bool {
    let last = losses[STEPS - 50..].iter().sum::<f64>() / 50.0;
    10.0 * last <= losses[0]
}

#[test]
fn in_f64_every_loss_is_that_of_jax() {
    let [expected, found] = losses::<f64>(0);
    for (step, (&expected, &found)) in expected.iter().zip(&found).enumerate() {
        assert!(distance(expected, found) <= 1e-8, "step {step}: {found}, of JAX {expected}");
    }
    assert!(falls_by_ten_times(&found));
}

#[test]
fn a_step_allocates_nothing_and_the_loss_falls_as_in_jax() {
    let [expected, found] = losses::<f32>(1);
    for (step, (&expected, &found)) in expected.iter().zip(&found).enumerate().take(20) {
        assert!(distance(expected, found) <= 1e-4, "step {step}: {found}, of JAX {expected}");
    }
    let (last, jax) = (found[STEPS - 1], expected[STEPS - 1]);
    assert!(distance(jax, last) <= 0.02, "the last step: {last}, of JAX {jax}");
    assert!(falls_by_ten_times(&found));
}

#[test]
fn a_network_is_trained_saved_loaded_and_used() {
    let folder = std::env::temp_dir().join(format!("brolga-train-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = |program: &str, file: &str| {
        let output = Command::new(program).arg(folder.join(file)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let (train, predict) = (env!("CARGO_BIN_EXE_train"), env!("CARGO_BIN_EXE_predict"));
    assert!(!Command::new(predict).arg(folder.join("none")).output().unwrap().status.success());
    let first = run(train, "a");
    assert_eq!(run(train, "b"), first);
    assert_eq!(std::fs::read(folder.join("a")).unwrap(), std::fs::read(folder.join("b")).unwrap());
    let report = run(predict, "a");
    assert!(report.contains(&format!("of {BATCH} right")), "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}
