//! Dot and convolution.

use super::types::window;
use super::{At, Builder, DotDimensions, Op, Padding, Step};
use crate::hlo::{AttrKey, AttrValue, Attrs, ConvolutionDims, Opcode};
use crate::shape::{self, InferContext, RuleError};
use brolga_runtime::{ElementType, Shape};
use std::panic::Location;

/// The dimension numbers that the short forms of convolution use: batch, feature, then the spatial dimensions; for the
/// kernel output feature, input feature, then the spatial ones.
pub fn default_convolution_dims(spatial: usize) -> ConvolutionDims {
    let spatial: Vec<usize> = (2..2 + spatial).collect();
    ConvolutionDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_output_feature: 0,
        kernel_input_feature: 1,
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
    }
}

impl Builder {
    /// `dot(lhs, rhs)`: vector by vector, matrix by vector or matrix by matrix: the last dimension of `lhs` is summed
    /// with the first of `rhs`. Section «Dot».
    #[track_caller]
    pub fn dot(&self, lhs: Op, rhs: Op) -> Op {
        let at = Location::caller();
        let step = self.array_at(at, Opcode::Dot, lhs).and_then(|a| {
            let b = self.array_at(at, Opcode::Dot, rhs)?;
            if !(1..=2).contains(&a.rank()) || !(1..=2).contains(&b.rank()) {
                let message = format!("expected vectors or matrices as operands of dot, found {a:#} and {b:#}");
                return Err(self.reject_plain(at, RuleError::new("dot.rank", message)));
            }
            let dims = DotDimensions {
                lhs_contracting: vec![a.rank() as i64 - 1],
                rhs_contracting: vec![0],
                ..DotDimensions::default()
            };
            self.dot_at(at, lhs, rhs, &dims, None)
        });
        self.finish(step)
    }

    /// `dot_general(lhs, rhs, dimension_numbers)`: sums over the contracting dimensions, one for each place of the batch
    /// dimensions and of the rest. The result has the batch dimensions, the rest of `lhs`, the rest of `rhs`. Section
    /// «DotGeneral».
    #[track_caller]
    pub fn dot_general(&self, lhs: Op, rhs: Op, dimension_numbers: &DotDimensions) -> Op {
        self.finish(self.dot_at(Location::caller(), lhs, rhs, dimension_numbers, None))
    }

    /// As [`Builder::dot_general`], summed and yielded in another, usually wider, element type.
    #[track_caller]
    pub fn dot_general_with_type(
        &self,
        lhs: Op,
        rhs: Op,
        dimension_numbers: &DotDimensions,
        preferred_element_type: ElementType,
    ) -> Op {
        self.finish(self.dot_at(Location::caller(), lhs, rhs, dimension_numbers, Some(preferred_element_type)))
    }

    fn dot_at(&self, at: At, lhs: Op, rhs: Op, dims: &DotDimensions, ty: Option<ElementType>) -> Step {
        let mut attrs = Attrs::new();
        for (key, list) in [
            (AttrKey::LhsBatchDims, &dims.lhs_batch),
            (AttrKey::LhsContractingDims, &dims.lhs_contracting),
            (AttrKey::RhsBatchDims, &dims.rhs_batch),
            (AttrKey::RhsContractingDims, &dims.rhs_contracting),
        ] {
            let batch = matches!(key, AttrKey::LhsBatchDims | AttrKey::RhsBatchDims);
            if !(batch && list.is_empty()) {
                attrs.set(key, AttrValue::Ints(list.clone()));
            }
        }
        let declared = match ty {
            Some(ty) => Some(self.dot_shape_at(at, [lhs, rhs], &attrs, ty)?),
            None => None,
        };
        self.add_at(at, Opcode::Dot, &[lhs, rhs], attrs, declared)
    }

