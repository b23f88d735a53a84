//! Rewriting one computation: the machinery that every pass shares.
//!
//! Problem: a pass wants to replace instructions by others without minding post-order, unique names, source places or
//! the users of what it replaces. Invariant: [`rewrite`] walks the instructions in order, has mapped an instruction's
//! operands and control predecessors to their replacements before the rule sees it, and places whatever the rule emits
//! right before it; so operands stay before users, ordered effects keep their order, and each replacement carries the
//! source place and metadata of what it replaces. Algorithm: one forward sweep that builds the new order.

use super::value;
use crate::error::{Error, Result, Site};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, set_frozen,
};
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Shape};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Gives out names that a computation does not use yet.
#[derive(Default)]
pub(super) struct Names {
    used: HashSet<String>,
    next: HashMap<String, u32>,
}

impl Names {
    fn of(computation: &Computation) -> Names {
        let used = computation.instructions.values().map(|i| i.name.clone()).collect();
        Names { used, next: HashMap::new() }
    }

    pub(super) fn take(&mut self, wanted: &str) -> String {
        if self.used.insert(wanted.to_owned()) {
            return wanted.to_owned();
        }
        let stem = match wanted.rsplit_once('.') {
            Some((stem, digits)) if !stem.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => stem,
            _ => wanted,
        };
        let next = self.next.entry(stem.to_owned()).or_insert(1);
        loop {
            let name = format!("{stem}.{next}");
            *next += 1;
            if self.used.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// The state of a sweep over one computation; what a rule works with.
pub struct Rewriter<'m> {
    /// The module. The computation under work has an unfinished `order`; all others are whole.
    pub module: &'m mut Module,
    computation: ComputationId,
    order: Vec<InstructionId>,
    replaced: SecondaryMap<InstructionId, PackedOption<InstructionId>>,
    also_after: HashMap<InstructionId, Vec<InstructionId>>,
    names: Option<Names>,
    current: InstructionId,
}

/// Sweeps over `computation`, asking `rule` for a replacement of each instruction; `None` keeps it, and so does
/// a replacement of another shape. After an error the module is unusable.
pub fn rewrite(
    module: &mut Module,
    computation: ComputationId,
    mut rule: impl FnMut(&mut Rewriter<'_>, InstructionId) -> Result<Option<InstructionId>>,
) -> Result<()> {
    let old = std::mem::take(&mut module.computations[computation].order);
    let current = module.computations[computation].root;
    let mut rw = Rewriter {
        module,
        computation,
        order: Vec::with_capacity(old.len()),
        replaced: SecondaryMap::new(),
        also_after: HashMap::new(),
        names: None,
        current,
    };
    for id in old {
        rw.current = id;
        rw.map_uses(id);
        let mark = rw.order.len();
        match rule(&mut rw, id)? {
            None => rw.order.push(id),
            Some(new) if new == id => {
                return Err(Error::Internal(format!("'{}' replaced by itself", rw.instruction(id).name)));
            }
            // Dynamic marks and float precisions need not match between a value and its use; where a replacement
            // would change them for the users, all that the rule emitted is taken back.
            Some(new) if !rw.shape(new).same_ignoring_layout(rw.shape(id)) => {
                rw.order.truncate(mark);
                rw.also_after.remove(&id);
                rw.order.push(id);
            }
            Some(new) => {
                rw.replaced[id] = new.into();
            }
        }
    }
    let (order, replaced) = (rw.order, rw.replaced);
    let computation = &mut module.computations[computation];
    computation.order = order;
    if let Some(root) = replaced[computation.root].expand() {
        computation.root = root;
    }
    debug_assert!(computation.is_post_order(), "{} left post-order", computation.name);
    Ok(())
}

/// Adds instructions after all others; `rule` returns the new root, which may have another shape.
pub fn append(
    module: &mut Module,
    computation: ComputationId,
    rule: impl FnOnce(&mut Rewriter<'_>) -> Result<InstructionId>,
) -> Result<()> {
    let order = std::mem::take(&mut module.computations[computation].order);
    let current = module.computations[computation].root;
    let mut rw = Rewriter {
        module,
        computation,
        order,
        replaced: SecondaryMap::new(),
        also_after: HashMap::new(),
        names: None,
        current,
    };
    let root = rule(&mut rw)?;
    let order = rw.order;
    let computation = &mut module.computations[computation];
    (computation.order, computation.root) = (order, root);
    Ok(())
}

impl Rewriter<'_> {
    /// The computation under work.
    pub fn computation(&self) -> &Computation {
        &self.module.computations[self.computation]
    }

    /// Its id.
    pub fn computation_id(&self) -> ComputationId {
        self.computation
    }

    /// An instruction of the computation.
    pub fn instruction(&self, id: InstructionId) -> &Instruction {
        &self.module.computations[self.computation].instructions[id]
    }

    /// An instruction of the computation, to be changed in place.
    pub fn instruction_mut(&mut self, id: InstructionId) -> &mut Instruction {
        &mut self.module.computations[self.computation].instructions[id]
    }

    /// The operation of an instruction.
    pub fn opcode(&self, id: InstructionId) -> Opcode {
        self.instruction(id).opcode
    }

    /// The shape of an instruction.
    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.instruction(id).shape
    }

    /// The shape of an instruction that yields an array.
    pub fn array(&self, id: InstructionId) -> Option<&ArrayShape> {
        self.instruction(id).shape.as_array()
    }

    /// The dimensions of an instruction that yields an array, nothing otherwise.
    pub fn dims(&self, id: InstructionId) -> &[i64] {
        self.array(id).map_or(&[], |a| &a.dims)
    }

    /// One operand of an instruction.
    pub fn operand(&self, id: InstructionId, index: usize) -> Result<InstructionId> {
        let instruction = self.instruction(id);
        instruction.operands.get(index).copied().ok_or_else(|| {
            Error::Internal(format!("{} '{}' has no operand {index}", instruction.opcode, instruction.name))
        })
    }

    /// The operand, where the instruction is an `opcode`.
    pub fn operand_of(&self, id: InstructionId, opcode: Opcode) -> Option<InstructionId> {
        let instruction = self.instruction(id);
        if instruction.opcode == opcode { instruction.operands.first().copied() } else { None }
    }

    /// Where an instruction stands, for errors.
    pub fn site(&self, id: InstructionId) -> Site {
        site(self.instruction(id))
    }

    /// Emits an instruction before the one under work, named after it and with its source place and metadata.
    pub fn emit(&mut self, opcode: Opcode, shape: Shape, operands: Vec<InstructionId>, attrs: Attrs) -> InstructionId {
        let current = self.instruction(self.current);
        let (name, location) = (current.name.clone(), current.location);
        let mut attrs = attrs;
        if let Some(metadata) = current.attrs.get(AttrKey::Metadata) {
            let metadata = metadata.clone();
            attrs.set(AttrKey::Metadata, metadata);
        }
        self.push(Instruction { name, shape, opcode, operands, attrs, location })
    }

    /// Emits an instruction as given before the one under work; only its name may change to be unique.
    pub fn push(&mut self, mut instruction: Instruction) -> InstructionId {
        let computation = &mut self.module.computations[self.computation];
        let names = self.names.get_or_insert_with(|| Names::of(computation));
        instruction.name = names.take(&instruction.name);
        let id = computation.instructions.push(instruction);
        self.order.push(id);
        id
    }

    /// Emits a constant. It counts as frozen where the instruction under work reads what is.
    pub fn constant(&mut self, literal: Literal) -> InstructionId {
        let frozen = value::reads_frozen(self.computation(), self.current);
        self.constant_of(literal, frozen)
    }

    /// Emits a constant, and says whether it comes from a frozen parameter.
    pub fn constant_of(&mut self, literal: Literal, frozen: bool) -> InstructionId {
        let shape = literal.shape();
        let mut attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(Arc::new(literal)));
        if frozen {
            set_frozen(&mut attrs);
        }
        self.emit(Opcode::Constant, shape, Vec::new(), attrs)
    }

    /// Emits a scalar constant and, where `shape` is no scalar, its broadcast.
    pub fn splat(&mut self, scalar: ArrayLiteral, shape: &ArrayShape) -> InstructionId {
        let value = self.constant(Literal::Array(scalar));
        self.broadcast_scalar(value, shape)
    }

    /// Emits the broadcast of a rank-0 value, unless `shape` is of rank 0 too.
    pub fn broadcast_scalar(&mut self, scalar: InstructionId, shape: &ArrayShape) -> InstructionId {
        if shape.rank() == 0 {
            return scalar;
        }
        self.broadcast(scalar, shape, Vec::new())
    }

    /// Emits a broadcast; operand dimension `i` becomes dimension `dimensions[i]`.
    pub fn broadcast(&mut self, operand: InstructionId, shape: &ArrayShape, dimensions: Vec<i64>) -> InstructionId {
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(dimensions));
        let shape = Shape::Array(ArrayShape { layout: None, ..shape.clone() });
        self.emit(Opcode::Broadcast, shape, vec![operand], attrs)
    }

