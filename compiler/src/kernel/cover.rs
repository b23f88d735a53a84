//! What stores write: which bytes of a buffer.
//!
//! **Problem.** That every index lies in its buffer says nothing of the elements that no store reaches: a loop cut into pieces
//! without what is left behind the last whole one passes for right, and leaves there what was there before.
//!
//! **Invariant.** What is said to be written is written, whatever the input is. Nothing is said of stores whose index is not linear.
//!
//! **Algorithm.** An index that is linear in its loops walks: from a start, in steps of some bytes, so often for each loop. Steps that
//! go on where smaller ones end are one step taken more often, and of two walks that differ in how often one step is taken, where one
//! begins as the other ends, one is made. What pieces of a row-major array have come of is that array again. Where pieces lie between
//! each other, the longer of them are cut first, the widest steps before the others; what is still several walks is looked at byte
//! by byte, in the largest units that all of them are made of.

use super::body::Mem;
use super::index::{Atom, Ix, Loop, gcd};

/// A step in bytes, and how often it is taken: at least twice.
type Step = (i64, i64);

/// The bytes from a start on, any number of steps of each kind further that is less than how often it is taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Walk {
    start: i64,
    /// By their size, each of its own; none goes on where the one before ends.
    steps: Vec<Step>,
}

impl Walk {
    /// All bytes, so many of them.
    fn whole(bytes: i64) -> Walk {
        Walk { start: 0, steps: Vec::from_iter((bytes > 1).then_some((1, bytes))) }
    }

    /// Where elements of a memory form at an index lie; `None` where the index is not linear in the loops.
    fn of(ix: &Ix, mem: Mem, loops: &[Loop]) -> Option<Walk> {
        let mut start = ix.constant.checked_mul(mem.bytes())?;
        let mut steps = Vec::with_capacity(ix.terms.len() + 1);
        steps.push((1, mem.bytes()));
        for (atom, c) in &ix.terms {
            let Atom::Axis(axis, _) = atom else { return None };
            let extent = loops.iter().find(|l| l.axis == *axis)?.extent;
            let step = c.checked_mul(mem.bytes())?;
            if step < 0 {
                start = start.checked_add(step.checked_mul(extent - 1)?)?;
            }
            steps.push((step.checked_abs()?, extent));
        }
        Some(Walk { start, steps }.joined())
    }

    /// The same with as few steps as there can be, no two of one size.
    fn joined(mut self) -> Walk {
        self.steps.retain(|&(_, count)| count > 1);
        self.steps.sort_unstable();
        self.steps.dedup_by(|next, last| {
            let count = match next.0 {
                size if size == last.0 => last.1.checked_add(next.1 - 1),
                size if last.0.checked_mul(last.1) == Some(size) => last.1.checked_mul(next.1),
                _ => None,
            };
            last.1 = count.unwrap_or(last.1);
            count.is_some()
        });
        self
    }

    /// This walk and one that starts no earlier, as one.
    fn and(&self, later: &Walk) -> Option<Walk> {
        let apart = later.start.checked_sub(self.start)?;
        let only = |walk: &Walk, other: &Walk| {
            let mut steps = walk.steps.iter().filter(|s| !other.steps.contains(s));
            (steps.next().copied(), steps.next().is_some())
        };
        let (mine, other) = match (only(self, later), only(later, self)) {
            ((mine, false), (other, false)) => (mine, other),
            _ => return None,
        };
        // How often the step that leads from one to the other is taken in either.
        let (step, count, more) = match (mine, other) {
            (None, None) if apart == 0 => return Some(self.clone()),
            (None, None) => (apart, 1, 1),
            (Some((step, count)), None) => (step, count, 1),
            (None, Some((step, more))) => (step, 1, more),
            (Some((step, count)), Some((same, more))) if step == same => (step, count, more),
            _ => return None,
        };
        if step.checked_mul(count) != Some(apart) {
            return None;
        }
        let mut steps: Vec<Step> = self.steps.iter().copied().filter(|s| later.steps.contains(s)).collect();
        steps.push((step, count.checked_add(more)?));
        Some(Walk { start: self.start, steps }.joined())
    }

    /// The same, where it takes no more steps than one of them.
    fn and_plain(&self, later: &Walk) -> Option<Walk> {
        self.and(later).filter(|both| both.steps.len() <= self.steps.len().max(later.steps.len()))
    }

