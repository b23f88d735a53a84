//! The container: sections, and the tables in them.

use super::malformed;
use super::reader::Reader;
use crate::Result;
use crate::error::{Error, Site};

/// Newest version of the container that is read; MLIR has changed nothing since that portable artifacts use.
const NEWEST: u64 = 6;

mod id {
    pub const STRING: u8 = 0;
    pub const DIALECT: u8 = 1;
    pub const ATTR_TYPE: u8 = 2;
    pub const ATTR_TYPE_OFFSET: u8 = 3;
    pub const IR: u8 = 4;
    pub const RESOURCE: u8 = 5;
    pub const RESOURCE_OFFSET: u8 = 6;
    pub const PROPERTIES: u8 = 8;
}

pub(super) use id::IR;

/// Where an attribute or a type stands.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    pub dialect: usize,
    /// Whether the dialect's own encoding is used, rather than text.
    pub is_encoded: bool,
    pub data: Reader<'a>,
}

/// An operation's name.
#[derive(Clone, Copy)]
pub(super) struct OpName<'a> {
    pub dialect: &'a str,
    pub name: &'a str,
}

/// A value that is kept outside of the attributes.
#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    pub key: &'a [u8],
    /// Its bytes, where it is no flag and no text.
    pub blob: Option<&'a [u8]>,
}

/// The tables of a file.
pub(super) struct Container<'a> {
    pub version: u64,
    pub strings: Vec<&'a [u8]>,
    pub dialects: Vec<&'a str>,
    pub op_names: Vec<OpName<'a>>,
    pub attributes: Vec<Entry<'a>>,
    pub types: Vec<Entry<'a>>,
    /// Blobs and other values of dialects, kept outside of the attributes.
    pub resources: Vec<Resource<'a>>,
    pub properties: Vec<Reader<'a>>,
    pub ir: Reader<'a>,
}

impl<'a> Container<'a> {
    pub(super) fn read(file: &'a [u8]) -> Result<Container<'a>> {
        let mut r = Reader::new(file);
        if r.bytes(4)? != b"ML\xefR" {
            return Err(malformed("expected the signature of MLIR bytecode"));
        }
        let version = r.varint()?;
        if version > NEWEST {
            let feature = format!("version {version} of MLIR bytecode, newer than {NEWEST}");
            return Err(Error::Unsupported { site: Site::default(), feature });
        }
        // Who wrote it, such as `StableHLO_v1.0.0`: operations say their versions themselves.
        r.until_zero()?;
        let mut sections: [Option<Reader<'a>>; 9] = Default::default();
        while !r.is_empty() {
            let (id, content) = r.section()?;
            match sections.get_mut(usize::from(id)) {
                Some(place @ None) => *place = Some(content),
                Some(Some(_)) => return Err(malformed(format!("expected section {id} once, found a second"))),
                None => return Err(malformed(format!("expected the number of a section, found {id}"))),
            }
        }
        let mut take = |id: u8, name: &str| {
            let found = sections.get_mut(usize::from(id)).and_then(Option::take);
            found.ok_or_else(|| malformed(format!("expected a section of {name}, found none")))
        };
        let strings = strings(take(id::STRING, "strings")?)?;
        let (dialects, op_names) = dialects(take(id::DIALECT, "dialects")?, &strings, version)?;
        let (data, offsets) =
            (take(id::ATTR_TYPE, "attributes")?, take(id::ATTR_TYPE_OFFSET, "offsets of attributes")?);
        let (attributes, types) = entries(data, offsets, dialects.len())?;
        let ir = take(id::IR, "operations")?;
        let properties = take(id::PROPERTIES, "properties").ok().map(properties).transpose()?.unwrap_or_default();
        let resources = match (take(id::RESOURCE, "resources"), take(id::RESOURCE_OFFSET, "offsets of resources")) {
            (Ok(data), Ok(offsets)) => resources(data, offsets, &strings)?,
            _ => Vec::new(),
        };
        Ok(Container { version, strings, dialects, op_names, attributes, types, resources, properties, ir })
    }

    pub(super) fn string(&self, index: usize) -> Result<&'a [u8]> {
        let count = self.strings.len();
        let found = self.strings.get(index).copied();
        found.ok_or_else(|| malformed(format!("expected the number of one of {count} strings, found {index}")))
    }
}

/// Lengths from the last string to the first, then all of them, each ending in a zero.
fn strings<'a>(mut r: Reader<'a>) -> Result<Vec<&'a [u8]>> {
    let count = r.count("strings")?;
    let mut lengths = (0..count).map(|_| r.index()).collect::<Result<Vec<_>>>()?;
    lengths.reverse();
    let total = lengths.iter().try_fold(0usize, |n, &l| n.checked_add(l)).filter(|&n| n == r.remaining());
    if total.is_none() {
        return Err(malformed(format!("expected strings of {} bytes altogether, found others", r.remaining())));
    }
    lengths.into_iter().map(|length| Ok(r.bytes(length)?.split_last().map_or(&[][..], |(_, text)| text))).collect()
}

