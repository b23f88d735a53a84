//! One computation under construction, and the values that names of the program stand for in it.

use super::{Lowering, MAX_DEPTH, MAX_INSTRUCTIONS, Origin, shape_of};
use crate::error::{Error, Result, Site};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Category, ComputationId, Instruction, InstructionId, Module, Opcode, SourceLocation,
    legal_name,
};
use crate::interp;
use crate::shape::{self, InferContext, RuleError};
use crate::stablehlo::ir::{Dim, Element, Function, Operation, Quantized, Region, TensorType, Type, Value};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use hashbrown::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

/// A captured value that is a constant.
type Bound = (Value, Arc<Literal>);

/// The most elements of a value that is evaluated to find a size, or made again inside a region.
const MAX_FOLDED: usize = 1 << 12;
/// Instructions that a call may run to be folded.
const MAX_FOLDED_CALL: usize = 256;

/// The instructions of one computation.
pub(super) struct Graph {
    pub instructions: PrimaryMap<InstructionId, Instruction>,
    stems: HashMap<String, usize>,
    names: HashSet<String>,
    /// Values that were asked for; `None` where they depend on parameters.
    folded: SecondaryMap<InstructionId, Option<Option<Arc<Literal>>>>,
    /// Where the operation that is being converted stands.
    pub at: SourceLocation,
    /// What it is called in errors.
    pub label: String,
    metadata: Option<String>,
}

impl Graph {
    pub fn new() -> Graph {
        Graph {
            instructions: PrimaryMap::new(),
            stems: HashMap::new(),
            names: HashSet::new(),
            folded: SecondaryMap::new(),
            at: SourceLocation::default(),
            label: String::new(),
            metadata: None,
        }
    }

