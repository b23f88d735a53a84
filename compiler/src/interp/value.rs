//! Values inside the interpreter: literals shared by reference count, so that tuples and loops copy nothing.

use brolga_runtime::Literal;
use std::sync::Arc;

/// A value of an instruction.
#[derive(Clone)]
pub(super) enum Value {
    /// An array or a token.
    Leaf(Arc<Literal>),
    /// A tuple.
    Tuple(Vec<Value>),
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Value {
        match literal {
            Literal::Tuple(elements) => Value::Tuple(elements.into_iter().map(Value::from).collect()),
            leaf => Value::Leaf(Arc::new(leaf)),
        }
    }
}

impl Value {
    /// The value as a literal; arrays nobody else holds are moved, not copied.
    pub(super) fn into_literal(self) -> Literal {
        match self {
            Value::Leaf(leaf) => Arc::try_unwrap(leaf).unwrap_or_else(|shared| (*shared).clone()),
            Value::Tuple(elements) => Literal::Tuple(elements.into_iter().map(Value::into_literal).collect()),
        }
    }

    /// The value as a literal, shared where it is a leaf.
    pub(super) fn to_shared(&self) -> Arc<Literal> {
        match self {
            Value::Leaf(leaf) => leaf.clone(),
            Value::Tuple(_) => Arc::new(self.clone().into_literal()),
        }
    }

    /// The value of a constant.
    pub(super) fn from_shared(literal: &Arc<Literal>) -> Value {
        match &**literal {
            Literal::Tuple(elements) => Value::Tuple(elements.iter().cloned().map(Value::from).collect()),
            _ => Value::Leaf(literal.clone()),
        }
    }

    /// A token.
    pub(super) fn token() -> Value {
        Value::from(Literal::Token)
    }
}
