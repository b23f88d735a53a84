//! Calls of LAPACK, as JAX exports factors and triangular systems for CPUs: the operations that mean the same are
//! differentiated instead.

use super::rule::Rule;
use crate::builder::{Op, TransposeKind};
use crate::error::Result;
use crate::hlo::{AttrKey, lapack};
use brolga_runtime::services::routine::Routine;
use brolga_runtime::{ArrayShape, ElementType};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    let target = r.attrs().str(AttrKey::CustomCallTarget).unwrap_or_default().to_owned();
    let Some((routine, _, words)) = lapack(&r.instruction)? else {
        return Err(r.refuse(&format!("to '{target}'")));
    };
    let [_, by_rows, options @ ..] = &words[..] else { return Err(r.broken("calls no routine")) };
    if *by_rows != 0 {
        return Err(r.refuse(&format!("to '{target}' of matrices that lie row by row")));
    }
    let is = |option: usize, letter: u8| options.get(option) == Some(&i64::from(letter));
    match routine {
        Routine::Potrf => r.instead(|r| Ok(vec![factor(r, is(0, b'L'))?])),
        Routine::Trsm => {
            let transpose = match () {
                () if is(3, b'T') => TransposeKind::Transpose,
                () if is(3, b'C') => TransposeKind::Adjoint,
                () => TransposeKind::NoTranspose,
            };
            r.instead(|r| {
                let (a, b) = (r.operand(0)?, r.operand(1)?);
                Ok(vec![r.b.triangular_solve(a, b, is(0, b'L'), is(1, b'L'), is(2, b'U'), transpose)])
            })
        }
        _ => Err(r.refuse(&format!("to '{target}'"))),
    }
}

/// The factor in its triangle, what the matrix has in the other.
fn factor(r: &Rule<'_>, lower: bool) -> Result<Op> {
    let (b, x) = (r.b, r.operand(0)?);
    let shape = r.shape(x)?;
    let indices = ArrayShape::new(ElementType::S32, shape.dims.clone());
    let last = shape.rank() as i64 - 1;
    let (row, column) = (b.iota(indices.clone().into(), last - 1), b.iota(indices.into(), last));
    let within = if lower { b.ge(row, column) } else { b.le(row, column) };
    Ok(b.select(within, b.cholesky(x, lower), x))
}
