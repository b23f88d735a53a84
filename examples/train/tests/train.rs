//! Trains, counts allocations, saves, and predicts with the other binary.
#![allow(clippy::unwrap_used)]

use example_train::{BATCH, Pictures, numbers, store};
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

#[test]
fn a_step_allocates_nothing_and_the_loss_falls() {
    let mut store = store().unwrap();
    store.initialise().unwrap();
    let step = store.computation("train_step").unwrap();
    let (mut pictures, mut classes) = (Pictures::new(1), [0; BATCH]);
    let mut losses = [0.0; 300];
    let before = ALLOCATIONS.with(Cell::get);
    for loss in &mut losses {
        pictures.batch(&mut store, true, &mut classes).unwrap();
        store.run(step).unwrap();
        *loss = store.output_bytes(step, 0).and_then(|bytes| numbers(bytes).next()).unwrap();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    let last = losses[250..].iter().sum::<f32>() / 50.0;
    assert!(10.0 * last <= losses[0], "{} {last}", losses[0]);
    // Allocations are counted at all.
    drop(store.get("bias").unwrap());
    assert!(ALLOCATIONS.with(Cell::get) > before);
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
