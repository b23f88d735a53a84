//! Smaller dimensions.
//!
//! A size is replaced wherever it stands in a shape that the program states; sizes that follow are inferred anew. What an
//! inferred size turned into is remembered, so that a broadcast to a concatenation's size, say, follows the
//! concatenation.

use crate::hlo::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode};
use crate::shape::{InferContext, infer};
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

type Sizes = BTreeMap<i64, i64>;

/// The largest size of a dimension below `below` and above one.
pub fn largest_size(module: &Module, below: i64) -> Option<i64> {
    let instructions = module.order.iter().flat_map(|&c| {
        let computation = &module.computations[c];
        computation.order.iter().map(move |&i| &computation.instructions[i].shape)
    });
    let mut largest = None;
    for shape in instructions {
        for leaf in shape.leaves() {
            let sizes = leaf.as_array().map_or(&[][..], |a| &a.dims);
            largest = largest.max(sizes.iter().copied().filter(|&d| d > 1 && d < below).max());
        }
    }
    largest
}

/// The module with `to` in place of the size `from`.
pub fn shrink(module: &Module, from: i64, to: i64) -> Option<Module> {
    let mut out = module.clone();
    let mut sizes = Sizes::from([(from, to)]);
    for &c in &module.order {
        for &i in &module.computations[c].order {
            let mut instruction = out.instruction(c, i).clone();
            adjust(&mut instruction, &out, c, &mut sizes)?;
            learn(&out.instruction(c, i).shape, &instruction.shape, &mut sizes);
            out.computations[c].instructions[i] = instruction;
        }
    }
    Some(out)
}

fn adjust(instruction: &mut Instruction, module: &Module, c: ComputationId, sizes: &mut Sizes) -> Option<()> {
    let computation = &module.computations[c];
    let shape_of = |o: &InstructionId| &computation.instructions[*o].shape;
    let operands: Vec<&Shape> = instruction.operands.iter().map(shape_of).collect();
    clip_attributes(instruction, &operands, sizes);
    let stated = substitute(&instruction.shape, sizes);
    let inferred = infer(&InferContext::new(module), instruction.opcode, &operands, &instruction.attrs, None).ok();
    instruction.shape = match inferred {
        _ if instruction.opcode == Opcode::Reshape => same_elements(stated, &instruction.shape, operands.first()?)?,
        Some(shape) => with_dims_of(&instruction.shape, &shape).unwrap_or(stated),
        None => stated,
    };
    if let Some(literal) = instruction.literal() {
        let literal = leading(literal, &instruction.shape)?;
        instruction.attrs.set(AttrKey::Literal, AttrValue::Literal(Arc::new(literal)));
    }
    Some(())
}

/// Keeps slices inside what they are taken of.
fn clip_attributes(instruction: &mut Instruction, operands: &[&Shape], sizes: &Sizes) {
    let base: Vec<i64> = operands.first().and_then(|s| s.as_array()).map_or_else(Vec::new, |a| a.dims.clone());
    let new = |n: i64| sizes.get(&n).copied().unwrap_or(n);
    for (key, value) in instruction.attrs.iter_mut() {
        match value {
            AttrValue::SliceRanges(ranges) => {
                for (range, &size) in ranges.iter_mut().zip(&base) {
                    range.limit = range.limit.min(size);
                    range.start = range.start.min(range.limit - i64::from(range.limit > 0));
                }
            }
            AttrValue::Ints(list) if matches!(key, AttrKey::DynamicSliceSizes | AttrKey::SliceSizes) => {
                for (n, &size) in list.iter_mut().zip(&base) {
                    *n = new(*n).min(size);
                }
            }
            AttrValue::Ints(list) if key == AttrKey::FftLength => list.iter_mut().for_each(|n| *n = new(*n)),
            AttrValue::Int(k) if key == AttrKey::K => *k = (*k).min(base.last().copied().unwrap_or(*k)),
            AttrValue::Window(window) if instruction.opcode == Opcode::Convolution => {
                window.iter_mut().for_each(|w| w.size = new(w.size));
            }
            _ => {}
        }
    }
}

