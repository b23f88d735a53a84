//! Objects that were compiled before, by what they were compiled from.
//!
//! Problem: a clean build compiles the same programs for the same target again, in every checkout and on every agent of a build
//! farm. Invariant: an object comes out of the cache only for the very question that it was the answer to: the program's bytes,
//! the options, the machine's features, and the compiler (its version, its sources, and Cranelift's version; not those of other
//! dependencies). Algorithm: an entry holds its whole question before the object,
//! and is found by the question's hash; two questions of one hash are told apart by being compared. It is written beside its
//! place and renamed, so that builds may share a folder; an entry that does not read back, or whose object does not match its own
//! hash, counts as none and is replaced.

use crate::CompileOptions;
use crate::codegen::target::{Target, TargetOptions};
use crate::object::read_descriptors;
use brolga_runtime::abi::content_hash;
use brolga_runtime::files::replace;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What every entry begins with.
const MAGIC: &[u8] = b"brolga cache 1\n";

/// The compiler: its version, its sources, and the code generator's version.
const COMPILER: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("BROLGA_SOURCES"), " cranelift ");

/// What an object is the answer to.
pub(super) struct Question(Vec<u8>);

impl Question {
    /// `None` where the target is none: compiling says what is wrong with it.
    pub(super) fn new(options: &CompileOptions, sizes: &str, program: &[u8]) -> Option<Question> {
        let features: Vec<Vec<String>> = Target::levels(&options.target)
            .ok()?
            .iter()
            .map(|target| target.features.iter().map(|f| f.to_string()).collect())
            .collect();
        let mut text = format!("{COMPILER}{}\n{options:?}\n{features:?}\n{sizes}\n", cranelift_codegen::VERSION);
        let TargetOptions { triple, .. } = &options.target;
        if triple.is_none() {
            // Options that name no target mean this machine's.
            let _ = writeln!(text, "{}", target_lexicon::HOST);
        }
        let mut question = text.into_bytes();
        question.extend_from_slice(program);
        Some(Question(question))
    }

    /// The entry's place in a folder.
    fn path(&self, folder: &Path) -> PathBuf {
        let name: String = content_hash(&self.0).iter().map(|byte| format!("{byte:02x}")).collect();
        folder.join(name)
    }

    /// The object, where the folder has it.
    pub(super) fn find(&self, folder: &Path) -> Option<Vec<u8>> {
        let entry = std::fs::read(self.path(folder)).ok()?;
        let (length, rest) = entry.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let (question, object) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        // Reading the descriptors compares the object with its hash.
        (question == self.0 && read_descriptors(object).is_ok()).then(|| object.to_vec())
    }

    /// Keeps the object.
    ///
    /// # Errors
    /// Where the folder cannot be written to.
    pub(super) fn keep(&self, folder: &Path, object: &[u8]) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut entry = MAGIC.to_vec();
        entry.extend((self.0.len() as u64).to_le_bytes());
        entry.extend(&self.0);
        entry.extend(object);
        replace(&self.path(folder), &entry)
    }
}
