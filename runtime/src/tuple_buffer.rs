//! Tuple buffers: XLA's form of a tuple in memory.
//!
//! Problem: compiled programs take the arrays of a tuple one by one, while XLA, and custom calls, know a tuple as a
//! table of pointers to its elements, a nested tuple's pointer leading to a table of its own. Invariant: tables are
//! made and read here, and the arrays are never copied. Algorithm: a walk over the shape. Tokens have a null pointer.

use crate::abi::{array_leaves, leaf_byte_size};
use crate::{ArrayShape, Literal, RunError, Shape};
use std::ffi::c_void;
use std::marker::PhantomData;

/// Tables under construction; pointers into them stay good as long as this lives.
#[derive(Default)]
pub(crate) struct Tables(Vec<Box<[*mut c_void]>>);

impl Tables {
    /// The pointer for a value of a shape: its array's, or that of a new table.
    pub(crate) fn pointer(&mut self, shape: &Shape, leaves: &mut dyn Iterator<Item = *mut c_void>) -> *mut c_void {
        match shape {
            Shape::Array(_) | Shape::Buffer(_) => leaves.next().unwrap_or(std::ptr::null_mut()),
            Shape::Token | Shape::Opaque => std::ptr::null_mut(),
            Shape::Tuple(elements) => {
                let table: Vec<*mut c_void> = elements.iter().map(|e| self.pointer(e, leaves)).collect();
                let mut table = table.into_boxed_slice();
                let pointer = table.as_mut_ptr();
                self.0.push(table);
                pointer.cast()
            }
        }
    }
}

/// A tuple in XLA's form, whose arrays are borrowed.
///
/// ```
/// use brolga_runtime::{ElementType, Shape, TupleBuffer};
///
/// let vector = Shape::array(ElementType::U8, [3]);
/// let shape = Shape::tuple(vec![vector.clone(), Shape::tuple(vec![vector])]);
/// let (mut a, mut b) = ([1u8, 2, 3], [4u8, 5, 6]);
/// let mut tuple = TupleBuffer::from_leaves(shape, vec![&mut a, &mut b])?;
/// tuple.leaf_mut(1).expect("two arrays")[0] = 7;
/// let leaves = tuple.into_leaves();
/// assert_eq!(leaves[1], [7, 5, 6]);
/// # Ok::<(), brolga_runtime::RunError>(())
/// ```
pub struct TupleBuffer<'a> {
    shape: Shape,
    leaves: Vec<(*mut c_void, usize)>,
    root: *mut c_void,
    /// What `root` points to.
    _tables: Tables,
    _borrowed: PhantomData<&'a mut [u8]>,
}

// SAFETY: the pointers lead to arrays that are borrowed exclusively and to tables that are owned.
unsafe impl Send for TupleBuffer<'_> {}

impl<'a> TupleBuffer<'a> {
    /// A tuple of the given shape over its arrays, depth first. Each is as long as its shape says, and aligned for its
    /// element.
    ///
    /// # Errors
    /// Where the arrays do not fit the shape.
    pub fn from_leaves(shape: Shape, leaves: Vec<&'a mut [u8]>) -> Result<TupleBuffer<'a>, RunError> {
        let arrays = array_leaves(&shape);
        if arrays.len() != leaves.len() {
            return Err(RunError::Count { expected: arrays.len(), found: leaves.len() });
        }
        let mut pointers = Vec::with_capacity(leaves.len());
        for (index, (array, leaf)) in arrays.into_iter().zip(leaves).enumerate() {
            let size = leaf_byte_size(array);
            let aligned = leaf.as_ptr().addr().is_multiple_of(alignment(array));
            if size != Some(leaf.len() as u64) || !aligned {
                let alignment = if aligned { "" } else { " at an odd address" };
                let (expected, found) = (format!("{array}"), format!("{} bytes{alignment}", leaf.len()));
                return Err(RunError::Shape { index, name: String::new(), expected, found });
            }
            pointers.push((leaf.as_mut_ptr().cast(), leaf.len()));
        }
        Ok(TupleBuffer::build(shape, pointers))
    }

    /// A tuple over the arrays of a literal.
    pub fn from_literal(literal: &'a mut Literal) -> TupleBuffer<'a> {
        fn collect(literal: &mut Literal, out: &mut Vec<(*mut c_void, usize)>) {
            match literal {
                Literal::Array(array) => {
                    let bytes = array.bytes_mut();
                    out.push((bytes.as_mut_ptr().cast(), bytes.len()));
                }
                Literal::Tuple(elements) => elements.iter_mut().for_each(|e| collect(e, out)),
                Literal::Token => {}
            }
        }
        let (shape, mut pointers) = (literal.shape(), Vec::new());
        collect(literal, &mut pointers);
        TupleBuffer::build(shape, pointers)
    }

    fn build(shape: Shape, leaves: Vec<(*mut c_void, usize)>) -> TupleBuffer<'a> {
        let mut tables = Tables::default();
        let root = tables.pointer(&shape, &mut leaves.iter().map(|l| l.0));
        TupleBuffer { shape, leaves, root, _tables: tables, _borrowed: PhantomData }
    }

    /// Borrows a tuple that someone else made.
    ///
    /// # Safety
    /// `pointer` leads to a value of the given shape in XLA's form; its arrays have as many bytes as their shapes say
    /// and belong to the tuple alone for as long as `'a`.
    pub unsafe fn from_raw(shape: Shape, pointer: *mut c_void) -> TupleBuffer<'a> {
        let mut leaves = Vec::new();
        // SAFETY: the caller's promise is the same.
        unsafe { flatten(&shape, pointer, &mut leaves) };
        TupleBuffer::build(shape, leaves)
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The pointer in XLA's form: the table, or the array itself where the shape is no tuple.
    pub fn as_ptr(&self) -> *mut c_void {
        self.root
    }

    /// Number of arrays.
    pub fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// An array's bytes.
    pub fn leaf(&self, index: usize) -> Option<&[u8]> {
        let &(pointer, length) = self.leaves.get(index)?;
        // SAFETY: the array is borrowed exclusively as long as `self` lives.
        Some(unsafe { slice(pointer, length) })
    }

    /// An array's bytes, to be written.
    pub fn leaf_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let &(pointer, length) = self.leaves.get(index)?;
        // SAFETY: as above, and `self` is borrowed mutably.
        Some(unsafe { slice(pointer, length) })
    }

