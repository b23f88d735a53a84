//! MPI's handles and calls, as few as the link needs.
//!
//! Invariant: every call is made under the link's lock, so that MPI sees one thread at a time; every error is returned, and
//! put in words. A request that is dropped before it is done stays MPI's, and so must its buffers: whoever drops it says why.

use crate::services::Failure;
use mpi::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// The most elements that one call takes; more are cut.
pub(super) const MOST: usize = 1 << 30;

/// A code of MPI's, as a failure in words.
pub(super) fn check(code: c_int) -> Result<(), Failure> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length = 0;
    // SAFETY: the buffer has the size that MPI asks for.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    let text = text.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
    Err(Failure::new(format!("MPI: {}", String::from_utf8_lossy(text))))
}

/// A number as MPI counts.
pub(super) fn count(n: usize) -> Result<c_int, Failure> {
    c_int::try_from(n).map_err(|_| Failure::new(format!("{n} is more than MPI counts; the array is too large")))
}

/// Where a buffer is. Of buffers without bytes Rust makes an address that means something else to MPI: `MPI_IN_PLACE` is 1.
fn at(buffer: *const u8) -> *const c_void {
    if buffer.addr() > 1 { buffer.cast() } else { null() }
}

/// Something under way.
pub(super) struct Request(ffi::MPI_Request);

// SAFETY: a handle, used under the link's lock alone.
unsafe impl Send for Request {}

impl Request {
    fn start(post: impl FnOnce(*mut ffi::MPI_Request) -> c_int) -> Result<Request, Failure> {
        // SAFETY: a constant of MPI's.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        check(post(&raw mut request))?;
        Ok(Request(request))
    }

    /// Whether it is done. Lets MPI work.
    pub(super) fn is_done(&mut self) -> Result<bool, Failure> {
        let mut flag = 0;
        // SAFETY: the request is MPI's own, or null once it is done, which counts as done.
        check(unsafe { ffi::MPI_Test(&raw mut self.0, &raw mut flag, ffi::RSMPI_STATUS_IGNORE) })?;
        Ok(flag != 0)
    }
}

/// What one element is.
pub(super) struct Type {
    raw: ffi::MPI_Datatype,
    owned: bool,
}

impl Drop for Type {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: made here and freed once; what is under way keeps it as long as it must.
            unsafe { ffi::MPI_Type_free(&raw mut self.raw) };
        }
    }
}

impl Type {
    /// One of MPI's own.
    pub(super) fn of(raw: ffi::MPI_Datatype) -> Type {
        Type { raw, owned: false }
    }

    /// A byte.
    pub(super) fn byte() -> Type {
        // SAFETY: a constant of MPI's.
        Type::of(unsafe { ffi::RSMPI_UINT8_T })
    }

    fn make(derive: impl FnOnce(*mut ffi::MPI_Datatype) -> c_int) -> Result<Type, Failure> {
        // SAFETY: a constant of MPI's.
        let mut raw = unsafe { ffi::RSMPI_DATATYPE_NULL };
        check(derive(&raw mut raw))?;
        let made = Type { raw, owned: true };
        // SAFETY: the type was just made.
        check(unsafe { ffi::MPI_Type_commit(&raw mut raw) })?;
        Ok(made)
    }

    /// `n` bytes side by side.
    pub(super) fn bytes(n: usize) -> Result<Type, Failure> {
        let byte = Type::byte();
        if let Ok(n) = c_int::try_from(n) {
            // SAFETY: the type lives.
            return Type::make(|t| unsafe { ffi::MPI_Type_contiguous(n, byte.raw, t) });
        }
        // More than MPI counts: as many large units.
        let unit = 1usize << n.trailing_zeros().min(20);
        let (units, unit) = (count(n / unit)?, Type::bytes(unit)?);
        // SAFETY: the type lives.
        Type::make(|t| unsafe { ffi::MPI_Type_contiguous(units, unit.raw, t) })
    }

