//! Offsets: things with sizes and live ranges into one piece of memory, as small as may be.
//!
//! Two ways, and the smaller result counts. *By size*: the largest first, each into the tightest gap between those
//! that live at the same time and have their place already; that is close to the best, takes quadratic time, and so is
//! left out for very large programs. *By time*: as a program would allocate and free, best fit; each thing takes its
//! place from its first point to its last.

use super::live::Ranges;
use crate::error::{Error, Result, Site};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Offsets are multiples of this.
pub(super) const ALIGNMENT: u64 = 64;
/// More than this no address space has.
const MAX_BYTES: u64 = 1 << 46;
/// For more things than this, packing by size takes too long.
const MAX_BY_SIZE: usize = 3000;

/// Something that needs memory.
pub(super) struct Item {
    pub bytes: u64,
    /// Ascending; they may meet.
    pub live: Ranges,
}

impl Item {
    /// From its first point to its last.
    fn span(&self) -> (u32, u32) {
        let start = self.live.first().map_or(0, |r| r.0);
        (start, self.live.iter().map(|r| r.1).max().unwrap_or(start))
    }

    fn meets(&self, other: &Item) -> bool {
        let ((a, b), (c, d)) = (self.span(), other.span());
        if a >= d || c >= b {
            return false;
        }
        let (mut i, mut j) = (0, 0);
        while let (Some(&(a, b)), Some(&(c, d))) = (self.live.get(i), other.live.get(j)) {
            if a < d && c < b {
                return true;
            }
            if b <= d {
                i += 1;
            } else {
                j += 1;
            }
        }
        false
    }
}

/// The offset of each item, and the size of the whole.
///
/// # Errors
/// [`Error::Unsupported`] where the whole does not fit the address space.
pub(super) fn pack(items: &[Item]) -> Result<(Vec<u64>, u64)> {
    let mut total: u64 = 0;
    let mut sizes = Vec::with_capacity(items.len());
    for item in items {
        let size = item.bytes.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
        total = total.checked_add(size).filter(|&t| t < u64::MAX / 2).ok_or_else(too_large)?;
        sizes.push(size);
    }
    let mut best = by_time(items, &sizes);
    if items.len() <= MAX_BY_SIZE {
        let other = by_size(items, &sizes);
        if other.1 < best.1 {
            best = other;
        }
    }
    if best.1 > MAX_BYTES { Err(too_large()) } else { Ok(best) }
}

fn too_large() -> Error {
    let feature = format!("a workspace of more than {MAX_BYTES} bytes");
    Error::Unsupported { site: Site::default(), feature }
}

fn by_size(items: &[Item], sizes: &[u64]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), items[i].span()));
    let mut offsets = vec![0; items.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        let mut taken: Vec<(u64, u64)> = placed
            .iter()
            .filter(|&&p| items[i].meets(&items[p]))
            .map(|&p| (offsets[p], offsets[p] + sizes[p]))
            .collect();
        taken.sort_unstable();
        let (mut free_from, mut best) = (0, None);
        for (start, end) in taken {
            let gap = start.saturating_sub(free_from);
            if start >= free_from && gap >= sizes[i] && best.is_none_or(|(g, _)| gap < g) {
                best = Some((gap, free_from));
            }
            free_from = free_from.max(end);
        }
        offsets[i] = best.map_or(free_from, |(_, at)| at);
        total = total.max(offsets[i] + sizes[i]);
        placed.push(i);
    }
    (offsets, total)
}

/// Free memory, found by place and by size.
#[derive(Default)]
struct Free {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    end: u64,
}

impl Free {
    fn remove(&mut self, start: u64) -> Option<u64> {
        let size = self.by_start.remove(&start)?;
        self.by_size.remove(&(size, start));
        Some(size)
    }

    fn insert(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.by_start.insert(start, size);
            self.by_size.insert((size, start));
        }
    }

    fn allocate(&mut self, size: u64) -> u64 {
        if let Some(&(have, start)) = self.by_size.range((size, 0)..).next() {
            self.remove(start);
            self.insert(start + size, have - size);
            return start;
        }
        // What is free at the very end grows.
        let last = self.by_start.last_key_value().map(|(&start, &have)| (start, have));
        let start = match last {
            Some((start, have)) if start + have == self.end => {
                self.remove(start);
                start
            }
            _ => self.end,
        };
        self.end = start + size;
        start
    }

    fn free(&mut self, mut start: u64, mut size: u64) {
        if let Some(next) = self.remove(start + size) {
            size += next;
        }
        let before = self.by_start.range(..start).next_back().map(|(&s, &have)| (s, have));
        if let Some((s, have)) = before
            && s + have == start
        {
            self.remove(s);
            (start, size) = (s, have + size);
        }
        self.insert(start, size);
    }
}

fn by_time(items: &[Item], sizes: &[u64]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| (items[i].span().0, std::cmp::Reverse(sizes[i])));
    let mut offsets = vec![0; items.len()];
    let mut free = Free::default();
    let mut living: BinaryHeap<std::cmp::Reverse<(u32, usize)>> = BinaryHeap::new();
    for i in order {
        let (start, end) = items[i].span();
        while let Some(&std::cmp::Reverse((e, j))) = living.peek()
            && e <= start
        {
            living.pop();
            free.free(offsets[j], sizes[j]);
        }
        if sizes[i] > 0 {
            offsets[i] = free.allocate(sizes[i]);
            living.push(std::cmp::Reverse((end, i)));
        }
    }
    (offsets, free.end)
}
