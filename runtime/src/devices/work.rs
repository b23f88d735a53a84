//! The pieces of an exchange among threads.
//!
//! Problem: whoever of a group has time should work, and the result must not depend on who did. Invariant: each piece writes
//! bytes that no other piece writes, and reads operands only; the order in which elements are combined is the group's.
//! Algorithm: arrays are cut into runs along the collective's dimension, reductions into pieces that stay in a cache while
//! they are combined and handed to every member.

use super::{Collective, Operation, Reduction, reduce};
use crate::{ArrayShape, ElementType};

/// Bytes of a result that one piece of a reduction makes.
const PIECE: usize = 128 << 10;

/// A buffer of one member, lent to the whole group until the exchange ends.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pointer: *mut u8,
    length: usize,
}

// SAFETY: whoever makes a span promises that the buffer lives, and is used by the exchange alone, until its end.
unsafe impl Send for Span {}
// SAFETY: as above; pieces write apart from each other.
unsafe impl Sync for Span {}

impl Span {
    /// A buffer of `length` bytes.
    pub fn new(pointer: *mut u8, length: usize) -> Span {
        Span { pointer, length }
    }

    /// Where it begins.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Its bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// # Safety
    /// Nobody writes these bytes as long as the slice lives.
    pub(super) unsafe fn bytes<'a>(&self, at: usize, length: usize) -> Option<&'a [u8]> {
        if length == 0 {
            return Some(&[]);
        }
        let fits = at.checked_add(length).is_some_and(|end| end <= self.length);
        // SAFETY: inside the buffer, which the caller keeps others from writing.
        fits.then(|| unsafe { std::slice::from_raw_parts(self.pointer.add(at), length) })
    }

    /// # Safety
    /// Nobody else reads or writes these bytes as long as the slice lives.
    pub(super) unsafe fn bytes_mut<'a>(&self, at: usize, length: usize) -> Option<&'a mut [u8]> {
        if length == 0 {
            return Some(&mut []);
        }
        let fits = at.checked_add(length).is_some_and(|end| end <= self.length);
        // SAFETY: inside the buffer, which the caller keeps others away from.
        fits.then(|| unsafe { std::slice::from_raw_parts_mut(self.pointer.add(at), length) })
    }
}

/// What a member brings: its operands, and where its results go. Results overlap nothing.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Operands, in order.
    pub operands: Vec<Span>,
    /// Results, in order.
    pub results: Vec<Span>,
}

/// `count` runs of `length` bytes, `step` bytes from one to the next.
#[derive(Clone, Copy, Debug)]
struct Runs {
    count: usize,
    length: usize,
    from: usize,
    from_step: usize,
    to: usize,
    to_step: usize,
}

impl Runs {
    fn whole(length: usize) -> Runs {
        Runs { count: 1, length, from: 0, from_step: 0, to: 0, to_step: 0 }
    }

    fn each(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).map(move |i| (self.from + i * self.from_step, self.to + i * self.to_step))
    }
}

/// Work that one thread does.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Operand `array` of all members, combined, into the result of member `to`, or of everyone.
    Reduce { array: usize, to: Option<usize>, runs: Runs },
    /// Operand `source` of member `from` into result `target` of member `to`.
    Copy { from: usize, source: usize, to: usize, target: usize, runs: Runs },
    /// Zeros into result `target` of member `to`.
    Zero { to: usize, target: usize },
    /// The rows that go to member `to`.
    Ragged { to: usize },
}

/// All pieces of an exchange.
#[derive(Debug, Default)]
pub(super) struct Work {
    pieces: Vec<Piece>,
    types: Vec<ElementType>,
    reduction: Option<Reduction>,
    rows: Rows,
}

/// What a ragged exchange needs to know of its arrays.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    bytes: usize,
    offset: Option<ElementType>,
    slices: usize,
}

/// Dimensions before, of and after `d`, the last with the element's bytes.
pub(super) fn around(shape: &ArrayShape, d: usize) -> Option<[usize; 3]> {
    let (before, rest) = shape.dims.split_at_checked(d)?;
    let (&size, after) = rest.split_first()?;
    let product = |dims: &[i64]| dims.iter().map(|&n| usize::try_from(n).ok()).product::<Option<usize>>();
    Some([product(before)?, usize::try_from(size).ok()?, product(after)?.checked_mul(shape.ty.byte_size())?])
}

