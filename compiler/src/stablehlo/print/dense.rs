//! The elements of constants, and numbers.
//!
//! A number is written in decimal where a reader that takes decimals for `f64` and rounds to the type gets the same bits, in the
//! hexadecimal digits of its bits otherwise: infinities, NaN, 8-bit and narrower floats. Long constants of whole bytes are one
//! string of hexadecimal digits; truth values and types under a byte are not, for which MLIR has packed differently over the
//! years.

use crate::stablehlo::ir::{Element, Elements};
use brolga_runtime::{ArrayLiteral, ElementType, Kind, Scalar};
use std::fmt::Write;

/// Elements from which on a constant is written as its bytes.
const LONG: usize = 128;

/// `dense<...> : tensor<...>`
pub(super) fn elements(out: &mut String, elements: &Elements) {
    let data = &elements.data;
    let ty = data.ty();
    out.push_str("dense<");
    if elements.is_splat {
        element(out, ty, data.bytes());
    } else if data.elements() >= LONG && ty.bits() >= 8 && ty != ElementType::Pred {
        out.push_str("\"0x");
        hexadecimal(out, data.bytes());
        out.push('"');
    } else if data.elements() > 0 {
        nested(out, data, data.dims(), &mut data.bytes().chunks_exact(ty.byte_size()));
    }
    // Writing to a string cannot fail.
    let _ = write!(out, "> : tensor<{}>", elements.ty);
}

fn hexadecimal(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(2 * bytes.len());
    for &b in bytes {
        out.push(char::from(DIGITS[usize::from(b >> 4)]));
        out.push(char::from(DIGITS[usize::from(b & 15)]));
    }
}

/// As deep as the rank, which is limited.
fn nested(out: &mut String, data: &ArrayLiteral, dims: &[i64], items: &mut std::slice::ChunksExact<'_, u8>) {
    let Some((&size, inner)) = dims.split_first() else {
        element(out, data.ty(), items.next().unwrap_or_default());
        return;
    };
    out.push('[');
    for k in 0..size {
        out.push_str(if k > 0 { ", " } else { "" });
        nested(out, data, inner, items);
    }
    out.push(']');
}

/// One element, of its bytes.
fn element(out: &mut String, ty: ElementType, bytes: &[u8]) {
    match ty.kind() {
        Kind::Pred => out.push_str(if bytes.first().is_some_and(|&b| b != 0) { "true" } else { "false" }),
        Kind::Signed => {
            let unused = 64 - 8 * bytes.len().min(8) as u32;
            let value = (bits(bytes) << unused) as i64 >> unused;
            let _ = write!(out, "{value}");
        }
        Kind::Unsigned => {
            let _ = write!(out, "{}", bits(bytes));
        }
        Kind::Float => out.push_str(&float(ty, bits(bytes))),
        Kind::Complex => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            let part = ty.real_part();
            let _ = write!(out, "({},{})", float(part, bits(re)), float(part, bits(im)));
        }
    }
}

/// At most eight bytes, the lowest first.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &b| sum << 8 | u64::from(b))
}

/// The float of a type that has these bits.
fn float(ty: ElementType, bits: u64) -> String {
    let decimal = match ty {
        ElementType::F64 => {
            Some(pointed(format!("{:?}", f64::from_bits(bits)))).filter(|_| f64::from_bits(bits).is_finite())
        }
        ElementType::F32 => {
            let value = f32::from_bits(bits as u32);
            let text = pointed(format!("{value:?}"));
            let same = text.parse::<f64>().is_ok_and(|v| (v as f32).to_bits() == value.to_bits());
            (value.is_finite() && same).then_some(text)
        }
        ElementType::F16 | ElementType::BF16 => {
            let value = match ty {
                ElementType::F16 => half::f16::from_bits(bits as u16).to_f32(),
                _ => half::bf16::from_bits(bits as u16).to_f32(),
            };
            let text = pointed(format!("{value:?}"));
            let rounded = |v: f64| Scalar::Float(v).round_to(ty).as_f64();
            let same = text.parse::<f64>().is_ok_and(|v| rounded(v).to_bits() == f64::from(value).to_bits());
            (value.is_finite() && same).then_some(text)
        }
        _ => None,
    };
    decimal.unwrap_or_else(|| format!("0x{bits:0digits$X}", digits = (ty.bits() as usize).div_ceil(4)))
}

/// A number that has a point, as MLIR asks of floats.
fn pointed(text: String) -> String {
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

/// A number of an attribute, in the precision of `element`.
pub(super) fn number(x: f64, element: &Element) -> String {
    match element {
        Element::Type(ElementType::F64) => float(ElementType::F64, x.to_bits()),
        Element::Type(ty) if ty.is_float() => {
            let mut literal = ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(*ty, []));
            literal.set(0, Scalar::Float(x));
            float(*ty, bits(literal.bytes()))
        }
        _ => float(ElementType::F64, x.to_bits()),
    }
}
