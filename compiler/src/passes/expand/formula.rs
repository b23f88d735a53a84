//! Arithmetic on whole arrays, written down as a formula is.
//!
//! Problem: an expansion into arithmetic is a page of operations on arrays of one shape, and the shapes hide the
//! arithmetic. Algorithm: a [`Formula`] knows the dimensions; constants and scalars are broadcast over them where asked,
//! operations take their shape from their operands, so that what is one number for the whole array is computed once,
//! as a scalar, and broadcast afterwards.

use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode, SliceRange};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};

/// A rank-0 constant.
pub fn scalar(rw: &mut Rewriter<'_>, ty: ElementType, value: Scalar) -> InstructionId {
    let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
    literal.set(0, value);
    rw.constant(Literal::Array(literal))
}

/// Element `k` of a vector, as a scalar.
pub fn pick(rw: &mut Rewriter<'_>, vector: InstructionId, k: i64) -> InstructionId {
    let one = slice(rw, vector, 0, k, k + 1);
    rw.reshape(one, &[])
}

/// Elements `start` up to `limit` along dimension `d`; the operand itself where that is all of it.
pub fn slice(rw: &mut Rewriter<'_>, x: InstructionId, d: usize, start: i64, limit: i64) -> InstructionId {
    every(rw, x, d, SliceRange { start, limit, stride: 1 })
}

/// The elements of a range along dimension `d`; the operand itself where that is all of it.
pub fn every(rw: &mut Rewriter<'_>, x: InstructionId, d: usize, of: SliceRange) -> InstructionId {
    let Some(array) = rw.array(x).cloned() else { return x };
    let mut ranges: Vec<SliceRange> =
        array.dims.iter().map(|&limit| SliceRange { start: 0, limit, stride: 1 }).collect();
    let mut dims = array.dims;
    let (Some(range), Some(size)) = (ranges.get_mut(d), dims.get_mut(d)) else { return x };
    if of == (SliceRange { start: 0, limit: *size, stride: 1 }) {
        return x;
    }
    (*range, *size) = (of, (of.limit - of.start + of.stride - 1) / of.stride);
    let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
    rw.emit(Opcode::Slice, Shape::array(array.ty, dims), vec![x], attrs)
}

/// Arrays of one shape, position by position along dimension `d`: the first of each, then the second of each.
pub fn interleaved(rw: &mut Rewriter<'_>, parts: Vec<InstructionId>, d: usize) -> InstructionId {
    let Some(mut dims) = parts.first().map(|&p| rw.dims(p).to_vec()).filter(|dims| d < dims.len()) else {
        return rw.tuple(parts);
    };
    let mut thick = dims.clone();
    thick.insert(d + 1, 1);
    dims[d] *= parts.len() as i64;
    let parts = parts.into_iter().map(|p| rw.reshape(p, &thick)).collect();
    let together = concatenate(rw, parts, d + 1);
    rw.reshape(together, &dims)
}

/// Arrays one behind another along dimension `d`.
pub fn concatenate(rw: &mut Rewriter<'_>, parts: Vec<InstructionId>, d: usize) -> InstructionId {
    if let [only] = parts[..] {
        return only;
    }
    let total = parts.iter().filter_map(|&p| rw.dims(p).get(d)).sum();
    let Some(mut shape) = parts.first().and_then(|&p| rw.array(p)).map(|a| a.with_type(a.ty)) else {
        return rw.tuple(parts);
    };
    if let Some(size) = shape.dims.get_mut(d) {
        *size = total;
    }
    let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(vec![d as i64]));
    rw.emit(Opcode::Concatenate, Shape::Array(shape), parts, attrs)
}

/// The position of each element along dimension `d`, as a number.
pub fn iota(rw: &mut Rewriter<'_>, ty: ElementType, dims: &[i64], d: usize) -> InstructionId {
    let attrs = Attrs::new().with(AttrKey::IotaDimension, AttrValue::Int(d as i64));
    rw.emit(Opcode::Iota, Shape::array(ty, dims), Vec::new(), attrs)
}