    fn fresh(&mut self, stem: &str) -> String {
        let count = self.stems.entry(stem.to_owned()).or_insert(0);
        loop {
            let name = if *count == 0 { stem.to_owned() } else { format!("{stem}.{count}") };
            *count += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// What the values of a function stand for.
pub(super) struct Frame<'p> {
    pub function: &'p Function,
    pub values: HashMap<Value, InstructionId>,
}

/// A computation under construction.
pub(super) struct Body<'l, 'p> {
    pub lowering: &'l mut Lowering<'p>,
    pub graph: Graph,
    pub frame: Frame<'p>,
    /// Quantised results are computed as the floats that they stand for.
    pub expressed: bool,
}

impl<'l, 'p> Body<'l, 'p> {
    pub fn new(lowering: &'l mut Lowering<'p>, function: &'p Function) -> Body<'l, 'p> {
        Body { lowering, graph: Graph::new(), frame: Frame { function, values: HashMap::new() }, expressed: false }
    }

    // Errors.

    pub fn site(&self) -> Site {
        let instruction = Some(self.graph.label.clone()).filter(|l| !l.is_empty());
        Site { instruction, location: self.graph.at, length: 0 }
    }

    pub fn invalid(&self, constraint: &'static str, message: impl Into<String>) -> Error {
        Error::Invalid { site: self.site(), constraint, message: message.into() }
    }

    pub fn broken(&self, e: RuleError) -> Error {
        e.into_error(self.site())
    }

    pub fn unsupported(&self, feature: impl Into<String>) -> Error {
        Error::Unsupported { site: self.site(), feature: feature.into() }
    }

    /// The operation that the next instructions and errors belong to.
    pub fn begin(&mut self, op: &Operation) {
        let origin = self.lowering.origin(op.location);
        let result = op.results.first().map(|&v| &self.frame.function.values[v].name);
        let mut label = match result {
            Some(name) if !name.is_empty() => format!("%{name} = {}", op.name),
            _ => op.name.to_string(),
        };
        if let Some((file, line, _)) = &origin.file {
            label.push_str(&format!(" at {file}:{line}"));
        }
        self.graph.at = op.at;
        self.graph.label = label;
        self.graph.metadata = metadata(&origin);
    }

    // Instructions.

    /// Adds an instruction; the one way in. The shape rules give its shape, or check `declared`.
    pub fn emit(
        &mut self,
        opcode: Opcode,
        operands: &[InstructionId],
        attrs: Attrs,
        declared: Option<Shape>,
    ) -> Result<InstructionId> {
        self.emit_named(opcode.name(), opcode, operands, attrs, declared)
    }

    fn emit_named(
        &mut self,
        stem: &str,
        opcode: Opcode,
        operands: &[InstructionId],
        mut attrs: Attrs,
        declared: Option<Shape>,
    ) -> Result<InstructionId> {
        let inferred = {
            let shapes: Vec<&Shape> = operands.iter().map(|&id| &self.graph.instructions[id].shape).collect();
            let cx = InferContext::of(&self.lowering.module.computations);
            let checked = declared.as_ref().map_or(Ok(()), shape::check_shape);
            checked.and_then(|()| shape::infer(&cx, opcode, &shapes, &attrs, declared.as_ref()))
        };
        let inferred = inferred.map_err(|e| self.broken(e))?;
        self.lowering.instructions += 1;
        if self.lowering.instructions > MAX_INSTRUCTIONS {
            return Err(self.unsupported(format!("a program of more than {MAX_INSTRUCTIONS} instructions")));
        }
        if let Some(metadata) = &self.graph.metadata {
            attrs.set(AttrKey::Metadata, AttrValue::Raw(metadata.clone()));
        }
        let name = self.graph.fresh(stem);
        Ok(self.graph.instructions.push(Instruction {
            name,
            shape: declared.unwrap_or(inferred),
            opcode,
            operands: operands.to_vec(),
            attrs,
            location: self.graph.at,
        }))
    }

    /// Adds an operation without attributes whose shape follows from its operands.
    pub fn op(&mut self, opcode: Opcode, operands: &[InstructionId]) -> Result<InstructionId> {
        self.emit(opcode, operands, Attrs::new(), None)
    }

    pub fn parameter(&mut self, number: usize, shape: Shape, name: &str) -> Result<InstructionId> {
        let attrs = Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(number as i64));
        self.emit_named(&legal_name(name), Opcode::Parameter, &[], attrs, Some(shape))
    }

    pub fn literal(&mut self, literal: Arc<Literal>) -> Result<InstructionId> {
        let shape = literal.shape();
        let attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(literal));
        self.emit(Opcode::Constant, &[], attrs, Some(shape))
    }

    /// A scalar.
    pub fn scalar(&mut self, ty: ElementType, value: Scalar) -> Result<InstructionId> {
        let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
        literal.set(0, value);
        self.literal(Arc::new(Literal::Array(literal)))
    }

    /// An array of one repeated number, of the sizes of `like`.
    pub fn filled(&mut self, like: &ArrayShape, ty: ElementType, value: Scalar) -> Result<InstructionId> {
        let scalar = self.scalar(ty, value)?;
        self.splat(scalar, like)
    }

    /// A scalar, repeated to the sizes of `like`.
    pub fn splat(&mut self, scalar: InstructionId, like: &ArrayShape) -> Result<InstructionId> {
        if like.rank() == 0 {
            return Ok(scalar);
        }
        let ty = self.array(scalar)?.ty;
        let shape = ArrayShape { ty, layout: None, ..like.clone() };
        self.broadcast(scalar, &[], shape)
    }

