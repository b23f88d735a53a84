//! `rng` and `rng-bit-generator`.
//!
//! Problem: a program and its compiled form must draw the same bits from the same state, and the two named
//! algorithms must give the bits that XLA gives. Invariant: both are counter-based: block `c` under key `k` is a pure
//! function, so the state is only (key, counter) and advances by the number of blocks drawn. The functions are
//! Threefry-2x32-20 and Philox-4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, SC 2011).
//!
//! The order in which blocks fill an array: Philox words fill it in row-major order. A Threefry block is two words:
//! for 64-bit elements they make one element; for narrower ones they are neighbours along the first dimension of
//! even size, or else the first of the largest size, where the last word of an odd row is dropped. Types under 32
//! bits keep the low bits of a 32-bit draw.
//!
//! `rng` draws from a state that belongs to a run: two words, the seed that the caller chose and a counter, which
//! starts at 0 and which every execution of an `rng` moves on by the blocks it takes, in program order; this is also
//! what `rng-get-and-update-state` yields (the words before its `delta` is added to the counter). Block `c` is Philox
//! under the seed as key and `c` as the low half of the counter. Of the numbers that a block gives
//! ([`numbers_per_block`]), the first ones fill the result first, then the second ones of all blocks, and so on: long
//! vectors without a stride. Arithmetic is in `f32`, or `f64` for `f64`, a step at a time, so that compiled code draws
//! the same bits; normal distributions alone may differ by some units in the last place.

use super::dense::{Number, result_shapes};
use super::{Context, array, invalid, new_array, result_shape, unsupported};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Scalar};

/// Evaluates `rng` or `rng-bit-generator`.
pub(super) fn op(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    match inst.opcode {
        Opcode::Rng => distribution(cx, inst, operands),
        _ => bits(inst, operands),
    }
}

/// The Threefry-2x32 function with twenty rounds.
fn threefry(key: u64, counter: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: u32 = 0x1bd1_1bda;
    let keys = [key as u32, (key >> 32) as u32];
    let schedule = [keys[0], keys[1], keys[0] ^ keys[1] ^ PARITY];
    let mut x = (counter as u32).wrapping_add(schedule[0]);
    let mut y = ((counter >> 32) as u32).wrapping_add(schedule[1]);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        x = x.wrapping_add(schedule[(group + 1) % 3]);
        y = y.wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [x, y]
}

/// The Philox-4x32 function with ten rounds.
fn philox(key: u64, counter: u128) -> [u32; 4] {
    const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    const MULTIPLIERS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
    let mut keys = [key as u32, (key >> 32) as u32];
    let mut x = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    for _ in 0..10 {
        let first = u64::from(x[0]) * MULTIPLIERS[0];
        let second = u64::from(x[2]) * MULTIPLIERS[1];
        x = [
            (second >> 32) as u32 ^ x[1] ^ keys[0],
            second as u32,
            (first >> 32) as u32 ^ x[3] ^ keys[1],
            first as u32,
        ];
        keys = [keys[0].wrapping_add(WEYL[0]), keys[1].wrapping_add(WEYL[1])];
    }
    x
}

/// Two words as one element, the first in the low half.
fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// `count` draws of 64 or 32 bits from Philox, and the counter after them.
fn philox_draws(key: u64, counter: u128, count: usize, wide: bool) -> (Vec<u64>, u128) {
    let blocks = if wide { count.div_ceil(2) } else { count.div_ceil(4) };
    let draws = (0..blocks as u128).flat_map(|i| {
        let [a, b, c, d] = philox(key, counter.wrapping_add(i));
        let list = if wide { [join(a, b), join(c, d), 0, 0] } else { [a, b, c, d].map(u64::from) };
        list.into_iter().take(if wide { 2 } else { 4 })
    });
    (draws.take(count).collect(), counter.wrapping_add(blocks as u128))
}