impl Work {
    /// Cuts an exchange among `members` members into pieces. `group` names the devices, for permutations.
    ///
    /// # Errors
    /// Where the shapes are none that the operation can have, in words.
    pub(super) fn new(
        collective: &Collective,
        group: &[usize],
        operands: &[ArrayShape],
        results: &[ArrayShape],
    ) -> Result<Work, String> {
        let members = group.len();
        let types = operands.iter().map(|s| s.ty).collect();
        let mut work = Work { types, reduction: collective.reduction, ..Work::default() };
        let ragged = collective.operation == Operation::RaggedAllToAll;
        if !ragged && operands.len() != results.len() {
            return Err(format!("{} operands and {} results", operands.len(), results.len()));
        }
        if ragged {
            work.ragged(members, operands, results).ok_or("operands that do not fit together")?;
            return Ok(work);
        }
        if collective.operation == Operation::AllToAllTuple && operands.len() != members {
            return Err(format!("{} operands for {members} devices", operands.len()));
        }
        for (k, (from, to)) in operands.iter().zip(results).enumerate() {
            let fits = from.ty == to.ty && work.array(collective, group, k, from, to).is_some();
            if !fits {
                return Err(format!("{members} devices cannot make {to} of {from}"));
            }
        }
        Ok(work)
    }

    /// The pieces of one operand and its result.
    fn array(
        &mut self,
        collective: &Collective,
        group: &[usize],
        k: usize,
        from: &ArrayShape,
        to: &ArrayShape,
    ) -> Option<()> {
        let members = group.len();
        let (size, target) = (from.byte_size(), to.byte_size());
        let everyone = 0..members;
        match collective.operation {
            Operation::AllReduce => {
                (size == target && reduce::supports(collective.reduction?, from.ty)).then_some(())?;
                for at in (0..size).step_by(PIECE) {
                    let length = PIECE.min(size - at);
                    self.pieces.push(Piece::Reduce {
                        array: k,
                        to: None,
                        runs: Runs { from: at, to: at, ..Runs::whole(length) },
                    });
                }
            }
            Operation::ReduceScatter => {
                reduce::supports(collective.reduction?, from.ty).then_some(())?;
                let [outer, whole, inner] = around(from, collective.dimension)?;
                let [same, part, _] = around(to, collective.dimension)?;
                (same == outer && part * members == whole && target * members == size).then_some(())?;
                for m in everyone {
                    let length = part * inner;
                    let (from, from_step) = (m * length, whole * inner);
                    let runs = Runs { count: outer, length, from, from_step, to: 0, to_step: length };
                    for runs in cut(runs) {
                        self.pieces.push(Piece::Reduce { array: k, to: Some(m), runs });
                    }
                }
            }
            Operation::AllGather => {
                let [outer, part, inner] = around(from, collective.dimension)?;
                let [same, whole, _] = around(to, collective.dimension)?;
                (same == outer && part * members == whole && size * members == target).then_some(())?;
                let length = part * inner;
                for (to, from) in everyone.clone().flat_map(|to| everyone.clone().map(move |from| (to, from))) {
                    let (step, at) = (whole * inner, from * length);
                    let runs = Runs { count: outer, length, from: 0, from_step: length, to: at, to_step: step };
                    self.pieces.push(Piece::Copy { from, source: k, to, target: k, runs });
                }
            }
            Operation::AllToAll => {
                let [outer, whole, inner] = around(from, collective.dimension)?;
                (size == target && members > 0 && whole % members == 0).then_some(())?;
                let (length, step) = (whole / members * inner, whole * inner);
                for (to, from) in everyone.clone().flat_map(|to| everyone.clone().map(move |from| (to, from))) {
                    let (at, source) = (from * length, to * length);
                    let runs = Runs { count: outer, length, from: source, from_step: step, to: at, to_step: step };
                    self.pieces.push(Piece::Copy { from, source: k, to, target: k, runs });
                }
            }
            Operation::AllToAllTuple => {
                (size == target).then_some(())?;
                for to in everyone {
                    self.pieces.push(Piece::Copy { from: k, source: to, to, target: k, runs: Runs::whole(size) });
                }
            }
            Operation::CollectiveBroadcast => {
                (size == target).then_some(())?;
                for to in everyone {
                    self.pieces.push(Piece::Copy { from: 0, source: k, to, target: k, runs: Runs::whole(size) });
                }
            }
            Operation::CollectivePermute => {
                (size == target).then_some(())?;
                for (to, &device) in group.iter().enumerate() {
                    let from = collective.sender(device).map(|d| group.iter().position(|&g| g == d));
                    self.pieces.push(match from {
                        Some(from) => Piece::Copy { from: from?, source: k, to, target: k, runs: Runs::whole(size) },
                        None => Piece::Zero { to, target: k },
                    });
                }
            }
            Operation::RaggedAllToAll => return None,
        }
        Some(())
    }

    fn ragged(&mut self, members: usize, operands: &[ArrayShape], results: &[ArrayShape]) -> Option<()> {
        let ([input, output, offsets @ ..], [result]) = (operands, results) else { return None };
        let (first, from, to) = (offsets.first()?, around(output, 0)?, around(result, 0)?);
        let rows_fit = around(input, 0)?[2] == from[2] && result.byte_size() == output.byte_size() && to[2] == from[2];
        let lists = offsets.len() == 4 && offsets.iter().all(|s| s.ty == first.ty && s.elements() == first.elements());
        let known = matches!(first.ty, ElementType::S32 | ElementType::S64);
        (rows_fit && lists && known && first.elements() % members == 0).then_some(())?;
        self.rows = Rows { bytes: from[2], offset: Some(first.ty), slices: first.elements() / members };
        self.pieces = (0..members).map(|to| Piece::Ragged { to }).collect();
        Some(())
    }

