//! Checkpoints of stores: what is saved is loaded, what does not fit changes nothing, and a crash loses none.
#![allow(clippy::unwrap_used)]

use brolga_compiler::CompileOptions;
use brolga_compiler::builder::{ArrayLiteral, ElementType};
use brolga_compiler::tensor::TensorGraph;
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayShape, Program, RunOptions, Store};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A store of the variables `values`, which one computation reads, with their values.
fn store(values: &[(&str, ArrayLiteral)]) -> Store {
    let mut graph = TensorGraph::new("saved");
    let x = graph.placeholder("x", ArrayShape::new(ElementType::F32, []));
    let tensors: Vec<_> = values.iter().map(|(name, value)| graph.variable(name, value.clone())).collect();
    graph
        .computation("read", |c| {
            c.read(&x);
            Ok(tensors.iter().map(|t| c.read(t)).collect())
        })
        .unwrap();
    let object = graph.compile(&CompileOptions::native()).unwrap().object;
    let programs = Program::all_from_object(&object, &LoadOptions::default()).unwrap();
    Store::new(&programs, &RunOptions::default()).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("brolga-checkpoints-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn files(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_is_saved_is_loaded() {
    let values = [
        ("f", ArrayLiteral::from_elements(&[2, 2], &[1.5f32, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE])),
        ("i", ArrayLiteral::from_elements(&[3], &[i64::MIN, 0, i64::MAX])),
        ("p", ArrayLiteral::from_bools(&[2], &[true, false])),
        ("c", ArrayLiteral::from_elements(&[1], &[Complex::new(1.0f64, -2.0)])),
        ("e", ArrayLiteral::from_elements::<u8>(&[0, 3], &[])),
    ];
    let folder = folder("round");
    let path = folder.join("model.safetensors");
    let mut first = store(&values);
    let error = first.save(&path).unwrap_err().to_string();
    assert!(error.contains("has no value yet"), "{error}");
    first.initialise().unwrap();
    first.save(&path).unwrap();
    assert_eq!(files(&folder), ["model.safetensors"], "the temporary file is gone, inputs are not saved");
    let mut second = store(&values);
    second.load(&path).unwrap();
    for (name, value) in &values {
        assert_eq!(second.get(name).unwrap().bytes(), value.bytes(), "{name}");
    }
    // Saving over a checkpoint replaces it.
    second.set("f", &ArrayLiteral::from_elements(&[2, 2], &[1.0f32; 4])).unwrap();
    second.save(&path).unwrap();
    first.load(&path).unwrap();
    assert_eq!(first.get("f").unwrap().as_slice::<f32>(), [1.0; 4]);
    // A file that cannot take its place leaves nothing behind.
    let taken = folder.join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(second.save(&taken).is_err());
    assert_eq!(files(&folder).len(), 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let one = |value: f32| ArrayLiteral::from_elements(&[2], &[value; 2]);
    let folder = folder("refused");
    let path = folder.join("a");
    let mut saved = store(&[("a", one(1.0)), ("b", one(1.0))]);
    saved.initialise().unwrap();
    saved.save(&path).unwrap();
    let cases = [
        (vec![("a", one(0.0))], "expected the tensors a, found 'b' too"),
        (vec![("a", one(0.0)), ("b", one(0.0)), ("c", one(0.0))], "there is no tensor 'c'"),
        (
            vec![("a", one(0.0)), ("b", ArrayLiteral::from_elements(&[2, 1], &[0.0f32; 2]))],
            "the tensor 'b' is f32[2,1], found F32 of shape [2]",
        ),
        (
            vec![("a", one(0.0)), ("b", ArrayLiteral::from_elements(&[2], &[0i32; 2]))],
            "the tensor 'b' is s32[2], found F32 of shape [2]",
        ),
    ];
    for (values, expected) in cases {
        let mut store = store(&values);
        store.initialise().unwrap();
        let error = store.load(&path).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(store.get("a").unwrap(), one(0.0));
    }
    let narrow = ArrayLiteral::from_elements(&[1], &[1i8]).with_type(ElementType::S4);
    let mut odd = store(&[("n", narrow)]);
    odd.initialise().unwrap();
    let error = odd.save(folder.join("n")).unwrap_err().to_string();
    assert!(error.contains("the format has no type for the tensor 'n', s4[1]"), "{error}");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let error = saved.load(&path).unwrap_err().to_string();
    assert!(error.contains("not a file of safetensors"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Where a child process of this test saves without end.
const CHILD: &str = "BROLGA_CHECKPOINT_CHILD";

fn large(value: f32) -> ArrayLiteral {
    ArrayLiteral::from_elements(&[100_000], &vec![value; 100_000])
}

/// Not a test of its own: what [`a_crash_loses_no_checkpoint`] starts and ends.
#[test]
fn child_that_saves_without_end() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let mut store = store(&[("a", large(0.0))]);
    for n in 0.. {
        store.set("a", &large(n as f32)).unwrap();
        store.save(&path).unwrap();
    }
}

/// A process that ends in the middle of a save leaves a whole checkpoint.
#[test]
fn a_crash_loses_no_checkpoint() {
    let folder = folder("crash");
    let path = folder.join("model");
    let mut store = store(&[("a", large(0.0))]);
    let mut last = -1.0;
    // Tests are called by their path in the program, without the program's name.
    let (_, module) = module_path!().split_once("::").unwrap();
    for round in 0..10u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::child_that_saves_without_end")])
            .env(CHILD, &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(50 + 37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // The first rounds may have been too short for a save.
        if path.exists() {
            store.load(&path).unwrap();
            let value = store.get("a").unwrap();
            let value = value.as_slice::<f32>();
            assert!(value.iter().all(|v| *v == value[0]));
            last = value[0];
        }
    }
    assert!(last >= 0.0, "no child came to save anything");
    std::fs::remove_dir_all(&folder).unwrap();
}
