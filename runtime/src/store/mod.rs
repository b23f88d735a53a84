//! The tensors that several computations share, in memory of their own.
//!
//! Problem: the computations of one program (initialise, step, predict) share variables, and a training loop must neither copy
//! nor allocate them at each step. Invariant: a tensor of a store is one buffer, found by its name, for as long as the store
//! lives; every computation reads it and updates it there, and none runs before each tensor that it takes has a value. It lies as
//! its declaration says, and where it is padded the padding holds its value, unless a caller writes there.
//! Algorithm: a program's descriptor names its parameters and says which tensors they are, and which results must take the
//! place of which parameters; [`Store::add`] gives each name a number once, and a computation is a program bound to the numbers
//! of its parameters. A call looks the addresses up, runs the function, and that is all.
//!
//! Stores are independent: the same programs can be in any number of them. With the feature `checkpoint` a store is saved as
//! safetensors and loaded again.
//!
//! Source: Nervana graph's «Tensors», of the attributes `persistent`, `trainable` and `input`.

#[cfg(feature = "checkpoint")]
mod checkpoint;
mod error;

#[cfg(feature = "checkpoint")]
pub use checkpoint::safetensors_array;
pub use error::StoreError;

use crate::abi::{Leaf, TensorFlags};
use crate::program::Bound;
use crate::program::memory::{AlignedBytes, check_argument, fill_with_padding, load, store};
use crate::{ArrayLiteral, Program, RunError, RunOptions};
use std::collections::HashMap;

/// The computation that gives persistent tensors their initial values.
pub const INITIALISE: &str = "initialise";

/// Names a computation of a store, which [`Store::computation`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputationId(usize);

/// Tensors by name, and the computations that share them.
pub struct Store {
    options: RunOptions,
    tensors: Vec<Tensor>,
    /// The buffer of each tensor. They are never replaced.
    memory: Vec<AlignedBytes>,
    numbers: HashMap<String, usize>,
    computations: Vec<Computation>,
}

struct Tensor {
    /// Name, shape and attributes.
    leaf: Leaf,
    has_value: bool,
}

struct Computation {
    name: String,
    bound: Bound,
    /// The tensor of each parameter.
    parameters: Vec<usize>,
    /// The tensors that a run writes.
    written: Vec<usize>,
    /// The results that are no tensor's new value.
    outputs: Vec<usize>,
}

impl Store {
    /// A store of the tensors that `programs` share, none of which has a value yet.
    ///
    /// # Errors
    /// As [`Store::add`].
    pub fn new(programs: &[Program], options: &RunOptions) -> Result<Store, StoreError> {
        let mut new = Store {
            options: options.clone(),
            tensors: Vec::new(),
            memory: Vec::new(),
            numbers: HashMap::new(),
            computations: Vec::new(),
        };
        for program in programs {
            new.add(program)?;
        }
        Ok(new)
    }

    /// Adds a computation, which is called by the name of its module, and the tensors that it takes and that are new.
    ///
    /// # Errors
    /// Where a parameter is no declared tensor, or a tensor of that name has another shape, type or attributes; where there is
    /// a computation of that name; where memory is exhausted.
    pub fn add(&mut self, program: &Program) -> Result<ComputationId, StoreError> {
        let descriptor = program.descriptor();
        let name = &descriptor.module_name;
        if self.computations.iter().any(|c| c.name == *name) {
            return Err(StoreError::Twice(name.clone()));
        }
        for leaf in &descriptor.parameters {
            self.check(name, leaf)?;
        }
        let mut parameters = Vec::with_capacity(descriptor.parameters.len());
        for leaf in &descriptor.parameters {
            parameters.push(self.declare(leaf)?);
        }
        let shared = |r: &usize| descriptor.aliases.iter().find(|a| a.must && a.result as usize == *r);
        let results = 0..descriptor.results.len();
        let written = results.clone().filter_map(|r| parameters.get(shared(&r)?.parameter as usize).copied()).collect();
        let outputs = results.filter(|r| shared(r).is_none()).collect();
        let bound = Bound::new(program, &self.options, parameters.clone())?;
        self.computations.push(Computation { name: name.clone(), bound, parameters, written, outputs });
        Ok(ComputationId(self.computations.len() - 1))
    }

