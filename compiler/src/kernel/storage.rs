//! Between the bytes of an element and the scalar type it is computed in.
//!
//! Problem: thirty element types meet six scalar types. Invariant: a value in its compute type is the element's value exactly
//! (small integers extended by their own sign, narrow floats as `f32`, truth values as masks), and [`encode`] of
//! [`decode`] gives the stored bits back, those of NaN too. Algorithm: a narrow float's magnitude, shifted into the
//! fields of an `f32`, is off by a power of two only, which one product mends for normal and subnormal numbers alike.
//! The other way the rounding is done on the integer for normal results, and for subnormal ones by adding a number
//! whose last bit is the format's smallest one. Results agree with `brolga_runtime::narrow`.

use super::body::{Body, FloatCond, IntCond, Mem, NodeId, Op, ScalarType};
use brolga_runtime::{ElementType, Kind};

/// How an element of the type lies in memory; nothing for complex types, which are two elements.
pub fn mem_of(ty: ElementType) -> Option<Mem> {
    use ElementType as E;
    Some(match ty {
        E::Pred | E::U1 | E::U2 | E::U4 | E::U8 => Mem::U8,
        E::S1 | E::S2 | E::S4 | E::S8 => Mem::S8,
        E::S16 => Mem::S16,
        E::U16 | E::F16 | E::BF16 => Mem::U16,
        E::S32 | E::U32 => Mem::I32,
        E::S64 | E::U64 => Mem::I64,
        E::F32 => Mem::F32,
        E::F64 => Mem::F64,
        E::C64 | E::C128 => return None,
        E::F4E2M1Fn
        | E::F8E3M4
        | E::F8E4M3
        | E::F8E4M3B11Fnuz
        | E::F8E4M3Fn
        | E::F8E4M3Fnuz
        | E::F8E5M2
        | E::F8E5M2Fnuz
        | E::F8E8M0Fnu => Mem::U8,
    })
}

/// The scalar type that values of the type are computed in; for complex types, that of either part.
pub fn compute_type(ty: ElementType) -> ScalarType {
    match (ty.kind(), ty) {
        (Kind::Pred, _) => ScalarType::M32,
        (Kind::Signed | Kind::Unsigned, _) if ty.bits() == 64 => ScalarType::I64,
        (Kind::Signed | Kind::Unsigned, _) => ScalarType::I32,
        (Kind::Float | Kind::Complex, ElementType::F64 | ElementType::C128) => ScalarType::F64,
        (Kind::Float | Kind::Complex, _) => ScalarType::F32,
    }
}

/// How many numbers an element is: two for complex types.
pub const fn parts(ty: ElementType) -> u32 {
    if ty.is_complex() { 2 } else { 1 }
}

/// Where a narrow format keeps what is not a finite number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// Infinity and NaN under the all-ones exponent.
    Ieee,
    /// NaN is all ones.
    AllOnes,
    /// NaN is the code of -0.
    NegativeZero,
    /// Nowhere.
    None,
}

#[derive(Clone, Copy)]
struct Format {
    exponent: u8,
    mantissa: u8,
    bias: i32,
    specials: Specials,
}

impl Format {
    /// The position of the sign bit.
    const fn sign(self) -> u8 {
        self.exponent + self.mantissa
    }

    /// The all-ones exponent with an empty mantissa.
    const fn infinity(self) -> i32 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    /// The code of the largest finite magnitude.
    const fn largest(self) -> i32 {
        match self.specials {
            Specials::Ieee => self.infinity() - 1,
            Specials::AllOnes => (1 << self.sign()) - 2,
            Specials::NegativeZero | Specials::None => (1 << self.sign()) - 1,
        }
    }
}

/// What an element's bits have to do with its value.
#[derive(Clone, Copy)]
enum Coding {
    /// They are the value's own.
    Same,
    /// A byte, 0 or 1, for a mask.
    Truth,
    /// The upper half of an f32.
    Bf16,
    /// The exponent of a power of two.
    Exponent,
    /// A narrow float with a sign.
    Narrow(Format),
}

