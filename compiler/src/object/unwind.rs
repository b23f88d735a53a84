//! Unwind tables: how whoever stands in a function of the object finds the frame of its caller.
//!
//! **Problem.** A backtrace, a profiler and an exception that crosses a program need for every instruction where the caller's
//! frame is and which registers were saved. Cranelift knows that of its functions, and the assembler of those that are
//! written instruction by instruction.
//!
//! **Invariant.** Each function has one entry, and all of its instructions have a rule. Addresses are distances of 32 bits
//! from where they stand, so a table needs no relocation once code and table lie in one image.
//!
//! **Algorithm.** One common entry of the machine, one entry for each function in the order of their numbers, written by
//! `gimli`; what it cannot know yet, the distances, is kept as [`Distance`]s, which an object turns into relocations and a
//! shared library fills in.

use crate::error::{Error, Result};
use cranelift_codegen::ir::Endianness;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::systemv;
use gimli::constants::{DW_EH_PE_pcrel, DW_EH_PE_sdata4};
use gimli::write::{
    Address, CallFrameInstruction, EhFrame, EndianVec, FrameDescriptionEntry, FrameTable, RelocateWriter, Relocation,
    RelocationTarget,
};
use gimli::{DwEhPe, RunTimeEndian};

/// Where the frame of a function's caller is, instruction by instruction.
#[derive(Clone)]
pub enum Unwind {
    /// As Cranelift says.
    Cranelift(systemv::UnwindInfo),
    /// What changes at which offset, from the rules at a function's first instruction on.
    Changes(Vec<(u32, CallFrameInstruction)>),
}

impl Unwind {
    /// Of a function that moves no stack pointer and saves nothing.
    #[cfg(test)]
    pub fn unchanged() -> Unwind {
        Unwind::Changes(Vec::new())
    }
}

/// The distance from a place in the table to a function, still to be filled in.
pub(super) struct Distance {
    /// Of the four bytes in the table.
    pub(super) offset: u64,
    /// Which of the table's functions.
    pub(super) function: usize,
}

/// A table without addresses and without the zeros at its end.
pub(super) struct UnwindTable {
    pub(super) bytes: Vec<u8>,
    pub(super) distances: Vec<Distance>,
}

/// Tables begin on a word.
pub(super) const ALIGNMENT: u64 = 8;

/// How addresses are written.
pub(super) const ENCODING: DwEhPe = DwEhPe(DW_EH_PE_pcrel.0 | DW_EH_PE_sdata4.0);

/// The table of functions, of so many bytes each, which are numbered as they come.
///
/// # Errors
/// Where a function's changes are out of order or too many (a bug of ours).
pub(super) fn table<'f>(
    functions: impl Iterator<Item = (&'f Unwind, usize)>,
    isa: &dyn TargetIsa,
) -> Result<UnwindTable> {
    let failed = |e: &dyn std::fmt::Display| Error::Internal(format!("the unwind table cannot be written: {e}"));
    let mut cie = isa.create_systemv_cie().ok_or_else(|| failed(&"the target has none"))?;
    cie.fde_address_encoding = ENCODING;
    let mut table = FrameTable::default();
    let cie = table.add_cie(cie);
    for (symbol, (unwind, size)) in functions.enumerate() {
        let address = Address::Symbol { symbol, addend: 0 };
        let entry = match unwind {
            Unwind::Cranelift(info) => info.to_fde(address),
            Unwind::Changes(changes) => {
                let length = u32::try_from(size).map_err(|e| failed(&e))?;
                let mut entry = FrameDescriptionEntry::new(address, length);
                for (offset, change) in changes {
                    entry.add_instruction(*offset, change.clone());
                }
                entry
            }
        };
        table.add_fde(cie, entry);
    }
    let mut section = EhFrame(Section { writer: EndianVec::new(byte_order(isa)), distances: Vec::new(), fault: false });
    table.write_eh_frame(&mut section).map_err(|e| failed(&e))?;
    let Section { writer, distances, fault } = section.0;
    if fault {
        return Err(failed(&"an address that is no distance to a function"));
    }
    Ok(UnwindTable { bytes: writer.into_vec(), distances })
}

/// The order in which a machine stores the bytes of numbers.
pub(super) fn byte_order(isa: &dyn TargetIsa) -> RunTimeEndian {
    if isa.endianness() == Endianness::Big { RunTimeEndian::Big } else { RunTimeEndian::Little }
}

/// The bytes as they come, with the places of addresses.
struct Section {
    writer: EndianVec<RunTimeEndian>,
    distances: Vec<Distance>,
    fault: bool,
}

impl RelocateWriter for Section {
    type Writer = EndianVec<RunTimeEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.writer
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.writer
    }

    fn relocate(&mut self, relocation: Relocation) {
        match relocation {
            Relocation {
                offset,
                size: 4,
                target: RelocationTarget::Symbol(function),
                addend: 0,
                eh_pe: Some(ENCODING),
            } => {
                self.distances.push(Distance { offset: offset as u64, function });
            }
            _ => self.fault = true,
        }
    }
}

#[cfg(test)]
mod tests;
