//! Singular values, and eigenvalues with their vectors.
//!
//! The iterations are those of the crate `faer`, on one thread. Those for singular values and for symmetric matrices work in
//! double precision, from which single precision is rounded once: in `f32` itself their errors reach a hundred units in the last
//! place of the norm at a few hundred rows, where LAPACK's stay within a few. A matrix that holds something infinite or not a number
//! never reaches them: its results are NaN and its `info` is the number of the argument at fault, negative, as LAPACK
//! has it. A matrix whose elements are so large or small that their squares would overflow or vanish is scaled by a power
//! of two beforehand, its values afterwards. Eigenvectors of general matrices have length one, and their largest
//! component is real.

use super::arguments::Arguments;
use super::matrix::{Field, Matrix};
use crate::services::Failure;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::{ColMut, Par};
use num_complex::Complex;

/// Which argument the matrix is in the routines of LAPACK that are here.
pub(super) const MATRIX_ARGUMENT: i32 = 4;

fn scratch(size: StackReq) -> Result<MemBuffer, Failure> {
    MemBuffer::try_new(size).map_err(|_| Failure::new("not enough memory for a factorization"))
}

/// A power of two for the matrix to be multiplied by before the iteration; 1 for most matrices.
pub(super) fn scaling<T: Field>(a: &Matrix<T>) -> f64 {
    let largest = a.data.iter().fold(0.0f64, |m, v| m.max(v.re().abs()).max(v.im().abs()));
    let limit = if T::SINGLE { 1e12 } else { 1e138 };
    if largest == 0.0 || (1.0 / limit..=limit).contains(&largest) {
        return 1.0;
    }
    2f64.powi(-(largest.log2().floor().clamp(-1000.0, 1000.0) as i32))
}

pub(super) fn scaled<T: Field>(a: &Matrix<T>, factor: f64) -> Matrix<T> {
    Matrix::generate(a.rows, a.columns, |i, j| a.at(i, j).times(factor))
}

fn wanted(vectors: bool) -> ComputeEigenvectors {
    if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No }
}

/// `syevd` and `heevd`. Options: whether vectors are wanted, the triangle.
pub(super) fn run_symmetric<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let (vectors, lower) = (args.letter(0, b'V'), args.letter(1, b'L'));
    for batch in 0..args.batches() {
        let given = args.matrix::<T>(0, batch)?.converted::<T::Wide>();
        let n = given.rows;
        let a = Matrix::generate(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => <T::Wide as Field>::ZERO,
            std::cmp::Ordering::Equal => <T::Wide as Field>::of(given.at(i, i).re(), 0.0),
            std::cmp::Ordering::Greater if lower => given.at(i, j),
            std::cmp::Ordering::Greater => given.at(j, i).conjugate(),
        });
        let mut values = vec![<T::Wide as Field>::ZERO; n];
        let mut u = if vectors { Matrix::zeros(n, n) } else { given };
        let mut info = if a.is_finite() { 0 } else { -MATRIX_ARGUMENT };
        if info == 0 && n > 0 {
            let size = evd::self_adjoint_evd_scratch::<T::Wide>(n, wanted(vectors), Par::Seq, Default::default());
            let mut memory = scratch(size)?;
            let done = evd::self_adjoint_evd(
                a.view(),
                ColMut::from_slice_mut(&mut values).as_diagonal_mut(),
                vectors.then(|| u.view_mut()),
                Par::Seq,
                MemStack::new(&mut memory),
                Default::default(),
            );
            info = i32::from(done.is_err());
        }
        let mut values: Vec<f64> = values.iter().map(|v| v.re()).collect();
        if info != 0 {
            values.fill(f64::NAN);
            u = u.filled(<T::Wide as Field>::of(f64::NAN, f64::NAN));
        }
        args.put_matrix(0, batch, &u.converted::<T>())?;
        args.put_reals(1, batch, &values)?;
        args.put_integers(2, batch, &[info])?;
    }
    Ok(())
}

