//! Types, layouts and attributes, and what of an instruction's attributes has no place.

use super::unsupported;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Instruction, Opcode};
use crate::proto::kept;
use crate::stablehlo::ir::{Attribute, Dictionary, Dim, Element, Elements, ResultAccuracy, TensorType, Type};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Layout, Shape};
use std::sync::Arc;

/// A 32-bit integer.
pub(super) fn int32(value: i64) -> Attribute {
    Attribute::Int(value, Element::Type(ElementType::S32))
}

/// A list of truth values.
pub(super) fn flags(list: impl IntoIterator<Item = bool>) -> Attribute {
    Attribute::Ints(list.into_iter().map(i64::from).collect(), Element::Type(ElementType::Pred))
}

/// A word of one of StableHLO's enumerations.
pub(super) fn word(kind: &str, word: &str) -> Attribute {
    Attribute::Enum { kind: kind.into(), word: word.into() }
}

/// A matrix of integers, row by row.
pub(super) fn matrix(rows: usize, columns: usize, elements: Vec<i64>) -> Attribute {
    integers(Element::Type(ElementType::S64), &[rows as i64, columns as i64], &elements)
}

/// `dense<[1, 0]> : tensor<2xindex>`
fn indices(list: &[usize]) -> Attribute {
    let elements: Vec<i64> = list.iter().map(|&d| d as i64).collect();
    integers(Element::Index, &[list.len() as i64], &elements)
}

fn integers(element: Element, dims: &[i64], elements: &[i64]) -> Attribute {
    let ty = TensorType { element, dims: dims.iter().map(|&n| Dim::Fixed(n)).collect() };
    let data = ArrayLiteral::from_elements(dims, elements);
    Attribute::Elements(Elements { ty, data: Arc::new(data), is_splat: false })
}

/// The type of a shape, or what has none.
pub(super) fn type_of(shape: &Shape) -> std::result::Result<Type, String> {
    match shape {
        Shape::Array(a) => tensor(a),
        Shape::Buffer(a) => tensor_type(a).map(Type::Buffer),
        Shape::Token => Ok(Type::Token),
        Shape::Tuple(parts) => parts.iter().map(type_of).collect::<std::result::Result<_, _>>().map(Type::Tuple),
        Shape::Opaque => Err("an opaque value".to_owned()),
    }
}

pub(super) fn tensor(array: &ArrayShape) -> std::result::Result<Type, String> {
    tensor_type(array).map(Type::Tensor)
}

pub(super) fn tensor_type(array: &ArrayShape) -> std::result::Result<TensorType, String> {
    // In MLIR the integer of one bit is the truth value.
    if matches!(array.ty, ElementType::S1 | ElementType::U1) {
        return Err(format!("the element type {}", array.ty));
    }
    let dims = array.dims.iter().zip(&array.dynamic);
    let dims = dims.map(|(&n, &dynamic)| if dynamic { Dim::Bounded(n) } else { Dim::Fixed(n) }).collect();
    Ok(TensorType { element: Element::Type(array.ty), dims })
}

/// Whether a leaf lies in memory row by row, as StableHLO has it where nothing is said.
pub(super) fn is_row_major(leaf: &Shape) -> bool {
    match leaf {
        Shape::Array(a) | Shape::Buffer(a) => a.layout.as_ref().is_none_or(|l| *l == Layout::row_major(a.rank())),
        _ => true,
    }
}

/// Whether `list` names each of `rank` dimensions once.
pub(super) fn is_permutation(list: &[usize], rank: usize) -> bool {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..rank)
}

/// The order of dimensions, from minor to major, of a leaf; of each leaf of a tuple.
pub(super) fn layout(shape: &Shape) -> std::result::Result<Attribute, String> {
    match shape {
        Shape::Array(a) | Shape::Buffer(a) => {
            let row_major = Layout::row_major(a.rank());
            let layout = a.layout.as_ref().unwrap_or(&row_major);
            let plain = Layout { minor_to_major: layout.minor_to_major.clone(), ..row_major.clone() };
            if *layout == plain { Ok(indices(&plain.minor_to_major)) } else { Err(layout.to_string()) }
        }
        Shape::Token | Shape::Opaque => Ok(indices(&[])),
        Shape::Tuple(parts) => parts.iter().map(layout).collect::<std::result::Result<_, _>>().map(Attribute::Array),
    }
}

