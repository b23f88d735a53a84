//! Descriptions of the values of a compiled program.
//!
//! Of each array that an instruction yields: type, shape, whether it can be assigned, what it is a view of, how its elements
//! lie, and in which memory. A value that has memory of its own is described by it; one that has none is either a view, whose
//! layout is computed from that of what it shows, or computed where it is used.
//!
//! Compiled programs have parameters and results in the order of memory, as wide as they are padded. They are described as callers
//! see them: by their own dimensions, the lengths that these are padded to, and strides that say in which order they lie.

use crate::Artifact;
use crate::hlo::{AttrKey, Computation, ComputationId, Instruction, InstructionId, Opcode, resolve};
use crate::memory::schedule::{Definition, LeafPlace, Location, ValueId};
use brolga_runtime::abi::WORKSPACE_ALIGNMENT;
use brolga_runtime::{ArrayShape, ElementType, Layout, Shape};
use hashbrown::HashMap;
use std::fmt;

/// What is known of one array of a compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorDescription {
    /// The computation.
    pub computation: String,
    /// The instruction, and `.K` for leaf K of one that yields several arrays.
    pub name: String,
    /// The type of the elements.
    pub dtype: ElementType,
    /// `true` of an r-tensor, whose values are only read; `false` of an l-tensor, memory that the program writes.
    pub read_only: bool,
    /// The lengths of the dimensions.
    pub shape: Vec<i64>,
    /// The lengths of the dimensions in memory, padding included, none less than the shape's: of a view the lengths of what it
    /// shows, dimension by dimension.
    pub size: Vec<i64>,
    /// How the elements lie in the memory of the tensor, or of the one that it is a view of; `None` where it has no memory, or
    /// is a view by no strides.
    pub layout: Option<Strided>,
    /// Of a parameter or result that lies otherwise than dense and row-major: the order of its dimensions, and its padding.
    pub memory_layout: Option<Layout>,
    /// Bytes that the address of the first element of the memory is a multiple of.
    pub alignment: usize,
    /// Where it lies.
    pub storage: Storage,
    /// The tensor of the same computation whose elements it shows, where it is a simple view. What shows elements of several
    /// tensors, by padding or concatenation, is none: where it is needed, it has memory.
    pub view_of: Option<String>,
}

impl TensorDescription {
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// Where the element at an index lies: at the offset plus the dot product of strides and index, all in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Distance between neighbours along each dimension; zero of what is broadcast, negative of what is reversed.
    pub strides: Vec<i64>,
    /// Where the first element lies.
    pub offset: i64,
}

/// The memory of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Leaf of the parameters.
    Parameter(u32),
    /// Leaf of the results.
    Result(u32),
    /// The workspace, from this byte on.
    Workspace(u64),
    /// Constant data of the object.
    Constant,
    /// None of its own: it is a view, inlined, or computed where it is used.
    None,
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Storage::Parameter(n) => write!(f, "parameter {n}"),
            Storage::Result(n) => write!(f, "result {n}"),
            Storage::Workspace(offset) => write!(f, "workspace+{offset}"),
            Storage::Constant => f.write_str("constant"),
            Storage::None => f.write_str("none"),
        }
    }
}

/// Describes every array of the computations that have memory in a compiled program, in the order in which they are computed.
pub fn describe(artifact: &Artifact) -> Vec<TensorDescription> {
    let mut storage = HashMap::new();
    for (id, value) in artifact.schedule.values.iter() {
        if let (Some(leaf), true) = (value.leaf, value.definition != Definition::BlockParameter)
            && let Some(location) = artifact.assignment.locations[id]
        {
            storage.insert((value.source.0, value.source.1, leaf), location);
        }
    }
    let (module, seen) = (&artifact.module, seen(artifact));
    let has_memory = |id: &&ComputationId| **id == module.entry || storage.keys().any(|(c, ..)| c == *id);
    let mut out = Vec::new();
    for &id in module.order.iter().filter(has_memory) {
        let computation = &module.computations[id];
        let room = Room { artifact, computation, id, storage: &storage, seen: &seen };
        for &instruction in &computation.order {
            room.describe(instruction, &mut out);
        }
    }
    out
}

