//! The builder: the specification's operations as Rust methods.
//!
//! Problem: a program that makes graphs should read like the specification, and a mistake should be reported where it
//! was made, without a `Result` at every call. Invariant: every instruction in a builder has passed its shape rule,
//! so its shape is known at once; what stands on a failed call is not added. Algorithm: each method runs
//! [`shape::infer`]; the first error is kept with the place of the call and returned by
//! [`Builder::build`], and later calls on top of a failed one do nothing.
//!
//! Each instruction knows the file and line of the call that made it, and errors that are found later, when the module
//! is verified, compiled or interpreted, show them. A method that is made of others gives all of theirs its own place.
//!
//! Called computations are modules of their own builders; their computations are copied in under unique names. Names of
//! parameters and computations are made printable: what HLO text cannot have in a name becomes `_`.
//!
//! # Names of methods
//!
//! A method has the name of its section in the newest document, in Rust's spelling, and takes the arguments in the
//! order of the section. A further form of the same operation has a suffix that says what differs:
//!
//! | suffix | the form |
//! |---|---|
//! | `_total_order` | compares floats in their total order |
//! | `_in_dims` | takes `broadcast_dimensions`, for operands of different rank; comes last |
//! | `_many` | takes several operands |
//! | `_all` | takes all dimensions |
//! | `_indexed` | chooses by an index instead of a truth value |
//! | `_with_WHAT` | takes a further argument: `_with_type` the element type of the result, `_with_options` options, `_with_token` and takes and gives a token |
//! | `_without_WHAT` | lacks an argument or a case that the newest form has |
//! | `_r0`, `_r1`, `_pred`, `_literal` | what a constant is made from |
//! | any other | a form of an older document, named after what differs: `_modulo`, `_from_vector`, `_operand_first` |
//!
//! What is made of several operations (`composite.rs`: sums and means, softmax, activations) has the name that it has in machine
//! learning. [`Expression`] is a value with Rust's operators.
//!
//! ```
//! use brolga_compiler::builder::{Builder, ElementType, Shape};
//!
//! let b = Builder::new("axpy");
//! let a = b.parameter(0, Shape::scalar(ElementType::F32), "a");
//! let x = b.parameter(1, Shape::array(ElementType::F32, [8]), "x");
//! let y = b.parameter(2, Shape::array(ElementType::F32, [8]), "y");
//! b.add(b.mul(a, x), y);
//! let module = b.build()?;
//! assert_eq!(module.entry().result_shape().to_string(), "f32[8]");
//! # Ok::<(), brolga_compiler::Error>(())
//! ```

mod broadcast;
mod collective;
mod composite;
mod contraction;
mod control;
mod elementwise;
mod expression;
mod indexing;
mod linalg;
mod movement;
mod older;
mod opening;
mod ordering_random;
mod reduction;
mod side_effect;
mod structure;
mod types;

#[cfg(test)]
mod tests;

pub use crate::error::{Error, Result};
pub use crate::hlo::{AliasKind, ConvolutionDims, Module, Opcode, PaddingDimension};
pub use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Layout, Literal, NativeType, PaddingValue, Shape};
pub use contraction::default_convolution_dims;
pub use expression::Expression;
pub use reduction::scalar_computation;
pub use types::{
    ComparisonDirection, CustomCallOptions, DotDimensions, FftKind, GatherDimensions, Padding, RandomAlgorithm,
    ScatterDimensions, TransposeKind,
};

use crate::error::Site;
use crate::hlo::{
    Alias, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, ModuleConfig, SourceLocation,
};
use crate::shape::{self, InferContext, RuleError};
use cranelift_entity::PrimaryMap;
use cranelift_entity::packed_option::ReservedValue;
use hashbrown::{HashMap, HashSet};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};

/// A value under construction. It belongs to one [`Builder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    builder: u32,
    id: InstructionId,
}

/// Where a method was called.
pub(crate) type At = &'static Location<'static>;

/// The call failed, or stands on a call that did; the builder has the error.
#[derive(Clone, Copy, Debug)]
struct Failed;

type Step<T = Op> = std::result::Result<T, Failed>;

