//! Shapes and layouts.

use super::MAX_RANK;
use super::cursor::Cursor;
use crate::Result;
use brolga_runtime::{ArrayShape, ElementType, Layout, PaddingValue, Shape};

/// Reads a shape.
pub(super) fn shape(c: &mut Cursor<'_>) -> Result<Shape> {
    shape_before(c, Before::Anything)
}

/// Reads a shape that a literal may follow.
pub(super) fn shape_of_literal(c: &mut Cursor<'_>) -> Result<Shape> {
    shape_before(c, Before::Literal)
}

/// What may come after a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Anything that opens with no brace and number: a brace belongs to the shape even after a blank, `f32[2] {0}`.
    Anything,
    /// A literal: only a brace right behind the shape is a layout, `s32[2] {1, 0}` has none.
    Literal,
}

fn shape_before(c: &mut Cursor<'_>, before: Before) -> Result<Shape> {
    let start = c.start();
    if c.eat("(") {
        c.enter("tuple shapes")?;
        let mut elements = Vec::new();
        if !c.eat(")") {
            loop {
                elements.push(shape_before(c, before)?);
                if !c.eat(",") {
                    break;
                }
            }
            c.expect(")")?;
        }
        c.leave();
        return Ok(Shape::tuple(elements));
    }
    let Some(word) = c.word() else { return Err(c.expected("a shape")) };
    match word {
        "token" | "opaque" => {
            c.expect("[")?;
            c.expect("]")?;
            Ok(if word == "token" { Shape::Token } else { Shape::Opaque })
        }
        "b" if c.byte() == Some(b'(') => {
            c.expect("(")?;
            let inner = array_shape(c, Before::Anything)?;
            c.expect(")")?;
            Ok(Shape::Buffer(inner))
        }
        _ => {
            c.rewind(start);
            array_shape(c, before).map(Shape::Array)
        }
    }
}

/// True where a shape comes next rather than a name: for operands, whose shapes may be left out.
pub(super) fn at_shape(c: &mut Cursor<'_>) -> bool {
    let start = c.start();
    let found = match c.peek() {
        Some(b'(') => true,
        _ => c.word().is_some_and(|word| match c.byte() {
            Some(b'(') => word == "b",
            _ => c.peek() == Some(b'['),
        }),
    };
    c.rewind(start);
    found
}

fn array_shape(c: &mut Cursor<'_>, before: Before) -> Result<ArrayShape> {
    let start = c.start();
    let Some(word) = c.word() else { return Err(c.expected("an element type")) };
    let Ok(ty) = word.parse::<ElementType>() else {
        if matches!(word, "f6e2m3fn" | "f6e3m2fn") {
            return Err(c.unsupported(start, &format!("the element type {word}")));
        }
        c.rewind(start);
        return Err(c.expected_name("an element type", ElementType::ALL.iter().map(|ty| ty.name())));
    };
    let mut out = ArrayShape::new(ty, []);
    c.expect("[")?;
    if !c.eat("]") {
        loop {
            let at = c.start();
            if c.eat("?") {
                return Err(c.unsupported(at, "unbounded dynamic dimensions"));
            }
            if out.dims.len() == MAX_RANK {
                return Err(c.expected(&format!("at most {MAX_RANK} dimensions")));
            }
            let dynamic = c.eat("<=");
            let at = c.start();
            let size = c.int("the size of a dimension")?;
            if size < 0 {
                return Err(c.error(at, format!("expected the size of a dimension, found '{size}'")));
            }
            out.dims.push(size);
            out.dynamic.push(dynamic);
            if !c.eat(",") {
                break;
            }
        }
        c.expect("]")?;
    }
    check_size(c, start, &out)?;
    if at_layout(c, before) {
        out.layout = layout(c, &out.dims)?;
        check_size(c, start, &out)?;
    }
    Ok(out)
}

fn check_size(c: &Cursor<'_>, start: usize, array: &ArrayShape) -> Result<()> {
    if array.is_addressable() {
        return Ok(());
    }
    Err(c.unsupported(start, &format!("an array of 2^63 bytes or more, '{}'", c.since(start))))
}

/// A brace that opens a layout: it holds numbers, properties or nothing, which tells it from the body of a computation,
/// `-> f32[] {`; where a literal may follow it stands right behind the shape, which tells it from `s32[2] {1, 2}`.
fn at_layout(c: &mut Cursor<'_>, before: Before) -> bool {
    let start = c.pos();
    let found = (before == Before::Anything || c.byte() == Some(b'{'))
        && c.eat("{")
        && c.peek().is_some_and(|b| b.is_ascii_digit() || matches!(b, b':' | b'}'));
    c.rewind(start);
    found
}

