//! «Fft», «Cholesky» and «TriangularSolve».

use super::Example;
use brolga_compiler::builder::{ArrayLiteral, ElementType, FftKind, Op, Shape, TransposeKind};
use num_complex::Complex;

type C = Complex<f32>;

const fn c(re: f32, im: f32) -> C {
    C::new(re, im)
}

/// The sums of the definition, forwards or, with the other sign and divided by the length, back.
fn transform(line: &[C], back: bool) -> Vec<C> {
    let n = line.len();
    let turn = |k: usize| {
        let angle = std::f64::consts::TAU * (k % n) as f64 / n as f64;
        Complex::new(angle.cos(), if back { angle.sin() } else { -angle.sin() })
    };
    let element = |k: usize| -> C {
        let sum: Complex<f64> =
            line.iter().enumerate().map(|(i, e)| Complex::new(f64::from(e.re), f64::from(e.im)) * turn(k * i)).sum();
        let whole = if back { sum / n as f64 } else { sum };
        C::new(whole.re as f32, whole.im as f32)
    };
    (0..n).map(element).collect()
}

/// Complex numbers near those wanted.
#[track_caller]
fn near(x: Example, root: Op, dims: &[i64], want: &[C]) {
    let parts = x.b.tuple(&[x.b.real(root), x.b.imag(root)]);
    let part = |of: fn(&C) -> f32| ArrayLiteral::from_elements(dims, &want.iter().map(of).collect::<Vec<f32>>());
    x.gives_within(parts, &[part(|z| z.re), part(|z| z.im)], 1e-5);
}

#[track_caller]
fn near_reals(x: Example, root: Op, dims: &[i64], want: &[f32]) {
    x.gives_within(root, &[ArrayLiteral::from_elements(dims, want)], 1e-5);
}

#[test]
fn fft_forward_and_back() {
    for n in [1usize, 2, 4, 5, 6] {
        let line: Vec<C> = (0..n).map(|i| c((i * i % 7) as f32, 1.0 - i as f32)).collect();
        for (kind, back) in [(FftKind::Fft, false), (FftKind::Ifft, true)] {
            let x = Example::new();
            let root = x.b.fft(x.array(&[n as i64], &line), kind, &[n as i64]);
            near(x, root, &[n as i64], &transform(&line, back));
        }
    }
}

/// The innermost axis becomes `fft_length / 2 + 1`, and `fft_length` again, even or odd.
#[test]
fn fft_of_reals_keeps_half() {
    for n in [2usize, 4, 5, 16, 17] {
        let line: Vec<f32> = (0..n).map(|i| (i * 5 % 7) as f32 - 2.0).collect();
        let complex: Vec<C> = line.iter().map(|&e| c(e, 0.0)).collect();
        let half = transform(&complex, false)[..n / 2 + 1].to_vec();
        let (whole, part) = ([n as i64], [n as i64 / 2 + 1]);
        let x = Example::new();
        let root = x.b.fft(x.array(&whole, &line), FftKind::Rfft, &whole);
        near(x, root, &part, &half);
        let x = Example::new();
        let root = x.b.fft(x.array(&part, &half), FftKind::Irfft, &whole);
        near_reals(x, root, &whole, &line);
    }
}

/// Several lengths are a cascade over the innermost axes; those before them are batches.
#[test]
fn fft_of_several_axes_is_a_cascade() {
    let elements: Vec<C> = (0..16).map(|i| c((i * i % 7) as f32, (i % 3) as f32)).collect();
    let mut want = Vec::new();
    for batch in elements.chunks(8) {
        let rows: Vec<Vec<C>> = batch.chunks(4).map(|row| transform(row, false)).collect();
        let columns: Vec<Vec<C>> = (0..4).map(|k| transform(&[rows[0][k], rows[1][k]], false)).collect();
        want.extend((0..8).map(|i| columns[i % 4][i / 4]));
    }
    let x = Example::new();
    let root = x.b.fft(x.array(&[2, 2, 4], &elements), FftKind::Fft, &[2, 4]);
    near(x, root, &[2, 2, 4], &want);
    // Of reals the innermost axis is first, of its inverse last: there and back is the operand.
    let x = Example::new();
    let reals: Vec<f32> = (0..8).map(|i| (i * 5 % 8) as f32).collect();
    let there = x.b.fft(x.array(&[2, 4], &reals), FftKind::Rfft, &[2, 4]);
    assert_eq!(x.b.shape(there).unwrap(), Shape::array(ElementType::C64, [2, 3]));
    let root = x.b.fft(there, FftKind::Irfft, &[2, 4]);
    near_reals(x, root, &[2, 4], &reals);
}

