//! Several devices: a thread each, meeting at collectives.
//!
//! Problem: collectives have a meaning only among replicas and partitions that run the same program. Invariant: a
//! device passes a collective when every member of its group has brought its operands, and a meeting that can never
//! happen is an error, not a hang. Algorithm: a board under one lock; a device posts its operands under the
//! instruction, how often it has come there, and its group, then waits for the rest. What is sent over channels lies on
//! the board too ([`super::transfers`]). Whoever starts to wait when everybody else waits or is done, no meeting is
//! complete and nothing that is waited for was sent, has found a deadlock.

use super::context::{Context, Host, NoHost, Options};
use super::feeds::Fed;
use super::transfers::{Request, Route, Transfers, channel, pairs};
use super::{accepts, collective, elementwise, execution, invalid, movement, run_with, unsupported};
use crate::hlo::{AttrKey, Instruction, Module, Opcode};
use crate::shape::{parse_replica_groups, parse_source_target_pairs};
use crate::{Error, Result, Site};
use brolga_runtime::feed::Feeds;
use brolga_runtime::{ArrayLiteral, Literal, Scalar};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many devices may run at once: each is a thread.
pub const MAX_DEVICES: usize = 256;

/// Runs a module on `replicas * partitions` devices. Arguments and results are by device, whose number is
/// `replica * partitions + partition`.
pub fn run_devices(
    module: &Module,
    args: &[Vec<Literal>],
    replicas: usize,
    partitions: usize,
    options: &Options,
) -> Result<Vec<Literal>> {
    run_devices_fed(module, args, replicas, partitions, options, &[])
}

/// As [`run_devices`], with the feeds of each device.
pub fn run_devices_fed(
    module: &Module,
    args: &[Vec<Literal>],
    replicas: usize,
    partitions: usize,
    options: &Options,
    feeds: &[Feeds],
) -> Result<Vec<Literal>> {
    let fail = |message: String| Error::Execution { site: Site::default(), message };
    let devices = replicas.checked_mul(partitions).filter(|&n| n > 0 && n <= MAX_DEVICES);
    let devices = devices.ok_or_else(|| fail(format!("expected 1 to {MAX_DEVICES} devices")))?;
    if args.len() != devices {
        return Err(fail(format!("expected arguments for {devices} devices, found {}", args.len())));
    }
    let board = Board { state: Mutex::new(State::new(devices)), changed: Condvar::new() };
    let results: Vec<Result<Literal>> = std::thread::scope(|scope| {
        let threads: Vec<_> = args
            .iter()
            .enumerate()
            .map(|(number, args)| {
                let board = &board;
                scope.spawn(move || {
                    let (visits, requests) = (HashMap::new(), Vec::new());
                    let mut device = Device { module, number, replicas, partitions, board, visits, requests };
                    match feeds.get(number) {
                        Some(feeds) => run_with(module, args, options, &mut Fed { feeds, host: &mut device }),
                        None => run_with(module, args, options, &mut device),
                    }
                })
            })
            .collect();
        let lost = || Err(Error::Internal("a device's thread panicked".to_owned()));
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| lost())).collect()
    });
    // A device that failed by itself says more than those that waited for it in vain.
    let stranded = |r: &Result<Literal>| matches!(r, Err(Error::Execution { message, .. }) if message == NO_MEETING || message == NO_SENDER);
    match results.iter().find(|r| r.is_err() && !stranded(r)) {
        Some(Err(error)) => Err(error.clone()),
        _ => results.into_iter().collect(),
    }
}

const NO_MEETING: &str = "some device of the group never comes to this collective";
const NO_SENDER: &str = "no device ever sends what is to be received here";

/// An instruction, how often a device has come to it, and the devices that meet there.
type Meeting = (usize, u64, Vec<usize>);

/// What the devices of a meeting have brought, and how many have left it.
#[derive(Default)]
struct Posts {
    operands: HashMap<usize, Arc<Vec<Literal>>>,
    left: usize,
}

