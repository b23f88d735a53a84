//! Running: options, pools of threads, sessions.

use crate::devices::Device;
use crate::failure::{
    BROLGA_ERROR_BUSY, BROLGA_ERROR_NULL, Failure, Result, destroy, given, given_slice, guard, guard_value, put_handle,
};
use crate::feeds::{Infeed, Outfeed, seconds};
use crate::object::Program;
use brolga_runtime::abi::{DescriptorInfo, Leaf};
use brolga_runtime::feed::{Feeds, Sink, Source};
use brolga_runtime::pool::{Executor, Pool as Threads};
use brolga_runtime::{Caller, Kind};
use std::collections::HashSet;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Threads that any number of sessions share.
pub struct Pool(Arc<Threads>);

/// Makes a pool with so many workers, the thread that runs a program counted; 0 for one for each processor.
///
/// # Safety
/// `pool` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_pool_create(workers: u32, pool: *mut *mut Pool) -> i32 {
    guard(|| {
        let make = || {
            Ok(Pool(Arc::new(match workers {
                0 => Threads::for_this_machine(),
                n => Threads::new(n as usize),
            })))
        };
        // SAFETY: the caller's promise.
        unsafe { put_handle(pool, "the pool", make) }
    })
}

/// How many workers the pool has: fewer than were asked for where the system refuses threads.
///
/// # Safety
/// `pool` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_pool_workers(pool: *const Pool) -> u32 {
    // SAFETY: the caller's promise.
    guard_value(|| Ok(unsafe { given(pool, "the pool") }?.0.workers() as u32)).unwrap_or(0)
}

/// Frees a pool; its threads live as long as a session has them.
///
/// # Safety
/// `pool` is null or a handle that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_pool_destroy(pool: *mut Pool) {
    // SAFETY: the caller's promise.
    unsafe { destroy(pool) }
}

/// How a program is run. All zero but for `size`, or a null pointer to it, is one thread, seed 0 and no feeds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// sizeof(brolga_options).
    pub size: u32,
    /// Threads of the session's own; 0 and 1 for the calling thread alone. Results do not depend on it.
    pub threads: u32,
    /// Seed of the stateful random number generators.
    pub seed: u64,
    /// Threads to use instead, or null.
    pub pool: *const Pool,
    /// What infeeds read, or null.
    pub infeed: *const Infeed,
    /// What outfeeds write, or null.
    pub outfeed: *const Outfeed,
    /// Seconds that the program waits at a feed; 0 for as long as it takes.
    pub feed_timeout: f64,
    /// Which of several devices this is, or null.
    pub device: *const Device,
}

/// # Safety
/// `options` is null or leads to options whose handles are null or live.
unsafe fn run_options(options: *const Options) -> Result<brolga_runtime::RunOptions> {
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else {
        return Ok(brolga_runtime::RunOptions::default());
    };
    if options.size as usize != size_of::<Options>() {
        let text = format!("options of {} bytes, this library's have {}", options.size, size_of::<Options>());
        return Err(Failure::argument(text));
    }
    // SAFETY: as above.
    let (pool, device) = unsafe { (options.pool.as_ref(), options.device.as_ref()) };
    // SAFETY: as above.
    let (infeed, outfeed) = unsafe { (options.infeed.as_ref(), options.outfeed.as_ref()) };
    Ok(brolga_runtime::RunOptions {
        threads: options.threads as usize,
        executor: pool.map(|p| -> Arc<dyn Executor> { p.0.clone() }),
        seed: options.seed,
        feeds: Feeds {
            infeed: infeed.map(|f| -> Arc<dyn Source> { f.queue.clone() }),
            outfeed: outfeed.map(|f| -> Arc<dyn Sink> { f.queue.clone() }),
            timeout: seconds(options.feed_timeout)?,
        },
        device: device.map(|d| d.0.clone()),
    })
}

/// A parameter's buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Its first byte, aligned for the elements.
    pub data: *const c_void,
    /// How many bytes it has: as many as the parameter.
    pub bytes: u64,
}

/// A result's buffer. It overlaps nothing but the parameter that it shares a buffer with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Its first byte, aligned for the elements.
    pub data: *mut c_void,
    /// How many bytes it has: as many as the result.
    pub bytes: u64,
}

/// A program with its workspace, threads and services, for calls one after another.
pub struct Session(Mutex<Running>);

struct Running {
    caller: Caller,
    /// The buffers of the last call, which need not be checked again: address and size, parameters first.
    checked: Vec<(usize, u64)>,
    parameters: Vec<*const c_void>,
    results: Vec<*mut c_void>,
    /// Parameters that are copied into a result before each call.
    copies: Vec<(usize, usize)>,
}

