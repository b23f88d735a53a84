//! One computation under construction: a builder in which tensors have values.

use super::declaration::{Tensor, fault};
use super::graph::TensorGraph;
use super::view::{self, Target};
use crate::builder::{At, Builder, Op};
use crate::error::Result;
use crate::hlo::{Alias, AliasKind, AttrKey, AttrValue, Module, Opcode, set_tensor_flags};
use crate::shape::{self, RuleError};
use brolga_runtime::Shape;
use std::cell::RefCell;
use std::ops::Deref;
use std::panic::Location;

/// A computation of a [`TensorGraph`] while it is made: all methods of [`Builder`], and those that read and assign tensors.
///
/// As with a builder, the first error is kept and reported at the end, at the place of the call.
#[derive(Debug)]
pub struct Computation<'g> {
    graph: &'g TensorGraph,
    builder: Builder,
    /// Of each tensor of the graph.
    present: RefCell<Vec<Present>>,
    /// How the outputs lie, where the caller says it.
    output_layout: RefCell<Option<(Shape, At)>>,
}

/// A tensor in this computation.
#[derive(Clone, Copy, Debug)]
struct Present {
    /// The parameter that it is at the start, where it is one.
    parameter: Option<Op>,
    /// Its value at this point; none where nobody has asked yet for that of a tensor without a parameter.
    value: Option<Op>,
    read: bool,
    assigned: bool,
}

impl Deref for Computation<'_> {
    type Target = Builder;

    fn deref(&self) -> &Builder {
        &self.builder
    }
}

