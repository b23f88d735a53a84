//! Elementwise operations of HLO, lowered to primitive nodes.
//!
//! Problem: some seventy operations on thirty types, with defined results where machines differ. Invariant: operands
//! and result are in the compute types of [`super::storage`], small integers in the range of their type; results are
//! those of the interpreter, floats within the bounds of [`super::math`]. Algorithm: one function a kind of operand
//! (truth value, integer, float), conversions apart; what a machine leaves undefined (a zero divisor, the one quotient
//! that overflows, a shift past the width) is kept away by selects on the operands.

mod complex;
mod convert;
mod float;
mod integer;

pub use complex::{Parts, lower_complex};
pub use convert::convert;

use super::body::{Body, FloatCond, IntCond, NodeId, ScalarType, Variant};
use super::storage;
use crate::hlo::{AttrKey, Attrs, ComparisonDirection, Opcode};
use brolga_runtime::{ElementType, Kind};

/// What the lowering must know about the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ElementwiseContext {
    /// With or without fused multiply-add in expansions.
    pub variant: Variant,
    /// Whether narrow floats are rounded after each operation, not only where they are stored.
    pub strict_rounding: bool,
}

/// The operation has no lowering: what is missing, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

type Lowered = Result<NodeId, Unsupported>;

fn unsupported(opcode: Opcode, ty: ElementType) -> Unsupported {
    Unsupported(format!("'{opcode}' on {ty}"))
}

/// Lowers one elementwise operation on real types. Operands and result are in their types' compute types.
pub fn lower(
    b: &mut Body,
    cx: &ElementwiseContext,
    opcode: Opcode,
    attrs: &Attrs,
    operand_types: &[ElementType],
    result_type: ElementType,
    operands: &[NodeId],
) -> Result<NodeId, Unsupported> {
    let Some(&first_type) = operand_types.first() else {
        return Err(Unsupported(format!("'{opcode}' without operands")));
    };
    if !opcode.arity().allows(operands.len()) || operand_types.len() != operands.len() {
        return Err(Unsupported(format!("'{opcode}' with {} operands", operands.len())));
    }
    if result_type.is_complex() || operand_types.iter().any(|ty| ty.is_complex()) {
        return Err(unsupported(opcode, if first_type.is_complex() { first_type } else { result_type }));
    }
    // The type that decides what is computed: of select, that of the values.
    let ty = match opcode {
        Opcode::Select => operand_types[1],
        _ => first_type,
    };
    let value = match opcode {
        Opcode::Convert => return Ok(convert(b, first_type, result_type, operands[0])),
        Opcode::Compare => compare(b, attrs, ty, operands[0], operands[1])?,
        Opcode::Select => {
            let scalar = b.scalar(operands[1]);
            let mask = b.mask_cast(operands[0], scalar.mask());
            b.select(mask, operands[1], operands[2])
        }
        Opcode::StochasticConvert => {
            return convert::stochastic(b, ty, operand_types[1], result_type, operands[0], operands[1]);
        }
        Opcode::Real => operands[0],
        Opcode::Imag => {
            let scalar = b.scalar(operands[0]);
            b.bits(scalar, 0)
        }
        _ => match ty.kind() {
            Kind::Pred => pred(b, opcode, operands)?,
            Kind::Signed | Kind::Unsigned => integer::lower(b, opcode, ty, operands)?,
            Kind::Float | Kind::Complex => {
                let value = float::lower(b, cx.variant, opcode, attrs, ty, operands)?;
                let rounds = cx.strict_rounding || opcode == Opcode::ReducePrecision;
                match rounds && result_type.is_float() {
                    true => storage::round_to(b, result_type, value),
                    false => storage::without_negative_zero(b, result_type, value),
                }
            }
        },
    };
    let scalar = b.scalar(value);
    Ok(if scalar == ScalarType::M64 { b.mask_cast(value, ScalarType::M32) } else { value })
}

