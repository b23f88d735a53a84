//! Floats divided by a constant, where the dividends are known to be neither tiny nor huge: pixels, counts, coordinates.
//!
//! Source: N. Brisebarre, J.-M. Muller and S. K. Raina, "Accelerating Correctly Rounded Floating-Point Division When the Divisor Is Known in
//! Advance", and P. Markstein before them. With `r` the rounded reciprocal, `q = x r`, `e = x - q c` and `q + e r`, each rounded once, the
//! last is `x / c` rounded, but where that lies within a few units of `1 / c` of the middle between two floats. The dividends of such
//! quotients are solutions of a congruence, a few for each divisor: each is tried when the program is compiled ([`certified`]).

use crate::kernel::body::{Body, NodeId, Op, ScalarType, Variant};

/// So many steps are taken to what a dividend is made of.
const STEPS: u32 = 8;
/// Quotients within so many units of the middle between two floats may be rounded to the wrong side: an error of the product of 1.5 in the
/// last place, a rounded remainder and a rounded reciprocal come to less than 7.
const UNITS: u64 = 8;

/// The floats of a scalar type.
#[derive(Clone, Copy)]
struct Format {
    /// Bits of a mantissa.
    precision: i32,
    /// Exponents of the least and the greatest normal numbers.
    least: i32,
    greatest: i32,
    /// Whether the quotient of two mantissas comes out right without a division.
    rounds_right: fn(u64, u64) -> bool,
}

impl Format {
    fn of(scalar: ScalarType) -> Option<Format> {
        match scalar {
            ScalarType::F32 => {
                Some(Format { precision: 24, least: -126, greatest: 127, rounds_right: rounds_right_f32 })
            }
            ScalarType::F64 => {
                Some(Format { precision: 53, least: -1022, greatest: 1023, rounds_right: rounds_right_f64 })
            }
            ScalarType::I32 | ScalarType::I64 | ScalarType::M32 | ScalarType::M64 => None,
        }
    }

    /// The exponent of the unit that all its floats are multiples of.
    fn unit(self) -> i32 {
        self.least - self.precision + 1
    }
}

/// What the finite values of a node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    /// All are multiples of 2 to this, ...
    unit: i32,
    /// ... and in magnitude at most 2 to that.
    most: i32,
    /// Whether some may be -0.
    negative_zero: bool,
}

impl Values {
    /// Those of a node, as far as so many steps say; `None` where some may be infinite, NaN or anything.
    fn of(b: &Body, id: NodeId, steps: u32) -> Option<Values> {
        let node = b.node(id);
        let format = Format::of(node.scalar)?;
        let deeper = |k: usize| Values::of(b, *node.args.get(k)?, steps.checked_sub(1)?);
        let either = |x: Values, y: Values| Values {
            unit: x.unit.min(y.unit),
            most: x.most.max(y.most),
            negative_zero: x.negative_zero || y.negative_zero,
        };
        let product = |x: Values, y: Values| (x.unit.saturating_add(y.unit), x.most.saturating_add(y.most));
        let all = match &node.op {
            Op::Const(bits) => Values::constant(node.scalar.float(*bits)?)?,
            Op::SToF | Op::UToF => {
                let x = *node.args.first()?;
                let (low, high) = b.range(x, STEPS);
                let bits = match &node.op {
                    Op::UToF if low < 0 => b.scalar(x).bits(),
                    _ => u64::BITS - low.unsigned_abs().max(high.unsigned_abs()).leading_zeros(),
                };
                Values { unit: 0, most: bits as i32, negative_zero: false }
            }
            Op::Promote | Op::Demote => deeper(0)?,
            Op::FNeg => Values { negative_zero: true, ..deeper(0)? },
            Op::FAbs => Values { negative_zero: false, ..deeper(0)? },
            Op::Floor | Op::Ceil | Op::Trunc | Op::Nearest => {
                let x = deeper(0)?;
                Values { unit: x.unit.max(0), most: x.most.max(0), negative_zero: true }
            }
            Op::FAdd | Op::FSub => {
                let (x, y) = (deeper(0)?, deeper(1)?);
                // A sum is -0 where both are, and a difference where the first is: what cancels is +0.
                let negative_zero = x.negative_zero && (node.op == Op::FSub || y.negative_zero);
                Values { unit: x.unit.min(y.unit), most: x.most.max(y.most).saturating_add(1), negative_zero }
            }
            Op::FMul => {
                let (x, y) = (deeper(0)?, deeper(1)?);
                let (unit, most) = product(x, y);
                let positive = |k: usize| {
                    let factor = b.constant_bits(*node.args.get(k)?)?;
                    node.scalar.float(factor).filter(|&c| c > 0.0)
                };
                let negative_zero = match (positive(0), positive(1)) {
                    (Some(_), _) => y.negative_zero,
                    (_, Some(_)) => x.negative_zero,
                    (None, None) => true,
                };
                Values { unit, most, negative_zero }
            }
            Op::Fma => {
                let ((unit, most), z) = (product(deeper(0)?, deeper(1)?), deeper(2)?);
                let most = most.max(z.most).saturating_add(1);
                Values { unit: unit.min(z.unit), most, negative_zero: z.negative_zero }
            }
            Op::FMinPseudo | Op::FMaxPseudo => either(deeper(0)?, deeper(1)?),
            Op::Select => either(deeper(1)?, deeper(2)?),
            _ => return None,
        };
        // What is smaller than all floats becomes one of their least, or a zero of either sign.
        let negative_zero = all.negative_zero || all.unit < format.unit();
        (all.most < format.greatest).then_some(Values { unit: all.unit.max(format.unit()), negative_zero, ..all })
    }

