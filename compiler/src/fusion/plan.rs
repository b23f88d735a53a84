//! The plan of one computation.

use crate::collective::{ends, keeps_operands, starts};
use crate::error::{Error, Result, Site};
use crate::hlo::{AttrKey, Category};
use crate::hlo::{Computation, Instruction, InstructionId, Leaf, Module, Opcode, resolve};
use brolga_runtime::{ArrayLiteral, Shape};
use cranelift_entity::SecondaryMap;
use hashbrown::HashSet;

/// What kind of kernel a group becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Loops over the elements of `dims`; the first `split` dimensions are the outer ones, the rest is the row. Members
    /// are full or row values.
    Rows {
        /// Dimensions of the full domain.
        dims: Vec<i64>,
        /// How many are outer.
        split: usize,
    },
    /// Loops over the elements of `dims`: the first `split` dimensions are the outer ones, those before `end` are folded by the
    /// reductions, and the rest are columns side by side. Members are full values or values of columns.
    Columns {
        /// Dimensions of the full domain.
        dims: Vec<i64>,
        /// How many are outer.
        split: usize,
        /// How many are outer or folded.
        end: usize,
    },
    /// One reduction over any dimensions, then elementwise operations on its result.
    Reduce(InstructionId),
    /// One contraction, then elementwise operations on its result.
    Dot(InstructionId),
    /// Each operand is written to its part of the result.
    Concatenate(InstructionId),
    /// The operand and the padding are written to their parts of the result.
    Pad(InstructionId),
    /// The update is written over a copy of the operand, or over the operand itself.
    DynamicUpdateSlice(InstructionId),
    /// Updates, one after another, over copies of the operands or over the operands themselves.
    Scatter(InstructionId),
    /// A reduction of sliding windows, then elementwise operations on its result.
    ReduceWindow(InstructionId),
    /// A convolution, then elementwise operations on its result.
    Convolution(InstructionId),
    /// Running values along one dimension, computed element by element.
    Scan(InstructionId),
    /// A call of a service or of a function outside the program; operands and results are whole arrays.
    Call(InstructionId),
    /// Rows of the operands, sorted together.
    Sort(InstructionId),
    /// The first elements of sorted rows, and where they were.
    TopK(InstructionId),
}

/// Instructions that become one kernel.
#[derive(Clone, Debug)]
pub struct Group {
    /// What kind.
    pub kind: GroupKind,
    /// The members, operands first.
    pub members: Vec<InstructionId>,
    /// The values that are stored: an instruction and the leaf of its result.
    pub outputs: Vec<(InstructionId, usize)>,
}

impl Group {
    /// The elements of the full domain of a group of rows.
    pub(super) fn elements(&self) -> Option<i64> {
        let GroupKind::Rows { dims, .. } = &self.kind else { return None };
        Some(dims.iter().product())
    }
}

/// One step of a computation.
#[derive(Clone, Debug)]
pub enum Step {
    /// A kernel.
    Group(Group),
    /// A `while` or `conditional`.
    Control(InstructionId),
}

/// The plan of one computation.
#[derive(Clone, Debug)]
pub struct ComputationPlan {
    /// What runs, in order.
    pub steps: Vec<Step>,
    /// Instructions and edges that were looked at to find out: it should grow as the computation does.
    pub work: u64,
}

/// How an instruction takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// No code of its own: its leaves are others' leaves, caller's memory or constant data.
    Structural,
    /// A step that owns computations.
    Control,
    /// Starts a group of its own.
    Anchor,
    /// A reduction.
    Reduce,
    /// Can be computed element by element inside its users.
    Inline,
}

pub(super) fn unsupported(inst: &Instruction, feature: impl Into<String>) -> Error {
    let site = Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 };
    Error::Unsupported { site, feature: feature.into() }
}

pub(super) fn classify(inst: &Instruction) -> Result<Class> {
    use Opcode::*;
    Ok(match inst.opcode {
        Parameter | Constant | Tuple | GetTupleElement | OptimizationBarrier | AddDependency | AfterAll | Domain => {
            Class::Structural
        }
        While | Conditional => Class::Control,
        Reduce => Class::Reduce,
        Dot | Concatenate | Pad | DynamicUpdateSlice | Scatter | ReduceWindow | Convolution | Scan => Class::Anchor,
        Sort | TopK => Class::Anchor,
        Broadcast | Copy | Iota | Reshape | Reverse | Slice | Transpose => Class::Inline,
        BitcastConvert | DynamicSlice | Gather => Class::Inline,
        SendDone => Class::Structural,
        op if is_call(op) => Class::Anchor,
        op if op.category() == Category::Elementwise => Class::Inline,
        op => return Err(unsupported(inst, format!("compiling '{op}'"))),
    })
}

