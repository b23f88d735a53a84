//! Householder reflectors: QR, products of reflectors, Hessenberg and tridiagonal forms.
//!
//! A reflector is `H = I - tau * v * v^H` with `v[0] = 1`, as in LAPACK: applied as its adjoint to the column that made
//! it, it leaves a real number and zeros. A panel of reflectors is `I - V * T * V^H` with an upper triangle `T`, so that
//! applying it is three products.

use super::arguments::Arguments;
use super::matrix::{Field, Matrix, norm, product, subtract_product};
use crate::services::Failure;
use crate::services::routine::Routine;

/// Reflectors of a panel.
const PANEL: usize = 32;

/// Makes a reflector from a column: its first element becomes the real number, the others the tail of `v`. Yields `tau`.
pub(super) fn reflector<T: Field>(x: &mut [T]) -> T {
    let Some((first, rest)) = x.split_first_mut() else { return T::ZERO };
    let (alpha, tail) = (*first, norm(rest));
    if tail == 0.0 && alpha.im() == 0.0 {
        return T::ZERO;
    }
    let length = alpha.magnitude().hypot(tail);
    let beta = if alpha.re() < 0.0 { length } else { -length };
    let tau = T::of((beta - alpha.re()) / beta, -alpha.im() / beta);
    let pivot = alpha - T::of(beta, 0.0);
    rest.iter_mut().for_each(|v| *v = v.over(pivot));
    *first = T::of(beta, 0.0);
    tau
}

/// `x^H * y`.
fn dot<T: Field>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::ZERO, |s, (x, &y)| s + x.conjugate() * y)
}

/// `y -= factor * x`.
fn subtract<T: Field>(y: &mut [T], factor: T, x: &[T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y -= factor * x);
}

/// Applies `I - tau * v * v^H` to a column, where `v` is 1 and then `tail`.
fn apply<T: Field>(tail: &[T], tau: T, y: &mut [T]) {
    let Some((first, rest)) = y.split_first_mut() else { return };
    let factor = tau * (*first + dot(tail, rest));
    *first -= factor;
    subtract(rest, factor, tail);
}

/// The reflectors `from..to` that stand below the diagonal of `a`, with `rows - from` rows, and their triangle `T`.
fn panel<T: Field>(a: &Matrix<T>, taus: &[T], from: usize, to: usize) -> (Matrix<T>, Matrix<T>) {
    let k = to - from;
    let v = Matrix::generate(a.rows - from, k, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Less => T::ZERO,
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Greater => a.at(from + i, from + j),
    });
    let mut t = Matrix::zeros(k, k);
    for j in 0..k {
        let tau = taus[from + j];
        t.set(j, j, tau);
        let overlaps: Vec<T> = (0..j).map(|i| dot(v.below(j, i), v.below(j, j))).collect();
        for i in 0..j {
            let sum = (i..j).fold(T::ZERO, |s, l| s + t.at(i, l) * overlaps[l]);
            t.set(i, j, -(tau * sum));
        }
    }
    (v, t)
}

/// Applies the panel that begins at `from`, or its adjoint, to the rows from there on of the columns from `first` on.
fn apply_panel<T: Field>(v: &Matrix<T>, t: &Matrix<T>, adjoint: bool, c: &mut Matrix<T>, from: usize, first: usize) {
    let (rows, columns) = (c.rows - from, c.columns - first);
    if columns == 0 {
        return;
    }
    let part = c.view().submatrix(from, first, rows, columns);
    let overlap = product(v.view().adjoint(), part);
    let weights = if adjoint { product(t.view().adjoint(), overlap.view()) } else { product(t.view(), overlap.view()) };
    subtract_product(c.view_mut().submatrix_mut(from, first, rows, columns), v.view(), weights.view());
}

/// QR in place.
fn qr<T: Field>(a: &mut Matrix<T>) -> Vec<T> {
    let k = a.rows.min(a.columns);
    let mut taus = vec![T::ZERO; k];
    for start in (0..k).step_by(PANEL) {
        let end = (start + PANEL).min(k);
        for (j, tau) in taus.iter_mut().enumerate().take(end).skip(start) {
            *tau = reflector(a.below_mut(j, j));
            for c in j + 1..end {
                let (v, y) = a.pair_below(j, j, c);
                apply(&v[1..], tau.conjugate(), y);
            }
        }
        if end < a.columns {
            let (v, t) = panel(a, &taus, start, end);
            apply_panel(&v, &t, true, a, start, end);
        }
    }
    taus
}

