//! The library services: what compiled programs call where loops will not do.
//!
//! Problem: a program hands over bare pointers and a list of words; a mistake in reading them is memory corruption.
//! Invariant: [`Call`] is the only reader. It bounds everything by the word count, knows each array's shape, and lends
//! a buffer as a slice of exactly that shape's elements. Algorithm: a service is a safe function from a [`Call`] to a
//! [`Failure`] or nothing, made a [`ServiceFn`] by the macro `service`; panics end there. [`builtin`] finds
//! them for the in-memory loader; generated bindings name each constant themselves, so that a linker drops the others.

pub mod collective;
mod feed;
#[cfg(feature = "fft")]
mod fft;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod routine;

pub use crate::custom_call::CUSTOM_CALL;
pub use collective::{COLLECTIVE, TRANSFER};
pub use feed::{INFEED, OUTFEED};
#[cfg(feature = "fft")]
pub use fft::FFT;
#[cfg(feature = "linalg")]
pub use linalg::{CHOLESKY, EIG, EIGH, HOUSEHOLDER_PRODUCT, LU, QR, SVD, TRIANGULAR_SOLVE};

use crate::abi::{Context, Resources, Status};
#[cfg(feature = "loader")]
use crate::abi::{Service, ServiceFn};
use crate::{ArrayShape, ElementType};
use std::ffi::c_void;

/// Why a service failed: what the run's error will say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The status that the program returns.
    pub code: i32,
    /// In words.
    pub message: String,
}

impl Failure {
    /// A failure with the status of failing services.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { code: Status::ServiceFailed.code(), message: message.into() }
    }
}

/// One call of a service.
pub struct Call<'a> {
    attributes: &'a [i64],
    shapes: Vec<ArrayShape>,
    operands: usize,
    buffers: &'a [*mut c_void],
    function: *const c_void,
    resources: Option<&'a Resources>,
}