/// `gesdd` and `gesvd`. Option: all vectors, some, or none.
pub(super) fn run_svd<T: Field>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let vectors = !args.letter(0, b'N');
    for batch in 0..args.batches() {
        let a = args.matrix::<T>(0, batch)?.converted::<T::Wide>();
        let (m, n) = (a.rows, a.columns);
        let (u_columns, v_columns) = (args.result_matrix(2)?.1, args.result_matrix(3)?.0);
        let mut values = vec![<T::Wide as Field>::ZERO; m.min(n)];
        let (mut u, mut v) = (Matrix::zeros(m, u_columns), Matrix::zeros(n, v_columns));
        let (mut info, mut factor) = (if a.is_finite() { 0 } else { -MATRIX_ARGUMENT }, 1.0);
        if m == 0 || n == 0 {
            (u, v) = (Matrix::identity(m, u_columns), Matrix::identity(n, v_columns));
        } else if info == 0 {
            let kind = |columns: usize| match (vectors, columns == m.min(n)) {
                (false, _) => ComputeSvdVectors::No,
                (_, true) => ComputeSvdVectors::Thin,
                (_, false) => ComputeSvdVectors::Full,
            };
            let size =
                svd::svd_scratch::<T::Wide>(m, n, kind(u_columns), kind(v_columns), Par::Seq, Default::default());
            let mut memory = scratch(size)?;
            factor = scaling(&a);
            let done = svd::svd(
                scaled(&a, factor).view(),
                ColMut::from_slice_mut(&mut values).as_diagonal_mut(),
                vectors.then(|| u.view_mut()),
                vectors.then(|| v.view_mut()),
                Par::Seq,
                MemStack::new(&mut memory),
                Default::default(),
            );
            info = i32::from(done.is_err());
        }
        let mut values: Vec<f64> = values.iter().map(|v| v.re() / factor).collect();
        if info != 0 {
            let nan = <T::Wide as Field>::of(f64::NAN, f64::NAN);
            values.fill(f64::NAN);
            (u, v) = (u.filled(nan), v.filled(nan));
        }
        args.put_matrix(0, batch, &a.converted::<T>())?;
        args.put_reals(1, batch, &values)?;
        args.put_matrix(2, batch, &u.converted::<T>())?;
        args.put_matrix(3, batch, &v.adjoint().converted::<T>())?;
        args.put_integers(4, batch, &[info])?;
    }
    Ok(())
}

/// Eigenvalues, left vectors and right vectors.
type Eigen<V> = (Vec<V>, Matrix<V>, Matrix<V>);

/// A number whose matrices have eigenvalues here.
pub(super) trait General: Field {
    /// The complex numbers of the same width.
    type Value: Field;

    /// The decomposition; `None` where the iteration does not end.
    fn eigen(a: &Matrix<Self>, left: bool, right: bool) -> Result<Option<Eigen<Self::Value>>, Failure>;
}

macro_rules! general {
    ($($real:ty),*) => { $(
        impl General for $real {
            type Value = Complex<$real>;

            fn eigen(a: &Matrix<$real>, left: bool, right: bool) -> Result<Option<Eigen<Complex<$real>>>, Failure> {
                let n = a.rows;
                let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
                let (mut l, mut r) = (Matrix::zeros(n, n), Matrix::zeros(n, n));
                let size =
                    evd::evd_scratch::<$real>(n, wanted(left), wanted(right), Par::Seq, Default::default());
                let mut memory = scratch(size)?;
                let done = evd::evd_real(
                    a.view(),
                    ColMut::from_slice_mut(&mut re).as_diagonal_mut(),
                    ColMut::from_slice_mut(&mut im).as_diagonal_mut(),
                    left.then(|| l.view_mut()),
                    right.then(|| r.view_mut()),
                    Par::Seq,
                    MemStack::new(&mut memory),
                    Default::default(),
                );
                let values = re.iter().zip(&im).map(|(&re, &im)| Complex::new(re, im)).collect();
                Ok(done.is_ok().then(|| (values, unpacked(&l, &im), unpacked(&r, &im))))
            }
        }

        impl General for Complex<$real> {
            type Value = Self;

            fn eigen(a: &Matrix<Self>, left: bool, right: bool) -> Result<Option<Eigen<Self>>, Failure> {
                let n = a.rows;
                let mut values = vec![Self::ZERO; n];
                let (mut l, mut r) = (Matrix::zeros(n, n), Matrix::zeros(n, n));
                let size = evd::evd_scratch::<Self>(n, wanted(left), wanted(right), Par::Seq, Default::default());
                let mut memory = scratch(size)?;
                let done = evd::evd_cplx(
                    a.view(),
                    ColMut::from_slice_mut(&mut values).as_diagonal_mut(),
                    left.then(|| l.view_mut()),
                    right.then(|| r.view_mut()),
                    Par::Seq,
                    MemStack::new(&mut memory),
                    Default::default(),
                );
                Ok(done.is_ok().then_some((values, l, r)))
            }
        }
    )* };
}
general!(f32, f64);

