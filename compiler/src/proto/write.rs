//! A module to messages.
//!
//! Ids count from 1 through the module, in the order in which things are read back. XLA wants the names of instructions to
//! differ in the whole module, where a module here has them differ in each computation: later ones get a number.

use super::attributes::{
    API_VERSIONS, CONVOLUTION_KINDS, DISTRIBUTIONS, DOT_ALGORITHMS, FFT_TYPES, PADDING_TYPES, PRECISIONS,
    RNG_ALGORITHMS, SCHEDULES, TRANSPOSES, default_comparison, number_of,
};
use super::message::{self, Aliases, Donors, DotDims, IndexedDims, Instruction as Message, ProgramShape};
use super::read::Names;
use super::{collective, kept, literal, named, shape, sharding, unsupported};
use crate::hlo::{
    AliasKind, AttrKey, AttrValue, Computation, ComputationId, ConvolutionDims, ELIDED_CONSTANT, Instruction,
    InstructionId, Module, Opcode,
};
use crate::text::cursor::Cursor;
use crate::{Error, Result};
use brolga_runtime::{ArrayShape, Layout, Shape};
use hashbrown::{HashMap, HashSet};
use prost::Message as _;

/// The id and the name that an instruction of a computation gets.
type Ids = HashMap<InstructionId, (i64, String)>;

pub(super) fn write(module: &Module) -> Result<Vec<u8>> {
    let fused = fusion_computations(module);
    let numbers: HashMap<ComputationId, i64> = module.order.iter().zip(1..).map(|(&id, n)| (id, n)).collect();
    let mut next = 0;
    let mut names = Names::default();
    let mut out = message::Module {
        name: module.name.clone(),
        entry_name: module.entry().name.clone(),
        entry_id: numbers.get(&module.entry).copied().unwrap_or_default(),
        ..Default::default()
    };
    let mut schedule = message::Schedule::default();
    for &id in &module.order {
        let computation = &module.computations[id];
        let mut ids = Ids::new();
        for &i in &computation.order {
            let instruction = &computation.instructions[i];
            next += 1;
            ids.insert(i, (next, names.fresh(&instruction.name, instruction.opcode.name())));
        }
        let number = numbers.get(&id).copied().unwrap_or_default();
        if module.config.is_scheduled && !fused.contains(&id) {
            let sequence = computation.order.iter().filter_map(|i| ids.get(i).map(|(id, _)| *id));
            let sequence = message::Ids { ids: sequence.collect() };
            schedule.sequences.push(message::Sequence { computation: number, instructions: Some(sequence) });
        }
        let writer = Writer { computation, ids: &ids, numbers: &numbers };
        out.computations.push(writer.computation(number, fused.contains(&id))?.encode_to_vec().into());
    }
    out.schedule = module.config.is_scheduled.then_some(schedule);
    header(module, &mut out)?;
    Ok(out.encode_to_vec())
}

/// The computations that fusions call, and what those call.
fn fusion_computations(module: &Module) -> HashSet<ComputationId> {
    let mut out = HashSet::new();
    // Callers stand after callees: seen from the end, each is known before what it calls.
    for &id in module.order.iter().rev() {
        let computation = &module.computations[id];
        for instruction in computation.order.iter().map(|&i| &computation.instructions[i]) {
            if instruction.opcode == Opcode::Fusion {
                out.extend(instruction.attrs.called());
            }
        }
    }
    out
}

