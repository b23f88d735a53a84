//! Programs for other machines, run under qemu's user mode, those for Windows under Wine, and compared with what this machine computes.
//!
//! **Problem.** What is compiled for another processor can be wrong in ways that no look at the object shows.
//!
//! **Invariant.** The element values of a program are those of the same program, of the same numeric variant, compiled for the
//! machine at hand and run in memory. NaN payloads aside, they are the same bits.
//!
//! **Algorithm.** All samples are compiled for both machines. The objects for the other one go into one static program with a host
//! in C (`host.c`), which the distribution's cross compiler links and qemu runs: each sample once without a context, once with a
//! table of services that has parallel loops. A sample that ends the process is a failure, and the rest runs without it. What needs
//! the runtime's own library services (Fourier transforms, factorizations, feeds, devices) is linked and not run. Where shared
//! libraries are written for the machine, the same samples of some types run from those too, opened by the dynamic linker.

mod reference;
pub mod samples;

use crate::process::{self, End};
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::object::c_abi;
use brolga_compiler::{CompileOptions, Error, compile};
use brolga_runtime::abi::{DescriptorInfo, Leaf, NumericVariant};
use reference::Reference;
use samples::Sample;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A machine that an emulator can be, with the tools of the distribution's packages.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// What programs are compiled for.
    pub triple: &'static str,
    /// The cross compiler.
    pub gcc: &'static str,
    /// The emulator.
    pub emulator: &'static str,
    /// Where its dynamic linker is, if shared libraries are written for it.
    pub libraries: Option<&'static str>,
}

/// The machines.
pub const MACHINES: [Machine; 4] = [
    Machine {
        triple: "aarch64-unknown-linux-gnu",
        gcc: "aarch64-linux-gnu-gcc",
        emulator: "qemu-aarch64",
        libraries: Some("/usr/aarch64-linux-gnu"),
    },
    Machine {
        triple: "riscv64gc-unknown-linux-gnu",
        gcc: "riscv64-linux-gnu-gcc",
        emulator: "qemu-riscv64",
        libraries: None,
    },
    Machine { triple: "s390x-unknown-linux-gnu", gcc: "s390x-linux-gnu-gcc", emulator: "qemu-s390x", libraries: None },
    Machine { triple: "x86_64-pc-windows-msvc", gcc: "x86_64-w64-mingw32-gcc", emulator: "wine64", libraries: None },
];

impl Machine {
    /// The tools that are not here.
    pub fn missing(&self) -> Vec<&'static str> {
        [self.gcc, self.emulator].into_iter().filter(|tool| !is_here(tool)).collect()
    }

    fn is_windows(&self) -> bool {
        self.triple.contains("windows")
    }

    /// The linked host.
    fn host(&self) -> &'static str {
        if self.is_windows() { "./host.exe" } else { "./host" }
    }
}

fn is_here(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// What became of the samples.
#[derive(Debug, Default)]
pub struct Report {
    /// Samples with the same results, without a context and with one.
    pub agree: usize,
    /// As many of them agree from shared libraries.
    pub libraries: usize,
    /// Samples that are linked and not run, for they need services that the host has not.
    pub linked: usize,
    /// Samples that have no compiled form on any machine.
    pub uncompiled: usize,
    /// The names of the others, and what is wrong with them.
    pub failures: Vec<(String, String)>,
}

/// A sample that is compiled.
struct Built<'s> {
    sample: &'s Sample,
    object: Vec<u8>,
    library: Option<Vec<u8>>,
    descriptor: DescriptorInfo,
    reference: Reference,
}

/// What the host says of a sample that it does not run, and of one that writes behind a buffer.
const LEFT_OUT: u8 = 200;
const BEYOND: u8 = 201;

/// How long all samples together may run: some twenty times what they take, for a program that hangs, not one that is slow.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs samples on a machine; files go to the folder.
///
/// # Errors
/// Where files cannot be written, and where the host cannot be linked.
pub fn run(machine: &Machine, samples: &[Sample], folder: &Path) -> Result<Report, String> {
    let mut report = Report::default();
    let built = build(machine, samples, &mut report);
    let all: Vec<&Built<'_>> = built.iter().collect();
    link(machine, &all, folder)?;
    let mut command = Command::new(machine.emulator);
    let tally = emulate(command.arg(machine.host()), &all, folder)?;
    (report.agree, report.linked) = (tally.agree, tally.linked);
    report.failures.extend(tally.failures);
    let with_library: Vec<&Built<'_>> = built.iter().filter(|b| b.library.is_some()).collect();
    if let (Some(root), false) = (machine.libraries, with_library.is_empty()) {
        let folder = folder.join("libraries");
        std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        write_libraries(machine, &with_library, &folder)?;
        let mut command = Command::new(machine.emulator);
        let tally = emulate(command.args(["-L", root, "./host"]), &with_library, &folder)?;
        report.libraries = tally.agree;
        let named = |(name, what)| (name, format!("from a shared library: {what}"));
        report.failures.extend(tally.failures.into_iter().map(named));
    }
    Ok(report)
}

