//! The steps: each makes a candidate from a module. Candidates may be invalid; the search checks them.
//!
//! Instructions are named, not numbered: candidates are read back from text, which gives other numbers.

use super::replaceable;
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, ModuleConfig, Opcode,
};
use crate::passes;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Shape};
use hashbrown::HashMap;
use std::sync::Arc;

/// A computation's name and an instruction's name.
pub type Place = (String, String);

/// Zeros of no more elements than this are written out.
const SMALL: usize = 4;

fn places(module: &Module, id: ComputationId, fits: impl Fn(&Instruction) -> bool) -> Vec<Place> {
    let computation = &module.computations[id];
    let instructions = computation.order.iter().map(|&i| &computation.instructions[i]);
    instructions.filter(|i| fits(i)).map(|i| (computation.name.clone(), i.name.clone())).collect()
}

/// Instructions of the entry that may be replaced.
pub fn entry_places(module: &Module) -> Vec<Place> {
    places(module, module.entry, replaceable)
}

/// Instructions of all computations that may be replaced, the entry's first; parameters of the entry too.
pub fn all_places(module: &Module) -> Vec<Place> {
    let mut out = places(module, module.entry, |i| replaceable(i) || i.opcode == Opcode::Parameter);
    for &id in module.order.iter().filter(|&&id| id != module.entry) {
        out.extend(places(module, id, replaceable));
    }
    out
}

/// Parameters of the entry.
pub fn entry_parameters(module: &Module) -> Vec<Place> {
    places(module, module.entry, |i| i.opcode == Opcode::Parameter)
}

/// The ids that names stand for.
fn resolve(module: &Module, places: &[Place]) -> Vec<(ComputationId, InstructionId)> {
    let mut wanted: HashMap<(&str, &str), ()> = HashMap::new();
    wanted.extend(places.iter().map(|(c, i)| ((c.as_str(), i.as_str()), ())));
    let mut out = Vec::with_capacity(places.len());
    for &c in &module.order {
        let computation = &module.computations[c];
        for &i in &computation.order {
            if wanted.contains_key(&(computation.name.as_str(), computation.instructions[i].name.as_str())) {
                out.push((c, i));
            }
        }
    }
    out
}

/// Parameters in place of instructions of the entry; they keep the names.
pub fn to_parameters(module: &Module, places: &[Place]) -> Option<Module> {
    let mut out = module.clone();
    let mut next = module.entry().parameters().len() as i64;
    for (c, i) in resolve(module, places) {
        let instruction = &mut out.computations[c].instructions[i];
        // A value that holds a token cannot be handed in.
        if instruction.shape.leaves().iter().any(|s| s.as_array().is_none()) {
            continue;
        }
        instruction.opcode = Opcode::Parameter;
        instruction.operands.clear();
        instruction.attrs = Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(next));
        next += 1;
    }
    Some(out)
}

/// Zeros in place of instructions. Parameters keep their number and lose their users.
pub fn to_zeros(module: &Module, places: &[Place]) -> Option<Module> {
    let mut out = module.clone();
    for (c, i) in resolve(module, places) {
        let computation = &mut out.computations[c];
        if computation.instructions[i].shape.leaves().iter().any(|s| matches!(s, Shape::Opaque | Shape::Buffer(_))) {
            continue;
        }
        let mut zeros = Zeros { computation, before: Vec::new() };
        if zeros.computation.instructions[i].opcode == Opcode::Parameter {
            let shape = zeros.computation.instructions[i].shape.clone();
            let zero = zeros.push(&shape);
            let before = zeros.before;
            insert_before(computation, i, before, true);
            substitute(computation, &HashMap::from([(i, zero)]), true);
        } else {
            zeros.become_zero(i);
            let before = zeros.before;
            insert_before(computation, i, before, false);
        }
    }
    Some(out)
}

struct Zeros<'a> {
    computation: &'a mut Computation,
    before: Vec<InstructionId>,
}

