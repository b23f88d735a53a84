//! The table of opcodes: one row an operation.
//!
//! A row gives the text name, how many operands, the category, and which attributes the text must and may carry. The
//! parser, the printer, the verifier and the documents all read this table.

use super::attr::AttrKey;
use std::fmt;

/// How many operands an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly so many.
    Exactly(usize),
    /// From the first number to the second, both included.
    Between(usize, usize),
    /// So many or more.
    AtLeast(usize),
}

impl Arity {
    /// Whether `n` operands are allowed.
    pub fn allows(self, n: usize) -> bool {
        match self {
            Arity::Exactly(k) => n == k,
            Arity::Between(lo, hi) => (lo..=hi).contains(&n),
            Arity::AtLeast(k) => n >= k,
        }
    }
}

impl fmt::Display for Arity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arity::Exactly(1) => f.write_str("1 operand"),
            Arity::Exactly(n) => write!(f, "{n} operands"),
            Arity::Between(lo, hi) => write!(f, "{lo} to {hi} operands"),
            Arity::AtLeast(n) => write!(f, "at least {n} operands"),
        }
    }
}

/// What family an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Parameters, constants, tuples and other things that hold a program together.
    Structure,
    /// One output element from the operand elements at the same index.
    Elementwise,
    /// Elements move, none is computed.
    Movement,
    /// Folds of many elements into one, windows and scans included.
    Reduction,
    /// Sums of products: dot and convolution.
    Contraction,
    /// Dense linear algebra and transforms.
    LinearAlgebra,
    /// Sort and top-k.
    Ordering,
    /// Random numbers.
    Random,
    /// Called computations decide what runs.
    Control,
    /// Several devices take part.
    Collective,
    /// The outside world sees it: feeds, sends, custom calls.
    SideEffect,
    /// Start, update and done of asynchronous forms.
    Async,
}

macro_rules! opcodes {
    ($($variant:ident $text:literal ($arity:ident $($n:literal)+) $category:ident $cost:literal
       req[$($req:ident)*] opt[$($opt:ident)*];)*) => {
        /// An operation of HLO.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Opcode { $(#[doc = concat!("`", $text, "`")] $variant,)* }

        impl Opcode {
            /// Every operation, in the order of the table.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant,)*];

            /// The name in HLO text.
            pub const fn name(self) -> &'static str { match self { $(Opcode::$variant => $text,)* } }

            /// How many operands it takes.
            pub const fn arity(self) -> Arity { match self { $(Opcode::$variant => Arity::$arity($($n),+),)* } }

            /// Its family.
            pub const fn category(self) -> Category {
                match self { $(Opcode::$variant => Category::$category,)* }
            }

            /// What an element of it costs, in simple instructions, where it is real.
            pub const fn cost(self) -> u32 { match self { $(Opcode::$variant => $cost,)* } }

            /// Attributes that its text must carry.
            pub const fn required_attrs(self) -> &'static [AttrKey] {
                match self { $(Opcode::$variant => &[$(AttrKey::$req,)*],)* }
            }

            /// Attributes that its text may carry, besides those every instruction may ([`AttrKey::COMMON`]).
            pub const fn optional_attrs(self) -> &'static [AttrKey] {
                match self { $(Opcode::$variant => &[$(AttrKey::$opt,)*],)* }
            }
        }
    };
}