fn text<'a>(strings: &[&'a [u8]], index: usize) -> Result<&'a str> {
    let found = strings.get(index).and_then(|s| std::str::from_utf8(s).ok());
    found.ok_or_else(|| malformed(format!("expected the number of a name, found {index}")))
}

/// Names of dialects, and names of operations by dialect.
fn dialects<'a>(mut r: Reader<'a>, strings: &[&'a [u8]], version: u64) -> Result<(Vec<&'a str>, Vec<OpName<'a>>)> {
    let count = r.count("dialects")?;
    let mut dialects = Vec::with_capacity(count);
    for _ in 0..count {
        let (name, is_versioned) = if version >= 1 { r.flagged()? } else { (r.varint()?, false) };
        dialects.push(text(strings, usize::try_from(name).unwrap_or(usize::MAX))?);
        if is_versioned {
            r.section()?;
        }
    }
    if version >= 4 && !r.is_empty() {
        r.varint()?;
    }
    let mut names = Vec::new();
    while !r.is_empty() {
        let number = r.index()?;
        let Some(&dialect) = dialects.get(number) else {
            return Err(malformed(format!("expected the number of one of {count} dialects, found {number}")));
        };
        for _ in 0..r.count("names of operations")? {
            let name = if version >= 5 { r.flagged()?.0 } else { r.varint()? };
            let name = text(strings, usize::try_from(name).unwrap_or(usize::MAX))?;
            names.push(OpName { dialect, name });
        }
    }
    Ok((dialects, names))
}

/// Attributes, then types: groups of one dialect, with the length of each entry.
fn entries<'a>(mut data: Reader<'a>, mut r: Reader<'a>, dialects: usize) -> Result<(Vec<Entry<'a>>, Vec<Entry<'a>>)> {
    let (attributes, types) = (r.count("attributes")?, r.count("types")?);
    let mut read = |wanted: usize| {
        let mut out = Vec::with_capacity(wanted);
        while out.len() < wanted {
            let dialect = r.index()?;
            let count = r.count("entries")?;
            if dialect >= dialects || count == 0 || count > wanted - out.len() {
                return Err(malformed(format!("expected a group of the {dialects} dialects' entries, found {count}")));
            }
            for _ in 0..count {
                let (length, is_encoded) = r.flagged()?;
                let data = data.part(usize::try_from(length).unwrap_or(usize::MAX))?;
                out.push(Entry { dialect, is_encoded, data });
            }
        }
        Ok(out)
    };
    Ok((read(attributes)?, read(types)?))
}

fn properties<'a>(mut r: Reader<'a>) -> Result<Vec<Reader<'a>>> {
    let count = r.count("properties")?;
    let mut out = Vec::with_capacity(count);
    for _ in 0..count {
        let length = r.count("bytes")?;
        out.push(r.part(length)?);
    }
    Ok(out)
}

/// Groups of resources, each with key, length and kind: those of other owners, which nothing refers to, then those of dialects,
/// which attributes name by their number. Blobs are aligned in the data.
fn resources<'a>(mut data: Reader<'a>, mut r: Reader<'a>, strings: &[&'a [u8]]) -> Result<Vec<Resource<'a>>> {
    const BLOB: u8 = 0;
    let mut others = r.varint()?;
    let mut out = Vec::new();
    while !r.is_empty() {
        let is_dialect = others == 0;
        others = others.saturating_sub(1);
        r.varint()?;
        for _ in 0..r.count("resources")? {
            let key = r.index()?;
            let key = strings.get(key).copied().ok_or_else(|| malformed("expected the number of a resource's key"))?;
            let length = r.index()?;
            let kind = r.byte()?;
            let mut content = data.part(length)?;
            let mut blob = None;
            if kind == BLOB {
                let (alignment, length) = (content.varint()?, content.varint()?);
                if !alignment.is_power_of_two() {
                    return Err(malformed(format!("expected the alignment of a resource, found {alignment}")));
                }
                while !(content.position() as u64).is_multiple_of(alignment) {
                    content.byte()?;
                }
                blob = Some(content.bytes(usize::try_from(length).unwrap_or(usize::MAX))?);
            }
            if is_dialect {
                out.push(Resource { key, blob });
            }
        }
    }
    Ok(out)
}
