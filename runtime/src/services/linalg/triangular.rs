//! Triangular systems.
//!
//! Problem: twelve orientations. Invariant: only the triangle that is named is read. Algorithm: a view turns the matrix
//! into the one form "lower, from the left, not transposed" (an upper triangle is a lower one with its rows and columns
//! reversed; a system from the right is one from the left of the transposes; an array row by row is the transpose of one
//! column by column), halved until it is small; the parts off the diagonal are matrix products. Small systems are solved
//! for a few vectors side by side, which stand in a tile on the stack so that a vector unit works on as many of them at
//! once as it has lanes.

use super::arguments::{Arguments, view_mut};
use super::matrix::{Field, subtract_product};
use crate::services::Failure;
use faer::{MatMut, MatRef};
use pulp::{Arch, Simd, WithSimd};

/// Systems up to this size are solved element by element. Even: rows are solved in pairs.
const SMALL: usize = 32;

/// How a triangle is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Triangle {
    /// Ones on the diagonal, which is not read.
    pub unit: bool,
    /// Every element as its conjugate.
    pub conjugated: bool,
}

/// Solves `l * x = b` in place for a lower triangle.
pub(super) fn solve_lower<T: Field>(l: MatRef<'_, T>, triangle: Triangle, b: MatMut<'_, T>) {
    let n = l.nrows();
    if n > SMALL {
        let half = (n / 2).next_multiple_of(SMALL);
        let (first, _, below, last) = l.split_at(half, half);
        let (mut top, mut bottom) = b.split_at_row_mut(half);
        solve_lower(first, triangle, top.as_mut());
        match triangle.conjugated {
            true => subtract_product(bottom.as_mut(), below.conjugate(), top.as_ref()),
            false => subtract_product(bottom.as_mut(), below, top.as_ref()),
        }
        return solve_lower(last, triangle, bottom);
    }
    Arch::new().dispatch(Small { l, triangle, b });
}

/// A system of at most [`SMALL`] rows.
struct Small<'a, T> {
    l: MatRef<'a, T>,
    triangle: Triangle,
    b: MatMut<'a, T>,
}

impl<T: Field> WithSimd for Small<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.l.nrows() {
            ..=8 => self.solve::<8>(),
            _ => self.solve::<SMALL>(),
        }
    }
}

impl<T: Field> Small<'_, T> {
    /// Solves a system of at most `N` rows.
    #[inline(always)]
    fn solve<const N: usize>(self) {
        let (n, mut b) = (self.l.nrows(), self.b);
        let mut l = [[T::ZERO; N]; N];
        for (i, row) in l.iter_mut().enumerate() {
            row[i] = T::ONE;
            let known = if i < n { i + usize::from(!self.triangle.unit) } else { 0 };
            for (j, to) in row.iter_mut().enumerate().take(known) {
                let value = self.l[(i, j)];
                *to = if self.triangle.conjugated { value.conjugate() } else { value };
            }
        }
        let mut done = 0;
        while done < b.ncols() {
            let left = b.ncols() - done;
            let rest = b.as_mut().subcols_mut(done, left);
            // As many lanes as eight registers of 256 bits hold with two rows at once, or one register for a few.
            done += match (size_of::<T>(), left) {
                (..=4, ..=8) => tile::<T, 8, N>(&l, n, rest),
                (..=4, _) => tile::<T, 32, N>(&l, n, rest),
                (..=8, ..=4) => tile::<T, 4, N>(&l, n, rest),
                (..=8, _) => tile::<T, 16, N>(&l, n, rest),
                (_, ..=2) => tile::<T, 2, N>(&l, n, rest),
                _ => tile::<T, 8, N>(&l, n, rest),
            };
        }
    }
}

