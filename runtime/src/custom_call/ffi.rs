//! XLA's typed FFI: the call frame, and the functions that a handler may call while it runs.
//!
//! The structures are those of the public C interface, version 0.3; each starts with its own size. A handler sees the
//! stage «execute» alone. It may make errors and futures, allocate memory and schedule tasks, which run at once on its
//! own thread; state, user data and streams do not exist here, and asking for them is an error that says so.

use super::{Attribute, Description};
use crate::{ArrayShape, Shape};
use std::alloc::Layout;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Versions of the interface.
const VERSION: (c_int, c_int) = (0, 3);
/// Number of the type of tokens, which no element type has.
const TOKEN: c_int = 17;
const EXECUTE: c_int = 3;
const BUFFER: c_int = 1;
const UNIMPLEMENTED: c_int = 12;
const INVALID_ARGUMENT: c_int = 3;
const RESOURCE_EXHAUSTED: c_int = 8;

/// An error, opaque to handlers.
struct FfiError {
    code: c_int,
    message: CString,
}

type ErrorPointer = *mut FfiError;

fn error(code: c_int, message: &str) -> ErrorPointer {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    Box::into_raw(Box::new(FfiError { code, message }))
}

#[repr(C)]
struct ApiVersion {
    size: usize,
    extension: *mut c_void,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
struct Buffer {
    size: usize,
    extension: *mut c_void,
    ty: c_int,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

#[repr(C)]
struct ByteSpan {
    start: *const u8,
    length: usize,
}

#[repr(C)]
struct ScalarValue {
    ty: c_int,
    value: *const c_void,
}

#[repr(C)]
struct ArrayValue {
    ty: c_int,
    length: usize,
    data: *const c_void,
}

/// Operands, and results.
#[repr(C)]
struct Values {
    size: usize,
    extension: *mut c_void,
    count: i64,
    types: *const c_int,
    values: *const *const c_void,
}

#[repr(C)]
struct Attributes {
    size: usize,
    extension: *mut c_void,
    count: i64,
    types: *const c_int,
    names: *const *const ByteSpan,
    values: *const *const c_void,
}

#[repr(C)]
struct CallFrame {
    size: usize,
    extension: *mut c_void,
    api: *const Api,
    context: *mut Execution,
    stage: c_int,
    operands: Values,
    results: Values,
    attributes: Attributes,
    future: *const Future,
}

/// What stands behind the execution context of one call.
#[derive(Default)]
struct Execution {
    /// Memory that the handler has not freed.
    allocations: Mutex<Vec<(usize, Layout)>>,
}

impl Drop for Execution {
    fn drop(&mut self) {
        let list = self.allocations.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (address, layout) in list.drain(..) {
            // SAFETY: allocated with this layout and not freed.
            unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
}

#[derive(Default)]
struct Future {
    /// `None` until it is decided; then the address of the error, 0 for none.
    outcome: Mutex<Option<usize>>,
    decided: Condvar,
}

// Argument structures: the size and the extension come first, then what is named here.

#[repr(C)]
struct ErrorCreate {
    size: usize,
    extension: *mut c_void,
    message: *const c_char,
    code: c_int,
}

#[repr(C)]
struct ErrorMessage {
    size: usize,
    extension: *mut c_void,
    error: ErrorPointer,
    message: *const c_char,
}

#[repr(C)]
struct ErrorDestroy {
    size: usize,
    extension: *mut c_void,
    error: ErrorPointer,
}

#[repr(C)]
struct FutureArguments {
    size: usize,
    extension: *mut c_void,
    future: *const Future,
    /// Of `SetError` alone.
    error: ErrorPointer,
}

#[repr(C)]
struct Allocate {
    size: usize,
    extension: *mut c_void,
    context: *mut Execution,
    bytes: usize,
    alignment: usize,
    data: *mut c_void,
}

#[repr(C)]
struct Free {
    size: usize,
    extension: *mut c_void,
    context: *mut Execution,
    bytes: usize,
    data: *mut c_void,
}

#[repr(C)]
struct Schedule {
    size: usize,
    extension: *mut c_void,
    context: *mut Execution,
    task: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
}

#[repr(C)]
struct Threads {
    size: usize,
    extension: *mut c_void,
    context: *mut Execution,
    count: *mut i64,
}

#[repr(C)]
struct RunId {
    size: usize,
    extension: *mut c_void,
    context: *mut Execution,
    id: i64,
}

#[repr(C)]
struct Ordinal {
    size: usize,
    extension: *mut c_void,
    context: *mut Execution,
    ordinal: i32,
}

type Function<A> = unsafe extern "C" fn(*mut A) -> ErrorPointer;
type Unavailable = unsafe extern "C" fn(*mut c_void) -> ErrorPointer;

/// The table of functions.
#[repr(C)]
struct Api {
    size: usize,
    extension: *mut c_void,
    version: ApiVersion,
    internal: *const c_void,
    error_create: Function<ErrorCreate>,
    error_message: unsafe extern "C" fn(*mut ErrorMessage),
    error_destroy: unsafe extern "C" fn(*mut ErrorDestroy),
    handler_register: Unavailable,
    stream_get: Unavailable,
    type_register: Unavailable,
    context_get: Unavailable,
    state_set: Unavailable,
    state_get: Unavailable,
    allocate: Function<Allocate>,
    free: Function<Free>,
    schedule: Function<Schedule>,
    threads: Function<Threads>,
    future_create: Function<FutureArguments>,
    future_available: Function<FutureArguments>,
    future_error: Function<FutureArguments>,
    run_id: Function<RunId>,
    ordinal: Function<Ordinal>,
}

// SAFETY: a table of functions and null pointers that nobody writes.
unsafe impl Sync for Api {}

static API: Api = Api {
    size: size_of::<Api>(),
    extension: null_mut(),
    version: ApiVersion { size: size_of::<ApiVersion>(), extension: null_mut(), major: VERSION.0, minor: VERSION.1 },
    internal: null(),
    error_create,
    error_message,
    error_destroy,
    handler_register,
    stream_get,
    type_register,
    context_get,
    state_set,
    state_get,
    allocate,
    free,
    schedule,
    threads,
    future_create,
    future_available,
    future_error,
    run_id,
    ordinal,
};

unsafe extern "C" fn error_create(a: *mut ErrorCreate) -> ErrorPointer {
    // SAFETY: handlers pass a whole structure, whose message is null or a C string.
    unsafe {
        let text = if (*a).message.is_null() { c"" } else { CStr::from_ptr((*a).message) };
        error((*a).code, &text.to_string_lossy())
    }
}

unsafe extern "C" fn error_message(a: *mut ErrorMessage) {
    // SAFETY: handlers pass a whole structure and an error that they got from here.
    unsafe { (*a).message = (*a).error.as_ref().map_or(null(), |e| e.message.as_ptr()) };
}

unsafe extern "C" fn error_destroy(a: *mut ErrorDestroy) {
    // SAFETY: as above, and the error is given up.
    unsafe {
        if !(*a).error.is_null() {
            drop(Box::from_raw((*a).error));
        }
    }
}

macro_rules! unavailable {
    ($($name:ident $text:literal;)*) => {
        $(unsafe extern "C" fn $name(_: *mut c_void) -> ErrorPointer {
            error(UNIMPLEMENTED, concat!("Brolga has no ", $text))
        })*
    };
}
unavailable! {
    handler_register "registry of handlers in the process: a custom call finds its handler by symbol";
    stream_get "streams: programs run on the processor";
    type_register "registry of types";
    context_get "user data in the execution context";
    state_set "state of handlers";
    state_get "state of handlers";
}

unsafe extern "C" fn allocate(a: *mut Allocate) -> ErrorPointer {
    // SAFETY: handlers pass a whole structure with the context of the frame, which lives through the call.
    let (context, bytes, alignment) = unsafe { (&*(*a).context, (*a).bytes, (*a).alignment) };
    let layout = Layout::from_size_align(bytes.max(1), alignment.max(1));
    let Ok(layout) = layout else { return error(INVALID_ARGUMENT, "an impossible size or alignment") };
    // SAFETY: the size is not zero.
    let data = unsafe { std::alloc::alloc(layout) };
    if data.is_null() {
        return error(RESOURCE_EXHAUSTED, "memory is exhausted");
    }
    let mut list = context.allocations.lock().unwrap_or_else(PoisonError::into_inner);
    list.push((data.expose_provenance(), layout));
    // SAFETY: as above.
    unsafe { (*a).data = data.cast() };
    null_mut()
}

unsafe extern "C" fn free(a: *mut Free) -> ErrorPointer {
    // SAFETY: as in `allocate`.
    let (context, data) = unsafe { (&*(*a).context, (*a).data) };
    let mut list = context.allocations.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(at) = list.iter().position(|(address, _)| *address == data.addr()) else {
        return error(INVALID_ARGUMENT, "memory that was not allocated here");
    };
    let (_, layout) = list.swap_remove(at);
    // SAFETY: allocated with this layout, and no longer in the list.
    unsafe { std::alloc::dealloc(data.cast(), layout) };
    null_mut()
}

unsafe extern "C" fn schedule(a: *mut Schedule) -> ErrorPointer {
    // SAFETY: handlers pass a whole structure, and a task that may run on any thread at any time.
    unsafe {
        if let Some(task) = (*a).task {
            task((*a).data);
        }
    }
    null_mut()
}

unsafe extern "C" fn threads(a: *mut Threads) -> ErrorPointer {
    // SAFETY: handlers pass a whole structure and the address of a number.
    unsafe { *(*a).count = 1 };
    null_mut()
}

unsafe extern "C" fn run_id(a: *mut RunId) -> ErrorPointer {
    // SAFETY: handlers pass a whole structure.
    unsafe { (*a).id = 0 };
    null_mut()
}

unsafe extern "C" fn ordinal(a: *mut Ordinal) -> ErrorPointer {
    // SAFETY: handlers pass a whole structure.
    unsafe { (*a).ordinal = 0 };
    null_mut()
}

unsafe extern "C" fn future_create(a: *mut FutureArguments) -> ErrorPointer {
    // SAFETY: handlers pass a structure that has room for the future.
    unsafe { (&raw mut (*a).future).write(Arc::into_raw(Arc::new(Future::default()))) };
    null_mut()
}

unsafe extern "C" fn future_available(a: *mut FutureArguments) -> ErrorPointer {
    // SAFETY: handlers pass a future that is not decided, which therefore is still alive.
    unsafe { decide((*a).future, null_mut()) };
    null_mut()
}

unsafe extern "C" fn future_error(a: *mut FutureArguments) -> ErrorPointer {
    // SAFETY: as above, and an error that they give up.
    unsafe { decide((*a).future, (*a).error) };
    null_mut()
}

/// # Safety
/// The future is alive, as it is until it is decided.
unsafe fn decide(future: *const Future, error: ErrorPointer) {
    // A share of our own: whoever waits may let go of the future as soon as the lock is free.
    // SAFETY: it came from `Arc::into_raw` and is alive.
    let future = unsafe {
        Arc::increment_strong_count(future);
        Arc::from_raw(future)
    };
    *future.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.expose_provenance());
    future.decided.notify_all();
}

/// Everything that a frame points to: boxes, because it points to them while the lists grow.
#[allow(clippy::vec_box)]
#[derive(Default)]
struct Arena {
    buffers: Vec<Box<Buffer>>,
    spans: Vec<Box<ByteSpan>>,
    scalars: Vec<Box<ScalarValue>>,
    arrays: Vec<Box<ArrayValue>>,
    words: Vec<Vec<u64>>,
    dictionaries: Vec<Box<Attributes>>,
    types: Vec<Vec<c_int>>,
    names: Vec<Vec<*const ByteSpan>>,
    values: Vec<Vec<*const c_void>>,
}

impl Arena {
    fn buffer(&mut self, shape: Option<&ArrayShape>, data: *mut c_void) -> *const c_void {
        let (ty, rank, dims) = match shape {
            Some(s) => (c_int::from(s.ty.code()), s.rank() as i64, s.dims.as_ptr()),
            None => (TOKEN, 0, std::ptr::NonNull::<i64>::dangling().as_ptr().cast_const()),
        };
        let buffer = Buffer { size: size_of::<Buffer>(), extension: null_mut(), ty, data, rank, dims };
        keep(&mut self.buffers, buffer).cast()
    }

