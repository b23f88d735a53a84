//! Feeds damaged modules to the program: whatever the damage, it must end by itself with status 0, 2 or 3; where it compiles what it
//! read, also with 1.
//!
//! The damage is that of `brolga_tests::damage`. `--seed` and `--count` name a run, so that a failure can be repeated; `--keep`
//! writes what failed. Programs come from the corpus, or from `--file`: files, folders of them, and zip files.

use brolga_compiler::front::{self, ReadOptions};
use brolga_compiler::{Error, shape};
use brolga_tests::corpus;
use brolga_tests::damage::{Random, damage};
use brolga_tests::process::{self, End};
use clap::Parser;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Feeds damaged modules to the brolga program.
#[derive(Debug, Parser)]
struct Options {
    /// Folders of suite zips, case folders
    #[arg(long, required_unless_present = "file")]
    corpus: Vec<PathBuf>,
    /// Which of a case's files: hlo, pb or mlir
    #[arg(long, default_value = "hlo")]
    form: String,
    /// Programs outside of a corpus, in any form: files, folders and zip files
    #[arg(long)]
    file: Vec<PathBuf>,
    /// Only files with one of these endings, of folders and zip files
    #[arg(long)]
    ending: Vec<String>,
    /// Megabytes of address space that the program may have, 0 for no limit
    #[arg(long, default_value_t = 0)]
    memory: u64,
    /// The program
    #[arg(long, default_value = "target/release/brolga")]
    brolga: PathBuf,
    /// What to do with each module: parse, opt or compile; read, which starts no program and is a hundred times as fast
    #[arg(long, default_value = "parse")]
    command: String,
    /// How many
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// Which
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds for a module
    #[arg(long, default_value_t = 10)]
    timeout: u64,
    /// Modules larger than this are left out
    #[arg(long, default_value_t = 200_000)]
    largest: usize,
    /// Where to write the modules that failed
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> std::io::Result<usize> {
    let mut modules = Vec::new();
    for path in &options.corpus {
        for source in corpus::sources(path)? {
            for mut case in corpus::read(&source)? {
                let id = case.id();
                let module = case.files.remove(&format!("module.{}", options.form));
                modules.extend(module.filter(|m| m.len() <= options.largest).map(|m| (id, m)));
            }
        }
    }
    for path in &options.file {
        collect(path, options, &mut modules)?;
    }
    modules.sort();
    if modules.is_empty() {
        return Err(std::io::Error::other("the corpus has no modules"));
    }
    let scratch = std::env::temp_dir().join(format!("brolga-mutate-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let ending = if options.corpus.is_empty() { "bin" } else { &options.form };
    let file = scratch.join(format!("module.{ending}"));
    let (log, out) = (scratch.join("stderr.txt"), scratch.join("out"));
    let mut random = Random(options.seed);
    let (mut failed, mut endings) = (0, [0usize; 4]);
    for number in 0..options.count {
        let (id, original) = &modules[random.below(modules.len())];
        let mut damaged = original.clone();
        damage(&mut damaged, &mut random);
        std::fs::write(&file, &damaged)?;
        let mut command = program(options);
        command.arg(&options.command).arg(&file);
        match options.command.as_str() {
            "parse" => command.arg("--summary").arg(&out),
            _ => command.arg("-o").arg(&out),
        };
        let end = match options.command.as_str() {
            "read" => within(&damaged, options)?,
            _ => process::run(&mut command, &log, Duration::from_secs(options.timeout))?,
        };
        match end {
            End::Status(n @ 0..=3) if n != 1 || !matches!(&*options.command, "parse" | "read") => {
                endings[n as usize] += 1
            }
            end => {
                failed += 1;
                let message = std::fs::read_to_string(&log).unwrap_or_default();
                println!(
                    "{number} of seed {}, from {id}: {end:?}: {}",
                    options.seed,
                    message.lines().next().unwrap_or("")
                );
                if let Some(keep) = &options.keep {
                    std::fs::create_dir_all(keep)?;
                    std::fs::write(keep.join(format!("{}-{number}.{ending}", options.seed)), &damaged)?;
                }
            }
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    println!("{} damaged modules: {failed} failures; exit status 0, 1, 2, 3: {endings:?}", options.count);
    Ok(failed)
}

/// Reads and verifies a module in this process, in a thread of its own: a panic ends that thread, and one that does not end in time
/// is left behind. How much memory there was at most is asked of the system, which counts for the whole process: the first
/// module that needs too much is an error.
fn within(bytes: &[u8], options: &Options) -> std::io::Result<End> {
    let bytes = bytes.to_vec();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
        let read = front::read(&bytes, None, &ReadOptions::default());
        let status = match read.and_then(|read| shape::verify_open(&read.module)) {
            Ok(()) => 0,
            Err(Error::Syntax { .. } | Error::Invalid { .. }) => 2,
            Err(Error::Unsupported { .. }) => 3,
            Err(Error::Execution { .. }) => 1,
            Err(Error::Target(_) | Error::Internal(_)) => 70,
        };
        // Nobody waits any more where it came too late.
        let _ = sender.send(status);
    })?;
    let end = match receiver.recv_timeout(Duration::from_secs(options.timeout)) {
        Ok(status) => End::Status(status),
        Err(RecvTimeoutError::Timeout) => return Ok(End::TimeOut),
        Err(RecvTimeoutError::Disconnected) => End::Signal,
    };
    // A panic was told by the channel.
    let _ = reader.join();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match peak {
        Some(kilobytes) if options.memory > 0 && kilobytes > options.memory * 1024 => {
            Err(std::io::Error::other(format!("a module needed {kilobytes} kB of memory")))
        }
        _ => Ok(end),
    }
}

/// The files that `path` is or holds, with their names.
fn collect(path: &Path, options: &Options, out: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let name = path.display().to_string();
    let is_wanted = |name: &str, length: u64| {
        let has_ending = options.ending.is_empty() || options.ending.iter().any(|e| name.ends_with(e));
        has_ending && length <= options.largest as u64
    };
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let (path, length) = entry.and_then(|e| Ok((e.path(), e.metadata()?.len())))?;
            if path.is_dir() || is_wanted(&path.display().to_string(), length) {
                collect(&path, options, out)?;
            }
        }
    } else if path.extension().is_some_and(|e| e == "zip") {
        let mut archive = zip::ZipArchive::new(std::fs::File::open(path)?)?;
        for k in 0..archive.len() {
            let mut entry = archive.by_index(k)?;
            if entry.is_file() && is_wanted(entry.name(), entry.size()) {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                out.push((format!("{name}:{}", entry.name()), bytes));
            }
        }
    } else {
        out.push((name, std::fs::read(path)?));
    }
    Ok(())
}

/// The program, with no more memory than it may have.
fn program(options: &Options) -> Command {
    if options.memory == 0 {
        return Command::new(&options.brolga);
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {}; exec \"$0\" \"$@\"", options.memory * 1024)).arg(&options.brolga);
    command
}
