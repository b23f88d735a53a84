//! What tools see of compiled code: `addr2line`, `objdump`, linkers, gdb and perf, on objects and on code in memory.
#![allow(clippy::unwrap_used)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel of two instructions, of which the metadata name the origin.
const PROGRAM: &str = r#"HloModule wave

ENTRY main {
  x = f32[1000] parameter(0)
  e = f32[1000] exponential(x), metadata={op_name="jit(wave)/exp" source_file="wave.py" source_line=3}
  ROOT s = f32[1000] sine(e), metadata={op_name="jit(wave)/sin" source_file="wave.py" source_line=4}
}
"#;

const HOST: &str = r#"#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int32_t wave(const void *const *, void *const *, void *, const void *);
static float x[1000], y[1000];
static char workspace[1 << 16] __attribute__((aligned(64)));
int main(int count, char **words) {
    const void *in[] = {x};
    void *out[] = {y};
    int32_t status = 0;
    for (int k = count > 1 ? atoi(words[1]) : 1; k > 0; k--) status = wave(in, out, workspace, 0);
    printf("%d %.3f\n", (int)status, y[0]);
    return 0;
}
"#;

/// Whether a tool is here; says so where it is not.
fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: there is no '{tool}' here");
    }
    found
}

/// Whether gdb is here and may run programs; says so where it is not.
fn have_gdb() -> bool {
    let tried = Command::new("gdb").args(["-nx", "-batch", "-ex", "run", "--args", "true"]).output();
    let found = tried.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("exited normally"));
    if !found {
        eprintln!("SKIPPED: there is no gdb here that may run programs");
    }
    found
}

/// Whether perf is here and may take samples; says so where it is not.
fn have_perf(dir: &Path) -> bool {
    let tried = Command::new("perf").current_dir(dir).args(["record", "-q", "-o", "tried.data", "true"]).output();
    let found = tried.is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("SKIPPED: there is no perf here that may take samples");
    }
    found
}

/// A folder for one test, with the program in it.
fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("wave.hlo"), PROGRAM).unwrap();
    dir
}

/// What a command says that must succeed and warn of nothing.
fn quietly(command: &mut Command) -> String {
    let output = super::start::output(command, "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn brolga(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brolga"));
    command.current_dir(dir);
    command
}

fn compile(dir: &Path, lines: &str) {
    quietly(brolga(dir).args(["compile", "wave.hlo", "-o", "wave.o", "--debug-lines", lines]));
}

/// Links the program with its host, by what `linker` says to `cc`.
fn link(dir: &Path, linker: &[&str], host: &str) {
    std::fs::write(dir.join("host.c"), HOST).unwrap();
    let mut cc = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    cc.current_dir(dir).args(["-Wl,--fatal-warnings", "-o", host, "host.c", "wave.o"]).args(linker);
    quietly(&mut cc);
    assert_eq!(quietly(&mut Command::new(dir.join(host))), "0 0.841\n");
}

/// The addresses of the symbols with a part in their names.
fn addresses(dir: &Path, file: &str, part: &str) -> Vec<String> {
    let symbols = quietly(Command::new("nm").current_dir(dir).arg(file));
    let named = symbols.lines().filter(|line| line.contains(part)).filter_map(|line| line.split(' ').next());
    named.map(str::to_owned).collect()
}

#[test]
fn addr2line_names_the_program_and_what_it_was_made_from() {
    if !have("addr2line") || !have("nm") || !have("cc") {
        return;
    }
    let dir = folder("addr2line");
    for (lines, inner, outer) in [("hlo", "wave.hlo:6", "wave.py:4"), ("source", "wave.py:4", "wave.hlo:6")] {
        compile(&dir, lines);
        link(&dir, &[], "host");
        for file in ["wave.o", "host"] {
            let rows = addresses(&dir, file, ".row0");
            assert!(!rows.is_empty(), "{file} has no rows");
            let said = quietly(Command::new("addr2line").current_dir(&dir).args(["-i", "-f", "-e", file]).args(rows));
            let found: Vec<&str> = said.lines().collect();
            let names = |pair: &[&str]| (pair[0].to_owned(), pair[1].rsplit('/').next().unwrap().to_owned());
            for frames in found.chunks(4) {
                let (instruction, function) = (names(&frames[..2]), names(&frames[2..]));
                assert_eq!(instruction, ("s".to_owned(), inner.to_owned()), "{lines}, {file}: {said}");
                assert!(function.0.starts_with("wave.v") && function.1 == outer, "{lines}, {file}: {said}");
            }
        }
    }
}