/// Parameters and results as callers see them. A result that is a parameter is described as that.
fn seen(artifact: &Artifact) -> HashMap<(ComputationId, InstructionId, usize), ArrayShape> {
    let schedule = &artifact.schedule;
    let (parameters, result) = artifact.module.interface();
    let arrays = |shapes: &[Shape]| -> Vec<ArrayShape> {
        shapes.iter().flat_map(Shape::leaves).filter_map(Shape::as_array).cloned().collect()
    };
    let (parameters, results) = (arrays(&parameters), arrays(&[result]));
    let mut out = HashMap::new();
    let mut note = |id: ValueId, places: &[LeafPlace], number: usize, shapes: &[ArrayShape], certain: bool| {
        // The sizes of a dynamic leaf lie behind its elements.
        let place = places.get(number).filter(|place| place.offset == 0);
        let shape = place.and_then(|place| shapes.get(place.leaf as usize));
        let value = &schedule.values[id];
        if let (Some(leaf), Some(shape)) = (value.leaf, shape) {
            let key = (value.source.0, value.source.1, leaf);
            if certain || !out.contains_key(&key) {
                out.insert(key, shape.clone());
            }
        }
    };
    for (number, &id) in schedule.parameters.iter().enumerate() {
        note(id, &schedule.parameter_places, number, &parameters, true);
    }
    for (number, &id) in schedule.results.iter().enumerate() {
        // A value can be several results; it lies in the buffer of one of them.
        let own = artifact.assignment.locations[id] == Some(Location::Result(number as u32));
        note(id, &schedule.result_places, number, &results, own);
    }
    out
}

/// A leaf of an instruction's result.
type Leaf = (InstructionId, usize);

/// One computation and the memory of its values.
struct Room<'a> {
    artifact: &'a Artifact,
    computation: &'a Computation,
    id: ComputationId,
    storage: &'a HashMap<(ComputationId, InstructionId, usize), Location>,
    /// The shapes of parameters and results as callers see them.
    seen: &'a HashMap<(ComputationId, InstructionId, usize), ArrayShape>,
}

impl Room<'_> {
    fn describe(&self, id: InstructionId, out: &mut Vec<TensorDescription>) {
        let instruction = &self.computation.instructions[id];
        // Tuples are gone in compiled programs: they are their elements.
        if instruction.opcode == Opcode::Tuple {
            return;
        }
        for (number, shape) in instruction.shape.leaves().into_iter().enumerate() {
            let Shape::Array(shape) = shape else { continue };
            let leaf = (id, number);
            let shape = self.seen.get(&(self.id, id, number)).unwrap_or(shape);
            let shown = self.shown(leaf);
            let storage = self.storage(leaf);
            let (base, placed) = shown.clone().unwrap_or((leaf, None));
            let placed = match storage {
                _ if shown.is_some() => placed,
                Storage::None => None,
                _ => Some(Placed::whole(shape)),
            };
            let (layout, size) = placed.map(|p| (p.strided, p.size)).unzip();
            out.push(TensorDescription {
                computation: self.computation.name.clone(),
                name: self.name(leaf),
                dtype: shape.ty,
                read_only: self.read_only(base),
                shape: shape.dims.clone(),
                size: size.unwrap_or_else(|| shape.dims.clone()),
                layout,
                memory_layout: shape.layout.clone().filter(|_| !shape.is_dense_row_major()),
                alignment: self.alignment(base, shape),
                storage,
                view_of: shown.is_some().then(|| self.name(base)),
            });
        }
    }

    fn name(&self, (id, number): Leaf) -> String {
        let instruction = &self.computation.instructions[id];
        match instruction.shape.leaf_count() {
            1 => instruction.name.clone(),
            _ => format!("{}.{number}", instruction.name),
        }
    }

    fn storage(&self, (id, number): Leaf) -> Storage {
        match self.storage.get(&(self.id, id, number)) {
            Some(Location::Parameter(n)) => Storage::Parameter(*n),
            Some(Location::Result(n)) => Storage::Result(*n),
            Some(Location::Workspace(offset)) => Storage::Workspace(*offset),
            Some(Location::Constant(_)) => Storage::Constant,
            None => Storage::None,
        }
    }

    /// Memory that the program writes is an l-tensor: the workspace, results, and parameters whose buffers are results.
    fn read_only(&self, leaf: Leaf) -> bool {
        match self.storage(leaf) {
            Storage::Result(_) | Storage::Workspace(_) => false,
            Storage::Parameter(n) => !self.artifact.schedule.donated.iter().any(|&(p, _, must)| p == n && must),
            Storage::Constant | Storage::None => true,
        }
    }

    fn alignment(&self, base: Leaf, shape: &ArrayShape) -> usize {
        match self.storage(base) {
            Storage::Workspace(_) | Storage::Constant => WORKSPACE_ALIGNMENT,
            _ => shape.ty.alignment(),
        }
    }

    /// The tensor that a value shows through one index translation, and the strides of that, where strides say it. `None` where
    /// the value has memory or values of its own.
    fn shown(&self, leaf: Leaf) -> Option<(Leaf, Option<Placed>)> {
        if self.storage(leaf) != Storage::None {
            return None;
        }
        let instruction = &self.computation.instructions[leaf.0];
        let passed_on = resolve(self.computation, leaf);
        let operand = match instruction.opcode {
            _ if passed_on != leaf => passed_on,
            Opcode::Reshape
            | Opcode::Transpose
            | Opcode::Slice
            | Opcode::Broadcast
            | Opcode::Reverse
            | Opcode::Bitcast
            | Opcode::Copy
            | Opcode::DynamicSlice
            | Opcode::Gather => resolve(self.computation, (*instruction.operands.first()?, 0)),
            _ => return None,
        };
        let from = self.computation.instructions[operand.0].shape.leaf(operand.1)?.as_array()?;
        let (base, placed) = self.shown(operand).unwrap_or((operand, Some(Placed::whole(from))));
        let to = instruction.shape.leaf(leaf.1)?.as_array()?;
        let placed = if passed_on != leaf { placed } else { translated(instruction, from, to, placed?) };
        Some((base, placed))
    }
}