/// Draws for an array of the given dimensions from Threefry, and the counter after them.
fn threefry_draws(key: u64, counter: u64, dims: &[i64], wide: bool) -> (Vec<u64>, u64) {
    if dims.contains(&0) {
        return (Vec::new(), counter);
    }
    let count = dims.iter().product::<i64>() as usize;
    let block = |i: usize| threefry(key, counter.wrapping_add(i as u64));
    if wide {
        let draws = (0..count).map(block).map(|[low, high]| join(low, high)).collect();
        return (draws, counter.wrapping_add(count as u64));
    }
    // The dimension along which the two words of a block are neighbours.
    let largest = dims.iter().copied().max().unwrap_or(1);
    let split = dims.iter().position(|d| d % 2 == 0).or_else(|| dims.iter().position(|&d| d == largest));
    let (size, inner) = match split {
        Some(d) => (dims[d] as usize, dims[d + 1..].iter().product::<i64>() as usize),
        None => (1, 1),
    };
    let pairs = size.div_ceil(2);
    let outer = count / (size * inner);
    let draws = (0..count).map(|i| {
        let (row, at, rest) = (i / (size * inner), i / inner % size, i % inner);
        u64::from(block((row * pairs + at / 2) * inner + rest)[at % 2])
    });
    (draws.collect(), counter.wrapping_add((outer * pairs * inner) as u64))
}

/// `rng-bit-generator`: the next state and an array of random bits.
fn bits(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let state = array(inst, operands, 0)?;
    let shapes = result_shapes(inst, 2)?;
    let shape = shapes[1];
    if state.ty() != ElementType::U64 || state.shape().rank() != 1 || shapes[0].dims != state.dims() {
        return Err(unsupported(inst, format!("a generator state of {}", state.shape())));
    }
    let mut words = state.as_slice::<u64>().to_vec();
    let wide = match shape.ty.bits() {
        64 => true,
        1..=32 => false,
        _ => return Err(unsupported(inst, format!("random bits of type {}", shape.ty))),
    };
    let mut out = new_array(inst, shape)?;
    let count = out.elements();
    let draws = match (inst.attrs.raw(AttrKey::Algorithm).unwrap_or("rng_default"), words.as_mut_slice()) {
        ("rng_three_fry", [key, counter, ..]) => {
            let (draws, next) = threefry_draws(*key, *counter, &shape.dims, wide);
            *counter = next;
            draws
        }
        ("rng_philox" | "rng_default", [key, low, high, ..]) => {
            let counter = u128::from(*low) | u128::from(*high) << 64;
            let (draws, next) = philox_draws(*key, counter, count, wide);
            (*low, *high) = (next as u64, (next >> 64) as u64);
            draws
        }
        // A state of two words has only the low half of the counter; the key stands in for the high half.
        ("rng_philox" | "rng_default", [key, low]) => {
            let counter = u128::from(*low) | u128::from(*key) << 64;
            let (draws, next) = philox_draws(*key, counter, count, wide);
            *low = next as u64;
            draws
        }
        (algorithm, _) => {
            return Err(unsupported(inst, format!("algorithm '{algorithm}' with a state of {}", state.shape())));
        }
    };
    let width = shape.ty.byte_size();
    for (i, draw) in draws.into_iter().enumerate() {
        if shape.ty.is_integer() || shape.ty == ElementType::Pred {
            out.set(i, Scalar::UInt(draw));
        } else {
            // Bits, not numbers, for a float type.
            let draw = draw & (u64::MAX >> (64 - shape.ty.bits()));
            out.bytes_mut()[i * width..(i + 1) * width].copy_from_slice(&draw.to_le_bytes()[..width]);
        }
    }
    let state = ArrayLiteral::from_elements(state.dims(), &words);
    Ok(Literal::Tuple(vec![state.into(), out.into()]))
}

/// Sets the numbers of `rng` apart from those of an `rng-bit-generator` with the same key: the counter's high half.
pub(crate) const STREAM: u64 = 0x9d2c_5680_efc6_0000;

/// How many numbers of a distribution over `ty` one block of four words gives.
pub(crate) fn numbers_per_block(kind: &str, ty: ElementType) -> usize {
    match kind {
        "rng_normal" | "rng_bernoulli" => {
            if ty == ElementType::F64 {
                2
            } else {
                4
            }
        }
        _ if ty == ElementType::F64 => 2,
        _ if ty.is_float() => 4,
        _ if ty.bits() > 32 => 1,
        _ => 2,
    }
}

