//! Running a program with a time limit.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt;

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
    match child.wait_timeout(limit)? {
        Some(status) => Ok(status.code().map_or(End::Signal, End::Status)),
        None => {
            child.kill()?;
            child.wait()?;
            Ok(End::TimeOut)
        }
    }
}