impl Zeros<'_> {
    fn become_zero(&mut self, id: InstructionId) {
        let shape = self.computation.instructions[id].shape.clone();
        let (opcode, operands, attrs) = self.parts(&shape);
        let instruction = &mut self.computation.instructions[id];
        (instruction.opcode, instruction.operands, instruction.attrs) = (opcode, operands, attrs);
    }

    fn push(&mut self, shape: &Shape) -> InstructionId {
        let (opcode, operands, attrs) = self.parts(shape);
        let taken = |name: &str| self.computation.instructions.values().any(|i| i.name == name);
        let name = (0..).map(|n| format!("zero.{n}")).find(|n| !taken(n)).unwrap_or_default();
        let shape = shape.without_layout();
        let id = self.computation.instructions.push(Instruction {
            name,
            shape,
            opcode,
            operands,
            attrs,
            location: Default::default(),
        });
        self.before.push(id);
        id
    }

    fn parts(&mut self, shape: &Shape) -> (Opcode, Vec<InstructionId>, Attrs) {
        let constant = |shape: &ArrayShape| {
            let literal = Literal::Array(ArrayLiteral::zeros(shape));
            Attrs::new().with(AttrKey::Literal, AttrValue::Literal(Arc::new(literal)))
        };
        match shape {
            Shape::Array(a) if a.elements() <= SMALL => (Opcode::Constant, Vec::new(), constant(a)),
            Shape::Array(a) => {
                let scalar = self.push(&Shape::scalar(a.ty));
                let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(Vec::new()));
                (Opcode::Broadcast, vec![scalar], attrs)
            }
            Shape::Tuple(elements) => {
                let operands = elements.iter().map(|e| self.push(e)).collect();
                (Opcode::Tuple, operands, Attrs::new())
            }
            _ => (Opcode::AfterAll, Vec::new(), Attrs::new()),
        }
    }
}

fn insert_before(computation: &mut Computation, at: InstructionId, new: Vec<InstructionId>, after: bool) {
    let position = computation.order.iter().position(|&i| i == at).unwrap_or(0);
    // What replaces a parameter comes after it; what an instruction is made of now, before it.
    let position = if after { position + 1 } else { position };
    computation.order.splice(position..position, new);
}

/// Other values in place of some; chains are followed. What was replaced leaves the order, unless it is to stay.
fn substitute(computation: &mut Computation, map: &HashMap<InstructionId, InstructionId>, stay: bool) {
    let follow = |mut id: InstructionId| {
        for _ in 0..map.len() {
            match map.get(&id) {
                Some(&next) => id = next,
                None => break,
            }
        }
        id
    };
    if !stay {
        computation.order.retain(|i| !map.contains_key(i));
    }
    for &id in &computation.order {
        let instruction = &mut computation.instructions[id];
        instruction.operands.iter_mut().for_each(|o| *o = follow(*o));
        if let Some(AttrValue::Instructions(list)) = instruction.attrs.get_mut(AttrKey::ControlPredecessors) {
            list.retain(|p| !map.contains_key(p));
        }
    }
    computation.root = follow(computation.root);
}

/// One of their operands, the first or the last of the same shape, in place of instructions.
pub fn to_operand(module: &Module, places: &[Place], last: bool) -> Option<Module> {
    let mut out = module.clone();
    let mut maps: HashMap<ComputationId, HashMap<InstructionId, InstructionId>> = HashMap::new();
    for (c, i) in resolve(module, places) {
        let computation = &module.computations[c];
        let instruction = &computation.instructions[i];
        let same = |o: &&InstructionId| computation.instructions[**o].shape.same_ignoring_layout(&instruction.shape);
        let mut operands = instruction.operands.iter();
        let found = if last { operands.rfind(same) } else { operands.find(same) };
        if let Some(&operand) = found {
            maps.entry(c).or_default().insert(i, operand);
        }
    }
    if maps.is_empty() {
        return None;
    }
    maps.iter().for_each(|(&c, map)| substitute(&mut out.computations[c], map, false));
    Some(out)
}