    fn values(&mut self, shapes: &[Shape], data: &mut dyn Iterator<Item = *mut c_void>) -> Values {
        let mut values = Vec::new();
        for leaf in shapes.iter().flat_map(Shape::leaves) {
            values.push(match leaf {
                Shape::Array(s) | Shape::Buffer(s) => {
                    let data = data.next().unwrap_or(null_mut());
                    self.buffer(Some(s), data)
                }
                _ => self.buffer(None, null_mut()),
            });
        }
        let types = vec![BUFFER; values.len()];
        let out = Values {
            size: size_of::<Values>(),
            extension: null_mut(),
            count: values.len() as i64,
            types: types.as_ptr(),
            values: values.as_ptr(),
        };
        self.types.push(types);
        self.values.push(values);
        out
    }

    fn span(&mut self, text: &str) -> *const ByteSpan {
        keep(&mut self.spans, ByteSpan { start: text.as_ptr(), length: text.len() })
    }

    fn attributes(&mut self, list: &[(String, Attribute)]) -> Attributes {
        let (mut types, mut names, mut values): (Vec<c_int>, Vec<*const ByteSpan>, Vec<*const c_void>) =
            (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in list {
            names.push(self.span(name));
            let (ty, value) = match value {
                Attribute::Array(ty, bytes) => {
                    // Words, for the alignment of any element.
                    let mut words = vec![0u64; bytes.len().div_ceil(8)];
                    if let Some(to) = bytemuck::cast_slice_mut::<u64, u8>(&mut words).get_mut(..bytes.len()) {
                        to.copy_from_slice(bytes);
                    }
                    let length = bytes.len() / ty.byte_size();
                    let array = ArrayValue { ty: c_int::from(ty.code()), length, data: words.as_ptr().cast() };
                    self.words.push(words);
                    (1, keep(&mut self.arrays, array).cast())
                }
                Attribute::Dictionary(inner) => {
                    let inner = self.attributes(inner);
                    (2, keep(&mut self.dictionaries, inner).cast())
                }
                Attribute::Scalar(value) => {
                    let ty = c_int::from(value.ty().code());
                    let scalar = ScalarValue { ty, value: value.bytes().as_ptr().cast() };
                    (3, keep(&mut self.scalars, scalar).cast())
                }
                Attribute::String(text) => (4, self.span(text).cast()),
            };
            types.push(ty);
            values.push(value);
        }
        let out = Attributes {
            size: size_of::<Attributes>(),
            extension: null_mut(),
            count: list.len() as i64,
            types: types.as_ptr(),
            names: names.as_ptr(),
            values: values.as_ptr(),
        };
        self.types.push(types);
        self.names.push(names);
        self.values.push(values);
        out
    }
}

/// Keeps a value where it is as long as the list lives.
#[allow(clippy::vec_box)]
fn keep<T>(list: &mut Vec<Box<T>>, value: T) -> *const T {
    let boxed = Box::new(value);
    let pointer = std::ptr::from_ref(&*boxed);
    list.push(boxed);
    pointer
}

/// Calls a handler.
///
/// # Safety
/// `function` is a handler, and `buffers` are the arrays of the description, operands first.
pub(super) unsafe fn call(d: &Description, function: *const c_void, buffers: &[*mut c_void]) -> Result<(), String> {
    type Handler = unsafe extern "C" fn(*mut CallFrame) -> ErrorPointer;
    // SAFETY: the caller's promise.
    let handler = unsafe { std::mem::transmute::<*const c_void, Handler>(function) };
    let (mut arena, mut execution) = (Arena::default(), Execution::default());
    let mut data = buffers.iter().copied();
    let operands = arena.values(&d.operands, &mut data);
    let results = arena.values(std::slice::from_ref(&d.result), &mut data);
    let attributes = arena.attributes(&d.attributes);
    let mut frame = CallFrame {
        // As the header counts: the future, which came later, does not belong to the size.
        size: std::mem::offset_of!(CallFrame, future),
        extension: null_mut(),
        api: &raw const API,
        context: &raw mut execution,
        stage: EXECUTE,
        operands,
        results,
        attributes,
        future: null(),
    };
    // SAFETY: all that the frame points to lives in the arena, the description and here, beyond the wait below.
    let mut failure = unsafe { handler(&mut frame) };
    if !frame.future.is_null() {
        // SAFETY: the handler made it with `future_create` and hands us its share.
        let future = unsafe { Arc::from_raw(frame.future) };
        let outcome = future.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = future.decided.wait_while(outcome, |o| o.is_none()).unwrap_or_else(PoisonError::into_inner);
        let late: ErrorPointer = std::ptr::with_exposed_provenance_mut(outcome.unwrap_or(0));
        if failure.is_null() {
            failure = late;
        }
    }
    drop(arena);
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: errors come from `error`, and the handler gives this one up.
    let failure = unsafe { Box::from_raw(failure) };
    let message = failure.message.to_string_lossy().into_owned();
    Err(if message.is_empty() { format!("error {}", failure.code) } else { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::abi::CustomCallAbi;
    use crate::{ArrayLiteral, ElementType};

    /// `f32[2]` plus a token to `f32[2]`: the operand times the attribute `factor`, through scratch memory; an error,
    /// now or by a future, where the attribute `mode` says so.
    unsafe extern "C" fn scale(frame: *mut CallFrame) -> ErrorPointer {
        // SAFETY: the frame is the one that `call` makes of the description below.
        unsafe {
            let frame = &mut *frame;
            let (api, arguments, out) = (&*frame.api, &frame.operands, &frame.results);
            assert_eq!((frame.stage, arguments.count, out.count), (EXECUTE, 2, 1));
            let operand = &*(*arguments.values).cast::<Buffer>();
            assert_eq!((operand.ty, operand.rank, *operand.dims), (11, 1, 2));
            assert_eq!((*(*arguments.values.add(1)).cast::<Buffer>()).ty, TOKEN);
            let attributes = &frame.attributes;
            let name = |k: usize| &**attributes.names.add(k);
            let text =
                |s: &ByteSpan| String::from_utf8_lossy(std::slice::from_raw_parts(s.start, s.length)).into_owned();
            assert_eq!((text(name(0)), text(name(1)), text(name(2))), ("factor".into(), "list".into(), "mode".into()));
            assert_eq!(std::slice::from_raw_parts(attributes.types, 3), [3, 1, 4]);
            let factor = *(*(*attributes.values).cast::<ScalarValue>()).value.cast::<f32>();
            let list = &*(*attributes.values.add(1)).cast::<ArrayValue>();
            assert_eq!(std::slice::from_raw_parts(list.data.cast::<i64>(), list.length), [3, 4]);
            let mode = text(&*(*attributes.values.add(2)).cast::<ByteSpan>());
            let make = |message: &CStr| {
                let mut a = ErrorCreate { size: 0, extension: null_mut(), message: message.as_ptr(), code: 3 };
                (api.error_create)(&mut a)
            };
            if mode == "fail" {
                let mut a = ErrorMessage { size: 0, extension: null_mut(), error: make(c"other"), message: null() };
                (api.error_message)(&mut a);
                assert_eq!(CStr::from_ptr(a.message), c"other");
                (api.error_destroy)(&mut ErrorDestroy { size: 0, extension: null_mut(), error: a.error });
                return make(c"asked to fail");
            }
            if mode == "state" {
                return (api.state_get)(null_mut());
            }
            let context = frame.context;
            let mut a = Allocate { size: 0, extension: null_mut(), context, bytes: 8, alignment: 64, data: null_mut() };
            assert!((api.allocate)(&mut a).is_null() && a.data.addr().is_multiple_of(64));
            let scratch = a.data.cast::<[f32; 2]>();
            *scratch = *operand.data.cast::<[f32; 2]>();
            let result = (*(*out.values).cast::<Buffer>()).data.cast::<[f32; 2]>();
            *result = (*scratch).map(|v| v * factor);
            if mode.starts_with("late") {
                let mut a = FutureArguments { size: 0, extension: null_mut(), future: null(), error: null_mut() };
                assert!((api.future_create)(&mut a).is_null());
                frame.future = a.future;
                let (future, error) = (a.future.expose_provenance(), mode == "late error");
                let (set, failed) = (api.future_available, api.future_error);
                let message = if error { make(c"failed late") } else { null_mut() }.expose_provenance();
                std::thread::spawn(move || {
                    let future = std::ptr::with_exposed_provenance(future);
                    let error = std::ptr::with_exposed_provenance_mut(message);
                    let mut a = FutureArguments { size: 0, extension: null_mut(), future, error };
                    if message == 0 {
                        set(&mut a)
                    } else {
                        failed(&mut a)
                    };
                });
            }
            null_mut()
        }
    }

    fn run(mode: &str) -> Result<[f32; 2], String> {
        let vector = Shape::array(ElementType::F32, [2]);
        let list = [3i64, 4].iter().flat_map(|n| n.to_le_bytes()).collect();
        let d = Description {
            abi: CustomCallAbi::TypedFfi,
            target: "scale".into(),
            line: 0,
            opaque: Vec::new(),
            attributes: vec![
                ("factor".into(), Attribute::Scalar(ArrayLiteral::scalar(3.0f32))),
                ("list".into(), Attribute::Array(ElementType::S64, list)),
                ("mode".into(), Attribute::String(mode.into())),
            ],
            operands: vec![Shape::tuple(vec![vector.clone(), Shape::Token])],
            result: vector,
            aliases: Vec::new(),
        };
        let (mut from, mut to) = ([1.0f32, 2.0], [0.0f32; 2]);
        let buffers = [(&raw mut from).cast(), (&raw mut to).cast()];
        // SAFETY: a handler of that description, and its buffers.
        unsafe { call(&d, scale as *const c_void, &buffers) }.map(|()| to)
    }

    #[test]
    fn a_handler_reads_its_frame_and_its_errors_have_words() {
        assert_eq!(run(""), Ok([3.0, 6.0]));
        assert_eq!(run("late"), Ok([3.0, 6.0]));
        assert_eq!(run("late error"), Err("failed late".into()));
        assert_eq!(run("fail"), Err("asked to fail".into()));
        assert_eq!(run("state"), Err("Brolga has no state of handlers".into()));
    }

    /// The sizes that XLA's header gives on 64-bit machines.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Buffer>(), 48);
        assert_eq!(size_of::<Values>(), 40);
        assert_eq!(size_of::<Attributes>(), 48);
        assert_eq!(std::mem::offset_of!(CallFrame, future), 168);
        assert_eq!(size_of::<Api>(), 16 + 24 + 8 + 18 * 8);
        assert_eq!(std::mem::offset_of!(CallFrame, operands), 40);
    }
}
