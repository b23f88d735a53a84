//! Reductions, windows and sorting: elements past the true size must not take part.
//!
//! Where the reducer is one operation with a neutral element, that element stands in for what does not exist. Any
//! other reducer gets one more value, whether the element exists, and a computation around its own that skips those
//! which do not; so the initial value, too, enters exactly once. A sort gets one more operand in the same way, and a
//! comparator that puts what does not exist last.

use super::draft::Draft;
use super::site::Site;
use super::value::{Size, Value, at_bounds, static_array};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Module, Opcode, WindowDimension};
use crate::passes::expand::is_arithmetic;
use crate::passes::rewrite::fresh_computation_name;
use crate::passes::value::{Element, binary_reducer, int_range};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Shape};
use hashbrown::HashMap;

/// The results of an operation that yields an array or a tuple of arrays, all of the same true sizes.
pub(super) fn results(draft: &mut Draft, out: InstructionId, sizes: &[Size]) -> Result<Value> {
    let Some(count) = draft.shape(out).as_tuple().map(<[Shape]>::len) else {
        return Ok(Value::new(out, sizes.to_vec()));
    };
    if sizes.iter().all(Option::is_none) {
        return Ok(Value::Whole(out));
    }
    let elements: Result<Vec<Value>> =
        (0..count).map(|k| Ok(Value::new(draft.element(out, k)?, sizes.to_vec()))).collect();
    Ok(Value::Tuple(elements?))
}

/// What changes nothing when folded in with one operation.
fn neutral(opcode: Opcode, ty: ElementType) -> Option<ArrayLiteral> {
    let range = int_range(ty);
    let float = |v| Element::from_float(ty, v);
    let bound = |pick: fn((i128, i128)) -> i128, v| match range {
        Some(range) => Element::from_int(ty, pick(range)),
        None => float(v),
    };
    let is_pred = ty == ElementType::Pred;
    let element = match opcode {
        // 0 + -0 is 0: only -0 leaves every float alone.
        Opcode::Add if range.is_none() && !is_pred => float(-0.0),
        Opcode::Add | Opcode::Or | Opcode::Xor => Element::from_int(ty, 0),
        Opcode::Multiply => Element::one(ty),
        Opcode::And if is_pred => Element::from_int(ty, 1),
        Opcode::And => Element::from_int(ty, -1),
        Opcode::Maximum if !is_pred => bound(|r| r.0, f64::NEG_INFINITY),
        Opcode::Minimum if !is_pred => bound(|r| r.1, f64::INFINITY),
        _ => None,
    };
    element?.literal()
}

/// Whether an operation of two operands of a type rounds, so that its neutral element may not be one after all: a
/// reducer whose parameters are of another type than its operands.
fn plain_reducer(module: &Module, id: ComputationId, ty: ElementType) -> Option<Opcode> {
    let opcode = binary_reducer(module, id)?;
    let same = module.computations[id].result_shape().as_array().is_some_and(|a| a.ty == ty);
    same.then_some(opcode)
}

/// A copy of `inner`, a computation on scalars, in `draft`: its parameters are `arguments`. Yields its results.
fn copied(
    draft: &mut Draft,
    module: &Module,
    inner: ComputationId,
    arguments: &[InstructionId],
) -> Result<Vec<InstructionId>> {
    let computation = &module.computations[inner];
    let mut map: HashMap<InstructionId, InstructionId> = HashMap::new();
    for &i in &computation.order {
        let inst = &computation.instructions[i];
        let new = if inst.opcode == Opcode::Parameter {
            let argument = inst.parameter_number().and_then(|n| arguments.get(n).copied());
            argument.ok_or_else(|| draft.internal("a parameter of a reducer without an argument"))?
        } else {
            draft.work_on(inst);
            let operands: Option<Vec<InstructionId>> = inst.operands.iter().map(|o| map.get(o).copied()).collect();
            let operands = operands.ok_or_else(|| draft.internal("an operand comes later"))?;
            let mut attrs = inst.attrs.clone();
            attrs.remove(AttrKey::ControlPredecessors);
            draft.emit(inst.opcode, at_bounds(&inst.shape), operands, attrs)
        };
        map.insert(i, new);
    }
    let root = map.get(&computation.root).copied().ok_or_else(|| draft.internal("a root is missing"))?;
    match draft.shape(root).as_tuple().map(<[Shape]>::len) {
        Some(n) => (0..n).map(|k| draft.element(root, k)).collect(),
        None => Ok(vec![root]),
    }
}

