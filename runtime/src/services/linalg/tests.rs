//! The routines on random matrices of every type, sizes on both sides of a panel, both byte orders: what they yield must
//! give the matrix back.

#![allow(clippy::unwrap_used)]
use super::matrix::{Field, Matrix, product};
use super::*;
use ElementType as E;

/// An array with its bytes.
#[derive(Clone)]
struct Value(ArrayShape, Vec<u8>);

impl Value {
    fn zeros(ty: E, dims: &[usize]) -> Value {
        let shape = ArrayShape::new(ty, dims.iter().map(|&d| d as i64).collect::<Vec<_>>());
        let size = shape.byte_size();
        Value(shape, vec![0; size])
    }

    /// A batch of matrices, row by row.
    fn of<T: Field>(ty: E, matrices: &[Matrix<T>]) -> Value {
        let (rows, columns) = (matrices[0].rows, matrices[0].columns);
        let mut out = Value::zeros(ty, &[matrices.len(), rows, columns]);
        let mut places = out.1.chunks_exact_mut(size_of::<T>());
        for m in matrices {
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                m.at(i, j).store(places.next().unwrap());
            }
        }
        drop(places);
        out
    }

    fn elements<T: Field>(&self) -> Vec<T> {
        self.1.chunks_exact(size_of::<T>()).map(T::load).collect()
    }

    fn integers(&self) -> Vec<i32> {
        self.1.chunks_exact(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect()
    }

    fn matrices<T: Field>(&self) -> Vec<Matrix<T>> {
        let [.., rows, columns] = self.0.dims[..] else { panic!("no matrices") };
        let (rows, columns) = (rows as usize, columns as usize);
        let all = self.elements::<T>();
        all.chunks(rows * columns).map(|e| Matrix::generate(rows, columns, |i, j| e[i * columns + j])).collect()
    }
}

fn run(routine: Routine, options: &[i64], operands: &[&Value], results: &[Value]) -> Vec<Value> {
    run_as(false, routine, options, operands, results)
}

fn run_as(by_columns: bool, routine: Routine, options: &[i64], operands: &[&Value], results: &[Value]) -> Vec<Value> {
    let attributes = [&[routine as i64, i64::from(by_columns)], options].concat();
    let operands: Vec<Operand<'_>> = operands.iter().map(|v| Operand { shape: &v.0, bytes: &v.1 }).collect();
    let mut results = results.to_vec();
    let mut outputs: Vec<Output<'_>> = results.iter_mut().map(|v| Output { shape: &v.0, bytes: &mut v.1 }).collect();
    compute(&attributes, &operands, &mut outputs).unwrap();
    results
}

fn random<T: Field>(rows: usize, columns: usize, seed: usize) -> Matrix<T> {
    let mut state = seed as u64 * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    let values: Vec<T> = (0..rows * columns).map(|_| T::of(next(), next())).collect();
    Matrix::generate(rows, columns, |i, j| values[i * columns + j])
}

fn times<T: Field>(a: &Matrix<T>, b: &Matrix<T>) -> Matrix<T> {
    product(a.view(), b.view())
}

fn close<T: Field>(a: &Matrix<T>, b: &Matrix<T>, what: &str) {
    assert_eq!((a.rows, a.columns), (b.rows, b.columns), "{what}");
    let scale = b.data.iter().fold(1.0f64, |m, v| m.max(v.magnitude()));
    let error = a.data.iter().zip(&b.data).map(|(&a, &b)| (a - b).magnitude()).fold(0.0, f64::max);
    let unit = if T::of(1.0 + 1e-10, 0.0).re() == 1.0 { 1e-5 } else { 1e-12 };
    assert!(error <= unit * scale * (a.rows.max(a.columns).max(4) as f64), "{what}: {error} at {scale}");
}

fn letter(c: char) -> i64 {
    i64::from(c as u8)
}

fn hermitian<T: Field>(n: usize, seed: usize) -> Matrix<T> {
    let a = random::<T>(n, n, seed);
    Matrix::generate(n, n, |i, j| (a.at(i, j) + a.at(j, i).conjugate()).times(0.5))
}

fn definite<T: Field>(n: usize, seed: usize) -> Matrix<T> {
    let a = random::<T>(n, n, seed);
    let mut out = times(&a, &a.adjoint());
    (0..n).for_each(|i| out.set(i, i, T::of(out.at(i, i).re() + 0.5, 0.0)));
    out
}

fn triangle<T: Field>(a: &Matrix<T>, lower: bool, unit: bool) -> Matrix<T> {
    Matrix::generate(a.rows, a.columns, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Equal if unit => T::ONE,
        std::cmp::Ordering::Less if lower => T::ZERO,
        std::cmp::Ordering::Greater if !lower => T::ZERO,
        _ => a.at(i, j),
    })
}

const SIZES: [usize; 5] = [1, 2, 5, 33, 100];

