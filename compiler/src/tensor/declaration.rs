//! Declared tensors.

use super::TensorFlags;
use crate::builder::At;
use crate::error::{Error, Site};
use crate::hlo::SourceLocation;
use crate::shape::{RuleError, check_array};
use brolga_runtime::{ArrayLiteral, ArrayShape, Layout};
use std::sync::Arc;

/// A declared tensor, an l-tensor: memory whose values can be assigned, unless it is [`Tensor::read_only`]. It belongs to one
/// [`TensorGraph`](super::TensorGraph).
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(super) graph: u32,
    pub(super) number: usize,
    pub(super) declaration: Arc<Declaration>,
}

/// What is said of a tensor once.
#[derive(Debug)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) flags: TensorFlags,
    /// With a layout where it lies otherwise than dense and row-major.
    pub(super) shape: ArrayShape,
    pub(super) initial: Option<ArrayLiteral>,
    /// Where it was declared.
    pub(super) at: At,
}

/// What a tensor holds at first.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nothing: an input's value comes at run time, in memory that lies as the shape's layout says.
    Shape(ArrayShape),
    /// This value, in row-major memory.
    Value(ArrayLiteral),
    /// This value, in memory that lies as the layout says: in any order of dimensions, padded or not.
    LaidOut(ArrayLiteral, Layout),
}

impl From<ArrayShape> for Content {
    fn from(shape: ArrayShape) -> Content {
        Content::Shape(shape)
    }
}

impl From<ArrayLiteral> for Content {
    fn from(value: ArrayLiteral) -> Content {
        Content::Value(value)
    }
}

impl From<(ArrayLiteral, Layout)> for Content {
    fn from((value, layout): (ArrayLiteral, Layout)) -> Content {
        Content::LaidOut(value, layout)
    }
}

impl Tensor {
    /// Its name, which parameters of compiled programs have, and tensors of a store.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Its attributes.
    pub fn flags(&self) -> TensorFlags {
        self.declaration.flags
    }

    /// Its shape, with the layout of its memory where that is not dense and row-major.
    pub fn shape(&self) -> &ArrayShape {
        &self.declaration.shape
    }

    /// Whether its values can be read but not assigned: of constants.
    pub fn read_only(&self) -> bool {
        self.flags().read_only()
    }
}

impl Declaration {
    /// What is wrong with it, taken alone.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let TensorFlags { constant, persistent, trainable, input } = self.flags;
        let fault =
            |rule, message: &str| Err(RuleError::new(rule, format!("{message}, of the tensor '{}'", self.name)));
        let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !self.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || !self.name.chars().all(in_name) {
            return fault(
                "tensor.name",
                "expected a name of letters, digits, '_', '.' and '-' that begins with a letter",
            );
        }
        if self.shape.is_dynamic() {
            return fault("tensor.shape", "expected fixed sizes");
        }
        if let Err(e) = check_array(&self.shape) {
            return fault(e.constraint, &e.message);
        }
        if constant && (trainable || input) {
            return fault("tensor.constant", "expected a constant to be neither trainable nor an input");
        }
        if trainable && !persistent {
            return fault("tensor.trainable", "expected a trainable tensor to be persistent");
        }
        if self.initial.is_none() && !input {
            return fault("tensor.value", "expected a value, which only inputs can do without");
        }
        if self.shape.layout.is_some() && !self.is_parameter() {
            let message = format!(
                "expected no layout, which only a persistent tensor or an input can have, that is no constant, found {}",
                self.shape
            );
            return fault("tensor.layout", &message);
        }
        Ok(())
    }

    /// Whether it is memory of the program that outlives a computation: it has a parameter where it is used.
    pub(super) fn is_parameter(&self) -> bool {
        !self.flags.constant && (self.flags.persistent || self.flags.input)
    }
}

/// An error about tensors, at the call that made it.
pub(super) fn fault(at: At, e: RuleError) -> Error {
    e.into_error(Site { instruction: None, location: SourceLocation::of_caller(at), length: 0 })
}
