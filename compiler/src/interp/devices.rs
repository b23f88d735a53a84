//! Several devices, interpreted: each on a thread of [`brolga_runtime::devices`].
//!
//! Problem: collectives have a meaning only among replicas and partitions that run the same program. Invariant: what an
//! operation means is said here as plainly as it can be, apart from the runtime that compiled code uses; only the meeting
//! of the devices is the runtime's. Algorithm: members of a group give each other all their operands, and each computes its
//! own result from them.

use super::context::{Context, Host, NoHost, Options};
use super::feeds::Fed;
use super::{accepts, collective, elementwise, execution, invalid, movement, run_with, unsupported};
use crate::collective::{Grid, describe, transfer};
use crate::hlo::{AttrKey, Instruction, Module, Opcode};
use crate::{Error, Result, Site};
use brolga_runtime::devices::{Collective, Device, DeviceError, Devices, Message, Operation, Route};
use brolga_runtime::feed::Feeds;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};

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
    let devices = Devices::local(replicas, partitions).map_err(|e| fail(e.to_string()))?;
    let devices = options.timeout.map_or(devices.clone(), |limit| devices.with_timeout(limit));
    if args.len() != devices.count() {
        return Err(fail(format!("expected arguments for {} devices, found {}", devices.count(), args.len())));
    }
    let grid = Grid { replicas, partitions };
    let outcome = devices.run_each(|device| {
        let number = device.place().device;
        let args = args.get(number).map_or(&[][..], Vec::as_slice);
        let mut host = Member { module, device, number, grid, requests: Vec::new() };
        match feeds.get(number) {
            Some(feeds) => run_with(module, args, options, &mut Fed { feeds, host: &mut host }),
            None => run_with(module, args, options, &mut host),
        }
    });
    outcome.map_err(|error| match error {
        DeviceError::Failed { error, .. } => error,
        DeviceError::Panicked { .. } => Error::Internal(error.to_string()),
    })
}

/// One device's view.
struct Member<'a> {
    module: &'a Module,
    device: &'a Device,
    number: usize,
    grid: Grid,
    /// The contexts of all `recv`s, each there until it is used: what it waits for, nothing where nobody sends to this device.
    requests: Vec<Option<Option<(Route, u64)>>>,
}

/// The routes of a transfer on which a device is at an end, 0 to send and 1 to receive.
fn routes(inst: &Instruction, grid: Grid, device: usize, end: usize) -> Result<Vec<Route>> {
    let (channel, pairs) = transfer(inst, grid)?;
    let Some(pairs) = pairs else { return Ok(vec![Route::Channel(channel)]) };
    let own = pairs.iter().filter(|pair| pair.get(end) == Some(&device));
    Ok(own.filter_map(|pair| Some(Route::Pair(channel, *pair.first()?, *pair.get(1)?))).collect())
}

impl Host for Member<'_> {
    fn replica_id(&self) -> u32 {
        self.device.place().replica() as u32
    }

    fn partition_id(&self) -> u32 {
        self.device.place().partition() as u32
    }

    fn collective(&mut self, inst: &Instruction, operands: &[&Literal]) -> Option<Result<Literal>> {
        Some(self.exchange(inst, operands))
    }

    fn send(&mut self, inst: &Instruction, value: &Literal) -> Result<()> {
        let arrays = value.arrays();
        let shapes = arrays.iter().map(|a| a.shape().clone()).collect();
        let message = Message { shapes, bytes: arrays.iter().flat_map(|a| a.bytes()).copied().collect() };
        for route in routes(inst, self.grid, self.number, 0)? {
            self.device.send(route, message.clone()).map_err(|e| execution(inst, e.message))?;
        }
        Ok(())
    }

    fn begin_recv(&mut self, inst: &Instruction) -> Result<u32> {
        let route = routes(inst, self.grid, self.number, 1)?.pop();
        let request = route.map(|route| Ok((route, self.device.request(route)?))).transpose();
        let request = request.map_err(|e: brolga_runtime::services::Failure| execution(inst, e.message))?;
        self.requests.push(Some(request));
        u32::try_from(self.requests.len() - 1).map_err(|_| unsupported(inst, "so many transfers"))
    }

    fn recv(&mut self, inst: &Instruction, request: u32) -> Result<Literal> {
        let request = self.requests.get_mut(request as usize);
        let request = request.ok_or_else(|| invalid(inst, "a transfer that no recv began"))?;
        let request = request.take().ok_or_else(|| execution(inst, "the context of a recv is used a second time"))?;
        let shape =
            inst.shape.as_tuple().and_then(|t| t.first()).ok_or_else(|| invalid(inst, "a transfer of nothing"))?;
        let Some((route, number)) = request else {
            return Literal::zeros(shape).ok_or_else(|| unsupported(inst, "this value over a channel"));
        };
        let message = self.device.receive(route, number).map_err(|e| execution(inst, e.message))?;
        let mut rest = message.bytes.as_slice();
        let mut arrays = Vec::with_capacity(message.shapes.len());
        for shape in &message.shapes {
            let (own, after) = rest.split_at_checked(shape.byte_size()).unwrap_or((&[], &[]));
            let array = ArrayLiteral::from_bytes(shape, own);
            arrays.push(array.ok_or_else(|| execution(inst, "a value that is not of its shape's size"))?);
            rest = after;
        }
        let sent: Vec<Shape> = message.shapes.into_iter().map(Shape::Array).collect();
        let value = Literal::from_arrays(shape, &mut arrays.into_iter());
        value.filter(|value| accepts(shape, value)).ok_or_else(|| {
            let sent: Vec<String> = sent.iter().map(|s| format!("{s:#}")).collect();
            execution(inst, format!("expected to receive {shape:#}, found {}", sent.join(", ")))
        })
    }
}

