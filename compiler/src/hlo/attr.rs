//! Attributes: everything an instruction says besides its shape, opcode and operands.
//!
//! Problem: HLO has some ninety attribute names with a dozen kinds of value. Invariant: one table, [`AttrKey`], says
//! which kind a name takes and which words it admits; the parser and the printer are driven by it, and an
//! instruction holds its attributes in the order of the table, so that equal instructions compare and print equal.

use super::{ComputationId, InstructionId};
use brolga_runtime::{Literal, Shape};
use std::sync::Arc;

/// The kind of value that an attribute takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// `3`
    Int,
    /// `true`
    Bool,
    /// `1e-05`
    Float,
    /// `{1,2}`
    Ints,
    /// `"text"`
    Str,
    /// One of a closed set of words.
    Word(&'static [&'static str]),
    /// `%name` of a computation
    Computation,
    /// `{%a, %b}`
    Computations,
    /// `{size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=.. rhs_dilate=.. rhs_reversal=..}`
    Window,
    /// `b01f_01io->b01f`
    DimLabels,
    /// `0_1_2x3_4`: low, high and optional interior amounts
    Padding,
    /// `{[0:2], [1:7:2]}`
    SliceRanges,
    /// `{highest,default}`: words of a closed set.
    Words(&'static [&'static str]),
    /// `{%a, %b}`: instructions of the same computation
    Instructions,
    /// A shape.
    Shape,
    /// `{f32[2]{0}, s32[]}`
    Shapes,
    /// Balanced text kept as read: braces, a quoted string, or a bare run of characters up to the next comma.
    Raw,
    /// The argument of `constant(...)`.
    Literal,
}

macro_rules! attrs {
    ($($variant:ident $text:literal $kind:expr;)*) => {
        /// The name of an attribute. The order of the table is the printing order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum AttrKey { $(#[doc = concat!("`", $text, "`")] $variant,)* }

        impl AttrKey {
            /// Every attribute, in the order of the table.
            pub const ALL: &'static [AttrKey] = &[$(AttrKey::$variant,)*];

            /// The name in HLO text. Names in parentheses are written in operand position and never as `name=`.
            pub const fn name(self) -> &'static str { match self { $(AttrKey::$variant => $text,)* } }

            /// The kind of value it takes.
            pub const fn kind(self) -> AttrKind { use AttrKind::*; match self { $(AttrKey::$variant => $kind,)* } }
        }
    };
}