impl Running {
    fn new(program: &Program, options: &brolga_runtime::RunOptions) -> Result<Running> {
        let caller = Caller::new(&program.program, options)?;
        Ok(Running { caller, checked: Vec::new(), parameters: Vec::new(), results: Vec::new(), copies: Vec::new() })
    }

    /// # Safety
    /// The buffers have as many bytes as they say.
    unsafe fn run(&mut self, inputs: &[Input], outputs: &[Output]) -> Result<()> {
        let all = || {
            let inputs = inputs.iter().map(|b| (b.data.addr(), b.bytes));
            inputs.chain(outputs.iter().map(|b| (b.data.addr(), b.bytes)))
        };
        let descriptor = self.caller.program().descriptor();
        let counts = (descriptor.parameters.len(), descriptor.results.len());
        if (inputs.len(), outputs.len()) != counts || !all().eq(self.checked.iter().copied()) {
            check(descriptor, inputs, outputs)?;
            self.checked = all().collect();
            let of_parameters = inputs.iter().zip(&descriptor.parameters);
            self.parameters = of_parameters.map(|(b, leaf)| or_empty(b.data.cast_mut(), leaf).cast_const()).collect();
            let of_results = outputs.iter().zip(&descriptor.results);
            self.results = of_results.map(|(b, leaf)| or_empty(b.data, leaf)).collect();
            self.copies.clear();
            for alias in descriptor.aliases.iter().filter(|a| a.must) {
                let (p, r) = (alias.parameter as usize, alias.result as usize);
                if let (Some(input), Some(output)) = (self.parameters.get_mut(p), self.results.get(r))
                    && input.addr() != output.addr()
                {
                    *input = output.cast_const();
                    self.copies.push((p, r));
                }
            }
        }
        for &(p, r) in &self.copies {
            if let (Some(from), Some(to)) = (inputs.get(p), outputs.get(r)) {
                // SAFETY: both have that many bytes, which was checked to be the same, and lie apart.
                unsafe { std::ptr::copy_nonoverlapping(from.data.cast::<u8>(), to.data.cast(), to.bytes as usize) };
            }
        }
        // SAFETY: as many pointers as the program has leaves, to buffers of their sizes and alignments, which lie apart
        // but for declared pairs.
        unsafe { self.caller.call(&self.parameters, &self.results) }?;
        Ok(())
    }
}

/// A buffer without bytes may be null in C; the program gets an address all the same.
fn or_empty(data: *mut c_void, leaf: &Leaf) -> *mut c_void {
    if data.is_null() && leaf.byte_size() == 0 { std::ptr::without_provenance_mut(64) } else { data }
}

/// The alignment of a leaf's buffer: that of its numbers, and of the sizes behind them.
fn alignment(leaf: &Leaf) -> usize {
    let size = leaf.shape.ty.byte_size();
    let numbers = if leaf.shape.ty.kind() == Kind::Complex { size / 2 } else { size };
    if leaf.shape.is_dynamic() { numbers.max(4) } else { numbers }
}

fn check_buffer(what: &str, index: usize, leaf: &Leaf, data: *const c_void, bytes: u64) -> Result<()> {
    let name = if leaf.name.is_empty() { String::new() } else { format!(" '{}'", leaf.name) };
    let place = format!("{what} {index}{name}");
    if bytes != leaf.byte_size() {
        let text = format!("{place} is {} of {} bytes, a buffer of {bytes} was given", leaf.shape, leaf.byte_size());
        return Err(Failure::argument(text));
    }
    if bytes > 0 && data.is_null() {
        return Err(Failure::new(BROLGA_ERROR_NULL, format!("the pointer to {place} is null")));
    }
    if bytes > 0 && !data.addr().is_multiple_of(alignment(leaf)) {
        let text = format!("{place} has to be aligned to {} bytes, its address is {data:p}", alignment(leaf));
        return Err(Failure::argument(text));
    }
    if data.addr().checked_add(bytes as usize).is_none() {
        return Err(Failure::argument(format!("{place} reaches beyond memory")));
    }
    Ok(())
}

