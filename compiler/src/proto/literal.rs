//! Literals: a field for each element type.
//!
//! Elements stand in the order of the literal's layout in the message, and row-major here. Types under a byte are packed
//! there, the first element in the lowest bits; here each has a byte.

use super::message::{self, Literal as Message};
use super::{malformed, shape, unsupported};
use crate::Result;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Shape};
use prost::Message as _;
use prost::bytes::Bytes;
use std::borrow::Cow;

/// Tuples in literals nest so deep at most.
const MAX_DEPTH: usize = 100;

/// Reads a literal.
pub(super) fn read(bytes: &Bytes) -> Result<Literal> {
    read_at(bytes, 0)
}

fn read_at(bytes: &Bytes, depth: usize) -> Result<Literal> {
    if depth > MAX_DEPTH {
        return Err(malformed("", format!("literal: expected tuples of at most {MAX_DEPTH} levels")));
    }
    let message = Message::decode(bytes.clone()).map_err(|e| malformed("", format!("literal: {e}")))?;
    let Some(stated) = &message.shape else { return Err(malformed("", "literal: expected a shape, found none")) };
    match shape::read(stated)? {
        Shape::Array(array) => read_array(&message, &array).map(Literal::Array),
        Shape::Tuple(shapes) => {
            if shapes.len() != message.elements.len() {
                let found = message.elements.len();
                let what = format!("literal: expected {} elements of the tuple, found {found}", shapes.len());
                return Err(malformed("", what));
            }
            let elements = message.elements.iter().map(|e| read_at(e, depth + 1)).collect::<Result<Vec<_>>>()?;
            if let Some((element, shape)) =
                elements.iter().zip(&shapes).find(|(e, s)| !e.shape().same_ignoring_layout(s))
            {
                let found = element.shape();
                return Err(malformed("", format!("literal: expected an element of shape {shape:#}, found {found:#}")));
            }
            Ok(Literal::Tuple(elements))
        }
        Shape::Token => Ok(Literal::Token),
        other => Err(malformed("", format!("literal: expected the shape of an array or a tuple, found {other:#}"))),
    }
}

fn read_array(message: &Message, shape: &ArrayShape) -> Result<ArrayLiteral> {
    if !message.sparse_indices.is_empty() {
        return Err(unsupported("", "sparse literals"));
    }
    let sizes = message.dynamic_sizes.iter().zip(&shape.dims).zip(&shape.dynamic);
    if shape.is_dynamic() && sizes.into_iter().any(|((&size, &bound), &dynamic)| dynamic && i64::from(size) != bound) {
        return Err(unsupported("", "literals that are smaller than the bounds of their shape"));
    }
    let elements = shape.elements();
    let bytes = stored(message, shape.ty, elements);
    if Some(bytes.len()) != elements.checked_mul(shape.ty.byte_size()) {
        let found = bytes.len() / shape.ty.byte_size();
        return Err(malformed("", format!("literal: expected {elements} elements of {}, found {found}", shape.ty)));
    }
    if shape.is_padded() {
        return Err(unsupported("", format!("literals with padding, {shape}")));
    }
    ArrayLiteral::from_memory(shape, &bytes)
        .ok_or_else(|| malformed("", format!("literal: expected {elements} elements")))
}

/// The elements' bytes in storage form.
fn stored(m: &Message, ty: ElementType, elements: usize) -> Cow<'_, [u8]> {
    use ElementType::*;
    let borrowed = |bytes| Cow::Borrowed(bytes);
    match ty {
        Pred => Cow::Owned(m.preds.iter().map(|&p| u8::from(p)).collect()),
        S1 => unpacked(&m.s1s, ty, elements),
        S2 => unpacked(&m.s2s, ty, elements),
        S4 => unpacked(&m.s4s, ty, elements),
        U1 => unpacked(&m.u1s, ty, elements),
        U2 => unpacked(&m.u2s, ty, elements),
        U4 => unpacked(&m.u4s, ty, elements),
        F4E2M1Fn => unpacked(&m.f4e2m1fns, ty, elements),
        S32 => borrowed(bytemuck::cast_slice(&m.s32s)),
        S64 => borrowed(bytemuck::cast_slice(&m.s64s)),
        U32 => borrowed(bytemuck::cast_slice(&m.u32s)),
        U64 => borrowed(bytemuck::cast_slice(&m.u64s)),
        F32 => borrowed(bytemuck::cast_slice(&m.f32s)),
        F64 => borrowed(bytemuck::cast_slice(&m.f64s)),
        C64 => borrowed(bytemuck::cast_slice(&m.c64s)),
        C128 => borrowed(bytemuck::cast_slice(&m.c128s)),
        S8 => borrowed(&m.s8s),
        U8 => borrowed(&m.u8s),
        S16 => borrowed(&m.s16s),
        U16 => borrowed(&m.u16s),
        F16 => borrowed(&m.f16s),
        BF16 => borrowed(&m.bf16s),
        F8E3M4 => borrowed(&m.f8e3m4s),
        F8E4M3 => borrowed(&m.f8e4m3s),
        F8E4M3B11Fnuz => borrowed(&m.f8e4m3b11fnuzs),
        F8E4M3Fn => borrowed(&m.f8e4m3fns),
        F8E4M3Fnuz => borrowed(&m.f8e4m3fnuzs),
        F8E5M2 => borrowed(&m.f8e5m2s),
        F8E5M2Fnuz => borrowed(&m.f8e5m2fnuzs),
        F8E8M0Fnu => borrowed(&m.f8e8m0fnus),
    }
}