/// The parameters of `inner` in order, after which `flag` says whether something exists: `types` of them, twice.
fn parameter_types(module: &Module, inner: ComputationId) -> Vec<Shape> {
    let computation = &module.computations[inner];
    computation.parameters().iter().map(|&p| at_bounds(&computation.instructions[p].shape)).collect()
}

/// Whether the computation of an operation may loop, and so must not be handed what does not exist even where nobody
/// looks at what it yields.
fn may_loop(module: &Module, at: &Site<'_>) -> bool {
    at.inst.attrs.computation(AttrKey::ToApply).is_some_and(|callee| !is_arithmetic(module, callee))
}

/// As [`copied`], for a computation that may loop: where `condition` does not hold it is not run, and yields anything.
fn asked(
    draft: &mut Draft,
    module: &mut Module,
    inner: ComputationId,
    condition: InstructionId,
    arguments: &[InstructionId],
) -> Result<Vec<InstructionId>> {
    if is_arithmetic(module, inner) {
        return copied(draft, module, inner, arguments);
    }
    let name = fresh_computation_name(module, &module.computations[inner].name);
    let shape = Shape::Tuple(arguments.iter().map(|&a| draft.shape(a).clone()).collect());
    let mut yes = draft.beside();
    let whole = yes.parameter(0, shape.clone());
    let elements: Vec<InstructionId> = (0..arguments.len()).map(|k| yes.element(whole, k)).collect::<Result<_>>()?;
    let results = copied(&mut yes, module, inner, &elements)?;
    let root = yes.tuple(results);
    let result = yes.shape(root).clone();
    let yes = yes.finish(module, name, root);
    let mut no = draft.beside();
    no.parameter(0, shape);
    let mut zeros = Vec::new();
    for part in result.leaves() {
        let ty = part.as_array().map(|a| a.ty).ok_or_else(|| no.internal("a computation on scalars was expected"))?;
        zeros.push(no.zero(ty));
    }
    let root = no.tuple(zeros);
    let name = fresh_computation_name(module, "unasked");
    let no = no.finish(module, name, root);
    let attrs = Attrs::new()
        .with(AttrKey::TrueComputation, AttrValue::Computation(yes))
        .with(AttrKey::FalseComputation, AttrValue::Computation(no));
    let count = result.leaf_count();
    let given = draft.tuple(arguments.to_vec());
    let chosen = draft.emit(Opcode::Conditional, result, vec![condition, given, given], attrs);
    (0..count).map(|k| draft.element(chosen, k)).collect()
}

/// A reducer around `inner` whose last component says whether the element exists.
fn skipping(draft: &Draft, module: &mut Module, at: &Site<'_>, inner: ComputationId) -> Result<ComputationId> {
    let shapes = parameter_types(module, inner);
    let n = shapes.len() / 2;
    let mut own = Draft::new();
    own.work_on(at.inst);
    let flag = Shape::scalar(ElementType::S32);
    let mut parameters = Vec::new();
    for (k, shape) in shapes[..n].iter().chain([&flag]).chain(&shapes[n..]).chain([&flag]).enumerate() {
        parameters.push(own.parameter(k, shape.clone()));
    }
    let (sums, values) = parameters.split_at(n + 1);
    let arguments: Vec<InstructionId> = sums[..n].iter().chain(&values[..n]).copied().collect();
    let zero = own.s32(0);
    let (begun, exists) = (own.compare("NE", sums[n], zero)?, own.compare("NE", values[n], zero)?);
    let both = own.and(begun, exists);
    let combined = asked(&mut own, module, inner, both, &arguments)?;
    own.work_on(at.inst);
    let mut parts = Vec::new();
    for ((&result, &sum), &value) in combined.iter().zip(sums).zip(values) {
        let ty = own.array(result)?.ty;
        let (sum, value) = (own.convert(sum, ty)?, own.convert(value, ty)?);
        let taken = own.select(begun, result, value);
        parts.push(own.select(exists, taken, sum));
    }
    if parts.len() != n {
        return Err(draft.internal("a reducer of other values"));
    }
    parts.push(own.op(Opcode::Or, &[sums[n], values[n]]));
    let root = own.tuple(parts);
    let name = fresh_computation_name(module, &module.computations[inner].name);
    Ok(own.finish(module, name, root))
}

