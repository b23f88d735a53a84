//! Common subexpressions: what is computed twice is computed once.
//!
//! Invariant: two instructions are equal where opcode, shape, operands (in any order for commutative operations) and
//! attributes agree; metadata and other notes to the reader do not count, literals compare bit for bit, and called
//! computations compare by their structure. Effects, random numbers, tokens, barriers, custom calls and instructions
//! with control predecessors are never merged. Algorithm: value numbering in post-order; each instruction becomes a
//! key of bytes. Computations are numbered callees first in the same way.

use super::Stats;
use super::rewrite::{Effects, rewrite};
use crate::error::Result;
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Category, Computation, ComputationId, Instruction, InstructionId, Module, Opcode,
    is_frozen,
};
use brolga_runtime::{Literal, Shape};
use cranelift_entity::{EntityRef, SecondaryMap};
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// Merges equal instructions of each computation.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    let effects = Effects::of(module);
    let mut numbering = Numbering::default();
    // What one instruction alone calls is compared with nothing.
    let calls = |i: &&Instruction| !i.attrs.called().is_empty();
    let computations = module.order.iter().map(|&id| &module.computations[id]);
    let instructions = computations.flat_map(|c| c.order.iter().map(|&i| &c.instructions[i]));
    let compared = instructions.filter(calls).nth(1).is_some();
    for id in module.order.clone() {
        let mut known: HashMap<Vec<u8>, InstructionId> = HashMap::new();
        rewrite(module, id, |rw, i| {
            let instruction = rw.instruction(i);
            if !may_merge(instruction, &effects) {
                return Ok(None);
            }
            let key = numbering.key(instruction, |operand| operand.index() as u64);
            let merged = match known.entry_ref(&key[..]) {
                EntryRef::Occupied(first) => {
                    stats.add("merged", 1);
                    Some(*first.get())
                }
                EntryRef::Vacant(slot) => {
                    slot.insert(i);
                    None
                }
            };
            numbering.scratch = key;
            Ok(merged)
        })?;
        if compared && id != module.entry {
            numbering.number(id, &module.computations[id]);
        }
    }
    Ok(stats)
}

fn may_merge(instruction: &Instruction, effects: &Effects) -> bool {
    let fixed = matches!(
        instruction.opcode,
        Opcode::Parameter
            | Opcode::OptimizationBarrier
            | Opcode::AddDependency
            | Opcode::AfterAll
            | Opcode::Domain
            | Opcode::CustomCall
    );
    let ordered = matches!(instruction.opcode.category(), Category::SideEffect | Category::Async | Category::Random);
    let controlled = instruction.attrs.instructions(AttrKey::ControlPredecessors).is_some_and(|l| !l.is_empty());
    // A constant whose value the text left out equals nothing.
    let elided = instruction.opcode == Opcode::Constant && instruction.literal().is_none();
    !fixed
        && !elided
        && !ordered
        && !controlled
        && !effects.of_instruction(instruction)
        && !holds_token(&instruction.shape)
}

fn holds_token(shape: &Shape) -> bool {
    match shape {
        Shape::Tuple(elements) => elements.iter().any(holds_token),
        Shape::Token | Shape::Opaque | Shape::Buffer(_) => true,
        Shape::Array(_) => false,
    }
}

/// Numbers for literals and computations: equal numbers mean equal things.
#[derive(Default)]
struct Numbering {
    state: RandomState,
    literals: HashMap<u64, Vec<(Arc<Literal>, u64)>>,
    literal_count: u64,
    computations: SecondaryMap<ComputationId, u64>,
    bodies: HashMap<Vec<u8>, u64>,
    /// The memory of the last key.
    scratch: Vec<u8>,
}