fn substitute(shape: &Shape, sizes: &Sizes) -> Shape {
    match shape {
        Shape::Array(a) => {
            let dims = a.dims.iter().map(|d| sizes.get(d).copied().unwrap_or(*d)).collect();
            Shape::Array(ArrayShape { dims, ..a.clone() })
        }
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(|e| substitute(e, sizes)).collect()),
        other => other.clone(),
    }
}

/// `old` with the dimensions of `new`, where both are built alike.
fn with_dims_of(old: &Shape, new: &Shape) -> Option<Shape> {
    match (old, new) {
        (Shape::Array(a), Shape::Array(b)) if a.rank() == b.rank() => {
            Some(Shape::Array(ArrayShape { dims: b.dims.clone(), ..a.clone() }))
        }
        (Shape::Tuple(a), Shape::Tuple(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(x, y)| with_dims_of(x, y)).collect::<Option<_>>().map(Shape::Tuple)
        }
        (Shape::Token, Shape::Token) => Some(Shape::Token),
        _ => None,
    }
}

/// A reshape's result of as many elements as the operand: one dimension takes up the difference, one whose old size was
/// not kept before all others.
fn same_elements(stated: Shape, old: &Shape, operand: &Shape) -> Option<Shape> {
    let (Shape::Array(mut a), Some(from)) = (stated, operand.as_array()) else { return None };
    let (want, have) = (from.checked_elements()? as i64, a.checked_elements()? as i64);
    if want == have {
        return Some(Shape::Array(a));
    }
    let old = &old.as_array()?.dims;
    let mut places: Vec<usize> = (0..a.rank()).collect();
    places.sort_by_key(|&k| (a.dims[k] != old[k], std::cmp::Reverse(old[k])));
    for k in places {
        let others: i64 = a.dims.iter().enumerate().filter(|(d, _)| *d != k).map(|(_, &n)| n).product();
        if others > 0 && want % others == 0 {
            a.dims[k] = want / others;
            return Some(Shape::Array(a));
        }
    }
    None
}

fn learn(old: &Shape, new: &Shape, sizes: &mut Sizes) {
    for (old, new) in old.leaves().into_iter().zip(new.leaves()) {
        if let (Some(old), Some(new)) = (old.as_array(), new.as_array()) {
            for (&o, &n) in old.dims.iter().zip(&new.dims).filter(|(o, n)| o != n) {
                sizes.entry(o).or_insert(n);
            }
        }
    }
}

/// The first elements of a literal along each dimension.
fn leading(literal: &Literal, shape: &Shape) -> Option<Literal> {
    match (literal, shape) {
        (Literal::Array(a), Shape::Array(s)) => leading_array(a, &s.dims).map(Literal::Array),
        (Literal::Tuple(elements), Shape::Tuple(shapes)) if elements.len() == shapes.len() => {
            elements.iter().zip(shapes).map(|(e, s)| leading(e, s)).collect::<Option<Vec<_>>>().map(Literal::Tuple)
        }
        (Literal::Token, Shape::Token) => Some(Literal::Token),
        _ => None,
    }
}

/// The first elements of an array along each dimension: the block of size `dims` at the origin. `None` where the array
/// does not hold it.
pub fn leading_array(array: &ArrayLiteral, dims: &[i64]) -> Option<ArrayLiteral> {
    if array.dims() == dims {
        return Some(array.clone());
    }
    if array.dims().len() != dims.len() || array.dims().iter().zip(dims).any(|(have, want)| want > have || *want < 0) {
        return None;
    }
    let mut out = ArrayLiteral::zeros(&ArrayShape::new(array.ty(), dims));
    let width = array.ty().byte_size();
    let strides = array.strides();
    let mut index = vec![0i64; dims.len()];
    for k in 0..out.elements() {
        let from: i64 = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        let from = usize::try_from(from).ok()? * width;
        out.bytes_mut()[k * width..(k + 1) * width].copy_from_slice(&array.bytes()[from..from + width]);
        for d in (0..dims.len()).rev() {
            index[d] += 1;
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
        }
    }
    Some(out)
}