    /// The same in two parts, if it takes steps of some size and `first` says how many of so many the first part takes.
    fn cut(self, size: i64, first: impl Fn(Step) -> Option<i64>) -> Vec<Walk> {
        let found = self.steps.iter().position(|s| s.0 == size).and_then(|k| Some((k, first(self.steps[k])?)));
        let Some((k, less)) = found else { return vec![self] };
        let part = |begin: i64, count: i64| {
            let mut steps = self.steps.clone();
            steps[k].1 = count;
            Walk { start: self.start + begin * size, steps }.joined()
        };
        vec![part(0, less), part(less, self.steps[k].1 - less)]
    }

    /// Calls `visit` for the start of each run of `run` bytes, which the walk is made of.
    fn each(&self, run: i64, visit: &mut impl FnMut(i64)) {
        fn walk(start: i64, run: i64, steps: &[Step], visit: &mut impl FnMut(i64)) {
            match steps {
                [] => visit(start),
                [(1, count), rest @ ..] => (0..count / run).for_each(|k| walk(start + k * run, run, rest, visit)),
                [(step, count), rest @ ..] => (0..*count).for_each(|k| walk(start + k * step, run, rest, visit)),
            }
        }
        walk(self.start, run, &self.steps, visit);
    }

    /// The longest run of bytes that it is made of.
    fn unit(&self) -> i64 {
        match self.steps.as_slice() {
            [(1, count), rest @ ..] => rest.iter().fold(gcd(self.start, *count), |unit, (step, _)| gcd(unit, *step)),
            _ => 1,
        }
    }
}

/// What is written of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// Whether more is written that nothing is known of.
    open: bool,
    walks: Vec<Walk>,
}

/// So many units are looked at one by one.
const MOST_UNITS: i64 = 1 << 28;

impl Cover {
    /// What is written by something else than stores.
    pub fn unknown() -> Cover {
        Cover { open: true, walks: Vec::new() }
    }

    /// Adds what a store of a memory form at an index writes, in loops all of which run.
    pub fn add(&mut self, ix: &Ix, mem: Mem, loops: &[Loop]) {
        match Walk::of(ix, mem, loops) {
            Some(walk) => self.walks.push(walk),
            None => self.open = true,
        }
    }

    /// The first byte, of so many, that is not written or not shown to be; `None` too where an index is not linear.
    pub fn first_missing(mut self, bytes: i64) -> Option<i64> {
        let whole = Walk::whole(bytes);
        if bytes == 0 || self.open || self.walks.contains(&whole) {
            return None;
        }
        self.join();
        let mut below = i64::MAX;
        while !self.walks.contains(&whole) {
            match self.cut_below(below) {
                Some(size) => below = size,
                None => return self.missing_unit(bytes),
            }
        }
        None
    }

    /// Whether the same of so many bytes is written as in another cover, or an index of both is not linear.
    pub fn is_that_of(mut self, mut other: Cover, bytes: i64) -> bool {
        self.join();
        other.join();
        if self == other {
            return true;
        }
        let unit = gcd(self.unit(bytes), other.unit(bytes));
        let units = |cover: &Cover| cover.units(bytes, unit);
        self.open == other.open && units(&self).zip(units(&other)).is_some_and(|(a, b)| a == b)
    }

    /// Cuts the widest steps, of those below a size, that are taken more often in one walk than in others, and joins what can be then; the
    /// size of the steps. A step that one walk alone takes leads over what others write.
    fn cut_below(&mut self, below: i64) -> Option<i64> {
        let steps: Vec<Step> = self.walks.iter().flat_map(|w| w.steps.iter().copied()).collect();
        let first = |(size, count): Step| {
            let mut others = steps.iter().filter(|s| s.0 == size && s.1 != count).map(|s| s.1).peekable();
            let alone = others.peek().is_none();
            others.filter(|&c| c < count).max().or((alone && size > 1 && count == 2).then_some(1))
        };
        let (size, _) = *steps.iter().filter(|s| s.0 < below && first(**s).is_some()).max()?;
        let walks = std::mem::take(&mut self.walks);
        self.walks = walks.into_iter().flat_map(|w| w.cut(size, first)).collect();
        self.join();
        Some(size)
    }

    /// Makes one walk of several wherever that can be done.
    fn join(&mut self) {
        self.join_neighbours();
        // A step over what others write is made only where nothing goes on where something ends: it may be one of another pair.
        while self.join_two(false) || self.join_two(true) {}
    }

