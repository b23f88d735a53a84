//! Elementwise operations: a product with the derivative at each place.
//!
//! Cotangents of complex values are not conjugated: for `f` with complex derivative `f'` the operand gets `cotangent * f'`,
//! which is JAX's convention.

use super::rule::{Rule, full, number, zeros};
use crate::builder::Op;
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, Opcode};
use std::f64::consts::FRAC_2_SQRT_PI;

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.operands.len() {
        1 => unary(r),
        2 => binary(r),
        _ => ternary(r),
    }
}

fn unary(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, x, y) = (r.b, r.array_cotangent()?, r.operand(0)?, r.op);
    let given = match r.instruction.opcode {
        Opcode::Negate => b.neg(ct),
        Opcode::Abs => return absolute(r),
        Opcode::Convert => ct,
        Opcode::ReducePrecision => {
            let bits = |key| r.attrs().int(key).unwrap_or(0);
            b.reduce_precision(ct, bits(AttrKey::ExponentBits), bits(AttrKey::MantissaBits))
        }
        Opcode::Real => match r.shape(x)?.ty.is_complex() {
            true => b.complex(ct, zeros(b, &r.shape(ct)?)),
            false => ct,
        },
        Opcode::Imag => match r.shape(x)?.ty.is_complex() {
            true => b.complex(zeros(b, &r.shape(ct)?), b.neg(ct)),
            false => return Ok(()),
        },
        opcode => {
            let one = r.number(x, 1.0)?;
            let square = || b.mul(x, x);
            // 1 - x and 1 + x, whose product keeps what 1 - x * x loses near one.
            let (minus, plus) = (|| b.sub(one, x), || b.add(one, x));
            let factor = match opcode {
                Opcode::Exp => y,
                Opcode::Expm1 => b.add(y, one),
                Opcode::Log => b.div(one, x),
                Opcode::Log1p => b.div(one, plus()),
                Opcode::Sqrt => b.div(r.number(x, 0.5)?, y),
                Opcode::Rsqrt => b.mul(r.number(x, -0.5)?, b.div(y, x)),
                Opcode::Cbrt => b.div(r.number(x, 1.0 / 3.0)?, b.mul(y, y)),
                Opcode::Tanh => b.mul(b.sub(one, y), b.add(one, y)),
                Opcode::Tan => b.add(one, b.mul(y, y)),
                Opcode::Sin => b.cos(x),
                Opcode::Cos => b.neg(b.sin(x)),
                Opcode::Sinh => b.cosh(x),
                Opcode::Cosh => b.sinh(x),
                Opcode::Logistic => b.mul(y, b.sub(one, y)),
                Opcode::Erf => b.mul(r.number(x, FRAC_2_SQRT_PI)?, b.exp(b.neg(square()))),
                Opcode::Asin => b.rsqrt(b.mul(minus(), plus())),
                Opcode::Acos => b.neg(b.rsqrt(b.mul(minus(), plus()))),
                Opcode::Asinh => b.rsqrt(b.add(square(), one)),
                // Two roots: of a complex number the root of the product may lie on the other branch.
                Opcode::Acosh => b.mul(b.rsqrt(b.sub(x, one)), b.rsqrt(plus())),
                Opcode::Atanh => b.div(one, b.mul(minus(), plus())),
                _ => return Err(r.no_rule()),
            };
            b.mul(ct, factor)
        }
    };
    r.give(0, given);
    Ok(())
}

/// One at zero, of reals as in JAX; zero of complex numbers.
fn absolute(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, x) = (r.b, r.array_cotangent()?, r.operand(0)?);
    let ty = r.shape(x)?.ty;
    let given = if ty.is_complex() {
        let size = b.select(b.eq(r.op, r.number(r.op, 0.0)?), ones_like(r, r.op)?, r.op);
        let share = b.div(ct, size);
        b.complex(b.mul(share, b.real(x)), b.neg(b.mul(share, b.imag(x))))
    } else {
        b.select(b.ge(x, r.number(x, 0.0)?), ct, b.neg(ct))
    };
    r.give(0, given);
    Ok(())
}

fn ones_like(r: &Rule<'_>, op: Op) -> Result<Op> {
    let shape = r.shape(op)?;
    Ok(full(r.b, &shape, number(r.b, shape.ty, 1.0)))
}

fn zeros_like(r: &Rule<'_>, op: Op) -> Result<Op> {
    Ok(zeros(r.b, &r.shape(op)?))
}

