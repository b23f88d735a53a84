//! The Schur form: `A = Z T Z^H` with unitary `Z` and a triangular `T`; a real `T` keeps a block of two rows for each pair of
//! complex eigenvalues.
//!
//! Invariant: `T` is exactly zero below its diagonal but for those blocks, which are standardised as LAPACK's are: equal
//! diagonal elements, and elements of opposite sign beside them. Algorithm: the Hessenberg form, then shifted QR steps on
//! the part that has not converged, implicit and from the bottom: two shifts at a time for real matrices, one for complex
//! ones; a subdiagonal element is dropped by the criterion of Ahues and Tisseur, as LAPACK's `lahqr` drops it. Matrices of
//! single precision are worked on in double precision and rounded once.

use super::arguments::Arguments;
use super::householder::{hessenberg, hessenberg_vectors, reflector};
use super::matrix::{Field, Matrix};
use super::spectral::{MATRIX_ARGUMENT, scaled, scaling};
use crate::services::Failure;
use num_complex::Complex;

/// A number of double precision whose matrices have a Schur form here.
pub(in crate::services::linalg) trait Form: Field<Wide = Self> {
    /// Makes a Hessenberg matrix triangular, and multiplies what is done to it onto the vectors.
    ///
    /// # Errors
    /// The number of leading rows that have not converged, where the iteration does not end.
    fn triangularize(h: &mut Matrix<Self>, vectors: &mut Matrix<Self>) -> Result<(), usize>;

    /// The eigenvalues of a triangular form.
    fn eigenvalues(t: &Matrix<Self>) -> Vec<Complex<f64>>;
}

/// QR steps after which an iteration is given up, for a matrix of this size.
fn limit(n: usize) -> usize {
    30 * n.max(10)
}

/// Steps without a result after which a shift of another kind is tried.
const EXCEPTIONAL: usize = 10;

/// Sum of the magnitudes of both parts: as good as the magnitude, and cheaper.
fn size<T: Field>(v: T) -> f64 {
    v.re().abs() + v.im().abs()
}

/// Whether the element left of the diagonal in row `i` counts as zero.
fn negligible<T: Field>(h: &Matrix<T>, i: usize) -> bool {
    let tiny = f64::MIN_POSITIVE * (h.rows as f64 / f64::EPSILON);
    let below = size(h.at(i, i - 1));
    if below <= tiny {
        return true;
    }
    let (before, here) = (h.at(i - 1, i - 1), h.at(i, i));
    let mut neighbours = size(before) + size(here);
    if neighbours == 0.0 {
        neighbours += if i > 1 { size(h.at(i - 1, i - 2)) } else { 0.0 };
        neighbours += if i + 1 < h.rows { size(h.at(i + 1, i)) } else { 0.0 };
    }
    if below > f64::EPSILON * neighbours {
        return false;
    }
    let (above, gap, here) = (size(h.at(i - 1, i)), size(before - here), size(here));
    let (large, small) = (below.max(above), below.min(above));
    let (wide, narrow) = (here.max(gap), here.min(gap));
    let sum = wide + large;
    small * (large / sum) <= (f64::EPSILON * (narrow * (wide / sum))).max(tiny)
}

/// The first row of the block that ends before row `end` and has not converged, whose left neighbour is made zero.
fn block_start<T: Field>(h: &mut Matrix<T>, end: usize) -> usize {
    let mut low = end - 1;
    while low > 0 {
        if negligible(h, low) {
            h.set(low, low - 1, T::ZERO);
            break;
        }
        low -= 1;
    }
    low
}

/// Applies `I - tau v v^H` with `v = (1, tail)` as its adjoint to rows `k..`, columns `columns`.
fn from_left<T: Field>(m: &mut Matrix<T>, k: usize, tail: &[T], tau: T, columns: std::ops::Range<usize>) {
    for j in columns {
        let column = &mut m.below_mut(k, j)[..=tail.len()];
        let Some((first, rest)) = column.split_first_mut() else { return };
        let sum = tail.iter().zip(rest.iter()).fold(*first, |s, (&v, &x)| s + v.conjugate() * x);
        let factor = tau.conjugate() * sum;
        *first -= factor;
        rest.iter_mut().zip(tail).for_each(|(x, &v)| *x -= factor * v);
    }
}

/// Applies it to columns `k..`, rows `rows`.
fn from_right<T: Field>(m: &mut Matrix<T>, k: usize, tail: &[T], tau: T, rows: std::ops::Range<usize>) {
    for i in rows {
        let sum = tail.iter().zip(k + 1..).fold(m.at(i, k), |s, (&v, j)| s + m.at(i, j) * v);
        let factor = tau * sum;
        m.set(i, k, m.at(i, k) - factor);
        for (&v, j) in tail.iter().zip(k + 1..) {
            m.set(i, j, m.at(i, j) - factor * v.conjugate());
        }
    }
}

