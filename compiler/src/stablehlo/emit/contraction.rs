//! Products, convolutions and windows.

use super::body::{Body, Frame, Repr, dictionary};
use super::{attributes, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, Instruction, WindowDimension};
use crate::stablehlo::ir::{Attribute, DotAlgorithm, DotDims, Element, RaggedDotDims};
use brolga_runtime::ElementType;

/// A window, list by list.
pub(super) struct Window {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub padding: Attribute,
    pub base_dilations: Vec<i64>,
    pub window_dilations: Vec<i64>,
    pub reversal: Vec<bool>,
    pub is_dilated: bool,
}

impl Window {
    /// The window of an instruction over `rank` dimensions, of ones where it says none.
    pub fn of(i: &Instruction, rank: usize) -> Window {
        let none = vec![WindowDimension::default(); rank];
        let dims = match i.attrs.window(AttrKey::Window) {
            Some(dims) if dims.len() == rank => dims,
            _ => &none,
        };
        let list = |get: fn(&WindowDimension) -> i64| dims.iter().map(get).collect::<Vec<_>>();
        let padding = dims.iter().flat_map(|d| [d.padding_low, d.padding_high]).collect();
        Window {
            sizes: list(|d| d.size),
            strides: list(|d| d.stride),
            padding: attributes::matrix(dims.len(), 2, padding),
            base_dilations: list(|d| d.base_dilation),
            window_dilations: list(|d| d.window_dilation),
            reversal: dims.iter().map(|d| d.reversal).collect(),
            is_dilated: dims.iter().any(|d| d.base_dilation != 1 || d.window_dilation != 1),
        }
    }
}

impl Body<'_, '_> {
    pub fn dot(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let mut attributes = dictionary([("dot_dimension_numbers", Attribute::Dot(Box::new(dot_dims(i))))]);
        attributes::precision(i, &mut attributes)?;
        if let Some(name) = i.attrs.raw(AttrKey::Algorithm).map(str::trim).filter(|n| *n != "dot_unset") {
            let types = [self.array(frame, i, 0)?.ty, self.array(frame, i, 1)?.ty];
            let algorithm = algorithm(name, types, i.shape.as_array().map(|a| a.ty));
            let algorithm = algorithm.ok_or_else(|| unsupported(i, format!("the algorithm {name}")))?;
            attributes.set("algorithm", Attribute::DotAlgorithm(Box::new(algorithm)));
            // An algorithm says it all: StableHLO admits no precision beside it.
            let plain = attributes::word("precision", "DEFAULT");
            if let Some(Attribute::Array(list)) = attributes.remove("precision_config")
                && list.iter().any(|word| *word != plain)
            {
                return Err(unsupported(i, "operand_precision beside an algorithm"));
            }
        }
        self.one(i, "stablehlo.dot_general", operands, attributes)
    }

    pub fn ragged_dot(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let list = |key| i.attrs.ints_or_empty(key).to_vec();
        let dims = RaggedDotDims {
            dot: dot_dims(i),
            lhs_ragged: list(AttrKey::LhsRaggedDims),
            rhs_group: list(AttrKey::RhsGroupDims),
        };
        let mut attributes = dictionary([("ragged_dot_dimension_numbers", Attribute::RaggedDot(Box::new(dims)))]);
        attributes::precision(i, &mut attributes)?;
        self.one(i, "chlo.ragged_dot", operands, attributes)
    }

    pub fn convolution(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let Some(dims) = i.attrs.dim_labels(AttrKey::DimLabels) else { return Err(unsupported(i, "no dim_labels")) };
        let count = dims.kernel_spatial.len();
        let ranks = [self.array(frame, i, 0)?.rank(), self.array(frame, i, 1)?.rank()];
        let result = i.shape.as_array().map_or(0, |a| a.rank());
        if ranks.iter().chain([&result]).any(|&rank| rank != count + 2) {
            return Err(unsupported(i, "dimensions that play no part"));
        }
        let window = Window::of(i, count);
        let group = |key| Attribute::int(i.attrs.int(key).unwrap_or(1));
        let mut attributes = dictionary([
            ("window_strides", Attribute::ints(window.strides)),
            ("padding", window.padding),
            ("lhs_dilation", Attribute::ints(window.base_dilations)),
            ("rhs_dilation", Attribute::ints(window.window_dilations)),
            ("window_reversal", attributes::flags(window.reversal)),
            ("dimension_numbers", Attribute::Convolution(Box::new(dims.clone()))),
            ("feature_group_count", group(AttrKey::FeatureGroupCount)),
            ("batch_group_count", group(AttrKey::BatchGroupCount)),
        ]);
        attributes::precision(i, &mut attributes)?;
        self.one(i, "stablehlo.convolution", operands, attributes)
    }
}

fn dot_dims(i: &Instruction) -> DotDims {
    let list = |key| i.attrs.ints_or_empty(key).to_vec();
    DotDims {
        lhs_batching: list(AttrKey::LhsBatchDims),
        rhs_batching: list(AttrKey::RhsBatchDims),
        lhs_contracting: list(AttrKey::LhsContractingDims),
        rhs_contracting: list(AttrKey::RhsContractingDims),
    }
}

/// An algorithm by XLA's name: the types of both sides and of the sum, parts and products.
fn algorithm(name: &str, operands: [ElementType; 2], result: Option<ElementType>) -> Option<DotAlgorithm> {
    use ElementType as E;
    let ty = Element::Type;
    let (side, sum, parts, products) = match name {
        "dot_f16_f16_f16" => (ty(E::F16), E::F16, 1, 1),
        "dot_f16_f16_f32" => (ty(E::F16), E::F32, 1, 1),
        "dot_bf16_bf16_bf16" => (ty(E::BF16), E::BF16, 1, 1),
        "dot_bf16_bf16_f32" => (ty(E::BF16), E::F32, 1, 1),
        "dot_bf16_bf16_f32_x3" => (ty(E::BF16), E::F32, 2, 3),
        "dot_bf16_bf16_f32_x6" => (ty(E::BF16), E::F32, 3, 6),
        "dot_bf16_bf16_f32_x9" => (ty(E::BF16), E::F32, 3, 9),
        "dot_tf32_tf32_f32" => (Element::Tf32, E::F32, 1, 1),
        "dot_tf32_tf32_f32_x3" => (Element::Tf32, E::F32, 2, 3),
        "dot_f32_f32_f32" => (ty(E::F32), E::F32, 1, 1),
        "dot_f64_f64_f64" => (ty(E::F64), E::F64, 1, 1),
        "dot_any_f8_any_f8_f32" | "dot_any_f8_any_f8_f32_fast_accum" | "dot_any_f8_any_f8_any" => {
            let narrow = |t: &E| t.is_float() && t.bits() == 8;
            if !operands.iter().all(narrow) || operands[0] != operands[1] {
                return None;
            }
            let sum = if name == "dot_any_f8_any_f8_any" { result? } else { E::F32 };
            (ty(operands[0]), sum, 1, 1)
        }
        _ => return None,
    };
    Some(DotAlgorithm {
        lhs_precision_type: side.clone(),
        rhs_precision_type: side,
        accumulation_type: ty(sum),
        lhs_component_count: parts,
        rhs_component_count: parts,
        num_primitive_operations: products,
        allow_imprecise_accumulation: name.ends_with("fast_accum"),
    })
}
