//! Devices that are processes of MPI, one each.
//!
//! Problem: MPI waits without a limit, ends the process at an error, takes whatever sizes it is given, and cannot take back
//! what it has begun. Invariant: no data moves before every member of the group has shown that it brings the same; nobody
//! waits longer than the limit; a buffer that MPI may still touch never goes back to its owner; where one process fails, all
//! end, and the job's status is not 0. Algorithm: each exchange goes through rounds ([`job`](mod@job)), the first of which
//! compares hashes, and whoever waits for anything moves everything on. A group has a communicator for each round, on which
//! all members post the rounds of their exchanges in the order in which these began. What processes tell each other apart
//! from exchanges goes as letters ([`mail`](mod@mail)). Nothing of this moves on while a process computes and waits for
//! nothing: that a collective is started early saves only as much as the MPI library does by itself.
//!
//! Ends: a device that fails says so to all, and its process is to end with a status other than 0, without finalising MPI;
//! `mpirun` then ends the others, as it does when a process is killed. Where memory is lent to MPI and must go back, as when
//! a member stops in the midst of an exchange, the whole job is aborted at once: there is no other way to get it back.

mod job;
mod mail;
mod raw;

use self::job::{Job, ROUNDS};
use self::mail::Mail;
use self::raw::{Comm, Op, Request, Start, Type};
use super::link::{Exchange, Link, Message, Route};
use super::{Device, Place};
use crate::RunError;
use crate::abi::Status;
use crate::services::Failure;
use ::mpi::ffi;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a wait spins before it lets others run, and how long it does that before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(50);

/// How long an exchange that nobody waits for any more may take to give its buffers back.
const GRACE: Duration = Duration::from_secs(2);

/// How long a device that fails lets the news leave.
const FAREWELL: Duration = Duration::from_millis(100);

/// A process has one link at most: MPI is initialised once.
static CONNECTED: AtomicBool = AtomicBool::new(false);

/// Devices that are processes, as `mpirun` starts them.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (program, x): (brolga_runtime::Program, brolga_runtime::ArrayLiteral) = todo!();
/// use brolga_runtime::RunOptions;
/// use brolga_runtime::devices::Mpi;
/// let device = Mpi::connect(2, 1, Some(std::time::Duration::from_secs(30)))?;
/// let results = program.run_with(&[&x], &RunOptions { device: Some(device.clone()), ..Default::default() });
/// if let Err(error) = &results {
///     device.fail(&error.to_string());
/// }
/// println!("{} results on device {}", results?.len(), device.place().device);
/// # Ok(())
/// # }
/// ```
pub struct Mpi {
    place: Place,
    timeout: Option<Duration>,
    spins: bool,
    start: Start,
    state: Mutex<State>,
}

/// Communicators of a group: one to compare what members bring, one for each round of an exchange.
struct Group {
    comms: [Comm; 1 + ROUNDS],
    /// How many exchanges have begun.
    begun: u64,
    /// How many have posted a stage.
    posted: [u64; 1 + ROUNDS],
}

/// An exchange that has begun and not ended.
struct Running {
    job: Job,
    what: String,
    /// Which of its group's exchanges it is, from 0.
    number: u64,
    /// The hash and its complement, then the least of both.
    words: Box<[u64; 4]>,
    /// 0 while hashes are compared, then the rounds; one more where it is done.
    stage: usize,
    posted: bool,
    requests: Vec<Request>,
    outcome: Result<(), Failure>,
}

impl Running {
    fn is_done(&self) -> bool {
        self.stage > ROUNDS
    }

    /// Whether MPI may read or write its owner's buffers.
    fn lends(&self) -> bool {
        !self.is_done() && self.stage > 0 && (self.posted || self.stage > 1)
    }

    fn end(&mut self, outcome: Result<(), Failure>) {
        self.outcome = outcome;
        self.stage = 1 + ROUNDS;
    }

