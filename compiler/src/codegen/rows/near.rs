//! Which loads of a row lie near each other, so that one pointer serves them: rows of one array, some elements behind each other, and
//! what lies between each other's elements, as the components of points and the colours of pixels do, and comes out of the same registers.

use super::{RowLoop, VECTOR};
use crate::kernel::body::{Mem, NodeId};
use crate::kernel::index::Ix;
use hashbrown::HashMap;

/// Bytes at which a load is too far from another to share its pointer: a displacement has 32 bits, of which a row takes its part.
const FAR: i64 = 1 << 30;

/// A load among those that lie near each other.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    /// The one of them that begins first.
    pub leader: NodeId,
    /// How many elements behind it the load begins, ...
    pub behind: i64,
    /// ... and the last of them.
    pub span: i64,
}

/// What fills 128 bits of each row.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The load near it that begins first.
    pub leader: NodeId,
    /// How many elements behind that it begins.
    pub begin: i64,
    /// Which of its elements a load takes.
    pub column: usize,
}

/// Where what fills 128 bits begins in rows of so many elements; where they are no multiple of as many, the last begins earlier.
pub fn parts(mem: Mem, elements: i64) -> impl Iterator<Item = i64> {
    let each = mem.per_part();
    (0..elements).step_by(each as usize).map(move |begin| begin.min(elements - each))
}

/// Whether four narrow elements of a stride, and what lies up to `span` elements behind each, fit into 128 bits.
pub fn lies_in_part(mem: Mem, stride: i64, span: i64) -> bool {
    let elements = stride.checked_mul(VECTOR - 1).and_then(|n| n.checked_add(span + 1));
    mem.is_extended() && stride > 1 && elements.is_some_and(|n| n <= mem.per_part())
}

impl Near {
    /// The part that the load's element comes in; `None` where the loads, with a stride, have too few between each other.
    pub(super) fn part(&self, mem: Mem, stride: i64) -> Option<Part> {
        if stride <= 1 || !mem.fills_part(self.span + 1) {
            return None;
        }
        let each = mem.per_part();
        let begin = (self.behind / each * each).min(self.span + 1 - each);
        Some(Part { leader: self.leader, begin, column: usize::try_from(self.behind - begin).ok()? })
    }
}

/// The same walk but for its start: the buffer, bytes of an element, the stride, and where it starts without what is constant.
type Walk = (u32, i64, i64, Ix);

/// The loads of a row that walk. Those side by side lie near each other where they are not too far apart; those with a stride where each
/// begins less than that behind the first.
pub(super) fn near(row: &RowLoop<'_>) -> HashMap<NodeId, Near> {
    let mut groups: HashMap<Walk, Vec<(i64, NodeId)>> = HashMap::new();
    for (&id, access) in &row.loads {
        if let Some(stride) = access.walk.stride() {
            let start = access.start.offset(access.start.constant.wrapping_neg());
            let walk = (access.buffer, access.mem.bytes(), stride, start);
            groups.entry(walk).or_default().push((access.start.constant, id));
        }
    }
    let mut out = HashMap::new();
    for ((_, bytes, stride, _), mut loads) in groups {
        loads.sort_unstable();
        let reach = if stride == 1 { FAR / bytes } else { stride.saturating_abs() };
        let mut rest = loads.as_slice();
        while let Some(&(first, leader)) = rest.first() {
            let near = |&(at, _): &(i64, NodeId)| at.checked_sub(first).is_some_and(|behind| behind < reach.max(1));
            let (group, others) = rest.split_at(rest.partition_point(near));
            let span = group.last().map_or(0, |&(last, _)| last - first);
            out.extend(group.iter().map(|&(at, id)| (id, Near { leader, behind: at - first, span })));
            rest = others;
        }
    }
    out
}
