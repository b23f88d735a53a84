//! What lies between the elements of a padded array.
//!
//! Source: the specification's «Padding», and the values that XLA's `PaddingValue` had while its layouts had padding.

use crate::abi::coded;
use crate::{ArrayLiteral, ArrayShape, ElementType, Scalar};

coded! {
    /// The value of elements that a layout adds, with XLA's numbers.
    #[derive(Default)]
    pub enum PaddingValue: u32 {
        /// None is stated.
        #[default]
        Invalid = 0,
        /// Zero; false of truth values.
        Zero = 1,
        /// One; true of truth values.
        One = 2,
        /// The value that no other is less than.
        Lowest = 3,
        /// The value that no other is greater than.
        Highest = 4,
        /// Anything.
        Unknown = 5,
    }
}

impl PaddingValue {
    /// The word of HLO text.
    pub const fn name(self) -> &'static str {
        match self {
            PaddingValue::Invalid => "invalid",
            PaddingValue::Zero => "zero",
            PaddingValue::One => "one",
            PaddingValue::Lowest => "lowest",
            PaddingValue::Highest => "highest",
            PaddingValue::Unknown => "unknown",
        }
    }

    /// The value with that word.
    pub fn from_name(name: &str) -> Option<PaddingValue> {
        PaddingValue::ALL.iter().copied().find(|v| v.name() == name)
    }

    /// The element, a scalar, that programs write between those of an array of type `ty`. Where the value is unknown or not stated
    /// its bits are zero, so that buffers do not depend on chance. `None` where the type has no such value.
    pub fn element(self, ty: ElementType) -> Option<ArrayLiteral> {
        let value = match self {
            PaddingValue::Invalid | PaddingValue::Unknown => None,
            PaddingValue::Zero => Some(Scalar::zero(ty)),
            PaddingValue::One => Some(Scalar::Int(1)),
            PaddingValue::Lowest => Some(Scalar::lowest(ty)?),
            PaddingValue::Highest => Some(Scalar::highest(ty)?),
        };
        match value {
            Some(value) => value.exactly(ty),
            None => Some(ArrayLiteral::zeros(&ArrayShape::new(ty, []))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn numbers_and_words_round_trip() {
        for &value in PaddingValue::ALL {
            assert_eq!(PaddingValue::from_code(value as u32), Some(value));
            assert_eq!(PaddingValue::from_name(value.name()), Some(value));
        }
        assert_eq!(PaddingValue::from_name("Zero"), None);
    }

    #[test]
    fn elements_are_those_of_the_type() {
        let element = |value: PaddingValue, ty| value.element(ty).map(|a| a.get(0));
        for &ty in ElementType::ALL {
            assert_eq!(element(PaddingValue::Zero, ty).is_some(), ty != ElementType::F8E8M0Fnu, "{ty}");
            assert_eq!(element(PaddingValue::One, ty).is_some(), ty != ElementType::S1, "{ty}");
            let ordered = ty.kind() != Kind::Complex;
            assert_eq!(element(PaddingValue::Lowest, ty).is_some(), ordered, "{ty}");
            assert_eq!(element(PaddingValue::Highest, ty).is_some(), ordered, "{ty}");
            for value in [PaddingValue::Unknown, PaddingValue::Invalid] {
                assert!(value.element(ty).is_some_and(|a| a.bytes().iter().all(|&b| b == 0)), "{ty}");
            }
        }
        let lowest = |ty| element(PaddingValue::Lowest, ty);
        let highest = |ty| element(PaddingValue::Highest, ty);
        assert_eq!(lowest(ElementType::F32), Some(Scalar::Float(f64::NEG_INFINITY)));
        assert_eq!(highest(ElementType::F8E4M3Fn), Some(Scalar::Float(448.0)));
        assert_eq!((lowest(ElementType::S4), highest(ElementType::S4)), (Some(Scalar::Int(-8)), Some(Scalar::Int(7))));
        assert_eq!(highest(ElementType::U64), Some(Scalar::UInt(u64::MAX)));
        assert_eq!(lowest(ElementType::Pred), Some(Scalar::Pred(false)));
    }
}