    /// Moves it on as far as it goes without waiting.
    fn progress(&mut self, group: &mut Group) -> Result<(), Failure> {
        while let (Some(&comm), Some(posted)) = (group.comms.get(self.stage), group.posted.get_mut(self.stage)) {
            if !self.posted {
                // In the order in which exchanges began, on all members.
                if *posted != self.number {
                    return Ok(());
                }
                // Before anything can fail: what was begun must end all the same.
                *posted += 1;
                self.posted = true;
                match self.stage {
                    0 => {
                        let request = self.compare(comm)?;
                        self.requests.push(request);
                    }
                    // SAFETY: whoever began the exchange lends the buffers until it ends; it ends only when the requests are
                    // done, and the process ends where it cannot.
                    round => unsafe { self.job.post(round - 1, comm, &mut self.requests) }?,
                }
            }
            while let Some(last) = self.requests.last_mut() {
                if !last.is_done()? {
                    return Ok(());
                }
                self.requests.pop();
            }
            if self.stage == 0 {
                let [_, _, least, greatest] = *self.words;
                if least != !greatest {
                    self.job.explain();
                }
            } else if let Err(failure) = self.job.finish(self.stage - 1) {
                self.outcome = self.outcome.clone().and(Err(failure));
            }
            self.posted = false;
            self.stage += 1;
        }
        Ok(())
    }

    /// The least hash, and the complement of the greatest.
    fn compare(&mut self, comm: Comm) -> Result<Request, Failure> {
        let [own @ .., _, _] = &*self.words;
        let own = std::ptr::from_ref(own).cast::<u8>();
        let all = self.words.as_mut_ptr().wrapping_add(2).cast::<u8>();
        // SAFETY: constants of MPI's.
        let (ty, min) = unsafe { (Type::of(ffi::RSMPI_UINT64_T), Op(ffi::RSMPI_MIN)) };
        // SAFETY: two words are read and the two after them written; the box is kept until the request is done, or for ever.
        unsafe { comm.all_reduce(own, all, 2, &ty, min) }
    }
}

struct State {
    groups: HashMap<Vec<usize>, Group>,
    /// In the order in which they began.
    running: BTreeMap<u64, Running>,
    tickets: u64,
    mail: Mail,
    broken: Option<(usize, String)>,
}

impl State {
    /// Moves everything on.
    fn progress(&mut self) -> Result<(), Failure> {
        self.mail.progress()?;
        if self.broken.is_none() {
            self.broken = self.mail.failed.clone();
        }
        let is_broken = self.broken.is_some();
        for running in self.running.values_mut().filter(|r| !r.is_done()) {
            // What has not lent its buffers yet never does.
            if is_broken && !running.lends() {
                continue;
            }
            if let Some(group) = self.groups.get_mut(&running.job.exchange.group) {
                running.progress(group)?;
            }
        }
        Ok(())
    }

    /// Remembers the first failure and tells it to all.
    fn break_off(&mut self, device: usize, why: &str) {
        if self.broken.is_some() {
            return;
        }
        self.broken = Some((device, why.to_owned()));
        let end = Instant::now() + FAREWELL;
        let mut told = self.mail.fail(why);
        while told.is_ok() && !self.mail.is_empty() && Instant::now() < end {
            told = self.mail.progress();
            std::thread::yield_now();
        }
    }

    /// A member that ended before it came to an exchange.
    fn missing(&self, group: &[usize], number: u64) -> Option<usize> {
        let hash = hash(group.iter().map(|&d| d as i64)) as i64;
        let came = |device: &usize| match self.mail.ended.get(device) {
            Some(begun) => begun.get(&hash).is_some_and(|&n| n as u64 > number),
            None => true,
        };
        group.iter().copied().find(|device| !came(device))
    }
}

/// Of words, the same in every process.
fn hash(words: impl IntoIterator<Item = i64>) -> u64 {
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash, word| {
        let mixed = (hash ^ word as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53) ^ (mixed >> 29)
    })
}

