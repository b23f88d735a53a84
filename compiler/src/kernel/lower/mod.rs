//! From a fused group to a kernel.
//!
//! **Problem.** A group is a set of instructions on whole arrays; a kernel computes one element at a time.
//!
//! **Invariant.** The value of instruction `v` at index `X` (one [`Ix`] a dimension) is one node of a stage's body, made
//! once. Movement never makes a node: it turns `X` into an index of its operand.
//!
//! **Algorithm.** Start from what the group stores, at the index that the loops give, and walk back to the operands
//! ([`Lowerer::value`]) until something is in memory (a load), in a row buffer, in an accumulator, or a constant. The
//! kinds of groups differ only in which loops they set up: [`rows`], [`reduce`], [`dot`], [`movement`].

mod dot;
mod indexing;
mod movement;
mod reduce;
mod rows;
mod scatter;
mod window;

use super::body::{Body, Lane, Mem, NodeId, Op, Variant};
use super::elementwise::{self, ElementwiseContext};
use super::index::{Axis, Ix, delinearize, linearize};
use super::ir::{Buffer, Kernel, Loop, Phase, Role, Store};
use super::storage;
use crate::error::{Error, Result, Site};
use crate::fusion::{Group, GroupKind, is_splat};
use crate::hlo::{AttrKey, Computation, ComputationId, Instruction, InstructionId, Leaf, Module, Opcode, resolve};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Scalar};
use std::collections::{HashMap, HashSet};

/// Choices that change the numbers a kernel computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numerics {
    /// With or without FMA in polynomials and multiply-add chains.
    pub variant: Variant,
    /// Round 16-bit and 8-bit floats after every operation rather than when they are stored.
    pub strict_rounding: bool,
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
    let mut l = Lowerer {
        module,
        c,
        stored,
        members: group.members.iter().copied().collect(),
        numerics,
        inputs: Vec::new(),
        outputs: group.outputs.clone(),
        axes: 0,
        inputs_by_leaf: HashMap::new(),
    };
    let phases = match &group.kind {
        GroupKind::Rows { dims, split } => l.rows(group, dims, *split)?,
        GroupKind::Reduce(id) => l.reduce(*id)?,
        GroupKind::Dot(id) => l.dot(*id)?,
        GroupKind::Concatenate(id) => l.concatenate(*id)?,
        GroupKind::Pad(id) => l.pad(*id)?,
        GroupKind::DynamicUpdateSlice(id) => l.dynamic_update_slice(*id)?,
        GroupKind::Scatter(id) => l.scatter(*id)?,
        GroupKind::ReduceWindow(id) => l.reduce_window(*id)?,
        GroupKind::Convolution(id) => l.convolution(*id)?,
    };
    l.finish(group, phases)
}

/// Input buffers are numbered from here while a kernel is made, outputs from 0; [`Lowerer::finish`] puts inputs first.
const INPUT_BASE: u32 = 1 << 16;

struct Lowerer<'a> {
    module: &'a Module,
    c: &'a Computation,
    stored: &'a HashSet<Leaf>,
    members: HashSet<InstructionId>,
    numerics: Numerics,
    inputs: Vec<(Leaf, ArrayShape)>,
    inputs_by_leaf: HashMap<Leaf, u32>,
    outputs: Vec<Leaf>,
    axes: u32,
}

/// What a stage knows besides the graph: finished reductions and row buffers.
#[derive(Default)]
struct Stage {
    body: Body,
    memo: HashMap<(Leaf, Vec<Ix>), NodeId>,
}

/// Values that earlier stages made, by leaf: where they are, and the offset at which they are known.
#[derive(Default)]
struct Known {
    /// Accumulator results: valid at this offset in the value's own shape.
    results: HashMap<Leaf, (u32, Ix)>,
    /// Row buffers, likewise.
    rows: HashMap<Leaf, (u32, Ix)>,
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
        let shapes = inst.shape.leaves();
        shapes.get(leaf.1).and_then(|s| s.as_array()).ok_or_else(|| internal(inst, "not an array"))
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

    fn load(&mut self, body: &mut Body, leaf: Leaf, index: &[Ix]) -> Result<NodeId> {
        let shape = self.leaf_shape(leaf)?;
        let buffer = self.input(leaf)?;
        let mem = mem_of(self.inst(leaf.0), shape.ty)?;
        let raw = body.push(Op::Load(buffer, mem, linearize(index, &shape.dims)), &[], mem.lane());
        Ok(storage::decode(body, shape.ty, raw))
    }