/// The reduction or window with what lies past `sizes` left out.
fn folded(draft: &mut Draft, at: &Site<'_>, module: &mut Module, sizes: &[Size]) -> Result<InstructionId> {
    let mut operands = at.all_data(draft)?;
    let n = operands.len() / 2;
    let callee = at.inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| draft.internal("no reducer"))?;
    if sizes.iter().all(Option::is_none) {
        return Ok(at.again(draft, operands));
    }
    let first = draft.array(operands[0])?;
    let plain = if n == 1 { plain_reducer(module, callee, first.ty) } else { None };
    if let Some(fill) = plain.and_then(|op| neutral(op, first.ty)) {
        let fill = draft.constant(fill);
        operands[0] = draft.masked(operands[0], sizes, fill)?;
        return Ok(at.again(draft, operands));
    }
    let callee = skipping(draft, module, at, callee)?;
    let Some(valid) = draft.valid(&first.dims, sizes)? else { return Err(draft.internal("nothing to skip")) };
    let valid = draft.convert(valid, ElementType::S32)?;
    operands.insert(n, valid);
    operands.push(draft.s32(1));
    let given = at_bounds(&at.inst.shape);
    let mut parts = match &given {
        Shape::Tuple(elements) => elements.to_vec(),
        single => vec![single.clone()],
    };
    let flags = parts[0].as_array().map(|a| a.with_type(ElementType::S32));
    parts.push(flags.ok_or_else(|| draft.internal("an array was expected"))?.into());
    let mut attrs = at.attrs.clone();
    attrs.set(AttrKey::ToApply, AttrValue::Computation(callee));
    let all = draft.emit(at.inst.opcode, Shape::tuple(parts), operands, attrs);
    let elements: Vec<InstructionId> = (0..n).map(|k| draft.element(all, k)).collect::<Result<_>>()?;
    Ok(match given {
        Shape::Tuple(_) => draft.tuple(elements),
        _ => elements[0],
    })
}

/// The true sizes of the arrays that a reduction reads: of the first that has one.
fn input_sizes(at: &Site<'_>, rank: usize) -> Vec<Size> {
    (0..rank).map(|d| at.size_of_first(0..at.operands.len() / 2, d)).collect()
}

pub(super) fn reduce(draft: &mut Draft, at: &Site<'_>, module: &mut Module) -> Result<Value> {
    let rank = draft.array(at.data(draft, 0)?)?.rank();
    let reduced = at.inst.attrs.dimension_numbers(AttrKey::Dimensions);
    let sizes = input_sizes(at, rank);
    let asks = may_loop(module, at);
    let folded_sizes: Vec<Size> =
        sizes.iter().enumerate().map(|(d, &size)| size.filter(|_| asks || reduced.contains(&d))).collect();
    let kept: Vec<Size> = (0..rank).filter(|d| !reduced.contains(d)).map(|d| sizes[d]).collect();
    let out = folded(draft, at, module, &folded_sizes)?;
    results(draft, out, &kept)
}

/// How many places a window has over `size` elements; [`crate::shape::window_output_size`] on run-time numbers.
pub(super) fn window_places(
    draft: &mut Draft,
    size: InstructionId,
    w: &WindowDimension,
    bound: i64,
) -> Result<InstructionId> {
    let one_less = draft.add_int(size, -1)?;
    let broadcast = draft.times(one_less, w.base_dilation)?;
    let broadcast = draft.add_int(broadcast, 1)?;
    let zero = draft.s32(0);
    // Nothing is not dilated.
    let base = draft.maximum(broadcast, zero);
    let padded = draft.add_int(base, w.padding_low.saturating_add(w.padding_high))?;
    let span = (w.size - 1).saturating_mul(w.window_dilation);
    let room = draft.add_int(padded, w.stride - 1 - span)?;
    let room = draft.maximum(room, zero);
    let stride = draft.s32(w.stride);
    let places = draft.divide(room, stride);
    draft.clamp_int(places, 0, bound)
}

