//! Bounded dynamic dimensions.
//!
//! Problem: a dimension written `<=8` has a size known only when the program runs. Invariant: inside the interpreter
//! an array always has its true size, so that no operation ever meets padding. Algorithm: before an operation whose
//! result is declared dynamic, its declared dimensions are replaced by those that its operands' true sizes imply.

use super::{array, execution, invalid, unsupported};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use brolga_runtime::{ArrayShape, Literal, Shape};

/// The instruction with a result of true size, where it is declared dynamic and the operation reads that size.
pub(super) fn specialize(inst: &Instruction, operands: &[&Literal]) -> Result<Option<Instruction>> {
    let Shape::Array(shape) = &inst.shape else { return Ok(None) };
    if !shape.is_dynamic() || inst.opcode == Opcode::SetDimensionSize {
        return Ok(None);
    }
    let mut dims = shape.dims.clone();
    match inst.opcode {
        Opcode::Broadcast => {
            let map = inst.attrs.ints_or_empty(AttrKey::Dimensions);
            for (&d, &size) in map.iter().zip(array(inst, operands, 0)?.dims()) {
                let slot = usize::try_from(d).ok().and_then(|d| dims.get_mut(d));
                *slot.ok_or_else(|| invalid(inst, format!("no dimension {d}")))? = size;
            }
        }
        Opcode::DynamicReshape => {
            for (i, size) in dims.iter_mut().enumerate() {
                let value = array(inst, operands, i + 1)?.get(0).as_i64();
                *size = value.clamp(0, *size);
            }
        }
        Opcode::Reshape => {
            let elements = array(inst, operands, 0)?.elements() as i64;
            let dynamic: Vec<usize> = (0..dims.len()).filter(|&d| shape.dynamic[d]).collect();
            if shape.elements() as i64 != elements {
                // One unknown follows from the number of elements; of several, no rule says which.
                let [d] = dynamic[..] else {
                    return Err(unsupported(inst, "reshape to several dynamic dimensions"));
                };
                let others = dims.iter().enumerate().filter(|&(i, _)| i != d).map(|(_, &n)| n);
                let others = others.fold(1i64, i64::saturating_mul);
                if others == 0 || elements % others != 0 || elements / others > dims[d] {
                    return Err(execution(inst, format!("{elements} elements do not fill {shape}")));
                }
                dims[d] = elements / others;
            }
        }
        Opcode::Dot => {
            let (lhs, rhs) = (array(inst, operands, 0)?.dims(), array(inst, operands, 1)?.dims());
            let list = |key| inst.attrs.ints_or_empty(key);
            let free = |dims: &[i64], batch: &[i64], contracting: &[i64]| -> Vec<i64> {
                let taken = |d: usize| batch.iter().chain(contracting).any(|&t| usize::try_from(t) == Ok(d));
                dims.iter().enumerate().filter(|&(d, _)| !taken(d)).map(|(_, &n)| n).collect()
            };
            let batch = list(AttrKey::LhsBatchDims);
            let sizes = batch.iter().map(|&d| usize::try_from(d).ok().and_then(|d| lhs.get(d).copied()));
            let mut actual = sizes.collect::<Option<Vec<i64>>>().ok_or_else(|| invalid(inst, "batch dimensions"))?;
            actual.extend(free(lhs, batch, list(AttrKey::LhsContractingDims)));
            actual.extend(free(rhs, list(AttrKey::RhsBatchDims), list(AttrKey::RhsContractingDims)));
            dims = actual;
        }
        Opcode::Cholesky => dims = array(inst, operands, 0)?.dims().to_vec(),
        Opcode::TriangularSolve => dims = array(inst, operands, 1)?.dims().to_vec(),
        Opcode::Convolution
        | Opcode::Gather
        | Opcode::Scatter
        | Opcode::Fft
        | Opcode::RaggedDot
        | Opcode::ScaledDot => {
            return Err(unsupported(inst, format!("'{}' of dynamic dimensions", inst.opcode)));
        }
        // All others work out their result from their operands.
        _ => {}
    }
    let mut inst = inst.clone();
    inst.shape = Shape::Array(ArrayShape { layout: shape.layout.clone(), ..ArrayShape::new(shape.ty, dims) });
    Ok(Some(inst))
}