/// Makes one computation, and with it a module. See the [module documentation](self).
#[derive(Debug)]
pub struct Builder {
    tag: u32,
    /// The call of a method that is made of other methods, for as long as they run: they are all made there.
    place: Cell<Option<At>>,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    name: String,
    /// Where the builder was made.
    location: SourceLocation,
    instructions: PrimaryMap<InstructionId, Instruction>,
    names: HashSet<String>,
    /// How many names of each stem were given out, so that the search for a fresh one stays short.
    stems: HashMap<String, usize>,
    computations: PrimaryMap<ComputationId, Computation>,
    computation_names: HashSet<String>,
    /// The result's shape with layouts, and where it was set.
    result_layout: Option<(Shape, SourceLocation)>,
    /// The last link of the chain of tokens that orders feeds and transfers.
    token: Option<Op>,
    /// `input_output_alias` of the module.
    aliases: Vec<Alias>,
    error: Option<Error>,
}

impl Builder {
    /// A builder of a computation called `name`, which is also the name of the module. What cannot stand in a name of HLO
    /// text becomes `_`.
    #[track_caller]
    pub fn new(name: impl AsRef<str>) -> Builder {
        static TAGS: AtomicU32 = AtomicU32::new(0);
        let name = printable(name.as_ref());
        let computation_names = HashSet::from([name.clone()]);
        let location = SourceLocation::of_caller(Location::caller());
        let state = State { name, location, computation_names, ..State::default() };
        Builder { tag: TAGS.fetch_add(1, Ordering::Relaxed), place: Cell::new(None), state: RefCell::new(state) }
    }

    /// A builder of a computation that a method called at `at` needs: all of it is made there.
    pub(crate) fn new_at(at: At, name: &str) -> Builder {
        let builder = Builder::new(name);
        builder.place.set(Some(at));
        builder.state.borrow_mut().location = SourceLocation::of_caller(at);
        builder
    }

    /// Runs `make`, whose calls are made at `at`, or where an outer call of this was.
    pub(crate) fn made_at<T>(&self, at: At, make: impl FnOnce() -> T) -> T {
        let outer = self.place.get();
        self.place.set(Some(outer.unwrap_or(at)));
        let made = make();
        self.place.set(outer);
        made
    }

    /// The shape of a value.
    ///
    /// # Errors
    /// The builder's first error, where the value comes from a call that failed.
    #[track_caller]
    pub fn shape(&self, op: Op) -> Result<Shape> {
        let at = SourceLocation::of_caller(Location::caller());
        let state = self.state.borrow();
        match state.instructions.get(op.id).filter(|_| op.builder == self.tag) {
            Some(instruction) => Ok(instruction.shape.clone()),
            None => Err(state.error.clone().unwrap_or_else(|| {
                invalid(
                    None,
                    at,
                    RuleError::new("builder.operand", "expected a value of this builder, found another's"),
                )
            })),
        }
    }

    /// The name that a value's instruction has in the module.
    ///
    /// # Errors
    /// As [`Builder::shape`].
    #[track_caller]
    pub fn name(&self, op: Op) -> Result<String> {
        self.shape(op)?;
        Ok(self.state.borrow().instructions[op.id].name.clone())
    }

    /// The first error so far.
    pub fn first_error(&self) -> Option<Error> {
        self.state.borrow().error.clone()
    }

    /// How the result lies in the caller's memory: `shape` is the result's own, its arrays with their layouts, column-major or
    /// padded. Parameters have the layouts of the shapes that they were made with. Of a computation that others call it has no
    /// meaning. The document on shapes and layouts is the source.
    #[track_caller]
    pub fn set_result_layout(&self, shape: Shape) {
        let location = SourceLocation::of_caller(Location::caller());
        self.state.borrow_mut().result_layout = Some((shape, location));
    }

    /// The module, whose result is the value that was made last.
    ///
    /// # Errors
    /// The first error of all calls, or what the verifier finds.
    pub fn build(self) -> Result<Module> {
        let last = self.state.borrow().instructions.keys().next_back();
        match last {
            Some(id) => {
                let root = Op { builder: self.tag, id };
                self.build_with_root(root)
            }
            None => {
                let state = self.state.into_inner();
                Err(state.error.unwrap_or_else(|| {
                    let message = format!("expected an instruction in '{}', found none", state.name);
                    invalid(None, state.location, RuleError::new("computation.root", message))
                }))
            }
        }
    }