    /// Makes one walk of those that go on where the one before them ends: most of many pieces, in one look at each.
    fn join_neighbours(&mut self) {
        self.walks.sort_unstable();
        let mut out: Vec<Walk> = Vec::with_capacity(self.walks.len());
        for mut walk in self.walks.drain(..) {
            while let Some(both) = out.last().and_then(|last| last.and_plain(&walk)) {
                out.pop();
                walk = both;
            }
            out.push(walk);
        }
        self.walks = out;
    }

    /// Makes one walk of any two, also of more steps than either has if `over` says so.
    fn join_two(&mut self, over: bool) -> bool {
        let walks = &self.walks;
        let both = |k: usize, l: usize| if over { walks[k].and(&walks[l]) } else { walks[k].and_plain(&walks[l]) };
        let found = (0..walks.len()).find_map(|k| (k + 1..walks.len()).find_map(|l| Some((k, l, both(k, l)?))));
        let Some((k, l, both)) = found else { return false };
        self.walks.remove(l);
        self.walks[k] = both;
        true
    }

    /// The longest run of bytes that all walks are made of, and so many bytes; at least one.
    fn unit(&self, bytes: i64) -> i64 {
        self.walks.iter().fold(bytes, |unit, w| gcd(unit, w.unit())).saturating_abs().max(1)
    }

    /// Which runs of `unit` bytes, of so many in all, are written; `None` where there are too many.
    fn units(&self, bytes: i64, unit: i64) -> Option<Vec<bool>> {
        let units = usize::try_from(Some(bytes / unit).filter(|n| *n <= MOST_UNITS)?).ok()?;
        let mut written = vec![false; units];
        for walk in &self.walks {
            walk.each(unit, &mut |at| {
                if let Some(run) = usize::try_from(at / unit).ok().and_then(|k| written.get_mut(k)) {
                    *run = true;
                }
            });
        }
        Some(written)
    }

    /// The first byte that is not written, found one by one.
    fn missing_unit(&self, bytes: i64) -> Option<i64> {
        let unit = self.unit(bytes);
        match self.units(bytes, unit) {
            Some(written) => (0..).zip(&written).find(|(_, w)| !**w).map(|(k, _)| k * unit),
            None => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::index::Axis;

    /// The bytes of stores of two bytes each, one after another.
    fn written(stores: &[(Ix, Vec<Loop>)], bytes: i64) -> (Cover, Vec<bool>) {
        let (mut cover, mut all) = (Cover::default(), vec![false; bytes as usize]);
        for (ix, loops) in stores {
            cover.add(ix, Mem::U16, loops);
            let points: i64 = loops.iter().map(|l| l.extent).product();
            for point in 0..points {
                let value = |axis: Axis| {
                    let inner: i64 = loops.iter().skip_while(|l| l.axis != axis).skip(1).map(|l| l.extent).product();
                    let l = loops.iter().find(|l| l.axis == axis).expect("a loop");
                    point / inner % l.extent
                };
                let at = 2 * ix.eval(&value, &|_| 0) as usize;
                all[at..at + 2].fill(true);
            }
        }
        (cover, all)
    }

    /// Pieces of an array of three dimensions, cut at random, along any dimension, in runs or in every second element, some left out:
    /// what is missing is what is missing one by one, and no order of the pieces says something else.
    #[test]
    fn what_is_missing_of_pieces_is_found() {
        let mut state = 7u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % n as u64) as i64
        };
        let (mut whole, mut holes) = (0, 0);
        for _ in 0..3000 {
            let dims = [1 + below(4), 1 + below(6), 1 + below(9)];
            // Of each dimension: where a piece begins, its step, and how many.
            let mut pieces = vec![dims.map(|d| (0, 1, d))];
            for _ in 0..below(6) {
                let piece = pieces.remove(below(pieces.len() as i64) as usize);
                let d = below(3) as usize;
                let (begin, step, count) = piece[d];
                let parts = if below(3) == 0 {
                    [(begin, 2 * step, (count + 1) / 2), (begin + step, 2 * step, count / 2)]
                } else {
                    let first = below(count + 1);
                    [(begin, step, first), (begin + first * step, step, count - first)]
                };
                let of = |part| {
                    let mut piece = piece;
                    piece[d] = part;
                    piece
                };
                pieces.extend(parts.into_iter().filter(|p| p.2 > 0).map(of));
            }
            if pieces.len() > 1 && below(3) == 0 {
                pieces.pop();
            }
            let store = |piece: &[(i64, i64, i64); 3]| {
                let loops: Vec<Loop> = (0..).zip(piece).map(|(k, p)| Loop { axis: Axis(k), extent: p.2 }).collect();
                let at = piece.iter().zip(&loops).zip(dims).fold(Ix::constant(0), |at, ((p, l), d)| {
                    // Half of them go backwards.
                    let back = p.0 % 2 == 1;
                    let x = if back {
                        l.ix().scale(-p.1).offset(p.0 + (p.2 - 1) * p.1)
                    } else {
                        l.ix().scale(p.1).offset(p.0)
                    };
                    at.scale(d).add(&x)
                });
                (at, loops)
            };
            let stores: Vec<_> = pieces.iter().map(store).collect();
            let bytes = 2 * dims.iter().product::<i64>();
            let (cover, all) = written(&stores, bytes);
            let missing = all.iter().position(|w| !w).map(|at| at as i64);
            assert_eq!(cover.clone().first_missing(bytes), missing, "{dims:?}: {pieces:?}");
            (whole, holes) = (whole + i32::from(missing.is_none()), holes + i32::from(missing.is_some()));
            let turned: Vec<_> = stores.iter().rev().cloned().collect();
            assert!(written(&turned, bytes).0.is_that_of(cover.clone(), bytes), "{dims:?}: {pieces:?}");
            let (other, less) = written(&stores[1..], bytes);
            assert_eq!(other.is_that_of(cover, bytes), less == all, "{dims:?}: {pieces:?} without the first");
        }
        assert!(whole > 1000 && holes > 500, "{whole} and {holes}");
    }

