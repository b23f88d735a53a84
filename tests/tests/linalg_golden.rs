//! Linear algebra as JAX exports it, against what JAX computes: in the interpreter and in compiled code.
//!
//! The cases are written by `tools/golden/linalg.py`. Where a decomposition is unique its values are compared; where it is
//! not, its parts must give the matrix back and be orthogonal, and what is unique of it (singular values, eigenvalues,
//! magnitudes of R) is compared.
#![allow(clippy::unwrap_used)]

use brolga_compiler::text::parse;
use brolga_compiler::{CompileOptions, Error, compile, interp};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program};
use num_complex::Complex;
use serde_json::Value;
use std::path::PathBuf;

type C = Complex<f64>;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/linalg")
}

fn array(value: &Value) -> ArrayLiteral {
    let ty: ElementType = value["type"].as_str().unwrap().parse().unwrap();
    let dims: Vec<i64> = value["dims"].as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect();
    let numbers = value["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN));
    let mut bytes = Vec::new();
    for v in numbers {
        match ty {
            ElementType::S32 => bytes.extend((v as i32).to_ne_bytes()),
            ElementType::F32 | ElementType::C64 => bytes.extend((v as f32).to_ne_bytes()),
            _ => bytes.extend(v.to_ne_bytes()),
        }
    }
    ArrayLiteral::from_bytes(&ArrayShape::new(ty, dims), &bytes).unwrap()
}

/// A batch of matrices as complex numbers of double precision, row by row.
struct Batch {
    rows: usize,
    columns: usize,
    elements: Vec<C>,
}

impl Batch {
    fn of(a: &ArrayLiteral) -> Batch {
        let dims: Vec<usize> = a.dims().iter().map(|&d| d as usize).collect();
        let (rows, columns) = match dims[..] {
            [.., rows, columns] => (rows, columns),
            _ => (1, dims.iter().product()),
        };
        Batch { rows, columns, elements: (0..a.elements()).map(|i| a.get(i).as_complex()).collect() }
    }

    /// A batch of vectors as diagonals of `rows` by `columns`.
    fn diagonals(a: &ArrayLiteral, rows: usize, columns: usize) -> Batch {
        let n = *a.dims().last().unwrap() as usize;
        let mut elements = vec![C::ZERO; a.elements() / n * rows * columns];
        for i in 0..a.elements() {
            elements[i / n * rows * columns + i % n * (columns + 1)] = a.get(i).as_complex();
        }
        Batch { rows, columns, elements }
    }

    fn matrices(&self) -> impl Iterator<Item = &[C]> {
        self.elements.chunks_exact(self.rows * self.columns)
    }

    fn times(&self, b: &Batch) -> Batch {
        assert_eq!(self.columns, b.rows);
        let mut elements = Vec::new();
        for (x, y) in self.matrices().zip(b.matrices()) {
            for (i, j) in (0..self.rows).flat_map(|i| (0..b.columns).map(move |j| (i, j))) {
                elements.push((0..b.rows).map(|k| x[i * self.columns + k] * y[k * b.columns + j]).sum());
            }
        }
        Batch { rows: self.rows, columns: b.columns, elements }
    }

    fn adjoint(&self) -> Batch {
        let mut elements = Vec::new();
        for x in self.matrices() {
            for (i, j) in (0..self.columns).flat_map(|i| (0..self.rows).map(move |j| (i, j))) {
                elements.push(x[j * self.columns + i].conj());
            }
        }
        Batch { rows: self.columns, columns: self.rows, elements }
    }

    fn identity(&self) -> Batch {
        let n = self.columns;
        let count = self.elements.len() / (self.rows * n);
        let one = |k: usize| if k / n == k % n { C::ONE } else { C::ZERO };
        Batch { rows: n, columns: n, elements: (0..count).flat_map(|_| (0..n * n).map(one)).collect() }
    }
}

fn close(got: &[C], want: &[C], tolerance: f64, what: &str) -> Result<(), String> {
    let finite = |v: &C| v.re.is_finite() && v.im.is_finite();
    let scale = want.iter().filter(|v| finite(v)).fold(1.0f64, |m, v| m.max(v.norm()));
    for (g, w) in got.iter().zip(want) {
        let same = if finite(w) { (g - w).norm() <= tolerance * scale } else { !finite(g) };
        if !same {
            return Err(format!("{what}: {g} where {w} was expected"));
        }
    }
    if got.len() == want.len() { Ok(()) } else { Err(format!("{what}: another size")) }
}

fn same(got: &ArrayLiteral, want: &ArrayLiteral, tolerance: f64, what: &str) -> Result<(), String> {
    if got.shape() != want.shape() {
        return Err(format!("{what}: {} where {} was expected", got.shape(), want.shape()));
    }
    close(&Batch::of(got).elements, &Batch::of(want).elements, tolerance, what)
}

fn orthogonal(q: &Batch, tolerance: f64, what: &str) -> Result<(), String> {
    close(&q.adjoint().times(q).elements, &q.identity().elements, tolerance, what)
}

fn magnitudes(a: &ArrayLiteral) -> Vec<C> {
    Batch::of(a).elements.iter().map(|v| C::new(v.norm(), 0.0)).collect()
}

/// Eigenvalues in an order that does not depend on the last bits.
fn ordered(values: &ArrayLiteral) -> Vec<C> {
    let n = *values.dims().last().unwrap() as usize;
    let mut out = Batch::of(values).elements;
    let key = |v: &C| ((v.re * 1e3).round(), (v.im * 1e3).round());
    out.chunks_exact_mut(n).for_each(|part| part.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap()));
    out
}