    /// Whether a parameter can be a tensor of this store.
    fn check(&self, computation: &str, leaf: &Leaf) -> Result<(), StoreError> {
        if leaf.tensor == TensorFlags::NONE || leaf.name.is_empty() {
            let (computation, parameter) = (computation.to_owned(), leaf.name.clone());
            return Err(StoreError::Undeclared { computation, parameter });
        }
        match self.numbers.get(&leaf.name).and_then(|&n| self.tensors.get(n)) {
            Some(known) if known.leaf != *leaf => Err(StoreError::Mismatch {
                tensor: leaf.name.clone(),
                expected: described(&known.leaf),
                found: format!("{}, in the computation '{computation}'", described(leaf)),
            }),
            _ => Ok(()),
        }
    }

    /// The number of a tensor, which is new or known.
    fn declare(&mut self, leaf: &Leaf) -> Result<usize, StoreError> {
        if let Some(&known) = self.numbers.get(&leaf.name) {
            return Ok(known);
        }
        let number = self.tensors.len();
        let mut buffer = AlignedBytes::new(leaf.byte_size())?;
        fill_with_padding(leaf, buffer.bytes_mut());
        self.memory.push(buffer);
        self.tensors.push(Tensor { leaf: leaf.clone(), has_value: false });
        self.numbers.insert(leaf.name.clone(), number);
        Ok(number)
    }

    /// Name, shape and attributes of each tensor, in the order in which computations brought them.
    pub fn tensors(&self) -> impl Iterator<Item = &Leaf> {
        self.tensors.iter().map(|t| &t.leaf)
    }

    /// The names of the tensors that training updates.
    pub fn trainable_variables(&self) -> impl Iterator<Item = &str> {
        self.tensors().filter(|leaf| leaf.tensor.trainable).map(|leaf| leaf.name.as_str())
    }

