//! Dense linear algebra: factorizations, systems, singular values and eigenvalues.
//!
//! Problem: a program hands over batches of matrices in one of two orders and four types, and expects the results of the
//! LAPACK routines that its custom calls name, `info` and all. Invariant: every routine works on a dense column-major
//! copy (triangular systems and Cholesky factors on views of the arrays themselves), in the arithmetic of its type
//! (narrower floats in `f32`), on one thread, and never fails for what a matrix holds: that is what `info` and NaN are
//! for. Algorithm: [`check`] compares the shapes with those of the
//! routine, then each matrix of the batch is read, worked on and written. Systems, Cholesky, LU and Householder
//! factors are blocked loops here, with `faer`'s matrix product inside; the Schur form is a QR iteration of its own; singular
//! values and eigenvalues are `faer`'s. What iterates to singular values, to eigenvalues of symmetric matrices or to the
//! Schur form does so in double precision, whatever the type.
//!
//! | attribute | meaning |
//! |---|---|
//! | 0 | the [`Routine`] |
//! | 1 | 1 where the bytes of a matrix stand column by column, 0 for row by row |
//! | 2.. | the options of [`Routine::options`]: letters as LAPACK has them, or numbers |

mod arguments;
mod cholesky;
mod householder;
mod lu;
mod matrix;
mod schur;
mod spectral;
#[cfg(test)]
mod tests;
mod triangular;

pub use arguments::{Operand, Output};

use super::routine::{Routine, check};
use super::{Call, Failure, service};
use crate::abi::Context;
use crate::{ArrayShape, ElementType};
use arguments::Arguments;
use num_complex::Complex;

/// Runs a routine on arrays: `attributes` as the table of this module says.
///
/// # Errors
/// Where the shapes are not those of the routine.
pub fn compute<'a>(
    attributes: &'a [i64],
    operands: &'a [Operand<'a>],
    results: &'a mut [Output<'a>],
) -> Result<(), Failure> {
    let routine = attributes.first().and_then(|&code| Routine::of_code(code));
    match routine.map(Routine::service) {
        Some(crate::abi::Service::Cholesky) => solve_with(attributes, operands, results, cholesky_body),
        Some(crate::abi::Service::TriangularSolve) => solve_with(attributes, operands, results, triangular_body),
        Some(crate::abi::Service::Lu) => solve_with(attributes, operands, results, lu_body),
        Some(crate::abi::Service::Qr) => solve_with(attributes, operands, results, qr_body),
        Some(crate::abi::Service::HouseholderProduct) => solve_with(attributes, operands, results, product_body),
        Some(crate::abi::Service::Svd) => solve_with(attributes, operands, results, svd_body),
        Some(crate::abi::Service::Eigh) => solve_with(attributes, operands, results, eigh_body),
        Some(crate::abi::Service::Eig) => solve_with(attributes, operands, results, eig_body),
        _ => Err(Failure::new("a linear-algebra service was asked for a routine that it does not have")),
    }
}

type Body = fn(&mut Arguments<'_>, ElementType) -> Result<(), Failure>;

fn solve_with<'a>(
    attributes: &'a [i64],
    operands: &'a [Operand<'a>],
    results: &'a mut [Output<'a>],
    body: Body,
) -> Result<(), Failure> {
    let routine = attributes.first().and_then(|&code| Routine::of_code(code));
    let routine = routine.ok_or_else(|| Failure::new("a linear-algebra service was called without a routine"))?;
    let options = attributes.get(2..).unwrap_or(&[]);
    let operand_shapes: Vec<&ArrayShape> = operands.iter().map(|o| o.shape).collect();
    let result_shapes: Vec<&ArrayShape> = results.iter().map(|o| o.shape).collect();
    check(routine, options, &operand_shapes, &result_shapes).map_err(Failure::new)?;
    let by_columns = attributes.get(1) == Some(&1);
    let mut args = Arguments { routine, by_columns, options, operands, results };
    let ty = args.ty().unwrap_or(ElementType::F32);
    body(&mut args, ty)
}

/// Reads a call for a body.
fn serve(call: &mut Call<'_>, body: Body) -> Result<(), Failure> {
    // The matrix, its copy to work on, vectors on both sides with their copies, and what the iterations need.
    call.room(2, 8)?;
    let operand_shapes = call.operands().to_vec();
    let result_shapes = call.results().to_vec();
    let mut operands = Vec::with_capacity(operand_shapes.len());
    for (index, shape) in operand_shapes.iter().enumerate() {
        operands.push(Operand { shape, bytes: call.operand_bytes(index)? });
    }
    let attributes = call.attributes();
    let buffers = call.results_mut()?;
    let mut results: Vec<Output<'_>> =
        result_shapes.iter().zip(buffers).map(|(shape, bytes)| Output { shape, bytes }).collect();
    solve_with(attributes, &operands, &mut results, body)
}

/// A body that runs a generic function in the arithmetic of the matrices, and its service. Each service names its own
/// functions only, so that a linker drops those of the others.
macro_rules! bodies {
    ($($(#[$attribute:meta])* $name:ident $variant:ident $serve:ident $body:ident, $args:ident $number:ident => $run:expr;)*) => { $(
        fn $body($args: &mut Arguments<'_>, ty: ElementType) -> Result<(), Failure> {
            match ty {
                ElementType::F64 => { type $number = f64; $run }
                ElementType::C64 => { type $number = Complex<f32>; $run }
                ElementType::C128 => { type $number = Complex<f64>; $run }
                _ => { type $number = f32; $run }
            }
        }

        fn $serve(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
            serve(call, $body)
        }

        service! { $(#[$attribute])* $name, $variant, $serve }
    )* };
}

bodies! {
    /// Cholesky factors.
    CHOLESKY Cholesky serve_cholesky cholesky_body, args T => cholesky::run::<T>(args);
    /// Solutions of triangular systems.
    TRIANGULAR_SOLVE TriangularSolve serve_triangular triangular_body, args T => triangular::run::<T>(args);
    /// LU factors, and tridiagonal systems.
    LU Lu serve_lu lu_body, args T => lu::run::<T>(args);
    /// QR factors, Hessenberg and tridiagonal forms.
    QR Qr serve_qr qr_body, args T => match args.routine {
        Routine::Gehrd | Routine::Sytrd => householder::run_reduction::<T>(args),
        _ => householder::run_qr::<T>(args),
    };
    /// Products of Householder reflectors.
    HOUSEHOLDER_PRODUCT HouseholderProduct serve_product product_body, args T => householder::run_product::<T>(args);
    /// Singular values and vectors.
    SVD Svd serve_svd svd_body, args T => spectral::run_svd::<T>(args);
    /// Eigenvalues and vectors of symmetric and Hermitian matrices.
    EIGH Eigh serve_eigh eigh_body, args T => spectral::run_symmetric::<T>(args);
    /// Eigenvalues and vectors of general matrices, and their Schur forms.
    EIG Eig serve_eig eig_body, args T => match args.routine {
        Routine::Gees => schur::run::<T>(args),
        _ => spectral::run_general::<T>(args),
    };
}
