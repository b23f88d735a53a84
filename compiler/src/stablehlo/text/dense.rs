//! The elements of constants: `dense<...>` and `dense_resource<...>`.
//!
//! The type stands behind the elements: it is read first, then the elements go straight into the bytes of the literal.
//! Storage grows with the text, never with what the type promises; one element that stands for all stays one.

use super::Reader;
use super::cursor::{shorten, to_i128};
use crate::stablehlo::ir::{Attribute, Dim, Element, Elements, TensorType, Type};
use crate::{Error, Result, decimal};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Kind, narrow};
use std::sync::Arc;

/// What the elements are stored as.
pub(in crate::stablehlo) fn storage_type(element: &Element) -> Option<ElementType> {
    match element {
        Element::Type(ty) => Some(*ty),
        Element::Index => Some(ElementType::S64),
        Element::Quantized(q) => Some(q.storage),
        Element::Tf32 | Element::Other(_) => None,
    }
}

impl<'a> Reader<'a> {
    /// `dense<...> : tensor<...>` and `dense_resource<...> : tensor<...>`
    pub(super) fn elements(&mut self) -> Result<Attribute> {
        let is_resource = self.c.word() == Some("dense_resource");
        self.c.expect("<")?;
        let inside = self.c.start();
        if self.c.peek() == Some(b'"') {
            self.c.quoted("a string")?;
        } else {
            self.c.long_run(|b| b != b'>' && b != b'"' && b.is_ascii());
        }
        let end = self.c.pos();
        self.c.expect(">")?;
        self.c.expect(":")?;
        let at = self.c.start();
        let Type::Tensor(ty) = self.ty()? else {
            return Err(self.c.error(at, "expected the type of a tensor".to_owned()));
        };
        let after = self.c.pos();
        let storage = storage_type(&ty.element);
        let storage = storage.ok_or_else(|| self.c.unsupported(at, format!("constants of {}", self.c.since(at))))?;
        let fixed = |d: &Dim| match d {
            Dim::Fixed(n) => Some(*n),
            _ => None,
        };
        let dims: Option<Vec<i64>> = ty.dims.iter().map(fixed).collect();
        let dims = dims.ok_or_else(|| self.c.error(at, "expected a constant of fixed sizes".to_owned()))?;
        let shape = ArrayShape::new(storage, dims);
        if !shape.is_addressable() {
            return Err(self.c.unsupported(at, format!("a constant of 2^63 bytes or more, {}", self.c.since(at))));
        }
        self.c.rewind(inside);
        let elements = if is_resource {
            let name = match self.c.peek() {
                Some(b'"') => self.c.quoted("the name of a resource")?,
                _ => self.c.run(|b| b != b'>' && b != b' '),
            };
            let Some(&blob) = self.resources.get(name) else {
                return Err(self.c.error(inside, format!("the resource '{}' is not defined", shorten(name))));
            };
            let bytes = self.hex(inside, blob)?;
            // The blob says its alignment first.
            let Some(bytes) = bytes.get(4..) else {
                return Err(self.c.error(inside, format!("the resource '{}' is cut", shorten(name))));
            };
            self.raw(inside, &ty, &shape, bytes)?
        } else if self.c.peek() == Some(b'"') {
            let text = self.c.quoted("hexadecimal digits")?;
            let bytes = self.hex(inside, text)?;
            self.raw(inside, &ty, &shape, &bytes)?
        } else {
            self.list_of_elements(&ty, &shape, end)?
        };
        self.c.rewind(end);
        self.c.expect(">")?;
        self.c.rewind(after);
        Ok(Attribute::Elements(elements))
    }

