//! Parallel loops: the trait a host implements, and the pool of threads used where it does not care.
//!
//! Problem: a kernel of a few microseconds is worth splitting only if waking the workers costs less, and callers want
//! to say where the work runs. Invariant: a loop's tasks are divided over the workers by number alone, contiguously
//! ([`partition`]), so that a run is repeatable; a worker never runs two tasks at once, which makes its index the
//! owner of a part of the workspace. One worker spawns no thread. Algorithm: workers spin shortly for the next loop,
//! then sleep; the caller is worker 0.

use crate::abi::Status;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The largest number of workers that a loop is divided over.
pub const MAX_WORKERS: usize = 1024;

/// Where parallel loops run. [`Pool`] is one; wrap another scheduler to lend it to a call.
pub trait Executor: Send + Sync {
    /// How many workers there are: how often [`Executor::run`] calls its argument.
    fn workers(&self) -> usize;

    /// Calls `work(w)` once for each `w` in `0..workers()`, possibly at the same time, and returns when all have
    /// returned. A loop fails where a worker is left out; calling one twice is harmless.
    fn run(&self, work: &(dyn Fn(usize) + Sync));
}

/// Runs everything on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Executor for Serial {
    fn workers(&self) -> usize {
        1
    }

    fn run(&self, work: &(dyn Fn(usize) + Sync)) {
        work(0);
    }
}

/// The tasks of one worker: contiguous, in order, as even as can be.
pub fn partition(tasks: i64, workers: usize, worker: usize) -> Range<i64> {
    let (tasks, workers, worker) = (tasks.max(0) as i128, workers.max(1) as i128, worker as i128);
    let bound = |w: i128| (tasks * w.min(workers) / workers) as i64;
    bound(worker)..bound(worker + 1)
}

/// Runs `body(task, worker)` for each task in `0..tasks` and returns 0, or the status of the lowest-numbered worker
/// that failed; a worker stops at its first failure. A panic in `body` becomes [`Status::Panicked`].
pub fn parallel_for(executor: &dyn Executor, tasks: i64, body: &(dyn Fn(i64, usize) -> i32 + Sync)) -> i32 {
    let run_range = |range: Range<i64>, worker: usize| -> i32 {
        let run = || range.map(|task| body(task, worker)).find(|&status| status != 0).unwrap_or(0);
        catch_unwind(AssertUnwindSafe(run)).unwrap_or(Status::Panicked.code())
    };
    let workers = executor.workers().clamp(1, MAX_WORKERS);
    if workers == 1 || tasks <= 1 {
        return run_range(0..tasks.max(0), 0);
    }
    const NO_FAILURE: u64 = u64::MAX;
    let failure = AtomicU64::new(NO_FAILURE);
    let finished = AtomicUsize::new(0);
    // An executor is a stranger's safe code: a worker that it calls twice, at once perhaps, must not run twice.
    let claimed: [AtomicU64; MAX_WORKERS / 64] = [const { AtomicU64::new(0) }; MAX_WORKERS / 64];
    let work = |worker: usize| {
        let Some(word) = claimed.get(worker / 64).filter(|_| worker < workers) else {
            return;
        };
        let bit = 1u64 << (worker % 64);
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let status = run_range(partition(tasks, workers, worker), worker);
        if status != 0 {
            let packed = ((worker as u64) << 32) | u64::from(status as u32);
            failure.fetch_min(packed, Ordering::Relaxed);
        }
        finished.fetch_add(1, Ordering::Release);
    };
    if catch_unwind(AssertUnwindSafe(|| executor.run(&work))).is_err() {
        return Status::Panicked.code();
    }
    match failure.load(Ordering::Relaxed) {
        NO_FAILURE if finished.load(Ordering::Acquire) == workers => 0,
        NO_FAILURE => Status::ServiceFailed.code(),
        packed => packed as u32 as i32,
    }
}

type Work = dyn Fn(usize) + Sync;

/// A pool of threads, each of which runs its fixed share of a loop.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held for the length of a loop: callers on several threads take turns.
    busy: Mutex<()>,
}

struct Shared {
    /// Counts loops; a change wakes the workers.
    generation: AtomicU32,
    /// The current loop, valid from the change of `generation` until `remaining` is 0.
    work: UnsafeCell<*const Work>,
    /// Threads that have not finished the current loop.
    remaining: AtomicUsize,
    stop: AtomicBool,
    /// How often a waiting thread looks before it sleeps.
    spins: u32,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    sleep: Mutex<()>,
    start: Condvar,
    done: Condvar,
}

// SAFETY: `work` is written only by the holder of `Pool::busy` while no thread runs a loop (`remaining` is 0), and
// read by threads only between the release of `generation` and their own decrement of `remaining`; it points to a
// `Sync` closure. Everything else is a synchronised type.
unsafe impl Sync for Shared {}
// SAFETY: the pointer is only ever used as described above, from whatever thread.
unsafe impl Send for Shared {}

thread_local! {
    /// True while this thread runs part of some pool's loop.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Waits until `condition` holds: spins, then sleeps on `wake`.
    fn wait(&self, wake: &Condvar, condition: impl Fn() -> bool) {
        for _ in 0..self.spins {
            if condition() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.sleep);
        while !condition() {
            guard = wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Changes what a sleeper waits for, then wakes it. The lock keeps the change from falling between a sleeper's
    /// look and its sleep.
    fn notify(&self, wake: &Condvar, change: impl FnOnce()) {
        let guard = lock(&self.sleep);
        change();
        drop(guard);
        wake.notify_all();
    }

    fn worker(&self, index: usize) {
        INSIDE.set(true);
        let mut seen = 0;
        loop {
            self.wait(&self.start, || self.generation.load(Ordering::Acquire) != seen);
            seen = self.generation.load(Ordering::Acquire);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            // SAFETY: `generation` has changed and this thread is still counted in `remaining`, so the closure that
            // the pointer was made from is alive and nobody writes the pointer.
            let work = unsafe { &**self.work.get() };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(index))) {
                *lock(&self.panic) = Some(payload);
            }
            if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.notify(&self.done, || {});
            }
        }
    }
}