pub(super) fn reduce_window(draft: &mut Draft, at: &Site<'_>, module: &mut Module) -> Result<Value> {
    let rank = draft.array(at.data(draft, 0)?)?.rank();
    let sizes = input_sizes(at, rank);
    let window = at.inst.attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
    let places = at.inst.shape.leaves().first().and_then(|s| s.as_array().map(|a| a.dims.clone())).unwrap_or_default();
    if window.len() != rank || places.len() != rank {
        return at.unsupported(draft);
    }
    let moved = |d: usize| window[d] != WindowDimension::default();
    let asks = may_loop(module, at);
    let seen: Vec<Size> = sizes.iter().enumerate().map(|(d, &size)| size.filter(|_| asks || moved(d))).collect();
    let mut out_sizes = Vec::new();
    for (d, &size) in sizes.iter().enumerate() {
        out_sizes.push(match size {
            Some(size) if moved(d) => Some(window_places(draft, size, &window[d], places[d])?),
            size => size,
        });
    }
    let out = folded(draft, at, module, &seen)?;
    results(draft, out, &out_sizes)
}

/// A comparator around `inner` that puts what does not exist last.
fn existing_first(module: &mut Module, at: &Site<'_>, inner: ComputationId) -> Result<ComputationId> {
    let mut own = Draft::new();
    own.work_on(at.inst);
    let mut parameters = Vec::new();
    for (k, shape) in parameter_types(module, inner).into_iter().enumerate() {
        parameters.push(own.parameter(k, shape));
    }
    let n = parameters.len();
    let flag = Shape::scalar(ElementType::S32);
    let (a, b) = (own.parameter(n, flag.clone()), own.parameter(n + 1, flag));
    let zero = own.s32(0);
    let (one, other) = (own.compare("EQ", a, zero)?, own.compare("EQ", b, zero)?);
    let exists = own.and(one, other);
    let order = asked(&mut own, module, inner, exists, &parameters)?;
    own.work_on(at.inst);
    let order = order.first().copied().ok_or_else(|| own.internal("a comparator without a result"))?;
    let (same, before) = (own.compare("EQ", a, b)?, own.compare("LT", a, b)?);
    let inside = own.and(order, exists);
    let root = own.select(same, inside, before);
    let name = fresh_computation_name(module, &module.computations[inner].name);
    Ok(own.finish(module, name, root))
}

/// The operands sorted along `d` by `comparator`. Only elements below `sizes` exist; those come first.
fn sorted(
    draft: &mut Draft,
    at: &Site<'_>,
    module: &mut Module,
    mut operands: Vec<InstructionId>,
    (d, sizes, comparator): (usize, &[Size], ComputationId),
) -> Result<Vec<InstructionId>> {
    let n = operands.len();
    let dims =
        operands.first().map_or_else(|| Err(draft.internal("nothing to sort")), |&o| Ok(draft.array(o)?.dims))?;
    let valid = draft.valid(&dims, sizes)?.ok_or_else(|| draft.internal("nothing is missing"))?;
    let missing = draft.op(Opcode::Not, &[valid]);
    operands.push(draft.convert(missing, ElementType::S32)?);
    let parts = operands.iter().map(|&o| draft.shape(o).clone()).collect();
    let callee = existing_first(module, at, comparator)?;
    let mut attrs = Attrs::new()
        .with(AttrKey::Dimensions, AttrValue::Ints(vec![d as i64]))
        .with(AttrKey::ToApply, AttrValue::Computation(callee));
    if let Some(before) = at.attrs.get(AttrKey::ControlPredecessors) {
        attrs.set(AttrKey::ControlPredecessors, before.clone());
    }
    let all = draft.emit(Opcode::Sort, Shape::Tuple(parts), operands, attrs);
    (0..n).map(|k| draft.element(all, k)).collect()
}

pub(super) fn sort(draft: &mut Draft, at: &Site<'_>, module: &mut Module) -> Result<Value> {
    let operands = at.all_data(draft)?;
    let shape: ArrayShape = draft.array(at.data(draft, 0)?)?;
    let sizes: Vec<Size> = (0..shape.rank()).map(|d| at.size_of_first(0..operands.len(), d)).collect();
    let Some(d) = at.inst.attrs.dimension_numbers(AttrKey::Dimensions).first().copied() else {
        return at.unsupported(draft);
    };
    let callee = at.inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| draft.internal("no comparator"))?;
    let asks = may_loop(module, at);
    let seen: Vec<Size> = sizes.iter().enumerate().map(|(k, &size)| size.filter(|_| asks || k == d)).collect();
    if seen.iter().all(Option::is_none) {
        let out = at.again(draft, operands);
        return results(draft, out, &sizes);
    }
    let elements = sorted(draft, at, module, operands, (d, &seen, callee))?;
    let out = match (&elements[..], at.inst.shape.as_array()) {
        (&[only], Some(_)) => only,
        _ => draft.tuple(elements),
    };
    results(draft, out, &sizes)
}

