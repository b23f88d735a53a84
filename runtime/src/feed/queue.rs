//! The queues.
//!
//! One lock, two conditions. Whoever changes the queue wakes all who wait for that change: a consumer may refuse the
//! value that it was woken for, and then another one must see it.

use super::value::check_shape;
use super::{Direction, FeedError, FeedValue, Sink, Source};
use crate::{Literal, Shape};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What both queues are.
struct Queue {
    direction: Direction,
    expected: Option<Shape>,
    capacity: usize,
    state: Mutex<State>,
    /// A value came, or the queue was closed.
    filled: Condvar,
    /// A value went, or the queue was closed.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    values: VecDeque<FeedValue>,
    closed: bool,
}

impl Queue {
    fn new(direction: Direction, expected: Option<Shape>, capacity: usize) -> Queue {
        let (state, filled, emptied) = (Mutex::default(), Condvar::new(), Condvar::new());
        Queue { direction, expected, capacity: capacity.max(1), state, filled, emptied }
    }

    /// Nothing that runs under the lock leaves the state half done, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`; false where the time-out comes first.
    fn wait<'a>(
        mut state: MutexGuard<'a, State>,
        change: &Condvar,
        timeout: Option<Duration>,
        ready: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'a, State>, bool) {
        // A time so far away that the clock cannot name it is no time-out.
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        while !ready(&state) {
            match deadline {
                None => state = change.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return (state, false);
                    }
                    state = change.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        (state, true)
    }

    fn timed_out(&self, full: bool, timeout: Option<Duration>) -> FeedError {
        FeedError::TimedOut { direction: self.direction, full, waited: timeout.unwrap_or_default() }
    }

    fn push(&self, value: FeedValue, timeout: Option<Duration>) -> Result<(), FeedError> {
        check_shape(&value.shape())?;
        if let Some(expected) = &self.expected {
            value.check(expected)?;
        }
        let ready = |s: &State| s.closed || s.values.len() < self.capacity;
        let (mut state, in_time) = Queue::wait(self.lock(), &self.emptied, timeout, ready);
        if state.closed {
            return Err(FeedError::Closed(self.direction));
        }
        if !in_time {
            return Err(self.timed_out(true, timeout));
        }
        state.values.push_back(value);
        drop(state);
        self.filled.notify_all();
        Ok(())
    }

    /// Takes the first value, where `accept` agrees; it stays where not.
    fn pop(
        &self,
        timeout: Option<Duration>,
        accept: impl FnOnce(&FeedValue) -> Result<(), FeedError>,
    ) -> Result<FeedValue, FeedError> {
        let ready = |s: &State| s.closed || !s.values.is_empty();
        let (mut state, _) = Queue::wait(self.lock(), &self.filled, timeout, ready);
        match state.values.front() {
            Some(value) => accept(value)?,
            None if state.closed => return Err(FeedError::Closed(self.direction)),
            None => return Err(self.timed_out(false, timeout)),
        }
        let value = state.values.pop_front().ok_or(FeedError::Closed(self.direction))?;
        drop(state);
        self.emptied.notify_all();
        Ok(value)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }
}

macro_rules! common {
    ($queue:ident, $direction:expr) => {
        impl $queue {
            /// A queue for values of any shape, which holds at most `capacity` of them, and one at least.
            pub fn new(capacity: usize) -> $queue {
                $queue(Queue::new($direction, None, capacity))
            }

            /// A queue for values of one shape only, in its layouts where they come as memory.
            ///
            /// # Errors
            /// Where the shape is neither an array nor a tuple of arrays.
            pub fn typed(shape: Shape, capacity: usize) -> Result<$queue, FeedError> {
                check_shape(&shape)?;
                Ok($queue(Queue::new($direction, Some(shape), capacity)))
            }

            /// The shape of all values, where there is one.
            pub fn shape(&self) -> Option<&Shape> {
                self.0.expected.as_ref()
            }

            /// How many values the queue holds at most.
            pub fn capacity(&self) -> usize {
                self.0.capacity
            }

            /// How many values it holds now.
            pub fn len(&self) -> usize {
                self.0.lock().values.len()
            }

            /// Whether it holds none now.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Ends the traffic: no value comes in any more, those inside can still be taken, and whoever waits for
            /// what now cannot happen gets [`FeedError::Closed`].
            pub fn close(&self) {
                self.0.close();
            }

            /// Whether [`Self::close`] was called.
            pub fn is_closed(&self) -> bool {
                self.0.lock().closed
            }

            /// Closes the queue when the guard goes, be it because its thread panics.
            pub fn close_on_drop(&self) -> CloseOnDrop<'_> {
                CloseOnDrop(&self.0)
            }
        }

        impl fmt::Debug for $queue {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($queue), "({} of {})"), self.len(), self.capacity())
            }
        }
    };
}

/// Values for a program: the caller pushes, the program takes.
pub struct Infeed(Queue);

/// Values from a program: the program pushes, the caller takes.
pub struct Outfeed(Queue);

common!(Infeed, Direction::In);
common!(Outfeed, Direction::Out);

/// See [`Infeed::close_on_drop`].
pub struct CloseOnDrop<'a>(&'a Queue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Infeed {
    /// Adds a value; waits as long as the queue is full.
    ///
    /// # Errors
    /// Where the queue is closed, or the value is not what it takes.
    pub fn push(&self, value: impl Into<FeedValue>) -> Result<(), FeedError> {
        self.0.push(value.into(), None)
    }

    /// As [`Infeed::push`], but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As [`Infeed::push`], and [`FeedError::TimedOut`].
    pub fn push_timeout(&self, value: impl Into<FeedValue>, timeout: Duration) -> Result<(), FeedError> {
        self.0.push(value.into(), Some(timeout))
    }
}

impl Source for Infeed {
    fn next(&self, shape: &Shape, timeout: Option<Duration>) -> Result<Literal, FeedError> {
        Ok(self.0.pop(timeout, |value| value.check(shape))?.into_literal())
    }
}

impl Outfeed {
    /// Takes a value; waits as long as the queue is empty.
    ///
    /// # Errors
    /// Where the queue is closed and empty.
    pub fn pop(&self) -> Result<FeedValue, FeedError> {
        self.0.pop(None, |_| Ok(()))
    }

    /// As [`Outfeed::pop`], but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As [`Outfeed::pop`], and [`FeedError::TimedOut`].
    pub fn pop_timeout(&self, timeout: Duration) -> Result<FeedValue, FeedError> {
        self.0.pop(Some(timeout), |_| Ok(()))
    }
}

impl Sink for Outfeed {
    fn put(&self, value: FeedValue, timeout: Option<Duration>) -> Result<(), FeedError> {
        self.0.push(value, timeout)
    }
}