    /// Emits a reshape, unless `operand` has these dimensions already.
    pub fn reshape(&mut self, operand: InstructionId, dims: &[i64]) -> InstructionId {
        match self.array(operand) {
            Some(array) if array.dims != dims => {
                let shape = Shape::array(array.ty, dims);
                self.emit(Opcode::Reshape, shape, vec![operand], Attrs::new())
            }
            _ => operand,
        }
    }

    /// Emits a transpose: dimension `i` of the result is dimension `permutation[i]` of the operand.
    pub fn transpose(&mut self, operand: InstructionId, permutation: &[usize]) -> InstructionId {
        let Some(array) = self.array(operand) else { return operand };
        let dims: Vec<i64> = permutation.iter().filter_map(|&p| array.dims.get(p).copied()).collect();
        let dynamic = permutation.iter().filter_map(|&p| array.dynamic.get(p).copied()).collect();
        let shape = Shape::Array(ArrayShape { ty: array.ty, dims, dynamic, layout: None });
        let permutation = permutation.iter().map(|&p| p as i64).collect();
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(permutation));
        self.emit(Opcode::Transpose, shape, vec![operand], attrs)
    }

    /// Emits an elementwise operation whose result has the shape of its first operand.
    pub fn elementwise(&mut self, opcode: Opcode, operands: Vec<InstructionId>) -> InstructionId {
        let shape = operands.first().map_or(Shape::Token, |&o| self.shape(o).without_layout());
        self.emit(opcode, shape, operands, Attrs::new())
    }

    /// Emits a conversion of element type, unless there is nothing to convert.
    pub fn convert(&mut self, operand: InstructionId, ty: brolga_runtime::ElementType) -> InstructionId {
        match self.array(operand) {
            Some(array) if array.ty != ty => {
                let shape = Shape::Array(array.with_type(ty));
                self.emit(Opcode::Convert, shape, vec![operand], Attrs::new())
            }
            _ => operand,
        }
    }

    /// Emits a tuple.
    pub fn tuple(&mut self, elements: Vec<InstructionId>) -> InstructionId {
        let shape = Shape::Tuple(elements.iter().map(|&e| self.shape(e).without_layout()).collect());
        self.emit(Opcode::Tuple, shape, elements, Attrs::new())
    }

    /// Emits a `get-tuple-element`; the operand itself where it has no such element.
    pub fn element(&mut self, tuple: InstructionId, index: usize) -> InstructionId {
        let Some(shape) = self.shape(tuple).as_tuple().and_then(|t| t.get(index)).cloned() else { return tuple };
        let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(index as i64));
        self.emit(Opcode::GetTupleElement, shape, vec![tuple], attrs)
    }

    /// Emits a call.
    pub fn call(&mut self, callee: ComputationId, operands: Vec<InstructionId>) -> InstructionId {
        let shape = self.module.computations[callee].result_shape().without_layout();
        let attrs = Attrs::new().with(AttrKey::ToApply, AttrValue::Computation(callee));
        self.emit(Opcode::Call, shape, operands, attrs)
    }

    /// Whoever names `old` as a control predecessor shall wait for `new` as well as for its replacement.
    pub fn control_also_after(&mut self, old: InstructionId, new: Vec<InstructionId>) {
        self.also_after.entry(old).or_default().extend(new);
    }

    /// Adds control predecessors to an instruction.
    pub fn add_control_predecessors(&mut self, id: InstructionId, more: &[InstructionId]) {
        if more.is_empty() {
            return;
        }
        let attrs = &mut self.instruction_mut(id).attrs;
        let mut list = attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]).to_vec();
        list.extend(more.iter().copied().filter(|m| *m != id));
        list.sort_by_key(|i| i.index());
        list.dedup();
        attrs.set(AttrKey::ControlPredecessors, AttrValue::Instructions(list));
    }

    fn map_uses(&mut self, id: InstructionId) {
        let replaced = &self.replaced;
        let instruction = &mut self.module.computations[self.computation].instructions[id];
        for operand in &mut instruction.operands {
            if let Some(new) = replaced[*operand].expand() {
                *operand = new;
            }
        }
        if let Some(AttrValue::Instructions(list)) = instruction.attrs.get_mut(AttrKey::ControlPredecessors) {
            let mut mapped = Vec::with_capacity(list.len());
            for &old in list.iter() {
                mapped.push(replaced[old].expand().unwrap_or(old));
                mapped.extend(self.also_after.get(&old).into_iter().flatten());
            }
            mapped.sort_by_key(|i| i.index());
            mapped.dedup();
            *list = mapped;
        }
    }
}

