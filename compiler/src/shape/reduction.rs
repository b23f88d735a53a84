//! Reductions, windows, scans, maps and batch normalisation.

use super::rule::{Call, Rule, Show, Signature, array, compatible, ensure, fail, parts, promote};
use super::window::window_dims;
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::Reduce => reduce(call),
        Opcode::ReduceWindow => reduce_window(call),
        Opcode::SelectAndScatter => select_and_scatter(call),
        Opcode::Map => map(call),
        Opcode::Scan => scan(call),
        _ => batch_norm(call),
    }
}

/// What a reducing computation is applied to.
pub(super) struct Reducer<'a> {
    /// The attribute that names it.
    pub key: AttrKey,
    /// Types of the initial values.
    pub accumulators: &'a [ElementType],
    /// Types of the elements folded in.
    pub inputs: &'a [ElementType],
}

fn scalar_type(shape: &Shape) -> Option<ElementType> {
    shape.as_array().filter(|a| a.rank() == 0).map(|a| a.ty)
}

/// True where elements of `from` may be folded by a computation over `to`: the same type, another precision, or a wider
/// integer of the same kind.
fn widens(call: &Call<'_>, from: ElementType, to: ElementType) -> bool {
    call.mixes(from, to)
        || (from.is_signed_integer() && to.is_signed_integer() && to.bits() >= from.bits())
        || (from.is_unsigned_integer() && to.is_integer() && to.bits() >= from.bits())
}

/// Checks a computation `(accumulators..., elements...) -> accumulators`, all scalars; yields its result types.
pub(super) fn check_reducer(call: &Call<'_>, reducer: &Reducer<'_>) -> Rule<Vec<ElementType>> {
    let n = reducer.accumulators.len();
    let Signature { parameters, result } = call.callee(reducer.key)?;
    ensure!(
        parameters.len() == 2 * n,
        "reducer.parameters",
        "expected a reducer of {} parameters, found {}",
        2 * n,
        parameters.len()
    );
    let results = parts(result);
    ensure!(
        results.len() == n && (n == 1 || matches!(result, Shape::Tuple(_))),
        "reducer.result",
        "expected a reducer that yields {n} values, found {result:#}"
    );
    let mut out = Vec::with_capacity(n);
    for (i, shape) in results.iter().enumerate() {
        let Some(ty) = scalar_type(shape) else {
            fail!("reducer.result", "expected a scalar as result {i} of the reducer, found {shape:#}");
        };
        for (number, given) in [(i, reducer.accumulators[i]), (n + i, reducer.inputs[i])] {
            let parameter = parameters[number];
            let fits = scalar_type(parameter).is_some_and(|p| call.mixes(p, ty) && widens(call, given, p));
            ensure!(
                fits,
                "reducer.parameter-type",
                "expected a scalar parameter {number} of the reducer that takes {given} and fits its result {ty}, \
                 found {parameter:#}"
            );
        }
        out.push(ty);
    }
    Ok(out)
}

/// The inputs and the scalar initial values of a reduction: as many of each, inputs of the same dimensions.
fn inputs_and_inits<'a>(call: &Call<'a>) -> Rule<Vec<(&'a ArrayShape, &'a ArrayShape)>> {
    let n = call.operands.len() / 2;
    ensure!(
        n > 0 && call.operands.len() == 2 * n,
        "reduce.operands",
        "expected as many inputs as initial values of {}, found {} operands",
        call.opcode,
        call.operands.len()
    );
    let first = call.array(0)?;
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        let (input, init) = (call.array(i)?, call.scalar(n + i)?);
        ensure!(
            input.same_dims(first),
            "reduce.same-dimensions",
            "expected inputs of {} of the same dimensions, found {} and {}",
            call.opcode,
            Show(first),
            Show(input)
        );
        ensure!(
            widens(call, input.ty, init.ty) || widens(call, init.ty, input.ty),
            "reduce.init-type",
            "expected an initial value of type {}, found {}",
            input.ty,
            init.ty
        );
        out.push((input, init));
    }
    Ok(out)
}

fn reducer_types(call: &Call<'_>, pairs: &[(&ArrayShape, &ArrayShape)]) -> Rule<Vec<ElementType>> {
    let inputs: Vec<_> = pairs.iter().map(|(input, _)| input.ty).collect();
    let accumulators: Vec<_> = pairs.iter().map(|(_, init)| init.ty).collect();
    check_reducer(call, &Reducer { key: AttrKey::ToApply, accumulators: &accumulators, inputs: &inputs })
}

fn any_dynamic(pairs: &[(&ArrayShape, &ArrayShape)], d: usize) -> bool {
    pairs.iter().any(|(input, _)| input.dynamic[d])
}

