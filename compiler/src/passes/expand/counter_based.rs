//! The block functions of counter-based generators, as arithmetic on words.
//!
//! Invariant: what is emitted computes, bit for bit, the functions of `interp/random.rs`: Threefry-2x32-20 and
//! Philox-4x32-10, where array element `i` is block `first + i`. Algorithm: everything is arithmetic on 32-bit words,
//! which vectors have; a product of two words is its low half and its high half, never a 64-bit product. The key is the
//! same for all blocks, so that the rounds' keys are scalars. Every value of a block follows from the counter's low
//! word, of which fusion makes one kernel.

use super::formula::{Formula, compare, iota};
use crate::hlo::{InstructionId, Opcode};
use brolga_runtime::{ElementType, Scalar};

/// From here on the number of a block takes more than a word.
const WIDE: i64 = 1 << 32;

fn word(f: &mut Formula<'_, '_>, like: InstructionId, value: u32) -> InstructionId {
    f.beside(like, Scalar::UInt(u64::from(value)))
}

/// The words of `first + i` for every element `i` of a vector, as many words as `first` has; scalars come in, low word
/// first.
pub fn counters(f: &mut Formula<'_, '_>, first: &[InstructionId]) -> Vec<InstructionId> {
    if f.dims.iter().product::<i64>() >= WIDE {
        return wide_counters(f, first);
    }
    let dims = f.dims.clone();
    let index = iota(f.rw, ElementType::U32, &dims, 0);
    let mut carry: Option<InstructionId> = None;
    let mut words = Vec::with_capacity(first.len());
    for (k, &word) in first.iter().enumerate() {
        let word = f.broadcast(word);
        let sum = match carry {
            None => f.add(word, index),
            Some(carry) => {
                let one = f.convert(carry, ElementType::U32);
                f.add(word, one)
            }
        };
        // A sum that wraps is less than what it grew from.
        carry = (k + 1 < first.len()).then(|| f.less(sum, word));
        words.push(sum);
    }
    words
}

/// As [`counters`], for vectors whose elements a word cannot count.
fn wide_counters(f: &mut Formula<'_, '_>, first: &[InstructionId]) -> Vec<InstructionId> {
    let dims = f.dims.clone();
    let index = iota(f.rw, ElementType::U64, &dims, 0);
    let mut carry: Option<InstructionId> = None;
    let mut words = Vec::with_capacity(first.len());
    for pair in first.chunks(2) {
        let low = f.broadcast(pair[0]);
        let number = match pair.get(1) {
            Some(&high) => {
                let high = f.broadcast(high);
                f.join(low, high)
            }
            None => f.convert(low, ElementType::U64),
        };
        let more = match carry {
            None => index,
            Some(carry) => f.convert(carry, ElementType::U64),
        };
        let sum = f.add(number, more);
        carry = Some(compare(f.rw, sum, "LT", number));
        words.extend(f.halves(sum).into_iter().take(pair.len()));
    }
    words
}

/// Threefry-2x32 with twenty rounds; `key` are scalars, `counter` words of an array.
pub fn threefry(f: &mut Formula<'_, '_>, key: [InstructionId; 2], counter: [InstructionId; 2]) -> [InstructionId; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: u32 = 0x1bd1_1bda;
    let both = f.xor(key[0], key[1]);
    let parity = word(f, both, PARITY);
    let schedule = [key[0], key[1], f.xor(both, parity)];
    let broadcast = schedule.map(|k| f.broadcast(k));
    let mut x = f.add(counter[0], broadcast[0]);
    let mut y = f.add(counter[1], broadcast[1]);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = f.add(x, y);
            let (left, right) = (f.shl(y, rotation), f.shr(y, 32 - rotation));
            let turned = f.op(Opcode::Or, &[left, right]);
            y = f.xor(turned, x);
        }
        x = f.add(x, broadcast[(group + 1) % 3]);
        let key = schedule[(group + 2) % 3];
        let number = word(f, key, group as u32 + 1);
        let key = f.add(key, number);
        let key = f.broadcast(key);
        y = f.add(y, key);
    }
    [x, y]
}

/// Philox-4x32 with ten rounds; `key` are scalars, `counter` words of an array.
pub fn philox(f: &mut Formula<'_, '_>, key: [InstructionId; 2], counter: [InstructionId; 4]) -> [InstructionId; 4] {
    const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    let mut x = counter;
    for round in 0..10u32 {
        let keys = [0, 1].map(|k| {
            let step = word(f, key[k], WEYL[k].wrapping_mul(round));
            let key = f.add(key[k], step);
            f.broadcast(key)
        });
        let products = [(x[0], MULTIPLIERS[0]), (x[2], MULTIPLIERS[1])].map(|(x, by)| {
            let by = word(f, x, by);
            (f.mul(x, by), f.mul_high(x, by))
        });
        let [(first_low, first_high), (second_low, second_high)] = products;
        let (a, c) = (f.xor(second_high, x[1]), f.xor(first_high, x[3]));
        x = [f.xor(a, keys[0]), second_low, f.xor(c, keys[1]), first_low];
    }
    x
}

#[cfg(test)]
pub(super) mod testing {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::interp;
    use crate::passes::expand::formula::pick;
    use crate::passes::rewrite::append;
    use brolga_runtime::{ArrayLiteral, Literal};

    /// The words of the counters from `first` on, in the form for short and in that for long vectors.
    pub fn both(first: [u64; 2], count: i64) -> [Vec<Vec<u32>>; 2] {
        [counters, wide_counters].map(|form| {
            let source = "HloModule m\nENTRY e { ROOT s = u64[2] parameter(0) }";
            let mut module = crate::text::parse(source).unwrap();
            let entry = module.entry;
            append(&mut module, entry, |rw| {
                let state = rw.computation().root;
                let words = [pick(rw, state, 0), pick(rw, state, 1)];
                let mut f = Formula::new(rw, &[count]);
                let [low, high] = words.map(|w| f.halves(w));
                let all = form(&mut f, &[low[0], low[1], high[0], high[1]]);
                Ok(f.rw.tuple(all))
            })
            .unwrap();
            crate::shape::verify(&module).unwrap();
            let state = Literal::Array(ArrayLiteral::from_elements(&[2], &first));
            let out = interp::run(&module, &[state], &Default::default()).unwrap();
            out.arrays().iter().map(|a| a.as_slice::<u32>().to_vec()).collect()
        })
    }
}