impl Coding {
    fn of(ty: ElementType) -> Coding {
        use ElementType as E;
        let (exponent, mantissa, bias, specials) = match ty {
            E::Pred => return Coding::Truth,
            E::BF16 => return Coding::Bf16,
            E::F8E8M0Fnu => return Coding::Exponent,
            E::F16 => (5, 10, 15, Specials::Ieee),
            E::F8E3M4 => (3, 4, 3, Specials::Ieee),
            E::F8E4M3 => (4, 3, 7, Specials::Ieee),
            E::F8E5M2 => (5, 2, 15, Specials::Ieee),
            E::F8E4M3Fn => (4, 3, 7, Specials::AllOnes),
            E::F8E4M3Fnuz => (4, 3, 8, Specials::NegativeZero),
            E::F8E4M3B11Fnuz => (4, 3, 11, Specials::NegativeZero),
            E::F8E5M2Fnuz => (5, 2, 16, Specials::NegativeZero),
            E::F4E2M1Fn => (2, 1, 1, Specials::None),
            E::S1 | E::S2 | E::S4 | E::S8 | E::S16 | E::S32 | E::S64 => return Coding::Same,
            E::U1 | E::U2 | E::U4 | E::U8 | E::U16 | E::U32 | E::U64 => return Coding::Same,
            E::F32 | E::F64 | E::C64 | E::C128 => return Coding::Same,
        };
        Coding::Narrow(Format { exponent, mantissa, bias, specials })
    }
}