fn cholesky_of<T: Field>(ty: E) {
    for n in SIZES {
        let a = [definite::<T>(n, n), definite::<T>(n, n + 7)];
        for lower in [true, false] {
            // What stands in the other triangle is not read.
            let nan = T::of(f64::NAN, f64::NAN);
            let spoil = |a: &Matrix<T>| {
                Matrix::generate(n, n, |i, j| if i == j || (i > j) == lower { a.at(i, j) } else { nan })
            };
            let input = Value::of(ty, &a.iter().map(spoil).collect::<Vec<_>>());
            let uplo = letter(if lower { 'L' } else { 'U' });
            let out = run(Routine::Cholesky, &[uplo], &[&input], &[Value::zeros(ty, &[2, n, n])]);
            for (l, a) in out[0].matrices::<T>().iter().zip(&a) {
                let back = if lower { times(l, &l.adjoint()) } else { times(&l.adjoint(), l) };
                close(&back, a, "cholesky");
            }
        }
    }
    let indefinite = Matrix::generate(3, 3, |i, j| T::of(if i == j { 1.0 } else { 2.0 }, 0.0));
    let input = Value::of(ty, &[indefinite]);
    let out = run(Routine::Cholesky, &[letter('L')], &[&input], &[Value::zeros(ty, &[1, 3, 3])]);
    let l = out[0].matrices::<T>().remove(0);
    assert!(l.at(0, 0).re().is_nan() && l.at(2, 1).re().is_nan() && l.at(0, 1).re() == 0.0);
    let results = [Value::zeros(ty, &[1, 3, 3]), Value::zeros(E::S32, &[1])];
    assert_eq!(run(Routine::Potrf, &[letter('L')], &[&input], &results)[1].integers(), [2]);
}

fn triangular_of<T: Field>(ty: E) {
    for n in SIZES {
        for code in 0..16 {
            let flag = |bit: usize| code >> bit & 1 == 1;
            let (left, lower, unit) = (flag(0), flag(1), flag(2));
            for trans in ['N', 'T', 'C'] {
                let mut a = random::<T>(n, n, n + code);
                a.data.iter_mut().for_each(|v| *v = v.times(1.0 / n as f64));
                (0..n).for_each(|i| a.set(i, i, T::of(2.0, 0.5)));
                let t = triangle(&a, lower, unit);
                let op = match trans {
                    'N' => t,
                    'T' => Matrix::generate(n, n, |i, j| t.at(j, i)),
                    _ => t.adjoint(),
                };
                let x = if left { random::<T>(n, 3, code) } else { random::<T>(3, n, code) };
                let b = if left { times(&op, &x) } else { times(&x, &op) };
                let nan = T::of(f64::NAN, f64::NAN);
                let read = |i: usize, j: usize| if i == j { !unit } else { (i > j) == lower };
                let a = Matrix::generate(n, n, |i, j| if read(i, j) { a.at(i, j) } else { nan });
                let side = letter(if left { 'L' } else { 'R' });
                let uplo = letter(if lower { 'L' } else { 'U' });
                let diag = letter(if unit { 'U' } else { 'N' });
                let (a, b) = (Value::of(ty, &[a]), Value::of(ty, &[b]));
                let out = run(Routine::Trsm, &[side, uplo, diag, letter(trans)], &[&a, &b], std::slice::from_ref(&b));
                close(&out[0].matrices::<T>()[0], &x, "trsm");
            }
        }
    }
}

/// The same matrices with the bytes of each column by column.
fn turned<T: Field>(ty: E, matrices: &[Matrix<T>]) -> Value {
    let transposed = |m: &Matrix<T>| Matrix::generate(m.columns, m.rows, |i, j| m.at(j, i));
    let mut out = Value::of(ty, &matrices.iter().map(transposed).collect::<Vec<_>>());
    out.0.dims.swap(1, 2);
    out
}

/// Every orientation in both orders of bytes, with as many vectors as leave a tile of every width.
fn many_vectors_of<T: Field>(ty: E) {
    let transposed = |m: &Matrix<T>| Matrix::generate(m.columns, m.rows, |i, j| m.at(j, i));
    for (code, (n, vectors)) in (0..8).flat_map(|code| [(7, 37), (45, 71), (100, 1)].map(|size| (code, size))) {
        let (left, lower, unit) = (code & 1 == 1, code & 2 == 2, code & 4 == 4);
        for trans in ['N', 'T', 'C'] {
            let systems = [0, 1].map(|batch| {
                let mut a = random::<T>(n, n, n + code + batch);
                a.data.iter_mut().for_each(|v| *v = v.times(1.0 / n as f64));
                (0..n).for_each(|i| a.set(i, i, T::of(2.0, 0.5)));
                let t = triangle(&a, lower, unit);
                let op = match trans {
                    'N' => t,
                    'T' => transposed(&t),
                    _ => t.adjoint(),
                };
                let x = random::<T>(n, vectors, code + batch);
                let x = if left { x } else { transposed(&x) };
                let b = if left { times(&op, &x) } else { times(&x, &op) };
                (a, b, x)
            });
            let a = systems.each_ref().map(|s| s.0.clone());
            let b = systems.each_ref().map(|s| s.1.clone());
            let letters = [if left { 'L' } else { 'R' }, if lower { 'L' } else { 'U' }, if unit { 'U' } else { 'N' }];
            let options = [letters[0], letters[1], letters[2], trans].map(letter);
            let values = (Value::of(ty, &b), turned(ty, &b));
            let rows = run(Routine::Trsm, &options, &[&Value::of(ty, &a), &values.0], std::slice::from_ref(&values.0));
            let columns =
                run_as(true, Routine::Trsm, &options, &[&turned(ty, &a), &values.1], std::slice::from_ref(&values.1));
            let size = n * vectors;
            for (batch, (found, (.., x))) in rows[0].matrices::<T>().iter().zip(&systems).enumerate() {
                close(found, x, "trsm by rows");
                let data = columns[0].elements::<T>()[batch * size..(batch + 1) * size].to_vec();
                close(&Matrix { data, ..*x }, x, "trsm by columns");
            }
        }
    }
}

