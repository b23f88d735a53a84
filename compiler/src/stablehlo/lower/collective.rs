//! Collectives, feeds and transfers.

use super::body::Body;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode, SliceRange};
use crate::stablehlo::ir::{Attribute, Operation};
use brolga_runtime::{ElementType, Shape};

impl<'p> Body<'_, 'p> {
    pub fn collective(&mut self, op: &'p Operation, short: &str) -> Result<Option<Vec<InstructionId>>> {
        let one = |id: InstructionId| Ok(Some(vec![id]));
        match short {
            "replica_id" => {
                one(self.emit(Opcode::ReplicaId, &[], Attrs::new(), Some(Shape::scalar(ElementType::U32)))?)
            }
            "partition_id" => {
                one(self.emit(Opcode::PartitionId, &[], Attrs::new(), Some(Shape::scalar(ElementType::U32)))?)
            }
            "all_reduce" => {
                let operands = self.all_operands(op)?;
                let computation = self.applied(self.region(op, 0)?, "reducer")?;
                let attrs = self.groups(op)?.with(AttrKey::ToApply, AttrValue::Computation(computation));
                let count = operands.len();
                let id = self.emit(Opcode::AllReduce, &operands, attrs, None)?;
                self.several(id, count).map(Some)
            }
            "cross-replica-sum" => {
                let [operand] = self.operands(op)?;
                let ty = self.array(operand)?.ty;
                let at = self.graph.at;
                let mut inner = self.nested();
                let a = inner.parameter(0, Shape::scalar(ty), "a")?;
                let b = inner.parameter(1, Shape::scalar(ty), "b")?;
                let root = inner.op(Opcode::Add, &[a, b])?;
                let graph = inner.graph;
                let computation = self.lowering.finish(graph, "sum", root, at);
                let attrs = self.groups(op)?.with(AttrKey::ToApply, AttrValue::Computation(computation));
                one(self.emit(Opcode::AllReduce, &[operand], attrs, None)?)
            }
            "reduce_scatter" => {
                let [operand] = self.operands(op)?;
                let computation = self.applied(self.region(op, 0)?, "reducer")?;
                let attrs = self
                    .groups(op)?
                    .with(AttrKey::ToApply, AttrValue::Computation(computation))
                    .with(AttrKey::Dimensions, AttrValue::Ints(vec![self.int(op, "scatter_dimension")?]));
                let declared = self.declared(op, 0)?;
                one(self.emit(Opcode::ReduceScatter, &[operand], attrs, declared)?)
            }
            "all_gather" => {
                let operands = self.all_operands(op)?;
                let dimension = self.int(op, "all_gather_dim")?;
                let mut out = Vec::new();
                for (k, &operand) in operands.iter().enumerate() {
                    let attrs = self.groups(op)?.with(AttrKey::Dimensions, AttrValue::Ints(vec![dimension]));
                    let declared = self.declared(op, k)?;
                    out.push(self.emit(Opcode::AllGather, &[operand], attrs, declared)?);
                }
                Ok(Some(out))
            }
            "collective_broadcast" => {
                if self.bool_or(op, "has_dynamic_root", false)? {
                    return Err(
                        self.unsupported("a collective_broadcast whose root is known only when the program runs")
                    );
                }
                let operands = self.all_operands(op)?;
                let mut attrs = self.groups(op)?;
                attrs.remove(AttrKey::UseGlobalDeviceIds);
                let id = self.emit(Opcode::CollectiveBroadcast, &operands, attrs, None)?;
                let count = operands.len();
                self.several(id, count).map(Some)
            }
            "collective_permute" => {
                let [operand] = self.operands(op)?;
                let pairs = pairs(&self.ints(op, "source_target_pairs")?);
                let mut attrs = Attrs::new().with(AttrKey::SourceTargetPairs, AttrValue::Raw(pairs));
                self.channel(op, &mut attrs);
                one(self.emit(Opcode::CollectivePermute, &[operand], attrs, None)?)
            }
            "all_to_all" => {
                let operands = self.all_operands(op)?;
                let mut out = Vec::new();
                for operand in operands {
                    out.push(self.all_to_all(op, operand)?);
                }
                Ok(Some(out))
            }
            "infeed" => self.infeed(op).map(Some),
            "outfeed" => self.outfeed(op).map(Some),
            "send" => self.send(op).map(Some),
            "recv" => self.receive(op).map(Some),
            _ => Ok(None),
        }
    }

    /// `replica_groups`, `channel_id` and `use_global_device_ids`.
    fn groups(&self, op: &'p Operation) -> Result<Attrs> {
        let mut attrs = Attrs::new();
        match self.attribute(op, "replica_groups")? {
            Attribute::Elements(elements) => {
                let list = elements.to_ints().unwrap_or_default();
                let width = match elements.dims().as_deref() {
                    Some(&[_, width]) => usize::try_from(width).unwrap_or(0),
                    _ => return Err(self.invalid("replica-groups", "expected a matrix of replica groups")),
                };
                let group = |row: &[i64]| {
                    let members: Vec<String> = row.iter().filter(|&&d| d >= 0).map(i64::to_string).collect();
                    format!("{{{}}}", members.join(","))
                };
                let text: Vec<String> = list.chunks(width.max(1)).map(group).collect();
                attrs.set(AttrKey::ReplicaGroups, AttrValue::Raw(format!("{{{}}}", text.join(","))));
            }
            _ => return Err(self.unsupported("replica groups that are axes of a mesh")),
        }
        self.channel(op, &mut attrs);
        if self.bool_or(op, "use_global_device_ids", false)? {
            attrs.set(AttrKey::UseGlobalDeviceIds, AttrValue::Bool(true));
        }
        Ok(attrs)
    }

    fn channel(&self, op: &Operation, attrs: &mut Attrs) {
        let handle = match op.attribute("channel_handle") {
            Some(Attribute::Channel { handle, .. }) => *handle,
            _ => op.attribute("channel_id").and_then(Attribute::to_int).unwrap_or(0),
        };
        if handle > 0 {
            attrs.set(AttrKey::ChannelId, AttrValue::Int(handle));
        }
    }

    /// Parts of the operand change places, and the parts that arrive are put side by side.
    fn all_to_all(&mut self, op: &'p Operation, operand: InstructionId) -> Result<InstructionId> {
        let array = self.array(operand)?;
        let (split, concat) = (self.int(op, "split_dimension")?, self.int(op, "concat_dimension")?);
        let count = self.int(op, "split_count")?;
        let size = usize::try_from(split).ok().and_then(|d| array.dims.get(d)).copied();
        let part = match size {
            Some(size) if count > 0 && count <= 1 << 16 && size % count == 0 => size / count,
            _ => {
                let message = format!("expected a dimension {split} of {} that splits into {count}", array);
                return Err(self.invalid("all-to-all.split", message));
            }
        };
        let mut parts = Vec::new();
        for k in 0..count {
            let range = |(d, &n): (usize, &i64)| {
                let cut = d as i64 == split;
                let (start, limit) = if cut { (k * part, (k + 1) * part) } else { (0, n) };
                SliceRange { start, limit, stride: 1 }
            };
            let ranges = array.dims.iter().enumerate().map(range).collect();
            let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
            parts.push(self.emit(Opcode::Slice, &[operand], attrs, None)?);
        }
        let mut attrs = self.groups(op)?;
        attrs.remove(AttrKey::UseGlobalDeviceIds);
        let exchanged = self.emit(Opcode::AllToAll, &parts, attrs, None)?;
        let parts = if self.shape(exchanged).as_tuple().is_some() { self.parts(exchanged)? } else { vec![exchanged] };
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(vec![concat]));
        self.emit(Opcode::Concatenate, &parts, attrs, None)
    }

    /// Shapes of all results but the last, which is a token.
    fn data_shapes(&self, op: &Operation) -> Result<Vec<Shape>> {
        let count = op.results.len().saturating_sub(1);
        if op.results.is_empty() || self.known_shape(op, count)? != Shape::Token {
            return Err(self.invalid("result.token", format!("expected a token as the last result of {}", op.name)));
        }
        (0..count).map(|k| self.known_shape(op, k)).collect()
    }

    fn infeed(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let [token] = self.operands(op)?;
        let shapes = self.data_shapes(op)?;
        let mut attrs = Attrs::new();
        if let Some(config) = self.text(op, "infeed_config")?.filter(|c| !c.is_empty()) {
            attrs.set(AttrKey::InfeedConfig, AttrValue::Str(config.to_owned()));
        }
        let declared = Shape::tuple(vec![Shape::tuple(shapes), Shape::Token]);
        let fed = self.emit(Opcode::Infeed, &[token], attrs, Some(declared))?;
        let data = self.part(fed, 0)?;
        let mut results = self.parts(data)?;
        results.push(self.part(fed, 1)?);
        Ok(results)
    }

    fn outfeed(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let mut operands = self.all_operands(op)?;
        let token = operands.pop().ok_or_else(|| self.invalid("arity", "expected a token as last operand"))?;
        let data = self.tuple(&operands)?;
        let mut attrs = Attrs::new().with(AttrKey::OutfeedShape, AttrValue::Shape(self.shape(data).clone()));
        if let Some(config) = self.text(op, "outfeed_config")?.filter(|c| !c.is_empty()) {
            attrs.set(AttrKey::OutfeedConfig, AttrValue::Str(config.to_owned()));
        }
        Ok(vec![self.emit(Opcode::Outfeed, &[data, token], attrs, None)?])
    }

    fn transfer(&self, op: &'p Operation) -> Result<(Attrs, Attrs)> {
        let mut done = Attrs::new();
        let handle = match op.attribute("channel_handle") {
            Some(Attribute::Channel { handle, .. }) => *handle,
            _ => 0,
        };
        done.set(AttrKey::ChannelId, AttrValue::Int(handle));
        if self.bool_or(op, "is_host_transfer", false)? {
            done.set(AttrKey::IsHostTransfer, AttrValue::Bool(true));
        }
        let mut start = done.clone();
        if let Some(list) = self.optional_ints(op, "source_target_pairs")?.filter(|l| !l.is_empty()) {
            start.set(AttrKey::SourceTargetPairs, AttrValue::Raw(pairs(&list)));
        }
        Ok((start, done))
    }

    fn send(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let mut operands = self.all_operands(op)?;
        let token = operands.pop().ok_or_else(|| self.invalid("arity", "expected a token as last operand"))?;
        let data = self.one_of(operands)?;
        let (start, done) = self.transfer(op)?;
        let sent = self.emit(Opcode::Send, &[data, token], start, None)?;
        Ok(vec![self.emit(Opcode::SendDone, &[sent], done, None)?])
    }

    fn receive(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let [token] = self.operands(op)?;
        let mut shapes = self.data_shapes(op)?;
        let count = shapes.len();
        let data = match (shapes.pop(), count) {
            (Some(one), 1) => one,
            (last, _) => Shape::Tuple(shapes.into_iter().chain(last).collect()),
        };
        let (start, done) = self.transfer(op)?;
        let declared = Shape::tuple(vec![data, Shape::scalar(ElementType::U32), Shape::Token]);
        let begun = self.emit(Opcode::Recv, &[token], start, Some(declared))?;
        let received = self.emit(Opcode::RecvDone, &[begun], done, None)?;
        let data = self.part(received, 0)?;
        let mut results = self.several(data, count)?;
        results.push(self.part(received, 1)?);
        Ok(results)
    }
}

/// `{{0,1},{1,2}}`
fn pairs(list: &[i64]) -> String {
    let pair = |p: &[i64]| {
        let ends: Vec<String> = p.iter().map(i64::to_string).collect();
        format!("{{{}}}", ends.join(","))
    };
    let all: Vec<String> = list.chunks(2).map(pair).collect();
    format!("{{{}}}", all.join(","))
}
