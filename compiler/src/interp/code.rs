//! Scalar computations, flattened.
//!
//! Problem: a reducer runs once an element; walking a computation each time would cost microseconds. Invariant: the
//! flat list computes what the computation does. Algorithm: each instruction of the computation, with called ones
//! inlined, becomes one scalar operation on numbered slots; tuples exist only while flattening. A computation that is
//! not purely scalar is kept as a call.

use super::elementwise::Kernel;
use crate::hlo::{AttrKey, ComputationId, Module, Opcode};
use brolga_runtime::{Scalar, Shape};

/// How deep calls are inlined, and how many operations a flat list may hold.
const MAX_INLINE_DEPTH: usize = 16;
const MAX_OPERATIONS: usize = 4096;

pub(super) struct Operation {
    pub(super) kernel: Kernel,
    pub(super) operands: [u32; 3],
    pub(super) arity: usize,
}

/// A computation in a form to be evaluated on scalars.
pub(super) enum Code {
    /// The leaves of the parameters fill the first slots; each constant and each operation has one.
    Flat { parameters: usize, constants: Vec<Scalar>, operations: Vec<(Operation, u32)>, roots: Vec<u32> },
    /// Too complicated: run as a call.
    Call,
}

/// What an instruction stands for while flattening.
#[derive(Clone)]
enum Symbol {
    Slot(u32),
    Tuple(Vec<Symbol>),
}

struct Flattener<'a> {
    module: &'a Module,
    constants: Vec<(u32, Scalar)>,
    operations: Vec<(Operation, u32)>,
    slots: u32,
}

impl Flattener<'_> {
    fn slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    /// Slots for the leaves of a parameter; `None` where one is no scalar.
    fn parameter(&mut self, shape: &Shape) -> Option<Symbol> {
        match shape {
            Shape::Array(a) if a.rank() == 0 && self.slots < MAX_OPERATIONS as u32 => Some(Symbol::Slot(self.slot())),
            Shape::Tuple(elements) => {
                elements.iter().map(|e| self.parameter(e)).collect::<Option<_>>().map(Symbol::Tuple)
            }
            _ => None,
        }
    }

    /// `None` where the computation is not scalar throughout.
    fn flatten(&mut self, id: ComputationId, args: &[Symbol], depth: usize) -> Option<Symbol> {
        let computation = &self.module.computations[id];
        if depth > MAX_INLINE_DEPTH {
            return None;
        }
        let mut symbols: Vec<Option<Symbol>> = vec![None; computation.instructions.len()];
        for &i in &computation.order {
            let inst = &computation.instructions[i];
            let mut operands = Vec::with_capacity(inst.operands.len());
            for o in &inst.operands {
                operands.push(symbols.get(o.as_u32() as usize)?.clone()?);
            }
            let scalar = inst.shape.as_array().is_some_and(|a| a.rank() == 0);
            let symbol = match inst.opcode {
                Opcode::Parameter => args.get(inst.parameter_number()?)?.clone(),
                Opcode::Tuple => Symbol::Tuple(operands),
                Opcode::GetTupleElement => match operands.first()? {
                    Symbol::Tuple(elements) => elements.get(inst.element_number()?)?.clone(),
                    Symbol::Slot(_) => return None,
                },
                Opcode::Call => self.flatten(inst.attrs.computation(AttrKey::ToApply)?, &operands, depth + 1)?,
                Opcode::Fusion => self.flatten(inst.attrs.computation(AttrKey::Calls)?, &operands, depth + 1)?,
                Opcode::Map if scalar => {
                    self.flatten(inst.attrs.computation(AttrKey::ToApply)?, &operands, depth + 1)?
                }
                Opcode::Constant if scalar => {
                    let value = inst.literal()?.as_array()?.get(0);
                    let slot = self.slot();
                    self.constants.push((slot, value));
                    Symbol::Slot(slot)
                }
                // Nothing moves in a scalar.
                Opcode::Broadcast | Opcode::Reshape | Opcode::Copy | Opcode::Transpose | Opcode::Reverse if scalar => {
                    operands.into_iter().next()?
                }
                op if op.is_elementwise() && scalar => {
                    let mut slots = [0u32; 3];
                    let mut types = Vec::with_capacity(3);
                    for (k, o) in operands.iter().enumerate() {
                        let Symbol::Slot(slot) = o else { return None };
                        *slots.get_mut(k)? = *slot;
                        types.push(computation.instructions[inst.operands[k]].shape.as_array()?.ty);
                    }
                    if self.operations.len() >= MAX_OPERATIONS {
                        return None;
                    }
                    let kernel = Kernel::new(inst, &types)?;
                    let slot = self.slot();
                    self.operations.push((Operation { kernel, operands: slots, arity: types.len() }, slot));
                    Symbol::Slot(slot)
                }
                _ => return None,
            };
            symbols[i.as_u32() as usize] = Some(symbol);
        }
        symbols.get(computation.root.as_u32() as usize)?.clone()
    }
}

impl Symbol {
    fn leaves(&self, out: &mut Vec<u32>) {
        match self {
            Symbol::Slot(slot) => out.push(*slot),
            Symbol::Tuple(elements) => elements.iter().for_each(|e| e.leaves(out)),
        }
    }
}

impl Code {
    pub(super) fn new(module: &Module, id: ComputationId) -> Code {
        Code::flat(module, id).unwrap_or(Code::Call)
    }

    fn flat(module: &Module, id: ComputationId) -> Option<Code> {
        let computation = &module.computations[id];
        let mut flattener = Flattener { module, constants: Vec::new(), operations: Vec::new(), slots: 0 };
        let shapes = computation.parameters().into_iter().map(|p| &computation.instructions[p].shape);
        let args = shapes.map(|shape| flattener.parameter(shape)).collect::<Option<Vec<_>>>()?;
        let parameters = flattener.slots as usize;
        let root = flattener.flatten(id, &args, 0)?;
        let mut roots = Vec::new();
        root.leaves(&mut roots);
        let slots = flattener.slots as usize;
        let mut constants = vec![Scalar::Pred(false); slots - parameters];
        for (slot, value) in flattener.constants {
            *constants.get_mut(slot as usize - parameters)? = value;
        }
        Some(Code::Flat { parameters, constants, operations: flattener.operations, roots })
    }
}