    fn constant(c: f64) -> Option<Values> {
        let negative_zero = c == 0.0 && c.is_sign_negative();
        let (mantissa, exponent) = parts(c)?;
        if mantissa == 0 {
            return Some(Values { unit: 0, most: 0, negative_zero });
        }
        let bits = (u64::BITS - mantissa.leading_zeros()) as i32;
        Some(Values { unit: exponent + mantissa.trailing_zeros() as i32, most: exponent + bits, negative_zero })
    }
}

/// The magnitude of a finite number as an integer of up to 53 bits times a power of two.
fn parts(x: f64) -> Option<(u64, i32)> {
    let field = (x.to_bits() >> 52 & 0x7ff) as i32;
    let fraction = x.to_bits() & ((1 << 52) - 1);
    match field {
        0x7ff => None,
        0 => Some((fraction, -1074)),
        _ => Some((fraction | 1 << 52, field - 1075)),
    }
}

/// The quotient by a constant without a division; `None` where it is not known to be the same.
pub fn divide_by_constant(b: &mut Body, v: Variant, x: NodeId, divisor: NodeId) -> Option<NodeId> {
    let scalar = b.scalar(x);
    let format = Format::of(scalar)?;
    let c = scalar.float(b.constant_bits(divisor)?)?;
    let (mantissa, exponent) = parts(c).filter(|&(mantissa, _)| mantissa != 0)?;
    let least = exponent + (u64::BITS - 1 - mantissa.leading_zeros()) as i32;
    // Both the divisor and its reciprocal are normal.
    if least < format.least || least > -format.least - 2 {
        return None;
    }
    let reciprocal = if scalar == ScalarType::F32 { f64::from(1.0 / c as f32) } else { 1.0 / c };
    if mantissa.is_power_of_two() {
        let r = b.float(scalar, reciprocal);
        return Some(b.fmul(x, r));
    }
    let dividends = Values::of(b, x, STEPS).filter(|all| !all.negative_zero && v == Variant::Fma)?;
    let (unit, most) = (dividends.unit - least, dividends.most - least);
    // A product is a normal number, and what is left of a dividend is a multiple of the least float.
    let fits = most + 1 < format.greatest && unit - 2 >= format.least;
    let exact = dividends.unit - 2 * format.precision >= format.unit();
    // In the scalar type's precision, with the first bit set.
    let mantissa = mantissa << mantissa.leading_zeros() >> (u64::BITS as i32 - format.precision);
    if !(fits && exact && certified(format.precision, mantissa, &|x| (format.rounds_right)(x, mantissa))) {
        return None;
    }
    let (r, minus) = (b.float(scalar, reciprocal), b.float(scalar, -c));
    let q = b.fmul(x, r);
    let rest = b.mul_add(v, q, minus, x);
    Some(b.mul_add(v, rest, r, q))
}

macro_rules! rounds_right {
    ($($name:ident: $float:ty;)*) => {$(
        /// Whether the quotient of two mantissas comes out right.
        fn $name(x: u64, c: u64) -> bool {
            let (x, c) = (x as $float, c as $float);
            let r = 1.0 / c;
            let q = x * r;
            (-q).mul_add(c, x).mul_add(r, q) == x / c
        }
    )*};
}

rounds_right! {
    rounds_right_f32: f32;
    rounds_right_f64: f64;
}

