//! What the function of a custom call is told, and how that is written into the words of the call.
//!
//! The attributes of the call are the number of bytes of the description and those bytes, eight to a word, little-endian:
//! lengths and numbers take eight bytes, texts are a length and UTF-8.

use crate::abi::{CustomCallAbi, array_leaves};
use crate::{ArrayLiteral, ArrayShape, ElementType, Layout, Shape};

/// How deep shapes and attributes may nest.
const MAX_DEPTH: usize = 128;

/// A typed attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A number or truth value.
    Scalar(ArrayLiteral),
    /// Elements, one behind the other.
    Array(ElementType, Vec<u8>),
    /// Text.
    String(String),
    /// Attributes by name, sorted.
    Dictionary(Vec<(String, Attribute)>),
}

/// A result that has the buffer of an operand; numbers count the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Which array of the result.
    pub result: usize,
    /// Which array of the operands.
    pub operand: usize,
}

/// A custom call as its function sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The calling convention.
    pub abi: CustomCallAbi,
    /// The name of the function.
    pub target: String,
    /// Line of the instruction in the HLO text, 0 where unknown.
    pub line: u32,
    /// The text for the function, of calls that are not typed.
    pub opaque: Vec<u8>,
    /// The attributes of a typed call, sorted by name.
    pub attributes: Vec<(String, Attribute)>,
    /// Shapes of the operands; layouts say how their data lies.
    pub operands: Vec<Shape>,
    /// Shape of the result.
    pub result: Shape,
    /// Results that have operands' buffers.
    pub aliases: Vec<Alias>,
}

impl Description {
    /// The arrays of the operands, depth first.
    pub fn operand_arrays(&self) -> Vec<&ArrayShape> {
        self.operands.iter().flat_map(array_leaves).collect()
    }

    /// The arrays of the result, depth first.
    pub fn result_arrays(&self) -> Vec<&ArrayShape> {
        array_leaves(&self.result)
    }

    /// The words that stand for it.
    pub fn encode(&self) -> Vec<i64> {
        let mut w = Writer(Vec::new());
        w.number(self.abi as u64);
        w.bytes(self.target.as_bytes());
        w.number(u64::from(self.line));
        w.bytes(&self.opaque);
        w.attributes(&self.attributes);
        w.number(self.operands.len() as u64);
        self.operands.iter().for_each(|s| w.shape(s));
        w.shape(&self.result);
        w.number(self.aliases.len() as u64);
        for alias in &self.aliases {
            w.number(alias.result as u64);
            w.number(alias.operand as u64);
        }
        let length = w.0.len();
        w.0.resize(length.next_multiple_of(8), 0);
        let (words, _) = w.0.as_chunks::<8>();
        std::iter::once(length as i64).chain(words.iter().map(|c| i64::from_le_bytes(*c))).collect()
    }

    /// Reads the words; `None` where they are not what [`Description::encode`] writes.
    pub fn decode(words: &[i64]) -> Option<Description> {
        let (&length, words) = words.split_first()?;
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut r = Reader { rest: bytes.get(..usize::try_from(length).ok()?)? };
        let abi = CustomCallAbi::from_code(u32::try_from(r.number()?).ok()?)?;
        let target = r.text()?;
        let line = u32::try_from(r.number()?).ok()?;
        let opaque = r.bytes()?.to_vec();
        let attributes = r.attributes(0)?;
        let operands = r.list(|r| r.shape(0))?;
        let result = r.shape(0)?;
        let aliases = r.list(|r| Some(Alias { result: r.size()?, operand: r.size()? }))?;
        r.rest.is_empty().then_some(Description { abi, target, line, opaque, attributes, operands, result, aliases })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn array(&mut self, array: &ArrayShape) {
        self.number(u64::from(array.ty.code()));
        self.number(array.rank() as u64);
        array.dims.iter().for_each(|&d| self.number(d as u64));
        let order = array.layout.as_ref().map(|l| l.minor_to_major.as_slice()).unwrap_or_default();
        self.number(order.len() as u64);
        order.iter().for_each(|&d| self.number(d as u64));
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Array(array) | Shape::Buffer(array) => {
                self.number(0);
                self.array(array);
            }
            Shape::Tuple(elements) => {
                self.number(1);
                self.number(elements.len() as u64);
                elements.iter().for_each(|e| self.shape(e));
            }
            Shape::Token => self.number(2),
            Shape::Opaque => self.number(3),
        }
    }

