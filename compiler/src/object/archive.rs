//! Static archives of one object: what `cargo:rustc-link-lib=static=...` takes.
//!
//! Two dialects of one format: GNU's, which the linkers of ELF and COFF systems read, and BSD's, for Apple's. The index
//! of symbols is part of both, for some linkers refuse an archive without one. No time stamps, owners or modes that
//! depend on the machine: the same object gives the same archive.

use super::program_name;
use brolga_runtime::abi::DescriptorInfo;

/// A library of one object.
#[derive(Clone, Debug)]
pub struct StaticLibrary {
    /// What linkers are asked for: `brolga_NAME`, for a program called `m` must not stand in for the system's mathematics.
    pub name: String,
    /// The name of its file on the target.
    pub file: String,
    /// The archive.
    pub bytes: Vec<u8>,
}

/// The library of the programs in an object for the target `triple`, the host's where absent; `None` for an object that is too large
/// for an archive.
pub fn static_library(descriptors: &[DescriptorInfo], object: &[u8], triple: Option<&str>) -> Option<StaticLibrary> {
    let triple = triple.map_or_else(|| target_lexicon::Triple::host().to_string(), str::to_owned);
    let program = program_name(descriptors.iter());
    let name = format!("brolga_{program}");
    let file = if triple.ends_with("-msvc") { format!("{name}.lib") } else { format!("lib{name}.a") };
    let mut symbols: Vec<String> = descriptors.iter().flat_map(|d| [d.entry.clone(), d.descriptor_symbol()]).collect();
    if descriptors.iter().any(|d| !d.open.is_empty()) {
        symbols.push(format!("{program}_select"));
    }
    let bytes = static_archive(&format!("{program}.o"), object, &symbols, triple.contains("-apple-"))?;
    Some(StaticLibrary { name, file, bytes })
}

/// An archive that holds `object` under the name `member`; `symbols` are those that it defines for others.
fn static_archive(member: &str, object: &[u8], symbols: &[String], apple: bool) -> Option<Vec<u8>> {
    let mut out = b"!<arch>\n".to_vec();
    let mut names = Vec::new();
    let mut offsets = Vec::new();
    for symbol in symbols {
        offsets.push(u32::try_from(names.len()).ok()?);
        if apple {
            names.push(b'_');
        }
        names.extend_from_slice(symbol.as_bytes());
        names.push(0);
    }
    if apple {
        names.resize(names.len().next_multiple_of(8), 0);
        let table = u32::try_from(8 * symbols.len()).ok()?;
        let mut index = b"__.SYMDEF\0\0\0".to_vec();
        let size = index.len() + 8 + table as usize + names.len();
        let object_at = u32::try_from((out.len() + 60 + size).next_multiple_of(8)).ok()?;
        index.extend_from_slice(&table.to_le_bytes());
        for offset in offsets {
            index.extend_from_slice(&offset.to_le_bytes());
            index.extend_from_slice(&object_at.to_le_bytes());
        }
        index.extend_from_slice(&u32::try_from(names.len()).ok()?.to_le_bytes());
        index.extend_from_slice(&names);
        index.resize(object_at as usize - out.len() - 60, 0);
        entry(&mut out, "#1/12", &index);
        // The name stands before the object, padded so that the object is 8-byte aligned.
        let mut content = member.as_bytes().to_vec();
        let padded = (out.len() + 60 + content.len() + 1).next_multiple_of(8) - out.len() - 60;
        content.resize(padded, 0);
        content.extend_from_slice(object);
        entry(&mut out, &format!("#1/{padded}"), &content);
    } else {
        // Short names are written in place and end with a slash; longer ones need a table, so they are shortened.
        let short: String = member.chars().filter(|c| c.is_ascii_graphic() && *c != '/').take(15).collect();
        let size = 4 + 4 * symbols.len() + names.len();
        let object_at = u32::try_from((out.len() + 60 + size).next_multiple_of(2)).ok()?;
        let mut index = u32::try_from(symbols.len()).ok()?.to_be_bytes().to_vec();
        for _ in symbols {
            index.extend_from_slice(&object_at.to_be_bytes());
        }
        index.extend_from_slice(&names);
        entry(&mut out, "/", &index);
        entry(&mut out, &format!("{short}/"), object);
    }
    Some(out)
}

fn entry(out: &mut Vec<u8>, name: &str, content: &[u8]) {
    let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(content);
    if content.len() % 2 == 1 {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_index_points_at_the_member() {
        let symbols = ["sum".to_owned(), "sum_descriptor".to_owned()];
        let gnu = static_archive("sum.o", b"OBJECT!", &symbols, false).unwrap();
        let at = u32::from_be_bytes(gnu[72..76].try_into().unwrap()) as usize;
        assert_eq!(&gnu[at..at + 6], b"sum.o/");
        assert_eq!(&gnu[at + 60..at + 67], b"OBJECT!");
        assert_eq!(gnu.len() % 2, 0);
        let bsd = static_archive("sum.o", b"OBJECT!", &symbols, true).unwrap();
        let at = u32::from_le_bytes(bsd[88..92].try_into().unwrap()) as usize;
        assert_eq!(&bsd[at..at + 5], b"#1/12");
        assert_eq!(&bsd[at + 60..at + 65], b"sum.o");
        assert_eq!(&bsd[at + 72..at + 79], b"OBJECT!");
        assert_eq!((at + 72) % 8, 0);
    }
}
