//! Calls both programs from Rust and prints a line for each way: name, nanoseconds of a small call, microseconds of the block, and a hash of
//! its result.

mod block {
    include!(concat!(env!("OUT_DIR"), "/block.rs"));
}
mod small {
    include!(concat!(env!("OUT_DIR"), "/small.rs"));
}

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

/// Fills arrays with the numbers that export.py says.
struct Numbers(u32);

impl Numbers {
    fn fill(&mut self, array: &mut [f32]) {
        for x in array {
            *x = (self.0.wrapping_mul(2_654_435_761) >> 8) as f32 / 67_108_864.0 - 0.125;
            self.0 += 1;
        }
    }
}

/// Nanoseconds of a call: the least of many batches, each shorter than the time that a system gives a process at once.
fn least(calls: u32, mut call: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::INFINITY;
    for _ in 0..150 {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        least = least.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    Ok(least)
}

/// FNV-1a of the bytes.
fn hash(array: &[f32]) -> u64 {
    let bytes = array.iter().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = Numbers(0);
    let mut down = [[0.0; 96]; 384];
    numbers.fill(down.as_flattened_mut());
    let mut frequency = [0.0; 96];
    numbers.fill(&mut frequency);
    let mut out = [[0.0; 96]; 96];
    numbers.fill(out.as_flattened_mut());
    let mut qkv = [[0.0; 288]; 96];
    numbers.fill(qkv.as_flattened_mut());
    let (mut scale, mut shift) = ([[0.0; 96]; 2], [[0.0; 96]; 2]);
    numbers.fill(scale.as_flattened_mut());
    numbers.fill(shift.as_flattened_mut());
    let mut up = [[0.0; 384]; 96];
    numbers.fill(up.as_flattened_mut());
    let mut x = [[0.0; 96]; 128];
    numbers.fill(x.as_flattened_mut());

    let mut small = small::Small::new()?;
    let (four, mut eight) = ([1.0; 4], [0.0; 4]);
    let mut block = block::Block::new()?;
    let mut y = [[0.0; 96]; 128];

    let overhead = least(20_000, || Ok(small.run(black_box(&four), black_box(&mut eight))?))?;
    let time = least(2, || Ok(block.run(&down, &frequency, &out, &qkv, &scale, &shift, &up, &x, &mut y)?))?;
    println!("rust-run {overhead:.1} {:.1} {:016x}", time / 1e3, hash(y.as_flattened()));

    let overhead = least(20_000, || Ok(drop(small.compute(black_box(&four))?)))?;
    let mut made = Vec::new();
    let time = least(2, || {
        made = block.compute(
            down.as_flattened(),
            &frequency,
            out.as_flattened(),
            qkv.as_flattened(),
            scale.as_flattened(),
            shift.as_flattened(),
            up.as_flattened(),
            x.as_flattened(),
        )?;
        Ok(())
    })?;
    println!("rust-compute {overhead:.1} {:.1} {:016x}", time / 1e3, hash(&made));
    Ok(())
}
