//! Filling in the references of code, once everything has its address.

use super::super::unwind::ENCODING;
use super::Machine;
use super::image::{CodeReference, INDEX_HEADER, Image, Part, Place, Referent};
use crate::{Error, Result};
use cranelift_codegen::binemit::Reloc;
use gimli::constants::{DW_EH_PE_datarel, DW_EH_PE_sdata4, DW_EH_PE_udata4};

fn outside() -> Error {
    Error::Internal("a reference lies outside the code".to_owned())
}

fn too_far() -> Error {
    Error::Target("the program's code is too large: a reference does not reach its target".to_owned())
}

/// The addresses of the parts.
pub(super) struct Addresses<'a> {
    pub(super) image: &'a Image<'a>,
    pub(super) parts: [u64; Part::COUNT],
}

impl Addresses<'_> {
    pub(super) fn place(&self, place: Place) -> u64 {
        self.parts[place.part as usize] + place.offset
    }

    /// The address of a symbol of the library; 0 for an undefined one.
    pub(super) fn referent(&self, referent: Referent) -> u64 {
        match referent {
            Referent::Symbol(i) => self.image.symbols.get(i).map_or(0, |s| self.place(s.place)),
            Referent::Import(_) => 0,
        }
    }

    fn slot(&self, referent: Referent) -> Result<u64> {
        let slot = self.image.slots.get(&referent).ok_or_else(outside)?;
        Ok(self.place(Place { part: Part::Got, offset: *slot }))
    }

    /// Where a call of the referent goes: an undefined one is called through its stub.
    fn callee(&self, referent: Referent) -> Result<u64> {
        match referent {
            Referent::Symbol(_) => Ok(self.referent(referent)),
            Referent::Import(i) => {
                let offset = *self.image.stubs.get(&i).ok_or_else(outside)?;
                Ok(self.place(Place { part: Part::Text, offset }))
            }
        }
    }

    /// The text with every reference filled in.
    pub(super) fn text(&self) -> Result<Vec<u8>> {
        let mut text = self.image.part(Part::Text).bytes.clone();
        for (&import, &at) in &self.image.stubs {
            let slot = self.slot(Referent::Import(import))?;
            let place = self.place(Place { part: Part::Text, offset: at });
            match self.image.machine {
                Machine::X86_64 => put(&mut text, at + 2, displacement(slot, place + 6)?)?,
                Machine::Aarch64 => {
                    page(&mut text, at, slot, place)?;
                    low_bits(&mut text, at + 4, slot, 3)?;
                }
            }
        }
        for reference in &self.image.code {
            self.fill(&mut text, reference)?;
        }
        Ok(text)
    }

    /// The unwind table and the index by which it is searched: functions by address, and where the entry of each is.
    pub(super) fn unwind(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut table = self.image.part(Part::Unwind).bytes.clone();
        let mut index = self.image.part(Part::UnwindIndex).bytes.clone();
        let (start, header) = (self.parts[Part::Unwind as usize], self.parts[Part::UnwindIndex as usize]);
        let mut entries = Vec::with_capacity(self.image.unwound.len());
        for &(offset, symbol) in &self.image.unwound {
            let function = self.referent(Referent::Symbol(symbol));
            put(&mut table, offset, displacement(function, start + offset)?)?;
            // Before an entry's distance stand its length and the way to the common entry.
            entries.push((function, start + offset - 8));
        }
        entries.sort_unstable();
        let relative = DW_EH_PE_datarel.0 | DW_EH_PE_sdata4.0;
        put(&mut index, 0, [1, ENCODING.0, DW_EH_PE_udata4.0, relative])?;
        put(&mut index, 4, displacement(start, header + 4)?)?;
        put(&mut index, 8, (entries.len() as u32).to_le_bytes())?;
        for (at, (function, entry)) in (INDEX_HEADER as u64..).step_by(8).zip(entries) {
            put(&mut index, at, displacement(function, header)?)?;
            put(&mut index, at + 4, displacement(entry, header)?)?;
        }
        Ok((table, index))
    }

    fn fill(&self, text: &mut [u8], reference: &CodeReference) -> Result<()> {
        let &CodeReference { offset: at, kind, referent, addend } = reference;
        let place = self.place(Place { part: Part::Text, offset: at });
        let plus = |address: u64| address.wrapping_add_signed(addend);
        match kind {
            Reloc::X86PCRel4 => put(text, at, displacement(plus(self.referent(referent)), place)?),
            Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 => {
                put(text, at, displacement(plus(self.callee(referent)?), place)?)
            }
            Reloc::X86GOTPCRel4 => put(text, at, displacement(plus(self.slot(referent)?), place)?),
            Reloc::Arm64Call => {
                let distance = plus(self.callee(referent)?).wrapping_sub(place) as i64;
                if distance % 4 != 0 || !(-(1 << 27)..1 << 27).contains(&distance) {
                    return Err(too_far());
                }
                or(text, at, (distance >> 2) as u32 & 0x03ff_ffff)
            }
            Reloc::Aarch64AdrGotPage21 => page(text, at, plus(self.slot(referent)?), place),
            Reloc::Aarch64Ld64GotLo12Nc => low_bits(text, at, plus(self.slot(referent)?), 3),
            Reloc::Aarch64AdrPrelPgHi21 => page(text, at, plus(self.referent(referent)), place),
            Reloc::Aarch64AddAbsLo12Nc => low_bits(text, at, plus(self.referent(referent)), 0),
            // `Image::tables` lets no other kind through.
            other => Err(Error::Internal(format!("a relocation of kind {other:?}"))),
        }
    }
}

fn displacement(target: u64, from: u64) -> Result<[u8; 4]> {
    let distance = target.wrapping_sub(from) as i64;
    i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| too_far())
}

fn word(text: &mut [u8], at: u64) -> Result<&mut [u8; 4]> {
    let at = usize::try_from(at).map_err(|_| outside())?;
    text.get_mut(at..).and_then(|rest| rest.first_chunk_mut()).ok_or_else(outside)
}

fn put(text: &mut [u8], at: u64, bytes: [u8; 4]) -> Result<()> {
    *word(text, at)? = bytes;
    Ok(())
}

/// Sets bits of an instruction that are still 0.
fn or(text: &mut [u8], at: u64, bits: u32) -> Result<()> {
    let word = word(text, at)?;
    *word = (u32::from_le_bytes(*word) | bits).to_le_bytes();
    Ok(())
}

/// The distance in pages, in an `adrp`.
fn page(text: &mut [u8], at: u64, target: u64, place: u64) -> Result<()> {
    let pages = (target >> 12).wrapping_sub(place >> 12) as i64;
    if !(-(1 << 20)..1 << 20).contains(&pages) {
        return Err(too_far());
    }
    let pages = pages as u32;
    or(text, at, (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5)
}

/// The place within a page, in the immediate of an `add` or of a load of `1 << scale` bytes.
fn low_bits(text: &mut [u8], at: u64, target: u64, scale: u32) -> Result<()> {
    let low = (target & 0xfff) as u32;
    if !low.is_multiple_of(1 << scale) {
        return Err(Error::Internal("a slot is not aligned".to_owned()));
    }
    or(text, at, (low >> scale) << 10)
}
