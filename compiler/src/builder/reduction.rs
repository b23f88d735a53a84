//! Reductions, windows, scans, maps and batch normalisation.

use super::types::window;
use super::{At, Builder, Op, Padding, Step};
use crate::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode, WindowDimension};
use brolga_runtime::{ElementType, Shape};
use std::panic::Location;

/// A computation `(x, y) -> opcode(x, y)` of scalars: the usual argument of a reduction.
///
/// # Errors
/// Where the operation is not one of two scalars of type `ty`, or does not yield one.
#[track_caller]
pub fn scalar_computation(opcode: Opcode, ty: ElementType) -> Result<Module> {
    scalar_computation_at(Location::caller(), opcode, ty)
}

pub(super) fn scalar_computation_at(at: At, opcode: Opcode, ty: ElementType) -> Result<Module> {
    let b = Builder::new_at(at, opcode.name());
    let x = b.parameter(0, Shape::scalar(ty), "x");
    let y = b.parameter(1, Shape::scalar(ty), "y");
    let root = b.op(opcode, &[x, y], Attrs::new(), None);
    b.build_with_root(root)
}

impl Builder {
    fn to_apply(&self, computation: &Module) -> Attrs {
        Attrs::new().with(AttrKey::ToApply, AttrValue::Computation(self.embed(computation)))
    }

    /// `reduce(operand, init_value, computation, dimensions)`: the fold of `operand` along `dimensions`, which the result
    /// lacks. `computation` takes the value so far and an element. Section «Reduce».
    #[track_caller]
    pub fn reduce(&self, operand: Op, init_value: Op, computation: &Module, dimensions: &[i64]) -> Op {
        self.reduce_many(&[operand], &[init_value], computation, dimensions)
    }

    /// `reduce_many(operands, init_values, computation, dimensions)`: several folds side by side; `computation` takes all
    /// values so far, then one element of each operand, and yields a tuple, as does the reduction. Section «Variadic
    /// Reduce».
    #[track_caller]
    pub fn reduce_many(&self, operands: &[Op], init_values: &[Op], computation: &Module, dimensions: &[i64]) -> Op {
        let attrs = self.to_apply(computation).with(AttrKey::Dimensions, AttrValue::Ints(dimensions.to_vec()));
        self.op(Opcode::Reduce, &[operands, init_values].concat(), attrs, None)
    }