    /// The module, whose result is `root`.
    ///
    /// # Errors
    /// The first error of all calls, or what the verifier finds.
    #[track_caller]
    pub fn build_with_root(self, root: Op) -> Result<Module> {
        // Asking for the shape finds a root that failed or is another builder's.
        let known = self.shape(root);
        let state = self.state.into_inner();
        if let Some(error) = state.error {
            return Err(error);
        }
        known?;
        let mut computations = state.computations;
        let order = state.instructions.keys().collect();
        let entry = computations.push(Computation {
            name: state.name.clone(),
            instructions: state.instructions,
            order,
            root: root.id,
            trailing: String::new(),
            location: state.location,
        });
        let order = computations.keys().collect();
        let config = ModuleConfig { aliases: state.aliases, ..ModuleConfig::default() };
        let mut module = Module { name: state.name, computations, order, entry, config };
        if let Some((result, location)) = state.result_layout {
            let (parameters, own) = module.interface();
            if !result.same_ignoring_layout(&own) {
                let message = format!("expected a layout of the result {own:#}, found {result}");
                return Err(invalid(None, location, RuleError::new("builder.result-layout", message)));
            }
            module.config.entry_layout = Some((parameters, result));
        }
        if !module.sort_computations() {
            return Err(Error::Internal("a builder made a recursive call".to_owned()));
        }
        shape::verify(&module)?;
        Ok(module)
    }

    /// `input_output_alias`: the leaf of the result at `output_index`, a path through its tuples, takes the memory of the leaf of
    /// parameter `parameter_number` at `parameter_index`: it may, or the caller must pass one buffer for both.
    /// [`Builder::build`] checks that both are arrays of one size, and that each is named once.
    pub fn input_output_alias(
        &self,
        output_index: &[usize],
        parameter_number: usize,
        parameter_index: &[usize],
        kind: AliasKind,
    ) {
        let (output_index, parameter_index) = (output_index.to_vec(), parameter_index.to_vec());
        self.state.borrow_mut().aliases.push(Alias {
            output_index,
            parameter: parameter_number,
            parameter_index,
            kind,
        });
    }

    /// Adds an instruction; the one way in.
    #[track_caller]
    fn op(&self, opcode: Opcode, operands: &[Op], attrs: Attrs, declared: Option<Shape>) -> Op {
        self.finish(self.add_at(Location::caller(), opcode, operands, attrs, declared))
    }

    /// A failed step becomes a value that later calls pass on.
    fn finish(&self, step: Step) -> Op {
        step.unwrap_or(Op { builder: self.tag, id: InstructionId::reserved_value() })
    }

    fn add_at(&self, at: At, opcode: Opcode, operands: &[Op], attrs: Attrs, declared: Option<Shape>) -> Step {
        let location = SourceLocation::of_caller(self.place.get().unwrap_or(at));
        let ids = self.ids(at, opcode, operands)?;
        let inferred = {
            let state = self.state.borrow();
            let shapes: Vec<&Shape> = ids.iter().map(|&id| &state.instructions[id].shape).collect();
            let cx = InferContext::of(&state.computations);
            let checked = match &declared {
                Some(shape) => shape::check_shape(shape),
                None => Ok(()),
            };
            checked.and_then(|()| shape::infer(&cx, opcode, &shapes, &attrs, declared.as_ref()))
        };
        // What the caller states, layout included, stands; where the rule decides, nothing is stated.
        let shape = match (inferred, declared) {
            (Ok(_), Some(declared)) => declared,
            (Ok(inferred), None) => inferred,
            (Err(e), _) => return Err(self.reject(at, opcode, e)),
        };
        let mut state = self.state.borrow_mut();
        let name = state.fresh_name(opcode.name());
        let id = state.instructions.push(Instruction { name, shape, opcode, operands: ids, attrs, location });
        Ok(Op { builder: self.tag, id })
    }

    /// The instructions behind `operands`.
    fn ids(&self, at: At, opcode: Opcode, operands: &[Op]) -> Step<Vec<InstructionId>> {
        let mut ids = Vec::with_capacity(operands.len());
        for op in operands {
            if op.builder != self.tag {
                let message = format!("expected operands of {opcode} from this builder, found one of another");
                return Err(self.reject_plain(at, RuleError::new("builder.operand", message)));
            }
            if self.state.borrow().instructions.get(op.id).is_none() {
                return Err(Failed);
            }
            ids.push(op.id);
        }
        Ok(ids)
    }