/// Turns rows `i` and `i + 1` of the columns from `i + 2` on, and the columns `i` and `i + 1` of the rows before `i`.
fn rotate(h: &mut Matrix<f64>, vectors: &mut Matrix<f64>, i: usize, (c, s): (f64, f64)) {
    let turn = |x: f64, y: f64| (c * x + s * y, c * y - s * x);
    for j in i + 2..h.columns {
        let (x, y) = turn(h.at(i, j), h.at(i + 1, j));
        h.set(i, j, x);
        h.set(i + 1, j, y);
    }
    for (m, rows) in [(h, i), (&mut *vectors, usize::MAX)] {
        for k in 0..m.rows.min(rows) {
            let (x, y) = turn(m.at(k, i), m.at(k, i + 1));
            m.set(k, i, x);
            m.set(k, i + 1, y);
        }
    }
}

/// A block of two rows `(a, b; c, d)` in its standard form, and the cosine and sine that lead to it: `c` is zero, or `a`
/// and `d` are equal and `b` and `c` differ in sign.
fn standardized([a, b, c, d]: [f64; 4]) -> ([f64; 4], (f64, f64)) {
    if c == 0.0 {
        return ([a, b, c, d], (1.0, 0.0));
    }
    if b == 0.0 {
        return ([d, -c, 0.0, a], (0.0, 1.0));
    }
    let opposite = b.signum() != c.signum();
    if a == d && opposite {
        return ([a, b, c, d], (1.0, 0.0));
    }
    let (difference, sum) = (a - d, b + c);
    let half = 0.5 * difference;
    let (large, small) = (b.abs().max(c.abs()), b.abs().min(c.abs()) * b.signum() * c.signum());
    let scale = half.abs().max(large);
    let discriminant = half / scale * half + large / scale * small;
    if discriminant >= 4.0 * f64::EPSILON * scale {
        let root = half + (scale.sqrt() * discriminant.sqrt()).copysign(half);
        let length = c.hypot(root);
        return ([d + root, b - c, 0.0, d - large / root * small], (root / length, c / length));
    }
    // Complex eigenvalues, or real ones that are nearly equal: the diagonal is made equal.
    let length = sum.hypot(difference);
    let cosine = (0.5 * (1.0 + sum.abs() / length)).sqrt();
    let sine = -(half / (length * cosine)) * 1f64.copysign(sum);
    let (p, q) = (a * cosine + b * sine, b * cosine - a * sine);
    let (r, t) = (c * cosine + d * sine, d * cosine - c * sine);
    let (a, b, c, d) = (p * cosine + r * sine, q * cosine + t * sine, r * cosine - p * sine, t * cosine - q * sine);
    let middle = 0.5 * (a + d);
    if c == 0.0 {
        return ([middle, b, 0.0, middle], (cosine, sine));
    }
    if b == 0.0 {
        return ([middle, -c, 0.0, middle], (-sine, cosine));
    }
    if b.signum() != c.signum() {
        return ([middle, b, c, middle], (cosine, sine));
    }
    let (root_b, root_c) = (b.abs().sqrt(), c.abs().sqrt());
    let (offset, unit) = ((root_b * root_c).copysign(c), 1.0 / (b + c).abs().sqrt());
    let (second_cosine, second_sine) = (root_b * unit, root_c * unit);
    let turn = (cosine * second_cosine - sine * second_sine, cosine * second_sine + sine * second_cosine);
    ([middle + offset, b - c, 0.0, middle - offset], turn)
}

/// The two shifts of a step, as the real part and the imaginary part of a pair.
fn shifts(h: &Matrix<f64>, end: usize, low: usize, steps: usize) -> (f64, f64) {
    let i = end - 2;
    let mut block = [h.at(i, i), h.at(i, i + 1), h.at(i + 1, i), h.at(i + 1, i + 1)];
    if steps.is_multiple_of(EXCEPTIONAL) {
        let mut s = h.at(i + 1, i).abs();
        s += if i > low { h.at(i, i - 1).abs() } else { 0.0 };
        let diagonal = 0.75 * s + h.at(i + 1, i + 1);
        block = [diagonal, -0.4375 * s, s, diagonal];
    }
    let [a, b, c, d] = block;
    let (middle, half) = (0.5 * (a + d), 0.5 * (a - d));
    let discriminant = half * half + b * c;
    if discriminant < 0.0 {
        return (middle, (-discriminant).sqrt());
    }
    // Of two real shifts the one nearer to the last element, twice.
    let root = discriminant.sqrt();
    (if half > 0.0 { middle - root } else { middle + root }, 0.0)
}

