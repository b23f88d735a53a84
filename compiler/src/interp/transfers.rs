//! Transfers between devices: what `send` gives and `recv-done` waits for.
//!
//! Problem: a `recv` may stand before the `send` that another device answers it with, on both sides of an exchange.
//! Invariant: nobody waits at a `send` or at a `recv`; the n-th `recv` of a route gets what its n-th `send` gave. Algorithm:
//! values that were sent lie in a queue for each route; a `recv` takes a number of its route, which its context carries to
//! `recv-done`. `source_target_pairs` make a route of each pair. Without them a channel is one route, which has one
//! device at either end: which of several came first would be chance.

use super::{execution, invalid, unsupported};
use crate::Result;
use crate::hlo::{AttrKey, Instruction};
use crate::shape::parse_source_target_pairs;
use brolga_runtime::Literal;
use std::collections::HashMap;

/// The name under which XLA's programs give the pairs of a transfer.
const PAIRS: &str = "_xla_send_recv_source_target_pairs";

/// Where values go one after another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Route {
    /// Over a channel that says nothing of devices.
    Channel(i64),
    /// Over a channel, from one device to another.
    Pair(i64, usize, usize),
}

/// A place in a route's order.
#[derive(Clone)]
pub(super) struct Request {
    route: Route,
    number: u64,
}

#[derive(Default)]
struct Queue {
    sent: u64,
    requested: u64,
    under_way: HashMap<u64, Literal>,
    /// The device that sends and the one that receives, once they have.
    ends: [Option<usize>; 2],
}

impl Queue {
    /// Takes an end of the route, 0 to send and 1 to receive.
    fn hold(&mut self, inst: &Instruction, end: usize, device: usize) -> Result<()> {
        let holder = *self.ends[end].get_or_insert(device);
        if holder == device {
            return Ok(());
        }
        let message = format!(
            "expected source_target_pairs where several devices come to one {}, found none and devices {holder} and {device}",
            inst.opcode
        );
        Err(execution(inst, message))
    }
}

/// All that was sent and not received, and who waits for what.
#[derive(Default)]
pub(super) struct Transfers {
    queues: HashMap<Route, Queue>,
    awaited: HashMap<usize, Request>,
}

impl Transfers {
    /// Takes a value from `device`.
    pub(super) fn send(&mut self, inst: &Instruction, device: usize, route: Route, value: Literal) -> Result<()> {
        let queue = self.queues.entry(route).or_default();
        queue.hold(inst, 0, device)?;
        queue.under_way.insert(queue.sent, value);
        queue.sent += 1;
        Ok(())
    }

    /// The next place in the order of a route.
    pub(super) fn request(&mut self, inst: &Instruction, device: usize, route: Route) -> Result<Request> {
        let queue = self.queues.entry(route.clone()).or_default();
        queue.hold(inst, 1, device)?;
        queue.requested += 1;
        Ok(Request { route, number: queue.requested - 1 })
    }

    /// What has arrived in answer to a request.
    pub(super) fn take(&mut self, request: &Request) -> Option<Literal> {
        self.queues.get_mut(&request.route)?.under_way.remove(&request.number)
    }

    /// Notes that a device waits, or no longer does.
    pub(super) fn wait(&mut self, device: usize, request: Option<Request>) {
        match request {
            Some(request) => self.awaited.insert(device, request),
            None => self.awaited.remove(&device),
        };
    }

    /// Whether something that is waited for is there.
    pub(super) fn has_arrived(&self) -> bool {
        let there = |r: &Request| self.queues.get(&r.route).is_some_and(|q| q.under_way.contains_key(&r.number));
        self.awaited.values().any(there)
    }
}

/// The channel of a transfer between devices.
pub(super) fn channel(inst: &Instruction) -> Result<i64> {
    if inst.attrs.bool(AttrKey::IsHostTransfer) == Some(true) {
        return Err(unsupported(inst, format!("'{}' with the host, among several devices", inst.opcode)));
    }
    Ok(inst.attrs.int(AttrKey::ChannelId).unwrap_or(0))
}

/// The pairs of numbers that a transfer says, where it says any: as an attribute of its own or as XLA writes them.
pub(super) fn pairs(inst: &Instruction) -> Result<Option<Vec<(i64, i64)>>> {
    let frontend = || {
        let (_, after) = inst.attrs.raw(AttrKey::FrontendAttributes)?.split_once(PAIRS)?;
        let list = after.trim_start().strip_prefix('=')?.trim_start();
        braced(list.strip_prefix('"').unwrap_or(list))
    };
    let text = inst.attrs.raw(AttrKey::SourceTargetPairs).or_else(frontend);
    text.map(|text| parse_source_target_pairs(text).map_err(|e| invalid(inst, e.message))).transpose()
}

/// The list in braces that a text begins with.
fn braced(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return text.get(..=i);
        }
    }
    None
}