/// Where an instruction stands, for errors.
pub fn site(instruction: &Instruction) -> Site {
    Site { instruction: Some(instruction.name.clone()), location: instruction.location, length: 0 }
}

/// Which computations do something that the outside world sees, calls they make included.
pub struct Effects(SecondaryMap<ComputationId, bool>);

impl Effects {
    /// Looks at every computation of `module`, whose order must have callees first.
    pub fn of(module: &Module) -> Effects {
        let mut effects = Effects(SecondaryMap::new());
        for &id in &module.order {
            let computation = &module.computations[id];
            effects.0[id] = computation.order.iter().any(|&i| effects.of_instruction(&computation.instructions[i]));
        }
        effects
    }

    /// Whether a computation has an effect.
    pub fn of_computation(&self, id: ComputationId) -> bool {
        self.0[id]
    }

    /// Whether an instruction has an effect of its own or through a computation it calls.
    pub fn of_instruction(&self, instruction: &Instruction) -> bool {
        instruction.has_side_effect() || instruction.attrs.called().iter().any(|&c| self.0[c])
    }
}

/// A computation name that the module does not use yet.
pub fn fresh_computation_name(module: &Module, base: &str) -> String {
    let used: HashSet<&str> = module.computations.values().map(|c| c.name.as_str()).collect();
    if !used.contains(base) {
        return base.to_owned();
    }
    (1..).map(|n| format!("{base}.{n}")).find(|n| !used.contains(n.as_str())).unwrap_or_default()
}

/// Puts callees before callers and drops computations out of reach; an error where calls are recursive.
pub fn sort_computations(module: &mut Module) -> Result<()> {
    if module.sort_computations() {
        return Ok(());
    }
    let entry = module.entry();
    Err(Error::Invalid {
        site: Site { instruction: None, location: entry.location, length: 0 },
        constraint: "module.acyclic-calls",
        message: format!("computations that '{}' reaches call each other recursively", entry.name),
    })
}