impl Numbering {
    /// Numbers a computation by its structure. Parameters that nobody uses count, names do not.
    fn number(&mut self, id: ComputationId, computation: &Computation) {
        let mut positions: SecondaryMap<InstructionId, u64> = SecondaryMap::new();
        let mut key = Vec::new();
        for (position, &i) in computation.order.iter().enumerate() {
            positions[i] = position as u64;
            let part = self.key(&computation.instructions[i], |operand| positions[operand]);
            number(&mut key, part.len() as u64);
            key.extend_from_slice(&part);
            self.scratch = part;
        }
        number(&mut key, positions[computation.root]);
        let fresh = self.bodies.len() as u64;
        self.computations[id] = *self.bodies.entry(key).or_insert(fresh);
    }

    fn key(&mut self, instruction: &Instruction, name: impl Fn(InstructionId) -> u64) -> Vec<u8> {
        // What folds in other ways is not the same.
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        key.extend([instruction.opcode as u8, u8::from(is_frozen(instruction))]);
        shape(&mut key, &instruction.shape);
        let mut operands: Vec<u64> = instruction.operands.iter().map(|&o| name(o)).collect();
        if instruction.opcode.is_commutative() {
            operands.sort_unstable();
        }
        numbers(&mut key, operands.into_iter());
        self.attrs(&mut key, &instruction.attrs, &name);
        key
    }

    fn attrs(&mut self, key: &mut Vec<u8>, attrs: &Attrs, name: &impl Fn(InstructionId) -> u64) {
        for (attr, value) in attrs.iter() {
            let note =
                matches!(attr, AttrKey::Metadata | AttrKey::Statistics | AttrKey::Origin | AttrKey::FrontendAttributes);
            if note {
                continue;
            }
            key.push(attr as u8);
            match value {
                AttrValue::Int(v) => number(key, *v as u64),
                AttrValue::Bool(v) => key.push(u8::from(*v)),
                AttrValue::Float(v) => number(key, u64::from(v.to_bits())),
                AttrValue::Ints(list) => numbers(key, list.iter().map(|&v| v as u64)),
                AttrValue::Str(text) | AttrValue::Raw(text) => string(key, text),
                AttrValue::Word(text) => string(key, text),
                AttrValue::Computation(id) => number(key, self.computations[*id]),
                AttrValue::Computations(ids) => numbers(key, ids.iter().map(|&id| self.computations[id])),
                AttrValue::Instructions(ids) => numbers(key, ids.iter().map(|&id| name(id))),
                AttrValue::Shape(s) => shape(key, s),
                AttrValue::Literal(literal) => number(key, self.literal(literal)),
                // The remaining kinds are small and rare.
                other => string(key, &format!("{other:?}")),
            }
        }
    }

    fn literal(&mut self, literal: &Arc<Literal>) -> u64 {
        let mut hasher = self.state.build_hasher();
        literal.arrays().into_iter().for_each(|a| hasher.write(a.bytes()));
        let bucket = self.literals.entry(hasher.finish()).or_default();
        if let Some((_, known)) = bucket.iter().find(|(other, _)| Arc::ptr_eq(other, literal) || other == literal) {
            return *known;
        }
        self.literal_count += 1;
        bucket.push((literal.clone(), self.literal_count));
        self.literal_count
    }
}

fn number(key: &mut Vec<u8>, value: u64) {
    key.extend(value.to_le_bytes());
}

fn numbers(key: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) {
    number(key, values.len() as u64);
    values.for_each(|v| number(key, v));
}

fn string(key: &mut Vec<u8>, text: &str) {
    number(key, text.len() as u64);
    key.extend(text.as_bytes());
}

fn shape(key: &mut Vec<u8>, s: &Shape) {
    match s {
        Shape::Array(a) | Shape::Buffer(a) => {
            key.push(if matches!(s, Shape::Array(_)) { 1 } else { 2 });
            key.push(a.ty.code());
            numbers(key, a.dims.iter().map(|&d| d as u64));
            key.extend(a.dynamic.iter().map(|&d| u8::from(d)));
            match &a.layout {
                Some(layout) => string(key, &layout.to_string()),
                None => key.push(0xff),
            }
        }
        Shape::Tuple(elements) => {
            key.push(3);
            number(key, elements.len() as u64);
            elements.iter().for_each(|e| shape(key, e));
        }
        Shape::Token => key.push(4),
        Shape::Opaque => key.push(5),
    }
}