/// What is waited for, where it can be known that it never comes.
enum Awaited<'a> {
    /// Exchange `1` of a group.
    Members(&'a [usize], u64),
    Value(Route),
}

impl Mpi {
    /// The device that this process is: its number among the processes that `mpirun` started, of which there must be
    /// `replicas * partitions`. Nobody waits longer than `timeout` for the others; without it a device waits for ever, but
    /// for one that fails or ends.
    ///
    /// MPI is initialised, unless the host has done so, and finalised when the last clone of the device is dropped, unless
    /// the device failed: then the process is to end with a status other than 0, and `mpirun` ends the others. Where a
    /// member stops in the midst of an exchange, the job is aborted. Whoever drops it waits, without a limit, until all
    /// others have come as far, and serves them until then.
    ///
    /// A group that does not have all devices in order is made when an exchange of it begins for the first time, for which
    /// this device waits for the others there.
    ///
    /// # Errors
    /// Where there are more or fewer processes, where MPI cannot be used, and where this process was connected before.
    pub fn connect(replicas: usize, partitions: usize, timeout: Option<Duration>) -> Result<Device, RunError> {
        Mpi::link(replicas, partitions, timeout).map(Device::new)
    }

    /// As [`Mpi::connect`], for who begins and ends exchanges by itself.
    ///
    /// # Errors
    /// As [`Mpi::connect`].
    pub fn link(replicas: usize, partitions: usize, timeout: Option<Duration>) -> Result<Mpi, RunError> {
        if CONNECTED.swap(true, Ordering::SeqCst) {
            return Err(RunError::Devices("this process is a device of MPI already".to_owned()));
        }
        Mpi::new(replicas, partitions, timeout).map_err(|failure| RunError::Devices(failure.message))
    }

