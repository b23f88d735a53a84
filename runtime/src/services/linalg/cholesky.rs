//! Cholesky factors.
//!
//! Invariant: only the named triangle is read. The upper factor of a matrix is the adjoint of its lower factor, so that
//! there is one algorithm: panels of columns, each followed by a product that updates what is right of it.

use super::arguments::Arguments;
use super::matrix::{Field, Matrix, subtract_product};
use crate::services::Failure;
use crate::services::routine::Routine;

/// Columns of a panel.
const PANEL: usize = 48;

/// Factors in place; the upper triangle is neither read nor kept. Yields 0, or the order of the first leading minor
/// that is not positive.
fn factor<T: Field>(a: &mut Matrix<T>) -> usize {
    let n = a.rows;
    for start in (0..n).step_by(PANEL) {
        let end = (start + PANEL).min(n);
        for j in start..end {
            let pivot = a.at(j, j).re();
            // Not a number is not positive either.
            if pivot.is_nan() || pivot <= 0.0 {
                return j + 1;
            }
            let root = T::of(pivot.sqrt(), 0.0);
            a.set(j, j, root);
            a.below_mut(j + 1, j).iter_mut().for_each(|v| *v = v.over(root));
            for c in j + 1..end {
                let factor = a.at(c, j).conjugate();
                let (from, to) = a.pair_below(c, j, c);
                to.iter_mut().zip(from).for_each(|(to, &from)| *to -= from * factor);
            }
        }
        let (left, mut right) = a.view_mut().split_at_col_mut(end);
        let panel = left.as_ref().subcols(start, end - start);
        for first in (end..n).step_by(PANEL) {
            let width = PANEL.min(n - first);
            let rows = panel.subrows(first, n - first);
            let to = right.as_mut().submatrix_mut(first, first - end, n - first, width);
            subtract_product(to, rows, rows.subrows(0, width).adjoint());
        }
    }
    0
}

/// `cholesky` and `potrf`. Option: the triangle.
pub(super) fn run<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let lower = args.letter(0, b'L');
    let with_info = args.routine == Routine::Potrf;
    for batch in 0..args.batches() {
        let a = args.matrix::<T>(0, batch)?;
        let n = a.rows;
        let read = |i: usize, j: usize| if lower { a.at(i, j) } else { a.at(j, i).conjugate() };
        let mut l = Matrix::generate(n, n, |i, j| if i >= j { read(i, j) } else { T::ZERO });
        let info = factor(&mut l);
        let out = Matrix::generate(n, n, |i, j| {
            let (row, column) = if lower { (i, j) } else { (j, i) };
            match (row >= column, with_info) {
                (true, false) if info != 0 => T::of(f64::NAN, 0.0),
                (true, _) if lower => l.at(row, column),
                (true, _) => l.at(row, column).conjugate(),
                // LAPACK leaves the other triangle alone.
                (false, true) => a.at(i, j),
                (false, false) => T::ZERO,
            }
        });
        args.put_matrix(0, batch, &out)?;
        if with_info {
            args.put_integers(1, batch, &[info as i32])?;
        }
    }
    Ok(())
}
