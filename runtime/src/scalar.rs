//! One element of an array, in a form wide enough for every type.
//!
//! Problem: code that is generic over thirty element types (the interpreter, constant folding, printing) needs one
//! form of an element. Invariant: [`Scalar`] holds every value of its kind exactly; storing rounds once to the type.

use crate::{ArrayLiteral, ArrayShape, ElementType, Kind, narrow};
use half::{bf16, f16};
use num_complex::Complex;

/// A value of one of the five kinds of element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Pred(bool),
    /// Of a signed type.
    Int(i64),
    /// Of an unsigned type.
    UInt(u64),
    /// Of a real float type.
    Float(f64),
    /// Of a complex type.
    Complex(Complex<f64>),
}

impl Scalar {
    /// Zero (false) of the given type.
    pub fn zero(ty: ElementType) -> Scalar {
        match ty.kind() {
            Kind::Pred => Scalar::Pred(false),
            Kind::Signed => Scalar::Int(0),
            Kind::Unsigned => Scalar::UInt(0),
            Kind::Float => Scalar::Float(0.0),
            Kind::Complex => Scalar::Complex(Complex::new(0.0, 0.0)),
        }
    }

    /// The value that no other of the type is less than: negative infinity of floats that have it, else the lowest number.
    /// `None` for complex types, which have no order.
    pub fn lowest(ty: ElementType) -> Option<Scalar> {
        Some(match ty.kind() {
            Kind::Pred => Scalar::Pred(false),
            Kind::Signed => Scalar::Int(-1i64 << (ty.bits() - 1)),
            Kind::Unsigned => Scalar::UInt(0),
            Kind::Float => Scalar::Float(extreme_float(ty, f64::NEG_INFINITY, f64::min)),
            Kind::Complex => return None,
        })
    }

    /// The value that no other of the type is greater than: infinity of floats that have it, else the greatest number. `None` for
    /// complex types.
    pub fn highest(ty: ElementType) -> Option<Scalar> {
        Some(match ty.kind() {
            Kind::Pred => Scalar::Pred(true),
            Kind::Signed => Scalar::Int(!(-1i64 << (ty.bits() - 1))),
            Kind::Unsigned => Scalar::UInt(u64::MAX >> (64 - ty.bits())),
            Kind::Float => Scalar::Float(extreme_float(ty, f64::INFINITY, f64::max)),
            Kind::Complex => return None,
        })
    }

    /// A scalar of type `ty` that is just this value; `None` where the type has none.
    pub fn exactly(self, ty: ElementType) -> Option<ArrayLiteral> {
        let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, []));
        literal.set(0, self.round_to(ty));
        (literal.get(0).as_complex() == self.as_complex()).then_some(literal)
    }

    /// The truth value; other kinds: whether not zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Pred(v) => v,
            Scalar::Int(v) => v != 0,
            Scalar::UInt(v) => v != 0,
            Scalar::Float(v) => v != 0.0,
            Scalar::Complex(v) => v.re != 0.0 || v.im != 0.0,
        }
    }

    /// The value as an index: unsigned values past the range and floats saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Pred(v) => i64::from(v),
            Scalar::Int(v) => v,
            Scalar::UInt(v) => i64::try_from(v).unwrap_or(i64::MAX),
            Scalar::Float(v) => v as i64,
            Scalar::Complex(v) => v.re as i64,
        }
    }

    /// The value as a real number: the nearest one for wide integers, the real part for complex numbers.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Pred(v) => f64::from(u8::from(v)),
            Scalar::Int(v) => v as f64,
            Scalar::UInt(v) => v as f64,
            Scalar::Float(v) => v,
            Scalar::Complex(v) => v.re,
        }
    }

    /// The value as a complex number.
    pub fn as_complex(self) -> Complex<f64> {
        match self {
            Scalar::Complex(v) => v,
            other => Complex::new(other.as_f64(), 0.0),
        }
    }

    /// The integer's bits, sign-extended to 64; zero or one for truth values, nothing useful for floats.
    pub fn integer_bits(self) -> u64 {
        match self {
            Scalar::Pred(v) => u64::from(v),
            Scalar::Int(v) => v as u64,
            Scalar::UInt(v) => v,
            other => other.as_i64() as u64,
        }
    }

    /// This value stored to an element of type `ty` and read back: floats round once, integers keep their low bits.
    /// A value of another kind than `ty`'s is taken as the number it is.
    pub fn round_to(self, ty: ElementType) -> Scalar {
        match ty.kind() {
            Kind::Pred => Scalar::Pred(self.as_bool()),
            Kind::Signed => Scalar::Int(wrap_signed(self.integer_bits(), ty.bits())),
            Kind::Unsigned => Scalar::UInt(wrap_unsigned(self.integer_bits(), ty.bits())),
            Kind::Float => Scalar::Float(round_float(self.as_f64(), ty)),
            Kind::Complex => {
                let (v, part) = (self.as_complex(), ty.real_part());
                Scalar::Complex(Complex::new(round_float(v.re, part), round_float(v.im, part)))
            }
        }
    }
}

/// The end of a float type's order: an infinity, or the last number of a type that has none.
fn extreme_float(ty: ElementType, infinity: f64, further: fn(f64, f64) -> f64) -> f64 {
    if !ty.is_narrow_float() || ty.bits() > 8 {
        return infinity;
    }
    let codes = 0..=u8::MAX >> (8 - ty.bits());
    codes.map(|code| narrow::decode(ty, code)).filter(|v| !v.is_nan()).fold(-infinity, further)
}

/// The low `bits` bits, sign-extended.
fn wrap_signed(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits;
    (value << shift) as i64 >> shift
}

