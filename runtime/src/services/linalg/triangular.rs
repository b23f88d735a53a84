//! Triangular systems.
//!
//! Problem: twelve orientations. Invariant: only the triangle that is named is read. Algorithm: the matrix is copied
//! into the one form "lower, from the left, not transposed" (an upper triangle is a lower one with its rows and columns
//! reversed; a system from the right is one from the left of the transposes), halved until it is small; the parts off
//! the diagonal are matrix products.

use super::arguments::Arguments;
use super::matrix::{Field, Matrix, subtract_product};
use crate::services::Failure;
use faer::{MatMut, MatRef};

/// Systems up to this size are solved element by element.
const SMALL: usize = 32;

/// Solves `l * x = b` in place for a lower triangle.
pub(super) fn solve_lower<T: Field>(l: MatRef<'_, T>, unit: bool, b: MatMut<'_, T>) {
    let n = l.nrows();
    if n > SMALL {
        let half = n / 2;
        let (first, _, below, last) = l.split_at(half, half);
        let (mut top, mut bottom) = b.split_at_row_mut(half);
        solve_lower(first, unit, top.as_mut());
        subtract_product(bottom.as_mut(), below, top.as_ref());
        solve_lower(last, unit, bottom);
        return;
    }
    let mut b = b;
    let small = Matrix::generate(n, n, |i, j| if i >= j { l[(i, j)] } else { T::ZERO });
    let mut x = vec![T::ZERO; n];
    for c in 0..b.ncols() {
        x.iter_mut().enumerate().for_each(|(i, x)| *x = b[(i, c)]);
        for j in 0..n {
            let (known, rest) = x.split_at_mut(j + 1);
            if !unit {
                known[j] = known[j].over(small.at(j, j));
            }
            rest.iter_mut().zip(small.below(j + 1, j)).for_each(|(x, &l)| *x -= l * known[j]);
        }
        x.iter().enumerate().for_each(|(i, x)| b[(i, c)] = *x);
    }
}

/// `left, lower, unit, transposed, conjugated`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orientation {
    pub left: bool,
    pub lower: bool,
    pub unit: bool,
    pub transposed: bool,
    pub conjugated: bool,
}

/// Solves `op(a) * x = b`, or `x * op(a) = b`.
pub(super) fn solve<T: Field>(a: &Matrix<T>, o: Orientation, b: &Matrix<T>) -> Matrix<T> {
    let n = a.rows;
    // x * op(a) = b is op(a)^T * x^T = b^T: the right side swaps the indices of the matrix once more.
    let swapped = o.transposed == o.left;
    let reversed = o.lower == swapped;
    let turn = |i: usize, size: usize| if reversed { size - 1 - i } else { i };
    let l = Matrix::generate(n, n, |i, j| {
        if i < j || (i == j && o.unit) {
            return T::ZERO;
        }
        let (i, j) = (turn(i, n), turn(j, n));
        let value = if swapped { a.at(j, i) } else { a.at(i, j) };
        if o.conjugated { value.conjugate() } else { value }
    });
    let vectors = if o.left { b.columns } else { b.rows };
    let mut x = Matrix::generate(n, vectors, |i, v| if o.left { b.at(turn(i, n), v) } else { b.at(v, turn(i, n)) });
    solve_lower(l.view(), o.unit, x.view_mut());
    Matrix::generate(b.rows, b.columns, |i, j| if o.left { x.at(turn(i, n), j) } else { x.at(turn(j, n), i) })
}

/// `triangular-solve` and `trsm`. Options: side, triangle, diagonal, transposition, as LAPACK's letters.
pub(super) fn run<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let orientation = Orientation {
        left: args.letter(0, b'L'),
        lower: args.letter(1, b'L'),
        unit: args.letter(2, b'U'),
        transposed: !args.letter(3, b'N'),
        conjugated: args.letter(3, b'C'),
    };
    for batch in 0..args.batches() {
        let (a, b) = (args.matrix::<T>(0, batch)?, args.matrix::<T>(1, batch)?);
        args.put_matrix(0, batch, &solve(&a, orientation, &b))?;
    }
    Ok(())
}
