//! What rooms above the builder may see of a computation under construction, and how they add to it.
//!
//! A transformation of graphs, such as [`crate::gradient`], reads instructions that the builder holds and appends others.
//! Nothing here changes or removes what a caller has made, and what is appended passes the same shape rules.

use super::{At, Builder, Op};
use crate::error::{Error, Result};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, ModuleConfig, Opcode,
};
use crate::shape;
use brolga_runtime::Shape;
use cranelift_entity::EntityRef;
use cranelift_entity::packed_option::ReservedValue;

impl Op {
    /// Its number: operands have smaller numbers than their users.
    pub(crate) fn number(self) -> usize {
        self.id.index()
    }
}

impl Builder {
    /// A builder that holds the entry computation of `module`, to be added to, and the value of its root, which is `None`
    /// where the module is not whole.
    pub(crate) fn open(at: At, module: &Module) -> Result<(Builder, Option<Op>)> {
        shape::verify(module)?;
        let builder = Builder::new_at(at, &module.name);
        let entry = module.entry();
        let mut ops = std::collections::HashMap::new();
        for &id in &entry.order {
            let instruction = &entry.instructions[id];
            let operands: Vec<Op> = instruction.operands.iter().filter_map(|o| ops.get(o).copied()).collect();
            let mut attrs = builder.adopt(module, &instruction.attrs);
            // Predecessors stand before, and have new numbers.
            if let Some(AttrValue::Instructions(list)) = attrs.get_mut(AttrKey::ControlPredecessors) {
                *list = list.iter().filter_map(|i| ops.get(i).map(|o: &Op| o.id)).collect();
            }
            let op = builder.append(at, instruction.opcode, &operands, attrs, instruction.shape.clone());
            if let Some(new) = builder.state.borrow_mut().instructions.get_mut(op.id) {
                new.location = instruction.location;
            }
            builder.rename(op, &instruction.name);
            ops.insert(id, op);
        }
        match builder.first_error() {
            Some(e) => Err(e),
            None => Ok((builder, ops.get(&entry.root).copied())),
        }
    }

    /// Gives a value's instruction a name, or one like it where the name is taken.
    pub(crate) fn rename(&self, op: Op, name: &str) {
        let mut state = self.state.borrow_mut();
        if state.instructions.is_valid(op.id) {
            // The name that it had is free again.
            let old = std::mem::take(&mut state.instructions[op.id].name);
            state.names.remove(&old);
            let name = state.fresh_name(name);
            state.instructions[op.id].name = name;
        }
    }

    /// The instruction behind a value of this builder; `None` of one that failed.
    pub(crate) fn instruction(&self, op: Op) -> Option<Instruction> {
        let own = op.builder == self.tag;
        self.state.borrow().instructions.get(op.id).filter(|_| own).cloned()
    }

    /// The value of an instruction of this builder.
    pub(crate) fn value(&self, id: InstructionId) -> Op {
        Op { builder: self.tag, id }
    }

    /// The parameters, by number.
    pub(crate) fn parameters(&self) -> Vec<Op> {
        let state = self.state.borrow();
        let parameters = state.instructions.iter().filter(|(_, i)| i.opcode == Opcode::Parameter);
        let mut numbered: Vec<_> = parameters.map(|(id, i)| (i.parameter_number(), self.value(id))).collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered.into_iter().map(|(_, op)| op).collect()
    }

    /// The computation `id` as a module of its own.
    pub(crate) fn called(&self, id: ComputationId) -> Result<Module> {
        let state = self.state.borrow();
        called_in(&state.computations, id)
    }

    /// Attributes of an instruction of `module`, for one of this builder: the computations that they name are copied in.
    pub(crate) fn adopt(&self, module: &Module, attrs: &Attrs) -> Attrs {
        let mut attrs = attrs.clone();
        let copied = |id: ComputationId| match called_in(&module.computations, id) {
            Ok(callee) => self.embed(&callee),
            Err(_) => ComputationId::reserved_value(),
        };
        for (_, value) in attrs.iter_mut() {
            match value {
                AttrValue::Computation(id) => *id = copied(*id),
                AttrValue::Computations(list) => list.iter_mut().for_each(|id| *id = copied(*id)),
                _ => {}
            }
        }
        attrs
    }

    /// Adds an instruction of any kind.
    pub(crate) fn append(&self, at: At, opcode: Opcode, operands: &[Op], attrs: Attrs, shape: Shape) -> Op {
        self.finish(self.add_at(at, opcode, operands, attrs, Some(shape)))
    }

    /// A value that stands for an error, which is kept if it is the first.
    pub(crate) fn failed(&self, e: Error) -> Op {
        self.state.borrow_mut().error.get_or_insert(e);
        Op { builder: self.tag, id: InstructionId::reserved_value() }
    }
}

/// Computation `id` of `computations` as a module.
fn called_in(
    computations: &cranelift_entity::PrimaryMap<ComputationId, Computation>,
    id: ComputationId,
) -> Result<Module> {
    let Some(computation) = computations.get(id) else {
        return Err(Error::Internal(format!("the called {id} does not exist")));
    };
    let mut module = Module {
        name: computation.name.clone(),
        computations: computations.clone(),
        order: Vec::new(),
        entry: id,
        config: ModuleConfig::default(),
    };
    match module.sort_computations() {
        true => Ok(module),
        false => Err(Error::Internal(format!("'{}' calls itself", computation.name))),
    }
}