    fn new(replicas: usize, partitions: usize, timeout: Option<Duration>) -> Result<Mpi, Failure> {
        let start = raw::initialise()?;
        let (device, processes) = raw::world().place()?;
        if replicas.checked_mul(partitions) != Some(processes) {
            let message = format!("expected {replicas} x {partitions} processes of MPI, found {processes}");
            // All processes find the same, and nothing is under way.
            if let Start::Ours = start {
                raw::finalise();
            }
            return Err(Failure::new(message));
        }
        let all: Vec<usize> = (0..processes).collect();
        let mail = Mail::new(raw::world().duplicate()?, device, processes);
        let group = Group::new(|| raw::world().duplicate())?;
        let here = std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").ok().and_then(|n| n.parse().ok()).unwrap_or(processes);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Mpi {
            place: Place { device, replicas, partitions },
            timeout,
            spins: here <= processors,
            start,
            state: Mutex::new(State {
                groups: HashMap::from([(all, group)]),
                running: BTreeMap::new(),
                tickets: 0,
                mail,
                broken: None,
            }),
        })
    }

    /// A thread that panicked has made its calls or not; none is half made.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, state: &State) -> Option<Failure> {
        state.broken.as_ref().map(|(culprit, why)| {
            let own = *culprit == self.place.device;
            Failure::new(if own { why.clone() } else { format!("device {culprit} failed: {why}") })
        })
    }

    fn give_up(&self, state: &mut State, failure: Failure) -> Failure {
        state.break_off(self.place.device, &failure.message);
        failure
    }

    /// Lets others run, the longer the wait the more.
    fn pause(&self, since: Instant) {
        let waited = since.elapsed();
        if self.spins && waited < SPIN {
            std::hint::spin_loop();
        } else if waited < YIELD {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
    }

    /// Waits until `done` gives something; an error where it cannot, or not in time.
    fn wait<T>(
        &self,
        awaited: &Awaited<'_>,
        what: &str,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        loop {
            let mut state = self.lock();
            let moved = state.progress();
            if let Some(value) = done(&mut state) {
                return Ok(value);
            }
            if let Some(failure) = self.broken(&state) {
                return Err(failure);
            }
            if let Err(failure) = moved {
                return Err(self.give_up(&mut state, failure));
            }
            let never = match *awaited {
                Awaited::Members(group, number) => {
                    state.missing(group, number).map(|device| format!("device {device} ended before it came to {what}"))
                }
                Awaited::Value(route) => state
                    .mail
                    .has_no_sender(route)
                    .then(|| format!("{what}: no device ever sends what is to be received here")),
            };
            if let Some(why) = never {
                return Err(self.give_up(&mut state, Failure::new(why)));
            }
            if let Some(limit) = self.timeout.filter(|&limit| start.elapsed() >= limit) {
                let mut failure = Failure::new(format!("{what}: nobody came within {limit:?}"));
                failure.code = Status::TimedOut.code();
                return Err(self.give_up(&mut state, failure));
            }
            drop(state);
            self.pause(start);
        }
    }

    /// Makes the communicators of a group. MPI has no way to do so without waiting: first all members say that they are
    /// here, which has a limit, and then MPI waits for nobody who is not.
    fn gather(&self, group: &[usize], what: &str) -> Result<(), Failure> {
        {
            let mut state = self.lock();
            if state.groups.contains_key(group) {
                return Ok(());
            }
            if let Err(failure) = state.mail.meet(group) {
                return Err(self.give_up(&mut state, failure));
            }
        }
        let others = group.len() - 1;
        let all = |state: &mut State| (state.mail.met.get(group).map_or(0, Vec::len) >= others).then_some(());
        self.wait(&Awaited::Members(group, 0), what, all)?;
        let mut state = self.lock();
        let made = raw::world().among(group).and_then(|members| Group::new(|| members.duplicate()));
        match made {
            Ok(made) => {
                state.groups.insert(group.to_vec(), made);
                Ok(())
            }
            Err(failure) => Err(self.give_up(&mut state, failure)),
        }
    }

    /// Takes an exchange that nobody waits for any more away from MPI.
    fn recover(&self, mut running: Running, why: &str) {
        let start = Instant::now();
        while running.lends() && start.elapsed() < GRACE {
            let mut state = self.lock();
            if let Some(group) = state.groups.get_mut(&running.job.exchange.group)
                && running.progress(group).is_err()
            {
                break;
            }
            let _ = state.progress();
            drop(state);
            self.pause(start);
        }
        if running.lends() {
            // The buffers belong to whoever began the exchange and go when this returns, and MPI cannot take back a
            // collective: it would read and write memory that is another's by then.
            raw::abort(&format!("device {}: {} was left in its midst: {why}", self.place.device, running.what));
        }
        if !running.is_done() {
            // MPI may still write the words that are compared; they are this link's own, and are never freed.
            std::mem::forget(running);
        }
    }

    /// Ends: says so, and waits until all others have ended too. False where one of them failed.
    fn part(&self) -> bool {
        let start = Instant::now();
        {
            let mut state = self.lock();
            let begun: Vec<i64> = state
                .groups
                .iter()
                .flat_map(|(group, g)| [hash(group.iter().map(|&d| d as i64)) as i64, g.begun as i64])
                .collect();
            if state.mail.end(&begun).is_err() {
                return false;
            }
        }
        // Nobody passes the barrier before all have come, and nobody comes before all that it wrote was taken.
        let mut barrier: Option<Request> = None;
        loop {
            let mut state = self.lock();
            if state.progress().is_err() || state.broken.is_some() {
                return false;
            }
            match barrier.as_mut().map(Request::is_done) {
                Some(Ok(true)) => return true,
                Some(Ok(false)) => {}
                Some(Err(_)) => return false,
                None if state.mail.is_empty() => match state.mail.barrier() {
                    Ok(posted) => barrier = Some(posted),
                    Err(_) => return false,
                },
                None => {}
            }
            drop(state);
            self.pause(start);
        }
    }
}

