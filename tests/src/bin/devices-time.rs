//! How long an all-reduce among two devices takes, beside a copy of the same bytes in the same run.

use brolga_runtime::devices::{Collective, Devices, Operation, Reduction};
use brolga_runtime::services::Failure;
use brolga_runtime::{ArrayShape, ElementType};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

/// The shortest of several all-reduces of `elements` on each of two devices, `times` in a row.
fn all_reduce(elements: usize, times: u32) -> Result<Duration, Box<dyn std::error::Error>> {
    let shape = ArrayShape::new(ElementType::F32, [elements as i64]);
    let sum = Collective {
        operation: Operation::AllReduce,
        reduction: Some(Reduction::Add),
        dimension: 0,
        channel: 0,
        line: 0,
        groups: vec![vec![0, 1]],
    };
    let best = Devices::local(2, 1)?.run_each(|device| {
        let (own, mut all) = (vec![1u8; shape.byte_size()], vec![2u8; shape.byte_size()]);
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..times {
                device.exchange(&sum, &[(&shape, &own)], &mut [(&shape, &mut all)])?;
            }
            best = best.min(start.elapsed() / times);
        }
        Ok::<_, Failure>(best)
    })?;
    Ok(best.into_iter().max().unwrap_or_default())
}

/// The shortest of several copies by one thread.
fn copy(bytes: usize) -> Duration {
    let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        best = best.min(start.elapsed());
    }
    best
}

fn main() -> ExitCode {
    let elements = 16 << 20;
    let measured = (all_reduce(elements, 1), copy(4 * elements), all_reduce(16, 10_000));
    let (Ok(large), copy, Ok(small)) = measured else {
        eprintln!("the devices do not meet");
        return ExitCode::FAILURE;
    };
    println!("copy of 64 MiB by one thread          {copy:?}");
    let ratio = large.as_secs_f64() / copy.as_secs_f64();
    println!("all-reduce of 64 MiB on each of two   {large:?}, {ratio:.2} of the copy");
    println!("all-reduce of 64 bytes                {small:?}");
    ExitCode::SUCCESS
}