    /// `rows` runs of `part` units of `unit` bytes, `whole` units from one to the next; the next such thing begins where the
    /// first run of this one ends. What an array cut along a dimension gives each member.
    pub(super) fn slab(rows: usize, part: usize, whole: usize, unit: usize) -> Result<Type, Failure> {
        if rows == 1 || part == whole {
            return Type::bytes(rows * part * unit);
        }
        let extent = (part * unit) as ffi::MPI_Aint;
        let (rows, part, whole, unit) = (count(rows)?, count(part)?, count(whole)?, Type::bytes(unit)?);
        // SAFETY: the type lives.
        let vector = Type::make(|t| unsafe { ffi::MPI_Type_vector(rows, part, whole, unit.raw, t) })?;
        // SAFETY: as above.
        Type::make(|t| unsafe { ffi::MPI_Type_create_resized(vector.raw, 0, extent, t) })
    }
}

/// How elements are combined.
#[derive(Clone, Copy)]
pub(super) struct Op(pub(super) ffi::MPI_Op);

/// Counts and places of a call whose members bring different amounts. MPI reads them until the call is done.
pub(super) struct Counts {
    pub(super) counts: Vec<c_int>,
    pub(super) places: Vec<c_int>,
}

impl Counts {
    /// Amounts one after another.
    pub(super) fn new(amounts: impl IntoIterator<Item = usize>) -> Result<Counts, Failure> {
        let mut lists = Counts { counts: Vec::new(), places: Vec::new() };
        let mut at = 0;
        for n in amounts {
            lists.places.push(count(at)?);
            lists.counts.push(count(n)?);
            at += n;
        }
        Ok(lists)
    }
}

/// Processes that talk among themselves.
#[derive(Clone, Copy)]
pub(super) struct Comm(ffi::MPI_Comm);

// SAFETY: a handle, used under the link's lock alone.
unsafe impl Send for Comm {}

/// A message that has come and not been taken.
pub(super) struct Arrival {
    raw: ffi::MPI_Message,
    pub(super) source: usize,
    pub(super) tag: c_int,
    pub(super) length: usize,
}

impl Arrival {
    /// Takes it into a buffer of its length.
    ///
    /// # Safety
    /// The buffer has the message's length and lives, used by nobody else, until the request is done.
    pub(super) unsafe fn take(mut self, buffer: *mut u8) -> Result<Request, Failure> {
        let (length, ty) = (count(self.length)?, Type::byte());
        // SAFETY: the caller's promise; the message is matched and taken once.
        Request::start(|r| unsafe { ffi::MPI_Imrecv(buffer.cast(), length, ty.raw, &raw mut self.raw, r) })
    }
}

/// All processes of the job. MPI is initialised.
pub(super) fn world() -> Comm {
    // SAFETY: a constant of MPI's.
    Comm(unsafe { ffi::RSMPI_COMM_WORLD })
}

/// Ends all processes of the job, this one too.
pub(super) fn abort(why: &str) -> ! {
    eprintln!("brolga: {why}; the job is aborted");
    // SAFETY: MPI is initialised and not finalised as long as a link is there.
    unsafe { ffi::MPI_Abort(world().0, 1) };
    std::process::abort()
}

impl Comm {
    /// Whether calls are refused in words, and not by ending the process.
    fn return_errors(self) -> Result<Comm, Failure> {
        // SAFETY: a communicator and a constant of MPI's.
        check(unsafe { ffi::MPI_Comm_set_errhandler(self.0, ffi::RSMPI_ERRORS_RETURN) })?;
        Ok(self)
    }

