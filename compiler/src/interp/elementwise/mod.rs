//! Elementwise operations.
//!
//! Problem: some seventy operations times thirty types, used on arrays and inside scalar regions. Invariant:
//! [`Kernel::apply`] is the one definition of each operation; integers wrap to their width, floats are computed in
//! `f64` and rounded once. Algorithm: an instruction becomes a kernel once, which is then applied to each element.

mod complex;
mod convert;
mod integer;
mod real;

use super::{Context, array, invalid, new_array, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, ComparisonDirection, Instruction, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Kind, Literal, Scalar};
use num_complex::Complex;
use std::cmp::Ordering;

pub(super) use convert::convert;

/// An elementwise instruction without its operands.
pub(super) struct Kernel {
    pub(super) opcode: Opcode,
    /// Type of the result.
    pub(super) result: ElementType,
    /// Type of the operand that decides the arithmetic.
    operand: ElementType,
    direction: ComparisonDirection,
    total_order: bool,
    exponent_bits: u32,
    mantissa_bits: u32,
}

impl Kernel {
    /// The kernel of `inst` on operands of these types, or `None` where there is no such operation.
    pub(super) fn new(inst: &Instruction, types: &[ElementType]) -> Option<Kernel> {
        let direction = ComparisonDirection::of(&inst.attrs)?;
        let bits = |key| inst.attrs.int(key).map_or(Some(0), |n| u32::try_from(n).ok().filter(|&n| n <= 64));
        if !inst.opcode.arity().allows(types.len()) {
            return None;
        }
        let kernel = Kernel {
            opcode: inst.opcode,
            result: inst.shape.as_array()?.ty,
            // `select` and `clamp` work on their second operand.
            operand: *types.get(usize::from(matches!(inst.opcode, Opcode::Select | Opcode::Clamp)))?,
            direction,
            total_order: inst.attrs.word(AttrKey::ComparisonType) == Some("TOTALORDER"),
            exponent_bits: bits(AttrKey::ExponentBits)?,
            mantissa_bits: bits(AttrKey::MantissaBits)?,
        };
        // Whether an operation exists depends on the kinds only, so that one trial answers for all elements.
        let trial: Vec<Scalar> = types.iter().map(|&ty| Scalar::zero(ty)).collect();
        kernel.compute(&trial)?;
        Some(kernel)
    }

    /// The result, rounded to the result type.
    pub(super) fn apply(&self, args: &[Scalar]) -> Scalar {
        match self.compute(args) {
            Some(value) => value.round_to(self.result),
            None => Scalar::zero(self.result),
        }
    }

    fn compute(&self, args: &[Scalar]) -> Option<Scalar> {
        let a = *args.first()?;
        match self.opcode {
            Opcode::Convert => return Some(convert(a, self.result)),
            Opcode::StochasticConvert => return convert::stochastic(a, *args.get(1)?, self.operand, self.result),
            Opcode::ReducePrecision => {
                let Scalar::Float(value) = a else { return None };
                let value = convert::reduce_precision(value, self.operand, self.exponent_bits, self.mantissa_bits)?;
                return Some(Scalar::Float(value));
            }
            Opcode::Compare => return Some(Scalar::Pred(self.compare(a, *args.get(1)?))),
            Opcode::Select => return args.get(if a.as_bool() { 1 } else { 2 }).copied(),
            Opcode::Clamp => {
                let x = binary(Opcode::Maximum, a, *args.get(1)?, self.operand)?;
                return binary(Opcode::Minimum, x, *args.get(2)?, self.operand);
            }
            Opcode::Complex => return Some(Scalar::Complex(Complex::new(a.as_f64(), args.get(1)?.as_f64()))),
            Opcode::Real => return Some(Scalar::Float(a.as_f64())),
            Opcode::Imag => return Some(Scalar::Float(a.as_complex().im)),
            Opcode::IsFinite => {
                let v = a.as_complex();
                return Some(Scalar::Pred(v.re.is_finite() && v.im.is_finite()));
            }
            _ => {}
        }
        match args {
            [_] => match a {
                Scalar::Float(v) => real::unary(self.opcode, v).map(Scalar::Float),
                Scalar::Complex(v) => complex::unary(self.opcode, v, self.operand),
                v => integer::unary(self.opcode, v, self.operand),
            },
            [_, b] => binary(self.opcode, a, *b, self.operand),
            _ => None,
        }
    }

    fn compare(&self, a: Scalar, b: Scalar) -> bool {
        let order = match (a, b) {
            (Scalar::Float(a), Scalar::Float(b)) if self.total_order => Some(a.total_cmp(&b)),
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
            (Scalar::UInt(a), Scalar::UInt(b)) => Some(a.cmp(&b)),
            (Scalar::Pred(a), Scalar::Pred(b)) => Some(a.cmp(&b)),
            (Scalar::Complex(a), Scalar::Complex(b)) => complex::lexicographic(a, b),
            (a, b) => Some(a.as_i64().cmp(&b.as_i64())),
        };
        match self.direction {
            ComparisonDirection::Eq => order == Some(Ordering::Equal),
            ComparisonDirection::Ne => order != Some(Ordering::Equal),
            ComparisonDirection::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            ComparisonDirection::Gt => order == Some(Ordering::Greater),
            ComparisonDirection::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            ComparisonDirection::Lt => order == Some(Ordering::Less),
        }
    }
}

