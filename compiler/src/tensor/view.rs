//! Views of tensors: read by movement of elements, written by the inverse movement.
//!
//! A *simple view* `y` of `x` has an index translation `f` with `y[i] == x[f(i)]`. Assigning to `y` changes the elements
//! `x[f(i)]`, which must be different ones for different `i`.

use super::declaration::{Tensor, fault};
use crate::builder::{ArrayLiteral, Builder, ElementType, Op, PaddingDimension};
use crate::hlo::inverse;
use crate::shape::RuleError;
use brolga_runtime::ArrayShape;

/// A view of a declared tensor; what it shows can be read and, where no element shows twice, assigned.
#[derive(Clone, Debug)]
pub struct TensorView {
    pub(super) tensor: Tensor,
    pub(super) steps: Vec<Step>,
}

/// One index translation.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Slice { start: Vec<i64>, limit: Vec<i64>, strides: Vec<i64> },
    Transpose(Vec<i64>),
    Reshape(Vec<i64>),
    Reverse(Vec<i64>),
    Broadcast { sizes: Vec<i64>, dimensions: Vec<i64> },
}

/// What can stand on the left of an assignment, or seems so.
#[derive(Clone, Debug)]
pub enum Target {
    /// A tensor, or a view of one.
    View(TensorView),
    /// A value, an r-tensor: reading it gives it back, assigning to it is an error.
    Value(Op),
}

impl From<&Tensor> for Target {
    fn from(tensor: &Tensor) -> Target {
        Target::View(tensor.view())
    }
}

impl From<TensorView> for Target {
    fn from(view: TensorView) -> Target {
        Target::View(view)
    }
}

impl From<Op> for Target {
    fn from(op: Op) -> Target {
        Target::Value(op)
    }
}

impl Tensor {
    /// The whole tensor as a view: `x[...]`.
    pub fn view(&self) -> TensorView {
        TensorView { tensor: self.clone(), steps: Vec::new() }
    }
}

impl TensorView {
    fn then(mut self, step: Step) -> TensorView {
        self.steps.push(step);
        self
    }

    /// The elements from `start` up to, but not including, `limit`, each `strides` apart; empty strides stand for ones.
    #[must_use]
    pub fn slice(self, start: &[i64], limit: &[i64], strides: &[i64]) -> TensorView {
        let strides = if strides.is_empty() { vec![1; start.len()] } else { strides.to_vec() };
        self.then(Step::Slice { start: start.to_vec(), limit: limit.to_vec(), strides })
    }

    /// Dimension `i` of the view is dimension `permutation[i]`.
    #[must_use]
    pub fn transpose(self, permutation: &[i64]) -> TensorView {
        self.then(Step::Transpose(permutation.to_vec()))
    }

    /// The same elements, in row-major order, with other sizes.
    #[must_use]
    pub fn reshape(self, sizes: &[i64]) -> TensorView {
        self.then(Step::Reshape(sizes.to_vec()))
    }

    /// The elements in reverse order along `dimensions`.
    #[must_use]
    pub fn reverse(self, dimensions: &[i64]) -> TensorView {
        self.then(Step::Reverse(dimensions.to_vec()))
    }

    /// Every element many times: dimension `i` is dimension `dimensions[i]` of the view. Such a view cannot be assigned.
    #[must_use]
    pub fn broadcast(self, sizes: &[i64], dimensions: &[i64]) -> TensorView {
        self.then(Step::Broadcast { sizes: sizes.to_vec(), dimensions: dimensions.to_vec() })
    }

    /// What the view shows where the tensor has the value `base`.
    pub(super) fn read(&self, c: &Builder, base: Op) -> Op {
        self.steps.iter().fold(base, |value, step| step.read(c, value))
    }

    /// The value of the whole tensor after an assignment of `value`, where it was `base`, which is needed unless the view is
    /// the whole tensor.
    pub(super) fn written(&self, c: &Builder, base: Option<Op>, value: Op) -> Result<Op, RuleError> {
        let Some(base) = base else {
            self.check(self.tensor.shape(), c, value)?;
            return Ok(value);
        };
        let mut shown = vec![base];
        for step in &self.steps {
            shown.extend(shown.last().map(|&base| step.read(c, base)));
        }
        // A view that leaves its tensor has no shape; the builder knows why.
        let Some(shape) = shown.pop().and_then(|op| array(c, op)) else { return Ok(value) };
        self.check(&shape, c, value)?;
        self.steps.iter().zip(&shown).rev().try_fold(value, |value, (step, &base)| step.written(c, base, value))
    }

