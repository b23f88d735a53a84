//! Arrays as C sees them.

use crate::failure::{Failure, Result, c_text, given_slice};
use brolga_runtime::abi::Leaf;
use brolga_runtime::{ArrayShape, ElementType, Layout};
use std::ffi::{CString, c_char, c_void};
use std::ptr::null;

/// An array: what it is called, its shape and layout, and where it lies. What a function of this library fills in lives as
/// long as what was asked; of an array that the caller describes, the name, the flags of dynamic dimensions, the layout and
/// the widths may be null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// Its name; empty where it has none.
    pub name: *const c_char,
    /// The type of its elements, an enum brolga_element_type.
    pub element_type: u32,
    /// Number of its dimensions.
    pub rank: u32,
    /// Their sizes, or bounds, outermost first.
    pub dimensions: *const i64,
    /// 1 for each dimension whose size a value says, up to the bound.
    pub dynamic: *const u8,
    /// The dimensions from the fastest-varying to the slowest; null for row-major.
    pub minor_to_major: *const u32,
    /// Bytes of its buffer, padding included.
    pub bytes: u64,
    /// Its buffer; null where it only describes one.
    pub data: *mut c_void,
    /// To how many elements each dimension is padded in the buffer, outermost first; null where there is no padding. An array
    /// that the caller describes has none.
    pub widths: *const i64,
}

/// What an [`Array`] that this library fills in points to.
pub(crate) struct Owned {
    name: CString,
    element_type: u32,
    dimensions: Vec<i64>,
    dynamic: Vec<u8>,
    minor_to_major: Vec<u32>,
    bytes: u64,
    widths: Option<Vec<i64>>,
}

impl Owned {
    pub(crate) fn new(leaf: &Leaf) -> Owned {
        Owned {
            name: c_text(&leaf.name),
            element_type: u32::from(leaf.shape.ty.code()),
            dimensions: leaf.shape.dims.clone(),
            dynamic: leaf.shape.dynamic.iter().map(|&d| u8::from(d)).collect(),
            minor_to_major: leaf.minor_to_major().into_iter().map(|d| d as u32).collect(),
            bytes: leaf.byte_size(),
            widths: leaf.shape.is_padded().then(|| leaf.shape.widths().to_vec()),
        }
    }

    pub(crate) fn array(&self, data: *mut c_void) -> Array {
        Array {
            name: self.name.as_ptr(),
            element_type: self.element_type,
            rank: self.dimensions.len() as u32,
            dimensions: self.dimensions.as_ptr(),
            dynamic: self.dynamic.as_ptr(),
            minor_to_major: self.minor_to_major.as_ptr(),
            bytes: self.bytes,
            data,
            widths: self.widths.as_ref().map_or(null(), |w| w.as_ptr()),
        }
    }
}

/// The one of a list with that number.
pub(crate) fn nth<'a, T>(list: &'a [T], index: usize, what: &str) -> Result<&'a T> {
    list.get(index).ok_or_else(|| Failure::argument(format!("there is no {what} {index}: there are {}", list.len())))
}

impl Array {
    /// The shape that a caller describes, with its layout.
    ///
    /// # Safety
    /// The lists have as many elements as the rank says, or are null.
    pub(crate) unsafe fn shape(&self) -> Result<ArrayShape> {
        let code = u8::try_from(self.element_type).ok();
        let Some(ty) = code.and_then(ElementType::from_code) else {
            return Err(Failure::argument(format!("there is no element type {}", self.element_type)));
        };
        let rank = self.rank as usize;
        if rank > brolga_runtime::abi::MAX_RANK {
            return Err(Failure::argument(format!("an array of rank {rank}")));
        }
        // SAFETY: the caller's promise.
        let dims = unsafe { given_slice(self.dimensions, rank, "the dimensions") }?;
        if let Some(negative) = dims.iter().find(|d| **d < 0) {
            return Err(Failure::argument(format!("a dimension of size {negative}")));
        }
        if !self.widths.is_null() {
            // SAFETY: as above.
            let widths = unsafe { given_slice(self.widths, rank, "the widths") }?;
            if widths != dims {
                return Err(Failure::argument("a padded array where one without padding is taken"));
            }
        }
        let mut shape = ArrayShape::new(ty, dims.to_vec());
        if !self.dynamic.is_null() {
            // SAFETY: as above.
            let dynamic = unsafe { given_slice(self.dynamic, rank, "the dynamic dimensions") }?;
            shape.dynamic = dynamic.iter().map(|&d| d != 0).collect();
        }
        if !self.minor_to_major.is_null() {
            // SAFETY: as above.
            let order = unsafe { given_slice(self.minor_to_major, rank, "the layout") }?;
            let order: Vec<usize> = order.iter().map(|&d| d as usize).collect();
            shape.layout = Some(Layout { minor_to_major: order, ..Layout::default() });
            if !shape.has_valid_layout() {
                return Err(Failure::argument("a layout is not an order of the dimensions"));
            }
            if shape.is_dense_row_major() {
                shape.layout = None;
            }
        }
        Ok(shape)
    }
}
