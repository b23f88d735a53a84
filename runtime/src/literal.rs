//! Literals: values held by the host.
//!
//! Problem: inputs, outputs, constants and the interpreter all need one form of array data. Invariant: elements lie
//! in logical row-major order, dense, in the storage form of their type (one byte each for types under a byte: `s4`
//! sign-extended, `u4` zero-extended, `f4e2m1fn` in the low nibble, `pred` 0 or 1), 8-byte aligned, and on a line of 64 bytes
//! where they fill one.

use crate::index::for_each_offset;
use crate::program::memory::LineWords;
use crate::{ArrayShape, ElementType, Kind, Layout, Shape};
use half::{bf16, f16};
use num_complex::Complex;

/// There is no memory for that many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {0} bytes")]
pub struct OutOfMemory(pub u64);

/// Whether that many bytes could be had right now. What needs several arrays of a size that a program says, made by code that
/// takes memory for granted, asks this first.
///
/// # Errors
/// Where they could not.
pub fn room_for(bytes: u64) -> Result<(), OutOfMemory> {
    let size = usize::try_from(bytes).map_err(|_| OutOfMemory(bytes))?;
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(size).map_err(|_| OutOfMemory(bytes))?;
    // An allocation that nobody looks at may be optimised away.
    std::hint::black_box(memory.as_ptr());
    Ok(())
}

/// A Rust type whose bytes are the storage form of one [`ElementType`].
pub trait NativeType: bytemuck::Pod + PartialEq + std::fmt::Debug + Send + Sync {
    /// The element type stored this way by default.
    const TYPE: ElementType;
}

macro_rules! native {
    ($($rust:ty => $ty:ident),*) => { $(impl NativeType for $rust { const TYPE: ElementType = ElementType::$ty; })* };
}
native!(i8 => S8, i16 => S16, i32 => S32, i64 => S64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
        f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, Complex<f32> => C64, Complex<f64> => C128);

/// A dense row-major array.
pub struct ArrayLiteral {
    shape: ArrayShape,
    words: LineWords,
}

impl Clone for ArrayLiteral {
    fn clone(&self) -> ArrayLiteral {
        let mut out = ArrayLiteral::zeros(&self.shape);
        out.bytes_mut().copy_from_slice(self.bytes());
        out
    }
}

impl ArrayLiteral {
    /// All elements zero (their bytes are). `shape`'s layout is dropped: literals are row-major.
    ///
    /// # Panics
    /// Where the size in bytes overflows, or there is no memory; readers check shapes first with [`ArrayShape::checked_elements`].
    pub fn zeros(shape: &ArrayShape) -> ArrayLiteral {
        ArrayLiteral::try_zeros(shape).expect("there is memory for a literal")
    }

    /// As [`ArrayLiteral::zeros`], for a size that the caller has not chosen.
    ///
    /// # Errors
    /// Where there is no memory for it, or the size overflows.
    pub fn try_zeros(shape: &ArrayShape) -> Result<ArrayLiteral, OutOfMemory> {
        let bytes = shape.checked_elements().and_then(|n| n.checked_mul(shape.ty.byte_size()));
        let bytes = bytes.ok_or(OutOfMemory(u64::MAX))?;
        let words = LineWords::zeroed(bytes.div_ceil(8)).ok_or(OutOfMemory(bytes as u64))?;
        Ok(ArrayLiteral { shape: ArrayShape { layout: None, ..shape.clone() }, words })
    }

    /// An array from its elements in row-major order.
    ///
    /// # Panics
    /// Where the number of elements does not fit `dims`.
    pub fn from_elements<T: NativeType>(dims: &[i64], elements: &[T]) -> ArrayLiteral {
        let mut out = ArrayLiteral::zeros(&ArrayShape::new(T::TYPE, dims));
        assert_eq!(out.elements(), elements.len(), "element count fits the dimensions");
        out.as_mut_slice::<T>().copy_from_slice(elements);
        out
    }

