//! Runs the model that `build.rs` compiled and prints its result beside the one that XLA:CPU stored.

mod model {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/mlp.rs"));
}

const INPUT: &str = include_str!("../model/input.txt");
const EXPECTED: &str = include_str!("../model/expected.txt");
/// The largest difference to XLA's result that passes: both sum in their own order.
const TOLERANCE: f32 = 1e-5;

fn numbers(text: &str) -> Result<Vec<f32>, std::num::ParseFloatError> {
    text.split_whitespace().map(str::parse).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (input, expected) = (numbers(INPUT)?, numbers(EXPECTED)?);
    let output = model::Mlp::new()?.compute(&input)?;
    println!("class probabilities of four inputs: this program, then XLA:CPU");
    for (ours, theirs) in output.chunks(3).zip(expected.chunks(3)) {
        println!("  {ours:.6?}  {theirs:.6?}");
    }
    let worst = output.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("largest difference: {worst:e}");
    if worst <= TOLERANCE { Ok(()) } else { Err(format!("expected a difference of at most {TOLERANCE:e}").into()) }
}
