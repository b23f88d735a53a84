//! Trains the network and saves it: `train [FILE]`.

use example_train::{BATCH, Number, Pictures, numbers};
use std::error::Error;

const STEPS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "network.safetensors".into());
    let mut store = f32::store()?;
    store.initialise()?;
    let step = store.computation("train_step")?;
    let (mut pictures, mut classes) = (Pictures::new(1), [0; BATCH]);
    let (mut first, mut mean) = (0.0, 0.0);
    for number in 1..=STEPS {
        pictures.batch::<f32>(&mut store, true, &mut classes)?;
        store.run(step)?;
        let &loss = numbers::<f32>(&store, step, 0)?.first().ok_or("there is no loss")?;
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
