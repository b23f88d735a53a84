//! Operations in which several devices take part.

use super::body::{Body, Frame, Repr, dictionary, joined};
use super::{attributes, callee, only, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, Instruction};
use crate::shape::{parse_replica_groups, parse_source_target_pairs};
use crate::stablehlo::ir::{Attribute, Dictionary, Region, Value};
use brolga_runtime::{ArrayShape, Shape};

/// A channel between devices.
const DEVICE_TO_DEVICE: i64 = 1;

impl Body<'_, '_> {
    /// `replica_groups`, `channel_handle`, and `use_global_device_ids` where an operation has it.
    fn groups(&self, i: &Instruction) -> Result<Dictionary> {
        let mut out = Dictionary::new();
        let groups = match i.attrs.raw(AttrKey::ReplicaGroups) {
            Some(text) => parse_replica_groups(text).map_err(|e| unsupported(i, e.message))?,
            None => Vec::new(),
        };
        let width = groups.iter().map(Vec::len).max().unwrap_or(0);
        // Groups of different sizes are filled up.
        let row = |g: &Vec<i64>| g.iter().copied().chain(std::iter::repeat(-1)).take(width).collect::<Vec<_>>();
        let members = groups.iter().flat_map(row).collect();
        out.set("replica_groups", attributes::matrix(groups.len(), width, members));
        if let Some(channel) = i.attrs.int(AttrKey::ChannelId) {
            out.set("channel_handle", Attribute::Channel { handle: channel, kind: DEVICE_TO_DEVICE });
        }
        let global = i.attrs.bool(AttrKey::UseGlobalDeviceIds) == Some(true);
        if global {
            out.set("use_global_device_ids", Attribute::Unit);
        }
        self.check_mode(i, global)?;
        Ok(out)
    }

    /// `mode` must be the one that channel and ids imply.
    fn check_mode(&self, i: &Instruction, global: bool) -> Result<()> {
        use crate::hlo::Opcode as O;
        let Some(mode) = i.attrs.word(AttrKey::CollectiveMode) else { return Ok(()) };
        let channel = i.attrs.int(AttrKey::ChannelId).is_some_and(|n| n > 0);
        let reduces = matches!(i.opcode, O::AllReduce | O::AllGather | O::ReduceScatter);
        let implied = match (channel, global, reduces) {
            (false, ..) => "cross_replica",
            (true, _, false) => "cross_partition",
            (true, false, true) => "cross_replica_and_partition",
            (true, true, true) => "flattened_id",
        };
        if mode == implied { Ok(()) } else { Err(unsupported(i, format!("mode={mode}"))) }
    }

    pub fn all_reduce(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let region = self.reducer(i, operands.len())?;
        let attributes = self.groups(i)?;
        self.applied(i, "stablehlo.all_reduce", operands, attributes, vec![region])
    }

    /// StableHLO's reducer takes two scalars, for each operand anew.
    fn reducer(&mut self, i: &Instruction, operands: usize) -> Result<Region> {
        let id = callee(i, AttrKey::ToApply)?;
        if self.emitter.module.computations[id].parameters().len() != 2 && operands > 1 {
            return Err(unsupported(i, "a computation that takes all operands at once"));
        }
        self.region(id)
    }

    pub fn reduce_scatter(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let [operand] = self.all_leaves(frame, i)?[..] else { return Err(unsupported(i, "several operands")) };
        if i.shape.as_tuple().is_some() {
            return Err(unsupported(i, "a result that is a tuple"));
        }
        let region = self.reducer(i, 1)?;
        let mut attributes = self.groups(i)?;
        attributes.set("scatter_dimension", Attribute::int(dimension(i)));
        self.applied(i, "stablehlo.reduce_scatter", vec![operand], attributes, vec![region])
    }

    pub fn all_gather(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let mut attributes = self.groups(i)?;
        attributes.set("all_gather_dim", Attribute::int(dimension(i)));
        self.parts(i, "stablehlo.all_gather", operands, attributes, Vec::new())
    }

    /// Each operand by itself: StableHLO's operation has one.
    fn each(&mut self, frame: &Frame<'_>, i: &Instruction, name: &str, attributes: &Dictionary) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let shapes = i.shape.parts();
        if shapes.len() != operands.len() {
            return Err(unsupported(i, "a result in place"));
        }
        let mut results = Vec::new();
        for (operand, shape) in operands.into_iter().zip(shapes) {
            let ty = self.type_of(i, shape)?;
            results.push(only(&self.add(name, vec![operand], attributes.clone(), Vec::new(), vec![ty]))?);
        }
        joined(&i.shape, &results)
    }

    pub fn collective_broadcast(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let attributes = self.groups(i)?;
        self.each(frame, i, "stablehlo.collective_broadcast", &attributes)
    }

    pub fn collective_permute(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let mut attributes = dictionary([("source_target_pairs", self.pairs(i)?)]);
        if let Some(channel) = i.attrs.int(AttrKey::ChannelId) {
            attributes.set("channel_handle", Attribute::Channel { handle: channel, kind: DEVICE_TO_DEVICE });
        }
        self.each(frame, i, "stablehlo.collective_permute", &attributes)
    }

