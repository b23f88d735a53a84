//! Bounded dynamic dimensions: after this pass every array is static.
//!
//! **Problem.** A dimension written `<=8` has a size that is known only when the program runs. Memory, loops and index
//! maps of compiled code are made for sizes known beforehand.
//!
//! **Invariant.** Each array that was dynamic is an array at its bounds, whose elements below the true sizes are those
//! that the interpreter computes, and an `s32` scalar for each dynamic dimension, its true size, `0 ..= bound`. What
//! lies past the true sizes may be anything, so no element below them is ever computed from one past them.
//!
//! **Algorithm.** The entry is emitted anew, instruction by instruction ([`walk`]), each by a rule that says what the
//! sizes of its result are and what must be done for the invariant: nothing for elementwise operations; replacing what
//! lies past the size by something neutral where elements are folded ([`reduction`], [`contraction`]); moving along
//! offsets known at run time where elements are packed ([`movement`]); narrower clamping where there are indices
//! ([`indexing`]). Calls are inlined; loops and branches get computations of their own, whose state and results carry
//! sizes as more tuple elements ([`value`]). Which loop states are dynamic is guessed from what is declared and from
//! the initial state, and guessed again where the body disagrees.
//!
//! **The entry.** A dynamic parameter leaf becomes a tuple of two: its elements, and an `s32` vector of the sizes of all
//! its dimensions; a result leaf likewise. In the buffers that callers pass the two lie one behind the other, at
//! [`brolga_runtime::abi::dynamic_sizes_offset`]; `ModuleConfig::abi` keeps the shapes that callers see, so that the
//! schedule knows. Sizes from callers are clamped into the bounds.
//!
//! `docs/semantics/dynamic.md` has the rules and what cannot be expressed.

mod contraction;
mod draft;
mod indexing;
mod movement;
mod reduction;
mod site;
#[cfg(test)]
mod tests;
mod value;
mod walk;

use super::Stats;
use super::rewrite::{fresh_computation_name, sort_computations};
use crate::error::Result;
use crate::hlo::{Alias, ComputationId, InstructionId, Module, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};
use cranelift_entity::SecondaryMap;
use draft::Draft;
use value::{Form, Size, Value, element, pack, static_array};
use walk::Walk;

/// Makes every array static.
///
/// # Errors
/// [`crate::Error::Unsupported`] names an instruction that has no form with run-time sizes.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    sort_computations(module)?;
    let touched = touched(module);
    if !touched[module.entry] {
        return Ok(stats);
    }
    let entry = module.entry().clone();
    let (parameters, result) = module.interface();
    let mut draft = Draft::new();
    let mut arguments = Vec::new();
    for (number, &p) in entry.parameters().iter().enumerate() {
        let inst = &entry.instructions[p];
        draft.work_on(inst);
        let seen = parameters.get(number).unwrap_or(&inst.shape);
        let parameter = draft.parameter(number, with_sizes(&inst.shape));
        arguments.push(received(&mut draft, parameter, &inst.shape, seen)?);
    }
    let mut walk = Walk { module, touched, depth: 0 };
    let value = walk.body(&mut draft, walk.module.entry, &arguments)?;
    draft.work_on(&entry.instructions[entry.root]);
    let root = delivered(&mut draft, &value, entry.result_shape(), &result)?;
    let emitted = draft.instructions.len();
    let name = fresh_computation_name(module, &entry.name);
    let id = draft.finish(module, name, root);
    module.computations[id].trailing.clone_from(&entry.trailing);
    module.computations[id].location = entry.location;
    module.entry = id;
    module.config.abi = Some((parameters.clone(), result.clone()));
    module.config.entry_layout = None;
    // A leaf with sizes is two, which no declaration of shared memory means.
    module.config.aliases.retain(|a| !shares_sizes(a, &parameters, &result));
    sort_computations(module)?;
    stats.add("instructions of static programs", emitted);
    Ok(stats)
}

/// Which computations hold something dynamic, or call one that does.
fn touched(module: &Module) -> SecondaryMap<ComputationId, bool> {
    let mut touched: SecondaryMap<ComputationId, bool> = SecondaryMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        touched[id] = computation.order.iter().any(|&i| {
            let inst = &computation.instructions[i];
            let about_sizes =
                matches!(inst.opcode, Opcode::SetDimensionSize | Opcode::GetDimensionSize | Opcode::DynamicReshape);
            let marked = inst.shape.leaves().iter().any(|s| s.as_array().is_some_and(ArrayShape::is_dynamic));
            about_sizes || marked || inst.attrs.called().iter().any(|&c| touched[c])
        });
    }
    touched
}

