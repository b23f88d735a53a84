//! Operations in which several devices take part.
//!
//! How many devices there are is a matter of the run, not of the module, so sizes that depend on it are taken from the
//! declared shape and checked for divisibility, and against the group size where groups are written out.

use super::groups::{ReplicaGroups, parse_replica_groups, parse_source_target_pairs};
use super::reduction::{Reducer, check_reducer};
use super::rule::{Call, Rule, Show, array, ensure, fail, parts};
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::PartitionId | Opcode::ReplicaId => Ok(Shape::scalar(ElementType::U32)),
        Opcode::AllReduce => all_reduce(call),
        Opcode::AllGather => resized(call, true),
        Opcode::ReduceScatter => {
            reducer(call)?;
            resized(call, false)
        }
        Opcode::AllToAll => all_to_all(call),
        Opcode::CollectiveBroadcast => {
            groups(call)?;
            same(call)
        }
        Opcode::CollectivePermute => permute(call),
        _ => ragged_all_to_all(call),
    }
}

fn groups(call: &Call<'_>) -> Rule<ReplicaGroups> {
    let reduces = matches!(call.opcode, Opcode::AllReduce | Opcode::AllReduceStart | Opcode::ReduceScatter);
    ensure!(
        !reduces
            || call.attrs.bool(AttrKey::UseGlobalDeviceIds) != Some(true)
            || call.attrs.get(AttrKey::ChannelId).is_some(),
        "collective.global-ids",
        "expected channel_id where use_global_device_ids is true"
    );
    let groups = match call.attrs.raw(AttrKey::ReplicaGroups) {
        Some(text) => parse_replica_groups(text)?,
        None => Vec::new(),
    };
    // Members are distinct, so that all numbers below their count are there where the largest is.
    let count: usize = groups.iter().map(Vec::len).sum();
    let largest = groups.iter().flatten().max();
    ensure!(
        call.opcode == Opcode::CollectiveBroadcast || largest.is_none_or(|&n| n == count as i64 - 1),
        "collective.every-member",
        "expected every number from 0 to {} in a group of {}, found {count} members",
        largest.unwrap_or(&0),
        call.opcode
    );
    Ok(groups)
}

/// The size of every group, where groups are written out; an error where sizes differ.
fn group_size(call: &Call<'_>) -> Rule<Option<i64>> {
    let groups = groups(call)?;
    let Some(first) = groups.first() else { return Ok(None) };
    ensure!(
        groups.iter().all(|g| g.len() == first.len()),
        "collective.group-sizes",
        "expected groups of equal size for {}, found {} and others",
        call.opcode,
        first.len()
    );
    Ok(Some(first.len() as i64))
}

/// The operands' shapes: one as it is, several as a tuple. A program may state a tuple of one.
fn same(call: &Call<'_>) -> Rule<Shape> {
    let shapes = call.arrays()?.into_iter().map(|a| a.with_type(a.ty).into()).collect();
    Ok(call.as_declared(shapes))
}

fn reducer(call: &Call<'_>) -> Rule<()> {
    let Some(first) = call.operands.first().and_then(|s| s.as_array()) else { return Ok(()) };
    // One computation folds every operand, each with its own type; it need fit the first only, or, in the tuple form,
    // take all of them at once.
    let callee = call.callee(AttrKey::ToApply)?;
    if callee.parameters.len() == 2 {
        check_reducer(call, &Reducer { key: AttrKey::ToApply, accumulators: &[first.ty], inputs: &[first.ty] })?;
    } else {
        let types: Vec<_> = call.arrays()?.iter().map(|a| a.ty).collect();
        check_reducer(call, &Reducer { key: AttrKey::ToApply, accumulators: &types, inputs: &types })?;
    }
    Ok(())
}

pub(super) fn all_reduce(call: &Call<'_>) -> Rule<Shape> {
    groups(call)?;
    reducer(call)?;
    same(call)
}

