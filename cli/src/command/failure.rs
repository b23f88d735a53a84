//! Every way in which a command ends badly.

use crate::command::source::Source;
use brolga_compiler::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Exit status: the run failed, or a file could not be read.
const RUN: u8 = 1;
/// Exit status: the module is invalid.
const INVALID: u8 = 2;
/// Exit status: the module is valid, but this program does not support it.
const UNSUPPORTED: u8 = 3;
/// Exit status: the command line is wrong.
pub const USAGE: u8 = 64;
/// Exit status: a bug in Brolga.
pub const BUG: u8 = 70;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The compiler refused the module, or could not run it.
    Program {
        /// What it said.
        error: Box<Error>,
        /// The text that the error's place refers to.
        source: Option<Arc<Source>>,
    },
    /// A file could not be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The inputs do not fit the module.
    Input(String),
    /// The program was not compiled for the size of the inputs.
    Size(String),
    /// A compiled program could not be loaded, or failed.
    Run(String),
    /// The combination of options makes no sense.
    Usage(String),
    /// Something valid that this program does not do.
    Unsupported(String),
    /// Who reads our output has gone; there is nobody left to tell.
    Closed,
}

impl Failure {
    /// A file could not be read or written.
    pub fn file(path: &Path, reason: impl ToString) -> Failure {
        Failure::File { path: path.to_owned(), reason: reason.to_string() }
    }

    /// The compiler's error about a program read from `source`.
    pub fn program(error: Error, source: &Arc<Source>) -> Failure {
        Failure::Program { error: Box::new(error), source: Some(source.clone()) }
    }

    /// True where the program is valid but not supported.
    pub fn is_unsupported(&self) -> bool {
        self.status() == UNSUPPORTED
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Program { error, .. } => match **error {
                Error::Syntax { .. } | Error::Invalid { .. } => INVALID,
                Error::Unsupported { .. } => UNSUPPORTED,
                Error::Execution { .. } | Error::Target(_) => RUN,
                Error::Internal(_) => BUG,
            },
            Failure::Size(_) => INVALID,
            Failure::File { .. } | Failure::Input(_) | Failure::Run(_) => RUN,
            Failure::Usage(_) => USAGE,
            Failure::Unsupported(_) => UNSUPPORTED,
            // `yes | head` is not an error of `yes`.
            Failure::Closed => 0,
        }
    }
}
