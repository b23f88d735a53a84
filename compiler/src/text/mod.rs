//! HLO text: the reader and the printer.
//!
//! Problem: programs arrive as the text that JAX and XLA print, with or without `%`, operand shapes, signatures,
//! layouts and metadata; and a user wants an error that points at the wrong word. Invariant: [`parse`] accepts or
//! refuses in time linear in the text, never panics, and what it accepts prints ([`print()`]) to a text that reads back
//! to the same module: print, parse, print is a fixed point.
//!
//! A shape that an instruction leaves out is the one that [`crate::shape::infer`] gives. A text may also be one instruction
//! alone, `m = f32[2] add(f32[2] a, f32[2] b)`: its operands are the module's parameters, in order of appearance.
//!
//! Algorithm: a scannerless recursive descent. What a run of characters means depends on where it stands (`b01f` is a
//! name or a list of dimension labels, `{` opens a layout or a body), so `cursor::Cursor` offers the lexical classes
//! and the caller asks for the one it expects. Attribute values are read by the kind that the table in `hlo` gives to
//! each name. Operands and computations must be defined before their use, as in every text that XLA prints, so that
//! names resolve in one pass and recursive calls cannot be written.
//!
//! What the parser checks: syntax, names, numbers of operands, which attributes stand where, sizes that overflow,
//! parameter numbers, and that the results of signatures and operand shapes agree with what they describe; the parameters
//! of a signature are read and dropped, as in XLA. Whether shapes follow from operands is the business of [`crate::shape`].
//!
//! Limits: [`MAX_NESTING`] levels of tuples, of inline computations and of instructions written as operands, of
//! brackets in text kept as read; [`MAX_RANK`] dimensions.
//!
//! An elided constant, `constant({...})`, has no value: it is kept as an instruction whose literal attribute is
//! [`AttrValue::Raw`](crate::hlo::AttrValue::Raw), so [`Instruction::literal`](crate::hlo::Instruction::literal) is
//! `None` and the module can be counted and printed but not run.

mod attributes;
#[cfg(test)]
mod by_hand;
pub(crate) mod cursor;
mod header;
mod kept;
mod literal;
mod number;
mod parser;
mod printer;
mod shapes;
mod summary;

#[cfg(test)]
mod tests;

pub use literal::literal_to_string;
pub(crate) use parser::check_entry_layout;
pub use printer::{PrintOptions, print, print_instruction};
pub use summary::{Summary, summary};

use crate::Result;
use crate::hlo::Module;
use brolga_runtime::{Literal, Shape};

/// How deep tuples, inline computations, nested instructions and brackets may nest.
pub const MAX_NESTING: usize = 128;

/// How many dimensions an array may have.
pub const MAX_RANK: usize = 128;

/// Reads a module. Shapes are not verified, see [`crate::shape`].
pub fn parse(source: &str) -> Result<Module> {
    parser::parse_module(source)
}

/// Reads a shape such as `(f32[2,3]{1,0}, s32[])`.
pub fn parse_shape(text: &str) -> Result<Shape> {
    let mut cursor = cursor::Cursor::new(text)?;
    let shape = shapes::shape(&mut cursor)?;
    cursor.expect_end()?;
    Ok(shape)
}

/// Reads a string in double quotes, escapes replaced.
pub fn parse_string(text: &str) -> Result<String> {
    let mut cursor = cursor::Cursor::new(text)?;
    let value = cursor.string("a quoted string")?;
    cursor.expect_end()?;
    Ok(value)
}

/// Reads the value of a literal of the given shape, written as in the argument of `constant`.
pub fn parse_literal(text: &str, shape: &Shape) -> Result<Literal> {
    let mut cursor = cursor::Cursor::new(text)?;
    let value = literal::literal(&mut cursor, shape)?;
    cursor.expect_end()?;
    Ok(value)
}