/// All-gather grows a dimension by the group size, reduce-scatter shrinks it.
fn resized(call: &Call<'_>, grows: bool) -> Rule<Shape> {
    let size = group_size(call)?;
    let with_partitions = call.attrs.int(AttrKey::ChannelId).is_some_and(|c| c > 0)
        && call.attrs.bool(AttrKey::UseGlobalDeviceIds) != Some(true);
    let declared = parts(call.declared()?);
    ensure!(
        declared.len() == call.operands.len(),
        "collective.results",
        "expected {} results of {}, found {}",
        call.operands.len(),
        call.opcode,
        declared.len()
    );
    let mut shapes = Vec::with_capacity(declared.len());
    for (i, stated) in declared.iter().enumerate() {
        let a = call.array(i)?;
        let axis = call.one_dim(AttrKey::Dimensions, a.rank(), "collective.dimension")?;
        let Some(stated) = stated.as_array().filter(|s| s.rank() == a.rank()) else {
            fail!("collective.results", "expected a result of the rank of {}, found {stated:#}", Show(a));
        };
        let (small, large) = if grows { (a.dims[axis], stated.dims[axis]) } else { (stated.dims[axis], a.dims[axis]) };
        let fits = match size {
            // Replicas stand for all their partitions, of which the module need not say the number.
            Some(n) if with_partitions => {
                small.checked_mul(n).is_some_and(|least| least == large || least > 0 && large % least == 0)
            }
            Some(n) => small.checked_mul(n) == Some(large),
            None => large == small || (small > 0 && large % small == 0),
        };
        ensure!(
            fits,
            "collective.sizes",
            "expected {} and {} in dimension {axis} to differ by the group size, found {small} and {large}",
            Show(a),
            Show(stated)
        );
        let mut dims = a.dims.clone();
        dims[axis] = stated.dims[axis];
        shapes.push(array(a.ty, dims, a.dynamic.clone()).into());
    }
    Ok(call.as_declared(shapes))
}

fn all_to_all(call: &Call<'_>) -> Rule<Shape> {
    let size = group_size(call)?;
    let Some(_) = call.attrs.ints(AttrKey::Dimensions) else {
        // The tuple form: operand i goes to the i-th member.
        let arrays = call.arrays()?;
        if let Some(first) = arrays.first() {
            ensure!(
                arrays.iter().all(|a| a.same_dims(first) && call.mixes(a.ty, first.ty)),
                "all-to-all.same-shape",
                "expected operands of all-to-all of one shape, found {} and others",
                Show(first)
            );
        }
        return same(call);
    };
    let a = call.array(0)?;
    ensure!(
        call.operands.len() == 1,
        "all-to-all.operands",
        "expected 1 operand of all-to-all with dimensions, found {}",
        call.operands.len()
    );
    let axis = call.one_dim(AttrKey::Dimensions, a.rank(), "collective.dimension")?;
    if let Some(n) = size.filter(|&n| n <= 0 || a.dims[axis] % n != 0) {
        fail!("collective.sizes", "expected dimension {axis} of {} to be cut into {n} parts", Show(a));
    }
    same(call)
}

pub(super) fn check_pairs(call: &Call<'_>) -> Rule<()> {
    let pairs = parse_source_target_pairs(call.attrs.raw(AttrKey::SourceTargetPairs).unwrap_or("{}"))?;
    if call.attrs.get(AttrKey::SliceSizesPerDevice).is_some() || call.operands.len() != 1 {
        return Ok(());
    }
    for (what, mut list) in [
        ("source", pairs.iter().map(|p| p.0).collect::<Vec<_>>()),
        ("target", pairs.iter().map(|p| p.1).collect::<Vec<_>>()),
    ] {
        list.sort_unstable();
        if let Some(pair) = list.windows(2).find(|w| w[0] == w[1]) {
            fail!("collective-permute.pairs", "expected each {what} once, found {} twice", pair[0]);
        }
    }
    Ok(())
}

fn permute(call: &Call<'_>) -> Rule<Shape> {
    check_pairs(call)?;
    // The in-place form takes a second, written operand and start indices, and yields the written buffer.
    if call.attrs.get(AttrKey::SliceSizesPerDevice).is_some() {
        return Ok(call.declared()?.without_layout());
    }
    same(call)
}

fn ragged_all_to_all(call: &Call<'_>) -> Rule<Shape> {
    groups(call)?;
    let (input, output) = (call.array(0)?, call.array(1)?);
    ensure!(
        input.ty == output.ty,
        "ragged-all-to-all.type",
        "expected input and output of one type, found {} and {}",
        input.ty,
        output.ty
    );
    let first: &ArrayShape = call.array(2)?;
    for i in 2..call.operands.len() {
        let a = call.array(i)?;
        ensure!(
            a.ty.is_integer() && a.same_dims(first),
            "ragged-all-to-all.offsets",
            "expected integer offsets and sizes of one shape, found {} in operand {i}",
            Show(a)
        );
    }
    Ok(output.with_type(output.ty).into())
}