    fn check(&self, expected: &ArrayShape, c: &Builder, value: Op) -> Result<(), RuleError> {
        match c.shape(value) {
            Ok(found) if found.as_array().is_none_or(|a| a.ty != expected.ty || a.dims != expected.dims) => {
                let part = if self.steps.is_empty() { "" } else { "a part of " };
                let message =
                    format!("expected {expected:#} to assign to {part}'{}', found {found}", self.tensor.name());
                Err(RuleError::new("tensor.assign", message))
            }
            _ => Ok(()),
        }
    }
}

impl Step {
    fn read(&self, c: &Builder, base: Op) -> Op {
        match self {
            Step::Slice { start, limit, strides } => c.slice(base, start, limit, strides),
            Step::Transpose(permutation) => c.transpose(base, permutation),
            Step::Reshape(sizes) => c.reshape(base, sizes),
            Step::Reverse(dimensions) => c.rev(base, dimensions),
            Step::Broadcast { sizes, dimensions } => c.broadcast_in_dim(base, sizes, dimensions),
        }
    }

    /// `base` with what this step shows of it replaced. The step can read `base`.
    fn written(&self, c: &Builder, base: Op, value: Op) -> Result<Op, RuleError> {
        let Some(shape) = array(c, base) else { return Ok(base) };
        Ok(match self {
            Step::Slice { start, strides, .. } => write_slice(c, base, &shape, start, strides, value),
            Step::Transpose(permutation) => c.transpose(value, &inverse(permutation)),
            Step::Reshape(_) => c.reshape(value, &shape.dims),
            Step::Reverse(dimensions) => c.rev(value, dimensions),
            Step::Broadcast { .. } => {
                let message = "expected a view that shows each element once to assign to, found a broadcast";
                return Err(RuleError::new("tensor.assign", message));
            }
        })
    }
}

/// An array with the elements of a slice replaced.
fn write_slice(c: &Builder, base: Op, shape: &ArrayShape, start: &[i64], strides: &[i64], value: Op) -> Op {
    let Some(part) = array(c, value) else { return value };
    if part.dims == shape.dims {
        return value;
    }
    if part.elements() == 0 {
        return base;
    }
    if strides.iter().all(|&s| s == 1) {
        let starts: Vec<Op> = start.iter().map(|&s| c.constant_r0(s)).collect();
        return c.dynamic_update_slice(base, value, &starts);
    }
    let sizes = shape.dims.iter().zip(&part.dims).zip(start.iter().zip(strides));
    let padding: Vec<PaddingDimension> = sizes
        .map(|((&whole, &n), (&low, &stride))| {
            let interior = stride - 1;
            PaddingDimension { low, high: whole - low - (n - 1) * stride - 1, interior }
        })
        .collect();
    let broadcast = c.pad(value, c.zero(part.ty), &padding);
    let ones = c.broadcast(c.constant_pred(true), &part.dims);
    c.select(c.pad(ones, c.zero(ElementType::Pred), &padding), broadcast, base)
}

/// The initial value of a tensor that has one. Elements that are all the same are broadcast: so are most initial values, and
/// an object need not hold them one by one.
pub(super) fn initial(c: &Builder, tensor: &Tensor) -> Op {
    let Some(value) = &tensor.declaration.initial else {
        let e = RuleError::new("tensor.value", format!("expected an initial value of '{}'", tensor.name()));
        return c.failed(fault(tensor.declaration.at, e));
    };
    let shape = tensor.shape();
    let size = shape.ty.byte_size();
    let first = value.bytes().get(..size);
    let one = first.and_then(|bytes| ArrayLiteral::from_bytes(&ArrayShape::new(shape.ty, []), bytes));
    match one.filter(|one| shape.rank() > 0 && value.bytes().chunks(size).all(|element| element == one.bytes())) {
        Some(one) => c.broadcast(c.constant_literal(one), &shape.dims),
        None => c.constant_literal(value.clone()),
    }
}

/// The shape of a value that must be an array.
fn array(builder: &Builder, op: Op) -> Option<ArrayShape> {
    builder.shape(op).ok()?.as_array().cloned()
}
