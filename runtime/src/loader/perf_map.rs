//! Names of loaded functions for `perf`.
//!
//! A profiler that finds an address in no file looks for it in `/tmp/perf-PID.map`, a text of lines `START SIZE NAME` with
//! hexadecimal numbers. Programs write theirs where [`VARIABLE`] is set and not empty; what a dropped program wrote stays.

use crate::LoadError;
use std::fmt::Write as _;
use std::io::Write as _;

/// The environment variable that asks for the map.
const VARIABLE: &str = "BROLGA_PERF_MAP";

/// A function: its name, its place in the image, its bytes.
pub(super) type Function = (String, usize, u64);

/// Adds functions of an image at `base` to the map of this process, where one is asked for. A map that cannot be written is left
/// as it is: no program is refused for it.
///
/// # Errors
/// Where the symbols of the image are malformed.
pub(super) fn add(base: u64, functions: impl FnOnce() -> Result<Vec<Function>, LoadError>) -> Result<(), LoadError> {
    if !super::asked_for(VARIABLE) {
        return Ok(());
    }
    let mut lines = String::new();
    for (name, offset, size) in functions()? {
        // A name is one line, whatever an object says.
        let name = name.replace(char::is_control, "?");
        let _ = writeln!(lines, "{:x} {size:x} {name}", base.wrapping_add(offset as u64));
    }
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let _ = file.and_then(|mut file| file.write_all(lines.as_bytes()));
    Ok(())
}
