#![allow(clippy::unwrap_used)]
use super::*;
use crate::services::Failure;
use crate::{ArrayShape, ElementType};
use std::time::{Duration, Instant};

fn collective(operation: Operation, groups: &[&[usize]]) -> Collective {
    Collective {
        operation,
        reduction: operation.reduces().then_some(Reduction::Add),
        dimension: 0,
        channel: 0,
        line: 7,
        groups: groups.iter().map(|g| g.to_vec()).collect(),
    }
}

fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks::<4>().0.iter().map(|b| i32::from_ne_bytes(*b)).collect()
}

/// Runs `collective` on devices that bring `[10 d, 10 d + 1, ...]` of the shape `from`, and take a result of the shape `to`.
fn run(
    devices: usize,
    collective: &Collective,
    from: &[i64],
    to: &[i64],
) -> Result<Vec<Vec<i32>>, DeviceError<Failure>> {
    let (from, to) = (ArrayShape::new(ElementType::S32, from), ArrayShape::new(ElementType::S32, to));
    Devices::local(devices, 1).unwrap().run_each(|device| {
        let first = 10 * device.place().device as i32;
        let own = bytes(&(first..first + from.elements() as i32).collect::<Vec<_>>());
        let mut result = vec![0xAA; to.byte_size()];
        device.exchange(collective, &[(&from, &own)], &mut [(&to, &mut result)])?;
        Ok(numbers(&result))
    })
}

#[test]
fn devices_meet() {
    let sum = collective(Operation::AllReduce, &[&[0, 1, 2]]);
    assert_eq!(run(3, &sum, &[4], &[4]).unwrap(), vec![vec![30, 33, 36, 39]; 3]);
    let gather = collective(Operation::AllGather, &[&[1, 0]]);
    assert_eq!(run(2, &gather, &[2], &[4]).unwrap(), vec![vec![10, 11, 0, 1]; 2]);
    let along = Collective { dimension: 1, ..collective(Operation::AllGather, &[&[0, 1]]) };
    assert_eq!(run(2, &along, &[2, 1], &[2, 2]).unwrap(), vec![vec![0, 10, 1, 11]; 2]);
    let scatter = collective(Operation::ReduceScatter, &[&[0, 1]]);
    assert_eq!(run(2, &scatter, &[4], &[2]).unwrap(), [[10, 12], [14, 16]]);
    let columns = Collective { dimension: 1, ..scatter };
    assert_eq!(run(2, &columns, &[2, 2], &[2, 1]).unwrap(), [[10, 14], [12, 16]]);
    let all = collective(Operation::AllToAll, &[&[0, 1]]);
    assert_eq!(run(2, &all, &[4], &[4]).unwrap(), [[0, 1, 10, 11], [2, 3, 12, 13]]);
    let permute = collective(Operation::CollectivePermute, &[&[0, 1]]);
    assert_eq!(run(2, &permute, &[2], &[2]).unwrap(), [[0, 0], [0, 1]]);
    let broadcast = collective(Operation::CollectiveBroadcast, &[&[1, 0]]);
    assert_eq!(run(3, &broadcast, &[2], &[2]).unwrap(), [[10, 11], [10, 11], [20, 21]]);
}

#[test]
fn large_arrays_are_cut_and_lose_nothing() {
    // More than a piece, and no multiple of one.
    let n = 100_003;
    let sum = collective(Operation::AllReduce, &[&[0, 1, 2]]);
    let expected: Vec<i32> = (0..n).map(|i| 3 * i as i32 + 30).collect();
    assert_eq!(run(3, &sum, &[n], &[n]).unwrap(), vec![expected; 3]);
    let columns = Collective { dimension: 1, ..collective(Operation::ReduceScatter, &[&[0, 1]]) };
    let results = run(2, &columns, &[1000, 66], &[1000, 33]).unwrap();
    let expected = |d: usize| -> Vec<i32> {
        (0..1000).flat_map(|r| (0..33).map(move |c| 2 * (66 * r + 33 * d as i32 + c) + 10)).collect()
    };
    assert_eq!(results, [expected(0), expected(1)]);
}

#[test]
fn ragged_rows_find_their_places() {
    let [rows, list] = [[4], [2]].map(|d| ArrayShape::new(ElementType::S32, d));
    let all = collective(Operation::RaggedAllToAll, &[&[0, 1]]);
    let results = Devices::local(2, 1).unwrap().run_each(|device| {
        // Device 0 sends one row to each, device 1 two rows to device 0 and one to itself.
        let lists: [[i32; 2]; 4] = match device.place().device {
            0 => [[0, 1], [1, 1], [0, 0], [1, 2]],
            _ => [[0, 2], [2, 1], [1, 1], [1, 1]],
        };
        let first = 10 * device.place().device as i32;
        let own = bytes(&[first, first + 1, first + 2, first + 3]);
        let (output, lists) = (bytes(&[-1; 4]), lists.map(|l| bytes(&l)));
        let mut operands = vec![(&rows, own.as_slice()), (&rows, output.as_slice())];
        operands.extend(lists.iter().map(|l| (&list, l.as_slice())));
        let mut result = vec![0; 16];
        device.exchange(&all, &operands, &mut [(&rows, &mut result)])?;
        Ok::<_, Failure>(numbers(&result))
    });
    assert_eq!(results.unwrap(), [[0, 10, 11, -1], [1, 12, -1, -1]]);
}

