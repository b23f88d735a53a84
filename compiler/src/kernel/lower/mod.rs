//! From a fused group to a kernel.
//!
//! **Problem.** A group is a set of instructions on whole arrays; a kernel computes one element at a time.
//!
//! **Invariant.** The value of instruction `v` at index `X` (one [`Ix`] a dimension) is one node of a stage's body, made
//! once; a complex value is two, its parts, and lies in memory as two elements of the parts' type. Movement never makes a
//! node: it turns `X` into an index of its operand.
//!
//! **Algorithm.** Start from what the group stores, at the index that the loops give, and walk back to the operands
//! ([`Lowerer::value`]) until something is in memory (a load), in a row buffer, in an accumulator, or a constant. The
//! kinds of groups differ only in which loops they set up: [`rows`], [`columns`], [`reduce`], [`dot`], [`movement`].

mod bitcast;
mod call;
mod columns;
mod commute;
mod dot;
mod identity;
mod indexing;
mod movement;
mod order;
mod reduce;
mod registers;
mod rows;
mod scan;
mod scatter;
mod sort;
mod window;
pub mod words;

pub use registers::lower_while;

use self::commute::Commutes;
use super::body::{Body, Mem, NodeId, Op, ScalarType, Variant};
use super::elementwise::{self, ElementwiseContext, Parts};
use super::index::{Axis, Ix, delinearize, linearize};
use super::ir::{Buffer, Kernel, Loop, Phase, Role, Store};
use super::storage;
use crate::error::{Error, Result, Site};
use crate::fusion::{Group, GroupKind, cumulative_window, is_splat};
use crate::hlo::{AttrKey, Computation, ComputationId, Instruction, InstructionId, Leaf, Module, Opcode, resolve};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Scalar, Shape};
use hashbrown::{HashMap, HashSet};

/// Choices that change the numbers a kernel computes, and what the machine has that changes how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numerics {
    /// With or without FMA in polynomials and multiply-add chains.
    pub variant: Variant,
    /// Round 16-bit and 8-bit floats after every operation rather than when they are stored.
    pub strict_rounding: bool,
    /// What words are filled with whose products are added up: the numbers are the same.
    pub words: Option<words::Filling>,
    /// Whether words of two `bf16` are multiplied, both products at once: the numbers are the same here too.
    pub bf16_words: bool,
}

/// A lowered group.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The kernel.
    pub kernel: Kernel,
    /// What its input buffers hold, in order.
    pub inputs: Vec<Leaf>,
    /// What its output buffers hold, in order.
    pub outputs: Vec<Leaf>,
}

/// Lowers one group of `computation`; `stored` says which leaves are in memory.
///
/// # Errors
/// [`Error::Unsupported`] where an operation has no compiled form for its types.
pub fn lower(
    module: &Module,
    computation: ComputationId,
    stored: &HashSet<Leaf>,
    group: &Group,
    numerics: Numerics,
) -> Result<Lowered> {
    let c = &module.computations[computation];
    if let GroupKind::Call(id) = group.kind {
        return call::call(module, computation, id);
    }
    let mut l = Lowerer {
        module,
        computation,
        c,
        stored,
        members: group.members.iter().copied().collect(),
        numerics,
        inputs: Vec::new(),
        outputs: group.outputs.clone(),
        axes: 0,
        inputs_by_leaf: HashMap::new(),
        scratch: Vec::new(),
    };
    let phases = match &group.kind {
        GroupKind::Rows { dims, split } => l.rows(group, dims, *split)?,
        GroupKind::Columns { dims, split, end } => l.columns(group, dims, *split, *end)?,
        GroupKind::Reduce(id) => l.reduce(*id)?,
        GroupKind::Dot(id) => l.dot(*id)?,
        GroupKind::Concatenate(id) => l.concatenate(*id)?,
        GroupKind::Pad(id) => l.pad(*id)?,
        GroupKind::DynamicUpdateSlice(id) => l.dynamic_update_slice(*id)?,
        GroupKind::Scatter(id) => l.scatter(*id)?,
        GroupKind::ReduceWindow(id) => match cumulative_window(module, c, *id) {
            Some(window) => l.cumulative(*id, window)?,
            None => l.reduce_window(*id)?,
        },
        GroupKind::Scan(id) => l.scan(*id)?,
        GroupKind::Convolution(id) => l.convolution(*id)?,
        GroupKind::Call(id) => return Err(internal(l.inst(*id), "a call is no loop nest")),
        GroupKind::Sort(id) => l.sort(*id)?,
        GroupKind::TopK(id) => l.top_k(*id)?,
    };
    let padding = l.padding()?;
    l.finish(group, phases.into_iter().chain(padding).collect())
}

