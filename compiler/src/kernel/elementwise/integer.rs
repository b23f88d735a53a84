//! Integers of every width: computed in 32 or 64 bits, wrapped to the type.

use super::super::body::{Body, IntCond, NodeId, Op, ScalarType};
use super::super::math::division;
use super::super::storage::wrap_integer;
use super::{Lowered, unsupported};
use crate::hlo::Opcode;
use brolga_runtime::ElementType;

pub(super) fn lower(b: &mut Body, opcode: Opcode, ty: ElementType, operands: &[NodeId]) -> Lowered {
    let signed = ty.is_signed_integer();
    let value = match (opcode, operands) {
        (Opcode::Add, &[x, y]) => b.iadd(x, y),
        (Opcode::Subtract, &[x, y]) => b.isub(x, y),
        (Opcode::Multiply, &[x, y]) => b.imul(x, y),
        (Opcode::Divide, &[x, y]) => divide(b, signed, x, y),
        (Opcode::Remainder, &[x, y]) => return Ok(remainder(b, signed, x, y)),
        (Opcode::Maximum, &[x, y]) => return Ok(maximum(b, signed, x, y)),
        (Opcode::Minimum, &[x, y]) => return Ok(minimum(b, signed, x, y)),
        (Opcode::Clamp, &[low, x, high]) => {
            let x = maximum(b, signed, low, x);
            return Ok(minimum(b, signed, x, high));
        }
        (Opcode::And, &[x, y]) => return Ok(b.and(x, y)),
        (Opcode::Or, &[x, y]) => return Ok(b.or(x, y)),
        (Opcode::Xor, &[x, y]) => return Ok(b.xor(x, y)),
        (Opcode::Not, &[x]) => b.not(x),
        (Opcode::Negate, &[x]) => {
            let zero = zero_like(b, x);
            b.isub(zero, x)
        }
        (Opcode::Abs, &[x]) if signed => {
            let zero = zero_like(b, x);
            let minus = b.isub(zero, x);
            b.smax(x, minus)
        }
        (Opcode::Abs, &[x]) => return Ok(x),
        (Opcode::Sign, &[x]) => {
            let scalar = b.scalar(x);
            let one = b.int(scalar, 1);
            if !signed {
                return Ok(b.umin(x, one));
            }
            let minus_one = b.int(scalar, -1);
            let x = b.smax(x, minus_one);
            // A type of one bit has no 1, only -1.
            b.smin(x, one)
        }
        (Opcode::PopulationCount, &[x]) => {
            let x = counted(b, ty, x);
            population_count(b, x)
        }
        (Opcode::Clz, &[x]) => {
            let x = unsigned(b, ty, x);
            leading_zeros(b, ty.bits(), x)
        }
        (Opcode::Mulhi, &[x, y]) => multiply_high(b, ty, x, y),
        (Opcode::ShiftLeft, &[x, by]) => shift(b, (Op::Shl, Op::ShlImm), ty, x, by),
        (Opcode::ShiftRightLogical, &[x, by]) => {
            let x = unsigned(b, ty, x);
            shift(b, (Op::LShr, Op::LShrImm), ty, x, by)
        }
        (Opcode::ShiftRightArithmetic, &[x, by]) => {
            let x = sign_extended(b, ty, x);
            shift(b, (Op::AShr, Op::AShrImm), ty, x, by)
        }
        (Opcode::Power, &[x, y]) => power(b, ty, x, y),
        (Opcode::RoundNearestAfz | Opcode::RoundNearestEven | Opcode::Floor | Opcode::Ceil, &[x]) => return Ok(x),
        _ => return Err(unsupported(opcode, ty)),
    };
    Ok(wrap_integer(b, ty, value))
}

fn zero_like(b: &mut Body, x: NodeId) -> NodeId {
    let scalar = b.scalar(x);
    b.int(scalar, 0)
}

/// The type's bits, the scalar type's other bits zero.
fn unsigned(b: &mut Body, ty: ElementType, x: NodeId) -> NodeId {
    if ty.bits() >= 32 || ty.is_unsigned_integer() {
        return x;
    }
    let mask = b.i32((1 << ty.bits()) - 1);
    b.and(x, mask)
}

/// The bits that `popcnt` counts. XLA counts an `s4` in the byte that holds it, copies of its sign included.
fn counted(b: &mut Body, ty: ElementType, x: NodeId) -> NodeId {
    if ty != ElementType::S4 {
        return unsigned(b, ty, x);
    }
    let byte = b.i32(0xff);
    b.and(x, byte)
}

/// The type's bits, extended by the highest of them.
fn sign_extended(b: &mut Body, ty: ElementType, x: NodeId) -> NodeId {
    if ty.bits() >= 32 || ty.is_signed_integer() {
        return x;
    }
    let spare = (32 - ty.bits()) as u8;
    let high = b.shl_imm(x, spare);
    b.ashr_imm(high, spare)
}

