//! What `jax.export(...).serialize()` writes: a flatbuffer around a portable artifact.
//!
//! Only what the program needs is read: the function's name, the platforms and the artifact. Trees, shapes and shardings of
//! arguments repeat what the artifact's `main` says of those that it kept.
//!
//! A table begins with the distance back to its layout, which holds for each field the distance from the table to its value;
//! strings and vectors are one more distance away, after their length. Each step is checked against the file.

use super::{bytecode, ir};
use crate::error::{Error, Result, Site};

/// Places of the fields in the layout of `Exported`, in bytes.
mod field {
    pub const FUNCTION_NAME: usize = 6;
    pub const PLATFORMS: usize = 22;
    pub const MODULE: usize = 30;
    pub const CALLING_CONVENTION: usize = 32;
}

/// The oldest calling convention that is read: from here on dimensions are no arguments.
const OLDEST_CONVENTION: u16 = 9;

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported<'a> {
    /// The name of the Python function.
    pub function: String,
    /// What it was exported for, such as `cpu`.
    pub platforms: Vec<String>,
    /// The artifact.
    pub module: &'a [u8],
}

/// Reads the flatbuffer.
///
/// # Errors
/// `Syntax` for bytes that are no such file, `Unsupported` for a calling convention of before 2023.
pub fn open(file: &[u8]) -> Result<Exported<'_>> {
    let table = Table::root(file)?;
    let convention = table.u16(field::CALLING_CONVENTION)?;
    if convention != 0 && convention < OLDEST_CONVENTION {
        let feature = format!("calling convention {convention} of jax.export, older than {OLDEST_CONVENTION}");
        return Err(Error::Unsupported { site: Site::default(), feature });
    }
    let function = table.text(field::FUNCTION_NAME)?.unwrap_or_default();
    let platforms = table.texts(field::PLATFORMS)?;
    let Some(module) = table.vector(field::MODULE, 1)? else {
        return Err(malformed("expected the field mlir_module_serialized, found none"));
    };
    Ok(Exported { function, platforms, module })
}

/// Reads the program that is exported. A program for several platforms takes the number of the platform first.
///
/// # Errors
/// As [`open`] and [`bytecode::read`].
pub fn read(file: &[u8]) -> Result<ir::Program> {
    let exported = open(file)?;
    let mut program = bytecode::read(exported.module)?;
    if program.name.is_none() && !exported.function.is_empty() {
        program.name = Some(exported.function);
    }
    Ok(program)
}

fn malformed(message: impl Into<String>) -> Error {
    Error::Syntax { site: Site::default(), message: format!("file of jax.export: {}", message.into()) }
}

/// A table of the file.
#[derive(Clone, Copy)]
struct Table<'a> {
    file: &'a [u8],
    at: usize,
    /// Where its layout stands, and how long that is.
    layout: (usize, usize),
}

fn bytes<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N]> {
    let found = at.checked_add(N).and_then(|end| file.get(at..end)).and_then(|b| b.first_chunk::<N>());
    found.copied().ok_or_else(|| malformed(format!("expected {N} bytes at offset {at}, found the end")))
}

/// The place that the distance at `at` leads to.
fn follow(file: &[u8], at: usize) -> Result<usize> {
    let distance = u32::from_le_bytes(bytes(file, at)?) as usize;
    let place = at.checked_add(distance).filter(|&place| distance > 0 && place < file.len());
    place.ok_or_else(|| malformed(format!("expected a distance within the file at offset {at}, found {distance}")))
}