const A: [f32; 9] = [4.0, 12.0, -16.0, 12.0, 37.0, -43.0, -16.0, -43.0, 98.0];
const L: [f32; 9] = [2.0, 0.0, 0.0, 6.0, 1.0, 0.0, -8.0, 5.0, 3.0];

fn transposed(m: &[f32; 9]) -> [f32; 9] {
    std::array::from_fn(|i| m[i % 3 * 3 + i / 3])
}

/// The other triangle is not read; the result is in the same triangle. Zeros stand in the other one, which the section leaves
/// open.
#[test]
fn cholesky_of_either_triangle() {
    for (lower, want) in [(true, L), (false, transposed(&L))] {
        let mut read = A;
        for (i, e) in read.iter_mut().enumerate() {
            if (i / 3 < i % 3) == lower && i / 3 != i % 3 {
                *e = f32::NAN;
            }
        }
        let x = Example::new();
        let root = x.b.cholesky(x.array(&[3, 3], &read), lower);
        near_reals(x, root, &[3, 3], &want);
    }
}

/// A batch of Hermitian matrices, of `l` with its conjugate transpose.
#[test]
fn cholesky_of_a_batch() {
    let x = Example::new();
    let matrices =
        [[c(4.0, 0.0), c(0.0, -2.0), c(0.0, 2.0), c(5.0, 0.0)], [c(9.0, 0.0), c(3.0, 0.0), c(3.0, 0.0), c(2.0, 0.0)]];
    let root = x.b.cholesky(x.array(&[2, 2, 2], matrices.as_flattened()), true);
    let zero = c(0.0, 0.0);
    let factors = [[c(2.0, 0.0), zero, c(0.0, 1.0), c(2.0, 0.0)], [c(3.0, 0.0), zero, c(1.0, 0.0), c(1.0, 0.0)]];
    near(x, root, &[2, 2, 2], factors.as_flattened());
}

/// Both sides, either triangle, transposed or not, with a diagonal of ones: the solution is known, the right side made of it.
#[test]
fn triangular_solve_in_every_form() {
    let unknown = [1f32, -2.0, 3.0, 0.0, 5.0, -1.0];
    for form in 0..16 {
        let [left, lower, unit, transpose] = [1, 2, 4, 8].map(|bit| form & bit != 0);
        let given = if lower { L } else { transposed(&L) };
        // What must not be read is NaN.
        let mut stored = given;
        for (i, e) in stored.iter_mut().enumerate() {
            let (row, column) = (i / 3, i % 3);
            let other = if lower { row < column } else { row > column };
            if other || (unit && row == column) {
                *e = f32::NAN;
            }
        }
        let mut op = if transpose { transposed(&given) } else { given };
        if unit {
            (0..3).for_each(|i| op[i * 4] = 1.0);
        }
        // x is 3 by 2 on the left side, 2 by 3 on the right.
        let (dims, product): ([i64; 2], [f32; 6]) = if left {
            ([3, 2], std::array::from_fn(|i| (0..3).map(|k| op[i / 2 * 3 + k] * unknown[k * 2 + i % 2]).sum()))
        } else {
            ([2, 3], std::array::from_fn(|i| (0..3).map(|k| unknown[i / 3 * 3 + k] * op[k * 3 + i % 3]).sum()))
        };
        let kind = if transpose { TransposeKind::Transpose } else { TransposeKind::NoTranspose };
        let x = Example::new();
        let (a, b) = (x.array(&[3, 3], &stored), x.array(&dims, &product));
        let root = x.b.triangular_solve(a, b, left, lower, unit, kind);
        near_reals(x, root, &dims, &unknown);
    }
}

/// Leading dimensions are a batch; the adjoint is the conjugate transpose, the transpose is not conjugated.
#[test]
fn triangular_solve_of_complex_batches() {
    let lower = [c(2.0, 0.0), c(0.0, 0.0), c(0.0, 1.0), c(1.0, 0.0)];
    let unknown = [c(1.0, 1.0), c(2.0, 0.0)];
    for (kind, corner) in [(TransposeKind::Adjoint, c(0.0, -1.0)), (TransposeKind::Transpose, c(0.0, 1.0))] {
        let product = [c(2.0, 0.0) * unknown[0] + corner * unknown[1], unknown[1]];
        let x = Example::new();
        let a = x.array(&[2, 2, 2], [lower, lower].as_flattened());
        let b = x.array(&[2, 2, 1], [product, product].as_flattened());
        let root = x.b.triangular_solve(a, b, true, true, false, kind);
        near(x, root, &[2, 2, 1], [unknown, unknown].as_flattened());
    }
}
