//! The graph IR: modules of computations of instructions.
//!
//! Problem: every reader (text, later protobuf and StableHLO), the builder, the passes and code generation need one
//! form of a tensor program. Invariant: a module that [`Module::verify`](crate::shape::verify) accepts has, in every
//! computation, operands before their users in [`Computation::order`], one root, parameters numbered from 0 without
//! gaps, and shapes that the rules of [`crate::shape`] confirm. Ids are dense and never reused; a removed
//! instruction merely leaves `order`.

mod attr;
mod comparison;
mod frozen;
mod lapack;
mod leaf;
mod opcode;
mod permutation;
mod quote;
mod tensor;
mod top_k;

pub use attr::{AttrKey, AttrKind, AttrValue, Attrs, ConvolutionDims, PaddingDimension, SliceRange, WindowDimension};
pub use comparison::ComparisonDirection;
pub use frozen::{is_frozen, set_frozen};
pub use lapack::lapack;
pub use leaf::{Leaf, resolve};
pub use opcode::{Arity, Category, Opcode};
pub use permutation::inverse;
pub(crate) use quote::quote;
pub use tensor::{set_tensor_flags, tensor_flags};
pub use top_k::top_k_call;

pub use crate::error::SourceLocation;

/// What neither engine can run: a `constant({...})`.
pub(crate) const ELIDED_CONSTANT: &str = "a constant whose value the text leaves out";

/// [`ELIDED_CONSTANT`], and what to do about it.
pub(crate) fn elided_constant() -> String {
    let remedy = "compiler_ir(dialect=\"hlo\").as_hlo_text(print_large_constants=True)";
    format!("{ELIDED_CONSTANT}; print the program with its constants, in JAX with {remedy}")
}

use brolga_runtime::{Literal, Shape};
use cranelift_entity::{PrimaryMap, entity_impl};
use hashbrown::HashSet;
use std::sync::Arc;

/// Gives the dimension of a sort its number: -1 stands for the last one, as XLA takes it.
pub(crate) fn number_sorted_dimension(opcode: Opcode, first: Option<&Shape>, attrs: &mut Attrs) {
    let last = attrs.ints(AttrKey::Dimensions) == Some(&[-1][..]);
    if let (Opcode::Sort, Some(Shape::Array(array)), true) = (opcode, first, last) {
        let dimension = array.rank().saturating_sub(1) as i64;
        attrs.set(AttrKey::Dimensions, AttrValue::Ints(vec![dimension]));
    }
}

/// What a name from elsewhere, such as `params['w']`, is called in HLO: `params__w__`.
pub fn legal_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
    let mut out: String = name.chars().map(legal).collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    out
}

/// Names a computation of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ComputationId(u32);
entity_impl!(ComputationId, "computation");

/// Names an instruction of a computation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(u32);
entity_impl!(InstructionId, "instruction");

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Its name, unique in the computation, without `%`.
    pub name: String,
    /// What it yields.
    pub shape: Shape,
    /// The operation.
    pub opcode: Opcode,
    /// The operands.
    pub operands: Vec<InstructionId>,
    /// Everything else, called computations and metadata included.
    pub attrs: Attrs,
    /// Where it stands in the source.
    pub location: SourceLocation,
}

impl Instruction {
    /// The value of a constant.
    pub fn literal(&self) -> Option<&Arc<Literal>> {
        self.attrs.literal(AttrKey::Literal)
    }

    /// The number of a parameter.
    pub fn parameter_number(&self) -> Option<usize> {
        self.attrs.int(AttrKey::ParameterNumber).and_then(|n| usize::try_from(n).ok())
    }

    /// The number of the element that a `get-tuple-element` takes.
    pub fn element_number(&self) -> Option<usize> {
        let taken = self.attrs.int(AttrKey::Index).filter(|_| self.opcode == Opcode::GetTupleElement);
        taken.and_then(|n| usize::try_from(n).ok())
    }

    /// The shape of the value that an infeed reads, with the layouts in which it arrives.
    pub fn infeed_shape(&self) -> Option<&Shape> {
        self.attrs.shape(AttrKey::InfeedShape).or_else(|| self.shape.as_tuple()?.first())
    }

    /// True where the instruction must stay although nobody uses its result.
    pub fn has_side_effect(&self) -> bool {
        match self.opcode {
            Opcode::CustomCall => self.attrs.bool(AttrKey::CustomCallHasSideEffect).unwrap_or(false),
            op => op.has_side_effect(),
        }
    }
}

/// One computation: a function.
#[derive(Clone, Debug)]
pub struct Computation {
    /// Its name, unique in the module, without `%`.
    pub name: String,
    /// Storage of instructions, those that were removed included.
    pub instructions: PrimaryMap<InstructionId, Instruction>,
    /// The live instructions, operands before users.
    pub order: Vec<InstructionId>,
    /// The result.
    pub root: InstructionId,
    /// `execution_thread="..."` and whatever else the text says after the closing brace.
    pub trailing: String,
    /// Where it stands in the source.
    pub location: SourceLocation,
}

impl Computation {
    /// The parameters, by number.
    pub fn parameters(&self) -> Vec<InstructionId> {
        let mut out: Vec<_> =
            self.order.iter().copied().filter(|&i| self.instructions[i].opcode == Opcode::Parameter).collect();
        out.sort_by_key(|&i| self.instructions[i].parameter_number());
        out
    }

    /// The shape of the result.
    pub fn result_shape(&self) -> &Shape {
        &self.instructions[self.root].shape
    }

