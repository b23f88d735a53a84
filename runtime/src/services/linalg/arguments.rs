//! What a call hands to a routine.
//!
//! Invariant: the shapes were compared with the routine's ([`check`](crate::services::routine::check)), so a matrix or a
//! vector of a batch is a range of bytes that is there. Reading and writing still go through checked slices, so that no
//! call can reach further.

use super::matrix::{Field, Matrix};
use crate::services::Failure;
use crate::services::routine::Routine;
use crate::{ArrayShape, ElementType, narrow};
use faer::MatMut;
use half::{bf16, f16};
use std::borrow::Cow;
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

/// A matrix on the numbers of an array.
pub(super) fn view_mut<T>(by_columns: bool, numbers: &mut [T], rows: usize, columns: usize) -> MatMut<'_, T> {
    match by_columns {
        true => MatMut::from_column_major_slice_mut(numbers, rows, columns),
        false => MatMut::from_row_major_slice_mut(numbers, rows, columns),
    }
}

impl<'a> Arguments<'a> {
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

    fn operand(&self, index: usize, batch: usize, elements: usize) -> Result<(ElementType, &'a [u8]), Failure> {
        let operand = self.operands.get(index).ok_or_else(missing)?;
        let range = part(batch, elements, operand.shape.ty).ok_or_else(missing)?;
        Ok((operand.shape.ty, operand.bytes.get(range).ok_or_else(missing)?))
    }

    fn result(&mut self, index: usize, batch: usize, elements: usize) -> Result<(ElementType, &mut [u8]), Failure> {
        let result = self.results.get_mut(index).ok_or_else(missing)?;
        let range = part(batch, elements, result.shape.ty).ok_or_else(missing)?;
        Ok((result.shape.ty, result.bytes.get_mut(range).ok_or_else(missing)?))
    }

    /// Rows and columns of an operand.
    pub fn operand_matrix(&self, index: usize) -> Result<(usize, usize), Failure> {
        sides(self.operands.get(index).ok_or_else(missing)?.shape)
    }

    /// The numbers of a matrix of a batch in the order of the bytes; the bytes themselves where they are of this type.
    pub fn numbers<T: Field>(&self, index: usize, batch: usize) -> Result<Cow<'a, [T]>, Failure> {
        let (rows, columns) = self.operand_matrix(index)?;
        let (ty, bytes) = self.operand(index, batch, rows.saturating_mul(columns))?;
        Ok(match bytemuck::try_cast_slice(bytes) {
            Ok(numbers) if ty.byte_size() == size_of::<T>() => Cow::Borrowed(numbers),
            _ => Cow::Owned(bytes.chunks_exact(ty.byte_size()).map(|b| load(ty, b)).collect()),
        })
    }

    /// A matrix of a batch.
    pub fn matrix<T: Field>(&self, index: usize, batch: usize) -> Result<Matrix<T>, Failure> {
        let (rows, columns) = self.operand_matrix(index)?;
        let numbers = self.numbers::<T>(index, batch)?;
        Ok(match self.by_columns {
            true => Matrix { rows, columns, data: numbers.into_owned() },
            false => Matrix::generate(rows, columns, |i, j| numbers[i * columns + j]),
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

    /// Lets `write` set the numbers of a matrix of a batch, in the order of the bytes: in their place where they are of
    /// this type. What they are before is not said.
    pub fn write<T: Field, R>(
        &mut self,
        index: usize,
        batch: usize,
        write: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R, Failure> {
        let (rows, columns) = self.result_matrix(index)?;
        let elements = rows.saturating_mul(columns);
        let (ty, bytes) = self.result(index, batch, elements)?;
        if ty.byte_size() == size_of::<T>()
            && let Ok(numbers) = bytemuck::try_cast_slice_mut(bytes)
        {
            return Ok(write(numbers));
        }
        let mut numbers = vec![T::ZERO; elements];
        let out = write(&mut numbers);
        bytes.chunks_exact_mut(ty.byte_size()).zip(&numbers).for_each(|(bytes, &value)| store(ty, value, bytes));
        Ok(out)
    }

    /// Writes a matrix of a batch.
    pub fn put_matrix<T: Field>(&mut self, index: usize, batch: usize, m: &Matrix<T>) -> Result<(), Failure> {
        let by_columns = self.by_columns;
        self.write(index, batch, |to: &mut [T]| match by_columns {
            true => to.iter_mut().zip(&m.data).for_each(|(to, &from)| *to = from),
            false => {
                for (i, row) in to.chunks_exact_mut(m.columns.max(1)).enumerate() {
                    row.iter_mut().enumerate().for_each(|(j, to)| *to = m.at(i, j));
                }
            }
        })
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
