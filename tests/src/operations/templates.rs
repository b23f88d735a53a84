//! A small program for each operation, and the builder's methods for it.

use brolga_compiler::builder::Builder;
use brolga_compiler::hlo::Opcode as O;

/// Computations to call, by name; a program gets those it names.
pub const PRELUDE: [(&str, &str); 8] = [
    ("add", "  x = {T}[] parameter(0)\n  y = {T}[] parameter(1)\n  ROOT r = {T}[] add(x, y)"),
    ("lt", "  x = {T}[] parameter(0)\n  y = {T}[] parameter(1)\n  ROOT r = pred[] compare(x, y), direction=LT"),
    ("scalar", "  x = {T}[] parameter(0)\n  ROOT r = {T}[] copy(x)"),
    ("array", "  x = {T}[4] parameter(0)\n  ROOT r = {T}[4] copy(x)"),
    ("never", "  x = {T}[4] parameter(0)\n  ROOT r = pred[] constant(false)"),
    (
        "both",
        "  x = {T}[] parameter(0)\n  y = {T}[] parameter(1)\n  s = {T}[] add(x, y)\n  ROOT r = ({T}[], {T}[]) tuple(s, s)",
    ),
    ("gather_all", "  x = {T}[4] parameter(0)\n  ROOT r = {T}[4] all-gather(x), dimensions={0}, replica_groups={}"),
    ("larger", "  x = {T}[] parameter(0)\n  y = {T}[] parameter(1)\n  ROOT r = {T}[] maximum(x, y)"),
];

macro_rules! unary {
    ($op:literal) => {
        concat!("  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] ", $op, "(a)")
    };
    ($op:literal, $ty:literal) => {
        concat!("  a = {T}[4] parameter(0)\n  ROOT r = ", $ty, "[4] ", $op, "(a)")
    };
}

macro_rules! binary {
    ($op:literal) => {
        concat!("  a = {T}[4] parameter(0)\n  b = {T}[4] parameter(1)\n  ROOT r = {T}[4] ", $op, "(a, b)")
    };
}

