//! Operations on real floats, in `f64`. The caller rounds once to the element type.
//!
//! Functions come from `libm`, so that every machine computes the same bits.

use crate::hlo::Opcode;

pub(super) fn unary(opcode: Opcode, x: f64) -> Option<f64> {
    Some(match opcode {
        Opcode::Abs => x.abs(),
        Opcode::Acos => libm::acos(x),
        // For large negative numbers `libm` takes the logarithm of what cancellation left.
        Opcode::Acosh if x < 1.0 => f64::NAN,
        Opcode::Acosh => libm::acosh(x),
        Opcode::Asin => libm::asin(x),
        Opcode::Asinh => libm::asinh(x),
        Opcode::Atanh => libm::atanh(x),
        Opcode::Cbrt => libm::cbrt(x),
        Opcode::Ceil => x.ceil(),
        Opcode::Cos => libm::cos(x),
        Opcode::Cosh => libm::cosh(x),
        Opcode::Erf => libm::erf(x),
        Opcode::Exp => libm::exp(x),
        Opcode::Expm1 => libm::expm1(x),
        Opcode::Floor => x.floor(),
        Opcode::Log => libm::log(x),
        Opcode::Log1p => libm::log1p(x),
        Opcode::Logistic => 1.0 / (1.0 + libm::exp(-x)),
        Opcode::Negate => -x,
        Opcode::RoundNearestAfz => x.round(),
        Opcode::RoundNearestEven => x.round_ties_even(),
        Opcode::Rsqrt => 1.0 / x.sqrt(),
        // Zero keeps its sign, NaN stays.
        Opcode::Sign if x == 0.0 || x.is_nan() => x,
        Opcode::Sign => 1f64.copysign(x),
        Opcode::Sin => libm::sin(x),
        Opcode::Sinh => libm::sinh(x),
        Opcode::Sqrt => x.sqrt(),
        Opcode::Tan => libm::tan(x),
        Opcode::Tanh => libm::tanh(x),
        _ => return None,
    })
}

pub(super) fn binary(opcode: Opcode, a: f64, b: f64) -> Option<f64> {
    Some(match opcode {
        Opcode::Add => a + b,
        Opcode::Subtract => a - b,
        Opcode::Multiply => a * b,
        Opcode::Divide => a / b,
        Opcode::Remainder => a % b,
        Opcode::Power => libm::pow(a, b),
        Opcode::Atan2 => libm::atan2(a, b),
        // NaN wins; of two zeros the positive one is the larger.
        Opcode::Maximum | Opcode::Minimum if a.is_nan() || b.is_nan() => f64::NAN,
        Opcode::Maximum if a == b => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        Opcode::Minimum if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        Opcode::Maximum => {
            if a > b {
                a
            } else {
                b
            }
        }
        Opcode::Minimum => {
            if a < b {
                a
            } else {
                b
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_hyperbolic_cosine_is_nan_below_one() {
        for x in [0.5, -1.0, -65504.0, -1e30, f64::NEG_INFINITY] {
            assert!(unary(Opcode::Acosh, x).is_some_and(f64::is_nan), "{x}");
        }
        assert_eq!(unary(Opcode::Acosh, 1.0), Some(0.0));
    }
}
