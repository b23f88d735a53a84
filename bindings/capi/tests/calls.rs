//! The functions called as C calls them: what is refused, what buffers may share, devices, and that handles outlive each other.
#![allow(clippy::unwrap_used)]

use brolga_capi::*;
use brolga_compiler::collective::Grid;
use brolga_compiler::{CompileOptions, compile, shape, text};
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

fn object(source: &str, devices: Option<Grid>) -> Vec<u8> {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    shape::verify(&module).unwrap();
    compile(&module, &CompileOptions { devices, ..CompileOptions::default() }).unwrap().object
}

fn message() -> String {
    // SAFETY: a text of the library's.
    unsafe { CStr::from_ptr(brolga_error_message()) }.to_str().unwrap().to_owned()
}

/// The only program of a source.
fn program(source: &str) -> *mut Program {
    loaded(&object(source, None))
}

fn loaded(bytes: &[u8]) -> *mut Program {
    let (mut object, mut program) = (null_mut(), null_mut());
    // SAFETY: the bytes are those of a slice, the handles go to places of ours.
    unsafe {
        assert_eq!(brolga_object_load(bytes.as_ptr().cast(), bytes.len(), null(), 0, &mut object), 0, "{}", message());
        assert_eq!(brolga_object_program(object, 0, &mut program), 0);
        brolga_object_destroy(object);
    }
    program
}

fn input(values: &[f32]) -> Input {
    Input { data: values.as_ptr().cast(), bytes: size_of_val(values) as u64 }
}

fn output(values: &mut [f32]) -> Output {
    Output { data: values.as_mut_ptr().cast(), bytes: size_of_val(values) as u64 }
}

/// Runs a program with one session.
fn run(session: *mut Session, inputs: &[Input], outputs: &[Output]) -> i32 {
    // SAFETY: live slices of buffers that say how large they are.
    unsafe { brolga_session_run(session, inputs.as_ptr(), inputs.len(), outputs.as_ptr(), outputs.len()) }
}

fn session(program: *mut Program, options: Option<&Options>) -> *mut Session {
    let mut session = null_mut();
    let options = options.map_or(null(), std::ptr::from_ref);
    // SAFETY: live handles; the program may go once the session is made.
    unsafe {
        assert_eq!(brolga_session_create(program, options, &mut session), 0, "{}", message());
        brolga_program_destroy(program);
    }
    session
}

/// To be filled in.
const NOTHING: Array = Array {
    name: null(),
    element_type: 0,
    rank: 0,
    dimensions: null(),
    dynamic: null(),
    minor_to_major: null(),
    bytes: 0,
    data: null_mut(),
    widths: null(),
};

/// A padded parameter and a result without padding, as the interface describes them; a feed takes no padded array.
#[test]
fn arrays_say_to_what_width_they_are_padded() {
    let source = "HloModule padded, entry_computation_layout={(f32[2,3]{0,1:W(3,5)V(zero)})->f32[2,3]{1,0}}
ENTRY e { x = f32[2,3] parameter(0)  ROOT y = f32[2,3] negate(x) }";
    let program = program(source);
    let (mut x, mut y, mut infeed) = (NOTHING, NOTHING, null_mut());
    // SAFETY: live handles, places of ours, and lists that are as long as the ranks say.
    unsafe {
        assert_eq!(brolga_program_parameter(program, 0, &mut x), 0, "{}", message());
        assert_eq!(brolga_program_result(program, 0, &mut y), 0, "{}", message());
        let list = |start: *const i64| std::slice::from_raw_parts(start, 2).to_vec();
        assert_eq!((list(x.dimensions), list(x.widths), x.bytes), (vec![2, 3], vec![3, 5], 60));
        assert_eq!(std::slice::from_raw_parts(x.minor_to_major, 2), [0, 1]);
        assert_eq!((list(y.dimensions), y.widths, y.bytes), (vec![2, 3], null(), 24));

        assert_eq!(brolga_infeed_create(1, &mut infeed), 0);
        let mut data = [0.0f32; 15];
        x.data = data.as_mut_ptr().cast();
        assert_eq!(brolga_infeed_push(infeed, &x, 1, 0, 0.0), BROLGA_ERROR_ARGUMENT);
        assert!(message().contains("a padded array where one without padding is taken"), "{}", message());
        brolga_infeed_destroy(infeed);
        brolga_program_destroy(program);
    }
}

