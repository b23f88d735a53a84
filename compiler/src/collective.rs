//! What collectives and transfers say of devices.
//!
//! Problem: attributes number replicas, partitions or devices, as other attributes say, and groups leave open how many there
//! are. Invariant: interpreter and compiled code get the same [`Collective`], whose groups name devices,
//! `replica * partitions + partition`. Algorithm: the numbering follows from `channel_id` and `use_global_device_ids`; each
//! group stands for one of devices in every partition, or replica, that the numbering leaves out.

use crate::hlo::{AttrKey, Computation, ComputationId, Instruction, Module, ModuleConfig, Opcode};
use crate::shape::{parse_replica_groups, parse_source_target_pairs};
use crate::{Error, Result, Site};
use brolga_runtime::ArrayShape;
use brolga_runtime::devices::{Collective, MAX_DEVICES, Operation, Reduction, supports};

/// How many replicas there are, and partitions of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Replicas.
    pub replicas: usize,
    /// Partitions of each replica.
    pub partitions: usize,
}

/// What the numbers in groups and pairs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

fn site(inst: &Instruction) -> Site {
    Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 }
}

fn invalid(inst: &Instruction, constraint: &'static str, message: impl Into<String>) -> Error {
    Error::Invalid { site: site(inst), constraint, message: message.into() }
}

/// Whether an operation begins an exchange that another one ends.
pub fn starts(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::AllReduceStart | Opcode::AllGatherStart | Opcode::CollectivePermuteStart)
}

/// Whether an operation ends an exchange that another one began.
pub fn ends(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::AllReduceDone | Opcode::AllGatherDone | Opcode::CollectivePermuteDone)
}

/// Whether a start says that it keeps its operands before its results; an `all-reduce-start` may be its results alone.
pub fn keeps_operands(inst: &Instruction) -> bool {
    match inst.opcode {
        Opcode::AllGatherStart | Opcode::CollectivePermuteStart => true,
        Opcode::AllReduceStart => inst.operands.len() == 1 && inst.shape.as_tuple().is_some_and(|t| t.len() == 2),
        _ => false,
    }
}

/// The runtime's name for an operation.
fn operation(opcode: Opcode, along: bool) -> Option<Operation> {
    Some(match opcode {
        Opcode::AllReduce | Opcode::AllReduceStart => Operation::AllReduce,
        Opcode::AllGather | Opcode::AllGatherStart => Operation::AllGather,
        Opcode::ReduceScatter => Operation::ReduceScatter,
        Opcode::AllToAll if along => Operation::AllToAll,
        Opcode::AllToAll => Operation::AllToAllTuple,
        Opcode::CollectiveBroadcast => Operation::CollectiveBroadcast,
        Opcode::CollectivePermute | Opcode::CollectivePermuteStart => Operation::CollectivePermute,
        Opcode::RaggedAllToAll => Operation::RaggedAllToAll,
        _ => return None,
    })
}

fn numbering(inst: &Instruction) -> Numbering {
    let channel = inst.attrs.int(AttrKey::ChannelId).is_some_and(|c| c > 0);
    let global = inst.attrs.bool(AttrKey::UseGlobalDeviceIds).unwrap_or(false);
    let reduces_or_gathers = operation(inst.opcode, false).is_some_and(|o| o.reduces() || o == Operation::AllGather);
    match (channel, global) {
        (_, true) => Numbering::Device,
        (false, false) => Numbering::Replica,
        (true, false) if reduces_or_gathers => Numbering::ReplicaWithPartitions,
        (true, false) => Numbering::Partition,
    }
}

impl Grid {
    /// One device alone.
    pub const ONE: Grid = Grid { replicas: 1, partitions: 1 };

    /// What a module says of itself: 1 where it says nothing.
    pub fn of(config: &ModuleConfig) -> Grid {
        let count = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(1).max(1);
        Grid { replicas: count(config.replica_count), partitions: count(config.num_partitions) }
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.replicas.saturating_mul(self.partitions)
    }