    /// This process's number and how many there are.
    pub(super) fn place(self) -> Result<(usize, usize), Failure> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a communicator of MPI's.
        check(unsafe { ffi::MPI_Comm_rank(self.return_errors()?.0, &raw mut rank) })?;
        // SAFETY: as above.
        check(unsafe { ffi::MPI_Comm_size(self.0, &raw mut size) })?;
        Ok((usize::try_from(rank).unwrap_or(0), usize::try_from(size).unwrap_or(0)))
    }

    /// The same processes, whose messages are apart from these. All of them come here.
    pub(super) fn duplicate(self) -> Result<Comm, Failure> {
        let mut new = self.0;
        // SAFETY: a communicator of MPI's.
        check(unsafe { ffi::MPI_Comm_dup(self.0, &raw mut new) })?;
        Comm(new).return_errors()
    }

    /// Some of the processes, in this order. They come here, and nobody else.
    pub(super) fn among(self, members: &[usize]) -> Result<Comm, Failure> {
        let ranks = members.iter().map(|&m| count(m)).collect::<Result<Vec<c_int>, _>>()?;
        let (mut all, mut new) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let mut made = MaybeUninit::uninit();
        let (size, list) = (count(ranks.len())?, ranks.as_ptr());
        // SAFETY: each handle is written by the call before it is used, or an error returned; tag 0 is never else used on
        // this communicator for such a call, nor by two threads.
        unsafe {
            check(ffi::MPI_Comm_group(self.0, all.as_mut_ptr()))?;
            check(ffi::MPI_Group_incl(all.assume_init(), size, list, new.as_mut_ptr()))?;
            check(ffi::MPI_Comm_create_group(self.0, new.assume_init(), 0, made.as_mut_ptr()))?;
            check(ffi::MPI_Group_free(new.as_mut_ptr()))?;
            check(ffi::MPI_Group_free(all.as_mut_ptr()))?;
            Comm(made.assume_init()).return_errors()
        }
    }

    /// A message from anybody.
    pub(super) fn arrival(self) -> Result<Option<Arrival>, Failure> {
        let (mut flag, mut length) = (0, 0);
        let (mut raw, mut status) = (MaybeUninit::uninit(), MaybeUninit::<ffi::MPI_Status>::uninit());
        // SAFETY: message and status are written where the flag says so.
        unsafe {
            let (anyone, any) = (ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG);
            check(ffi::MPI_Improbe(anyone, any, self.0, &raw mut flag, raw.as_mut_ptr(), status.as_mut_ptr()))?;
            if flag == 0 {
                return Ok(None);
            }
            check(ffi::MPI_Get_count(status.as_ptr(), Type::byte().raw, &raw mut length))?;
            let (raw, status) = (raw.assume_init(), status.assume_init());
            let source = usize::try_from(status.MPI_SOURCE).unwrap_or(0);
            Ok(Some(Arrival { raw, source, tag: status.MPI_TAG, length: usize::try_from(length).unwrap_or(0) }))
        }
    }

    /// Waits for nobody; done when all processes have come.
    pub(super) fn barrier(self) -> Result<Request, Failure> {
        // SAFETY: a communicator of MPI's.
        Request::start(|r| unsafe { ffi::MPI_Ibarrier(self.0, r) })
    }

    /// # Safety
    /// As for all calls below: buffers have the sizes that counts and types say and, as the lists of counts, live until the
    /// request is done; nobody else writes what is read, or uses what is written.
    pub(super) unsafe fn send(self, from: *const u8, n: usize, to: usize, tag: c_int) -> Result<Request, Failure> {
        let (n, to, ty) = (count(n)?, count(to)?, Type::byte());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Isend(from.cast(), n, ty.raw, to, tag, self.0, r) })
    }

    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn receive(self, to: *mut u8, n: usize, from: usize, tag: c_int) -> Result<Request, Failure> {
        let (n, from, ty) = (count(n)?, count(from)?, Type::byte());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Irecv(to.cast(), n, ty.raw, from, tag, self.0, r) })
    }

    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn all_reduce(
        self,
        from: *const u8,
        to: *mut u8,
        n: usize,
        ty: &Type,
        op: Op,
    ) -> Result<Request, Failure> {
        let n = count(n)?;
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Iallreduce(at(from), at(to).cast_mut(), n, ty.raw, op.0, self.0, r) })
    }

    /// Of `n` elements each member keeps.
    ///
    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn reduce_scatter(
        self,
        from: *const u8,
        to: *mut u8,
        n: usize,
        ty: &Type,
        op: Op,
    ) -> Result<Request, Failure> {
        let n = count(n)?;
        let (from, to) = (at(from), at(to).cast_mut());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Ireduce_scatter_block(from, to, n, ty.raw, op.0, self.0, r) })
    }

    /// One thing of each member.
    ///
    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn all_gather(
        self,
        from: *const u8,
        sent: &Type,
        to: *mut u8,
        taken: &Type,
    ) -> Result<Request, Failure> {
        let (from, to) = (at(from), at(to).cast_mut());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Iallgather(from, 1, sent.raw, to, 1, taken.raw, self.0, r) })
    }

    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn all_gather_some(
        self,
        from: *const u8,
        n: usize,
        to: *mut u8,
        lists: &Counts,
        ty: &Type,
    ) -> Result<Request, Failure> {
        let (from, to, n) = (at(from), at(to).cast_mut(), count(n)?);
        let (counts, places, ty) = (lists.counts.as_ptr(), lists.places.as_ptr(), ty.raw);
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Iallgatherv(from, n, ty, to, counts, places, ty, self.0, r) })
    }

    /// One thing to each member and from each.
    ///
    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn all_to_all(
        self,
        from: *const u8,
        sent: &Type,
        to: *mut u8,
        taken: &Type,
    ) -> Result<Request, Failure> {
        let (from, to) = (at(from), at(to).cast_mut());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Ialltoall(from, 1, sent.raw, to, 1, taken.raw, self.0, r) })
    }

    /// # Safety
    /// As [`Comm::send`].
    pub(super) unsafe fn all_to_all_some(
        self,
        from: *const u8,
        sent: &Counts,
        to: *mut u8,
        taken: &Counts,
        ty: &Type,
    ) -> Result<Request, Failure> {
        let (from, to, ty) = (at(from), at(to).cast_mut(), ty.raw);
        let (n, out) = (sent.counts.as_ptr(), sent.places.as_ptr());
        let (m, into) = (taken.counts.as_ptr(), taken.places.as_ptr());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Ialltoallv(from, n, out, ty, to, m, into, ty, self.0, r) })
    }

    /// From the first member.
    ///
    /// # Safety
    /// As [`Comm::send`]; the first member's buffer is only read.
    pub(super) unsafe fn broadcast(self, buffer: *mut u8, n: usize) -> Result<Request, Failure> {
        let (n, ty) = (count(n)?, Type::byte());
        // SAFETY: the caller's promise.
        Request::start(|r| unsafe { ffi::MPI_Ibcast(buffer.cast(), n, ty.raw, 0, self.0, r) })
    }
}

