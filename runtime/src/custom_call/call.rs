//! Calling a function by its convention, or a closure with views of the same buffers.

use super::Description;
use super::ffi;
use super::registry::{Closure, Handler};
use super::status::XlaCustomCallStatus;
use super::views::CustomCall;
use crate::abi::{CustomCallAbi, Status};
use crate::program::memory::zeroed_words;
use crate::services::{Failure, panic_text};
use crate::tuple_buffer::Tables;
use crate::{ArrayShape, OutOfMemory};
use std::ffi::{c_char, c_void};

type Original = unsafe extern "C" fn(out: *mut c_void, operands: *const *const c_void);
type WithStatus =
    unsafe extern "C" fn(out: *mut c_void, operands: *const *const c_void, status: *mut XlaCustomCallStatus);
type WithOpaque = unsafe extern "C" fn(
    out: *mut c_void,
    operands: *const *const c_void,
    opaque: *const c_char,
    length: usize,
    status: *mut XlaCustomCallStatus,
);

/// The failure of a call, under its name.
fn failed(d: &Description, message: &str) -> Failure {
    let line = if d.line > 0 { format!(" at line {}", d.line) } else { String::new() };
    let message = if message.is_empty() { "failed without a message" } else { message };
    let message = format!("custom call '{}'{line}: {message}", d.target);
    Failure { code: Status::CustomCallFailed.code(), message }
}

/// Calls what a handler stands for.
///
/// # Safety
/// `handler` leads to a live handler; its address, where it is one, and the buffers are as [`function`] asks.
pub(super) unsafe fn handler(d: &Description, handler: *const Handler, buffers: &[*mut c_void]) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    match unsafe { &*handler } {
        // SAFETY: as above.
        Handler::Function(address) => unsafe { function(d, std::ptr::with_exposed_provenance(*address), buffers) },
        // SAFETY: the buffers fit their shapes.
        Handler::Closure(f) => unsafe { closure(d, f, buffers) },
        #[cfg(feature = "loader")]
        Handler::Undefined => {
            Err(failed(d, &format!("undefined symbol '{}': no function of that name is registered", d.target)))
        }
    }
}

/// Calls a function.
///
/// # Safety
/// `function` is a function of the description's convention which keeps to its shapes; `buffers` has a pointer for each
/// array, operands first, to as many bytes as the array has, results writable and apart from all but the operands that
/// they alias.
pub(super) unsafe fn function(
    d: &Description,
    function: *const c_void,
    buffers: &[*mut c_void],
) -> Result<(), Failure> {
    if function.is_null() {
        return Err(failed(d, "its function is missing"));
    }
    if d.abi == CustomCallAbi::TypedFfi {
        // SAFETY: a typed handler, by the caller's promise.
        return unsafe { ffi::call(d, function, buffers) }.map_err(|message| failed(d, &message));
    }
    let mut leaves = buffers.iter().copied();
    let mut tables = Tables::default();
    let operands: Vec<*const c_void> = d.operands.iter().map(|s| tables.pointer(s, &mut leaves).cast_const()).collect();
    let out = tables.pointer(&d.result, &mut leaves);
    let (operands, mut status) = (operands.as_ptr(), XlaCustomCallStatus::default());
    match d.abi {
        CustomCallAbi::Original => {
            // SAFETY: the address is that of such a function.
            let f = unsafe { std::mem::transmute::<*const c_void, Original>(function) };
            // SAFETY: the tables have the form of the shapes, and the function keeps to them.
            unsafe { f(out, operands) };
        }
        CustomCallAbi::StatusReturning => {
            // SAFETY: as above.
            let f = unsafe { std::mem::transmute::<*const c_void, WithStatus>(function) };
            // SAFETY: as above.
            unsafe { f(out, operands, &mut status) };
        }
        _ => {
            // SAFETY: as above.
            let f = unsafe { std::mem::transmute::<*const c_void, WithOpaque>(function) };
            // SAFETY: as above; the text lives through the call.
            unsafe { f(out, operands, d.opaque.as_ptr().cast(), d.opaque.len(), &mut status) };
        }
    }
    match status.failure {
        None => Ok(()),
        Some(message) => Err(failed(d, &message)),
    }
}

/// Calls a closure.
///
/// # Safety
/// `buffers` are as [`function`] asks.
unsafe fn closure(d: &Description, f: &Closure, buffers: &[*mut c_void]) -> Result<(), Failure> {
    let (operands, results) = (d.operand_arrays(), d.result_arrays());
    let range =
        |shape: &ArrayShape, pointer: *mut c_void| pointer.addr()..pointer.addr().saturating_add(shape.byte_size());
    let outputs = buffers.get(operands.len()..).unwrap_or_default();
    if outputs.len() != results.len() {
        return Err(failed(d, "it was called without its buffers"));
    }
    // An operand that shares memory with a result is copied: views are borrowed, and never overlap.
    let shared = |shape: &ArrayShape, pointer: *mut c_void| {
        let mine = range(shape, pointer);
        results.iter().zip(outputs).any(|(r, &p)| {
            let other = range(r, p);
            mine.start < other.end && other.start < mine.end
        })
    };
    let mut copies: Vec<Option<Vec<u64>>> = Vec::with_capacity(operands.len());
    for (shape, &pointer) in operands.iter().zip(buffers) {
        let size = shape.byte_size();
        if size == 0 || !shared(shape, pointer) {
            copies.push(None);
            continue;
        }
        let words = zeroed_words(size.div_ceil(8));
        let mut words = words.ok_or_else(|| failed(d, &OutOfMemory(size as u64).to_string()))?;
        // SAFETY: both sides have that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), words.as_mut_ptr().cast(), size) };
        copies.push(Some(words));
    }
    let inputs: Vec<&[u8]> = operands
        .iter()
        .zip(buffers)
        .zip(&copies)
        .map(|((shape, &pointer), copy)| match (shape.byte_size(), copy) {
            (0, _) => &[][..],
            (size, Some(words)) => bytemuck::cast_slice(words).get(..size).unwrap_or_default(),
            // SAFETY: the buffer has that many bytes, and nobody writes them during the call.
            (size, None) => unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size) },
        })
        .collect();
    let outputs: Vec<Option<&mut [u8]>> = results
        .iter()
        .zip(outputs)
        .map(|(shape, &pointer)| {
            Some(match shape.byte_size() {
                0 => &mut [][..],
                // SAFETY: the buffer has that many bytes; results overlap nothing that is lent here.
                size => unsafe { std::slice::from_raw_parts_mut(pointer.cast::<u8>(), size) },
            })
        })
        .collect();
    let mut call = CustomCall::new(d, inputs, outputs);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&mut call)));
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(d, &error.to_string())),
        Err(payload) => Err(failed(d, &format!("it panicked: {}", panic_text(&*payload)))),
    }
}
