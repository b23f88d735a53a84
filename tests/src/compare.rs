//! Are two arrays equal, within a case's tolerance?
//!
//! Source: the corpus' own definition. `exact` is numeric equality (NaN equals NaN, -0 equals 0), `bits` compares stored
//! bytes, `shape` only dimensions; `close` passes an element that is equal, or within `max_ulp`, or within
//! `atol + rtol * |want|`. Complex numbers are compared by modulus, their infinities and NaNs by component.

use brolga_runtime::half::{bf16, f16};
use brolga_runtime::{ArrayLiteral, ElementType};

/// How equal two arrays must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// `exact`, `bits`, `shape` or `close`.
    pub kind: Kind,
    /// Absolute.
    pub atol: f64,
    /// Relative to the wanted value.
    pub rtol: f64,
    /// In units of the last place.
    pub max_ulp: f64,
    /// For integers.
    pub int_atol: f64,
}

/// The kinds of [`Tolerance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numerically equal.
    Exact,
    /// The same bytes.
    Bits,
    /// The same dimensions.
    Shape,
    /// Near enough.
    Close,
}

impl Tolerance {
    /// Reads `{"kind":"close","rtol":1e-6,...}`.
    pub fn from_json(value: &serde_json::Value) -> Option<Tolerance> {
        let number = |name: &str| value.get(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
        let kind = match value.get("kind")?.as_str()? {
            "exact" => Kind::Exact,
            "bits" => Kind::Bits,
            "shape" => Kind::Shape,
            "close" => Kind::Close,
            _ => return None,
        };
        Some(Tolerance {
            kind,
            atol: number("atol"),
            rtol: number("rtol"),
            max_ulp: number("max_ulp"),
            int_atol: number("int_atol"),
        })
    }
}

/// Layout of a small float format: exponent bits, mantissa bits, bias, and how it spells NaN.
enum Nan {
    Ieee,
    Top,
    NegativeZero,
    None,
}

/// The value of a float narrower than 16 bits.
fn narrow(ty: ElementType, byte: u8) -> f64 {
    use ElementType as T;
    let (exponent_bits, mantissa_bits, bias, nan) = match ty {
        T::F8E4M3Fn => (4, 3, 7, Nan::Top),
        T::F8E5M2 => (5, 2, 15, Nan::Ieee),
        T::F8E4M3 => (4, 3, 7, Nan::Ieee),
        T::F8E3M4 => (3, 4, 3, Nan::Ieee),
        T::F8E4M3B11Fnuz => (4, 3, 11, Nan::NegativeZero),
        T::F8E4M3Fnuz => (4, 3, 8, Nan::NegativeZero),
        T::F8E5M2Fnuz => (5, 2, 16, Nan::NegativeZero),
        T::F4E2M1Fn => (2, 1, 1, Nan::None),
        // f8e8m0fnu: a bare exponent.
        _ => return if byte == 255 { f64::NAN } else { (i32::from(byte) - 127).into_exp2() },
    };
    let bits = i32::from(byte) & ((1 << (1 + exponent_bits + mantissa_bits)) - 1);
    let sign = if bits >> (exponent_bits + mantissa_bits) == 1 { -1.0 } else { 1.0 };
    let exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let top = (1 << exponent_bits) - 1;
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    match nan {
        Nan::Ieee if exponent == top => return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN },
        Nan::Top if exponent == top && mantissa == (1 << mantissa_bits) - 1 => return f64::NAN,
        Nan::NegativeZero if sign < 0.0 && exponent == 0 && mantissa == 0 => return f64::NAN,
        _ => {}
    }
    if exponent == 0 {
        sign * fraction * (1 - bias).into_exp2()
    } else {
        sign * (1.0 + fraction) * (exponent - bias).into_exp2()
    }
}

trait IntoExp2 {
    fn into_exp2(self) -> f64;
}
impl IntoExp2 for i32 {
    fn into_exp2(self) -> f64 {
        f64::from(self).exp2()
    }
}