/// Whether elements of a result are elements of an operand at other places.
pub(super) fn moves(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::Broadcast
            | Opcode::Concatenate
            | Opcode::DynamicSlice
            | Opcode::Gather
            | Opcode::Reverse
            | Opcode::Slice
            | Opcode::Transpose
    )
}

/// Whether an operation is a call in compiled code, not a loop nest.
pub(super) fn is_call(op: Opcode) -> bool {
    use Opcode::*;
    let calls = matches!(op, Fft | Cholesky | TriangularSolve | CustomCall | RngGetAndUpdateState | Infeed | Outfeed);
    calls || starts(op) || ends(op) || matches!(op, Send | Recv | RecvDone) || op.category() == Category::Collective
}

/// The leaves that a call writes, in order, tokens included: of the state of an exchange or a transfer, what its end takes.
pub(crate) fn written(c: &Computation, id: InstructionId) -> Vec<Leaf> {
    let inst = &c.instructions[id];
    let all = 0..inst.shape.leaf_count();
    let leaves = match (inst.opcode, inst.shape.as_tuple()) {
        // The context stands between the value and the token.
        (Opcode::Send | Opcode::Recv, Some([value, ..])) => value.leaf_count()..value.leaf_count() + 1,
        (_, Some([operands, results, ..])) if keeps_operands(inst) => {
            operands.leaf_count()..operands.leaf_count() + results.leaf_count()
        }
        _ => all,
    };
    leaves.map(|leaf| resolve(c, (id, leaf))).collect()
}

/// Whether an instruction, or one in a computation that it calls, does something besides computing its results.
fn has_effect(module: &Module, inst: &Instruction) -> bool {
    let mut seen = HashSet::new();
    let mut rest = vec![inst];
    while let Some(inst) = rest.pop() {
        if inst.has_side_effect() {
            return true;
        }
        for called in inst.attrs.called().into_iter().filter(|&c| seen.insert(c)) {
            let computation = &module.computations[called];
            rest.extend(computation.order.iter().map(|&i| &computation.instructions[i]));
        }
    }
    false
}

/// Whether all elements of a constant are equal, so that it is an immediate and not data.
pub(crate) fn is_splat(literal: &ArrayLiteral) -> bool {
    let bytes = literal.bytes();
    let width = literal.ty().byte_size();
    bytes.len() <= width || bytes.chunks(width).all(|c| c == &bytes[..width])
}

/// How much an operation costs for each element, in simple instructions.
pub(crate) fn own_cost(inst: &Instruction) -> u32 {
    // Most complex functions are several real ones in double precision.
    let complex = inst.opcode != Opcode::Convert && inst.shape.as_array().is_some_and(|s| s.ty.is_complex());
    let cost = inst.opcode.cost();
    if complex && cost > 1 { 4 * cost } else { cost }
}

/// Whether elements along a dimension of an operand lie side by side, in rows too long to be written out and computed across.
fn is_long_row(computation: &Computation, inst: &Instruction, axis: usize) -> bool {
    let operand = inst.operands.first().and_then(|&o| computation.instructions[o].shape.as_array());
    operand.is_some_and(|a| {
        let Some(([.., n], behind)) = a.dims.split_at_checked(axis + 1) else { return false };
        n.saturating_mul(a.ty.byte_size() as i64) > WRITTEN_OUT && behind.iter().all(|&d| d == 1)
    })
}

/// Rows of more bytes are not written out, however many operations fold them.
pub(crate) const WRITTEN_OUT: i64 = 192;

/// Inlining past this many instructions stops: it bounds the size of a body and the depth of its construction.
pub(super) const INLINE_LIMIT: u32 = 400;

pub(super) struct Analysis<'a> {
    pub computation: &'a Computation,
    pub users: SecondaryMap<InstructionId, Vec<InstructionId>>,
    pub class: SecondaryMap<InstructionId, Option<Class>>,
    /// Must have a buffer: control flow, tuples or the caller take it.
    pub escapes: SecondaryMap<InstructionId, bool>,
    /// Must have a buffer because a contraction reads it or an update changes it.
    pub materialized: SecondaryMap<InstructionId, bool>,
    /// Carries a value from one element of a long row to the next: nothing that is computed with it fills registers.
    pub serial: SecondaryMap<InstructionId, bool>,
    /// Does something besides computing its results: it runs exactly once, in the order of the text.
    pub effects: SecondaryMap<InstructionId, bool>,
    /// How many exchanges have ended before it. What stands between the start and the end of one is computed there: it joins
    /// nothing that stands behind the end, or it would wait for the other devices.
    pub epoch: SecondaryMap<InstructionId, u32>,
}

