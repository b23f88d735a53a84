//! Conversions between element types, and operations that round on purpose.

use brolga_runtime::half::{bf16, f16};
use brolga_runtime::{ElementType, Kind, Scalar, narrow};
use num_complex::Complex;

/// The value converted to another type: integers wrap, floats going to integers are cut towards zero and saturate
/// (NaN to 0), complex numbers lose their imaginary part where the target is real.
pub(in crate::interp) fn convert(value: Scalar, to: ElementType) -> Scalar {
    let value = match value {
        Scalar::Complex(v) if to.kind() != Kind::Complex && to.kind() != Kind::Pred => Scalar::Float(v.re),
        other => other,
    };
    match (value, to.kind()) {
        (Scalar::Float(v), Kind::Signed) => {
            let (lo, hi) = (-1i64 << (to.bits() - 1), !(-1i64 << (to.bits() - 1)));
            Scalar::Int((v as i64).clamp(lo, hi))
        }
        (Scalar::Float(v), Kind::Unsigned) => Scalar::UInt((v as u64).min(u64::MAX >> (64 - to.bits()))),
        (Scalar::Int(v), Kind::Float | Kind::Complex) => from_integer(v < 0, v.unsigned_abs(), to),
        (Scalar::UInt(v), Kind::Float | Kind::Complex) => from_integer(false, v, to),
        (v, _) => v.round_to(to),
    }
}

/// An integer rounded once to a float type.
fn from_integer(negative: bool, magnitude: u64, to: ElementType) -> Scalar {
    let value = if to.real_part() == ElementType::F64 {
        magnitude as f64
    } else {
        // Rounding to odd keeps what the second rounding, to far fewer bits, must know.
        let cut = 11u32.saturating_sub(magnitude.leading_zeros());
        let lost = magnitude & ((1 << cut) - 1) != 0;
        ((magnitude >> cut | u64::from(lost)) << cut) as f64
    };
    Scalar::Float(if negative { -value } else { value }).round_to(to)
}

/// Exponent bits, mantissa bits and the code of a value of an IEEE-like type.
fn encode(value: f64, ty: ElementType) -> Option<(u32, u32, u64)> {
    Some(match ty {
        ElementType::F64 => (11, 52, value.to_bits()),
        ElementType::F32 => (8, 23, u64::from((value as f32).to_bits())),
        ElementType::F16 => (5, 10, u64::from(narrow::encode_f16(value))),
        ElementType::BF16 => (8, 7, u64::from(narrow::encode_bf16(value))),
        ElementType::F8E5M2 => (5, 2, u64::from(narrow::encode(ty, value))),
        ElementType::F8E4M3 => (4, 3, u64::from(narrow::encode(ty, value))),
        ElementType::F8E3M4 => (3, 4, u64::from(narrow::encode(ty, value))),
        _ => return None,
    })
}

fn decode(code: u64, ty: ElementType) -> f64 {
    match ty {
        ElementType::F64 => f64::from_bits(code),
        ElementType::F32 => f64::from(f32::from_bits(code as u32)),
        ElementType::F16 => f16::from_bits(code as u16).to_f64(),
        ElementType::BF16 => bf16::from_bits(code as u16).to_f64(),
        _ => narrow::decode(ty, code as u8),
    }
}

/// The value as a format of fewer bits would hold it: the significand rounded to nearest even, past the exponent's
/// range infinity, and below it (denormals included) zero.
pub(super) fn reduce_precision(value: f64, ty: ElementType, exponent_bits: u32, mantissa_bits: u32) -> Option<f64> {
    if exponent_bits == 0 {
        return None;
    }
    // A type without infinity cannot say what is past the range: it is rounded as an `f32`, which the caller converts.
    let Some((e, m, mut code)) = encode(value, ty) else {
        return reduce_precision(value, ElementType::F32, exponent_bits, mantissa_bits);
    };
    if value.is_nan() {
        return Some(value);
    }
    let sign = code & 1 << (e + m);
    let exponent_mask = ((1u64 << e) - 1) << m;
    if mantissa_bits < m && value.is_finite() {
        let last = 1u64 << (m - mantissa_bits);
        let odd = u64::from(code & last != 0);
        code = (code + (last >> 1) - 1 + odd) & !(last - 1);
    }
    if exponent_bits < e {
        let bias = (1u64 << (e - 1)) - 1;
        let reduced = (1u64 << (exponent_bits - 1)) - 1;
        let exponent = (code & exponent_mask) >> m;
        if exponent > bias + reduced {
            code = sign | exponent_mask;
        } else if exponent <= bias - reduced {
            code = sign;
        }
    }
    Some(decode(code, ty))
}