/// The first parameter of the same shape in place of later ones, which go.
pub fn merge_parameters(module: &Module, places: &[Place]) -> Option<Module> {
    let entry = module.entry();
    let parameters = entry.parameters();
    let mut map = HashMap::new();
    for (_, i) in resolve(module, places) {
        let shape = &entry.instructions[i].shape;
        let first = parameters.iter().find(|&&p| entry.instructions[p].shape.same_ignoring_layout(shape));
        if let Some(&first) = first.filter(|&&p| p != i) {
            map.insert(i, first);
        }
    }
    if map.is_empty() {
        return None;
    }
    let mut out = module.clone();
    let entry = &mut out.computations[module.entry];
    // The parameter that stays must come before all that use it now.
    entry.order.sort_by_key(|&i| entry.instructions[i].opcode != Opcode::Parameter);
    substitute(entry, &map, false);
    renumber(entry);
    Some(out)
}

/// Without parameters of the entry that nobody uses.
pub fn drop_parameters(module: &Module, places: &[Place]) -> Option<Module> {
    let mut out = module.clone();
    let users = module.entry().users();
    let unused = |i: &InstructionId| users[*i].is_empty() && module.entry().root != *i;
    let drop: Vec<InstructionId> = resolve(module, places).into_iter().map(|(_, i)| i).filter(unused).collect();
    if drop.is_empty() {
        return None;
    }
    let entry = &mut out.computations[module.entry];
    entry.order.retain(|i| !drop.contains(i));
    renumber(entry);
    Some(out)
}

fn renumber(computation: &mut Computation) {
    for (number, id) in computation.parameters().into_iter().enumerate() {
        computation.instructions[id].attrs.set(AttrKey::ParameterNumber, AttrValue::Int(number as i64));
    }
}

/// Brings what the header says of parameters and result in line with the entry.
pub fn settle_header(module: &mut Module) {
    let entry = module.entry();
    let parameters: Vec<Shape> = entry.parameters().iter().map(|&p| entry.instructions[p].shape.clone()).collect();
    let result = entry.result_shape().clone();
    let same = |a: &[Shape], b: &[Shape]| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same_ignoring_layout(y));
    if let Some((stated, stated_result)) = &module.config.entry_layout
        && !(same(stated, &parameters) && stated_result.same_ignoring_layout(&result))
    {
        module.config.entry_layout = Some((parameters, result));
        module.config.aliases.clear();
    }
}

/// Without anything in the header, and without what follows computations' braces.
pub fn without_header(module: &Module) -> Module {
    let mut out = Module { config: ModuleConfig::default(), ..module.clone() };
    out.computations.values_mut().for_each(|c| c.trailing.clear());
    out
}

/// Without layouts.
pub fn without_layouts(module: &Module) -> Module {
    let mut out = module.clone();
    if let Some((parameters, result)) = &mut out.config.entry_layout {
        parameters.iter_mut().chain([result]).for_each(|s| *s = s.without_layout());
    }
    for computation in out.computations.values_mut() {
        for instruction in computation.instructions.values_mut() {
            instruction.shape = instruction.shape.without_layout();
        }
    }
    out
}

/// Without the attributes that `drop` names.
pub fn without_attributes(module: &Module, drop: impl Fn(&Instruction, AttrKey) -> bool) -> Module {
    let mut out = module.clone();
    for computation in out.computations.values_mut() {
        for instruction in computation.instructions.values_mut() {
            let keys: Vec<AttrKey> =
                instruction.attrs.iter().map(|(k, _)| k).filter(|&k| drop(instruction, k)).collect();
            keys.into_iter().for_each(|key| {
                instruction.attrs.remove(key);
            });
        }
    }
    out
}

/// The root becomes a tuple of `values`, or the one value itself.
fn set_results(module: &mut Module, values: Vec<InstructionId>) -> Option<()> {
    let computation = &mut module.computations[module.entry];
    computation.root = match values.as_slice() {
        [] => return None,
        [one] => *one,
        _ => {
            let shape = |&i: &InstructionId| computation.instructions[i].shape.without_layout();
            let shape = Shape::Tuple(values.iter().map(shape).collect());
            let name = computation.fresh_name("results");
            let root = computation.instructions.push(Instruction {
                name,
                shape,
                opcode: Opcode::Tuple,
                operands: values,
                attrs: Attrs::new(),
                location: Default::default(),
            });
            computation.order.push(root);
            root
        }
    };
    Some(())
}