fn binary(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, x, y) = (r.b, r.array_cotangent()?, r.operand(0)?, r.operand(1)?);
    let (left, right) = (r.wants(0), r.wants(1));
    let opcode = r.instruction.opcode;
    // What each operand gets, built where it is wanted.
    let (mut to_x, mut to_y) = (None, None);
    match opcode {
        Opcode::Add => (to_x, to_y) = (Some(ct), Some(ct)),
        // On the average it is the identity; what chooses the rounding is a number of bits.
        Opcode::StochasticConvert => to_x = Some(ct),
        Opcode::Subtract => {
            to_x = Some(ct);
            to_y = right.then(|| b.neg(ct));
        }
        Opcode::Multiply => {
            to_x = left.then(|| b.mul(ct, y));
            to_y = right.then(|| b.mul(ct, x));
        }
        Opcode::Divide => {
            to_x = left.then(|| b.div(ct, y));
            to_y = right.then(|| b.neg(b.mul(ct, b.div(r.op, y))));
        }
        Opcode::Remainder => {
            to_x = Some(ct);
            if right {
                // The whole quotient, rounded towards zero.
                let quotient = b.div(x, y);
                to_y = Some(b.neg(b.mul(ct, b.mul(b.sign(quotient), b.floor(b.abs(quotient))))));
            }
        }
        Opcode::Power => {
            if left {
                let zero = r.number(y, 0.0)?;
                let slope = b.mul(y, b.pow(x, b.sub(y, r.number(y, 1.0)?)));
                // x to the power zero is one, at zero too, where the slope would be zero times infinity.
                to_x = Some(b.mul(ct, b.select(b.eq(y, zero), zeros_like(r, y)?, slope)));
            }
            if right {
                // Zero to a positive power is zero: so is its slope.
                let base = b.select(b.eq(x, r.number(x, 0.0)?), ones_like(r, x)?, x);
                to_y = Some(b.mul(ct, b.mul(b.log(base), r.op)));
            }
        }
        Opcode::Atan2 => {
            let squares = b.add(b.mul(x, x), b.mul(y, y));
            to_x = left.then(|| b.mul(ct, b.div(y, squares)));
            to_y = right.then(|| b.neg(b.mul(ct, b.div(x, squares))));
        }
        Opcode::Complex => {
            to_x = left.then(|| b.real(ct));
            to_y = right.then(|| b.neg(b.imag(ct)));
        }
        Opcode::Maximum | Opcode::Minimum => {
            // The cotangent is read once for each side, so that it fuses with what makes it.
            let weight = |v: f64| Ok::<Op, Error>(full(b, &r.shape(ct)?, r.number(ct, v)?));
            let share = b.mul(ct, b.select(b.eq(x, y), weight(0.5)?, weight(1.0)?));
            let zeros = zeros_like(r, ct)?;
            let wins = |p: Op, q: Op| if opcode == Opcode::Maximum { b.ge(p, q) } else { b.le(p, q) };
            to_x = left.then(|| b.select(wins(x, y), share, zeros));
            to_y = right.then(|| b.select(wins(y, x), share, zeros));
        }
        _ => return Err(r.no_rule()),
    }
    if let Some(value) = to_x {
        r.give(0, value);
    }
    if let Some(value) = to_y {
        r.give(1, value);
    }
    Ok(())
}

fn ternary(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::Select => select(r),
        Opcode::Clamp => clamp(r),
        _ => Err(r.no_rule()),
    }
}

/// Tuples are chosen whole.
fn select(r: &mut Rule<'_>) -> Result<()> {
    let chooser = r.operand(0)?;
    for (leaf, ct) in r.cotangent.clone().into_iter().enumerate() {
        let Some(ct) = ct else { continue };
        let zeros = zeros_like(r, ct)?;
        if r.wants_leaf(1, leaf) {
            r.give_leaf(1, leaf, r.b.select(chooser, ct, zeros));
        }
        if r.wants_leaf(2, leaf) {
            r.give_leaf(2, leaf, r.b.select(chooser, zeros, ct));
        }
    }
    Ok(())
}

/// At a bound nothing gets anything. Where the lower bound is above the upper, the result is the upper.
fn clamp(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct) = (r.b, r.array_cotangent()?);
    let (low, x, high) = (r.operand(0)?, r.operand(1)?, r.operand(2)?);
    let zeros = zeros_like(r, ct)?;
    let masks = [
        (0, r.wants(0).then(|| b.and(b.gt(low, x), b.lt(low, high)))),
        (1, r.wants(1).then(|| b.and(b.gt(x, low), b.lt(x, high)))),
        (2, r.wants(2).then(|| b.or(b.gt(x, high), b.gt(low, high)))),
    ];
    for (i, mask) in masks {
        let Some(mask) = mask else { continue };
        // Bounds of one number that are compared with each other alone make a scalar.
        let value = b.select(mask, ct, zeros);
        let scalar = r.shape(r.operand(i)?)?.rank() == 0;
        let value = if scalar { r.sum_all(value)? } else { value };
        r.give(i, value);
    }
    Ok(())
}