    /// A `pred` array from truth values in row-major order.
    ///
    /// # Panics
    /// Where the number of elements does not fit `dims`.
    pub fn from_bools(dims: &[i64], elements: &[bool]) -> ArrayLiteral {
        let mut out = ArrayLiteral::zeros(&ArrayShape::new(ElementType::Pred, dims));
        assert_eq!(out.elements(), elements.len(), "element count fits the dimensions");
        for (byte, &b) in out.bytes_mut().iter_mut().zip(elements) {
            *byte = u8::from(b);
        }
        out
    }

    /// An array from the bytes of its elements (storage form, row-major), or `None` where the length is wrong or there is no
    /// memory for a copy.
    pub fn from_bytes(shape: &ArrayShape, bytes: &[u8]) -> Option<ArrayLiteral> {
        if shape.checked_elements()?.checked_mul(shape.ty.byte_size())? != bytes.len() {
            return None;
        }
        let mut out = ArrayLiteral::try_zeros(shape).ok()?;
        out.bytes_mut().copy_from_slice(bytes);
        Some(out)
    }

    /// An array from a buffer that holds it as the layout of `shape` says, column-major or padded; what lies in the padding does not
    /// matter. `None` where the length is wrong or there is no memory for a copy.
    pub fn from_memory(shape: &ArrayShape, memory: &[u8]) -> Option<ArrayLiteral> {
        if shape.is_dense_row_major() {
            return ArrayLiteral::from_bytes(shape, memory);
        }
        let size = shape.ty.byte_size();
        if !shape.has_valid_layout() || shape.padded_elements()?.checked_mul(size)? != memory.len() {
            return None;
        }
        let mut out = ArrayLiteral::try_zeros(shape).ok()?;
        let mut elements = out.bytes_mut().chunks_exact_mut(size);
        for_each_offset(&shape.dims, &shape.strides(), |offset| {
            if let (Some(to), Some(from)) = (elements.next(), memory.get(offset * size..(offset + 1) * size)) {
                to.copy_from_slice(from);
            }
        });
        Some(out)
    }

    /// The buffer that holds this array as `layout` says; its padding holds the padding value. `None` where the layout is not one of
    /// this shape, the padding value none of the type, or there is no memory.
    pub fn to_memory(&self, layout: &Layout) -> Option<Vec<u8>> {
        let shape = ArrayShape { layout: Some(layout.clone()), ..self.shape.clone() };
        if !shape.has_valid_layout() {
            return None;
        }
        let (size, elements) = (self.ty().byte_size(), shape.padded_elements()?);
        room_for(elements.checked_mul(size)? as u64).ok()?;
        let mut memory = layout.padding_value.element(self.ty())?.bytes().repeat(elements);
        let mut elements = self.bytes().chunks_exact(size);
        for_each_offset(self.dims(), &shape.strides(), |offset| {
            if let (Some(to), Some(from)) = (memory.get_mut(offset * size..(offset + 1) * size), elements.next()) {
                to.copy_from_slice(from);
            }
        });
        Some(memory)
    }

    /// A rank-0 array.
    pub fn scalar<T: NativeType>(value: T) -> ArrayLiteral {
        ArrayLiteral::from_elements(&[], &[value])
    }

    /// The shape; it has no layout.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The element type.
    pub fn ty(&self) -> ElementType {
        self.shape.ty
    }

