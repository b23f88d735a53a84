//! Integers divided by a constant: a product's high half and shifts.
//!
//! Source: the bounds of T. Granlund and P. L. Montgomery, "Division by Invariant Integers using Multiplication". For `w` bits, `x / d` is
//! `x * m / 2^(w + s)` for every `x` where `m = floor(2^(w + s) / d) + 1` and `m * d - 2^(w + s)` is at most `2^s`; for signed numbers, whose
//! magnitude has a bit less, at most `2^(s + 1)`.

use crate::kernel::body::{Body, IntCond, NodeId};

/// The quotient toward zero by a constant that is neither 0 nor 1 nor, where it is signed, -1; `None` of any other divisor.
pub fn quotient(b: &mut Body, signed: bool, x: NodeId, divisor: NodeId) -> Option<NodeId> {
    let bits = b.scalar(x).bits();
    let known = b.constant_bits(divisor)?;
    if !signed {
        return (known >= 2).then(|| unsigned(b, bits, x, known));
    }
    let d = if bits == 32 { i64::from(known as i32) } else { known as i64 };
    let magnitude = d.unsigned_abs();
    if magnitude < 2 {
        return None;
    }
    let quotient = toward_zero(b, bits, x, magnitude);
    Some(if d > 0 {
        quotient
    } else {
        let zero = b.int(b.scalar(x), 0);
        b.isub(zero, quotient)
    })
}

/// What is left of a division by a constant, as [`quotient`] has it.
pub fn remainder(b: &mut Body, signed: bool, x: NodeId, divisor: NodeId) -> Option<NodeId> {
    let quotient = quotient(b, signed, x, divisor)?;
    let whole = b.imul(quotient, divisor);
    Some(b.isub(x, whole))
}

/// The least `s` and its factor for numbers of so many bits, of which `signs` is not part of the magnitude.
fn factor(bits: u32, d: u64, signs: u32) -> (u128, u32) {
    let of = |s: u32| (1u128 << (bits + s)) / u128::from(d) + 1;
    let near = |s: &u32| of(*s) * u128::from(d) - (1u128 << (bits + s)) <= 1u128 << (s + signs);
    let most = d.ilog2() + 1 - signs;
    let s = (0..most).find(near).unwrap_or(most);
    (of(s), s)
}

fn unsigned(b: &mut Body, bits: u32, x: NodeId, d: u64) -> NodeId {
    let scalar = b.scalar(x);
    if d.is_power_of_two() {
        return b.lshr_imm(x, d.trailing_zeros() as u8);
    }
    if d > 1 << (bits - 1) {
        let divisor = b.bits(scalar, d);
        let fits = b.icmp(IntCond::UGe, x, divisor);
        return b.mask_to_int(fits);
    }
    let (whole, s) = factor(bits, d, 0);
    let low = b.bits(scalar, (whole & ((1u128 << bits) - 1)) as u64);
    let high = b.umulhi(x, low);
    if whole >> bits == 0 {
        return if s == 0 { high } else { b.lshr_imm(high, s as u8) };
    }
    // The factor has a bit more: x is added to the high half, without the carry that their sum would lose.
    let rest = b.isub(x, high);
    let half = b.lshr_imm(rest, 1);
    let sum = b.iadd(half, high);
    if s == 1 { sum } else { b.lshr_imm(sum, (s - 1) as u8) }
}

fn toward_zero(b: &mut Body, bits: u32, x: NodeId, magnitude: u64) -> NodeId {
    let scalar = b.scalar(x);
    if magnitude.is_power_of_two() {
        // What is below zero is rounded up: it gets all that the shift takes away.
        let by = magnitude.trailing_zeros() as u8;
        let sign = b.ashr_imm(x, bits as u8 - 1);
        let more = b.lshr_imm(sign, bits as u8 - by);
        let sum = b.iadd(x, more);
        return b.ashr_imm(sum, by);
    }
    let (whole, s) = factor(bits, magnitude, 1);
    let low = b.bits(scalar, whole as u64);
    let mut high = b.smulhi(x, low);
    if whole >> (bits - 1) != 0 {
        // The factor is taken for a negative number, 2^bits less.
        high = b.iadd(high, x);
    }
    let shifted = if s == 0 { high } else { b.ashr_imm(high, s as u8) };
    let negative = b.lshr_imm(x, bits as u8 - 1);
    b.iadd(shifted, negative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::body::ScalarType;
    use crate::kernel::eval::eval;

    /// Numbers around powers of two and their neighbours, and what a generator gives.
    fn numbers(bits: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - bits);
        let mut all: Vec<u64> = (0..bits).flat_map(|k| [(1u64 << k) - 1, 1 << k, (1 << k) + 1]).collect();
        all.extend((0..40).map(|k| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * k + 1) >> (k % 40)));
        all.extend([3, 5, 6, 7, 9, 10, 11, 12, 25, 60, 100, 125, 641, 1000, 3600, 86_400, 1_000_000_007]);
        let negative: Vec<u64> = all.iter().map(|n| n.wrapping_neg()).collect();
        all.extend(negative);
        all.iter().map(|n| n & mask).collect()
    }

    #[test]
    fn quotients_and_remainders() {
        for (scalar, bits) in [(ScalarType::I32, 32), (ScalarType::I64, 64)] {
            let all = numbers(bits);
            let wide = |n: u64| if bits == 32 { i64::from(n as i32) } else { n as i64 };
            for &d in &all {
                for signed in [false, true] {
                    let mut b = Body::new();
                    let (x, divisor) = (b.arg(0, scalar), b.bits(scalar, d));
                    let found = quotient(&mut b, signed, x, divisor).zip(remainder(&mut b, signed, x, divisor));
                    let trivial = if signed { wide(d).unsigned_abs() < 2 } else { d < 2 };
                    let Some((q, r)) = found else {
                        assert!(trivial, "no quotient by {d:#x}");
                        continue;
                    };
                    assert!(!trivial);
                    // Multiples and what is beside them are where a quotient goes wrong.
                    let multiples = all.iter().flat_map(|k| [k.wrapping_mul(d), k.wrapping_mul(d).wrapping_sub(1)]);
                    for n in all.iter().copied().chain(multiples).map(|n| n & (u64::MAX >> (64 - bits))) {
                        let values = eval(b.nodes(), &[n]);
                        let want = match signed {
                            false => [n / d, n % d],
                            true => [wide(n).wrapping_div(wide(d)) as u64, wide(n).wrapping_rem(wide(d)) as u64],
                        };
                        let want = want.map(|v| Some(v & (u64::MAX >> (64 - bits))));
                        let got = [q, r].map(|id| values[id.0 as usize]);
                        assert_eq!(got, want, "{n:#x} by {d:#x}, {bits} bits, signed: {signed}");
                    }
                }
            }
        }
    }
}
