//! Arithmetic as Rust writes it: `x * 2.0 + y`.

use super::{Builder, Op};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

/// A value of a builder that operators may be used on. It is an [`Op`] that knows its builder, and gives it back with
/// [`Expression::op`] or `into`.
///
/// Operands broadcast as those of the builder's methods do; a number is a scalar of the other operand's element type, as
/// [`Builder::scalar`] has it. Values of two builders do not meet: the result is the left one's, and its `build` says so.
///
/// ```
/// use brolga_compiler::builder::{ArrayLiteral, Builder, ElementType, Shape};
/// use brolga_compiler::{CompileOptions, compile};
/// use brolga_runtime::Program;
///
/// let b = Builder::new("blend");
/// let x = b.expression(b.parameter(0, Shape::array(ElementType::F32, [2]), "x"));
/// let y = b.expression(b.parameter(1, Shape::array(ElementType::F32, [2]), "y"));
/// let blend = 0.25 * x + y * 0.75 - 1.0;
/// b.tuple(&[blend.op(), (-(x / y)).op()]);
/// let program = Program::from_object(&compile(&b.build()?, &CompileOptions::native())?.object)?;
/// let [x, y] = [[4f32, 8.0], [4.0, 16.0]].map(|v| ArrayLiteral::from_elements(&[2], &v));
/// let results = program.run(&[&x, &y])?;
/// assert_eq!(results[0].to_string(), "f32[2] {3, 13}");
/// assert_eq!(results[1].to_string(), "f32[2] {-1, -0.5}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Expression<'b> {
    builder: &'b Builder,
    op: Op,
}

impl Builder {
    /// A value that operators may be used on.
    pub fn expression(&self, op: Op) -> Expression<'_> {
        Expression { builder: self, op }
    }
}

impl<'b> Expression<'b> {
    /// The value, for the methods of the builder.
    pub fn op(self) -> Op {
        self.op
    }

    fn with(self, op: Op) -> Expression<'b> {
        Expression { op, ..self }
    }

    /// A scalar of this value's element type; what has none fails, and the builder says why.
    #[track_caller]
    fn number(self, value: f64) -> Op {
        match self.builder.shape(self.op).ok().as_ref().and_then(|shape| shape.as_array()) {
            Some(shape) => self.builder.scalar(shape.ty, value),
            None => self.op,
        }
    }
}

impl From<Expression<'_>> for Op {
    fn from(expression: Expression<'_>) -> Op {
        expression.op
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $name:ident;)*) => {$(
        impl<'b> $trait for Expression<'b> {
            type Output = Expression<'b>;

            #[track_caller]
            fn $method(self, rhs: Expression<'b>) -> Expression<'b> {
                self.with(self.builder.$name(self.op, rhs.op))
            }
        }
    )*};
}

macro_rules! with_numbers {
    ($($trait:ident $method:ident $name:ident;)*) => {
        operators! { $($trait $method $name;)* }
        $(
            impl<'b> $trait<f64> for Expression<'b> {
                type Output = Expression<'b>;

                #[track_caller]
                fn $method(self, rhs: f64) -> Expression<'b> {
                    self.with(self.builder.$name(self.op, self.number(rhs)))
                }
            }

            impl<'b> $trait<Expression<'b>> for f64 {
                type Output = Expression<'b>;

                #[track_caller]
                fn $method(self, rhs: Expression<'b>) -> Expression<'b> {
                    rhs.with(rhs.builder.$name(rhs.number(self), rhs.op))
                }
            }
        )*
    };
}

with_numbers! {
    Add add add;
    Sub sub sub;
    Mul mul mul;
    Div div div;
    Rem rem rem;
}

operators! {
    BitAnd bitand and;
    BitOr bitor or;
    BitXor bitxor xor;
}

impl<'b> Neg for Expression<'b> {
    type Output = Expression<'b>;

    #[track_caller]
    fn neg(self) -> Expression<'b> {
        self.with(self.builder.neg(self.op))
    }
}

impl<'b> Not for Expression<'b> {
    type Output = Expression<'b>;

    #[track_caller]
    fn not(self) -> Expression<'b> {
        self.with(self.builder.not(self.op))
    }
}