    /// The dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.shape.dims
    }

    /// Distances between neighbours in each dimension, in elements.
    pub fn strides(&self) -> Vec<i64> {
        self.shape.strides()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// The elements' bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(self.words.words())[..self.shape.byte_size()]
    }

    /// The elements' bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.shape.byte_size();
        &mut bytemuck::cast_slice_mut(self.words.words_mut())[..len]
    }

    /// The elements as the Rust type that stores them: [`NativeType::TYPE`] is the element type, or `T` is the unsigned integer of
    /// the element's size and stands for its bits (`u8` for `pred` and the narrow types, `u16` for `bf16`, `u32` for `f32`).
    ///
    /// # Panics
    /// Where `T` is another type, such as `i32` for `f32`.
    pub fn as_slice<T: NativeType>(&self) -> &[T] {
        self.check_native::<T>();
        bytemuck::cast_slice(self.bytes())
    }

    fn check_native<T: NativeType>(&self) {
        let (asked, ty) = (T::TYPE, self.ty());
        let bits = matches!(asked, ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64);
        let narrow = asked == ElementType::S8 && ty.kind() == Kind::Signed;
        let fits = asked == ty || (bits || narrow) && size_of::<T>() == ty.byte_size();
        assert!(fits, "elements of {ty} are not stored as {}", std::any::type_name::<T>());
    }

    /// As [`ArrayLiteral::as_slice`], mutable.
    ///
    /// # Panics
    /// As [`ArrayLiteral::as_slice`].
    pub fn as_mut_slice<T: NativeType>(&mut self) -> &mut [T] {
        self.check_native::<T>();
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// The same elements under other dimensions.
    ///
    /// # Panics
    /// Where the number of elements differs.
    pub fn reshaped(mut self, dims: &[i64]) -> ArrayLiteral {
        let shape = ArrayShape::new(self.ty(), dims);
        assert_eq!(shape.elements(), self.elements(), "a reshape keeps the number of elements");
        self.shape = shape;
        self
    }

    /// The same bytes under another element type of the same size.
    ///
    /// # Panics
    /// Where the sizes differ.
    pub fn with_type(mut self, ty: ElementType) -> ArrayLiteral {
        assert_eq!(ty.byte_size(), self.ty().byte_size(), "element sizes of {ty} and {}", self.ty());
        self.shape.ty = ty;
        self
    }
}

/// Bitwise equality of shape and elements.
impl PartialEq for ArrayLiteral {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.bytes() == other.bytes()
    }
}
impl Eq for ArrayLiteral {}

impl std::fmt::Debug for ArrayLiteral {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.bytes();
        write!(f, "{} {:02x?}", self.shape, &bytes[..bytes.len().min(64)])
    }
}

/// A value: an array, a tuple of values, or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// An array.
    Array(ArrayLiteral),
    /// A tuple.
    Tuple(Vec<Literal>),
    /// An ordering token, which holds nothing.
    Token,
}

impl Literal {
    /// A rank-0 array.
    pub fn scalar<T: NativeType>(value: T) -> Literal {
        Literal::Array(ArrayLiteral::scalar(value))
    }

    /// All-zero value of the given shape; `None` for opaque shapes.
    pub fn zeros(shape: &Shape) -> Option<Literal> {
        Some(match shape {
            Shape::Array(a) | Shape::Buffer(a) => Literal::Array(ArrayLiteral::zeros(a)),
            Shape::Tuple(elements) => Literal::Tuple(elements.iter().map(Literal::zeros).collect::<Option<_>>()?),
            Shape::Token => Literal::Token,
            Shape::Opaque => return None,
        })
    }

    /// The value of the given shape whose arrays, depth first, are `arrays`: what [`Literal::arrays`] takes apart. `None` for
    /// opaque shapes, and where arrays are missing.
    pub fn from_arrays(shape: &Shape, arrays: &mut dyn Iterator<Item = ArrayLiteral>) -> Option<Literal> {
        Some(match shape {
            Shape::Array(_) | Shape::Buffer(_) => Literal::Array(arrays.next()?),
            Shape::Tuple(elements) => {
                let elements = elements.iter().map(|s| Literal::from_arrays(s, arrays));
                Literal::Tuple(elements.collect::<Option<_>>()?)
            }
            Shape::Token => Literal::Token,
            Shape::Opaque => return None,
        })
    }

    /// The value's shape, without layouts.
    pub fn shape(&self) -> Shape {
        match self {
            Literal::Array(a) => Shape::Array(a.shape.clone()),
            Literal::Tuple(elements) => Shape::Tuple(elements.iter().map(Literal::shape).collect()),
            Literal::Token => Shape::Token,
        }
    }

