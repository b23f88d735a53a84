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
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Whether a computation is straight-line arithmetic on scalars, which kernels hold in their loops.
pub fn is_arithmetic(module: &Module, computation: ComputationId) -> bool {
    let computation = &module.computations[computation];
    let array = |i: InstructionId| computation.instructions[i].shape.as_array();
    computation.order.iter().all(|&i| {
        let instruction = &computation.instructions[i];
        let known = match instruction.opcode {
            Opcode::Parameter | Opcode::Constant | Opcode::Copy | Opcode::Reshape => true,
            Opcode::Broadcast | Opcode::Transpose | Opcode::Tuple | Opcode::GetTupleElement => true,
            // Bits as another type of the same width.
            Opcode::BitcastConvert => {
                let from = instruction.operands.first().and_then(|&o| array(o));
                array(i).zip(from).is_some_and(|(to, from)| to.ty.bits() == from.ty.bits() && !to.ty.is_complex())
            }
            op => op.is_elementwise(),
        };
        known && array(i).is_none_or(|a| a.elements() == 1)
    })
}

/// What a computation takes, and the parts of what it yields.
pub fn signature(module: &Module, computation: ComputationId) -> (Vec<Shape>, Vec<Shape>) {
    let computation = &module.computations[computation];
    let takes = computation.parameters().iter().map(|&p| computation.instructions[p].shape.without_layout()).collect();
    let yields = match computation.result_shape() {
        Shape::Tuple(parts) => parts.to_vec(),
        single => vec![single.clone()],
    };
    (takes, yields)
}

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
        match self.shape(value).as_tuple().map(<[Shape]>::len) {
            Some(count) => (0..count).map(|k| self.part(value, k)).collect(),
            None => vec![value],
        }
    }

    /// Adds element `k` of a tuple; the value itself where there is none.
    pub fn part(&mut self, value: InstructionId, k: usize) -> InstructionId {
        let Some(shape) = self.shape(value).as_tuple().and_then(|t| t.get(k)).cloned() else { return value };
        let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(k as i64));
        self.push(Opcode::GetTupleElement, shape, vec![value], attrs)
    }

    /// Adds a whole number of the type of `like`.
    pub fn beside(&mut self, like: InstructionId, value: i64) -> InstructionId {
        let ty = self.element_type(like);
        self.scalar(ty, Scalar::Int(value))
    }

    /// Adds `x / by`.
    pub fn divided(&mut self, x: InstructionId, by: i64) -> InstructionId {
        if by == 1 {
            return x;
        }
        let by = self.beside(x, by);
        self.op(Opcode::Divide, &[x, by])
    }

    /// Adds `x % by`.
    pub fn remainder(&mut self, x: InstructionId, by: i64) -> InstructionId {
        let by_one = by == 1;
        let by = self.beside(x, if by_one { 0 } else { by });
        if by_one { by } else { self.op(Opcode::Remainder, &[x, by]) }
    }

    /// Adds `x * by`.
    pub fn scaled(&mut self, x: InstructionId, by: i64) -> InstructionId {
        if by == 1 {
            return x;
        }
        let by = self.beside(x, by);
        self.op(Opcode::Multiply, &[x, by])
    }

    /// Adds the indices of element `x` of an array.
    pub fn digits(&mut self, x: InstructionId, dims: &[i64]) -> Vec<InstructionId> {
        let (mut rest, mut out) = (x, Vec::new());
        for &size in dims.iter().rev() {
            out.push(self.remainder(rest, size));
            rest = self.divided(rest, size);
        }
        out.reverse();
        out
    }

    /// Adds a conversion by value, unless there is nothing to convert.
    pub fn convert(&mut self, x: InstructionId, ty: ElementType) -> InstructionId {
        match self.shape(x).as_array() {
            Some(array) if array.ty != ty => {
                let shape = Shape::Array(array.with_type(ty));
                self.push(Opcode::Convert, shape, vec![x], Attrs::new())
            }
            _ => x,
        }
    }

    /// Adds element `at` of a vector.
    pub fn take(&mut self, vector: InstructionId, at: InstructionId) -> InstructionId {
        let ty = self.element_type(vector);
        let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(vec![1]));
        let one = self.push(Opcode::DynamicSlice, Shape::array(ty, [1]), vec![vector, at], attrs);
        self.push(Opcode::Reshape, Shape::scalar(ty), vec![one], Attrs::new())
    }

    /// Adds a vector with `value` in the place of element `at`.
    pub fn put(&mut self, vector: InstructionId, value: InstructionId, at: InstructionId) -> InstructionId {
        let ty = self.element_type(vector);
        let value = self.convert(value, ty);
        let one = self.push(Opcode::Reshape, Shape::array(ty, [1]), vec![value], Attrs::new());
        let shape = self.shape(vector).clone();
        self.push(Opcode::DynamicUpdateSlice, shape, vec![vector, one, at], Attrs::new())
    }

    /// Adds what a computation yields of scalars, which are converted to what it takes.
    pub fn apply(
        &mut self,
        module: &Module,
        callee: ComputationId,
        arguments: &[InstructionId],
    ) -> Result<Vec<InstructionId>> {
        let (takes, _) = signature(module, callee);
        let convert = |(&x, shape): (&InstructionId, &Shape)| shape.as_array().map_or(x, |a| self.convert(x, a.ty));
        let arguments: Vec<InstructionId> = arguments.iter().zip(&takes).map(convert).collect();
        let root = self.inline(module, callee, &arguments)?;
        Ok(self.parts(root))
    }

    /// As [`Draft::apply`] where `condition` holds; elsewhere the computation is not run, and `otherwise` stands.
    pub fn apply_if(
        &mut self,
        module: &mut Module,
        condition: InstructionId,
        callee: ComputationId,
        arguments: &[InstructionId],
        otherwise: &[InstructionId],
    ) -> Result<Vec<InstructionId>> {
        let (arguments, others) = (self.tuple(arguments.to_vec()), self.tuple(otherwise.to_vec()));
        let shape = self.shape(others).clone();
        let mut yes = Draft::new(self.location);
        let whole = yes.parameter(0, self.shape(arguments).clone());
        let parts = yes.parts(whole);
        let mut results = yes.apply(module, callee, &parts)?;
        for (result, &other) in results.iter_mut().zip(otherwise) {
            *result = yes.convert(*result, self.element_type(other));
        }
        let root = yes.tuple(results);
        let yes = yes.finish(module, "if_so", root);
        let mut no = Draft::new(self.location);
        let root = no.parameter(0, shape.clone());
        let no = no.finish(module, "if_not", root);
        let attrs = Attrs::new()
            .with(AttrKey::TrueComputation, AttrValue::Computation(yes))
            .with(AttrKey::FalseComputation, AttrValue::Computation(no));
        let result = self.push(Opcode::Conditional, shape, vec![condition, arguments, others], attrs);
        Ok(self.parts(result))
    }

    /// The shape of what was added.
    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.instructions[id].shape
    }

    fn element_type(&self, id: InstructionId) -> ElementType {
        self.shape(id).as_array().map_or(ElementType::S32, |a| a.ty)
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
