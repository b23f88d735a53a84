//! Aligned buffers, and the copies between row-major literals and a leaf's own layout.

use super::RunError;
use crate::abi::{Leaf, WORKSPACE_ALIGNMENT, dynamic_sizes_offset, storage_bits};
use crate::index::for_each_offset;
use crate::{ArrayLiteral, ArrayShape};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// That many zeros; `None` where there is no memory for them. Pages that nobody writes stay untouched.
pub(crate) fn zeroed_words(count: usize) -> Option<Vec<u64>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u64>(count).ok()?;
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    // SAFETY: the global allocator gave it with the layout of a vector of this capacity; all elements are zero.
    Some(unsafe { Vec::from_raw_parts(start.as_ptr().cast(), count, count) })
}

/// Words of a cache line.
const LINE: usize = 8;

/// Zeroed words; those that fill a line and more start on one.
pub(crate) struct LineWords {
    memory: Vec<u64>,
    first: usize,
}

impl LineWords {
    /// That many; `None` where there is no memory for them. The allocator is not asked for the alignment: then it would write zeros
    /// to fresh pages.
    pub(crate) fn zeroed(count: usize) -> Option<LineWords> {
        let spare = if count < LINE { 0 } else { LINE - 1 };
        let memory = zeroed_words(count.checked_add(spare)?)?;
        let first = memory.as_ptr().align_offset(WORKSPACE_ALIGNMENT).min(spare);
        Some(LineWords { memory, first })
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.memory[self.first..]
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.memory[self.first..]
    }
}