    /// The value of `leaf` at `index`, as a node of the stage's body, in the compute lane of its type.
    fn value(&mut self, stage: &mut Stage, known: &Known, leaf: Leaf, index: &[Ix]) -> Result<NodeId> {
        let leaf = resolve(self.c, leaf);
        let key = (leaf, index.to_vec());
        if let Some(&node) = stage.memo.get(&key) {
            return Ok(node);
        }
        let node = self.fresh_value(stage, known, leaf, index)?;
        stage.memo.insert(key, node);
        Ok(node)
    }

    fn fresh_value(&mut self, stage: &mut Stage, known: &Known, leaf: Leaf, index: &[Ix]) -> Result<NodeId> {
        let inst = self.inst(leaf.0);
        let shape = self.leaf_shape(leaf)?;
        let offset = || linearize(index, &shape.dims);
        if let Some((row, at)) = known.rows.get(&leaf)
            && *at == offset()
        {
            let lane = storage::compute_lane(shape.ty);
            let raw = stage.body.push(Op::Row(*row), &[], lane_in_row(lane));
            let value = from_row(&mut stage.body, raw, lane);
            let folded =
                matches!(inst.opcode, Opcode::Reduce | Opcode::Dot | Opcode::ReduceWindow | Opcode::Convolution);
            return Ok(if folded { storage::round_to(&mut stage.body, shape.ty, value) } else { value });
        }
        if let Some((result, at)) = known.results.get(&leaf) {
            if *at != offset() {
                return Err(internal(inst, "a reduction is read out of step"));
            }
            let value = stage.body.push(Op::Result(*result), &[], storage::compute_lane(shape.ty));
            return Ok(storage::round_to(&mut stage.body, shape.ty, value));
        }
        if self.in_memory(leaf) {
            return self.load(&mut stage.body, leaf, index);
        }
        let operand = |n: usize| inst.operands.get(n).copied().ok_or_else(|| internal(inst, "an operand is missing"));
        match inst.opcode {
            Opcode::Constant => {
                let literal = inst.literal().ok_or_else(|| internal(inst, "no literal"))?;
                let arrays = literal.arrays();
                let array = arrays.get(leaf.1).ok_or_else(|| internal(inst, "no leaf"))?;
                Ok(splat(&mut stage.body, array))
            }
            Opcode::Iota => {
                let d = inst.attrs.int(AttrKey::IotaDimension).unwrap_or(0).max(0) as usize;
                let wide = shape.ty.bits() == 64 || shape.dims[d] > i64::from(i32::MAX);
                let (lane, from) = if wide { (Lane::I64, ElementType::S64) } else { (Lane::I32, ElementType::S32) };
                let raw = stage.body.push(Op::Index(index[d].clone()), &[], lane);
                self.convert(stage, inst, from, shape.ty, raw)
            }
            Opcode::Copy
            | Opcode::Reshape
            | Opcode::Broadcast
            | Opcode::Transpose
            | Opcode::Slice
            | Opcode::Reverse => {
                let from = self.leaf_shape(resolve(self.c, (operand(0)?, 0)))?;
                let moved = moved_index(inst, index, &shape.dims, &from.dims);
                self.value(stage, known, (operand(0)?, 0), &moved)
            }
            Opcode::DynamicSlice => {
                let moved = self.dynamic_slice_index(stage, known, inst, index)?;
                self.value(stage, known, (operand(0)?, 0), &moved)
            }
            Opcode::Gather => {
                let moved = self.gather_index(stage, known, inst, index)?;
                self.value(stage, known, (operand(0)?, 0), &moved)
            }
            Opcode::BitcastConvert => {
                let from = self.leaf_shape((operand(0)?, 0))?;
                if from.ty.bits() != shape.ty.bits() {
                    return Err(unsupported(inst, "compiling bitcast-convert between widths"));
                }
                let x = self.value(stage, known, (operand(0)?, 0), index)?;
                Ok(storage::bitcast(&mut stage.body, from.ty, shape.ty, x))
            }
            op if op.is_elementwise() => {
                let mut nodes = Vec::with_capacity(inst.operands.len());
                let mut types = Vec::with_capacity(inst.operands.len());
                for &o in &inst.operands {
                    let s = self.leaf_shape(resolve(self.c, (o, 0)))?;
                    types.push(s.ty);
                    let scalar = s.rank() == 0;
                    nodes.push(self.value(stage, known, (o, 0), if scalar { &[] } else { index })?);
                }
                if inst.opcode == Opcode::Convert && self.has_excess(inst.operands[0]) && shape.ty != types[0] {
                    nodes[0] = storage::round_to(&mut stage.body, types[0], nodes[0]);
                }
                self.elementwise(stage, inst, &types, shape.ty, &nodes)
            }
            op => Err(unsupported(inst, format!("compiling '{op}' inside a kernel"))),
        }
    }