/// Samples counted.
#[derive(Default)]
struct Tally {
    agree: usize,
    linked: usize,
    failures: Vec<(String, String)>,
}

/// Runs the host in its folder, as often as samples end it.
fn emulate(command: &mut Command, built: &[&Built<'_>], folder: &Path) -> Result<Tally, String> {
    let mut inputs = Vec::new();
    for b in built {
        for (leaf, bytes) in b.descriptor.parameters.iter().zip(&b.reference.parameters) {
            inputs.extend(ordered(&b.descriptor, leaf, bytes));
        }
    }
    std::fs::write(folder.join("inputs"), inputs).map_err(|e| e.to_string())?;
    let (program, leading) = (command.get_program().to_owned(), command.get_args().map(Into::into));
    let leading: Vec<std::ffi::OsString> = leading.collect();
    let mut tally = Tally::default();
    let mut first = 0;
    while first < built.len() {
        let mut command = Command::new(&program);
        command.args(&leading).args(["inputs", "outputs", &first.to_string()]).current_dir(folder);
        let log = folder.join("log");
        let end = process::run(&mut command, &log, LIMIT).map_err(|e| e.to_string())?;
        let outputs = std::fs::read(folder.join("outputs")).map_err(|e| e.to_string())?;
        let mut rest = outputs.as_slice();
        for b in &built[first..] {
            first += 1;
            let Some(outcome) = b.outcome(&mut rest) else {
                let words = std::fs::read_to_string(&log).unwrap_or_default();
                tally.failures.push((b.sample.name.clone(), format!("it does not come back: {end:?} {words}")));
                break;
            };
            match outcome {
                Ok(true) => tally.agree += 1,
                Ok(false) => tally.linked += 1,
                Err(what) => tally.failures.push((b.sample.name.clone(), what)),
            }
        }
        if end == End::TimeOut {
            tally.failures.push(("all".to_owned(), format!("the samples take more than {LIMIT:?}")));
            break;
        }
    }
    Ok(tally)
}

/// Compiles the samples, on the processors that there are.
fn build<'s>(machine: &Machine, samples: &'s [Sample], report: &mut Report) -> Vec<Built<'s>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(sample) = samples.get(number) else { return };
                    let built = Built::new(machine, number, sample);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, built));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let mut all = Vec::new();
    for (number, built) in done {
        match built {
            Ok(Some(built)) => all.push(built),
            Ok(None) => report.uncompiled += 1,
            Err(what) => report.failures.push((samples[number].name.clone(), what)),
        }
    }
    all
}

impl<'s> Built<'s> {
    /// The object of a sample and what it is to compute; `None` where neither machine has a form for it.
    fn new(machine: &Machine, number: usize, sample: &'s Sample) -> Result<Option<Built<'s>>, String> {
        let options = CompileOptions {
            name: Some(format!("sample{number}")),
            strict_rounding: sample.strict_rounding,
            // So that the loops of most samples are cut into tasks.
            parallel_grain: Some(64),
            threads: 1,
            ..CompileOptions::default()
        };
        // A quarter of the samples has no fused multiply-adds.
        let variant = (number % 4 == 3).then_some(NumericVariant::Plain);
        let target = TargetOptions { triple: Some(machine.triple.to_owned()), variant, ..TargetOptions::default() };
        // Of the other types' samples the code is the same in a library as in the object.
        let shared = machine.libraries.filter(|_| !sample.name.contains(" of ") || sample.name.ends_with(" of f32"));
        let shared = shared.map(|_| format!("sample{number}.so"));
        let theirs = compile(&sample.module, &CompileOptions { target, shared, ..options.clone() });
        let variant = theirs.as_ref().ok().map(|artifact| artifact.descriptor.variant);
        let target = TargetOptions { variant, ..TargetOptions::native() };
        let ours = compile(sample.reference.as_ref().unwrap_or(&sample.module), &CompileOptions { target, ..options });
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                let reference = Reference::new(&ours, sample)?;
                let (object, library, descriptor) = (theirs.object, theirs.shared, theirs.descriptor);
                Ok(Some(Built { sample, object, library, descriptor, reference }))
            }
            (Err(Error::Unsupported { .. }), Err(Error::Unsupported { .. })) => Ok(None),
            (Err(e), _) => Err(format!("it does not compile: {e}")),
            (Ok(_), Err(e)) => Err(format!("it does not compile for this machine: {e}")),
        }
    }

    /// Takes what the host wrote of both runs: whether they agree with the reference, or were left out. `None` where something
    /// is missing.
    fn outcome(&self, outputs: &mut &[u8]) -> Option<Result<bool, String>> {
        let mut outcome = Ok(true);
        for way in ["without a context", "in parallel"] {
            let found = self.run_outcome(outputs)?;
            let found = found.map_err(|what| format!("{way}: {what}"));
            outcome = outcome.and_then(|all| found.map(|this| all && this));
        }
        Some(outcome)
    }

    fn run_outcome(&self, outputs: &mut &[u8]) -> Option<Result<bool, String>> {
        let (&status, rest) = outputs.split_first()?;
        *outputs = rest;
        if status == LEFT_OUT {
            return Some(Ok(false));
        }
        if status == BEYOND {
            return Some(Err("it writes behind a buffer".to_owned()));
        }
        if status != 0 {
            let wanted = self.reference.results.is_err();
            return Some(if wanted { Ok(true) } else { Err(format!("it returns {status}")) });
        }
        let mut results = Vec::new();
        for leaf in &self.descriptor.results {
            let bytes = outputs.get(..leaf.byte_size() as usize)?;
            *outputs = &outputs[bytes.len()..];
            results.push(ordered(&self.descriptor, leaf, bytes));
        }
        Some(self.reference.compare(&self.descriptor.results, &results).map(|()| true))
    }
}

