//! The context: what the caller lends to a program for the time of one call.

use super::{ABI_VERSION, ReportFn, Service, ServiceFn};
use crate::devices::Device;
use crate::feed::Feeds;
use std::ffi::c_void;

/// The body of a parallel loop: runs one task on behalf of one worker and returns a [`Status`](super::Status).
pub type ParallelBody = unsafe extern "C" fn(arg: *mut c_void, task: i64, worker: i64) -> i32;

/// Runs `body(arg, task, worker)` for each task in `0..tasks`, each exactly once unless one fails, with
/// `worker < Context::workers` and never two at a time for the same worker. Returns when all are done: the first
/// failing worker's status, or 0.
pub type ParallelFor = unsafe extern "C" fn(host: *mut c_void, tasks: i64, body: ParallelBody, arg: *mut c_void) -> i32;

/// What the library services of this runtime work with. Services of other makes have [`Context::host`].
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// The queues of infeeds and outfeeds.
    pub feeds: Feeds,
    /// Which device of several the run is.
    pub device: Option<Device>,
    /// The hash of the program, by which devices know that they run the same.
    pub program: [u8; 16],
}

/// `brolga_context`: the services and settings of one call. Grows at the end only; a program reads nothing beyond
/// `size` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Size of this structure in the caller's version of the interface.
    pub size: u32,
    /// The caller's [`ABI_VERSION`].
    pub abi_version: u32,
    /// The seed of the stateful random number generators.
    pub random_seed: u64,
    /// Passed to each service as its first argument.
    pub host: *mut c_void,
    /// How many workers the workspace has room for; 1 at least.
    pub workers: u32,
    /// Zero.
    pub reserved: u32,
    /// Parallel loops. A program whose descriptor does not need it runs its tasks in order where this is null.
    pub parallel_for: Option<ParallelFor>,
    /// Null. Programs of older compilers look here for register tiles and use their own where there are none.
    pub unused: [*const c_void; 2],
    /// Takes the message of a service that fails.
    pub report: Option<ReportFn>,
    /// What this runtime's own services work with: null, or the address of a [`Resources`].
    pub resources: *const c_void,
    /// The library services, each at its [`Service::slot`].
    pub library: [Option<ServiceFn>; Service::COUNT],
}

impl Context {
    /// Offset of [`Context::size`].
    pub const OFFSET_SIZE: i32 = std::mem::offset_of!(Context, size) as i32;
    /// Offset of [`Context::abi_version`].
    pub const OFFSET_ABI_VERSION: i32 = std::mem::offset_of!(Context, abi_version) as i32;
    /// Offset of [`Context::random_seed`].
    pub const OFFSET_RANDOM_SEED: i32 = std::mem::offset_of!(Context, random_seed) as i32;
    /// Offset of [`Context::host`].
    pub const OFFSET_HOST: i32 = std::mem::offset_of!(Context, host) as i32;
    /// Offset of [`Context::workers`].
    pub const OFFSET_WORKERS: i32 = std::mem::offset_of!(Context, workers) as i32;
    /// Offset of [`Context::parallel_for`].
    pub const OFFSET_PARALLEL_FOR: i32 = std::mem::offset_of!(Context, parallel_for) as i32;

    /// Offset of a service's function.
    pub const fn offset_of(service: Service) -> i32 {
        (std::mem::offset_of!(Context, library) + service.slot() * size_of::<Option<ServiceFn>>()) as i32
    }

    /// A context without services, for one worker.
    pub const fn new(random_seed: u64) -> Context {
        Context {
            size: size_of::<Context>() as u32,
            abi_version: ABI_VERSION,
            random_seed,
            host: std::ptr::null_mut(),
            workers: 1,
            reserved: 0,
            parallel_for: None,
            unused: [std::ptr::null(); 2],
            report: None,
            resources: std::ptr::null(),
            library: [None; Service::COUNT],
        }
    }
}

// The offsets are part of the interface: compiled programs have them in their code.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(Context::OFFSET_RANDOM_SEED == 8);
    assert!(Context::OFFSET_HOST == 16);
    assert!(Context::OFFSET_WORKERS == 24);
    assert!(Context::OFFSET_PARALLEL_FOR == 32);
    assert!(std::mem::offset_of!(Context, unused) == 40);
    assert!(Context::offset_of(Service::Fft) == 72);
    assert!(size_of::<Context>() == 72 + 8 * Service::COUNT);
};
