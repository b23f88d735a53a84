//! One element of a literal: text to bytes and back.
//!
//! Invariant: an element prints with enough digits to read back to the same bits. A number that its type cannot hold
//! is an error, not a rounding: integers past the limits, finite floats that would become infinite or NaN. Three
//! liberties are those of XLA's reader: integers of 64 bits may be written with or without sign, any integer is a truth
//! value, and a format without infinity or NaN has what a conversion makes of them.

use super::cursor::{Cursor, shorten};
use crate::{Result, decimal};
use brolga_runtime::{ElementType, Kind, narrow};
use std::fmt::{Display, LowerExp, Write};

/// Reads one element and appends its storage form to `out`.
pub(super) fn element(c: &mut Cursor<'_>, ty: ElementType, out: &mut Vec<u8>) -> Result<()> {
    match ty.kind() {
        Kind::Pred => truth(c, out),
        Kind::Signed | Kind::Unsigned => integer(c, ty, out),
        Kind::Float => float(c, ty, out),
        Kind::Complex => {
            let part = ty.real_part();
            if !c.eat("(") {
                // A real number stands for a complex one without imaginary part.
                float(c, part, out)?;
                out.resize(out.len() + part.byte_size(), 0);
                return Ok(());
            }
            float(c, part, out)?;
            c.expect(",")?;
            float(c, part, out)?;
            c.expect(")")
        }
    }
}

fn truth(c: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<()> {
    let start = c.start();
    let text = c.run(|b| b.is_ascii_alphanumeric() || b == b'-').unwrap_or_default();
    let value = match text {
        "true" => true,
        "false" => false,
        number => match number.parse::<i64>() {
            Ok(number) => number != 0,
            Err(_) => {
                c.rewind(start);
                return Err(c.expected("'true' or 'false'"));
            }
        },
    };
    out.push(value.into());
    Ok(())
}

/// Characters that a number may consist of: taken together so that `1.5` is not read as the integer 1.
fn number_text<'a>(c: &mut Cursor<'a>, what: &dyn Display) -> Result<&'a str> {
    let start = c.start();
    let text = c.run(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')).unwrap_or_default();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.');
    if digits || matches!(unsigned, "inf" | "nan") {
        return Ok(text);
    }
    c.rewind(start);
    Err(c.expected(&what.to_string()))
}

/// The least and the greatest integer; of 64 bits, of either sign.
fn limits(ty: ElementType) -> (i128, i128) {
    let bits = ty.bits();
    if bits == 64 {
        (i128::from(i64::MIN), i128::from(u64::MAX))
    } else if ty.is_signed_integer() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

fn integer(c: &mut Cursor<'_>, ty: ElementType, out: &mut Vec<u8>) -> Result<()> {
    let start = c.start();
    let (min, max) = limits(ty);
    if let Some(value) = c.take(decimal::integer) {
        if (min..=max).contains(&i128::from(value)) {
            // A type of one byte or less keeps the low byte, which is the sign- or zero-extended value.
            decimal::append(out, value as u64, ty.byte_size());
            return Ok(());
        }
        c.rewind(start);
    }
    let what = format_args!("an {ty} integer");
    let text = number_text(c, &what)?;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Err(c.error(start, format!("expected {what}, found '{}'", shorten(text))));
    }
    match text.parse::<i128>() {
        Ok(value) if (min..=max).contains(&value) => {
            out.extend_from_slice(value.to_le_bytes().get(..ty.byte_size()).unwrap_or_default());
            Ok(())
        }
        _ => Err(c.error(start, format!("expected {what} from {min} to {max}, found '{}'", shorten(text)))),
    }
}

fn float(c: &mut Cursor<'_>, ty: ElementType, out: &mut Vec<u8>) -> Result<()> {
    let start = c.start();
    let short = match ty {
        ElementType::F32 => c.take(decimal::single).filter(|v| v.is_finite()).map(|v| u64::from(v.to_bits())),
        _ => c.take(decimal::real).and_then(|value| encode(ty, value)),
    };
    if let Some(bits) = short {
        decimal::append(out, bits, ty.byte_size());
        return Ok(());
    }
    c.rewind(start);
    let what = format_args!("an {ty} number");
    let text = number_text(c, &what)?;
    let negative = text.starts_with('-');
    let bits = match text.trim_start_matches(['-', '+']) {
        "nan" => {
            let payload = payload(c)?;
            nan_bits(ty, negative, payload)
        }
        "inf" => infinity_bits(ty, negative)
            .or_else(|| Some(narrow::encode(ty, if negative { f64::NEG_INFINITY } else { f64::INFINITY }).into())),
        digits if digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) => {
            finite_bits(ty, text)
        }
        _ => None,
    };
    let Some(bits) = bits else {
        let found = c.since(start);
        return Err(c.error(start, format!("expected {what}, found '{}'", shorten(found))));
    };
    out.extend_from_slice(bits.to_le_bytes().get(..ty.byte_size()).unwrap_or_default());
    Ok(())
}

/// The `(0x123)` after `nan`.
fn payload(c: &mut Cursor<'_>) -> Result<Option<u64>> {
    if c.byte() != Some(b'(') {
        return Ok(None);
    }
    c.expect("(")?;
    let start = c.start();
    let text = c.run(|b| b.is_ascii_alphanumeric()).unwrap_or_default();
    let value = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let Some(value) = value else {
        c.rewind(start);
        return Err(c.expected("the payload of a NaN, '0x' and hexadecimal digits"));
    };
    c.expect(")")?;
    Ok(Some(value))
}

