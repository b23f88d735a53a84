//! The floating point formats that Rust lacks: one byte or less, and correctly rounded 16-bit ones.
//!
//! Problem: seven formats differ in where they keep infinity and NaN. Invariant: decoding is exact, encoding rounds
//! once, to nearest, ties to even. Algorithm: a finite magnitude is divided by the spacing of the format around it
//! (an exact operation, spacings being powers of two), rounded to an integer, and put together again; a carry out of
//! the significand runs into the exponent field by itself.
//!
//! Overflow goes to infinity where the format has one, else to NaN where it has one, else to the largest number.

use crate::ElementType;

/// What the largest codes of a format mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// Infinity and NaN under the all-ones exponent.
    Ieee,
    /// No infinity; NaN is all ones.
    Nan,
    /// No infinity and no negative zero, whose code is NaN.
    NanAtNegativeZero,
    /// Finite numbers only.
    None,
}

struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

const fn format(exponent_bits: u32, mantissa_bits: u32, bias: i32, specials: Specials) -> Format {
    Format { exponent_bits, mantissa_bits, bias, specials }
}

const F16: Format = format(5, 10, 15, Specials::Ieee);
const BF16: Format = format(8, 7, 127, Specials::Ieee);

fn format_of(ty: ElementType) -> Option<Format> {
    Some(match ty {
        ElementType::F4E2M1Fn => format(2, 1, 1, Specials::None),
        ElementType::F8E3M4 => format(3, 4, 3, Specials::Ieee),
        ElementType::F8E4M3 => format(4, 3, 7, Specials::Ieee),
        ElementType::F8E4M3Fn => format(4, 3, 7, Specials::Nan),
        ElementType::F8E4M3Fnuz => format(4, 3, 8, Specials::NanAtNegativeZero),
        ElementType::F8E4M3B11Fnuz => format(4, 3, 11, Specials::NanAtNegativeZero),
        ElementType::F8E5M2 => format(5, 2, 15, Specials::Ieee),
        ElementType::F8E5M2Fnuz => format(5, 2, 16, Specials::NanAtNegativeZero),
        _ => return None,
    })
}

/// 2 to the power `exponent`, within the range of normal and subnormal `f64`.
fn exp2i(exponent: i32) -> f64 {
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023).clamp(1, 2047) as u64) << 52)
    } else {
        f64::from_bits(1u64 << (exponent + 1074).clamp(0, 51))
    }
}

/// The exponent of the leading bit of a positive finite number.
fn exponent_of(value: f64) -> i32 {
    let bits = value.to_bits();
    match (bits >> 52) as i32 & 0x7ff {
        0 => 63 - bits.leading_zeros() as i32 - 1074,
        e => e - 1023,
    }
}

impl Format {
    const fn magnitude_mask(&self) -> u64 {
        (1 << (self.exponent_bits + self.mantissa_bits)) - 1
    }

    fn decode(&self, bits: u64) -> f64 {
        let (e, m) = (self.exponent_bits, self.mantissa_bits);
        let negative = bits >> (e + m) & 1 == 1;
        let exponent = bits >> m & ((1 << e) - 1);
        let mantissa = bits & ((1 << m) - 1);
        let top = exponent == (1 << e) - 1;
        let magnitude = match self.specials {
            Specials::Ieee if top && mantissa == 0 => f64::INFINITY,
            Specials::Ieee if top => f64::NAN,
            Specials::Nan if top && mantissa == (1 << m) - 1 => f64::NAN,
            Specials::NanAtNegativeZero if negative && exponent == 0 && mantissa == 0 => f64::NAN,
            _ if exponent == 0 => mantissa as f64 * exp2i(1 - self.bias - m as i32),
            _ => (mantissa + (1 << m)) as f64 * exp2i(exponent as i32 - self.bias - m as i32),
        };
        if negative { -magnitude } else { magnitude }
    }