fn header(module: &Module, out: &mut message::Module) -> Result<()> {
    let config = &module.config;
    let entry = module.entry();
    let names = entry.parameters().into_iter().map(|id| entry.instructions[id].name.clone()).collect();
    let (parameters, result) = match &config.entry_layout {
        Some((parameters, result)) => (parameters.clone(), result.clone()),
        None => {
            let shapes = entry.parameters().into_iter().map(|id| entry.instructions[id].shape.clone());
            (shapes.collect(), entry.result_shape().clone())
        }
    };
    if config.entry_layout.is_some() {
        let shapes = parameters.iter().map(|s| shape::write(&with_layouts(s))).collect::<Result<_>>()?;
        let result = Some(shape::write(&with_layouts(&result))?);
        out.host_program_shape = Some(ProgramShape { parameters: shapes, result, names });
    } else {
        let shapes = parameters.iter().map(shape::write).collect::<Result<_>>()?;
        out.host_program_shape = Some(ProgramShape { parameters: shapes, result: Some(shape::write(&result)?), names });
    }
    let path = |list: &[usize]| list.iter().map(|&i| i as i64).collect();
    let entries = config.aliases.iter().map(|a| message::AliasEntry {
        output_index: path(&a.output_index),
        parameter: a.parameter as i64,
        parameter_index: path(&a.parameter_index),
        kind: if a.kind == AliasKind::Must { 2 } else { 1 },
    });
    let entries: Vec<_> = entries.collect();
    out.aliases = Some(Aliases { entries }).filter(|a| !a.entries.is_empty());
    let mut frames = message::StackFrameIndex::default();
    for (key, value) in &config.other {
        match key.as_str() {
            kept::DONORS => out.donors = Some(donors(value)?),
            "frontend_attributes" => out.frontend_attributes = Some(kept::frontend_attributes_message(value)?),
            table if is_table(table) => self::table(&mut frames, table, value)?,
            // The rest belongs to the configuration of a compilation, which is another message.
            _ => {}
        }
    }
    out.stack_frames = Some(frames).filter(|f| *f != message::StackFrameIndex::default());
    Ok(())
}

/// The shape with row-major layouts where it has none.
fn with_layouts(shape: &Shape) -> Shape {
    let fill = |a: &ArrayShape| match &a.layout {
        Some(_) => a.clone(),
        None => ArrayShape { layout: Some(Layout::row_major(a.rank())), ..a.clone() },
    };
    match shape {
        Shape::Array(a) => Shape::Array(fill(a)),
        Shape::Buffer(a) => Shape::Buffer(fill(a)),
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(with_layouts).collect()),
        other => other.clone(),
    }
}

fn donors(text: &str) -> Result<Donors> {
    let entries = kept::donors(text)?.into_iter().map(|(parameter, index)| message::Donor { parameter, index });
    Ok(Donors { entries: entries.collect() })
}

/// Whether what a module says besides is a table of source positions.
pub(super) fn is_table(key: &str) -> bool {
    matches!(key, "FileNames" | "FunctionNames" | "FileLocations" | "StackFrames")
}

/// Reads the rows of a table; they are numbered from 1 in order.
pub(super) fn table(out: &mut message::StackFrameIndex, name: &str, rows: &str) -> Result<()> {
    kept::whole(rows, |c| {
        while c.peek().is_some() {
            c.int("the number of a row")?;
            match name {
                "FileNames" => out.files.push(c.string("a quoted string")?),
                "FunctionNames" => out.functions.push(c.string("a quoted string")?),
                _ => {
                    let fields = row(c)?;
                    let field = |name: &str| fields.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
                    if name == "FileLocations" {
                        out.locations.push(message::FileLocation {
                            file_name_id: field("file_name_id"),
                            function_name_id: field("function_name_id"),
                            line: field("line"),
                            column: field("column"),
                            end_line: field("end_line"),
                            end_column: field("end_column"),
                        });
                    } else {
                        out.frames.push(message::StackFrame {
                            file_location_id: field("file_location_id"),
                            parent_frame_id: field("parent_frame_id"),
                        });
                    }
                }
            }
        }
        Ok(())
    })
}

/// `{name=1 name=2}`
fn row<'a>(c: &mut Cursor<'a>) -> Result<Vec<(&'a str, i32)>> {
    let mut out = Vec::new();
    c.expect("{")?;
    while !c.eat("}") {
        let Some(name) = c.word() else { return Err(c.expected("the name of a field")) };
        c.expect("=")?;
        out.push((name, i32::try_from(c.int("an integer")?).unwrap_or_default()));
    }
    Ok(out)
}

struct Writer<'a> {
    computation: &'a Computation,
    ids: &'a Ids,
    numbers: &'a HashMap<ComputationId, i64>,
}