    /// The computation of that name.
    ///
    /// # Errors
    /// Where there is none; the error names those that there are.
    pub fn computation(&self, name: &str) -> Result<ComputationId, StoreError> {
        let found = self.computations.iter().position(|c| c.name == name);
        found.map(ComputationId).ok_or_else(|| StoreError::Unknown {
            what: "computation",
            name: name.to_owned(),
            known: self.computations.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Gives persistent tensors their initial values: runs the computation [`INITIALISE`].
    ///
    /// # Errors
    /// Where the program has no such computation, or it fails.
    pub fn initialise(&mut self) -> Result<(), StoreError> {
        self.run(self.computation(INITIALISE)?)
    }

    /// Sets inputs, runs a computation and yields its outputs, the results that are no tensor's new value. An input that is
    /// not given keeps the value that it was given last, or that a computation assigned since.
    ///
    /// # Errors
    /// As [`Store::computation`] and [`Store::run`], and where what is given is no input of the computation or does not fit.
    pub fn call(&mut self, name: &str, inputs: &[(&str, &ArrayLiteral)]) -> Result<Vec<ArrayLiteral>, StoreError> {
        let id = self.computation(name)?;
        for (input, value) in inputs {
            self.check_input(id, input)?;
            self.set(input, value)?;
        }
        self.run(id)?;
        self.outputs(id)
    }

    fn check_input(&self, id: ComputationId, name: &str) -> Result<(), StoreError> {
        let number = self.number(name)?;
        let computation = self.at(id)?;
        let tensor = self.tensors.get(number);
        let takes = computation.parameters.contains(&number);
        match tensor.is_some_and(|t| t.leaf.tensor.input) && takes {
            true => Ok(()),
            false => Err(StoreError::NoInput {
                computation: computation.name.clone(),
                name: name.to_owned(),
                inputs: self.inputs(computation).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    fn inputs<'a>(&'a self, computation: &'a Computation) -> impl Iterator<Item = &'a str> {
        let tensors = computation.parameters.iter().filter_map(|&n| self.tensors.get(n));
        tensors.filter(|t| t.leaf.tensor.input).map(|t| t.leaf.name.as_str())
    }

    /// Runs a computation on the tensors as they are, without an allocation.
    ///
    /// # Errors
    /// Where a tensor that it takes has no value yet, and where the program fails: then what it updates is lost.
    pub fn run(&mut self, id: ComputationId) -> Result<(), StoreError> {
        let computation = self.computations.get_mut(id.0).ok_or_else(|| unknown_id(id))?;
        if computation.name != INITIALISE {
            let empty = computation.parameters.iter().filter_map(|&n| self.tensors.get(n)).find(|t| !t.has_value);
            if let Some(tensor) = empty {
                return Err(no_value(&computation.name, &tensor.leaf));
            }
        }
        let outcome = computation.bound.call(&mut self.memory);
        for &number in &computation.parameters {
            if let Some(tensor) = self.tensors.get_mut(number) {
                tensor.has_value &= tensor.leaf.tensor.persistent;
            }
        }
        for &number in &computation.written {
            if let Some(tensor) = self.tensors.get_mut(number) {
                tensor.has_value = outcome.is_ok() && tensor.leaf.tensor.persistent;
            }
        }
        Ok(outcome?)
    }

    /// The outputs of the computation's last run.
    ///
    /// # Errors
    /// Where memory is exhausted, or an output cannot be a literal.
    pub fn outputs(&self, id: ComputationId) -> Result<Vec<ArrayLiteral>, StoreError> {
        let computation = self.at(id)?;
        let leaves = &computation.bound.program().descriptor().results;
        let literal = |&r: &usize| {
            let (leaf, bytes) = (leaves.get(r), computation.bound.result_bytes(&self.memory, r));
            let (Some(leaf), Some(bytes)) = (leaf, bytes) else { return Err(RunError::Index(r).into()) };
            load(r, leaf, bytes).map_err(StoreError::from)
        };
        computation.outputs.iter().map(literal).collect()
    }

    /// The buffer of output `index` of the computation's last run, in its own layout.
    pub fn output_bytes(&self, id: ComputationId, index: usize) -> Option<&[u8]> {
        let computation = self.computations.get(id.0)?;
        computation.bound.result_bytes(&self.memory, *computation.outputs.get(index)?)
    }

    /// Sets the seed of the stateful random number generators, for the next run of every computation.
    pub fn set_seed(&mut self, seed: u64) {
        self.options.seed = seed;
        for computation in &mut self.computations {
            computation.bound.set_seed(seed);
        }
    }

    /// A tensor's value.
    ///
    /// # Errors
    /// Where there is no such tensor, or it has no value yet.
    pub fn get(&self, name: &str) -> Result<ArrayLiteral, StoreError> {
        let number = self.number(name)?;
        let (Some(tensor), Some(buffer)) = (self.tensors.get(number), self.memory.get(number)) else {
            return Err(RunError::Index(number).into());
        };
        if !tensor.has_value {
            return Err(no_value("get", &tensor.leaf));
        }
        Ok(load(number, &tensor.leaf, buffer.bytes())?)
    }

    /// Gives a tensor a value, whatever its attributes.
    ///
    /// # Errors
    /// Where there is no such tensor, or the value has another shape or type.
    pub fn set(&mut self, name: &str, value: &ArrayLiteral) -> Result<(), StoreError> {
        let number = self.number(name)?;
        let (Some(tensor), Some(buffer)) = (self.tensors.get_mut(number), self.memory.get_mut(number)) else {
            return Err(RunError::Index(number).into());
        };
        check_argument(number, &tensor.leaf, value).map_err(|_| StoreError::Mismatch {
            tensor: name.to_owned(),
            expected: format!("{:#}", tensor.leaf.shape),
            found: value.shape().to_string(),
        })?;
        fill_with_padding(&tensor.leaf, buffer.bytes_mut());
        store(&tensor.leaf, value, buffer.bytes_mut())?;
        tensor.has_value = true;
        Ok(())
    }

    /// A tensor's buffer, in its own layout.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.memory.get(*self.numbers.get(name)?).map(AlignedBytes::bytes)
    }

    /// A tensor's buffer, in its own layout, to be written: the tensor has a value from now on.
    pub fn bytes_mut(&mut self, name: &str) -> Option<&mut [u8]> {
        let number = *self.numbers.get(name)?;
        self.tensors.get_mut(number)?.has_value = true;
        self.memory.get_mut(number).map(AlignedBytes::bytes_mut)
    }

    fn at(&self, id: ComputationId) -> Result<&Computation, StoreError> {
        self.computations.get(id.0).ok_or_else(|| unknown_id(id))
    }

    fn number(&self, name: &str) -> Result<usize, StoreError> {
        self.numbers.get(name).copied().ok_or_else(|| StoreError::Unknown {
            what: "tensor",
            name: name.to_owned(),
            known: self.tensors().map(|leaf| leaf.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}

fn described(leaf: &Leaf) -> String {
    format!("{} ({})", leaf.shape, leaf.tensor)
}

fn unknown_id(ComputationId(number): ComputationId) -> StoreError {
    StoreError::Unknown {
        what: "computation",
        name: format!("number {number}"),
        known: "those of this store".to_owned(),
    }
}

fn no_value(computation: &str, leaf: &Leaf) -> StoreError {
    let (computation, tensor) = (computation.to_owned(), leaf.name.clone());
    StoreError::NoValue { computation, tensor, input: leaf.tensor.input }
}
