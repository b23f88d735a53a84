//! One exchange as calls of MPI.
//!
//! Problem: MPI's collectives know few of our types and operators, and arrays cut along any dimension. Invariant: results are
//! those of the link among threads, but that MPI chooses the order in which it adds and multiplies floats of 32 and 64 bits,
//! which is the same on all members; nothing is copied where MPI can read the operand and write the result. Algorithm: at
//! most two rounds of calls. What MPI cannot combine goes to the members part by part, is combined there in the group's
//! order, and is gathered from there. Parts along an inner dimension are types of MPI's, not copies.

use super::raw::{Comm, Counts, MOST, Op, Request, Type, count};
use crate::devices::link::Exchange;
use crate::devices::work::{Span, Work, around};
use crate::devices::{Operation, Reduction, reduce};
use crate::services::Failure;
use crate::{ArrayShape, ElementType};
use mpi::ffi;

/// How many rounds of calls an exchange has at most.
pub(super) const ROUNDS: usize = 2;

/// Bytes of a description that members show each other where they do not agree.
const TEXT: usize = 512;

/// Memory and lists that calls use until they are done. Vectors do not move what they hold.
#[derive(Default)]
struct Staging {
    bytes: Vec<Vec<u8>>,
    counts: Vec<Counts>,
}

enum Plan {
    /// What the members agreed on.
    Exchange(Work),
    /// They do not agree, and say what each has.
    Explain(String),
    /// They agree on what cannot be.
    Refused(String),
}

/// An exchange that has begun.
pub(super) struct Job {
    pub(super) exchange: Exchange,
    plan: Plan,
    staging: Vec<Staging>,
    spoiled: bool,
}

impl Job {
    pub(super) fn new(exchange: Exchange) -> Job {
        let work = Work::new(&exchange.collective, &exchange.group, &exchange.operands, &exchange.results);
        let arrays = exchange.operands.len().max(1);
        let staging = (0..arrays).map(|_| Staging::default()).collect();
        Job { exchange, plan: work.map_or_else(Plan::Refused, Plan::Exchange), staging, spoiled: false }
    }

    /// The members did not bring the same.
    pub(super) fn explain(&mut self) {
        self.plan = Plan::Explain(self.exchange.describe());
    }

    /// Does the exchange of a device that is its own group.
    pub(super) fn run_alone(&self) -> Result<(), Failure> {
        let work = match &self.plan {
            Plan::Exchange(work) => work,
            Plan::Explain(why) | Plan::Refused(why) => return Err(Failure::new(why.as_str())),
        };
        let parts = std::slice::from_ref(&self.exchange.part);
        // SAFETY: the part is this device's own, and this thread does all pieces.
        let done = (0..work.len()).all(|piece| unsafe { work.run(piece, parts) }.is_some());
        if done { Ok(()) } else { Err(spoiled()) }
    }

    /// Begins a round: the first, 0, once everybody has come. At an error, what was begun is among the requests too.
    ///
    /// # Safety
    /// The exchange's buffers live, and the job too, until the requests are done.
    pub(super) unsafe fn post(&mut self, round: usize, comm: Comm, requests: &mut Vec<Request>) -> Result<(), Failure> {
        let text = match &self.plan {
            Plan::Exchange(_) => None,
            Plan::Explain(text) => Some(text.clone()),
            Plan::Refused(_) => return Ok(()),
        };
        let Some(first) = self.staging.first_mut() else { return Ok(()) };
        if let Some(text) = text {
            if round > 0 {
                return Ok(());
            }
            let mut own = text.into_bytes();
            own.resize(TEXT, 0);
            first.bytes = vec![own, vec![0; TEXT * self.exchange.group.len()]];
            let [own, all] = first.bytes.as_mut_slice() else { return Ok(()) };
            let ty = Type::bytes(TEXT)?;
            // SAFETY: the staging is kept until the requests are done.
            requests.push(unsafe { comm.all_gather(own.as_ptr(), &ty, all.as_mut_ptr(), &ty) }?);
            return Ok(());
        }
        if self.exchange.collective.operation == Operation::RaggedAllToAll {
            let ragged = Ragged::new(&self.exchange).ok_or_else(no_plan)?;
            // SAFETY: the caller's promise.
            unsafe { ragged.post(round, comm, first, &mut self.spoiled, requests) }?;
            return Ok(());
        }
        for (k, staging) in self.staging.iter_mut().enumerate() {
            let Some(array) = Array::new(&self.exchange, k) else { continue };
            if array.size == 0 && array.target == 0 {
                continue;
            }
            let posted = match round {
                // SAFETY: the caller's promise.
                0 => unsafe { array.first(comm, staging, requests) },
                // SAFETY: as above.
                _ => unsafe { array.second(comm, staging, requests) },
            };
            posted?;
        }
        Ok(())
    }

