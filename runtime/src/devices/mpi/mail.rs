//! Letters between processes: values under way, and news of the processes themselves.
//!
//! Problem: nobody knows when a letter comes, nor how long it is, and a route may not say to whom it goes. Invariant: what one
//! process writes to another is read in the order in which it was written, so that the n-th `send` of a route answers its
//! n-th `recv`, and who says that it ends has nothing under way any more. Algorithm: a letter is a head of words, and its
//! bytes in parts of at most [`MOST`]; route and kind are in the head, so that tags need only tell heads from bytes. Whoever
//! waits for anything takes all letters that have come. A channel that says nothing of devices learns its receiver from
//! the first `recv`; until then its values wait at the sender.

use super::raw::{Arrival, Comm, MOST, Request};
use crate::devices::link::{Message, Route};
use crate::devices::transfers::Transfers;
use crate::services::Failure;
use crate::{ArrayShape, ElementType};
use std::collections::{HashMap, VecDeque};

const HEAD: i32 = 1;
const BYTES: i32 = 2;

/// What a letter says; the first word of its head. The second is the number of bytes that follow the head.
const VALUE: i64 = 1;
const RECEIVER: i64 = 2;
const MEET: i64 = 3;
const ENDED: i64 = 4;
const FAILED: i64 = 5;

/// A buffer that MPI reads or writes.
struct UnderWay {
    request: Request,
    bytes: Vec<u8>,
}

struct Incoming {
    source: usize,
    tag: i32,
    part: UnderWay,
    done: bool,
}

/// The values of a channel that says nothing of devices, at its sender.
#[derive(Default)]
struct Channel {
    receiver: Option<usize>,
    held: Vec<Message>,
    /// Whether this process sends on it.
    sends: bool,
}

pub(super) struct Mail {
    comm: Comm,
    me: usize,
    devices: usize,
    outgoing: VecDeque<UnderWay>,
    incoming: VecDeque<Incoming>,
    /// By source, a head whose bytes have not all come.
    open: HashMap<usize, (Vec<i64>, Vec<u8>)>,
    pub(super) transfers: Transfers,
    channels: HashMap<i64, Channel>,
    /// Who has come to make a group.
    pub(super) met: HashMap<Vec<usize>, Vec<usize>>,
    /// Who has ended, and how many exchanges of each group it had begun, by the group's hash.
    pub(super) ended: HashMap<usize, HashMap<i64, i64>>,
    /// Who failed first, as far as this process knows.
    pub(super) failed: Option<(usize, String)>,
}

impl Mail {
    pub(super) fn new(comm: Comm, me: usize, devices: usize) -> Mail {
        Mail {
            comm,
            me,
            devices,
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            open: HashMap::new(),
            transfers: Transfers::default(),
            channels: HashMap::new(),
            met: HashMap::new(),
            ended: HashMap::new(),
            failed: None,
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.devices).filter(move |&d| d != me)
    }

    fn post(&mut self, to: usize, tag: i32, bytes: Vec<u8>) -> Result<(), Failure> {
        let mut at = 0;
        let mut requests = Vec::new();
        while at < bytes.len() {
            let length = MOST.min(bytes.len() - at);
            // SAFETY: inside the buffer, which is kept until the requests are done.
            requests.push(unsafe { self.comm.send(bytes.as_ptr().add(at), length, to, tag) }?);
            at += length;
        }
        // Parts of one sender are read in order, so that the buffer is kept until the last is done; the requests of the
        // others are kept before it.
        let last = requests.pop();
        self.outgoing.extend(requests.into_iter().map(|request| UnderWay { request, bytes: Vec::new() }));
        self.outgoing.extend(last.map(|request| UnderWay { request, bytes }));
        Ok(())
    }

    fn write(&mut self, to: usize, kind: i64, words: &[i64], bytes: Vec<u8>) -> Result<(), Failure> {
        let head = [kind, bytes.len() as i64];
        self.post(to, HEAD, head.iter().chain(words).flat_map(|w| w.to_ne_bytes()).collect())?;
        self.post(to, BYTES, bytes)
    }

