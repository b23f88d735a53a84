//! `rng` as arithmetic on the numbers of a counter-based generator.
//!
//! Problem: `rng` draws from a state outside the graph, and code generation should have to know of nothing but that
//! state. Invariant: the numbers are those of `interp/random.rs`, whose page defines them: the same bits, but for the
//! logarithm, root, sine and cosine of a normal distribution. Algorithm: `rng-get-and-update-state` yields seed and
//! counter and moves the counter on by the number of blocks, which is a constant; all else is Philox
//! ([`super::counter_based`]) and elementwise arithmetic on one vector an output of a block, the vectors one behind
//! another being the result.

use super::counter_based::{counters, philox};
use super::formula::{Formula, compare, concatenate, pick, slice};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::interp::random::{STREAM, numbers_per_block, significand};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ElementType, Scalar, Shape};

/// Expands `rng`.
pub fn rng(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let instruction = rw.instruction(id);
    let kind = instruction.attrs.word(AttrKey::Distribution).unwrap_or("rng_uniform");
    let before = instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
    let Some(shape) = instruction.shape.as_array().cloned() else { return Ok(None) };
    let Some(count) = shape.checked_elements().and_then(|n| i64::try_from(n).ok()) else { return Ok(None) };
    if shape.is_dynamic() || shape.ty.is_complex() {
        return Ok(None);
    }
    let (a, b) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let [a, b] = [a, b].map(|p| rw.reshape(p, &[]));
    let lanes = numbers_per_block(kind, shape.ty) as i64;
    let blocks = if count == 0 { 0 } else { (count - 1) / lanes + 1 };
    let attrs = Attrs::new().with(AttrKey::Delta, AttrValue::Int(blocks));
    let state = rw.emit(Opcode::RngGetAndUpdateState, Shape::array(ElementType::U64, [2]), Vec::new(), attrs);
    rw.add_control_predecessors(state, &before);
    rw.control_also_after(id, vec![state]);
    let (seed, counter) = (pick(rw, state, 0), pick(rw, state, 1));
    let mut f = Formula::new(rw, &[blocks]);
    let (key, first) = (f.halves(seed), f.halves(counter));
    let stream = [0, 32].map(|shift| super::formula::scalar(f.rw, ElementType::U32, Scalar::UInt(STREAM >> shift)));
    let counter = counters(&mut f, &first);
    let stream = stream.map(|s| f.broadcast(s));
    let words = philox(&mut f, key, [counter[0], counter[1], stream[0], stream[1]]);
    let parts = match kind {
        "rng_normal" => normal(&mut f, shape.ty, words, a, b),
        "rng_bernoulli" => bernoulli(&mut f, shape.ty, words, a),
        _ if shape.ty.is_float() => uniform(&mut f, shape.ty, words, a, b),
        _ => integers(&mut f, shape.ty, words, a, b),
    };
    let all = concatenate(rw, parts, 0);
    let all = slice(rw, all, 0, 0, count);
    Ok(Some(rw.reshape(all, &shape.dims)))
}

/// The type that a distribution over `ty` is computed in.
fn compute_type(ty: ElementType) -> ElementType {
    if ty == ElementType::F64 { ElementType::F64 } else { ElementType::F32 }
}

/// The outputs of a block as numbers in `[0, 1)` of so many bits.
fn units(f: &mut Formula<'_, '_>, ty: ElementType, words: [InstructionId; 4]) -> Vec<InstructionId> {
    let bits = significand(ty);
    let (ty, draws) = match ty {
        ElementType::F64 => (ty, vec![f.join(words[0], words[1]), f.join(words[2], words[3])]),
        _ => (ElementType::F32, words.to_vec()),
    };
    let width = if ty == ElementType::F64 { 64 } else { 32 };
    draws.into_iter().map(|draw| fraction(f, ty, draw, width - bits, bits)).collect()
}

/// `(draw >> drop) / 2^bits`, exactly.
fn fraction(f: &mut Formula<'_, '_>, ty: ElementType, draw: InstructionId, drop: u32, bits: u32) -> InstructionId {
    let high = f.shr(draw, drop);
    let number = f.convert(high, ty);
    let scale = f.number(ty, Scalar::Float(0.5f64.powi(bits as i32)));
    f.mul(number, scale)
}