/// 2 to the power `e`, for exponents of normal numbers.
fn exp2f(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

/// A loaded element (in its [`Mem::scalar`]) in its compute type.
pub fn decode(b: &mut Body, ty: ElementType, raw: NodeId) -> NodeId {
    let value = decoded(b, ty, raw);
    if ty.is_narrow_float() {
        b.set_stored(value, ty, raw);
    }
    value
}

fn decoded(b: &mut Body, ty: ElementType, raw: NodeId) -> NodeId {
    match Coding::of(ty) {
        Coding::Same => raw,
        Coding::Truth => {
            let zero = b.i32(0);
            b.icmp(IntCond::Ne, raw, zero)
        }
        Coding::Bf16 => {
            let bits = b.shl_imm(raw, 16);
            b.bitcast(bits, ScalarType::F32)
        }
        Coding::Exponent => {
            let (zero, all, least, nan) = (b.i32(0), b.i32(255), b.i32(0x40_0000), b.i32(0x7fc0_0000));
            let bits = b.shl_imm(raw, 23);
            let is_least = b.icmp(IntCond::Eq, raw, zero);
            let bits = b.select(is_least, least, bits);
            let is_nan = b.icmp(IntCond::Eq, raw, all);
            let bits = b.select(is_nan, nan, bits);
            b.bitcast(bits, ScalarType::F32)
        }
        Coding::Narrow(format) => decode_narrow(b, format, raw),
    }
}

fn decode_narrow(b: &mut Body, f: Format, raw: NodeId) -> NodeId {
    let mask = b.i32((1 << f.sign()) - 1);
    let magnitude = b.and(raw, mask);
    let fields = b.shl_imm(magnitude, 23 - f.mantissa);
    let small = b.bitcast(fields, ScalarType::F32);
    let scale = b.f32(exp2f(127 - f.bias));
    let value = b.fmul(small, scale);
    let mut bits = b.bitcast(value, ScalarType::I32);
    let infinity = b.i32(0x7f80_0000);
    match f.specials {
        Specials::Ieee => {
            let special = b.or(fields, infinity);
            let last = b.i32(f.largest());
            let is_special = b.icmp(IntCond::SGt, magnitude, last);
            bits = b.select(is_special, special, bits);
        }
        Specials::AllOnes => {
            let nan = b.i32(0x7fc0_0000);
            let is_nan = b.icmp(IntCond::Eq, magnitude, mask);
            bits = b.select(is_nan, nan, bits);
        }
        Specials::NegativeZero => {
            let (nan, code) = (b.i32(0x7fc0_0000), b.i32(1 << f.sign()));
            let is_nan = b.icmp(IntCond::Eq, raw, code);
            bits = b.select(is_nan, nan, bits);
        }
        Specials::None => {}
    }
    let sign = b.shl_imm(raw, 31 - f.sign());
    let top = b.i32(i32::MIN);
    let sign = b.and(sign, top);
    let bits = b.or(bits, sign);
    b.bitcast(bits, ScalarType::F32)
}

/// A value in its compute type as the element to store, in its [`Mem::scalar`]: floats round once, to nearest even.
///
/// Integers are expected in the type's range already, see [`wrap_integer`]. What was loaded as this type, or bit-cast to
/// it, is stored as the bits that it was, those of a NaN too.
pub fn encode(b: &mut Body, ty: ElementType, value: NodeId) -> NodeId {
    if let Some(raw) = b.stored(value, ty) {
        return raw;
    }
    match Coding::of(ty) {
        Coding::Same => value,
        Coding::Truth => {
            let mask = b.mask_cast(value, ScalarType::M32);
            b.mask_to_int(mask)
        }
        Coding::Bf16 => encode_bf16(b, value),
        Coding::Exponent => encode_e8m0(b, value),
        Coding::Narrow(format) => encode_narrow(b, format, value),
    }
}

fn encode_bf16(b: &mut Body, value: NodeId) -> NodeId {
    let bits = b.bitcast(value, ScalarType::I32);
    let high = b.lshr_imm(bits, 16);
    let one = b.i32(1);
    let odd = b.and(high, one);
    let half = b.i32(0x7fff);
    let bias = b.iadd(odd, half);
    let rounded = b.iadd(bits, bias);
    let rounded = b.lshr_imm(rounded, 16);
    let quiet = b.i32(0x7fc0);
    let nan = b.or(high, quiet);
    let is_nan = b.fcmp(FloatCond::Uno, value, value);
    b.select(is_nan, nan, rounded)
}

/// A significand without digits is odd, so that every tie goes up.
fn encode_e8m0(b: &mut Body, value: NodeId) -> NodeId {
    let bits = b.bitcast(value, ScalarType::I32);
    let one = b.i32(1);
    // Subnormal numbers of f32 lie below the second code, and 1.5 times the first is the tie.
    let (normal_half, subnormal_half, least_normal) = (b.i32(0x40_0000), b.i32(0x20_0000), b.i32(0x80_0000));
    let is_subnormal = b.icmp(IntCond::SLt, bits, least_normal);
    let half = b.select(is_subnormal, subnormal_half, normal_half);
    let code = b.iadd(bits, half);
    let code = b.lshr_imm(code, 23);
    // Negative numbers, zero, infinity and NaN have no code but NaN's.
    let (span, nan) = (b.i32(0x7f7f_fffe), b.i32(255));
    let above_least = b.isub(bits, one);
    let outside = b.icmp(IntCond::UGt, above_least, span);
    b.select(outside, nan, code)
}

fn encode_narrow(b: &mut Body, f: Format, value: NodeId) -> NodeId {
    let bits = b.bitcast(value, ScalarType::I32);
    let magnitude_mask = b.i32(i32::MAX);
    let magnitude = b.and(bits, magnitude_mask);
    let shift = 23 - f.mantissa;
    // Normal results: round the integer, then move the exponent to the format's bias.
    let lsb = b.lshr_imm(magnitude, shift);
    let one = b.i32(1);
    let odd = b.and(lsb, one);
    let half = b.i32((1 << (shift - 1)) - 1 - ((127 - f.bias) << 23));
    let bias = b.iadd(odd, half);
    let rounded = b.iadd(magnitude, bias);
    let normal = b.ashr_imm(rounded, shift);
    // Subnormal results: the sum's last bit is the format's smallest number.
    let anchor = exp2f(1 - f.bias - i32::from(f.mantissa) + 23);
    let (anchor_value, anchor_bits) = (b.f32(anchor), b.i32(anchor.to_bits() as i32));
    let absolute = b.bitcast(magnitude, ScalarType::F32);
    let sum = b.fadd(absolute, anchor_value);
    let sum = b.bitcast(sum, ScalarType::I32);
    let subnormal = b.isub(sum, anchor_bits);
    let least = b.i32(exp2f(1 - f.bias).to_bits() as i32);
    let is_subnormal = b.icmp(IntCond::SLt, magnitude, least);
    let code = b.select(is_subnormal, subnormal, normal);
    let largest = b.i32(f.largest());
    let infinity = b.i32(0x7f80_0000);
    let is_nan = b.icmp(IntCond::SGt, magnitude, infinity);
    let sign = b.lshr_imm(bits, 31 - f.sign());
    let sign_bit = b.i32(1 << f.sign());
    let sign = b.and(sign, sign_bit);
    match f.specials {
        Specials::Ieee => {
            let top = b.i32(f.infinity());
            let quiet = b.i32(f.infinity() | 1 << (f.mantissa - 1));
            let code = b.smin(code, top);
            let code = b.select(is_nan, quiet, code);
            b.or(code, sign)
        }
        Specials::AllOnes => {
            let nan = b.i32(f.largest() + 1);
            let code = b.smin(code, nan);
            let code = b.select(is_nan, nan, code);
            b.or(code, sign)
        }
        Specials::NegativeZero => {
            let zero = b.i32(0);
            let is_zero = b.icmp(IntCond::Eq, code, zero);
            let signed = b.or(code, sign);
            let signed = b.select(is_zero, zero, signed);
            let beyond = b.icmp(IntCond::SGt, code, largest);
            let beyond = b.or(beyond, is_nan);
            b.select(beyond, sign_bit, signed)
        }
        Specials::None => {
            let code = b.smin(code, largest);
            let signed = b.or(code, sign);
            // A format without NaN turns it into -0.
            b.select(is_nan, sign_bit, signed)
        }
    }
}

/// `value` stored to an element of type `ty` and loaded back; nothing happens to types that fill their scalar type.
pub fn round_to(b: &mut Body, ty: ElementType, value: NodeId) -> NodeId {
    if !ty.is_narrow_float() {
        return value;
    }
    let code = encode(b, ty, value);
    decode(b, ty, code)
}

/// A value that may be -0, computed in a type: 0 instead where the type has no -0, however many digits are kept.
pub fn without_negative_zero(b: &mut Body, ty: ElementType, value: NodeId) -> NodeId {
    match Coding::of(ty) {
        Coding::Narrow(Format { specials: Specials::NegativeZero, .. }) => {
            let zero = b.f32(0.0);
            b.fadd(value, zero)
        }
        Coding::Same | Coding::Truth | Coding::Bf16 | Coding::Exponent | Coding::Narrow(_) => value,
    }
}

/// The low bits of an integer type as a value of the type, extended by its own sign.
pub fn wrap_integer(b: &mut Body, ty: ElementType, x: NodeId) -> NodeId {
    let bits = ty.bits();
    if bits >= 32 || !ty.is_integer() {
        return x;
    }
    let spare = (32 - bits) as u8;
    if ty.is_signed_integer() {
        let high = b.shl_imm(x, spare);
        b.ashr_imm(high, spare)
    } else {
        let mask = b.i32((1 << bits) - 1);
        b.and(x, mask)
    }
}

/// `F64` to `F32`, the last bit set where the result is not exact and otherwise rounded toward zero: a second rounding,
/// to fewer bits, then gives what a single one would have.
pub fn demote_to_odd(b: &mut Body, x: NodeId) -> NodeId {
    let near = b.convert(Op::Demote, x, ScalarType::F32);
    let back = b.convert(Op::Promote, near, ScalarType::F64);
    let bits = b.bitcast(near, ScalarType::I32);
    let (x_size, back_size) = (b.fabs(x), b.fabs(back));
    let too_far = b.fcmp(FloatCond::Gt, back_size, x_size);
    let short = b.fcmp(FloatCond::Lt, back_size, x_size);
    let (minus_one, zero, one) = (b.i32(-1), b.i32(0), b.i32(1));
    let step = b.select(too_far, minus_one, zero);
    let truncated = b.iadd(bits, step);
    let odd = b.or(truncated, one);
    let too_far = b.mask_cast(too_far, ScalarType::M32);
    let short = b.mask_cast(short, ScalarType::M32);
    let inexact = b.or(too_far, short);
    let bits = b.select(inexact, odd, bits);
    b.bitcast(bits, ScalarType::F32)
}

/// The bits of a value of a real type, zeros above them, in the integer type of its compute type's width.
pub fn to_bits(b: &mut Body, ty: ElementType, value: NodeId) -> NodeId {
    let stored = encode(b, ty, value);
    let scalar = b.scalar(stored).integer();
    let raw = b.bitcast(stored, scalar);
    if ty.bits() >= 32 {
        return raw;
    }
    let mask = b.i32((1 << ty.bits()) - 1);
    b.and(raw, mask)
}

/// The value of a real type that the low bits of an integer type are.
pub fn from_bits(b: &mut Body, ty: ElementType, bits: NodeId) -> NodeId {
    let raw = if ty.is_signed_integer() {
        wrap_integer(b, ty, bits)
    } else if ty.bits() < 32 {
        let mask = b.i32((1 << ty.bits()) - 1);
        b.and(bits, mask)
    } else {
        bits
    };
    let scalar = match ty {
        ElementType::F32 => ScalarType::F32,
        ElementType::F64 => ScalarType::F64,
        _ => b.scalar(raw),
    };
    let raw = b.bitcast(raw, scalar);
    decode(b, ty, raw)
}

/// The type of a scratch array of a scalar type's values.
pub fn scratch_type(scalar: ScalarType) -> ElementType {
    match Mem::of(scalar) {
        Mem::F32 => ElementType::F32,
        Mem::F64 => ElementType::F64,
        Mem::I64 => ElementType::S64,
        Mem::I32 | Mem::S8 | Mem::U8 | Mem::S16 | Mem::U16 => ElementType::S32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::eval::eval;
    use super::*;
    use brolga_runtime::narrow;

    fn last(b: &Body, id: NodeId, args: &[u64]) -> u64 {
        eval(b.nodes(), args)[id.0 as usize].expect("a value")
    }

    fn narrow_types() -> impl Iterator<Item = ElementType> {
        ElementType::ALL.iter().copied().filter(|&ty| ty.is_narrow_float())
    }

    fn reference_decode(ty: ElementType, bits: u32) -> f64 {
        match ty {
            ElementType::F16 => half::f16::from_bits(bits as u16).to_f64(),
            ElementType::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
            _ => narrow::decode(ty, bits as u8),
        }
    }

    fn reference_encode(ty: ElementType, v: f64) -> u32 {
        match ty {
            ElementType::F16 => u32::from(narrow::encode_f16(v)),
            ElementType::BF16 => u32::from(narrow::encode_bf16(v)),
            _ => u32::from(narrow::encode(ty, v)),
        }
    }

    #[test]
    fn every_code_decodes_as_the_runtime_says() {
        for ty in narrow_types() {
            let mut b = Body::new();
            let raw = b.arg(0, ScalarType::I32);
            let value = decode(&mut b, ty, raw);
            let again = encode(&mut b, ty, value);
            for bits in 0..(1u32 << ty.bits()) {
                let got = f32::from_bits(last(&b, value, &[u64::from(bits)]) as u32);
                let want = reference_decode(ty, bits);
                assert!(f64::from(got).to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{ty} {bits:#x}");
                assert_eq!(last(&b, again, &[u64::from(bits)]), u64::from(bits), "{ty} {bits:#x}");
            }
        }
    }

    #[test]
    fn encoding_agrees_with_the_runtime_at_codes_midpoints_and_their_neighbours() {
        for ty in narrow_types() {
            let mut b = Body::new();
            let x = b.arg(0, ScalarType::F32);
            let code = encode(&mut b, ty, x);
            let check = |v: f32| {
                let got = last(&b, code, &[u64::from(v.to_bits())]) as u32;
                let want = reference_encode(ty, f64::from(v));
                if v.is_nan() && ty.bits() > 8 {
                    assert!(reference_decode(ty, got).is_nan());
                    return;
                }
                assert_eq!(got, want, "{ty} {v:e} {:#x}", v.to_bits());
            };
            for bits in 0..(1u32 << ty.bits()) {
                let v = reference_decode(ty, bits) as f32;
                for d in -2i32..=2 {
                    let near = f32::from_bits(v.to_bits().wrapping_add_signed(d));
                    check(near);
                    // Half a step of the format further on.
                    let m = match Coding::of(ty) {
                        Coding::Narrow(format) => format.mantissa,
                        Coding::Bf16 => 7,
                        Coding::Same | Coding::Truth | Coding::Exponent => 0,
                    };
                    check(f32::from_bits(near.to_bits().wrapping_add(1 << (22 - m))));
                }
            }
            for i in 0..200_000u32 {
                let v = f32::from_bits(i.wrapping_mul(0x9e37_79b9));
                if !v.is_nan() {
                    check(v);
                }
            }
            check(f32::NAN);
        }
    }

    #[test]
    fn odd_rounding_makes_two_roundings_one() {
        let mut b = Body::new();
        let x = b.arg(0, ScalarType::F64);
        let odd = demote_to_odd(&mut b, x);
        let half = encode(&mut b, ElementType::F16, odd);
        let bf16 = encode(&mut b, ElementType::BF16, odd);
        let mut state = 1u64;
        for i in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let e = 1023 - 20 + (state >> 59);
            let tail = if i % 2 == 0 { 1 << 41 } else { (state >> 30) & 1 };
            let v = f64::from_bits((e << 52) | ((state >> 3) & 0x000f_fc00_0000_0000) | tail | (state & 1) << 63);
            let values = eval(b.nodes(), &[v.to_bits()]);
            assert_eq!(values[half.0 as usize], Some(u64::from(narrow::encode_f16(v))), "{v:e}");
            assert_eq!(values[bf16.0 as usize], Some(u64::from(narrow::encode_bf16(v))), "{v:e}");
        }
        for v in [f64::INFINITY, 1e300, -1e-300, 3.4028235677973366e38, 65520.0, 65519.999999999] {
            assert_eq!(last(&b, half, &[v.to_bits()]), u64::from(narrow::encode_f16(v)), "{v:e}");
            assert_eq!(last(&b, bf16, &[v.to_bits()]), u64::from(narrow::encode_bf16(v)), "{v:e}");
        }
    }

    #[test]
    fn integers_wrap_to_their_width() {
        let mut b = Body::new();
        let x = b.arg(0, ScalarType::I32);
        let (s4, u4, s8) = (
            wrap_integer(&mut b, ElementType::S4, x),
            wrap_integer(&mut b, ElementType::U4, x),
            wrap_integer(&mut b, ElementType::S8, x),
        );
        let at = |id: NodeId| last(&b, id, &[0x1f8]) as i32;
        assert_eq!((at(s4), at(u4), at(s8)), (-8, 8, -8));
    }
}