/// Links the host with all objects, and the objects alone as a library.
fn link(machine: &Machine, built: &[&Built<'_>], folder: &Path) -> Result<(), String> {
    let (mut objects, mut for_library) = (String::new(), String::new());
    let big_endian = built.iter().any(|b| b.descriptor.architecture.is_big_endian());
    for Built { object, descriptor, .. } in built {
        let name = format!("{}.o", descriptor.entry);
        std::fs::write(folder.join(&name), object).map_err(|e| e.to_string())?;
        let _ = writeln!(objects, "{name}");
        // On s390x the address of an undefined function is a distance, which no library can have.
        if !big_endian || descriptor.custom_calls.is_empty() {
            let _ = writeln!(for_library, "{name}");
        }
    }
    for (name, list) in [("objects", objects), ("for_library", for_library)] {
        std::fs::write(folder.join(name), list).map_err(|e| e.to_string())?;
    }
    write_host(built, folder)?;
    tool(machine.gcc, &[&C[..], &["-static", "-o", "host", "host.c", "@objects"]].concat(), folder)?;
    if machine.is_windows() {
        return Ok(());
    }
    // Both linkers make a library of them, and nothing in its code is left to the dynamic linker.
    let library = ["-shared", "-z", "text", "-o", "samples.so", "@for_library"];
    tool(&machine.gcc.replace("-gcc", "-ld"), &library, folder)?;
    // Of the machines, lld knows those that are not big-endian; versions before 18 do.
    if is_here("ld.lld") && !big_endian { tool("ld.lld", &library, folder) } else { Ok(()) }
}

/// Writes the shared libraries, and links the host that opens them.
fn write_libraries(machine: &Machine, built: &[&Built<'_>], folder: &Path) -> Result<(), String> {
    for Built { library, descriptor, .. } in built {
        let path = folder.join(format!("{}.so", descriptor.entry));
        std::fs::write(path, library.as_deref().unwrap_or_default()).map_err(|e| e.to_string())?;
    }
    write_host(built, folder)?;
    let arguments = ["-DLIBRARIES", "-rdynamic", "-o", "host", "host.c", "-ldl"];
    tool(machine.gcc, &[&C[..], &arguments].concat(), folder)
}

/// How C is compiled.
const C: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"];

/// Runs a tool in a folder; it is to say nothing.
fn tool(name: &str, arguments: &[&str], folder: &Path) -> Result<(), String> {
    let output = Command::new(name).args(arguments).current_dir(folder).output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() && output.stderr.is_empty() {
        Ok(())
    } else {
        Err(format!("{name} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
    }
}

/// Writes the host and the header with its table of programs.
fn write_host(built: &[&Built<'_>], folder: &Path) -> Result<(), String> {
    let mut header = "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n".to_owned();
    header.push_str(&c_abi());
    let mut table = "#define PROGRAMS".to_owned();
    for Built { descriptor, .. } in built {
        let name = &descriptor.entry;
        let parameters = "const void *const *, void *const *, void *, const brolga_context *";
        let _ =
            writeln!(header, "extern int32_t {name}({parameters});\nextern const brolga_descriptor {name}_descriptor;");
        let _ = write!(table, " \\\n    PROGRAM({name})");
    }
    let _ = writeln!(header, "{table}");
    for (name, text) in [("programs.h", header.as_str()), ("host.c", include_str!("host.c"))] {
        std::fs::write(folder.join(name), text).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The bytes of a leaf, each number in the other order where the machine is big-endian.
fn ordered(descriptor: &DescriptorInfo, leaf: &Leaf, bytes: &[u8]) -> Vec<u8> {
    let (elements, sizes) = parts(leaf, bytes);
    let reversed = |bytes: &[u8], size: usize| -> Vec<u8> {
        bytes.chunks(size).flat_map(|number| number.iter().rev().copied()).collect()
    };
    if descriptor.architecture.is_big_endian() {
        [reversed(elements, leaf.shape.ty.real_part().byte_size()), reversed(sizes, 4)].concat()
    } else {
        bytes.to_vec()
    }
}

/// The bytes of a leaf's elements, and those of its true sizes behind them.
fn parts<'b>(leaf: &Leaf, bytes: &'b [u8]) -> (&'b [u8], &'b [u8]) {
    let sizes = if leaf.shape.is_dynamic() { 4 * leaf.shape.rank() } else { 0 };
    bytes.split_at(bytes.len().saturating_sub(sizes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use brolga_runtime::abi::Architecture;
    use brolga_runtime::{ArrayShape, ElementType};

    /// Two results, `f16[3]` and `s32[2]`, that are to be 1, NaN, 2 and 3, 4.
    fn with_built(check: impl Fn(&Built<'_>)) {
        let samples = samples::all(1, 1);
        let sample = samples.last().unwrap();
        let mut descriptor = DescriptorInfo::new("sample", Architecture::Aarch64);
        descriptor.results =
            vec![Leaf::new(ArrayShape::new(ElementType::F16, [3])), Leaf::new(ArrayShape::new(ElementType::S32, [2]))];
        let results = Ok(vec![vec![0, 0x3c, 1, 0x7e, 0, 0x40], vec![3, 0, 0, 0, 4, 0, 0, 0]]);
        let reference = Reference { parameters: Vec::new(), results };
        check(&Built { sample, object: Vec::new(), library: None, descriptor, reference });
    }

    #[test]
    fn what_another_machine_computes_must_be_the_same() {
        let good = vec![0, 0, 0x3c, 1, 0x7e, 0, 0x40, 3, 0, 0, 0, 4, 0, 0, 0];
        with_built(|built| {
            let outcome = |first: &[u8], second: &[u8]| {
                let all = [first, second].concat();
                let mut rest = all.as_slice();
                let outcome = built.outcome(&mut rest);
                assert!(outcome.as_ref().is_none_or(|o| o.is_err() || rest.is_empty()));
                outcome
            };
            assert_eq!(outcome(&good, &good), Some(Ok(true)));
            assert_eq!(outcome(&[LEFT_OUT], &[LEFT_OUT]), Some(Ok(false)));
            let with = |at: usize, byte: u8| {
                let mut other = good.clone();
                other[at] = byte;
                other
            };
            // Another NaN is as good.
            assert_eq!(outcome(&with(4, 0xfe), &good), Some(Ok(true)));
            let words = |outcome: Option<Result<bool, String>>| outcome.unwrap().unwrap_err();
            assert_eq!(
                words(outcome(&good, &with(1, 1))),
                "in parallel: element 0 of result 0 (f16) is Some([01, 3c]), and Some([00, 3c]) here"
            );
            assert!(words(outcome(&with(11, 5), &good)).contains("without a context: element 1 of result 1 (s32)"));
            assert!(words(outcome(&[BEYOND], &good)).contains("behind a buffer"));
            assert!(words(outcome(&good, &[7])).contains("it returns 7"));
            assert_eq!(outcome(&good, &good[..9]), None, "it came to an end");
        });
    }

    /// Every family is there, and no sample by the name of another.
    #[test]
    fn samples_have_names_of_their_own() {
        let samples = samples::all(3, 7);
        let names: std::collections::BTreeSet<&str> = samples.iter().map(|sample| sample.name.as_str()).collect();
        assert_eq!(names.len(), samples.len());
        for name in [
            "operation divide of s64",
            "conversions of f64",
            "softmax of f16",
            "large dot of f32",
            "custom call",
            "loop",
        ] {
            assert!(names.contains(name), "{name}");
        }
        assert!(samples.len() > 3000, "{}", samples.len());
    }
}
