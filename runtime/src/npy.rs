//! NumPy's `.npy` files, for every element type of HLO.
//!
//! Problem: half of HLO's types have no NumPy type, so a file cannot say what it holds; the module does. Invariant: a
//! literal comes out exactly as [`ArrayLiteral`] stores it (row-major, narrow types checked to be in range) or not at
//! all; no header, however wrong, causes a panic or an allocation larger than the file.
//!
//! Storage: `pred` as `b1`; integers, `f16`, `f32`, `f64` and complex numbers as NumPy has them; integers under a byte
//! one per byte; `bf16` as its bits in `u2`; 8-bit floats and `f4e2m1fn` as their bits in `u1`. Also accepted are the
//! void types that the `ml_dtypes` package writes (`V1`, `V2`), big-endian data and Fortran order.

use crate::{ArrayLiteral, ArrayShape, ElementType, Kind, Layout};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The kind letter and size in bytes of the NumPy type that stores `ty`.
fn storage(ty: ElementType) -> (u8, usize) {
    let letter = match ty.kind() {
        Kind::Pred => b'b',
        Kind::Signed => b'i',
        Kind::Unsigned => b'u',
        Kind::Float if matches!(ty, ElementType::F16 | ElementType::F32 | ElementType::F64) => b'f',
        Kind::Float => b'u',
        Kind::Complex => b'c',
    };
    (letter, ty.byte_size())
}

/// What a header says.
struct Header {
    order: u8,
    letter: u8,
    size: usize,
    fortran: bool,
    dims: Vec<i64>,
}