    /// The natural result of a dot under another element type, to be declared.
    fn dot_shape_at(&self, at: At, operands: [Op; 2], attrs: &Attrs, ty: ElementType) -> Step<Shape> {
        let ids = self.ids(at, Opcode::Dot, &operands)?;
        let inferred = {
            let state = self.state.borrow();
            let shapes: Vec<&Shape> = ids.iter().map(|&id| &state.instructions[id].shape).collect();
            shape::infer(&InferContext::of(&state.computations), Opcode::Dot, &shapes, attrs, None)
        };
        match inferred {
            Ok(Shape::Array(a)) => Ok(a.with_type(ty).into()),
            Ok(other) => Ok(other),
            Err(e) => Err(self.reject(at, Opcode::Dot, e)),
        }
    }

    /// `conv(lhs, rhs, window_strides, padding, feature_group_count, batch_group_count)`: the convolution of `lhs` (batch,
    /// feature, spatial...) with the kernel `rhs` (output feature, input feature, spatial...). Section
    /// «Conv (convolution)».
    #[track_caller]
    pub fn conv(
        &self,
        lhs: Op,
        rhs: Op,
        window_strides: &[i64],
        padding: &Padding,
        feature_group_count: i64,
        batch_group_count: i64,
    ) -> Op {
        let dims = default_convolution_dims(window_strides.len());
        self.finish(self.conv_at(
            Location::caller(),
            [lhs, rhs],
            [window_strides, &[], &[]],
            padding,
            &dims,
            [feature_group_count, batch_group_count],
        ))
    }

    /// `conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
    /// feature_group_count, batch_group_count)`: the general convolution. Empty strides or dilations stand for ones.
    /// Section «ConvWithGeneralPadding (convolution)».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn conv_general_dilated(
        &self,
        lhs: Op,
        rhs: Op,
        window_strides: &[i64],
        padding: &Padding,
        lhs_dilation: &[i64],
        rhs_dilation: &[i64],
        dimension_numbers: &ConvolutionDims,
        feature_group_count: i64,
        batch_group_count: i64,
    ) -> Op {
        self.finish(self.conv_at(
            Location::caller(),
            [lhs, rhs],
            [window_strides, lhs_dilation, rhs_dilation],
            padding,
            dimension_numbers,
            [feature_group_count, batch_group_count],
        ))
    }

    #[allow(clippy::too_many_arguments)]
    fn conv_at(
        &self,
        at: At,
        operands: [Op; 2],
        [strides, lhs_dilation, rhs_dilation]: [&[i64]; 3],
        padding: &Padding,
        dims: &ConvolutionDims,
        [feature_groups, batch_groups]: [i64; 2],
    ) -> Step {
        let (a, b) = (
            self.array_at(at, Opcode::Convolution, operands[0])?,
            self.array_at(at, Opcode::Convolution, operands[1])?,
        );
        // Numbers past the rank are the rule's to refuse; here they only must not be looked up.
        let sizes = |list: &[i64], numbers: &[usize]| -> Vec<i64> {
            numbers.iter().map(|&d| list.get(d).copied().unwrap_or(0)).collect()
        };
        let (base, kernel) = (sizes(&a.dims, &dims.input_spatial), sizes(&b.dims, &dims.kernel_spatial));
        let window = window(&base, &kernel, strides, padding, lhs_dilation, rhs_dilation)
            .map_err(|e| self.reject(at, Opcode::Convolution, e))?;
        let mut attrs = Attrs::new().with(AttrKey::DimLabels, AttrValue::DimLabels(Box::new(dims.clone())));
        if !window.is_empty() {
            attrs.set(AttrKey::Window, AttrValue::Window(window));
        }
        for (key, count) in [(AttrKey::FeatureGroupCount, feature_groups), (AttrKey::BatchGroupCount, batch_groups)] {
            if count != 1 {
                attrs.set(key, AttrValue::Int(count));
            }
        }
        self.add_at(at, Opcode::Convolution, &operands, attrs, None)
    }
}
