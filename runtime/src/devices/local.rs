//! Devices that are threads of one process.
//!
//! Problem: threads must find each other at a collective, and none may wait for what cannot come. Invariant: the n-th
//! exchange of a group is the n-th on each of its members; whoever waits is woken by what it waits for, by a member that
//! fails or ends, by its time limit, or when everybody waits. Algorithm: a board under one lock holds the meetings that
//! are not complete and the values under way. A short wait spins, where there is a processor for each device; a longer one
//! sleeps, and who is the last to fall asleep finds that nothing can happen any more.

use super::Place;
use super::link::{Exchange, Link, Message, Route};
use super::meeting::{Meeting, Stage};
use super::transfers::Transfers;
use crate::abi::Status;
use crate::services::Failure;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a wait spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// What a sleeping device waits for.
#[derive(Clone)]
enum Awaited {
    Members(Arc<Meeting>),
    Pieces,
    Value(Route, u64),
}

struct State {
    /// By group, and how many exchanges of it came before.
    meetings: HashMap<(Vec<usize>, u64), Arc<Meeting>>,
    transfers: Transfers,
    waiting: Vec<Option<Awaited>>,
    gone: Vec<bool>,
    /// The first failure: the device, and why.
    broken: Option<(usize, String)>,
}

impl State {
    fn set_waiting(&mut self, device: usize, awaited: Option<Awaited>) {
        if let Some(slot) = self.waiting.get_mut(device) {
            *slot = awaited;
        }
    }

    /// Whether everybody waits for something that only somebody who waits could bring.
    fn is_stuck(&self) -> bool {
        self.waiting.iter().zip(&self.gone).all(|(awaited, &gone)| match awaited {
            None => gone,
            Some(Awaited::Members(meeting)) => meeting.stage() == Stage::Open,
            Some(Awaited::Pieces) => false,
            Some(Awaited::Value(route, number)) => !self.transfers.has_arrived(*route, *number),
        })
    }
}

/// What the devices of a process share.
pub(super) struct Board {
    replicas: usize,
    partitions: usize,
    timeout: Option<Duration>,
    spins: bool,
    state: Mutex<State>,
    changed: Condvar,
    sleepers: AtomicUsize,
}

impl Board {
    pub(super) fn new(replicas: usize, partitions: usize, timeout: Option<Duration>) -> Arc<Board> {
        let devices = replicas * partitions;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Arc::new(Board {
            replicas,
            partitions,
            timeout,
            spins: devices <= processors,
            state: Mutex::new(State {
                meetings: HashMap::new(),
                transfers: Transfers::default(),
                waiting: vec![None; devices],
                gone: vec![false; devices],
                broken: None,
            }),
            changed: Condvar::new(),
            sleepers: AtomicUsize::new(0),
        })
    }

    /// A device that panicked leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those that sleep, after what they wait for has happened outside the lock.
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Whoever is about to sleep has looked before this lock is had, or looks after it.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    fn break_off(&self, state: &mut State, device: usize, why: &str) {
        if state.broken.is_none() {
            state.broken = Some((device, why.to_owned()));
        }
        for meeting in state.meetings.values() {
            meeting.fail();
        }
        state.meetings.clear();
        self.changed.notify_all();
    }

    /// The failure of a device other than `device`.
    fn broken(&self, state: &State, device: usize) -> Option<Failure> {
        state.broken.as_ref().map(|(culprit, why)| {
            Failure::new(if *culprit == device { why.clone() } else { format!("device {culprit} failed: {why}") })
        })
    }

