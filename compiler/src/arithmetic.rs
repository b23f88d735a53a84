//! How much arithmetic a program asks for: the count that rates such as GFLOP/s are made of.
//!
//! Invariant: a count is what the program's text says, whatever the compiler makes of it; what only a run can tell, the turns of a
//! loop or the work of a function outside, has no count.

use crate::hlo::{AttrKey, Category, Computation, Instruction, InstructionId, Module, Opcode};

/// Floating point operations of one run: two for each product that is summed, one for each element of any other operation that
/// yields floats (a complex one, too), and for each element that is folded. `None` where that is not known beforehand.
///
/// ```
/// let text = "HloModule m\nENTRY e {\n  x = f32[4,8] parameter(0)\n  y = f32[8,2] parameter(1)\n  \
///             d = f32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT r = f32[4,2] tanh(d)\n}";
/// let module = brolga_compiler::text::parse(text)?;
/// assert_eq!(brolga_compiler::arithmetic::float_operations(&module), Some(2 * 4 * 8 * 2 + 4 * 2));
/// # Ok::<(), brolga_compiler::Error>(())
/// ```
pub fn float_operations(module: &Module) -> Option<u64> {
    let entry = module.entry();
    entry.order.iter().try_fold(0u64, |sum, &id| sum.checked_add(of_instruction(entry, &entry.instructions[id])?))
}

fn of_instruction(computation: &Computation, inst: &Instruction) -> Option<u64> {
    let elements = |inst: &Instruction| -> u64 {
        let leaves = inst.shape.leaves().into_iter().filter_map(|leaf| leaf.as_array());
        leaves.map(|a| a.elements() as u64).max().unwrap_or(0)
    };
    let operand = |n: usize| inst.operands.get(n).map(|&id: &InstructionId| &computation.instructions[id]);
    let leaves = inst.shape.leaves();
    let float = leaves.iter().filter_map(|leaf| leaf.as_array()).any(|a| a.ty.is_float() || a.ty.is_complex());
    let products = |each: u64| elements(inst).checked_mul(each)?.checked_mul(2);
    match (inst.opcode.category(), inst.opcode) {
        (Category::Structure | Category::Movement | Category::Random | Category::Ordering, _) => Some(0),
        (Category::Elementwise, Opcode::Convert | Opcode::Copy | Opcode::Select) => Some(0),
        (Category::Elementwise, _) => Some(if float { elements(inst) } else { 0 }),
        (_, Opcode::Dot) => {
            let dims = &operand(0)?.shape.as_array()?.dims;
            let summed = inst.attrs.dimension_numbers(AttrKey::LhsContractingDims);
            let each = summed.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(*dims.get(d)?).ok()?))?;
            if float { products(each) } else { Some(0) }
        }
        (_, Opcode::Convolution) => {
            let features = inst.attrs.dim_labels(AttrKey::DimLabels)?.kernel_output_feature;
            let kernel = operand(1)?.shape.as_array()?;
            let features = u64::try_from(*kernel.dims.get(features)?).ok()?.max(1);
            if float { products(kernel.elements() as u64 / features) } else { Some(0) }
        }
        (_, Opcode::Reduce | Opcode::Scan) => Some(if float { elements(operand(0)?) } else { 0 }),
        (_, Opcode::ReduceWindow) => {
            let window = inst.attrs.window(AttrKey::Window)?;
            let size = window.iter().try_fold(1u64, |n, w| n.checked_mul(u64::try_from(w.size).ok()?))?;
            if float { elements(inst).checked_mul(size) } else { Some(0) }
        }
        _ => None,
    }
}
