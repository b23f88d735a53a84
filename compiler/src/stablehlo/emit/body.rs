//! One function under construction, and the values that instructions stand for in it.

use super::{Emitter, attributes, check_control, is_tuple, only, unsupported};
use crate::error::{Error, Result};
use crate::hlo::{Computation, ComputationId, Instruction, InstructionId};
use crate::stablehlo::ir::{
    Attribute, Dictionary, Element, Function, LocationId, Operation, Region, TensorType, Type, Value, ValueData,
};
use brolga_runtime::{ArrayShape, ElementType, Shape};
use hashbrown::HashMap;
use std::rc::Rc;

/// The value of an instruction.
#[derive(Clone, Debug)]
pub(super) enum Repr {
    /// A value: an array, a token, or a tuple that an operation yields as a whole.
    Value(Value),
    /// A tuple, by its parts.
    Tuple(Rc<[Repr]>),
}

/// The values of the instructions of a computation that is being converted.
pub(super) struct Frame<'m> {
    pub computation: &'m Computation,
    pub values: HashMap<InstructionId, Repr>,
}

/// A function under construction.
pub(super) struct Body<'e, 'm> {
    pub emitter: &'e mut Emitter<'m>,
    pub function: Function,
    /// The block under construction.
    block: Vec<Operation>,
    /// Regions around it.
    pub depth: usize,
    location: Option<LocationId>,
    /// Attributes that the next operation takes along: sharding and the like, once for each instruction.
    carried: Dictionary,
}

impl<'e, 'm> Body<'e, 'm> {
    pub fn new(emitter: &'e mut Emitter<'m>) -> Body<'e, 'm> {
        Body {
            emitter,
            function: Function::default(),
            block: Vec::new(),
            depth: 0,
            location: None,
            carried: Dictionary::new(),
        }
    }

    /// Ends the function and adds it to the program.
    pub fn finish(mut self, arguments: Vec<Value>, results: Vec<Value>) {
        self.function.results = self.types(&results);
        self.terminate("func.return", results);
        self.function.body = Some(Region { arguments, body: self.block });
        self.emitter.program.functions.push(self.function);
    }

    fn terminate(&mut self, name: &str, results: Vec<Value>) {
        self.block.push(Operation {
            name: name.into(),
            operands: results,
            results: Vec::new(),
            attributes: Dictionary::new(),
            regions: Vec::new(),
            at: Default::default(),
            location: None,
        });
    }

    // Values.

    pub fn value(&mut self, ty: Type) -> Value {
        self.function.values.push(ValueData { ty, name: "".into(), location: None })
    }

    pub fn ty(&self, value: Value) -> &Type {
        &self.function.values[value].ty
    }