fn check(descriptor: &DescriptorInfo, inputs: &[Input], outputs: &[Output]) -> Result<()> {
    let counts = [
        ("parameters", descriptor.parameters.len(), inputs.len()),
        ("results", descriptor.results.len(), outputs.len()),
    ];
    for (what, expected, found) in counts {
        if expected != found {
            return Err(Failure::argument(format!("the program has {expected} {what}, {found} buffers were given")));
        }
    }
    for (i, (buffer, leaf)) in inputs.iter().zip(&descriptor.parameters).enumerate() {
        check_buffer("parameter", i, leaf, buffer.data, buffer.bytes)?;
    }
    // Results by where they begin, with the parameter that was seen in the same buffer.
    let mut written: Vec<(Range<usize>, usize, Option<usize>)> = Vec::with_capacity(outputs.len());
    for (i, (buffer, leaf)) in outputs.iter().zip(&descriptor.results).enumerate() {
        check_buffer("result", i, leaf, buffer.data, buffer.bytes)?;
        if buffer.bytes > 0 {
            written.push((range(buffer.data, buffer.bytes), i, None));
        }
    }
    written.sort_unstable_by_key(|(range, ..)| range.start);
    if let Some([(_, a, _), (_, b, _)]) = written.array_windows().find(|[(a, ..), (b, ..)]| b.start < a.end) {
        return Err(Failure::argument(format!("the buffers of results {} and {} overlap", a.min(b), a.max(b))));
    }
    let declared: HashSet<(usize, usize)> =
        descriptor.aliases.iter().map(|a| (a.parameter as usize, a.result as usize)).collect();
    for (p, buffer) in inputs.iter().enumerate().filter(|(_, buffer)| buffer.bytes > 0) {
        let read = range(buffer.data, buffer.bytes);
        // Results lie apart, so the first one that ends behind the parameter's start is the first that can overlap it.
        let first = written.partition_point(|(range, ..)| range.end <= read.start);
        let Some((range, r, owner)) = written.get_mut(first).filter(|(range, ..)| range.start < read.end) else {
            continue;
        };
        if *range != read || !declared.contains(&(p, *r)) {
            return Err(Failure::argument(format!("the buffers of parameter {p} and result {r} overlap")));
        }
        // The program may write what it still has to read by the other parameter.
        if let Some(other) = owner.replace(p) {
            return Err(Failure::argument(format!("parameters {other} and {p} have the buffer of result {r}")));
        }
    }
    Ok(())
}

fn range<T>(data: *const T, bytes: u64) -> Range<usize> {
    data.addr()..data.addr().saturating_add(bytes as usize)
}

/// Prepares runs of a program; `options` may be null. What the options name is kept: it may be destroyed before the session.
///
/// # Safety
/// `program` is null or a live handle, the handles of `options` too; `session` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_session_create(
    program: *const Program,
    options: *const Options,
    session: *mut *mut Session,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            put_handle(session, "the session", || {
                let running = Running::new(given(program, "the program")?, &run_options(options)?)?;
                Ok(Session(Mutex::new(running)))
            })
        }
    })
}

/// The seed of the runs that follow.
///
/// # Safety
/// `session` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_session_set_seed(session: *mut Session, seed: u64) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        enter(unsafe { given(session, "the session") }?, |running| {
            running.caller.set_seed(seed);
            Ok(())
        })
    })
}

/// One thread at a time.
fn enter<T>(session: &Session, body: impl FnOnce(&mut Running) -> Result<T>) -> Result<T> {
    let mut running = match session.0.try_lock() {
        Ok(running) => running,
        // What a panic left half done is checked again.
        Err(TryLockError::Poisoned(poisoned)) => {
            let mut running = PoisonError::into_inner(poisoned);
            running.checked.clear();
            running
        }
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::new(BROLGA_ERROR_BUSY, "another thread is in the session: make one for each thread"));
        }
    };
    body(&mut running)
}

/// Runs the program once: reads the buffers of the parameters and fills those of the results. Sizes, alignments and overlaps
/// are checked first; a failed run leaves the results in any state, and the session can run again.
///
/// # Safety
/// `session` is null or a live handle; `inputs` leads to `input_count` buffers, `outputs` to `output_count`, each with as many
/// bytes as it says, which nobody else uses while the program runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_session_run(
    session: *mut Session,
    inputs: *const Input,
    input_count: usize,
    outputs: *const Output,
    output_count: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let inputs = given_slice(inputs, input_count, "the inputs")?;
            let outputs = given_slice(outputs, output_count, "the outputs")?;
            enter(given(session, "the session")?, |running| running.run(inputs, outputs))
        }
    })
}

/// Frees a session.
///
/// # Safety
/// `session` is null or a handle that was not destroyed, and no thread is in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_session_destroy(session: *mut Session) {
    // SAFETY: the caller's promise.
    unsafe { destroy(session) }
}

/// Runs a program once, with a session that lives for this call.
///
/// # Safety
/// As brolga_session_create and brolga_session_run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brolga_program_run(
    program: *const Program,
    options: *const Options,
    inputs: *const Input,
    input_count: usize,
    outputs: *const Output,
    output_count: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise, for each pointer.
        unsafe {
            let inputs = given_slice(inputs, input_count, "the inputs")?;
            let outputs = given_slice(outputs, output_count, "the outputs")?;
            Running::new(given(program, "the program")?, &run_options(options)?)?.run(inputs, outputs)
        }
    })
}
