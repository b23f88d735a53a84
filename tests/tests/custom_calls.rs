//! Custom calls in the interpreter and in compiled code: every convention, tuples, layouts, closures, and each way to
//! fail.
#![allow(clippy::unwrap_used)]

use brolga_compiler::hlo::Module;
use brolga_compiler::interp::{self, RegistryHost};
use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::abi::Services;
use brolga_runtime::custom_call::{XlaCustomCallStatus, XlaCustomCallStatusSetFailure, XlaCustomCallStatusSetSuccess};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{
    ArrayLiteral, Caller, CustomCalls, ElementType, Literal, LoadError, Program, RunError, RunOptions, Shape,
    TupleBuffer, UndefinedSymbol,
};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn module(body: &str) -> Module {
    let source = format!("HloModule custom\n\nENTRY e {{\n{body}\n}}\n");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

fn program(module: &Module, calls: &CustomCalls) -> Result<Program, LoadError> {
    let artifact = compile(module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let options = LoadOptions { custom_calls: Some(calls), process_symbols: false, ..LoadOptions::default() };
    Program::from_object_with(&artifact.object, &options)
}

/// The arrays of the result, by the interpreter and by compiled code, which must agree.
fn both(body: &str, calls: &CustomCalls, inputs: &[Literal]) -> Vec<ArrayLiteral> {
    let module = module(body);
    let interpreted = interp::run_with(&module, inputs, &interp::Options::default(), &mut RegistryHost(calls)).unwrap();
    let program = program(&module, calls).unwrap();
    let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
    let compiled = program.run(&leaves).unwrap();
    let interpreted: Vec<ArrayLiteral> = interpreted.arrays().into_iter().cloned().collect();
    assert_eq!(compiled, interpreted);
    compiled
}

/// The messages of the two engines; the program must fail, and run again with the same outcome.
fn both_fail(body: &str, calls: &CustomCalls, inputs: &[Literal]) -> [String; 2] {
    let module = module(body);
    let interpreted = interp::run_with(&module, inputs, &interp::Options::default(), &mut RegistryHost(calls));
    let program = program(&module, calls).unwrap();
    let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
    let first = program.run(&leaves).unwrap_err().to_string();
    assert_eq!(program.run(&leaves).unwrap_err().to_string(), first);
    [interpreted.unwrap_err().to_string(), first]
}

fn vector(values: &[f32]) -> Literal {
    Literal::Array(ArrayLiteral::from_elements(&[values.len() as i64], values))
}

fn matrix(rows: i64, columns: i64) -> Literal {
    let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    Literal::Array(ArrayLiteral::from_elements(&[rows, columns], &values))
}

/// The specification's example.
unsafe extern "C" fn myfunc(out: *mut c_void, operands: *const *const c_void) {
    // SAFETY: called with f32[2] and f32[2,3], for f32[3,3].
    unsafe {
        let x = &*(*operands).cast::<[f32; 2]>();
        let y = &*(*operands.add(1)).cast::<[[f32; 3]; 2]>();
        assert_eq!((x[0], y[0], y[1]), (1.0, [10.0, 20.0, 30.0], [40.0, 50.0, 60.0]));
        let z = &mut *out.cast::<[[f32; 3]; 3]>();
        *z = [[0.0; 3]; 3];
        z[0][0] = x[1] + y[1][0];
        z[2][1] = y[0][2];
    }
}

fn myfunc_inputs() -> [Literal; 2] {
    let y = ArrayLiteral::from_elements(&[2, 3], &[10.0f32, 20.0, 30.0, 40.0, 50.0, 60.0]);
    [vector(&[1.0, 2.0]), Literal::Array(y)]
}

const MYFUNC: &str = "x = f32[2] parameter(0)\ny = f32[2,3] parameter(1)
ROOT z = f32[3,3] custom-call(x, y), custom_call_target=\"myfunc\"";

#[test]
fn the_example_of_the_specification() {
    let mut calls = CustomCalls::new();
    // SAFETY: the function has the form that the program says.
    unsafe { calls.register_function("myfunc", myfunc as *const c_void) };
    let z = both(MYFUNC, &calls, &myfunc_inputs());
    assert_eq!(z[0].as_slice::<f32>(), [42.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 30.0, 0.0]);
    let artifact = compile(&module(MYFUNC), &CompileOptions::default()).unwrap();
    assert_eq!(artifact.descriptor.needed_services, Services::NONE, "a plain call is a call, and needs no runtime");
}

/// `(f32[1], (f32[2], f32[1]))` and `f32[1]` to `((f32[2]), f32[1])`.
unsafe extern "C" fn tuples(out: *mut c_void, operands: *const *const c_void) {
    // SAFETY: the shapes above.
    unsafe {
        let first = (*operands).cast::<*const c_void>();
        let a = *(*first).cast::<f32>();
        let nested = (*first.add(1)).cast::<*const c_void>();
        let b = &*(*nested).cast::<[f32; 2]>();
        let c = *(*nested.add(1)).cast::<f32>();
        let d = *(*operands.add(1)).cast::<f32>();
        let out = out.cast::<*mut c_void>();
        let inner = (*out).cast::<*mut c_void>();
        *(*inner).cast::<[f32; 2]>() = [a + b[0], c + b[1]];
        *(*out.add(1)).cast::<f32>() = d;
    }
}

const TUPLES: &str =
    "a = f32[1] parameter(0)\nb = f32[2] parameter(1)\nc = f32[1] parameter(2)\nd = f32[1] parameter(3)
n = (f32[2], f32[1]) tuple(b, c)\nt = (f32[1], (f32[2], f32[1])) tuple(a, n)
ROOT r = ((f32[2]), f32[1]) custom-call(t, d), custom_call_target=\"tuples\"";

#[test]
fn tuples_are_tables_of_pointers() {
    let mut calls = CustomCalls::new();
    // SAFETY: the function has the form that the program says.
    unsafe { calls.register_function("tuples", tuples as *const c_void) };
    let inputs = [vector(&[1.0]), vector(&[2.0, 3.0]), vector(&[4.0]), vector(&[5.0])];
    let out = both(TUPLES, &calls, &inputs);
    assert_eq!((out[0].as_slice::<f32>(), out[1].as_slice::<f32>()), (&[3.0f32, 7.0][..], &[5.0f32][..]));
    // The same through the service, where another call of the program is a closure.
    let body = TUPLES.replace("ROOT r", "u = f32[] custom-call(), custom_call_target=\"one\"\nROOT r");
    let body = body.replace("d = f32[1] parameter(3)", "d0 = f32[1] parameter(3)\ns = f32[] custom-call(), custom_call_target=\"one\"\nsr = f32[1] reshape(s)\nd = f32[1] add(d0, sr)");
    calls.register("one", |call| {
        call.result_mut::<f32>(0)?.as_mut_slice()[0] = 1.0;
        Ok(())
    });
    let out = both(&body, &calls, &inputs);
    assert_eq!((out[0].as_slice::<f32>(), out[1].as_slice::<f32>()), (&[3.0f32, 7.0][..], &[6.0f32][..]));
}

#[test]
fn programs_take_and_return_tuple_buffers() {
    let body = "p = (f32[2], (f32[2])) parameter(0)\na = f32[2] get-tuple-element(p), index=0
q = (f32[2]) get-tuple-element(p), index=1\nb = f32[2] get-tuple-element(q), index=0
s = f32[2] add(a, b)\nt = (f32[2]) tuple(s)\nROOT r = ((f32[2]), f32[2]) tuple(t, a)";
    let module = module(body);
    let program = program(&module, &CustomCalls::new()).unwrap();
    let mut input = Literal::Tuple(vec![vector(&[1.0, 2.0]), Literal::Tuple(vec![vector(&[3.0, 4.0])])]);
    let mut output = Literal::zeros(module.entry().result_shape()).unwrap();
    let mut caller = Caller::new(&program, &RunOptions::default()).unwrap();
    let parameters = TupleBuffer::from_literal(&mut input);
    caller.call_tuples(&[&parameters], &mut TupleBuffer::from_literal(&mut output)).unwrap();
    assert_eq!(output, Literal::Tuple(vec![Literal::Tuple(vec![vector(&[4.0, 6.0])]), vector(&[1.0, 2.0])]));
    let mut wrong = Literal::zeros(&Shape::array(ElementType::F32, [3])).unwrap();
    let error = caller.call_tuples(&[&parameters], &mut TupleBuffer::from_literal(&mut wrong)).unwrap_err();
    assert!(error.to_string().contains("2"), "{error}");
}

unsafe extern "C" fn with_status(out: *mut c_void, operands: *const *const c_void, status: *mut XlaCustomCallStatus) {
    // SAFETY: called with f32[1] for f32[1].
    unsafe {
        let x = *(*operands).cast::<f32>();
        if x < 0.0 {
            let text = "a negative number";
            XlaCustomCallStatusSetFailure(status, text.as_ptr().cast(), text.len());
            return;
        }
        XlaCustomCallStatusSetSuccess(status);
        *out.cast::<f32>() = x.sqrt();
    }
}

unsafe extern "C" fn with_opaque(
    out: *mut c_void,
    operands: *const *const c_void,
    opaque: *const c_char,
    length: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: called with f32[1] for f32[1].
    unsafe {
        let text = std::slice::from_raw_parts(opaque.cast::<u8>(), length);
        match std::str::from_utf8(text).ok().and_then(|t| t.parse::<f32>().ok()) {
            Some(scale) => *out.cast::<f32>() = scale * *(*operands).cast::<f32>(),
            None => XlaCustomCallStatusSetFailure(status, c"no number".as_ptr(), 10),
        }
    }
}

#[test]
fn status_forms_compute_and_fail_with_their_message() {
    let mut calls = CustomCalls::new();
    // SAFETY: the functions have the forms that the programs say.
    unsafe {
        calls.register_function("root", with_status as *const c_void);
        calls.register_function("scale", with_opaque as *const c_void);
    }
    let body = "x = f32[1] parameter(0)
r = f32[1] custom-call(x), custom_call_target=\"root\", api_version=API_VERSION_STATUS_RETURNING
ROOT s = f32[1] custom-call(r), custom_call_target=\"scale\", api_version=API_VERSION_STATUS_RETURNING_UNIFIED, backend_config=\"2.5\"";
    assert_eq!(both(body, &calls, &[vector(&[4.0])])[0].as_slice::<f32>(), [5.0]);
    for message in both_fail(body, &calls, &[vector(&[-4.0])]) {
        assert!(message.contains("custom call 'root' at line 5: a negative number"), "{message}");
    }
    for message in both_fail(&body.replace("2.5", "x\\\"y"), &calls, &[vector(&[4.0])]) {
        assert!(message.contains("'scale' at line 6: no number"), "{message}");
    }
}

const CLOSURE: &str = "x = f32[3] parameter(0)
ROOT y = f32[3] custom-call(x), custom_call_target=\"f\", api_version=VERSION, backend_config={}";

#[test]
fn closures_serve_every_convention_and_their_failures_poison_nothing() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut calls = CustomCalls::new();
    let mine = count.clone();
    calls.register("f", move |call| {
        mine.fetch_add(1, Ordering::Relaxed);
        let x = call.operand::<f32>(0)?;
        assert!(x.as_slice()[0] != 13.0, "thirteen");
        if x.as_slice()[0] < 0.0 {
            return Err("negative".into());
        }
        let mut y = call.result_mut::<f32>(0)?;
        for i in 0..3 {
            *y.at_mut(&[i]).ok_or("outside")? = x.at(&[2 - i]).ok_or("outside")?;
        }
        Ok(())
    });
    for version in ["ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI"] {
        let body = CLOSURE.replace("VERSION", &format!("API_VERSION_{version}"));
        assert_eq!(both(&body, &calls, &[vector(&[1.0, 2.0, 3.0])])[0].as_slice::<f32>(), [3.0, 2.0, 1.0]);
        for message in both_fail(&body, &calls, &[vector(&[-1.0, 0.0, 0.0])]) {
            assert!(message.contains("custom call 'f' at line 5: negative"), "{message}");
        }
        for message in both_fail(&body, &calls, &[vector(&[13.0, 0.0, 0.0])]) {
            assert!(message.contains("it panicked: ") && message.contains("thirteen"), "{message}");
        }
        assert_eq!(both(&body, &calls, &[vector(&[1.0, 2.0, 3.0])])[0].as_slice::<f32>(), [3.0, 2.0, 1.0]);
    }
    assert_eq!(count.load(Ordering::Relaxed), 4 * (2 + 3 + 3 + 2));
}

#[test]
fn views_refuse_other_types_and_numbers() {
    let mut calls = CustomCalls::new();
    calls.register("f", |call| {
        assert_eq!(call.operand::<f64>(0).err().unwrap(), "operand 0 is f32[3], not an array of f64");
        assert!(call.operand::<f32>(1).is_err() && call.result_mut::<f32>(1).is_err());
        let mut taken = call.take_result::<f32>(0)?;
        taken.as_mut_slice().fill(1.0);
        assert!(taken.at_mut(&[3]).is_none() && call.take_result::<f32>(0).is_err());
        let x = call.operand::<u8>(0).map(|_| ());
        x.map_err(Into::into)
    });
    let body = CLOSURE.replace("VERSION", "API_VERSION_ORIGINAL");
    for message in both_fail(&body, &calls, &[vector(&[1.0, 2.0, 3.0])]) {
        assert!(message.contains("operand 0 is f32[3], not an array of u8"), "{message}");
    }
}

#[test]
fn data_arrives_in_the_layout_that_is_asked_for() {
    let mut calls = CustomCalls::new();
    calls.register("f", |call| {
        let x = call.operand::<f32>(0)?;
        assert_eq!(x.dims(), [2, 3]);
        let slice = x.as_slice().to_vec();
        let column_major = slice == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0];
        assert!(column_major || slice == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(x.at(&[1, 0]), Some(3.0));
        let mut y = call.result_mut::<f32>(0)?;
        y.as_mut_slice().copy_from_slice(&slice);
        *y.at_mut(&[0, 2]).ok_or("outside")? += if column_major { 100.0 } else { 200.0 };
        Ok(())
    });
    let body = |result: &str, parameter: &str, more: &str| {
        format!(
            "x = f32[2,3]{parameter} parameter(0)\ny = f32[2,3]{result} custom-call(x), custom_call_target=\"f\"{more}
ROOT z = f32[2,3] copy(y)"
        )
    };
    let constraint = ", operand_layout_constraints={f32[2,3]{0,1}}";
    for (text, extra) in [
        (body("{0,1}", "", constraint), 100.0),
        (body("", "", ""), 200.0),
        // Without constraints what the text declares counts; the module line says how callers pass it.
        (body("{0,1}", "{0,1}", ""), 100.0),
    ] {
        let module = module(&text);
        let input = matrix(2, 3);
        let run = interp::run_with(
            &module,
            std::slice::from_ref(&input),
            &interp::Options::default(),
            &mut RegistryHost(&calls),
        );
        let expected = ArrayLiteral::from_elements(&[2, 3], &[0.0f32, 1.0, 2.0 + extra, 3.0, 4.0, 5.0]);
        assert_eq!(run.unwrap(), Literal::Array(expected.clone()), "{text}");
        let out = program(&module, &calls).unwrap().run(&input.arrays()).unwrap();
        assert_eq!(out[0], expected, "{text}");
    }
    // A transposed copy: row-major in, column-major out.
    let out = both(&body("{0,1}", "", ", operand_layout_constraints={f32[2,3]{1,0}}"), &calls, &[matrix(2, 3)]);
    assert_eq!(out[0].as_slice::<f32>(), [0.0, 2.0, 204.0, 1.0, 3.0, 5.0]);
}

#[test]
fn results_that_have_an_operands_buffer_start_with_its_contents() {
    unsafe extern "C" fn increment(out: *mut c_void, operands: *const *const c_void) {
        // SAFETY: f32[2] in place, and f32[2].
        unsafe {
            assert_eq!(*operands, out.cast_const());
            let other = *(*operands.add(1)).cast::<[f32; 2]>();
            let out = &mut *out.cast::<[f32; 2]>();
            *out = [out[0] + other[0], out[1] + other[1]];
        }
    }
    let mut calls = CustomCalls::new();
    // SAFETY: the function has the form that the program says.
    unsafe { calls.register_function("increment", increment as *const c_void) };
    let body = "x = f32[2] parameter(0)
y = f32[2] custom-call(x, x), custom_call_target=\"increment\", output_to_operand_aliasing={{}: (0, {})}
n = f32[2] negate(y)\nz = f32[2] custom-call(n, x), custom_call_target=\"increment\", output_to_operand_aliasing={{}: (0, {})}
ROOT r = (f32[2], f32[2], f32[2]) tuple(y, z, x)";
    let out = both(body, &calls, &[vector(&[1.0, 2.0])]);
    let out: Vec<&[f32]> = out.iter().map(|o| o.as_slice::<f32>()).collect();
    assert_eq!(out, [[2.0, 4.0], [-1.0, -2.0], [1.0, 2.0]]);
    // A closure sees the operand as it was.
    calls.register("increment", |call| {
        let (x, other) = (call.operand::<f32>(0)?, call.operand::<f32>(1)?);
        let mut y = call.result_mut::<f32>(0)?;
        for ((y, x), other) in y.as_mut_slice().iter_mut().zip(x.as_slice()).zip(other.as_slice()) {
            assert_eq!(y, x);
            *y = x + other;
        }
        Ok(())
    });
    let again = both(body, &calls, &[vector(&[1.0, 2.0])]);
    assert_eq!(again.iter().map(|o| o.as_slice::<f32>()).collect::<Vec<_>>(), out);
}

#[test]
fn a_missing_symbol_is_named_with_its_line_at_load_where_that_is_asked_for() {
    let artifact = compile(&module(MYFUNC), &CompileOptions::default()).unwrap();
    let options = LoadOptions { strict_symbols: true, process_symbols: false, ..LoadOptions::default() };
    let error = Program::from_object_with(&artifact.object, &options).unwrap_err();
    let symbol = UndefinedSymbol { symbol: "myfunc".into(), line: 6 };
    assert_eq!(error, LoadError::UndefinedSymbol(symbol.clone()));
    assert_eq!(error.to_string(), "undefined symbol 'myfunc', called at line 6 of the HLO text");
    let calls = CustomCalls::new();
    assert_eq!(program(&module(MYFUNC), &calls).unwrap().undefined_symbols(), std::slice::from_ref(&symbol));
    assert_eq!(interp::undefined_symbols(&module(MYFUNC), &calls), [symbol]);
    for message in both_fail(MYFUNC, &calls, &myfunc_inputs()) {
        assert!(message.contains("undefined symbol 'myfunc'") && message.contains("line 6"), "{message}");
    }
}

/// A program whose first parameter chooses between a call of `target` and the double, and that calls `here` besides.
fn in_a_branch(target: &str, version: &str) -> Module {
    let text = format!(
        "HloModule custom\nmissing {{\n x = f32[2] parameter(0)
 ROOT y = f32[2] custom-call(x), custom_call_target=\"{target}\", api_version=API_VERSION_{version}, backend_config={{}}
}}\ndouble {{\n x = f32[2] parameter(0)\n ROOT y = f32[2] add(x, x)\n}}
ENTRY e {{\n p = pred[] parameter(0)\n x = f32[2] parameter(1)
 z = f32[2] custom-call(x), custom_call_target=\"here\", api_version=API_VERSION_{version}, backend_config={{}}
 ROOT r = f32[2] conditional(p, z, z), true_computation=missing, false_computation=double\n}}\n"
    );
    let module = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    module
}

