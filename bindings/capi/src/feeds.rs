//! Feeds: values for a running program, and from it.

use crate::array::{Array, Owned, nth};
use crate::failure::{Failure, Result, destroy, given, given_slice, guard, guard_value, put, put_handle};
use brolga_runtime::abi::Leaf;
use brolga_runtime::feed::{self, FeedValue};
use brolga_runtime::{ArrayShape, Shape};
use std::sync::Arc;
use std::time::Duration;

/// A queue of values that programs read.
pub struct Infeed {
    pub(crate) queue: Arc<feed::Infeed>,
}

/// A queue of values that programs write.
pub struct Outfeed {
    pub(crate) queue: Arc<feed::Outfeed>,
}

/// A value that came out of a program: an array, or a tuple of arrays.
pub struct Value {
    arrays: Vec<(Owned, Vec<u64>)>,
    tuple: bool,
}

/// A time; `None` where it is 0.
pub(crate) fn seconds(seconds: f64) -> Result<Option<Duration>> {
    if seconds == 0.0 {
        return Ok(None);
    }
    let time = Duration::try_from_secs_f64(seconds);
    time.map(Some).map_err(|_| Failure::argument(format!("a time of {seconds} seconds")))
}

/// Makes a queue that holds at most so many values, and one at least.
///
/// # Safety
/// `infeed` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_infeed_create(capacity: usize, infeed: *mut *mut Infeed) -> i32 {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        put_handle(infeed, "the infeed", || Ok(Infeed { queue: Arc::new(feed::Infeed::new(capacity)) }))
    })
}

/// Adds a value: one array, or a tuple of `count` arrays where `is_tuple` is not 0. The data are copied. Waits while the queue
/// is full, no longer than `timeout` seconds where that is not 0.
///
/// # Safety
/// `infeed` is null or a live handle; `arrays` leads to `count` arrays whose lists have as many elements as their ranks say and
/// whose data have as many bytes as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_infeed_push(
    infeed: *const Infeed,
    arrays: *const Array,
    count: usize,
    is_tuple: i32,
    timeout: f64,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let infeed = given(infeed, "the infeed")?;
            let arrays = given_slice(arrays, count, "the arrays")?;
            let mut shapes = Vec::with_capacity(count);
            let mut parts = Vec::with_capacity(count);
            for array in arrays {
                shapes.push(Shape::Array(array.shape()?));
                let bytes = usize::try_from(array.bytes).map_err(|_| Failure::argument("an array beyond memory"))?;
                parts.push(given_slice(array.data.cast_const().cast::<u8>(), bytes, "the data of an array")?);
            }
            let shape = match (is_tuple, shapes.len()) {
                (0, 1) => shapes.pop().unwrap_or(Shape::Token),
                (0, n) => return Err(Failure::argument(format!("a value that is no tuple is one array, not {n}"))),
                _ => Shape::tuple(shapes),
            };
            let value = FeedValue::from_bytes(&shape, &parts)?;
            match seconds(timeout)? {
                None => infeed.queue.push(value)?,
                Some(limit) => infeed.queue.push_timeout(value, limit)?,
            }
            Ok(())
        }
    })
}

/// Ends the traffic: values inside can still be read, and then reading fails.
///
/// # Safety
/// `infeed` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_infeed_close(infeed: *const Infeed) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { given(infeed, "the infeed") }?.queue.close();
        Ok(())
    })
}

/// Frees a queue; sessions that read it keep it.
///
/// # Safety
/// `infeed` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_infeed_destroy(infeed: *mut Infeed) {
    // SAFETY: the caller's promise.
    unsafe { destroy(infeed) }
}

/// Makes a queue that holds at most so many values, and one at least.
///
/// # Safety
/// `outfeed` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_outfeed_create(capacity: usize, outfeed: *mut *mut Outfeed) -> i32 {
    let make = || Ok(Outfeed { queue: Arc::new(feed::Outfeed::new(capacity)) });
    // SAFETY: the caller's promise.
    guard(|| unsafe { put_handle(outfeed, "the outfeed", make) })
}

/// Takes the next value. Waits while the queue is empty, no longer than `timeout` seconds where that is not 0.
///
/// # Safety
/// `outfeed` is null or a live handle, `value` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_outfeed_pop(outfeed: *const Outfeed, timeout: f64, value: *mut *mut Value) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(value, "the value", || {
                let queue = &given(outfeed, "the outfeed")?.queue;
                Value::new(&match seconds(timeout)? {
                    None => queue.pop()?,
                    Some(limit) => queue.pop_timeout(limit)?,
                })
            })
        }
    })
}

/// Ends the traffic: values inside can still be taken, and programs that write fail.
///
/// # Safety
/// `outfeed` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_outfeed_close(outfeed: *const Outfeed) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { given(outfeed, "the outfeed") }?.queue.close();
        Ok(())
    })
}

/// Frees a queue; sessions that write it keep it.
///
/// # Safety
/// `outfeed` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_outfeed_destroy(outfeed: *mut Outfeed) {
    // SAFETY: the caller's promise.
    unsafe { destroy(outfeed) }
}

impl Value {
    fn new(value: &FeedValue) -> Result<Value> {
        let shape = value.shape();
        let shapes: Vec<&ArrayShape> = shape.leaves().into_iter().filter_map(Shape::as_array).collect();
        let mut arrays = Vec::with_capacity(shapes.len());
        for (part, &array) in shapes.iter().enumerate() {
            let bytes = value.bytes(part)?;
            // Words, so that the elements are aligned.
            let mut words = vec![0u64; bytes.len().div_ceil(8)];
            for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
                let mut whole = [0; 8];
                whole.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                *word = u64::from_ne_bytes(whole);
            }
            arrays.push((Owned::new(&Leaf::new(array.clone())), words));
        }
        Ok(Value { arrays, tuple: matches!(shape, Shape::Tuple(_)) })
    }
}

/// Number of arrays of a value.
///
/// # Safety
/// `value` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_value_count(value: *const Value) -> usize {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(unsafe { given(value, "the value") }?.arrays.len())).unwrap_or(0)
}

/// 1 where the value is a tuple, 0 where it is an array.
///
/// # Safety
/// `value` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_value_is_tuple(value: *const Value) -> i32 {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(i32::from(unsafe { given(value, "the value") }?.tuple))).unwrap_or(0)
}

/// An array of a value; its data live as long as the value, and are only to be read.
///
/// # Safety
/// `value` is null or a live handle, `array` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_value_array(value: *const Value, index: usize, array: *mut Array) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let (owned, words) = nth(&given(value, "the value")?.arrays, index, "array")?;
            put(array, owned.array(words.as_ptr().cast_mut().cast()), "the array")
        }
    })
}

/// Frees a value.
///
/// # Safety
/// `value` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_value_destroy(value: *mut Value) {
    // SAFETY: the caller's promise.
    unsafe { destroy(value) }
}