    /// Lets letters leave and takes those that have come.
    pub(super) fn progress(&mut self) -> Result<(), Failure> {
        while let Some(first) = self.outgoing.front_mut() {
            if !first.request.is_done()? {
                break;
            }
            self.outgoing.pop_front();
        }
        while let Some(arrival) = self.comm.arrival()? {
            let Arrival { source, tag, length, .. } = arrival;
            let mut bytes = vec![0; length];
            // SAFETY: of the message's length, and kept until the request is done.
            let request = unsafe { arrival.take(bytes.as_mut_ptr()) }?;
            self.incoming.push_back(Incoming { source, tag, part: UnderWay { request, bytes }, done: false });
        }
        let mut stalled = Vec::new();
        let mut at = 0;
        while let Some(letter) = self.incoming.get_mut(at) {
            letter.done = letter.done || letter.part.request.is_done()?;
            if !letter.done || stalled.contains(&letter.source) {
                stalled.push(letter.source);
                at += 1;
                continue;
            }
            if let Some(Incoming { source, tag, part, .. }) = self.incoming.remove(at) {
                self.read(source, tag, part.bytes)?;
            }
        }
        Ok(())
    }

    /// Waits for nobody; done when all have come.
    pub(super) fn barrier(&self) -> Result<Request, Failure> {
        self.comm.barrier()
    }