impl Writer<'_> {
    fn computation(&self, id: i64, is_fusion: bool) -> Result<message::Computation> {
        let c = self.computation;
        let parameters: Vec<&Instruction> = c.parameters().into_iter().map(|i| &c.instructions[i]).collect();
        let program_shape = ProgramShape {
            parameters: parameters.iter().map(|p| shape::write(&p.shape)).collect::<Result<_>>()?,
            result: Some(shape::write(c.result_shape())?),
            names: parameters.iter().map(|p| p.name.clone()).collect(),
        };
        let instructions = c.order.iter().map(|&i| {
            let instruction = &c.instructions[i];
            let message = self.instruction(i, instruction).map_err(|e| named(e, &instruction.name))?;
            Ok(message.encode_to_vec().into())
        });
        let thread = c.trailing.split_once('=').map(|(_, name)| crate::text::parse_string(name)).transpose()?;
        Ok(message::Computation {
            name: c.name.clone(),
            instructions: instructions.collect::<Result<_>>()?,
            program_shape: Some(program_shape),
            id,
            root_id: self.id(c.root)?,
            is_fusion,
            execution_thread: thread.unwrap_or_else(|| "main".to_owned()),
        })
    }

    fn id(&self, id: InstructionId) -> Result<i64> {
        let found = self.ids.get(&id).map(|(id, _)| *id);
        found.ok_or_else(|| Error::Internal(format!("{id} is not in its computation's order")))
    }

    fn instruction(&self, id: InstructionId, i: &Instruction) -> Result<Message> {
        let mut m = Message {
            name: self.ids.get(&id).map_or_else(String::new, |(_, name)| name.clone()),
            opcode: i.opcode.name().to_owned(),
            shape: Some(shape::write(&i.shape)?),
            id: self.id(id)?,
            operands: i.operands.iter().map(|&o| self.id(o)).collect::<Result<_>>()?,
            called: self.called(i)?,
            ..Default::default()
        };
        self.defaults(&mut m, i);
        for (key, value) in i.attrs.iter() {
            self.attribute(&mut m, i, key, value)?;
        }
        Ok(m)
    }

    /// The computations called, in the order that XLA gives them: of a loop, the body comes first.
    fn called(&self, i: &Instruction) -> Result<Vec<i64>> {
        let mut called = i.attrs.called();
        if i.opcode == Opcode::While {
            called.reverse();
        }
        let number = |id: &ComputationId| {
            let found = self.numbers.get(id).copied();
            found.ok_or_else(|| Error::Internal(format!("{id} is not in the module's order")))
        };
        called.iter().map(number).collect()
    }

    /// What the message says where the module says nothing.
    fn defaults(&self, m: &mut Message, i: &Instruction) {
        use Opcode as O;
        match i.opcode {
            O::Compare => {
                let operand = i.operands.first().map(|&o| &self.computation.instructions[o].shape);
                m.comparison_type = operand.map_or("", default_comparison).to_owned();
            }
            O::Convolution => {
                (m.feature_group_count, m.batch_group_count) = (1, 1);
                m.window = Some(message::Window::default());
                self.precision(m, i);
            }
            O::CustomCall => {
                (m.feature_group_count, m.batch_group_count) = (1, 1);
                m.api_version = 1;
                self.precision(m, i);
            }
            O::Dot | O::ScaledDot => {
                m.dot_dims = Some(DotDims::default());
                self.precision(m, i);
            }
            O::RaggedDot => {
                let dot = Some(DotDims::default());
                m.ragged_dot_dims = Some(message::RaggedDotDims { dot, ..Default::default() });
                self.precision(m, i);
            }
            O::ReduceWindow | O::SelectAndScatter => m.window = Some(message::Window::default()),
            O::Gather => m.gather_dims = Some(IndexedDims::default()),
            O::Scatter => m.scatter_dims = Some(IndexedDims::default()),
            O::TriangularSolve => m.triangular_solve = Some(message::TriangularSolve::default()),
            O::Cholesky => m.cholesky = Some(message::Flag::default()),
            O::AsyncStart | O::AsyncUpdate | O::AsyncDone => m.async_execution_thread = "main".to_owned(),
            _ if i.opcode.optional_attrs().contains(&AttrKey::ReplicaGroups) => {
                m.device_list = Some(message::DeviceList::default());
            }
            _ => {}
        }
    }

    fn precision(&self, m: &mut Message, i: &Instruction) {
        m.precision = Some(message::Precision { operands: vec![0; i.operands.len().min(2)], algorithm: 0 });
    }

    fn attribute(&self, m: &mut Message, i: &Instruction, key: AttrKey, value: &AttrValue) -> Result<()> {
        let refused = || unsupported(&i.name, format!("the attribute {} of {} in a message", key.name(), i.opcode));
        match value {
            // Called computations are written in one list.
            AttrValue::Computation(_) | AttrValue::Computations(_) => return Ok(()),
            AttrValue::Raw(text) => return raw(m, i, key, text).map_err(|e| lost(e, i, key)),
            AttrValue::Literal(value) => m.literal = Some(literal::write(value)?),
            AttrValue::Instructions(ids) => {
                m.control_predecessors = ids.iter().map(|&o| self.id(o)).collect::<Result<_>>()?;
            }
            AttrValue::Ints(list) => ints(m, key, list).ok_or_else(refused)?,
            AttrValue::Int(n) => int(m, key, *n).ok_or_else(refused)?,
            AttrValue::Bool(b) => flag(m, key, *b).ok_or_else(refused)?,
            AttrValue::Word(word) => self::word(m, key, word).ok_or_else(refused)?,
            AttrValue::Words(words) => {
                let numbers = words.iter().map(|w| number_of(&PRECISIONS, w)).collect::<Option<Vec<_>>>();
                let numbers = numbers.ok_or_else(refused)?;
                m.precision.get_or_insert_default().operands = numbers;
            }
            AttrValue::Float(v) => m.epsilon = *v,
            AttrValue::Str(text) => match key {
                AttrKey::InfeedConfig => m.infeed_config = text.clone().into_bytes().into(),
                AttrKey::OutfeedConfig => m.outfeed_config = text.clone().into_bytes().into(),
                AttrKey::CustomCallTarget => m.custom_call_target = text.clone(),
                AttrKey::AsyncExecutionThread => m.async_execution_thread = text.clone(),
                _ => return Err(refused()),
            },
            AttrValue::Window(dims) => {
                let dims = dims.iter().map(|d| message::WindowDimension {
                    size: d.size,
                    stride: d.stride,
                    padding_low: d.padding_low,
                    padding_high: d.padding_high,
                    window_dilation: d.window_dilation,
                    base_dilation: d.base_dilation,
                    reversal: d.reversal,
                });
                m.window = Some(message::Window { dims: dims.collect() });
            }
            AttrValue::DimLabels(dims) => m.convolution_dims = Some(convolution_dims(dims)),
            AttrValue::Padding(dims) => {
                let dims = dims.iter();
                let dims = dims.map(|d| message::PaddingDimension { low: d.low, high: d.high, interior: d.interior });
                m.padding = Some(message::Padding { dims: dims.collect() });
            }
            AttrValue::SliceRanges(ranges) => {
                let slices = ranges.iter();
                m.slices =
                    slices.map(|r| message::Slice { start: r.start, limit: r.limit, stride: r.stride }).collect();
            }
            AttrValue::Shape(s) if key == AttrKey::OutfeedShape => m.outfeed_shape = Some(shape::write(s)?),
            AttrValue::Shape(s) if key == AttrKey::InfeedShape => {
                // The message has the layouts in the first part of the result's shape.
                if let Some(first) = m.shape.as_mut().and_then(|s| s.elements.first_mut()) {
                    *first = shape::write(s)?;
                }
            }
            AttrValue::Shapes(shapes) if key == AttrKey::OperandLayoutConstraints => {
                m.constrain_layout = true;
                m.operand_shapes = shapes.iter().map(|s| shape::write(&with_layouts(s))).collect::<Result<_>>()?;
            }
            AttrValue::Shape(_) | AttrValue::Shapes(_) => return Err(refused()),
        }
        Ok(())
    }
}