/// The bytes of a file that holds `literal`.
pub fn write(literal: &ArrayLiteral) -> Vec<u8> {
    let (letter, size) = storage(literal.ty());
    let order = if size == 1 { '|' } else { '<' };
    let mut dims: String = literal.dims().iter().map(|d| format!("{d}, ")).collect();
    // Python writes a tuple of one as `(3,)` and others without the last comma.
    dims.truncate(dims.len().saturating_sub(if literal.dims().len() == 1 { 1 } else { 2 }));
    let mut header =
        format!("{{'descr': '{order}{}{size}', 'fortran_order': False, 'shape': ({dims}), }}", letter as char);
    let version2 = header.len() > 60_000;
    let prefix = MAGIC.len() + if version2 { 6 } else { 4 };
    // The data start at a multiple of 64, as NumPy does it.
    while !(prefix + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut out = MAGIC.to_vec();
    if version2 {
        out.extend([2, 0]);
        out.extend(u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
    } else {
        out.extend([1, 0]);
        out.extend(u16::try_from(header.len()).unwrap_or(u16::MAX).to_le_bytes());
    }
    out.extend(header.as_bytes());
    let start = out.len();
    out.extend(literal.bytes());
    if cfg!(target_endian = "big") {
        swap_bytes(&mut out[start..], component_size(literal.ty()));
    }
    out
}

/// The dimensions and element type in NumPy's spelling (such as `<f4`) that the file's header claims.
pub fn describe(bytes: &[u8]) -> Result<(Vec<i64>, String), String> {
    let (header, _) = split(bytes)?;
    Ok((header.dims, format!("{}{}{}", header.order as char, header.letter as char, header.size)))
}

/// Reads an array of type `ty` from the bytes of a file; its dimensions are the file's.
pub fn read(bytes: &[u8], ty: ElementType) -> Result<ArrayLiteral, String> {
    let (header, data) = split(bytes)?;
    let (letter, size) = storage(ty);
    let bits_only = letter == b'u' && ty.is_float();
    let fits = header.size == size && (header.letter == letter || (header.letter == b'V' && bits_only));
    if !fits {
        return Err(format!(
            "expected NumPy type '{}{size}', which stores {ty}, found '{}{}'",
            letter as char, header.letter as char, header.size
        ));
    }
    let mut shape = ArrayShape::new(ty, header.dims);
    let wanted = shape.checked_elements().and_then(|n| n.checked_mul(size)).ok_or("the dimensions overflow")?;
    if wanted != data.len() {
        return Err(format!("the dimensions need {wanted} bytes, but {} follow the header", data.len()));
    }
    let mut data = data.to_vec();
    let file_is_big = match header.order {
        b'>' => true,
        b'=' => cfg!(target_endian = "big"),
        _ => false,
    };
    if file_is_big != cfg!(target_endian = "big") {
        swap_bytes(&mut data, component_size(ty));
    }
    check_range(&mut data, ty)?;
    if header.fortran {
        shape.layout = Some(Layout { minor_to_major: (0..shape.rank()).collect(), ..Layout::default() });
    }
    ArrayLiteral::from_memory(&shape, &data).ok_or_else(|| "the dimensions do not fit the data".to_owned())
}

fn component_size(ty: ElementType) -> usize {
    ty.real_part().byte_size()
}

fn swap_bytes(data: &mut [u8], size: usize) {
    if size > 1 {
        data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// Types under a byte must hold values they can hold; any nonzero byte is `true`.
fn check_range(data: &mut [u8], ty: ElementType) -> Result<(), String> {
    if ty == ElementType::Pred {
        data.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    if ty.bits() >= 8 {
        return Ok(());
    }
    let bits = ty.bits();
    let (low, high) =
        if ty.is_signed_integer() { (-(1i16 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let value = |b: u8| if ty.is_signed_integer() { i16::from(b as i8) } else { i16::from(b) };
    match data.iter().copied().map(value).position(|v| v < low || v > high) {
        Some(i) => Err(format!("element {i} is {}, outside the range of {ty}", value(data[i]))),
        None => Ok(()),
    }
}

fn split(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a .npy file")?;
    let (&[major, _], rest) = rest.split_first_chunk::<2>().ok_or("the header is cut off")?;
    let (length, rest) = match major {
        1 => rest.split_first_chunk::<2>().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        other => return Err(format!("version {other} of the .npy format is unknown")),
    }
    .ok_or("the header is cut off")?;
    let (header, data) = rest.split_at_checked(length).ok_or("the header is cut off")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    Ok((Dictionary { rest: header }.header()?, data))
}

/// Reads the Python dictionary of a header.
struct Dictionary<'a> {
    rest: &'a str,
}

impl<'a> Dictionary<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut descr, mut fortran, mut dims) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" if self.peek() == Some('[') => return Err("structured arrays are not supported".to_owned()),
                "descr" => descr = Some(self.string()?),
                "fortran_order" => fortran = Some(self.truth()?),
                "shape" => dims = Some(self.dims()?),
                other => return Err(format!("the header has an unknown key '{other}'")),
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        let (Some(descr), Some(fortran), Some(dims)) = (descr, fortran, dims) else {
            return Err("the header lacks one of 'descr', 'fortran_order' and 'shape'".to_owned());
        };
        let bad = || format!("the NumPy type '{descr}' is not supported");
        let mut bytes = descr.bytes();
        let (order, letter) = (bytes.next().ok_or_else(bad)?, bytes.next().ok_or_else(bad)?);
        let size = descr.get(2..).and_then(|s| s.parse().ok()).ok_or_else(bad)?;
        if !b"<>|=".contains(&order) || !b"biufcV".contains(&letter) {
            return Err(bad());
        }
        Ok(Header { order, letter, size, fortran, dims })
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn accept(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.rest = &self.rest[c.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.accept(c) { Ok(()) } else { Err(format!("the header is malformed: expected '{c}'")) }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let quote =
            self.peek().filter(|c| matches!(c, '\'' | '"')).ok_or("the header is malformed: expected a string")?;
        let (text, rest) = self.rest[1..].split_once(quote).ok_or("the header is malformed: unclosed string")?;
        self.rest = rest;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool, String> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err("the header is malformed: 'fortran_order' is neither True nor False".to_owned())
    }

    fn dims(&mut self) -> Result<Vec<i64>, String> {
        let mut dims = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            self.peek();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            dims.push(digits.parse().map_err(|_| "the header is malformed: expected a dimension")?);
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend(u16::try_from(header.len()).expect("a short header").to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn every_type_round_trips() {
        for &ty in ElementType::ALL {
            for dims in [vec![], vec![3], vec![2, 3], vec![0, 4], vec![1, 2, 1, 2]] {
                let literal = ArrayLiteral::zeros(&ArrayShape::new(ty, dims.clone()));
                let bytes = write(&literal);
                assert_eq!((bytes.len() - literal.bytes().len()) % 64, 0, "{ty}{dims:?}");
                assert_eq!(read(&bytes, ty).as_ref(), Ok(&literal), "{ty}{dims:?}");
            }
        }
    }

    #[test]
    fn the_header_is_as_numpy_writes_it() {
        let bytes = write(&ArrayLiteral::from_elements(&[3], &[1.0f32, 2.0, 3.0]));
        let header = String::from_utf8_lossy(&bytes[10..128]);
        assert!(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } "), "{header}");
        assert_eq!(describe(&bytes), Ok((vec![3], "<f4".to_owned())));
        let bytes = write(&ArrayLiteral::scalar(7u8));
        assert!(
            String::from_utf8_lossy(&bytes[10..128])
                .starts_with("{'descr': '|u1', 'fortran_order': False, 'shape': (), }")
        );
    }

    #[test]
    fn fortran_order_is_reordered() {
        let bytes = file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", &[1, 4, 2, 5, 3, 6]);
        let got = read(&bytes, ElementType::U8).expect("a valid file");
        assert_eq!(got.bytes(), &[1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn big_endian_and_void_types_are_read() {
        let bytes = file("{\"descr\":\">i2\",\"fortran_order\":False,\"shape\":(2,)}", &[1, 2, 3, 4]);
        assert_eq!(read(&bytes, ElementType::S16).expect("a valid file").as_slice::<i16>(), &[0x102, 0x304]);
        let bytes = file("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", &[0x80, 0x3f]);
        assert_eq!(read(&bytes, ElementType::BF16).expect("a valid file").bytes(), &[0x80, 0x3f]);
        assert!(read(&bytes, ElementType::S16).is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }";
        assert!(read(&file(good, &[7, 0xf8]), ElementType::S4).is_ok());
        assert!(read(&file(good, &[8, 0]), ElementType::S4).expect_err("out of range").contains("outside the range"));
        assert!(read(&file(good, &[8]), ElementType::S8).expect_err("short").contains("2 bytes"));
        assert!(read(&file(good, &[8, 0]), ElementType::F32).expect_err("type").contains("expected NumPy type 'f4'"));
        let huge = "{'descr': '|i1', 'fortran_order': False, 'shape': (9223372036854775807, 9), }";
        assert!(read(&file(huge, &[8]), ElementType::S8).expect_err("overflow").contains("overflow"));
        for end in 0..good.len() {
            assert!(read(&file(&good[..end], &[8, 0]), ElementType::S8).is_err(), "{end}");
        }
        let whole = file(good, &[1, 2]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end], ElementType::S8).is_err(), "{end}");
        }
    }
}
