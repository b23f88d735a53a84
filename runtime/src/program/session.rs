//! A program with its buffers: allocated once, called often.

use super::bound::Bound;
use super::host::Host;
use super::memory::{AlignedBytes, check_argument, load, store};
use super::{Program, RunError, RunOptions};
use crate::abi::{Context, EntryFn, Leaf, array_leaves};
use crate::{ArrayLiteral, ArrayShape, TupleBuffer};
use std::ffi::c_void;

/// A program with its workspace and services, for callers that bring their own buffers. Generated bindings use it.
pub struct Caller {
    program: Program,
    entry: EntryFn,
    workspace: AlignedBytes,
    context: Context,
    /// What `context.host` points to.
    host: Box<Host>,
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
        program.check_devices(options)?;
        let host = Box::new(Host::new(program, options));
        let workspace = program.workspace(host.workers())?;
        let context = host.context(options.seed, program.library());
        Ok(Caller { program: program.clone(), entry: program.entry(), workspace, context, host })
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
        if code == 0 && !self.host.is_one_of_several() { Ok(()) } else { self.host.outcome(code) }
    }
}

impl Caller {
    /// Runs the program on tuples in XLA's form: `parameters` one for each parameter of the program or grouped in any
    /// other way, as long as their arrays in order are the program's; `results` likewise. Nothing is copied, but that a
    /// parameter which the program must overwrite is copied into the result that shares its buffer.
    ///
    /// # Errors
    /// Where the arrays are not the program's, and where the program returns a status.
    pub fn call_tuples(
        &mut self,
        parameters: &[&TupleBuffer<'_>],
        results: &mut TupleBuffer<'_>,
    ) -> Result<(), RunError> {
        let descriptor = self.program.descriptor();
        let inputs = leaves(parameters, &descriptor.parameters)?;
        let outputs = leaves(&[results], &descriptor.results)?;
        let mut sources: Vec<*const c_void> = inputs.iter().map(|p| p.cast_const()).collect();
        for (r, &target) in outputs.iter().enumerate() {
            let Some(p) = self.program.must_alias(r) else { continue };
            if let (Some(source), Some(leaf)) = (sources.get_mut(p), descriptor.results.get(r)) {
                // SAFETY: both are buffers of the shared leaf's size; the result is borrowed exclusively, so they are
                // apart.
                unsafe {
                    std::ptr::copy_nonoverlapping(source.cast::<u8>(), target.cast(), leaf.byte_size() as usize);
                }
                *source = target.cast_const();
            }
        }
        // SAFETY: the buffers have the sizes and alignments that the descriptor asks for; results are borrowed
        // exclusively and overlap nothing but the parameters that were put in their place.
        unsafe { self.call(&sources, &outputs) }
    }
}

/// The arrays of tuples, which must be those of the program.
fn leaves(tuples: &[&TupleBuffer<'_>], expected: &[Leaf]) -> Result<Vec<*mut c_void>, RunError> {
    let shapes: Vec<&ArrayShape> = tuples.iter().flat_map(|t| array_leaves(t.shape())).collect();
    if shapes.len() != expected.len() {
        return Err(RunError::Count { expected: expected.len(), found: shapes.len() });
    }
    let pointers = tuples.iter().flat_map(|t| t.pointers());
    let mut out = Vec::with_capacity(expected.len());
    for (index, ((shape, leaf), (pointer, length))) in shapes.into_iter().zip(expected).zip(pointers).enumerate() {
        let want = &leaf.shape;
        let same = shape.ty == want.ty
            && shape.dynamic == want.dynamic
            && shape.same_memory(want)
            && length as u64 == leaf.byte_size();
        if !same {
            let (expected, found) = (format!("{want}"), format!("{shape}"));
            return Err(RunError::Shape { index, name: leaf.name.clone(), expected, found });
        }
        out.push(pointer);
    }
    Ok(out)
}

/// A program together with buffers for its parameters, results and workspace, and with its services.
///
/// A [`Session::call`] costs what the program's function costs, and no allocation. A parameter that the program
/// *must* share with a result keeps what the call wrote; all other parameters stay as they were set.
pub struct Session {
    bound: Bound,
    /// A buffer for each parameter. They are never replaced: `bound` has located them.
    parameters: Box<[AlignedBytes]>,
}

impl Session {
    pub(super) fn new(program: &Program, options: &RunOptions) -> Result<Session, RunError> {
        let leaves = &program.descriptor().parameters;
        let parameters: Vec<_> =
            leaves.iter().map(|leaf| AlignedBytes::new(leaf.byte_size())).collect::<Result<_, _>>()?;
        let mut bound = Bound::new(program, options, (0..leaves.len()).collect())?;
        let mut parameters = parameters.into_boxed_slice();
        bound.locate(&mut parameters)?;
        Ok(Session { bound, parameters })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        self.bound.program()
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// Where the literal does not fit.
    pub fn set_parameter(&mut self, index: usize, value: &ArrayLiteral) -> Result<(), RunError> {
        let leaf = self.bound.program().descriptor().parameters.get(index).ok_or(RunError::Index(index))?;
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
        self.bound.result_bytes(&self.parameters, index)
    }

    /// A result as a literal.
    ///
    /// # Errors
    /// Where there is no such result, or it cannot be a literal.
    pub fn result(&self, index: usize) -> Result<ArrayLiteral, RunError> {
        let leaf = self.program().descriptor().results.get(index).ok_or(RunError::Index(index))?;
        load(index, leaf, self.result_bytes(index).ok_or(RunError::Index(index))?)
    }

    /// All results as literals.
    ///
    /// # Errors
    /// As [`Session::result`].
    pub fn results(&self) -> Result<Vec<ArrayLiteral>, RunError> {
        (0..self.program().descriptor().results.len()).map(|i| self.result(i)).collect()
    }

    /// The seed of the next call.
    pub fn set_seed(&mut self, seed: u64) {
        self.bound.set_seed(seed);
    }

    /// Runs the program on the buffers.
    ///
    /// # Errors
    /// Where the program returns a status.
    #[inline]
    pub fn call(&mut self) -> Result<(), RunError> {
        // SAFETY: `new` located these buffers, which are never replaced; `&mut self` keeps everything else away.
        unsafe { self.bound.call_located() }
    }
}
