//! Windows that slide over an array: their sizes and steps, and how far they reach.

use super::rule::Rule;
use crate::hlo::{AttrKey, WindowDimension};

/// The lists that the builder takes.
pub(super) struct Window {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
    pub base: Vec<i64>,
    pub dilation: Vec<i64>,
}

impl Window {
    /// Without attribute, a window of one element.
    pub fn of(r: &Rule<'_>, rank: usize) -> Window {
        let default = vec![WindowDimension::default(); rank];
        let w = r.attrs().window(AttrKey::Window).unwrap_or(&default);
        Window {
            sizes: w.iter().map(|w| w.size).collect(),
            strides: w.iter().map(|w| w.stride).collect(),
            padding: w.iter().map(|w| (w.padding_low, w.padding_high)).collect(),
            base: w.iter().map(|w| w.base_dilation).collect(),
            dilation: w.iter().map(|w| w.window_dilation).collect(),
        }
    }

    pub fn is_dense(&self) -> bool {
        self.base.iter().chain(&self.dilation).all(|&d| d == 1)
    }
}

/// How many places an array of `n` takes with its neighbours `dilation` apart.
pub(super) fn span(n: i64, dilation: i64) -> i64 {
    if n == 0 { 0 } else { (n - 1) * dilation + 1 }
}