    pub fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|&v| self.ty(v).clone()).collect()
    }

    /// The element type of an array.
    pub fn element_type(&self, value: Value) -> Option<ElementType> {
        match self.ty(value) {
            Type::Tensor(TensorType { element, .. }) => crate::stablehlo::text::storage_type(element),
            _ => None,
        }
    }

    /// Arguments for the leaves of a parameter.
    pub fn block_argument(&mut self, parameter: &Instruction, arguments: &mut Vec<Value>) -> Result<Repr> {
        self.arguments_of(&parameter.shape, arguments).map_err(|what| unsupported(parameter, what))
    }

    fn arguments_of(&mut self, shape: &Shape, arguments: &mut Vec<Value>) -> std::result::Result<Repr, String> {
        if let Shape::Tuple(parts) = shape {
            let parts = parts.iter().map(|p| self.arguments_of(p, arguments));
            return Ok(Repr::Tuple(parts.collect::<std::result::Result<Vec<_>, _>>()?.into()));
        }
        let value = self.value(attributes::type_of(shape)?);
        arguments.push(value);
        Ok(Repr::Value(value))
    }

    /// Part `k` of a tuple.
    pub fn element(&mut self, tuple: &Repr, k: usize) -> Result<Repr> {
        let missing = || Error::Internal(format!("a tuple has no part {k}"));
        match tuple {
            Repr::Tuple(parts) => parts.get(k).cloned().ok_or_else(missing),
            Repr::Value(value) => {
                let Type::Tuple(types) = self.ty(*value) else { return Err(missing()) };
                let ty = types.get(k).cloned().ok_or_else(missing)?;
                let attributes = dictionary([("index", attributes::int32(k as i64))]);
                let results = self.helper("stablehlo.get_tuple_element", vec![*value], attributes, vec![ty]);
                only(&results).map(Repr::Value)
            }
        }
    }

    /// The leaves of a value, depth first.
    pub fn leaves(&mut self, value: &Repr, out: &mut Vec<Value>) -> Result<()> {
        match value {
            Repr::Tuple(parts) => parts.iter().try_for_each(|p| self.leaves(p, out)),
            Repr::Value(value) => match self.ty(*value) {
                Type::Tuple(types) => {
                    for k in 0..types.len() {
                        let part = self.element(&Repr::Value(*value), k)?;
                        self.leaves(&part, out)?;
                    }
                    Ok(())
                }
                _ => {
                    out.push(*value);
                    Ok(())
                }
            },
        }
    }

    /// One value for the whole, a tuple where it has parts.
    pub fn packed(&mut self, value: &Repr) -> Result<Value> {
        match value {
            Repr::Value(value) => Ok(*value),
            Repr::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.packed(p)).collect::<Result<Vec<_>>>()?;
                let ty = Type::Tuple(self.types(&parts));
                only(&self.helper("stablehlo.tuple", parts, Dictionary::new(), vec![ty]))
            }
        }
    }

    /// A value of `shape` from its leaves, depth first.
    pub fn unflattened(&self, shape: &Shape, leaves: &mut impl Iterator<Item = Value>) -> Result<Repr> {
        match shape {
            Shape::Tuple(parts) => {
                let mut out = Vec::with_capacity(parts.len());
                for part in parts {
                    out.push(self.unflattened(part, leaves)?);
                }
                Ok(Repr::Tuple(out.into()))
            }
            _ => match leaves.next() {
                Some(value) => Ok(Repr::Value(value)),
                None => Err(Error::Internal("an operation of StableHLO has too few results".to_owned())),
            },
        }
    }

    // Instructions.

    /// Converts the instructions of a computation into the current block, and yields its result.
    pub fn computation(&mut self, id: ComputationId, parameters: Vec<Repr>) -> Result<Repr> {
        let module = self.emitter.module;
        let computation = &module.computations[id];
        let mut frame = Frame { computation, values: HashMap::new() };
        for (id, value) in computation.parameters().into_iter().zip(parameters) {
            frame.values.insert(id, value);
        }
        for &id in &computation.order {
            if frame.values.contains_key(&id) {
                continue;
            }
            let instruction = &computation.instructions[id];
            let around = (self.location, std::mem::take(&mut self.carried));
            self.location = self.emitter.location(instruction);
            self.carried = attributes::discardable(instruction, self.emitter.sharding(instruction))?;
            attributes::check(instruction)?;
            check_control(self.emitter, computation, instruction)?;
            let value = self.instruction(&frame, instruction)?;
            (self.location, self.carried) = around;
            frame.values.insert(id, value);
        }
        frame.values.remove(&computation.root).ok_or_else(|| Error::Internal("a computation has no result".to_owned()))
    }

    /// The value of an operand.
    pub fn operand<'f>(&self, frame: &'f Frame<'_>, instruction: &Instruction, k: usize) -> Result<&'f Repr> {
        let value = instruction.operands.get(k).and_then(|id| frame.values.get(id));
        value.ok_or_else(|| Error::Internal(format!("'{}' has no operand {k}", instruction.name)))
    }

    /// The value of an operand that is an array or a token.
    pub fn leaf(&self, frame: &Frame<'_>, instruction: &Instruction, k: usize) -> Result<Value> {
        match self.operand(frame, instruction, k)? {
            Repr::Value(value) if !is_tuple(self.ty(*value)) => Ok(*value),
            _ => Err(unsupported(instruction, format!("a tuple as operand {k}"))),
        }
    }

    /// All operands, which are arrays or tokens.
    pub fn all_leaves(&self, frame: &Frame<'_>, instruction: &Instruction) -> Result<Vec<Value>> {
        (0..instruction.operands.len()).map(|k| self.leaf(frame, instruction, k)).collect()
    }

    /// The leaves of all operands.
    pub fn flat_operands(&mut self, frame: &Frame<'_>, instruction: &Instruction) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for k in 0..instruction.operands.len() {
            let operand = self.operand(frame, instruction, k)?.clone();
            self.leaves(&operand, &mut out)?;
        }
        Ok(out)
    }

    /// The shape of an operand.
    pub fn shape<'f>(&self, frame: &'f Frame<'_>, instruction: &Instruction, k: usize) -> Result<&'f Shape> {
        let id = instruction.operands.get(k);
        let id = id.ok_or_else(|| Error::Internal(format!("'{}' has no operand {k}", instruction.name)))?;
        Ok(&frame.computation.instructions[*id].shape)
    }

    /// The shape of an operand that is an array.
    pub fn array<'f>(&self, frame: &'f Frame<'_>, instruction: &Instruction, k: usize) -> Result<&'f ArrayShape> {
        let array = self.shape(frame, instruction, k)?.as_array();
        array.ok_or_else(|| unsupported(instruction, format!("operand {k}, which is no array,")))
    }

    pub fn type_of(&self, instruction: &Instruction, shape: &Shape) -> Result<Type> {
        attributes::type_of(shape).map_err(|what| unsupported(instruction, what))
    }

    // Operations.

    /// Adds an operation that belongs to the instruction but is not what it says: without its sharding.
    pub fn helper(&mut self, name: &str, operands: Vec<Value>, attributes: Dictionary, types: Vec<Type>) -> Vec<Value> {
        self.push(name, operands, attributes, Vec::new(), types)
    }

    /// Adds the operation that the instruction is.
    pub fn add(
        &mut self,
        name: &str,
        operands: Vec<Value>,
        mut attributes: Dictionary,
        regions: Vec<Region>,
        types: Vec<Type>,
    ) -> Vec<Value> {
        for (name, value) in std::mem::take(&mut self.carried) {
            attributes.set(name, value);
        }
        self.push(name, operands, attributes, regions, types)
    }

    fn push(
        &mut self,
        name: &str,
        operands: Vec<Value>,
        attributes: Dictionary,
        regions: Vec<Region>,
        types: Vec<Type>,
    ) -> Vec<Value> {
        let results: Vec<Value> = types.into_iter().map(|ty| self.value(ty)).collect();
        self.block.push(Operation {
            name: name.into(),
            operands,
            results: results.clone(),
            attributes,
            regions,
            at: Default::default(),
            location: self.location,
        });
        results
    }

    /// Adds an operation whose one result is the instruction's.
    pub fn one(
        &mut self,
        instruction: &Instruction,
        name: &str,
        operands: Vec<Value>,
        attributes: Dictionary,
    ) -> Result<Repr> {
        let ty = self.type_of(instruction, &instruction.shape)?;
        only(&self.add(name, operands, attributes, Vec::new(), vec![ty])).map(Repr::Value)
    }

    /// Adds an operation whose results are the instruction's result, or the parts of the tuple that it is.
    pub fn parts(
        &mut self,
        instruction: &Instruction,
        name: &str,
        operands: Vec<Value>,
        attributes: Dictionary,
        regions: Vec<Region>,
    ) -> Result<Repr> {
        let shapes = instruction.shape.parts().iter();
        let types = shapes.map(|part| self.type_of(instruction, part)).collect::<Result<Vec<_>>>()?;
        let results = self.add(name, operands, attributes, regions, types);
        joined(&instruction.shape, &results)
    }

    /// Adds an operation that applies its last region to elements: its results have the types that the region yields, and are
    /// rounded to the instruction's where HLO says narrower ones.
    pub fn applied(
        &mut self,
        instruction: &Instruction,
        name: &str,
        operands: Vec<Value>,
        attributes: Dictionary,
        regions: Vec<Region>,
    ) -> Result<Repr> {
        let yielded = regions.last().and_then(|r| r.body.last()).map(|end| end.operands.clone()).unwrap_or_default();
        let yielded: Vec<Option<ElementType>> = yielded.into_iter().map(|v| self.element_type(v)).collect();
        let (mut types, mut elements) = (Vec::new(), Vec::new());
        for (k, shape) in instruction.shape.parts().iter().enumerate() {
            let mut ty = self.type_of(instruction, shape)?;
            elements.push(shape.as_array().map(|a| a.ty));
            // One region may serve every operand.
            let inner = yielded.get(k).or(yielded.first()).copied().flatten();
            if let (Type::Tensor(tensor), Some(inner)) = (&mut ty, inner) {
                tensor.element = Element::Type(inner);
            }
            types.push(ty);
        }
        let mut results = self.add(name, operands, attributes, regions, types);
        for (result, element) in results.iter_mut().zip(elements) {
            if let Some(element) = element {
                *result = self.rounded(*result, element)?;
            }
        }
        joined(&instruction.shape, &results)
    }

    /// Adds an operation whose results are the leaves of the instruction's.
    pub fn flat(
        &mut self,
        instruction: &Instruction,
        name: &str,
        operands: Vec<Value>,
        attributes: Dictionary,
        regions: Vec<Region>,
    ) -> Result<Repr> {
        let leaves = instruction.shape.leaves();
        let types = leaves.into_iter().map(|s| self.type_of(instruction, s)).collect::<Result<Vec<_>>>()?;
        let results = self.add(name, operands, attributes, regions, types);
        self.unflattened(&instruction.shape, &mut results.into_iter())
    }

    /// An array of the same elements under other sizes.
    pub fn reshaped(&mut self, value: Value, array: &ArrayShape, dims: Vec<i64>) -> Result<Value> {
        let shape = ArrayShape::new(array.ty, dims);
        let ty = attributes::tensor(&shape).map_err(Error::Internal)?;
        only(&self.helper("stablehlo.reshape", vec![value], Dictionary::new(), vec![ty]))
    }

    // Regions.

    /// A region of a computation that is applied to elements or that is a part of a loop: its arguments are the leaves of the
    /// parameters.
    pub fn region(&mut self, id: ComputationId) -> Result<Region> {
        let module = self.emitter.module;
        let computation = &module.computations[id];
        let mut arguments = Vec::new();
        let mut parameters = Vec::new();
        for id in computation.parameters() {
            parameters.push(self.block_argument(&computation.instructions[id], &mut arguments)?);
        }
        self.region_of(id, arguments, parameters)
    }

    /// A region of a computation with values for its parameters.
    pub fn region_of(&mut self, id: ComputationId, arguments: Vec<Value>, parameters: Vec<Repr>) -> Result<Region> {
        let outer = std::mem::take(&mut self.block);
        let carried = std::mem::take(&mut self.carried);
        self.depth += 1;
        let result = if self.emitter.fits_region(id, self.depth) {
            self.computation(id, parameters)
        } else {
            self.call(id, &parameters)
        };
        let mut results = Vec::new();
        let done = result.and_then(|result| self.leaves(&result, &mut results));
        self.depth -= 1;
        self.terminate("stablehlo.return", results);
        self.carried = carried;
        let body = std::mem::replace(&mut self.block, outer);
        done.map(|()| Region { arguments, body })
    }

    /// A call of the function that a computation becomes.
    pub fn call(&mut self, id: ComputationId, parameters: &[Repr]) -> Result<Repr> {
        let module = self.emitter.module;
        let computation = &module.computations[id];
        let name = self.emitter.function_of(id);
        let mut operands = Vec::new();
        for parameter in parameters {
            self.leaves(parameter, &mut operands)?;
        }
        let root = &computation.instructions[computation.root];
        let attributes = dictionary([("callee", Attribute::Symbol(vec![name.into()]))]);
        self.flat(root, "func.call", operands, attributes, Vec::new())
    }
}

/// What an instruction of this shape yields, from a value for each part of it.
pub(super) fn joined(shape: &Shape, results: &[Value]) -> Result<Repr> {
    match shape {
        Shape::Tuple(_) => Ok(Repr::Tuple(results.iter().copied().map(Repr::Value).collect())),
        _ => only(results).map(Repr::Value),
    }
}

/// Attributes by their names.
pub(super) fn dictionary<const N: usize>(entries: [(&str, Attribute); N]) -> Dictionary {
    entries.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