impl<'a> Analysis<'a> {
    pub(super) fn new(module: &Module, computation: &'a Computation) -> Result<Self> {
        let mut a = Analysis {
            computation,
            users: computation.users(),
            class: SecondaryMap::new(),
            escapes: SecondaryMap::new(),
            materialized: SecondaryMap::new(),
            serial: SecondaryMap::new(),
            effects: SecondaryMap::new(),
            epoch: SecondaryMap::new(),
        };
        let mut epoch = 0;
        for &id in &computation.order {
            let inst = &computation.instructions[id];
            epoch += u32::from(ends(inst.opcode));
            a.epoch[id] = epoch;
            a.class[id] = Some(classify(inst)?);
            a.effects[id] = has_effect(module, inst);
            for leaf in inst.shape.leaves() {
                match leaf {
                    Shape::Array(s) if s.is_dynamic() => {
                        return Err(unsupported(inst, "compiling bounded dynamic dimensions"));
                    }
                    Shape::Opaque | Shape::Buffer(_) => return Err(unsupported(inst, "compiling opaque values")),
                    _ => {}
                }
            }
            let takes_whole =
                matches!(inst.opcode, Opcode::Tuple | Opcode::OptimizationBarrier | Opcode::AddDependency)
                    || a.class[id] == Some(Class::Control);
            if takes_whole {
                inst.operands.iter().for_each(|&o| a.escapes[o] = true);
            }
            if inst.opcode == Opcode::DynamicUpdateSlice {
                // What is updated must be in memory to be updated in place, and the update may not read it on the way.
                inst.operands[..2.min(inst.operands.len())].iter().for_each(|&o| a.materialized[o] = true);
            }
            if inst.opcode == Opcode::Scatter {
                let operands = inst.operands.len().saturating_sub(1) / 2;
                inst.operands[..operands].iter().for_each(|&o| a.materialized[o] = true);
            }
            let running = match inst.opcode {
                Opcode::ReduceWindow => cumulative_window(module, computation, id).map(|w| w.axis),
                Opcode::Scan => inst.attrs.dimension_numbers(AttrKey::Dimensions).first().copied(),
                _ => None,
            };
            a.serial[id] = running.is_some_and(|axis| is_long_row(computation, inst, axis));
            if matches!(inst.opcode, Opcode::ReduceWindow | Opcode::Convolution) && running.is_none() {
                // Each element is read by many windows.
                inst.operands.iter().for_each(|&o| a.materialize(o));
            }
            if is_call(inst.opcode) {
                inst.operands.iter().for_each(|&o| a.materialized[o] = true);
            }
            if inst.opcode == Opcode::Dot {
                let again = |which: &usize| !read_once(computation, inst, *which);
                (0..inst.operands.len()).filter(again).for_each(|which| a.materialize(inst.operands[which]));
            }
        }
        a.escapes[computation.root] = true;
        let alone = |&id: &InstructionId| is_index_vector(computation, &a.users[id], id);
        for id in computation.order.iter().copied().filter(alone).collect::<Vec<_>>() {
            a.class[id] = Some(Class::Inline);
        }
        Ok(a)
    }

    fn materialize(&mut self, mut id: InstructionId) {
        loop {
            let inst = &self.computation.instructions[id];
            match inst.opcode {
                Opcode::Reshape | Opcode::Transpose | Opcode::Slice | Opcode::Copy | Opcode::Broadcast => {
                    id = inst.operands[0];
                }
                _ => {
                    self.materialized[id] = true;
                    return;
                }
            }
        }
    }
}