/// The other triangle stays as it is, bit by bit, in both orders of bytes.
fn other_triangle_of<T: Field>(ty: E) {
    for (n, lower, by_columns) in [7, 12, 33, 100]
        .into_iter()
        .flat_map(|n| [(true, true), (true, false), (false, true), (false, false)].map(|o| (n, o.0, o.1)))
    {
        let a = definite::<T>(n, n);
        let named = |i: usize, j: usize| i == j || (i > j) == lower;
        let mark = |i: usize, j: usize| T::of((i * n + j) as f64, -1.0);
        let input = Matrix::generate(n, n, |i, j| if named(i, j) { a.at(i, j) } else { mark(i, j) });
        let input = if by_columns { turned(ty, &[input]) } else { Value::of(ty, &[input]) };
        let results = [input.clone(), Value::zeros(E::S32, &[1])];
        let options = [letter(if lower { 'L' } else { 'U' })];
        let out = run_as(by_columns, Routine::Potrf, &options, &[&input], &results);
        let found = out[0].matrices::<T>().remove(0);
        let found = if by_columns { Matrix::generate(n, n, |i, j| found.at(j, i)) } else { found };
        let l = triangle(&found, lower, false);
        close(&if lower { times(&l, &l.adjoint()) } else { times(&l.adjoint(), &l) }, &a, "potrf");
        assert_eq!(out[1].integers(), [0]);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|&(i, j)| !named(i, j)) {
            assert!(found.at(i, j) == mark(i, j), "potrf changed ({i}, {j}) of {n}, lower {lower}");
        }
    }
    // The first minor that is not positive stands behind the first block, or is not a number.
    for (at, value) in [(40, -1.0), (70, f64::NAN), (99, 0.0)] {
        let mut a = Matrix::<T>::identity(100, 100);
        a.set(at, at, T::of(value, 0.0));
        let input = Value::of(ty, &[a]);
        let results = [input.clone(), Value::zeros(E::S32, &[1])];
        let out = run(Routine::Potrf, &[letter('L')], &[&input], &results);
        assert_eq!(out[1].integers(), [at as i32 + 1]);
    }
}

fn lu_of<T: Field>(ty: E) {
    for (m, n) in [(1, 1), (3, 5), (5, 3), (33, 33), (70, 40), (40, 70)] {
        let a = random::<T>(m, n, m + n);
        let k = m.min(n);
        let results = [Value::zeros(ty, &[1, m, n]), Value::zeros(E::S32, &[1, k]), Value::zeros(E::S32, &[1])];
        let out = run(Routine::Getrf, &[], &[&Value::of(ty, std::slice::from_ref(&a))], &results);
        let lu = &out[0].matrices::<T>()[0];
        let l = triangle(&Matrix::generate(m, k, |i, j| lu.at(i, j)), true, true);
        let u = triangle(&Matrix::generate(k, n, |i, j| lu.at(i, j)), false, false);
        let mut rows: Vec<usize> = (0..m).collect();
        out[1].integers().iter().enumerate().for_each(|(i, &p)| rows.swap(i, p as usize - 1));
        let permuted = Matrix::generate(m, n, |i, j| a.at(rows[i], j));
        close(&times(&l, &u), &permuted, "getrf");
        assert_eq!(out[2].integers(), [0]);
    }
    let singular = Value::of(ty, &[Matrix::generate(2, 2, |i, j| T::of(((i + 1) * (j + 1)) as f64, 0.0))]);
    let results = [Value::zeros(ty, &[1, 2, 2]), Value::zeros(E::S32, &[1, 2]), Value::zeros(E::S32, &[1])];
    assert_eq!(run(Routine::Getrf, &[], &[&singular], &results)[2].integers(), [2]);

    for n in [1usize, 2, 3, 10] {
        let diagonals = random::<T>(3, n, n);
        let of = |k: usize| (0..n).map(|i| diagonals.at(k, i)).collect::<Vec<_>>();
        let full = Matrix::generate(n, n, |i, j| match j as i64 - i as i64 {
            -1 => diagonals.at(0, i),
            0 => diagonals.at(1, i),
            1 => diagonals.at(2, i),
            _ => T::ZERO,
        });
        let x = random::<T>(n, 2, 3);
        let vector = |v: &[T]| {
            let row = Matrix::generate(1, n, |_, j| v[j]);
            let mut value = Value::of(ty, &[row]);
            value.0 = ArrayShape::new(ty, [1, n as i64]);
            value
        };
        let operands = [vector(&of(0)), vector(&of(1)), vector(&of(2)), Value::of(ty, &[times(&full, &x)])];
        let results = [operands.to_vec(), vec![Value::zeros(E::S32, &[1])]].concat();
        let out = run(Routine::Gtsv, &[], &operands.each_ref(), &results);
        close(&out[3].matrices::<T>()[0], &x, "gtsv");
    }
}

