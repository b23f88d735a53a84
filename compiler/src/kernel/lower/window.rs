//! Windows that slide: reduce-window and convolution.
//!
//! The window's dimensions are sequential loops, an output dimension is the vector axis with one accumulator an element.
//! Where a window may reach past the operand, or between its elements where the base is dilated, the index is clamped
//! and the value replaced by the one that changes nothing.

use super::dot::{Loops, MIN_BLOCKED, QUARTER_FILLED, has_few_columns, summed_in};
use super::scatter::{both, is_zero};
use super::words::Filling;
use super::{Known, Lowerer, Stage, indexing, internal, type_in_row};
use crate::error::Result;
use crate::hlo::{AttrKey, ConvolutionDims, InstructionId, WindowDimension, resolve};
use crate::kernel::body::{Body, NodeId, Op, ScalarType};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{self, Accumulator, Contraction, Loop, Nest, Phase, Place, RowBuffer};
use crate::kernel::storage;
use brolga_runtime::ArrayShape;

/// The index into one dimension of the base, and whether it is an element of it (`None` where it always is).
fn base_index(body: &mut Body, w: &WindowDimension, size: i64, output: &Ix, window: &Ix) -> (Ix, Option<NodeId>) {
    let window = if w.reversal { window.scale(-1).offset(w.size - 1) } else { window.clone() };
    let position = output.scale(w.stride).add(&window.scale(w.window_dilation)).offset(-w.padding_low);
    let element = position.div(w.base_dilation.max(1));
    let mut valid = None;
    if w.base_dilation > 1 {
        valid = Some(is_zero(body, position.rem(w.base_dilation)));
    }
    let (low, high) = element.range();
    if low >= 0 && high < size {
        return (element, valid);
    }
    let node = body.push(Op::Index(element), &[], ScalarType::I64);
    let (element, inside) = indexing::checked_offset(body, node, size - 1);
    (element, Some(both(body, valid, inside)))
}