/// Conversion that rounds away from zero with a probability of the part cut off: where `random`, an unsigned number
/// as wide as the operand, is below that part as a binary fraction.
pub(super) fn stochastic(value: Scalar, random: Scalar, from: ElementType, to: ElementType) -> Option<Scalar> {
    let (Scalar::Float(x), Scalar::UInt(random)) = (value, random) else { return None };
    let threshold = random as f64 / 2f64.powi(i32::try_from(from.bits()).ok()?);
    let magnitude = x.abs();
    match to.kind() {
        Kind::Signed | Kind::Unsigned => {
            let whole = magnitude.trunc();
            let up = x.is_finite() && threshold < magnitude - whole;
            Some(convert(Scalar::Float((whole + f64::from(u8::from(up))).copysign(x)), to))
        }
        Kind::Float => {
            let Scalar::Float(nearest) = Scalar::Float(x).round_to(to) else { return None };
            if nearest == x || !x.is_finite() {
                return Some(Scalar::Float(nearest));
            }
            // The neighbour on the other side of `x` is the nearest to a point as far away again.
            let Scalar::Float(other) = Scalar::Float(x + (x - nearest) * (1.0 + 1e-9)).round_to(to) else {
                return None;
            };
            let (low, high) = if nearest.abs() < other.abs() { (nearest, other) } else { (other, nearest) };
            let part = (x - low) / (high - low);
            Some(Scalar::Float(if threshold < part { high } else { low }))
        }
        Kind::Pred | Kind::Complex => None,
    }
}

/// The pair of a complex number from its polar form, used by roots and powers.
pub(super) fn from_polar(r: f64, theta: f64) -> Complex<f64> {
    Complex::new(r * libm::cos(theta), r * libm::sin(theta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType as E;

    #[test]
    fn floats_saturate_and_integers_wrap() {
        assert_eq!(convert(Scalar::Float(1e9), E::S8), Scalar::Int(127));
        assert_eq!(convert(Scalar::Float(-1e9), E::S2), Scalar::Int(-2));
        assert_eq!(convert(Scalar::Float(f64::NAN), E::S32), Scalar::Int(0));
        assert_eq!(convert(Scalar::Float(-3.0), E::U8), Scalar::UInt(0));
        assert_eq!(convert(Scalar::Float(1e30), E::U64), Scalar::UInt(u64::MAX));
        assert_eq!(convert(Scalar::Int(300), E::U8), Scalar::UInt(44));
        assert_eq!(convert(Scalar::Float(f64::NAN), E::Pred), Scalar::Pred(true));
        assert_eq!(convert(Scalar::Complex(Complex::new(2.0, 3.0)), E::F32), Scalar::Float(2.0));
    }

    #[test]
    fn wide_integers_round_once() {
        for v in [i64::MAX, (1 << 62) + (1 << 38), (1 << 62) + (1 << 38) + 1, (1 << 60) + (1 << 36) - 1] {
            assert_eq!(convert(Scalar::Int(v), E::F32), Scalar::Float(f64::from(v as f32)), "{v}");
            assert_eq!(convert(Scalar::Int(-v), E::F32), Scalar::Float(f64::from(-v as f32)), "{v}");
        }
    }

    #[test]
    fn precision_is_reduced() {
        assert_eq!(reduce_precision(0.1f32.into(), E::F32, 8, 0), Some(0.125));
        assert_eq!(reduce_precision(100.0, E::F16, 3, 4), Some(f64::INFINITY));
        assert_eq!(reduce_precision(0.01, E::F16, 3, 4), Some(0.0));
        assert_eq!(reduce_precision(2.0, E::F8E4M3Fn, 1, 13), Some(f64::INFINITY));
        assert_eq!(reduce_precision(1.25, E::F8E5M2Fnuz, 5, 1), Some(1.0));
    }
}