impl Member<'_> {
    fn exchange(&mut self, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
        let collective = describe(inst, self.grid, None)?;
        let devices = self.grid.devices();
        let Some((group, me)) = collective.group_of(self.number, devices) else {
            let text = inst.attrs.raw(AttrKey::ReplicaGroups).unwrap_or("{}");
            return Err(execution(inst, format!("replica_groups={text} leave out device {}", self.number)));
        };
        let all = self.gather(inst, &collective, &group, operands)?;
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
            Opcode::CollectivePermute | Opcode::CollectivePermuteStart => match collective.sender(self.number) {
                Some(source) => results = all.get(source).map(|o| o.to_vec()).unwrap_or_default(),
                None => {
                    for o in operands {
                        results.push(Literal::zeros(&o.shape()).ok_or_else(|| unsupported(inst, "such a value"))?);
                    }
                }
            },
            Opcode::RaggedAllToAll => results.push(Literal::Array(ragged(inst, &all, me)?)),
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

    /// The operands of every member, in the group's order.
    fn gather(
        &self,
        inst: &Instruction,
        collective: &Collective,
        group: &[usize],
        operands: &[&Literal],
    ) -> Result<Vec<Vec<Literal>>> {
        let arrays: Option<Vec<&ArrayLiteral>> = operands.iter().map(|o| o.as_array()).collect();
        let arrays = arrays.ok_or_else(|| invalid(inst, "operands must be arrays"))?;
        // True sizes go along, which tell dynamic arrays of one bound apart.
        let sizes = arrays.iter().flat_map(|a| a.dims()).flat_map(|d| d.to_ne_bytes());
        let own: Vec<u8> = sizes.chain(arrays.iter().flat_map(|a| a.bytes()).copied()).collect();
        let one = ArrayShape::new(ElementType::U8, [own.len() as i64]);
        let every = ArrayShape::new(ElementType::U8, [(own.len() * group.len()) as i64]);
        let mut bytes = vec![0; every.byte_size()];
        let gather = Collective {
            operation: Operation::AllGather,
            reduction: None,
            dimension: 0,
            groups: vec![group.to_vec()],
            ..collective.clone()
        };
        let met = self.device.exchange(&gather, &[(&one, &own)], &mut [(&every, &mut bytes)]);
        met.map_err(|e| execution(inst, e.message))?;
        let head = 8 * arrays.iter().map(|a| a.dims().len()).sum::<usize>();
        let member = |theirs: &[u8]| -> Option<Vec<Literal>> {
            let (sizes, mut rest) = theirs.split_at_checked(head)?;
            if sizes != own.get(..head)? {
                return None;
            }
            let mut out = Vec::with_capacity(arrays.len());
            for array in &arrays {
                let (bytes, after) = rest.split_at_checked(array.bytes().len())?;
                out.push(Literal::Array(ArrayLiteral::from_bytes(array.shape(), bytes)?));
                rest = after;
            }
            Some(out)
        };
        let members = bytes.chunks(own.len().max(1)).map(member).collect::<Option<Vec<_>>>();
        let members = members.ok_or_else(|| execution(inst, "the devices bring different shapes"))?;
        Ok(if own.is_empty() { vec![operands.iter().map(|&o| o.clone()).collect(); group.len()] } else { members })
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
fn arrays<'a>(inst: &Instruction, all: &'a [Vec<Literal>], k: usize) -> Result<Vec<&'a ArrayLiteral>> {
    let list: Option<Vec<_>> = all.iter().map(|o| o.get(k)?.as_array()).collect();
    let list = list.ok_or_else(|| invalid(inst, format!("operand {k} must be an array")))?;
    if list.windows(2).any(|w| w[0].shape() != w[1].shape()) {
        return Err(execution(inst, "the devices bring different shapes"));
    }
    Ok(list)
}

/// The output of member `me`: its second operand, with the rows that the members' lists send there.
fn ragged(inst: &Instruction, all: &[Vec<Literal>], me: usize) -> Result<ArrayLiteral> {
    let arrays = |member: &[Literal]| -> Option<Vec<ArrayLiteral>> {
        member.iter().map(|o| o.as_array().cloned()).collect::<Option<Vec<_>>>().filter(|list| list.len() == 6)
    };
    let members: Option<Vec<_>> = all.iter().map(|m| arrays(m)).collect();
    let members = members.ok_or_else(|| invalid(inst, "expected six arrays"))?;
    let wrong = || execution(inst, "rows that lie outside their arrays");
    let mut out = members.get(me).map(|own| own[1].clone()).ok_or_else(wrong)?;
    let row = |a: &ArrayLiteral| a.dims().iter().skip(1).product::<i64>() as usize;
    for theirs in &members {
        let [input, _, from, count, to, _] = &theirs[..] else { return Err(wrong()) };
        let (width, slices) = (row(input), from.elements() / members.len());
        if width != row(&out) || input.ty() != out.ty() {
            return Err(invalid(inst, "rows must agree"));
        }
        for i in me * slices..(me + 1) * slices {
            let [from, count, to] = [from, count, to].map(|list| list.get(i).as_i64());
            let inside = |start: i64, a: &ArrayLiteral| {
                start >= 0 && start.checked_add(count).is_some_and(|end| end <= a.dims().first().copied().unwrap_or(0))
            };
            if count < 0 || !inside(from, input) || !inside(to, &out) {
                return Err(wrong());
            }
            for k in 0..count as usize * width {
                out.set(to as usize * width + k, input.get(from as usize * width + k));
            }
        }
    }
    Ok(out)
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
