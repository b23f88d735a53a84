//! Convolutions that are matrix products: what surrounds and parts the elements of their base becomes a `pad`, or is left out, and their
//! features come last.
//!
//! **Problem.** Code generation makes a blocked contraction of a convolution whose base has every element that a window meets. Its rows
//! are positions, its columns features: where the channels of a position lie a plane apart, no row of it can be walked.
//!
//! **Invariant.** What is put between elements of the base, or around them, is zero: a product with it adds nothing to a sum.
//!
//! **Algorithm.** Where elements of the base lie `d` apart along a dimension, as in a transposed convolution, every `d`-th position of
//! the window meets them in the same elements of the kernel. Those positions are a convolution of the base as it is with these elements
//! alone, and what the `d` of them give is put together element by element; the dimensions are taken apart one after another. What
//! padding there is, the base then gets before it is read. Base, kernel and result with another order of dimensions are transposed to the
//! one with features last.

use super::formula::{every, interleaved, slice};
use crate::error::Result;
use crate::hlo::{
    AttrKey, AttrValue, Attrs, ConvolutionDims, InstructionId, Opcode, PaddingDimension, SliceRange, WindowDimension,
    inverse,
};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType};

/// A convolution of fewer multiplications is neither taken apart nor transposed: each part of it is a kernel.
const LEAST: i64 = 1 << 16;
/// A feature that sums so many channels, ...
const CHANNELS: i64 = 8;
/// ... or so many steps most of which are tested, ...
const STEPS: i64 = 64;
/// ... at so many positions is worth a product though each group has but one.
const POSITIONS: i64 = 64;
/// The most parts.
const MOST_PARTS: i64 = 16;

/// A convolution over several positions with several features, of which code generation makes a blocked contraction, reads
/// its base without a test for each element and along its channels: the base is padded before, and what parts its elements is left out.
///
/// Depthwise convolutions (one feature a group, of few channels), batch groups and types whose products are not summed in floats stay as
/// they are.
pub fn product(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let mut attrs = rw.instruction(id).attrs.clone();
    let (base, kernel) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let (Some(shape), Some(kernel_shape), Some(result)) = (rw.array(base), rw.array(kernel), rw.array(id)) else {
        return Ok(None);
    };
    let (Some(plan), result) = (Plan::of(&attrs, [shape, kernel_shape, result]), result.clone()) else {
        return Ok(None);
    };
    let Plan { labels, window, moved, large } = plan;
    attrs.remove(AttrKey::ControlPredecessors);
    if !moved {
        return Ok(Product { rw, labels, attrs, large }.of((base, kernel), window, &result));
    }
    let [of_base, of_kernel, of_result] = labels.orders();
    let labels = ConvolutionDims::with_features_last(window.len());
    attrs.set(AttrKey::DimLabels, AttrValue::DimLabels(Box::new(labels.clone())));
    let (base, kernel) = (rw.transpose(base, &of_base), rw.transpose(kernel, &of_kernel));
    let dims: Vec<i64> = of_result.iter().map(|&d| result.dims[d]).collect();
    let last = Product { rw, labels, attrs, large }.of((base, kernel), window, &ArrayShape::new(result.ty, dims));
    Ok(last.map(|last| rw.transpose(last, &inverse(&of_result))))
}

/// What becomes of a convolution that is worth a product, and is not yet one.
struct Plan {
    labels: ConvolutionDims,
    window: Vec<WindowDimension>,
    /// Whether dimensions are transposed to the order with features last.
    moved: bool,
    /// Whether it is worth being taken apart, into not too many parts.
    large: bool,
}

impl Plan {
    fn of(attrs: &Attrs, [shape, kernel, result]: [&ArrayShape; 3]) -> Option<Plan> {
        let labels = attrs.dim_labels(AttrKey::DimLabels)?.clone();
        let window = attrs.window(AttrKey::Window)?.to_vec();
        let types = [shape.ty, kernel.ty];
        let floats = result.ty.is_float() && types.iter().all(|t| t.is_float());
        let integers = result.ty.is_integer() && types.iter().all(|t| t.is_small_integer());
        // A type without a zero cannot be padded with it.
        let summed = (floats || integers) && shape.ty != ElementType::F8E8M0Fnu;
        let empty = result.elements() == 0 || shape.elements() == 0;
        let batches = attrs.int(AttrKey::BatchGroupCount).unwrap_or(1);
        if !summed || empty || batches != 1 || window.len() != labels.input_spatial.len() {
            return None;
        }
        let groups = attrs.int(AttrKey::FeatureGroupCount).unwrap_or(1).max(1);
        let features = *result.dims.get(labels.output_feature)?;
        let several = features > groups;
        let deep = *kernel.dims.get(labels.kernel_input_feature)? >= CHANNELS;
        let steps = kernel.elements() as i64 / features;
        // The only feature of a group is worth a product where it sums many channels, or where most windows reach beyond the base.
        let outside = |(w, &d): (&WindowDimension, &usize)| shape.dims.get(d).is_some_and(|&size| 2 * w.size > size);
        let worth = deep || steps >= STEPS && window.iter().zip(&labels.input_spatial).any(outside);
        let one = worth && floats && result.elements() as i64 / features >= POSITIONS;
        let products = result.dims.iter().copied().fold(steps, i64::saturating_mul);
        // Positions of one feature lie side by side where few channels do.
        let moved = products >= LEAST && !labels.features_last() && (several || deep);
        let padded = |w: &WindowDimension| w.padding_low != 0 || w.padding_high != 0 || w.base_dilation != 1;
        if !(several || one) || !(moved || window.iter().any(padded)) {
            return None;
        }
        let places = window.iter().map(|w| w.base_dilation).fold(1, i64::saturating_mul);
        let large = products >= LEAST && places <= MOST_PARTS;
        Some(Plan { labels, window, moved, large })
    }
}