/// What initialising found.
pub(super) enum Start {
    /// MPI is ours to finalise.
    Ours,
    /// The host initialised it, and finalises it.
    Hosts,
}

/// Initialises MPI, unless the host has done so.
pub(super) fn initialise() -> Result<Start, Failure> {
    let (mut began, mut over, mut level) = (0, 0, 0);
    // SAFETY: may be called at any time.
    unsafe {
        check(ffi::MPI_Initialized(&raw mut began))?;
        check(ffi::MPI_Finalized(&raw mut over))?;
    }
    if over != 0 {
        return Err(Failure::new("MPI has been finalised in this process, and cannot begin again"));
    }
    // SAFETY: a constant of MPI's.
    let needed = unsafe { ffi::RSMPI_THREAD_SERIALIZED };
    let start = if began == 0 {
        // SAFETY: MPI is not initialised yet. It takes no arguments of the command line.
        check(unsafe { ffi::MPI_Init_thread(null_mut(), null_mut(), needed, &raw mut level) })?;
        Start::Ours
    } else {
        // SAFETY: MPI is initialised.
        check(unsafe { ffi::MPI_Query_thread(&raw mut level) })?;
        Start::Hosts
    };
    if level < needed {
        return Err(Failure::new("MPI lets one thread alone call it; MPI_THREAD_SERIALIZED or more is needed"));
    }
    Ok(start)
}

/// Ends MPI. All processes come here.
pub(super) fn finalise() {
    // SAFETY: MPI was initialised by this crate, and nothing of it is used afterwards.
    unsafe { ffi::MPI_Finalize() };
}