fn reduce(call: &Call<'_>) -> Rule<Shape> {
    let pairs = inputs_and_inits(call)?;
    let first = pairs[0].0;
    let reduced = call.dims(AttrKey::Dimensions, first.rank(), "reduce.dimensions")?;
    let types = reducer_types(call, &pairs)?;
    let kept: Vec<usize> = (0..first.rank()).filter(|d| !reduced.contains(d)).collect();
    let dims: Vec<i64> = kept.iter().map(|&d| first.dims[d]).collect();
    let dynamic: Vec<bool> = kept.iter().map(|&d| any_dynamic(&pairs, d)).collect();
    let results = types.into_iter().map(|ty| array(ty, dims.clone(), dynamic.clone()).into()).collect();
    call.as_called(AttrKey::ToApply, results)
}

fn reduce_window(call: &Call<'_>) -> Rule<Shape> {
    let pairs = inputs_and_inits(call)?;
    let first = pairs[0].0;
    let window = call.attrs.window(AttrKey::Window).unwrap_or(&[]);
    let dims = window_dims(&first.dims, window)?;
    // As XLA has it, a result whose type is left out has the precision of its initial value.
    let types = reducer_types(call, &pairs)?.into_iter().zip(&pairs);
    let types = types.map(|(ty, (_, init))| if call.mixes(ty, init.ty) { init.ty } else { ty });
    let dynamic: Vec<bool> = (0..first.rank()).map(|d| any_dynamic(&pairs, d)).collect();
    let results = types.map(|ty| array(ty, dims.clone(), dynamic.clone()).into()).collect();
    call.as_called(AttrKey::ToApply, results)
}

fn select_and_scatter(call: &Call<'_>) -> Rule<Shape> {
    let (operand, source, init) = (call.array(0)?, call.array(1)?, call.scalar(2)?);
    let dims = window_dims(&operand.dims, call.attrs.window(AttrKey::Window).unwrap_or(&[]))?;
    ensure!(
        source.dims == dims,
        "select-and-scatter.source",
        "expected a source of dimensions {dims:?}, one element a window, found {}",
        Show(source)
    );
    ensure!(
        call.mixes(operand.ty, source.ty) && call.mixes(operand.ty, init.ty),
        "select-and-scatter.type",
        "expected operand, source and initial value of one type, found {}, {} and {}",
        operand.ty,
        source.ty,
        init.ty
    );
    let select = call.callee(AttrKey::SelectComputation)?;
    let two = select.parameters.len() == 2
        && select.parameters.iter().all(|p| scalar_type(p).is_some_and(|ty| call.mixes(ty, operand.ty)));
    ensure!(
        two && scalar_type(select.result) == Some(ElementType::Pred),
        "select-and-scatter.select",
        "expected a select computation from two {} scalars to pred",
        operand.ty
    );
    let reducer = Reducer { key: AttrKey::ScatterComputation, accumulators: &[init.ty], inputs: &[source.ty] };
    let types = check_reducer(call, &reducer)?;
    Ok(operand.with_type(types.first().copied().unwrap_or(operand.ty)).into())
}

fn map(call: &Call<'_>) -> Rule<Shape> {
    let arrays = call.arrays()?;
    let Some(first) = arrays.first() else {
        fail!("arity", "expected at least 1 operand of map, found 0");
    };
    let dims = call.attrs.ints_or_empty(AttrKey::Dimensions);
    let all = dims.iter().copied().eq(0..first.rank() as i64);
    ensure!(
        all || dims.is_empty(),
        "map.dimensions",
        "expected map over all {} dimensions in order, found {dims:?}",
        first.rank()
    );
    let callee = call.callee(AttrKey::ToApply)?;
    ensure!(
        callee.parameters.len() == arrays.len(),
        "map.parameters",
        "expected a computation of {} parameters, found {}",
        arrays.len(),
        callee.parameters.len()
    );
    let mut out = first.with_type(first.ty);
    for (i, (a, p)) in arrays.iter().zip(&callee.parameters).enumerate() {
        ensure!(
            a.same_dims(first),
            "map.same-dimensions",
            "expected operands of the same dimensions, found {} and {}",
            Show(first),
            Show(a)
        );
        ensure!(
            scalar_type(p).is_some_and(|ty| call.mixes(ty, a.ty)),
            "map.parameter-type",
            "expected a {} scalar as parameter {i}, found {p:#}",
            a.ty
        );
        for (flag, &dynamic) in out.dynamic.iter_mut().zip(&a.dynamic) {
            *flag |= dynamic;
        }
    }
    match scalar_type(callee.result) {
        Some(ty) => out.ty = ty,
        None => fail!("map.result", "expected a computation that yields a scalar, found {:#}", callee.result),
    }
    Ok(out.into())
}