/// Input buffers are numbered from here while a kernel is made, outputs from 0; [`Lowerer::finish`] puts inputs first.
const INPUT_BASE: u32 = 1 << 16;
/// Scratch buffers are numbered from here.
const SCRATCH_BASE: u32 = 1 << 24;

struct Lowerer<'a> {
    module: &'a Module,
    computation: ComputationId,
    c: &'a Computation,
    stored: &'a HashSet<Leaf>,
    members: HashSet<InstructionId>,
    numerics: Numerics,
    inputs: Vec<(Leaf, ArrayShape)>,
    inputs_by_leaf: HashMap<Leaf, u32>,
    outputs: Vec<Leaf>,
    scratch: Vec<Buffer>,
    axes: u32,
}

/// A leaf, and which part of its values: 0 the real or only one, 1 the imaginary one.
type Part = (Leaf, u32);

/// What a stage knows besides the graph: finished reductions and row buffers.
#[derive(Default)]
struct Stage {
    body: Body,
    memo: HashMap<(Part, Vec<Ix>), NodeId>,
}

/// Values that earlier stages made, by part: where they are, and the offset at which they are known.
#[derive(Default)]
struct Known {
    /// Accumulator results: valid at this offset in the value's own shape.
    results: HashMap<Part, (u32, Ix)>,
    /// Row buffers, likewise.
    rows: HashMap<Part, (u32, Ix)>,
    /// Nodes of the stage's own body, likewise.
    nodes: HashMap<Part, (NodeId, Ix)>,
    /// Elements that an earlier stage has stored for this one: buffer, and offset.
    stored: HashMap<Part, (u32, Ix)>,
}

fn site(inst: &Instruction) -> Site {
    Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 }
}

fn unsupported(inst: &Instruction, feature: impl Into<String>) -> Error {
    Error::Unsupported { site: site(inst), feature: feature.into() }
}

fn internal(inst: &Instruction, what: &str) -> Error {
    Error::Internal(format!("lowering '{}' ({}): {what}", inst.name, inst.opcode))
}

