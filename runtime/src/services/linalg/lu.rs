//! LU factors with partial pivoting, and tridiagonal systems.
//!
//! Algorithm: panels of columns with row exchanges across the whole matrix, then the rows right of the panel, then one
//! product. The pivot is the first element of the largest `|re| + |im|`, as in LAPACK.

use super::arguments::Arguments;
use super::matrix::{Field, Matrix, subtract_product};
use super::triangular::{Triangle, solve_lower};
use crate::services::Failure;
use crate::services::routine::Routine;

/// Columns of a panel.
const PANEL: usize = 32;

fn weight<T: Field>(v: T) -> f64 {
    v.re().abs() + v.im().abs()
}

/// Factors in place. Yields the row that each row was exchanged with, and 0 or the position of the first zero pivot,
/// counted from 1.
fn factor<T: Field>(a: &mut Matrix<T>) -> (Vec<usize>, usize) {
    let (m, n) = (a.rows, a.columns);
    let steps = m.min(n);
    let (mut pivots, mut info) = (Vec::with_capacity(steps), 0);
    for start in (0..steps).step_by(PANEL) {
        let end = (start + PANEL).min(steps);
        for j in start..end {
            let column = a.below(0, j);
            let pivot = (j..m).fold(j, |best, i| if weight(column[i]) > weight(column[best]) { i } else { best });
            pivots.push(pivot);
            if weight(column[pivot]) == 0.0 {
                if info == 0 {
                    info = j + 1;
                }
                continue;
            }
            if pivot != j {
                a.data.chunks_exact_mut(m).for_each(|column| column.swap(j, pivot));
            }
            let pivot = a.at(j, j);
            a.below_mut(j + 1, j).iter_mut().for_each(|v| *v = v.over(pivot));
            for c in j + 1..end {
                let factor = a.at(j, c);
                let (from, to) = a.pair_below(j + 1, j, c);
                to.iter_mut().zip(from).for_each(|(to, &from)| *to -= from * factor);
            }
        }
        let (left, right) = a.view_mut().split_at_col_mut(end);
        let panel = left.as_ref().submatrix(start, start, m - start, end - start);
        let (mut top, bottom) = right.split_at_row_mut(end);
        let mut top = top.as_mut().subrows_mut(start, end - start);
        let triangle = Triangle { unit: true, conjugated: false };
        solve_lower(panel.subrows(0, end - start), triangle, top.as_mut());
        subtract_product(bottom, panel.subrows(end - start, m - end), top.as_ref());
    }
    (pivots, info)
}

/// Solves a tridiagonal system in place: `dl[i]` stands left of the diagonal in row `i`, `du[i]` right of it. Yields 0
/// or the position of the first zero pivot, counted from 1.
fn tridiagonal<T: Field>(dl: &mut [T], d: &mut [T], du: &mut [T], b: &mut Matrix<T>) -> usize {
    let n = d.len();
    // What an exchange of rows puts two right of the diagonal.
    let mut second = vec![T::ZERO; n];
    for i in 0..n.saturating_sub(1) {
        if weight(d[i]) < weight(dl[i + 1]) {
            let (below, right) = (d[i + 1], if i + 2 < n { du[i + 1] } else { T::ZERO });
            d[i + 1] = du[i];
            du[i] = below;
            second[i] = right;
            std::mem::swap(&mut d[i], &mut dl[i + 1]);
            if i + 2 < n {
                du[i + 1] = T::ZERO;
            }
            b.data.chunks_exact_mut(n).for_each(|column| column.swap(i, i + 1));
        }
        if weight(d[i]) == 0.0 {
            return i + 1;
        }
        let factor = dl[i + 1].over(d[i]);
        d[i + 1] -= factor * du[i];
        if i + 2 < n {
            du[i + 1] -= factor * second[i];
        }
        dl[i + 1] = factor;
        b.data.chunks_exact_mut(n).for_each(|column| column[i + 1] -= factor * column[i]);
    }
    if n > 0 && weight(d[n - 1]) == 0.0 {
        return n;
    }
    for column in b.data.chunks_exact_mut(n.max(1)) {
        for i in (0..n).rev() {
            let mut rest = column[i];
            if i + 1 < n {
                rest -= du[i] * column[i + 1];
            }
            if i + 2 < n {
                rest -= second[i] * column[i + 2];
            }
            column[i] = rest.over(d[i]);
        }
    }
    0
}

/// `getrf` and `gtsv`.
pub(super) fn run<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    for batch in 0..args.batches() {
        if args.routine == Routine::Gtsv {
            let mut diagonals = Vec::with_capacity(3);
            for k in 0..3 {
                diagonals.push(args.vector::<T>(k, batch)?);
            }
            let mut b = args.matrix::<T>(3, batch)?;
            let mut info = 0;
            if let [dl, d, du] = &mut diagonals[..] {
                info = tridiagonal(dl, d, du, &mut b);
            }
            for (k, diagonal) in diagonals.iter().enumerate() {
                args.put_vector(k, batch, diagonal)?;
            }
            args.put_matrix(3, batch, &b)?;
            args.put_integers(4, batch, &[info as i32])?;
            continue;
        }
        let mut a = args.matrix::<T>(0, batch)?;
        let (pivots, info) = factor(&mut a);
        let pivots: Vec<i32> = pivots.iter().map(|&p| p as i32 + 1).collect();
        args.put_matrix(0, batch, &a)?;
        args.put_integers(1, batch, &pivots)?;
        args.put_integers(2, batch, &[info as i32])?;
    }
    Ok(())
}