attrs! {
    // Written in operand position.
    ParameterNumber "(parameter)" Int;
    Literal "literal" Literal;

    Dimensions "dimensions" Ints;
    Index "index" Int;
    IotaDimension "iota_dimension" Int;
    InferredDimension "inferred_dimension" Int;
    Slice "slice" SliceRanges;
    DynamicSliceSizes "dynamic_slice_sizes" Ints;
    Padding "padding" Padding;
    SourceLayout "source_layout" Raw;
    ResultLayout "result_layout" Raw;

    Direction "direction" Word(&["EQ", "NE", "GE", "GT", "LE", "LT"]);
    ComparisonType "type" Word(&["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]);
    ExponentBits "exponent_bits" Int;
    MantissaBits "mantissa_bits" Int;
    ResultAccuracy "result_accuracy" Raw;

    Window "window" Window;
    DimLabels "dim_labels" DimLabels;
    FeatureGroupCount "feature_group_count" Int;
    BatchGroupCount "batch_group_count" Int;
    ConvolutionKind "convolution_kind" Word(&["unset", "fprop", "dgrad", "wgrad"]);
    SparsityConfig "sparsity_config" Raw;
    PaddingType "padding_type" Word(&["PADDING_VALID", "PADDING_SAME", "PADDING_INVALID"]);
    LhsBatchDims "lhs_batch_dims" Ints;
    LhsContractingDims "lhs_contracting_dims" Ints;
    RhsBatchDims "rhs_batch_dims" Ints;
    RhsContractingDims "rhs_contracting_dims" Ints;
    LhsRaggedDims "lhs_ragged_dims" Ints;
    RhsGroupDims "rhs_group_dims" Ints;
    Sparsity "sparsity" Raw;
    Algorithm "algorithm" Raw;
    OperandPrecision "operand_precision" Words(&["default", "high", "highest", "packed_nibble"]);

    OffsetDims "offset_dims" Ints;
    CollapsedSliceDims "collapsed_slice_dims" Ints;
    StartIndexMap "start_index_map" Ints;
    OperandBatchingDims "operand_batching_dims" Ints;
    StartIndicesBatchingDims "start_indices_batching_dims" Ints;
    UpdateWindowDims "update_window_dims" Ints;
    InsertedWindowDims "inserted_window_dims" Ints;
    ScatterDimsToOperandDims "scatter_dims_to_operand_dims" Ints;
    InputBatchingDims "input_batching_dims" Ints;
    ScatterIndicesBatchingDims "scatter_indices_batching_dims" Ints;
    IndexVectorDim "index_vector_dim" Int;
    SliceSizes "slice_sizes" Ints;
    IndicesAreSorted "indices_are_sorted" Bool;
    UniqueIndices "unique_indices" Bool;

    Epsilon "epsilon" Float;
    FeatureIndex "feature_index" Int;
    IsReverse "is_reverse" Bool;
    IsAssociative "is_associative" Raw;
    NumCarries "num_carries" Int;

    LeftSide "left_side" Bool;
    Lower "lower" Bool;
    UnitDiagonal "unit_diagonal" Bool;
    TransposeA "transpose_a" Word(&["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]);
    FftType "fft_type" Word(&["FFT", "IFFT", "RFFT", "IRFFT"]);
    FftLength "fft_length" Ints;

    IsStable "is_stable" Bool;
    K "k" Int;
    Largest "largest" Bool;

    Distribution "distribution" Word(&["rng_uniform", "rng_normal", "rng_bernoulli"]);
    Delta "delta" Int;

    ChannelId "channel_id" Int;
    ReplicaGroups "replica_groups" Raw;
    UseGlobalDeviceIds "use_global_device_ids" Bool;
    ConstrainLayout "constrain_layout" Bool;
    CollectiveMode "mode" Word(&["cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id"]);
    SourceTargetPairs "source_target_pairs" Raw;
    SliceSizesPerDevice "slice_sizes_per_device" Raw;
    Inplace "inplace" Raw;
    IsHostTransfer "is_host_transfer" Bool;
    ParameterReplication "parameter_replication" Raw;
    DomainInfo "domain" Raw;
    CrossProgramPrefetchIndex "cross_program_prefetch_index" Int;

    InfeedConfig "infeed_config" Str;
    InfeedShape "infeed_shape" Shape;
    OutfeedConfig "outfeed_config" Str;
    OutfeedShape "outfeed_shape" Shape;

    CustomCallTarget "custom_call_target" Str;
    OperandLayoutConstraints "operand_layout_constraints" Shapes;
    CustomCallHasSideEffect "custom_call_has_side_effect" Bool;
    ApiVersion "api_version" Word(&["API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"]);
    CustomCallSchedule "schedule" Word(&["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"]);
    OutputToOperandAliasing "output_to_operand_aliasing" Raw;

    ToApply "to_apply" Computation;
    SelectComputation "select" Computation;
    ScatterComputation "scatter" Computation;
    Condition "condition" Computation;
    Body "body" Computation;
    TrueComputation "true_computation" Computation;
    FalseComputation "false_computation" Computation;
    BranchComputations "branch_computations" Computations;
    CalledComputations "called_computations" Computations;
    FusionKind "kind" Word(&["kLoop", "kInput", "kOutput", "kCustom"]);
    Calls "calls" Computation;
    IsComposite "is_composite" Bool;
    AsyncExecutionThread "async_execution_thread" Str;

    // What every instruction may carry.
    Sharding "sharding" Raw;
    ControlPredecessors "control-predecessors" Instructions;
    FrontendAttributes "frontend_attributes" Raw;
    Metadata "metadata" Raw;
    BackendConfig "backend_config" Raw;
    Statistics "statistics" Raw;
    Origin "origin" Raw;
}

impl AttrKey {
    /// The attributes that every instruction may carry.
    pub const COMMON: &'static [AttrKey] = &[
        AttrKey::Sharding,
        AttrKey::ControlPredecessors,
        AttrKey::FrontendAttributes,
        AttrKey::Metadata,
        AttrKey::BackendConfig,
        AttrKey::Statistics,
        AttrKey::Origin,
    ];

    /// The attribute called `name` in HLO text.
    pub fn from_name(name: &str) -> Option<AttrKey> {
        use std::collections::HashMap;
        use std::sync::OnceLock;
        static BY_NAME: OnceLock<HashMap<&'static str, AttrKey>> = OnceLock::new();
        BY_NAME.get_or_init(|| AttrKey::ALL.iter().map(|&key| (key.name(), key)).collect()).get(name).copied()
    }
}

/// One dimension of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowDimension {
    /// Elements in the window.
    pub size: i64,
    /// Step between windows.
    pub stride: i64,
    /// Padding before the first element; may be negative.
    pub padding_low: i64,
    /// Padding after the last element; may be negative.
    pub padding_high: i64,
    /// Distance between neighbouring window elements, 1 for dense.
    pub window_dilation: i64,
    /// Distance between neighbouring base elements, 1 for dense.
    pub base_dilation: i64,
    /// Whether the window is applied back to front (convolution only).
    pub reversal: bool,
}

impl Default for WindowDimension {
    fn default() -> Self {
        WindowDimension {
            size: 1,
            stride: 1,
            padding_low: 0,
            padding_high: 0,
            window_dilation: 1,
            base_dilation: 1,
            reversal: false,
        }
    }
}

/// Which dimension of each convolution operand means what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConvolutionDims {
    /// Batch dimension of the input.
    pub input_batch: usize,
    /// Feature dimension of the input.
    pub input_feature: usize,
    /// Spatial dimensions of the input, in order.
    pub input_spatial: Vec<usize>,
    /// Input-feature dimension of the kernel.
    pub kernel_input_feature: usize,
    /// Output-feature dimension of the kernel.
    pub kernel_output_feature: usize,
    /// Spatial dimensions of the kernel, in order.
    pub kernel_spatial: Vec<usize>,
    /// Batch dimension of the output.
    pub output_batch: usize,
    /// Feature dimension of the output.
    pub output_feature: usize,
    /// Spatial dimensions of the output, in order.
    pub output_spatial: Vec<usize>,
}

impl ConvolutionDims {
    /// `b0..f_0..io->b0..f`, of so many spatial dimensions.
    pub fn with_features_last(spatial: usize) -> ConvolutionDims {
        let last = spatial + 1;
        ConvolutionDims {
            input_batch: 0,
            input_feature: last,
            input_spatial: (1..last).collect(),
            kernel_input_feature: spatial,
            kernel_output_feature: last,
            kernel_spatial: (0..spatial).collect(),
            output_batch: 0,
            output_feature: last,
            output_spatial: (1..last).collect(),
        }
    }

    /// Whether the features of input and output are their last dimensions.
    pub fn features_last(&self) -> bool {
        let last = self.input_spatial.len() + 1;
        (self.input_feature, self.output_feature) == (last, last)
    }

    /// The dimensions of input, kernel and output in the order of [`ConvolutionDims::with_features_last`].
    pub fn orders(&self) -> [Vec<usize>; 3] {
        let order = |first: &[usize], spatial: &[usize], last: &[usize]| [first, spatial, last].concat();
        [
            order(&[self.input_batch], &self.input_spatial, &[self.input_feature]),
            order(&[], &self.kernel_spatial, &[self.kernel_input_feature, self.kernel_output_feature]),
            order(&[self.output_batch], &self.output_spatial, &[self.output_feature]),
        ]
    }
}

/// Padding of one dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PaddingDimension {
    /// Elements before the first; negative cuts.
    pub low: i64,
    /// Elements after the last; negative cuts.
    pub high: i64,
    /// Elements between neighbours; never negative.
    pub interior: i64,
}

