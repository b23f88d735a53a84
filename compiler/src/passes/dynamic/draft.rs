//! A computation under construction, and the vocabulary that the rules are written in.
//!
//! Whatever is emitted is named after the instruction under work and carries its source place and metadata. Sizes are
//! `s32` scalars; arithmetic on them is emitted as it comes, for folding to tidy up.

use crate::error::{Error, Result, Site};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, SliceRange,
    SourceLocation,
};
use crate::passes::rewrite::Names;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};
use cranelift_entity::PrimaryMap;
use std::sync::Arc;

/// Instructions that a rewritten module may hold; what calls multiply stops here.
const MAX_INSTRUCTIONS: usize = 1 << 20;

/// The instruction under work.
#[derive(Clone, Default)]
struct Origin {
    name: String,
    location: SourceLocation,
    metadata: Option<AttrValue>,
}

/// A computation under construction.
pub(super) struct Draft {
    pub instructions: PrimaryMap<InstructionId, Instruction>,
    names: Names,
    origin: Origin,
}

impl Draft {
    pub fn new() -> Draft {
        Draft { instructions: PrimaryMap::new(), names: Names::default(), origin: Origin::default() }
    }

    /// What is emitted from now on comes from `inst`.
    pub fn work_on(&mut self, inst: &Instruction) {
        let metadata = inst.attrs.get(AttrKey::Metadata).cloned();
        self.origin = Origin { name: inst.name.clone(), location: inst.location, metadata };
    }

    /// Another computation on behalf of the same instruction.
    pub fn beside(&self) -> Draft {
        Draft { origin: self.origin.clone(), ..Draft::new() }
    }

    /// Where the instruction under work stands.
    pub fn site(&self) -> Site {
        Site { instruction: Some(self.origin.name.clone()), location: self.origin.location, length: 0 }
    }

    pub fn unsupported(&self, feature: impl Into<String>) -> Error {
        Error::Unsupported { site: self.site(), feature: feature.into() }
    }

    pub fn internal(&self, what: &str) -> Error {
        Error::Internal(format!("dynamic dimensions of '{}': {what}", self.origin.name))
    }

    /// Stops what grows without bound.
    pub fn check_size(&self) -> Result<()> {
        if self.instructions.len() > MAX_INSTRUCTIONS {
            return Err(self.unsupported(format!("calls that multiply to over {MAX_INSTRUCTIONS} instructions")));
        }
        Ok(())
    }

    /// The finished computation joins the module.
    pub fn finish(self, module: &mut Module, name: String, root: InstructionId) -> ComputationId {
        let order = self.instructions.keys().collect();
        let (trailing, location) = (String::new(), self.origin.location);
        module.computations.push(Computation { name, instructions: self.instructions, order, root, trailing, location })
    }

