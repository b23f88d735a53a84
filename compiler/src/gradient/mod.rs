//! Gradients: reverse-mode differentiation over the graph IR.
//!
//! Problem: training needs the derivatives of a scalar, the loss, with respect to many arrays at once, of programs that use
//! any operation. Invariant: what is added to a computation computes derivatives of what stands there, by the conventions of
//! `docs/semantics/gradients.md` where there is no single one; nothing that stands there changes, and what has no rule is an
//! error that names the instruction, never a zero.
//!
//! Algorithm: [`reverse`] marks what lies between the variables and the loss ([`reach`]) and walks it backwards. Each
//! instruction there has the *cotangent* of its value, the derivative of the loss with respect to it, one array for each leaf
//! of its shape. The rule of its opcode turns it into contributions to the cotangents of the operands, which are summed. A
//! rule builds only what some variable needs. All rules add ordinary instructions, so that derivatives can be
//! differentiated again.
//!
//! The rules stand in a file for each family, and [`families`] finds the one of an opcode. A family names no other:
//! what some of them share lies below them, and what a rule sees and gives below that ([`rule`]). Nor does a family
//! name [`families`], though the rules of loops, of branches and of what is differentiated instead walk backwards
//! themselves, past any opcode: the rules of all opcodes are a value that the walk is given here and hands to each
//! rule.
//!
//! Computations that are called are copied in ([`replay`]) and differentiated like the rest; branches get a conditional of the
//! derivatives of each branch. A loop whose trip count is known runs a second time and keeps the state of each iteration that
//! its derivative reads, then a loop runs backwards over these.

mod branches;
mod collective;
mod contraction;
mod convolution;
mod counted;
mod elementwise;
mod families;
mod fold;
mod grouped;
mod indexing;
mod lapack;
mod linalg;
mod loops;
mod movement;
mod normalisation;
mod ordering;
mod reach;
mod reduction;
mod replay;
mod reverse;
mod rule;
mod scalars;
mod scan;
mod sliding;
mod trips;
mod window;

#[cfg(test)]
mod tests;

use crate::builder::{At, Builder, Op};
use crate::error::{Error, Result, Site};
use crate::hlo::{Module, SourceLocation};
use brolga_runtime::{ArrayShape, Shape};
use std::panic::Location;

impl Builder {
    /// `gradient(loss, variables)`: the derivatives of `loss`, a real floating-point scalar, with respect to each of
    /// `variables`, which may be any floating-point or complex arrays of the computation: parameters, constants or
    /// intermediate values. A derivative has the shape of its variable, and is zero where the loss does not depend on it. Of
    /// a variable that depends on another, both derivatives are whole: that of the other includes what goes through it.
    ///
    /// What is differentiated, the conventions at kinks and for complex numbers, and what is refused are in
    /// `docs/semantics/gradients.md`.
    ///
    /// Errors: a loss that is no such scalar, a variable that is no such array, an instruction between them that has no
    /// derivative here, which the error names.
    ///
    /// ```
    /// use brolga_compiler::builder::{ArrayLiteral, Builder, ElementType, Opcode, Shape, scalar_computation};
    /// use brolga_compiler::interp;
    ///
    /// // The sum of the squares of x - y.
    /// let b = Builder::new("l2");
    /// let x = b.parameter(0, Shape::array(ElementType::F64, [3]), "x");
    /// let y = b.parameter(1, Shape::array(ElementType::F64, [3]), "y");
    /// let d = b.sub(x, y);
    /// let sum = scalar_computation(Opcode::Add, ElementType::F64)?;
    /// let loss = b.reduce_all(b.mul(d, d), b.zero(ElementType::F64), &sum);
    /// let dx = b.gradient(loss, &[x])[0];
    /// let module = b.build_with_root(dx)?;
    ///
    /// let x = ArrayLiteral::from_elements(&[3], &[1.0f64, 2.0, 3.0]).into();
    /// let y = ArrayLiteral::from_elements(&[3], &[0.0f64, 4.0, 3.0]).into();
    /// let dx = interp::run(&module, &[x, y], &interp::Options::default())?;
    /// assert_eq!(dx.as_array().map(|a| a.as_slice::<f64>().to_vec()), Some(vec![2.0, -4.0, 0.0]));
    /// # Ok::<(), brolga_compiler::Error>(())
    /// ```
    #[track_caller]
    pub fn gradient(&self, loss: Op, variables: &[Op]) -> Vec<Op> {
        let at = Location::caller();
        let made = match self.first_error() {
            Some(e) => Err(e),
            None => self.made_at(at, || gradient_at(self, at, loss, variables)),
        };
        made.unwrap_or_else(|e| vec![self.failed(e); variables.len()])
    }
}

