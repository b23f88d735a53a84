//! Every way in which a queue ends, and what passes through it.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::abi::{Context, Resources, Status, encode_call};
use crate::services::{INFEED, OUTFEED};
use crate::{ArrayLiteral, ArrayShape, ElementType, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHORT: Duration = Duration::from_millis(20);

fn vector(values: &[f32]) -> ArrayLiteral {
    ArrayLiteral::from_elements(&[values.len() as i64], values)
}

fn matrix(order: [usize; 2]) -> Shape {
    let layout = Some(Layout { minor_to_major: order.to_vec(), ..Layout::default() });
    Shape::Array(ArrayShape { layout, ..ArrayShape::new(ElementType::U8, [2, 3]) })
}

fn f32s(dims: &[i64]) -> Shape {
    Shape::array(ElementType::F32, dims)
}

#[test]
fn values_come_out_in_the_order_in_which_they_went_in() {
    let queue = Infeed::new(3);
    for k in 0..3 {
        queue.push(vector(&[k as f32])).unwrap();
    }
    assert_eq!(queue.push_timeout(vector(&[3.0]), SHORT).unwrap_err().status(), Status::TimedOut);
    for k in 0..3 {
        assert_eq!(queue.next(&f32s(&[1]), None).unwrap(), vector(&[k as f32]).into());
    }
    let error = queue.next(&f32s(&[1]), Some(SHORT)).unwrap_err();
    assert_eq!(error.to_string(), "the infeed queue stayed empty for 20ms, which is the time-out");
}

#[test]
fn closing_wakes_everyone_who_waits() {
    let (empty, full) = (Infeed::new(1), Outfeed::new(1));
    full.put(vector(&[1.0]).into(), None).unwrap();
    let closed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert_eq!(empty.next(&f32s(&[1]), None), Err(FeedError::Closed(Direction::In)));
                closed.fetch_add(1, Ordering::Relaxed);
            });
            scope.spawn(|| {
                assert_eq!(full.put(vector(&[2.0]).into(), None), Err(FeedError::Closed(Direction::Out)));
                closed.fetch_add(1, Ordering::Relaxed);
            });
        }
        std::thread::sleep(SHORT);
        empty.close();
        drop(full.close_on_drop());
    });
    assert_eq!(closed.load(Ordering::Relaxed), 6);
    assert_eq!(empty.push(vector(&[1.0])), Err(FeedError::Closed(Direction::In)));
    assert_eq!(full.pop().unwrap().into_literal(), vector(&[1.0]).into(), "what is inside can still be taken");
    assert_eq!(full.pop(), Err(FeedError::Closed(Direction::Out)));
}

#[test]
fn many_producers_and_consumers_lose_nothing() {
    let queue = Infeed::typed(f32s(&[]), 2).unwrap();
    let sum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Ok(Literal::Array(value)) = queue.next(&f32s(&[]), None) {
                    sum.fetch_add(value.as_slice::<f32>()[0] as usize, Ordering::Relaxed);
                }
            });
        }
        std::thread::scope(|producers| {
            for _ in 0..3 {
                producers.spawn(|| (1..=50).for_each(|k| queue.push(ArrayLiteral::scalar(k as f32)).unwrap()));
            }
        });
        queue.close();
    });
    assert_eq!(sum.load(Ordering::Relaxed), 3 * 50 * 51 / 2);
}

#[test]
fn a_wrong_shape_is_refused_on_both_sides_and_named() {
    let typed = Infeed::typed(f32s(&[2]), 1).unwrap();
    let error = typed.push(vector(&[1.0])).unwrap_err();
    assert_eq!(error.to_string(), "expected a value of shape f32[2], found f32[1]");
    let any = Infeed::new(1);
    any.push(vector(&[1.0])).unwrap();
    let error = any.next(&f32s(&[2]), None).unwrap_err();
    assert_eq!(error, FeedError::Shape { expected: "f32[2]".into(), found: "f32[1]".into() });
    assert_eq!(any.len(), 1, "the value stays");
    let pair = Shape::tuple(vec![f32s(&[1]), f32s(&[])]);
    assert!(any.next(&pair, None).is_err());
    let mut bounded = ArrayShape::new(ElementType::F32, [4]);
    bounded.dynamic = vec![true];
    assert!(any.next(&Shape::Array(bounded), None).is_ok(), "up to the bound");
    let nested = Shape::tuple(vec![Shape::tuple(vec![])]);
    assert!(matches!(Infeed::typed(nested.clone(), 1), Err(FeedError::Nested(_))));
    assert!(matches!(Feeds::default().read(&nested), Err(FeedError::Nested(_))));
}

