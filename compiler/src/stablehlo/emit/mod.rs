//! From an HLO module to a StableHLO program, the way back of [`super::lower`].
//!
//! Problem: HLO has tuples where StableHLO has several results, computations where it has regions, and operations that it does
//! not have. Invariant: the program that comes out has the module's results on all inputs, or there is none: what has no form in
//! StableHLO is `Unsupported`, which names the instruction, its line and its opcode. Instructions stand in their order, so that what
//! has effects keeps it. What says nothing about values (layouts inside the program, statistics, hints to a scheduler) is left out.
//!
//! Algorithm: computation by computation, instruction by instruction. The value of an instruction is a [`Repr`](body::Repr): one
//! value of StableHLO, or the parts of a tuple that nobody needs as a whole; a `tuple` operation is made only for an operation that
//! takes one. What an operation applies (reducers, comparators, bodies, branches) becomes a region; what is called becomes a
//! private function, and so does a computation that would stand in several regions, or too deep: the text grows no faster than
//! the module. Asynchronous forms are made synchronous first ([`crate::passes::async_to_sync`]).

mod attributes;
mod body;
mod collective;
mod contraction;
mod control;
mod custom_call;
mod feeds;
mod movement;
mod operations;
#[cfg(test)]
mod tests;

use super::ir::{Attribute, Dictionary, Function, Location, LocationId, Program, Type};
use crate::error::{Error, Result, Site};
use crate::hlo::{AliasKind, AttrKey, Computation, ComputationId, Instruction, Module};
use crate::passes::async_to_sync;
use body::Body;
use brolga_runtime::Shape;
use cranelift_entity::EntitySet;
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;

/// Regions nest so deep at most; what is deeper becomes a function.
const MAX_REGIONS: usize = 32;

/// A computation of so many instructions may stand in several regions.
const SMALL: usize = 16;

/// Converts a module.
pub(super) fn emit(module: &Module) -> Result<Program> {
    let mut module = module.clone();
    async_to_sync::run(&mut module)?;
    let mut program = Program { name: Some(module.name.clone()), ..Program::default() };
    for (name, count) in
        [("mhlo.num_partitions", module.config.num_partitions), ("mhlo.num_replicas", module.config.replica_count)]
    {
        if let Some(count) = count {
            program.attributes.set(name, attributes::int32(count));
        }
    }
    let mut emitter = Emitter {
        module: &module,
        program,
        functions: HashMap::new(),
        taken: HashSet::from(["main".to_owned()]),
        waiting: VecDeque::new(),
        in_regions: EntitySet::new(),
        effects: effects(&module),
        locations: HashMap::new(),
    };
    emitter.entry()?;
    while let Some(id) = emitter.waiting.pop_front() {
        emitter.function(id)?;
    }
    Ok(emitter.program)
}

/// Computations that feeds, sends, random states or custom calls give effects.
fn effects(module: &Module) -> EntitySet<ComputationId> {
    let mut out = EntitySet::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        let has = |i: &Instruction| i.has_side_effect() || i.attrs.called().into_iter().any(|c| out.contains(c));
        if computation.order.iter().any(|&i| has(&computation.instructions[i])) {
            out.insert(id);
        }
    }
    out
}

/// A conversion under way.
struct Emitter<'m> {
    module: &'m Module,
    program: Program,
    /// Names of the functions that computations have become, or will.
    functions: HashMap<ComputationId, String>,
    taken: HashSet<String>,
    /// Computations whose functions are still to be made.
    waiting: VecDeque<ComputationId>,
    /// Computations that have become a region somewhere.
    in_regions: EntitySet<ComputationId>,
    effects: EntitySet<ComputationId>,
    locations: HashMap<String, Option<LocationId>>,
}

impl<'m> Emitter<'m> {
    /// The function of a computation: its name.
    fn function_of(&mut self, id: ComputationId) -> String {
        if let Some(name) = self.functions.get(&id) {
            return name.clone();
        }
        let stem = &self.module.computations[id].name;
        let mut name = stem.clone();
        let mut n = 0;
        while !self.taken.insert(name.clone()) {
            n += 1;
            name = format!("{stem}_{n}");
        }
        self.functions.insert(id, name.clone());
        self.waiting.push_back(id);
        name
    }

    /// Whether a computation may stand in a region, be it again.
    fn fits_region(&mut self, id: ComputationId, depth: usize) -> bool {
        let computation = &self.module.computations[id];
        let calls = || computation.order.iter().any(|&i| !computation.instructions[i].attrs.called().is_empty());
        if depth >= MAX_REGIONS {
            return false;
        }
        self.in_regions.insert(id) || computation.order.len() <= SMALL && !calls()
    }