    /// The bytes of `0x...`.
    fn hex(&self, start: usize, text: &str) -> Result<Vec<u8>> {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).map(str::as_bytes);
        let wrong = || {
            let message = "expected '0x' and an even number of hexadecimal digits".to_owned();
            self.c.error_span(start, start + 1, message)
        };
        let digits = digits.filter(|d| d.len() % 2 == 0).ok_or_else(wrong)?;
        let mut out = Vec::with_capacity(digits.len() / 2);
        for pair in digits.chunks_exact(2) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            if (high | low) & 0x80 != 0 {
                return Err(wrong());
            }
            out.push(high << 4 | low);
        }
        Ok(out)
    }

    /// Elements as bytes: as many as the type has, or one for all.
    fn raw(&self, start: usize, ty: &TensorType, shape: &ArrayShape, bytes: &[u8]) -> Result<Elements> {
        from_raw(ty, shape, bytes).map_err(|message| self.c.error_span(start, start + 1, message))
    }

    fn list_of_elements(&mut self, ty: &TensorType, shape: &ArrayShape, end: usize) -> Result<Elements> {
        let start = self.c.start();
        let is_splat = self.c.peek() != Some(b'[');
        let text = self.c.source().as_bytes().get(start..end).unwrap_or_default();
        let count = if is_splat { 1 } else { shape.elements() };
        let mut scan = Scan { text, at: 0, ty: shape.ty, out: Vec::new() };
        // An element takes two bytes of text at the least, its comma included.
        scan.out.reserve(count.min(text.len()).saturating_mul(shape.ty.byte_size()));
        let is_empty = shape.elements() == 0;
        let read = if is_empty {
            scan.empty()
        } else if is_splat {
            scan.element()
        } else {
            scan.nested(&shape.dims)
        };
        let read = read.and_then(|()| scan.end());
        if let Err(wrong) = read {
            let at = (start + wrong.at).min(end);
            return Err(self.c.error_span(at, (at + wrong.length.max(1)).min(end), wrong.message));
        }
        let data_shape = if is_splat && !is_empty { ArrayShape::new(shape.ty, []) } else { shape.clone() };
        let data = ArrayLiteral::from_bytes(&data_shape, &scan.out)
            .ok_or_else(|| Error::Internal("a constant has the wrong number of elements".to_owned()))?;
        Ok(Elements { ty: ty.clone(), data: Arc::new(data), is_splat: is_splat && !is_empty })
    }
}

/// Elements as MLIR stores them: little endian, types under a byte in a byte each, `i1` in a bit or a byte each; as many as
/// the type has, or one for all.
fn from_raw(ty: &TensorType, shape: &ArrayShape, bytes: &[u8]) -> std::result::Result<Elements, String> {
    let storage = shape.ty;
    let count = shape.elements();
    let size = storage.byte_size();
    let made = |bytes: &[u8], is_splat: bool| {
        let data_shape = if is_splat { ArrayShape::new(storage, []) } else { shape.clone() };
        let mut data = ArrayLiteral::from_bytes(&data_shape, bytes)?;
        // The bits beyond the type's own say nothing.
        match (storage.kind(), storage.bits()) {
            (Kind::Signed, bits @ ..8) => {
                let shift = 8 - bits;
                data.bytes_mut().iter_mut().for_each(|b| *b = ((*b << shift) as i8 >> shift) as u8);
            }
            (Kind::Unsigned | Kind::Float, bits @ ..8) => {
                data.bytes_mut().iter_mut().for_each(|b| *b &= (1 << bits) - 1);
            }
            _ => {}
        }
        Some(Elements { ty: ty.clone(), data: Arc::new(data), is_splat })
    };
    let wrong = || format!("expected {} bytes for {count} elements, found {}", count.saturating_mul(size), bytes.len());
    if storage == ElementType::Pred {
        let elements = if bytes.len() == count {
            made(&bytes.iter().map(|&b| b & 1).collect::<Vec<u8>>(), false)
        } else if bytes == [0xff] || bytes == [0] || bytes == [1] && count > 8 {
            made(&[bytes[0] & 1], true)
        } else if bytes.len() == count.div_ceil(8) {
            let bit = |k: usize| bytes.get(k / 8).map_or(0, |b| b >> (k % 8) & 1);
            made(&(0..count).map(bit).collect::<Vec<u8>>(), false)
        } else {
            None
        };
        return elements.ok_or_else(wrong);
    }
    let is_splat = bytes.len() == size && count != 1;
    made(bytes, is_splat).ok_or_else(wrong)
}

