//! Batch normalization, by the specification's formulas. Of dynamic dimensions the true sizes are what is divided by.

use super::sizes::size;
use crate::error::{Error, Result};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, SourceLocation,
};
use crate::passes::rewrite::{Rewriter, fresh_computation_name};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Shape};
use cranelift_entity::PrimaryMap;
use hashbrown::HashMap;

/// The computations that add two numbers of a type, made when first asked for.
#[derive(Default)]
pub struct Sums(HashMap<ElementType, ComputationId>);

impl Sums {
    /// The one of a type.
    pub fn of(&mut self, module: &mut Module, ty: ElementType) -> ComputationId {
        *self.0.entry(ty).or_insert_with(|| {
            let mut instructions = PrimaryMap::new();
            let mut push = |name: &str, opcode, operands, attrs| {
                let (shape, location) = (Shape::scalar(ty), SourceLocation::default());
                instructions.push(Instruction { name: name.to_owned(), shape, opcode, operands, attrs, location })
            };
            let number = |n| Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(n));
            let a = push("a", Opcode::Parameter, Vec::new(), number(0));
            let b = push("b", Opcode::Parameter, Vec::new(), number(1));
            let root = push("sum", Opcode::Add, vec![a, b], Attrs::new());
            let id = module.computations.push(Computation {
                name: fresh_computation_name(module, &format!("sum_{ty}")),
                instructions,
                order: vec![a, b, root],
                root,
                trailing: String::new(),
                location: SourceLocation::default(),
            });
            module.order.insert(0, id);
            id
        })
    }
}

/// What the three forms share: the operand's shape and the type to compute in.
struct Norm<'a, 'm> {
    rw: &'a mut Rewriter<'m>,
    operand: InstructionId,
    shape: ArrayShape,
    feature: i64,
    epsilon: f64,
    sums: &'a mut Sums,
}

impl<'a, 'm> Norm<'a, 'm> {
    /// The frame of an expansion and its operands, widened.
    fn new(
        rw: &'a mut Rewriter<'m>,
        id: InstructionId,
        sums: &'a mut Sums,
    ) -> Result<Option<(Self, Vec<InstructionId>)>> {
        let instruction = rw.instruction(id);
        let operand = rw.operand(id, 0)?;
        let feature = instruction.attrs.int(AttrKey::FeatureIndex).unwrap_or(0);
        let epsilon = instruction.attrs.float(AttrKey::Epsilon).unwrap_or(0.0);
        let Some(array) = rw.array(operand).filter(|a| a.ty.is_float()) else { return Ok(None) };
        if usize::try_from(feature).ok().is_none_or(|f| f >= array.rank()) {
            return Err(Error::Invalid {
                site: rw.site(id),
                constraint: "batch-norm.feature-index",
                message: format!("feature_index={feature} names no dimension of {array:#}"),
            });
        }
        let ty = if array.ty == ElementType::F64 { ElementType::F64 } else { ElementType::F32 };
        let shape = array.with_type(ty);
        let operands = instruction.operands.clone();
        let operands = operands.into_iter().map(|o| rw.convert(o, ty)).collect();
        Ok(Some((Norm { rw, operand, shape, feature, epsilon, sums }, operands)))
    }

    fn op(&mut self, opcode: Opcode, operands: &[InstructionId]) -> InstructionId {
        self.rw.elementwise(opcode, operands.to_vec())
    }

    fn number(&self, value: f64) -> ArrayLiteral {
        match self.shape.ty {
            ElementType::F64 => ArrayLiteral::scalar(value),
            _ => ArrayLiteral::scalar(value as f32),
        }
    }

    /// An array like `like`, filled with `value`.
    fn filled(&mut self, value: f64, like: InstructionId) -> InstructionId {
        let shape = self.rw.array(like).unwrap_or(&self.shape).clone();
        let literal = self.number(value);
        self.rw.splat(literal, &shape)
    }

    /// A value per feature, repeated over the operand's shape.
    fn broadcast(&mut self, value: InstructionId) -> InstructionId {
        let (shape, feature) = (self.shape.clone(), self.feature);
        self.rw.broadcast(value, &shape, vec![feature])
    }

    /// The sum of each feature.
    fn sum(&mut self, value: InstructionId) -> InstructionId {
        let ty = self.shape.ty;
        let zero = self.number(0.0);
        let zero = self.rw.constant(Literal::Array(zero));
        let callee = self.sums.of(self.rw.module, ty);
        let rank = self.shape.rank() as i64;
        let others = (0..rank).filter(|&d| d != self.feature).collect();
        let feature = self.feature as usize;
        let mut features = ArrayShape::new(ty, [self.shape.dims[feature]]);
        features.dynamic[0] = self.shape.dynamic[feature];
        let attrs = Attrs::new()
            .with(AttrKey::Dimensions, AttrValue::Ints(others))
            .with(AttrKey::ToApply, AttrValue::Computation(callee));
        self.rw.emit(Opcode::Reduce, features.into(), vec![value, zero], attrs)
    }