impl<'a> Call<'a> {
    /// Reads the words of a call; `None` where they do not follow the form.
    ///
    /// # Safety
    /// `parameters` points to as many words as its first says and one more, and `buffers` to a pointer for each array
    /// that they describe, each valid for the array's bytes for as long as `'a`, results for writing.
    unsafe fn read(parameters: *const i64, buffers: *const *mut c_void, function: *const c_void) -> Option<Call<'a>> {
        // SAFETY: the first word is there.
        let count = usize::try_from(unsafe { *parameters }).ok()?;
        // SAFETY: and so are as many as it says.
        let words = unsafe { std::slice::from_raw_parts(parameters.add(1), count) };
        let mut rest = words.iter().copied();
        let attributes = usize::try_from(rest.next()?).ok()?;
        let attributes_end = attributes.checked_add(1)?;
        let attributes = words.get(1..attributes_end)?;
        let mut rest = words.get(attributes_end..)?.iter().copied();
        let operands = usize::try_from(rest.next()?).ok()?;
        let results = usize::try_from(rest.next()?).ok()?;
        let arrays = operands.checked_add(results)?;
        let mut shapes = Vec::new();
        for _ in 0..arrays {
            let ty = ElementType::from_code(u8::try_from(rest.next()?).ok()?)?;
            let rank = rest.next()?;
            let dims: Vec<i64> = (0..rank).map(|_| rest.next()).collect::<Option<_>>()?;
            shapes.push(ArrayShape::new(ty, dims));
        }
        let buffers = if arrays == 0 {
            &[]
        } else {
            // SAFETY: there is a pointer for each array.
            unsafe { std::slice::from_raw_parts(buffers, arrays) }
        };
        Some(Call { attributes, shapes, operands, buffers, function, resources: None })
    }

    /// The attributes.
    pub fn attributes(&self) -> &'a [i64] {
        self.attributes
    }

    /// An attribute; 0 where there are fewer.
    pub fn attribute(&self, index: usize) -> i64 {
        self.attributes.get(index).copied().unwrap_or(0)
    }

    /// Shapes of the operands.
    pub fn operands(&self) -> &[ArrayShape] {
        self.shapes.get(..self.operands).unwrap_or(&[])
    }

    /// Shapes of the results.
    pub fn results(&self) -> &[ArrayShape] {
        self.shapes.get(self.operands..).unwrap_or(&[])
    }

    /// The pointers, operands first.
    pub(crate) fn buffers(&self) -> &'a [*mut c_void] {
        self.buffers
    }

    /// The function of a custom call.
    pub fn function(&self) -> *const c_void {
        self.function
    }

    /// Refuses a call that works on `copies` copies, in double precision, of the largest part of `dimensions` dimensions,
    /// where there is no memory for them: the bodies take memory for granted.
    #[cfg(any(feature = "fft", feature = "linalg"))]
    pub(crate) fn room(&self, dimensions: usize, copies: u64) -> Result<(), Failure> {
        let size = |s: &ArrayShape| {
            s.dims.iter().rev().take(dimensions).fold(16u64, |n, &d| n.saturating_mul(d.max(0).unsigned_abs()))
        };
        let largest = self.shapes.iter().map(size).max().unwrap_or(0);
        // A small one is not worth the question.
        if largest < 1 << 20 {
            return Ok(());
        }
        crate::room_for(largest.saturating_mul(copies)).map_err(|e| Failure::new(e.to_string()))
    }

    /// What the runtime's own services work with, where the context has it.
    pub fn resources(&self) -> Option<&'a Resources> {
        self.resources
    }

    /// An operand's bytes.
    ///
    /// # Errors
    /// Where there is no such operand.
    pub fn operand_bytes(&self, index: usize) -> Result<&'a [u8], Failure> {
        let (shape, pointer) = self.array(index, self.operands())?;
        if shape.byte_size() == 0 {
            return Ok(&[]);
        }
        // SAFETY: `read`'s caller vouches for the buffer, which is an operand: nobody writes it during the call.
        Ok(unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), shape.byte_size()) })
    }

    /// A result's bytes. Each result must be taken once only, which `&mut self` of [`Call::results_mut`] ensures.
    ///
    /// # Errors
    /// Where a result has no buffer.
    pub fn results_mut(&mut self) -> Result<Vec<&'a mut [u8]>, Failure> {
        let count = self.results().len();
        let mut out = Vec::with_capacity(count);
        for index in 0..count {
            let (shape, pointer) = self.array(self.operands + index, &self.shapes)?;
            let bytes: &'a mut [u8] = if shape.byte_size() == 0 {
                &mut []
            } else {
                // SAFETY: `read`'s caller vouches for the buffer; results overlap nothing, and are lent here alone.
                unsafe { std::slice::from_raw_parts_mut(pointer.cast::<u8>(), shape.byte_size()) }
            };
            out.push(bytes);
        }
        // Not a second time.
        self.shapes.truncate(self.operands);
        Ok(out)
    }

    fn array<'b>(&self, index: usize, shapes: &'b [ArrayShape]) -> Result<(&'b ArrayShape, *mut c_void), Failure> {
        match (shapes.get(index), self.buffers.get(index)) {
            (Some(shape), Some(&pointer)) => Ok((shape, pointer)),
            _ => Err(Failure::new(format!("a service was called without array {index}"))),
        }
    }
}

/// Runs a service's body on the arguments of its function.
///
/// # Safety
/// `cx` is null or points to a context; the other arguments are as [`Call::read`] asks.
pub(crate) unsafe fn run(
    cx: *const Context,
    parameters: *const i64,
    buffers: *const *mut c_void,
    function: *const c_void,
    body: fn(&mut Call<'_>, Option<&Context>) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller's promise is the same.
    let call = unsafe { Call::read(parameters, buffers, function) };
    // SAFETY: the context, where there is one, outlives the call.
    let cx = unsafe { cx.as_ref() };
    let Some(mut call) = call else { return Status::InvalidArgument.code() };
    // SAFETY: where the context has resources, they are of this type and live as long as the call runs.
    call.resources = cx.and_then(|cx| unsafe { cx.resources.cast::<Resources>().as_ref() });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut call, cx)));
    let failure = match caught {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::new(format!("a service panicked: {}", panic_text(&*payload))),
    };
    if let Some(cx) = cx
        && let Some(report) = cx.report
    {
        // SAFETY: the context's owner put the two side by side; the text lives through the call.
        unsafe { report(cx.host, failure.message.as_ptr(), failure.message.len()) };
    }
    if failure.code == 0 { Status::ServiceFailed.code() } else { failure.code }
}

