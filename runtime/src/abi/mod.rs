//! The binary interface between a compiled program and whoever calls it.
//!
//! Problem: the same object is called from Rust, from C and from the in-memory loader, possibly built years apart.
//! All sides must agree on one function, one descriptor and one context, and must notice when they do not.
//!
//! Invariant: a program is one function, [`EntryFn`], and one constant blob, its *descriptor*. Both the descriptor and
//! the [`Context`] start with their own size and [`ABI_VERSION`] and only ever grow at the end. The descriptor is
//! position independent: every reference inside it is an offset from its first byte, so it needs no relocation. All
//! its numbers are little-endian. Reading one ([`DescriptorInfo::decode`]) checks everything and never panics.
//!
//! Parameters and results are the *array leaves* of the entry computation's parameters and result, depth first
//! ([`array_leaves`]); tokens and opaque values have no slot. A buffer holds the elements in the order of the leaf's layout, each
//! dimension as wide as the layout pads it (programs write the padding of results and never read that of parameters), one byte for each element of a type under a byte unless the layout says otherwise. Where a dimension is bounded
//! dynamic, the elements lie at the strides of the bound, and behind them, at the next multiple of four bytes, follows
//! one `int32_t` for each dimension: its true size. Buffers need the alignment of their element (four bytes at least
//! where sizes follow), the workspace 64 bytes. Results overlap nothing but the parameters they are declared to alias.

mod coded;
mod context;
mod decode;
mod descriptor;
mod features;
mod hash;
#[cfg(test)]
mod pinned;
mod service;
mod tensor_flags;

pub(crate) use coded::coded;
pub use context::{Context, ParallelBody, ParallelFor, Resources};
pub use decode::DescriptorError;
pub use descriptor::{
    Alias, Architecture, CustomCallAbi, CustomCallInfo, DescriptorInfo, HASH_OFFSET, HASH_SIZE, HEADER_SIZE, Leaf,
    MAGIC, MAX_LEAVES, MAX_RANK, NumericVariant, OpenDimension, Services, size_text,
};
pub use features::{IsaFeatures, host_architecture};
pub use hash::{content_hash, object_hash};
pub use service::{Implementation, ReportFn, Service, ServiceFn, encode_call};
pub use tensor_flags::{TensorFlags, UnknownTensorFlag};

use crate::{ArrayShape, Shape};
use std::ffi::c_void;

/// The version of this interface. Additions at the end of a structure do not change it; all else does.
pub const ABI_VERSION: u32 = 1;

/// Alignment of the workspace, in bytes.
pub const WORKSPACE_ALIGNMENT: usize = 64;

/// The function of a compiled program: `params[i]` and `results[i]` point to the leaves' buffers, `workspace` to
/// `fixed + workers * per_worker` bytes, and `cx` may be null where the program needs no service. Returns a [`Status`].
pub type EntryFn = unsafe extern "C" fn(
    params: *const *const c_void,
    results: *const *mut c_void,
    workspace: *mut c_void,
    cx: *const Context,
) -> i32;

macro_rules! statuses {
    ($($variant:ident $code:literal $text:literal;)*) => {
        /// What a compiled program or a service returns. Other non-zero values come from custom calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum Status { $(#[doc = $text] $variant = $code,)* }

        impl Status {
            /// Every status.
            pub const ALL: &'static [Status] = &[$(Status::$variant,)*];

            /// The status with the given number.
            pub const fn from_code(code: i32) -> Option<Status> {
                match code { $($code => Some(Status::$variant),)* _ => None }
            }

            /// The number as a program returns it.
            pub const fn code(self) -> i32 { self as i32 }

            /// What the status says, in words.
            pub const fn description(self) -> &'static str { match self { $(Status::$variant => $text,)* } }
        }
    };
}