/// `mhlo.sharding`, where there is one, and `mhlo.frontend_attributes`.
pub(super) fn discardable(instruction: &Instruction, sharding: Option<&str>) -> Result<Dictionary> {
    let mut out = Dictionary::new();
    if let Some(sharding) = sharding {
        out.set("mhlo.sharding", Attribute::string(sharding));
    }
    if let Some(text) = instruction.attrs.raw(AttrKey::FrontendAttributes) {
        let message =
            kept::frontend_attributes_message(text).map_err(|_| unsupported(instruction, "frontend_attributes"))?;
        let mut entries = Dictionary::new();
        for entry in message.entries {
            entries.set(entry.key, Attribute::string(&entry.value));
        }
        if !entries.is_empty() {
            out.set("mhlo.frontend_attributes", Attribute::Dictionary(entries));
        }
    }
    Ok(out)
}

/// `mhlo.sharding` of each result, of the root's.
pub(super) fn result_shardings(root: &Instruction, sharding: Option<&str>, count: usize) -> Vec<Dictionary> {
    let mut out = vec![Dictionary::new(); count];
    let Some(text) = sharding else { return out };
    let each = match root.shape {
        Shape::Tuple(_) => split(text),
        _ => vec![text],
    };
    if each.len() == count {
        for (attributes, sharding) in out.iter_mut().zip(each) {
            attributes.set("mhlo.sharding", Attribute::string(sharding));
        }
    }
    out
}

/// The parts of `{{a}, {b}}`.
fn split(text: &str) -> Vec<&str> {
    let inner = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or_default();
    let (mut depth, mut start) = (0, 0);
    let mut out = Vec::new();
    for (at, c) in inner.char_indices() {
        match c {
            '{' => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    out.extend(inner.get(start..=at));
                }
            }
            _ => {}
        }
    }
    out
}

/// Refuses attributes that mean something and have no place.
pub(super) fn check(instruction: &Instruction) -> Result<()> {
    for (key, value) in instruction.attrs.iter() {
        if !has_place(instruction, key, value) {
            return Err(unsupported(instruction, key.name()));
        }
    }
    Ok(())
}