impl<'a> Table<'a> {
    fn root(file: &'a [u8]) -> Result<Table<'a>> {
        let at = follow(file, 0)?;
        let back = i64::from(i32::from_le_bytes(bytes(file, at)?));
        let start = usize::try_from(at as i64 - back).ok();
        let start = start.ok_or_else(|| malformed(format!("expected the layout of the table at offset {at}")))?;
        let length = usize::from(u16::from_le_bytes(bytes(file, start)?));
        Ok(Table { file, at, layout: (start, length) })
    }

    /// Where the value of a field stands; `None` where the table leaves it out.
    fn field(&self, place: usize) -> Result<Option<usize>> {
        let (start, length) = self.layout;
        if place + 2 > length {
            return Ok(None);
        }
        let distance = usize::from(u16::from_le_bytes(bytes(self.file, start + place)?));
        Ok((distance > 0).then_some(self.at + distance))
    }

    fn u16(&self, place: usize) -> Result<u16> {
        match self.field(place)? {
            Some(at) => Ok(u16::from_le_bytes(bytes(self.file, at)?)),
            None => Ok(0),
        }
    }

    /// The bytes of a vector of elements of `size` bytes.
    fn vector(&self, place: usize, size: usize) -> Result<Option<&'a [u8]>> {
        match self.field(place)? {
            Some(at) => Ok(Some(self.content(follow(self.file, at)?, size)?.1)),
            None => Ok(None),
        }
    }

    /// A vector's elements: where they begin, and their bytes.
    fn content(&self, at: usize, size: usize) -> Result<(usize, &'a [u8])> {
        let count = u32::from_le_bytes(bytes(self.file, at)?) as usize;
        let start = at + 4;
        let end = count.checked_mul(size).and_then(|n| start.checked_add(n));
        let found = end.and_then(|end| self.file.get(start..end));
        let found = found.ok_or_else(|| malformed(format!("expected a vector within the file at offset {at}")))?;
        Ok((start, found))
    }

    fn text(&self, place: usize) -> Result<Option<String>> {
        Ok(self.vector(place, 1)?.map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    fn texts(&self, place: usize) -> Result<Vec<String>> {
        let Some(at) = self.field(place)? else { return Ok(Vec::new()) };
        let (start, elements) = self.content(follow(self.file, at)?, 4)?;
        let each = (0..elements.len() / 4).map(|k| {
            let (_, text) = self.content(follow(self.file, start + 4 * k)?, 1)?;
            Ok(String::from_utf8_lossy(text).into_owned())
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flatbuffer with a name, two platforms and a module of `module`.
    fn file(module: &[u8]) -> Vec<u8> {
        // The layout of the table: its length, the table's length, and where each field stands.
        let mut layout = [0u16; 16];
        (layout[0], layout[1]) = (32, 16);
        for (place, distance) in [(field::FUNCTION_NAME, 4), (field::PLATFORMS, 8), (field::MODULE, 12)] {
            layout[place / 2] = distance;
        }
        let mut out = 36u32.to_le_bytes().to_vec();
        out.extend(layout.iter().flat_map(|n| n.to_le_bytes()));
        let text = |text: &[u8]| [&(text.len() as u32).to_le_bytes()[..], text].concat();
        let (name, cpu, tpu) = (text(b"f"), text(b"cpu"), text(b"tpu"));
        // Distances lead forward alone: the list stands before its strings.
        let at_list = 52;
        let at_name = at_list + 12;
        let at_cpu = at_name + name.len();
        let at_tpu = at_cpu + cpu.len();
        let at_module = at_tpu + tpu.len();
        let distance = |from: usize, to: usize| ((to - from) as u32).to_le_bytes();
        out.extend(32i32.to_le_bytes());
        out.extend(distance(40, at_name));
        out.extend(distance(44, at_list));
        out.extend(distance(48, at_module));
        out.extend(2u32.to_le_bytes());
        out.extend(distance(at_list + 4, at_cpu));
        out.extend(distance(at_list + 8, at_tpu));
        out.extend([name, cpu, tpu].concat());
        out.extend(text(module));
        out
    }

    #[test]
    fn fields_are_found() {
        let bytes = file(b"ML\xefR");
        let exported = open(&bytes).expect("a well-formed file");
        let platforms = vec!["cpu".to_owned(), "tpu".to_owned()];
        assert_eq!(exported, Exported { function: "f".to_owned(), platforms, module: b"ML\xefR" });
    }

    #[test]
    fn every_cut_and_every_wild_distance_is_an_error_or_a_value() {
        let bytes = file(b"ML\xefR");
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "{length}");
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut wild = bytes.clone();
                wild[place] = value;
                let _ = open(&wild);
            }
        }
    }
}