/// Along a dynamic dimension, the beginning of a sort of the elements beside their places.
pub(super) fn top_k(draft: &mut Draft, at: &Site<'_>, module: &mut Module) -> Result<Value> {
    let data = at.data(draft, 0)?;
    let shape = draft.array(data)?;
    let Some(d) = shape.rank().checked_sub(1) else { return at.unsupported(draft) };
    let mut sizes = at.operand(draft, 0)?.sizes(shape.rank());
    let size = sizes.get_mut(d).and_then(Option::take);
    if size.is_none() {
        let out = at.again(draft, vec![data]);
        return results(draft, out, &sizes);
    }
    let seen: Vec<Size> = (0..shape.rank()).map(|k| size.filter(|_| k == d)).collect();
    let mut own = Draft::new();
    own.work_on(at.inst);
    let types = [shape.ty, shape.ty, ElementType::S32, ElementType::S32];
    let [a, b, ..] = [0, 1, 2, 3].map(|k| own.parameter(k, Shape::scalar(types[k])));
    let largest = at.inst.attrs.bool(AttrKey::Largest).unwrap_or(true);
    let mut attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(if largest { "GT" } else { "LT" }));
    if shape.ty.is_float() {
        attrs.set(AttrKey::ComparisonType, AttrValue::Word("TOTALORDER"));
    }
    let root = own.emit(Opcode::Compare, Shape::scalar(ElementType::Pred), vec![a, b], attrs);
    let name = fresh_computation_name(module, "before");
    let comparator = own.finish(module, name, root);
    let places = draft.iota(ElementType::S32, &shape.dims, d);
    let mut parts = sorted(draft, at, module, vec![data, places], (d, &seen, comparator))?;
    for (part, kept) in parts.iter_mut().zip(at.inst.shape.leaves()) {
        let kept = kept.as_array().map(|a| a.dims.clone()).unwrap_or_default();
        *part = draft.beginning(*part, &kept)?;
    }
    let out = draft.tuple(parts);
    results(draft, out, &sizes)
}

/// Elements are computed at the bounds, but for those that do not exist where the computation may loop.
pub(super) fn map(draft: &mut Draft, at: &Site<'_>, module: &mut Module) -> Result<Value> {
    let shape = at.inst.shape.as_array().map(static_array).ok_or_else(|| draft.internal("an array was expected"))?;
    let sizes: Vec<Size> = (0..shape.rank()).map(|d| at.size_of_first(0..at.operands.len(), d)).collect();
    let mut operands = at.all_data(draft)?;
    let valid = if may_loop(module, at) { draft.valid(&shape.dims, &sizes)? } else { None };
    let (Some(valid), Some(callee)) = (valid, at.inst.attrs.computation(AttrKey::ToApply)) else {
        return Ok(Value::new(at.again(draft, operands), sizes));
    };
    let mut own = Draft::new();
    own.work_on(at.inst);
    let exists = own.parameter(0, Shape::scalar(ElementType::Pred));
    let mut parameters = Vec::new();
    for (k, shape) in parameter_types(module, callee).into_iter().enumerate() {
        parameters.push(own.parameter(k + 1, shape));
    }
    let mapped = asked(&mut own, module, callee, exists, &parameters)?;
    let root = mapped.first().copied().ok_or_else(|| own.internal("a map to nothing"))?;
    let name = fresh_computation_name(module, &module.computations[callee].name);
    let callee = own.finish(module, name, root);
    operands.insert(0, valid);
    let mut attrs = at.attrs.clone();
    attrs.set(AttrKey::ToApply, AttrValue::Computation(callee));
    let out = draft.emit(Opcode::Map, shape, operands, attrs);
    Ok(Value::new(out, sizes))
}