/// Values of hexadecimal digits; 0x80 for what is none.
const NIBBLES: [u8; 256] = {
    let mut table = [0x80; 256];
    let mut k = 0;
    while k < 10 {
        table[b'0' as usize + k] = k as u8;
        k += 1;
    }
    k = 0;
    while k < 6 {
        table[b'a' as usize + k] = 10 + k as u8;
        table[b'A' as usize + k] = 10 + k as u8;
        k += 1;
    }
    table
};

/// What is wrong with the elements, and where.
struct Wrong {
    at: usize,
    length: usize,
    message: String,
}

/// Reads nested lists of elements.
struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    ty: ElementType,
    out: Vec<u8>,
}

type Step = std::result::Result<(), Wrong>;

impl<'t> Scan<'t> {
    fn blank(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn wrong<T>(&self, length: usize, message: String) -> std::result::Result<T, Wrong> {
        Err(Wrong { at: self.at, length, message })
    }

    fn expected<T>(&mut self, what: &str) -> std::result::Result<T, Wrong> {
        let found = match self.blank() {
            Some(b) => char::from(b).to_string(),
            None => ">".to_owned(),
        };
        self.wrong(1, format!("expected {what}, found '{}'", found.escape_debug()))
    }

    /// Nothing, or brackets without elements.
    fn empty(&mut self) -> Step {
        while matches!(self.blank(), Some(b'[' | b']' | b',')) {
            self.at += 1;
        }
        Ok(())
    }

    fn end(&mut self) -> Step {
        match self.blank() {
            None => Ok(()),
            Some(_) => self.expected("'>'"),
        }
    }

    /// As deep as the rank, which is limited.
    fn nested(&mut self, dims: &[i64]) -> Step {
        let Some((&size, inner)) = dims.split_first() else { return self.element() };
        if self.blank() != Some(b'[') {
            return self.expected("'['");
        }
        self.at += 1;
        for k in 0..size {
            if k > 0 {
                if self.blank() != Some(b',') {
                    return self.expected(&format!("{size} elements in this dimension of the constant, after {k} ','"));
                }
                self.at += 1;
            }
            if inner.is_empty() { self.element()? } else { self.nested(inner)? }
        }
        if self.blank() != Some(b']') {
            return self.expected(&format!("']' after {size} elements in this dimension of the constant"));
        }
        self.at += 1;
        Ok(())
    }

    fn element(&mut self) -> Step {
        match self.ty.kind() {
            Kind::Complex => {
                let part = self.ty.real_part();
                if self.blank() != Some(b'(') {
                    return self.expected("'(' and the real part");
                }
                self.at += 1;
                self.float(part)?;
                if self.blank() != Some(b',') {
                    return self.expected("',' and the imaginary part");
                }
                self.at += 1;
                self.float(part)?;
                if self.blank() != Some(b')') {
                    return self.expected("')'");
                }
                self.at += 1;
                Ok(())
            }
            Kind::Float => self.float(self.ty),
            Kind::Pred => {
                let value = match self.token() {
                    b"true" | b"1" | b"-1" => 1,
                    b"false" | b"0" => 0,
                    token => {
                        let length = token.len();
                        return self.wrong(length, "expected 'true' or 'false'".to_owned());
                    }
                };
                self.at += self.token().len();
                self.out.push(value);
                Ok(())
            }
            Kind::Signed | Kind::Unsigned => self.integer(),
        }
    }

    /// The run of characters that a number may consist of.
    fn token(&mut self) -> &'t [u8] {
        self.blank();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')));
        rest.get(..len.unwrap_or(rest.len())).unwrap_or_default()
    }