/// Whether a concatenation is the indices of one gather, and each part of it those along one dimension: every element is then read where
/// it is known of which part it is, so that none of them needs memory.
fn is_index_vector(computation: &Computation, users: &[InstructionId], id: InstructionId) -> bool {
    let inst = &computation.instructions[id];
    let (Opcode::Concatenate, &[user]) = (inst.opcode, users) else { return false };
    let gather = &computation.instructions[user];
    let along = inst.attrs.ints_or_empty(AttrKey::Dimensions).first().copied();
    let one = |&part: &InstructionId| {
        let shape = computation.instructions[part].shape.as_array();
        along.and_then(|d| shape?.dims.get(usize::try_from(d).ok()?)) == Some(&1)
    };
    gather.opcode == Opcode::Gather
        && gather.operands.iter().position(|&o| o == id) == Some(1)
        && gather.attrs.int(AttrKey::IndexVectorDim) == along
        && inst.operands.iter().all(one)
}

/// Whether a dot reads each element of that operand once, for the other has neither rows nor columns: it may be computed on the way.
/// Narrow floats are rounded before they are multiplied, as they are where they are stored.
fn read_once(computation: &Computation, dot: &Instruction, which: usize) -> bool {
    let array = |n: usize| dot.operands.get(n).and_then(|&o| computation.instructions[o].shape.as_array());
    let (batch, contracting) = match which {
        0 => (AttrKey::RhsBatchDims, AttrKey::RhsContractingDims),
        _ => (AttrKey::LhsBatchDims, AttrKey::LhsContractingDims),
    };
    let (Some(read), Some(other), 2) = (array(which), array(1 - which.min(1)), dot.operands.len()) else {
        return false;
    };
    let (batch, contracting) = (dot.attrs.dimension_numbers(batch), dot.attrs.dimension_numbers(contracting));
    let free = (0..other.rank()).filter(|d| !batch.contains(d) && !contracting.contains(d));
    !read.ty.is_narrow_float() && free.map(|d| other.dims[d]).product::<i64>() == 1
}

/// The dimensions that a reduce folds.
pub(crate) fn reduced_dims(inst: &Instruction) -> Vec<usize> {
    let mut dims = inst.attrs.dimension_numbers(AttrKey::Dimensions);
    dims.sort_unstable();
    dims
}

/// A window that reaches from every element to one end of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CumulativeWindow {
    /// The dimension.
    pub axis: usize,
    /// To the last element rather than to the first.
    pub reverse: bool,
}

/// Running folds of narrow floats from the last element on that are no longer than this are taken window by window, each
/// from its first element.
const SHORT_SUM: i64 = 1024;

/// Whether a `reduce-window` is a running fold along one dimension. From the first element on, each window is the one
/// before and an element more; from the last one on, elements come in the other order, which only folds of one known
/// operation allow, and of floats that round at each step only long ones.
pub(crate) fn cumulative_window(
    module: &Module,
    computation: &Computation,
    id: InstructionId,
) -> Option<CumulativeWindow> {
    let inst = &computation.instructions[id];
    let dims = &computation.instructions[*inst.operands.first()?].shape.as_array()?.dims;
    let window = inst.attrs.window(AttrKey::Window)?;
    (window.len() == dims.len() && !dims.contains(&0)).then_some(())?;
    let mut found = None;
    for (axis, (w, &size)) in window.iter().zip(dims).enumerate() {
        if w.stride != 1 || w.base_dilation != 1 || w.size > 1 && w.window_dilation != 1 {
            return None;
        }
        let reach = w.size.checked_sub(1)?;
        match (w.padding_low, w.padding_high) {
            (0, 0) if reach == 0 => {}
            (low, high) if w.size >= size && found.is_none() && (low, high) == (reach, 0) => {
                found = Some(CumulativeWindow { axis, reverse: false });
            }
            (low, high) if w.size >= size && found.is_none() && (low, high) == (0, reach) => {
                found = Some(CumulativeWindow { axis, reverse: true });
            }
            _ => return None,
        }
    }
    let any_order = || {
        let reducer = &module.computations[inst.attrs.computation(AttrKey::ToApply)?];
        let root = &reducer.instructions[reducer.root];
        let [a, b] = root.operands[..] else { return None };
        let plain = a != b && [a, b].iter().all(|&o| reducer.instructions[o].opcode == Opcode::Parameter);
        let narrow = root.shape.as_array().is_some_and(|a| a.ty.is_narrow_float());
        let rounds = narrow && matches!(root.opcode, Opcode::Add | Opcode::Multiply);
        let axis = found.map_or(0, |f| f.axis);
        let short = dims.get(axis).is_some_and(|&d| d <= SHORT_SUM);
        (plain && root.opcode.is_commutative() && root.opcode.is_elementwise() && !(rounds && short)).then_some(())
    };
    found.filter(|f| !f.reverse || any_order().is_some())
}