unsafe extern "C" fn negate_both(out: *mut c_void, operands: *const *const c_void) {
    // SAFETY: called with f32[2] for f32[2].
    unsafe {
        let x = &*(*operands).cast::<[f32; 2]>();
        *out.cast::<[f32; 2]>() = [-x[0], -x[1]];
    }
}

unsafe extern "C" fn negate_both_with_status(
    out: *mut c_void,
    operands: *const *const c_void,
    _: *mut XlaCustomCallStatus,
) {
    // SAFETY: as the function asks.
    unsafe { negate_both(out, operands) }
}

#[test]
fn a_missing_symbol_fails_the_run_that_comes_to_its_call_and_no_other() {
    for version in ["ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI"] {
        let module = in_a_branch("nobody_has_this", version);
        let mut calls = CustomCalls::new();
        // The functions beside it are called as ever, be they functions or closures.
        if version == "ORIGINAL" {
            // SAFETY: the function has the form that the program says.
            unsafe { calls.register_function("here", negate_both as *const c_void) };
        } else if version == "STATUS_RETURNING" {
            // SAFETY: as above.
            unsafe { calls.register_function("here", negate_both_with_status as *const c_void) };
        } else {
            calls.register("here", |call| {
                let x = call.operand::<f32>(0)?;
                for (y, x) in call.result_mut::<f32>(0)?.as_mut_slice().iter_mut().zip(x.as_slice()) {
                    *y = -x;
                }
                Ok(())
            });
        }
        let program = program(&module, &calls).unwrap();
        let symbols = [UndefinedSymbol { symbol: "nobody_has_this".into(), line: 4 }];
        assert_eq!(program.undefined_symbols(), symbols);
        assert_eq!(interp::undefined_symbols(&module, &calls), symbols);
        let run = |taken: bool| {
            let inputs = [Literal::Array(ArrayLiteral::from_bools(&[], &[taken])), vector(&[1.0, 2.5])];
            let interpreted =
                interp::run_with(&module, &inputs, &interp::Options::default(), &mut RegistryHost(&calls));
            let leaves: Vec<&ArrayLiteral> = inputs.iter().flat_map(Literal::arrays).collect();
            (program.run(&leaves), interpreted)
        };
        for round in 0..2 {
            let (compiled, interpreted) = run(false);
            assert_eq!(compiled.unwrap()[0].as_slice::<f32>(), [-2.0, -5.0], "{version}, round {round}");
            assert_eq!(interpreted.unwrap(), vector(&[-2.0, -5.0]));
            let (compiled, interpreted) = run(true);
            let RunError::Failed { message, .. } = compiled.unwrap_err() else { panic!("{version}: no message") };
            for message in [message, interpreted.unwrap_err().to_string()] {
                let named = message.contains("undefined symbol 'nobody_has_this'") && message.contains("line 4");
                assert!(named, "{version}: {message}");
            }
        }
    }
}

