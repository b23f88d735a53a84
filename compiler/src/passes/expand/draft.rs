//! New computations, made of pieces of old ones.
//!
//! Invariant: a draft's instructions stand operands first, each with a name of its own; what is copied keeps its source
//! place and metadata, the rest has those of the instruction that is expanded.

use crate::error::{Error, Result};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, SourceLocation,
};
use crate::passes::rewrite::fresh_computation_name;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};
use cranelift_entity::PrimaryMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A computation under construction.
pub struct Draft {
    instructions: PrimaryMap<InstructionId, Instruction>,
    order: Vec<InstructionId>,
    names: HashSet<String>,
    location: SourceLocation,
}

impl Draft {
    /// An empty draft on behalf of an instruction at `location`.
    pub fn new(location: SourceLocation) -> Draft {
        Draft { instructions: PrimaryMap::new(), order: Vec::new(), names: HashSet::new(), location }
    }

    fn insert(&mut self, mut instruction: Instruction) -> InstructionId {
        let number = self.order.len();
        if !self.names.insert(instruction.name.clone()) {
            // The number of the instruction is in no other name that this draft has made.
            instruction.name = format!("{}.d{number}", instruction.name);
            self.names.insert(instruction.name.clone());
        }
        let id = self.instructions.push(instruction);
        self.order.push(id);
        id
    }

    /// Adds an instruction.
    pub fn push(&mut self, opcode: Opcode, shape: Shape, operands: Vec<InstructionId>, attrs: Attrs) -> InstructionId {
        let name = opcode.name().to_owned();
        self.insert(Instruction { name, shape, opcode, operands, attrs, location: self.location })
    }

    /// Adds parameter number `n`.
    pub fn parameter(&mut self, n: usize, shape: Shape) -> InstructionId {
        let attrs = Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(n as i64));
        self.push(Opcode::Parameter, shape, Vec::new(), attrs)
    }

    /// Adds a scalar constant.
    pub fn scalar(&mut self, ty: ElementType, value: Scalar) -> InstructionId {
        let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
        literal.set(0, value);
        let attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(Arc::new(Literal::Array(literal))));
        self.push(Opcode::Constant, Shape::scalar(ty), Vec::new(), attrs)
    }

    /// Adds an operation whose result is like its first operand.
    pub fn op(&mut self, opcode: Opcode, operands: &[InstructionId]) -> InstructionId {
        let shape = operands.first().map_or(Shape::Token, |&o| self.shape(o).clone());
        self.push(opcode, shape, operands.to_vec(), Attrs::new())
    }

    /// Adds a comparison of scalars.
    pub fn compare(&mut self, a: InstructionId, direction: &'static str, b: InstructionId) -> InstructionId {
        let attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
        self.push(Opcode::Compare, Shape::scalar(ElementType::Pred), vec![a, b], attrs)
    }

    /// Adds a choice between two values of one shape by a scalar or an array of that shape.
    pub fn select(&mut self, condition: InstructionId, yes: InstructionId, no: InstructionId) -> InstructionId {
        let shape = self.shape(yes).clone();
        self.push(Opcode::Select, shape, vec![condition, yes, no], Attrs::new())
    }

    /// Adds a tuple.
    pub fn tuple(&mut self, elements: Vec<InstructionId>) -> InstructionId {
        let shape = Shape::Tuple(elements.iter().map(|&e| self.shape(e).clone()).collect());
        self.push(Opcode::Tuple, shape, elements, Attrs::new())
    }

    /// Adds the parts of a value: the elements of a tuple, or the value itself.
    pub fn parts(&mut self, value: InstructionId) -> Vec<InstructionId> {
        match self.shape(value).clone() {
            Shape::Tuple(elements) => (elements.into_iter().enumerate())
                .map(|(k, shape)| {
                    let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(k as i64));
                    self.push(Opcode::GetTupleElement, shape, vec![value], attrs)
                })
                .collect(),
            _ => vec![value],
        }
    }

    /// The shape of what was added.
    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.instructions[id].shape
    }

    /// Copies the instructions of `callee` with `arguments` in place of its parameters, and returns its root.
    pub fn inline(
        &mut self,
        module: &Module,
        callee: ComputationId,
        arguments: &[InstructionId],
    ) -> Result<InstructionId> {
        let source = &module.computations[callee];
        let mut map: HashMap<InstructionId, InstructionId> = HashMap::new();
        let broken = || Error::Internal(format!("computation '{}' is out of order", source.name));
        for &id in &source.order {
            let mut copy = source.instructions[id].clone();
            if copy.opcode == Opcode::Parameter {
                let argument = copy.parameter_number().and_then(|n| arguments.get(n).copied());
                map.insert(id, argument.ok_or_else(broken)?);
                continue;
            }
            copy.shape = copy.shape.without_layout();
            for operand in &mut copy.operands {
                *operand = *map.get(operand).ok_or_else(broken)?;
            }
            if let Some(AttrValue::Instructions(list)) = copy.attrs.get_mut(AttrKey::ControlPredecessors) {
                *list = list.iter().filter_map(|i| map.get(i).copied()).collect();
            }
            let new = self.insert(copy);
            map.insert(id, new);
        }
        map.get(&source.root).copied().ok_or_else(broken)
    }

    /// Adds the computation to the module.
    pub fn finish(self, module: &mut Module, name: &str, root: InstructionId) -> ComputationId {
        let name = fresh_computation_name(module, name);
        let Draft { instructions, order, location, .. } = self;
        let id = module.computations.push(Computation {
            name,
            instructions,
            order,
            root,
            trailing: String::new(),
            location,
        });
        module.order.insert(0, id);
        id
    }
}
