//! The declarations of a program and its computations.

use super::TensorFlags;
use super::declaration::{Content, Declaration, Tensor, fault};
use crate::builder::At;
use crate::error::{Error, Result};
use crate::hlo::Module;
use crate::shape::{self, RuleError};
use crate::symbol_name;
use brolga_runtime::{ArrayLiteral, ArrayShape};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A program: tensors that are declared once, and computations that share them. See the [room's page](super).
///
/// A wrong declaration is reported where it was made, by the next call that yields a `Result`.
#[derive(Debug)]
pub struct TensorGraph {
    tag: u32,
    pub(super) name: String,
    tensors: Vec<Tensor>,
    pub(super) modules: Vec<Module>,
    error: Option<Error>,
}

impl TensorGraph {
    /// A program without tensors. The entries of its object are called `NAME_COMPUTATION`.
    pub fn new(name: impl AsRef<str>) -> TensorGraph {
        static TAGS: AtomicU32 = AtomicU32::new(0);
        let tag = TAGS.fetch_add(1, Ordering::Relaxed);
        TensorGraph { tag, name: symbol_name(name.as_ref()), tensors: Vec::new(), modules: Vec::new(), error: None }
    }

    /// A constant, specified while the graph is made: computations have its value inlined.
    #[track_caller]
    pub fn constant(&mut self, name: impl AsRef<str>, value: ArrayLiteral) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::CONSTANT, value.into())
    }

    /// An input value, typically from the host. It is kept until the host sets another or a computation assigns one. Its
    /// memory lies as the layout of the shape says.
    #[track_caller]
    pub fn placeholder(&mut self, name: impl AsRef<str>, shape: ArrayShape) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::PLACEHOLDER, shape.into())
    }

    /// A tensor that is retained across computations, such as the velocity of gradient descent: its initial value, or
    /// that and the layout of its memory.
    #[track_caller]
    pub fn persistent_tensor(&mut self, name: impl AsRef<str>, initial: impl Into<Content>) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::PERSISTENT_TENSOR, initial.into())
    }

    /// A parameter that is updated during training, one of [`TensorGraph::trainable_variables`]: its initial value, or that
    /// and the layout of its memory.
    #[track_caller]
    pub fn variable(&mut self, name: impl AsRef<str>, initial: impl Into<Content>) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::VARIABLE, initial.into())
    }

    /// `AssignableTensorOp`: a tensor of any attributes. One that is neither persistent, constant nor an input is memory of a
    /// single computation, in each of which it has its initial value at first. An input that is not persistent must be
    /// given for each run. Errors: a constant that is trainable or an input, a trainable tensor that is not persistent, no
    /// value of what is no input, a layout of what has no memory between computations or that is none of the shape's, a
    /// name that is taken or no name.
    #[track_caller]
    pub fn assignable_tensor(
        &mut self,
        name: impl AsRef<str>,
        flags: TensorFlags,
        content: impl Into<Content>,
    ) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), flags, content.into())
    }

    fn declare(&mut self, at: At, name: &str, flags: TensorFlags, content: Content) -> Tensor {
        let (mut shape, initial) = match content {
            Content::Shape(shape) => (shape, None),
            Content::Value(value) => (value.shape().clone(), Some(value)),
            Content::LaidOut(value, layout) => {
                (ArrayShape { layout: Some(layout), ..value.shape().clone() }, Some(value))
            }
        };
        // Tensors that lie alike are the same: this one lies as it does without a layout.
        if shape::check_array(&shape).is_ok() && shape.is_dense_row_major() {
            shape.layout = None;
        }
        let declaration = Declaration { name: name.to_owned(), flags, shape, initial, at };
        let checked = match self.tensors.iter().any(|t| t.name() == name) {
            true => Err(RuleError::new("tensor.name", format!("expected names that differ, found '{name}' again"))),
            false => declaration.check(),
        };
        if let Err(e) = checked {
            self.error.get_or_insert(fault(at, e));
        }
        let tensor = Tensor { graph: self.tag, number: self.tensors.len(), declaration: Arc::new(declaration) };
        self.tensors.push(tensor.clone());
        tensor
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All tensors, in the order of their declarations.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensors that are marked as trainable, in the order of their declarations.
    pub fn trainable_variables(&self) -> Vec<Tensor> {
        self.tensors.iter().filter(|t| t.flags().trainable).cloned().collect()
    }

    pub(super) fn owns(&self, tensor: &Tensor) -> bool {
        tensor.graph == self.tag
    }

    pub(super) fn first_error(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }
}