    /// Whether a narrow float may be carried in more digits than its type has: it was computed in this kernel.
    fn has_excess(&self, id: InstructionId) -> bool {
        let leaf = resolve(self.c, (id, 0));
        let inst = self.inst(leaf.0);
        let narrow = inst.shape.as_array().is_some_and(|s| storage::is_narrow_float(s.ty));
        narrow
            && !self.in_memory(leaf)
            && match inst.opcode {
                Opcode::Convert | Opcode::Constant | Opcode::Reduce | Opcode::Dot => false,
                op if op.is_elementwise() => true,
                _ => inst.operands.first().is_some_and(|&o| self.has_excess(o)),
            }
    }

    fn elementwise(
        &self,
        stage: &mut Stage,
        inst: &Instruction,
        types: &[ElementType],
        result: ElementType,
        nodes: &[NodeId],
    ) -> Result<NodeId> {
        elementwise_node(&mut stage.body, inst, types, result, nodes, self.numerics)
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

    /// A store of `value` (in the compute lane) to output buffer number `output`.
    fn store(&self, body: &mut Body, output: u32, value: NodeId, index: Ix) -> Result<Store> {
        let leaf = self.outputs[output as usize];
        let ty = self.leaf_shape(leaf)?.ty;
        let mem = mem_of(self.inst(leaf.0), ty)?;
        let value = storage::encode(body, ty, value);
        Ok(Store { buffer: output, mem, index, value })
    }

    /// The combiner of a reduction: its body (arguments: accumulators, then values), roots, and identity.
    fn combiner(&self, inst: &Instruction) -> Result<Combiner> {
        let id = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| internal(inst, "no to_apply"))?;
        region(self.module, id, inst, self.numerics)
    }

    /// Numbers the buffers for good: inputs first, then outputs.
    fn finish(self, group: &Group, mut phases: Vec<Phase>) -> Result<Lowered> {
        let inputs = self.inputs.len() as u32;
        let renumber = |b: &mut u32| *b = if *b >= INPUT_BASE { *b - INPUT_BASE } else { *b + inputs };
        for phase in &mut phases {
            super::rewrite::for_each_buffer(phase, &renumber);
        }
        let mut buffers = Vec::new();
        for (_, shape) in &self.inputs {
            buffers.push(Buffer { ty: shape.ty, elements: shape.elements(), role: Role::Input });
        }
        for &leaf in &self.outputs {
            let shape = self.leaf_shape(leaf)?;
            buffers.push(Buffer { ty: shape.ty, elements: shape.elements(), role: Role::Output });
        }
        let main = self.inst(group.outputs.last().map_or(group.members[0], |o| o.0));
        let name = main.name.clone();
        let mut kernel = Kernel { name, buffers, phases, in_place: Vec::new(), line: main.location.line };
        super::simplify::merge_loops(&mut kernel);
        kernel.in_place = super::simplify::in_place_pairs(&kernel);
        if let GroupKind::DynamicUpdateSlice(_) | GroupKind::Scatter(_) = group.kind {
            super::simplify::leave_copies(&mut kernel);
        }
        let inputs = self.inputs.into_iter().map(|(leaf, _)| leaf).collect();
        Ok(Lowered { kernel, inputs, outputs: self.outputs })
    }
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
    /// Whether partial results may be combined with each other.
    splits: bool,
}

