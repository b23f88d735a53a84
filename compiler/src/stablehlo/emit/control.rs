//! Calls, loops, branches, and operations that apply a computation to elements.

use super::body::{Body, Frame, Repr, dictionary};
use super::contraction::Window;
use super::{attributes, callee, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, ComputationId, Instruction};
use crate::proto::kept;
use crate::stablehlo::ir::{Attribute, Dictionary, Element, ScatterDims};
use brolga_runtime::{ElementType, Shape};

impl Body<'_, '_> {
    /// A call, or a composite where the instruction says that it is one.
    pub fn invocation(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let id = callee(i, AttrKey::ToApply)?;
        if i.attrs.bool(AttrKey::IsComposite) != Some(true) {
            return self.invoke(frame, i, id);
        }
        let text = i.attrs.raw(AttrKey::FrontendAttributes).unwrap_or("{}");
        let message = kept::frontend_attributes_message(text).map_err(|_| unsupported(i, "frontend_attributes"))?;
        let entry = |key: &str| message.entries.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let Some(name) = entry("composite.name") else { return self.invoke(frame, i, id) };
        let version = entry("composite.version").unwrap_or("0").parse::<i64>();
        let version = version.map_err(|_| unsupported(i, "composite.version"))?;
        let inner = entry("composite.attributes").unwrap_or("{}");
        let inner = crate::stablehlo::text::dictionary(inner).map_err(|_| unsupported(i, "composite.attributes"))?;
        let function = self.emitter.function_of(id);
        let operands = self.flat_operands(frame, i)?;
        let attributes = dictionary([
            ("name", Attribute::string(name)),
            ("composite_attributes", Attribute::Dictionary(inner)),
            ("decomposition", Attribute::Symbol(vec![function.into()])),
            ("version", attributes::int32(version)),
        ]);
        self.flat(i, "stablehlo.composite", operands, attributes, Vec::new())
    }

    /// A call of the function that a computation becomes.
    pub fn invoke(&mut self, frame: &Frame<'_>, i: &Instruction, id: ComputationId) -> Result<Repr> {
        let operands = (0..i.operands.len()).map(|k| self.operand(frame, i, k).cloned());
        let operands = operands.collect::<Result<Vec<_>>>()?;
        self.call(id, &operands)
    }

    pub fn while_loop(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let state = self.flat_operands(frame, i)?;
        let condition = self.region(callee(i, AttrKey::Condition)?)?;
        let body = self.region(callee(i, AttrKey::Body)?)?;
        self.flat(i, "stablehlo.while", state, Dictionary::new(), vec![condition, body])
    }

    /// The branches see the values around them: their parameters are the operands.
    pub fn conditional(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let selector = self.leaf(frame, i, 0)?;
        let (name, branches) = match i.attrs.computations(AttrKey::BranchComputations) {
            Some(list) => ("stablehlo.case", list.to_vec()),
            None => {
                let branches = vec![callee(i, AttrKey::TrueComputation)?, callee(i, AttrKey::FalseComputation)?];
                ("stablehlo.if", branches)
            }
        };
        let mut regions = Vec::new();
        for (k, id) in branches.into_iter().enumerate() {
            let operand = self.operand(frame, i, k + 1)?.clone();
            regions.push(self.region_of(id, Vec::new(), vec![operand])?);
        }
        self.flat(i, name, vec![selector], Dictionary::new(), regions)
    }

    pub fn map(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let region = self.region(callee(i, AttrKey::ToApply)?)?;
        let rank = i.shape.as_array().map_or(0, |a| a.rank()) as i64;
        let attributes = dictionary([("dimensions", Attribute::ints((0..rank).collect::<Vec<_>>()))]);
        self.parts(i, "stablehlo.map", operands, attributes, vec![region])
    }

    pub fn reduce(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let region = self.region(callee(i, AttrKey::ToApply)?)?;
        let attributes = dictionary([("dimensions", Attribute::ints(i.attrs.ints_or_empty(AttrKey::Dimensions)))]);
        self.applied(i, "stablehlo.reduce", operands, attributes, vec![region])
    }

    pub fn reduce_window(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let region = self.region(callee(i, AttrKey::ToApply)?)?;
        let window = Window::of(i, self.array(frame, i, 0)?.rank());
        let attributes = dictionary([
            ("window_dimensions", Attribute::ints(window.sizes)),
            ("window_strides", Attribute::ints(window.strides)),
            ("base_dilations", Attribute::ints(window.base_dilations)),
            ("window_dilations", Attribute::ints(window.window_dilations)),
            ("padding", window.padding),
        ]);
        self.applied(i, "stablehlo.reduce_window", operands, attributes, vec![region])
    }

