//! Loading: an object of one size or several, and programs that are linked or in shared libraries.

use crate::custom_calls::CustomCalls;
use crate::describe::Description;
use crate::failure::{
    BROLGA_ERROR_FILE, Failure, Result, destroy, given, given_slice, given_text, guard, guard_value, put, put_handle,
};
use brolga_runtime::abi::{Context, Implementation};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{Sizes, services};
use std::ffi::{c_char, c_void};

/// A symbol that nobody defines is an error when the object is loaded, not only where a run comes to the call.
pub const BROLGA_LOAD_STRICT_SYMBOLS: u32 = 1;
/// Custom calls are looked for in the registry alone, not among the symbols of the process.
pub const BROLGA_LOAD_NO_PROCESS_SYMBOLS: u32 = 2;

/// What an object file holds: a program, or one for each of several sizes.
pub struct Object(Sizes);

/// A program, ready to run: any number of sessions on any threads. Sessions keep it.
pub struct Program {
    pub(crate) program: brolga_runtime::Program,
    pub(crate) description: Description,
}

impl Program {
    fn new(program: brolga_runtime::Program) -> Result<Program> {
        Ok(Program { description: Description::new(&program)?, program })
    }
}

/// The descriptor of a linked program, `NAME_descriptor`: brolga_descriptor.
#[repr(C)]
pub struct Descriptor {
    size: u32,
}

/// The function of a linked program, `NAME`: brolga_entry.
pub type Entry = Option<
    unsafe extern "C" fn(
        params: *const *const c_void,
        results: *const *mut c_void,
        workspace: *mut c_void,
        cx: *const Context,
    ) -> i32,
>;

/// All that the runtime has, for programs that come without.
const SERVICES: &[Implementation] = &[
    services::CUSTOM_CALL,
    services::INFEED,
    services::OUTFEED,
    services::COLLECTIVE,
    services::TRANSFER,
    #[cfg(feature = "fft")]
    services::FFT,
    #[cfg(feature = "linalg")]
    services::CHOLESKY,
    #[cfg(feature = "linalg")]
    services::TRIANGULAR_SOLVE,
    #[cfg(feature = "linalg")]
    services::LU,
    #[cfg(feature = "linalg")]
    services::QR,
    #[cfg(feature = "linalg")]
    services::HOUSEHOLDER_PRODUCT,
    #[cfg(feature = "linalg")]
    services::SVD,
    #[cfg(feature = "linalg")]
    services::EIGH,
    #[cfg(feature = "linalg")]
    services::EIG,
];

fn load(bytes: &[u8], calls: Option<&CustomCalls>, flags: u32) -> Result<Object> {
    let unknown = flags & !(BROLGA_LOAD_STRICT_SYMBOLS | BROLGA_LOAD_NO_PROCESS_SYMBOLS);
    if unknown != 0 {
        return Err(Failure::argument(format!("unknown flags {unknown:#x}")));
    }
    let calls = calls.map(CustomCalls::registered);
    let options = LoadOptions {
        custom_calls: calls.as_ref(),
        process_symbols: flags & BROLGA_LOAD_NO_PROCESS_SYMBOLS == 0,
        strict_symbols: flags & BROLGA_LOAD_STRICT_SYMBOLS != 0,
        ..LoadOptions::default()
    };
    Ok(Object(Sizes::from_object_with(bytes, &options)?))
}

/// Loads the bytes of an object file as `brolga compile` writes it, for one size or several; they are not needed afterwards.
/// `calls` may be null. The object is code that will run with the rights of this process: load only what you trust.
///
/// # Safety
/// `bytes` leads to `length` bytes, `calls` is null or a live handle, `object` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_load(
    bytes: *const c_void,
    length: usize,
    calls: *const CustomCalls,
    flags: u32,
    object: *mut *mut Object,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(object, "the object", || {
                let bytes = given_slice(bytes.cast::<u8>(), length, "the bytes")?;
                load(bytes, calls.as_ref(), flags)
            })
        }
    })
}

/// As brolga_object_load, from a file.
///
/// # Safety
/// `path` is a text that ends with a zero byte, `calls` is null or a live handle, `object` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_load_file(
    path: *const c_char,
    calls: *const CustomCalls,
    flags: u32,
    object: *mut *mut Object,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(object, "the object", || {
                let path = given_text(path, "the path")?;
                let read = std::fs::read(path);
                let bytes = read.map_err(|e| Failure::new(BROLGA_ERROR_FILE, format!("{path}: {e}")))?;
                load(&bytes, calls.as_ref(), flags)
            })
        }
    })
}

/// Frees an object; its programs live on.
///
/// # Safety
/// `object` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_destroy(object: *mut Object) {
    // SAFETY: the caller's promise.
    unsafe { destroy(object) }
}

/// How many programs there are, one for each size.
///
/// # Safety
/// `object` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_program_count(object: *const Object) -> usize {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(unsafe { given(object, "the object") }?.0.programs().len())).unwrap_or(0)
}

/// One of the programs, a handle of its own.
///
/// # Safety
/// `object` is null or a live handle, `program` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_program(object: *const Object, index: usize, program: *mut *mut Program) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(program, "the program", || {
                let programs = given(object, "the object")?.0.programs();
                Program::new(crate::array::nth(programs, index, "program")?.clone())
            })
        }
    })
}

/// How many dimensions tell the sizes apart; 0 where there is one program.
///
/// # Safety
/// `object` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_open_count(object: *const Object) -> usize {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(unsafe { given(object, "the object") }?.0.open().len())).unwrap_or(0)
}

/// Which dimension of which parameter is number `index` of those that tell the sizes apart.
///
/// # Safety
/// `object` is null or a live handle, `parameter` and `dimension` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_open(
    object: *const Object,
    index: usize,
    parameter: *mut u32,
    dimension: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let open = crate::array::nth(given(object, "the object")?.0.open(), index, "open dimension")?;
            put(parameter, open.parameter, "the parameter")?;
            put(dimension, open.dimension, "the dimension")
        }
    })
}

/// The program for these sizes of the open dimensions, a handle of its own; with no sizes the only program.
///
/// # Safety
/// `object` is null or a live handle, `sizes` leads to `count` numbers, `program` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_object_select(
    object: *const Object,
    sizes: *const i64,
    count: usize,
    program: *mut *mut Program,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(program, "the program", || {
                let sizes = given_slice(sizes, count, "the sizes")?;
                Program::new(given(object, "the object")?.0.select(sizes)?.clone())
            })
        }
    })
}

/// A program that is linked into this process, or in a shared library that it has opened, with all services of the runtime:
/// its symbols NAME_descriptor and NAME. They must stay where they are as long as the program or a session of it lives.
///
/// # Safety
/// `descriptor` is null or the descriptor of the program whose function is `entry`, `program` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_from_linked(
    descriptor: *const Descriptor,
    entry: Entry,
    program: *mut *mut Program,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(program, "the program", || {
                let descriptor = std::ptr::from_ref(given(descriptor, "the descriptor")?);
                let entry = entry.ok_or_else(|| {
                    Failure::new(crate::failure::BROLGA_ERROR_NULL, "the pointer to the function is null")
                })?;
                Program::new(brolga_runtime::Program::from_linked_with(descriptor.cast(), entry, SERVICES)?)
            })
        }
    })
}

/// Frees a program; its sessions live on.
///
/// # Safety
/// `program` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_destroy(program: *mut Program) {
    // SAFETY: the caller's promise.
    unsafe { destroy(program) }
}
