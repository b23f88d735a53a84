//! Functions of the host in a compiled program: two that the linker finds, then a closure in their place.

use brolga_compiler::{CompileOptions, compile, text};
use brolga_runtime::custom_call::{XlaCustomCallStatus, XlaCustomCallStatusSetFailure};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{ArrayLiteral, CustomCalls, Program};
use std::ffi::{c_char, c_void};

mod model {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/smooth.rs"));
}

const MODULE: &str = include_str!("../model/smooth.hlo");

/// The sum of both neighbours: a plain function, called directly. A panic here would abort the process.
///
/// # Safety
/// As the program calls it: `f32[8]` in, `f32[8]` out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn example_neighbours(out: *mut c_void, operands: *const *const c_void) {
    // SAFETY: the program passes arrays of eight numbers.
    let (x, y) = unsafe { (&*(*operands).cast::<[f32; 8]>(), &mut *out.cast::<[f32; 8]>()) };
    for (i, y) in y.iter_mut().enumerate() {
        *y = x[(i + 7) % 8] + x[(i + 1) % 8];
    }
}

/// A copy, unless a number is larger than the text says: a function that can fail.
///
/// # Safety
/// As the program calls it: `f32[8]` in, `f32[8]` out, and a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn example_checked(
    out: *mut c_void,
    operands: *const *const c_void,
    opaque: *const c_char,
    length: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the program passes arrays of eight numbers, the text and the status.
    unsafe {
        let x = &*(*operands).cast::<[f32; 8]>();
        let text = std::slice::from_raw_parts(opaque.cast::<u8>(), length);
        let limit = std::str::from_utf8(text).ok().and_then(|t| t.parse::<f32>().ok()).unwrap_or(0.0);
        if let Some(large) = x.iter().find(|&&v| v > limit) {
            let message = format!("{large} is larger than {limit}");
            XlaCustomCallStatusSetFailure(status, message.as_ptr().cast(), message.len());
        }
        *out.cast::<[f32; 8]>() = *x;
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The program that `build.rs` compiled and linked.
fn linked(x: &[f32; 8]) -> Outcome<[f32; 8]> {
    let mut out = [0.0; 8];
    model::Smooth::new()?.run(x, &mut out)?;
    Ok(out)
}

/// The same module compiled here, with closures for its functions.
fn in_memory() -> Outcome<Program> {
    let mut calls = CustomCalls::new();
    calls.register("example_neighbours", |call| {
        let x = call.operand::<f32>(0)?;
        let mut y = call.result_mut::<f32>(0)?;
        for (i, y) in y.as_mut_slice().iter_mut().enumerate() {
            *y = x.at(&[(i + 7) % 8]).ok_or("outside")? + x.at(&[(i + 1) % 8]).ok_or("outside")?;
        }
        Ok(())
    });
    calls.register("example_checked", |call| {
        let limit: f32 = std::str::from_utf8(call.opaque())?.parse()?;
        let x = call.operand::<f32>(0)?;
        assert!(!x.as_slice()[0].is_nan(), "a closure may panic");
        if let Some(large) = x.as_slice().iter().find(|&&v| v > limit) {
            return Err(format!("{large} is larger than {limit}").into());
        }
        call.result_mut::<f32>(0)?.as_mut_slice().copy_from_slice(x.as_slice());
        Ok(())
    });
    let artifact = compile(&text::parse(MODULE)?, &CompileOptions::default())?;
    let options = LoadOptions { custom_calls: Some(&calls), ..LoadOptions::default() };
    Ok(Program::from_object_with(&artifact.object, &options)?)
}

fn main() -> Outcome<()> {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let large = x.map(|v| 100.0 * v);
    let first = linked(&x)?;
    println!("linked functions: {first:?}");
    match linked(&large) {
        Err(error) => println!("linked functions: {error}"),
        Ok(_) => return Err("expected a failure".into()),
    }
    let program = in_memory()?;
    let run = |x: &[f32; 8]| program.run(&[&ArrayLiteral::from_elements(&[8], x)]);
    let second = run(&x)?;
    println!("closures:         {:?}", second[0].as_slice::<f32>());
    for bad in [large, [f32::NAN; 8]] {
        match run(&bad) {
            Err(error) => println!("closures:         {error}"),
            Ok(_) => return Err("expected a failure".into()),
        }
    }
    // What failed has left nothing behind.
    let again = run(&x)?;
    if second != again || again[0].as_slice::<f32>() != first {
        return Err("the results differ".into());
    }
    println!("both agree");
    Ok(())
}
