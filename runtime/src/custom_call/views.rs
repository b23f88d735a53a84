//! What a registered closure sees: its operands and results as typed arrays.

use super::{Attribute, Description};
use crate::{ArrayShape, NativeType};

/// One call of a registered closure.
pub struct CustomCall<'a> {
    description: &'a Description,
    operands: Vec<&'a [u8]>,
    results: Vec<Option<&'a mut [u8]>>,
}

/// An operand. Elements lie in the order of the layout that the program names; [`ArrayView::at`] minds it.
#[derive(Clone)]
pub struct ArrayView<'a, T> {
    elements: &'a [T],
    shape: &'a ArrayShape,
    strides: Vec<i64>,
}

/// A result, to be filled. As [`ArrayView`].
pub struct ArrayViewMut<'a, T> {
    elements: &'a mut [T],
    shape: &'a ArrayShape,
    strides: Vec<i64>,
}

impl<'a> CustomCall<'a> {
    pub(super) fn new(
        description: &'a Description,
        operands: Vec<&'a [u8]>,
        results: Vec<Option<&'a mut [u8]>>,
    ) -> CustomCall<'a> {
        CustomCall { description, operands, results }
    }

    /// Everything that the program says of the call: name, line, shapes with tuples and layouts, attributes, text.
    pub fn description(&self) -> &'a Description {
        self.description
    }

    /// Number of operand arrays; tuples count as their elements, tokens do not count.
    pub fn operand_count(&self) -> usize {
        self.operands.len()
    }

    /// Number of result arrays.
    pub fn result_count(&self) -> usize {
        self.results.len()
    }

    /// An operand.
    ///
    /// # Errors
    /// Where there is no such operand, or it has elements of another type.
    pub fn operand<T: NativeType>(&self, index: usize) -> Result<ArrayView<'a, T>, String> {
        let shapes = self.description.operand_arrays();
        let (shape, bytes) = match (shapes.get(index), self.operands.get(index)) {
            (Some(&shape), Some(&bytes)) => (shape, bytes),
            _ => return Err(format!("there is no operand {index}: the call has {}", self.operands.len())),
        };
        check::<T>("operand", index, shape)?;
        let elements = bytemuck::try_cast_slice(bytes).map_err(|e| format!("operand {index}: {e}"))?;
        Ok(ArrayView { elements, shape, strides: shape.strides() })
    }

    /// A result.
    ///
    /// # Errors
    /// Where there is no such result, it has elements of another type, or it was taken.
    pub fn result_mut<T: NativeType>(&mut self, index: usize) -> Result<ArrayViewMut<'_, T>, String> {
        let shape = self.result_shape(index)?;
        match self.results.get_mut(index) {
            Some(Some(bytes)) => result_view(index, shape, bytes),
            _ => Err(format!("result {index} was taken before")),
        }
    }

    /// A result, for closures that fill several at a time; each can be taken once.
    ///
    /// # Errors
    /// As [`CustomCall::result_mut`].
    pub fn take_result<T: NativeType>(&mut self, index: usize) -> Result<ArrayViewMut<'a, T>, String> {
        let shape = self.result_shape(index)?;
        check::<T>("result", index, shape)?;
        match self.results.get_mut(index).and_then(Option::take) {
            Some(bytes) => result_view(index, shape, bytes),
            None => Err(format!("result {index} was taken before")),
        }
    }

    /// The bytes of an operand, in the layout of its shape in [`Description::operand_arrays`].
    pub fn operand_bytes(&self, index: usize) -> Option<&'a [u8]> {
        self.operands.get(index).copied()
    }

    /// The bytes of a result that was not taken, in the layout of its shape in [`Description::result_arrays`].
    pub fn result_bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        self.results.get_mut(index)?.as_deref_mut()
    }

    fn result_shape(&self, index: usize) -> Result<&'a ArrayShape, String> {
        let shapes = self.description.result_arrays();
        let missing = || format!("there is no result {index}: the call has {}", shapes.len());
        shapes.get(index).copied().ok_or_else(missing)
    }

    /// The text for the function, `backend_config`.
    pub fn opaque(&self) -> &'a [u8] {
        &self.description.opaque
    }

    /// An attribute of a typed call.
    pub fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.description.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// An attribute that is one number.
    ///
    /// # Errors
    /// Where there is none of that name, or it has another type.
    pub fn number<T: NativeType>(&self, name: &str) -> Result<T, String> {
        match self.attribute(name) {
            Some(Attribute::Scalar(value)) if value.ty() == T::TYPE => {
                value.as_slice::<T>().first().copied().ok_or_else(|| format!("attribute '{name}' is empty"))
            }
            Some(Attribute::Scalar(value)) => {
                Err(format!("attribute '{name}' has type {}, not {}", value.ty(), T::TYPE))
            }
            Some(_) => Err(format!("attribute '{name}' is no number")),
            None => Err(format!("there is no attribute '{name}'")),
        }
    }
}

fn result_view<'b, T: NativeType>(
    index: usize,
    shape: &'b ArrayShape,
    bytes: &'b mut [u8],
) -> Result<ArrayViewMut<'b, T>, String> {
    check::<T>("result", index, shape)?;
    let elements = bytemuck::try_cast_slice_mut(bytes).map_err(|e| format!("result {index}: {e}"))?;
    Ok(ArrayViewMut { elements, shape, strides: shape.strides() })
}

/// Bytes may be seen as themselves whatever the type, if they are as wide: truth values, and numbers under a byte.
fn check<T: NativeType>(what: &str, index: usize, shape: &ArrayShape) -> Result<(), String> {
    let stored_as_byte = shape.ty.byte_size() == 1 && (T::TYPE == crate::ElementType::U8);
    if shape.ty == T::TYPE || stored_as_byte {
        return Ok(());
    }
    Err(format!("{what} {index} is {shape}, not an array of {}", T::TYPE))
}

fn offset(shape: &ArrayShape, strides: &[i64], index: &[usize]) -> Option<usize> {
    if index.len() != shape.rank() {
        return None;
    }
    let mut at = 0i64;
    for ((&i, &size), &stride) in index.iter().zip(&shape.dims).zip(strides) {
        let i = i64::try_from(i).ok().filter(|&i| i < size)?;
        at += i * stride;
    }
    usize::try_from(at).ok()
}

impl<'a, T: NativeType> ArrayView<'a, T> {
    /// The shape, with its layout.
    pub fn shape(&self) -> &'a ArrayShape {
        self.shape
    }

    /// Sizes of the dimensions.
    pub fn dims(&self) -> &'a [i64] {
        &self.shape.dims
    }

    /// The elements in the order of memory, which is row-major unless the shape has a layout.
    pub fn as_slice(&self) -> &'a [T] {
        self.elements
    }

    /// An element; `None` outside the array.
    pub fn at(&self, index: &[usize]) -> Option<T> {
        self.elements.get(offset(self.shape, &self.strides, index)?).copied()
    }
}

impl<'a, T: NativeType> ArrayViewMut<'a, T> {
    /// The shape, with its layout.
    pub fn shape(&self) -> &'a ArrayShape {
        self.shape
    }

    /// Sizes of the dimensions.
    pub fn dims(&self) -> &'a [i64] {
        &self.shape.dims
    }

    /// The elements in the order of memory, which is row-major unless the shape has a layout.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.elements
    }

    /// An element, to be written; `None` outside the array.
    pub fn at_mut(&mut self, index: &[usize]) -> Option<&mut T> {
        let at = offset(self.shape, &self.strides, index)?;
        self.elements.get_mut(at)
    }
}
