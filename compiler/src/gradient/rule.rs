//! What a rule sees and gives.

use super::reach::Node;
use crate::builder::{At, Builder, Op, scalar_computation};
use crate::error::{Error, Result, Site};
use crate::hlo::{AttrKey, Attrs, Instruction, Module, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Scalar, Shape};

/// The cotangent of a value: an array for each leaf of its shape, nothing where it is zero.
pub(super) type Cotangent = Vec<Option<Op>>;

/// A contribution: the number of the operand, the number of its leaf, the value.
pub(super) type Given = (usize, usize, Op);

/// The rules of all opcodes as one: it finds that of the instruction and follows it.
///
/// They are a value, which the walk backwards is given and every rule carries on, because some rules walk backwards
/// themselves: over what stands in a loop or a branch, or what they build instead. Any opcode may stand there, so a
/// walk that named the rules would name all families, and these the walk.
pub(super) type Rules = fn(&mut Rule<'_>) -> Result<()>;

/// An instruction with the cotangent of its value, and what its rule gives the operands.
pub(super) struct Rule<'b> {
    pub b: &'b Builder,
    pub at: At,
    pub rules: Rules,
    /// The value.
    pub op: Op,
    pub instruction: Instruction,
    pub operands: Vec<Op>,
    pub cotangent: Cotangent,
    wanted: Vec<Vec<bool>>,
    given: Vec<Given>,
}

impl<'b> Rule<'b> {
    pub fn new(
        b: &'b Builder,
        at: At,
        rules: Rules,
        node: Node,
        wanted: Vec<Vec<bool>>,
        cotangent: Cotangent,
    ) -> Rule<'b> {
        let Node { op, instruction, operands, .. } = node;
        Rule { b, at, rules, op, instruction, operands, cotangent, wanted, given: Vec::new() }
    }

    /// Whether anything needs the cotangent of operand `i`.
    pub fn wants(&self, i: usize) -> bool {
        self.wanted.get(i).is_some_and(|leaves| leaves.contains(&true))
    }

    /// Whether anything needs the cotangent of leaf `leaf` of operand `i`.
    pub fn wants_leaf(&self, i: usize, leaf: usize) -> bool {
        self.wanted.get(i).and_then(|leaves| leaves.get(leaf)) == Some(&true)
    }

    /// Which leaves of operand `i` anything needs the cotangents of.
    pub fn wanted(&self, i: usize) -> &[bool] {
        self.wanted.get(i).map_or(&[], |w| w)
    }

    /// Operand `i`.
    pub fn operand(&self, i: usize) -> Result<Op> {
        self.operands.get(i).copied().ok_or_else(|| self.broken("has too few operands"))
    }

    /// The cotangent of a value that is an array.
    pub fn array_cotangent(&self) -> Result<Op> {
        match self.cotangent[..] {
            [Some(cotangent)] => Ok(cotangent),
            _ => Err(self.broken("has a cotangent that is no array")),
        }
    }

    /// Contributes to operand `i`, an array.
    pub fn give(&mut self, i: usize, value: Op) {
        self.give_leaf(i, 0, value);
    }

    /// Contributes to a leaf of operand `i`. Where operations mix element types, the operand's own is taken.
    pub fn give_leaf(&mut self, i: usize, leaf: usize, value: Op) {
        if !self.wants_leaf(i, leaf) {
            return;
        }
        let ty = |shape: Result<Shape>| Some(shape.ok()?.leaf(leaf)?.as_array()?.ty);
        let wanted = self.operands.get(i).and_then(|&o| ty(self.b.shape(o)));
        let found = self.b.shape(value).ok().and_then(|s| Some(s.as_array()?.ty));
        let value = match (wanted, found) {
            (Some(to), Some(from)) if to != from => convert(self.b, value, from, to),
            _ => value,
        };
        self.given.push((i, leaf, value));
    }

    /// The shape of an array.
    pub fn shape(&self, op: Op) -> Result<ArrayShape> {
        self.shape_in(self.b, op)
    }

    /// The shape of an array of another builder.
    pub fn shape_in(&self, b: &Builder, op: Op) -> Result<ArrayShape> {
        match b.shape(op)? {
            Shape::Array(a) => Ok(a),
            other => Err(self.broken(&format!("has an operand that is no array but {other:#}"))),
        }
    }

    /// The attributes.
    pub fn attrs(&self) -> &Attrs {
        &self.instruction.attrs
    }

    /// The computation that attribute `key` names.
    pub fn callee(&self, key: AttrKey) -> Result<Module> {
        let id = self.attrs().computation(key).ok_or_else(|| self.broken("names no computation"))?;
        self.b.called(id)
    }

    /// A scalar constant of the element type of `like`.
    pub fn number(&self, like: Op, value: f64) -> Result<Op> {
        Ok(number(self.b, self.shape(like)?.ty, value))
    }

    /// The sum over `dims`.
    pub fn sum(&self, op: Op, dims: &[i64]) -> Result<Op> {
        self.fold(Opcode::Add, op, dims)
    }

    /// The sum over all dimensions.
    pub fn sum_all(&self, op: Op) -> Result<Op> {
        let all: Vec<i64> = (0..self.shape(op)?.rank() as i64).collect();
        self.sum(op, &all)
    }

    /// The sum or product over `dims`.
    pub fn fold(&self, opcode: Opcode, op: Op, dims: &[i64]) -> Result<Op> {
        if dims.is_empty() {
            return Ok(op);
        }
        let ty = self.shape(op)?.ty;
        let neutral = if opcode == Opcode::Multiply { self.b.one(ty) } else { self.b.zero(ty) };
        Ok(self.b.reduce(op, neutral, &scalar_computation(opcode, ty)?, dims))
    }

    /// What the operands were given.
    pub fn given(self) -> Vec<Given> {
        self.given
    }

    fn site(&self) -> Site {
        Site { instruction: Some(self.instruction.name.clone()), location: self.instruction.location, length: 0 }
    }

    /// The error of an operation that has no derivative here, in some form.
    pub fn refuse(&self, what: &str) -> Error {
        let feature = format!("the gradient of {} {what}", self.instruction.opcode);
        Error::Unsupported { site: self.site(), feature }
    }

    /// The error of an operation that has no derivative here.
    pub fn no_rule(&self) -> Error {
        let feature = format!("the gradient of {}", self.instruction.opcode);
        Error::Unsupported { site: self.site(), feature }
    }

    /// The error of an instruction that the shape rules should have refused.
    pub fn broken(&self, what: &str) -> Error {
        Error::Internal(format!("gradient: '{}' {what}", self.instruction.name))
    }
}

/// A scalar constant of a floating-point or complex type.
pub(super) fn number(b: &Builder, ty: ElementType, value: f64) -> Op {
    let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
    literal.set(0, Scalar::Float(value).round_to(ty));
    b.constant_literal(literal)
}

/// An array of one value of the type of `scalar`.
pub(super) fn full(b: &Builder, shape: &ArrayShape, scalar: Op) -> Op {
    if shape.rank() == 0 { scalar } else { b.broadcast(scalar, &shape.dims) }
}

/// Zeros of a shape.
pub(super) fn zeros(b: &Builder, shape: &ArrayShape) -> Op {
    full(b, shape, b.zero(shape.ty))
}

/// The cotangent of a conversion: to a real type of a complex one goes the real part.
pub(super) fn convert(b: &Builder, value: Op, from: ElementType, to: ElementType) -> Op {
    let value = if from.is_complex() && !to.is_complex() { b.real(value) } else { value };
    b.convert_element_type(value, to)
}