struct State {
    meetings: HashMap<Meeting, Posts>,
    done: Vec<bool>,
    transfers: Transfers,
    waiting: usize,
    deadlock: bool,
}

impl State {
    fn new(devices: usize) -> State {
        State {
            meetings: HashMap::new(),
            done: vec![false; devices],
            transfers: Transfers::default(),
            waiting: 0,
            deadlock: false,
        }
    }

    fn stuck(&self) -> bool {
        let done = self.done.iter().filter(|&&d| d).count();
        self.waiting + done == self.done.len()
            && self.meetings.iter().all(|(meeting, posts)| posts.operands.len() < meeting.2.len())
            && !self.transfers.has_arrived()
    }
}

struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

impl Board {
    /// A device that panicked leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings operands to a meeting; everybody's, in the group's order.
    fn meet(
        &self,
        inst: &Instruction,
        device: usize,
        meeting: &Meeting,
        own: Vec<Literal>,
    ) -> Result<Vec<Arc<Vec<Literal>>>> {
        let mut state = self.lock();
        state.meetings.entry(meeting.clone()).or_default().operands.insert(device, Arc::new(own));
        self.changed.notify_all();
        loop {
            let group = &meeting.2;
            let posts = state.meetings.entry(meeting.clone()).or_default();
            if posts.operands.len() == group.len() {
                let all = group.iter().filter_map(|d| posts.operands.get(d).cloned()).collect();
                posts.left += 1;
                if posts.left == group.len() {
                    state.meetings.remove(meeting);
                }
                return Ok(all);
            }
            state = self.pause(state);
            if state.deadlock {
                return Err(execution(inst, NO_MEETING));
            }
        }
    }

    /// Waits until something changes, or finds that nothing will.
    fn pause<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        if state.stuck() {
            state.deadlock = true;
            self.changed.notify_all();
        }
        if !state.deadlock {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state
    }

    /// Puts a value on its way.
    fn send(&self, inst: &Instruction, device: usize, route: Route, value: Literal) -> Result<()> {
        self.lock().transfers.send(inst, device, route, value)?;
        self.changed.notify_all();
        Ok(())
    }

    /// What answers a request.
    fn receive(&self, inst: &Instruction, device: usize, request: &Request) -> Result<Literal> {
        let mut state = self.lock();
        loop {
            if let Some(value) = state.transfers.take(request) {
                return Ok(value);
            }
            state.transfers.wait(device, Some(request.clone()));
            state = self.pause(state);
            state.transfers.wait(device, None);
            if state.deadlock {
                return Err(execution(inst, NO_SENDER));
            }
        }
    }
}

/// One device's view.
struct Device<'a> {
    module: &'a Module,
    number: usize,
    replicas: usize,
    partitions: usize,
    board: &'a Board,
    /// How often each collective was reached.
    visits: HashMap<usize, u64>,
    /// What each `recv` waits for; nothing where nobody sends to this device.
    requests: Vec<Option<Request>>,
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        let mut state = self.board.lock();
        state.done[self.number] = true;
        if state.stuck() {
            state.deadlock = state.waiting > 0;
        }
        self.board.changed.notify_all();
    }
}

