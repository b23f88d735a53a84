//! Elementwise operations: equal dimensions in, the same dimensions out.
//!
//! HLO broadcasts nothing implicitly, except that `select` takes a scalar predicate and `clamp` scalar bounds; the
//! builder inserts the broadcasts that its callers leave out.

use super::rule::{Call, Rule, Show, array, common_type, compatible, ensure, fail};
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    let shape = match call.opcode {
        Opcode::Compare => compare(call)?,
        Opcode::Complex => complex(call)?,
        Opcode::Clamp => clamp(call)?,
        Opcode::Select if call.shape(1)?.as_tuple().is_some() => return select_tuple(call),
        Opcode::Select => select(call)?,
        Opcode::Convert => convert(call)?,
        Opcode::StochasticConvert => stochastic_convert(call)?,
        Opcode::ReducePrecision => reduce_precision(call)?,
        _ if call.operands.len() == 1 => unary(call)?,
        _ => binary(call)?,
    };
    Ok(Shape::Array(shape))
}

/// What element types an operation admits.
#[derive(Clone, Copy, Debug)]
enum Allowed {
    Any,
    NotPred,
    IntOrFloat,
    Integer,
    Logical,
    Float,
    FloatOrComplex,
}

impl Allowed {
    fn admits(self, ty: ElementType) -> bool {
        match self {
            Allowed::Any => true,
            Allowed::NotPred => ty != ElementType::Pred,
            Allowed::IntOrFloat => ty.is_integer() || ty.is_float(),
            Allowed::Integer => ty.is_integer(),
            Allowed::Logical => ty == ElementType::Pred || ty.is_integer(),
            Allowed::Float => ty.is_float(),
            Allowed::FloatOrComplex => ty.is_float() || ty.is_complex(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Allowed::Any => "any element type",
            Allowed::NotPred => "a number",
            Allowed::IntOrFloat => "an integer or floating point type",
            Allowed::Integer => "an integer type",
            Allowed::Logical => "an integer type or pred",
            Allowed::Float => "a floating point type",
            Allowed::FloatOrComplex => "a floating point or complex type",
        }
    }
}

/// The element types that a unary or binary operation admits.
fn allowed(op: Opcode) -> Allowed {
    match op {
        Opcode::Abs | Opcode::Negate | Opcode::Sign | Opcode::Subtract | Opcode::Divide | Opcode::Power => {
            Allowed::NotPred
        }
        Opcode::Remainder => Allowed::IntOrFloat,
        Opcode::Ceil
        | Opcode::Floor
        | Opcode::RoundNearestAfz
        | Opcode::RoundNearestEven
        | Opcode::IsFinite
        | Opcode::Erf => Allowed::Float,
        Opcode::Clz
        | Opcode::PopulationCount
        | Opcode::Mulhi
        | Opcode::ShiftLeft
        | Opcode::ShiftRightArithmetic
        | Opcode::ShiftRightLogical => Allowed::Integer,
        Opcode::Not | Opcode::And | Opcode::Or | Opcode::Xor => Allowed::Logical,
        Opcode::Add | Opcode::Multiply | Opcode::Maximum | Opcode::Minimum => Allowed::Any,
        _ => Allowed::FloatOrComplex,
    }
}

fn check_type(op: Opcode, ty: ElementType) -> Rule<()> {
    let allowed = allowed(op);
    ensure!(allowed.admits(ty), "elementwise.type", "expected {} in {op}, found {ty}", allowed.words());
    Ok(())
}

/// Equal dimensions of all operands; a dimension is dynamic where it is in any operand.
fn same_dims(op: Opcode, arrays: &[&ArrayShape], ty: ElementType) -> Rule<ArrayShape> {
    let Some((first, rest)) = arrays.split_first() else {
        fail!("arity", "expected an operand of {op}, found none");
    };
    let mut out = first.with_type(ty);
    for next in rest {
        ensure!(
            first.same_dims(next),
            "elementwise.same-dimensions",
            "expected operands of {op} of the same dimensions, found {} and {}",
            Show(first),
            Show(next)
        );
        for (flag, &dynamic) in out.dynamic.iter_mut().zip(&next.dynamic) {
            *flag |= dynamic;
        }
    }
    Ok(out)
}

fn unary(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    check_type(call.opcode, a.ty)?;
    let ty = match call.opcode {
        Opcode::IsFinite => ElementType::Pred,
        Opcode::Real | Opcode::Imag | Opcode::Abs => a.ty.real_part(),
        _ => a.ty,
    };
    Ok(a.with_type(ty))
}

fn binary(call: &Call<'_>) -> Rule<ArrayShape> {
    let arrays = call.arrays()?;
    let ty = common_type(call, &arrays)?;
    check_type(call.opcode, ty)?;
    same_dims(call.opcode, &arrays, ty)
}

fn compare(call: &Call<'_>) -> Rule<ArrayShape> {
    let arrays = call.arrays()?;
    let ty = common_type(call, &arrays)?;
    let direction = call.attrs.word(AttrKey::Direction).unwrap_or_default();
    ensure!(
        !ty.is_complex() || matches!(direction, "EQ" | "NE"),
        "compare.complex",
        "expected direction EQ or NE for {ty}, found {direction}"
    );
    if let Some(order) = call.attrs.word(AttrKey::ComparisonType) {
        let fits = match order {
            "TOTALORDER" => ty.is_float() || ty.is_integer(),
            "FLOAT" => ty.is_float() || ty.is_complex(),
            // XLA lets integers name either order and compares by their type.
            _ => ty.is_integer() || ty == ElementType::Pred,
        };
        ensure!(fits, "compare.type", "expected a comparison type that fits {ty}, found {order}");
    }
    same_dims(call.opcode, &arrays, ElementType::Pred)
}

fn complex(call: &Call<'_>) -> Rule<ArrayShape> {
    let arrays = call.arrays()?;
    let ty = match (call.array(0)?.ty, call.array(1)?.ty) {
        (ElementType::F32, ElementType::F32) => ElementType::C64,
        (ElementType::F64, ElementType::F64) => ElementType::C128,
        (a, b) => fail!("complex.type", "expected two f32 or two f64 operands of complex, found {a} and {b}"),
    };
    same_dims(call.opcode, &arrays, ty)
}

fn clamp(call: &Call<'_>) -> Rule<ArrayShape> {
    let arrays = call.arrays()?;
    let ty = common_type(call, &arrays)?;
    let value = call.array(1)?;
    let mut full = vec![value];
    full.extend([call.array(0)?, call.array(2)?].into_iter().filter(|bound| bound.rank() > 0));
    same_dims(call.opcode, &full, ty)
}

fn select(call: &Call<'_>) -> Rule<ArrayShape> {
    let (predicate, on_true, on_false) = (call.array(0)?, call.array(1)?, call.array(2)?);
    ensure!(
        predicate.ty == ElementType::Pred,
        "select.predicate",
        "expected a pred as operand 0 of select, found {}",
        Show(predicate)
    );
    let ty = common_type(call, &[on_true, on_false])?;
    let mut full = vec![on_true, on_false];
    if predicate.rank() > 0 {
        full.push(predicate);
    }
    same_dims(call.opcode, &full, ty)
}

/// Tuples count as scalars: one scalar predicate picks one of two tuples of equal shape.
fn select_tuple(call: &Call<'_>) -> Rule<Shape> {
    let predicate = call.scalar(0)?;
    ensure!(
        predicate.ty == ElementType::Pred,
        "select.predicate",
        "expected a pred as operand 0 of select, found {}",
        Show(predicate)
    );
    let (on_true, on_false) = (call.shape(1)?, call.shape(2)?);
    ensure!(
        compatible(on_true, on_false, None),
        "select.same-shape",
        "expected tuples of one shape in select, found {on_true:#} and {on_false:#}"
    );
    Ok(on_true.without_layout())
}

fn convert(call: &Call<'_>) -> Rule<ArrayShape> {
    let from = call.array(0)?;
    let to = call.declared_array()?.ty;
    ensure!(
        !from.ty.is_complex() || to.is_complex(),
        "convert.complex",
        "expected a complex result of convert from {}, found {to}; take the real or imag part",
        from.ty
    );
    Ok(from.with_type(to))
}

fn stochastic_convert(call: &Call<'_>) -> Rule<ArrayShape> {
    let (value, random) = (call.array(0)?, call.array(1)?);
    ensure!(
        value.ty.is_float(),
        "stochastic-convert.type",
        "expected a floating point operand 0 of stochastic-convert, found {}",
        value.ty
    );
    ensure!(
        random.ty.is_unsigned_integer() && random.ty.bits() == value.ty.bits(),
        "stochastic-convert.random",
        "expected unsigned random numbers as wide as {}, found {}",
        value.ty,
        random.ty
    );
    let to = call.declared_array()?.ty;
    ensure!(
        to.is_float() || to.is_integer(),
        "stochastic-convert.type",
        "expected an integer or floating point result of stochastic-convert, found {to}"
    );
    same_dims(call.opcode, &[value, random], to)
}

fn reduce_precision(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    ensure!(
        a.ty.is_float(),
        "reduce-precision.type",
        "expected a floating point operand of reduce-precision, found {}",
        a.ty
    );
    let exponent = call.attrs.int(AttrKey::ExponentBits).unwrap_or(0);
    let mantissa = call.attrs.int(AttrKey::MantissaBits).unwrap_or(-1);
    ensure!(exponent >= 1, "reduce-precision.exponent", "expected exponent_bits of at least 1, found {exponent}");
    ensure!(mantissa >= 0, "reduce-precision.mantissa", "expected mantissa_bits of at least 0, found {mantissa}");
    Ok(array(a.ty, a.dims.clone(), a.dynamic.clone()))
}
