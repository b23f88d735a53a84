//! Attribute values, read by the kind that the table gives to each name.

use super::cursor::{Cursor, shorten};
use super::parser::{Parser, Scope};
use super::{kept, literal, number, shapes};
use crate::Result;
use crate::hlo::{AttrKey, AttrKind, AttrValue, ConvolutionDims, PaddingDimension, SliceRange, WindowDimension};
use std::sync::Arc;

impl<'a> Parser<'a> {
    /// Reads the value of `key`.
    pub(super) fn attribute_value(&mut self, scope: &Scope<'a>, key: AttrKey) -> Result<AttrValue> {
        let c = &mut self.cursor;
        Ok(match key.kind() {
            AttrKind::Int => AttrValue::Int(c.int("an integer")?),
            AttrKind::Bool => AttrValue::Bool(c.boolean()?),
            AttrKind::Float => AttrValue::Float(number::real(c)? as f32),
            AttrKind::Ints => AttrValue::Ints(braced(c, |c| c.int("an integer"))?),
            AttrKind::Str => AttrValue::Str(c.string("a quoted string")?),
            AttrKind::Word(words) => AttrValue::Word(word(c, words)?),
            AttrKind::Words(words) => AttrValue::Words(braced(c, |c| word_of_any_case(c, words))?),
            AttrKind::Computation => AttrValue::Computation(self.computation_reference()?),
            AttrKind::Computations => AttrValue::Computations(self.list(|p| p.computation_reference())?),
            AttrKind::Instructions => AttrValue::Instructions(self.list(|p| p.instruction_reference(scope))?),
            AttrKind::Window => AttrValue::Window(window(c)?),
            AttrKind::DimLabels => AttrValue::DimLabels(Box::new(dim_labels(c)?)),
            AttrKind::Padding => AttrValue::Padding(padding(c)?),
            AttrKind::SliceRanges => AttrValue::SliceRanges(braced(c, slice_range)?),
            AttrKind::Shape => AttrValue::Shape(shapes::shape(c)?),
            AttrKind::Shapes => AttrValue::Shapes(braced(c, shapes::shape)?),
            AttrKind::Raw => AttrValue::Raw(kept::value(c, key)?.to_owned()),
            AttrKind::Literal => AttrValue::Literal(Arc::new(literal::with_shape(c)?)),
        })
    }

    /// `{a, b}` of things that the parser's tables know.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.cursor.expect("{")?;
        let mut out = Vec::new();
        if self.cursor.eat("}") {
            return Ok(out);
        }
        loop {
            out.push(read(self)?);
            if !self.cursor.eat(",") {
                break;
            }
        }
        if self.cursor.eat("}") { Ok(out) } else { Err(self.cursor.expected("',' or '}'")) }
    }
}

/// `{a, b}`.
fn braced<'a, T>(c: &mut Cursor<'a>, mut read: impl FnMut(&mut Cursor<'a>) -> Result<T>) -> Result<Vec<T>> {
    c.expect("{")?;
    let mut out = Vec::new();
    if c.eat("}") {
        return Ok(out);
    }
    loop {
        out.push(read(c)?);
        if !c.eat(",") {
            break;
        }
    }
    if c.eat("}") { Ok(out) } else { Err(c.expected("',' or '}'")) }
}

fn word(c: &mut Cursor<'_>, words: &[&'static str]) -> Result<&'static str> {
    let start = c.start();
    let found = c.word().unwrap_or_default();
    if let Some(word) = words.iter().find(|w| **w == found) {
        return Ok(word);
    }
    c.rewind(start);
    Err(c.expected(&format!("one of {}", words.join(", "))))
}

/// As [`word`], whatever the case of its letters: XLA reads precisions so.
fn word_of_any_case(c: &mut Cursor<'_>, words: &[&'static str]) -> Result<&'static str> {
    let start = c.start();
    let found = c.word().unwrap_or_default();
    if let Some(word) = words.iter().find(|w| w.eq_ignore_ascii_case(found)) {
        return Ok(word);
    }
    c.rewind(start);
    word(c, words)
}

/// `[0:2]` or `[1:7:2]`.
fn slice_range(c: &mut Cursor<'_>) -> Result<SliceRange> {
    c.expect("[")?;
    let start = c.int("the start of a slice")?;
    c.expect(":")?;
    let limit = c.int("the limit of a slice")?;
    let stride = if c.eat(":") { c.int("the stride of a slice")? } else { 1 };
    c.expect("]")?;
    Ok(SliceRange { start, limit, stride })
}

/// Values separated by `x`, without blanks between them.
fn by_x<'a, T>(c: &mut Cursor<'a>, mut read: impl FnMut(&mut Cursor<'a>) -> Result<T>) -> Result<Vec<T>> {
    let mut out = vec![read(c)?];
    while c.byte() == Some(b'x') && c.eat("x") {
        out.push(read(c)?);
    }
    Ok(out)
}

