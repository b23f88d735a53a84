//! Routines, and what a call hands to them.
//!
//! Invariant: [`check`] knows the shapes of every routine; after it, a matrix or a vector of a batch is a range of bytes
//! that is there. Reading and writing still go through checked slices, so that no call can reach further.

use super::matrix::{Field, Matrix};
use crate::abi::Service;
use crate::services::Failure;
use crate::{ArrayShape, ElementType, narrow};
use half::{bf16, f16};
use std::ops::Range;

/// Number of options of a call; a routine reads as many as it has.
pub const OPTIONS: usize = 4;

macro_rules! routines {
    ($($(#[$attribute:meta])* $variant:ident = $code:literal, $service:ident, $names:expr, $keys:expr;)*) => {
        /// What a linear-algebra service can do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Routine { $($(#[$attribute])* $variant = $code,)* }

        impl Routine {
            /// Every routine.
            pub const ALL: &'static [Routine] = &[$(Routine::$variant,)*];

            /// The service that has it.
            pub const fn service(self) -> Service { match self { $(Routine::$variant => Service::$service,)* } }

            /// LAPACK's names without the letter of the type: for real numbers, then others.
            pub const fn names(self) -> &'static [&'static str] { match self { $(Routine::$variant => &$names,)* } }

            /// The names of its options, in the order in which a call holds them.
            pub const fn options(self) -> &'static [&'static str] { match self { $(Routine::$variant => &$keys,)* } }
        }
    };
}

routines! {
    /// The Cholesky factor alone, NaN where there is none.
    Cholesky = 0, Cholesky, [], ["uplo"];
    /// The Cholesky factor and `info`.
    Potrf = 1, Cholesky, ["potrf"], ["uplo"];
    /// Triangular systems.
    Trsm = 2, TriangularSolve, ["trsm"], ["side", "uplo", "diag", "trans_x"];
    /// LU factors, pivots and `info`.
    Getrf = 3, Lu, ["getrf"], [];
    /// Tridiagonal systems.
    Gtsv = 4, Lu, ["gtsv"], [];
    /// QR factors as reflectors.
    Geqrf = 5, Qr, ["geqrf"], [];
    /// QR factors with column pivoting.
    Geqp3 = 6, Qr, ["geqp3"], [];
    /// Hessenberg form.
    Gehrd = 7, Qr, ["gehrd"], ["low", "high"];
    /// Tridiagonal form of symmetric and Hermitian matrices.
    Sytrd = 8, Qr, ["sytrd", "hetrd"], ["uplo"];
    /// The product of reflectors.
    Orgqr = 9, HouseholderProduct, ["orgqr", "ungqr"], [];
    /// The product of reflectors times a matrix.
    Ormqr = 10, HouseholderProduct, ["ormqr", "unmqr"], ["left", "transpose"];
    /// Singular values and vectors.
    Gesdd = 11, Svd, ["gesdd", "gesvd"], ["mode"];
    /// Eigenvalues and eigenvectors of symmetric and Hermitian matrices.
    Syevd = 12, Eigh, ["syevd", "heevd"], ["mode", "uplo"];
    /// Eigenvalues and eigenvectors of general matrices.
    Geev = 13, Eig, ["geev"], ["compute_left", "compute_right"];
    /// The Schur form of general matrices.
    Gees = 14, Eig, ["gees"], ["mode", "sort"];
}

impl Routine {
    /// The routine of a custom call's target such as `lapack_sgetrf_ffi`, and its element type.
    pub fn of_target(target: &str) -> Option<(Routine, ElementType)> {
        let name = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
        let ty = match name.get(..1)? {
            "s" => ElementType::F32,
            "d" => ElementType::F64,
            "c" => ElementType::C64,
            "z" => ElementType::C128,
            _ => return None,
        };
        let name = name.get(1..)?;
        Routine::ALL.iter().find(|r| r.names().contains(&name)).map(|&r| (r, ty))
    }

    /// The routine of a call's first attribute.
    pub(super) fn of_code(code: i64) -> Option<Routine> {
        Routine::ALL.iter().copied().find(|r| *r as i64 == code)
    }
}

/// The real type of a complex one.
fn real(ty: ElementType) -> ElementType {
    match ty {
        ElementType::C64 => ElementType::F32,
        ElementType::C128 => ElementType::F64,
        other => other,
    }
}

fn complex(ty: ElementType) -> ElementType {
    match ty {
        ElementType::F32 => ElementType::C64,
        ElementType::F64 => ElementType::C128,
        other => other,
    }
}

