//! The element types of HLO, one row each.
//!
//! Problem: every room of the compiler asks the same questions of a type (how wide, signed or not, what is it
//! called). Invariant: the answers stand in one table, [`element_types!`], and nowhere else.

use std::fmt;
use std::str::FromStr;

/// What kind of number an [`ElementType`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `pred`: a truth value.
    Pred,
    /// Two's complement integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Floating point, narrow formats included.
    Float,
    /// Pairs of floats.
    Complex,
}

macro_rules! element_types {
    ($($variant:ident $text:literal $bits:literal $kind:ident $code:literal $doc:literal;)*) => {
        /// An element type of HLO. Tokens, opaques and tuples are shapes, see [`crate::Shape`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ElementType { $(#[doc = $doc] $variant = $code,)* }

        impl ElementType {
            /// Every element type, in the order of the table.
            pub const ALL: &'static [ElementType] = &[$(ElementType::$variant,)*];

            /// The name in HLO text, such as `f32`.
            pub const fn name(self) -> &'static str { match self { $(ElementType::$variant => $text,)* } }

            /// The width in bits: of the whole pair for complex types, 8 for `pred`.
            pub const fn bits(self) -> u32 { match self { $(ElementType::$variant => $bits,)* } }

            /// What kind of number this is.
            pub const fn kind(self) -> Kind { match self { $(ElementType::$variant => Kind::$kind,)* } }

            /// The type's number in a descriptor, which is XLA's `PrimitiveType` number.
            pub const fn code(self) -> u8 { self as u8 }

            /// The type with the given descriptor number.
            pub const fn from_code(code: u8) -> Option<ElementType> {
                match code { $($code => Some(ElementType::$variant),)* _ => None }
            }
        }
    };
}

element_types! {
    Pred "pred" 8 Pred 1 "A truth value, stored as a byte 0 or 1.";
    S1 "s1" 1 Signed 30 "1-bit signed integer: 0 or -1.";
    S2 "s2" 2 Signed 26 "2-bit signed integer.";
    S4 "s4" 4 Signed 21 "4-bit signed integer.";
    S8 "s8" 8 Signed 2 "8-bit signed integer.";
    S16 "s16" 16 Signed 3 "16-bit signed integer.";
    S32 "s32" 32 Signed 4 "32-bit signed integer.";
    S64 "s64" 64 Signed 5 "64-bit signed integer.";
    U1 "u1" 1 Unsigned 31 "1-bit unsigned integer.";
    U2 "u2" 2 Unsigned 27 "2-bit unsigned integer.";
    U4 "u4" 4 Unsigned 22 "4-bit unsigned integer.";
    U8 "u8" 8 Unsigned 6 "8-bit unsigned integer.";
    U16 "u16" 16 Unsigned 7 "16-bit unsigned integer.";
    U32 "u32" 32 Unsigned 8 "32-bit unsigned integer.";
    U64 "u64" 64 Unsigned 9 "64-bit unsigned integer.";
    F4E2M1Fn "f4e2m1fn" 4 Float 32 "4-bit float, finite only, no NaN.";
    F8E3M4 "f8e3m4" 8 Float 29 "8-bit float, 3 exponent bits, IEEE specials.";
    F8E4M3 "f8e4m3" 8 Float 28 "8-bit float, 4 exponent bits, IEEE specials.";
    F8E4M3B11Fnuz "f8e4m3b11fnuz" 8 Float 23 "8-bit float, bias 11, one NaN, no infinity, no -0.";
    F8E4M3Fn "f8e4m3fn" 8 Float 20 "8-bit float, no infinity.";
    F8E4M3Fnuz "f8e4m3fnuz" 8 Float 25 "8-bit float, bias 8, one NaN, no infinity, no -0.";
    F8E5M2 "f8e5m2" 8 Float 19 "8-bit float, 5 exponent bits, IEEE specials.";
    F8E5M2Fnuz "f8e5m2fnuz" 8 Float 24 "8-bit float, bias 16, one NaN, no infinity, no -0.";
    F8E8M0Fnu "f8e8m0fnu" 8 Float 33 "8-bit power of two: no sign, no zero, no infinity, one NaN.";
    F16 "f16" 16 Float 10 "IEEE binary16.";
    BF16 "bf16" 16 Float 16 "bfloat16.";
    F32 "f32" 32 Float 11 "IEEE binary32.";
    F64 "f64" 64 Float 12 "IEEE binary64.";
    C64 "c64" 64 Complex 15 "A pair of `f32`: real, imaginary.";
    C128 "c128" 128 Complex 18 "A pair of `f64`: real, imaginary.";
}

impl ElementType {
    /// Bytes of one element in a literal or buffer: types under a byte take one byte each.
    pub const fn byte_size(self) -> usize {
        let bits = self.bits() as usize;
        if bits < 8 { 1 } else { bits / 8 }
    }

    /// Alignment of one element: that of its component for complex types.
    pub const fn alignment(self) -> usize {
        match self {
            ElementType::C64 => 4,
            ElementType::C128 => 8,
            other => other.byte_size(),
        }
    }

    /// True for signed and unsigned integers, not for `pred`.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// True for integers of at most 16 bits: machines multiply several of them at a time, or as floats without rounding.
    pub const fn is_small_integer(self) -> bool {
        self.is_integer() && self.bits() <= 16
    }

    /// True for signed integers.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self.kind(), Kind::Signed)
    }

    /// True for unsigned integers, not for `pred`.
    pub const fn is_unsigned_integer(self) -> bool {
        matches!(self.kind(), Kind::Unsigned)
    }

    /// True for real floating point types.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// True for floating point types narrower than `f32`.
    pub const fn is_narrow_float(self) -> bool {
        self.is_float() && self.bits() < 32
    }

    /// True for `c64` and `c128`.
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), Kind::Complex)
    }

    /// The component type of a complex type, the type itself otherwise.
    pub const fn real_part(self) -> ElementType {
        match self {
            ElementType::C64 => ElementType::F32,
            ElementType::C128 => ElementType::F64,
            other => other,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text does not name an element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an element type")]
pub struct UnknownElementType(pub String);

impl FromStr for ElementType {
    type Err = UnknownElementType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ElementType::ALL.iter().copied().find(|ty| ty.name() == text).ok_or_else(|| UnknownElementType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_unique_and_round_trip() {
        for &ty in ElementType::ALL {
            assert_eq!(ty.name().parse(), Ok(ty));
            assert_eq!(ElementType::from_code(ty.code()), Some(ty));
        }
        assert!("f33".parse::<ElementType>().is_err());
    }

    #[test]
    fn sizes_follow_the_width() {
        assert_eq!(ElementType::S4.byte_size(), 1);
        assert_eq!(ElementType::C128.byte_size(), 16);
        assert_eq!(ElementType::C128.alignment(), 8);
    }
}