/// `scan(inputs..., initial carries...)` walks one dimension of the inputs: at each step the computation takes the
/// carries and one slice of each input, and yields new carries and one slice of each output.
fn scan(call: &Call<'_>) -> Rule<Shape> {
    let count = call.operands.len();
    let carries = match call.attrs.int(AttrKey::NumCarries) {
        Some(n) => match usize::try_from(n).ok().filter(|&n| n <= count) {
            Some(n) => n,
            None => fail!("scan.carries", "expected num_carries from 0 to {count}, found {n}"),
        },
        None => count / 2,
    };
    let inputs: Vec<&ArrayShape> = (0..count - carries).map(|i| call.array(i)).collect::<Rule<_>>()?;
    let Some(first) = inputs.first() else {
        fail!("scan.inputs", "expected an input of scan, found none");
    };
    let axis = call.one_dim(AttrKey::Dimensions, first.rank(), "scan.dimension")?;
    let length = first.dims[axis];
    let mut slices = Vec::with_capacity(inputs.len());
    for input in &inputs {
        ensure!(
            input.dims.get(axis) == Some(&length),
            "scan.lengths",
            "expected inputs of length {length} in dimension {axis}, found {}",
            Show(input)
        );
        let mut slice = input.with_type(input.ty);
        slice.dims.remove(axis);
        slice.dynamic.remove(axis);
        slices.push(Shape::Array(slice));
    }
    let inits = &call.operands[count - carries..];
    let Signature { parameters, result } = call.callee(AttrKey::ToApply)?;
    ensure!(
        parameters.len() == count,
        "scan.parameters",
        "expected a computation of {count} parameters, found {}",
        parameters.len()
    );
    // Both orders of parameters are written: carries first, and slices first.
    let given = |first_half: Vec<&Shape>, second_half: Vec<&Shape>| {
        first_half.into_iter().chain(second_half).zip(&parameters).all(|(a, p)| compatible(a, p, Some(call.cx)))
    };
    let fits = given(inits.to_vec(), slices.iter().collect()) || given(slices.iter().collect(), inits.to_vec());
    ensure!(fits, "scan.parameters", "expected parameters that take the carries and one slice of each input");
    let results = parts(result);
    ensure!(
        results.len() >= carries,
        "scan.result",
        "expected at least {carries} results of the scanned computation, found {}",
        results.len()
    );
    let ends_with_carries =
        results[results.len() - carries..].iter().zip(inits).all(|(r, init)| compatible(r, init, Some(call.cx)));
    let (outputs, last) = if ends_with_carries {
        results.split_at(results.len() - carries)
    } else {
        let (last, outputs) = results.split_at(carries);
        (outputs, last)
    };
    ensure!(
        last.iter().zip(inits).all(|(r, init)| compatible(r, init, Some(call.cx))),
        "scan.carries",
        "expected results that carry the initial values on, found {result:#}"
    );
    let mut out = Vec::with_capacity(results.len());
    for output in outputs {
        let Some(a) = output.as_array() else {
            fail!("scan.result", "expected arrays as results of the scanned computation, found {output:#}");
        };
        let mut whole = a.with_type(a.ty);
        ensure!(axis <= a.rank(), "scan.result", "expected a result of rank {axis} or more, found {}", Show(a));
        whole.dims.insert(axis, length);
        whole.dynamic.insert(axis, first.dynamic[axis]);
        out.push(Shape::Array(whole));
    }
    out.extend(inits.iter().map(|s| s.without_layout()));
    // One result is a tuple of one, unless the program states it alone.
    match (call.declared, &out[..]) {
        (Some(Shape::Array(_)), [only]) => Ok(only.clone()),
        _ => Ok(Shape::tuple(out)),
    }
}

fn batch_norm(call: &Call<'_>) -> Rule<Shape> {
    let operand = call.array(0)?;
    ensure!(
        operand.ty.is_float(),
        "batch-norm.type",
        "expected a floating point operand of {}, found {}",
        call.opcode,
        operand.ty
    );
    let feature = call.dim(AttrKey::FeatureIndex, operand.rank(), "batch-norm.feature-index")?;
    let count = operand.dims[feature];
    let mut ty = operand.ty;
    for i in 1..call.operands.len() {
        let a = call.array(i)?;
        // The last operand of the gradient is the gradient of the output, as large as the operand.
        let expected: &[i64] =
            if call.opcode == Opcode::BatchNormGrad && i == 4 { &operand.dims } else { std::slice::from_ref(&count) };
        ensure!(
            a.dims == expected && call.mixes(a.ty, operand.ty),
            "batch-norm.operands",
            "expected {} of dimensions {expected:?} as operand {i} of {}, found {}",
            operand.ty,
            call.opcode,
            Show(a)
        );
        ty = promote(ty, a.ty);
    }
    let whole = Shape::Array(operand.with_type(operand.ty));
    if call.opcode == Opcode::BatchNormInference {
        return Ok(whole);
    }
    let features = Shape::Array(array(ty, vec![count], vec![operand.dynamic[feature]]));
    Ok(Shape::tuple(vec![whole, features.clone(), features]))
}
