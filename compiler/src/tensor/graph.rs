//! The declarations of a program and its computations.

use super::computation::Computation;
use super::declaration::{Content, Declaration, Tensor};
use super::{TensorFlags, view};
use crate::builder::{At, Op};
use crate::driver::compile_computations;
use crate::error::{Error, Result, Site};
use crate::hlo::{Module, SourceLocation};
use crate::shape::RuleError;
use crate::{CompileOptions, ProgramArtifact, symbol_name};
use brolga_runtime::store::INITIALISE;
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
    name: String,
    tensors: Vec<Tensor>,
    modules: Vec<Module>,
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

    /// An input value, typically from the host, which keeps it until it sets another.
    #[track_caller]
    pub fn placeholder(&mut self, name: impl AsRef<str>, shape: ArrayShape) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::PLACEHOLDER, shape.into())
    }

    /// A tensor that is retained across computations, such as the velocity of gradient descent.
    #[track_caller]
    pub fn persistent_tensor(&mut self, name: impl AsRef<str>, initial: ArrayLiteral) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::PERSISTENT_TENSOR, initial.into())
    }

    /// A parameter that is updated during training: one of [`TensorGraph::trainable_variables`].
    #[track_caller]
    pub fn variable(&mut self, name: impl AsRef<str>, initial: ArrayLiteral) -> Tensor {
        self.declare(Location::caller(), name.as_ref(), TensorFlags::VARIABLE, initial.into())
    }

    /// `AssignableTensorOp`: a tensor of any attributes. One that is neither persistent, constant nor an input is memory of a
    /// single computation, in each of which it has its initial value at first. An input that is not persistent must be
    /// given for each run. Errors: a constant that is trainable or an input, a trainable tensor that is not persistent, no
    /// value of what is no input, a name that is taken or no name.
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
        let (shape, initial) = match content {
            Content::Shape(shape) => (shape, None),
            Content::Value(value) => (value.shape().clone(), Some(value)),
        };
        // What is no layout of the program's is no part of the tensor.
        let shape = ArrayShape { layout: None, ..shape };
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

    /// Adds a computation: `make` reads and assigns tensors and yields the outputs, which are arrays. The parameters of its
    /// module are the tensors that it uses, inputs last, its results the outputs and then the new values of the tensors that
    /// it assigns, each in the buffer of the old one.
    ///
    /// # Errors
    /// That of a declaration, of `make` or of any call in it; a name that another computation has, or the one that gives
    /// initial values.
    #[track_caller]
    pub fn computation(&mut self, name: &str, make: impl FnOnce(&Computation<'_>) -> Result<Vec<Op>>) -> Result<()> {
        let at = Location::caller();
        self.first_error()?;
        let symbol = symbol_name(name);
        let mut others = self.modules.iter().map(|m| symbol_name(&m.name));
        if symbol == INITIALISE || others.any(|other| other == symbol) {
            let message = format!("expected a name that no other computation has, found '{name}'");
            return Err(fault(at, RuleError::new("tensor.computation", message)));
        }
        let module = Computation::build(self, at, &symbol, make)?;
        self.modules.push(module);
        Ok(())
    }

    /// A module for each computation: first the one that gives tensors their initial values, where there are such tensors, then
    /// the others in the order in which they were added.
    ///
    /// # Errors
    /// That of a declaration.
    #[track_caller]
    pub fn modules(&self) -> Result<Vec<Module>> {
        self.first_error()?;
        let kept = |t: &&Tensor| t.declaration.is_parameter() && t.declaration.initial.is_some();
        let kept: Vec<&Tensor> = self.tensors.iter().filter(kept).collect();
        let mut modules = Vec::with_capacity(self.modules.len() + 1);
        if !kept.is_empty() {
            modules.push(Computation::build(self, Location::caller(), INITIALISE, |c| {
                for tensor in kept {
                    let at = tensor.declaration.at;
                    let value = c.made_at(at, || view::initial(c, tensor));
                    c.replace(tensor, value);
                }
                Ok(Vec::new())
            })?);
        }
        modules.extend(self.modules.iter().cloned());
        Ok(modules)
    }

    /// Compiles all computations into one object, called as the options say or as the program.
    ///
    /// # Errors
    /// As [`TensorGraph::modules`] and [`compile`](crate::compile).
    #[track_caller]
    pub fn compile(&self, options: &CompileOptions) -> Result<ProgramArtifact> {
        let name = options.name.clone().or_else(|| Some(self.name.clone()));
        compile_computations(&self.modules()?, &CompileOptions { name, ..options.clone() })
    }

    fn first_error(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }
}

/// An error about tensors, at the call that made it.
pub(super) fn fault(at: At, e: RuleError) -> Error {
    e.into_error(Site { instruction: None, location: SourceLocation::of_caller(at), length: 0 })
}