    fn encode(&self, value: f64) -> u64 {
        let (e, m) = (self.exponent_bits, self.mantissa_bits);
        let sign = u64::from(value.is_sign_negative()) << (e + m);
        let infinity = ((1 << e) - 1) << m;
        let all_ones = self.magnitude_mask();
        let largest = match self.specials {
            Specials::Ieee => infinity - 1,
            Specials::Nan => all_ones - 1,
            Specials::NanAtNegativeZero | Specials::None => all_ones,
        };
        let beyond = match self.specials {
            Specials::Ieee => infinity | sign,
            Specials::Nan => all_ones | sign,
            Specials::NanAtNegativeZero => 1 << (e + m),
            Specials::None => largest | sign,
        };
        if value.is_nan() {
            return match self.specials {
                // Quiet: the top mantissa bit.
                Specials::Ieee => infinity | 1 << (m - 1) | sign,
                // A format without NaN turns it into -0, as other implementations do.
                Specials::None => 1 << (e + m),
                _ => beyond,
            };
        }
        let magnitude = value.abs();
        if magnitude == 0.0 {
            return if self.specials == Specials::NanAtNegativeZero { 0 } else { sign };
        }
        if magnitude.is_infinite() {
            return beyond;
        }
        let lowest = 1 - self.bias;
        let exponent = exponent_of(magnitude).max(lowest);
        if exponent > (1 << e) {
            return beyond;
        }
        let quantum = exp2i(exponent - m as i32);
        let steps = (magnitude / quantum).round_ties_even() as u64;
        let code = (((exponent - lowest) as u64) << m) + steps;
        if code > largest {
            return beyond;
        }
        if code == 0 && self.specials == Specials::NanAtNegativeZero { 0 } else { code | sign }
    }
}

/// The value of a narrow float's code. `f8e8m0fnu` included; NaN for types that are not narrow floats.
pub fn decode(ty: ElementType, bits: u8) -> f64 {
    if ty == ElementType::F8E8M0Fnu {
        return if bits == 255 { f64::NAN } else { exp2i(i32::from(bits) - 127) };
    }
    format_of(ty).map_or(f64::NAN, |f| f.decode(u64::from(bits)))
}

/// The code of the narrow float nearest to `value`, ties to even.
///
/// Past the largest number: infinity where the type has one, else NaN, else (`f4e2m1fn`) the largest number.
/// `f8e8m0fnu` has neither sign nor zero: both give NaN; what lies between zero and its least number gives the least. Its
/// significand is always 1, which is odd, so that ties go up.
pub fn encode(ty: ElementType, value: f64) -> u8 {
    if ty == ElementType::F8E8M0Fnu {
        if value.is_nan() || value <= 0.0 || value.is_infinite() {
            return 255;
        }
        let exponent = exponent_of(value);
        if exponent < -127 {
            return 0;
        }
        if exponent > 127 {
            return 255;
        }
        let code = (exponent + 127) as u8;
        let significand = value / exp2i(exponent);
        return code + u8::from(significand >= 1.5);
    }
    format_of(ty).map_or(0, |f| f.encode(value) as u8)
}

/// The bits of the `f16` nearest to `value`, rounded once.
pub fn encode_f16(value: f64) -> u16 {
    F16.encode(value) as u16
}

/// The bits of the `bf16` nearest to `value`, rounded once.
pub fn encode_bf16(value: f64) -> u16 {
    BF16.encode(value) as u16
}

/// Mantissa bits of the formats whose NaNs and infinities have an exponent of ones, as IEEE has it.
pub fn ieee_mantissa(ty: ElementType) -> Option<u32> {
    match ty {
        ElementType::F64 => Some(52),
        ElementType::F32 => Some(23),
        ElementType::F16 => Some(10),
        ElementType::BF16 => Some(7),
        ElementType::F8E5M2 => Some(2),
        ElementType::F8E4M3 => Some(3),
        ElementType::F8E3M4 => Some(4),
        _ => None,
    }
}

