//! The dictionary of typed attributes, `{k = 1 : i64, s = "text", a = array<f32: 1, 2>}`, as MLIR prints it.
//!
//! Integers and floats without a type are 64 bits wide; a name alone stands for `true`. Arrays are `array<ty: ...>` and
//! `dense<...> : tensor<...>`. What is in none of these forms is refused with the position of the text.

use brolga_runtime::custom_call::Attribute;
use brolga_runtime::{ArrayLiteral, ElementType, Kind};

/// How deep dictionaries and lists may nest.
const MAX_DEPTH: usize = 64;
/// Elements that a dense array of one repeated value may have.
const MAX_SPLAT: usize = 1 << 20;

type Result<T> = std::result::Result<T, String>;

/// Reads a dictionary; the empty text is an empty one. Attributes come back sorted by name.
///
/// # Errors
/// What was expected, and where.
pub fn parse(text: &str) -> Result<Vec<(String, Attribute)>> {
    let mut reader = Reader { text, at: 0 };
    reader.blank();
    if reader.rest().is_empty() {
        return Ok(Vec::new());
    }
    let out = reader.dictionary(0)?;
    reader.blank();
    if reader.rest().is_empty() { Ok(out) } else { Err(reader.expected("the end")) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, text: &str) -> bool {
        self.blank();
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(&format!("'{text}'"))) }
    }

    fn expected(&self, what: &str) -> String {
        let found: String = self.rest().chars().take(20).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("'{found}'") };
        format!("expected {what} at offset {}, found {found}", self.at)
    }

    fn run(&mut self, class: impl Fn(char) -> bool) -> &'a str {
        self.blank();
        let rest = self.rest();
        let end = rest.find(|c| !class(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn word(&mut self) -> &'a str {
        self.run(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '.'))
    }

    /// Quoted text with MLIR's escapes: `\n`, `\t`, `\\`, `\"` and two hexadecimal digits.
    fn string(&mut self) -> Result<String> {
        self.expect("\"")?;
        let mut bytes = Vec::new();
        loop {
            let rest = self.rest().as_bytes();
            match rest {
                [b'"', ..] => {
                    self.at += 1;
                    return String::from_utf8(bytes).map_err(|_| self.expected("UTF-8 before here"));
                }
                [b'\\', c @ (b'n' | b't' | b'"' | b'\\' | b'\''), ..] => {
                    bytes.push(match c {
                        b'n' => b'\n',
                        b't' => b'\t',
                        other => *other,
                    });
                    self.at += 2;
                }
                [b'\\', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                    let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
                    bytes.push(16 * digit(*a) + digit(*b));
                    self.at += 3;
                }
                [b'\\', ..] => return Err(self.expected("an escape")),
                [c, ..] => {
                    bytes.push(*c);
                    self.at += 1;
                    // Continuation bytes come along with their first.
                    while let Some(&c) = self.text.as_bytes().get(self.at)
                        && (0x80..0xc0).contains(&c)
                    {
                        bytes.push(c);
                        self.at += 1;
                    }
                }
                [] => return Err(self.expected("a closing '\"'")),
            }
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Vec<(String, Attribute)>> {
        if depth > MAX_DEPTH {
            return Err(format!("expected dictionaries at most {MAX_DEPTH} deep"));
        }
        self.expect("{")?;
        let mut out: Vec<(String, Attribute)> = Vec::new();
        if !self.eat("}") {
            loop {
                self.blank();
                let name = if self.rest().starts_with('"') { self.string()? } else { self.word().to_owned() };
                if name.is_empty() {
                    return Err(self.expected("the name of an attribute"));
                }
                if out.iter().any(|(n, _)| *n == name) {
                    return Err(format!("expected each attribute once, found '{name}' again"));
                }
                let value = if self.eat("=") { self.value(depth)? } else { truth(true) };
                out.push((name, value));
                if !self.eat(",") {
                    break;
                }
            }
            self.expect("}")?;
        }
        out.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(out)
    }

    fn value(&mut self, depth: usize) -> Result<Attribute> {
        self.blank();
        let rest = self.rest();
        match rest.as_bytes().first() {
            Some(b'{') => Ok(Attribute::Dictionary(self.dictionary(depth + 1)?)),
            Some(b'"') => Ok(Attribute::String(self.string()?)),
            Some(b'@') => {
                self.at += 1;
                Ok(Attribute::String(self.word().to_owned()))
            }
            _ if self.eat("array<") => self.array(),
            _ if self.eat("dense<") => self.dense(),
            _ if rest.starts_with("true") || rest.starts_with("false") => Ok(truth(self.word() == "true")),
            _ if rest.starts_with("unit") => {
                self.at += 4;
                Ok(truth(true))
            }
            _ => {
                let number = self.number()?;
                let ty = match self.eat(":") {
                    true => self.element_type()?,
                    false if is_integer(number) => ElementType::S64,
                    false => ElementType::F64,
                };
                let value = self.convert(number, ty)?;
                Ok(Attribute::Scalar(value))
            }
        }
    }

    fn number(&mut self) -> Result<&'a str> {
        self.blank();
        let start = self.at;
        let word = self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if word.is_empty() {
            self.at = start;
            return Err(self.expected("the value of an attribute"));
        }
        Ok(word)
    }

    fn element_type(&mut self) -> Result<ElementType> {
        let start = self.at;
        let word = self.word();
        element_type(word).ok_or_else(|| {
            self.at = start;
            self.expected("a type such as i64 or f32")
        })
    }

    fn convert(&self, number: &str, ty: ElementType) -> Result<ArrayLiteral> {
        scalar(number, ty).ok_or_else(|| format!("expected a number of type {ty}, found '{number}'"))
    }

    /// The rest of `array<i64: 1, 2>`.
    fn array(&mut self) -> Result<Attribute> {
        let ty = self.element_type()?;
        let mut numbers = Vec::new();
        if self.eat(":") {
            loop {
                numbers.push(self.number()?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.expect(">")?;
        self.elements(ty, &numbers)
    }

    fn elements(&self, ty: ElementType, numbers: &[&str]) -> Result<Attribute> {
        let mut bytes = Vec::with_capacity(numbers.len() * ty.byte_size());
        for number in numbers {
            bytes.extend_from_slice(self.convert(number, ty)?.bytes());
        }
        Ok(Attribute::Array(ty, bytes))
    }

    /// The rest of `dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>`.
    fn dense(&mut self) -> Result<Attribute> {
        let (mut numbers, mut depth) = (Vec::new(), 0usize);
        loop {
            if self.eat("[") {
                depth += 1;
            } else if self.eat("]") {
                depth = depth.checked_sub(1).ok_or_else(|| self.expected("'>'"))?;
            } else if self.eat(">") {
                break;
            } else if !self.eat(",") {
                numbers.push(self.number()?);
            }
        }
        if depth > 0 {
            return Err(self.expected("']' before '>'"));
        }
        self.expect(":")?;
        self.expect("tensor<")?;
        let shape = self.word();
        self.expect(">")?;
        let mut parts: Vec<&str> = shape.split('x').collect();
        let ty = parts.pop().and_then(element_type).ok_or_else(|| self.expected("the type of a tensor before here"))?;
        let mut count = 1usize;
        for part in parts {
            let size: usize = part.parse().map_err(|_| format!("expected the size of a dimension, found '{part}'"))?;
            count = count.checked_mul(size).filter(|&n| n <= MAX_SPLAT).ok_or("expected a smaller tensor")?;
        }
        if numbers.len() == 1 && count != 1 {
            numbers = vec![numbers[0]; count];
        }
        if numbers.len() != count {
            return Err(format!("expected {count} elements, found {}", numbers.len()));
        }
        self.elements(ty, &numbers)
    }
}

fn truth(value: bool) -> Attribute {
    Attribute::Scalar(literal(ElementType::Pred, &[u8::from(value)]))
}

fn literal(ty: ElementType, bytes: &[u8]) -> ArrayLiteral {
    let mut out = ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(ty, []));
    out.bytes_mut().copy_from_slice(bytes);
    out
}

fn is_integer(number: &str) -> bool {
    let digits = number.trim_start_matches('-');
    digits.starts_with("0x") || digits.bytes().all(|b| b.is_ascii_digit())
}

/// MLIR's names: `i1` is a truth value, integers without a sign are signed.
fn element_type(word: &str) -> Option<ElementType> {
    match word {
        "i1" => Some(ElementType::Pred),
        "index" => Some(ElementType::S64),
        "f8E5M2" | "f8E4M3" | "f8E3M4" | "f8E4M3FN" | "f8E4M3FNUZ" | "f8E5M2FNUZ" | "f8E4M3B11FNUZ" | "f8E8M0FNU"
        | "f4E2M1FN" => word.to_lowercase().parse().ok(),
        "f16" | "bf16" | "f32" | "f64" => word.parse().ok(),
        _ => {
            let (letter, digits) = word
                .strip_prefix("ui")
                .map(|d| ("u", d))
                .or_else(|| word.strip_prefix("si").or_else(|| word.strip_prefix('i')).map(|d| ("s", d)))?;
            format!("{letter}{digits}").parse().ok()
        }
    }
}

/// One number; hexadecimal digits are the bits, of a float too.
fn scalar(number: &str, ty: ElementType) -> Option<ArrayLiteral> {
    let size = ty.byte_size();
    if let Some(digits) = number.strip_prefix("0x") {
        let bits = u128::from_str_radix(digits, 16).ok()?;
        if bits.checked_shr(ty.bits()).unwrap_or(0) != 0 {
            return None;
        }
        return Some(literal(ty, &bits.to_le_bytes()[..size]));
    }
    match ty.kind() {
        Kind::Pred => match number {
            "true" | "1" | "-1" => Some(literal(ty, &[1])),
            "false" | "0" => Some(literal(ty, &[0])),
            _ => None,
        },
        Kind::Signed | Kind::Unsigned => {
            let value: i128 = number.parse().ok()?;
            let bits = ty.bits();
            // An integer without a sign may be written either way.
            let (low, high) = (-(1i128 << (bits - 1)), (1i128 << bits) - 1);
            let low = if ty.is_unsigned_integer() { 0 } else { low };
            (low..=high).contains(&value).then(|| literal(ty, &value.to_le_bytes()[..size]))
        }
        Kind::Float => {
            let shape = brolga_runtime::Shape::scalar(ty);
            match crate::text::parse_literal(number, &shape).ok()? {
                brolga_runtime::Literal::Array(array) => Some(array),
                _ => None,
            }
        }
        Kind::Complex => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_what_jax_writes() {
        let text = r#"{b = 3 : i32, a = true, s = "x\22y", f = 1.5 : f32, n = -7, u = 255 : ui8, flag, d = 2.5,
            v = array<i64: 1, 2>, e = array<f32>, t = dense<[[1, 2], [3, 4]]> : tensor<2x2xi16>,
            z = dense<42> : tensor<3xi32>, inner = {k = 0x7F800000 : f32}}"#;
        let out = parse(text).unwrap();
        let names: Vec<&str> = out.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["a", "b", "d", "e", "f", "flag", "inner", "n", "s", "t", "u", "v", "z"]);
        let get = |name: &str| out.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap();
        assert_eq!(get("a"), truth(true));
        assert_eq!(get("b"), Attribute::Scalar(ArrayLiteral::scalar(3i32)));
        assert_eq!(get("n"), Attribute::Scalar(ArrayLiteral::scalar(-7i64)));
        assert_eq!(get("d"), Attribute::Scalar(ArrayLiteral::scalar(2.5f64)));
        assert_eq!(get("s"), Attribute::String("x\"y".into()));
        assert_eq!(get("e"), Attribute::Array(ElementType::F32, Vec::new()));
        assert_eq!(get("t"), Attribute::Array(ElementType::S16, vec![1, 0, 2, 0, 3, 0, 4, 0]));
        assert_eq!(get("z"), Attribute::Array(ElementType::S32, [42, 0, 0, 0].repeat(3)));
        let inner = vec![("k".to_owned(), Attribute::Scalar(ArrayLiteral::scalar(f32::INFINITY)))];
        assert_eq!(get("inner"), Attribute::Dictionary(inner));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in
            ["{", "{a", "{a = }", "{a = 1 : q3}", "{a = 300 : ui8}", "{a = #x<1>}", "{a = 1, a = 2}", "x", "{} x"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        let deep = "{a = ".repeat(100_000);
        assert!(parse(&deep).is_err());
        assert!(parse("").unwrap().is_empty());
    }
}