/// Whether arrays of these shapes are what the routine takes and yields.
///
/// # Errors
/// In words, where they are not.
pub fn check(
    routine: Routine,
    options: &[i64],
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<(), String> {
    let matrix_operand = usize::from(routine == Routine::Gtsv) * 3;
    let a = operands.get(matrix_operand).ok_or("the matrix is missing")?;
    let &[ref batch @ .., m, n] = &a.dims[..] else { return Err(format!("{a} is no batch of matrices")) };
    let lapack = matches!(a.ty, ElementType::F32 | ElementType::F64 | ElementType::C64 | ElementType::C128);
    let plain = matches!(routine, Routine::Cholesky | Routine::Trsm);
    if !(lapack || plain && a.ty.is_float()) {
        return Err(format!("matrices of {} have no routine", a.ty));
    }
    let option = |i: usize| options.get(i).copied().unwrap_or(0);
    let k = m.min(n);
    let shape = |ty, tail: &[i64]| ArrayShape::new(ty, [batch, tail].concat());
    let (ty, same) = (a.ty, shape(a.ty, &[m, n]));
    let info = shape(ElementType::S32, &[]);
    let integers = |n| shape(ElementType::S32, &[n]);
    let last_two = |shape: Option<&&ArrayShape>| match shape.map(|s| &s.dims[..]) {
        Some(&[.., rows, columns]) => Ok((rows, columns)),
        _ => Err(format!("{routine:?} takes and yields matrices")),
    };
    let (mut square, mut tall) = (true, false);
    let (expected, yields) = match routine {
        Routine::Cholesky => (vec![same.clone()], vec![same]),
        Routine::Potrf => (vec![same.clone()], vec![same, info]),
        Routine::Trsm => {
            let (rows, columns) = last_two(operands.get(1))?;
            let left = option(0) == i64::from(b'L');
            let b = shape(ty, &[if left { n } else { rows }, if left { columns } else { n }]);
            (vec![same, b.clone()], vec![b])
        }
        Routine::Gtsv => {
            square = false;
            let diagonal = shape(ty, &[m]);
            let list = vec![diagonal.clone(), diagonal.clone(), diagonal, same];
            (list.clone(), [list, vec![info]].concat())
        }
        Routine::Getrf => {
            square = false;
            (vec![same.clone()], vec![same, integers(k), info])
        }
        Routine::Geqrf => {
            square = false;
            (vec![same.clone()], vec![same, shape(ty, &[k])])
        }
        Routine::Geqp3 => {
            square = false;
            (vec![same.clone(), integers(n)], vec![same, integers(n), shape(ty, &[k])])
        }
        Routine::Gehrd => (vec![same.clone()], vec![same, shape(ty, &[(n - 1).max(0)]), info]),
        Routine::Sytrd => {
            let beside = (n - 1).max(0);
            let (diagonal, off) = (shape(real(ty), &[n]), shape(real(ty), &[beside]));
            (vec![same.clone()], vec![same, diagonal, off, shape(ty, &[beside]), info])
        }
        Routine::Orgqr | Routine::Ormqr => {
            (square, tall) = (false, true);
            let reflectors = operands.get(1).and_then(|s| s.dims.last()).copied().unwrap_or(0);
            if reflectors > n {
                return Err(format!("{reflectors} reflectors do not fit {a}"));
            }
            let taus = shape(ty, &[reflectors]);
            if routine == Routine::Orgqr {
                (vec![same.clone(), taus], vec![same])
            } else {
                let (rows, columns) = last_two(operands.get(2))?;
                let left = option(0) != 0;
                let c = shape(ty, &[if left { m } else { rows }, if left { columns } else { m }]);
                (vec![same, taus, c.clone()], vec![c])
            }
        }
        Routine::Gesdd => {
            square = false;
            let ((_, u), (v, _)) = (last_two(results.get(2))?, last_two(results.get(3))?);
            let (all, some) = (option(0) == i64::from(b'A'), option(0) == i64::from(b'S'));
            let pick = |found: i64, size: i64| match () {
                () if all => size,
                () if some || found != size => k,
                () => size,
            };
            let vectors = [shape(ty, &[m, pick(u, m)]), shape(ty, &[pick(v, n), n])];
            let [u, v] = vectors;
            (vec![same.clone()], vec![same, shape(real(ty), &[k]), u, v, info])
        }
        Routine::Syevd => (vec![same.clone()], vec![same, shape(real(ty), &[n]), info]),
        Routine::Geev => {
            let (values, vectors) = (shape(ty, &[n]), shape(complex(ty), &[n, n]));
            let mut yields = vec![values; if ty.is_complex() { 1 } else { 2 }];
            yields.extend([vectors.clone(), vectors, info]);
            (vec![same], yields)
        }
        Routine::Gees => {
            let mut yields = vec![same.clone(), same.clone()];
            yields.extend(vec![shape(ty, &[n]); if ty.is_complex() { 1 } else { 2 }]);
            yields.extend([info.clone(), info]);
            (vec![same], yields)
        }
    };
    if square && m != n {
        return Err(format!("{routine:?} takes square matrices, not {a}"));
    }
    if tall && m < n {
        return Err(format!("{routine:?} takes no more columns than rows, not {a}"));
    }
    for (expected, found) in [(expected, operands), (yields, results)] {
        let fits = |(e, f): (&ArrayShape, &&ArrayShape)| e.ty == f.ty && e.dims == f.dims;
        if expected.len() != found.len() || !expected.iter().zip(found).all(fits) {
            let list = |shapes: Vec<String>| shapes.join(", ");
            return Err(format!(
                "{routine:?} of {a}: expected ({}), found ({})",
                list(expected.iter().map(|s| format!("{s}")).collect()),
                list(found.iter().map(|s| format!("{s}")).collect())
            ));
        }
    }
    Ok(())
}

/// An array that a routine reads.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Its shape.
    pub shape: &'a ArrayShape,
    /// Its elements.
    pub bytes: &'a [u8],
}