#[test]
fn lines_link_without_a_warning() {
    if !have("cc") {
        return;
    }
    let dir = folder("link");
    compile(&dir, "hlo");
    link(&dir, &[], "by-ld");
    if have("ld.lld") {
        link(&dir, &["-fuse-ld=lld"], "by-lld");
    }
    let root = quietly(Command::new("rustc").args(["--print", "sysroot"]));
    let lld = Path::new(root.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
    match lld.join("ld.lld").exists() {
        true => link(&dir, &["-fuse-ld=lld", &format!("-B{}", lld.display())], "by-rust-lld"),
        false => eprintln!("SKIPPED: Rust comes without lld here"),
    }
}

/// What gdb says of a run that stops at a line of the program, with the environment variable `asked` set.
fn gdb(dir: &Path, line: u32, asked: &str, program: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.current_dir(dir).env_remove("BROLGA_GDB").args(["-nx", "-batch", "-ex", "set debuginfod enabled off"]);
    gdb.args(["-ex", "set breakpoint pending on", "-ex", &format!("break wave.hlo:{line}")]);
    gdb.args(["-ex", &format!("set environment {asked} 1"), "-ex", "run", "-ex", "backtrace", "--args"]).args(program);
    let output = super::start::output(&mut gdb, "");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// That a backtrace has frames with these parts, in this order from the innermost outwards.
fn frames(said: &str, parts: &[&str]) {
    let mut trace = said.lines().filter(|line| line.starts_with('#'));
    for part in parts {
        assert!(trace.any(|line| line.contains(part)), "no frame with '{part}': {said}");
    }
}

#[test]
fn gdb_stops_at_a_line_of_a_linked_program() {
    if !have_gdb() || !have("cc") {
        return;
    }
    let dir = folder("gdb-linked");
    compile(&dir, "hlo");
    link(&dir, &[], "host");
    for (line, instruction, origin) in [(5, "e ", "wave.py:3"), (6, "s ", "wave.py:4")] {
        let said = gdb(&dir, line, "NOTHING", &["./host"]);
        frames(&said, &[&format!("wave.hlo:{line}"), origin, "main "]);
        assert!(said.lines().any(|l| l.starts_with("#0") && l.contains(instruction)), "{said}");
    }
}

#[test]
fn gdb_stops_at_a_line_of_code_in_memory() {
    if !have_gdb() {
        return;
    }
    let dir = folder("gdb-memory");
    let run = [env!("CARGO_BIN_EXE_brolga"), "run", "wave.hlo", "--debug-lines=hlo", "--random-seed=1"];
    for line in [5, 6] {
        let said = gdb(&dir, line, "BROLGA_GDB", &run);
        // Through the kernel and the driver to whoever called, up to the start of the process.
        frames(&said, &[&format!("wave.hlo:{line}"), "wave.py:", "brolga_runtime::", "main "]);
    }
    let said = gdb(&dir, 5, "NOTHING", &run);
    assert!(!said.contains("wave.py:"), "gdb is told without being asked: {said}");
}

#[test]
fn objdump_shows_lines_beside_instructions() {
    if !have("objdump") {
        return;
    }
    let dir = folder("objdump");
    compile(&dir, "hlo");
    let said = quietly(Command::new("objdump").current_dir(&dir).args(["-dl", "wave.o"]));
    for part in ["<wave.v3.0.s.0.row0>:", "<wave.v4.0.s.0.row0>:", "wave.hlo:5", "wave.hlo:6"] {
        assert!(said.contains(part), "no '{part}': {said}");
    }
}

/// The share of samples that a line of perf's report gives to what has `part` in its name.
fn share(said: &str, part: &str) -> f64 {
    let lines = said.lines().filter(|line| line.contains(part));
    lines.filter_map(|line| line.trim().split('%').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn perf_knows_the_lines_of_a_linked_program() {
    let dir = folder("perf-linked");
    if !have_perf(&dir) || !have("cc") {
        return;
    }
    compile(&dir, "hlo");
    link(&dir, &[], "host");
    let perf = |arguments: &[&str]| quietly(Command::new("perf").current_dir(&dir).args(arguments));
    perf(&["record", "-q", "-o", "linked.data", "./host", "200000"]);
    let report = |sort: &str| perf(&["report", "--stdio", "-q", "-i", "linked.data", "--sort", sort]);
    let by_name = report("symbol");
    assert!(share(&by_name, ".0.s.0.row0") > 50.0, "{by_name}");
    let by_line = report("srcline");
    assert!(share(&by_line, "wave.hlo:") > 50.0 && by_line.contains("wave.hlo:5"), "{by_line}");
    let annotated = perf(&["annotate", "--stdio", "-l", "-i", "linked.data"]);
    assert!(annotated.contains("wave.hlo:5") && annotated.contains("wave.hlo:6"), "{annotated}");
}

#[test]
fn perf_knows_the_functions_of_code_in_memory() {
    let dir = folder("perf-memory");
    if !have_perf(&dir) {
        return;
    }
    let mut record = Command::new("perf");
    record.current_dir(&dir).env("BROLGA_PERF_MAP", "1").args(["record", "-q", "-o", "memory.data"]);
    quietly(record.args([env!("CARGO_BIN_EXE_brolga"), "bench", "wave.hlo", "--random-seed", "1"]));
    let mut report = Command::new("perf");
    report.current_dir(&dir).args(["report", "--stdio", "-q", "-i", "memory.data", "--sort", "symbol"]);
    let said = quietly(&mut report);
    let mut script = Command::new("perf");
    let pids = quietly(script.current_dir(&dir).args(["script", "-F", "pid", "-i", "memory.data"]));
    let pid = pids.lines().next().map(str::trim).unwrap();
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    assert!(share(&said, "wave.native.0.s.0") > 10.0, "{said}");
}

/// What the section of code holds.
fn code(dir: &Path, objcopy: &str, object: &str) -> Vec<u8> {
    quietly(Command::new(objcopy).current_dir(dir).args(["-O", "binary", "--only-section=.text", object, "code.bin"]));
    std::fs::read(dir.join("code.bin")).unwrap()
}

#[test]
fn assembly_makes_the_same_code_again() {
    let dir = folder("assembly");
    for (triple, tools, instruction) in [
        ("x86_64-unknown-linux-gnu", "", "vmulps"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-", "fmul"),
        ("riscv64gc-unknown-linux-gnu", "riscv64-linux-gnu-", "fmul.s"),
        ("s390x-unknown-linux-gnu", "s390x-linux-gnu-", "meebr"),
        ("x86_64-pc-windows-msvc", "x86_64-w64-mingw32-", "vmulps"),
    ] {
        quietly(brolga(&dir).args(["compile", "wave.hlo", "--target", triple, "--emit=obj=wave.o,asm=wave.s"]));
        let listing = std::fs::read_to_string(dir.join("wave.s")).unwrap();
        assert!(listing.contains(instruction), "{triple} without {instruction}: {listing}");
        let (assembler, objcopy) = (format!("{tools}as"), format!("{tools}objcopy"));
        if !have(&assembler) || !have(&objcopy) {
            continue;
        }
        quietly(Command::new(&assembler).current_dir(&dir).args(["-o", "again.o", "wave.s"]));
        // COFF keeps addends in the code, of relocations that its listing has in comments.
        if !triple.contains("windows") {
            let (again, own) = (code(&dir, &objcopy, "again.o"), code(&dir, &objcopy, "wave.o"));
            // Some assemblers fill the section up to its alignment, with what does nothing.
            let filling = again.strip_prefix(own.as_slice()).unwrap_or_else(|| panic!("{triple}: the code differs"));
            assert!(filling.len() < 64, "{triple}");
        }
    }
}
