//! Parameters, constants, tuples and tokens.

use super::{At, Builder, Op};
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode};
use crate::shape::RuleError;
use brolga_runtime::{ArrayLiteral, ElementType, Literal, NativeType, Scalar, Shape};
use std::panic::Location;
use std::sync::Arc;

impl Builder {
    /// `parameter(parameter_number, shape, name)`: argument number `parameter_number` of the computation. Numbers start
    /// at 0 and have no gaps, which [`Builder::build`] checks. No section
    /// describes it; examples of several use it.
    #[track_caller]
    pub fn parameter(&self, parameter_number: i64, shape: Shape, name: &str) -> Op {
        let attrs = Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(parameter_number));
        let op = self.op(Opcode::Parameter, &[], attrs, Some(shape));
        let mut state = self.state.borrow_mut();
        if !name.is_empty() && state.instructions.is_valid(op.id) {
            let name = state.fresh_name(name);
            state.instructions[op.id].name = name;
        }
        op
    }

    /// A constant.
    #[track_caller]
    pub fn constant_literal(&self, literal: impl Into<Literal>) -> Op {
        let attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(Arc::new(literal.into())));
        self.op(Opcode::Constant, &[], attrs, None)
    }

    /// A scalar constant.
    #[track_caller]
    pub fn constant_r0<T: NativeType>(&self, value: T) -> Op {
        self.constant_literal(ArrayLiteral::scalar(value))
    }

    /// A vector constant.
    #[track_caller]
    pub fn constant_r1<T: NativeType>(&self, values: &[T]) -> Op {
        self.constant_literal(ArrayLiteral::from_elements(&[values.len() as i64], values))
    }

    /// A constant from its elements in row-major order. Errors: another number of elements than `dims` say.
    #[track_caller]
    pub fn constant<T: NativeType>(&self, dims: &[i64], elements: &[T]) -> Op {
        let at = Location::caller();
        let shape = brolga_runtime::ArrayShape::new(T::TYPE, dims);
        if shape.checked_elements() != Some(elements.len()) {
            let message = format!("expected the elements of {shape}, found {}", elements.len());
            return self.finish(Err(self.reject(at, Opcode::Constant, RuleError::new("constant.elements", message))));
        }
        self.constant_literal(ArrayLiteral::from_elements(dims, elements))
    }

    /// A scalar truth value.
    #[track_caller]
    pub fn constant_pred(&self, value: bool) -> Op {
        self.constant_literal(ArrayLiteral::from_bools(&[], &[value]))
    }

    /// A zero of any element type. Errors: an element type without a zero.
    #[track_caller]
    pub fn zero(&self, ty: ElementType) -> Op {
        if ty == ElementType::F8E8M0Fnu {
            let e = RuleError::new("constant.elements", "expected an element type with a zero, found f8e8m0fnu");
            return self.finish(Err(self.reject(Location::caller(), Opcode::Constant, e)));
        }
        self.constant_literal(ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(ty, [])))
    }

    /// A one of any element type; of `pred` true. Errors: an element type without a one.
    #[track_caller]
    pub fn one(&self, ty: ElementType) -> Op {
        self.scalar_at(Location::caller(), ty, Scalar::Int(1), "a one")
    }

    /// The value that no other of the element type is less than: negative infinity of floats that have it, else the lowest
    /// number. Errors: complex types, which have no order.
    #[track_caller]
    pub fn min_value(&self, ty: ElementType) -> Op {
        self.extreme_at(Location::caller(), ty, Scalar::lowest(ty))
    }

    /// The value that no other of the element type is greater than: infinity of floats that have it, else the greatest
    /// number. Errors: as of [`Builder::min_value`].
    #[track_caller]
    pub fn max_value(&self, ty: ElementType) -> Op {
        self.extreme_at(Location::caller(), ty, Scalar::highest(ty))
    }

    fn extreme_at(&self, at: At, ty: ElementType, value: Option<Scalar>) -> Op {
        match value {
            Some(value) => self.scalar_at(at, ty, value, "such a value"),
            None => {
                let e = RuleError::new("constant.elements", format!("expected an ordered element type, found {ty}"));
                self.finish(Err(self.reject(at, Opcode::Constant, e)))
            }
        }
    }

    /// A scalar constant that is just `value`.
    pub(super) fn scalar_at(&self, at: At, ty: ElementType, value: Scalar, what: &str) -> Op {
        let Some(literal) = value.exactly(ty) else {
            let message = format!("expected an element type with {what}, found {ty}");
            return self.finish(Err(self.reject(at, Opcode::Constant, RuleError::new("constant.elements", message))));
        };
        let attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(Arc::new(literal.into())));
        self.finish(self.add_at(at, Opcode::Constant, &[], attrs, None))
    }

    /// `tuple(elements)`: the values as one. Section «Tuple».
    #[track_caller]
    pub fn tuple(&self, elements: &[Op]) -> Op {
        self.op(Opcode::Tuple, elements, Attrs::new(), None)
    }

    /// `get_tuple_element(tuple_data, index)`: one element of a tuple. Errors: not a tuple, an index past its end.
    /// Section «GetTupleElement».
    #[track_caller]
    pub fn get_tuple_element(&self, tuple_data: Op, index: i64) -> Op {
        let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(index));
        self.op(Opcode::GetTupleElement, &[tuple_data], attrs, None)
    }

    /// `optimization_barrier(operand)`: the operand; no computation moves across. Section «OptimizationBarrier».
    #[track_caller]
    pub fn optimization_barrier(&self, operand: Op) -> Op {
        self.op(Opcode::OptimizationBarrier, &[operand], Attrs::new(), None)
    }

    /// `add_dependency(operand, token)`: the operand, not before the token.
    #[track_caller]
    pub fn add_dependency(&self, operand: Op, token: Op) -> Op {
        self.op(Opcode::AddDependency, &[operand, token], Attrs::new(), None)
    }

    /// `after_all(operands)`: a token after all of `operands`, which are tokens; of none, a fresh token. Section
    /// «AfterAll».
    #[track_caller]
    pub fn after_all(&self, operands: &[Op]) -> Op {
        let at = Location::caller();
        // HLO text lets other values be named, too.
        let other = |&&o: &&Op| self.shape(o).is_ok_and(|s| s != Shape::Token);
        if let Some(&other) = operands.iter().find(other) {
            let found = self.shape(other).map_or(String::new(), |s| format!(", found {s:#}"));
            let e = RuleError::new("operand.token", format!("expected tokens as operands of after-all{found}"));
            return self.finish(Err(self.reject(at, Opcode::AfterAll, e)));
        }
        self.finish(self.add_at(at, Opcode::AfterAll, operands, Attrs::new(), None))
    }
}