fn qr_of<T: Field>(ty: E) {
    for (m, n) in [(1, 1), (4, 4), (7, 3), (3, 7), (70, 40), (40, 70), (80, 80)] {
        let a = random::<T>(m, n, m * n);
        let k = m.min(n);
        let input = Value::of(ty, std::slice::from_ref(&a));
        let (matrix, taus) = (Value::zeros(ty, &[1, m, n]), Value::zeros(ty, &[1, k]));
        for pivoting in [false, true] {
            let pivots = Value::zeros(E::S32, &[1, n]);
            let (factors, taus, order) = if pivoting {
                let out = run(Routine::Geqp3, &[], &[&input, &pivots], &[matrix.clone(), pivots.clone(), taus.clone()]);
                (out[0].clone(), out[2].clone(), out[1].integers())
            } else {
                let out = run(Routine::Geqrf, &[], &[&input], &[matrix.clone(), taus.clone()]);
                (out[0].clone(), out[1].clone(), (1..=n as i32).collect())
            };
            let f = &factors.matrices::<T>()[0];
            let r = triangle(&Matrix::generate(k, n, |i, j| f.at(i, j)), false, false);
            assert!((0..k).all(|i| r.at(i, i).im() == 0.0), "the diagonal of R is real");
            if pivoting {
                assert!((1..k).all(|i| r.at(i, i).magnitude() <= r.at(i - 1, i - 1).magnitude() * 1.0001));
            }
            let thin = Value::of(ty, &[Matrix::generate(m, k, |i, j| f.at(i, j))]);
            let q = run(Routine::Orgqr, &[], &[&thin, &taus], std::slice::from_ref(&thin))[0].matrices::<T>().remove(0);
            close(&times(&q.adjoint(), &q), &Matrix::identity(k, k), "orgqr");
            let permuted = Matrix::generate(m, n, |i, j| a.at(i, order[j] as usize - 1));
            close(&times(&q, &r), &permuted, "qr");
            // Multiplying by the product is multiplying by the matrix.
            let c = random::<T>(m, 3, 5);
            for (left, transpose) in [(1, 0), (1, 1), (0, 0), (0, 1)] {
                let eye = Value::of(ty, &[Matrix::<T>::identity(m, m)]);
                let full = run(Routine::Ormqr, &[1, transpose], &[&thin, &taus, &eye], std::slice::from_ref(&eye));
                let full = &full[0].matrices::<T>()[0];
                let c = if left == 1 { c.clone() } else { c.adjoint() };
                let expected = if left == 1 { times(full, &c) } else { times(&c, full) };
                let c = Value::of(ty, &[c]);
                let found = run(Routine::Ormqr, &[left, transpose], &[&thin, &taus, &c], std::slice::from_ref(&c));
                close(&found[0].matrices::<T>()[0], &expected, "ormqr");
            }
        }
    }
}

/// `Q` of the reflectors of a reduction, which stand below the first subdiagonal.
fn reflectors<T: Field>(ty: E, factors: &Matrix<T>, taus: &Value) -> Matrix<T> {
    let n = factors.rows;
    if n == 1 {
        return Matrix::identity(1, 1);
    }
    let inner = Value::of(ty, &[Matrix::generate(n - 1, n - 1, |i, j| factors.at(i + 1, j))]);
    let q = run(Routine::Orgqr, &[], &[&inner, taus], std::slice::from_ref(&inner))[0].matrices::<T>().remove(0);
    Matrix::generate(n, n, |i, j| match (i, j) {
        (0, 0) => T::ONE,
        (0, _) | (_, 0) => T::ZERO,
        _ => q.at(i - 1, j - 1),
    })
}

fn reductions_of<T: Field>(ty: E, real: E) {
    for n in [1usize, 2, 3, 20] {
        let a = random::<T>(n, n, n);
        let (taus, info) = (Value::zeros(ty, &[1, n - 1]), Value::zeros(E::S32, &[1]));
        let input = Value::of(ty, std::slice::from_ref(&a));
        let out = run(Routine::Gehrd, &[1, n as i64], &[&input], &[input.clone(), taus.clone(), info.clone()]);
        let f = &out[0].matrices::<T>()[0];
        let h = Matrix::generate(n, n, |i, j| if i <= j + 1 { f.at(i, j) } else { T::ZERO });
        let q = reflectors(ty, f, &out[1]);
        close(&times(&times(&q, &h), &q.adjoint()), &a, "gehrd");

        let a = hermitian::<T>(n, n);
        let input = Value::of(ty, std::slice::from_ref(&a));
        for lower in [true, false] {
            let uplo = letter(if lower { 'L' } else { 'U' });
            let results = [
                input.clone(),
                Value::zeros(real, &[1, n]),
                Value::zeros(real, &[1, n - 1]),
                taus.clone(),
                info.clone(),
            ];
            let out = run(Routine::Sytrd, &[uplo], &[&input], &results);
            let f = &out[0].matrices::<T>()[0];
            // The diagonals stand in the matrix too.
            let tri = Matrix::generate(n, n, |i, j| match (i as i64 - j as i64, lower) {
                (0, _) => f.at(i, i),
                (1, true) | (-1, false) => f.at(i, j),
                (-1, true) | (1, false) => f.at(j, i),
                _ => T::ZERO,
            });
            let (f, t, taus) = if lower {
                (f.clone(), tri, out[3].clone())
            } else {
                let mut taus = out[3].elements::<T>();
                taus.reverse();
                let mut value = Value::zeros(ty, &[1, n - 1]);
                value.1.chunks_exact_mut(size_of::<T>()).zip(&taus).for_each(|(b, v)| v.store(b));
                (f.reversed(), tri.reversed(), value)
            };
            let a = if lower { a.clone() } else { a.reversed() };
            let q = reflectors(ty, &f, &taus);
            close(&times(&times(&q, &t), &q.adjoint()), &a, "sytrd");
        }
    }
}

