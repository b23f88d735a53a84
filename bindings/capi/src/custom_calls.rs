//! Custom calls: functions of the caller's by name.

use crate::array::{Array, Owned, nth};
use crate::failure::{
    BROLGA_ERROR_NULL, Failure, Result, c_text, destroy, given, given_text, guard, guard_value, put, put_handle,
};
use brolga_runtime::abi::Leaf;
use brolga_runtime::custom_call::{Attribute, Description};
use brolga_runtime::{CustomCall, Scalar};
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// Functions by name, to be given to brolga_object_load. Objects that were loaded with it keep those that they call.
pub struct CustomCalls(Mutex<brolga_runtime::CustomCalls>);

impl CustomCalls {
    /// What is registered now.
    pub(crate) fn registered(&self) -> brolga_runtime::CustomCalls {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A call that is under way: what the function of brolga_custom_calls_register is given.
pub struct Call {
    operands: Vec<(Owned, *mut c_void)>,
    results: Vec<(Owned, *mut c_void)>,
    attributes: Vec<(String, Attribute)>,
    opaque: Vec<u8>,
    /// Texts that were asked for, which live as long as the call.
    texts: Vec<CString>,
    message: Option<String>,
}

/// A function that is called for a custom call: fills the results and returns 0, or fails with another number and says why by
/// brolga_call_fail. It may be called by several threads at once where several runs are under way.
pub type Function = Option<unsafe extern "C" fn(user: *mut c_void, call: *mut Call) -> i32>;

/// A function with XLA's convention for the call, without its type.
pub type Symbol = Option<unsafe extern "C" fn()>;

/// Makes an empty registry.
///
/// # Safety
/// `calls` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_custom_calls_create(calls: *mut *mut CustomCalls) -> i32 {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put_handle(calls, "the registry", || Ok(CustomCalls(Mutex::default()))) })
}

/// Frees a registry; objects that were loaded with it keep their functions.
///
/// # Safety
/// `calls` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_custom_calls_destroy(calls: *mut CustomCalls) {
    // SAFETY: the caller's promise.
    unsafe { destroy(calls) }
}

/// A caller's pointer, which the function alone reads.
struct User(*mut c_void);
// SAFETY: the caller of `brolga_custom_calls_register` promises that the function may have it on any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Registers a function with a pointer of yours, which it is given in each call. It serves every convention of custom calls, in
/// place of what had the name.
///
/// # Safety
/// `calls` is null or a live handle, `name` a text that ends with a zero byte; function and pointer can be used on any thread, as
/// long as a program lives that was loaded with the registry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_custom_calls_register(
    calls: *mut CustomCalls,
    name: *const c_char,
    function: Function,
    user: *mut c_void,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        let (calls, name) = unsafe { (given(calls, "the registry")?, given_text(name, "the name")?) };
        let function =
            function.ok_or_else(|| Failure::new(BROLGA_ERROR_NULL, "the pointer to the function is null"))?;
        let user = User(user);
        let call = move |call: &mut CustomCall<'_>| {
            let mut view = Call::new(call);
            // SAFETY: the caller promises that it is such a function; what it is given lives through the call.
            let status = unsafe { function(user.get(), &mut view) };
            match (status, view.message) {
                (0, None) => Ok(()),
                (_, Some(message)) => Err(message.into()),
                (status, None) => Err(format!("it returned {status}").into()),
            }
        };
        calls.0.lock().unwrap_or_else(PoisonError::into_inner).register(name, call);
        Ok(())
    })
}

/// Registers a function with the convention that the programs name for calls of it, such as
/// `void f(void *out, const void **in)`; cast it to the type of the parameter.
///
/// # Safety
/// As brolga_custom_calls_register; the function has that convention and keeps to the shapes of the calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_custom_calls_register_symbol(
    calls: *mut CustomCalls,
    name: *const c_char,
    function: Symbol,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        let (calls, name) = unsafe { (given(calls, "the registry")?, given_text(name, "the name")?) };
        let function =
            function.ok_or_else(|| Failure::new(BROLGA_ERROR_NULL, "the pointer to the function is null"))?;
        let mut calls = calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise.
        unsafe { calls.register_function(name, function as *const c_void) };
        Ok(())
    })
}