    /// Loops that come to one element several times, and another store, and what they write behind the end: what is missing is found.
    #[test]
    fn walks_may_meet_themselves() {
        let [i, j, k, l] = [(0, 3), (1, 3), (2, 2), (3, 3)].map(|(axis, extent)| Loop { axis: Axis(axis), extent });
        let (mut whole, mut holes) = (0, 0);
        for (a, b, c) in (1..5).flat_map(|a| (0..5).flat_map(move |b| (1..7).map(move |c| (a, b, c)))) {
            for (start, k) in (0..12).flat_map(|start| [(start, k), (start, l)]) {
                let first = (i.ix().scale(a).add(&j.ix().scale(b)), vec![i, j]);
                let second = (k.ix().scale(c).offset(start), vec![k]);
                for stores in [vec![first.clone(), second.clone()], vec![first.clone(), second, first]] {
                    for bytes in [10, 14, 18, 38] {
                        let (cover, mut all) = written(&stores, 64);
                        all.truncate(bytes);
                        let missing = all.iter().position(|w| !w).map(|at| at as i64);
                        assert_eq!(cover.first_missing(bytes as i64), missing, "{a} {b} {c} {start} {bytes}");
                        (whole, holes) = (whole + i32::from(missing.is_none()), holes + i32::from(missing.is_some()));
                    }
                }
            }
        }
        assert!(whole > 100 && holes > 1000, "{whole} and {holes}");
    }

    /// What is larger than can be looked at one by one is found to be whole where pieces of it fit together, and not where one is missing.
    #[test]
    fn large_arrays_are_not_looked_at_byte_by_byte() {
        let (rows, columns) = (1 << 20, (1 << 20) + 3);
        let [i, j] = [0, 1].map(Axis);
        let piece = |first: [i64; 2], extents: [i64; 2]| {
            let [row, column] = [(i, 0), (j, 1)].map(|(axis, d)| Loop { axis, extent: extents[d] });
            let at = row.ix().offset(first[0]).scale(columns).add(&column.ix().offset(first[1]));
            (at, vec![row, column])
        };
        let pieces = [
            piece([0, 0], [7, columns - 1]),
            piece([7, 0], [rows - 7, columns - 1]),
            piece([0, columns - 1], [rows, 1]),
        ];
        for left_out in [None, Some(0), Some(1), Some(2)] {
            let mut cover = Cover::default();
            for (k, (ix, loops)) in pieces.iter().enumerate() {
                if Some(k) != left_out {
                    cover.add(ix, Mem::F32, loops);
                }
            }
            assert_eq!(cover.first_missing(4 * rows * columns).is_some(), left_out.is_some(), "{left_out:?}");
        }
    }
}