impl Lowerer<'_> {
    pub(super) fn reduce_window(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let n = inst.operands.len() / 2;
        let from = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.dims.clone();
        let to = self.leaf_shape((id, 0))?.dims.clone();
        // Reversal means nothing here: elements are folded in ascending order.
        let forward = |w: &WindowDimension| WindowDimension { reversal: false, ..*w };
        let window: Vec<_> = inst.attrs.window(AttrKey::Window).unwrap_or(&[]).iter().map(forward).collect();
        if window.len() != from.len() || from.contains(&0) {
            return Err(super::unsupported(inst, "compiling this window"));
        }
        let outputs: Vec<Loop> = to.iter().map(|&d| self.new_loop(d)).collect();
        let windows: Vec<Loop> = window.iter().map(|w| self.new_loop(w.size)).collect();
        let mut stage = Stage::default();
        let known = Known::default();
        let mut valid = None;
        let mut index = Vec::new();
        for (d, w) in window.iter().enumerate() {
            let (ix, inside) = base_index(&mut stage.body, w, from[d], &outputs[d].ix(), &windows[d].ix());
            index.push(ix);
            if let Some(inside) = inside {
                valid = Some(both(&mut stage.body, valid, inside));
            }
        }
        let (mut init, mut values) = (Vec::new(), Vec::new());
        let components = self.components(&inst.operands[..n])?;
        for &(k, part) in &components {
            init.push(self.part(&mut stage, &known, ((inst.operands[n + k], 0), part), &[])?);
            values.push(self.part(&mut stage, &known, ((inst.operands[k], 0), part), &index)?);
        }
        let combiner = self.window_combiner(id, components.len())?;
        let (mut combine, mut roots) = (combiner.body, combiner.roots);
        if let Some(valid) = valid {
            // The accumulator stays as it is where the window has no element: one more value says so.
            let scalar = stage.body.scalar(valid);
            let inside = combine.arg(2 * components.len() as u32, scalar);
            for (k, root) in roots.iter_mut().enumerate() {
                let scalar = combine.scalar(*root);
                let old = combine.arg(k as u32, scalar);
                *root = combine.select(inside, *root, old);
            }
            values.push(valid);
        }
        self.window_nest(id, stage, (outputs, windows), Folded { components, init, values, combine, roots })
    }

    pub(super) fn convolution(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let labels = inst.attrs.dim_labels(AttrKey::DimLabels).ok_or_else(|| internal(inst, "no dim_labels"))?.clone();
        let lhs = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.clone();
        let rhs = self.leaf_shape(resolve(self.c, (inst.operands[1], 0)))?.clone();
        let out = self.leaf_shape((id, 0))?.clone();
        let window = inst.attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
        let groups = inst.attrs.int(AttrKey::FeatureGroupCount).unwrap_or(1).max(1);
        let batches = inst.attrs.int(AttrKey::BatchGroupCount).unwrap_or(1).max(1);
        if window.len() != labels.input_spatial.len() || lhs.dims.contains(&0) || rhs.dims.contains(&0) {
            return Err(internal(inst, "a convolution of nothing was not expanded"));
        }
        let depth = (rhs.elements() / rhs.dims[labels.kernel_output_feature] as usize) as i64;
        let channels = rhs.dims[labels.kernel_input_feature];
        if batches == 1
            && let Some(filling) = self.filling([lhs.ty, rhs.ty], out.ty)
            && filling.is_worth(channels)
            && let Some(loops) =
                self.convolution_product(&labels, &window, (groups, filling.count()), (&lhs, &rhs, &out))
            && loops.extents().1 > 1
        {
            return self.convolution_of_words(id, (loops, filling, None), (&labels, groups), [&lhs, &rhs]);
        }
        if batches == 1
            && let Some(product) = summed_in([lhs.ty, rhs.ty], out.ty, depth)
            && let Some(loops) = self.convolution_product(&labels, &window, (groups, 1), (&lhs, &rhs, &out))
        {
            let types = [lhs.ty, rhs.ty];
            if let Some(filling) = self.filling_of_floats(types, out.ty)
                && filling.is_worth(channels)
                && let Some(block) = self.words_of_block(&loops, &lhs, filling)
                && let Some(words) =
                    self.convolution_product(&labels, &window, (groups, filling.count()), (&lhs, &rhs, &out))
            {
                return self.convolution_of_words(id, (words, filling, Some(block)), (&labels, groups), [&lhs, &rhs]);
            }
            if labels.input_feature + 1 == lhs.rank() && has_few_columns(types, out.ty, loops.extents(), QUARTER_FILLED)
            {
                return self.few_columns(id, loops, [(inst.operands[0], &lhs), (inst.operands[1], &rhs)], out.ty);
            }
            if loops.extents().1 > 1 {
                return self.blocked(id, loops, product, [&lhs, &rhs]);
            }
        }
        let outputs: Vec<Loop> = out.dims.iter().map(|&d| self.new_loop(d)).collect();
        let mut windows: Vec<Loop> = window.iter().map(|w| self.new_loop(w.size)).collect();
        let channel = self.new_loop(rhs.dims[labels.kernel_input_feature]);
        let mut stage = Stage::default();
        let known = Known::default();
        let feature = outputs[labels.output_feature].ix();
        let features = out.dims[labels.output_feature];
        let mut a = vec![Ix::default(); lhs.rank()];
        let mut b = vec![Ix::default(); rhs.rank()];
        let group = feature.div((features / groups).max(1));
        a[labels.input_feature] = group.scale(channel.extent).add(&channel.ix());
        let batch_group = feature.div((features / batches).max(1));
        let batch = outputs[labels.output_batch].ix();
        a[labels.input_batch] =
            if batches > 1 { batch_group.scale(out.dims[labels.output_batch]).add(&batch) } else { batch };
        b[labels.kernel_input_feature] = channel.ix();
        b[labels.kernel_output_feature] = feature;
        let mut valid = None;
        for (d, w) in window.iter().enumerate() {
            let place = labels.input_spatial[d];
            let output = outputs[labels.output_spatial[d]].ix();
            let (ix, inside) = base_index(&mut stage.body, w, lhs.dims[place], &output, &windows[d].ix());
            a[place] = ix;
            b[labels.kernel_spatial[d]] = windows[d].ix();
            if let Some(inside) = inside {
                valid = Some(both(&mut stage.body, valid, inside));
            }
        }
        windows.push(channel);
        let x = self.value(&mut stage, &known, (inst.operands[0], 0), &a)?;
        let mut x = self.widen(&mut stage, id, lhs.ty, out.ty, x)?;
        let y = self.value(&mut stage, &known, (inst.operands[1], 0), &b)?;
        let y = self.widen(&mut stage, id, rhs.ty, out.ty, y)?;
        let scalar = storage::compute_type(out.ty);
        if let Some(valid) = valid {
            let zero = stage.body.bits(scalar, 0);
            x = stage.body.select(valid, x, zero);
        }
        let mut combine = Body::new();
        combine.attribute(id);
        let args = [0, 1, 2].map(|i| combine.arg(i, scalar));
        let root = self.multiply_add(&mut combine, out.ty, args);
        let init = vec![stage.body.bits(scalar, 0)];
        let folded = Folded { components: vec![(0, 0)], init, values: vec![x, y], combine, roots: vec![root] };
        self.window_nest(id, stage, (outputs, windows), folded)
    }

    /// The loops of a convolution that is a matrix product: its rows are the positions of the window, its columns the
    /// features of a group, what is contracted the elements of the window and the channels of a group, of which an element of the arrays
    /// has some together.
    fn convolution_product(
        &mut self,
        labels: &ConvolutionDims,
        window: &[WindowDimension],
        (groups, together): (i64, i64),
        (lhs, rhs, out): (&ArrayShape, &ArrayShape, &ArrayShape),
    ) -> Option<Loops> {
        let plain = |w: &WindowDimension| w.padding_low == 0 && w.padding_high == 0 && w.base_dilation == 1;
        if !window.iter().all(plain) {
            return None;
        }
        let features = out.dims[labels.output_feature] / groups;
        let channels = (rhs.dims[labels.kernel_input_feature] + together - 1) / together;
        let positions =
            out.dims[labels.output_batch] * labels.output_spatial.iter().map(|&d| out.dims[d]).product::<i64>();
        let depth = channels * window.iter().map(|w| w.size).product::<i64>();
        if positions < 2 || features < 1 || positions.saturating_mul(features).saturating_mul(depth) < MIN_BLOCKED {
            return None;
        }
        let group = self.new_loop(groups);
        let batch = self.new_loop(out.dims[labels.output_batch]);
        let feature = self.new_loop(features);
        let channel = self.new_loop(channels);
        let mut l = Loops {
            batch: vec![group],
            m: vec![batch],
            n: vec![feature],
            k: Vec::new(),
            lhs: vec![Ix::default(); lhs.rank()],
            rhs: vec![Ix::default(); rhs.rank()],
            out: vec![Ix::default(); out.rank()],
        };
        let of_group = group.ix().scale(features).add(&feature.ix());
        l.lhs[labels.input_batch] = batch.ix();
        l.lhs[labels.input_feature] = group.ix().scale(channels).add(&channel.ix());
        l.rhs[labels.kernel_input_feature] = channel.ix();
        l.rhs[labels.kernel_output_feature] = of_group.clone();
        l.out[labels.output_batch] = batch.ix();
        l.out[labels.output_feature] = of_group;
        for (d, w) in window.iter().enumerate() {
            let position = self.new_loop(out.dims[labels.output_spatial[d]]);
            let element = self.new_loop(w.size);
            let within = if w.reversal { element.ix().scale(-1).offset(w.size - 1) } else { element.ix() };
            l.lhs[labels.input_spatial[d]] = position.ix().scale(w.stride).add(&within.scale(w.window_dilation));
            l.rhs[labels.kernel_spatial[d]] = element.ix();
            l.out[labels.output_spatial[d]] = position.ix();
            l.m.push(position);
            l.k.push(element);
        }
        l.k.push(channel);
        Some(l)
    }

    /// How many words of floats a block of steps has: as many as hold the elements of one in the product of these, which is given. `None`
    /// where words are not worth it, or would be cut.
    fn words_of_block(&mut self, elements: &Loops, lhs: &ArrayShape, filling: Filling) -> Option<i64> {
        if elements.extents().1 <= 1 || !filling.is_worth_copies(elements.extents()) {
            return None;
        }
        let fused = self.fused(elements);
        let base = fused.of(&linearize(&elements.lhs, &lhs.dims));
        let block = Contraction::block_of_windows(&base, fused.m, fused.k);
        (block % filling.count() == 0).then_some(block / filling.count())
    }

    /// One accumulator for each output element: the last output dimension of several elements is the vector axis.
    fn window_nest(
        &mut self,
        id: InstructionId,
        stage: Stage,
        (mut outputs, windows): (Vec<Loop>, Vec<Loop>),
        folded: Folded,
    ) -> Result<Vec<Phase>> {
        let dims: Vec<i64> = outputs.iter().map(|l| l.extent).collect();
        let index: Vec<Ix> = outputs.iter().map(Loop::ix).collect();
        let offset = linearize(&index, &dims);
        let last = outputs.iter().rposition(|l| l.extent > 1).or(outputs.len().checked_sub(1));
        let vector = match last {
            Some(last) => outputs.remove(last),
            None => self.new_loop(1),
        };
        let mut known = Known::default();
        let mut rows = Vec::new();
        for (row, &(k, part)) in (0..).zip(&folded.components) {
            let scalar = type_in_row(self.compute_type((id, k))?);
            rows.push(RowBuffer { scalar, elements: vector.extent });
            known.rows.insert(((id, k), part), (row, offset.clone()));
        }
        let place = Place::Row { rows: (0..folded.init.len() as u32).collect() };
        let Folded { init, values, combine, roots, .. } = folded;
        let accumulator = Accumulator { init, values, identity: None, combine, roots, splits: false, place };
        let first = ir::Stage { accumulators: vec![accumulator], ..ir::Stage::new(windows, vector, stage.body) };
        let second = self.epilogue_stage(&known, &offset, Some(vector))?;
        Ok(vec![Phase::Nest(Nest { parallel: outputs, rows, stages: vec![first, second] })])
    }
}

/// What a window folds.
struct Folded {
    /// Number and part of each component.
    components: Vec<(usize, u32)>,
    init: Vec<NodeId>,
    values: Vec<NodeId>,
    combine: Body,
    roots: Vec<NodeId>,
}