/// Declares the constant of a service: `service! { /// docs NAME, Variant, body }`.
macro_rules! service {
    ($(#[$attribute:meta])* $name:ident, $variant:ident, $body:path) => {
        $(#[$attribute])*
        pub const $name: $crate::abi::Implementation = {
            unsafe extern "C" fn function(
                cx: *const $crate::abi::Context,
                parameters: *const i64,
                buffers: *const *mut ::std::ffi::c_void,
                function: *const ::std::ffi::c_void,
            ) -> i32 {
                // SAFETY: the program that calls promises what `run` asks.
                unsafe { $crate::services::run(cx, parameters, buffers, function, $body) }
            }
            $crate::abi::Implementation { service: $crate::abi::Service::$variant, function }
        };
    };
}
pub(crate) use service;

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("")
}

/// The runtime's own function for a service, where it has one.
#[cfg(feature = "loader")]
pub(crate) fn builtin(service: Service) -> Option<ServiceFn> {
    let found = match service {
        Service::CustomCall => CUSTOM_CALL,
        Service::Infeed => INFEED,
        Service::Outfeed => OUTFEED,
        Service::Collective => COLLECTIVE,
        Service::Transfer => TRANSFER,
        #[cfg(feature = "fft")]
        Service::Fft => FFT,
        #[cfg(feature = "linalg")]
        Service::Cholesky => CHOLESKY,
        #[cfg(feature = "linalg")]
        Service::TriangularSolve => TRIANGULAR_SOLVE,
        #[cfg(feature = "linalg")]
        Service::Lu => LU,
        #[cfg(feature = "linalg")]
        Service::Qr => QR,
        #[cfg(feature = "linalg")]
        Service::HouseholderProduct => HOUSEHOLDER_PRODUCT,
        #[cfg(feature = "linalg")]
        Service::Svd => SVD,
        #[cfg(feature = "linalg")]
        Service::Eigh => EIGH,
        #[cfg(feature = "linalg")]
        Service::Eig => EIG,
        // A service whose feature is off.
        #[allow(unreachable_patterns)]
        _ => return None,
    };
    Some(found.function)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::encode_call;

    fn double(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
        if call.attribute(0) == 13 {
            return Err(Failure::new("thirteen"));
        }
        assert_ne!(call.attribute(0), 14, "fourteen");
        let from = call.operand_bytes(0)?;
        let mut results = call.results_mut()?;
        for (to, from) in results[0].iter_mut().zip(from) {
            *to = from * 2;
        }
        assert!(call.results_mut()?.is_empty(), "a buffer is lent once");
        Ok(())
    }

    service! {
        /// Doubles bytes.
        DOUBLE, Fft, double
    }

    fn call(words: &[i64]) -> (i32, [u8; 3], String) {
        unsafe extern "C" fn report(host: *mut c_void, message: *const u8, length: usize) {
            // SAFETY: the host is the string below, the message that long.
            unsafe {
                let text = std::slice::from_raw_parts(message, length);
                *host.cast::<String>() = String::from_utf8_lossy(text).into_owned();
            }
        }
        let (mut from, mut to, mut message) = ([1u8, 2, 3], [0u8; 3], String::new());
        let buffers: [*mut c_void; 2] = [from.as_mut_ptr().cast(), to.as_mut_ptr().cast()];
        let cx = Context { host: (&raw mut message).cast(), report: Some(report), ..Context::new(0) };
        // SAFETY: the words describe two arrays of three bytes, which the buffers are.
        let status = unsafe { (DOUBLE.function)(&cx, words.as_ptr(), buffers.as_ptr(), std::ptr::null()) };
        (status, to, message)
    }

    #[test]
    fn a_service_sees_its_arrays_and_its_failures_have_words() {
        let shape = ArrayShape::new(ElementType::U8, [3]);
        let words = |attribute| encode_call(&[attribute], &[&shape], &[&shape]);
        assert_eq!(call(&words(0)), (0, [2, 4, 6], String::new()));
        assert_eq!(call(&words(13)), (Status::ServiceFailed.code(), [0; 3], "thirteen".to_owned()));
        let (status, _, message) = call(&words(14));
        assert_eq!(status, Status::ServiceFailed.code());
        assert!(message.starts_with("a service panicked: ") && message.contains("fourteen"), "{message}");
    }

    #[test]
    fn words_that_follow_no_form_are_refused() {
        for words in [&[1, -1][..], &[0], &[3, 0, 1, 1], &[4, 0, 1, 0, 255], &[5, 0, 1, 0, 11, 9]] {
            assert_eq!(call(words).0, Status::InvalidArgument.code(), "{words:?}");
        }
    }
}
