//! `select-and-scatter` as a window reduction that finds places, and a scatter to them.
//!
//! Invariant: as `interp/reduction.rs` has it, a window chooses its first element inside the operand, and then each
//! later one for which the select computation, asked about the chosen and the later one, says no; padding is never
//! chosen, and a window without elements chooses nothing. Sources reach their places in row-major order of the
//! windows. Algorithm: a variadic `reduce-window`, which goes through a window in row-major order, over the operand and
//! each element's place; a place of -1 says «nothing yet», and as an index of the scatter it is outside and skipped.
//! Places are those in the array at its bounds, so that nothing changes where dimensions are dynamic.

use super::draft::{Draft, is_arithmetic};
use super::element_loop;
use super::flat_scatter::into_vector;
use super::formula::{iota, scalar};
use super::sizes::sized;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Opcode, WindowDimension};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape};

/// Expands `select-and-scatter`; `None` where types or sizes are out of the ordinary.
pub fn select_and_scatter(rw: &mut Rewriter<'_>, id: InstructionId) -> Result<Option<InstructionId>> {
    let attrs = &rw.instruction(id).attrs;
    let (Some(select), Some(scatter)) =
        (attrs.computation(AttrKey::SelectComputation), attrs.computation(AttrKey::ScatterComputation))
    else {
        return Ok(None);
    };
    let mut window = attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
    let (operand, source) = (rw.operand(id, 0)?, rw.operand(id, 1)?);
    let init = rw.operand(id, 2)?;
    let (Some(whole), Some(windows)) = (rw.array(operand).cloned(), rw.array(source).cloned()) else {
        return Ok(None);
    };
    let Some(result) = rw.array(id).map(|a| a.with_type(a.ty)) else { return Ok(None) };
    if window.is_empty() {
        window = vec![WindowDimension::default(); whole.rank()];
    }
    let elements = |dims: &[i64]| dims.iter().try_fold(1i64, |product, &d| product.checked_mul(d));
    let (Some(places), Some(sources)) = (elements(&whole.dims), elements(&windows.dims)) else { return Ok(None) };
    let init = rw.reshape(init, &[]);
    let started = rw.broadcast_scalar(init, &ArrayShape::new(result.ty, [places]));
    if places == 0 || sources == 0 {
        let started = rw.reshape(started, &result.dims);
        return Ok(Some(sized(rw, started, operand, &result)));
    }
    let index_type = element_loop::index_type(places);
    let Some(chooser) = chooser(rw, id, select, whole.ty, index_type)? else { return Ok(None) };
    if !scalars(rw, scatter, [result.ty; 2], result.ty) || windows.ty != result.ty {
        return Ok(None);
    }

    let numbers = iota(rw, index_type, &[places], 0);
    let numbers = rw.reshape(numbers, &whole.dims);
    let numbers = sized(rw, numbers, operand, &whole);
    let nothing = scalar(rw, index_type, Scalar::Int(-1));
    let unused = scalar(rw, whole.ty, Scalar::Int(0));
    let shape = Shape::tuple(vec![windows.with_type(whole.ty).into(), windows.with_type(index_type).into()]);
    let attrs = Attrs::new()
        .with(AttrKey::Window, AttrValue::Window(window))
        .with(AttrKey::ToApply, AttrValue::Computation(chooser));
    let chosen = rw.emit(Opcode::ReduceWindow, shape, vec![operand, numbers, unused, nothing], attrs);
    let chosen = element_loop::reduce_window(rw, chosen)?.unwrap_or(chosen);
    let chosen = rw.element(chosen, 1);

    // Without true sizes in the way one long loop does.
    let dims = if windows.is_dynamic() { windows.dims.clone() } else { vec![sources] };
    let operands = vec![started, rw.reshape(chosen, &dims), rw.reshape(source, &dims)];
    let attrs = into_vector(dims.len()).with(AttrKey::ToApply, AttrValue::Computation(scatter));
    let scattered = rw.emit(Opcode::Scatter, Shape::array(result.ty, [places]), operands, attrs);
    let scattered = element_loop::scatter(rw, scattered)?.unwrap_or(scattered);
    let scattered = rw.reshape(scattered, &result.dims);
    Ok(Some(sized(rw, scattered, operand, &result)))
}

/// Whether a computation takes two scalars of these types and yields one.
fn scalars(rw: &Rewriter<'_>, computation: ComputationId, takes: [ElementType; 2], yields: ElementType) -> bool {
    let computation = &rw.module.computations[computation];
    let parameters = computation.parameters();
    let is = |shape: &Shape, ty| shape.same_ignoring_layout(&Shape::scalar(ty));
    parameters.len() == 2
        && parameters.iter().zip(takes).all(|(&p, ty)| is(&computation.instructions[p].shape, ty))
        && is(computation.result_shape(), yields)
}

/// The computation that keeps the chosen value and place or takes the newcomer's.
fn chooser(
    rw: &mut Rewriter<'_>,
    id: InstructionId,
    select: ComputationId,
    ty: ElementType,
    index_type: ElementType,
) -> Result<Option<ComputationId>> {
    if !scalars(rw, select, [ty; 2], ElementType::Pred) {
        return Ok(None);
    }
    let mut d = Draft::new(rw.instruction(id).location);
    let types = [ty, index_type, ty, index_type];
    let [best, place, value, number] = [0, 1, 2, 3].map(|n| d.parameter(n, Shape::scalar(types[n])));
    let zero = d.beside(place, 0);
    let something = d.compare(place, "GE", zero);
    let keep = if is_arithmetic(rw.module, select) {
        let keep = d.inline(rw.module, select, &[best, value])?;
        d.op(Opcode::And, &[something, keep])
    } else {
        let no = d.scalar(ElementType::Pred, Scalar::Pred(false));
        match d.apply_if(rw.module, something, select, &[best, value], &[no])?[..] {
            [keep] => keep,
            _ => return Ok(None),
        }
    };
    let parts = vec![d.select(keep, best, value), d.select(keep, place, number)];
    let root = d.tuple(parts);
    Ok(Some(d.finish(rw.module, "chosen", root)))
}