/// The body of the entry for each operation.
pub const TEMPLATES: &[(O, &str)] = &[
    (O::Parameter, "  ROOT r = {T}[4] parameter(0)"),
    (O::Constant, "  ROOT r = {T}[] constant(1)"),
    (O::Tuple, "  a = {T}[4] parameter(0)\n  ROOT r = ({T}[4], {T}[4]) tuple(a, a)"),
    (O::GetTupleElement, "  a = ({T}[4], {T}[2]) parameter(0)\n  ROOT r = {T}[2] get-tuple-element(a), index=1"),
    (O::OptimizationBarrier, unary!("opt-barrier")),
    (O::AddDependency, "  a = {T}[4] parameter(0)\n  t = token[] after-all()\n  ROOT r = {T}[4] add-dependency(a, t)"),
    (O::AfterAll, "  a = {T}[4] parameter(0)\n  t = token[] after-all()\n  ROOT r = {T}[4] add-dependency(a, t)"),
    (
        O::Domain,
        "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] domain(a), domain={kind=\"sharding\", entry={maximal device=0}, exit={maximal device=0}}",
    ),
    (O::Abs, "  a = {T}[4] parameter(0)\n  ROOT r = {PART}[4] abs(a)"),
    (O::Acos, unary!("acos")),
    (O::Acosh, unary!("acosh")),
    (O::Asin, unary!("asin")),
    (O::Asinh, unary!("asinh")),
    (O::Atanh, unary!("atanh")),
    (O::BitcastConvert, unary!("bitcast-convert")),
    (O::Cbrt, unary!("cbrt")),
    (O::Ceil, unary!("ceil")),
    (O::Clz, unary!("count-leading-zeros")),
    (O::Convert, "  a = {T}[4] parameter(0)\n  ROOT r = c64[4] convert(a)"),
    (O::Cos, unary!("cosine")),
    (O::Cosh, unary!("cosh")),
    (O::Erf, unary!("erf")),
    (O::Exp, unary!("exponential")),
    (O::Expm1, unary!("exponential-minus-one")),
    (O::Floor, unary!("floor")),
    (O::Imag, "  a = {T}[4] parameter(0)\n  ROOT r = {PART}[4] imag(a)"),
    (O::IsFinite, unary!("is-finite", "pred")),
    (O::Log, unary!("log")),
    (O::Log1p, unary!("log-plus-one")),
    (O::Logistic, unary!("logistic")),
    (O::Negate, unary!("negate")),
    (O::Not, unary!("not")),
    (O::PopulationCount, unary!("popcnt")),
    (O::Real, "  a = {T}[4] parameter(0)\n  ROOT r = {PART}[4] real(a)"),
    (
        O::ReducePrecision,
        "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] reduce-precision(a), exponent_bits=5, mantissa_bits=2",
    ),
    (O::RoundNearestAfz, unary!("round-nearest-afz")),
    (O::RoundNearestEven, unary!("round-nearest-even")),
    (O::Rsqrt, unary!("rsqrt")),
    (O::Sign, unary!("sign")),
    (O::Sin, unary!("sine")),
    (O::Sinh, unary!("sinh")),
    (O::Sqrt, unary!("sqrt")),
    (O::Tan, unary!("tan")),
    (O::Tanh, unary!("tanh")),
    (O::Add, binary!("add")),
    (O::And, binary!("and")),
    (O::Atan2, binary!("atan2")),
    (O::Compare, "  a = {T}[4] parameter(0)\n  ROOT r = pred[4] compare(a, a), direction=EQ"),
    (O::Complex, "  a = {T}[4] parameter(0)\n  ROOT r = {PAIR}[4] complex(a, a)"),
    (O::Divide, binary!("divide")),
    (O::Maximum, binary!("maximum")),
    (O::Minimum, binary!("minimum")),
    (O::Mulhi, binary!("mulhi")),
    (O::Multiply, binary!("multiply")),
    (O::Or, binary!("or")),
    (O::Power, binary!("power")),
    (O::Remainder, binary!("remainder")),
    (O::ShiftLeft, binary!("shift-left")),
    (O::ShiftRightArithmetic, binary!("shift-right-arithmetic")),
    (O::ShiftRightLogical, binary!("shift-right-logical")),
    (
        O::StochasticConvert,
        "  a = f32[4] parameter(0)\n  b = u32[4] parameter(1)\n  ROOT r = {T}[4] stochastic-convert(a, b)",
    ),
    (O::Subtract, binary!("subtract")),
    (O::Xor, binary!("xor")),
    (O::Clamp, "  a = {T}[4] parameter(0)\n  s = {T}[] parameter(1)\n  ROOT r = {T}[4] clamp(s, a, s)"),
    (O::Select, "  a = {T}[4] parameter(0)\n  p = pred[4] parameter(1)\n  ROOT r = {T}[4] select(p, a, a)"),
    (O::Bitcast, unary!("bitcast")),
    (O::Broadcast, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[3,4] broadcast(a), dimensions={1}"),
    (O::Concatenate, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[8] concatenate(a, a), dimensions={0}"),
    (O::Copy, unary!("copy")),
    (
        O::DynamicReshape,
        "  a = {T}[4] parameter(0)\n  n = s32[] constant(2)\n  ROOT r = {T}[2,2] dynamic-reshape(a, n, n)",
    ),
    (
        O::DynamicSlice,
        "  a = {T}[4] parameter(0)\n  i = s32[] parameter(1)\n  ROOT r = {T}[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
    ),
    (
        O::DynamicUpdateSlice,
        "  a = {T}[4] parameter(0)\n  b = {T}[2] parameter(1)\n  i = s32[] parameter(2)\n  ROOT r = {T}[4] dynamic-update-slice(a, b, i)",
    ),
    (
        O::Gather,
        "  a = {T}[5,3] parameter(0)\n  i = s32[4] parameter(1)\n  ROOT r = {T}[4,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    ),
    (O::GetDimensionSize, "  a = {T}[4] parameter(0)\n  ROOT r = s32[] get-dimension-size(a), dimensions={0}"),
    (O::Iota, "  ROOT r = {T}[2] iota(), iota_dimension=0"),
    (O::Pad, "  a = {T}[4] parameter(0)\n  s = {T}[] parameter(1)\n  ROOT r = {T}[7] pad(a, s), padding=1_2"),
    (O::Reshape, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[2,2] reshape(a)"),
    (O::Reverse, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] reverse(a), dimensions={0}"),
    (
        O::Scatter,
        "  a = {T}[5,3] parameter(0)\n  i = s32[4] parameter(1)\n  b = {T}[4,3] parameter(2)\n  ROOT r = {T}[5,3] scatter(a, i, b), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    ),
    (
        O::SetDimensionSize,
        "  a = {T}[4] parameter(0)\n  n = s32[] parameter(1)\n  d = {T}[<=4] set-dimension-size(a, n), dimensions={0}\n  ROOT r = s32[] get-dimension-size(d), dimensions={0}",
    ),
    (O::Slice, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[2] slice(a), slice={[0:4:2]}"),
    (O::Transpose, "  a = {T}[2,3] parameter(0)\n  ROOT r = {T}[3,2] transpose(a), dimensions={1,0}"),
    (
        O::BatchNormGrad,
        "  a = {T}[4,3] parameter(0)\n  s = {T}[3] parameter(1)\n  ROOT r = ({T}[4,3], {T}[3], {T}[3]) batch-norm-grad(a, s, s, s, a), epsilon=1, feature_index=1",
    ),
    (
        O::BatchNormInference,
        "  a = {T}[4,3] parameter(0)\n  s = {T}[3] parameter(1)\n  ROOT r = {T}[4,3] batch-norm-inference(a, s, s, s, s), epsilon=1, feature_index=1",
    ),
    (
        O::BatchNormTraining,
        "  a = {T}[4,3] parameter(0)\n  s = {T}[3] parameter(1)\n  ROOT r = ({T}[4,3], {T}[3], {T}[3]) batch-norm-training(a, s, s), epsilon=1, feature_index=1",
    ),
    (O::Map, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] map(a, a), dimensions={0}, to_apply=add"),
    (
        O::Reduce,
        "  a = {T}[4] parameter(0)\n  s = {T}[] parameter(1)\n  ROOT r = {T}[] reduce(a, s), dimensions={0}, to_apply=add",
    ),
    (
        O::ReduceWindow,
        "  a = {T}[4] parameter(0)\n  s = {T}[] parameter(1)\n  ROOT r = {T}[3] reduce-window(a, s), window={size=2}, to_apply=add",
    ),
    (
        O::Scan,
        "  a = {T}[4] parameter(0)\n  s = {T}[] parameter(1)\n  ROOT r = ({T}[4], {T}[]) scan(a, s), dimensions={0}, num_carries=1, to_apply=both",
    ),
    (
        O::SelectAndScatter,
        "  a = {T}[4] parameter(0)\n  b = {T}[3] parameter(1)\n  s = {T}[] parameter(2)\n  ROOT r = {T}[4] select-and-scatter(a, b, s), window={size=2}, select=lt, scatter=add",
    ),
    (
        O::Convolution,
        "  a = {T}[2,9,3] parameter(0)\n  k = {T}[4,3,6] parameter(1)\n  ROOT r = {T}[2,6,6] convolution(a, k), window={size=4}, dim_labels=b0f_0io->b0f",
    ),
    (
        O::Dot,
        "  a = {T}[2,3] parameter(0)\n  b = {T}[3,4] parameter(1)\n  ROOT r = {T}[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        O::RaggedDot,
        "  a = {T}[4,3] parameter(0)\n  b = {T}[2,3,5] parameter(1)\n  g = s32[2] parameter(2)\n  ROOT r = {T}[4,5] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    (
        O::ScaledDot,
        "  a = {T}[2,4] parameter(0)\n  b = {T}[3,4] parameter(1)\n  s = {T}[2,1] parameter(2)\n  t = {T}[3,1] parameter(3)\n  ROOT r = {T}[2,3] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    (O::Cholesky, "  a = {T}[3,3] parameter(0)\n  ROOT r = {T}[3,3] cholesky(a), lower=true"),
    (O::Fft, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] fft(a), fft_type=FFT, fft_length={4}"),
    (
        O::TriangularSolve,
        "  a = {T}[3,3] parameter(0)\n  b = {T}[3,2] parameter(1)\n  ROOT r = {T}[3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    ),
    (O::Sort, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] sort(a), dimensions={0}, to_apply=lt"),
    (O::TopK, "  a = {T}[4] parameter(0)\n  ROOT r = ({T}[2], s32[2]) topk(a), k=2, largest=true"),
    (O::Rng, "  a = {T}[] parameter(0)\n  ROOT r = {T}[4] rng(a, a), distribution=rng_uniform"),
    (
        O::RngBitGenerator,
        "  k = u64[2] parameter(0)\n  ROOT r = (u64[2], {T}[4]) rng-bit-generator(k), algorithm=rng_three_fry",
    ),
    (O::RngGetAndUpdateState, "  a = {T}[4] parameter(0)\n  ROOT r = u64[2] rng-get-and-update-state(), delta=1"),
    (O::Call, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] call(a), to_apply=array"),
    (
        O::Conditional,
        "  a = {T}[4] parameter(0)\n  p = pred[] parameter(1)\n  ROOT r = {T}[4] conditional(p, a, a), true_computation=array, false_computation=array",
    ),
    (O::Fusion, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] fusion(a), kind=kLoop, calls=array"),
    (O::While, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] while(a), condition=never, body=array"),
    (O::AllGather, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] all-gather(a), replica_groups={}, dimensions={0}"),
    (O::AllReduce, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] all-reduce(a), replica_groups={}, to_apply=add"),
    (O::AllToAll, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] all-to-all(a), replica_groups={}, dimensions={0}"),
    (
        O::CollectiveBroadcast,
        "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] collective-broadcast(a), replica_groups={{0}}",
    ),
    (
        O::CollectivePermute,
        "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] collective-permute(a), source_target_pairs={{0,0}}",
    ),
    (O::PartitionId, "  a = {T}[4] parameter(0)\n  ROOT r = u32[] partition-id()"),
    (
        O::RaggedAllToAll,
        "  a = {T}[4] parameter(0)\n  i = s32[1] parameter(1)\n  ROOT r = {T}[4] ragged-all-to-all(a, a, i, i, i, i), replica_groups={}",
    ),
    (
        O::ReduceScatter,
        "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] reduce-scatter(a), replica_groups={}, dimensions={0}, to_apply=add",
    ),
    (O::ReplicaId, "  a = {T}[4] parameter(0)\n  ROOT r = u32[] replica-id()"),
    (O::CustomCall, "  a = {T}[4] parameter(0)\n  ROOT r = {T}[4] custom-call(a), custom_call_target=\"f\""),
    (
        O::Infeed,
        "  t = token[] after-all()\n  i = ({T}[4], token[]) infeed(t)\n  ROOT r = {T}[4] get-tuple-element(i), index=0",
    ),
    (
        O::Outfeed,
        "  a = {T}[4] parameter(0)\n  t = token[] after-all()\n  ROOT r = token[] outfeed(a, t), outfeed_shape={T}[4]",
    ),
    (
        O::Recv,
        "  t = token[] after-all()\n  c = ({T}[4], u32[], token[]) recv(t), channel_id=1\n  d = ({T}[4], token[]) recv-done(c), channel_id=1\n  ROOT r = {T}[4] get-tuple-element(d), index=0",
    ),
    (
        O::RecvDone,
        "  t = token[] after-all()\n  c = ({T}[4], u32[], token[]) recv(t), channel_id=1\n  d = ({T}[4], token[]) recv-done(c), channel_id=1\n  ROOT r = {T}[4] get-tuple-element(d), index=0",
    ),
    (
        O::Send,
        "  a = {T}[4] parameter(0)\n  t = token[] after-all()\n  c = ({T}[4], u32[], token[]) send(a, t), channel_id=1\n  ROOT r = token[] send-done(c), channel_id=1",
    ),
    (
        O::SendDone,
        "  a = {T}[4] parameter(0)\n  t = token[] after-all()\n  c = ({T}[4], u32[], token[]) send(a, t), channel_id=1\n  ROOT r = token[] send-done(c), channel_id=1",
    ),
    (
        O::AllGatherDone,
        "  a = {T}[4] parameter(0)\n  s = ({T}[4], {T}[4]) all-gather-start(a), replica_groups={}, dimensions={0}\n  ROOT r = {T}[4] all-gather-done(s)",
    ),
    (
        O::AllGatherStart,
        "  a = {T}[4] parameter(0)\n  s = ({T}[4], {T}[4]) all-gather-start(a), replica_groups={}, dimensions={0}\n  ROOT r = {T}[4] all-gather-done(s)",
    ),
    (
        O::AllReduceDone,
        "  a = {T}[4] parameter(0)\n  s = {T}[4] all-reduce-start(a), replica_groups={}, to_apply=add\n  ROOT r = {T}[4] all-reduce-done(s)",
    ),
    (
        O::AllReduceStart,
        "  a = {T}[4] parameter(0)\n  s = {T}[4] all-reduce-start(a), replica_groups={}, to_apply=add\n  ROOT r = {T}[4] all-reduce-done(s)",
    ),
    (
        O::AsyncDone,
        "  a = {T}[4] parameter(0)\n  s = (({T}[4]), {T}[4], u32[]) async-start(a), calls=array\n  ROOT r = {T}[4] async-done(s), calls=array",
    ),
    (
        O::AsyncStart,
        "  a = {T}[4] parameter(0)\n  s = (({T}[4]), {T}[4], u32[]) async-start(a), calls=array\n  ROOT r = {T}[4] async-done(s), calls=array",
    ),
    (
        O::AsyncUpdate,
        "  a = {T}[4] parameter(0)\n  s = (({T}[4]), {T}[4], u32[]) async-start(a), calls=array\n  u = (({T}[4]), {T}[4], u32[]) async-update(s), calls=array\n  ROOT r = {T}[4] async-done(u), calls=array",
    ),
    (
        O::CollectivePermuteDone,
        "  a = {T}[4] parameter(0)\n  s = ({T}[4], {T}[4], u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,0}}\n  ROOT r = {T}[4] collective-permute-done(s)",
    ),
    (
        O::CollectivePermuteStart,
        "  a = {T}[4] parameter(0)\n  s = ({T}[4], {T}[4], u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,0}}\n  ROOT r = {T}[4] collective-permute-done(s)",
    ),
    (
        O::CopyDone,
        "  a = {T}[4] parameter(0)\n  s = ({T}[4], {T}[4], u32[]) copy-start(a)\n  ROOT r = {T}[4] copy-done(s)",
    ),
    (
        O::CopyStart,
        "  a = {T}[4] parameter(0)\n  s = ({T}[4], {T}[4], u32[]) copy-start(a)\n  ROOT r = {T}[4] copy-done(s)",
    ),
];

macro_rules! methods {
    ($($op:ident $($method:ident)+;)*) => {
        /// The builder's methods that make an operation, or mostly consist of it.
        pub fn builder_methods(opcode: O) -> &'static [&'static str] {
            // That the methods exist is the compiler's to check.
            $($(let _ = Builder::$method;)+)*
            match opcode {
                $(O::$op => &[$(stringify!($method),)+],)*
                O::Constant => &["constant", "constant_literal", "constant_pred", "constant_r0", "constant_r1", "zero"],
                _ => &[],
            }
        }
    };
}

methods! {
    Parameter parameter;
    Tuple tuple;
    GetTupleElement get_tuple_element;
    OptimizationBarrier optimization_barrier;
    AddDependency add_dependency;
    AfterAll after_all;
    Abs abs; Acos acos; Acosh acosh; Asin asin; Asinh asinh; Atanh atanh;
    BitcastConvert bitcast_convert_type;
    Cbrt cbrt; Ceil ceil; Clz clz;
    Convert convert_element_type;
    Cos cos; Cosh cosh; Erf erf; Exp exp; Expm1 expm1; Floor floor; Imag imag; IsFinite is_finite; Log log; Log1p log1p;
    Logistic logistic; Negate neg; Not not logical_not; PopulationCount population_count; Real real;
    ReducePrecision reduce_precision;
    RoundNearestAfz round; RoundNearestEven round_nearest_even; Rsqrt rsqrt; Sign sign sign_without_negative_zero;
    Sin sin; Sinh sinh; Sqrt sqrt; Tan tan; Tanh tanh;
    Add add add_in_dims;
    And and and_in_dims logical_and;
    Atan2 atan2 atan2_in_dims;
    Compare compare eq ne ge gt le lt eq_in_dims ne_in_dims ge_in_dims gt_in_dims le_in_dims lt_in_dims eq_total_order
        ne_total_order ge_total_order gt_total_order le_total_order lt_total_order;
    Complex complex complex_in_dims;
    Divide div div_in_dims;
    Maximum max max_in_dims;
    Minimum min min_in_dims;
    Mulhi mulhi mulhi_in_dims;
    Multiply mul mul_in_dims;
    Or or or_in_dims logical_or;
    Power pow pow_in_dims;
    Remainder rem rem_in_dims;
    ShiftLeft shift_left shift_left_in_dims;
    ShiftRightArithmetic shift_right_arithmetic shift_right_arithmetic_in_dims;
    ShiftRightLogical shift_right_logical shift_right_logical_in_dims;
    StochasticConvert stochastic_convert;
    Subtract sub sub_in_dims;
    Xor xor xor_in_dims;
    Clamp clamp clamp_operand_first;
    Select select;
    Broadcast broadcast broadcast_in_dim;
    Concatenate concat_in_dim;
    Copy copy;
    DynamicReshape dynamic_reshape;
    DynamicSlice dynamic_slice dynamic_slice_from_vector dynamic_slice_modulo;
    DynamicUpdateSlice dynamic_update_slice dynamic_update_slice_from_vector dynamic_update_slice_modulo;
    Gather gather;
    GetDimensionSize get_dimension_size;
    Iota iota;
    Pad pad;
    Reshape reshape reshape_in_order collapse;
    Reverse rev;
    Scatter scatter;
    SetDimensionSize set_dimension_size;
    Slice slice slice_in_dim slice_without_strides;
    Transpose transpose;
    BatchNormGrad batch_norm_grad batch_norm_grad_offset_first;
    BatchNormInference batch_norm_inference;
    BatchNormTraining batch_norm_training;
    Map map map_with_static_operands;
    Reduce reduce reduce_all reduce_many;
    ReduceWindow reduce_window reduce_window_many reduce_window_with_general_padding;
    Scan scan;
    SelectAndScatter select_and_scatter;
    Convolution conv conv_general_dilated conv_with_general_padding;
    Dot dot dot_general dot_general_with_type dot_last_dimensions;
    Cholesky cholesky;
    Fft fft;
    TriangularSolve triangular_solve;
    Sort sort sort_ascending;
    TopK top_k;
    Rng rng_normal rng_uniform rng_bernoulli;
    RngBitGenerator rng_bit_generator;
    Call call composite_call;
    Conditional conditional conditional_indexed;
    While while_;
    AllGather all_gather;
    AllReduce all_reduce cross_replica_sum;
    AllToAll all_to_all;
    CollectiveBroadcast collective_broadcast;
    CollectivePermute collective_permute;
    PartitionId partition_id;
    ReduceScatter reduce_scatter;
    ReplicaId replica_id;
    CustomCall custom_call custom_call_with_options;
    Infeed infeed;
    Outfeed outfeed;
    Recv recv;
    RecvDone recv;
    Send send;
    SendDone send;
}
