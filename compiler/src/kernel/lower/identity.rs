//! What changes nothing when a combiner takes it: lanes start from it, and folds of parts of an array.
//!
//! A reducer of one operation has that of the operation. One that chooses, as that of an arg-max does, has the components which it never
//! chooses, proved by [`commute::never_chosen`]: for an arg-max negative infinity with an index as great as there is.

use super::commute;
use crate::hlo::{Computation, Opcode};
use crate::kernel::body::ScalarType;
use crate::kernel::storage;
use brolga_runtime::ElementType;

/// Bits in the form that components have in bodies, or none.
pub(super) fn of(c: &Computation) -> Option<Vec<u64>> {
    of_operation(c).or_else(|| {
        let parameters = c.parameters();
        let greatest = commute::never_chosen(c)?;
        parameters
            .iter()
            .zip(greatest)
            .map(|(&p, greatest)| extreme(c.instructions[p].shape.as_array()?.ty, greatest))
            .collect()
    })
}

/// The identity of a reducer that is one operation on its two parameters.
pub(super) fn of_operation(c: &Computation) -> Option<Vec<u64>> {
    let root = &c.instructions[c.root];
    let ty = root.shape.as_array()?.ty;
    if !is_plain(c) {
        return None;
    }
    if ty.is_complex() {
        return (root.opcode == Opcode::Add).then(|| vec![float(ty, -0.0); 2]);
    }
    Some(vec![match root.opcode {
        // -0 and not 0: -0 + -0 is -0.
        Opcode::Add if ty.is_float() => float(ty, -0.0),
        Opcode::Add | Opcode::Or | Opcode::Xor => 0,
        Opcode::Multiply if ty.is_float() => float(ty, 1.0),
        Opcode::Multiply => 1,
        Opcode::Maximum => extreme(ty, false)?,
        Opcode::Minimum => extreme(ty, true)?,
        Opcode::And if ty.is_signed_integer() => type_mask(ty),
        Opcode::And => extreme(ty, true)?,
        _ => return None,
    }])
}

/// Whether a reducer is one operation on its two parameters.
fn is_plain(c: &Computation) -> bool {
    let root = &c.instructions[c.root];
    root.operands.len() == 2
        && root.operands[0] != root.operands[1]
        && root.operands.iter().all(|&o| c.instructions[o].opcode == Opcode::Parameter)
}

/// Bits of a number in the scalar type of a type.
fn float(ty: ElementType, v: f64) -> u64 {
    match storage::compute_type(ty) {
        ScalarType::F64 => v.to_bits(),
        ScalarType::F32 | ScalarType::I32 | ScalarType::I64 | ScalarType::M32 | ScalarType::M64 => {
            u64::from((v as f32).to_bits())
        }
    }
}

/// Ones in every bit of the scalar type of a type.
fn type_mask(ty: ElementType) -> u64 {
    u64::MAX >> (64 - storage::compute_type(ty).bits())
}

/// The greatest element of a type, or the least, in its scalar type; infinite where the type has floats.
fn extreme(ty: ElementType, greatest: bool) -> Option<u64> {
    let width = ty.bits().min(64);
    Some(match greatest {
        _ if ty.is_float() => float(ty, if greatest { f64::INFINITY } else { f64::NEG_INFINITY }),
        true if ty.is_signed_integer() => (i64::MAX >> (64 - width)) as u64 & type_mask(ty),
        false if ty.is_signed_integer() => (i64::MIN >> (64 - width)) as u64 & type_mask(ty),
        true if ty.is_unsigned_integer() => u64::MAX >> (64 - width),
        false if ty.is_unsigned_integer() => 0,
        _ if ty == ElementType::Pred => u64::from(greatest),
        _ => return None,
    })
}
