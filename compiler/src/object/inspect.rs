//! Reading back what an object says of itself, for any target.

use crate::{Error, Result};
use brolga_runtime::abi::{DescriptorInfo, HASH_OFFSET, MAGIC, object_hash};
use object::{File, Object, ObjectSection, ObjectSymbol, SymbolSection};

/// The descriptor in the bytes of an object file, whatever machine it is for. The content hash is checked.
///
/// # Errors
/// Where the bytes are not an object that this compiler wrote, or were changed since.
pub fn read_descriptor(bytes: &[u8]) -> Result<DescriptorInfo> {
    let fail = |what: &str| Error::Target(format!("not a usable object: {what}"));
    let file = File::parse(bytes).map_err(|e| fail(&e.to_string()))?;
    for symbol in file.symbols() {
        let SymbolSection::Section(index) = symbol.section() else {
            continue;
        };
        if !symbol.is_global() || !symbol.name_bytes().is_ok_and(|n| n.ends_with(b"_descriptor")) {
            continue;
        }
        let section = file.section_by_index(index).map_err(|e| fail(&e.to_string()))?;
        let data = section.data().map_err(|e| fail(&e.to_string()))?;
        // In a relocatable object sections have addresses in one format only, Mach-O's.
        let Some(start) = symbol.address().checked_sub(section.address()).and_then(|s| usize::try_from(s).ok()) else {
            continue;
        };
        let Some(blob) = data.get(start..).filter(|b| b.get(8..12) == Some(MAGIC.to_le_bytes().as_slice())) else {
            continue;
        };
        let descriptor = DescriptorInfo::decode(blob).map_err(|e| fail(&e.to_string()))?;
        let hole = section.file_range().and_then(|(at, _)| usize::try_from(at).ok()?.checked_add(start + HASH_OFFSET));
        if hole.and_then(|hole| object_hash(bytes, hole)) != Some(descriptor.hash) {
            return Err(fail("its content does not match its hash"));
        }
        return Ok(descriptor);
    }
    Err(fail("it has no Brolga descriptor"))
}