/// One byte an element, of elements that share bytes. Too few bytes give too few elements.
fn unpacked(packed: &[u8], ty: ElementType, elements: usize) -> Cow<'static, [u8]> {
    let bits = ty.bits();
    let each = 8 / bits as usize;
    if packed.len() != elements.div_ceil(each) {
        return Cow::Owned(vec![0; packed.len().saturating_mul(each)]);
    }
    let unused = 8 - bits;
    let parts = packed.iter().flat_map(|&byte| (0..each as u32).map(move |k| byte >> (k * bits)));
    let extended = parts.map(|part| {
        let high = part << unused;
        if ty.is_signed_integer() { ((high as i8) >> unused) as u8 } else { high >> unused }
    });
    Cow::Owned(extended.take(elements).collect())
}

fn packed(bytes: &[u8], ty: ElementType) -> Bytes {
    let bits = ty.bits();
    let each = 8 / bits as usize;
    let mask = (1u8 << bits) - 1;
    let pack = |part: &[u8]| part.iter().enumerate().fold(0, |byte, (k, e)| byte | (e & mask) << (k as u32 * bits));
    bytes.chunks(each).map(pack).collect::<Vec<u8>>().into()
}

/// The message of a literal, encoded.
pub(super) fn write(literal: &Literal) -> Result<Bytes> {
    let mut out = Message { shape: Some(with_layout(literal)?), ..Default::default() };
    match literal {
        Literal::Array(array) => write_array(&mut out, array),
        Literal::Tuple(elements) => out.elements = elements.iter().map(write).collect::<Result<_>>()?,
        Literal::Token => {}
    }
    Ok(out.encode_to_vec().into())
}

/// The literal's shape with row-major layouts, which say in what order the elements stand.
fn with_layout(literal: &Literal) -> Result<message::Shape> {
    match literal {
        Literal::Array(array) => {
            let layout = Some(brolga_runtime::Layout::row_major(array.dims().len()));
            shape::write_array(&ArrayShape { layout, ..array.shape().clone() })
        }
        Literal::Tuple(elements) => {
            let mut out = shape::write(&Shape::tuple(Vec::new()))?;
            out.elements = elements.iter().map(with_layout).collect::<Result<_>>()?;
            Ok(out)
        }
        Literal::Token => shape::write(&Shape::Token),
    }
}

fn write_array(m: &mut Message, array: &ArrayLiteral) {
    use ElementType::*;
    let bytes = array.bytes();
    let whole = || Bytes::copy_from_slice(bytes);
    let ty = array.ty();
    match ty {
        Pred => m.preds = bytes.iter().map(|&b| b != 0).collect(),
        S1 => m.s1s = packed(bytes, ty),
        S2 => m.s2s = packed(bytes, ty),
        S4 => m.s4s = packed(bytes, ty),
        U1 => m.u1s = packed(bytes, ty),
        U2 => m.u2s = packed(bytes, ty),
        U4 => m.u4s = packed(bytes, ty),
        F4E2M1Fn => m.f4e2m1fns = packed(bytes, ty),
        S32 => m.s32s = bytemuck::cast_slice(bytes).to_vec(),
        S64 => m.s64s = bytemuck::cast_slice(bytes).to_vec(),
        U32 => m.u32s = bytemuck::cast_slice(bytes).to_vec(),
        U64 => m.u64s = bytemuck::cast_slice(bytes).to_vec(),
        F32 => m.f32s = bytemuck::cast_slice(bytes).to_vec(),
        F64 => m.f64s = bytemuck::cast_slice(bytes).to_vec(),
        C64 => m.c64s = bytemuck::cast_slice(bytes).to_vec(),
        C128 => m.c128s = bytemuck::cast_slice(bytes).to_vec(),
        S8 => m.s8s = whole(),
        U8 => m.u8s = whole(),
        S16 => m.s16s = whole(),
        U16 => m.u16s = whole(),
        F16 => m.f16s = whole(),
        BF16 => m.bf16s = whole(),
        F8E3M4 => m.f8e3m4s = whole(),
        F8E4M3 => m.f8e4m3s = whole(),
        F8E4M3B11Fnuz => m.f8e4m3b11fnuzs = whole(),
        F8E4M3Fn => m.f8e4m3fns = whole(),
        F8E4M3Fnuz => m.f8e4m3fnuzs = whole(),
        F8E5M2 => m.f8e5m2s = whole(),
        F8E5M2Fnuz => m.f8e5m2fnuzs = whole(),
        F8E8M0Fnu => m.f8e8m0fnus = whole(),
    }
}