fn symmetric_of<T: Field>(ty: E, real: E) {
    for n in SIZES {
        let a = hermitian::<T>(n, n);
        let input = Value::of(ty, std::slice::from_ref(&a));
        let results = [input.clone(), Value::zeros(real, &[1, n]), Value::zeros(E::S32, &[1])];
        let mut all_values = Vec::new();
        for (mode, uplo) in [('V', 'L'), ('V', 'U'), ('N', 'L')] {
            let out = run(Routine::Syevd, &[letter(mode), letter(uplo)], &[&input], &results);
            assert_eq!(out[2].integers(), [0]);
            let values = reals(&out[1]);
            assert!(values.is_sorted(), "in ascending order");
            if mode == 'V' {
                let v = &out[0].matrices::<T>()[0];
                let scaled = Matrix::generate(n, n, |i, j| v.at(i, j).times(values[j]));
                close(&times(&scaled, &v.adjoint()), &a, "syevd");
                close(&times(&v.adjoint(), v), &Matrix::identity(n, n), "vectors of syevd");
            }
            all_values.push(values);
        }
        let difference = all_values[0].iter().zip(&all_values[2]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(difference < 1e-4);
    }
    let nan = Value::of(ty, &[Matrix::generate(2, 2, |_, _| T::of(f64::NAN, 0.0))]);
    let results = [nan.clone(), Value::zeros(real, &[1, 2]), Value::zeros(E::S32, &[1])];
    let out = run(Routine::Syevd, &[letter('V'), letter('L')], &[&nan], &results);
    assert!(out[2].integers() != [0] && reals(&out[1]).iter().all(|v| v.is_nan()));
}

fn reals(value: &Value) -> Vec<f64> {
    match value.0.ty {
        E::F32 => value.elements::<f32>().into_iter().map(f64::from).collect(),
        _ => value.elements::<f64>(),
    }
}

fn svd_of<T: Field>(ty: E, real: E) {
    for (m, n) in [(1, 1), (1, 4), (4, 1), (5, 3), (3, 5), (40, 40), (90, 20), (20, 90)] {
        let a = random::<T>(m, n, m + n);
        let k = m.min(n);
        let input = Value::of(ty, std::slice::from_ref(&a));
        for mode in ['A', 'S', 'N'] {
            let (p, q) = if mode == 'S' { (k, k) } else { (m, n) };
            let results = [
                input.clone(),
                Value::zeros(real, &[1, k]),
                Value::zeros(ty, &[1, m, p]),
                Value::zeros(ty, &[1, q, n]),
                Value::zeros(E::S32, &[1]),
            ];
            let out = run(Routine::Gesdd, &[letter(mode)], &[&input], &results);
            let values = reals(&out[1]);
            assert!(values.iter().rev().is_sorted() && values[k - 1] >= 0.0 && out[4].integers() == [0]);
            if mode == 'N' {
                continue;
            }
            let (u, vt) = (&out[2].matrices::<T>()[0], &out[3].matrices::<T>()[0]);
            let s = Matrix::generate(p, q, |i, j| if i == j { T::of(values[i], 0.0) } else { T::ZERO });
            close(&times(&times(u, &s), vt), &a, "gesdd");
            close(&times(&u.adjoint(), u), &Matrix::identity(p, p), "left vectors");
            close(&times(vt, &vt.adjoint()), &Matrix::identity(q, q), "right vectors");
        }
    }
}

fn general_of<T: spectral::General>(ty: E, complex: E) {
    for n in [1usize, 2, 3, 10, 60] {
        let a = random::<T>(n, n, n + 3);
        let input = Value::of(ty, std::slice::from_ref(&a));
        let values = Value::zeros(ty, &[1, n]);
        let vectors = Value::zeros(complex, &[1, n, n]);
        let mut results = vec![values; if T::COMPLEX { 1 } else { 2 }];
        results.extend([vectors.clone(), vectors, Value::zeros(E::S32, &[1])]);
        let out = run(Routine::Geev, &[letter('V'), letter('V')], &[&input], &results);
        let first = results.len() - 3;
        assert_eq!(out[first + 2].integers(), [0]);
        let values: Vec<T::Value> = if T::COMPLEX {
            out[0].elements::<T::Value>()
        } else {
            reals(&out[0]).iter().zip(reals(&out[1])).map(|(&re, im)| T::Value::of(re, im)).collect()
        };
        let a = Matrix::generate(n, n, |i, j| T::Value::of(a.at(i, j).re(), a.at(i, j).im()));
        let (l, r) = (&out[first].matrices::<T::Value>()[0], &out[first + 1].matrices::<T::Value>()[0]);
        close(&times(&a, r), &Matrix::generate(n, n, |i, j| r.at(i, j) * values[j]), "right vectors");
        let expected = Matrix::generate(n, n, |i, j| values[j].conjugate() * l.at(i, j));
        close(&times(&a.adjoint(), l), &expected, "left vectors");
        for vectors in [l, r] {
            let lengths = (0..n).map(|j| matrix::norm(vectors.below(0, j)));
            assert!(lengths.into_iter().all(|v| (v - 1.0).abs() < 1e-5), "vectors of length one");
        }
    }
}

#[test]
fn cholesky_factors_give_the_matrix_back() {
    cholesky_of::<f32>(E::F32);
    cholesky_of::<f64>(E::F64);
    cholesky_of::<Complex<f32>>(E::C64);
    cholesky_of::<Complex<f64>>(E::C128);
}

#[test]
fn triangular_systems_in_every_orientation() {
    triangular_of::<f32>(E::F32);
    triangular_of::<f64>(E::F64);
    triangular_of::<Complex<f32>>(E::C64);
    triangular_of::<Complex<f64>>(E::C128);
}

#[test]
fn systems_of_many_vectors_in_both_orders_of_bytes() {
    many_vectors_of::<f32>(E::F32);
    many_vectors_of::<f64>(E::F64);
    many_vectors_of::<Complex<f32>>(E::C64);
    many_vectors_of::<Complex<f64>>(E::C128);
}

#[test]
fn potrf_leaves_the_other_triangle_and_names_the_minor() {
    other_triangle_of::<f32>(E::F32);
    other_triangle_of::<f64>(E::F64);
    other_triangle_of::<Complex<f32>>(E::C64);
    other_triangle_of::<Complex<f64>>(E::C128);
}

#[test]
fn lu_factors_and_tridiagonal_systems() {
    lu_of::<f64>(E::F64);
    lu_of::<Complex<f64>>(E::C128);
}

#[test]
fn reflectors_make_orthogonal_matrices() {
    qr_of::<f32>(E::F32);
    qr_of::<f64>(E::F64);
    qr_of::<Complex<f64>>(E::C128);
}

#[test]
fn reductions_give_the_matrix_back() {
    reductions_of::<f64>(E::F64, E::F64);
    reductions_of::<Complex<f64>>(E::C128, E::F64);
}

#[test]
fn eigenvalues_of_symmetric_matrices() {
    symmetric_of::<f32>(E::F32, E::F32);
    symmetric_of::<f64>(E::F64, E::F64);
    symmetric_of::<Complex<f32>>(E::C64, E::F32);
    symmetric_of::<Complex<f64>>(E::C128, E::F64);
}

#[test]
fn singular_values_give_the_matrix_back() {
    svd_of::<f32>(E::F32, E::F32);
    svd_of::<f64>(E::F64, E::F64);
    svd_of::<Complex<f32>>(E::C64, E::F32);
    svd_of::<Complex<f64>>(E::C128, E::F64);
}

#[test]
fn eigenvalues_of_general_matrices() {
    general_of::<f32>(E::F32, E::C64);
    general_of::<f64>(E::F64, E::C128);
    general_of::<Complex<f32>>(E::C64, E::C64);
    general_of::<Complex<f64>>(E::C128, E::C128);
}

fn schur_of<T: Field>(ty: E) {
    let random = |n| random::<T>(n, n, n + 5);
    let companion =
        |n| Matrix::generate(n, n, |i, j| if i == j + 1 || (i, j) == (0, n - 1) { T::ONE } else { T::ZERO });
    let jordan = |n| Matrix::generate(n, n, |i, j| T::of(f64::from(u8::from(i == j || i + 1 == j)), 0.0));
    let sizes = [1, 2, 3, 4, 10, 33, 90];
    let mut cases: Vec<Matrix<T>> = sizes.map(random).into();
    cases.extend([companion(4), companion(7), jordan(6), jordan(6).adjoint(), Matrix::zeros(5, 5), hermitian(12, 1)]);
    cases.push(Matrix::generate(9, 9, |i, j| random(9).at(i, j).times(1e30)));
    cases.push(Matrix::generate(9, 9, |i, j| random(9).at(i, j).times(1e-30)));
    for a in &cases {
        let n = a.rows;
        let largest = a.data.iter().fold(0.0f64, |m, v| m.max(v.magnitude()));
        let factor = if (1e-20..1e20).contains(&largest) || largest == 0.0 { 1.0 } else { largest };
        let input = Value::of(ty, std::slice::from_ref(a));
        let mut results = vec![input.clone(), input.clone()];
        results.extend(vec![Value::zeros(ty, &[1, n]); if T::COMPLEX { 1 } else { 2 }]);
        results.extend([Value::zeros(E::S32, &[1]), Value::zeros(E::S32, &[1])]);
        let out = run(Routine::Gees, &[letter('V'), letter('N')], &[&input], &results);
        let last = out.len() - 1;
        assert_eq!((out[last - 1].integers(), out[last].integers()), (vec![0], vec![0]));
        let (t, z) = (&out[0].matrices::<T>()[0], &out[1].matrices::<T>()[0]);
        let scaled = |m: &Matrix<T>| Matrix::generate(n, n, |i, j| m.at(i, j).times(1.0 / factor));
        close(&times(&times(z, &scaled(t)), &z.adjoint()), &scaled(a), "gees");
        close(&times(&z.adjoint(), z), &Matrix::identity(n, n), "vectors of gees");
        // Zeros below the diagonal, but for standard blocks of two rows, which never overlap.
        let mut i = 0;
        let mut values: Vec<(f64, f64)> = Vec::new();
        while i < n {
            let pair = i + 1 < n && t.at(i + 1, i) != T::ZERO;
            let width = 1 + usize::from(pair);
            for j in i..i + width {
                assert!((i + width..n).all(|k| t.at(k, j) == T::ZERO), "{n}: not triangular at {j}");
            }
            if pair {
                assert!(!T::COMPLEX && t.at(i, i) == t.at(i + 1, i + 1), "{n}: no standard block at {i}");
                let product = (t.at(i, i + 1).re() / factor) * (t.at(i + 1, i).re() / factor);
                assert!(product < 0.0, "{n}: real eigenvalues in the block at {i}");
                let im = (-product).sqrt() * factor;
                values.extend([(t.at(i, i).re(), im), (t.at(i, i).re(), -im)]);
            } else {
                values.push((t.at(i, i).re(), t.at(i, i).im()));
            }
            i += width;
        }
        let found: Vec<(f64, f64)> = if T::COMPLEX {
            out[2].elements::<T>().iter().map(|v| (v.re(), v.im())).collect()
        } else {
            reals(&out[2]).into_iter().zip(reals(&out[3])).collect()
        };
        for ((a, b), (c, d)) in found.into_iter().zip(values) {
            assert!((a - c).abs() + (b - d).abs() <= 1e-6 * factor.max(1.0), "{n}: ({a}, {b}) for ({c}, {d})");
        }
        let alone = run(Routine::Gees, &[letter('N'), letter('N')], &[&input], &results);
        assert!(alone[1].matrices::<T>()[0].data.iter().all(|&v| v == T::ZERO), "vectors that nobody asked for");
        assert_eq!(alone[0].1, out[0].1, "the form is the same without vectors");
    }
    let nan = Value::of(ty, &[Matrix::generate(2, 2, |_, _| T::of(f64::NAN, 0.0))]);
    let mut results = vec![nan.clone(), nan.clone()];
    results.extend(vec![Value::zeros(ty, &[1, 2]); if T::COMPLEX { 1 } else { 2 }]);
    results.extend([Value::zeros(E::S32, &[1]), Value::zeros(E::S32, &[1])]);
    let out = run(Routine::Gees, &[letter('V'), letter('N')], &[&nan], &results);
    assert!(out.last().is_some_and(|v| v.integers() != [0]) && out[0].elements::<T>().iter().all(|v| v.re().is_nan()));
}

#[test]
fn schur_forms_give_the_matrix_back() {
    schur_of::<f32>(E::F32);
    schur_of::<f64>(E::F64);
    schur_of::<Complex<f32>>(E::C64);
    schur_of::<Complex<f64>>(E::C128);
}

/// Largest difference of the singular values and of the eigenvalues from those in double precision, over the norm.
fn spectrum_errors<T: Field, W: Field>(ty: E, real: E, wide: E) -> [f64; 2] {
    let n = 256;
    let h = hermitian::<T>(n, 3);
    let spectra = |ty, real, input: &Value| {
        let values = Value::zeros(real, &[1, n]);
        let info = Value::zeros(E::S32, &[1]);
        let results = [input.clone(), values.clone(), info.clone()];
        let eigen = reals(&run(Routine::Syevd, &[letter('V'), letter('L')], &[input], &results)[1]);
        let results = [input.clone(), values, Value::zeros(ty, &[1, n, n]), Value::zeros(ty, &[1, n, n]), info];
        [eigen, reals(&run(Routine::Gesdd, &[letter('S')], &[input], &results)[1])]
    };
    let exact = spectra(wide, E::F64, &Value::of(wide, &[h.converted::<W>()]));
    let found = spectra(ty, real, &Value::of(ty, &[h]));
    [0, 1].map(|k| {
        let norm = exact[k].iter().fold(0.0f64, |m, v| m.max(v.abs()));
        found[k].iter().zip(&exact[k]).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max) / norm
    })
}