/// One dimension of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceRange {
    /// First index taken.
    pub start: i64,
    /// One past the last index considered.
    pub limit: i64,
    /// Step.
    pub stride: i64,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrValue {
    /// See [`AttrKind::Int`].
    Int(i64),
    /// See [`AttrKind::Bool`].
    Bool(bool),
    /// See [`AttrKind::Float`]. HLO keeps such a number as an `f32`, in programs of `f64` too.
    Float(f32),
    /// See [`AttrKind::Ints`].
    Ints(Vec<i64>),
    /// See [`AttrKind::Str`]: unescaped.
    Str(String),
    /// See [`AttrKind::Word`].
    Word(&'static str),
    /// See [`AttrKind::Computation`].
    Computation(ComputationId),
    /// See [`AttrKind::Computations`].
    Computations(Vec<ComputationId>),
    /// See [`AttrKind::Window`]: one entry a dimension.
    Window(Vec<WindowDimension>),
    /// See [`AttrKind::DimLabels`].
    DimLabels(Box<ConvolutionDims>),
    /// See [`AttrKind::Padding`].
    Padding(Vec<PaddingDimension>),
    /// See [`AttrKind::SliceRanges`].
    SliceRanges(Vec<SliceRange>),
    /// See [`AttrKind::Words`].
    Words(Vec<&'static str>),
    /// See [`AttrKind::Instructions`].
    Instructions(Vec<InstructionId>),
    /// See [`AttrKind::Shape`].
    Shape(Shape),
    /// See [`AttrKind::Shapes`].
    Shapes(Vec<Shape>),
    /// See [`AttrKind::Raw`].
    Raw(String),
    /// See [`AttrKind::Literal`].
    Literal(Arc<Literal>),
}

/// The attributes of an instruction, sorted by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(Vec<(AttrKey, AttrValue)>);

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident, $variant:ident, $ty:ty, |$v:ident| $get:expr;)*) => {
        $($(#[$doc])* pub fn $name(&self, key: AttrKey) -> Option<$ty> {
            match self.get(key) { Some(AttrValue::$variant($v)) => Some($get), _ => None }
        })*
    };
}