    pub fn emit(
        &mut self,
        opcode: Opcode,
        shape: impl Into<Shape>,
        operands: Vec<InstructionId>,
        mut attrs: Attrs,
    ) -> InstructionId {
        if let Some(metadata) = &self.origin.metadata {
            attrs.set(AttrKey::Metadata, metadata.clone());
        }
        let name = self.names.take(&self.origin.name);
        let (shape, location) = (shape.into(), self.origin.location);
        self.instructions.push(Instruction { name, shape, opcode, operands, attrs, location })
    }

    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.instructions[id].shape
    }

    /// The shape of an array.
    pub fn array(&self, id: InstructionId) -> Result<ArrayShape> {
        self.shape(id).as_array().cloned().ok_or_else(|| self.internal("an array was expected"))
    }

    pub fn parameter(&mut self, number: usize, shape: Shape) -> InstructionId {
        let attrs = Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(number as i64));
        self.emit(Opcode::Parameter, shape, Vec::new(), attrs)
    }

    pub fn constant(&mut self, literal: ArrayLiteral) -> InstructionId {
        let literal = Literal::Array(literal);
        let shape = literal.shape();
        let attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(Arc::new(literal)));
        self.emit(Opcode::Constant, shape, Vec::new(), attrs)
    }

    /// A scalar of an integer type.
    pub fn int(&mut self, ty: ElementType, value: i64) -> InstructionId {
        let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
        literal.set(0, Scalar::Int(value));
        self.constant(literal)
    }

    /// An `s32` scalar.
    pub fn s32(&mut self, value: i64) -> InstructionId {
        self.int(ElementType::S32, value)
    }

    /// A scalar zero of any type.
    pub fn zero(&mut self, ty: ElementType) -> InstructionId {
        self.constant(ArrayLiteral::zeros(&ArrayShape::new(ty, [])))
    }

    /// An elementwise operation that yields the type of its first operand.
    pub fn op(&mut self, opcode: Opcode, operands: &[InstructionId]) -> InstructionId {
        let shape = operands.first().map_or(Shape::Token, |&o| self.shape(o).clone());
        self.emit(opcode, shape, operands.to_vec(), Attrs::new())
    }

    pub fn add(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Add, &[a, b])
    }

    pub fn subtract(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Subtract, &[a, b])
    }

    pub fn multiply(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Multiply, &[a, b])
    }

    pub fn divide(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Divide, &[a, b])
    }

    pub fn minimum(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Minimum, &[a, b])
    }

    pub fn maximum(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Maximum, &[a, b])
    }

    pub fn and(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::And, &[a, b])
    }

    /// An integer scalar plus a number.
    pub fn add_int(&mut self, a: InstructionId, b: i64) -> Result<InstructionId> {
        if b == 0 {
            return Ok(a);
        }
        let ty = self.array(a)?.ty;
        let b = self.int(ty, b);
        Ok(self.add(a, b))
    }

    /// An integer scalar times a number.
    pub fn times(&mut self, a: InstructionId, b: i64) -> Result<InstructionId> {
        if b == 1 {
            return Ok(a);
        }
        let ty = self.array(a)?.ty;
        let b = self.int(ty, b);
        Ok(self.multiply(a, b))
    }

    /// An integer scalar kept within `low ..= high`.
    pub fn clamp_int(&mut self, a: InstructionId, low: i64, high: i64) -> Result<InstructionId> {
        let ty = self.array(a)?.ty;
        let (low, high) = (self.int(ty, low), self.int(ty, high));
        let a = self.maximum(a, low);
        Ok(self.minimum(a, high))
    }

    /// `direction` between two integers or arrays of integers of one shape.
    pub fn compare(&mut self, direction: &'static str, a: InstructionId, b: InstructionId) -> Result<InstructionId> {
        let shape = self.array(a)?.with_type(ElementType::Pred);
        let attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
        Ok(self.emit(Opcode::Compare, shape, vec![a, b], attrs))
    }

    pub fn select(&mut self, predicate: InstructionId, yes: InstructionId, no: InstructionId) -> InstructionId {
        let shape = self.shape(yes).clone();
        self.emit(Opcode::Select, shape, vec![predicate, yes, no], Attrs::new())
    }

    pub fn convert(&mut self, a: InstructionId, ty: ElementType) -> Result<InstructionId> {
        let shape = self.array(a)?;
        if shape.ty == ty {
            return Ok(a);
        }
        Ok(self.emit(Opcode::Convert, shape.with_type(ty), vec![a], Attrs::new()))
    }

    /// A scalar, or a vector along dimension `along` of the result, broadcast over `dims`.
    pub fn broadcast(&mut self, a: InstructionId, dims: &[i64], along: Option<usize>) -> Result<InstructionId> {
        let ty = self.array(a)?.ty;
        if dims.is_empty() {
            return Ok(a);
        }
        let numbers = along.iter().map(|&d| d as i64).collect();
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(numbers));
        Ok(self.emit(Opcode::Broadcast, ArrayShape::new(ty, dims), vec![a], attrs))
    }

    /// The index along dimension `d` of an array of `dims`.
    pub fn iota(&mut self, ty: ElementType, dims: &[i64], d: usize) -> InstructionId {
        let attrs = Attrs::new().with(AttrKey::IotaDimension, AttrValue::Int(d as i64));
        self.emit(Opcode::Iota, ArrayShape::new(ty, dims), Vec::new(), attrs)
    }

    pub fn reshape(&mut self, a: InstructionId, dims: &[i64]) -> Result<InstructionId> {
        let shape = self.array(a)?;
        if shape.dims == dims {
            return Ok(a);
        }
        Ok(self.emit(Opcode::Reshape, ArrayShape::new(shape.ty, dims), vec![a], Attrs::new()))
    }

    /// Element `k` of a vector, as a scalar.
    pub fn pick(&mut self, vector: InstructionId, k: usize) -> Result<InstructionId> {
        let ty = self.array(vector)?.ty;
        let range = SliceRange { start: k as i64, limit: k as i64 + 1, stride: 1 };
        let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(vec![range]));
        let one = self.emit(Opcode::Slice, ArrayShape::new(ty, [1]), vec![vector], attrs);
        self.reshape(one, &[])
    }

    /// The elements of `a` at the beginning of each dimension.
    pub fn beginning(&mut self, a: InstructionId, dims: &[i64]) -> Result<InstructionId> {
        let ty = self.array(a)?.ty;
        let ranges = dims.iter().map(|&limit| SliceRange { start: 0, limit, stride: 1 }).collect();
        let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
        Ok(self.emit(Opcode::Slice, ArrayShape::new(ty, dims), vec![a], attrs))
    }

    /// Arrays one after another along dimension `d`.
    pub fn concatenate(&mut self, parts: Vec<InstructionId>, d: usize) -> Result<InstructionId> {
        let Some(&first) = parts.first() else { return Err(self.internal("nothing to concatenate")) };
        let mut shape = self.array(first)?;
        let mut total = 0i64;
        for &part in &parts {
            total = total.saturating_add(self.array(part)?.dims.get(d).copied().unwrap_or(0));
        }
        if let Some(size) = shape.dims.get_mut(d) {
            *size = total;
        }
        if parts.len() == 1 {
            return Ok(first);
        }
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(vec![d as i64]));
        Ok(self.emit(Opcode::Concatenate, shape, parts, attrs))
    }

    /// The box of `sizes` at `starts`.
    pub fn dynamic_slice(
        &mut self,
        a: InstructionId,
        starts: &[InstructionId],
        sizes: &[i64],
    ) -> Result<InstructionId> {
        let ty = self.array(a)?.ty;
        let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(sizes.to_vec()));
        let operands = std::iter::once(a).chain(starts.iter().copied()).collect();
        Ok(self.emit(Opcode::DynamicSlice, ArrayShape::new(ty, sizes), operands, attrs))
    }

    /// `a` with `update` written over it at `starts`.
    pub fn dynamic_update_slice(
        &mut self,
        a: InstructionId,
        update: InstructionId,
        starts: &[InstructionId],
    ) -> InstructionId {
        let shape = self.shape(a).clone();
        let operands = [a, update].into_iter().chain(starts.iter().copied()).collect();
        self.emit(Opcode::DynamicUpdateSlice, shape, operands, Attrs::new())
    }

    /// The slices of `a` across dimension `d` that the vector `indices` names, in its order. Indices outside name the
    /// nearest slice.
    pub fn take(&mut self, a: InstructionId, d: usize, indices: InstructionId) -> Result<InstructionId> {
        let shape = self.array(a)?;
        let count = self.array(indices)?.dims.first().copied().unwrap_or(0);
        let mut dims = shape.dims.clone();
        let mut sizes = shape.dims.clone();
        let (Some(size), Some(one)) = (dims.get_mut(d), sizes.get_mut(d)) else {
            return Err(self.internal("no such dimension"));
        };
        if *one == 0 {
            return Err(self.unsupported("elements of an empty dimension"));
        }
        (*size, *one) = (count, 1);
        let others: Vec<i64> = (0..shape.rank()).filter(|&k| k != d).map(|k| k as i64).collect();
        let attrs = Attrs::new()
            .with(AttrKey::OffsetDims, AttrValue::Ints(others))
            .with(AttrKey::CollapsedSliceDims, AttrValue::Ints(vec![d as i64]))
            .with(AttrKey::StartIndexMap, AttrValue::Ints(vec![d as i64]))
            .with(AttrKey::IndexVectorDim, AttrValue::Int(1))
            .with(AttrKey::SliceSizes, AttrValue::Ints(sizes));
        Ok(self.emit(Opcode::Gather, ArrayShape::new(shape.ty, dims), vec![a, indices], attrs))
    }

    /// The elements of the vector `a` at `indices`, which may have any rank.
    pub fn look_up(&mut self, a: InstructionId, indices: InstructionId) -> Result<InstructionId> {
        let (ty, at) = (self.array(a)?.ty, self.array(indices)?);
        let attrs = Attrs::new()
            .with(AttrKey::OffsetDims, AttrValue::Ints(Vec::new()))
            .with(AttrKey::CollapsedSliceDims, AttrValue::Ints(vec![0]))
            .with(AttrKey::StartIndexMap, AttrValue::Ints(vec![0]))
            .with(AttrKey::IndexVectorDim, AttrValue::Int(at.rank() as i64))
            .with(AttrKey::SliceSizes, AttrValue::Ints(vec![1]));
        Ok(self.emit(Opcode::Gather, ArrayShape::new(ty, at.dims), vec![a, indices], attrs))
    }

    pub fn tuple(&mut self, parts: Vec<InstructionId>) -> InstructionId {
        let shape = Shape::Tuple(parts.iter().map(|&p| self.shape(p).clone()).collect());
        self.emit(Opcode::Tuple, shape, parts, Attrs::new())
    }

    pub fn element(&mut self, tuple: InstructionId, index: usize) -> Result<InstructionId> {
        let shape = self.shape(tuple).as_tuple().and_then(|t| t.get(index)).cloned();
        let shape = shape.ok_or_else(|| self.internal("no such element"))?;
        let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(index as i64));
        Ok(self.emit(Opcode::GetTupleElement, shape, vec![tuple], attrs))
    }

    /// Which elements of an array of `dims` lie below every given size; `None` where there is no size.
    pub fn valid(&mut self, dims: &[i64], sizes: &[Option<InstructionId>]) -> Result<Option<InstructionId>> {
        let mut all = None;
        for (d, size) in sizes.iter().enumerate() {
            let Some(size) = *size else { continue };
            let index = self.iota(ElementType::S32, dims, d);
            let size = self.broadcast(size, dims, None)?;
            let below = self.compare("LT", index, size)?;
            all = Some(match all {
                Some(all) => self.and(all, below),
                None => below,
            });
        }
        Ok(all)
    }

    /// `a` with `fill`, a scalar, past any given size.
    pub fn masked(
        &mut self,
        a: InstructionId,
        sizes: &[Option<InstructionId>],
        fill: InstructionId,
    ) -> Result<InstructionId> {
        let dims = self.array(a)?.dims;
        match self.valid(&dims, sizes)? {
            Some(valid) => {
                let ty = self.array(a)?.ty;
                let fill = self.convert(fill, ty)?;
                let fill = self.broadcast(fill, &dims, None)?;
                Ok(self.select(valid, a, fill))
            }
            None => Ok(a),
        }
    }
}