#[test]
fn single_precision_spectra_are_as_exact_as_lapacks() {
    // LAPACK's ssyevd is at 3e-7 of the norm here; half a unit in the last place is 6e-8.
    for error in spectrum_errors::<f32, f64>(E::F32, E::F32, E::F64) {
        assert!(error < 1e-7, "f32: {error}");
    }
    for error in spectrum_errors::<Complex<f32>, Complex<f64>>(E::C64, E::F32, E::C128) {
        assert!(error < 1e-7, "c64: {error}");
    }
}

#[test]
fn extreme_matrices_have_the_values_of_ordinary_ones() {
    fn values<T: spectral::General>(ty: E, real: E, factor: f64) -> (Vec<f64>, Vec<f64>) {
        let n = 9;
        let a = random::<T>(n, n, 4);
        let input = Value::of(ty, &[Matrix::generate(n, n, |i, j| a.at(i, j).times(factor))]);
        let (s, info) = (Value::zeros(real, &[1, n]), Value::zeros(E::S32, &[1]));
        let results = [input.clone(), s, input.clone(), input.clone(), info.clone()];
        let singular = reals(&run(Routine::Gesdd, &[letter('A')], &[&input], &results)[1]);
        let complex = if real == E::F32 { E::C64 } else { E::C128 };
        let mut results = vec![Value::zeros(ty, &[1, n]); if T::COMPLEX { 1 } else { 2 }];
        results.extend([Value::zeros(complex, &[1, n, n]), Value::zeros(complex, &[1, n, n]), info]);
        let out = run(Routine::Geev, &[letter('N'), letter('V')], &[&input], &results);
        let eigen = out[0].elements::<T>().iter().map(|v| v.re() / factor).collect();
        (singular.iter().map(|v| v / factor).collect(), eigen)
    }
    fn check<T: spectral::General>(ty: E, real: E, factors: [f64; 2], tolerance: f64) {
        let (singular, eigen) = values::<T>(ty, real, 1.0);
        for factor in factors {
            let found = values::<T>(ty, real, factor);
            for (found, expected) in [(found.0, &singular), (found.1, &eigen)] {
                let close = |(f, e): (&f64, &f64)| (f - e).abs() < tolerance;
                assert!(found.iter().zip(expected).all(close), "{factor}: {found:?} {expected:?}");
            }
        }
    }
    check::<f32>(E::F32, E::F32, [1e32, 1e-32], 1e-4);
    check::<f64>(E::F64, E::F64, [1e290, 1e-290], 1e-11);
    check::<Complex<f32>>(E::C64, E::F32, [1e32, 1e-32], 1e-4);
    check::<Complex<f64>>(E::C128, E::F64, [1e290, 1e-290], 1e-11);
}