impl Host for Device<'_> {
    fn replica_id(&self) -> u32 {
        (self.number / self.partitions) as u32
    }

    fn partition_id(&self) -> u32 {
        (self.number % self.partitions) as u32
    }

    fn collective(&mut self, inst: &Instruction, operands: &[&Literal]) -> Option<Result<Literal>> {
        Some(self.exchange(inst, operands))
    }

    fn send(&mut self, inst: &Instruction, value: &Literal) -> Result<()> {
        let channel = channel(inst)?;
        let Some(pairs) = pairs(inst)? else {
            return self.board.send(inst, self.number, Route::Channel(channel), value.clone());
        };
        for (source, target) in pairs {
            if self.device_of(inst, source)? == self.number {
                let route = Route::Pair(channel, self.number, self.device_of(inst, target)?);
                self.board.send(inst, self.number, route, value.clone())?;
            }
        }
        Ok(())
    }

    fn begin_recv(&mut self, inst: &Instruction) -> Result<u32> {
        let channel = channel(inst)?;
        let route = match pairs(inst)? {
            None => Some(Route::Channel(channel)),
            Some(pairs) => {
                let mut from = None;
                for (source, target) in pairs {
                    if self.device_of(inst, target)? == self.number {
                        from = Some(Route::Pair(channel, self.device_of(inst, source)?, self.number));
                    }
                }
                from
            }
        };
        let mut state = self.board.lock();
        self.requests.push(route.map(|route| state.transfers.request(inst, self.number, route)).transpose()?);
        u32::try_from(self.requests.len() - 1).map_err(|_| unsupported(inst, "so many transfers"))
    }

    fn recv(&mut self, inst: &Instruction, request: u32) -> Result<Literal> {
        let request = self.requests.get_mut(request as usize);
        let request = request.ok_or_else(|| invalid(inst, "a transfer that no recv began"))?.take();
        let shape =
            inst.shape.as_tuple().and_then(|t| t.first()).ok_or_else(|| invalid(inst, "a transfer of nothing"))?;
        let value = match request {
            Some(request) => self.board.receive(inst, self.number, &request)?,
            None => Literal::zeros(shape).ok_or_else(|| unsupported(inst, "this value over a channel"))?,
        };
        if !accepts(shape, &value) {
            return Err(execution(inst, format!("expected to receive {shape:#}, found {}", value.shape())));
        }
        Ok(value)
    }
}

/// What the numbers in groups and pairs count.
#[derive(Clone, Copy)]
enum Numbering {
    /// Replicas, within one partition.
    Replica,
    /// Partitions, within one replica.
    Partition,
    /// Replicas with all their partitions.
    ReplicaWithPartitions,
    /// Devices.
    Device,
}

