//! Objects in COFF and Mach-O: the linkers of Windows and macOS, which come with Rust, make libraries of them. Those of x86-64 are
//! mapped and called here, as the C compilers of those systems call functions.
#![allow(clippy::unwrap_used)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::{Artifact, CompileOptions, compile, shape, text};
use brolga_runtime::abi::{ABI_VERSION, Context, ParallelFor, Service};
use brolga_runtime::{ArrayLiteral, Program};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rows in wide registers, a product in tiles, and loops that are cut into tasks.
const PROGRAM: &str = "HloModule sample
ENTRY main {
  x = f32[200,100] parameter(0)
  w = f32[100,300] parameter(1)
  s = f32[200,100] sine(x)
  d = f32[200,300] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[200,300] exponential(d)
}";

fn compiled(target: TargetOptions) -> Artifact {
    let module = text::parse(PROGRAM).unwrap();
    shape::verify(&module).unwrap();
    compile(&module, &CompileOptions { target, parallel_grain: Some(64), ..CompileOptions::default() }).unwrap()
}

/// The linker that comes with Rust; says so where it does not.
fn linker() -> Option<PathBuf> {
    let root = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let root = String::from_utf8(root.stdout).unwrap();
    let lld = Path::new(root.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
    if !lld.exists() {
        eprintln!("SKIPPED: Rust comes without lld here");
        return None;
    }
    Some(lld)
}

/// Links the program for `triple` as a library; gives its file.
fn linked(lld: &Path, triple: &str, artifact: &Artifact) -> Vec<u8> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("formats").join(triple);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("sample.obj"), &artifact.object).unwrap();
    let mut command = Command::new(lld);
    command.current_dir(&dir);
    if triple.contains("windows") {
        command.args(["-flavor", "link", "/dll", "/nodefaultlib", "/entry:sample", "/out:library", "sample.obj"]);
    } else {
        let arch = if triple.starts_with("aarch64") { "arm64" } else { "x86_64" };
        command.args(["-flavor", "darwin", "-dylib", "-arch", arch, "-platform_version", "macos", "11.0", "11.0"]);
        command.args(["-o", "library", "sample.obj"]);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{triple}: {}", String::from_utf8_lossy(&said));
    std::fs::read(dir.join("library")).unwrap()
}

fn number<const N: usize>(file: &[u8], at: usize) -> usize {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&file[at..at + N]);
    usize::try_from(u64::from_le_bytes(bytes)).unwrap()
}

/// What is mapped where: the place in the image, and in the file with its size.
type Piece = (usize, std::ops::Range<usize>);

/// The size of a library for Windows, its pieces, and where its entry is.
fn of_pe(file: &[u8]) -> (usize, Vec<Piece>, usize) {
    let header = number::<4>(file, 0x3c);
    let optional = header + 24;
    let sections = optional + number::<2>(file, header + 20);
    let piece = |k: usize| {
        let at = sections + 40 * k;
        let (size, start) = (number::<4>(file, at + 8).min(number::<4>(file, at + 16)), number::<4>(file, at + 20));
        (number::<4>(file, at + 12), start..start + size)
    };
    let pieces = (0..number::<2>(file, header + 6)).map(piece).collect();
    (number::<4>(file, optional + 56), pieces, number::<4>(file, optional + 16))
}

/// The same of a library for macOS.
fn of_macho(file: &[u8]) -> (usize, Vec<Piece>, usize) {
    const SEGMENT: usize = 0x19;
    const SYMBOLS: usize = 2;
    let (mut end, mut pieces, mut entry, mut at) = (0, Vec::new(), None, 32);
    for _ in 0..number::<4>(file, 16) {
        match number::<4>(file, at) {
            SEGMENT => {
                let (place, start) = (number::<8>(file, at + 24), number::<8>(file, at + 40));
                end = end.max(place + number::<8>(file, at + 32));
                pieces.push((place, start..start + number::<8>(file, at + 48)));
            }
            SYMBOLS => {
                let (symbols, names) = (number::<4>(file, at + 8), number::<4>(file, at + 16));
                let symbols = (0..number::<4>(file, at + 12)).map(|k| symbols + 16 * k);
                let mut named = symbols.filter(|s| file[names + number::<4>(file, *s)..].starts_with(b"_sample\0"));
                entry = named.next().map(|symbol| number::<8>(file, symbol + 8));
            }
            _ => {}
        }
        at += number::<4>(file, at + 4);
    }
    (end, pieces, entry.unwrap())
}

