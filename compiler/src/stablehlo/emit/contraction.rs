//! Products, convolutions and windows.

use super::body::{Body, Frame, Repr, dictionary};
use super::{attributes, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, Instruction, WindowDimension};
use crate::stablehlo::algorithms;
use crate::stablehlo::ir::{Attribute, DotDims, RaggedDotDims};

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
            let algorithm = algorithms::by_name(name, types, i.shape.as_array().map(|a| a.ty));
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
        let mut operands = self.all_leaves(frame, i)?;
        self.meet(i, &mut operands)?;
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