#[test]
fn what_a_call_says_wrongly_is_refused() {
    let refuse = |body: &str| compile(&module(body), &CompileOptions::default()).unwrap_err().to_string();
    let call = |more: &str| {
        format!("x = f32[2] parameter(0)\nROOT y = f32[2] custom-call(x), custom_call_target=\"f\", {more}")
    };
    let error = refuse(&call("api_version=API_VERSION_UNSPECIFIED"));
    assert!(error.contains("expected a calling convention") && error.contains("'y'"), "{error}");
    let error = refuse(&call("api_version=API_VERSION_TYPED_FFI, backend_config=\"no dictionary\""));
    assert!(error.contains("must be a dictionary of attributes"), "{error}");
    let error = refuse(&call("output_to_operand_aliasing={{}: (3, {})}"));
    assert!(error.contains("expected pairs"), "{error}");
    let body = "x = f32[4] parameter(0)\nROOT y = f32[2] custom-call(x), custom_call_target=\"SPMDFullToShardShape\"";
    assert!(refuse(body).contains("over several devices"));
}

#[test]
fn effects_happen_in_order_and_once() {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut calls = CustomCalls::new();
    let mine = log.clone();
    calls.register("say", move |call| {
        mine.lock().unwrap().push(String::from_utf8_lossy(call.opaque()).into_owned());
        Ok(())
    });
    let say = |name: &str, text: &str| {
        format!(
            "{name} = () custom-call(), custom_call_target=\"say\", custom_call_has_side_effect=true, backend_config=\"{text}\"\n"
        )
    };
    let body = format!(
        "{}{}{}{}ROOT r = f32[] constant(1)",
        say("a", "one"),
        say("b", "two"),
        say("c", "two"),
        "d = () custom-call(), custom_call_target=\"say\", backend_config=\"nobody asks\"\n"
    );
    program(&module(&body), &calls).unwrap().run(&[]).unwrap();
    assert_eq!(*log.lock().unwrap(), ["one", "two", "two"]);
}