/// An array that a routine writes.
#[derive(Debug)]
pub struct Output<'a> {
    /// Its shape.
    pub shape: &'a ArrayShape,
    /// Where its elements go.
    pub bytes: &'a mut [u8],
}

/// One call of a routine.
pub(super) struct Arguments<'a> {
    pub routine: Routine,
    /// Whether the bytes of each matrix stand column by column, not row by row.
    pub by_columns: bool,
    pub options: &'a [i64],
    pub operands: &'a [Operand<'a>],
    pub results: &'a mut [Output<'a>],
}

/// The last two dimensions.
fn sides(shape: &ArrayShape) -> Result<(usize, usize), Failure> {
    match shape.dims[..] {
        [.., rows, columns] => Ok((rows.max(0) as usize, columns.max(0) as usize)),
        _ => Err(Failure::new(format!("{shape} is no batch of matrices"))),
    }
}

/// The bytes of one of a batch's parts.
fn part(batch: usize, elements: usize, ty: ElementType) -> Option<Range<usize>> {
    let size = elements.checked_mul(ty.byte_size())?;
    let start = batch.checked_mul(size)?;
    Some(start..start.checked_add(size)?)
}

fn missing() -> Failure {
    Failure::new("a linear-algebra service was called without one of its arrays")
}

/// A number of an element type, at least as wide as `T` reads it.
fn load<T: Field>(ty: ElementType, bytes: &[u8]) -> T {
    let narrow = |v: f64| T::of(v, 0.0);
    let bits = || bytes.try_into().map_or(0, u16::from_ne_bytes);
    match ty {
        ElementType::F16 => narrow(f16::from_bits(bits()).to_f64()),
        ElementType::BF16 => narrow(bf16::from_bits(bits()).to_f64()),
        _ if bytes.len() == 1 => narrow(bytes.first().map_or(0.0, |&b| narrow::decode(ty, b))),
        _ => T::load(bytes),
    }
}

fn store<T: Field>(ty: ElementType, value: T, bytes: &mut [u8]) {
    match (ty, bytes) {
        (ElementType::F16, bytes) => {
            bytes.iter_mut().zip(narrow::encode_f16(value.re()).to_ne_bytes()).for_each(|(to, from)| *to = from);
        }
        (ElementType::BF16, bytes) => {
            bytes.iter_mut().zip(narrow::encode_bf16(value.re()).to_ne_bytes()).for_each(|(to, from)| *to = from);
        }
        (_, [byte]) => *byte = narrow::encode(ty, value.re()),
        (_, bytes) => value.store(bytes),
    }
}