fn layout(c: &mut Cursor<'_>, dims: &[i64]) -> Result<Option<Layout>> {
    let rank = dims.len();
    let start = c.start();
    c.expect("{")?;
    let mut out = Layout::default();
    let mut seen = vec![false; rank];
    while c.peek().is_some_and(|b| b.is_ascii_digit() || b == b'-') {
        let at = c.start();
        let d = c.size("a dimension number")?;
        match seen.get_mut(d) {
            Some(s) if !*s => *s = true,
            _ => return Err(c.error(at, format!("expected each of the {rank} dimension numbers once, found '{d}'"))),
        }
        out.minor_to_major.push(d);
        if !c.eat(",") {
            break;
        }
        if c.peek() == Some(b'}') {
            return Err(c.expected("a dimension number"));
        }
    }
    if c.eat(":") {
        properties(c, &mut out, dims)?;
    }
    if c.peek() != Some(b'}') {
        return Err(c.expected("',' or '}' in a layout"));
    }
    c.expect("}")?;
    if out.minor_to_major.len() != rank {
        let found = out.minor_to_major.len();
        return Err(c.error(start, format!("expected a layout of {rank} dimensions, found {found}")));
    }
    Ok(Some(out).filter(|layout| *layout != Layout::default()))
}

/// The properties of a layout, in the order in which they are written: XLA's, then `W(4,5)`, the widths that dimensions are padded
/// to, by their numbers, and `V(zero)`, what the padding holds.
const PROPERTIES: [&str; 11] = ["D", "T", "L", "#", "*", "E", "S", "SC", "M", "W", "V"];

/// What follows the colon: letters and an argument in parentheses, again and again.
fn properties(c: &mut Cursor<'_>, out: &mut Layout, dims: &[i64]) -> Result<()> {
    let mut left = &PROPERTIES[..];
    loop {
        match c.peek() {
            Some(b'}') | None => return Ok(()),
            _ => {}
        }
        let start = c.start();
        let letters = c.run(|b| b.is_ascii_alphabetic() || b == b'#' || b == b'*').unwrap_or_default();
        let Some(place) = left.iter().position(|p| *p == letters) else {
            c.rewind(start);
            return Err(c.expected(&format!("'}}' or one of the properties {} of a layout", left.join(" "))));
        };
        left = left.get(place + 1..).unwrap_or_default();
        if c.peek() != Some(b'(') {
            return Err(c.expected("'('"));
        }
        match letters {
            "T" => {
                while c.peek() == Some(b'(') {
                    out.tiles.push(tile(c)?);
                }
            }
            "E" => out.element_size_in_bits = parenthesized(c)?,
            "S" => out.memory_space = parenthesized(c)?,
            "W" => out.padded_dimensions = widths(c, dims)?,
            "V" if out.padded_dimensions.is_empty() => {
                let message = "expected the widths W(...) before the padding value, found none".to_owned();
                return Err(c.error(start, message));
            }
            "V" => out.padding_value = padding_value(c)?,
            _ => {
                let start = c.start();
                c.enter("layouts")?;
                balanced(c)?;
                c.leave();
                let text = c.since(start);
                let inner = text.get(1..text.len() - 1).unwrap_or_default();
                out.other.push((letters.to_owned(), inner.to_owned()));
            }
        }
    }
}

fn parenthesized(c: &mut Cursor<'_>) -> Result<i64> {
    c.expect("(")?;
    let value = c.int("an integer")?;
    c.expect(")")?;
    Ok(value)
}

/// What each dimension is padded to.
fn widths(c: &mut Cursor<'_>, dims: &[i64]) -> Result<Vec<i64>> {
    let start = c.start();
    c.expect("(")?;
    let mut out = Vec::new();
    for (d, &size) in dims.iter().enumerate() {
        if d > 0 && !c.eat(",") {
            break;
        }
        let at = c.start();
        let width = c.int("the width of a dimension")?;
        if width < size {
            return Err(c.error(at, format!("expected a width of at least {size} of dimension {d}, found '{width}'")));
        }
        out.push(width);
    }
    if dims.is_empty() || out.len() < dims.len() || c.peek() == Some(b',') {
        let message = format!("expected a width for each of {} dimensions, found others", dims.len());
        return Err(c.error(start, message));
    }
    c.expect(")")?;
    Ok(out)
}

/// What the padding holds.
fn padding_value(c: &mut Cursor<'_>) -> Result<PaddingValue> {
    c.expect("(")?;
    let start = c.start();
    let stated = || PaddingValue::ALL.iter().filter(|v| **v != PaddingValue::Invalid);
    let word = c.word().unwrap_or_default();
    let Some(&value) = stated().find(|v| v.name() == word) else {
        c.rewind(start);
        let names = stated().map(|v| v.name()).collect::<Vec<_>>();
        return Err(c.expected_name(&format!("one of the padding values {}", names.join(" ")), names));
    };
    c.expect(")")?;
    Ok(value)
}

fn tile(c: &mut Cursor<'_>) -> Result<Vec<Option<i64>>> {
    c.expect("(")?;
    let mut out = Vec::new();
    if c.eat(")") {
        return Ok(out);
    }
    loop {
        out.push(if c.eat("*") { None } else { Some(c.int("the size of a tile")?) });
        if !c.eat(",") {
            break;
        }
    }
    c.expect(")")?;
    Ok(out)
}

/// One parenthesis with all that it holds.
fn balanced(c: &mut Cursor<'_>) -> Result<()> {
    let start = c.start();
    let mut depth = 0usize;
    loop {
        match c.byte() {
            Some(b'(') => depth += 1,
            Some(b')') => depth = depth.saturating_sub(1),
            Some(_) => {}
            None => {
                return Err(c.error_span(start, start + 1, "expected ')' for this bracket, found the end".to_owned()));
            }
        }
        c.advance();
        if depth == 0 {
            return Ok(());
        }
    }
}