impl Call {
    fn new(call: &mut CustomCall<'_>) -> Call {
        let d: &Description = call.description();
        let owned = |shape: &&brolga_runtime::ArrayShape| Owned::new(&Leaf::new((*shape).clone()));
        let inputs = d.operand_arrays();
        let inputs = inputs.iter().enumerate().map(|(i, shape)| {
            let data = call.operand_bytes(i).map_or(std::ptr::null(), <[u8]>::as_ptr);
            (owned(shape), data.cast_mut().cast())
        });
        let operands = inputs.collect();
        let outputs = d.result_arrays();
        let mut results = Vec::with_capacity(outputs.len());
        for (i, shape) in outputs.iter().enumerate() {
            let data = call.result_bytes_mut(i).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
            results.push((owned(shape), data.cast()));
        }
        let (attributes, opaque) = (d.attributes.clone(), d.opaque.clone());
        Call { operands, results, attributes, opaque, texts: Vec::new(), message: None }
    }

    fn attribute(&self, name: &str) -> Result<&Attribute> {
        let found = self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
        found.ok_or_else(|| Failure::argument(format!("the call has no attribute '{name}'")))
    }

    fn number(&self, name: &str) -> Result<Scalar> {
        match self.attribute(name)? {
            Attribute::Scalar(value) => Ok(value.get(0)),
            _ => Err(Failure::argument(format!("attribute '{name}' is no number"))),
        }
    }
}

/// Number of operand arrays; tuples count as their elements, tokens do not count.
///
/// # Safety
/// `call` is null or the call that the function was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_operand_count(call: *const Call) -> usize {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(unsafe { given(call, "the call") }?.operands.len())).unwrap_or(0)
}

/// Number of result arrays.
///
/// # Safety
/// `call` is null or the call that the function was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_result_count(call: *const Call) -> usize {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(unsafe { given(call, "the call") }?.results.len())).unwrap_or(0)
}

/// An operand, only to be read.
///
/// # Safety
/// `call` is null or the call that the function was given, `array` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_operand(call: *const Call, index: usize, array: *mut Array) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let (owned, data) = nth(&given(call, "the call")?.operands, index, "operand")?;
            put(array, owned.array(*data), "the array")
        }
    })
}

/// A result, to be filled.
///
/// # Safety
/// As brolga_call_operand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_result(call: *const Call, index: usize, array: *mut Array) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let (owned, data) = nth(&given(call, "the call")?.results, index, "result")?;
            put(array, owned.array(*data), "the array")
        }
    })
}

/// An attribute that is a whole number or a truth value.
///
/// # Safety
/// `call` is null or the call that the function was given, `name` a text that ends with a zero byte, `value` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_integer(call: *const Call, name: *const c_char, value: *mut i64) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let name = given_text(name, "the name")?;
            match given(call, "the call")?.number(name)? {
                number @ (Scalar::Pred(_) | Scalar::Int(_)) => put(value, number.as_i64(), "the value"),
                Scalar::UInt(number) if i64::try_from(number).is_ok() => put(value, number as i64, "the value"),
                _ => Err(Failure::argument(format!("attribute '{name}' is no integer of 64 bits"))),
            }
        }
    })
}

/// An attribute that is a real number.
///
/// # Safety
/// As brolga_call_integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_number(call: *const Call, name: *const c_char, value: *mut f64) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let name = given_text(name, "the name")?;
            match given(call, "the call")?.number(name)? {
                Scalar::Float(number) => put(value, number, "the value"),
                number @ (Scalar::Int(_) | Scalar::UInt(_)) => put(value, number.as_f64(), "the value"),
                _ => Err(Failure::argument(format!("attribute '{name}' is no real number"))),
            }
        }
    })
}

/// An attribute that is a text, which lives as long as the call.
///
/// # Safety
/// As brolga_call_integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_text(call: *mut Call, name: *const c_char, text: *mut *const c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let name = given_text(name, "the name")?;
            let found = match given(call, "the call")?.attribute(name)? {
                Attribute::String(found) => c_text(found),
                _ => return Err(Failure::argument(format!("attribute '{name}' is no text"))),
            };
            // The characters stay where they are when the list grows.
            let start = found.as_ptr();
            (*call).texts.push(found);
            put(text, start, "the text")
        }
    })
}

/// The text for the function, `backend_config`, of calls that are not typed: where it begins and how long it is.
///
/// # Safety
/// `call` is null or the call that the function was given, the other pointers can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_opaque(call: *const Call, text: *mut *const c_char, length: *mut usize) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let opaque = &given(call, "the call")?.opaque;
            put(text, opaque.as_ptr().cast(), "the text")?;
            put(length, opaque.len(), "the length")
        }
    })
}

/// Fails the call: the run ends with this message.
///
/// # Safety
/// `call` is null or the call that the function was given, `message` a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_call_fail(call: *mut Call, message: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            given(call, "the call")?;
            let text = given_text(message, "the message").map_or("it failed with a text that is not UTF-8", |m| m);
            (*call).message = Some(text.to_owned());
            Ok(())
        }
    })
}