/// Whether a combiner compares or combines arguments `a` and `b` directly. Lanes reorder elements, which is harmless
/// only where a tie in one component is broken by the others; a combiner that never looks at a component leaves its ties
/// to the order.
fn meets(body: &Body, a: u32, b: u32) -> bool {
    let base = |mut id: NodeId| loop {
        let node = body.node(id);
        match (&node.op, node.args.as_slice()) {
            (Op::Arg(n), _) => return Some(*n),
            (_, [one]) => id = *one,
            _ => return None,
        }
    };
    body.nodes().iter().any(|node| {
        let symmetric = matches!(
            node.op,
            Op::FCmp(_)
                | Op::ICmp(_)
                | Op::FAdd
                | Op::FMul
                | Op::IAdd
                | Op::IMul
                | Op::FMinPseudo
                | Op::FMaxPseudo
                | Op::SMin
                | Op::SMax
                | Op::UMin
                | Op::UMax
                | Op::And
                | Op::Or
                | Op::Xor
        );
        let [x, y] = node.args.as_slice() else { return false };
        let (x, y) = (base(*x), base(*y));
        symmetric && ((x, y) == (Some(a), Some(b)) || (x, y) == (Some(b), Some(a)))
    })
}

/// Whether a root of a combiner of `n` components depends on an accumulator and on a value. One that does not is no
/// fold of its elements; its result follows from their order alone, which must then be kept.
fn sees_both_sides(body: &Body, root: NodeId, n: u32) -> bool {
    let (mut accumulator, mut value) = (false, false);
    let mut stack = vec![root];
    let mut seen = HashSet::new();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = body.node(id);
        if let Op::Arg(k) = node.op {
            accumulator |= k < n;
            value |= k >= n;
        }
        stack.extend(&node.args);
    }
    accumulator && value
}

fn mem_of(inst: &Instruction, ty: ElementType) -> Result<Mem> {
    storage::mem_of(ty).ok_or_else(|| unsupported(inst, format!("compiling element type {ty}")))
}

/// Masks are kept in row buffers as integers.
fn lane_in_row(lane: Lane) -> Lane {
    if lane.is_mask() { lane.integer() } else { lane }
}

fn from_row(body: &mut Body, raw: NodeId, lane: Lane) -> NodeId {
    if !lane.is_mask() {
        return raw;
    }
    let zero = body.int(lane.integer(), 0);
    body.icmp(super::body::IntCond::Ne, raw, zero)
}

fn elementwise_node(
    body: &mut Body,
    inst: &Instruction,
    types: &[ElementType],
    result: ElementType,
    nodes: &[NodeId],
    numerics: Numerics,
) -> Result<NodeId> {
    let cx = ElementwiseContext { variant: numerics.variant, strict_rounding: numerics.strict_rounding };
    elementwise::lower(body, &cx, inst.opcode, &inst.attrs, types, result, nodes).map_err(|e| unsupported(inst, e.0))
}

/// The element of a constant whose elements are all equal, in the compute lane of its type.
fn splat(body: &mut Body, array: &ArrayLiteral) -> NodeId {
    constant_node(body, array, 0)
}

/// One element of a constant, in the compute lane of its type; 0 where there is none.
pub(crate) fn constant_node(body: &mut Body, array: &ArrayLiteral, i: usize) -> NodeId {
    let ty = array.ty();
    let lane = storage::compute_lane(ty);
    let bits = match if i < array.elements() { array.get(i) } else { Scalar::Int(0) } {
        Scalar::Pred(b) => u64::from(b),
        Scalar::Int(v) if lane == Lane::I32 => u64::from(v as u32),
        Scalar::Int(v) => v as u64,
        Scalar::UInt(v) if lane == Lane::I32 => u64::from(v as u32),
        Scalar::UInt(v) => v,
        // The storage form keeps NaN payloads that a trip through f64 would not.
        Scalar::Float(_) if ty == ElementType::F32 => u64::from(array.as_slice::<u32>()[i]),
        Scalar::Float(_) if ty == ElementType::F64 => array.as_slice::<u64>()[i],
        Scalar::Float(v) => u64::from((v as f32).to_bits()),
        Scalar::Complex(_) => 0,
    };
    body.bits(lane, bits)
}

