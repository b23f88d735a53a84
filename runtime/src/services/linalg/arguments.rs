//! What a call hands to a routine.
//!
//! Invariant: the shapes were compared with the routine's ([`check`](crate::services::routine::check)), so a matrix or a
//! vector of a batch is a range of bytes that is there. Reading and writing still go through checked slices, so that no
//! call can reach further.

use super::matrix::{Field, Matrix};
use crate::services::Failure;
use crate::services::routine::Routine;
use crate::{ArrayShape, ElementType, narrow};
use half::{bf16, f16};
use std::ops::Range;

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
