//! One element of a literal: text to bytes. `brolga_runtime::display` is the way back.
//!
//! Invariant: a number that its type cannot hold
//! is an error, not a rounding: integers past the limits, finite floats that would become infinite or NaN. Three
//! liberties are those of XLA's reader: integers of 64 bits may be written with or without sign, any integer is a truth
//! value, and a format without infinity or NaN has what a conversion makes of them.

use super::cursor::{Cursor, shorten};
use crate::{Result, decimal};
use brolga_runtime::narrow::{self, infinity_bits, nan_bits, sign_bit};
use brolga_runtime::{ElementType, Kind};
use std::fmt::Display;

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

/// Reads a number that is no element of a literal, such as `epsilon`.
pub(super) fn real(c: &mut Cursor<'_>) -> Result<f64> {
    let start = c.start();
    let text = number_text(c, &"a number")?;
    text.parse().map_err(|_| c.error(start, format!("expected a number, found '{}'", shorten(text))))
}
