//! Elements combined: loops over bytes that the compiler of this crate makes vectors of.
//!
//! Invariant: every element is combined in the group's order and rounded to its type after each step, so that results do
//! not depend on who computes them, or when.

use super::Reduction;
use crate::ElementType;
use half::{bf16, f16};

/// Whether elements of a type are combined here in such a way; other combinations are the compiled program's own work.
pub fn supports(reduction: Reduction, ty: ElementType) -> bool {
    use ElementType::*;
    match ty {
        Pred => true,
        S8 | S16 | S32 | S64 | U8 | U16 | U32 | U64 => true,
        F16 | BF16 | F32 | F64 => {
            matches!(reduction, Reduction::Add | Reduction::Multiply | Reduction::Minimum | Reduction::Maximum)
        }
        C64 | C128 => reduction == Reduction::Add,
        _ => false,
    }
}

/// `out = left op right`, element by element; `left` is what `out` holds where it is `None`. All have the same length.
/// `false` where [`supports`] says so.
pub(super) fn combine(
    reduction: Reduction,
    ty: ElementType,
    out: &mut [u8],
    left: Option<&[u8]>,
    right: &[u8],
) -> bool {
    use ElementType::*;
    macro_rules! integers {
        ($t:ty) => {
            match reduction {
                Reduction::Add => numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, <$t>::wrapping_add),
                Reduction::Multiply => {
                    numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, <$t>::wrapping_mul)
                }
                Reduction::Minimum => {
                    numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, |a, b| a.min(b))
                }
                Reduction::Maximum => {
                    numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, |a, b| a.max(b))
                }
                Reduction::And => numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, |a, b| a & b),
                Reduction::Or => numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, |a, b| a | b),
                Reduction::Xor => numbers(out, left, right, <$t>::from_ne_bytes, <$t>::to_ne_bytes, |a, b| a ^ b),
            }
        };
    }
    macro_rules! floats {
        ($load:expr, $store:expr, $t:ty) => {
            match reduction {
                Reduction::Add => numbers(out, left, right, $load, $store, |a: $t, b: $t| a + b),
                Reduction::Multiply => numbers(out, left, right, $load, $store, |a: $t, b: $t| a * b),
                Reduction::Minimum => numbers(out, left, right, $load, $store, |a: $t, b: $t| {
                    // Of two zeros the negative one.
                    let or = <$t>::from_bits(a.to_bits() | b.to_bits());
                    let least = if a < b { a } else { b };
                    let least = if a == b { or } else { least };
                    if a.is_nan() { a } else { least }
                }),
                Reduction::Maximum => numbers(out, left, right, $load, $store, |a: $t, b: $t| {
                    let and = <$t>::from_bits(a.to_bits() & b.to_bits());
                    let most = if a > b { a } else { b };
                    let most = if a == b { and } else { most };
                    if a.is_nan() { a } else { most }
                }),
                Reduction::And | Reduction::Or | Reduction::Xor => return false,
            }
        };
    }
    match ty {
        Pred => match reduction {
            Reduction::Add | Reduction::Or | Reduction::Maximum => truths(out, left, right, |a, b| a | b),
            Reduction::Multiply | Reduction::And | Reduction::Minimum => truths(out, left, right, |a, b| a & b),
            Reduction::Xor => truths(out, left, right, |a, b| a ^ b),
        },
        S8 => integers!(i8),
        S16 => integers!(i16),
        S32 => integers!(i32),
        S64 => integers!(i64),
        U8 => integers!(u8),
        U16 => integers!(u16),
        U32 => integers!(u32),
        U64 => integers!(u64),
        F16 => floats!(|b| f16::from_ne_bytes(b).to_f32(), |x| f16::from_f32(x).to_ne_bytes(), f32),
        BF16 => floats!(|b| bf16::from_ne_bytes(b).to_f32(), |x| bf16::from_f32(x).to_ne_bytes(), f32),
        F32 => floats!(f32::from_ne_bytes, f32::to_ne_bytes, f32),
        F64 => floats!(f64::from_ne_bytes, f64::to_ne_bytes, f64),
        // Sums of complex numbers are sums of their parts.
        C64 if reduction == Reduction::Add => floats!(f32::from_ne_bytes, f32::to_ne_bytes, f32),
        C128 if reduction == Reduction::Add => floats!(f64::from_ne_bytes, f64::to_ne_bytes, f64),
        _ => return false,
    }
    true
}

/// Elements of `N` bytes, read as `T`.
fn numbers<const N: usize, T>(
    out: &mut [u8],
    left: Option<&[u8]>,
    right: &[u8],
    load: impl Fn([u8; N]) -> T,
    store: impl Fn(T) -> [u8; N],
    combine: impl Fn(T, T) -> T,
) {
    let (out, right) = (out.as_chunks_mut::<N>().0, right.as_chunks::<N>().0);
    match left {
        Some(left) => {
            for ((to, a), b) in out.iter_mut().zip(left.as_chunks::<N>().0).zip(right) {
                *to = store(combine(load(*a), load(*b)));
            }
        }
        None => {
            for (to, b) in out.iter_mut().zip(right) {
                *to = store(combine(load(*to), load(*b)));
            }
        }
    }
}

/// Truth values: 0, or anything else.
fn truths(out: &mut [u8], left: Option<&[u8]>, right: &[u8], combine: impl Fn(bool, bool) -> bool) {
    numbers(out, left, right, |[b]: [u8; 1]| b != 0, |b| [u8::from(b)], combine);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayLiteral, ArrayShape, Scalar};

    #[test]
    fn what_is_supported_is_combined_and_nothing_else() {
        for &ty in ElementType::ALL {
            for &reduction in Reduction::ALL {
                let bytes = vec![0u8; ty.byte_size() * 3];
                let mut out = bytes.clone();
                assert_eq!(combine(reduction, ty, &mut out, Some(&bytes), &bytes), supports(reduction, ty), "{ty}");
            }
        }
    }

    #[test]
    fn values_at_the_edges() {
        let mut out = [0u8; 16];
        let bytes = |x: [f32; 4]| x.map(f32::to_ne_bytes).concat();
        let (a, b) = (bytes([-0.0, 0.0, f32::NAN, 1.0]), bytes([0.0, -0.0, 1.0, f32::NAN]));
        let floats = |out: &[u8]| out.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect::<Vec<_>>();
        assert!(combine(Reduction::Maximum, ElementType::F32, &mut out, Some(&a), &b));
        let max = floats(&out);
        assert!(max[..2].iter().all(|x| x.to_bits() == 0) && max[2..].iter().all(|x| x.is_nan()), "{max:?}");
        assert!(combine(Reduction::Minimum, ElementType::F32, &mut out, Some(&a), &b));
        let min = floats(&out);
        assert!(min[..2].iter().all(|x| x.to_bits() == 1 << 31) && min[2..].iter().all(|x| x.is_nan()), "{min:?}");
        let mut sum = [200u8, 7];
        assert!(combine(Reduction::Add, ElementType::U8, &mut sum, None, &[100, 1]));
        assert_eq!(sum, [44, 8]);
    }

    #[test]
    fn narrow_floats_are_rounded_at_each_step() {
        let array = |x: f64| {
            let mut a = ArrayLiteral::zeros(&ArrayShape::new(ElementType::BF16, [1]));
            a.set(0, Scalar::Float(x));
            a.bytes().to_vec()
        };
        let mut sum = array(256.0);
        for _ in 0..3 {
            assert!(combine(Reduction::Add, ElementType::BF16, &mut sum, None, &array(1.0)));
        }
        assert_eq!(sum, array(256.0), "a bf16 of 256 grows by no one");
    }
}
