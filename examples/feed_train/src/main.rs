//! Trains a small network inside one call of a compiled program: a thread feeds it batches, another prints what it reports.

use brolga_runtime::feed::{FeedError, Feeds, Infeed, Outfeed};
use brolga_runtime::{ArrayLiteral, Literal, RunOptions};
use std::sync::Arc;

mod train {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/train.rs"));
}

const STEPS: i32 = 400;
const BATCH: usize = 16;

/// Numbers in [-1, 1), the same on every machine.
struct Random(u32);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    fn array<const N: usize>(&mut self) -> [f32; N] {
        std::array::from_fn(|_| self.next())
    }
}

/// Points in a square and whether their signs agree, as 1 and -1: what a line cannot tell.
fn batch(random: &mut Random) -> Literal {
    let x: [f32; 2 * BATCH] = random.array();
    let y: Vec<f32> = x.chunks(2).map(|p| (p[0] * p[1]).signum()).collect();
    let rows = BATCH as i64;
    Literal::Tuple(vec![
        ArrayLiteral::from_elements(&[rows, 2], &x).into(),
        ArrayLiteral::from_elements(&[rows, 1], &y).into(),
    ])
}

/// Prints the mean loss of every fifty steps until the queue is closed, and returns the last.
fn report(metrics: &Outfeed) -> Result<f32, FeedError> {
    let (mut sum, mut mean) = (0.0, f32::INFINITY);
    loop {
        let value = match metrics.pop() {
            Ok(value) => value.into_literal(),
            Err(FeedError::Closed(_)) => return Ok(mean),
            Err(error) => return Err(error),
        };
        let [step, loss] = value.arrays()[..] else { return Err(FeedError::Other("metrics are a pair".to_owned())) };
        sum += loss.as_slice::<f32>()[0];
        let step = step.as_slice::<i32>()[0] + 1;
        if step % 50 == 0 {
            mean = sum / 50.0;
            sum = 0.0;
            println!("step {step:3}: loss {mean:.4}");
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (batches, metrics) = (Arc::new(Infeed::new(4)), Arc::new(Outfeed::new(4)));
    let feeds = Feeds::new(batches.clone(), metrics.clone());
    let mut program = train::Train::with_options(&RunOptions { feeds, ..RunOptions::default() })?;
    let mut random = Random(1);
    let (w1, b1, w2): ([f32; 16], [f32; 8], [f32; 8]) = (random.array(), [0.0; 8], random.array());
    let loss = std::thread::scope(|scope| {
        scope.spawn(|| {
            // However this thread ends, the program must not wait for it.
            let _guard = batches.close_on_drop();
            for _ in 0..STEPS {
                if batches.push(batch(&mut random)).is_err() {
                    break;
                }
            }
        });
        let reporter = scope.spawn(|| report(&metrics));
        let outcome = program.compute(&STEPS, &0.2, &w1, &b1, &w2);
        // Whatever happened, nobody waits for this program any more.
        batches.close();
        metrics.close();
        let loss = reporter.join().map_err(|_| "the reporting thread panicked")??;
        outcome?;
        Ok::<f32, Box<dyn std::error::Error + Send + Sync>>(loss)
    })?;
    if loss < 0.4 { Ok(()) } else { Err(format!("expected a loss below 0.4 at the end, found {loss}").into()) }
}