/// Whether all mantissas `x` of so many bits are right whose quotient by `c`, no power of two, lies within [`UNITS`] of the middle between
/// two floats: `x 2^s = n c + k` for an odd `n` and a small `k`, where `s` is the precision, or one more where `x` is less than `c`.
fn certified(precision: i32, c: u64, right: &dyn Fn(u64) -> bool) -> bool {
    let zeros = c.trailing_zeros();
    let odd = c >> zeros;
    let times = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(odd)) as u64;
    // 2^-1 modulo an odd number.
    let half = odd / 2 + 1;
    let power = |n: u32| (0..n).fold(1, |product, _| times(product, half));
    let precision = precision as u32;
    [precision, precision + 1].into_iter().all(|s| {
        let inverse = power(s - zeros);
        (1..=UNITS).filter(|k| k.trailing_zeros() >= zeros).all(|k| {
            let above = times(inverse, k >> zeros);
            [above, (odd - above) % odd].into_iter().all(|first| {
                let begin = 1u64 << (precision - 1);
                let start = begin + (first + odd - begin % odd) % odd;
                (start..begin << 1).step_by(odd as usize).all(right)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::body::Mem;
    use crate::kernel::index::Ix;

    /// How many mantissas have a wrong quotient.
    fn wrong(c: u64) -> usize {
        (1u64 << 23..1 << 24).filter(|&x| !rounds_right_f32(x, c)).count()
    }

    fn is_certified(c: u64) -> bool {
        certified(24, c, &|x| rounds_right_f32(x, c))
    }

    #[test]
    fn what_is_certified_is_right_for_every_mantissa() {
        for c in [255u64 << 16, 0xe147ae, 3 << 22, 0xaaaaab, (1 << 24) - 1] {
            assert!(is_certified(c), "{c:#x}");
            assert_eq!(wrong(c), 0, "{c:#x}");
        }
    }

    #[test]
    fn every_quotient_near_the_middle_of_two_floats_is_tried() {
        for c in [255u64 << 16, 0xe147ae, 3 << 22, 0xffffff, 0x800001, 0xcccccd] {
            let tried = std::cell::RefCell::new(std::collections::HashSet::new());
            let try_it = |x| {
                tried.borrow_mut().insert(x);
                true
            };
            assert!(certified(24, c, &try_it));
            let near = |x: u64| {
                [24, 25].into_iter().any(|s| {
                    let odd = (x << s) / c / 2 * 2 + 1;
                    (x << s).abs_diff(odd * c) <= UNITS
                })
            };
            let missed = (1u64 << 23..1 << 24).filter(|&x| near(x) && !tried.borrow().contains(&x)).count();
            assert_eq!(missed, 0, "{c:#x}");
        }
    }

    #[test]
    fn a_product_with_the_reciprocal_is_not_certified() {
        let c = 0xe147afu64;
        let product = |x: u64| x as f32 * (1.0 / c as f32) == x as f32 / c as f32;
        assert!((1u64 << 23..1 << 24).any(|x| !product(x)));
        assert!(!certified(24, c, &product));
    }

    fn divisions(ty: ScalarType, c: f64, load: impl Fn(&mut Body) -> NodeId) -> usize {
        let mut b = Body::new();
        let x = load(&mut b);
        let c = b.float(ty, c);
        let q = divide_by_constant(&mut b, Variant::Fma, x, c).unwrap_or_else(|| b.fdiv(x, c));
        let wanted = b.needed([q]);
        b.nodes().iter().zip(wanted).filter(|(n, wanted)| *wanted && n.op == Op::FDiv).count()
    }

    #[test]
    fn dividends_are_known() {
        let pixel = |ty: ScalarType| {
            move |b: &mut Body| {
                let x = b.push(Op::Load(0, Mem::U8, Ix::constant(0)), &[], ScalarType::I32);
                b.push(Op::UToF, &[x], ty)
            }
        };
        assert_eq!(divisions(ScalarType::F32, 255.0, pixel(ScalarType::F32)), 0);
        assert_eq!(divisions(ScalarType::F64, 255.0, pixel(ScalarType::F64)), 0);
        assert_eq!(divisions(ScalarType::F32, 1e-38, pixel(ScalarType::F32)), 1, "a quotient may be infinite");
        let shifted = |b: &mut Body| {
            let x = pixel(ScalarType::F32)(b);
            let c = b.float(ScalarType::F32, 127.5);
            b.fsub(x, c)
        };
        assert_eq!(divisions(ScalarType::F32, 127.5, shifted), 0);
        let negative = |b: &mut Body| {
            let x = pixel(ScalarType::F32)(b);
            b.fneg(x)
        };
        assert_eq!(divisions(ScalarType::F32, 255.0, negative), 1, "a dividend may be -0");
        let any = |b: &mut Body| b.push(Op::Load(0, Mem::F32, Ix::constant(0)), &[], ScalarType::F32);
        assert_eq!(divisions(ScalarType::F32, 255.0, any), 1, "a dividend may be anything");
        assert_eq!(divisions(ScalarType::F32, -0.25, any), 0, "powers of two divide by a product");
        let tiny = |b: &mut Body| {
            let x = pixel(ScalarType::F32)(b);
            let c = b.float(ScalarType::F32, 2f64.powi(-110));
            b.fmul(x, c)
        };
        assert_eq!(
            divisions(ScalarType::F32, 255.0, tiny),
            1,
            "what is left of a dividend may be too small for a float"
        );
    }
}
