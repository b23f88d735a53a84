//! Values as text: the form that HLO text gives them.
//!
//! Problem: what a person or a file is shown must read back to the same bits. Invariant: an element prints with as many digits as
//! that takes, NaNs with their sign and payload, and with no more. The reader is the compiler's, `text/number.rs`.

use crate::narrow::{self, ieee_mantissa, nan_bits, sign_bit};
use crate::{ArrayLiteral, ElementType, Kind, Literal};
use std::fmt::{self, Display, Formatter, LowerExp, Write};

/// `f32[2] {1, 2}`: the shape, then the elements, all of them.
///
/// ```
/// use brolga_runtime::ArrayLiteral;
/// assert_eq!(ArrayLiteral::from_elements(&[2, 1], &[1f32, 0.5]).to_string(), "f32[2,1] { {1}, {0.5} }");
/// assert_eq!(ArrayLiteral::scalar(-3i32).to_string(), "s32[] -3");
/// ```
impl Display for ArrayLiteral {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:#} ", self.shape())?;
        write_array(f, self)
    }
}

/// Of a tuple, each element with its shape: `(f32[] 1, s32[2] {1, 2})`.
impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Array(array) => array.fmt(f),
            Literal::Token => f.write_str("token[]"),
            Literal::Tuple(elements) => write_tuple(f, elements, |f, element| element.fmt(f)),
        }
    }
}

/// Writes a value without its shape, as `constant` of HLO text takes it: `{ {1, 2}, {3, 4} }` for arrays, `(1, {2, 3})` for
/// tuples.
///
/// # Errors
/// Those of `out`.
pub fn write_values(out: &mut impl Write, literal: &Literal) -> fmt::Result {
    match literal {
        Literal::Array(array) => write_array(out, array),
        Literal::Token => out.write_str("token[]"),
        Literal::Tuple(elements) => write_tuple(out, elements, write_values),
    }
}

fn write_tuple<W: Write>(
    out: &mut W,
    elements: &[Literal],
    mut element: impl FnMut(&mut W, &Literal) -> fmt::Result,
) -> fmt::Result {
    out.write_char('(')?;
    for (i, value) in elements.iter().enumerate() {
        out.write_str(if i > 0 { ", " } else { "" })?;
        element(out, value)?;
    }
    out.write_char(')')
}

fn write_array(out: &mut impl Write, array: &ArrayLiteral) -> fmt::Result {
    if array.elements() == 0 { write_empty(out, array.dims()) } else { write_dimension(out, array, 0, array.bytes()) }
}

/// Writes an array without elements: all its braces, as XLA asks for, unless they are too many.
fn write_empty(out: &mut impl Write, dims: &[i64]) -> fmt::Result {
    let outer = dims.iter().take_while(|&&d| d != 0);
    match (dims.split_first(), outer.map(|&d| d as f64).product::<f64>() < 4096.0) {
        (Some((&size, rest)), true) => {
            out.write_char('{')?;
            for i in 0..size {
                out.write_str(if i > 0 { ", " } else { "" })?;
                write_empty(out, rest)?;
            }
            out.write_char('}')
        }
        _ => out.write_str("{}"),
    }
}

/// Writes the part of an array that `bytes` holds; not empty.
fn write_dimension(out: &mut impl Write, array: &ArrayLiteral, dimension: usize, bytes: &[u8]) -> fmt::Result {
    let Some(&size) = array.dims().get(dimension) else {
        return match (array.ty(), array.dims()) {
            (ElementType::Pred, []) => out.write_str(if bytes == [0] { "false" } else { "true" }),
            (ty, _) => write_element(out, ty, bytes),
        };
    };
    let part = bytes.len() / usize::try_from(size).unwrap_or(1).max(1);
    let blank = if dimension + 1 < array.dims().len() { " " } else { "" };
    out.write_char('{')?;
    out.write_str(blank)?;
    for (i, element) in bytes.chunks_exact(part.max(1)).enumerate() {
        out.write_str(if i > 0 { ", " } else { "" })?;
        write_dimension(out, array, dimension + 1, element)?;
    }
    out.write_str(blank)?;
    out.write_char('}')
}