/// How far apart neighbours along each dimension lie, in elements: products of the widths, from the minor dimension on.
fn strides(array: &Array) -> Vec<usize> {
    let rank = array.rank as usize;
    // SAFETY: lists of the library's, as long as the rank says.
    let (dimensions, order) = unsafe {
        let widths = if array.widths.is_null() { array.dimensions } else { array.widths };
        (std::slice::from_raw_parts(widths, rank), std::slice::from_raw_parts(array.minor_to_major, rank))
    };
    let (mut strides, mut next) = (vec![0; rank], 1);
    for &d in order {
        strides[d as usize] = next;
        next *= dimensions[d as usize] as usize;
    }
    strides
}

/// Column-major and padded buffers go in and come out, their elements where the strides say: noise in the padding of parameters is
/// not read, that of results holds its value.
#[test]
fn strided_buffers_go_in_and_out() {
    let layouts = "(f32[2,3]{0,1}, f32[2,3]{1,0:W(3,5)})->(f32[2,3]{0,1:W(4,3)V(one)}, f32[3,2]{0,1}, f32[2,3]{1,0:W(2,4)V(lowest)})";
    let program = program(&format!(
        "HloModule strided, entry_computation_layout={{{layouts}}}
ENTRY e {{ x = f32[2,3] parameter(0)  y = f32[2,3] parameter(1)  s = f32[2,3] add(x, y)  p = f32[2,3] multiply(x, y)
  t = f32[3,2] transpose(p), dimensions={{1,0}}  d = f32[2,3] subtract(x, y)
  ROOT r = (f32[2,3], f32[3,2], f32[2,3]) tuple(s, t, d) }}"
    ));
    let (mut parameters, mut results) = ([NOTHING; 2], [NOTHING; 3]);
    for (number, array) in parameters.iter_mut().enumerate() {
        // SAFETY: a live handle, and a place of ours.
        unsafe { assert_eq!(brolga_program_parameter(program, number, array), 0, "{}", message()) };
    }
    for (number, array) in results.iter_mut().enumerate() {
        // SAFETY: as above.
        unsafe { assert_eq!(brolga_program_result(program, number, array), 0, "{}", message()) };
    }
    assert_eq!(parameters.each_ref().map(strides), [[1, 2], [5, 1]]);
    assert_eq!(results.each_ref().map(strides), [[1, 4], [1, 3], [4, 1]]);
    let (x, y) = (|i: usize, j: usize| (10 * i + j) as f32, |i: usize, j: usize| 0.5 - (i + 2 * j) as f32);
    // The buffer of an array of these sizes, `between` where none of its elements is.
    let memory = |array: &Array, dims: [usize; 2], between: f32, element: &dyn Fn(usize, usize) -> f32| {
        let (mut memory, strides) = (vec![between; array.bytes as usize / 4], strides(array));
        for (i, j) in (0..dims[0]).flat_map(|i| (0..dims[1]).map(move |j| (i, j))) {
            memory[i * strides[0] + j * strides[1]] = element(i, j);
        }
        memory
    };
    let given = [memory(&parameters[0], [2, 3], f32::NAN, &x), memory(&parameters[1], [2, 3], f32::NAN, &y)];
    let wanted = [
        memory(&results[0], [2, 3], 1.0, &|i, j| x(i, j) + y(i, j)),
        memory(&results[1], [3, 2], 0.0, &|i, j| x(j, i) * y(j, i)),
        memory(&results[2], [2, 3], f32::NEG_INFINITY, &|i, j| x(i, j) - y(i, j)),
    ];
    let session = session(program, None);
    let mut found = wanted.each_ref().map(|memory| vec![f32::NAN; memory.len()]);
    let outputs = found.each_mut().map(|memory| output(memory));
    assert_eq!(run(session, &given.each_ref().map(|memory| input(memory)), &outputs), 0, "{}", message());
    assert_eq!(found, wanted);
    // SAFETY: a live handle.
    unsafe { brolga_session_destroy(session) };
}

