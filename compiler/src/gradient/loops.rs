//! Loops whose trip count is known.
//!
//! Invariant: the loop backwards reads, for each iteration, the very state from which the loop forwards made the next.
//! Algorithm: the body is copied in once, to see which leaves of the state it hands on unchanged, and which of the others
//! vary with what the derivative is taken of. Its derivative, a computation of the state and the cotangents after an iteration,
//! then shows which leaves it reads: a second loop forwards keeps those that change in arrays with a further dimension, the
//! iteration. The loop backwards takes them from there, the last first, and turns cotangents after an iteration into those
//! before it.

use super::counted::{COUNTER, condition, shapes_of, state, zeros_of};
use super::reach::{Past, Reach, smooth_leaves};
use super::replay::{assemble, leaves, may_run_again, needed, replay};
use super::reverse::pull_masked;
use super::rule::{Rule, zeros};
use super::trips::trips;
use crate::builder::{Builder, Op, Shape};
use crate::error::Result;
use crate::hlo::{AttrKey, Module};
use brolga_runtime::ArrayShape;

/// A loop and what is known of its body.
struct Loop {
    body: Module,
    /// The state, and the shapes of its leaves.
    state: Shape,
    leaves: Vec<ArrayShape>,
    trips: i64,
    /// Leaves that every iteration hands on.
    constant: Vec<bool>,
    /// Leaves whose cotangents count.
    active: Vec<bool>,
}

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    let (body, condition) = (r.callee(AttrKey::Body)?, r.callee(AttrKey::Condition)?);
    may_run_again(r, &body)?;
    let init = r.operand(0)?;
    let Some(trips) = trips(r.b, &condition, &body, init) else {
        return Err(r.refuse("whose number of iterations is not known from its text"));
    };
    let initial = leaves(r.b, init)?;
    if trips == 0 {
        for (leaf, ct) in r.cotangent.clone().into_iter().enumerate() {
            if let Some(ct) = ct {
                r.give_leaf(0, leaf, ct);
            }
        }
        return Ok(());
    }
    let looped = examine(r, body, trips)?;
    let derivative = derivative(r, &looped)?;
    let read = looped.read(&derivative);
    let kept: Vec<usize> = (0..read.len()).filter(|&leaf| read[leaf] && !looped.constant[leaf]).collect();
    let stacks = if kept.is_empty() { Vec::new() } else { forwards(r, &looped, &initial, &kept)? };
    let cotangents = backwards(r, &looped, &derivative, &initial, &read, &stacks)?;
    let active = (0..looped.active.len()).filter(|&leaf| looped.active[leaf]);
    for (leaf, value) in active.zip(cotangents) {
        r.give_leaf(0, leaf, value);
    }
    Ok(())
}

impl Loop {
    /// Which leaves of the state a derivative reads.
    fn read(&self, derivative: &Module) -> Vec<bool> {
        let needed = needed(derivative);
        derivative.entry().parameters().iter().take(self.leaves.len()).map(|p| needed.contains(p)).collect()
    }

    /// Parameters for the leaves of the state.
    fn parameters(&self, b: &Builder) -> Vec<Op> {
        let parameter = |(n, s): (usize, &ArrayShape)| b.parameter(n as i64, s.clone().into(), "");
        self.leaves.iter().enumerate().map(parameter).collect()
    }

    /// The leaves of the state after an iteration from these.
    fn iterate(&self, r: &Rule<'_>, b: &Builder, before: &[Op]) -> Result<Vec<Op>> {
        let state = assemble(b, &self.state, &mut before.iter().copied())?;
        leaves(b, replay(b, r.at, &self.body, &[Some(state)])?)
    }
}

fn examine(r: &Rule<'_>, body: Module, trips: i64) -> Result<Loop> {
    let state = r.instruction.shape.without_layout();
    let mut arrays = Vec::new();
    for leaf in state.leaves() {
        match leaf {
            Shape::Array(a) => arrays.push(a.clone()),
            other => return Err(r.refuse(&format!("with {other:#} in its state"))),
        }
    }
    let mut looped = Loop { body, state, leaves: arrays, trips, constant: Vec::new(), active: r.wanted(0).to_vec() };
    let b = Builder::new_at(r.at, "body");
    let before = looped.parameters(&b);
    let after = looped.iterate(r, &b, &before)?;
    looped.constant = before.iter().zip(&after).map(|(x, y)| x == y).collect();
    loop {
        let inputs: Vec<(Op, Vec<bool>)> = before.iter().zip(&looped.active).map(|(&op, &a)| (op, vec![a])).collect();
        let reach = Reach::of(&b, &after, &inputs, Past::Nothing);
        let mut grown = false;
        for (active, &op) in looped.active.iter_mut().zip(&after) {
            let now = reach.active(op) == [true];
            grown |= now && !*active;
            *active |= now;
        }
        if !grown {
            break;
        }
    }
    let smooth = smooth_leaves(&looped.state);
    looped.active.iter_mut().zip(smooth).for_each(|(active, smooth)| *active &= smooth);
    Ok(looped)
}