impl Group {
    fn new(comm: impl Fn() -> Result<Comm, Failure>) -> Result<Group, Failure> {
        Ok(Group { comms: [comm()?, comm()?, comm()?], begun: 0, posted: [0; 1 + ROUNDS] })
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let tickets: Vec<u64> = self.lock().running.keys().copied().collect();
        for ticket in tickets {
            self.withdraw(ticket);
        }
        if std::thread::panicking() {
            self.fail("it panicked");
        }
        let healthy = self.lock().broken.is_none() && self.part();
        match self.start {
            Start::Ours if healthy => raw::finalise(),
            _ if healthy => {}
            // The others wait where MPI finalises for who does not come there, and MPI may still use what letters lent it.
            // The process ends soon, of which mpirun takes notice.
            _ => self.lock().mail.leak(),
        }
    }
}

impl Link for Mpi {
    fn place(&self) -> Place {
        self.place
    }

    unsafe fn begin(&self, exchange: Exchange) -> Result<u64, Failure> {
        let what = exchange.collective.to_string();
        let alone = exchange.group.len() == 1;
        if !alone {
            self.gather(&exchange.group, &what)?;
        }
        let mut state = self.lock();
        if let Some(failure) = self.broken(&state) {
            return Err(failure);
        }
        let own = hash(exchange.signature());
        let group = exchange.group.clone();
        let mut running = Running {
            job: Job::new(exchange),
            what,
            number: 0,
            words: Box::new([own, !own, 0, 0]),
            stage: 0,
            posted: false,
            requests: Vec::new(),
            outcome: Ok(()),
        };
        if alone {
            let outcome = running.job.run_alone();
            running.end(outcome);
        } else if let Some(known) = state.groups.get_mut(&group) {
            running.number = known.begun;
            known.begun += 1;
        }
        state.tickets += 1;
        let ticket = state.tickets;
        state.running.insert(ticket, running);
        match state.progress() {
            Ok(()) => Ok(ticket),
            Err(failure) => {
                let failure = self.give_up(&mut state, failure);
                let running = state.running.remove(&ticket);
                drop(state);
                if let Some(running) = running {
                    self.recover(running, &failure.message);
                }
                Err(failure)
            }
        }
    }

    fn end(&self, ticket: u64) -> Result<(), Failure> {
        let (group, number, what) = match self.lock().running.get(&ticket) {
            Some(running) => (running.job.exchange.group.clone(), running.number, running.what.clone()),
            None => return Err(Failure::new("an exchange that was never begun")),
        };
        let is_done = |state: &mut State| state.running.get(&ticket)?.is_done().then_some(());
        let waited = self.wait(&Awaited::Members(&group, number), &what, is_done);
        let running = self.lock().running.remove(&ticket);
        let Some(running) = running else { return waited };
        match waited {
            Ok(()) => {
                let Err(failure) = running.outcome else { return Ok(()) };
                Err(self.give_up(&mut self.lock(), failure))
            }
            Err(failure) => {
                self.recover(running, &failure.message);
                Err(failure)
            }
        }
    }

    fn withdraw(&self, ticket: u64) {
        let running = self.lock().running.remove(&ticket);
        let Some(running) = running else { return };
        self.fail("it left an exchange that it had begun");
        self.recover(running, "nobody waits for it");
    }

    fn send(&self, route: Route, message: Message) -> Result<(), Failure> {
        let mut state = self.lock();
        if let Some(failure) = self.broken(&state) {
            return Err(failure);
        }
        let sent = state.mail.send(route, message).and_then(|()| state.progress());
        sent.map_err(|failure| self.give_up(&mut state, failure))
    }

    fn request(&self, route: Route) -> Result<u64, Failure> {
        let mut state = self.lock();
        let number = state.mail.request(route);
        number.map_err(|failure| self.give_up(&mut state, failure))
    }

    fn receive(&self, route: Route, number: u64) -> Result<Message, Failure> {
        let take = |state: &mut State| state.mail.transfers.take(route, number);
        self.wait(&Awaited::Value(route), "recv-done", take)
    }

    fn fail(&self, why: &str) {
        let mut state = self.lock();
        state.break_off(self.place.device, why);
    }
}