/// Truth values: sums are `or`, products are `and`.
fn pred(b: &mut Body, opcode: Opcode, operands: &[NodeId]) -> Lowered {
    Ok(match (opcode, operands) {
        (Opcode::Add | Opcode::Or | Opcode::Maximum, &[x, y]) => b.or(x, y),
        (Opcode::Multiply | Opcode::And | Opcode::Minimum, &[x, y]) => b.and(x, y),
        (Opcode::Xor | Opcode::Subtract, &[x, y]) => b.xor(x, y),
        (Opcode::Not, &[x]) => b.not(x),
        (Opcode::Abs | Opcode::Sign | Opcode::Negate | Opcode::PopulationCount, &[x]) => x,
        (Opcode::Clamp, &[low, x, high]) => {
            let x = b.or(low, x);
            b.and(x, high)
        }
        _ => return Err(unsupported(opcode, ElementType::Pred)),
    })
}

/// The direction that a comparison says.
fn direction(attrs: &Attrs) -> Result<ComparisonDirection, Unsupported> {
    let word = || attrs.word(AttrKey::Direction).unwrap_or_default();
    ComparisonDirection::of(attrs).ok_or_else(|| Unsupported(format!("'compare' with the direction {}", word())))
}

fn float_condition(direction: ComparisonDirection) -> FloatCond {
    match direction {
        ComparisonDirection::Eq => FloatCond::Eq,
        ComparisonDirection::Ne => FloatCond::Ne,
        ComparisonDirection::Lt => FloatCond::Lt,
        ComparisonDirection::Le => FloatCond::Le,
        ComparisonDirection::Gt => FloatCond::Gt,
        ComparisonDirection::Ge => FloatCond::Ge,
    }
}

fn integer_condition(direction: ComparisonDirection, signed: bool) -> IntCond {
    match (direction, signed) {
        (ComparisonDirection::Eq, _) => IntCond::Eq,
        (ComparisonDirection::Ne, _) => IntCond::Ne,
        (ComparisonDirection::Lt, true) => IntCond::SLt,
        (ComparisonDirection::Le, true) => IntCond::SLe,
        (ComparisonDirection::Gt, true) => IntCond::SGt,
        (ComparisonDirection::Ge, true) => IntCond::SGe,
        (ComparisonDirection::Lt, false) => IntCond::ULt,
        (ComparisonDirection::Le, false) => IntCond::ULe,
        (ComparisonDirection::Gt, false) => IntCond::UGt,
        (ComparisonDirection::Ge, false) => IntCond::UGe,
    }
}

/// A comparison, as a mask.
fn compare(b: &mut Body, attrs: &Attrs, ty: ElementType, x: NodeId, y: NodeId) -> Lowered {
    let direction = direction(attrs)?;
    let total = attrs.word(AttrKey::ComparisonType) == Some("TOTALORDER");
    if ty.is_float() && !total {
        return Ok(b.fcmp(float_condition(direction), x, y));
    }
    let (x, y) = match ty.kind() {
        Kind::Pred => (b.mask_to_int(x), b.mask_to_int(y)),
        Kind::Float => (total_order_key(b, x), total_order_key(b, y)),
        Kind::Signed | Kind::Unsigned | Kind::Complex => (x, y),
    };
    let signed = ty.is_signed_integer() || ty.is_float();
    Ok(b.icmp(integer_condition(direction, signed), x, y))
}

/// A signed integer that orders as the float does: -NaN < -inf < .. < -0 < +0 < .. < inf < NaN.
pub fn total_order_key(b: &mut Body, x: NodeId) -> NodeId {
    let scalar = b.scalar(x).integer();
    let bits = b.bitcast(x, scalar);
    let sign = b.ashr_imm(bits, (scalar.bits() - 1) as u8);
    let magnitude = b.lshr_imm(sign, 1);
    b.xor(bits, magnitude)
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
