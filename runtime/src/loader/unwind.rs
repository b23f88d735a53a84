//! The unwind table of a loaded program, known to the process as long as the program is loaded.
//!
//! The unwinder of the GNU runtime is told of a table once, and looks it up when an exception or a backtrace passes through.
//! It trusts what it reads; so the table is read here first, entry by entry, and must be of the form that the compiler
//! writes and speak of the program's own code alone. Elsewhere than on Linux with that runtime nothing is registered, and
//! a backtrace ends at the program.

use crate::LoadError;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection, constants};
use std::ops::Range;

/// Zeros that end a table.
pub(super) const END: usize = 4;

/// Where a common entry has its version and its form, behind length and mark.
const CIE_FORM: Range<usize> = 8..12;
/// Version 1; addresses have an encoding, and there is nothing else.
const FORM: &[u8] = b"\x01zR\0";

/// A table that the process knows. Dropping it makes the process forget it.
pub(super) struct Registered {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    table: usize,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    fn __register_frame(table: *const u8);
    fn __deregister_frame(table: *const u8);
}

impl Registered {
    /// Makes a table known that lies at its address, with the zeros behind it.
    ///
    /// # Safety
    /// [`check`] has passed it, for the addresses at which table and code lie, and neither is changed or unmapped before the
    /// value is dropped.
    pub(super) unsafe fn new(table: *const u8) -> Registered {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            // SAFETY: the table is whole and of known form, and lives as long as the value, as the caller promises.
            unsafe { __register_frame(table) };
            Registered { table: table.expose_provenance() }
        }
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        {
            let _ = table;
            Registered {}
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: `new` has registered the table, which is still there.
        unsafe { __deregister_frame(std::ptr::with_exposed_provenance(self.table)) };
    }
}

/// That a relocated table at `address` has the form that the compiler writes, and entries for code in `text` alone.
///
/// # Errors
/// Where it has another form.
pub(super) fn check(table: &[u8], address: u64, text: &Range<u64>) -> Result<(), LoadError> {
    let malformed = |what: &str| LoadError::Malformed(format!("its unwind table {what}"));
    let damaged = |_: gimli::Error| malformed("is damaged");
    let bases = BaseAddresses::default().set_eh_frame(address);
    // The unwinder goes from length to length, and knows those of 32 bits alone.
    let mut rest = table;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length);
        rest = match usize::try_from(length).ok().and_then(|length| behind.get(length..)) {
            Some(_) if length == 0 && !behind.is_empty() => return Err(malformed("ends before its end")),
            Some(next) if length < 0xffff_fff0 => next,
            _ => return Err(malformed("is damaged")),
        };
    }
    if !rest.is_empty() {
        return Err(malformed("is damaged"));
    }
    let section = EhFrame::new(table, LittleEndian);
    let (mut entries, mut known) = (section.entries(&bases), 0);
    while let Some(entry) = entries.next().map_err(damaged)? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry = partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset)).map_err(damaged)?;
        let cie = entry.cie();
        let encoding = constants::DwEhPe(constants::DW_EH_PE_pcrel.0 | constants::DW_EH_PE_sdata4.0);
        let form = table.get(cie.offset()..).and_then(|cie| cie.get(CIE_FORM));
        if cie.fde_address_encoding() != Some(encoding) || form != Some(FORM) {
            return Err(malformed("has another form"));
        }
        let (start, length) = (entry.initial_address(), entry.len());
        let inside = start.checked_add(length).is_some_and(|end| text.start <= start && end <= text.end);
        if length == 0 || !inside {
            return Err(malformed("speaks of other code"));
        }
        known += 1;
    }
    // What the unwinder keeps is found again by the code that a table speaks of.
    if known == 0 { Err(malformed("is empty")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0x1000;
    const TEXT: Range<u64> = 0x2000..0x3000;

    /// A common entry and one for `length` bytes of code from `start` on, without the zeros behind.
    fn table(start: u64, length: u32) -> Vec<u8> {
        let mut out = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
        out.extend([16, 0, 0, 0, 28, 0, 0, 0]);
        let distance = start as i64 - (ADDRESS as i64 + out.len() as i64);
        out.extend((distance as i32).to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend([0; 4]);
        out
    }

    fn verdict(table: &[u8]) -> String {
        check(table, ADDRESS, &TEXT).map_or_else(|e| e.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn tables_of_the_programs_own_code_pass() {
        let whole = table(TEXT.start, (TEXT.end - TEXT.start) as u32);
        assert_eq!(verdict(&whole), "right");
        assert_eq!(verdict(&[whole, vec![0; END]].concat()), "right");
    }

    #[test]
    fn other_tables_are_refused() {
        let good = table(0x2100, 16);
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            bad
        };
        let joined = |parts: &[&[u8]]| parts.concat();
        for (what, bad) in [
            ("speaks of other code", table(TEXT.start - 1, 16)),
            ("speaks of other code", table(TEXT.end - 8, 16)),
            ("speaks of other code", table(0x2100, 0)),
            ("has another form", with(8, 3)),
            ("has another form", with(16, 0x0b)),
            ("ends before its end", joined(&[&good, &[0; END], &good])),
            ("is damaged", good[..good.len() - 1].to_vec()),
            ("is damaged", joined(&[&[0xff; 4], &good])),
            ("is damaged", joined(&[&good, &[1]])),
            ("is empty", good[..24].to_vec()),
            ("is empty", vec![0; END]),
        ] {
            let found = verdict(&bad);
            assert!(found.contains(&format!("its unwind table {what}")), "{what}: {found}");
        }
    }
}
