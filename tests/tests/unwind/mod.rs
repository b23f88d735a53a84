//! Backtraces from functions that compiled code calls: they go through the program, loaded or linked or opened, up to whoever
//! called it; and from inside a wide row that touches what is out of reach.
#![allow(clippy::unwrap_used)]
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use brolga_compiler::{Artifact, CompileOptions, compile, shape, text};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{ArrayLiteral, Caller, CustomCalls, Program, RunOptions};
use brolga_tests::memory::Room;
use std::backtrace::Backtrace;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const PROGRAM: &str = "HloModule watched
ENTRY main {
  x = f32[] parameter(0)
  y = f32[] custom-call(x), custom_call_target=\"hook\"
  one = f32[] constant(1)
  ROOT z = f32[] add(y, one)
}";

fn compiled() -> Artifact {
    let module = text::parse(PROGRAM).unwrap();
    shape::verify(&module).unwrap();
    let options =
        CompileOptions { name: Some("watched".into()), shared: Some("watched.so".into()), ..CompileOptions::default() };
    compile(&module, &options).unwrap()
}

static SEEN: Mutex<String> = Mutex::new(String::new());

unsafe extern "C" fn hook(out: *mut c_void, operands: *const *const c_void) {
    *SEEN.lock().unwrap() = Backtrace::force_capture().to_string();
    // SAFETY: called with f32[], for f32[].
    unsafe { *out.cast::<f32>() = *(*operands).cast::<f32>() };
}

/// What called the program, by a name that a backtrace has whatever is inlined.
#[inline(never)]
fn caller_of_the_program(program: &Program) -> Vec<ArrayLiteral> {
    std::hint::black_box(program.run(&[&ArrayLiteral::scalar(41.0f32)]).unwrap())
}

#[test]
fn a_backtrace_goes_through_a_loaded_program() {
    let mut calls = CustomCalls::new();
    // SAFETY: the function has the form that the program says.
    unsafe { calls.register_function("hook", hook as *const c_void) };
    let options = LoadOptions { custom_calls: Some(&calls), process_symbols: false, ..LoadOptions::default() };
    let object = compiled().object;
    for _ in 0..3 {
        // Each load has a table of its own, which is forgotten when the program goes.
        let program = Program::from_object_with(&object, &options).unwrap();
        assert_eq!(caller_of_the_program(&program), [ArrayLiteral::scalar(42.0f32)]);
        let seen = std::mem::take(&mut *SEEN.lock().unwrap());
        assert!(seen.contains("caller_of_the_program"), "{seen}");
    }
}

fn folder() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("unwind");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Runs a command that must succeed and say nothing of warnings.
fn quietly(command: &mut Command, what: &str) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{what}: {said}");
}

fn runs(program: &mut Command, what: &str) {
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0 42", "{what}: {said}");
}

/// What makes `cc` link with each linker that is here: the system's, and the one that comes with Rust.
fn linkers() -> Vec<(&'static str, Vec<String>)> {
    let mut all = vec![("ld", Vec::new())];
    let root = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let root = String::from_utf8(root.stdout).unwrap();
    let lld = Path::new(root.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
    match lld.join("ld.lld").exists() {
        true => all.push(("lld", vec!["-fuse-ld=lld".into(), format!("-B{}", lld.display())])),
        false => eprintln!("SKIPPED the part with lld: Rust comes without it here"),
    }
    all
}

#[test]
fn backtraces_go_through_linked_programs_and_libraries() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no C compiler '{compiler}': nothing is linked");
        return;
    }
    let dir = folder();
    let artifact = compiled();
    std::fs::write(dir.join("watched.o"), &artifact.object).unwrap();
    std::fs::write(dir.join("watched.so"), artifact.shared.unwrap()).unwrap();
    std::fs::write(dir.join("host.c"), include_str!("host.c")).unwrap();
    let cc = |linker: &[String], arguments: &[&str]| {
        let mut command = Command::new(&compiler);
        command.current_dir(&dir).args(["-O1", "-Wl,--fatal-warnings"]).args(linker).args(arguments);
        command
    };
    for (name, linker) in linkers() {
        let linked = format!("linked-{name}");
        quietly(&mut cc(&linker, &["-o", &linked, "host.c", "watched.o", "-ldl"]), name);
        runs(&mut Command::new(dir.join(&linked)), name);
        // The object goes into a library that a linker makes, too.
        let library = format!("by-{name}.so");
        quietly(&mut cc(&linker, &["-shared", "-o", &library, "watched.o"]), name);
        let host = format!("host-{name}");
        quietly(&mut cc(&linker, &["-rdynamic", "-o", &host, "host.c", "-ldl"]), name);
        runs(Command::new(dir.join(&host)).arg(dir.join(&library)), name);
        runs(Command::new(dir.join(&host)).arg(dir.join("watched.so")), name);
    }
}

/// Rows in registers, and nothing else.
const ROWS: &str = "HloModule rows
ENTRY main {
  x = f32[10000] parameter(0)
  ROOT y = f32[10000] tanh(x)
}";

/// Set where a process is there to be stopped.
const CHILD: &str = "BROLGA_STOPPED_IN_A_ROW";

/// As [`caller_of_the_program`].
#[inline(never)]
fn caller_of_the_rows(caller: &mut Caller, parameter: *const c_void, result: *mut c_void) {
    // SAFETY: room for as many results; what cannot be read stops the process, which waits for that.
    std::hint::black_box(unsafe { caller.call(&[parameter], &[result]) }).unwrap();
}

/// Ends a process that has touched what is out of reach: with 0 where an instruction for more than 128 bits did, and a backtrace
/// finds who called the program.
extern "C" fn stopped(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives the registers of what it stopped.
    let at = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
    // SAFETY: an instruction that was executed, and what belongs to its function or the next.
    let wide = match unsafe { *(at as *const [u8; 4]) } {
        [0xc5, last, ..] | [0xc4, _, last, _] => last & 0x04 != 0,
        [0x62, _, _, last] => last & 0x60 != 0,
        _ => false,
    };
    let seen = Backtrace::force_capture().to_string();
    eprintln!("wide: {wide}\n{seen}");
    // SAFETY: nothing comes after it.
    unsafe { libc::_exit(i32::from(!(wide && seen.contains("caller_of_the_rows")))) }
}

/// Not a test of its own: what [`a_backtrace_begins_inside_a_wide_row`] starts.
#[test]
fn child_that_is_stopped_in_a_wide_row() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let options = CompileOptions { wide_work: Some(0), ..CompileOptions::default() };
    let program = Program::from_object(&compile(&text::parse(ROWS).unwrap(), &options).unwrap().object).unwrap();
    let mut caller = Caller::new(&program, &RunOptions::default()).unwrap();
    // Fewer elements than the program reads.
    let parameter = Room::new(1 << 14);
    let mut result = vec![0f32; 10_000];
    // SAFETY: zeros are no flags and no mask of signals.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO;
    action.sa_sigaction = stopped as *const () as usize;
    // SAFETY: a handler of that form, which does not return.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) }, 0);
    caller_of_the_rows(&mut caller, parameter.bytes().as_ptr().cast(), result.as_mut_ptr().cast());
    panic!("nothing was out of reach");
}

#[test]
fn a_backtrace_begins_inside_a_wide_row() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        eprintln!("SKIPPED: this machine has no registers wider than 128 bits");
        return;
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::child_that_is_stopped_in_a_wide_row")])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("wide: true"), "{}: {said}", output.status);
}