/// The eigenvalues of triangular matrices with blocks of two rows for conjugate pairs, in an order of their own.
fn spectrum(t: &Batch) -> Vec<C> {
    let n = t.columns;
    let mut out = Vec::new();
    for m in t.matrices() {
        let mut i = 0;
        while i < n {
            let below = if i + 1 < n { m[(i + 1) * n + i] } else { C::ZERO };
            let im = (-(below * m[i * n + (i + 1) % n]).re).max(0.0).sqrt();
            out.push(m[i * n + i] + C::new(0.0, im));
            if below != C::ZERO {
                out.push(m[i * n + i] - C::new(0.0, im));
                i += 1;
            }
            i += 1;
        }
    }
    let key = |v: &C| ((v.re * 1e3).round(), (v.im * 1e3).round());
    out.chunks_exact_mut(n).for_each(|part| part.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap()));
    out
}

/// Compares what an engine yields with what is expected.
fn check(kind: &str, inputs: &[ArrayLiteral], got: &[ArrayLiteral], want: &[ArrayLiteral]) -> Result<(), String> {
    let wide = [ElementType::F64, ElementType::C128].contains(&inputs[0].ty());
    let tolerance = if wide { 1e-11 } else { 2e-4 };
    if got.len() != want.len() {
        return Err(format!("{} results where {} were expected", got.len(), want.len()));
    }
    let a = Batch::of(&inputs[0]);
    let gives_back = |product: Batch| close(&product.elements, &a.elements, tolerance, "the product");
    match kind {
        "qr" => {
            let (q, r) = (Batch::of(&got[0]), Batch::of(&got[1]));
            close(&magnitudes(&got[1]), &magnitudes(&want[1]), tolerance, "R")?;
            orthogonal(&q, tolerance, "Q")?;
            gives_back(q.times(&r))
        }
        "svd" | "svd_full" => {
            same(&got[1], &want[1], tolerance, "singular values")?;
            let (u, vt) = (Batch::of(&got[0]), Batch::of(&got[2]));
            orthogonal(&u, tolerance, "U")?;
            orthogonal(&vt.adjoint(), tolerance, "V")?;
            gives_back(u.times(&Batch::diagonals(&got[1], u.columns, vt.rows)).times(&vt))
        }
        "eigh" => {
            same(&got[0], &want[0], tolerance, "eigenvalues")?;
            let v = Batch::of(&got[1]);
            orthogonal(&v, tolerance, "vectors")?;
            gives_back(v.times(&Batch::diagonals(&got[0], v.columns, v.columns)).times(&v.adjoint()))
        }
        "eig" => {
            close(&ordered(&got[0]), &ordered(&want[0]), tolerance, "eigenvalues")?;
            let v = Batch::of(&got[1]);
            let scaled = v.times(&Batch::diagonals(&got[0], v.columns, v.columns));
            close(&a.times(&v).elements, &scaled.elements, tolerance, "vectors")
        }
        "schur" => {
            let (t, z) = (Batch::of(&got[0]), Batch::of(&got[1]));
            orthogonal(&z, tolerance, "vectors")?;
            gives_back(z.times(&t).times(&z.adjoint()))?;
            let n = t.columns;
            for t in t.matrices() {
                let below = |i: usize| i + 1 < n && t[(i + 1) * n + i] != C::ZERO;
                for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    if t[i * n + j] != C::ZERO && (i > j + 1 || below(i)) {
                        return Err(format!("T is not triangular at {i}, {j}"));
                    }
                }
            }
            close(&spectrum(&t), &spectrum(&Batch::of(&want[0])), tolerance, "eigenvalues")
        }
        _ => got.iter().zip(want).try_for_each(|(got, want)| same(got, want, tolerance, "a result")),
    }
}

#[test]
fn jax_linear_algebra_in_every_engine() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "hlo"));
    files.sort();
    assert!(files.len() > 40, "the cases are there");
    let mut failures = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Value = serde_json::from_str(&std::fs::read_to_string(path.with_extension("json")).unwrap()).unwrap();
        let arrays = |key: &str| case[key].as_array().unwrap().iter().map(array).collect::<Vec<_>>();
        let (inputs, outputs, kind) = (arrays("inputs"), arrays("outputs"), case["kind"].as_str().unwrap());
        let module = parse(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));

        let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
        let interpreted = interp::run(&module, &literals, &interp::Options::default())
            .map_err(|e| e.to_string())
            .and_then(|out| check(kind, &inputs, &out.arrays().into_iter().cloned().collect::<Vec<_>>(), &outputs));
        let compiled = compile(&module, &CompileOptions::default())
            .map_err(|e: Error| e.to_string())
            .and_then(|artifact| Program::from_object(&artifact.object).map_err(|e| e.to_string()))
            .and_then(|program| program.run(&inputs.iter().collect::<Vec<_>>()).map_err(|e| e.to_string()))
            .and_then(|out| check(kind, &inputs, &out, &outputs));
        for (engine, result) in [("interpreter", interpreted), ("compiled code", compiled)] {
            if let Err(message) = result {
                failures.push(format!("{name}, {engine}: {message}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