impl Arguments<'_> {
    /// The element type of the matrices.
    pub fn ty(&self) -> Option<ElementType> {
        self.operands.first().map(|o| o.shape.ty)
    }

    /// An option; 0 where there are fewer.
    pub fn option(&self, index: usize) -> i64 {
        self.options.get(index).copied().unwrap_or(0)
    }

    /// Whether an option is this letter.
    pub fn letter(&self, index: usize, letter: u8) -> bool {
        self.option(index) == i64::from(letter)
    }

    /// The number of matrices.
    pub fn batches(&self) -> usize {
        let matrix = usize::from(self.routine == Routine::Gtsv) * 3;
        let dims = self.operands.get(matrix).map_or(&[][..], |o| &o.shape.dims);
        dims.iter().rev().skip(2).map(|&d| d.max(0) as usize).product()
    }

    fn operand(&self, index: usize, batch: usize, elements: usize) -> Result<(ElementType, &[u8]), Failure> {
        let operand = self.operands.get(index).ok_or_else(missing)?;
        let range = part(batch, elements, operand.shape.ty).ok_or_else(missing)?;
        Ok((operand.shape.ty, operand.bytes.get(range).ok_or_else(missing)?))
    }

    fn result(&mut self, index: usize, batch: usize, elements: usize) -> Result<(ElementType, &mut [u8]), Failure> {
        let result = self.results.get_mut(index).ok_or_else(missing)?;
        let range = part(batch, elements, result.shape.ty).ok_or_else(missing)?;
        Ok((result.shape.ty, result.bytes.get_mut(range).ok_or_else(missing)?))
    }

    /// A matrix of a batch.
    pub fn matrix<T: Field>(&self, index: usize, batch: usize) -> Result<Matrix<T>, Failure> {
        let (rows, columns) = sides(self.operands.get(index).ok_or_else(missing)?.shape)?;
        let (ty, bytes) = self.operand(index, batch, rows.saturating_mul(columns))?;
        let size = ty.byte_size();
        let at = |k: usize| bytes.get(k * size..(k + 1) * size).map_or(T::ZERO, |b| load(ty, b));
        Ok(match self.by_columns {
            true => Matrix::generate(rows, columns, |i, j| at(i + j * rows)),
            false => Matrix::generate(rows, columns, |i, j| at(i * columns + j)),
        })
    }

    /// A vector of a batch: the last dimension.
    pub fn vector<T: Field>(&self, index: usize, batch: usize) -> Result<Vec<T>, Failure> {
        let dims = &self.operands.get(index).ok_or_else(missing)?.shape.dims;
        let (ty, bytes) = self.operand(index, batch, dims.last().map_or(0, |&d| d.max(0) as usize))?;
        Ok(bytes.chunks_exact(ty.byte_size()).map(|b| load(ty, b)).collect())
    }

    /// A vector of 32-bit integers of a batch.
    pub fn integers(&self, index: usize, batch: usize) -> Result<Vec<i32>, Failure> {
        let dims = &self.operands.get(index).ok_or_else(missing)?.shape.dims;
        let (_, bytes) = self.operand(index, batch, dims.last().map_or(0, |&d| d.max(0) as usize))?;
        Ok(bytes.chunks_exact(4).map(|b| b.try_into().map_or(0, i32::from_ne_bytes)).collect())
    }

    /// Rows and columns of a result.
    pub fn result_matrix(&self, index: usize) -> Result<(usize, usize), Failure> {
        sides(self.results.get(index).ok_or_else(missing)?.shape)
    }

    /// Writes a matrix of a batch.
    pub fn put_matrix<T: Field>(&mut self, index: usize, batch: usize, m: &Matrix<T>) -> Result<(), Failure> {
        let by_columns = self.by_columns;
        let (ty, bytes) = self.result(index, batch, m.data.len())?;
        for (k, bytes) in bytes.chunks_exact_mut(ty.byte_size()).enumerate() {
            let value = if by_columns { m.data[k] } else { m.at(k / m.columns, k % m.columns) };
            store(ty, value, bytes);
        }
        Ok(())
    }

    /// Writes a vector of a batch.
    pub fn put_vector<T: Field>(&mut self, index: usize, batch: usize, values: &[T]) -> Result<(), Failure> {
        let (ty, bytes) = self.result(index, batch, values.len())?;
        let places = bytes.chunks_exact_mut(ty.byte_size());
        places.zip(values).for_each(|(bytes, &value)| store(ty, value, bytes));
        Ok(())
    }

    /// Writes real numbers, rounded to the result's type.
    pub fn put_reals(&mut self, index: usize, batch: usize, values: &[f64]) -> Result<(), Failure> {
        if self.results.get(index).is_some_and(|r| r.shape.ty == ElementType::F32) {
            return self.put_vector(index, batch, &values.iter().map(|&v| v as f32).collect::<Vec<_>>());
        }
        self.put_vector(index, batch, values)
    }

    /// Writes 32-bit integers.
    pub fn put_integers(&mut self, index: usize, batch: usize, values: &[i32]) -> Result<(), Failure> {
        let (_, bytes) = self.result(index, batch, values.len())?;
        for (bytes, value) in bytes.chunks_exact_mut(4).zip(values) {
            bytes.iter_mut().zip(value.to_ne_bytes()).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }
}
