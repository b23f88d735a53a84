//! The encoding of numbers and bytes.

use super::malformed;
use crate::Result;

/// What fills the space before an aligned section.
const PADDING: u8 = 0xcb;

/// A position in the file, and the end of the part being read.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    file: &'a [u8],
    pos: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a [u8]) -> Reader<'a> {
        Reader { file, pos: 0, end: file.len() }
    }

    pub(super) fn remaining(&self) -> usize {
        self.end.saturating_sub(self.pos)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The place, for errors.
    pub(super) fn position(&self) -> usize {
        self.pos
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.bytes(1).map(|b| b.first().copied().unwrap_or_default())
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.remaining() {
            let (pos, left) = (self.pos, self.remaining());
            return Err(malformed(format!("expected {count} bytes at offset {pos}, found {left}")));
        }
        let out = self.file.get(self.pos..self.pos + count).unwrap_or_default();
        self.pos += count;
        Ok(out)
    }

    /// The bytes up to a zero, which is taken too.
    pub(super) fn until_zero(&mut self) -> Result<&'a [u8]> {
        let rest = self.file.get(self.pos..self.end).unwrap_or_default();
        let Some(length) = rest.iter().position(|&b| b == 0) else {
            return Err(malformed(format!("expected a text that ends in a zero byte at offset {}", self.pos)));
        };
        self.pos += length + 1;
        Ok(rest.get(..length).unwrap_or_default())
    }

    /// A number whose first byte tells in its low zero bits how many bytes follow.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let first = self.byte()?;
        if first & 1 == 1 {
            return Ok(u64::from(first >> 1));
        }
        let extra = first.trailing_zeros().min(8) as usize;
        let mut bytes = [0u8; 8];
        if extra == 8 {
            bytes.copy_from_slice(self.bytes(8)?);
            return Ok(u64::from_le_bytes(bytes));
        }
        if let Some((low, high)) = bytes.split_first_mut() {
            *low = first;
            for (to, from) in high.iter_mut().zip(self.bytes(extra)?) {
                *to = *from;
            }
        }
        Ok(u64::from_le_bytes(bytes) >> (extra + 1))
    }

    /// A number with its sign in the lowest bit.
    pub(super) fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number with a flag in the lowest bit.
    pub(super) fn flagged(&mut self) -> Result<(u64, bool)> {
        let value = self.varint()?;
        Ok((value >> 1, value & 1 == 1))
    }

    /// An index.
    pub(super) fn index(&mut self) -> Result<usize> {
        let value = self.varint()?;
        usize::try_from(value).map_err(|_| malformed(format!("expected an index, found {value}")))
    }

    /// The number of things that follow, each of at least one byte.
    pub(super) fn count(&mut self, what: &str) -> Result<usize> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(malformed(format!("expected at most {} {what}, found {value}", self.remaining()))),
        }
    }

    /// `count` and so many signed numbers.
    pub(super) fn signed_list(&mut self) -> Result<Vec<i64>> {
        let count = self.count("numbers")?;
        (0..count).map(|_| self.signed()).collect()
    }

    /// `length` and so many bytes.
    pub(super) fn blob(&mut self) -> Result<&'a [u8]> {
        let length = self.count("bytes")?;
        self.bytes(length)
    }

    /// An integer of `bits` bits: a byte where that is enough, a signed number otherwise.
    pub(super) fn integer(&mut self, bits: u32) -> Result<i64> {
        if bits <= 8 { Ok(i64::from(self.byte()?)) } else { self.signed() }
    }

    /// A part of `length` bytes, read on its own.
    pub(super) fn part(&mut self, length: usize) -> Result<Reader<'a>> {
        let start = self.pos;
        self.bytes(length)?;
        Ok(Reader { file: self.file, pos: start, end: start + length })
    }

    /// The next section: its number and its content.
    pub(super) fn section(&mut self) -> Result<(u8, Reader<'a>)> {
        let head = self.byte()?;
        let length = self.varint()?;
        if head & 0x80 != 0 {
            let alignment = self.varint()?;
            if !alignment.is_power_of_two() || alignment > 1 << 20 {
                return Err(malformed(format!("expected the alignment of a section, found {alignment}")));
            }
            while !(self.pos as u64).is_multiple_of(alignment) {
                if self.byte()? != PADDING {
                    return Err(malformed(format!("expected padding at offset {}", self.pos - 1)));
                }
            }
        }
        let length = usize::try_from(length).ok().filter(|&n| n <= self.remaining());
        let Some(length) = length else {
            return Err(malformed(format!("expected a section within the file at offset {}", self.pos)));
        };
        Ok((head & 0x7f, self.part(length)?))
    }
}
