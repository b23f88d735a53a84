//! `rng-bit-generator` as arithmetic on counters.
//!
//! Invariant: state and bits are those of `interp/random.rs`, whose page says in which order blocks fill an array.
//! Algorithm: one vector with an element a block for each word of a block ([`super::counter_based`]), narrowed to the
//! result's type, then interleaved; the state's counter advances by the number of blocks, which is a constant.

use super::counter_based::{counters, philox, threefry};
use super::formula::{Formula, concatenate, interleaved, pick, scalar, slice};
use crate::error::Result;
use crate::hlo::{AttrKey, Attrs, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape};

/// Expands `rng-bit-generator`; `None` where the algorithm has no such state or the type no such bits.
pub fn bits(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let state = rw.operand(id, 0)?;
    let algorithm = rw.instruction(id).attrs.raw(AttrKey::Algorithm).unwrap_or("rng_default").trim().to_owned();
    let Some([Shape::Array(next), Shape::Array(shape)]) = rw.shape(id).as_tuple() else { return Ok(None) };
    let (next, shape) = (next.clone(), shape.clone());
    let length = match next.dims[..] {
        [n] if next.ty == ElementType::U64 && rw.dims(state) == [n] => n,
        _ => return Ok(None),
    };
    let wide = match shape.ty.bits() {
        64 => true,
        1..=32 => false,
        _ => return Ok(None),
    };
    if shape.is_dynamic() || next.is_dynamic() || unsigned(shape.ty).is_none() {
        return Ok(None);
    }
    let Some(count) = shape.checked_elements().and_then(|n| i64::try_from(n).ok()) else { return Ok(None) };
    if count == 0 {
        let zero = scalar(rw, shape.ty, Scalar::UInt(0));
        let empty = rw.broadcast_scalar(zero, &shape);
        return Ok(Some(rw.tuple(vec![state, empty])));
    }
    let (blocks, numbers) = match (&*algorithm, length) {
        ("rng_three_fry", 2..) => threefry_bits(rw, state, &shape, count, wide),
        ("rng_philox" | "rng_default", 2..) => philox_bits(rw, state, length, &shape, count, wide),
        _ => return Ok(None),
    };
    let counter_words = if algorithm == "rng_three_fry" { 1 } else { (length - 1).min(2) };
    let next = advanced(rw, state, length, counter_words, blocks);
    Ok(Some(rw.tuple(vec![next, numbers])))
}

/// The unsigned type of a width.
fn unsigned(ty: ElementType) -> Option<ElementType> {
    use ElementType as E;
    [E::U1, E::U2, E::U4, E::U8, E::U16, E::U32, E::U64].into_iter().find(|u| u.bits() == ty.bits())
}

/// The bits of `x` as another type of its width.
fn reinterpreted(rw: &mut Rewriter<'_>, x: InstructionId, ty: ElementType) -> InstructionId {
    let Some(array) = rw.array(x).filter(|a| a.ty != ty) else { return x };
    let shape = Shape::Array(array.with_type(ty));
    rw.emit(Opcode::BitcastConvert, shape, vec![x], Attrs::new())
}

/// Draws as elements of the result: the low bits, taken for an integer or for the bits of a float.
fn narrowed(rw: &mut Rewriter<'_>, draws: InstructionId, ty: ElementType) -> InstructionId {
    if ty.is_integer() {
        return rw.convert(draws, ty);
    }
    let bits = rw.convert(draws, unsigned(ty).unwrap_or(ElementType::U32));
    reinterpreted(rw, bits, ty)
}

/// How many blocks Threefry took, and the numbers.
fn threefry_bits(
    rw: &mut Rewriter<'_>,
    state: InstructionId,
    shape: &ArrayShape,
    count: i64,
    wide: bool,
) -> (i64, InstructionId) {
    let dims = &shape.dims;
    // The dimension along which the two words of a block are neighbours.
    let largest = dims.iter().copied().max().unwrap_or(1);
    let split = dims.iter().position(|d| d % 2 == 0).or_else(|| dims.iter().position(|&d| d == largest));
    let (size, inner) = match split {
        Some(d) => (dims[d], dims[d + 1..].iter().product::<i64>()),
        None => (1, 1),
    };
    let pairs = (size + 1) / 2;
    let outer = count / (size * inner);
    let blocks = if wide { count } else { outer * pairs * inner };
    let (key, counter) = (pick(rw, state, 0), pick(rw, state, 1));
    let mut f = Formula::new(rw, &[blocks]);
    let (key, first) = (f.halves(key), f.halves(counter));
    let counter = counters(&mut f, &first);
    let [low, high] = threefry(&mut f, key, [counter[0], counter[1]]);
    if wide {
        let draws = f.join(low, high);
        let numbers = narrowed(rw, draws, shape.ty);
        return (blocks, rw.reshape(numbers, dims));
    }
    let parts = [low, high].map(|w| narrowed(rw, w, shape.ty));
    let parts = parts.map(|numbers| rw.reshape(numbers, &[outer * pairs, inner])).to_vec();
    let all = interleaved(rw, parts, 0);
    let all = rw.reshape(all, &[outer, 2 * pairs, inner]);
    let all = slice(rw, all, 1, 0, size);
    (blocks, rw.reshape(all, dims))
}

/// How many blocks Philox took, and the numbers.
fn philox_bits(
    rw: &mut Rewriter<'_>,
    state: InstructionId,
    length: i64,
    shape: &ArrayShape,
    count: i64,
    wide: bool,
) -> (i64, InstructionId) {
    let numbers = if wide { 2 } else { 4 };
    let blocks = (count - 1) / numbers + 1;
    // A state of two words has only the low half of the counter; the key stands in for the high half.
    let words = [0, 1, if length > 2 { 2 } else { 0 }].map(|k| pick(rw, state, k));
    let mut f = Formula::new(rw, &[blocks]);
    let [key, low, high] = words.map(|w| f.halves(w));
    let counter = counters(&mut f, &[low[0], low[1], high[0], high[1]]);
    let [a, b, c, d] = philox(&mut f, key, [counter[0], counter[1], counter[2], counter[3]]);
    let parts = if wide { vec![f.join(a, b), f.join(c, d)] } else { vec![a, b, c, d] };
    let parts = parts.into_iter().map(|p| narrowed(rw, p, shape.ty)).collect();
    let all = interleaved(rw, parts, 0);
    let all = slice(rw, all, 0, 0, count);
    (blocks, rw.reshape(all, &shape.dims))
}

/// The state with its counter, the `words` behind the key, greater by `blocks`.
fn advanced(rw: &mut Rewriter<'_>, state: InstructionId, length: i64, words: i64, blocks: i64) -> InstructionId {
    let mut parts = vec![slice(rw, state, 0, 0, 1)];
    let mut f = Formula::new(rw, &[1]);
    let mut more = f.number(ElementType::U64, Scalar::UInt(blocks as u64));
    for k in 1..=words {
        let word = slice(f.rw, state, 0, k, k + 1);
        let sum = f.add(word, more);
        let carry = f.less(sum, word);
        more = f.convert(carry, ElementType::U64);
        parts.push(sum);
    }
    if words + 1 < length {
        parts.push(slice(rw, state, 0, words + 1, length));
    }
    concatenate(rw, parts, 0)
}