/// `rng`: numbers of a distribution, from the state that the context holds, which advances.
fn distribution(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let shape = result_shape(inst)?;
    let parameter = |k: usize| -> Result<Scalar> {
        let a = array(inst, operands, k)?;
        if a.elements() == 1 { Ok(a.get(0)) } else { Err(invalid(inst, format!("operand {k} must be a scalar"))) }
    };
    let (a, b) = (parameter(0)?, parameter(1)?);
    let ty = shape.ty;
    let mut out = new_array(inst, shape)?;
    let count = out.elements();
    let kind = inst.attrs.word(AttrKey::Distribution).unwrap_or("rng_uniform");
    let lanes = numbers_per_block(kind, ty);
    let blocks = count.div_ceil(lanes);
    let [seed, counter] = cx.random_state(blocks as u64);
    for block in 0..blocks {
        let words = philox(seed, u128::from(counter.wrapping_add(block as u64)) | u128::from(STREAM) << 64);
        for scalar in 0..lanes {
            let value = match kind {
                "rng_normal" => normal(ty, words, scalar, a.as_f64(), b.as_f64()),
                "rng_bernoulli" => Scalar::Int(i64::from(bernoulli(ty, words, scalar, a.as_f64()))),
                _ if ty.is_float() => uniform(ty, words, scalar, a.as_f64(), b.as_f64()),
                _ => integer(ty, words, scalar, a, b),
            };
            // One vector an output of a block, one vector behind another.
            let i = scalar * blocks + block;
            if i < count {
                out.set(i, value);
            }
        }
    }
    Ok(out.into())
}

/// Bits of significand that a uniform draw of this type has.
pub(crate) fn significand(ty: ElementType) -> u32 {
    match ty {
        ElementType::F64 => 53,
        ElementType::F32 => 24,
        ElementType::F16 => 11,
        ElementType::BF16 => 8,
        _ => 4,
    }
}

/// Output `scalar` of a block as a number in `[0, 1)` of so many bits.
fn unit(ty: ElementType, words: [u32; 4], scalar: usize) -> f64 {
    if ty == ElementType::F64 {
        let draw = join(words[2 * scalar], words[2 * scalar + 1]);
        return (draw >> 11) as f64 * 0.5f64.powi(53);
    }
    let bits = significand(ty);
    f64::from(words[scalar] >> (32 - bits)) * 0.5f64.powi(bits as i32)
}

/// `low + u * (high - low)`, each step rounded to `f32` or `f64`, the result to its type; `low` where that is not below
/// `high`: rounding may reach the end of the half-open interval.
fn uniform(ty: ElementType, words: [u32; 4], scalar: usize, low: f64, high: f64) -> Scalar {
    let u = unit(ty, words, scalar);
    let value = if ty == ElementType::F64 {
        low + u * (high - low)
    } else {
        let (low, high) = (low as f32, high as f32);
        f64::from(low + u as f32 * (high - low))
    };
    let value = Scalar::Float(value).round_to(ty);
    if value.as_f64() < high { value } else { Scalar::Float(low) }
}

/// Whether a draw is below `p`.
fn bernoulli(ty: ElementType, words: [u32; 4], scalar: usize, p: f64) -> bool {
    let (ty, p) = if ty == ElementType::F64 { (ty, p) } else { (ElementType::F32, f64::from(p as f32)) };
    unit(ty, words, scalar) < p
}

/// Box and Muller: a pair of draws is a radius and an angle, and these are two numbers. A half more than a whole number
/// keeps the logarithm's argument off zero.
fn normal(ty: ElementType, words: [u32; 4], scalar: usize, mean: f64, deviation: f64) -> Scalar {
    use std::f64::consts::TAU;
    let (argument, angle) = if ty == ElementType::F64 {
        let (radius, angle) = (join(words[0], words[1]) >> 11, join(words[2], words[3]) >> 11);
        ((radius as f64 + 0.5) * 0.5f64.powi(53), TAU * (angle as f64 * 0.5f64.powi(53)))
    } else {
        let (radius, angle) = (words[scalar & 2], words[(scalar & 2) + 1] >> 8);
        let argument = (radius as f32 + 0.5) * 0.5f32.powi(32);
        (f64::from(argument), f64::from(TAU as f32 * (angle as f32 * 0.5f32.powi(24))))
    };
    let direction = if scalar.is_multiple_of(2) { angle.cos() } else { angle.sin() };
    Scalar::Float(mean + deviation * (-2.0 * argument.ln()).sqrt() * direction)
}