impl<'a> Lowerer<'a> {
    fn inst(&self, id: InstructionId) -> &'a Instruction {
        &self.c.instructions[id]
    }

    fn leaf_shape(&self, leaf: Leaf) -> Result<&'a ArrayShape> {
        let inst = self.inst(leaf.0);
        inst.shape.leaf(leaf.1).and_then(Shape::as_array).ok_or_else(|| internal(inst, "not an array"))
    }

    fn new_loop(&mut self, extent: i64) -> Loop {
        let axis = Axis(self.axes);
        self.axes += 1;
        Loop { axis, extent }
    }

    fn input(&mut self, leaf: Leaf) -> Result<u32> {
        if let Some(&b) = self.inputs_by_leaf.get(&leaf) {
            return Ok(b);
        }
        let shape = self.leaf_shape(leaf)?.clone();
        let b = INPUT_BASE + self.inputs.len() as u32;
        self.inputs.push((leaf, shape));
        self.inputs_by_leaf.insert(leaf, b);
        Ok(b)
    }

    /// A buffer that this kernel alone sees.
    fn scratch_buffer(&mut self, ty: ElementType, elements: usize) -> u32 {
        self.scratch.push(Buffer { ty, elements, role: Role::Scratch });
        SCRATCH_BASE + self.scratch.len() as u32 - 1
    }

    /// The elements of a scratch buffer; nothing of another one.
    fn scratch_elements(&self, buffer: u32) -> Option<i64> {
        let number = buffer.checked_sub(SCRATCH_BASE)?;
        Some(self.scratch.get(number as usize)?.elements as i64)
    }

    /// Whether a leaf is read from memory by this kernel.
    fn in_memory(&self, leaf: Leaf) -> bool {
        if self.members.contains(&leaf.0) {
            return false;
        }
        let inst = self.inst(leaf.0);
        match inst.opcode {
            Opcode::Parameter | Opcode::While | Opcode::Conditional => true,
            Opcode::Constant => {
                inst.literal().and_then(|l| l.arrays().get(leaf.1).map(|a| !is_splat(a))).unwrap_or(true)
            }
            _ => self.stored.contains(&leaf),
        }
    }

    fn load(&mut self, body: &mut Body, (leaf, part): Part, index: &[Ix]) -> Result<NodeId> {
        let shape = self.leaf_shape(leaf)?;
        let buffer = self.input(leaf)?;
        let mem = mem_of(self.inst(leaf.0), shape.ty)?;
        let offset = part_offset(shape.ty, part, &linearize(index, &shape.dims));
        let raw = body.push(Op::Load(buffer, mem, offset), &[], mem.scalar());
        Ok(storage::decode(body, shape.ty.real_part(), raw))
    }

    /// The parts of a leaf's values, as many as its type has.
    fn parts_of(&self, leaf: Leaf) -> Result<std::ops::Range<u32>> {
        Ok(0..storage::parts(self.leaf_shape(leaf)?.ty))
    }

    /// Number and part of each component that reductions of `operands` carry.
    fn components(&self, operands: &[InstructionId]) -> Result<Vec<(usize, u32)>> {
        let mut out = Vec::new();
        for (k, &o) in operands.iter().enumerate() {
            out.extend(self.parts_of(resolve(self.c, (o, 0)))?.map(|part| (k, part)));
        }
        Ok(out)
    }

    /// The value of `leaf` at `index`, as a node of the stage's body, in the scalar type that it is computed in; the real part
    /// where it is complex.
    fn value(&mut self, stage: &mut Stage, known: &Known, leaf: Leaf, index: &[Ix]) -> Result<NodeId> {
        self.part(stage, known, (leaf, 0), index)
    }

    /// All parts of the value of `leaf` at `index`.
    fn parts(&mut self, stage: &mut Stage, known: &Known, leaf: Leaf, index: &[Ix]) -> Result<Vec<NodeId>> {
        self.parts_of(resolve(self.c, leaf))?.map(|part| self.part(stage, known, (leaf, part), index)).collect()
    }

    /// One part of the value of a leaf at `index`.
    fn part(&mut self, stage: &mut Stage, known: &Known, (leaf, part): Part, index: &[Ix]) -> Result<NodeId> {
        let part = (resolve(self.c, leaf), part);
        let key = (part, index.to_vec());
        if let Some(&node) = stage.memo.get(&key) {
            return Ok(node);
        }
        // What lies in memory is read for who asks.
        let asks = (!self.in_memory(part.0)).then(|| stage.body.set_source(Some(part.0.0)));
        let node = self.fresh_value(stage, known, part, index)?;
        if let Some(asks) = asks {
            stage.body.set_source(asks);
        }
        stage.memo.insert(key, node);
        Ok(node)
    }

    fn fresh_value(&mut self, stage: &mut Stage, known: &Known, part: Part, index: &[Ix]) -> Result<NodeId> {
        let leaf = part.0;
        let inst = self.inst(leaf.0);
        let shape = self.leaf_shape(leaf)?;
        let offset = || linearize(index, &shape.dims);
        if let Some((row, at)) = known.rows.get(&part)
            && *at == offset()
        {
            let scalar = storage::compute_type(shape.ty);
            let raw = stage.body.push(Op::Row(*row), &[], type_in_row(scalar));
            let value = from_row(&mut stage.body, raw, scalar);
            let folded =
                matches!(inst.opcode, Opcode::Reduce | Opcode::Dot | Opcode::ReduceWindow | Opcode::Convolution);
            return Ok(if folded { storage::round_to(&mut stage.body, shape.ty, value) } else { value });
        }
        if let Some((buffer, at)) = known.stored.get(&part)
            && *at == offset()
        {
            let scalar = storage::compute_type(shape.ty);
            let load = Op::Load(*buffer, Mem::of(type_in_row(scalar)), at.clone());
            let raw = stage.body.push(load, &[], type_in_row(scalar));
            return Ok(from_row(&mut stage.body, raw, scalar));
        }
        if let Some((node, at)) = known.nodes.get(&part) {
            return if *at == offset() {
                Ok(*node)
            } else {
                Err(internal(inst, "the index maps of a running value's use and definition differ"))
            };
        }
        if let Some((result, at)) = known.results.get(&part) {
            if *at != offset() {
                return Err(internal(inst, "the index maps of a reduction's use and definition differ"));
            }
            let value = stage.body.push(Op::Result(*result), &[], storage::compute_type(shape.ty));
            return Ok(storage::round_to(&mut stage.body, shape.ty, value));
        }
        if self.in_memory(leaf) {
            return self.load(&mut stage.body, part, index);
        }
        let operand = |n: usize| inst.operands.get(n).copied().ok_or_else(|| internal(inst, "an operand is missing"));
        match inst.opcode {
            Opcode::Constant => {
                let literal = inst.literal().ok_or_else(|| internal(inst, "no literal"))?;
                let arrays = literal.arrays();
                let array = arrays.get(leaf.1).ok_or_else(|| internal(inst, "no leaf"))?;
                Ok(constant_node(&mut stage.body, array, 0, part.1))
            }
            Opcode::Iota => {
                let d = inst.attrs.int(AttrKey::IotaDimension).unwrap_or(0).max(0) as usize;
                let to = shape.ty.real_part();
                if part.1 == 1 {
                    return Ok(stage.body.bits(storage::compute_type(to), 0));
                }
                let wide = to.bits() == 64 || shape.dims[d] > i64::from(i32::MAX);
                let (scalar, from) =
                    if wide { (ScalarType::I64, ElementType::S64) } else { (ScalarType::I32, ElementType::S32) };
                let raw = stage.body.push(Op::Index(index[d].clone()), &[], scalar);
                self.convert(stage, inst, from, to, raw)
            }
            op if renames_index(op) => {
                let from = self.leaf_shape(resolve(self.c, (operand(0)?, 0)))?;
                let moved = moved_index(inst, index, &shape.dims, &from.dims);
                self.part(stage, known, ((operand(0)?, 0), part.1), &moved)
            }
            Opcode::DynamicSlice => {
                let moved = self.dynamic_slice_index(stage, known, inst, index)?;
                self.part(stage, known, ((operand(0)?, 0), part.1), &moved)
            }
            Opcode::Gather => {
                let moved = self.gather_index(stage, known, inst, index)?;
                self.part(stage, known, ((operand(0)?, 0), part.1), &moved)
            }
            Opcode::Concatenate => {
                let (operand, index) = self.place_in_parts(inst, index)?;
                self.part(stage, known, ((operand, 0), part.1), &index)
            }
            Opcode::BitcastConvert => self.bitcast(stage, known, inst, (shape.ty, part.1), index),
            Opcode::Complex => self.part(stage, known, ((operand(part.1 as usize)?, 0), 0), index),
            Opcode::Real | Opcode::Imag if self.leaf_shape(resolve(self.c, (operand(0)?, 0)))?.ty.is_complex() => {
                let which = u32::from(inst.opcode == Opcode::Imag);
                self.part(stage, known, ((operand(0)?, 0), which), index)
            }
            op if op.is_elementwise() => {
                let mut values = Vec::with_capacity(inst.operands.len());
                let mut types = Vec::with_capacity(inst.operands.len());
                for &o in &inst.operands {
                    let s = self.leaf_shape(resolve(self.c, (o, 0)))?;
                    types.push(s.ty);
                    let scalar = s.rank() == 0;
                    values.push(self.parts(stage, known, (o, 0), if scalar { &[] } else { index })?);
                }
                if inst.opcode == Opcode::Convert && self.has_excess(inst.operands[0]) && shape.ty != types[0] {
                    values[0][0] = storage::round_to(&mut stage.body, types[0], values[0][0]);
                }
                let parts = elementwise_parts(&mut stage.body, inst, &types, shape.ty, &values, self.numerics)?;
                // Both parts are made at once.
                for (k, &node) in parts.iter().enumerate() {
                    stage.memo.insert(((leaf, k as u32), index.to_vec()), node);
                }
                parts.get(part.1 as usize).copied().ok_or_else(|| internal(inst, "a part is missing"))
            }
            op => Err(unsupported(inst, format!("compiling '{op}' inside a kernel"))),
        }
    }

    /// Whether a narrow float may be carried in more digits than its type has: it was computed in this kernel.
    fn has_excess(&self, id: InstructionId) -> bool {
        let leaf = resolve(self.c, (id, 0));
        let inst = self.inst(leaf.0);
        let narrow = inst.shape.as_array().is_some_and(|s| s.ty.is_narrow_float());
        narrow
            && !self.in_memory(leaf)
            && match inst.opcode {
                Opcode::Convert | Opcode::Constant | Opcode::Reduce | Opcode::Dot => false,
                op if op.is_elementwise() => true,
                _ => inst.operands.first().is_some_and(|&o| self.has_excess(o)),
            }
    }

    fn convert(
        &self,
        stage: &mut Stage,
        inst: &Instruction,
        from: ElementType,
        to: ElementType,
        x: NodeId,
    ) -> Result<NodeId> {
        if from == to {
            return Ok(x);
        }
        let cx = ElementwiseContext { variant: self.numerics.variant, strict_rounding: self.numerics.strict_rounding };
        elementwise::lower(&mut stage.body, &cx, Opcode::Convert, &Default::default(), &[from], to, &[x])
            .map_err(|e| unsupported(inst, e.0))
    }

    /// What the group computes for an output: where a padding of that is stored, its operand.
    fn computed(&self, output: usize) -> Leaf {
        let (id, _) = self.outputs[output];
        match self.padded_operand(id) {
            Some(operand) => resolve(self.c, (operand, 0)),
            None => self.outputs[output],
        }
    }

    /// The operand of a padding that the same group computes.
    fn padded_operand(&self, id: InstructionId) -> Option<InstructionId> {
        let inst = self.inst(id);
        let operand = *inst.operands.first().filter(|_| inst.opcode == Opcode::Pad)?;
        self.members.contains(&resolve(self.c, (operand, 0)).0).then_some(operand)
    }

    /// Where the value at `offset` of what is computed lies in an output.
    fn placed(&self, output: usize, offset: Ix) -> Result<Ix> {
        let (id, _) = self.outputs[output];
        if self.padded_operand(id).is_none() {
            return Ok(offset);
        }
        let edges = self.inst(id).attrs.padding(AttrKey::Padding).unwrap_or(&[]);
        let within = delinearize(&offset, &self.leaf_shape(self.computed(output))?.dims);
        let index: Vec<Ix> = within.iter().zip(edges).map(|(i, edge)| i.offset(edge.low)).collect();
        Ok(linearize(&index, &self.leaf_shape(self.outputs[output])?.dims))
    }

    /// Stores of the parts of a value (in the compute type) to output buffer number `output`.
    fn store(&self, body: &mut Body, output: u32, parts: &[NodeId], index: Ix) -> Result<Vec<Store>> {
        let leaf = self.outputs[output as usize];
        let ty = self.leaf_shape(leaf)?.ty;
        let mem = mem_of(self.inst(leaf.0), ty)?;
        let stores = parts.iter().zip(0..).map(|(&value, part)| {
            let value = storage::encode(body, ty.real_part(), value);
            Store { buffer: output, mem, index: part_offset(ty, part, &index), value }
        });
        Ok(stores.collect())
    }

    /// The combiner of a reduction: its body (arguments: accumulators, then values), roots, and identity.
    fn combiner(&self, folds: InstructionId, components: usize) -> Result<Combiner> {
        let inst = self.inst(folds);
        let id = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| internal(inst, "no to_apply"))?;
        // A fold with one operation is one operation: it is rounded when it is done, or a sum in a narrow float would stop
        // growing where a step is below half a unit of it.
        let strict_rounding =
            self.numerics.strict_rounding && identity::of_operation(&self.module.computations[id]).is_none();
        self.combiner_rounding(folds, components, strict_rounding)
    }

    /// The combiner of a window, whose steps are few: each of them is rounded, as the computation says.
    fn window_combiner(&self, folds: InstructionId, components: usize) -> Result<Combiner> {
        self.combiner_rounding(folds, components, true)
    }

    fn combiner_rounding(&self, folds: InstructionId, components: usize, strict_rounding: bool) -> Result<Combiner> {
        let inst = self.inst(folds);
        let id = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| internal(inst, "no to_apply"))?;
        let mut combiner = region(self.module, id, inst, Numerics { strict_rounding, ..self.numerics })?;
        if combiner.roots.len() != components {
            return Err(internal(inst, "the combiner yields another number of values"));
        }
        self.propagate_nans(inst, &mut combiner);
        combiner.body.attribute(folds);
        Ok(combiner)
    }

    /// Numbers the buffers for good: inputs first, then outputs.
    fn finish(self, group: &Group, mut phases: Vec<Phase>) -> Result<Lowered> {
        let inputs = self.inputs.len() as u32;
        let outputs = self.outputs.len() as u32;
        let renumber = |b: &mut u32| match *b {
            SCRATCH_BASE.. => *b = *b - SCRATCH_BASE + inputs + outputs,
            INPUT_BASE.. => *b -= INPUT_BASE,
            _ => *b += inputs,
        };
        for phase in &mut phases {
            super::rewrite::for_each_buffer(phase, &renumber).ok_or_else(not_whole)?;
        }
        let mut buffers = Vec::new();
        for (_, shape) in &self.inputs {
            buffers.push(buffer(shape, Role::Input));
        }
        for &leaf in &self.outputs {
            buffers.push(buffer(self.leaf_shape(leaf)?, Role::Output));
        }
        buffers.extend(self.scratch.iter().cloned());
        let id = group.outputs.last().map_or(group.members[0], |o| o.0);
        let main = self.inst(id);
        let (name, line, source) = (main.name.clone(), main.location.line, Some((self.computation, id)));
        let mut kernel = Kernel { name, buffers, phases, in_place: Vec::new(), line, source };
        super::simplify::merge_loops(&mut kernel);
        if let GroupKind::DynamicUpdateSlice(_) | GroupKind::Scatter(_) = group.kind {
            super::simplify::leave_copies(&mut kernel);
        }
        kernel.in_place = super::simplify::in_place_pairs(&kernel);
        let inputs = self.inputs.into_iter().map(|(leaf, _)| leaf).collect();
        Ok(Lowered { kernel, inputs, outputs: self.outputs })
    }
}