fn maximum(b: &mut Body, signed: bool, x: NodeId, y: NodeId) -> NodeId {
    if signed { b.smax(x, y) } else { b.umax(x, y) }
}

fn minimum(b: &mut Body, signed: bool, x: NodeId, y: NodeId) -> NodeId {
    if signed { b.smin(x, y) } else { b.umin(x, y) }
}

/// A divisor that the machine can divide by: 1 in place of 0, and of -1 where the type is signed. Beside it, where the
/// divisor was 0 and where -1. A constant divisor needs neither; see [`division`] for those that are not 1.
fn safe_divisor(b: &mut Body, signed: bool, y: NodeId) -> (NodeId, Option<NodeId>, Option<NodeId>) {
    let scalar = b.scalar(y);
    let (zero, one, minus_one) = (b.int(scalar, 0), b.int(scalar, 1), b.int(scalar, -1));
    let known = b.constant_bits(y);
    if known.is_some_and(|bits| bits != 0 && (!signed || Some(bits) != b.constant_bits(minus_one))) {
        return (y, None, None);
    }
    let by_zero = b.icmp(IntCond::Eq, y, zero);
    let safe = b.select(by_zero, one, y);
    if !signed {
        return (safe, Some(by_zero), None);
    }
    let by_minus_one = b.icmp(IntCond::Eq, y, minus_one);
    (b.select(by_minus_one, one, safe), Some(by_zero), Some(by_minus_one))
}

/// The quotient toward zero: all ones where the divisor is zero, the dividend where the quotient would overflow.
fn divide(b: &mut Body, signed: bool, x: NodeId, y: NodeId) -> NodeId {
    if let Some(quotient) = division::quotient(b, signed, x, y) {
        return quotient;
    }
    let (safe, by_zero, by_minus_one) = safe_divisor(b, signed, y);
    let mut quotient = if signed { b.sdiv(x, safe) } else { b.udiv(x, safe) };
    if let Some(mask) = by_minus_one {
        let zero = zero_like(b, x);
        let minus = b.isub(zero, x);
        quotient = b.select(mask, minus, quotient);
    }
    if let Some(mask) = by_zero {
        let scalar = b.scalar(x);
        let all = b.int(scalar, -1);
        quotient = b.select(mask, all, quotient);
    }
    quotient
}

/// The remainder with the dividend's sign: the dividend where the divisor is zero.
fn remainder(b: &mut Body, signed: bool, x: NodeId, y: NodeId) -> NodeId {
    if let Some(remainder) = division::remainder(b, signed, x, y) {
        return remainder;
    }
    let (safe, by_zero, _) = safe_divisor(b, signed, y);
    // By 1 in place of -1 the remainder is 0 just the same.
    let remainder = if signed { b.srem(x, safe) } else { b.urem(x, safe) };
    match by_zero {
        Some(mask) => b.select(mask, x, remainder),
        None => remainder,
    }
}

/// A shift by any amount, taken as an unsigned number: past the width nothing is left but, of an arithmetic shift,
/// the sign. `op` shifts by a node, `immediate` by a number.
fn shift(b: &mut Body, (op, immediate): (Op, fn(u8) -> Op), ty: ElementType, x: NodeId, by: NodeId) -> NodeId {
    let scalar = b.scalar(x);
    let width = i64::from(ty.bits());
    let last = b.int(scalar, width - 1);
    let arithmetic = op == Op::AShr;
    let amount = b.umin(by, last);
    let shifted = match b.constant_bits(amount) {
        Some(n) => b.push(immediate(n as u8), &[x], scalar),
        None => b.push(op, &[x, amount], scalar),
    };
    if arithmetic {
        return shifted;
    }
    let past = b.icmp(IntCond::UGt, by, last);
    let zero = b.int(scalar, 0);
    b.select(past, zero, shifted)
}

/// Set bits, by sums in ever wider fields: vectors have no instruction for it.
fn population_count(b: &mut Body, x: NodeId) -> NodeId {
    let scalar = b.scalar(x);
    let repeat = |b: &mut Body, byte: u8| b.int(scalar, i64::from_le_bytes([byte; 8]));
    let (m1, m2, m4) = (repeat(b, 0x55), repeat(b, 0x33), repeat(b, 0x0f));
    let half = b.lshr_imm(x, 1);
    let half = b.and(half, m1);
    let pairs = b.isub(x, half);
    let upper = b.lshr_imm(pairs, 2);
    let (lower, upper) = (b.and(pairs, m2), b.and(upper, m2));
    let fours = b.iadd(lower, upper);
    let upper = b.lshr_imm(fours, 4);
    let bytes = b.iadd(fours, upper);
    let mut sum = b.and(bytes, m4);
    let mut by = 8;
    while by < scalar.bits() {
        let upper = b.lshr_imm(sum, by as u8);
        sum = b.iadd(sum, upper);
        by *= 2;
    }
    let mask = b.int(scalar, 0x7f);
    b.and(sum, mask)
}