    /// What is to be done when a round's requests are done.
    pub(super) fn finish(&mut self, round: usize) -> Result<(), Failure> {
        match &self.plan {
            Plan::Exchange(_) => {}
            Plan::Refused(why) => return Err(Failure::new(why.as_str())),
            Plan::Explain(own) => {
                let all = self.staging.first().and_then(|s| s.bytes.get(1)).ok_or_else(no_plan)?;
                let texts = all.chunks(TEXT).map(|t| String::from_utf8_lossy(t).trim_end_matches('\0').to_owned());
                let own: String = String::from_utf8_lossy(own.as_bytes().get(..TEXT).unwrap_or(own.as_bytes())).into();
                let mut others = self.exchange.group.iter().zip(texts).filter(|(_, text)| *text != own);
                return Err(Failure::new(match others.next() {
                    Some((device, text)) => format!("device {device} came to {text}, where this device has {own}"),
                    None => format!("the devices of the group came to different programs' {own}"),
                }));
            }
        }
        if self.exchange.collective.operation == Operation::RaggedAllToAll {
            if round == 1 {
                let ragged = Ragged::new(&self.exchange).ok_or_else(no_plan)?;
                let staging = self.staging.first().ok_or_else(no_plan)?;
                return if ragged.place(staging).is_some() && !self.spoiled { Ok(()) } else { Err(spoiled()) };
            }
            return Ok(());
        }
        if round == 0 {
            for (k, staging) in self.staging.iter_mut().enumerate() {
                if let Some(array) = Array::new(&self.exchange, k) {
                    array.combine(staging).ok_or_else(no_plan)?;
                }
            }
        }
        Ok(())
    }
}

fn no_plan() -> Failure {
    Failure::new("an exchange whose buffers are not of its shapes")
}

fn spoiled() -> Failure {
    Failure::new("rows that lie outside their arrays")
}

/// MPI's type and how many of it an element has, and its operator, where they mean what [`reduce`] does.
fn native(reduction: Reduction, ty: ElementType) -> Option<(Type, usize, Op)> {
    use ElementType::*;
    use Reduction::*;
    // Sums of narrow integers wrap here, and Open MPI's stop at the greatest (open-mpi/ompi#8045).
    let sums = matches!(reduction, Add | Multiply) && matches!(ty, S8 | S16 | U8 | U16);
    let narrow = matches!(ty, F16 | BF16) || sums;
    let float = matches!(ty, F32 | F64 | C64 | C128);
    // MPI's minima and maxima of floats say nothing of NaN and of zeros with signs.
    if narrow || (float && !matches!(reduction, Add | Multiply)) || !reduce::supports(reduction, ty) {
        return None;
    }
    // SAFETY: constants of MPI's.
    let (raw, op) = unsafe {
        let raw = match ty {
            Pred | U8 => ffi::RSMPI_UINT8_T,
            U16 => ffi::RSMPI_UINT16_T,
            U32 => ffi::RSMPI_UINT32_T,
            U64 => ffi::RSMPI_UINT64_T,
            S8 => ffi::RSMPI_INT8_T,
            S16 => ffi::RSMPI_INT16_T,
            S32 => ffi::RSMPI_INT32_T,
            S64 => ffi::RSMPI_INT64_T,
            F32 | C64 => ffi::RSMPI_FLOAT,
            F64 | C128 => ffi::RSMPI_DOUBLE,
            _ => return None,
        };
        let op = match (reduction, ty) {
            (Add | Or | Maximum, Pred) => ffi::RSMPI_LOR,
            (Multiply | And | Minimum, Pred) => ffi::RSMPI_LAND,
            (Xor, Pred) => ffi::RSMPI_LXOR,
            (Add, _) => ffi::RSMPI_SUM,
            (Multiply, _) => ffi::RSMPI_PROD,
            (Minimum, _) => ffi::RSMPI_MIN,
            (Maximum, _) => ffi::RSMPI_MAX,
            (And, _) => ffi::RSMPI_BAND,
            (Or, _) => ffi::RSMPI_BOR,
            (Xor, _) => ffi::RSMPI_BXOR,
        };
        (raw, op)
    };
    Some((Type::of(raw), if matches!(ty, C64 | C128) { 2 } else { 1 }, Op(op)))
}