/// QR in place with the column of the largest remaining norm next, after the columns that `pivots` (nonzero) says come
/// first. `pivots` becomes the original position of each column, counted from 1.
fn pivoted_qr<T: Field>(a: &mut Matrix<T>, pivots: &mut [i32]) -> Vec<T> {
    let (m, n) = (a.rows, a.columns);
    let mut fixed = 0;
    let wanted: Vec<bool> = pivots.iter().map(|&p| p != 0).collect();
    pivots.iter_mut().enumerate().for_each(|(j, p)| *p = j as i32 + 1);
    for j in (0..n).filter(|&j| wanted[j]) {
        a.swap_columns(fixed, j);
        pivots.swap(fixed, j);
        fixed += 1;
    }
    let mut taus = vec![T::ZERO; m.min(n)];
    let mut norms: Vec<(f64, f64)> = Vec::new();
    let tolerance = if T::SINGLE { f32::EPSILON.into() } else { f64::EPSILON };
    for (j, tau) in taus.iter_mut().enumerate() {
        if j >= fixed {
            if norms.is_empty() {
                norms = (0..n).map(|c| norm(a.below(j, c))).map(|v| (v, v)).collect();
            }
            let best = (j..n).fold(j, |best, c| if norms[c].0 > norms[best].0 { c } else { best });
            a.swap_columns(j, best);
            pivots.swap(j, best);
            norms.swap(j, best);
        }
        *tau = reflector(a.below_mut(j, j));
        for c in j + 1..n {
            let (v, y) = a.pair_below(j, j, c);
            apply(&v[1..], tau.conjugate(), y);
            if let Some((now, reference)) = norms.get_mut(c).filter(|n| n.0 != 0.0) {
                // What is left of the norm, worked out anew where cancellation has spoiled it.
                let ratio = y[0].magnitude() / *now;
                let left = (1.0 - ratio * ratio).max(0.0);
                if left * (*now / *reference).powi(2) <= f64::sqrt(tolerance) {
                    *now = norm(&y[1..]);
                    *reference = *now;
                } else {
                    *now *= left.sqrt();
                }
            }
        }
    }
    taus
}

/// Applies the product of reflectors `H1 * H2 * ...`, or its adjoint, from the left.
fn apply_product<T: Field>(a: &Matrix<T>, taus: &[T], adjoint: bool, c: &mut Matrix<T>) {
    let starts = (0..taus.len()).step_by(PANEL);
    let step = |start: usize, c: &mut Matrix<T>| {
        let (v, t) = panel(a, taus, start, (start + PANEL).min(taus.len()));
        apply_panel(&v, &t, adjoint, c, start, 0);
    };
    if adjoint {
        starts.for_each(|start| step(start, c));
    } else {
        starts.rev().for_each(|start| step(start, c));
    }
}

/// `geqrf` and `geqp3`.
pub(super) fn run_qr<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    for batch in 0..args.batches() {
        let mut a = args.matrix::<T>(0, batch)?;
        if args.routine == Routine::Geqp3 {
            let mut pivots = args.integers(1, batch)?;
            let taus = pivoted_qr(&mut a, &mut pivots);
            args.put_integers(1, batch, &pivots)?;
            args.put_vector(2, batch, &taus)?;
        } else {
            let taus = qr(&mut a);
            args.put_vector(1, batch, &taus)?;
        }
        args.put_matrix(0, batch, &a)?;
    }
    Ok(())
}

/// `orgqr` and `ormqr`. Options of the latter: whether the product stands left, whether it is its adjoint.
pub(super) fn run_product<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    for batch in 0..args.batches() {
        let a = args.matrix::<T>(0, batch)?;
        let taus = args.vector::<T>(1, batch)?;
        let out = if args.routine == Routine::Ormqr {
            let (left, adjoint) = (args.option(0) != 0, args.option(1) != 0);
            let c = args.matrix::<T>(2, batch)?;
            // C * Q is the adjoint of Q^H * C^H.
            let mut c = if left { c } else { c.adjoint() };
            apply_product(&a, &taus, adjoint == left, &mut c);
            if left { c } else { c.adjoint() }
        } else {
            let mut q = Matrix::identity(a.rows, a.columns);
            apply_product(&a, &taus, false, &mut q);
            q
        };
        args.put_matrix(0, batch, &out)?;
    }
    Ok(())
}

