//! Layouts: which dimension varies fastest in memory, and what lies between the elements.
//!
//! Source: the specification's «Layout». The order of the dimensions and the padding have a physical meaning in Brolga; tiles,
//! memory spaces and the rest are kept so that a module prints as it was read.

use crate::PaddingValue;
use std::fmt;

/// The layout of an array: the part between braces in `f32[2,3]{1,0:T(8,128)S(1)}`. Padding is written `W(4,5)V(zero)` behind the
/// properties that XLA knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Dimension numbers, the fastest-varying first.
    pub minor_to_major: Vec<usize>,
    /// What each dimension, by its number, is padded to: at least its size. Empty where there is no padding.
    pub padded_dimensions: Vec<i64>,
    /// What the padding holds.
    pub padding_value: PaddingValue,
    /// Tiles, outermost first; `None` stands for `*` (combine with the next dimension).
    pub tiles: Vec<Vec<Option<i64>>>,
    /// Width of an element in memory where it differs from the type's, 0 otherwise.
    pub element_size_in_bits: i64,
    /// Memory space, 0 for the default.
    pub memory_space: i64,
    /// Other properties as (letters, argument text), in source order, such as `("L", "4")` for `L(4)`.
    pub other: Vec<(String, String)>,
}

impl Layout {
    /// The row-major layout of the given rank.
    pub fn row_major(rank: usize) -> Layout {
        Layout { minor_to_major: (0..rank).rev().collect(), ..Layout::default() }
    }

    /// True where the physical order of elements, with padding or without, is row-major.
    pub fn is_row_major(&self) -> bool {
        self.minor_to_major.iter().rev().enumerate().all(|(i, &d)| i == d)
    }
}

impl Layout {
    /// Prints those of the other properties that `chosen` picks by their letters.
    fn print_other(&self, f: &mut fmt::Formatter<'_>, chosen: impl Fn(&str) -> bool) -> fmt::Result {
        self.other.iter().filter(|(l, _)| chosen(l)).try_for_each(|(l, argument)| write!(f, "{l}({argument})"))
    }

    fn print_padding(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.padded_dimensions.is_empty() {
            f.write_str("W(")?;
            write_list(f, &self.padded_dimensions)?;
            f.write_str(")")?;
        }
        match self.padding_value {
            PaddingValue::Invalid => Ok(()),
            value => write!(f, "V({})", value.name()),
        }
    }
}

/// Prints numbers with commas.
fn write_list(f: &mut fmt::Formatter<'_>, numbers: &[impl fmt::Display]) -> fmt::Result {
    for (i, number) in numbers.iter().enumerate() {
        write!(f, "{}{number}", if i > 0 { "," } else { "" })?;
    }
    Ok(())
}

impl fmt::Display for Layout {
    // The order of the properties is fixed: XLA reads them in no other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order_only = Layout { minor_to_major: self.minor_to_major.clone(), ..Layout::default() };
        let plain = *self == order_only;
        if self.minor_to_major.is_empty() && plain {
            return Ok(());
        }
        f.write_str("{")?;
        write_list(f, &self.minor_to_major)?;
        if !plain {
            f.write_str(":")?;
        }
        self.print_other(f, |l| l == "D")?;
        if !self.tiles.is_empty() {
            f.write_str("T")?;
        }
        for tile in &self.tiles {
            f.write_str("(")?;
            for (i, d) in tile.iter().enumerate() {
                f.write_str(if i > 0 { "," } else { "" })?;
                match d {
                    Some(d) => write!(f, "{d}")?,
                    None => f.write_str("*")?,
                }
            }
            f.write_str(")")?;
        }
        let last = |l: &str| matches!(l, "SC" | "M");
        self.print_other(f, |l| l != "D" && !last(l))?;
        if self.element_size_in_bits != 0 {
            write!(f, "E({})", self.element_size_in_bits)?;
        }
        if self.memory_space != 0 {
            write!(f, "S({})", self.memory_space)?;
        }
        self.print_other(f, last)?;
        self.print_padding(f)?;
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_tiles_and_spaces() {
        let layout = Layout {
            minor_to_major: vec![1, 0],
            tiles: vec![vec![Some(8), None]],
            memory_space: 5,
            ..Layout::default()
        };
        assert_eq!(layout.to_string(), "{1,0:T(8,*)S(5)}");
        assert!(layout.is_row_major());
        assert_eq!(Layout::default().to_string(), "");
        let padded = Layout { padded_dimensions: vec![3, 5], padding_value: PaddingValue::Lowest, ..layout };
        assert_eq!(padded.to_string(), "{1,0:T(8,*)S(5)W(3,5)V(lowest)}");
    }
}
