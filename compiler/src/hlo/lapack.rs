//! Custom calls of LAPACK routines, as JAX exports its linear algebra for CPUs.
//!
//! Problem: such a call names a routine and constrains its matrices to stand column by column; everything else here is
//! row-major. Invariant: the operands and results of such a call are logical row-major arrays in every room, before and
//! after the layout pass. Where the constraints say column by column, that is the matrix that LAPACK sees; where
//! they say row by row, LAPACK sees its bytes in the other order, and the call's attributes tell the service so.

use super::{AttrKey, AttrValue, Instruction, Opcode};
use crate::error::{Error, Result, Site};
use brolga_runtime::services::routine::Routine;
use brolga_runtime::{ArrayShape, ElementType, Shape};

/// The attributes of the library service that does what a custom call of a LAPACK routine asks, and the element type
/// that its target names; `None` for every other instruction.
///
/// # Errors
/// Where an option is missing, or where matrices stand in an order that is neither row by row nor column by column.
pub fn lapack(inst: &Instruction) -> Result<Option<(Routine, ElementType, Vec<i64>)>> {
    if inst.opcode != Opcode::CustomCall {
        return Ok(None);
    }
    let target = inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
    let Some((routine, ty)) = Routine::of_target(target) else { return Ok(None) };
    let site = || Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 };
    let by_columns = stands_by_columns(inst).ok_or_else(|| Error::Unsupported {
        site: site(),
        feature: format!("'{target}' of matrices in a mixed order of dimensions"),
    })?;
    let mut attributes = vec![routine as i64, i64::from(!by_columns)];
    let config = inst.attrs.raw(AttrKey::BackendConfig).unwrap_or_default();
    for name in routine.options() {
        attributes.push(option(config, name).ok_or_else(|| Error::Invalid {
            site: site(),
            constraint: "lapack.option",
            message: format!("'{target}' needs the option '{name}' in its backend_config, found {config}"),
        })?);
    }
    // Which eigenvalues come first would be a function of the caller's, of which the call says nothing.
    if routine == Routine::Gees && attributes.get(3) != Some(&i64::from(b'N')) {
        return Err(Error::Unsupported { site: site(), feature: format!("'{target}' with sorted eigenvalues") });
    }
    Ok(Some((routine, ty, attributes)))
}

/// Whether the matrices are meant column by column; `None` where they do not agree.
fn stands_by_columns(inst: &Instruction) -> Option<bool> {
    let none = Vec::new();
    let constraints = match inst.attrs.get(AttrKey::OperandLayoutConstraints) {
        Some(AttrValue::Shapes(shapes)) => shapes,
        _ => &none,
    };
    let rank = constraints.iter().filter_map(|s| Some(s.as_array()?.rank())).max().unwrap_or(0);
    if rank < 2 {
        return Some(false);
    }
    // Of the results only those count that say an order.
    let said = |s: &&ArrayShape| s.layout.is_some();
    let operands = constraints.iter().filter_map(Shape::as_array);
    let results = inst.shape.leaves().into_iter().filter_map(Shape::as_array).filter(said);
    let mut orders = operands.chain(results).filter(|s| s.rank() == rank).map(by_columns);
    let first = orders.next().flatten()?;
    orders.all(|order| order == Some(first)).then_some(first)
}

fn by_columns(shape: &ArrayShape) -> Option<bool> {
    let Some(layout) = &shape.layout else { return Some(false) };
    let order: Vec<usize> = layout.minor_to_major.to_vec();
    let rank = shape.rank();
    let batch = (0..rank.saturating_sub(2)).rev();
    if order.iter().copied().eq((0..rank).rev()) {
        Some(false)
    } else if rank >= 2 && order.into_iter().eq([rank - 2, rank - 1].into_iter().chain(batch)) {
        Some(true)
    } else {
        None
    }
}

/// The value of an option in `{name = 76 : ui8, other = true}`, quoted or not.
fn option(config: &str, name: &str) -> Option<i64> {
    let parts = config.split([',', '{', '}', '"']);
    let value = parts.filter_map(|part| part.split_once('=')).find(|(key, _)| key.trim() == name)?.1;
    match value.split(':').next()?.trim() {
        "true" => Some(1),
        "false" => Some(0),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::text::parse;

    fn of(call: &str) -> Result<Option<(Routine, ElementType, Vec<i64>)>> {
        let text = format!("HloModule m\nENTRY e {{\n p = f32[2,3,3] parameter(0)\n ROOT r = {call}\n}}\n");
        let module = parse(&text).unwrap();
        let entry = module.entry();
        lapack(&entry.instructions[entry.root])
    }

    #[test]
    fn a_call_becomes_the_words_of_its_service() {
        let call = |layout: &str, config: &str| {
            format!(
                "(f32[2,3,3]{layout}, s32[2]{{0}}) custom-call(p), custom_call_target=\"lapack_spotrf_ffi\",
                 operand_layout_constraints={{f32[2,3,3]{layout}}}, api_version=API_VERSION_TYPED_FFI,
                 backend_config={config}"
            )
        };
        let found = of(&call("{1,2,0}", "{uplo = 76 : ui8}")).unwrap().unwrap();
        assert_eq!(found, (Routine::Potrf, ElementType::F32, vec![Routine::Potrf as i64, 0, 76]));
        let found = of(&call("{2,1,0}", "\"{uplo = 85 : ui8}\"")).unwrap().unwrap();
        assert_eq!(found.2, vec![Routine::Potrf as i64, 1, 85]);
        assert!(matches!(of(&call("{0,1,2}", "{uplo = 85 : ui8}")), Err(Error::Unsupported { .. })));
        assert!(matches!(of(&call("{2,1,0}", "{}")), Err(Error::Invalid { constraint: "lapack.option", .. })));
        assert_eq!(of("f32[2,3,3] custom-call(p), custom_call_target=\"lapack\"").unwrap(), None);
        assert_eq!(of("f32[2,3,3] negate(p)").unwrap(), None);
    }

    #[test]
    fn a_schur_form_has_its_eigenvalues_in_no_order() {
        let call = |sort: u8| {
            format!(
                "(f32[2,3,3], f32[2,3,3], f32[2,3], f32[2,3], s32[2], s32[2]) custom-call(p),
                 custom_call_target=\"lapack_sgees_ffi\", api_version=API_VERSION_TYPED_FFI,
                 backend_config={{mode = 86 : ui8, sort = {sort} : ui8}}"
            )
        };
        let found = of(&call(b'N')).unwrap().unwrap();
        assert_eq!(found.2, vec![Routine::Gees as i64, 1, 86, 78]);
        let error = of(&call(b'S')).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("sorted"), "{error}");
    }

    #[test]
    fn options_are_found_by_their_whole_name() {
        assert_eq!(option("{side = 76 : ui8, left = true, x=3}", "left"), Some(1));
        assert_eq!(option("{side = 76 : ui8, left = false}", "ide"), None);
        assert_eq!(option("{high = 4 : i32, low = 1 : i32}", "low"), Some(1));
    }
}