    /// An element of the tuple, as a tuple buffer of its own that borrows this one.
    pub fn element(&mut self, index: usize) -> Option<TupleBuffer<'_>> {
        let elements = self.shape.as_tuple()?;
        let shape = elements.get(index)?.clone();
        let before: usize = elements.iter().take(index).map(|e| array_leaves(e).len()).sum();
        let count = array_leaves(&shape).len();
        let leaves = self.leaves.get(before..before + count)?.to_vec();
        Some(TupleBuffer::build(shape, leaves))
    }

    /// Gives the arrays back.
    pub fn into_leaves(self) -> Vec<&'a mut [u8]> {
        // SAFETY: they were borrowed for `'a`, and the tuple is given up.
        self.leaves.iter().map(|&(pointer, length)| unsafe { slice(pointer, length) }).collect()
    }

    pub(crate) fn pointers(&self) -> impl Iterator<Item = (*mut c_void, usize)> {
        self.leaves.iter().copied()
    }
}

fn alignment(array: &ArrayShape) -> usize {
    if array.is_dynamic() { array.ty.alignment().max(4) } else { array.ty.alignment() }
}

/// # Safety
/// The bytes are there and lent exclusively.
unsafe fn slice<'a>(pointer: *mut c_void, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(pointer.cast(), length) }
}

/// Lists the arrays of a tuple in XLA's form.
///
/// # Safety
/// As [`TupleBuffer::from_raw`].
unsafe fn flatten(shape: &Shape, pointer: *mut c_void, out: &mut Vec<(*mut c_void, usize)>) {
    match shape {
        Shape::Array(array) | Shape::Buffer(array) => {
            let size = leaf_byte_size(array).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            out.push((pointer, size));
        }
        Shape::Tuple(elements) => {
            let table = pointer.cast::<*mut c_void>();
            for (k, element) in elements.iter().enumerate() {
                // SAFETY: the table has a pointer for each element, each of that element's form.
                unsafe { flatten(element, table.add(k).read(), out) };
            }
        }
        Shape::Token | Shape::Opaque => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ElementType;

    #[test]
    fn tables_nest_and_arrays_stay_where_they_are() {
        let array = |n| Shape::array(ElementType::S32, [n]);
        let shape =
            Shape::tuple(vec![array(1), Shape::Token, Shape::tuple(vec![array(2), Shape::tuple(vec![]), array(1)])]);
        let (mut a, mut b, mut c) = ([1i32], [2i32, 3], [4i32]);
        let leaves: Vec<&mut [u8]> =
            vec![bytemuck::cast_slice_mut(&mut a), bytemuck::cast_slice_mut(&mut b), bytemuck::cast_slice_mut(&mut c)];
        let mut tuple = TupleBuffer::from_leaves(shape.clone(), leaves).unwrap();
        let table = tuple.as_ptr().cast::<*mut c_void>();
        // SAFETY: the tables have the form of the shape.
        let (token, nested) = unsafe { (*table.add(1), (*table.add(2)).cast::<*mut c_void>()) };
        assert!(token.is_null());
        // SAFETY: as above; the first element of the nested tuple is `b`.
        unsafe { *(*nested).cast::<i32>() = 7 };
        assert_eq!(tuple.leaf(1).unwrap()[0], 7);
        assert_eq!(tuple.element(2).unwrap().leaf_count(), 2);
        // SAFETY: the tuple above is such a tuple, and is not used while the other lives.
        let mut other = unsafe { TupleBuffer::from_raw(shape, tuple.as_ptr()) };
        other.leaf_mut(2).unwrap()[0] = 9;
        drop(other);
        drop(tuple);
        assert_eq!((a, b, c), ([1], [7, 3], [9]));
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let shape = Shape::tuple(vec![Shape::array(ElementType::U8, [3])]);
        assert!(TupleBuffer::from_leaves(shape.clone(), vec![]).is_err());
        assert!(TupleBuffer::from_leaves(shape, vec![&mut [0u8; 2]]).is_err());
    }
}