    /// What a module says of itself, and where that is less, as many as its groups and pairs name.
    pub fn needed(module: &Module) -> Grid {
        let mut grid = Grid::of(&module.config);
        let instructions = module.order.iter().flat_map(|&c| {
            let computation = &module.computations[c];
            computation.order.iter().map(move |&i| (computation, &computation.instructions[i]))
        });
        for (computation, inst) in instructions {
            let (numbering, named) = match inst.opcode {
                Opcode::Send | Opcode::Recv => match transfer_pairs(inst) {
                    Ok(Some(pairs)) => {
                        let numbering = if grid.partitions > 1 { Numbering::Partition } else { Numbering::Replica };
                        (numbering, pairs.iter().flat_map(|p| [p.0, p.1]).max())
                    }
                    _ => continue,
                },
                op if operation(op, false).is_some() => {
                    let listed = groups(inst).unwrap_or_default();
                    let everyone = listed.is_empty().then(|| everyone(computation, inst)).flatten();
                    (numbering(inst), listed.into_iter().flatten().max().or(everyone.map(|n| n - 1)))
                }
                _ => continue,
            };
            let Some(count) = named.and_then(|n| usize::try_from(n).ok()).map(|n| n.saturating_add(1)) else {
                continue;
            };
            match numbering {
                Numbering::Replica | Numbering::ReplicaWithPartitions => grid.replicas = grid.replicas.max(count),
                Numbering::Partition => grid.partitions = grid.partitions.max(count),
                Numbering::Device if grid.devices() < count => grid.replicas = count.div_ceil(grid.partitions),
                Numbering::Device => {}
            }
        }
        grid
    }

    /// Refuses more devices than there may be.
    pub fn check(self) -> Result<Grid> {
        let Grid { replicas, partitions } = self;
        if (1..=MAX_DEVICES).contains(&self.devices()) {
            return Ok(self);
        }
        let feature = format!("{replicas} replicas of {partitions} partitions: more than {MAX_DEVICES} devices");
        Err(Error::Unsupported { site: Site::default(), feature })
    }

    /// How many numbers there are.
    fn numbers(&self, numbering: Numbering) -> usize {
        match numbering {
            Numbering::Replica | Numbering::ReplicaWithPartitions => self.replicas,
            Numbering::Partition => self.partitions,
            Numbering::Device => self.devices(),
        }
    }

    /// The lists of devices that a list of numbers stands for.
    fn expand(&self, numbering: Numbering, numbers: &[usize]) -> Vec<Vec<usize>> {
        let device = |replica: usize, partition: usize| replica * self.partitions + partition;
        match numbering {
            Numbering::Replica => {
                (0..self.partitions).map(|p| numbers.iter().map(|&n| device(n, p)).collect()).collect()
            }
            Numbering::Partition => {
                (0..self.replicas).map(|r| numbers.iter().map(|&n| device(r, n)).collect()).collect()
            }
            Numbering::ReplicaWithPartitions => {
                vec![numbers.iter().flat_map(|&n| (0..self.partitions).map(move |p| device(n, p))).collect()]
            }
            Numbering::Device => vec![numbers.to_vec()],
        }
    }

    /// As [`Grid::expand`], of numbers as they are written.
    fn devices_of(&self, inst: &Instruction, numbering: Numbering, lists: &[Vec<i64>]) -> Result<Vec<Vec<usize>>> {
        let count = self.numbers(numbering);
        let mut out = Vec::new();
        for list in lists {
            let known = |&n: &i64| usize::try_from(n).ok().filter(|&n| n < count);
            let Some(numbers) = list.iter().map(known).collect::<Option<Vec<usize>>>() else {
                let largest = list.iter().max().copied().unwrap_or(0);
                let (opcode, Grid { replicas, partitions }) = (inst.opcode, *self);
                let message = format!(
                    "{opcode} names number {largest}, and the program runs on {replicas} replicas of {partitions} partitions"
                );
                return Err(invalid(inst, "collective.devices", message));
            };
            out.extend(self.expand(numbering, &numbers));
        }
        Ok(out)
    }
}

