//! One device, as a program sees it.

use super::collective::Label;
use super::link::{Exchange, Link, Message, Route};
use super::work::{Part, Span};
use super::{Collective, Place};
use crate::ArrayShape;
use crate::services::Failure;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A device of several: what [`RunOptions::device`](crate::RunOptions::device) lends to a program for its collectives and
/// transfers. Clones are the same device, which runs one program at a time. The device ends when the last is dropped:
/// whoever waits for it then fails.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

/// What a program asks of its device: a collective, the shapes of its arrays, the hash of the program, all zero where it has
/// none, and the buffers.
pub(crate) struct Ask {
    pub(crate) collective: Collective,
    pub(crate) operands: Vec<ArrayShape>,
    pub(crate) results: Vec<ArrayShape>,
    pub(crate) program: [u8; 16],
    pub(crate) part: Part,
}

struct Inner {
    link: Box<dyn Link>,
    /// Exchanges that were started and not waited for, by the address of their first result.
    started: Mutex<HashMap<usize, (u64, Label)>>,
}

impl Device {
    /// A device that reaches the others by `link`.
    pub fn new(link: impl Link + 'static) -> Device {
        Device(Arc::new(Inner { link: Box::new(link), started: Mutex::default() }))
    }

    /// Which device this is.
    pub fn place(&self) -> Place {
        self.0.link.place()
    }

    /// Takes part in a collective: `operands` of the given shapes, `results` of theirs, all dense and row-major.
    ///
    /// # Errors
    /// Where a member of the group fails, brings something else, or does not come.
    pub fn exchange(
        &self,
        collective: &Collective,
        operands: &[(&ArrayShape, &[u8])],
        results: &mut [(&ArrayShape, &mut [u8])],
    ) -> Result<(), Failure> {
        let part = Part {
            operands: operands.iter().map(|(_, b)| Span::new(b.as_ptr().cast_mut(), b.len())).collect(),
            results: results.iter_mut().map(|(_, b)| Span::new(b.as_mut_ptr(), b.len())).collect(),
        };
        let fits = operands.iter().all(|(s, b)| s.byte_size() == b.len())
            && results.iter().all(|(s, b)| s.byte_size() == b.len());
        if !fits {
            return Err(Failure::new("a buffer is not of its shape's size"));
        }
        let ask = Ask {
            collective: collective.clone(),
            operands: operands.iter().map(|(s, _)| (*s).clone()).collect(),
            results: results.iter().map(|(s, _)| (*s).clone()).collect(),
            program: [0; 16],
            part,
        };
        // SAFETY: the slices are borrowed until this returns.
        unsafe { self.run(ask) }
    }

    /// # Safety
    /// As [`Link::begin`].
    unsafe fn begin(&self, ask: Ask) -> Result<u64, Failure> {
        let Ask { collective, operands, results, program, part } = ask;
        let (place, label) = (self.place(), collective.label());
        let Some((group, me)) = collective.group_of(place.device, place.devices()) else {
            let why = format!("its groups leave out device {} of {}", place.device, place.devices());
            let failure = named(label, Failure::new(why));
            self.fail(&failure.message);
            return Err(failure);
        };
        let exchange = Exchange { collective, group, me, operands, results, program, part };
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.link.begin(exchange) }.map_err(|e| named(label, e))
    }

    /// Begins and ends a collective.
    ///
    /// # Safety
    /// As [`Link::begin`], until this returns.
    pub(crate) unsafe fn run(&self, ask: Ask) -> Result<(), Failure> {
        let label = ask.collective.label();
        // SAFETY: the caller's promise is the same, and this returns after the end.
        let ticket = unsafe { self.begin(ask) }?;
        self.0.link.end(ticket).map_err(|e| named(label, e))
    }

    /// Starts a collective that [`Device::finish`] ends.
    ///
    /// # Safety
    /// As [`Link::begin`]: until it is finished, or the device is settled.
    pub(crate) unsafe fn start(&self, ask: Ask) -> Result<(), Failure> {
        let key = ask.part.results.iter().find(|s| s.length() > 0).map_or(0, |s| s.pointer().addr());
        let label = ask.collective.label();
        // SAFETY: the caller's promise is the same.
        let ticket = unsafe { self.begin(ask) }?;
        let before = self.started().insert(key, (ticket, label));
        match before {
            Some((ticket, _)) if key != 0 => {
                self.0.link.withdraw(ticket);
                Err(Failure::new("a collective started into the buffer of one that is not done"))
            }
            // Collectives without bytes are told apart by nothing, and need not be.
            Some((ticket, _)) => self.0.link.end(ticket),
            None => Ok(()),
        }
    }

    /// Waits for a collective that was started with results at such an address.
    pub(crate) fn finish(&self, key: usize) -> Result<(), Failure> {
        let started = self.started().remove(&key);
        let (ticket, label) = started.ok_or_else(|| Failure::new("a collective is done that was never started"))?;
        self.0.link.end(ticket).map_err(|e| named(label, e))
    }

    /// Takes back what was started and not finished: the program has ended, and its buffers go.
    pub(crate) fn settle(&self) {
        let left: Vec<u64> = self.started().drain().map(|(_, (ticket, _))| ticket).collect();
        for ticket in left {
            self.0.link.withdraw(ticket);
        }
    }

    fn started(&self) -> std::sync::MutexGuard<'_, HashMap<usize, (u64, Label)>> {
        self.0.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a value on its way; see [`Link::send`].
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn send(&self, route: Route, message: Message) -> Result<(), Failure> {
        self.0.link.send(route, message)
    }

    /// Takes the next place in the order of a route; see [`Link::request`].
    ///
    /// # Errors
    /// As [`Link::request`].
    pub fn request(&self, route: Route) -> Result<u64, Failure> {
        self.0.link.request(route)
    }

    /// Waits for a value; see [`Link::receive`].
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub fn receive(&self, route: Route, number: u64) -> Result<Message, Failure> {
        self.0.link.receive(route, number)
    }

    /// Says that this device failed, so that whoever waits for it fails too.
    pub fn fail(&self, why: &str) {
        self.0.link.fail(why);
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({:?})", self.place())
    }
}

fn named(label: Label, failure: Failure) -> Failure {
    Failure { message: format!("{label}: {}", failure.message), ..failure }
}