#[test]
fn empty_batches_and_matrices_have_nothing_to_do() {
    let none = Value::zeros(E::F64, &[0, 3, 3]);
    run(Routine::Getrf, &[], &[&none], &[none.clone(), Value::zeros(E::S32, &[0, 3]), Value::zeros(E::S32, &[0])]);
    let empty = Value::zeros(E::F64, &[2, 0, 0]);
    let zero = Value::zeros(E::S32, &[2]);
    run(Routine::Potrf, &[letter('L')], &[&empty], &[empty.clone(), zero.clone()]);
    run(
        Routine::Syevd,
        &[letter('V'), letter('L')],
        &[&empty],
        &[empty.clone(), Value::zeros(E::F64, &[2, 0]), zero.clone()],
    );
    let complex = Value::zeros(E::C128, &[2, 0, 0]);
    let values = Value::zeros(E::F64, &[2, 0]);
    let results = [values.clone(), values, complex.clone(), complex, zero.clone()];
    run(Routine::Geev, &[letter('V'), letter('V')], &[&empty], &results);
    let wide = Value::zeros(E::F64, &[2, 0, 4]);
    run(Routine::Geqrf, &[], &[&wide], &[wide.clone(), Value::zeros(E::F64, &[2, 0])]);
    let full = Value::zeros(E::F64, &[2, 4, 4]);
    let results = [wide.clone(), Value::zeros(E::F64, &[2, 0]), empty, full, zero];
    run(Routine::Gesdd, &[letter('A')], &[&wide], &results);
}

