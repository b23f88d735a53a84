//! Feeds damaged modules to the program: whatever the damage, it must end by itself with status 0 to 3.
//!
//! The damage is drawn from a fixed generator: bytes flipped, lines dropped, doubled or swapped, numbers changed, the end
//! cut off; of messages and bytecode, which have no lines, runs of bytes. `--seed` and `--count` name a run, so that a failure
//! can be repeated; `--keep` writes what failed.

use brolga_tests::corpus;
use brolga_tests::process::{self, End};
use clap::Parser;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
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
    /// Programs outside of a corpus
    #[arg(long)]
    file: Vec<PathBuf>,
    /// Megabytes of address space that the program may have, 0 for no limit
    #[arg(long, default_value_t = 0)]
    memory: u64,
    /// The program
    #[arg(long, default_value = "target/release/brolga")]
    brolga: PathBuf,
    /// What to do with each module: parse, opt or compile
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
        modules.push((path.display().to_string(), std::fs::read(path)?));
    }
    if modules.is_empty() {
        return Err(std::io::Error::other("the corpus has no modules"));
    }
    let scratch = std::env::temp_dir().join(format!("brolga-mutate-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let binary = |bytes: &[u8]| std::str::from_utf8(bytes).is_err() || bytes.contains(&0);
    let ending = if options.corpus.is_empty() { "bin" } else { &options.form };
    let file = scratch.join(format!("module.{ending}"));
    let (log, out) = (scratch.join("stderr.txt"), scratch.join("out"));
    let mut random = Random(options.seed);
    let (mut failed, mut endings) = (0, [0usize; 4]);
    for number in 0..options.count {
        let (id, original) = &modules[random.below(modules.len())];
        let mut text = original.clone();
        for _ in 0..=random.below(3) {
            if binary(original) { damage_bytes(&mut text, &mut random) } else { damage(&mut text, &mut random) }
        }
        std::fs::write(&file, &text)?;
        let mut command = program(options);
        command.arg(&options.command).arg(&file);
        match options.command.as_str() {
            "parse" => command.arg("--summary").arg(&out),
            _ => command.arg("-o").arg(&out),
        };
        match process::run(&mut command, &log, Duration::from_secs(options.timeout))? {
            End::Status(n @ 0..=3) => endings[n as usize] += 1,
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
                    std::fs::write(keep.join(format!("{}-{number}.{ending}", options.seed)), &text)?;
                }
            }
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    println!("{} damaged modules: {failed} failures; exit status 0, 1, 2, 3: {endings:?}", options.count);
    Ok(failed)
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

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999999",
];

fn damage(text: &mut Vec<u8>, random: &mut Random) {
    if text.is_empty() {
        return;
    }
    let at = random.below(text.len());
    match random.below(8) {
        0 => text[at] ^= 1 << random.below(8),
        1 => text[at] = b"{}[](),=%\"/*<>x-: \n\0"[random.below(20)],
        2 => text.truncate(at),
        kind @ 3..=5 => {
            let mut lines: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            let (i, j) = (random.below(lines.len()), random.below(lines.len()));
            match kind {
                3 => drop(lines.remove(i)),
                4 => lines.insert(i, lines[j].clone()),
                _ => lines.swap(i, j),
            }
            *text = lines.join(&b'\n');
        }
        _ => {
            // The next number after a random place, replaced whole.
            let Some(start) = (at..text.len()).find(|&i| text[i].is_ascii_digit()) else { return };
            let end = (start..text.len()).find(|&i| !text[i].is_ascii_digit()).unwrap_or(text.len());
            text.splice(start..end, NUMBERS[random.below(NUMBERS.len())].bytes());
        }
    }
}

/// Bytes that numbers of either encoding begin with, and end with.
const BYTES: [u8; 10] = [0x00, 0x01, 0x02, 0x07, 0x0a, 0x12, 0x7f, 0x80, 0xfe, 0xff];

fn damage_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let run = at..(at + 1 + random.below(16)).min(bytes.len());
    match random.below(8) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 | 3 => bytes[at] = BYTES[random.below(BYTES.len())],
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(run)),
        6 => {
            let copy = bytes[run].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            // A number that is too large for anything.
            let large = [0xff; 9].into_iter().chain([0x01]);
            bytes.splice(at..at, large.take(1 + random.below(10)));
        }
    }
}