    /// `source_target_pairs` as a matrix.
    pub fn pairs(&self, i: &Instruction) -> Result<Attribute> {
        let text = i.attrs.raw(AttrKey::SourceTargetPairs).unwrap_or("{}");
        let pairs = parse_source_target_pairs(text).map_err(|e| unsupported(i, e.message))?;
        let flat = pairs.iter().flat_map(|&(source, target)| [source, target]).collect();
        Ok(attributes::matrix(pairs.len(), 2, flat))
    }

    /// Of several operands, the k-th goes to the k-th member: side by side they are one operand, split again where it arrives. Of
    /// one operand, the parts along a dimension.
    pub fn all_to_all(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let attributes = self.groups(i)?;
        if i.attrs.get(AttrKey::Dimensions).is_some() {
            let &[operand] = &operands[..] else { return Err(unsupported(i, "dimensions of several operands")) };
            let count = match attributes.get("replica_groups").and_then(Attribute::to_ints).filter(|l| !l.is_empty()) {
                Some(_) => self.group_size(i)?,
                None => self.devices(i)?,
            };
            let axis = dimension(i);
            let value = self.exchange(i, operand, axis, count, &i.shape, attributes)?;
            return Ok(Repr::Value(value));
        }
        let count = operands.len() as i64;
        let Shape::Tuple(parts) = &i.shape else {
            // One member, which keeps what it has.
            let &[operand] = &operands[..] else { return Err(unsupported(i, "a result that is no tuple")) };
            let value = match self.array(frame, i, 0)?.rank() {
                0 => return Err(unsupported(i, "a scalar")),
                _ => self.exchange(i, operand, 0, 1, &i.shape, attributes)?,
            };
            return Ok(Repr::Value(value));
        };
        let Some(part) = parts.first().and_then(Shape::as_array) else { return Ok(Repr::Tuple(Vec::new().into())) };
        // Scalars have no side to stand by: they are vectors of one element.
        let scalar = part.rank() == 0;
        let row = if scalar { ArrayShape::new(part.ty, [1]) } else { ArrayShape::new(part.ty, part.dims.clone()) };
        let mut rows = Vec::new();
        for operand in operands {
            rows.push(if scalar { self.reshaped(operand, part, vec![1])? } else { operand });
        }
        let size = row.dims[0];
        let mut whole = row.clone();
        whole.dims[0] = size.checked_mul(count).ok_or_else(|| unsupported(i, "a size that overflows"))?;
        let ty = self.type_of(i, &Shape::Array(whole.clone()))?;
        let along = dictionary([("dimension", Attribute::int(0))]);
        let joined = only(&self.helper("stablehlo.concatenate", rows, along, vec![ty]))?;
        let arrived = self.exchange(i, joined, 0, count, &Shape::Array(whole.clone()), attributes)?;
        let mut out = Vec::new();
        for k in 0..count {
            let cut = self.cut(i, arrived, &whole, 0, k * size, (k + 1) * size)?;
            out.push(Repr::Value(if scalar { self.reshaped(cut, part, Vec::new())? } else { cut }));
        }
        Ok(Repr::Tuple(out.into()))
    }

    fn exchange(
        &mut self,
        i: &Instruction,
        operand: Value,
        axis: i64,
        count: i64,
        shape: &Shape,
        mut attributes: Dictionary,
    ) -> Result<Value> {
        // Everyone, which StableHLO's verifier wants by name here.
        if attributes.get("replica_groups").and_then(Attribute::to_ints).is_none_or(|list| list.is_empty()) {
            let members = usize::try_from(count).map_err(|_| unsupported(i, "a negative number of parts"))?;
            attributes.set("replica_groups", attributes::matrix(1, members, (0..count).collect()));
        }
        for (name, value) in [("split_dimension", axis), ("concat_dimension", axis), ("split_count", count)] {
            attributes.set(name, Attribute::int(value));
        }
        let ty = self.type_of(i, shape)?;
        only(&self.add("stablehlo.all_to_all", vec![operand], attributes, Vec::new(), vec![ty]))
    }

    fn group_size(&self, i: &Instruction) -> Result<i64> {
        let groups = parse_replica_groups(i.attrs.raw(AttrKey::ReplicaGroups).unwrap_or("{}"));
        let groups = groups.map_err(|e| unsupported(i, e.message))?;
        Ok(groups.first().map_or(1, Vec::len) as i64)
    }

    /// How many members one group of everyone has.
    fn devices(&self, i: &Instruction) -> Result<i64> {
        let config = &self.emitter.module.config;
        let channel = i.attrs.int(AttrKey::ChannelId).is_some_and(|n| n > 0);
        let count = if channel { config.num_partitions } else { config.replica_count };
        count.ok_or_else(|| unsupported(i, "one group of everyone, whose number the module does not say,"))
    }
}

fn dimension(i: &Instruction) -> i64 {
    i.attrs.ints_or_empty(AttrKey::Dimensions).first().copied().unwrap_or_default()
}