/// `n` things in pieces that a call takes.
fn pieces(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(MOST).map(move |at| (at, MOST.min(n - at)))
}

/// An operand and its result.
struct Array<'a> {
    exchange: &'a Exchange,
    k: usize,
    from: *const u8,
    to: *mut u8,
    size: usize,
    target: usize,
    shape: &'a ArrayShape,
    result: &'a ArrayShape,
    members: usize,
    me: usize,
}

impl<'a> Array<'a> {
    fn new(exchange: &'a Exchange, k: usize) -> Option<Array<'a>> {
        let (shape, result) = (exchange.operands.get(k)?, exchange.results.get(k)?);
        let (from, to) = (exchange.part.operands.get(k)?, exchange.part.results.get(k)?);
        let (size, target) = (shape.byte_size(), result.byte_size());
        let fits = from.length() == size && to.length() == target;
        fits.then_some(Array {
            exchange,
            k,
            from: from.pointer(),
            to: to.pointer(),
            size,
            target,
            shape,
            result,
            members: exchange.group.len(),
            me: exchange.me,
        })
    }

    /// The elements that each member combines of a whole array.
    fn shares(&self) -> impl Iterator<Item = usize> + use<> {
        let (n, members) = (self.shape.elements(), self.members.max(1));
        let cut = move |m: usize| (n as u128 * m as u128 / members as u128) as usize;
        (0..members).map(move |m| cut(m + 1) - cut(m))
    }

    /// Runs before, units of and bytes after the collective's dimension, of the operand.
    fn around(&self) -> Result<[usize; 3], Failure> {
        around(self.shape, self.exchange.collective.dimension).ok_or_else(no_plan)
    }

    /// # Safety
    /// As [`Job::post`].
    unsafe fn first(&self, comm: Comm, staging: &mut Staging, requests: &mut Vec<Request>) -> Result<(), Failure> {
        let Array { from, to, size, members, .. } = *self;
        let unit = self.shape.ty.byte_size();
        let reduction = self.exchange.collective.reduction;
        let native = reduction.and_then(|r| native(r, self.shape.ty));
        match self.exchange.collective.operation {
            Operation::AllReduce => match native {
                Some((ty, scale, op)) => {
                    let bytes = unit / scale;
                    for (at, n) in pieces(self.shape.elements() * scale) {
                        let (from, to) = (from.wrapping_add(at * bytes), to.wrapping_add(at * bytes));
                        // SAFETY: a piece of both arrays, which have one shape.
                        requests.push(unsafe { comm.all_reduce(from, to, n, &ty, op) }?);
                    }
                }
                None => {
                    let own = self.shares().nth(self.me).unwrap_or(0);
                    staging.counts = vec![Counts::new(self.shares())?, Counts::new(std::iter::repeat_n(own, members))?];
                    staging.bytes = vec![vec![0; own * unit * members]];
                    let ([sent, taken], [all]) = (staging.counts.as_slice(), staging.bytes.as_mut_slice()) else {
                        return Err(no_plan());
                    };
                    let ty = Type::bytes(unit)?;
                    // SAFETY: the shares cover the operand, the staging has one of mine for each member.
                    requests.push(unsafe { comm.all_to_all_some(from, sent, all.as_mut_ptr(), taken, &ty) }?);
                }
            },
            Operation::ReduceScatter => {
                let [outer, whole, inner] = self.around()?;
                let part = whole / members.max(1);
                match native {
                    Some((ty, scale, op)) => {
                        let mut from = from;
                        if outer != 1 {
                            staging.bytes = vec![self.pack(outer, part * inner)];
                            from = staging.bytes.first().map_or(from, |packed| packed.as_ptr());
                        }
                        let n = self.target / (unit / scale);
                        // SAFETY: operand or copy have the results of all members, one after another.
                        requests.push(unsafe { comm.reduce_scatter(from, to, n, &ty, op) }?);
                    }
                    None => {
                        staging.bytes = vec![vec![0; size]];
                        let (sent, taken) = (Type::slab(outer, part, whole, inner)?, Type::bytes(self.target)?);
                        let all = staging.bytes.first_mut().map_or(to, |b| b.as_mut_ptr());
                        // SAFETY: the slabs cover the operand, the staging has my part of each member.
                        requests.push(unsafe { comm.all_to_all(from, &sent, all, &taken) }?);
                    }
                }
            }
            Operation::AllGather => {
                let [outer, part, inner] = self.around()?;
                let (sent, taken) = (Type::bytes(size)?, Type::slab(outer, part, part * members, inner)?);
                // SAFETY: the operand as one, the slabs cover the result.
                requests.push(unsafe { comm.all_gather(from, &sent, to, &taken) }?);
            }
            Operation::AllToAll => {
                let [outer, whole, inner] = self.around()?;
                let ty = Type::slab(outer, whole / members.max(1), whole, inner)?;
                // SAFETY: the slabs cover operand and result.
                requests.push(unsafe { comm.all_to_all(from, &ty, to, &ty) }?);
            }
            Operation::AllToAllTuple => {
                // Operand `k` goes to member `k`, from which result `k` comes.
                for (at, n) in pieces(size) {
                    let (from, to) = (from.wrapping_add(at), to.wrapping_add(at));
                    // SAFETY: pieces of operand and result, which have one shape for all.
                    requests.push(unsafe { comm.receive(to, n, self.k, 0) }?);
                    // SAFETY: as above.
                    requests.push(unsafe { comm.send(from, n, self.k, 0) }?);
                }
            }
            Operation::CollectiveBroadcast => {
                if self.me == 0 {
                    // SAFETY: operand and result have one size and lie apart.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
                }
                let buffer = if self.me == 0 { from.cast_mut() } else { to };
                for (at, n) in pieces(size) {
                    // SAFETY: a piece of the operand, which is read, or of the result.
                    requests.push(unsafe { comm.broadcast(buffer.wrapping_add(at), n) }?);
                }
            }
            // SAFETY: the caller's promise.
            Operation::CollectivePermute => unsafe { self.permute(comm, requests) }?,
            Operation::RaggedAllToAll => return Err(no_plan()),
        }
        Ok(())
    }

    /// # Safety
    /// As [`Job::post`].
    unsafe fn permute(&self, comm: Comm, requests: &mut Vec<Request>) -> Result<(), Failure> {
        let Array { from, to, size, me, .. } = *self;
        let (collective, group) = (&self.exchange.collective, &self.exchange.group);
        let sender = |member: usize| {
            let device = collective.sender(*group.get(member)?)?;
            group.iter().position(|&d| d == device)
        };
        match sender(me) {
            // SAFETY: operand and result have one size and lie apart.
            Some(source) if source == me => unsafe { std::ptr::copy_nonoverlapping(from, to, size) },
            Some(source) => {
                for (at, n) in pieces(size) {
                    // SAFETY: a piece of the result.
                    requests.push(unsafe { comm.receive(to.wrapping_add(at), n, source, 0) }?);
                }
            }
            // SAFETY: the result, whole.
            None => unsafe { std::ptr::write_bytes(to, 0, size) },
        }
        for target in (0..self.members).filter(|&t| t != me && sender(t) == Some(me)) {
            for (at, n) in pieces(size) {
                // SAFETY: a piece of the operand.
                requests.push(unsafe { comm.send(from.wrapping_add(at), n, target, 0) }?);
            }
        }
        Ok(())
    }

    /// The operand, cut into runs of `length` bytes, one member's after another's.
    fn pack(&self, outer: usize, length: usize) -> Vec<u8> {
        let span = Span::new(self.from.cast_mut(), self.size);
        let mut packed = Vec::with_capacity(self.size);
        for (m, o) in (0..self.members).flat_map(|m| (0..outer).map(move |o| (m, o))) {
            // SAFETY: nobody writes operands until the exchange ends.
            packed
                .extend_from_slice(unsafe { span.bytes((o * self.members + m) * length, length) }.unwrap_or_default());
        }
        packed
    }

    /// Combines what came in the first round, where MPI could not.
    fn combine(&self, staging: &mut Staging) -> Option<()> {
        let collective = &self.exchange.collective;
        let (Some(reduction), ty) = (collective.reduction, self.shape.ty) else { return Some(()) };
        if self.size == 0 || native(reduction, ty).is_some() {
            return Some(());
        }
        let all = staging.bytes.pop()?;
        let length = all.len() / self.members.max(1);
        if length == 0 {
            staging.bytes = vec![Vec::new()];
            return Some(());
        }
        let mut parts = all.chunks_exact(length);
        let (first, second) = (parts.next()?, parts.next()?);
        let mut own = vec![0; if collective.operation == Operation::AllReduce { length } else { 0 }];
        let result = Span::new(self.to, self.target);
        let out = match collective.operation {
            Operation::AllReduce => own.as_mut_slice(),
            // SAFETY: the exchange's result, which nobody else uses until it ends.
            _ => unsafe { result.bytes_mut(0, length) }?,
        };
        reduce::combine(reduction, ty, out, Some(first), second).then_some(())?;
        for part in parts {
            reduce::combine(reduction, ty, out, None, part).then_some(())?;
        }
        staging.bytes = vec![own];
        Some(())
    }

    /// # Safety
    /// As [`Job::post`].
    unsafe fn second(&self, comm: Comm, staging: &mut Staging, requests: &mut Vec<Request>) -> Result<(), Failure> {
        let collective = &self.exchange.collective;
        let by_hand = collective.reduction.is_some_and(|r| native(r, self.result.ty).is_none());
        if collective.operation != Operation::AllReduce || !by_hand {
            return Ok(());
        }
        let ([shares, ..], [own]) = (staging.counts.as_slice(), staging.bytes.as_slice()) else {
            return Err(no_plan());
        };
        let unit = self.shape.ty.byte_size();
        let ty = Type::bytes(unit)?;
        // SAFETY: my share is sent, the shares cover the result.
        requests.push(unsafe { comm.all_gather_some(own.as_ptr(), own.len() / unit, self.to, shares, &ty) }?);
        Ok(())
    }
}

/// An exchange of rows: in the first round each pair tells how many rows go where, in the second the rows go.
struct Ragged<'a> {
    exchange: &'a Exchange,
    /// Bytes of a row.
    row: usize,
    /// How many slices each member sends each.
    slices: usize,
    members: usize,
}

