//! Operations in which several devices take part.

use super::{At, Builder, Op, Step};
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode};
use crate::shape::RuleError;
use brolga_runtime::{ArrayShape, Shape};
use std::panic::Location;

fn braces<T: AsRef<[i64]>>(groups: &[T]) -> String {
    let lists: Vec<String> = groups
        .iter()
        .map(|g| format!("{{{}}}", g.as_ref().iter().map(i64::to_string).collect::<Vec<_>>().join(",")))
        .collect();
    format!("{{{}}}", lists.join(","))
}

fn groups(replica_groups: &[Vec<i64>], channel_id: Option<i64>) -> Attrs {
    let mut attrs = Attrs::new().with(AttrKey::ReplicaGroups, AttrValue::Raw(braces(replica_groups)));
    if let Some(channel) = channel_id {
        attrs.set(AttrKey::ChannelId, AttrValue::Int(channel));
    }
    attrs
}

impl Builder {
    /// `all_reduce(operand, computation, replica_groups, channel_id)`: the fold of the members' operands, everywhere; of a
    /// tuple, of each of its elements. No groups mean one group of everyone. Section «AllReduce».
    #[track_caller]
    pub fn all_reduce(
        &self,
        operand: Op,
        computation: &Module,
        replica_groups: &[Vec<i64>],
        channel_id: Option<i64>,
    ) -> Op {
        let attrs =
            groups(replica_groups, channel_id).with(AttrKey::ToApply, AttrValue::Computation(self.embed(computation)));
        let at = Location::caller();
        self.finish(self.elements_at(at, operand).and_then(|(operands, is_tuple)| {
            let made = self.add_at(at, Opcode::AllReduce, &operands, attrs, None)?;
            // One array is reduced to an array; the caller's tuple of one stays a tuple.
            if is_tuple && operands.len() == 1 {
                self.add_at(at, Opcode::Tuple, &[made], Attrs::new(), None)
            } else {
                Ok(made)
            }
        }))
    }

    /// `all_gather(operand, all_gather_dim, shard_count, replica_groups, channel_id)`: the members' operands one after
    /// another along `all_gather_dim`, which grows `shard_count` times. Section «AllGather».
    #[track_caller]
    pub fn all_gather(
        &self,
        operand: Op,
        all_gather_dim: i64,
        shard_count: i64,
        replica_groups: &[Vec<i64>],
        channel_id: Option<i64>,
    ) -> Op {
        let at = Location::caller();
        let grow = |n: i64| n.checked_mul(shard_count);
        self.finish(self.resized_at(at, Opcode::AllGather, operand, all_gather_dim, grow).and_then(|shape| {
            let attrs =
                groups(replica_groups, channel_id).with(AttrKey::Dimensions, AttrValue::Ints(vec![all_gather_dim]));
            self.add_at(at, Opcode::AllGather, &[operand], attrs, Some(shape))
        }))
    }

    /// `reduce_scatter(operand, computation, scatter_dim, shard_count, replica_groups, channel_id)`: an all-reduce of
    /// which each member gets its block along `scatter_dim`; of a tuple of arrays, of each of them. Errors: a dimension that
    /// the shards do not divide, an empty tuple. Section «ReduceScatter».
    #[track_caller]
    pub fn reduce_scatter(
        &self,
        operand: Op,
        computation: &Module,
        scatter_dim: i64,
        shard_count: i64,
        replica_groups: &[Vec<i64>],
        channel_id: Option<i64>,
    ) -> Op {
        let at = Location::caller();
        let shrink = |n: i64| if shard_count > 0 && n % shard_count == 0 { Some(n / shard_count) } else { None };
        let attrs = groups(replica_groups, channel_id)
            .with(AttrKey::Dimensions, AttrValue::Ints(vec![scatter_dim]))
            .with(AttrKey::ToApply, AttrValue::Computation(self.embed(computation)));
        self.finish(self.elements_at(at, operand).and_then(|(operands, is_tuple)| {
            let shapes = operands.iter().map(|&o| self.resized_at(at, Opcode::ReduceScatter, o, scatter_dim, shrink));
            let mut shapes = shapes.collect::<Step<Vec<Shape>>>()?;
            let shape = if is_tuple { Shape::tuple(shapes) } else { shapes.swap_remove(0) };
            self.add_at(at, Opcode::ReduceScatter, &operands, attrs, Some(shape))
        }))
    }