    /// Whether each of these operations is that of some instruction.
    pub fn holds(&self, opcodes: &[Opcode]) -> bool {
        opcodes.iter().all(|&opcode| self.order.iter().any(|&id| self.instructions[id].opcode == opcode))
    }

    /// Who uses each instruction, once for each operand position.
    pub fn users(&self) -> cranelift_entity::SecondaryMap<InstructionId, Vec<InstructionId>> {
        let mut users = cranelift_entity::SecondaryMap::new();
        for &id in &self.order {
            for &operand in &self.instructions[id].operands {
                let list: &mut Vec<_> = &mut users[operand];
                list.push(id);
            }
        }
        users
    }

    /// A name not used yet, `base` itself or `base.N`.
    pub fn fresh_name(&self, base: &str) -> String {
        let used: HashSet<&str> = self.order.iter().map(|&i| self.instructions[i].name.as_str()).collect();
        if !used.contains(base) {
            return base.to_owned();
        }
        (1..).map(|n| format!("{base}.{n}")).find(|n| !used.contains(n.as_str())).unwrap_or_default()
    }

    /// True where two live instructions share no id but their order is a post-order: used by debug assertions.
    pub fn is_post_order(&self) -> bool {
        let mut seen = HashSet::new();
        self.order.iter().all(|&id| {
            let ready = self.instructions[id].operands.iter().all(|o| seen.contains(o));
            ready && seen.insert(id)
        })
    }
}

/// How a parameter and a result share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AliasKind {
    /// The result may take the parameter's memory.
    May,
    /// It must.
    Must,
}

/// One entry of `input_output_alias`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    /// Path to the leaf of the result.
    pub output_index: Vec<usize>,
    /// Parameter number.
    pub parameter: usize,
    /// Path to the leaf of the parameter.
    pub parameter_index: Vec<usize>,
    /// May or must.
    pub kind: AliasKind,
}

/// What the `HloModule` line says besides the name.
#[derive(Clone, Debug, Default)]
pub struct ModuleConfig {
    /// `entry_computation_layout`: shapes with layouts of the parameters and the result.
    pub entry_layout: Option<(Vec<Shape>, Shape)>,
    /// The logical shapes, with layouts, of the parameters and the result that callers see. Set by
    /// [`crate::passes::layout`], after which the entry's own parameters and result have the physical order of
    /// dimensions and no layout.
    pub abi: Option<(Vec<Shape>, Shape)>,
    /// `input_output_alias`.
    pub aliases: Vec<Alias>,
    /// `is_scheduled=true`.
    pub is_scheduled: bool,
    /// `replica_count`, 1 where absent.
    pub replica_count: Option<i64>,
    /// `num_partitions`, 1 where absent.
    pub num_partitions: Option<i64>,
    /// Other `name=value` pairs, kept as read, in source order.
    pub other: Vec<(String, String)>,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Storage of computations, those that were removed included.
    pub computations: PrimaryMap<ComputationId, Computation>,
    /// The live computations, callees before callers.
    pub order: Vec<ComputationId>,
    /// Where execution starts.
    pub entry: ComputationId,
    /// Module attributes.
    pub config: ModuleConfig,
}

impl Module {
    /// The entry computation.
    pub fn entry(&self) -> &Computation {
        &self.computations[self.entry]
    }

    /// One instruction.
    pub fn instruction(&self, computation: ComputationId, id: InstructionId) -> &Instruction {
        &self.computations[computation].instructions[id]
    }

    /// The shapes, with layouts, of the parameters and the result that callers see: those of the module line, or else those of the
    /// entry's own instructions.
    pub fn interface(&self) -> (Vec<Shape>, Shape) {
        if let Some(abi) = &self.config.abi {
            return abi.clone();
        }
        let entry = self.entry();
        let own = entry.parameters().into_iter().map(|p| entry.instructions[p].shape.clone());
        let Some((parameters, result)) = &self.config.entry_layout else {
            return (own.collect(), entry.result_shape().clone());
        };
        let pick = |stated: Option<&Shape>, own: Shape| match stated {
            Some(stated) if stated.same_ignoring_layout(&own) => stated.clone(),
            _ => own,
        };
        let parameters = own.enumerate().map(|(k, own)| pick(parameters.get(k), own)).collect();
        (parameters, pick(Some(result), entry.result_shape().clone()))
    }

    /// Drops computations that the entry does not reach, and puts callees before callers. Returns `false`, and
    /// changes nothing, where calls are recursive.
    pub fn sort_computations(&mut self) -> bool {
        let entry = self.entry();
        if entry.order.iter().all(|&i| entry.instructions[i].attrs.called().is_empty()) {
            self.order.clear();
            self.order.push(self.entry);
            return true;
        }
        // Iterative depth-first search: call depth comes from input and must not exhaust the stack.
        let mut state: cranelift_entity::SecondaryMap<ComputationId, u8> = cranelift_entity::SecondaryMap::new();
        let mut order = Vec::new();
        let mut stack = vec![(self.entry, false)];
        while let Some((id, done)) = stack.pop() {
            if done {
                state[id] = 2;
                order.push(id);
                continue;
            }
            match state[id] {
                1 => return false,
                2 => continue,
                _ => {}
            }
            state[id] = 1;
            stack.push((id, true));
            let computation = &self.computations[id];
            for &i in computation.order.iter().rev() {
                for callee in computation.instructions[i].attrs.called().into_iter().rev() {
                    match state[callee] {
                        0 => stack.push((callee, false)),
                        1 => return false,
                        _ => {}
                    }
                }
            }
        }
        self.order = order;
        true
    }
}
