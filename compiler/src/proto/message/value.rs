//! Shapes, layouts and literals.

use super::Ids;
use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Shape {
    #[prost(int32, tag = "2")]
    pub element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub elements: Vec<Shape>,
    #[prost(message, optional, boxed, tag = "5")]
    pub layout: Option<Box<Layout>>,
    #[prost(bool, repeated, tag = "6")]
    pub dynamic: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Layout {
    #[prost(int64, repeated, tag = "1")]
    pub minor_to_major: Vec<i64>,
    /// This and the next stand where XLA had them while its layouts had padding; it now reserves both numbers.
    #[prost(int64, repeated, tag = "2")]
    pub padded_dimensions: Vec<i64>,
    #[prost(uint32, tag = "3")]
    pub padding_value: u32,
    #[prost(message, repeated, tag = "6")]
    pub tiles: Vec<Ids>,
    #[prost(int64, tag = "7")]
    pub element_size_in_bits: i64,
    #[prost(int64, tag = "8")]
    pub memory_space: i64,
    #[prost(int32, repeated, tag = "9")]
    pub dim_level_types: Vec<i32>,
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub physical_shape: Option<Bytes>,
    #[prost(int32, tag = "11")]
    pub index_type: i32,
    #[prost(int32, tag = "12")]
    pub pointer_type: i32,
    #[prost(bool, repeated, tag = "13")]
    pub dim_unique: Vec<bool>,
    #[prost(bool, repeated, tag = "14")]
    pub dim_ordered: Vec<bool>,
    #[prost(int64, tag = "15")]
    pub metadata_prefix_bytes: i64,
    #[prost(int64, tag = "16")]
    pub tail_padding_alignment: i64,
    #[prost(message, repeated, tag = "17")]
    pub splits: Vec<Split>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Split {
    #[prost(int64, tag = "1")]
    pub dimension: i64,
    #[prost(int64, repeated, tag = "2")]
    pub indices: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct ProgramShape {
    #[prost(message, repeated, tag = "1")]
    pub parameters: Vec<Shape>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<Shape>,
    #[prost(string, repeated, tag = "3")]
    pub names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Literal {
    #[prost(message, optional, tag = "1")]
    pub shape: Option<Shape>,
    #[prost(bool, repeated, tag = "2")]
    pub preds: Vec<bool>,
    #[prost(bytes = "bytes", tag = "3")]
    pub u8s: Bytes,
    #[prost(int32, repeated, tag = "4")]
    pub s32s: Vec<i32>,
    #[prost(int64, repeated, tag = "5")]
    pub s64s: Vec<i64>,
    #[prost(uint32, repeated, tag = "6")]
    pub u32s: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub u64s: Vec<u64>,
    #[prost(float, repeated, tag = "8")]
    pub f32s: Vec<f32>,
    #[prost(double, repeated, tag = "9")]
    pub f64s: Vec<f64>,
    /// Each a [`Literal`].
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub elements: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "11")]
    pub f16s: Bytes,
    #[prost(float, repeated, tag = "12")]
    pub c64s: Vec<f32>,
    #[prost(bytes = "bytes", tag = "13")]
    pub bf16s: Bytes,
    #[prost(int64, repeated, tag = "14")]
    pub sparse_indices: Vec<i64>,
    #[prost(bytes = "bytes", tag = "15")]
    pub s8s: Bytes,
    #[prost(bytes = "bytes", tag = "16")]
    pub u16s: Bytes,
    #[prost(bytes = "bytes", tag = "17")]
    pub s16s: Bytes,
    #[prost(double, repeated, tag = "18")]
    pub c128s: Vec<f64>,
    #[prost(bytes = "bytes", tag = "19")]
    pub f8e5m2s: Bytes,
    #[prost(bytes = "bytes", tag = "20")]
    pub f8e4m3fns: Bytes,
    #[prost(bytes = "bytes", tag = "21")]
    pub s4s: Bytes,
    #[prost(bytes = "bytes", tag = "22")]
    pub u4s: Bytes,
    #[prost(bytes = "bytes", tag = "23")]
    pub f8e4m3b11fnuzs: Bytes,
    #[prost(bytes = "bytes", tag = "24")]
    pub f8e5m2fnuzs: Bytes,
    #[prost(bytes = "bytes", tag = "25")]
    pub f8e4m3fnuzs: Bytes,
    #[prost(bytes = "bytes", tag = "26")]
    pub s2s: Bytes,
    #[prost(bytes = "bytes", tag = "27")]
    pub u2s: Bytes,
    #[prost(bytes = "bytes", tag = "28")]
    pub f8e4m3s: Bytes,
    #[prost(bytes = "bytes", tag = "29")]
    pub f8e3m4s: Bytes,
    #[prost(bytes = "bytes", tag = "30")]
    pub s1s: Bytes,
    #[prost(bytes = "bytes", tag = "31")]
    pub u1s: Bytes,
    #[prost(bytes = "bytes", tag = "32")]
    pub f4e2m1fns: Bytes,
    #[prost(bytes = "bytes", tag = "33")]
    pub f8e8m0fnus: Bytes,
    #[prost(int32, repeated, tag = "34")]
    pub dynamic_sizes: Vec<i32>,
}