/// A buffer that holds an array: complex numbers are two elements each.
fn buffer(shape: &ArrayShape, role: Role) -> Buffer {
    Buffer { ty: shape.ty.real_part(), elements: shape.elements() * storage::parts(shape.ty) as usize, role }
}

/// Where a part of the value at `offset` of an array lies, in elements of its buffer.
fn part_offset(ty: ElementType, part: u32, offset: &Ix) -> Ix {
    match storage::parts(ty) {
        1 => offset.clone(),
        n => offset.scale(i64::from(n)).offset(i64::from(part)),
    }
}

/// Whether an element of the result is one of the operand, at the index that [`moved_index`] gives.
fn renames_index(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(opcode, Copy | Reshape | Broadcast | Transpose | Slice | Reverse)
}

/// Where element `index` of a movement's result comes from: the index into its operand. `dims` are the result's
/// dimensions, `from` the operand's.
pub(crate) fn moved_index(inst: &Instruction, index: &[Ix], dims: &[i64], from: &[i64]) -> Vec<Ix> {
    let numbers = inst.attrs.ints_or_empty(AttrKey::Dimensions);
    match inst.opcode {
        Opcode::Reshape => delinearize(&linearize(index, dims), from),
        Opcode::Broadcast => numbers
            .iter()
            .zip(from)
            .map(|(&d, &size)| if size == 1 { Ix::constant(0) } else { index[d.max(0) as usize].clone() })
            .collect(),
        Opcode::Transpose => {
            let mut moved = vec![Ix::default(); index.len()];
            for (i, &d) in numbers.iter().enumerate() {
                moved[d.max(0) as usize] = index[i].clone();
            }
            moved
        }
        Opcode::Slice => {
            let ranges = inst.attrs.slice_ranges(AttrKey::Slice).unwrap_or(&[]);
            index.iter().zip(ranges).map(|(i, r)| i.scale(r.stride).offset(r.start)).collect()
        }
        Opcode::Reverse => index
            .iter()
            .zip(dims)
            .enumerate()
            .map(|(d, (i, &size))| if numbers.contains(&(d as i64)) { i.scale(-1).offset(size - 1) } else { i.clone() })
            .collect(),
        _ => index.to_vec(),
    }
}

