//! Dense linear algebra and Fourier transforms.

use super::rule::{Call, Rule, Show, ensure, fail};
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    let shape = match call.opcode {
        Opcode::Cholesky => cholesky(call)?,
        Opcode::TriangularSolve => triangular_solve(call)?,
        _ => fft(call)?,
    };
    Ok(Shape::Array(shape))
}

/// Operand `i` as a batch of square matrices of floats or complex numbers.
fn square<'a>(call: &Call<'a>, i: usize) -> Rule<&'a ArrayShape> {
    let a = call.array(i)?;
    ensure!(
        a.ty.is_float() || a.ty.is_complex(),
        "linear-algebra.type",
        "expected a floating point or complex operand {i} of {}, found {}",
        call.opcode,
        a.ty
    );
    let n = a.rank();
    ensure!(
        n >= 2 && a.dims[n - 1] == a.dims[n - 2],
        "linear-algebra.square",
        "expected square matrices as operand {i} of {}, found {}",
        call.opcode,
        Show(a)
    );
    Ok(a)
}

fn cholesky(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = square(call, 0)?;
    Ok(a.with_type(a.ty))
}

fn triangular_solve(call: &Call<'_>) -> Rule<ArrayShape> {
    let (a, b) = (square(call, 0)?, call.array(1)?);
    ensure!(
        a.ty == b.ty,
        "triangular-solve.type",
        "expected operands of triangular-solve of one type, found {} and {}",
        a.ty,
        b.ty
    );
    let n = a.rank();
    ensure!(
        b.rank() == n && b.dims[..n - 2] == a.dims[..n - 2],
        "triangular-solve.batch",
        "expected right-hand sides with the batch dimensions of {}, found {}",
        Show(a),
        Show(b)
    );
    let left = call.attrs.bool(AttrKey::LeftSide).unwrap_or(false);
    let shared = if left { n - 2 } else { n - 1 };
    ensure!(
        b.dims[shared] == a.dims[n - 1],
        "triangular-solve.sizes",
        "expected size {} in dimension {shared} of the right-hand sides, found {}",
        a.dims[n - 1],
        Show(b)
    );
    Ok(b.with_type(b.ty))
}

fn fft(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    let kind = call.attrs.word(AttrKey::FftType).unwrap_or("FFT");
    let lengths = call.attrs.ints_or_empty(AttrKey::FftLength);
    let rank = lengths.len();
    ensure!((1..=3).contains(&rank), "fft.rank", "expected 1 to 3 transform lengths, found {rank}");
    ensure!(rank <= a.rank(), "fft.rank", "expected an operand of rank {rank} or more of fft, found {}", Show(a));
    ensure!(lengths.iter().all(|&n| n >= 0), "fft.length", "expected lengths of at least 0, found {lengths:?}");
    let last = a.rank() - 1;
    let half = lengths[rank - 1] / 2 + i64::from(lengths[rank - 1] > 0);
    let (from_real, ty) = match (kind, a.ty) {
        ("FFT" | "IFFT", ty) if ty.is_complex() => (false, ty),
        ("RFFT", ElementType::F32) => (true, ElementType::C64),
        ("RFFT", ElementType::F64) => (true, ElementType::C128),
        ("IRFFT", ty) if ty.is_complex() => (false, ty.real_part()),
        (kind, ty) => fail!(
            "fft.type",
            "expected {} operand of {kind}, found {ty}",
            if kind == "RFFT" { "an f32 or f64" } else { "a complex" }
        ),
    };
    let mut expected: Vec<i64> = lengths.to_vec();
    if kind == "IRFFT" {
        expected[rank - 1] = half;
    }
    let found = &a.dims[a.rank() - rank..];
    // Half of nothing and one is one: XLA takes an innermost dimension of 0 or of 1.
    if kind == "IRFFT" && lengths[rank - 1] == 0 && found[rank - 1] == 1 {
        expected[rank - 1] = 1;
    }
    ensure!(
        found == expected,
        "fft.length",
        "expected innermost dimensions {expected:?} for {kind} of length {lengths:?}, found {found:?}"
    );
    let mut out = a.with_type(ty);
    if from_real {
        out.dims[last] = half;
    } else if kind == "IRFFT" {
        out.dims[last] = lengths[rank - 1];
    }
    Ok(out)
}
