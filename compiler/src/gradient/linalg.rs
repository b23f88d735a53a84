//! Dense linear algebra and Fourier transforms.

use super::rule::{Rule, full, number, zeros};
use crate::builder::{FftKind, Op, PaddingDimension, TransposeKind};
use crate::error::Result;
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::Cholesky => cholesky(r),
        Opcode::TriangularSolve => triangular_solve(r),
        Opcode::Fft => fft(r),
        _ => Err(r.no_rule()),
    }
}

/// The last two dimensions exchanged.
fn transposed(r: &Rule<'_>, op: Op) -> Result<Op> {
    let rank = r.shape(op)?.rank();
    let mut order: Vec<i64> = (0..rank as i64).collect();
    if let Some(rest) = rank.checked_sub(2) {
        order.swap(rest, rest + 1);
    }
    Ok(r.b.transpose(op, &order))
}

/// The products of matrices in the last two dimensions.
fn product(r: &Rule<'_>, lhs: Op, rhs: Op) -> Result<Op> {
    let rank = r.shape(lhs)?.rank() as i64;
    let batch: Vec<i64> = (0..rank - 2).collect();
    let dims = crate::builder::DotDimensions {
        lhs_contracting: vec![rank - 1],
        rhs_contracting: vec![rank - 2],
        lhs_batch: batch.clone(),
        rhs_batch: batch,
    };
    Ok(r.b.dot_general(lhs, rhs, &dims))
}

/// The triangle of the matrices, other elements zero; without the diagonal where `strict`, or with `diagonal` times it.
fn triangle(r: &Rule<'_>, op: Op, lower: bool, diagonal: Diagonal) -> Result<Op> {
    let (b, shape) = (r.b, r.shape(op)?);
    let indices = ArrayShape::new(ElementType::S32, shape.dims.clone());
    let rank = shape.rank() as i64;
    let (row, column) = (b.iota(indices.clone().into(), rank - 2), b.iota(indices.into(), rank - 1));
    let (outer, inner) = if lower { (row, column) } else { (column, row) };
    let kept = if diagonal == Diagonal::Without { b.gt(outer, inner) } else { b.ge(outer, inner) };
    let value = b.select(kept, op, zeros(b, &shape));
    match diagonal {
        Diagonal::Half => Ok(b.select(b.eq(row, column), b.mul(value, number(b, shape.ty, 0.5)), value)),
        _ => Ok(value),
    }
}

/// What becomes of the diagonal of a triangle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Diagonal {
    Whole,
    Half,
    Without,
}

/// The complex conjugate; a real array as it is.
fn conjugate(r: &Rule<'_>, op: Op) -> Result<Op> {
    Ok(if r.shape(op)?.ty.is_complex() { r.b.complex(r.b.real(op), r.b.neg(r.b.imag(op))) } else { op })
}

/// Of `a = l l^H`, of which the lower triangle is read: with `p` the lower triangle of `l^T ct`, its diagonal halved, and
/// `s = l^-T p conj(l)^-1`, an element below the diagonal gets `s + s^H`, one of the diagonal, of which the real part is read,
/// the real part of `s`. The elements that are not read get nothing.
fn cholesky(r: &mut Rule<'_>) -> Result<()> {
    let b = r.b;
    let lower = r.attrs().bool(AttrKey::Lower).unwrap_or(false);
    let (mut l, mut ct) = (r.op, r.array_cotangent()?);
    // The upper factor of a matrix is the lower one of its transpose, transposed.
    if !lower {
        (l, ct) = (transposed(r, l)?, transposed(r, ct)?);
    }
    let l = triangle(r, l, true, Diagonal::Whole)?;
    let ct = triangle(r, ct, true, Diagonal::Whole)?;
    let p = triangle(r, product(r, transposed(r, l)?, ct)?, true, Diagonal::Half)?;
    let left = b.triangular_solve(l, p, true, true, false, TransposeKind::Transpose);
    let s = b.triangular_solve(conjugate(r, l)?, left, false, true, false, TransposeKind::NoTranspose);
    let value = triangle(r, b.add(s, conjugate(r, transposed(r, s)?)?), true, Diagonal::Half)?;
    let value = if lower { value } else { transposed(r, value)? };
    r.give(0, value);
    Ok(())
}

