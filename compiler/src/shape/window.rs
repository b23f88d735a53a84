//! Window arithmetic, shared by reduce-window, select-and-scatter and convolution.
//!
//! A base of `n` elements dilated by `b` has `(n-1)*b+1` elements (none where `n` is 0); padding, which may be negative,
//! is added; a window of `w` elements dilated by `v` spans `(w-1)*v+1`; it stops at every `stride`-th place where it
//! fits entirely.

use super::rule::{Rule, ensure, fail};
use crate::hlo::WindowDimension;

fn dilated(n: i64, dilation: i64) -> Option<i64> {
    if n <= 0 { Some(0) } else { (n - 1).checked_mul(dilation)?.checked_add(1) }
}

/// How many places a window has over `base` elements, or `None` where the sizes overflow or the padding cuts more than
/// there is.
pub fn window_output_size(base: i64, window: &WindowDimension) -> Option<i64> {
    let padded =
        dilated(base, window.base_dilation)?.checked_add(window.padding_low)?.checked_add(window.padding_high)?;
    let span = dilated(window.size, window.window_dilation)?;
    if padded < 0 || window.stride <= 0 {
        return None;
    }
    if padded == 0 || span > padded {
        return Some(0);
    }
    Some((padded - span) / window.stride + 1)
}

/// The sizes of the places of `window` over an array of dimensions `base`.
pub(super) fn window_dims(base: &[i64], window: &[WindowDimension]) -> Rule<Vec<i64>> {
    ensure!(
        window.len() == base.len(),
        "window.rank",
        "expected a window of {} dimensions, found {}",
        base.len(),
        window.len()
    );
    let mut out = Vec::with_capacity(base.len());
    for (d, (&n, w)) in base.iter().zip(window).enumerate() {
        ensure!(w.size > 0, "window.size", "expected a window size of at least 1 in dimension {d}, found {}", w.size);
        ensure!(w.stride > 0, "window.stride", "expected a stride of at least 1 in dimension {d}, found {}", w.stride);
        ensure!(
            w.base_dilation > 0 && w.window_dilation > 0,
            "window.dilation",
            "expected dilations of at least 1 in dimension {d}, found {} and {}",
            w.base_dilation,
            w.window_dilation
        );
        let between = i128::from(n.max(1) - 1) * i128::from(w.base_dilation);
        let padded = between + i128::from(n.clamp(0, 1)) + i128::from(w.padding_low) + i128::from(w.padding_high);
        ensure!(
            padded >= 0,
            "window.padding",
            "expected a padded size of at least 0 in dimension {d}, found {n} padded by {} and {}",
            w.padding_low,
            w.padding_high
        );
        match window_output_size(n, w) {
            Some(size) => out.push(size),
            None => fail!("window.overflow", "windows over sizes past 2^63 in dimension {d}"),
        }
    }
    Ok(out)
}
