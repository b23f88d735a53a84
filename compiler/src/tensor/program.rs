//! The computations of a graph: added, listed, and compiled into one object.

use super::computation::Computation;
use super::declaration::{Tensor, fault};
use super::graph::TensorGraph;
use super::view;
use crate::builder::Op;
use crate::driver::compile_computations;
use crate::error::Result;
use crate::hlo::Module;
use crate::shape::RuleError;
use crate::{CompileOptions, ProgramArtifact, symbol_name};
use brolga_runtime::store::INITIALISE;
use std::panic::Location;

impl TensorGraph {
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
        let kept: Vec<&Tensor> = self.tensors().iter().filter(kept).collect();
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
}
