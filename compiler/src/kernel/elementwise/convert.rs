//! Conversions between real types.
//!
//! To an integer: toward zero, limited to the type's range, NaN to 0; between integers the low bits stay; to a float
//! the nearest, ties to even, rounded once even where the way leads through a wider float; to `pred`: whether not zero.

use super::super::body::{Body, FloatCond, IntCond, NodeId, Op, ScalarType};
use super::super::{math, storage};
use super::{Lowered, Unsupported, integer};
use brolga_runtime::{ElementType, Kind};

/// `x` of type `from` as a value of type `to`; both are real, values in their compute types.
pub fn convert(b: &mut Body, from: ElementType, to: ElementType, x: NodeId) -> NodeId {
    if from == to {
        return x;
    }
    match (from.kind(), to.kind()) {
        (Kind::Pred, Kind::Float) => {
            let scalar = storage::compute_type(to);
            let (one, zero) = (b.float(scalar, 1.0), b.float(scalar, 0.0));
            let value = b.select(x, one, zero);
            // Only f8e8m0fnu cannot hold both.
            if to == ElementType::F8E8M0Fnu { storage::round_to(b, to, value) } else { value }
        }
        (Kind::Pred, _) => {
            let scalar = storage::compute_type(to);
            let mask = b.mask_cast(x, scalar.mask());
            let value = b.mask_to_int(mask);
            storage::wrap_integer(b, to, value)
        }
        (Kind::Signed | Kind::Unsigned, Kind::Pred) => {
            let scalar = b.scalar(x);
            let zero = b.int(scalar, 0);
            let mask = b.icmp(IntCond::Ne, x, zero);
            b.mask_cast(mask, ScalarType::M32)
        }
        (Kind::Signed | Kind::Unsigned, Kind::Float) => integer_to_float(b, from, to, x),
        (Kind::Signed | Kind::Unsigned, _) => integer::resize(b, from, to, x),
        (_, Kind::Pred) => {
            let scalar = b.scalar(x);
            let zero = b.float(scalar, 0.0);
            let mask = b.fcmp(FloatCond::Ne, x, zero);
            b.mask_cast(mask, ScalarType::M32)
        }
        (_, Kind::Float) => float_to_float(b, from, to, x),
        _ => float_to_integer(b, to, x),
    }
}

fn integer_to_float(b: &mut Body, from: ElementType, to: ElementType, x: NodeId) -> NodeId {
    let signed = from.is_signed_integer();
    // Narrower integers are never negative as 32-bit ones where they have no sign, and signed conversions are cheaper.
    let op = if signed || from.bits() < 32 { Op::SToF } else { Op::UToF };
    if to == ElementType::F64 {
        return b.convert(op, x, ScalarType::F64);
    }
    if to == ElementType::F32 || from.bits() < 24 {
        let value = b.convert(op, x, ScalarType::F32);
        return if to == ElementType::F32 { value } else { storage::round_to(b, to, value) };
    }
    // A wide integer to a narrow float: through f64, with what f64 cannot hold pressed into its last bit.
    let x = if from.bits() == 64 { squeeze(b, signed, x) } else { x };
    let wide = b.convert(op, x, ScalarType::F64);
    let odd = storage::demote_to_odd(b, wide);
    storage::round_to(b, to, odd)
}

/// A 64-bit integer with at most 53 significant bits that rounds to few bits as `x` does.
fn squeeze(b: &mut Body, signed: bool, x: NodeId) -> NodeId {
    let drop = if signed { 11 } else { 12 };
    let low = b.i64((1 << drop) - 1);
    let rest = b.and(x, low);
    let high = b.i64(-1 << drop);
    let high = b.and(x, high);
    let zero = b.i64(0);
    let some = b.icmp(IntCond::Ne, rest, zero);
    let sticky = b.i64(1 << (drop - 1));
    let sticky = b.select(some, sticky, zero);
    let squeezed = b.or(high, sticky);
    // Where x fits as it is nothing may be dropped: |x| below 2^53.
    let limit = b.i64(1 << 53);
    let twice = b.i64(1 << 54);
    let small = if signed {
        let shifted = b.iadd(x, limit);
        b.icmp(IntCond::ULt, shifted, twice)
    } else {
        b.icmp(IntCond::ULt, x, limit)
    };
    b.select(small, x, squeezed)
}

fn float_to_float(b: &mut Body, from: ElementType, to: ElementType, x: NodeId) -> NodeId {
    match (from, to) {
        (ElementType::F64, ElementType::F32) => b.convert(Op::Demote, x, ScalarType::F32),
        (ElementType::F64, _) => {
            let odd = storage::demote_to_odd(b, x);
            storage::round_to(b, to, odd)
        }
        (_, ElementType::F64) => b.convert(Op::Promote, x, ScalarType::F64),
        (_, ElementType::F32) => x,
        _ => storage::round_to(b, to, x),
    }
}

