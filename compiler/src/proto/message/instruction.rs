//! An instruction, and the options of single opcodes.

use super::{
    ConvolutionDims, DeviceList, DotDims, Flag, Flags, Ids, IndexedDims, IotaDeviceList, MeshDeviceList, Metadata,
    OriginalValue, Padding, Payload, RaggedDotDims, Shape, Sharding, Slice, Statistics, Window,
};
use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Instruction {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub opcode: String,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<Shape>,
    #[prost(message, optional, tag = "7")]
    pub metadata: Option<Metadata>,
    /// A [`Literal`](super::Literal).
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub literal: Option<Bytes>,
    #[prost(int64, tag = "9")]
    pub parameter_number: i64,
    #[prost(string, tag = "11")]
    pub fusion_kind: String,
    #[prost(int64, tag = "13")]
    pub tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub dimensions: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub window: Option<Window>,
    #[prost(message, optional, tag = "16")]
    pub convolution_dims: Option<ConvolutionDims>,
    #[prost(message, repeated, tag = "17")]
    pub slices: Vec<Slice>,
    #[prost(int32, tag = "18")]
    pub exponent_bits: i32,
    #[prost(int32, tag = "19")]
    pub mantissa_bits: i32,
    #[prost(int64, repeated, tag = "20")]
    pub dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, tag = "21")]
    pub padding: Option<Padding>,
    #[prost(bytes = "bytes", tag = "22")]
    pub outfeed_config: Bytes,
    #[prost(int32, tag = "23")]
    pub distribution: i32,
    #[prost(float, tag = "24")]
    pub epsilon: f32,
    #[prost(int64, tag = "25")]
    pub feature_index: i64,
    #[prost(int64, tag = "26")]
    pub channel_id: i64,
    #[prost(bytes = "bytes", tag = "27")]
    pub infeed_config: Bytes,
    #[prost(string, tag = "28")]
    pub custom_call_target: String,
    #[prost(message, optional, tag = "29")]
    pub outfeed_shape: Option<Shape>,
    #[prost(message, optional, tag = "30")]
    pub dot_dims: Option<DotDims>,
    #[prost(int32, tag = "31")]
    pub fft_type: i32,
    #[prost(int64, repeated, tag = "32")]
    pub fft_length: Vec<i64>,
    #[prost(message, optional, tag = "33")]
    pub gather_dims: Option<IndexedDims>,
    #[prost(int64, repeated, tag = "34")]
    pub gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operands: Vec<i64>,
    #[prost(int64, repeated, tag = "37")]
    pub control_predecessors: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called: Vec<i64>,
    #[prost(message, optional, tag = "40")]
    pub sharding: Option<Sharding>,
    #[prost(bytes = "bytes", tag = "43")]
    pub backend_config: Bytes,
    #[prost(int64, tag = "45")]
    pub all_reduce_id: i64,
    #[prost(bool, tag = "47")]
    pub is_host_transfer: bool,
    #[prost(message, optional, tag = "48")]
    pub scatter_dims: Option<IndexedDims>,
    #[prost(message, repeated, tag = "49")]
    pub replica_groups: Vec<Ids>,
    #[prost(int64, tag = "50")]
    pub feature_group_count: i64,
    #[prost(message, optional, tag = "51")]
    pub precision: Option<Precision>,
    #[prost(message, repeated, tag = "52")]
    pub source_target_pairs: Vec<Pair>,
    #[prost(message, optional, tag = "54")]
    pub domain_entry: Option<Sharding>,
    #[prost(message, optional, tag = "55")]
    pub domain_exit: Option<Sharding>,
    #[prost(bool, tag = "56")]
    pub constrain_layout: bool,
    #[prost(message, repeated, tag = "57")]
    pub operand_shapes: Vec<Shape>,
    #[prost(int64, tag = "58")]
    pub batch_group_count: i64,
    #[prost(message, optional, tag = "59")]
    pub triangular_solve: Option<TriangularSolve>,
    #[prost(bool, tag = "60")]
    pub is_stable: bool,
    #[prost(message, optional, tag = "61")]
    pub parameter_replication: Option<Flags>,
    #[prost(message, optional, tag = "62")]
    pub cholesky: Option<Flag>,
    #[prost(string, tag = "63")]
    pub comparison_direction: String,
    #[prost(bool, tag = "65")]
    pub has_side_effect: bool,
    #[prost(int64, tag = "66")]
    pub delta: i64,
    #[prost(bool, tag = "67")]
    pub indices_are_sorted: bool,
    #[prost(message, optional, tag = "68")]
    pub frontend_attributes: Option<FrontendAttributes>,
    #[prost(bool, tag = "69")]
    pub unique_indices: bool,
    #[prost(int32, tag = "70")]
    pub rng_algorithm: i32,
    #[prost(bool, tag = "71")]
    pub use_global_device_ids: bool,
    #[prost(string, tag = "72")]
    pub comparison_type: String,
    #[prost(message, repeated, tag = "74")]
    pub output_operand_aliasing: Vec<OperandAlias>,
    #[prost(int32, tag = "75")]
    pub padding_type: i32,
    #[prost(int32, tag = "76")]
    pub schedule: i32,
    #[prost(int32, tag = "77")]
    pub api_version: i32,
    #[prost(string, tag = "79")]
    pub async_execution_thread: String,
    #[prost(int32, optional, tag = "80")]
    pub cross_program_prefetch_index: Option<i32>,
    #[prost(int64, tag = "81")]
    pub k: i64,
    #[prost(message, optional, tag = "82")]
    pub statistics: Option<Statistics>,
    #[prost(bool, tag = "85")]
    pub largest: bool,
    #[prost(message, repeated, tag = "86")]
    pub dot_sparsity: Vec<Ids>,
    #[prost(message, optional, tag = "87")]
    pub device_list: Option<DeviceList>,
    #[prost(message, optional, tag = "88")]
    pub original_value: Option<OriginalValue>,
    #[prost(bool, tag = "89")]
    pub is_composite: bool,
    #[prost(message, optional, tag = "90")]
    pub ragged_dot_dims: Option<RaggedDotDims>,
    #[prost(message, optional, tag = "91")]
    pub result_accuracy: Option<ResultAccuracy>,
    #[prost(message, optional, tag = "92")]
    pub iota_device_list: Option<IotaDeviceList>,
    #[prost(message, optional, tag = "93")]
    pub mesh_device_list: Option<MeshDeviceList>,
    #[prost(bool, tag = "94")]
    pub is_reverse: bool,
    #[prost(int64, tag = "95")]
    pub num_carries: i64,
    /// 1 true, 2 false.
    #[prost(int32, tag = "96")]
    pub is_associative: i32,
    #[prost(int32, tag = "97")]
    pub convolution_kind: i32,
    #[prost(message, optional, tag = "98")]
    pub sparsity_config: Option<SparsityConfig>,
    #[prost(message, optional, tag = "99")]
    pub backend_config_payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Precision {
    #[prost(int32, repeated, tag = "1")]
    pub operands: Vec<i32>,
    #[prost(int32, tag = "2")]
    pub algorithm: i32,
}