/// Of `op(a) x = b`: `b` gets the solution of the transposed system, `a` the triangle of minus its product with `x`.
fn triangular_solve(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, mut a) = (r.b, r.array_cotangent()?, r.operand(0)?);
    let flag = |key| r.attrs().bool(key).unwrap_or(false);
    let (left, lower, unit) = (flag(AttrKey::LeftSide), flag(AttrKey::Lower), flag(AttrKey::UnitDiagonal));
    let kind = r.attrs().word(AttrKey::TransposeA).unwrap_or("NO_TRANSPOSE");
    let is_transposed = kind != "NO_TRANSPOSE";
    // The adjoint is the transpose of the conjugate, whose cotangent is conjugated again.
    let adjoint = kind == "ADJOINT";
    if adjoint {
        a = conjugate(r, a)?;
    }
    let other = if is_transposed { TransposeKind::NoTranspose } else { TransposeKind::Transpose };
    let solved = b.triangular_solve(a, ct, left, lower, unit, other);
    r.give(1, solved);
    if r.wants(0) {
        let x = r.op;
        // Of op(a): -solved x^T, or -x^T solved from the right. Transposed where op transposes.
        let value = match (left, is_transposed) {
            (true, false) => product(r, solved, transposed(r, x)?)?,
            (true, true) => product(r, x, transposed(r, solved)?)?,
            (false, false) => product(r, transposed(r, x)?, solved)?,
            (false, true) => product(r, transposed(r, solved)?, x)?,
        };
        let diagonal = if unit { Diagonal::Without } else { Diagonal::Whole };
        let value = triangle(r, b.neg(value), lower, diagonal)?;
        let value = if adjoint { conjugate(r, value)? } else { value };
        r.give(0, value);
    }
    Ok(())
}

/// A transform is its own transpose. Of the halves, the cotangent is what the whole transform would give.
fn fft(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct) = (r.b, r.array_cotangent()?);
    let lengths = r.attrs().ints_or_empty(AttrKey::FftLength).to_vec();
    let (from, to) = (r.shape(r.operand(0)?)?, r.shape(ct)?);
    let (Some(&last), Some(rank)) = (lengths.last(), to.rank().checked_sub(1)) else {
        return Err(r.broken("transforms no dimension"));
    };
    let value = match r.attrs().word(AttrKey::FftType) {
        Some("FFT") => b.fft(ct, FftKind::Fft, &lengths),
        Some("IFFT") => b.fft(ct, FftKind::Ifft, &lengths),
        Some("RFFT") => {
            let mut padding = vec![PaddingDimension::default(); to.rank()];
            padding[rank].high = last - to.dims[rank];
            b.real(b.fft(b.pad(ct, b.zero(to.ty), &padding), FftKind::Fft, &lengths))
        }
        Some("IRFFT") => {
            // What the result repeats of the halves counts twice: all but the first, and the middle of an even length.
            let half = b.fft(ct, FftKind::Rfft, &lengths);
            let index = b.iota(from.with_type(ElementType::S32).into(), rank as i64);
            let once = b.or(
                b.eq(index, b.zero(ElementType::S32)),
                b.eq(b.add(index, index), b.constant_r0(i32::try_from(last).unwrap_or(-1))),
            );
            let scale = 1.0 / lengths.iter().map(|&n| n as f64).product::<f64>();
            let real = from.with_type(to.ty);
            let of = |v: f64| full(b, &real, number(b, to.ty, v));
            let scales = b.select(once, of(scale), of(2.0 * scale));
            b.complex(b.mul(b.real(half), scales), b.neg(b.mul(b.imag(half), scales)))
        }
        _ => return Err(r.no_rule()),
    };
    r.give(0, value);
    Ok(())
}
