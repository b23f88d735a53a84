//! Objects for several sizes: loaded, linked into C, and made in a build script.
#![allow(clippy::unwrap_used)]

use brolga_compiler::front::{Argument, ReadOptions, read_sizes};
use brolga_compiler::{CompileOptions, Error, SizedArtifact, aot, compile_sizes, interp, shape};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, LoadError, Program, RunError, Shape, Sizes};
use std::process::Command;

/// Rows of `x` times a constant, plus `y`; `k` does not take part in the size.
const SOURCE: &str = "func.func @main(%k: tensor<f32>, %x: tensor<?x3xf32>, %y: tensor<?x?xf32>) \
                      -> (tensor<?x2xf32>, tensor<?x?xf32>) {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %1 = stablehlo.add %y, %y : tensor<?x?xf32>
  return %0, %1 : tensor<?x2xf32>, tensor<?x?xf32>
}
";
const CHOICES: [[i64; 3]; 3] = [[1, 11, 1], [11, 1, 1], [4, 64, 33]];

fn f32s(dims: &[i64]) -> Shape {
    Shape::array(ElementType::F32, dims.to_vec())
}

fn options(size: [i64; 3]) -> ReadOptions {
    let [a, b, c] = size;
    let shapes = vec![(Argument::Name("x".into()), f32s(&[a, 3])), (Argument::Number(2), f32s(&[b, c]))];
    ReadOptions { shapes, ..ReadOptions::default() }
}

fn compiled(threads: usize) -> SizedArtifact {
    let read = read_sizes(SOURCE.as_bytes(), Some("mlir"), &CHOICES.map(options)).unwrap();
    read.modules.iter().try_for_each(shape::verify).unwrap();
    let options = CompileOptions { name: Some("f".into()), threads, ..CompileOptions::default() };
    compile_sizes(&read.modules, &read.open, &options).unwrap()
}

fn arguments([a, b, c]: [i64; 3]) -> [ArrayLiteral; 3] {
    let numbers = |n: i64| (0..n).map(|i| (i % 17) as f32 - 3.5).collect::<Vec<f32>>();
    [
        ArrayLiteral::scalar(1.0f32),
        ArrayLiteral::from_elements(&[a, 3], &numbers(3 * a)),
        ArrayLiteral::from_elements(&[b, c], &numbers(b * c)),
    ]
}

#[test]
fn the_loader_chooses_by_the_arguments_shapes() {
    let artifact = compiled(1);
    assert_eq!(artifact.object, compiled(3).object);
    let sizes = Sizes::from_object(&artifact.object).unwrap();
    let names: Vec<String> = sizes.programs().iter().map(|p| p.descriptor().entry.clone()).collect();
    assert_eq!(names, ["f__1_11x1", "f__11_1x1", "f__4_64x33"]);
    let read = read_sizes(SOURCE.as_bytes(), Some("mlir"), &CHOICES.map(options)).unwrap();
    for (size, module) in CHOICES.into_iter().zip(&read.modules) {
        let given = arguments(size);
        let results = sizes.run(&given.each_ref()).unwrap();
        let literals = given.map(Literal::Array);
        let expected = interp::run(module, &literals, &interp::Options::default()).unwrap();
        for (have, want) in results.iter().zip(expected.arrays()) {
            assert_eq!(have, want);
        }
        assert_eq!(sizes.select(&size).unwrap().descriptor().sizes(), size);
    }
    let error = sizes.run(&arguments([2, 2, 2]).each_ref()).unwrap_err();
    assert_eq!(error, RunError::Size { found: "2_2x2".into(), sizes: "1_11x1, 11_1x1, 4_64x33".into() });
    assert!(sizes.select(&[1]).is_err());
    assert!(sizes.select_for(&[]).is_err());
    // One program is not several.
    assert!(matches!(Program::from_object(&artifact.object), Err(LoadError::Sizes(_))));
    let twice = [0, 0].map(|i: usize| sizes.programs()[i].clone());
    assert!(matches!(Sizes::new(twice.into()), Err(LoadError::NoSize(_))));
}