    /// The sharding that StableHLO should have of an instruction. In a module that one of several partitions runs it tells how the
    /// arrays were divided, and would ask to divide them again.
    fn sharding<'i>(&self, instruction: &'i Instruction) -> Option<&'i str> {
        let is_divided = self.module.config.num_partitions.is_some_and(|count| count > 1);
        instruction.attrs.raw(AttrKey::Sharding).filter(|_| !is_divided)
    }

    /// `@main`. Its arguments are the parameters, tuples as tuples; its results the parts of the result.
    fn entry(&mut self) -> Result<()> {
        let module = self.module;
        let computation = module.entry();
        let mut body = Body::new(self);
        let mut arguments = Vec::new();
        for id in computation.parameters() {
            let parameter = &computation.instructions[id];
            let ty = attributes::type_of(&parameter.shape).map_err(|what| unsupported(parameter, what))?;
            let value = body.value(ty.clone());
            let name = Location::Name { name: parameter.name.as_str().into(), child: None };
            body.function.values[value].location = Some(body.emitter.program.locations.push(name));
            body.function.arguments.push(ty);
            body.function
                .argument_attributes
                .push(attributes::discardable(parameter, body.emitter.sharding(parameter))?);
            arguments.push(value);
        }
        let parameters = arguments.iter().map(|&v| body::Repr::Value(v)).collect();
        let result = body.computation(module.entry, parameters)?;
        let root = &computation.instructions[computation.root];
        let results = match computation.result_shape() {
            Shape::Tuple(parts) => {
                let mut values = Vec::new();
                for k in 0..parts.len() {
                    let part = body.element(&result, k)?;
                    values.push(body.packed(&part)?);
                }
                values
            }
            _ => vec![body.packed(&result)?],
        };
        let sharding = body.emitter.sharding(root);
        body.function.result_attributes = attributes::result_shardings(root, sharding, results.len());
        body.function.name = "main".to_owned();
        body.finish(arguments, results);
        self.aliases()?;
        self.donors();
        self.layouts()
    }

    /// `tf.aliasing_output`, which names a result and an argument as a whole.
    fn aliases(&mut self) -> Result<()> {
        let entry = self.module.entry();
        let parameters = entry.parameters();
        for alias in &self.module.config.aliases {
            let output = match (&alias.output_index[..], entry.result_shape()) {
                ([], Shape::Tuple(_)) => None,
                ([], _) => Some(0),
                (&[k], Shape::Tuple(_)) => Some(k),
                _ => None,
            };
            match (output, &alias.parameter_index[..], self.main().argument_attributes.get_mut(alias.parameter)) {
                (Some(output), [], Some(attributes)) if attributes.get("tf.aliasing_output").is_none() => {
                    attributes.set("tf.aliasing_output", attributes::int32(output as i64));
                }
                // Leave to share memory that nobody can state is not taken.
                _ if alias.kind == AliasKind::May => {}
                _ => {
                    let parameter = parameters.get(alias.parameter).map(|&p| &entry.instructions[p]);
                    let what = "an alias of a part of a parameter or of a result";
                    return Err(match parameter {
                        Some(parameter) => unsupported(parameter, what),
                        None => Error::Unsupported { site: Site::default(), feature: format!("{what} in StableHLO") },
                    });
                }
            }
        }
        Ok(())
    }

    fn main(&mut self) -> &mut Function {
        // The entry is the first function.
        &mut self.program.functions[0]
    }

    /// `jax.buffer_donor`: whole arguments that may be overwritten.
    fn donors(&mut self) {
        let donors = self.module.config.other.iter().find(|(key, _)| key == crate::proto::kept::DONORS);
        let entries = donors.and_then(|(_, text)| crate::proto::kept::donors(text).ok()).unwrap_or_default();
        for (parameter, index) in entries {
            let Ok(parameter) = usize::try_from(parameter) else { continue };
            let attributes = self.main().argument_attributes.get_mut(parameter);
            if let (true, Some(attributes)) = (index.is_empty(), attributes) {
                attributes.set("jax.buffer_donor", Attribute::Bool(true));
            }
        }
    }

    /// Layouts that callers see and that are not row-major, those of the entry's own instructions too. Where a pass has made
    /// operations of them, the arrays of the entry are as they lie.
    fn layouts(&mut self) -> Result<()> {
        if self.module.config.abi.is_some() {
            return Ok(());
        }
        let (parameters, result) = self.module.interface();
        let results = result.parts();
        let of = |shapes: &[Shape], what: &str| {
            let list: std::result::Result<Vec<_>, String> = shapes.iter().map(attributes::layout).collect();
            list.map_err(|layout| {
                let feature = format!("the layout of a {what} ({layout}) in StableHLO");
                Error::Unsupported { site: Site::default(), feature }
            })
        };
        let plain = |shapes: &[Shape]| shapes.iter().flat_map(Shape::leaves).all(attributes::is_row_major);
        if !plain(&parameters) || !plain(results) {
            let (parameters, results) = (of(&parameters, "parameter")?, of(results, "result")?);
            let attributes = &mut self.program.attributes;
            attributes.set("mhlo.xla_entry_computation_parameter_layouts", Attribute::Array(parameters));
            attributes.set("mhlo.xla_entry_computation_result_layout", Attribute::Array(results));
        }
        Ok(())
    }

    /// A private function: its arguments and results are leaves.
    fn function(&mut self, id: ComputationId) -> Result<()> {
        let module = self.module;
        let computation = &module.computations[id];
        let name = self.function_of(id);
        let mut body = Body::new(self);
        body.function.name = name;
        body.function.is_private = true;
        let mut parameters = Vec::new();
        let mut arguments = Vec::new();
        for id in computation.parameters() {
            let parameter = &computation.instructions[id];
            parameters.push(body.block_argument(parameter, &mut arguments)?);
        }
        body.function.arguments = body.types(&arguments);
        body.function.argument_attributes = vec![Dictionary::new(); arguments.len()];
        let result = body.computation(id, parameters)?;
        let mut results = Vec::new();
        body.leaves(&result, &mut results)?;
        body.function.result_attributes = vec![Dictionary::new(); results.len()];
        body.finish(arguments, results);
        Ok(())
    }

    /// The place that an instruction's metadata names.
    fn location(&mut self, instruction: &Instruction) -> Option<LocationId> {
        let text = instruction.attrs.raw(AttrKey::Metadata)?;
        if let Some(&known) = self.locations.get(text) {
            return known;
        }
        let metadata = crate::proto::kept::metadata_message(text).ok()?;
        let number = |n: i32| u32::try_from(n).unwrap_or_default();
        let mut location = None;
        if !metadata.source_file.is_empty() {
            let (line, column) = (number(metadata.source_line), number(metadata.source_column));
            let file = Location::File { file: metadata.source_file.as_str().into(), line, column };
            location = Some(self.program.locations.push(file));
        }
        if !metadata.op_name.is_empty() {
            let name = Location::Name { name: metadata.op_name.as_str().into(), child: location };
            location = Some(self.program.locations.push(name));
        }
        self.locations.insert(text.to_owned(), location);
        location
    }
}