/// An image in memory, which may be run and written to.
struct Image {
    memory: *mut u8,
    size: usize,
}

impl Image {
    fn new(file: &[u8], size: usize, pieces: &[Piece]) -> Image {
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: new memory, which nobody else has.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), size, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        let memory = memory.cast::<u8>();
        for (place, bytes) in pieces {
            assert!(place + bytes.len() <= size);
            // SAFETY: the piece lies inside of the memory, by the line above.
            unsafe { memory.add(*place).copy_from(file[bytes.clone()].as_ptr(), bytes.len()) };
        }
        Image { memory, size }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped, and nobody runs it any more.
        unsafe { libc::munmap(self.memory.cast(), self.size) };
    }
}

type Buffers = (*const *const c_void, *const *mut c_void, *mut c_void, *const Context);

/// Parallel loops, as both kinds of hosts offer them; the context's `host` counts tasks.
macro_rules! host {
    ($convention:tt, $call:ident, $parallel_for:ident) => {
        extern $convention fn $parallel_for(
            host: *mut c_void,
            tasks: i64,
            body: extern $convention fn(*mut c_void, i64, i64) -> i32,
            arg: *mut c_void,
        ) -> i32 {
            // SAFETY: `check` lends a number.
            unsafe { *host.cast::<i64>() += tasks };
            (0..tasks).map(|task| body(arg, task, task % 2)).find(|&status| status != 0).unwrap_or(0)
        }

        /// # Safety
        /// `at` is the entry of a program whose buffers these are.
        unsafe fn $call(at: *const u8, (parameters, results, workspace, cx): Buffers) -> i32 {
            type Entry =
                extern $convention fn(*const *const c_void, *const *mut c_void, *mut c_void, *const Context) -> i32;
            // SAFETY: the caller says so.
            let entry = unsafe { std::mem::transmute::<*const u8, Entry>(at) };
            entry(parameters, results, workspace, cx)
        }
    };
}
host!("win64", call_win64, parallel_for_win64);
host!("sysv64", call_sysv64, parallel_for_sysv64);

/// Runs the program in an image, without a context and with one, and compares.
fn check(
    artifact: &Artifact,
    call: unsafe fn(*const u8, Buffers) -> i32,
    parallel_for: *const c_void,
    entry: *const u8,
) {
    let of = |n: usize| -> Vec<f32> { (0..n).map(|k| (k % 97) as f32 / 97.0 - 0.5).collect() };
    let (x, w) = (of(200 * 100), of(100 * 300));
    let literals = [ArrayLiteral::from_elements(&[200, 100], &x), ArrayLiteral::from_elements(&[100, 300], &w)];
    let here = compiled(TargetOptions { variant: Some(artifact.descriptor.variant), ..TargetOptions::native() });
    let expected = Program::from_object(&here.object).unwrap().run(&[&literals[0], &literals[1]]).unwrap();
    let room = usize::try_from(artifact.descriptor.workspace_size(2).unwrap()).unwrap();
    let mut workspace = vec![0u8; room + 64];
    let workspace = workspace.as_mut_ptr();
    let workspace = workspace.wrapping_add(workspace.align_offset(64)).cast::<c_void>();
    let mut tasks = 0i64;
    // SAFETY: one pointer for another, of a function that programs of this kind call with these arguments.
    let parallel_for = unsafe { std::mem::transmute::<*const c_void, Option<ParallelFor>>(parallel_for) };
    let cx = Context {
        size: size_of::<Context>() as u32,
        abi_version: ABI_VERSION,
        random_seed: 0,
        host: (&raw mut tasks).cast(),
        workers: 2,
        reserved: 0,
        parallel_for,
        unused: [std::ptr::null(); 2],
        report: None,
        resources: std::ptr::null(),
        library: [None; Service::COUNT],
    };
    for context in [std::ptr::null(), &raw const cx] {
        let mut y = vec![0f32; 200 * 300];
        let parameters = [x.as_ptr().cast::<c_void>(), w.as_ptr().cast()];
        let results = [y.as_mut_ptr().cast::<c_void>()];
        // SAFETY: the buffers are those of the program, as PROGRAM says, and the workspace has its size for two workers.
        let status = unsafe { call(entry, (parameters.as_ptr(), results.as_ptr(), workspace, context)) };
        assert_eq!(status, 0);
        assert_eq!(y, expected[0].as_slice::<f32>());
    }
    assert!(tasks > 1, "{tasks}");
}