/// A source and a target.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Pair {
    #[prost(int64, tag = "1")]
    pub source: i64,
    #[prost(int64, tag = "2")]
    pub target: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct TriangularSolve {
    #[prost(bool, tag = "1")]
    pub left_side: bool,
    #[prost(bool, tag = "2")]
    pub lower: bool,
    #[prost(bool, tag = "3")]
    pub unit_diagonal: bool,
    #[prost(int32, tag = "4")]
    pub transpose_a: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperandAlias {
    #[prost(int64, repeated, tag = "1")]
    pub output_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub operand: i64,
    #[prost(int64, repeated, tag = "3")]
    pub operand_index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FrontendAttributes {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResultAccuracy {
    #[prost(int32, optional, tag = "1")]
    pub mode: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub tolerance: Option<Tolerance>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tolerance {
    #[prost(double, tag = "1")]
    pub atol: f64,
    #[prost(double, tag = "2")]
    pub rtol: f64,
    #[prost(int64, tag = "3")]
    pub ulps: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct SparsityConfig {
    #[prost(message, optional, tag = "1")]
    pub lhs: Option<TensorSparsity>,
    #[prost(message, optional, tag = "2")]
    pub rhs: Option<TensorSparsity>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct TensorSparsity {
    #[prost(int64, tag = "1")]
    pub non_zero: i64,
    #[prost(int64, tag = "2")]
    pub block_size: i64,
    #[prost(int64, tag = "3")]
    pub dimension: i64,
    #[prost(int64, tag = "4")]
    pub stride: i64,
}