#[test]
fn null_pointers_are_errors() {
    // SAFETY: every function takes null for what it says must not be.
    unsafe {
        let mut object = null_mut();
        assert_eq!(brolga_object_load(null(), 3, null(), 0, &mut object), BROLGA_ERROR_NULL);
        assert_eq!(message(), "the pointer to the bytes is null");
        assert!(object.is_null());
        assert_eq!(brolga_object_load(b"x".as_ptr().cast(), 1, null(), 0, null_mut()), BROLGA_ERROR_NULL);
        assert_eq!(brolga_object_load_file(null(), null(), 0, &mut object), BROLGA_ERROR_NULL);
        assert_eq!(brolga_object_load(b"x".as_ptr().cast(), 1, null(), 64, &mut object), BROLGA_ERROR_ARGUMENT);
        assert_eq!(message(), "unknown flags 0x40");
        assert_eq!(brolga_object_load(b"x".as_ptr().cast(), 1, null(), 0, &mut object), BROLGA_ERROR_LOAD);
        assert_eq!(brolga_object_program_count(null()), 0);
        assert_eq!(brolga_program_parameter_count(null()), 0);
        assert_eq!(message(), "the pointer to the program is null");
        assert!(brolga_program_name(null()).is_null() && brolga_program_descriptor(null()).is_null());
        assert_eq!(brolga_session_create(null(), null(), &mut null_mut()), BROLGA_ERROR_NULL);
        assert_eq!(brolga_session_run(null_mut(), null(), 0, null(), 0), BROLGA_ERROR_NULL);
        assert_eq!(brolga_infeed_push(null(), null(), 0, 1, 0.0), BROLGA_ERROR_NULL);
        assert_eq!(brolga_outfeed_pop(null(), 0.0, &mut null_mut()), BROLGA_ERROR_NULL);
        assert_eq!(brolga_custom_calls_register(null_mut(), null(), None, null_mut()), BROLGA_ERROR_NULL);
        assert_eq!(brolga_program_from_linked(null(), None, &mut null_mut()), BROLGA_ERROR_NULL);
        brolga_object_destroy(null_mut());
        brolga_session_destroy(null_mut());
    }
}

const ADD: &str = "HloModule add
ENTRY e { x = f32[8] parameter(0)  y = f32[8] parameter(1)  s = f32[8] add(x, y)  d = f32[8] subtract(x, y)
  ROOT r = (f32[8], f32[8]) tuple(s, d) }";

#[test]
fn buffers_that_do_not_fit_are_named_and_the_session_runs_on() {
    let session = session(program(ADD), None);
    let (x, y) = ([1.0f32; 8], [2.0f32; 8]);
    let mut memory = [0.0f32; 40];
    let at = |start: usize, memory: &mut [f32]| output(&mut memory[start..start + 8]);
    let refused = |inputs: &[Input], outputs: &[Output], expected: &str| {
        assert_eq!(run(session, inputs, outputs), BROLGA_ERROR_ARGUMENT, "{expected}");
        assert!(message().contains(expected), "{}", message());
    };
    let both = [input(&x), input(&y)];
    let apart = [at(0, &mut memory), at(8, &mut memory)];
    refused(&both, &apart[..1], "the program has 2 results, 1 buffers were given");
    refused(&both, &[at(0, &mut memory), at(4, &mut memory)], "the buffers of results 0 and 1 overlap");
    refused(&[input(&memory[4..12]), input(&y)], &apart, "the buffers of parameter 0 and result 0 overlap");
    refused(&[input(&x), input(&memory[8..16])], &apart, "the buffers of parameter 1 and result 1 overlap");
    let odd = Output { data: memory.as_mut_ptr().wrapping_byte_add(130).cast(), bytes: 32 };
    refused(&both, &[apart[0], odd], "result 1 has to be aligned to 4 bytes");
    let null_input = Input { data: null(), bytes: 32 };
    assert_eq!(run(session, &[input(&x), null_input], &apart), BROLGA_ERROR_NULL);
    assert_eq!(message(), "the pointer to parameter 1 'y' is null");
    // The same memory twice is fine where it is only read; the second run is not checked again, and right all the same.
    for expected in [([3.0f32; 8], [-1.0f32; 8]), ([3.0; 8], [-1.0; 8])] {
        memory.fill(0.0);
        assert_eq!(run(session, &both, &apart), 0, "{}", message());
        assert_eq!((&memory[..8], &memory[8..16]), (&expected.0[..], &expected.1[..]));
    }
    assert_eq!(run(session, &[input(&x), input(&x)], &apart), 0, "{}", message());
    assert_eq!((&memory[..8], &memory[8..16]), (&[2.0f32; 8][..], &[0.0f32; 8][..]));
    // SAFETY: a live handle.
    unsafe { brolga_session_destroy(session) };
}