/// What has no form in StableHLO.
fn unsupported(instruction: &Instruction, what: impl Into<String>) -> Error {
    let site = Site { instruction: Some(instruction.name.clone()), location: instruction.location, length: 0 };
    Error::Unsupported { site, feature: format!("{} of '{}' in StableHLO", what.into(), instruction.opcode) }
}

/// An operation that StableHLO does not have.
fn no_such_operation(instruction: &Instruction) -> Error {
    let site = Site { instruction: Some(instruction.name.clone()), location: instruction.location, length: 0 };
    Error::Unsupported { site, feature: format!("'{}', an operation that StableHLO does not have", instruction.opcode) }
}

/// The called computation that `key` names.
fn callee(instruction: &Instruction, key: AttrKey) -> Result<ComputationId> {
    let message = || format!("{} '{}' says no {}", instruction.opcode, instruction.name, key.name());
    instruction.attrs.computation(key).ok_or_else(|| Error::Internal(message()))
}

/// Whether an instruction has effects, or something that it calls.
fn has_effects(emitter: &Emitter<'_>, instruction: &Instruction) -> bool {
    instruction.has_side_effect() || instruction.attrs.called().into_iter().any(|c| emitter.effects.contains(c))
}

/// Refuses an order that the order of the program's values does not keep.
fn check_control(emitter: &Emitter<'_>, computation: &Computation, instruction: &Instruction) -> Result<()> {
    let before = instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]);
    let ordered = |i: &Instruction| has_effects(emitter, i);
    let lost = ordered(instruction) && before.iter().any(|&i| ordered(&computation.instructions[i]));
    if lost { Err(unsupported(instruction, "an order of effects by control-predecessors")) } else { Ok(()) }
}

/// The only one of a list.
fn only<T: Copy>(list: &[T]) -> Result<T> {
    match list {
        &[one] => Ok(one),
        _ => Err(Error::Internal(format!("an operation of StableHLO has {} results instead of one", list.len()))),
    }
}

/// Whether a value is a tuple.
fn is_tuple(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(_))
}
