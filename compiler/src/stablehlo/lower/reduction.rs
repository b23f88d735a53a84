//! Operations that apply a region to elements.

use super::body::Body;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Opcode, WindowDimension};
use crate::stablehlo::ir::{Attribute, Operation};
use brolga_runtime::Shape;

impl<'p> Body<'_, 'p> {
    pub fn reduction(&mut self, op: &'p Operation, short: &str) -> Result<Option<Vec<InstructionId>>> {
        let operands = self.all_operands(op)?;
        let results = match short {
            "reduce" => {
                let computation = self.applied(self.region(op, 0)?, "reducer")?;
                let attrs = Attrs::new()
                    .with(AttrKey::Dimensions, AttrValue::Ints(self.ints(op, "dimensions")?))
                    .with(AttrKey::ToApply, AttrValue::Computation(computation));
                let id = self.emit(Opcode::Reduce, &operands, attrs, None)?;
                self.several(id, operands.len() / 2)?
            }
            "reduce_window" => {
                let computation = self.applied(self.region(op, 0)?, "reducer")?;
                let sizes = self.ints(op, "window_dimensions")?;
                let window = Window {
                    strides: self.optional_ints(op, "window_strides")?,
                    padding: self.optional_ints(op, "padding")?,
                    base_dilations: self.optional_ints(op, "base_dilations")?,
                    window_dilations: self.optional_ints(op, "window_dilations")?,
                    reversal: None,
                };
                let attrs = Attrs::new()
                    .with(AttrKey::Window, AttrValue::Window(self.window(&sizes, &window)?))
                    .with(AttrKey::ToApply, AttrValue::Computation(computation));
                let shape = self.yielded_shape(op, computation)?;
                let id = self.emit(Opcode::ReduceWindow, &operands, attrs, shape)?;
                self.several(id, operands.len() / 2)?
            }
            "select_and_scatter" => {
                let select = self.applied(self.region(op, 0)?, "select")?;
                let scatter = self.applied(self.region(op, 1)?, "scatter")?;
                let rank = operands.first().map_or(Ok(0), |&o| self.array(o).map(|a| a.rank()))?;
                let sizes = self.optional_ints(op, "window_dimensions")?.unwrap_or_else(|| vec![1; rank]);
                let window = Window {
                    strides: self.optional_ints(op, "window_strides")?,
                    padding: self.optional_ints(op, "padding")?,
                    ..Window::default()
                };
                let attrs = Attrs::new()
                    .with(AttrKey::Window, AttrValue::Window(self.window(&sizes, &window)?))
                    .with(AttrKey::SelectComputation, AttrValue::Computation(select))
                    .with(AttrKey::ScatterComputation, AttrValue::Computation(scatter));
                vec![self.emit(Opcode::SelectAndScatter, &operands, attrs, None)?]
            }
            "map" => {
                let computation = self.applied(self.region(op, 0)?, "mapped")?;
                let attrs = Attrs::new()
                    .with(AttrKey::Dimensions, AttrValue::Ints(self.ints(op, "dimensions")?))
                    .with(AttrKey::ToApply, AttrValue::Computation(computation));
                vec![self.emit(Opcode::Map, &operands, attrs, None)?]
            }
            "sort" => {
                let comparator = self.applied(self.region(op, 0)?, "comparator")?;
                let rank = operands.first().map_or(Ok(0), |&o| self.array(o).map(|a| a.rank()))? as i64;
                let dimension = self.int_or(op, "dimension", -1)?;
                let dimension = if dimension < 0 { dimension + rank } else { dimension };
                let mut attrs = Attrs::new()
                    .with(AttrKey::Dimensions, AttrValue::Ints(vec![dimension]))
                    .with(AttrKey::ToApply, AttrValue::Computation(comparator));
                if self.bool_or(op, "is_stable", false)? {
                    attrs.set(AttrKey::IsStable, AttrValue::Bool(true));
                }
                let id = self.emit(Opcode::Sort, &operands, attrs, None)?;
                self.several(id, operands.len())?
            }
            "scatter" => self.scatter(op, &operands)?,
            _ => return Ok(None),
        };
        Ok(Some(results))
    }

    /// The sizes that results are declared with and the types that their reducer yields: HLO, which infers, takes the types of the
    /// initial values. `None` where a size is open.
    fn yielded_shape(&self, op: &Operation, reducer: ComputationId) -> Result<Option<Shape>> {
        let yielded = self.lowering.module.computations[reducer].result_shape();
        let mut shapes = Vec::new();
        for (k, yielded) in yielded.parts().iter().enumerate() {
            match (self.declared(op, k)?, yielded.as_array()) {
                (Some(Shape::Array(a)), Some(yielded)) => shapes.push(Shape::Array(a.with_type(yielded.ty))),
                _ => return Ok(None),
            }
        }
        Ok(if shapes.len() == 1 { shapes.pop() } else { Some(Shape::tuple(shapes)) })
    }

    /// The custom call that stands for a `reduce_window` whose window is told by operands: behind the arrays and their
    /// initial values its sizes, strides, base dilations, window dilations and padding. It names its reducer.
    pub fn dynamic_reduce_window(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let operands = self.all_operands(op)?;
        let count = op.results.len();
        let Some((arrays, &[sizes, strides, base_dilations, window_dilations, padding])) =
            operands.split_at_checked(2 * count)
        else {
            let (want, found) = (2 * count + 5, operands.len());
            let message = format!("expected {want} operands of stablehlo.dynamic_reduce_window, found {found}");
            return Err(self.invalid("arity", message));
        };
        let &[computation] = self.called(op)?.as_slice() else {
            return Err(self.invalid("call.function", "expected one reducer as called_computations"));
        };
        let sizes = self.ints_of(sizes)?;
        let window = Window {
            strides: Some(self.ints_of(strides)?),
            padding: Some(self.ints_of(padding)?),
            base_dilations: Some(self.ints_of(base_dilations)?),
            window_dilations: Some(self.ints_of(window_dilations)?),
            reversal: None,
        };
        let attrs = Attrs::new()
            .with(AttrKey::Window, AttrValue::Window(self.window(&sizes, &window)?))
            .with(AttrKey::ToApply, AttrValue::Computation(computation));
        let id = self.emit(Opcode::ReduceWindow, arrays, attrs, None)?;
        self.several(id, count)
    }

    fn scatter(&mut self, op: &'p Operation, operands: &[InstructionId]) -> Result<Vec<InstructionId>> {
        let Attribute::Scatter(dims) = self.attribute(op, "scatter_dimension_numbers")? else {
            let message = "expected #stablehlo.scatter<...> as scatter_dimension_numbers";
            return Err(self.invalid("attribute.kind", message));
        };
        let computation = self.applied(self.region(op, 0)?, "update")?;
        let mut attrs = Attrs::new()
            .with(AttrKey::UpdateWindowDims, AttrValue::Ints(dims.update_window_dims.clone()))
            .with(AttrKey::InsertedWindowDims, AttrValue::Ints(dims.inserted_window_dims.clone()))
            .with(AttrKey::ScatterDimsToOperandDims, AttrValue::Ints(dims.scatter_dims_to_operand_dims.clone()))
            .with(AttrKey::IndexVectorDim, AttrValue::Int(dims.index_vector_dim))
            .with(AttrKey::ToApply, AttrValue::Computation(computation));
        if !dims.input_batching_dims.is_empty() || !dims.scatter_indices_batching_dims.is_empty() {
            attrs.set(AttrKey::InputBatchingDims, AttrValue::Ints(dims.input_batching_dims.clone()));
            attrs.set(AttrKey::ScatterIndicesBatchingDims, AttrValue::Ints(dims.scatter_indices_batching_dims.clone()));
        }
        for (name, key) in
            [("indices_are_sorted", AttrKey::IndicesAreSorted), ("unique_indices", AttrKey::UniqueIndices)]
        {
            if self.bool_or(op, name, false)? {
                attrs.set(key, AttrValue::Bool(true));
            }
        }
        let id = self.emit(Opcode::Scatter, operands, attrs, None)?;
        self.several(id, operands.len() / 2)
    }

    /// A window over as many dimensions as `sizes` has.
    pub fn window(&self, sizes: &[i64], window: &Window) -> Result<Vec<WindowDimension>> {
        let rank = sizes.len();
        let lists = [&window.strides, &window.base_dilations, &window.window_dilations, &window.reversal];
        if lists.iter().any(|l| l.as_ref().is_some_and(|l| l.len() != rank))
            || window.padding.as_ref().is_some_and(|p| p.len() != 2 * rank)
        {
            let message = format!("expected strides, padding and dilations of {rank} dimensions");
            return Err(self.invalid("window.rank", message));
        }
        let at = |list: &Option<Vec<i64>>, d: usize, default: i64| {
            list.as_ref().and_then(|l| l.get(d)).copied().unwrap_or(default)
        };
        let one = |(d, &size): (usize, &i64)| WindowDimension {
            size,
            stride: at(&window.strides, d, 1),
            padding_low: at(&window.padding, 2 * d, 0),
            padding_high: at(&window.padding, 2 * d + 1, 0),
            window_dilation: at(&window.window_dilations, d, 1),
            base_dilation: at(&window.base_dilations, d, 1),
            reversal: at(&window.reversal, d, 0) != 0,
        };
        Ok(sizes.iter().enumerate().map(one).collect())
    }
}

/// What a window says besides its sizes; nothing where it is absent.
#[derive(Default)]
pub(super) struct Window {
    pub strides: Option<Vec<i64>>,
    /// Low and high amounts in turn.
    pub padding: Option<Vec<i64>>,
    pub base_dilations: Option<Vec<i64>>,
    pub window_dilations: Option<Vec<i64>>,
    pub reversal: Option<Vec<i64>>,
}