    fn integer(&mut self) -> Step {
        self.blank();
        let bits = self.ty.bits();
        if let Some((value, length)) = decimal::integer(self.text.get(self.at..).unwrap_or_default()) {
            let fits = match self.ty.is_signed_integer() {
                true => bits == 64 || (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
                false => value >= 0 && (bits == 64 || value >> bits == 0),
            };
            if fits {
                decimal::append(&mut self.out, value as u64, self.ty.byte_size());
                self.at += length;
                return Ok(());
            }
        }
        let token = self.token();
        let value = std::str::from_utf8(token).ok().filter(|t| !t.is_empty()).and_then(to_i128);
        // Signless integers are written as signed or, where hexadecimal, as their bits.
        let (min, max) = if self.ty.is_signed_integer() {
            (-(1i128 << (bits - 1)), (1i128 << bits) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        let is_hex = token.contains(&b'x');
        let max = if self.ty.is_signed_integer() && !is_hex { (1i128 << (bits - 1)) - 1 } else { max };
        match value {
            Some(value) if (min..=max).contains(&value) => {
                let value = if self.ty.is_signed_integer() {
                    let unused = 128 - bits;
                    value << unused >> unused
                } else {
                    value
                };
                self.out.extend_from_slice(&value.to_le_bytes()[..self.ty.byte_size()]);
                self.at += token.len();
                Ok(())
            }
            _ => {
                let found = String::from_utf8_lossy(token);
                let message = format!("expected an integer from {min} to {max}, found '{}'", shorten(&found));
                self.wrong(token.len(), message)
            }
        }
    }

    fn float(&mut self, ty: ElementType) -> Step {
        self.blank();
        let ahead = self.text.get(self.at..).unwrap_or_default();
        let short = match ty {
            ElementType::F32 => decimal::single(ahead).map(|(v, n)| (v.is_finite().then_some(v.to_bits().into()), n)),
            _ => decimal::real(ahead).map(|(v, n)| (encode(ty, v), n)),
        };
        if let Some((Some(bits), length)) = short {
            decimal::append(&mut self.out, bits, ty.byte_size());
            self.at += length;
            return Ok(());
        }
        let token = self.token();
        let text = std::str::from_utf8(token).unwrap_or_default();
        let starts_like_a_number = matches!(token.strip_prefix(b"-").unwrap_or(token).first(), Some(b'0'..=b'9'));
        let bits = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().filter(|b| ty.bits() == 64 || b >> ty.bits() == 0),
            None if starts_like_a_number => finite_bits(ty, text),
            None => None,
        };
        let Some(bits) = bits else {
            let message = format!("expected an {ty} number, found '{}'", shorten(text));
            return self.wrong(token.len(), message);
        };
        decimal::append(&mut self.out, bits, ty.byte_size());
        self.at += token.len();
        Ok(())
    }
}

/// The bits of a decimal number, where the type can hold it.
fn finite_bits(ty: ElementType, text: &str) -> Option<u64> {
    if ty == ElementType::F32 {
        let value: f32 = text.parse().ok()?;
        return value.is_finite().then_some(u64::from(value.to_bits()));
    }
    encode(ty, text.parse().ok()?)
}

/// The bits of a number, where the type can hold it.
fn encode(ty: ElementType, value: f64) -> Option<u64> {
    if !value.is_finite() {
        return None;
    }
    let bits = match ty {
        ElementType::F64 => value.to_bits(),
        ElementType::F16 => u64::from(narrow::encode_f16(value)),
        ElementType::BF16 => u64::from(narrow::encode_bf16(value)),
        _ => u64::from(narrow::encode(ty, value)),
    };
    let infinite = match ty {
        ElementType::F16 => bits & 0x7fff == 0x7c00,
        ElementType::BF16 => bits & 0x7fff == 0x7f80,
        ElementType::F64 => false,
        _ => !narrow::decode(ty, bits as u8).is_finite(),
    };
    (!infinite).then_some(bits)
}
