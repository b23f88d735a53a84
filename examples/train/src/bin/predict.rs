//! Loads the trained network and tells how stripes run in pictures that it has not seen: `predict [FILE]`.

use example_train::{BATCH, CLASSES, Number, Pictures, numbers};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "network.safetensors".into());
    let mut store = f32::store()?;
    store.load(&path)?;
    let predict = store.computation("predict")?;
    let (mut pictures, mut classes) = (Pictures::new(2), [0; BATCH]);
    pictures.batch::<f32>(&mut store, false, &mut classes)?;
    store.run(predict)?;
    let probabilities: &[f32] = numbers(&store, predict, 0)?;
    let mut right = 0;
    for (number, (row, &class)) in probabilities.chunks(CLASSES.len()).zip(&classes).enumerate() {
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or_default();
        right += usize::from(best == class);
        if number < 4 {
            println!("stripes {}: probability {:.2} of {}", CLASSES[class], row[best], CLASSES[best]);
        }
    }
    println!("{right} of {BATCH} right");
    if 10 * right >= 9 * BATCH { Ok(()) } else { Err("expected nine of ten right".into()) }
}