#[test]
fn bytes_column_by_column_are_the_transposed_matrix() {
    let a = definite::<f64>(4, 2);
    let input = Value::of(E::F64, &[Matrix::generate(4, 4, |i, j| if i >= j { a.at(i, j) } else { 9.0 })]);
    let attributes = [Routine::Cholesky as i64, 1, letter('U')];
    let mut out = Value::zeros(E::F64, &[1, 4, 4]);
    let mut outputs = [Output { shape: &out.0, bytes: &mut out.1 }];
    compute(&attributes, &[Operand { shape: &input.0, bytes: &input.1 }], &mut outputs).unwrap();
    let l = out.matrices::<f64>().remove(0);
    close(&times(&l, &l.adjoint()), &a, "an upper factor by columns is a lower one by rows");
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let (a, info) = (Value::zeros(E::F64, &[3, 4]), Value::zeros(E::S32, &[]));
    let no = |routine, operands: &[&Value], results: &[&Value]| {
        let operands: Vec<&ArrayShape> = operands.iter().map(|v| &v.0).collect();
        let results: Vec<&ArrayShape> = results.iter().map(|v| &v.0).collect();
        check(routine, &[], &operands, &results).unwrap_err()
    };
    assert!(no(Routine::Potrf, &[&a], &[&a, &info]).contains("square"));
    assert!(no(Routine::Getrf, &[&a], &[&a, &info, &info]).contains("expected"));
    assert!(no(Routine::Orgqr, &[&a, &Value::zeros(E::F64, &[3])], &[&a]).contains("columns than rows"));
    assert!(no(Routine::Geev, &[&info], &[]).contains("no batch"));
    assert_eq!(Routine::of_target("lapack_zungqr_ffi"), Some((Routine::Orgqr, E::C128)));
    assert_eq!(Routine::of_target("lapack_cgees_ffi"), Some((Routine::Gees, E::C64)));
    assert_eq!(Routine::of_target("lapack_sgelsd_ffi"), None);
}
