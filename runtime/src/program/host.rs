//! The services of a call: what the context's function pointers lead to.

use super::{Library, Program, RunError, RunOptions};
use crate::abi::{Context, ParallelBody, Resources, Services};
use crate::pool::{Executor, MAX_WORKERS, parallel_for};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// What stands behind a [`Context`]: its address is the context's `host`.
pub(crate) struct Host {
    executor: Arc<dyn Executor>,
    workers: u32,
    resources: Resources,
    /// What the service said that failed last.
    message: Mutex<Option<String>>,
}

impl Host {
    /// The services that this runtime offers.
    pub(crate) const OFFERED: Services = Services::PARALLEL_FOR;

    pub(crate) fn new(program: &Program, options: &RunOptions) -> Host {
        let executor = options.executor();
        // Asked once: the workspace is sized by this number.
        let workers = executor.workers().clamp(1, MAX_WORKERS) as u32;
        let (feeds, device) = (options.feeds.clone(), options.device.clone());
        let resources = Resources { feeds, device, program: program.descriptor().hash };
        Host { executor, workers, resources, message: Mutex::new(None) }
    }

    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }

    /// A context whose services are this host's. It must not outlive the host.
    pub(crate) fn context(&self, seed: u64, library: &Library) -> Context {
        Context {
            host: std::ptr::from_ref(self).cast_mut().cast(),
            workers: self.workers,
            parallel_for: Some(parallel_for_service),
            report: Some(report_service),
            resources: std::ptr::from_ref(&self.resources).cast(),
            library: *library,
            ..Context::new(seed)
        }
    }

    /// Whether something must be done after each call.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.resources.device.is_some()
    }

    /// What a program's status says, with the message of the service that failed. No other device uses the program's buffers
    /// afterwards.
    pub(crate) fn outcome(&self, code: i32) -> Result<(), RunError> {
        let outcome = self.status(code);
        if let Some(device) = &self.resources.device {
            device.settle();
            if let Err(error) = &outcome {
                device.fail(&error.to_string());
            }
        }
        outcome
    }

    fn status(&self, code: i32) -> Result<(), RunError> {
        let message = self.message.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (code, message) {
            (0, _) => Ok(()),
            (_, Some(message)) => Err(RunError::Failed { code, message }),
            (_, None) => Err(RunError::Status { code }),
        }
    }
}

/// A loop body's argument. The compiled program guarantees that its bodies may run on several threads.
struct Argument(*mut c_void);
// SAFETY: the pointer is only passed on to the body, which the program declares fit for concurrent use.
unsafe impl Sync for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// The `parallel_for` service.
unsafe extern "C" fn parallel_for_service(host: *mut c_void, tasks: i64, body: ParallelBody, arg: *mut c_void) -> i32 {
    // SAFETY: `host` is the address that `Host::context` put beside this function; the host outlives the call.
    let host = unsafe { &*host.cast::<Host>().cast_const() };
    let arg = Argument(arg);
    let workers = host.workers as usize;
    parallel_for(&*host.executor, tasks, &|task, worker| {
        if worker >= workers {
            return crate::abi::Status::ServiceFailed.code();
        }
        // SAFETY: the program passes a body that takes this argument, a task below `tasks` and a worker that the
        // workspace has room for.
        unsafe { body(arg.get(), task, worker as i64) }
    })
}

/// The `report` service.
unsafe extern "C" fn report_service(host: *mut c_void, message: *const u8, length: usize) {
    // SAFETY: `host` is the address that `Host::context` put beside this function; the host outlives the call.
    let host = unsafe { &*host.cast::<Host>().cast_const() };
    // SAFETY: who reports passes that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(message, length) };
    let text = String::from_utf8_lossy(bytes).into_owned();
    *host.message.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}