    pub fn broadcast(
        &mut self,
        operand: InstructionId,
        dimensions: &[i64],
        shape: ArrayShape,
    ) -> Result<InstructionId> {
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(dimensions.to_vec()));
        self.emit(Opcode::Broadcast, &[operand], attrs, Some(Shape::Array(shape)))
    }

    pub fn reshape(&mut self, operand: InstructionId, dims: &[i64]) -> Result<InstructionId> {
        let array = self.array(operand)?;
        if array.dims == dims && !array.is_dynamic() {
            return Ok(operand);
        }
        let shape = Shape::array(array.ty, dims);
        self.emit(Opcode::Reshape, &[operand], Attrs::new(), Some(shape))
    }

    pub fn convert(&mut self, operand: InstructionId, ty: ElementType) -> Result<InstructionId> {
        let array = self.array(operand)?;
        if array.ty == ty {
            return Ok(operand);
        }
        let shape = Shape::Array(array.with_type(ty));
        self.emit(Opcode::Convert, &[operand], Attrs::new(), Some(shape))
    }

    pub fn bitcast(&mut self, operand: InstructionId, ty: ElementType) -> Result<InstructionId> {
        let shape = Shape::Array(self.array(operand)?.with_type(ty));
        self.emit(Opcode::BitcastConvert, &[operand], Attrs::new(), Some(shape))
    }

    pub fn compare(&mut self, a: InstructionId, direction: &'static str, b: InstructionId) -> Result<InstructionId> {
        let attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
        self.emit(Opcode::Compare, &[a, b], attrs, None)
    }

    pub fn tuple(&mut self, parts: &[InstructionId]) -> Result<InstructionId> {
        self.op(Opcode::Tuple, parts)
    }

    pub fn part(&mut self, tuple: InstructionId, k: usize) -> Result<InstructionId> {
        let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(k as i64));
        self.emit(Opcode::GetTupleElement, &[tuple], attrs, None)
    }

    /// All parts of a tuple.
    pub fn parts(&mut self, tuple: InstructionId) -> Result<Vec<InstructionId>> {
        let count = self.shape(tuple).as_tuple().map_or(0, <[Shape]>::len);
        (0..count).map(|k| self.part(tuple, k)).collect()
    }

    /// One value as it is, several as a tuple.
    pub fn one_of(&mut self, values: Vec<InstructionId>) -> Result<InstructionId> {
        match values.as_slice() {
            [one] => Ok(*one),
            _ => self.tuple(&values),
        }
    }

    /// Undoes [`Body::one_of`] for `count` values.
    pub fn several(&mut self, value: InstructionId, count: usize) -> Result<Vec<InstructionId>> {
        if count == 1 { Ok(vec![value]) } else { self.parts(value) }
    }

    // Shapes and types.

    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.graph.instructions[id].shape
    }

    pub fn array(&self, id: InstructionId) -> Result<ArrayShape> {
        match self.shape(id) {
            Shape::Array(a) => Ok(a.clone()),
            other => Err(self.invalid("operand.array", format!("expected an array, found {other:#}"))),
        }
    }

    pub fn fixed_shape(&self, ty: &Type) -> Result<Shape> {
        shape_of(ty).map_err(|what| self.unsupported(what))
    }

    /// The type of result `k`.
    pub fn result_type(&self, op: &Operation, k: usize) -> Result<&'p Type> {
        match op.results.get(k) {
            Some(&v) => Ok(&self.frame.function.values[v].ty),
            None => Err(self.invalid("result.count", format!("expected a result {k} of {}", op.name))),
        }
    }

    /// The shape of result `k`, where its sizes are fixed.
    pub fn declared(&self, op: &Operation, k: usize) -> Result<Option<Shape>> {
        let ty = self.result_type(op, k)?;
        match ty {
            Type::Unranked(_) => Ok(None),
            Type::Tensor(t) if t.dims.contains(&Dim::Dynamic) => Ok(None),
            ty => {
                let shape = self.fixed_shape(ty)?;
                match &shape {
                    Shape::Array(a) => Ok(Some(Shape::Array(a.with_type(self.result_element(op, k)?)))),
                    _ => Ok(Some(shape)),
                }
            }
        }
    }

    /// The element type of result `k`.
    pub fn result_element(&self, op: &Operation, k: usize) -> Result<ElementType> {
        let element = match self.result_type(op, k)? {
            Type::Tensor(TensorType { element, .. }) | Type::Unranked(element) => element,
            other => return Err(self.invalid("result.type", format!("expected a tensor, found {other}"))),
        };
        if let (true, Element::Quantized(q)) = (self.expressed, element) {
            return Ok(q.expressed);
        }
        super::element_type(element).map_err(|what| self.unsupported(what))
    }

    /// The quantised type of a value, where it has one.
    pub fn quantized(&self, value: Value) -> Option<&'p Arc<Quantized>> {
        match &self.frame.function.values[value].ty {
            Type::Tensor(TensorType { element: Element::Quantized(q), .. }) | Type::Unranked(Element::Quantized(q)) => {
                Some(q)
            }
            _ => None,
        }
    }

    // Operands.

    pub fn value(&self, value: Value) -> Result<InstructionId> {
        self.frame.values.get(&value).copied().ok_or_else(|| {
            let name = self.frame.function.values.get(value).map(|v| v.name.to_string()).unwrap_or_default();
            self.invalid("operand.defined", format!("the value '%{name}' is not defined before its use"))
        })
    }

    /// The operands, of which there must be `count`.
    pub fn operands<const N: usize>(&self, op: &Operation) -> Result<[InstructionId; N]> {
        let all = self.all_operands(op)?;
        <[InstructionId; N]>::try_from(all).map_err(|all| {
            let message = format!("expected {N} operands of {}, found {}", op.name, all.len());
            self.invalid("arity", message)
        })
    }

    pub fn all_operands(&self, op: &Operation) -> Result<Vec<InstructionId>> {
        op.operands.iter().map(|&v| self.value(v)).collect()
    }

    pub fn region(&self, op: &'p Operation, k: usize) -> Result<&'p Region> {
        op.regions.get(k).ok_or_else(|| self.invalid("region", format!("expected region {k} of {}", op.name)))
    }

    // Constants.

    /// The value of an instruction that depends on no parameter, and is small.
    pub fn fold(&mut self, id: InstructionId) -> Option<Arc<Literal>> {
        // Operands first, without recursion: chains may be long.
        let mut stack = vec![id];
        while let Some(&top) = stack.last() {
            if self.graph.folded[top].is_some() {
                stack.pop();
                continue;
            }
            let instruction = &self.graph.instructions[top];
            let pure = folds(instruction.opcode)
                || instruction.opcode == Opcode::Call
                    && instruction.attrs.computation(AttrKey::ToApply).is_some_and(|callee| {
                        instructions_of(&self.lowering.module, callee, MAX_FOLDED_CALL).is_some()
                    });
            if !is_small(&instruction.shape) || !pure {
                self.graph.folded[top] = Some(None);
                continue;
            }
            if let Some(literal) = instruction.literal() {
                self.graph.folded[top] = Some(Some(Arc::clone(literal)));
                continue;
            }
            let waiting: Vec<InstructionId> =
                instruction.operands.iter().copied().filter(|&o| self.graph.folded[o].is_none()).collect();
            if !waiting.is_empty() {
                stack.extend(waiting);
                continue;
            }
            let operands: Option<Vec<Arc<Literal>>> =
                instruction.operands.iter().map(|&o| self.graph.folded[o].clone().flatten()).collect();
            let value = operands.and_then(|operands| {
                let operands: Vec<&Literal> = operands.iter().map(|o| &**o).collect();
                interp::evaluate(&self.lowering.module, instruction, &operands).ok()
            });
            self.graph.folded[top] = Some(value.map(Arc::new));
        }
        self.graph.folded[id].clone().flatten()
    }

    /// The integers of a value that says sizes.
    pub fn ints_of(&mut self, id: InstructionId) -> Result<Vec<i64>> {
        match self.fold(id).as_deref() {
            Some(Literal::Array(a)) if a.ty().is_integer() || a.ty() == ElementType::Pred => {
                Ok((0..a.elements()).map(|k| a.get(k).as_i64()).collect())
            }
            _ => Err(self.unsupported("sizes that are known only when the program runs")),
        }
    }

    // Operations.

    /// Converts operations up to the terminator, and yields its operands.
    pub fn operations(&mut self, operations: &'p [Operation]) -> Result<Vec<InstructionId>> {
        // Calls in regions in calls: the product of both limits would be too deep for the stack.
        if self.lowering.depth == MAX_DEPTH {
            return Err(self.unsupported(format!("regions and calls nested more than {MAX_DEPTH} deep")));
        }
        self.lowering.depth += 1;
        let results = self.operations_inside(operations);
        self.lowering.depth -= 1;
        results
    }

    fn operations_inside(&mut self, operations: &'p [Operation]) -> Result<Vec<InstructionId>> {
        for op in operations {
            self.begin(op);
            if matches!(&*op.name, "stablehlo.return" | "func.return" | "chlo.return" | "mhlo.return") {
                return self.all_operands(op);
            }
            let results = self.operation(op)?;
            self.define(op, results)?;
        }
        Err(self.invalid("region.terminator", "expected a region that ends with 'return'"))
    }

    /// Binds results, whose shapes must be what the program says.
    fn define(&mut self, op: &'p Operation, results: Vec<InstructionId>) -> Result<()> {
        if results.len() != op.results.len() {
            let message = format!("{} has {} results, found {}", op.name, results.len(), op.results.len());
            return Err(self.invalid("result.count", message));
        }
        for (&value, id) in op.results.iter().zip(results) {
            let ty = &self.frame.function.values[value].ty;
            if !agrees(ty, self.shape(id)) {
                let message = format!("expected a result of {}, found {ty}", self.shape(id));
                return Err(self.invalid("result.shape", message));
            }
            self.frame.values.insert(value, id);
        }
        Ok(())
    }

    // Regions.

    /// Values of the surroundings that a region uses, in order of first use.
    pub fn captured(&self, regions: &[&'p Region]) -> Vec<Value> {
        let mut inside: HashSet<Value> = HashSet::new();
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        for region in regions {
            collect(region, &mut inside, &mut |v, inside| {
                if !inside.contains(&v) && seen.insert(v) {
                    out.push(v);
                }
            });
        }
        out
    }

    /// Converts a region that is applied to elements: its arguments are the parameters, and of its surroundings it may use
    /// only constants.
    pub fn applied(&mut self, region: &'p Region, stem: &str) -> Result<ComputationId> {
        let captured = self.captured(&[region]);
        let mut constants = Vec::new();
        for value in captured {
            let id = self.value(value)?;
            let literal = self.fold(id).ok_or_else(|| {
                let name = &self.frame.function.values[value].name;
                self.unsupported(format!("a region that is applied to elements and uses '%{name}' of its surroundings"))
            })?;
            constants.push((value, literal));
        }
        let (at, label, metadata) = (self.graph.at, self.graph.label.clone(), self.graph.metadata.clone());
        let mut inner = Body::new(self.lowering, self.frame.function);
        (inner.graph.at, inner.graph.label, inner.graph.metadata) = (at, label, metadata);
        for (k, &argument) in region.arguments.iter().enumerate() {
            let shape = inner.fixed_shape(&inner.frame.function.values[argument].ty)?;
            let id = inner.parameter(k, shape, &format!("arg{k}"))?;
            inner.frame.values.insert(argument, id);
        }
        for (value, literal) in constants {
            let id = inner.literal(literal)?;
            inner.frame.values.insert(value, id);
        }
        let results = inner.operations(&region.body)?;
        let root = inner.one_of(results)?;
        let graph = inner.graph;
        Ok(self.lowering.finish(graph, stem, root, at))
    }

    /// A body for a region of control flow, which sees the constants among `captured`; the others are yet to be bound.
    /// Yields the body and what is left of `captured`.
    pub fn inner(&mut self, captured: &[Value]) -> Result<(Vec<Bound>, Vec<Value>)> {
        let (mut constants, mut left) = (Vec::new(), Vec::new());
        for &value in captured {
            let id = self.value(value)?;
            match self.fold(id) {
                Some(literal) => constants.push((value, literal)),
                None => left.push(value),
            }
        }
        Ok((constants, left))
    }

    /// An empty body of the same function, for a region.
    pub fn nested(&mut self) -> Body<'_, 'p> {
        let (at, label, metadata) = (self.graph.at, self.graph.label.clone(), self.graph.metadata.clone());
        let mut inner = Body::new(self.lowering, self.frame.function);
        (inner.graph.at, inner.graph.label, inner.graph.metadata) = (at, label, metadata);
        inner
    }
}

/// Whether a shape is what a type says, open sizes left aside.
pub(super) fn agrees(ty: &Type, shape: &Shape) -> bool {
    match (ty, shape) {
        (Type::Tensor(t), Shape::Array(a)) | (Type::Buffer(t), Shape::Buffer(a)) => {
            super::element_type(&t.element).is_ok_and(|e| e == a.ty)
                && t.dims.len() == a.rank()
                && t.dims.iter().zip(&a.dims).all(|(d, &n)| match d {
                    Dim::Fixed(m) => *m == n,
                    Dim::Bounded(m) => n <= *m,
                    Dim::Dynamic => true,
                })
        }
        (Type::Unranked(element), Shape::Array(a)) => super::element_type(element).is_ok_and(|e| e == a.ty),
        (Type::Token, Shape::Token) => true,
        (Type::Tuple(types) | Type::Future(types), Shape::Tuple(shapes)) => {
            types.len() == shapes.len() && types.iter().zip(shapes).all(|(t, s)| agrees(t, s))
        }
        _ => false,
    }
}

fn collect(region: &Region, inside: &mut HashSet<Value>, used: &mut impl FnMut(Value, &HashSet<Value>)) {
    inside.extend(&region.arguments);
    for op in &region.body {
        for &operand in &op.operands {
            used(operand, inside);
        }
        for inner in &op.regions {
            collect(inner, inside, used);
        }
        inside.extend(&op.results);
    }
}

/// The text of HLO's metadata.
fn metadata(origin: &Origin) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(name) = &origin.name {
        parts.push(format!("op_name={}", quote(name)));
    }
    if let Some((file, line, _)) = &origin.file {
        parts.push(format!("source_file={} source_line={line}", quote(file)));
    }
    (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(" ")))
}

