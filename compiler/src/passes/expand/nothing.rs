//! Operations that take nothing from their operands: their results are zeros.

use crate::hlo::{AttrKey, InstructionId, Opcode};
use crate::passes::rewrite::Rewriter;
use brolga_runtime::{ArrayLiteral, ArrayShape};

/// A convolution that sums over no products, or a gather of slices that hold nothing although the result lacks the
/// dimension in which they are empty.
pub fn zeros(rw: &mut Rewriter<'_>, id: InstructionId) -> Option<InstructionId> {
    let instruction = rw.instruction(id);
    let empty = |k: usize| {
        let operand = instruction.operands.get(k).and_then(|&o| rw.array(o));
        operand.is_some_and(|a| !a.is_dynamic() && a.elements() == 0)
    };
    let nothing = match instruction.opcode {
        Opcode::Convolution => empty(0) || empty(1),
        Opcode::Gather => empty(0) || instruction.attrs.ints_or_empty(AttrKey::SliceSizes).contains(&0),
        _ => false,
    };
    let shape = rw.array(id).filter(|shape| nothing && !shape.is_dynamic())?.clone();
    let zero = ArrayLiteral::zeros(&ArrayShape::new(shape.ty, []));
    Some(rw.splat(zero, &shape))
}
