//! Reductions and dots that have nothing, or one element, to fold.

use super::{Found, filled_like};
use crate::hlo::{AttrKey, ComputationId, InstructionId, WindowDimension};
use crate::passes::rewrite::Rewriter;
use crate::passes::value::{self, Element};

/// The rules for `reduce`. The initial value enters exactly once, unless it is the identity.
pub fn reduce(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let instruction = rw.instruction(id);
    let operands = instruction.operands.clone();
    let dims: Vec<i64> = instruction.attrs.ints_or_empty(AttrKey::Dimensions).to_vec();
    let Some(reducer) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    let (inputs, inits) = operands.split_at(operands.len() / 2);
    let Some(&first) = inputs.first() else { return Ok(None) };
    let folded: i64 = dims.iter().filter_map(|&d| rw.dims(first).get(usize::try_from(d).ok()?)).product();
    let tuple = rw.shape(id).as_tuple().is_some();
    if folded == 0 {
        return of_nothing(rw, id);
    }
    if folded != 1 || tuple || inits.len() != 1 {
        return Ok(None);
    }
    one_element(rw, id, first, inits[0], reducer)
}

/// Every element of the result is an initial value.
fn of_nothing(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let operands = rw.instruction(id).operands.clone();
    let tuple = rw.shape(id).as_tuple().is_some();
    let mut filled = Vec::new();
    for (k, &init) in operands[operands.len() / 2..].iter().enumerate() {
        let Some(shape) = rw.shape(id).as_tuple().map_or(Some(rw.shape(id)), |t| t.get(k)) else {
            return Ok(None);
        };
        let Some(shape) = shape.as_array().cloned() else { return Ok(None) };
        filled.push(rw.broadcast_scalar(init, &shape));
    }
    let whole = match filled[..] {
        [only] if !tuple => only,
        _ => rw.tuple(filled),
    };
    Ok(Some(("reduction of nothing", whole)))
}

/// A window over nothing folds nothing; one of one element that stands on every element once folds as a reduction of one element does.
pub fn reduce_window(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let instruction = rw.instruction(id);
    if instruction.operands.first().is_some_and(|&input| rw.dims(input).contains(&0)) {
        return of_nothing(rw, id);
    }
    let [input, init] = instruction.operands[..] else { return Ok(None) };
    let window = instruction.attrs.window(AttrKey::Window).unwrap_or(&[]);
    let single =
        window.iter().all(|w| *w == WindowDimension { window_dilation: w.window_dilation, ..Default::default() });
    let Some(reducer) = instruction.attrs.computation(AttrKey::ToApply) else { return Ok(None) };
    if !single || rw.dims(input) != rw.dims(id) {
        return Ok(None);
    }
    one_element(rw, id, input, init, reducer)
}

/// Every element of the result folds one element of the operand into the initial value.
fn one_element(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    input: InstructionId,
    init: InstructionId,
    reducer: ComputationId,
) -> Found {
    let Some(opcode) = value::binary_reducer(rw.module, reducer) else { return Ok(None) };
    let Some(shape) = rw.array(id).cloned() else { return Ok(None) };
    let elements = rw.reshape(input, &shape.dims);
    if value::splat(rw.computation(), init).is_some_and(|s| value::is_identity(opcode, &s)) {
        return Ok(Some(("reduction of one element", elements)));
    }
    let init = rw.broadcast_scalar(init, &shape);
    Ok(Some(("reduction of one element", rw.elementwise(opcode, vec![init, elements]))))
}

/// A dot that sums over nothing yields zeros; all others keep the numerics of a dot.
pub fn dot(rw: &mut Rewriter<'_>, id: InstructionId) -> Found {
    let lhs = rw.operand(id, 0)?;
    let contracted = rw.instruction(id).attrs.ints_or_empty(AttrKey::LhsContractingDims);
    let empty = contracted.iter().any(|&d| usize::try_from(d).ok().and_then(|d| rw.dims(lhs).get(d)) == Some(&0));
    let Some(ty) = rw.array(id).map(|a| a.ty) else { return Ok(None) };
    if !empty {
        return Ok(None);
    }
    let zero = Element::from_int(ty, 0).or_else(|| Element::from_float(ty, 0.0));
    Ok(filled_like(rw, id, zero).map(|f| ("dot over nothing", f)))
}