/// An attribute kept as text that the message cannot say: text that cannot be read here is a form without a field.
fn lost(error: Error, i: &Instruction, key: AttrKey) -> Error {
    match error {
        Error::Unsupported { .. } => named(error, &i.name),
        other => {
            let what = format!("the attribute {} of {} in a message: {}", key.name(), i.opcode, other.message());
            unsupported(&i.name, what)
        }
    }
}

fn raw(m: &mut Message, i: &Instruction, key: AttrKey, text: &str) -> Result<()> {
    let refused = || unsupported(&i.name, format!("{}={text} in a message", key.name()));
    match key {
        AttrKey::Literal => return Err(unsupported(&i.name, ELIDED_CONSTANT)),
        AttrKey::ParameterReplication => m.parameter_replication = Some(kept::flags_message(text)?),
        AttrKey::ResultAccuracy => m.result_accuracy = Some(kept::result_accuracy_message(text)?),
        AttrKey::SparsityConfig => m.sparsity_config = Some(kept::sparsity_config_message(text)?),
        AttrKey::Algorithm if i.opcode == Opcode::RngBitGenerator => {
            m.rng_algorithm = number_of(&RNG_ALGORITHMS, text.trim()).ok_or_else(refused)?;
        }
        AttrKey::Algorithm => {
            let number = number_of(&DOT_ALGORITHMS, text.trim()).ok_or_else(refused)?;
            m.precision.get_or_insert_default().algorithm = number;
        }
        AttrKey::IsAssociative => m.is_associative = if text.trim() == "true" { 1 } else { 2 },
        AttrKey::ReplicaGroups => {
            m.device_list = None;
            collective::set_replica_groups(m, text)?;
        }
        AttrKey::SourceTargetPairs => m.source_target_pairs = collective::pair_messages(text)?,
        AttrKey::SliceSizesPerDevice => m.dynamic_slice_sizes = collective::slice_size_list(text)?,
        AttrKey::DomainInfo => {
            let (entry, exit) = domain(text)?;
            (m.domain_entry, m.domain_exit) = (entry, exit);
        }
        AttrKey::OutputToOperandAliasing => m.output_operand_aliasing = kept::operand_alias_messages(text)?,
        AttrKey::Sharding => m.sharding = Some(sharding::message(text)?),
        AttrKey::FrontendAttributes => m.frontend_attributes = Some(kept::frontend_attributes_message(text)?),
        AttrKey::Metadata => m.metadata = Some(kept::metadata_message(text)?),
        AttrKey::BackendConfig => m.backend_config = kept::backend_config_bytes(text)?.into(),
        AttrKey::Statistics => m.statistics = Some(kept::statistics_message(text)?),
        AttrKey::Origin => m.original_value = Some(kept::origin_message(text)?),
        _ => return Err(refused()),
    }
    Ok(())
}

