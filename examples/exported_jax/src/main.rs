//! Runs the function that `build.rs` compiled from the file of `jax.export`, in both sizes, and compares with XLA:CPU.

mod model {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/attention.rs"));
}

use brolga_runtime::RunError;

/// Five sequences of four rows of eight numbers, and what becomes of them.
const INPUT: &str = include_str!("../model/input.txt");
const EXPECTED: &str = include_str!("../model/expected.txt");
/// Numbers of one sequence.
const SEQUENCE: usize = 4 * 8;
/// The largest difference to XLA's result that passes: both sum in their own order.
const TOLERANCE: f32 = 1e-5;

fn numbers(text: &str) -> Result<Vec<f32>, std::num::ParseFloatError> {
    text.split_whitespace().map(str::parse).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (input, expected) = (numbers(INPUT)?, numbers(EXPECTED)?);
    let mut attention = model::Attention::new()?;
    for [batch] in model::Attention::SIZES {
        let count = usize::try_from(batch)? * SEQUENCE;
        let (Some(input), Some(expected)) = (input.get(..count), expected.get(..count)) else {
            return Err(format!("expected {count} numbers in each file").into());
        };
        let mut output = vec![0.0; count];
        attention.run([batch], input, &mut output)?;
        let worst = output.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("batch {batch}: largest difference to XLA:CPU {worst:e}");
        if worst.is_nan() || worst > TOLERANCE {
            return Err(format!("expected a difference of at most {TOLERANCE:e}").into());
        }
    }
    // A batch that was not compiled is an error that names those that were.
    match attention.run([3], &input[..3 * SEQUENCE], &mut [0.0; 3 * SEQUENCE]) {
        Err(error @ RunError::Size { .. }) => println!("batch 3: {error}"),
        other => return Err(format!("expected an error about the size, found {other:?}").into()),
    }
    Ok(())
}