impl Pool {
    /// A pool with so many workers, the calling thread counted: 1 spawns no thread. The number is limited to
    /// [`MAX_WORKERS`]; where the system refuses a thread, there are fewer.
    pub fn new(workers: usize) -> Pool {
        let workers = workers.clamp(1, MAX_WORKERS);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let shared = Arc::new(Shared {
            generation: AtomicU32::new(0),
            work: UnsafeCell::new(&(|_: usize| {}) as *const Work),
            remaining: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            spins: if workers <= cores { 2000 } else { 0 },
            panic: Mutex::new(None),
            sleep: Mutex::new(()),
            start: Condvar::new(),
            done: Condvar::new(),
        });
        let mut threads = Vec::new();
        for index in 1..workers {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("brolga-{index}"));
            match builder.spawn(move || shared.worker(index)) {
                Ok(handle) => threads.push(handle),
                Err(_) => break,
            }
        }
        Pool { shared, threads, busy: Mutex::new(()) }
    }

    /// A pool with a worker for each core that this process may use.
    pub fn for_this_machine() -> Pool {
        Pool::new(std::thread::available_parallelism().map_or(1, |n| n.get()))
    }
}

impl Executor for Pool {
    fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// A loop inside a loop runs on the thread that meets it, one worker after another.
    fn run(&self, work: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() || INSIDE.get() {
            (0..self.workers()).for_each(work);
            return;
        }
        let turn = lock(&self.busy);
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. No thread uses the pointer after `remaining` has reached 0, which this
        // function waits for before it returns or unwinds.
        let erased: *const Work = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Work>(work) };
        // SAFETY: this thread holds `busy` and no thread runs a loop, so nobody reads or writes the pointer now.
        unsafe { *shared.work.get() = erased };
        shared.remaining.store(self.threads.len(), Ordering::Relaxed);
        shared.notify(&shared.start, || {
            shared.generation.fetch_add(1, Ordering::Release);
        });
        INSIDE.set(true);
        let own = catch_unwind(AssertUnwindSafe(|| work(0)));
        INSIDE.set(false);
        shared.wait(&shared.done, || shared.remaining.load(Ordering::Acquire) == 0);
        let theirs = lock(&shared.panic).take();
        drop(turn);
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.notify(&self.shared.start, || {
            self.shared.generation.fetch_add(1, Ordering::Release);
        });
        for thread in self.threads.drain(..) {
            // A worker catches the panics of its work, so joining cannot fail in a way that matters here.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} workers)", self.workers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_cover_each_task_once() {
        for tasks in [0i64, 1, 2, 7, 64, 1000, i64::MAX] {
            for workers in [1usize, 2, 3, 8] {
                let mut next = 0;
                for w in 0..workers {
                    let r = partition(tasks, workers, w);
                    assert_eq!(r.start, next);
                    next = r.end;
                }
                assert_eq!(next, tasks);
            }
        }
        assert_eq!(partition(-3, 2, 0), 0..0);
    }

    #[test]
    fn each_task_runs_once_with_its_worker() {
        for workers in 1..=4 {
            let pool = Pool::new(workers);
            for tasks in [0, 1, 5, 100] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                let status = parallel_for(&pool, tasks as i64, &|task, worker| {
                    assert!(worker < workers);
                    counts[task as usize].fetch_add(1, Ordering::Relaxed);
                    0
                });
                assert_eq!(status, 0);
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn many_loops_from_several_callers() {
        let pool = Arc::new(Pool::new(3));
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        parallel_for(&*pool, 10, &|_, _| {
                            total.fetch_add(1, Ordering::Relaxed);
                            0
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 10_000);
    }

    #[test]
    fn failures_and_panics_are_returned() {
        let pool = Pool::new(3);
        assert_eq!(parallel_for(&pool, 9, &|task, _| if task >= 4 { task as i32 } else { 0 }), 4);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let status = parallel_for(&pool, 9, &|task, _| if task == 8 { panic!("on purpose") } else { 0 });
        let raised = catch_unwind(AssertUnwindSafe(|| pool.run(&|w| assert_ne!(w, 1))));
        std::panic::set_hook(hook);
        assert_eq!(status, Status::Panicked.code());
        assert!(raised.is_err());
        assert_eq!(parallel_for(&pool, 9, &|_, _| 0), 0, "the pool survives");
    }

    #[test]
    fn nested_loops_finish() {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        let status = parallel_for(&pool, 4, &|_, _| {
            parallel_for(&pool, 4, &|_, _| {
                total.fetch_add(1, Ordering::Relaxed);
                0
            })
        });
        assert_eq!((status, total.into_inner()), (0, 16));
    }

    #[test]
    fn a_lazy_executor_is_noticed() {
        struct Lazy;
        impl Executor for Lazy {
            fn workers(&self) -> usize {
                2
            }
            fn run(&self, work: &(dyn Fn(usize) + Sync)) {
                work(0);
                work(0);
                work(77);
            }
        }
        assert_eq!(parallel_for(&Lazy, 4, &|_, _| 0), Status::ServiceFailed.code());
    }

    #[test]
    fn one_worker_spawns_nothing() {
        assert_eq!(Pool::new(1).threads.len(), 0);
        assert_eq!(Pool::new(0).workers(), 1);
    }
}
