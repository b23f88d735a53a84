//! What a program takes and gives. Texts and lists live as long as the handle that was asked.

use crate::array::{Array, Owned, nth};
use crate::failure::{Failure, Result, c_text, given, guard, guard_value, put};
use crate::object::{Descriptor, Program};
use std::ffi::{CString, c_char};

/// A function outside the program that it calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NeededCall {
    /// Its name.
    pub symbol: *const c_char,
    /// How it is called: 1 `void f(void *out, const void **in)`, 2 the same with a status, 3 with a text too, 4 XLA's typed
    /// handlers.
    pub convention: u32,
    /// The line of the call in the HLO text, 0 where unknown.
    pub line: u32,
    /// 1 where nobody defines it: a run that comes to the call fails.
    pub undefined: u32,
}

/// The description of a program in C's terms.
pub(crate) struct Description {
    entry: CString,
    module: CString,
    services: CString,
    parameters: Vec<Owned>,
    results: Vec<Owned>,
    calls: Vec<(CString, NeededCall)>,
    /// Words, for the descriptor is aligned as they are.
    descriptor: Vec<u64>,
}

impl Description {
    pub(crate) fn new(program: &brolga_runtime::Program) -> Result<Description> {
        let d = program.descriptor();
        let calls = d.custom_calls.iter().map(|call| {
            let undefined = u32::from(program.undefined_symbols().iter().any(|u| u.symbol == call.symbol));
            let (symbol, convention) = (std::ptr::null(), call.abi as u32);
            (c_text(&call.symbol), NeededCall { symbol, convention, line: call.line, undefined })
        });
        let blob = d.encode().ok_or_else(|| Failure::argument("the descriptor is too large"))?;
        let words = blob.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_ne_bytes(word)
        });
        Ok(Description {
            entry: c_text(&d.entry),
            module: c_text(&d.module_name),
            services: c_text(&d.needed_services.to_string()),
            parameters: d.parameters.iter().map(Owned::new).collect(),
            results: d.results.iter().map(Owned::new).collect(),
            calls: calls.collect(),
            descriptor: words.collect(),
        })
    }
}

/// Answers a question to a program.
///
/// # Safety
/// `program` is null or a live handle.
unsafe fn ask<T>(program: *const Program, answer: impl FnOnce(&Program) -> Result<T>) -> std::result::Result<T, i32> {
    // SAFETY: the caller's promise.
    guard_value(|| answer(unsafe { given(program, "the program") }?))
}

/// The descriptor, to be read with the functions that the headers of compiled programs declare too.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_descriptor(program: *const Program) -> *const Descriptor {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.descriptor.as_ptr().cast())) }.unwrap_or(std::ptr::null())
}

/// The name of the program's function.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_name(program: *const Program) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.entry.as_ptr())) }.unwrap_or(std::ptr::null())
}

/// The name of the module that it was compiled from.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_module(program: *const Program) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.module.as_ptr())) }.unwrap_or(std::ptr::null())
}

/// The services that it cannot run without, with commas between them; this library has them all.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_services(program: *const Program) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.services.as_ptr())) }.unwrap_or(std::ptr::null())
}

/// Number of its parameters: arrays, tuples flattened from left to right.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_parameter_count(program: *const Program) -> usize {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.parameters.len())) }.unwrap_or(0)
}

/// Number of its results.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_result_count(program: *const Program) -> usize {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.results.len())) }.unwrap_or(0)
}

/// A parameter.
///
/// # Safety
/// `program` is null or a live handle, `array` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_parameter(program: *const Program, index: usize, array: *mut Array) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let all = &given(program, "the program")?.description.parameters;
            put(array, nth(all, index, "parameter")?.array(std::ptr::null_mut()), "the array")
        }
    })
}

/// A result.
///
/// # Safety
/// As brolga_program_parameter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_result(program: *const Program, index: usize, array: *mut Array) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let all = &given(program, "the program")?.description.results;
            put(array, nth(all, index, "result")?.array(std::ptr::null_mut()), "the array")
        }
    })
}

/// Number of pairs of a parameter and a result that share a buffer.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_alias_count(program: *const Program) -> usize {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.program.descriptor().aliases.len())) }.unwrap_or(0)
}

/// A pair of a parameter and a result. Where `*must` is 1 the program overwrites the parameter: given two buffers, a run
/// copies the parameter first. Otherwise they may be given as one.
///
/// # Safety
/// `program` is null or a live handle, the other pointers can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_alias(
    program: *const Program,
    index: usize,
    parameter: *mut u32,
    result: *mut u32,
    must: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let alias = nth(&given(program, "the program")?.program.descriptor().aliases, index, "alias")?;
            put(parameter, alias.parameter, "the parameter")?;
            put(result, alias.result, "the result")?;
            put(must, u32::from(alias.must), "the condition")
        }
    })
}

/// Bytes of workspace that a session with so many threads keeps; UINT64_MAX where that is more than there can be.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_workspace_bytes(program: *const Program, threads: u32) -> u64 {
    // SAFETY: the caller's promise.
    let size = unsafe { ask(program, |p| Ok(p.program.descriptor().workspace_size(threads.max(1)))) };
    size.map_or(0, |size| size.unwrap_or(u64::MAX))
}

/// Number of functions that the program calls.
///
/// # Safety
/// `program` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_needed_call_count(program: *const Program) -> usize {
    // SAFETY: the caller's promise.
    unsafe { ask(program, |p| Ok(p.description.calls.len())) }.unwrap_or(0)
}

/// A function that the program calls.
///
/// # Safety
/// `program` is null or a live handle, `call` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_needed_call(
    program: *const Program,
    index: usize,
    call: *mut NeededCall,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let (symbol, found) = nth(&given(program, "the program")?.description.calls, index, "custom call")?;
            put(call, NeededCall { symbol: symbol.as_ptr(), ..*found }, "the custom call")
        }
    })
}

/// The devices that the program was compiled for: replicas, and partitions of each.
///
/// # Safety
/// `program` is null or a live handle, the other pointers can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_devices(
    program: *const Program,
    replicas: *mut u32,
    partitions: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let [r, p] = given(program, "the program")?.program.descriptor().devices;
            put(replicas, r, "the replicas")?;
            put(partitions, p, "the partitions")
        }
    })
}