/// Complex vectors from real columns, of which a conjugate pair shares two: the real parts and the imaginary parts.
fn unpacked<R: Field, V: Field>(packed: &Matrix<R>, im: &[R]) -> Matrix<V> {
    let n = packed.rows;
    let mut out = Matrix::zeros(n, n);
    let mut j = 0;
    while j < n {
        let pair = im[j].re() != 0.0 && j + 1 < n;
        for i in 0..n {
            let (x, y) = (packed.at(i, j).re(), if pair { packed.at(i, j + 1).re() } else { 0.0 });
            out.set(i, j, V::of(x, y));
            if pair {
                out.set(i, j + 1, V::of(x, -y));
            }
        }
        j += 1 + usize::from(pair);
    }
    out
}

/// Makes each column one long, and its largest component real.
fn normalize<T: Field>(vectors: &mut Matrix<T>) {
    for column in vectors.data.chunks_exact_mut(vectors.rows.max(1)) {
        let length = super::matrix::norm(column);
        if length == 0.0 || !length.is_finite() {
            continue;
        }
        let largest = column.iter().fold(T::ZERO, |m, &v| if v.magnitude() > m.magnitude() { v } else { m });
        let turn = if largest.im() == 0.0 { T::ONE } else { largest.conjugate().times(1.0 / largest.magnitude()) };
        let turned = largest.im() != 0.0;
        for v in column.iter_mut() {
            let is_largest = turned && *v == largest;
            let scaled = (*v * turn).times(1.0 / length);
            *v = if is_largest { T::of(scaled.re(), 0.0) } else { scaled };
        }
    }
}

/// `geev`. Options: whether left and right vectors are wanted.
pub(super) fn run_general<T: General>(args: &mut Arguments<'_>) -> Result<(), Failure> {
    let (left, right) = (args.letter(0, b'V'), args.letter(1, b'V'));
    // Real matrices have the real and imaginary parts of their eigenvalues apart.
    let next = if T::COMPLEX { 1 } else { 2 };
    for batch in 0..args.batches() {
        let a = args.matrix::<T>(0, batch)?;
        let n = a.rows;
        let mut info = if a.is_finite() { 0 } else { -MATRIX_ARGUMENT };
        let mut found = None;
        if n == 0 {
            found = Some((Vec::new(), Matrix::zeros(0, 0), Matrix::zeros(0, 0)));
        } else if info == 0 {
            let factor = scaling(&a);
            found = T::eigen(&scaled(&a, factor), left, right)?;
            info = i32::from(found.is_none());
            if let Some((values, ..)) = &mut found {
                values.iter_mut().for_each(|v| *v = v.times(1.0 / factor));
            }
        }
        let (values, mut l, mut r) = found.unwrap_or_else(|| {
            let nan = T::Value::of(f64::NAN, f64::NAN);
            let vectors = Matrix::zeros(n, n).filled(nan);
            (vec![nan; n], vectors.clone(), vectors)
        });
        normalize(&mut l);
        normalize(&mut r);
        if T::COMPLEX {
            args.put_vector(0, batch, &values)?;
        } else {
            args.put_reals(0, batch, &values.iter().map(|v| v.re()).collect::<Vec<_>>())?;
            args.put_reals(1, batch, &values.iter().map(|v| v.im()).collect::<Vec<_>>())?;
        }
        args.put_matrix(next, batch, &l)?;
        args.put_matrix(next + 1, batch, &r)?;
        args.put_integers(next + 2, batch, &[info])?;
    }
    Ok(())
}
