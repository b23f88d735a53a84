//! Which dimension of a reshape's result takes the true size of a dynamic dimension.
//!
//! Problem: a reshape declares bounds, and the sizes that are known at run time have to go somewhere. Invariant: elements
//! keep their row-major order, and a dimension that is not dynamic keeps its size. Algorithm: the dimensions fall into the
//! smallest groups of neighbours whose bounds have equal products. In a group that only gains or loses ones the sizes
//! follow; in any other, one dimension takes what the others leave: the one that `inferred_dimension` names, or else the
//! only one that is declared dynamic, or else the only one that is not 1.

use crate::hlo::{AttrKey, Attrs};
use brolga_runtime::ArrayShape;

/// Dimensions of the operand and of the result that hold the same elements.
pub struct ReshapeGroup {
    /// Those of the operand.
    pub from: Vec<usize>,
    /// Those of the result.
    pub to: Vec<usize>,
}

/// Where the sizes of a group's dimensions go.
pub enum Sizes {
    /// Each to the result dimension it stands with.
    Follow(Vec<(usize, usize)>),
    /// This result dimension takes what the others, all of their bounds, leave.
    Open(usize),
    /// Nowhere: the result is a scalar.
    Nowhere,
}

/// The smallest groups of neighbouring dimensions, of equal products, into which a reshape falls. No size is 0.
pub fn reshape_groups(from: &[i64], to: &[i64]) -> Vec<ReshapeGroup> {
    let mut out: Vec<ReshapeGroup> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (mut a, mut b) = (from[i], to[j]);
        let mut group = ReshapeGroup { from: vec![i], to: vec![j] };
        (i, j) = (i + 1, j + 1);
        while a != b && (i < from.len() && a < b || j < to.len() && b < a) {
            if a < b {
                a = a.saturating_mul(from[i]);
                group.from.push(i);
                i += 1;
            } else {
                b = b.saturating_mul(to[j]);
                group.to.push(j);
                j += 1;
            }
        }
        out.push(group);
    }
    if let Some(last) = out.last_mut() {
        last.from.extend(i..from.len());
        last.to.extend(j..to.len());
    } else {
        out.push(ReshapeGroup { from: (i..from.len()).collect(), to: (j..to.len()).collect() });
    }
    out
}

impl ReshapeGroup {
    /// Where the sizes go, in a group with a dynamic dimension. `from` are the operand's bounds, `dynamic` says which of its
    /// dimensions are dynamic, `to` is the result. `None` where several dimensions could take them.
    pub fn sizes(
        &self,
        from: &[i64],
        dynamic: impl Fn(usize) -> bool,
        to: &ArrayShape,
        attrs: &Attrs,
    ) -> Option<Sizes> {
        let declared = |d: usize| to.dynamic.get(d) == Some(&true);
        let sources: Vec<usize> = self.from.iter().copied().filter(|&d| from[d] != 1 || dynamic(d)).collect();
        let targets: Vec<usize> = self.to.iter().copied().filter(|&d| to.dims[d] != 1 || declared(d)).collect();
        if sources.iter().map(|&d| from[d]).eq(targets.iter().map(|&d| to.dims[d])) {
            return Some(Sizes::Follow(sources.into_iter().zip(targets).collect()));
        }
        let inferred = attrs.int(AttrKey::InferredDimension).and_then(|d| usize::try_from(d).ok());
        let marked: Vec<usize> = targets.iter().copied().filter(|&d| declared(d)).collect();
        match (inferred.filter(|d| self.to.contains(d)), &marked[..], &targets[..], &self.to[..]) {
            (Some(d), ..) | (None, &[d], ..) | (None, [], &[d], _) | (None, [], _, &[d]) => Some(Sizes::Open(d)),
            (None, [], _, []) => Some(Sizes::Nowhere),
            _ => None,
        }
    }
}
