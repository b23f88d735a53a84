//! Literals: the argument of `constant`, and what a value prints as.
//!
//! Algorithm: the shape is known before the value, so the braces are read against its dimensions. Elements are
//! appended as they come: storage grows with the text, never with what the shape promises. The one exception is limited: as
//! in XLA's reader, a scalar may stand for an array; it is the first element, and the others are zero.

use super::cursor::Cursor;
use super::{number, shapes};
use crate::Result;
use brolga_runtime::{ArrayLiteral, ArrayShape, Layout, Literal, Shape, display};

/// What stands in place of a large constant that was left out.
pub(super) const ELIDED: &str = "{...}";

/// Bytes of the largest array that a scalar may stand for.
const MAX_FROM_SCALAR: usize = 1 << 26;

/// Reads the argument of `constant`.
pub(super) fn constant(c: &mut Cursor<'_>, shape: &Shape) -> Result<Literal> {
    value(c, shape, true)
}

/// Reads the value of a literal of the given shape.
pub(super) fn literal(c: &mut Cursor<'_>, shape: &Shape) -> Result<Literal> {
    value(c, shape, false)
}

/// Reads a value; `scalars` may stand for arrays.
fn value(c: &mut Cursor<'_>, shape: &Shape, scalars: bool) -> Result<Literal> {
    match shape {
        Shape::Array(array)
            if scalars && array.rank() > 0 && array.elements() > 0 && !matches!(c.peek(), Some(b'{' | b'(')) =>
        {
            let start = c.start();
            let mut bytes = Vec::new();
            number::element(c, array.ty, &mut bytes)?;
            let total = bytes.len().checked_mul(array.elements()).filter(|&n| n <= MAX_FROM_SCALAR);
            let Some(total) = total else { return Err(c.unsupported(start, "a scalar for an array this large")) };
            bytes.resize(total, 0);
            from_bytes(c, start, array, &bytes).map(Literal::Array)
        }
        Shape::Array(array) => self::array(c, array).map(Literal::Array),
        Shape::Tuple(elements) => {
            c.enter("tuple literals")?;
            c.expect("(")?;
            let mut out = Vec::with_capacity(elements.len());
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    c.expect(",")?;
                }
                shape_prefix(c, element)?;
                out.push(value(c, element, scalars)?);
            }
            c.expect(")")?;
            c.leave();
            Ok(Literal::Tuple(out))
        }
        Shape::Token => {
            c.eat("token[]");
            Ok(Literal::Token)
        }
        Shape::Opaque | Shape::Buffer(_) => {
            let start = c.start();
            Err(c.error(start, format!("expected the shape of an array or a tuple, found '{shape}'")))
        }
    }
}

/// Reads a literal that says its shape: `s32[2] {1, 2}`; of a tuple, each element does, `(f32[] 1, s32[2] {1, 2})`.
pub(super) fn with_shape(c: &mut Cursor<'_>) -> Result<Literal> {
    let start = c.start();
    if c.peek() == Some(b'(') {
        // The shape of the whole may come first, too.
        if let Some(shape) = c.attempt(shapes::shape_of_literal)
            && c.peek() == Some(b'(')
        {
            return literal(c, &shape);
        }
        c.rewind(start);
        c.enter("tuple literals")?;
        c.expect("(")?;
        let mut out = Vec::new();
        while !c.eat(")") {
            if !out.is_empty() {
                c.expect(",")?;
            }
            out.push(with_shape(c)?);
        }
        c.leave();
        return Ok(Literal::Tuple(out));
    }
    let shape = shapes::shape_of_literal(c)?;
    literal(c, &shape)
}

/// Elements of a tuple may repeat their shape, `(f32[] 1, s32[2] {1, 2})`.
fn shape_prefix(c: &mut Cursor<'_>, shape: &Shape) -> Result<()> {
    if matches!(shape, Shape::Token) || c.peek() == Some(b'(') || !shapes::at_shape(c) {
        return Ok(());
    }
    let start = c.start();
    let found = shapes::shape_of_literal(c)?;
    if found.same_ignoring_layout(shape) {
        return Ok(());
    }
    Err(c.error(start, format!("expected a literal of shape {shape:#}, found '{found:#}'")))
}