fn gradient_at(b: &Builder, at: At, loss: Op, variables: &[Op]) -> Result<Vec<Op>> {
    let scalar = match b.shape(loss)? {
        Shape::Array(a) if a.ty.is_float() && a.rank() == 0 => a,
        other => {
            let message = format!("expected a floating-point scalar as the loss of a gradient, found {other:#}");
            return Err(refused(b, at, loss, "gradient.loss", message));
        }
    };
    let shapes: Vec<ArrayShape> = variables.iter().map(|&v| variable_shape(b, at, v)).collect::<Result<_>>()?;
    let seeds = vec![(loss, vec![Some(b.one(scalar.ty))])];
    let found = reverse::pull(b, at, families::rule, seeds, variables, reach::Past::Inputs)?;
    let of = |(found, shape): (rule::Cotangent, &ArrayShape)| {
        found.first().copied().flatten().unwrap_or_else(|| rule::zeros(b, shape))
    };
    let derivatives = found.into_iter().zip(&shapes).map(of).collect();
    b.first_error().map_or(Ok(derivatives), Err)
}

fn variable_shape(b: &Builder, at: At, variable: Op) -> Result<ArrayShape> {
    match b.shape(variable)? {
        Shape::Array(a) if (a.ty.is_float() || a.ty.is_complex()) && !a.is_dynamic() => Ok(a),
        other => {
            let message =
                format!("expected a floating-point array of fixed sizes as a variable of a gradient, found {other:#}");
            Err(refused(b, at, variable, "gradient.variable", message))
        }
    }
}

fn refused(b: &Builder, at: At, op: Op, constraint: &'static str, message: String) -> Error {
    let instruction = b.instruction(op).map(|i| i.name);
    Error::Invalid {
        site: Site { instruction, location: SourceLocation::of_caller(at), length: 0 },
        constraint,
        message,
    }
}

/// The module that computes a loss and its derivatives: `module` with the tuple of its result and the derivatives with
/// respect to the parameters of the numbers `variables`, in this order, as result. The loss is the result of `module`, a
/// floating-point scalar, or the first element of the tuple that is its result, of which the others are left out.
///
/// Layouts of parameters stay; aliases of parameters and results, which belong to the old results, do not.
///
/// # Errors
/// As [`Builder::gradient`], and for numbers that no parameter has.
#[track_caller]
pub fn differentiate(module: &Module, variables: &[usize]) -> Result<Module> {
    let at = Location::caller();
    let (b, root) = Builder::open(at, module)?;
    let root = root.ok_or_else(|| Error::Internal(format!("'{}' has no root", module.name)))?;
    let loss = b.made_at(at, || match b.shape(root) {
        Ok(Shape::Tuple(parts)) if !parts.is_empty() => replay::element(&b, root, 0),
        _ => root,
    });
    let parameters = b.parameters();
    let chosen = |&n: &usize| {
        parameters.get(n).copied().ok_or_else(|| {
            let message = format!("expected the number of one of {} parameters, found {n}", parameters.len());
            Error::Invalid { site: Site::default(), constraint: "gradient.variable", message }
        })
    };
    let chosen: Vec<Op> = variables.iter().map(chosen).collect::<Result<_>>()?;
    let derivatives = b.gradient(loss, &chosen);
    let results: Vec<Op> = std::iter::once(loss).chain(derivatives).collect();
    let root = b.made_at(at, || b.tuple(&results));
    let mut out = b.build_with_root(root)?;
    let result = out.entry().result_shape().without_layout();
    out.config.clone_from(&module.config);
    out.config.aliases.clear();
    out.config.is_scheduled = false;
    out.config.abi = None;
    if let Some((_, old)) = &mut out.config.entry_layout {
        *old = result;
    }
    crate::shape::verify(&out)?;
    Ok(out)
}