/// `{kind="sharding", entry={}, exit={maximal device=0}}`
fn domain(text: &str) -> Result<(Option<message::Sharding>, Option<message::Sharding>)> {
    let (mut entry, mut exit) = (None, None);
    kept::whole(text, |c| {
        kept::list(c, |c| {
            let field = c.word().unwrap_or_default();
            c.expect("=")?;
            match field {
                "kind" if c.string("the kind of a domain in quotes")? == "sharding" => {}
                "entry" | "exit" => {
                    let text = c.raw("a sharding")?;
                    let value = if text == "{}" { None } else { Some(sharding::message(text)?) };
                    if field == "entry" { entry = value } else { exit = value }
                }
                _ => return Err(unsupported("", "a domain of another kind than sharding in a message")),
            }
            Ok(())
        })
    })?;
    Ok((entry, exit))
}

fn convolution_dims(d: &ConvolutionDims) -> message::ConvolutionDims {
    let list = |l: &[usize]| l.iter().map(|&n| n as i64).collect();
    message::ConvolutionDims {
        kernel_input_feature: d.kernel_input_feature as i64,
        kernel_output_feature: d.kernel_output_feature as i64,
        kernel_spatial: list(&d.kernel_spatial),
        input_batch: d.input_batch as i64,
        input_feature: d.input_feature as i64,
        output_batch: d.output_batch as i64,
        output_feature: d.output_feature as i64,
        input_spatial: list(&d.input_spatial),
        output_spatial: list(&d.output_spatial),
    }
}

fn ints(m: &mut Message, key: AttrKey, list: &[i64]) -> Option<()> {
    let list = list.to_vec();
    let dot = match &mut m.ragged_dot_dims {
        Some(ragged) => ragged.dot.as_mut(),
        None => m.dot_dims.as_mut(),
    };
    match key {
        AttrKey::Dimensions => m.dimensions = list,
        AttrKey::DynamicSliceSizes => m.dynamic_slice_sizes = list,
        AttrKey::LhsBatchDims => dot?.lhs_batch = list,
        AttrKey::LhsContractingDims => dot?.lhs_contracting = list,
        AttrKey::RhsBatchDims => dot?.rhs_batch = list,
        AttrKey::RhsContractingDims => dot?.rhs_contracting = list,
        AttrKey::LhsRaggedDims => m.ragged_dot_dims.as_mut()?.lhs_ragged = list,
        AttrKey::RhsGroupDims => m.ragged_dot_dims.as_mut()?.rhs_group = list,
        AttrKey::OffsetDims => m.gather_dims.as_mut()?.window = list,
        AttrKey::CollapsedSliceDims => m.gather_dims.as_mut()?.dropped = list,
        AttrKey::StartIndexMap => m.gather_dims.as_mut()?.map = list,
        AttrKey::OperandBatchingDims => m.gather_dims.as_mut()?.operand_batching = list,
        AttrKey::StartIndicesBatchingDims => m.gather_dims.as_mut()?.indices_batching = list,
        AttrKey::SliceSizes => m.gather_slice_sizes = list,
        AttrKey::UpdateWindowDims => m.scatter_dims.as_mut()?.window = list,
        AttrKey::InsertedWindowDims => m.scatter_dims.as_mut()?.dropped = list,
        AttrKey::ScatterDimsToOperandDims => m.scatter_dims.as_mut()?.map = list,
        AttrKey::InputBatchingDims => m.scatter_dims.as_mut()?.operand_batching = list,
        AttrKey::ScatterIndicesBatchingDims => m.scatter_dims.as_mut()?.indices_batching = list,
        AttrKey::FftLength => m.fft_length = list,
        _ => return None,
    }
    Some(())
}