impl Attrs {
    /// No attributes.
    pub fn new() -> Attrs {
        Attrs::default()
    }

    /// The value of `key`.
    pub fn get(&self, key: AttrKey) -> Option<&AttrValue> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|i| &self.0[i].1)
    }

    /// The value of `key`, to be changed in place.
    pub fn get_mut(&mut self, key: AttrKey) -> Option<&mut AttrValue> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|i| &mut self.0[i].1)
    }

    /// Sets `key`, returning what stood there.
    pub fn set(&mut self, key: AttrKey, value: AttrValue) -> Option<AttrValue> {
        match self.0.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(i) => Some(std::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    /// As [`Attrs::set`], for chains.
    pub fn with(mut self, key: AttrKey, value: AttrValue) -> Attrs {
        self.set(key, value);
        self
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: AttrKey) -> Option<AttrValue> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|i| self.0.remove(i).1)
    }

    /// All attributes in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (AttrKey, &AttrValue)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }

    /// All attributes in the order of the table, values to be changed in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (AttrKey, &mut AttrValue)> {
        self.0.iter_mut().map(|(k, v)| (*k, v))
    }

    getters! {
        /// An integer.
        int, Int, i64, |v| *v;
        /// A truth value.
        bool, Bool, bool, |v| *v;
        /// A number.
        float, Float, f64, |v| f64::from(*v);
        /// A list of integers.
        ints, Ints, &[i64], |v| v;
        /// A string.
        str, Str, &str, |v| v;
        /// A word of a closed set.
        word, Word, &'static str, |v| v;
        /// A computation.
        computation, Computation, ComputationId, |v| *v;
        /// A list of computations.
        computations, Computations, &[ComputationId], |v| v;
        /// A window.
        window, Window, &[WindowDimension], |v| v;
        /// Convolution dimension numbers.
        dim_labels, DimLabels, &ConvolutionDims, |v| v;
        /// Padding amounts.
        padding, Padding, &[PaddingDimension], |v| v;
        /// Slice ranges.
        slice_ranges, SliceRanges, &[SliceRange], |v| v;
        /// Text kept as read.
        raw, Raw, &str, |v| v;
        /// A literal.
        literal, Literal, &Arc<Literal>, |v| v;
        /// Instructions.
        instructions, Instructions, &[InstructionId], |v| v;
        /// A shape.
        shape, Shape, &Shape, |v| v;
    }

    /// A list of dimension numbers or sizes, empty where the attribute is absent.
    pub fn ints_or_empty(&self, key: AttrKey) -> &[i64] {
        self.ints(key).unwrap_or(&[])
    }

    /// A list of dimension numbers as indices, empty where the attribute is absent; the verifier has refused negative
    /// ones.
    pub fn dimension_numbers(&self, key: AttrKey) -> Vec<usize> {
        self.ints_or_empty(key).iter().map(|&d| d.max(0) as usize).collect()
    }

    /// Computations called, in attribute order.
    pub fn called(&self) -> Vec<ComputationId> {
        let mut out = Vec::new();
        for (_, value) in &self.0 {
            match value {
                AttrValue::Computation(id) => out.push(*id),
                AttrValue::Computations(ids) => out.extend(ids),
                _ => {}
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_stay_sorted() {
        let attrs = Attrs::new()
            .with(AttrKey::Body, AttrValue::Int(2))
            .with(AttrKey::Dimensions, AttrValue::Ints(vec![1]))
            .with(AttrKey::Index, AttrValue::Int(7));
        let keys: Vec<_> = attrs.iter().map(|(k, _)| k).collect();
        assert_eq!(keys, [AttrKey::Dimensions, AttrKey::Index, AttrKey::Body]);
        assert_eq!(attrs.int(AttrKey::Index), Some(7));
        assert_eq!(attrs.ints_or_empty(AttrKey::FftLength), &[] as &[i64]);
    }

    #[test]
    fn names_are_unique() {
        for &key in AttrKey::ALL {
            assert_eq!(AttrKey::from_name(key.name()), Some(key));
        }
    }
}