impl Device<'_> {
    fn numbering(&self, inst: &Instruction) -> Numbering {
        let channel = inst.attrs.int(AttrKey::ChannelId).is_some_and(|c| c > 0);
        let global = inst.attrs.bool(AttrKey::UseGlobalDeviceIds).unwrap_or(false);
        let reduces_or_gathers = matches!(
            inst.opcode,
            Opcode::AllReduce
                | Opcode::AllReduceStart
                | Opcode::AllGather
                | Opcode::AllGatherStart
                | Opcode::ReduceScatter
        );
        match (channel, global) {
            (_, true) => Numbering::Device,
            (false, false) => Numbering::Replica,
            (true, false) if reduces_or_gathers => Numbering::ReplicaWithPartitions,
            (true, false) => Numbering::Partition,
        }
    }

    /// The devices that a number stands for, as seen from this device.
    fn devices(&self, numbering: Numbering, number: usize) -> Vec<usize> {
        let (replica, partition) = (self.number / self.partitions, self.number % self.partitions);
        match numbering {
            Numbering::Replica => vec![number * self.partitions + partition],
            Numbering::Partition => vec![replica * self.partitions + number],
            Numbering::ReplicaWithPartitions => (0..self.partitions).map(|p| number * self.partitions + p).collect(),
            Numbering::Device => vec![number],
        }
    }

    /// How many numbers there are.
    fn numbers(&self, numbering: Numbering) -> usize {
        match numbering {
            Numbering::Replica | Numbering::ReplicaWithPartitions => self.replicas,
            Numbering::Partition => self.partitions,
            Numbering::Device => self.replicas * self.partitions,
        }
    }

    /// A number of the text, where it counts something that runs.
    fn number_of(&self, numbering: Numbering, number: i64) -> Option<usize> {
        usize::try_from(number).ok().filter(|&n| n < self.numbers(numbering))
    }

    /// The device that a number in the pairs of a transfer stands for: a partition of this replica where there are several,
    /// a replica else.
    fn device_of(&self, inst: &Instruction, number: i64) -> Result<usize> {
        let numbering = if self.partitions > 1 { Numbering::Partition } else { Numbering::Replica };
        let device = self.number_of(numbering, number).and_then(|n| self.devices(numbering, n).first().copied());
        device.ok_or_else(|| execution(inst, format!("source_target_pairs name device {number}, which does not run")))
    }

    /// The devices of this device's group, in order; itself alone where a broadcast leaves it out.
    fn group(&self, inst: &Instruction) -> Result<Vec<usize>> {
        let numbering = self.numbering(inst);
        let text = inst.attrs.raw(AttrKey::ReplicaGroups).unwrap_or("{}");
        let mut groups = parse_replica_groups(text).map_err(|e| invalid(inst, e.message))?;
        if groups.is_empty() {
            groups.push((0..self.numbers(numbering) as i64).collect());
        }
        for numbers in groups {
            let numbers: Option<Vec<usize>> = numbers.iter().map(|&n| self.number_of(numbering, n)).collect();
            let Some(numbers) = numbers else {
                return Err(execution(inst, format!("replica_groups={text} name devices that do not run")));
            };
            let devices: Vec<usize> = numbers.iter().flat_map(|&n| self.devices(numbering, n)).collect();
            if devices.contains(&self.number) {
                return Ok(devices);
            }
        }
        if inst.opcode == Opcode::CollectiveBroadcast {
            return Ok(vec![self.number]);
        }
        Err(execution(inst, format!("replica_groups={text} leave out device {}", self.number)))
    }

    fn exchange(&mut self, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
        let permutes = matches!(inst.opcode, Opcode::CollectivePermute | Opcode::CollectivePermuteStart);
        // In a permutation everybody may send to everybody.
        let group = if permutes { (0..self.replicas * self.partitions).collect() } else { self.group(inst)? };
        let place = std::ptr::from_ref(inst).addr();
        let visits = self.visits.entry(place).or_default();
        *visits += 1;
        let meeting = (place, *visits, group);
        let own: Vec<Literal> = operands.iter().map(|&o| o.clone()).collect();
        let all = self.board.meet(inst, self.number, &meeting, own)?;
        let me = meeting.2.iter().position(|&d| d == self.number).unwrap_or(0);
        let mut results = Vec::with_capacity(operands.len());
        match inst.opcode {
            Opcode::AllReduce | Opcode::AllReduceStart => {
                for k in 0..operands.len() {
                    results.push(Literal::Array(self.reduce(inst, &arrays(inst, &all, k)?)?));
                }
            }
            Opcode::ReduceScatter => {
                let d = dimension(inst)?;
                for k in 0..operands.len() {
                    let whole = self.reduce(inst, &arrays(inst, &all, k)?)?;
                    results.push(Literal::Array(part(inst, &whole, d, me, all.len())?));
                }
            }
            Opcode::AllGather | Opcode::AllGatherStart => {
                let d = dimension(inst)?;
                for k in 0..operands.len() {
                    results.push(Literal::Array(movement::join(inst, &arrays(inst, &all, k)?, d)?));
                }
            }
            Opcode::AllToAll if inst.attrs.ints(AttrKey::Dimensions).is_some_and(|d| !d.is_empty()) => {
                let d = dimension(inst)?;
                for k in 0..operands.len() {
                    let sources = arrays(inst, &all, k)?;
                    let parts = sources.iter().map(|a| part(inst, a, d, me, all.len())).collect::<Result<Vec<_>>>()?;
                    results.push(Literal::Array(movement::join(inst, &parts.iter().collect::<Vec<_>>(), d)?));
                }
            }
            Opcode::AllToAll => {
                for theirs in &all {
                    results.push(theirs.get(me).cloned().ok_or_else(|| invalid(inst, "an operand for each device"))?);
                }
            }
            Opcode::CollectiveBroadcast => results = all.first().map(|o| o.to_vec()).unwrap_or_default(),
            Opcode::CollectivePermute | Opcode::CollectivePermuteStart => match self.sender(inst)? {
                Some(source) => results = all.get(source).map(|o| o.to_vec()).unwrap_or_default(),
                None => {
                    for o in operands {
                        results.push(Literal::zeros(&o.shape()).ok_or_else(|| unsupported(inst, "such a value"))?);
                    }
                }
            },
            opcode => return Err(unsupported(inst, format!("'{opcode}' among several devices"))),
        }
        let shape = collective::result_shape(inst);
        let tuple = shape.is_some_and(|s| s.as_tuple().is_some());
        let result = if results.len() == 1 && !tuple { results.remove(0) } else { Literal::Tuple(results) };
        if !shape.is_some_and(|s| accepts(s, &result)) {
            let message = format!("{} devices make {}, the program says {:#}", all.len(), result.shape(), inst.shape);
            return Err(execution(inst, message));
        }
        Ok(result)
    }

    /// The device that sends to this one.
    fn sender(&self, inst: &Instruction) -> Result<Option<usize>> {
        let numbering = match self.numbering(inst) {
            Numbering::ReplicaWithPartitions => Numbering::Replica,
            other => other,
        };
        let text = inst.attrs.raw(AttrKey::SourceTargetPairs).unwrap_or("{}");
        for (source, target) in parse_source_target_pairs(text).map_err(|e| invalid(inst, e.message))? {
            let to_here = self.number_of(numbering, target).map(|n| self.devices(numbering, n).contains(&self.number));
            if to_here == Some(true) {
                let source = self.number_of(numbering, source);
                return Ok(source.and_then(|n| self.devices(numbering, n).first().copied()));
            }
        }
        Ok(None)
    }

    /// The arrays combined element by element, in the group's order.
    fn reduce(&self, inst: &Instruction, sources: &[&ArrayLiteral]) -> Result<ArrayLiteral> {
        let computation = inst.attrs.computation(AttrKey::ToApply);
        let computation = computation.ok_or_else(|| invalid(inst, "'to_apply' is missing"))?;
        let mut host = NoHost;
        let cx = Context::new(self.module, &Options::default(), &mut host);
        let region = cx.region(computation);
        let plain = region.plain();
        let Some((first, rest)) = sources.split_first() else { return Err(invalid(inst, "an empty group")) };
        let mut out = (*first).clone();
        for i in 0..out.elements() {
            let mut value: Scalar = out.get(i);
            for source in rest {
                let combined = plain.and_then(|(op, ty)| elementwise::combine(op, value, source.get(i), ty));
                value = match combined {
                    Some(combined) => combined,
                    None => region.eval_one(&[value, source.get(i)])?,
                };
            }
            out.set(i, value);
        }
        Ok(out)
    }
}

