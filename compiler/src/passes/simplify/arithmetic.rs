//! Elementwise arithmetic and selection.

use super::{Found, filled_like, same_shape, splat_operand};
use crate::hlo::{Attrs, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use crate::passes::value::{self, Element, int_range, is_identity};
use brolga_runtime::ElementType;

/// The rules for arithmetic.
pub fn arithmetic(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    match rw.opcode(id) {
        Opcode::Negate | Opcode::Abs | Opcode::Real | Opcode::Imag => unary(rw, id),
        Opcode::Add | Opcode::Subtract => sum(rw, id),
        Opcode::Multiply => multiply(rw, id),
        Opcode::Divide | Opcode::Remainder => divide(rw, id),
        Opcode::Maximum | Opcode::Minimum => extremum(rw, id),
        Opcode::Power => power(rw, id),
        Opcode::Complex => complex(rw, id),
        Opcode::Select => select(rw, id),
        Opcode::Clamp => clamp(rw, id),
        Opcode::ShiftLeft | Opcode::ShiftRightLogical | Opcode::ShiftRightArithmetic => shift(rw, id),
        _ => Ok(None),
    }
}

/// The element type of the result, where it is an integer or one of the IEEE floats that [`Element::float`] knows.
fn number_type(rw: &Rewriter<'_>, id: InstructionId) -> Option<ElementType> {
    let ty = rw.array(id)?.ty;
    (ty.is_integer() || is_wide_float(ty)).then_some(ty)
}

fn is_wide_float(ty: ElementType) -> bool {
    matches!(ty, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64)
}

fn zero(ty: ElementType) -> Option<Element> {
    Element::from_int(ty, 0)
}

fn unary(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operand = rw.operand(id, 0)?;
    let inner = |rw: &Rewriter<'_>, opcode| rw.operand_of(operand, opcode);
    match rw.opcode(id) {
        Opcode::Negate => Ok(inner(rw, Opcode::Negate).map(|x| ("negation of a negation", x))),
        Opcode::Abs if inner(rw, Opcode::Abs).is_some() => Ok(Some(("magnitude of a magnitude", operand))),
        Opcode::Abs => match inner(rw, Opcode::Negate) {
            // The magnitude of a complex number has another type; the least integer is its own negation.
            Some(x) if number_type(rw, id).is_some() && same_shape(rw, x, id) => {
                Ok(Some(("magnitude of a negation", rw.elementwise(Opcode::Abs, vec![x]))))
            }
            _ => Ok(None),
        },
        opcode => {
            let part = usize::from(opcode == Opcode::Imag);
            if rw.opcode(operand) == Opcode::Complex {
                return Ok(Some(("part of a made complex number", rw.operand(operand, part)?)));
            }
            Ok((opcode == Opcode::Real && same_shape(rw, operand, id)).then_some(("real part of a real", operand)))
        }
    }
}

fn complex(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let (re, im) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    match (rw.operand_of(re, Opcode::Real), rw.operand_of(im, Opcode::Imag)) {
        (Some(a), Some(b)) if a == b && same_shape(rw, a, id) => Ok(Some(("complex number taken apart", a))),
        _ => Ok(None),
    }
}

fn sum(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(ty) = number_type(rw, id) else { return Ok(None) };
    let (a, b) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let (left, right) = (splat_operand(rw, id, 0), splat_operand(rw, id, 1));
    let negated = |rw: &Rewriter<'_>, x| rw.operand_of(x, Opcode::Negate);
    if rw.opcode(id) == Opcode::Add {
        for (known, other) in [(left, b), (right, a)] {
            if known.is_some_and(|k| is_identity(Opcode::Add, &k)) {
                return Ok(Some(("addition of zero", other)));
            }
        }
        // x + (-y) and x - y round alike.
        if let Some(y) = negated(rw, b) {
            return Ok(Some(("addition of a negation", rw.elementwise(Opcode::Subtract, vec![a, y]))));
        }
        if let Some(y) = negated(rw, a) {
            return Ok(Some(("addition of a negation", rw.elementwise(Opcode::Subtract, vec![b, y]))));
        }
        return Ok(None);
    }
    // x - 0.0 is x even for x = -0.0, where x - (-0.0) is not.
    if right.is_some_and(|k| if ty.is_integer() { k.is_int(0) } else { k.is_float(0.0) }) {
        return Ok(Some(("subtraction of zero", a)));
    }
    // -0.0 - x is -x; 0.0 - 0.0 is 0.0 and so is not.
    if left.is_some_and(|k| if ty.is_integer() { k.is_int(0) } else { k.is_float(-0.0) }) {
        return Ok(Some(("subtraction from zero", rw.elementwise(Opcode::Negate, vec![b]))));
    }
    if ty.is_integer() && a == b {
        return Ok(filled_like(rw, id, zero(ty)).map(|f| ("difference of equals", f)));
    }
    if let Some(y) = negated(rw, b) {
        return Ok(Some(("subtraction of a negation", rw.elementwise(Opcode::Add, vec![a, y]))));
    }
    Ok(None)
}

fn multiply(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(ty) = number_type(rw, id) else { return Ok(None) };
    let (a, b) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    for (known, other) in [(splat_operand(rw, id, 0), b), (splat_operand(rw, id, 1), a)] {
        let Some(known) = known else { continue };
        if known.is_one() {
            return Ok(Some(("multiplication by one", other)));
        }
        if known.is_float(-1.0) || ty.is_signed_integer() && known.is_int(-1) {
            return Ok(Some(("multiplication by minus one", rw.elementwise(Opcode::Negate, vec![other]))));
        }
        if ty.is_integer() && known.is_int(0) {
            return Ok(filled_like(rw, id, zero(ty)).map(|f| ("multiplication by zero", f)));
        }
        if ty.is_integer()
            && let Some(bits) = power_of_two(&known)
        {
            let amount = filled_like(rw, id, Element::from_int(ty, i128::from(bits)));
            let shift = |rw: &mut Rewriter<'_>, n| rw.elementwise(Opcode::ShiftLeft, vec![other, n]);
            return Ok(amount.map(|n| ("multiplication by a power of two", shift(rw, n))));
        }
    }
    Ok(None)
}

/// The exponent of a positive power of two whose type can also hold the exponent itself.
fn power_of_two(scalar: &Element) -> Option<u32> {
    let value = u128::try_from(scalar.int()?).ok()?;
    let (_, high) = int_range(scalar.ty())?;
    let bits = value.trailing_zeros();
    (value.is_power_of_two() && i128::from(bits) <= high).then_some(bits)
}

/// One over `scalar`, where that loses nothing: a power of two whose inverse is a normal number.
fn exact_inverse(scalar: &Element) -> Option<Element> {
    let value = scalar.float()?;
    let mantissa = value.to_bits() & ((1 << 52) - 1);
    let least_normal = match scalar.ty() {
        ElementType::F16 => f64::from_bits((1023 - 14) << 52),
        ElementType::BF16 | ElementType::F32 => f64::from(f32::MIN_POSITIVE),
        _ => f64::MIN_POSITIVE,
    };
    let inverse = 1.0 / value;
    let normal = |x: f64| x.is_normal() && x.abs() >= least_normal;
    if mantissa != 0 || !normal(value) || !normal(inverse) {
        return None;
    }
    Element::from_float(scalar.ty(), inverse)
}

fn divide(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(ty) = number_type(rw, id) else { return Ok(None) };
    let a = rw.operand(id, 0)?;
    let Some(known) = splat_operand(rw, id, 1) else { return Ok(None) };
    let remainder = rw.opcode(id) == Opcode::Remainder;
    if known.is_one() {
        return match (remainder, ty.is_integer()) {
            (false, _) => Ok(Some(("division by one", a))),
            (true, true) => Ok(filled_like(rw, id, zero(ty)).map(|f| ("remainder by one", f))),
            // The remainder of a float by one is its fraction.
            (true, false) => Ok(None),
        };
    }
    if ty.is_unsigned_integer()
        && let Some(bits) = power_of_two(&known)
    {
        let (opcode, value) =
            if remainder { (Opcode::And, (1i128 << bits) - 1) } else { (Opcode::ShiftRightLogical, i128::from(bits)) };
        let Some(value) = filled_like(rw, id, Element::from_int(ty, value)) else { return Ok(None) };
        return Ok(Some(("division by a power of two", rw.elementwise(opcode, vec![a, value]))));
    }
    if !remainder && let Some(inverse) = exact_inverse(&known) {
        let Some(inverse) = filled_like(rw, id, Some(inverse)) else { return Ok(None) };
        return Ok(Some(("division by a power of two", rw.elementwise(Opcode::Multiply, vec![a, inverse]))));
    }
    Ok(None)
}

fn extremum(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let opcode = rw.opcode(id);
    let (a, b) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    if a == b {
        return Ok(Some(("extremum of equals", a)));
    }
    let opposite = if opcode == Opcode::Maximum { Opcode::Minimum } else { Opcode::Maximum };
    for (index, other) in [(0, b), (1, a)] {
        let Some(known) = splat_operand(rw, id, index) else { continue };
        if is_identity(opcode, &known) {
            return Ok(Some(("extremum with its identity", other)));
        }
        // The greatest integer wins every maximum; a float NaN would win over infinity.
        if known.ty().is_integer() && is_identity(opposite, &known) {
            return Ok(Some(("extremum with its limit", rw.operand(id, index)?)));
        }
    }
    Ok(None)
}

fn power(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(ty) = number_type(rw, id) else { return Ok(None) };
    let a = rw.operand(id, 0)?;
    let Some(known) = splat_operand(rw, id, 1) else { return Ok(None) };
    // A square and the function may differ in the last bit.
    if ty.is_float() && value::frozen(rw.computation(), rw.operand(id, 1)?) {
        return Ok(None);
    }
    let is = |value: i32| known.is_int(value.into()) || known.is_float(value.into());
    if is(1) {
        return Ok(Some(("first power", a)));
    }
    if is(2) {
        return Ok(Some(("square", rw.elementwise(Opcode::Multiply, vec![a, a]))));
    }
    if is(0) {
        return Ok(filled_like(rw, id, Element::one(ty)).map(|f| ("zeroth power", f)));
    }
    Ok(None)
}

fn select(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let (predicate, yes, no) = (rw.operand(id, 0)?, rw.operand(id, 1)?, rw.operand(id, 2)?);
    if yes == no {
        return Ok(Some(("selection of equals", yes)));
    }
    if let Some(known) = splat_operand(rw, id, 0) {
        return Ok(Some(("decided selection", if known.is_int(1) { yes } else { no })));
    }
    if let Some(inner) = rw.operand_of(predicate, Opcode::Not) {
        let shape = rw.shape(id).clone();
        return Ok(Some(("selection by not", rw.emit(Opcode::Select, shape, vec![inner, no, yes], Attrs::new()))));
    }
    let truth = |known: Option<Element>| known.filter(|k| k.ty() == ElementType::Pred).and_then(|k| k.int());
    if same_shape(rw, predicate, id) {
        match (truth(splat_operand(rw, id, 1)), truth(splat_operand(rw, id, 2))) {
            (Some(1), Some(0)) => return Ok(Some(("selection of truth values", predicate))),
            (Some(0), Some(1)) => {
                return Ok(Some(("selection of truth values", rw.elementwise(Opcode::Not, vec![predicate]))));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn clamp(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let Some(ty) = number_type(rw, id) else { return Ok(None) };
    let x = rw.operand(id, 1)?;
    let Some((low, high)) = int_range(ty) else { return Ok(None) };
    let at = |index, value| splat_operand(rw, id, index).is_some_and(|s| s.is_int(value));
    let (no_low, no_high) = (at(0, low), at(2, high));
    let (opcode, bound) = match (no_low, no_high) {
        (true, true) => return Ok(Some(("clamp to everything", x))),
        (true, false) => (Opcode::Minimum, rw.operand(id, 2)?),
        (false, true) => (Opcode::Maximum, rw.operand(id, 0)?),
        (false, false) => return Ok(None),
    };
    if !same_shape(rw, bound, id) {
        return Ok(None);
    }
    Ok(Some(("clamp on one side", rw.elementwise(opcode, vec![x, bound]))))
}

fn shift(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let a = rw.operand(id, 0)?;
    Ok(splat_operand(rw, id, 1).is_some_and(|s| s.is_int(0)).then_some(("shift by nothing", a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_inverses() {
        let inverse = |ty, x| exact_inverse(&Element::from_float(ty, x)?)?.float();
        assert_eq!(inverse(ElementType::F32, 8.0), Some(0.125));
        assert_eq!(inverse(ElementType::F32, -0.5), Some(-2.0));
        assert_eq!(inverse(ElementType::F32, 3.0), None);
        assert_eq!(inverse(ElementType::F32, 0.0), None);
        assert_eq!(inverse(ElementType::F32, 2f64.powi(127)), None, "the inverse would be subnormal");
        assert_eq!(inverse(ElementType::F16, 2f64.powi(15)), None);
        assert_eq!(inverse(ElementType::F16, 2f64.powi(14)), Some(2f64.powi(-14)));
    }
}