/// A binary operation on values of type `ty`; not yet rounded.
fn binary(opcode: Opcode, a: Scalar, b: Scalar, ty: ElementType) -> Option<Scalar> {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => real::binary(opcode, a, b).map(Scalar::Float),
        (Scalar::Complex(a), Scalar::Complex(b)) => complex::binary(opcode, a, b).map(Scalar::Complex),
        (a, b) => integer::binary(opcode, a, b, ty),
    }
}

/// One of the operations of [`Kernel`] on two scalars of type `ty`, rounded to `ty`; for reducers known by name.
pub(super) fn combine(opcode: Opcode, a: Scalar, b: Scalar, ty: ElementType) -> Option<Scalar> {
    binary(opcode, a, b, ty).map(|v| v.round_to(ty))
}

/// As [`combine`] but not rounded: a running sum.
pub(super) fn combine_exactly(opcode: Opcode, a: Scalar, b: Scalar, ty: ElementType) -> Option<Scalar> {
    binary(opcode, a, b, ty)
}

/// An elementwise instruction on arrays.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    if inst.opcode == Opcode::Select {
        return select(inst, operands);
    }
    let arrays = (0..operands.len()).map(|i| array(inst, operands, i)).collect::<Result<Vec<_>>>()?;
    let types: Vec<_> = arrays.iter().map(|a| a.ty()).collect();
    let Some(kernel) = Kernel::new(inst, &types) else {
        let types: Vec<_> = types.iter().map(|t| t.name()).collect();
        return Err(invalid(inst, format!("no '{}' on {}", inst.opcode, types.join(", "))));
    };
    // `clamp` may have scalar bounds; everything else has operands of one shape.
    let lead = if inst.opcode == Opcode::Clamp { 1 } else { 0 };
    let Some(&full) = arrays.get(lead) else {
        return Err(invalid(inst, "an operand is missing"));
    };
    let elements = full.elements();
    for (i, a) in arrays.iter().enumerate() {
        let scalar_bound = inst.opcode == Opcode::Clamp && a.dims().is_empty();
        if a.dims() != full.dims() && !scalar_bound {
            return Err(invalid(
                inst,
                format!("operand {i} must be as large as {}, found {}", full.shape(), a.shape()),
            ));
        }
    }
    let mut out = new_array(inst, &ArrayShape::new(kernel.result, full.dims()))?;
    if fast(&kernel, &arrays, &mut out) {
        return Ok(out.into());
    }
    let step = |a: &ArrayLiteral| usize::from(a.elements() == elements);
    match arrays[..] {
        [a] => (0..elements).for_each(|i| out.set(i, kernel.apply(&[a.get(i)]))),
        [a, b] => (0..elements).for_each(|i| out.set(i, kernel.apply(&[a.get(i), b.get(i)]))),
        [a, b, c] => {
            let (sa, sc) = (step(a), step(c));
            (0..elements).for_each(|i| out.set(i, kernel.apply(&[a.get(i * sa), b.get(i), c.get(i * sc)])));
        }
        _ => return Err(invalid(inst, "too many operands")),
    }
    Ok(out.into())
}

/// The commonest operations on `f32`, whose result in `f32` arithmetic is the one that rounding once gives.
fn fast(kernel: &Kernel, arrays: &[&ArrayLiteral], out: &mut ArrayLiteral) -> bool {
    let [a, b] = arrays else { return false };
    if [a.ty(), b.ty(), kernel.result] != [ElementType::F32; 3] {
        return false;
    }
    let function: fn(f32, f32) -> f32 = match kernel.opcode {
        Opcode::Add => |a, b| a + b,
        Opcode::Subtract => |a, b| a - b,
        Opcode::Multiply => |a, b| a * b,
        Opcode::Divide => |a, b| a / b,
        _ => return false,
    };
    let (a, b) = (a.as_slice::<f32>(), b.as_slice::<f32>());
    for ((out, &a), &b) in out.as_mut_slice::<f32>().iter_mut().zip(a).zip(b) {
        *out = function(a, b);
    }
    true
}

/// `select` moves bytes: NaN payloads stay as they are. A scalar predicate chooses whole values, tuples too.
fn select(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let predicate = array(inst, operands, 0)?;
    if predicate.ty().kind() != Kind::Pred {
        return Err(invalid(inst, format!("the predicate must be pred, found {}", predicate.ty())));
    }
    if predicate.dims().is_empty() {
        let chosen = if predicate.get(0).as_bool() { operands[1] } else { operands[2] };
        return Ok(chosen.clone());
    }
    let (on_true, on_false) = (array(inst, operands, 1)?, array(inst, operands, 2)?);
    if on_true.shape() != on_false.shape() || on_true.dims() != predicate.dims() {
        return Err(invalid(inst, "the three operands must be of one shape"));
    }
    let shape = ArrayShape::new(result_shape(inst)?.ty, predicate.dims());
    if shape.ty != on_true.ty() {
        return Err(invalid(inst, format!("the result must be {}, found {}", on_true.ty(), shape.ty)));
    }
    let mut out = new_array(inst, &shape)?;
    let size = shape.ty.byte_size();
    let sources = on_true.bytes().chunks_exact(size).zip(on_false.bytes().chunks_exact(size));
    let targets = out.bytes_mut().chunks_exact_mut(size);
    for ((target, (yes, no)), &p) in targets.zip(sources).zip(predicate.bytes()) {
        target.copy_from_slice(if p != 0 { yes } else { no });
    }
    Ok(out.into())
}
