//! Reading back what an object says of itself, for any target.

use crate::{Error, Result};
use brolga_runtime::abi::{DescriptorInfo, HASH_OFFSET, object_hash};
use object::{File, Object, ObjectSection, ObjectSymbol, SymbolSection};

fn fail(what: &str) -> Error {
    Error::Target(format!("not a usable object: {what}"))
}

/// The descriptor in the bytes of an object file for one size, whatever machine it is for. The content hash is checked.
///
/// # Errors
/// Where the bytes are not an object that this compiler wrote, or were changed since, or hold several programs or
/// sizes.
pub fn read_descriptor(bytes: &[u8]) -> Result<DescriptorInfo> {
    let mut all = read_descriptors(bytes)?;
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err(fail("it holds several programs, or one for several sizes")),
    }
}

/// The descriptors in the bytes of an object file, one for each computation or size, whatever machine it is for. The content hash is
/// checked.
///
/// # Errors
/// Where the bytes are not an object that this compiler wrote, or were changed since.
pub fn read_descriptors(bytes: &[u8]) -> Result<Vec<DescriptorInfo>> {
    let (mut found, mut holes) = (Vec::new(), Vec::new());
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
        let Some(blob) = data.get(start..).filter(|b| DescriptorInfo::is_at(b)) else {
            continue;
        };
        let descriptor = DescriptorInfo::decode(blob).map_err(|e| fail(&e.to_string()))?;
        let hole = section.file_range().and_then(|(at, _)| usize::try_from(at).ok()?.checked_add(start + HASH_OFFSET));
        holes.push(hole.ok_or_else(|| fail("its descriptor lies nowhere"))?);
        found.push(descriptor);
    }
    let hash = object_hash(bytes, &holes);
    if found.is_empty() {
        return Err(fail("it has no Brolga descriptor"));
    }
    if found.iter().any(|d: &DescriptorInfo| Some(d.hash) != hash) {
        return Err(fail("its content does not match its hash"));
    }
    Ok(found)
}
