//! Loops that rules write: their state begins with a counter, which alone ends them.

use super::rule::{Rule, full, zeros};
use crate::builder::{Builder, Op, Shape};
use crate::error::Result;
use crate::hlo::Module;
use brolga_runtime::{ArrayShape, ElementType};

/// Counts the iterations.
pub(super) const COUNTER: ElementType = ElementType::S32;

/// The parameter of a loop whose state has these shapes, and its elements.
pub(super) fn state(b: &Builder, shapes: &[Shape]) -> Vec<Op> {
    let parameter = b.parameter(0, Shape::tuple(shapes.to_vec()), "state");
    (0..shapes.len() as i64).map(|i| b.get_tuple_element(parameter, i)).collect()
}

/// The condition that the counter, the first element of the state, is `less` than a limit, or not negative.
pub(super) fn condition(r: &Rule<'_>, shapes: &[Shape], less: Option<i32>) -> Result<Module> {
    let b = Builder::new_at(r.at, "condition");
    let counter = state(&b, shapes).first().copied().ok_or_else(|| r.broken("has no counter"))?;
    let root = match less {
        Some(limit) => b.lt(counter, b.constant_r0(limit)),
        None => b.ge(counter, b.constant_r0(0i32)),
    };
    b.build_with_root(root)
}

pub(super) fn shapes_of(b: &Builder, ops: &[Op]) -> Result<Vec<Shape>> {
    ops.iter().map(|&op| Ok(b.shape(op)?.without_layout())).collect()
}

/// Zeros of any element type.
pub(super) fn zeros_of(b: &Builder, shape: &ArrayShape) -> Op {
    match shape.ty {
        ElementType::Pred => full(b, shape, b.constant_pred(false)),
        _ => zeros(b, shape),
    }
}
