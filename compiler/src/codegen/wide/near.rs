//! Which loads of a row read elements that lie between those of others: the components of points, the colours of pixels.

use crate::codegen::rows::RowLoop;
use crate::kernel::body::{Mem, NodeId};
use crate::kernel::index::Ix;
use std::collections::HashMap;

/// A load whose elements lie between those of others.
pub(super) struct Near {
    /// The one of them that begins first.
    pub leader: NodeId,
    /// How many elements behind it the load begins, ...
    pub behind: i64,
    /// ... and the last of them.
    pub span: i64,
}

/// The loads of a row with a stride, by what they may share: each begins less than a stride behind the leader.
pub(super) fn near(row: &RowLoop<'_>) -> HashMap<NodeId, Near> {
    let mut groups: HashMap<(u32, Mem, i64, Ix), Vec<(i64, NodeId)>> = HashMap::new();
    for (&id, access) in &row.loads {
        if let Some(stride) = access.walk.stride().filter(|stride| stride.abs() > 1) {
            let start = access.start.offset(access.start.constant.wrapping_neg());
            groups.entry((access.buffer, access.mem, stride, start)).or_default().push((access.start.constant, id));
        }
    }
    let mut out = HashMap::new();
    for ((_, _, stride, _), mut loads) in groups {
        loads.sort_unstable();
        let mut rest = loads.as_slice();
        while let Some(&(first, leader)) = rest.first() {
            let shares = |&(at, _): &(i64, NodeId)| at.checked_sub(first).is_some_and(|behind| behind < stride.abs());
            let (group, others) = rest.split_at(rest.partition_point(shares));
            let span = group.last().map_or(0, |&(last, _)| last - first);
            out.extend(group.iter().map(|&(at, id)| (id, Near { leader, behind: at - first, span })));
            rest = others;
        }
    }
    out
}