/// Turns a computation on scalars into nodes: arguments are its parameters.
pub(crate) fn region(module: &Module, id: ComputationId, at: &Instruction, numerics: Numerics) -> Result<Combiner> {
    let c = &module.computations[id];
    let mut body = Body::new();
    let mut nodes: HashMap<InstructionId, NodeId> = HashMap::new();
    for &i in &c.order {
        let inst = &c.instructions[i];
        let Some(shape) = inst.shape.as_array() else {
            if inst.opcode == Opcode::Tuple {
                continue;
            }
            return Err(unsupported(at, format!("'{}' in '{}'", inst.opcode, c.name)));
        };
        if shape.elements() != 1 || shape.ty.is_complex() {
            return Err(unsupported(at, format!("'{}' of shape {shape} in '{}'", inst.opcode, c.name)));
        }
        let of = |o: InstructionId| -> Result<(NodeId, ElementType)> {
            let (o, _) = resolve(c, (o, 0));
            let ty = c.instructions[o].shape.as_array().map_or(shape.ty, |s| s.ty);
            nodes.get(&o).map(|&n| (n, ty)).ok_or_else(|| unsupported(at, format!("the form of '{}'", c.name)))
        };
        let node = match inst.opcode {
            Opcode::Parameter => body.arg(inst.parameter_number().unwrap_or(0) as u32, storage::compute_lane(shape.ty)),
            Opcode::Constant => {
                let literal = inst.literal().and_then(|l| l.as_array()).ok_or_else(|| internal(inst, "no literal"))?;
                splat(&mut body, literal)
            }
            Opcode::Copy | Opcode::Reshape | Opcode::Broadcast | Opcode::Transpose => of(inst.operands[0])?.0,
            op if op.is_elementwise() => {
                let operands: Vec<_> = inst.operands.iter().map(|&o| of(o)).collect::<Result<_>>()?;
                let types: Vec<_> = operands.iter().map(|o| o.1).collect();
                let operands: Vec<_> = operands.iter().map(|o| o.0).collect();
                elementwise_node(&mut body, inst, &types, shape.ty, &operands, numerics)?
            }
            op => return Err(unsupported(at, format!("'{op}' in '{}'", c.name))),
        };
        nodes.insert(i, node);
    }
    let root = &c.instructions[c.root];
    let mut roots = Vec::new();
    for leaf in 0..root.shape.leaf_count() {
        let (source, _) = resolve(c, (c.root, leaf));
        roots.push(*nodes.get(&source).ok_or_else(|| unsupported(at, format!("the form of '{}'", c.name)))?);
    }
    let identity = identity(c);
    let n = roots.len() as u32;
    let fold = roots.iter().all(|&r| sees_both_sides(&body, r, n));
    let splits = fold && (identity.is_some() || (0..n).all(|k| meets(&body, k, n + k)));
    Ok(Combiner { body, roots, identity, splits })
}

/// The value that changes nothing when combined, for reducers of one operation.
fn identity(c: &Computation) -> Option<Vec<u64>> {
    let root = &c.instructions[c.root];
    let ty = root.shape.as_array()?.ty;
    let plain = root.operands.len() == 2
        && root.operands[0] != root.operands[1]
        && root.operands.iter().all(|&o| c.instructions[o].opcode == Opcode::Parameter);
    if !plain {
        return None;
    }
    let lane = storage::compute_lane(ty);
    let float = |v: f64| if lane == Lane::F64 { v.to_bits() } else { u64::from((v as f32).to_bits()) };
    let mask = if lane.bits() == 32 { u64::from(u32::MAX) } else { u64::MAX };
    let width = ty.bits().min(64);
    Some(vec![match root.opcode {
        // -0 and not 0: -0 + -0 is -0.
        Opcode::Add if ty.is_float() => float(-0.0),
        Opcode::Add if ty.is_integer() => 0,
        Opcode::Multiply if ty.is_float() => float(1.0),
        Opcode::Multiply if ty.is_integer() => 1,
        Opcode::Maximum if ty.is_float() => float(f64::NEG_INFINITY),
        Opcode::Minimum if ty.is_float() => float(f64::INFINITY),
        Opcode::Maximum if ty.is_signed_integer() => (i64::MIN >> (64 - width)) as u64 & mask,
        Opcode::Minimum if ty.is_signed_integer() => (i64::MAX >> (64 - width)) as u64 & mask,
        Opcode::Maximum if ty.is_unsigned_integer() => 0,
        Opcode::Minimum if ty.is_unsigned_integer() => u64::MAX >> (64 - width),
        Opcode::And | Opcode::Minimum | Opcode::Multiply if ty == ElementType::Pred => 1,
        Opcode::Or | Opcode::Maximum | Opcode::Xor | Opcode::Add if ty == ElementType::Pred => 0,
        Opcode::And if ty.is_signed_integer() => mask,
        Opcode::And if ty.is_unsigned_integer() => u64::MAX >> (64 - width),
        Opcode::Or | Opcode::Xor if ty.is_integer() => 0,
        _ => return None,
    }])
}
