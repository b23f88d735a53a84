//! Whole arrays as vectors of the widest number of their kind.
//!
//! Problem: contractions and factorizations read each element many times, and reading through [`Scalar`] each time is
//! slow. Invariant: `i64` stands for every integer and `pred` (two's complement, so that wrapping arithmetic modulo
//! 2^64 truncates to the right result in any narrower type), `f64` for every real float (all of them convert exactly),
//! `Complex<f64>` for complex types. Results are rounded once, when written.

use super::{MAX_VALUE_BYTES, invalid, new_array, unsupported};
use crate::Result;
use crate::hlo::Instruction;
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Kind, Scalar};

/// The kind of arithmetic that an operation on several arrays is done in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Domain {
    /// Integers modulo 2^64.
    Integer,
    /// `f64`.
    Real,
    /// Pairs of `f64`.
    Complex,
}

impl Domain {
    /// The smallest domain that holds values of all the types.
    pub(super) fn of(types: &[ElementType]) -> Domain {
        types.iter().map(|ty| Domain::of_one(*ty)).max().unwrap_or(Domain::Real)
    }

    fn of_one(ty: ElementType) -> Domain {
        match ty.kind() {
            Kind::Pred | Kind::Signed | Kind::Unsigned => Domain::Integer,
            Kind::Float => Domain::Real,
            Kind::Complex => Domain::Complex,
        }
    }
}

/// A number of a [`Domain`].
pub(super) trait Number: Copy + 'static {
    /// The neutral element of addition.
    const ZERO: Self;

    /// `self + a * b`, wrapping for integers.
    fn plus_product(self, a: Self, b: Self) -> Self;

    /// The number that a scalar stands for.
    fn from_scalar(value: Scalar) -> Self;

    /// The number as a scalar, which the writer rounds or wraps to the element type.
    fn to_scalar(self) -> Scalar;

    /// All elements of an array, in row-major order.
    fn read(array: &ArrayLiteral) -> Vec<Self> {
        (0..array.elements()).map(|i| Self::from_scalar(array.get(i))).collect()
    }

    /// An array of the given shape from its elements in row-major order.
    fn write(inst: &Instruction, shape: &ArrayShape, elements: &[Self]) -> Result<ArrayLiteral> {
        let mut out = new_array(inst, shape)?;
        if out.elements() != elements.len() {
            return Err(invalid(inst, format!("{} elements do not make {shape}", elements.len())));
        }
        elements.iter().enumerate().for_each(|(i, &v)| out.set(i, v.to_scalar()));
        Ok(out)
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;

    fn plus_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }

    fn from_scalar(value: Scalar) -> i64 {
        value.integer_bits() as i64
    }

    fn to_scalar(self) -> Scalar {
        Scalar::Int(self)
    }
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    fn plus_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }

    fn from_scalar(value: Scalar) -> f64 {
        value.as_f64()
    }

    fn to_scalar(self) -> Scalar {
        Scalar::Float(self)
    }

    fn read(array: &ArrayLiteral) -> Vec<f64> {
        match array.ty() {
            ElementType::F32 => array.as_slice::<f32>().iter().map(|&v| f64::from(v)).collect(),
            ElementType::F64 => array.as_slice::<f64>().to_vec(),
            _ => (0..array.elements()).map(|i| array.get(i).as_f64()).collect(),
        }
    }
}

impl Number for Complex<f64> {
    const ZERO: Complex<f64> = Complex::new(0.0, 0.0);

    fn plus_product(self, a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        self + a * b
    }

    fn from_scalar(value: Scalar) -> Complex<f64> {
        value.as_complex()
    }

    fn to_scalar(self) -> Scalar {
        Scalar::Complex(self)
    }
}

/// A number that factorizations can divide by.
pub(super) trait Field:
    Number + std::ops::Sub<Output = Self> + std::ops::Mul<Output = Self> + std::ops::Div<Output = Self>
{
    /// The complex conjugate.
    fn conjugate(self) -> Self;
    /// The real part.
    fn real(self) -> f64;
    /// A real number.
    fn from_real(value: f64) -> Self;
}

impl Field for f64 {
    fn conjugate(self) -> f64 {
        self
    }
    fn real(self) -> f64 {
        self
    }
    fn from_real(value: f64) -> f64 {
        value
    }
}