    pub fn select_and_scatter(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let select = self.region(callee(i, AttrKey::SelectComputation)?)?;
        let scatter = self.region(callee(i, AttrKey::ScatterComputation)?)?;
        let window = Window::of(i, self.array(frame, i, 0)?.rank());
        if window.is_dilated {
            return Err(unsupported(i, "a dilated window"));
        }
        let attributes = dictionary([
            ("window_dimensions", Attribute::ints(window.sizes)),
            ("window_strides", Attribute::ints(window.strides)),
            ("padding", window.padding),
        ]);
        self.applied(i, "stablehlo.select_and_scatter", operands, attributes, vec![select, scatter])
    }

    /// Slices come first among the inputs and results of StableHLO's scan, carries last.
    pub fn scan(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let count = operands.len() as i64;
        let carries = i.attrs.int(AttrKey::NumCarries).unwrap_or(count / 2);
        let results = match &i.shape {
            Shape::Tuple(parts) => parts.len() as i64,
            _ => 1,
        };
        let id = callee(i, AttrKey::ToApply)?;
        let computation = &self.emitter.module.computations[id];
        let parameters: Vec<Shape> =
            computation.parameters().iter().map(|&p| computation.instructions[p].shape.clone()).collect();
        let inits: Vec<Shape> = (count - carries..count)
            .filter_map(|k| usize::try_from(k).ok())
            .map(|k| self.shape(frame, i, k).cloned())
            .collect::<Result<_>>()?;
        let at = usize::try_from(count - carries).unwrap_or_default();
        let given = parameters.get(at..).unwrap_or_default();
        let slices_first = given.iter().zip(&inits).all(|(p, init)| p.same_ignoring_layout(init));
        let of_result = match computation.result_shape() {
            Shape::Tuple(parts) => parts.to_vec(),
            one => vec![one.clone()],
        };
        let last = of_result.len().saturating_sub(inits.len());
        let carries_last =
            of_result.get(last..).unwrap_or_default().iter().zip(&inits).all(|(r, init)| r.same_ignoring_layout(init));
        if !slices_first || !carries_last {
            return Err(unsupported(i, "a computation that takes or yields its carries first"));
        }
        let region = self.region(id)?;
        let pair = |a: i64, b: i64| Attribute::Ints(vec![a, b], Element::Type(ElementType::S32));
        let dimension = i.attrs.ints_or_empty(AttrKey::Dimensions).first().copied().unwrap_or_default();
        let mut attributes = dictionary([
            ("dimension", Attribute::int(dimension)),
            ("is_reverse", Attribute::Bool(i.attrs.bool(AttrKey::IsReverse).unwrap_or(false))),
            ("operandSegmentSizes", pair(count - carries, carries)),
            ("resultSegmentSizes", pair(results - carries, carries)),
        ]);
        match i.attrs.raw(AttrKey::IsAssociative).map(str::trim) {
            Some("true") => drop(attributes.set("is_associative", Attribute::Bool(true))),
            Some("false") => drop(attributes.set("is_associative", Attribute::Bool(false))),
            _ => {}
        }
        self.parts(i, "chlo.scan", operands, attributes, vec![region])
    }

    pub fn sort(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let region = self.region(callee(i, AttrKey::ToApply)?)?;
        let rank = self.array(frame, i, 0)?.rank() as i64;
        let dimension = i.attrs.ints_or_empty(AttrKey::Dimensions).first().copied().unwrap_or((rank - 1).max(0));
        let attributes = dictionary([
            ("dimension", Attribute::int(dimension)),
            ("is_stable", Attribute::Bool(i.attrs.bool(AttrKey::IsStable).unwrap_or(false))),
        ]);
        self.parts(i, "stablehlo.sort", operands, attributes, vec![region])
    }

    pub fn scatter(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let region = self.region(callee(i, AttrKey::ToApply)?)?;
        let list = |key| i.attrs.ints_or_empty(key).to_vec();
        let dims = ScatterDims {
            update_window_dims: list(AttrKey::UpdateWindowDims),
            inserted_window_dims: list(AttrKey::InsertedWindowDims),
            input_batching_dims: list(AttrKey::InputBatchingDims),
            scatter_indices_batching_dims: list(AttrKey::ScatterIndicesBatchingDims),
            scatter_dims_to_operand_dims: list(AttrKey::ScatterDimsToOperandDims),
            index_vector_dim: i.attrs.int(AttrKey::IndexVectorDim).unwrap_or_default(),
        };
        let flag = |key| Attribute::Bool(i.attrs.bool(key).unwrap_or(false));
        let attributes = dictionary([
            ("scatter_dimension_numbers", Attribute::Scatter(Box::new(dims))),
            ("indices_are_sorted", flag(AttrKey::IndicesAreSorted)),
            ("unique_indices", flag(AttrKey::UniqueIndices)),
        ]);
        self.applied(i, "stablehlo.scatter", operands, attributes, vec![region])
    }
}
