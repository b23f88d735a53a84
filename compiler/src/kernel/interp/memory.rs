//! The buffers of a kernel that is interpreted, and who wrote what.

use super::Step;
use crate::error::{Error, Result};
use crate::kernel::body::Mem;
use crate::kernel::ir::{Kernel, Role};
use std::cell::Cell;

/// Nobody has written the byte.
const NEVER: u32 = 0;
/// It held its contents when the kernel began.
const BEFORE: u32 = 1;

/// Bytes of every buffer, with the point of a parallel space that wrote each.
pub struct Memory {
    buffers: Vec<Vec<u8>>,
    writers: Vec<Vec<u32>>,
    writable: Vec<bool>,
    /// The running point, and the first of its phase.
    point: u32,
    phase: u32,
    budget: Cell<u64>,
}

impl Memory {
    /// Buffers as a kernel finds them.
    ///
    /// # Errors
    /// [`Error::Internal`] where number or sizes are not those that the kernel declares.
    pub fn new(kernel: &Kernel, buffers: Vec<Vec<u8>>, budget: u64) -> Result<Memory> {
        let sizes = kernel.buffers.iter().map(|b| b.elements.saturating_mul(b.ty.byte_size()));
        if buffers.len() != kernel.buffers.len() || !sizes.eq(buffers.iter().map(Vec::len)) {
            return Err(Error::Internal(format!("kernel '{}' is given other buffers than it declares", kernel.name)));
        }
        let writers = kernel
            .buffers
            .iter()
            .zip(&buffers)
            .map(|(b, bytes)| {
                let known = matches!(b.role, Role::Input | Role::Update { .. });
                vec![if known { BEFORE } else { NEVER }; bytes.len()]
            })
            .collect();
        let writable = kernel.buffers.iter().map(|b| b.role != Role::Input).collect();
        Ok(Memory { buffers, writers, writable, point: BEFORE, phase: BEFORE, budget: Cell::new(budget) })
    }

    /// Another phase begins: what was written is there for all.
    pub(super) fn next_phase(&mut self) {
        self.next_point();
        self.phase = self.point;
    }

    /// Another point of the parallel space, which may run at the same time as its neighbours.
    pub(super) fn next_point(&mut self) {
        self.point = self.point.saturating_add(1);
    }

    /// What is left to spend.
    pub(super) fn budget(&self) -> u64 {
        self.budget.get()
    }

    /// Spends one.
    pub(super) fn spend(&self) -> Step<()> {
        self.budget.set(self.budget.get().saturating_sub(1));
        if self.budget.get() == 0 { Err("the budget is spent".to_owned()) } else { Ok(()) }
    }

    fn range(&self, buffer: u32, mem: Mem, at: i64) -> Step<std::ops::Range<usize>> {
        let bytes = self.buffers.get(buffer as usize).ok_or_else(|| format!("there is no buffer {buffer}"))?;
        self.spend()?;
        let size = mem.bytes() as usize;
        let start = usize::try_from(at).ok().and_then(|i| i.checked_mul(size));
        let range = start.and_then(|s| Some(s..s.checked_add(size)?)).filter(|r| r.end <= bytes.len());
        range.ok_or_else(|| format!("offset {at} is outside buffer {buffer} of {} bytes", bytes.len()))
    }

    /// An element, as the scalar type that `mem` yields.
    pub(super) fn load(&self, buffer: u32, mem: Mem, at: i64) -> Step<u64> {
        let range = self.range(buffer, mem, at)?;
        for &writer in &self.writers[buffer as usize][range.clone()] {
            if writer == NEVER {
                return Err(format!("offset {at} of buffer {buffer} is read before it is written"));
            }
            if writer >= self.phase && writer != self.point {
                return Err(format!("offset {at} of buffer {buffer} is read while another point writes it"));
            }
        }
        let mut word = [0; 8];
        word[..range.len()].copy_from_slice(&self.buffers[buffer as usize][range]);
        Ok(extend(mem, u64::from_le_bytes(word)))
    }

    /// Writes an element, which is in the range of its form.
    pub(super) fn store(&mut self, buffer: u32, mem: Mem, at: i64, value: u64) -> Step<()> {
        let range = self.range(buffer, mem, at)?;
        // Emitters narrow as their instructions do, which may saturate.
        if extend(mem, value) != value {
            return Err(format!("{value:#x} is stored as {mem}, which does not hold it"));
        }
        if !self.writable[buffer as usize] {
            return Err(format!("buffer {buffer} is an input and is written"));
        }
        for writer in &mut self.writers[buffer as usize][range.clone()] {
            if *writer >= self.phase && *writer != self.point {
                return Err(format!("two points write offset {at} of buffer {buffer}"));
            }
            *writer = self.point;
        }
        let size = range.len();
        self.buffers[buffer as usize][range].copy_from_slice(&value.to_le_bytes()[..size]);
        Ok(())
    }

    /// The buffers, where every output is written whole.
    pub(super) fn finish(self, kernel: &Kernel) -> Step<Vec<Vec<u8>>> {
        for (i, (buffer, writers)) in kernel.buffers.iter().zip(&self.writers).enumerate() {
            if buffer.role == Role::Output
                && let Some(at) = writers.iter().position(|&w| w == NEVER)
            {
                return Err(format!("byte {at} of output buffer {i} is never written"));
            }
        }
        Ok(self.buffers)
    }
}

/// Bits of memory as bits of the scalar type.
pub(super) fn extend(mem: Mem, bits: u64) -> u64 {
    match mem {
        Mem::S8 => u64::from(bits as u8 as i8 as u32),
        Mem::U8 => u64::from(bits as u8),
        Mem::S16 => u64::from(bits as u16 as i16 as u32),
        Mem::U16 => u64::from(bits as u16),
        Mem::I32 | Mem::F32 => u64::from(bits as u32),
        Mem::I64 | Mem::F64 => bits,
    }
}
