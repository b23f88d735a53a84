//! A program whose parameters are arrays of a memory that several programs share.

use super::memory::AlignedBytes;
use super::session::Caller;
use super::{Program, RunError, RunOptions};
use crate::abi::Leaf;
use std::ffi::c_void;

/// A program with its workspace and the buffers of its results, and the numbers that its parameters have in a memory, a
/// list of buffers. Results that must share a parameter's buffer are written there. A call allocates nothing.
pub(crate) struct Bound {
    caller: Caller,
    /// The number of each parameter's buffer; all different.
    slots: Box<[usize]>,
    results: Box<[ResultBuffer]>,
    parameter_pointers: Box<[*const c_void]>,
    result_pointers: Box<[*mut c_void]>,
}

enum ResultBuffer {
    Own(AlignedBytes),
    /// The buffer of this parameter.
    Parameter(usize),
}

// SAFETY: the pointers are written anew before each call; what else is here may move between threads.
unsafe impl Send for Bound {}

impl Bound {
    /// A program whose parameter `p` is the array `slots[p]` of the memory.
    ///
    /// # Errors
    /// Where memory is exhausted, there is not one slot for each parameter, or two parameters have one slot.
    pub(crate) fn new(program: &Program, options: &RunOptions, slots: Vec<usize>) -> Result<Bound, RunError> {
        let descriptor = program.descriptor();
        let expected = descriptor.parameters.len();
        if slots.len() != expected {
            return Err(RunError::Count { expected, found: slots.len() });
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(&twice) = slots.iter().find(|slot| !seen.insert(**slot)) {
            return Err(RunError::Index(twice));
        }
        let caller = Caller::new(program, options)?;
        let mut results = Vec::with_capacity(descriptor.results.len());
        for (r, leaf) in descriptor.results.iter().enumerate() {
            results.push(match program.must_alias(r) {
                Some(parameter) => ResultBuffer::Parameter(parameter),
                None => ResultBuffer::Own(AlignedBytes::new(leaf.byte_size())?),
            });
        }
        Ok(Bound {
            caller,
            slots: slots.into(),
            parameter_pointers: vec![std::ptr::null(); expected].into(),
            result_pointers: vec![std::ptr::null_mut(); results.len()].into(),
            results: results.into(),
        })
    }

    pub(crate) fn program(&self) -> &Program {
        self.caller.program()
    }

    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.caller.set_seed(seed);
    }

    /// A result's buffer, in the leaf's own layout; `memory` is that of the calls.
    pub(crate) fn result_bytes<'a>(&'a self, memory: &'a [AlignedBytes], index: usize) -> Option<&'a [u8]> {
        match self.results.get(index)? {
            ResultBuffer::Own(bytes) => Some(bytes.bytes()),
            ResultBuffer::Parameter(p) => memory.get(*self.slots.get(*p)?).map(AlignedBytes::bytes),
        }
    }

    /// Looks up the addresses of the parameters and of the results in their buffers.
    ///
    /// # Errors
    /// Where `memory` lacks a buffer or has one of another size.
    pub(crate) fn locate(&mut self, memory: &mut [AlignedBytes]) -> Result<(), RunError> {
        let leaves = &self.caller.program().descriptor().parameters;
        for ((pointer, slot), leaf) in self.parameter_pointers.iter_mut().zip(&self.slots).zip(leaves) {
            let buffer = memory.get(*slot).ok_or(RunError::Index(*slot))?;
            if buffer.bytes().len() as u64 != leaf.byte_size() {
                return Err(wrong_size(*slot, leaf, buffer));
            }
            *pointer = buffer.as_ptr().cast_const().cast();
        }
        for (pointer, result) in self.result_pointers.iter_mut().zip(&self.results) {
            *pointer = match result {
                ResultBuffer::Own(bytes) => bytes.as_ptr().cast(),
                ResultBuffer::Parameter(p) => self.parameter_pointers.get(*p).ok_or(RunError::Index(*p))?.cast_mut(),
            };
        }
        Ok(())
    }

    /// Runs the program on buffers of `memory`.
    ///
    /// # Errors
    /// As [`Bound::locate`], and where the program returns a status.
    pub(crate) fn call(&mut self, memory: &mut [AlignedBytes]) -> Result<(), RunError> {
        self.locate(memory)?;
        // SAFETY: the buffers were just located and are borrowed until the call returns.
        unsafe { self.call_located() }
    }

    /// Runs the program on the buffers that were located last.
    ///
    /// # Errors
    /// Where the program returns a status.
    ///
    /// # Safety
    /// [`Bound::locate`] succeeded, and its `memory` still has the same buffers, which nothing else uses meanwhile.
    #[inline]
    pub(crate) unsafe fn call_located(&mut self) -> Result<(), RunError> {
        // SAFETY: the pointers lead to live buffers of the sizes and alignments that the descriptor asks for. Parameters
        // have different buffers, and results have their own or that of the parameter which they are declared to share.
        // `&mut self` and the caller's promise keep other calls away from all of them.
        unsafe { self.caller.call(&self.parameter_pointers, &self.result_pointers) }
    }
}

fn wrong_size(index: usize, leaf: &Leaf, buffer: &AlignedBytes) -> RunError {
    let found = format!("a buffer of {} bytes", buffer.bytes().len());
    RunError::Shape { index, name: leaf.name.clone(), expected: format!("{}", leaf.shape), found }
}