#[test]
fn a_donated_parameter_is_copied_unless_its_buffer_is_the_results() {
    let source = "HloModule step, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e { w = f32[64] parameter(0)  g = f32[64] parameter(1)  r = f32[64] reverse(w), dimensions={0}  ROOT s = f32[64] add(r, g) }";
    let handle = program(source);
    let (mut p, mut r, mut must) = (9, 9, 9);
    // SAFETY: a live handle, and places of ours.
    unsafe {
        assert_eq!(brolga_program_alias_count(handle), 1);
        assert_eq!(brolga_program_alias(handle, 0, &mut p, &mut r, &mut must), 0);
        assert_eq!(brolga_program_alias(handle, 1, &mut p, &mut r, &mut must), BROLGA_ERROR_ARGUMENT);
    }
    assert_eq!((p, r, must), (0, 0, 1));
    let session = session(handle, None);
    let mut w: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let g = vec![0.5f32; 64];
    let expected: Vec<f32> = w.iter().rev().map(|w| w + 0.5).collect();
    let mut result = vec![0.0f32; 64];
    for _ in 0..2 {
        assert_eq!(run(session, &[input(&w), input(&g)], &[output(&mut result)]), 0, "{}", message());
        assert_eq!(result, expected);
        assert_eq!(w[63], 63.0, "the parameter is as it was");
    }
    let shared = output(&mut w);
    let donated = Input { data: shared.data.cast_const(), bytes: shared.bytes };
    assert_eq!(run(session, &[donated, input(&g)], &[shared]), 0, "{}", message());
    assert_eq!(w, expected);
    assert_eq!(run(session, &[donated, donated], &[shared]), BROLGA_ERROR_ARGUMENT);
    assert!(message().contains("overlap"), "{}", message());
    // SAFETY: a live handle.
    unsafe { brolga_session_destroy(session) };
}