/// The shape with a tuple of elements and sizes for each dynamic leaf.
fn with_sizes(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(a) if a.is_dynamic() => {
            Shape::tuple(vec![static_array(a).into(), Shape::array(ElementType::S32, [a.rank() as i64])])
        }
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(with_sizes).collect()),
        other => other.clone(),
    }
}

/// Which dimension of what callers see each dimension of the entry's own array is: the latter is in the order of memory.
fn order_seen(seen: &Shape, rank: usize) -> Vec<usize> {
    match seen.as_array().filter(|a| a.rank() == rank) {
        Some(array) => array.minor_to_major().into_iter().rev().collect(),
        None => (0..rank).collect(),
    }
}

fn part(shape: &Shape, k: usize) -> &Shape {
    shape.as_tuple().and_then(|t| t.get(k)).unwrap_or(shape)
}

/// The value of a parameter, of which `id` is the packed form, `own` the shape and `seen` the shape for callers.
fn received(draft: &mut Draft, id: InstructionId, own: &Shape, seen: &Shape) -> Result<Value> {
    match own {
        Shape::Array(a) if a.is_dynamic() => {
            let (data, vector) = (draft.element(id, 0)?, draft.element(id, 1)?);
            let mut sizes: Vec<Size> = Vec::new();
            for ((&d, &bound), &dynamic) in order_seen(seen, a.rank()).iter().zip(&a.dims).zip(&a.dynamic) {
                if i32::try_from(bound).is_err() {
                    return Err(draft.unsupported("a dynamic dimension of 2^31 or more"));
                }
                sizes.push(if dynamic && bound > 0 {
                    let size = draft.pick(vector, d)?;
                    Some(draft.clamp_int(size, 0, bound)?)
                } else {
                    None
                });
            }
            Ok(Value::new(data, sizes))
        }
        Shape::Tuple(shapes) if with_sizes(own) != *own => {
            let mut elements = Vec::with_capacity(shapes.len());
            for (k, shape) in shapes.iter().enumerate() {
                let element = draft.element(id, k)?;
                elements.push(received(draft, element, shape, part(seen, k))?);
            }
            Ok(Value::tuple(draft, elements))
        }
        _ => Ok(Value::Whole(id)),
    }
}

/// One instruction of the form of [`with_sizes`].
fn delivered(draft: &mut Draft, value: &Value, own: &Shape, seen: &Shape) -> Result<InstructionId> {
    match own {
        Shape::Array(a) if a.is_dynamic() => {
            let data = value.data().ok_or_else(|| draft.internal("an array was expected"))?;
            let order = order_seen(seen, a.rank());
            let mut places = vec![None; a.rank()];
            for (k, (&d, &bound)) in order.iter().zip(&a.dims).enumerate() {
                if value.size(k).is_some() && a.dynamic.get(k) != Some(&true) {
                    return pack(draft, value, &Form::Static);
                }
                let size = match value.size(k) {
                    Some(size) => size,
                    None => draft.s32(bound),
                };
                let one = draft.reshape(size, &[1])?;
                if let Some(slot) = places.get_mut(d) {
                    *slot = Some(one);
                }
            }
            let sizes = draft.concatenate(places.into_iter().flatten().collect(), 0)?;
            Ok(draft.tuple(vec![data, sizes]))
        }
        Shape::Tuple(shapes) => {
            if let Some(id) = value.whole().filter(|_| with_sizes(own) == *own) {
                return Ok(id);
            }
            let mut parts = Vec::with_capacity(shapes.len());
            for (k, shape) in shapes.iter().enumerate() {
                let element = element(draft, value, k)?;
                parts.push(delivered(draft, &element, shape, part(seen, k))?);
            }
            Ok(draft.tuple(parts))
        }
        _ => pack(draft, value, &Form::Static),
    }
}

/// Whether an alias names a dynamic leaf, or a tuple leaf whose path has changed.
fn shares_sizes(alias: &Alias, parameters: &[Shape], result: &Shape) -> bool {
    let leaf = |shape: &Shape, path: &[usize]| path.iter().fold(shape.clone(), |s, &k| part(&s, k).clone());
    let dynamic = |s: Shape| s.as_array().is_some_and(ArrayShape::is_dynamic);
    let parameter = parameters.get(alias.parameter).cloned().unwrap_or(Shape::Token);
    dynamic(leaf(&parameter, &alias.parameter_index)) || dynamic(leaf(result, &alias.output_index))
}