/// Zeroed bytes at 64-byte alignment.
pub(crate) struct AlignedBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer is owned and plain bytes.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    pub(crate) fn new(size: u64) -> Result<AlignedBytes, RunError> {
        let layout = usize::try_from(size)
            .ok()
            .and_then(|size| Layout::from_size_align(size, WORKSPACE_ALIGNMENT).ok())
            .ok_or(RunError::OutOfMemory(size))?;
        if layout.size() == 0 {
            // Never read or written, but aligned and not null.
            return Ok(AlignedBytes { start: NonNull::<Align64>::dangling().cast(), layout });
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        NonNull::new(start).map(|start| AlignedBytes { start, layout }).ok_or(RunError::OutOfMemory(size))
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` owns that many initialised bytes (none where it dangles).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

#[repr(align(64))]
struct Align64;

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// True where a literal of the leaf's shape has the very bytes of the leaf's buffer.
pub(crate) fn is_literal_form(leaf: &Leaf) -> bool {
    leaf.shape.is_dense_row_major() && !leaf.shape.is_dynamic() && is_unpacked(&leaf.shape)
}

fn is_unpacked(shape: &ArrayShape) -> bool {
    storage_bits(shape) as usize == 8 * shape.ty.byte_size()
}

fn check_unpacked(shape: &ArrayShape) -> Result<(), RunError> {
    if is_unpacked(shape) { Ok(()) } else { Err(RunError::Unsupported(format!("the packed layout of {shape}"))) }
}

/// Checks that a literal can be an argument of the parameter.
pub(crate) fn check_argument(index: usize, leaf: &Leaf, literal: &ArrayLiteral) -> Result<(), RunError> {
    let (want, have) = (&leaf.shape, literal.shape());
    let fits = want.ty == have.ty
        && want.rank() == have.rank()
        && want.dims.iter().zip(&have.dims).zip(&want.dynamic).all(|((w, h), d)| if *d { h <= w } else { h == w });
    if fits {
        return Ok(());
    }
    Err(RunError::Shape { index, name: leaf.name.clone(), expected: format!("{want}"), found: format!("{have}") })
}

/// Writes the padding value all over the buffer of a padded leaf, elements included; other buffers stay as they are.
pub(crate) fn fill_with_padding(leaf: &Leaf, buffer: &mut [u8]) {
    let value = leaf.shape.layout.as_ref().filter(|_| leaf.shape.is_padded());
    let Some(element) = value.and_then(|layout| layout.padding_value.element(leaf.shape.ty)) else { return };
    for place in buffer.chunks_exact_mut(element.bytes().len()) {
        place.copy_from_slice(element.bytes());
    }
}

/// Writes a literal, which fits, into the leaf's buffer; its padding stays as it is.
pub(crate) fn store(leaf: &Leaf, literal: &ArrayLiteral, buffer: &mut [u8]) -> Result<(), RunError> {
    check_unpacked(&leaf.shape)?;
    if is_literal_form(leaf) && buffer.len() == literal.bytes().len() {
        buffer.copy_from_slice(literal.bytes());
        return Ok(());
    }
    let size = leaf.shape.ty.byte_size();
    let mut elements = literal.bytes().chunks_exact(size);
    for_each_offset(literal.dims(), &leaf.shape.strides(), |offset| {
        let at = offset * size;
        if let (Some(to), Some(from)) = (buffer.get_mut(at..at + size), elements.next()) {
            to.copy_from_slice(from);
        }
    });
    if let Some(Some(at)) = dynamic_sizes_offset(&leaf.shape) {
        let sizes = buffer.get_mut(at as usize..).unwrap_or_default();
        for (to, &d) in sizes.chunks_exact_mut(4).zip(literal.dims()) {
            to.copy_from_slice(&i32::try_from(d).unwrap_or(i32::MAX).to_ne_bytes());
        }
    }
    Ok(())
}

/// Reads a leaf's buffer. Dimensions that are bounded dynamic come back with their true size.
pub(crate) fn load(index: usize, leaf: &Leaf, buffer: &[u8]) -> Result<ArrayLiteral, RunError> {
    check_unpacked(&leaf.shape)?;
    let mut dims = leaf.shape.dims.clone();
    if let Some(Some(at)) = dynamic_sizes_offset(&leaf.shape) {
        let sizes = buffer.get(at as usize..).unwrap_or_default();
        let (sizes, _) = sizes.as_chunks::<4>();
        for (dimension, ((d, &dynamic), size)) in dims.iter_mut().zip(&leaf.shape.dynamic).zip(sizes).enumerate() {
            let size = i32::from_ne_bytes(*size);
            if dynamic && !(0..=*d).contains(&i64::from(size)) {
                return Err(RunError::DynamicSize { index, dimension, size });
            }
            if dynamic {
                *d = i64::from(size);
            }
        }
    }
    let mut literal = ArrayLiteral::try_zeros(&ArrayShape::new(leaf.shape.ty, dims.clone()))?;
    if is_literal_form(leaf) && buffer.len() == literal.bytes().len() {
        literal.bytes_mut().copy_from_slice(buffer);
        return Ok(literal);
    }
    let size = leaf.shape.ty.byte_size();
    let mut elements = literal.bytes_mut().chunks_exact_mut(size);
    for_each_offset(&dims, &leaf.shape.strides(), |offset| {
        let at = offset * size;
        if let (Some(to), Some(from)) = (elements.next(), buffer.get(at..at + size)) {
            to.copy_from_slice(from);
        }
    });
    Ok(literal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{ElementType, Layout};

    #[test]
    fn layouts_are_permuted_both_ways() {
        let literal = ArrayLiteral::from_elements(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
        let mut shape = ArrayShape::new(ElementType::S32, [2, 3]);
        shape.layout = Some(Layout { minor_to_major: vec![0, 1], ..Layout::default() });
        let leaf = Leaf::new(shape);
        let mut buffer = AlignedBytes::new(leaf.byte_size()).unwrap();
        store(&leaf, &literal, buffer.bytes_mut()).unwrap();
        let words: Vec<i32> = buffer.bytes().chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
        assert_eq!(words, [1, 4, 2, 5, 3, 6]);
        assert_eq!(load(0, &leaf, buffer.bytes()).unwrap(), literal);
    }

    /// Elements go to their places among the padding, and come back without it.
    #[test]
    fn padding_is_stepped_over_both_ways() {
        let literal = ArrayLiteral::from_elements(&[2, 3], b"abcdef");
        let mut shape = literal.shape().clone();
        shape.layout = Some(Layout { padded_dimensions: vec![3, 4], ..Layout::row_major(2) });
        let leaf = Leaf::new(shape);
        let mut buffer = AlignedBytes::new(leaf.byte_size()).unwrap();
        buffer.bytes_mut().fill(b'.');
        store(&leaf, &literal, buffer.bytes_mut()).unwrap();
        assert_eq!(buffer.bytes(), b"abc.def.....");
        assert_eq!(load(0, &leaf, buffer.bytes()).unwrap(), literal);
        assert!(!is_literal_form(&leaf));
    }

    #[test]
    fn dynamic_sizes_travel_behind_the_data() {
        let mut shape = ArrayShape::new(ElementType::U8, [2, 3]);
        shape.dynamic = vec![false, true];
        let leaf = Leaf::new(shape);
        let literal = ArrayLiteral::from_elements(&[2, 2], &[1u8, 2, 3, 4]);
        check_argument(0, &leaf, &literal).unwrap();
        let mut buffer = AlignedBytes::new(leaf.byte_size()).unwrap();
        store(&leaf, &literal, buffer.bytes_mut()).unwrap();
        assert_eq!(buffer.bytes(), [1, 2, 0, 3, 4, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(load(0, &leaf, buffer.bytes()).unwrap(), literal);
        buffer.bytes_mut()[12] = 4;
        assert!(matches!(load(0, &leaf, buffer.bytes()), Err(RunError::DynamicSize { dimension: 1, .. })));
        let large = ArrayLiteral::from_elements(&[2, 4], &[0u8; 8]);
        assert!(check_argument(0, &leaf, &large).is_err());
    }

    #[test]
    fn buffers_are_aligned_and_huge_ones_refused() {
        assert_eq!(AlignedBytes::new(1).unwrap().as_ptr() as usize % 64, 0);
        assert_eq!(AlignedBytes::new(0).unwrap().as_ptr() as usize % 64, 0);
        assert!(AlignedBytes::new(u64::MAX).is_err());
        assert!(AlignedBytes::new(1 << 60).is_err());
    }
}
