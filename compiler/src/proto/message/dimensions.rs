//! Numbers of dimensions, windows and paddings.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Window {
    #[prost(message, repeated, tag = "1")]
    pub dims: Vec<WindowDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct WindowDimension {
    #[prost(int64, tag = "1")]
    pub size: i64,
    #[prost(int64, tag = "2")]
    pub stride: i64,
    #[prost(int64, tag = "3")]
    pub padding_low: i64,
    #[prost(int64, tag = "4")]
    pub padding_high: i64,
    #[prost(int64, tag = "5")]
    pub window_dilation: i64,
    #[prost(int64, tag = "6")]
    pub base_dilation: i64,
    #[prost(bool, tag = "7")]
    pub reversal: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct ConvolutionDims {
    #[prost(int64, tag = "3")]
    pub kernel_input_feature: i64,
    #[prost(int64, tag = "4")]
    pub kernel_output_feature: i64,
    #[prost(int64, repeated, tag = "6")]
    pub kernel_spatial: Vec<i64>,
    #[prost(int64, tag = "7")]
    pub input_batch: i64,
    #[prost(int64, tag = "8")]
    pub input_feature: i64,
    #[prost(int64, tag = "9")]
    pub output_batch: i64,
    #[prost(int64, tag = "10")]
    pub output_feature: i64,
    #[prost(int64, repeated, tag = "11")]
    pub input_spatial: Vec<i64>,
    #[prost(int64, repeated, tag = "12")]
    pub output_spatial: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Slice {
    #[prost(int64, tag = "1")]
    pub start: i64,
    #[prost(int64, tag = "2")]
    pub limit: i64,
    #[prost(int64, tag = "3")]
    pub stride: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Padding {
    #[prost(message, repeated, tag = "1")]
    pub dims: Vec<PaddingDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct PaddingDimension {
    #[prost(int64, tag = "1")]
    pub low: i64,
    #[prost(int64, tag = "2")]
    pub high: i64,
    #[prost(int64, tag = "3")]
    pub interior: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct DotDims {
    #[prost(int64, repeated, tag = "1")]
    pub lhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub rhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub lhs_batch: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub rhs_batch: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct RaggedDotDims {
    #[prost(message, optional, tag = "1")]
    pub dot: Option<DotDims>,
    #[prost(int64, repeated, tag = "2")]
    pub lhs_ragged: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub rhs_group: Vec<i64>,
}

/// Gather: offset, collapsed, start index map, operand batching, start indices batching. Scatter: update window, inserted
/// window, scatter to operand, input batching, scatter indices batching.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct IndexedDims {
    #[prost(int64, repeated, tag = "1")]
    pub window: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub dropped: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub map: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    #[prost(int64, repeated, tag = "5")]
    pub operand_batching: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub indices_batching: Vec<i64>,
}
