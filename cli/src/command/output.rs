//! Writing results.

use crate::command::failure::Failure;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes to standard output. A reader that has gone ends the program quietly.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Closed),
        Err(error) => Err(Failure::file(Path::new("<stdout>"), error)),
    }
}

/// Writes a file, or standard output for `-`.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        let mut out = std::io::stdout().lock();
        return match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Closed),
            other => other.map_err(|e| Failure::file(path, e)),
        };
    }
    std::fs::write(path, bytes).map_err(|e| Failure::file(path, e))
}