    /// The array, where this is one.
    pub fn as_array(&self) -> Option<&ArrayLiteral> {
        match self {
            Literal::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The arrays, depth first; tokens are skipped.
    pub fn arrays(&self) -> Vec<&ArrayLiteral> {
        match self {
            Literal::Array(a) => vec![a],
            Literal::Tuple(elements) => elements.iter().flat_map(Literal::arrays).collect(),
            Literal::Token => Vec::new(),
        }
    }
}

impl From<ArrayLiteral> for Literal {
    fn from(a: ArrayLiteral) -> Literal {
        Literal::Array(a)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::PaddingValue;

    #[test]
    fn an_array_that_there_is_no_memory_for_is_an_error() {
        let shape = ArrayShape::new(ElementType::F32, [1i64 << 58]);
        assert_eq!(ArrayLiteral::try_zeros(&shape), Err(OutOfMemory(1 << 60)));
        assert_eq!(ArrayLiteral::try_zeros(&ArrayShape::new(ElementType::F32, [i64::MAX])), Err(OutOfMemory(u64::MAX)));
        assert_eq!(room_for(1 << 60), Err(OutOfMemory(1 << 60)));
        for dims in [&[][..], &[0], &[3], &[5, 3]] {
            let shape = ArrayShape::new(ElementType::S16, dims);
            assert_eq!(ArrayLiteral::try_zeros(&shape), Ok(ArrayLiteral::zeros(&shape)));
        }
        assert_eq!(room_for(100), Ok(()));
    }

    #[test]
    fn elements_are_seen_as_what_they_are() {
        let mut a = ArrayLiteral::from_elements(&[2], &[1.0f32, -2.0]);
        assert_eq!(a.as_slice::<u32>(), &[0x3f80_0000, 0xc000_0000]);
        assert!(std::panic::catch_unwind(|| a.as_slice::<i32>().len()).is_err());
        assert!(std::panic::catch_unwind(|| a.as_slice::<u64>().len()).is_err());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.as_mut_slice::<i32>().len())).is_err());
        let half = ArrayLiteral::zeros(&ArrayShape::new(ElementType::F16, [1]));
        assert!(std::panic::catch_unwind(|| half.as_slice::<bf16>().len()).is_err());
        let narrow = ArrayLiteral::zeros(&ArrayShape::new(ElementType::S4, [3]));
        assert_eq!((narrow.as_slice::<i8>(), narrow.as_slice::<u8>()), (&[0i8; 3][..], &[0u8; 3][..]));
    }

    /// What fills a line starts on one, and so does a copy of it.
    #[test]
    fn large_arrays_start_on_lines() {
        for n in [16, 17, 1000, 1 << 20] {
            let a = ArrayLiteral::zeros(&ArrayShape::new(ElementType::F32, [n]));
            for a in [&a, &a.clone(), &ArrayLiteral::from_bytes(a.shape(), a.bytes()).unwrap()] {
                assert!(a.bytes().as_ptr().addr().is_multiple_of(64) && a.elements() == n as usize, "{n}");
            }
        }
    }

    /// A buffer comes in and goes out column-major and padded, whatever the caller left in the padding.
    #[test]
    fn memory_of_any_layout_goes_in_and_out() {
        let layout = Layout {
            minor_to_major: vec![0, 1],
            padded_dimensions: vec![3, 5],
            padding_value: PaddingValue::Zero,
            ..Layout::default()
        };
        let matrix = ArrayLiteral::from_elements(&[2, 3], b"abcdef");
        let memory = matrix.to_memory(&layout).unwrap();
        assert_eq!(memory, *b"ad\0be\0cf\0\0\0\0\0\0\0");
        let shape = ArrayShape { layout: Some(layout.clone()), ..matrix.shape().clone() };
        let noisy: Vec<u8> = memory.iter().map(|&b| if b == 0 { b'?' } else { b }).collect();
        assert_eq!(ArrayLiteral::from_memory(&shape, &noisy), Some(matrix.clone()));
        assert_eq!(ArrayLiteral::from_memory(&shape, &memory[1..]), None);
        let narrow = Layout { padded_dimensions: vec![1, 1], ..layout };
        assert_eq!(matrix.to_memory(&narrow), None);
    }

    #[test]
    fn elements_round_trip() {
        let a = ArrayLiteral::from_elements(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
        assert_eq!(a.as_slice::<f32>(), &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ArrayLiteral::from_bytes(a.shape(), a.bytes()), Some(a.clone()));
        assert_eq!(ArrayLiteral::from_bytes(a.shape(), &a.bytes()[1..]), None);
        let odd = ArrayLiteral::from_bools(&[3], &[true, false, true]);
        assert_eq!(odd.bytes(), &[1, 0, 1]);
    }
}