/// How a value lies in memory.
#[derive(Clone)]
struct Placed {
    strided: Strided,
    /// The lengths of the dimensions there.
    size: Vec<i64>,
}

impl Placed {
    /// An array with memory of its own.
    fn whole(shape: &ArrayShape) -> Placed {
        Placed { strided: Strided { strides: shape.strides(), offset: 0 }, size: shape.widths().to_vec() }
    }
}

/// How a view lies in the memory of what it shows.
fn translated(instruction: &Instruction, from: &ArrayShape, to: &ArrayShape, old: Placed) -> Option<Placed> {
    let Placed { strided: Strided { strides, mut offset }, size: old_size } = old;
    let mut size = to.dims.clone();
    let dimensions = instruction.attrs.ints(AttrKey::Dimensions).unwrap_or_default();
    let dimensions = dimensions.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>()?;
    let strides = match instruction.opcode {
        Opcode::Copy => {
            size = old_size;
            strides
        }
        Opcode::Reshape | Opcode::Bitcast => {
            let (strides, lengths) = reshaped(&from.dims, &strides, &old_size, &to.dims)?;
            size = lengths;
            strides
        }
        Opcode::Transpose => {
            size = dimensions.iter().map(|&d| old_size.get(d).copied()).collect::<Option<_>>()?;
            dimensions.iter().map(|&d| strides.get(d).copied()).collect::<Option<_>>()?
        }
        Opcode::Broadcast => {
            let mut out = vec![0; to.rank()];
            for ((stride, length), d) in strides.iter().zip(old_size).zip(dimensions) {
                *out.get_mut(d)? = *stride;
                *size.get_mut(d)? = length;
            }
            out
        }
        Opcode::Slice => {
            let ranges = instruction.attrs.slice_ranges(AttrKey::Slice)?;
            offset += ranges.iter().zip(&strides).map(|(r, s)| r.start * s).sum::<i64>();
            for ((length, old), range) in size.iter_mut().zip(old_size).zip(ranges) {
                if range.stride == 1 {
                    *length = old;
                }
            }
            ranges.iter().zip(&strides).map(|(r, s)| r.stride * s).collect()
        }
        Opcode::Reverse => {
            let mut out = strides;
            size = old_size;
            for d in dimensions {
                let stride = out.get_mut(d)?;
                offset += (from.dims.get(d)? - 1) * *stride;
                *stride = -*stride;
            }
            out
        }
        _ => return None,
    };
    Some(Placed { strided: Strided { strides, offset }, size })
}