impl Form for f64 {
    fn triangularize(h: &mut Matrix<f64>, vectors: &mut Matrix<f64>) -> Result<(), usize> {
        let n = h.rows;
        let (mut end, mut steps) = (n, 0);
        while end > 0 {
            let low = block_start(h, end);
            if low + 2 >= end {
                if low + 2 == end {
                    let block = [h.at(low, low), h.at(low, low + 1), h.at(low + 1, low), h.at(low + 1, low + 1)];
                    let ([a, b, c, d], turn) = standardized(block);
                    for (i, j, v) in [(0, 0, a), (0, 1, b), (1, 0, c), (1, 1, d)] {
                        h.set(low + i, low + j, v);
                    }
                    rotate(h, vectors, low, turn);
                }
                (end, steps) = (low, 0);
                continue;
            }
            steps += 1;
            if steps > limit(n) {
                return Err(end);
            }
            let (re, im) = shifts(h, end, low, steps);
            // The step may begin where two small subdiagonal elements meet.
            let mut first = end - 3;
            let start = loop {
                let (here, next, below) = (h.at(first, first), h.at(first + 1, first + 1), h.at(first + 1, first));
                let x = (here - re) * (here - re) + im * im + h.at(first, first + 1) * below;
                let column = [x, below * (here + next - 2.0 * re), below * h.at(first + 2, first + 1)];
                if first == low {
                    break column;
                }
                let around = h.at(first - 1, first - 1).abs() + here.abs() + next.abs();
                let left = h.at(first, first - 1).abs();
                if left * (column[1].abs() + column[2].abs()) <= f64::EPSILON * x.abs() * around {
                    break column;
                }
                first -= 1;
            };
            for k in first..end - 1 {
                let count = (end - k).min(3);
                let mut v = start;
                if k > first {
                    v[..count].copy_from_slice(&h.below(k, k - 1)[..count]);
                }
                let v = &mut v[..count];
                let tau = reflector(v);
                if k > first {
                    h.below_mut(k, k - 1)[..count].fill(0.0);
                    h.set(k, k - 1, v[0]);
                } else if k > low {
                    h.set(k, k - 1, h.at(k, k - 1) * (1.0 - tau));
                }
                from_left(h, k, &v[1..], tau, k..n);
                from_right(h, k, &v[1..], tau, 0..(k + 4).min(end));
                from_right(vectors, k, &v[1..], tau, 0..vectors.rows);
            }
        }
        Ok(())
    }

    fn eigenvalues(t: &Matrix<f64>) -> Vec<Complex<f64>> {
        let (n, mut out) = (t.rows, Vec::with_capacity(t.rows));
        while out.len() < n {
            let i = out.len();
            let below = if i + 1 < n { t.at(i + 1, i) } else { 0.0 };
            if below == 0.0 {
                out.push(Complex::new(t.at(i, i), 0.0));
            } else {
                let im = t.at(i, i + 1).abs().sqrt() * below.abs().sqrt();
                out.extend([Complex::new(t.at(i, i), im), Complex::new(t.at(i, i), -im)]);
            }
        }
        out
    }
}

impl Form for Complex<f64> {
    fn triangularize(h: &mut Matrix<Self>, vectors: &mut Matrix<Self>) -> Result<(), usize> {
        let n = h.rows;
        let (mut end, mut steps) = (n, 0);
        while end > 0 {
            let low = block_start(h, end);
            if low + 1 == end {
                (end, steps) = (low, 0);
                continue;
            }
            steps += 1;
            if steps > limit(n) {
                return Err(end);
            }
            let (last, beside) = (h.at(end - 1, end - 1), h.at(end - 1, end - 2));
            let shift = if steps.is_multiple_of(EXCEPTIONAL) {
                last + 0.75 * beside.norm()
            } else {
                // The eigenvalue of the last block that is nearer to its last element.
                let half = (h.at(end - 2, end - 2) - last) * 0.5;
                let product = h.at(end - 2, end - 1) * beside;
                let root = (half * half + product).sqrt();
                let (sum, difference) = (half + root, half - root);
                let divisor = if sum.norm() >= difference.norm() { sum } else { difference };
                if divisor == Complex::ZERO { last } else { last - product.over(divisor) }
            };
            for k in low..end - 1 {
                let mut v = match k {
                    k if k == low => [h.at(k, k) - shift, h.at(k + 1, k)],
                    k => [h.at(k, k - 1), h.at(k + 1, k - 1)],
                };
                let tau = reflector(&mut v);
                if k > low {
                    h.set(k, k - 1, v[0]);
                    h.set(k + 1, k - 1, Complex::ZERO);
                }
                from_left(h, k, &v[1..], tau, k..n);
                from_right(h, k, &v[1..], tau, 0..(k + 3).min(end));
                from_right(vectors, k, &v[1..], tau, 0..vectors.rows);
            }
        }
        Ok(())
    }

