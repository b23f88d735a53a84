//! `brolga reduce`: the search of the compiler's room, asked by running a command.

use crate::command::args::ReduceArgs;
use crate::command::failure::Failure;
use crate::command::source::load_open_module;
use crate::command::{output, progress};
use brolga_compiler::reduce::{ReduceOptions, reduce as search};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// So much of a command's output is searched for `--contains`.
const OUTPUT_LIMIT: u64 = 16 << 20;

/// `brolga reduce`.
pub fn reduce(args: &ReduceArgs) -> Result<(), Failure> {
    let words = words(&args.command)?;
    let (module, _) = load_open_module(&args.module, &args.shapes.options()?)?;
    let folder = Scratch::new()?;
    let limit = Duration::from_secs_f64(args.time_limit);
    let mut failure = None;
    let mut wanted = args.status.map(End::Status);
    let mut first = None;
    // A command that succeeds on everything tells nothing, unless success is what was asked for.
    let open_question = args.status.is_none() && args.contains.is_none();
    let mut ask = |text: &str| -> Result<bool, Failure> {
        let (end, printed) = folder.run(&words, text, limit)?;
        if first.replace(first.unwrap_or(end)).is_none() && end == End::Status(0) && open_question {
            return Ok(false);
        }
        let wanted = *wanted.get_or_insert(end);
        Ok(end == wanted && args.contains.as_ref().is_none_or(|t| printed.contains(t.as_str())))
    };
    let options = ReduceOptions { max_questions: args.max_runs.unwrap_or(usize::MAX), ..ReduceOptions::default() };
    let mut question = |_: &_, text: &str| match ask(text) {
        Ok(answer) => failure.is_none() && answer,
        Err(e) => {
            failure.get_or_insert(e);
            false
        }
    };
    let found = progress::during("reducing", || search(&module, options, &mut question));
    if let Some(failure) = failure {
        return Err(failure);
    }
    if first == Some(End::Status(0)) && open_question {
        let message = "the command succeeds on the module; say --status 0 or --contains if that is what to keep";
        return Err(Failure::Run(message.to_owned()));
    }
    let Some(found) = found else {
        let end = first.map_or("was not run".to_owned(), |e| e.to_string());
        return Err(Failure::Run(format!("nothing to keep: on the module as it is, the command {end}")));
    };
    let entry = found.module.entry();
    eprintln!("note: {} instructions left after {} runs", entry.order.len(), found.questions);
    match &args.output {
        Some(path) => output::write(path, found.text.as_bytes()),
        None => output::print(&found.text),
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Status(i32),
    Signal,
    TimeLimit,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Status(n) => write!(f, "ends with status {n}, or without the text"),
            End::Signal => f.write_str("is ended by a signal, or without the text"),
            End::TimeLimit => f.write_str("runs into the time limit, or without the text"),
        }
    }
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        status.code().map_or(End::Signal, End::Status)
    }
}

/// Splits a command as a shell does: blanks part words, quotes and backslashes keep them together.
fn words(command: &str) -> Result<Vec<String>, Failure> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => out.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Failure::Usage("--command: a quote is not closed".to_owned()));
    }
    out.extend(word);
    if out.is_empty() {
        return Err(Failure::Usage("--command: expected a program to run, found nothing".to_owned()));
    }
    Ok(out)
}

/// A folder of our own for candidates and outputs, gone when we are.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        let folder = tempfile::Builder::new().prefix("brolga-reduce-").tempdir();
        folder.map(Scratch).map_err(|e| Failure::file(&std::env::temp_dir(), e))
    }

    /// Runs the command on a candidate; how it ended, and what it printed.
    fn run(&self, words: &[String], text: &str, limit: Duration) -> Result<(End, String), Failure> {
        let candidate = self.0.path().join("candidate.hlo");
        let path = candidate.to_string_lossy();
        std::fs::write(&candidate, text).map_err(|e| Failure::file(&candidate, e))?;
        let mut words: Vec<String> = words.to_vec();
        if words.iter().any(|w| w.contains("{}")) {
            words.iter_mut().for_each(|w| *w = w.replace("{}", &path));
        } else {
            words.push(path.to_string());
        }
        // Outputs go to files: a pipe that a grandchild keeps open would make us wait for it.
        let streams = [self.0.path().join("stdout"), self.0.path().join("stderr")];
        let create = |path: &Path| File::create(path).map_err(|e| Failure::file(path, e));
        let (stdout, stderr) = (create(&streams[0])?, create(&streams[1])?);
        let (program, rest) = words.split_first().map_or(("", &[][..]), |(p, r)| (p.as_str(), r));
        let mut child = Command::new(program)
            .args(rest)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(|e| Failure::file(Path::new(program), e))?;
        let start = Instant::now();
        let mut pause = Duration::from_micros(300);
        let waiting = |e| Failure::file(Path::new(program), e);
        let end = loop {
            if let Some(status) = child.try_wait().map_err(waiting)? {
                break End::from(status);
            }
            if start.elapsed() > limit {
                // It may have ended since.
                let _ = child.kill();
                child.wait().map_err(waiting)?;
                break End::TimeLimit;
            }
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_millis(20));
        };
        let mut printed = Vec::new();
        for path in &streams {
            let file = File::open(path).map_err(|e| Failure::file(path, e))?;
            file.take(OUTPUT_LIMIT).read_to_end(&mut printed).map_err(|e| Failure::file(path, e))?;
        }
        Ok((end, String::from_utf8_lossy(&printed).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::words;

    #[test]
    fn commands_are_split_as_in_a_shell() {
        assert_eq!(words("a  b {}").unwrap(), ["a", "b", "{}"]);
        assert_eq!(words("sh -c 'a \"b\" | c' x\\ y").unwrap(), ["sh", "-c", "a \"b\" | c", "x y"]);
        assert_eq!(words("a \"\" \"b\\\"c\"").unwrap(), ["a", "", "b\"c"]);
        assert!(words("'open").is_err() && words("  ").is_err());
    }
}