/// `low_high`, with `_interior` where the caller wants one.
fn amounts(c: &mut Cursor<'_>, interior: bool) -> Result<PaddingDimension> {
    let low = c.int("the low padding")?;
    c.expect("_")?;
    let high = c.int("the high padding")?;
    let interior = if interior && c.byte() == Some(b'_') && c.eat("_") { c.int("the interior padding")? } else { 0 };
    Ok(PaddingDimension { low, high, interior })
}

fn padding(c: &mut Cursor<'_>) -> Result<Vec<PaddingDimension>> {
    // The padding of a scalar prints as nothing at all.
    if matches!(c.byte(), None | Some(b',' | b'\n' | b'\r')) {
        return Ok(Vec::new());
    }
    by_x(c, |c| amounts(c, true))
}

fn window(c: &mut Cursor<'_>) -> Result<Vec<WindowDimension>> {
    let mut out: Option<Vec<WindowDimension>> = None;
    let mut seen = Vec::new();
    c.expect("{")?;
    while !c.eat("}") {
        let start = c.start();
        let Some(field) = c.word() else { return Err(c.expected("a field of a window")) };
        if seen.contains(&field) {
            return Err(c.error(start, format!("expected each field of a window once, found '{field}' again")));
        }
        seen.push(field);
        c.expect("=")?;
        let at = c.start();
        let set: fn(&mut WindowDimension, (i64, i64)) = match field {
            "size" => |w, v| w.size = v.0,
            "stride" => |w, v| w.stride = v.0,
            "pad" => |w, v| (w.padding_low, w.padding_high) = v,
            "lhs_dilate" => |w, v| w.base_dilation = v.0,
            "rhs_dilate" => |w, v| w.window_dilation = v.0,
            "rhs_reversal" => |w, v| w.reversal = v.0 == 1,
            _ => {
                c.rewind(start);
                return Err(c.expected("a field of a window: size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal"));
            }
        };
        let values = match field {
            "pad" => by_x(c, |c| amounts(c, false).map(|p| (p.low, p.high)))?,
            "rhs_reversal" => by_x(c, |c| {
                let start = c.start();
                match c.int("0 or 1")? {
                    v @ (0 | 1) => Ok((v, 0)),
                    v => Err(c.error(start, format!("expected 0 or 1, found '{v}'"))),
                }
            })?,
            _ => by_x(c, |c| Ok((c.int("an integer")?, 0)))?,
        };
        let dims = out.get_or_insert_with(|| vec![WindowDimension::default(); values.len()]);
        if dims.len() != values.len() {
            let message = format!("expected {} dimensions as in the other fields, found {}", dims.len(), values.len());
            return Err(c.error(at, message));
        }
        for (dim, value) in dims.iter_mut().zip(values) {
            set(dim, value);
        }
    }
    Ok(out.unwrap_or_default())
}

/// `b01f_01io->b01f`. A dimension marked `?` plays no part: its number stands in none of the fields.
fn dim_labels(c: &mut Cursor<'_>) -> Result<ConvolutionDims> {
    let start = c.start();
    let text = c.run(|b| b.is_ascii_alphanumeric() || matches!(b, b'?' | b'_' | b'-' | b'>')).unwrap_or_default();
    let dims = text.split_once("->").and_then(|(operands, output)| {
        let (input, kernel) = operands.split_once('_')?;
        let (input_batch, input_feature, input_spatial) = labels(input, 'b', 'f')?;
        let (kernel_input_feature, kernel_output_feature, kernel_spatial) = labels(kernel, 'i', 'o')?;
        let (output_batch, output_feature, output_spatial) = labels(output, 'b', 'f')?;
        let same = input_spatial.len() == kernel_spatial.len() && kernel_spatial.len() == output_spatial.len();
        same.then_some(ConvolutionDims {
            input_batch,
            input_feature,
            input_spatial,
            kernel_input_feature,
            kernel_output_feature,
            kernel_spatial,
            output_batch,
            output_feature,
            output_spatial,
        })
    });
    dims.ok_or_else(|| {
        let what = "dimension labels such as b01f_01io->b01f";
        if text.is_empty() {
            c.expected(what)
        } else {
            c.error(start, format!("expected {what}, found '{}'", shorten(text)))
        }
    })
}

/// Positions of the two letters and of the digits 0, 1, ... in `text`, each exactly once.
fn labels(text: &str, first: char, second: char) -> Option<(usize, usize, Vec<usize>)> {
    let find = |label: char| {
        let mut places = text.char_indices().filter(|(_, l)| *l == label).map(|(i, _)| i);
        places.next().filter(|_| places.next().is_none())
    };
    let spatial = text.chars().filter(char::is_ascii_digit).count();
    let unknown = text.chars().filter(|c| *c == '?').count();
    let digits = (0..spatial).map(|n| find(char::from_digit(n as u32, 10)?)).collect::<Option<Vec<_>>>()?;
    (text.len() == spatial + unknown + 2).then_some((find(first)?, find(second)?, digits))
}
