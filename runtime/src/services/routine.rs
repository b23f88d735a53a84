//! The routines of linear algebra: what a call of their services says, whether or not the services are there.
//!
//! Problem: the compiler writes calls that the runtime reads, and neither may need the other's libraries. Invariant:
//! [`check`] knows the shapes of every routine; a call that passes it names arrays that its routine can work on.
//! Algorithm: one table gives each routine its code, its service, LAPACK's names and the names of its options.

use crate::abi::Service;
use crate::{ArrayShape, ElementType};

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
    #[cfg(feature = "linalg")]
    pub(crate) fn of_code(code: i64) -> Option<Routine> {
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
