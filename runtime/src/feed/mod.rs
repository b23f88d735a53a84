//! Feeds: the values that go into a running program and come out of it.
//!
//! Problem: `infeed` and `outfeed` talk to whoever runs the program while it runs, from other threads, possibly about
//! values of the wrong shape, possibly never. Invariant: a program reads only values of exactly the shape that it names, and of
//! the layout, where the value came as memory in some layout; nothing waits forever unless it was asked to; closing a
//! queue wakes everyone who waits at it with an error. Algorithm: [`Infeed`] and [`Outfeed`] are bounded queues behind a
//! lock, with any number of producers and consumers. What a program meets are the two traits [`Source`] and [`Sink`],
//! which a caller may implement in place of the queues; [`Feeds`] is what one device has of both.

mod error;
mod queue;
#[cfg(test)]
mod tests;
mod value;

pub use error::{Direction, FeedError};
pub use queue::{CloseOnDrop, Infeed, Outfeed};
pub use value::FeedValue;

use crate::{Literal, Shape};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use value::check_shape;

/// Where a program's infeeds read.
pub trait Source: Send + Sync {
    /// The next value, which must have the given shape. Waits for it, no longer than `timeout` where there is one.
    ///
    /// # Errors
    /// Where there is none, and where the next value has another shape or layout.
    fn next(&self, shape: &Shape, timeout: Option<Duration>) -> Result<Literal, FeedError>;
}

/// Where a program's outfeeds write.
pub trait Sink: Send + Sync {
    /// Takes a value. Waits for room, no longer than `timeout` where there is one.
    ///
    /// # Errors
    /// Where it cannot be taken.
    fn put(&self, value: FeedValue, timeout: Option<Duration>) -> Result<(), FeedError>;
}

/// The feeds of one device. Without a source or a sink the operations that need one fail.
#[derive(Clone, Default)]
pub struct Feeds {
    /// What infeeds read.
    pub infeed: Option<Arc<dyn Source>>,
    /// What outfeeds write.
    pub outfeed: Option<Arc<dyn Sink>>,
    /// How long a program waits for a value or for room; `None` for as long as it takes.
    pub timeout: Option<Duration>,
}

impl Feeds {
    /// Feeds that read and write the given queues.
    pub fn new(infeed: Arc<Infeed>, outfeed: Arc<Outfeed>) -> Feeds {
        Feeds { infeed: Some(infeed), outfeed: Some(outfeed), timeout: None }
    }

    /// What an infeed of the given shape reads. An empty tuple reads nothing.
    ///
    /// # Errors
    /// As [`Source::next`], and where there is no source.
    pub fn read(&self, shape: &Shape) -> Result<Literal, FeedError> {
        check_shape(shape)?;
        if matches!(shape, Shape::Tuple(elements) if elements.is_empty()) {
            return Ok(Literal::Tuple(Vec::new()));
        }
        let source = self.infeed.as_ref().ok_or(FeedError::Missing(Direction::In))?;
        let value = source.next(shape, self.timeout)?;
        if value::fits(shape, &value) { Ok(value) } else { Err(FeedError::shape(shape, &value.shape())) }
    }

    /// What an outfeed writes. `shape` is the value's, with layouts; an empty tuple writes nothing.
    ///
    /// # Errors
    /// As [`Sink::put`], and where there is no sink.
    pub fn write(&self, shape: &Shape, value: Literal) -> Result<(), FeedError> {
        let value = FeedValue::with_shape(shape, value)?;
        if matches!(shape, Shape::Tuple(elements) if elements.is_empty()) {
            return Ok(());
        }
        let sink = self.outfeed.as_ref().ok_or(FeedError::Missing(Direction::Out))?;
        sink.put(value, self.timeout)
    }
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds")
            .field("infeed", &self.infeed.is_some())
            .field("outfeed", &self.outfeed.is_some())
            .field("timeout", &self.timeout)
            .finish()
    }
}
