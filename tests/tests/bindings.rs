//! Bindings as `build.rs` makes them, of a model with the names that JAX gives the parameters of a dict, a result in a parameter's
//! memory, a scalar, and a column-major array: they warn of nothing, and do what they say.
#![deny(warnings, clippy::all)]
#![allow(clippy::unwrap_used)]

mod model {
    include!(concat!(env!("OUT_DIR"), "/dict.rs"));
}

// In a package with a library Cargo links what a build script makes to that library alone.
#[link(name = "brolga_dict", kind = "static")]
unsafe extern "C" {}

use brolga_runtime::RunError;
use model::Dict;

const KERNEL: [[f32; 3]; 2] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
const BIAS: [f32; 3] = [10.0, 20.0, 30.0];
/// The columns of `[[1, 3, 5], [2, 4, 6]]`.
const COLUMNS: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const NEW: [[f32; 3]; 2] = [[6.0, 12.0, 18.0], [9.0, 15.0, 21.0]];
const TURNED: [[f32; 2]; 3] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];

/// Errors of loading and of running are errors as `?` wants them, of `Box<dyn Error>` and of crates that ask for more.
#[test]
fn a_run_takes_arrays_of_the_programs_shapes() -> Result<(), Box<dyn std::error::Error + Send + Sync + 'static>> {
    let (mut kernel, mut turned, mut total) = (KERNEL, [[0.0; 2]; 3], 0.0);
    Dict::new()?.run(&mut kernel, &BIAS, &0.5, &COLUMNS, &mut turned, &mut total)?;
    assert_eq!((kernel, turned, total.to_bits()), (NEW, TURNED, 21f32.to_bits()));
    Ok(())
}

#[test]
fn slices_and_made_results_are_the_same() -> Result<(), Box<dyn std::error::Error>> {
    let mut dict = Dict::new()?;
    let mut kernel = KERNEL;
    let (turned, total) = dict.compute(kernel.as_flattened_mut(), &BIAS, &0.5, &COLUMNS)?;
    assert_eq!((kernel, turned.as_slice(), total.to_bits()), (NEW, TURNED.as_flattened(), 21f32.to_bits()));
    let (mut kernel, mut turned, mut total) = (KERNEL, vec![0.0; 6], 0.0);
    dict.run_slices(kernel.as_flattened_mut(), &BIAS, &0.5, &COLUMNS, &mut turned, &mut total)?;
    assert_eq!((kernel, turned.as_slice(), total.to_bits()), (NEW, TURNED.as_flattened(), 21f32.to_bits()));
    Ok(())
}

#[test]
fn errors_name_the_argument() {
    let mut dict = Dict::new().unwrap();
    let mut kernel = KERNEL;
    let kernel = kernel.as_flattened_mut();
    let mut refused = |bias: &[f32], columns: &[f32], turned: &mut [f32]| {
        dict.run_slices(kernel, bias, &0.5, columns, turned, &mut 0.0).unwrap_err()
    };
    let error = refused(&BIAS[..2], &COLUMNS, &mut [0.0; 6]);
    assert!(matches!(error, RunError::Shape { index: 1, .. }));
    let text = "array 1 ('params_dense_0_bias_2') is of 3 elements, what was given is of 2";
    assert_eq!(error.to_string(), text);
    assert!(refused(&BIAS, &[0.0; 7], &mut [0.0; 6]).to_string().contains("'columns'"));
    assert!(refused(&BIAS, &COLUMNS, &mut []).to_string().contains("'out1'"));
    // A refused run writes nothing.
    assert_eq!(kernel, KERNEL.as_flattened());
}

#[test]
fn shapes_are_constants() {
    assert_eq!(Dict::PARAMS_DENSE_0_KERNEL_1_SHAPE, [2, 3]);
    assert_eq!(Dict::COLUMNS_SHAPE, [2, 3]);
    assert_eq!(Dict::OUT1_SHAPE, [3, 2]);
    assert!(Dict::_TYPE_SHAPE.is_empty() && Dict::OUT2_SHAPE.is_empty());
}