#[test]
fn linkers_of_other_systems_take_the_objects() {
    let Some(lld) = linker() else { return };
    for triple in ["aarch64-pc-windows-msvc", "aarch64-apple-darwin"] {
        let target = TargetOptions { triple: Some(triple.into()), ..TargetOptions::default() };
        linked(&lld, triple, &compiled(target));
    }
    for triple in ["x86_64-pc-windows-msvc", "x86_64-apple-darwin"] {
        // The level that every processor has, and those that are asked for.
        for cpu in [Some("x86-64".to_owned()), None] {
            let asks = cpu.is_none();
            let artifact = compiled(TargetOptions { triple: Some(triple.into()), cpu, ..TargetOptions::default() });
            let file = linked(&lld, triple, &artifact);
            let windows = triple.contains("windows");
            let (size, pieces, entry) = if windows { of_pe(&file) } else { of_macho(&file) };
            let image = Image::new(&file, size, &pieces);
            let entry = image.memory.wrapping_add(entry);
            if asks && !std::is_x86_feature_detected!("fma") {
                eprintln!("SKIPPED: the processor has no level of the object");
            } else if windows {
                check(&artifact, call_win64, parallel_for_win64 as *const c_void, entry);
            } else {
                check(&artifact, call_sysv64, parallel_for_sysv64 as *const c_void, entry);
            }
        }
    }
}

/// The instructions of each function of an assembly, by its name.
fn functions(asm: &str) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in asm.lines() {
        if let Some(name) = line.strip_suffix(':') {
            all.push((name, Vec::new()));
        } else if let Some((_, comment)) = line.split_once("/* ")
            && let Some((_, instruction)) = comment.trim_end_matches(" */").split_once(": ")
            && let Some((_, all)) = all.last_mut()
        {
            all.push(instruction);
        }
    }
    all
}

/// Of `xmm6` to `xmm15`, those that a function may leave changed: it writes them, or calls a function that may, and has not put them aside
/// before and taken them back at every end.
fn left_changed(instructions: &[&str]) -> Vec<usize> {
    let calls = instructions.iter().any(|i| i.starts_with("call"));
    let ends = instructions.iter().filter(|i| i.starts_with("ret")).count();
    let touched = |n: usize| {
        let names = ["xmm", "ymm", "zmm"].map(|kind| format!("{kind}{n}"));
        let is = |operand: &str| names.iter().any(|name| name == operand);
        calls || instructions.iter().any(|i| i.split([' ', ',', '{']).any(is))
    };
    let kept = |n: usize| {
        let (aside, back) = (format!("],xmm{n}"), format!(" xmm{n},[rsp"));
        let first = instructions.iter().position(|i| i.starts_with("call")).unwrap_or(instructions.len());
        let saves = instructions[..first].iter().filter(|i| i.ends_with(&aside)).count();
        saves == 1 && instructions.iter().filter(|i| i.contains(&back)).count() == ends
    };
    (6..16).filter(|&n| touched(n) && !kept(n)).collect()
}

/// Functions that hosts of Windows call leave the registers as they were that their callers own there, whatever the functions of the System V
/// convention do that they call.
#[test]
fn callers_on_windows_find_their_registers_unchanged() {
    let triple = Some("x86_64-pc-windows-msvc".into());
    for cpu in ["x86-64-v3", "x86-64-v4", "x86-64-v3,x86-64-v4"] {
        let target = TargetOptions { triple: triple.clone(), cpu: Some(cpu.into()), ..TargetOptions::default() };
        let module = text::parse(PROGRAM).unwrap();
        let options =
            CompileOptions { target, parallel_grain: Some(64), keep_texts: true, ..CompileOptions::default() };
        let artifact = compile(&module, &options).unwrap();
        let all = functions(&artifact.asm);
        let own =
            |name: &str| name == "sample" || ["sample.v3", "sample.v4"].contains(&name) || name.ends_with(".task");
        let (called, inside): (Vec<_>, Vec<_>) = all.iter().partition(|(name, _)| own(name));
        assert_eq!(called.len(), if cpu.contains(',') { 5 } else { 3 }, "{cpu}: {:?}", all.iter().map(|f| f.0));
        for (name, instructions) in called {
            assert_eq!(left_changed(instructions), [0; 0], "{cpu}: {name}");
        }
        // What is called inside does change them: the check can see it.
        assert!(inside.iter().any(|(_, instructions)| left_changed(instructions).len() == 10), "{cpu}");
    }
}
