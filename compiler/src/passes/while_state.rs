//! The state of loops: what never changes and what nobody reads.
//!
//! Problem: exporters thread everything a loop touches through its state: bounds, weights, arrays that only the loop
//! before needed. Invariant: the loop runs as often and its effects happen as before; an element leaves the state only
//! where it reaches neither the condition, nor an effect, nor a user outside, be it through other elements. Algorithm:
//! an element that the body hands on unchanged is outside what it was before the loop, and inside too where that is a
//! constant; then a liveness fixed point over the elements decides which stay. Only loops whose condition and body
//! nobody else calls are touched.

use super::Stats;
use super::rewrite::{Effects, Rewriter, rewrite, sort_computations};
use super::value;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Computation, ComputationId, InstructionId, Module, Opcode};
use brolga_runtime::{Literal, Shape};
use cranelift_entity::{EntitySet, SecondaryMap};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Slims the state of every loop.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    sort_computations(module)?;
    let effects = Effects::of(module);
    let mut sites: SecondaryMap<ComputationId, usize> = SecondaryMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        let called = computation.order.iter().flat_map(|&i| computation.instructions[i].attrs.called());
        called.for_each(|callee| sites[callee] += 1);
    }
    for caller in module.order.clone() {
        let taken = taken_elements(&module.computations[caller]);
        if taken.is_empty() {
            continue;
        }
        let mut slimmed: HashMap<InstructionId, Slimmed> = HashMap::new();
        // One sweep for all loops of a computation: a loop is slimmed before what stands behind it is looked at.
        rewrite(module, caller, |rw, i| {
            if let Some(taken) = taken.get(&i) {
                let found = Loop::of(rw.module, caller, i);
                let Some(l) = found.filter(|l| sites[l.condition] == 1 && sites[l.body] == 1) else { return Ok(None) };
                let (handed_on, gone) = l.invariants(rw.module, &effects, &mut stats)?;
                let mut places = BTreeMap::new();
                if !gone && let Some(taken) = taken {
                    let live = taken.difference(&handed_on).copied().collect();
                    places = l.dead(rw, live, &effects, &mut stats)?;
                }
                let init = l.init;
                slimmed.insert(i, Slimmed { init, handed_on, places });
                return Ok(gone.then_some(init));
            }
            let instruction = rw.instruction(i);
            let Some(k) = instruction.element_number() else { return Ok(None) };
            let Some(state) = instruction.operands.first().and_then(|t| slimmed.get(t)) else { return Ok(None) };
            if state.handed_on.contains(&k) {
                stats.add("invariant element taken from before the loop", 1);
                return Ok(Some(rw.element(state.init, k)));
            }
            renumber(&mut rw.instruction_mut(i).attrs, &state.places);
            Ok(None)
        })?;
    }
    Ok(stats)
}

/// What became of a loop.
struct Slimmed {
    init: InstructionId,
    /// Elements that are what they were before the loop.
    handed_on: BTreeSet<usize>,
    /// The new numbers of the elements that stay, where some do not.
    places: BTreeMap<i64, i64>,
}

/// The loops of a computation, with the elements of each that are taken out of it, in the shape that they have there; `None`
/// where it is used in another way.
fn taken_elements(computation: &Computation) -> HashMap<InstructionId, Option<BTreeSet<usize>>> {
    let mut taken: HashMap<InstructionId, Option<BTreeSet<usize>>> = HashMap::new();
    for &i in &computation.order {
        let instruction = &computation.instructions[i];
        let element = instruction.element_number();
        for operand in &instruction.operands {
            let Some(elements) = taken.get_mut(operand) else { continue };
            let inside = computation.instructions[*operand].shape.as_tuple().zip(element);
            let inside = inside.and_then(|(shapes, k)| Some((k, shapes.get(k)?)));
            match (inside.filter(|(_, s)| s.same_ignoring_layout(&instruction.shape)), elements.as_mut()) {
                (Some((k, _)), Some(elements)) => drop(elements.insert(k)),
                _ => *elements = None,
            }
        }
        if instruction.opcode == Opcode::While {
            taken.insert(i, (i != computation.root).then(BTreeSet::new));
        }
    }
    taken
}