/// Solves for the first `W` columns, or for all where there are fewer. Yields their number.
#[inline(always)]
fn tile<T: Field, const W: usize, const N: usize>(l: &[[T; N]; N], n: usize, b: MatMut<'_, T>) -> usize {
    let width = b.ncols().min(W);
    let mut b = b.subcols_mut(0, width);
    let mut x = [[T::ZERO; W]; N];
    exchange(b.as_mut(), &mut x, |_, _, b, x| *x = *b);
    for i in (0..n).step_by(2) {
        let (known, rest) = x.split_at_mut(i);
        let [first, second, ..] = rest else { break };
        let (mut upper, mut lower) = (*first, *second);
        for ((known, a), b) in known.iter().zip(&l[i]).zip(&l[i + 1]) {
            for ((upper, lower), known) in upper.iter_mut().zip(&mut lower).zip(known) {
                *upper -= *a * *known;
                *lower -= *b * *known;
            }
        }
        // The diagonal of a unit triangle holds ones.
        let (pivot, below, next) = (l[i][i], l[i + 1][i], l[i + 1][i + 1]);
        for (upper, lower) in upper.iter_mut().zip(&mut lower) {
            *upper = upper.over(pivot);
            *lower = (*lower - below * *upper).over(next);
        }
        (*first, *second) = (upper, lower);
    }
    exchange(b, &mut x, |_, _, b, x| *b = *x);
    width
}

/// Runs over the elements of a matrix beside those of a tile, with row and column, along the axis on which they stand
/// side by side.
#[inline(always)]
pub(super) fn exchange<T: Field, const W: usize>(
    b: MatMut<'_, T>,
    x: &mut [[T; W]],
    copy: impl Fn(usize, usize, &mut T, &mut T),
) {
    let mut b = b;
    let (n, width) = (b.nrows(), b.ncols());
    if b.row_stride().abs() == 1 {
        let reversed = b.row_stride() < 0;
        for c in 0..width {
            let column = b.as_mut().col_mut(c);
            let column = if reversed { column.reverse_rows_mut() } else { column };
            let Some(column) = column.try_as_col_major_mut() else { continue };
            let (places, x) = (column.as_slice_mut().iter_mut(), x.iter_mut().enumerate());
            match reversed {
                true => places.rev().zip(x).for_each(|(b, (i, x))| copy(i, c, b, &mut x[c])),
                false => places.zip(x).for_each(|(b, (i, x))| copy(i, c, b, &mut x[c])),
            }
        }
        return;
    }
    for (i, x) in x.iter_mut().enumerate().take(n) {
        let x = x.iter_mut().enumerate().take(width);
        match b.as_mut().row_mut(i).try_as_row_major_mut() {
            Some(row) => row.as_slice_mut().iter_mut().zip(x).for_each(|(b, (c, x))| copy(i, c, b, x)),
            None => x.for_each(|(c, x)| copy(i, c, &mut b[(i, c)], x)),
        }
    }
}

/// `triangular-solve` and `trsm`. Options: side, triangle, diagonal, transposition, as LAPACK's letters.
pub(super) fn run<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let (left, lower) = (args.letter(0, b'L'), args.letter(1, b'L'));
    let triangle = Triangle { unit: args.letter(2, b'U'), conjugated: args.letter(3, b'C') };
    // x * op(a) = b is op(a)^T * x^T = b^T: the right side swaps the indices of the matrix once more.
    let swapped = args.letter(3, b'N') != left;
    let reversed = lower == swapped;
    let by_columns = args.by_columns;
    let (n, _) = args.operand_matrix(0)?;
    let (rows, columns) = args.result_matrix(0)?;
    for batch in 0..args.batches() {
        let (a, b) = (args.numbers::<T>(0, batch)?, args.numbers::<T>(1, batch)?);
        // A square array row by row is its transpose column by column.
        let a = MatRef::from_column_major_slice(&a, n, n);
        let a = if swapped == by_columns { a.transpose() } else { a };
        args.write(0, batch, |x: &mut [T]| {
            x.iter_mut().zip(b.iter()).for_each(|(x, &b)| *x = b);
            let x = view_mut(by_columns, x, rows, columns);
            let x = if left { x } else { x.transpose_mut() };
            match reversed {
                true => solve_lower(a.reverse_rows_and_cols(), triangle, x.reverse_rows_mut()),
                false => solve_lower(a, triangle, x),
            }
        })?;
    }
    Ok(())
}
