//! What an instruction's fields say, as the attributes of its opcode.
//!
//! XLA's text leaves out what has its default; so do the attributes made here, so that a message and its text give the same
//! module.

use super::message::{self, DotDims, IndexedDims, Instruction};
use super::{collective, kept, malformed, shape, sharding, unsupported};
use crate::Result;
use crate::hlo::{
    AttrKey, AttrKind, AttrValue, Attrs, ComputationId, ConvolutionDims, Opcode, PaddingDimension, SliceRange,
    WindowDimension,
};
use brolga_runtime::{Kind, Shape};

/// The algorithms of a dot, by number; 0 is none.
pub(super) const DOT_ALGORITHMS: [&str; 14] = [
    "unset",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
];
/// The algorithms of a random generator, by number.
pub(super) const RNG_ALGORITHMS: [&str; 3] = ["rng_default", "rng_three_fry", "rng_philox"];
/// Words of the other enumerations, by number.
pub(super) const PRECISIONS: [&str; 4] = ["default", "high", "highest", "packed_nibble"];
pub(super) const DISTRIBUTIONS: [&str; 4] = ["", "rng_uniform", "rng_normal", "rng_bernoulli"];
pub(super) const FFT_TYPES: [&str; 4] = ["FFT", "IFFT", "RFFT", "IRFFT"];
pub(super) const TRANSPOSES: [&str; 4] = ["", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
pub(super) const PADDING_TYPES: [&str; 3] = ["PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"];
pub(super) const SCHEDULES: [&str; 3] = ["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"];
pub(super) const CONVOLUTION_KINDS: [&str; 4] = ["unset", "fprop", "dgrad", "wgrad"];
pub(super) const API_VERSIONS: [&str; 5] = [
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
];

/// How a comparison compares elements of `shape` where nothing is said.
pub(super) fn default_comparison(shape: &Shape) -> &'static str {
    match shape.as_array().map(|a| a.ty.kind()) {
        Some(Kind::Signed) => "SIGNED",
        Some(Kind::Float | Kind::Complex) => "FLOAT",
        _ => "UNSIGNED",
    }
}

/// What the attributes of one instruction are made from.
pub(super) struct Source<'a> {
    pub instruction: &'a Instruction,
    pub opcode: Opcode,
    pub shape: &'a Shape,
    pub operands: &'a [&'a Shape],
    pub called: &'a [ComputationId],
    /// `backend_config`, from wherever it stands.
    pub backend_config: &'a [u8],
}

struct Builder<'a> {
    source: &'a Source<'a>,
    attrs: Attrs,
}

/// Reads the attributes. Constants' values and control predecessors are the caller's.
pub(super) fn read(source: &Source<'_>) -> Result<Attrs> {
    let mut builder = Builder { source, attrs: Attrs::new() };
    builder.of_opcode()?;
    builder.common()?;
    Ok(builder.attrs)
}

