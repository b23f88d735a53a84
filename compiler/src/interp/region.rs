//! What reducers, comparators and selectors run through: their computations as [`Code`], evaluated on scalars.

use super::code::Code;
use super::context::Context;
use crate::hlo::{ComputationId, Opcode};
use crate::{Error, Result};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Scalar, Shape};
use std::cell::RefCell;
use std::rc::Rc;

/// A computation ready to be evaluated on scalars.
pub(super) struct Region<'c, 'm> {
    cx: &'c Context<'m>,
    computation: ComputationId,
    code: Rc<Code>,
    scratch: RefCell<Vec<Scalar>>,
}

impl<'a> Context<'a> {
    /// The scalar evaluator of a reducer or comparator.
    pub(super) fn region(&self, computation: ComputationId) -> Region<'_, 'a> {
        let code = self.code(computation);
        let mut scratch = Vec::new();
        if let Code::Flat { parameters, constants, .. } = &*code {
            scratch = vec![Scalar::Pred(false); *parameters];
            scratch.extend(constants);
        }
        Region { cx: self, computation, code, scratch: RefCell::new(scratch) }
    }
}

impl Region<'_, '_> {
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