    /// `reduce_all(operand, init_value, computation)`: the fold of all elements, a scalar.
    #[track_caller]
    pub fn reduce_all(&self, operand: Op, init_value: Op, computation: &Module) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::Reduce, operand).and_then(|a| {
            let all = (0..a.rank() as i64).collect();
            let attrs = self.to_apply(computation).with(AttrKey::Dimensions, AttrValue::Ints(all));
            self.add_at(at, Opcode::Reduce, &[operand, init_value], attrs, None)
        }))
    }

    /// `reduce_window(operand, init_value, computation, window_dimensions, window_strides, padding)`: the fold of each
    /// window that slides over `operand`. Section «ReduceWindow».
    #[track_caller]
    pub fn reduce_window(
        &self,
        operand: Op,
        init_value: Op,
        computation: &Module,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: &Padding,
    ) -> Op {
        let at = Location::caller();
        let windows = (window_dimensions, window_strides, padding);
        self.fold_windows(at, &[operand], &[init_value], computation, windows, (&[], &[]))
    }

    /// `reduce_window_many(operands, init_values, computation, window_dimensions, window_strides, padding)`: the fold of
    /// the windows of several operands side by side, as [`Builder::reduce_many`] folds whole dimensions; a tuple of
    /// several operands. Section «ReduceWindow».
    #[track_caller]
    pub fn reduce_window_many(
        &self,
        operands: &[Op],
        init_values: &[Op],
        computation: &Module,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: &Padding,
    ) -> Op {
        let at = Location::caller();
        let windows = (window_dimensions, window_strides, padding);
        self.fold_windows(at, operands, init_values, computation, windows, (&[], &[]))
    }

    /// `reduce_window_with_general_padding(operands, init_values, computation, window_dimensions, window_strides,
    /// base_dilations, window_dilations, padding)`: the general form; a tuple of several operands. Empty strides or
    /// dilations stand for ones. Section «ReduceWindow».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn reduce_window_with_general_padding(
        &self,
        operands: &[Op],
        init_values: &[Op],
        computation: &Module,
        window_dimensions: &[i64],
        window_strides: &[i64],
        base_dilations: &[i64],
        window_dilations: &[i64],
        padding: &[(i64, i64)],
    ) -> Op {
        let at = Location::caller();
        let windows = (window_dimensions, window_strides, &Padding::Explicit(padding.to_vec()));
        self.fold_windows(at, operands, init_values, computation, windows, (base_dilations, window_dilations))
    }

    /// `reduce_window_dilated(operands, init_values, computation, window_dimensions, window_strides, base_dilations,
    /// window_dilations, padding)`: as [`Builder::reduce_window_with_general_padding`], with padding of any kind. Section
    /// «ReduceWindow».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn reduce_window_dilated(
        &self,
        operands: &[Op],
        init_values: &[Op],
        computation: &Module,
        window_dimensions: &[i64],
        window_strides: &[i64],
        base_dilations: &[i64],
        window_dilations: &[i64],
        padding: &Padding,
    ) -> Op {
        let at = Location::caller();
        let windows = (window_dimensions, window_strides, padding);
        self.fold_windows(at, operands, init_values, computation, windows, (base_dilations, window_dilations))
    }

    /// A `reduce-window` called from `at`: its windows are sizes, strides and padding; the dilations are the base's and the
    /// window's.
    fn fold_windows(
        &self,
        at: At,
        operands: &[Op],
        init_values: &[Op],
        computation: &Module,
        (sizes, strides, padding): (&[i64], &[i64], &Padding),
        (base_dilations, window_dilations): (&[i64], &[i64]),
    ) -> Op {
        let window = match operands.first() {
            Some(&first) => self.window_at(
                at,
                Opcode::ReduceWindow,
                first,
                sizes,
                strides,
                padding,
                base_dilations,
                window_dilations,
            ),
            None => Ok(Vec::new()),
        };
        self.finish(window.and_then(|w| {
            let attrs = self.to_apply(computation).with(AttrKey::Window, AttrValue::Window(w));
            self.add_at(at, Opcode::ReduceWindow, &[operands, init_values].concat(), attrs, None)
        }))
    }

    #[allow(clippy::too_many_arguments)]
    fn window_at(
        &self,
        at: At,
        opcode: Opcode,
        operand: Op,
        sizes: &[i64],
        strides: &[i64],
        padding: &Padding,
        base_dilations: &[i64],
        window_dilations: &[i64],
    ) -> Step<Vec<WindowDimension>> {
        let a = self.array_at(at, opcode, operand)?;
        window(&a.dims, sizes, strides, padding, base_dilations, window_dilations)
            .map_err(|e| self.reject(at, opcode, e))
    }

    /// `select_and_scatter(operand, select, window_dimensions, window_strides, padding, source, init_value, scatter)`:
    /// `select` picks an element of each window over `operand`; the source's element for that window is folded in there
    /// by `scatter`, onto `init_value`. The result has the shape of `operand`. Section «SelectAndScatter».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn select_and_scatter(
        &self,
        operand: Op,
        select: &Module,
        window_dimensions: &[i64],
        window_strides: &[i64],
        padding: &Padding,
        source: Op,
        init_value: Op,
        scatter: &Module,
    ) -> Op {
        let at = Location::caller();
        self.finish(
            self.window_at(at, Opcode::SelectAndScatter, operand, window_dimensions, window_strides, padding, &[], &[])
                .and_then(|w| {
                    let attrs = Attrs::new()
                        .with(AttrKey::Window, AttrValue::Window(w))
                        .with(AttrKey::SelectComputation, AttrValue::Computation(self.embed(select)))
                        .with(AttrKey::ScatterComputation, AttrValue::Computation(self.embed(scatter)));
                    self.add_at(at, Opcode::SelectAndScatter, &[operand, source, init_value], attrs, None)
                }),
        )
    }

    /// `map_with_dimensions(operands, computation, dimensions)`: as [`Builder::map`]. Errors: `dimensions` that are not all
    /// of the operands', in order. Section «Map».
    #[track_caller]
    pub fn map_with_dimensions(&self, operands: &[Op], computation: &Module, dimensions: &[i64]) -> Op {
        let attrs = self.to_apply(computation).with(AttrKey::Dimensions, AttrValue::Ints(dimensions.to_vec()));
        self.op(Opcode::Map, operands, attrs, None)
    }

    /// `map(operands, computation)`: a computation of scalars applied to the elements at each place. Section «Map».
    #[track_caller]
    pub fn map(&self, operands: &[Op], computation: &Module) -> Op {
        let at = Location::caller();
        let rank = match operands.first() {
            Some(&first) => self.array_at(at, Opcode::Map, first).map(|a| a.rank()),
            None => Ok(0),
        };
        self.finish(rank.and_then(|rank| {
            let all = (0..rank as i64).collect();
            let attrs = self.to_apply(computation).with(AttrKey::Dimensions, AttrValue::Ints(all));
            self.add_at(at, Opcode::Map, operands, attrs, None)
        }))
    }

    /// `scan(inputs, init_values, computation, scan_dimension, is_reverse)`: walks `scan_dimension` of the inputs; at each
    /// step `computation` takes the carries and a slice of each input and yields a slice of each output and the new
    /// carries. The result is a tuple of the outputs and the last carries.
    #[track_caller]
    pub fn scan(
        &self,
        inputs: &[Op],
        init_values: &[Op],
        computation: &Module,
        scan_dimension: i64,
        is_reverse: bool,
    ) -> Op {
        let mut attrs = self
            .to_apply(computation)
            .with(AttrKey::Dimensions, AttrValue::Ints(vec![scan_dimension]))
            .with(AttrKey::NumCarries, AttrValue::Int(init_values.len() as i64));
        if is_reverse {
            attrs.set(AttrKey::IsReverse, AttrValue::Bool(true));
        }
        self.op(Opcode::Scan, &[inputs, init_values].concat(), attrs, None)
    }

    fn norm_attrs(epsilon: f64, feature_index: i64) -> Attrs {
        Attrs::new()
            .with(AttrKey::Epsilon, AttrValue::Float(epsilon as f32))
            .with(AttrKey::FeatureIndex, AttrValue::Int(feature_index))
    }

    /// `batch_norm_training(operand, scale, offset, epsilon, feature_index)`: the operand normalised over all dimensions
    /// but the features, and the means and variances used, as a tuple. `epsilon` is narrowed to `f32`, which is what HLO
    /// keeps of it, whatever the type of the operand. Section «BatchNormTraining».
    #[track_caller]
    pub fn batch_norm_training(&self, operand: Op, scale: Op, offset: Op, epsilon: f64, feature_index: i64) -> Op {
        let attrs = Self::norm_attrs(epsilon, feature_index);
        self.op(Opcode::BatchNormTraining, &[operand, scale, offset], attrs, None)
    }

    /// `batch_norm_inference(operand, scale, offset, mean, variance, epsilon, feature_index)`: the operand normalised
    /// with given means and variances. `epsilon` is narrowed to `f32`, as of [`Builder::batch_norm_training`]. Section
    /// «BatchNormInference».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn batch_norm_inference(
        &self,
        operand: Op,
        scale: Op,
        offset: Op,
        mean: Op,
        variance: Op,
        epsilon: f64,
        feature_index: i64,
    ) -> Op {
        let attrs = Self::norm_attrs(epsilon, feature_index);
        self.op(Opcode::BatchNormInference, &[operand, scale, offset, mean, variance], attrs, None)
    }

    /// `batch_norm_grad(operand, scale, mean, variance, grad_output, epsilon, feature_index)`: the gradients of
    /// [`Builder::batch_norm_training`] with respect to operand, scale and offset, as a tuple. `epsilon` is narrowed to
    /// `f32`, as there. Section «BatchNormGrad».
    #[track_caller]
    #[allow(clippy::too_many_arguments)] // They are the specification's.
    pub fn batch_norm_grad(
        &self,
        operand: Op,
        scale: Op,
        mean: Op,
        variance: Op,
        grad_output: Op,
        epsilon: f64,
        feature_index: i64,
    ) -> Op {
        let attrs = Self::norm_attrs(epsilon, feature_index);
        self.op(Opcode::BatchNormGrad, &[operand, scale, mean, variance, grad_output], attrs, None)
    }
}