/// Hessenberg form in place, of the rows and columns `low..high`.
pub(super) fn hessenberg<T: Field>(a: &mut Matrix<T>, low: usize, high: usize) -> Vec<T> {
    let n = a.rows;
    let mut taus = vec![T::ZERO; n.saturating_sub(1)];
    let last = high.saturating_sub(1);
    for (i, place) in taus.iter_mut().enumerate().take(last).skip(low) {
        let count = high - i - 1;
        let tau = reflector(&mut a.below_mut(i + 1, i)[..count]);
        *place = tau;
        let tail = a.below(i + 2, i)[..count - 1].to_vec();
        let v = |k: usize| if k == 0 { T::ONE } else { tail[k - 1] };
        // From the right: all rows down to `high`.
        let mut sums = vec![T::ZERO; high];
        for k in 0..count {
            subtract(&mut sums, -v(k), &a.below(0, i + 1 + k)[..high]);
        }
        for k in 0..count {
            subtract(&mut a.below_mut(0, i + 1 + k)[..high], tau * v(k).conjugate(), &sums);
        }
        for c in i + 1..n {
            apply(&tail, tau.conjugate(), &mut a.below_mut(i + 1, c)[..count]);
        }
    }
    taus
}

/// The unitary matrix of a whole Hessenberg form, whose reflectors stand below the subdiagonal.
pub(super) fn hessenberg_vectors<T: Field>(factors: &Matrix<T>, taus: &[T]) -> Matrix<T> {
    let inner = factors.rows.saturating_sub(1);
    let reflectors = Matrix::generate(inner, inner, |i, j| factors.at(i + 1, j));
    let mut q = Matrix::identity(inner, inner);
    apply_product(&reflectors, taus, false, &mut q);
    Matrix::generate(factors.rows, factors.rows, |i, j| match (i, j) {
        (0, 0) => T::ONE,
        (0, _) | (_, 0) => T::ZERO,
        _ => q.at(i - 1, j - 1),
    })
}

/// The tridiagonal form of a Hermitian matrix whose both triangles are given; reflectors stay in the lower one. Yields
/// the diagonal, what is beside it, and `tau`.
fn tridiagonal<T: Field>(a: &mut Matrix<T>) -> (Vec<f64>, Vec<f64>, Vec<T>) {
    let n = a.rows;
    let (mut beside, mut taus) = (Vec::new(), Vec::new());
    for i in 0..n.saturating_sub(1) {
        let tau = reflector(a.below_mut(i + 1, i));
        beside.push(a.at(i + 1, i).re());
        taus.push(tau);
        let mut v = a.below(i + 1, i).to_vec();
        v[0] = T::ONE;
        let mut w = vec![T::ZERO; v.len()];
        for (k, &v) in v.iter().enumerate() {
            subtract(&mut w, -(tau * v), a.below(i + 1, i + 1 + k));
        }
        let half = (tau * dot(&w, &v)).times(0.5);
        subtract(&mut w, half, &v);
        for k in 0..v.len() {
            let column = a.below_mut(i + 1, i + 1 + k);
            subtract(column, w[k].conjugate(), &v);
            subtract(column, v[k].conjugate(), &w);
        }
    }
    ((0..n).map(|i| a.at(i, i).re()).collect(), beside, taus)
}

/// `gehrd` and `sytrd`. Options: the range of the former, counted from 1; the triangle of the latter.
pub(super) fn run_reduction<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    for batch in 0..args.batches() {
        let given = args.matrix::<T>(0, batch)?;
        let n = given.rows;
        if args.routine == Routine::Gehrd {
            let bound = |option: i64| usize::try_from(option).unwrap_or(0).min(n);
            let (low, high) = (bound(args.option(0)).max(1) - 1, bound(args.option(1)));
            let mut a = given;
            let taus = hessenberg(&mut a, low, high);
            args.put_matrix(0, batch, &a)?;
            args.put_vector(1, batch, &taus)?;
            args.put_integers(2, batch, &[0])?;
            continue;
        }
        let lower = args.letter(0, b'L');
        // The upper form is the lower one of the matrix in reverse order.
        let given = if lower { given } else { given.reversed() };
        let mut a = Matrix::generate(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => given.at(j, i).conjugate(),
            std::cmp::Ordering::Equal => T::of(given.at(i, i).re(), 0.0),
            std::cmp::Ordering::Greater => given.at(i, j),
        });
        let (mut diagonal, mut beside, mut taus) = tridiagonal(&mut a);
        let mut out = Matrix::generate(n, n, |i, j| if i >= j { a.at(i, j) } else { given.at(i, j) });
        if !lower {
            out = out.reversed();
            diagonal.reverse();
            beside.reverse();
            taus.reverse();
        }
        args.put_matrix(0, batch, &out)?;
        args.put_reals(1, batch, &diagonal)?;
        args.put_reals(2, batch, &beside)?;
        args.put_vector(3, batch, &taus)?;
        args.put_integers(4, batch, &[0])?;
    }
    Ok(())
}