    /// Whether everything written has left.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    fn read(&mut self, source: usize, tag: i32, bytes: Vec<u8>) -> Result<(), Failure> {
        let (words, body) = if tag == HEAD {
            (bytes.as_chunks::<8>().0.iter().map(|w| i64::from_ne_bytes(*w)).collect(), Vec::new())
        } else {
            let (words, mut body) = self.open.remove(&source).ok_or_else(damaged)?;
            if body.is_empty() {
                body = bytes;
            } else {
                body.extend(bytes);
            }
            (words, body)
        };
        let &[kind, length, ref rest @ ..] = words.as_slice() else { return Err(damaged()) };
        if length as u64 > body.len() as u64 {
            self.open.insert(source, (words, body));
            return Ok(());
        }
        match kind {
            VALUE => {
                let (route, shapes) = read_value(rest).ok_or_else(damaged)?;
                self.transfers.send(source, route, Message { shapes, bytes: body })?;
            }
            RECEIVER => {
                let &[channel] = rest else { return Err(damaged()) };
                self.receives(source, channel)?;
            }
            MEET => {
                let group = rest.iter().map(|&d| d as usize).collect();
                self.met.entry(group).or_default().push(source);
            }
            ENDED => {
                let begun = rest.as_chunks::<2>().0.iter().map(|&[group, n]| (group, n)).collect();
                self.ended.insert(source, begun);
            }
            FAILED => {
                let why = String::from_utf8_lossy(&body).into_owned();
                self.failed.get_or_insert((source, why));
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }

    /// A channel's receiver is known: what waits for it leaves.
    fn receives(&mut self, device: usize, channel: i64) -> Result<(), Failure> {
        let known = self.channels.entry(channel).or_default();
        let holder = *known.receiver.get_or_insert(device);
        if holder != device && known.sends {
            return Err(several(holder, device));
        }
        for message in std::mem::take(&mut known.held) {
            self.put(holder, Route::Channel(channel), message)?;
        }
        Ok(())
    }

    fn put(&mut self, to: usize, route: Route, message: Message) -> Result<(), Failure> {
        if to == self.me {
            return self.transfers.send(self.me, route, message);
        }
        let words = value_words(route, &message.shapes);
        self.write(to, VALUE, &words, message.bytes)
    }

    /// Puts a value on its way.
    pub(super) fn send(&mut self, route: Route, message: Message) -> Result<(), Failure> {
        match route {
            Route::Pair(_, _, to) if to < self.devices => self.put(to, route, message),
            Route::Pair(_, _, to) => Err(Failure::new(format!("device {to} of {} is to receive", self.devices))),
            Route::Channel(channel) => {
                let known = self.channels.entry(channel).or_default();
                known.sends = true;
                match known.receiver {
                    Some(to) => self.put(to, route, message),
                    None => {
                        known.held.push(message);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Takes the next place in the order of a route.
    pub(super) fn request(&mut self, route: Route) -> Result<u64, Failure> {
        let number = self.transfers.request(self.me, route)?;
        if let (Route::Channel(channel), 0) = (route, number) {
            self.everyone(RECEIVER, &[channel], &[])?;
            self.receives(self.me, channel)?;
        }
        Ok(number)
    }

    fn everyone(&mut self, kind: i64, words: &[i64], bytes: &[u8]) -> Result<(), Failure> {
        for to in self.others() {
            self.write(to, kind, words, bytes.to_vec())?;
        }
        Ok(())
    }

    /// Says that this process has come to make a group.
    pub(super) fn meet(&mut self, group: &[usize]) -> Result<(), Failure> {
        let words: Vec<i64> = group.iter().map(|&d| d as i64).collect();
        let me = self.me;
        for &to in group.iter().filter(|&&d| d != me) {
            self.write(to, MEET, &words, Vec::new())?;
        }
        Ok(())
    }

    /// Says that this process ends.
    pub(super) fn end(&mut self, begun: &[i64]) -> Result<(), Failure> {
        self.everyone(ENDED, begun, &[])
    }

    /// Says that this process failed.
    pub(super) fn fail(&mut self, why: &str) -> Result<(), Failure> {
        self.everyone(FAILED, &[], why.as_bytes())
    }

    /// Whether a value for a route can come no more.
    pub(super) fn has_no_sender(&self, route: Route) -> bool {
        match route {
            Route::Pair(_, from, _) => self.ended.contains_key(&from),
            Route::Channel(_) => self.devices > 1 && self.others().all(|d| self.ended.contains_key(&d)),
        }
    }

    /// Leaves what MPI may still read or write to the process's end.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.outgoing));
        std::mem::forget(std::mem::take(&mut self.incoming));
    }
}

fn damaged() -> Failure {
    Failure::new("a letter of another process does not follow its form")
}

fn several(one: usize, other: usize) -> Failure {
    Failure::new(format!(
        "expected source_target_pairs where several devices come to one recv, found none and devices {one} and {other}"
    ))
}

/// The route, then for each shape its type, its rank, its dimensions, and which of these are dynamic.
fn value_words(route: Route, shapes: &[ArrayShape]) -> Vec<i64> {
    let mut words = match route {
        Route::Channel(channel) => vec![0, channel, 0, 0],
        Route::Pair(channel, from, to) => vec![1, channel, from as i64, to as i64],
    };
    for shape in shapes {
        words.extend([i64::from(shape.ty.code()), shape.rank() as i64]);
        words.extend(&shape.dims);
        words.extend(shape.dynamic.iter().map(|&d| i64::from(d)));
    }
    words
}

fn read_value(words: &[i64]) -> Option<(Route, Vec<ArrayShape>)> {
    let (&[pair, channel, from, to], mut rest) = words.split_first_chunk::<4>()?;
    let route = match pair {
        0 => Route::Channel(channel),
        _ => Route::Pair(channel, usize::try_from(from).ok()?, usize::try_from(to).ok()?),
    };
    let mut shapes = Vec::new();
    while let Some((&[code, rank], after)) = rest.split_first_chunk::<2>() {
        let rank = usize::try_from(rank).ok()?;
        let (dims, after) = after.split_at_checked(rank)?;
        let (dynamic, after) = after.split_at_checked(rank)?;
        let ty = ElementType::from_code(u8::try_from(code).ok()?)?;
        let dynamic = dynamic.iter().map(|&d| d != 0).collect();
        shapes.push(ArrayShape { dynamic, ..ArrayShape::new(ty, dims) });
        rest = after;
    }
    rest.is_empty().then_some((route, shapes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_values_head_round_trips() {
        let mut bounded = ArrayShape::new(ElementType::F32, [3, 4]);
        bounded.dynamic = vec![false, true];
        let shapes = vec![bounded, ArrayShape::new(ElementType::Pred, [])];
        for route in [Route::Channel(-5), Route::Pair(7, 1, 0)] {
            let words = value_words(route, &shapes);
            assert_eq!(read_value(&words), Some((route, shapes.clone())));
            assert_eq!(read_value(&words[..words.len() - 1]), None);
        }
    }
}