/// Leading zeros within the width. Of a 32-bit type, the exponent of the number as a float tells its highest bit, once the bit behind
/// that is clear, so that rounding carries nothing up; of zero it is the least, and with the top bit goes a sign, which leaves less than
/// none. Of a longer scalar type, the highest bit is copied to all bits on its right, and what stays clear is counted.
fn leading_zeros(b: &mut Body, width: u32, x: NodeId) -> NodeId {
    let scalar = b.scalar(x);
    if scalar == ScalarType::I32 {
        let above = b.lshr_imm(x, 1);
        let below = b.not(above);
        let alone = b.and(x, below);
        let float = b.convert(Op::SToF, alone, ScalarType::F32);
        let bits = b.bitcast(float, ScalarType::I32);
        let exponent = b.lshr_imm(bits, 23);
        let [first, all, none] = [126 + i64::from(width), i64::from(width), 0].map(|v| b.int(scalar, v));
        let zeros = b.isub(first, exponent);
        let zeros = b.smin(zeros, all);
        return b.smax(zeros, none);
    }
    let mut smeared = x;
    let mut by = 1;
    while by < width {
        let right = b.lshr_imm(smeared, by as u8);
        smeared = b.or(smeared, right);
        by *= 2;
    }
    let used = population_count(b, smeared);
    let width = b.int(scalar, i64::from(width));
    b.isub(width, used)
}

fn multiply_high(b: &mut Body, ty: ElementType, x: NodeId, y: NodeId) -> NodeId {
    let signed = ty.is_signed_integer();
    if ty.bits() >= 32 {
        return if signed { b.smulhi(x, y) } else { b.umulhi(x, y) };
    }
    let product = b.imul(x, y);
    if signed { b.ashr_imm(product, ty.bits() as u8) } else { b.lshr_imm(product, ty.bits() as u8) }
}

/// Integer power by repeated squaring, one step a bit of the exponent. Negative exponents give 0 but for the bases 1
/// and -1.
fn power(b: &mut Body, ty: ElementType, x: NodeId, y: NodeId) -> NodeId {
    let scalar = b.scalar(x);
    let signed = ty.is_signed_integer();
    let (zero, one) = (b.int(scalar, 0), b.int(scalar, 1));
    let mut result = one;
    let mut square = x;
    let digits = ty.bits() - u32::from(signed);
    let known = if signed { None } else { b.constant_bits(y) }.or_else(|| {
        let bits = b.constant_bits(y)?;
        (bits >> (scalar.bits() - 1) & 1 == 0).then_some(bits)
    });
    for i in 0..digits {
        if known.is_some_and(|bits| bits >> i == 0) {
            break;
        }
        let bit = b.lshr_imm(y, i as u8);
        let bit = b.and(bit, one);
        let set = b.icmp(IntCond::Ne, bit, zero);
        let product = b.imul(result, square);
        result = match b.constant_bits(set) {
            Some(0) => result,
            Some(_) => product,
            None => b.select(set, product, result),
        };
        if i + 1 < digits {
            square = b.imul(square, square);
        }
    }
    if !signed || known.is_some() {
        return result;
    }
    let minus_one = b.int(scalar, -1);
    let odd = b.and(y, one);
    let odd = b.icmp(IntCond::Ne, odd, zero);
    let of_minus_one = b.select(odd, minus_one, one);
    let is_minus_one = b.icmp(IntCond::Eq, x, minus_one);
    let is_one = b.icmp(IntCond::Eq, x, one);
    let other = b.select(is_one, one, zero);
    let inverse = b.select(is_minus_one, of_minus_one, other);
    let negative = b.icmp(IntCond::SLt, y, zero);
    b.select(negative, inverse, result)
}

/// An integer of one type as one of another: the low bits, extended by the new type's sign.
pub(super) fn resize(b: &mut Body, from: ElementType, to: ElementType, x: NodeId) -> NodeId {
    let wide = to.bits() == 64;
    match (from.bits() == 64, wide) {
        (false, true) => b.convert(if from.is_signed_integer() { Op::SExt } else { Op::UExt }, x, ScalarType::I64),
        (true, true) => x,
        (from_wide, false) => {
            let x = if from_wide { b.convert(Op::Wrap, x, ScalarType::I32) } else { x };
            let fits = !from_wide
                && (from.bits() < to.bits() && (from.is_unsigned_integer() || to.is_signed_integer())
                    || from.bits() == to.bits() && from.is_signed_integer() == to.is_signed_integer());
            if fits { x } else { wrap_integer(b, to, x) }
        }
    }
}