/// The low `bits` bits, zero-extended.
fn wrap_unsigned(value: u64, bits: u32) -> u64 {
    let shift = 64 - bits;
    value << shift >> shift
}

/// The number of float type `ty` nearest to `value`.
fn round_float(value: f64, ty: ElementType) -> f64 {
    match ty {
        ElementType::F64 => value,
        ElementType::F32 => f64::from(value as f32),
        ElementType::F16 => f16::from_bits(narrow::encode_f16(value)).to_f64(),
        ElementType::BF16 => bf16::from_bits(narrow::encode_bf16(value)).to_f64(),
        _ => narrow::decode(ty, narrow::encode(ty, value)),
    }
}

impl ArrayLiteral {
    /// The element at row-major position `index`.
    ///
    /// # Panics
    /// Where `index` is not below [`ArrayLiteral::elements`].
    pub fn get(&self, index: usize) -> Scalar {
        use ElementType as E;
        match self.ty() {
            E::Pred => Scalar::Pred(self.bytes()[index] != 0),
            E::S1 | E::S2 | E::S4 | E::S8 => Scalar::Int(i64::from(self.bytes()[index] as i8)),
            E::S16 => Scalar::Int(i64::from(self.as_slice::<i16>()[index])),
            E::S32 => Scalar::Int(i64::from(self.as_slice::<i32>()[index])),
            E::S64 => Scalar::Int(self.as_slice::<i64>()[index]),
            E::U1 | E::U2 | E::U4 | E::U8 => Scalar::UInt(u64::from(self.bytes()[index])),
            E::U16 => Scalar::UInt(u64::from(self.as_slice::<u16>()[index])),
            E::U32 => Scalar::UInt(u64::from(self.as_slice::<u32>()[index])),
            E::U64 => Scalar::UInt(self.as_slice::<u64>()[index]),
            E::F16 => Scalar::Float(self.as_slice::<f16>()[index].to_f64()),
            E::BF16 => Scalar::Float(self.as_slice::<bf16>()[index].to_f64()),
            E::F32 => Scalar::Float(f64::from(self.as_slice::<f32>()[index])),
            E::F64 => Scalar::Float(self.as_slice::<f64>()[index]),
            E::C64 => {
                let v = self.as_slice::<Complex<f32>>()[index];
                Scalar::Complex(Complex::new(f64::from(v.re), f64::from(v.im)))
            }
            E::C128 => Scalar::Complex(self.as_slice::<Complex<f64>>()[index]),
            ty => Scalar::Float(narrow::decode(ty, self.bytes()[index])),
        }
    }

    /// Stores `value` at row-major position `index`, rounded once to the element type (see [`Scalar::round_to`]).
    ///
    /// # Panics
    /// Where `index` is not below [`ArrayLiteral::elements`].
    pub fn set(&mut self, index: usize, value: Scalar) {
        use ElementType as E;
        let ty = self.ty();
        match ty {
            E::Pred => self.bytes_mut()[index] = u8::from(value.as_bool()),
            E::S1 | E::S2 | E::S4 | E::S8 => {
                self.bytes_mut()[index] = wrap_signed(value.integer_bits(), ty.bits()) as u8;
            }
            E::U1 | E::U2 | E::U4 | E::U8 => {
                self.bytes_mut()[index] = wrap_unsigned(value.integer_bits(), ty.bits()) as u8;
            }
            E::S16 | E::U16 => self.as_mut_slice::<u16>()[index] = value.integer_bits() as u16,
            E::S32 | E::U32 => self.as_mut_slice::<u32>()[index] = value.integer_bits() as u32,
            E::S64 | E::U64 => self.as_mut_slice::<u64>()[index] = value.integer_bits(),
            E::F16 => self.as_mut_slice::<u16>()[index] = narrow::encode_f16(value.as_f64()),
            E::BF16 => self.as_mut_slice::<u16>()[index] = narrow::encode_bf16(value.as_f64()),
            E::F32 => self.as_mut_slice::<f32>()[index] = value.as_f64() as f32,
            E::F64 => self.as_mut_slice::<f64>()[index] = value.as_f64(),
            E::C64 => {
                let v = value.as_complex();
                self.as_mut_slice::<Complex<f32>>()[index] = Complex::new(v.re as f32, v.im as f32);
            }
            E::C128 => self.as_mut_slice::<Complex<f64>>()[index] = value.as_complex(),
            ty => self.bytes_mut()[index] = narrow::encode(ty, value.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_survive_a_round_trip_in_every_type() {
        for &ty in ElementType::ALL {
            let mut a = ArrayLiteral::zeros(&ArrayShape::new(ty, [2]));
            let one = match ty.kind() {
                Kind::Pred => Scalar::Pred(true),
                // -1 is the one value other than zero that every signed width has.
                Kind::Signed => Scalar::Int(-1),
                Kind::Unsigned => Scalar::UInt(1),
                Kind::Float => Scalar::Float(1.0),
                Kind::Complex => Scalar::Complex(Complex::new(1.0, -2.0)),
            };
            a.set(1, one);
            assert_eq!(a.get(1), one, "{ty}");
            assert_eq!(one.round_to(ty), one, "{ty}");
        }
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(Scalar::Int(9).round_to(ElementType::S4), Scalar::Int(-7));
        assert_eq!(Scalar::UInt(17).round_to(ElementType::U4), Scalar::UInt(1));
        let mut a = ArrayLiteral::zeros(&ArrayShape::new(ElementType::S4, []));
        a.set(0, Scalar::Int(15));
        assert_eq!(a.bytes(), &[0xff]);
    }
}
