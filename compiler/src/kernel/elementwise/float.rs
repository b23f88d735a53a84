//! Real floats: narrow types in `F32`.

use super::super::body::{Body, FloatCond, IntCond, NodeId, Variant};
use super::super::{math, storage};
use super::{Lowered, unsupported};
use crate::hlo::{AttrKey, Attrs, Opcode};
use brolga_runtime::ElementType;

pub(super) fn lower(
    b: &mut Body,
    v: Variant,
    opcode: Opcode,
    attrs: &Attrs,
    ty: ElementType,
    operands: &[NodeId],
) -> Lowered {
    Ok(match (opcode, operands) {
        (Opcode::Add, &[x, y]) => b.fadd(x, y),
        (Opcode::Subtract, &[x, y]) => b.fsub(x, y),
        (Opcode::Multiply, &[x, y]) => b.fmul(x, y),
        (Opcode::Divide, &[x, y]) => math::divide_by_constant(b, v, x, y).unwrap_or_else(|| b.fdiv(x, y)),
        (Opcode::Maximum, &[x, y]) => math::maximum(b, x, y),
        (Opcode::Minimum, &[x, y]) => math::minimum(b, x, y),
        (Opcode::Clamp, &[low, x, high]) => {
            let x = math::maximum(b, low, x);
            math::minimum(b, x, high)
        }
        (Opcode::Negate, &[x]) => b.fneg(x),
        (Opcode::Abs, &[x]) => b.fabs(x),
        (Opcode::Sign, &[x]) => math::sign(b, x),
        (Opcode::Floor, &[x]) => b.floor(x),
        (Opcode::Ceil, &[x]) => b.ceil(x),
        (Opcode::RoundNearestEven, &[x]) => b.nearest(x),
        (Opcode::RoundNearestAfz, &[x]) => math::round_nearest_afz(b, x),
        (Opcode::IsFinite, &[x]) => math::is_finite(b, x),
        (Opcode::Sqrt, &[x]) => b.sqrt(x),
        (Opcode::Rsqrt, &[x]) => {
            let root = b.sqrt(x);
            let scalar = b.scalar(x);
            let one = b.float(scalar, 1.0);
            b.fdiv(one, root)
        }
        (Opcode::Exp, &[x]) => math::exp(b, v, x),
        (Opcode::Expm1, &[x]) => math::expm1(b, v, x),
        (Opcode::Log, &[x]) => math::log(b, v, x),
        (Opcode::Log1p, &[x]) => math::log1p(b, v, x),
        (Opcode::Tanh, &[x]) => math::tanh(b, v, x),
        (Opcode::Logistic, &[x]) => math::logistic(b, v, x),
        (Opcode::Sin, &[x]) => math::sin(b, v, x),
        (Opcode::Cos, &[x]) => math::cos(b, v, x),
        (Opcode::Tan, &[x]) => math::tan(b, v, x),
        (Opcode::Sinh, &[x]) => math::sinh(b, v, x),
        (Opcode::Cosh, &[x]) => math::cosh(b, v, x),
        (Opcode::Asin, &[x]) => math::asin(b, v, x),
        (Opcode::Acos, &[x]) => math::acos(b, v, x),
        (Opcode::Asinh, &[x]) => math::asinh(b, v, x),
        (Opcode::Acosh, &[x]) => math::acosh(b, v, x),
        (Opcode::Atanh, &[x]) => math::atanh(b, v, x),
        (Opcode::Erf, &[x]) => math::erf(b, v, x),
        (Opcode::Cbrt, &[x]) => math::cbrt(b, v, x),
        (Opcode::Atan2, &[y, x]) => math::atan2(b, v, y, x),
        (Opcode::Power, &[x, y]) => math::pow(b, v, x, y),
        (Opcode::Remainder, &[x, y]) => math::remainder(b, v, x, y),
        (Opcode::ReducePrecision, &[x]) => {
            let format = precise(ty).ok_or_else(|| unsupported(opcode, ty))?;
            reduce_precision(b, attrs, format, x)
        }
        _ => return Err(unsupported(opcode, ty)),
    })
}

/// The type in whose code precision is reduced, its exponent bits and its mantissa bits: numbers below 16 bits are
/// `f16`, but for the exponents of `f8e8m0fnu`, which only `f32` has.
fn precise(ty: ElementType) -> Option<(ElementType, i64, i64)> {
    Some(match ty {
        ElementType::F64 => (ty, 11, 52),
        ElementType::F32 | ElementType::F8E8M0Fnu => (ElementType::F32, 8, 23),
        ElementType::BF16 => (ty, 8, 7),
        narrow if narrow.is_narrow_float() => (ElementType::F16, 5, 10),
        _ => return None,
    })
}

/// Rounds to a format of so many exponent and mantissa bits: past its range to infinity, below its normal numbers to
/// zero. All on a code, so that subnormal numbers of that type keep fewer digits.
fn reduce_precision(
    b: &mut Body,
    attrs: &Attrs,
    (ty, type_exponent, type_mantissa): (ElementType, i64, i64),
    x: NodeId,
) -> NodeId {
    let exponent = attrs.int(AttrKey::ExponentBits).unwrap_or(type_exponent).clamp(1, 64);
    let mantissa = attrs.int(AttrKey::MantissaBits).unwrap_or(type_mantissa).clamp(0, 64);
    let scalar = b.scalar(x);
    let narrow = ty.is_narrow_float();
    let bits = if narrow { storage::encode(b, ty, x) } else { b.bitcast(x, scalar.integer()) };
    let int = b.scalar(bits);
    let sign_mask = 1i64.wrapping_shl((type_exponent + type_mantissa) as u32);
    let (sign, size) = (b.int(int, sign_mask), b.int(int, sign_mask.wrapping_sub(1)));
    let (sign, mut size) = (b.and(bits, sign), b.and(bits, size));
    if mantissa < type_mantissa {
        let drop = type_mantissa - mantissa;
        let last = b.lshr_imm(size, drop as u8);
        let one = b.int(int, 1);
        let odd = b.and(last, one);
        let half = b.int(int, (1 << (drop - 1)) - 1);
        let up = b.iadd(odd, half);
        let sum = b.iadd(size, up);
        let keep = b.int(int, -1 << drop);
        size = b.and(sum, keep);
    }
    if exponent < type_exponent {
        let bias = (1 << (type_exponent - 1)) - 1;
        let reach = (1 << (exponent - 1)) - 1;
        let first_beyond = b.int(int, (bias + reach + 1) << type_mantissa);
        let infinity = b.int(int, ((1 << type_exponent) - 1) << type_mantissa);
        let beyond = b.icmp(IntCond::SGe, size, first_beyond);
        size = b.select(beyond, infinity, size);
        let first_normal = b.int(int, (bias - reach + 1) << type_mantissa);
        let zero = b.int(int, 0);
        let below = b.icmp(IntCond::SLt, size, first_normal);
        size = b.select(below, zero, size);
    }
    let bits = b.or(size, sign);
    let value = if narrow { storage::decode(b, ty, bits) } else { b.bitcast(bits, scalar) };
    let is_nan = b.fcmp(FloatCond::Uno, x, x);
    b.select(is_nan, x, value)
}
