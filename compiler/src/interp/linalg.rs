//! `cholesky` and `triangular-solve`, and calls of LAPACK routines.
//!
//! Invariant: only the triangle that `lower` names is read, whatever stands in the other one; the other triangle of a
//! Cholesky factor is zero. Arithmetic is `f64` or `Complex<f64>`, rounded once. A matrix that is not positive
//! definite yields a factor of NaN. Calls of LAPACK routines are answered by the library service that compiled code calls,
//! where the crate has the feature `linalg`.

use super::dense::Field;
use super::value::Value;
use super::{Context, array, invalid, new_array, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal};

/// Evaluates `cholesky` or `triangular-solve`.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let a = array(inst, operands, 0)?;
    let shape = result_shape(inst)?;
    if shape.elements() == 0 {
        return Ok(new_array(inst, shape)?.into());
    }
    let out = match (inst.opcode, shape.ty.is_complex()) {
        (Opcode::Cholesky, false) => cholesky::<f64>(inst, shape, a)?,
        (Opcode::Cholesky, true) => cholesky::<Complex<f64>>(inst, shape, a)?,
        (_, false) => triangular_solve::<f64>(inst, shape, a, array(inst, operands, 1)?)?,
        (_, true) => triangular_solve::<Complex<f64>>(inst, shape, a, array(inst, operands, 1)?)?,
    };
    Ok(out.into())
}

/// Refuses a custom call of a LAPACK routine.
#[cfg(not(feature = "linalg"))]
pub(super) fn lapack(inst: &Instruction, _attributes: &[i64], _operands: &[Value]) -> Result<Value> {
    let target = inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
    Err(super::unsupported(inst, format!("interpreting '{target}' without brolga-compiler's feature `linalg`")))
}

/// Answers a custom call of a LAPACK routine.
#[cfg(feature = "linalg")]
pub(super) fn lapack(inst: &Instruction, attributes: &[i64], operands: &[Value]) -> Result<Value> {
    use brolga_runtime::Shape;
    use brolga_runtime::services::linalg::{Operand, Output, compute};
    let shared: Vec<_> = operands.iter().map(Value::to_shared).collect();
    let mut inputs = Vec::with_capacity(shared.len());
    for literal in &shared {
        let array = literal.as_array().ok_or_else(|| invalid(inst, "expected an array"))?;
        inputs.push(Operand { shape: array.shape(), bytes: array.bytes() });
    }
    let mut arrays = Vec::new();
    for leaf in inst.shape.leaves() {
        let shape = leaf.as_array().ok_or_else(|| invalid(inst, format!("a result of shape {leaf}")))?;
        arrays.push(new_array(inst, shape)?);
    }
    let shapes: Vec<ArrayShape> = arrays.iter().map(|a| a.shape().clone()).collect();
    let mut outputs: Vec<Output<'_>> =
        arrays.iter_mut().zip(&shapes).map(|(a, shape)| Output { shape, bytes: a.bytes_mut() }).collect();
    compute(attributes, &inputs, &mut outputs).map_err(|failure| invalid(inst, failure.message))?;
    let mut values = arrays.into_iter().map(|a| Value::from(Literal::Array(a)));
    Ok(match &inst.shape {
        Shape::Tuple(_) => Value::Tuple(values.collect()),
        _ => values.next().ok_or_else(|| invalid(inst, "a result is missing"))?,
    })
}

/// Size of the square matrices that `a` is a batch of.
fn matrix_size(inst: &Instruction, a: &ArrayLiteral) -> Result<usize> {
    match a.dims() {
        [.., rows, columns] if rows == columns => Ok(*rows as usize),
        _ => Err(invalid(inst, format!("{} is not a batch of square matrices", a.shape()))),
    }
}

fn cholesky<T: Field>(inst: &Instruction, shape: &ArrayShape, a: &ArrayLiteral) -> Result<ArrayLiteral> {
    let n = matrix_size(inst, a)?;
    let lower = inst.attrs.bool(AttrKey::Lower).unwrap_or(false);
    let mut out = T::read(a);
    for matrix in out.chunks_exact_mut(n * n) {
        // The upper factor of A is the adjoint of the lower factor, computed from the adjoint of the upper triangle.
        let read = |i: usize, j: usize| if lower { matrix[i * n + j] } else { matrix[j * n + i].conjugate() };
        let mut l = vec![T::ZERO; n * n];
        let mut definite = true;
        for j in 0..n {
            let below =
                |l: &[T], i: usize| (0..j).fold(read(i, j), |sum, k| sum - l[i * n + k] * l[j * n + k].conjugate());
            let pivot = below(&l, j).real();
            definite &= pivot > 0.0;
            let diagonal = pivot.sqrt();
            l[j * n + j] = T::from_real(diagonal);
            for i in j + 1..n {
                l[i * n + j] = below(&l, i) / T::from_real(diagonal);
            }
        }
        for i in 0..n {
            for j in 0..=i {
                let value = if definite { l[i * n + j] } else { T::from_real(f64::NAN) };
                let (kept, mirror) = (i * n + j, j * n + i);
                if i != j {
                    matrix[if lower { mirror } else { kept }] = T::ZERO;
                }
                matrix[if lower { kept } else { mirror }] = if lower { value } else { value.conjugate() };
            }
        }
    }
    T::write(inst, shape, &out)
}