/// One real component: its value, and its place in the order of all values of its format.
fn component(ty: ElementType, bytes: &[u8]) -> (f64, i128) {
    let ordered = |bits: u64, width: u32| {
        let magnitude = i128::from(bits & ((1u64 << (width - 1)) - 1));
        if bits >> (width - 1) & 1 == 1 { -magnitude } else { magnitude }
    };
    match ty {
        ElementType::F64 => {
            let v = f64::from_ne_bytes(array(bytes));
            (v, ordered(v.to_bits(), 64))
        }
        ElementType::F32 => {
            let v = f32::from_ne_bytes(array(bytes));
            (f64::from(v), ordered(v.to_bits().into(), 32))
        }
        ElementType::F16 => {
            let v = f16::from_ne_bytes(array(bytes));
            (v.to_f64(), ordered(v.to_bits().into(), 16))
        }
        ElementType::BF16 => {
            let v = bf16::from_ne_bytes(array(bytes));
            (v.to_f64(), ordered(v.to_bits().into(), 16))
        }
        ElementType::F8E8M0Fnu => (narrow(ty, bytes[0]), i128::from(bytes[0])),
        ElementType::F4E2M1Fn => (narrow(ty, bytes[0]), ordered(bytes[0].into(), 4)),
        _ => (narrow(ty, bytes[0]), ordered(bytes[0].into(), 8)),
    }
}

/// The bytes of one element; the slices come from `chunks_exact` of the type's size.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