    /// Waits until `done` gives something; an error where it cannot, or not in time.
    fn wait<T>(
        &self,
        device: usize,
        awaited: &Awaited,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Failure> {
        let deadline = self.timeout.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let outcome = loop {
            if let Some(value) = done(&mut state) {
                break Ok(value);
            }
            if let Some(failure) = self.broken(&state, device) {
                break Err(failure);
            }
            if let Awaited::Members(meeting) = awaited
                && let Some(missing) = meeting.missing(|d| state.gone.get(d) == Some(&true))
            {
                let why = format!("device {missing} ended before it came to {}", meeting.collective);
                break Err(self.give_up(&mut state, device, why));
            }
            state.set_waiting(device, Some(awaited.clone()));
            if state.is_stuck() {
                let why = match awaited {
                    Awaited::Value(..) => "no device ever sends what is to be received here",
                    _ => "some device of the group never comes to this collective",
                };
                break Err(self.give_up(&mut state, device, format!("every device waits, and {why}")));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => {
                    let limit = self.timeout.unwrap_or_default();
                    let mut failure = self.give_up(&mut state, device, format!("nobody came within {limit:?}"));
                    failure.code = Status::TimedOut.code();
                    break Err(failure);
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        };
        state.set_waiting(device, None);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// The device that failed first.
    pub(super) fn culprit(&self) -> Option<usize> {
        self.lock().broken.as_ref().map(|(device, _)| *device)
    }

    fn give_up(&self, state: &mut State, device: usize, why: String) -> Failure {
        self.break_off(state, device, &why);
        Failure::new(why)
    }

    /// Spins for a while.
    fn spin(&self, done: impl Fn() -> bool) -> bool {
        if done() {
            return true;
        }
        if !self.spins {
            return false;
        }
        let end = Instant::now() + SPIN;
        while Instant::now() < end {
            for _ in 0..32 {
                std::hint::spin_loop();
                if done() {
                    return true;
                }
            }
        }
        false
    }
}

/// A device's line to the other threads.
pub(super) struct Local {
    board: Arc<Board>,
    number: usize,
    /// How many exchanges of each group this device has begun.
    visits: Mutex<HashMap<Vec<usize>, u64>>,
    /// The last ticket, and the exchanges that have begun and not ended.
    pending: Mutex<(u64, HashMap<u64, Arc<Meeting>>)>,
}

impl Local {
    pub(super) fn new(board: Arc<Board>, number: usize) -> Local {
        Local { board, number, visits: Mutex::default(), pending: Mutex::default() }
    }

    fn pending(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<Meeting>>)> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in the work of a meeting to which everybody has come, until it is complete.
    fn complete(&self, meeting: &Meeting) {
        if meeting.work() {
            self.board.wake();
        }
        if !self.board.spin(|| meeting.is_complete()) {
            // Whoever has a piece is at work, so that no time limit holds here: its buffers are in use.
            let mut state = self.board.lock();
            self.board.sleepers.fetch_add(1, Ordering::SeqCst);
            state.set_waiting(self.number, Some(Awaited::Pieces));
            while !meeting.is_complete() {
                state = self.board.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.set_waiting(self.number, None);
            self.board.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let tickets: Vec<u64> = self.pending().1.keys().copied().collect();
        for ticket in tickets {
            self.withdraw(ticket);
        }
        let mut state = self.board.lock();
        if let Some(gone) = state.gone.get_mut(self.number) {
            *gone = true;
        }
        self.board.changed.notify_all();
    }
}

impl Link for Local {
    fn place(&self) -> Place {
        let (replicas, partitions) = (self.board.replicas, self.board.partitions);
        Place { device: self.number, replicas, partitions }
    }

    unsafe fn begin(&self, exchange: Exchange) -> Result<u64, Failure> {
        let number = {
            let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
            let number = visits.entry(exchange.group.clone()).or_default();
            *number += 1;
            *number
        };
        let meeting = {
            let mut state = self.board.lock();
            if let Some(failure) = self.board.broken(&state, self.number) {
                return Err(failure);
            }
            let key = (exchange.group.clone(), number);
            let meeting =
                Arc::clone(state.meetings.entry(key).or_insert_with_key(|_| Arc::new(Meeting::new(&exchange))));
            match meeting.join(&exchange) {
                Ok(true) => {
                    state.meetings.remove(&(exchange.group.clone(), number));
                    drop(state);
                    self.board.wake();
                }
                Ok(false) => {}
                Err(why) => return Err(self.board.give_up(&mut state, self.number, why)),
            }
            meeting
        };
        let mut pending = self.pending();
        pending.0 += 1;
        let ticket = pending.0;
        pending.1.insert(ticket, meeting);
        Ok(ticket)
    }

    fn end(&self, ticket: u64) -> Result<(), Failure> {
        let begun = self.pending().1.remove(&ticket);
        let meeting = begun.ok_or_else(|| Failure::new("an exchange that was never begun"))?;
        if !self.board.spin(|| meeting.stage() != Stage::Open) {
            let over = |_: &mut State| (meeting.stage() == Stage::Ready).then_some(());
            self.board.wait(self.number, &Awaited::Members(Arc::clone(&meeting)), over)?;
        }
        if meeting.stage() != Stage::Ready {
            let failure = self.board.broken(&self.board.lock(), self.number);
            return Err(failure.unwrap_or_else(|| Failure::new("an exchange was broken off")));
        }
        self.complete(&meeting);
        if meeting.is_spoiled() {
            return Err(Failure::new("rows that lie outside their arrays"));
        }
        Ok(())
    }

    fn withdraw(&self, ticket: u64) {
        let Some(meeting) = self.pending().1.remove(&ticket) else { return };
        meeting.fail();
        if meeting.stage() == Stage::Ready {
            self.complete(&meeting);
        }
        self.fail("it left an exchange that it had begun");
    }

    fn send(&self, route: Route, message: Message) -> Result<(), Failure> {
        let mut state = self.board.lock();
        if let Some(failure) = self.board.broken(&state, self.number) {
            return Err(failure);
        }
        state.transfers.send(self.number, route, message)?;
        drop(state);
        self.board.wake();
        Ok(())
    }

    fn request(&self, route: Route) -> Result<u64, Failure> {
        self.board.lock().transfers.request(self.number, route)
    }

    fn receive(&self, route: Route, number: u64) -> Result<Message, Failure> {
        let take = |state: &mut State| state.transfers.take(route, number);
        self.board.wait(self.number, &Awaited::Value(route, number), take)
    }

    fn fail(&self, why: &str) {
        let mut state = self.board.lock();
        self.board.break_off(&mut state, self.number, why);
    }
}