/// `low + floor(draw * (high - low) / 2^w)` with draws of `w` bits, twice as many as the numbers have, so that no
/// number is noticeably likelier than another; `low` where the interval holds no number.
fn integer(ty: ElementType, words: [u32; 4], scalar: usize, low: Scalar, high: Scalar) -> Scalar {
    let (low, high) = (i64::from_scalar(low), i64::from_scalar(high));
    let some = if ty.is_signed_integer() { low < high } else { (low as u64) < high as u64 };
    let range = if some { high.wrapping_sub(low) as u64 } else { 0 };
    let offset = if ty.bits() > 32 {
        let (less, more) = (u128::from(join(words[0], words[1])), u128::from(join(words[2], words[3])));
        let range = u128::from(range);
        (more * range + ((less * range) >> 64)) >> 64
    } else {
        let draw = join(words[2 * scalar], words[2 * scalar + 1]);
        (u128::from(draw) * u128::from(range)) >> 64
    };
    Scalar::Int(low.wrapping_add(offset as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::dense::testing::{check, run};

    /// The known answers published with the paper's reference implementation.
    #[test]
    fn block_functions_give_the_published_answers() {
        assert_eq!(threefry(0, 0), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry(u64::MAX, u64::MAX), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, u128::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn threefry_counts_blocks_and_drops_the_odd_word() {
        assert_eq!(threefry_draws(42, 7, &[4, 5], false).1, 17);
        assert_eq!(threefry_draws(42, 7, &[7], false).1, 11);
        assert_eq!(threefry_draws(42, 7, &[4, 5], true).1, 27);
        assert_eq!(threefry_draws(3, 3, &[], true).1, 4);
        let (draws, _) = threefry_draws(42, 7, &[3], false);
        assert_eq!(draws[..2], threefry(42, 7).map(u64::from));
        assert_eq!(draws[2], u64::from(threefry(42, 8)[0]));
    }

    #[test]
    fn rng_stays_in_its_interval_and_moves_on() -> Result<()> {
        let body = "a = f32[] constant(2)\n b = f32[] constant(3)
            x = f32[1000] rng(a, b), distribution=rng_uniform\n y = f32[1000] rng(a, b), distribution=rng_uniform
            n = f32[1000] rng(a, b), distribution=rng_normal\n i = s32[] constant(-2)\n j = s32[] constant(2)
            k = s32[1000] rng(i, j), distribution=rng_uniform
            ROOT r = (f32[1000], f32[1000], f32[1000], s32[1000]) tuple(x, y, n, k)";
        let first = run("", body)?;
        assert!(first == run("", body)?, "the same seed gives the same numbers");
        let arrays = first.arrays();
        let mean = |a: &ArrayLiteral| f64::read(a).iter().sum::<f64>() / 1000.0;
        assert!(f64::read(arrays[0]).iter().all(|v| (2.0..3.0).contains(v)));
        assert!((mean(arrays[0]) - 2.5).abs() < 0.05);
        assert!(arrays[0] != arrays[1]);
        assert!((mean(arrays[2]) - 2.0).abs() < 0.4);
        let integers = i64::read(arrays[3]);
        assert!((-2..3).all(|v| integers.contains(&v) == (v < 2)));
        Ok(())
    }

    #[test]
    fn rng_bit_generator_yields_the_next_state() {
        check(
            "",
            "s = u64[3] constant({42,7,3})\n ROOT r = (u64[3], u32[7]) rng-bit-generator(s), algorithm=rng_philox",
            "({42,9,3},{1704915664,3053594036,338905745,2567535385,2574784312,68369965,3742335541})",
        );
        check(
            "",
            "s = u64[2] constant({3,3})\n ROOT r = (u64[2], u64[]) rng-bit-generator(s), algorithm=rng_three_fry",
            "({3,4},3349939604322698703)",
        );
    }
}