/// Says that a sender's rows lie outside its array.
const OUTSIDE: i64 = -1;

impl<'a> Ragged<'a> {
    fn new(exchange: &'a Exchange) -> Option<Ragged<'a>> {
        let members = exchange.group.len();
        let row = around(exchange.operands.get(1)?, 0)?[2];
        let slices = exchange.operands.get(2)?.elements().checked_div(members)?;
        Some(Ragged { exchange, row, slices, members })
    }

    fn operand(&self, k: usize) -> Option<&[u8]> {
        let span = self.exchange.part.operands.get(k)?;
        // SAFETY: nobody writes operands until the exchange ends.
        unsafe { span.bytes(0, span.length()) }
    }

    /// Element `i` of a list of offsets or sizes.
    fn number(&self, k: usize, i: usize) -> Option<usize> {
        let ty = self.exchange.operands.get(k)?.ty;
        let bytes = self.operand(k)?.get(i * ty.byte_size()..(i + 1) * ty.byte_size())?;
        let number = match ty {
            ElementType::S32 => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => i64::from_ne_bytes(bytes.try_into().ok()?),
        };
        usize::try_from(number).ok()
    }

    /// The rows of slice `i` of this device, where it says from where and to where they go.
    fn rows(&self, i: usize) -> Option<&[u8]> {
        self.number(4, i)?;
        let (at, n) = (self.number(2, i)?.checked_mul(self.row)?, self.number(3, i)?.checked_mul(self.row)?);
        self.operand(0)?.get(at..at.checked_add(n)?)
    }

    /// How many rows each member sends, of the words of the first round.
    fn sizes(&self, words: &[u8]) -> impl Iterator<Item = usize> {
        let words: Vec<i64> = words.as_chunks::<8>().0.iter().map(|w| i64::from_ne_bytes(*w)).collect();
        let of = move |m: usize| words.get(2 * m * self.slices..2 * (m + 1) * self.slices).unwrap_or_default().to_vec();
        (0..self.members).map(move |m| of(m).chunks(2).filter_map(|w| usize::try_from(*w.first()?).ok()).sum())
    }

    /// # Safety
    /// As [`Job::post`].
    unsafe fn post(
        &self,
        round: usize,
        comm: Comm,
        staging: &mut Staging,
        spoiled: &mut bool,
        requests: &mut Vec<Request>,
    ) -> Result<(), Failure> {
        if self.slices == 0 {
            return Ok(());
        }
        if round == 0 {
            let mut words = Vec::with_capacity(2 * self.members * self.slices);
            for i in 0..self.members * self.slices {
                let known = self.rows(i).and_then(|_| {
                    Some([i64::try_from(self.number(3, i)?).ok()?, i64::try_from(self.number(4, i)?).ok()?])
                });
                *spoiled |= known.is_none();
                words.extend(known.unwrap_or([OUTSIDE; 2]));
            }
            let own: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let all = vec![0; own.len()];
            staging.bytes = vec![own, all];
            let [own, all] = staging.bytes.as_mut_slice() else { return Err(no_plan()) };
            let ty = Type::bytes(own.len() / self.members.max(1))?;
            // SAFETY: the staging is kept until the requests are done, and has words for each member.
            requests.push(unsafe { comm.all_to_all(own.as_ptr(), &ty, all.as_mut_ptr(), &ty) }?);
            return Ok(());
        }
        let [own, all, ..] = staging.bytes.as_slice() else { return Err(no_plan()) };
        let (sent, taken) = (Counts::new(self.sizes(own))?, Counts::new(self.sizes(all))?);
        let total: usize = self.sizes(all).sum();
        count(total)?;
        let rows = (0..self.members * self.slices).filter_map(|i| self.rows(i)).collect::<Vec<_>>().concat();
        staging.bytes.extend([rows, vec![0; total * self.row]]);
        staging.counts = vec![sent, taken];
        let ([_, _, rows, came], [sent, taken]) = (staging.bytes.as_mut_slice(), staging.counts.as_slice()) else {
            return Err(no_plan());
        };
        let ty = Type::bytes(self.row)?;
        // SAFETY: the staging is kept until the requests are done, and has the rows that were told.
        requests.push(unsafe { comm.all_to_all_some(rows.as_ptr(), sent, came.as_mut_ptr(), taken, &ty) }?);
        Ok(())
    }

    /// Puts the rows that came where they belong. `None` where they lie outside.
    fn place(&self, staging: &Staging) -> Option<()> {
        let target = self.exchange.part.results.first()?;
        // SAFETY: the exchange's result, which nobody else uses until it ends.
        let out = unsafe { target.bytes_mut(0, target.length()) }?;
        out.copy_from_slice(self.operand(1)?);
        if self.slices == 0 {
            return Some(());
        }
        let [_, words, _, rows] = staging.bytes.as_slice() else { return None };
        let mut rest = rows.as_slice();
        for word in words.as_chunks::<16>().0 {
            let (n, at) = word.split_first_chunk::<8>()?;
            let n = usize::try_from(i64::from_ne_bytes(*n)).ok()?.checked_mul(self.row)?;
            let at = usize::try_from(i64::from_ne_bytes(at.try_into().ok()?)).ok()?.checked_mul(self.row)?;
            let (own, after) = rest.split_at_checked(n)?;
            out.get_mut(at..at.checked_add(n)?)?.copy_from_slice(own);
            rest = after;
        }
        Some(())
    }
}
