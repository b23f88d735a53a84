//! Layouts: which dimension varies fastest in memory.
//!
//! Source: the specification's «Layout». Only `minor_to_major` has a physical meaning in Brolga; tiles, memory
//! spaces and the rest are kept so that a module prints as it was read.

use std::fmt;

/// The layout of an array: the part between braces in `f32[2,3]{1,0:T(8,128)S(1)}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Dimension numbers, the fastest-varying first.
    pub minor_to_major: Vec<usize>,
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

    /// True where the physical order of elements is row-major.
    pub fn is_row_major(&self) -> bool {
        self.minor_to_major.iter().rev().enumerate().all(|(i, &d)| i == d)
    }
}

impl Layout {
    /// Prints those of the other properties that `chosen` picks by their letters.
    fn print_other(&self, f: &mut fmt::Formatter<'_>, chosen: impl Fn(&str) -> bool) -> fmt::Result {
        self.other.iter().filter(|(l, _)| chosen(l)).try_for_each(|(l, argument)| write!(f, "{l}({argument})"))
    }
}

impl fmt::Display for Layout {
    // The order of the properties is fixed: XLA reads them in no other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain =
            self.tiles.is_empty() && self.element_size_in_bits == 0 && self.memory_space == 0 && self.other.is_empty();
        if self.minor_to_major.is_empty() && plain {
            return Ok(());
        }
        f.write_str("{")?;
        for (i, d) in self.minor_to_major.iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { "," } else { "" })?;
        }
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
    }
}