/// A string as HLO text writes it.
pub(super) fn quote(text: &str) -> String {
    crate::hlo::quote(text)
}

/// Whether an operation's value follows from its operands' at once.
fn folds(opcode: Opcode) -> bool {
    matches!(opcode.category(), Category::Elementwise | Category::Movement)
        || matches!(
            opcode,
            Opcode::Constant | Opcode::Reduce | Opcode::OptimizationBarrier | Opcode::Tuple | Opcode::GetTupleElement
        )
}

/// Whether a value is few numbers of fixed sizes.
fn is_small(shape: &Shape) -> bool {
    let leaf = |s: &Shape| s.as_array().is_some_and(|a| a.elements() <= MAX_FOLDED && !a.is_dynamic());
    shape.leaves().into_iter().all(leaf)
}

/// How many instructions a call runs, those of what it calls included; `None` where they are more than `most`, or one of them
/// is not for folding.
fn instructions_of(module: &Module, callee: ComputationId, most: usize) -> Option<usize> {
    let mut left = most;
    let callee = &module.computations[callee];
    for &id in &callee.order {
        let instruction = &callee.instructions[id];
        left = left.checked_sub(1)?;
        if instruction.opcode == Opcode::Call {
            left -= instructions_of(module, instruction.attrs.computation(AttrKey::ToApply)?, left)?;
        } else if !folds(instruction.opcode) && instruction.opcode != Opcode::Parameter {
            return None;
        }
        if !is_small(&instruction.shape) {
            return None;
        }
    }
    Some(most - left)
}