/// A combiner in node form.
pub(crate) struct Combiner {
    pub(crate) body: Body,
    pub(crate) roots: Vec<NodeId>,
    identity: Option<Vec<u64>>,
    /// Whether elements may be dealt out over lanes, and partial results combined with each other.
    splits: bool,
    commutes: Commutes,
}

fn mem_of(inst: &Instruction, ty: ElementType) -> Result<Mem> {
    storage::mem_of(ty.real_part()).ok_or_else(|| unsupported(inst, format!("compiling element type {ty}")))
}

/// Masks are kept in row buffers as integers.
fn type_in_row(scalar: ScalarType) -> ScalarType {
    if scalar.is_mask() { scalar.integer() } else { scalar }
}

fn from_row(body: &mut Body, raw: NodeId, scalar: ScalarType) -> NodeId {
    if !scalar.is_mask() {
        return raw;
    }
    let zero = body.int(scalar.integer(), 0);
    body.icmp(super::body::IntCond::Ne, raw, zero)
}

/// The parts of an elementwise operation's result from those of its operands.
fn elementwise_parts(
    body: &mut Body,
    inst: &Instruction,
    types: &[ElementType],
    result: ElementType,
    operands: &[Vec<NodeId>],
    numerics: Numerics,
) -> Result<Vec<NodeId>> {
    let cx = ElementwiseContext { variant: numerics.variant, strict_rounding: numerics.strict_rounding };
    let wrong = |e: elementwise::Unsupported| unsupported(inst, e.0);
    let first = || operands.iter().map(|o| o.first().copied()).collect::<Option<Vec<NodeId>>>();
    if !result.is_complex() && !types.iter().any(|ty| ty.is_complex()) {
        let nodes = first().ok_or_else(|| internal(inst, "an operand without parts"))?;
        let value = elementwise::lower(body, &cx, inst.opcode, &inst.attrs, types, result, &nodes).map_err(wrong)?;
        return Ok(vec![value]);
    }
    let mut pairs = Vec::with_capacity(operands.len());
    for operand in operands {
        pairs.push(match *operand.as_slice() {
            [re, im] => Parts::Complex(re, im),
            [x] => Parts::Real(x),
            _ => return Err(internal(inst, "an operand without parts")),
        });
    }
    let value = elementwise::lower_complex(body, &cx, inst.opcode, &inst.attrs, types, result, &pairs);
    Ok(match value.map_err(wrong)? {
        Parts::Real(x) => vec![x],
        Parts::Complex(re, im) => vec![re, im],
    })
}