opcodes! {
    // Structure.
    Parameter "parameter" (Exactly 0) Structure 1 req[] opt[ParameterReplication];
    Constant "constant" (Exactly 0) Structure 0 req[] opt[];
    Tuple "tuple" (AtLeast 0) Structure 1 req[] opt[];
    GetTupleElement "get-tuple-element" (Exactly 1) Structure 1 req[Index] opt[];
    OptimizationBarrier "opt-barrier" (AtLeast 1) Structure 1 req[] opt[];
    AddDependency "add-dependency" (Exactly 2) Structure 1 req[] opt[];
    AfterAll "after-all" (AtLeast 0) Structure 1 req[] opt[];
    Domain "domain" (Exactly 1) Structure 1 req[DomainInfo] opt[];

    // Elementwise, one operand.
    Abs "abs" (Exactly 1) Elementwise 1 req[] opt[];
    Acos "acos" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Acosh "acosh" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Asin "asin" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Asinh "asinh" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Atanh "atanh" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    BitcastConvert "bitcast-convert" (Exactly 1) Movement 0 req[] opt[];
    Cbrt "cbrt" (Exactly 1) Elementwise 5 req[] opt[ResultAccuracy];
    Ceil "ceil" (Exactly 1) Elementwise 1 req[] opt[];
    Clz "count-leading-zeros" (Exactly 1) Elementwise 1 req[] opt[];
    Convert "convert" (Exactly 1) Elementwise 1 req[] opt[];
    Cos "cosine" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Cosh "cosh" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Erf "erf" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Exp "exponential" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Expm1 "exponential-minus-one" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Floor "floor" (Exactly 1) Elementwise 1 req[] opt[];
    Imag "imag" (Exactly 1) Elementwise 1 req[] opt[];
    IsFinite "is-finite" (Exactly 1) Elementwise 1 req[] opt[];
    Log "log" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Log1p "log-plus-one" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Logistic "logistic" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Negate "negate" (Exactly 1) Elementwise 1 req[] opt[];
    Not "not" (Exactly 1) Elementwise 1 req[] opt[];
    PopulationCount "popcnt" (Exactly 1) Elementwise 1 req[] opt[];
    Real "real" (Exactly 1) Elementwise 1 req[] opt[];
    ReducePrecision "reduce-precision" (Exactly 1) Elementwise 1 req[ExponentBits MantissaBits] opt[];
    RoundNearestAfz "round-nearest-afz" (Exactly 1) Elementwise 1 req[] opt[];
    RoundNearestEven "round-nearest-even" (Exactly 1) Elementwise 1 req[] opt[];
    Rsqrt "rsqrt" (Exactly 1) Elementwise 5 req[] opt[ResultAccuracy];
    Sign "sign" (Exactly 1) Elementwise 1 req[] opt[];
    Sin "sine" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Sinh "sinh" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Sqrt "sqrt" (Exactly 1) Elementwise 5 req[] opt[ResultAccuracy];
    Tan "tan" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];
    Tanh "tanh" (Exactly 1) Elementwise 12 req[] opt[ResultAccuracy];

    // Elementwise, two and three operands.
    Add "add" (Exactly 2) Elementwise 1 req[] opt[];
    And "and" (Exactly 2) Elementwise 1 req[] opt[];
    Atan2 "atan2" (Exactly 2) Elementwise 12 req[] opt[ResultAccuracy];
    Compare "compare" (Exactly 2) Elementwise 1 req[Direction] opt[ComparisonType];
    Complex "complex" (Exactly 2) Elementwise 1 req[] opt[];
    Divide "divide" (Exactly 2) Elementwise 5 req[] opt[];
    Maximum "maximum" (Exactly 2) Elementwise 1 req[] opt[];
    Minimum "minimum" (Exactly 2) Elementwise 1 req[] opt[];
    Mulhi "mulhi" (Exactly 2) Elementwise 1 req[] opt[];
    Multiply "multiply" (Exactly 2) Elementwise 1 req[] opt[];
    Or "or" (Exactly 2) Elementwise 1 req[] opt[];
    Power "power" (Exactly 2) Elementwise 12 req[] opt[ResultAccuracy];
    Remainder "remainder" (Exactly 2) Elementwise 5 req[] opt[];
    ShiftLeft "shift-left" (Exactly 2) Elementwise 1 req[] opt[];
    ShiftRightArithmetic "shift-right-arithmetic" (Exactly 2) Elementwise 1 req[] opt[];
    ShiftRightLogical "shift-right-logical" (Exactly 2) Elementwise 1 req[] opt[];
    StochasticConvert "stochastic-convert" (Exactly 2) Elementwise 1 req[] opt[];
    Subtract "subtract" (Exactly 2) Elementwise 1 req[] opt[];
    Xor "xor" (Exactly 2) Elementwise 1 req[] opt[];
    Clamp "clamp" (Exactly 3) Elementwise 1 req[] opt[];
    Select "select" (Exactly 3) Elementwise 1 req[] opt[];

    // Movement.
    Bitcast "bitcast" (Exactly 1) Movement 1 req[] opt[ResultLayout SourceLayout];
    Broadcast "broadcast" (Exactly 1) Movement 0 req[] opt[Dimensions];
    Concatenate "concatenate" (AtLeast 1) Movement 1 req[Dimensions] opt[];
    Copy "copy" (Exactly 1) Movement 0 req[] opt[];
    DynamicReshape "dynamic-reshape" (AtLeast 1) Movement 1 req[] opt[];
    DynamicSlice "dynamic-slice" (AtLeast 1) Movement 1 req[DynamicSliceSizes] opt[];
    DynamicUpdateSlice "dynamic-update-slice" (AtLeast 2) Movement 1 req[] opt[];
    Gather "gather" (Exactly 2) Movement 1
        req[OffsetDims CollapsedSliceDims StartIndexMap IndexVectorDim SliceSizes]
        opt[OperandBatchingDims StartIndicesBatchingDims IndicesAreSorted];
    GetDimensionSize "get-dimension-size" (Exactly 1) Movement 1 req[Dimensions] opt[];
    Iota "iota" (Exactly 0) Movement 0 req[IotaDimension] opt[];
    Pad "pad" (Exactly 2) Movement 1 req[Padding] opt[];
    Reshape "reshape" (Exactly 1) Movement 0 req[] opt[InferredDimension];
    Reverse "reverse" (Exactly 1) Movement 0 req[Dimensions] opt[];
    Scatter "scatter" (AtLeast 3) Movement 1
        req[UpdateWindowDims InsertedWindowDims ScatterDimsToOperandDims IndexVectorDim ToApply]
        opt[InputBatchingDims ScatterIndicesBatchingDims IndicesAreSorted UniqueIndices];
    SetDimensionSize "set-dimension-size" (Exactly 2) Movement 1 req[Dimensions] opt[];
    Slice "slice" (Exactly 1) Movement 0 req[Slice] opt[];
    Transpose "transpose" (Exactly 1) Movement 0 req[Dimensions] opt[];

    // Reductions, windows and scans.
    BatchNormGrad "batch-norm-grad" (Exactly 5) Reduction 1 req[Epsilon FeatureIndex] opt[];
    BatchNormInference "batch-norm-inference" (Exactly 5) Reduction 1 req[Epsilon FeatureIndex] opt[];
    BatchNormTraining "batch-norm-training" (Exactly 3) Reduction 1 req[Epsilon FeatureIndex] opt[];
    Map "map" (AtLeast 0) Reduction 1 req[ToApply] opt[Dimensions];
    Reduce "reduce" (AtLeast 2) Reduction 1 req[Dimensions ToApply] opt[];
    ReduceWindow "reduce-window" (AtLeast 2) Reduction 1 req[ToApply] opt[Window];
    Scan "scan" (AtLeast 1) Reduction 1 req[Dimensions ToApply] opt[IsReverse IsAssociative NumCarries];
    SelectAndScatter "select-and-scatter" (Exactly 3) Reduction 1 req[SelectComputation ScatterComputation] opt[Window];

    // Contractions and linear algebra.
    Convolution "convolution" (Exactly 2) Contraction 1 req[DimLabels]
        opt[Window FeatureGroupCount BatchGroupCount OperandPrecision ConvolutionKind SparsityConfig];
    Dot "dot" (AtLeast 2) Contraction 1 req[]
        opt[LhsBatchDims LhsContractingDims RhsBatchDims RhsContractingDims OperandPrecision Algorithm Sparsity];
    RaggedDot "ragged-dot" (Exactly 3) Contraction 1 req[LhsRaggedDims]
        opt[LhsBatchDims LhsContractingDims RhsBatchDims RhsContractingDims RhsGroupDims OperandPrecision];
    ScaledDot "scaled-dot" (Exactly 4) Contraction 1 req[]
        opt[LhsBatchDims LhsContractingDims RhsBatchDims RhsContractingDims OperandPrecision Algorithm];
    Cholesky "cholesky" (Exactly 1) LinearAlgebra 1 req[] opt[Lower];
    Fft "fft" (Exactly 1) LinearAlgebra 1 req[FftType FftLength] opt[];
    TriangularSolve "triangular-solve" (Exactly 2) LinearAlgebra 1 req[]
        opt[LeftSide Lower UnitDiagonal TransposeA];

    // Ordering.
    Sort "sort" (AtLeast 1) Ordering 1 req[ToApply] opt[Dimensions IsStable];
    TopK "topk" (Exactly 1) Ordering 1 req[K] opt[Largest];

    // Random.
    Rng "rng" (AtLeast 0) Random 1 req[Distribution] opt[];
    RngBitGenerator "rng-bit-generator" (Exactly 1) Random 1 req[Algorithm] opt[];
    RngGetAndUpdateState "rng-get-and-update-state" (Exactly 0) Random 1 req[Delta] opt[];

    // Control.
    Call "call" (AtLeast 0) Control 1 req[ToApply] opt[IsComposite];
    Conditional "conditional" (AtLeast 1) Control 1 req[] opt[TrueComputation FalseComputation BranchComputations];
    Fusion "fusion" (AtLeast 0) Control 1 req[FusionKind Calls] opt[OutputToOperandAliasing];
    While "while" (Exactly 1) Control 1 req[Condition Body] opt[];

    // Collectives.
    AllGather "all-gather" (AtLeast 1) Collective 1 req[Dimensions]
        opt[ReplicaGroups ChannelId UseGlobalDeviceIds ConstrainLayout CollectiveMode];
    AllReduce "all-reduce" (AtLeast 1) Collective 1 req[ToApply]
        opt[ReplicaGroups ChannelId UseGlobalDeviceIds ConstrainLayout CollectiveMode];
    AllToAll "all-to-all" (AtLeast 0) Collective 1 req[] opt[Dimensions ReplicaGroups ChannelId ConstrainLayout
        CollectiveMode];
    CollectiveBroadcast "collective-broadcast" (AtLeast 1) Collective 1 req[] opt[ReplicaGroups ChannelId
        CollectiveMode];
    CollectivePermute "collective-permute" (AtLeast 1) Collective 1 req[SourceTargetPairs]
        opt[ChannelId SliceSizesPerDevice Inplace];
    PartitionId "partition-id" (Exactly 0) Collective 1 req[] opt[];
    RaggedAllToAll "ragged-all-to-all" (Exactly 6) Collective 1 req[] opt[Dimensions ReplicaGroups ChannelId];
    ReduceScatter "reduce-scatter" (AtLeast 1) Collective 1 req[ToApply Dimensions]
        opt[ReplicaGroups ChannelId UseGlobalDeviceIds ConstrainLayout CollectiveMode];
    ReplicaId "replica-id" (Exactly 0) Collective 1 req[] opt[];

    // Side effects.
    CustomCall "custom-call" (AtLeast 0) SideEffect 1 req[CustomCallTarget]
        opt[CalledComputations ToApply OperandLayoutConstraints CustomCallHasSideEffect ApiVersion CustomCallSchedule
            OutputToOperandAliasing ResultLayout Window DimLabels FeatureGroupCount BatchGroupCount OperandPrecision PaddingType
            Literal];
    Infeed "infeed" (Between 0 1) SideEffect 1 req[] opt[InfeedConfig InfeedShape];
    Outfeed "outfeed" (Between 1 2) SideEffect 1 req[] opt[OutfeedConfig OutfeedShape];
    Recv "recv" (Exactly 1) SideEffect 1 req[] opt[ChannelId IsHostTransfer SourceTargetPairs];
    RecvDone "recv-done" (Exactly 1) SideEffect 1 req[] opt[ChannelId IsHostTransfer];
    Send "send" (Exactly 2) SideEffect 1 req[] opt[ChannelId IsHostTransfer SourceTargetPairs];
    SendDone "send-done" (Exactly 1) SideEffect 1 req[] opt[ChannelId IsHostTransfer];

    // Asynchronous forms.
    AllGatherDone "all-gather-done" (Exactly 1) Async 1 req[] opt[];
    AllGatherStart "all-gather-start" (AtLeast 1) Async 1 req[Dimensions]
        opt[ReplicaGroups ChannelId UseGlobalDeviceIds ConstrainLayout CollectiveMode];
    AllReduceDone "all-reduce-done" (Exactly 1) Async 1 req[] opt[];
    AllReduceStart "all-reduce-start" (AtLeast 0) Async 1 req[ToApply]
        opt[ReplicaGroups ChannelId UseGlobalDeviceIds ConstrainLayout CollectiveMode];
    AsyncDone "async-done" (Exactly 1) Async 1 req[] opt[Calls AsyncExecutionThread];
    AsyncStart "async-start" (AtLeast 0) Async 1 req[Calls] opt[AsyncExecutionThread OutputToOperandAliasing];
    AsyncUpdate "async-update" (Exactly 1) Async 1 req[] opt[Calls AsyncExecutionThread];
    CollectivePermuteDone "collective-permute-done" (Exactly 1) Async 1 req[] opt[];
    CollectivePermuteStart "collective-permute-start" (AtLeast 1) Async 1 req[SourceTargetPairs]
        opt[ChannelId SliceSizesPerDevice Inplace];
    CopyDone "copy-done" (Exactly 1) Async 1 req[] opt[];
    CopyStart "copy-start" (Exactly 1) Async 1 req[] opt[CrossProgramPrefetchIndex];
}