    /// How many pieces there are.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Does one piece.
    ///
    /// # Safety
    /// The parts' buffers live, nobody else writes operands, and nobody else has this piece or uses results.
    pub(super) unsafe fn run(&self, piece: usize, parts: &[Part]) -> Option<()> {
        match *self.pieces.get(piece)? {
            Piece::Reduce { array, to, runs } => {
                let (first, rest) = parts.split_first()?;
                let (second, others) = match rest.split_first() {
                    Some((second, others)) => (Some(second), others),
                    None => (None, rest),
                };
                let target = parts.get(to.unwrap_or(0))?.results.get(array)?;
                let (reduction, ty) = (self.reduction?, *self.types.get(array)?);
                for (from, at) in runs.each() {
                    // SAFETY: operands are read only, this run of a result is written by this piece alone.
                    let source = |part: &Part| unsafe { part.operands.get(array)?.bytes(from, runs.length) };
                    // SAFETY: as above.
                    let out = unsafe { target.bytes_mut(at, runs.length) }?;
                    match second {
                        Some(second) => {
                            reduce::combine(reduction, ty, out, Some(source(first)?), source(second)?).then_some(())?;
                        }
                        None => out.copy_from_slice(source(first)?),
                    }
                    for other in others {
                        reduce::combine(reduction, ty, out, None, source(other)?).then_some(())?;
                    }
                    let everyone = if to.is_none() { rest } else { &[] };
                    for other in everyone {
                        // SAFETY: as above.
                        unsafe { other.results.get(array)?.bytes_mut(at, runs.length) }?.copy_from_slice(out);
                    }
                }
            }
            Piece::Copy { from, source, to, target, runs } => {
                let (from, to) = (parts.get(from)?.operands.get(source)?, parts.get(to)?.results.get(target)?);
                for (source, target) in runs.each() {
                    // SAFETY: operands are read only, this run of a result is written by this piece alone.
                    let pair = unsafe { (to.bytes_mut(target, runs.length), from.bytes(source, runs.length)) };
                    pair.0?.copy_from_slice(pair.1?);
                }
            }
            Piece::Zero { to, target } => {
                let to = parts.get(to)?.results.get(target)?;
                // SAFETY: the result is written by this piece alone.
                unsafe { to.bytes_mut(0, to.length) }?.fill(0);
            }
            // SAFETY: the caller's promise is the same.
            Piece::Ragged { to } => unsafe { self.rows_to(to, parts) }?,
        }
        Some(())
    }

    /// # Safety
    /// As [`Work::run`].
    unsafe fn rows_to(&self, to: usize, parts: &[Part]) -> Option<()> {
        let own = parts.get(to)?;
        let (result, output) = (own.results.first()?, own.operands.get(1)?);
        // SAFETY: operands are read only, this result is written by this piece alone.
        let (out, initial) = unsafe { (result.bytes_mut(0, result.length)?, output.bytes(0, output.length)?) };
        out.copy_from_slice(initial);
        let ty = self.rows.offset?;
        for from in parts {
            let [input, _, from_rows, counts, to_rows, _] = from.operands[..] else { return None };
            // SAFETY: as above.
            let list = |span: Span| unsafe { span.bytes(0, span.length) };
            let source = list(input)?;
            let number = |span: Span, i: usize| {
                let bytes = list(span)?.get(i * ty.byte_size()..(i + 1) * ty.byte_size())?;
                let number = match ty {
                    ElementType::S32 => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
                    _ => i64::from_ne_bytes(bytes.try_into().ok()?),
                };
                usize::try_from(number).ok()?.checked_mul(self.rows.bytes)
            };
            for i in to * self.rows.slices..(to + 1) * self.rows.slices {
                let (at, length, target) = (number(from_rows, i)?, number(counts, i)?, number(to_rows, i)?);
                let rows = source.get(at..at.checked_add(length)?)?;
                out.get_mut(target..target.checked_add(length)?)?.copy_from_slice(rows);
            }
        }
        Some(())
    }
}

/// Runs of a reduction, cut so that a piece is some [`PIECE`] bytes.
fn cut(runs: Runs) -> Vec<Runs> {
    if runs.length == 0 {
        return Vec::new();
    }
    let mut out = Vec::new();
    if runs.length >= PIECE {
        for (from, to) in runs.each() {
            for at in (0..runs.length).step_by(PIECE) {
                let length = PIECE.min(runs.length - at);
                out.push(Runs { from: from + at, to: to + at, ..Runs::whole(length) });
            }
        }
        return out;
    }
    let together = PIECE / runs.length;
    for first in (0..runs.count).step_by(together) {
        let (from, to) = (runs.from + first * runs.from_step, runs.to + first * runs.to_step);
        out.push(Runs { count: together.min(runs.count - first), from, to, ..runs });
    }
    out
}
