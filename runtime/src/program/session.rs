//! A program with its buffers: allocated once, called often.

use super::memory::{AlignedBytes, check_argument, load, store};
use super::services::Host;
use super::{Program, RunError, RunOptions};
use crate::ArrayLiteral;
use crate::abi::{Context, EntryFn};
use std::ffi::c_void;

/// A program with its workspace and services, for callers that bring their own buffers. Generated bindings use it.
pub struct Caller {
    program: Program,
    entry: EntryFn,
    workspace: AlignedBytes,
    context: Context,
    /// What `context.host` points to.
    _host: Box<Host>,
}

// SAFETY: the pointers lead to the host and the workspace, which the caller owns and which may move between threads;
// `Host` holds only `Send + Sync` things.
unsafe impl Send for Caller {}

impl Caller {
    /// Allocates the workspace and sets the services up.
    ///
    /// # Errors
    /// Where memory is exhausted.
    pub fn new(program: &Program, options: &RunOptions) -> Result<Caller, RunError> {
        let host = Box::new(Host::new(options));
        let workspace = program.workspace(host.workers())?;
        let context = host.context(options.seed);
        Ok(Caller { program: program.clone(), entry: program.entry(), workspace, context, _host: host })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The seed of the next call.
    pub fn set_seed(&mut self, seed: u64) {
        self.context.random_seed = seed;
    }

    /// Runs the program on the given buffers.
    ///
    /// # Errors
    /// Where the program returns a status.
    ///
    /// # Safety
    /// As [`Program::call_raw`] asks of `parameters` and `results`.
    #[inline]
    pub unsafe fn call(&mut self, parameters: &[*const c_void], results: &[*mut c_void]) -> Result<(), RunError> {
        // SAFETY: the caller vouches for the buffers; the workspace fits the context's workers; the context and its
        // host live as long as `self`, whose mutable borrow keeps other calls away from the workspace.
        let code = unsafe {
            (self.entry)(parameters.as_ptr(), results.as_ptr(), self.workspace.as_ptr().cast(), &self.context)
        };
        if code == 0 { Ok(()) } else { Err(RunError::Status { code }) }
    }
}

/// A program together with buffers for its parameters, results and workspace, and with its services.
///
/// A [`Session::call`] costs what the program's function costs, and no allocation. A parameter that the program
/// *must* share with a result keeps what the call wrote; all other parameters stay as they were set.
pub struct Session {
    caller: Caller,
    parameters: Vec<AlignedBytes>,
    /// The buffer of a result, or the parameter whose buffer it shares.
    results: Vec<ResultBuffer>,
    parameter_pointers: Box<[*const c_void]>,
    result_pointers: Box<[*mut c_void]>,
}

enum ResultBuffer {
    Own(AlignedBytes),
    Parameter(usize),
}

// SAFETY: the pointers lead to buffers that the session owns and that may move between threads.
unsafe impl Send for Session {}

impl Session {
    pub(super) fn new(program: &Program, options: &RunOptions) -> Result<Session, RunError> {
        let descriptor = program.descriptor();
        let caller = Caller::new(program, options)?;
        let mut parameters = Vec::new();
        for leaf in &descriptor.parameters {
            parameters.push(AlignedBytes::new(leaf.byte_size())?);
        }
        let mut results = Vec::new();
        for (i, leaf) in descriptor.results.iter().enumerate() {
            results.push(match program.must_alias(i) {
                Some(parameter) => ResultBuffer::Parameter(parameter),
                None => ResultBuffer::Own(AlignedBytes::new(leaf.byte_size())?),
            });
        }
        let parameter_pointers: Box<[*const c_void]> =
            parameters.iter().map(|p| p.as_ptr().cast_const().cast()).collect();
        let result_pointers = results
            .iter()
            .map(|r| match r {
                ResultBuffer::Own(bytes) => bytes.as_ptr().cast(),
                ResultBuffer::Parameter(p) => parameter_pointers.get(*p).map_or(std::ptr::null_mut(), |p| p.cast_mut()),
            })
            .collect();
        Ok(Session { caller, parameters, results, parameter_pointers, result_pointers })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        self.caller.program()
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// Where the literal does not fit.
    pub fn set_parameter(&mut self, index: usize, value: &ArrayLiteral) -> Result<(), RunError> {
        let leaf = self.caller.program.descriptor().parameters.get(index).ok_or(RunError::Index(index))?;
        check_argument(index, leaf, value)?;
        let buffer = self.parameters.get_mut(index).ok_or(RunError::Index(index))?;
        store(leaf, value, buffer.bytes_mut())
    }

    /// A parameter's buffer, in the leaf's own layout.
    pub fn parameter_bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        self.parameters.get_mut(index).map(AlignedBytes::bytes_mut)
    }

    /// A result's buffer, in the leaf's own layout.
    pub fn result_bytes(&self, index: usize) -> Option<&[u8]> {
        match self.results.get(index)? {
            ResultBuffer::Own(bytes) => Some(bytes.bytes()),
            ResultBuffer::Parameter(p) => self.parameters.get(*p).map(AlignedBytes::bytes),
        }
    }

    /// A result as a literal.
    ///
    /// # Errors
    /// Where there is no such result, or it cannot be a literal.
    pub fn result(&self, index: usize) -> Result<ArrayLiteral, RunError> {
        let leaf = self.caller.program.descriptor().results.get(index).ok_or(RunError::Index(index))?;
        load(index, leaf, self.result_bytes(index).ok_or(RunError::Index(index))?)
    }

    /// All results as literals.
    ///
    /// # Errors
    /// As [`Session::result`].
    pub fn results(&self) -> Result<Vec<ArrayLiteral>, RunError> {
        (0..self.results.len()).map(|i| self.result(i)).collect()
    }

    /// The seed of the next call.
    pub fn set_seed(&mut self, seed: u64) {
        self.caller.set_seed(seed);
    }

    /// Runs the program on the buffers.
    ///
    /// # Errors
    /// Where the program returns a status.
    #[inline]
    pub fn call(&mut self) -> Result<(), RunError> {
        // SAFETY: the pointers lead to live buffers of the sizes and alignments that the descriptor asks for, which
        // overlap in declared pairs only; `&mut self` keeps other calls away from the buffers.
        unsafe { self.caller.call(&self.parameter_pointers, &self.result_pointers) }
    }
}
