//! Folds of windows that slide over an array, and their own derivative, select-and-scatter.

use super::fold::{self, Combine};
use super::replay::{may_run_again, replay};
use super::rule::{Rule, number};
use super::scalars::{comparison, reducer, root_name};
use super::sliding::{Window, span};
use crate::builder::{Builder, Padding, PaddingDimension, Shape, scalar_computation};
use crate::error::Result;
use crate::hlo::{AttrKey, ComparisonDirection, Module, Opcode};
use brolga_runtime::ElementType;

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::ReduceWindow => reduce_window(r),
        _ => select_and_scatter(r),
    }
}

fn reduce_window(r: &mut Rule<'_>) -> Result<()> {
    let computation = r.callee(AttrKey::ToApply)?;
    let by_rule = r.operands.len() == 2 && !r.wants(1);
    match reducer(&computation).filter(|_| by_rule) {
        Some(Opcode::Add) => window_sum(r),
        Some(opcode @ (Opcode::Maximum | Opcode::Minimum)) => window_extreme(r, opcode),
        _ => {
            may_run_again(r, &computation)?;
            fold::windows(r, &Combine::Computation(&computation))
        }
    }
}

/// The sum of the windows that an element was in: a window sum over the cotangents, moved apart by the strides.
fn window_sum(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, x) = (r.b, r.array_cotangent()?, r.operand(0)?);
    let (from, to) = (r.shape(x)?, r.shape(ct)?);
    let w = Window::of(r, from.rank());
    let padding: Vec<PaddingDimension> = (0..from.rank())
        .map(|d| {
            let low = span(w.sizes[d], w.dilation[d]) - w.padding[d].0 - 1;
            let needed = span(from.dims[d], w.base[d]) + span(w.sizes[d], w.dilation[d]) - 1;
            let high = needed - span(to.dims[d], w.strides[d]) - low;
            PaddingDimension { low, high, interior: w.strides[d] - 1 }
        })
        .collect();
    let zero = number(b, to.ty, 0.0);
    let apart = b.pad(ct, zero, &padding);
    let add = scalar_computation(Opcode::Add, to.ty)?;
    let none = vec![(0, 0); from.rank()];
    let value =
        b.reduce_window_with_general_padding(&[apart], &[zero], &add, &w.sizes, &w.base, &[], &w.dilation, &none);
    r.give(0, value);
    Ok(())
}

/// The first element of a window that is its extreme gets all.
fn window_extreme(r: &mut Rule<'_>, opcode: Opcode) -> Result<()> {
    let (b, ct, x) = (r.b, r.array_cotangent()?, r.operand(0)?);
    let shape = r.shape(x)?;
    let w = Window::of(r, shape.rank());
    let direction = if opcode == Opcode::Maximum { ComparisonDirection::Ge } else { ComparisonDirection::Le };
    if !w.is_dense() {
        return fold::windows(r, &Combine::Extreme(direction));
    }
    let select = comparison(r.at, shape.ty, direction)?;
    let add = scalar_computation(Opcode::Add, shape.ty)?;
    let padding = Padding::Explicit(w.padding);
    let zero = number(b, shape.ty, 0.0);
    let value = b.select_and_scatter(x, &select, &w.sizes, &w.strides, &padding, ct, zero, &add);
    r.give(0, value);
    Ok(())
}

/// Which way a computation compares its first argument with its second.
fn selects(module: &Module) -> Option<ComparisonDirection> {
    let entry = module.entry();
    let root = &entry.instructions[entry.root];
    let [x, y] = root.operands[..] else { return None };
    let number = |id| entry.instructions[id].parameter_number();
    let in_order = root.opcode == Opcode::Compare && number(x) == Some(0) && number(y) == Some(1);
    ComparisonDirection::of(&root.attrs).filter(|_| in_order)
}

/// The source gets what stands where it went: a fold over the windows of the chosen element and the cotangent beside it.
fn select_and_scatter(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, x, source) = (r.b, r.array_cotangent()?, r.operand(0)?, r.operand(1)?);
    let shape = r.shape(x)?;
    let w = Window::of(r, shape.rank());
    let (select, scatter) = (r.callee(AttrKey::SelectComputation)?, r.callee(AttrKey::ScatterComputation)?);
    if reducer(&scatter) != Some(Opcode::Add) {
        return Err(r.refuse(&format!("by a computation that ends in {}", root_name(&scatter))));
    }
    let largest = match selects(&select) {
        Some(ComparisonDirection::Ge | ComparisonDirection::Gt) => true,
        Some(ComparisonDirection::Le | ComparisonDirection::Lt) => false,
        _ => return Err(r.refuse("that selects otherwise than by an order")),
    };
    if r.wants(1) {
        let chosen = chooser(r, &select, shape.ty, r.shape(source)?.ty)?;
        let worst = if largest { b.min_value(shape.ty) } else { b.max_value(shape.ty) };
        let zero = number(b, r.shape(ct)?.ty, 0.0);
        let padding = Padding::Explicit(w.padding);
        let both = b.reduce_window_many(&[x, ct], &[worst, zero], &chosen, &w.sizes, &w.strides, &padding);
        r.give(1, b.get_tuple_element(both, 1));
    }
    if r.wants(2) {
        let value = r.sum_all(ct)?;
        r.give(2, value);
    }
    Ok(())
}

/// `(x, u, y, v) -> select(x, y) ? (x, u) : (y, v)`
fn chooser(r: &Rule<'_>, select: &Module, key: ElementType, value: ElementType) -> Result<Module> {
    let b = Builder::new_at(r.at, "choose");
    let parameter = |n: i64, ty| b.parameter(n, Shape::scalar(ty), "");
    let (x, u, y, v) = (parameter(0, key), parameter(1, value), parameter(2, key), parameter(3, value));
    let first = replay(&b, r.at, select, &[Some(x), Some(y)])?;
    let root = b.tuple(&[b.select(first, x, y), b.select(first, u, v)]);
    b.build_with_root(root)
}