    fn attributes(&mut self, attributes: &[(String, Attribute)]) {
        self.number(attributes.len() as u64);
        for (name, value) in attributes {
            self.bytes(name.as_bytes());
            match value {
                Attribute::Scalar(value) => {
                    self.number(0);
                    self.number(u64::from(value.ty().code()));
                    self.bytes(value.bytes());
                }
                Attribute::Array(ty, elements) => {
                    self.number(1);
                    self.number(u64::from(ty.code()));
                    self.bytes(elements);
                }
                Attribute::String(text) => {
                    self.number(2);
                    self.bytes(text.as_bytes());
                }
                Attribute::Dictionary(inner) => {
                    self.number(3);
                    self.attributes(inner);
                }
            }
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.size()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn ty(&mut self) -> Option<ElementType> {
        ElementType::from_code(u8::try_from(self.number()?).ok()?)
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // No capacity in advance: the number may be anything.
        (0..self.number()?).map(|_| read(self)).collect()
    }

    fn array(&mut self) -> Option<ArrayShape> {
        let ty = self.ty()?;
        let dims = self.list(|r| i64::try_from(r.number()?).ok())?;
        let order = self.list(Reader::size)?;
        let mut shape = ArrayShape::new(ty, dims);
        if !order.is_empty() {
            shape.layout = Some(Layout { minor_to_major: order, ..Layout::default() });
            shape.has_valid_layout().then_some(())?;
        }
        shape.checked_elements()?.checked_mul(ty.byte_size())?;
        Some(shape)
    }

    fn shape(&mut self, depth: usize) -> Option<Shape> {
        Some(match self.number()? {
            0 => Shape::Array(self.array()?),
            1 if depth < MAX_DEPTH => Shape::tuple(self.list(|r| r.shape(depth + 1))?),
            2 => Shape::Token,
            3 => Shape::Opaque,
            _ => return None,
        })
    }

    fn attributes(&mut self, depth: usize) -> Option<Vec<(String, Attribute)>> {
        self.list(|r| {
            let name = r.text()?;
            let value = match r.number()? {
                0 => Attribute::Scalar(ArrayLiteral::from_bytes(&ArrayShape::new(r.ty()?, []), r.bytes()?)?),
                1 => {
                    let (ty, elements) = (r.ty()?, r.bytes()?);
                    if elements.len() % ty.byte_size() != 0 {
                        return None;
                    }
                    Attribute::Array(ty, elements.to_vec())
                }
                2 => Attribute::String(r.text()?),
                3 if depth < MAX_DEPTH => Attribute::Dictionary(r.attributes(depth + 1)?),
                _ => return None,
            };
            Some((name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(crate) fn example() -> Description {
        let mut matrix = ArrayShape::new(ElementType::F64, [2, 3]);
        matrix.layout = Some(Layout { minor_to_major: vec![0, 1], ..Layout::default() });
        let inner = vec![("s".to_owned(), Attribute::String("é".into()))];
        Description {
            abi: CustomCallAbi::TypedFfi,
            target: "solve".into(),
            line: 7,
            opaque: vec![1, 2, 3],
            attributes: vec![
                ("a".into(), Attribute::Scalar(ArrayLiteral::scalar(2.5f32))),
                ("b".into(), Attribute::Array(ElementType::S16, vec![1, 0, 2, 0])),
                ("c".into(), Attribute::Dictionary(inner)),
            ],
            operands: vec![Shape::Array(matrix), Shape::Token],
            result: Shape::tuple(vec![Shape::array(ElementType::F64, [2, 3]), Shape::tuple(vec![])]),
            aliases: vec![Alias { result: 0, operand: 0 }],
        }
    }

    #[test]
    fn words_say_everything() {
        let d = example();
        let words = d.encode();
        assert_eq!(Description::decode(&words), Some(d));
    }

    #[test]
    fn damaged_words_are_refused_and_never_panic() {
        let words = example().encode();
        for end in 0..words.len() {
            assert_eq!(Description::decode(&words[..end]), None);
        }
        for at in 0..words.len() {
            for value in [-1, 0, 1, i64::MAX, words[at] ^ 0x100] {
                let mut damaged = words.clone();
                damaged[at] = value;
                let _ = Description::decode(&damaged);
            }
        }
    }
}