/// The derivative of an iteration: of the leaves of the state before it, and the cotangents of the active ones after it, the
/// cotangents of these before it.
fn derivative(r: &Rule<'_>, looped: &Loop) -> Result<Module> {
    let b = Builder::new_at(r.at, &format!("{}.gradient", looped.body.name));
    let before = looped.parameters(&b);
    let after = looped.iterate(r, &b, &before)?;
    let mut seeds = Vec::new();
    let mut inputs = Vec::new();
    let active = looped.leaves.iter().enumerate().filter(|(leaf, _)| looped.active[*leaf]);
    for (number, (leaf, shape)) in (before.len() as i64..).zip(active) {
        let ct = b.parameter(number, shape.clone().into(), "");
        seeds.push((after[leaf], vec![Some(ct)]));
        inputs.push((before[leaf], vec![true]));
    }
    let found = pull_masked(&b, r.at, r.rules, seeds, &inputs, Past::Nothing)?;
    let active = looped.leaves.iter().zip(&looped.active).filter(|(_, a)| **a);
    let results: Vec<Op> = found
        .iter()
        .zip(active)
        .map(|(c, (shape, _))| c.first().copied().flatten().unwrap_or_else(|| zeros(&b, shape)))
        .collect();
    let root = b.tuple(&results);
    b.build_with_root(root)
}

/// A shape with one dimension more, the iterations, first.
fn stacked(shape: &ArrayShape, trips: i64) -> ArrayShape {
    ArrayShape::new(shape.ty, [&[trips], &shape.dims[..]].concat())
}

/// Where an iteration stands in such an array.
fn place(b: &Builder, counter: Op, shape: &ArrayShape) -> Vec<Op> {
    let zero = b.zero(COUNTER);
    std::iter::once(counter).chain(std::iter::repeat_n(zero, shape.rank())).collect()
}

/// Runs the loop and keeps what the leaves `kept` are before each iteration.
fn forwards(r: &Rule<'_>, looped: &Loop, initial: &[Op], kept: &[usize]) -> Result<Vec<Op>> {
    let n = initial.len();
    let mut init = vec![r.b.zero(COUNTER)];
    init.extend(initial);
    for &leaf in kept {
        init.push(zeros_of(r.b, &stacked(&looped.leaves[leaf], looped.trips)));
    }
    let shapes = shapes_of(r.b, &init)?;
    let b = Builder::new_at(r.at, &format!("{}.kept", looped.body.name));
    let now = state(&b, &shapes);
    let (counter, before, stacks) = (now[0], &now[1..=n], &now[n + 1..]);
    let after = looped.iterate(r, &b, before)?;
    let mut next = vec![b.add(counter, b.one(COUNTER))];
    next.extend(after);
    for (&leaf, &stack) in kept.iter().zip(stacks) {
        let shape = &looped.leaves[leaf];
        let value = b.reshape(before[leaf], &stacked(shape, 1).dims);
        next.push(b.dynamic_update_slice(stack, value, &place(&b, counter, shape)));
    }
    let root = b.tuple(&next);
    let body = b.build_with_root(root)?;
    let condition = condition(r, &shapes, Some(i32::try_from(looped.trips).unwrap_or(i32::MAX)))?;
    let result = r.b.while_(&condition, &body, r.b.tuple(&init));
    Ok((0..kept.len()).map(|k| r.b.get_tuple_element(result, (n + 1 + k) as i64)).collect())
}

/// The cotangents of the active leaves before the first iteration.
fn backwards(
    r: &Rule<'_>,
    looped: &Loop,
    derivative: &Module,
    initial: &[Op],
    read: &[bool],
    stacks: &[Op],
) -> Result<Vec<Op>> {
    let active: Vec<usize> = (0..read.len()).filter(|&leaf| looped.active[leaf]).collect();
    let fixed: Vec<usize> = (0..read.len()).filter(|&leaf| read[leaf] && looped.constant[leaf]).collect();
    let kept: Vec<usize> = (0..read.len()).filter(|&leaf| read[leaf] && !looped.constant[leaf]).collect();
    let last = i32::try_from(looped.trips - 1).unwrap_or(0);
    let mut init = vec![r.b.constant_r0(last)];
    for &leaf in &active {
        let ct = r.cotangent.get(leaf).copied().flatten();
        init.push(ct.unwrap_or_else(|| zeros(r.b, &looped.leaves[leaf])));
    }
    init.extend(fixed.iter().map(|&leaf| initial[leaf]));
    init.extend(stacks);
    let shapes = shapes_of(r.b, &init)?;

    let b = Builder::new_at(r.at, &format!("{}.backwards", looped.body.name));
    let now = state(&b, &shapes);
    let counter = now[0];
    let (cotangents, rest) = now[1..].split_at(active.len());
    let (constants, stacks) = rest.split_at(fixed.len());
    let mut arguments = vec![None; read.len()];
    for (&leaf, &value) in fixed.iter().zip(constants) {
        arguments[leaf] = Some(value);
    }
    for (&leaf, &stack) in kept.iter().zip(stacks) {
        let shape = &looped.leaves[leaf];
        let value = b.dynamic_slice(stack, &place(&b, counter, shape), &stacked(shape, 1).dims);
        arguments[leaf] = Some(b.reshape(value, &shape.dims));
    }
    arguments.extend(cotangents.iter().copied().map(Some));
    let result = leaves(&b, replay(&b, r.at, derivative, &arguments)?)?;
    let mut next = vec![b.sub(counter, b.one(COUNTER))];
    next.extend(result);
    next.extend(rest);
    let root = b.tuple(&next);
    let body = b.build_with_root(root)?;
    let result = r.b.while_(&condition(r, &shapes, None)?, &body, r.b.tuple(&init));
    Ok((0..active.len()).map(|k| r.b.get_tuple_element(result, k as i64 + 1)).collect())
}
