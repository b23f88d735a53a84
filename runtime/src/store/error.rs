//! What can go wrong with a store.

use crate::{LoadError, RunError};

/// Why a store cannot do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no computation or tensor of that name.
    #[error("there is no {what} '{name}'; there are: {known}")]
    Unknown {
        /// `computation` or `tensor`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Two computations have one name.
    #[error("the store has a computation '{0}' already")]
    Twice(String),
    /// A computation takes an array that is no tensor.
    #[error(
        "expected declared tensors as parameters of the computation '{computation}', found '{parameter}' without a declaration"
    )]
    Undeclared {
        /// The computation.
        computation: String,
        /// Its parameter.
        parameter: String,
    },
    /// Two shapes, types or attributes that should be the same.
    #[error("the tensor '{tensor}' is {expected}, found {found}")]
    Mismatch {
        /// The tensor.
        tensor: String,
        /// What it is.
        expected: String,
        /// What was given.
        found: String,
    },
    /// What was passed in is no input.
    #[error("'{name}' is no input of the computation '{computation}', whose inputs are: {inputs}")]
    NoInput {
        /// The computation.
        computation: String,
        /// What was passed in.
        name: String,
        /// Its inputs.
        inputs: String,
    },
    /// A tensor is read before it was written.
    #[error("{computation}: the tensor '{tensor}' has no value yet; {}", value_from(*input))]
    NoValue {
        /// What was to read it.
        computation: String,
        /// The tensor.
        tensor: String,
        /// Whether it is an input.
        input: bool,
    },
    /// A checkpoint cannot be written or read.
    #[error("{path}: {message}")]
    Checkpoint {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
    /// A run failed, or there was no memory for one.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A program cannot be used here.
    #[error(transparent)]
    Load(#[from] LoadError),
}

fn value_from(input: bool) -> &'static str {
    if input { "it is an input of the call" } else { "`initialise`, `load` or `set` gives it one" }
}
