//! Running a program with a time limit.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With an exit status.
    Status(i32),
    /// By a signal.
    Signal,
    /// It ran too long and was killed.
    TimeOut,
}

/// Runs `command` without input and output, its standard error in the file `log`.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> std::io::Result<End> {
    let log = std::fs::File::create(log)?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
    let start = Instant::now();
    let mut pause = Duration::from_micros(300);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().map_or(End::Signal, End::Status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(End::TimeOut);
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(20));
    }
}
