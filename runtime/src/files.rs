//! Files that are there whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives a file new contents at once: they are written under another name in the same folder, brought to the disk and then
/// renamed. Whenever this process or the machine stops, the place holds the old file or the new one, whole.
///
/// # Errors
/// Those of the system; the file is then as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary(path)?;
    let written = write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // What went wrong is said already.
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    sync_folder(path)
}

/// A name in the folder of `path` that no other process, and no other call of this one, uses.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name =
        path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "expected the name of a file"))?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_file_name(format!(".{}.{}.{number}.tmp", name.display(), std::process::id())))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The renaming itself is on the disk when the folder is. Only Unix lets folders be opened.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