statuses! {
    Ok 0 "success";
    InvalidArgument 1 "an argument of a service is out of range";
    MissingService 2 "the context lacks a service that the program needs";
    ServiceFailed 3 "a service failed";
    CustomCallFailed 4 "a custom call failed";
    Cancelled 5 "the run was cancelled";
    TimedOut 6 "waiting for an infeed, a channel or another replica took too long";
    Panicked 7 "the body of a parallel loop panicked";
    OutOfMemory 8 "memory is exhausted";
    WrongAbiVersion 9 "the context was made for another version of the interface";
    WrongProcessor 10 "the processor lacks instructions that the program was compiled for";
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.description())
    }
}

/// The leaves of `shape` that have a slot in the interface: its arrays and mutable buffers, depth first.
pub fn array_leaves(shape: &Shape) -> Vec<&ArrayShape> {
    shape
        .leaves()
        .into_iter()
        .filter_map(|leaf| match leaf {
            Shape::Array(a) | Shape::Buffer(a) => Some(a),
            Shape::Tuple(_) | Shape::Token | Shape::Opaque => None,
        })
        .collect()
}

/// Bytes of a leaf's buffer: the elements at the bounds with their padding, and the true sizes where a dimension is dynamic.
/// `None` where that overflows.
pub fn leaf_byte_size(shape: &ArrayShape) -> Option<u64> {
    let data = data_byte_size(shape)?;
    let total = match dynamic_sizes_offset(shape)? {
        Some(offset) => offset.checked_add(4 * shape.rank() as u64)?,
        None => data,
    };
    // Well below the address space, so that no allocation of such a buffer can overflow.
    (total <= 1 << 60).then_some(total)
}

fn data_byte_size(shape: &ArrayShape) -> Option<u64> {
    let elements = u64::try_from(shape.padded_elements()?).ok()?;
    Some(elements.checked_mul(u64::from(storage_bits(shape)))?.checked_add(7)? / 8)
}

/// Where the true sizes of a leaf with bounded dynamic dimensions start in its buffer; `Some(None)` for static leaves
/// and `None` where the size overflows.
pub fn dynamic_sizes_offset(shape: &ArrayShape) -> Option<Option<u64>> {
    if !shape.is_dynamic() {
        return Some(None);
    }
    Some(Some(data_byte_size(shape)?.checked_next_multiple_of(4)?))
}

/// Bits of one element in a buffer: the layout's `E(n)` where given, otherwise whole bytes.
pub fn storage_bits(shape: &ArrayShape) -> u32 {
    let default = 8 * shape.ty.byte_size() as u32;
    match shape.layout.as_ref().and_then(|l| u32::try_from(l.element_size_in_bits).ok()) {
        Some(bits @ 1..) => bits.min(128),
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementType, Layout};

    #[test]
    fn leaves_skip_tokens() {
        let shape =
            Shape::tuple(vec![Shape::scalar(ElementType::F32), Shape::Token, Shape::array(ElementType::S8, [3])]);
        assert_eq!(array_leaves(&shape).len(), 2);
    }

    #[test]
    fn sizes_count_bounds_and_packing() {
        let mut a = ArrayShape::new(ElementType::S4, [3, 5]);
        assert_eq!(leaf_byte_size(&a), Some(15));
        a.layout = Some(Layout { element_size_in_bits: 4, ..Layout::row_major(2) });
        assert_eq!(leaf_byte_size(&a), Some(8));
        let padded = Layout { padded_dimensions: vec![4, 5], ..Layout::row_major(2) };
        a.layout = Some(padded);
        assert_eq!(leaf_byte_size(&a), Some(20));
        let mut d = ArrayShape::new(ElementType::S8, [3, 3]);
        d.dynamic = vec![false, true];
        assert_eq!(dynamic_sizes_offset(&d), Some(Some(12)));
        assert_eq!(leaf_byte_size(&d), Some(20));
        assert_eq!(leaf_byte_size(&ArrayShape::new(ElementType::F32, [i64::MAX, 2])), None);
    }

    #[test]
    fn statuses_round_trip() {
        for &s in Status::ALL {
            assert_eq!(Status::from_code(s.code()), Some(s));
        }
    }
}