#[test]
fn a_changed_object_is_refused() {
    let object = compiled(1).object;
    for at in (0..object.len()).step_by(object.len() / 50) {
        let mut damaged = object.clone();
        damaged[at] ^= 4;
        assert!(Sizes::from_object(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn equal_sizes_are_refused() {
    let read = read_sizes(SOURCE.as_bytes(), None, &[options([1, 2, 3]), options([1, 2, 3])]).unwrap();
    let error = compile_sizes(&read.modules, &read.open, &CompileOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Invalid { constraint: "sizes.distinct", .. }), "{error}");
    let open = SOURCE.replace("%k: tensor<f32>", "%k: tensor<*xf32>");
    let error = read_sizes(open.as_bytes(), None, &[options([1, 2, 3])]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

/// A build script's files, linked into a program and into a shared library by the system's C compiler.
#[test]
fn a_c_program_selects_a_size() {
    if !cfg!(target_os = "linux") || Command::new("cc").arg("--version").output().is_err() {
        eprintln!("SKIPPED a_c_program_selects_a_size: there is no C compiler `cc` here");
        return;
    }
    let directory = std::env::temp_dir().join(format!("brolga-sizes-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let source = directory.join("f.mlir");
    std::fs::write(&source, SOURCE).unwrap();
    let mut builder = aot::Builder::new();
    builder.silent(true).module(&source).name("f").out_dir(&directory);
    for [a, b, c] in CHOICES {
        builder.size([("x", f32s(&[a, 3])), ("y", f32s(&[b, c]))]);
    }
    let output = builder.try_compile().unwrap();
    assert_eq!(output.descriptors.len(), 3);
    assert!(output.descriptors.iter().all(|d| d.is_freestanding()));
    // The bindings of the object alone are the same.
    let again = directory.join("again");
    std::fs::create_dir_all(&again).unwrap();
    let mut from_object = aot::Builder::new();
    from_object.silent(true).object(&output.object).name("f").out_dir(&again);
    let second = from_object.try_compile().unwrap();
    assert_eq!(std::fs::read(&output.header).unwrap(), std::fs::read(&second.header).unwrap());
    assert_eq!(std::fs::read(&output.library).unwrap(), std::fs::read(&second.library).unwrap());
    let main = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include "f.h"
        int main(void) {
            const brolga_descriptor *d = NULL;
            int64_t none[F_DIMENSIONS] = {1, 1, 1}, one[F_DIMENSIONS] = {11, 1, 1}, other[F_DIMENSIONS] = {4, 64, 33};
            if (f_select(none, &d) != NULL || d != NULL) return 1;
            if (f_select(one, NULL) != f__11_1x1) return 2;
            if (f_select(one, &d) != f__11_1x1 || d != &f__11_1x1_descriptor) return 3;
            brolga_entry entry = f_select(other, &d);
            if (entry != f__4_64x33 || d != &f__4_64x33_descriptor || F_SIZES != 3) return 4;
            const brolga_open *open = (const brolga_open *)brolga_at(d, d->open_offset);
            if (d->open_count != 3 || open[2].parameter != 2 || open[2].dimension != 1) return 5;
            static float k, x[12], y[64 * 33], p[8], q[64 * 33];
            for (int i = 0; i < 12; i++) x[i] = (float)i;
            y[64 * 33 - 1] = 21.0f;
            const void *params[] = {&k, x, y};
            void *results[] = {p, q};
            void *workspace = aligned_alloc(64, (brolga_workspace_size(d, 1) + 64) / 64 * 64);
            if (entry(params, results, workspace, NULL) != BROLGA_OK) return 6;
            printf("%g %g %g\n", p[0], p[7], q[64 * 33 - 1]);
            free(workspace);
            return 0;
        }
    "#;
    std::fs::write(directory.join("main.c"), main).unwrap();
    let cc = |arguments: &[&str]| {
        let built = Command::new("cc").args(arguments).current_dir(&directory).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    };
    cc(&["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c", "libbrolga_f.a"]);
    let ran = Command::new(directory.join("main")).output().unwrap();
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout).trim()), (Some(0), "13 124 42"));
    // No relocation is in the way of a shared library, and nothing is undefined.
    cc(&["-shared", "-nostdlib", "-Wl,--no-undefined", "-o", "libf.so", "f.o"]);
    std::fs::remove_dir_all(&directory).unwrap();
}
