//! Numbers and matrices of the factorizations.
//!
//! Invariant: a [`Matrix`] is dense and column-major, whatever the order of the array that it was read from.
//! Magnitudes are worked out in `f64`, so that only `f64` itself needs care for overflow.

use super::schur::Form;
use bytemuck::Pod;
use faer::linalg::matmul::matmul;
use faer::traits::{ComplexField, Conjugate};
use faer::{Accum, MatMut, MatRef, Par};
use num_complex::Complex;
use std::ops::{Add, Mul, Neg, Sub};

/// The four kinds of numbers that matrices hold.
pub(super) trait Field:
    ComplexField + Pod + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self> + 'static
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Whether there are imaginary parts.
    const COMPLEX: bool;
    /// Whether the parts are `f32`.
    const SINGLE: bool;
    /// The numbers of double precision of the same kind.
    type Wide: Form;

    /// A number, each part rounded; a real field drops the imaginary one.
    fn of(re: f64, im: f64) -> Self;
    /// The real part.
    fn re(self) -> f64;
    /// The imaginary part.
    fn im(self) -> f64;
    /// The complex conjugate.
    fn conjugate(self) -> Self;
    /// The quotient, without overflow on the way.
    fn over(self, divisor: Self) -> Self;
    /// Reads the number's bytes; zero where they are too few.
    fn load(bytes: &[u8]) -> Self;
    /// Writes the number's bytes.
    fn store(self, bytes: &mut [u8]);

    /// `self` times a real number.
    fn times(self, factor: f64) -> Self {
        Self::of(self.re() * factor, self.im() * factor)
    }

    /// The magnitude.
    fn magnitude(self) -> f64 {
        if Self::COMPLEX { self.re().hypot(self.im()) } else { self.re().abs() }
    }

    /// Whether both parts are numbers and not infinite.
    fn is_finite_number(self) -> bool {
        self.re().is_finite() && self.im().is_finite()
    }
}

macro_rules! real_field {
    ($($ty:ty),*) => { $(
        impl Field for $ty {
            type Wide = f64;
            const ZERO: $ty = 0.0;
            const ONE: $ty = 1.0;
            const COMPLEX: bool = false;
            const SINGLE: bool = size_of::<$ty>() == 4;
            fn of(re: f64, _: f64) -> $ty { re as $ty }
            fn re(self) -> f64 { f64::from(self) }
            fn im(self) -> f64 { 0.0 }
            #[inline(always)]
            fn conjugate(self) -> $ty { self }
            #[inline(always)]
            fn over(self, divisor: $ty) -> $ty { self / divisor }
            fn load(bytes: &[u8]) -> $ty { bytes.try_into().map_or(0.0, <$ty>::from_ne_bytes) }
            fn store(self, bytes: &mut [u8]) { copy(bytes, &self.to_ne_bytes()) }
        }
        impl Field for Complex<$ty> {
            type Wide = Complex<f64>;
            const ZERO: Complex<$ty> = Complex::new(0.0, 0.0);
            const ONE: Complex<$ty> = Complex::new(1.0, 0.0);
            const COMPLEX: bool = true;
            const SINGLE: bool = size_of::<$ty>() == 4;
            fn of(re: f64, im: f64) -> Complex<$ty> { Complex::new(re as $ty, im as $ty) }
            fn re(self) -> f64 { f64::from(self.re) }
            fn im(self) -> f64 { f64::from(self.im) }
            #[inline(always)]
            fn conjugate(self) -> Complex<$ty> { self.conj() }
            #[inline(always)]
            fn over(self, divisor: Complex<$ty>) -> Complex<$ty> {
                let (re, im) = quotient((self.re.into(), self.im.into()), (divisor.re.into(), divisor.im.into()));
                Complex::new(re as $ty, im as $ty)
            }
            fn load(bytes: &[u8]) -> Complex<$ty> {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                Complex::new(<$ty as Field>::load(re), <$ty as Field>::load(im))
            }
            fn store(self, bytes: &mut [u8]) {
                let (re, im) = bytes.split_at_mut(bytes.len() / 2);
                Field::store(self.re, re);
                Field::store(self.im, im);
            }
        }
    )* };
}
real_field!(f32, f64);

fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// Smith's quotient: the larger part of the divisor scales the smaller.
#[inline(always)]
fn quotient((a, b): (f64, f64), (c, d): (f64, f64)) -> (f64, f64) {
    if d == 0.0 {
        (a / c, b / c)
    } else if c.abs() >= d.abs() {
        let r = d / c;
        let t = c + d * r;
        ((a + b * r) / t, (b - a * r) / t)
    } else {
        let r = c / d;
        let t = c * r + d;
        ((a * r + b) / t, (b * r - a) / t)
    }
}