/// A loop over a tuple.
struct Loop {
    caller: ComputationId,
    id: InstructionId,
    init: InstructionId,
    condition: ComputationId,
    body: ComputationId,
    shapes: Vec<Shape>,
}

/// Which element of a computation's only parameter an instruction is.
fn element_of_parameter(computation: &Computation, id: InstructionId) -> Option<usize> {
    let instruction = &computation.instructions[id];
    let source = &computation.instructions[*instruction.operands.first()?];
    instruction.element_number().filter(|_| source.opcode == Opcode::Parameter)
}

/// Whether two values of different computations are constants of the same shape and bits.
fn same_constant(a: &Computation, x: InstructionId, b: &Computation, y: InstructionId) -> bool {
    let same_shape = a.instructions[x].shape.same_ignoring_layout(&b.instructions[y].shape);
    let repeated = value::splat(a, x).is_some_and(|s| Some(s) == value::splat(b, y));
    same_shape && (repeated || value::constant(a, x).is_some_and(|l| Some(l) == value::constant(b, y)))
}

impl Loop {
    fn of(module: &Module, caller: ComputationId, id: InstructionId) -> Option<Loop> {
        let instruction = module.instruction(caller, id);
        let condition = instruction.attrs.computation(AttrKey::Condition)?;
        let body = instruction.attrs.computation(AttrKey::Body)?;
        let shapes = instruction.shape.as_tuple()?.to_vec();
        let init = *instruction.operands.first()?;
        let root = &module.computations[body].instructions[module.computations[body].root];
        // Dynamic marks may differ between the places of a state, and then an element is not what it was before.
        let states = [&root.shape, &module.instruction(caller, init).shape];
        let same = states.iter().all(|s| s.same_ignoring_layout(&instruction.shape))
            && [condition, body].iter().all(|&c| {
                let computation = &module.computations[c];
                let parameters = computation.parameters();
                parameters.len() == 1
                    && computation.instructions[parameters[0]].shape.same_ignoring_layout(&instruction.shape)
            });
        let built = root.opcode == Opcode::Tuple && root.operands.len() == shapes.len();
        (same && built && condition != body).then_some(Loop { caller, id, init, condition, body, shapes })
    }

    /// Elements that the body hands on, or sets to the constant that they start as: outside they are the initial ones,
    /// inside constants where these are. Returns them, and whether nothing of the loop is left: one without effects and
    /// without changes is its initial state, and takes no time whether or not it would have ended.
    fn invariants(&self, module: &mut Module, effects: &Effects, stats: &mut Stats) -> Result<(BTreeSet<usize>, bool)> {
        let body = &module.computations[self.body];
        let caller = &module.computations[self.caller];
        let init = &caller.instructions[self.init];
        let unchanged = |k: usize, next: InstructionId| {
            let initially = || init.operands.get(k).filter(|_| init.opcode == Opcode::Tuple).copied();
            element_of_parameter(body, next) == Some(k)
                || initially().is_some_and(|first| same_constant(caller, first, body, next))
        };
        let handed_on: BTreeSet<usize> = (body.instructions[body.root].operands.iter().enumerate())
            .filter(|&(k, &next)| unchanged(k, next))
            .map(|(k, _)| k)
            .collect();
        if handed_on.is_empty() {
            return Ok((handed_on, false));
        }
        let pure = !effects.of_computation(self.condition) && !effects.of_computation(self.body);
        let gone = pure && handed_on.len() == self.shapes.len();
        let mut constants = BTreeMap::new();
        if init.opcode == Opcode::Tuple {
            for &k in &handed_on {
                let Some(&first) = init.operands.get(k) else { continue };
                let scalar = value::splat(caller, first).and_then(|s| s.literal());
                if let (Some(scalar), Some(shape)) = (scalar, self.shapes.get(k).and_then(Shape::as_array)) {
                    constants.insert(k, (scalar, value::frozen(caller, first), shape.clone()));
                }
            }
        }
        for computation in [self.condition, self.body] {
            rewrite(module, computation, |rw, i| {
                let element = element_of_parameter(rw.computation(), i);
                let Some((scalar, frozen, shape)) = element.and_then(|k| constants.get(&k)) else { return Ok(None) };
                stats.add("constant moved into a loop", 1);
                let scalar = rw.constant_of(Literal::Array(scalar.clone()), *frozen);
                Ok(Some(rw.broadcast_scalar(scalar, shape)))
            })?;
        }
        if gone {
            stats.add("loop that changes nothing", 1);
        }
        Ok((handed_on, gone))
    }