    /// Keeps an error, if it is the first.
    fn reject(&self, at: At, opcode: Opcode, e: RuleError) -> Failed {
        self.reject_plain(at, e.of(opcode))
    }

    /// As [`Builder::reject`], of a message that names the method.
    fn reject_plain(&self, at: At, e: RuleError) -> Failed {
        let location = SourceLocation::of_caller(self.place.get().unwrap_or(at));
        self.state.borrow_mut().error.get_or_insert_with(|| invalid(None, location, e));
        Failed
    }

    /// The shape of a value that must be an array, to be an operand of `opcode`.
    fn array_at(&self, at: At, opcode: Opcode, op: Op) -> Step<ArrayShape> {
        self.ids(at, opcode, &[op])?;
        let shape = self.state.borrow().instructions[op.id].shape.clone();
        match shape {
            Shape::Array(a) => Ok(a),
            other => {
                let message = format!("expected an array as operand of {opcode}, found {other:#}");
                Err(self.reject_plain(at, RuleError::new("operand.array", message)))
            }
        }
    }

    /// Copies the computations of `module` in, and yields its entry.
    fn embed(&self, module: &Module) -> ComputationId {
        let mut state = self.state.borrow_mut();
        if let Some(id) = state.find_same(module) {
            return id;
        }
        let mut ids: HashMap<ComputationId, ComputationId> = HashMap::new();
        for &old in &module.order {
            let mut computation = module.computations[old].clone();
            computation.name = state.fresh_computation_name(&computation.name);
            for (_, instruction) in computation.instructions.iter_mut() {
                for (_, value) in instruction.attrs.iter_mut() {
                    match value {
                        AttrValue::Computation(id) => *id = *ids.get(id).unwrap_or(id),
                        AttrValue::Computations(list) => {
                            list.iter_mut().for_each(|id| *id = *ids.get(id).unwrap_or(id));
                        }
                        _ => {}
                    }
                }
            }
            let new = state.computations.push(computation);
            ids.insert(old, new);
        }
        // `order` has the entry; a module without one cannot be had from `build` or the reader.
        ids.get(&module.entry).copied().unwrap_or(ComputationId::reserved_value())
    }
}

impl State {
    fn fresh_name(&mut self, stem: &str) -> String {
        let stem = &printable(stem);
        fresh(&mut self.names, self.stems.entry(stem.to_owned()).or_insert(0), stem)
    }

    fn fresh_computation_name(&mut self, stem: &str) -> String {
        fresh(&mut self.computation_names, &mut 0, stem)
    }

    /// A computation that is already here and equals the only one of `module`: the same reducer is handed in often.
    fn find_same(&self, module: &Module) -> Option<ComputationId> {
        const SMALL: usize = 16;
        let entry = module.entry();
        if module.order.len() != 1 || entry.order.len() > SMALL {
            return None;
        }
        let same = |c: &Computation| {
            c.order == entry.order
                && c.root == entry.root
                && c.order.iter().all(|&i| {
                    let (a, b) = (&c.instructions[i], &entry.instructions[i]);
                    a.name == b.name
                        && a.opcode == b.opcode
                        && a.shape == b.shape
                        && a.operands == b.operands
                        && a.attrs == b.attrs
                })
        };
        self.computations.iter().find(|(_, c)| same(c)).map(|(id, _)| id)
    }
}

/// The name, with `_` for each character that a name of HLO text cannot have, and before a first one that cannot begin it.
fn printable(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
    let begins = name.starts_with(|c: char| !matches!(c, '0'..='9' | '.' | '-'));
    (if begins { "" } else { "_" }).chars().chain(name.chars().map(kept)).collect()
}

fn fresh(taken: &mut HashSet<String>, count: &mut usize, stem: &str) -> String {
    let mut name = stem.to_owned();
    while !taken.insert(name.clone()) {
        *count += 1;
        name = format!("{stem}.{count}");
    }
    name
}

fn invalid(instruction: Option<String>, location: SourceLocation, e: RuleError) -> Error {
    e.into_error(Site { instruction, location, length: 0 })
}
