//! Cholesky factors.
//!
//! Invariant: only the named triangle is read and written. The transpose of an upper triangle is the lower one of the
//! conjugates, and so are their factors, so that there is one algorithm on a view: halves, the second one less the
//! product of what the first one leaves below it, down to small blocks that are factored column by column.

use super::arguments::{Arguments, view_mut};
use super::matrix::Field;
use super::triangular::{Triangle, exchange, solve_lower};
use crate::services::Failure;
use crate::services::routine::Routine;
use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, MatMut, Par};
use pulp::{Arch, Simd, WithSimd};

/// Blocks up to this size are factored column by column.
const SMALL: usize = 32;

/// Rows of a column that are worked on together; blocks are of multiples.
const STRETCH: usize = 8;

/// Factors in place; the upper triangle is neither used nor written. Yields 0, or the order of the first leading minor
/// that is not positive.
fn factor<T: Field>(a: MatMut<'_, T>) -> usize {
    let n = a.nrows();
    if n <= SMALL {
        return Arch::new().dispatch(Small { a });
    }
    let half = (n / 2).next_multiple_of(SMALL);
    let (mut first, _, mut below, mut last) = a.split_at_mut(half, half);
    match factor(first.as_mut()) {
        0 => {}
        order => return order,
    }
    // below = x * first^H is below^T = conj(first) * x^T.
    let triangle = Triangle { unit: false, conjugated: true };
    solve_lower(first.as_ref(), triangle, below.as_mut().transpose_mut());
    let (below, whole) = (below.as_ref(), BlockStructure::Rectangular);
    let to = BlockStructure::TriangularLower;
    matmul(last.as_mut(), to, Accum::Add, below, whole, below.adjoint(), whole, -T::ONE, Par::Seq);
    match factor(last) {
        0 => 0,
        order => half + order,
    }
}

/// A block of at most [`SMALL`] columns.
struct Small<'a, T> {
    a: MatMut<'a, T>,
}

impl<T: Field> WithSimd for Small<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        match self.a.nrows() {
            ..=8 => block::<T, 8>(self.a),
            9..=16 => block::<T, 16>(self.a),
            _ => block::<T, SMALL>(self.a),
        }
    }
}

/// Factors a block of at most `N` columns in a copy.
#[inline(always)]
fn block<T: Field, const N: usize>(a: MatMut<'_, T>) -> usize {
    let n = a.nrows();
    let mut columns = [[T::ZERO; N]; N];
    let mut rows = a.transpose_mut();
    exchange(rows.as_mut(), &mut columns, |_, _, a, to| *to = *a);
    let order = columnwise(&mut columns, n);
    exchange(rows, &mut columns, |j, i, a, from| {
        if i >= j {
            *a = *from;
        }
    });
    order
}

/// Factors the first `n` columns. What it leaves above the diagonal and below row `n` means nothing: stretches of whole
/// registers are what a vector unit takes best.
#[inline(always)]
fn columnwise<T: Field, const N: usize>(columns: &mut [[T; N]; N], n: usize) -> usize {
    for j in 0..n {
        let (left, right) = columns.split_at_mut(j + 1);
        let column = &mut left[j];
        let pivot = column[j].re();
        // Not a number is not positive either.
        if pivot.is_nan() || pivot <= 0.0 {
            return j + 1;
        }
        let root = T::of(pivot.sqrt(), 0.0);
        let start = j / STRETCH * STRETCH;
        for stretch in column[start..].as_chunks_mut::<STRETCH>().0 {
            stretch.iter_mut().for_each(|v| *v = v.over(root));
        }
        column[j] = root;
        let column = *column;
        for (to, c) in right.iter_mut().zip(j + 1..n) {
            let factor = column[c].conjugate();
            let start = c / STRETCH * STRETCH;
            let from = column[start..].as_chunks::<STRETCH>().0;
            for (to, from) in to[start..].as_chunks_mut::<STRETCH>().0.iter_mut().zip(from) {
                to.iter_mut().zip(from).for_each(|(to, &from)| *to -= from * factor);
            }
        }
    }
    0
}

/// `cholesky` and `potrf`. Option: the triangle.
pub(super) fn run<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let lower = args.letter(0, b'L');
    let with_info = args.routine == Routine::Potrf;
    let by_columns = args.by_columns;
    let (n, _) = args.operand_matrix(0)?;
    for batch in 0..args.batches() {
        let a = args.numbers::<T>(0, batch)?;
        let info = args.write(0, batch, |l: &mut [T]| {
            // LAPACK leaves the other triangle alone.
            l.iter_mut().zip(a.iter()).for_each(|(l, &a)| *l = a);
            let view = view_mut(by_columns, l, n, n);
            let info = factor(if lower { view } else { view.transpose_mut() });
            if !with_info {
                for (i, line) in l.chunks_exact_mut(n.max(1)).enumerate() {
                    let (before, after) = line.split_at_mut(if lower != by_columns { i + 1 } else { i });
                    let (kept, other) = if lower != by_columns { (before, after) } else { (after, before) };
                    other.fill(T::ZERO);
                    if info != 0 {
                        kept.fill(T::of(f64::NAN, 0.0));
                    }
                }
            }
            info
        })?;
        if with_info {
            args.put_integers(1, batch, &[info as i32])?;
        }
    }
    Ok(())
}
