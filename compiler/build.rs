//! Tells the compiler which sources it was built from: objects that it keeps are for the very same compiler only.

use std::path::Path;

fn main() {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    // The runtime's sources say what an object looks like. Where they do not lie here, versions tell releases apart.
    for folder in ["src", "../runtime/src"] {
        if Path::new(folder).is_dir() {
            println!("cargo:rerun-if-changed={folder}");
            hash.folder(Path::new(folder));
        }
    }
    println!("cargo:rustc-env=BROLGA_SOURCES={:016x}", hash.0);
}

/// The hash of Fowler, Noll and Vo, of 64 bits.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Names and contents, in order. What cannot be read says so by its name alone.
    fn folder(&mut self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            self.bytes(path.to_string_lossy().as_bytes());
            if path.is_dir() {
                self.folder(&path);
            } else if let Ok(contents) = std::fs::read(&path) {
                self.bytes(&contents);
            }
        }
    }
}