fn float_to_integer(b: &mut Body, to: ElementType, x: NodeId) -> NodeId {
    let signed = to.is_signed_integer();
    let scalar = storage::compute_type(to);
    if to.bits() >= 32 {
        return b.convert(if signed { Op::FToS } else { Op::FToU }, x, scalar);
    }
    // The limits are exact floats, and between them the conversion is always exact.
    let bits = to.bits();
    let (low, high) = if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
    let from_type = b.scalar(x);
    let (low, high) = (b.float(from_type, low as f64), b.float(from_type, high as f64));
    let ordered = b.fcmp(FloatCond::Eq, x, x);
    let zero = b.float(from_type, 0.0);
    let x = b.select(ordered, x, zero);
    let x = b.fmax_pseudo(x, low);
    let x = b.fmin_pseudo(x, high);
    let op = if from_type == ScalarType::F32 { Op::FToSFast } else { Op::FToS };
    b.convert(op, x, ScalarType::I32)
}

/// Conversion that rounds away from zero with a probability of the part cut off.
pub(super) fn stochastic(
    b: &mut Body,
    from: ElementType,
    random_type: ElementType,
    to: ElementType,
    x: NodeId,
    random: NodeId,
) -> Lowered {
    if !from.is_float() || !random_type.is_unsigned_integer() {
        return Err(Unsupported(format!("'stochastic-convert' from {from} to {to} with {random_type}")));
    }
    let random = RandomBits { value: random, bits: random_type.bits() };
    match to.kind() {
        Kind::Signed | Kind::Unsigned => Ok(stochastic_integer(b, to, x, &random)),
        Kind::Float => Ok(stochastic_float(b, from, to, x, &random)),
        _ => Err(Unsupported(format!("'stochastic-convert' to {to}"))),
    }
}

/// The random operand and the width of its type.
struct RandomBits {
    value: NodeId,
    bits: u32,
}

impl RandomBits {
    /// Whether the bits are below a part of one, cut to as many bits.
    fn below(&self, b: &mut Body, part: NodeId) -> NodeId {
        let scalar = b.scalar(part);
        let scale = b.float(scalar, 2f64.powi(self.bits as i32));
        let scaled = b.fmul(part, scale);
        let random_type = b.scalar(self.value);
        let threshold = b.convert(Op::FToU, scaled, random_type);
        b.icmp(IntCond::ULt, self.value, threshold)
    }
}

fn stochastic_integer(b: &mut Body, to: ElementType, x: NodeId, random: &RandomBits) -> NodeId {
    let scalar = b.scalar(x);
    let size = b.fabs(x);
    let whole = b.floor(size);
    let fraction = b.fsub(size, whole);
    let up = random.below(b, fraction);
    let (one, zero) = (b.float(scalar, 1.0), b.float(scalar, 0.0));
    let step = b.select(up, one, zero);
    let rounded = b.fadd(whole, step);
    let value = math::copysign(b, rounded, x);
    // Infinity less itself is no fraction: what is not finite converts as it is.
    let finite = math::is_finite(b, x);
    let value = b.select(finite, value, x);
    float_to_integer(b, to, value)
}

/// Strictly between two finite numbers of the type the random bits choose; elsewhere it is the plain conversion.
fn stochastic_float(b: &mut Body, from: ElementType, to: ElementType, x: NodeId, random: &RandomBits) -> NodeId {
    let plain = convert(b, from, to, x);
    if from == to || to == ElementType::F64 {
        return plain;
    }
    let scalar = b.scalar(x);
    let widen = |b: &mut Body, v: NodeId| if scalar == ScalarType::F64 { b.convert(Op::Promote, v, scalar) } else { v };
    let size = b.fabs(x);
    // The codes of positive numbers are in their order.
    let nearest = convert(b, from, to, size);
    let code = storage::to_bits(b, to, nearest);
    let nearest = widen(b, nearest);
    let above = b.fcmp(FloatCond::Gt, nearest, size);
    let above = b.mask_cast(above, ScalarType::M32);
    let (one, zero) = (b.i32(1), b.i32(0));
    let step = b.select(above, one, zero);
    let code = b.isub(code, step);
    let low = storage::from_bits(b, to, code);
    let code = b.iadd(code, one);
    let high = storage::from_bits(b, to, code);
    let (wide_low, wide_high) = (widen(b, low), widen(b, high));
    let rest = b.fsub(size, wide_low);
    let gap = b.fsub(wide_high, wide_low);
    let part = b.fdiv(rest, gap);
    let up = random.below(b, part);
    let up = b.mask_cast(up, ScalarType::M32);
    let rounded = b.select(up, high, low);
    let from_low = b.fcmp(FloatCond::Lt, wide_low, size);
    let to_high = b.fcmp(FloatCond::Lt, size, wide_high);
    let infinity = b.float(scalar, f64::INFINITY);
    let finite = b.fcmp(FloatCond::Lt, wide_high, infinity);
    let between = b.and(from_low, to_high);
    let between = b.and(between, finite);
    let between = b.mask_cast(between, ScalarType::M32);
    let negative = b.float(scalar, 0.0);
    let negative = b.fcmp(FloatCond::Lt, x, negative);
    let negative = b.mask_cast(negative, ScalarType::M32);
    let minus = b.fneg(rounded);
    let rounded = b.select(negative, minus, rounded);
    // Formats without negative numbers or without a negative zero.
    let rounded = storage::round_to(b, to, rounded);
    b.select(between, rounded, plain)
}