#[test]
fn mismatches_are_errors_before_data_moves() {
    let devices = Devices::local(2, 1).unwrap();
    let touched = devices.run_each(|device| {
        let odd = device.place().device == 1;
        let shape = ArrayShape::new(ElementType::S32, [if odd { 3 } else { 2 }]);
        let own = vec![1; shape.byte_size()];
        let mut result = vec![0xAA; shape.byte_size()];
        let sum = collective(Operation::AllReduce, &[&[0, 1]]);
        let outcome = device.exchange(&sum, &[(&shape, &own)], &mut [(&shape, &mut result)]);
        assert!(result.iter().all(|&b| b == 0xAA), "nothing was written");
        outcome
    });
    let error = touched.unwrap_err().to_string();
    assert!(error.contains("s32[2]") && error.contains("s32[3]") && error.contains("line 7"), "{error}");
    let cut = run(2, &collective(Operation::AllToAll, &[&[0, 1]]), &[3], &[3]).unwrap_err().to_string();
    assert!(cut.contains("2 devices cannot make s32[3] of s32[3]"), "{cut}");
    let left_out = run(3, &collective(Operation::AllReduce, &[&[0, 1]]), &[2], &[2]).unwrap_err().to_string();
    assert!(left_out.contains("leave out device 2 of 3"), "{left_out}");
}

#[test]
fn nobody_waits_for_what_cannot_come() {
    let sum = collective(Operation::AllReduce, &[&[0, 1]]);
    let shape = ArrayShape::new(ElementType::S32, [1]);
    let meet = |device: &Device| {
        let (own, mut result) = ([0; 4], [0; 4]);
        device.exchange(&sum, &[(&shape, &own)], &mut [(&shape, &mut result)])
    };
    let devices = Devices::local(2, 1).unwrap();
    let ended = devices.run_each(|d| if d.place().device == 0 { meet(d) } else { Ok(()) }).unwrap_err().to_string();
    assert!(ended.contains("device 1 ended before it came to all-reduce at line 7"), "{ended}");
    let failed = devices.run_each(|d| if d.place().device == 0 { meet(d) } else { Err(Failure::new("no luck")) });
    assert_eq!(failed.unwrap_err(), DeviceError::Failed { device: 1, error: Failure::new("no luck") });
    let panicked = devices.run_each(|d| if d.place().device == 0 { meet(d) } else { panic!("by itself") });
    assert_eq!(panicked.unwrap_err(), DeviceError::Panicked { device: 1, message: "by itself".into() });
    let wait = |d: &Device| {
        let number = d.request(Route::Channel(1 + d.place().device as i64))?;
        d.receive(Route::Channel(1 + d.place().device as i64), number).map(|_| ())
    };
    let cycle = devices.run_each(wait).unwrap_err().to_string();
    assert!(cycle.contains("every device waits"), "{cycle}");
    let mixed = devices.run_each(|d| if d.place().device == 0 { meet(d) } else { wait(d) }).unwrap_err().to_string();
    assert!(mixed.contains("every device waits"), "{mixed}");
}

#[test]
fn a_device_that_stops_is_an_error_within_the_limit() {
    let sum = collective(Operation::AllReduce, &[&[0, 1]]);
    let shape = ArrayShape::new(ElementType::S32, [1]);
    let limit = Duration::from_millis(100);
    let devices = Devices::local(2, 1).unwrap().with_timeout(limit);
    let waited = std::sync::Mutex::new(Duration::ZERO);
    let result = devices.run_each(|device| {
        if device.place().device == 1 {
            std::thread::sleep(5 * limit);
        }
        let start = Instant::now();
        let (own, mut result) = ([0; 4], [0; 4]);
        let outcome = device.exchange(&sum, &[(&shape, &own)], &mut [(&shape, &mut result)]);
        if device.place().device == 0 {
            *waited.lock().unwrap() = start.elapsed();
        }
        outcome
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("nobody came within 100ms"), "{error}");
    assert!(*waited.lock().unwrap() < 4 * limit);
}

#[test]
fn what_is_sent_arrives_in_order() {
    let shape = ArrayShape::new(ElementType::U8, [1]);
    let results = Devices::local(2, 1).unwrap().run_each(|device| {
        let route = Route::Pair(3, 0, 1);
        if device.place().device == 0 {
            for i in 0..3 {
                device.send(route, Message { shapes: vec![shape.clone()], bytes: vec![i] })?;
            }
            return Ok(Vec::new());
        }
        let requests = (0..3).map(|_| device.request(route)).collect::<Result<Vec<_>, _>>()?;
        // Asked for in another order.
        requests.into_iter().rev().map(|n| Ok(device.receive(route, n)?.bytes[0])).collect::<Result<Vec<_>, Failure>>()
    });
    assert_eq!(results.unwrap(), [vec![], vec![2, 1, 0]]);
}

#[test]
fn words_round_trip_and_damage_is_refused() {
    let sum = collective(Operation::ReduceScatter, &[&[0, 2], &[1, 3]]);
    let words = sum.encode();
    assert_eq!(Collective::decode(&words), Some(sum));
    for n in 0..words.len() {
        assert_eq!(Collective::decode(&words[..n]), None, "{n}");
        let mut other = words.clone();
        other[n] = -1;
        let read = Collective::decode(&other);
        assert!(n == 3 || read.is_none(), "{n}: {read:?}");
    }
}