impl Opcode {
    /// The operation called `name` in HLO text.
    pub fn from_name(name: &str) -> Option<Opcode> {
        use std::collections::HashMap;
        use std::sync::OnceLock;
        static BY_NAME: OnceLock<HashMap<&'static str, Opcode>> = OnceLock::new();
        BY_NAME.get_or_init(|| Opcode::ALL.iter().map(|&op| (op.name(), op)).collect()).get(name).copied()
    }

    /// True where the outside world, another device or a random state sees the operation: it may not be dropped,
    /// duplicated or reordered with its like.
    pub const fn has_side_effect(self) -> bool {
        match self {
            Opcode::Rng | Opcode::RngGetAndUpdateState => true,
            Opcode::PartitionId | Opcode::ReplicaId => false,
            _ => matches!(self.category(), Category::Collective | Category::SideEffect | Category::Async),
        }
    }

    /// True for elementwise operations.
    pub const fn is_elementwise(self) -> bool {
        matches!(self.category(), Category::Elementwise)
    }

    /// True where swapping the two operands changes nothing.
    pub const fn is_commutative(self) -> bool {
        matches!(
            self,
            Opcode::Add
                | Opcode::Multiply
                | Opcode::Maximum
                | Opcode::Minimum
                | Opcode::And
                | Opcode::Or
                | Opcode::Xor
                | Opcode::Mulhi
        )
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &op in Opcode::ALL {
            assert_eq!(Opcode::from_name(op.name()), Some(op));
        }
        assert_eq!(Opcode::from_name("frobnicate"), None);
    }
}