/// Writes the element whose storage form is `bytes`.
///
/// # Errors
/// Those of `out`.
pub fn write_element(out: &mut impl Write, ty: ElementType, bytes: &[u8]) -> fmt::Result {
    let mut wide = [0u8; 16];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let raw = u128::from_le_bytes(wide);
    match ty.kind() {
        Kind::Pred => write!(out, "{}", raw & 1),
        Kind::Unsigned => write!(out, "{raw}"),
        Kind::Signed => {
            let unused = 128 - 8 * ty.byte_size() as u32;
            write!(out, "{}", ((raw << unused) as i128) >> unused)
        }
        Kind::Float => write_float(out, ty, raw as u64),
        Kind::Complex => {
            let part = ty.real_part();
            let half = part.bits();
            out.write_char('(')?;
            write_float(out, part, (raw & ((1 << half) - 1)) as u64)?;
            out.write_str(", ")?;
            write_float(out, part, (raw >> half) as u64)?;
            out.write_char(')')
        }
    }
}

fn write_float(out: &mut impl Write, ty: ElementType, bits: u64) -> fmt::Result {
    let value = match ty {
        ElementType::F64 => f64::from_bits(bits),
        ElementType::F32 => f64::from(f32::from_bits(bits as u32)),
        ElementType::F16 => half::f16::from_bits(bits as u16).to_f64(),
        ElementType::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
        _ => narrow::decode(ty, bits as u8),
    };
    if value.is_nan() {
        let negative =
            nan_bits(ty, true, None) == Some(bits) || ieee_mantissa(ty).is_some() && bits & sign_bit(ty, true) != 0;
        out.write_str(if negative && nan_bits(ty, false, None) != Some(bits) { "-nan" } else { "nan" })?;
        match ieee_mantissa(ty) {
            Some(mantissa) if bits & ((1 << mantissa) - 1) != 1 << (mantissa - 1) => {
                write!(out, "(0x{:x})", bits & ((1 << mantissa) - 1))
            }
            _ => Ok(()),
        }
    } else if ty == ElementType::F64 {
        write_number(out, value)
    } else {
        // The shortest decimal of the `f32` is no longer than needed and every narrower float is an `f32`.
        write_number(out, value as f32)
    }
}

/// Writes a number that is not NaN so that it reads back to the same bits.
///
/// # Errors
/// Those of `out`.
pub fn write_number<T: Display + LowerExp + Copy + Into<f64>>(out: &mut impl Write, value: T) -> fmt::Result {
    let magnitude: f64 = value.into().abs();
    let plain = magnitude == 0.0 || magnitude.is_infinite() || (1e-5..1e16).contains(&magnitude);
    if plain { write!(out, "{value}") } else { write!(out, "{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayShape;

    #[test]
    fn values_show_their_shapes() {
        let pair = Literal::Array(ArrayLiteral::from_elements(&[2], &[1i8, -2]));
        let tuple = Literal::Tuple(vec![Literal::scalar(0.1f64), Literal::Tuple(vec![pair]), Literal::Token]);
        assert_eq!(tuple.to_string(), "(f64[] 0.1, (s8[2] {1, -2}), token[])");
        let empty = ArrayLiteral::zeros(&ArrayShape::new(ElementType::BF16, [2, 0]));
        assert_eq!(empty.to_string(), "bf16[2,0] {{}, {}}");
        let mut text = String::new();
        write_values(&mut text, &tuple).expect("a string takes anything");
        assert_eq!(text, "(0.1, ({1, -2}), token[])");
        assert_eq!(Literal::scalar(f32::MIN_POSITIVE).to_string(), "f32[] 1.1754944e-38");
        assert_eq!(ArrayLiteral::from_bools(&[2], &[true, false]).to_string(), "pred[2] {1, 0}");
    }
}