    /// The elements of a tuple, and that it is one; another value alone.
    fn elements_at(&self, at: At, operand: Op) -> Step<(Vec<Op>, bool)> {
        match self.shape(operand) {
            Ok(Shape::Tuple(elements)) => {
                let element = |k: usize| {
                    let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(k as i64));
                    self.add_at(at, Opcode::GetTupleElement, &[operand], attrs, None)
                };
                Ok(((0..elements.len()).map(element).collect::<Step<Vec<Op>>>()?, true))
            }
            _ => Ok((vec![operand], false)),
        }
    }

    fn resized_at(
        &self,
        at: At,
        opcode: Opcode,
        operand: Op,
        dim: i64,
        resize: impl Fn(i64) -> Option<i64>,
    ) -> Step<Shape> {
        let mut a: ArrayShape = self.array_at(at, opcode, operand)?;
        a.layout = None;
        let size = usize::try_from(dim).ok().and_then(|d| a.dims.get_mut(d));
        let resized = size.and_then(|n| {
            *n = resize(*n)?;
            Some(())
        });
        match resized {
            Some(()) => Ok(a.into()),
            None => {
                let message = format!("expected a dimension that the shards divide, found dimension {dim} of {a}");
                Err(self.reject(at, opcode, RuleError::new("collective.sizes", message)))
            }
        }
    }

    /// `all_to_all(operand, split_dimension, concat_dimension, split_count, replica_groups)`: the operand cut into
    /// `split_count` blocks along `split_dimension`, block `i` sent to member `i`, and what arrives put one after another
    /// along `concat_dimension`. No groups mean one of the members 0 to `split_count - 1`. Errors: groups of another number
    /// of members, a dimension that does not fall into so many blocks. Section «AllToAll».
    #[track_caller]
    pub fn all_to_all(
        &self,
        operand: Op,
        split_dimension: i64,
        concat_dimension: i64,
        split_count: i64,
        replica_groups: &[Vec<i64>],
    ) -> Op {
        let at = Location::caller();
        self.finish(self.all_to_all_at(at, operand, [split_dimension, concat_dimension], split_count, replica_groups))
    }

    fn all_to_all_at(
        &self,
        at: At,
        operand: Op,
        [split, concat]: [i64; 2],
        count: i64,
        replica_groups: &[Vec<i64>],
    ) -> Step {
        let a = self.array_at(at, Opcode::AllToAll, operand)?;
        let place = |d: i64| usize::try_from(d).ok().filter(|&d| d < a.rank());
        let (Some(s), Some(c)) = (place(split), place(concat)) else {
            let message = format!("expected dimensions of {a:#}, found {split} and {concat}");
            return Err(self.reject(at, Opcode::AllToAll, RuleError::new("collective.dimension", message)));
        };
        if count <= 0 || a.dims[s] % count != 0 {
            let message = format!("expected dimension {split} of {a} to be cut into {count} parts");
            return Err(self.reject(at, Opcode::AllToAll, RuleError::new("collective.sizes", message)));
        }
        if let Some(group) = replica_groups.iter().find(|g| g.len() as i64 != count) {
            let message = format!("expected groups of {count} members, the split count, found one of {}", group.len());
            return Err(self.reject(at, Opcode::AllToAll, RuleError::new("collective.group-sizes", message)));
        }
        let attrs = |dim: i64| {
            let mut attrs = groups(replica_groups, None).with(AttrKey::Dimensions, AttrValue::Ints(vec![dim]));
            // The text has no other place for the number of parts.
            if replica_groups.is_empty() {
                attrs.set(AttrKey::ReplicaGroups, AttrValue::Raw(format!("[1,{count}]<=[{count}]")));
            }
            attrs
        };
        if split == concat {
            return self.add_at(at, Opcode::AllToAll, &[operand], attrs(split), None);
        }
        // The blocks become a dimension of their own, which is exchanged, moved before the one to concatenate along, and
        // merged into it.
        let mut blocks = a.dims.clone();
        blocks[s] /= count;
        blocks.insert(s, count);
        let reshaped = self.add_at(at, Opcode::Reshape, &[operand], Attrs::new(), Some(Shape::array(a.ty, blocks)))?;
        let exchanged = self.add_at(at, Opcode::AllToAll, &[reshaped], attrs(split), None)?;
        let mut permutation = Vec::with_capacity(a.rank() + 1);
        for d in 0..a.rank() {
            if d == c {
                permutation.push(s as i64);
            }
            permutation.push((if d >= s { d + 1 } else { d }) as i64);
        }
        let order = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(permutation));
        let moved = self.add_at(at, Opcode::Transpose, &[exchanged], order, None)?;
        let mut dims = a.dims.clone();
        dims[s] /= count;
        dims[c] = dims[c].checked_mul(count).unwrap_or(-1);
        self.add_at(at, Opcode::Reshape, &[moved], Attrs::new(), Some(Shape::array(a.ty, dims)))
    }

    /// `collective_permute(operand, source_target_pairs)`: what each source sends, at its target; zeros where nothing
    /// arrives. Section «CollectivePermute».
    #[track_caller]
    pub fn collective_permute(&self, operand: Op, source_target_pairs: &[(i64, i64)]) -> Op {
        let pairs: Vec<[i64; 2]> = source_target_pairs.iter().map(|&(s, t)| [s, t]).collect();
        let attrs = Attrs::new().with(AttrKey::SourceTargetPairs, AttrValue::Raw(braces(&pairs)));
        self.op(Opcode::CollectivePermute, &[operand], attrs, None)
    }

    /// `collective_broadcast(operand, replica_groups, channel_id)`: the operand of the first member of each group.
    #[track_caller]
    pub fn collective_broadcast(&self, operand: Op, replica_groups: &[Vec<i64>], channel_id: Option<i64>) -> Op {
        self.op(Opcode::CollectiveBroadcast, &[operand], groups(replica_groups, channel_id), None)
    }

    /// `replica_id()`: which replica this is, `u32[]`. Section «ReplicaId».
    #[track_caller]
    pub fn replica_id(&self) -> Op {
        self.op(Opcode::ReplicaId, &[], Attrs::new(), None)
    }

    /// `partition_id()`: which partition this is, `u32[]`.
    #[track_caller]
    pub fn partition_id(&self) -> Op {
        self.op(Opcode::PartitionId, &[], Attrs::new(), None)
    }
}
