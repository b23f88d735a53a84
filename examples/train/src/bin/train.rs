//! Trains the network and saves it: `train [FILE]`.

use example_train::{BATCH, Pictures, numbers, store};
use std::error::Error;

const STEPS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "network.safetensors".into());
    let mut store = store()?;
    store.initialise()?;
    let step = store.computation("train_step")?;
    let (mut pictures, mut classes) = (Pictures::new(1), [0; BATCH]);
    let (mut first, mut mean) = (0.0, 0.0);
    for number in 1..=STEPS {
        pictures.batch(&mut store, true, &mut classes)?;
        store.run(step)?;
        let loss = store.output_bytes(step, 0).and_then(|bytes| numbers(bytes).next()).ok_or("there is no loss")?;
        if number == 1 {
            first = loss;
        }
        mean += loss / 50.0;
        if number % 50 == 0 {
            println!("step {number:3}: loss {mean:.4}");
            if number < STEPS {
                mean = 0.0;
            }
        }
    }
    store.save(&path)?;
    if 10.0 * mean <= first {
        Ok(())
    } else {
        Err(format!("expected the loss to fall from {first} by ten times").into())
    }
}