impl<'g> Computation<'g> {
    /// The module of a whole computation.
    pub(super) fn build(
        graph: &'g TensorGraph,
        at: At,
        name: &str,
        make: impl FnOnce(&Computation<'g>) -> Result<Vec<Op>>,
    ) -> Result<Module> {
        let new = Computation::new(graph, at, name);
        let outputs = make(&new)?;
        new.finish(at, &outputs)
    }

    /// All tensors that can be parameters are, until [`Computation::finish`] knows which are used: so they have their names
    /// before any other instruction takes them. In a computation arrays have no layouts; the module's interface has those of
    /// the tensors.
    fn new(graph: &'g TensorGraph, at: At, name: &str) -> Computation<'g> {
        let builder = Builder::new(name);
        let mut present = Vec::with_capacity(graph.tensors().len());
        let mut number = 0;
        for tensor in graph.tensors() {
            let parameter = tensor.declaration.is_parameter().then(|| {
                let made = || builder.parameter(number, Shape::from(tensor.shape().clone()).without_layout(), "");
                let op = builder.made_at(at, made);
                builder.rename(op, tensor.name());
                number += 1;
                op
            });
            present.push(Present { parameter, value: parameter, read: false, assigned: false });
        }
        Computation { graph, builder, present: RefCell::new(present), output_layout: RefCell::new(None) }
    }

    /// How the outputs lie in the caller's memory, row-major where nothing is said: `shape` is their tuple, or the only one's,
    /// with layouts. Tensors that are assigned have the layouts of their declarations.
    #[track_caller]
    pub fn set_result_layout(&self, shape: Shape) {
        *self.output_layout.borrow_mut() = Some((shape, Location::caller()));
    }

    /// The value of a tensor, or of a view of one, at this point: after an assignment the one that was assigned. Errors: a
    /// tensor of another graph, a view that leaves its tensor.
    #[track_caller]
    pub fn read(&self, source: impl Into<Target>) -> Op {
        let (at, source) = (Location::caller(), source.into());
        self.made_at(at, || match source {
            Target::Value(op) => op,
            Target::View(view) => match self.value(at, &view.tensor) {
                Ok(base) => view.read(self, base),
                Err(e) => self.failed(fault(at, e)),
            },
        })
    }

    /// `x[...] = y`: from here on the tensor, or the part of it that a view shows, has the values of `value`, which has its
    /// shape. Errors: an r-tensor, a constant, another shape, a view that leaves its tensor or shows an element
    /// several times.
    #[track_caller]
    pub fn assign(&self, target: impl Into<Target>, value: Op) {
        let (at, target) = (Location::caller(), target.into());
        let assigned = self.made_at(at, || self.assigned(at, &target, value));
        match (assigned, target) {
            (Ok(new), Target::View(view)) => self.replace(&view.tensor, new),
            (Ok(_), Target::Value(_)) => {}
            (Err(e), _) => {
                self.failed(fault(at, e));
            }
        }
    }

    /// `x[start...] = y`: assigns the part of the tensor that starts at `start` and has the shape of `value`. Errors: as
    /// [`Computation::assign`], and a part that leaves the tensor.
    #[track_caller]
    pub fn assign_at(&self, tensor: &Tensor, start: &[i64], value: Op) {
        let Ok(shape) = self.builder.shape(value) else { return };
        let sizes = shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
        let limit: Vec<i64> = start.iter().zip(&sizes).map(|(s, n)| s.saturating_add(*n)).collect();
        self.assign(tensor.view().slice(start, &limit, &[]), value);
    }

    /// The derivatives of a scalar, the loss, with respect to tensors, as [`Builder::gradient`] gives those with respect to
    /// values. Errors: as there, and a tensor that was assigned before, of whose values it would be unclear which is meant.
    #[track_caller]
    pub fn gradient(&self, loss: Op, tensors: &[Tensor]) -> Vec<Op> {
        let at = Location::caller();
        let value = |tensor: &Tensor| {
            if self.is_assigned(tensor) {
                let message = format!(
                    "expected the gradient before the assignment of '{}'; of a certain value of it, `Builder::gradient` has it",
                    tensor.name()
                );
                return self.failed(fault(at, RuleError::new("tensor.gradient", message)));
            }
            self.read(tensor)
        };
        let values: Vec<Op> = tensors.iter().map(value).collect();
        self.made_at(at, || self.builder.gradient(loss, &values))
    }

    /// The value of the whole tensor after an assignment to a target.
    fn assigned(&self, at: At, target: &Target, value: Op) -> Result<Op, RuleError> {
        let fault = |message| Err(RuleError::new("tensor.assign", message));
        let view = match target {
            Target::View(view) => view,
            Target::Value(op) => {
                let name = self.builder.name(*op).unwrap_or_default();
                return fault(format!(
                    "expected an l-tensor to assign to, found the value '{name}', an r-tensor: it is computed, not stored"
                ));
            }
        };
        if view.tensor.read_only() {
            let name = view.tensor.name();
            return fault(format!(
                "expected an l-tensor to assign to, found '{name}', a constant, which never changes"
            ));
        }
        let base = match view.steps.is_empty() {
            // The old value is not looked at.
            true => None,
            false => Some(self.value(at, &view.tensor)?),
        };
        self.check_own(&view.tensor)?;
        view.written(self, base, value)
    }

    fn check_own(&self, tensor: &Tensor) -> Result<(), RuleError> {
        match self.graph.owns(tensor) {
            true => Ok(()),
            false => {
                let message =
                    format!("expected a tensor of '{}', found '{}' of another graph", self.graph.name(), tensor.name());
                Err(RuleError::new("tensor.graph", message))
            }
        }
    }

    /// The present value of a tensor, which is read here.
    fn value(&self, at: At, tensor: &Tensor) -> Result<Op, RuleError> {
        self.check_own(tensor)?;
        let known = self.present.borrow().get(tensor.number).and_then(|p| p.value);
        let value = match known {
            Some(value) => value,
            None => self.made_at(at, || view::initial(self, tensor)),
        };
        if let Some(present) = self.present.borrow_mut().get_mut(tensor.number) {
            present.value = Some(value);
            // What is read after an assignment is not what the parameter holds.
            present.read |= !present.assigned;
        }
        Ok(value)
    }

    fn is_assigned(&self, tensor: &Tensor) -> bool {
        self.graph.owns(tensor) && self.present.borrow().get(tensor.number).is_some_and(|p| p.assigned)
    }

    /// Gives a tensor another value.
    pub(super) fn replace(&self, tensor: &Tensor, value: Op) {
        if let Some(present) = self.present.borrow_mut().get_mut(tensor.number) {
            present.value = Some(value);
            present.assigned = true;
        }
    }

    /// Outputs are arrays, and every parameter is a tensor.
    fn check_interface(&self, outputs: &[Op]) -> Result<(), RuleError> {
        for shape in outputs.iter().filter_map(|&output| self.builder.shape(output).ok()) {
            if shape.as_array().is_none() {
                let message = format!("expected arrays as outputs of a computation, found {shape:#}");
                return Err(RuleError::new("tensor.output", message));
            }
        }
        let declared = self.present.borrow().iter().filter(|p| p.parameter.is_some()).count();
        match self.builder.parameters().len() == declared {
            true => Ok(()),
            false => Err(RuleError::new("tensor.parameter", "expected placeholders instead of parameters")),
        }
    }

    /// The outputs as callers see them.
    fn output_shapes(&self, outputs: &[Op]) -> Result<Vec<Shape>> {
        let own = outputs.iter().map(|&output| Ok(self.builder.shape(output)?.without_layout()));
        let own: Vec<Shape> = own.collect::<Result<_>>()?;
        let Some((stated, at)) = self.output_layout.take() else { return Ok(own) };
        let stated = match stated {
            Shape::Tuple(stated) => stated.into(),
            one => vec![one],
        };
        if stated.len() != own.len() || stated.iter().zip(&own).any(|(stated, own)| !stated.same_ignoring_layout(own)) {
            let message =
                format!("expected layouts of the outputs {}, found {}", Shape::tuple(own), Shape::tuple(stated));
            return Err(fault(at, RuleError::new("builder.result-layout", message)));
        }
        stated.iter().try_for_each(shape::check_shape).map_err(|e| fault(at, e))?;
        Ok(stated)
    }

    fn finish(self, at: At, outputs: &[Op]) -> Result<Module> {
        self.check_interface(outputs).map_err(|e| fault(at, e))?;
        let mut seen = self.output_shapes(outputs)?;
        let present = self.present.into_inner();
        let mut used = Vec::new();
        for (tensor, present) in self.graph.tensors().iter().zip(&present) {
            if present.parameter.is_some() && (present.read || present.assigned) {
                used.push((tensor, present));
            }
        }
        used.sort_by_key(|(tensor, _)| tensor.flags().input);
        let (mut aliases, mut results) = (Vec::new(), outputs.to_vec());
        for (parameter, (tensor, present)) in used.iter().enumerate() {
            let Some(value) = present.value.filter(|_| present.assigned) else { continue };
            let (output_index, parameter_index) = (vec![results.len()], Vec::new());
            aliases.push(Alias { output_index, parameter, parameter_index, kind: AliasKind::Must });
            results.push(value);
            seen.push(tensor.shape().clone().into());
        }
        let root = self.builder.made_at(at, || self.builder.tuple(&results));
        let mut module = self.builder.build_with_root(root)?;
        let tensors: Vec<&Tensor> = used.iter().map(|(tensor, _)| *tensor).collect();
        keep_used(&mut module, &tensors);
        module.config.aliases = aliases;
        let parameters: Vec<Shape> = tensors.iter().map(|tensor| tensor.shape().clone().into()).collect();
        let mut arrays = parameters.iter().chain(&seen).filter_map(Shape::as_array);
        if arrays.any(|array| array.layout.is_some()) {
            module.config.entry_layout = Some((parameters, Shape::tuple(seen)));
        }
        shape::verify(&module)?;
        Ok(module)
    }
}

/// Leaves the parameters of these tensors, numbered in this order.
fn keep_used(module: &mut Module, tensors: &[&Tensor]) {
    let entry = &mut module.computations[module.entry];
    let mut order = Vec::with_capacity(entry.order.len());
    for id in std::mem::take(&mut entry.order) {
        let instruction = &mut entry.instructions[id];
        if instruction.opcode == Opcode::Parameter {
            let mut numbered = (0i64..).zip(tensors);
            let Some((number, tensor)) = numbered.find(|(_, t)| t.name() == instruction.name) else { continue };
            instruction.attrs.set(AttrKey::ParameterNumber, AttrValue::Int(number));
            set_tensor_flags(instruction, tensor.flags());
        }
        order.push(id);
    }
    entry.order = order;
}