/// Whether an attribute is written, or says nothing about values.
fn has_place(instruction: &Instruction, key: AttrKey, value: &AttrValue) -> bool {
    use AttrKey as K;
    let is_custom_call = instruction.opcode == Opcode::CustomCall;
    match key {
        K::ResultAccuracy => takes_accuracy(instruction.opcode),
        K::SparsityConfig | K::Sparsity | K::SliceSizesPerDevice | K::Inplace | K::PaddingType => false,
        K::Window | K::DimLabels | K::OperandPrecision | K::ToApply => !is_custom_call,
        K::FeatureGroupCount | K::BatchGroupCount => !is_custom_call || *value == AttrValue::Int(1),
        K::Literal => instruction.opcode == Opcode::Constant,
        K::CustomCallSchedule => *value == AttrValue::Word("SCHEDULE_NONE"),
        K::ParameterNumber
        | K::Dimensions
        | K::Index
        | K::IotaDimension
        | K::InferredDimension
        | K::Slice
        | K::DynamicSliceSizes
        | K::Padding
        | K::SourceLayout
        | K::ResultLayout
        | K::Direction
        | K::ComparisonType
        | K::ExponentBits
        | K::MantissaBits
        | K::ConvolutionKind
        | K::LhsBatchDims
        | K::LhsContractingDims
        | K::RhsBatchDims
        | K::RhsContractingDims
        | K::LhsRaggedDims
        | K::RhsGroupDims
        | K::Algorithm
        | K::OffsetDims
        | K::CollapsedSliceDims
        | K::StartIndexMap
        | K::OperandBatchingDims
        | K::StartIndicesBatchingDims
        | K::UpdateWindowDims
        | K::InsertedWindowDims
        | K::ScatterDimsToOperandDims
        | K::InputBatchingDims
        | K::ScatterIndicesBatchingDims
        | K::IndexVectorDim
        | K::SliceSizes
        | K::IndicesAreSorted
        | K::UniqueIndices
        | K::Epsilon
        | K::FeatureIndex
        | K::IsReverse
        | K::IsAssociative
        | K::NumCarries
        | K::LeftSide
        | K::Lower
        | K::UnitDiagonal
        | K::TransposeA
        | K::FftType
        | K::FftLength
        | K::IsStable
        | K::K
        | K::Largest
        | K::Distribution
        | K::Delta
        | K::ChannelId
        | K::ReplicaGroups
        | K::UseGlobalDeviceIds
        | K::ConstrainLayout
        | K::CollectiveMode
        | K::SourceTargetPairs
        | K::IsHostTransfer
        | K::ParameterReplication
        | K::DomainInfo
        | K::CrossProgramPrefetchIndex
        | K::InfeedConfig
        | K::InfeedShape
        | K::OutfeedConfig
        | K::OutfeedShape
        | K::CustomCallTarget
        | K::OperandLayoutConstraints
        | K::CustomCallHasSideEffect
        | K::ApiVersion
        | K::OutputToOperandAliasing
        | K::SelectComputation
        | K::ScatterComputation
        | K::Condition
        | K::Body
        | K::TrueComputation
        | K::FalseComputation
        | K::BranchComputations
        | K::CalledComputations
        | K::FusionKind
        | K::Calls
        | K::IsComposite
        | K::AsyncExecutionThread
        | K::Sharding
        | K::ControlPredecessors
        | K::FrontendAttributes
        | K::Metadata
        | K::BackendConfig
        | K::Statistics
        | K::Origin => true,
    }
}

/// The operations of StableHLO whose accuracy can be stated.
fn takes_accuracy(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::Cbrt
            | O::Cos
            | O::Exp
            | O::Expm1
            | O::Log
            | O::Log1p
            | O::Logistic
            | O::Rsqrt
            | O::Sin
            | O::Sqrt
            | O::Tan
            | O::Tanh
    )
}

/// `result_accuracy`, where it is stated.
pub(super) fn accuracy(instruction: &Instruction, into: &mut Dictionary) -> Result<()> {
    let Some(text) = instruction.attrs.raw(AttrKey::ResultAccuracy) else { return Ok(()) };
    let message = kept::result_accuracy_message(text).map_err(|_| unsupported(instruction, "result_accuracy"))?;
    let mode = match (&message.tolerance, message.mode) {
        (Some(_), _) => "TOLERANCE",
        (None, Some(1)) => "HIGHEST",
        (None, _) => "DEFAULT",
    };
    let tolerance = message.tolerance.unwrap_or_default();
    let accuracy =
        ResultAccuracy { atol: tolerance.atol, rtol: tolerance.rtol, ulps: tolerance.ulps, mode: mode.into() };
    into.set("result_accuracy", Attribute::ResultAccuracy(accuracy));
    Ok(())
}

/// `precision_config` of two operands, as HLO says it.
pub(super) fn precision(instruction: &Instruction, into: &mut Dictionary) -> Result<()> {
    let Some(AttrValue::Words(words)) = instruction.attrs.get(AttrKey::OperandPrecision) else { return Ok(()) };
    let mut list = Vec::new();
    for name in words {
        list.push(match *name {
            "default" => word("precision", "DEFAULT"),
            "high" => word("precision", "HIGH"),
            "highest" => word("precision", "HIGHEST"),
            other => return Err(unsupported(instruction, format!("the precision {other}"))),
        });
    }
    into.set("precision_config", Attribute::Array(list));
    Ok(())
}
