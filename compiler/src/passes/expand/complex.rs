//! Contractions of complex numbers: products of the real and the imaginary parts, added up.

use crate::error::Result;
use crate::hlo::{AttrKey, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayLiteral, ArrayShape, Shape};

/// A dot or convolution with complex operands as up to four real ones: (a + bi)(c + di) = ac - bd + (ad + bc)i.
pub fn contraction(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let Some(shape) = rw.array(id).filter(|s| s.ty.is_complex() && !s.is_dynamic()).cloned() else { return Ok(None) };
    let instruction = rw.instruction(id).clone();
    let &[x, y] = instruction.operands.as_slice() else { return Ok(None) };
    let (x, y) = (Parts::of(rw, x), Parts::of(rw, y));
    let part = ArrayShape { ty: shape.ty.real_part(), layout: None, ..shape.clone() };
    let mut attrs = instruction.attrs;
    attrs.remove(AttrKey::ControlPredecessors);
    let product = |rw: &mut Rewriter<'_>, a: InstructionId, b: Option<InstructionId>| {
        b.map(|b| rw.emit(instruction.opcode, part.clone().into(), vec![a, b], attrs.clone()))
    };
    let ac = product(rw, x.re, Some(y.re));
    let ad = product(rw, x.re, y.im);
    let (bc, bd) = match x.im {
        Some(b) => (product(rw, b, Some(y.re)), product(rw, b, y.im)),
        None => (None, None),
    };
    let Some(mut re) = ac else { return Ok(None) };
    if let Some(bd) = bd {
        re = rw.elementwise(Opcode::Subtract, vec![re, bd]);
    }
    let im = match (ad, bc) {
        (Some(ad), Some(bc)) => rw.elementwise(Opcode::Add, vec![ad, bc]),
        (Some(im), None) | (None, Some(im)) => im,
        (None, None) => rw.splat(ArrayLiteral::zeros(&ArrayShape::new(part.ty, [])), &part),
    };
    let shape = Shape::Array(ArrayShape { layout: None, ..shape });
    Ok(Some(rw.emit(Opcode::Complex, shape, vec![re, im], Default::default())))
}

/// An operand taken apart.
struct Parts {
    re: InstructionId,
    /// Of complex operands.
    im: Option<InstructionId>,
}

impl Parts {
    fn of(rw: &mut Rewriter<'_>, x: InstructionId) -> Parts {
        let Some(shape) = rw.array(x).filter(|s| s.ty.is_complex()) else { return Parts { re: x, im: None } };
        let part = Shape::Array(ArrayShape { ty: shape.ty.real_part(), layout: None, ..shape.clone() });
        let re = rw.emit(Opcode::Real, part.clone(), vec![x], Default::default());
        let im = rw.emit(Opcode::Imag, part, vec![x], Default::default());
        Parts { re, im: Some(im) }
    }
}
