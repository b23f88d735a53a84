//! What can go wrong at a queue.

use crate::Shape;
use crate::abi::Status;
use std::fmt;
use std::time::Duration;

/// Which way a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into the program.
    In,
    /// Out of it.
    Out,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::In => "infeed",
            Direction::Out => "outfeed",
        })
    }
}

/// Why a value could not go in or out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// Nothing more comes, or nobody takes anything any more.
    #[error("the {0} queue is closed")]
    Closed(Direction),
    /// Waiting took too long.
    #[error("the {direction} queue stayed {} for {waited:?}, which is the time-out", state(*full))]
    TimedOut {
        /// Which queue.
        direction: Direction,
        /// Whether it was full; it was empty otherwise.
        full: bool,
        /// The time-out.
        waited: Duration,
    },
    /// The run has no such queue.
    #[error("the run has no {0}")]
    Missing(Direction),
    /// A value has another shape than the one that is expected.
    #[error("expected a value of shape {expected}, found {found}")]
    Shape {
        /// The shape that the program or the queue names.
        expected: String,
        /// The value's.
        found: String,
    },
    /// A value came in another layout than the one that is expected.
    #[error("expected a value in the layout of {expected}, found {found}")]
    Layout {
        /// The shape that the program or the queue names.
        expected: String,
        /// The one that the value came with.
        found: String,
    },
    /// The memory of a value does not fit its shape.
    #[error("part {part} of a value of shape {shape} takes {expected} bytes, {found} were given")]
    Bytes {
        /// Which array of the shape.
        part: usize,
        /// The shape.
        shape: String,
        /// How many bytes it takes.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// Values are arrays and flat tuples of arrays.
    #[error("a feed carries arrays and tuples of arrays, not {0}")]
    Nested(String),
    /// The layout cannot be read or written here.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A source or a sink of the caller's own failed.
    #[error("{0}")]
    Other(String),
}

fn state(full: bool) -> &'static str {
    if full { "full" } else { "empty" }
}

impl FeedError {
    pub(crate) fn shape(expected: &Shape, found: &Shape) -> FeedError {
        FeedError::Shape { expected: format!("{expected:#}"), found: format!("{found:#}") }
    }

    /// The status of a program that stops for it.
    pub fn status(&self) -> Status {
        match self {
            FeedError::Closed(_) => Status::Cancelled,
            FeedError::TimedOut { .. } => Status::TimedOut,
            FeedError::Missing(_) => Status::MissingService,
            _ => Status::ServiceFailed,
        }
    }
}