/// The first instructions of the entry and all its parameters; the result is what nobody uses.
pub fn beginning(module: &Module, length: usize) -> Option<Module> {
    let mut out = module.clone();
    let entry = &mut out.computations[module.entry];
    let old = std::mem::take(&mut entry.order);
    let parameter = |i: &InstructionId| module.entry().instructions[*i].opcode == Opcode::Parameter;
    entry.order =
        old.iter().copied().enumerate().filter(|(k, i)| *k < length || parameter(i)).map(|(_, i)| i).collect();
    let users = entry.users();
    let result = |i: &InstructionId| {
        let instruction = &entry.instructions[*i];
        users[*i].is_empty() && instruction.opcode != Opcode::Parameter && instruction.shape.as_array().is_some()
    };
    let values = entry.order.iter().copied().filter(result).collect();
    set_results(&mut out, values)?;
    Some(out)
}

/// How many operands a root that makes a tuple has; 0 for other roots.
pub fn result_count(module: &Module) -> usize {
    let root = module.instruction(module.entry, module.entry().root);
    if root.opcode == Opcode::Tuple { root.operands.len() } else { 0 }
}

/// Without the results from `start` to before `end`.
pub fn without_results(module: &Module, start: usize, end: usize) -> Option<Module> {
    let mut out = module.clone();
    let root = module.instruction(module.entry, module.entry().root);
    let keep = root.operands.iter().enumerate().filter(|(k, _)| !(start..end).contains(k)).map(|(_, &o)| o).collect();
    set_results(&mut out, keep)?;
    Some(out)
}

/// How many other roots are in reach: elements of a tuple that the root yields, and its operands.
pub fn root_choices(module: &Module) -> usize {
    let root = module.instruction(module.entry, module.entry().root);
    let elements = if root.opcode == Opcode::Tuple { 0 } else { root.shape.as_tuple().map_or(0, <[_]>::len) };
    elements + root.operands.len()
}

/// One of them as root.
pub fn root_choice(module: &Module, position: usize) -> Option<Module> {
    let mut out = module.clone();
    let computation = &mut out.computations[module.entry];
    let root = computation.root;
    let instruction = &computation.instructions[root];
    let elements: &[Shape] =
        if instruction.opcode == Opcode::Tuple { &[] } else { instruction.shape.as_tuple().unwrap_or(&[]) };
    match elements.get(position) {
        Some(shape) => {
            let shape = shape.clone();
            let id = computation.instructions.push(Instruction {
                name: computation.fresh_name("element"),
                shape,
                opcode: Opcode::GetTupleElement,
                operands: vec![root],
                attrs: Attrs::new().with(AttrKey::Index, AttrValue::Int(position as i64)),
                location: Default::default(),
            });
            computation.order.push(id);
            computation.root = id;
        }
        None => computation.root = *instruction.operands.get(position - elements.len())?,
    }
    Some(out)
}

/// In how many ways what an instruction calls may stand in its place.
pub fn ways_into(module: &Module, place: &Place) -> usize {
    let Some(&(c, i)) = resolve(module, std::slice::from_ref(place)).first() else { return 0 };
    let instruction = module.instruction(c, i);
    match instruction.opcode {
        Opcode::While => 1,
        Opcode::Conditional => instruction.operands.len().saturating_sub(1),
        _ => 0,
    }
}

/// A loop's body applied once, or a branch, in place of the instruction.
pub fn step_into(module: &Module, place: &Place, way: usize) -> Option<Module> {
    let (c, i) = *resolve(module, std::slice::from_ref(place)).first()?;
    let mut out = module.clone();
    let instruction = &mut out.computations[c].instructions[i];
    let (callee, operand) = match instruction.opcode {
        Opcode::While => (instruction.attrs.computation(AttrKey::Body)?, *instruction.operands.first()?),
        _ => (*instruction.attrs.called().get(way)?, *instruction.operands.get(way + 1)?),
    };
    instruction.opcode = Opcode::Call;
    instruction.operands = vec![operand];
    instruction.attrs = Attrs::new().with(AttrKey::ToApply, AttrValue::Computation(callee));
    passes::inline::run(&mut out).ok()?;
    Some(out)
}
