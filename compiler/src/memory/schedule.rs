//! The schedule: what runs, in order, on which values.
//!
//! A value is a leaf array (tuples are gone); it is defined once, by a parameter, a constant or a step. Blocks hold
//! steps in order; control flow steps own blocks.

use crate::error::{Error, Result};
use crate::hlo::{ComputationId, InstructionId};
use crate::kernel::ir::{Kernel, Role};
use brolga_runtime::{ArrayLiteral, ArrayShape};
use cranelift_entity::{PrimaryMap, entity_impl};
use std::sync::Arc;

/// Names a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);
entity_impl!(ValueId, "value");

/// Names a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(u32);
entity_impl!(BlockId, "block");

/// Names a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(u32);
entity_impl!(KernelId, "kernel");

/// Names a constant array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstantId(u32);
entity_impl!(ConstantId, "constant");

/// Who defines a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Leaf of the entry's parameters: caller's memory, read-only unless donated.
    Parameter(u32),
    /// A constant array: read-only.
    Constant(ConstantId),
    /// A step of a block.
    Step,
    /// A block's own parameter: a leaf of a loop's state, at the start of its condition or body.
    BlockParameter,
}

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Shape, without layout.
    pub shape: ArrayShape,
    /// Who defines it.
    pub definition: Definition,
    /// Where it comes from, for messages.
    pub source: (ComputationId, InstructionId),
    /// Which leaf of that instruction's result it is; `None` of scratch memory, and of what stands for every token.
    pub leaf: Option<usize>,
}

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Runs a kernel; `buffers` are its inputs, then its outputs (kernel scratch buffers follow, as values used
    /// nowhere else).
    Kernel {
        /// Which.
        kernel: KernelId,
        /// Value of each buffer.
        buffers: Vec<ValueId>,
    },
    /// `state = init; while (condition(state)) state = body(state)`.
    While {
        /// Initial state.
        init: Vec<ValueId>,
        /// The condition.
        condition: BlockId,
        /// State at the start of the condition.
        condition_parameters: Vec<ValueId>,
        /// The condition's `pred[]`.
        condition_result: ValueId,
        /// The body.
        body: BlockId,
        /// State at the start of the body.
        body_parameters: Vec<ValueId>,
        /// State at the end of the body; entries may repeat, or be body parameters, parameters or constants.
        body_results: Vec<ValueId>,
        /// State after the loop.
        results: Vec<ValueId>,
    },
    /// Runs one branch. The branches see outer values directly.
    Conditional {
        /// `pred[]` (true takes branch 0, false branch 1) or `s32[]` (out of range takes the last).
        index: ValueId,
        /// True where the index is a `pred`.
        is_pred: bool,
        /// Block of each branch and its results, which may be values from outside the branch.
        branches: Vec<(BlockId, Vec<ValueId>)>,
        /// What the conditional yields.
        results: Vec<ValueId>,
    },
}

/// Steps in order.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The steps.
    pub steps: Vec<Step>,
}

/// Where a parameter or result of the schedule lies in the caller's buffers: a leaf with dynamic dimensions is two, the
/// elements and behind them the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafPlace {
    /// Which of the caller's buffers.
    pub leaf: u32,
    /// Bytes from its start.
    pub offset: u64,
}

impl LeafPlace {
    /// Where a parameter or a result lies, by its number.
    ///
    /// # Errors
    /// [`Error::Internal`] where it has no place.
    pub fn of(places: &[LeafPlace], n: u32) -> Result<LeafPlace> {
        let found = places.get(n as usize).copied();
        found.ok_or_else(|| Error::Internal(format!("leaf {n} of {} has no place", places.len())))
    }
}

/// A whole program, ready for buffer assignment.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Values.
    pub values: PrimaryMap<ValueId, Value>,
    /// Blocks.
    pub blocks: PrimaryMap<BlockId, Block>,
    /// Kernels.
    pub kernels: PrimaryMap<KernelId, Kernel>,
    /// Constant arrays.
    pub constants: PrimaryMap<ConstantId, Arc<ArrayLiteral>>,
    /// Parameter leaves, in order.
    pub parameters: Vec<ValueId>,
    /// The value of each result leaf; entries may repeat, or be parameters or constants.
    pub results: Vec<ValueId>,
    /// Where each parameter lies.
    pub parameter_places: Vec<LeafPlace>,
    /// Where each result lies.
    pub result_places: Vec<LeafPlace>,
    /// Pairs (parameter leaf, result leaf) that the caller lets share memory, and whether they must.
    pub donated: Vec<(u32, u32, bool)>,
    /// The entry's steps; `None` only while the schedule is built.
    pub entry: Option<BlockId>,
}

impl Schedule {
    /// The program of one kernel: its inputs are the parameters, its outputs the results.
    pub fn of_kernel(kernel: &Kernel) -> Schedule {
        let mut schedule = Schedule::default();
        let source = (ComputationId::from_u32(0), InstructionId::from_u32(0));
        let mut buffers = Vec::with_capacity(kernel.buffers.len());
        for b in &kernel.buffers {
            let definition = match b.role {
                Role::Input => Definition::Parameter(schedule.parameters.len() as u32),
                Role::Output | Role::Update { .. } | Role::Scratch => Definition::Step,
            };
            let shape = ArrayShape::new(b.ty, [b.elements as i64]);
            let v = schedule.values.push(Value { shape, definition, source, leaf: None });
            buffers.push(v);
            match b.role {
                Role::Input => schedule.parameters.push(v),
                Role::Output | Role::Update { .. } => schedule.results.push(v),
                Role::Scratch => {}
            }
        }
        let places = |n: usize| (0..n as u32).map(|leaf| LeafPlace { leaf, offset: 0 }).collect();
        schedule.parameter_places = places(schedule.parameters.len());
        schedule.result_places = places(schedule.results.len());
        let kernel = schedule.kernels.push(kernel.clone());
        let steps = vec![Step::Kernel { kernel, buffers }];
        schedule.entry = Some(schedule.blocks.push(Block { steps }));
        schedule
    }
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// The caller's parameter buffer of that leaf.
    Parameter(u32),
    /// The caller's result buffer of that leaf.
    Result(u32),
    /// The workspace, at a byte offset, 64-aligned.
    Workspace(u64),
    /// Constant data.
    Constant(ConstantId),
}

/// Copies one value's bytes from one location to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// From here.
    pub from: Location,
    /// To there; the two are the same or do not overlap.
    pub to: Location,
    /// Bytes.
    pub bytes: u64,
}

/// Copies that surround the steps of a block; the copies of one list happen at once (reads before writes: the list is
/// ordered and uses temporaries so that running it in sequence gives that).
#[derive(Clone, Debug, Default)]
pub struct BlockCopies {
    /// For each step, the copies to make before it (a loop's initial state).
    pub before: Vec<Vec<Copy>>,
    /// At the end of the block (a loop's next state, a branch's results, the entry's results).
    pub at_end: Vec<Copy>,
}

impl BlockCopies {
    /// All copies of the block, in order.
    pub fn all(&self) -> impl Iterator<Item = &Copy> {
        self.before.iter().flatten().chain(&self.at_end)
    }
}

/// The buffer assignment.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Where each value lies.
    pub locations: cranelift_entity::SecondaryMap<ValueId, Option<Location>>,
    /// The copies of each block.
    pub copies: cranelift_entity::SecondaryMap<BlockId, BlockCopies>,
    /// Bytes of workspace.
    pub workspace: u64,
}