/// Mantissa bits of the formats whose NaNs and infinities have an exponent of ones, as IEEE has it.
fn ieee_mantissa(ty: ElementType) -> Option<u32> {
    match ty {
        ElementType::F64 => Some(52),
        ElementType::F32 => Some(23),
        ElementType::F16 => Some(10),
        ElementType::BF16 => Some(7),
        ElementType::F8E5M2 => Some(2),
        ElementType::F8E4M3 => Some(3),
        ElementType::F8E3M4 => Some(4),
        _ => None,
    }
}

fn sign_bit(ty: ElementType, negative: bool) -> u64 {
    if negative { 1 << (ty.bits() - 1) } else { 0 }
}

fn infinity_bits(ty: ElementType, negative: bool) -> Option<u64> {
    let mantissa = ieee_mantissa(ty)?;
    let magnitude = ((1u64 << (ty.bits() - 1)) - 1) & !((1u64 << mantissa) - 1);
    Some(magnitude | sign_bit(ty, negative))
}

/// The NaN with the given mantissa; the quiet one where none is given. `None` where the type has no such NaN.
fn nan_bits(ty: ElementType, negative: bool, payload: Option<u64>) -> Option<u64> {
    if let Some(mantissa) = ieee_mantissa(ty) {
        let payload = payload.unwrap_or(1 << (mantissa - 1));
        let fits = payload != 0 && payload < 1 << mantissa;
        return infinity_bits(ty, negative).filter(|_| fits).map(|bits| bits | payload);
    }
    // The other formats have one NaN, one for each sign, or none.
    let bits = u64::from(narrow::encode(ty, if negative { -f64::NAN } else { f64::NAN }));
    payload.is_none().then_some(bits)
}

fn finite_bits(ty: ElementType, text: &str) -> Option<u64> {
    if ty == ElementType::F32 {
        let value: f32 = text.parse().ok()?;
        return value.is_finite().then_some(u64::from(value.to_bits()));
    }
    encode(ty, text.parse().ok()?)
}

/// The bits of a number, where the type can hold it.
fn encode(ty: ElementType, value: f64) -> Option<u64> {
    match ty {
        _ if !value.is_finite() => None,
        ElementType::F64 => Some(value.to_bits()),
        ElementType::F16 => not_infinite(ty, narrow::encode_f16(value)),
        ElementType::BF16 => not_infinite(ty, narrow::encode_bf16(value)),
        _ => {
            let bits = narrow::encode(ty, value);
            narrow::decode(ty, bits).is_finite().then_some(u64::from(bits))
        }
    }
}

fn not_infinite(ty: ElementType, bits: u16) -> Option<u64> {
    let bits = u64::from(bits);
    (infinity_bits(ty, false) != Some(bits & !sign_bit(ty, true))).then_some(bits)
}

/// Prints the element whose storage form is `bytes`.
pub(super) fn print_element(out: &mut String, ty: ElementType, bytes: &[u8]) {
    let mut wide = [0u8; 16];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let raw = u128::from_le_bytes(wide);
    // Writing to a string cannot fail.
    let _ = match ty.kind() {
        Kind::Pred => write!(out, "{}", raw & 1),
        Kind::Unsigned => write!(out, "{raw}"),
        Kind::Signed => {
            let unused = 128 - 8 * ty.byte_size() as u32;
            write!(out, "{}", ((raw << unused) as i128) >> unused)
        }
        Kind::Float => {
            print_float(out, ty, raw as u64);
            Ok(())
        }
        Kind::Complex => {
            let part = ty.real_part();
            let half = part.bits();
            out.push('(');
            print_float(out, part, (raw & ((1 << half) - 1)) as u64);
            out.push_str(", ");
            print_float(out, part, (raw >> half) as u64);
            out.push(')');
            Ok(())
        }
    };
}

fn print_float(out: &mut String, ty: ElementType, bits: u64) {
    let value = match ty {
        ElementType::F64 => f64::from_bits(bits),
        ElementType::F32 => f64::from(f32::from_bits(bits as u32)),
        ElementType::F16 => brolga_runtime::half::f16::from_bits(bits as u16).to_f64(),
        ElementType::BF16 => brolga_runtime::half::bf16::from_bits(bits as u16).to_f64(),
        _ => narrow::decode(ty, bits as u8),
    };
    if value.is_nan() {
        let negative =
            nan_bits(ty, true, None) == Some(bits) || ieee_mantissa(ty).is_some() && bits & sign_bit(ty, true) != 0;
        out.push_str(if negative && nan_bits(ty, false, None) != Some(bits) { "-nan" } else { "nan" });
        if let Some(mantissa) = ieee_mantissa(ty)
            && bits & ((1 << mantissa) - 1) != 1 << (mantissa - 1)
        {
            let _ = write!(out, "(0x{:x})", bits & ((1 << mantissa) - 1));
        }
    } else if ty == ElementType::F64 {
        print_number(out, value);
    } else {
        // The shortest decimal of the `f32` is no longer than needed and every narrower float is an `f32`.
        print_number(out, value as f32);
    }
}

/// Prints a number that is not NaN so that it reads back to the same bits.
pub(super) fn print_number<T: Display + LowerExp + Copy + Into<f64>>(out: &mut String, value: T) {
    let magnitude: f64 = value.into().abs();
    let plain = magnitude == 0.0 || magnitude.is_infinite() || (1e-5..1e16).contains(&magnitude);
    let _ = if plain { write!(out, "{value}") } else { write!(out, "{value:e}") };
}

/// Reads a number that is no element of a literal, such as `epsilon`.
pub(super) fn real(c: &mut Cursor<'_>) -> Result<f64> {
    let start = c.start();
    let text = number_text(c, &"a number")?;
    text.parse().map_err(|_| c.error(start, format!("expected a number, found '{}'", shorten(text))))
}
