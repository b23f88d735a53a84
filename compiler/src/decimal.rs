//! Decimal numbers at the beginning of a text, for the constants that both text readers meet in millions.
//!
//! Problem: a standard parse wants the token's end first, then checks UTF-8, then reads the digits once more. Invariant: the value is
//! the one that [`str::parse`] gives; `None` leaves the token to it. Algorithm: one pass over the digits. A mantissa of at most
//! 53 bits and a power of ten of at most 22 are both exact in `f64`, so that one product or quotient is rounded correctly
//! (Clinger, «How to Read Floating Point Numbers Accurately»). An `f32` is that `f64` rounded again, which is right unless the
//! first rounding ended on the middle between two of them.

/// Powers of ten that `f64` holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Digits that a `u64` holds, whatever they are.
const DIGITS: usize = 19;

/// Whether a token of a number could go on with `b`.
fn goes_on(b: Option<&u8>) -> bool {
    b.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Takes digits into `value` and tells how many they were.
fn digits(text: &[u8], value: &mut u64) -> usize {
    let mut length = 0;
    for &b in text {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        *value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    length
}

/// The integer that `text` begins with, and its length: an optional `-` and at most 18 digits.
pub(crate) fn integer(text: &[u8]) -> Option<(i64, usize)> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut value = 0;
    let length = digits(rest, &mut value);
    if length == 0 || length >= DIGITS || goes_on(rest.get(length)) {
        return None;
    }
    let value = value as i64;
    Some((if negative { -value } else { value }, length + usize::from(negative)))
}

/// The number that `text` begins with, and its length, where few digits say it.
pub(crate) fn real(text: &[u8]) -> Option<(f64, usize)> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut mantissa = 0;
    let whole = digits(rest, &mut mantissa);
    let mut at = whole;
    let mut fraction = 0;
    if rest.get(at) == Some(&b'.') {
        fraction = digits(rest.get(at + 1..).unwrap_or_default(), &mut mantissa);
        at += 1 + fraction;
    }
    if whole == 0 || whole + fraction > DIGITS || mantissa > 1 << 53 {
        return None;
    }
    let mut exponent = -(fraction as i64);
    if let Some(b'e' | b'E') = rest.get(at) {
        at += 1;
        let sign = rest.get(at);
        at += usize::from(matches!(sign, Some(b'+' | b'-')));
        let mut power = 0;
        let length = digits(rest.get(at..).unwrap_or_default(), &mut power);
        if length == 0 || length > 3 {
            return None;
        }
        at += length;
        exponent += if sign == Some(&b'-') { -(power as i64) } else { power as i64 };
    }
    if goes_on(rest.get(at)) {
        return None;
    }
    let power = *POWERS.get(usize::try_from(exponent.unsigned_abs()).ok()?)?;
    let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    Some((if negative { -value } else { value }, at + usize::from(negative)))
}

/// As [`real`], rounded to an `f32` once.
pub(crate) fn single(text: &[u8]) -> Option<(f32, usize)> {
    const BELOW: u64 = (1 << 29) - 1;
    let (value, length) = real(text)?;
    // Subnormal results have their middles elsewhere.
    let is_plain = value == 0.0 || value.abs() >= f64::from(f32::MIN_POSITIVE);
    let is_middle = value.to_bits() & BELOW == 1 << 28;
    (is_plain && !is_middle).then_some((value as f32, length))
}

/// Appends the low `size` bytes of a number, at most 8 of them.
pub(crate) fn append(out: &mut Vec<u8>, bits: u64, size: usize) {
    // Lengths that are known are stored without a call.
    match size {
        1 => out.push(bits as u8),
        2 => out.extend_from_slice(&(bits as u16).to_le_bytes()),
        4 => out.extend_from_slice(&(bits as u32).to_le_bytes()),
        _ => out.extend_from_slice(bits.to_le_bytes().get(..size).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_that_are_no_short_decimals_are_left() {
        for text in ["", "-", ".5", "-.5", "+1", "1x", "1e", "1e+", "1.5.2", "1-2", "nan", "0x10", "1e400", "1e23"] {
            assert_eq!(real(text.as_bytes()), None, "{text}");
        }
        for text in ["", "-", "1.5", "1e5", "0x10", "1234567890123456789", "--1", "1-"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_end_is_found() {
        assert_eq!(integer(b"-12, 3"), Some((-12, 3)));
        assert_eq!(real(b"-1.5e-3}"), Some((-1.5e-3, 7)));
        assert_eq!(real(b"2.]"), Some((2.0, 2)));
        assert_eq!(single(b"-0 "), Some((-0.0, 2)));
    }

    #[test]
    fn a_value_that_is_rounded_to_the_middle_first_is_left() {
        // 1 + 2^-24 is the middle above 1; with 2^-60 more the `f64` is the middle still, and the `f32` is the upper one.
        assert_eq!(single(b"1.000000059604644775"), None);
        assert_eq!(single(b"16777217"), None);
        assert_eq!(single(b"1e-40"), None);
    }

    proptest! {
        #[test]
        fn values_are_those_of_the_standard_library(text in "-?[0-9]{1,12}(\\.[0-9]{0,12})?(e[+-]?[0-9]{1,2})?") {
            if let Some((value, length)) = real(text.as_bytes()) {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!(value.to_bits(), text.parse::<f64>().unwrap_or(f64::NAN).to_bits());
            }
            if let Some((value, length)) = single(text.as_bytes()) {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!(value.to_bits(), text.parse::<f32>().unwrap_or(f32::NAN).to_bits());
            }
            if let Some((value, length)) = integer(text.as_bytes()) {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!(Ok(value), text.parse::<i64>());
            }
        }

        #[test]
        fn every_printed_single_reads_back(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            for text in [format!("{value:e}"), format!("{value:.8e}"), format!("{value}")] {
                if let Some((found, _)) = single(text.as_bytes()) {
                    prop_assert_eq!(found.to_bits(), bits);
                }
            }
        }
    }
}
