//! The status argument of the conventions that have one, as XLA's `custom_call_status.h` declares it.

use std::ffi::c_char;

/// What a custom call says of its success. Opaque to C.
#[derive(Debug, Default)]
pub struct XlaCustomCallStatus {
    pub(super) failure: Option<String>,
}

/// The call succeeded; so it says also where it says nothing.
///
/// # Safety
/// `status` is the pointer that the custom call was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn XlaCustomCallStatusSetSuccess(status: *mut XlaCustomCallStatus) {
    // SAFETY: the caller passes the status that it was lent.
    if let Some(status) = unsafe { status.as_mut() } {
        status.failure = None;
    }
}

/// The call failed, with a message of `length` bytes.
///
/// # Safety
/// `status` is the pointer that the custom call was given; `message` points to that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn XlaCustomCallStatusSetFailure(
    status: *mut XlaCustomCallStatus,
    message: *const c_char,
    length: usize,
) {
    let text = if message.is_null() {
        String::new()
    } else {
        // SAFETY: the caller promises that many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), length) };
        // Callers that count a terminating zero mean the text before it.
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    };
    // SAFETY: the caller passes the status that it was lent.
    if let Some(status) = unsafe { status.as_mut() } {
        status.failure = Some(text);
    }
}
