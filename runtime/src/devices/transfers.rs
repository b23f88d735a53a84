//! Transfers between devices: what `send` gives and `recv-done` waits for.
//!
//! Problem: a `recv` may stand before the `send` that another device answers it with, on both sides of an exchange.
//! Invariant: nobody waits at a `send` or at a `recv`; the n-th `recv` of a route gets what its n-th `send` gave, once.
//! Algorithm: values that were sent lie in a queue for each route; a `recv` takes a number of its route, which its context
//! carries to `recv-done`. `source_target_pairs` make a route of each pair. Without them a channel is one route, which has
//! one device at either end: which of several came first would be chance.

use super::link::{Message, Route};
use crate::services::Failure;
use std::collections::HashMap;

#[derive(Default)]
struct Queue {
    sent: u64,
    requested: u64,
    under_way: HashMap<u64, Message>,
    /// The device that sends and the one that receives, once they have.
    ends: [Option<usize>; 2],
}

impl Queue {
    /// Takes an end of the route, 0 to send and 1 to receive.
    fn hold(&mut self, end: usize, device: usize) -> Result<(), Failure> {
        let Some(end_of) = self.ends.get_mut(end) else { return Ok(()) };
        let holder = *end_of.get_or_insert(device);
        if holder == device {
            return Ok(());
        }
        let what = if end == 0 { "send" } else { "recv" };
        Err(Failure::new(format!(
            "expected source_target_pairs where several devices come to one {what}, found none and devices {holder} and \
             {device}"
        )))
    }
}

/// All that was sent and not received.
#[derive(Default)]
pub(super) struct Transfers(HashMap<Route, Queue>);

impl Transfers {
    /// Takes a value from `device`.
    pub(super) fn send(&mut self, device: usize, route: Route, message: Message) -> Result<(), Failure> {
        let queue = self.0.entry(route).or_default();
        queue.hold(0, device)?;
        queue.under_way.insert(queue.sent, message);
        queue.sent += 1;
        Ok(())
    }

    /// The next place in the order of a route.
    pub(super) fn request(&mut self, device: usize, route: Route) -> Result<u64, Failure> {
        let queue = self.0.entry(route).or_default();
        queue.hold(1, device)?;
        queue.requested += 1;
        Ok(queue.requested - 1)
    }

    /// What has arrived in answer to a request.
    pub(super) fn take(&mut self, route: Route, number: u64) -> Option<Message> {
        self.0.get_mut(&route)?.under_way.remove(&number)
    }

    /// Whether the answer to a request is there.
    pub(super) fn has_arrived(&self, route: Route, number: u64) -> bool {
        self.0.get(&route).is_some_and(|q| q.under_way.contains_key(&number))
    }
}