/// The bit of the sign in place, 0 where the number is not negative.
pub fn sign_bit(ty: ElementType, negative: bool) -> u64 {
    if negative { 1 << (ty.bits() - 1) } else { 0 }
}

/// The infinity; `None` where the type has none of the usual form.
pub fn infinity_bits(ty: ElementType, negative: bool) -> Option<u64> {
    let mantissa = ieee_mantissa(ty)?;
    let magnitude = ((1u64 << (ty.bits() - 1)) - 1) & !((1u64 << mantissa) - 1);
    Some(magnitude | sign_bit(ty, negative))
}

/// The NaN with the given mantissa; the quiet one where none is given. `None` where the type has no such NaN.
pub fn nan_bits(ty: ElementType, negative: bool, payload: Option<u64>) -> Option<u64> {
    if let Some(mantissa) = ieee_mantissa(ty) {
        let payload = payload.unwrap_or(1 << (mantissa - 1));
        let fits = payload != 0 && payload < 1 << mantissa;
        return infinity_bits(ty, negative).filter(|_| fits).map(|bits| bits | payload);
    }
    // The other formats have one NaN, one for each sign, or none.
    let bits = u64::from(encode(ty, if negative { -f64::NAN } else { f64::NAN }));
    payload.is_none().then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: [ElementType; 9] = [
        ElementType::F4E2M1Fn,
        ElementType::F8E3M4,
        ElementType::F8E4M3,
        ElementType::F8E4M3Fn,
        ElementType::F8E4M3Fnuz,
        ElementType::F8E4M3B11Fnuz,
        ElementType::F8E5M2,
        ElementType::F8E5M2Fnuz,
        ElementType::F8E8M0Fnu,
    ];

    #[test]
    fn every_code_round_trips() {
        for ty in NARROW {
            for bits in 0..(1u16 << ty.bits()) {
                let value = decode(ty, bits as u8);
                if !value.is_nan() {
                    assert_eq!(encode(ty, value), bits as u8, "{ty} {value}");
                } else {
                    assert!(decode(ty, encode(ty, value)).is_nan(), "{ty}");
                }
            }
        }
    }

    #[test]
    fn midpoints_go_to_even_and_overflow_by_format() {
        for ty in NARROW {
            for bits in 0..(1u16 << (ty.bits() - 1)) - 1 {
                let (lo, hi) = (decode(ty, bits as u8), decode(ty, bits as u8 + 1));
                if lo.is_finite() && hi.is_finite() {
                    let code = encode(ty, (lo + hi) / 2.0);
                    if ty == ElementType::F8E8M0Fnu {
                        assert_eq!(decode(ty, code), hi, "{ty} between {lo} and {hi}");
                    } else {
                        assert_eq!(code & 1, 0, "{ty} between {lo} and {hi}");
                    }
                    assert!(decode(ty, code) == lo || decode(ty, code) == hi);
                }
            }
        }
        assert_eq!(encode(ElementType::F8E5M2, 1e9), 0x7c);
        assert_eq!(encode(ElementType::F8E4M3Fn, -1e9), 0xff);
        assert_eq!(encode(ElementType::F8E4M3Fnuz, f64::INFINITY), 0x80);
        assert_eq!(encode(ElementType::F8E4M3Fnuz, -0.0), 0);
        assert_eq!(encode(ElementType::F4E2M1Fn, -1e9), 0xf);
        assert_eq!(encode(ElementType::F8E8M0Fnu, 0.0), 0xff);
    }

    #[test]
    fn sixteen_bits_round_once() {
        for bits in 0..=u16::MAX {
            let (h, b) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
            if !h.is_nan() {
                assert_eq!(encode_f16(h.to_f64()), bits);
            }
            if !b.is_nan() {
                assert_eq!(encode_bf16(b.to_f64()), bits);
            }
        }
        // Just above the midpoint of 1 and its successor: through f32 this would round down.
        assert_eq!(encode_f16(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 0x3c01);
        assert_eq!(encode_f16(65520.0), 0x7c00);
    }
}