fn integer(ty: ElementType, bytes: &[u8]) -> i128 {
    let mut wide = [0u8; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = u128::from_le_bytes(wide) as i128;
    let shift = 128 - 8 * bytes.len() as u32;
    if ty.is_signed_integer() { value << shift >> shift } else { value }
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// The first element that has other bits, NaN aside: which of its operands' payloads a sum keeps is up to the processor.
pub fn first_other_bits(got: &ArrayLiteral, want: &ArrayLiteral) -> Option<usize> {
    first_other_element(want.ty(), got.bytes(), want.bytes())
}

/// As [`first_other_bits`], of elements as they lie in memory.
pub fn first_other_element(ty: ElementType, got: &[u8], want: &[u8]) -> Option<usize> {
    if got.len() != want.len() {
        return Some(0);
    }
    let part = ty.real_part();
    let parts = if ty.is_complex() { 2 } else { 1 };
    let size = part.byte_size();
    let nan = |bytes: &[u8]| part.is_float() && component(part, bytes).0.is_nan();
    let mut pairs = got.chunks(size).zip(want.chunks(size));
    let other = pairs.position(|(a, b)| a != b && !(nan(a) && nan(b)));
    other.map(|at| at / parts)
}

/// Compares; the error says how many elements differ and shows the first.
pub fn compare(got: &ArrayLiteral, want: &ArrayLiteral, tolerance: &Tolerance) -> Result<(), String> {
    if got.ty() != want.ty() || got.dims() != want.dims() {
        return Err(format!("shape {:#}, expected {:#}", got.shape(), want.shape()));
    }
    if tolerance.kind == Kind::Shape {
        return Ok(());
    }
    let ty = want.ty();
    let size = ty.byte_size();
    let (mut bad, mut first) = (0usize, None);
    for (i, (a, b)) in got.bytes().chunks_exact(size).zip(want.bytes().chunks_exact(size)).enumerate() {
        if a != b && !near(ty, a, b, tolerance) {
            bad += 1;
            first.get_or_insert_with(|| format!("element {i} is {}, expected {}", show(ty, a), show(ty, b)));
        }
    }
    match first {
        None => Ok(()),
        Some(first) => Err(format!("{bad} of {} elements differ: {first}", want.elements())),
    }
}

/// Two elements whose bytes differ.
fn near(ty: ElementType, got: &[u8], want: &[u8], t: &Tolerance) -> bool {
    if t.kind == Kind::Bits {
        return false;
    }
    if ty.is_integer() || ty == ElementType::Pred {
        let distance = (integer(ty, got) - integer(ty, want)).unsigned_abs();
        return ty != ElementType::Pred && t.int_atol > 0.0 && distance as f64 <= t.int_atol;
    }
    let part = ty.real_part();
    let width = part.byte_size();
    let parts: Vec<_> = got
        .chunks_exact(width)
        .zip(want.chunks_exact(width))
        .map(|(a, b)| (component(part, a), component(part, b)))
        .collect();
    if parts.iter().all(|((a, _), (b, _))| same(*a, *b)) {
        return true;
    }
    let finite = parts.iter().all(|((a, _), (b, _))| a.is_finite() && b.is_finite());
    if t.kind == Kind::Exact || !finite {
        return false;
    }
    let ulps = parts.iter().map(|((_, a), (_, b))| (a - b).unsigned_abs()).max().unwrap_or(0);
    let modulus = |f: &dyn Fn(usize) -> f64| (0..parts.len()).map(f).fold(0.0f64, f64::hypot);
    let distance = modulus(&|i| parts[i].0.0 - parts[i].1.0);
    let magnitude = modulus(&|i| parts[i].1.0);
    ulps as f64 <= t.max_ulp || distance <= t.atol + t.rtol * magnitude
}

fn show(ty: ElementType, bytes: &[u8]) -> String {
    if ty.is_integer() || ty == ElementType::Pred {
        return integer(ty, bytes).to_string();
    }
    let part = ty.real_part();
    let parts: Vec<_> = bytes.chunks_exact(part.byte_size()).map(|b| format!("{:?}", component(part, b).0)).collect();
    if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brolga_runtime::ArrayShape;

    fn tolerance(kind: Kind) -> Tolerance {
        Tolerance { kind, atol: 0.0, rtol: 0.0, max_ulp: 0.0, int_atol: 0.0 }
    }

    #[test]
    fn zeros_and_nans() {
        let a = ArrayLiteral::from_elements(&[2], &[0.0f32, f32::NAN]);
        let b = ArrayLiteral::from_elements(&[2], &[-0.0f32, -f32::NAN]);
        assert!(compare(&a, &b, &tolerance(Kind::Exact)).is_ok());
        assert!(compare(&a, &b, &tolerance(Kind::Bits)).is_err());
    }

    #[test]
    fn ulps_cross_zero() {
        let a = ArrayLiteral::from_elements(&[1], &[f64::from_bits(1)]);
        let b = ArrayLiteral::from_elements(&[1], &[-f64::from_bits(1)]);
        let close = |max_ulp| Tolerance { max_ulp, ..tolerance(Kind::Close) };
        assert!(compare(&a, &b, &close(2.0)).is_ok());
        assert!(compare(&a, &b, &close(1.0)).is_err());
    }

    #[test]
    fn infinities_are_not_close() {
        let a = ArrayLiteral::from_elements(&[1], &[f32::INFINITY]);
        let b = ArrayLiteral::from_elements(&[1], &[f32::MAX]);
        let t = Tolerance { rtol: 10.0, max_ulp: 10.0, ..tolerance(Kind::Close) };
        assert!(compare(&a, &b, &t).is_err());
        assert!(compare(&a, &a, &t).is_ok());
    }

    #[test]
    fn narrow_formats_decode() {
        assert_eq!(narrow(ElementType::F8E4M3Fn, 0x7e), 448.0);
        assert_eq!(narrow(ElementType::F8E5M2, 0x7b), 57344.0);
        assert_eq!(narrow(ElementType::F8E5M2, 0xfc), f64::NEG_INFINITY);
        assert_eq!(narrow(ElementType::F4E2M1Fn, 0x7), 6.0);
        assert_eq!(narrow(ElementType::F8E8M0Fnu, 127), 1.0);
        assert_eq!(narrow(ElementType::F8E3M4, 1), 2f64.powi(-6));
        assert!(narrow(ElementType::F8E4M3Fnuz, 0x80).is_nan());
    }

    #[test]
    fn integers_have_their_own_tolerance() {
        let a = ArrayLiteral::from_elements(&[1], &[-1i8]);
        let b = ArrayLiteral::from_elements(&[1], &[1i8]);
        let t = Tolerance { int_atol: 2.0, ..tolerance(Kind::Close) };
        assert!(compare(&a, &b, &t).is_ok());
        assert!(compare(&a, &b, &tolerance(Kind::Exact)).is_err());
        let shape = ArrayShape::new(ElementType::U64, [1]);
        let max = ArrayLiteral::from_bytes(&shape, &[0xff; 8]).expect("eight bytes");
        assert!(compare(&max, &ArrayLiteral::zeros(&shape), &t).is_err());
    }
}
