//! What a `compare` asks.

use super::{AttrKey, Attrs};

/// The direction of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonDirection {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater or equal.
    Ge,
    /// Greater.
    Gt,
    /// Less or equal.
    Le,
    /// Less.
    Lt,
}

impl ComparisonDirection {
    /// The direction that attributes say, `EQ` where they say none; `None` for a word that is no direction.
    pub fn of(attrs: &Attrs) -> Option<ComparisonDirection> {
        Some(match attrs.word(AttrKey::Direction).unwrap_or("EQ") {
            "EQ" => ComparisonDirection::Eq,
            "NE" => ComparisonDirection::Ne,
            "GE" => ComparisonDirection::Ge,
            "GT" => ComparisonDirection::Gt,
            "LE" => ComparisonDirection::Le,
            "LT" => ComparisonDirection::Lt,
            _ => return None,
        })
    }
}
