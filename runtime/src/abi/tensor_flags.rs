//! What a program says of a tensor that it declares.

use std::fmt;
use std::str::FromStr;

/// The attributes of a declared tensor. None of them: a parameter or result that no declaration stands behind.
///
/// Source: Nervana graph's «Tensors».
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TensorFlags {
    /// The value never changes and can be inlined.
    pub constant: bool,
    /// The value is retained across computations.
    pub persistent: bool,
    /// The tensor is one of the list of variables that training updates.
    pub trainable: bool,
    /// A value can be passed in at run time.
    pub input: bool,
}

impl TensorFlags {
    /// No attribute.
    pub const NONE: TensorFlags = TensorFlags { constant: false, persistent: false, trainable: false, input: false };
    /// Of `constant`: specified while the graph is made.
    pub const CONSTANT: TensorFlags = TensorFlags { constant: true, persistent: true, ..TensorFlags::NONE };
    /// Of `placeholder`: an input value, typically from the host.
    pub const PLACEHOLDER: TensorFlags = TensorFlags { persistent: true, input: true, ..TensorFlags::NONE };
    /// Of `persistent_tensor`: retained, such as the velocity of gradient descent.
    pub const PERSISTENT_TENSOR: TensorFlags = TensorFlags { persistent: true, ..TensorFlags::NONE };
    /// Of `variable`: updated during training.
    pub const VARIABLE: TensorFlags = TensorFlags { persistent: true, trainable: true, ..TensorFlags::NONE };

    /// Whether computations only read the tensor, which never changes. All others are l-tensors, inputs too.
    pub const fn read_only(self) -> bool {
        self.constant
    }

    /// Whether its value is what training has come to, and not only the host's input: a checkpoint has it.
    pub const fn is_learned(self) -> bool {
        self.persistent && !self.constant && (self.trainable || !self.input)
    }

    /// A bit for each attribute, in the order of the fields.
    pub const fn bits(self) -> u32 {
        self.constant as u32 | (self.persistent as u32) << 1 | (self.trainable as u32) << 2 | (self.input as u32) << 3
    }

    /// The inverse of [`TensorFlags::bits`]; higher bits are ignored.
    pub const fn from_bits(bits: u32) -> TensorFlags {
        TensorFlags {
            constant: bits & 1 != 0,
            persistent: bits & 2 != 0,
            trainable: bits & 4 != 0,
            input: bits & 8 != 0,
        }
    }

    /// Each attribute with its name.
    fn named(self) -> [(&'static str, bool); 4] {
        [
            ("constant", self.constant),
            ("persistent", self.persistent),
            ("trainable", self.trainable),
            ("input", self.input),
        ]
    }
}

/// The names, separated by commas.
impl fmt::Display for TensorFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.named().into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
        f.write_str(&names.join(","))
    }
}

/// A word that is no attribute of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected attributes of a tensor (constant, persistent, trainable, input), found '{0}'")]
pub struct UnknownTensorFlag(pub String);

/// The inverse of `Display`.
impl FromStr for TensorFlags {
    type Err = UnknownTensorFlag;

    fn from_str(text: &str) -> Result<TensorFlags, UnknownTensorFlag> {
        let mut bits = 0;
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let number = TensorFlags::NONE.named().iter().position(|(name, _)| *name == word);
            bits |= 1 << number.ok_or_else(|| UnknownTensorFlag(word.to_owned()))?;
        }
        Ok(TensorFlags::from_bits(bits))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The document's table of helper functions.
    #[test]
    fn the_table_of_attributes() {
        let table = [
            (TensorFlags::CONSTANT, [true, true, false, false]),
            (TensorFlags::PLACEHOLDER, [false, true, false, true]),
            (TensorFlags::PERSISTENT_TENSOR, [false, true, false, false]),
            (TensorFlags::VARIABLE, [false, true, true, false]),
        ];
        for (flags, [constant, persistent, trainable, input]) in table {
            assert_eq!(flags, TensorFlags { constant, persistent, trainable, input });
        }
    }

    #[test]
    fn texts_and_bits_round_trip() {
        for bits in 0..16 {
            let flags = TensorFlags::from_bits(bits);
            assert_eq!(flags.bits(), bits);
            assert_eq!(flags.to_string().parse(), Ok(flags));
        }
        assert_eq!(TensorFlags::VARIABLE.to_string(), "persistent,trainable");
        assert!("weights".parse::<TensorFlags>().unwrap_err().to_string().contains("found 'weights'"));
    }
}
