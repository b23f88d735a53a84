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

/// The code of a value.
fn encode(value: f64, ty: ElementType) -> u64 {
    match ty {
        ElementType::F64 => value.to_bits(),
        ElementType::F32 => u64::from((value as f32).to_bits()),
        ElementType::F16 => u64::from(narrow::encode_f16(value)),
        ElementType::BF16 => u64::from(narrow::encode_bf16(value)),
        _ => u64::from(narrow::encode(ty, value)),
    }
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

/// The type in whose code precision is reduced, its exponent bits and its mantissa bits: numbers below 16 bits are
/// `f16`, but for the exponents of `f8e8m0fnu`, which only `f32` has.
fn precise(ty: ElementType) -> (ElementType, u32, u32) {
    match ty {
        ElementType::F64 => (ty, 11, 52),
        ElementType::F32 | ElementType::F8E8M0Fnu => (ElementType::F32, 8, 23),
        ElementType::BF16 => (ty, 8, 7),
        _ => (ElementType::F16, 5, 10),
    }
}

/// The value as a format of fewer bits would hold it: the significand rounded to nearest even, past the exponent's
/// range infinity, and below it (denormals included) zero.
pub(super) fn reduce_precision(value: f64, ty: ElementType, exponent_bits: u32, mantissa_bits: u32) -> Option<f64> {
    if exponent_bits == 0 {
        return None;
    }
    if value.is_nan() {
        return Some(value);
    }
    let (ty, e, m) = precise(ty);
    let mut code = encode(value, ty);
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

/// Conversion that rounds away from zero with a probability of the part cut off: where `random` is below that part,
/// as a fraction of as many bits as the operand has.
pub(super) fn stochastic(value: Scalar, random: Scalar, from: ElementType, to: ElementType) -> Option<Scalar> {
    let (Scalar::Float(x), Scalar::UInt(random)) = (value, random) else { return None };
    let scale = 2f64.powi(i32::try_from(from.bits()).ok()?);
    let rounds_up = |part: f64| random < (part * scale) as u64;
    let magnitude = x.abs();
    match to.kind() {
        Kind::Signed | Kind::Unsigned => {
            let whole = magnitude.trunc();
            let up = x.is_finite() && rounds_up(magnitude - whole);
            Some(convert(Scalar::Float((whole + f64::from(u8::from(up))).copysign(x)), to))
        }
        Kind::Float => {
            // The codes of positive numbers are in their order.
            let nearest = encode(magnitude, to);
            let code = nearest.wrapping_sub(u64::from(decode(nearest, to) > magnitude));
            let (low, high) = (decode(code, to), decode(code.wrapping_add(1), to));
            let between = low <= magnitude && magnitude < high && high.is_finite();
            let rounded = if rounds_up((magnitude - low) / (high - low)) { high } else { low };
            Some(Scalar::Float(if between { rounded.copysign(x) } else { x }).round_to(to))
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
        // As XLA, which has no arithmetic on narrower floats: a subnormal number of theirs is a normal one there.
        assert_eq!(reduce_precision(2f64.powi(-9), E::F8E4M3Fn, 4, 3), Some(0.0));
        assert_eq!(reduce_precision(2f64.powi(-17), E::F8E5M2Fnuz, 5, 10), Some(2f64.powi(-17)));
        assert_eq!(reduce_precision(2f64.powi(-15), E::F8E8M0Fnu, 5, 10), Some(0.0));
        // A tie goes to the even exponent.
        assert_eq!(reduce_precision(3.0, E::F4E2M1Fn, 2, 0), Some(2.0));
        assert_eq!(reduce_precision(6.0, E::F4E2M1Fn, 2, 0), Some(f64::INFINITY));
    }

    #[test]
    fn random_bits_choose_between_neighbours() {
        let of = |x: f64, random: u64, from, to| stochastic(Scalar::Float(x), Scalar::UInt(random), from, to);
        // An eighth of the way from 1 to the next number of bf16.
        let x = 1.0 + 2f64.powi(-10);
        assert_eq!(of(x, (1 << 29) - 1, E::F32, E::BF16), Some(Scalar::Float(1.0 + 2f64.powi(-7))));
        assert_eq!(of(x, 1 << 29, E::F32, E::BF16), Some(Scalar::Float(1.0)));
        assert_eq!(of(-x, 0, E::F32, E::BF16), Some(Scalar::Float(-1.0 - 2f64.powi(-7))));
        assert_eq!(of(1.0 + 2f64.powi(-52), 1 << 34, E::F64, E::F32), Some(Scalar::Float(1.0 + 2f64.powi(-23))));
        assert_eq!(of(1.0 + 2f64.powi(-52), 1 << 35, E::F64, E::F32), Some(Scalar::Float(1.0)));
        assert_eq!(of(5.0, 0x7fff_ffff, E::F32, E::F4E2M1Fn), Some(Scalar::Float(6.0)));
        assert_eq!(of(5.0, 0x8000_0000, E::F32, E::F4E2M1Fn), Some(Scalar::Float(4.0)));
        // Past the last number, below the first exponent, and where there is nothing to round: as `convert` does.
        assert_eq!(of(65519.0, 0, E::F32, E::F16), Some(Scalar::Float(65504.0)));
        assert_eq!(of(-1e9, 0, E::F32, E::F4E2M1Fn), Some(Scalar::Float(-6.0)));
        assert_eq!(of(2f64.powi(-130), 0, E::F32, E::F8E8M0Fnu), Some(Scalar::Float(2f64.powi(-127))));
        assert_eq!(of(f64::NEG_INFINITY, 0, E::F32, E::F16), Some(Scalar::Float(f64::NEG_INFINITY)));
        assert_eq!(of(0.1, 0, E::F16, E::F64), Some(Scalar::Float(0.1)));
        // A part that the random bits cannot express is none, as in XLA.
        assert_eq!(of(1e-12, 0, E::F32, E::S32), Some(Scalar::Int(0)));
        assert_eq!(of(-1.25, (1 << 30) - 1, E::F32, E::S32), Some(Scalar::Int(-2)));
    }
}