/// `low + u * (high - low)`, and `low` where rounding reaches the end.
fn uniform(
    f: &mut Formula<'_, '_>,
    ty: ElementType,
    words: [InstructionId; 4],
    low: InstructionId,
    high: InstructionId,
) -> Vec<InstructionId> {
    let compute = compute_type(ty);
    let units = units(f, ty, words);
    let [low, high] = [low, high].map(|p| f.convert(p, compute));
    let range = f.sub(high, low);
    let [low, high, range] = [low, high, range].map(|p| f.broadcast(p));
    let mut parts = Vec::new();
    for u in units {
        let scaled = f.mul(u, range);
        let sum = f.add(low, scaled);
        let rounded = f.convert(sum, ty);
        let rounded = f.convert(rounded, compute);
        let inside = f.less(rounded, high);
        let value = f.select(inside, rounded, low);
        parts.push(f.convert(value, ty));
    }
    parts
}

/// 1 where a unit is less than `p`.
fn bernoulli(
    f: &mut Formula<'_, '_>,
    ty: ElementType,
    words: [InstructionId; 4],
    p: InstructionId,
) -> Vec<InstructionId> {
    let fine = if ty == ElementType::F64 { ty } else { ElementType::F32 };
    let p = f.convert(p, fine);
    let p = f.broadcast(p);
    let mut parts = Vec::new();
    for u in units(f, fine, words) {
        let hit = f.less(u, p);
        parts.push(f.convert(hit, ty));
    }
    parts
}

/// Box and Muller: two numbers from two.
fn normal(
    f: &mut Formula<'_, '_>,
    ty: ElementType,
    words: [InstructionId; 4],
    mean: InstructionId,
    deviation: InstructionId,
) -> Vec<InstructionId> {
    let compute = compute_type(ty);
    let [mean, deviation] = [mean, deviation].map(|p| f.convert(p, compute));
    let [mean, deviation] = [mean, deviation].map(|p| f.broadcast(p));
    let pairs = match compute {
        ElementType::F64 => {
            let (radius, angle) = (f.join(words[0], words[1]), f.join(words[2], words[3]));
            let whole = f.shr(radius, 11);
            vec![(whole, 53, fraction(f, compute, angle, 11, 53))]
        }
        _ => [(words[0], words[1]), (words[2], words[3])]
            .map(|(radius, angle)| (radius, 32, fraction(f, compute, angle, 8, 24)))
            .to_vec(),
    };
    let mut parts = Vec::new();
    for (radius, bits, turn) in pairs {
        // A half more than a whole number keeps the logarithm's argument off zero.
        let number = f.convert(radius, compute);
        let half = f.number(compute, Scalar::Float(0.5));
        let number = f.add(number, half);
        let scale = f.number(compute, Scalar::Float(0.5f64.powi(bits)));
        let argument = f.mul(number, scale);
        let log = f.op(Opcode::Log, &[argument]);
        let minus_two = f.number(compute, Scalar::Float(-2.0));
        let square = f.mul(minus_two, log);
        let radius = f.op(Opcode::Sqrt, &[square]);
        let tau = f.number(compute, Scalar::Float(std::f64::consts::TAU).round_to(compute));
        let angle = f.mul(tau, turn);
        for function in [Opcode::Cos, Opcode::Sin] {
            let direction = f.op(function, &[angle]);
            let z = f.mul(radius, direction);
            let scaled = f.mul(deviation, z);
            let value = f.add(mean, scaled);
            parts.push(f.convert(value, ty));
        }
    }
    parts
}

/// `low + floor(draw * (high - low) / 2^w)` with draws of `w` bits, twice as many as the numbers have.
fn integers(
    f: &mut Formula<'_, '_>,
    ty: ElementType,
    words: [InstructionId; 4],
    low: InstructionId,
    high: InstructionId,
) -> Vec<InstructionId> {
    let [a, b, c, d] = words;
    let (compute, draws) = if ty.bits() > 32 {
        (ElementType::U64, vec![(f.join(a, b), f.join(c, d))])
    } else {
        (ElementType::U32, vec![(a, b), (c, d)])
    };
    let some = compare(f.rw, low, "LT", high);
    let [low, high] = [low, high].map(|p| f.convert(p, compute));
    let range = f.sub(high, low);
    let zero = f.beside(range, Scalar::UInt(0));
    // An interval without numbers gives its lower end.
    let range = f.select(some, range, zero);
    let (low, range) = (f.broadcast(low), f.broadcast(range));
    let mut parts = Vec::new();
    for (less, more) in draws {
        let from_less = f.mul_high(less, range);
        let from_more = f.mul(more, range);
        let sum = f.add(from_less, from_more);
        let carry = f.less(sum, from_more);
        let carry = f.convert(carry, compute);
        let offset = f.mul_high(more, range);
        let offset = f.add(offset, carry);
        let value = f.add(low, offset);
        parts.push(f.convert(value, ty));
    }
    parts
}
