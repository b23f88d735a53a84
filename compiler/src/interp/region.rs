//! Scalar computations, flattened: what reducers, comparators and selectors run through.
//!
//! Problem: a reducer runs once an element; walking a computation each time would cost microseconds. Invariant: the
//! flat list computes what the computation does. Algorithm: each instruction of the computation, with called ones
//! inlined, becomes one scalar operation on numbered slots; tuples exist only while flattening. A computation that is
//! not purely scalar is kept as a call.

use super::context::Context;
use super::elementwise::Kernel;
use crate::hlo::{AttrKey, ComputationId, Module, Opcode};
use crate::{Error, Result};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Scalar, Shape};
use std::cell::RefCell;
use std::rc::Rc;

/// How deep calls are inlined, and how many operations a flat list may hold.
const MAX_INLINE_DEPTH: usize = 16;
const MAX_OPERATIONS: usize = 4096;

pub(super) struct Operation {
    kernel: Kernel,
    operands: [u32; 3],
    arity: usize,
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
                    Symbol::Tuple(elements) => {
                        elements.get(usize::try_from(inst.attrs.int(AttrKey::Index)?).ok()?)?.clone()
                    }
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

/// A computation ready to be evaluated on scalars.
pub(super) struct Region<'c, 'm> {
    cx: &'c Context<'m>,
    computation: ComputationId,
    code: Rc<Code>,
    scratch: RefCell<Vec<Scalar>>,
}

impl<'c, 'm> Region<'c, 'm> {
    pub(super) fn new(cx: &'c Context<'m>, computation: ComputationId, code: Rc<Code>) -> Self {
        let mut scratch = Vec::new();
        if let Code::Flat { parameters, constants, .. } = &*code {
            scratch = vec![Scalar::Pred(false); *parameters];
            scratch.extend(constants);
        }
        Region { cx, computation, code, scratch: RefCell::new(scratch) }
    }

    /// How many operations an evaluation takes, where the computation is flat; and then tuple parameters are passed
    /// as their leaves.
    pub(super) fn flat_operations(&self) -> Option<usize> {
        match &*self.code {
            Code::Flat { operations, .. } => Some(operations.len()),
            Code::Call => None,
        }
    }

    /// The leaves of the result for these arguments, one scalar a parameter.
    pub(super) fn eval(&self, args: &[Scalar]) -> Result<Vec<Scalar>> {
        let mut out = Vec::new();
        self.eval_into(args, &mut out)?;
        Ok(out)
    }

    /// As [`Region::eval`], of which only the first leaf is wanted.
    pub(super) fn eval_one(&self, args: &[Scalar]) -> Result<Scalar> {
        if let Code::Flat { roots, .. } = &*self.code
            && let [root, ..] = roots[..]
        {
            self.execute(args)?;
            return Ok(self.scratch.borrow()[root as usize]);
        }
        let out = self.eval(args)?;
        out.first().copied().ok_or_else(|| Error::Internal("a region without a result".to_owned()))
    }

    /// As [`Region::eval`], into a buffer that is cleared first.
    pub(super) fn eval_into(&self, args: &[Scalar], out: &mut Vec<Scalar>) -> Result<()> {
        out.clear();
        match &*self.code {
            Code::Flat { roots, .. } => {
                self.execute(args)?;
                let slots = self.scratch.borrow();
                out.extend(roots.iter().map(|&r| slots[r as usize]));
                Ok(())
            }
            Code::Call => self.call(args, out),
        }
    }

    fn execute(&self, args: &[Scalar]) -> Result<()> {
        let Code::Flat { parameters, operations, .. } = &*self.code else { return Ok(()) };
        if args.len() != *parameters {
            return Err(self.wrong_count(*parameters, args.len()));
        }
        let mut slots = self.scratch.borrow_mut();
        slots[..args.len()].copy_from_slice(args);
        for (operation, slot) in operations {
            let [a, b, c] = operation.operands.map(|o| slots[o as usize]);
            slots[*slot as usize] = operation.kernel.apply(&[a, b, c][..operation.arity]);
        }
        Ok(())
    }

    fn call(&self, args: &[Scalar], out: &mut Vec<Scalar>) -> Result<()> {
        let computation = &self.cx.module.computations[self.computation];
        let parameters = computation.parameters();
        if parameters.len() != args.len() {
            return Err(self.wrong_count(parameters.len(), args.len()));
        }
        let mut literals = Vec::with_capacity(args.len());
        for (&id, &arg) in parameters.iter().zip(args) {
            let Shape::Array(shape) = &computation.instructions[id].shape else {
                return Err(Error::Internal(format!("'{}' is no scalar computation", computation.name)));
            };
            if shape.rank() != 0 {
                return Err(Error::Internal(format!("'{}' is no scalar computation", computation.name)));
            }
            let mut literal = ArrayLiteral::zeros(shape);
            literal.set(0, arg);
            literals.push(Literal::Array(literal));
        }
        let result = self.cx.call(self.computation, literals)?;
        out.extend(result.arrays().iter().filter(|a| a.elements() > 0).map(|a| a.get(0)));
        Ok(())
    }

    /// The operation, where the computation is nothing but one binary operation on its two parameters, in whatever
    /// order, and the type it works in.
    pub(super) fn plain(&self) -> Option<(Opcode, ElementType)> {
        match &*self.code {
            Code::Flat { parameters: 2, operations, roots, .. } => match (&operations[..], &roots[..]) {
                ([(operation, slot)], [root]) if slot == root && operation.arity == 2 => {
                    let [a, b, _] = operation.operands;
                    let both = (a, b) == (0, 1) || (a, b) == (1, 0) && operation.kernel.opcode.is_commutative();
                    both.then_some((operation.kernel.opcode, operation.kernel.result))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn wrong_count(&self, want: usize, got: usize) -> Error {
        let name = &self.cx.module.computations[self.computation].name;
        Error::Internal(format!("computation '{name}' takes {want} scalars, found {got}"))
    }
}