/// Operand `k` of every device, arrays of one shape.
fn arrays<'a>(inst: &Instruction, all: &'a [Arc<Vec<Literal>>], k: usize) -> Result<Vec<&'a ArrayLiteral>> {
    let list: Option<Vec<_>> = all.iter().map(|o| o.get(k)?.as_array()).collect();
    let list = list.ok_or_else(|| invalid(inst, format!("operand {k} must be an array")))?;
    if list.windows(2).any(|w| w[0].shape() != w[1].shape()) {
        return Err(execution(inst, "the devices bring different shapes"));
    }
    Ok(list)
}

fn dimension(inst: &Instruction) -> Result<usize> {
    let d = inst.attrs.ints_or_empty(AttrKey::Dimensions).first().and_then(|&d| usize::try_from(d).ok());
    d.ok_or_else(|| invalid(inst, "expected one dimension"))
}

/// Part `index` of `count` equal parts along dimension `d`.
fn part(inst: &Instruction, a: &ArrayLiteral, d: usize, index: usize, count: usize) -> Result<ArrayLiteral> {
    let size = a.dims().get(d).copied().unwrap_or(0);
    if count == 0 || size % count as i64 != 0 {
        return Err(execution(inst, format!("{size} elements do not part among {count} devices")));
    }
    let size = size / count as i64;
    movement::section(inst, a, d, index as i64 * size, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(line: &str, result: &str) -> Module {
        let text = format!(
            "HloModule m\nadd {{\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b)\n}}\n\
             ENTRY e {{\n p = s32[4] parameter(0)\n ROOT r = {result} {line}\n}}\n"
        );
        crate::text::parse(&text).expect("the program parses")
    }

    fn run_on(devices: usize, module: &Module) -> Result<Vec<Vec<i32>>> {
        let args: Vec<Vec<Literal>> = (0..devices as i32)
            .map(|d| vec![ArrayLiteral::from_elements(&[4], &[10 * d, 10 * d + 1, 10 * d + 2, 10 * d + 3]).into()])
            .collect();
        let results = run_devices(module, &args, devices, 1, &Options::default())?;
        Ok(results.iter().map(|r| r.as_array().expect("an array").as_slice::<i32>().to_vec()).collect())
    }

    #[test]
    fn devices_meet() {
        let m = program("all-reduce(p), replica_groups={}, to_apply=add", "s32[4]");
        assert_eq!(run_on(3, &m), Ok(vec![vec![30, 33, 36, 39]; 3]));
        let m = program("all-reduce(p), replica_groups=mesh['x'=2,'y'=2] {'x'}, to_apply=add", "s32[4]");
        let (even, odd) = (vec![20, 22, 24, 26], vec![40, 42, 44, 46]);
        assert_eq!(run_on(4, &m), Ok(vec![even.clone(), odd.clone(), even, odd]));
        let m = program("all-gather(p), replica_groups={{1,0}}, dimensions={0}", "s32[8]");
        assert_eq!(run_on(2, &m).map(|r| r[0].clone()), Ok(vec![10, 11, 12, 13, 0, 1, 2, 3]));
        let m = program("reduce-scatter(p), replica_groups={{0,1}}, dimensions={0}, to_apply=add", "s32[2]");
        assert_eq!(run_on(2, &m), Ok(vec![vec![10, 12], vec![14, 16]]));
        let m = program("all-to-all(p), replica_groups={{0,1}}, dimensions={0}", "s32[4]");
        assert_eq!(run_on(2, &m), Ok(vec![vec![0, 1, 10, 11], vec![2, 3, 12, 13]]));
        let m = program("collective-permute(p), source_target_pairs={{0,1}}", "s32[4]");
        assert_eq!(run_on(2, &m), Ok(vec![vec![0; 4], vec![0, 1, 2, 3]]));
    }

    #[test]
    fn a_meeting_that_cannot_happen_is_an_error() {
        let text = "HloModule m\nadd {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b)\n}\n\
             yes {\n q = s32[4] parameter(0)\n ROOT r = s32[4] all-reduce(q), replica_groups={}, to_apply=add\n}\n\
             no {\n ROOT q = s32[4] parameter(0)\n}\n\
             ENTRY e {\n p = s32[4] parameter(0)\n i = u32[] replica-id()\n s = s32[] convert(i)\n \
             ROOT r = s32[4] conditional(s, p, p), branch_computations={yes, no}\n}\n";
        let module = crate::text::parse(text).expect("the program parses");
        assert!(matches!(run_on(2, &module), Err(Error::Execution { .. })));
    }

    #[test]
    fn groups_that_leave_a_device_out_are_an_error() {
        for groups in ["{{0}}", "{{1,0}}"] {
            let m = program(&format!("all-reduce(p), replica_groups={groups}, to_apply=add"), "s32[4]");
            let members = groups.matches(['0', '1']).count();
            assert!(run_on(members, &m).is_ok(), "{groups}");
            let error = run_on(members + 1, &m).expect_err(groups);
            assert!(matches!(error, Error::Execution { .. }) && error.to_string().contains("leave out"), "{error}");
        }
    }
}