    fn eigenvalues(t: &Matrix<Self>) -> Vec<Complex<f64>> {
        (0..t.rows).map(|i| t.at(i, i)).collect()
    }
}

/// `gees`. Options: whether vectors are wanted, whether eigenvalues are sorted, which they never are.
pub(super) fn run<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let wanted = args.letter(0, b'V');
    // Real matrices have the real and imaginary parts of their eigenvalues apart.
    let next = if T::COMPLEX { 3 } else { 4 };
    for batch in 0..args.batches() {
        let given = args.matrix::<T>(0, batch)?.converted::<T::Wide>();
        let n = given.rows;
        let mut info = if given.is_finite() { 0 } else { -MATRIX_ARGUMENT };
        let (mut t, mut z) = (Matrix::zeros(n, n), Matrix::zeros(if wanted { n } else { 0 }, n));
        let mut values = vec![Complex::new(f64::NAN, f64::NAN); n];
        if info == 0 {
            let factor = scaling(&given);
            t = scaled(&given, factor);
            let taus = hessenberg(&mut t, 0, n);
            if wanted {
                z = hessenberg_vectors(&t, &taus);
            }
            for j in 0..n.saturating_sub(2) {
                t.below_mut(j + 2, j).fill(<T::Wide as Field>::ZERO);
            }
            info = T::Wide::triangularize(&mut t, &mut z)
                .map_or_else(|rows| i32::try_from(rows).unwrap_or(i32::MAX), |()| 0);
            t = scaled(&t, 1.0 / factor);
            values = T::Wide::eigenvalues(&t);
        }
        if info != 0 {
            let nan = <T::Wide as Field>::of(f64::NAN, f64::NAN);
            (t, z) = (t.filled(nan), z.filled(nan));
            values.fill(Complex::new(f64::NAN, f64::NAN));
        }
        let z = if wanted { z.converted::<T>() } else { Matrix::zeros(n, n) };
        args.put_matrix(0, batch, &t.converted::<T>())?;
        args.put_matrix(1, batch, &z)?;
        if T::COMPLEX {
            args.put_vector(2, batch, &values.iter().map(|v| T::of(v.re, v.im)).collect::<Vec<_>>())?;
        } else {
            args.put_reals(2, batch, &values.iter().map(|v| v.re).collect::<Vec<_>>())?;
            args.put_reals(3, batch, &values.iter().map(|v| v.im).collect::<Vec<_>>())?;
        }
        args.put_integers(next, batch, &[0])?;
        args.put_integers(next + 1, batch, &[info])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_two_rows_come_to_their_standard_form() {
        for block in [
            [1.0, 2.0, 0.0, 3.0],
            [1.0, 0.0, 2.0, 3.0],
            [1.0, 2.0, -3.0, 1.0],
            [4.0, 2.0, 1.0, 3.0],
            [1.0, 5.0, -2.0, 3.0],
            [1.0, 1e-9, 1e-9, 1.0],
            [2.0, 1.0, -0.25, 1.0],
            [1e150, -3e150, 2e150, 7e149],
            [-1.0, -2.0, 1e-20, -1.0],
        ] {
            let ([a, b, c, d], (cosine, sine)) = standardized(block);
            let scale = block.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            assert!(c == 0.0 || a == d && b * c < 0.0 || a == d && b.signum() != c.signum(), "{block:?}");
            assert!((cosine.hypot(sine) - 1.0).abs() < 1e-15);
            // The rotation takes the standard form back.
            let turn = |[p, q, r, s]: [f64; 4]| {
                let columns =
                    [p * cosine - q * sine, p * sine + q * cosine, r * cosine - s * sine, r * sine + s * cosine];
                let [p, q, r, s] = columns;
                [p * cosine - r * sine, q * cosine - s * sine, p * sine + r * cosine, q * sine + s * cosine]
            };
            for (back, given) in turn([a, b, c, d]).iter().zip(block) {
                assert!((back - given).abs() <= 4e-15 * scale, "{block:?}: {back} {given}");
            }
        }
    }
}