/// How many members one group of everyone has, by the shapes of operand and result.
fn everyone(computation: &Computation, inst: &Instruction) -> Option<i64> {
    let operand = computation.instructions[*inst.operands.first()?].shape.as_array()?;
    let result = inst.shape.leaves().last().copied()?.as_array()?;
    let d = usize::try_from(*inst.attrs.ints_or_empty(AttrKey::Dimensions).first()?).ok()?;
    let (from, to) = (*operand.dims.get(d)?, *result.dims.get(d)?);
    let (small, large) = match inst.opcode {
        Opcode::AllGather => (from, to),
        Opcode::ReduceScatter => (to, from),
        _ => return None,
    };
    (small > 0 && large % small == 0).then(|| large / small)
}

/// The groups or pairs of an instruction, as numbers.
fn groups(inst: &Instruction) -> Result<Vec<Vec<i64>>> {
    let wrong = |e: crate::shape::RuleError| invalid(inst, e.constraint, e.message);
    match inst.opcode {
        Opcode::CollectivePermute | Opcode::CollectivePermuteStart => {
            let text = inst.attrs.raw(AttrKey::SourceTargetPairs).unwrap_or("{}");
            let pairs = parse_source_target_pairs(text).map_err(wrong)?;
            Ok(pairs.into_iter().map(|(source, target)| vec![source, target]).collect())
        }
        _ => parse_replica_groups(inst.attrs.raw(AttrKey::ReplicaGroups).unwrap_or("{}")).map_err(wrong),
    }
}

/// What a collective does among the devices of `grid`.
///
/// # Errors
/// Where its groups or pairs name devices that there are not, and where the instruction is no collective that this can say.
pub fn describe(inst: &Instruction, grid: Grid, reduction: Option<Reduction>) -> Result<Collective> {
    let dimension = inst.attrs.ints_or_empty(AttrKey::Dimensions).first().and_then(|&d| usize::try_from(d).ok());
    let unsupported = |feature: String| Error::Unsupported { site: site(inst), feature };
    let operation = operation(inst.opcode, dimension.is_some());
    let operation = operation.ok_or_else(|| unsupported(format!("'{}' among several devices", inst.opcode)))?;
    if inst.attrs.get(AttrKey::SliceSizesPerDevice).is_some() {
        return Err(unsupported(format!("'{}' in place", inst.opcode)));
    }
    let numbering = match (numbering(inst), operation) {
        (Numbering::ReplicaWithPartitions, Operation::CollectivePermute) => Numbering::Replica,
        (numbering, _) => numbering,
    };
    let mut groups = groups(inst)?;
    if groups.is_empty() && operation != Operation::CollectivePermute {
        groups.push((0..grid.numbers(numbering) as i64).collect());
    }
    let groups = grid.devices_of(inst, numbering, &groups)?;
    let channel = inst.attrs.int(AttrKey::ChannelId).unwrap_or(0).max(0);
    let (dimension, line) = (dimension.unwrap_or(0), inst.location.line);
    Ok(Collective { operation, reduction: reduction.filter(|_| operation.reduces()), dimension, channel, line, groups })
}

/// Whether results are what groups of this size make of operands; what is wrong, in words.
pub fn check_shapes(
    collective: &Collective,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> std::result::Result<(), String> {
    let size = |a: &ArrayShape| a.dims.get(collective.dimension).copied();
    for members in collective.groups.iter().map(Vec::len) {
        let n = members as i64;
        let times = |a: &ArrayShape| size(a).and_then(|s| s.checked_mul(n));
        let fits = match collective.operation {
            Operation::AllGather => operands.iter().zip(results).all(|(a, r)| size(r).is_some() && times(a) == size(r)),
            Operation::ReduceScatter => {
                operands.iter().zip(results).all(|(a, r)| size(a).is_some() && times(r) == size(a))
            }
            Operation::AllToAll => operands.iter().all(|a| size(a).is_some_and(|s| s % n == 0)),
            Operation::AllToAllTuple => operands.len() == members,
            _ => true,
        };
        if !fits {
            let text = |list: &[&ArrayShape]| list.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "expected operands and results that fit groups of {members} devices, found {} and {}",
                text(operands),
                text(results)
            ));
        }
    }
    Ok(())
}