fn array(c: &mut Cursor<'_>, shape: &ArrayShape) -> Result<ArrayLiteral> {
    let start = c.start();
    // An array without elements may be written with all its braces or with one pair.
    let mut bytes = Vec::new();
    if !(shape.elements() == 0 && c.eat("{") && c.eat("}")) {
        c.rewind(start);
        dense(c, shape, 0, &mut bytes)?;
    }
    from_bytes(c, start, shape, &bytes)
}

fn from_bytes(c: &Cursor<'_>, start: usize, shape: &ArrayShape, bytes: &[u8]) -> Result<ArrayLiteral> {
    ArrayLiteral::from_bytes(shape, bytes)
        .ok_or_else(|| c.error(start, format!("expected {} elements", shape.elements())))
}

fn dense(c: &mut Cursor<'_>, shape: &ArrayShape, dimension: usize, out: &mut Vec<u8>) -> Result<()> {
    // As deep as the rank, which is limited.
    let Some(&size) = shape.dims.get(dimension) else { return number::element(c, shape.ty, out) };
    c.expect("{")?;
    for i in 0..size {
        if i > 0 && !c.eat(",") || c.peek() == Some(b'}') {
            return Err(c.expected(&format!("{size} elements in dimension {dimension} of the literal, after {i}")));
        }
        dense(c, shape, dimension + 1, out)?;
    }
    if c.eat("}") {
        return Ok(());
    }
    Err(c.expected(&format!("'}}' after {size} elements in dimension {dimension} of the literal")))
}

/// The text of a value as `constant` takes it: `{ {1, 2}, {3, 4} }` for arrays, `(1, {2, 3})` for tuples.
pub fn literal_to_string(literal: &Literal) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = display::write_values(&mut out, literal);
    out
}

/// As [`with_shape`] reads it. The layout is written out: XLA takes a brace behind a shape for one.
pub(super) fn print_with_shape(out: &mut String, literal: &Literal) {
    match literal {
        Literal::Tuple(elements) => {
            out.push('(');
            for (i, element) in elements.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                print_with_shape(out, element);
            }
            out.push(')');
        }
        leaf => {
            let mut shape = leaf.shape();
            if let Shape::Array(array) = &mut shape {
                array.layout = Some(Layout::row_major(array.rank()));
            }
            out.push_str(&format!("{shape} "));
            let _ = display::write_values(out, leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::text::{literal_to_string, parse};

    fn constant(shape: &str, value: &str) -> crate::Result<String> {
        let module = parse(&format!("HloModule m ENTRY e {{ ROOT c = {shape} constant({value}) }}"))?;
        let entry = module.entry();
        Ok(entry.instructions[entry.root].literal().map(|l| literal_to_string(l)).unwrap_or_default())
    }

    #[test]
    fn a_scalar_for_an_array_is_its_first_element() {
        for (shape, value, want) in [
            ("bf16[2,3]", "1", "{ {1, 0, 0}, {0, 0, 0} }"),
            ("s32[3]", "-7", "{-7, 0, 0}"),
            ("pred[2]", "true", "{1, 0}"),
            ("f32[1,1]", "nan", "{ {nan} }"),
            ("s4[3]", "3", "{3, 0, 0}"),
            ("f32[2,3]", "0.65", "{ {0.65, 0, 0}, {0, 0, 0} }"),
            ("(f32[2], s32[], (s32[2]))", "(0.5, 3, ({1, 2}))", "({0.5, 0}, 3, ({1, 2}))"),
        ] {
            assert_eq!(constant(shape, value).as_deref(), Ok(want), "{shape}");
        }
        for (shape, value) in [("f32[0,3]", "1"), ("c64[2]", "(1, 2)"), ("s32[3]", "{7}"), ("s32[2]", "1.5")] {
            assert!(matches!(constant(shape, value), Err(Error::Syntax { .. })), "{shape}");
        }
        let large = constant("f32[9999999,9999999]", "1");
        assert!(matches!(large, Err(Error::Unsupported { .. })), "{large:?}");
    }
}