/// The word with that number, of those that have a name.
pub(super) fn word_of(words: &[&'static str], number: i32) -> Option<&'static str> {
    usize::try_from(number).ok().and_then(|n| words.get(n)).copied().filter(|word| !word.is_empty())
}

/// The number of that word.
pub(super) fn number_of(words: &[&str], word: &str) -> Option<i32> {
    words.iter().position(|w| *w == word).and_then(|n| i32::try_from(n).ok())
}

/// The field `field` must be there.
fn missing(field: &str) -> crate::Error {
    malformed("", format!("expected the field '{field}', found none"))
}

impl Builder<'_> {
    fn set(&mut self, key: AttrKey, value: AttrValue) {
        self.attrs.set(key, value);
    }

    fn ints(&mut self, key: AttrKey, list: &[i64]) {
        self.set(key, AttrValue::Ints(list.to_vec()));
    }

    fn ints_if_any(&mut self, key: AttrKey, list: &[i64]) {
        if !list.is_empty() {
            self.ints(key, list);
        }
    }

    fn int(&mut self, key: AttrKey, value: i64) {
        self.set(key, AttrValue::Int(value));
    }

    fn flag(&mut self, key: AttrKey, value: bool) {
        if value {
            self.set(key, AttrValue::Bool(true));
        }
    }

    fn raw(&mut self, key: AttrKey, text: Option<String>) {
        if let Some(text) = text {
            self.set(key, AttrValue::Raw(text));
        }
    }

    /// The word with that number; number 0 is left out unless `always`.
    fn word(&mut self, key: AttrKey, words: &'static [&'static str], number: i32, always: bool) -> Result<()> {
        match word_of(words, number) {
            _ if number == 0 && !always => {}
            Some(word) => self.set(key, AttrValue::Word(word)),
            None => {
                return Err(malformed("", format!("{}: expected the number of a word, found {number}", key.name())));
            }
        }
        Ok(())
    }

    /// The word itself.
    fn spelled(&mut self, key: AttrKey, text: &str) -> Result<()> {
        let AttrKind::Word(words) = key.kind() else { return Ok(()) };
        match words.iter().find(|w| **w == text) {
            Some(word) => self.set(key, AttrValue::Word(word)),
            None => {
                let what = format!("{}: expected one of {}, found '{text}'", key.name(), words.join(", "));
                return Err(malformed("", what));
            }
        }
        Ok(())
    }

    fn callee(&mut self, key: AttrKey, place: usize) -> Result<()> {
        let id = *self.source.called.get(place).ok_or_else(|| missing("called_computation_ids"))?;
        self.set(key, AttrValue::Computation(id));
        Ok(())
    }

    fn first_dimension(&mut self, key: AttrKey) -> Result<()> {
        let first = self.source.instruction.dimensions.first().ok_or_else(|| missing("dimensions"))?;
        self.int(key, *first);
        Ok(())
    }

    fn of_opcode(&mut self) -> Result<()> {
        let Source { instruction: i, opcode, called, .. } = *self.source;
        use Opcode as O;
        match opcode {
            O::Parameter => {
                self.int(AttrKey::ParameterNumber, i.parameter_number);
                let replication = i.parameter_replication.as_ref().and_then(kept::flags);
                self.raw(AttrKey::ParameterReplication, replication);
            }
            O::GetTupleElement => self.int(AttrKey::Index, i.tuple_index),
            O::Domain => self.domain()?,
            O::Compare => self.compare()?,
            O::ReducePrecision => {
                self.int(AttrKey::ExponentBits, i64::from(i.exponent_bits));
                self.int(AttrKey::MantissaBits, i64::from(i.mantissa_bits));
            }
            O::Broadcast | O::Concatenate | O::GetDimensionSize | O::SetDimensionSize | O::Reverse | O::Transpose => {
                self.ints(AttrKey::Dimensions, &i.dimensions);
            }
            O::DynamicSlice => self.ints(AttrKey::DynamicSliceSizes, &i.dynamic_slice_sizes),
            O::Gather => self.gather()?,
            O::Scatter => self.scatter()?,
            O::Iota => self.first_dimension(AttrKey::IotaDimension)?,
            O::Reshape if !i.dimensions.is_empty() => self.first_dimension(AttrKey::InferredDimension)?,
            O::Pad => {
                let config = i.padding.as_ref().ok_or_else(|| missing("padding_config"))?;
                let dims = config.dims.iter();
                let dims = dims.map(|d| PaddingDimension { low: d.low, high: d.high, interior: d.interior }).collect();
                self.set(AttrKey::Padding, AttrValue::Padding(dims));
            }
            O::Slice => {
                let ranges = i.slices.iter();
                let ranges = ranges.map(|s| SliceRange { start: s.start, limit: s.limit, stride: s.stride }).collect();
                self.set(AttrKey::Slice, AttrValue::SliceRanges(ranges));
            }
            O::BatchNormGrad | O::BatchNormInference | O::BatchNormTraining => {
                self.set(AttrKey::Epsilon, AttrValue::Float(i.epsilon));
                self.int(AttrKey::FeatureIndex, i.feature_index);
            }
            O::Map | O::Reduce => {
                self.ints(AttrKey::Dimensions, &i.dimensions);
                self.callee(AttrKey::ToApply, 0)?;
            }
            O::ReduceWindow => {
                self.window();
                self.callee(AttrKey::ToApply, 0)?;
            }
            O::SelectAndScatter => {
                self.window();
                self.callee(AttrKey::SelectComputation, 0)?;
                self.callee(AttrKey::ScatterComputation, 1)?;
            }
            O::Scan => {
                self.ints(AttrKey::Dimensions, &i.dimensions);
                self.flag(AttrKey::IsReverse, i.is_reverse);
                self.int(AttrKey::NumCarries, i.num_carries);
                let associative = match i.is_associative {
                    1 => Some("true".to_owned()),
                    2 => Some("false".to_owned()),
                    _ => None,
                };
                self.raw(AttrKey::IsAssociative, associative);
                self.callee(AttrKey::ToApply, 0)?;
            }
            O::Convolution => {
                self.convolution()?;
                self.word(AttrKey::ConvolutionKind, &CONVOLUTION_KINDS, i.convolution_kind, false)?;
                // XLA writes the message whether or not an operand is sparse.
                let sparse = i.sparsity_config.as_ref().filter(|c| c.lhs.is_some() || c.rhs.is_some());
                self.raw(AttrKey::SparsityConfig, sparse.map(kept::sparsity_config));
            }
            O::Dot | O::ScaledDot => {
                if !i.dot_sparsity.is_empty() {
                    return Err(unsupported("", "a dot of sparse operands"));
                }
                self.dot(i.dot_dims.as_ref().unwrap_or(&DotDims::default()))?;
            }
            O::RaggedDot => {
                let dims = i.ragged_dot_dims.as_ref().ok_or_else(|| missing("ragged_dot_dimension_numbers"))?;
                self.dot(dims.dot.as_ref().unwrap_or(&DotDims::default()))?;
                self.ints(AttrKey::LhsRaggedDims, &dims.lhs_ragged);
                self.ints_if_any(AttrKey::RhsGroupDims, &dims.rhs_group);
            }
            O::Cholesky => self.flag(AttrKey::Lower, i.cholesky.as_ref().is_some_and(|c| c.value)),
            O::Fft => {
                self.word(AttrKey::FftType, &FFT_TYPES, i.fft_type, true)?;
                self.ints(AttrKey::FftLength, &i.fft_length);
            }
            O::TriangularSolve => {
                let options = i.triangular_solve.clone().unwrap_or_default();
                self.flag(AttrKey::LeftSide, options.left_side);
                self.flag(AttrKey::Lower, options.lower);
                self.flag(AttrKey::UnitDiagonal, options.unit_diagonal);
                self.word(AttrKey::TransposeA, &TRANSPOSES, options.transpose_a, false)?;
            }
            O::Sort => {
                self.ints(AttrKey::Dimensions, &i.dimensions);
                self.flag(AttrKey::IsStable, i.is_stable);
                self.callee(AttrKey::ToApply, 0)?;
            }
            O::TopK => {
                self.int(AttrKey::K, i.k);
                self.set(AttrKey::Largest, AttrValue::Bool(i.largest));
            }
            O::Rng => self.word(AttrKey::Distribution, &DISTRIBUTIONS, i.distribution, true)?,
            O::RngBitGenerator => {
                let Some(name) = word_of(&RNG_ALGORITHMS, i.rng_algorithm) else {
                    let found = i.rng_algorithm;
                    return Err(malformed("", format!("rng_algorithm: expected the number of one, found {found}")));
                };
                self.raw(AttrKey::Algorithm, Some(name.to_owned()));
            }
            O::RngGetAndUpdateState => self.int(AttrKey::Delta, i.delta),
            O::Call => {
                self.callee(AttrKey::ToApply, 0)?;
                self.flag(AttrKey::IsComposite, i.is_composite);
            }
            O::Conditional => self.conditional()?,
            O::Fusion => {
                self.spelled(AttrKey::FusionKind, &i.fusion_kind)?;
                self.callee(AttrKey::Calls, 0)?;
                self.operand_aliases();
            }
            O::While => {
                self.callee(AttrKey::Body, 0)?;
                self.callee(AttrKey::Condition, 1)?;
            }
            O::CustomCall => self.custom_call(called)?,
            O::Infeed => self.config(AttrKey::InfeedConfig, &i.infeed_config)?,
            O::Outfeed => {
                if let Some(shape) = &i.outfeed_shape {
                    self.set(AttrKey::OutfeedShape, AttrValue::Shape(shape::read(shape)?));
                }
                self.config(AttrKey::OutfeedConfig, &i.outfeed_config)?;
            }
            O::Send | O::SendDone | O::Recv | O::RecvDone => {
                self.channel();
                self.flag(AttrKey::IsHostTransfer, i.is_host_transfer);
                if matches!(opcode, O::Send | O::Recv) && !i.source_target_pairs.is_empty() {
                    self.raw(AttrKey::SourceTargetPairs, Some(collective::pairs(&i.source_target_pairs)));
                }
            }
            O::AsyncStart => {
                self.callee(AttrKey::Calls, 0)?;
                let thread = &i.async_execution_thread;
                if !thread.is_empty() && thread != "main" {
                    self.set(AttrKey::AsyncExecutionThread, AttrValue::Str(thread.clone()));
                }
                self.operand_aliases();
            }
            O::CopyStart => {
                if let Some(index) = i.cross_program_prefetch_index {
                    self.int(AttrKey::CrossProgramPrefetchIndex, i64::from(index));
                }
            }
            O::CollectivePermute | O::CollectivePermuteStart => {
                self.channel();
                self.raw(AttrKey::SourceTargetPairs, Some(collective::pairs(&i.source_target_pairs)));
                if !i.dynamic_slice_sizes.is_empty() {
                    let input = self.source.operands.first().map(|s| s.leaves());
                    let rank = input.and_then(|l| l.first().and_then(|s| s.as_array()).map(|a| a.rank())).unwrap_or(1);
                    let text = collective::slice_sizes(&i.dynamic_slice_sizes, rank);
                    self.raw(AttrKey::SliceSizesPerDevice, Some(text));
                }
            }
            _ if opcode.optional_attrs().contains(&AttrKey::ReplicaGroups) => self.collective()?,
            _ => {}
        }
        if opcode.optional_attrs().contains(&AttrKey::ResultAccuracy)
            && let Some(accuracy) = &i.result_accuracy
        {
            self.raw(AttrKey::ResultAccuracy, kept::result_accuracy(accuracy)?);
        }
        Ok(())
    }

    fn domain(&mut self) -> Result<()> {
        let i = self.source.instruction;
        let text = |s: &Option<message::Sharding>| match s {
            Some(s) => sharding::text(s),
            None => Ok("{}".to_owned()),
        };
        let (entry, exit) = (text(&i.domain_entry)?, text(&i.domain_exit)?);
        self.raw(AttrKey::DomainInfo, Some(format!("{{kind=\"sharding\", entry={entry}, exit={exit}}}")));
        Ok(())
    }

    fn compare(&mut self) -> Result<()> {
        let Source { instruction: i, operands, .. } = *self.source;
        self.spelled(AttrKey::Direction, &i.comparison_direction)?;
        let default = operands.first().map_or("", |s| default_comparison(s));
        if !i.comparison_type.is_empty() && i.comparison_type != default {
            self.spelled(AttrKey::ComparisonType, &i.comparison_type)?;
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<()> {
        let i = self.source.instruction;
        let d: &IndexedDims = i.gather_dims.as_ref().ok_or_else(|| missing("gather_dimension_numbers"))?;
        self.ints(AttrKey::OffsetDims, &d.window);
        self.ints(AttrKey::CollapsedSliceDims, &d.dropped);
        self.ints(AttrKey::StartIndexMap, &d.map);
        self.ints_if_any(AttrKey::OperandBatchingDims, &d.operand_batching);
        self.ints_if_any(AttrKey::StartIndicesBatchingDims, &d.indices_batching);
        self.int(AttrKey::IndexVectorDim, d.index_vector_dim);
        self.ints(AttrKey::SliceSizes, &i.gather_slice_sizes);
        self.flag(AttrKey::IndicesAreSorted, i.indices_are_sorted);
        Ok(())
    }

    fn scatter(&mut self) -> Result<()> {
        let i = self.source.instruction;
        let d: &IndexedDims = i.scatter_dims.as_ref().ok_or_else(|| missing("scatter_dimension_numbers"))?;
        self.ints(AttrKey::UpdateWindowDims, &d.window);
        self.ints(AttrKey::InsertedWindowDims, &d.dropped);
        self.ints(AttrKey::ScatterDimsToOperandDims, &d.map);
        self.ints_if_any(AttrKey::InputBatchingDims, &d.operand_batching);
        self.ints_if_any(AttrKey::ScatterIndicesBatchingDims, &d.indices_batching);
        self.int(AttrKey::IndexVectorDim, d.index_vector_dim);
        self.flag(AttrKey::IndicesAreSorted, i.indices_are_sorted);
        self.flag(AttrKey::UniqueIndices, i.unique_indices);
        self.callee(AttrKey::ToApply, 0)
    }

    fn window(&mut self) {
        let Some(window) = self.source.instruction.window.as_ref().filter(|w| !w.dims.is_empty()) else { return };
        let dims = window.dims.iter().map(|d| WindowDimension {
            size: d.size,
            stride: d.stride,
            padding_low: d.padding_low,
            padding_high: d.padding_high,
            window_dilation: d.window_dilation,
            base_dilation: d.base_dilation,
            reversal: d.reversal,
        });
        self.set(AttrKey::Window, AttrValue::Window(dims.collect()));
    }

    fn convolution(&mut self) -> Result<()> {
        let i = self.source.instruction;
        self.window();
        if let Some(d) = &i.convolution_dims {
            self.set(AttrKey::DimLabels, AttrValue::DimLabels(Box::new(self.dim_labels(d)?)));
        }
        for (key, count) in
            [(AttrKey::FeatureGroupCount, i.feature_group_count), (AttrKey::BatchGroupCount, i.batch_group_count)]
        {
            if !matches!(count, 0 | 1) {
                self.int(key, count);
            }
        }
        self.precision()
    }

    fn dim_labels(&self, d: &message::ConvolutionDims) -> Result<ConvolutionDims> {
        let rank = |shape: Option<&Shape>| shape.and_then(Shape::as_array).map(|a| a.rank());
        let operand = |k: usize| rank(self.source.operands.get(k).copied());
        let ranks = [operand(0), operand(1), rank(Some(self.source.shape))];
        let counts = [&d.input_spatial, &d.kernel_spatial, &d.output_spatial];
        let lists = [
            [d.input_batch, d.input_feature],
            [d.kernel_input_feature, d.kernel_output_feature],
            [d.output_batch, d.output_feature],
        ];
        if counts.iter().any(|c| c.len() != d.input_spatial.len()) {
            return Err(malformed("", "convolution_dimension_numbers: expected as many spatial dimensions each"));
        }
        let mut read = Vec::new();
        for ((ends, spatial), rank) in lists.iter().zip(counts).zip(ranks) {
            // The printer and the text have one label for each dimension: a number too large would have none.
            let limit = rank.unwrap_or(crate::text::MAX_RANK).max(spatial.len() + 2);
            let numbers = ends.iter().chain(spatial).map(|&n| usize::try_from(n).ok().filter(|&n| n < limit));
            let numbers = numbers.collect::<Option<Vec<_>>>().filter(|n| {
                let mut sorted = n.clone();
                sorted.sort_unstable();
                sorted.windows(2).all(|w| w[0] != w[1])
            });
            let Some(numbers) = numbers else {
                let what = "convolution_dimension_numbers: expected each dimension number once, within the rank";
                return Err(malformed("", what));
            };
            read.push(numbers);
        }
        let [input, kernel, output] = &read[..] else { return Err(missing("convolution_dimension_numbers")) };
        Ok(ConvolutionDims {
            input_batch: input[0],
            input_feature: input[1],
            input_spatial: input[2..].to_vec(),
            kernel_input_feature: kernel[0],
            kernel_output_feature: kernel[1],
            kernel_spatial: kernel[2..].to_vec(),
            output_batch: output[0],
            output_feature: output[1],
            output_spatial: output[2..].to_vec(),
        })
    }

    fn precision(&mut self) -> Result<()> {
        let Some(precision) = &self.source.instruction.precision else { return Ok(()) };
        if precision.operands.iter().all(|&p| p == 0) {
            return Ok(());
        }
        let words = precision.operands.iter().map(|&p| {
            word_of(&PRECISIONS, p)
                .ok_or_else(|| malformed("", format!("precision_config: expected a precision, found {p}")))
        });
        let words = words.collect::<Result<_>>()?;
        self.set(AttrKey::OperandPrecision, AttrValue::Words(words));
        Ok(())
    }

    fn dot(&mut self, d: &DotDims) -> Result<()> {
        self.ints_if_any(AttrKey::LhsBatchDims, &d.lhs_batch);
        self.ints_if_any(AttrKey::LhsContractingDims, &d.lhs_contracting);
        self.ints_if_any(AttrKey::RhsBatchDims, &d.rhs_batch);
        self.ints_if_any(AttrKey::RhsContractingDims, &d.rhs_contracting);
        let algorithm = self.source.instruction.precision.as_ref().map_or(0, |p| p.algorithm);
        if algorithm != 0 {
            let name = word_of(&DOT_ALGORITHMS, algorithm)
                .ok_or_else(|| malformed("", format!("precision_config: expected an algorithm, found {algorithm}")))?;
            if self.source.opcode == Opcode::RaggedDot {
                return Err(unsupported("", format!("the algorithm {name} of a ragged dot")));
            }
            self.raw(AttrKey::Algorithm, Some(name.to_owned()));
        }
        self.precision()
    }

    fn conditional(&mut self) -> Result<()> {
        let Source { called, operands, .. } = *self.source;
        let by_truth = operands.first().and_then(|s| s.as_array()).is_some_and(|a| a.ty.kind() == Kind::Pred);
        if by_truth && called.len() == 2 {
            self.callee(AttrKey::TrueComputation, 0)?;
            return self.callee(AttrKey::FalseComputation, 1);
        }
        self.set(AttrKey::BranchComputations, AttrValue::Computations(called.to_vec()));
        Ok(())
    }

    fn custom_call(&mut self, called: &[ComputationId]) -> Result<()> {
        let i = self.source.instruction;
        self.set(AttrKey::CustomCallTarget, AttrValue::Str(i.custom_call_target.clone()));
        if i.constrain_layout {
            let shapes = i.operand_shapes.iter().map(shape::read).collect::<Result<_>>()?;
            self.set(AttrKey::OperandLayoutConstraints, AttrValue::Shapes(shapes));
        }
        self.flag(AttrKey::CustomCallHasSideEffect, i.has_side_effect);
        // The original convention is what a text without the attribute means; old messages have no such field.
        if !matches!(i.api_version, 0 | 1) {
            self.word(AttrKey::ApiVersion, &API_VERSIONS, i.api_version, true)?;
        }
        self.word(AttrKey::CustomCallSchedule, &SCHEDULES, i.schedule, false)?;
        self.word(AttrKey::PaddingType, &PADDING_TYPES, i.padding_type, false)?;
        self.operand_aliases();
        if !called.is_empty() {
            self.set(AttrKey::CalledComputations, AttrValue::Computations(called.to_vec()));
        }
        self.convolution()
    }

    fn operand_aliases(&mut self) {
        let pairs = &self.source.instruction.output_operand_aliasing;
        if !pairs.is_empty() {
            self.raw(AttrKey::OutputToOperandAliasing, Some(kept::operand_aliases(pairs)));
        }
    }

    fn config(&mut self, key: AttrKey, bytes: &[u8]) -> Result<()> {
        match std::str::from_utf8(bytes) {
            Ok("") => {}
            Ok(text) => self.set(key, AttrValue::Str(text.to_owned())),
            Err(_) => return Err(unsupported("", format!("an {} that is not UTF-8", key.name()))),
        }
        Ok(())
    }

    fn channel(&mut self) {
        let i = self.source.instruction;
        let id = if i.channel_id > 0 { i.channel_id } else { i.all_reduce_id };
        if id > 0 && self.source.opcode.optional_attrs().contains(&AttrKey::ChannelId) {
            self.int(AttrKey::ChannelId, id);
        }
    }

    fn collective(&mut self) -> Result<()> {
        let Source { instruction: i, opcode, .. } = *self.source;
        let admits = |key| opcode.optional_attrs().contains(&key) || opcode.required_attrs().contains(&key);
        self.channel();
        self.raw(AttrKey::ReplicaGroups, Some(collective::replica_groups(i)?));
        self.flag(AttrKey::UseGlobalDeviceIds, i.use_global_device_ids && admits(AttrKey::UseGlobalDeviceIds));
        self.flag(AttrKey::ConstrainLayout, i.constrain_layout && admits(AttrKey::ConstrainLayout));
        if admits(AttrKey::Dimensions) {
            let required = opcode.required_attrs().contains(&AttrKey::Dimensions);
            if required && i.dimensions.is_empty() {
                return Err(missing("dimensions"));
            }
            self.ints_if_any(AttrKey::Dimensions, &i.dimensions);
        }
        if admits(AttrKey::ToApply) {
            self.callee(AttrKey::ToApply, 0)?;
        }
        Ok(())
    }

    /// What every instruction may carry.
    fn common(&mut self) -> Result<()> {
        let Source { instruction: i, shape, backend_config, .. } = *self.source;
        if let Some(s) = &i.sharding {
            self.raw(AttrKey::Sharding, Some(sharding::text(s)?));
        }
        if let Some(attributes) = i.frontend_attributes.as_ref().filter(|f| !f.entries.is_empty()) {
            self.raw(AttrKey::FrontendAttributes, Some(kept::frontend_attributes(attributes)?));
        }
        let metadata = i.metadata.as_ref().map(kept::metadata).filter(|m| m != "{}");
        self.raw(AttrKey::Metadata, metadata);
        self.raw(AttrKey::BackendConfig, kept::backend_config(backend_config)?);
        self.raw(AttrKey::Statistics, i.statistics.as_ref().and_then(kept::statistics));
        let has_origin = |o: &&message::OriginalValue| o.is_synthetic_call || !o.elements.is_empty();
        self.raw(AttrKey::Origin, i.original_value.as_ref().filter(has_origin).map(|o| kept::origin(o, shape)));
        Ok(())
    }
}