/// Convolutions of one base that differ in their windows and elements of the kernel.
struct Product<'r, 'm> {
    rw: &'r mut Rewriter<'m>,
    labels: ConvolutionDims,
    attrs: Attrs,
    /// As a [`Plan`] says.
    large: bool,
}

impl Product<'_, '_> {
    /// The convolution with this window, whose result has this shape; `None` where sizes overflow.
    fn of(
        &mut self,
        (base, kernel): (InstructionId, InstructionId),
        window: Vec<WindowDimension>,
        result: &ArrayShape,
    ) -> Option<InstructionId> {
        let parted =
            |w: &WindowDimension| w.base_dilation > 1 && w.stride == 1 && w.window_dilation == 1 && !w.reversal;
        match window.iter().position(parted).filter(|_| self.large) {
            Some(s) => self.apart((base, kernel), &window, s, &result.dims),
            None => self.padded((base, kernel), window, result),
        }
    }

    /// The convolution, position by position of a window whose base has elements apart along spatial dimension `s`.
    fn apart(
        &mut self,
        (base, kernel): (InstructionId, InstructionId),
        window: &[WindowDimension],
        s: usize,
        dims: &[i64],
    ) -> Option<InstructionId> {
        let (along, of_kernel) = (*self.labels.output_spatial.get(s)?, *self.labels.kernel_spatial.get(s)?);
        let elements = *self.rw.dims(base).get(*self.labels.input_spatial.get(s)?)?;
        let w = *window.get(s)?;
        let (apart, all) = (w.base_dilation, *dims.get(along)?);
        // As many positions of each, so that they lie side by side; what is too much is cut off again.
        let positions = (all - 1) / apart + 1;
        let mut part_dims = dims.to_vec();
        *part_dims.get_mut(along)? = positions;
        let shape = ArrayShape::new(self.rw.array(base)?.ty, part_dims.as_slice());
        let mut parts = Vec::new();
        for r in 0..apart {
            // Position `apart * q + r` meets element `q + j - low` of the base in element `first + apart * j` of the kernel.
            let first = w.padding_low.checked_sub(r)?.rem_euclid(apart);
            let low = (w.padding_low - r - first) / apart;
            let part = if first < w.size {
                let range = SliceRange { start: first, limit: w.size, stride: apart };
                let kernel = every(self.rw, kernel, of_kernel, range);
                let size = (w.size - first - 1) / apart + 1;
                let high = positions.checked_add(size - 1)?.checked_sub(elements)?.checked_sub(low)?;
                let mut window = window.to_vec();
                *window.get_mut(s)? =
                    WindowDimension { size, padding_low: low, padding_high: high, base_dilation: 1, ..w };
                self.of((base, kernel), window, &shape)?
            } else {
                self.rw.splat(ArrayLiteral::zeros(&ArrayShape::new(shape.ty, [])), &shape)
            };
            parts.push(part);
        }
        positions.checked_mul(apart)?;
        let together = interleaved(self.rw, parts, along);
        Some(slice(self.rw, together, along, 0, all))
    }

    /// The convolution of the padded base.
    fn padded(
        &mut self,
        (base, kernel): (InstructionId, InstructionId),
        mut window: Vec<WindowDimension>,
        result: &ArrayShape,
    ) -> Option<InstructionId> {
        let shape = self.rw.array(base)?.clone();
        let mut amounts = vec![PaddingDimension::default(); shape.rank()];
        let mut dims = shape.dims.clone();
        for (w, &d) in window.iter_mut().zip(&self.labels.input_spatial) {
            let interior = w.base_dilation - 1;
            amounts[d] = PaddingDimension { low: w.padding_low, high: w.padding_high, interior };
            let dilated = (dims[d] - 1).checked_mul(w.base_dilation).and_then(|n| n.checked_add(1));
            let size = dilated.and_then(|n| n.checked_add(w.padding_low)?.checked_add(w.padding_high));
            dims[d] = size.filter(|&n| n > 0)?;
            (w.padding_low, w.padding_high, w.base_dilation) = (0, 0, 1);
        }
        let base = if amounts.iter().all(|&p| p == PaddingDimension::default()) {
            base
        } else {
            let zero = self.rw.constant(ArrayLiteral::zeros(&ArrayShape::new(shape.ty, [])).into());
            let pad = Attrs::new().with(AttrKey::Padding, AttrValue::Padding(amounts));
            self.rw.emit(Opcode::Pad, ArrayShape::new(shape.ty, dims).into(), vec![base, zero], pad)
        };
        let mut attrs = self.attrs.clone();
        attrs.set(AttrKey::Window, AttrValue::Window(window));
        Some(self.rw.emit(Opcode::Convolution, result.clone().into(), vec![base, kernel], attrs))
    }
}
