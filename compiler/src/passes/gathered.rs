//! Reductions among devices that the runtime has no loop for.
//!
//! Problem: `all-reduce` and `reduce-scatter` take any computation, and the runtime combines elements in a few ways, of the
//! common types. Invariant: elements are combined in the group's order by the program's own computation. Algorithm: the
//! members' operands are gathered along a new dimension and folded with `map`; of a `reduce-scatter` each device then takes
//! its part, at the place that a table says for its number. It runs when asynchronous forms are gone and the module says how
//! many devices there are.

use super::Stats;
use super::expand::formula::slice;
use super::rewrite::{Rewriter, rewrite};
use crate::collective::{Grid, describe, runtime_combines};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Module, Opcode};
use brolga_runtime::devices::Operation;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Shape};

/// Replaces such reductions.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let grid = Grid::of(&module.config);
    for id in module.order.clone() {
        rewrite(module, id, |rw, i| {
            if !matches!(rw.opcode(i), Opcode::AllReduce | Opcode::ReduceScatter) {
                return Ok(None);
            }
            let Some(callee) = rw.instruction(i).attrs.computation(AttrKey::ToApply) else { return Ok(None) };
            if runtime_combines(rw.module, rw.computation(), rw.instruction(i)) {
                return Ok(None);
            }
            stats.add("reductions gathered", 1);
            folded(rw, i, callee, grid).map(Some)
        })?;
    }
    Ok(stats)
}

fn unsupported(rw: &Rewriter<'_>, id: InstructionId, feature: &str) -> Error {
    Error::Unsupported { site: rw.site(id), feature: feature.to_owned() }
}

/// The reduction as a gather and a fold.
fn folded(rw: &mut Rewriter<'_>, id: InstructionId, callee: ComputationId, grid: Grid) -> Result<InstructionId> {
    let instruction = rw.instruction(id).clone();
    let collective = describe(&instruction, grid, None)?;
    let members = collective.groups.first().map_or(0, Vec::len);
    if members == 0 || collective.groups.iter().any(|g| g.len() != members) {
        return Err(unsupported(rw, id, "a computation of its own over groups of different sizes"));
    }
    if rw.module.computations[callee].parameters().len() != 2 {
        return Err(unsupported(rw, id, "a reduction of several arrays at once among devices"));
    }
    let place = match collective.operation {
        Operation::ReduceScatter => Some(place(rw, &collective.groups, grid)),
        _ => None,
    };
    let mut results = Vec::with_capacity(instruction.operands.len());
    for &operand in &instruction.operands {
        let Some(array) = rw.array(operand).filter(|a| !a.is_dynamic()).cloned() else {
            return Err(unsupported(rw, id, "a reduction of dynamic arrays among devices"));
        };
        let whole = fold(rw, &instruction.attrs, operand, &array, callee, members);
        results.push(match place {
            Some(place) => part(rw, whole, &array, collective.dimension, members as i64, place),
            None => whole,
        });
    }
    Ok(match results[..] {
        [only] if !matches!(instruction.shape, Shape::Tuple(_)) => only,
        _ => rw.tuple(results),
    })
}

/// The operands of all members, combined.
fn fold(
    rw: &mut Rewriter<'_>,
    attrs: &Attrs,
    operand: InstructionId,
    array: &ArrayShape,
    callee: ComputationId,
    members: usize,
) -> InstructionId {
    let mut dims = vec![1];
    dims.extend(&array.dims);
    let row = rw.reshape(operand, &dims);
    dims[0] = members as i64;
    let mut gather = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(vec![0]));
    for key in [AttrKey::ReplicaGroups, AttrKey::ChannelId, AttrKey::UseGlobalDeviceIds] {
        if let Some(value) = attrs.get(key) {
            gather = gather.with(key, value.clone());
        }
    }
    let all = rw.emit(Opcode::AllGather, Shape::array(array.ty, dims.clone()), vec![row], gather);
    let mut value = None;
    for k in 0..members as i64 {
        let row = slice(rw, all, 0, k, k + 1);
        let theirs = rw.reshape(row, &array.dims);
        value = Some(match value {
            None => theirs,
            Some(value) => {
                let map = Attrs::new()
                    .with(AttrKey::Dimensions, AttrValue::Ints((0..array.rank() as i64).collect()))
                    .with(AttrKey::ToApply, AttrValue::Computation(callee));
                rw.emit(Opcode::Map, Shape::Array(array.with_type(array.ty)), vec![value, theirs], map)
            }
        });
    }
    value.unwrap_or(operand)
}

/// The place of this device in its group.
fn place(rw: &mut Rewriter<'_>, groups: &[Vec<usize>], grid: Grid) -> InstructionId {
    let mut table = vec![0i32; grid.devices()];
    for group in groups {
        for (place, &device) in group.iter().enumerate() {
            if let Some(slot) = table.get_mut(device) {
                *slot = place as i32;
            }
        }
    }
    let table = rw.constant(ArrayLiteral::from_elements(&[grid.devices() as i64], &table).into());
    let number = |rw: &mut Rewriter<'_>, opcode| {
        let id = rw.emit(opcode, Shape::scalar(ElementType::U32), Vec::new(), Attrs::new());
        rw.convert(id, ElementType::S32)
    };
    let (replica, partition) = (number(rw, Opcode::ReplicaId), number(rw, Opcode::PartitionId));
    let partitions = rw.constant(ArrayLiteral::from_elements(&[], &[grid.partitions as i32]).into());
    let before = rw.elementwise(Opcode::Multiply, vec![replica, partitions]);
    let device = rw.elementwise(Opcode::Add, vec![before, partition]);
    let sizes = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(vec![1]));
    let own = rw.emit(Opcode::DynamicSlice, Shape::array(ElementType::S32, [1]), vec![table, device], sizes);
    rw.reshape(own, &[])
}

/// Part `place` of `members` equal parts along a dimension.
fn part(
    rw: &mut Rewriter<'_>,
    whole: InstructionId,
    array: &ArrayShape,
    dimension: usize,
    members: i64,
    place: InstructionId,
) -> InstructionId {
    let mut dims = array.dims.clone();
    if let Some(size) = dims.get_mut(dimension) {
        *size /= members;
    }
    let length = dims.get(dimension).copied().unwrap_or(0) as i32;
    let length = rw.constant(ArrayLiteral::from_elements(&[], &[length]).into());
    let start = rw.elementwise(Opcode::Multiply, vec![place, length]);
    let zero = rw.constant(ArrayLiteral::from_elements(&[], &[0i32]).into());
    let mut operands = vec![whole];
    operands.extend((0..dims.len()).map(|d| if d == dimension { start } else { zero }));
    let sizes = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(dims.clone()));
    rw.emit(Opcode::DynamicSlice, Shape::array(array.ty, dims), operands, sizes)
}
