//! What a compiler without library services does: `build.rs` has such a one. It compiles calls of services that it does not have,
//! and refuses in words to interpret them.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, text};

mod model {
    include!(concat!(env!("OUT_DIR"), "/services.rs"));
}

// In a package with a library Cargo links what a build script makes to that library alone.
#[link(name = "brolga_services", kind = "static")]
unsafe extern "C" {}

/// What interpreting a LAPACK routine gave there.
const ANSWER: &str = include_str!(concat!(env!("OUT_DIR"), "/answer.txt"));

#[test]
fn services_are_called_that_the_compiler_does_not_have() {
    let (signal, matrix) = ([1.0, 2.0, 3.0, 4.0], [[4.0, 2.0], [2.0, 5.0]]);
    let (mut cosines, mut sines, mut factor, mut factors) = ([0.0; 3], [0.0; 3], [[0.0; 2]; 2], [[0.0; 2]; 2]);
    let (mut pivots, mut info) = ([0; 2], -1);
    let mut services = model::Services::new().unwrap();
    services
        .run(&signal, &matrix, &mut cosines, &mut sines, &mut factor, &mut factors, &mut pivots, &mut info)
        .unwrap();
    assert_eq!((cosines, sines), ([10.0, -2.0, -2.0], [0.0, 2.0, 0.0]));
    assert_eq!(factor, [[2.0, 0.0], [1.0, 2.0]]);
    assert_eq!((factors, pivots, info), ([[4.0, 2.0], [0.5, 4.0]], [1, 2], 0));
}

#[test]
fn objects_do_not_depend_on_the_compilers_features() {
    let module = text::parse(include_str!("../models/services.hlo")).unwrap();
    let object = compile(&module, &CompileOptions::default()).unwrap().object;
    assert!(object == include_bytes!(concat!(env!("OUT_DIR"), "/compiled.o")), "objects differ");
}

#[test]
fn the_interpreter_names_the_feature_that_has_the_routine() {
    assert!(ANSWER.starts_with("Err(Unsupported"), "{ANSWER}");
    assert!(ANSWER.contains("interpreting 'lapack_sgetrf_ffi' without brolga-compiler's feature `linalg`"), "{ANSWER}");
}