    /// Drops elements that neither the users outside, which need `live`, nor the loop itself needs. Returns the new numbers
    /// of those that stay, none where all do.
    fn dead(
        &self,
        rw: &mut Rewriter<'_>,
        mut live: BTreeSet<usize>,
        effects: &Effects,
        stats: &mut Stats,
    ) -> Result<BTreeMap<i64, i64>> {
        let module = &mut *rw.module;
        let all = BTreeMap::new();
        let condition = &module.computations[self.condition];
        let Some(condition_needs) = needs(condition, &[condition.root], effects, &mut live) else { return Ok(all) };
        let body = &module.computations[self.body];
        let next = body.instructions[body.root].operands.clone();
        let body_needs = loop {
            let before = live.len();
            let roots: Vec<InstructionId> = live.iter().filter_map(|&k| next.get(k).copied()).collect();
            let Some(needed) = needs(body, &roots, effects, &mut live) else { return Ok(all) };
            if live.len() == before {
                break needed;
            }
        };
        if live.len() == self.shapes.len() || body_needs.contains(body.root) {
            return Ok(all);
        }
        stats.add("dead loop element", self.shapes.len() - live.len());
        let places: BTreeMap<i64, i64> = live.iter().enumerate().map(|(new, &old)| (old as i64, new as i64)).collect();
        let shape = Shape::Tuple(live.iter().filter_map(|&k| self.shapes.get(k).cloned()).collect());
        for (id, needed) in [(self.condition, condition_needs), (self.body, body_needs)] {
            let computation = &mut module.computations[id];
            let root = computation.root;
            let kept = |i: &InstructionId| {
                *i == root || needed.contains(*i) || computation.instructions[*i].opcode == Opcode::Parameter
            };
            computation.order.retain(kept);
            for i in computation.order.clone() {
                if element_of_parameter(computation, i).is_some() {
                    renumber(&mut computation.instructions[i].attrs, &places);
                }
            }
            for i in computation.parameters() {
                computation.instructions[i].shape = shape.clone();
            }
        }
        let body = &mut module.computations[self.body];
        let root = &mut body.instructions[body.root];
        root.operands = live.iter().filter_map(|&k| next.get(k).copied()).collect();
        root.shape = shape.clone();
        let parts = live.iter().map(|&k| rw.element(self.init, k)).collect();
        let init = rw.tuple(parts);
        let instruction = rw.instruction_mut(self.id);
        (instruction.operands, instruction.shape) = (vec![init], shape);
        Ok(places)
    }
}

fn renumber(attrs: &mut crate::hlo::Attrs, places: &BTreeMap<i64, i64>) {
    if let Some(AttrValue::Int(index)) = attrs.get_mut(AttrKey::Index)
        && let Some(&new) = places.get(index)
    {
        *index = new;
    }
}

/// The instructions that `roots` and the effects of a computation need; the elements of its parameter among them join
/// `live`. `None` where something needs the parameter as a whole.
fn needs(
    computation: &Computation,
    roots: &[InstructionId],
    effects: &Effects,
    live: &mut BTreeSet<usize>,
) -> Option<EntitySet<InstructionId>> {
    let mut needed: EntitySet<InstructionId> = EntitySet::new();
    needed.extend(roots.iter().copied());
    for &i in computation.order.iter().rev() {
        let instruction = &computation.instructions[i];
        let kept = instruction.opcode == Opcode::OptimizationBarrier || effects.of_instruction(instruction);
        if !kept && !needed.contains(i) {
            continue;
        }
        needed.insert(i);
        if let Some(k) = element_of_parameter(computation, i) {
            live.insert(k);
        } else if instruction.operands.iter().any(|&o| computation.instructions[o].opcode == Opcode::Parameter) {
            return None;
        } else {
            needed.extend(instruction.operands.iter().copied());
        }
        needed.extend(instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).iter().copied());
    }
    let parameter_is_root = roots.iter().any(|&r| computation.instructions[r].opcode == Opcode::Parameter);
    (!parameter_is_root).then_some(needed)
}