/// The Euclidean norm, scaled so that nothing overflows.
pub(super) fn norm<T: Field>(x: &[T]) -> f64 {
    if x.iter().any(|v| !v.is_finite_number()) {
        return x.iter().fold(0.0, |s, v| s + v.magnitude());
    }
    let largest = x.iter().fold(0.0f64, |m, v| m.max(v.re().abs()).max(v.im().abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let square = |v: f64| v * v;
    largest * x.iter().fold(0.0, |s, v| s + square(v.re() / largest) + square(v.im() / largest)).sqrt()
}

/// A dense column-major matrix.
#[derive(Clone, Debug)]
pub(super) struct Matrix<T> {
    pub rows: usize,
    pub columns: usize,
    pub data: Vec<T>,
}

impl<T: Field> Matrix<T> {
    /// Zeros.
    pub fn zeros(rows: usize, columns: usize) -> Matrix<T> {
        Matrix { rows, columns, data: vec![T::ZERO; rows.saturating_mul(columns)] }
    }

    /// Ones on the diagonal.
    pub fn identity(rows: usize, columns: usize) -> Matrix<T> {
        Matrix::generate(rows, columns, |i, j| if i == j { T::ONE } else { T::ZERO })
    }

    /// A matrix from a function of row and column.
    pub fn generate(rows: usize, columns: usize, value: impl Fn(usize, usize) -> T) -> Matrix<T> {
        let mut out = Matrix::zeros(rows, columns);
        for (j, column) in out.data.chunks_exact_mut(rows.max(1)).enumerate() {
            column.iter_mut().enumerate().for_each(|(i, v)| *v = value(i, j));
        }
        out
    }

    /// The same numbers in another precision, each rounded.
    pub fn converted<U: Field>(&self) -> Matrix<U> {
        let data = self.data.iter().map(|v| U::of(v.re(), v.im())).collect();
        Matrix { rows: self.rows, columns: self.columns, data }
    }

    /// An element, which must be there.
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data[i + j * self.rows]
    }

    /// Sets an element, which must be there.
    pub fn set(&mut self, i: usize, j: usize, value: T) {
        self.data[i + j * self.rows] = value;
    }

    /// The rows from `from` on of a column.
    pub fn below(&self, from: usize, j: usize) -> &[T] {
        &self.data[from + j * self.rows..(j + 1) * self.rows]
    }

    /// The same for writing.
    pub fn below_mut(&mut self, from: usize, j: usize) -> &mut [T] {
        &mut self.data[from + j * self.rows..(j + 1) * self.rows]
    }

    /// The rows from `from` on of column `j` for reading and of a later column `k` for writing.
    pub fn pair_below(&mut self, from: usize, j: usize, k: usize) -> (&[T], &mut [T]) {
        let rows = self.rows;
        let (left, right) = self.data.split_at_mut(k * rows);
        (&left[from + j * rows..(j + 1) * rows], &mut right[from..rows])
    }

    /// Exchanges two columns.
    pub fn swap_columns(&mut self, a: usize, b: usize) {
        if a != b {
            let (low, high) = (a.min(b), a.max(b));
            let (left, right) = self.data.split_at_mut(high * self.rows);
            left[low * self.rows..(low + 1) * self.rows].swap_with_slice(&mut right[..self.rows]);
        }
    }

    /// The adjoint: transposed and conjugated.
    pub fn adjoint(&self) -> Matrix<T> {
        Matrix::generate(self.columns, self.rows, |i, j| self.at(j, i).conjugate())
    }

    /// Rows and columns in reverse order.
    pub fn reversed(&self) -> Matrix<T> {
        Matrix::generate(self.rows, self.columns, |i, j| self.at(self.rows - 1 - i, self.columns - 1 - j))
    }

    /// Every element the same.
    pub fn filled(&self, value: T) -> Matrix<T> {
        Matrix { data: vec![value; self.data.len()], ..*self }
    }

    /// Whether no element is infinite or not a number.
    pub fn is_finite(&self) -> bool {
        self.data.iter().all(|v| v.is_finite_number())
    }

    /// All of it for the routines of `faer`.
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef::from_column_major_slice(&self.data, self.rows, self.columns)
    }

    /// The same for writing.
    pub fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut::from_column_major_slice_mut(&mut self.data, self.rows, self.columns)
    }
}

/// `to -= a * b`.
pub(super) fn subtract_product<T: Field, L, R>(to: MatMut<'_, T>, a: MatRef<'_, L>, b: MatRef<'_, R>)
where
    L: Conjugate<Canonical = T>,
    R: Conjugate<Canonical = T>,
{
    matmul(to, Accum::Add, a, b, -T::ONE, Par::Seq);
}

/// `a * b`.
pub(super) fn product<T: Field, L, R>(a: MatRef<'_, L>, b: MatRef<'_, R>) -> Matrix<T>
where
    L: Conjugate<Canonical = T>,
    R: Conjugate<Canonical = T>,
{
    let mut out = Matrix::zeros(a.nrows(), b.ncols());
    matmul(out.view_mut(), Accum::Replace, a, b, T::ONE, Par::Seq);
    out
}