/// A body that speaks of nodes or arguments that it does not have.
fn not_whole() -> Error {
    Error::Internal("a body uses what it does not have".to_owned())
}

/// A part of one element of a constant, in the scalar type that it is computed in; 0 where there is none.
pub(crate) fn constant_node(body: &mut Body, array: &ArrayLiteral, i: usize, part: u32) -> NodeId {
    let ty = array.ty();
    let scalar = storage::compute_type(ty);
    let bits = match if i < array.elements() { array.get(i) } else { Scalar::Int(0) } {
        Scalar::Pred(b) => u64::from(b),
        Scalar::Int(v) if scalar == ScalarType::I32 => u64::from(v as u32),
        Scalar::Int(v) => v as u64,
        Scalar::UInt(v) if scalar == ScalarType::I32 => u64::from(v as u32),
        Scalar::UInt(v) => v,
        // The storage form keeps NaN payloads that a trip through f64 would not.
        Scalar::Float(_) | Scalar::Complex(_) => {
            let (size, mut raw) = (ty.real_part().byte_size(), [0; 8]);
            let at = (i * storage::parts(ty) as usize + part as usize) * size;
            if let Some(bytes) = array.bytes().get(at..at + size) {
                raw[..size].copy_from_slice(bytes);
            }
            let raw = u64::from_le_bytes(raw);
            if ty.is_narrow_float() {
                let raw = body.bits(ScalarType::I32, raw);
                return storage::decode(body, ty, raw);
            }
            raw
        }
    };
    body.bits(scalar, bits)
}