fn int(m: &mut Message, key: AttrKey, n: i64) -> Option<()> {
    match key {
        AttrKey::ParameterNumber => m.parameter_number = n,
        AttrKey::Index => m.tuple_index = n,
        AttrKey::IotaDimension | AttrKey::InferredDimension => m.dimensions = vec![n],
        AttrKey::ExponentBits => m.exponent_bits = i32::try_from(n).ok()?,
        AttrKey::MantissaBits => m.mantissa_bits = i32::try_from(n).ok()?,
        AttrKey::FeatureGroupCount => m.feature_group_count = n,
        AttrKey::BatchGroupCount => m.batch_group_count = n,
        AttrKey::IndexVectorDim => match (&mut m.gather_dims, &mut m.scatter_dims) {
            (Some(dims), _) | (None, Some(dims)) => dims.index_vector_dim = n,
            (None, None) => return None,
        },
        AttrKey::FeatureIndex => m.feature_index = n,
        AttrKey::NumCarries => m.num_carries = n,
        AttrKey::K => m.k = n,
        AttrKey::Delta => m.delta = n,
        AttrKey::ChannelId => m.channel_id = n,
        AttrKey::CrossProgramPrefetchIndex => m.cross_program_prefetch_index = Some(i32::try_from(n).ok()?),
        _ => return None,
    }
    Some(())
}

fn flag(m: &mut Message, key: AttrKey, b: bool) -> Option<()> {
    match key {
        AttrKey::IndicesAreSorted => m.indices_are_sorted = b,
        AttrKey::UniqueIndices => m.unique_indices = b,
        AttrKey::IsReverse => m.is_reverse = b,
        AttrKey::LeftSide => m.triangular_solve.as_mut()?.left_side = b,
        AttrKey::UnitDiagonal => m.triangular_solve.as_mut()?.unit_diagonal = b,
        AttrKey::Lower => match (&mut m.triangular_solve, &mut m.cholesky) {
            (Some(options), _) => options.lower = b,
            (None, Some(options)) => options.value = b,
            (None, None) => return None,
        },
        AttrKey::IsStable => m.is_stable = b,
        AttrKey::Largest => m.largest = b,
        AttrKey::UseGlobalDeviceIds => m.use_global_device_ids = b,
        AttrKey::ConstrainLayout => m.constrain_layout = b,
        AttrKey::IsHostTransfer => m.is_host_transfer = b,
        AttrKey::CustomCallHasSideEffect => m.has_side_effect = b,
        AttrKey::IsComposite => m.is_composite = b,
        _ => return None,
    }
    Some(())
}

fn word(m: &mut Message, key: AttrKey, word: &str) -> Option<()> {
    let number = |words: &[&str]| number_of(words, word);
    match key {
        AttrKey::Direction => m.comparison_direction = word.to_owned(),
        AttrKey::ComparisonType => m.comparison_type = word.to_owned(),
        AttrKey::FusionKind => m.fusion_kind = word.to_owned(),
        AttrKey::ConvolutionKind => m.convolution_kind = number(&CONVOLUTION_KINDS)?,
        AttrKey::PaddingType => m.padding_type = number(&PADDING_TYPES)?,
        AttrKey::TransposeA => m.triangular_solve.as_mut()?.transpose_a = number(&TRANSPOSES)?,
        AttrKey::FftType => m.fft_type = number(&FFT_TYPES)?,
        AttrKey::Distribution => m.distribution = number(&DISTRIBUTIONS)?,
        AttrKey::ApiVersion => m.api_version = number(&API_VERSIONS)?,
        AttrKey::CustomCallSchedule => m.schedule = number(&SCHEDULES)?,
        _ => return None,
    }
    Some(())
}