/// A comparison of two arrays of one shape.
pub fn compare(rw: &mut Rewriter<'_>, a: InstructionId, direction: &'static str, b: InstructionId) -> InstructionId {
    let shape = rw.array(a).map_or(Shape::scalar(ElementType::Pred), |s| s.with_type(ElementType::Pred).into());
    let attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
    rw.emit(Opcode::Compare, shape, vec![a, b], attrs)
}

/// Arithmetic on arrays of one shape.
pub struct Formula<'a, 'm> {
    /// What emits.
    pub rw: &'a mut Rewriter<'m>,
    /// The dimensions.
    pub dims: Vec<i64>,
}

impl<'a, 'm> Formula<'a, 'm> {
    /// Formulas over arrays of these dimensions.
    pub fn new(rw: &'a mut Rewriter<'m>, dims: &[i64]) -> Self {
        Formula { rw, dims: dims.to_vec() }
    }

    /// A scalar, broadcast over the array.
    pub fn broadcast(&mut self, scalar: InstructionId) -> InstructionId {
        let ty = self.rw.array(scalar).map_or(ElementType::Pred, |a| a.ty);
        let shape = ArrayShape::new(ty, self.dims.clone());
        self.rw.broadcast_scalar(scalar, &shape)
    }

    /// A number, broadcast over the array.
    pub fn number(&mut self, ty: ElementType, value: Scalar) -> InstructionId {
        let scalar = scalar(self.rw, ty, value);
        self.broadcast(scalar)
    }

    /// A number of the type and the rank of `like`, which is an array of the formula or a scalar.
    pub fn beside(&mut self, like: InstructionId, value: Scalar) -> InstructionId {
        let Some(shape) = self.rw.array(like).cloned() else { return like };
        let scalar = scalar(self.rw, shape.ty, value);
        self.rw.broadcast_scalar(scalar, &shape)
    }

    /// An operation whose result is like its first operand.
    pub fn op(&mut self, opcode: Opcode, operands: &[InstructionId]) -> InstructionId {
        self.rw.elementwise(opcode, operands.to_vec())
    }

    /// `a + b`
    pub fn add(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Add, &[a, b])
    }

    /// `a - b`
    pub fn sub(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Subtract, &[a, b])
    }

    /// `a * b`
    pub fn mul(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Multiply, &[a, b])
    }

    /// The high half of `a * b`.
    pub fn mul_high(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Mulhi, &[a, b])
    }

    /// `a ^ b`
    pub fn xor(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.op(Opcode::Xor, &[a, b])
    }

    /// `x << by`
    pub fn shl(&mut self, x: InstructionId, by: u32) -> InstructionId {
        let by = self.beside(x, Scalar::UInt(u64::from(by)));
        self.op(Opcode::ShiftLeft, &[x, by])
    }

    /// `x >> by`, zeros from above.
    pub fn shr(&mut self, x: InstructionId, by: u32) -> InstructionId {
        let by = self.beside(x, Scalar::UInt(u64::from(by)));
        self.op(Opcode::ShiftRightLogical, &[x, by])
    }

    /// `x` as another type, by value.
    pub fn convert(&mut self, x: InstructionId, ty: ElementType) -> InstructionId {
        self.rw.convert(x, ty)
    }

    /// `a < b`
    pub fn less(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        compare(self.rw, a, "LT", b)
    }

    /// `yes` where `condition`, else `no`.
    pub fn select(&mut self, condition: InstructionId, yes: InstructionId, no: InstructionId) -> InstructionId {
        let shape = self.rw.shape(yes).without_layout();
        self.rw.emit(Opcode::Select, shape, vec![condition, yes, no], Attrs::new())
    }

    /// The low and the high word of 64-bit numbers.
    pub fn halves(&mut self, x: InstructionId) -> [InstructionId; 2] {
        let high = self.shr(x, 32);
        [x, high].map(|half| self.convert(half, ElementType::U32))
    }

    /// Two words as 64-bit numbers.
    pub fn join(&mut self, low: InstructionId, high: InstructionId) -> InstructionId {
        let [low, high] = [low, high].map(|half| self.convert(half, ElementType::U64));
        let high = self.shl(high, 32);
        self.op(Opcode::Or, &[low, high])
    }
}