/// Turns a computation on scalars into nodes: arguments are the parts of its parameters, one after another.
pub(crate) fn region(module: &Module, id: ComputationId, at: &Instruction, numerics: Numerics) -> Result<Combiner> {
    region_over(module, id, at, numerics, &[])
}

/// As [`region`], for an elementwise computation on arrays of dimensions `dims` and on scalars.
fn region_over(
    module: &Module,
    id: ComputationId,
    at: &Instruction,
    numerics: Numerics,
    dims: &[i64],
) -> Result<Combiner> {
    let c = &module.computations[id];
    let mut body = Body::new();
    let mut nodes: HashMap<InstructionId, Vec<NodeId>> = HashMap::new();
    let mut arguments = 0;
    for p in c.parameters() {
        let Some(shape) = c.instructions[p].shape.as_array() else { continue };
        let scalar = storage::compute_type(shape.ty);
        let parts = storage::parts(shape.ty);
        nodes.insert(p, (0..parts).map(|part| body.arg(arguments + part, scalar)).collect());
        arguments += parts;
    }
    for &i in &c.order {
        let inst = &c.instructions[i];
        let Some(shape) = inst.shape.as_array() else {
            if inst.opcode == Opcode::Tuple {
                continue;
            }
            return Err(unsupported(at, format!("'{}' in '{}'", inst.opcode, c.name)));
        };
        let uniform = inst.opcode == Opcode::Constant
            && inst.literal().is_some_and(|l| l.arrays().into_iter().all(is_splat))
            || inst.opcode == Opcode::Broadcast
                && c.instructions[inst.operands[0]].shape.as_array().is_some_and(|a| a.elements() == 1)
            || matches!(inst.opcode, Opcode::Parameter | Opcode::Copy)
            || inst.opcode.is_elementwise();
        let fits = shape.elements() == 1 || shape.dims == dims && uniform;
        if !fits {
            return Err(unsupported(at, format!("'{}' of shape {shape} in '{}'", inst.opcode, c.name)));
        }
        let of = |o: InstructionId| -> Result<(Vec<NodeId>, ElementType)> {
            let (o, _) = resolve(c, (o, 0));
            let ty = c.instructions[o].shape.as_array().map_or(shape.ty, |s| s.ty);
            nodes.get(&o).map(|n| (n.clone(), ty)).ok_or_else(|| unsupported(at, format!("the form of '{}'", c.name)))
        };
        let node = match inst.opcode {
            Opcode::Parameter => continue,
            Opcode::Constant => {
                let literal = inst.literal().and_then(|l| l.as_array()).ok_or_else(|| internal(inst, "no literal"))?;
                (0..storage::parts(shape.ty)).map(|part| constant_node(&mut body, literal, 0, part)).collect()
            }
            Opcode::Copy | Opcode::Reshape | Opcode::Broadcast | Opcode::Transpose => of(inst.operands[0])?.0,
            Opcode::GetTupleElement => of(i)?.0,
            Opcode::BitcastConvert => {
                let (x, from) = of(inst.operands[0])?;
                let &[x] = x.as_slice() else {
                    return Err(unsupported(at, format!("'{}' of {from} in '{}'", inst.opcode, c.name)));
                };
                if from.bits() != shape.ty.bits() || shape.ty.is_complex() {
                    return Err(unsupported(at, format!("'{}' to {} in '{}'", inst.opcode, shape.ty, c.name)));
                }
                let bits = storage::to_bits(&mut body, from, x);
                vec![storage::from_bits(&mut body, shape.ty, bits)]
            }
            op if op.is_elementwise() => {
                let operands: Vec<_> = inst.operands.iter().map(|&o| of(o)).collect::<Result<_>>()?;
                let (operands, types): (Vec<_>, Vec<_>) = operands.into_iter().unzip();
                elementwise_parts(&mut body, inst, &types, shape.ty, &operands, numerics)?
            }
            op => return Err(unsupported(at, format!("'{op}' in '{}'", c.name))),
        };
        nodes.insert(i, node);
    }
    let root = &c.instructions[c.root];
    let mut roots = Vec::new();
    for leaf in 0..root.shape.leaf_count() {
        let (source, _) = resolve(c, (c.root, leaf));
        let parts = nodes.get(&source).ok_or_else(|| unsupported(at, format!("the form of '{}'", c.name)))?;
        roots.extend(parts);
    }
    let identity = identity::of(c);
    let n = roots.len() as u32;
    let fold = roots.iter().all(|&r| order::sees_both_sides(&body, r, n));
    let commutes = if fold { commute::commutes(c) } else { Commutes::No };
    Ok(Combiner { body, roots, identity, splits: commutes == Commutes::Always, commutes })
}