impl Field for Complex<f64> {
    fn conjugate(self) -> Complex<f64> {
        self.conj()
    }
    fn real(self) -> f64 {
        self.re
    }
    fn from_real(value: f64) -> Complex<f64> {
        Complex::new(value, 0.0)
    }
}

/// The elements of an index array. What does not fit `i64` is out of bounds for every array, so it may saturate.
pub(super) fn read_indices(array: &ArrayLiteral) -> Vec<i64> {
    (0..array.elements()).map(|i| array.get(i).as_i64()).collect()
}

/// Where the elements of a box lie: `sum(index[d] * strides[d])` for every index of a box of the given sizes, in
/// row-major order of the index. The caller has made sure that so many offsets can be held. Sizes and strides stand in the same order and are never negative.
pub(super) fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    if sizes.contains(&0) {
        return Vec::new();
    }
    let mut out = vec![0usize];
    for (&size, &stride) in sizes.iter().zip(strides) {
        let (size, stride) = (size.max(0) as usize, stride.max(0) as usize);
        out = out.iter().flat_map(|&base| (0..size).map(move |i| base + i * stride)).collect();
    }
    out
}

/// The entries of `list` at the positions `which`.
pub(super) fn pick(list: &[i64], which: &[usize]) -> Vec<i64> {
    which.iter().filter_map(|&d| list.get(d).copied()).collect()
}

/// Zeros, one for each element of `shape`, refused where that is too large to hold.
pub(super) fn accumulators<T: Number>(inst: &Instruction, shape: &ArrayShape) -> Result<Vec<T>> {
    match shape.checked_elements().filter(|n| n.checked_mul(size_of::<T>()).is_some_and(|b| b <= MAX_VALUE_BYTES)) {
        Some(count) => Ok(vec![T::ZERO; count]),
        None => Err(unsupported(inst, format!("a value of {MAX_VALUE_BYTES} bytes or more ({shape})"))),
    }
}

/// The shapes of the result, which must be a tuple of `count` arrays.
pub(super) fn result_shapes(inst: &Instruction, count: usize) -> Result<Vec<&ArrayShape>> {
    inst.shape
        .as_tuple()
        .and_then(|shapes| shapes.iter().map(|s| s.as_array()).collect::<Option<Vec<_>>>())
        .filter(|shapes| shapes.len() == count)
        .ok_or_else(|| invalid(inst, format!("{} yields a tuple of {count} arrays", inst.opcode)))
}

/// Dimension numbers as indices below `rank`, each at most once.
pub(super) fn dimensions(inst: &Instruction, dims: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut out = Vec::with_capacity(dims.len());
    for &d in dims {
        match usize::try_from(d) {
            Ok(d) if d < rank && !out.contains(&d) => out.push(d),
            _ => return Err(invalid(inst, format!("dimension {d} is repeated or not below the rank {rank}"))),
        }
    }
    Ok(out)
}

/// The dimensions below `rank` that are in none of the lists, ascending.
pub(super) fn remaining(rank: usize, lists: &[&[usize]]) -> Vec<usize> {
    (0..rank).filter(|d| !lists.iter().any(|list| list.contains(d))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_run_in_row_major_order() {
        assert_eq!(offsets(&[2, 3], &[1, 10]), [0, 10, 20, 1, 11, 21]);
        assert_eq!(offsets(&[], &[]), [0]);
        assert_eq!(offsets(&[0, 3], &[1, 1]), [] as [usize; 0]);
    }
}

/// What the tests of the operations beside this file share.
#[cfg(test)]
pub(super) mod testing {
    use crate::{interp, text};
    use brolga_runtime::Literal;

    /// The result of a program without parameters: `computations`, then `body` as the entry's instructions.
    pub(in crate::interp) fn run(computations: &str, body: &str) -> crate::Result<Literal> {
        let module = text::parse(&format!("HloModule test\n{computations}\nENTRY entry {{\n{body}\n}}\n"))?;
        interp::run(&module, &[], &interp::Options::default())
    }

    /// Asserts that the program yields `expected`, written as a constant of the result's shape.
    pub(in crate::interp) fn check(computations: &str, body: &str, expected: &str) {
        let got = run(computations, body).unwrap_or_else(|e| panic!("{e}\n{body}"));
        let want = text::parse_literal(expected, &got.shape()).unwrap_or_else(|e| panic!("{e}\n{expected}"));
        assert!(got == want, "{body}\ngot      {}\nexpected {expected}", text::literal_to_string(&got));
    }
}
