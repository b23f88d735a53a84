//! Operations on integers and truth values.
//!
//! Invariant: values are computed in 64 bits with wrapping and cut to their width by the caller. Division by zero
//! yields all ones, its remainder the dividend; a shift by the width or more shifts everything out.

use crate::hlo::Opcode;
use brolga_runtime::{ElementType, Scalar};

/// The element's bits, zero-extended.
fn bits_of(value: Scalar, ty: ElementType) -> u64 {
    let shift = 64 - width(ty);
    value.integer_bits() << shift >> shift
}

/// The width of the arithmetic: a truth value has one bit.
fn width(ty: ElementType) -> u32 {
    if ty == ElementType::Pred { 1 } else { ty.bits() }
}

/// The bits that `popcnt` counts. XLA counts an `s4` in the byte that holds it, copies of its sign included.
fn counted(value: Scalar, ty: ElementType) -> u64 {
    if ty == ElementType::S4 { value.integer_bits() & 0xff } else { bits_of(value, ty) }
}

pub(super) fn unary(opcode: Opcode, a: Scalar, ty: ElementType) -> Option<Scalar> {
    let bits = a.integer_bits();
    let signed = matches!(a, Scalar::Int(_));
    let value = match opcode {
        Opcode::Abs if signed => (bits as i64).wrapping_abs() as u64,
        Opcode::Abs => bits,
        Opcode::Negate => bits.wrapping_neg(),
        Opcode::Not => !bits,
        Opcode::PopulationCount => u64::from(counted(a, ty).count_ones()),
        Opcode::Clz => u64::from(bits_of(a, ty).leading_zeros() - (64 - width(ty))),
        Opcode::Sign if signed => (bits as i64).signum() as u64,
        Opcode::Sign => u64::from(bits != 0),
        _ => return None,
    };
    Some(match a {
        Scalar::Int(_) => Scalar::Int(value as i64),
        Scalar::UInt(_) => Scalar::UInt(value),
        // The low bit: not(true) is false.
        _ => Scalar::Pred(value & 1 == 1),
    })
}

pub(super) fn binary(opcode: Opcode, a: Scalar, b: Scalar, ty: ElementType) -> Option<Scalar> {
    match (a, b) {
        // A computation over signed integers may be applied to narrower unsigned ones.
        (Scalar::Int(_), Scalar::UInt(_)) | (Scalar::UInt(_), Scalar::Int(_)) => {
            binary(opcode, Scalar::Int(a.integer_bits() as i64), Scalar::Int(b.integer_bits() as i64), ty)
        }
        (Scalar::Int(x), Scalar::Int(y)) => match opcode {
            Opcode::Divide if y == 0 => Some(-1),
            Opcode::Divide => Some(x.wrapping_div(y)),
            Opcode::Remainder if y == 0 => Some(x),
            Opcode::Remainder => Some(x.wrapping_rem(y)),
            Opcode::Maximum => Some(x.max(y)),
            Opcode::Minimum => Some(x.min(y)),
            Opcode::Mulhi => Some(((i128::from(x) * i128::from(y)) >> ty.bits()) as i64),
            Opcode::Power => Some(signed_power(x, y)),
            _ => common(opcode, a, b, ty).map(|v| v as i64),
        }
        .map(Scalar::Int),
        (Scalar::UInt(x), Scalar::UInt(y)) => match opcode {
            Opcode::Divide => Some(x.checked_div(y).unwrap_or(u64::MAX)),
            Opcode::Remainder => Some(x.checked_rem(y).unwrap_or(x)),
            Opcode::Maximum => Some(x.max(y)),
            Opcode::Minimum => Some(x.min(y)),
            Opcode::Mulhi => Some(((u128::from(x) * u128::from(y)) >> ty.bits()) as u64),
            Opcode::Power => Some(power(x, y)),
            _ => common(opcode, a, b, ty),
        }
        .map(Scalar::UInt),
        (Scalar::Pred(x), Scalar::Pred(y)) => Some(Scalar::Pred(match opcode {
            Opcode::Add | Opcode::Or | Opcode::Maximum => x | y,
            Opcode::Multiply | Opcode::And | Opcode::Minimum => x & y,
            Opcode::Xor | Opcode::Subtract => x ^ y,
            _ => return None,
        })),
        _ => None,
    }
}