/// The reduction that a computation is, where it is nothing but one operation on its two parameters.
pub fn reduction(module: &Module, computation: ComputationId) -> Option<Reduction> {
    let computation: &Computation = &module.computations[computation];
    let root = &computation.instructions[computation.root];
    let parameter = |i: usize| {
        let operand = &computation.instructions[*root.operands.get(i)?];
        // A computation that rounds its parameters is more than one operation.
        let same = operand.shape.as_array().map(|s| s.ty) == root.shape.as_array().map(|s| s.ty);
        operand.parameter_number().filter(|_| same && operand.opcode == Opcode::Parameter)
    };
    match (parameter(0)?, parameter(1)?) {
        (0, 1) | (1, 0) if root.operands.len() == 2 => {}
        _ => return None,
    }
    Some(match root.opcode {
        Opcode::Add => Reduction::Add,
        Opcode::Multiply => Reduction::Multiply,
        Opcode::Minimum => Reduction::Minimum,
        Opcode::Maximum => Reduction::Maximum,
        Opcode::And => Reduction::And,
        Opcode::Or => Reduction::Or,
        Opcode::Xor => Reduction::Xor,
        _ => return None,
    })
}

/// Whether the runtime exchanges every operand of a collective, or of its start, as it is: arrays whose size is known, and
/// where they are combined, of types that the runtime combines so.
pub fn runtime_combines(module: &Module, computation: &Computation, inst: &Instruction) -> bool {
    let callee = inst.attrs.computation(AttrKey::ToApply);
    let reduction = callee.and_then(|c| reduction(module, c));
    inst.operands.iter().all(|&o| {
        let array = computation.instructions[o].shape.as_array().filter(|a| !a.is_dynamic());
        array.is_some_and(|a| callee.is_none() || reduction.is_some_and(|r| supports(r, a.ty)))
    })
}

/// The name under which XLA's programs give the pairs of a transfer.
const PAIRS: &str = "_xla_send_recv_source_target_pairs";

/// A transfer between devices: its channel, and where it says any, the pairs of devices.
///
/// # Errors
/// For transfers with the host, and where pairs name devices that there are not.
pub fn transfer(inst: &Instruction, grid: Grid) -> Result<(i64, Option<Vec<Vec<usize>>>)> {
    if inst.attrs.bool(AttrKey::IsHostTransfer) == Some(true) {
        let feature = format!("'{}' with the host, among several devices", inst.opcode);
        return Err(Error::Unsupported { site: site(inst), feature });
    }
    // A partition of this replica where there are several, a replica else.
    let numbering = if grid.partitions > 1 { Numbering::Partition } else { Numbering::Replica };
    let pairs = transfer_pairs(inst)?.map(|pairs| pairs.iter().map(|&(s, t)| vec![s, t]).collect::<Vec<_>>());
    let pairs = pairs.map(|pairs| grid.devices_of(inst, numbering, &pairs)).transpose()?;
    Ok((inst.attrs.int(AttrKey::ChannelId).unwrap_or(0), pairs))
}

/// The pairs of numbers that a transfer says, where it says any: as an attribute of its own or as XLA writes them.
fn transfer_pairs(inst: &Instruction) -> Result<Option<Vec<(i64, i64)>>> {
    let frontend = || {
        let (_, after) = inst.attrs.raw(AttrKey::FrontendAttributes)?.split_once(PAIRS)?;
        let list = after.trim_start().strip_prefix('=')?.trim_start();
        braced(list.strip_prefix('"').unwrap_or(list))
    };
    let text = inst.attrs.raw(AttrKey::SourceTargetPairs).or_else(frontend);
    text.map(|text| parse_source_target_pairs(text).map_err(|e| invalid(inst, e.constraint, e.message))).transpose()
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