#[test]
fn memory_arrives_in_the_layout_that_the_shape_names() {
    let columns = FeedValue::from_bytes(&matrix([0, 1]), &[&[1, 4, 2, 5, 3, 6]]).unwrap();
    assert_eq!(columns.literal().arrays()[0].bytes(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(columns.bytes(0).unwrap(), [1, 4, 2, 5, 3, 6]);
    let typed = Infeed::typed(matrix([0, 1]), 2).unwrap();
    typed.push(columns.clone()).unwrap();
    let rows = FeedValue::from_bytes(&matrix([1, 0]), &[&[1, 2, 3, 4, 5, 6]]).unwrap();
    let error = typed.push(rows.clone()).unwrap_err();
    assert_eq!(error.to_string(), "expected a value in the layout of u8[2,3]{0,1}, found u8[2,3]{1,0}");
    typed.push(rows.literal().clone()).unwrap();
    // The program reads as its own shape says; a value without a layout fits any.
    assert!(matches!(typed.next(&matrix([1, 0]), None), Err(FeedError::Layout { .. })));
    assert_eq!(typed.next(&matrix([0, 1]), None).unwrap(), *columns.literal());
    assert_eq!(typed.next(&matrix([1, 0]), None).unwrap(), *rows.literal());
    let short = FeedValue::from_bytes(&matrix([0, 1]), &[&[1, 4]]).unwrap_err();
    assert_eq!(short.to_string(), "part 0 of a value of shape u8[2,3] takes 6 bytes, 2 were given");
    assert!(FeedValue::from_bytes(&matrix([1, 1]), &[&[0; 6]]).is_err());
}

/// Calls a service with one array of the shape, in row-major order.
fn call(feeds: &Feeds, infeed: bool, shape: &ArrayShape, bytes: &mut [u8]) -> (i32, String) {
    unsafe extern "C" fn report(host: *mut c_void, message: *const u8, length: usize) {
        // SAFETY: the host is the string below, the message that long.
        unsafe {
            let text = std::slice::from_raw_parts(message, length);
            *host.cast::<String>() = String::from_utf8_lossy(text).into_owned();
        }
    }
    let order = shape.layout.as_ref().map_or_else(|| vec![0], |l| l.minor_to_major.clone());
    let mut attributes = vec![7, 0];
    attributes.extend(order.iter().map(|&d| d as i64));
    let arrays: (&[&ArrayShape], &[&ArrayShape]) = if infeed { (&[], &[shape]) } else { (&[shape], &[]) };
    let words = encode_call(&attributes, arrays.0, arrays.1);
    let resources = Resources { feeds: feeds.clone(), ..Resources::default() };
    let mut message = String::new();
    let host = (&raw mut message).cast();
    let cx = Context { host, report: Some(report), resources: (&raw const resources).cast(), ..Context::new(0) };
    let buffers: [*mut c_void; 1] = [bytes.as_mut_ptr().cast()];
    let service = if infeed { INFEED } else { OUTFEED };
    // SAFETY: the words describe one array, whose bytes the buffer is.
    let status = unsafe { (service.function)(&cx, words.as_ptr(), buffers.as_ptr(), std::ptr::null()) };
    (status, message)
}

#[test]
fn the_services_move_values_and_fail_in_words() {
    let (input, output) = (Arc::new(Infeed::new(4)), Arc::new(Outfeed::new(1)));
    let feeds = Feeds { timeout: Some(SHORT), ..Feeds::new(input.clone(), output.clone()) };
    let Shape::Array(shape) = matrix([0, 1]) else { unreachable!() };
    let mut buffer = [0u8; 6];
    let value = FeedValue::from_bytes(&matrix([0, 1]), &[&[1, 4, 2, 5, 3, 6]]).unwrap();
    input.push(value.clone()).unwrap();
    assert_eq!(call(&feeds, true, &shape, &mut buffer), (0, String::new()));
    assert_eq!(buffer, [1, 2, 3, 4, 5, 6]);
    assert_eq!(call(&feeds, false, &shape, &mut buffer), (0, String::new()));
    // Time-outs: nothing to read, no room to write.
    let late = |what: &str, state: &str| {
        let message = format!("{what} at line 7: the {what} queue stayed {state} for 20ms, which is the time-out");
        (Status::TimedOut.code(), message)
    };
    assert_eq!(call(&feeds, true, &shape, &mut buffer), late("infeed", "empty"));
    assert_eq!(call(&feeds, false, &shape, &mut buffer), late("outfeed", "full"));
    assert_eq!(output.pop().unwrap().bytes(0).unwrap(), [1, 4, 2, 5, 3, 6]);
    // Wrong shape, wrong layout.
    input.push(vector(&[1.0])).unwrap();
    let (status, message) = call(&feeds, true, &shape, &mut buffer);
    assert_eq!(status, Status::ServiceFailed.code());
    assert_eq!(message, "infeed at line 7: expected a value of shape u8[2,3], found f32[1]");
    input.next(&f32s(&[1]), None).unwrap();
    input.push(FeedValue::from_bytes(&matrix([1, 0]), &[&[0; 6]]).unwrap()).unwrap();
    let (status, message) = call(&feeds, true, &shape, &mut buffer);
    assert_eq!(status, Status::ServiceFailed.code());
    assert!(message.ends_with("in the layout of u8[2,3]{0,1}, found u8[2,3]{1,0}"), "{message}");
    let typed = Feeds::new(input.clone(), Arc::new(Outfeed::typed(matrix([1, 0]), 1).unwrap()));
    let (_, message) = call(&typed, false, &shape, &mut buffer);
    assert!(message.ends_with("in the layout of u8[2,3]{1,0}, found u8[2,3]{0,1}"), "{message}");
    let typed = Feeds::new(input.clone(), Arc::new(Outfeed::typed(f32s(&[2]), 1).unwrap()));
    let (_, message) = call(&typed, false, &shape, &mut buffer);
    assert!(message.ends_with("expected a value of shape f32[2], found u8[2,3]"), "{message}");
    // Closed, and missing.
    input.next(&matrix([1, 0]), None).unwrap();
    input.close();
    output.close();
    let closed = |what: &str| (Status::Cancelled.code(), format!("{what} at line 7: the {what} queue is closed"));
    assert_eq!(call(&feeds, true, &shape, &mut buffer), closed("infeed"));
    assert_eq!(call(&feeds, false, &shape, &mut buffer), closed("outfeed"));
    let (status, message) = call(&Feeds::default(), true, &shape, &mut buffer);
    assert_eq!((status, &*message), (Status::MissingService.code(), "infeed at line 7: the run has no infeed"));
}
