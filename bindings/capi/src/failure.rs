//! What went wrong, across the boundary: a status and a text.

use brolga_runtime::feed::FeedError;
use brolga_runtime::{LoadError, RunError};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A pointer that must not be null is null.
pub const BROLGA_ERROR_NULL: i32 = -1;
/// An argument is out of range, or does not fit the program.
pub const BROLGA_ERROR_ARGUMENT: i32 = -2;
/// A file could not be read.
pub const BROLGA_ERROR_FILE: i32 = -3;
/// A program cannot be used: it is damaged, or not for this machine or runtime.
pub const BROLGA_ERROR_LOAD: i32 = -4;
/// The program failed; `brolga_error_program_status` has what it returned.
pub const BROLGA_ERROR_RUN: i32 = -5;
/// A feed was closed.
pub const BROLGA_ERROR_CLOSED: i32 = -6;
/// Waiting took longer than the caller allowed.
pub const BROLGA_ERROR_TIMED_OUT: i32 = -7;
/// Memory is exhausted.
pub const BROLGA_ERROR_MEMORY: i32 = -8;
/// Another thread is in the session.
pub const BROLGA_ERROR_BUSY: i32 = -9;
/// Something valid that this version does not do.
pub const BROLGA_ERROR_UNSUPPORTED: i32 = -10;
/// A bug in Brolga.
pub const BROLGA_ERROR_BUG: i32 = -11;

/// A failed call.
pub(crate) struct Failure {
    status: i32,
    /// What the program returned, where it ran.
    program: i32,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: i32, message: impl Into<String>) -> Failure {
        Failure { status, program: 0, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Failure {
        Failure::new(BROLGA_ERROR_ARGUMENT, message)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        let status = match error {
            LoadError::Memory(_) => BROLGA_ERROR_MEMORY,
            LoadError::Unsupported(_) => BROLGA_ERROR_UNSUPPORTED,
            _ => BROLGA_ERROR_LOAD,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        let (status, program) = match error {
            RunError::OutOfMemory(_) => (BROLGA_ERROR_MEMORY, 0),
            RunError::Unsupported(_) => (BROLGA_ERROR_UNSUPPORTED, 0),
            RunError::Status { code } | RunError::Failed { code, .. } => (BROLGA_ERROR_RUN, code),
            _ => (BROLGA_ERROR_ARGUMENT, 0),
        };
        Failure { status, program, message: error.to_string() }
    }
}

impl From<FeedError> for Failure {
    fn from(error: FeedError) -> Failure {
        let status = match error {
            FeedError::Closed(_) => BROLGA_ERROR_CLOSED,
            FeedError::TimedOut { .. } => BROLGA_ERROR_TIMED_OUT,
            FeedError::Unsupported(_) => BROLGA_ERROR_UNSUPPORTED,
            _ => BROLGA_ERROR_ARGUMENT,
        };
        Failure::new(status, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<(CString, i32)> = RefCell::default();
}

/// Text for C: what would end it early is replaced.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Runs `body`; where it fails or panics, keeps why.
pub(crate) fn guard_value<T>(body: impl FnOnce() -> Result<T>) -> std::result::Result<T, i32> {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            Failure::new(BROLGA_ERROR_BUG, format!("a bug in Brolga: {text}"))
        }
    };
    // A thread that is ending has no place for the text any more.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = (c_text(&failure.message), failure.program);
        }
    });
    Err(failure.status)
}

/// As [`guard_value`], for functions that return a status.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> i32 {
    guard_value(body).map_or_else(|status| status, |()| 0)
}

fn null(what: &str) -> Failure {
    Failure::new(BROLGA_ERROR_NULL, format!("the pointer to {what} is null"))
}

/// What a handle or pointer leads to.
///
/// # Safety
/// It is null or leads to a live value that nobody changes while the reference lives.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// An array of the caller's; it may be null where it is empty.
///
/// # Safety
/// It is null or leads to `count` values that nobody changes while the slice lives.
pub(crate) unsafe fn given_slice<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(what));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Failure::argument(format!("{what} cannot have {count} elements")));
    }
    // SAFETY: not null, no larger than memory, and the caller promises that many values.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A text of the caller's.
///
/// # Safety
/// It is null or leads to a text that ends with a zero byte.
pub(crate) unsafe fn given_text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Where a result goes.
///
/// # Safety
/// It is null or can be written to.
pub(crate) unsafe fn put<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    if out.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Where a new handle goes; nothing is lost where there is no place for it.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn put_handle<T>(out: *mut *mut T, what: &str, make: impl FnOnce() -> Result<T>) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { put(out, std::ptr::null_mut(), what) }?;
    let handle = Box::into_raw(Box::new(make()?));
    // SAFETY: as above.
    unsafe { put(out, handle, what) }
}

/// Frees a handle; null is nothing to free.
///
/// # Safety
/// The handle came from [`put_handle`] and was not freed before.
pub(crate) unsafe fn destroy<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    let _ = guard(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(handle) });
        Ok(())
    });
}

/// Why the last call failed that failed on this thread, empty where none did. The text lives until the next call fails.
#[unsafe(no_mangle)]
pub extern "C" fn brolga_error_message() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.0.as_ptr())).unwrap_or(c"".as_ptr())
}

/// What the program returned in the last call that failed on this thread, a brolga_status or a custom call's own; 0 where
/// no program ran.
#[unsafe(no_mangle)]
pub extern "C" fn brolga_error_program_status() -> i32 {
    LAST.try_with(|last| last.try_borrow().map_or(0, |last| last.1)).unwrap_or(0)
}

/// The version of the interface between programs and this library, BROLGA_ABI_VERSION of the header that fits.
#[unsafe(no_mangle)]
pub extern "C" fn brolga_abi_version() -> u32 {
    brolga_runtime::abi::ABI_VERSION
}

/// The version of this library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn brolga_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