fn triangular_solve<T: Field>(
    inst: &Instruction,
    shape: &ArrayShape,
    a: &ArrayLiteral,
    b: &ArrayLiteral,
) -> Result<ArrayLiteral> {
    let n = matrix_size(inst, a)?;
    let flag = |key| inst.attrs.bool(key).unwrap_or(false);
    let (left, lower, unit) = (flag(AttrKey::LeftSide), flag(AttrKey::Lower), flag(AttrKey::UnitDiagonal));
    let transpose = inst.attrs.word(AttrKey::TransposeA).unwrap_or("NO_TRANSPOSE");
    let (transposed, adjoint) = (transpose != "NO_TRANSPOSE", transpose == "ADJOINT");
    let &[.., rows, columns] = b.dims() else {
        return Err(invalid(inst, "the right-hand side must be a batch of matrices"));
    };
    let (rows, columns) = (rows as usize, columns as usize);
    let rank = b.dims().len();
    let fits = a.dims().len() == rank && a.dims()[..rank - 2] == b.dims()[..rank - 2];
    let solved = if left { rows } else { columns };
    if !fits || n != solved {
        return Err(invalid(inst, format!("{} and {} do not fit", a.shape(), b.shape())));
    }
    // x * op(a) = b is op(a)^T * x^T = b^T: the right side swaps the indices of the matrix once more.
    let swapped = transposed == left;
    let forward = lower != swapped;
    let (step, vectors, vector_step) = if left { (columns, columns, 1) } else { (1, rows, columns) };
    let matrices = T::read(a);
    let mut out = T::read(b);
    let batches = matrices.chunks_exact(n * n).zip(out.chunks_exact_mut(rows * columns));
    for (matrix, x) in batches {
        let element = |i: usize, j: usize| {
            let value = if swapped { matrix[j * n + i] } else { matrix[i * n + j] };
            if adjoint { value.conjugate() } else { value }
        };
        for v in 0..vectors {
            let at = |i: usize| v * vector_step + i * step;
            for turn in 0..n {
                let i = if forward { turn } else { n - 1 - turn };
                let known = if forward { 0..i } else { i + 1..n };
                let rest = known.fold(x[at(i)], |sum, j| sum - element(i, j) * x[at(j)]);
                x[at(i)] = if unit { rest } else { rest / element(i, i) };
            }
        }
    }
    T::write(inst, shape, &out)
}

#[cfg(test)]
mod tests {
    use crate::interp::dense::testing::{check, run};

    #[test]
    fn cholesky_reads_and_writes_one_triangle() {
        let lower = "a = f32[2,2] constant({{4,99},{2,10}})\n ROOT l = f32[2,2] cholesky(a), lower=true";
        check("", lower, "{{2,0},{1,3}}");
        let upper = "a = f32[2,2] constant({{4,2},{99,10}})\n ROOT u = f32[2,2] cholesky(a), lower=false";
        check("", upper, "{{2,1},{0,3}}");
        let complex = "a = c64[1,2,2] constant({{{(4,0),(9,9)},{(0,2),(10,0)}}})
            ROOT l = c64[1,2,2] cholesky(a), lower=true";
        check("", complex, "{{{(2,0),(0,0)},{(0,1),(3,0)}}}");
    }

    #[test]
    fn cholesky_of_an_indefinite_matrix_is_nan() -> crate::Result<()> {
        let out = run("", "a = f64[2,2] constant({{1,2},{2,1}})\n ROOT l = f64[2,2] cholesky(a), lower=true")?;
        let values: Vec<f64> = out.arrays().iter().flat_map(|a| a.as_slice::<f64>().to_vec()).collect();
        assert!(values[0].is_nan() && values[1] == 0.0 && values[2].is_nan() && values[3].is_nan());
        Ok(())
    }

    #[test]
    fn triangular_solve_in_every_orientation() {
        // The unread triangle holds 99. Each right side is op(a) applied to (1, 2).
        let lower = "a = f32[2,2] constant({{2,99},{3,4}})";
        let upper = "a = f32[2,2] constant({{2,3},{99,4}})";
        for (matrix, flag, transpose, column, row) in [
            (lower, true, "NO_TRANSPOSE", "{{2},{11}}", "{{8,8}}"),
            (lower, true, "TRANSPOSE", "{{8},{8}}", "{{2,11}}"),
            (upper, false, "NO_TRANSPOSE", "{{8},{8}}", "{{2,11}}"),
            (upper, false, "ADJOINT", "{{2},{11}}", "{{8,8}}"),
        ] {
            let attrs = format!("lower={flag}, transpose_a={transpose}");
            let left = format!(
                "{matrix}\n b = f32[2,1] constant({column})
                 ROOT x = f32[2,1] triangular-solve(a, b), left_side=true, {attrs}"
            );
            check("", &left, "{{1},{2}}");
            let right = format!(
                "{matrix}\n b = f32[1,2] constant({row})
                 ROOT x = f32[1,2] triangular-solve(a, b), left_side=false, {attrs}"
            );
            check("", &right, "{{1,2}}");
        }
        check(
            "",
            "a = c64[1,2,2] constant({{{(7,7),(9,9)},{(0,1),(7,7)}}})\n b = c64[1,2,1] constant({{{(1,0)},{(2,1)}}})
             ROOT x = c64[1,2,1] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true,
               transpose_a=NO_TRANSPOSE",
            "{{{(1,0)},{(2,0)}}}",
        );
    }
}
