//! The messages of XLA's `hlo.proto` and `xla_data.proto`, as far as a program needs them.
//!
//! Field numbers are XLA's; fields that say nothing about a program are left out and skipped by the decoder. Messages that come
//! in great numbers or nest without limit (computations, instructions, elements of tuple literals) are kept as bytes, which
//! have the same form on the wire: they are decoded one at a time, so that a file never costs many times its own size.

use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Module {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub entry_name: String,
    /// Each a [`Computation`].
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub computations: Vec<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub host_program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub entry_id: i64,
    #[prost(message, optional, tag = "7")]
    pub schedule: Option<Schedule>,
    #[prost(message, optional, tag = "8")]
    pub aliases: Option<Aliases>,
    #[prost(message, optional, tag = "17")]
    pub stack_frames: Option<StackFrameIndex>,
    #[prost(message, optional, tag = "18")]
    pub donors: Option<Donors>,
    #[prost(message, optional, tag = "19")]
    pub frontend_attributes: Option<FrontendAttributes>,
    #[prost(bytes = "bytes", repeated, tag = "22")]
    pub payloads: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Schedule {
    #[prost(message, repeated, tag = "1")]
    pub sequences: Vec<Sequence>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sequence {
    #[prost(int64, tag = "1")]
    pub computation: i64,
    #[prost(message, optional, tag = "2")]
    pub instructions: Option<Ids>,
}

/// A message whose one field is a list of numbers: a sequence of instructions, a replica group, a tile, parameter-free paths.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Ids {
    #[prost(int64, repeated, tag = "1")]
    pub ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Aliases {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<AliasEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AliasEntry {
    #[prost(int64, repeated, tag = "1")]
    pub output_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub parameter: i64,
    #[prost(int64, repeated, tag = "3")]
    pub parameter_index: Vec<i64>,
    /// 1 may, 2 must.
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Donors {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Donor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Donor {
    #[prost(int64, tag = "1")]
    pub parameter: i64,
    #[prost(int64, repeated, tag = "2")]
    pub index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrameIndex {
    #[prost(string, repeated, tag = "1")]
    pub files: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub functions: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub locations: Vec<FileLocation>,
    #[prost(message, repeated, tag = "4")]
    pub frames: Vec<StackFrame>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FileLocation {
    #[prost(int32, tag = "1")]
    pub file_name_id: i32,
    #[prost(int32, tag = "2")]
    pub function_name_id: i32,
    #[prost(int32, tag = "3")]
    pub line: i32,
    #[prost(int32, tag = "4")]
    pub column: i32,
    #[prost(int32, tag = "5")]
    pub end_line: i32,
    #[prost(int32, tag = "6")]
    pub end_column: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrame {
    #[prost(int32, tag = "1")]
    pub file_location_id: i32,
    #[prost(int32, tag = "2")]
    pub parent_frame_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Computation {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Each an [`Instruction`].
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub instructions: Vec<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub root_id: i64,
    #[prost(bool, tag = "7")]
    pub is_fusion: bool,
    #[prost(string, tag = "8")]
    pub execution_thread: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Instruction {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub opcode: String,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<Shape>,
    #[prost(message, optional, tag = "7")]
    pub metadata: Option<Metadata>,
    /// A [`Literal`].
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

/// Bytes, or the number of an entry of [`Module::payloads`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct Payload {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub value: Option<Bytes>,
    #[prost(int64, optional, tag = "2")]
    pub id: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Shape {
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
pub(super) struct Layout {
    #[prost(int64, repeated, tag = "1")]
    pub minor_to_major: Vec<i64>,
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
pub(super) struct Split {
    #[prost(int64, tag = "1")]
    pub dimension: i64,
    #[prost(int64, repeated, tag = "2")]
    pub indices: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramShape {
    #[prost(message, repeated, tag = "1")]
    pub parameters: Vec<Shape>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<Shape>,
    #[prost(string, repeated, tag = "3")]
    pub names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(string, tag = "1")]
    pub op_type: String,
    #[prost(string, tag = "2")]
    pub op_name: String,
    #[prost(string, tag = "3")]
    pub source_file: String,
    #[prost(int32, tag = "4")]
    pub source_line: i32,
    #[prost(int32, repeated, tag = "5")]
    pub profile_type: Vec<i32>,
    #[prost(string, tag = "12")]
    pub deduplicated_name: String,
    #[prost(int32, tag = "15")]
    pub stack_frame_id: i32,
    #[prost(string, tag = "16")]
    pub scheduling_name: String,
    #[prost(int32, tag = "17")]
    pub source_end_line: i32,
    #[prost(int32, tag = "18")]
    pub source_column: i32,
    #[prost(int32, tag = "19")]
    pub source_end_column: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Literal {
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

#[derive(Clone, PartialEq, Message)]
pub(super) struct Window {
    #[prost(message, repeated, tag = "1")]
    pub dims: Vec<WindowDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WindowDimension {
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
pub(super) struct ConvolutionDims {
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
pub(super) struct Slice {
    #[prost(int64, tag = "1")]
    pub start: i64,
    #[prost(int64, tag = "2")]
    pub limit: i64,
    #[prost(int64, tag = "3")]
    pub stride: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Padding {
    #[prost(message, repeated, tag = "1")]
    pub dims: Vec<PaddingDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PaddingDimension {
    #[prost(int64, tag = "1")]
    pub low: i64,
    #[prost(int64, tag = "2")]
    pub high: i64,
    #[prost(int64, tag = "3")]
    pub interior: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DotDims {
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
pub(super) struct RaggedDotDims {
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
pub(super) struct IndexedDims {
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

#[derive(Clone, PartialEq, Message)]
pub(super) struct Precision {
    #[prost(int32, repeated, tag = "1")]
    pub operands: Vec<i32>,
    #[prost(int32, tag = "2")]
    pub algorithm: i32,
}

/// A source and a target.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Pair {
    #[prost(int64, tag = "1")]
    pub source: i64,
    #[prost(int64, tag = "2")]
    pub target: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TriangularSolve {
    #[prost(bool, tag = "1")]
    pub left_side: bool,
    #[prost(bool, tag = "2")]
    pub lower: bool,
    #[prost(bool, tag = "3")]
    pub unit_diagonal: bool,
    #[prost(int32, tag = "4")]
    pub transpose_a: i32,
}

/// A message whose one field is a truth value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Flag {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

/// A message whose one field is a list of truth values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Flags {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
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
pub(super) struct Statistics {
    #[prost(int64, tag = "1")]
    pub visualized: i64,
    #[prost(message, repeated, tag = "2")]
    pub statistics: Vec<Statistic>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Statistic {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(double, tag = "2")]
    pub value: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeviceList {
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<Ids>,
    /// Where older versions keep what is now [`Instruction::iota_device_list`].
    #[prost(message, optional, tag = "2")]
    pub iota: Option<IotaDeviceList>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IotaDeviceList {
    #[prost(int64, tag = "1")]
    pub groups: i64,
    #[prost(int64, tag = "2")]
    pub members: i64,
    #[prost(int64, repeated, tag = "3")]
    pub reshape: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub transpose: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MeshDeviceList {
    #[prost(message, optional, tag = "1")]
    pub mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "2")]
    pub axes: Vec<AxisRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mesh {
    #[prost(message, repeated, tag = "1")]
    pub axes: Vec<MeshAxis>,
    #[prost(int64, repeated, tag = "2")]
    pub device_ids: Vec<i64>,
    #[prost(message, optional, tag = "3")]
    pub iota: Option<IotaTransform>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MeshAxis {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IotaTransform {
    #[prost(int64, repeated, tag = "1")]
    pub reshape: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub transpose: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AxisRef {
    #[prost(int64, tag = "1")]
    pub axis: i64,
    #[prost(message, optional, tag = "2")]
    pub part: Option<SubAxis>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SubAxis {
    #[prost(int64, tag = "1")]
    pub pre_size: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sharding {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(int64, repeated, tag = "3")]
    pub tile_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    pub elements: Vec<Sharding>,
    #[prost(bool, tag = "6")]
    pub replicate_on_last_dim: bool,
    #[prost(message, repeated, tag = "7")]
    pub metadata: Vec<Metadata>,
    #[prost(int32, repeated, tag = "8")]
    pub last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    pub iota_reshape: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    pub iota_transpose: Vec<i32>,
    #[prost(bool, tag = "11")]
    pub is_shard_group: bool,
    #[prost(int64, tag = "12")]
    pub shard_group_id: i64,
    /// 0 as, 1 like.
    #[prost(int32, tag = "13")]
    pub shard_group_type: i32,
    #[prost(message, optional, tag = "14")]
    pub named: Option<NamedSharding>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NamedSharding {
    #[prost(message, optional, tag = "2")]
    pub mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "3")]
    pub dims: Vec<DimSharding>,
    #[prost(message, repeated, tag = "4")]
    pub replicated: Vec<AxisRef>,
    #[prost(message, repeated, tag = "5")]
    pub unreduced: Vec<AxisRef>,
    #[prost(message, repeated, tag = "6")]
    pub metadata: Vec<Metadata>,
    #[prost(message, repeated, tag = "7")]
    pub manual: Vec<AxisRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DimSharding {
    #[prost(message, repeated, tag = "1")]
    pub axes: Vec<AxisRef>,
    #[prost(bool, tag = "2")]
    pub is_closed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OriginalValue {
    #[prost(message, repeated, tag = "1")]
    pub elements: Vec<OriginalElement>,
    #[prost(bool, tag = "2")]
    pub is_synthetic_call: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OriginalElement {
    #[prost(int64, repeated, tag = "1")]
    pub index: Vec<i64>,
    #[prost(message, optional, tag = "2")]
    pub array: Option<OriginalArray>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OriginalArray {
    #[prost(string, tag = "1")]
    pub instruction: String,
    #[prost(int64, repeated, tag = "2")]
    pub index: Vec<i64>,
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
pub(super) struct SparsityConfig {
    #[prost(message, optional, tag = "1")]
    pub lhs: Option<TensorSparsity>,
    #[prost(message, optional, tag = "2")]
    pub rhs: Option<TensorSparsity>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorSparsity {
    #[prost(int64, tag = "1")]
    pub non_zero: i64,
    #[prost(int64, tag = "2")]
    pub block_size: i64,
    #[prost(int64, tag = "3")]
    pub dimension: i64,
    #[prost(int64, tag = "4")]
    pub stride: i64,
}

/// `HloInputs`: what one device was given. An `HloSnapshot` has its own list.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Inputs {
    /// Each a [`Literal`].
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub arguments: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub descriptors: Vec<Bytes>,
}