#[test]
fn markers_are_what_they_mark() {
    let body = "x = f32[2,3] parameter(0)
a = f32[2,3] custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}
b = f32[2,3]{0,1} custom-call(a), custom_call_target=\"LayoutConstraint\", operand_layout_constraints={f32[2,3]{0,1}}
c = (f32[2,3]) custom-call(b), custom_call_target=\"__xla_internal_call_marker_before\"
d = f32[2,3] get-tuple-element(c), index=0
g = () custom-call(d), custom_call_target=\"xla.sdy.ShardingGroup\", custom_call_has_side_effect=true
e = f32[2,3] custom-call(d), custom_call_target=\"annotate_device_placement\", custom_call_has_side_effect=true
f = f32[6] bitcast(b)
n = f32[2,3] negate(e)
m = f32[2,3] custom-call(n), custom_call_target=\"MoveToHost\"
ROOT r = (f32[2,3], f32[6]) tuple(m, f)";
    let out = both(body, &CustomCalls::new(), &[matrix(2, 3)]);
    assert_eq!(out[0].as_slice::<f32>(), [-0.0, -1.0, -2.0, -3.0, -4.0, -5.0]);
    assert_eq!(out[1].as_slice::<f32>(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let artifact = compile(&module(body), &CompileOptions::default()).unwrap();
    assert!(artifact.descriptor.custom_calls.is_empty());
}

#[test]
fn what_nobody_needs_is_not_called() {
    let calls = CustomCalls::new();
    let called = "c = f32[2] custom-call(x), custom_call_target=\"nobody_has_this\"";
    let alone = format!("x = f32[2] parameter(0)\n {called}\n d = f32[2] negate(c)\n ROOT r = f32[2] add(x, x)");
    let x = vector(&[1.0, 2.0]);
    assert_eq!(both(&alone, &calls, std::slice::from_ref(&x))[0].as_slice::<f32>(), [2.0, 4.0]);
    // With an effect, or before something that is needed, it is.
    for line in [
        format!("{called}, custom_call_has_side_effect=true\n ROOT r = f32[2] add(x, x)"),
        format!("{called}\n ROOT r = f32[2] add(x, x), control-predecessors={{c}}"),
    ] {
        let module = module(&format!("x = f32[2] parameter(0)\n {line}"));
        let inputs = std::slice::from_ref(&x);
        let outcome = interp::run_with(&module, inputs, &interp::Options::default(), &mut RegistryHost(&calls));
        assert!(outcome.unwrap_err().to_string().contains("nobody_has_this"), "{line}");
        let compiled = program(&module, &calls).unwrap().run(&[x.as_array().unwrap()]);
        assert!(compiled.unwrap_err().to_string().contains("nobody_has_this"), "{line}");
    }
}