    /// How many elements each feature has, an array like `like`.
    fn count(&mut self, like: InstructionId) -> InstructionId {
        let (dynamic, fixed): (Vec<usize>, Vec<usize>) =
            (0..self.shape.rank()).filter(|&d| d as i64 != self.feature).partition(|&d| self.shape.dynamic[d]);
        let fixed: f64 = fixed.into_iter().map(|d| self.shape.dims[d] as f64).product();
        if dynamic.is_empty() {
            return self.filled(fixed, like);
        }
        let literal = self.number(fixed);
        let mut count = self.rw.constant(Literal::Array(literal));
        for d in dynamic {
            let size = size(self.rw, self.operand, d, self.shape.ty);
            count = self.op(Opcode::Multiply, &[count, size]);
        }
        let shape = self.rw.array(like).unwrap_or(&self.shape).clone();
        self.rw.broadcast_scalar(count, &shape)
    }

    /// The mean of each feature.
    fn mean(&mut self, value: InstructionId) -> InstructionId {
        let sum = self.sum(value);
        let count = self.count(sum);
        self.op(Opcode::Divide, &[sum, count])
    }

    /// `variance + epsilon`.
    fn padded(&mut self, variance: InstructionId) -> InstructionId {
        let epsilon = self.filled(self.epsilon, variance);
        self.op(Opcode::Add, &[variance, epsilon])
    }

    /// `scale * (x - mean) / sqrt(variance + epsilon) + offset`.
    fn normalized(
        &mut self,
        centred: InstructionId,
        variance: InstructionId,
        scale: InstructionId,
        offset: InstructionId,
    ) -> InstructionId {
        let padded = self.padded(variance);
        let root = self.op(Opcode::Sqrt, &[padded]);
        let (root, scale, offset) = (self.broadcast(root), self.broadcast(scale), self.broadcast(offset));
        let scaled = self.op(Opcode::Multiply, &[scale, centred]);
        let divided = self.op(Opcode::Divide, &[scaled, root]);
        self.op(Opcode::Add, &[divided, offset])
    }

    fn centred(&mut self, x: InstructionId, mean: InstructionId) -> InstructionId {
        let mean = self.broadcast(mean);
        self.op(Opcode::Subtract, &[x, mean])
    }

    /// The tuple that `id` yields, its elements narrowed again.
    fn results(self, id: InstructionId, parts: &[InstructionId]) -> Option<InstructionId> {
        let shapes = self.rw.shape(id).as_tuple()?.to_vec();
        let mut out = Vec::with_capacity(parts.len());
        for (&part, shape) in parts.iter().zip(&shapes) {
            out.push(self.rw.convert(part, shape.as_array()?.ty));
        }
        Some(self.rw.tuple(out))
    }
}

/// Mean and variance of the batch, and the operand normalized by them.
pub fn training(rw: &mut Rewriter<'_>, id: InstructionId, sums: &mut Sums) -> Result<Option<InstructionId>> {
    let Some((mut norm, operands)) = Norm::new(rw, id, sums)? else { return Ok(None) };
    let [x, scale, offset] = operands[..] else { return Ok(None) };
    let mean = norm.mean(x);
    let centred = norm.centred(x, mean);
    let square = norm.op(Opcode::Multiply, &[centred, centred]);
    let variance = norm.mean(square);
    let y = norm.normalized(centred, variance, scale, offset);
    Ok(norm.results(id, &[y, mean, variance]))
}

/// The operand normalized by given mean and variance.
pub fn inference(rw: &mut Rewriter<'_>, id: InstructionId, sums: &mut Sums) -> Result<Option<InstructionId>> {
    let Some((mut norm, operands)) = Norm::new(rw, id, sums)? else { return Ok(None) };
    let [x, scale, offset, mean, variance] = operands[..] else { return Ok(None) };
    let centred = norm.centred(x, mean);
    let y = norm.normalized(centred, variance, scale, offset);
    let Some(ty) = norm.rw.array(id).map(|a| a.ty) else { return Ok(None) };
    Ok(Some(norm.rw.convert(y, ty)))
}

/// The gradients of operand, scale and offset.
pub fn grad(rw: &mut Rewriter<'_>, id: InstructionId, sums: &mut Sums) -> Result<Option<InstructionId>> {
    let Some((mut norm, operands)) = Norm::new(rw, id, sums)? else { return Ok(None) };
    let [x, scale, mean, variance, dy] = operands[..] else { return Ok(None) };
    let centred = norm.centred(x, mean);
    let padded = norm.padded(variance);
    let root = norm.op(Opcode::Sqrt, &[padded]);
    let weighted = norm.op(Opcode::Multiply, &[dy, centred]);
    let (offset_grad, weighted_sum) = (norm.sum(dy), norm.sum(weighted));
    let scale_grad = norm.op(Opcode::Divide, &[weighted_sum, root]);
    // scale / sqrt(v + e) / n * (n * dy - sum(dy) - (x - mean) * sum(dy * (x - mean)) / (v + e))
    let all = norm.count(dy);
    let all_dy = norm.op(Opcode::Multiply, &[all, dy]);
    let share = norm.broadcast(offset_grad);
    let slope = norm.op(Opcode::Divide, &[weighted_sum, padded]);
    let slope = norm.broadcast(slope);
    let tilt = norm.op(Opcode::Multiply, &[centred, slope]);
    let rest = norm.op(Opcode::Subtract, &[all_dy, share]);
    let rest = norm.op(Opcode::Subtract, &[rest, tilt]);
    let factor = norm.op(Opcode::Divide, &[scale, root]);
    let n = norm.count(factor);
    let factor = norm.op(Opcode::Divide, &[factor, n]);
    let factor = norm.broadcast(factor);
    let operand_grad = norm.op(Opcode::Multiply, &[factor, rest]);
    Ok(norm.results(id, &[operand_grad, scale_grad, offset_grad]))
}