/// Operations that do not care for the sign.
fn common(opcode: Opcode, a: Scalar, b: Scalar, ty: ElementType) -> Option<u64> {
    let (x, y) = (a.integer_bits(), b.integer_bits());
    // A negative shift amount is a huge one.
    let amount = bits_of(b, ty);
    let past = amount >= u64::from(width(ty));
    Some(match opcode {
        Opcode::Add => x.wrapping_add(y),
        Opcode::Subtract => x.wrapping_sub(y),
        Opcode::Multiply => x.wrapping_mul(y),
        Opcode::And => x & y,
        Opcode::Or => x | y,
        Opcode::Xor => x ^ y,
        Opcode::ShiftLeft | Opcode::ShiftRightLogical if past => 0,
        Opcode::ShiftLeft => x << amount,
        Opcode::ShiftRightLogical => bits_of(a, ty) >> amount,
        Opcode::ShiftRightArithmetic => {
            // Unsigned elements too shift in their top bit.
            let up = 64 - width(ty);
            let extended = (x << up) as i64 >> up;
            (extended >> amount.min(63)) as u64
        }
        _ => return None,
    })
}

fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1u64;
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// A negative exponent leaves only the powers of 1 and -1 whole; all others are cut to zero.
fn signed_power(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (_, 0..) => power(base as u64, exponent as u64) as i64,
        (1, _) => 1,
        (-1, _) => {
            if exponent & 1 == 0 {
                1
            } else {
                -1
            }
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s8(opcode: Opcode, a: i64, b: i64) -> Option<Scalar> {
        binary(opcode, Scalar::Int(a), Scalar::Int(b), ElementType::S8).map(|v| v.round_to(ElementType::S8))
    }

    #[test]
    fn the_edges_of_integer_arithmetic() {
        assert_eq!(s8(Opcode::Divide, 5, 0), Some(Scalar::Int(-1)));
        assert_eq!(s8(Opcode::Divide, -128, -1), Some(Scalar::Int(-128)));
        assert_eq!(s8(Opcode::Remainder, -128, -1), Some(Scalar::Int(0)));
        assert_eq!(s8(Opcode::Remainder, 5, 0), Some(Scalar::Int(5)));
        assert_eq!(s8(Opcode::ShiftLeft, 1, 8), Some(Scalar::Int(0)));
        assert_eq!(s8(Opcode::ShiftLeft, 1, -1), Some(Scalar::Int(0)));
        assert_eq!(s8(Opcode::ShiftRightArithmetic, -2, 100), Some(Scalar::Int(-1)));
        assert_eq!(s8(Opcode::ShiftRightLogical, -1, 7), Some(Scalar::Int(1)));
        assert_eq!(s8(Opcode::Power, -1, -3), Some(Scalar::Int(-1)));
        assert_eq!(s8(Opcode::Mulhi, -128, 127), Some(Scalar::Int(-64)));
        assert_eq!(unary(Opcode::Clz, Scalar::Int(-1), ElementType::S4), Some(Scalar::Int(0)));
        assert_eq!(unary(Opcode::Clz, Scalar::UInt(1), ElementType::U16), Some(Scalar::UInt(15)));
        assert_eq!(unary(Opcode::Clz, Scalar::Int(1), ElementType::S4), Some(Scalar::Int(3)));
        assert_eq!(unary(Opcode::Clz, Scalar::UInt(0), ElementType::U2), Some(Scalar::UInt(2)));
        assert_eq!(unary(Opcode::PopulationCount, Scalar::Int(-8), ElementType::S4), Some(Scalar::Int(5)));
        assert_eq!(unary(Opcode::PopulationCount, Scalar::Int(-2), ElementType::S2), Some(Scalar::Int(1)));
        assert_eq!(unary(Opcode::Not, Scalar::Pred(true), ElementType::Pred), Some(Scalar::Pred(false)));
    }
}