/// The strides of an array with other sizes and the same order of elements, where there are such, and its lengths in memory:
/// dimensions are taken together in groups of equal numbers of elements, and within a group the old ones must lie densely. So
/// the outer one alone may be longer in memory than it is, and the outer new one is.
fn reshaped(from: &[i64], strides: &[i64], sizes: &[i64], to: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
    let mut size = to.to_vec();
    if from.contains(&0) {
        return Some((brolga_runtime::row_major_strides(to), size));
    }
    let old: Vec<(i64, i64, i64)> =
        (0..from.len()).map(|d| Some((from[d], *strides.get(d)?, *sizes.get(d)?))).collect::<Option<_>>()?;
    let old: Vec<(i64, i64, i64)> = old.into_iter().filter(|(n, ..)| *n != 1).collect();
    let mut out = vec![0; to.len()];
    let (mut i, mut j) = (old.len(), to.len());
    while j > 0 {
        if to.get(j - 1) == Some(&1) {
            // A dimension of one element has any stride.
            j -= 1;
            *out.get_mut(j)? = 1;
            continue;
        }
        let (mut have, mut want) = (1, 1);
        let (first_stride, mut end) = (old.get(i.checked_sub(1)?)?.1, i);
        while have != want || have == 1 {
            if have <= want && end > 0 && (have == 1 || have < want) {
                let (n, stride, _) = *old.get(end - 1)?;
                if have > 1 && stride != have * first_stride {
                    return None;
                }
                have *= n;
                end -= 1;
            } else {
                j = j.checked_sub(1)?;
                *out.get_mut(j)? = want * first_stride;
                want *= to.get(j)?;
            }
        }
        let ((outer, _, length), inner) = (*old.get(end)?, want / to.get(j)?);
        *size.get_mut(j)? = have / outer * length / inner;
        i = end;
    }
    Some((out, size))
}

#[cfg(test)]
mod tests {
    use super::reshaped;

    #[test]
    fn strides_of_reshapes() {
        let dense = |from: &[i64], strides: &[i64], to: &[i64]| reshaped(from, strides, from, to).map(|(s, _)| s);
        assert_eq!(dense(&[4, 6], &[6, 1], &[2, 2, 3, 2]), Some(vec![12, 6, 2, 1]));
        assert_eq!(dense(&[2, 2, 3, 2], &[12, 6, 2, 1], &[24]), Some(vec![1]));
        assert_eq!(dense(&[4, 6], &[12, 2], &[24]), Some(vec![2]));
        // Rows of a wider array do not lie densely, a transposed array neither.
        assert_eq!(dense(&[4, 6], &[8, 1], &[24]), None);
        assert_eq!(dense(&[6, 4], &[1, 6], &[24]), None);
        assert_eq!(dense(&[6, 4], &[1, 6], &[2, 3, 4]), Some(vec![3, 1, 6]));
        assert_eq!(dense(&[4, 6], &[8, 1], &[4, 1, 3, 2]), Some(vec![8, 1, 2, 1]));
        assert_eq!(dense(&[1], &[1], &[]), Some(vec![]));
        assert_eq!(dense(&[0, 3], &[3, 1], &[3, 0]), Some(vec![1, 1]));
    }

    /// Of `[4, 6]` in memory of `[5, 8]`, and of `[4, 6, 2]` in `[7, 6, 2]`.
    #[test]
    fn lengths_of_reshapes() {
        let lengths = |from: &[i64], strides: &[i64], sizes: &[i64], to: &[i64]| {
            reshaped(from, strides, sizes, to).map(|(_, l)| l)
        };
        let wide = |to: &[i64]| lengths(&[4, 6], &[8, 1], &[5, 8], to);
        assert_eq!(wide(&[4, 1, 6]), Some(vec![5, 1, 8]));
        assert_eq!(wide(&[2, 2, 3, 2]), Some(vec![2, 2, 4, 2]));
        assert_eq!(wide(&[24]), None);
        let high = |to: &[i64]| lengths(&[4, 6, 2], &[12, 2, 1], &[7, 6, 2], to);
        assert_eq!(high(&[48]), Some(vec![84]));
        assert_eq!(high(&[8, 6]), Some(vec![14, 6]));
        assert_eq!(lengths(&[1, 3], &[3, 1], &[4, 3], &[3]), Some(vec![3]));
    }
}