#[test]
fn devices_meet_on_threads_of_the_caller() {
    let source = "HloModule total
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)  ROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add }";
    let bytes = object(source, Some(Grid { replicas: 2, partitions: 1 }));
    let alone = loaded(&bytes);
    let (mut replicas, mut partitions, mut none) = (0, 0, null_mut());
    let mut devices: [*mut Device; 2] = [null_mut(); 2];
    // SAFETY: a live handle, and places of ours.
    unsafe {
        assert_eq!(brolga_program_devices(alone, &mut replicas, &mut partitions), 0);
        assert_eq!(brolga_session_create(alone, null(), &mut none), BROLGA_ERROR_ARGUMENT);
        assert!(message().contains("2 replicas"), "{}", message());
        assert_eq!(brolga_devices_create(2, 1, 10.0, devices.as_mut_ptr()), 0);
        assert_eq!(brolga_devices_create(0, 1, 10.0, devices.as_mut_ptr()), BROLGA_ERROR_ARGUMENT);
        assert_eq!(brolga_devices_create(2, 1, -1.0, devices.as_mut_ptr()), BROLGA_ERROR_ARGUMENT);
        brolga_program_destroy(alone);
    }
    assert_eq!((replicas, partitions), (2, 1));
    let addresses = devices.map(|d| d.expose_provenance());
    let results: Vec<[f32; 4]> = std::thread::scope(|scope| {
        let device = |i: usize| {
            let (bytes, address) = (&bytes, addresses[i]);
            scope.spawn(move || {
                let device: *mut Device = std::ptr::with_exposed_provenance_mut(address);
                let options = Options {
                    size: size_of::<Options>() as u32,
                    threads: 0,
                    seed: 0,
                    pool: null(),
                    infeed: null(),
                    outfeed: null(),
                    feed_timeout: 0.0,
                    device,
                };
                let session = session(loaded(bytes), Some(&options));
                let (x, mut y) = ([i as f32 + 1.0; 4], [0.0f32; 4]);
                assert_eq!(run(session, &[input(&x)], &[output(&mut y)]), 0, "{}", message());
                // SAFETY: live handles.
                unsafe {
                    brolga_session_destroy(session);
                    brolga_device_destroy(device);
                }
                y
            })
        };
        let threads = [device(0), device(1)];
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(results, [[3.0; 4]; 2]);
}

/// A function with the plain convention of XLA's custom calls.
unsafe extern "C" fn triple(out: *mut c_void, operands: *const *const c_void) {
    // SAFETY: called with one f32[4], for one.
    unsafe {
        let x = &*(*operands).cast::<[f32; 4]>();
        *out.cast::<[f32; 4]>() = x.map(|x| 3.0 * x);
    }
}

/// Fails with a text where its first number is negative.
unsafe extern "C" fn careful(user: *mut c_void, call: *mut Call) -> i32 {
    let (mut x, mut y) = (NOTHING, NOTHING);
    // SAFETY: the call that is under way, with one f32[4] and a result like it; the user pointer is a number.
    unsafe {
        assert_eq!((brolga_call_operand(call, 0, &mut x), brolga_call_result(call, 0, &mut y)), (0, 0));
        assert_eq!(brolga_call_operand(call, 1, &mut x), BROLGA_ERROR_ARGUMENT);
        assert_eq!((x.rank, *x.dimensions, x.bytes), (1, 4, 16));
        let values = *x.data.cast::<[f32; 4]>();
        if values[0] < 0.0 {
            return brolga_call_fail(call, c"negative".as_ptr()) + 1;
        }
        *y.data.cast::<[f32; 4]>() = values.map(|v| v + *user.cast::<f32>());
    }
    0
}

#[test]
fn custom_calls_are_functions_with_a_pointer_or_with_xlas_convention() {
    let source = "HloModule calls
ENTRY e { x = f32[4] parameter(0)  a = f32[4] custom-call(x), custom_call_target=\"triple\"
  ROOT b = f32[4] custom-call(a), custom_call_target=\"careful\" }";
    let bytes = object(source, None);
    let mut ten = 10.0f32;
    let (mut calls, mut object, mut handle) = (null_mut(), null_mut(), null_mut());
    // SAFETY: live handles and texts; the functions are of the kinds that they are registered as.
    unsafe {
        let size = bytes.len();
        let load = |calls, object: &mut _| {
            brolga_object_load(bytes.as_ptr().cast(), size, calls, BROLGA_LOAD_STRICT_SYMBOLS, object)
        };
        assert_eq!(load(null(), &mut object), BROLGA_ERROR_LOAD);
        assert!(message().contains("undefined symbol"), "{}", message());
        assert_eq!(brolga_custom_calls_create(&mut calls), 0);
        let plain = std::mem::transmute::<*const (), unsafe extern "C" fn()>(triple as *const ());
        assert_eq!(brolga_custom_calls_register_symbol(calls, c"triple".as_ptr(), Some(plain)), 0);
        let user = (&raw mut ten).cast();
        assert_eq!(brolga_custom_calls_register(calls, c"careful".as_ptr(), Some(careful), user), 0);
        assert_eq!(load(calls, &mut object), 0, "{}", message());
        brolga_custom_calls_destroy(calls);
        assert_eq!(brolga_object_select(object, null(), 0, &mut handle), 0, "{}", message());
        brolga_object_destroy(object);
        assert_eq!(brolga_program_needed_call_count(handle), 2);
    }
    let session = session(handle, None);
    let mut y = [0.0f32; 4];
    assert_eq!(run(session, &[input(&[1.0, 2.0, 3.0, 4.0])], &[output(&mut y)]), 0, "{}", message());
    assert_eq!(y, [13.0, 16.0, 19.0, 22.0]);
    assert_eq!(run(session, &[input(&[-1.0, 2.0, 3.0, 4.0])], &[output(&mut y)]), BROLGA_ERROR_RUN);
    assert!(message().contains("custom call 'careful'") && message().ends_with("negative"), "{}", message());
    assert_eq!(brolga_error_program_status(), 4);
    // SAFETY: a live handle.
    unsafe { brolga_session_destroy(session) };
}
